/* The one step loop. A step: end what was cancelled, let waiting sequences in, choose rows (one for each decoding
 * sequence, chunks of prompts with what is left), run them and report. A row's bits do not depend on the other rows, so
 * none of the choices made here changes a result. */
#include <string.h>

#include "base/clock.h"
#include "engine/internal.h"

/* Running sequences end before anything else, so that others have their slots. Waiting ones end after the step's own
 * events, as many as the list still holds: there is no bound on how many wait. */
static void end_cancelled(weir_engine *e, wr_seq_state state) {
    for (weir_seq *s = e->first; s && e->n_events < e->event_capacity; s = s->next)
        if (s->state == state && atomic_load(&s->cancelled)) wr_finish(e, s, WEIR_FINISH_CANCELLED, false);
}

/* In order of age. One that does not fit now waits, and so do those behind it: none is starved. */
static weir_status admit_waiting(weir_engine *e, weir_error *err) {
    int64_t slot = 0;
    for (weir_seq *s = e->first; s; s = s->next) {
        if (s->state != WR_SEQ_WAITING || atomic_load(&s->cancelled)) continue;
        if (s->n_pending) return WEIR_OK; /* preempted with a token on its way: it is seen after this step */
        while (slot < e->options.max_batch && e->slot_used[slot]) slot++;
        if (slot == e->options.max_batch || !wr_kv_has_room(&e->kv, s->n_tokens, e->options.max_step_tokens))
            return WEIR_OK;
        e->slot_used[slot] = true;
        s->slot = slot;
        s->state = WR_SEQ_RUNNING;
        if (e->sampled) WR_TRY(wr_device_admit(e, s, err));
    }
    return WEIR_OK;
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

/* A token on its way that fills the sequence up is the last one: nobody asks what follows it. */
static int64_t rows_left(const weir_seq *s) {
    if (s->state != WR_SEQ_RUNNING) return 0;
    int64_t end = wr_known_tokens(s);
    return end - s->n_cached - (s->n_pending && end >= s->capacity);
}

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

/* A step just above a bucket would be mostly padding: leave the surplus of a prompt to the next step. */
static int64_t trim_to_bucket(weir_engine *e, int64_t total) {
    const wr_buckets *b = wr_buckets_for(e, total);
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

bool wr_wants_logits(const weir_seq *s, int64_t position) {
    if (position == wr_known_tokens(s) - 1) return s->generate;
    return s->score_prompt && position + 1 < s->n_prompt && position + 1 > s->n_scored;
}

weir_status wr_send_tables(weir_engine *e, weir_error *err) {
    wr_kv *kv = &e->kv;
    if (kv->changed_first >= kv->changed_end) return WEIR_OK;
    size_t bytes = (size_t)(kv->changed_end - kv->changed_first) * sizeof *kv->tables;
    size_t at = e->at_tables + (size_t)kv->changed_first * sizeof *kv->tables;
    memcpy(wr_feed_at(&e->feed, at), kv->tables + kv->changed_first, bytes);
    WR_TRY(wr_feed_send(&e->feed, at, bytes, err));
    kv->changed_first = INT64_MAX, kv->changed_end = 0;
    return WEIR_OK;
}

int64_t wr_fill_rows(weir_engine *e, int64_t bucket_rows, wr_wanted *wanted) {
    int32_t *tokens = wr_feed_at(&e->feed, wr_at_rows(e, bucket_rows)), *row_seq = tokens + bucket_rows,
            *row_pos = row_seq + bucket_rows;
    int64_t row = 0, n_wanted = 0;
    for (weir_seq *s = e->first; s; s = s->next)
        for (int64_t i = 0; i < s->n_rows; i++, row++) {
            int64_t position = s->n_cached + i;
            tokens[row] = position < s->n_tokens ? s->tokens[position] : (int32_t)(s->pending_row - e->head_rows);
            row_seq[row] = (int32_t)s->slot;
            row_pos[row] = (int32_t)position;
            if (wr_wants_logits(s, position)) wanted[n_wanted++] = (wr_wanted){s, row, position};
        }
    for (; row < bucket_rows; row++) tokens[row] = 0, row_seq[row] = -1, row_pos[row] = 0;
    return n_wanted;
}

static void count_prompt(weir_engine *e) {
    for (weir_seq *s = e->first; s; s = s->next)
        if (s->n_rows && s->n_cached < s->n_prompt)
            e->stats.prompt_tokens +=
                (uint64_t)(s->n_rows < s->n_prompt - s->n_cached ? s->n_rows : s->n_prompt - s->n_cached);
}

weir_status weir_engine_step(weir_engine *e, const weir_event **events, size_t *n_events, weir_error *err) {
    uint64_t start = wr_now_ns();
    e->n_events = 0;
    *events = e->events;
    *n_events = 0;
    for (weir_seq *s = e->first; s; s = s->next) wr_stop_gate_begin(&s->gate);
    end_cancelled(e, WR_SEQ_RUNNING);
    if (e->sampled && wr_device_must_land(e)) WR_TRY(wr_device_land(e, err));
    WR_TRY(admit_waiting(e, err));
    int64_t total = trim_to_bucket(e, choose_rows(e));
    if (total) {
        count_prompt(e);
        e->stats.steps++;
    }
    if (e->sampled)
        WR_TRY(wr_run_device(e, total, err));
    else if (total)
        WR_TRY(wr_run_host(e, total, err));
    end_cancelled(e, WR_SEQ_WAITING);
    *n_events = e->n_events;
    e->stats.step_ns += wr_now_ns() - start;
    return WEIR_OK;
}
