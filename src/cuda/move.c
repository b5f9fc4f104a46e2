/* Host side of the kernels that move data: each op as copies, fills and kernels by index. The contract stands at the
 * head of cuda/kernels/move.cu. Rows named "ref" copy element by element; "fast" rows move pieces of rows and tiles. */
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "cuda/kernels/move.h"
#include "cuda/launch.h"

_Static_assert((int)WR_MOVE_DIMS == (int)WR_MAX_DIMS, "the kernels take whatever a tensor may have");

static int64_t size_of(const wr_tensor *t) {
    int64_t n = 1;
    for (int d = 0; d < t->n_dims; d++) n *= t->shape[d];
    return n;
}
static bool is_contiguous(const wr_tensor *t) {
    int64_t expected = 1;
    for (int d = t->n_dims - 1; d >= 0; d--) {
        if (t->shape[d] != 1 && t->strides[d] != expected) return false;
        expected *= t->shape[d];
    }
    return true;
}
static bool same_place(const wr_tensor *a, const wr_tensor *b) {
    if (a->data != b->data || a->n_dims != b->n_dims) return false;
    for (int d = 0; d < a->n_dims; d++)
        if (a->shape[d] != b->shape[d] || (a->shape[d] != 1 && a->strides[d] != b->strides[d])) return false;
    return true;
}
static void *element(const wr_tensor *t, int64_t offset) {
    return (char *)t->data + offset * (int64_t)weir_dtype_bytes(t->dtype);
}

/* Moves are of bytes: the shape rules let no op here change a dtype. */
static weir_status check_dtypes(const wr_step *step, int n_values, weir_error *err) {
    for (int k = 0; k < n_values; k++) {
        int in = step->op == WR_OP_SCATTER || step->op == WR_OP_SCATTER_ADD ? 2 * k : k;
        if (step->in[in].dtype != step->out.dtype)
            return WR_FAIL(err, WEIR_E_UNSUPPORTED, "%s: input %d is %s, the output %s; cast it first",
                           wr_ops[step->op].name, in, weir_dtype_name(step->in[in].dtype),
                           weir_dtype_name(step->out.dtype));
    }
    return WEIR_OK;
}
static weir_status check_out(const wr_step *step, weir_error *err) {
    if (is_contiguous(&step->out)) return WEIR_OK;
    return WR_FAIL(err, WEIR_E_UNSUPPORTED, "%s: the output is not contiguous", wr_ops[step->op].name);
}

static weir_status start(wr_launcher *launcher, const char *kernel, int64_t threads, const void *params, size_t bytes,
                         weir_error *err) {
    const int64_t most = (int64_t)1 << 30; /* the kernels stride over what is left */
    int64_t blocks = (threads + WR_MOVE_THREADS - 1) / WR_MOVE_THREADS;
    wr_launch_spec spec = {.kernel = kernel,
                           .blocks = blocks < most ? blocks : most,
                           .threads = WR_MOVE_THREADS,
                           .params = params,
                           .params_bytes = bytes};
    return wr_launch(launcher, &spec, err);
}

/* ---- bits of one element, repeated to 8 bytes ---- */

static uint64_t repeat(uint64_t bits, size_t bytes) {
    switch (bytes) {
    case 1: return (bits & 0xff) * UINT64_C(0x0101010101010101);
    case 2: return (bits & 0xffff) * UINT64_C(0x0001000100010001);
    case 4: return (bits & 0xffffffff) * UINT64_C(0x0000000100000001);
    default: return bits;
    }
}
/* The cast rule of weir/ops.h: truncate, saturate, NaN is 0; bool: not equal 0. */
static uint64_t real_to_int(double value, weir_dtype dtype) {
    if (dtype == WEIR_DTYPE_BOOL) return !(value == 0);
    if (isnan(value)) return 0;
    bool is_signed = dtype >= WEIR_DTYPE_I8;
    int bits = (int)(8 * weir_dtype_bytes(dtype)) - is_signed;
    uint64_t high = ~UINT64_C(0) >> (64 - bits), low = is_signed ? ~high : 0;
    if (value >= ldexp(1, bits)) return high;
    if (value <= (is_signed ? -ldexp(1, bits) : 0)) return low;
    return value < 0 ? (uint64_t)(int64_t)value : (uint64_t)value;
}
static uint64_t real_bits(double value, weir_dtype dtype) {
    uint64_t bits;
    switch (dtype) {
    case WEIR_DTYPE_F32: bits = wr_f32_bits((float)value); break;
    case WEIR_DTYPE_F16: bits = wr_f32_to_f16((float)value); break;
    case WEIR_DTYPE_BF16: bits = wr_f32_to_bf16((float)value); break;
    default: bits = real_to_int(value, dtype);
    }
    return repeat(bits, weir_dtype_bytes(dtype));
}
/* What stands where an index is out of range: NaN, or 0 for integers. */
static uint64_t missing_bits(weir_dtype dtype) { return real_bits(dtype >= WEIR_DTYPE_F16 ? (double)NAN : 0, dtype); }

