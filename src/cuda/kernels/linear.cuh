/* From packed tiles (linear.h) to bf16 fragments: what every tier of the linear family shares, so that all see the same
 * weights. Kinds are template parameters; everything about a kind is known at compile time.
 *
 * A tier loads a lane's words of a tile (wr_tile_load from global memory, wr_tile_load_shared from a copy in shared
 * memory) and asks for the fragments of one k16 step after the other (wr_tile_step). */
#ifndef WR_CUDA_LINEAR_CUH
#define WR_CUDA_LINEAR_CUH

#include "cuda/kernels/activation.cuh"
#include "cuda/kernels/device.cuh"
#include "cuda/kernels/linear.h"

/* A row of WR_LINEAR_KINDS as constants. */
template <int KIND> struct wr_kind;
#define WR_KIND_STRUCT(name, bits_, code_, scales_, offset_, shift_)                                                   \
    template <> struct wr_kind<WR_KIND_##name> {                                                                       \
        static const int bits = bits_, code = code_, scales = scales_, offset = offset_;                               \
    };
WR_LINEAR_KINDS(WR_KIND_STRUCT)
#undef WR_KIND_STRUCT

/* Words of scales of a lane, words of a lane in all, bytes of a tile. */
template <int KIND> struct wr_tile {
    static const int bits = wr_kind<KIND>::bits, code = wr_kind<KIND>::code, sc = wr_kind<KIND>::scales;
    static const int scale_words = wr_scale_words(sc);
    static const int words = bits + scale_words, bytes = wr_tile_bytes(bits, sc);
    static const bool two_parts = code == WR_CODE_F16; /* each step gives a high and a low fragment */
};
/* ---- a lane's words of a tile: first its codes, then the scales of its rows ---- */

/* N words at p, which is N * 4 bytes aligned (at most 16). */
template <int N, bool GLOBAL> WR_DEVICE void wr_load_words(u32 *w, const u8 *p) {
    if (N >= 4) {
        uint4 v = GLOBAL ? wr_load16_once(p) : *(const uint4 *)p;
        w[0] = v.x, w[1 % N] = v.y, w[2 % N] = v.z, w[3 % N] = v.w;
    } else if (N == 2) {
        uint2 v = GLOBAL ? wr_load8_once(p) : *(const uint2 *)p;
        w[0] = v.x, w[1 % N] = v.y;
    } else {
        w[0] = GLOBAL ? wr_load4_once(p) : *(const u32 *)p;
    }
}
template <int KIND, bool GLOBAL> WR_DEVICE void wr_tile_load_any(u32 *w, const u8 *tile, int lane) {
    const int BITS = wr_tile<KIND>::bits, SW = wr_tile<KIND>::scale_words;
#pragma unroll
    for (int i = 0; i < BITS / 4; i++) wr_load_words<4, GLOBAL>(w + 4 * i, tile + 512 * i + 16 * lane);
    const u8 *p = tile + 512 * (BITS / 4);
    if (BITS & 2) {
        wr_load_words<2, GLOBAL>(w + BITS / 4 * 4, p + 8 * lane);
        p += 256;
    }
    if (BITS & 1) wr_load_words<1, GLOBAL>(w + BITS - 1, p + 4 * lane);
    const u8 *s = tile + 128 * BITS;
    int g = lane >> 2;
    if (SW == 3) {
        wr_load_words<2, GLOBAL>(w + BITS, s + 8 * g);
        wr_load_words<1, GLOBAL>(w + BITS + 2, s + 64 + 4 * g);
    } else if (SW == 8) {
        wr_load_words<4, GLOBAL>(w + BITS, s + 32 * g);
        wr_load_words<4, GLOBAL>(w + BITS + 4, s + 32 * g + 16);
    } else if (SW > 0) {
        wr_load_words<SW ? SW : 1, GLOBAL>(w + BITS, s + 4 * SW * g);
    }
}
template <int KIND> WR_DEVICE void wr_tile_load(u32 *w, const u8 *tile, int lane) {
    wr_tile_load_any<KIND, true>(w, tile, lane);
}
template <int KIND> WR_DEVICE void wr_tile_load_shared(u32 *w, const u8 *tile, int lane) {
    wr_tile_load_any<KIND, false>(w, tile, lane);
}

