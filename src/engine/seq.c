/* Owns sequences: checking what a caller asks for, and everything a sequence
 * needs while it runs, taken when it opens. */
#include <string.h>

#include "engine/internal.h"

static weir_status check_prompt(const weir_engine *e, const weir_seq_options *o, weir_error *err) {
    int64_t vocab = e->model->hyper.vocab;
    if (!o->n_tokens || !o->tokens) return WR_FAIL(err, WEIR_E_ARGUMENT, "the prompt has no tokens");
    for (size_t i = 0; i < o->n_tokens; i++)
        if (o->tokens[i] < 0 || o->tokens[i] >= vocab)
            return WR_FAIL(err, WEIR_E_ARGUMENT, "prompt token %zu is %d; the vocabulary has ids 0 to %lld", i,
                           o->tokens[i], (long long)vocab - 1);
    if ((int64_t)o->n_tokens > e->options.max_context ||
        (o->max_tokens >= 0 && (int64_t)o->n_tokens == e->options.max_context))
        return WR_FAIL(err, WEIR_E_LIMIT, "the prompt has %zu tokens, the context holds %lld%s", o->n_tokens,
                       (long long)e->options.max_context, o->max_tokens >= 0 ? " with the answer" : "");
    if (o->max_tokens < -1)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "max_tokens is %lld; it must be -1 (none), 0 (no limit) or more",
                       (long long)o->max_tokens);
    if (o->top_logprobs < 0 || o->top_logprobs > WEIR_MAX_TOP_LOGPROBS)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "top_logprobs is %d; it must be from 0 to %d", o->top_logprobs,
                       WEIR_MAX_TOP_LOGPROBS);
    return WEIR_OK;
}

/* How many tokens the sequence may come to hold; refused when even alone it could not. */
static weir_status find_capacity(const weir_engine *e, const weir_seq_options *o, int64_t *capacity, weir_error *err) {
    int64_t context = e->options.max_context, room = wr_kv_capacity(&e->kv, e->options.max_step_tokens);
    int64_t prompt = (int64_t)o->n_tokens, wanted = context;
    if (o->max_tokens == -1)
        wanted = prompt;
    else if (o->max_tokens > 0 && o->max_tokens < context - prompt)
        wanted = prompt + o->max_tokens;
    if (wanted > room && (o->max_tokens > 0 || prompt >= room))
        return WR_FAIL(err, WEIR_E_LIMIT,
                       "prompt and answer take %lld tokens, the memory for keys and values holds %lld; give more "
                       "kv_bytes or ask for fewer tokens",
                       (long long)wanted, (long long)room);
    *capacity = wanted < room ? wanted : room;
    return WEIR_OK;
}

static weir_status init_seq(weir_seq *s, const weir_seq_options *o, weir_error *err) {
    weir_engine *e = s->engine;
    WR_TRY(check_prompt(e, o, err));
    if (e->sampled && o->sampling.n_logit_bias > WR_MAX_LOGIT_BIAS)
        return WR_FAIL(err, WEIR_E_LIMIT, "logit_bias names %zu tokens; on a device at most %d are possible",
                       o->sampling.n_logit_bias, WR_MAX_LOGIT_BIAS);
    WR_TRY(find_capacity(e, o, &s->capacity, err));
    s->tokens = wr_malloc((size_t)s->capacity * sizeof *s->tokens);
    if (!s->tokens) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for %lld tokens", (long long)s->capacity);
    memcpy(s->tokens, o->tokens, o->n_tokens * sizeof *s->tokens);
    s->n_tokens = s->n_prompt = (int64_t)o->n_tokens;
    s->generate = o->max_tokens >= 0;
    s->ignore_eos = o->ignore_eos;
    s->logprobs = o->logprobs || o->top_logprobs > 0;
    s->top_logprobs = o->top_logprobs;
    s->score_prompt = o->score_prompt;
    s->user = o->user;
    if (o->n_stop_tokens) {
        s->stop_tokens = wr_malloc(o->n_stop_tokens * sizeof *s->stop_tokens);
        if (!s->stop_tokens) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for %zu stop tokens", o->n_stop_tokens);
        memcpy(s->stop_tokens, o->stop_tokens, o->n_stop_tokens * sizeof *s->stop_tokens);
        s->n_stop_tokens = o->n_stop_tokens;
    }
    if (s->top_logprobs && !e->top) {
        e->top = wr_malloc(e->event_capacity * WEIR_MAX_TOP_LOGPROBS * sizeof *e->top);
        if (!e->top) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for top_logprobs");
    }
    WR_TRY(wr_sampler_init(&s->sampler, &o->sampling, e->model->hyper.vocab, s->capacity, err));
    for (int64_t i = 0; i < s->n_prompt; i++) wr_sampler_see(&s->sampler, s->tokens[i], false);
    if (!e->tokenizer) {
        if (!o->n_stop) return WEIR_OK;
        return WR_FAIL(err, WEIR_E_ARGUMENT, "stop strings need a tokenizer, and the model has none");
    }
    WR_TRY(wr_stop_gate_init(&s->gate, o->stop, o->n_stop, weir_tokenizer_push_bytes_max(e->tokenizer), err));
    weir_token_decoder_init(&s->decoder, e->tokenizer,
                            WEIR_DECODE_CONTINUE | (o->keep_special ? 0 : WEIR_DECODE_SKIP_SPECIAL));
    return WEIR_OK;
}

static void free_seq(weir_seq *s) {
    wr_sampler_deinit(&s->sampler);
    wr_stop_gate_deinit(&s->gate);
    wr_free(s->stop_tokens);
    wr_free(s->tokens);
    wr_free(s);
}

weir_status weir_seq_open(weir_engine *e, const weir_seq_options *options, weir_seq **out, weir_error *err) {
    *out = NULL;
    weir_seq *s = wr_calloc(1, sizeof *s);
    if (!s) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a sequence");
    s->engine = e;
    s->slot = -1;
    atomic_init(&s->cancelled, false);
    weir_status st = init_seq(s, options, err);
    if (st != WEIR_OK) {
        free_seq(s);
        return st;
    }
    if (e->last)
        e->last->next = s;
    else
        e->first = s;
    e->last = s;
    *out = s;
    return WEIR_OK;
}

void wr_seq_free_pages(weir_seq *s) {
    if (s->slot < 0) return;
    wr_kv_release(&s->engine->kv, s->slot);
    s->engine->slot_used[s->slot] = false;
    s->slot = -1;
    s->n_cached = 0;
}

void weir_seq_cancel(weir_seq *s) { atomic_store(&s->cancelled, true); }

void weir_seq_close(weir_seq *s) {
    if (!s) return;
    weir_engine *e = s->engine;
    wr_seq_free_pages(s);
    wr_device_forget(e, s);
    weir_seq *before = NULL;
    for (weir_seq *i = e->first; i != s; i = i->next) before = i;
    if (before)
        before->next = s->next;
    else
        e->first = s->next;
    if (e->last == s) e->last = before;
    free_seq(s);
}

const int32_t *weir_seq_tokens(const weir_seq *s, size_t *n) {
    *n = (size_t)s->n_tokens;
    return s->tokens;
}
