/* SUM, MEAN, MAX, MIN, LOGSUMEXP over any axes; ARGMAX, SOFTMAX, CUMSUM along one; any strides, any dtype.
 *
 * Contract. Float sums are f32 in one tree a row length n (kernels/rows.cuh says which lane owns what): a lane adds its
 * quads into four sums in order and those as (0+1)+(2+3); lanes are joined by halving shuffles, warps in order. n up to
 * 1,024: 32 lanes; else 256; above 16,384: chunks of that many, joined the same way by 32 lanes. Nothing depends on the
 * number of rows. Running sums are held in double. The reference kernels do one row a thread, in order, in double.
 * Error of a float sum: (n / 1024 + 20) 2^-24 of the sum of magnitudes at most, up to n = 16,384.
 * NaN propagates through all; ARGMAX takes NaN for the largest and the first of equals.
 *
 * Bytes: the input once (softmax and logsumexp twice, the second time mostly from L2) and the output. Operations an
 * element: 1; LOGSUMEXP 4 (maximum, difference, exponential, sum), SOFTMAX 5; CUMSUM 1, in double, and 5 shuffles for
 * each four. CUMSUM and SOFTMAX have one block a row: one long row uses one multiprocessor.
 *
 * Measured: docs/kernels.md.
 *
 * Reductions over outer axes of a row-major array fetch 4 bytes of each 32-byte sector a time and lean on L1 for the
 * rest. */
#include "cuda/kernels/rows.cuh"

/* Element numbers of chunk `chunk`: first (a multiple of 4) and the end. */
WR_DEVICE i64 chunk_end(i64 first, i64 size, i64 n) { return first + size < n ? first + size : n; }

/* ---- float reductions ---- */

template <int OP, int LANES>
WR_DEVICE float fold(const wr_line &line, i64 first, i64 end, int lane, float shift, float *shared) {
    constexpr int JOIN = OP == WR_REDUCE_MAX ? WR_JOIN_MAX : OP == WR_REDUCE_MIN ? WR_JOIN_MIN : WR_JOIN_SUM;
    float infinity = wr_bits_f32(0x7F800000u);
    float start = OP == WR_REDUCE_MAX ? -infinity : OP == WR_REDUCE_MIN ? infinity : 0;
    float rest = OP == WR_REDUCE_LOGSUMEXP ? -infinity : start;
    float sum[4] = {start, start, start, start};
#pragma unroll 2
    for (i64 k = first + lane * 4; k < end; k += LANES * 4) {
        float v[4];
        wr_line_quad(v, line, k, end, rest);
        for (int e = 0; e < 4; e++) {
            if (OP == WR_REDUCE_LOGSUMEXP) v[e] = v[e] == -infinity ? 0 : expf(v[e] - shift);
            sum[e] = wr_join<JOIN>(sum[e], v[e]);
        }
    }
    float v = wr_join<JOIN>(wr_join<JOIN>(sum[0], sum[1]), wr_join<JOIN>(sum[2], sum[3]));
    return wr_lanes_join<JOIN, LANES>(v, shared);
}

/* Maximum and sum of exp(v - maximum) of a stretch; all -inf gives -inf and 0. */
typedef struct peak {
    float top, sum;
} peak;
template <int LANES> WR_DEVICE peak peak_of(const wr_line &line, i64 first, i64 end, int lane, float *shared) {
    peak r;
    r.top = fold<WR_REDUCE_MAX, LANES>(line, first, end, lane, 0, shared);
    r.sum = fold<WR_REDUCE_LOGSUMEXP, LANES>(line, first, end, lane, r.top, shared);
    return r;
}
/* The peaks of a row's chunks as one; each lane of the warp gets it. */
WR_DEVICE peak peaks_join(const peak *parts, i64 chunks) {
    float infinity = wr_bits_f32(0x7F800000u), top = -infinity, sum = 0;
    int lane = threadIdx.x % 32;
    for (i64 c = lane; c < chunks; c += 32) top = wr_max_nan(top, parts[c].top);
    top = wr_warp_max(top);
    for (i64 c = lane; c < chunks; c += 32)
        if (parts[c].top != -infinity) sum += parts[c].sum * expf(parts[c].top - top);
    peak r = {top, wr_warp_sum(sum)};
    return r;
}
WR_DEVICE float peak_log(peak v) {
    bool finite = v.top - v.top == 0;
    return finite ? v.top + logf(v.sum) : v.top;
}

