/* Element-wise ops and the fused chains made of them.
 *
 * A register holds CHUNK elements of one dtype: floats as f32 (always exactly a value of the dtype), integers in 64
 * bits. An op computes a register from one to three others and rounds it to its dtype, so a chain in registers gives
 * the bits of the same ops one by one. Functions of floats are computed in double and rounded once to f32, then once
 * to the dtype. */
#include "cpu/ref/kernels.h"
#include "cpu/ref/util.h"

enum { CHUNK = 64, MAX_REGISTERS = WR_MAX_INPUTS + WR_FUSED_MAX };

typedef struct reg {
    weir_dtype dtype;
    union {
        float f[CHUNK];
        int64_t i[CHUNK];
        uint64_t u[CHUNK];
    } v;
} reg;

/* Wrap integers to the dtype's width, round floats to its precision. */
static void narrow(reg *r, int n) {
    switch (r->dtype) {
    case WEIR_DTYPE_F32:
    case WEIR_DTYPE_I64:
    case WEIR_DTYPE_U64: break;
    case WEIR_DTYPE_F16:
        for (int i = 0; i < n; i++) r->v.f[i] = wr_f16_to_f32(wr_f32_to_f16(r->v.f[i]));
        break;
    case WEIR_DTYPE_BF16:
        for (int i = 0; i < n; i++) r->v.f[i] = wr_bf16_to_f32(wr_f32_to_bf16(r->v.f[i]));
        break;
    case WEIR_DTYPE_BOOL:
        for (int i = 0; i < n; i++) r->v.u[i] = r->v.u[i] != 0;
        break;
    case WEIR_DTYPE_U8:
        for (int i = 0; i < n; i++) r->v.u[i] = (uint8_t)r->v.u[i];
        break;
    case WEIR_DTYPE_U16:
        for (int i = 0; i < n; i++) r->v.u[i] = (uint16_t)r->v.u[i];
        break;
    case WEIR_DTYPE_U32:
        for (int i = 0; i < n; i++) r->v.u[i] = (uint32_t)r->v.u[i];
        break;
    case WEIR_DTYPE_I8:
        for (int i = 0; i < n; i++) r->v.i[i] = (int8_t)r->v.u[i];
        break;
    case WEIR_DTYPE_I16:
        for (int i = 0; i < n; i++) r->v.i[i] = (int16_t)r->v.u[i];
        break;
    case WEIR_DTYPE_I32:
        for (int i = 0; i < n; i++) r->v.i[i] = (int32_t)r->v.u[i];
        break;
    default: break;
    }
}

static void load(reg *r, weir_dtype dtype, const void *data, int64_t stride, int n) {
    r->dtype = dtype;
    if (wr_dtype_kind(dtype) == WR_KIND_FLOAT)
        for (int i = 0; i < n; i++) r->v.f[i] = wr_load_f32(data, dtype, i * stride);
    else
        for (int i = 0; i < n; i++) r->v.i[i] = wr_load_i64(data, dtype, i * stride);
}
static void store(const reg *r, void *data, int64_t stride, int n) {
    if (wr_dtype_kind(r->dtype) == WR_KIND_FLOAT)
        for (int i = 0; i < n; i++) wr_store_f32(data, r->dtype, i * stride, r->v.f[i]);
    else
        for (int i = 0; i < n; i++) wr_store_i64(data, r->dtype, i * stride, r->v.i[i]);
}

/* The cast rule of weir/ops.h. */
static void convert(const reg *x, weir_dtype dtype, reg *y, int n) {
    wr_kind from = wr_dtype_kind(x->dtype), to = wr_dtype_kind(dtype);
    y->dtype = dtype;
    if (to == WR_KIND_FLOAT) {
        for (int i = 0; i < n; i++)
            y->v.f[i] = from == WR_KIND_FLOAT    ? x->v.f[i]
                        : from == WR_KIND_SIGNED ? (float)x->v.i[i]
                                                 : (float)x->v.u[i];
        narrow(y, n);
        return;
    }
    if (from == WR_KIND_FLOAT) {
        for (int i = 0; i < n; i++) y->v.i[i] = wr_f64_to_int(x->v.f[i], dtype);
        return;
    }
    int64_t low = wr_dtype_min(dtype);
    uint64_t high = wr_dtype_max(dtype);
    for (int i = 0; i < n; i++) {
        if (dtype == WEIR_DTYPE_BOOL)
            y->v.u[i] = x->v.u[i] != 0;
        else if (from == WR_KIND_SIGNED && x->v.i[i] < 0)
            y->v.i[i] = x->v.i[i] < low ? low : x->v.i[i];
        else
            y->v.u[i] = x->v.u[i] > high ? high : x->v.u[i];
    }
}

