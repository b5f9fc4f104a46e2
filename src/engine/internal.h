/* What the files of the engine room share. */
#ifndef WR_ENGINE_INTERNAL_H
#define WR_ENGINE_INTERNAL_H

#include <stdatomic.h>

#include "array/program.h"
#include "engine/feed.h"
#include "engine/kv.h"
#include "engine/sampler.h"
#include "engine/stop.h"
#include "weir/engine.h"

enum { WR_MAX_BUCKETS = 48, WR_MAX_EOS = 64 };

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

struct weir_engine {
    wr_checkpoint *checkpoint;
    weir_tokenizer *tokenizer; /* NULL: the checkpoint has none, ids only */
    wr_model *model;
    weir_device *device;
    wr_kv kv;
    weir_engine_options options;
    int32_t eos[WR_MAX_EOS];
    size_t n_eos;

    /* i32. rows: tokens, row_seq, row_pos of the bucket's rows, one behind the other; picks: rows of `hidden` that the
     * head takes. */
    wr_feed rows, picks;
    wr_buffer *hidden; /* f32 [max_step_tokens, hidden]: the body's output */
    wr_buffer *greedy; /* i32 [head_rows]: the best token of each row of the last head; host memory */
    void *greedy_memory;
    void *arena;
    size_t arena_bytes;
    /* A step is a body and heads for the rows whose logits are wanted; on a device of its own, where starting a program
     * costs more than a few rows too many in the head, steps of few rows are one program with a head for all rows. */
    wr_buckets body, head, whole;
    int64_t head_rows; /* largest head batch */

    wr_wanted *wanted;        /* [max_step_tokens] */
    float *logits;            /* [vocab]: a row of logits brought from a device */
    wr_candidate *candidates; /* [vocab], for sampling and top lists */
    weir_token_logprob *top;  /* [event_capacity, WEIR_MAX_TOP_LOGPROBS]; NULL until a sequence asks */
    weir_event *events;
    size_t n_events, event_capacity;
    bool *slot_used; /* [max_batch] */

    weir_seq *first, *last; /* all open sequences, by age */
    weir_engine_stats stats;
};

/* engine/programs.c: compile and find the step programs. */
weir_status wr_engine_programs_new(weir_engine *e, weir_error *err);
void wr_engine_programs_free(weir_engine *e);
/* The smallest bucket that holds n rows. */
int wr_bucket_for(const wr_buckets *b, int64_t n);

/* engine/seq.c */
void wr_seq_free_pages(weir_seq *s);

#endif
