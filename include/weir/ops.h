/* weir: the ops of the array runtime. Shapes are written outermost first; axes
 * may be negative. Inputs of two-input ops broadcast (NumPy's rule) and promote
 * (weir_dtype_promote). Arrays must be of one graph. See weir/array.h for errors. */
#ifndef WEIR_OPS_H
#define WEIR_OPS_H

#include "weir/array.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Leaves. data is copied; shape NULL with n_dims 0 is a scalar. */
weir_array *weir_from_data(weir_graph *g, weir_dtype dtype, int n_dims, const int64_t *shape, const void *data);
weir_array *weir_scalar_f32(weir_graph *g, float value);
weir_array *weir_scalar_i32(weir_graph *g, int32_t value);
weir_array *weir_full(weir_graph *g, weir_dtype dtype, int n_dims, const int64_t *shape, double value);
/* start, start + step, ...: ceil((stop - start) / step) elements, none when that is negative; step 0 is an error. */
weir_array *weir_arange(weir_graph *g, weir_dtype dtype, double start, double stop, double step);
/* Counter-based (Philox4x32-10): a value depends on seed, counter and index only. */
weir_array *weir_random_bits(weir_graph *g, int n_dims, const int64_t *shape, uint64_t seed,
                             uint64_t counter); /* u32 */
weir_array *weir_random_uniform(weir_graph *g, int n_dims, const int64_t *shape, uint64_t seed,
                                uint64_t counter); /* f32 [0,1) */
weir_array *weir_random_normal(weir_graph *g, int n_dims, const int64_t *shape, uint64_t seed,
                               uint64_t counter); /* f32 */

/* Element-wise, one input. Integer division and remainder by 0 give 0; integer negation and abs wrap; round is
 * half to even; float functions of integers give f32; f16 and bf16 are computed in f32 and rounded once. */
/* clang-format off */
#define WEIR_UNARY_OPS(X) \
    X(neg) X(abs) X(sign) X(square) X(floor) X(ceil) X(round) X(sqrt) X(rsqrt) X(reciprocal) X(exp) X(expm1) \
    X(log) X(log1p) X(log2) X(sin) X(cos) X(tan) X(tanh) X(erf) X(sigmoid) X(silu) X(gelu) X(gelu_tanh) X(relu) \
    X(logical_not) X(is_nan) X(is_inf) X(bit_not)
/* clang-format on */
#define WEIR_DECLARE_UNARY(name) weir_array *weir_##name(weir_array *x);
WEIR_UNARY_OPS(WEIR_DECLARE_UNARY)
#undef WEIR_DECLARE_UNARY
/* Conversion. Float to integer truncates towards 0, saturates out of range, NaN gives 0; integer to a narrower
 * integer saturates; to bool: not equal 0 (NaN is true). */
weir_array *weir_cast(weir_array *x, weir_dtype dtype);

/* Element-wise, two inputs. floor_div and remainder follow the divisor's sign (Python); pow of integers wraps, a
 * negative integer exponent gives 0 (1 for base 1, +-1 for base -1); maximum and minimum propagate NaN; shifts by
 * the width or more give 0 (-1 for negative values shifted right). div of integers gives f32. Comparisons and
 * logical ops give bool. */
/* clang-format off */
#define WEIR_BINARY_OPS(X) \
    X(add) X(sub) X(mul) X(div) X(floor_div) X(remainder) X(pow) X(maximum) X(minimum) X(bit_and) X(bit_or) \
    X(bit_xor) X(shift_left) X(shift_right) X(logical_and) X(logical_or) X(equal) X(not_equal) X(less) \
    X(less_equal) X(greater) X(greater_equal)
/* clang-format on */
#define WEIR_DECLARE_BINARY(name) weir_array *weir_##name(weir_array *a, weir_array *b);
WEIR_BINARY_OPS(WEIR_DECLARE_BINARY)
#undef WEIR_DECLARE_BINARY
weir_array *weir_select(weir_array *condition, weir_array *a, weir_array *b); /* condition bool */

/* Reductions over axes (n_axes 0: all). sum of bool and integers: i64 (unsigned: u64); sum and mean of f16/bf16 are
 * accumulated in f32; mean of integers gives f32. sum of nothing is 0, max/min of nothing an error. NaN propagates. */
weir_array *weir_sum(weir_array *x, int n_axes, const int *axes, bool keep_dims);
weir_array *weir_mean(weir_array *x, int n_axes, const int *axes, bool keep_dims);
weir_array *weir_max(weir_array *x, int n_axes, const int *axes, bool keep_dims);
weir_array *weir_min(weir_array *x, int n_axes, const int *axes, bool keep_dims);
weir_array *weir_logsumexp(weir_array *x, int n_axes, const int *axes, bool keep_dims);
weir_array *weir_argmax(weir_array *x, int axis);  /* i32, axis removed; first of equals; NaN counts as largest */
weir_array *weir_softmax(weir_array *x, int axis); /* all -inf gives 0 */
weir_array *weir_sort(weir_array *x, int axis, bool descending);    /* stable; NaN last */
weir_array *weir_argsort(weir_array *x, int axis, bool descending); /* i32 */
weir_array *weir_top_k(weir_array *x, int axis, int64_t k);         /* values, falling */
weir_array *weir_arg_top_k(weir_array *x, int axis, int64_t k);     /* i32, falling; of equals the lower index first */
weir_array *weir_cumsum(weir_array *x, int axis, bool reverse, bool exclusive);

/* Moving data. Indices are i32 or i64; negative ones count from the end; out of range: take gives 0 (floats NaN),
 * scatter skips the element. */