#define EACH(expression)                                                                                               \
    do {                                                                                                               \
        for (int i = 0; i < n; i++) {                                                                                  \
            expression;                                                                                                \
        }                                                                                                              \
    } while (0)

/* y = f(x), x of y's kind (float) already. */
static void unary_float(wr_op_id op, const float *x, float *y, int n) {
    switch (op) {
    case WR_OP_NEG: EACH(y[i] = -x[i]); break;
    case WR_OP_ABS: EACH(y[i] = fabsf(x[i])); break;
    case WR_OP_SIGN: EACH(y[i] = isnan(x[i]) ? x[i] : (float)((x[i] > 0) - (x[i] < 0))); break;
    case WR_OP_SQUARE: EACH(y[i] = x[i] * x[i]); break;
    case WR_OP_FLOOR: EACH(y[i] = floorf(x[i])); break;
    case WR_OP_CEIL: EACH(y[i] = ceilf(x[i])); break;
    case WR_OP_ROUND: EACH(y[i] = rintf(x[i])); break;
    case WR_OP_SQRT: EACH(y[i] = sqrtf(x[i])); break;
    case WR_OP_RSQRT: EACH(y[i] = (float)(1 / sqrt((double)x[i]))); break;
    case WR_OP_RECIPROCAL: EACH(y[i] = 1 / x[i]); break;
    case WR_OP_EXP: EACH(y[i] = (float)exp((double)x[i])); break;
    case WR_OP_EXPM1: EACH(y[i] = (float)expm1((double)x[i])); break;
    case WR_OP_LOG: EACH(y[i] = (float)log((double)x[i])); break;
    case WR_OP_LOG1P: EACH(y[i] = (float)log1p((double)x[i])); break;
    case WR_OP_LOG2: EACH(y[i] = (float)log2((double)x[i])); break;
    case WR_OP_SIN: EACH(y[i] = (float)sin((double)x[i])); break;
    case WR_OP_COS: EACH(y[i] = (float)cos((double)x[i])); break;
    case WR_OP_TAN: EACH(y[i] = (float)tan((double)x[i])); break;
    case WR_OP_TANH: EACH(y[i] = (float)tanh((double)x[i])); break;
    case WR_OP_ERF: EACH(y[i] = (float)erf((double)x[i])); break;
    case WR_OP_SIGMOID: EACH(y[i] = (float)(1 / (1 + exp(-(double)x[i])))); break;
    case WR_OP_SILU: EACH(y[i] = (float)wr_ref_silu(x[i])); break;
    /* x/2 * (1 + erf(x / sqrt 2)), by erfc to keep the digits of the lower tail. */
    case WR_OP_GELU: EACH(y[i] = (float)(0.5 * x[i] * erfc(x[i] * -0.70710678118654752440))); break;
    case WR_OP_GELU_TANH: EACH(y[i] = (float)wr_ref_gelu_tanh(x[i])); break;
    case WR_OP_RELU: EACH(y[i] = x[i] < 0 ? 0 : x[i]); break;
    default: break;
    }
}

/* Integers: y in 64 bits, wrapped by the caller. is_signed tells how to read x. */
static void unary_integer(wr_op_id op, const reg *x, reg *y, int n) {
    bool is_signed = wr_dtype_kind(x->dtype) == WR_KIND_SIGNED;
    const uint64_t *u = x->v.u;
    const int64_t *s = x->v.i;
    switch (op) {
    case WR_OP_NEG: EACH(y->v.u[i] = 0 - u[i]); break;
    case WR_OP_ABS: EACH(y->v.u[i] = is_signed && s[i] < 0 ? 0 - u[i] : u[i]); break;
    case WR_OP_SIGN: EACH(y->v.i[i] = is_signed ? (s[i] > 0) - (s[i] < 0) : u[i] != 0); break;
    case WR_OP_SQUARE: EACH(y->v.u[i] = u[i] * u[i]); break;
    case WR_OP_RELU: EACH(y->v.i[i] = is_signed && s[i] < 0 ? 0 : s[i]); break;
    case WR_OP_BIT_NOT: EACH(y->v.u[i] = x->dtype == WEIR_DTYPE_BOOL ? !u[i] : ~u[i]); break;
    default: EACH(y->v.i[i] = s[i]); break; /* floor, ceil, round */
    }
}

