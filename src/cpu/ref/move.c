/* Ops that move data: copies, views that strides cannot express, gathers, scatters, concatenation, padding, and the
 * leaves that are made from their arguments. Copies of one dtype move bytes; others go by the cast rule. */
#include "cpu/ref/kernels.h"
#include "cpu/ref/util.h"

enum { PIECE = 16384 }; /* elements of a row that one thread copies at once */

/* n elements along one axis. */
static void copy_run(char *dst, weir_dtype dst_dtype, int64_t dst_stride, const char *src, weir_dtype src_dtype,
                     int64_t src_stride, int64_t n) {
    size_t bytes = weir_dtype_bytes(dst_dtype);
    if (dst_dtype != src_dtype) {
        wr_ref_cast_run(dst, dst_dtype, dst_stride, src, src_dtype, src_stride, n);
        return;
    }
    if (n == 1 || (dst_stride == 1 && src_stride == 1)) {
        memcpy(dst, src, (size_t)n * bytes);
        return;
    }
#define MOVE(type)                                                                                                     \
    for (int64_t i = 0; i < n; i++)                                                                                    \
    ((type *)(void *)dst)[i * dst_stride] = ((const type *)(const void *)src)[i * src_stride]
    switch (bytes) {
    case 1: MOVE(uint8_t); break;
    case 2: MOVE(uint16_t); break;
    case 4: MOVE(uint32_t); break;
    default: MOVE(uint64_t); break;
    }
#undef MOVE
}

void wr_ref_copy(void *dst, weir_dtype dst_dtype, const int64_t *dst_strides, const void *src, weir_dtype src_dtype,
                 const int64_t *src_strides, int n_dims, const int64_t *shape, int thread, int n_threads) {
    if (wr_shape_count(n_dims, shape) == 0) return;
    /* Merge axes that are contiguous in both, so that rows are as long as they can be. */
    int n = 0;
    int64_t dims[WR_MAX_DIMS + 1], ds[WR_MAX_DIMS + 1], ss[WR_MAX_DIMS + 1];
    for (int d = 0; d < n_dims; d++) {
        if (shape[d] == 1) continue;
        if (n && ds[n - 1] == dst_strides[d] * shape[d] && ss[n - 1] == src_strides[d] * shape[d]) {
            dims[n - 1] *= shape[d];
            ds[n - 1] = dst_strides[d];
            ss[n - 1] = src_strides[d];
        } else {
            dims[n] = shape[d];
            ds[n] = dst_strides[d];
            ss[n++] = src_strides[d];
        }
    }
    if (n == 0) {
        dims[0] = 1;
        ds[0] = ss[0] = 1;
        n = 1;
    }
    int64_t inner = dims[n - 1], pieces = (inner + PIECE - 1) / PIECE, begin, end;
    wr_share(wr_shape_count(n - 1, dims) * pieces, thread, n_threads, &begin, &end);
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t row = unit / pieces, first = unit % pieces * PIECE;
        int64_t to = wr_offset_of(row, n - 1, dims, ds) + first * ds[n - 1];
        int64_t from = wr_offset_of(row, n - 1, dims, ss) + first * ss[n - 1];
        copy_run((char *)dst + to * (int64_t)weir_dtype_bytes(dst_dtype), dst_dtype, ds[n - 1],
                 (const char *)src + from * (int64_t)weir_dtype_bytes(src_dtype), src_dtype, ss[n - 1],
                 inner - first < PIECE ? inner - first : PIECE);
    }
}

/* Also for RESHAPE of a view: both sides are walked in row-major order. */
void wr_ref_copy_op(const wr_step *step, int thread, int n_threads) {
    const wr_tensor *out = &step->out, *x = &step->in[0];
    bool same = out->n_dims == x->n_dims;
    for (int d = 0; same && d < out->n_dims; d++) same = out->shape[d] == x->shape[d];
    if (same) {
        wr_ref_copy(out->data, out->dtype, out->strides, x->data, x->dtype, x->strides, out->n_dims, out->shape, thread,
                    n_threads);
        return;
    }
    int64_t begin, end;
    wr_share(wr_tensor_size(out), thread, n_threads, &begin, &end);
    for (int64_t i = begin; i < end; i++)
        copy_run(wr_at(out, wr_offset_of(i, out->n_dims, out->shape, out->strides)), out->dtype, 1,
                 wr_at(x, wr_offset_of(i, x->n_dims, x->shape, x->strides)), x->dtype, 1, 1);
}

