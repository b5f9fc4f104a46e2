/* Runs sequences through an engine and keeps everything that was reported. */
#ifndef WR_TESTS_ENGINE_DRIVE_H
#define WR_TESTS_ENGINE_DRIVE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "file/store.h"
#include "weir/engine.h"

enum { RUN_MAX_TOKENS = 2048, RUN_MAX_TOP = 16, RUN_MAX_TEXT = 1 << 16 };

/* What one sequence gave: scores of the prompt, then generated tokens. */
typedef struct run {
    size_t n; /* events with a token */
    int32_t token[RUN_MAX_TOKENS];
    int64_t position[RUN_MAX_TOKENS];
    float logprob[RUN_MAX_TOKENS];
    weir_token_logprob top[RUN_MAX_TOKENS][RUN_MAX_TOP];
    char text[RUN_MAX_TEXT];
    size_t text_bytes;
    weir_finish finish;
} run;

static inline run *run_new(void) {
    run *r = calloc(1, sizeof *r);
    assert_non_null(r);
    return r;
}

static inline void run_take(run *r, const weir_event *e) {
    assert_true(r->text_bytes + e->text_bytes < RUN_MAX_TEXT);
    memcpy(r->text + r->text_bytes, e->text, e->text_bytes);
    r->text_bytes += e->text_bytes;
    if (e->kind == WEIR_EVENT_FINISH) {
        assert_int_equal(r->finish, WEIR_FINISH_NONE); /* exactly one */
        r->finish = e->finish;
        return;
    }
    assert_true(r->n < RUN_MAX_TOKENS);
    r->token[r->n] = e->token;
    r->position[r->n] = e->position;
    r->logprob[r->n] = e->has_logprob ? e->logprob : 0;
    for (int i = 0; i < e->n_top && i < RUN_MAX_TOP; i++) r->top[r->n][i] = e->top[i];
    r->n++;
}

/* Step until n sequences (user = their run) have finished. */
static inline void run_all(weir_engine *engine, size_t n) {
    weir_error err = {0};
    for (size_t steps = 0; n; steps++) {
        const weir_event *events;
        size_t n_events;
        assert_true(steps < 20000); /* progress */
        if (weir_engine_step(engine, &events, &n_events, &err) != WEIR_OK) fail_msg("%s", err.message);
        for (size_t i = 0; i < n_events; i++) {
            run_take(events[i].user, &events[i]);
            n -= events[i].kind == WEIR_EVENT_FINISH;
        }
    }
}

static inline void run_equal(const run *a, const run *b) {
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->token, b->token, a->n * sizeof *a->token);
    assert_memory_equal(a->position, b->position, a->n * sizeof *a->position);
    assert_memory_equal(a->logprob, b->logprob, a->n * sizeof *a->logprob);
    assert_memory_equal(a->top, b->top, a->n * sizeof *a->top);
    assert_int_equal(a->text_bytes, b->text_bytes);
    assert_memory_equal(a->text, b->text, a->text_bytes);
    assert_int_equal(a->finish, b->finish);
}

static inline weir_seq *open_seq(weir_engine *engine, const weir_seq_options *options) {
    weir_seq *seq;
    weir_error err = {0};
    if (weir_seq_open(engine, options, &seq, &err) != WEIR_OK) fail_msg("%s", err.message);
    return seq;
}

/* One sequence, alone. */
static inline run *run_alone(weir_engine *engine, weir_seq_options options) {
    run *r = run_new();
    options.user = r;
    weir_seq *seq = open_seq(engine, &options);
    run_all(engine, 1);
    weir_seq_close(seq);
    return r;
}

/* Path of a real model in the store; NULL when it is not there. */
static inline char *store_model(const char *file) {
    char *path = NULL;
    return wr_store_resolve(file, &path, NULL) == WEIR_OK ? path : NULL;
}

static inline weir_engine *open_engine_or_fail(const char *model, const weir_engine_options *options) {
    weir_engine *engine;
    weir_error err = {0};
    if (weir_engine_open(model, options, &engine, &err) != WEIR_OK) fail_msg("%s", err.message);
    return engine;
}

/* Token ids that differ from seed to seed; fixed arithmetic. */
static inline void fill_ids(int32_t *ids, size_t n, int64_t vocab, uint64_t seed) {
    for (size_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        ids[i] = (int32_t)((seed >> 33) % (uint64_t)vocab);
    }
}

#endif
