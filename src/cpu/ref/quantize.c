/* Quantising as MLX 0.32.4 does on the CPU. Each of the three ops (packed weight, scales, biases) computes a group anew
 * and keeps its part; a group is independent of all others.
 *
 * Affine, in f32, per group of w: side = |min| > |max|; scale = max((max - min) / (2^bits - 1), 1e-7), negated unless
 * side; edge = side ? min : max; q0 = rint(edge / scale); q0 != 0: scale = edge / q0, bias = edge; else bias = 0;
 * q = clamp(rint((w - bias) / scale)). Scale and bias are rounded to the dtype of w after use.
 *
 * The small floats, in the dtype of w (every operation is rounded to it), per group: s = max|w| / the largest element.
 * mxfp4, mxfp8: scale = 2^ceil(log2(s)), 1 for s = 0, stored with the bias 127. nvfp4: scale = s as E4M3.
 * Element = w / scale: E2M1 nearest, ties towards 0, no negative zero; E4M3 nearest, ties to even, saturated. */
#include "cpu/ref/kernels.h"
#include "cpu/ref/util.h"

enum { MAX_GROUP = 128 };

typedef struct group {
    float scale, bias;  /* affine */
    uint8_t scale_code; /* the others */
    uint8_t q[MAX_GROUP];
} group;

/* Nearest E4M3, ties to even, saturated at 448; NaN stays NaN. */
static uint8_t f32_to_e4m3(float f) {
    uint8_t sign = (uint8_t)(wr_f32_bits(f) >> 31 << 7);
    float a = fabsf(f);
    if (isnan(a)) return sign | 0x7f;
    if (a >= 448) return sign | 0x7e;
    if (a < 0x1p-6f) return sign | (uint8_t)rintf(a * 0x1p9f); /* 8 is the least normal number */
    uint32_t bits = wr_f32_bits(a);
    bits += 0x7ffff + (bits >> 20 & 1);
    return sign | (uint8_t)((bits >> 20) - (120u << 3));
}

/* Nearest of {0, .5, 1, 1.5, 2, 3, 4, 6}, ties towards 0; NaN gives 0. */
static uint8_t f32_to_e2m1(float f) {
    static const float above[7] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5};
    uint8_t code = 0;
    while (code < 7 && fabsf(f) > above[code]) code++;
    return code && f < 0 ? code | 8 : code;
}

static void quantize_affine(const float *w, weir_quant quant, group *g) {
    float low = INFINITY, high = -INFINITY, bins = (float)((1 << quant.bits) - 1);
    for (int i = 0; i < quant.group_size; i++) {
        low = w[i] < low ? w[i] : low;
        high = w[i] > high ? w[i] : high;
    }
    bool side = fabsf(low) > fabsf(high);
    float scale = (high - low) / bins;
    if (!(scale > 1e-7f)) scale = 1e-7f;
    if (!side) scale = -scale;
    float edge = side ? low : high, q0 = rintf(edge / scale), bias = 0;
    if (q0 != 0) {
        scale = edge / q0;
        bias = edge;
    }
    for (int i = 0; i < quant.group_size; i++) {
        float q = rintf((w[i] - bias) / scale);
        g->q[i] = (uint8_t)(q > 0 ? (q > bins ? bins : q) : 0);
    }
    g->scale = scale;
    g->bias = bias;
}

static float rounded(float value, weir_dtype dtype) {
    if (dtype == WEIR_DTYPE_F16) return wr_f16_to_f32(wr_f32_to_f16(value));
    return dtype == WEIR_DTYPE_BF16 ? wr_bf16_to_f32(wr_f32_to_bf16(value)) : value;
}

static void quantize_small_floats(const float *w, weir_quant quant, weir_dtype dtype, group *g) {
    float largest = 0;
    bool four = quant.bits == 4;
    for (int i = 0; i < quant.group_size; i++) largest = fabsf(w[i]) > largest ? fabsf(w[i]) : largest;
    float scale = rounded(largest / (four ? 6.0f : 448.0f), dtype);
    if (quant.mode == WEIR_QUANT_NVFP4) {
        g->scale_code = f32_to_e4m3(scale);
        scale = wr_e4m3_to_f32(g->scale_code);
    } else {
        float exponent = scale == 0 ? 0 : ceilf(rounded(log2f(scale), dtype));
        exponent = exponent < -127 ? -127 : exponent > 127 ? 127 : exponent;
        g->scale_code = (uint8_t)((int)exponent + 127);
        scale = rounded(exp2f(exponent), dtype);
    }
    for (int i = 0; i < quant.group_size; i++) {
        float v = scale == 0 ? 0 : rounded(w[i] / scale, dtype);
        g->q[i] = four ? f32_to_e2m1(v) : f32_to_e4m3(v);
    }
}

/* The group's numbers as a little-endian stream of bits; a group is a whole number of bytes. */
static void pack_group(const group *g, weir_quant quant, uint8_t *out) {
    uint32_t held = 0;
    int n_held = 0;
    for (int i = 0; i < quant.group_size; i++) {
        held |= (uint32_t)g->q[i] << n_held;
        for (n_held += quant.bits; n_held >= 8; n_held -= 8, held >>= 8) *out++ = (uint8_t)held;
    }
}

void wr_ref_quantize(const wr_step *step, int thread, int n_threads) {
    weir_quant quant = ((const wr_quantize_args *)step->args)->quant;
    const wr_tensor *w = &step->in[0], *out = &step->out;
    int64_t group_bytes = quant.group_size * quant.bits / 8, begin, end;
    wr_share(wr_tensor_size(w) / quant.group_size, thread, n_threads, &begin, &end);
    for (int64_t index = begin; index < end; index++) {
        float values[MAX_GROUP];
        group g = {0};
        for (int i = 0; i < quant.group_size; i++)
            values[i] = wr_load_f32(w->data, w->dtype, index * quant.group_size + i);
        if (quant.mode == WEIR_QUANT_AFFINE)
            quantize_affine(values, quant, &g);
        else
            quantize_small_floats(values, quant, w->dtype, &g);
        if (step->op == WR_OP_QUANTIZE_WEIGHT)
            pack_group(&g, quant, (uint8_t *)out->data + index * group_bytes);
        else if (step->op == WR_OP_QUANTIZE_BIASES)
            wr_store_f32(out->data, out->dtype, index, g.bias);
        else if (quant.mode == WEIR_QUANT_AFFINE)
            wr_store_f32(out->data, out->dtype, index, g.scale);
        else
            ((uint8_t *)out->data)[index] = g.scale_code;
    }
}
