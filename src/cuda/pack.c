/* The layout of weights for the linear kernels (kernels/linear.h), written on the host at load. A thread takes whole
 * row tiles: 16 published rows are read 256 columns at a time, expanded to a byte a code, and put together again word
 * by word with baseline vectors. Nothing depends on the number of threads. */
#include <string.h>

#include "base/dtype.h"
#include "base/mem.h"
#include "cuda/linear.h"

enum { SPAN = 256, TILES = SPAN / WR_TILE_COLS }; /* columns at a time: a K-quant block */

static const struct {
    const char *name;
    uint8_t bits, code, scales, offset, shift;
} kinds[WR_KIND_COUNT] = {
#define ROW(name, bits, code, scales, offset, shift) {#name, bits, code, scales, offset, shift},
    WR_LINEAR_KINDS(ROW)
#undef ROW
};

const char *wr_linear_kind_name(int kind) { return kind < WR_KIND_COUNT ? kinds[kind].name : "published"; }
int wr_linear_kind_bits(int kind) { return kinds[kind].bits; }
int wr_linear_kind_scales(int kind) { return kinds[kind].scales; }
int wr_linear_kind_code(int kind) { return kinds[kind].code; }
int wr_linear_kind_offset(int kind) { return kinds[kind].offset; }
int64_t wr_linear_tile_bytes(int kind) { return wr_tile_bytes(kinds[kind].bits, kinds[kind].scales); }
float wr_linear_kind_unscale(int kind) { return (float)(1ull << kinds[kind].shift); }

weir_quant wr_linear_quant(weir_quant q) {
    switch (q.mode) {
    case WEIR_QUANT_AFFINE:
        if (q.group_size == 0) q.group_size = 64;
        if (q.bits == 0) q.bits = 4;
        break;
    case WEIR_QUANT_MXFP4: q.group_size = 32, q.bits = 4; break;
    case WEIR_QUANT_NVFP4: q.group_size = 16, q.bits = 4; break;
    case WEIR_QUANT_MXFP8: q.group_size = 32, q.bits = 8; break;
    default: q.group_size = q.bits = 0;
    }
    return q;
}

static int affine_kind(weir_quant q, weir_dtype dtype) {
    static const uint8_t bf16[2][9] = {{[2] = WR_KIND_A2_64,
                                        [3] = WR_KIND_A3_64,
                                        [4] = WR_KIND_A4_64,
                                        [5] = WR_KIND_A5_64,
                                        [6] = WR_KIND_A6_64,
                                        [8] = WR_KIND_A8_64},
                                       {[2] = WR_KIND_A2_32,
                                        [3] = WR_KIND_A3_32,
                                        [4] = WR_KIND_A4_32,
                                        [5] = WR_KIND_A5_32,
                                        [6] = WR_KIND_A6_32,
                                        [8] = WR_KIND_A8_32}};
    static const uint8_t f32[9] = {
        [2] = WR_KIND_F2, [3] = WR_KIND_F3, [4] = WR_KIND_F4, [5] = WR_KIND_F5, [6] = WR_KIND_F6, [8] = WR_KIND_F8};
    bool narrow = q.group_size == 32;
    if (q.bits < 2 || q.bits > 8 || q.bits == 7 || (!narrow && q.group_size != 64 && q.group_size != 128))
        return WR_KIND_COUNT;
    if (dtype == WEIR_DTYPE_BF16) return bf16[narrow][q.bits];
    if (dtype == WEIR_DTYPE_F16 && !narrow && q.bits == 4) return WR_KIND_H4_64;
    if (dtype == WEIR_DTYPE_F16 && !narrow && q.bits == 8) return WR_KIND_H8_64;
    if (dtype == WEIR_DTYPE_F16 && narrow && q.bits == 4) return WR_KIND_H4_32;
    if (dtype == WEIR_DTYPE_F16 && narrow && q.bits == 5) return WR_KIND_H5_32;
    return dtype == WEIR_DTYPE_F16 || dtype == WEIR_DTYPE_F32 ? f32[q.bits] : WR_KIND_COUNT;
}