/* ---- codes ---- */

/* The integer codes of step j, register r: one in the low bits of each half, nothing above them. */
template <int BITS> WR_DEVICE u32 wr_code_pair(const u32 *w, int j, int r) {
    u32 v = 0;
    if (BITS == 8) return w[2 * j + (r >> 1)] >> (8 * (r & 1)) & 0x00FF00FFu;
    if (BITS >= 4) v = w[j] >> (4 * r) & 0x000F000Fu;
    if (BITS < 4) v = w[j >> 1] >> (2 * (4 * (j & 1) + r)) & 0x00030003u;
    const u32 *high = w + (BITS >= 4 ? 4 : 2);
    if (BITS & 1) {
        const int at = 4 * j + r, to = BITS - 1;
        v |= (at >= to ? high[0] >> (at >= to ? at - to : 0) : high[0] << (at < to ? to - at : 0)) & 0x00010001u << to;
    }
    if (BITS == 6) {
        const int at = 2 * (4 * (j & 1) + r);
        u32 x = high[j >> 1];
        v |= (at >= 4 ? x >> (at >= 4 ? at - 4 : 0) : x << (at < 4 ? 4 - at : 0)) & 0x00300030u;
    }
    return v;
}

/* The bits of a small float in the places of a bf16: E2M1 times 2^-126, E4M3 times 2^-120. */
template <int CODE> WR_DEVICE u32 wr_small_float_pair(const u32 *w, int j, int r) {
    if (CODE == WR_CODE_E2M1) {
        u32 x = w[j];
        if (r == 0) return x & 0x81C081C0u;
        if (r == 1) return x << 3 & 0x81C081C0u;
        if (r == 2) return x << 6 & 0x81C081C0u;
        return (x << 5 & 0x80008000u) | (x >> 6 & 0x01800180u) | (x >> 5 & 0x00400040u);
    }
    u32 x = w[2 * j + (r >> 1)];
    if ((r & 1) == 0) return x & 0x87F087F0u;
    return (x << 4 & 0x80F080F0u) | (x >> 4 & 0x07000700u);
}

/* ---- scales of step j, rows g (r even) and g + 8 (r odd); s are the lane's scale words ---- */

