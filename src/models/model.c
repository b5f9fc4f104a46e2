/* Owns models: finding the family, binding every weight by the family's table,
 * laying the weights out for the backend. Binding reads no matrix, so that
 * `weir inspect` can print the plan of a model that would not fit. */
#include "models/model.h"

#include <string.h>

#include "array/kv.h"

/* A matrix is laid out slice by slice, and the mapped pages behind each slice are dropped, so that loading holds no
 * weight twice. */
enum { WEIGHT_ALIGN = 64, MODEL_ARENA_CAP_BYTES = 1 << 28, SLICE_BYTES = 8 << 20 };

const wr_family *wr_family_find(const char *model_type) {
    for (const wr_family *const *f = wr_families; *f; f++)
        for (const char *const *t = (*f)->model_types; *t; t++)
            if (!strcmp(*t, model_type)) return *f;
    return NULL;
}

int64_t wr_rule_dim(const wr_hyper *h, wr_dim dim) {
    switch (dim) {
    case WR_DIM_HIDDEN: return h->hidden;
    case WR_DIM_Q: return h->n_heads * h->head_dim;
    case WR_DIM_KV: return h->n_kv_heads * h->head_dim;
    case WR_DIM_HEAD: return h->head_dim;
    case WR_DIM_FFN: return h->ffn;
    case WR_DIM_VOCAB: return h->vocab;
    case WR_DIM_NONE: break;
    }
    return 0;
}

bool wr_rule_applies(const wr_weight_rule *rule, const wr_hyper *h) {
    switch (rule->when) {
    case WR_ALWAYS: return true;
    case WR_IF_UNTIED: return !h->tied;
    case WR_IF_QKV_BIAS: return h->qkv_bias;
    case WR_IF_O_BIAS: return h->o_bias;
    case WR_IF_MLP_BIAS: return h->mlp_bias;
    }
    return false;
}

bool wr_rule_per_layer(const wr_weight_rule *rule) { return strstr(rule->name, "%d") != NULL; }

void wr_rule_name(const wr_weight_rule *rule, int64_t layer, char *out, size_t cap) {
    const char *percent = strstr(rule->name, "%d");
    if (percent)
        snprintf(out, cap, "%.*s%lld%s", (int)(percent - rule->name), rule->name, (long long)layer, percent + 2);
    else
        snprintf(out, cap, "%s", rule->name);
}

static weir_status bind_vector(wr_model *m, wr_bound *b, weir_error *err) {
    float *values = wr_arena_alloc(&m->arena, (size_t)b->args.rows * sizeof *values);
    if (!values) return WR_FAIL(err, WEIR_E_MEMORY, "%s: no memory for %lld values", b->name, (long long)b->args.rows);
    WR_TRY(wr_checkpoint_vector(m->checkpoint, b->name, b->args.rows, values, err));
    b->vector = true;
    b->values = values;
    b->bytes = (size_t)b->args.rows * sizeof *values;
    return WEIR_OK;
}

/* Where the matrix lies, and how many bytes the backend's layout of it takes. */
static weir_status bind_matrix(wr_model *m, wr_bound *b, weir_error *err) {
    wr_linear_args *a = &b->args;
    WR_TRY(wr_checkpoint_weight(m->checkpoint, b->name, 1, a->rows, a->cols, &b->source, err));
    a->quant = b->source.quant;
    a->weight_dtype = b->source.dtype;
    a->out_dtype = WEIR_DTYPE_F32;
    a->global_scale = b->source.global_scale;
    b->bytes = m->backend->packed_bytes(a);
    if (!b->bytes) m->mapped_bytes += b->source.data_bytes + b->source.scales_bytes + b->source.biases_bytes;
    return WEIR_OK;
}

static weir_status bind_rule(wr_model *m, const wr_weight_rule *rule, int64_t layer, weir_error *err) {
    if (!wr_rule_applies(rule, &m->hyper)) return WEIR_OK;
    char name[256];
    wr_rule_name(rule, layer, name, sizeof name);
    wr_bound *b = wr_rule_per_layer(rule) ? &m->layers[layer * WR_N_SLOTS + rule->slot] : &m->global[rule->slot];
    b->name = wr_arena_strdup(&m->arena, name);
    if (!b->name) return WR_FAIL(err, WEIR_E_MEMORY, "%s: no memory for its name", name);
    b->args.rows = wr_rule_dim(&m->hyper, rule->rows);
    b->args.cols = wr_rule_dim(&m->hyper, rule->cols);
    b->args.experts = 1;
    b->present = true;
    return rule->cols == WR_DIM_NONE ? bind_vector(m, b, err) : bind_matrix(m, b, err);
}

