/* One weight at a time, from packed tiles and from published layouts: what the reference kernels, EMBEDDING and
 * DEQUANTIZE stand on. Written apart from linear.cuh's fragments on purpose, so that each checks the other. */
#ifndef WR_CUDA_LINEAR_SCALAR_CUH
#define WR_CUDA_LINEAR_SCALAR_CUH

#include "cuda/kernels/linear.cuh"

/* w = q * scale + bias, all exact in f32. bf16: all three are bf16 numbers, and so is w when it is a matrix's. */
typedef struct weight_parts {
    float q, scale, bias;
    bool bf16;
} weight_parts;

WR_DEVICE u32 load_u16(const u8 *p) { return p[0] | (u32)p[1] << 8; }
WR_DEVICE u32 load_u32(const u8 *p) { return load_u16(p) | load_u16(p + 2) << 16; }
WR_DEVICE float load_f16(const u8 *p) { return wr_f16_to_f32((u16)load_u16(p)); }
WR_DEVICE float load_bf16(const u8 *p) { return wr_bf16_to_f32((u16)load_u16(p)); }

WR_DEVICE float e2m1(u32 x) {
    const u32 m = x & 7;
    const float a = m < 2 ? 0.5f * (float)m : wr_bits_f32(((m >> 1) + 126) << 23 | (m & 1) << 22);
    return x & 8 ? -a : a;
}
WR_DEVICE float e4m3(u32 x) {
    const u32 e = x >> 3 & 15, m = x & 7;
    const float a = e == 0 ? (float)m * 0.001953125f : wr_bits_f32((e + 120) << 23 | m << 20);
    return x & 128 ? -a : a;
}
/* 2^(x - 127); the subnormal 2^-127 for 0, NaN for 255. */
WR_DEVICE float e8m0(u32 x) { return wr_bits_f32(x == 0 ? 0x00400000u : x == 255 ? 0x7FC00000u : x << 23); }

/* ---- packed ---- */

/* The code of row r, column c of a tile. */
WR_DEVICE u32 packed_code(const u8 *tile, int bits, int code, int r, int c) {
    const int g = r & 7, j = c >> 4, reg = r >> 3 | (c >> 3 & 1) << 1, t = c >> 1 & 3, h = c & 1, lane = 4 * g + t;
    if (bits == 16) return load_u16(tile + 512 * j + 16 * lane + 4 * reg + 2 * h);
    if (bits == 8) {
        const u32 half = load_u16(tile + 512 * (j >> 1) + 16 * lane + 4 * (2 * (j & 1) + (reg >> 1)) + 2 * h);
        if (code == WR_CODE_INT) return half >> (8 * (reg & 1)) & 255;
        if ((reg & 1) == 0) return (half >> 15) << 7 | (half >> 4 & 127);
        return (half >> 11 & 1) << 7 | (half >> 12 & 7) << 4 | (half & 15);
    }
    if (code == WR_CODE_E2M1) {
        const u32 half = load_u16(tile + 16 * lane + 4 * j + 2 * h);
        if (reg == 3) return (half >> 10 & 1) << 3 | (half >> 13 & 3) << 1 | (half >> 11 & 1);
        return (half >> (15 - 3 * reg) & 1) << 3 | (half >> (6 - 3 * reg) & 7);
    }
    const int at2 = 2 * (4 * (j & 1) + reg);
    u32 q = 0;
    const u8 *high = tile + (bits >= 4 ? 512 : 256);
    if (bits >= 4)
        q = load_u16(tile + 16 * lane + 4 * j + 2 * h) >> (4 * reg) & 15;
    else
        q = load_u16(tile + 8 * lane + 4 * (j >> 1) + 2 * h) >> at2 & 3;
    if (bits == 6) q |= (load_u16(high + 8 * lane + 4 * (j >> 1) + 2 * h) >> at2 & 3) << 4;
    if (bits == 3 || bits == 5) q |= (load_u16(high + 4 * lane + 2 * h) >> (4 * j + reg) & 1) << (bits - 1);
    return q;
}

