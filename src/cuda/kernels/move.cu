/* Ops that move data: copies of any strides, gathers, scatters, padding.
 *
 * Contract. What the ops mean is said by cpu/ref/move.c; results are equal to it in every bit, except which NaN a
 * scatter_add of floats makes. Elements are moved as bytes; only scatter_add computes, in the dtype, and one thread
 * owns a line of the output and walks its updates in order, so its sums have one order.
 *
 * Kernels.
 * - rows: a copy between strided views whose innermost axis is contiguous in both. Pieces of up to 16 bytes, as large
 * as all addresses of all rows allow; the pieces of a row never overlap its end since they divide it.
 * - elements: the plain copy, an element a thread. The reference of every copy.
 * - transpose: tiles through shared memory, where input and output are contiguous along different axes.
 * - take, take_along, fill.
 * - scatter: a line of the output a thread; scatter_warps, where lines are few: a line a warp.
 * Several ops are made of copies by cuda/move.c: concat is one a input, pad a fill and a copy, slice_update and scatter
 * begin with one.
 *
 * Bytes: what is moved, once in and once out. Operations: a division for each axis that could not be merged, a piece;
 * with 32 bits where the count of pieces allows. Measured: docs/kernels.md. */
#include "cuda/kernels/dtypes.cuh"
#include "cuda/kernels/move.h"

/* The greatest power of two up to 16 that divides all the bits' values. */
WR_DEVICE int piece_of(u64 bits) {
    int low = (int)(bits & 15);
    return low ? low & -low : 16;
}

/* bytes: 1, 2, 4, 8 or 16, at addresses that are multiples of it. */
WR_DEVICE void move_piece(void *to, const void *from, int bytes) {
    switch (bytes) {
    case 16: *(uint4 *)to = *(const uint4 *)from; break;
    case 8: *(u64 *)to = *(const u64 *)from; break;
    case 4: *(u32 *)to = *(const u32 *)from; break;
    case 2: *(u16 *)to = *(const u16 *)from; break;
    default: *(u8 *)to = *(const u8 *)from;
    }
}
/* Of a pattern of 8 bytes. */
WR_DEVICE void fill_piece(void *to, u64 bits, int bytes) {
    switch (bytes) {
    case 16: ((u64 *)to)[0] = ((u64 *)to)[1] = bits; break;
    case 8: *(u64 *)to = bits; break;
    case 4: *(u32 *)to = (u32)bits; break;
    case 2: *(u16 *)to = (u16)bits; break;
    default: *(u8 *)to = (u8)bits;
    }
}
/* Quotient of a position, and its remainder by *position. */
WR_DEVICE i64 divide(i64 *position, i64 by, bool narrow) {
    i64 q = narrow ? (i64)((u32)*position / (u32)by) : *position / by;
    *position -= q * by;
    return q;
}
WR_DEVICE i64 first_unit(void) { return (i64)blockIdx.x * blockDim.x + threadIdx.x; }
WR_DEVICE i64 unit_step(void) { return (i64)gridDim.x * blockDim.x; }
WR_DEVICE bool fits_32(i64 n) { return n >> 32 == 0; }

/* ---- copies ---- */

WR_KERNEL(wr_move_rows, wr_move_copy_params, WR_MOVE_THREADS, 4) {
    wr_grid_launch();
    const int piece = piece_of(p.alignment | (u64)p.out | (u64)p.in);
    /* One row may have a tail that is shorter than a piece. */
    const i64 pieces = p.row_bytes / piece, units = p.n_rows * pieces;
    const bool narrow = fits_32(units);
    u8 *out = (u8 *)p.out;
    const u8 *in = (const u8 *)p.in;
    wr_grid_wait();
    for (i64 unit = first_unit(); unit < units; unit += unit_step()) {
        i64 at = unit, to = 0, from = 0;
        if (p.n_rows > 1) {
            i64 row = divide(&at, pieces, narrow);
            for (int d = p.n_dims - 1; d >= 0; d--) {
                i64 index = row;
                row = divide(&index, p.shape[d], narrow);
                to += index * p.out_strides[d];
                from += index * p.in_strides[d];
            }
        }
        move_piece(out + to + at * piece, in + from + at * piece, piece);
    }
    for (i64 i = pieces * piece + first_unit(); p.n_rows == 1 && i < p.row_bytes; i += unit_step()) out[i] = in[i];
}

