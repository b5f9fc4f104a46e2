/* A card without a card: bodies for the host of every name that kernel files may use, so that the files of
 * src/cuda/kernels compile as C++17 (WR_EMULATE) and run here, each CUDA thread as a fiber (emulate.cpp). Not fast and
 * not silent: where the hardware's behaviour is undefined, the emulation stops with the kernel, the block, the thread
 * and the line.
 *
 * What is stricter than a card, so that faults show:
 * - shared memory holds NaN (bytes 0xFF) when a block begins; so does the target of a copy until it has landed;
 * - cp.async lands at the matching wait, a bulk copy when nothing else can run; wgmma reads its operands when issued
 *   and checks at the wait that they have not changed; accumulators in flight hold NaN and may not be written;
 * - a kernel of a graph begins before the one whose end it waits for (every second pair), and every kernel must call
 *   wr_grid_wait;
 * - a warp operation needs every living lane of its mask at the same line; .aligned ones need all 32;
 * - WR_EMULATE_ORDER=reverse or a number above 1 (a seed) runs the threads in another order. A kernel must pass in all.
 * What it cannot see: memory faults inside one allocation, a missing barrier that no tried order exposes, conversions
 * of floats outside the integer's range (a card saturates, a host does not), time.
 *
 * mma and wgmma share one meaning of a k16 step on one output: s = the sum of 16 products in double, in order; then
 * c = (float)((double)c + s). So equal chains give equal bits here as they do on a card, though not the card's bits.
 *
 * EXAMPLE: a row without the runtime, linked with launch_direct.c (direct.h says how to call it):
 *   gcc -std=gnu17 -O1 -g -D_GNU_SOURCE -Isrc -Iinclude -Itests -c harness.c src/cuda/<family>.c \
 *       tests/cuda/emulate/launch_direct.c
 *   g++ -x c++ -std=gnu++17 -DWR_EMULATE -O1 -g -ffp-contract=off -Wno-unknown-pragmas -Isrc -Iinclude \
 *       -Itests/cuda/emulate -c src/cuda/kernels/<family>.cu
 *   g++ -std=gnu++17 -O3 -g -ffp-contract=off -Isrc -Iinclude -c tests/cuda/emulate/{emulate,shared,tensor}.cpp
 *   g++ *.o build/libwr_array.a build/libwr_cpu.a build/libwr_base.a -lm -lpthread -o harness */
#ifndef WR_TESTS_CUDA_EMULATE_H
#define WR_TESTS_CUDA_EMULATE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cuda/kernels/integers.h"

#define WR_DEVICE        static inline __attribute__((unused))
#define WR_DEVICE_MEMBER inline
#define __device__
#define __host__
#define __global__
#define __constant__
#define __forceinline__ inline
#define __noinline__    __attribute__((noinline))

/* ---- a kernel: an entry in a table that launches look up by name ---- */

typedef struct wr_emu_kernel {
    const char *name;
    void (*run)(const void *params); /* one thread */
    size_t params_bytes;
    int max_threads;
    struct wr_emu_kernel *next;
} wr_emu_kernel;

extern "C" {
void wr_emu_register(wr_emu_kernel *kernel);
const wr_emu_kernel *wr_emulate_find(const char *name); /* NULL: there is none */
/* Runs the grid to its end. Aborts on an unknown name and on every misuse. */
void wr_emulate_launch(const char *kernel, uint32_t blocks, uint32_t threads, size_t shared_bytes, const void *params);
/* The same in clusters of so many blocks, which run at once. */
void wr_emulate_launch_cluster(const char *kernel, uint32_t blocks, uint32_t cluster_blocks, uint32_t threads,
                               size_t shared_bytes, const void *params);
/* The same, and `before` (the kernel before it in a chain of programmatic launches) runs when all threads of the first
 * blocks have come to wr_grid_wait: so what a kernel reads or writes too early shows. NULL: nothing is to be waited
 * for. */
void wr_emulate_launch_over(const wr_emu_kernel *kernel, uint32_t blocks, uint32_t cluster_blocks, uint32_t threads,
                            size_t shared_bytes, const void *params, void (*before)(void *), void *before_argument);
/* Order of threads of later launches of any thread: 0 forward, 1 reverse, others seeds. */
void wr_emulate_order(int order);
int wr_emulate_order_now(void);
}

