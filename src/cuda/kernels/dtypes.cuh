/* Single elements of any dtype on the device, by the rules of the CPU reference (cpu/ref/util.h): floats are held as
 * f32, always exactly a value of their dtype; integers and bool in 64 bits, sign- or zero-extended; u64 by its bits.
 * dtype is a weir_dtype. Indices are in elements. Functions for floats must not be given an integer dtype, nor the
 * other way round; wr_load_real and wr_store_real take both. */
#ifndef WR_CUDA_DTYPES_CUH
#define WR_CUDA_DTYPES_CUH

#include "cuda/kernels/device.cuh"
#include "weir/dtype.h"

/* The order of the enum: bool, unsigned, signed, float. bool counts as unsigned. */
WR_DEVICE bool wr_is_float(int dtype) { return dtype >= WEIR_DTYPE_F16; }
WR_DEVICE bool wr_is_signed(int dtype) { return dtype >= WEIR_DTYPE_I8 && dtype < WEIR_DTYPE_F16; }
WR_DEVICE int wr_dtype_size(int dtype) {
    switch (dtype) {
    case WEIR_DTYPE_BOOL:
    case WEIR_DTYPE_U8:
    case WEIR_DTYPE_I8: return 1;
    case WEIR_DTYPE_U16:
    case WEIR_DTYPE_I16:
    case WEIR_DTYPE_F16:
    case WEIR_DTYPE_BF16: return 2;
    case WEIR_DTYPE_U64:
    case WEIR_DTYPE_I64: return 8;
    default: return 4;
    }
}

WR_DEVICE float wr_load_float(const void *p, int dtype, i64 i) {
    if (dtype == WEIR_DTYPE_F32) return ((const float *)p)[i];
    u16 bits = ((const u16 *)p)[i];
    return dtype == WEIR_DTYPE_BF16 ? wr_bf16_to_f32(bits) : wr_f16_to_f32(bits);
}
/* Rounds once, to nearest even. */
WR_DEVICE void wr_store_float(void *p, int dtype, i64 i, float x) {
    if (dtype == WEIR_DTYPE_F32)
        ((float *)p)[i] = x;
    else
        ((u16 *)p)[i] = dtype == WEIR_DTYPE_BF16 ? wr_f32_to_bf16(x) : wr_f32_to_f16(x);
}
/* x rounded to the values of a float dtype. */
WR_DEVICE float wr_round_float(float x, int dtype) {
    if (dtype == WEIR_DTYPE_F32) return x;
    return dtype == WEIR_DTYPE_BF16 ? wr_bf16_to_f32(wr_f32_to_bf16(x)) : wr_f16_to_f32(wr_f32_to_f16(x));
}

WR_DEVICE i64 wr_load_int(const void *p, int dtype, i64 i) {
    switch (dtype) {
    case WEIR_DTYPE_BOOL: return ((const u8 *)p)[i] != 0;
    case WEIR_DTYPE_U8: return ((const u8 *)p)[i];
    case WEIR_DTYPE_U16: return ((const u16 *)p)[i];
    case WEIR_DTYPE_U32: return ((const u32 *)p)[i];
    case WEIR_DTYPE_I8: return ((const i8 *)p)[i];
    case WEIR_DTYPE_I16: return ((const i16 *)p)[i];
    case WEIR_DTYPE_I32: return ((const i32 *)p)[i];
    default: return ((const i64 *)p)[i];
    }
}
/* Stores the low bits (wraps); bool: not equal 0. */
WR_DEVICE void wr_store_int(void *p, int dtype, i64 i, i64 x) {
    switch (wr_dtype_size(dtype)) {
    case 1: ((u8 *)p)[i] = dtype == WEIR_DTYPE_BOOL ? x != 0 : (u8)x; break;
    case 2: ((u16 *)p)[i] = (u16)x; break;
    case 4: ((u32 *)p)[i] = (u32)x; break;
    default: ((i64 *)p)[i] = x;
    }
}
/* x wrapped to an integer dtype's width, extended again to 64 bits; bool: not equal 0. */
WR_DEVICE i64 wr_wrap_int(i64 x, int dtype) {
    switch (dtype) {
    case WEIR_DTYPE_BOOL: return x != 0;
    case WEIR_DTYPE_U8: return (u8)x;
    case WEIR_DTYPE_U16: return (u16)x;
    case WEIR_DTYPE_U32: return (u32)x;
    case WEIR_DTYPE_I8: return (i8)x;
    case WEIR_DTYPE_I16: return (i16)x;
    case WEIR_DTYPE_I32: return (i32)x;
    default: return x;
    }
}

