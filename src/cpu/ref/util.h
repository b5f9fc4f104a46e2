/* Helpers of the reference kernels: single elements by dtype, shares of threads, offsets of strided tensors. */
#ifndef WR_CPU_REF_UTIL_H
#define WR_CPU_REF_UTIL_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "array/backend.h"
#include "base/dtype.h"

typedef enum wr_kind { WR_KIND_UNSIGNED, WR_KIND_SIGNED, WR_KIND_FLOAT } wr_kind; /* bool counts as unsigned */

static inline wr_kind wr_dtype_kind(weir_dtype dtype) {
    if (dtype >= WEIR_DTYPE_F16) return WR_KIND_FLOAT;
    return dtype >= WEIR_DTYPE_I8 ? WR_KIND_SIGNED : WR_KIND_UNSIGNED;
}

/* The part [*begin, *end) of 0..total that belongs to a thread. */
static inline void wr_share(int64_t total, int thread, int n_threads, int64_t *begin, int64_t *end) {
    int64_t each = total / n_threads, rest = total % n_threads;
    *begin = thread * each + (thread < rest ? thread : rest);
    *end = *begin + each + (thread < rest);
}

static inline int64_t wr_shape_count(int n_dims, const int64_t *shape) {
    int64_t size = 1;
    for (int d = 0; d < n_dims; d++) size *= shape[d];
    return size;
}
static inline int64_t wr_tensor_size(const wr_tensor *t) { return wr_shape_count(t->n_dims, t->shape); }

/* Offset, in elements, of the index-th element in row-major order. */
static inline int64_t wr_offset_of(int64_t index, int n_dims, const int64_t *shape, const int64_t *strides) {
    int64_t offset = 0;
    for (int d = n_dims - 1; d >= 0; d--) {
        offset += index % shape[d] * strides[d];
        index /= shape[d];
    }
    return offset;
}

/* Element i of a float array of any float dtype. */
static inline float wr_load_f32(const void *data, weir_dtype dtype, int64_t i) {
    switch (dtype) {
    case WEIR_DTYPE_F32: return ((const float *)data)[i];
    case WEIR_DTYPE_F16: return wr_f16_to_f32(((const uint16_t *)data)[i]);
    case WEIR_DTYPE_BF16: return wr_bf16_to_f32(((const uint16_t *)data)[i]);
    default: return NAN;
    }
}
static inline void wr_store_f32(void *data, weir_dtype dtype, int64_t i, float value) {
    switch (dtype) {
    case WEIR_DTYPE_F32: ((float *)data)[i] = value; break;
    case WEIR_DTYPE_F16: ((uint16_t *)data)[i] = wr_f32_to_f16(value); break;
    case WEIR_DTYPE_BF16: ((uint16_t *)data)[i] = wr_f32_to_bf16(value); break;
    default: break;
    }
}

/* Element i of an integer or bool array, in 64 bits. */
static inline int64_t wr_load_i64(const void *data, weir_dtype dtype, int64_t i) {
    switch (dtype) {
    case WEIR_DTYPE_BOOL: return ((const uint8_t *)data)[i] != 0;
    case WEIR_DTYPE_U8: return ((const uint8_t *)data)[i];
    case WEIR_DTYPE_U16: return ((const uint16_t *)data)[i];
    case WEIR_DTYPE_U32: return ((const uint32_t *)data)[i];
    case WEIR_DTYPE_U64: return (int64_t)((const uint64_t *)data)[i];
    case WEIR_DTYPE_I8: return ((const int8_t *)data)[i];
    case WEIR_DTYPE_I16: return ((const int16_t *)data)[i];
    case WEIR_DTYPE_I32: return ((const int32_t *)data)[i];
    case WEIR_DTYPE_I64: return ((const int64_t *)data)[i];
    default: return 0;
    }
}
/* Stores the low bits (wraps); bool: not equal 0. */
static inline void wr_store_i64(void *data, weir_dtype dtype, int64_t i, int64_t value) {
    switch (dtype) {
    case WEIR_DTYPE_BOOL: ((uint8_t *)data)[i] = value != 0; break;
    case WEIR_DTYPE_U8:
    case WEIR_DTYPE_I8: ((uint8_t *)data)[i] = (uint8_t)value; break;
    case WEIR_DTYPE_U16:
    case WEIR_DTYPE_I16: ((uint16_t *)data)[i] = (uint16_t)value; break;
    case WEIR_DTYPE_U32:
    case WEIR_DTYPE_I32: ((uint32_t *)data)[i] = (uint32_t)value; break;
    case WEIR_DTYPE_U64:
    case WEIR_DTYPE_I64: ((uint64_t *)data)[i] = (uint64_t)value; break;
    default: break;
    }
}

