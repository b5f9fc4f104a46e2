/* Which reference kernel serves which op. */
#include "cpu/ref/ref.h"

#include "cpu/ref/kernels.h"

wr_kernel wr_cpu_ref(wr_op_id op) {
    if (op <= WR_OP_SELECT) return wr_ref_elementwise; /* the element-wise ops stand first in the table */
    switch (op) {
    case WR_OP_FUSED: return wr_ref_fused;
    case WR_OP_SUM:
    case WR_OP_MEAN:
    case WR_OP_MAX:
    case WR_OP_MIN:
    case WR_OP_LOGSUMEXP: return wr_ref_reduce;
    case WR_OP_ARGMAX: return wr_ref_argmax;
    case WR_OP_SOFTMAX: return wr_ref_softmax;
    case WR_OP_SORT:
    case WR_OP_ARGSORT:
    case WR_OP_TOP_K:
    case WR_OP_ARG_TOP_K: return wr_ref_sort;
    case WR_OP_CUMSUM: return wr_ref_cumsum;
    case WR_OP_TAKE: return wr_ref_take;
    case WR_OP_TAKE_ALONG: return wr_ref_take_along;
    case WR_OP_SCATTER:
    case WR_OP_SCATTER_ADD: return wr_ref_scatter;
    case WR_OP_SLICE:
    case WR_OP_TRANSPOSE:
    case WR_OP_BROADCAST: return wr_ref_view;
    case WR_OP_SLICE_UPDATE: return wr_ref_slice_update;
    case WR_OP_CONCAT: return wr_ref_concat;
    case WR_OP_PAD: return wr_ref_pad;
    case WR_OP_RESHAPE:
    case WR_OP_COPY: return wr_ref_copy_op;
    case WR_OP_FULL: return wr_ref_full;
    case WR_OP_ARANGE: return wr_ref_arange;
    case WR_OP_RANDOM_BITS:
    case WR_OP_RANDOM_UNIFORM:
    case WR_OP_RANDOM_NORMAL: return wr_ref_random;
    case WR_OP_MATMUL: return wr_ref_matmul;
    case WR_OP_LINEAR:
    case WR_OP_LINEAR_ADD: return wr_ref_linear;
    case WR_OP_LINEAR_GATED: return wr_ref_linear_gated;
    case WR_OP_NORM_LINEAR: return wr_ref_norm_linear;
    case WR_OP_GATHER_LINEAR: return wr_ref_gather_linear;
    case WR_OP_EMBEDDING: return wr_ref_embedding;
    case WR_OP_DEQUANTIZE: return wr_ref_dequantize;
    case WR_OP_QUANTIZE_WEIGHT:
    case WR_OP_QUANTIZE_SCALES:
    case WR_OP_QUANTIZE_BIASES: return wr_ref_quantize;
    case WR_OP_RMS_NORM:
    case WR_OP_LAYER_NORM: return wr_ref_norm;
    case WR_OP_ROPE_TABLE: return wr_ref_rope_table;
    case WR_OP_ROPE: return wr_ref_rope;
    case WR_OP_ATTENTION: return wr_ref_attention;
    case WR_OP_KV_WRITE: return wr_ref_kv_write;
    case WR_OP_KV_APPEND: return wr_ref_kv_append;
    case WR_OP_STORE: return wr_ref_store;
    case WR_OP_PAGED_ATTENTION: return wr_ref_paged_attention;
    case WR_OP_CONV1D: return wr_ref_conv1d;
    default: return NULL;
    }
}

size_t wr_cpu_ref_scratch(const wr_step *step, int n_threads) {
    switch (step->op) {
    case WR_OP_SORT:
    case WR_OP_ARGSORT:
    case WR_OP_TOP_K:
    case WR_OP_ARG_TOP_K: return wr_ref_sort_scratch(step, n_threads);
    case WR_OP_LINEAR:
    case WR_OP_LINEAR_ADD:
    case WR_OP_LINEAR_GATED:
    case WR_OP_NORM_LINEAR:
    case WR_OP_GATHER_LINEAR:
    case WR_OP_EMBEDDING:
    case WR_OP_DEQUANTIZE: return wr_ref_linear_scratch(step, n_threads);
    case WR_OP_ATTENTION:
    case WR_OP_PAGED_ATTENTION: return wr_ref_attention_scratch(step, n_threads);
    default: return 0;
    }
}
