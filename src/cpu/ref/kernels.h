/* The reference kernels, one a family; cpu/ref/ref.c says which op uses which. All have the type wr_kernel. */
#ifndef WR_CPU_REF_KERNELS_H
#define WR_CPU_REF_KERNELS_H

#include "array/backend.h"

/* elementwise.c */
void wr_ref_elementwise(const wr_step *step, int thread, int n_threads);
void wr_ref_fused(const wr_step *step, int thread, int n_threads);

/* reduce.c: SUM MEAN MAX MIN LOGSUMEXP; ARGMAX; SOFTMAX; CUMSUM. Sums in double, rounded once. */
void wr_ref_reduce(const wr_step *step, int thread, int n_threads);
void wr_ref_argmax(const wr_step *step, int thread, int n_threads);
void wr_ref_softmax(const wr_step *step, int thread, int n_threads);
void wr_ref_cumsum(const wr_step *step, int thread, int n_threads);

/* sort.c: SORT ARGSORT TOP_K ARG_TOP_K */
void wr_ref_sort(const wr_step *step, int thread, int n_threads);
size_t wr_ref_sort_scratch(const wr_step *step, int n_threads);

/* move.c */
void wr_ref_copy_op(const wr_step *step, int thread, int n_threads); /* COPY RESHAPE */
void wr_ref_view(const wr_step *step, int thread, int n_threads);    /* SLICE TRANSPOSE BROADCAST */
void wr_ref_slice_update(const wr_step *step, int thread, int n_threads);
void wr_ref_concat(const wr_step *step, int thread, int n_threads);
void wr_ref_pad(const wr_step *step, int thread, int n_threads);
void wr_ref_full(const wr_step *step, int thread, int n_threads);
void wr_ref_arange(const wr_step *step, int thread, int n_threads);
void wr_ref_store(const wr_step *step, int thread, int n_threads);
void wr_ref_take(const wr_step *step, int thread, int n_threads);
void wr_ref_take_along(const wr_step *step, int thread, int n_threads);
void wr_ref_scatter(const wr_step *step, int thread, int n_threads); /* SCATTER SCATTER_ADD */

/* random.c: RANDOM_BITS RANDOM_UNIFORM RANDOM_NORMAL */
void wr_ref_random(const wr_step *step, int thread, int n_threads);
/* One block of Philox4x32-10 (Salmon et al. 2011). */
void wr_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* linear.c: sums in double, rounded once: the yardstick of the fast kernels, which accumulate in f32. */
void wr_ref_matmul(const wr_step *step, int thread, int n_threads);
void wr_ref_linear(const wr_step *step, int thread, int n_threads); /* LINEAR LINEAR_ADD */
void wr_ref_linear_gated(const wr_step *step, int thread, int n_threads);
void wr_ref_norm_linear(const wr_step *step, int thread, int n_threads);
void wr_ref_gather_linear(const wr_step *step, int thread, int n_threads);
void wr_ref_embedding(const wr_step *step, int thread, int n_threads);
void wr_ref_dequantize(const wr_step *step, int thread, int n_threads);
size_t wr_ref_linear_scratch(const wr_step *step, int n_threads); /* one row of the weight a thread */

/* quantize.c: QUANTIZE_WEIGHT QUANTIZE_SCALES QUANTIZE_BIASES */
void wr_ref_quantize(const wr_step *step, int thread, int n_threads);

/* transformer.c */
void wr_ref_norm(const wr_step *step, int thread, int n_threads); /* RMS_NORM LAYER_NORM */
void wr_ref_rope_table(const wr_step *step, int thread, int n_threads);
void wr_ref_rope(const wr_step *step, int thread, int n_threads);
void wr_ref_kv_write(const wr_step *step, int thread, int n_threads);
void wr_ref_kv_append(const wr_step *step, int thread, int n_threads);
/* x[t, h, d] of x [T, H, D] after ROPE by table (NULL: as it is), rounded to x's dtype. */
float wr_ref_rotated(const wr_tensor *x, const wr_tensor *table, bool interleaved, int64_t t, int64_t h, int64_t d);
void wr_ref_conv1d(const wr_step *step, int thread, int n_threads);

/* attention.c */
void wr_ref_attention(const wr_step *step, int thread, int n_threads);
void wr_ref_paged_attention(const wr_step *step, int thread, int n_threads);
size_t wr_ref_attention_scratch(const wr_step *step,
                                int n_threads); /* a row of q and of the output a thread, in double */

#endif
