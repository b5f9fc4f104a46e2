/* Element-wise ops and fused chains of them; arrays made from nothing.
 *
 * Contract. A program (wr_fused_args; a single op is a program of one instruction) is run for each element by itself:
 * each instruction rounds to its own dtype, so a fused chain has the bits of the ops one by one, and every kernel here
 * calls the same function for the same op, so all kernels have the same bits. What ops mean is said by
 * cpu/ref/elementwise.c. Against it: exp, tanh, sigmoid, silu and gelu_tanh are computed in f32 and are right to 3
 * units in the last place of f32 (where the result is a normal number); every other function of floats is computed in
 * double and rounded, as there, so it differs only where two double libraries straddle a rounding border; the rest is
 * equal.
 *
 * Kernels.
 * - chain: floats only; each instruction takes the result of the one before and at most one more input. Rows, along up
 * to three axes, that are contiguous or one repeated element: additions of residuals, silu(a) * b over halves of a
 * matrix, scaling, casts. 8 elements a thread in registers, 16 bytes a load where the addresses allow.
 * - float, integer, general: the interpreter over any strides. Registers of a program lie in shared memory,
 *   [register][item][thread], since registers that are named at run time cannot be a thread's own. `float` knows the
 *   common functions of floats, `integer` programs without floats, `general` everything. The small form has few inputs,
 *   instructions and fewer than 2^31 elements (32-bit division), the wide form all that a program may have.
 *
 * Bytes: every input once (a repeated row stays in L2) and the output once. Operations: a few per element and
 * instruction (RANDOM_BITS 18 an element, UNIFORM 20, NORMAL 40); the interpreter spends about 20 integer instructions
 * more on each.
 *
 * Measured: docs/kernels.md.
 *
 * Tried and dropped: sigmoid as 1 / (1 + exp(-x)), which is 0 from x = -88.7 on while the truth is a normal number
 * until -87.3 and loses the last digits before; gelu_tanh by 1 + tanh(u), which cancels for negative x. */
#include "cuda/kernels/activation.cuh"
#include "cuda/kernels/dtypes.cuh"
#include "cuda/kernels/elementwise.h"

/* ---- functions of floats that every kernel knows ---- */

/* Ops that chains and the float interpreter know. y is not read by ops of one operand. Operands are of the result's
 * dtype already; the result is not rounded yet. Keep in step with is_light() of cuda/elementwise.c. */
WR_DEVICE float light(int op, float x, float y) {
    switch (op) {
    case WR_EW_ADD: return x + y;
    case WR_EW_SUB: return x - y;
    case WR_EW_MUL: return x * y;
    case WR_EW_DIV: return x / y;
    case WR_EW_MAXIMUM: return x != x || x > y ? x : y;
    case WR_EW_MINIMUM: return x != x || x < y ? x : y;
    case WR_EW_NEG: return -x;
    case WR_EW_ABS: return fabsf(x);
    case WR_EW_SQUARE: return x * x;
    case WR_EW_SQRT: return sqrtf(x);
    case WR_EW_RECIPROCAL: return 1 / x;
    case WR_EW_EXP: return expf(x);
    case WR_EW_TANH: return tanhf(x);
    case WR_EW_SIGMOID: return wr_times_sigmoid(1, x);
    case WR_EW_SILU: return wr_times_sigmoid(x, x);
    case WR_EW_GELU_TANH: return wr_gelu_tanh(x);
    case WR_EW_RELU: return x < 0 ? 0 : x;
    default: return x; /* cast */
    }
}

/* ---- chains ---- */

