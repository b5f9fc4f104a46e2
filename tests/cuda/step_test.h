/* What the tests of element-wise and moving kernels share: tensors of any strides between canaries, one run of one row
 * on the emulated card, and comparison with the CPU reference. */
#ifndef WR_TESTS_CUDA_STEP_TEST_H
#define WR_TESTS_CUDA_STEP_TEST_H

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
#include "cpu/ref/kernels.h"
#include "cuda/emulate/direct.h"

enum { GUARD = 256, CANARY = 0xa5, POISON = 0xff };

#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))

/* A tensor and the memory round it. Between and round the elements of an input stands POISON: NaN for floats. */
typedef struct cloth {
    wr_tensor t;
    unsigned char *base;
    size_t bytes; /* of base */
} cloth;

static inline int64_t size_of(const wr_tensor *t) {
    int64_t n = 1;
    for (int d = 0; d < t->n_dims; d++) n *= t->shape[d];
    return n;
}
static inline int64_t offset_of(const wr_tensor *t, int64_t index) {
    int64_t offset = 0;
    for (int d = t->n_dims - 1; d >= 0; d--) {
        offset += index % t->shape[d] * t->strides[d];
        index /= t->shape[d];
    }
    return offset;
}

/* strides NULL: contiguous. skew: elements by which the data miss the alignment of 256 bytes. */
static inline cloth new_cloth(weir_dtype dtype, int n_dims, const int64_t *shape, const int64_t *strides, int skew,
                              int fill) {
    cloth c = {.t = {.dtype = dtype, .n_dims = n_dims}};
    int64_t low = 0, high = 0, n = 1;
    for (int d = n_dims - 1; d >= 0; d--) {
        c.t.shape[d] = shape[d];
        c.t.strides[d] = strides ? strides[d] : n;
        n *= shape[d];
        int64_t reach = shape[d] ? (shape[d] - 1) * c.t.strides[d] : 0;
        if (reach < 0)
            low += reach;
        else
            high += reach;
    }
    size_t element = weir_dtype_bytes(dtype), span = (size_t)(high - low + 1 + skew) * element;
    c.bytes = ((span + 255) / 256 + 2) * 256;
    c.base = aligned_alloc(256, c.bytes);
    memset(c.base, fill, c.bytes);
    c.t.data = c.base + GUARD + (size_t)(skew - low) * element;
    return c;
}
static inline cloth new_input(weir_dtype dtype, int n_dims, const int64_t *shape, const int64_t *strides, int skew) {
    return new_cloth(dtype, n_dims, shape, strides, skew, POISON);
}
static inline cloth new_output(weir_dtype dtype, int n_dims, const int64_t *shape, int skew) {
    return new_cloth(dtype, n_dims, shape, NULL, skew, CANARY);
}
static inline void free_cloth(cloth *c) {
    free(c->base);
    c->base = NULL;
}
/* Nothing but the (contiguous) output's own elements was written. */
static inline void check_canaries(const cloth *c) {
    const unsigned char *first = c->t.data, *end = first + (size_t)size_of(&c->t) * weir_dtype_bytes(c->t.dtype);
    for (const unsigned char *p = c->base; p < c->base + c->bytes; p++)
        if ((p < first || p >= end) && *p != CANARY)
            fail_msg("a byte %td from the output's first was written", p - first);
}

/* Uniform bits, from a counter. */
static inline uint64_t mix(uint64_t i) {
    i = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    i = (i ^ i >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    i = (i ^ i >> 27) * UINT64_C(0x94d049bb133111eb);
    return i ^ i >> 31;
}

static inline void put_float(const wr_tensor *t, int64_t at, float x) {
    if (t->dtype == WEIR_DTYPE_F32)
        ((float *)t->data)[at] = x;
    else
        ((uint16_t *)t->data)[at] = t->dtype == WEIR_DTYPE_F16 ? wr_f32_to_f16(x) : wr_f32_to_bf16(x);
}
static inline float get_float(const wr_tensor *t, int64_t at) {
    if (t->dtype == WEIR_DTYPE_F32) return ((const float *)t->data)[at];
    uint16_t bits = ((const uint16_t *)t->data)[at];
    return t->dtype == WEIR_DTYPE_F16 ? wr_f16_to_f32(bits) : wr_bf16_to_f32(bits);
}
static inline void put_int(const wr_tensor *t, int64_t at, uint64_t x) {
    size_t bytes = weir_dtype_bytes(t->dtype);
    if (t->dtype == WEIR_DTYPE_BOOL) x = x & 1;
    memcpy((char *)t->data + at * (int64_t)bytes, &x, bytes); /* little-endian */
}

/* Values of all magnitudes, edges and specials. */
static inline void fill(const wr_tensor *t, uint64_t seed) {
    static const float floats[] = {0.0f,
                                   -0.0f,
                                   INFINITY,
                                   -INFINITY,
                                   NAN,
                                   1,
                                   -1,
                                   0.5f,
                                   -0.5f,
                                   1.5f,
                                   2.5f,
                                   -2.5f,
                                   127,
                                   128,
                                   -128,
                                   -129,
                                   255,
                                   256,
                                   65504,
                                   65520,
                                   -65520,
                                   65535,
                                   65536,
                                   32767.5f,
                                   32768,
                                   -32769,
                                   6e-8f,
                                   -6e-8f,
                                   2.9e-8f,
                                   1e-42f,
                                   -1e-42f,
                                   1e-38f,
                                   3e38f,
                                   -3e38f,
                                   2147483648.0f,
                                   -2147483648.0f,
                                   4294967296.0f,
                                   9.2233720e18f,
                                   -9.2233720e18f,
                                   1.8446744e19f,
                                   88.7f,
                                   -87.4f,
                                   20,
                                   -20,
                                   8388607.5f,
                                   3,
                                   -7};
    static const uint64_t ints[] = {0,
                                    1,
                                    2,
                                    3,
                                    7,
                                    8,
                                    15,
                                    16,
                                    31,
                                    32,
                                    33,
                                    63,
                                    64,
                                    100,
                                    127,
                                    128,
                                    255,
                                    256,
                                    32767,
                                    32768,
                                    65535,
                                    65536,
                                    0x7fffffff,
                                    0x80000000,
                                    0xffffffff,
                                    0x100000000,
                                    INT64_MAX,
                                    (uint64_t)INT64_MIN,
                                    UINT64_MAX,
                                    UINT64_MAX - 1,
                                    UINT64_MAX - 6,
                                    (uint64_t)-128,
                                    (uint64_t)-129,
                                    (uint64_t)-32769,
                                    (uint64_t)-2147483649ll};
    int64_t n = size_of(t);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = offset_of(t, i);
        uint64_t bits = mix(seed * 1000003 + (uint64_t)i);
        bool special = bits % 4 == 0;
        bits >>= 2;
        if (t->dtype >= WEIR_DTYPE_F16) {
            float wide = ((float)(bits >> 38) * 0x1p-23f - 1) * powf(10, (float)(bits % 600) / 100 - 4);
            put_float(t, at, special ? floats[bits % (uint64_t)COUNT(floats)] : wide);
        } else {
            put_int(t, at, special ? ints[bits % (uint64_t)COUNT(ints)] : bits >> bits % 60);
        }
    }
}
/* Ordinary activations. */
static inline void fill_tame(const wr_tensor *t, uint64_t seed, float scale) {
    for (int64_t i = 0; i < size_of(t); i++)
        put_float(t, offset_of(t, i), scale * ((float)(mix(seed * 1000003 + (uint64_t)i) >> 40) * 0x1p-23f - 1));
}

