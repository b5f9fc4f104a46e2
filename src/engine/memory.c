/* Owns the sizes of all that an engine takes on its device, so that a plan that does not fit is refused before anything
 * is loaded. The activations are what the planner of programs says: it is given the engine's graphs over buffers that
 * lie nowhere. */
#include <string.h>

#include "engine/internal.h"

/* Logits are large: vocabulary x rows. A device decodes more sequences at once than a CPU can use. */
enum { MAX_HEAD_ROWS = 64, MAX_DEVICE_HEAD_ROWS = 256, MIN_HEAD_ROWS = 8, FEED_ALIGN = 256 };

static size_t place(size_t *end, size_t bytes) {
    size_t at = *end;
    *end += (bytes + FEED_ALIGN - 1) / FEED_ALIGN * FEED_ALIGN;
    return at;
}

/* Sets head_rows and the places in the feed; the feed's bytes. What is sent in every step lies together: rows, picks,
 * samples, bias pairs. */
static size_t lay_out(weir_engine *e) {
    const weir_engine_options *o = &e->options;
    bool samples = !wr_device_is_host(e->device);
    int64_t most = samples ? MAX_DEVICE_HEAD_ROWS : MAX_HEAD_ROWS;
    e->head_rows = o->max_batch < MIN_HEAD_ROWS ? MIN_HEAD_ROWS : o->max_batch > most ? most : o->max_batch;
    if (e->head_rows > o->max_step_tokens) e->head_rows = o->max_step_tokens;
    size_t end = 0, pairs = (size_t)o->max_batch * WR_MAX_LOGIT_BIAS;
    e->at_tables = place(&end, wr_kv_tables_bytes(&e->kv));
    place(&end, 3 * (size_t)o->max_step_tokens * sizeof(int32_t)); /* rows */
    e->at_picks = place(&end, (size_t)e->head_rows * sizeof(int32_t));
    e->at_samples = place(&end, samples ? (size_t)e->head_rows * sizeof(wr_sample_row) : 0);
    e->at_bias = place(&end, samples ? pairs * sizeof(wr_sample_bias) : 0);
    return end;
}

/* ---- an engine over buffers that lie nowhere ---- */

static _Alignas(256) char nowhere[256];

static weir_status sketch_kv(weir_engine *e, const wr_kv_plan *plan, weir_error *err) {
    const wr_hyper *h = &e->model->hyper;
    size_t layers = (size_t)h->n_layers;
    wr_kv *kv = &e->kv;
    *kv = (wr_kv){.n_groups = h->n_kv_groups, .max_batch = e->options.max_batch, .max_pages = plan->max_pages};
    for (int g = 0; g < kv->n_groups; g++) kv->group[g].n_pages = plan->n_pages[g];
    kv->keys = wr_calloc(layers, sizeof *kv->keys);
    kv->values = wr_calloc(layers, sizeof *kv->values);
    if (!kv->keys || !kv->values) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for planning %zu layers", layers);
    kv->n_layers = h->n_layers;
    for (size_t i = 0; i < layers; i++) {
        size_t tokens = (size_t)plan->n_pages[h->layer_kv_group[i]] * WR_PAGE_TOKENS;
        size_t bytes =
            tokens * (size_t)(h->n_kv_heads * wr_model_kv_columns(e->model)) * weir_dtype_bytes(e->options.kv_dtype);
        WR_TRY(wr_buffer_view(nowhere, bytes, &kv->keys[i], err));
        WR_TRY(wr_buffer_view(nowhere, bytes, &kv->values[i], err));
    }
    return WEIR_OK;
}

static weir_status sketch(weir_engine *e, const wr_kv_plan *plan, wr_memory *m, weir_error *err) {
    const wr_hyper *h = &e->model->hyper;
    WR_TRY(wr_model_sketch(e->model, err));
    WR_TRY(sketch_kv(e, plan, err));
    m->inputs = lay_out(e);
    m->hidden = (size_t)(e->options.max_step_tokens * h->hidden) * sizeof(float);
    e->feed = (wr_feed){.device = e->device, .bytes = m->inputs};
    WR_TRY(wr_buffer_view(nowhere, m->inputs, &e->feed.buffer, err));
    WR_TRY(wr_buffer_view(nowhere, m->hidden, &e->hidden, err));
    if (wr_device_is_host(e->device)) return WEIR_OK;
    m->sampled = (size_t)e->head_rows * WR_SAMPLE_HEAD * sizeof(int32_t);
    m->counts = (size_t)(e->options.max_batch * h->vocab) * sizeof(uint32_t);
    WR_TRY(wr_buffer_view(nowhere, m->sampled, &e->sampled, err));
    return wr_buffer_view(nowhere, m->counts, &e->counts, err);
}

static void unsketch(weir_engine *e) {
    wr_buffer_release(e->feed.buffer);
    wr_buffer_release(e->hidden);
    wr_buffer_release(e->sampled);
    wr_buffer_release(e->counts);
    e->hidden = e->sampled = e->counts = NULL;
    e->feed = (wr_feed){0};
    e->kv.device = e->device; /* that nothing was taken from */
    wr_kv_deinit(&e->kv);
    wr_model_unsketch(e->model);
}

weir_status wr_engine_measure(weir_engine *e, const wr_kv_plan *kv, weir_error *err) {
    wr_memory *m = &e->memory;
    bool host = wr_device_is_host(e->device);
    *m = (wr_memory){.weights = e->model->weight_bytes, .kv = kv->bytes};
    *(host ? &m->mapped : &m->weights) += e->model->mapped_bytes;
    weir_status status = sketch(e, kv, m, err);
    if (status == WEIR_OK) status = wr_engine_programs_plan(e, &m->arena, err);
    unsketch(e);
    if (status != WEIR_OK || host) return status;
    return e->device->backend->runtime->memory(e->device->context, &m->free, &m->total, err);
}

weir_status wr_plan_measure(const wr_plan *plan, wr_memory *memory, weir_error *err) {
    weir_engine *e = wr_calloc(1, sizeof *e);
    if (!e) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a plan");
    e->model = plan->model;
    e->options = plan->options;
    weir_status status = weir_device_open(plan->device, plan->options.n_threads, &e->device, err);
    if (status == WEIR_OK) status = wr_engine_measure(e, &plan->kv, err);
    *memory = e->memory;
    weir_device_close(e->device);
    wr_free(e);
    return status;
}

weir_status wr_memory_check(const wr_memory *m, const char *device, weir_error *err) {
    size_t needed = wr_memory_needed(m), others = needed - m->kv;
    if (!m->total || needed <= m->free) return WEIR_OK;
    char hint[160];
    if (m->weights >= m->free)
        snprintf(hint, sizeof hint, "use a smaller or more strongly quantised model, or the device cpu");
    else if (others < m->free)
        snprintf(hint, sizeof hint, "lower the context or the batch, or kv_bytes to at most %zu", m->free - others);
    else
        snprintf(hint, sizeof hint, "lower max_step_tokens and max_batch");
    return WR_FAIL(err, WEIR_E_MEMORY,
                   "the model does not fit on %s: it needs %zu bytes (weights %zu, keys and values %zu, activations "
                   "%zu, step inputs %zu, sampler %zu), %zu of %zu are free; %s",
                   device, needed, m->weights, m->kv, m->arena + m->hidden, m->inputs, m->sampled + m->counts, m->free,
                   m->total, hint);
}