/* Eight floats of a row from column `at`; n of them are there. whole: 16-byte aligned, and n is 8. */
WR_DEVICE void load_items(float *v, const void *p, int dtype, i64 at, int n, bool whole) {
    if (whole && dtype == WEIR_DTYPE_F32) {
        const uint4 *from = (const uint4 *)((const float *)p + at);
        uint4 a = from[0], b = from[1];
        v[0] = wr_bits_f32(a.x), v[1] = wr_bits_f32(a.y), v[2] = wr_bits_f32(a.z), v[3] = wr_bits_f32(a.w);
        v[4] = wr_bits_f32(b.x), v[5] = wr_bits_f32(b.y), v[6] = wr_bits_f32(b.z), v[7] = wr_bits_f32(b.w);
    } else if (whole) {
        uint4 a = *(const uint4 *)((const u16 *)p + at);
        u32 words[4] = {a.x, a.y, a.z, a.w};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            v[2 * i] = dtype == WEIR_DTYPE_BF16 ? wr_bf16_lo(words[i]) : wr_f16_to_f32((u16)words[i]);
            v[2 * i + 1] = dtype == WEIR_DTYPE_BF16 ? wr_bf16_hi(words[i]) : wr_f16_to_f32((u16)(words[i] >> 16));
        }
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++) v[i] = i < n ? wr_load_float(p, dtype, at + i) : 0;
    }
}
WR_DEVICE void store_items(const float *v, void *p, int dtype, i64 at, int n, bool whole) {
    if (whole && dtype == WEIR_DTYPE_F32) {
        uint4 *to = (uint4 *)((float *)p + at);
        uint4 a, b;
        a.x = wr_f32_bits(v[0]), a.y = wr_f32_bits(v[1]), a.z = wr_f32_bits(v[2]), a.w = wr_f32_bits(v[3]);
        b.x = wr_f32_bits(v[4]), b.y = wr_f32_bits(v[5]), b.z = wr_f32_bits(v[6]), b.w = wr_f32_bits(v[7]);
        to[0] = a;
        to[1] = b;
    } else if (whole) {
        u32 words[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            words[i] =
                dtype == WEIR_DTYPE_BF16 ? wr_pack_bf16(v[2 * i], v[2 * i + 1]) : wr_pack_f16(v[2 * i], v[2 * i + 1]);
        uint4 a;
        a.x = words[0], a.y = words[1], a.z = words[2], a.w = words[3];
        *(uint4 *)((u16 *)p + at) = a;
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (i < n) wr_store_float(p, dtype, at + i, v[i]);
    }
}

/* Do all rows of an operand begin at multiples of 16 bytes? */
WR_DEVICE bool rows_aligned(const void *p, int n_axes, const int64_t *strides, int dtype) {
    u64 bits = 0;
    for (int d = 0; d < n_axes; d++) bits |= (u64)strides[d];
    return (((u64)p | bits * (u64)wr_dtype_size(dtype)) & 15) == 0;
}

/* One op over the items in hand. Ops are told apart once for all of them. */
#define EACH_ITEM(expression)                                                                                          \
    do {                                                                                                               \
        _Pragma("unroll") for (int i = 0; i < WR_EW_CHAIN_ITEMS; i++) x[i] = expression;                               \
    } while (0)
WR_DEVICE void link_items(int op, float *x, const float *y, bool swapped) {
    switch (op) {
    case WR_EW_ADD: EACH_ITEM(x[i] + y[i]); break;
    case WR_EW_MUL: EACH_ITEM(x[i] * y[i]); break;
    case WR_EW_SILU: EACH_ITEM(light(WR_EW_SILU, x[i], 0)); break;
    case WR_EW_GELU_TANH: EACH_ITEM(light(WR_EW_GELU_TANH, x[i], 0)); break;
    case WR_EW_CAST: break;
    default: /* less common: small code rather than the last bit of speed */
        EACH_ITEM(swapped ? light(op, y[i], x[i]) : light(op, x[i], y[i]));
    }
}
WR_DEVICE void round_items(float *x, int dtype) {
    if (dtype == WEIR_DTYPE_BF16)
        EACH_ITEM(wr_bf16_to_f32(wr_f32_to_bf16(x[i])));
    else if (dtype == WEIR_DTYPE_F16)
        EACH_ITEM(wr_f16_to_f32(wr_f32_to_f16(x[i])));
}

/* Input k at a row and column. */
WR_DEVICE void fetch_items(const wr_ew_chain_params *p, float *v, int k, i64 row, i64 at, bool narrow, int n,
                           bool whole) {
    const i64 from = wr_walk(row, p->n_axes, p->shape, p->in_strides[k], narrow);
    if (p->flat[k]) {
        float one = wr_load_float(p->in[k], p->in_dtype[k], from);
#pragma unroll
        for (int i = 0; i < WR_EW_CHAIN_ITEMS; i++) v[i] = one;
    } else {
        load_items(v, p->in[k], p->in_dtype[k], from + at, n, whole);
    }
}

WR_KERNEL(wr_ew_chain, wr_ew_chain_params, WR_EW_THREADS, 4) {
    wr_grid_launch();
    const i64 pieces = (p.cols + WR_EW_CHAIN_ITEMS - 1) / WR_EW_CHAIN_ITEMS, units = p.rows * pieces;
    const bool narrow = units >> 32 == 0;
    bool aligned = rows_aligned(p.out, p.n_axes, p.out_strides, p.out_dtype);
    for (int k = 0; k < p.n_in; k++)
        aligned = aligned && (p.flat[k] || rows_aligned(p.in[k], p.n_axes, p.in_strides[k], p.in_dtype[k]));
    wr_grid_wait();
    for (i64 unit = (i64)blockIdx.x * blockDim.x + threadIdx.x; unit < units; unit += (i64)gridDim.x * blockDim.x) {
        i64 row = 0, piece = unit;
        if (p.n_axes) {
            row = narrow ? (i64)((u32)unit / (u32)pieces) : unit / pieces;
            piece = unit - row * pieces;
        }
        const i64 at = piece * WR_EW_CHAIN_ITEMS;
        const int n = p.cols - at < WR_EW_CHAIN_ITEMS ? (int)(p.cols - at) : WR_EW_CHAIN_ITEMS;
        const bool whole = aligned && n == WR_EW_CHAIN_ITEMS;
        float x[WR_EW_CHAIN_ITEMS], y[WR_EW_CHAIN_ITEMS], early[WR_EW_CHAIN_ITEMS];
        fetch_items(&p, x, 0, row, at, narrow, n, whole);
        if (p.n_in > 1) fetch_items(&p, early, 1, row, at, narrow, n, whole);
        for (int s = 0; s < p.n_steps; s++) {
            const int other = p.steps[s].other;
            if (other == WR_EW_OTHER_SELF) {
#pragma unroll
                for (int i = 0; i < WR_EW_CHAIN_ITEMS; i++) y[i] = x[i];
            } else if (other == 1) {
#pragma unroll
                for (int i = 0; i < WR_EW_CHAIN_ITEMS; i++) y[i] = early[i];
            } else if (other != WR_EW_OTHER_NONE) {
                fetch_items(&p, y, other, row, at, narrow, n, whole);
            }
            link_items(p.steps[s].op, x, y, p.steps[s].swapped);
            round_items(x, p.steps[s].dtype);
        }
        store_items(x, p.out, p.out_dtype, wr_walk(row, p.n_axes, p.shape, p.out_strides, narrow) + at, n, whole);
    }
}

/* ---- the interpreter ---- */

/* Every other function of floats: as in the reference, in double. */
WR_DEVICE double real_remainder(double a, double b) {
    double r = fmod(a, b);
    if (r == 0) return copysign(0.0, b);
    return (r < 0) != (b < 0) ? r + b : r;
}
WR_DEVICE double real_floor_div(double a, double b) {
    if (b == 0) return a / b;
    double r = fmod(a, b), q = (a - r) / b;
    if (r != 0 && (r < 0) != (b < 0)) q -= 1;
    if (q == 0) return copysign(0.0, a / b);
    return rint(q);
}
WR_DEVICE float rare(int op, float x, float y) {
    switch (op) {
    case WR_EW_SIGN: return x != x ? x : (float)((x > 0) - (x < 0));
    case WR_EW_FLOOR: return floorf(x);
    case WR_EW_CEIL: return ceilf(x);
    case WR_EW_ROUND: return rintf(x);
    case WR_EW_RSQRT: return (float)(1 / sqrt((double)x));
    case WR_EW_EXPM1: return (float)expm1((double)x);
    case WR_EW_LOG: return (float)log((double)x);
    case WR_EW_LOG1P: return (float)log1p((double)x);
    case WR_EW_LOG2: return (float)log2((double)x);
    case WR_EW_SIN: return (float)sin((double)x);
    case WR_EW_COS: return (float)cos((double)x);
    case WR_EW_TAN: return (float)tan((double)x);
    case WR_EW_ERF: return (float)erf((double)x);
    /* x/2 (1 + erf(x / sqrt 2)), by erfc to keep the digits of the lower tail. */
    case WR_EW_GELU: return (float)(0.5 * x * erfc(x * -0.70710678118654752440));
    case WR_EW_FLOOR_DIV: return (float)real_floor_div(x, y);
    case WR_EW_REMAINDER: return (float)real_remainder(x, y);
    case WR_EW_POW: return (float)pow((double)x, (double)y);
    default: return light(op, x, y);
    }
}

/* Integers in 64 bits; the result is wrapped by the caller. */
WR_DEVICE u64 wrapping_pow(u64 base, u64 exponent) {
    u64 y = 1;
    for (; exponent; exponent >>= 1, base *= base)
        if (exponent & 1) y *= base;
    return y;
}
WR_DEVICE i64 signed_op(int op, i64 a, i64 b, int bits) {
    switch (op) {
    case WR_EW_ABS: return a < 0 ? (i64)(0 - (u64)a) : a;
    case WR_EW_SIGN: return (a > 0) - (a < 0);
    case WR_EW_RELU: return a < 0 ? 0 : a;
    case WR_EW_FLOOR_DIV:
        if (b == 0) return 0;
        if (b == -1) return (i64)(0 - (u64)a); /* the least value wraps */
        return a / b - (a % b != 0 && (a < 0) != (b < 0));
    case WR_EW_REMAINDER: {
        if (b == 0 || b == -1) return 0;
        i64 r = a % b;
        return r != 0 && (r < 0) != (b < 0) ? r + b : r;
    }
    case WR_EW_POW:
        if (b >= 0) return (i64)wrapping_pow((u64)a, (u64)b);
        if (a == 1) return 1;
        if (a == -1) return b % 2 ? -1 : 1;
        return 0;
    case WR_EW_MAXIMUM: return a > b ? a : b;
    case WR_EW_MINIMUM: return a < b ? a : b;
    /* A negative count is as one too large. */
    case WR_EW_SHIFT_LEFT: return b < 0 || b >= bits ? 0 : (i64)((u64)a << b);
    case WR_EW_SHIFT_RIGHT: return b < 0 || b >= bits ? (a < 0 ? -1 : 0) : a >> b;
    default: return a; /* floor, ceil, round */
    }
}
WR_DEVICE u64 unsigned_op(int op, u64 a, u64 b, int bits) {
    switch (op) {
    case WR_EW_SIGN: return a != 0;
    case WR_EW_FLOOR_DIV: return b ? a / b : 0;
    case WR_EW_REMAINDER: return b ? a % b : 0;
    case WR_EW_POW: return wrapping_pow(a, b);
    case WR_EW_MAXIMUM: return a > b ? a : b;
    case WR_EW_MINIMUM: return a < b ? a : b;
    case WR_EW_SHIFT_LEFT: return b >= (u64)bits ? 0 : a << b;
    case WR_EW_SHIFT_RIGHT: return b >= (u64)bits ? 0 : a >> b;
    default: return a; /* floor, ceil, round, abs, relu */
    }
}
WR_DEVICE i64 integer_op(int op, i64 a, i64 b, int dtype) {
    switch (op) { /* the same for both kinds of integers */
    case WR_EW_NEG: return (i64)(0 - (u64)a);
    case WR_EW_SQUARE: return (i64)((u64)a * (u64)a);
    case WR_EW_BIT_NOT: return dtype == WEIR_DTYPE_BOOL ? !a : ~a;
    case WR_EW_ADD: return (i64)((u64)a + (u64)b);
    case WR_EW_SUB: return (i64)((u64)a - (u64)b);
    case WR_EW_MUL: return (i64)((u64)a * (u64)b);
    case WR_EW_BIT_AND: return a & b;
    case WR_EW_BIT_OR: return a | b;
    case WR_EW_BIT_XOR: return a ^ b;
    default: break;
    }
    int bits = 8 * wr_dtype_size(dtype);
    return wr_is_signed(dtype) ? signed_op(op, a, b, bits) : (i64)unsigned_op(op, (u64)a, (u64)b, bits);
}

/* Which programs a kernel is for; a literal at every call. */
enum { FLOATS, INTEGERS, ANY };

/* A register's 64 bits hold an integer, or a float in the lower half. */
WR_DEVICE float as_float(i64 bits) { return wr_bits_f32((u32)bits); }
WR_DEVICE i64 as_bits(float x) { return (i64)wr_f32_bits(x); }
WR_DEVICE bool is_true(int kind, i64 x, int dtype) {
    if (kind == ANY && wr_is_float(dtype)) return !(as_float(x) == 0); /* NaN is true */
    return x != 0;
}
WR_DEVICE i64 convert(int kind, i64 x, int from, int to) {
    if (from == to) return x;
    if (kind == INTEGERS || !(wr_is_float(from) || wr_is_float(to))) return wr_int_to_int(x, from, to);
    if (!wr_is_float(to)) return wr_real_to_int(as_float(x), to);
    return as_bits(wr_round_float(wr_is_float(from) ? as_float(x) : wr_int_to_float(x, from), to));
}
/* -1, 0, 1, or 2 for unordered. */
WR_DEVICE int order(int kind, i64 a, i64 b, int dtype) {
    if (kind == ANY && wr_is_float(dtype)) {
        float x = as_float(a), y = as_float(b);
        return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
    }
    if (wr_is_signed(dtype)) return (a > b) - (a < b);
    return ((u64)a > (u64)b) - ((u64)a < (u64)b);
}
WR_DEVICE bool compare(int op, int o) {
    switch (op) {
    case WR_EW_EQUAL: return o == 0;
    case WR_EW_NOT_EQUAL: return o != 0;
    case WR_EW_LESS: return o == -1;
    case WR_EW_LESS_EQUAL: return o == -1 || o == 0;
    case WR_EW_GREATER: return o == 1;
    default: return o == 1 || o == 0;
    }
}

/* One instruction on one element. kind is a literal. */
WR_DEVICE i64 compute(int kind, const wr_ew_code *code, i64 a, i64 b, i64 c) {
    const int op = code->op, dtype = code->dtype;
    switch (op) {
    case WR_EW_CAST: return convert(kind, a, code->in_dtype[0], dtype);
    case WR_EW_SELECT:
        return is_true(kind, a, code->in_dtype[0]) ? convert(kind, b, code->in_dtype[1], dtype)
                                                   : convert(kind, c, code->in_dtype[2], dtype);
    case WR_EW_LOGICAL_AND: return is_true(kind, a, code->in_dtype[0]) && is_true(kind, b, code->in_dtype[1]);
    case WR_EW_LOGICAL_OR: return is_true(kind, a, code->in_dtype[0]) || is_true(kind, b, code->in_dtype[1]);
    case WR_EW_LOGICAL_NOT: return !is_true(kind, a, code->in_dtype[0]);
    case WR_EW_IS_NAN: return kind == ANY && wr_is_float(code->in_dtype[0]) && as_float(a) != as_float(a);
    case WR_EW_IS_INF:
        return kind == ANY && wr_is_float(code->in_dtype[0]) && (wr_f32_bits(as_float(a)) << 1) == 0xFF000000u;
    default: break;
    }
    if (op >= WR_EW_EQUAL && op <= WR_EW_GREATER_EQUAL) {
        int common = code->in_dtype[0];
        return compare(op, order(kind, a, convert(kind, b, code->in_dtype[1], common), common));
    }
    a = convert(kind, a, code->in_dtype[0], dtype);
    if (op >= WR_EW_ADD) b = convert(kind, b, code->in_dtype[1], dtype);
    if (kind == ANY && wr_is_float(dtype)) return as_bits(wr_round_float(rare(op, as_float(a), as_float(b)), dtype));
    return wr_wrap_int(integer_op(op, a, b, dtype), dtype);
}

/* Operands of an element: where they lie. */
WR_DEVICE i64 operand_at(const wr_ew_head *h, const int64_t *strides, int operand, i64 index, bool narrow) {
    return wr_walk(index, h->n_dims, h->shape, strides + operand * h->n_dims, narrow);
}

/* kind, items and narrow are literals. registers: [n_in + n_code][items][threads] of u32 for FLOATS, else of i64. */
WR_DEVICE void interpret(int kind, int items, bool narrow, const wr_ew_head *h, const void *const *in,
                         const wr_ew_code *code, const int64_t *strides, u8 *registers) {
    float *f = (float *)registers + threadIdx.x;
    i64 *r = (i64 *)registers + threadIdx.x;
    const int step = items * WR_EW_THREADS;
    wr_grid_launch();
    wr_grid_wait();
    for (i64 base = (i64)blockIdx.x * step + threadIdx.x; base < h->n; base += (i64)gridDim.x * step) {
        i64 left = (h->n - base + WR_EW_THREADS - 1) / WR_EW_THREADS;
        int count = left < items ? (int)left : items;
        for (int k = 0; k < h->n_in; k++) {
            const int dtype = h->in_dtype[k];
            for (int j = 0; j < count; j++) {
                i64 at = operand_at(h, strides, k + 1, base + j * WR_EW_THREADS, narrow);
                int slot = (k * items + j) * WR_EW_THREADS;
                if (kind == FLOATS)
                    f[slot] = wr_load_float(in[k], dtype, at);
                else if (kind == ANY && wr_is_float(dtype))
                    r[slot] = as_bits(wr_load_float(in[k], dtype, at));
                else
                    r[slot] = wr_load_int(in[k], dtype, at);
            }
        }
        for (int k = 0; k < h->n_code; k++) {
            const wr_ew_code *c = &code[k];
            const int a = c->in[0] * step, b = c->in[1] * step, d = c->in[2] * step, to = (h->n_in + k) * step;
            for (int j = 0; j < count; j++) {
                const int o = j * WR_EW_THREADS;
                if (kind == FLOATS)
                    f[to + o] = wr_round_float(light(c->op, f[a + o], f[b + o]), c->dtype);
                else
                    r[to + o] = compute(kind, c, r[a + o], r[b + o], r[d + o]);
            }
        }
        for (int j = 0; j < count; j++) {
            i64 at = operand_at(h, strides, 0, base + j * WR_EW_THREADS, narrow);
            int slot = ((h->n_in + h->n_code - 1) * items + j) * WR_EW_THREADS;
            if (kind == FLOATS)
                wr_store_float(h->out, h->out_dtype, at, f[slot]);
            else if (kind == ANY && wr_is_float(h->out_dtype))
                wr_store_float(h->out, h->out_dtype, at, as_float(r[slot]));
            else
                wr_store_int(h->out, h->out_dtype, at, r[slot]);
        }
    }
}

WR_KERNEL(wr_ew_float, wr_ew_small_params, WR_EW_THREADS, 8) {
    WR_DYNAMIC_SHARED(registers);
    interpret(FLOATS, WR_EW_FLOAT_ITEMS, true, &p.head, p.in, p.code, p.strides, registers);
}
WR_KERNEL(wr_ew_float_wide, wr_ew_wide_params, WR_EW_THREADS, 4) {
    WR_DYNAMIC_SHARED(registers);
    interpret(FLOATS, 1, false, &p.head, p.in, p.code, p.strides, registers);
}
WR_KERNEL(wr_ew_integer, wr_ew_small_params, WR_EW_THREADS, 4) {
    WR_DYNAMIC_SHARED(registers);
    interpret(INTEGERS, WR_EW_INTEGER_ITEMS, true, &p.head, p.in, p.code, p.strides, registers);
}
WR_KERNEL(wr_ew_general, wr_ew_small_params, WR_EW_THREADS, 4) {
    WR_DYNAMIC_SHARED(registers);
    interpret(ANY, WR_EW_INTEGER_ITEMS, true, &p.head, p.in, p.code, p.strides, registers);
}
WR_KERNEL(wr_ew_general_wide, wr_ew_wide_params, WR_EW_THREADS, 4) {
    WR_DYNAMIC_SHARED(registers);
    interpret(ANY, 1, false, &p.head, p.in, p.code, p.strides, registers);
}

/* ---- made from nothing; contiguous ---- */

WR_KERNEL(wr_ew_full, wr_ew_full_params, WR_EW_THREADS, 8) {
    wr_grid_launch();
    wr_grid_wait();
    const i64 first = (i64)blockIdx.x * blockDim.x + threadIdx.x, stride = (i64)gridDim.x * blockDim.x;
    i64 done = 0;
    if (((u64)p.out & 15) == 0) {
        const i64 whole = p.n * p.bytes / 16;
        uint4 v;
        v.x = v.z = (u32)p.bits;
        v.y = v.w = (u32)(p.bits >> 32);
        for (i64 i = first; i < whole; i += stride) ((uint4 *)p.out)[i] = v;
        done = whole * 16 / p.bytes; /* exact: an element divides 16 bytes */
    }
    const int dtype = p.bytes == 1   ? WEIR_DTYPE_U8
                      : p.bytes == 2 ? WEIR_DTYPE_U16
                      : p.bytes == 4 ? WEIR_DTYPE_U32
                                     : WEIR_DTYPE_U64;
    for (i64 i = done + first; i < p.n; i += stride) wr_store_int(p.out, dtype, i, (i64)p.bits);
}

WR_KERNEL(wr_ew_arange, wr_ew_arange_params, WR_EW_THREADS, 8) {
    wr_grid_launch();
    wr_grid_wait();
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < p.n; i += (i64)gridDim.x * blockDim.x)
        wr_store_real(p.out, p.dtype, i, p.start + (double)i * p.step);
}