/* SLICE, TRANSPOSE, BROADCAST: the view of input 0, then a copy. */
void wr_ref_view(const wr_step *step, int thread, int n_threads) {
    const wr_tensor *out = &step->out, *x = &step->in[0];
    int64_t strides[WR_MAX_DIMS] = {0}, offset = 0;
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
    if (wr_tensor_size(out) == 0) return;
    wr_ref_copy(out->data, out->dtype, out->strides, wr_at(x, offset), x->dtype, strides, out->n_dims, out->shape,
                thread, n_threads);
}

/* The part of this thread of out is found by both steps alike, so no barrier is needed between a copy of x and the
 * writes on top of it: one thread owns a whole unit of the slice's rows. */
void wr_ref_store(const wr_step *step, int thread, int n_threads) {
    const wr_tensor *out = &step->out, *x = &step->in[1];
    int64_t begin, end, size = (int64_t)weir_dtype_bytes(x->dtype);
    wr_share(wr_tensor_size(x), thread, n_threads, &begin, &end);
    memcpy((char *)out->data + begin * size, (const char *)x->data + begin * size, (size_t)((end - begin) * size));
}

void wr_ref_slice_update(const wr_step *step, int thread, int n_threads) {
    const wr_tensor *out = &step->out, *x = &step->in[0], *update = &step->in[1];
    const wr_slice_args *a = step->args;
    if (wr_tensor_size(out) == 0) return;
    if (out->n_dims == 0) {
        if (thread == 0) copy_run(out->data, out->dtype, 1, update->data, update->dtype, 1, 1);
        return;
    }
    int last = out->n_dims - 1;
    int64_t begin, end;
    wr_share(wr_shape_count(last, out->shape), thread, n_threads, &begin, &end);
    for (int64_t row = begin; row < end; row++) {
        int64_t to = 0, from = 0, patch = 0, rest = row;
        bool inside = true;
        for (int d = last - 1; d >= 0; d--) {
            int64_t at = rest % out->shape[d];
            rest /= out->shape[d];
            to += at * out->strides[d];
            from += at * x->strides[d];
            int64_t moved = at - a->start[d], index = moved / a->step[d];
            if (moved % a->step[d] != 0 || index < 0 || index >= a->count[d])
                inside = false;
            else
                patch += index * update->strides[d];
        }
        if (out->data != x->data || out->strides[last] != x->strides[last] || to != from)
            copy_run(wr_at(out, to), out->dtype, out->strides[last], wr_at(x, from), x->dtype, x->strides[last],
                     out->shape[last]);
        if (inside && a->count[last] > 0)
            copy_run(wr_at(out, to + a->start[last] * out->strides[last]), out->dtype,
                     a->step[last] * out->strides[last], wr_at(update, patch), update->dtype, update->strides[last],
                     a->count[last]);
    }
}

void wr_ref_concat(const wr_step *step, int thread, int n_threads) {
    const wr_tensor *out = &step->out;
    int axis = ((const wr_axis_args *)step->args)->axis;
    int64_t offset = 0;
    for (int k = 0; k < step->n_in; k++) {
        const wr_tensor *x = &step->in[k];
        if (wr_tensor_size(x))
            wr_ref_copy(wr_at(out, offset), out->dtype, out->strides, x->data, x->dtype, x->strides, x->n_dims,
                        x->shape, thread, n_threads);
        offset += x->shape[axis] * out->strides[axis];
    }
}

void wr_ref_pad(const wr_step *step, int thread, int n_threads) {
    const wr_tensor *out = &step->out, *x = &step->in[0];
    const wr_pad_args *a = step->args;
    int64_t begin, end;
    wr_share(wr_tensor_size(out), thread, n_threads, &begin, &end);
    for (int64_t i = begin; i < end; i++) {
        int64_t to = 0, from = 0, rest = i;
        bool inside = true;
        for (int d = out->n_dims - 1; d >= 0; d--) {
            int64_t at = rest % out->shape[d], source = at - a->low[d];
            rest /= out->shape[d];
            to += at * out->strides[d];
            from += source * x->strides[d];
            inside = inside && source >= 0 && source < x->shape[d];
        }
        if (inside)
            copy_run(wr_at(out, to), out->dtype, 1, wr_at(x, from), x->dtype, 1, 1);
        else
            wr_store_f64(out->data, out->dtype, to, a->value);
    }
}

