/* From a published weight to packed tiles (linear.h) on the device, for programs over weights that nobody packed at
 * load: the bytes that cuda/pack.c writes. A warp has a tile: a lane fetches its 32 codes in pairs, and the first
 * sixteen lanes write the scales of a row each.
 *
 * Bytes: the published weight and the packed one, once each. Operations: about ten a pair, which is what the time goes
 * into. Measured: docs/kernels.md. */
#include "cuda/kernels/linear_scalar.cuh"
#include "cuda/kernels/pack_scales.h"

enum { PACK_THREADS = 256 };

/* The codes of columns col (even) and col + 1 as tiles have them, the second in the upper half. row: among those of all
 * experts. Only dense rows may end between the two. */
WR_DEVICE u32 pair_at(const wr_linear_params &p, i64 row, i64 col) {
    if (p.mode == WR_PUBLISHED_DENSE) {
        const u16 *x = (const u16 *)p.w + row * p.k + col;
        if (col + 1 >= p.k) return x[0];
        return (u64)x % 4 == 0 ? *(const u32 *)x : x[0] | (u32)x[1] << 16;
    }
    if (p.mode > WR_PUBLISHED_MXFP8)
        return (u32)((int)weight_at(p, 0, row, col).q + p.tile_offset) |
               (u32)((int)weight_at(p, 0, row, col + 1).q + p.tile_offset) << 16;
    const u8 *at = p.w + row * (p.k / 8 * p.bits) + (u32)col / 8 * (i64)p.bits; /* eight codes are whole bytes */
    const int bit = (int)(col % 8) * p.bits, shift = bit % 8;
    u32 x = at[bit / 8];
    if (shift + 2 * p.bits > 8) x |= (u32)at[bit / 8 + 1] << 8;
    x >>= shift;
    x = (x & ((1u << p.bits) - 1)) | (x >> p.bits & ((1u << p.bits) - 1)) << 16;
    if (p.mode != WR_PUBLISHED_NVFP4) return x;
    const u32 scale = ((const u8 *)p.scales)[row * (p.k / 16) + col / 16]; /* its sign goes to the codes */
    return scale & 0x7f ? x ^ (scale >> 7) * 0x80008u : 0;
}

/* A lane's codes of one tile. n_rows, n_cols: of the tile, that are there. */
template <int CODE, int BITS>
WR_DEVICE void put_codes(const wr_linear_params &p, u8 *tile, i64 row0, i64 col0, int n_rows, int n_cols, int lane) {
    const int g = lane / 4, t = lane % 4;
    u32 w[BITS];
#pragma unroll
    for (int i = 0; i < BITS; i++) w[i] = 0;
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
        for (int r = 0; r < 4; r++) {
            const int row = g + 8 * (r & 1), col = 16 * j + 2 * t + 8 * (r >> 1);
            const u32 pair = row < n_rows && col < n_cols ? pair_at(p, row0 + row, col0 + col) : 0;
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int up = 16 * h;
                const u32 x = pair >> up & 0xFFFFu;
                if (BITS == 16) {
                    w[(4 * j + r) % BITS] |= x << up;
                } else if (CODE == WR_CODE_E4M3) {
                    const u32 even = (x >> 7) << 15 | (x & 127) << 4;
                    const u32 odd = (x >> 7) << 11 | (x >> 4 & 7) << 12 | (x & 15);
                    w[(2 * j + r / 2) % BITS] |= (r & 1 ? odd : even) << up;
                } else if (CODE == WR_CODE_E2M1) {
                    const u32 last = (x >> 3) << 10 | (x >> 1 & 3) << 13 | (x & 1) << 11;
                    w[j % BITS] |= (r == 3 ? last : (x >> 3) << (15 - 3 * r) | (x & 7) << (r < 3 ? 6 - 3 * r : 0))
                                   << up;
                } else if (BITS == 8) {
                    w[(2 * j + r / 2) % BITS] |= x << (8 * (r & 1) + up);
                } else {
                    const int at2 = 2 * (4 * (j & 1) + r) + up;
                    if (BITS >= 4) w[j % BITS] |= (x & 15) << (4 * r + up);
                    if (BITS < 4) w[j / 2] |= (x & 3) << at2;
                    if (BITS == 6) w[(4 + j / 2) % BITS] |= (x >> 4) << at2;
                    if (BITS & 1) w[BITS - 1] |= (x >> (BITS - 1)) << (4 * j + r + up);
                }
            }
        }
