/* Reads safetensors. Owns the maps of the shards and one table of all tensors.
 *
 * The header's JSON tree is freed as soon as a shard is read; it is bounded by
 * the file's own length, so a lying length field costs nothing. */
#include "file/safetensors.h"

#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "file/json.h"
#include "file/names.h"
#include "file/shards.h"

enum {
    MAX_HEADER_BYTES = 100000000, /* the format's own limit */
    MAX_TENSORS = 1 << 20,
};

typedef struct shard {
    char *path;
    wr_map map; /* data NULL when the memory is borrowed */
    const uint8_t *data;
    size_t bytes;
} shard;

struct wr_safetensors {
    shard *shards;
    int n_shards;
    wr_safetensors_tensor *tensors;
    int64_t n_tensors, room;
    wr_names names;
    wr_arena arena; /* names */
};

static const struct {
    const char *name, *format;
    int16_t dtype; /* -1: not computed with */
    int16_t bytes;
} formats[] = {
    {"BOOL", "bool", WEIR_DTYPE_BOOL, 1},
    {"U8", "u8", WEIR_DTYPE_U8, 1},
    {"I8", "i8", WEIR_DTYPE_I8, 1},
    {"U16", "u16", WEIR_DTYPE_U16, 2},
    {"I16", "i16", WEIR_DTYPE_I16, 2},
    {"U32", "u32", WEIR_DTYPE_U32, 4},
    {"I32", "i32", WEIR_DTYPE_I32, 4},
    {"U64", "u64", WEIR_DTYPE_U64, 8},
    {"I64", "i64", WEIR_DTYPE_I64, 8},
    {"F16", "f16", WEIR_DTYPE_F16, 2},
    {"BF16", "bf16", WEIR_DTYPE_BF16, 2},
    {"F32", "f32", WEIR_DTYPE_F32, 4},
    {"F64", "f64", -1, 8},
    {"C64", "c64", -1, 8},
    {"F8_E4M3", "f8_e4m3", WEIR_DTYPE_U8, 1},
    {"F8_E5M2", "f8_e5m2", WEIR_DTYPE_U8, 1},
    {"F8_E8M0", "f8_e8m0", WEIR_DTYPE_U8, 1},
};

/* ---- one header ---- */

/* The tensor's place in its shard's data section while the shard is checked. */
typedef struct span {
    uint64_t start, end;
    int64_t index;
} span;

static weir_status read_dtype(const char *file, wr_safetensors_tensor *t, const json_t *entry, size_t *element,
                              weir_error *err) {
    const char *name = json_string_value(json_object_get(entry, "dtype"));
    if (!name) return WR_FAIL(err, WEIR_E_FORMAT, "%s: tensor '%s' has no dtype", file, t->name);
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(formats[i].name, name) != 0) continue;
        t->format = formats[i].format;
        t->usable = formats[i].dtype >= 0;
        t->dtype = t->usable ? (weir_dtype)formats[i].dtype : WEIR_DTYPE_U8;
        *element = (size_t)formats[i].bytes;
        return WEIR_OK;
    }
    char shown[64];
    wr_json_show(json_object_get(entry, "dtype"), shown, sizeof shown);
    return WR_FAIL(err, WEIR_E_UNSUPPORTED, "%s: tensor '%s' has the unknown dtype %s", file, t->name, shown);
}

static weir_status read_shape(const char *file, wr_safetensors_tensor *t, const json_t *entry, size_t element,
                              weir_error *err) {
    const json_t *shape = json_object_get(entry, "shape");
    if (!json_is_array(shape)) return WR_FAIL(err, WEIR_E_FORMAT, "%s: tensor '%s' has no shape", file, t->name);
    size_t n = json_array_size(shape), bytes = element;
    if (n > WR_SAFETENSORS_DIMS)
        return WR_FAIL(err, WEIR_E_UNSUPPORTED, "%s: tensor '%s' has %zu dimensions; at most %d are read", file,
                       t->name, n, WR_SAFETENSORS_DIMS);
    t->n_dims = (int)n;
    bool fits = true, empty = false;
    for (size_t i = 0; i < n; i++) {
        const json_t *size = json_array_get(shape, i);
        if (!json_is_integer(size) || json_integer_value(size) < 0) {
            char shown[64];
            wr_json_show(size, shown, sizeof shown);
            return WR_FAIL(err, WEIR_E_FORMAT, "%s: tensor '%s': dimension %zu is %s", file, t->name, i, shown);
        }
        t->shape[i] = (int64_t)json_integer_value(size);
        if (t->shape[i] == 0)
            empty = true;
        else
            fits = fits && wr_mul_size(bytes, (size_t)t->shape[i], &bytes);
    }
    /* The product is taken without the zeros, so that [0, 2^63] is refused as well. */
    if (!fits || bytes > INT64_MAX)
        return WR_FAIL(err, WEIR_E_FORMAT, "%s: tensor '%s': the product of its shape overflows", file, t->name);
    t->bytes = empty ? 0 : bytes;
    return WEIR_OK;
}

