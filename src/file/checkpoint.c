/* Owns the checkpoint's open files and one table of tensors under canonical names.
 *
 * Both file kinds end in the same table, so that what follows (weights, vectors, the
 * search for unused tensors) is written once. */
#include "file/checkpoint.h"

#include <string.h>

#include "base/dtype.h"
#include "base/io.h"
#include "file/checkpoint_impl.h"
#include "file/gguf_hf.h"
#include "file/quant.h"
#include "file/shards.h"
#include "file/store.h"

#define NO_MEMORY(c) WR_FAIL(err, WEIR_E_MEMORY, "%s: out of memory", (c)->path)

/* ---- the table ---- */

static weir_status prepare_table(wr_checkpoint *c, int64_t n, weir_error *err) {
    c->tensors = wr_calloc((size_t)n + 1, sizeof *c->tensors);
    if (!c->tensors || !wr_names_init(&c->names, (size_t)n)) return NO_MEMORY(c);
    return WEIR_OK;
}

static weir_status add_tensor(wr_checkpoint *c, const wr_stored *tensor, weir_error *err) {
    int64_t other = wr_names_add(&c->names, tensor->name, strlen(tensor->name), c->n_tensors);
    if (other >= 0)
        return WR_FAIL(err, WEIR_E_FORMAT, "%s: tensors '%s' and '%s' are the same tensor by two names", c->path,
                       c->tensors[other].stored, tensor->stored);
    c->tensors[c->n_tensors++] = *tensor;
    return WEIR_OK;
}

static weir_status fill_from_safetensors(wr_checkpoint *c, weir_error *err) {
    int64_t n = wr_safetensors_n_tensors(c->st);
    WR_TRY(prepare_table(c, n, err));
    for (int64_t i = 0; i < n; i++) {
        const wr_safetensors_tensor *t = wr_safetensors_tensor_at(c->st, i);
        wr_stored s = {.stored = t->name,
                       .format = t->format,
                       .dtype = t->dtype,
                       .usable = t->usable,
                       .n_dims = t->n_dims,
                       .data = t->data,
                       .bytes = t->bytes};
        memcpy(s.shape, t->shape, sizeof s.shape);
        char *name = wr_module_canonical(t->name);
        s.name = name ? wr_arena_strdup(&c->arena, name) : NULL;
        wr_free(name);
        if (!s.name) return NO_MEMORY(c);
        WR_TRY(add_tensor(c, &s, err));
    }
    return WEIR_OK;
}

static weir_status fill_from_gguf(wr_checkpoint *c, weir_error *err) {
    int64_t n = wr_gguf_n_tensors(c->gguf);
    WR_TRY(prepare_table(c, n, err));
    for (int64_t i = 0; i < n; i++) {
        const wr_gguf_tensor *t = wr_gguf_tensor_at(c->gguf, i);
        bool dense = t->quant.mode == WEIR_QUANT_NONE;
        wr_stored s = {.stored = t->name,
                       .quant = t->quant,
                       .dtype = t->dtype,
                       .usable = true,
                       .n_dims = t->n_dims,
                       .format = dense ? weir_dtype_name(t->dtype) : weir_quant_name(t->quant.mode),
                       .data = t->data,
                       .bytes = t->bytes};
        memcpy(s.shape, t->shape, sizeof t->shape);
        char name[512];
        WR_TRY(wr_gguf_hf_name(c->gguf, t->name, name, sizeof name, err));
        s.name = wr_arena_strdup(&c->arena, name);
        if (!s.name) return NO_MEMORY(c);
        WR_TRY(add_tensor(c, &s, err));
    }
    return WEIR_OK;
}

/* ---- open and close ---- */

static weir_status open_gguf(wr_checkpoint *c, weir_error *err) {
    WR_TRY(wr_gguf_open(c->path, &c->gguf, err));
    WR_TRY(wr_gguf_hf_config(c->gguf, c->path, &c->config, err));
    return fill_from_gguf(c, err);
}

/* A JSON file of the folder; *out NULL when it is optional and not there. */
static weir_status read_config(const wr_checkpoint *c, const char *name, bool optional, wr_config **out,
                               weir_error *err) {
    char *path = wr_path_join(c->path, name);
    if (!path) return NO_MEMORY(c);
    weir_status status = WEIR_OK;
    if (!optional || wr_path_is_file(path)) status = wr_config_read(path, out, err);
    wr_free(path);
    return status;
}