/* Limits of an integer dtype. */
WR_DEVICE i64 wr_int_min(int dtype) { return wr_is_signed(dtype) ? (i64)(~0ull << (8 * wr_dtype_size(dtype) - 1)) : 0; }
WR_DEVICE u64 wr_int_max(int dtype) {
    if (dtype == WEIR_DTYPE_BOOL) return 1;
    return ~0ull >> (64 - 8 * wr_dtype_size(dtype) + (wr_is_signed(dtype) ? 1 : 0));
}
/* The cast rule of weir/ops.h for a real number: truncate, saturate, NaN is 0; bool: not equal 0 (NaN is true). */
WR_DEVICE i64 wr_real_to_int(double x, int dtype) {
    if (dtype == WEIR_DTYPE_BOOL) return !(x == 0);
    if (x != x) return 0;
    if (x <= (double)wr_int_min(dtype)) return wr_int_min(dtype);
    if (x >= (double)wr_int_max(dtype)) return (i64)wr_int_max(dtype); /* the limit may round up to 2^63 or 2^64 */
    return dtype == WEIR_DTYPE_U64 ? (i64)(u64)x : (i64)x;
}
/* An integer, read as `from` says, in a dtype of the same or another width: saturates. */
WR_DEVICE i64 wr_int_to_int(i64 x, int from, int dtype) {
    if (dtype == WEIR_DTYPE_BOOL) return x != 0;
    if (wr_is_signed(from) && x < 0) return x < wr_int_min(dtype) ? wr_int_min(dtype) : x;
    return (u64)x > wr_int_max(dtype) ? (i64)wr_int_max(dtype) : x;
}
/* An integer as f32, rounded once. */
WR_DEVICE float wr_int_to_float(i64 x, int from) { return wr_is_signed(from) ? (float)x : (float)(u64)x; }

/* Any element as double (64-bit integers round), and back: floats round once to f32 and then to the dtype. */
WR_DEVICE double wr_load_real(const void *p, int dtype, i64 i) {
    if (wr_is_float(dtype)) return wr_load_float(p, dtype, i);
    i64 x = wr_load_int(p, dtype, i);
    return dtype == WEIR_DTYPE_U64 ? (double)(u64)x : (double)x;
}
WR_DEVICE void wr_store_real(void *p, int dtype, i64 i, double x) {
    if (wr_is_float(dtype))
        wr_store_float(p, dtype, i, (float)x);
    else
        wr_store_int(p, dtype, i, wr_real_to_int(x, dtype));
}

/* Offset of the index-th position, in row-major order, of `n` axes. narrow: all of them together have fewer than 2^32
 * positions, so that 32-bit division will do. */
WR_DEVICE i64 wr_walk(i64 index, int n, const int64_t *shape, const int64_t *strides, bool narrow) {
    i64 offset = 0;
    if (narrow) {
        u32 rest = (u32)index;
        for (int d = n - 1; d > 0; d--) {
            u32 size = (u32)shape[d], next = rest / size;
            offset += (i64)(rest - next * size) * strides[d];
            rest = next;
        }
        return n ? offset + (i64)rest * strides[0] : offset;
    }
    for (int d = n - 1; d >= 0; d--) {
        offset += index % shape[d] * strides[d];
        index /= shape[d];
    }
    return offset;
}

#endif
