/* Builders of leaves and element-wise ops. Promotion and broadcasting happen here, as nodes. */
#include <math.h>
#include <string.h>

#include "array/internal.h"
#include "weir/ops.h"

/* ---- leaves ---- */

weir_array *weir_from_data(weir_graph *g, weir_dtype dtype, int n_dims, const int64_t *shape, const void *data) {
    int64_t size;
    if (!g) return wr_poison(NULL, WEIR_E_ARGUMENT, "from_data: graph is NULL");
    if (!wr_is_dtype(dtype)) return wr_poison(g, WEIR_E_ARGUMENT, "from_data: dtype %d does not exist", (int)dtype);
    if (n_dims < 0 || n_dims > WR_MAX_DIMS || (n_dims > 0 && !shape))
        return wr_poison(g, WEIR_E_ARGUMENT, "from_data: %d dimensions, 0 to %d are possible", n_dims, WR_MAX_DIMS);
    if (!wr_shape_size(n_dims, shape, &size))
        return wr_poison(g, WEIR_E_ARGUMENT, "from_data: shape %s is negative or too large",
                         wr_shape_text(n_dims, shape).s);
    if (size > 0 && !data) return wr_poison(g, WEIR_E_ARGUMENT, "from_data: data is NULL");
    size_t bytes = (size_t)size * weir_dtype_bytes(dtype);
    wr_buffer *buffer;
    weir_error fault;
    weir_status status = wr_buffer_new_on(g->device, bytes, &buffer, &fault);
    if (status != WEIR_OK) return wr_poison(g, status, "from_data: %s", fault.message);
    status = wr_buffer_write(buffer, data, bytes, &fault);
    if (status != WEIR_OK) {
        wr_buffer_release(buffer);
        return wr_poison(g, status, "from_data: %s", fault.message);
    }
    weir_array *a = wr_leaf(g, dtype, n_dims, shape, NULL, 0, buffer);
    wr_buffer_release(buffer);
    return a;
}

weir_array *weir_scalar_f32(weir_graph *g, float value) { return weir_from_data(g, WEIR_DTYPE_F32, 0, NULL, &value); }
weir_array *weir_scalar_i32(weir_graph *g, int32_t value) { return weir_from_data(g, WEIR_DTYPE_I32, 0, NULL, &value); }

static bool copy_shape(weir_graph *g, const char *op, int n_dims, const int64_t *shape, int *n, int64_t *dims,
                       weir_array **poisoned) {
    if (!g || n_dims < 0 || n_dims > WR_MAX_DIMS || (n_dims > 0 && !shape)) {
        *poisoned = wr_poison(g, WEIR_E_ARGUMENT, "%s: %d dimensions, 0 to %d are possible", op, n_dims, WR_MAX_DIMS);
        return false;
    }
    *n = n_dims;
    for (int i = 0; i < n_dims; i++) dims[i] = shape[i];
    return true;
}

/* As cast does it: towards 0, saturating, NaN gives 0. */
static int64_t to_integer(double v) {
    if (isnan(v)) return 0;
    if (v >= 0x1p63) return INT64_MAX;
    if (v <= -0x1p63) return INT64_MIN;
    return (int64_t)v;
}

weir_array *weir_full(weir_graph *g, weir_dtype dtype, int n_dims, const int64_t *shape, double value) {
    wr_full_args args;
    weir_array *poisoned;
    memset(&args, 0, sizeof args);
    if (!copy_shape(g, "full", n_dims, shape, &args.n, args.dims, &poisoned)) return poisoned;
    args.dtype = dtype;
    args.value = value;
    args.integer = to_integer(value);
    return wr_node(g, WR_OP_FULL, NULL, 0, &args);
}

weir_array *weir_arange(weir_graph *g, weir_dtype dtype, double start, double stop, double step) {
    wr_arange_args args;
    memset(&args, 0, sizeof args);
    if (!isfinite(start) || !isfinite(stop) || !isfinite(step) || step == 0)
        return wr_poison(g, WEIR_E_ARGUMENT, "arange: start %g, stop %g, step %g: step 0 or not finite", start, stop,
                         step);
    double n = ceil((stop - start) / step);
    if (n > 0x1p60) return wr_poison(g, WEIR_E_LIMIT, "arange: %g elements", n);
    args.dtype = dtype;
    args.start = start;
    args.step = step;
    args.count = n > 0 ? (int64_t)n : 0;
    return wr_node(g, WR_OP_ARANGE, NULL, 0, &args);
}

static weir_array *random_node(weir_graph *g, wr_op_id op, int n_dims, const int64_t *shape, uint64_t seed,
                               uint64_t counter) {
    wr_random_args args;
    weir_array *poisoned;
    memset(&args, 0, sizeof args);
    if (!copy_shape(g, wr_ops[op].name, n_dims, shape, &args.n, args.dims, &poisoned)) return poisoned;
    args.seed = seed;
    args.counter = counter;
    return wr_node(g, op, NULL, 0, &args);
}

weir_array *weir_random_bits(weir_graph *g, int n_dims, const int64_t *shape, uint64_t seed, uint64_t counter) {
    return random_node(g, WR_OP_RANDOM_BITS, n_dims, shape, seed, counter);
}
weir_array *weir_random_uniform(weir_graph *g, int n_dims, const int64_t *shape, uint64_t seed, uint64_t counter) {
    return random_node(g, WR_OP_RANDOM_UNIFORM, n_dims, shape, seed, counter);
}
weir_array *weir_random_normal(weir_graph *g, int n_dims, const int64_t *shape, uint64_t seed, uint64_t counter) {
    return random_node(g, WR_OP_RANDOM_NORMAL, n_dims, shape, seed, counter);
}