static weir_status open_folder(wr_checkpoint *c, weir_error *err) {
    WR_TRY(read_config(c, "config.json", false, &c->config, err));
    WR_TRY(read_config(c, "generation_config.json", true, &c->generation, err));
    WR_TRY(read_config(c, "tokenizer_config.json", true, &c->tokenizer, err));
    WR_TRY(wr_mlx_quant_new(c->config, &c->quant, err));
    WR_TRY(wr_safetensors_open(c->path, &c->st, err));
    return fill_from_safetensors(c, err);
}

weir_status wr_checkpoint_open(const char *model, wr_checkpoint **out, weir_error *err) {
    *out = NULL;
    wr_checkpoint *c = wr_calloc(1, sizeof *c);
    if (!c) return WR_FAIL(err, WEIR_E_MEMORY, "out of memory");
    wr_arena_init(&c->arena, (size_t)1 << 30);
    weir_status status;
    WR_TRY_GOTO(status, wr_store_resolve(model, &c->path, err), fail);
    if (wr_path_is_folder(c->path)) {
        WR_TRY_GOTO(status, open_folder(c, err), fail);
    } else if (wr_text_ends(c->path, ".safetensors")) {
        status = WR_FAIL(err, WEIR_E_ARGUMENT, "%s is one weight file; name the folder that also holds config.json",
                         c->path);
        goto fail;
    } else {
        WR_TRY_GOTO(status, open_gguf(c, err), fail);
    }
    WR_TRY_GOTO(status, wr_checkpoint_read_text(c, err), fail);
    *out = c;
    return WEIR_OK;
fail:
    wr_checkpoint_close(c);
    return status;
}

void wr_checkpoint_close(wr_checkpoint *c) {
    if (!c) return;
    for (size_t i = 0; i < c->n_copies; i++) wr_pages_free(c->copies[i].pages, c->copies[i].bytes);
    wr_free(c->copies);
    wr_free(c->tensors);
    wr_names_deinit(&c->names);
    wr_mlx_quant_free(c->quant);
    wr_safetensors_close(c->st);
    wr_gguf_close(c->gguf);
    wr_config_free(c->config);
    wr_config_free(c->generation);
    wr_config_free(c->tokenizer);
    wr_free(c->chat_template);
    wr_arena_deinit(&c->arena);
    wr_free(c->path);
    wr_free(c);
}

/* ---- simple questions ---- */

const char *wr_checkpoint_path(const wr_checkpoint *c) { return c->path; }
const wr_config *wr_checkpoint_config(const wr_checkpoint *c) { return c->config; }
const wr_config *wr_checkpoint_generation_config(const wr_checkpoint *c) { return c->generation; }
const struct wr_gguf *wr_checkpoint_gguf(const wr_checkpoint *c) { return c->gguf; }
const char *wr_checkpoint_chat_template(const wr_checkpoint *c) { return c->chat_template; }
int64_t wr_checkpoint_n_tensors(const wr_checkpoint *c) { return c->n_tensors; }

static wr_stored *find(const wr_checkpoint *c, const char *name) {
    int64_t i = wr_names_find(&c->names, name, strlen(name));
    return i >= 0 ? &c->tensors[i] : NULL;
}

/* module + suffix; NULL also when the name is longer than any in a file. */
static wr_stored *find_part(const wr_checkpoint *c, const char *module, const char *suffix) {
    char name[512];
    int n = snprintf(name, sizeof name, "%s%s", module, suffix);
    return n > 0 && (size_t)n < sizeof name ? find(c, name) : NULL;
}

bool wr_checkpoint_has(const wr_checkpoint *c, const char *module) { return find_part(c, module, ".weight") != NULL; }
bool wr_checkpoint_has_tensor(const wr_checkpoint *c, const char *name) { return find(c, name) != NULL; }

void wr_checkpoint_tensor(const wr_checkpoint *c, int64_t index, wr_tensor_info *out) {
    wr_assert(index >= 0 && index < c->n_tensors);
    const wr_stored *t = &c->tensors[index];
    *out = (wr_tensor_info){.name = t->stored, .format = t->format, .n_dims = t->n_dims, .bytes = t->bytes};
    memcpy(out->shape, t->shape, sizeof out->shape);
}

void wr_checkpoint_drop(const wr_checkpoint *c, const void *data, size_t bytes) {
    for (size_t i = 0; i < c->n_copies; i++) {
        wr_map copy = {c->copies[i].pages, c->copies[i].bytes};
        size_t offset = (size_t)((const uint8_t *)data - copy.data);
        if ((const uint8_t *)data < copy.data || offset >= copy.bytes) continue;
        if (bytes == copy.bytes) wr_map_drop(&copy, 0, bytes); /* dropped parts would read as zeros */
        return;
    }
    if (c->st) wr_safetensors_drop(c->st, data, bytes);
    if (c->gguf) wr_gguf_drop(c->gguf, data, bytes);
}

