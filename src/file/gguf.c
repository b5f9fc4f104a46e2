/* Reads GGUF. Owns the map of the file and the tables of keys and tensors; keys,
 * strings and tensor data stay in the map. Every count is checked against the
 * bytes that are left before memory is taken for it, so a file that lies about
 * its sizes costs no more than its own length. */
#include "file/gguf.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/dtype.h"
#include "base/io.h"
#include "base/mem.h"
#include "file/names.h"
#include "file/quant.h"

enum {
    MAX_KEYS = 1 << 16,
    MAX_TENSORS = 1 << 20,
    MAX_KEY_BYTES = 65535, /* the specification's limit */
    MAX_NAME_BYTES = 255,  /* the specification says 64; some converters wrote more */
    MAX_ARRAY_DEPTH = 4,
    MIN_KEY_BYTES = 8 + 4 + 1,        /* length, type, smallest value */
    MIN_TENSOR_BYTES = 8 + 4 + 4 + 8, /* length, dimensions, type, offset */
};

typedef struct wr_gguf_list {
    const char *key;
    size_t key_bytes;
    wr_gguf_type type, element; /* element: of an array */
    const uint8_t *value;       /* scalars: the value; strings: the text; arrays: the first element */
    int64_t count;              /* strings: bytes; arrays: elements */
    uint32_t *offsets;          /* arrays of strings: of each length field, from value */
} entry;

struct wr_gguf {
    wr_map map; /* data NULL when the memory is borrowed */
    char *name; /* for messages */
    const uint8_t *data;
    size_t bytes, at; /* at: reading position while opening */
    entry *entries;
    wr_gguf_tensor *tensors;
    int64_t n_entries, n_tensors;
    uint64_t alignment;
    wr_names keys, names;
    wr_arena arena; /* tensor names */
};

#define BAD(...)         fail_named(g, err, WEIR_E_FORMAT, __LINE__, __VA_ARGS__)
#define UNSUPPORTED(...) fail_named(g, err, WEIR_E_UNSUPPORTED, __LINE__, __VA_ARGS__)
#define NO_MEMORY()      WR_FAIL(err, WEIR_E_MEMORY, "%s: out of memory for the tables of the file", g->name)

static weir_status fail_named(const wr_gguf *g, weir_error *err, weir_status code, int line, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

static weir_status fail_named(const wr_gguf *g, weir_error *err, weir_status code, int line, const char *format, ...) {
    char text[640];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return wr_fail_at(err, code, __FILE__, line, "%s: %s", g->name, text);
}

static uint32_t load_u32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}
static uint64_t load_u64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

/* ---- reading with bounds ---- */

static weir_status need(const wr_gguf *g, uint64_t bytes, const char *what, weir_error *err) {
    if (bytes <= g->bytes - g->at) return WEIR_OK;
    return BAD("the file ends inside %s: byte %zu plus %" PRIu64 " is beyond its %zu bytes; is the download complete?",
               what, g->at, bytes, g->bytes);
}

static weir_status read_u32(wr_gguf *g, const char *what, uint32_t *out, weir_error *err) {
    WR_TRY(need(g, 4, what, err));
    *out = load_u32(g->data + g->at);
    g->at += 4;
    return WEIR_OK;
}

static weir_status read_u64(wr_gguf *g, const char *what, uint64_t *out, weir_error *err) {
    WR_TRY(need(g, 8, what, err));
    *out = load_u64(g->data + g->at);
    g->at += 8;
    return WEIR_OK;
}

static weir_status read_text(wr_gguf *g, const char *what, uint64_t max, const char **text, size_t *bytes,
                             weir_error *err) {
    uint64_t n;
    WR_TRY(read_u64(g, what, &n, err));
    if (n > max) return BAD("%s at byte %zu is %" PRIu64 " bytes long; at most %" PRIu64, what, g->at - 8, n, max);
    WR_TRY(need(g, n, what, err));
    *text = (const char *)g->data + g->at;
    *bytes = (size_t)n;
    g->at += (size_t)n;
    return WEIR_OK;
}

