/* Packing of published weights into the layout of cpu/pack.h, and back. */
#include "cpu/pack.h"

#include <string.h>

#include "base/dtype.h"
#include "base/mem.h"
#include "cpu/linear.h"

static const struct {
    wr_pack_bits bits;
    wr_pack_scales scales;
} formats[WR_PACK_INTEGER_COUNT] = {
#define ROW(name, bits, scales, offset) {bits, scales},
    WR_PACK_FORMATS(ROW)
#undef ROW
};

/* MLX's defaults stand in for an affine group or width of 0. */
static int affine_bits(const wr_linear_args *args) { return args->quant.bits ? args->quant.bits : 4; }

/* The integer or f32 format of a quantisation; WR_PACK_COUNT when it has none. */
static wr_pack_format format_of(const wr_linear_args *args) {
    switch (args->quant.mode) {
    case WEIR_QUANT_NONE:
        return args->weight_dtype == WEIR_DTYPE_BF16  ? WR_PACK_BF16
               : args->weight_dtype == WEIR_DTYPE_F16 ? WR_PACK_F16
               : args->weight_dtype == WEIR_DTYPE_F32 ? WR_PACK_F32
                                                      : WR_PACK_COUNT;
    case WEIR_QUANT_AFFINE:
        if (args->weight_dtype != WEIR_DTYPE_BF16 && args->weight_dtype != WEIR_DTYPE_F16 &&
            args->weight_dtype != WEIR_DTYPE_F32)
            return WR_PACK_COUNT;
        switch (affine_bits(args)) {
        case 2: return WR_PACK_AFFINE2;
        case 3: return WR_PACK_AFFINE3;
        case 4: return WR_PACK_AFFINE4;
        case 5: return WR_PACK_AFFINE5;
        case 6: return WR_PACK_AFFINE6;
        case 8: return WR_PACK_AFFINE8;
        default: return WR_PACK_COUNT;
        }
    case WEIR_QUANT_MXFP4: return WR_PACK_MXFP4;
    case WEIR_QUANT_NVFP4: return WR_PACK_NVFP4;
    case WEIR_QUANT_MXFP8: return WR_PACK_MXFP8;
    case WEIR_QUANT_Q4_0: return WR_PACK_Q4_0;
    case WEIR_QUANT_Q4_1: return WR_PACK_Q4_1;
    case WEIR_QUANT_Q5_0: return WR_PACK_Q5_0;
    case WEIR_QUANT_Q5_1: return WR_PACK_Q5_1;
    case WEIR_QUANT_Q8_0: return WR_PACK_Q8_0;
    case WEIR_QUANT_Q2_K: return WR_PACK_Q2_K;
    case WEIR_QUANT_Q3_K: return WR_PACK_Q3_K;
    case WEIR_QUANT_Q4_K: return WR_PACK_Q4_K;
    case WEIR_QUANT_Q5_K: return WR_PACK_Q5_K;
    case WEIR_QUANT_Q6_K: return WR_PACK_Q6_K;
    default: return WR_PACK_COUNT;
    }
}

/* Columns of a superblock. */
static int super_cols(const wr_linear_args *args) {
    if (wr_quant_is_gguf(args->quant.mode)) return (int)wr_quant_block_values(args->quant.mode);
    if (args->quant.mode == WEIR_QUANT_AFFINE) return args->quant.group_size ? args->quant.group_size : 64;
    return WR_PACK_COLS;
}