#define WR_KERNEL(kernel_name, params_type, threads, blocks)                                                           \
    static void kernel_name##_thread(const params_type &p);                                                            \
    extern "C" {                                                                                                       \
    extern const size_t kernel_name##_params_bytes;                                                                    \
    const size_t kernel_name##_params_bytes = sizeof(params_type);                                                     \
    void kernel_name(const void *params) { kernel_name##_thread(*(const params_type *)params); }                       \
    }                                                                                                                  \
    static wr_emu_kernel kernel_name##_entry = {#kernel_name, kernel_name, sizeof(params_type), (threads), nullptr};   \
    __attribute__((constructor)) static void kernel_name##_register(void) { wr_emu_register(&kernel_name##_entry); }   \
    static void kernel_name##_thread([[maybe_unused]] const params_type &p)

/* The same bytes for every thread of a block, found by the address of a key. */
u8 *wr_emu_dynamic(void);
void *wr_emu_static(const void *key, size_t bytes);
#define WR_DYNAMIC_SHARED(name) u8 *const name = wr_emu_dynamic()
#define WR_SHARED_ARRAY(type, name, count)                                                                             \
    static const char name##_key = 0;                                                                                  \
    type(&name)[count] = *(type(*)[count])wr_emu_static(&name##_key, sizeof(type[count]))

#define WR_HAS_WGMMA 1
#define WR_HAS_BULK  1

/* ---- indices and vectors ---- */

struct uint3 {
    u32 x, y, z;
};
struct wr_emu_index {
    uint3 thread, block, block_size, grid_size;
};
extern __thread wr_emu_index wr_emu_at;
#define threadIdx (wr_emu_at.thread)
#define blockIdx  (wr_emu_at.block)
#define blockDim  (wr_emu_at.block_size)
#define gridDim   (wr_emu_at.grid_size)
static const int warpSize = 32;

#define WR_EMU_VECTORS(type, name)                                                                                     \
    struct alignas(2 * sizeof(type)) name##2 {                                                                         \
        type x, y;                                                                                                     \
    };                                                                                                                 \
    struct alignas(4 * sizeof(type)) name##4 {                                                                         \
        type x, y, z, w;                                                                                               \
    };                                                                                                                 \
    WR_DEVICE name##2 make_##name##2(type x, type y) { return name##2 {x, y}; }                                        \
    WR_DEVICE name##4 make_##name##4(type x, type y, type z, type w) { return name##4 {x, y, z, w}; }
WR_EMU_VECTORS(u8, uchar)
WR_EMU_VECTORS(i8, char)
WR_EMU_VECTORS(u16, ushort)
WR_EMU_VECTORS(i16, short)
WR_EMU_VECTORS(u32, uint)
WR_EMU_VECTORS(i32, int)
WR_EMU_VECTORS(float, float)
struct alignas(16) double2 {
    double x, y;
};
WR_DEVICE double2 make_double2(double x, double y) { return double2{x, y}; }
struct alignas(16) ulonglong2 {
    u64 x, y;
};
WR_DEVICE ulonglong2 make_ulonglong2(u64 x, u64 y) { return ulonglong2{x, y}; }
struct alignas(16) longlong2 {
    i64 x, y;
};
WR_DEVICE longlong2 make_longlong2(i64 x, i64 y) { return longlong2{x, y}; }

/* ---- barriers, shuffles, votes; the last parameter is where the call stands ---- */

#define WR_EMU_LINE int line = __builtin_LINE()

