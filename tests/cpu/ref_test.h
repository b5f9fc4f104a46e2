/* What the tests of reference kernels share: tensors over plain C arrays, and one run of an op by hand-made step. */
#ifndef WR_TESTS_CPU_REF_TEST_H
#define WR_TESTS_CPU_REF_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "cpu/ref/ref.h"

enum { GUARD_BYTES = 64 };

/* A contiguous tensor over borrowed data. */
static inline wr_tensor tensor_of(weir_dtype dtype, const void *data, int n_dims, const int64_t *shape) {
    wr_tensor t = {.data = (void *)(uintptr_t)data, .dtype = dtype, .n_dims = n_dims};
    int64_t stride = 1;
    for (int d = n_dims - 1; d >= 0; d--) {
        t.shape[d] = shape[d];
        t.strides[d] = stride;
        stride *= shape[d];
    }
    return t;
}
#define T(dtype, data, ...)                                                                                            \
    tensor_of(WEIR_DTYPE_##dtype, data, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                     \
              (int64_t[]){__VA_ARGS__})
/* An array as a macro argument: A(float, 1, 2). */
#define A(type, ...)        ((const type[]){__VA_ARGS__})
#define ARGS(type, ...)     (&(const type){__VA_ARGS__})
#define SCALAR(dtype, data) tensor_of(WEIR_DTYPE_##dtype, data, 0, NULL)

static inline size_t bytes_of(const wr_tensor *t) {
    size_t n = weir_dtype_bytes(t->dtype);
    for (int d = 0; d < t->n_dims; d++) n *= (size_t)t->shape[d];
    return n;
}

static inline void run_threads(wr_step *step, int n_threads) {
    size_t bytes = wr_cpu_ref_scratch(step, n_threads);
    step->scratch = malloc(bytes + 1);
    for (int thread = 0; thread < n_threads; thread++) wr_cpu_ref(step->op)(step, thread, n_threads);
    free(step->scratch);
}

/* Runs op into the contiguous tensor `out` with one thread and with three, into guarded memory that held NaN, and wants
 * the same bits from both. */
static inline void run_op(wr_op_id op, const void *args, wr_tensor out, int n_in, wr_tensor *in) {
    size_t bytes = bytes_of(&out);
    assert_non_null(wr_cpu_ref(op));
    for (int n_threads = 1; n_threads <= 3; n_threads += 2) {
        unsigned char *memory = malloc(bytes + 2 * GUARD_BYTES);
        memset(memory, 0xa5, bytes + 2 * GUARD_BYTES);
        memset(memory + GUARD_BYTES, 0xff, bytes);
        wr_step step = {.op = op, .args = args, .out = out, .n_in = n_in, .in = in};
        step.out.data = memory + GUARD_BYTES;
        run_threads(&step, n_threads);
        for (int i = 0; i < GUARD_BYTES; i++) {
            assert_int_equal(memory[i], 0xa5);
            assert_int_equal(memory[GUARD_BYTES + bytes + (size_t)i], 0xa5);
        }
        if (n_threads == 1)
            memcpy(out.data, memory + GUARD_BYTES, bytes);
        else
            assert_memory_equal(out.data, memory + GUARD_BYTES, bytes);
        free(memory);
    }
}
#define RUN(op, args, out, ...)                                                                                        \
    run_op(WR_OP_##op, args, out, (int)(sizeof((wr_tensor[]){__VA_ARGS__}) / sizeof(wr_tensor)),                       \
           (wr_tensor[]){__VA_ARGS__})

/* NaN equals NaN; 0 and -0 differ. */
static inline void check_f32(const float *got, const float *want, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (isnan(want[i]) && isnan(got[i])) continue;
        if (wr_f32_bits(got[i]) != wr_f32_bits(want[i]))
            fail_msg("value %lld is %.9g, want %.9g", (long long)i, (double)got[i], (double)want[i]);
    }
}
#define CHECK_F32(got, ...)                                                                                            \
    check_f32(got, (const float[]){__VA_ARGS__}, (int64_t)(sizeof((float[]){__VA_ARGS__}) / sizeof(float)))
#define CHECK_INT(type, got, ...)                                                                                      \
    assert_memory_equal(got, ((const type[]){__VA_ARGS__}), sizeof((const type[]){__VA_ARGS__}))

static inline void check_near(double got, double want, double tolerance) {
    if (!(fabs(got - want) <= tolerance)) fail_msg("%.12g, want %.12g within %g", got, want, tolerance);
}

/* Uniform in -1 .. 1, the same on every machine. */
static inline float noise(uint64_t i) {
    i = (i + 1) * 0x9e3779b97f4a7c15u;
    i = (i ^ i >> 30) * 0xbf58476d1ce4e5b9u;
    i = (i ^ i >> 27) * 0x94d049bb133111ebu;
    i ^= i >> 31;
    return (float)(i >> 40) * 0x1p-23f - 1;
}
static inline void fill_noise(float *out, int64_t n, uint64_t seed) {
    for (int64_t i = 0; i < n; i++) out[i] = noise(seed * 1000003u + (uint64_t)i);
}

#endif