/* Any element as double (64-bit integers round), and back: floats round once to f32 and then to the dtype. */
static inline double wr_load_f64(const void *data, weir_dtype dtype, int64_t i) {
    if (wr_dtype_kind(dtype) == WR_KIND_FLOAT) return wr_load_f32(data, dtype, i);
    if (dtype == WEIR_DTYPE_U64) return (double)((const uint64_t *)data)[i];
    return (double)wr_load_i64(data, dtype, i);
}

/* Limits of an integer dtype. */
static inline int64_t wr_dtype_min(weir_dtype dtype) {
    if (wr_dtype_kind(dtype) != WR_KIND_SIGNED) return 0;
    return (int64_t)(~UINT64_C(0) << (8 * weir_dtype_bytes(dtype) - 1));
}
static inline uint64_t wr_dtype_max(weir_dtype dtype) {
    if (dtype == WEIR_DTYPE_BOOL) return 1;
    unsigned bits = (unsigned)(8 * weir_dtype_bytes(dtype)) - (wr_dtype_kind(dtype) == WR_KIND_SIGNED);
    return ~UINT64_C(0) >> (64 - bits);
}

/* The cast rule of weir/ops.h for a real number: truncate, saturate, NaN is 0; bool: not equal 0. */
static inline int64_t wr_f64_to_int(double value, weir_dtype dtype) {
    if (dtype == WEIR_DTYPE_BOOL) return value != 0 || isnan(value);
    if (isnan(value)) return 0;
    double low = (double)wr_dtype_min(dtype), high = (double)wr_dtype_max(dtype); /* may round up to 2^63 or 2^64 */
    if (value <= low) return wr_dtype_min(dtype);
    if (value >= high) return (int64_t)wr_dtype_max(dtype);
    return dtype == WEIR_DTYPE_U64 ? (int64_t)(uint64_t)value : (int64_t)value;
}
static inline void wr_store_f64(void *data, weir_dtype dtype, int64_t i, double value) {
    if (wr_dtype_kind(dtype) == WR_KIND_FLOAT)
        wr_store_f32(data, dtype, i, (float)value);
    else
        wr_store_i64(data, dtype, i, wr_f64_to_int(value, dtype));
}

/* SILU and GELU_TANH, unrounded. */
static inline double wr_ref_silu(double x) { return x / (1 + exp(-x)); }
static inline double wr_ref_gelu_tanh(double x) {
    return 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}

/* Pointer to element i of a tensor's data. */
static inline void *wr_at(const wr_tensor *t, int64_t offset) {
    return (char *)t->data + offset * (int64_t)weir_dtype_bytes(t->dtype);
}

/* Copy (with the cast rule when the dtypes differ) a strided view into another of the same shape; each thread its
 * share. Strides in elements (cpu/ref/move.c). */
void wr_ref_copy(void *dst, weir_dtype dst_dtype, const int64_t *dst_strides, const void *src, weir_dtype src_dtype,
                 const int64_t *src_strides, int n_dims, const int64_t *shape, int thread, int n_threads);
/* The cast rule of weir/ops.h over n elements along one axis (cpu/ref/elementwise.c). */
void wr_ref_cast_run(void *dst, weir_dtype dst_dtype, int64_t dst_stride, const void *src, weir_dtype src_dtype,
                     int64_t src_stride, int64_t n);

#endif
