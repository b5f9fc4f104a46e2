/* The AVX-512 level of cpu/rope.c. */
#if defined(__x86_64__)
#define WR_VEC 2
#include "cpu/vec_simd.h"

#include "cpu/rope_body.h"

WR_VEC_END
#endif