WR_DEVICE void store_reduced(const wr_reduce_params &p, i64 row, float v) {
    if (p.op == WR_REDUCE_MEAN) v = v / (float)p.rows.n;
    if (wr_is_float(p.out_dtype))
        wr_store_float(p.out, p.out_dtype, row, v);
    else
        wr_store_real(p.out, p.out_dtype, row, v);
}

template <int OP, int LANES> WR_DEVICE void reduce_rows(const wr_reduce_params &p) {
    WR_SHARED_ARRAY(float, shared, WR_REDUCE_THREADS / 32);
    constexpr int EACH = WR_REDUCE_THREADS / LANES; /* rows of a block */
    wr_grid_launch();
    wr_grid_wait();
    i64 units = p.rows.rows * p.chunks;
    int lane = threadIdx.x % LANES;
    for (i64 unit = (i64)blockIdx.x * EACH + threadIdx.x / LANES; unit < units; unit += (i64)gridDim.x * EACH) {
        i64 row = unit / p.chunks, first = unit % p.chunks * WR_REDUCE_CHUNK;
        i64 end = chunk_end(first, WR_REDUCE_CHUNK, p.rows.n);
        wr_line line = wr_line_of(p.x, p.x_dtype, p.rows, row);
        peak v = {0, 0};
        if (OP == WR_REDUCE_LOGSUMEXP)
            v = peak_of<LANES>(line, first, end, lane, shared);
        else
            v.top = fold<OP, LANES>(line, first, end, lane, 0, shared);
        if (lane) continue;
        if (p.partials)
            ((peak *)p.partials)[unit] = v;
        else
            store_reduced(p, row, OP == WR_REDUCE_LOGSUMEXP ? peak_log(v) : v.top);
    }
}

