/* weir: the inference engine.
 *
 * One step loop for everyone: open an engine on a model, open sequences (full
 * token lists), call weir_engine_step until their events say they are finished,
 * close them. A sequence's tokens and log-probabilities do not depend on what
 * else the engine runs, on how its prompt is cut into chunks, or on the number
 * of threads.
 *
 * Threads: an engine and its sequences belong to one thread at a time, except
 * weir_seq_cancel, which any thread may call. Different engines are independent. */
#ifndef WEIR_ENGINE_H
#define WEIR_ENGINE_H

#include "weir/array.h"
#include "weir/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_engine weir_engine;
typedef struct weir_seq weir_seq;

/* Zero means the default everywhere. */
typedef struct weir_engine_options {
    const char *device;  /* "cpu", "cuda", "cuda:N", or "auto": the first GPU that can be used, else the CPU; NULL: as
                            WEIR_DEVICE says, else "auto" */
    int n_threads;       /* 0: one per core this process may use */
    int64_t max_context; /* tokens a sequence may hold; 0: the model's own, at most 8,192 */
    int64_t max_batch;   /* sequences run at once; 0: 8, or max_step_tokens when that is less */
    int64_t max_step_tokens; /* rows of one step, so the largest prefill chunk; 0: 256, on a GPU 2,048 */
    size_t kv_bytes;         /* memory for keys and values; 0: one full context, and at most a quarter of it more for
                                each further sequence */
    weir_dtype kv_dtype;     /* WEIR_DTYPE_F16, BF16 or F32; 0: F16, on a GPU BF16 */
    bool reference;          /* reference kernels only (slow; for comparison) */
    void (*progress)(void *context, double done); /* 0..1 while loading; may be NULL */
    void *progress_context;
} weir_engine_options;

/* model: a folder, a .gguf file, a Hugging Face id in the local cache, or a name in the store. Everything is made
 * here: weights laid out for the device, programs compiled, memory taken. options may be NULL. Errors: MEMORY, before
 * anything is loaded, when a GPU has too little free memory: what each part needs, what is free, what to lower. */
weir_status weir_engine_open(const char *model, const weir_engine_options *options, weir_engine **out, weir_error *err);
/* All sequences must be closed before. NULL is allowed. */
void weir_engine_close(weir_engine *engine);

typedef struct weir_engine_info {
    const char *device; /* "cpu" or "cuda:N" */
    const char *family, *path;
    int64_t vocab_size, hidden_size, n_layers, max_context, max_batch, max_step_tokens, page_tokens;
    size_t weight_bytes, kv_bytes, activation_bytes, program_bytes;
    int n_threads;
    const char *chat_template; /* NULL when the checkpoint has none */
} weir_engine_info;
void weir_engine_get_info(const weir_engine *engine, weir_engine_info *info);
/* NULL when the checkpoint has none: ids in, ids out, no text. */
const weir_tokenizer *weir_engine_tokenizer(const weir_engine *engine);
/* The ids that end a turn, from all the places a checkpoint names them. */
const int32_t *weir_engine_eos(const weir_engine *engine, size_t *n);

typedef struct weir_logit_bias {
    int32_t token;
    float bias; /* added to the logit */
} weir_logit_bias;

/* All zero: greedy. Order: penalties and bias on the logits, then temperature, top_k, top_p, min_p, then one draw. */
typedef struct weir_sampling {
    float temperature;                 /* 0: greedy (ties: the lower id) */
    int32_t top_k;                     /* 0: off */
    float top_p;                       /* 0 or 1: off */
    float min_p;                       /* 0: off */
    float repetition_penalty;          /* 0 or 1: off (Keskar et al. 2019), over prompt and output */
    float presence_penalty;            /* subtracted once for each token of the output */
    float frequency_penalty;           /* subtracted for each time it occurs in the output */
    const weir_logit_bias *logit_bias; /* copied */
    size_t n_logit_bias;
    uint64_t seed; /* draw at position p depends on seed and p only */
} weir_sampling;

