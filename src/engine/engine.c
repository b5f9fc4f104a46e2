/* Owns engines: opening makes everything that a step needs (weights laid out,
 * memory taken, programs compiled), so that a step does none of it. */
#include <string.h>

#include "engine/internal.h"
#include "engine/plan.h"
#include "engine/vocab.h"

static weir_status open_buffers(weir_engine *e, weir_error *err) {
    const wr_hyper *h = &e->model->hyper;
    size_t rows = (size_t)e->options.max_step_tokens, batch = (size_t)e->options.max_batch;
    WR_TRY(wr_feed_init(&e->feed, e->device, e->memory.inputs, err));
    WR_TRY(wr_buffer_new_on(e->device, e->memory.hidden, &e->hidden, err));
    if (!wr_device_is_host(e->device)) WR_TRY(wr_device_open_steps(e, err));
    e->logits = wr_malloc((size_t)h->vocab * sizeof *e->logits);
    e->wanted = wr_malloc(rows * sizeof *e->wanted);
    e->candidates = wr_malloc((size_t)h->vocab * sizeof *e->candidates);
    /* Each row reports at most once; the sequence of a slot may be cancelled and the next one in it finish; and at
     * least so many that wait may be cancelled. */
    e->event_capacity = rows + 3 * batch;
    e->events = wr_malloc(e->event_capacity * sizeof *e->events);
    e->slot_used = wr_calloc(batch, sizeof *e->slot_used);
    if (!e->logits || !e->wanted || !e->candidates || !e->events || !e->slot_used)
        return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the step's buffers; lower max_step_tokens");
    return WEIR_OK;
}

/* End ids: the tokenizer's, which knows the checkpoint's too; without one the checkpoint's. */
static weir_status open_vocab(weir_engine *e, weir_error *err) {
    WR_TRY(wr_vocab_open(e->checkpoint, &e->tokenizer, err));
    if (!e->tokenizer) {
        WR_TRY(wr_checkpoint_eos(e->checkpoint, e->eos, WR_MAX_EOS, &e->n_eos, err));
        if (e->n_eos > WR_MAX_EOS) e->n_eos = WR_MAX_EOS;
        return WEIR_OK;
    }
    const int32_t *eos;
    e->n_eos = weir_tokenizer_eos(e->tokenizer, &eos);
    if (e->n_eos > WR_MAX_EOS) e->n_eos = WR_MAX_EOS;
    memcpy(e->eos, eos, e->n_eos * sizeof *eos);
    int64_t pieces = weir_tokenizer_vocab_size(e->tokenizer);
    if (pieces <= e->model->hyper.vocab) return WEIR_OK;
    return WR_FAIL(err, WEIR_E_FORMAT, "the tokenizer has %lld tokens, the model's vocab_size is %lld",
                   (long long)pieces, (long long)e->model->hyper.vocab);
}

static weir_status open_engine(weir_engine *e, const char *model, const weir_engine_options *options, weir_error *err) {
    wr_plan plan;
    WR_TRY(wr_plan_init(&plan, model, options, err));
    e->checkpoint = plan.checkpoint, e->model = plan.model, e->options = plan.options; /* taken */
    memcpy(e->device_name, plan.device, sizeof e->device_name);
    e->options.device = e->device_name;
    const weir_engine_options *o = &e->options;
    WR_TRY(weir_device_open(o->device, o->n_threads, &e->device, err));
    WR_TRY(open_vocab(e, err));
    WR_TRY(wr_engine_measure(e, &plan.kv, err));
    WR_TRY(wr_memory_check(&e->memory, o->device, err));
    WR_TRY(wr_model_load(e->model, e->device, o->progress, o->progress_context, err));
    WR_TRY(wr_kv_init(&e->kv, e->model, &plan.kv, e->device, o->max_batch, o->kv_dtype, err));
    WR_TRY(open_buffers(e, err));
    WR_TRY(wr_engine_programs_new(e, err));
    if (!e->model->mapped_bytes) wr_checkpoint_rest(e->checkpoint);
    return WEIR_OK;
}

weir_status weir_engine_open(const char *model, const weir_engine_options *options, weir_engine **out,
                             weir_error *err) {
    *out = NULL;
    weir_engine *e = wr_calloc(1, sizeof *e);
    if (!e) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the engine");
    weir_status st = open_engine(e, model, options, err);
    if (st != WEIR_OK) {
        weir_engine_close(e);
        return st;
    }
    *out = e;
    return WEIR_OK;
}

void weir_engine_close(weir_engine *e) {
    if (!e) return;
    wr_assert(!e->first); /* sequences outlive their engine: the caller's fault */
    wr_engine_programs_free(e);
    wr_kv_deinit(&e->kv);
    wr_device_close_steps(e);
    wr_feed_deinit(&e->feed);
    wr_buffer_release(e->hidden);
    wr_free(e->logits);
    wr_free(e->wanted);
    wr_free(e->candidates);
    wr_free(e->top);
    wr_free(e->events);
    wr_free(e->slot_used);
    wr_model_close(e->model);
    weir_tokenizer_close(e->tokenizer);
    weir_device_close(e->device);
    wr_checkpoint_close(e->checkpoint);
    wr_free(e);
}

void weir_engine_get_info(const weir_engine *e, weir_engine_info *info) {
    const wr_hyper *h = &e->model->hyper;
    *info = (weir_engine_info){.device = e->device_name,
                               .family = e->model->family->name,
                               .path = wr_checkpoint_path(e->checkpoint),
                               .vocab_size = h->vocab,
                               .hidden_size = h->hidden,
                               .n_layers = h->n_layers,
                               .max_context = e->options.max_context,
                               .max_batch = e->options.max_batch,
                               .max_step_tokens = e->options.max_step_tokens,
                               .page_tokens = WR_PAGE_TOKENS,
                               .weight_bytes = e->model->weight_bytes + e->model->mapped_bytes,
                               .kv_bytes = e->kv.bytes,
                               .activation_bytes = e->arena_bytes,
                               .n_threads = wr_pool_threads(e->device->pool),
                               .chat_template = e->tokenizer ? weir_tokenizer_chat_template(e->tokenizer) : NULL};
    for (int i = 0; i < e->body.n; i++) info->program_bytes += wr_program_own_bytes(e->body.program[i]);
    for (int i = 0; i < e->head.n; i++) info->program_bytes += wr_program_own_bytes(e->head.program[i]);
    for (int i = 0; i < e->whole.n; i++) info->program_bytes += wr_program_own_bytes(e->whole.program[i]);
}

const weir_tokenizer *weir_engine_tokenizer(const weir_engine *e) { return e->tokenizer; }

const int32_t *weir_engine_eos(const weir_engine *e, size_t *n) {
    *n = e->n_eos;
    return e->eos;
}

void weir_engine_get_stats(const weir_engine *e, weir_engine_stats *stats) {
    *stats = e->stats;
    for (const weir_seq *s = e->first; s; s = s->next) {
        stats->running += s->state == WR_SEQ_RUNNING;
        stats->waiting += s->state == WR_SEQ_WAITING;
    }
    for (int i = 0; i < e->kv.n_groups; i++) {
        stats->kv_pages_total += e->kv.group[i].n_pages;
        stats->kv_pages_used += e->kv.group[i].n_pages - e->kv.group[i].n_free;
    }
}
