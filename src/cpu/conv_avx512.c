/* The AVX-512 level of cpu/conv.c. */
#if defined(__x86_64__)
#define WR_VEC 2
#include "cpu/vec_simd.h"

#include "cpu/conv_body.h"

WR_VEC_END
#endif
