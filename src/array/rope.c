/* Rotary frequencies of every published scaling, in double: angles reach 2^20 radians and must stay right to 1e-6.
 * Sources: RoPE (Su et al. 2021), dynamic NTK (bloc97, emozilla 2023), YaRN (Peng et al. 2023), Llama 3.1's smooth
 * ramp (Meta 2024), LongRoPE (Ding et al. 2024); attention factors as the checkpoints' own code has them. */
#include <math.h>
#include <string.h>

#include "array/internal.h"

static const double TAU = 6.283185307179586476925;

/* YaRN's attention temperature: 0.1 m ln(s) + 1. */
static double temperature(double scale, double m) { return scale <= 1 ? 1 : 0.1 * m * log(scale) + 1; }

/* The dimension whose wave turns n times within the original context. */
static double turning_dim(double n, double dims, double base, double original) {
    return dims * log(original / (n * TAU)) / (2 * log(base));
}

static void yarn(const weir_rope_options *o, double base, double factor, int dims, wr_rope_table_args *out) {
    double fast = o->beta_fast > 0 ? o->beta_fast : 32, slow = o->beta_slow > 0 ? o->beta_slow : 1;
    double low = turning_dim(fast, dims, base, o->original_max_positions);
    double high = turning_dim(slow, dims, base, o->original_max_positions);
    if (!o->no_truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, dims - 1);
    if (low == high) high += 0.001;
    for (int i = 0; i < out->half; i++) {
        double ramp = fmin(fmax((i - low) / (high - low), 0), 1); /* 1: interpolate, 0: as trained */
        out->inv_freq[i] = out->inv_freq[i] / factor * ramp + out->inv_freq[i] * (1 - ramp);
    }
    if (o->attention_factor > 0)
        out->attention_factor = o->attention_factor;
    else if (o->mscale != 0 && o->mscale_all_dim != 0)
        out->attention_factor = temperature(factor, o->mscale) / temperature(factor, o->mscale_all_dim);
    else
        out->attention_factor = temperature(factor, 1);
}

static void llama3(const weir_rope_options *o, double factor, wr_rope_table_args *out) {
    double original = o->original_max_positions, low = o->low_freq_factor, high = o->high_freq_factor;
    for (int i = 0; i < out->half; i++) {
        double wave = TAU / out->inv_freq[i];
        if (wave < original / high) continue;
        double keep = wave > original / low ? 0 : (original / wave - low) / (high - low);
        out->inv_freq[i] = (1 - keep) * out->inv_freq[i] / factor + keep * out->inv_freq[i];
    }
}

static weir_status check(const weir_rope_options *o, int dims, int head_dim, weir_error *err) {
    bool scaled = o->kind == WEIR_ROPE_DYNAMIC || o->kind == WEIR_ROPE_YARN || o->kind == WEIR_ROPE_LLAMA3 ||
                  o->kind == WEIR_ROPE_LONGROPE;
    if ((unsigned)o->kind > WEIR_ROPE_LONGROPE)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "rope: kind %d does not exist", (int)o->kind);
    if (dims < 2 || dims % 2 || dims > head_dim || dims > 2 * WR_ROPE_MAX_HALF)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "rope: %d rotated dimensions of a head of %d; even, 2 to %d are possible",
                       dims, head_dim, 2 * WR_ROPE_MAX_HALF);
    if (!(o->base >= 0) || o->base == 1 || !isfinite(o->base) || !(o->factor >= 0) || !isfinite(o->factor))
        return WR_FAIL(err, WEIR_E_ARGUMENT, "rope: base %g, factor %g are not possible", o->base, o->factor);
    if (scaled && !(o->original_max_positions >= 1 && isfinite(o->original_max_positions)))
        return WR_FAIL(err, WEIR_E_ARGUMENT, "rope: original_max_positions is %g; this scaling needs it",
                       o->original_max_positions);
    if (o->kind == WEIR_ROPE_LLAMA3 && !(o->low_freq_factor > 0 && o->high_freq_factor > o->low_freq_factor))
        return WR_FAIL(err, WEIR_E_ARGUMENT, "rope: low_freq_factor %g, high_freq_factor %g: need 0 < low < high",
                       o->low_freq_factor, o->high_freq_factor);
    if (o->kind == WEIR_ROPE_DYNAMIC && dims == 2)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "rope: dynamic scaling needs more than 2 rotated dimensions");
    if (o->kind == WEIR_ROPE_LONGROPE && !o->factors)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "rope: longrope needs its %d factors", dims / 2);
    return WEIR_OK;
}

weir_status wr_rope_frequencies(const weir_rope_options *o, int head_dim, wr_rope_table_args *out, weir_error *err) {
    memset(out, 0, sizeof *out);
    int dims = o->dims ? o->dims : head_dim;
    WR_TRY(check(o, dims, head_dim, err));
    double base = o->base > 0 ? o->base : 10000, factor = o->factor > 0 ? o->factor : 1;
    out->half = dims / 2;
    out->attention_factor = 1;
    if (o->kind == WEIR_ROPE_DYNAMIC) {
        double length = fmax(o->sequence_length, o->original_max_positions);
        base *= pow(factor * length / o->original_max_positions - (factor - 1), dims / (dims - 2.0));
    }
    for (int i = 0; i < out->half; i++) out->inv_freq[i] = pow(base, -2.0 * i / dims);
    switch (o->kind) {
    case WEIR_ROPE_LINEAR:
        for (int i = 0; i < out->half; i++) out->inv_freq[i] /= factor;
        break;
    case WEIR_ROPE_YARN: yarn(o, base, factor, dims, out); break;
    case WEIR_ROPE_LLAMA3: llama3(o, factor, out); break;
    case WEIR_ROPE_LONGROPE:
        for (int i = 0; i < out->half; i++) {
            if (!(o->factors[i] > 0) || !isfinite(o->factors[i]))
                return WR_FAIL(err, WEIR_E_ARGUMENT, "rope: longrope factor %d is %g", i, o->factors[i]);
            out->inv_freq[i] /= o->factors[i];
        }
        if (o->attention_factor > 0)
            out->attention_factor = o->attention_factor;
        else if (factor > 1)
            out->attention_factor = sqrt(1 + log(factor) / log(o->original_max_positions));
        break;
    default: break;
    }
    return WEIR_OK;
}
