/* SORT, ARGSORT, TOP_K, ARG_TOP_K along one axis; any strides, any dtype, rows to 2^31 elements.
 *
 * Contract. Stable; NaN last in either direction; -0 equals 0; top-k falls, of equals the lower index first. An element
 * becomes an item: a key in the wanted order, and its index. Items are all different, so any way of sorting gives the
 * stable order, and bits cannot depend on how rows are cut. Items of dtypes up to 32 bits are one u64 (key, index).
 *
 * Rows up to 256 (32-bit dtypes): a warp a row. Sort: blocks sort tiles of 2,048 in shared memory (bitonic); runs are
 * merged in pairs, each item finding its place in the other run by bisection; the last kernel fetches values. Top-k up
 * to 1,024: each tile keeps its first k, and tiles are made of what stayed until one is left. The reference counts for
 * each element those before it.
 *
 * Bytes: sort, 8 n (16 n for 64-bit dtypes) there and back a pass, log2(n / 2048) passes; top-k, the input once and
 * about k / tile of it in items. Operations: n log2(tile)^2 / 4 exchanges in tiles, n log2(run) probes a pass.
 *
 * Measured: docs/kernels.md. */
#include "cuda/kernels/rows.cuh"
#include "cuda/kernels/sort.h"

typedef struct wide {
    u64 key, index;
} wide;

WR_DEVICE bool before(u64 a, u64 b) { return a < b; }
WR_DEVICE bool before(const wide &a, const wide &b) { return a.key < b.key || (a.key == b.key && a.index < b.index); }
WR_DEVICE i64 index_of(u64 a) { return (i64)(u32)a; }
WR_DEVICE i64 index_of(const wide &a) { return (i64)a.index; }
/* Behind every real item: no index is this large. */
WR_DEVICE void make_last(u64 *item) { *item = ~0ull; }
WR_DEVICE void make_last(wide *item) { item->key = item->index = ~0ull; }

WR_DEVICE u32 narrow_key(const void *x, int dtype, i64 at, bool descending) {
    u32 key;
    if (wr_is_float(dtype)) {
        float v = wr_load_float(x, dtype, at);
        if (v != v) return 0xFFFFFFFFu;
        key = wr_f32_bits(v + 0.0f); /* -0 becomes 0 */
        key = key >> 31 ? ~key : key | 0x80000000u;
    } else {
        key = (u32)wr_load_int(x, dtype, at) ^ (wr_is_signed(dtype) ? 0x80000000u : 0);
    }
    return descending ? ~key : key;
}
WR_DEVICE void make_item(u64 *item, const void *x, int dtype, i64 at, i64 index, bool descending) {
    *item = (u64)narrow_key(x, dtype, at, descending) << 32 | (u32)index;
}
WR_DEVICE void make_item(wide *item, const void *x, int dtype, i64 at, i64 index, bool descending) {
    if (wr_dtype_size(dtype) == 8) {
        u64 key = (u64)wr_load_int(x, dtype, at) ^ (wr_is_signed(dtype) ? 1ull << 63 : 0);
        item->key = descending ? ~key : key;
    } else {
        item->key = narrow_key(x, dtype, at, descending);
    }
    item->index = (u64)index;
}

/* Element `index` of a row becomes result `place` of it. */
WR_DEVICE void emit(const wr_sort_params &p, const wr_line &line, i64 row, i64 place, i64 index) {
    i64 to = wr_walk(row, p.rows.n_kept, p.rows.kept, p.out_kept, p.rows.narrow_rows) + place * p.out_stride;
    if (p.wants_index) {
        ((i32 *)p.out)[to] = (i32)index;
        return;
    }
    i64 from = wr_line_at(line, index);
    switch (wr_dtype_size(p.dtype)) {
    case 1: ((u8 *)p.out)[to] = ((const u8 *)p.x)[from]; break;
    case 2: ((u16 *)p.out)[to] = ((const u16 *)p.x)[from]; break;
    case 4: ((u32 *)p.out)[to] = ((const u32 *)p.x)[from]; break;
    default: ((u64 *)p.out)[to] = ((const u64 *)p.x)[from];
    }
}

/* Sorts count items of shared memory by a warp or a block; there is room up to the next power of two. */
template <typename ITEM, int LANES> WR_DEVICE void bitonic(ITEM *items, int count, int lane) {
    int size = 1;
    while (size < count) size *= 2;
    for (int i = count + lane; i < size; i += LANES) make_last(&items[i]);
    LANES == 32 ? __syncwarp() : __syncthreads();
    for (int run = 2; run <= size; run *= 2)
        for (int gap = run / 2; gap > 0; gap /= 2) {
            for (int pair = lane; pair < size / 2; pair += LANES) {
                int low = pair / gap * gap * 2 + pair % gap, high = low + gap;
                ITEM a = items[low], b = items[high];
                if (before(b, a) == !(low & run)) items[low] = b, items[high] = a;
            }
            LANES == 32 ? __syncwarp() : __syncthreads();
        }
}

