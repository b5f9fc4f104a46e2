/* Paged attention of real models' shapes: microseconds and GFLOP/s of prefill, microseconds and GB/s of KV read of
 * decode. Usage: bench_attention [threads] [level]. Prints one line a case, medians of the runs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/pool.h"
#include "cpu/fast.h"
#include "cpu/isa.h"

typedef struct bench {
    wr_step step;
    wr_kernel run;
} bench;

static void job(void *context, int thread, int n_threads) {
    const bench *b = context;
    b->run(&b->step, thread, n_threads);
}

static double read_us(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static wr_tensor tensor(weir_dtype dtype, int n, const int64_t *shape) {
    wr_tensor t = {.dtype = dtype, .n_dims = n};
    int64_t size = 1;
    for (int i = n - 1; i >= 0; i--) t.shape[i] = shape[i], t.strides[i] = size, size *= shape[i];
    t.data = wr_pages_alloc((size_t)size * weir_dtype_bytes(dtype) + 64);
    uint16_t *h = t.data;
    for (int64_t i = 0; i < size * (int64_t)weir_dtype_bytes(dtype) / 2; i++)
        h[i] = (uint16_t)(0x2c00 + (i * 2654435761u >> 8) % 0x0fff); /* f16 in 0.06 .. 1; as halves of f32 tiny noise */
    return t;
}

/* n_seq sequences of `keys` keys; the last n_new positions of each are asked. Layers: KV of so many layers is walked
 * through, so that it comes from where it would come from in a model. */
static void measure(wr_pool *pool, const char *name, int64_t heads, int64_t kv, int64_t d, int64_t keys, int64_t n_seq,
                    int64_t n_new, int64_t window, int layers) {
    enum { PAGE = 16, MAX_LAYERS = 64, RUNS = 41 };
    int n_threads = wr_pool_threads(pool);
    int64_t pages = (keys + PAGE - 1) / PAGE, rows = n_seq * n_new;
    wr_tensor in[MAX_LAYERS][6], out = tensor(WEIR_DTYPE_F32, 3, (int64_t[]){rows, heads, d});
    for (int l = 0; l < layers; l++) {
        in[l][0] = l ? in[0][0] : tensor(WEIR_DTYPE_F32, 3, (int64_t[]){rows, heads, d});
        for (int i = 1; i < 3; i++) in[l][i] = tensor(WEIR_DTYPE_F16, 4, (int64_t[]){n_seq * pages, PAGE, kv, d});
        for (int i = 3; i < 6; i++)
            in[l][i] =
                l ? in[0][i] : tensor(WEIR_DTYPE_I32, i == 3 ? 2 : 1, i == 3 ? (int64_t[]){n_seq, pages} : &rows);
    }
    for (int64_t i = 0; i < rows * heads * d; i++) ((float *)in[0][0].data)[i] = (float)(i * 37 % 101) / 50 - 1;
    for (int64_t i = 0; i < n_seq * pages; i++) ((int32_t *)in[0][3].data)[i] = (int32_t)i;
    double row_keys = 0;
    for (int64_t t = 0; t < rows; t++) {
        int64_t pos = keys - n_new + t % n_new;
        ((int32_t *)in[0][4].data)[t] = (int32_t)(t / n_new), ((int32_t *)in[0][5].data)[t] = (int32_t)pos;
        row_keys += (double)(window && window < pos + 1 ? window : pos + 1);
    }
    wr_attention_args args = {.scale = 0.125f, .causal = true, .window = window};
    bench b = {.step = {.op = WR_OP_PAGED_ATTENTION, .args = &args, .out = out, .n_in = 6, .in = in[0]}};
    const wr_kernel_row *row = wr_cpu_paged_attention_rows;
    while (row->fits && !row->fits(&b.step)) row++;
    b.run = row->run;
    size_t turns_bytes = row->prepare_bytes(&b.step);
    void *turns = wr_pages_alloc(turns_bytes);
    b.step.prepared = turns;
    size_t scratch = row->scratch_bytes(&b.step, n_threads);
    b.step.scratch = wr_pages_alloc(scratch);
    double took[RUNS], cpu[RUNS]; /* wall; CPU time of all threads, by their number: right on a busy machine too */
    for (int r = -1; r < RUNS; r++) {
        double start = read_us(CLOCK_MONOTONIC), start_cpu = read_us(CLOCK_PROCESS_CPUTIME_ID);
        for (int l = 0; l < layers; l++) b.step.in = in[l], wr_pool_run(pool, job, &b);
        if (r < 0) continue;
        took[r] = (read_us(CLOCK_MONOTONIC) - start) / layers,
        cpu[r] = (read_us(CLOCK_PROCESS_CPUTIME_ID) - start_cpu) / layers / n_threads;
    }
    qsort(cpu, RUNS, sizeof *cpu, by_value);
    qsort(took, RUNS, sizeof *took, by_value);
    double us = took[RUNS / 2], own = cpu[RUNS / 2], flops = 4.0 * (double)(heads * d) * row_keys;
    double bytes = 2.0 * 2 * (double)(kv * d) * (n_new > 1 ? (double)(n_seq * keys) : row_keys);
    printf("%-34s %-8s %d threads; wall us %8.1f, least %8.1f, %6.1f GFLOP/s %5.1f GB/s; CPU us %8.1f, %6.1f GFLOP/s "
           "%5.1f GB/s\n",
           name, row->name, n_threads, us, took[0], flops / us * 1e-3, bytes / us * 1e-3, own, flops / own * 1e-3,
           bytes / own * 1e-3);
    fflush(stdout);
    for (int l = 0; l < layers; l++) {
        size_t bytes_kv = (size_t)(n_seq * pages * PAGE * kv * d) * 2 + 64;
        wr_pages_free(in[l][1].data, bytes_kv), wr_pages_free(in[l][2].data, bytes_kv);
    }
    wr_pages_free(b.step.scratch, scratch);
    wr_pages_free(turns, turns_bytes);
}

