/* STORE, which keeps results that outlive a program. */
#include "cuda/kernels/state.h"

#include "cuda/launch.h"

enum { BYTES_A_THREAD = 16, MAX_BLOCKS = 2048 };

static weir_status launch(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    const wr_tensor *x = &step->in[1];
    int64_t bytes = (int64_t)weir_dtype_bytes(x->dtype);
    for (int i = 0; i < x->n_dims; i++) bytes *= x->shape[i];
    if (!bytes) return WEIR_OK;
    wr_store_params params = {.to = step->out.data, .from = x->data, .bytes = bytes};
    int64_t blocks = (bytes - 1) / (BYTES_A_THREAD * WR_STORE_THREADS) + 1;
    wr_launch_spec spec = {.kernel = "wr_store_bytes",
                           .blocks = blocks < MAX_BLOCKS ? blocks : MAX_BLOCKS,
                           .threads = WR_STORE_THREADS,
                           .params = &params,
                           .params_bytes = sizeof params};
    return wr_launch(launcher, &spec, err);
}

static const wr_kernel_row rows[] = {{.name = "ref", .launch = launch}, {0}};

const wr_kernel_row *wr_cuda_state_rows(wr_op_id op) { return op == WR_OP_STORE ? rows : NULL; }
