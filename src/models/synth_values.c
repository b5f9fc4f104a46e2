/* Random values. A Philox block gives four words: codes use all of their bits, every
 * other kind of element uses one word, so that the value at a place needs no other.
 *
 * Quantised matrices are not rounded from floats; their codes are drawn uniformly,
 * which is quicker by far and as good for measuring, and the scales are chosen so
 * that the values have the wanted deviation. Where a scale is a code of few values
 * (E8M0, E4M3), the two neighbours of the wanted scale are mixed so that the mean
 * square is right. */
#include "models/synth_values.h"

#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/philox.h"

uint64_t wr_synth_key(uint64_t seed, const char *tensor) {
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (const char *c = tensor; *c; c++) hash = (hash ^ (uint8_t)*c) * 0x100000001b3u;
    uint32_t bits[4];
    wr_philox(seed, hash, bits);
    return (uint64_t)bits[1] << 32 | bits[0];
}

/* ---- choosing ---- */

static float scale_value(bool e8m0, uint8_t code) { return e8m0 ? wr_e8m0_to_f32(code) : wr_e4m3_to_f32(code); }

/* Mean square of the values that the codes of one element have. */
static double mean_square(weir_quant quant) {
    double sum = 0;
    if (quant.mode == WEIR_QUANT_AFFINE) return (ldexp(1, 2 * quant.bits) - 1) / 12; /* uniform integers, mean off */
    if (quant.bits == 4) {
        for (uint32_t i = 0; i < 16; i++) sum += (double)wr_e2m1_to_f32(i) * (double)wr_e2m1_to_f32(i);
        return sum / 16;
    }
    for (int i = 0; i < 256; i++) {
        double v = (double)wr_e4m3_to_f32((uint8_t)((i & 0x7f) == 0x7f ? i - 1 : i)); /* as fill_e4m3 */
        sum += v * v;
    }
    return sum / 256;
}

static void choose_scale_codes(weir_quant quant, double scale, wr_synth_values *v) {
    bool e8m0 = quant.mode != WEIR_QUANT_NVFP4;
    uint8_t last = e8m0 ? 253 : 0x7d, code = 1; /* never 0, never NaN */
    while (code < last && (double)scale_value(e8m0, (uint8_t)(code + 1)) <= scale) code++;
    double a = (double)scale_value(e8m0, code), b = (double)scale_value(e8m0, (uint8_t)(code + 1));
    double share = (scale * scale - a * a) / (b * b - a * a);
    share = share < 0 ? 0 : share > 1 ? 1 : share;
    v->low = code;
    v->high = (uint8_t)(code + 1);
    v->threshold = (uint32_t)(share * 4294967295.0);
}

void wr_synth_matrix_values(weir_quant quant, weir_dtype dtype, uint64_t seed, const char *name, double deviation,
                            wr_synth_values *data, wr_synth_values *scales, wr_synth_values *biases) {
    *data = (wr_synth_values){
        .kind = WR_SYNTH_DENSE, .dtype = dtype, .key = wr_synth_key(seed, name), .deviation = (float)deviation};
    if (quant.mode == WEIR_QUANT_NONE) return;
    double scale = deviation / sqrt(mean_square(quant));
    data->kind = quant.mode == WEIR_QUANT_MXFP8 ? WR_SYNTH_E4M3 : WR_SYNTH_CODES;
    data->dtype = WEIR_DTYPE_U32;
    *scales = (wr_synth_values){.kind = WR_SYNTH_SCALE_CODES, .dtype = WEIR_DTYPE_U8, .key = ~data->key};
    if (quant.mode != WEIR_QUANT_AFFINE) {
        choose_scale_codes(quant, scale, scales);
        return;
    }
    scales->kind = WR_SYNTH_SCALES;
    scales->dtype = dtype;
    scales->deviation = (float)scale;
    scales->middle = (float)(ldexp(1, quant.bits) - 1) / 2;
    *biases = *scales;
    biases->kind = WR_SYNTH_BIASES;
}

/* ---- filling ---- */