/* ---- copies ---- */

/* Axes of a copy: those of one element dropped, neighbours merged where both sides allow. Strides in elements. */
typedef struct copy_axes {
    int n;
    int64_t shape[WR_MAX_DIMS], out[WR_MAX_DIMS], in[WR_MAX_DIMS];
} copy_axes;

static void merge_axes(copy_axes *m, int n_dims, const int64_t *shape, const int64_t *out, const int64_t *in) {
    m->n = 0;
    for (int d = 0; d < n_dims; d++) {
        if (shape[d] == 1) continue;
        int k = m->n - 1;
        if (k >= 0 && m->out[k] == out[d] * shape[d] && m->in[k] == in[d] * shape[d]) {
            m->shape[k] *= shape[d];
        } else {
            m->shape[++k] = shape[d];
            m->n++;
        }
        m->out[k] = out[d];
        m->in[k] = in[d];
    }
}

static weir_status launch_transpose(wr_launcher *launcher, const copy_axes *m, int by, void *out, const void *in,
                                    int bytes, weir_error *err) {
    int last = m->n - 1;
    wr_move_transpose_params p = {.out = out,
                                  .in = in,
                                  .rows = m->shape[by],
                                  .cols = m->shape[last],
                                  .out_row = m->out[by],
                                  .in_col = m->in[last],
                                  .n_batch = 1,
                                  .bytes = bytes};
    for (int d = 0; d < last; d++) {
        if (d == by) continue;
        p.shape[p.n_dims] = m->shape[d];
        p.out_strides[p.n_dims] = m->out[d];
        p.in_strides[p.n_dims++] = m->in[d];
        p.n_batch *= m->shape[d];
    }
    int64_t tiles =
        p.n_batch * ((p.rows + WR_MOVE_TILE - 1) / WR_MOVE_TILE) * ((p.cols + WR_MOVE_TILE - 1) / WR_MOVE_TILE);
    return start(launcher, "wr_move_transpose", tiles * WR_MOVE_THREADS, &p, sizeof p, err);
}

/* The axis other than the last along which the input is contiguous, when tiles pay; else -1. */
static int transposed_axis(const copy_axes *m) {
    enum { LEAST = 8 }; /* narrower tiles leave more than three quarters of their threads idle */
    int last = m->n - 1;
    if (last < 1 || m->out[last] != 1 || m->in[last] == 1 || m->shape[last] < LEAST) return -1;
    for (int d = 0; d < last; d++)
        if (m->in[d] == 1 && m->shape[d] >= LEAST) return d;
    return -1;
}

/* A strided view into another of the same shape and dtype. */
static weir_status launch_copy(wr_launcher *launcher, bool plain, weir_dtype dtype, int n_dims, const int64_t *shape,
                               void *out, const int64_t *out_strides, const void *in, const int64_t *in_strides,
                               weir_error *err) {
    copy_axes m;
    merge_axes(&m, n_dims, shape, out_strides, in_strides);
    int64_t bytes = (int64_t)weir_dtype_bytes(dtype);
    int by = plain ? -1 : transposed_axis(&m);
    if (by >= 0) return launch_transpose(launcher, &m, by, out, in, (int)bytes, err);
    wr_move_copy_params p = {.out = out, .in = in, .n_rows = 1, .row_bytes = bytes, .n_dims = m.n};
    bool rows = !plain && (m.n == 0 || (m.out[m.n - 1] == 1 && m.in[m.n - 1] == 1));
    if (rows && m.n) p.row_bytes = m.shape[--p.n_dims] * bytes;
    for (int d = 0; d < p.n_dims; d++) {
        p.shape[d] = m.shape[d];
        p.out_strides[d] = m.out[d] * bytes;
        p.in_strides[d] = m.in[d] * bytes;
        p.n_rows *= m.shape[d];
        p.alignment |= (uint64_t)p.out_strides[d] | (uint64_t)p.in_strides[d] | (uint64_t)p.row_bytes;
    }
    if (!rows) return start(launcher, "wr_move_elements", p.n_rows, &p, sizeof p, err);
    int64_t low = (int64_t)(p.alignment & 15), piece = low ? low & -low : 16;
    return start(launcher, "wr_move_rows", p.n_rows * ((p.row_bytes + piece - 1) / piece), &p, sizeof p, err);
}
static weir_status launch_fill(wr_launcher *launcher, const wr_tensor *out, uint64_t bits, weir_error *err) {
    int64_t bytes = (int64_t)weir_dtype_bytes(out->dtype);
    wr_move_fill_params p = {.out = out->data, .bits = bits, .n = size_of(out), .bytes = (int32_t)bytes};
    return start(launcher, "wr_move_fill", (p.n * bytes + 15) / 16, &p, sizeof p, err);
}

