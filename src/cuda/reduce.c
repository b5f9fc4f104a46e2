/* Reductions, argmax, softmax and running sums on the device: how a tensor becomes rows, and which kernel takes them.
 * What decides the order of a sum is the row's length alone (kernels/reduce.cu). */
#include "cuda/rows.h"

#include "base/dtype.h"
#include "cuda/kernels/reduce.h"
#include "cuda/launch.h"

/* Append an axis to a list, merged into the one before where one stride walks through both. */
static int32_t add_axis(int64_t *sizes, int64_t *strides, int64_t *also, int32_t n, int64_t size, int64_t stride,
                        int64_t other) {
    if (size == 1) return n;
    if (n > 0 && strides[n - 1] == stride * size && (!also || also[n - 1] == other * size)) {
        sizes[n - 1] *= size, strides[n - 1] = stride;
        if (also) also[n - 1] = other;
        return n;
    }
    sizes[n] = size, strides[n] = stride;
    if (also) also[n] = other;
    return n + 1;
}

void wr_rows_split(const wr_tensor *x, uint32_t axes, const wr_tensor *out, wr_rows *rows, int64_t *out_kept) {
    *rows = (wr_rows){.rows = 1, .n = 1};
    for (int d = 0; d < x->n_dims; d++) {
        if (axes >> d & 1) {
            rows->n *= x->shape[d];
            rows->n_reduced =
                add_axis(rows->reduced, rows->reduced_strides, NULL, rows->n_reduced, x->shape[d], x->strides[d], 0);
        } else {
            rows->rows *= x->shape[d];
            rows->n_kept = add_axis(rows->kept, rows->kept_strides, out_kept, rows->n_kept, x->shape[d], x->strides[d],
                                    out ? out->strides[d] : 0);
        }
    }
    if (rows->n_reduced == 0) rows->n_reduced = 1, rows->reduced[0] = rows->n, rows->reduced_strides[0] = 1;
    rows->narrow_rows = rows->rows <= UINT32_MAX;
    rows->narrow_n = rows->n <= UINT32_MAX;
}

int64_t wr_rows_chunks(int64_t n, int64_t chunk) { return n > chunk ? (n + chunk - 1) / chunk : 1; }

weir_status wr_rows_launch(wr_launcher *launcher, const char *kernel, int64_t units, int64_t units_a_block,
                           const void *params, size_t params_bytes, weir_error *err) {
    int64_t blocks = (units + units_a_block - 1) / units_a_block;
    wr_launch_spec spec = {.kernel = kernel,
                           .blocks = blocks < INT32_MAX ? blocks : INT32_MAX, /* kernels stride over the rest */
                           .threads = WR_REDUCE_THREADS,
                           .params = params,
                           .params_bytes = params_bytes};
    return wr_launch(launcher, &spec, err);
}

static bool is_float(weir_dtype dtype) { return dtype >= WEIR_DTYPE_F16; }

/* ---- sum, mean, max, min, logsumexp ---- */

static int reduce_op(wr_op_id op) {
    switch (op) {
    case WR_OP_SUM: return WR_REDUCE_SUM;
    case WR_OP_MEAN: return WR_REDUCE_MEAN;
    case WR_OP_MAX: return WR_REDUCE_MAX;
    case WR_OP_MIN: return WR_REDUCE_MIN;
    default: return WR_REDUCE_LOGSUMEXP;
    }
}

static wr_reduce_params reduce_params(const wr_step *step, uint32_t axes) {
    const wr_tensor *x = &step->in[0];
    wr_reduce_params p = {.x = x->data, .out = step->out.data, .chunks = 1, .op = reduce_op(step->op)};
    p.x_dtype = (int32_t)x->dtype, p.out_dtype = (int32_t)step->out.dtype;
    wr_rows_split(x, axes, NULL, &p.rows, NULL);
    return p;
}

static uint32_t reduced_axes(const wr_step *step) { return ((const wr_reduce_args *)step->args)->axes; }
static uint32_t scanned_axis(const wr_step *step) { return 1u << ((const wr_axis_args *)step->args)->axis; }

/* Sums of integers, and extremes: exact, in 64 bits. */
static bool integers_fit(const wr_step *step) { return !is_float(step->in[0].dtype) && !is_float(step->out.dtype); }
static bool floats_fit(const wr_step *step) { return is_float(step->out.dtype); }

