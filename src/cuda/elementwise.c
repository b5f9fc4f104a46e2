/* Host side of the element-wise kernels: which kernel a step takes, and its parameters. The contract stands at the head
 * of cuda/kernels/elementwise.cu. A single op is run as a program of one instruction. */
#include <string.h>

#include "base/dtype.h"
#include "cuda/kernels/elementwise.h"
#include "cuda/launch.h"

_Static_assert((int)WR_EW_OPS == (int)WR_OP_FUSED, "the device counts ops as wr_op_id does");
_Static_assert(WR_MAX_DIMS == 8 && (int)WR_MAX_INPUTS == (int)WR_EW_WIDE_INPUTS &&
                   (int)WR_FUSED_MAX == (int)WR_EW_WIDE_CODE,
               "a wide program holds whatever a step may be");

/* The inputs and instructions of a step, the dtype of every operand, and the axes that cannot be merged. */
typedef struct program {
    int n_code;
    wr_ew_code code[WR_FUSED_MAX];
    uint8_t dtypes[WR_MAX_INPUTS + WR_FUSED_MAX]; /* of registers */
    int64_t n;
    int n_dims;
    int64_t shape[WR_MAX_DIMS];
    int64_t strides[WR_MAX_INPUTS + 1][WR_MAX_DIMS]; /* of the output, then of inputs */
} program;

static int operands_of(int op) { return wr_ops[op].max_inputs; }
static bool is_float(int dtype) { return dtype >= WEIR_DTYPE_F16; }

/* Drops axes of one element and merges neighbours that every operand walks with one stride. */
static void merge_axes(const wr_step *step, program *p) {
    const wr_tensor *out = &step->out;
    p->n_dims = 0;
    p->n = 1;
    for (int d = 0; d < out->n_dims; d++) {
        p->n *= out->shape[d];
        if (out->shape[d] == 1) continue;
        int last = p->n_dims - 1;
        bool merges = last >= 0;
        for (int k = 0; merges && k <= step->n_in; k++) {
            int64_t stride = k ? step->in[k - 1].strides[d] : out->strides[d];
            merges = p->strides[k][last] == stride * out->shape[d];
        }
        if (!merges) p->shape[++last] = 1;
        p->n_dims = last + 1;
        p->shape[last] *= out->shape[d];
        for (int k = 0; k <= step->n_in; k++) p->strides[k][last] = k ? step->in[k - 1].strides[d] : out->strides[d];
    }
}

static void read_program(const wr_step *step, program *p) {
    memset(p, 0, sizeof *p);
    for (int k = 0; k < step->n_in; k++) p->dtypes[k] = (uint8_t)step->in[k].dtype;
    const wr_fused_args *fused = step->op == WR_OP_FUSED ? step->args : NULL;
    p->n_code = fused ? fused->n : 1;
    for (int i = 0; i < p->n_code; i++) {
        wr_ew_code *c = &p->code[i];
        c->op = fused ? fused->code[i].op : (uint8_t)step->op;
        c->dtype = fused ? fused->code[i].dtype : (uint8_t)step->out.dtype;
        for (int o = 0; o < operands_of(c->op); o++) {
            c->in[o] = fused ? fused->code[i].in[o] : (uint8_t)o;
            c->in_dtype[o] = p->dtypes[c->in[o]];
        }
        p->dtypes[step->n_in + i] = c->dtype;
    }
    merge_axes(step, p);
}