/* Bytes of a scalar; 0 for strings, arrays and unknown types. */
static uint32_t scalar_bytes(uint32_t type) {
    static const uint8_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type < sizeof sizes ? sizes[type] : 0;
}

/* ---- metadata ---- */

static weir_status skip_strings(wr_gguf *g, const entry *e, uint64_t n, uint32_t *offsets, weir_error *err) {
    size_t start = g->at, at = g->at;
    for (uint64_t i = 0; i < n; i++) {
        if (g->bytes - at < 8) break;
        uint64_t bytes = load_u64(g->data + at);
        if (bytes > g->bytes - at - 8)
            return BAD("key '%.*s': string %" PRIu64 " of %" PRIu64 " is %" PRIu64 " bytes long, %zu are left",
                       (int)e->key_bytes, e->key, i, n, bytes, g->bytes - at - 8);
        if (at - start > UINT32_MAX) return BAD("key '%.*s': strings of more than 4 GiB", (int)e->key_bytes, e->key);
        if (offsets) offsets[i] = (uint32_t)(at - start);
        at += 8 + (size_t)bytes;
        if (i + 1 == n) {
            g->at = at;
            return WEIR_OK;
        }
    }
    if (n == 0) return WEIR_OK;
    return BAD("key '%.*s': the file ends inside an array of %" PRIu64 " strings", (int)e->key_bytes, e->key, n);
}

static weir_status read_array(wr_gguf *g, entry *e, int depth, weir_error *err) {
    uint32_t type;
    uint64_t n;
    WR_TRY(read_u32(g, "an array's type", &type, err));
    WR_TRY(read_u64(g, "an array's count", &n, err));
    if (type > WR_GGUF_F64) return BAD("key '%.*s': unknown array type %u", (int)e->key_bytes, e->key, type);
    /* An array inside an array is at least 12 bytes, a string 8. */
    uint64_t least = type == WR_GGUF_ARRAY ? 12 : type == WR_GGUF_STRING ? 8 : scalar_bytes(type);
    if (n > (g->bytes - g->at) / least)
        return BAD("key '%.*s': an array of %" PRIu64 " elements, but only %zu bytes are left in the file",
                   (int)e->key_bytes, e->key, n, g->bytes - g->at);
    if (depth == 0) {
        e->element = (wr_gguf_type)type;
        e->count = (int64_t)n;
        e->value = g->data + g->at;
    }
    if (type == WR_GGUF_ARRAY) {
        if (depth + 1 >= MAX_ARRAY_DEPTH)
            return BAD("key '%.*s': arrays nested deeper than %d", (int)e->key_bytes, e->key, MAX_ARRAY_DEPTH);
        for (uint64_t i = 0; i < n; i++) WR_TRY(read_array(g, e, depth + 1, err));
        return WEIR_OK;
    }
    if (type != WR_GGUF_STRING) {
        g->at += (size_t)(n * least);
        return WEIR_OK;
    }
    uint32_t *offsets = NULL;
    if (depth == 0 && n > 0) {
        offsets = e->offsets = wr_malloc((size_t)n * sizeof *offsets);
        if (!offsets) return NO_MEMORY();
    }
    return skip_strings(g, e, n, offsets, err);
}

