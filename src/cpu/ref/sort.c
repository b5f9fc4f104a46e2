/* Stable sorting along one axis, and the k largest. Each value becomes an unsigned key whose order is the wanted one,
 * so one merge sort serves all dtypes and both directions; NaN gets the last key either way. */
#include "cpu/ref/kernels.h"
#include "cpu/ref/util.h"

typedef struct item {
    uint64_t key;
    int64_t index;
} item;

static uint64_t key_of(const wr_tensor *x, int64_t offset, bool descending) {
    uint64_t key;
    if (wr_dtype_kind(x->dtype) == WR_KIND_FLOAT) {
        float f = wr_load_f32(x->data, x->dtype, offset);
        if (isnan(f)) return UINT64_MAX;
        uint32_t bits = wr_f32_bits(f == 0 ? 0.0f : f); /* -0 equals 0 */
        bits = bits >> 31 ? ~bits : bits | 0x80000000u;
        return descending ? (uint64_t)~bits : bits;
    }
    key = (uint64_t)wr_load_i64(x->data, x->dtype, offset);
    if (wr_dtype_kind(x->dtype) == WR_KIND_SIGNED) key ^= UINT64_C(1) << 63;
    return descending ? ~key : key;
}

/* Bottom-up merge sort; the result is in `items`. */
static void merge_sort(item *items, item *spare, int64_t n) {
    item *from = items, *to = spare;
    for (int64_t width = 1; width < n; width *= 2) {
        for (int64_t first = 0; first < n; first += 2 * width) {
            int64_t middle = first + width < n ? first + width : n;
            int64_t last = middle + width < n ? middle + width : n;
            int64_t a = first, b = middle;
            for (int64_t i = first; i < last; i++)
                to[i] = a < middle && (b >= last || from[a].key <= from[b].key) ? from[a++] : from[b++];
        }
        item *swap = from;
        from = to;
        to = swap;
    }
    if (from != items) memcpy(items, from, (size_t)n * sizeof *items);
}

size_t wr_ref_sort_scratch(const wr_step *step, int n_threads) {
    int axis = ((const wr_axis_args *)step->args)->axis;
    if (step->in[0].n_dims == 0) return 2 * sizeof(item) * (size_t)n_threads;
    return 2 * sizeof(item) * (size_t)step->in[0].shape[axis] * (size_t)n_threads;
}

void wr_ref_sort(const wr_step *step, int thread, int n_threads) {
    const wr_tensor *x = &step->in[0], *out = &step->out;
    const wr_axis_args *a = step->args;
    bool top = step->op == WR_OP_TOP_K || step->op == WR_OP_ARG_TOP_K;
    bool wants_index = step->op == WR_OP_ARGSORT || step->op == WR_OP_ARG_TOP_K;
    int64_t n = x->shape[a->axis], x_stride = x->strides[a->axis], out_stride = out->strides[a->axis];
    int64_t n_out = out->shape[a->axis];
    if (wr_tensor_size(out) == 0) return;
    item *items = (item *)step->scratch + 2 * n * thread;
    int64_t lines = wr_tensor_size(x) / n, begin, end;
    wr_share(lines, thread, n_threads, &begin, &end);
    for (int64_t line = begin; line < end; line++) {
        int64_t from = 0, to = 0, rest = line;
        for (int d = x->n_dims - 1; d >= 0; d--) {
            if (d == a->axis) continue;
            from += rest % x->shape[d] * x->strides[d];
            to += rest % x->shape[d] * out->strides[d];
            rest /= x->shape[d];
        }
        for (int64_t i = 0; i < n; i++) items[i] = (item){key_of(x, from + i * x_stride, top || a->descending), i};
        merge_sort(items, items + n, n);
        for (int64_t i = 0; i < n_out; i++) {
            int64_t at = to + i * out_stride;
            if (wants_index)
                wr_store_i64(out->data, out->dtype, at, items[i].index);
            else
                wr_ref_cast_run(wr_at(out, at), out->dtype, 1, wr_at(x, from + items[i].index * x_stride), x->dtype, 1,
                                1);
        }
    }
}