static weir_status read_offsets(const char *file, wr_safetensors_tensor *t, const json_t *entry, size_t room,
                                span *place, weir_error *err) {
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *from = json_array_get(offsets, 0), *to = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(from) || !json_is_integer(to))
        return WR_FAIL(err, WEIR_E_FORMAT, "%s: tensor '%s': data_offsets is not two integers", file, t->name);
    long long start = (long long)json_integer_value(from), end = (long long)json_integer_value(to);
    if (start < 0 || end < start)
        return WR_FAIL(err, WEIR_E_FORMAT, "%s: tensor '%s': data_offsets [%lld, %lld] are reversed or negative", file,
                       t->name, start, end);
    if ((unsigned long long)end > room)
        return WR_FAIL(err, WEIR_E_FORMAT,
                       "%s: tensor '%s' ends at byte %lld, but the file has only %zu bytes of data; is the download "
                       "complete?",
                       file, t->name, end, room);
    if ((size_t)(end - start) != t->bytes)
        return WR_FAIL(err, WEIR_E_FORMAT, "%s: tensor '%s': its shape and dtype make %zu bytes, its data_offsets %lld",
                       file, t->name, t->bytes, end - start);
    place->start = (uint64_t)start;
    place->end = (uint64_t)end;
    return WEIR_OK;
}