void wr_checkpoint_rest(const wr_checkpoint *c) {
    if (c->st) wr_safetensors_rest(c->st);
    if (c->gguf) wr_gguf_rest(c->gguf);
}

/* ---- the tensors nobody asked for ---- */

void wr_checkpoint_ignore(wr_checkpoint *c, const char *name) {
    size_t n = strlen(name);
    if (n > 0 && name[n - 1] == '*') {
        for (int64_t i = 0; i < c->n_tensors; i++)
            if (strncmp(c->tensors[i].name, name, n - 1) == 0) c->tensors[i].used = true;
        return;
    }
    wr_stored *t = find(c, name);
    if (t) t->used = true;
}

weir_status wr_checkpoint_all_used(const wr_checkpoint *c, weir_error *err) {
    char names[512] = "";
    size_t at = 0;
    int64_t unused = 0;
    for (int64_t i = 0; i < c->n_tensors; i++) {
        if (c->tensors[i].used) continue;
        unused++;
        int n = snprintf(names + at, sizeof names - at, "%s'%s'", unused > 1 ? ", " : "", c->tensors[i].stored);
        if (unused <= 5 && n > 0 && (size_t)n < sizeof names - at)
            at += (size_t)n;
        else
            names[at] = 0;
    }
    if (unused == 0) return WEIR_OK;
    return WR_FAIL(err, WEIR_E_FORMAT, "%s: %lld tensors do not belong to this kind of model: %s%s", c->path,
                   (long long)unused, names, unused > 5 ? ", ..." : "");
}

/* ---- one weight ---- */

static const char *show_shape(const wr_stored *t, char out[128]) {
    size_t at = (size_t)snprintf(out, 128, "%s [", t->format);
    for (int i = 0; i < t->n_dims && at < 100; i++)
        at += (size_t)snprintf(out + at, 128 - at, "%s%lld", i ? ", " : "", (long long)t->shape[i]);
    snprintf(out + at, 128 - at, "]");
    return out;
}

static void show_wanted(int64_t experts, int64_t rows, int64_t cols, char out[128]) {
    const int64_t sizes[3] = {experts, rows, cols};
    size_t at = (size_t)snprintf(out, 128, "[");
    for (int i = experts == 1 ? 1 : 0; i < 3; i++)
        at += sizes[i] < 0 ? (size_t)snprintf(out + at, 128 - at, "any%s", i < 2 ? ", " : "]")
                           : (size_t)snprintf(out + at, 128 - at, "%lld%s", (long long)sizes[i], i < 2 ? ", " : "]");
}

/* Replace *data by an aligned copy when it lies at an odd place. */
static weir_status align(wr_checkpoint *c, const void **data, size_t bytes, size_t element, weir_error *err) {
    if (bytes == 0 || (uintptr_t)*data % element == 0) return WEIR_OK;
    if (c->n_copies == c->copies_room) {
        size_t room = c->copies_room ? c->copies_room * 2 : 64;
        wr_aligned_copy *copies = wr_realloc(c->copies, room * sizeof *copies);
        if (!copies) return NO_MEMORY(c);
        c->copies = copies;
        c->copies_room = room;
    }
    void *pages = wr_pages_alloc(bytes);
    if (!pages) return WR_FAIL(err, WEIR_E_MEMORY, "%s: no memory to align a tensor of %zu bytes", c->path, bytes);
    memcpy(pages, *data, bytes);
    wr_checkpoint_drop(c, *data, bytes);
    c->copies[c->n_copies++] = (wr_aligned_copy){pages, bytes};
    *data = pages;
    return WEIR_OK;
}

weir_status wr_checkpoint_align(wr_checkpoint *c, wr_weight *w, weir_error *err) {
    bool blocks = wr_quant_is_gguf(w->quant.mode), dense = w->quant.mode == WEIR_QUANT_NONE;
    size_t scale = w->quant.mode == WEIR_QUANT_AFFINE ? weir_dtype_bytes(w->dtype) : 1;
    size_t element = dense ? weir_dtype_bytes(w->dtype) : blocks ? 2 : 4; /* blocks hold f16, MLX packs into u32 */
    WR_TRY(align(c, &w->data, w->data_bytes, element, err));
    WR_TRY(align(c, &w->scales, w->scales_bytes, scale, err));
    return align(c, &w->biases, w->biases_bytes, scale, err);
}

