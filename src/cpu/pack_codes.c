/* Published blocks to one byte a code, and their scales to the packed header. The
 * formats are ggml's and MLX's, restated in docs; see cpu/pack.h for the target. */
#include <string.h>

#include "base/dtype.h"
#include "cpu/pack.h"

static void put16(uint8_t *array, int row, const uint8_t *value) { memcpy(array + 2 * row, value, 2); }
static void put32(uint8_t *array, int row, uint32_t value) { memcpy(array + 4 * row, &value, 4); }

/* 16 bytes of nibbles: low ones are columns 0..15, high ones 16..31. */
static void nibbles32(const uint8_t *qs, uint8_t *codes) {
    for (int i = 0; i < 16; i++) {
        codes[i] = qs[i] & 15;
        codes[i + 16] = qs[i] >> 4;
    }
}

/* Sixteen codes, a byte each, as two words: a baseline vector. Codes are stored in whole vectors, since that is how the
 * packer loads them, and a load that spans two stores waits for both to reach the cache. */
typedef uint64_t codes8x2 __attribute__((vector_size(16)));

/* Bit i of four bytes becomes bit 4 of code i. */
static void high_bits32(const uint8_t *qh, uint8_t *codes) {
    for (int i = 0; i < 2; i++) {
        codes8x2 c, bits = {qh[2 * i], qh[2 * i + 1]};
        bits |= bits << 8;
        bits |= bits << 16;
        bits |= bits << 32;
        bits &= 0x8040201008040201u; /* bit k alone in byte k */
        bits = ((bits + 0x7f7f7f7f7f7f7f7fu) & 0x8080808080808080u) >> 3;
        memcpy(&c, codes + 16 * i, 16);
        c |= bits;
        memcpy(codes + 16 * i, &c, 16);
    }
}

/* `bits` (2..6) bytes as a number, by loads of 1, 2 and 4. */
static inline __attribute__((always_inline)) uint64_t load_bytes(const uint8_t *data, const int bits) {
    uint32_t four = 0;
    uint16_t two = 0;
    if (bits < 4) {
        memcpy(&two, data, 2);
        return bits == 2 ? two : two | (uint64_t)data[2] << 16;
    }
    memcpy(&four, data, 4);
    if (bits == 4) return four;
    if (bits == 5) return four | (uint64_t)data[4] << 32;
    memcpy(&two, data + 4, 2);
    return four | (uint64_t)two << 32;
}

/* MLX: a little-endian bit stream; 8 codes are `bits` whole bytes, spread to a byte each by halves. */
static inline __attribute__((always_inline)) void stream(const uint8_t *data, int values, const int bits,
                                                         uint8_t *codes) {
    const uint64_t m4 = (1ull << (4 * bits)) - 1, m2 = ((1ull << (2 * bits)) - 1) * 0x0000000100000001u,
                   m1 = ((1ull << bits) - 1) * 0x0001000100010001u;
    for (int i = 0; i < values; i += 16, data += 2 * bits) {
        codes8x2 x = {load_bytes(data, bits), load_bytes(data + bits, bits)};
        x = (x & m4) | (x >> (4 * bits) & m4) << 32;
        x = (x & m2) | (x >> (2 * bits) & m2) << 16;
        x = (x & m1) | (x >> bits & m1) << 8;
        memcpy(codes + i, &x, 16);
    }
}

static void decode_affine(const wr_pack_source *s, int row, uint8_t *codes, uint8_t *header) {
    switch (s->bits) {
    case 2: stream(s->data, s->values, 2, codes); break;
    case 3: stream(s->data, s->values, 3, codes); break;
    case 4: stream(s->data, s->values, 4, codes); break;
    case 5: stream(s->data, s->values, 5, codes); break;
    case 6: stream(s->data, s->values, 6, codes); break;
    default: memcpy(codes, s->data, (size_t)s->values); break;
    }
    size_t element = weir_dtype_bytes(s->scale_dtype);
    memcpy(header + element * (size_t)row, s->scales, element);
    memcpy(header + element * (size_t)(WR_PACK_ROWS + row), s->biases, element);
}

/* Q4_K and Q5_K: d, dmin, 12 bytes of 6-bit scales and mins. */
static void k_scales(const uint8_t *b, int row, uint8_t *header) {
    const uint8_t *scales = b + 4;
    uint32_t low = 0, low_min = 0, high = 0;
    for (int j = 0; j < 8; j++) {
        uint32_t sc, mn;
        if (j < 4) {
            sc = scales[j] & 63;
            mn = scales[j + 4] & 63;
        } else {
            sc = (scales[j + 4] & 15u) | (uint32_t)(scales[j - 4] >> 6) << 4;
            mn = (uint32_t)(scales[j + 4] >> 4) | (uint32_t)(scales[j] >> 6) << 4;
        }
        low |= (sc & 15) << (4 * j);
        low_min |= (mn & 15) << (4 * j);
        high |= (sc >> 4) << (2 * j) | (mn >> 4) << (16 + 2 * j);
    }
    put16(header, row, b);
    put16(header + 32, row, b + 2);
    put32(header + 64, row, low);
    put32(header + 128, row, low_min);
    put32(header + 192, row, high);
}

static void decode_q4_k(const uint8_t *b, int row, uint8_t *codes, uint8_t *header) {
    k_scales(b, row, header);
    for (int c = 0; c < 4; c++)
        for (int i = 0; i < 32; i++) {
            uint8_t q = b[16 + 32 * c + i];
            codes[64 * c + i] = q & 15;
            codes[64 * c + 32 + i] = q >> 4;
        }
}

