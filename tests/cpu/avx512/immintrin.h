/* AVX-512 for machines without it: what src/cpu/ uses of it, computed by SIMD Everywhere or, where that lacks a
 * function, here. Stands before the compiler's own <immintrin.h> in the include path of the emulated files only; see
 * tests/cpu/test_avx512_emulated.sh. AVX2, FMA and F16C are the processor's. */
#ifndef EMULATED_IMMINTRIN_H
#define EMULATED_IMMINTRIN_H

#include_next <immintrin.h>

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>

/* What of our use SIMDe 0.7.4 lacks: two halves by the AVX2 instruction of the same name. */
#define EMULATED static inline __attribute__((always_inline, unused))

EMULATED __m256i emulated_half(__m512i a, const int high) {
    __m256i halves[2];
    __builtin_memcpy(halves, &a, sizeof a);
    return halves[high];
}
EMULATED __m256 emulated_half_ps(__m512 a, const int high) {
    __m256 halves[2];
    __builtin_memcpy(halves, &a, sizeof a);
    return halves[high];
}
EMULATED __m512i emulated_join(__m256i low, __m256i high) {
    __m256i halves[2] = {low, high};
    __m512i a;
    __builtin_memcpy(&a, halves, sizeof a);
    return a;
}
EMULATED __m512 emulated_join_ps(__m256 low, __m256 high) {
    __m256 halves[2] = {low, high};
    __m512 a;
    __builtin_memcpy(&a, halves, sizeof a);
    return a;
}
EMULATED __m512 emulated_cvtepi32_ps(__m512i a) {
    return emulated_join_ps(_mm256_cvtepi32_ps(emulated_half(a, 0)), _mm256_cvtepi32_ps(emulated_half(a, 1)));
}
EMULATED __m512i emulated_cvtps_epi32(__m512 a) {
    return emulated_join(_mm256_cvtps_epi32(emulated_half_ps(a, 0)), _mm256_cvtps_epi32(emulated_half_ps(a, 1)));
}
EMULATED __m512i emulated_cvtepu16_epi32(__m256i a) {
    return emulated_join(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(a)),
                         _mm256_cvtepu16_epi32(_mm256_extracti128_si256(a, 1)));
}
EMULATED __m512i emulated_cvtepu8_epi32(__m128i a) {
    return emulated_join(_mm256_cvtepu8_epi32(a), _mm256_cvtepu8_epi32(_mm_srli_si128(a, 8)));
}
EMULATED __m256i emulated_cvtepi32_epi16(__m512i a) { /* the low halves, nothing saturates */
    int32_t from[16];
    int16_t to[16];
    __m256i r;
    __builtin_memcpy(from, &a, sizeof a);
    for (int i = 0; i < 16; i++) to[i] = (int16_t)(from[i] & 0xffff);
    __builtin_memcpy(&r, to, sizeof r);
    return r;
}
EMULATED __m512i emulated_srai_epi32(__m512i a, unsigned n) {
    return emulated_join(_mm256_srai_epi32(emulated_half(a, 0), (int)n),
                         _mm256_srai_epi32(emulated_half(a, 1), (int)n));
}
EMULATED __m512 emulated_cvtph_ps(__m256i a) {
    return emulated_join_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(a)),
                            _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1)));
}
#undef _mm512_cvtepi32_ps
#undef _mm512_cvtps_epi32
#undef _mm512_cvtepu16_epi32
#undef _mm512_cvtepu8_epi32
#undef _mm512_cvtepi32_epi16
#undef _mm512_srai_epi32
#undef _mm512_cvtph_ps
#undef _mm512_cvtps_ph
#undef _mm512_extractf32x8_ps
#define _mm512_cvtepi32_ps(a)           emulated_cvtepi32_ps(a)
#define _mm512_cvtps_epi32(a)           emulated_cvtps_epi32(a)
#define _mm512_cvtepu16_epi32(a)        emulated_cvtepu16_epi32(a)
#define _mm512_cvtepu8_epi32(a)         emulated_cvtepu8_epi32(a)
#define _mm512_cvtepi32_epi16(a)        emulated_cvtepi32_epi16(a)
#define _mm512_srai_epi32(a, n)         emulated_srai_epi32(a, n)
#define _mm512_cvtph_ps(a)              emulated_cvtph_ps(a)
#define _mm512_extractf32x8_ps(a, high) emulated_half_ps(a, high)
/* SIMDe's macro shifts its argument without parentheses. */
#undef _mm512_roundscale_ps
#define _mm512_roundscale_ps(a, rounding) simde_mm512_roundscale_ps(a, (rounding))
/* The rounding is part of the instruction. */
#define _mm512_cvtps_ph(a, rounding)                                                                                   \
    _mm256_set_m128i(_mm256_cvtps_ph(emulated_half_ps(a, 1), rounding),                                                \
                     _mm256_cvtps_ph(emulated_half_ps(a, 0), rounding))

#endif