/* [rows, x] or [experts, rows, x] */
static weir_status split_shape(const wr_checkpoint *c, const wr_stored *t, int64_t *experts, int64_t *rows,
                               int64_t *last, weir_error *err) {
    if (t->n_dims != 2 && t->n_dims != 3) {
        char shape[128];
        return WR_FAIL(err, WEIR_E_FORMAT, "%s: tensor '%s' is %s; a matrix is needed", c->path, t->stored,
                       show_shape(t, shape));
    }
    *experts = t->n_dims == 3 ? t->shape[0] : 1;
    *rows = t->shape[t->n_dims - 2];
    *last = t->shape[t->n_dims - 1];
    return WEIR_OK;
}

static bool is_float(const wr_stored *t) {
    return t->usable && (t->dtype == WEIR_DTYPE_F32 || t->dtype == WEIR_DTYPE_F16 || t->dtype == WEIR_DTYPE_BF16);
}

/* A part's shape is the weight's but for the last dimension. */
static weir_status check_part(const wr_checkpoint *c, const wr_stored *weight, const wr_stored *part, int64_t last,
                              weir_error *err) {
    bool same = weight->n_dims == part->n_dims && part->shape[part->n_dims - 1] == last;
    for (int i = 0; same && i + 1 < weight->n_dims; i++) same = weight->shape[i] == part->shape[i];
    if (same) return WEIR_OK;
    char a[128], b[128];
    return WR_FAIL(err, WEIR_E_FORMAT, "%s: '%s' is %s and does not match '%s', which is %s", c->path, part->stored,
                   show_shape(part, a), weight->stored, show_shape(weight, b));
}

/* MLX stores one f32 number a matrix, the largest magnitude of the original; the factor
 * is that over 448 * 6, the largest values of E4M3 and E2M1. */
static weir_status read_global_scale(wr_checkpoint *c, wr_stored *scale, wr_weight *out, weir_error *err) {
    int64_t n = 1;
    for (int i = 0; i < scale->n_dims; i++) n *= scale->shape[i];
    if (out->quant.mode != WEIR_QUANT_NVFP4 || !scale->usable || scale->dtype != WEIR_DTYPE_F32 || n != out->experts) {
        char shape[128];
        return WR_FAIL(err, WEIR_E_FORMAT, "%s: '%s' is %s; only nvfp4 has a global scale, one f32 number a matrix",
                       c->path, scale->stored, show_shape(scale, shape));
    }
    float *factors = wr_arena_alloc(&c->arena, (size_t)n * sizeof *factors);
    if (!factors) return NO_MEMORY(c);
    memcpy(factors, scale->data, (size_t)n * sizeof *factors);
    for (int64_t i = 0; i < n; i++) factors[i] /= 448.0f * 6.0f;
    if (out->experts == 1)
        out->global_scale = factors[0];
    else
        out->global_scales = factors;
    scale->used = true;
    return WEIR_OK;
}

static weir_status read_mlx(wr_checkpoint *c, const char *module, wr_stored *weight, wr_stored *scales, int64_t cols,
                            wr_weight *out, weir_error *err) {
    wr_stored *biases = find_part(c, module, ".biases"), *global = find_part(c, module, ".global_scale");
    char shape[128];
    if (!weight->usable || weight->dtype != WEIR_DTYPE_U32 || weight->n_dims < 2)
        return WR_FAIL(err, WEIR_E_FORMAT, "%s: '%s' has scales, but is %s and not packed u32", c->path, weight->stored,
                       show_shape(weight, shape));
    bool u8_scales = scales->usable && scales->dtype == WEIR_DTYPE_U8;
    if (!u8_scales && !is_float(scales))
        return WR_FAIL(err, WEIR_E_FORMAT, "%s: '%s' is %s; scales are f32, f16, bf16 or u8", c->path, scales->stored,
                       show_shape(scales, shape));
    wr_mlx_stored stored = {weight->shape[weight->n_dims - 1], scales->n_dims ? scales->shape[scales->n_dims - 1] : 0,
                            cols, u8_scales, biases != NULL};
    WR_TRY(check_part(c, weight, scales, stored.groups, err));
    if (biases) WR_TRY(check_part(c, weight, biases, stored.groups, err));
    if (biases && (biases->dtype != scales->dtype || !biases->usable))
        return WR_FAIL(err, WEIR_E_FORMAT, "%s: '%s' is %s, its scales are %s", c->path, biases->stored, biases->format,
                       scales->format);
    weir_status status = wr_mlx_quant_find(c->quant, module, &stored, &out->quant, err);
    if (status != WEIR_OK) {
        wr_err_context(err, "loading '%s' of %s", weight->stored, c->path);
        return status;
    }
    out->dtype = scales->dtype;
    out->cols = stored.groups * out->quant.group_size;
    out->data = weight->data;
    out->data_bytes = weight->bytes;
    out->scales = scales->data;
    out->scales_bytes = scales->bytes;
    scales->used = true;
    if (biases) {
        out->biases = biases->data;
        out->biases_bytes = biases->bytes;
        biases->used = true;
    }
    return global ? read_global_scale(c, global, out, err) : WEIR_OK;
}