static bool is_true(const reg *x, int i) {
    if (wr_dtype_kind(x->dtype) == WR_KIND_FLOAT) return !(x->v.f[i] == 0); /* NaN is true */
    return x->v.u[i] != 0;
}

static void unary(wr_op_id op, const reg *x, reg *y, int n) {
    bool is_float = wr_dtype_kind(x->dtype) == WR_KIND_FLOAT;
    if (op == WR_OP_LOGICAL_NOT)
        EACH(y->v.u[i] = !is_true(x, i));
    else if (op == WR_OP_IS_NAN)
        EACH(y->v.u[i] = is_float && isnan(x->v.f[i]));
    else if (op == WR_OP_IS_INF)
        EACH(y->v.u[i] = is_float && isinf(x->v.f[i]));
    else if (wr_dtype_kind(y->dtype) != WR_KIND_FLOAT)
        unary_integer(op, x, y, n);
    else {
        reg as_float;
        convert(x, y->dtype, &as_float, n);
        unary_float(op, as_float.v.f, y->v.f, n);
    }
}

/* Python's rules: the remainder has the divisor's sign, the quotient is the floor of the true one. */
static double real_remainder(double a, double b) {
    double r = fmod(a, b);
    if (r == 0) return copysign(0, b);
    return (r < 0) != (b < 0) ? r + b : r;
}
static double real_floor_div(double a, double b) {
    if (b == 0) return a / b;
    double r = fmod(a, b), q = (a - r) / b;
    if (r != 0 && (r < 0) != (b < 0)) q -= 1;
    if (q == 0) return copysign(0, a / b);
    return isfinite(q) ? rint(q) : q;
}

static void binary_float(wr_op_id op, const float *a, const float *b, float *y, int n) {
    switch (op) {
    case WR_OP_ADD: EACH(y[i] = a[i] + b[i]); break;
    case WR_OP_SUB: EACH(y[i] = a[i] - b[i]); break;
    case WR_OP_MUL: EACH(y[i] = a[i] * b[i]); break;
    case WR_OP_DIV: EACH(y[i] = a[i] / b[i]); break;
    case WR_OP_FLOOR_DIV: EACH(y[i] = (float)real_floor_div(a[i], b[i])); break;
    case WR_OP_REMAINDER: EACH(y[i] = (float)real_remainder(a[i], b[i])); break;
    case WR_OP_POW: EACH(y[i] = (float)pow(a[i], b[i])); break;
    case WR_OP_MAXIMUM: EACH(y[i] = isnan(a[i]) || a[i] > b[i] ? a[i] : b[i]); break;
    case WR_OP_MINIMUM: EACH(y[i] = isnan(a[i]) || a[i] < b[i] ? a[i] : b[i]); break;
    default: break;
    }
}

