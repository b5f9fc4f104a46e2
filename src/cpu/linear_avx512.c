/* The linear family for AVX-512 with VNNI; see cpu/linear_kernels.h. */
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

enum { LANES = 16, TILE_ROWS = 8, FUSED_ROWS = 4, PREFETCH_BYTES = 1024 };
typedef __m512i vi;
typedef __m512 vf;
#define V static inline __attribute__((always_inline))

V vi vi_load(const void *p) { return _mm512_loadu_si512(p); }
V void vi_store(void *p, vi a) { _mm512_storeu_si512(p, a); }
V vi vi_set1(int32_t a) { return _mm512_set1_epi32(a); }
V vi vi_broadcast(const void *p) {
    int32_t a;
    __builtin_memcpy(&a, p, 4);
    return _mm512_set1_epi32(a);
}
V vi vi_and(vi a, vi b) { return _mm512_and_si512(a, b); }
V vi vi_or(vi a, vi b) { return _mm512_or_si512(a, b); }
V vi vi_sub(vi a, vi b) { return _mm512_sub_epi32(a, b); }
V vi vi_sub16(vi a, vi b) { return _mm512_sub_epi16(a, b); }
V vi vi_equal(vi a, vi b) { return _mm512_movm_epi32(_mm512_cmpeq_epi32_mask(a, b)); }
V vi vi_srl(vi a, int n) { return _mm512_srli_epi32(a, (unsigned)n); }
V vi vi_sll(vi a, int n) { return _mm512_slli_epi32(a, (unsigned)n); }
V vi vi_sra(vi a, int n) { return _mm512_srai_epi32(a, (unsigned)n); }
V vi vi_srl16(vi a, int n) { return _mm512_srli_epi16(a, (unsigned)n); }
V vi vi_from_u8(const void *p) { return _mm512_cvtepu8_epi32(_mm_loadu_si128(p)); }
V vi vi_dot(vi acc, vi codes, vi x) { return _mm512_dpwssd_epi32(acc, codes, x); }
/* E2M1 nibbles (one a byte) to twice their value plus 12. */
V vi vi_e2m1(vi a) {
    const vi table = _mm512_broadcast_i32x4(_mm_setr_epi8(12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0));
    return _mm512_shuffle_epi8(table, a);
}
V vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
V void vf_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
V vf vf_set1(float a) { return _mm512_set1_ps(a); }
V vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
V vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
V vf vf_from_i32(vi a) { return _mm512_cvtepi32_ps(a); }
V vf vf_from_bits(vi a) { return _mm512_castsi512_ps(a); }
V vi vf_bits(vf a) { return _mm512_castps_si512(a); }
V vf vf_from_f16(const void *p) { return _mm512_cvtph_ps(_mm256_loadu_si256(p)); }
V vf vf_from_bf16(const void *p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)), 16));
}

#define ISA_TABLE wr_linear_avx512
#include "cpu/linear_kernels.h"