int wr_linear_kind(const wr_linear_args *args) {
    switch (args->quant.mode) {
    case WEIR_QUANT_NONE: /* f32 stays f32: as published */
        return args->weight_dtype == WEIR_DTYPE_BF16  ? WR_KIND_BF16
               : args->weight_dtype == WEIR_DTYPE_F16 ? WR_KIND_F16
                                                      : WR_KIND_COUNT;
    case WEIR_QUANT_AFFINE: return affine_kind(wr_linear_quant(args->quant), args->weight_dtype);
    case WEIR_QUANT_MXFP4: return WR_KIND_MXFP4;
    case WEIR_QUANT_NVFP4: return WR_KIND_NVFP4;
    case WEIR_QUANT_MXFP8: return WR_KIND_MXFP8;
    case WEIR_QUANT_Q4_0: return WR_KIND_Q4_0;
    case WEIR_QUANT_Q4_1: return WR_KIND_H4_32;
    case WEIR_QUANT_Q5_0: return WR_KIND_Q5_0;
    case WEIR_QUANT_Q5_1: return WR_KIND_H5_32;
    case WEIR_QUANT_Q8_0: return WR_KIND_Q8_0;
    case WEIR_QUANT_Q2_K: return WR_KIND_Q2_K;
    case WEIR_QUANT_Q3_K: return WR_KIND_Q3_K;
    case WEIR_QUANT_Q4_K: return WR_KIND_Q4_K;
    case WEIR_QUANT_Q5_K: return WR_KIND_Q5_K;
    case WEIR_QUANT_Q6_K: return WR_KIND_Q6_K;
    default: return WR_KIND_COUNT;
    }
}

size_t wr_cuda_packed_bytes(const wr_linear_args *args) {
    int kind = wr_linear_kind(args);
    if (kind == WR_KIND_COUNT || args->experts <= 0 || args->rows <= 0 || args->cols <= 0) return 0;
    size_t n = (size_t)wr_linear_tile_bytes(kind);
    bool fits = wr_mul_size(n, (size_t)wr_linear_k_tiles(args->cols), &n) &&
                wr_mul_size(n, (size_t)wr_linear_row_tiles(args->rows), &n) &&
                wr_mul_size(n, (size_t)args->experts, &n);
    return fits ? n : 0;
}

/* ---- words from codes ---- */

typedef uint8_t bytes16 __attribute__((vector_size(16)));
typedef uint16_t halves8 __attribute__((vector_size(16)));