WR_KERNEL(wr_move_elements, wr_move_copy_params, WR_MOVE_THREADS, 4) {
    wr_grid_launch();
    const bool narrow = fits_32(p.n_rows);
    wr_grid_wait();
    for (i64 unit = first_unit(); unit < p.n_rows; unit += unit_step()) {
        i64 row = unit, to = 0, from = 0;
        for (int d = p.n_dims - 1; d >= 0; d--) {
            i64 index = row;
            row = divide(&index, p.shape[d], narrow);
            to += index * p.out_strides[d];
            from += index * p.in_strides[d];
        }
        move_piece((u8 *)p.out + to, (const u8 *)p.in + from, (int)p.row_bytes);
    }
}

/* A block moves one tile of 32 x 32. Tiles of a column of tiles follow each other, so that neighbouring blocks write
 * neighbouring bytes. */
WR_KERNEL(wr_move_transpose, wr_move_transpose_params, WR_MOVE_THREADS, 4) {
    enum { SIDE = WR_MOVE_TILE, PITCH = WR_MOVE_TILE + 1, THREAD_ROWS = WR_MOVE_THREADS / WR_MOVE_TILE };
    WR_SHARED_ARRAY(u64, tile, SIDE * PITCH);
    wr_grid_launch();
    const int bytes = p.bytes, x = (int)(threadIdx.x % SIDE), y = (int)(threadIdx.x / SIDE);
    const i64 tile_rows = (p.rows + SIDE - 1) / SIDE, tile_cols = (p.cols + SIDE - 1) / SIDE;
    const i64 tiles = p.n_batch * tile_rows * tile_cols;
    u8 *elements = (u8 *)tile;
    wr_grid_wait();
    for (i64 unit = blockIdx.x; unit < tiles; unit += gridDim.x) {
        i64 col = unit, to = 0, from = 0;
        i64 row = divide(&col, tile_cols, false);
        i64 batch = divide(&row, tile_rows, false);
        for (int d = p.n_dims - 1; d >= 0; d--) {
            i64 index = batch;
            batch = divide(&index, p.shape[d], false);
            to += index * p.out_strides[d];
            from += index * p.in_strides[d];
        }
        row *= SIDE;
        col *= SIDE;
        for (int j = y; j < SIDE; j += THREAD_ROWS)
            if (row + x < p.rows && col + j < p.cols)
                move_piece(elements + (j * PITCH + x) * bytes,
                           (const u8 *)p.in + (from + (col + j) * p.in_col + row + x) * bytes, bytes);
        __syncthreads();
        for (int j = y; j < SIDE; j += THREAD_ROWS)
            if (row + j < p.rows && col + x < p.cols)
                move_piece((u8 *)p.out + (to + (row + j) * p.out_row + col + x) * bytes,
                           elements + (x * PITCH + j) * bytes, bytes);
        __syncthreads();
    }
}

WR_KERNEL(wr_move_fill, wr_move_fill_params, WR_MOVE_THREADS, 4) {
    wr_grid_launch();
    const int piece = piece_of((u64)p.out);
    const i64 bytes = p.n * p.bytes, pieces = bytes / piece;
    u8 *out = (u8 *)p.out;
    wr_grid_wait();
    for (i64 i = first_unit(); i < pieces; i += unit_step()) fill_piece(out + i * piece, p.bits, piece);
    /* The rest is shorter than a piece and whole elements. */
    for (i64 i = pieces * piece + first_unit() * p.bytes; i < bytes; i += unit_step() * p.bytes)
        fill_piece(out + i, p.bits, p.bytes);
}

/* ---- by index ---- */

/* -1 when it is out of range; negative ones count from the end. */
WR_DEVICE i64 index_at(const void *ids, int dtype, i64 at, i64 size) {
    i64 index = wr_load_int(ids, dtype, at);
    if (index < 0) index += size;
    return index >= 0 && index < size ? index : -1;
}

WR_KERNEL(wr_move_take, wr_move_take_params, WR_MOVE_THREADS, 4) {
    wr_grid_launch();
    const int piece = p.vector ? piece_of(p.alignment | (u64)p.out | (u64)p.x) : p.bytes;
    const i64 pieces = p.inner_bytes / piece, units = p.n_outer * p.n_ids * pieces;
    const bool narrow = fits_32(units);
    u8 *out = (u8 *)p.out;
    const u8 *x = (const u8 *)p.x;
    wr_grid_wait();
    for (i64 unit = first_unit(); unit < units; unit += unit_step()) {
        i64 at = unit;
        i64 id = divide(&at, pieces, narrow);
        i64 outer = p.n_outer > 1 ? divide(&id, p.n_ids, narrow) : 0;
        i64 index = index_at(p.ids, p.ids_dtype,
                             wr_walk(id, p.ids_axes.n, p.ids_axes.shape, p.ids_axes.strides, narrow), p.size);
        if (index < 0) {
            fill_piece(out + unit * piece, p.missing, piece);
            continue;
        }
        i64 from = index * p.stride + wr_walk(outer, p.outer.n, p.outer.shape, p.outer.strides, narrow);
        from += p.vector ? at * piece : wr_walk(at, p.inner.n, p.inner.shape, p.inner.strides, narrow);
        move_piece(out + unit * piece, x + from, piece);
    }
}

