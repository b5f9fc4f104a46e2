/* MATMUL on the device: which tile size serves which shape. The choice never changes bits (kernels/matmul.cu). */
#include "base/dtype.h"
#include "cuda/kernels/matmul.h"
#include "cuda/launch.h"

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* False when there is nothing to write. */
static bool fill_params(const wr_step *step, wr_matmul_params *p) {
    const wr_tensor *a = &step->in[0], *b = &step->in[1], *out = &step->out;
    int rows = out->n_dims - 2, cols = out->n_dims - 1;
    *p = (wr_matmul_params){.a = a->data, .b = b->data, .out = out->data, .dtype = (int32_t)out->dtype};
    p->m = out->shape[rows], p->n = out->shape[cols], p->k = a->shape[a->n_dims - 1];
    p->a_m = a->strides[a->n_dims - 2], p->a_k = a->strides[a->n_dims - 1];
    p->b_k = b->strides[b->n_dims - 2], p->b_n = b->strides[b->n_dims - 1];
    p->batches = 1;
    for (int d = 0; d < rows; d++) { /* batch axes are aligned at the right; size 1 or a missing axis: the same data */
        int of_a = d - (out->n_dims - a->n_dims), of_b = d - (out->n_dims - b->n_dims);
        p->batches *= out->shape[d];
        if (out->shape[d] == 1) continue;
        p->batch_shape[p->n_batch] = out->shape[d];
        p->a_batch[p->n_batch] = of_a >= 0 && a->shape[of_a] != 1 ? a->strides[of_a] : 0;
        p->b_batch[p->n_batch++] = of_b >= 0 && b->shape[of_b] != 1 ? b->strides[of_b] : 0;
    }
    /* Batches that only differ in rows of a are rows: decode steps of many sequences share one pass over b. */
    if (p->n_batch == 1 && p->b_batch[0] == 0 && (p->m == 1 || p->a_batch[0] == p->m * p->a_m)) {
        if (p->m == 1) p->a_m = p->a_batch[0];
        p->m *= p->batch_shape[0], p->batches = 1, p->n_batch = 0;
    }
    return p->m > 0 && p->n > 0 && p->batches > 0;
}

static weir_status launch_tiles(wr_launcher *launcher, const char *kernel, wr_matmul_params *p, int64_t bm, int64_t bn,
                                int threads, size_t shared_bytes, weir_error *err) {
    p->tiles_m = ceil_div(p->m, bm), p->tiles_n = ceil_div(p->n, bn);
    wr_launch_spec spec = {.kernel = kernel,
                           .blocks = p->batches * p->tiles_m * p->tiles_n,
                           .threads = threads,
                           .shared_bytes = shared_bytes,
                           .all_shared = true,
                           .params = p,
                           .params_bytes = sizeof *p};
    if (spec.blocks > INT32_MAX)
        return WR_FAIL(err, WEIR_E_LIMIT, "matmul: %lld tiles, %d are possible in one step", (long long)spec.blocks,
                       INT32_MAX);
    return wr_launch(launcher, &spec, err);
}

static bool tensor_cores_fit(const wr_step *step) {
    return step->out.dtype == WEIR_DTYPE_BF16 || step->out.dtype == WEIR_DTYPE_F16;
}

static weir_status launch_tensor_cores(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    wr_matmul_params p;
    if (!fill_params(step, &p)) return WEIR_OK;
    bool f16 = step->out.dtype == WEIR_DTYPE_F16;
    const wr_cuda_traits *traits = wr_step_traits(step);
    int64_t n_sm = traits ? traits->n_sm : 1;
    int64_t wide_tiles = p.batches * ceil_div(p.m, WR_MATMUL_WIDE_M) * ceil_div(p.n, WR_MATMUL_WIDE_N);
    if (p.m <= WR_MATMUL_SLIM_M)
        return launch_tiles(
            launcher, f16 ? "wr_matmul_f16_slim" : "wr_matmul_bf16_slim", &p, WR_MATMUL_SLIM_M, WR_MATMUL_SLIM_N, 128,
            WR_MATMUL_SHARED(WR_MATMUL_SLIM_M, WR_MATMUL_SLIM_N, WR_MATMUL_SLIM_K, WR_MATMUL_SLIM_STAGES), err);
    if (p.m <= WR_MATMUL_MID_M || p.n <= WR_MATMUL_MID_N || wide_tiles < n_sm)
        return launch_tiles(
            launcher, f16 ? "wr_matmul_f16_mid" : "wr_matmul_bf16_mid", &p, WR_MATMUL_MID_M, WR_MATMUL_MID_N, 128,
            WR_MATMUL_SHARED(WR_MATMUL_MID_M, WR_MATMUL_MID_N, WR_MATMUL_MID_K, WR_MATMUL_MID_STAGES), err);
    return launch_tiles(
        launcher, f16 ? "wr_matmul_f16_wide" : "wr_matmul_bf16_wide", &p, WR_MATMUL_WIDE_M, WR_MATMUL_WIDE_N, 256,
        WR_MATMUL_SHARED(WR_MATMUL_WIDE_M, WR_MATMUL_WIDE_N, WR_MATMUL_WIDE_K, WR_MATMUL_WIDE_STAGES), err);
}

static bool f32_fits(const wr_step *step) { return step->out.dtype == WEIR_DTYPE_F32; }

static weir_status launch_f32(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    wr_matmul_params p;
    if (!fill_params(step, &p)) return WEIR_OK;
    if (p.m <= WR_MATMUL_F32_SLIM_M)
        return launch_tiles(launcher, "wr_matmul_f32_slim", &p, WR_MATMUL_F32_SLIM_M, WR_MATMUL_F32_SLIM_N, 128, 0,
                            err);
    return launch_tiles(launcher, "wr_matmul_f32", &p, WR_MATMUL_F32_TILE, WR_MATMUL_F32_TILE, 256, 0, err);
}

static weir_status launch_reference(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    wr_matmul_params p;
    if (!fill_params(step, &p)) return WEIR_OK;
    int64_t blocks = ceil_div(p.batches * p.m * p.n, 256), most = 1 << 20; /* the kernel strides over the rest */
    wr_launch_spec spec = {.kernel = "wr_matmul_ref",
                           .blocks = blocks < most ? blocks : most,
                           .threads = 256,
                           .params = &p,
                           .params_bytes = sizeof p};
    return wr_launch(launcher, &spec, err);
}

const wr_kernel_row *wr_cuda_matmul_rows(wr_op_id op) {
    static const wr_kernel_row rows[] = {
        {.name = "tensor_cores", .fits = tensor_cores_fit, .launch = launch_tensor_cores},
        {.name = "f32", .fits = f32_fits, .launch = launch_f32},
        {.name = "ref", .launch = launch_reference},
        {0},
    };
    return op == WR_OP_MATMUL ? rows : NULL;
}