static weir_status bind_table(wr_model *m, const wr_weight_rule *rules, weir_error *err) {
    for (const wr_weight_rule *r = rules; r->name; r++) {
        int64_t n = wr_rule_per_layer(r) ? m->hyper.n_layers : 1;
        for (int64_t layer = 0; layer < n; layer++) WR_TRY(bind_rule(m, r, layer, err));
    }
    return WEIR_OK;
}

/* ---- places in the arena ---- */

static weir_status advance(wr_model *m, const wr_bound *b, size_t bytes, size_t align, weir_error *err) {
    size_t padded;
    if (wr_add_size(bytes, align - 1, &padded) &&
        wr_add_size(m->weight_bytes, padded / align * align, &m->weight_bytes))
        return WEIR_OK;
    return WR_FAIL(err, WEIR_E_LIMIT, "%s: the weights exceed the address space", b->name);
}

/* Matrices that are read by one input and are one matrix to a backend that joins rows, with their biases. */
static const struct {
    wr_slot joined, joined_bias;
    int n;
    wr_slot part[3], part_bias[3];
} joins[] = {
    {WR_SLOT_QKV,
     WR_SLOT_QKV_BIAS,
     3,
     {WR_SLOT_Q, WR_SLOT_K, WR_SLOT_V},
     {WR_SLOT_Q_BIAS, WR_SLOT_K_BIAS, WR_SLOT_V_BIAS}},
    {WR_SLOT_GATE_UP, WR_SLOT_GATE_UP_BIAS, 2, {WR_SLOT_GATE, WR_SLOT_UP}, {WR_SLOT_GATE_BIAS, WR_SLOT_UP_BIAS}},
};
enum { N_JOINS = sizeof joins / sizeof *joins, JOINED_ROWS = 16 };

static bool can_join(const wr_bound *layer, const wr_slot *part, int n) {
    const wr_bound *first = &layer[part[0]];
    for (int i = 0; i < n; i++) {
        const wr_bound *b = &layer[part[i]];
        if (!b->present || !b->bytes || b->args.rows % JOINED_ROWS || b->args.cols != first->args.cols ||
            b->args.weight_dtype != first->args.weight_dtype || b->args.global_scale != first->args.global_scale ||
            b->args.quant.mode != first->args.quant.mode || b->args.quant.bits != first->args.quant.bits ||
            b->args.quant.group_size != first->args.quant.group_size)
            return false;
    }
    return true;
}

static weir_status join_biases(wr_model *m, wr_bound *layer, int j, weir_error *err) {
    const wr_slot *part = joins[j].part_bias;
    if (!layer[part[0]].present) return WEIR_OK;
    wr_bound *b = &layer[joins[j].joined_bias];
    *b = (wr_bound){.present = true, .vector = true, .name = layer[part[0]].name};
    for (int i = 0; i < joins[j].n; i++) b->args.rows += layer[part[i]].args.rows;
    b->bytes = (size_t)b->args.rows * sizeof(float);
    float *values = wr_arena_alloc(&m->arena, b->bytes), *at = values;
    if (!values) return WR_FAIL(err, WEIR_E_MEMORY, "%s: no memory for joined biases", b->name);
    for (int i = 0; i < joins[j].n; i++) {
        memcpy(at, layer[part[i]].values, layer[part[i]].bytes);
        at += layer[part[i]].args.rows;
    }
    b->values = values;
    return WEIR_OK;
}

/* The parts lie one behind the other, without padding between. */
static weir_status join(wr_model *m, wr_bound *layer, int j, weir_error *err) {
    const wr_slot *part = joins[j].part;
    if (!can_join(layer, part, joins[j].n)) return WEIR_OK;
    wr_bound *b = &layer[joins[j].joined];
    *b = layer[part[0]];
    b->joined = true;
    b->args.rows = 0;
    b->bytes = 0;
    b->offset = m->weight_bytes;
    for (int i = 0; i < joins[j].n; i++) {
        layer[part[i]].offset = m->weight_bytes + b->bytes;
        b->args.rows += layer[part[i]].args.rows;
        b->bytes += layer[part[i]].bytes;
    }
    WR_TRY(advance(m, b, b->bytes, WEIGHT_ALIGN, err));
    return join_biases(m, layer, j, err);
}

static bool is_joined(const wr_bound *layer, int slot) {
    for (int j = 0; j < N_JOINS; j++)
        for (int i = 0; i < joins[j].n && layer[joins[j].joined].joined; i++)
            if ((int)joins[j].part[i] == slot) return true;
    return false;
}