WR_KERNEL(wr_move_take_along, wr_move_along_params, WR_MOVE_THREADS, 4) {
    wr_grid_launch();
    const bool narrow = fits_32(p.n);
    wr_grid_wait();
    for (i64 unit = first_unit(); unit < p.n; unit += unit_step()) {
        i64 row = unit, from = 0, ids_at = 0;
        for (int d = p.n_dims - 1; d >= 0; d--) {
            i64 index = row;
            row = divide(&index, p.shape[d], narrow);
            from += index * p.x_strides[d];
            ids_at += index * p.ids_strides[d];
        }
        i64 index = index_at(p.ids, p.ids_dtype, ids_at, p.size);
        u8 *to = (u8 *)p.out + unit * p.bytes;
        if (index < 0)
            fill_piece(to, p.missing, p.bytes);
        else
            move_piece(to, (const u8 *)p.x + (from + index * p.stride) * p.bytes, p.bytes);
    }
}

/* out += update, by the dtype's arithmetic: integers wrap, floats round once a step. */
WR_DEVICE void add_element(void *out, i64 to, const void *updates, i64 from, int dtype) {
    if (wr_is_float(dtype))
        wr_store_float(out, dtype, to, wr_load_float(out, dtype, to) + wr_load_float(updates, dtype, from));
    else
        wr_store_int(out, dtype, to, (i64)((u64)wr_load_int(out, dtype, to) + (u64)wr_load_int(updates, dtype, from)));
}

/* Where a line begins, in the output, the indices and the updates. */
typedef struct line_places {
    i64 out, ids, updates;
} line_places;
WR_DEVICE line_places places_of(const wr_move_scatter_params *p, i64 line) {
    const bool narrow = fits_32(p->n_lines);
    line_places at = {0, 0, 0};
    for (int d = p->n_dims - 1; d >= 0; d--) {
        i64 index = line;
        line = divide(&index, p->shape[d], narrow);
        at.out += index * p->out_strides[d];
        at.ids += index * p->ids_strides[d];
        at.updates += index * p->updates_strides[d];
    }
    return at;
}
WR_DEVICE void update_element(const wr_move_scatter_params *p, i64 to, i64 from) {
    const int bytes = wr_dtype_size(p->dtype);
    if (p->add)
        add_element(p->out, to, p->updates, from, p->dtype);
    else
        move_piece((u8 *)p->out + to * bytes, (const u8 *)p->updates + from * bytes, bytes);
}

/* A line a thread. */
WR_KERNEL(wr_move_scatter, wr_move_scatter_params, WR_MOVE_THREADS, 4) {
    wr_grid_launch();
    wr_grid_wait();
    for (i64 line = first_unit(); line < p.n_lines; line += unit_step()) {
        const line_places at = places_of(&p, line);
        for (i64 i = 0; i < p.n; i++) {
            i64 index = index_at(p.ids, p.ids_dtype, at.ids + i * p.ids_stride, p.size);
            if (index >= 0) update_element(&p, at.out + index * p.out_stride, at.updates + i * p.updates_stride);
        }
    }
}

/* A line a warp, 32 updates at once: those of one element take turns in order, so the bits are those of one thread. */
WR_KERNEL(wr_move_scatter_warps, wr_move_scatter_params, WR_MOVE_THREADS, 4) {
    const u32 all = 0xFFFFFFFFu;
    const int lane = (int)(threadIdx.x % 32);
    wr_grid_launch();
    wr_grid_wait();
    for (i64 line = first_unit() / 32; line < p.n_lines; line += unit_step() / 32) {
        const line_places at = places_of(&p, line);
        for (i64 base = 0; base < p.n; base += 32) {
            const i64 i = base + lane;
            i64 index = i < p.n ? index_at(p.ids, p.ids_dtype, at.ids + i * p.ids_stride, p.size) : -1;
            const u32 same = __match_any_sync(all, (u32)index);
            int turn = __popc(same & ((1u << lane) - 1));
            if (!p.add) { /* the last of equals wins */
                if (same >> lane != 1) index = -1;
                turn = 0;
            }
            for (int now = 0; __any_sync(all, index >= 0 && turn >= now); now++) {
                if (index >= 0 && turn == now)
                    update_element(&p, at.out + index * p.out_stride, at.updates + i * p.updates_stride);
                __syncwarp();
            }
        }
    }
}
