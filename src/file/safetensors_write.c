/* Owns the files being written and the table of their tensors.
 *
 * A header must say where everything lies before any data is written, hence the
 * order: names, layout, files, data. Each header is padded with spaces (the format
 * allows that) so that the data starts at a multiple of 64 and can be used where it
 * is mapped. */
#include "file/safetensors_write.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "file/json.h"
#include "file/names.h"
#include "file/safetensors.h"

enum { DATA_ALIGN = 64, LENGTH_BYTES = 8, MAX_TENSORS = 1 << 20, MAX_SHARDS = 10000, ARENA_CAP_BYTES = 1 << 28 };
#define DEFAULT_SHARD_BYTES ((uint64_t)4 << 30)

typedef struct entry {
    const char *name; /* in the arena */
    weir_dtype dtype;
    int n_dims, shard;
    int64_t shape[WR_SAFETENSORS_DIMS];
    uint64_t bytes, offset; /* in the data of its shard */
} entry;

typedef struct shard {
    wr_out out;
    char *header; /* malloc's, with the length before and the padding behind */
    uint64_t header_bytes, data_bytes;
} shard;

struct wr_safetensors_writer {
    uint64_t shard_bytes;
    entry *entries;
    int64_t n, room;
    shard *shards;
    int n_shards;
    uint64_t data_bytes;
    _Atomic uint64_t written_bytes;
    wr_names names;
    wr_arena arena;
};

static const char *const dtype_names[WEIR_DTYPE_COUNT] = {
    [WEIR_DTYPE_BOOL] = "BOOL", [WEIR_DTYPE_U8] = "U8",   [WEIR_DTYPE_U16] = "U16",   [WEIR_DTYPE_U32] = "U32",
    [WEIR_DTYPE_U64] = "U64",   [WEIR_DTYPE_I8] = "I8",   [WEIR_DTYPE_I16] = "I16",   [WEIR_DTYPE_I32] = "I32",
    [WEIR_DTYPE_I64] = "I64",   [WEIR_DTYPE_F16] = "F16", [WEIR_DTYPE_BF16] = "BF16", [WEIR_DTYPE_F32] = "F32"};

weir_status wr_safetensors_writer_new(uint64_t shard_bytes, wr_safetensors_writer **out, weir_error *err) {
    *out = NULL;
    wr_json_setup();
    wr_safetensors_writer *w = wr_calloc(1, sizeof *w);
    if (!w) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the writer");
    w->shard_bytes = shard_bytes ? shard_bytes : DEFAULT_SHARD_BYTES;
    wr_arena_init(&w->arena, ARENA_CAP_BYTES);
    *out = w;
    return WEIR_OK;
}

void wr_safetensors_writer_free(wr_safetensors_writer *w) {
    if (!w) return;
    for (int i = 0; i < w->n_shards; i++) {
        (void)wr_out_close(&w->shards[i].out, NULL);
        wr_free(w->shards[i].header);
    }
    wr_free(w->shards);
    wr_free(w->entries);
    wr_names_deinit(&w->names);
    wr_arena_deinit(&w->arena);
    wr_free(w);
}

weir_status wr_safetensors_writer_add(wr_safetensors_writer *w, const char *name, weir_dtype dtype, int n_dims,
                                      const int64_t *shape, weir_error *err) {
    if (w->shards) return WR_FAIL(err, WEIR_E_STATE, "%s comes after the layout was made", name);
    if ((unsigned)dtype >= WEIR_DTYPE_COUNT || n_dims < 0 || n_dims > WR_SAFETENSORS_DIMS)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "%s: dtype %d with %d dimensions", name, (int)dtype, n_dims);
    entry e = {.dtype = dtype, .n_dims = n_dims, .bytes = weir_dtype_bytes(dtype)};
    for (int i = 0; i < n_dims; i++) {
        e.shape[i] = shape[i];
        if (shape[i] < 0 || __builtin_mul_overflow(e.bytes, (uint64_t)shape[i], &e.bytes))
            return WR_FAIL(err, WEIR_E_ARGUMENT, "%s: dimension %d is %lld", name, i, (long long)shape[i]);
    }
    if (w->n == MAX_TENSORS) return WR_FAIL(err, WEIR_E_LIMIT, "more than %d tensors", MAX_TENSORS);
    if (w->n == w->room) {
        int64_t room = w->room ? w->room * 2 : 256;
        entry *larger = wr_realloc(w->entries, (size_t)room * sizeof *larger);
        if (!larger) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for %lld tensors", (long long)room);
        w->entries = larger, w->room = room;
    }
    e.name = wr_arena_strdup(&w->arena, name);
    if (!e.name) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the name %s", name);
    if (__builtin_add_overflow(w->data_bytes, e.bytes, &w->data_bytes))
        return WR_FAIL(err, WEIR_E_LIMIT, "%s: the files exceed 2^64 bytes", name);
    w->entries[w->n++] = e;
    return WEIR_OK;
}