WR_DEVICE weight_parts packed_parts(const wr_linear_params &p, const u8 *tile, int r, int c) {
    const int bits = p.tile_bits, code = p.tile_code, scales = p.tile_scales;
    const u8 *s = tile + 128 * bits;
    const int g = r & 7, high = r >> 3, half = c >> 5, j = c >> 4;
    const u32 x = packed_code(tile, bits, code, r, c);
    weight_parts w = {(float)((int)x - p.tile_offset), 1.0f, 0.0f, true};
    switch (scales) {
    case WR_SC_NONE: w.q = code == WR_CODE_BF16 ? wr_bf16_to_f32((u16)x) : wr_f16_to_f32((u16)x); return w;
    case WR_SC_BF16_64:
    case WR_SC_BF16_32: {
        const u8 *at = scales == WR_SC_BF16_64 ? s + 8 * g + 4 * high : s + 16 * g + 8 * half + 4 * high;
        /* stored times 2^97 or 2^101; the bias times 2^-32 */
        w.scale = load_bf16(at) * (bits == 4 && high ? 6.310887241768094e-30f : 3.9443045261050590e-31f);
        w.bias = load_bf16(at + 2) * 4294967296.0f;
        return w;
    }
    case WR_SC_E8M0: {
        const u32 field = s[4 * g + 2 * high + half];
        w.q = code == WR_CODE_E2M1 ? e2m1(x) : e4m3(x);
        w.scale = field == 255 ? wr_bits_f32(0x7FC00000u) : e8m0(field - (code == WR_CODE_E2M1 ? 94 : 88));
        return w;
    }
    case WR_SC_E5M3: {
        const u32 e = s[8 * g + 4 * high + j];
        w.q = e2m1(x);
        w.scale = wr_bits_f32(((e >> 3) + 117) << 23 | (e & 7) << 20);
        return w;
    }
    default: break;
    }
    w.bf16 = false;
    switch (scales) {
    case WR_SC_F16_32: w.scale = load_f16(s + 8 * g + 4 * high + 2 * half); break;
    case WR_SC_F16P_64:
    case WR_SC_F16P_32: {
        const u8 *at = scales == WR_SC_F16P_64 ? s + 8 * g + 4 * high : s + 16 * g + 8 * half + 4 * high;
        w.scale = load_f16(at);
        w.bias = load_f16(at + 2);
        break;
    }
    case WR_SC_F32P_32:
        w.scale = wr_bits_f32(load_u32(s + 32 * g + 16 * half + 8 * high));
        w.bias = wr_bits_f32(load_u32(s + 32 * g + 16 * half + 8 * high + 4));
        break;
    case WR_SC_K32:
        w.scale = load_f16(s + 16 * g + 4 * high) * (float)s[16 * g + 8 + 4 * high + 2 * half];
        w.bias = -(load_f16(s + 16 * g + 4 * high + 2) * (float)s[16 * g + 8 + 4 * high + 2 * half + 1]);
        break;
    case WR_SC_K16: w.scale = load_f16(s + 64 + 4 * g + 2 * high) * (float)(i8)s[8 * g + 4 * high + j]; break;
    default: { /* K16M */
        const u32 v = load_u32(s + 16 * g + 8 + 4 * high);
        w.scale = load_f16(s + 16 * g + 4 * high) * (float)(v >> (4 * j) & 15);
        w.bias = -(load_f16(s + 16 * g + 4 * high + 2) * (float)(v >> (16 + 4 * j) & 15));
    }
    }
    return w;
}

/* ---- published ---- */

/* Number i of a little-endian stream of `bits`-bit numbers. */
WR_DEVICE u32 stream_number(const u8 *row, i64 i, int bits) {
    const i64 bit = i * bits, byte = bit / 8;
    const int shift = (int)(bit % 8);
    u32 x = row[byte];
    if (shift + bits > 8) x |= (u32)row[byte + 1] << 8;
    return x >> shift & ((1u << bits) - 1);
}

WR_DEVICE weight_parts mlx_parts(const wr_linear_params &p, i64 row, i64 col) {
    const i64 at = row * (p.k / p.group) + col / p.group;
    const u32 x = stream_number(p.w + row * (p.k / 8 * p.bits), col, p.bits);
    weight_parts w = {(float)x, 1.0f, 0.0f, true};
    if (p.mode == WR_PUBLISHED_AFFINE) {
        w.scale = wr_linear_number(p.scales, p.weight_type, at);
        w.bias = wr_linear_number(p.biases, p.weight_type, at);
        w.bf16 = p.weight_type == WR_NUM_BF16;
        return w;
    }
    const u32 scale = ((const u8 *)p.scales)[at];
    w.q = p.mode == WR_PUBLISHED_MXFP8 ? e4m3(x) : e2m1(x);
    w.scale = p.mode == WR_PUBLISHED_NVFP4 ? e4m3(scale) : e8m0(scale);
    return w;
}

