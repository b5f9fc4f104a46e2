/* The one step loop. A step: end what was cancelled, let waiting sequences in,
 * choose rows (one for each decoding sequence, chunks of prompts with what is
 * left), run the body, run the head on the rows whose logits are wanted, sample,
 * report. A row's bits do not depend on the other rows, so none of the choices
 * made here changes a result. */
#include <string.h>
#include <time.h>

#include "engine/internal.h"

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static weir_event *report(weir_engine *e, weir_seq *s, weir_event_kind kind) {
    wr_assert(e->n_events < e->event_capacity);
    weir_event *event = &e->events[e->n_events++];
    *event = (weir_event){.seq = s, .user = s->user, .kind = kind, .token = -1, .text = ""};
    return event;
}

/* The character that stayed incomplete and the text that was held back come with the last event. */
static void finish(weir_engine *e, weir_seq *s, weir_finish reason, bool drop_held) {
    weir_event *event = report(e, s, WEIR_EVENT_FINISH);
    event->finish = reason;
    event->position = s->n_tokens;
    s->state = WR_SEQ_DONE;
    wr_seq_free_pages(s);
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

/* Running sequences end before anything else, so that others have their slots. Waiting ones end after the step's own
 * events, as many as the list still holds: there is no bound on how many wait. */
static void end_cancelled(weir_engine *e, wr_seq_state state) {
    for (weir_seq *s = e->first; s && e->n_events < e->event_capacity; s = s->next)
        if (s->state == state && atomic_load(&s->cancelled)) finish(e, s, WEIR_FINISH_CANCELLED, false);
}

/* In order of age. One that does not fit now waits, and so do those behind it: none is starved. */
static void admit_waiting(weir_engine *e) {
    int64_t slot = 0;
    for (weir_seq *s = e->first; s; s = s->next) {
        if (s->state != WR_SEQ_WAITING || atomic_load(&s->cancelled)) continue;
        while (slot < e->options.max_batch && e->slot_used[slot]) slot++;
        if (slot == e->options.max_batch || !wr_kv_has_room(&e->kv, s->n_tokens, e->options.max_step_tokens)) return;
        e->slot_used[slot] = true;
        s->slot = slot;
        s->state = WR_SEQ_RUNNING;
    }
}

/* The youngest running sequence gives its pages back and waits; it will be prefilled again, to the same bits. */
static weir_seq *preempt_youngest(weir_engine *e) {
    weir_seq *youngest = NULL;
    for (weir_seq *s = e->first; s; s = s->next)
        if (s->state == WR_SEQ_RUNNING) youngest = s;
    if (!youngest) return NULL;
    wr_seq_free_pages(youngest);
    youngest->n_rows = 0;
    youngest->state = WR_SEQ_WAITING;
    e->stats.preemptions++;
    return youngest;
}

/* Pages for the next n rows of s, taken from younger sequences if need be. false: s itself must wait. */
static bool reserve(weir_engine *e, weir_seq *s, int64_t n, int64_t *total_rows) {
    while (!wr_kv_reserve(&e->kv, s->slot, s->n_cached, s->n_cached + n)) {
        weir_seq *victim = preempt_youngest(e);
        *total_rows = 0;
        for (weir_seq *i = e->first; i; i = i->next) *total_rows += i->n_rows;
        if (!victim || victim == s) return false;
    }
    return true;
}

static int64_t rows_left(const weir_seq *s) { return s->state == WR_SEQ_RUNNING ? s->n_tokens - s->n_cached : 0; }

/* Rows of every sequence for this step; returns how many. */
static int64_t choose_rows(weir_engine *e) {
    int64_t total = 0, limit = e->options.max_step_tokens;
    for (weir_seq *s = e->first; s; s = s->next) s->n_rows = 0;
    for (int pass = 0; pass < 2; pass++) /* decoding sequences first, so that a long prompt never holds them up */
        for (weir_seq *s = e->first; s; s = s->next) {
            int64_t left = rows_left(s);
            if (left == 0 || (left == 1) != (pass == 0) || total == limit) continue;
            int64_t n = left < limit - total ? left : limit - total;
            if (!reserve(e, s, n, &total)) continue;
            if (s->state == WR_SEQ_RUNNING) s->n_rows = n, total += n;
        }
    return total;
}

/* The programs that a step of n rows can be run by, the smaller ones first. */
static const wr_buckets *buckets_for(const weir_engine *e, int64_t n) {
    return e->whole.n && n <= e->whole.rows[e->whole.n - 1] ? &e->whole : &e->body;
}

/* A step just above a bucket would be mostly padding: leave the surplus of a prompt to the next step. */
static int64_t trim_to_bucket(weir_engine *e, int64_t total) {
    const wr_buckets *b = buckets_for(e, total);
    int bucket = wr_bucket_for(b, total);
    if (bucket == 0 || b->rows[bucket] - total <= b->rows[bucket] / 8) return total;
    int64_t surplus = total - b->rows[bucket - 1];
    for (weir_seq *s = e->first; s; s = s->next)
        if (s->n_rows > surplus && s->n_rows > 1) {
            s->n_rows -= surplus;
            return total - surplus;
        }
    return total;
}

static bool wants_logits(const weir_seq *s, int64_t position) {
    if (position == s->n_tokens - 1) return s->generate;
    return s->score_prompt && position + 1 < s->n_prompt && position + 1 > s->n_scored;
}

/* Fill the input buffers; the wanted rows go to e->wanted. Returns how many are wanted. */
static int64_t fill_inputs(weir_engine *e, int64_t bucket_rows) {
    int32_t *tokens = e->rows.host->data, *row_seq = tokens + bucket_rows, *row_pos = row_seq + bucket_rows;
    int64_t row = 0, n_wanted = 0;
    for (weir_seq *s = e->first; s; s = s->next)
        for (int64_t i = 0; i < s->n_rows; i++, row++) {
            int64_t position = s->n_cached + i;
            tokens[row] = s->tokens[position];
            row_seq[row] = (int32_t)s->slot;
            row_pos[row] = (int32_t)position;
            if (wants_logits(s, position)) e->wanted[n_wanted++] = (wr_wanted){s, row, position};
        }
    for (; row < bucket_rows; row++) tokens[row] = 0, row_seq[row] = -1, row_pos[row] = 0;
    return n_wanted;
}

/* Log-probability of a token and the best of its row, from raw logits. */
static void add_logprobs(weir_engine *e, weir_event *event, const float *logits, int32_t token, int n_top) {
    int64_t vocab = e->model->hyper.vocab;
    double lse = wr_logsumexp(logits, vocab), floor = -1e30; /* finite, whatever the logits are */
    double logprob = (double)logits[token] - lse;
    event->has_logprob = true;
    event->logprob = (float)(logprob > floor ? logprob : floor);
    if (!n_top) return;
    weir_token_logprob *top = e->top + (size_t)(event - e->events) * WEIR_MAX_TOP_LOGPROBS;
    event->n_top = wr_top_tokens(logits, vocab, n_top, e->candidates);
    for (int i = 0; i < event->n_top; i++) {
        logprob = (double)e->candidates[i].logit - lse;
        top[i] = (weir_token_logprob){e->candidates[i].token, (float)(logprob > floor ? logprob : floor)};
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

static void score(weir_engine *e, weir_seq *s, const float *logits, int64_t position) {
    weir_event *event = report(e, s, WEIR_EVENT_SCORE);
    event->token = s->tokens[position + 1];
    event->position = position + 1;
    add_logprobs(e, event, logits, event->token, s->top_logprobs);
    s->n_scored = position + 1;
}

/* Where the logits of a row are: in the output of the program just run, on the device. */
typedef struct row_logits {
    const wr_program *program;
    int64_t row;
} row_logits;

/* The host's view of a row of logits: where they are, or a copy. */
static weir_status fetch(weir_engine *e, row_logits at, const float **out, weir_error *err) {
    const char *data = wr_program_output(at.program, 0)->data;
    size_t bytes = (size_t)e->model->hyper.vocab * sizeof **out;
    data += (size_t)at.row * bytes;
    *out = e->logits;
    if (!wr_device_is_host(e->device)) return wr_device_download(e->device, e->logits, data, bytes, err);
    *out = (const float *)(const void *)data;
    return WEIR_OK;
}

/* Sampling that needs nothing but the best token. */
static bool is_greedy(const weir_seq *s) { return !s->logprobs && wr_sampler_is_greedy(&s->sampler); }

/* logits NULL: `best` is the token. */
static void generate(weir_engine *e, weir_seq *s, const float *logits, int32_t best) {
    if (s->n_tokens == s->capacity) { /* the context was full with the prompt */
        finish(e, s, WEIR_FINISH_LENGTH, false);
        return;
    }
    weir_event *event = report(e, s, WEIR_EVENT_TOKEN);
    int64_t position = s->n_tokens;
    int32_t token = logits ? wr_sample(&s->sampler, logits, e->candidates, position) : best;
    if (token < 0) {
        e->n_events--;
        finish(e, s, WEIR_FINISH_ERROR, false);
        return;
    }
    if (s->logprobs) add_logprobs(e, event, logits, token, s->top_logprobs);
    event->token = token;
    event->position = position;
    s->tokens[s->n_tokens++] = token;
    e->stats.generated_tokens++;
    wr_sampler_see(&s->sampler, token, true);
    if (ends(e, s, token))
        finish(e, s, WEIR_FINISH_STOP, false);
    else if (add_text(s, event, token))
        finish(e, s, WEIR_FINISH_STOP, true);
    else if (s->n_tokens == s->capacity)
        finish(e, s, WEIR_FINISH_LENGTH, false);
}

static weir_status deliver(weir_engine *e, const wr_wanted *w, row_logits at, weir_error *err) {
    const float *logits = NULL;
    bool generates = w->position >= w->seq->n_prompt - 1;
    if (!e->greedy || !generates || !is_greedy(w->seq)) WR_TRY(fetch(e, at, &logits, err));
    if (generates)
        generate(e, w->seq, logits, e->greedy ? ((const int32_t *)e->greedy->data)[at.row] : -1);
    else
        score(e, w->seq, logits, w->position);
    return WEIR_OK;
}

/* Body and head in one. */
static weir_status run_whole(weir_engine *e, wr_program *program, int64_t n_wanted, weir_error *err) {
    WR_TRY(wr_program_run(program, err));
    for (int64_t i = 0; i < n_wanted; i++)
        WR_TRY(deliver(e, &e->wanted[i], (row_logits){program, e->wanted[i].row}, err));
    return WEIR_OK;
}

/* The body, then logits of the wanted rows, head_rows at a time, each handed to its sequence. */
static weir_status run_parts(weir_engine *e, wr_program *body, int64_t n_wanted, weir_error *err) {
    WR_TRY(wr_program_start(body, err));
    if (!n_wanted) return wr_device_wait(e->device, err); /* its inputs must be read before they are written again */
    for (int64_t at = 0; at < n_wanted; at += e->head_rows) {
        int64_t n = n_wanted - at < e->head_rows ? n_wanted - at : e->head_rows;
        int bucket = wr_bucket_for(&e->head, n);
        int32_t *picks = e->picks.host->data;
        for (int64_t i = 0; i < e->head.rows[bucket]; i++) picks[i] = i < n ? (int32_t)e->wanted[at + i].row : 0;
        WR_TRY(wr_program_run(e->head.program[bucket], err));
        for (int64_t i = 0; i < n; i++)
            WR_TRY(deliver(e, &e->wanted[at + i], (row_logits){e->head.program[bucket], i}, err));
    }
    return WEIR_OK;
}

static weir_status run_rows(weir_engine *e, int64_t total, weir_error *err) {
    const wr_buckets *b = buckets_for(e, total);
    int bucket = wr_bucket_for(b, total);
    int64_t n_wanted = fill_inputs(e, b->rows[bucket]);
    for (weir_seq *s = e->first; s; s = s->next)
        if (s->n_rows && s->n_cached < s->n_prompt)
            e->stats.prompt_tokens +=
                (uint64_t)(s->n_rows < s->n_prompt - s->n_cached ? s->n_rows : s->n_prompt - s->n_cached);
    return b == &e->whole ? run_whole(e, b->program[bucket], n_wanted, err)
                          : run_parts(e, b->program[bucket], n_wanted, err);
}

/* After the rows are written: count them, and end sequences that only wanted scores. */
static void advance(weir_engine *e) {
    for (weir_seq *s = e->first; s; s = s->next) {
        if (!s->n_rows || s->state != WR_SEQ_RUNNING) continue;
        s->n_cached += s->n_rows;
        if (!s->generate && s->n_cached == s->n_tokens) finish(e, s, WEIR_FINISH_LENGTH, false);
    }
}

weir_status weir_engine_step(weir_engine *e, const weir_event **events, size_t *n_events, weir_error *err) {
    uint64_t start = now_ns();
    e->n_events = 0;
    *events = e->events;
    *n_events = 0;
    for (weir_seq *s = e->first; s; s = s->next) wr_stop_gate_begin(&s->gate);
    end_cancelled(e, WR_SEQ_RUNNING);
    admit_waiting(e);
    int64_t total = trim_to_bucket(e, choose_rows(e));
    if (total) {
        WR_TRY(run_rows(e, total, err));
        advance(e);
        e->stats.steps++;
    }
    end_cancelled(e, WR_SEQ_WAITING);
    *n_events = e->n_events;
    e->stats.step_ns += now_ns() - start;
    return WEIR_OK;
}
