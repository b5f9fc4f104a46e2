/* RMS_NORM, LAYER_NORM, ROPE_TABLE, ROPE, CONV1D.
 *
 * Norms: f32 inside, one rounding; the output's dtype need not be x's. Thread t of a row's L threads owns the eights
 * t, t + L, .. (elements 8e .. 8e+7), adds squares in order with fmaf, warps join by halving shuffles and then in
 * order. L is 32, 128, 256, 512 or 1,024 by the length alone, so a row's bits do not depend on other rows, on alignment
 * or on how it is fetched. A weight may be the result of the step before: it is fetched after the wait like x, in the
 * same breath, which costs no time that waiting for x does not cost anyway. Tables: angles, cosines and sines in
 * double, rounded once. Rotation: fmaf(a, c, -(b * s)) and fmaf(b, c, a * s). CONV1D: one chain of
 * fmaf in order of kernel position and channel, from the bias. References: a thread a row (norms) or an output, in
 * double.
 *
 * Bytes (s, o: of an element of x and of the output): norms and rope read and write rows * n * (s + o); weights and the
 * table stay in L2. ROPE_TABLE rows * (4 + 8 half). CONV1D x, weight and output once from memory, x kernel * outputs /
 * channels times from L1 or L2. Operations: RMS_NORM 4 an element (square, sum, scale, weight), LAYER_NORM 7, ROPE 3;
 * ROPE_TABLE a sine and a cosine in double a pair; CONV1D 2 * outputs * kernel * C / groups.
 *
 * Measured: docs/kernels.md; and (H200, 30 November 2026, a step of an 8B model at batch 1): a norm 0.8 to 1.2 us; the
 * table of rotations 10 us with the library's cos and sin, whose code has to come from memory once a step, 0.2 to 4
 * now. Rows of one or two are normed by the linear behind them (linear_lean.cuh), in the same order.
 *
 * Tried and dropped: bringing a norm's weight into L2 before wr_grid_wait() (no difference). */
#include "cuda/kernels/device.cuh"
#include "cuda/kernels/dtypes.cuh"
#include "cuda/kernels/eights.cuh"
#include "cuda/kernels/norm.h"

#define ALL_LANES 0xFFFFFFFFu

/* ---- norms ---- */

template <int LANES> WR_DEVICE float lanes_sum(float v, float *shared) {
    for (int m = 16; m; m >>= 1) v = v + __shfl_xor_sync(ALL_LANES, v, m);
    if (LANES == 32) return v;
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
    __syncthreads();
    v = shared[0];
    for (int w = 1; w < LANES / 32; w++) v = v + shared[w];
    __syncthreads();
    return v;
}

typedef struct norm_row {
    i64 base;
    bool x_whole, weight_whole, bias_whole, out_whole;
} norm_row;

WR_DEVICE int eight_count(i64 k, i64 n) { return n - k >= 8 ? 8 : (int)(n - k); }

WR_DEVICE void norm_fetch(float *v, const wr_norm_params &p, const norm_row &r, i64 k) {
    int n = eight_count(k, p.n);
    if (r.x_whole && n == 8)
        wr_eight_load(v, p.x, p.x_dtype, r.base + k);
    else
        wr_some_load(v, p.x, p.x_dtype, r.base + k, n);
}
WR_DEVICE void norm_fetch_of(float *v, const void *of, int dtype, bool whole, i64 k, i64 n) {
    if (whole && n - k >= 8)
        wr_eight_load(v, of, dtype, k);
    else
        wr_some_load(v, of, dtype, k, eight_count(k, n));
}
/* y = (x - mean) * factor * weight + bias of an eight. */
WR_DEVICE void norm_finish(const float *v, const float *weight, const wr_norm_params &p, const norm_row &r, i64 k,
                           float mean, float factor) {
    float y[8], bias[8];
    int n = eight_count(k, p.n);
    if (p.bias) norm_fetch_of(bias, p.bias, p.bias_dtype, r.bias_whole, k, p.n);
    for (int e = 0; e < 8; e++) {
        y[e] = p.centred ? (v[e] - mean) * factor : v[e] * factor;
        if (p.weight) y[e] = y[e] * (p.centred ? weight[e] : weight[e] + p.weight_offset);
        if (p.bias) y[e] = y[e] + bias[e];
    }
    if (r.out_whole && n == 8)
        wr_eight_store(p.out, p.out_dtype, r.base + k, y);
    else
        wr_some_store(p.out, p.out_dtype, r.base + k, y, n);
}
/* Sum over an eight of v, or of (v - mean)^2; elements behind n do not count. */
WR_DEVICE float norm_add(float sum, const float *v, int n) {
    for (int e = 0; e < 8; e++)
        if (e < n) sum = sum + v[e];
    return sum;
}
WR_DEVICE float norm_square(float sum, const float *v, float mean, int n) {
    for (int e = 0; e < 8; e++)
        if (e < n) sum = fmaf(v[e] - mean, v[e] - mean, sum);
    return sum;
}

