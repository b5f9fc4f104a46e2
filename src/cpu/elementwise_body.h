/* The code of cpu/elementwise.c, which tells the contract; included once a level. */
#include "cpu/elementwise.h"
#include "cpu/ref/kernels.h"
#include "cpu/ref/util.h"
#include "cpu/vec_math.h"

enum { TILE = WR_ELEMENTWISE_TILE };

/* A register over one tile: floats of any type as f32, which hold exactly a value of the type; bool one byte;
 * integers as they are. */
typedef struct reg {
    weir_dtype dtype;
    const void *data;
} reg;

VF_INLINE vf round_to(vf x, weir_dtype dtype) {
    if (dtype == WEIR_DTYPE_F32) return x;
    uint16_t h[VF_N];
    vf_store_as(h, x, dtype);
    return vf_load_as(h, dtype);
}
/* y = x, rounded to dtype. */
static void round_tile(float *y, const float *x, weir_dtype dtype, int n) {
    for (int i = 0; i < n; i += VF_N) {
        int left = n - i;
        if (left >= VF_N)
            vf_store(y + i, round_to(vf_load(x + i), dtype));
        else
            vf_store_n(y + i, round_to(vf_load_n(x + i, left), dtype), left);
    }
}

/* The tail goes through the same vector code. */
#define UNARY(expression)                                                                                              \
    do {                                                                                                               \
        int i = 0;                                                                                                     \
        for (; i + VF_N <= n; i += VF_N) {                                                                             \
            vf x = vf_load(a + i);                                                                                     \
            vf_store(y + i, expression);                                                                               \
        }                                                                                                              \
        if (i < n) {                                                                                                   \
            vf x = vf_load_n(a + i, n - i);                                                                            \
            vf_store_n(y + i, expression, n - i);                                                                      \
        }                                                                                                              \
    } while (0);                                                                                                       \
    break
#define BINARY(expression)                                                                                             \
    do {                                                                                                               \
        int i = 0;                                                                                                     \
        for (; i + VF_N <= n; i += VF_N) {                                                                             \
            vf x = vf_load(a + i), z = vf_load(b + i);                                                                 \
            vf_store(y + i, expression);                                                                               \
        }                                                                                                              \
        if (i < n) {                                                                                                   \
            vf x = vf_load_n(a + i, n - i), z = vf_load_n(b + i, n - i);                                               \
            vf_store_n(y + i, expression, n - i);                                                                      \
        }                                                                                                              \
    } while (0);                                                                                                       \
    break

static void unary_tile(wr_op_id op, const float *a, float *y, int n) {
    const vf one = vf_set(1);
    switch (op) {
    case WR_OP_NEG: UNARY(-x);
    case WR_OP_ABS: UNARY(vf_abs(x));
    case WR_OP_SIGN: UNARY(vf_sel(x != x, x, (vf)((vi)one & (x > vf_set(0))) - (vf)((vi)one & (x < vf_set(0)))));
    case WR_OP_SQUARE: UNARY(x * x);
    case WR_OP_FLOOR: UNARY(vf_floor(x));
    case WR_OP_CEIL: UNARY(vf_ceil(x));
    case WR_OP_ROUND: UNARY(vf_round(x));
    case WR_OP_SQRT: UNARY(vf_sqrt(x));
    case WR_OP_RSQRT: UNARY(one / vf_sqrt(x));
    case WR_OP_RECIPROCAL: UNARY(one / x);
    case WR_OP_EXP: UNARY(vf_exp(x));
    case WR_OP_EXPM1: UNARY(vf_expm1(x));
    case WR_OP_TANH: UNARY(vf_tanh(x));
    case WR_OP_SIGMOID: UNARY(vf_sigmoid(x));
    case WR_OP_SILU: UNARY(vf_silu(x));
    case WR_OP_GELU_TANH: UNARY(vf_gelu_tanh(x));
    case WR_OP_RELU: UNARY(vf_sel(x < vf_set(0), vf_set(0), x));
    case WR_OP_CAST: UNARY(x);
    default: break;
    }
}

static void binary_tile(wr_op_id op, const float *a, const float *b, float *y, int n) {
    switch (op) {
    case WR_OP_ADD: BINARY(x + z);
    case WR_OP_SUB: BINARY(x - z);
    case WR_OP_MUL: BINARY(x * z);
    case WR_OP_DIV: BINARY(x / z);
    case WR_OP_MAXIMUM: BINARY(vf_sel((x > z) | (x != x), x, z));
    case WR_OP_MINIMUM: BINARY(vf_sel((x < z) | (x != x), x, z));
    default: break;
    }
}

#define COMPARE(operator)                                                                                              \
    for (int i = 0; i < n; i++) y[i] = a[i] operator b[i];                                                             \
    break
