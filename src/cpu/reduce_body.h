/* The code of cpu/reduce.c, which tells the contract; included once a level. */
#include "cpu/reduce.h"
#include "cpu/ref/util.h"
#include "cpu/vec_math.h"
#include "cpu/vec_row.h"

/* y = e^(x - m), its sum as the result; y may be x, and NULL when only the sum is wanted. */
VF_INLINE float row_exp(float *y, const float *x, int64_t n, float m) {
    vf sum[CHAINS], most = vf_set(m);
    for (int c = 0; c < CHAINS; c++) sum[c] = vf_set(0);
    int64_t i = 0;
    for (; i + CHAINS * VF_N <= n; i += CHAINS * VF_N)
        for (int c = 0; c < CHAINS; c++) {
            vf e = vf_exp(vf_load(x + i + c * VF_N) - most);
            sum[c] = sum[c] + e;
            if (y) vf_store(y + i + c * VF_N, e);
        }
    for (int c = 0; i < n; c++, i += VF_N) {
        int64_t left = n - i < VF_N ? n - i : VF_N;
        vf e = vf_exp(vf_load_n(x + i, left) - most);
        if (y) vf_store_n(y + i, e, left);
        for (int k = (int)left; k < VF_N; k++) e[k] = 0;
        for (int k = 0; k < CHAINS; k++)
            if (k == c) sum[k] = sum[k] + e;
    }
    return vf_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
}

size_t WR_ISA(wr_reduce_scratch)(const wr_step *step, int n_threads) {
    if (step->in[0].dtype == WEIR_DTYPE_F32) return 0;
    return (size_t)n_threads * ((size_t)wr_reduce_row(step) + 16) * 4;
}

static void softmax_row(float *y, const float *x, int64_t n) {
    bool nan;
    float m = row_max(x, n, &nan);
    if (nan || m == -INFINITY) {
        for (int64_t i = 0; i < n; i++) y[i] = nan ? NAN : 0;
        return;
    }
    float scale = 1 / row_exp(y, x, n, m);
    int64_t i = 0;
    for (; i + VF_N <= n; i += VF_N) vf_store(y + i, vf_load(y + i) * vf_set(scale));
    for (; i < n; i++) y[i] *= scale;
}

static float reduce_row(wr_op_id op, const float *x, int64_t n) {
    if (op == WR_OP_SUM) return row_sum(x, n, 0, false);
    if (op == WR_OP_MEAN) return row_sum(x, n, 0, false) / (float)n;
    bool nan;
    float m = op == WR_OP_MIN ? row_extreme(x, n, &nan, true) : row_max(x, n, &nan);
    if (nan) return NAN;
    if (op == WR_OP_MAX || op == WR_OP_MIN || isinf(m)) return m;
    return m + logf(row_exp(NULL, x, n, m));
}

static int64_t argmax_row(const float *x, int64_t n) {
    bool nan;
    float m = row_max(x, n, &nan);
    int64_t i = 0;
    if (!nan)
        for (; i + VF_N <= n; i += VF_N) {
            vi same = vf_load(x + i) == vf_set(m);
            int32_t any = 0;
            for (int k = 0; k < VF_N; k++) any |= same[k];
            if (any) break;
        }
    while (i < n && !(nan ? x[i] != x[i] : x[i] == m)) i++;
    return i < n ? i : 0;
}

void WR_ISA(wr_reduce)(const wr_step *step, int thread, int n_threads) {
    const wr_tensor *x = &step->in[0], *out = &step->out;
    int64_t n = wr_reduce_row(step), total = wr_tensor_size(x), begin, end;
    if (total == 0) return; /* no rows: rows of nothing do not fit */
    int64_t useful = total / WR_REDUCE_LEAST + 1;
    if (thread >= useful) return;
    wr_share(total / n, thread, n_threads < useful ? n_threads : (int)useful, &begin, &end);
    float *buffer = step->scratch ? (float *)step->scratch + (size_t)thread * ((size_t)n + 16) : NULL;
    size_t bytes = weir_dtype_bytes(x->dtype);
    for (int64_t row = begin; row < end; row++) {
        const char *from = (const char *)x->data + (size_t)(row * n) * bytes;
        const float *v = (const float *)from;
        if (x->dtype != WEIR_DTYPE_F32) row_to_f32(buffer, from, x->dtype, n), v = buffer;
        if (step->op == WR_OP_ARGMAX) {
            ((int32_t *)out->data)[row] = (int32_t)argmax_row(v, n);
        } else if (step->op != WR_OP_SOFTMAX) {
            f32_store_as(out->data, row, reduce_row(step->op, v, n), out->dtype);
        } else if (x->dtype == WEIR_DTYPE_F32) {
            softmax_row((float *)out->data + row * n, v, n);
        } else {
            softmax_row(buffer, v, n);
            row_from_f32((char *)out->data + (size_t)(row * n) * bytes, buffer, x->dtype, n);
        }
    }
}
