/* Multiplying. This is the yardstick of the fast kernels: weights are expanded to f32 by cpu/ref/dequant.c, products
 * and sums are double, and the result is rounded once to f32 and once to the dtype. */
#include "cpu/ref/dequant.h"
#include "cpu/ref/kernels.h"
#include "cpu/ref/util.h"

/* Offset of batch `index` of out's batch axes in an operand whose batch axes broadcast (aligned at the right). */
static int64_t batch_offset(const wr_tensor *t, const wr_tensor *out, int64_t index) {
    int64_t offset = 0;
    for (int d = out->n_dims - 3; d >= 0; d--) {
        int own = d - (out->n_dims - t->n_dims);
        if (own >= 0 && t->shape[own] != 1) offset += index % out->shape[d] * t->strides[own];
        index /= out->shape[d];
    }
    return offset;
}

/* a [.., M, K], b [.., K, N], out [.., M, N]. */
void wr_ref_matmul(const wr_step *step, int thread, int n_threads) {
    const wr_tensor *a = &step->in[0], *b = &step->in[1], *out = &step->out;
    if (wr_tensor_size(out) == 0) return;
    int rows_axis = out->n_dims - 2, cols_axis = out->n_dims - 1;
    int64_t m_size = out->shape[rows_axis], n_size = out->shape[cols_axis], k_size = a->shape[a->n_dims - 1];
    int64_t a_m = a->strides[a->n_dims - 2], a_k = a->strides[a->n_dims - 1];
    int64_t b_k = b->strides[b->n_dims - 2], b_n = b->strides[b->n_dims - 1];
    bool is_float = wr_dtype_kind(out->dtype) == WR_KIND_FLOAT;
    int64_t begin, end;
    wr_share(wr_shape_count(rows_axis, out->shape) * m_size, thread, n_threads, &begin, &end);
    for (int64_t row = begin; row < end; row++) {
        int64_t batch = row / m_size, m = row % m_size;
        int64_t a_at = batch_offset(a, out, batch) + m * a_m, b_at = batch_offset(b, out, batch);
        int64_t to = wr_offset_of(row, rows_axis + 1, out->shape, out->strides);
        for (int64_t n = 0; n < n_size; n++) {
            double sum = 0;
            uint64_t total = 0;
            for (int64_t k = 0; k < k_size; k++) {
                int64_t ia = a_at + k * a_k, ib = b_at + n * b_n + k * b_k;
                if (is_float)
                    sum += wr_load_f64(a->data, a->dtype, ia) * wr_load_f64(b->data, b->dtype, ib);
                else
                    total +=
                        (uint64_t)wr_load_i64(a->data, a->dtype, ia) * (uint64_t)wr_load_i64(b->data, b->dtype, ib);
            }
            if (is_float)
                wr_store_f64(out->data, out->dtype, to + n * out->strides[cols_axis], sum);
            else
                wr_store_i64(out->data, out->dtype, to + n * out->strides[cols_axis], (int64_t)total);
        }
    }
}

/* The weight's parts start at input `first`; absent parts are NULL. */
typedef struct weight {
    const void *data, *scales, *biases;
} weight;
static weight weight_at(const wr_step *step, int first) {
    weight w = {.data = step->in[first].data};
    if (step->n_in > first + 1) w.scales = step->in[first + 1].data;
    if (step->n_in > first + 2) w.biases = step->in[first + 2].data;
    return w;
}

static int64_t norm_rows(const wr_step *step) {
    int64_t cols = ((const wr_linear_args *)step->args)->cols;
    return cols ? wr_tensor_size(&step->in[0]) / cols : 0;
}
/* A row of the weight a thread; NORM_LINEAR: and all of the norm's results. */
size_t wr_ref_linear_scratch(const wr_step *step, int n_threads) {
    size_t rows = step->op == WR_OP_NORM_LINEAR ? 1 + (size_t)norm_rows(step) : 1;
    return (size_t)((const wr_linear_args *)step->args)->cols * sizeof(float) * rows * (size_t)n_threads;
}
static float *row_buffer(const wr_step *step, int thread) {
    return (float *)step->scratch + ((const wr_linear_args *)step->args)->cols * thread;
}

static double dot(const wr_tensor *x, int64_t first, const float *w, int64_t n) {
    double sum = 0;
    if (x->dtype == WEIR_DTYPE_F32) {
        const float *values = (const float *)x->data + first;
        for (int64_t i = 0; i < n; i++) sum += (double)values[i] * (double)w[i];
        return sum;
    }
    for (int64_t i = 0; i < n; i++) sum += (double)wr_load_f32(x->data, x->dtype, first + i) * (double)w[i];
    return sum;
}

static void linear(const wr_step *step, const wr_tensor *x, const wr_tensor *addend, int first, int thread,
                   int n_threads) {
    const wr_linear_args *a = step->args;
    int64_t n_rows = a->rows ? wr_tensor_size(&step->out) / a->rows : 0, begin, end;
    if (n_rows == 0) return;
    weight w = weight_at(step, first);
    float *buffer = row_buffer(step, thread);
    wr_share(a->rows, thread, n_threads, &begin, &end);
    for (int64_t n = begin; n < end; n++) {
        wr_dequant_row(a, w.data, w.scales, w.biases, 0, n, buffer);
        for (int64_t m = 0; m < n_rows; m++) {
            double sum = dot(x, m * a->cols, buffer, a->cols);
            if (addend) sum += (double)wr_load_f32(addend->data, addend->dtype, m * a->rows + n);
            wr_store_f64(step->out.data, step->out.dtype, m * a->rows + n, sum);
        }
    }
}