/* A warp or a block a tile: sort it; its first n_to / tiles items (or all) go to `to`, or the first k to out. */
template <typename ITEM, int LANES> WR_DEVICE void sort_tiles(const wr_sort_params &p, ITEM *items) {
    constexpr int EACH = WR_REDUCE_THREADS / LANES;
    int lane = threadIdx.x % LANES;
    items += threadIdx.x / LANES * WR_SORT_WARP; /* one segment when a block works together */
    wr_grid_launch();
    wr_grid_wait();
    i64 units = p.n_rows * p.tiles;
    for (i64 unit = (i64)blockIdx.x * EACH + threadIdx.x / LANES; unit < units; unit += (i64)gridDim.x * EACH) {
        i64 row = unit / p.tiles, tile = unit % p.tiles, first = tile * p.tile;
        int count = (int)(p.n - first < p.tile ? p.n - first : p.tile);
        wr_line line = wr_line_of(p.x, p.dtype, p.rows, p.first_row + row);
        for (int i = lane; i < count; i += LANES) {
            if (p.from)
                items[i] = ((const ITEM *)p.from)[row * p.n + first + i];
            else
                make_item(&items[i], p.x, p.dtype, wr_line_at(line, first + i), first + i, p.descending);
        }
        bitonic<ITEM, LANES>(items, count, lane);
        if (p.to) {
            i64 each = p.n_to == p.n ? p.tile : p.k; /* merge sort keeps all, top-k the first k of each tile */
            ITEM *to = (ITEM *)p.to + row * p.n_to + tile * each;
            int n = (int)(p.n_to - tile * each < each ? p.n_to - tile * each : each);
            for (int i = lane; i < n; i += LANES) {
                ITEM item;
                make_last(&item);
                if (i < count) item = items[i];
                to[i] = item;
            }
        } else {
            for (i64 i = lane; i < p.k; i += LANES) emit(p, line, p.first_row + row, i, index_of(items[i]));
        }
        LANES == 32 ? __syncwarp() : __syncthreads();
    }
}
WR_KERNEL(wr_sort_warp_narrow, wr_sort_params, WR_REDUCE_THREADS, 4) {
    WR_SHARED_ARRAY(u64, items, WR_REDUCE_THREADS / 32 * WR_SORT_WARP);
    sort_tiles<u64, 32>(p, items);
}
WR_KERNEL(wr_sort_tiles_narrow, wr_sort_params, WR_REDUCE_THREADS, 2) {
    WR_SHARED_ARRAY(u64, items, WR_SORT_TILE);
    sort_tiles<u64, WR_REDUCE_THREADS>(p, items);
}
WR_KERNEL(wr_sort_tiles_wide, wr_sort_params, WR_REDUCE_THREADS, 2) {
    WR_SHARED_ARRAY(wide, items, WR_SORT_TILE);
    sort_tiles<wide, WR_REDUCE_THREADS>(p, items);
}
WR_KERNEL(wr_top_k_tiles, wr_sort_params, WR_REDUCE_THREADS, 2) {
    WR_SHARED_ARRAY(u64, items, WR_TOP_K_TILE);
    sort_tiles<u64, WR_REDUCE_THREADS>(p, items);
}

/* Runs of `width` become runs of twice that. */
template <typename ITEM> WR_DEVICE void merge_runs(const wr_sort_params &p) {
    wr_grid_launch();
    wr_grid_wait();
    i64 total = p.n_rows * p.n;
    for (i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x; at < total; at += (i64)gridDim.x * blockDim.x) {
        i64 row = at / p.n, i = at % p.n, run = i / p.width;
        const ITEM *items = (const ITEM *)p.from + row * p.n;
        ITEM mine = items[i];
        i64 first = (run ^ 1) * p.width, low = first < p.n ? first : p.n;
        i64 high = first + p.width < p.n ? first + p.width : p.n, begin = low;
        while (low < high) {
            i64 middle = low + (high - low) / 2;
            if (before(items[middle], mine))
                low = middle + 1;
            else
                high = middle;
        }
        ((ITEM *)p.to)[row * p.n + (run & ~1ll) * p.width + (i - run * p.width) + (low - begin)] = mine;
    }
}
WR_KERNEL(wr_sort_merge_narrow, wr_sort_params, WR_REDUCE_THREADS, 4) { merge_runs<u64>(p); }
WR_KERNEL(wr_sort_merge_wide, wr_sort_params, WR_REDUCE_THREADS, 4) { merge_runs<wide>(p); }

template <typename ITEM> WR_DEVICE void emit_rows(const wr_sort_params &p) {
    wr_grid_launch();
    wr_grid_wait();
    i64 total = p.n_rows * p.k;
    for (i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x; at < total; at += (i64)gridDim.x * blockDim.x) {
        i64 row = at / p.k, i = at % p.k;
        wr_line line = wr_line_of(p.x, p.dtype, p.rows, p.first_row + row);
        emit(p, line, p.first_row + row, i, index_of(((const ITEM *)p.from)[row * p.n + i]));
    }
}
WR_KERNEL(wr_sort_emit_narrow, wr_sort_params, WR_REDUCE_THREADS, 4) { emit_rows<u64>(p); }
WR_KERNEL(wr_sort_emit_wide, wr_sort_params, WR_REDUCE_THREADS, 4) { emit_rows<wide>(p); }

/* A thread an element: its place is the number of elements before it. */
WR_KERNEL(wr_sort_ref, wr_sort_params, WR_REDUCE_THREADS, 1) {
    wr_grid_launch();
    wr_grid_wait();
    i64 total = p.rows.rows * p.n;
    for (i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x; at < total; at += (i64)gridDim.x * blockDim.x) {
        i64 row = at / p.n, index = at % p.n, place = 0;
        wr_line line = wr_line_of(p.x, p.dtype, p.rows, row);
        wide mine, other;
        make_item(&mine, p.x, p.dtype, wr_line_at(line, index), index, p.descending);
        for (i64 i = 0; i < p.n; i++) {
            make_item(&other, p.x, p.dtype, wr_line_at(line, i), i, p.descending);
            place += before(other, mine);
        }
        if (place < p.k) emit(p, line, row, place, index);
    }
}
