/* Keys and values into their pages (kernels/kv.cu). */
#include "base/dtype.h"
#include "cuda/kernels/kv.h"
#include "cuda/launch.h"

enum { THREADS = 128 };

/* The step's tensors: pages and x of each part, then block table, sequences and positions from in[rows] on. */
typedef struct operands {
    int n_parts, rows;
    const wr_tensor *pages[2], *x[2], *rope;
} operands;

static operands operands_of(const wr_step *step) {
    const wr_kv_args *args = step->args;
    const wr_tensor *in = step->in;
    if (step->op == WR_OP_KV_WRITE) return (operands){.n_parts = 1, .rows = 2, .pages = {&in[0]}, .x = {&in[1]}};
    return (operands){.n_parts = 2,
                      .rows = 4,
                      .pages = {&in[0], &in[1]},
                      .x = {&in[2], &in[3]},
                      .rope = args->has_rope ? &in[7] : NULL};
}

static wr_kv_part part_of(const wr_tensor *pages, const wr_tensor *x) {
    return (wr_kv_part){.pages = pages->data,
                        .x = x->data,
                        .width = x->shape[2],
                        .columns = pages->shape[3],
                        .x_strides = {x->strides[0], x->strides[1], x->strides[2]},
                        .x_dtype = (int32_t)x->dtype,
                        .page_dtype = (int32_t)pages->dtype};
}

static wr_kv_write_params params_of(const wr_step *step) {
    const wr_kv_args *args = step->args;
    operands o = operands_of(step);
    const wr_tensor *rows = step->in + o.rows, *pages = o.pages[0];
    wr_kv_write_params p = {.n_parts = o.n_parts,
                            .tiled = args->tiled,
                            .block_table = rows[0].data,
                            .row_seq = rows[1].data,
                            .row_pos = rows[2].data,
                            .tokens = o.x[0]->shape[0],
                            .heads = pages->shape[2],
                            .n_pages = pages->shape[0],
                            .page_size = pages->shape[1],
                            .n_seqs = rows[0].shape[0],
                            .max_pages = rows[0].shape[1]};
    for (int i = 0; i < o.n_parts; i++) p.part[i] = part_of(o.pages[i], o.x[i]);
    if (o.rope) p.rope = o.rope->data, p.half = (int32_t)o.rope->shape[2], p.interleaved = args->interleaved;
    return p;
}

/* Eights of a head that lie together, and all at multiples of 8 from the first. */
static bool eights_fit(const wr_step *step) {
    operands o = operands_of(step);
    const wr_kv_args *args = step->args;
    /* So that places and counts fit 32 bits. */
    if (o.x[0]->shape[0] > INT32_MAX / 1024 || o.pages[0]->shape[1] > INT32_MAX) return false;
    for (int i = 0; i < o.n_parts; i++) {
        const wr_tensor *x = o.x[i];
        if (x->shape[1] * x->shape[2] > 1 << 17) return false;
        if (x->shape[2] % 8 || x->strides[2] != 1 || (x->shape[1] > 1 && x->strides[1] % 8) ||
            (x->shape[0] > 1 && x->strides[0] % 8))
            return false;
    }
    return !o.rope || o.rope->shape[2] % (args->interleaved ? 4 : 8) == 0;
}

static weir_status launch(const wr_kv_write_params *p, const char *kernel, int64_t blocks, wr_launcher *launcher,
                          weir_error *err) {
    wr_launch_spec spec = {.kernel = kernel,
                           .blocks = blocks < INT32_MAX ? blocks : INT32_MAX, /* kernels stride over the rest */
                           .threads = THREADS,
                           .params = p,
                           .params_bytes = sizeof *p};
    return p->n_pages > 0 && p->page_size > 0 ? wr_launch(launcher, &spec, err) : WEIR_OK;
}
static int64_t elements_of_token(const wr_kv_write_params *p) {
    return p->heads * (p->part[0].width + (p->n_parts > 1 ? p->part[1].width : 0));
}
static weir_status launch_eights(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    wr_kv_write_params p = params_of(step);
    p.blocks_each = (int32_t)((elements_of_token(&p) / 8 + THREADS - 1) / THREADS);
    return launch(&p, "wr_kv_write_eights", p.tokens * p.blocks_each, launcher, err);
}
static weir_status launch_ref(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    wr_kv_write_params p = params_of(step);
    return launch(&p, "wr_kv_write_ref", (p.tokens * elements_of_token(&p) + THREADS - 1) / THREADS, launcher, err);
}

const wr_kernel_row *wr_cuda_kv_rows(wr_op_id op) {
    static const wr_kernel_row rows[] = {
        {.name = "eights", .fits = eights_fit, .launch = launch_eights}, {.name = "ref", .launch = launch_ref}, {0}};
    return op == WR_OP_KV_WRITE || op == WR_OP_KV_APPEND ? rows : NULL;
}
