/* Owns running steps on a device with memory of its own. Tokens are sampled there and feed the next step there, so a
 * step is started before the one before is read: what the host does with tokens (text, stop strings, events) happens
 * one step behind, while the device works. A sequence that turns out to have ended has a row too many in the step under
 * way; its result is dropped, and the pages it wrote are written again, in order, by whoever gets them. */
#include <string.h>

#include "base/clock.h"
#include "engine/internal.h"

weir_status wr_device_open_steps(weir_engine *e, weir_error *err) {
    size_t rows = (size_t)e->head_rows;
    WR_TRY(wr_buffer_new_on(e->device, e->memory.sampled, &e->sampled, err));
    WR_TRY(wr_buffer_new_on(e->device, e->memory.counts, &e->counts, err));
    for (int i = 0; i < 2; i++) {
        wr_flight *f = &e->flight[i];
        void *memory;
        f->wanted = wr_malloc((size_t)e->options.max_step_tokens * sizeof *f->wanted);
        if (!f->wanted) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the list of wanted rows");
        WR_TRY(wr_device_host_alloc(e->device, rows * WR_SAMPLE_HEAD * sizeof *f->sampled, &memory, err));
        f->sampled = memory;
        WR_TRY(wr_device_host_alloc(e->device, rows * WR_SAMPLE_WIDTH * sizeof *f->all, &memory, err));
        f->all = memory;
    }
    return WEIR_OK;
}

void wr_device_close_steps(weir_engine *e) {
    size_t rows = (size_t)e->head_rows;
    if (e->device && e->sampled) wr_device_wait(e->device, NULL);
    for (int i = 0; i < 2; i++) {
        wr_flight *f = &e->flight[i];
        wr_free(f->wanted);
        if (f->sampled) wr_device_host_free(e->device, f->sampled, rows * WR_SAMPLE_HEAD * sizeof *f->sampled);
        if (f->all) wr_device_host_free(e->device, f->all, rows * WR_SAMPLE_WIDTH * sizeof *f->all);
    }
    wr_buffer_release(e->sampled);
    wr_buffer_release(e->counts);
}

/* ---- what sampling is told ---- */

weir_status wr_device_admit(weir_engine *e, weir_seq *s, weir_error *err) {
    if (!s->sampler.output_counts) return WEIR_OK;
    int64_t vocab = e->model->hyper.vocab;
    uint32_t *seen = s->sampler.output_counts, *row = (uint32_t *)(void *)e->logits;
    for (int64_t i = 0; i < vocab; i++) row[i] = seen[i] | (s->sampler.in_prompt[i] ? WR_SAMPLE_IN_PROMPT : 0);
    char *place = (char *)e->counts->data + (size_t)(s->slot * vocab) * sizeof *row;
    return wr_device_upload(e->device, place, row, (size_t)vocab * sizeof *row, err);
}

/* position: of the token to be sampled. *bias_end: where free room for bias pairs begins, in bytes of the feed. */
static void fill_sample(weir_engine *e, wr_sample_row *row, const weir_seq *s, int64_t position, size_t *bias_end) {
    const wr_sampler *sampler = &s->sampler;
    const weir_sampling *o = &sampler->options;
    bool counted = sampler->output_counts != NULL;
    *row = (wr_sample_row){.seed = o->seed,
                           .position = position,
                           .temperature = o->temperature,
                           .top_p = o->top_p,
                           .min_p = o->min_p,
                           .top_k = o->top_k,
                           .repetition_penalty = o->repetition_penalty,
                           .presence_penalty = o->presence_penalty,
                           .frequency_penalty = o->frequency_penalty,
                           .flags = (s->logprobs ? WR_SAMPLE_LOGPROB : 0) | (counted ? WR_SAMPLE_COUNT : 0),
                           .slot = counted ? (int32_t)s->slot : -1,
                           .n_top = s->top_logprobs,
                           .n_bias = (uint32_t)o->n_logit_bias,
                           .bias_offset = (uint32_t)(*bias_end - e->at_samples)};
    size_t bytes = o->n_logit_bias * sizeof(wr_sample_bias);
    wr_assert(*bias_end + bytes <= e->feed.bytes);
    wr_sample_bias *pairs = wr_feed_at(&e->feed, *bias_end);
    for (size_t i = 0; i < o->n_logit_bias; i++)
        pairs[i] = (wr_sample_bias){sampler->bias[i].token, sampler->bias[i].bias};
    *bias_end += bytes;
}

/* Rows [0, n) of the head; result row wanted[i].row is for wanted[i]. Sends them with what lies before them from `at`
 * on: picks, or rows and picks. */
