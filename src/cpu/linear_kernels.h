/* The kernels of the linear family, written once over a small vector layer that the
 * including file defines: LANES (32-bit lanes a vector), TILE_ROWS, FUSED_ROWS, PREFETCH_BYTES, types vi and vf, and
 * the v*_ functions. Included by linear_portable.c, linear_avx2.c and linear_avx512.c; ISA_TABLE names the table made.
 *
 * Bodies take format and row count as literals and are inlined into one function for each. */
#include <string.h>

#include "base/dtype.h"
#include "cpu/linear_isa.h"

#define INLINE static inline __attribute__((always_inline))
/* The portable file defines both as nothing: unrolled loops of emulated vectors only cost compile time. */
#ifndef UNROLL
#if defined(__clang__)
#define UNROLL    _Pragma("clang loop unroll(full)")
#define NO_UNROLL _Pragma("clang loop unroll(disable)")
#else
#define UNROLL    _Pragma("GCC unroll 16")
#define NO_UNROLL _Pragma("GCC unroll 1")
#endif
#endif

enum { PARTS = 16 / LANES, VECTOR_BYTES = 4 * LANES };

/* Words `word` of part h's rows. */
INLINE vi word_at(const uint8_t *plane, int word, int h) { return vi_load(plane + 64 * word + VECTOR_BYTES * h); }

/* Quad 2 * w + p: four codes in bytes, offset still in. p is a literal, w need not be. */
INLINE vi quad_codes(const wr_pack_bits bits, const uint8_t *block, const int h, const int w, const int p) {
    vi v, high;
    switch (bits) {
    case WR_BITS_8: return word_at(block, 2 * w + p, h);
    case WR_BITS_2:
    case WR_BITS_3:
        v = vi_and(vi_srl(vi_srl(word_at(block, w / 2, h), 4 * (w & 1)), 2 * p), vi_set1(0x03030303));
        if (bits == WR_BITS_2) return v;
        high = vi_sll(vi_srl(word_at(block + 128, 0, h), 2 * w), 2 - p);
        return vi_or(v, vi_and(high, vi_set1(0x04040404)));
    default: break;
    }
    v = word_at(block, w, h);
    v = vi_and(p ? vi_srl(v, 4) : v, vi_set1(0x0f0f0f0f));
    if (bits == WR_BITS_E2M1) return vi_e2m1(v);
    if (bits == WR_BITS_4) return v;
    if (bits == WR_BITS_5) {
        high = vi_sll(vi_srl(word_at(block + 256, 0, h), 2 * w), 4 - p);
        return vi_or(v, vi_and(high, vi_set1(0x10101010)));
    }
    high = vi_sll(vi_srl(word_at(block + 256, w / 2, h), 4 * (w & 1)), 4 - 2 * p);
    return vi_or(v, vi_and(high, vi_set1(0x30303030)));
}

/* Pairs 4 * w + p (a) and 4 * w + p + 2 (b) as 16-bit lanes. */
INLINE void pair_codes(const wr_pack_bits bits, const uint8_t *block, const int h, const int w, const int p, vi *a,
                       vi *b) {
    if (bits == WR_BITS_4) { /* one step less than through bytes */
        vi v = word_at(block, w, h);
        *a = vi_and(p ? vi_srl(v, 4) : v, vi_set1(0x000f000f));
        *b = p ? vi_srl16(v, 12) : vi_and(vi_srl(v, 8), vi_set1(0x000f000f));
        return;
    }
    vi quad = quad_codes(bits, block, h, w, p);
    *a = vi_and(quad, vi_set1(0x00ff00ff));
    *b = vi_srl16(quad, 8);
}

INLINE vf element_at(weir_dtype dtype, const uint8_t *array, int h) {
    if (dtype == WEIR_DTYPE_F16) return vf_from_f16(array + 2 * LANES * h);
    if (dtype == WEIR_DTYPE_BF16) return vf_from_bf16(array + 2 * LANES * h);
    return vf_load((const float *)(array + 4 * LANES * h));
}
INLINE vf half_at(const uint8_t *array, int h) { return vf_from_f16(array + 2 * LANES * h); }
INLINE vi field(vi v, int shift, int mask) { return vi_and(vi_srl(v, shift), vi_set1(mask)); }

