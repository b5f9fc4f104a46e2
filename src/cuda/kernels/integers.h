/* Short names of integers, in kernels and in their emulation. */
#ifndef WR_CUDA_KERNELS_INTEGERS_H
#define WR_CUDA_KERNELS_INTEGERS_H

typedef unsigned char u8;
typedef unsigned short u16; /* also the bits of a bf16 or f16 */
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char i8;
typedef short i16;
typedef int i32;
typedef long long i64;

#endif
