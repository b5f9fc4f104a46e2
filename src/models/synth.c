/* Owns the plan of a random checkpoint and its writing.
 *
 * The plan walks the family's weight table for the configuration: each matrix becomes
 * one to three tensors. Then all tensors are cut into chunks of 1 MiB, which threads
 * take in turn, fill and write at their place; a chunk depends on its tensor and
 * position only, so the number of threads does not show in the files. All of it
 * happens in a folder beside the one asked for, which is renamed at the end. */
#include "models/synth.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/mem.h"
#include "base/pool.h"
#include "file/json.h"
#include "file/quant.h"
#include "file/safetensors_write.h"
#include "file/shards.h"
#include "models/model.h"
#include "models/synth_presets.h"
#include "models/synth_values.h"

typedef struct part {
    wr_synth_values values;
    uint64_t bytes, first_chunk;
} part;

struct wr_synth {
    wr_synth_options options;
    wr_synth_info info;
    json_t *config;
    wr_hyper hyper;
    wr_safetensors_writer *writer;
    part *parts; /* [info.n_tensors], as numbered by the writer */
    int64_t room;
    uint64_t n_chunks;
};

const char *wr_synth_preset(int index, const char **about) {
    *about = wr_synth_presets[index].about;
    return wr_synth_presets[index].name;
}

/* ---- plan ---- */

static weir_status find_preset(const char *name, const char **config, weir_error *err) {
    char names[256] = "";
    size_t at = 0;
    for (const wr_synth_preset_row *p = wr_synth_presets; p->name; p++) {
        *config = p->config;
        if (!strcmp(p->name, name)) return WEIR_OK;
        int n = snprintf(names + at, sizeof names - at, "%s%s", at ? ", " : "", p->name);
        at += n > 0 && (size_t)n < sizeof names - at ? (size_t)n : 0;
    }
    return WR_FAIL(err, WEIR_E_NOT_FOUND, "there is no preset \"%s\"; the presets are %s", name, names);
}

static weir_status check_options(const wr_synth_options *o, weir_error *err) {
    if (!wr_quant_valid(o->quant) || (o->quant.mode != WEIR_QUANT_NONE && o->quant.mode > WEIR_QUANT_MXFP8))
        return WR_FAIL(err, WEIR_E_ARGUMENT,
                       "%s with %d bits in groups of %d does not exist; affine has 2, 3, 4, 5, 6 or 8 bits in groups "
                       "of 32, 64 or 128, mxfp4 4 in 32, nvfp4 4 in 16, mxfp8 8 in 32",
                       weir_quant_name(o->quant.mode), (int)o->quant.bits, (int)o->quant.group_size);
    if (o->dtype != WEIR_DTYPE_BF16 && o->dtype != WEIR_DTYPE_F16 && o->dtype != WEIR_DTYPE_F32)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "dtype %s; it must be bf16, f16 or f32", weir_dtype_name(o->dtype));
    return WEIR_OK;
}

static const char *torch_name(weir_dtype dtype) {
    return dtype == WEIR_DTYPE_F32 ? "float32" : dtype == WEIR_DTYPE_F16 ? "float16" : "bfloat16";
}

static json_t *quantization_json(weir_quant q) {
    return json_pack("{s:i,s:i,s:s}", "group_size", (int)q.group_size, "bits", (int)q.bits, "mode",
                     weir_quant_name(q.mode));
}

/* The preset's configuration with what was asked for. */
static weir_status make_config(wr_synth *s, const char *text, weir_error *err) {
    WR_TRY(wr_json_parse(text, strlen(text), s->options.preset, &s->config, err));
    int64_t own = (int64_t)json_integer_value(json_object_get(s->config, "num_hidden_layers"));
    if (s->options.n_layers < 0 || s->options.n_layers > own)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "%lld layers asked for; %s has %lld", (long long)s->options.n_layers,
                       s->options.preset, (long long)own);
    if (s->options.n_layers) own = s->options.n_layers;
    int failed = json_object_set_new(s->config, "num_hidden_layers", json_integer((json_int_t)own));
    failed |= json_object_set_new(s->config, "torch_dtype", json_string(torch_name(s->options.dtype)));
    if (s->options.quant.mode != WEIR_QUANT_NONE) { /* under both names, as MLX writes it */
        failed |= json_object_set_new(s->config, "quantization", quantization_json(s->options.quant));
        failed |= json_object_set_new(s->config, "quantization_config", quantization_json(s->options.quant));
    }
    failed |=
        json_object_set_new(s->config, "weir_synth",
                            json_pack("{s:s,s:I}", "preset", s->options.preset, "seed", (json_int_t)s->options.seed));
    return failed ? WR_FAIL(err, WEIR_E_MEMORY, "no memory for the configuration") : WEIR_OK;
}