INLINE vf e8m0(const uint8_t *bytes) {
    vi e = vi_from_u8(bytes);
    vi bits = vi_or(vi_sll(e, 23), vi_and(vi_equal(e, vi_set1(0)), vi_set1(0x00400000)));
    return vf_from_bits(vi_or(bits, vi_and(vi_equal(e, vi_set1(255)), vi_set1(0x00400000)))); /* 255: NaN */
}
/* E4M3 is f32 with a narrow exponent: shifted into place it is too small by 2^120, subnormals too. */
INLINE vf e4m3(const uint8_t *bytes) {
    vi b = vi_from_u8(bytes), magnitude = vi_and(b, vi_set1(0x7f));
    vf value = vf_mul(vf_from_bits(vi_sll(magnitude, 20)), vf_set1(0x1p120f));
    vi extra =
        vi_or(vi_sll(vi_and(b, vi_set1(0x80)), 24), vi_and(vi_equal(magnitude, vi_set1(0x7f)), vi_set1(0x7fc00000)));
    return vf_from_bits(vi_or(vf_bits(value), extra));
}

/* Scale (and bias, where the format has one) of block b of a superblock, columns of `half` for halved formats. */
INLINE void scales_at(const wr_pack_scales scales, const wr_pack_layout *l, const uint8_t *header, int b,
                      const int half, const int h, vf *scale, vf *bias) {
    int s = 2 * b + half;
    vi high, code;
    switch (scales) {
    case WR_SCALES_F16: *scale = half_at(header, h); break;
    case WR_SCALES_F16_MIN:
        *scale = half_at(header, h);
        *bias = half_at(header + 32, h);
        break;
    case WR_SCALES_AFFINE:
        *scale = element_at(l->scale_dtype, header, h);
        *bias = element_at(l->scale_dtype, header + WR_PACK_ROWS * (l->scale_dtype == WEIR_DTYPE_F32 ? 4 : 2), h);
        break;
    case WR_SCALES_K:
        high = word_at(header + 192, 0, h);
        code = vi_or(field(word_at(header + 64, 0, h), 4 * b, 15), vi_sll(field(high, 2 * b, 3), 4));
        *scale = vf_mul(half_at(header, h), vf_from_i32(code));
        code = vi_or(field(word_at(header + 128, 0, h), 4 * b, 15), vi_sll(field(high, 16 + 2 * b, 3), 4));
        *bias = vf_mul(vf_mul(half_at(header + 32, h), vf_set1(-1)), vf_from_i32(code));
        break;
    case WR_SCALES_Q6:
        code = vi_sra(vi_sll(word_at(header + 32, s / 4, h), 24 - 8 * (s % 4)), 24);
        *scale = vf_mul(half_at(header, h), vf_from_i32(code));
        break;
    case WR_SCALES_Q3:
        code = vi_or(field(word_at(header + 32, s / 8, h), 4 * (s % 8), 15),
                     vi_sll(field(word_at(header + 160, 0, h), 2 * s, 3), 4));
        *scale = vf_mul(half_at(header, h), vf_from_i32(vi_sub(code, vi_set1(32))));
        break;
    case WR_SCALES_Q2:
        *scale = vf_mul(half_at(header, h), vf_from_i32(field(word_at(header + 64, s / 8, h), 4 * (s % 8), 15)));
        *bias = vf_mul(vf_mul(half_at(header + 32, h), vf_set1(-1)),
                       vf_from_i32(field(word_at(header + 192, s / 8, h), 4 * (s % 8), 15)));
        break;
    case WR_SCALES_E8M0: *scale = vf_mul(e8m0(header + LANES * h), vf_set1(0.5f)); break; /* codes are doubled */
    case WR_SCALES_E4M3:
        *scale = vf_mul(e4m3(header + WR_PACK_ROWS * half + LANES * h), vf_set1(0.5f * l->global_scale));
        break;
    }
}

/* Geometry that only affine leaves to run time. */
INLINE int header_bytes(const wr_pack_scales scales, const wr_pack_layout *l) {
    return scales == WR_SCALES_AFFINE ? l->header_bytes : wr_pack_header_bytes(scales, 2);
}
INLINE int super_blocks(const wr_pack_scales scales, const wr_pack_layout *l) {
    switch (scales) {
    case WR_SCALES_AFFINE: return l->blocks;
    case WR_SCALES_K:
    case WR_SCALES_Q6:
    case WR_SCALES_Q3:
    case WR_SCALES_Q2: return 8;
    default: return 1;
    }
}

