/* Prefill attention over pages on wgmma: sizes that its host code and its kernels share. */
#ifndef WR_CUDA_KERNELS_ATTENTION_PREFILL_H
#define WR_CUDA_KERNELS_ATTENTION_PREFILL_H

#include "cuda/kernels/attention.h"

enum {
    WR_PREFILL_ROWS = 128,                           /* query rows of a tile: tokens x group */
    WR_PREFILL_THREADS = 384,                        /* two warpgroups of 64 query rows each, and one that copies */
    WR_PREFILL_BAR_BYTES = 256 + WR_PREFILL_ROWS * 8 /* and where each row lies */
};

/* For head_dim d and value_dim e. Operands lie in panels of 64 columns, a row of a panel is 128 bytes. */
#define WR_PREFILL_Q_BYTES(d) (WR_ATTN_PANELS(d) * WR_PREFILL_ROWS * 128)
#define WR_PREFILL_STAGES(d)  ((d) > 192 ? 3 : 4)
/* Columns whose merged totals lie in shared memory; the rest lies in p->partial, so many bytes a block. */
#define WR_PREFILL_KEPT(e)          ((e) > 128 ? 128 : (e))
#define WR_PREFILL_OUTSIDE_BYTES(e) (((e)-WR_PREFILL_KEPT(e)) * WR_PREFILL_ROWS * 4)
#define WR_PREFILL_KEPT_BYTES(e)    (WR_PREFILL_KEPT(e) * WR_PREFILL_ROWS * 4)
#define WR_PREFILL_SHARED(d, e)                                                                                        \
    (WR_PREFILL_Q_BYTES(d) + WR_PREFILL_STAGES(d) * WR_ATTN_SLOT(d, e) + WR_PREFILL_KEPT_BYTES(e) +                    \
     WR_PREFILL_BAR_BYTES)

#endif
