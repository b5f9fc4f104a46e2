/* Norms, rotary embedding, KV pages, convolution: double inside, one rounding at the end. */
#include "array/kv.h"
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

float wr_ref_rotated(const wr_tensor *x, const wr_tensor *table, bool interleaved, int64_t t, int64_t h, int64_t d) {
    int64_t from = t * x->strides[0] + h * x->strides[1], half = table ? table->shape[2] : 0;
    float own = wr_load_f32(x->data, x->dtype, from + d * x->strides[2]);
    if (d >= 2 * half) return own;
    bool second = interleaved ? d % 2 : d >= half;
    int64_t i = interleaved ? d / 2 : d % half, pair = interleaved ? d ^ 1 : second ? d - half : d + half;
    int64_t at = t * table->strides[0] + i * table->strides[2];
    double c = wr_load_f32(table->data, table->dtype, at);
    double s = wr_load_f32(table->data, table->dtype, at + table->strides[1]);
    double other = wr_load_f32(x->data, x->dtype, from + pair * x->strides[2]);
    double rounded[1];
    wr_store_f64(rounded, x->dtype, 0, second ? own * c + other * s : own * c - other * s);
    return wr_load_f32(rounded, x->dtype, 0);
}

void wr_ref_rope(const wr_step *step, int thread, int n_threads) {
    bool interleaved = ((const wr_rope_args *)step->args)->interleaved;
    const wr_tensor *x = &step->in[0], *table = &step->in[1], *out = &step->out; /* x [T, H, D], table [T, 2, half] */
    int64_t heads = x->shape[1], begin, end;
    wr_share(x->shape[0] * heads, thread, n_threads, &begin, &end);
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t t = unit / heads, h = unit % heads, to = t * out->strides[0] + h * out->strides[1];
        for (int64_t d = 0; d < x->shape[2]; d++)
            wr_store_f32(out->data, out->dtype, to + d * out->strides[2],
                         wr_ref_rotated(x, table, interleaved, t, h, d));
    }
}

/* Rows of x into pages; those whose sequence, page or position does not exist are skipped. rows: block table,
 * sequences, positions; rope: NULL or the table that rotates them first. */
static void write_rows(const wr_tensor *pages, const wr_tensor *x, const wr_tensor *rows, const wr_kv_args *args,
                       const wr_tensor *rope, int thread, int n_threads) {
    const wr_tensor *table = &rows[0];
    const int32_t *row_seq = rows[1].data, *row_pos = rows[2].data;
    int64_t page_size = pages->shape[1], heads = pages->shape[2], columns = pages->shape[3], begin, end;
    if (wr_tensor_size(pages) == 0) return;
    wr_share(x->shape[0], thread, n_threads, &begin, &end);
    for (int64_t t = begin; t < end; t++) {
        int64_t seq = row_seq[t], pos = row_pos[t];
        if (seq < 0 || seq >= table->shape[0] || pos < 0 || pos / page_size >= table->shape[1]) continue;
        int64_t page = ((const int32_t *)table->data)[seq * table->shape[1] + pos / page_size];
        if (page < 0 || page >= pages->shape[0]) continue;
        for (int64_t g = 0; g < heads; g++) {
            int64_t to = wr_kv_row(args->tiled, page, pos % page_size, g, page_size, heads, columns);
            for (int64_t d = 0; d < x->shape[2]; d++)
                wr_store_f32(pages->data, pages->dtype, to + wr_kv_column(args->tiled, pos % page_size, d),
                             wr_ref_rotated(x, rope, args->interleaved, t, g, d));
        }
    }
}

void wr_ref_kv_write(const wr_step *step, int thread, int n_threads) {
    write_rows(&step->out, &step->in[1], &step->in[2], step->args, NULL, thread, n_threads);
}

void wr_ref_kv_append(const wr_step *step, int thread, int n_threads) {
    const wr_kv_args *args = step->args;
    const wr_tensor *in = step->in, *rope = args->has_rope ? &in[7] : NULL;
    write_rows(&in[0], &in[2], &in[4], args, rope, thread, n_threads);
    write_rows(&in[1], &in[3], &in[4], args, NULL, thread, n_threads);
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