/* In both halves of a word: the bf16 scale and bias. */
template <int SC> WR_DEVICE void wr_scale_bf16(const u32 *s, int j, int r, u32 *scale, u32 *bias) {
    u32 x = s[SC == WR_SC_BF16_32 ? 2 * (j >> 1) + (r & 1) : (r & 1)];
    *scale = wr_perm(x, 0, 0x1010);
    *bias = wr_perm(x, 0, 0x3232);
}
/* In both halves: the power of two (E8M0) or small number (E5M3) that a placed small float is multiplied by. */
template <int SC> WR_DEVICE u32 wr_scale_small(const u32 *s, int j, int r) {
    if (SC == WR_SC_E8M0) {
        u32 at = 2 * (u32)(r & 1) + (u32)(j >> 1);
        return wr_perm(s[0], 0, 0x4040u | at | at << 8) << 7;
    }
    return (wr_perm(s[r & 1], 0, 0x4040u | (u32)j | (u32)j << 8) << 4) + 0x70007000u;
}
/* Byte `at` of x as a number: 2^23 + q is exact in f32. */
WR_DEVICE float wr_byte_float(u32 x, int at) {
    return wr_bits_f32(wr_perm(x, 0x4B000000u, 0x7440u | (u32)at)) - 8388608.0f;
}
/* In f32: the scale times 2^101 and the bias times 2^-32, both exact. The offset of the codes goes into the bias. */
template <int SC, int OFFSET> WR_DEVICE void wr_scale_f32(const u32 *s, int j, int r, float *scale, float *bias) {
    const float up = 2.535301200456459e30f, down = 2.3283064365386963e-10f; /* 2^101, 2^-32 */
    const int row = r & 1, half = j >> 1;
    *bias = 0;
    if (SC == WR_SC_F16_32) *scale = wr_f16_to_f32((u16)(s[row] >> (16 * half))) * up;
    if (SC == WR_SC_F16P_64 || SC == WR_SC_F16P_32) {
        u32 x = s[SC == WR_SC_F16P_32 ? 2 * half + row : row];
        *scale = wr_f16_to_f32((u16)x) * up;
        *bias = wr_f16_to_f32((u16)(x >> 16)) * down;
    }
    if (SC == WR_SC_F32P_32) {
        *scale = wr_bits_f32(s[4 * half + 2 * row]) * up;
        *bias = wr_bits_f32(s[4 * half + 2 * row + 1]) * down;
    }
    if (SC == WR_SC_K32) {
        *scale = wr_f16_to_f32((u16)s[row]) * up * wr_byte_float(s[2 + row], 2 * half);
        *bias = wr_f16_to_f32((u16)(s[row] >> 16)) * -down * wr_byte_float(s[2 + row], 2 * half + 1);
    }
    if (SC == WR_SC_K16) *scale = wr_f16_to_f32((u16)(s[2] >> (16 * row))) * up * (float)(i8)(s[row] >> (8 * j));
    if (SC == WR_SC_K16M) {
        *scale = wr_f16_to_f32((u16)s[row]) * up * (float)(s[2 + row] >> (4 * j) & 15);
        *bias = wr_f16_to_f32((u16)(s[row] >> 16)) * -down * (float)(s[2 + row] >> (16 + 4 * j) & 15);
    }
    if (OFFSET) *bias = *scale * ((float)OFFSET * -9.183549615799121e-41f); /* 2^-133; offsets are powers of two */
}
/* The code of step j, register r, half h in bits 16..23 of a word: as an f32 it is the code times 2^-133, or, 4 bits
 * and r odd, times 2^-129. */
template <int BITS> WR_DEVICE float wr_code_f32(const u32 *w, u32 pair, int j, int r, int h) {
    if (BITS == 4) {
        const u32 x = w[j], mask = r & 1 ? 0x00F00000u : 0x000F0000u;
        return wr_bits_f32((h ? x >> (8 * (r >> 1)) : x << (16 - 8 * (r >> 1))) & mask);
    }
    if (BITS == 8) return wr_bits_f32(wr_perm(w[(2 * j + (r >> 1)) % BITS], 0, 0x4044u | (u32)((r & 1) + 2 * h) << 8));
    return wr_bits_f32(h ? pair & 0x00FF0000u : pair << 16);
}

/* ---- fragments ---- */

/* Dense f16 as high + low bf16. An infinite or NaN weight is in the high part alone. */
WR_DEVICE void wr_split_f16(u32 x, u32 *high, u32 *low) {
    float a = wr_f16_to_f32((u16)x), b = wr_f16_to_f32((u16)(x >> 16));
    u32 h = wr_pack_bf16(a, b);
    float ra = a - wr_bf16_lo(h), rb = b - wr_bf16_hi(h);
    *high = h;
    *low = wr_pack_bf16(ra == ra ? ra : 0.0f, rb == rb ? rb : 0.0f);
}

