/* One vector type for three instruction sets. A kernel family writes its inner
 * code once, in a <family>_body.h, and includes it from three files:
 *
 *   #define WR_VEC 0            plain C: 4 floats in the compiler's own vector type
 *   #define WR_VEC 1            AVX2, FMA, F16C: 8 floats
 *   #define WR_VEC 2            AVX-512 F, BW, VL, DQ: 16 floats
 *   #include "cpu/vec_simd.h"   before every other header of the file
 *
 * From here to the end of the file the compiler may use those instructions, at
 * -O3 and without contracting a * b + c: where a fused multiply-add is wanted it
 * is written (vf_fma), because kernels of one level promise each other equal bits.
 * Results of different levels differ in the last bits.
 *
 * WR_ISA(name) gives a function of the family its own name at each level. */
#ifndef WR_CPU_VEC_SIMD_H
#define WR_CPU_VEC_SIMD_H

#if WR_VEC == 1
#define WR_VEC_TARGET "avx2,fma,f16c"
#elif WR_VEC == 2
#define WR_VEC_TARGET "avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq"
#endif

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#else
#pragma GCC optimize("O3,fp-contract=off")
#if WR_VEC == 1
#pragma GCC target("avx2,fma,f16c")
#elif WR_VEC == 2
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq")
#endif
#endif

#if WR_VEC
#include <immintrin.h>
#endif
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/dtype.h"

#if defined(__clang__) && WR_VEC
#if WR_VEC == 1
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512dq"))),              \
                             apply_to = function)
#endif
#define WR_VEC_END _Pragma("clang attribute pop")
#else
#define WR_VEC_END
#endif

#define WR_ISA_JOIN(a, b) a##_##b
#if WR_VEC == 0
#define WR_ISA(name) WR_ISA_JOIN(name, portable)
#define VF_N_IS      4
#elif WR_VEC == 1
#define WR_ISA(name) WR_ISA_JOIN(name, avx2)
#define VF_N_IS      8
#else
#define WR_ISA(name) WR_ISA_JOIN(name, avx512)
#define VF_N_IS      16
#endif

enum { VF_N = VF_N_IS };
#define VF_INLINE static inline __attribute__((always_inline, unused))

typedef float vf __attribute__((vector_size(VF_N * 4)));
typedef int32_t vi __attribute__((vector_size(VF_N * 4))); /* also masks: -1 or 0 a lane */
typedef float vf_any __attribute__((vector_size(VF_N * 4), aligned(4), may_alias));
typedef int32_t vi_any __attribute__((vector_size(VF_N * 4), aligned(4), may_alias));

VF_INLINE vf vf_load(const float *p) { return *(const vf_any *)p; }
VF_INLINE void vf_store(float *p, vf x) { *(vf_any *)p = x; }
VF_INLINE vi vi_load(const void *p) { return *(const vi_any *)p; }
VF_INLINE void vi_store(void *p, vi x) { *(vi_any *)p = x; }
VF_INLINE vf vf_set(float x) { return x - (vf){0}; } /* x - 0 is x for every x, -0 too */
VF_INLINE vi vi_set(int32_t x) { return x - (vi){0}; }
VF_INLINE vi vi_iota(void) {
    vi x;
    for (int i = 0; i < VF_N; i++) x[i] = i;
    return x;
}
/* mask ? a : b, mask lanes all ones or all zeros. */
VF_INLINE vf vf_sel(vi mask, vf a, vf b) {
#if WR_VEC == 1
    return _mm256_blendv_ps(b, a, (__m256)mask);
#else
    return (vf)(((vi)a & mask) | ((vi)b & ~mask));
#endif
}
VF_INLINE vf vf_abs(vf x) { return (vf)((vi)x & 0x7fffffff); }

