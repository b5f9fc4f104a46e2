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

/* Counters of one step, found by its address in a table that the prepare step zeroes and that all layers of a program
 * share. Steps that do not depend on each other may overlap, so each has its own; slots are claimed, never given back,
 * and every call leaves zeros in its counters. */
typedef struct wr_attention_turns {
    _Alignas(64) _Atomic uintptr_t owner;
    _Atomic int64_t next; /* item of work */
    _Atomic int done;     /* threads that have finished */
} wr_attention_turns;
enum { WR_ATTENTION_SLOTS = 128 };

/* NULL when there is no table or it is full; the same answer for all threads of a step. */
static inline wr_attention_turns *wr_attention_turns_of(const wr_step *step) {
    wr_attention_turns *table = (wr_attention_turns *)(uintptr_t)step->prepared;
    uintptr_t self = (uintptr_t)step;
    for (unsigned i = 0; table && i < WR_ATTENTION_SLOTS; i++) {
        wr_attention_turns *slot = &table[(self / 64 + i) % WR_ATTENTION_SLOTS];
        uintptr_t seen = atomic_load_explicit(&slot->owner, memory_order_relaxed);
        if (seen == self) return slot;
        if (seen == 0) {
            if (atomic_compare_exchange_strong(&slot->owner, &seen, self) || seen == self) return slot;
        }
    }
    return NULL;
}

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