/* Ops of light() in the kernel file. */
static bool is_light(int op) {
    switch (op) {
    case WR_OP_ADD:
    case WR_OP_SUB:
    case WR_OP_MUL:
    case WR_OP_DIV:
    case WR_OP_MAXIMUM:
    case WR_OP_MINIMUM:
    case WR_OP_NEG:
    case WR_OP_ABS:
    case WR_OP_SQUARE:
    case WR_OP_SQRT:
    case WR_OP_RECIPROCAL:
    case WR_OP_EXP:
    case WR_OP_TANH:
    case WR_OP_SIGMOID:
    case WR_OP_SILU:
    case WR_OP_GELU_TANH:
    case WR_OP_RELU:
    case WR_OP_CAST: return true;
    default: return false;
    }
}
/* All registers floats, all ops light, and operands of the result's dtype (but for casts)? */
static bool is_light_program(const wr_step *step, const program *p) {
    for (int k = 0; k < step->n_in + p->n_code; k++)
        if (!is_float(p->dtypes[k])) return false;
    for (int i = 0; i < p->n_code; i++) {
        const wr_ew_code *c = &p->code[i];
        if (!is_light(c->op)) return false;
        for (int o = 0; o < operands_of(c->op); o++)
            if (c->op != WR_OP_CAST && c->in_dtype[o] != c->dtype) return false;
    }
    return true;
}
static bool is_integer_program(const wr_step *step, const program *p) {
    for (int k = 0; k < step->n_in + p->n_code; k++)
        if (is_float(p->dtypes[k])) return false;
    return true;
}

static int64_t blocks_for(int64_t threads) {
    const int64_t most = (int64_t)1 << 30; /* the kernels stride over what is left */
    int64_t blocks = (threads + WR_EW_THREADS - 1) / WR_EW_THREADS;
    return blocks < most ? blocks : most;
}

/* ---- chains ---- */

/* Writes the program as steps on one value, if it is such a chain: instruction i reads instruction i - 1 (the first
 * one an input, which becomes input `first`) and at most one input. */
static bool link_chain(const wr_step *step, const program *p, wr_ew_link *links, int *first) {
    if (p->n_code > WR_EW_CHAIN_STEPS || step->n_in > WR_EW_CHAIN_INPUTS) return false;
    int value = *first = p->code[0].in[0];
    for (int i = 0; i < p->n_code; i++) {
        const wr_ew_code *c = &p->code[i];
        wr_ew_link link = {.op = c->op, .dtype = c->dtype, .other = WR_EW_OTHER_NONE};
        if (operands_of(c->op) == 1) {
            if (c->in[0] != value) return false;
        } else {
            link.swapped = c->in[0] != value;
            int other = c->in[link.swapped ? 0 : 1];
            if (link.swapped && c->in[1] != value) return false;
            if (other >= step->n_in && other != value) return false;
            link.other = other == value ? WR_EW_OTHER_SELF : (uint8_t)other;
        }
        links[i] = link;
        value = step->n_in + i;
    }
    return true;
}

/* Rows that chains take: an output row is contiguous, a row of an input is contiguous or one element. */
static bool chain_rows(const wr_step *step, const program *p) {
    if (p->n_dims > WR_EW_CHAIN_AXES + 1) return false;
    int inner = p->n_dims - 1;
    for (int k = 0; inner >= 0 && k <= step->n_in; k++)
        if (p->strides[k][inner] != 1 && (k == 0 || p->strides[k][inner] != 0)) return false;
    return true;
}

static bool fits_chain(const wr_step *step) {
    program p;
    wr_ew_link links[WR_EW_CHAIN_STEPS];
    int first;
    read_program(step, &p);
    return is_light_program(step, &p) && chain_rows(step, &p) && link_chain(step, &p, links, &first);
}

