/* Rows of ATTENTION over whole tensors. The kernels stand in kernels/attention_dense.cu. */
#include "cuda/kernels/attention_dense.h"

#include "base/dtype.h"
#include "cuda/attention.h"

static int64_t size_of(const wr_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->n_dims; i++) n *= t->shape[i];
    return n;
}

static void fill(const wr_step *step, wr_attention_dense_params *p) {
    const wr_attention_args *a = step->args;
    const wr_tensor *q = &step->in[0], *k = &step->in[1], *v = &step->in[2];
    *p = (wr_attention_dense_params){.q = q->data,
                                     .k = k->data,
                                     .v = v->data,
                                     .out = step->out.data,
                                     .batch = q->shape[0],
                                     .n_heads = q->shape[1],
                                     .n_groups = k->shape[1],
                                     .n_rows = q->shape[2],
                                     .n_keys = k->shape[2],
                                     .head_dim = q->shape[3],
                                     .n_values = v->shape[3],
                                     .window = a->window,
                                     .scale = a->scale,
                                     .softcap = a->softcap,
                                     .causal = a->causal,
                                     .dtype = q->dtype};
    for (int i = 0; i < 4; i++) {
        p->q_strides[i] = q->strides[i];
        p->k_strides[i] = k->strides[i];
        p->v_strides[i] = v->strides[i];
        p->out_strides[i] = step->out.strides[i];
        if (a->has_mask) p->mask_strides[i] = step->in[3].strides[i];
    }
    if (a->has_mask) {
        p->mask = step->in[3].data;
        p->mask_dtype = step->in[3].dtype;
    }
    if (a->has_sinks) {
        p->sinks = step->in[3 + a->has_mask].data;
        p->sink_stride = step->in[3 + a->has_mask].strides[0];
    }
}

static weir_status launch_ref(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    wr_attention_dense_params params;
    if (size_of(&step->out) == 0) return WEIR_OK;
    fill(step, &params);
    int64_t wide = WR_ATTENTION_DENSE_REF_THREADS * WR_ATTENTION_DENSE_COLUMNS;
    int64_t chunks = (params.n_values + wide - 1) / wide, rows = size_of(&step->out) / params.n_values;
    int64_t blocks = rows > WR_ATTENTION_DENSE_MAX_BLOCKS / chunks ? WR_ATTENTION_DENSE_MAX_BLOCKS : rows * chunks;
    return wr_launch(launcher,
                     &(wr_launch_spec){.kernel = "wr_attention_dense_ref",
                                       .blocks = blocks,
                                       .threads = WR_ATTENTION_DENSE_REF_THREADS,
                                       .params = &params,
                                       .params_bytes = sizeof params},
                     err);
}

/* ---- fast ---- */

static size_t shared_bytes(int64_t head_dim, int64_t n_values) {
    size_t k = (size_t)head_dim * 2 + WR_ATTENTION_DENSE_PAD, v = (size_t)n_values * 2 + WR_ATTENTION_DENSE_PAD;
    return WR_ATTENTION_DENSE_ROWS * k + WR_ATTENTION_DENSE_KEYS * (k + v);
}

static int64_t n_tiles(const wr_step *step) {
    const wr_tensor *q = &step->in[0];
    return (q->shape[2] + WR_ATTENTION_DENSE_ROWS - 1) / WR_ATTENTION_DENSE_ROWS * q->shape[0] * q->shape[1];
}

/* Kernels by sizes. Names live for ever: the launcher keeps them. */
typedef struct fast_kernel {
    int64_t head_dim, n_values;
    const char *bf16, *f16;
} fast_kernel;

static const fast_kernel fast_kernels[] = {
#define FAST(d, e)                                                                                                     \
    { d, e, "wr_attention_dense_bf16_" #d, "wr_attention_dense_f16_" #d }
    FAST(64, 64), FAST(80, 80), FAST(96, 96), FAST(128, 128), FAST(192, 128), FAST(256, 256), FAST(512, 512),
#undef FAST
};

static const fast_kernel *find_fast(const wr_step *step) {
    for (size_t i = 0; i < sizeof fast_kernels / sizeof *fast_kernels; i++)
        if (step->in[0].shape[3] == fast_kernels[i].head_dim && step->in[2].shape[3] == fast_kernels[i].n_values)
            return &fast_kernels[i];
    return NULL;
}

static bool fits_mma(const wr_step *step) {
    const wr_tensor *q = &step->in[0];
    const wr_cuda_traits *traits = wr_step_traits(step);
    const fast_kernel *kernel = find_fast(step);
    return (q->dtype == WEIR_DTYPE_BF16 || q->dtype == WEIR_DTYPE_F16) && kernel && traits &&
           shared_bytes(kernel->head_dim, kernel->n_values) <= traits->shared_bytes && n_tiles(step) <= INT32_MAX;
}

static weir_status launch_mma(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    wr_attention_dense_params params;
    const fast_kernel *kernel = find_fast(step);
    if (size_of(&step->out) == 0) return WEIR_OK;
    fill(step, &params);
    return wr_launch(launcher,
                     &(wr_launch_spec){.kernel = params.dtype == WEIR_DTYPE_F16 ? kernel->f16 : kernel->bf16,
                                       .blocks = n_tiles(step),
                                       .threads = params.n_values > 256 ? 256 : 128,
                                       .shared_bytes = shared_bytes(params.head_dim, params.n_values),
                                       .all_shared = true,
                                       .params = &params,
                                       .params_bytes = sizeof params},
                     err);
}

const wr_kernel_row *wr_cuda_dense_attention_rows(void) {
    static const wr_kernel_row rows[] = {
        {.name = "mma", .fits = fits_mma, .launch = launch_mma}, {.name = "ref", .launch = launch_ref}, {.name = NULL}};
    return rows;
}