#if WR_VEC == 0
VF_INLINE vf vf_fma(vf a, vf b, vf c) { return a * b + c; } /* two roundings: there may be no such instruction */
/* As x86 does: the second operand when one is NaN. */
VF_INLINE vf vf_max(vf a, vf b) { return vf_sel(a > b, a, b); }
VF_INLINE vf vf_min(vf a, vf b) { return vf_sel(a < b, a, b); }
VF_INLINE vf vf_round(vf x) { /* adding 1.5 * 2^23 rounds to an integer, half to even */
    vf a = vf_abs(x), r = (a + 0x1.8p23f) - 0x1.8p23f;
    r = (vf)((vi)r | ((vi)x & (int32_t)0x80000000));
    return vf_sel(a < 0x1p22f, r,
                  vf_sel(a < 0x1p23f, (vf)((vi)((a + 0x1p23f) - 0x1p23f) | ((vi)x & (int32_t)0x80000000)), x));
}
VF_INLINE vf vf_sign_of(vf r, vf x) { return (vf)((vi)vf_abs(r) | ((vi)x & (int32_t)0x80000000)); }
VF_INLINE vf vf_floor(vf x) {
    vf r = vf_round(x);
    return vf_sign_of(r - (vf)((vi)vf_set(1.0f) & (r > x)), x);
}
VF_INLINE vf vf_ceil(vf x) {
    vf r = vf_round(x);
    return vf_sign_of(r + (vf)((vi)vf_set(1.0f) & (r < x)), x);
}
VF_INLINE vf vf_sqrt(vf x) {
    for (int i = 0; i < VF_N; i++) x[i] = sqrtf(x[i]);
    return x;
}
VF_INLINE vi vf_to_int(vf x) { return __builtin_convertvector(x, vi); } /* of integral values in range */
VF_INLINE vf vf_load_f16(const uint16_t *p) {
    vf x;
    for (int i = 0; i < VF_N; i++) x[i] = wr_f16_to_f32(p[i]);
    return x;
}
VF_INLINE vf vf_load_bf16(const uint16_t *p) {
    vi x;
    for (int i = 0; i < VF_N; i++) x[i] = (int32_t)((uint32_t)p[i] << 16);
    return (vf)x;
}
VF_INLINE void vf_store_f16(uint16_t *p, vf x) {
    for (int i = 0; i < VF_N; i++) p[i] = wr_f32_to_f16(x[i]);
}
VF_INLINE void vf_store_bf16(uint16_t *p, vf x) {
    for (int i = 0; i < VF_N; i++) p[i] = wr_f32_to_bf16(x[i]);
}
/* Sums and maxima over lanes: the tree of neighbours, ((0+1)+(2+3))+..., at every level. */
VF_INLINE float vf_sum(vf x) { return (x[0] + x[1]) + (x[2] + x[3]); }
VF_INLINE float vf_most(vf x) {
    float a = x[0] > x[1] ? x[0] : x[1], b = x[2] > x[3] ? x[2] : x[3];
    return a > b ? a : b;
}
VF_INLINE void vf_sum4(float *out, vf a, vf b, vf c, vf d) {
    out[0] = vf_sum(a), out[1] = vf_sum(b), out[2] = vf_sum(c), out[3] = vf_sum(d);
}
#else
/* [a01, a23, b01, b23] in each 128-bit lane. */
VF_INLINE __m256 vf_pairs256(__m256 a, __m256 b) {
    return _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xdd));
}
VF_INLINE float vf_sum128(__m128 s) { /* [x0, x1, x2, x3] by neighbours */
    s = _mm_add_ps(s, _mm_movehdup_ps(s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehl_ps(s, s)));
}
VF_INLINE float vf_most128(__m128 s) {
    s = _mm_max_ps(s, _mm_movehdup_ps(s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehl_ps(s, s)));
}
/* bf16, round to nearest even, NaN quiet; 32-bit lanes with the result in the low half. */
#define VF_BF16_BITS(x) ((x) + 0x7fff + (((x) >> 16) & 1))
#if WR_VEC == 1
VF_INLINE vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
VF_INLINE vf vf_max(vf a, vf b) { return _mm256_max_ps(a, b); }
VF_INLINE vf vf_min(vf a, vf b) { return _mm256_min_ps(a, b); }
VF_INLINE vf vf_round(vf x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
VF_INLINE vf vf_floor(vf x) { return _mm256_floor_ps(x); }
VF_INLINE vf vf_ceil(vf x) { return _mm256_ceil_ps(x); }
VF_INLINE vf vf_sqrt(vf x) { return _mm256_sqrt_ps(x); }
VF_INLINE vi vf_to_int(vf x) { return (vi)_mm256_cvtps_epi32(x); }
VF_INLINE vf vf_load_f16(const uint16_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
VF_INLINE vf vf_load_bf16(const uint16_t *p) {
    return (vf)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16);
}
VF_INLINE void vf_store_f16(uint16_t *p, vf x) {
    _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
VF_INLINE void vf_store_bf16(uint16_t *p, vf x) {
    typedef uint32_t vu __attribute__((vector_size(32)));
    vu u = (vu)x, r = VF_BF16_BITS(u) >> 16, quiet = u >> 16 | 0x40;
    vu nan = (vu)(x != x);
    r = (r & ~nan) | (quiet & nan);
    __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32((__m256i)r, (__m256i)r), 0x08);
    _mm_storeu_si128((__m128i *)p, _mm256_castsi256_si128(packed));
}
VF_INLINE float vf_sum(vf x) {
    __m256 s = _mm256_add_ps(x, _mm256_movehdup_ps(x));  /* 01 . 23 . 45 . 67 . */
    s = _mm256_add_ps(s, _mm256_shuffle_ps(s, s, 0xee)); /* 0123 ... 4567 */
    return _mm_cvtss_f32(_mm_add_ss(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1)));
}
VF_INLINE float vf_most(vf x) { return vf_most128(_mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1))); }
VF_INLINE void vf_sum4(float *out, vf a, vf b, vf c, vf d) {
    __m256 s = vf_pairs256(vf_pairs256(a, b), vf_pairs256(c, d)); /* [a b c d] of lanes 0-3, of lanes 4-7 */
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1)));
}
#else
VF_INLINE vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
VF_INLINE vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
VF_INLINE vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
VF_INLINE vf vf_round(vf x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
VF_INLINE vf vf_floor(vf x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
VF_INLINE vf vf_ceil(vf x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC); }
VF_INLINE vf vf_sqrt(vf x) { return _mm512_sqrt_ps(x); }
VF_INLINE vi vf_to_int(vf x) { return (vi)_mm512_cvtps_epi32(x); }
VF_INLINE vf vf_load_f16(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p)); }
VF_INLINE vf vf_load_bf16(const uint16_t *p) {
    return (vf)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16);
}
VF_INLINE void vf_store_f16(uint16_t *p, vf x) {
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
VF_INLINE void vf_store_bf16(uint16_t *p, vf x) {
    typedef uint32_t vu __attribute__((vector_size(64)));
    vu u = (vu)x, r = VF_BF16_BITS(u) >> 16, quiet = u >> 16 | 0x40;
    vu nan = (vu)(x != x);
    r = (r & ~nan) | (quiet & nan);
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16((__m512i)r));
}
VF_INLINE __m512 vf_pairs512(__m512 a, __m512 b) {
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
}
VF_INLINE void vf_sum4(float *out, vf a, vf b, vf c, vf d) {
    __m512 s = vf_pairs512(vf_pairs512(a, b), vf_pairs512(c, d));
    __m128 low = _mm_add_ps(_mm512_extractf32x4_ps(s, 0), _mm512_extractf32x4_ps(s, 1));
    _mm_storeu_ps(out, _mm_add_ps(low, _mm_add_ps(_mm512_extractf32x4_ps(s, 2), _mm512_extractf32x4_ps(s, 3))));
}
VF_INLINE float vf_sum(vf x) {
    float out[4];
    vf_sum4(out, x, x, x, x);
    return out[0];
}
VF_INLINE float vf_most(vf x) {
    __m256 s = _mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
    return vf_most128(_mm_max_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1)));
}
#endif
#endif

