/* QUANTIZE_*: MLX's quantisers as cpu/ref/quantize.c states them, with the same bits: every operation is an f32 one, in
 * the same order, rounded to w's dtype where that says so. A thread has a group; each of the three ops computes it
 * anew.
 *
 * Bytes: w (each group is walked twice for codes, the second time from L1) and the result. Operations an element: two
 * comparisons; for codes a difference, a division and a rounding besides. A thread walks a group, so a warp's loads lie
 * a group apart. Used when weights are made, not when they are used. Measured: docs/kernels.md. */
#include "cuda/kernels/linear.cuh"
#include "cuda/kernels/quantize.h"

WR_DEVICE float number(const wr_quantize_params &p, i64 i) { return wr_linear_number(p.w, p.type, i); }
/* To w's dtype and back. */
WR_DEVICE float rounded(const wr_quantize_params &p, float x) {
    if (p.type == WR_NUM_F32) return x;
    return p.type == WR_NUM_BF16 ? wr_bf16_to_f32(wr_f32_to_bf16(x)) : wr_f16_to_f32(wr_f32_to_f16(x));
}

/* Nearest E4M3, ties to even, saturated at 448; NaN stays NaN. */
WR_DEVICE u32 to_e4m3(float x) {
    const u32 sign = wr_f32_bits(x) >> 31 << 7;
    const float a = fabsf(x);
    if (a != a) return sign | 0x7f;
    if (a >= 448.0f) return sign | 0x7e;
    if (a < 0.015625f) return sign | (u32)rintf(a * 512.0f); /* 8 is the least normal number */
    const u32 b = wr_f32_bits(a) + 0x7ffff + (wr_f32_bits(a) >> 20 & 1);
    return sign | ((b >> 20) - (120u << 3));
}
WR_DEVICE float from_e4m3(u32 x) {
    const u32 e = x >> 3 & 15, m = x & 7;
    const float a = e == 15 && m == 7 ? wr_bits_f32(0x7FC00000u)
                    : e == 0          ? (float)m * 0.001953125f
                                      : wr_bits_f32((e + 120) << 23 | m << 20);
    return x & 128 ? -a : a;
}
/* Nearest of {0, .5, 1, 1.5, 2, 3, 4, 6}, ties towards 0; NaN gives 0. */
WR_DEVICE u32 to_e2m1(float x) {
    const float a = fabsf(x);
    const u32 code = a > 5.0f    ? 7
                     : a > 3.5f  ? 6
                     : a > 2.5f  ? 5
                     : a > 1.75f ? 4
                     : a > 1.25f ? 3
                     : a > 0.75f ? 2
                     : a > 0.25f ? 1
                                 : 0;
    return code && x < 0.0f ? code | 8 : code;
}

/* The group's scale and bias (affine), or its scale as a number and as a code. */
typedef struct group_scale {
    float scale, bias;
    u32 code;
} group_scale;

WR_DEVICE group_scale affine_scale(const wr_quantize_params &p, i64 first) {
    float low = wr_bits_f32(0x7F800000u), high = wr_bits_f32(0xFF800000u);
    const float bins = (float)((1 << p.bits) - 1);
    for (int i = 0; i < p.group; i++) {
        const float x = number(p, first + i);
        low = x < low ? x : low;
        high = x > high ? x : high;
    }
    const bool side = fabsf(low) > fabsf(high);
    float scale = (high - low) / bins;
    if (!(scale > 1e-7f)) scale = 1e-7f;
    if (!side) scale = -scale;
    const float edge = side ? low : high, q0 = rintf(edge / scale);
    group_scale g = {scale, 0.0f, 0};
    if (q0 != 0.0f) {
        g.scale = edge / q0;
        g.bias = edge;
    }
    return g;
}
WR_DEVICE group_scale small_scale(const wr_quantize_params &p, i64 first) {
    float largest = 0.0f;
    for (int i = 0; i < p.group; i++) {
        const float a = fabsf(number(p, first + i));
        largest = a > largest ? a : largest;
    }
    group_scale g = {rounded(p, largest / (p.bits == 4 ? 6.0f : 448.0f)), 0.0f, 0};
    if (p.mode == WR_PUBLISHED_NVFP4) {
        g.code = to_e4m3(g.scale);
        g.scale = from_e4m3(g.code);
        return g;
    }
    float exponent = g.scale == 0.0f ? 0.0f : ceilf(rounded(p, log2f(g.scale)));
    exponent = exponent < -127.0f ? -127.0f : exponent > 127.0f ? 127.0f : exponent;
    g.code = (u32)((int)exponent + 127);
    g.scale = rounded(p, exp2f(exponent));
    return g;
}
WR_DEVICE u32 code_of(const wr_quantize_params &p, const group_scale &g, float x) {
    if (p.mode == WR_PUBLISHED_AFFINE) {
        const float q = rintf((x - g.bias) / g.scale), bins = (float)((1 << p.bits) - 1);
        return q > 0.0f ? (u32)(q > bins ? bins : q) : 0;
    }
    const float v = g.scale == 0.0f ? 0.0f : rounded(p, x / g.scale);
    return p.bits == 4 ? to_e2m1(v) : to_e4m3(v);
}

WR_KERNEL(wr_quantize, wr_quantize_params, 64, 1) {
    wr_grid_launch();
    wr_grid_wait();
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < p.groups; i += (i64)gridDim.x * blockDim.x) {
        const i64 first = i * p.group;
        const bool affine = p.mode == WR_PUBLISHED_AFFINE;
        const group_scale g = affine ? affine_scale(p, first) : small_scale(p, first);
        if (p.part == WR_QUANTIZE_SCALES && !affine) {
            ((u8 *)p.out)[i] = (u8)g.code;
        } else if (p.part != WR_QUANTIZE_WEIGHT) {
            wr_linear_put(p.out, p.type, i, p.part == WR_QUANTIZE_SCALES ? g.scale : g.bias);
        } else { /* a little-endian stream; a group is a whole number of bytes */
            u8 *to = (u8 *)p.out + i * p.group * p.bits / 8;
            u32 held = 0;
            int n_held = 0;
            for (int k = 0; k < p.group; k++) {
                held |= code_of(p, g, number(p, first + k)) << n_held;
                for (n_held += p.bits; n_held >= 8; n_held -= 8, held >>= 8) *to++ = (u8)held;
            }
        }
    }
}