static weir_status send_samples(weir_engine *e, size_t at, const wr_wanted *wanted, int64_t n_wanted, int64_t n,
                                weir_error *err) {
    wr_sample_row *rows = wr_feed_at(&e->feed, e->at_samples);
    size_t bias_end = e->at_bias;
    for (int64_t i = 0; i < n; i++) rows[i] = (wr_sample_row){.flags = WR_SAMPLE_OFF, .slot = -1};
    for (int64_t i = 0; i < n_wanted; i++) {
        const wr_wanted *w = &wanted[i];
        if (w->position >= w->seq->n_prompt - 1) fill_sample(e, &rows[w->row], w->seq, w->position + 1, &bias_end);
    }
    return wr_feed_send(&e->feed, at, bias_end - at, err);
}

/* ---- starting ---- */

static weir_status fetch_results(weir_engine *e, wr_flight *f, int64_t n_rows, weir_error *err) {
    f->wants_all = false;
    for (int64_t i = 0; i < f->n_wanted; i++) f->wants_all |= f->wanted[i].seq->top_logprobs > 0;
    WR_TRY(wr_device_fetch(e->device, f->sampled, e->sampled->data,
                           (size_t)n_rows * WR_SAMPLE_HEAD * sizeof *f->sampled, err));
    if (!f->wants_all) return WEIR_OK;
    return wr_device_fetch(e->device, f->all, wr_program_output(f->program, 2)->data,
                           (size_t)n_rows * WR_SAMPLE_WIDTH * sizeof *f->all, err);
}

/* The head over wanted[0..n) of `hidden`. */
static weir_status start_head(weir_engine *e, wr_flight *f, weir_error *err) {
    int bucket = wr_bucket_for(&e->head, f->n_wanted);
    int64_t n_rows = e->head.rows[bucket];
    int32_t *picks = wr_feed_at(&e->feed, e->at_picks);
    for (int64_t i = 0; i < n_rows; i++) picks[i] = i < f->n_wanted ? (int32_t)f->wanted[i].row : 0;
    for (int64_t i = 0; i < f->n_wanted; i++) f->wanted[i].row = i;
    WR_TRY(send_samples(e, e->at_picks, f->wanted, f->n_wanted, n_rows, err));
    f->program = e->head.program[bucket];
    WR_TRY(wr_program_start(f->program, err));
    return fetch_results(e, f, n_rows, err);
}

/* Body and head of all rows in one. */
static weir_status start_whole(weir_engine *e, wr_flight *f, int bucket, weir_error *err) {
    int64_t n_rows = e->whole.rows[bucket];
    WR_TRY(send_samples(e, wr_at_rows(e, n_rows), f->wanted, f->n_wanted, n_rows, err));
    f->program = e->whole.program[bucket];
    WR_TRY(wr_program_start(f->program, err));
    return fetch_results(e, f, n_rows, err);
}

static void note_started(weir_engine *e, const wr_flight *f) {
    for (weir_seq *s = e->first; s; s = s->next) {
        if (!s->n_rows || s->state != WR_SEQ_RUNNING) continue;
        s->n_cached += s->n_rows;
    }
    for (int64_t i = 0; i < f->n_wanted; i++) {
        const wr_wanted *w = &f->wanted[i];
        if (w->position < w->seq->n_prompt - 1) continue;
        w->seq->n_pending++;
        w->seq->pending_row = w->row;
    }
}

/* Sequences that want no token end with their last row. */
static void end_scored(weir_engine *e) {
    for (weir_seq *s = e->first; s; s = s->next)
        if (s->state == WR_SEQ_RUNNING && s->n_rows && !s->generate && s->n_cached == s->n_tokens)
            wr_finish(e, s, WEIR_FINISH_LENGTH, false);
}

/* ---- reading ---- */

static wr_choice choice_of(const wr_flight *f, const wr_wanted *w) {
    const int32_t *head = f->sampled + w->row * WR_SAMPLE_HEAD;
    wr_choice c = {.token = head[0], .has_logprob = w->seq->logprobs};
    memcpy(&c.logprob, &head[2], sizeof c.logprob);
    if (w->seq->top_logprobs) {
        const int32_t *all = f->all + w->row * WR_SAMPLE_WIDTH;
        c.n_top = all[1];
        c.top_tokens = all + WR_SAMPLE_HEAD;
        c.top_logprobs = (const float *)(const void *)(all + WR_SAMPLE_HEAD + WR_SAMPLE_MAX_TOP);
    }
    return c;
}