bool wr_pack_layout_of(const wr_linear_args *args, wr_pack_layout *out) {
    *out = (wr_pack_layout){.format = format_of(args),
                            .global_scale = args->global_scale,
                            .rows = args->rows,
                            .cols = args->cols,
                            .experts = args->experts};
    if (out->format == WR_PACK_COUNT || args->rows < 0 || args->cols < 0 || args->experts < 0) return false;
    out->row_blocks = args->rows / WR_PACK_ROWS + (args->rows % WR_PACK_ROWS != 0);
    int super = 1;
    if (args->quant.mode == WEIR_QUANT_NONE) {
        out->blocks = 1;
        out->block_bytes = (int)(WR_PACK_ROWS * weir_dtype_bytes(args->weight_dtype));
    } else {
        super = super_cols(args);
        if (super < WR_PACK_COLS || super > 256 || super % WR_PACK_COLS || args->cols % super) return false;
        out->blocks = super / WR_PACK_COLS;
        out->scale_dtype = args->quant.mode == WEIR_QUANT_AFFINE ? args->weight_dtype : WEIR_DTYPE_F16;
        if (out->format == WR_PACK_MXFP8) {
            out->header_bytes = 16;
            out->block_bytes = 512;
        } else {
            out->header_bytes = wr_pack_header_bytes(formats[out->format].scales, weir_dtype_bytes(out->scale_dtype));
            out->block_bytes = wr_pack_block_bytes(formats[out->format].bits);
        }
    }
    out->super_bytes = out->header_bytes + out->blocks * out->block_bytes;
    out->n_super = args->cols / super;
    size_t total;
    return wr_mul_size((size_t)out->n_super, (size_t)out->super_bytes, &out->row_block_bytes) &&
           wr_mul_size(out->row_block_bytes, (size_t)out->row_blocks, &out->expert_bytes) &&
           wr_mul_size(out->expert_bytes, (size_t)args->experts, &total);
}

size_t wr_cpu_packed_bytes(const wr_linear_args *args) {
    wr_pack_layout layout;
    return wr_pack_layout_of(args, &layout) ? layout.expert_bytes * (size_t)layout.experts : 0;
}

static inline void put_word(uint8_t *plane, int word, int row, uint32_t value) {
    memcpy(plane + 4 * (WR_PACK_ROWS * word + row), &value, 4);
}

/* Two words of eight codes, a byte each. A baseline vector, so that any compiler handles it well. */
typedef uint64_t codes8x2 __attribute__((vector_size(16)));

/* Columns 0..7 in bytes 0..7 to two quads, 0 4 1 5 and 2 6 3 7: halves are interleaved in two steps. */
static inline codes8x2 to_quads(codes8x2 x) {
    x = (x & 0xffff00000000ffffu) | (x & 0x00000000ffff0000u) << 16 | (x >> 16 & 0x00000000ffff0000u);
    return (x & 0xff0000ffff0000ffu) | (x & 0x0000ff000000ff00u) << 8 | (x >> 8 & 0x0000ff000000ff00u);
}
/* q: quads 0..7 of a block, two a word; planes take their bits from bit `shift` on. */
static inline void put_plane1(uint8_t *plane, int row, const codes8x2 *q, int shift) {
    codes8x2 a = q[0] >> shift & 0x0101010101010101u, b = q[1] >> shift & 0x0101010101010101u;
    a |= b << 4;
    a |= a >> 31;
    put_word(plane, 0, row, (uint32_t)(a[0] | a[1] << 2));
}
static inline void put_plane2(uint8_t *plane, int row, const codes8x2 *q, int shift) {
    for (int w = 0; w < 2; w++) {
        codes8x2 a = q[w] >> shift & 0x0303030303030303u;
        a |= a >> 30;
        put_word(plane, w, row, (uint32_t)(a[0] | a[1] << 4));
    }
}
static inline void put_plane4(uint8_t *plane, int row, const codes8x2 *q) {
    for (int w = 0; w < 2; w++) {
        codes8x2 a = q[w] & 0x0f0f0f0f0f0f0f0fu;
        a |= a >> 28;
        put_word(plane, 2 * w, row, (uint32_t)a[0]);
        put_word(plane, 2 * w + 1, row, (uint32_t)a[1]);
    }
}

/* 32 codes of one row into a block. */
static void put_block(wr_pack_bits bits, const uint8_t *codes, int row, uint8_t *block) {
    codes8x2 c[2];
    memcpy(c, codes, 32);
    c[0] = to_quads(c[0]);
    c[1] = to_quads(c[1]);
    switch (bits) {
    case WR_BITS_2: put_plane2(block, row, c, 0); break;
    case WR_BITS_3:
        put_plane2(block, row, c, 0);
        put_plane1(block + 128, row, c, 2);
        break;
    case WR_BITS_4:
    case WR_BITS_E2M1: put_plane4(block, row, c); break;
    case WR_BITS_5:
        put_plane4(block, row, c);
        put_plane1(block + 256, row, c, 4);
        break;
    case WR_BITS_6:
        put_plane4(block, row, c);
        put_plane2(block + 256, row, c, 4);
        break;
    case WR_BITS_8:
        for (int w = 0; w < 4; w++) {
            put_word(block, 2 * w, row, (uint32_t)c[w / 2][w % 2]);
            put_word(block, 2 * w + 1, row, (uint32_t)(c[w / 2][w % 2] >> 32));
        }
        break;
    }
}