/* ---- one input ---- */

static bool gives_float(wr_op_id op) { return op >= WR_OP_SQRT && op <= WR_OP_GELU_TANH; }

static weir_array *unary(wr_op_id op, weir_array *x) {
    weir_array *poisoned;
    if (!wr_inputs_graph(wr_ops[op].name, &x, 1, 1, &poisoned)) return poisoned;
    if (gives_float(op) && !wr_is_float(x->dtype)) x = wr_cast_to(x, WEIR_DTYPE_F32);
    return wr_node(x->graph, op, &x, 1, NULL);
}

weir_array *weir_cast(weir_array *x, weir_dtype dtype) {
    weir_array *poisoned;
    if (!wr_inputs_graph("cast", &x, 1, 1, &poisoned)) return poisoned;
    return wr_cast_to(x, dtype);
}

/* ---- two and three inputs ---- */

static weir_array *binary(wr_op_id op, weir_array *a, weir_array *b) {
    weir_array *in[2] = {a, b}, *poisoned;
    const char *name = wr_ops[op].name;
    weir_graph *g = wr_inputs_graph(name, in, 2, 2, &poisoned);
    if (!g) return poisoned;
    int n_dims;
    int64_t shape[WR_MAX_DIMS];
    if (!wr_broadcast_shapes(in, 2, &n_dims, shape))
        return wr_poison(g, WEIR_E_ARGUMENT, "%s: %s and %s do not broadcast", name, wr_describe(a).s,
                         wr_describe(b).s);
    weir_dtype dtype = weir_dtype_promote(a->dtype, b->dtype);
    if (op == WR_OP_DIV && !wr_is_float(dtype)) dtype = WEIR_DTYPE_F32;
    /* Cast before broadcasting: the smaller array is converted once. */
    for (int i = 0; i < 2; i++) in[i] = wr_broadcast_to(wr_cast_to(in[i], dtype), n_dims, shape);
    return wr_node(g, op, in, 2, NULL);
}

weir_array *weir_select(weir_array *condition, weir_array *a, weir_array *b) {
    weir_array *in[3] = {condition, a, b}, *poisoned;
    weir_graph *g = wr_inputs_graph("select", in, 3, 3, &poisoned);
    if (!g) return poisoned;
    int n_dims;
    int64_t shape[WR_MAX_DIMS];
    if (!wr_broadcast_shapes(in, 3, &n_dims, shape))
        return wr_poison(g, WEIR_E_ARGUMENT, "select: %s, %s and %s do not broadcast", wr_describe(condition).s,
                         wr_describe(a).s, wr_describe(b).s);
    weir_dtype dtype = weir_dtype_promote(a->dtype, b->dtype);
    for (int i = 0; i < 3; i++) in[i] = wr_broadcast_to(i ? wr_cast_to(in[i], dtype) : in[i], n_dims, shape);
    return wr_node(g, WR_OP_SELECT, in, 3, NULL);
}

#define UNARY(name, id)                                                                                                \
    weir_array *weir_##name(weir_array *x) { return unary(WR_OP_##id, x); }
UNARY(neg, NEG)
UNARY(abs, ABS)
UNARY(sign, SIGN)
UNARY(square, SQUARE)
UNARY(floor, FLOOR)
UNARY(ceil, CEIL)
UNARY(round, ROUND)
UNARY(sqrt, SQRT)
UNARY(rsqrt, RSQRT)
UNARY(reciprocal, RECIPROCAL)
UNARY(exp, EXP)
UNARY(expm1, EXPM1)
UNARY(log, LOG)
UNARY(log1p, LOG1P)
UNARY(log2, LOG2)
UNARY(sin, SIN)
UNARY(cos, COS)
UNARY(tan, TAN)
UNARY(tanh, TANH)
UNARY(erf, ERF)
UNARY(sigmoid, SIGMOID)
UNARY(silu, SILU)
UNARY(gelu, GELU)
UNARY(gelu_tanh, GELU_TANH)
UNARY(relu, RELU)
UNARY(logical_not, LOGICAL_NOT)
UNARY(is_nan, IS_NAN)
UNARY(is_inf, IS_INF)
UNARY(bit_not, BIT_NOT)

#define BINARY(name, id)                                                                                               \
    weir_array *weir_##name(weir_array *a, weir_array *b) { return binary(WR_OP_##id, a, b); }
BINARY(add, ADD)
BINARY(sub, SUB)
BINARY(mul, MUL)
BINARY(div, DIV)
BINARY(floor_div, FLOOR_DIV)
BINARY(remainder, REMAINDER)
BINARY(pow, POW)
BINARY(maximum, MAXIMUM)
BINARY(minimum, MINIMUM)
BINARY(bit_and, BIT_AND)
BINARY(bit_or, BIT_OR)
BINARY(bit_xor, BIT_XOR)
BINARY(shift_left, SHIFT_LEFT)
BINARY(shift_right, SHIFT_RIGHT)
BINARY(logical_and, LOGICAL_AND)
BINARY(logical_or, LOGICAL_OR)
BINARY(equal, EQUAL)
BINARY(not_equal, NOT_EQUAL)
BINARY(less, LESS)
BINARY(less_equal, LESS_EQUAL)
BINARY(greater, GREATER)
BINARY(greater_equal, GREATER_EQUAL)