/* The A fragment of k16 step j (a literal after unrolling) from the lane's words; low is written by two_parts kinds. */
template <int KIND> WR_DEVICE void wr_tile_step(const u32 *w, int j, u32 *a, u32 *low) {
    const int BITS = wr_tile<KIND>::bits, CODE = wr_tile<KIND>::code, SC = wr_tile<KIND>::sc;
    const u32 *s = w + BITS;
#pragma unroll
    for (int r = 0; r < 4; r++) {
        if (CODE == WR_CODE_BF16) {
            a[r] = w[(4 * j + r) % BITS];
        } else if (CODE == WR_CODE_F16) {
            wr_split_f16(w[(4 * j + r) % BITS], a + r, low + r);
        } else if (CODE == WR_CODE_E2M1 || CODE == WR_CODE_E4M3) {
            a[r] = wr_mul_bf16x2(wr_small_float_pair<CODE>(w, j, r), wr_scale_small<SC>(s, j, r));
        } else if (SC == WR_SC_BF16_64 || SC == WR_SC_BF16_32) {
            u32 scale, bias, q;
            wr_scale_bf16<SC>(s, j, r, &scale, &bias);
            if (BITS == 4) /* rows g + 8 stay in bits 4..7: their scale is stored divided by 16 */
                q = w[j] >> (8 * (r >> 1)) & (r & 1 ? 0x00F000F0u : 0x000F000Fu);
            else
                q = wr_code_pair<BITS>(w, j, r);
            a[r] = wr_fma_bf16x2(q, scale, bias);
        } else {
            float scale, bias;
            wr_scale_f32<SC, wr_kind<KIND>::offset>(s, j, r, &scale, &bias);
            if (BITS == 4 && (r & 1)) scale = scale * 0.0625f;
            const u32 q = BITS == 4 || BITS == 8 ? 0 : wr_code_pair<BITS>(w, j, r);
            a[r] = wr_pack_bf16(fmaf(scale, wr_code_f32<BITS>(w, q, j, r, 0), bias),
                                fmaf(scale, wr_code_f32<BITS>(w, q, j, r, 1), bias));
        }
    }
}

/* c += tile's step j times x's fragment of the same step. */
template <int KIND> WR_DEVICE void wr_step_mma(float *c, const u32 *a, const u32 *low, u32 b0, u32 b1) {
    wr_mma_bf16(c, a, b0, b1);
    if (wr_tile<KIND>::two_parts) wr_mma_bf16(c, low, b0, b1);
}

/* ---- epilogue ---- */

WR_DEVICE float wr_linear_number(const void *p, int type, i64 i) {
    if (type == WR_NUM_F32) return ((const float *)p)[i];
    return type == WR_NUM_BF16 ? wr_bf16_to_f32(((const u16 *)p)[i]) : wr_f16_to_f32(((const u16 *)p)[i]);
}
WR_DEVICE void wr_linear_put(void *p, int type, i64 i, float x) {
    if (type == WR_NUM_F32)
        ((float *)p)[i] = x;
    else
        ((u16 *)p)[i] = type == WR_NUM_BF16 ? wr_f32_to_bf16(x) : wr_f32_to_f16(x);
}
/* The sum of the slices of y[m, n], to its dtype. */
WR_DEVICE void wr_linear_store(const wr_linear_params &p, i64 m, i64 n, float sum) {
    float y = sum * p.unscale * p.global_scale;
    const i64 at = m * p.n + n;
    if (p.addend) y = y + wr_linear_number(p.addend, p.y_type, at);
    wr_linear_put(p.y, p.y_type, at, y);
}
/* LINEAR_GATED: the sums of gate and up for y[m, n], with the roundings of the steps one by one. */
WR_DEVICE float wr_linear_rounded(const wr_linear_params &p, float x) {
    if (p.y_type == WR_NUM_F32) return x;
    return p.y_type == WR_NUM_BF16 ? wr_bf16_to_f32(wr_f32_to_bf16(x)) : wr_f16_to_f32(wr_f32_to_f16(x));
}
WR_DEVICE void wr_linear_store_gated(const wr_linear_params &p, i64 m, i64 n, float gate, float up) {
    gate = wr_linear_rounded(p, gate * p.unscale * p.global_scale);
    up = wr_linear_rounded(p, up * p.unscale * p.global_scale);
    gate = wr_linear_rounded(p, p.gelu ? wr_gelu_tanh(gate) : wr_times_sigmoid(gate, gate));
    wr_linear_put(p.y, p.y_type, m * p.half + n, gate * up);
}
/* x[i] as the bf16 that the tensor cores get. */
WR_DEVICE u16 wr_linear_x(const wr_linear_params &p, i64 i) {
    if (p.x_type == WR_NUM_BF16) return ((const u16 *)p.x)[i];
    return wr_f32_to_bf16(wr_linear_number(p.x, p.x_type, i));
}

#endif
