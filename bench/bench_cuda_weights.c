/* Random weights of every format, in the device's layout. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "bench_cuda.h"

/* The first BENCH_COMMON_FORMATS are what models mostly come in. */
const bench_format bench_formats[] = {
    {"affine4_g64", {WEIR_QUANT_AFFINE, 64, 4}, WEIR_DTYPE_BF16},
    {"affine8_g64", {WEIR_QUANT_AFFINE, 64, 8}, WEIR_DTYPE_BF16},
    {"mxfp4", {WEIR_QUANT_MXFP4, 32, 4}, WEIR_DTYPE_F32},
    {"nvfp4", {WEIR_QUANT_NVFP4, 16, 4}, WEIR_DTYPE_F32},
    {"mxfp8", {WEIR_QUANT_MXFP8, 32, 8}, WEIR_DTYPE_F32},
    {"q4_k", {WEIR_QUANT_Q4_K, 32, 4}, WEIR_DTYPE_F16},
    {"q6_k", {WEIR_QUANT_Q6_K, 16, 6}, WEIR_DTYPE_F16},
    {"bf16", {WEIR_QUANT_NONE, 0, 0}, WEIR_DTYPE_BF16},
    {"affine2_g64", {WEIR_QUANT_AFFINE, 64, 2}, WEIR_DTYPE_BF16},
    {"affine3_g64", {WEIR_QUANT_AFFINE, 64, 3}, WEIR_DTYPE_BF16},
    {"affine5_g64", {WEIR_QUANT_AFFINE, 64, 5}, WEIR_DTYPE_BF16},
    {"affine6_g64", {WEIR_QUANT_AFFINE, 64, 6}, WEIR_DTYPE_BF16},
    {"affine4_g32", {WEIR_QUANT_AFFINE, 32, 4}, WEIR_DTYPE_BF16},
    {"q8_0", {WEIR_QUANT_Q8_0, 32, 8}, WEIR_DTYPE_F16},
    {"affine2_g32", {WEIR_QUANT_AFFINE, 32, 2}, WEIR_DTYPE_BF16},
    {"affine2_g128", {WEIR_QUANT_AFFINE, 128, 2}, WEIR_DTYPE_BF16},
    {"affine3_g32", {WEIR_QUANT_AFFINE, 32, 3}, WEIR_DTYPE_BF16},
    {"affine3_g128", {WEIR_QUANT_AFFINE, 128, 3}, WEIR_DTYPE_BF16},
    {"affine4_g128", {WEIR_QUANT_AFFINE, 128, 4}, WEIR_DTYPE_BF16},
    {"affine5_g32", {WEIR_QUANT_AFFINE, 32, 5}, WEIR_DTYPE_BF16},
    {"affine5_g128", {WEIR_QUANT_AFFINE, 128, 5}, WEIR_DTYPE_BF16},
    {"affine6_g32", {WEIR_QUANT_AFFINE, 32, 6}, WEIR_DTYPE_BF16},
    {"affine6_g128", {WEIR_QUANT_AFFINE, 128, 6}, WEIR_DTYPE_BF16},
    {"affine8_g32", {WEIR_QUANT_AFFINE, 32, 8}, WEIR_DTYPE_BF16},
    {"affine8_g128", {WEIR_QUANT_AFFINE, 128, 8}, WEIR_DTYPE_BF16},
    {"q4_0", {WEIR_QUANT_Q4_0, 32, 4}, WEIR_DTYPE_F16},
    {"q4_1", {WEIR_QUANT_Q4_1, 32, 4}, WEIR_DTYPE_F16},
    {"q5_0", {WEIR_QUANT_Q5_0, 32, 5}, WEIR_DTYPE_F16},
    {"q5_1", {WEIR_QUANT_Q5_1, 32, 5}, WEIR_DTYPE_F16},
    {"q2_k", {WEIR_QUANT_Q2_K, 16, 2}, WEIR_DTYPE_F16},
    {"q3_k", {WEIR_QUANT_Q3_K, 16, 3}, WEIR_DTYPE_F16},
    {"q5_k", {WEIR_QUANT_Q5_K, 32, 5}, WEIR_DTYPE_F16},
    {"f16", {WEIR_QUANT_NONE, 0, 0}, WEIR_DTYPE_F16},
    {"f32", {WEIR_QUANT_NONE, 0, 0}, WEIR_DTYPE_F32},
};
const int bench_n_formats = sizeof bench_formats / sizeof *bench_formats;

