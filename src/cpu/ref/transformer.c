/* Norms, rotary embedding, KV pages, convolution: double inside, one rounding at the end. */
#include "cpu/ref/kernels.h"
#include "cpu/ref/util.h"

/* RMS_NORM: y = x / sqrt(mean(x^2) + eps) * (weight + offset). LAYER_NORM: y = (x - mean) / sqrt(var + eps) * weight +
 * bias, variance over n. Both over the last axis. */
void wr_ref_norm(const wr_step *step, int thread, int n_threads) {
    const wr_norm_args *a = step->args;
    const wr_tensor *x = &step->in[0], *out = &step->out;
    const wr_tensor *weight = step->n_in > 1 ? &step->in[1] : NULL, *bias = step->n_in > 2 ? &step->in[2] : NULL;
    bool centred = step->op == WR_OP_LAYER_NORM;
    int64_t n = x->shape[x->n_dims - 1], begin, end;
    if (wr_tensor_size(x) == 0) return;
    wr_share(wr_tensor_size(x) / n, thread, n_threads, &begin, &end);
    for (int64_t row = begin; row < end; row++) {
        double mean = 0, square = 0;
        for (int64_t i = 0; centred && i < n; i++) mean += wr_load_f32(x->data, x->dtype, row * n + i);
        mean /= (double)n;
        for (int64_t i = 0; i < n; i++) {
            double v = wr_load_f32(x->data, x->dtype, row * n + i) - mean;
            square += v * v;
        }
        double factor = 1 / sqrt(square / (double)n + a->eps);
        for (int64_t i = 0; i < n; i++) {
            double y = (wr_load_f32(x->data, x->dtype, row * n + i) - mean) * factor;
            if (weight) y *= (double)wr_load_f32(weight->data, weight->dtype, i) + (centred ? 0 : a->weight_offset);
            if (bias) y += wr_load_f32(bias->data, bias->dtype, i);
            wr_store_f64(out->data, out->dtype, row * n + i, y);
        }
    }
}

/* The angle is one product in double, so it is off by at most 2^-53 of itself: below 1e-9 at position 2^20 and
 * frequency 1; the C library's cos and sin of a double reduce it exactly. */
void wr_ref_rope_table(const wr_step *step, int thread, int n_threads) {
    const wr_rope_table_args *a = step->args;
    const wr_tensor *positions = &step->in[0];
    float *table = step->out.data; /* [T, 2, half] */
    int64_t begin, end;
    wr_share(wr_tensor_size(positions), thread, n_threads, &begin, &end);
    for (int64_t t = begin; t < end; t++) {
        double position = (double)wr_load_i64(positions->data, positions->dtype, t);
        for (int i = 0; i < a->half; i++) {
            double angle = position * a->inv_freq[i];
            table[(2 * t) * a->half + i] = (float)(cos(angle) * a->attention_factor);
            table[(2 * t + 1) * a->half + i] = (float)(sin(angle) * a->attention_factor);
        }
    }
}

void wr_ref_rope(const wr_step *step, int thread, int n_threads) {
    bool interleaved = ((const wr_rope_args *)step->args)->interleaved;
    const wr_tensor *x = &step->in[0], *table = &step->in[1], *out = &step->out; /* x [T, H, D], table [T, 2, half] */
    int64_t heads = x->shape[1], half = table->shape[2], begin, end;
    wr_share(x->shape[0] * heads, thread, n_threads, &begin, &end);
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t t = unit / heads, h = unit % heads;
        int64_t from = t * x->strides[0] + h * x->strides[1], to = t * out->strides[0] + h * out->strides[1];
        for (int64_t i = 0; i < half; i++) {
            int64_t first = interleaved ? 2 * i : i, second = interleaved ? 2 * i + 1 : i + half;
            int64_t at = t * table->strides[0] + i * table->strides[2];
            double c = wr_load_f32(table->data, table->dtype, at);
            double s = wr_load_f32(table->data, table->dtype, at + table->strides[1]);
            double a = wr_load_f32(x->data, x->dtype, from + first * x->strides[2]);
            double b = wr_load_f32(x->data, x->dtype, from + second * x->strides[2]);
            wr_store_f64(out->data, out->dtype, to + first * out->strides[2], a * c - b * s);
            wr_store_f64(out->data, out->dtype, to + second * out->strides[2], b * c + a * s);
        }
        for (int64_t i = 2 * half; i < x->shape[2]; i++)
            wr_store_f32(out->data, out->dtype, to + i * out->strides[2],
                         wr_load_f32(x->data, x->dtype, from + i * x->strides[2]));
    }
}

/* Rows whose sequence, page or position does not exist are skipped. */
void wr_ref_kv_write(const wr_step *step, int thread, int n_threads) {
    const wr_tensor *pages = &step->out, *x = &step->in[1], *table = &step->in[2];
    const int32_t *row_seq = step->in[3].data, *row_pos = step->in[4].data;
    int64_t page_size = pages->shape[1], width = pages->shape[2] * pages->shape[3], begin, end;
    if (wr_tensor_size(pages) == 0) return;
    wr_share(x->shape[0], thread, n_threads, &begin, &end);
    for (int64_t t = begin; t < end; t++) {
        int64_t seq = row_seq[t], pos = row_pos[t];
        if (seq < 0 || seq >= table->shape[0] || pos < 0 || pos / page_size >= table->shape[1]) continue;
        int64_t page = ((const int32_t *)table->data)[seq * table->shape[1] + pos / page_size];
        if (page < 0 || page >= pages->shape[0]) continue;
        int64_t to = (page * page_size + pos % page_size) * width;
        for (int64_t g = 0; g < pages->shape[2]; g++)
            wr_ref_cast_run(wr_at(pages, to + g * pages->shape[3]), pages->dtype, 1,
                            wr_at(x, t * x->strides[0] + g * x->strides[1]), x->dtype, x->strides[2], pages->shape[3]);
    }
}

/* x [B, L, C], w [O, kernel, C/groups], y [B, L', O]. */
void wr_ref_conv1d(const wr_step *step, int thread, int n_threads) {
    const wr_conv1d_args *a = step->args;
    const wr_tensor *x = &step->in[0], *w = &step->in[1], *bias = step->n_in > 2 ? &step->in[2] : NULL;
    const wr_tensor *out = &step->out;
    int64_t length = x->shape[1], channels = x->shape[2], outputs = w->shape[0], kernel = w->shape[1];
    int64_t in_group = w->shape[2], begin, end;
    wr_share(wr_tensor_size(out), thread, n_threads, &begin, &end);
    for (int64_t index = begin; index < end; index++) {
        int64_t o = index % outputs, at = index / outputs % out->shape[1], b = index / outputs / out->shape[1];
        int64_t first_channel = o / (outputs / a->groups) * in_group;
        double sum = bias ? wr_load_f32(bias->data, bias->dtype, o) : 0;
        for (int64_t k = 0; k < kernel; k++) {
            int64_t source = at * a->stride + k * a->dilation - a->pad_low;
            if (source < 0 || source >= length) continue;
            for (int64_t c = 0; c < in_group; c++)
                sum += (double)wr_load_f32(x->data, x->dtype, (b * length + source) * channels + first_channel + c) *
                       (double)wr_load_f32(w->data, w->dtype, (o * kernel + k) * in_group + c);
        }
        wr_store_f64(out->data, out->dtype, index, sum);
    }
}
