/* The linear family for AVX2, FMA and F16C; see cpu/linear_kernels.h. */
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

enum { LANES = 8, TILE_ROWS = 4, FUSED_ROWS = 4, PREFETCH_BYTES = 1024 };
typedef __m256i vi;
typedef __m256 vf;
#define V static inline __attribute__((always_inline))

V vi vi_load(const void *p) { return _mm256_loadu_si256(p); }
V void vi_store(void *p, vi a) { _mm256_storeu_si256(p, a); }
V vi vi_set1(int32_t a) { return _mm256_set1_epi32(a); }
V vi vi_broadcast(const void *p) { return _mm256_castps_si256(_mm256_broadcast_ss(p)); }
V vi vi_and(vi a, vi b) { return _mm256_and_si256(a, b); }
V vi vi_or(vi a, vi b) { return _mm256_or_si256(a, b); }
V vi vi_sub(vi a, vi b) { return _mm256_sub_epi32(a, b); }
V vi vi_sub16(vi a, vi b) { return _mm256_sub_epi16(a, b); }
V vi vi_equal(vi a, vi b) { return _mm256_cmpeq_epi32(a, b); }
V vi vi_srl(vi a, int n) { return _mm256_srli_epi32(a, n); }
V vi vi_sll(vi a, int n) { return _mm256_slli_epi32(a, n); }
V vi vi_sra(vi a, int n) { return _mm256_srai_epi32(a, n); }
V vi vi_srl16(vi a, int n) { return _mm256_srli_epi16(a, n); }
V vi vi_from_u8(const void *p) { return _mm256_cvtepu8_epi32(_mm_loadl_epi64(p)); }
/* Exact: 16-bit products and their sums fit 32 bits for blocks of 32. */
V vi vi_dot(vi acc, vi codes, vi x) {
    acc = _mm256_add_epi32(acc, _mm256_madd_epi16(codes, x));
    /* Opaque to the compiler: it would add all products as a tree at the end, and spill them until then. */
    __asm__("" : "+x"(acc));
    return acc;
}
/* E2M1 nibbles (one a byte) to twice their value plus 12. */
V vi vi_e2m1(vi a) {
    const vi table = _mm256_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0, 12, 13, 14, 15, 16, 18,
                                      20, 24, 12, 11, 10, 9, 8, 6, 4, 0);
    return _mm256_shuffle_epi8(table, a);
}
V vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
V void vf_store(float *p, vf a) { _mm256_storeu_ps(p, a); }
V vf vf_set1(float a) { return _mm256_set1_ps(a); }
V vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
V vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
V vf vf_from_i32(vi a) { return _mm256_cvtepi32_ps(a); }
V vf vf_from_bits(vi a) { return _mm256_castsi256_ps(a); }
V vi vf_bits(vf a) { return _mm256_castps_si256(a); }
V vf vf_from_f16(const void *p) { return _mm256_cvtph_ps(_mm_loadu_si128(p)); }
V vf vf_from_bf16(const void *p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)), 16));
}

#define ISA_TABLE wr_linear_avx2
#include "cpu/linear_kernels.h"