static weir_status read_entry(wr_gguf *g, entry *e, weir_error *err) {
    uint32_t type;
    size_t start = g->at;
    WR_TRY(read_text(g, "a metadata key", MAX_KEY_BYTES, &e->key, &e->key_bytes, err));
    if (!wr_name_is_plain(e->key, e->key_bytes))
        return BAD("the metadata key at byte %zu is empty or not printable ASCII", start);
    WR_TRY(read_u32(g, "a metadata type", &type, err));
    if (type > WR_GGUF_F64) return BAD("key '%.*s': unknown metadata type %u", (int)e->key_bytes, e->key, type);
    e->type = (wr_gguf_type)type;
    e->value = g->data + g->at;
    if (type == WR_GGUF_ARRAY) return read_array(g, e, 0, err);
    if (type == WR_GGUF_STRING) {
        const char *text;
        size_t bytes;
        WR_TRY(read_text(g, "a metadata string", UINT64_MAX, &text, &bytes, err));
        e->value = (const uint8_t *)text;
        e->count = (int64_t)bytes;
        return WEIR_OK;
    }
    WR_TRY(need(g, scalar_bytes(type), "a metadata value", err));
    g->at += scalar_bytes(type);
    return WEIR_OK;
}

static weir_status read_metadata(wr_gguf *g, uint64_t n, weir_error *err) {
    if (n > MAX_KEYS || n > (g->bytes - g->at) / MIN_KEY_BYTES)
        return BAD("%" PRIu64 " metadata keys are announced; at most %d, and the file has only %zu bytes", n, MAX_KEYS,
                   g->bytes);
    g->entries = wr_calloc((size_t)n + 1, sizeof *g->entries);
    if (!g->entries || !wr_names_init(&g->keys, (size_t)n)) return NO_MEMORY();
    for (uint64_t i = 0; i < n; i++) {
        entry *e = &g->entries[i];
        g->n_entries = (int64_t)i + 1; /* so that closing frees the offsets of a broken array */
        WR_TRY(read_entry(g, e, err));
        if (wr_names_add(&g->keys, e->key, e->key_bytes, (int64_t)i) >= 0)
            return BAD("metadata key '%.*s' appears twice", (int)e->key_bytes, e->key);
    }
    g->alignment = 32;
    int64_t alignment;
    if (wr_gguf_has(g, "general.alignment")) {
        if (!wr_gguf_int(g, "general.alignment", &alignment)) return BAD("general.alignment is not an integer");
        if (alignment < 8 || alignment > 65536 || (alignment & (alignment - 1)) != 0)
            return BAD("general.alignment is %" PRId64 "; it must be a power of two from 8 to 65536", alignment);
        g->alignment = (uint64_t)alignment;
    }
    int64_t parts;
    if (wr_gguf_int(g, "split.count", &parts) && parts > 1)
        return UNSUPPORTED("the model is split over %" PRId64 " files (split.count); merge them into one first", parts);
    return WEIR_OK;
}

/* ---- tensors ---- */

typedef struct format {
    const char *name;
    int16_t quant; /* -1: not supported */
    int16_t dtype; /* for dense ones */
} format;

static const format formats[] = {
    [0] = {"F32", WEIR_QUANT_NONE, WEIR_DTYPE_F32},
    [1] = {"F16", WEIR_QUANT_NONE, WEIR_DTYPE_F16},
    [2] = {"Q4_0", WEIR_QUANT_Q4_0, 0},
    [3] = {"Q4_1", WEIR_QUANT_Q4_1, 0},
    [4] = {"Q4_2", -1, 0},
    [5] = {"Q4_3", -1, 0},
    [6] = {"Q5_0", WEIR_QUANT_Q5_0, 0},
    [7] = {"Q5_1", WEIR_QUANT_Q5_1, 0},
    [8] = {"Q8_0", WEIR_QUANT_Q8_0, 0},
    [9] = {"Q8_1", -1, 0},
    [10] = {"Q2_K", WEIR_QUANT_Q2_K, 0},
    [11] = {"Q3_K", WEIR_QUANT_Q3_K, 0},
    [12] = {"Q4_K", WEIR_QUANT_Q4_K, 0},
    [13] = {"Q5_K", WEIR_QUANT_Q5_K, 0},
    [14] = {"Q6_K", WEIR_QUANT_Q6_K, 0},
    [15] = {"Q8_K", -1, 0},
    [16] = {"IQ2_XXS", -1, 0},
    [17] = {"IQ2_XS", -1, 0},
    [18] = {"IQ3_XXS", -1, 0},
    [19] = {"IQ1_S", -1, 0},
    [20] = {"IQ4_NL", -1, 0},
    [21] = {"IQ3_S", -1, 0},
    [22] = {"IQ2_S", -1, 0},
    [23] = {"IQ4_XS", -1, 0},
    [24] = {"I8", -1, 0},
    [25] = {"I16", -1, 0},
    [26] = {"I32", -1, 0},
    [27] = {"I64", -1, 0},
    [28] = {"F64", -1, 0},
    [29] = {"IQ1_M", -1, 0},
    [30] = {"BF16", WEIR_QUANT_NONE, WEIR_DTYPE_BF16},
    [34] = {"TQ1_0", -1, 0},
    [35] = {"TQ2_0", -1, 0},
    [39] = {"MXFP4", -1, 0},
};