void wr_ref_full(const wr_step *step, int thread, int n_threads) {
    const wr_full_args *a = step->args;
    const wr_tensor *out = &step->out;
    bool is_float = wr_dtype_kind(out->dtype) == WR_KIND_FLOAT;
    int64_t begin, end;
    wr_share(wr_tensor_size(out), thread, n_threads, &begin, &end);
    for (int64_t i = begin; i < end; i++)
        if (is_float)
            wr_store_f64(out->data, out->dtype, i, a->value);
        else
            wr_store_i64(out->data, out->dtype, i, a->integer);
}

void wr_ref_arange(const wr_step *step, int thread, int n_threads) {
    const wr_arange_args *a = step->args;
    int64_t begin, end;
    wr_share(a->count, thread, n_threads, &begin, &end);
    for (int64_t i = begin; i < end; i++)
        wr_store_f64(step->out.data, step->out.dtype, i, a->start + (double)i * a->step);
}

/* Index as given, or -1 when it is out of range; negative ones count from the end. */
static int64_t index_at(const wr_tensor *indices, int64_t offset, int64_t size) {
    int64_t index = wr_load_i64(indices->data, indices->dtype, offset);
    if (index < 0) index += size;
    return index >= 0 && index < size ? index : -1;
}

static void fill_missing(const wr_tensor *out, int64_t offset, int64_t stride, int64_t n) {
    bool is_float = wr_dtype_kind(out->dtype) == WR_KIND_FLOAT;
    for (int64_t i = 0; i < n; i++)
        if (is_float)
            wr_store_f32(out->data, out->dtype, offset + i * stride, NAN);
        else
            wr_store_i64(out->data, out->dtype, offset + i * stride, 0);
}

/* out [outer.., indices.., inner..]: one unit is an (outer, index) pair and copies the inner axes. */
void wr_ref_take(const wr_step *step, int thread, int n_threads) {
    const wr_tensor *out = &step->out, *x = &step->in[0], *ids = &step->in[1];
    int axis = ((const wr_axis_args *)step->args)->axis;
    if (wr_tensor_size(out) == 0) return;
    int inner_dims = x->n_dims - axis - 1, inner_out = axis + ids->n_dims;
    int64_t n_ids = wr_tensor_size(ids), begin, end;
    wr_share(wr_shape_count(axis, x->shape) * n_ids, thread, n_threads, &begin, &end);
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t outer = unit / n_ids, i = unit % n_ids;
        int64_t index = index_at(ids, wr_offset_of(i, ids->n_dims, ids->shape, ids->strides), x->shape[axis]);
        int64_t to = wr_offset_of(outer, axis, out->shape, out->strides) +
                     wr_offset_of(i, ids->n_dims, ids->shape, out->strides + axis);
        if (index >= 0) {
            int64_t from = wr_offset_of(outer, axis, x->shape, x->strides) + index * x->strides[axis];
            wr_ref_copy(wr_at(out, to), out->dtype, out->strides + inner_out, wr_at(x, from), x->dtype,
                        x->strides + axis + 1, inner_dims, x->shape + axis + 1, 0, 1);
            continue;
        }
        int64_t n = wr_shape_count(inner_dims, x->shape + axis + 1);
        for (int64_t k = 0; k < n; k++)
            fill_missing(out, to + wr_offset_of(k, inner_dims, x->shape + axis + 1, out->strides + inner_out), 1, 1);
    }
}

/* Offset of line `line` (all axes but `axis`, in row-major order) in a tensor whose other axes are as in shape; axes of
 * size 1 broadcast. */