static weir_status launch_integers(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    wr_reduce_params p = reduce_params(step, reduced_axes(step));
    bool warp = p.rows.n <= WR_REDUCE_WARP;
    return wr_rows_launch(launcher, warp ? "wr_reduce_int_warp" : "wr_reduce_int_block", p.rows.rows,
                          warp ? WR_REDUCE_THREADS / 32 : 1, &p, sizeof p, err);
}

static size_t peaks_bytes(int64_t rows, int64_t n) {
    int64_t chunks = wr_rows_chunks(n, WR_REDUCE_CHUNK);
    return chunks > 1 ? (size_t)(rows * chunks) * 2 * sizeof(float) : 0;
}
static size_t reduce_scratch(const wr_step *step, int n_threads) {
    (void)n_threads;
    wr_reduce_params p = reduce_params(step, reduced_axes(step));
    return peaks_bytes(p.rows.rows, p.rows.n);
}

static weir_status launch_floats(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    static const char *const names[][2] = {
        [WR_REDUCE_SUM] = {"wr_reduce_sum_warp", "wr_reduce_sum_block"},
        [WR_REDUCE_MEAN] = {"wr_reduce_sum_warp", "wr_reduce_sum_block"},
        [WR_REDUCE_MAX] = {"wr_reduce_max_warp", "wr_reduce_max_block"},
        [WR_REDUCE_MIN] = {"wr_reduce_min_warp", "wr_reduce_min_block"},
        [WR_REDUCE_LOGSUMEXP] = {"wr_reduce_logsumexp_warp", "wr_reduce_logsumexp_block"},
    };
    wr_reduce_params p = reduce_params(step, reduced_axes(step));
    bool warp = p.rows.n <= WR_REDUCE_WARP;
    p.chunks = wr_rows_chunks(p.rows.n, WR_REDUCE_CHUNK);
    if (p.chunks > 1) p.partials = step->scratch;
    WR_TRY(wr_rows_launch(launcher, names[p.op][!warp], p.rows.rows * p.chunks, warp ? WR_REDUCE_THREADS / 32 : 1, &p,
                          sizeof p, err));
    if (p.chunks == 1) return WEIR_OK;
    return wr_rows_launch(launcher, "wr_reduce_last", p.rows.rows, WR_REDUCE_THREADS / 32, &p, sizeof p, err);
}

static weir_status launch_reduce_ref(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    wr_reduce_params p = reduce_params(step, reduced_axes(step));
    return wr_rows_launch(launcher, "wr_reduce_ref", p.rows.rows, WR_REDUCE_THREADS, &p, sizeof p, err);
}

/* ---- argmax ---- */

static bool argmax_fits(const wr_step *step) { return weir_dtype_bytes(step->in[0].dtype) <= 4; }

static size_t argmax_scratch(const wr_step *step, int n_threads) {
    (void)n_threads;
    wr_reduce_params p = reduce_params(step, scanned_axis(step));
    int64_t chunks = wr_rows_chunks(p.rows.n, WR_ARGMAX_CHUNK);
    return chunks > 1 ? (size_t)(p.rows.rows * chunks) * sizeof(uint64_t) : 0;
}

static weir_status launch_argmax(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    wr_reduce_params p = reduce_params(step, scanned_axis(step));
    bool warp = p.rows.n <= WR_REDUCE_WARP;
    p.chunks = wr_rows_chunks(p.rows.n, WR_ARGMAX_CHUNK);
    if (p.chunks > 1) p.partials = step->scratch;
    WR_TRY(wr_rows_launch(launcher, warp ? "wr_argmax_warp" : "wr_argmax_block", p.rows.rows * p.chunks,
                          warp ? WR_REDUCE_THREADS / 32 : 1, &p, sizeof p, err));
    if (p.chunks == 1) return WEIR_OK;
    return wr_rows_launch(launcher, "wr_argmax_last", p.rows.rows, WR_REDUCE_THREADS / 32, &p, sizeof p, err);
}

static weir_status launch_argmax_ref(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    wr_reduce_params p = reduce_params(step, scanned_axis(step));
    return wr_rows_launch(launcher, "wr_argmax_ref", p.rows.rows, WR_REDUCE_THREADS, &p, sizeof p, err);
}

/* ---- softmax and running sums ---- */

/* False when there is nothing to write. */
static bool scan_params(const wr_step *step, wr_scan_params *p) {
    const wr_tensor *x = &step->in[0], *out = &step->out;
    const wr_axis_args *args = step->args;
    *p = (wr_scan_params){.x = x->data, .out = out->data, .chunks = 1, .out_stride = out->strides[args->axis]};
    p->x_dtype = (int32_t)x->dtype, p->out_dtype = (int32_t)out->dtype;
    p->reverse = args->reverse, p->exclusive = args->exclusive;
    wr_rows_split(x, 1u << args->axis, out, &p->rows, p->out_kept);
    return p->rows.rows > 0 && p->rows.n > 0;
}