static weir_status read_shape(wr_gguf *g, wr_gguf_tensor *t, weir_error *err) {
    uint32_t n_dims;
    WR_TRY(read_u32(g, "a tensor's dimensions", &n_dims, err));
    if (n_dims < 1 || n_dims > 4) return BAD("tensor '%s' has %u dimensions; 1 to 4 are allowed", t->name, n_dims);
    t->n_dims = (int)n_dims;
    int64_t elements = 1;
    for (uint32_t i = 0; i < n_dims; i++) {
        uint64_t size;
        WR_TRY(read_u64(g, "a tensor's dimensions", &size, err));
        if (size == 0 || size > INT64_MAX) return BAD("tensor '%s': dimension %u is %" PRIu64, t->name, i, size);
        t->shape[n_dims - 1 - i] = (int64_t)size; /* the file has the innermost first */
        if (__builtin_mul_overflow(elements, (int64_t)size, &elements))
            return BAD("tensor '%s': the product of its dimensions overflows", t->name);
    }
    return WEIR_OK;
}

static weir_status read_tensor(wr_gguf *g, wr_gguf_tensor *t, uint64_t *offset, weir_error *err) {
    const char *name;
    size_t name_bytes, start = g->at;
    WR_TRY(read_text(g, "a tensor's name", MAX_NAME_BYTES, &name, &name_bytes, err));
    if (!wr_name_is_plain(name, name_bytes))
        return BAD("the tensor name at byte %zu is empty or not printable ASCII", start);
    t->name = wr_arena_strndup(&g->arena, name, name_bytes);
    if (!t->name) return NO_MEMORY();
    WR_TRY(read_shape(g, t, err));
    uint32_t type;
    WR_TRY(read_u32(g, "a tensor's type", &type, err));
    WR_TRY(read_u64(g, "a tensor's offset", offset, err));
    if (type >= sizeof formats / sizeof *formats || !formats[type].name)
        return UNSUPPORTED("tensor '%s' has the unknown type %u", t->name, type);
    if (formats[type].quant < 0)
        return UNSUPPORTED("tensor '%s' has type %u (%s), which weir does not read", t->name, type, formats[type].name);
    t->quant = wr_quant_default((weir_quant_mode)formats[type].quant);
    t->dtype = (weir_dtype)formats[type].dtype;
    int64_t cols = t->shape[t->n_dims - 1], rows = 1;
    for (int i = 0; i + 1 < t->n_dims; i++) rows *= t->shape[i];
    wr_quant_sizes sizes;
    weir_status status = wr_quant_bytes(t->quant, t->dtype, 1, rows, cols, &sizes, err);
    if (status != WEIR_OK) {
        wr_err_context(err, "tensor '%s' of %s", t->name, g->name);
        return status;
    }
    t->bytes = sizes.data;
    if (*offset % g->alignment != 0)
        return BAD("tensor '%s': offset %" PRIu64 " is not a multiple of the alignment %" PRIu64, t->name, *offset,
                   g->alignment);
    return WEIR_OK;
}