static weir_status place(wr_model *m, wr_bound *bounds, int n, bool layer, weir_error *err) {
    bool device = m->backend->runtime != NULL;
    for (int j = 0; layer && m->backend->joins_rows && j < N_JOINS; j++) WR_TRY(join(m, bounds, j, err));
    for (int i = 0; i < n; i++) {
        wr_bound *b = &bounds[i];
        if (!b->present || !b->bytes || b->joined || (b->vector && !device) || (layer && is_joined(bounds, i)))
            continue;
        b->offset = m->weight_bytes;
        WR_TRY(advance(m, b, b->bytes, WEIGHT_ALIGN, err));
    }
    return WEIR_OK;
}

static weir_status place_all(wr_model *m, weir_error *err) {
    WR_TRY(place(m, m->global, WR_N_GLOBAL_SLOTS, false, err));
    for (int64_t i = 0; i < m->hyper.n_layers; i++) WR_TRY(place(m, &m->layers[i * WR_N_SLOTS], WR_N_SLOTS, true, err));
    return WEIR_OK;
}

/* Tied as the configuration says; silent configurations are tied when there is no head. */
static weir_status find_tied(wr_model *m, const wr_config *config, weir_error *err) {
    bool has_head = wr_checkpoint_has(m->checkpoint, "lm_head");
    WR_TRY(wr_config_bool_or(config, "tie_word_embeddings", !has_head, &m->hyper.tied, err));
    if (m->hyper.tied && has_head) { /* some checkpoints store the tied head a second time */
        static const char *const parts[] = {"lm_head.weight", "lm_head.scales", "lm_head.biases"};
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) wr_checkpoint_ignore(m->checkpoint, parts[i]);
    }
    return WEIR_OK;
}

/* Tensors that carry no weights: rotary frequencies. GGUF writes llama3's scaling as divisors. */
static weir_status read_rope_tensors(wr_model *m, weir_error *err) {
    wr_rope_table_args *rope = &m->hyper.rope[0];
    if (wr_checkpoint_has_tensor(m->checkpoint, "rope_freqs.weight")) {
        float divisors[WR_ROPE_MAX_HALF];
        WR_TRY(wr_checkpoint_vector(m->checkpoint, "rope_freqs.weight", rope->half, divisors, err));
        for (int i = 0; i < rope->half; i++) {
            if (!(divisors[i] > 0))
                return WR_FAIL(err, WEIR_E_FORMAT, "rope_freqs.weight[%d] is %g; it must be above 0", i,
                               (double)divisors[i]);
            rope->inv_freq[i] /= (double)divisors[i];
        }
    }
    for (int64_t i = 0; i < m->hyper.n_layers; i++) {
        char name[96];
        snprintf(name, sizeof name, "model.layers.%lld.self_attn.rotary_emb.inv_freq", (long long)i);
        wr_checkpoint_ignore(m->checkpoint, name);
    }
    return WEIR_OK;
}

static weir_status open_model(wr_model *m, weir_error *err) {
    const wr_config *config = wr_checkpoint_config(m->checkpoint);
    const char *model_type;
    WR_TRY(wr_config_string_or(config, "model_type", "", &model_type, err));
    m->family = wr_family_find(model_type);
    if (!m->family)
        return WR_FAIL(
            err, WEIR_E_UNSUPPORTED,
            "model_type \"%s\" is not supported; supported: llama, mistral, qwen2, qwen3, gemma3, gemma3_text",
            model_type);
    WR_TRY(m->family->configure(config, &m->hyper, err));
    WR_TRY(find_tied(m, config, err));
    size_t bytes = (size_t)m->hyper.n_layers * WR_N_SLOTS * sizeof *m->layers;
    m->layers = wr_arena_alloc(&m->arena, bytes);
    if (!m->layers) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for %lld layers", (long long)m->hyper.n_layers);
    WR_TRY(bind_table(m, wr_rules_common, err));
    WR_TRY(bind_table(m, m->family->rules, err));
    WR_TRY(place_all(m, err));
    WR_TRY(read_rope_tensors(m, err));
    return wr_checkpoint_all_used(m->checkpoint, err);
}