static weir_status deliver(weir_engine *e, const wr_flight *f, const wr_wanted *w, weir_error *err) {
    if (!w->seq) return WEIR_OK;
    if (w->position >= w->seq->n_prompt - 1) {
        wr_choice c = choice_of(f, w);
        w->seq->n_pending--;
        wr_report_token(e, w->seq, &c);
        return WEIR_OK;
    }
    size_t vocab = (size_t)e->model->hyper.vocab;
    const char *logits = (const char *)wr_program_output(f->program, 0)->data + (size_t)w->row * vocab * sizeof(float);
    uint64_t start = wr_now_ns();
    WR_TRY(wr_device_download(e->device, e->logits, logits, vocab * sizeof(float), err));
    e->stats.wait_ns += wr_now_ns() - start;
    wr_report_score(e, w->seq, e->logits, w->position);
    return WEIR_OK;
}

static weir_status land(weir_engine *e, int which, weir_error *err) {
    wr_flight *f = &e->flight[which];
    if (!f->active) return WEIR_OK;
    uint64_t start = wr_now_ns();
    WR_TRY(wr_device_wait_mark(e->device, which, err));
    e->stats.wait_ns += wr_now_ns() - start;
    f->active = false;
    for (int64_t i = 0; i < f->n_wanted; i++) WR_TRY(deliver(e, f, &f->wanted[i], err));
    return WEIR_OK;
}

weir_status wr_device_land(weir_engine *e, weir_error *err) {
    WR_TRY(land(e, e->next_flight, err));
    return land(e, e->next_flight ^ 1, err);
}

void wr_device_forget(weir_engine *e, const weir_seq *s) {
    for (int i = 0; i < 2 && e->sampled; i++)
        for (int64_t k = 0; k < e->flight[i].n_wanted; k++)
            if (e->flight[i].wanted[k].seq == s) e->flight[i].wanted[k].seq = NULL;
}

/* ---- steps ---- */

static bool is_scored(const weir_seq *s) { return s->score_prompt && s->n_scored + 1 < s->n_prompt; }

bool wr_device_must_land(const weir_engine *e) {
    for (const weir_seq *s = e->first; s; s = s->next)
        if (s->state != WR_SEQ_DONE && is_scored(s)) return true;
    return false;
}

/* More rows are wanted than a head holds, or logits are needed here: each head is waited for. */
static weir_status run_now(weir_engine *e, wr_flight *f, int which, int64_t n_wanted, weir_error *err) {
    for (int64_t at = 0; at < n_wanted; at += e->head_rows) {
        f->n_wanted = n_wanted - at < e->head_rows ? n_wanted - at : e->head_rows;
        memcpy(f->wanted, e->wanted + at, (size_t)f->n_wanted * sizeof *f->wanted);
        WR_TRY(start_head(e, f, err));
        for (int64_t i = 0; i < f->n_wanted; i++)
            if (f->wanted[i].position >= f->wanted[i].seq->n_prompt - 1) f->wanted[i].seq->n_pending++;
        f->active = true;
        WR_TRY(wr_device_mark(e->device, which, err));
        WR_TRY(land(e, which, err));
    }
    f->n_wanted = 0;
    return WEIR_OK;
}

static weir_status start_rows(weir_engine *e, int which, int64_t total, weir_error *err) {
    const wr_buckets *b = wr_buckets_for(e, total);
    wr_flight *f = &e->flight[which];
    int bucket = wr_bucket_for(b, total);
    int64_t n_rows = b->rows[bucket], n_wanted = wr_fill_rows(e, n_rows, e->wanted);
    bool scores = false;
    for (int64_t i = 0; i < n_wanted; i++) scores |= e->wanted[i].position < e->wanted[i].seq->n_prompt - 1;
    WR_TRY(wr_send_tables(e, err));
    f->n_wanted = 0;
    if (b == &e->body) {
        WR_TRY(wr_feed_send(&e->feed, wr_at_rows(e, n_rows), 3 * (size_t)n_rows * sizeof(int32_t), err));
        WR_TRY(wr_program_start(b->program[bucket], err));
        if (scores || n_wanted > e->head_rows) {
            note_started(e, f);
            return run_now(e, f, which, n_wanted, err);
        }
    }
    f->n_wanted = n_wanted;
    memcpy(f->wanted, e->wanted, (size_t)n_wanted * sizeof *f->wanted);
    if (b == &e->whole)
        WR_TRY(start_whole(e, f, bucket, err));
    else if (n_wanted)
        WR_TRY(start_head(e, f, err));
    note_started(e, f);
    f->active = true;
    WR_TRY(wr_device_mark(e->device, which, err));
    return scores ? land(e, which, err) : WEIR_OK;
}

weir_status wr_run_device(weir_engine *e, int64_t total, weir_error *err) {
    int which = e->next_flight;
    wr_assert(!e->flight[which].active);
    if (total) {
        WR_TRY(start_rows(e, which, total, err));
        end_scored(e);
        wr_feed_flip(&e->feed);
        e->next_flight ^= 1;
    }
    /* The one before: when nothing was started, all that is under way. */
    return total ? land(e, which ^ 1, err) : wr_device_land(e, err);
}
