/* What the files of the attention family offer each other. */
#ifndef WR_CUDA_ATTENTION_H
#define WR_CUDA_ATTENTION_H

#include "cuda/kernels/attention.h"
#include "cuda/launch.h"

/* attention_dense.c: the rows of ATTENTION. */
const wr_kernel_row *wr_cuda_dense_attention_rows(void);

/* Prefill over pages: rows of a prefill item at most, for a PAGED_ATTENTION step whose keys are bf16 or f16 on pages of
 * 64; 0 when no prefill kernel serves the step. Pure, as fits(). The schedule then puts runs of at least
 * WR_ATTN_PREFILL_MIN_ROWS rows into params->prefill and everything else into params->items; the kernel's grid must
 * not depend on how many there are. */
int wr_attn_prefill_tile(const wr_step *step);
/* Bytes that the prefill kernel writes at params->partial. */
size_t wr_attn_prefill_scratch(const wr_step *step);
weir_status wr_attn_prefill_launch(const wr_step *step, const wr_attn_params *params, wr_launcher *launcher,
                                   weir_error *err);

#endif