static int64_t signed_floor_div(int64_t a, int64_t b) {
    if (b == 0) return 0;
    if (b == -1) return (int64_t)(0 - (uint64_t)a); /* the least value wraps */
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
static int64_t signed_remainder(int64_t a, int64_t b) {
    if (b == 0 || b == -1) return 0;
    int64_t r = a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
static uint64_t wrapping_pow(uint64_t base, uint64_t exponent) {
    uint64_t y = 1;
    for (; exponent; exponent >>= 1, base *= base)
        if (exponent & 1) y *= base;
    return y;
}
static int64_t signed_pow(int64_t base, int64_t exponent) {
    if (exponent >= 0) return (int64_t)wrapping_pow((uint64_t)base, (uint64_t)exponent);
    if (base == 1) return 1;
    if (base == -1) return exponent % 2 ? -1 : 1;
    return 0;
}

static void binary_signed(wr_op_id op, const reg *x1, const reg *x2, reg *y, int n) {
    const int64_t *a = x1->v.i, *b = x2->v.i;
    int64_t *s = y->v.i, bits = 8 * (int64_t)weir_dtype_bytes(y->dtype);
    switch (op) {
    case WR_OP_FLOOR_DIV: EACH(s[i] = signed_floor_div(a[i], b[i])); break;
    case WR_OP_REMAINDER: EACH(s[i] = signed_remainder(a[i], b[i])); break;
    case WR_OP_POW: EACH(s[i] = signed_pow(a[i], b[i])); break;
    case WR_OP_MAXIMUM: EACH(s[i] = a[i] > b[i] ? a[i] : b[i]); break;
    case WR_OP_MINIMUM: EACH(s[i] = a[i] < b[i] ? a[i] : b[i]); break;
    /* A negative count is as one too large. */
    case WR_OP_SHIFT_LEFT: EACH(s[i] = b[i] < 0 || b[i] >= bits ? 0 : (int64_t)((uint64_t)a[i] << b[i])); break;
    case WR_OP_SHIFT_RIGHT: EACH(s[i] = b[i] < 0 || b[i] >= bits ? (a[i] < 0 ? -1 : 0) : a[i] >> b[i]); break;
    default: break;
    }
}
static void binary_unsigned(wr_op_id op, const reg *x1, const reg *x2, reg *y, int n) {
    const uint64_t *a = x1->v.u, *b = x2->v.u;
    uint64_t *u = y->v.u, bits = 8 * weir_dtype_bytes(y->dtype);
    switch (op) {
    case WR_OP_FLOOR_DIV: EACH(u[i] = b[i] ? a[i] / b[i] : 0); break;
    case WR_OP_REMAINDER: EACH(u[i] = b[i] ? a[i] % b[i] : 0); break;
    case WR_OP_POW: EACH(u[i] = wrapping_pow(a[i], b[i])); break;
    case WR_OP_MAXIMUM: EACH(u[i] = a[i] > b[i] ? a[i] : b[i]); break;
    case WR_OP_MINIMUM: EACH(u[i] = a[i] < b[i] ? a[i] : b[i]); break;
    case WR_OP_SHIFT_LEFT: EACH(u[i] = b[i] >= bits ? 0 : a[i] << b[i]); break;
    case WR_OP_SHIFT_RIGHT: EACH(u[i] = b[i] >= bits ? 0 : a[i] >> b[i]); break;
    default: break;
    }
}

/* -1, 0, 1, or 2 for unordered. */
static int order(const reg *a, const reg *b, wr_kind kind, int i) {
    if (kind == WR_KIND_FLOAT) {
        float x = a->v.f[i], y = b->v.f[i];
        return x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
    }
    if (kind == WR_KIND_SIGNED) return (a->v.i[i] > b->v.i[i]) - (a->v.i[i] < b->v.i[i]);
    return (a->v.u[i] > b->v.u[i]) - (a->v.u[i] < b->v.u[i]);
}

static void compare(wr_op_id op, const reg *x1, const reg *x2, reg *y, int n) {
    weir_dtype common = x1->dtype; /* builders have promoted */
    wr_kind kind = wr_dtype_kind(common);
    reg a, b;
    convert(x1, common, &a, n);
    convert(x2, common, &b, n);
    for (int i = 0; i < n; i++) {
        int o = order(&a, &b, kind, i);
        bool truth = false;
        switch (op) {
        case WR_OP_EQUAL: truth = o == 0; break;
        case WR_OP_NOT_EQUAL: truth = o != 0; break;
        case WR_OP_LESS: truth = o == -1; break;
        case WR_OP_LESS_EQUAL: truth = o == -1 || o == 0; break;
        case WR_OP_GREATER: truth = o == 1; break;
        case WR_OP_GREATER_EQUAL: truth = o == 1 || o == 0; break;
        default: break;
        }
        y->v.u[i] = truth;
    }
}

static void binary(wr_op_id op, const reg *x1, const reg *x2, reg *y, int n) {
    reg a, b;
    convert(x1, y->dtype, &a, n);
    convert(x2, y->dtype, &b, n);
    wr_kind kind = wr_dtype_kind(y->dtype);
    if (kind == WR_KIND_FLOAT) {
        binary_float(op, a.v.f, b.v.f, y->v.f, n);
        return;
    }
    switch (op) { /* the same for both kinds of integers */
    case WR_OP_ADD: EACH(y->v.u[i] = a.v.u[i] + b.v.u[i]); break;
    case WR_OP_SUB: EACH(y->v.u[i] = a.v.u[i] - b.v.u[i]); break;
    case WR_OP_MUL: EACH(y->v.u[i] = a.v.u[i] * b.v.u[i]); break;
    case WR_OP_BIT_AND: EACH(y->v.u[i] = a.v.u[i] & b.v.u[i]); break;
    case WR_OP_BIT_OR: EACH(y->v.u[i] = a.v.u[i] | b.v.u[i]); break;
    case WR_OP_BIT_XOR: EACH(y->v.u[i] = a.v.u[i] ^ b.v.u[i]); break;
    default:
        if (kind == WR_KIND_SIGNED)
            binary_signed(op, &a, &b, y, n);
        else
            binary_unsigned(op, &a, &b, y, n);
    }
}

/* One op on registers; y->dtype is set. */
static void compute(wr_op_id op, const reg *const x[3], reg *y, int n) {
    switch (op) {
    case WR_OP_CAST: convert(x[0], y->dtype, y, n); return;
    case WR_OP_SELECT: {
        reg a, b;
        convert(x[1], y->dtype, &a, n);
        convert(x[2], y->dtype, &b, n);
        bool is_float = wr_dtype_kind(y->dtype) == WR_KIND_FLOAT;
        for (int i = 0; i < n; i++) {
            const reg *chosen = is_true(x[0], i) ? &a : &b;
            if (is_float)
                y->v.f[i] = chosen->v.f[i];
            else
                y->v.u[i] = chosen->v.u[i];
        }
        return;
    }
    case WR_OP_LOGICAL_AND: EACH(y->v.u[i] = is_true(x[0], i) && is_true(x[1], i)); return;
    case WR_OP_LOGICAL_OR: EACH(y->v.u[i] = is_true(x[0], i) || is_true(x[1], i)); return;
    default: break;
    }
    if (op >= WR_OP_EQUAL && op <= WR_OP_GREATER_EQUAL)
        compare(op, x[0], x[1], y, n);
    else if (op >= WR_OP_ADD && op <= WR_OP_SHIFT_RIGHT)
        binary(op, x[0], x[1], y, n);
    else
        unary(op, x[0], y, n);
    narrow(y, n);
}

/* Runs code (one instruction, or a fused chain) over this thread's rows. */
static void run_code(const wr_step *step, const wr_fused_args *code, int thread, int n_threads) {
    const wr_tensor *out = &step->out;
    if (wr_tensor_size(out) == 0) return;
    /* Rows along the last axis, cut into chunks; the chunks are shared out. */
    int outer_dims = out->n_dims ? out->n_dims - 1 : 0;
    int64_t inner = out->n_dims ? out->shape[outer_dims] : 1;
    int64_t chunks = (inner + CHUNK - 1) / CHUNK, begin, end;
    wr_share(wr_shape_count(outer_dims, out->shape) * chunks, thread, n_threads, &begin, &end);
    reg regs[MAX_REGISTERS];
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t row = unit / chunks, first = unit % chunks * CHUNK;
        int n = (int)(inner - first < CHUNK ? inner - first : CHUNK);
        for (int k = 0; k < step->n_in; k++) {
            const wr_tensor *in = &step->in[k];
            int64_t stride = out->n_dims ? in->strides[outer_dims] : 0;
            int64_t offset = wr_offset_of(row, outer_dims, out->shape, in->strides) + first * stride;
            load(&regs[k], in->dtype, wr_at(in, offset), stride, n);
        }
        for (int k = 0; k < code->n; k++) {
            const reg *x[3] = {&regs[code->code[k].in[0]], &regs[code->code[k].in[1]], &regs[code->code[k].in[2]]};
            reg *y = &regs[step->n_in + k];
            y->dtype = (weir_dtype)code->code[k].dtype;
            compute((wr_op_id)code->code[k].op, x, y, n);
        }
        int64_t stride = out->n_dims ? out->strides[outer_dims] : 0;
        int64_t offset = wr_offset_of(row, outer_dims, out->shape, out->strides) + first * stride;
        store(&regs[step->n_in + code->n - 1], wr_at(out, offset), stride, n);
    }
}

void wr_ref_elementwise(const wr_step *step, int thread, int n_threads) {
    wr_fused_args one = {.n = 1,
                         .code = {{.op = (uint8_t)step->op, .dtype = (uint8_t)step->out.dtype, .in = {0, 1, 2}}}};
    run_code(step, &one, thread, n_threads);
}

void wr_ref_fused(const wr_step *step, int thread, int n_threads) { run_code(step, step->args, thread, n_threads); }

void wr_ref_cast_run(void *dst, weir_dtype dst_dtype, int64_t dst_stride, const void *src, weir_dtype src_dtype,
                     int64_t src_stride, int64_t n) {
    reg x, y;
    for (int64_t first = 0; first < n; first += CHUNK) {
        int count = (int)(n - first < CHUNK ? n - first : CHUNK);
        load(&x, src_dtype, (const char *)src + first * src_stride * (int64_t)weir_dtype_bytes(src_dtype), src_stride,
             count);
        convert(&x, dst_dtype, &y, count);
        store(&y, (char *)dst + first * dst_stride * (int64_t)weir_dtype_bytes(dst_dtype), dst_stride, count);
    }
}
