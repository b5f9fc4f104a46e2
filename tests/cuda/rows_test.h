/* What the tests of the reduce, norm and matmul kernels share: tensors with canaries, one run of one row of a family on
 * the emulated card, the CPU's reference, comparison. */
#ifndef WR_TESTS_CUDA_ROWS_TEST_H
#define WR_TESTS_CUDA_ROWS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "cpu/ref/ref.h"
#include "cpu/ref/util.h"
#include "cuda/emulate/direct.h"

enum { GUARD = 128, CANARY = 0xa5 };

/* Contiguous tensor of fresh memory with canaries on both sides, `shift` elements off 64-byte alignment; the data are
 * NaN (all bits one) until filled. */
static inline wr_tensor new_tensor(weir_dtype dtype, int shift, int n_dims, const int64_t *shape) {
    wr_tensor t = {.dtype = dtype, .n_dims = n_dims};
    int64_t n = 1;
    for (int i = n_dims - 1; i >= 0; i--) t.shape[i] = shape[i], t.strides[i] = n, n *= shape[i];
    size_t bytes = (size_t)n * weir_dtype_bytes(dtype), before = GUARD + (size_t)shift * weir_dtype_bytes(dtype);
    unsigned char *p = aligned_alloc(64, (before + bytes + GUARD + 63) / 64 * 64);
    memset(p, CANARY, before + bytes + GUARD);
    memset(p + before, 0xff, bytes);
    t.data = p + before;
    return t;
}
#define SHIFTED(dtype, shift, ...)                                                                                     \
    new_tensor(dtype, shift, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]){__VA_ARGS__})
#define TENSOR(dtype, ...) SHIFTED(dtype, 0, __VA_ARGS__)

static inline size_t tensor_bytes(const wr_tensor *t) { return (size_t)wr_tensor_size(t) * weir_dtype_bytes(t->dtype); }
static inline void check_guards(const wr_tensor *t) {
    const unsigned char *p = t->data;
    for (size_t i = 0; i < GUARD; i++) {
        assert_int_equal(p[-1 - (long)i], CANARY);
        assert_int_equal(p[tensor_bytes(t) + i], CANARY);
    }
}
/* Only of what new_tensor returned. */
static inline void free_tensor(wr_tensor *t) {
    check_guards(t);
    free((void *)(((uintptr_t)t->data - GUARD) / 64 * 64));
    t->data = NULL;
}

/* Uniform in -1 .. 1, from a counter: the same on every machine. */
static inline uint64_t random_bits(uint64_t i) {
    i = (i + 1) * 0x9e3779b97f4a7c15u;
    i = (i ^ i >> 30) * 0xbf58476d1ce4e5b9u;
    i = (i ^ i >> 27) * 0x94d049bb133111ebu;
    return i ^ i >> 31;
}
static inline float noise(uint64_t i) { return (float)(random_bits(i) >> 40) * 0x1p-23f - 1; }
/* Floats in -scale .. scale; integers of any bits, or below `scale` when that is above 1. */
static inline void fill(const wr_tensor *t, uint64_t seed, float scale) {
    for (int64_t i = 0; i < wr_tensor_size(t); i++) {
        uint64_t at = seed * 1000003u + (uint64_t)i;
        if (wr_dtype_kind(t->dtype) == WR_KIND_FLOAT)
            wr_store_f32(t->data, t->dtype, i, scale * noise(at));
        else
            wr_store_i64(t->data, t->dtype, i,
                         (int64_t)(scale > 1 ? random_bits(at) % (uint64_t)scale : random_bits(at)));
    }
}

/* The CPU's reference of step into a fresh tensor. */
static inline wr_tensor reference(const wr_step *step) {
    wr_step s = *step;
    s.out = new_tensor(step->out.dtype, 0, step->out.n_dims, step->out.shape);
    size_t bytes = wr_cpu_ref_scratch(&s, 1);
    s.scratch = malloc(bytes + 1);
    wr_cpu_ref(s.op)(&s, 0, 1);
    free(s.scratch);
    check_guards(&s.out);
    return s.out;
}

/* Run one row; scratch and output hold NaN before. Threads run in the given order (cuda/emulate/direct.h). */
static inline void run_row(const wr_kernel_row *row, wr_step *step, int order) {
    wr_step s = *step;
    s.device = wr_emulate_traits();
    size_t bytes = row->scratch_bytes ? row->scratch_bytes(&s, 1) : 0;
    wr_tensor scratch = TENSOR(WEIR_DTYPE_U8, (int64_t)bytes);
    s.scratch = scratch.data;
    if (!(wr_ops[s.op].flags & WR_INPLACE)) memset(s.out.data, 0xff, tensor_bytes(&s.out));
    wr_emulate_order(order);
    weir_error err;
    if (row->launch(&s, NULL, &err) != WEIR_OK) fail_msg("%s: %s", row->name, err.message);
    free_tensor(&scratch);
    check_guards(&s.out);
}
static inline bool row_fits(const wr_kernel_row *row, const wr_step *step) {
    wr_step s = *step;
    s.device = wr_emulate_traits();
    s.out.data = NULL; /* fits() may not look at data */
    return !row->fits || row->fits(&s);
}
/* Each row of a table that fits a step. */
#define FOR_EACH_FITTING(row, rows, step)                                                                              \
    for (const wr_kernel_row *row = rows; row->name; row++)                                                            \
        if (row_fits(row, step))
static inline const wr_kernel_row *first_fitting(const wr_kernel_row *rows, const wr_step *step) {
    while (rows->name && !row_fits(rows, step)) rows++;
    assert_non_null(rows->name);
    return rows;
}

/* |got - want| <= part * |want| + slack; NaN matches NaN, infinity itself. */
static inline void compare(const wr_kernel_row *row, const wr_step *step, const wr_tensor *want, double part,
                           double slack) {
    for (int64_t i = 0; i < wr_tensor_size(want); i++) {
        double a = wr_load_f64(step->out.data, step->out.dtype, i), b = wr_load_f64(want->data, want->dtype, i);
        bool same = isnan(b) ? isnan(a) : isinf(b) ? a == b : fabs(a - b) <= part * fabs(b) + slack;
        if (!same)
            fail_msg("%s %s, %s, element %lld of %lld: %.9g, should be %.9g", wr_ops[step->op].name, row->name,
                     weir_dtype_name(step->out.dtype), (long long)i, (long long)wr_tensor_size(want), a, b);
    }
}
static inline void compare_bits(const wr_kernel_row *row, const wr_step *step, const wr_tensor *want) {
    size_t each = weir_dtype_bytes(want->dtype), bytes = tensor_bytes(want);
    for (size_t i = 0; i < bytes; i++)
        if (((uint8_t *)step->out.data)[i] != ((uint8_t *)want->data)[i])
            fail_msg("%s %s, %s: element %zu of %zu has other bits", wr_ops[step->op].name, row->name,
                     weir_dtype_name(want->dtype), i / each, bytes / each);
}

/* Half a unit in the last place, relative. */
static inline double unit_of(weir_dtype dtype) {
    return dtype == WEIR_DTYPE_F16 ? 0x1.01p-11 : dtype == WEIR_DTYPE_BF16 ? 0x1.01p-8 : 0x1p-24;
}

#endif
