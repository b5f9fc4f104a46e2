/* Times LINEAR over packed weights and prints one JSON line a case: median of n runs.
 *
 *   bench_linear [format ...]      default: q4_1 q5_0 q8_0 q4_k q6_k
 *
 * gbps: bytes of packed weight a second; gflops: 2 * M * rows * cols a second. Several copies of a weight are cycled so
 * that one row reads from memory, as a model does. Threads: 1 and 2 (WEIR_BENCH_THREADS overrides the 2). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/dtype.h"
#include "base/mem.h"
#include "base/pool.h"
#include "cpu/isa.h"
#include "cpu/linear.h"

/* WEIR_BENCH_CPU=1 counts the time of this thread only, for one thread on a busy machine. */
static clockid_t clock_id = CLOCK_MONOTONIC;
static double now(void) {
    struct timespec t;
    clock_gettime(clock_id, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static const struct {
    const char *name;
    weir_quant quant;
    weir_dtype dtype;
} formats[] = {
    {"q4_0", {WEIR_QUANT_Q4_0, 32, 4}, WEIR_DTYPE_F16},       {"q4_1", {WEIR_QUANT_Q4_1, 32, 4}, WEIR_DTYPE_F16},
    {"q5_0", {WEIR_QUANT_Q5_0, 32, 5}, WEIR_DTYPE_F16},       {"q5_1", {WEIR_QUANT_Q5_1, 32, 5}, WEIR_DTYPE_F16},
    {"q8_0", {WEIR_QUANT_Q8_0, 32, 8}, WEIR_DTYPE_F16},       {"q2_k", {WEIR_QUANT_Q2_K, 16, 2}, WEIR_DTYPE_F16},
    {"q3_k", {WEIR_QUANT_Q3_K, 16, 3}, WEIR_DTYPE_F16},       {"q4_k", {WEIR_QUANT_Q4_K, 32, 4}, WEIR_DTYPE_F16},
    {"q5_k", {WEIR_QUANT_Q5_K, 32, 5}, WEIR_DTYPE_F16},       {"q6_k", {WEIR_QUANT_Q6_K, 16, 6}, WEIR_DTYPE_F16},
    {"affine2", {WEIR_QUANT_AFFINE, 64, 2}, WEIR_DTYPE_BF16}, {"affine3", {WEIR_QUANT_AFFINE, 64, 3}, WEIR_DTYPE_BF16},
    {"affine4", {WEIR_QUANT_AFFINE, 64, 4}, WEIR_DTYPE_BF16}, {"affine5", {WEIR_QUANT_AFFINE, 64, 5}, WEIR_DTYPE_BF16},
    {"affine6", {WEIR_QUANT_AFFINE, 64, 6}, WEIR_DTYPE_BF16}, {"affine8", {WEIR_QUANT_AFFINE, 64, 8}, WEIR_DTYPE_BF16},
    {"mxfp4", {WEIR_QUANT_MXFP4, 32, 4}, WEIR_DTYPE_F32},     {"nvfp4", {WEIR_QUANT_NVFP4, 16, 4}, WEIR_DTYPE_F32},
    {"mxfp8", {WEIR_QUANT_MXFP8, 32, 8}, WEIR_DTYPE_F32},     {"bf16", {WEIR_QUANT_NONE, 0, 0}, WEIR_DTYPE_BF16},
    {"f16", {WEIR_QUANT_NONE, 0, 0}, WEIR_DTYPE_F16},         {"f32", {WEIR_QUANT_NONE, 0, 0}, WEIR_DTYPE_F32},
};

/* SmolLM2, Qwen2.5 0.5B, Gemma 3 270M, and a layer of an 8B model: {rows, cols}. */
static const int64_t shapes[][2] = {{1536, 576}, {576, 1536}, {49152, 576}, {4864, 896},   {896, 4864},  {151936, 896},
                                    {2048, 640}, {640, 2048}, {1024, 640},  {262144, 640}, {12288, 4096}};
static const int64_t ms[] = {1, 2, 4, 8, 64, 512};

typedef struct run {
    const wr_kernel_row *row;
    wr_step *step;
    void *prepared, *scratch;
} run;

static void work(void *context, int thread, int n_threads) {
    run *r = context;
    r->row->run(r->step, thread, n_threads);
}
static void prepare(void *context, int thread, int n_threads) {
    run *r = context;
    r->row->prepare(r->step, thread, n_threads);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void bench(int f, int64_t rows, int64_t cols, int64_t m, wr_pool *pool, const void *weights, size_t bytes,
                  int copies) {
    wr_linear_args args = {.quant = formats[f].quant,
                           .weight_dtype = formats[f].dtype,
                           .packed = 1,
                           .global_scale = 1,
                           .experts = 1,
                           .rows = rows,
                           .cols = cols};
    float *x = malloc((size_t)(m * cols) * 4), *y = malloc((size_t)(m * rows) * 4);
    for (int64_t i = 0; i < m * cols; i++) x[i] = (float)((i * 7919) % 2001 - 1000) * 1e-3f;
    wr_tensor in[2] = {{.data = x, .dtype = WEIR_DTYPE_F32, .n_dims = 2, .shape = {m, cols}, .strides = {cols, 1}},
                       {.dtype = WEIR_DTYPE_U8, .n_dims = 1, .shape = {(int64_t)bytes}, .strides = {1}}};
    wr_step step = {.op = WR_OP_LINEAR, .args = &args, .in = in, .n_in = 2};
    step.out = (wr_tensor){.data = y, .dtype = WEIR_DTYPE_F32, .n_dims = 2, .shape = {m, rows}, .strides = {rows, 1}};
    const wr_kernel_row *row = wr_cpu_linear_rows;
    while (row->run && !row->fits(&step)) row++;
    int n_threads = wr_pool_threads(pool);
    run r = {.row = row, .step = &step};
    size_t prepared_bytes = row->prepare ? row->prepare_bytes(&step) : 0;
    r.prepared = malloc(prepared_bytes + 64);
    r.scratch = malloc(64);
    double times[64], prepare_us = 0, budget = now() + 0.4;
    int n = 0;
    for (int i = 0; i < 64 && (i < 6 || now() < budget); i++) {
        in[1].data = (char *)(uintptr_t)weights + bytes * (size_t)(i % copies);
        double t0 = now();
        if (row->prepare) {
            step.scratch = r.prepared;
            wr_pool_run(pool, prepare, &r);
            step.prepared = r.prepared;
        }
        double t1 = now();
        step.scratch = r.scratch;
        wr_pool_run(pool, work, &r);
        double t2 = now();
        if (i == 0) continue;
        times[n++] = t2 - t0;
        prepare_us += (t1 - t0) * 1e6;
    }
    qsort(times, (size_t)n, sizeof *times, compare);
    double t = times[n / 2];
    printf(
        "{\"format\":\"%s\",\"rows\":%lld,\"cols\":%lld,\"m\":%lld,\"threads\":%d,\"kernel\":\"%s\",\"n\":%d,"
        "\"median_us\":%.1f,\"min_us\":%.1f,\"prepare_us\":%.1f,\"gbps\":%.2f,\"gflops\":%.1f,\"best_gflops\":%.1f}\n",
        formats[f].name, (long long)rows, (long long)cols, (long long)m, n_threads, row->name, n, t * 1e6,
        times[0] * 1e6, prepare_us / n, (double)bytes / t * 1e-9,
        2.0 * (double)m * (double)rows * (double)cols / t * 1e-9,
        2.0 * (double)m * (double)rows * (double)cols / times[0] * 1e-9);
    fflush(stdout);
    free(x);
    free(y);
    free(r.prepared);
    free(r.scratch);
}

int main(int argc, char **argv) {
    static const char *const usual[] = {"q4_1", "q5_0", "q8_0", "q4_k", "q6_k"};
    const char *only = getenv("WEIR_BENCH_M"), *shape = getenv("WEIR_BENCH_ROWS"), *t = getenv("WEIR_BENCH_THREADS");
    if (getenv("WEIR_BENCH_CPU")) clock_id = CLOCK_THREAD_CPUTIME_ID;
    for (int f = 0; f < (int)(sizeof formats / sizeof *formats); f++) {
        int wanted = 0;
        for (int i = 1; i < argc; i++) wanted |= !strcmp(argv[i], formats[f].name);
        for (int i = 0; i < 5 && argc < 2; i++) wanted |= !strcmp(usual[i], formats[f].name);
        if (!wanted) continue;
        for (int s = 0; s < (int)(sizeof shapes / sizeof *shapes); s++) {
            int64_t rows = shapes[s][0], cols = shapes[s][1];
            if (shape && atoll(shape) != rows) continue;
            wr_linear_args args = {.quant = formats[f].quant,
                                   .weight_dtype = formats[f].dtype,
                                   .global_scale = 1,
                                   .experts = 1,
                                   .rows = rows,
                                   .cols = cols};
            size_t bytes = wr_cpu_packed_bytes(&args), data = (size_t)(rows * cols) * 4;
            if (!bytes) continue;
            int copies = (int)(((size_t)96 << 20) / bytes) + 1;
            /* Bytes of any value time alike, but exponents and scales must be numbers: small ones. */
            uint8_t *published = malloc(data), *weights = wr_pages_alloc(bytes * (size_t)copies);
            for (size_t i = 0; i < data; i++) published[i] = (uint8_t)((i * 2654435761u >> 13) & 0x3b);
            double t0 = now();
            wr_cpu_pack(&args, published, published, published, weights, 0, 1);
            double pack_s = now() - t0;
            for (int i = 1; i < copies; i++) memcpy(weights + bytes * (size_t)i, weights, bytes);
            free(published);
            printf("{\"format\":\"%s\",\"rows\":%lld,\"cols\":%lld,\"pack_gbps\":%.2f}\n", formats[f].name,
                   (long long)rows, (long long)cols, (double)bytes / pack_s * 1e-9);
            int most = t ? atoi(t) : 2;
            for (int threads = 1; threads <= most; threads += most > 1 ? most - 1 : 1) {
                wr_pool *pool;
                weir_error err;
                if (wr_pool_open(threads, &pool, &err) != WEIR_OK) return 1;
                for (int i = 0; i < (int)(sizeof ms / sizeof *ms); i++) {
                    if (only && atoll(only) != ms[i]) continue;
                    if (2.0 * (double)(ms[i] * rows) * (double)cols > 6e10) continue; /* keep it short */
                    bench(f, rows, cols, ms[i], pool, weights, bytes, copies);
                }
                wr_pool_close(pool);
            }
            wr_pages_free(weights, bytes * (size_t)copies);
        }
    }
    return 0;
}
