/* weir: element types and quantised weight formats. */
#ifndef WEIR_DTYPE_H
#define WEIR_DTYPE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* dtype, name, bytes an element. Order is also the order of promotion inside a
 * kind (see weir_dtype_promote in weir/array.h). */
#define WEIR_DTYPE_LIST(X)                                                                                             \
    X(WEIR_DTYPE_BOOL, "bool", 1)                                                                                      \
    X(WEIR_DTYPE_U8, "u8", 1)                                                                                          \
    X(WEIR_DTYPE_U16, "u16", 2)                                                                                        \
    X(WEIR_DTYPE_U32, "u32", 4)                                                                                        \
    X(WEIR_DTYPE_U64, "u64", 8)                                                                                        \
    X(WEIR_DTYPE_I8, "i8", 1)                                                                                          \
    X(WEIR_DTYPE_I16, "i16", 2)                                                                                        \
    X(WEIR_DTYPE_I32, "i32", 4)                                                                                        \
    X(WEIR_DTYPE_I64, "i64", 8)                                                                                        \
    X(WEIR_DTYPE_F16, "f16", 2)                                                                                        \
    X(WEIR_DTYPE_BF16, "bf16", 2)                                                                                      \
    X(WEIR_DTYPE_F32, "f32", 4)

typedef enum weir_dtype {
#define WEIR_DTYPE_ENUM(code, name, bytes) code,
    WEIR_DTYPE_LIST(WEIR_DTYPE_ENUM)
#undef WEIR_DTYPE_ENUM
        WEIR_DTYPE_COUNT
} weir_dtype;

/* How the numbers of a weight matrix are stored. The AFFINE..MXFP8 modes are
 * MLX's layouts (weight u32-packed, scales, biases as separate tensors); the
 * GGUF modes are ggml's blocks, one byte string a row. */
#define WEIR_QUANT_LIST(X)                                                                                             \
    /* mode, name, values a block, bytes a block (GGUF only), bits */                                                  \
    X(WEIR_QUANT_NONE, "none", 1, 0)                                                                                   \
    X(WEIR_QUANT_AFFINE, "affine", 0, 0)                                                                               \
    X(WEIR_QUANT_MXFP4, "mxfp4", 0, 0)                                                                                 \
    X(WEIR_QUANT_NVFP4, "nvfp4", 0, 0)                                                                                 \
    X(WEIR_QUANT_MXFP8, "mxfp8", 0, 0)                                                                                 \
    X(WEIR_QUANT_Q4_0, "q4_0", 32, 18)                                                                                 \
    X(WEIR_QUANT_Q4_1, "q4_1", 32, 20)                                                                                 \
    X(WEIR_QUANT_Q5_0, "q5_0", 32, 22)                                                                                 \
    X(WEIR_QUANT_Q5_1, "q5_1", 32, 24)                                                                                 \
    X(WEIR_QUANT_Q8_0, "q8_0", 32, 34)                                                                                 \
    X(WEIR_QUANT_Q2_K, "q2_k", 256, 84)                                                                                \
    X(WEIR_QUANT_Q3_K, "q3_k", 256, 110)                                                                               \
    X(WEIR_QUANT_Q4_K, "q4_k", 256, 144)                                                                               \
    X(WEIR_QUANT_Q5_K, "q5_k", 256, 176)                                                                               \
    X(WEIR_QUANT_Q6_K, "q6_k", 256, 210)

typedef enum weir_quant_mode {
#define WEIR_QUANT_ENUM(code, name, values, bytes) code,
    WEIR_QUANT_LIST(WEIR_QUANT_ENUM)
#undef WEIR_QUANT_ENUM
        WEIR_QUANT_COUNT
} weir_quant_mode;

/* One weight's format. group_size and bits are used by AFFINE (group 32, 64 or
 * 128; bits 2, 3, 4, 5, 6, 8) and hold the fixed values for the others
 * (MXFP4 32/4, NVFP4 16/4, MXFP8 32/8; GGUF: block's sub-block and bits). */
typedef struct weir_quant {
    weir_quant_mode mode;
    int32_t group_size;
    int32_t bits;
} weir_quant;

const char *weir_dtype_name(weir_dtype dtype);     /* "?" when out of range */
size_t weir_dtype_bytes(weir_dtype dtype);         /* bytes an element; 0 when out of range */
const char *weir_quant_name(weir_quant_mode mode); /* "?" when out of range */

#ifdef __cplusplus
}
#endif
#endif
