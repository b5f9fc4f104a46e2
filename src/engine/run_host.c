/* Owns running a step where the device is the host: the body, then heads for the rows whose logits are wanted, each row
 * handed to its sequence, which samples. */
#include "engine/internal.h"

static void deliver(weir_engine *e, const wr_wanted *w, const float *logits) {
    if (w->position >= w->seq->n_prompt - 1)
        wr_report_sampled(e, w->seq, logits);
    else
        wr_report_score(e, w->seq, logits, w->position);
}

/* Logits of the wanted rows, head_rows at a time. */
static weir_status run_head(weir_engine *e, int64_t n_wanted, weir_error *err) {
    size_t vocab = (size_t)e->model->hyper.vocab;
    for (int64_t at = 0; at < n_wanted; at += e->head_rows) {
        int64_t n = n_wanted - at < e->head_rows ? n_wanted - at : e->head_rows;
        int bucket = wr_bucket_for(&e->head, n);
        int32_t *picks = wr_feed_at(&e->feed, e->at_picks);
        for (int64_t i = 0; i < e->head.rows[bucket]; i++) picks[i] = i < n ? (int32_t)e->wanted[at + i].row : 0;
        WR_TRY(wr_program_run(e->head.program[bucket], err));
        const float *logits = wr_program_output(e->head.program[bucket], 0)->data;
        for (int64_t i = 0; i < n; i++) deliver(e, &e->wanted[at + i], logits + (size_t)i * vocab);
    }
    return WEIR_OK;
}

/* After the rows are written: count them, and end sequences that only wanted scores. */
static void advance(weir_engine *e) {
    for (weir_seq *s = e->first; s; s = s->next) {
        if (!s->n_rows || s->state != WR_SEQ_RUNNING) continue;
        s->n_cached += s->n_rows;
        if (!s->generate && s->n_cached == s->n_tokens) wr_finish(e, s, WEIR_FINISH_LENGTH, false);
    }
}

weir_status wr_run_host(weir_engine *e, int64_t total, weir_error *err) {
    int bucket = wr_bucket_for(&e->body, total);
    int64_t n_wanted = wr_fill_rows(e, e->body.rows[bucket], e->wanted);
    WR_TRY(wr_send_tables(e, err));
    WR_TRY(wr_program_run(e->body.program[bucket], err));
    WR_TRY(run_head(e, n_wanted, err));
    advance(e);
    return WEIR_OK;
}