/* The first n < VF_N elements; the others 0. */
VF_INLINE vf vf_load_n(const float *p, int64_t n) {
    float t[VF_N] = {0};
    for (int64_t i = 0; i < n; i++) t[i] = p[i];
    return vf_load(t);
}
VF_INLINE void vf_store_n(float *p, vf x, int64_t n) {
    float t[VF_N];
    vf_store(t, x);
    for (int64_t i = 0; i < n; i++) p[i] = t[i];
}

/* Float elements of any of the three types. `dtype` is a constant where speed matters. */
VF_INLINE vf vf_load_as(const void *p, weir_dtype dtype) {
    if (dtype == WEIR_DTYPE_F32) return vf_load(p);
    return dtype == WEIR_DTYPE_F16 ? vf_load_f16(p) : vf_load_bf16(p);
}
VF_INLINE void vf_store_as(void *p, vf x, weir_dtype dtype) {
    if (dtype == WEIR_DTYPE_F32)
        vf_store(p, x);
    else if (dtype == WEIR_DTYPE_F16)
        vf_store_f16(p, x);
    else
        vf_store_bf16(p, x);
}
VF_INLINE float f32_load_as(const void *p, int64_t i, weir_dtype dtype) {
    if (dtype == WEIR_DTYPE_F32) return ((const float *)p)[i];
    uint16_t h = ((const uint16_t *)p)[i];
    return dtype == WEIR_DTYPE_F16 ? wr_f16_to_f32(h) : wr_bf16_to_f32(h);
}
VF_INLINE void f32_store_as(void *p, int64_t i, float x, weir_dtype dtype) {
    if (dtype == WEIR_DTYPE_F32)
        ((float *)p)[i] = x;
    else
        ((uint16_t *)p)[i] = dtype == WEIR_DTYPE_F16 ? wr_f32_to_f16(x) : wr_f32_to_bf16(x);
}
/* n elements to and from f32; vector body and scalar tail give the same bits. */
VF_INLINE void row_to_f32(float *out, const void *p, weir_dtype dtype, int64_t n) {
    int64_t i = 0;
    size_t bytes = dtype == WEIR_DTYPE_F32 ? 4 : 2;
    for (; i + VF_N <= n; i += VF_N) vf_store(out + i, vf_load_as((const char *)p + (size_t)i * bytes, dtype));
    for (; i < n; i++) out[i] = f32_load_as(p, i, dtype);
}
VF_INLINE void row_from_f32(void *p, const float *in, weir_dtype dtype, int64_t n) {
    int64_t i = 0;
    size_t bytes = dtype == WEIR_DTYPE_F32 ? 4 : 2;
    for (; i + VF_N <= n; i += VF_N) vf_store_as((char *)p + (size_t)i * bytes, vf_load(in + i), dtype);
    for (; i < n; i++) f32_store_as(p, i, in[i], dtype);
}
VF_INLINE int is_float_dtype(weir_dtype d) {
    return d == WEIR_DTYPE_F32 || d == WEIR_DTYPE_F16 || d == WEIR_DTYPE_BF16;
}

#endif