enum { BATCH_WORDS = 1024 };

/* Words [first, first + BATCH_WORDS) of the stream; first a multiple of 4. */
static void draw_words(uint64_t key, uint64_t first, uint32_t words[BATCH_WORDS]) {
    for (uint64_t i = 0; i < BATCH_WORDS / 4; i++) wr_philox(key, first / 4 + i, words + 4 * i);
}

static void store(weir_dtype dtype, float value, uint8_t *out, size_t i) {
    uint16_t half = dtype == WEIR_DTYPE_F16 ? wr_f32_to_f16(value) : wr_f32_to_bf16(value);
    if (dtype == WEIR_DTYPE_F32)
        memcpy(out + 4 * i, &value, 4);
    else
        memcpy(out + 2 * i, &half, 2);
}

static float rounded(weir_dtype dtype, float value) {
    if (dtype == WEIR_DTYPE_F16) return wr_f16_to_f32(wr_f32_to_f16(value));
    return dtype == WEIR_DTYPE_BF16 ? wr_bf16_to_f32(wr_f32_to_bf16(value)) : value;
}

/* The sum of four bytes, less its mean 510, over its deviation sqrt(4 * (256^2 - 1) / 12): nearly normal. */
static float normal(uint32_t word) {
    int sum = (int)((word & 255) + (word >> 8 & 255) + (word >> 16 & 255) + (word >> 24));
    return (float)(sum - 510) * (1 / 147.79823f);
}

/* An affine scale of either sign, its magnitude uniform in 0.75 to 1.25 times the wanted, whose mean square is 49/48.
 */
static float affine_scale(const wr_synth_values *v, uint32_t word) {
    float magnitude = v->deviation * (0.75f + 0.5f * (float)(word >> 8) * 0x1p-24f) * 0.98974332f;
    return rounded(v->dtype, word & 1 ? magnitude : -magnitude);
}

static void fill_batch(const wr_synth_values *v, const uint32_t *words, uint8_t *out, size_t n) {
    for (size_t i = 0; i < n; i++) {
        float scale;
        switch (v->kind) {
        case WR_SYNTH_DENSE: store(v->dtype, v->mean + v->deviation * normal(words[i]), out, i); break;
        case WR_SYNTH_SCALES: store(v->dtype, affine_scale(v, words[i]), out, i); break;
        case WR_SYNTH_BIASES:
            scale = affine_scale(v, words[i]);
            store(v->dtype, -scale * v->middle, out, i);
            break;
        case WR_SYNTH_SCALE_CODES: out[i] = words[i] < v->threshold ? v->high : v->low; break;
        case WR_SYNTH_CODES:
        case WR_SYNTH_E4M3: break;
        }
    }
}

static void fill_codes(const wr_synth_values *v, uint64_t offset, uint8_t *out, size_t bytes) {
    uint32_t words[BATCH_WORDS];
    for (size_t at = 0; at < bytes; at += sizeof words) {
        size_t n = bytes - at < sizeof words ? bytes - at : sizeof words;
        draw_words(v->key, (offset + at) / 4, words);
        memcpy(out + at, words, n);
    }
    if (v->kind != WR_SYNTH_E4M3) return;
    for (size_t i = 0; i < bytes; i++) out[i] = (uint8_t)(out[i] - ((out[i] & 0x7f) == 0x7f)); /* NaN to 448 */
}

void wr_synth_fill(const wr_synth_values *v, uint64_t offset, uint8_t *out, size_t bytes) {
    if (v->kind == WR_SYNTH_CODES || v->kind == WR_SYNTH_E4M3) {
        fill_codes(v, offset, out, bytes);
        return;
    }
    uint32_t words[BATCH_WORDS];
    size_t element = weir_dtype_bytes(v->dtype), count = bytes / element;
    for (size_t at = 0; at < count; at += BATCH_WORDS) {
        draw_words(v->key, offset / element + at, words);
        fill_batch(v, words, out + at * element, count - at < BATCH_WORDS ? count - at : BATCH_WORDS);
    }
}