/* ---- ops that are copies ---- */

/* COPY, and RESHAPE of a view: both sides are walked in row-major order, so one of them may be seen in the shape of
 * the other when it is contiguous. */
static weir_status move_copy(const wr_step *step, wr_launcher *launcher, bool plain, weir_error *err) {
    const wr_tensor *out = &step->out, *x = &step->in[0], *shape = out;
    WR_TRY(check_dtypes(step, 1, err));
    bool same = out->n_dims == x->n_dims && !memcmp(out->shape, x->shape, (size_t)x->n_dims * sizeof *x->shape);
    int64_t dense[WR_MAX_DIMS], n = 1;
    const int64_t *out_strides = out->strides, *in_strides = x->strides;
    if (!same) {
        if (is_contiguous(out)) {
            shape = x;
            out_strides = dense;
        } else if (is_contiguous(x)) {
            in_strides = dense;
        } else {
            return WR_FAIL(err, WEIR_E_UNSUPPORTED, "%s: neither input nor output is contiguous, and shapes differ",
                           wr_ops[step->op].name);
        }
        for (int d = shape->n_dims - 1; d >= 0; d--) {
            dense[d] = n;
            n *= shape->shape[d];
        }
    }
    return launch_copy(launcher, plain, out->dtype, shape->n_dims, shape->shape, out->data, out_strides, x->data,
                       in_strides, err);
}

/* SLICE, TRANSPOSE, BROADCAST: the view of input 0, then a copy. */
static weir_status move_view(const wr_step *step, wr_launcher *launcher, bool plain, weir_error *err) {
    const wr_tensor *out = &step->out, *x = &step->in[0];
    int64_t strides[WR_MAX_DIMS] = {0}, offset = 0;
    WR_TRY(check_dtypes(step, 1, err));
    for (int d = 0; d < out->n_dims; d++) {
        if (step->op == WR_OP_SLICE) {
            const wr_slice_args *a = step->args;
            offset += a->start[d] * x->strides[d];
            strides[d] = a->step[d] * x->strides[d];
        } else if (step->op == WR_OP_TRANSPOSE) {
            strides[d] = x->strides[((const wr_shape_args *)step->args)->dims[d]];
        } else { /* BROADCAST: axes are aligned at the right */
            int from = d - (out->n_dims - x->n_dims);
            strides[d] = from >= 0 && x->shape[from] != 1 ? x->strides[from] : 0;
        }
    }
    return launch_copy(launcher, plain, out->dtype, out->n_dims, out->shape, out->data, out->strides,
                       element(x, offset), strides, err);
}

/* x into out, where it is not there already. */
static weir_status copy_base(const wr_step *step, wr_launcher *launcher, bool plain, weir_error *err) {
    const wr_tensor *out = &step->out, *x = &step->in[0];
    if (same_place(out, x)) return WEIR_OK;
    return launch_copy(launcher, plain, out->dtype, out->n_dims, out->shape, out->data, out->strides, x->data,
                       x->strides, err);
}

static weir_status move_slice_update(const wr_step *step, wr_launcher *launcher, bool plain, weir_error *err) {
    const wr_tensor *out = &step->out, *update = &step->in[1];
    const wr_slice_args *a = step->args;
    int64_t strides[WR_MAX_DIMS], offset = 0, n = 1;
    WR_TRY(check_dtypes(step, 2, err));
    WR_TRY(copy_base(step, launcher, plain, err));
    for (int d = 0; d < out->n_dims; d++) {
        offset += a->start[d] * out->strides[d];
        strides[d] = a->step[d] * out->strides[d];
        n *= a->count[d];
    }
    if (n == 0) return WEIR_OK;
    return launch_copy(launcher, plain, out->dtype, out->n_dims, a->count, element(out, offset), strides, update->data,
                       update->strides, err);
}