static inline const wr_kernel_row *row_named(const wr_kernel_row *rows, const char *name) {
    while (rows->name && strcmp(rows->name, name)) rows++;
    return rows->name ? rows : NULL;
}
/* Runs the row called `name` into out; false when the table has none that takes this step. */
static inline bool run_row(const wr_kernel_row *rows, const char *name, wr_step *step, const cloth *out) {
    const wr_kernel_row *row = row_named(rows, name);
    step->out = out->t;
    step->device = wr_emulate_traits();
    if (!row || (row->fits && !row->fits(step))) return false;
    weir_error err = {0};
    if (row->launch(step, NULL, &err) != WEIR_OK) fail_msg("%s: %s", wr_ops[step->op].name, err.message);
    check_canaries(out);
    return true;
}

static inline int64_t ordered_bits(float x) {
    int32_t b;
    memcpy(&b, &x, 4);
    return b < 0 ? -(int64_t)(b & 0x7fffffff) : b;
}
/* Units in the last place of the tensor's dtype between two of its elements; NaN is as far from itself as 0. */
static inline int64_t distance(const wr_tensor *a, const wr_tensor *b, int64_t i) {
    size_t bytes = weir_dtype_bytes(a->dtype);
    const char *x = (const char *)a->data + i * (int64_t)bytes, *y = (const char *)b->data + i * (int64_t)bytes;
    if (!memcmp(x, y, bytes)) return 0;
    if (a->dtype < WEIR_DTYPE_F16) return INT64_MAX;
    float u = get_float(a, i), v = get_float(b, i);
    if (isnan(u) || isnan(v)) return isnan(u) && isnan(v) ? 0 : INT64_MAX;
    if (a->dtype == WEIR_DTYPE_F16) {
        int s = *(const int16_t *)(const void *)x, t = *(const int16_t *)(const void *)y;
        s = s < 0 ? -(s & 0x7fff) : s, t = t < 0 ? -(t & 0x7fff) : t;
        return s == t ? 1 : abs(s - t);
    }
    int64_t d = (ordered_bits(u) - ordered_bits(v)) / (a->dtype == WEIR_DTYPE_BF16 ? 65536 : 1);
    return d == 0 ? 1 : d < 0 ? -d : d; /* zeros of two signs differ */
}
/* Both contiguous. ulps: how far apart elements may be; those closer than `least` may differ anyway. */
static inline void check_close(const cloth *got, const cloth *want, int64_t ulps, double least, const char *what) {
    for (int64_t i = 0; i < size_of(&want->t); i++) {
        if (distance(&got->t, &want->t, i) <= ulps) continue;
        if (got->t.dtype >= WEIR_DTYPE_F16) {
            double a = get_float(&got->t, i), b = get_float(&want->t, i);
            if (fabs(a - b) < least) continue;
            fail_msg("%s: element %lld of %s is %.9g (%a), not %.9g (%a)", what, (long long)i,
                     weir_dtype_name(got->t.dtype), a, a, b, b);
        }
        uint64_t a = 0, b = 0;
        size_t bytes = weir_dtype_bytes(got->t.dtype);
        memcpy(&a, (const char *)got->t.data + (size_t)i * bytes, bytes);
        memcpy(&b, (const char *)want->t.data + (size_t)i * bytes, bytes);
        fail_msg("%s: element %lld of %s is %#llx, not %#llx", what, (long long)i, weir_dtype_name(got->t.dtype),
                 (unsigned long long)a, (unsigned long long)b);
    }
}
static inline void check_equal(const cloth *got, const cloth *want, const char *what) {
    check_close(got, want, 0, 0, what);
}

#endif