/* a0 b0 a1 b1 .. a7 b7. */
static inline bytes16 interleave(uint64_t a, uint64_t b) {
    typedef uint64_t two __attribute__((vector_size(16)));
    two x = {a, b};
    return __builtin_shufflevector((bytes16)x, (bytes16)x, 0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
}
static inline halves8 widen(uint64_t a) { return (halves8)interleave(a, 0); }
/* Columns 8 c .. 8 c + 7 of a row of the tile. */
static inline uint64_t eight(const uint8_t *row, int c) {
    uint64_t x;
    memcpy(&x, row + 8 * c, 8);
    return x;
}

/* Four words, one for each t of group g, to word `word` of `words` of the lane. */
static inline void put_words(uint8_t *plane, int g, int words, int word, bytes16 x) {
    uint32_t w[4];
    memcpy(w, &x, 16);
    for (int t = 0; t < 4; t++) memcpy(plane + 4 * ((size_t)(4 * g + t) * (size_t)words + (size_t)word), &w[t], 4);
}

/* a, b: rows g and g + 8 of the tile, 64 codes each. shift: of the plane's lowest bit in a code. */
static void put_plane4(uint8_t *plane, int g, const uint8_t *a, const uint8_t *b) {
    const uint64_t m = 0x0f0f0f0f0f0f0f0fu;
    for (int j = 0; j < 4; j++)
        put_words(plane, g, 4, j,
                  interleave((eight(a, 2 * j) & m) | (eight(b, 2 * j) & m) << 4,
                             (eight(a, 2 * j + 1) & m) | (eight(b, 2 * j + 1) & m) << 4));
}
static void put_plane2(uint8_t *plane, int g, const uint8_t *a, const uint8_t *b, int shift) {
    const uint64_t m = 0x0303030303030303u;
    uint64_t x[4];
    for (int j = 0; j < 4; j++)
        x[j] = (eight(a, 2 * j) >> shift & m) | (eight(b, 2 * j) >> shift & m) << 2 |
               (eight(a, 2 * j + 1) >> shift & m) << 4 | (eight(b, 2 * j + 1) >> shift & m) << 6;
    put_words(plane, g, 2, 0, interleave(x[0], x[1]));
    put_words(plane, g, 2, 1, interleave(x[2], x[3]));
}
static void put_plane1(uint8_t *plane, int g, const uint8_t *a, const uint8_t *b, int shift) {
    const uint64_t m = 0x0101010101010101u;
    uint64_t x[4];
    for (int j = 0; j < 4; j++)
        x[j] = (eight(a, 2 * j) >> shift & m) | (eight(b, 2 * j) >> shift & m) << 1 |
               (eight(a, 2 * j + 1) >> shift & m) << 2 | (eight(b, 2 * j + 1) >> shift & m) << 3;
    put_words(plane, g, 1, 0, interleave(x[0] | x[1] << 4, x[2] | x[3] << 4));
}
static void put_plane8(uint8_t *tile, int g, const uint8_t *a, const uint8_t *b) {
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < 2; i++)
            put_words(tile + 512 * (j / 2), g, 4, 2 * (j % 2) + i,
                      interleave(eight(a, 2 * j + i), eight(b, 2 * j + i)));
}
static void put_e2m1(uint8_t *plane, int g, const uint8_t *a, const uint8_t *b) {
    for (int j = 0; j < 4; j++) {
        halves8 n0 = widen(eight(a, 2 * j)), n1 = widen(eight(b, 2 * j)), n2 = widen(eight(a, 2 * j + 1)),
                n3 = widen(eight(b, 2 * j + 1));
        halves8 x = (n0 & 8) << 12 | (n0 & 7) << 6 | (n1 & 8) << 9 | (n1 & 7) << 3 | (n2 & 8) << 6 | (n2 & 7) |
                    (n3 & 8) << 7 | (n3 & 6) << 12 | (n3 & 1) << 11;
        put_words(plane, g, 4, j, (bytes16)x);
    }
}
static void put_e4m3(uint8_t *tile, int g, const uint8_t *a, const uint8_t *b) {
    for (int j = 0; j < 4; j++)
        for (int i = 0; i < 2; i++) {
            halves8 even = widen(eight(a, 2 * j + i)), odd = widen(eight(b, 2 * j + i));
            halves8 x = (even & 0x80) << 8 | (even & 0x7f) << 4 | (odd & 0x80) << 4 | (odd & 0x70) << 8 | (odd & 0xf);
            put_words(tile + 512 * (j / 2), g, 4, 2 * (j % 2) + i, (bytes16)x);
        }
}

static void put_codes(int kind, uint8_t *tile, int g, const uint8_t *a, const uint8_t *b) {
    if (kinds[kind].code == WR_CODE_E2M1) {
        put_e2m1(tile, g, a, b);
        return;
    }
    if (kinds[kind].code == WR_CODE_E4M3) {
        put_e4m3(tile, g, a, b);
        return;
    }
    switch (kinds[kind].bits) {
    case 2: put_plane2(tile, g, a, b, 0); break;
    case 3:
        put_plane2(tile, g, a, b, 0);
        put_plane1(tile + 256, g, a, b, 2);
        break;
    case 4: put_plane4(tile, g, a, b); break;
    case 5:
        put_plane4(tile, g, a, b);
        put_plane1(tile + 512, g, a, b, 4);
        break;
    case 6:
        put_plane4(tile, g, a, b);
        put_plane2(tile + 512, g, a, b, 4);
        break;
    default: put_plane8(tile, g, a, b);
    }
}

/* ---- row tiles ---- */

typedef struct source {
    const wr_linear_args *args;
    wr_pack_format format;
    int kind, rows; /* of the row tile, 1..16 */
    wr_pack_row row[WR_TILE_ROWS];
} source;

/* 16-bit elements: 8 columns of a row are one word for each t. */
static void pack_dense(const source *s, uint8_t *out) {
    int64_t cols = s->args->cols, tile_bytes = wr_linear_tile_bytes(s->kind);
    for (int64_t col = 0; col < cols; col += WR_TILE_COLS, out += tile_bytes) {
        int64_t count = cols - col < WR_TILE_COLS ? cols - col : WR_TILE_COLS;
        for (int r = 0; r < WR_TILE_ROWS; r++) {
            uint8_t part[2 * WR_TILE_COLS] = {0};
            if (r < s->rows) memcpy(part, s->row[r].data + 2 * col, 2 * (size_t)count);
            for (int c = 0; c < 8; c++) {
                bytes16 x;
                memcpy(&x, part + 16 * c, 16);
                put_words(out + 512 * (c / 2), r & 7, 4, 2 * (c & 1) + (r >> 3), x);
            }
        }
    }
}