static void compare_tile(wr_op_id op, const float *a, const float *b, uint8_t *y, int n) {
    switch (op) {
    case WR_OP_EQUAL: COMPARE(==);
    case WR_OP_NOT_EQUAL: COMPARE(!=);
    case WR_OP_LESS: COMPARE(<);
    case WR_OP_LESS_EQUAL: COMPARE(<=);
    case WR_OP_GREATER: COMPARE(>);
    case WR_OP_GREATER_EQUAL: COMPARE(>=);
    default: break;
    }
}

/* One instruction that has no vector code: the reference, over the tile. buffer: room for the result in its own
 * type. */
static void reference_tile(wr_op_id op, weir_dtype dtype, const reg *const in[3], void *y, void *buffer, int n) {
    wr_tensor t[3];
    int n_in = wr_elementwise_inputs(op);
    for (int i = 0; i < n_in; i++)
        t[i] = (wr_tensor){.data = (void *)(uintptr_t)in[i]->data,
                           .dtype = is_float_dtype(in[i]->dtype) ? WEIR_DTYPE_F32 : in[i]->dtype,
                           .n_dims = 1,
                           .shape = {n},
                           .strides = {1}};
    bool narrow = dtype == WEIR_DTYPE_F16 || dtype == WEIR_DTYPE_BF16;
    wr_cast_args cast = {.dtype = dtype};
    wr_step step = {.op = op,
                    .args = &cast,
                    .n_in = n_in,
                    .in = t,
                    .out = {.data = narrow ? buffer : y, .dtype = dtype, .n_dims = 1, .shape = {n}, .strides = {1}}};
    wr_ref_elementwise(&step, 0, 1);
    if (narrow) row_to_f32(y, buffer, dtype, n);
}

/* y: the result's register, f32 for floats. spare: two more tiles. */
static void run_instruction(wr_op_id op, weir_dtype dtype, const reg *const in[3], void *y, float *spare, int n) {
    weir_dtype types[3] = {in[0]->dtype, in[1]->dtype, in[2]->dtype};
    if (!wr_elementwise_native(op, dtype, types)) {
        reference_tile(op, dtype, in, y, spare, n);
        return;
    }
    if (op == WR_OP_SELECT) {
        const uint8_t *chosen = in[0]->data;
        const float *a = in[1]->data, *b = in[2]->data;
        float *f = y;
        for (int i = 0; i < n; i++) f[i] = chosen[i] ? a[i] : b[i];
        if (dtype != WEIR_DTYPE_F32) round_tile(f, f, dtype, n);
        return;
    }
    int n_in = wr_elementwise_inputs(op);
    const float *a = in[0]->data, *b = n_in > 1 ? in[1]->data : NULL;
    if (dtype == WEIR_DTYPE_BOOL) {
        /* As the reference: both sides in the type of the first. */
        if (in[1]->dtype != in[0]->dtype && in[0]->dtype != WEIR_DTYPE_F32)
            round_tile(spare, b, in[0]->dtype, n), b = spare;
        compare_tile(op, a, b, y, n);
        return;
    }
    if (dtype != WEIR_DTYPE_F32 && op != WR_OP_CAST) {
        if (in[0]->dtype != dtype) round_tile(spare, a, dtype, n), a = spare;
        if (b && in[1]->dtype != dtype) round_tile(spare + TILE, b, dtype, n), b = spare + TILE;
    }
    if (b)
        binary_tile(op, a, b, y, n);
    else
        unary_tile(op, a, y, n);
    if (dtype != WEIR_DTYPE_F32) round_tile(y, y, dtype, n);
}

/* n elements of an input as a register; `buffer` is used when they do not lie as they must. */
static void load_input(reg *r, const wr_tensor *in, int64_t offset, int64_t stride, void *buffer, int n) {
    size_t bytes = weir_dtype_bytes(in->dtype);
    const char *from = (const char *)in->data + offset * (int64_t)bytes;
    r->dtype = in->dtype;
    r->data = buffer;
    if (is_float_dtype(in->dtype)) {
        if (stride == 1) {
            if (in->dtype == WEIR_DTYPE_F32)
                r->data = from;
            else
                row_to_f32(buffer, from, in->dtype, n);
            return;
        }
        float *f = buffer, first = f32_load_as(from, 0, in->dtype);
        if (stride == 0)
            for (int i = 0; i < n; i++) f[i] = first;
        else
            for (int i = 0; i < n; i++) f[i] = f32_load_as(from, i * stride, in->dtype);
    } else if (stride == 1) {
        r->data = from;
    } else {
        for (int i = 0; i < n; i++)
            memcpy((char *)buffer + (size_t)i * bytes, from + i * stride * (int64_t)bytes, bytes);
    }
}

