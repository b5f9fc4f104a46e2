/* The code of cpu/move.c, which tells the contract; included once a level. */
#include "cpu/move.h"
#include "cpu/ref/util.h"
#include "cpu/vec_simd.h"

enum { SQUARE = 32 };           /* a transpose goes by squares of so many elements */
enum { PIECE_BYTES = 1 << 16 }; /* of a long row, for one thread at once */

/* A copy reduced to its essence: axes of more than one element, neighbours that are contiguous in both sides merged;
 * strides in bytes. */
typedef struct walk {
    int n;
    int64_t shape[WR_MAX_DIMS + 1], to[WR_MAX_DIMS + 1], from[WR_MAX_DIMS + 1];
} walk;

static walk make_walk(int n_dims, const int64_t *shape, const int64_t *to, const int64_t *from, int64_t bytes) {
    walk w = {0};
    for (int d = 0; d < n_dims; d++) {
        if (shape[d] == 1) continue;
        int64_t t = to[d] * bytes, f = from[d] * bytes;
        if (w.n && w.to[w.n - 1] == t * shape[d] && w.from[w.n - 1] == f * shape[d]) {
            w.shape[w.n - 1] *= shape[d];
        } else {
            w.shape[w.n++] = shape[d];
        }
        w.to[w.n - 1] = t, w.from[w.n - 1] = f;
    }
    if (w.n == 0) w = (walk){.n = 1, .shape = {1}, .to = {bytes}, .from = {bytes}};
    return w;
}

/* n elements along one axis. */
static void move_run(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t n, int64_t bytes) {
    if (to_step == bytes && from_step == bytes) {
        memcpy(to, from, (size_t)(n * bytes));
        return;
    }
#define MOVE(type)                                                                                                     \
    for (int64_t i = 0; i < n; i++)                                                                                    \
    *(type *)(void *)(to + i * to_step) = *(const type *)(const void *)(from + i * from_step)
    switch (bytes) {
    case 1: MOVE(uint8_t); break;
    case 2: MOVE(uint16_t); break;
    case 4: MOVE(uint32_t); break;
    default: MOVE(uint64_t); break;
    }
#undef MOVE
}