int main(int argc, char **argv) {
    wr_pool *pool;
    weir_error err;
    if (wr_pool_open(argc > 1 ? atoi(argv[1]) : 0, &pool, &err) != WEIR_OK)
        return fprintf(stderr, "%s\n", err.message), 1;
    for (int i = 0; argc > 2 && i < 3; i++)
        if (!strcmp(argv[2], wr_cpu_isa_name((wr_cpu_isa)i))) wr_cpu_level_force((wr_cpu_isa)i);
    measure(pool, "SmolLM2 prefill 512", 9, 3, 64, 512, 1, 512, 0, 2);
    measure(pool, "SmolLM2 prefill 1500", 9, 3, 64, 1500, 1, 1500, 0, 1);
    measure(pool, "SmolLM2 chunk of 64 at 1024", 9, 3, 64, 1024, 1, 64, 0, 4);
    measure(pool, "Qwen2.5-0.5B prefill 512", 14, 2, 64, 512, 1, 512, 0, 1);
    measure(pool, "Gemma 3 270M prefill 512, global", 4, 1, 256, 512, 1, 512, 0, 1);
    measure(pool, "SmolLM2 decode at 128", 9, 3, 64, 128, 1, 1, 0, 30);
    measure(pool, "SmolLM2 decode at 1024", 9, 3, 64, 1024, 1, 1, 0, 30);
    measure(pool, "SmolLM2 decode at 1024, one layer", 9, 3, 64, 1024, 1, 1, 0, 1);
    measure(pool, "SmolLM2 decode at 8192", 9, 3, 64, 8192, 1, 1, 0, 8);
    measure(pool, "SmolLM2 8 sequences at 512", 9, 3, 64, 512, 8, 1, 0, 30);
    measure(pool, "Qwen2.5-0.5B decode at 1024", 14, 2, 64, 1024, 1, 1, 0, 24);
    measure(pool, "Gemma 3 270M decode at 1024", 4, 1, 256, 1024, 1, 1, 0, 18);
    measure(pool, "Gemma 3 270M decode, window 512", 4, 1, 256, 1024, 1, 1, 512, 18);
    measure(pool, "Llama 8B prefill 512", 32, 8, 128, 512, 1, 512, 0, 1);
    wr_pool_close(pool);
    return 0;
}
