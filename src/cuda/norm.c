/* Norms, rotary embedding and convolution on the device (kernels/norm.cu). */
#include <stdio.h>

#include "base/dtype.h"
#include "cuda/kernels/norm.h"
#include "cuda/launch.h"

static int64_t size_of(const wr_tensor *t) {
    int64_t n = 1;
    for (int d = 0; d < t->n_dims; d++) n *= t->shape[d];
    return n;
}

static weir_status launch(wr_launcher *launcher, const char *kernel, int64_t units, int64_t units_a_block, int threads,
                          const void *params, size_t params_bytes, weir_error *err) {
    int64_t blocks = (units + units_a_block - 1) / units_a_block;
    wr_launch_spec spec = {.kernel = kernel,
                           .blocks = blocks < INT32_MAX ? blocks : INT32_MAX, /* kernels stride over the rest */
                           .threads = threads,
                           .params = params,
                           .params_bytes = params_bytes};
    return wr_launch(launcher, &spec, err);
}

/* ---- norms ---- */

/* False when there is nothing to write. */
static bool norm_params(const wr_step *step, wr_norm_params *p) {
    const wr_norm_args *args = step->args;
    const wr_tensor *x = &step->in[0];
    *p = (wr_norm_params){.x = x->data, .out = step->out.data, .eps = args->eps, .weight_offset = args->weight_offset};
    p->centred = step->op == WR_OP_LAYER_NORM;
    p->x_dtype = (int32_t)x->dtype, p->out_dtype = (int32_t)step->out.dtype;
    if (step->n_in > 1) p->weight = step->in[1].data, p->weight_dtype = (int32_t)step->in[1].dtype;
    if (step->n_in > 2) p->bias = step->in[2].data, p->bias_dtype = (int32_t)step->in[2].dtype;
    p->n = x->shape[x->n_dims - 1];
    p->rows = p->n ? size_of(x) / p->n : 0;
    return p->rows > 0;
}

static weir_status launch_norm(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    wr_norm_params p;
    char kernel[32];
    if (!norm_params(step, &p)) return WEIR_OK;
    int threads = wr_norm_threads(p.n);
    if (p.n > WR_NORM_MOST) return launch(launcher, "wr_norm_long", p.rows, 1, threads, &p, sizeof p, err);
    snprintf(kernel, sizeof kernel, "wr_norm_%d", threads);
    if (threads == 32) return launch(launcher, kernel, p.rows, 4, 128, &p, sizeof p, err);
    return launch(launcher, kernel, p.rows, 1, threads, &p, sizeof p, err);
}
static weir_status launch_norm_ref(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    wr_norm_params p;
    if (!norm_params(step, &p)) return WEIR_OK;
    return launch(launcher, "wr_norm_ref", p.rows, 256, 256, &p, sizeof p, err);
}

/* ---- rotary embedding ---- */

static weir_status launch_rope_table(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    const wr_rope_table_args *args = step->args;
    wr_rope_table_params p = {.positions = step->in[0].data,
                              .out = step->out.data,
                              .n = size_of(&step->in[0]),
                              .half = args->half,
                              .dtype = (int32_t)step->in[0].dtype,
                              .attention_factor = args->attention_factor};
    for (int i = 0; i < args->half; i++) p.inv_freq[i] = args->inv_freq[i];
    return launch(launcher, "wr_rope_angles", p.n * p.half, 128, 128, &p, sizeof p, err);
}

static wr_rope_params rope_params(const wr_step *step) {
    const wr_tensor *x = &step->in[0], *table = &step->in[1];
    wr_rope_params p = {.x = x->data,
                        .table = table->data,
                        .out = step->out.data,
                        .tokens = x->shape[0],
                        .heads = x->shape[1],
                        .width = x->shape[2],
                        .half = table->shape[2],
                        .x_dtype = (int32_t)x->dtype,
                        .out_dtype = (int32_t)step->out.dtype,
                        .interleaved = ((const wr_rope_args *)step->args)->interleaved};
    for (int d = 0; d < 3; d++) p.x_strides[d] = x->strides[d], p.table_strides[d] = table->strides[d];
    return p;
}
static bool rope_eights_fit(const wr_step *step) {
    wr_rope_params p = rope_params(step);
    return p.half % 8 == 0 && p.width % 8 == 0 && p.x_strides[2] == 1 && p.table_strides[2] == 1;
}
static weir_status launch_rope_eights(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    wr_rope_params p = rope_params(step);
    return launch(launcher, "wr_rope_eights", p.tokens * p.heads * (p.width - p.half) / 8, 128, 128, &p, sizeof p, err);
}
static weir_status launch_rope_ref(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    wr_rope_params p = rope_params(step);
    return launch(launcher, "wr_rope_ref", p.tokens * p.heads * (p.width - p.half), 128, 128, &p, sizeof p, err);
}

/* ---- convolution ---- */

static weir_status launch_conv(const wr_step *step, const char *kernel, wr_launcher *launcher, weir_error *err) {
    const wr_conv1d_args *args = step->args;
    const wr_tensor *x = &step->in[0], *w = &step->in[1], *out = &step->out;
    wr_conv1d_params p = {.x = x->data,
                          .w = w->data,
                          .bias = step->n_in > 2 ? step->in[2].data : NULL,
                          .out = out->data,
                          .batches = x->shape[0],
                          .length = x->shape[1],
                          .channels = x->shape[2],
                          .outputs = w->shape[0],
                          .kernel = w->shape[1],
                          .in_group = w->shape[2],
                          .out_group = w->shape[0] / args->groups,
                          .positions = out->shape[1],
                          .stride = args->stride,
                          .dilation = args->dilation,
                          .pad_low = args->pad_low,
                          .dtype = (int32_t)x->dtype};
    return launch(launcher, kernel, size_of(out), 128, 128, &p, sizeof p, err);
}
static weir_status launch_conv1d(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    return launch_conv(step, "wr_conv1d", launcher, err);
}
static weir_status launch_conv1d_ref(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    return launch_conv(step, "wr_conv1d_ref", launcher, err);
}

const wr_kernel_row *wr_cuda_norm_rows(wr_op_id op) {
    static const wr_kernel_row norm[] = {
        {.name = "rows", .launch = launch_norm},
        {.name = "ref", .launch = launch_norm_ref},
        {0},
    };
    static const wr_kernel_row rope_table[] = {{.name = "ref", .launch = launch_rope_table}, {0}};
    static const wr_kernel_row rope[] = {
        {.name = "eights", .fits = rope_eights_fit, .launch = launch_rope_eights},
        {.name = "ref", .launch = launch_rope_ref},
        {0},
    };
    static const wr_kernel_row conv1d[] = {
        {.name = "chain", .launch = launch_conv1d},
        {.name = "ref", .launch = launch_conv1d_ref},
        {0},
    };
    switch (op) {
    case WR_OP_RMS_NORM:
    case WR_OP_LAYER_NORM: return norm;
    case WR_OP_ROPE_TABLE: return rope_table;
    case WR_OP_ROPE: return rope;
    case WR_OP_CONV1D: return conv1d;
    default: return NULL;
    }
}
