#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/dtype.h"
#include "cpu/linear.h"
#include "cpu/ref/dequant.h"
#include "linear_support.h"

#define AFFINE(bits, group, dtype)                                                                                     \
    { "affine" #bits "-" #group "-" #dtype, {WEIR_QUANT_AFFINE, group, bits}, WEIR_DTYPE_##dtype, group }
const lin_case lin_cases[] = {
    {"q4_0", {WEIR_QUANT_Q4_0, 32, 4}, WEIR_DTYPE_F16, 32},
    {"q4_1", {WEIR_QUANT_Q4_1, 32, 4}, WEIR_DTYPE_F16, 32},
    {"q5_0", {WEIR_QUANT_Q5_0, 32, 5}, WEIR_DTYPE_F16, 32},
    {"q5_1", {WEIR_QUANT_Q5_1, 32, 5}, WEIR_DTYPE_F16, 32},
    {"q8_0", {WEIR_QUANT_Q8_0, 32, 8}, WEIR_DTYPE_F16, 32},
    {"q2_k", {WEIR_QUANT_Q2_K, 16, 2}, WEIR_DTYPE_F16, 256},
    {"q3_k", {WEIR_QUANT_Q3_K, 16, 3}, WEIR_DTYPE_F16, 256},
    {"q4_k", {WEIR_QUANT_Q4_K, 32, 4}, WEIR_DTYPE_F16, 256},
    {"q5_k", {WEIR_QUANT_Q5_K, 32, 5}, WEIR_DTYPE_F16, 256},
    {"q6_k", {WEIR_QUANT_Q6_K, 16, 6}, WEIR_DTYPE_F16, 256},
    {"mxfp4", {WEIR_QUANT_MXFP4, 32, 4}, WEIR_DTYPE_F32, 32},
    {"nvfp4", {WEIR_QUANT_NVFP4, 16, 4}, WEIR_DTYPE_F32, 32},
    {"mxfp8", {WEIR_QUANT_MXFP8, 32, 8}, WEIR_DTYPE_F32, 32},
    {"bf16", {WEIR_QUANT_NONE, 0, 0}, WEIR_DTYPE_BF16, 1},
    {"f16", {WEIR_QUANT_NONE, 0, 0}, WEIR_DTYPE_F16, 1},
    {"f32", {WEIR_QUANT_NONE, 0, 0}, WEIR_DTYPE_F32, 1},
    AFFINE(2, 32, BF16),
    AFFINE(2, 128, F32),
    AFFINE(3, 64, BF16),
    AFFINE(3, 32, F16),
    AFFINE(4, 64, BF16),
    AFFINE(4, 128, F16),
    AFFINE(4, 32, F32),
    AFFINE(5, 64, F16),
    AFFINE(5, 128, BF16),
    AFFINE(6, 32, BF16),
    AFFINE(6, 64, F32),
    AFFINE(8, 64, BF16),
    AFFINE(8, 128, F16),
};
const int lin_case_count = sizeof lin_cases / sizeof *lin_cases;

enum { CANARY = 64 }; /* bytes on either side of every output */

static uint32_t next(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}
float lin_random(uint64_t *state) { return (float)next(state) * 0x1p-30f - 1.0f; }

static void put(weir_dtype dtype, void *array, int64_t i, float value) {
    uint16_t h = dtype == WEIR_DTYPE_BF16 ? wr_f32_to_bf16(value) : wr_f32_to_f16(value);
    if (dtype == WEIR_DTYPE_F32)
        memcpy((char *)array + 4 * i, &value, 4);
    else
        memcpy((char *)array + 2 * i, &h, 2);
}

/* Where a GGUF block keeps its f16 scales. */
static int scale_offsets(weir_quant_mode mode, int at[2]) {
    switch (mode) {
    case WEIR_QUANT_Q2_K: at[0] = 80, at[1] = 82; return 2;
    case WEIR_QUANT_Q3_K: at[0] = 108; return 1;
    case WEIR_QUANT_Q6_K: at[0] = 208; return 1;
    case WEIR_QUANT_Q4_1:
    case WEIR_QUANT_Q5_1:
    case WEIR_QUANT_Q4_K:
    case WEIR_QUANT_Q5_K: at[0] = 0, at[1] = 2; return 2;
    default: at[0] = 0; return 1;
    }
}

void lin_weight_init(lin_weight *w, const lin_case *c, int64_t experts, int64_t rows, int64_t cols, unsigned seed,
                     int n_threads) {
    uint64_t state = seed;
    weir_quant q = c->quant;
    *w = (lin_weight){.args = {.quant = q,
                               .weight_dtype = c->dtype,
                               .out_dtype = WEIR_DTYPE_F32,
                               .global_scale = q.mode == WEIR_QUANT_NVFP4 ? 0.37f : 1,
                               .experts = experts,
                               .rows = rows,
                               .cols = cols}};
    int64_t n = experts * rows, row_bytes = wr_weight_row_bytes(&w->args);
    w->data = malloc((size_t)(n * row_bytes) + 1);
    uint8_t *bytes = w->data;
    for (int64_t i = 0; i < n * row_bytes; i++) bytes[i] = (uint8_t)(next(&state) >> 7);
    if (q.mode == WEIR_QUANT_NONE) {
        for (int64_t i = 0; i < n * cols; i++) put(c->dtype, w->data, i, lin_random(&state));
    } else if (wr_quant_is_gguf(q.mode)) {
        int at[2], count = scale_offsets(q.mode, at);
        int64_t step = wr_quant_block_bytes(q.mode);
        for (int64_t b = 0; b < n * row_bytes / step; b++)
            for (int k = 0; k < count; k++)
                put(WEIR_DTYPE_F16, bytes + b * step + at[k], 0, 0.01f * lin_random(&state));
    } else {
        int64_t groups = n * cols / q.group_size;
        w->scales = malloc((size_t)groups * 4 + 1);
        if (q.mode == WEIR_QUANT_AFFINE) w->biases = malloc((size_t)groups * 4 + 1);
        for (int64_t g = 0; g < groups; g++) {
            if (q.mode == WEIR_QUANT_AFFINE) {
                put(c->dtype, w->scales, g, 0.01f * lin_random(&state));
                put(c->dtype, w->biases, g, 0.1f * lin_random(&state));
            } else if (q.mode == WEIR_QUANT_NVFP4) {
                ((uint8_t *)w->scales)[g] = (uint8_t)(next(&state) % 0x7f); /* every finite value */
            } else {
                ((uint8_t *)w->scales)[g] = (uint8_t)(120 + next(&state) % 12);
            }
        }
        if (q.mode == WEIR_QUANT_MXFP8)
            for (int64_t i = 0; i < n * row_bytes; i++)
                if ((bytes[i] & 0x7f) == 0x7f) bytes[i] = 0; /* NaN */
    }
    w->packed_bytes = wr_cpu_packed_bytes(&w->args);
    uint8_t *block = malloc(w->packed_bytes + 2 * CANARY);
    memset(block, 0xa5, w->packed_bytes + 2 * CANARY);
    w->packed = block + CANARY;
    for (int t = 0; t < n_threads; t++) wr_cpu_pack(&w->args, w->data, w->scales, w->biases, w->packed, t, n_threads);
    for (int i = 0; i < CANARY; i++)
        assert_true(block[i] == 0xa5 && block[CANARY + w->packed_bytes + (size_t)i] == 0xa5);
}

void lin_weight_deinit(lin_weight *w) {
    free(w->data);
    free(w->scales);
    free(w->biases);
    free((uint8_t *)w->packed - CANARY);
}

void lin_weight_row(const lin_weight *w, int64_t expert, int64_t row, float *out) {
    wr_linear_args args = w->args;
    args.packed = 0;
    wr_dequant_row(&args, w->data, w->scales, w->biases, expert, row, out);
}

static void *guarded(size_t bytes) {
    uint8_t *p = malloc(bytes + 2 * CANARY);
    memset(p, 0xa5, bytes + 2 * CANARY);
    return p + CANARY;
}
static void guarded_free(void *buffer, size_t bytes) {
    uint8_t *p = buffer;
    for (int i = 0; i < CANARY; i++) assert_true(p[i - CANARY] == 0xa5 && p[bytes + (size_t)i] == 0xa5);
    free(p - CANARY);
}

const char *lin_run(const wr_kernel_row *rows, wr_step *step, int n_threads) {
    for (; rows->run; rows++) {
        if (rows->fits && !rows->fits(step)) continue;
        size_t prepared_bytes = rows->prepare ? rows->prepare_bytes(step) : 0;
        void *prepared = guarded(prepared_bytes);
        step->scratch = prepared;
        for (int t = 0; t < n_threads && rows->prepare; t++) rows->prepare(step, t, n_threads);
        size_t scratch_bytes = rows->scratch_bytes ? rows->scratch_bytes(step, n_threads) : 0;
        step->scratch = guarded(scratch_bytes);
        step->prepared = rows->prepare ? prepared : NULL;
        for (int t = 0; t < n_threads; t++) rows->run(step, t, n_threads);
        guarded_free(step->scratch, scratch_bytes);
        guarded_free(prepared, prepared_bytes);
        return rows->name;
    }
    return NULL;
}

const char *lin_matmul(const lin_weight *w, weir_dtype x_dtype, const void *x, const int32_t *ids, int64_t m, void *y,
                       int n_threads) {
    wr_linear_args args = w->args;
    args.packed = 1;
    size_t bytes = (size_t)(m * args.rows) * weir_dtype_bytes(x_dtype);
    void *out = guarded(bytes);
    wr_tensor in[3] = {{.data = (void *)(uintptr_t)x,
                        .dtype = x_dtype,
                        .n_dims = 2,
                        .shape = {m, args.cols},
                        .strides = {args.cols, 1}}};
    wr_tensor weight = {
        .data = w->packed, .dtype = WEIR_DTYPE_U8, .n_dims = 1, .shape = {(int64_t)w->packed_bytes}, .strides = {1}};
    wr_step step = {.op = ids ? WR_OP_GATHER_LINEAR : WR_OP_LINEAR, .args = &args, .in = in, .n_in = ids ? 3 : 2};
    step.out =
        (wr_tensor){.data = out, .dtype = x_dtype, .n_dims = 2, .shape = {m, args.rows}, .strides = {args.rows, 1}};
    in[ids ? 2 : 1] = weight;
    if (ids)
        in[1] = (wr_tensor){
            .data = (void *)(uintptr_t)ids, .dtype = WEIR_DTYPE_I32, .n_dims = 1, .shape = {m}, .strides = {1}};
    const char *name = lin_run(ids ? wr_cpu_gather_linear_rows : wr_cpu_linear_rows, &step, n_threads);
    memcpy(y, out, bytes);
    guarded_free(out, bytes);
    return name;
}