/* ---- layout ---- */

static weir_status check_names(wr_safetensors_writer *w, weir_error *err) {
    if (!wr_names_init(&w->names, (size_t)w->n)) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the tensors' names");
    for (int64_t i = 0; i < w->n; i++)
        if (wr_names_add(&w->names, w->entries[i].name, strlen(w->entries[i].name), i) >= 0)
            return WR_FAIL(err, WEIR_E_FORMAT, "tensor %s is there twice", w->entries[i].name);
    return WEIR_OK;
}

/* Cut the tensors into shards, in order; an empty list is one file. Returns how many there are. */
static int assign_shards(wr_safetensors_writer *w) {
    int last = 0;
    uint64_t used = 0;
    for (int64_t i = 0; i < w->n; i++) {
        entry *e = &w->entries[i];
        if (used && (e->bytes > w->shard_bytes || used > w->shard_bytes - e->bytes)) last++, used = 0;
        e->shard = last;
        e->offset = used;
        used += e->bytes;
    }
    return last + 1;
}

static json_t *entry_json(const entry *e) {
    json_t *shape = json_array();
    int failed = 0;
    for (int i = 0; i < e->n_dims; i++) failed |= json_array_append_new(shape, json_integer(e->shape[i]));
    if (failed) { /* out of memory: the caller sees it from the NULL */
        json_decref(shape);
        return NULL;
    }
    return json_pack("{s:s,s:o,s:[I,I]}", "dtype", dtype_names[e->dtype], "shape", shape, "data_offsets",
                     (json_int_t)e->offset, (json_int_t)(e->offset + e->bytes));
}

static weir_status make_header(wr_safetensors_writer *w, int index, weir_error *err) {
    shard *s = &w->shards[index];
    char *text;
    json_t *root = json_pack("{s:{s:s}}", "__metadata__", "format", "mlx");
    int failed = root == NULL;
    for (int64_t i = 0; i < w->n; i++) {
        const entry *e = &w->entries[i];
        if (e->shard != index) continue;
        s->data_bytes += e->bytes;
        failed |= json_object_set_new(root, e->name, entry_json(e));
    }
    weir_status status = wr_json_text(failed ? NULL : root, JSON_COMPACT, &text, err);
    json_decref(root);
    WR_TRY(status);
    size_t length = strlen(text);
    s->header_bytes = (LENGTH_BYTES + length + DATA_ALIGN - 1) / DATA_ALIGN * DATA_ALIGN;
    s->header = wr_malloc(s->header_bytes);
    if (s->header) {
        uint64_t said = s->header_bytes - LENGTH_BYTES;
        for (int i = 0; i < LENGTH_BYTES; i++) s->header[i] = (char)(said >> 8 * i); /* little-endian */
        memset(s->header + LENGTH_BYTES, ' ', said);
        memcpy(s->header + LENGTH_BYTES, text, length);
    }
    wr_free(text);
    if (!s->header) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a header of %zu bytes", length);
    return WEIR_OK;
}

weir_status wr_safetensors_writer_layout(wr_safetensors_writer *w, weir_error *err) {
    if (w->shards) return WR_FAIL(err, WEIR_E_STATE, "the layout is made already");
    WR_TRY(check_names(w, err));
    int n = assign_shards(w);
    if (n > MAX_SHARDS)
        return WR_FAIL(err, WEIR_E_LIMIT, "files of %llu bytes would be %d; at most %d are allowed",
                       (unsigned long long)w->shard_bytes, n, MAX_SHARDS);
    w->shards = wr_calloc((size_t)n, sizeof *w->shards);
    if (!w->shards) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for %d files", n);
    for (int i = 0; i < n; i++) w->shards[i].out.fd = -1;
    w->n_shards = n;
    for (int i = 0; i < n; i++) WR_TRY(make_header(w, i, err));
    return WEIR_OK;
}