/* Philox4x32-10, as base/philox.h. */
WR_DEVICE void philox(u64 seed, u64 counter, u32 *out) {
    u32 k0 = (u32)seed, k1 = (u32)(seed >> 32), c0 = (u32)counter, c1 = (u32)(counter >> 32), c2 = 0, c3 = 0;
#pragma unroll
    for (int round = 0; round < 10; round++) {
        u64 p0 = (u64)0xD2511F53u * c0, p1 = (u64)0xCD9E8D57u * c2;
        c0 = (u32)(p1 >> 32) ^ c1 ^ k0;
        c1 = (u32)p1;
        c2 = (u32)(p0 >> 32) ^ c3 ^ k1;
        c3 = (u32)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

WR_KERNEL(wr_ew_random, wr_ew_random_params, WR_EW_THREADS, 4) {
    wr_grid_launch();
    wr_grid_wait();
    u32 *out = (u32 *)p.out;
    for (i64 b = (i64)blockIdx.x * blockDim.x + threadIdx.x; 4 * b < p.n; b += (i64)gridDim.x * blockDim.x) {
        u32 words[4], y[4];
        philox(p.seed, p.counter + (u64)b, words);
#pragma unroll
        for (int k = 0; k < 4; k += 2) {
            y[k] = words[k], y[k + 1] = words[k + 1];
            if (p.draw == WR_EW_DRAW_UNIFORM) {
                y[k] = wr_f32_bits((float)(words[k] >> 8) * 0x1p-24f);
                y[k + 1] = wr_f32_bits((float)(words[k + 1] >> 8) * 0x1p-24f);
            } else if (p.draw == WR_EW_DRAW_NORMAL) {
                /* Box-Muller on a pair; the first word is moved up by one step so that its logarithm is finite. */
                double u = ((double)(words[k] >> 8) + 1) * 0x1p-24, v = (double)(words[k + 1] >> 8) * 0x1p-24;
                double radius = sqrt(-2 * log(u)), angle = 6.283185307179586477 * v;
                y[k] = wr_f32_bits((float)(radius * cos(angle)));
                y[k + 1] = wr_f32_bits((float)(radius * sin(angle)));
            }
        }
#pragma unroll
        for (int k = 0; k < 4; k++)
            if (4 * b + k < p.n) out[4 * b + k] = y[k];
    }
}