void wr_ref_linear(const wr_step *step, int thread, int n_threads) {
    bool adds = step->op == WR_OP_LINEAR_ADD;
    linear(step, &step->in[0], adds ? &step->in[1] : NULL, adds ? 2 : 1, thread, n_threads);
}

static double rounded(double x, weir_dtype dtype) {
    uint64_t room;
    wr_store_f64(&room, dtype, 0, x);
    return wr_load_f64(&room, dtype, 0);
}

/* The gate's products wait in y for those of the other half. */
static void gated(const wr_step *step, const wr_tensor *x, int first, int thread, int n_threads) {
    const wr_linear_args *a = step->args;
    const wr_tensor *y = &step->out;
    int64_t half = a->rows / 2, n_rows = half ? wr_tensor_size(y) / half : 0, begin, end;
    if (n_rows == 0) return;
    weight w = weight_at(step, first);
    float *buffer = row_buffer(step, thread);
    wr_share(half, thread, n_threads, &begin, &end);
    for (int64_t n = begin; n < end; n++) {
        wr_dequant_row(a, w.data, w.scales, w.biases, 0, n, buffer);
        for (int64_t m = 0; m < n_rows; m++)
            wr_store_f64(y->data, y->dtype, m * half + n, dot(x, m * a->cols, buffer, a->cols));
        wr_dequant_row(a, w.data, w.scales, w.biases, 0, half + n, buffer);
        for (int64_t m = 0; m < n_rows; m++) {
            double up = rounded(dot(x, m * a->cols, buffer, a->cols), y->dtype);
            double gate = wr_load_f64(y->data, y->dtype, m * half + n);
            gate = rounded(a->gate == WR_OP_SILU ? wr_ref_silu(gate) : wr_ref_gelu_tanh(gate), y->dtype);
            wr_store_f64(y->data, y->dtype, m * half + n, gate * up);
        }
    }
}
void wr_ref_linear_gated(const wr_step *step, int thread, int n_threads) {
    gated(step, &step->in[0], 1, thread, n_threads);
}

/* Each thread norms all rows for itself. */
void wr_ref_norm_linear(const wr_step *step, int thread, int n_threads) {
    const wr_linear_args *a = step->args;
    wr_norm_args of = {.eps = a->norm_eps, .weight_offset = a->norm_offset, .out_dtype = a->norm_dtype};
    wr_step norm = {.op = WR_OP_RMS_NORM, .args = &of, .out = step->in[0], .n_in = 2, .in = step->in};
    norm.out.data = (float *)step->scratch + a->cols * (n_threads + norm_rows(step) * thread);
    norm.out.dtype = a->norm_dtype;
    wr_ref_norm(&norm, 0, 1);
    if (a->gate)
        gated(step, &norm.out, 2, thread, n_threads);
    else
        linear(step, &norm.out, NULL, 2, thread, n_threads);
}

void wr_ref_gather_linear(const wr_step *step, int thread, int n_threads) {
    const wr_linear_args *a = step->args;
    const wr_tensor *x = &step->in[0], *ids = &step->in[1];
    int64_t n_tokens = wr_tensor_size(ids), begin, end;
    weight w = weight_at(step, 2);
    float *buffer = row_buffer(step, thread);
    wr_share(a->rows, thread, n_threads, &begin, &end);
    for (int64_t n = begin; n < end; n++) {
        int64_t loaded = -1;
        for (int64_t t = 0; t < n_tokens; t++) {
            int64_t expert = wr_load_i64(ids->data, ids->dtype, t);
            double y = NAN;
            if (expert >= 0 && expert < a->experts) {
                if (expert != loaded) wr_dequant_row(a, w.data, w.scales, w.biases, expert, n, buffer);
                loaded = expert;
                y = dot(x, t * a->cols, buffer, a->cols);
            }
            wr_store_f64(step->out.data, step->out.dtype, t * a->rows + n, y);
        }
    }
}

void wr_ref_embedding(const wr_step *step, int thread, int n_threads) {
    const wr_linear_args *a = step->args;
    const wr_tensor *ids = &step->in[0];
    weight w = weight_at(step, 1);
    float *buffer = row_buffer(step, thread);
    int64_t begin, end;
    wr_share(wr_tensor_size(ids), thread, n_threads, &begin, &end);
    for (int64_t t = begin; t < end; t++) {
        int64_t id = wr_load_i64(ids->data, ids->dtype, t);
        bool known = id >= 0 && id < a->rows;
        if (known) wr_dequant_row(a, w.data, w.scales, w.biases, 0, id, buffer);
        for (int64_t i = 0; i < a->cols; i++)
            wr_store_f32(step->out.data, step->out.dtype, t * a->cols + i, known ? buffer[i] : NAN);
    }
}

void wr_ref_dequantize(const wr_step *step, int thread, int n_threads) {
    const wr_linear_args *a = step->args;
    weight w = weight_at(step, 0);
    float *buffer = row_buffer(step, thread);
    int64_t begin, end;
    wr_share(a->experts * a->rows, thread, n_threads, &begin, &end);
    for (int64_t row = begin; row < end; row++) {
        wr_dequant_row(a, w.data, w.scales, w.biases, row / a->rows, row % a->rows, buffer);
        for (int64_t i = 0; i < a->cols; i++)
            wr_store_f32(step->out.data, step->out.dtype, row * a->cols + i, buffer[i]);
    }
}