enum { WEIR_MAX_TOP_LOGPROBS = 128, WEIR_MAX_STOP_STRINGS = 16, WEIR_MAX_STOP_BYTES = 256 };

typedef struct weir_seq_options {
    const int32_t *tokens; /* the whole prompt, copied */
    size_t n_tokens;
    int64_t max_tokens; /* tokens to generate; 0: up to the context's end; -1: none (scoring only) */
    weir_sampling sampling;
    const char *const *stop; /* strings that end the output and are not part of it; copied */
    size_t n_stop;
    const int32_t *stop_tokens; /* further ids that end the output; copied */
    size_t n_stop_tokens;
    bool ignore_eos;   /* the model's own end tokens do not end the output */
    bool logprobs;     /* events carry the log-probability of each token */
    int top_logprobs;  /* and of the best so many, at most WEIR_MAX_TOP_LOGPROBS; of the raw distribution */
    bool score_prompt; /* events of kind WEIR_EVENT_SCORE for each prompt token after the first */
    bool keep_special; /* special tokens appear in the text */
    void *user;        /* handed back in events */
} weir_seq_options;

/* Errors: ARGUMENT (empty prompt, id outside the vocabulary, bad sampling value: named), LIMIT (does not fit the
 * context or the KV memory: both numbers), MEMORY. The sequence waits until there is room; nothing is cut. */
weir_status weir_seq_open(weir_engine *engine, const weir_seq_options *options, weir_seq **out, weir_error *err);
/* From any thread: the sequence ends within one step with finish reason CANCELLED. Only when very many that never ran
 * are cancelled at once may some of them wait for the next step's list of events. */
void weir_seq_cancel(weir_seq *seq);
/* In any state. Views that events hold of this sequence end here. */
void weir_seq_close(weir_seq *seq);
/* Prompt and output so far; borrowed. */
const int32_t *weir_seq_tokens(const weir_seq *seq, size_t *n);

typedef enum weir_finish {
    WEIR_FINISH_NONE,
    WEIR_FINISH_STOP,   /* an end token or a stop string */
    WEIR_FINISH_LENGTH, /* max_tokens or the context's end */
    WEIR_FINISH_CANCELLED,
    WEIR_FINISH_ERROR /* the model gave no finite logit; other sequences go on */
} weir_finish;

typedef enum weir_event_kind {
    WEIR_EVENT_TOKEN, /* a token was generated; text may be empty while characters or stop strings are held back */
    WEIR_EVENT_SCORE, /* prompt position `position` was scored */
    WEIR_EVENT_FINISH /* no more events of this sequence; text is what was held back */
} weir_event_kind;

typedef struct weir_token_logprob {
    int32_t token;
    float logprob;
} weir_token_logprob;

typedef struct weir_event {
    weir_seq *seq;
    void *user;
    weir_event_kind kind;
    int32_t token;    /* TOKEN, SCORE */
    int64_t position; /* of that token in the sequence */
    const char *text; /* UTF-8, whole characters; valid until the next step; never NULL */
    size_t text_bytes;
    bool has_logprob;
    float logprob;                 /* natural log, raw distribution, finite */
    const weir_token_logprob *top; /* n_top best, falling; valid until the next step */
    int n_top;
    weir_finish finish; /* FINISH */
} weir_event;

/* Run one step: at most max_step_tokens rows over all sequences. events: owned by the engine, valid until the next
 * step. *n_events = 0 when nothing is open or nothing happened to be reported. No heap use. */
weir_status weir_engine_step(weir_engine *engine, const weir_event **events, size_t *n_events, weir_error *err);

typedef struct weir_engine_stats {
    uint64_t steps, prompt_tokens, generated_tokens, preemptions;
    int64_t running, waiting;
    int64_t kv_pages_used, kv_pages_total;
    uint64_t step_ns; /* time inside weir_engine_step */
    uint64_t wait_ns; /* of it, waiting for a device: the rest is the host's own work. 0 on the CPU */
} weir_engine_stats;
void weir_engine_get_stats(const weir_engine *engine, weir_engine_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