/* Scale and min of sub-block j of Q4_K and Q5_K. */
WR_DEVICE void k_scale_min(const u8 *s, int j, int *scale, int *least) {
    if (j < 4) {
        *scale = s[j] & 63;
        *least = s[j + 4] & 63;
    } else {
        *scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        *least = s[j + 4] >> 4 | (s[j] >> 6) << 4;
    }
}
/* Value i of a block of 256. */
WR_DEVICE weight_parts k_parts(int mode, const u8 *b, int i) {
    weight_parts w = {0.0f, 0.0f, 0.0f, false};
    const int half = i / 128, run = i % 128 / 32, at = i % 32, j = i / 16;
    int scale, least;
    switch (mode) {
    case WR_PUBLISHED_Q2_K:
        w.q = (float)(b[16 + half * 32 + at] >> (2 * run) & 3);
        w.scale = load_f16(b + 80) * (float)(b[j] & 15);
        w.bias = -(load_f16(b + 82) * (float)(b[j] >> 4));
        break;
    case WR_PUBLISHED_Q3_K: {
        const u8 *s = b + 96;
        scale = ((j < 8 ? s[j] & 15 : s[j - 8] >> 4) | (s[8 + j % 4] >> (2 * (j / 4)) & 3) << 4) - 32;
        w.q = (float)((b[32 + half * 32 + at] >> (2 * run) & 3) - (b[at] >> (i / 32) & 1 ? 0 : 4));
        w.scale = load_f16(b + 108) * (float)scale;
        break;
    }
    case WR_PUBLISHED_Q4_K:
    case WR_PUBLISHED_Q5_K: {
        const int sub = i / 32;
        const u8 byte = b[(mode == WR_PUBLISHED_Q4_K ? 16 : 48) + sub / 2 * 32 + at];
        int q = sub % 2 ? byte >> 4 : byte & 15;
        if (mode == WR_PUBLISHED_Q5_K) q |= (b[16 + at] >> sub & 1) << 4;
        k_scale_min(b + 4, sub, &scale, &least);
        w.q = (float)q;
        w.scale = load_f16(b) * (float)scale;
        w.bias = -(load_f16(b + 2) * (float)least);
        break;
    }
    default: { /* Q6_K */
        const u8 low = b[half * 64 + run % 2 * 32 + at];
        w.q = (float)(((run < 2 ? low & 15 : low >> 4) | (b[128 + half * 32 + at] >> (2 * run) & 3) << 4) - 32);
        w.scale = load_f16(b + 208) * (float)(i8)b[192 + j];
    }
    }
    return w;
}
/* Value i of a block of 32. */
WR_DEVICE weight_parts block_parts(int mode, const u8 *b, int i) {
    weight_parts w = {0.0f, load_f16(b), 0.0f, false};
    if (mode == WR_PUBLISHED_Q8_0) {
        w.q = (float)(i8)b[2 + i];
        return w;
    }
    const bool five = mode == WR_PUBLISHED_Q5_0 || mode == WR_PUBLISHED_Q5_1;
    const bool least = mode == WR_PUBLISHED_Q4_1 || mode == WR_PUBLISHED_Q5_1;
    const u8 *at = b + (least ? 4 : 2);
    const u8 byte = at[(five ? 4 : 0) + i % 16];
    int q = i < 16 ? byte & 15 : byte >> 4;
    if (five) q |= (int)(load_u32(at) >> i & 1) << 4;
    if (least)
        w.bias = load_f16(b + 2);
    else
        q -= five ? 16 : 8;
    w.q = (float)q;
    return w;
}

/* Weight [row, col] of an expert, packed or published. */
WR_DEVICE weight_parts weight_at(const wr_linear_params &p, i64 expert, i64 row, i64 col) {
    if (p.kind < WR_KIND_COUNT) {
        const int bytes = wr_tile_bytes(p.tile_bits, p.tile_scales);
        const i64 tile = (expert * p.row_tiles + row / WR_TILE_ROWS) * p.k_tiles + col / WR_TILE_COLS;
        return packed_parts(p, p.w + tile * bytes, (int)(row % WR_TILE_ROWS), (int)(col % WR_TILE_COLS));
    }
    row += expert * p.n;
    if (p.mode == WR_PUBLISHED_DENSE) {
        const float x = wr_linear_number(p.w, p.weight_type, row * p.k + col);
        const weight_parts w = {x, 1.0f, 0.0f, true};
        return w;
    }
    if (p.mode <= WR_PUBLISHED_MXFP8) return mlx_parts(p, row, col);
    const int values = p.mode >= WR_PUBLISHED_Q2_K ? 256 : 32;
    const u8 *block = p.w + (row * (p.k / values) + col / values) * p.block_bytes;
    return values == 256 ? k_parts(p.mode, block, (int)(col % 256)) : block_parts(p.mode, block, (int)(col % 32));
}

/* The weight in f32, its global scale included: what EMBEDDING and DEQUANTIZE give. */
WR_DEVICE float weight_f32(const wr_linear_params &p, i64 expert, i64 row, i64 col) {
    const weight_parts w = weight_at(p, expert, row, col);
    return fmaf(w.q, w.scale, w.bias) * p.global_scale;
}
/* The weight that tensor cores get, without the global scale; low: what a dense f16 weight has beyond bf16. */
WR_DEVICE u16 weight_bf16(const wr_linear_params &p, i64 expert, i64 row, i64 col, u16 *low) {
    const weight_parts w = weight_at(p, expert, row, col);
    *low = 0;
    if (w.scale == 1.0f && w.bias == 0.0f && w.bf16) { /* dense, and some others, to which it makes no difference */
        u32 h, l;
        h = wr_f32_to_bf16(w.q);
        const float rest = w.q - wr_bf16_to_f32((u16)h);
        l = wr_f32_to_bf16(rest == rest ? rest : 0.0f);
        *low = (u16)l;
        return (u16)h;
    }
    if (!w.bf16) return wr_f32_to_bf16(fmaf(w.scale, w.q, w.bias));
    return (u16)wr_fma_bf16x2(wr_f32_to_bf16(w.q), wr_f32_to_bf16(w.scale), wr_f32_to_bf16(w.bias));
}

#endif