uint64_t wr_safetensors_writer_bytes(const wr_safetensors_writer *w) {
    uint64_t bytes = w->data_bytes;
    for (int i = 0; i < w->n_shards; i++) bytes += w->shards[i].header_bytes;
    return bytes;
}

int wr_safetensors_writer_n_shards(const wr_safetensors_writer *w) { return w->n_shards; }

/* ---- files ---- */

static void shard_name(const wr_safetensors_writer *w, int index, char out[64]) {
    if (w->n_shards == 1)
        snprintf(out, 64, "model.safetensors");
    else
        snprintf(out, 64, "model-%05d-of-%05d.safetensors", index + 1, w->n_shards);
}

static weir_status create_shard(wr_safetensors_writer *w, const char *folder, int index, weir_error *err) {
    shard *s = &w->shards[index];
    char name[64];
    shard_name(w, index, name);
    char *path = wr_path_join(folder, name);
    if (!path) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the name of %s", name);
    weir_status status = wr_out_create(path, s->header_bytes + s->data_bytes, &s->out, err);
    wr_free(path);
    WR_TRY(status);
    return wr_out_write(&s->out, 0, s->header, s->header_bytes, err);
}

static weir_status write_index(const wr_safetensors_writer *w, const char *folder, weir_error *err) {
    char name[64], *text, *path = wr_path_join(folder, "model.safetensors.index.json");
    json_t *map = json_object();
    int failed = map == NULL || path == NULL;
    for (int64_t i = 0; i < w->n && !failed; i++) {
        shard_name(w, w->entries[i].shard, name);
        failed = json_object_set_new(map, w->entries[i].name, json_string(name));
    }
    json_t *root = json_pack("{s:{s:I},s:o}", "metadata", "total_size", (json_int_t)w->data_bytes, "weight_map", map);
    weir_status status = wr_json_text(failed ? NULL : root, JSON_INDENT(4), &text, err);
    if (status == WEIR_OK) status = wr_file_write(path, text, strlen(text), err);
    wr_free(path);
    wr_free(text);
    json_decref(root);
    return status;
}

weir_status wr_safetensors_writer_create(wr_safetensors_writer *w, const char *folder, weir_error *err) {
    if (!w->shards) return WR_FAIL(err, WEIR_E_STATE, "%s: files before the layout was made", folder);
    for (int i = 0; i < w->n_shards; i++) WR_TRY(create_shard(w, folder, i, err));
    return w->n_shards > 1 ? write_index(w, folder, err) : WEIR_OK;
}

weir_status wr_safetensors_writer_write(wr_safetensors_writer *w, int64_t tensor, uint64_t offset, const void *data,
                                        size_t bytes, weir_error *err) {
    if (tensor < 0 || tensor >= w->n)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "tensor %lld of %lld", (long long)tensor, (long long)w->n);
    const entry *e = &w->entries[tensor];
    if (offset > e->bytes || bytes > e->bytes - offset)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "%s has %llu bytes; %zu at %llu do not lie in it", e->name,
                       (unsigned long long)e->bytes, bytes, (unsigned long long)offset);
    shard *s = w->shards ? &w->shards[e->shard] : NULL;
    if (!s || s->out.fd < 0) return WR_FAIL(err, WEIR_E_STATE, "%s: no file is open for it", e->name);
    WR_TRY(wr_out_write(&s->out, s->header_bytes + e->offset + offset, data, bytes, err));
    atomic_fetch_add_explicit(&w->written_bytes, bytes, memory_order_relaxed);
    return WEIR_OK;
}

weir_status wr_safetensors_writer_finish(wr_safetensors_writer *w, weir_error *err) {
    uint64_t written = atomic_load_explicit(&w->written_bytes, memory_order_relaxed);
    if (written != w->data_bytes)
        return WR_FAIL(err, WEIR_E_STATE, "%llu bytes of tensors were written; they have %llu",
                       (unsigned long long)written, (unsigned long long)w->data_bytes);
    for (int i = 0; i < w->n_shards; i++) WR_TRY(wr_out_close(&w->shards[i].out, err));
    return WEIR_OK;
}