#pragma unroll
    for (int i = 0; i + 4 <= BITS; i += 4)
        *(uint4 *)(tile + 128 * i + 16 * lane) =
            make_uint4(w[i], w[(i + 1) % BITS], w[(i + 2) % BITS], w[(i + 3) % BITS]);
    u8 *rest = tile + 512 * (BITS / 4);
    if (BITS & 2) *(uint2 *)(rest + 8 * lane) = make_uint2(w[BITS / 4 * 4], w[(BITS / 4 * 4 + 1) % BITS]);
    if (BITS & 1) *(u32 *)(rest + (BITS & 2 ? 256 : 0) + 4 * lane) = w[BITS - 1];
}

WR_DEVICE void put_any_codes(const wr_linear_params &p, u8 *tile, i64 row0, i64 col0, int n_rows, int n_cols,
                             int lane) {
#define PUT(code, bits) put_codes<code, bits>(p, tile, row0, col0, n_rows, n_cols, lane)
    if (p.tile_code == WR_CODE_E2M1) {
        PUT(WR_CODE_E2M1, 4);
    } else if (p.tile_code == WR_CODE_E4M3) {
        PUT(WR_CODE_E4M3, 8);
    } else {
        switch (p.tile_bits) {
        case 2: PUT(WR_CODE_INT, 2); break;
        case 3: PUT(WR_CODE_INT, 3); break;
        case 4: PUT(WR_CODE_INT, 4); break;
        case 5: PUT(WR_CODE_INT, 5); break;
        case 6: PUT(WR_CODE_INT, 6); break;
        case 8: PUT(WR_CODE_INT, 8); break;
        default: PUT(WR_CODE_BF16, 16);
        }
    }
#undef PUT
}

/* The scales of the rows of a tile, a lane each. */
WR_DEVICE void put_scales(const wr_linear_params &p, u8 *to, i64 row0, i64 col0, int n_rows, int lane) {
    const int words = wr_scale_words(p.tile_scales);
    for (int i = lane; i < 8 * words; i += 32) ((u32 *)to)[i] = 0;
    __syncwarp();
    if (lane >= n_rows) return;
    const wr_pack_format f = {p.k, p.tile_scales, p.mode, p.bits, p.group, p.weight_type, p.block_bytes};
    const i64 row = row0 + lane;
    wr_pack_row from = {p.w, nullptr, nullptr};
    if (p.mode > WR_PUBLISHED_MXFP8) {
        from.data = p.w + row * (p.k / (p.mode >= WR_PUBLISHED_Q2_K ? 256 : 32)) * p.block_bytes;
    } else if (p.mode != WR_PUBLISHED_DENSE) {
        const i64 width = p.mode != WR_PUBLISHED_AFFINE ? 1 : p.weight_type == WR_NUM_F32 ? 4 : 2;
        from.scales = (const u8 *)p.scales + row * (p.k / p.group) * width;
        from.biases = (const u8 *)p.biases + row * (p.k / p.group) * width;
    }
    wr_pack_tile_scales(&f, &from, lane, col0, to);
}

/* kind: WR_KIND_COUNT, the weight is read as published; tile_*: of the kind that it becomes; y: the tiles. */
WR_KERNEL(wr_linear_pack, wr_linear_params, PACK_THREADS, 1) {
    const int lane = threadIdx.x % 32, bytes = wr_tile_bytes(p.tile_bits, p.tile_scales);
    wr_grid_wait(); /* and no early launch of others: they read weights before they wait */
    const i64 tiles = p.experts * p.row_tiles * p.k_tiles, warps = (i64)gridDim.x * (PACK_THREADS / 32);
    for (i64 i = (i64)blockIdx.x * (PACK_THREADS / 32) + threadIdx.x / 32; i < tiles; i += warps) {
        const i64 row_tile = i / p.k_tiles, expert = row_tile / p.row_tiles;
        const i64 first = (row_tile - expert * p.row_tiles) * WR_TILE_ROWS, col0 = i % p.k_tiles * WR_TILE_COLS;
        const int n_rows = (int)min(p.n - first, (i64)WR_TILE_ROWS), n_cols = (int)min(p.k - col0, (i64)WR_TILE_COLS);
        u8 *tile = (u8 *)p.y + i * bytes;
        put_any_codes(p, tile, expert * p.n + first, col0, n_rows, n_cols, lane);
        put_scales(p, tile + 128 * p.tile_bits, expert * p.n + first, col0, n_rows, lane);
    }
}