static void decode_q5_k(const uint8_t *b, int row, uint8_t *codes, uint8_t *header) {
    k_scales(b, row, header);
    const uint8_t *qh = b + 16, *qs = b + 48;
    for (int c = 0; c < 4; c++)
        for (int i = 0; i < 32; i++) {
            uint8_t q = qs[32 * c + i], h = (uint8_t)(qh[i] >> (2 * c));
            codes[64 * c + i] = (uint8_t)((q & 15) | (h & 1) << 4);
            codes[64 * c + 32 + i] = (uint8_t)(q >> 4 | (h & 2) << 3);
        }
}

static void decode_q6_k(const uint8_t *b, int row, uint8_t *codes, uint8_t *header) {
    for (int n = 0; n < 2; n++) {
        const uint8_t *ql = b + 64 * n, *qh = b + 128 + 32 * n;
        uint8_t *c = codes + 128 * n;
        for (int i = 0; i < 32; i++) {
            c[i] = (uint8_t)((ql[i] & 15) | (qh[i] & 3) << 4);
            c[i + 32] = (uint8_t)((ql[i + 32] & 15) | (qh[i] & 12) << 2);
            c[i + 64] = (uint8_t)(ql[i] >> 4 | (qh[i] & 48));
            c[i + 96] = (uint8_t)(ql[i + 32] >> 4 | (qh[i] & 192) >> 2);
        }
    }
    put16(header, row, b + 208);
    for (int w = 0; w < 4; w++) memcpy(header + 32 + 64 * w + 4 * row, b + 192 + 4 * w, 4);
}

static void decode_q3_k(const uint8_t *b, int row, uint8_t *codes, uint8_t *header) {
    const uint8_t *hmask = b, *qs = b + 32, *scales = b + 96;
    for (int n = 0; n < 2; n++)
        for (int j = 0; j < 4; j++)
            for (int i = 0; i < 32; i++)
                codes[128 * n + 32 * j + i] =
                    (uint8_t)(((qs[32 * n + i] >> (2 * j)) & 3) | ((hmask[i] >> (4 * n + j)) & 1) << 2);
    uint32_t low[2] = {0, 0}, high = 0;
    for (int s = 0; s < 16; s++) {
        uint32_t nibble = s < 8 ? scales[s] & 15u : (uint32_t)scales[s - 8] >> 4;
        low[s / 8] |= nibble << (4 * (s % 8));
        high |= (((uint32_t)scales[8 + s % 4] >> (2 * (s / 4))) & 3) << (2 * s);
    }
    put16(header, row, b + 108);
    put32(header + 32, row, low[0]);
    put32(header + 96, row, low[1]);
    put32(header + 160, row, high);
}

static void decode_q2_k(const uint8_t *b, int row, uint8_t *codes, uint8_t *header) {
    const uint8_t *qs = b + 16;
    for (int n = 0; n < 2; n++)
        for (int j = 0; j < 4; j++)
            for (int i = 0; i < 32; i++) codes[128 * n + 32 * j + i] = (qs[32 * n + i] >> (2 * j)) & 3;
    uint32_t sc[2] = {0, 0}, mn[2] = {0, 0};
    for (int s = 0; s < 16; s++) {
        sc[s / 8] |= (uint32_t)(b[s] & 15) << (4 * (s % 8));
        mn[s / 8] |= (uint32_t)(b[s] >> 4) << (4 * (s % 8));
    }
    put16(header, row, b + 80);
    put16(header + 32, row, b + 82);
    for (int w = 0; w < 2; w++) {
        put32(header + 64 + 64 * w, row, sc[w]);
        put32(header + 192 + 64 * w, row, mn[w]);
    }
}

void wr_pack_decode(wr_pack_format format, const wr_pack_source *source, int row, uint8_t *codes, uint8_t *header) {
    const uint8_t *b = source->data;
    switch (format) {
    case WR_PACK_Q4_0:
        put16(header, row, b);
        nibbles32(b + 2, codes);
        break;
    case WR_PACK_Q5_0:
        put16(header, row, b);
        nibbles32(b + 6, codes);
        high_bits32(b + 2, codes);
        break;
    case WR_PACK_Q8_0:
        put16(header, row, b);
        for (int i = 0; i < 32; i++) codes[i] = b[2 + i] ^ 0x80;
        break;
    case WR_PACK_Q2_K: decode_q2_k(b, row, codes, header); break;
    case WR_PACK_Q3_K: decode_q3_k(b, row, codes, header); break;
    case WR_PACK_Q4_K: decode_q4_k(b, row, codes, header); break;
    case WR_PACK_Q5_K: decode_q5_k(b, row, codes, header); break;
    case WR_PACK_Q6_K: decode_q6_k(b, row, codes, header); break;
    case WR_PACK_MXFP4:
        stream(b, 32, 4, codes);
        header[row] = source->scales[0];
        break;
    case WR_PACK_NVFP4:
        stream(b, 32, 4, codes);
        header[row] = source->scales[0];
        header[WR_PACK_ROWS + row] = source->scales[1];
        break;
    case WR_PACK_MXFP8:
        memcpy(codes, b, 32);
        header[row] = source->scales[0];
        break;
    case WR_PACK_Q4_1:
        put16(header, row, b);
        put16(header + 32, row, b + 2);
        nibbles32(b + 4, codes);
        break;
    case WR_PACK_Q5_1:
        put16(header, row, b);
        put16(header + 32, row, b + 2);
        nibbles32(b + 8, codes);
        high_bits32(b + 4, codes);
        break;
    default: decode_affine(source, row, codes, header);
    }
}