static int64_t line_offset(const wr_tensor *t, int axis, const int64_t *shape, int64_t line) {
    int64_t offset = 0;
    for (int d = t->n_dims - 1; d >= 0; d--) {
        if (d == axis) continue;
        if (t->shape[d] != 1) offset += line % shape[d] * t->strides[d];
        line /= shape[d];
    }
    return offset;
}
static int64_t n_lines(const wr_tensor *t, int axis) {
    int64_t n = 1;
    for (int d = 0; d < t->n_dims; d++)
        if (d != axis) n *= t->shape[d];
    return n;
}

void wr_ref_take_along(const wr_step *step, int thread, int n_threads) {
    const wr_tensor *out = &step->out, *x = &step->in[0], *ids = &step->in[1];
    int axis = ((const wr_axis_args *)step->args)->axis;
    if (wr_tensor_size(out) == 0) return;
    int64_t begin, end;
    wr_share(n_lines(out, axis), thread, n_threads, &begin, &end);
    for (int64_t line = begin; line < end; line++) {
        int64_t to = line_offset(out, axis, out->shape, line), from = line_offset(x, axis, out->shape, line);
        int64_t ids_at = line_offset(ids, axis, out->shape, line);
        for (int64_t i = 0; i < out->shape[axis]; i++) {
            int64_t index = index_at(ids, ids_at + i * ids->strides[axis], x->shape[axis]);
            int64_t at = to + i * out->strides[axis];
            if (index < 0)
                fill_missing(out, at, 1, 1);
            else
                copy_run(wr_at(out, at), out->dtype, 1, wr_at(x, from + index * x->strides[axis]), x->dtype, 1, 1);
        }
    }
}

/* out += u, by the out dtype's arithmetic: integers wrap, floats round once a step. */
static void add_element(const wr_tensor *out, int64_t at, const wr_tensor *u, int64_t from) {
    if (wr_dtype_kind(out->dtype) == WR_KIND_FLOAT) {
        float value = wr_load_f32(out->data, out->dtype, at), add;
        wr_ref_cast_run(&add, WEIR_DTYPE_F32, 1, wr_at(u, from), u->dtype, 1, 1);
        wr_store_f32(out->data, out->dtype, at, value + add);
        return;
    }
    uint64_t add = (uint64_t)wr_load_i64(u->data, u->dtype, from);
    wr_store_i64(out->data, out->dtype, at, (int64_t)((uint64_t)wr_load_i64(out->data, out->dtype, at) + add));
}

/* SCATTER, SCATTER_ADD: indices and updates have the axes of x, of any length along `axis`. A line of out belongs to
 * one thread, which copies x and then applies the updates in the order of the index. */
void wr_ref_scatter(const wr_step *step, int thread, int n_threads) {
    const wr_tensor *out = &step->out, *x = &step->in[0], *ids = &step->in[1], *u = &step->in[2];
    int axis = ((const wr_axis_args *)step->args)->axis;
    if (wr_tensor_size(out) == 0) return;
    int64_t n = ids->shape[axis] == 1 ? u->shape[axis] : ids->shape[axis], begin, end;
    int64_t id_stride = ids->shape[axis] == 1 ? 0 : ids->strides[axis];
    int64_t u_stride = u->shape[axis] == 1 ? 0 : u->strides[axis];
    wr_share(n_lines(out, axis), thread, n_threads, &begin, &end);
    for (int64_t line = begin; line < end; line++) {
        int64_t to = line_offset(out, axis, out->shape, line), from = line_offset(x, axis, out->shape, line);
        int64_t ids_at = line_offset(ids, axis, out->shape, line), u_at = line_offset(u, axis, out->shape, line);
        if (wr_at(out, to) != wr_at(x, from))
            copy_run(wr_at(out, to), out->dtype, out->strides[axis], wr_at(x, from), x->dtype, x->strides[axis],
                     out->shape[axis]);
        for (int64_t i = 0; i < n; i++) {
            int64_t index = index_at(ids, ids_at + i * id_stride, out->shape[axis]);
            if (index < 0) continue;
            int64_t at = to + index * out->strides[axis], source = u_at + i * u_stride;
            if (step->op == WR_OP_SCATTER_ADD)
                add_element(out, at, u, source);
            else
                copy_run(wr_at(out, at), out->dtype, 1, wr_at(u, source), u->dtype, 1, 1);
        }
    }
}