static weir_status move_concat(const wr_step *step, wr_launcher *launcher, bool plain, weir_error *err) {
    const wr_tensor *out = &step->out;
    int axis = ((const wr_axis_args *)step->args)->axis;
    int64_t offset = 0;
    WR_TRY(check_dtypes(step, step->n_in, err));
    for (int k = 0; k < step->n_in; k++) {
        const wr_tensor *x = &step->in[k];
        if (size_of(x))
            WR_TRY(launch_copy(launcher, plain, out->dtype, x->n_dims, x->shape, element(out, offset), out->strides,
                               x->data, x->strides, err));
        offset += x->shape[axis] * out->strides[axis];
    }
    return WEIR_OK;
}

static weir_status move_pad(const wr_step *step, wr_launcher *launcher, bool plain, weir_error *err) {
    const wr_tensor *out = &step->out, *x = &step->in[0];
    const wr_pad_args *a = step->args;
    int64_t offset = 0, n = size_of(x);
    WR_TRY(check_dtypes(step, 1, err));
    WR_TRY(check_out(step, err));
    for (int d = 0; d < out->n_dims; d++) offset += a->low[d] * out->strides[d];
    if (n < size_of(out)) WR_TRY(launch_fill(launcher, out, real_bits(a->value, out->dtype), err));
    if (n == 0) return WEIR_OK;
    return launch_copy(launcher, plain, out->dtype, x->n_dims, x->shape, element(out, offset), out->strides, x->data,
                       x->strides, err);
}

/* ---- by index ---- */

/* Axes of one operand, those of one element dropped and neighbours merged; strides times scale. Returns all strides
 * ORed. */
static uint64_t walk_axes(wr_move_axes *w, int n, const int64_t *shape, const int64_t *strides, int64_t scale) {
    copy_axes m;
    uint64_t bits = 0;
    merge_axes(&m, n, shape, strides, strides);
    w->n = m.n;
    for (int d = 0; d < m.n; d++) {
        w->shape[d] = m.shape[d];
        w->strides[d] = m.in[d] * scale;
        bits |= (uint64_t)w->strides[d];
    }
    return bits;
}

static weir_status move_take(const wr_step *step, wr_launcher *launcher, bool plain, weir_error *err) {
    const wr_tensor *out = &step->out, *x = &step->in[0], *ids = &step->in[1];
    int axis = ((const wr_axis_args *)step->args)->axis;
    int64_t bytes = (int64_t)weir_dtype_bytes(x->dtype);
    WR_TRY(check_dtypes(step, 1, err));
    WR_TRY(check_out(step, err));
    wr_move_take_params p = {.out = out->data,
                             .x = x->data,
                             .ids = ids->data,
                             .missing = missing_bits(x->dtype),
                             .n_outer = 1,
                             .n_ids = size_of(ids),
                             .inner_bytes = bytes,
                             .size = x->shape[axis],
                             .stride = x->strides[axis] * bytes,
                             .bytes = (int32_t)bytes,
                             .ids_dtype = (int32_t)ids->dtype};
    for (int d = 0; d < axis; d++) p.n_outer *= x->shape[d];
    for (int d = axis + 1; d < x->n_dims; d++) p.inner_bytes *= x->shape[d];
    p.alignment = walk_axes(&p.outer, axis, x->shape, x->strides, bytes) | (uint64_t)p.stride | (uint64_t)p.inner_bytes;
    walk_axes(&p.inner, x->n_dims - axis - 1, x->shape + axis + 1, x->strides + axis + 1, bytes);
    walk_axes(&p.ids_axes, ids->n_dims, ids->shape, ids->strides, 1);
    p.vector = !plain && (p.inner.n == 0 || (p.inner.n == 1 && p.inner.strides[0] == bytes));
    int64_t low = (int64_t)(p.alignment & 15), piece = !p.vector ? bytes : low ? low & -low : 16;
    return start(launcher, "wr_move_take", p.n_outer * p.n_ids * (p.inner_bytes / piece), &p, sizeof p, err);
}