weir_status wr_model_open(wr_checkpoint *checkpoint, const wr_backend *backend, wr_model **out, weir_error *err) {
    *out = NULL;
    wr_model *m = wr_calloc(1, sizeof *m);
    if (!m) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the model");
    wr_arena_init(&m->arena, MODEL_ARENA_CAP_BYTES);
    m->checkpoint = checkpoint;
    m->backend = backend;
    weir_status st = open_model(m, err);
    if (st != WEIR_OK) {
        wr_err_context(err, "model %s", wr_checkpoint_path(checkpoint));
        wr_model_close(m);
        return st;
    }
    *out = m;
    return WEIR_OK;
}

static void close_bound(wr_bound *b) {
    wr_buffer_release(b->data);
    wr_buffer_release(b->scales);
    wr_buffer_release(b->biases);
}

/* Call visit for every bound weight, the global ones first, then layer by layer. */
static weir_status each_bound(wr_model *m, weir_status (*visit)(void *, wr_bound *, weir_error *), void *context,
                              weir_error *err) {
    for (int i = 0; i < WR_N_GLOBAL_SLOTS; i++)
        if (m->global[i].present) WR_TRY(visit(context, &m->global[i], err));
    for (int64_t i = 0; i < m->hyper.n_layers * WR_N_SLOTS; i++)
        if (m->layers[i].present) WR_TRY(visit(context, &m->layers[i], err));
    return WEIR_OK;
}

typedef struct load_state {
    wr_model *model;
    weir_device *device;
    wr_bound *bound;
    char *packed;  /* where the matrix is laid out: its place, or host memory that is copied to its place */
    void *staging; /* that host memory, of the largest matrix; NULL where the device's memory is the host's */
    size_t staging_bytes;
    int slice, n_slices;
    void (*progress)(void *, double);
    void *progress_context;
    size_t done_bytes;
} load_state;

static void pack_job(void *context, int thread, int n_threads) {
    const load_state *l = context;
    const wr_bound *b = l->bound;
    l->device->backend->pack(&b->args, b->source.data, b->source.scales, b->source.biases, l->packed,
                             l->slice * n_threads + thread, l->n_slices * n_threads);
}

/* Part `slice` of n of the matrix's source arrays was read; a mapped page shared with the next part is read again, no
 * more. */
static void drop_source(const load_state *l, size_t slice, size_t n) {
    const wr_weight *w = &l->bound->source;
    const void *const arrays[] = {w->data, w->scales, w->biases};
    const size_t bytes[] = {w->data_bytes, w->scales_bytes, w->biases_bytes};
    for (int i = 0; i < 3; i++)
        if (arrays[i])
            wr_checkpoint_drop(l->model->checkpoint, (const char *)arrays[i] + bytes[i] / n * slice, bytes[i] / n);
}

/* A part that the backend reads as published: where it lies, or a copy on the device. */
static weir_status load_published(load_state *l, const void *data, size_t bytes, wr_buffer **out, weir_error *err) {
    if (!data) return WEIR_OK;
    if (wr_device_is_host(l->device)) return wr_buffer_view((void *)data, bytes, out, err);
    WR_TRY(wr_buffer_new_on(l->device, bytes, out, err));
    return wr_buffer_write(*out, data, bytes, err);
}

static weir_status load_matrix(load_state *l, wr_bound *b, weir_error *err) {
    const wr_weight *w = &b->source;
    WR_TRY(wr_checkpoint_align(l->model->checkpoint, &b->source, err));
    if (!b->bytes) {
        WR_TRY(load_published(l, w->data, w->data_bytes, &b->data, err));
        WR_TRY(load_published(l, w->scales, w->scales_bytes, &b->scales, err));
        return load_published(l, w->biases, w->biases_bytes, &b->biases, err);
    }
    char *place = (char *)l->model->weights + b->offset;
    l->bound = b;
    l->packed = l->staging ? l->staging : place;
    l->n_slices = (int)(b->bytes / SLICE_BYTES) + 1;
    for (l->slice = 0; l->slice < l->n_slices; l->slice++) {
        wr_pool_run(l->device->pool, pack_job, l);
        drop_source(l, (size_t)l->slice, (size_t)l->n_slices);
    }
    drop_source(l, 0, 1); /* aligned copies go only as a whole */
    if (l->staging) WR_TRY(wr_device_upload(l->device, place, l->staging, b->bytes, err));
    b->args.packed = 1;
    return wr_buffer_view(place, b->bytes, &b->data, err);
}

static weir_status load_vector(load_state *l, wr_bound *b, weir_error *err) {
    if (wr_device_is_host(l->device)) return wr_buffer_view((void *)b->values, b->bytes, &b->data, err);
    char *place = (char *)l->model->weights + b->offset;
    WR_TRY(wr_device_upload(l->device, place, b->values, b->bytes, err));
    return wr_buffer_view(place, b->bytes, &b->data, err);
}