typedef struct span {
    uint64_t start, end;
    int64_t index;
} span;

static int compare_spans(const void *a, const void *b) {
    const span *x = a, *y = b;
    return x->start != y->start ? (x->start < y->start ? -1 : 1) : (x->end > y->end) - (x->end < y->end);
}

/* Place the tensors in the data section and refuse what is outside or overlaps. */
static weir_status place_tensors(wr_gguf *g, span *spans, weir_error *err) {
    size_t mask = (size_t)g->alignment - 1, start = 0;
    if (!wr_add_size(g->at, mask, &start)) return BAD("the header is too long");
    start &= ~mask;
    size_t room = start <= g->bytes ? g->bytes - start : 0;
    for (int64_t i = 0; i < g->n_tensors; i++) {
        wr_gguf_tensor *t = &g->tensors[i];
        if (t->bytes > room || spans[i].start > room - t->bytes)
            return BAD("tensor '%s' lies at %" PRIu64 " and is %zu bytes long, but the file has only %zu bytes of "
                       "tensor data; is the download complete?",
                       t->name, spans[i].start, t->bytes, room);
        t->data = g->data + start + (size_t)spans[i].start;
        spans[i].end = spans[i].start + t->bytes;
    }
    qsort(spans, (size_t)g->n_tensors, sizeof *spans, compare_spans);
    for (int64_t i = 1; i < g->n_tensors; i++)
        if (spans[i].start < spans[i - 1].end)
            return BAD("tensors '%s' and '%s' overlap", g->tensors[spans[i - 1].index].name,
                       g->tensors[spans[i].index].name);
    return WEIR_OK;
}

static weir_status read_tensors(wr_gguf *g, uint64_t n, weir_error *err) {
    if (n > MAX_TENSORS || n > (g->bytes - g->at) / MIN_TENSOR_BYTES)
        return BAD("%" PRIu64 " tensors are announced; at most %d, and the file has only %zu bytes", n, MAX_TENSORS,
                   g->bytes);
    span *spans = wr_calloc((size_t)n + 1, sizeof *spans);
    g->tensors = wr_calloc((size_t)n + 1, sizeof *g->tensors);
    weir_status status = WEIR_OK;
    if (!spans || !g->tensors || !wr_names_init(&g->names, (size_t)n)) {
        status = NO_MEMORY();
        goto done;
    }
    for (uint64_t i = 0; i < n; i++) {
        wr_gguf_tensor *t = &g->tensors[i];
        WR_TRY_GOTO(status, read_tensor(g, t, &spans[i].start, err), done);
        spans[i].index = (int64_t)i;
        if (wr_names_add(&g->names, t->name, strlen(t->name), (int64_t)i) >= 0) {
            status = BAD("tensor '%s' appears twice", t->name);
            goto done;
        }
        g->n_tensors = (int64_t)i + 1;
    }
    status = place_tensors(g, spans, err);
done:
    wr_free(spans);
    return status;
}

/* ---- open and close ---- */

static weir_status read_all(wr_gguf *g, weir_error *err) {
    uint32_t magic, version;
    uint64_t n_tensors, n_entries;
    WR_TRY(read_u32(g, "the magic", &magic, err));
    if (memcmp(g->data, "GGUF", 4) != 0) return BAD("it does not begin with 'GGUF'; this is not a GGUF file");
    WR_TRY(read_u32(g, "the version", &version, err));
    if (version != 0 && (version & 0xffff) == 0)
        return UNSUPPORTED("it is big-endian; only little-endian GGUF is read");
    if (version != 2 && version != 3) return UNSUPPORTED("GGUF version %u; versions 2 and 3 are read", version);
    WR_TRY(read_u64(g, "the number of tensors", &n_tensors, err));
    WR_TRY(read_u64(g, "the number of metadata keys", &n_entries, err));
    WR_TRY(read_metadata(g, n_entries, err));
    return read_tensors(g, n_tensors, err);
}