static uint32_t get_word(const uint8_t *plane, int word, int row) {
    uint32_t value;
    memcpy(&value, plane + 4 * (WR_PACK_ROWS * word + row), 4);
    return value;
}
static uint32_t get_code(wr_pack_bits bits, const uint8_t *block, int row, int col) {
    int pair = col / 2, w = pair / 4, p = pair % 2, s = 2 * w + p, at = 8 * (pair % 4 / 2 + 2 * (col % 2));
    uint32_t two = get_word(block, s / 4, row) >> (at + 2 * (s % 4)) & 3;
    uint32_t four = bits == WR_BITS_2 ? 0 : get_word(block, w, row) >> (at + 4 * p) & 15; /* 2 bits: two words only */
    switch (bits) {
    case WR_BITS_2: return two;
    case WR_BITS_3: return two | (get_word(block + 128, 0, row) >> (at + s) & 1) << 2;
    case WR_BITS_4:
    case WR_BITS_E2M1: return four;
    case WR_BITS_5: return four | (get_word(block + 256, 0, row) >> (at + s) & 1) << 4;
    case WR_BITS_6: return four | (get_word(block + 256, s / 4, row) >> (at + 2 * (s % 4)) & 3) << 4;
    case WR_BITS_8: return get_word(block, s, row) >> at & 255;
    }
    return 0;
}

/* Dense rows of one row block: [16 rows][cols] to [cols][16 rows]. */
static inline __attribute__((always_inline)) void transpose(const uint8_t *data, int64_t rows, int64_t cols,
                                                            const size_t element, uint8_t *out) {
    enum { STRIP = 64 }; /* columns at a time: 16 source lines stay in L1 */
    for (int64_t c0 = 0; c0 < cols; c0 += STRIP) {
        int64_t c1 = c0 + STRIP < cols ? c0 + STRIP : cols;
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = c0; c < c1; c++)
                memcpy(out + ((size_t)c * WR_PACK_ROWS + (size_t)r) * element,
                       data + ((size_t)r * (size_t)cols + (size_t)c) * element, element);
        for (int64_t c = c0; c < c1 && rows < WR_PACK_ROWS; c++)
            memset(out + ((size_t)c * WR_PACK_ROWS + (size_t)rows) * element, 0,
                   (size_t)(WR_PACK_ROWS - rows) * element);
    }
}

/* Bytes of one published row of data and of scales. */
static void source_strides(const wr_linear_args *args, const wr_pack_layout *l, size_t *data, size_t *scales) {
    size_t n = (size_t)l->n_super;
    *scales = 0;
    if (args->quant.mode == WEIR_QUANT_NONE) {
        *data = (size_t)args->cols * weir_dtype_bytes(args->weight_dtype);
    } else if (wr_quant_is_gguf(args->quant.mode)) {
        *data = n * (size_t)wr_quant_block_bytes(args->quant.mode);
    } else {
        int bits = args->quant.mode == WEIR_QUANT_AFFINE  ? affine_bits(args)
                   : args->quant.mode == WEIR_QUANT_MXFP8 ? 8
                                                          : 4;
        *data = (size_t)args->cols / 8 * (size_t)bits;
        *scales = n * (args->quant.mode == WEIR_QUANT_AFFINE  ? weir_dtype_bytes(args->weight_dtype)
                       : args->quant.mode == WEIR_QUANT_NVFP4 ? 2
                                                              : 1);
    }
}

