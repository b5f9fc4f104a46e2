/* Ops: their numbers, argument structs and table rows. What each op means for
 * its user stands in weir/ops.h; this header fixes what kernels receive. */
#ifndef WR_ARRAY_OP_H
#define WR_ARRAY_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "array/sample.h"
#include "base/status.h"
#include "weir/array.h"
#include "weir/custom.h"

enum { WR_MAX_DIMS = WEIR_MAX_DIMS, WR_MAX_INPUTS = 16 };

enum {
    WR_EW = 1,
    WR_VIEW = 2,
    WR_STRIDED = 4,
    WR_INPLACE = 8,
    WR_SERIAL = 16,
    WR_DEVICE_ONLY = 32,
    WR_INPLACE_TWO = 64
};

typedef enum wr_op_id {
#define WR_OP(id, ...) WR_OP_##id,
#include "array/ops.def"
#undef WR_OP
    WR_OP_FUSED, /* element-wise chain made by the program compiler: wr_fused_args */
    WR_OP_DATA,  /* leaf: bytes in a buffer */
    WR_OP_COUNT
} wr_op_id;

/* Argument structs. Zeroed before they are filled, since graphs are compared by
 * bytes. Axes are normalised to 0..n_dims-1. */
typedef struct wr_no_args {
    char unused;
} wr_no_args;
typedef struct wr_cast_args {
    weir_dtype dtype;
} wr_cast_args;
typedef struct wr_reduce_args {
    uint32_t axes; /* bit i: axis i */
    bool keep_dims;
} wr_reduce_args;
typedef struct wr_axis_args {
    int axis;
    bool descending;         /* sort, argsort: NaN sorts last either way; stable */
    bool reverse, exclusive; /* cumsum */
    int64_t k;               /* top_k: k largest, in falling order; ties: lower index first */
} wr_axis_args;
typedef struct wr_slice_args {
    int64_t start[WR_MAX_DIMS], step[WR_MAX_DIMS], count[WR_MAX_DIMS];
} wr_slice_args;
typedef struct wr_pad_args {
    int64_t low[WR_MAX_DIMS], high[WR_MAX_DIMS];
    double value;
} wr_pad_args;
typedef struct wr_shape_args {
    int n;
    int64_t dims[WR_MAX_DIMS]; /* transpose: axes; else the new shape */
} wr_shape_args;
typedef struct wr_full_args {
    weir_dtype dtype;
    int n;
    int64_t dims[WR_MAX_DIMS];
    double value;
    int64_t integer;
} wr_full_args;
typedef struct wr_arange_args {
    weir_dtype dtype;
    double start, step;
    int64_t count;
} wr_arange_args;
/* Philox4x32-10 (Salmon et al. 2011): key = seed, counter = counter + index/4, word = index%4.
 * bits: u32. uniform: f32 in [0, 1), (bits >> 8) * 2^-24. normal: Box-Muller over pairs of words. */
typedef struct wr_random_args {
    uint64_t seed, counter;
    int n;
    int64_t dims[WR_MAX_DIMS];
} wr_random_args;

/* LINEAR: in0 x [..., cols]; then the weight: in1 data, in2 scales, in3 biases (as
 * many as the format has). y [..., rows] = x W^T, of out_dtype, or of x's dtype when that is 0 (bool).
 * LINEAR_ADD: in0 x, in1 addend [..., rows] of y's dtype, weight from in2; y = x W^T + addend, rounded once. Made by
 * the program compiler of an add after a linear, for backends that want it. LINEAR_GATED: in0 x, weight from in1, W0
 * its first rows / 2 rows and W1 the others; y [..., rows / 2] = act(x W0^T) * (x W1^T), with the roundings to y's
 * dtype of the steps one by one: both products, act, the result. Made by the program compiler too, as is NORM_LINEAR:
 * in0 x, in1 a norm's weight f32 [cols], weight from in2; LINEAR, or LINEAR_GATED where there is a gate, of the
 * RMS_NORM of x in norm_dtype. GATHER_LINEAR: in0 x [T, cols], in1 ids i32 [T], weight from in2; y [T, rows]; id out of
 * range gives NaN rows. EMBEDDING: in0 ids i32 [...], weight from in1; y [..., cols] of out_dtype; id out of range
 * gives NaN. DEQUANTIZE: weight from in0; y [experts?, rows, cols] of out_dtype. packed = 0: as published (wr_weight of
 * file/checkpoint.h describes the layout). packed = 1: in-data is one
 * u8 buffer in the backend's own layout, no scales, no biases. */
typedef struct wr_linear_args {
    weir_quant quant;
    weir_dtype weight_dtype; /* dense: dtype of data; affine: dtype of scales and biases */
    weir_dtype out_dtype;    /* EMBEDDING, DEQUANTIZE; the other ones: 0 is x's (the norm's) */
    int packed;
    int gate;           /* LINEAR_GATED, perhaps NORM_LINEAR: WR_OP_SILU or WR_OP_GELU_TANH; else 0 */
    float global_scale; /* nvfp4; else 1 */
    int64_t experts, rows, cols;
    weir_dtype norm_dtype; /* NORM_LINEAR, as the two behind it: of what the norm gives; else 0 */
    float norm_eps, norm_offset;
} wr_linear_args;

typedef struct wr_quantize_args {
    weir_quant quant;
} wr_quantize_args; /* in0 w [..., cols] f32/f16/bf16, MLX modes only */
typedef struct wr_norm_args {
    float eps;
    float weight_offset;  /* rms: y = x/rms * (weight + offset) */
    weir_dtype out_dtype; /* 0 (bool): x's */
} wr_norm_args;