/* ---- one to four rows: codes go from the packed words straight into the dots ---- */

/* Eight columns (word `word` of a nibble plane) of mr rows. */
INLINE void fused_word(const wr_pack_bits bits, const int mr, const uint8_t *block, const int word,
                       const int16_t *const *q, vi dot[][PARTS]) {
    UNROLL
    for (int p = 0; p < 2; p++) {
        vi pair_a[PARTS], pair_b[PARTS];
        UNROLL
        for (int h = 0; h < PARTS; h++) pair_codes(bits, block, h, word, p, &pair_a[h], &pair_b[h]);
        UNROLL
        for (int m = 0; m < mr; m++) {
            vi xm = vi_broadcast(q[m] + 8 * word + 2 * p);
            for (int h = 0; h < PARTS; h++) dot[m][h] = vi_dot(dot[m][h], pair_a[h], xm);
        }
        UNROLL
        for (int m = 0; m < mr; m++) {
            vi xm = vi_broadcast(q[m] + 8 * word + 2 * p + 4);
            for (int h = 0; h < PARTS; h++) dot[m][h] = vi_dot(dot[m][h], pair_b[h], xm);
        }
    }
}

INLINE void fused_body(const wr_pack_bits bits, const wr_pack_scales scales, const int offset, const int mr,
                       const wr_pack_layout *l, const uint8_t *w, const wr_xgroup *const *x, float *y) {
    const bool halved = wr_pack_halved(scales), biased = wr_pack_biased(scales);
    const int block_bytes = wr_pack_block_bytes(bits), n_halves = halved ? 2 : 1, words = 4 / n_halves;
    const int n_blocks = super_blocks(scales, l);
    /* Unrolled the common formats gain a tenth (Q4_K a quarter); all of them would double the time to compile. */
    const bool unrolled = scales == WR_SCALES_AFFINE ? bits == WR_BITS_4 || bits == WR_BITS_8 : bits >= WR_BITS_4;
    vf acc[4][PARTS];
    for (int m = 0; m < mr; m++)
        for (int h = 0; h < PARTS; h++) acc[m][h] = vf_set1(0);
    int64_t g = 0;
    for (int64_t s = 0; s < l->n_super; s++) {
        const uint8_t *header = w;
        w += header_bytes(scales, l);
        for (int b = 0; b < n_blocks; b++, g++, w += block_bytes) {
            for (int at = 0; at < block_bytes; at += 64) __builtin_prefetch(w + PREFETCH_BYTES + at);
            UNROLL
            for (int half = 0; half < n_halves; half++) {
                vi dot[4][PARTS];
                UNROLL
                for (int m = 0; m < mr; m++) {
                    int32_t isum = halved ? x[m][g].isum_half[half] : x[m][g].isum;
                    vi first = vi_set1(offset ? -offset * isum : 0);
                    for (int h = 0; h < PARTS; h++) dot[m][h] = first;
                }
                const int16_t *q[4];
                for (int m = 0; m < mr; m++) q[m] = x[m][g].q;
                if (unrolled) {
                    UNROLL
                    for (int word = half * words; word < (half + 1) * words; word++)
                        fused_word(bits, mr, w, word, q, dot);
                } else {
                    NO_UNROLL
                    for (int word = half * words; word < (half + 1) * words; word++)
                        fused_word(bits, mr, w, word, q, dot);
                }
                UNROLL
                for (int h = 0; h < PARTS; h++) {
                    vf scale, bias = vf_set1(0);
                    scales_at(scales, l, header, b, half, h, &scale, &bias);
                    for (int m = 0; m < mr; m++) {
                        vf d = vf_mul(vf_from_i32(dot[m][h]), vf_set1(x[m][g].scale));
                        acc[m][h] = vf_fma(d, scale, acc[m][h]);
                        if (biased)
                            acc[m][h] = vf_fma(bias, vf_set1(halved ? x[m][g].sum_half[half] : x[m][g].sum), acc[m][h]);
                    }
                }
            }
        }
    }
    for (int m = 0; m < mr; m++)
        for (int h = 0; h < PARTS; h++) vf_store(y + 16 * m + LANES * h, acc[m][h]);
}

