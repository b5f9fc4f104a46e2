/* Host side of SAMPLE (kernels/sample.cu): sizes of its scratch, and its two or three launches. */
#include "cuda/sample.h"

#include "array/sample.h"
#include "cuda/kernels/sample.h"

_Static_assert(sizeof(wr_sample_row) == 64 && sizeof(wr_sample_bias) == 8, "the engine writes what kernels read");
_Static_assert(sizeof(wr_sample_part) % 16 == 0 && sizeof(wr_sample_state) % 16 == 0, "kernels load 16 bytes");

enum { ROW_ALIGN = 256 };

static int64_t slices_of(int64_t vocab) { return vocab > 0 ? (vocab - 1) / WR_SAMPLE_SLICE + 1 : 1; }

static int64_t row_bytes_of(int64_t vocab) {
    int64_t bytes = (int64_t)(sizeof(wr_sample_state) + (size_t)slices_of(vocab) * sizeof(wr_sample_part));
    return (bytes + ROW_ALIGN - 1) / ROW_ALIGN * ROW_ALIGN;
}

static bool fits(const wr_step *step) {
    const wr_sample_args *args = step->args;
    const wr_tensor *logits = &step->in[0];
    bool counted = step->n_in < 3 || (step->in[2].dtype == WEIR_DTYPE_U32 && step->in[2].n_dims == 2 &&
                                      step->in[2].shape[1] == logits->shape[1]);
    return counted && step->n_in >= 2 && logits->dtype == WEIR_DTYPE_F32 && logits->n_dims == 2 &&
           step->in[1].dtype == WEIR_DTYPE_U8 && step->out.dtype == WEIR_DTYPE_I32 && step->out.n_dims == 2 &&
           slices_of(logits->shape[1]) <= WR_SAMPLE_MAX_SLICES && args->n_top >= 0 &&
           args->n_top <= WR_SAMPLE_MAX_TOP && step->out.shape[1] == WR_SAMPLE_HEAD + 2 * args->n_top;
}

static size_t scratch_bytes(const wr_step *step, int n_threads) {
    (void)n_threads;
    return (size_t)(step->in[0].shape[0] * row_bytes_of(step->in[0].shape[1]));
}

static weir_status start(wr_launcher *launcher, const char *kernel, int64_t blocks, const wr_sample_params *params,
                         weir_error *err) {
    wr_launch_spec spec = {.kernel = kernel,
                           .blocks = blocks,
                           .threads = WR_SAMPLE_THREADS,
                           .params = params,
                           .params_bytes = sizeof *params};
    return wr_launch(launcher, &spec, err);
}

static weir_status launch(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    const wr_tensor *logits = &step->in[0], *table = &step->in[1], *counts = step->n_in > 2 ? &step->in[2] : NULL;
    const wr_sample_args *args = step->args;
    int64_t bytes = 1;
    for (int i = 0; i < table->n_dims; i++) bytes *= table->shape[i];
    wr_sample_params p = {.logits = logits->data,
                          .table = table->data,
                          .counts = counts ? counts->data : NULL,
                          .out = step->out.data,
                          .scratch = step->scratch,
                          .n_rows = logits->shape[0],
                          .vocab = logits->shape[1],
                          .n_slices = slices_of(logits->shape[1]),
                          .n_slots = counts ? counts->shape[0] : 0,
                          .out_width = step->out.shape[1],
                          .row_bytes = row_bytes_of(logits->shape[1]),
                          .table_bytes = bytes,
                          .n_top = args->n_top};
    if (bytes < p.n_rows * (int64_t)sizeof(wr_sample_row))
        return WR_FAIL(err, WEIR_E_ARGUMENT, "sample: a table of %lld bytes for %lld rows; a row has %zu",
                       (long long)bytes, (long long)p.n_rows, sizeof(wr_sample_row));
    WR_TRY(start(launcher, "wr_sample_scan", p.n_rows * p.n_slices, &p, err));
    WR_TRY(start(launcher, "wr_sample_draw", p.n_rows * p.n_slices, &p, err));
    return p.n_top ? start(launcher, "wr_sample_top", p.n_rows, &p, err) : WEIR_OK;
}

const wr_kernel_row *wr_cuda_sample_table(void) {
    static const wr_kernel_row rows[] = {
        {.name = "ref", .fits = fits, .launch = launch, .scratch_bytes = scratch_bytes}, {0}};
    return rows;
}

const wr_kernel_row *wr_cuda_sample_rows(wr_op_id op) { return op == WR_OP_SAMPLE ? wr_cuda_sample_table() : NULL; }