static void pack_row_block(const wr_linear_args *args, const wr_pack_layout *l, const uint8_t *data,
                           const uint8_t *scales, const uint8_t *biases, int64_t rows, size_t data_stride,
                           size_t scale_stride, uint8_t *out) {
    if (args->quant.mode == WEIR_QUANT_NONE) {
        if (l->format == WR_PACK_F32)
            transpose(data, rows, l->cols, 4, out);
        else
            transpose(data, rows, l->cols, 2, out);
        return;
    }
    if (rows < WR_PACK_ROWS) memset(out, 0, l->row_block_bytes);
    size_t data_step = l->n_super ? data_stride / (size_t)l->n_super : 0;
    size_t scale_step = l->n_super ? scale_stride / (size_t)l->n_super : 0;
    for (int64_t s = 0; s < l->n_super; s++, out += l->super_bytes)
        for (int64_t r = 0; r < rows; r++) {
            size_t d = (size_t)r * data_stride + (size_t)s * data_step;
            size_t c = (size_t)r * scale_stride + (size_t)s * scale_step;
            wr_pack_source source = {.data = data + d,
                                     .scales = scales ? scales + c : NULL,
                                     .biases = biases ? biases + c : NULL,
                                     .scale_dtype = l->scale_dtype,
                                     .bits = affine_bits(args),
                                     .values = l->blocks * WR_PACK_COLS};
            uint8_t codes[256];
            wr_pack_decode(l->format, &source, (int)r, codes, out);
            uint8_t *block = out + l->header_bytes;
            for (int b = 0; b < l->blocks; b++, block += l->block_bytes) {
                if (l->format == WR_PACK_MXFP8)
                    for (int k = 0; k < 32; k++) block[k * WR_PACK_ROWS + r] = codes[k];
                else
                    put_block(formats[l->format].bits, codes + 32 * b, (int)r, block);
            }
        }
}

void wr_cpu_pack(const wr_linear_args *args, const void *data, const void *scales, const void *biases, void *packed,
                 int thread, int n_threads) {
    wr_pack_layout l;
    if (!wr_pack_layout_of(args, &l)) return;
    size_t data_stride, scale_stride;
    source_strides(args, &l, &data_stride, &scale_stride);
    int64_t n = l.experts * l.row_blocks, per = n / n_threads, more = n % n_threads;
    int64_t begin = per * thread + (thread < more ? thread : more), end = begin + per + (thread < more);
    for (int64_t i = begin; i < end; i++) {
        int64_t expert = i / l.row_blocks, first = i % l.row_blocks * WR_PACK_ROWS;
        size_t row = (size_t)expert * (size_t)l.rows + (size_t)first;
        int64_t rows = l.rows - first < WR_PACK_ROWS ? l.rows - first : WR_PACK_ROWS;
        pack_row_block(args, &l, (const uint8_t *)data + row * data_stride,
                       scales ? (const uint8_t *)scales + row * scale_stride : NULL,
                       biases ? (const uint8_t *)biases + row * scale_stride : NULL, rows, data_stride, scale_stride,
                       (uint8_t *)packed + (size_t)i * l.row_block_bytes);
    }
}

static float half_at(const uint8_t *array, int row) {
    uint16_t h;
    memcpy(&h, array + 2 * row, 2);
    return wr_f16_to_f32(h);
}
static float element_at(weir_dtype dtype, const uint8_t *array, int64_t i) {
    if (dtype == WEIR_DTYPE_F32) {
        float f;
        memcpy(&f, array + 4 * i, 4);
        return f;
    }
    uint16_t h;
    memcpy(&h, array + 2 * i, 2);
    return dtype == WEIR_DTYPE_BF16 ? wr_bf16_to_f32(h) : wr_f16_to_f32(h);
}

