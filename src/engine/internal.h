/* What the files of the engine room share. */
#ifndef WR_ENGINE_INTERNAL_H
#define WR_ENGINE_INTERNAL_H

#include <stdatomic.h>

#include "array/program.h"
#include "engine/feed.h"
#include "engine/kv.h"
#include "engine/plan.h"
#include "engine/sampler.h"
#include "engine/stop.h"
#include "weir/engine.h"

/* WR_MAX_LOGIT_BIAS: pairs of one sequence, where a device samples: each step brings them there. */
enum { WR_MAX_BUCKETS = 48, WR_MAX_EOS = 64, WR_MAX_LOGIT_BIAS = 1024 };

/* Programs of one kind, one a batch size. */
typedef struct wr_buckets {
    int n;
    int64_t rows[WR_MAX_BUCKETS];
    wr_program *program[WR_MAX_BUCKETS];
} wr_buckets;

typedef enum wr_seq_state { WR_SEQ_WAITING, WR_SEQ_RUNNING, WR_SEQ_DONE } wr_seq_state;

struct weir_seq {
    weir_engine *engine;
    weir_seq *next; /* in the engine's list, oldest first */
    wr_seq_state state;
    atomic_bool cancelled;
    int64_t slot;    /* row of the block tables while running; else -1 */
    int32_t *tokens; /* [capacity] prompt and output */
    int64_t n_tokens, n_prompt, capacity;
    int64_t n_cached; /* positions whose keys and values are written */
    int64_t n_scored; /* prompt positions already reported */
    int64_t n_rows;   /* rows in the step being run */
    /* On a device: tokens that were sampled there and not seen here yet, and where the last of them lies. */
    int64_t n_pending, pending_row;
    bool generate, ignore_eos, logprobs, score_prompt, finish_sent;
    int top_logprobs;
    int32_t *stop_tokens;
    size_t n_stop_tokens;
    wr_sampler sampler;
    wr_stop_gate gate;
    weir_token_decoder decoder;
    void *user;
};

/* A row whose logits are wanted. */
typedef struct wr_wanted {
    weir_seq *seq;
    int64_t row;      /* in the step */
    int64_t position; /* of the row's token; the logits are about position + 1 */
} wr_wanted;

/* What a device works on: a step that was started and not read yet. */
typedef struct wr_flight {
    bool active;
    bool wants_all;    /* of what was sampled, not the first words of each row only */
    wr_wanted *wanted; /* [max_step_tokens]; seq NULL: it ended meanwhile. row: of the results */
    int64_t n_wanted;
    wr_program *program; /* that sampled */
    int32_t *sampled;    /* pinned [head_rows, WR_SAMPLE_HEAD] */
    int32_t *all;        /* pinned [head_rows, WR_SAMPLE_WIDTH] */
} wr_flight;
enum { WR_SAMPLE_WIDTH = WR_SAMPLE_HEAD + 2 * WR_SAMPLE_MAX_TOP };

/* A token, and what is known about its probability. */
typedef struct wr_choice {
    int32_t token; /* -1: no logit was finite */
    bool has_logprob;
    float logprob;
    int n_top;
    const int32_t *top_tokens;
    const float *top_logprobs;
} wr_choice;

struct weir_engine {
    wr_checkpoint *checkpoint;
    weir_tokenizer *tokenizer; /* NULL: the checkpoint has none, ids only */
    wr_model *model;
    weir_device *device;
    char device_name[16];
    wr_memory memory; /* as planned before anything was loaded */
    wr_kv kv;
    weir_engine_options options;
    int32_t eos[WR_MAX_EOS];
    size_t n_eos;

    /* Inputs of the step programs, in this order. tables: those of kv; rows: i32 tokens, row_seq, row_pos of the
     * bucket's rows, one behind the other, so that they end at at_picks (wr_at_rows); picks: i32 rows of `hidden` that
     * the head takes; samples: wr_sample_row of each row of the head, and after at_bias their pairs (devices only). */
    wr_feed feed;
    size_t at_tables, at_picks, at_samples, at_bias;
    wr_buffer *hidden; /* f32 [max_step_tokens, hidden]: the body's output */
    /* On a device of its own: i32 [head_rows, WR_SAMPLE_HEAD], what was sampled last; u32 [max_batch, vocab], tokens
     * that sequences with penalties have seen. Else NULL. */
    wr_buffer *sampled, *counts;
    wr_flight flight[2]; /* each with the device's mark of its number */
    int next_flight;
    void *arena;
    size_t arena_bytes;
    /* A step is a body and heads for the rows whose logits are wanted; on a device of its own, where starting a program
     * costs more than a few rows too many in the head, steps of few rows are one program with a head for all rows. */
    wr_buckets body, head, whole;
    int64_t head_rows; /* largest head batch */