static weir_status move_take_along(const wr_step *step, wr_launcher *launcher, bool plain, weir_error *err) {
    const wr_tensor *out = &step->out, *x = &step->in[0], *ids = &step->in[1];
    int axis = ((const wr_axis_args *)step->args)->axis;
    (void)plain; /* one kernel */
    WR_TRY(check_dtypes(step, 1, err));
    WR_TRY(check_out(step, err));
    wr_move_along_params p = {.out = out->data,
                              .x = x->data,
                              .ids = ids->data,
                              .missing = missing_bits(x->dtype),
                              .n = size_of(out),
                              .size = x->shape[axis],
                              .stride = x->strides[axis],
                              .bytes = (int32_t)weir_dtype_bytes(x->dtype),
                              .ids_dtype = (int32_t)ids->dtype,
                              .n_dims = out->n_dims};
    for (int d = 0; d < out->n_dims; d++) {
        p.shape[d] = out->shape[d];
        p.x_strides[d] = d == axis || x->shape[d] == 1 ? 0 : x->strides[d];
        p.ids_strides[d] = ids->shape[d] == 1 ? 0 : ids->strides[d];
    }
    return start(launcher, "wr_move_take_along", p.n, &p, sizeof p, err);
}

/* A line of the output belongs to one thread or warp. Indices and updates of one element along an axis repeat. */
static weir_status move_scatter(const wr_step *step, wr_launcher *launcher, bool plain, weir_error *err) {
    const wr_tensor *out = &step->out, *ids = &step->in[1], *u = &step->in[2];
    int axis = ((const wr_axis_args *)step->args)->axis;
    WR_TRY(check_dtypes(step, 2, err));
    WR_TRY(copy_base(step, launcher, plain, err));
    wr_move_scatter_params p = {.out = out->data,
                                .ids = ids->data,
                                .updates = u->data,
                                .n_lines = 1,
                                .n = ids->shape[axis] == 1 ? u->shape[axis] : ids->shape[axis],
                                .size = out->shape[axis],
                                .out_stride = out->strides[axis],
                                .ids_stride = ids->shape[axis] == 1 ? 0 : ids->strides[axis],
                                .updates_stride = u->shape[axis] == 1 ? 0 : u->strides[axis],
                                .dtype = (int32_t)out->dtype,
                                .ids_dtype = (int32_t)ids->dtype,
                                .add = step->op == WR_OP_SCATTER_ADD};
    for (int d = 0; d < out->n_dims; d++) {
        if (d == axis || out->shape[d] == 1) continue;
        p.shape[p.n_dims] = out->shape[d];
        p.out_strides[p.n_dims] = out->strides[d];
        p.ids_strides[p.n_dims] = ids->shape[d] == 1 ? 0 : ids->strides[d];
        p.updates_strides[p.n_dims++] = u->shape[d] == 1 ? 0 : u->strides[d];
        p.n_lines *= out->shape[d];
    }
    if (p.n == 0) return WEIR_OK;
    /* Fewer lines than a few multiprocessors have threads; and positions that a warp can compare in 32 bits. */
    if (!plain && p.n_lines < 4096 && p.n > 1 && p.size < UINT32_MAX)
        return start(launcher, "wr_move_scatter_warps", 32 * p.n_lines, &p, sizeof p, err);
    return start(launcher, "wr_move_scatter", p.n_lines, &p, sizeof p, err);
}

/* ---- the table ---- */

#define MOVE_ROWS(function)                                                                                            \
    static weir_status function##_fast(const wr_step *step, wr_launcher *launcher, weir_error *err) {                  \
        return function(step, launcher, false, err);                                                                   \
    }                                                                                                                  \
    static weir_status function##_plain(const wr_step *step, wr_launcher *launcher, weir_error *err) {                 \
        return function(step, launcher, true, err);                                                                    \
    }                                                                                                                  \
    static const wr_kernel_row function##_rows[] = {                                                                   \
        {.name = "fast", .launch = function##_fast}, {.name = "ref", .launch = function##_plain}, {0}}
MOVE_ROWS(move_copy);
MOVE_ROWS(move_view);
MOVE_ROWS(move_slice_update);
MOVE_ROWS(move_concat);
MOVE_ROWS(move_pad);
MOVE_ROWS(move_take);
MOVE_ROWS(move_take_along);
MOVE_ROWS(move_scatter);

const wr_kernel_row *wr_cuda_move_rows(wr_op_id op) {
    switch (op) {
    case WR_OP_COPY:
    case WR_OP_RESHAPE: return move_copy_rows;
    case WR_OP_SLICE:
    case WR_OP_TRANSPOSE:
    case WR_OP_BROADCAST: return move_view_rows;
    case WR_OP_SLICE_UPDATE: return move_slice_update_rows;
    case WR_OP_CONCAT: return move_concat_rows;
    case WR_OP_PAD: return move_pad_rows;
    case WR_OP_TAKE: return move_take_rows;
    case WR_OP_TAKE_ALONG: return move_take_along_rows;
    case WR_OP_SCATTER:
    case WR_OP_SCATTER_ADD: return move_scatter_rows;
    default: return NULL;
    }
}