static weir_status open_map(wr_map map, const uint8_t *data, size_t bytes, const char *name, wr_gguf **out,
                            weir_error *err) {
    wr_gguf *g = wr_calloc(1, sizeof *g);
    weir_status status = WEIR_E_MEMORY;
    if (!g) {
        wr_map_close(&map);
        return WR_FAIL(err, WEIR_E_MEMORY, "%s: out of memory", name);
    }
    g->map = map;
    g->data = data;
    g->bytes = bytes;
    wr_arena_init(&g->arena, (size_t)256 << 20); /* 1M names of 255 bytes */
    g->name = wr_strdup(name);
    if (!g->name) {
        status = WR_FAIL(err, WEIR_E_MEMORY, "%s: out of memory", name);
        goto fail;
    }
    WR_TRY_GOTO(status, read_all(g, err), fail);
    *out = g;
    return WEIR_OK;
fail:
    wr_gguf_close(g);
    return status;
}

weir_status wr_gguf_open(const char *path, wr_gguf **out, weir_error *err) {
    *out = NULL;
    wr_map map;
    WR_TRY(wr_map_open(path, &map, err));
    if (map.bytes == 0) {
        wr_map_close(&map);
        return WR_FAIL(err, WEIR_E_FORMAT, "%s is empty; download it again", path);
    }
    return open_map(map, map.data, map.bytes, path, out, err);
}

weir_status wr_gguf_open_memory(const uint8_t *data, size_t bytes, const char *name, wr_gguf **out, weir_error *err) {
    *out = NULL;
    return open_map((wr_map){0}, data, bytes, name, out, err);
}

void wr_gguf_close(wr_gguf *g) {
    if (!g) return;
    for (int64_t i = 0; i < g->n_entries; i++) wr_free(g->entries[i].offsets);
    wr_free(g->entries);
    wr_free(g->tensors);
    wr_names_deinit(&g->keys);
    wr_names_deinit(&g->names);
    wr_arena_deinit(&g->arena);
    wr_map_close(&g->map);
    wr_free(g->name);
    wr_free(g);
}

void wr_gguf_drop(const wr_gguf *g, const void *data, size_t bytes) {
    const uint8_t *p = data;
    if (!g->map.data || p < g->map.data || p >= g->map.data + g->map.bytes) return;
    size_t offset = (size_t)(p - g->map.data);
    if (bytes > g->map.bytes - offset) bytes = g->map.bytes - offset;
    wr_map_drop(&g->map, offset, bytes);
}

void wr_gguf_rest(const wr_gguf *g) { wr_map_drop(&g->map, 0, g->map.bytes); }

/* ---- questions ---- */

int64_t wr_gguf_n_tensors(const wr_gguf *g) { return g->n_tensors; }

const wr_gguf_tensor *wr_gguf_tensor_at(const wr_gguf *g, int64_t index) {
    return index >= 0 && index < g->n_tensors ? &g->tensors[index] : NULL;
}

const wr_gguf_tensor *wr_gguf_tensor_find(const wr_gguf *g, const char *name) {
    return wr_gguf_tensor_at(g, wr_names_find(&g->names, name, strlen(name)));
}

static const entry *find_entry(const wr_gguf *g, const char *key) {
    int64_t i = wr_names_find(&g->keys, key, strlen(key));
    return i >= 0 ? &g->entries[i] : NULL;
}

static bool load_int(wr_gguf_type type, const uint8_t *p, int64_t *out) {
    uint64_t bits = 0;
    memcpy(&bits, p, scalar_bytes(type));
    switch (type) {
    case WR_GGUF_U8:
    case WR_GGUF_U16:
    case WR_GGUF_U32: *out = (int64_t)bits; return true;
    case WR_GGUF_BOOL: *out = bits != 0; return true;
    case WR_GGUF_I8: *out = (int8_t)bits; return true;
    case WR_GGUF_I16: *out = (int16_t)bits; return true;
    case WR_GGUF_I32: *out = (int32_t)bits; return true;
    case WR_GGUF_I64: *out = (int64_t)bits; return true;
    case WR_GGUF_U64: *out = (int64_t)bits; return bits <= INT64_MAX;
    default: return false;
    }
}

