/* Reductions, softmax and running sums. Floats are summed in double, in row-major order, and rounded once. */
#include "cpu/ref/kernels.h"
#include "cpu/ref/util.h"

/* The axes of x split into kept ones (they name an output element) and reduced ones. */
typedef struct split {
    int n_kept, n_reduced;
    int64_t kept[WR_MAX_DIMS], kept_strides[WR_MAX_DIMS];
    int64_t reduced[WR_MAX_DIMS], reduced_strides[WR_MAX_DIMS];
} split;

static split split_axes(const wr_tensor *x, uint32_t axes) {
    split s = {0};
    for (int d = 0; d < x->n_dims; d++) {
        if (axes >> d & 1) {
            s.reduced[s.n_reduced] = x->shape[d];
            s.reduced_strides[s.n_reduced++] = x->strides[d];
        } else {
            s.kept[s.n_kept] = x->shape[d];
            s.kept_strides[s.n_kept++] = x->strides[d];
        }
    }
    return s;
}

static void sum_integers(const wr_step *step, const split *s, int64_t base, int64_t n, int64_t i) {
    const wr_tensor *x = &step->in[0];
    uint64_t total = 0;
    for (int64_t k = 0; k < n; k++)
        total += (uint64_t)wr_load_i64(x->data, x->dtype,
                                       base + wr_offset_of(k, s->n_reduced, s->reduced, s->reduced_strides));
    wr_store_i64(step->out.data, step->out.dtype, i, (int64_t)total);
}

static void extreme_integers(const wr_step *step, const split *s, int64_t base, int64_t n, int64_t i) {
    const wr_tensor *x = &step->in[0];
    bool is_unsigned = wr_dtype_kind(x->dtype) == WR_KIND_UNSIGNED;
    int64_t best = 0;
    for (int64_t k = 0; k < n; k++) {
        int64_t v =
            wr_load_i64(x->data, x->dtype, base + wr_offset_of(k, s->n_reduced, s->reduced, s->reduced_strides));
        bool greater = is_unsigned ? (uint64_t)v > (uint64_t)best : v > best;
        if (k == 0 || (v != best && greater == (step->op == WR_OP_MAX))) best = v;
    }
    wr_store_i64(step->out.data, step->out.dtype, i, best);
}

static double reduce_real(wr_op_id op, const wr_tensor *x, const split *s, int64_t base, int64_t n) {
    double sum = 0, best = op == WR_OP_MIN ? INFINITY : -INFINITY;
    for (int64_t k = 0; k < n; k++) {
        double v = wr_load_f64(x->data, x->dtype, base + wr_offset_of(k, s->n_reduced, s->reduced, s->reduced_strides));
        sum += v;
        if (isnan(v) || isnan(best))
            best = NAN;
        else if (op == WR_OP_MIN ? v < best : v > best)
            best = v;
    }
    if (op == WR_OP_SUM) return sum;
    if (op == WR_OP_MEAN) return sum / (double)n;
    if (op != WR_OP_LOGSUMEXP || isnan(best) || isinf(best)) return best;
    sum = 0;
    for (int64_t k = 0; k < n; k++)
        sum +=
            exp(wr_load_f64(x->data, x->dtype, base + wr_offset_of(k, s->n_reduced, s->reduced, s->reduced_strides)) -
                best);
    return best + log(sum);
}

void wr_ref_reduce(const wr_step *step, int thread, int n_threads) {
    const wr_tensor *x = &step->in[0];
    split s = split_axes(x, ((const wr_reduce_args *)step->args)->axes);
    int64_t n = wr_shape_count(s.n_reduced, s.reduced), begin, end;
    bool whole = wr_dtype_kind(step->out.dtype) != WR_KIND_FLOAT && wr_dtype_kind(x->dtype) != WR_KIND_FLOAT;
    wr_share(wr_shape_count(s.n_kept, s.kept), thread, n_threads, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        int64_t base = wr_offset_of(i, s.n_kept, s.kept, s.kept_strides);
        if (!whole)
            wr_store_f64(step->out.data, step->out.dtype, i, reduce_real(step->op, x, &s, base, n));
        else if (step->op == WR_OP_SUM)
            sum_integers(step, &s, base, n, i);
        else
            extreme_integers(step, &s, base, n, i);
    }
}