/* ---- many rows: codes are expanded once and used by every tile of rows ---- */

INLINE void expand_body(const wr_pack_bits bits, const wr_pack_scales scales, const int offset, const wr_pack_layout *l,
                        const uint8_t *w, int64_t b0, int n, wr_linear_tile *restrict tile) {
    const int n_halves = wr_pack_halved(scales) ? 2 : 1, n_blocks = super_blocks(scales, l);
    for (int i = 0; i < n; i++) {
        int64_t s = (b0 + i) / n_blocks;
        int b = (int)((b0 + i) % n_blocks);
        const uint8_t *header = w + (size_t)s * (size_t)l->super_bytes;
        const uint8_t *block = header + header_bytes(scales, l) + (size_t)b * (size_t)wr_pack_block_bytes(bits);
        for (int h = 0; h < PARTS; h++) {
            NO_UNROLL
            for (int word = 0; word < 4; word++) {
                UNROLL
                for (int p = 0; p < 2; p++) {
                    vi pair_a, pair_b;
                    pair_codes(bits, block, h, word, p, &pair_a, &pair_b);
                    if (offset) pair_a = vi_sub16(pair_a, vi_set1(offset * 0x00010001));
                    if (offset) pair_b = vi_sub16(pair_b, vi_set1(offset * 0x00010001));
                    vi_store(&tile->codes[i][4 * word + p][LANES * h], pair_a);
                    vi_store(&tile->codes[i][4 * word + p + 2][LANES * h], pair_b);
                }
            }
            UNROLL
            for (int half = 0; half < n_halves; half++) {
                vf scale, bias = vf_set1(0);
                scales_at(scales, l, header, b, half, h, &scale, &bias);
                vf_store(&tile->scale[i][half][LANES * h], scale);
                vf_store(&tile->bias[i][half][LANES * h], bias);
            }
        }
    }
}

INLINE void tile_body(const bool halved, const bool biased, int n, const wr_linear_tile *restrict tile,
                      const wr_xgroup *const *xs, float *restrict acc) {
    const int n_halves = halved ? 2 : 1, pairs = 16 / n_halves;
    const wr_xgroup *x[TILE_ROWS];
    for (int m = 0; m < TILE_ROWS; m++) x[m] = xs[m];
    for (int g = 0; g < n; g++) {
        UNROLL
        for (int half = 0; half < n_halves; half++) {
            vi dot[TILE_ROWS][PARTS];
            for (int m = 0; m < TILE_ROWS; m++)
                for (int h = 0; h < PARTS; h++) dot[m][h] = vi_set1(0);
            UNROLL
            for (int i = 0; i < pairs; i++) {
                const int j = half * pairs + i;
                vi code[PARTS];
                for (int h = 0; h < PARTS; h++) code[h] = vi_load(&tile->codes[g][j][LANES * h]);
                UNROLL
                for (int m = 0; m < TILE_ROWS; m++) {
                    vi xj = vi_broadcast(&x[m][g].q[2 * j]);
                    for (int h = 0; h < PARTS; h++) dot[m][h] = vi_dot(dot[m][h], code[h], xj);
                }
            }
            UNROLL
            for (int h = 0; h < PARTS; h++) {
                vf scale = vf_load(&tile->scale[g][half][LANES * h]);
                vf bias = vf_load(&tile->bias[g][half][LANES * h]);
                UNROLL
                for (int m = 0; m < TILE_ROWS; m++) {
                    float *a = acc + 16 * m + LANES * h;
                    vf d = vf_mul(vf_from_i32(dot[m][h]), vf_set1(x[m][g].scale));
                    vf sum = vf_fma(d, scale, vf_load(a));
                    if (biased) sum = vf_fma(bias, vf_set1(halved ? x[m][g].sum_half[half] : x[m][g].sum), sum);
                    vf_store(a, sum);
                }
            }
        }
    }
}

/* ---- dense and mxfp8: f32 all the way ---- */