static weir_status load_bound(void *context, wr_bound *b, weir_error *err) {
    load_state *l = context;
    if (b->joined) {
        b->args.packed = 1;
        return wr_buffer_view((char *)l->model->weights + b->offset, b->bytes, &b->data, err);
    }
    WR_TRY(b->vector ? load_vector(l, b, err) : load_matrix(l, b, err));
    l->done_bytes += b->bytes;
    if (l->progress) l->progress(l->progress_context, (double)l->done_bytes / (double)l->model->weight_bytes);
    return WEIR_OK;
}

static weir_status largest(void *context, wr_bound *b, weir_error *err) {
    (void)err;
    load_state *l = context;
    if (!b->joined && !b->vector && b->bytes > l->staging_bytes) l->staging_bytes = b->bytes;
    return WEIR_OK;
}

weir_status wr_model_load(wr_model *m, weir_device *device, void (*progress)(void *, double), void *context,
                          weir_error *err) {
    load_state state = {.model = m, .device = device, .progress = progress, .progress_context = context};
    if (m->weight_bytes) {
        weir_status st = wr_device_reserve(device, m->weight_bytes, &m->weights, err);
        if (st != WEIR_OK) {
            wr_err_context(err, "%zu bytes of weights; use a smaller or more strongly quantised model",
                           m->weight_bytes);
            return st;
        }
    }
    m->device = device;
    if (!wr_device_is_host(device)) {
        each_bound(m, largest, &state, err);
        state.staging = wr_pages_alloc(state.staging_bytes ? state.staging_bytes : 1);
        if (!state.staging)
            return WR_FAIL(err, WEIR_E_MEMORY, "no memory for laying out %zu bytes of weights", state.staging_bytes);
    }
    weir_status st = each_bound(m, load_bound, &state, err);
    if (state.staging) wr_pages_free(state.staging, state.staging_bytes ? state.staging_bytes : 1);
    return st;
}

/* ---- planning without loading ---- */

/* Where nothing is read from or written to. */
static _Alignas(256) char nowhere[256];

static weir_status sketch_part(const void *source, size_t bytes, wr_buffer **out, weir_error *err) {
    return source ? wr_buffer_view(nowhere, bytes, out, err) : WEIR_OK;
}

static weir_status sketch_bound(void *context, wr_bound *b, weir_error *err) {
    (void)context;
    const wr_weight *w = &b->source;
    if (b->joined || b->vector || b->bytes) {
        if (!b->vector) b->args.packed = 1;
        return wr_buffer_view(nowhere, b->bytes, &b->data, err);
    }
    WR_TRY(sketch_part(w->data, w->data_bytes, &b->data, err));
    WR_TRY(sketch_part(w->scales, w->scales_bytes, &b->scales, err));
    return sketch_part(w->biases, w->biases_bytes, &b->biases, err);
}

static weir_status forget_bound(void *context, wr_bound *b, weir_error *err) {
    (void)context, (void)err;
    close_bound(b);
    b->data = b->scales = b->biases = NULL;
    b->args.packed = 0;
    return WEIR_OK;
}

weir_status wr_model_sketch(wr_model *m, weir_error *err) {
    wr_assert(!m->device);
    return each_bound(m, sketch_bound, NULL, err);
}

void wr_model_unsketch(wr_model *m) { each_bound(m, forget_bound, NULL, NULL); }

void wr_model_close(wr_model *m) {
    if (!m) return;
    for (int i = 0; i < WR_N_GLOBAL_SLOTS; i++) close_bound(&m->global[i]);
    if (m->layers)
        for (int64_t i = 0; i < m->hyper.n_layers * WR_N_SLOTS; i++) close_bound(&m->layers[i]);
    if (m->weights) wr_device_release(m->device, m->weights, m->weight_bytes);
    wr_arena_deinit(&m->arena);
    wr_free(m);
}

int64_t wr_model_kv_columns(const wr_model *m) { return wr_kv_columns(m->backend->tiles_pages, m->hyper.head_dim); }

size_t wr_model_kv_bytes_per_token(const wr_model *m, int group, weir_dtype kv_dtype) {
    size_t layers = 0;
    for (int64_t i = 0; i < m->hyper.n_layers; i++) layers += m->hyper.layer_kv_group[i] == group;
    return layers * 2 * (size_t)(m->hyper.n_kv_heads * wr_model_kv_columns(m)) * weir_dtype_bytes(kv_dtype);
}