    wr_wanted *wanted;        /* [max_step_tokens], of a step that is waited for */
    float *logits;            /* [vocab]: a row of logits brought from a device */
    wr_candidate *candidates; /* [vocab], for sampling and top lists */
    weir_token_logprob *top;  /* [event_capacity, WEIR_MAX_TOP_LOGPROBS]; NULL until a sequence asks */
    weir_event *events;
    size_t n_events, event_capacity;
    bool *slot_used; /* [max_batch] */

    weir_seq *first, *last; /* all open sequences, by age */
    weir_engine_stats stats;
};

/* engine/memory.c: what an engine takes, before it takes it. The engine has its model, options and device. */
/* Sets memory, head_rows and the places in the feed. */
weir_status wr_engine_measure(weir_engine *e, const wr_kv_plan *kv, weir_error *err);

/* engine/programs.c: compile and find the step programs. */
/* The activation bytes they need, found by planning each; the engine's buffers need not be real. */
weir_status wr_engine_programs_plan(weir_engine *e, size_t *bytes, weir_error *err);
weir_status wr_engine_programs_new(weir_engine *e, weir_error *err);
void wr_engine_programs_free(weir_engine *e);
/* The smallest bucket that holds n rows. */
int wr_bucket_for(const wr_buckets *b, int64_t n);

/* The programs that a step of n rows can be run by. */
const wr_buckets *wr_buckets_for(const weir_engine *e, int64_t n);

/* engine/step.c */
bool wr_wants_logits(const weir_seq *s, int64_t position);
/* Tokens of a sequence, those on their way included. */
static inline int64_t wr_known_tokens(const weir_seq *s) { return s->n_tokens + s->n_pending; }
/* Where a step's rows begin in the feed. */
static inline size_t wr_at_rows(const weir_engine *e, int64_t n_rows) {
    return e->at_picks - 3 * (size_t)n_rows * sizeof(int32_t);
}
/* Bring what changed of the block tables into the feed, and to the device. */
weir_status wr_send_tables(weir_engine *e, weir_error *err);
/* Fill the rows of the feed; the wanted rows go to wanted. Returns how many are wanted. */
int64_t wr_fill_rows(weir_engine *e, int64_t bucket_rows, wr_wanted *wanted);

/* engine/events.c: what a step tells its caller. */
void wr_finish(weir_engine *e, weir_seq *s, weir_finish reason, bool drop_held);
/* A prompt position was scored: logits about position + 1. */
void wr_report_score(weir_engine *e, weir_seq *s, const float *logits, int64_t position);
/* The next token of a sequence. */
void wr_report_token(weir_engine *e, weir_seq *s, const wr_choice *choice);
/* Chosen on the host, from logits. */
void wr_report_sampled(weir_engine *e, weir_seq *s, const float *logits);

/* engine/run_host.c: run the chosen rows and report. */
weir_status wr_run_host(weir_engine *e, int64_t total, weir_error *err);

/* engine/run_device.c. Steps are read one behind: wr_run_device starts one, then waits for the one before and reports
 * it. total 0: only that. */
weir_status wr_device_open_steps(weir_engine *e, weir_error *err);
void wr_device_close_steps(weir_engine *e);
weir_status wr_run_device(weir_engine *e, int64_t total, weir_error *err);
/* Must the steps under way be read before the next rows are chosen? Prompts that are scored need their logits here. */
bool wr_device_must_land(const weir_engine *e);
weir_status wr_device_land(weir_engine *e, weir_error *err);
/* The sequence ended: nothing of it is reported any more. */
void wr_device_forget(weir_engine *e, const weir_seq *s);
/* The sequence was given a slot: what it has seen goes to the device. */
weir_status wr_device_admit(weir_engine *e, weir_seq *s, weir_error *err);

/* engine/seq.c */
void wr_seq_free_pages(weir_seq *s);

#endif