static weir_status read_dense(wr_checkpoint *c, const char *module, wr_stored *weight, wr_weight *out,
                              weir_error *err) {
    if (weight->quant.mode == WEIR_QUANT_NONE) {
        if (find_part(c, module, ".biases"))
            return WR_FAIL(err, WEIR_E_FORMAT, "%s: '%s.biases' is there without '%s.scales'", c->path, module, module);
        if (weight->usable && weight->dtype == WEIR_DTYPE_U32)
            return WR_FAIL(err, WEIR_E_FORMAT, "%s: '%s' is packed (u32), but '%s.scales' is missing", c->path,
                           weight->stored, module);
        if (!is_float(weight))
            return WR_FAIL(err, WEIR_E_UNSUPPORTED, "%s: '%s' is %s; weights are read as f32, f16 or bf16", c->path,
                           weight->stored, weight->format);
    }
    out->quant = weight->quant;
    out->dtype = weight->dtype;
    out->data = weight->data;
    out->data_bytes = weight->bytes;
    return WEIR_OK;
}

weir_status wr_checkpoint_weight(wr_checkpoint *c, const char *module, int64_t experts, int64_t rows, int64_t cols,
                                 wr_weight *out, weir_error *err) {
    *out = (wr_weight){.global_scale = 1};
    wr_stored *weight = find_part(c, module, ".weight"), *scales = find_part(c, module, ".scales");
    if (!weight && scales)
        return WR_FAIL(err, WEIR_E_FORMAT, "%s: '%s' is there, but '%s.weight' is missing", c->path, scales->stored,
                       module);
    if (!weight) return WR_FAIL(err, WEIR_E_NOT_FOUND, "%s: tensor '%s.weight' is missing", c->path, module);
    WR_TRY(split_shape(c, weight, &out->experts, &out->rows, &out->cols, err));
    char shape[128], wanted[128];
    show_wanted(experts, rows, cols, wanted);
    bool fits = (experts < 0 || out->experts == experts) && (rows < 0 || out->rows == rows);
    /* The rows are compared first: of a packed matrix the columns are known only with its scales. */
    if (fits && scales)
        WR_TRY(read_mlx(c, module, weight, scales, cols, out, err));
    else if (fits)
        WR_TRY(read_dense(c, module, weight, out, err));
    if (!fits || (cols >= 0 && out->cols != cols))
        return WR_FAIL(err, WEIR_E_FORMAT, "%s: tensor '%s' is %s; the model needs %s", c->path, weight->stored,
                       show_shape(weight, shape), wanted);
    weight->used = true;
    return WEIR_OK;
}

/* ---- one vector ---- */

weir_status wr_checkpoint_vector(wr_checkpoint *c, const char *name, int64_t n, float *out, weir_error *err) {
    wr_stored *t = find(c, name);
    char shape[128];
    if (!t) return WR_FAIL(err, WEIR_E_NOT_FOUND, "%s: tensor '%s' is missing", c->path, name);
    if (t->quant.mode != WEIR_QUANT_NONE || !is_float(t))
        return WR_FAIL(err, WEIR_E_UNSUPPORTED, "%s: '%s' is %s; it is read as f32, f16 or bf16", c->path, t->stored,
                       t->format);
    size_t element = weir_dtype_bytes(t->dtype);
    if (n < 0 || t->bytes / element != (size_t)n)
        return WR_FAIL(err, WEIR_E_FORMAT, "%s: tensor '%s' is %s; the model needs %lld elements", c->path, t->stored,
                       show_shape(t, shape), (long long)n);
    for (int64_t i = 0; i < n; i++) {
        uint16_t half;
        if (t->dtype == WEIR_DTYPE_F32) {
            memcpy(&out[i], t->data + (size_t)i * 4, 4);
            continue;
        }
        memcpy(&half, t->data + (size_t)i * 2, 2);
        out[i] = t->dtype == WEIR_DTYPE_F16 ? wr_f16_to_f32(half) : wr_bf16_to_f32(half);
    }
    t->used = true;
    return WEIR_OK;
}