static weir_status add_part(wr_synth *s, const char *name, const wr_synth_values *v, int n_dims, const int64_t *shape,
                            weir_error *err) {
    WR_TRY(wr_safetensors_writer_add(s->writer, name, v->dtype, n_dims, shape, err));
    if (s->info.n_tensors == s->room) {
        int64_t room = s->room ? s->room * 2 : 256;
        part *larger = wr_realloc(s->parts, (size_t)room * sizeof *larger);
        if (!larger) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for %lld tensors", (long long)room);
        s->parts = larger, s->room = room;
    }
    uint64_t bytes = weir_dtype_bytes(v->dtype);
    for (int i = 0; i < n_dims; i++) bytes *= (uint64_t)shape[i];
    s->parts[s->info.n_tensors++] = (part){*v, bytes, s->n_chunks};
    s->n_chunks += (bytes + WR_SYNTH_CHUNK_BYTES - 1) / WR_SYNTH_CHUNK_BYTES;
    return WEIR_OK;
}

/* Norms have weights about 1 (stored less 1 by families with an offset), biases about 0. */
static weir_status add_vector(wr_synth *s, const char *name, int64_t n, weir_error *err) {
    wr_synth_values v = {.kind = WR_SYNTH_DENSE,
                         .dtype = s->options.dtype,
                         .key = wr_synth_key(s->options.seed, name),
                         .mean = wr_text_ends(name, ".bias") ? 0 : 1 - s->hyper.norm_offset,
                         .deviation = 0.1f};
    return add_part(s, name, &v, 1, &n, err);
}

/* Values of variance 1 / cols, so that inputs of variance 1 give outputs of variance 1. Rows that are no multiple of
 * the group stay dense, as MLX leaves them. */
static weir_status add_matrix(wr_synth *s, const char *module, int64_t rows, int64_t cols, weir_error *err) {
    weir_quant quant = s->options.quant;
    if (quant.mode != WEIR_QUANT_NONE && cols % quant.group_size) quant = wr_quant_default(WEIR_QUANT_NONE);
    bool dense = quant.mode == WEIR_QUANT_NONE;
    wr_synth_values data, scales, biases;
    wr_synth_matrix_values(quant, s->options.dtype, s->options.seed, module, 1 / sqrt((double)cols), &data, &scales,
                           &biases);
    char name[300];
    snprintf(name, sizeof name, "%s.weight", module);
    WR_TRY(add_part(s, name, &data, 2, (int64_t[]){rows, dense ? cols : cols * quant.bits / 32}, err));
    if (dense) return WEIR_OK;
    const int64_t groups[] = {rows, cols / quant.group_size};
    snprintf(name, sizeof name, "%s.scales", module);
    WR_TRY(add_part(s, name, &scales, 2, groups, err));
    if (quant.mode != WEIR_QUANT_AFFINE) return WEIR_OK;
    snprintf(name, sizeof name, "%s.biases", module);
    return add_part(s, name, &biases, 2, groups, err);
}

/* The rules of one layer, or those outside the layers. */
static weir_status add_rules(wr_synth *s, const wr_weight_rule *rules, bool per_layer, int64_t layer, weir_error *err) {
    for (const wr_weight_rule *r = rules; r->name; r++) {
        if (wr_rule_per_layer(r) != per_layer || !wr_rule_applies(r, &s->hyper)) continue;
        char name[256];
        wr_rule_name(r, layer, name, sizeof name);
        int64_t rows = wr_rule_dim(&s->hyper, r->rows), cols = wr_rule_dim(&s->hyper, r->cols);
        bool vector = r->cols == WR_DIM_NONE;
        s->info.n_parameters += vector ? rows : rows * cols;
        WR_TRY(vector ? add_vector(s, name, rows, err) : add_matrix(s, name, rows, cols, err));
    }
    return WEIR_OK;
}

static weir_status plan_tensors(wr_synth *s, const wr_config *config, weir_error *err) {
    const char *model_type;
    WR_TRY(wr_config_string_or(config, "model_type", "", &model_type, err));
    const wr_family *family = wr_family_find(model_type);
    wr_assert(family); /* the presets are ours */
    WR_TRY(family->configure(config, &s->hyper, err));
    WR_TRY(wr_config_bool_or(config, "tie_word_embeddings", false, &s->hyper.tied, err));
    s->info.family = family->name;
    s->info.n_layers = s->hyper.n_layers;
    WR_TRY(add_rules(s, wr_rules_common, false, 0, err));
    WR_TRY(add_rules(s, family->rules, false, 0, err));
    for (int64_t layer = 0; layer < s->hyper.n_layers; layer++) {
        WR_TRY(add_rules(s, wr_rules_common, true, layer, err));
        WR_TRY(add_rules(s, family->rules, true, layer, err));
    }
    WR_TRY(wr_safetensors_writer_layout(s->writer, err));
    s->info.bytes = wr_safetensors_writer_bytes(s->writer);
    s->info.n_shards = wr_safetensors_writer_n_shards(s->writer);
    return WEIR_OK;
}

