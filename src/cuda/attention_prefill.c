/* Prefill attention over pages: which steps the wgmma kernels of kernels/attention_prefill.cu serve. The rows of
 * PAGED_ATTENTION stand in attention.c, which asks here. */
#include "base/dtype.h"
#include "cuda/attention.h"
#include "cuda/kernels/attention_prefill.h"

/* Names live for ever: the launcher keeps them. */
typedef struct prefill_kernel {
    int64_t head_dim, value_dim;
    const char *name;
    size_t shared_bytes;
} prefill_kernel;

static const prefill_kernel kernels[] = {
#define PREFILL(d, e)                                                                                                  \
    { d, e, "wr_attn_prefill_" #d, WR_PREFILL_SHARED(d, e) }
    PREFILL(64, 64), PREFILL(80, 80), PREFILL(96, 96), PREFILL(128, 128), PREFILL(192, 128), PREFILL(256, 256),
#undef PREFILL
};

static const prefill_kernel *find_kernel(const wr_step *step) {
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (step->in[0].shape[2] == kernels[i].head_dim && step->out.shape[2] == kernels[i].value_dim)
            return &kernels[i];
    return NULL;
}

int wr_attn_prefill_tile(const wr_step *step) {
    const wr_tensor *q = &step->in[0], *k = &step->in[1], *v = &step->in[2];
    const wr_cuda_traits *traits = wr_step_traits(step);
    const prefill_kernel *kernel = find_kernel(step);
    if (!traits || !traits->hopper || !kernel || kernel->shared_bytes > traits->shared_bytes) return 0;
    if (k->dtype != WEIR_DTYPE_BF16 || v->dtype != WEIR_DTYPE_BF16 || k->shape[1] != WR_KV_TILE) return 0;
    /* In a step with fewer rows no run is long enough. */
    if (q->shape[0] < WR_ATTN_PREFILL_MIN_ROWS || k->shape[2] == 0) return 0;
    int64_t group = q->shape[1] / k->shape[2];
    return group < 1 || group > WR_PREFILL_ROWS ? 0 : (int)(WR_PREFILL_ROWS / group);
}

size_t wr_attn_prefill_scratch(const wr_step *step) {
    if (wr_attn_prefill_tile(step) == 0) return 0;
    return (size_t)wr_step_traits(step)->n_sm * (size_t)WR_PREFILL_OUTSIDE_BYTES(step->out.shape[2]);
}

/* The grid fills the card once; blocks take tiles until there are none. */
weir_status wr_attn_prefill_launch(const wr_step *step, const wr_attn_params *params, wr_launcher *launcher,
                                   weir_error *err) {
    const prefill_kernel *kernel = find_kernel(step);
    return wr_launch(launcher,
                     &(wr_launch_spec){.kernel = kernel->name,
                                       .blocks = wr_step_traits(step)->n_sm,
                                       .threads = WR_PREFILL_THREADS,
                                       .shared_bytes = kernel->shared_bytes,
                                       .all_shared = true,
                                       .params = params,
                                       .params_bytes = sizeof *params},
                     err);
}