weir_array *weir_take(weir_array *x, weir_array *indices, int axis);       /* axis replaced by indices' shape */
weir_array *weir_take_along(weir_array *x, weir_array *indices, int axis); /* same n_dims; other axes equal */
weir_array *weir_scatter(weir_array *x, weir_array *indices, weir_array *updates,
                         int axis); /* put along axis; the last of equals wins */
weir_array *weir_scatter_add(weir_array *x, weir_array *indices, weir_array *updates, int axis); /* in index order */
/* Python's slices: start, stop per axis clamped, negative from the end; step not 0, may be negative; NULL stop: to the
 * end; NULL step: 1. */
weir_array *weir_slice(weir_array *x, const int64_t *start, const int64_t *stop, const int64_t *step);
weir_array *weir_slice_update(weir_array *x, weir_array *update, const int64_t *start, const int64_t *stop,
                              const int64_t *step);
weir_array *weir_concat(weir_array *const *arrays, int n, int axis);
weir_array *weir_pad(weir_array *x, const int64_t *low, const int64_t *high, double value);
weir_array *weir_transpose(weir_array *x, const int *axes);                /* NULL: reversed */
weir_array *weir_reshape(weir_array *x, int n_dims, const int64_t *shape); /* one -1 is inferred */
weir_array *weir_broadcast(weir_array *x, int n_dims, const int64_t *shape);
weir_array *weir_contiguous(weir_array *x);

/* Multiplying. matmul: [..., M, K] by [..., K, N], batch axes broadcast; f32 accumulation in order of K. */
weir_array *weir_matmul(weir_array *a, weir_array *b);
/* y = x W^T. w dense [N, K]. */
weir_array *weir_linear(weir_array *x, weir_array *w);
/* x [..., K] by a quantised w of N rows; w, scales, biases as published (NULL where the mode has none). */
weir_array *weir_quantized_matmul(weir_array *x, weir_array *w, weir_array *scales, weir_array *biases,
                                  weir_quant quant);
/* Experts: w [E, N, ...]; x [T, K], ids i32 [T]; y [T, N] = x[t] W[ids[t]]^T. */
weir_array *weir_gather_quantized_matmul(weir_array *x, weir_array *ids, weir_array *w, weir_array *scales,
                                         weir_array *biases, weir_quant quant);
/* MLX's layouts and rounding (docs/formats): w [..., K] -> u32 [..., K*bits/32], scales, biases (NULL pointer allowed).
 */
void weir_quantize(weir_array *w, weir_quant quant, weir_array **packed, weir_array **scales, weir_array **biases);
weir_array *weir_dequantize(weir_array *w, weir_array *scales, weir_array *biases, weir_quant quant, weir_dtype dtype);

/* Transformers. Norms over the last axis, computed in f32; weight, bias may be NULL. */
weir_array *weir_rms_norm(weir_array *x, weir_array *weight, float eps);
weir_array *weir_layer_norm(weir_array *x, weir_array *weight, weir_array *bias, float eps);

/* Published rotary scalings: default, linear, dynamic NTK, YaRN (Peng et al. 2023), llama3, longrope. */
typedef enum weir_rope_kind {
    WEIR_ROPE_DEFAULT,
    WEIR_ROPE_LINEAR,
    WEIR_ROPE_DYNAMIC,
    WEIR_ROPE_YARN,
    WEIR_ROPE_LLAMA3,
    WEIR_ROPE_LONGROPE
} weir_rope_kind;
typedef struct weir_rope_options {
    weir_rope_kind kind;
    int dims;                                 /* rotated dimensions, even; 0: all of head_dim */
    bool interleaved;                         /* pairs (2i, 2i+1) instead of (i, i + dims/2) */
    double base;                              /* 10000 when 0 */
    double factor;                            /* 1 when 0 */
    double original_max_positions;            /* dynamic, yarn, llama3, longrope */
    double low_freq_factor, high_freq_factor; /* llama3 */
    double beta_fast, beta_slow;              /* yarn: 32 and 1 when 0 */
    double mscale, mscale_all_dim;            /* yarn (DeepSeek's); 0: absent */
    double attention_factor;                  /* yarn, longrope: overrides the computed one when not 0 */
    double sequence_length;                   /* dynamic, longrope: the length that is served */
    const double *factors;                    /* longrope: dims/2 divisors (short or long, chosen by the caller) */
    bool no_truncate;                         /* yarn: do not round the correction range */
} weir_rope_options;
/* x [T, H, D], positions i32 or i64 [T]. */
weir_array *weir_rope(weir_array *x, weir_array *positions, const weir_rope_options *options);

typedef struct weir_attention_options {
    float scale;    /* 0: 1/sqrt(D) */
    float softcap;  /* 0: none */
    bool causal;    /* query l of L sees keys up to l + S - L */
    int64_t window; /* 0: none; else the last `window` keys, itself included */
} weir_attention_options;
/* q [B,H,L,D], k [B,G,S,D], v [B,G,S,E], H a multiple of G; mask NULL, bool (true: attend) or float (added), broadcast
 * to [B,H,L,S]; sinks NULL or f32 [H]: one more score a head that takes weight and gives nothing. */
weir_array *weir_attention(weir_array *q, weir_array *k, weir_array *v, weir_array *mask, weir_array *sinks,
                           const weir_attention_options *options);
/* 1-D convolution, x [B, L, C], w [O, kernel, C/groups], bias NULL or [O]. */
weir_array *weir_conv1d(weir_array *x, weir_array *w, weir_array *bias, int64_t stride, int64_t dilation,
                        int64_t groups, int64_t pad_low, int64_t pad_high);

#ifdef __cplusplus
}
#endif
#endif