/* ROPE_TABLE: in0 positions i32 or i64 [T] -> f32 [T, 2, half]: cos then sin of position * inv_freq,
 * each times attention_factor. Angles in double, reduced exactly: right to 1e-6 at positions to 2^20. */
enum { WR_ROPE_MAX_HALF = 256 };
typedef struct wr_rope_table_args {
    int half;
    double attention_factor;
    double inv_freq[WR_ROPE_MAX_HALF];
} wr_rope_table_args;
/* ROPE: in0 x [T, H, D], in1 table [T, 2, half]; rotates the first 2*half of D, copies the rest.
 * interleaved: pairs (2i, 2i+1); else (i, i + half). */
typedef struct wr_rope_args {
    bool interleaved;
} wr_rope_args;

/* ATTENTION: q [B,H,L,D], k [B,G,S,D], v [B,G,S,E], mask? (bool true = attend, or float added; broadcasts to
 * [B,H,L,S]), sinks? f32 [H]; H multiple of G; causal: query l sees keys 0 .. l + S - L. y [B,H,L,E], dtype of q.
 * A query that sees nothing gives 0.
 * PAGED_ATTENTION: in0 q [T,H,D]; in1, in2 k and v pages [P, page, G, C] (array/kv.h) of D and E columns a head; in3
 * block_table i32 [S, max_pages]; in4 row_seq i32 [T] (-1: padding row, gives 0); in5 row_pos i32 [T]; then mask?,
 * sinks? f32 [H], rope? f32 [T, 2, half], a table by which q is rotated first, as by ROPE (then q may be strided). Row
 * t sees the keys at absolute positions max(0, pos - window + 1) .. pos of its sequence (window 0: all), whatever
 * `causal` says; position p lies at place p % page of page block_table[seq][p / page]. y [T,H,E], 0 where a row sees
 * nothing. softcap c > 0: scores become c * tanh(score / c). Its mask, bool (true: attend) or float (added to the
 * score, after the softcap; -inf hides the key), is [T or 1, H or 1, N]: entry [t, h, p] is for row t, head h and the
 * key at position p of the row's sequence. It only takes away from what the row sees: keys after pos or before the
 * window stay unseen, and so do keys at N and later. One that is true, or 0, for all that a row sees changes no bit of
 * y. */
typedef struct wr_attention_args {
    float scale, softcap;
    bool causal;
    bool has_mask, has_sinks, has_rope; /* which of the optional inputs are there, in this order */
    bool interleaved;                   /* has_rope: as wr_rope_args has it */
    bool tiled;                         /* the pages are (array/kv.h) */
    int64_t window;                     /* 0: none. Query at position p sees keys p - window + 1 .. p */
    int64_t value_dim;                  /* E where tiled; else the pages' last axis says it */
} wr_attention_args;
/* KV_WRITE: in0 pages [P, page, G, C] (state), in1 x [T, G, D], in2 block_table i32 [S, max_pages], in3 row_seq i32 [T]
 * (-1: skip), in4 row_pos i32 [T]. Casts x to the pages' dtype. The result is the state buffer itself. Only x may be
 * strided.
 * KV_APPEND: two of them at once: in0 pages of keys and in1 pages of values (states), in2 k [T, G, D], in3 v [T, G, E],
 * in4 block_table, in5 row_seq, in6 row_pos, in7 rope? f32 [T, 2, half], by which k is rotated first, as by ROPE. Made
 * by the program compiler for backends that want it. The result is in0. Only k and v may be strided. */
typedef struct wr_kv_args {
    bool tiled;                 /* the pages are (array/kv.h) */
    bool has_rope, interleaved; /* KV_APPEND */
} wr_kv_args;

/* STORE: in0 a state [N, ...], in1 x [n, ...] of its dtype, n <= N: the first n rows become x. The result is the state
 * itself. */

/* CONV1D: x [B, L, C], w [O, kernel, C/groups], bias? [O]; y [B, L', O]; zero padding. Depthwise: groups == C. */
typedef struct wr_conv1d_args {
    int64_t stride, dilation, groups, pad_low, pad_high;
} wr_conv1d_args;

/* CUSTOM: inputs contiguous, the kernel's parameters as in weir/custom.h. Who holds such args holds the kernel (a
 * graph, a program): so its address tells it apart, and equal contents are one kernel of a device (array/custom.c). */
typedef struct wr_custom_args {
    struct weir_kernel *kernel;
    weir_dtype dtype; /* of the result */
    int n_dims;
    int64_t shape[WR_MAX_DIMS];
    uint32_t grid[3], block[3];
    size_t shared_bytes;
    uint32_t n_scalars, scalar_offset[WEIR_KERNEL_MAX_SCALARS];
    unsigned char scalars[WEIR_KERNEL_MAX_SCALAR_BYTES + 16 * WEIR_KERNEL_MAX_SCALARS]; /* each 16-byte aligned */
} wr_custom_args;

/* FUSED: a straight-line element-wise program over inputs of one shape (strides 0 where broadcast). Instruction i
 * writes register n_in + i; operands name registers; the last instruction gives the output. Each register has
 * its own dtype and each instruction rounds to it, so a fused chain has the bits of the unfused one. */
enum { WR_FUSED_MAX = 16 };
typedef struct wr_fused_args {
    int n;
    struct {
        uint8_t op, dtype, in[3];
    } code[WR_FUSED_MAX];
} wr_fused_args;

typedef struct wr_op_info {
    const char *name;
    int min_inputs, max_inputs;
    size_t args_bytes;
    unsigned flags;
    /* Fill out's dtype, n_dims, shape from its inputs and args, or fail with the op's name and the offending values. */
    weir_status (*infer)(weir_array *out, weir_error *err);
} wr_op_info;

extern const wr_op_info wr_ops[WR_OP_COUNT];

#endif
