/* Element-wise kernels: what host and device share. Names, parameters and limits; the contract stands in
 * elementwise.cu. */
#ifndef WR_CUDA_KERNELS_ELEMENTWISE_H
#define WR_CUDA_KERNELS_ELEMENTWISE_H

#include <stdint.h>

/* The numbers of wr_op_id, for the device. */
enum {
#define WR_OP(id, ...) WR_EW_##id,
#include "array/ops.def"
#undef WR_OP
    WR_EW_OPS
};

enum {
    WR_EW_THREADS = 128,
    /* The interpreter: elements a thread has in hand at once, by register size, so that registers of the largest
     * program stay below 48 KiB of shared memory a block. */
    WR_EW_FLOAT_ITEMS = 4,
    WR_EW_INTEGER_ITEMS = 2,
    WR_EW_SMALL_INPUTS = 6,
    WR_EW_SMALL_CODE = 10,
    WR_EW_SMALL_STRIDES = 28,
    WR_EW_WIDE_INPUTS = 16,
    WR_EW_WIDE_CODE = 16,
    WR_EW_WIDE_STRIDES = (WR_EW_WIDE_INPUTS + 1) * 8,
    /* Chains: elements a thread has in hand, 16 bytes of bf16. */
    WR_EW_CHAIN_ITEMS = 8,
    WR_EW_CHAIN_INPUTS = 4,
    WR_EW_CHAIN_AXES = 3,
    WR_EW_CHAIN_STEPS = 8,
};

/* One instruction: register n_in + its place = op(registers in), of `dtype`; in_dtype are the operands' dtypes. */
typedef struct wr_ew_code {
    uint8_t op, dtype, in[3], in_dtype[3];
} wr_ew_code;

/* What the interpreter knows of a step, but for its operands. */
typedef struct wr_ew_head {
    void *out;
    int64_t n; /* elements */
    int32_t n_dims, n_in, n_code;
    uint8_t out_dtype, in_dtype[16];
    int64_t shape[8];
} wr_ew_head;
/* strides: n_dims of the output, then n_dims of each input, in elements. */
typedef struct wr_ew_small_params {
    wr_ew_head head;
    const void *in[WR_EW_SMALL_INPUTS];
    wr_ew_code code[WR_EW_SMALL_CODE];
    int64_t strides[WR_EW_SMALL_STRIDES];
} wr_ew_small_params;
typedef struct wr_ew_wide_params {
    wr_ew_head head;
    const void *in[WR_EW_WIDE_INPUTS];
    wr_ew_code code[WR_EW_WIDE_CODE];
    int64_t strides[WR_EW_WIDE_STRIDES];
} wr_ew_wide_params;

/* A step of a chain: value = op(value, other), or op(other, value) when swapped. other: an input, or OTHER_SELF (the
 * value itself), or OTHER_NONE for ops of one operand. */
enum { WR_EW_OTHER_NONE = 254, WR_EW_OTHER_SELF = 255 };
typedef struct wr_ew_link {
    uint8_t op, dtype, other, swapped;
} wr_ew_link;
/* Rows of floats, along up to WR_EW_CHAIN_AXES axes. The value starts as input 0. Output rows are contiguous; input
 * rows are contiguous or one element (flat[k]). Strides in elements. Input 1 is fetched early. */
typedef struct wr_ew_chain_params {
    void *out;
    const void *in[WR_EW_CHAIN_INPUTS];
    int64_t rows, cols;
    int64_t shape[WR_EW_CHAIN_AXES], out_strides[WR_EW_CHAIN_AXES];
    int64_t in_strides[WR_EW_CHAIN_INPUTS][WR_EW_CHAIN_AXES];
    int32_t n_axes, n_in, n_steps;
    uint8_t out_dtype, in_dtype[WR_EW_CHAIN_INPUTS], flat[WR_EW_CHAIN_INPUTS];
    wr_ew_link steps[WR_EW_CHAIN_STEPS];
} wr_ew_chain_params;

typedef struct wr_ew_full_params {
    void *out;
    int64_t n;
    uint64_t bits; /* of one element, repeated to 8 bytes */
    int32_t bytes; /* of an element */
} wr_ew_full_params;
typedef struct wr_ew_arange_params {
    void *out;
    int64_t n;
    double start, step;
    int32_t dtype;
} wr_ew_arange_params;
enum { WR_EW_DRAW_BITS, WR_EW_DRAW_UNIFORM, WR_EW_DRAW_NORMAL };
typedef struct wr_ew_random_params {
    void *out;
    int64_t n;
    uint64_t seed, counter;
    int32_t draw;
} wr_ew_random_params;

#endif