static int compare_spans(const void *a, const void *b) {
    const span *x = a, *y = b;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* In order of place: no overlap, and no hole, which could hide something. What
 * lies behind the last tensor is tolerated. */
static weir_status check_spans(wr_safetensors *st, const char *file, span *spans, size_t n, weir_error *err) {
    qsort(spans, n, sizeof *spans, compare_spans);
    uint64_t end = 0;
    const char *previous = "the header";
    for (size_t i = 0; i < n; i++) {
        const char *name = st->tensors[spans[i].index].name;
        if (spans[i].start < end)
            return WR_FAIL(err, WEIR_E_FORMAT, "%s: tensors '%s' and '%s' overlap", file, previous, name);
        if (spans[i].start > end)
            return WR_FAIL(err, WEIR_E_FORMAT, "%s: %llu bytes between '%s' and '%s' belong to no tensor", file,
                           (unsigned long long)(spans[i].start - end), previous, name);
        end = spans[i].end;
        previous = name;
    }
    return WEIR_OK;
}

static weir_status grow(wr_safetensors *st, size_t more, const char *file, weir_error *err) {
    if (more > MAX_TENSORS || st->n_tensors + (int64_t)more > MAX_TENSORS)
        return WR_FAIL(err, WEIR_E_LIMIT, "%s: more than %d tensors", file, MAX_TENSORS);
    if (st->n_tensors + (int64_t)more <= st->room) return WEIR_OK;
    int64_t room = st->n_tensors + (int64_t)more;
    wr_safetensors_tensor *tensors = wr_realloc(st->tensors, (size_t)room * sizeof *tensors);
    if (!tensors) return WR_FAIL(err, WEIR_E_MEMORY, "%s: out of memory for %lld tensors", file, (long long)room);
    st->tensors = tensors;
    st->room = room;
    return WEIR_OK;
}

static weir_status read_tensors(wr_safetensors *st, const shard *s, json_t *header, size_t data_start, span *spans,
                                weir_error *err) {
    const char *key;
    json_t *entry;
    size_t n = 0;
    int64_t first = st->n_tensors;
    json_object_foreach(header, key, entry) {
        if (strcmp(key, "__metadata__") == 0) {
            if (!json_is_object(entry) && !json_is_null(entry)) /* MLX writes null */
                return WR_FAIL(err, WEIR_E_FORMAT, "%s: __metadata__ is not an object", s->path);
            continue;
        }
        if (!wr_name_is_plain(key, strlen(key)))
            return WR_FAIL(err, WEIR_E_FORMAT, "%s: the name of tensor %zu is empty or not printable ASCII", s->path,
                           n);
        wr_safetensors_tensor *t = &st->tensors[first + (int64_t)n];
        *t = (wr_safetensors_tensor){.shard = (int)(s - st->shards)};
        t->name = wr_arena_strdup(&st->arena, key);
        if (!t->name) return WR_FAIL(err, WEIR_E_MEMORY, "%s: out of memory for names", s->path);
        if (!json_is_object(entry))
            return WR_FAIL(err, WEIR_E_FORMAT, "%s: the entry of tensor '%s' is not an object", s->path, key);
        size_t element = 0;
        WR_TRY(read_dtype(s->path, t, entry, &element, err));
        WR_TRY(read_shape(s->path, t, entry, element, err));
        WR_TRY(read_offsets(s->path, t, entry, s->bytes - data_start, &spans[n], err));
        t->data = s->data + data_start + spans[n].start;
        spans[n].index = first + (int64_t)n;
        n++;
    }
    WR_TRY(check_spans(st, s->path, spans, n, err));
    st->n_tensors += (int64_t)n;
    return WEIR_OK;
}

/* Order in the file, which is not always the header's. */
static int compare_places(const void *a, const void *b) {
    const wr_safetensors_tensor *x = a, *y = b;
    if (x->shard != y->shard) return x->shard < y->shard ? -1 : 1;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    return x->bytes != y->bytes ? (x->bytes < y->bytes ? -1 : 1) : strcmp(x->name, y->name);
}

static weir_status read_shard(wr_safetensors *st, const shard *s, weir_error *err) {
    uint64_t header_bytes;
    if (s->bytes == 0) return WR_FAIL(err, WEIR_E_FORMAT, "%s is empty; download it again", s->path);
    if (s->bytes < 8)
        return WR_FAIL(err, WEIR_E_FORMAT, "%s has only %zu bytes; a safetensors file begins with 8 bytes of length",
                       s->path, s->bytes);
    memcpy(&header_bytes, s->data, 8);
    if (header_bytes > MAX_HEADER_BYTES)
        return WR_FAIL(err, WEIR_E_FORMAT, "%s: the header claims %llu bytes; at most %d are allowed", s->path,
                       (unsigned long long)header_bytes, MAX_HEADER_BYTES);
    if (header_bytes > s->bytes - 8)
        return WR_FAIL(err, WEIR_E_FORMAT,
                       "%s: the header claims %llu bytes, the file has %zu; is the download "
                       "complete?",
                       s->path, (unsigned long long)header_bytes, s->bytes);
    if (header_bytes < 2)
        return WR_FAIL(err, WEIR_E_FORMAT, "%s: a header of %d bytes is too short", s->path, (int)header_bytes);
    if (s->data[8] != '{') return WR_FAIL(err, WEIR_E_FORMAT, "%s: the header does not begin with '{'", s->path);
    json_t *header;
    WR_TRY(wr_json_parse((const char *)s->data + 8, (size_t)header_bytes, s->path, &header, err));
    size_t n = json_object_size(header); /* no array or number: it begins with '{' */
    span *spans = NULL;
    weir_status status;
    WR_TRY_GOTO(status, grow(st, n, s->path, err), done);
    spans = wr_calloc(n + 1, sizeof *spans);
    if (!spans)
        status = WR_FAIL(err, WEIR_E_MEMORY, "%s: out of memory for %zu tensors", s->path, n);
    else
        status = read_tensors(st, s, header, 8 + (size_t)header_bytes, spans, err);
done:
    wr_free(spans);
    json_decref(header);
    return status;
}

/* ---- all shards ---- */

static weir_status index_names(wr_safetensors *st, weir_error *err) {
    if (st->n_tensors > 1) qsort(st->tensors, (size_t)st->n_tensors, sizeof *st->tensors, compare_places);
    if (!wr_names_init(&st->names, (size_t)st->n_tensors))
        return WR_FAIL(err, WEIR_E_MEMORY, "out of memory for %lld tensor names", (long long)st->n_tensors);
    for (int64_t i = 0; i < st->n_tensors; i++) {
        const wr_safetensors_tensor *t = &st->tensors[i];
        int64_t other = wr_names_add(&st->names, t->name, strlen(t->name), i);
        if (other >= 0)
            return WR_FAIL(err, WEIR_E_FORMAT,
                           "tensor '%s' is in both %s and %s; remove the file that is not part of "
                           "the model",
                           t->name, st->shards[st->tensors[other].shard].path, st->shards[t->shard].path);
    }
    return WEIR_OK;
}

static wr_safetensors *new_reader(int n_shards) {
    wr_safetensors *st = wr_calloc(1, sizeof *st);
    if (!st) return NULL;
    wr_arena_init(&st->arena, (size_t)1 << 30);
    st->shards = wr_calloc((size_t)n_shards, sizeof *st->shards);
    if (st->shards) return st;
    wr_safetensors_close(st);
    return NULL;
}

weir_status wr_safetensors_open(const char *path, wr_safetensors **out, weir_error *err) {
    *out = NULL;
    wr_shards list;
    WR_TRY(wr_shards_find(path, &list, err));
    weir_status status = WEIR_OK;
    wr_safetensors *st = new_reader(list.n);
    if (!st) {
        status = WR_FAIL(err, WEIR_E_MEMORY, "%s: out of memory", path);
        goto fail;
    }
    /* All shards are mapped before the first is read, so that a missing one is found at once. */
    for (int i = 0; i < list.n; i++) {
        shard *s = &st->shards[i];
        st->n_shards = i + 1;
        s->path = wr_strdup(list.paths[i]);
        if (!s->path) {
            status = WR_FAIL(err, WEIR_E_MEMORY, "%s: out of memory", path);
            goto fail;
        }
        WR_TRY_GOTO(status, wr_map_open(s->path, &s->map, err), fail);
        s->data = s->map.data;
        s->bytes = s->map.bytes;
    }
    for (int i = 0; i < list.n; i++) WR_TRY_GOTO(status, read_shard(st, &st->shards[i], err), fail);
    WR_TRY_GOTO(status, index_names(st, err), fail);
    wr_shards_free(&list);
    *out = st;
    return WEIR_OK;
fail:
    wr_safetensors_close(st);
    wr_shards_free(&list);
    return status;
}

weir_status wr_safetensors_open_memory(const uint8_t *data, size_t bytes, const char *name, wr_safetensors **out,
                                       weir_error *err) {
    *out = NULL;
    wr_safetensors *st = new_reader(1);
    if (!st) return WR_FAIL(err, WEIR_E_MEMORY, "%s: out of memory", name);
    st->n_shards = 1;
    st->shards[0] = (shard){wr_strdup(name), {0}, data, bytes};
    weir_status status;
    if (!st->shards[0].path) {
        status = WR_FAIL(err, WEIR_E_MEMORY, "%s: out of memory", name);
        goto fail;
    }
    WR_TRY_GOTO(status, read_shard(st, &st->shards[0], err), fail);
    WR_TRY_GOTO(status, index_names(st, err), fail);
    *out = st;
    return WEIR_OK;
fail:
    wr_safetensors_close(st);
    return status;
}

void wr_safetensors_close(wr_safetensors *st) {
    if (!st) return;
    for (int i = 0; i < st->n_shards; i++) {
        wr_map_close(&st->shards[i].map);
        wr_free(st->shards[i].path);
    }
    wr_free(st->shards);
    wr_free(st->tensors);
    wr_names_deinit(&st->names);
    wr_arena_deinit(&st->arena);
    wr_free(st);
}

/* ---- questions ---- */

int64_t wr_safetensors_n_tensors(const wr_safetensors *st) { return st->n_tensors; }

const wr_safetensors_tensor *wr_safetensors_tensor_at(const wr_safetensors *st, int64_t index) {
    return index >= 0 && index < st->n_tensors ? &st->tensors[index] : NULL;
}

const wr_safetensors_tensor *wr_safetensors_tensor_find(const wr_safetensors *st, const char *name) {
    return wr_safetensors_tensor_at(st, wr_names_find(&st->names, name, strlen(name)));
}

int wr_safetensors_n_shards(const wr_safetensors *st) { return st->n_shards; }

const char *wr_safetensors_shard_path(const wr_safetensors *st, int shard_index) {
    return shard_index >= 0 && shard_index < st->n_shards ? st->shards[shard_index].path : NULL;
}

void wr_safetensors_drop(const wr_safetensors *st, const void *data, size_t bytes) {
    const uint8_t *p = data;
    for (int i = 0; i < st->n_shards; i++) {
        const wr_map *map = &st->shards[i].map;
        if (!map->data || p < map->data || p >= map->data + map->bytes) continue;
        size_t offset = (size_t)(p - map->data);
        wr_map_drop(map, offset, bytes < map->bytes - offset ? bytes : map->bytes - offset);
    }
}

void wr_safetensors_rest(const wr_safetensors *st) {
    for (int i = 0; i < st->n_shards; i++) wr_map_drop(&st->shards[i].map, 0, st->shards[i].map.bytes);
}
