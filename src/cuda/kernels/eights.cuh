/* Eight floats of any dtype at a time, and their rotation (ROPE). */
#ifndef WR_CUDA_EIGHTS_CUH
#define WR_CUDA_EIGHTS_CUH

#include "cuda/kernels/device.cuh"
#include "cuda/kernels/dtypes.cuh"

/* Can elements at .. at+7 be moved as 16-byte pieces (32 bytes of f32 as two)? */
WR_DEVICE bool wr_eight_whole(const void *p, int dtype, i64 at) {
    return ((u64)p + (u64)at * (dtype == WEIR_DTYPE_F32 ? 4 : 2)) % 16 == 0;
}
WR_DEVICE void wr_unpack_pair(float *v, u32 w, int dtype) {
    v[0] = dtype == WEIR_DTYPE_BF16 ? wr_bf16_lo(w) : wr_f16_to_f32((u16)w);
    v[1] = dtype == WEIR_DTYPE_BF16 ? wr_bf16_hi(w) : wr_f16_to_f32((u16)(w >> 16));
}
WR_DEVICE void wr_eight_load(float *v, const void *p, int dtype, i64 at) {
    if (dtype == WEIR_DTYPE_F32) {
        uint4 a = ((const uint4 *)((const float *)p + at))[0], b = ((const uint4 *)((const float *)p + at))[1];
        v[0] = wr_bits_f32(a.x), v[1] = wr_bits_f32(a.y), v[2] = wr_bits_f32(a.z), v[3] = wr_bits_f32(a.w);
        v[4] = wr_bits_f32(b.x), v[5] = wr_bits_f32(b.y), v[6] = wr_bits_f32(b.z), v[7] = wr_bits_f32(b.w);
    } else {
        uint4 a = *(const uint4 *)((const u16 *)p + at);
        wr_unpack_pair(v, a.x, dtype), wr_unpack_pair(v + 2, a.y, dtype);
        wr_unpack_pair(v + 4, a.z, dtype), wr_unpack_pair(v + 6, a.w, dtype);
    }
}
WR_DEVICE u32 wr_pack_pair(float x, float y, int dtype) {
    return dtype == WEIR_DTYPE_BF16 ? wr_pack_bf16(x, y) : wr_pack_f16(x, y);
}
WR_DEVICE void wr_eight_store(void *p, int dtype, i64 at, const float *v) {
    uint4 a, b;
    if (dtype == WEIR_DTYPE_F32) {
        a.x = wr_f32_bits(v[0]), a.y = wr_f32_bits(v[1]), a.z = wr_f32_bits(v[2]), a.w = wr_f32_bits(v[3]);
        b.x = wr_f32_bits(v[4]), b.y = wr_f32_bits(v[5]), b.z = wr_f32_bits(v[6]), b.w = wr_f32_bits(v[7]);
        ((uint4 *)((float *)p + at))[0] = a, ((uint4 *)((float *)p + at))[1] = b;
    } else {
        a.x = wr_pack_pair(v[0], v[1], dtype), a.y = wr_pack_pair(v[2], v[3], dtype);
        a.z = wr_pack_pair(v[4], v[5], dtype), a.w = wr_pack_pair(v[6], v[7], dtype);
        *(uint4 *)((u16 *)p + at) = a;
    }
}
/* The same for n of the eight, element by element; the others read as 0. */
WR_DEVICE void wr_some_load(float *v, const void *p, int dtype, i64 at, int n) {
    for (int e = 0; e < 8; e++) v[e] = e < n ? wr_load_float(p, dtype, at + e) : 0;
}
WR_DEVICE void wr_some_store(void *p, int dtype, i64 at, const float *v, int n) {
    for (int e = 0; e < 8; e++)
        if (e < n) wr_store_float(p, dtype, at + e, v[e]);
}

WR_DEVICE void wr_rotate(float *a, float *b, float c, float s) {
    float x = *a, y = *b;
    *a = fmaf(x, c, -(y * s));
    *b = fmaf(y, c, x * s);
}

/* Where a token's row of the table of cosines and sines lies ([T, 2, half], contiguous), and how it is used. half 0:
 * nothing is rotated. */
typedef struct wr_rope_use {
    const float *table;
    int half, interleaved;
} wr_rope_use;

WR_DEVICE float wr_rounded(float x, int dtype) {
    return dtype == WEIR_DTYPE_F32    ? x
           : dtype == WEIR_DTYPE_BF16 ? wr_bf16_to_f32(wr_f32_to_bf16(x))
                                      : wr_f16_to_f32(wr_f32_to_f16(x));
}

/* Element d of a head that begins at element `at` of x, rotated for token t and rounded to x's dtype, as ROPE's
 * kernels do. */
WR_DEVICE float wr_one_rotated(const void *x, int dtype, i64 at, i64 stride, i64 d, i64 t, const wr_rope_use &rope) {
    float own = wr_load_float(x, dtype, at + d * stride);
    if (d >= 2 * rope.half) return own;
    const bool second = rope.interleaved ? d % 2 : d >= rope.half;
    const i64 i = rope.interleaved ? d / 2 : d % rope.half, step = rope.interleaved ? 1 : rope.half;
    float other = wr_load_float(x, dtype, at + (second ? d - step : d + step) * stride);
    float a = second ? other : own, b = second ? own : other;
    wr_rotate(&a, &b, rope.table[2 * t * rope.half + i], rope.table[(2 * t + 1) * rope.half + i]);
    return wr_rounded(second ? b : a, dtype);
}

/* Elements d .. d + 7 of a head (d and 2 half multiples of 8; half too unless interleaved) that begins at element `at`
 * of x, the same way. */
WR_DEVICE void wr_eight_rotated(float *v, const void *x, int dtype, i64 at, int d, i64 t, const wr_rope_use &rope) {
    wr_eight_whole(x, dtype, at + d) ? wr_eight_load(v, x, dtype, at + d) : wr_some_load(v, x, dtype, at + d, 8);
    if (d >= 2 * rope.half) return;
    const float *cosines = rope.table + 2 * t * rope.half, *sines = cosines + rope.half;
    if (rope.interleaved) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            wr_rotate(&v[2 * e], &v[2 * e + 1], cosines[d / 2 + e], sines[d / 2 + e]);
            v[2 * e] = wr_rounded(v[2 * e], dtype), v[2 * e + 1] = wr_rounded(v[2 * e + 1], dtype);
        }
        return;
    }
    const bool second = d >= rope.half;
    const i64 pair = at + (second ? d - rope.half : d + rope.half);
    const int i = second ? d - rope.half : d;
    float other[8], c[8], s[8];
    wr_eight_whole(x, dtype, pair) ? wr_eight_load(other, x, dtype, pair) : wr_some_load(other, x, dtype, pair, 8);
    if ((u64)(cosines + i) % 16 == 0 && (u64)(sines + i) % 16 == 0) {
        wr_eight_load(c, cosines, WEIR_DTYPE_F32, i), wr_eight_load(s, sines, WEIR_DTYPE_F32, i);
    } else {
        wr_some_load(c, cosines, WEIR_DTYPE_F32, i, 8), wr_some_load(s, sines, WEIR_DTYPE_F32, i, 8);
    }
#pragma unroll
    for (int e = 0; e < 8; e++) {
        float a = second ? other[e] : v[e], b = second ? v[e] : other[e];
        wr_rotate(&a, &b, c[e], s[e]);
        v[e] = wr_rounded(second ? b : a, dtype);
    }
}

#endif