static bool load_float(wr_gguf_type type, const uint8_t *p, double *out) {
    int64_t integer;
    float f;
    if (type == WR_GGUF_F64) {
        memcpy(out, p, 8);
        return true;
    }
    if (type == WR_GGUF_F32) {
        memcpy(&f, p, 4);
        *out = (double)f;
        return true;
    }
    if (type == WR_GGUF_BOOL || !load_int(type, p, &integer)) return false;
    *out = (double)integer;
    return true;
}

bool wr_gguf_has(const wr_gguf *g, const char *key) { return find_entry(g, key) != NULL; }

bool wr_gguf_int(const wr_gguf *g, const char *key, int64_t *out) {
    const entry *e = find_entry(g, key);
    return e && scalar_bytes(e->type) && load_int(e->type, e->value, out);
}

bool wr_gguf_float(const wr_gguf *g, const char *key, double *out) {
    const entry *e = find_entry(g, key);
    return e && scalar_bytes(e->type) && load_float(e->type, e->value, out);
}

bool wr_gguf_string(const wr_gguf *g, const char *key, const char **text, size_t *bytes) {
    const entry *e = find_entry(g, key);
    if (!e || e->type != WR_GGUF_STRING) return false;
    *text = (const char *)e->value;
    *bytes = (size_t)e->count;
    return true;
}

const wr_gguf_list *wr_gguf_list_find(const wr_gguf *g, const char *key) {
    const entry *e = find_entry(g, key);
    return e && e->type == WR_GGUF_ARRAY ? e : NULL;
}

bool wr_gguf_array(const wr_gguf *g, const char *key, wr_gguf_type *type, int64_t *n) {
    const entry *e = wr_gguf_list_find(g, key);
    if (!e) return false;
    *type = e->element;
    *n = e->count;
    return true;
}

/* The bytes of an array's scalar element, or NULL. */
static const uint8_t *array_element(const entry *e, int64_t index) {
    if (!e || index < 0 || index >= e->count || !scalar_bytes(e->element)) return NULL;
    return e->value + (size_t)index * scalar_bytes(e->element);
}

bool wr_gguf_list_int(const wr_gguf_list *list, int64_t index, int64_t *out) {
    const uint8_t *p = array_element(list, index);
    return p && load_int(list->element, p, out);
}

bool wr_gguf_list_float(const wr_gguf_list *list, int64_t index, double *out) {
    const uint8_t *p = array_element(list, index);
    return p && load_float(list->element, p, out);
}

bool wr_gguf_list_string(const wr_gguf_list *list, int64_t index, const char **text, size_t *bytes) {
    if (!list || list->element != WR_GGUF_STRING || index < 0 || index >= list->count) return false;
    const uint8_t *p = list->value + list->offsets[index];
    *bytes = (size_t)load_u64(p); /* checked at open */
    *text = (const char *)p + 8;
    return true;
}

bool wr_gguf_array_int(const wr_gguf *g, const char *key, int64_t index, int64_t *out) {
    return wr_gguf_list_int(wr_gguf_list_find(g, key), index, out);
}

bool wr_gguf_array_float(const wr_gguf *g, const char *key, int64_t index, double *out) {
    return wr_gguf_list_float(wr_gguf_list_find(g, key), index, out);
}

bool wr_gguf_array_string(const wr_gguf *g, const char *key, int64_t index, const char **text, size_t *bytes) {
    return wr_gguf_list_string(wr_gguf_list_find(g, key), index, text, bytes);
}
