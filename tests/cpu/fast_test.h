/* What the tests of fast kernels share: tensors with canaries, one run of one row at one level, comparison. */
#ifndef WR_TESTS_CPU_FAST_TEST_H
#define WR_TESTS_CPU_FAST_TEST_H

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
#include "base/mem.h"
#include "base/pool.h"
#include "cpu/fast.h"
#include "cpu/isa.h"

enum { GUARD = 128, CANARY = 0xa5 };

static const wr_cpu_isa levels[] = {WR_CPU_PORTABLE, WR_CPU_AVX2, WR_CPU_AVX512};

/* Contiguous tensor of fresh memory, with canaries on both sides; the data are NaN (all bits one) until filled. */
static inline wr_tensor new_tensor(weir_dtype dtype, int n_dims, const int64_t *shape) {
    wr_tensor t = {.dtype = dtype, .n_dims = n_dims};
    int64_t n = 1;
    for (int i = n_dims - 1; i >= 0; i--) t.shape[i] = shape[i], t.strides[i] = n, n *= shape[i];
    size_t bytes = (size_t)n * weir_dtype_bytes(dtype);
    unsigned char *p = malloc(bytes + 2 * GUARD);
    memset(p, CANARY, bytes + 2 * GUARD);
    memset(p + GUARD, 0xff, bytes);
    t.data = p + GUARD;
    return t;
}
#define TENSOR(dtype, ...)                                                                                             \
    new_tensor(dtype, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})

static inline int64_t tensor_size(const wr_tensor *t) {
    int64_t n = 1;
    for (int i = 0; i < t->n_dims; i++) n *= t->shape[i];
    return n;
}
static inline size_t tensor_bytes(const wr_tensor *t) { return (size_t)tensor_size(t) * weir_dtype_bytes(t->dtype); }
static inline void check_guards(const wr_tensor *t) {
    const unsigned char *p = t->data;
    for (int i = 0; i < GUARD; i++) {
        assert_int_equal(p[-1 - i], CANARY);
        assert_int_equal(p[tensor_bytes(t) + (size_t)i], CANARY);
    }
}
static inline void free_tensor(wr_tensor *t) {
    check_guards(t);
    free((unsigned char *)t->data - GUARD);
    t->data = NULL;
}

/* Uniform in -1 .. 1, from a counter: the same on every machine. */
static inline float noise(uint64_t i) {
    i = (i + 1) * 0x9e3779b97f4a7c15u;
    i = (i ^ i >> 30) * 0xbf58476d1ce4e5b9u;
    i = (i ^ i >> 27) * 0x94d049bb133111ebu;
    i ^= i >> 31;
    return (float)(i >> 40) * 0x1p-23f - 1;
}
static inline double get(const wr_tensor *t, int64_t i) {
    switch (t->dtype) {
    case WEIR_DTYPE_F32: return ((const float *)t->data)[i];
    case WEIR_DTYPE_F16: return wr_f16_to_f32(((const uint16_t *)t->data)[i]);
    case WEIR_DTYPE_BF16: return wr_bf16_to_f32(((const uint16_t *)t->data)[i]);
    case WEIR_DTYPE_I32: return ((const int32_t *)t->data)[i];
    case WEIR_DTYPE_I64: return (double)((const int64_t *)t->data)[i];
    default: return ((const uint8_t *)t->data)[i];
    }
}
static inline void put(const wr_tensor *t, int64_t i, float x) {
    switch (t->dtype) {
    case WEIR_DTYPE_F32: ((float *)t->data)[i] = x; break;
    case WEIR_DTYPE_F16: ((uint16_t *)t->data)[i] = wr_f32_to_f16(x); break;
    case WEIR_DTYPE_BF16: ((uint16_t *)t->data)[i] = wr_f32_to_bf16(x); break;
    case WEIR_DTYPE_I32: ((int32_t *)t->data)[i] = (int32_t)x; break;
    case WEIR_DTYPE_I64: ((int64_t *)t->data)[i] = (int64_t)x; break;
    default: ((uint8_t *)t->data)[i] = (uint8_t)(x != 0); break;
    }
}
static inline void fill(const wr_tensor *t, uint64_t seed, float scale) {
    for (int64_t i = 0; i < tensor_size(t); i++) put(t, i, scale * noise(seed * 1000003u + (uint64_t)i));
}

typedef struct job {
    const wr_step *step;
    wr_kernel run;
} job;
static inline void run_job(void *context, int thread, int n_threads) {
    const job *j = context;
    j->run(j->step, thread, n_threads);
}

/* Run the first fitting row of the table at this level with n_threads; the row must be the level's own. The output is
 * filled with NaN before unless keep. */
static inline void run_level(const wr_kernel_row *rows, wr_step *step, wr_cpu_isa level, int n_threads, bool keep) {
    assert_true(wr_cpu_level_force(level));
    const wr_kernel_row *row = rows;
    while (row->run && row->fits && !row->fits(step)) row++;
    assert_non_null(row->run);
    assert_string_equal(row->name, wr_cpu_isa_name(level));
    wr_pool *pool;
    assert_int_equal(wr_pool_open(n_threads, &pool, NULL), WEIR_OK);
    wr_tensor prepared = {0}, scratch = {0};
    if (row->prepare) {
        wr_step before = *step;
        prepared = TENSOR(WEIR_DTYPE_U8, (int64_t)(row->prepare_bytes(step) + 63) / 64 * 64);
        before.scratch = prepared.data;
        wr_pool_run(pool, run_job, &(job){&before, row->prepare});
        step->prepared = prepared.data;
    }
    if (row->scratch_bytes) {
        scratch = TENSOR(WEIR_DTYPE_U8, (int64_t)row->scratch_bytes(step, n_threads));
        step->scratch = scratch.data;
    }
    if (!keep) memset(step->out.data, 0xff, tensor_bytes(&step->out));
    for (int again = 0; again < (row->prepare ? 2 : 1); again++) /* prepared state serves the next layer too */
        wr_pool_run(pool, run_job, &(job){step, row->run});
    wr_pool_close(pool);
    if (row->prepare) free_tensor(&prepared);
    if (row->scratch_bytes) free_tensor(&scratch);
    check_guards(&step->out);
    step->prepared = step->scratch = NULL;
}

/* Levels that this machine has. */
#define FOR_EACH_LEVEL(level)                                                                                          \
    for (int level##_i = 0; level##_i < 3; level##_i++)                                                                \
        for (wr_cpu_isa level = levels[level##_i], level##_once = 1; level##_once && level <= wr_cpu_machine_level();  \
             level##_once = 0)

#endif
