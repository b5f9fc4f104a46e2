/* Cases for every op of the table: several shapes (one element, primes, empty, 65,537 rows), every dtype it takes,
 * every weight format. tests/cpu/test_op_table.c runs them row by row on the CPU, tests/cuda/test_device_op_table.c on
 * a GPU. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/op_cases.h"

#include "array/kv.h"
#include "base/dtype.h"

typedef wr_case context;
typedef wr_case_maker generator;

static uint32_t next_random(context *c) {
    c->seed = c->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(c->seed >> 33);
}

static int dims_of(const context *c, int64_t *dims) {
    static const int64_t all[WR_CASE_SHAPES][3] = {{1}, {3, 7, 13}, {0, 5}, {65537, 3}};
    static const int n[WR_CASE_SHAPES] = {1, 3, 2, 2};
    memcpy(dims, all[c->shape], sizeof all[c->shape]);
    return n[c->shape];
}
static int64_t rows_of(const context *c) { return (int64_t[]){1, 13, 0, 65537}[c->shape]; }
static bool tall(const context *c) { return c->shape == WR_CASE_TALL; }

/* Values that exercise an element type: mostly moderate, now and then special. */
static weir_array *data(context *c, weir_dtype dtype, int n_dims, const int64_t *dims) {
    int64_t n = wr_n_elements(n_dims, dims);
    size_t size = weir_dtype_bytes(dtype);
    unsigned char *p = malloc((size_t)n * size + 1);
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = (uint64_t)next_random(c) << 32 | next_random(c);
        float f = ((float)(bits >> 40) * 0x1p-23f - 1) * 4;
        if (dtype == WEIR_DTYPE_BOOL)
            bits &= 1;
        else if (dtype == WEIR_DTYPE_F32)
            bits = wr_f32_bits(f);
        else if (dtype == WEIR_DTYPE_F16)
            bits = wr_f32_to_f16(f);
        else if (dtype == WEIR_DTYPE_BF16)
            bits = wr_f32_to_bf16(f);
        else if (bits % 8)
            bits = (uint64_t)(int64_t)(wr_is_unsigned(dtype) ? fabsf(f * 4) : f * 4);
        memcpy(p + (size_t)i * size, &bits, size);
    }
    weir_array *a = weir_from_data(c->g, dtype, n_dims, dims, p);
    free(p);
    return a;
}
#define DATA(dtype, ...)                                                                                               \
    data(c, dtype, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

/* i32 or i64 numbers from low up to high, high excluded. */
static weir_array *integers(context *c, weir_dtype dtype, int64_t low, int64_t high, int n_dims, const int64_t *dims) {
    int64_t n = wr_n_elements(n_dims, dims);
    int64_t *p = malloc((size_t)n * 8 + 8);
    for (int64_t i = 0; i < n; i++) {
        int64_t v = low + (high > low ? (int64_t)(next_random(c) % (uint32_t)(high - low)) : 0);
        if (dtype == WEIR_DTYPE_I64)
            p[i] = v;
        else
            ((int32_t *)p)[i] = (int32_t)v;
    }
    weir_array *a = weir_from_data(c->g, dtype, n_dims, dims, p);
    free(p);
    return a;
}
#define INTS(low, high, ...)                                                                                           \
    integers(c, WEIR_DTYPE_I32, low, high, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                  \
             (int64_t[]){__VA_ARGS__})

static weir_array *any_data(context *c) {
    int64_t dims[3];
    int n = dims_of(c, dims);
    return data(c, c->dtype, n, dims);
}

/* ---- generators ---- */

static weir_array *gen_elementwise(context *c, bool *more) {
    (void)more;
    weir_array *in[3];
    int64_t dims[3];
    int n = wr_ops[c->op].max_inputs, n_dims = dims_of(c, dims);
    /* Builders cast to float first. */
    if (((c->op >= WR_OP_SQRT && c->op <= WR_OP_GELU_TANH) || c->op == WR_OP_DIV) && !wr_is_float(c->dtype))
        return NULL;
    for (int i = 0; i < n; i++)
        in[i] = data(c, c->op == WR_OP_SELECT && i == 0 ? WEIR_DTYPE_BOOL : c->dtype, n_dims, dims);
    return wr_node(c->g, c->op, in, n, NULL);
}
static weir_array *gen_cast(context *c, bool *more) {
    *more = c->variant + 1 < WEIR_DTYPE_COUNT;
    weir_array *x = any_data(c);
    if (wr_is_float(c->dtype) && !tall(c)) x = weir_mul(x, weir_full(c->g, c->dtype, 0, NULL, 100));
    wr_cast_args args = {.dtype = (weir_dtype)c->variant};
    return wr_node(c->g, WR_OP_CAST, &x, 1, &args);
}
static weir_array *gen_reduce(context *c, bool *more) {
    *more = c->variant < 2;
    weir_array *x = any_data(c);
    if ((c->op == WR_OP_MEAN || c->op == WR_OP_LOGSUMEXP) && !wr_is_float(c->dtype)) return NULL;
    wr_reduce_args args;
    memset(&args, 0, sizeof args);
    args.keep_dims = c->variant == 1;
    args.axes = c->variant == 0 ? (1u << x->n_dims) - 1 : c->variant == 1 ? 1u : 1u << (x->n_dims - 1);
    return wr_node(c->g, c->op, &x, 1, &args);
}
static weir_array *gen_axis(context *c, bool *more) {
    *more = c->variant < 3;
    weir_array *x = any_data(c);
    wr_axis_args args;
    memset(&args, 0, sizeof args);
    args.axis = c->variant & 1 ? x->n_dims - 1 : 0;
    bool second = c->variant & 2;
    if (c->op == WR_OP_SORT || c->op == WR_OP_ARGSORT) args.descending = second;
    if (c->op == WR_OP_CUMSUM) args.reverse = second, args.exclusive = second;
    if (c->op == WR_OP_TOP_K || c->op == WR_OP_ARG_TOP_K) {
        args.k = second ? x->shape[args.axis] : x->shape[args.axis] / 2;
        if (tall(c) && args.axis == 0) args.k = 40;
    }
    return wr_node(c->g, c->op, &x, 1, &args);
}
static weir_array *gen_indexed(context *c, bool *more) {
    *more = c->variant < 1;
    weir_array *in[3] = {any_data(c)};
    wr_axis_args args;
    memset(&args, 0, sizeof args);
    args.axis = c->variant ? in[0]->n_dims - 1 : 0;
    int64_t n = in[0]->shape[args.axis], dims[3];
    int n_dims = dims_of(c, dims);
    if (c->op != WR_OP_TAKE) dims[args.axis] = dims[args.axis] / 2 + 1;
    /* Out of range now and then, and from the end. */
    in[1] = integers(c, c->variant ? WEIR_DTYPE_I64 : WEIR_DTYPE_I32, -n - 1, n + 1, c->op == WR_OP_TAKE ? 1 : n_dims,
                     c->op == WR_OP_TAKE ? (int64_t[]){11} : dims);
    if (wr_ops[c->op].max_inputs == 3) in[2] = data(c, c->dtype, n_dims, dims);
    return wr_node(c->g, c->op, in, wr_ops[c->op].max_inputs, &args);
}
static weir_array *gen_slice(context *c, bool *more) {
    *more = c->variant < 1;
    weir_array *x = any_data(c);
    int64_t start[3], stop[3], step[3];
    for (int d = 0; d < x->n_dims; d++) {
        start[d] = c->variant ? x->shape[d] - 1 : 1;
        stop[d] = c->variant ? INT64_MIN / 2 : x->shape[d];
        step[d] = c->variant ? -2 : 1;
    }
    if (c->op == WR_OP_SLICE) return weir_slice(x, start, stop, step);
    weir_array *update = weir_slice(any_data(c), start, stop, step);
    return weir_slice_update(x, update, start, stop, step);
}
static weir_array *gen_concat(context *c, bool *more) {
    *more = c->variant < 1;
    weir_array *in[] = {any_data(c), any_data(c), any_data(c)};
    return weir_concat(in, c->variant ? 3 : 2, c->variant ? -1 : 0);
}
static weir_array *gen_pad(context *c, bool *more) {
    (void)more;
    return weir_pad(any_data(c), (int64_t[]){1, 0, 2}, (int64_t[]){0, 3, 1}, 1.5);
}
static weir_array *gen_view(context *c, bool *more) {
    (void)more;
    weir_array *x = any_data(c);
    wr_shape_args args;
    memset(&args, 0, sizeof args);
    args.n = x->n_dims;
    for (int d = 0; d < x->n_dims; d++)
        args.dims[d] = c->op == WR_OP_TRANSPOSE ? x->n_dims - 1 - d
                       : c->op == WR_OP_RESHAPE ? x->shape[x->n_dims - 1 - d]
                                                : x->shape[d];
    if (c->op == WR_OP_BROADCAST) {
        for (int d = x->n_dims; d > 0; d--) args.dims[d] = args.dims[d - 1];
        args.dims[0] = 2;
        args.n++;
    }
    return wr_node(c->g, c->op, &x, 1, &args);
}
static weir_array *gen_copy(context *c, bool *more) {
    (void)more;
    return weir_contiguous(any_data(c));
}
static weir_array *gen_full(context *c, bool *more) {
    (void)more;
    int64_t dims[3];
    int n = dims_of(c, dims);
    return weir_full(c->g, c->dtype, n, dims, 2.75);
}
static weir_array *gen_arange(context *c, bool *more) {
    (void)more;
    if (c->dtype == WEIR_DTYPE_BOOL) return NULL;
    return weir_arange(c->g, c->dtype, 3, 3 + (double)rows_of(c), 1);
}
static weir_array *gen_random(context *c, bool *more) {
    (void)more;
    int64_t dims[3];
    int n = dims_of(c, dims);
    if (c->dtype != WEIR_DTYPE_F32) return NULL;
    wr_random_args args;
    memset(&args, 0, sizeof args);
    args.seed = 7;
    args.counter = UINT64_MAX - 3; /* carries */
    args.n = n;
    memcpy(args.dims, dims, sizeof dims);
    return wr_node(c->g, c->op, NULL, 0, &args);
}
static weir_array *gen_matmul(context *c, bool *more) {
    *more = c->variant < 3;
    if (!wr_is_float(c->dtype)) return NULL;
    int64_t m = rows_of(c), k = c->variant == 1 ? 0 : c->variant == 2 ? 129 : 17;
    if (tall(c)) k = 3;
    if (c->variant == 3) return weir_matmul(DATA(c->dtype, 3, tall(c) ? 5 : m, k), DATA(c->dtype, 2, 1, k, 11));
    return weir_matmul(DATA(c->dtype, m, k), DATA(c->dtype, k, 11));
}

/* ---- weights ---- */

typedef struct weight {
    wr_linear_args args;
    weir_array *parts[3];
    int n;
} weight;

/* Where a GGUF block has its f16 scales. */
static const struct {
    int offset, n;
} gguf_scales[WEIR_QUANT_COUNT] = {
    [WEIR_QUANT_Q4_0] = {0, 1}, [WEIR_QUANT_Q4_1] = {0, 2},   [WEIR_QUANT_Q5_0] = {0, 1},   [WEIR_QUANT_Q5_1] = {0, 2},
    [WEIR_QUANT_Q8_0] = {0, 1}, [WEIR_QUANT_Q2_K] = {80, 2},  [WEIR_QUANT_Q3_K] = {108, 1}, [WEIR_QUANT_Q4_K] = {0, 2},
    [WEIR_QUANT_Q5_K] = {0, 2}, [WEIR_QUANT_Q6_K] = {208, 1},
};

/* Formats by variant: dense of three dtypes, affine of every bits and group, block floats, GGUF; then the same in the
 * backend's own layout. */
enum { N_DENSE = 3, N_AFFINE = 18, N_FORMATS = N_DENSE + N_AFFINE + WEIR_QUANT_COUNT - WEIR_QUANT_MXFP4 };

static bool make_weight(context *c, int64_t experts, int64_t rows, weight *w) {
    static const int bits[] = {2, 3, 4, 5, 6, 8}, groups[] = {32, 64, 128};
    static const weir_dtype floats[] = {WEIR_DTYPE_F32, WEIR_DTYPE_BF16, WEIR_DTYPE_F16};
    int format = c->variant % N_FORMATS;
    bool packed = c->variant >= N_FORMATS;
    memset(w, 0, sizeof *w);
    wr_linear_args *a = &w->args;
    a->global_scale = 1;
    a->experts = experts;
    a->rows = rows;
    a->cols = 256;
    a->out_dtype = c->dtype;
    a->weight_dtype = floats[format % 3];
    if (format < N_DENSE) {
        a->cols = 71;
    } else if (format < N_DENSE + N_AFFINE) {
        int at = format - N_DENSE;
        a->quant = (weir_quant){WEIR_QUANT_AFFINE, groups[at % 3], bits[at / 3]};
        a->weight_dtype = floats[at % 3];
    } else {
        a->quant.mode = (weir_quant_mode)(WEIR_QUANT_MXFP4 + format - N_DENSE - N_AFFINE);
        a->weight_dtype = WEIR_DTYPE_F32;
    }
    if (!wr_quant_normal(&a->quant)) return false;
    wr_weight_bytes need;
    const char *why;
    if (!wr_linear_bytes(a, &need, &why)) return false;
    unsigned char *raw[3] = {NULL};
    for (int i = 0; i < need.n_parts; i++) {
        raw[i] = malloc((size_t)need.bytes[i] + 1);
        weir_dtype d = need.dtype[i];
        for (int64_t b = 0; b < need.bytes[i]; b++) {
            uint32_t r = next_random(c);
            raw[i][b] = (unsigned char)r;
            if (a->quant.mode == WEIR_QUANT_MXFP8 && i == 0 && (r & 0x7f) == 0x7f) raw[i][b] = 0x11;
            if (i == 1 && d == WEIR_DTYPE_U8)
                raw[i][b] = (unsigned char)(a->quant.mode == WEIR_QUANT_NVFP4 ? 0x28 + r % 16 : 120 + r % 8);
        }
        int64_t size = (int64_t)weir_dtype_bytes(d);
        for (int64_t b = 0; wr_is_float(d) && b < need.bytes[i]; b += size) {
            float f = ((float)(next_random(c) >> 7) * 0x1p-23f - 1) * 0.25f;
            uint32_t v = d == WEIR_DTYPE_F32   ? wr_f32_bits(f)
                         : d == WEIR_DTYPE_F16 ? wr_f32_to_f16(f)
                                               : wr_f32_to_bf16(f);
            memcpy(raw[i] + b, &v, (size_t)size);
        }
        if (wr_quant_is_gguf(a->quant.mode)) {
            int64_t block = wr_quant_block_bytes(a->quant.mode);
            for (int64_t b = 0; b < need.bytes[i]; b += block)
                for (int s = 0; s < gguf_scales[a->quant.mode].n; s++) /* exponent between 2^-8 and 2^-5 */
                    raw[i][b + gguf_scales[a->quant.mode].offset + 2 * s + 1] =
                        (unsigned char)(0x1c + next_random(c) % 12);
        }
    }
    const wr_backend *backend = c->g->device->backend;
    size_t bytes = packed && backend->packed_bytes ? backend->packed_bytes(a) : 0;
    bool good = !packed || bytes > 0;
    if (good && packed) {
        unsigned char *own = calloc(1, bytes + 64),
                      *aligned = (unsigned char *)(((uintptr_t)own + 63) & ~(uintptr_t)63);
        backend->pack(a, raw[0], raw[1], raw[2], aligned, 0, 1);
        a->packed = 1;
        w->parts[w->n++] = weir_from_data(c->g, WEIR_DTYPE_U8, 1, (int64_t[]){(int64_t)bytes}, aligned);
        free(own);
    }
    for (int i = 0; good && !packed && i < need.n_parts; i++) {
        int64_t n = need.bytes[i] / (int64_t)weir_dtype_bytes(need.dtype[i]);
        w->parts[w->n++] = weir_from_data(c->g, need.dtype[i], 1, &n, raw[i]);
    }
    for (int i = 0; i < 3; i++) free(raw[i]);
    return good;
}

static weir_array *gen_linear(context *c, bool *more) {
    *more = c->variant + 1 < 2 * N_FORMATS;
    weight w;
    bool gather = c->op == WR_OP_GATHER_LINEAR;
    if (!wr_is_float(c->dtype)) return NULL;
    if (tall(c) && c->variant != 0 && c->variant != 3) return NULL;
    int64_t rows = c->op == WR_OP_LINEAR_GATED || c->op == WR_OP_NORM_LINEAR ? (tall(c) ? 2 : 64) : tall(c) ? 1 : 37;
    if (!make_weight(c, gather ? 3 : 1, rows, &w)) return NULL;
    weir_array *x = DATA(c->dtype, rows_of(c), w.args.cols);
    if (c->op == WR_OP_LINEAR_ADD) {
        weir_array *in[5] = {x, DATA(c->dtype, rows_of(c), w.args.rows), w.parts[0], w.parts[1], w.parts[2]};
        return wr_node(c->g, c->op, in, 2 + w.n, &w.args);
    }
    if (c->op == WR_OP_LINEAR_GATED) {
        /* Small, since errors of one product are multiplied by the other. */
        x = weir_cast(weir_mul(x, weir_scalar_f32(c->g, 0.001f)), c->dtype);
        weir_array *in[4] = {x, w.parts[0], w.parts[1], w.parts[2]};
        w.args.gate = c->variant % 3 ? WR_OP_SILU : WR_OP_GELU_TANH;
        return wr_node(c->g, c->op, in, 1 + w.n, &w.args);
    }
    if (c->op == WR_OP_NORM_LINEAR) {
        weir_array *in[5] = {x, DATA(WEIR_DTYPE_F32, w.args.cols), w.parts[0], w.parts[1], w.parts[2]};
        w.args.norm_dtype = c->variant % 2 ? WEIR_DTYPE_BF16 : WEIR_DTYPE_F32;
        w.args.norm_eps = 1e-5f;
        w.args.norm_offset = c->variant % 3 ? 0 : 1;
        return wr_node(c->g, c->op, in, 2 + w.n, &w.args);
    }
    if (!gather) return wr_linear(x, &w.args, w.parts[0], w.parts[1], w.parts[2]);
    return wr_gather_linear(x, INTS(-1, 4, rows_of(c)), &w.args, w.parts[0], w.parts[1], w.parts[2]);
}
static weir_array *gen_embedding(context *c, bool *more) {
    *more = c->variant + 1 < 2 * N_FORMATS;
    weight w;
    if (!wr_is_float(c->dtype) || (tall(c) && c->variant != 0)) return NULL;
    if (!make_weight(c, 1, 37, &w)) return NULL;
    return wr_embedding(INTS(-1, 38, rows_of(c)), &w.args, w.parts[0], w.parts[1], w.parts[2]);
}
static weir_array *gen_dequantize(context *c, bool *more) {
    *more = c->variant + 1 < N_FORMATS;
    weight w;
    if (!wr_is_float(c->dtype) || tall(c) || !make_weight(c, 1, rows_of(c), &w)) return NULL;
    return wr_node(c->g, c->op, w.parts, w.n, &w.args);
}
static weir_array *gen_quantize(context *c, bool *more) {
    *more = c->variant < 8;
    static const weir_quant quants[] = {
        {WEIR_QUANT_AFFINE, 32, 2}, {WEIR_QUANT_AFFINE, 64, 3}, {WEIR_QUANT_AFFINE, 128, 4},
        {WEIR_QUANT_AFFINE, 32, 5}, {WEIR_QUANT_AFFINE, 64, 6}, {WEIR_QUANT_AFFINE, 64, 8},
        {WEIR_QUANT_MXFP4, 32, 4},  {WEIR_QUANT_NVFP4, 16, 4},  {WEIR_QUANT_MXFP8, 32, 8}};
    if (!wr_is_float(c->dtype) || (tall(c) && c->variant)) return NULL;
    weir_array *w = DATA(c->dtype, rows_of(c), tall(c) ? 32 : 128);
    wr_quantize_args args;
    memset(&args, 0, sizeof args);
    args.quant = quants[c->variant];
    return wr_node(c->g, c->op, &w, 1, &args);
}

/* ---- transformers ---- */

static weir_array *gen_norm(context *c, bool *more) {
    *more = c->variant < 3;
    if (!wr_is_float(c->dtype)) return NULL;
    int64_t width = tall(c) ? 3 : (int64_t[]){1, 17, 64, 577}[c->variant];
    weir_array *x = DATA(c->dtype, rows_of(c), width), *w = DATA(WEIR_DTYPE_F32, width),
               *b = DATA(WEIR_DTYPE_F32, width);
    if (c->op == WR_OP_RMS_NORM) return weir_rms_norm(x, c->variant ? w : NULL, 1e-5f);
    return weir_layer_norm(x, c->variant ? w : NULL, c->variant > 1 ? b : NULL, 1e-5f);
}
static weir_array *gen_rope_table(context *c, bool *more) {
    *more = c->variant < 1;
    if (c->dtype != WEIR_DTYPE_F32) return NULL;
    wr_rope_table_args args;
    weir_error err;
    weir_rope_options options = {.kind = WEIR_ROPE_DEFAULT, .base = 500000};
    wr_assert(wr_rope_frequencies(&options, c->variant ? 10 : 64, &args, &err) == WEIR_OK);
    return wr_rope_table(
        integers(c, c->variant ? WEIR_DTYPE_I64 : WEIR_DTYPE_I32, 0, 1 << 20, 1, (int64_t[]){rows_of(c)}), &args);
}
static weir_array *gen_rope(context *c, bool *more) {
    *more = c->variant < 3;
    if (!wr_is_float(c->dtype)) return NULL;
    int64_t t = rows_of(c), d = tall(c) ? 4 : 26, half = tall(c) ? 2 : c->variant & 2 ? 8 : 13;
    return wr_rope_apply(DATA(c->dtype, t, 3, d), DATA(WEIR_DTYPE_F32, t, 2, half), c->variant & 1);
}
static weir_array *gen_attention(context *c, bool *more) {
    *more = c->variant < 8;
    if (!wr_is_float(c->dtype) || (tall(c) && c->variant)) return NULL;
    int64_t l = c->shape == WR_CASE_PRIME ? 7 : rows_of(c), s = tall(c) ? 3 : 31,
            d = tall(c) ? 4 : (int64_t[]){8, 17, 64, 96, 128, 256, 512, 80, 192}[c->variant],
            e = c->variant == 1   ? 9
                : c->variant == 8 ? 128
                                  : d;
    weir_attention_options o = {
        .causal = c->variant & 1, .window = c->variant == 3 ? 5 : 0, .softcap = c->variant == 4 ? 20 : 0};
    weir_array *mask = c->variant == 2   ? DATA(WEIR_DTYPE_BOOL, l, s)
                       : c->variant == 5 ? DATA(WEIR_DTYPE_F32, 4, 1, s)
                                         : NULL;
    return weir_attention(DATA(c->dtype, 1, 4, l, d), DATA(c->dtype, 1, 2, s, d), DATA(c->dtype, 1, 2, s, e), mask,
                          c->variant >= 4 && c->variant < 8 ? DATA(WEIR_DTYPE_F32, 4) : NULL, &o);
}
enum { PAGES = 7, PAGE = 16, SEQS = 2, MAX_PAGES = 3 };
static weir_array *block_table(context *c) {
    return weir_from_data(c->g, WEIR_DTYPE_I32, 2, (int64_t[]){SEQS, MAX_PAGES}, (int32_t[]){3, 0, 5, 6, 1, 2});
}
/* Row t: sequence and position all different as long as the pages last, then padding. */
static void rows(context *c, int64_t n, weir_array **seq, weir_array **pos) {
    int32_t *s = malloc((size_t)n * 4 + 4), *p = malloc((size_t)n * 4 + 4);
    for (int64_t i = 0; i < n; i++) {
        s[i] = i % 5 == 4 || i >= SEQS * MAX_PAGES * PAGE ? -1 : (int32_t)(i % SEQS);
        p[i] = (int32_t)(i / SEQS % (MAX_PAGES * PAGE));
    }
    *seq = weir_from_data(c->g, WEIR_DTYPE_I32, 1, &n, s);
    *pos = weir_from_data(c->g, WEIR_DTYPE_I32, 1, &n, p);
    free(s);
    free(p);
}
/* Pages of heads of d columns; tiled ones hold more positions. */
static weir_array *kv_pages(context *c, weir_dtype dtype, int64_t d, bool tiled) {
    return DATA(dtype, PAGES, tiled ? WR_KV_TILE : PAGE, 2, wr_kv_columns(tiled, d));
}
static weir_array *gen_kv_write(context *c, bool *more) {
    *more = c->variant < 5;
    if (!wr_is_float(c->dtype)) return NULL;
    bool tiled = c->variant > 2;
    int64_t n = c->shape == WR_CASE_PRIME ? 61 : rows_of(c), d = tall(c) ? 4 : tiled ? 80 : 24;
    weir_array *seq, *pos;
    rows(c, n, &seq, &pos);
    weir_dtype pages = (weir_dtype[]){WEIR_DTYPE_F32, WEIR_DTYPE_F16, WEIR_DTYPE_BF16}[c->variant % 3];
    return wr_kv_write(kv_pages(c, pages, d, tiled), DATA(c->dtype, n, 2, d), block_table(c), seq, pos, tiled);
}
/* The result is the pages of keys; those of values are looked at by tests/cuda/test_kv_kernels.c. */
static weir_array *gen_kv_append(context *c, bool *more) {
    *more = c->variant < 5;
    if (!wr_is_float(c->dtype)) return NULL;
    bool tiled = c->variant > 2;
    int64_t n = c->shape == WR_CASE_PRIME ? 61 : rows_of(c), d = tall(c) ? 8 : 96, e = tall(c) ? 8 : 64;
    weir_array *seq, *pos;
    rows(c, n, &seq, &pos);
    weir_dtype pages = (weir_dtype[]){WEIR_DTYPE_F32, WEIR_DTYPE_F16, WEIR_DTYPE_BF16}[c->variant % 3];
    wr_kv_args args = {.tiled = tiled, .has_rope = c->variant != 1, .interleaved = c->variant == 2};
    weir_array *in[] = {kv_pages(c, pages, d, tiled),
                        kv_pages(c, pages, e, tiled),
                        DATA(c->dtype, n, 2, d),
                        DATA(c->dtype, n, 2, e),
                        block_table(c),
                        seq,
                        pos,
                        DATA(WEIR_DTYPE_F32, n, 2, c->variant == 4 ? d / 4 : d / 2)};
    return wr_node(c->g, WR_OP_KV_APPEND, in, 7 + args.has_rope, &args);
}
static weir_array *gen_store(context *c, bool *more) {
    (void)more;
    int64_t n = rows_of(c);
    return wr_store(DATA(c->dtype, n + 3, 5), DATA(c->dtype, n, 5));
}
/* From variant 12 on: of both kinds, for all rows or heads or for each, with fewer keys than the table has or more. */
static weir_array *paged_mask(context *c, int64_t n) {
    switch (c->variant) {
    case 12: return DATA(WEIR_DTYPE_BOOL, n, 4, MAX_PAGES * WR_KV_TILE);
    case 13: return DATA(WEIR_DTYPE_F32, 1, 4, MAX_PAGES * WR_KV_TILE + 9);
    case 14: return DATA(WEIR_DTYPE_BF16, n, 1, 17);
    case 15: return DATA(WEIR_DTYPE_BOOL, n, 1, MAX_PAGES * PAGE);
    case 16: return DATA(WEIR_DTYPE_F16, 4, MAX_PAGES * PAGE - 1);
    default: return NULL;
    }
}
static weir_array *gen_paged_attention(context *c, bool *more) {
    *more = c->variant < 16;
    if (!wr_is_float(c->dtype) || (tall(c) && c->variant)) return NULL;
    bool tiled = c->variant > 2 && c->variant < 15;
    static const int64_t sizes[] = {64, 24, 96, 128, 256, 512, 64, 96, 80, 192, 192, 192, 64, 128, 64, 64, 24};
    int64_t n = c->shape == WR_CASE_PRIME ? 61 : rows_of(c), d = tall(c) ? 4 : sizes[c->variant];
    int64_t e = d == 192 ? 128 : d; /* a head's values */
    weir_array *seq, *pos;
    rows(c, n, &seq, &pos);
    weir_dtype pages = (weir_dtype[]){WEIR_DTYPE_F32, WEIR_DTYPE_F16, WEIR_DTYPE_BF16}[c->variant % 3];
    wr_attention_args args = {.scale = 0.1f, .softcap = c->variant == 2 || c->variant == 7 ? 30 : 0, .causal = true};
    args.window = c->variant == 1 || c->variant == 8 || c->variant == 14 ? 9 : 0;
    args.tiled = tiled;
    args.value_dim = e;
    weir_array *q = DATA(c->dtype, n, 4, d), *k = kv_pages(c, pages, d, tiled), *v = kv_pages(c, pages, e, tiled);
    bool has_sinks = c->variant == 3 || c->variant == 6 || c->variant == 12 || c->variant == 16;
    weir_array *sinks = has_sinks ? DATA(WEIR_DTYPE_F32, 4) : NULL, *mask = paged_mask(c, n);
    if (c->variant < 5 || c->variant > 13)
        return wr_paged_attention(q, k, v, block_table(c), seq, pos, mask, sinks, &args);
    args.has_mask = mask != NULL;
    args.has_sinks = sinks != NULL;
    args.has_rope = true;
    args.interleaved = c->variant == 6;
    weir_array *in[9] = {q, k, v, block_table(c), seq, pos};
    int n_in = 6;
    if (mask) in[n_in++] = mask;
    if (sinks) in[n_in++] = sinks;
    in[n_in++] = DATA(WEIR_DTYPE_F32, n, 2, c->variant == 7 ? d / 3 / 8 * 8 : d / 2);
    return wr_node(c->g, WR_OP_PAGED_ATTENTION, in, n_in, &args);
}
static weir_array *gen_conv1d(context *c, bool *more) {
    *more = c->variant < 2;
    if (!wr_is_float(c->dtype)) return NULL;
    int64_t l = rows_of(c), groups = c->variant == 0 ? 6 : c->variant;
    return weir_conv1d(DATA(c->dtype, 2, l, 6), DATA(c->dtype, 6, 3, 6 / groups), c->variant ? DATA(c->dtype, 6) : NULL,
                       1 + c->variant, 1 + (c->variant == 2), groups, 2, c->variant);
}
static weir_array *gen_fused(context *c, bool *more) {
    (void)more;
    if (!wr_is_float(c->dtype)) return NULL;
    weir_array *x = any_data(c), *y = any_data(c);
    wr_fused_args *f = wr_arena_alloc(&c->g->arena, sizeof *f);
    weir_array *node = wr_arena_alloc(&c->g->arena, sizeof *node);
    weir_array **in = wr_arena_alloc(&c->g->arena, 2 * sizeof *in);
    static const wr_op_id ops[] = {WR_OP_SILU, WR_OP_MUL, WR_OP_CAST, WR_OP_LESS, WR_OP_SELECT};
    const weir_dtype d = c->dtype, dtypes[] = {d, d, WEIR_DTYPE_F32, WEIR_DTYPE_BOOL, d};
    static const uint8_t operands[][3] = {{0, 0, 0}, {2, 1, 0}, {3, 0, 0}, {2, 3, 0}, {5, 2, 3}};
    f->n = 5;
    for (int i = 0; i < 5; i++) {
        f->code[i].op = (uint8_t)ops[i];
        f->code[i].dtype = (uint8_t)dtypes[i];
        memcpy(f->code[i].in, operands[i], 3);
    }
    in[0] = x;
    in[1] = y;
    *node = *x;
    node->op = WR_OP_FUSED;
    node->args = f;
    node->n_in = 2;
    node->in = in;
    node->buffer = NULL;
    return node;
}

wr_case_maker wr_case_of(wr_op_id op) {
    if (op < WR_OP_SUM && op != WR_OP_CAST) return gen_elementwise;
    switch (op) {
    case WR_OP_CAST: return gen_cast;
    case WR_OP_SUM:
    case WR_OP_MEAN:
    case WR_OP_MAX:
    case WR_OP_MIN:
    case WR_OP_LOGSUMEXP: return gen_reduce;
    case WR_OP_ARGMAX:
    case WR_OP_SOFTMAX:
    case WR_OP_SORT:
    case WR_OP_ARGSORT:
    case WR_OP_TOP_K:
    case WR_OP_ARG_TOP_K:
    case WR_OP_CUMSUM: return gen_axis;
    case WR_OP_TAKE:
    case WR_OP_TAKE_ALONG:
    case WR_OP_SCATTER:
    case WR_OP_SCATTER_ADD: return gen_indexed;
    case WR_OP_SLICE:
    case WR_OP_SLICE_UPDATE: return gen_slice;
    case WR_OP_CONCAT: return gen_concat;
    case WR_OP_PAD: return gen_pad;
    case WR_OP_TRANSPOSE:
    case WR_OP_RESHAPE:
    case WR_OP_BROADCAST: return gen_view;
    case WR_OP_COPY: return gen_copy;
    case WR_OP_FULL: return gen_full;
    case WR_OP_ARANGE: return gen_arange;
    case WR_OP_RANDOM_BITS:
    case WR_OP_RANDOM_UNIFORM:
    case WR_OP_RANDOM_NORMAL: return gen_random;
    case WR_OP_MATMUL: return gen_matmul;
    case WR_OP_LINEAR:
    case WR_OP_LINEAR_ADD:
    case WR_OP_LINEAR_GATED:
    case WR_OP_NORM_LINEAR:
    case WR_OP_GATHER_LINEAR: return gen_linear;
    case WR_OP_EMBEDDING: return gen_embedding;
    case WR_OP_QUANTIZE_WEIGHT:
    case WR_OP_QUANTIZE_SCALES:
    case WR_OP_QUANTIZE_BIASES: return gen_quantize;
    case WR_OP_DEQUANTIZE: return gen_dequantize;
    case WR_OP_RMS_NORM:
    case WR_OP_LAYER_NORM: return gen_norm;
    case WR_OP_ROPE_TABLE: return gen_rope_table;
    case WR_OP_ROPE: return gen_rope;
    case WR_OP_ATTENTION: return gen_attention;
    case WR_OP_KV_WRITE: return gen_kv_write;
    case WR_OP_KV_APPEND: return gen_kv_append;
    case WR_OP_STORE: return gen_store;
    case WR_OP_PAGED_ATTENTION: return gen_paged_attention;
    case WR_OP_CONV1D: return gen_conv1d;
    case WR_OP_FUSED: return gen_fused;
    default: return NULL;
    }
}