static size_t softmax_scratch(const wr_step *step, int n_threads) {
    (void)n_threads;
    wr_scan_params p;
    return scan_params(step, &p) ? peaks_bytes(p.rows.rows, p.rows.n) : 0;
}

static weir_status launch_softmax(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    wr_scan_params p;
    if (!scan_params(step, &p)) return WEIR_OK;
    bool warp = p.rows.n <= WR_REDUCE_WARP;
    p.chunks = wr_rows_chunks(p.rows.n, WR_REDUCE_CHUNK);
    if (p.chunks > 1) {
        wr_reduce_params first = {.x = p.x,
                                  .partials = step->scratch,
                                  .chunks = p.chunks,
                                  .op = WR_REDUCE_LOGSUMEXP,
                                  .x_dtype = p.x_dtype,
                                  .out_dtype = p.out_dtype,
                                  .rows = p.rows};
        p.partials = step->scratch;
        WR_TRY(wr_rows_launch(launcher, "wr_reduce_logsumexp_block", p.rows.rows * p.chunks, 1, &first, sizeof first,
                              err));
    }
    return wr_rows_launch(launcher, warp ? "wr_softmax_warp" : "wr_softmax_block", p.rows.rows * p.chunks,
                          warp ? WR_REDUCE_THREADS / 32 : 1, &p, sizeof p, err);
}

static weir_status launch_softmax_ref(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    wr_scan_params p;
    if (!scan_params(step, &p)) return WEIR_OK;
    return wr_rows_launch(launcher, "wr_softmax_ref", p.rows.rows, WR_REDUCE_THREADS, &p, sizeof p, err);
}

static weir_status launch_cumsum(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    wr_scan_params p;
    if (!scan_params(step, &p)) return WEIR_OK;
    static const char *const names[2][2] = {{"wr_cumsum_int_block", "wr_cumsum_int_warp"},
                                            {"wr_cumsum_float_block", "wr_cumsum_float_warp"}};
    bool warp = p.rows.n <= WR_CUMSUM_WARP;
    return wr_rows_launch(launcher, names[is_float(step->out.dtype)][warp], p.rows.rows,
                          warp ? WR_REDUCE_THREADS / 32 : 1, &p, sizeof p, err);
}

static weir_status launch_cumsum_ref(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    wr_scan_params p;
    if (!scan_params(step, &p)) return WEIR_OK;
    return wr_rows_launch(launcher, "wr_cumsum_ref", p.rows.rows, WR_REDUCE_THREADS, &p, sizeof p, err);
}

const wr_kernel_row *wr_cuda_reduce_rows(wr_op_id op) {
    static const wr_kernel_row reductions[] = {
        {.name = "integers", .fits = integers_fit, .launch = launch_integers},
        {.name = "floats", .fits = floats_fit, .launch = launch_floats, .scratch_bytes = reduce_scratch},
        {.name = "ref", .launch = launch_reduce_ref},
        {0},
    };
    static const wr_kernel_row argmax[] = {
        {.name = "keys", .fits = argmax_fits, .launch = launch_argmax, .scratch_bytes = argmax_scratch},
        {.name = "ref", .launch = launch_argmax_ref},
        {0},
    };
    static const wr_kernel_row softmax[] = {
        {.name = "floats", .launch = launch_softmax, .scratch_bytes = softmax_scratch},
        {.name = "ref", .launch = launch_softmax_ref},
        {0},
    };
    static const wr_kernel_row cumsum[] = {
        {.name = "scan", .launch = launch_cumsum},
        {.name = "ref", .launch = launch_cumsum_ref},
        {0},
    };
    switch (op) {
    case WR_OP_SUM:
    case WR_OP_MEAN:
    case WR_OP_MAX:
    case WR_OP_MIN:
    case WR_OP_LOGSUMEXP: return reductions;
    case WR_OP_ARGMAX: return argmax;
    case WR_OP_SOFTMAX: return softmax;
    case WR_OP_CUMSUM: return cumsum;
    case WR_OP_SORT:
    case WR_OP_ARGSORT:
    case WR_OP_TOP_K:
    case WR_OP_ARG_TOP_K: return wr_cuda_sort_rows(op);
    default: return NULL;
    }
}
