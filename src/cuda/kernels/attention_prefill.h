/* Prefill attention over pages on wgmma: sizes that its host code and its kernels share. */
#ifndef WR_CUDA_KERNELS_ATTENTION_PREFILL_H
#define WR_CUDA_KERNELS_ATTENTION_PREFILL_H

#include "cuda/kernels/attention.h"

enum {
    WR_PREFILL_ROWS = 128,                            /* query rows of a tile: tokens x group */
    WR_PREFILL_THREADS = 384,                         /* two warpgroups of 64 query rows each, and one that copies */
    WR_PREFILL_BAR_BYTES = 256 + WR_PREFILL_ROWS * 20 /* and what is known of each row */
};

/* For head_dim d and value_dim e. Operands lie in panels of 64 columns, a row of a panel is 128 bytes. */
#define WR_PREFILL_Q_BYTES(d) (WR_ATTN_PANELS(d) * WR_PREFILL_ROWS * 128)
/* Entries of the ring a block of keys, and a block of values: the head size 256 has two, of half the columns of keys
 * and of half the values, so that its ring may have an odd number of them. */
#define WR_PREFILL_PARTS(d)   ((d) > 192 ? 2 : 1)
#define WR_PREFILL_SLOT(d, e) (WR_ATTN_SLOT(d, e) / WR_PREFILL_PARTS(d))
#define WR_PREFILL_STAGES(d)  ((d) > 192 ? 5 : 4)
/* Whether P x V is waited for, and a span that ended is merged, before the next block's softmax instead of behind it:
 * where registers and entries of the ring are short. */
#define WR_PREFILL_EARLY(d) ((d) > 192)
/* Registers of a thread that copies, and of one that computes. A block starts with 168 for each of its threads; if
 * FEWER + 2 MORE were above 3 x 168 the kernel would wait for ever. */
#define WR_PREFILL_FEWER(d) ((d) > 192 ? 40 : 56)
#define WR_PREFILL_MORE(d)  ((d) > 192 ? 232 : 224)
/* Columns whose merged totals lie in registers, then those in shared memory; the rest lies in p->partial, so many bytes
 * a block of the grid. */
#define WR_PREFILL_HELD(e)          ((e) > 128 ? 64 : 0)
#define WR_PREFILL_KEPT(e)          ((e) > 128 ? 160 : (e))
#define WR_PREFILL_INSIDE(e)        (WR_PREFILL_HELD(e) + WR_PREFILL_KEPT(e))
#define WR_PREFILL_OUTSIDE_BYTES(e) (((e)-WR_PREFILL_INSIDE(e)) * WR_PREFILL_ROWS * 4)
#define WR_PREFILL_KEPT_BYTES(e)    (WR_PREFILL_KEPT(e) * WR_PREFILL_ROWS * 4)
#define WR_PREFILL_SHARED(d, e)                                                                                        \
    (WR_PREFILL_Q_BYTES(d) + WR_PREFILL_STAGES(d) * WR_PREFILL_SLOT(d, e) + WR_PREFILL_KEPT_BYTES(e) +                 \
     WR_PREFILL_BAR_BYTES)

#endif