static weir_status make_plan(wr_synth *s, weir_error *err) {
    const char *text;
    wr_config *config = NULL;
    WR_TRY(find_preset(s->options.preset, &text, err));
    WR_TRY(check_options(&s->options, err));
    WR_TRY(make_config(s, text, err));
    WR_TRY(wr_safetensors_writer_new(s->options.shard_bytes, &s->writer, err));
    WR_TRY(wr_config_make(json_incref(s->config), s->options.preset, &config, err));
    weir_status status = plan_tensors(s, config, err);
    wr_config_free(config);
    return status;
}

weir_status wr_synth_new(const wr_synth_options *options, wr_synth **out, weir_error *err) {
    *out = NULL;
    wr_json_setup();
    wr_synth *s = wr_calloc(1, sizeof *s);
    if (!s) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the plan of a checkpoint");
    s->options = *options;
    weir_status status = make_plan(s, err);
    if (status == WEIR_OK)
        *out = s;
    else
        wr_synth_free(s);
    return status;
}

void wr_synth_free(wr_synth *s) {
    if (!s) return;
    wr_safetensors_writer_free(s->writer);
    json_decref(s->config);
    wr_free(s->parts);
    wr_free(s);
}

void wr_synth_get_info(const wr_synth *s, wr_synth_info *info) { *info = s->info; }

/* ---- data ---- */

typedef struct write_state {
    wr_synth *synth;
    const wr_synth_write_options *options;
    uint8_t *buffers; /* [threads][WR_SYNTH_CHUNK_BYTES] */
    _Atomic uint64_t next;
    _Atomic bool stop;
    pthread_mutex_t lock; /* of what follows: the first failure */
    weir_status status;
    weir_error *err;
} write_state;

static void note_failure(write_state *w, weir_status status, const weir_error *err) {
    pthread_mutex_lock(&w->lock);
    if (w->status == WEIR_OK && w->err) *w->err = *err;
    if (w->status == WEIR_OK) w->status = status;
    pthread_mutex_unlock(&w->lock);
    atomic_store(&w->stop, true);
}