/* ONE: a row is at most an eight a thread, which stays in registers with its weights. */
template <int LANES, int ONE> WR_DEVICE void norm_rows(const wr_norm_params &p) {
    WR_SHARED_ARRAY(float, shared, 32);
    constexpr int EACH = LANES == 32 ? 4 : 1; /* rows of a block */
    int lane = threadIdx.x % LANES;
    i64 mine = (i64)lane * 8;
    float held[8], weight[8], v[8];
    wr_grid_launch();
    wr_grid_wait();
    norm_row r;
    r.weight_whole = p.weight && wr_eight_whole(p.weight, p.weight_dtype, 0);
    r.bias_whole = p.bias && wr_eight_whole(p.bias, p.bias_dtype, 0);
    if (ONE && p.weight && mine < p.n) norm_fetch_of(weight, p.weight, p.weight_dtype, r.weight_whole, mine, p.n);
    for (i64 row = (i64)blockIdx.x * EACH + threadIdx.x / LANES; row < p.rows; row += (i64)gridDim.x * EACH) {
        r.base = row * p.n;
        r.x_whole = wr_eight_whole(p.x, p.x_dtype, r.base);
        r.out_whole = wr_eight_whole(p.out, p.out_dtype, r.base);
        if (ONE && mine < p.n) norm_fetch(held, p, r, mine);
        float mean = 0, square = 0;
        if (p.centred) {
            for (i64 k = mine; k < p.n; k += LANES * 8) {
                if (!ONE) norm_fetch(v, p, r, k);
                mean = norm_add(mean, ONE ? held : v, eight_count(k, p.n));
                if (ONE) break;
            }
            mean = lanes_sum<LANES>(mean, shared) / (float)p.n;
        }
        for (i64 k = mine; k < p.n; k += LANES * 8) {
            if (!ONE) norm_fetch(v, p, r, k);
            square = norm_square(square, ONE ? held : v, mean, eight_count(k, p.n));
            if (ONE) break;
        }
        square = lanes_sum<LANES>(square, shared);
        float factor = 1 / sqrtf(square / (float)p.n + p.eps);
        for (i64 k = mine; k < p.n; k += LANES * 8) {
            if (!ONE) {
                norm_fetch(v, p, r, k);
                if (p.weight) norm_fetch_of(weight, p.weight, p.weight_dtype, r.weight_whole, k, p.n);
            }
            norm_finish(ONE ? held : v, weight, p, r, k, mean, factor);
            if (ONE) break;
        }
    }
}
WR_KERNEL(wr_norm_32, wr_norm_params, 128, 4) { norm_rows<32, 1>(p); }
WR_KERNEL(wr_norm_128, wr_norm_params, 128, 4) { norm_rows<128, 1>(p); }
WR_KERNEL(wr_norm_256, wr_norm_params, 256, 4) { norm_rows<256, 1>(p); }
WR_KERNEL(wr_norm_512, wr_norm_params, 512, 2) { norm_rows<512, 1>(p); }
WR_KERNEL(wr_norm_1024, wr_norm_params, 1024, 1) { norm_rows<1024, 1>(p); }
WR_KERNEL(wr_norm_long, wr_norm_params, 1024, 1) { norm_rows<1024, 0>(p); }

WR_KERNEL(wr_norm_ref, wr_norm_params, 256, 1) {
    wr_grid_launch();
    wr_grid_wait();
    for (i64 row = (i64)blockIdx.x * blockDim.x + threadIdx.x; row < p.rows; row += (i64)gridDim.x * blockDim.x) {
        double mean = 0, square = 0;
        for (i64 i = 0; p.centred && i < p.n; i++) mean += wr_load_float(p.x, p.x_dtype, row * p.n + i);
        mean /= (double)p.n;
        for (i64 i = 0; i < p.n; i++) {
            double v = wr_load_float(p.x, p.x_dtype, row * p.n + i) - mean;
            square += v * v;
        }
        double factor = 1 / sqrt(square / (double)p.n + p.eps);
        for (i64 i = 0; i < p.n; i++) {
            double y = (wr_load_float(p.x, p.x_dtype, row * p.n + i) - mean) * factor;
            if (p.weight)
                y *= (double)wr_load_float(p.weight, p.weight_dtype, i) + (p.centred ? 0 : (double)p.weight_offset);
            if (p.bias) y += wr_load_float(p.bias, p.bias_dtype, i);
            wr_store_float(p.out, p.out_dtype, row * p.n + i, (float)y);
        }
    }
}

/* ---- rotary embedding ---- */