enum wr_emu_op {
    WR_EMU_SHFL,
    WR_EMU_SHFL_XOR,
    WR_EMU_SHFL_UP,
    WR_EMU_SHFL_DOWN,
    WR_EMU_BALLOT,
    WR_EMU_ANY,
    WR_EMU_ALL,
    WR_EMU_SYNCWARP,
    WR_EMU_ADD,
    WR_EMU_MIN,
    WR_EMU_MAX,
    WR_EMU_MATCH,
    WR_EMU_LDMATRIX,
    WR_EMU_LDMATRIX_TRANS,
    WR_EMU_STMATRIX_TRANS,
    WR_EMU_MMA_BF16,
    WR_EMU_MMA_F16,
    WR_EMU_WGMMA,
    WR_EMU_WGMMA_FENCE,
    WR_EMU_WGMMA_COMMIT,
    WR_EMU_WGMMA_WAIT,
    WR_EMU_REGISTERS,
    WR_EMU_CLUSTER_ARRIVE,
    WR_EMU_CLUSTER_WAIT
};

void wr_emu_syncthreads(int line);
u64 wr_emu_shuffle(wr_emu_op op, u32 mask, u64 value, int argument, int width, int line);
u32 wr_emu_vote(wr_emu_op op, u32 mask, u32 value, int line);
[[noreturn]] void wr_emu_fail(int line, const char *format, ...) __attribute__((format(printf, 2, 3)));

WR_DEVICE void __syncthreads(WR_EMU_LINE) { wr_emu_syncthreads(line); }
WR_DEVICE void __syncwarp(u32 mask = 0xFFFFFFFFu, WR_EMU_LINE) { wr_emu_vote(WR_EMU_SYNCWARP, mask, 0, line); }
WR_DEVICE u32 __ballot_sync(u32 mask, int p, WR_EMU_LINE) { return wr_emu_vote(WR_EMU_BALLOT, mask, p != 0, line); }
WR_DEVICE int __any_sync(u32 mask, int p, WR_EMU_LINE) { return (int)wr_emu_vote(WR_EMU_ANY, mask, p != 0, line); }
WR_DEVICE int __all_sync(u32 mask, int p, WR_EMU_LINE) { return (int)wr_emu_vote(WR_EMU_ALL, mask, p != 0, line); }
WR_DEVICE u32 __match_any_sync(u32 mask, u32 v, WR_EMU_LINE) { return wr_emu_vote(WR_EMU_MATCH, mask, v, line); }
WR_DEVICE u32 __reduce_add_sync(u32 mask, u32 v, WR_EMU_LINE) { return wr_emu_vote(WR_EMU_ADD, mask, v, line); }
WR_DEVICE u32 __reduce_min_sync(u32 mask, u32 v, WR_EMU_LINE) { return wr_emu_vote(WR_EMU_MIN, mask, v, line); }
WR_DEVICE u32 __reduce_max_sync(u32 mask, u32 v, WR_EMU_LINE) { return wr_emu_vote(WR_EMU_MAX, mask, v, line); }

