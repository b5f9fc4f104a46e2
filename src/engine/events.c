/* Owns the events of a step: tokens with their text and log-probabilities, scores, ends. */
#include <string.h>

#include "engine/internal.h"

/* Log-probabilities are finite, whatever the logits are. */
static const double FLOOR = -1e30;

static weir_event *report(weir_engine *e, weir_seq *s, weir_event_kind kind) {
    wr_assert(e->n_events < e->event_capacity);
    weir_event *event = &e->events[e->n_events++];
    *event = (weir_event){.seq = s, .user = s->user, .kind = kind, .token = -1, .text = ""};
    return event;
}

/* The character that stayed incomplete and the text that was held back come with the last event. */
void wr_finish(weir_engine *e, weir_seq *s, weir_finish reason, bool drop_held) {
    weir_event *event = report(e, s, WEIR_EVENT_FINISH);
    event->finish = reason;
    event->position = s->n_tokens;
    s->state = WR_SEQ_DONE;
    wr_seq_free_pages(s);
    wr_device_forget(e, s);
    if (!e->tokenizer) return;
    if (drop_held) return; /* a stop string ended the text; what follows it is not part of the answer */
    size_t room, rest_bytes;
    char *space = wr_stop_gate_space(&s->gate, &room);
    size_t added = weir_token_decoder_finish(&s->decoder, space, room);
    const char *rest;
    if (wr_stop_gate_push(&s->gate, added, &event->text, &event->text_bytes)) return;
    wr_stop_gate_flush(&s->gate, &rest, &rest_bytes);
    event->text_bytes += rest_bytes; /* the gate gives text out contiguously */
}

/* Log-probability of a token and the best of its row, from raw logits. */
static void add_logprobs(weir_engine *e, weir_event *event, const float *logits, int32_t token, int n_top) {
    int64_t vocab = e->model->hyper.vocab;
    double lse = wr_logsumexp(logits, vocab);
    double logprob = (double)logits[token] - lse;
    event->has_logprob = true;
    event->logprob = (float)(logprob > FLOOR ? logprob : FLOOR);
    if (!n_top) return;
    weir_token_logprob *top = e->top + (size_t)(event - e->events) * WEIR_MAX_TOP_LOGPROBS;
    event->n_top = wr_top_tokens(logits, vocab, n_top, e->candidates);
    for (int i = 0; i < event->n_top; i++) {
        logprob = (double)e->candidates[i].logit - lse;
        top[i] = (weir_token_logprob){e->candidates[i].token, (float)(logprob > FLOOR ? logprob : FLOOR)};
    }
    event->top = top;
}

static bool ends(const weir_engine *e, const weir_seq *s, int32_t token) {
    for (size_t i = 0; !s->ignore_eos && i < e->n_eos; i++)
        if (e->eos[i] == token) return true;
    for (size_t i = 0; i < s->n_stop_tokens; i++)
        if (s->stop_tokens[i] == token) return true;
    return false;
}

/* Decode the token's text into the event; true when a stop string is complete. */
static bool add_text(weir_seq *s, weir_event *event, int32_t token) {
    if (!s->engine->tokenizer) return false;
    size_t room, added = 0;
    char *space = wr_stop_gate_space(&s->gate, &room);
    weir_token_decoder_push(&s->decoder, token, space, room, &added, NULL);
    return wr_stop_gate_push(&s->gate, added, &event->text, &event->text_bytes);
}

void wr_report_score(weir_engine *e, weir_seq *s, const float *logits, int64_t position) {
    weir_event *event = report(e, s, WEIR_EVENT_SCORE);
    event->token = s->tokens[position + 1];
    event->position = position + 1;
    add_logprobs(e, event, logits, event->token, s->top_logprobs);
    s->n_scored = position + 1;
}

/* Is there room for another token? The context may be full with the prompt. */
static bool has_room(weir_engine *e, weir_seq *s) {
    if (s->n_tokens < s->capacity) return true;
    wr_finish(e, s, WEIR_FINISH_LENGTH, false);
    return false;
}

/* The token of the event, which knows its log-probability already. */
static void add_token(weir_engine *e, weir_seq *s, weir_event *event, int32_t token) {
    event->token = token;
    event->position = s->n_tokens;
    s->tokens[s->n_tokens++] = token;
    e->stats.generated_tokens++;
    wr_sampler_see(&s->sampler, token, true);
    if (ends(e, s, token))
        wr_finish(e, s, WEIR_FINISH_STOP, false);
    else if (add_text(s, event, token))
        wr_finish(e, s, WEIR_FINISH_STOP, true);
    else if (s->n_tokens == s->capacity)
        wr_finish(e, s, WEIR_FINISH_LENGTH, false);
}

void wr_report_token(weir_engine *e, weir_seq *s, const wr_choice *choice) {
    if (!has_room(e, s)) return;
    if (choice->token < 0) {
        wr_finish(e, s, WEIR_FINISH_ERROR, false);
        return;
    }
    weir_event *event = report(e, s, WEIR_EVENT_TOKEN);
    event->has_logprob = choice->has_logprob;
    event->logprob = choice->logprob;
    if (choice->n_top) {
        weir_token_logprob *top = e->top + (size_t)(event - e->events) * WEIR_MAX_TOP_LOGPROBS;
        for (int i = 0; i < choice->n_top; i++)
            top[i] = (weir_token_logprob){choice->top_tokens[i], choice->top_logprobs[i]};
        event->n_top = choice->n_top;
        event->top = top;
    }
    add_token(e, s, event, choice->token);
}

void wr_report_sampled(weir_engine *e, weir_seq *s, const float *logits) {
    if (!has_room(e, s)) return;
    int32_t token = wr_sample(&s->sampler, logits, e->candidates, s->n_tokens);
    if (token < 0) {
        wr_finish(e, s, WEIR_FINISH_ERROR, false);
        return;
    }
    weir_event *event = report(e, s, WEIR_EVENT_TOKEN);
    if (s->logprobs) add_logprobs(e, event, logits, token, s->top_logprobs);
    add_token(e, s, event, token);
}