/* cos and sin of |angle| < 2^20: k = nearest integer to angle / (pi/2), pi/2 in three parts, the first two of 33 bits,
 * so that k times them is exact; Taylor's series on |r| <= pi/4 (first term left out: 2e-14). Little code on purpose:
 * it runs once a step, when it has to come from memory. */
WR_DEVICE void turn(double angle, double *cosine, double *sine) {
    const double k = rint(angle * 0.63661977236758134308);
    const double r = fma(-k, 0x1.3198a2e037073p-69, fma(-k, 0x1.0b4611a6p-34, fma(-k, 0x1.921fb544p0, angle)));
    const double z = r * r;
    double s = 1.0 / 6227020800, c = -1.0 / 87178291200;
    s = fma(z, s, -1.0 / 39916800), c = fma(z, c, 1.0 / 479001600);
    s = fma(z, s, 1.0 / 362880), c = fma(z, c, -1.0 / 3628800);
    s = fma(z, s, -1.0 / 5040), c = fma(z, c, 1.0 / 40320);
    s = fma(z, s, 1.0 / 120), c = fma(z, c, -1.0 / 720);
    s = fma(z, s, -1.0 / 6), c = fma(z, c, 1.0 / 24);
    s = fma(r * z, s, r), c = fma(z, fma(z, c, -0.5), 1.0);
    const int quadrant = (int)((i64)k & 3);
    const double a = quadrant & 1 ? s : c, b = quadrant & 1 ? c : s;
    *cosine = quadrant == 1 || quadrant == 2 ? -a : a;
    *sine = quadrant >= 2 ? -b : b;
}

WR_DEVICE bool can_turn(double angle) { return fabs(angle) < 1048576.0; }

/* A pair a thread. The first pair is computed while other kernels run, for the angle of the position that is there
 * before wr_grid_wait(), and again should it be another one after it. */
WR_KERNEL(wr_rope_angles, wr_rope_table_params, 128, 1) {
    wr_grid_launch();
    const i64 total = p.n * p.half, first = (i64)blockIdx.x * blockDim.x + threadIdx.x;
    const bool narrow = total >> 31 == 0;
    double guess = 0, x = 1, y = 0;
    if (p.dtype == WEIR_DTYPE_I32 && narrow && first < total) {
        const u32 t = (u32)first / (u32)p.half;
        const double angle =
            (double)(i32)wr_load4_l2((const i32 *)p.positions + t) * p.inv_freq[(u32)first - t * (u32)p.half];
        if (can_turn(angle)) turn(guess = angle, &x, &y);
    }
    wr_grid_wait();
    for (i64 at = first; at < total; at += (i64)gridDim.x * blockDim.x) {
        const i64 t = narrow ? (i64)((u32)at / (u32)p.half) : at / p.half, i = at - t * p.half;
        const double angle = (double)wr_load_int(p.positions, p.dtype, t) * p.inv_freq[i];
        if (!can_turn(angle))
            x = cos(angle), y = sin(angle);
        else if (angle != guess)
            turn(angle, &x, &y);
        guess = angle;
        p.out[2 * t * p.half + i] = (float)(x * p.attention_factor);
        p.out[(2 * t + 1) * p.half + i] = (float)(y * p.attention_factor);
    }
}

/* A thread takes 16 elements: eight pairs (i, i + half), or sixteen in a row when interleaved, or copies behind 2 half.
 * Wanted of the shape, not of the data: half and D multiples of 8 (16 when interleaved: D and 2 half), stride 1 along
 * D, a contiguous table row. Addresses decide between pieces of 16 bytes and single elements. */