typedef struct pack_task {
    const wr_backend *backend;
    wr_linear_args *args;
    void *parts[3], *packed;
} pack_task;

static void pack_job(void *context, int thread, int n_threads) {
    pack_task *t = context;
    t->backend->pack(t->args, t->parts[0], t->parts[1], t->parts[2], t->packed, thread, n_threads);
}

/* Where f16 scales stand in the blocks of a GGUF format: n of them from this byte on. */
static int scales_of(weir_quant_mode mode, int *n) {
    *n = mode == WEIR_QUANT_Q4_1 || mode == WEIR_QUANT_Q5_1 || mode == WEIR_QUANT_Q2_K || mode == WEIR_QUANT_Q4_K ||
                 mode == WEIR_QUANT_Q5_K
             ? 2
             : 1;
    return mode == WEIR_QUANT_Q2_K ? 80 : mode == WEIR_QUANT_Q3_K ? 108 : mode == WEIR_QUANT_Q6_K ? 208 : 0;
}

static void set_scales(weir_quant_mode mode, unsigned char *blocks, int64_t bytes) {
    int n, at = scales_of(mode, &n);
    for (int64_t block = 0; block < bytes; block += wr_quant_block_bytes(mode))
        for (int i = 0; i < n; i++) blocks[block + at + 2 * i + 1] = 0x20; /* 2^-7 to 2^-6 */
}

static void fill_part(const wr_linear_args *a, int part, weir_dtype dtype, uint32_t *words, int64_t n) {
    bool dense = a->quant.mode == WEIR_QUANT_NONE, mxfp8 = a->quant.mode == WEIR_QUANT_MXFP8;
    for (int64_t k = 0; k < n; k++) {
        uint32_t r = bench_random();
        words[k] = r;
        if (part > 0 && dtype == WEIR_DTYPE_BF16) words[k] = (r & 0x807f807fu) | 0x3b803b80u;
        if (part > 0 && dtype == WEIR_DTYPE_U8)
            words[k] = a->quant.mode == WEIR_QUANT_NVFP4 ? 0x30303030u : 0x78787878u;
        if (part == 0 && dense) words[k] = (r & 0x807f807fu) | 0x3c003c00u;
        if (part == 0 && mxfp8) words[k] = r & 0xb7b7b7b7u;
    }
}

void *bench_weight(weir_device *device, wr_linear_args *a, size_t *bytes) {
    weir_error err;
    wr_weight_bytes need;
    const char *why;
    pack_task t = {.backend = device->backend, .args = a};
    if (!wr_linear_bytes(a, &need, &why)) bench_check(WR_FAIL(&err, WEIR_E_ARGUMENT, "a weight: %s", why), &err);
    for (int i = 0; i < need.n_parts; i++) {
        t.parts[i] = malloc((size_t)need.bytes[i]);
        fill_part(a, i, need.dtype[i], t.parts[i], need.bytes[i] / 4);
    }
    if (wr_quant_is_gguf(a->quant.mode)) set_scales(a->quant.mode, t.parts[0], need.bytes[0]);
    *bytes = device->backend->packed_bytes(a);
    if (*bytes) {
        t.packed = malloc(*bytes);
        wr_pool_run(device->pool, pack_job, &t);
        a->packed = 1;
    } else {
        *bytes = (size_t)need.bytes[0];
        t.packed = t.parts[0];
        t.parts[0] = NULL;
    }
    for (int i = 0; i < need.n_parts; i++) free(t.parts[i]);
    return t.packed;
}

wr_linear_args bench_linear_args(const bench_format *format, weir_dtype out, int64_t rows, int64_t cols) {
    return (wr_linear_args){.quant = format->quant,
                            .weight_dtype = format->dtype,
                            .out_dtype = out,
                            .global_scale = 1,
                            .experts = 1,
                            .rows = rows,
                            .cols = cols};
}

weir_array *bench_weight_leaf(weir_graph *g, const wr_linear_args *a, wr_buffer *w, size_t bytes) {
    int64_t size = (int64_t)bytes;
    return a->packed ? wr_leaf(g, WEIR_DTYPE_U8, 1, &size, NULL, 0, w)
                     : wr_leaf(g, a->weight_dtype, 2, (int64_t[]){a->rows, a->cols}, NULL, 0, w);
}