/* Axes that lie behind each other in every operand become one. Fills shape and, a row an operand, strides; the last
 * operand is the output. Returns the number of axes, at least 1. */
static int merge_axes(const wr_step *step, int64_t shape[WR_MAX_DIMS], int64_t strides[][WR_MAX_DIMS]) {
    int n = 0;
    for (int d = 0; d < step->out.n_dims; d++) {
        int64_t size = step->out.shape[d];
        if (size == 1) continue;
        bool joins = n > 0;
        for (int k = 0; k <= step->n_in && joins; k++) {
            const wr_tensor *t = k < step->n_in ? &step->in[k] : &step->out;
            joins = strides[k][n - 1] == t->strides[d] * size;
        }
        if (joins)
            shape[n - 1] *= size;
        else
            shape[n++] = size;
        for (int k = 0; k <= step->n_in; k++)
            strides[k][n - 1] = k < step->n_in ? step->in[k].strides[d] : step->out.strides[d];
    }
    if (n == 0) {
        shape[n] = 1;
        for (int k = 0; k <= step->n_in; k++) strides[k][n] = 1;
        n = 1;
    }
    return n;
}

static void run_code(const wr_step *step, const wr_fused_args *code, int thread, int n_threads) {
    int64_t total = wr_tensor_size(&step->out);
    int64_t useful = total / WR_ELEMENTWISE_LEAST + 1;
    if (total == 0 || thread >= useful) return;
    int64_t shape[WR_MAX_DIMS], strides[WR_MAX_INPUTS + 1][WR_MAX_DIMS];
    int n_dims = merge_axes(step, shape, strides), outer = n_dims - 1, n_in = step->n_in;
    int64_t inner = shape[outer], chunks = (inner + TILE - 1) / TILE, begin, end;
    wr_share(total / inner * chunks, thread, n_threads < useful ? n_threads : (int)useful, &begin, &end);
    _Alignas(64) double inputs[WR_MAX_INPUTS][TILE], results[WR_FUSED_MAX][TILE]; /* 8 bytes an element: any type */
    _Alignas(64) float spare[2 * TILE];
    reg regs[WR_MAX_INPUTS + WR_FUSED_MAX];
    int64_t out_stride = strides[n_in][outer];
    weir_dtype out_dtype = step->out.dtype;
    size_t out_bytes = weir_dtype_bytes(out_dtype);
    bool direct = out_stride == 1 && out_dtype != WEIR_DTYPE_F16 && out_dtype != WEIR_DTYPE_BF16;
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t row = unit / chunks, first = unit % chunks * TILE;
        int n = (int)(inner - first < TILE ? inner - first : TILE);
        for (int k = 0; k < n_in; k++)
            load_input(&regs[k], &step->in[k], wr_offset_of(row, outer, shape, strides[k]) + first * strides[k][outer],
                       strides[k][outer], inputs[k], n);
        char *out = (char *)step->out.data +
                    (wr_offset_of(row, outer, shape, strides[n_in]) + first * out_stride) * (int64_t)out_bytes;
        for (int k = 0; k < code->n; k++) {
            const reg *in[3] = {&regs[code->code[k].in[0]], &regs[code->code[k].in[1]], &regs[code->code[k].in[2]]};
            weir_dtype dtype = (weir_dtype)code->code[k].dtype;
            void *y = direct && k == code->n - 1 ? (void *)out : results[k];
            run_instruction((wr_op_id)code->code[k].op, dtype, in, y, spare, n);
            regs[n_in + k] = (reg){dtype, y};
        }
        if (direct) continue;
        const char *y = (const char *)results[code->n - 1];
        if (is_float_dtype(out_dtype)) {
            if (out_stride == 1)
                row_from_f32(out, (const float *)y, out_dtype, n);
            else
                for (int i = 0; i < n; i++) f32_store_as(out, i * out_stride, ((const float *)y)[i], out_dtype);
        } else {
            for (int i = 0; i < n; i++)
                memcpy(out + i * out_stride * (int64_t)out_bytes, y + (size_t)i * out_bytes, out_bytes);
        }
    }
}

void WR_ISA(wr_fused)(const wr_step *step, int thread, int n_threads) { run_code(step, step->args, thread, n_threads); }

void WR_ISA(wr_elementwise)(const wr_step *step, int thread, int n_threads) {
    int n_in = step->n_in;
    wr_fused_args one = {.n = 1,
                         .code = {{.op = (uint8_t)step->op,
                                   .dtype = (uint8_t)step->out.dtype,
                                   .in = {0, (uint8_t)(n_in > 1 ? 1 : 0), (uint8_t)(n_in > 2 ? 2 : 0)}}}};
    run_code(step, &one, thread, n_threads);
}