/* Column k of a row block, with the scale applied (exact: a power of two). */
INLINE vf dense_at(const wr_pack_format format, const uint8_t *column, vf scale, int h) {
    switch (format) {
    case WR_PACK_BF16: return vf_from_bf16(column + 2 * LANES * h);
    case WR_PACK_F16: return vf_from_f16(column + 2 * LANES * h);
    case WR_PACK_MXFP8: return vf_mul(e4m3(column + LANES * h), scale);
    default: return vf_load((const float *)(column + 4 * LANES * h));
    }
}
INLINE int column_bytes(const wr_pack_format format) {
    return format == WR_PACK_F32 ? 64 : format == WR_PACK_MXFP8 ? 16 : 32;
}
/* Columns that share a header; without headers everything is one run. */
INLINE int64_t run_cols(const wr_pack_format format, const wr_pack_layout *l) {
    return format == WR_PACK_MXFP8 ? 32 : l->cols;
}

INLINE void dense_fused_body(const wr_pack_format format, const int mr, const wr_pack_layout *l, const uint8_t *w,
                             const float *const *xs, float *y) {
    vf acc[4][PARTS];
    const float *x[4];
    for (int m = 0; m < mr; m++) {
        x[m] = xs[m];
        for (int h = 0; h < PARTS; h++) acc[m][h] = vf_set1(0);
    }
    const int64_t run = run_cols(format, l);
    for (int64_t k = 0; k < l->cols;) {
        vf scale[PARTS];
        for (int h = 0; h < PARTS; h++) scale[h] = format == WR_PACK_MXFP8 ? e8m0(w + LANES * h) : vf_set1(1);
        if (format == WR_PACK_MXFP8) w += 16;
        for (int64_t end = k + run; k < end; k++, w += column_bytes(format)) {
            __builtin_prefetch(w + PREFETCH_BYTES);
            for (int h = 0; h < PARTS; h++) {
                vf value = dense_at(format, w, scale[h], h);
                for (int m = 0; m < mr; m++) acc[m][h] = vf_fma(value, vf_set1(x[m][k]), acc[m][h]);
            }
        }
    }
    for (int m = 0; m < mr; m++)
        for (int h = 0; h < PARTS; h++) vf_store(y + 16 * m + LANES * h, acc[m][h]);
}

INLINE void dense_expand_body(const wr_pack_format format, const wr_pack_layout *l, const uint8_t *w, int64_t k0, int n,
                              float *restrict tile) {
    for (int i = 0; i < n; i++, tile += 16) {
        int64_t k = k0 + i;
        const uint8_t *header = w, *column = w + k * column_bytes(format);
        if (format == WR_PACK_MXFP8) {
            header = w + k / 32 * l->super_bytes;
            column = header + 16 + k % 32 * 16;
        }
        for (int h = 0; h < PARTS; h++)
            vf_store(tile + LANES * h,
                     dense_at(format, column, format == WR_PACK_MXFP8 ? e8m0(header + LANES * h) : vf_set1(1), h));
    }
}

static void dense_tile(int n, const float *tile, const float *const *xs, float *acc) {
    vf sum[TILE_ROWS][PARTS];
    const float *x[TILE_ROWS];
    for (int m = 0; m < TILE_ROWS; m++) {
        x[m] = xs[m];
        for (int h = 0; h < PARTS; h++) sum[m][h] = vf_load(acc + 16 * m + LANES * h);
    }
    for (int k = 0; k < n; k++, tile += 16) {
        vf value[PARTS];
        for (int h = 0; h < PARTS; h++) value[h] = vf_load(tile + LANES * h);
        UNROLL
        for (int m = 0; m < TILE_ROWS; m++) {
            vf xk = vf_set1(x[m][k]);
            for (int h = 0; h < PARTS; h++) sum[m][h] = vf_fma(value[h], xk, sum[m][h]);
        }
    }
    for (int m = 0; m < TILE_ROWS; m++)
        for (int h = 0; h < PARTS; h++) vf_store(acc + 16 * m + LANES * h, sum[m][h]);
}

/* ---- activations ---- */