/* NaN counts as the largest; the first of equals wins. */
static bool beats(const wr_tensor *x, int64_t a, int64_t b) {
    if (wr_dtype_kind(x->dtype) == WR_KIND_FLOAT) {
        float fa = wr_load_f32(x->data, x->dtype, a), fb = wr_load_f32(x->data, x->dtype, b);
        return isnan(fa) ? !isnan(fb) : fa > fb;
    }
    int64_t ia = wr_load_i64(x->data, x->dtype, a), ib = wr_load_i64(x->data, x->dtype, b);
    return x->dtype == WEIR_DTYPE_U64 ? (uint64_t)ia > (uint64_t)ib : ia > ib;
}

void wr_ref_argmax(const wr_step *step, int thread, int n_threads) {
    const wr_tensor *x = &step->in[0];
    int axis = ((const wr_axis_args *)step->args)->axis;
    split s = split_axes(x, 1u << axis);
    int64_t begin, end;
    wr_share(wr_shape_count(s.n_kept, s.kept), thread, n_threads, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        int64_t base = wr_offset_of(i, s.n_kept, s.kept, s.kept_strides), best = 0;
        for (int64_t k = 1; k < x->shape[axis]; k++)
            if (beats(x, base + k * x->strides[axis], base + best * x->strides[axis])) best = k;
        wr_store_i64(step->out.data, step->out.dtype, i, best);
    }
}

void wr_ref_softmax(const wr_step *step, int thread, int n_threads) {
    const wr_tensor *x = &step->in[0], *out = &step->out;
    int axis = ((const wr_axis_args *)step->args)->axis;
    split s = split_axes(x, 1u << axis), o = split_axes(out, 1u << axis);
    int64_t n = x->shape[axis], begin, end;
    wr_share(n ? wr_shape_count(s.n_kept, s.kept) : 0, thread, n_threads, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        int64_t from = wr_offset_of(i, s.n_kept, s.kept, s.kept_strides);
        int64_t to = wr_offset_of(i, o.n_kept, o.kept, o.kept_strides);
        double best = reduce_real(WR_OP_MAX, x, &s, from, n), sum = 0;
        for (int64_t k = 0; k < n; k++) sum += exp(wr_load_f64(x->data, x->dtype, from + k * x->strides[axis]) - best);
        for (int64_t k = 0; k < n; k++) {
            double v = wr_load_f64(x->data, x->dtype, from + k * x->strides[axis]);
            double y = best == -INFINITY ? 0 : exp(v - best) / sum;
            wr_store_f64(out->data, out->dtype, to + k * out->strides[axis], y);
        }
    }
}

void wr_ref_cumsum(const wr_step *step, int thread, int n_threads) {
    const wr_tensor *x = &step->in[0], *out = &step->out;
    const wr_axis_args *a = step->args;
    split s = split_axes(x, 1u << a->axis), o = split_axes(out, 1u << a->axis);
    bool is_float = wr_dtype_kind(out->dtype) == WR_KIND_FLOAT;
    int64_t n = x->shape[a->axis], begin, end;
    wr_share(wr_shape_count(s.n_kept, s.kept), thread, n_threads, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        int64_t from = wr_offset_of(i, s.n_kept, s.kept, s.kept_strides);
        int64_t to = wr_offset_of(i, o.n_kept, o.kept, o.kept_strides);
        double sum = 0;
        uint64_t total = 0;
        for (int64_t step_index = 0; step_index < n; step_index++) {
            int64_t k = a->reverse ? n - 1 - step_index : step_index;
            int64_t at = to + k * out->strides[a->axis], source = from + k * x->strides[a->axis];
            double sum_before = sum;
            uint64_t total_before = total;
            if (is_float)
                sum += wr_load_f64(x->data, x->dtype, source);
            else
                total += (uint64_t)wr_load_i64(x->data, x->dtype, source);
            if (is_float)
                wr_store_f64(out->data, out->dtype, at, a->exclusive ? sum_before : sum);
            else
                wr_store_i64(out->data, out->dtype, at, (int64_t)(a->exclusive ? total_before : total));
        }
    }
}