/* The last part that begins at or before the chunk; parts are never empty. */
static int64_t part_of(const wr_synth *s, uint64_t chunk) {
    int64_t low = 0, high = s->info.n_tensors - 1;
    while (low < high) {
        int64_t middle = (low + high + 1) / 2;
        if (s->parts[middle].first_chunk <= chunk)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static void write_job(void *context, int thread, int n_threads) {
    write_state *w = context;
    const wr_synth *s = w->synth;
    uint8_t *buffer = w->buffers + (size_t)thread * WR_SYNTH_CHUNK_BYTES;
    (void)n_threads;
    while (!atomic_load_explicit(&w->stop, memory_order_relaxed)) {
        uint64_t chunk = atomic_fetch_add_explicit(&w->next, 1, memory_order_relaxed);
        if (chunk >= s->n_chunks) return;
        int64_t index = part_of(s, chunk);
        const part *p = &s->parts[index];
        uint64_t offset = (chunk - p->first_chunk) * WR_SYNTH_CHUNK_BYTES, left = p->bytes - offset;
        size_t bytes = left < WR_SYNTH_CHUNK_BYTES ? (size_t)left : WR_SYNTH_CHUNK_BYTES;
        weir_error err = {0};
        wr_synth_fill(&p->values, offset, buffer, bytes);
        weir_status status = wr_safetensors_writer_write(s->writer, index, offset, buffer, bytes, &err);
        if (status == WEIR_OK && thread == 0 && w->options->progress &&
            !w->options->progress(w->options->context, (double)(chunk + 1) / (double)s->n_chunks))
            status = WR_FAIL(&err, WEIR_E_CANCELLED, "stopped; nothing is left of the checkpoint");
        if (status != WEIR_OK) note_failure(w, status, &err);
    }
}

static weir_status write_data(wr_synth *s, const wr_synth_write_options *o, weir_error *err) {
    wr_pool *pool;
    WR_TRY(wr_pool_open(o->n_threads, &pool, err));
    write_state w = {.synth = s, .options = o, .lock = PTHREAD_MUTEX_INITIALIZER, .err = err};
    size_t bytes = (size_t)wr_pool_threads(pool) * WR_SYNTH_CHUNK_BYTES;
    w.buffers = wr_pages_alloc(bytes);
    if (w.buffers)
        wr_pool_run(pool, write_job, &w);
    else
        w.status = WR_FAIL(err, WEIR_E_MEMORY, "no memory for %zu bytes of buffers; use fewer threads", bytes);
    if (w.buffers) wr_pages_free(w.buffers, bytes);
    wr_pool_close(pool);
    WR_TRY(w.status);
    return wr_safetensors_writer_finish(s->writer, err);
}

/* ---- folder ---- */

/* folder + suffix + this process's number, allocated; slashes at the end of folder go. */
static char *path_beside(const char *folder, const char *suffix, long pid) {
    size_t n = strlen(folder), cap = n + strlen(suffix) + 32;
    while (n > 1 && folder[n - 1] == '/') n--;
    char *path = wr_malloc(cap);
    if (path && pid) snprintf(path, cap, "%.*s%s%ld", (int)n, folder, suffix, pid);
    if (path && !pid) snprintf(path, cap, "%.*s", (int)n, folder);
    return path;
}

static bool is_ours(const char *name) {
    return !strcmp(name, "config.json") || !strcmp(name, "model.safetensors.index.json") ||
           (wr_text_starts(name, "model") && wr_text_ends(name, ".safetensors"));
}

/* May what is at the path be replaced? */
static weir_status check_target(const char *path, bool force, bool *there, weir_error *err) {
    wr_folder list;
    *there = wr_path_exists(path);
    if (!*there) return WEIR_OK;
    if (!force) return WR_FAIL(err, WEIR_E_STATE, "%s exists already; --force replaces it", path);
    if (!wr_path_is_folder(path)) return WR_FAIL(err, WEIR_E_STATE, "%s is no folder; it is not replaced", path);
    WR_TRY(wr_folder_list(path, &list, err));
    weir_status status = WEIR_OK;
    for (size_t i = 0; i < list.n && status == WEIR_OK; i++)
        if (!is_ours(list.names[i]))
            status =
                WR_FAIL(err, WEIR_E_STATE, "%s holds %s, which is no part of a random checkpoint; it is not replaced",
                        path, list.names[i]);
    wr_folder_free(&list);
    return status;
}

/* Only files that this command writes. False when something is left. */
static bool remove_folder(const char *path) {
    wr_folder list;
    if (wr_folder_list(path, &list, NULL) != WEIR_OK) return false;
    for (size_t i = 0; i < list.n; i++) {
        char *file = is_ours(list.names[i]) ? wr_path_join(path, list.names[i]) : NULL;
        if (file) (void)wr_path_remove(file);
        wr_free(file);
    }
    wr_folder_free(&list);
    return wr_path_remove(path);
}

static weir_status write_config(const wr_synth *s, const char *folder, weir_error *err) {
    char *text, *path = wr_path_join(folder, "config.json");
    weir_status status =
        wr_json_text(path ? s->config : NULL, JSON_INDENT(4) | JSON_SORT_KEYS | JSON_REAL_PRECISION(9), &text, err);
    if (status == WEIR_OK) status = wr_file_write(path, text, strlen(text), err);
    wr_free(path);
    wr_free(text);
    return status;
}

/* The new folder takes the place of the old one, which comes back when that fails. */
static weir_status put_in_place(const char *fresh, const char *target, const char *old, bool there, weir_error *err) {
    if (there) WR_TRY(wr_path_rename(target, old, err));
    weir_status status = wr_path_rename(fresh, target, err);
    if (there && status != WEIR_OK) (void)wr_path_rename(old, target, NULL);
    if (there && status == WEIR_OK && !remove_folder(old))
        return WR_FAIL(err, WEIR_E_IO, "%s is written, but what it replaced, now %s, could not be removed", target,
                       old);
    return status;
}

weir_status wr_synth_write(wr_synth *s, const char *folder, const wr_synth_write_options *o, weir_error *err) {
    long pid = (long)getpid();
    char *target = path_beside(folder, "", 0), *fresh = path_beside(folder, ".partial-", pid);
    char *old = path_beside(folder, ".old-", pid);
    bool there, made = false;
    weir_status status;
    if (!target || !fresh || !old) {
        status = WR_FAIL(err, WEIR_E_MEMORY, "no memory for the name of %s", folder);
        goto done;
    }
    WR_TRY_GOTO(status, check_target(target, o->force, &there, err), done);
    WR_TRY_GOTO(status, wr_folder_create(fresh, err), done);
    made = true;
    WR_TRY_GOTO(status, wr_safetensors_writer_create(s->writer, fresh, err), done);
    WR_TRY_GOTO(status, write_data(s, o, err), done);
    WR_TRY_GOTO(status, write_config(s, fresh, err), done);
    WR_TRY_GOTO(status, put_in_place(fresh, target, old, there, err), done);
done:
    if (made && status != WEIR_OK) (void)remove_folder(fresh); /* gone already when it was put in place */
    wr_free(old);
    wr_free(fresh);
    wr_free(target);
    return status;
}