#define REDUCE_KERNELS(name, op)                                                                                       \
    WR_KERNEL(wr_reduce_##name##_warp, wr_reduce_params, WR_REDUCE_THREADS, 4) { reduce_rows<op, 32>(p); }             \
    WR_KERNEL(wr_reduce_##name##_block, wr_reduce_params, WR_REDUCE_THREADS, 4) {                                      \
        reduce_rows<op, WR_REDUCE_THREADS>(p);                                                                         \
    }
REDUCE_KERNELS(sum, WR_REDUCE_SUM)
REDUCE_KERNELS(max, WR_REDUCE_MAX)
REDUCE_KERNELS(min, WR_REDUCE_MIN)
REDUCE_KERNELS(logsumexp, WR_REDUCE_LOGSUMEXP)

/* A warp a row joins the chunks. */
WR_KERNEL(wr_reduce_last, wr_reduce_params, WR_REDUCE_THREADS, 4) {
    wr_grid_launch();
    wr_grid_wait();
    int lane = threadIdx.x % 32, each = WR_REDUCE_THREADS / 32;
    for (i64 row = (i64)blockIdx.x * each + threadIdx.x / 32; row < p.rows.rows; row += (i64)gridDim.x * each) {
        const peak *parts = (const peak *)p.partials + row * p.chunks;
        float infinity = wr_bits_f32(0x7F800000u), v;
        if (p.op == WR_REDUCE_LOGSUMEXP) {
            v = peak_log(peaks_join(parts, p.chunks));
        } else if (p.op == WR_REDUCE_MAX) {
            v = -infinity;
            for (i64 c = lane; c < p.chunks; c += 32) v = wr_max_nan(v, parts[c].top);
            v = wr_warp_max(v);
        } else if (p.op == WR_REDUCE_MIN) {
            v = infinity;
            for (i64 c = lane; c < p.chunks; c += 32) v = wr_min_nan(v, parts[c].top);
            v = wr_warp_min(v);
        } else {
            v = 0;
            for (i64 c = lane; c < p.chunks; c += 32) v = v + parts[c].top;
            v = wr_warp_sum(v);
        }
        if (lane == 0) store_reduced(p, row, v);
    }
}

/* ---- integer reductions: exact in any order, wrapping in 64 bits ---- */

WR_DEVICE i64 join_int(int op, bool is_signed, i64 a, i64 b) {
    if (op == WR_REDUCE_SUM) return (i64)((u64)a + (u64)b);
    bool less = is_signed ? a < b : (u64)a < (u64)b;
    return less == (op == WR_REDUCE_MIN) ? a : b;
}
/* A warp or a block a row. */
template <int LANES> WR_DEVICE void reduce_int_rows(const wr_reduce_params &p) {
    WR_SHARED_ARRAY(i64, shared, WR_REDUCE_THREADS / 32);
    constexpr int EACH = WR_REDUCE_THREADS / LANES;
    wr_grid_launch();
    wr_grid_wait();
    bool is_signed = wr_is_signed(p.x_dtype);
    int lane = threadIdx.x % LANES;
    for (i64 row = (i64)blockIdx.x * EACH + threadIdx.x / LANES; row < p.rows.rows; row += (i64)gridDim.x * EACH) {
        wr_line line = wr_line_of(p.x, p.x_dtype, p.rows, row);
        /* Lanes without an element repeat element 0, which changes no extreme. */
        i64 v = p.op == WR_REDUCE_SUM || p.rows.n == 0 ? 0 : wr_load_int(p.x, p.x_dtype, line.base);
        for (i64 k = lane; k < p.rows.n; k += LANES)
            v = join_int(p.op, is_signed, v, wr_load_int(p.x, p.x_dtype, wr_line_at(line, k)));
        for (int m = 16; m; m >>= 1) v = join_int(p.op, is_signed, v, __shfl_xor_sync(WR_ALL_LANES, v, m));
        if (LANES > 32) {
            if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
            __syncthreads();
            for (int w = 0; w < LANES / 32; w++) v = w ? join_int(p.op, is_signed, v, shared[w]) : shared[0];
            __syncthreads();
        }
        if (lane == 0) wr_store_int(p.out, p.out_dtype, row, v);
    }
}
WR_KERNEL(wr_reduce_int_warp, wr_reduce_params, WR_REDUCE_THREADS, 4) { reduce_int_rows<32>(p); }
WR_KERNEL(wr_reduce_int_block, wr_reduce_params, WR_REDUCE_THREADS, 4) { reduce_int_rows<WR_REDUCE_THREADS>(p); }

/* The reference: a thread a row, in order, in double or in 64-bit integers. */
WR_KERNEL(wr_reduce_ref, wr_reduce_params, WR_REDUCE_THREADS, 1) {
    wr_grid_launch();
    wr_grid_wait();
    double infinity = wr_bits_f32(0x7F800000u), nan = wr_bits_f32(0x7FC00000u);
    for (i64 row = (i64)blockIdx.x * blockDim.x + threadIdx.x; row < p.rows.rows; row += (i64)gridDim.x * blockDim.x) {
        wr_line line = wr_line_of(p.x, p.x_dtype, p.rows, row);
        if (!wr_is_float(p.x_dtype) && !wr_is_float(p.out_dtype)) {
            i64 total = 0;
            for (i64 k = 0; k < p.rows.n; k++) {
                i64 v = wr_load_int(p.x, p.x_dtype, wr_line_at(line, k));
                total = k == 0 ? v : join_int(p.op, wr_is_signed(p.x_dtype), total, v);
            }
            wr_store_int(p.out, p.out_dtype, row, total);
            continue;
        }
        double sum = 0, best = p.op == WR_REDUCE_MIN ? infinity : -infinity;
        for (i64 k = 0; k < p.rows.n; k++) {
            double v = wr_load_real(p.x, p.x_dtype, wr_line_at(line, k));
            sum += v;
            if (v != v || best != best)
                best = nan;
            else if (p.op == WR_REDUCE_MIN ? v < best : v > best)
                best = v;
        }
        if (p.op == WR_REDUCE_MEAN) sum = sum / (double)p.rows.n;
        if (p.op == WR_REDUCE_LOGSUMEXP && best - best == 0) {
            sum = 0;
            for (i64 k = 0; k < p.rows.n; k++) sum += exp(wr_load_real(p.x, p.x_dtype, wr_line_at(line, k)) - best);
            best += log(sum);
        }
        wr_store_real(p.out, p.out_dtype, row, p.op == WR_REDUCE_SUM || p.op == WR_REDUCE_MEAN ? sum : best);
    }
}

/* ---- argmax ---- */

/* 32 bits in the order of the values: for floats NaN the largest and -0 equal to 0. */
WR_DEVICE u32 order_float(float v) {
    if (v != v) return 0xFFFFFFFFu;
    u32 bits = wr_f32_bits(v + 0.0f); /* -0 becomes 0 */
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}
WR_DEVICE u64 key_at(u32 order, i64 index) { return (u64)order << 32 | (0xFFFFFFFFu - (u32)index); }
WR_DEVICE u64 warp_max_key(u64 key) {
    for (int m = 16; m; m >>= 1) {
        u64 other = __shfl_xor_sync(WR_ALL_LANES, key, m);
        key = other > key ? other : key;
    }
    return key;
}

/* Exact, so the cut is free: a warp a row, or a block a chunk. */
template <int LANES> WR_DEVICE void argmax_rows(const wr_reduce_params &p) {
    WR_SHARED_ARRAY(u64, shared, WR_REDUCE_THREADS / 32);
    constexpr int EACH = WR_REDUCE_THREADS / LANES;
    wr_grid_launch();
    wr_grid_wait();
    i64 units = p.rows.rows * p.chunks;
    int lane = threadIdx.x % LANES;
    for (i64 unit = (i64)blockIdx.x * EACH + threadIdx.x / LANES; unit < units; unit += (i64)gridDim.x * EACH) {
        i64 row = unit / p.chunks, first = unit % p.chunks * WR_ARGMAX_CHUNK;
        i64 end = chunk_end(first, WR_ARGMAX_CHUNK, p.rows.n);
        wr_line line = wr_line_of(p.x, p.x_dtype, p.rows, row);
        u64 best = 0;
        if (wr_is_float(p.x_dtype)) {
#pragma unroll 2
            for (i64 k = first + lane * 4; k < end; k += LANES * 4) {
                float v[4];
                wr_line_quad(v, line, k, end, 0);
                for (int e = 0; e < 4; e++) {
                    u64 key = key_at(order_float(v[e]), k + e);
                    if (k + e < end && key > best) best = key;
                }
            }
        } else {
            u32 flip = wr_is_signed(p.x_dtype) ? 0x80000000u : 0;
            for (i64 k = first + lane; k < end; k += LANES) {
                u64 key = key_at((u32)wr_load_int(p.x, p.x_dtype, wr_line_at(line, k)) ^ flip, k);
                if (key > best) best = key;
            }
        }
        best = warp_max_key(best);
        if (LANES > 32) {
            if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = best;
            __syncthreads();
            for (int w = 0; w < LANES / 32; w++) best = shared[w] > best ? shared[w] : best;
            __syncthreads();
        }
        if (lane) continue;
        if (p.partials)
            ((u64 *)p.partials)[unit] = best;
        else
            wr_store_int(p.out, p.out_dtype, row, 0xFFFFFFFFu - (u32)best);
    }
}
WR_KERNEL(wr_argmax_warp, wr_reduce_params, WR_REDUCE_THREADS, 4) { argmax_rows<32>(p); }
WR_KERNEL(wr_argmax_block, wr_reduce_params, WR_REDUCE_THREADS, 4) { argmax_rows<WR_REDUCE_THREADS>(p); }
WR_KERNEL(wr_argmax_last, wr_reduce_params, WR_REDUCE_THREADS, 4) {
    wr_grid_launch();
    wr_grid_wait();
    int lane = threadIdx.x % 32, each = WR_REDUCE_THREADS / 32;
    for (i64 row = (i64)blockIdx.x * each + threadIdx.x / 32; row < p.rows.rows; row += (i64)gridDim.x * each) {
        u64 best = 0;
        for (i64 c = lane; c < p.chunks; c += 32) {
            u64 key = ((const u64 *)p.partials)[row * p.chunks + c];
            best = key > best ? key : best;
        }
        best = warp_max_key(best);
        if (lane == 0) wr_store_int(p.out, p.out_dtype, row, 0xFFFFFFFFu - (u32)best);
    }
}
/* The reference, and 64-bit integers. */
WR_KERNEL(wr_argmax_ref, wr_reduce_params, WR_REDUCE_THREADS, 1) {
    wr_grid_launch();
    wr_grid_wait();
    for (i64 row = (i64)blockIdx.x * blockDim.x + threadIdx.x; row < p.rows.rows; row += (i64)gridDim.x * blockDim.x) {
        wr_line line = wr_line_of(p.x, p.x_dtype, p.rows, row);
        i64 best = 0;
        for (i64 k = 1; k < p.rows.n; k++) {
            i64 a = wr_line_at(line, k), b = wr_line_at(line, best);
            bool beats;
            if (wr_is_float(p.x_dtype)) {
                float x = wr_load_float(p.x, p.x_dtype, a), y = wr_load_float(p.x, p.x_dtype, b);
                beats = x != x ? y == y : x > y;
            } else {
                i64 x = wr_load_int(p.x, p.x_dtype, a), y = wr_load_int(p.x, p.x_dtype, b);
                beats = wr_is_signed(p.x_dtype) ? x > y : (u64)x > (u64)y;
            }
            if (beats) best = k;
        }
        wr_store_int(p.out, p.out_dtype, row, best);
    }
}

/* ---- softmax ---- */

WR_DEVICE i64 out_base(const wr_scan_params &p, i64 row) {
    return wr_walk(row, p.rows.n_kept, p.rows.kept, p.out_kept, p.rows.narrow_rows);
}

/* A unit is a row, or a chunk of one whose peaks logsumexp's kernel has left in partials. */
template <int LANES> WR_DEVICE void softmax_rows(const wr_scan_params &p) {
    WR_SHARED_ARRAY(float, shared, WR_REDUCE_THREADS / 32);
    constexpr int EACH = WR_REDUCE_THREADS / LANES;
    wr_grid_launch();
    wr_grid_wait();
    i64 units = p.rows.rows * p.chunks;
    int lane = threadIdx.x % LANES;
    float infinity = wr_bits_f32(0x7F800000u);
    for (i64 unit = (i64)blockIdx.x * EACH + threadIdx.x / LANES; unit < units; unit += (i64)gridDim.x * EACH) {
        i64 row = unit / p.chunks, first = unit % p.chunks * WR_REDUCE_CHUNK;
        i64 end = chunk_end(first, WR_REDUCE_CHUNK, p.rows.n), to = out_base(p, row);
        wr_line line = wr_line_of(p.x, p.x_dtype, p.rows, row);
        peak v = p.partials ? peaks_join((const peak *)p.partials + row * p.chunks, p.chunks)
                            : peak_of<LANES>(line, first, end, lane, shared);
        bool f32_quads = p.out_dtype == WEIR_DTYPE_F32 && p.out_stride == 1 && ((u64)p.out / 4 + (u64)to) % 4 == 0;
#pragma unroll 2
        for (i64 k = first + lane * 4; k < end; k += LANES * 4) {
            float y[4];
            wr_line_quad(y, line, k, end, 0);
            for (int e = 0; e < 4; e++) y[e] = v.top == -infinity ? 0 : expf(y[e] - v.top) / v.sum;
            if (f32_quads && k + 4 <= end) {
                uint4 w;
                w.x = wr_f32_bits(y[0]), w.y = wr_f32_bits(y[1]), w.z = wr_f32_bits(y[2]), w.w = wr_f32_bits(y[3]);
                *(uint4 *)((float *)p.out + to + k) = w;
            } else {
                for (int e = 0; e < 4; e++)
                    if (k + e < end) wr_store_float(p.out, p.out_dtype, to + (k + e) * p.out_stride, y[e]);
            }
        }
    }
}
WR_KERNEL(wr_softmax_warp, wr_scan_params, WR_REDUCE_THREADS, 4) { softmax_rows<32>(p); }
WR_KERNEL(wr_softmax_block, wr_scan_params, WR_REDUCE_THREADS, 4) { softmax_rows<WR_REDUCE_THREADS>(p); }

WR_KERNEL(wr_softmax_ref, wr_scan_params, WR_REDUCE_THREADS, 1) {
    wr_grid_launch();
    wr_grid_wait();
    double infinity = wr_bits_f32(0x7F800000u), nan = wr_bits_f32(0x7FC00000u);
    for (i64 row = (i64)blockIdx.x * blockDim.x + threadIdx.x; row < p.rows.rows; row += (i64)gridDim.x * blockDim.x) {
        wr_line line = wr_line_of(p.x, p.x_dtype, p.rows, row);
        i64 to = out_base(p, row);
        double best = -infinity, sum = 0;
        for (i64 k = 0; k < p.rows.n; k++) {
            double v = wr_load_float(p.x, p.x_dtype, wr_line_at(line, k));
            best = v != v || best != best ? nan : v > best ? v : best;
        }
        for (i64 k = 0; k < p.rows.n; k++) sum += exp(wr_load_float(p.x, p.x_dtype, wr_line_at(line, k)) - best);
        for (i64 k = 0; k < p.rows.n; k++) {
            double v = wr_load_float(p.x, p.x_dtype, wr_line_at(line, k));
            wr_store_real(p.out, p.out_dtype, to + k * p.out_stride, best == -infinity ? 0 : exp(v - best) / sum);
        }
    }
}

/* ---- running sums ---- */

WR_DEVICE double scan_load(const void *x, int dtype, i64 at, double) { return wr_load_real(x, dtype, at); }
WR_DEVICE u64 scan_load(const void *x, int dtype, i64 at, u64) { return (u64)wr_load_int(x, dtype, at); }
WR_DEVICE void scan_store(void *out, int dtype, i64 at, double v) { wr_store_real(out, dtype, at, v); }
WR_DEVICE void scan_store(void *out, int dtype, i64 at, u64 v) { wr_store_int(out, dtype, at, (i64)v); }

/* A block a row, 1,024 elements a time (a warp, 128, where a row is no longer): four in order a thread, lanes by
 * doubling, warps and pieces in order. */
template <typename T, int LANES> WR_DEVICE void cumsum_rows(const wr_scan_params &p, T *shared) {
    constexpr int EACH = WR_REDUCE_THREADS / LANES;
    int place = threadIdx.x % LANES, lane = threadIdx.x % 32, warp = place / 32;
    wr_grid_launch();
    wr_grid_wait();
    for (i64 row = (i64)blockIdx.x * EACH + threadIdx.x / LANES; row < p.rows.rows; row += (i64)gridDim.x * EACH) {
        wr_line line = wr_line_of(p.x, p.x_dtype, p.rows, row);
        i64 to = out_base(p, row), n = p.rows.n;
        T carry = 0;
        for (i64 first = 0; first < n; first += 4 * LANES) {
            T v[4], mine = 0;
            for (int e = 0; e < 4; e++) {
                i64 k = first + place * 4 + e;
                v[e] = k < n ? scan_load(p.x, p.x_dtype, wr_line_at(line, p.reverse ? n - 1 - k : k), (T)0) : (T)0;
                mine = mine + v[e];
            }
            T upto = mine; /* of this lane and those below */
            for (int m = 1; m < 32; m *= 2) {
                T below = __shfl_up_sync(WR_ALL_LANES, upto, m);
                if (lane >= m) upto = below + upto;
            }
            T before = __shfl_up_sync(WR_ALL_LANES, upto, 1), base = carry;
            if (lane == 0) before = 0;
            if (LANES > 32) {
                if (lane == 31) shared[warp] = upto;
                __syncthreads();
                for (int w = 0; w < warp; w++) base = base + shared[w];
                for (int w = 0; w < LANES / 32; w++) carry = carry + shared[w];
                __syncthreads();
            }
            T sum = base + before;
            for (int e = 0; e < 4; e++) {
                i64 k = first + place * 4 + e, at = to + (p.reverse ? n - 1 - k : k) * p.out_stride;
                T next = sum + v[e];
                if (k < n) scan_store(p.out, p.out_dtype, at, p.exclusive ? sum : next);
                sum = next;
            }
        }
    }
}
WR_KERNEL(wr_cumsum_float_warp, wr_scan_params, WR_REDUCE_THREADS, 2) { cumsum_rows<double, 32>(p, (double *)0); }
WR_KERNEL(wr_cumsum_int_warp, wr_scan_params, WR_REDUCE_THREADS, 2) { cumsum_rows<u64, 32>(p, (u64 *)0); }
WR_KERNEL(wr_cumsum_float_block, wr_scan_params, WR_REDUCE_THREADS, 2) {
    WR_SHARED_ARRAY(double, shared, WR_REDUCE_THREADS / 32);
    cumsum_rows<double, WR_REDUCE_THREADS>(p, shared);
}
WR_KERNEL(wr_cumsum_int_block, wr_scan_params, WR_REDUCE_THREADS, 2) {
    WR_SHARED_ARRAY(u64, shared, WR_REDUCE_THREADS / 32);
    cumsum_rows<u64, WR_REDUCE_THREADS>(p, shared);
}

template <typename T> WR_DEVICE void cumsum_in_order(const wr_scan_params &p) {
    for (i64 row = (i64)blockIdx.x * blockDim.x + threadIdx.x; row < p.rows.rows; row += (i64)gridDim.x * blockDim.x) {
        wr_line line = wr_line_of(p.x, p.x_dtype, p.rows, row);
        i64 to = out_base(p, row), n = p.rows.n;
        T sum = 0;
        for (i64 i = 0; i < n; i++) {
            i64 k = p.reverse ? n - 1 - i : i;
            T next = sum + scan_load(p.x, p.x_dtype, wr_line_at(line, k), (T)0);
            scan_store(p.out, p.out_dtype, to + k * p.out_stride, p.exclusive ? sum : next);
            sum = next;
        }
    }
}
WR_KERNEL(wr_cumsum_ref, wr_scan_params, WR_REDUCE_THREADS, 1) {
    wr_grid_launch();
    wr_grid_wait();
    if (wr_is_float(p.out_dtype))
        cumsum_in_order<double>(p);
    else
        cumsum_in_order<u64>(p);
}
