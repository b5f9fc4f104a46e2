/* Functions of vectors of floats, at the level of cpu/vec_simd.h.
 *
 * Errors against double precision rounded once, in units in the last place, as tests/cpu/test_fast_elementwise.c holds
 * them to at every level: exp 2, expm1 3, tanh, sigmoid and silu 4, over all of the range where the result is normal
 * (sigmoid and silu give 0 below -88.7); gelu_tanh 1e-6 relative, growing with the exponent it needs.
 *
 * exp: x = n ln 2 + r, |r| <= ln 2 / 2; ln 2 in two parts, the first with 9 bits
 * so that n times it is exact even without a fused multiply-add; e^r - 1 by
 * Taylor's series to r^7 (the rest, r^8 / 8!, is 5e-9); 2^n in two factors, so that
 * subnormal results and the edge of overflow come out by themselves. */
#ifndef WR_CPU_VEC_MATH_H
#define WR_CPU_VEC_MATH_H

#include "cpu/vec_simd.h"

/* 2^n for integral n in -126 .. 127. */
VF_INLINE vf vf_pow2(vi n) { return (vf)((n + 127) << 23); }

/* r + r^2/2! + ... + r^7/7! */
VF_INLINE vf vf_expm1_small(vf r) {
    vf p = vf_set(1.0f / 5040);
    p = vf_fma(p, r, vf_set(1.0f / 720));
    p = vf_fma(p, r, vf_set(1.0f / 120));
    p = vf_fma(p, r, vf_set(1.0f / 24));
    p = vf_fma(p, r, vf_set(1.0f / 6));
    p = vf_fma(p, r, vf_set(0.5f));
    return vf_fma(p, r * r, r);
}

#define VF_LOG2_E 1.44269504088896341f
#define VF_LN2_HI 0.693359375f               /* 355 / 512 */
#define VF_LN2_LO (-2.12194440054690583e-4f) /* ln 2 - 355 / 512 */

/* n and r of x; x is clamped to where the result is 0 or infinity anyway; NaN stays. */
VF_INLINE vf vf_exp_split(vf x, vi *n) {
    vf t = vf_round(x * vf_set(VF_LOG2_E));
    *n = vf_to_int(t);
    vf r = vf_fma(t, vf_set(-VF_LN2_HI), x);
    return vf_fma(t, vf_set(-VF_LN2_LO), r);
}

VF_INLINE vf vf_exp(vf x) {
    x = vf_max(vf_set(-104.5f), vf_min(vf_set(89.0f), x));
    vi n;
    vf y = vf_set(1.0f) + vf_expm1_small(vf_exp_split(x, &n));
    vi half = n >> 1;
    return y * vf_pow2(half) * vf_pow2(n - half);
}

VF_INLINE vf vf_expm1(vf x) {
    x = vf_max(vf_set(-20.0f), vf_min(vf_set(89.0f), x));
    vi n;
    vf p = vf_expm1_small(vf_exp_split(x, &n));
    /* 2^n p + (2^n - 1), by halves so that n = 128 does not overflow early. */
    vf s = vf_pow2(n + (n > -1000)); /* a true lane is -1; NaN made n INT_MIN, where n - 1 would overflow */
    vf y = vf_fma(s, p, s - vf_set(0.5f));
    y = y + y;
    return vf_sel(vf_abs(x) < vf_set(1e-10f), x, y);
}

/* 2^x for x <= 0; below 2^-126 it is 0. For softmax: half the work of vf_exp, 2^0 is 1 exactly. */
VF_INLINE vf vf_exp2_neg(vf x) {
    vf c = vf_max(vf_set(-127.0f), x);
    vf t = vf_round(c), f = c - t;
    vf p = vf_set(1.525273380405984e-5f); /* ln(2)^k / k!, k = 7 .. 1 */
    p = vf_fma(p, f, vf_set(1.540353039338161e-4f));
    p = vf_fma(p, f, vf_set(1.333355814642844e-3f));
    p = vf_fma(p, f, vf_set(9.618129107628477e-3f));
    p = vf_fma(p, f, vf_set(5.550410866482158e-2f));
    p = vf_fma(p, f, vf_set(2.402265069591007e-1f));
    p = vf_fma(p, f, vf_set(6.931471805599453e-1f));
    p = vf_fma(p, f, vf_set(1.0f));
    p = p * vf_pow2(vf_to_int(t));
    return (vf)((vi)p & ~(x < vf_set(-126.0f)));
}

/* tanh x = e / (e + 2), e = expm1(2 |x|); 1 from |x| = 9.1 on. */
VF_INLINE vf vf_tanh(vf x) {
    vf a = vf_min(vf_set(10.0f), vf_abs(x));
    vf e = vf_expm1(a + a);
    vf y = e / (e + vf_set(2.0f));
    return (vf)((vi)y | ((vi)x & (int32_t)0x80000000));
}

VF_INLINE vf vf_sigmoid(vf x) { return vf_set(1.0f) / (vf_set(1.0f) + vf_exp(-x)); }
VF_INLINE vf vf_silu(vf x) { return x / (vf_set(1.0f) + vf_exp(-x)); }

/* x (1 + tanh u) / 2 with u = sqrt(2/pi) (x + 0.044715 x^3), written as x / (1 + e^(-2u)), which does not cancel for
 * negative x. */
VF_INLINE vf vf_gelu_tanh(vf x) {
    vf x2 = x * x;
    vf u = x * vf_fma(x2, vf_set(-2.0f * 0.7978845608028654f * 0.044715f), vf_set(-2.0f * 0.7978845608028654f));
    return x / (vf_set(1.0f) + vf_exp(u));
}

#endif