static weir_status launch_chain(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    program p;
    read_program(step, &p);
    int last = p.n_dims - 1;
    wr_ew_chain_params q = {.out = step->out.data,
                            .rows = 1,
                            .cols = last >= 0 ? p.shape[last] : 1,
                            .n_axes = last > 0 ? last : 0,
                            .n_in = step->n_in,
                            .n_steps = p.n_code,
                            .out_dtype = (uint8_t)step->out.dtype};
    for (int d = 0; d < last; d++) {
        q.rows *= p.shape[d];
        q.shape[d] = p.shape[d];
        q.out_strides[d] = p.strides[0][d];
    }
    int first;
    if (!link_chain(step, &p, q.steps, &first))
        return WR_FAIL(err, WEIR_E_ARGUMENT, "%s: no chain of element-wise ops", wr_ops[step->op].name);
    /* The kernel begins with its input 0: the others change places with it. */
    for (int k = 0; k < step->n_in; k++) {
        int from = k == 0 ? first : k == first ? 0 : k;
        q.in[k] = step->in[from].data;
        q.in_dtype[k] = (uint8_t)step->in[from].dtype;
        q.flat[k] = last < 0 || p.strides[from + 1][last] == 0;
        for (int d = 0; d < last; d++) q.in_strides[k][d] = p.strides[from + 1][d];
    }
    for (int i = 0; i < q.n_steps; i++) {
        uint8_t *other = &q.steps[i].other;
        if (*other < step->n_in) *other = *other == 0 ? (uint8_t)first : *other == first ? 0 : *other;
    }
    int64_t pieces = (q.cols + WR_EW_CHAIN_ITEMS - 1) / WR_EW_CHAIN_ITEMS;
    wr_launch_spec spec = {.kernel = "wr_ew_chain",
                           .blocks = blocks_for(q.rows * pieces),
                           .threads = WR_EW_THREADS,
                           .params = &q,
                           .params_bytes = sizeof q};
    return wr_launch(launcher, &spec, err);
}

/* ---- the interpreter ---- */

static void fill_operands(const wr_step *step, const program *p, wr_ew_head *head, const void **in, wr_ew_code *code,
                          int64_t *strides) {
    head->out = step->out.data;
    head->n = p->n;
    head->n_dims = p->n_dims;
    head->n_in = step->n_in;
    head->n_code = p->n_code;
    head->out_dtype = (uint8_t)step->out.dtype;
    memcpy(head->shape, p->shape, sizeof head->shape);
    memcpy(code, p->code, (size_t)p->n_code * sizeof *code);
    for (int k = 0; k <= step->n_in; k++)
        for (int d = 0; d < p->n_dims; d++) strides[k * p->n_dims + d] = p->strides[k][d];
    for (int k = 0; k < step->n_in; k++) {
        in[k] = step->in[k].data;
        head->in_dtype[k] = (uint8_t)step->in[k].dtype;
    }
}

static weir_status launch_interpreter(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    program p;
    read_program(step, &p);
    bool floats = is_light_program(step, &p), integers = is_integer_program(step, &p);
    bool small = p.n < INT32_MAX && step->n_in <= WR_EW_SMALL_INPUTS && p.n_code <= WR_EW_SMALL_CODE &&
                 (step->n_in + 1) * p.n_dims <= WR_EW_SMALL_STRIDES;
    int items = !small ? 1 : floats ? WR_EW_FLOAT_ITEMS : WR_EW_INTEGER_ITEMS;
    size_t registers = (size_t)(step->n_in + p.n_code);
    wr_launch_spec spec = {.blocks = blocks_for((p.n + items - 1) / items),
                           .threads = WR_EW_THREADS,
                           .shared_bytes = registers * (size_t)items * WR_EW_THREADS * (floats ? 4 : 8)};
    if (small) {
        wr_ew_small_params q = {0};
        fill_operands(step, &p, &q.head, q.in, q.code, q.strides);
        spec.kernel = floats ? "wr_ew_float" : integers ? "wr_ew_integer" : "wr_ew_general";
        spec.params = &q;
        spec.params_bytes = sizeof q;
        return wr_launch(launcher, &spec, err);
    }
    wr_ew_wide_params q = {0};
    fill_operands(step, &p, &q.head, q.in, q.code, q.strides);
    spec.kernel = floats ? "wr_ew_float_wide" : "wr_ew_general_wide";
    spec.params = &q;
    spec.params_bytes = sizeof q;
    return wr_launch(launcher, &spec, err);
}

/* ---- made from nothing ---- */

static int64_t size_of(const wr_tensor *t) {
    int64_t n = 1;
    for (int d = 0; d < t->n_dims; d++) n *= t->shape[d];
    return n;
}

