/* The code of cpu/norm.c, which tells the contract; included once a level. */
#include "cpu/norm.h"
#include "cpu/ref/util.h"
#include "cpu/vec_row.h"

/* y = (x - mean) * factor * (w + offset) + b; w and b may be NULL. */
VF_INLINE void row_scale(float *y, const float *x, int64_t n, float mean, float factor, const void *w,
                         weir_dtype w_dtype, float offset, const void *b, weir_dtype b_dtype) {
    vf m = vf_set(mean), f = vf_set(factor), o = vf_set(offset);
    int64_t w_bytes = w_dtype == WEIR_DTYPE_F32 ? 4 : 2, b_bytes = b_dtype == WEIR_DTYPE_F32 ? 4 : 2, i = 0;
    for (; i + VF_N <= n; i += VF_N) {
        vf v = (vf_load(x + i) - m) * f;
        if (w) v = v * (vf_load_as((const char *)w + i * w_bytes, w_dtype) + o);
        if (b) v = v + vf_load_as((const char *)b + i * b_bytes, b_dtype);
        vf_store(y + i, v);
    }
    for (; i < n; i++) {
        float v = (x[i] - mean) * factor;
        if (w) v = v * (f32_load_as(w, i, w_dtype) + offset);
        if (b) v = v + f32_load_as(b, i, b_dtype);
        y[i] = v;
    }
}

size_t WR_ISA(wr_norm_scratch)(const wr_step *step, int n_threads) {
    const wr_tensor *x = &step->in[0];
    if (x->dtype == WEIR_DTYPE_F32) return 0;
    return (size_t)n_threads * ((size_t)x->shape[x->n_dims - 1] + 16) * 4;
}

void WR_ISA(wr_norm)(const wr_step *step, int thread, int n_threads) {
    const wr_norm_args *args = step->args;
    const wr_tensor *x = &step->in[0];
    const wr_tensor *w = step->n_in > 1 ? &step->in[1] : NULL, *b = step->n_in > 2 ? &step->in[2] : NULL;
    bool centred = step->op == WR_OP_LAYER_NORM;
    int64_t total = wr_tensor_size(x), begin, end;
    if (total == 0) return;
    int64_t n = x->shape[x->n_dims - 1];
    /* A thread is worth waking for some thousands of elements only. */
    int64_t useful = total / WR_NORM_LEAST + 1;
    if (thread >= useful) return;
    wr_share(total / n, thread, n_threads < useful ? n_threads : (int)useful, &begin, &end);
    float *buffer = step->scratch ? (float *)step->scratch + (size_t)thread * ((size_t)n + 16) : NULL;
    size_t bytes = x->dtype == WEIR_DTYPE_F32 ? 4 : 2;
    for (int64_t row = begin; row < end; row++) {
        const void *from = (const char *)x->data + (size_t)(row * n) * bytes;
        void *to = (char *)step->out.data + (size_t)(row * n) * bytes;
        const float *v = from;
        float *y = to;
        if (x->dtype != WEIR_DTYPE_F32) row_to_f32(buffer, from, x->dtype, n), v = buffer, y = buffer;
        float mean = centred ? row_sum(v, n, 0, false) / (float)n : 0;
        float factor = 1 / sqrtf(row_sum(v, n, mean, true) / (float)n + args->eps);
        const void *wd = w ? w->data : NULL, *bd = b ? b->data : NULL;
        float offset = centred ? 0 : args->weight_offset;
        if ((!w || w->dtype == WEIR_DTYPE_F32) && !b)
            row_scale(y, v, n, mean, factor, wd, WEIR_DTYPE_F32, offset, NULL, WEIR_DTYPE_F32);
        else
            row_scale(y, v, n, mean, factor, wd, w ? w->dtype : WEIR_DTYPE_F32, offset, bd,
                      b ? b->dtype : WEIR_DTYPE_F32);
        if (x->dtype != WEIR_DTYPE_F32) row_from_f32(to, y, x->dtype, n);
    }
}
