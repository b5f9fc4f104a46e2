/* Owns models: finding the family, binding every weight by the family's table,
 * laying the weights out for the backend. Binding reads no matrix, so that
 * `weir inspect` can print the plan of a model that would not fit. */
#include "models/model.h"

#include <string.h>

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
    return wr_buffer_view(values, (size_t)b->args.rows * sizeof *values, &b->data, err);
}

/* Where the matrix lies, and how many bytes the backend's layout of it takes. */
static weir_status bind_matrix(wr_model *m, const wr_backend *backend, wr_bound *b, weir_error *err) {
    wr_linear_args *a = &b->args;
    WR_TRY(wr_checkpoint_weight(m->checkpoint, b->name, 1, a->rows, a->cols, &b->source, err));
    a->quant = b->source.quant;
    a->weight_dtype = b->source.dtype;
    a->out_dtype = WEIR_DTYPE_F32;
    a->global_scale = b->source.global_scale;
    b->bytes = backend->packed_bytes(a);
    if (!b->bytes) {
        m->mapped_bytes += b->source.data_bytes + b->source.scales_bytes + b->source.biases_bytes;
        return WEIR_OK;
    }
    b->offset = m->weight_bytes;
    size_t padded;
    if (!wr_add_size(b->bytes, WEIGHT_ALIGN - 1, &padded) ||
        !wr_add_size(m->weight_bytes, padded / WEIGHT_ALIGN * WEIGHT_ALIGN, &m->weight_bytes))
        return WR_FAIL(err, WEIR_E_LIMIT, "%s: the weights exceed the address space", b->name);
    return WEIR_OK;
}

static weir_status bind_rule(wr_model *m, const wr_backend *backend, const wr_weight_rule *rule, int64_t layer,
                             weir_error *err) {
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
    return rule->cols == WR_DIM_NONE ? bind_vector(m, b, err) : bind_matrix(m, backend, b, err);
}

static weir_status bind_table(wr_model *m, const wr_backend *backend, const wr_weight_rule *rules, weir_error *err) {
    for (const wr_weight_rule *r = rules; r->name; r++) {
        int64_t n = wr_rule_per_layer(r) ? m->hyper.n_layers : 1;
        for (int64_t layer = 0; layer < n; layer++) WR_TRY(bind_rule(m, backend, r, layer, err));
    }
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

static weir_status open_model(wr_model *m, const wr_backend *backend, weir_error *err) {
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
    WR_TRY(bind_table(m, backend, wr_rules_common, err));
    WR_TRY(bind_table(m, backend, m->family->rules, err));
    WR_TRY(read_rope_tensors(m, err));
    return wr_checkpoint_all_used(m->checkpoint, err);
}

weir_status wr_model_open(wr_checkpoint *checkpoint, const wr_backend *backend, wr_model **out, weir_error *err) {
    *out = NULL;
    wr_model *m = wr_calloc(1, sizeof *m);
    if (!m) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the model");
    wr_arena_init(&m->arena, MODEL_ARENA_CAP_BYTES);
    m->checkpoint = checkpoint;
    weir_status st = open_model(m, backend, err);
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

/* Call visit for every matrix, the global ones first, then layer by layer. */
static weir_status each_matrix(wr_model *m, weir_status (*visit)(void *, wr_bound *, weir_error *), void *context,
                               weir_error *err) {
    for (int i = 0; i < WR_N_GLOBAL_SLOTS; i++)
        if (m->global[i].present && !m->global[i].vector) WR_TRY(visit(context, &m->global[i], err));
    for (int64_t i = 0; i < m->hyper.n_layers * WR_N_SLOTS; i++)
        if (m->layers[i].present && !m->layers[i].vector) WR_TRY(visit(context, &m->layers[i], err));
    return WEIR_OK;
}

typedef struct load_state {
    wr_model *model;
    weir_device *device;
    wr_bound *bound;
    int slice, n_slices;
    void (*progress)(void *, double);
    void *progress_context;
    size_t done_bytes;
} load_state;

static void pack_job(void *context, int thread, int n_threads) {
    const load_state *l = context;
    const wr_bound *b = l->bound;
    l->device->backend->pack(&b->args, b->source.data, b->source.scales, b->source.biases,
                             (char *)l->model->weights + b->offset, l->slice * n_threads + thread,
                             l->n_slices * n_threads);
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

static weir_status load_matrix(void *context, wr_bound *b, weir_error *err) {
    load_state *l = context;
    const wr_weight *w = &b->source;
    WR_TRY(wr_checkpoint_align(l->model->checkpoint, &b->source, err));
    if (!b->bytes) { /* the backend reads the published layout where it lies */
        WR_TRY(wr_buffer_view((void *)w->data, w->data_bytes, &b->data, err));
        if (w->scales) WR_TRY(wr_buffer_view((void *)w->scales, w->scales_bytes, &b->scales, err));
        if (w->biases) WR_TRY(wr_buffer_view((void *)w->biases, w->biases_bytes, &b->biases, err));
        return WEIR_OK;
    }
    l->bound = b;
    l->n_slices = (int)(b->bytes / SLICE_BYTES) + 1;
    for (l->slice = 0; l->slice < l->n_slices; l->slice++) {
        wr_pool_run(l->device->pool, pack_job, l);
        drop_source(l, (size_t)l->slice, (size_t)l->n_slices);
    }
    drop_source(l, 0, 1); /* aligned copies go only as a whole */
    b->args.packed = 1;
    WR_TRY(wr_buffer_view((char *)l->model->weights + b->offset, b->bytes, &b->data, err));
    l->done_bytes += b->bytes;
    if (l->progress) l->progress(l->progress_context, (double)l->done_bytes / (double)l->model->weight_bytes);
    return WEIR_OK;
}

weir_status wr_model_load(wr_model *m, weir_device *device, void (*progress)(void *, double), void *context,
                          weir_error *err) {
    if (m->weight_bytes) {
        m->weights = wr_pages_alloc(m->weight_bytes);
        if (!m->weights)
            return WR_FAIL(err, WEIR_E_MEMORY,
                           "no memory for %zu bytes of weights; use a smaller or more strongly "
                           "quantised model",
                           m->weight_bytes);
    }
    load_state state = {.model = m, .device = device, .progress = progress, .progress_context = context};
    return each_matrix(m, load_matrix, &state, err);
}

void wr_model_close(wr_model *m) {
    if (!m) return;
    for (int i = 0; i < WR_N_GLOBAL_SLOTS; i++) close_bound(&m->global[i]);
    if (m->layers)
        for (int64_t i = 0; i < m->hyper.n_layers * WR_N_SLOTS; i++) close_bound(&m->layers[i]);
    if (m->weights) wr_pages_free(m->weights, m->weight_bytes);
    wr_arena_deinit(&m->arena);
    wr_free(m);
}

size_t wr_model_kv_bytes_per_token(const wr_model *m, int group, weir_dtype kv_dtype) {
    size_t layers = 0;
    for (int64_t i = 0; i < m->hyper.n_layers; i++) layers += m->hyper.layer_kv_group[i] == group;
    return layers * 2 * (size_t)(m->hyper.n_kv_heads * m->hyper.head_dim) * weir_dtype_bytes(kv_dtype);
}
