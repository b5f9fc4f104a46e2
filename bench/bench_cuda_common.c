/* Timing, random numbers and faults of bench_cuda's parts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/dtype.h"
#include "bench_cuda.h"

bool bench_quick;

static double now(void) { return (double)wr_now_ns() * 1e-9; }

void bench_check(weir_status status, const weir_error *err) {
    if (status == WEIR_OK) return;
    fprintf(stderr, "bench_cuda: %s\n", err->message);
    exit(1);
}

static uint64_t seed = 1;
uint32_t bench_random(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 32);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void bench_replay(wr_program *program, int n_warm, int n, double rest_s, wr_program *before, double *us) {
    weir_error err;
    struct timespec rest = {.tv_nsec = (long)(rest_s * 1e9)};
    for (int i = -n_warm; i < n; i++) {
        if (rest_s > 0) nanosleep(&rest, NULL);
        if (before) bench_check(wr_program_run(before, &err), &err);
        double start = now();
        bench_check(wr_program_run(program, &err), &err);
        if (i >= 0) us[i] = (now() - start) * 1e6;
    }
    qsort(us, (size_t)n, sizeof *us, by_value);
}

const char *bench_variant(const wr_program *program, wr_op_id op) {
    const char *variant = NULL, *last = "?";
    for (int i = 0; i < wr_program_n_steps(program); i++) {
        const wr_step *step = wr_program_step(program, i);
        last = step->variant;
        if (step->op == op) variant = step->variant;
    }
    return variant ? variant : last;
}

bench_timing bench_outputs(weir_array **outputs, int n_calls, wr_op_id op, bool also_rested) {
    weir_error err;
    wr_program *program;
    bench_check(wr_program_new(outputs, n_calls, NULL, &program, &err), &err);
    double us[BENCH_MAX_REPLAYS];
    int n = bench_quick ? 3 : BENCH_MAX_REPLAYS;
    bench_replay(program, 2, n, 0, NULL, us);
    bench_timing t = {.us = us[n / 2] / n_calls,
                      .min_us = us[0] / n_calls,
                      .max_us = us[n - 1] / n_calls,
                      .n = n,
                      .calls = n_calls,
                      .variant = bench_variant(program, op)};
    if (also_rested) {
        bench_replay(program, 2, n, 0.05, NULL, us);
        t.rested_us = us[n / 2] / n_calls;
    }
    wr_program_free(program);
    return t;
}

wr_buffer *bench_floats(weir_device *device, weir_dtype dtype, int64_t n, float scale) {
    weir_error err;
    wr_buffer *b;
    size_t size = weir_dtype_bytes(dtype);
    char *p = malloc((size_t)n * size);
    for (int64_t i = 0; i < n; i++) {
        float f = ((float)(bench_random() >> 8) * 0x1p-23f - 1) * scale;
        uint32_t bits = dtype == WEIR_DTYPE_F32 ? wr_f32_bits(f) : wr_f32_to_bf16(f);
        memcpy(p + (size_t)i * size, &bits, size);
    }
    bench_check(wr_buffer_new_on(device, (size_t)n * size, &b, &err), &err);
    bench_check(wr_buffer_write(b, p, (size_t)n * size, &err), &err);
    free(p);
    return b;
}