/* The bits of one element, repeated to 8 bytes. */
static uint64_t full_bits(const wr_full_args *args, weir_dtype dtype) {
    uint64_t bits;
    switch (dtype) {
    case WEIR_DTYPE_F32: bits = wr_f32_bits((float)args->value); break;
    case WEIR_DTYPE_F16: bits = wr_f32_to_f16((float)args->value); break;
    case WEIR_DTYPE_BF16: bits = wr_f32_to_bf16((float)args->value); break;
    case WEIR_DTYPE_BOOL: bits = args->integer != 0; break;
    default: bits = (uint64_t)args->integer; break;
    }
    switch (weir_dtype_bytes(dtype)) {
    case 1: return (bits & 0xff) * UINT64_C(0x0101010101010101);
    case 2: return (bits & 0xffff) * UINT64_C(0x0001000100010001);
    case 4: return (bits & 0xffffffff) * UINT64_C(0x0000000100000001);
    default: return bits;
    }
}

static weir_status launch_full(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    wr_ew_full_params q = {.out = step->out.data,
                           .n = size_of(&step->out),
                           .bits = full_bits(step->args, step->out.dtype),
                           .bytes = (int32_t)weir_dtype_bytes(step->out.dtype)};
    wr_launch_spec spec = {.kernel = "wr_ew_full",
                           .blocks = blocks_for((q.n + 3) / 4),
                           .threads = WR_EW_THREADS,
                           .params = &q,
                           .params_bytes = sizeof q};
    return wr_launch(launcher, &spec, err);
}

static weir_status launch_arange(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    const wr_arange_args *a = step->args;
    wr_ew_arange_params q = {
        .out = step->out.data, .n = a->count, .start = a->start, .step = a->step, .dtype = (int32_t)step->out.dtype};
    wr_launch_spec spec = {.kernel = "wr_ew_arange",
                           .blocks = blocks_for(q.n),
                           .threads = WR_EW_THREADS,
                           .params = &q,
                           .params_bytes = sizeof q};
    return wr_launch(launcher, &spec, err);
}

static weir_status launch_random(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    const wr_random_args *a = step->args;
    wr_ew_random_params q = {.out = step->out.data,
                             .n = size_of(&step->out),
                             .seed = a->seed,
                             .counter = a->counter,
                             .draw = step->op == WR_OP_RANDOM_BITS      ? WR_EW_DRAW_BITS
                                     : step->op == WR_OP_RANDOM_UNIFORM ? WR_EW_DRAW_UNIFORM
                                                                        : WR_EW_DRAW_NORMAL};
    wr_launch_spec spec = {.kernel = "wr_ew_random",
                           .blocks = blocks_for((q.n + 3) / 4),
                           .threads = WR_EW_THREADS,
                           .params = &q,
                           .params_bytes = sizeof q};
    return wr_launch(launcher, &spec, err);
}

const wr_kernel_row *wr_cuda_elementwise_rows(wr_op_id op) {
    static const wr_kernel_row programs[] = {{.name = "chain", .fits = fits_chain, .launch = launch_chain},
                                             {.name = "ref", .launch = launch_interpreter},
                                             {0}};
    static const wr_kernel_row full[] = {{.name = "ref", .launch = launch_full}, {0}};
    static const wr_kernel_row arange[] = {{.name = "ref", .launch = launch_arange}, {0}};
    static const wr_kernel_row random[] = {{.name = "ref", .launch = launch_random}, {0}};
    switch (op) {
    case WR_OP_FULL: return full;
    case WR_OP_ARANGE: return arange;
    case WR_OP_RANDOM_BITS:
    case WR_OP_RANDOM_UNIFORM:
    case WR_OP_RANDOM_NORMAL: return random;
    case WR_OP_FUSED: return programs;
    default: return wr_ops[op].flags & WR_EW ? programs : NULL;
    }
}