/* Scale and bias of the 16 columns `half` of block b. */
static void scale_at(const wr_pack_layout *l, const uint8_t *h, int b, int half, int row, float *scale, float *bias) {
    int s = 2 * b + half;
    uint32_t sc, mn;
    *bias = 0;
    switch (formats[l->format].scales) {
    case WR_SCALES_F16: *scale = half_at(h, row); break;
    case WR_SCALES_F16_MIN:
        *scale = half_at(h, row);
        *bias = half_at(h + 32, row);
        break;
    case WR_SCALES_AFFINE:
        *scale = element_at(l->scale_dtype, h, row);
        *bias = element_at(l->scale_dtype, h, WR_PACK_ROWS + row);
        break;
    case WR_SCALES_K:
        sc = (get_word(h + 64, 0, row) >> (4 * b) & 15) | (get_word(h + 192, 0, row) >> (2 * b) & 3) << 4;
        mn = (get_word(h + 128, 0, row) >> (4 * b) & 15) | (get_word(h + 192, 0, row) >> (16 + 2 * b) & 3) << 4;
        *scale = half_at(h, row) * (float)sc;
        *bias = -(half_at(h + 32, row) * (float)mn);
        break;
    case WR_SCALES_Q6:
        *scale = half_at(h, row) * (float)(int8_t)(get_word(h + 32, s / 4, row) >> (8 * (s % 4)) & 255);
        break;
    case WR_SCALES_Q3:
        sc = (get_word(h + 32, s / 8, row) >> (4 * (s % 8)) & 15) | (get_word(h + 160, 0, row) >> (2 * s) & 3) << 4;
        *scale = half_at(h, row) * (float)((int)sc - 32);
        break;
    case WR_SCALES_Q2:
        *scale = half_at(h, row) * (float)(get_word(h + 64, s / 8, row) >> (4 * (s % 8)) & 15);
        *bias = -(half_at(h + 32, row) * (float)(get_word(h + 192, s / 8, row) >> (4 * (s % 8)) & 15));
        break;
    case WR_SCALES_E8M0: *scale = wr_e8m0_to_f32(h[row]); break;
    case WR_SCALES_E4M3: *scale = wr_e4m3_to_f32(h[WR_PACK_ROWS * half + row]); break;
    }
}

static const int offsets[WR_PACK_INTEGER_COUNT] = {
#define OFFSET(name, bits, scales, offset) offset,
    WR_PACK_FORMATS(OFFSET)
#undef OFFSET
};

/* 32 columns of one row. */
static void unpack_block(const wr_pack_layout *l, const uint8_t *header, int b, int row, float *out) {
    const uint8_t *block = header + l->header_bytes + b * l->block_bytes;
    if (l->format == WR_PACK_MXFP8) {
        float scale = wr_e8m0_to_f32(header[row]);
        for (int k = 0; k < 32; k++) out[k] = scale * wr_e4m3_to_f32(block[k * WR_PACK_ROWS + row]);
        return;
    }
    wr_pack_bits bits = formats[l->format].bits;
    int offset = offsets[l->format];
    bool biased = wr_pack_biased(formats[l->format].scales);
    for (int half = 0; half < 2; half++) {
        float scale, bias;
        scale_at(l, header, b, half, row, &scale, &bias);
        for (int k = 16 * half; k < 16 * half + 16; k++) {
            uint32_t code = get_code(bits, block, row, k);
            float value = bits == WR_BITS_E2M1 ? wr_e2m1_to_f32(code) : (float)((int)code - offset);
            out[k] = scale * value;
            if (biased) out[k] += bias;
            if (l->format == WR_PACK_NVFP4) out[k] *= l->global_scale;
        }
    }
}

void wr_pack_unpack(const wr_linear_args *args, const void *packed, int64_t expert, int64_t row, int64_t k0, int64_t n,
                    float *out) {
    wr_pack_layout l;
    if (!wr_pack_layout_of(args, &l)) return;
    int r = (int)(row % WR_PACK_ROWS);
    const uint8_t *p =
        (const uint8_t *)packed + (size_t)expert * l.expert_bytes + (size_t)(row / WR_PACK_ROWS) * l.row_block_bytes;
    if (args->quant.mode == WEIR_QUANT_NONE) {
        for (int64_t k = 0; k < n; k++) out[k] = element_at(args->weight_dtype, p, (k0 + k) * WR_PACK_ROWS + r);
        return;
    }
    for (int64_t k = k0; k < k0 + n; k += WR_PACK_COLS, out += WR_PACK_COLS) {
        int64_t g = k / WR_PACK_COLS;
        unpack_block(&l, p + (size_t)(g / l.blocks) * (size_t)l.super_bytes, (int)(g % l.blocks), r, out);
    }
}

void wr_cpu_unpack_row(const wr_linear_args *args, const void *packed, int64_t expert, int64_t row, float *out) {
    wr_pack_unpack(args, packed, expert, row, 0, args->cols, out);
}
