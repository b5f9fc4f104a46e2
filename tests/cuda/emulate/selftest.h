/* Parameters of the kernels in selftest.cu. */
#ifndef WR_TESTS_CUDA_EMULATE_SELFTEST_H
#define WR_TESTS_CUDA_EMULATE_SELFTEST_H

#include <stdint.h>

enum selftest_wgmma { SELFTEST_RS, SELFTEST_RS_TB, SELFTEST_SS };

/* What selftest_fault does wrong. */
enum selftest_fault {
    FAULT_NONE,
    FAULT_MISSING_BARRIER,     /* warp 1 does not come to __syncthreads, but waits elsewhere */
    FAULT_DIVERGED_SHUFFLE,    /* half a warp shuffles with the full mask */
    FAULT_MBARRIER_STUCK,      /* nobody arrives */
    FAULT_NO_FENCE,            /* wgmma at once */
    FAULT_OPERAND_OVERWRITTEN, /* between wgmma and wait */
    FAULT_ACCUMULATOR_WRITTEN, /* likewise */
    FAULT_NO_WAIT,             /* the thread ends */
    FAULT_SHARED_OVERRUN,      /* one byte */
    FAULT_BARRIER_OVERWRITTEN, /* an mbarrier, by a store */
    FAULT_COPY_MISALIGNED,
    FAULT_COPY_OUTSIDE,
    FAULT_BULK_UNAWAITED,
    FAULT_PARTIAL_MMA, /* lane 31 has returned */
    FAULT_WRONG_MASK,  /* the calling lane is not in it */
    FAULT_NO_GRID_WAIT,
    FAULT_STACK,         /* endless recursion */
    FAULT_CLUSTER_STUCK, /* from here on in clusters of two: block 1 does not arrive */
    FAULT_CLUSTER_ENDED, /* block 0 reaches for block 1, which may have ended */
    FAULT_CLUSTER_TWICE  /* two arrivals without a wait */
};

typedef struct selftest_params {
    const void *a, *b; /* bf16 [M, K], [N, K] (or [K, N]) */
    void *out;
    uint32_t *counter;
    int32_t n, k, what, transposed, f16;
} selftest_params;

/* The parameters of a user's kernel (weir/custom.h), a word each. */
typedef struct selftest_axpy_params {
    const float *x, *y;
    float *out;
    double a;
    int64_t n;
} selftest_axpy_params;

#endif