/* Plain loops that compilers turn into vectors; every operation is exact or IEEE, so all tables agree. */
static void quantize(const float *restrict x, wr_xgroup *restrict out) {
    uint32_t largest = 0;
    for (int i = 0; i < 32; i++) {
        uint32_t magnitude = wr_f32_bits(x[i]) & 0x7fffffffu;
        largest = magnitude > largest ? magnitude : largest;
    }
    float scale = wr_f32_from_bits(largest) / 32767.0f, inverse;
    if (largest >= 0x7f800000u) { /* infinity or NaN: the row's outputs must show it */
        scale = wr_f32_from_bits(0x7fc00000u);
        inverse = 0;
    } else {
        if (scale < 0x1p-126f) scale = 0x1p-126f; /* keeps 1 / scale finite; zero groups come here too */
        inverse = 1.0f / scale;
    }
    int32_t isum_half[2] = {0, 0};
    for (int half = 0; half < 2; half++)
        for (int i = 16 * half; i < 16 * half + 16; i++) {
            /* Adding 1.5 * 2^23 rounds to an integer, ties to even, and leaves it in the low bits. */
            float shifted = (inverse != 0 ? x[i] : 0.0f) * inverse + 12582912.0f;
            int32_t q = (int32_t)(wr_f32_bits(shifted) - 0x4b400000u);
            out->q[i] = (int16_t)q;
            isum_half[half] += q;
        }
    int32_t isum = isum_half[0] + isum_half[1];
    out->scale = scale;
    out->sum = scale * (float)isum;
    out->isum = isum;
    out->unused = 0;
    for (int half = 0; half < 2; half++) {
        out->isum_half[half] = isum_half[half];
        out->sum_half[half] = scale * (float)isum_half[half];
    }
}

/* ---- one function for each format, and the table ---- */

#define FUSED(name, bits, scales, offset)                                                                              \
    static void fused_##name(const wr_pack_layout *l, const uint8_t *w, const wr_xgroup *const *x, int mr, float *y) { \
        for (; mr >= 4 && FUSED_ROWS >= 4; mr -= 4, x += 4, y += 64) fused_body(bits, scales, offset, 4, l, w, x, y);  \
        for (; mr >= 2 && FUSED_ROWS >= 2; mr -= 2, x += 2, y += 32) fused_body(bits, scales, offset, 2, l, w, x, y);  \
        for (; mr >= 1; mr--, x++, y += 16) fused_body(bits, scales, offset, 1, l, w, x, y);                           \
    }                                                                                                                  \
    static void expand_##name(const wr_pack_layout *l, const uint8_t *w, int64_t b0, int n, wr_linear_tile *tile) {    \
        expand_body(bits, scales, offset, l, w, b0, n, tile);                                                          \
    }
WR_PACK_FORMATS(FUSED)

#define TILE(halved, biased)                                                                                           \
    static void tile_##halved##biased(int n, const wr_linear_tile *tile, const wr_xgroup *const *x, float *acc) {      \
        tile_body(halved, biased, n, tile, x, acc);                                                                    \
    }
TILE(0, 0)
TILE(0, 1)
TILE(1, 0)
TILE(1, 1)

#define DENSE(format)                                                                                                  \
    static void dense_fused_##format(const wr_pack_layout *l, const uint8_t *w, const float *const *x, int mr,         \
                                     float *y) {                                                                       \
        for (; mr >= 4 && FUSED_ROWS >= 4; mr -= 4, x += 4, y += 64)                                                   \
            dense_fused_body(WR_PACK_##format, 4, l, w, x, y);                                                         \
        for (; mr >= 1; mr--, x++, y += 16) dense_fused_body(WR_PACK_##format, 1, l, w, x, y);                         \
    }                                                                                                                  \
    static void dense_expand_##format(const wr_pack_layout *l, const uint8_t *w, int64_t k0, int n, float *tile) {     \
        dense_expand_body(WR_PACK_##format, l, w, k0, n, tile);                                                        \
    }
DENSE(BF16)
DENSE(F16)
DENSE(F32)
DENSE(MXFP8)

const wr_linear_isa ISA_TABLE = {
    .tile_rows = TILE_ROWS,
    .quantize = quantize,
#define ENTRY(name, bits, scales, offset)                                                                              \
    .fused[WR_PACK_##name] = fused_##name, .expand[WR_PACK_##name] = expand_##name,
    WR_PACK_FORMATS(ENTRY)
#undef ENTRY
        .tile = {{tile_00, tile_01}, {tile_10, tile_11}},
    .dense_fused = {dense_fused_BF16, dense_fused_F16, dense_fused_F32, dense_fused_MXFP8},
    .dense_expand = {dense_expand_BF16, dense_expand_F16, dense_expand_F32, dense_expand_MXFP8},
    .dense_tile = dense_tile,
};