static void pack_quantised(const source *s, uint8_t *out) {
    int64_t cols = s->args->cols, tile_bytes = wr_linear_tile_bytes(s->kind);
    int code_bytes = 128 * kinds[s->kind].bits;
    uint8_t codes[WR_TILE_ROWS][SPAN];
    memset(codes, 0, sizeof(codes));
    for (int64_t col = 0; col < cols; col += SPAN) {
        int count = cols - col < SPAN ? (int)(cols - col) : SPAN;
        for (int r = 0; r < s->rows; r++) {
            wr_pack_codes(s->args, &s->row[r], col, count, codes[r]);
            memset(codes[r] + count, 0, (size_t)(SPAN - count));
        }
        for (int tile = 0; tile * WR_TILE_COLS < count; tile++, out += tile_bytes) {
            for (int g = 0; g < 8; g++)
                put_codes(s->kind, out, g, codes[g] + WR_TILE_COLS * tile, codes[g + 8] + WR_TILE_COLS * tile);
            memset(out + code_bytes, 0, (size_t)(tile_bytes - code_bytes));
            for (int r = 0; r < s->rows; r++)
                wr_pack_tile_scales(&s->format, &s->row[r], r, col + WR_TILE_COLS * tile, out + code_bytes);
        }
    }
}

/* Bytes of a published row of data, and of scales or biases. */
static void row_bytes(const wr_linear_args *args, size_t *data, size_t *scales) {
    weir_quant q = wr_linear_quant(args->quant);
    *scales = 0;
    if (q.mode == WEIR_QUANT_NONE) {
        *data = (size_t)args->cols * weir_dtype_bytes(args->weight_dtype);
    } else if (wr_quant_is_gguf(q.mode)) {
        *data = (size_t)(args->cols / wr_quant_block_values(q.mode) * wr_quant_block_bytes(q.mode));
    } else {
        *data = (size_t)args->cols / 8 * (size_t)q.bits;
        *scales = (size_t)(args->cols / q.group_size) *
                  (q.mode == WEIR_QUANT_AFFINE ? weir_dtype_bytes(args->weight_dtype) : 1);
    }
}

void wr_cuda_pack(const wr_linear_args *args, const void *data, const void *scales, const void *biases, void *packed,
                  int thread, int n_threads) {
    if (wr_cuda_packed_bytes(args) == 0) return;
    weir_quant q = wr_linear_quant(args->quant);
    source s = {.args = args, .kind = wr_linear_kind(args)};
    s.format = (wr_pack_format){.cols = args->cols,
                                .scales = kinds[s.kind].scales,
                                .mode = (int32_t)q.mode,
                                .bits = q.bits,
                                .group = q.group_size,
                                .weight_type = wr_linear_number_type(args->weight_dtype),
                                .block_bytes = (int32_t)wr_quant_block_bytes(q.mode)};
    size_t data_bytes, scale_bytes;
    row_bytes(args, &data_bytes, &scale_bytes);
    int64_t tiles = wr_linear_row_tiles(args->rows), n = args->experts * tiles;
    int64_t per = n / n_threads, more = n % n_threads;
    int64_t begin = per * thread + (thread < more ? thread : more), end = begin + per + (thread < more);
    size_t out_bytes = (size_t)(wr_linear_tile_bytes(s.kind) * wr_linear_k_tiles(args->cols));
    for (int64_t i = begin; i < end; i++) {
        int64_t first = i % tiles * WR_TILE_ROWS;
        size_t row = (size_t)(i / tiles * args->rows + first);
        s.rows = args->rows - first < WR_TILE_ROWS ? (int)(args->rows - first) : WR_TILE_ROWS;
        for (int r = 0; r < s.rows; r++)
            s.row[r] = (wr_pack_row){
                .data = (const uint8_t *)data + (row + (size_t)r) * data_bytes,
                .scales = scales ? (const uint8_t *)scales + (row + (size_t)r) * scale_bytes : NULL,
                .biases = biases ? (const uint8_t *)biases + (row + (size_t)r) * scale_bytes : NULL,
            };
        uint8_t *out = (uint8_t *)packed + (size_t)i * out_bytes;
        if (args->quant.mode == WEIR_QUANT_NONE)
            pack_dense(&s, out);
        else
            pack_quantised(&s, out);
    }
}
