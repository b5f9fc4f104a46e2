/* The linear family in plain C; see cpu/linear_kernels.h. Vectors are GCC's generic
 * ones, which any target has. fmaf() is exact everywhere, by hardware where there is an instruction for it. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/dtype.h"

enum { LANES = 4, TILE_ROWS = 4, FUSED_ROWS = 1, PREFETCH_BYTES = 1024 };
typedef int32_t vi __attribute__((vector_size(16)));
typedef uint32_t vu __attribute__((vector_size(16)));
typedef uint16_t vu16 __attribute__((vector_size(16)));
typedef float vf __attribute__((vector_size(16)));
#define V static inline __attribute__((always_inline))

V vi vi_load(const void *p) {
    vi a;
    memcpy(&a, p, sizeof a);
    return a;
}
V void vi_store(void *p, vi a) { memcpy(p, &a, sizeof a); }
V vi vi_set1(int32_t a) { return (vi){a, a, a, a}; }
V vi vi_broadcast(const void *p) {
    int32_t a;
    memcpy(&a, p, 4);
    return vi_set1(a);
}
V vi vi_and(vi a, vi b) { return a & b; }
V vi vi_or(vi a, vi b) { return a | b; }
V vi vi_sub(vi a, vi b) { return a - b; }
V vi vi_sub16(vi a, vi b) { return (vi)((vu16)a - (vu16)b); }
V vi vi_equal(vi a, vi b) { return a == b; }
V vi vi_srl(vi a, int n) { return (vi)((vu)a >> (uint32_t)n); }
V vi vi_sll(vi a, int n) { return (vi)((vu)a << (uint32_t)n); }
V vi vi_sra(vi a, int n) { return a >> n; }
V vi vi_srl16(vi a, int n) { return (vi)((vu16)a >> (uint16_t)n); }
V vi vi_from_u8(const void *p) {
    uint8_t b[4];
    memcpy(b, p, 4);
    return (vi){b[0], b[1], b[2], b[3]};
}
V vi vi_dot(vi acc, vi codes, vi x) {
    vi odd = (codes >> 16) * (x >> 16);
    return acc + vi_sra(vi_sll(codes, 16), 16) * vi_sra(vi_sll(x, 16), 16) + odd;
}
V vi vi_e2m1(vi a) {
    static const uint8_t table[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
    uint8_t b[16];
    memcpy(b, &a, 16);
    for (int i = 0; i < 16; i++) b[i] = table[b[i]];
    return vi_load(b);
}
V vf vf_load(const float *p) {
    vf a;
    memcpy(&a, p, sizeof a);
    return a;
}
V void vf_store(float *p, vf a) { memcpy(p, &a, sizeof a); }
V vf vf_set1(float a) { return (vf){a, a, a, a}; }
V vf vf_mul(vf a, vf b) { return a * b; }
V vf vf_fma(vf a, vf b, vf c) {
    return (vf){fmaf(a[0], b[0], c[0]), fmaf(a[1], b[1], c[1]), fmaf(a[2], b[2], c[2]), fmaf(a[3], b[3], c[3])};
}
V vf vf_from_i32(vi a) { return __builtin_convertvector(a, vf); }
V vf vf_from_bits(vi a) { return (vf)a; }
V vi vf_bits(vf a) { return (vi)a; }
V vf vf_from_f16(const void *p) {
    uint16_t h[4];
    memcpy(h, p, 8);
    return (vf){wr_f16_to_f32(h[0]), wr_f16_to_f32(h[1]), wr_f16_to_f32(h[2]), wr_f16_to_f32(h[3])};
}
V vf vf_from_bf16(const void *p) {
    uint16_t h[4];
    memcpy(h, p, 8);
    return (vf){wr_bf16_to_f32(h[0]), wr_bf16_to_f32(h[1]), wr_bf16_to_f32(h[2]), wr_bf16_to_f32(h[3])};
}

#define UNROLL
#define NO_UNROLL
#define ISA_TABLE wr_linear_portable
#include "cpu/linear_kernels.h"
