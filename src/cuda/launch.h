/* How a kernel row of this backend launches. A row's launch function describes its kernels one by one; the launcher
 * behind it either starts them on a stream at once or adds them to a graph as nodes. */
#ifndef WR_CUDA_LAUNCH_H
#define WR_CUDA_LAUNCH_H

#include "array/backend.h"

/* What fits() and launch() may know of the device: wr_step.device points to it. */
typedef struct wr_cuda_traits {
    int arch;            /* 80, 86, 89, 90, 100, 120, 121 */
    bool hopper;         /* the kernels inside WR_HAS_WGMMA are there */
    int n_sm;            /* multiprocessors */
    size_t shared_bytes; /* the most dynamic shared memory a block may have: 227 KiB on sm_90 */
    size_t l2_bytes;
} wr_cuda_traits;

static inline const wr_cuda_traits *wr_step_traits(const wr_step *step) { return step->device; }

enum { WR_SHARED_PERCENT = 72 }; /* of a multiprocessor's memory is shared for kernels that do not want all of it */

typedef struct wr_launch_spec {
    const char *kernel; /* as in WR_KERNEL */
    int64_t blocks;     /* 1-D grid, at most 2^31 - 1; 0 or less launches nothing */
    int cluster;        /* blocks of a cluster (kernels/hopper.cuh), a divisor of blocks; 0: no clusters */
    int threads;        /* of a block */
    size_t shared_bytes;
    bool all_shared;    /* its blocks are to fill a multiprocessor's memory; a kernel always says the same */
    bool whole;         /* what comes next begins after its end: it makes what others read before they wait */
    const void *params; /* the kernel's struct; copied */
    size_t params_bytes;
} wr_launch_spec;

typedef struct wr_launcher wr_launcher;
weir_status wr_launch(wr_launcher *launcher, const wr_launch_spec *spec, weir_error *err);

/* A function that is no kernel of this library (custom.c). It begins after all kernels before it have ended. */
typedef struct wr_function_spec {
    const char *name;
    void *function; /* CUfunction */
    uint32_t grid[3], block[3];
    size_t shared_bytes;
    void **params; /* where each parameter's bytes are; copied */
} wr_function_spec;
weir_status wr_launch_function(wr_launcher *launcher, const wr_function_spec *spec, weir_error *err);

/* Each family's rows for an op it serves, ended by a row without a name; NULL for other ops. The last real row is the
 * reference: the plainest kernel that is right. cuda/backend.c asks the families in turn. */
const wr_kernel_row *wr_cuda_elementwise_rows(wr_op_id op); /* every EW op, FUSED, FULL, ARANGE, RANDOM_* */
const wr_kernel_row *wr_cuda_move_rows(wr_op_id op);      /* COPY, TAKE .. PAD, views, SCATTER, SLICE_UPDATE, CONCAT */
const wr_kernel_row *wr_cuda_reduce_rows(wr_op_id op);    /* SUM .. CUMSUM, SORT family */
const wr_kernel_row *wr_cuda_norm_rows(wr_op_id op);      /* RMS_NORM, LAYER_NORM, ROPE_TABLE, ROPE, CONV1D */
const wr_kernel_row *wr_cuda_kv_rows(wr_op_id op);        /* KV_WRITE, KV_APPEND */
const wr_kernel_row *wr_cuda_matmul_rows(wr_op_id op);    /* MATMUL */
const wr_kernel_row *wr_cuda_linear_rows(wr_op_id op);    /* LINEAR, GATHER_LINEAR, EMBEDDING, DEQUANTIZE, QUANTIZE_* */
const wr_kernel_row *wr_cuda_attention_rows(wr_op_id op); /* ATTENTION, PAGED_ATTENTION */

const wr_kernel_row *wr_cuda_state_rows(wr_op_id op);  /* STORE */
const wr_kernel_row *wr_cuda_sample_rows(wr_op_id op); /* SAMPLE (array/sample.h) */
const wr_kernel_row *wr_cuda_custom_rows(wr_op_id op); /* CUSTOM (weir/custom.h) */

/* cuda/pack.c: the layout of weights for the linear kernels, as wr_backend wants it. */
size_t wr_cuda_packed_bytes(const wr_linear_args *args);
void wr_cuda_pack(const wr_linear_args *args, const void *data, const void *scales, const void *biases, void *packed,
                  int thread, int n_threads);

#endif