#define WR_EMU_SHUFFLE(name, op, argument_type)                                                                        \
    template <typename T> static inline T name(u32 mask, T value, argument_type a, int width = 32, WR_EMU_LINE) {      \
        static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");                                 \
        u64 bits = 0;                                                                                                  \
        memcpy(&bits, &value, sizeof(T));                                                                              \
        bits = wr_emu_shuffle(op, mask, bits, (int)a, width, line);                                                    \
        memcpy(&value, &bits, sizeof(T));                                                                              \
        return value;                                                                                                  \
    }
WR_EMU_SHUFFLE(__shfl_sync, WR_EMU_SHFL, int)
WR_EMU_SHUFFLE(__shfl_xor_sync, WR_EMU_SHFL_XOR, int)
WR_EMU_SHUFFLE(__shfl_up_sync, WR_EMU_SHFL_UP, u32)
WR_EMU_SHUFFLE(__shfl_down_sync, WR_EMU_SHFL_DOWN, u32)

/* ---- integers ---- */

WR_DEVICE int __popc(u32 x) { return __builtin_popcount(x); }
WR_DEVICE int __popcll(u64 x) { return __builtin_popcountll(x); }
WR_DEVICE int __clz(int x) { return x ? __builtin_clz((u32)x) : 32; }
WR_DEVICE int __clzll(i64 x) { return x ? __builtin_clzll((u64)x) : 64; }
WR_DEVICE int __ffs(int x) { return __builtin_ffs(x); }
WR_DEVICE int __ffsll(i64 x) { return __builtin_ffsll(x); }
WR_DEVICE u32 __brev(u32 x) {
    u32 r = 0;
    for (int i = 0; i < 32; i++) r |= (x >> i & 1) << (31 - i);
    return r;
}
WR_DEVICE u32 __umulhi(u32 a, u32 b) { return (u32)((u64)a * b >> 32); }
WR_DEVICE int __mulhi(int a, int b) { return (int)((i64)a * b >> 32); }
WR_DEVICE u64 __umul64hi(u64 a, u64 b) { return (u64)((unsigned __int128)a * b >> 64); }
WR_DEVICE u32 __funnelshift_l(u32 lo, u32 hi, u32 n) { return (u32)(((u64)hi << 32 | lo) << (n & 31) >> 32); }
WR_DEVICE u32 __funnelshift_r(u32 lo, u32 hi, u32 n) { return (u32)(((u64)hi << 32 | lo) >> (n & 31)); }

/* Exactly the overloads that CUDA has, so that what is ambiguous there is ambiguous here. */
#define WR_EMU_MIN_MAX(result, a_type, b_type)                                                                         \
    WR_DEVICE result min(a_type a, b_type b) { return (result)a < (result)b ? (result)a : (result)b; }                 \
    WR_DEVICE result max(a_type a, b_type b) { return (result)a > (result)b ? (result)a : (result)b; }
WR_EMU_MIN_MAX(int, int, int)
WR_EMU_MIN_MAX(u32, u32, u32)
WR_EMU_MIN_MAX(u32, int, u32)
WR_EMU_MIN_MAX(u32, u32, int)
WR_EMU_MIN_MAX(long, long, long)
WR_EMU_MIN_MAX(unsigned long, unsigned long, unsigned long)
WR_EMU_MIN_MAX(unsigned long, long, unsigned long)
WR_EMU_MIN_MAX(unsigned long, unsigned long, long)
WR_EMU_MIN_MAX(i64, i64, i64)
WR_EMU_MIN_MAX(u64, u64, u64)
WR_EMU_MIN_MAX(u64, i64, u64)
WR_EMU_MIN_MAX(u64, u64, i64)
WR_DEVICE float min(float a, float b) { return fminf(a, b); }
WR_DEVICE float max(float a, float b) { return fmaxf(a, b); }
WR_DEVICE double min(double a, double b) { return fmin(a, b); }
WR_DEVICE double max(double a, double b) { return fmax(a, b); }

/* Integers only: the numeric contract has no float atomics. */
#define WR_EMU_ATOMICS(type)                                                                                           \
    WR_DEVICE type atomicAdd(type *p, type v) { return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST); }                   \
    WR_DEVICE type atomicSub(type *p, type v) { return __atomic_fetch_sub(p, v, __ATOMIC_SEQ_CST); }                   \
    WR_DEVICE type atomicOr(type *p, type v) { return __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST); }                     \
    WR_DEVICE type atomicAnd(type *p, type v) { return __atomic_fetch_and(p, v, __ATOMIC_SEQ_CST); }                   \
    WR_DEVICE type atomicXor(type *p, type v) { return __atomic_fetch_xor(p, v, __ATOMIC_SEQ_CST); }                   \
    WR_DEVICE type atomicExch(type *p, type v) { return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST); }                 \
    WR_DEVICE type atomicCAS(type *p, type expected, type v) {                                                         \
        __atomic_compare_exchange_n(p, &expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                       \
        return expected;                                                                                               \
    }                                                                                                                  \
    WR_DEVICE type atomicMax(type *p, type v) {                                                                        \
        type old = *p;                                                                                                 \
        while (old < v && !__atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {}      \
        return old;                                                                                                    \
    }                                                                                                                  \
    WR_DEVICE type atomicMin(type *p, type v) {                                                                        \
        type old = *p;                                                                                                 \
        while (old > v && !__atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {}      \
        return old;                                                                                                    \
    }
WR_EMU_ATOMICS(i32)
WR_EMU_ATOMICS(u32)
WR_EMU_ATOMICS(u64)
WR_DEVICE void __threadfence(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
WR_DEVICE void __threadfence_block(void) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
template <typename T> static inline T __ldg(const T *p) { return *p; }

/* ---- floats ---- */

template <typename To, typename From> static inline To wr_emu_cast(From x) {
    static_assert(sizeof(To) == sizeof(From), "a cast of bits keeps the size");
    To r;
    memcpy(&r, &x, sizeof(r));
    return r;
}
WR_DEVICE float __uint_as_float(u32 x) { return wr_emu_cast<float>(x); }
WR_DEVICE u32 __float_as_uint(float x) { return wr_emu_cast<u32>(x); }
WR_DEVICE float __int_as_float(int x) { return wr_emu_cast<float>(x); }
WR_DEVICE int __float_as_int(float x) { return wr_emu_cast<int>(x); }
WR_DEVICE i64 __double_as_longlong(double x) { return wr_emu_cast<i64>(x); }
WR_DEVICE double __longlong_as_double(i64 x) { return wr_emu_cast<double>(x); }
WR_DEVICE float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
WR_DEVICE float __fadd_rn(float a, float b) { return a + b; }
WR_DEVICE float __fsub_rn(float a, float b) { return a - b; }
WR_DEVICE float __fmul_rn(float a, float b) { return a * b; }
WR_DEVICE float __fdiv_rn(float a, float b) { return a / b; }
WR_DEVICE float __fsqrt_rn(float a) { return sqrtf(a); }
WR_DEVICE float __frcp_rn(float a) { return 1.0f / a; }
WR_DEVICE float rsqrtf(float x) { return (float)(1.0 / sqrt((double)x)); }
WR_DEVICE double rsqrt(double x) { return 1.0 / sqrt(x); }
WR_DEVICE int __float2int_rn(float x) {
    return isnan(x) ? 0 : x >= 2147483648.0f ? 0x7FFFFFFF : x < -2147483648.0f ? (int)0x80000000 : (int)nearbyintf(x);
}
WR_DEVICE int __float2int_rz(float x) { return __float2int_rn(truncf(x)); }
WR_DEVICE float __int2float_rn(int x) { return (float)x; }
WR_DEVICE float __uint2float_rn(u32 x) { return (float)x; }

/* ---- device.cuh ---- */

void wr_emu_grid_wait(int line);
WR_DEVICE int wr_opaque(int x) { return x; }

WR_DEVICE void wr_grid_wait(WR_EMU_LINE) { wr_emu_grid_wait(line); }
WR_DEVICE void wr_grid_launch(void) {}

WR_DEVICE float wr_bits_f32(u32 x) { return __uint_as_float(x); }
WR_DEVICE u32 wr_f32_bits(float x) { return __float_as_uint(x); }
WR_DEVICE float wr_bf16_to_f32(u16 x) { return __uint_as_float((u32)x << 16); }
WR_DEVICE float wr_bf16_lo(u32 x) { return __uint_as_float(x << 16); }
WR_DEVICE float wr_bf16_hi(u32 x) { return __uint_as_float(x & 0xFFFF0000u); }
WR_DEVICE u16 wr_f32_to_bf16(float x) {
    const u32 b = __float_as_uint(x);
    return isnan(x) ? (u16)0x7FFF : (u16)((b + 0x7FFF + (b >> 16 & 1)) >> 16);
}
WR_DEVICE u32 wr_pack_bf16(float lo, float hi) { return wr_f32_to_bf16(lo) | (u32)wr_f32_to_bf16(hi) << 16; }
WR_DEVICE float wr_f16_to_f32(u16 x) {
    const u32 exponent = x >> 10 & 31, fraction = x & 1023;
    const float magnitude = exponent == 31  ? (fraction ? NAN : INFINITY)
                            : exponent == 0 ? ldexpf((float)fraction, -24)
                                            : ldexpf((float)(1024 + fraction), (int)exponent - 25);
    return x >> 15 ? -magnitude : magnitude;
}
WR_DEVICE u16 wr_f32_to_f16(float x) {
    const u16 sign = (u16)(__float_as_uint(x) >> 16 & 0x8000);
    const float a = fabsf(x);
    if (isnan(x)) return 0x7FFF;
    if (a >= 65520.0f) return (u16)(sign | 0x7C00);
    if (a < 6.103515625e-05f) return (u16)(sign | (u16)nearbyintf(ldexpf(a, 24))); /* subnormal, or the first normal */
    const u32 b = __float_as_uint(a) - (112u << 23);
    return (u16)(sign | (b + 0xFFF + (b >> 13 & 1)) >> 13);
}
WR_DEVICE u32 wr_pack_f16(float lo, float hi) { return wr_f32_to_f16(lo) | (u32)wr_f32_to_f16(hi) << 16; }
u16 wr_emu_fma_bf16(u16 a, u16 b, u16 c);
WR_DEVICE u32 wr_fma_bf16x2(u32 a, u32 b, u32 c) {
    return wr_emu_fma_bf16((u16)a, (u16)b, (u16)c) |
           (u32)wr_emu_fma_bf16((u16)(a >> 16), (u16)(b >> 16), (u16)(c >> 16)) << 16;
}
WR_DEVICE u32 wr_mul_bf16x2(u32 a, u32 b) { return wr_fma_bf16x2(a, b, 0x80008000u); }
WR_DEVICE float wr_ex2(float x) {
    const float y = exp2f(fabsf(x) < 1.17549435e-38f ? 0.0f : x);
    return y < 1.17549435e-38f ? 0.0f : y;
}
WR_DEVICE u32 wr_perm(u32 a, u32 b, u32 selector, WR_EMU_LINE) {
    const u64 bytes = (u64)b << 32 | a;
    u32 r = 0;
    if (selector & 0x8888)
        wr_emu_fail(line, "wr_perm selector %#x repeats signs, which __byte_perm does not say", selector);
    for (int i = 0; i < 4; i++) r |= (u32)(bytes >> 8 * (selector >> 4 * i & 7) & 0xFF) << 8 * i;
    return r;
}

template <typename T> static inline T wr_emu_load(const void *p, const char *name, int line) {
    if ((uintptr_t)p % sizeof(T)) wr_emu_fail(line, "%s of %p, which is not %zu-byte aligned", name, p, sizeof(T));
    return *(const T *)p;
}
WR_DEVICE uint4 wr_load16_once(const void *p, WR_EMU_LINE) { return wr_emu_load<uint4>(p, "wr_load16_once", line); }
WR_DEVICE uint4 wr_load16_l2(const void *p, WR_EMU_LINE) { return wr_emu_load<uint4>(p, "wr_load16_l2", line); }
WR_DEVICE u32 wr_load4_l2(const void *p, WR_EMU_LINE) { return wr_emu_load<u32>(p, "wr_load4_l2", line); }
WR_DEVICE u32 wr_load4_kept(const void *p, WR_EMU_LINE) { return wr_emu_load<u32>(p, "wr_load4_kept", line); }
WR_DEVICE uint2 wr_load8_once(const void *p, WR_EMU_LINE) { return wr_emu_load<uint2>(p, "wr_load8_once", line); }
WR_DEVICE u32 wr_load4_once(const void *p, WR_EMU_LINE) { return wr_emu_load<u32>(p, "wr_load4_once", line); }
WR_DEVICE u32 wr_arrive_global(u32 *counter) { return atomicAdd(counter, 1u); }

u32 wr_emu_smem(const void *p, int line);
void wr_emu_cp16(u32 to, const void *from, bool valid, int line);
void wr_emu_cp_commit(void);
void wr_emu_cp_wait(int pending);
void wr_emu_barrier(int id, int threads, int line);
WR_DEVICE u32 wr_smem(const void *p, WR_EMU_LINE) { return wr_emu_smem(p, line); }
WR_DEVICE void wr_cp16(u32 to, const void *from, WR_EMU_LINE) { wr_emu_cp16(to, from, true, line); }
WR_DEVICE void wr_cp16_or_zero(u32 to, const void *from, bool valid, WR_EMU_LINE) {
    wr_emu_cp16(to, from, valid, line);
}
WR_DEVICE void wr_cp_commit(void) { wr_emu_cp_commit(); }
template <int N> static inline void wr_cp_wait(void) { wr_emu_cp_wait(N); }
WR_DEVICE void wr_barrier(int id, int threads, WR_EMU_LINE) { wr_emu_barrier(id, threads, line); }

void wr_emu_ldmatrix(wr_emu_op op, u32 *r, u32 a, int line);
void wr_emu_mma(wr_emu_op op, float *c, const u32 *a, u32 b0, u32 b1, int line);
WR_DEVICE void wr_ldmatrix4(u32 *r, u32 a, WR_EMU_LINE) { wr_emu_ldmatrix(WR_EMU_LDMATRIX, r, a, line); }
WR_DEVICE void wr_ldmatrix4_trans(u32 *r, u32 a, WR_EMU_LINE) { wr_emu_ldmatrix(WR_EMU_LDMATRIX_TRANS, r, a, line); }
WR_DEVICE void wr_mma_bf16(float *c, const u32 *a, u32 b0, u32 b1, WR_EMU_LINE) {
    wr_emu_mma(WR_EMU_MMA_BF16, c, a, b0, b1, line);
}
WR_DEVICE void wr_mma_f16(float *c, const u32 *a, u32 b0, u32 b1, WR_EMU_LINE) {
    wr_emu_mma(WR_EMU_MMA_F16, c, a, b0, b1, line);
}

/* ---- hopper.cuh ---- */

void wr_emu_bar_init(u32 bar, int count, int line);
void wr_emu_bar_arrive(u32 bar, u32 expected_bytes, int line);
void wr_emu_bar_wait(u32 bar, int parity, int line);
void wr_emu_bulk_copy(u32 to, const void *from, u32 bytes, u32 bar, int line);
WR_DEVICE void wr_bar_init(u32 bar, int count, WR_EMU_LINE) { wr_emu_bar_init(bar, count, line); }
WR_DEVICE void wr_bar_init_done(void) {}
WR_DEVICE void wr_bar_arrive(u32 bar, WR_EMU_LINE) { wr_emu_bar_arrive(bar, 0, line); }
WR_DEVICE void wr_bar_expect(u32 bar, u32 bytes, WR_EMU_LINE) { wr_emu_bar_arrive(bar, bytes, line); }
WR_DEVICE void wr_bar_wait(u32 bar, int parity, WR_EMU_LINE) { wr_emu_bar_wait(bar, parity, line); }
WR_DEVICE void wr_bulk_copy(u32 to, const void *from, u32 bytes, u32 bar, WR_EMU_LINE) {
    wr_emu_bulk_copy(to, from, bytes, bar, line);
}
WR_DEVICE void wr_bulk_copy_once(u32 to, const void *from, u32 bytes, u32 bar, WR_EMU_LINE) {
    wr_emu_bulk_copy(to, from, bytes, bar, line);
}
WR_DEVICE void wr_prefetch_l2(const void *, u32) {}
WR_DEVICE void wr_fence_async(void) {}

void wr_emu_bulk_store(void *to, u32 from, u32 bytes, int line);
WR_DEVICE void wr_bulk_store(void *to, u32 from, u32 bytes, WR_EMU_LINE) { wr_emu_bulk_store(to, from, bytes, line); }
WR_DEVICE void wr_bulk_store_commit(void) {}
WR_DEVICE void wr_bulk_store_wait_read(void) {}
void wr_emu_stmatrix_trans(u32 a, const u32 *r, int line);
WR_DEVICE void wr_stmatrix4_trans(u32 a, const u32 *r, WR_EMU_LINE) { wr_emu_stmatrix_trans(a, r, line); }

void wr_emu_cluster_arrive(int line);
void wr_emu_cluster_wait(int line);
u32 wr_emu_cluster_smem(u32 address, u32 rank, int line);
void wr_emu_cluster_store16(u32 to, float4 v, u32 bar, int line);
void wr_emu_cluster_bar_arrive(u32 bar, int line);
void wr_emu_cluster_store4(u32 to, float v, int line);
void wr_emu_bulk_copy_to_all(u32 to, const void *from, u32 bytes, u32 bar, u32 blocks, int line);
WR_DEVICE void wr_cluster_arrive(WR_EMU_LINE) { wr_emu_cluster_arrive(line); }
WR_DEVICE void wr_cluster_wait(WR_EMU_LINE) { wr_emu_cluster_wait(line); }
WR_DEVICE u32 wr_cluster_smem(u32 address, u32 rank, WR_EMU_LINE) { return wr_emu_cluster_smem(address, rank, line); }
WR_DEVICE void wr_cluster_store16(u32 to, float4 v, u32 bar, WR_EMU_LINE) { wr_emu_cluster_store16(to, v, bar, line); }
WR_DEVICE void wr_cluster_bar_arrive(u32 bar, WR_EMU_LINE) { wr_emu_cluster_bar_arrive(bar, line); }
WR_DEVICE void wr_cluster_store4(u32 to, float v, WR_EMU_LINE) { wr_emu_cluster_store4(to, v, line); }
WR_DEVICE void wr_bulk_copy_to_all(u32 to, const void *from, u32 bytes, u32 bar, u32 blocks, WR_EMU_LINE) {
    wr_emu_bulk_copy_to_all(to, from, bytes, bar, blocks, line);
}

void wr_emu_warpgroup(wr_emu_op op, int n, int line); /* fence, commit, wait until n are left, setmaxnreg to n */
template <int N> static inline void wr_registers_fewer(WR_EMU_LINE) {
    static_assert(N % 8 == 0 && N >= 24 && N <= 256, "setmaxnreg takes a multiple of 8, 24 to 256");
    wr_emu_warpgroup(WR_EMU_REGISTERS, N, line);
}
template <int N> static inline void wr_registers_more(WR_EMU_LINE) {
    static_assert(N % 8 == 0 && N >= 24 && N <= 256, "setmaxnreg takes a multiple of 8, 24 to 256");
    wr_emu_warpgroup(WR_EMU_REGISTERS, N, line);
}

WR_DEVICE void wr_wgmma_fence(WR_EMU_LINE) { wr_emu_warpgroup(WR_EMU_WGMMA_FENCE, 0, line); }
WR_DEVICE void wr_wgmma_commit(WR_EMU_LINE) { wr_emu_warpgroup(WR_EMU_WGMMA_COMMIT, 0, line); }
template <int N> static inline void wr_wgmma_wait(WR_EMU_LINE) { wr_emu_warpgroup(WR_EMU_WGMMA_WAIT, N, line); }

/* a: four registers, or NULL and a_desc. */
void wr_emu_wgmma(int n, float *d, const u32 *a, u64 a_desc, u64 b_desc, bool b_transposed, bool add, int line);
#define WR_EMU_WGMMA_N(n)                                                                                              \
    WR_DEVICE void wr_wgmma_rs_##n(float *d, const u32 *a, u64 b, int add, WR_EMU_LINE) {                              \
        wr_emu_wgmma(n, d, a, 0, b, false, add != 0, line);                                                            \
    }                                                                                                                  \
    WR_DEVICE void wr_wgmma_rs_tb_##n(float *d, const u32 *a, u64 b, int add, WR_EMU_LINE) {                           \
        wr_emu_wgmma(n, d, a, 0, b, true, add != 0, line);                                                             \
    }                                                                                                                  \
    WR_DEVICE void wr_wgmma_ss_##n(float *d, u64 a, u64 b, int add, WR_EMU_LINE) {                                     \
        wr_emu_wgmma(n, d, nullptr, a, b, false, add != 0, line);                                                      \
    }
WR_EMU_WGMMA_N(8)
WR_EMU_WGMMA_N(16)
WR_EMU_WGMMA_N(32)
WR_EMU_WGMMA_N(64)
WR_EMU_WGMMA_N(96)
WR_EMU_WGMMA_N(128)
WR_EMU_WGMMA_N(256)

#endif
