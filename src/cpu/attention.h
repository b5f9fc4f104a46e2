/* Attention kernels of the CPU room: what their files share. Contract in cpu/attention.c. */
#ifndef WR_CPU_ATTENTION_H
#define WR_CPU_ATTENTION_H

#include <stdatomic.h>
#include <stdbool.h>

#include "array/backend.h"

enum {
    WR_ATTENTION_BLOCK = 64,
    WR_ATTENTION_SPLIT_ROWS = 8, /* at most so many rows have their spans spread over threads */
    WR_ATTENTION_EARLY = 4096    /* keys below this lie in spans of 256, later ones in spans of 1024 */
};

/* Spans: fixed pieces of the key axis, numbered from 0. */
static inline int64_t wr_attention_span(int64_t position) {
    return position < WR_ATTENTION_EARLY ? position / 256
                                         : WR_ATTENTION_EARLY / 256 + (position - WR_ATTENTION_EARLY) / 1024;
}
static inline int64_t wr_attention_span_start(int64_t span) {
    int64_t early = WR_ATTENTION_EARLY / 256;
    return span < early ? span * 256 : WR_ATTENTION_EARLY + (span - early) * 1024;
}

/* Made by the prepare step (zeros), shared by all layers of a program; every call leaves zeros behind. */
typedef struct wr_attention_turns {
    _Atomic int64_t next; /* item of work */
    _Atomic int done;     /* threads that have finished */
} wr_attention_turns;

#define WR_ATTENTION_DECLARE(isa)                                                                                      \
    void wr_paged_attention_##isa(const wr_step *step, int thread, int n_threads);                                     \
    size_t wr_paged_attention_scratch_##isa(const wr_step *step, int n_threads);                                       \
    void wr_attention_##isa(const wr_step *step, int thread, int n_threads);                                           \
    size_t wr_attention_scratch_##isa(const wr_step *step, int n_threads);
WR_ATTENTION_DECLARE(portable)
WR_ATTENTION_DECLARE(avx2)
WR_ATTENTION_DECLARE(avx512)
#undef WR_ATTENTION_DECLARE

#endif