#if WR_VEC
/* 8 x 8 elements of 4 bytes; rows of `from` become columns of `to`. Shuffles keep every bit, of a NaN too. */
VF_INLINE void turn8(char *to, int64_t to_line, const char *from, int64_t from_line) {
    __m256 x[8], y[8];
    for (int i = 0; i < 8; i++) x[i] = _mm256_loadu_ps((const float *)(const void *)(from + i * from_line));
    for (int i = 0; i < 8; i += 2) {
        y[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
        y[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        x[i] = _mm256_shuffle_ps(y[i], y[i + 2], 0x44);
        x[i + 1] = _mm256_shuffle_ps(y[i], y[i + 2], 0xee);
        x[i + 2] = _mm256_shuffle_ps(y[i + 1], y[i + 3], 0x44);
        x[i + 3] = _mm256_shuffle_ps(y[i + 1], y[i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        _mm256_storeu_ps((float *)(void *)(to + i * to_line), _mm256_permute2f128_ps(x[i], x[i + 4], 0x20));
        _mm256_storeu_ps((float *)(void *)(to + (i + 4) * to_line), _mm256_permute2f128_ps(x[i], x[i + 4], 0x31));
    }
}
#endif

/* to[r][c] = from[c][r] for a square that both caches hold: rows of `to` and lines of `from` are contiguous. */
static void turn(char *to, int64_t to_line, const char *from, int64_t from_line, int64_t rows, int64_t cols,
                 int64_t bytes) {
    int64_t r = 0;
#if WR_VEC
    for (; bytes == 4 && r + 8 <= rows; r += 8) {
        int64_t c = 0;
        for (; c + 8 <= cols; c += 8) turn8(to + r * to_line + c * 4, to_line, from + c * from_line + r * 4, from_line);
        for (; c < cols; c++) move_run(to + r * to_line + c * 4, to_line, from + c * from_line + r * 4, 4, 8, 4);
    }
#endif
    for (; r < rows; r++) move_run(to + r * to_line, bytes, from + r * bytes, from_line, cols, bytes);
}

/* The outer axes of a walk, stepped without divisions. */
typedef struct place {
    int n;
    int64_t at[WR_MAX_DIMS + 1], to, from;
} place;

static place place_at(const walk *w, int n, int64_t index) {
    place p = {.n = n};
    for (int d = n - 1; d >= 0; d--) {
        p.at[d] = index % w->shape[d];
        index /= w->shape[d];
        p.to += p.at[d] * w->to[d], p.from += p.at[d] * w->from[d];
    }
    return p;
}
static void place_next(place *p, const walk *w) {
    for (int d = p->n - 1; d >= 0; d--) {
        p->to += w->to[d], p->from += w->from[d];
        if (++p->at[d] < w->shape[d]) return;
        p->at[d] = 0;
        p->to -= w->shape[d] * w->to[d], p->from -= w->shape[d] * w->from[d];
    }
}

static void move_rows(const walk *w, char *to, const char *from, int64_t bytes, int thread, int n_threads) {
    int last = w->n - 1;
    int64_t n = w->shape[last], piece = PIECE_BYTES / bytes, pieces = (n + piece - 1) / piece, begin, end;
    wr_share(wr_shape_count(last, w->shape) * pieces, thread, n_threads, &begin, &end);
    place p = place_at(w, last, begin / pieces);
    for (int64_t unit = begin, i = begin % pieces; unit < end; unit++) {
        int64_t first = i * piece, m = n - first < piece ? n - first : piece;
        move_run(to + p.to + first * w->to[last], w->to[last], from + p.from + first * w->from[last], w->from[last], m,
                 bytes);
        if (++i == pieces) i = 0, place_next(&p, w);
    }
}

/* Axis n - 2 is contiguous in from, axis n - 1 in to. */
static void move_turned(const walk *w, char *to, const char *from, int64_t bytes, int thread, int n_threads) {
    int outer = w->n - 2;
    int64_t rows = w->shape[outer], cols = w->shape[outer + 1], strips = (rows + SQUARE - 1) / SQUARE, begin, end;
    wr_share(wr_shape_count(outer, w->shape) * strips, thread, n_threads, &begin, &end);
    place p = place_at(w, outer, begin / strips);
    for (int64_t unit = begin, i = begin % strips; unit < end; unit++) {
        int64_t r = i * SQUARE, height = rows - r < SQUARE ? rows - r : SQUARE;
        for (int64_t c = 0; c < cols; c += SQUARE)
            turn(to + p.to + r * w->to[outer] + c * bytes, w->to[outer],
                 from + p.from + r * bytes + c * w->from[outer + 1], w->from[outer + 1], height,
                 cols - c < SQUARE ? cols - c : SQUARE, bytes);
        if (++i == strips) i = 0, place_next(&p, w);
    }
}

/* One strided array into another of this shape; strides in elements. */
static void move(void *to, const int64_t *to_strides, const void *from, const int64_t *from_strides, int n_dims,
                 const int64_t *shape, int64_t bytes, int thread, int n_threads) {
    int64_t total = wr_shape_count(n_dims, shape), useful = total * bytes / WR_MOVE_LEAST + 1;
    if (total == 0 || thread >= useful) return;
    if (n_threads > useful) n_threads = (int)useful;
    walk w = make_walk(n_dims, shape, to_strides, from_strides, bytes);
    int last = w.n - 1, line = -1;
    if (w.to[last] == bytes && w.from[last] != bytes)
        for (int d = 0; d < last; d++)
            if (w.from[d] == bytes) line = d;
    if (line < 0) {
        move_rows(&w, to, from, bytes, thread, n_threads);
        return;
    }
    walk turned = w; /* the source's own contiguous axis comes next to the last one; the order of the others is free */
    for (int d = line; d < last - 1; d++)
        turned.shape[d] = w.shape[d + 1], turned.to[d] = w.to[d + 1], turned.from[d] = w.from[d + 1];
    turned.shape[last - 1] = w.shape[line], turned.to[last - 1] = w.to[line], turned.from[last - 1] = w.from[line];
    move_turned(&turned, to, from, bytes, thread, n_threads);
}

/* COPY, and RESHAPE into a contiguous result: x in row-major order. */
void WR_ISA(wr_move_copy)(const wr_step *step, int thread, int n_threads) {
    const wr_tensor *out = &step->out, *x = &step->in[0];
    int64_t contiguous[WR_MAX_DIMS], n = 1;
    for (int d = x->n_dims - 1; d >= 0; d--) contiguous[d] = n, n *= x->shape[d];
    move(out->data, step->op == WR_OP_COPY ? out->strides : contiguous, x->data, x->strides, x->n_dims, x->shape,
         (int64_t)weir_dtype_bytes(x->dtype), thread, n_threads);
}

void WR_ISA(wr_move_concat)(const wr_step *step, int thread, int n_threads) {
    const wr_tensor *out = &step->out;
    int axis = ((const wr_axis_args *)step->args)->axis;
    int64_t offset = 0;
    for (int i = 0; i < step->n_in; i++) {
        const wr_tensor *x = &step->in[i];
        if (wr_tensor_size(x) != 0)
            move(wr_at(out, offset), out->strides, x->data, x->strides, x->n_dims, x->shape,
                 (int64_t)weir_dtype_bytes(x->dtype), thread, n_threads);
        offset += x->shape[axis] * out->strides[axis];
    }
}

static void fill_missing(const wr_tensor *out, int64_t at, int64_t n) {
    if (is_float_dtype(out->dtype))
        for (int64_t i = 0; i < n; i++) wr_store_f32(out->data, out->dtype, at + i, NAN);
    else
        memset(wr_at(out, at), 0, (size_t)n * weir_dtype_bytes(out->dtype));
}

void WR_ISA(wr_move_take)(const wr_step *step, int thread, int n_threads) {
    const wr_tensor *out = &step->out, *x = &step->in[0], *ids = &step->in[1];
    int axis = ((const wr_axis_args *)step->args)->axis;
    int64_t total = wr_tensor_size(out), bytes = (int64_t)weir_dtype_bytes(x->dtype);
    int64_t useful = total * bytes / WR_MOVE_LEAST + 1, begin, end;
    if (total == 0 || thread >= useful) return;
    if (n_threads > useful) n_threads = (int)useful;
    int64_t n_ids = wr_tensor_size(ids), n = wr_shape_count(x->n_dims - axis - 1, x->shape + axis + 1);
    wr_share(wr_shape_count(axis, x->shape) * n_ids, thread, n_threads, &begin, &end);
    int64_t from = 0;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t i = unit % n_ids;
        if (unit == begin || i == 0) from = wr_offset_of(unit / n_ids, axis, x->shape, x->strides);
        int64_t at = ids->n_dims == 1 ? i * ids->strides[0] : wr_offset_of(i, ids->n_dims, ids->shape, ids->strides);
        int64_t index = wr_load_i64(ids->data, ids->dtype, at);
        if (index < 0) index += x->shape[axis];
        if (index >= 0 && index < x->shape[axis])
            move_run(wr_at(out, unit * n), bytes, wr_at(x, from + index * x->strides[axis]), bytes, n, bytes);
        else
            fill_missing(out, unit * n, n);
    }
}