WR_KERNEL(wr_rope_eights, wr_rope_params, 128, 4) {
    wr_grid_launch();
    wr_grid_wait();
    i64 units_rotated = p.half / 8, units = units_rotated + (p.width - 2 * p.half) / 8;
    i64 total = p.tokens * p.heads * units;
    for (i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x; at < total; at += (i64)gridDim.x * blockDim.x) {
        i64 unit = at % units, head = at / units % p.heads, t = at / units / p.heads;
        i64 from = t * p.x_strides[0] + head * p.x_strides[1], to = (t * p.heads + head) * p.width;
        bool x_whole = wr_eight_whole(p.x, p.x_dtype, from), out_whole = wr_eight_whole(p.out, p.out_dtype, to);
        float a[8], b[8], c[8], s[8];
        if (unit >= units_rotated) {
            i64 k = 2 * p.half + (unit - units_rotated) * 8;
            x_whole ? wr_eight_load(a, p.x, p.x_dtype, from + k) : wr_some_load(a, p.x, p.x_dtype, from + k, 8);
            out_whole ? wr_eight_store(p.out, p.out_dtype, to + k, a) : wr_some_store(p.out, p.out_dtype, to + k, a, 8);
            continue;
        }
        i64 i = unit * 8, first = p.interleaved ? 2 * i : i, second = p.interleaved ? first + 8 : i + p.half;
        const float *cosines = p.table + t * p.table_strides[0] + i, *sines = cosines + p.table_strides[1];
        bool table_whole = (u64)cosines % 16 == 0 && (u64)sines % 16 == 0;
        if (table_whole) {
            wr_eight_load(c, cosines, WEIR_DTYPE_F32, 0), wr_eight_load(s, sines, WEIR_DTYPE_F32, 0);
        } else {
            wr_some_load(c, cosines, WEIR_DTYPE_F32, 0, 8), wr_some_load(s, sines, WEIR_DTYPE_F32, 0, 8);
        }
        if (x_whole) {
            wr_eight_load(a, p.x, p.x_dtype, from + first), wr_eight_load(b, p.x, p.x_dtype, from + second);
        } else {
            wr_some_load(a, p.x, p.x_dtype, from + first, 8), wr_some_load(b, p.x, p.x_dtype, from + second, 8);
        }
        if (p.interleaved) {
            for (int e = 0; e < 4; e++) {
                wr_rotate(&a[2 * e], &a[2 * e + 1], c[e], s[e]);
                wr_rotate(&b[2 * e], &b[2 * e + 1], c[4 + e], s[4 + e]);
            }
        } else {
            for (int e = 0; e < 8; e++) wr_rotate(&a[e], &b[e], c[e], s[e]);
        }
        if (out_whole) {
            wr_eight_store(p.out, p.out_dtype, to + first, a), wr_eight_store(p.out, p.out_dtype, to + second, b);
        } else {
            wr_some_store(p.out, p.out_dtype, to + first, a, 8), wr_some_store(p.out, p.out_dtype, to + second, b, 8);
        }
    }
}

/* A thread a pair or a copied element, any strides; the bits of the kernel above. */
WR_KERNEL(wr_rope_ref, wr_rope_params, 128, 1) {
    wr_grid_launch();
    wr_grid_wait();
    i64 units = p.width - p.half, total = p.tokens * p.heads * units;
    for (i64 at = (i64)blockIdx.x * blockDim.x + threadIdx.x; at < total; at += (i64)gridDim.x * blockDim.x) {
        i64 unit = at % units, head = at / units % p.heads, t = at / units / p.heads;
        i64 from = t * p.x_strides[0] + head * p.x_strides[1], to = (t * p.heads + head) * p.width;
        if (unit >= p.half) {
            i64 k = p.half + unit;
            wr_store_float(p.out, p.out_dtype, to + k, wr_load_float(p.x, p.x_dtype, from + k * p.x_strides[2]));
            continue;
        }
        i64 first = p.interleaved ? 2 * unit : unit, second = p.interleaved ? first + 1 : unit + p.half;
        const float *table = p.table + t * p.table_strides[0] + unit * p.table_strides[2];
        float a = wr_load_float(p.x, p.x_dtype, from + first * p.x_strides[2]);
        float b = wr_load_float(p.x, p.x_dtype, from + second * p.x_strides[2]);
        wr_rotate(&a, &b, table[0], table[p.table_strides[1]]);
        wr_store_float(p.out, p.out_dtype, to + first, a);
        wr_store_float(p.out, p.out_dtype, to + second, b);
    }
}

/* ---- convolution: a thread an output ---- */

WR_DEVICE float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
WR_DEVICE double multiply_add(double a, double b, double c) { return a * b + c; }

template <typename T> WR_DEVICE void convolve(const wr_conv1d_params &p) {
    wr_grid_launch();
    wr_grid_wait();
    i64 total = p.batches * p.positions * p.outputs;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < total; i += (i64)gridDim.x * blockDim.x) {
        i64 o = i % p.outputs, at = i / p.outputs % p.positions, batch = i / p.outputs / p.positions;
        i64 channel = o / p.out_group * p.in_group;
        T sum = p.bias ? (T)wr_load_float(p.bias, p.dtype, o) : (T)0;
        for (i64 k = 0; k < p.kernel; k++) {
            i64 source = at * p.stride + k * p.dilation - p.pad_low;
            if (source < 0 || source >= p.length) continue;
            i64 x = (batch * p.length + source) * p.channels + channel, w = (o * p.kernel + k) * p.in_group;
            for (i64 c = 0; c < p.in_group; c++)
                sum = multiply_add((T)wr_load_float(p.x, p.dtype, x + c), (T)wr_load_float(p.w, p.dtype, w + c), sum);
        }
        wr_store_float(p.out, p.dtype, i, (float)sum);
    }
}
WR_KERNEL(wr_conv1d, wr_conv1d_params, 128, 4) { convolve<float>(p); }
WR_KERNEL(wr_conv1d_ref, wr_conv1d_params, 128, 1) { convolve<double>(p); }
