/* What every kernel file stands on: short integer names, the shape of a kernel, and one wrapper for each PTX
 * instruction that CUDA C has no word for. Kernel files use nothing of CUDA beyond this header, thread indices,
 * __syncthreads, __syncwarp and the warp shuffles and votes; so the same files compile as C++ for the host, where
 * tests/cuda/emulate gives every name here another body (WR_EMULATE) and runs kernels without a card.
 *
 * A kernel takes one struct by value. It is launched by name (cuda/launch.h). Its first act on data that an earlier
 * kernel wrote must come after wr_grid_wait(); weights may be fetched before. */
#ifndef WR_CUDA_DEVICE_CUH
#define WR_CUDA_DEVICE_CUH

#ifdef WR_EMULATE
#include "emulate.h"
#else
#include "cuda/kernels/integers.h"

#define WR_DEVICE        static __device__ __forceinline__
#define WR_DEVICE_MEMBER __device__ __forceinline__
/* name: the symbol that a launch names; threads: of a block; blocks: wanted on one multiprocessor. Body follows; the
 * parameters are `p`. */
#define WR_KERNEL(name, params_type, threads, blocks)                                                                  \
    extern "C" __global__ void __launch_bounds__(threads, blocks) name(const __grid_constant__ params_type p)
/* The dynamic shared memory of the launch, 1,024-byte aligned. */
#define WR_DYNAMIC_SHARED(name)            extern __shared__ __align__(1024) u8 name[]
#define WR_SHARED_ARRAY(type, name, count) __shared__ type name[count]

/* Only sm_90a has these: bodies that use wgmma, setmaxnreg or bulk copies stand inside #if WR_HAS_WGMMA. */
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define WR_HAS_WGMMA 1
#else
#define WR_HAS_WGMMA 0
#endif

/* x, of which the compiler knows nothing. Offsets of lanes that go through it stay one register each: otherwise they
 * are folded into the constants of every load, which then takes three more instructions. */
WR_DEVICE int wr_opaque(int x) {
    asm("" : "+r"(x));
    return x;
}

/* ---- programmatic launch ---- */

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
/* All writes of the kernels before are visible after this. */
WR_DEVICE void wr_grid_wait(void) { asm volatile("griddepcontrol.wait;" ::: "memory"); }
/* The next kernel may start its prologue. */
WR_DEVICE void wr_grid_launch(void) { asm volatile("griddepcontrol.launch_dependents;"); }
#else
WR_DEVICE void wr_grid_wait(void) {}
WR_DEVICE void wr_grid_launch(void) {}
#endif

/* ---- numbers ---- */

WR_DEVICE float wr_bits_f32(u32 x) { return __uint_as_float(x); }
WR_DEVICE u32 wr_f32_bits(float x) { return __float_as_uint(x); }
WR_DEVICE float wr_bf16_to_f32(u16 x) { return __uint_as_float((u32)x << 16); }
/* Of a pair in one word: the lower and the upper one. */
WR_DEVICE float wr_bf16_lo(u32 x) { return __uint_as_float(x << 16); }
WR_DEVICE float wr_bf16_hi(u32 x) { return __uint_as_float(x & 0xFFFF0000u); }
/* Round to nearest even. */
WR_DEVICE u16 wr_f32_to_bf16(float x) {
    u16 r;
    asm("cvt.rn.bf16.f32 %0,%1;" : "=h"(r) : "f"(x));
    return r;
}
WR_DEVICE u32 wr_pack_bf16(float lo, float hi) {
    u32 r;
    asm("cvt.rn.bf16x2.f32 %0,%1,%2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}
WR_DEVICE u32 wr_pack_f16(float lo, float hi) {
    u32 r;
    asm("cvt.rn.f16x2.f32 %0,%1,%2;" : "=r"(r) : "f"(hi), "f"(lo));
    return r;
}
WR_DEVICE float wr_f16_to_f32(u16 x) {
    float r;
    asm("cvt.f32.f16 %0,%1;" : "=f"(r) : "h"(x));
    return r;
}
WR_DEVICE u16 wr_f32_to_f16(float x) {
    u16 r;
    asm("cvt.rn.f16.f32 %0,%1;" : "=h"(r) : "f"(x));
    return r;
}
/* Pairs of bf16: one rounding, subnormals kept. */
WR_DEVICE u32 wr_fma_bf16x2(u32 a, u32 b, u32 c) {
    u32 r;
    asm("fma.rn.bf16x2 %0,%1,%2,%3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
    return r;
}
/* a * b as fma with -0, which every architecture from sm_80 has. */
WR_DEVICE u32 wr_mul_bf16x2(u32 a, u32 b) { return wr_fma_bf16x2(a, b, 0x80008000u); }
/* 2^x, the same approximation everywhere; subnormals are 0. */
WR_DEVICE float wr_ex2(float x) {
    float r;
    asm("ex2.approx.ftz.f32 %0,%1;" : "=f"(r) : "f"(x));
    return r;
}
/* Bytes of a and b picked by selector, as __byte_perm. */
WR_DEVICE u32 wr_perm(u32 a, u32 b, u32 selector) { return __byte_perm(a, b, selector); }

/* ---- global memory ---- */

/* 16 and 8 bytes that are read once, past L1. (L2::256B instead, or none: the same or 4% slower with tiles of 576.) */
WR_DEVICE uint4 wr_load16_once(const void *p) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3},[%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}
WR_DEVICE uint2 wr_load8_once(const void *p) {
    uint2 v;
    asm volatile("ld.global.nc.L1::no_allocate.v2.u32 {%0,%1},[%2];" : "=r"(v.x), "=r"(v.y) : "l"(p));
    return v;
}
WR_DEVICE u32 wr_load4_once(const void *p) {
    u32 v;
    asm volatile("ld.global.nc.L1::no_allocate.u32 %0,[%1];" : "=r"(v) : "l"(p));
    return v;
}
/* 4 bytes of little data that every layer's kernels read again, which L2 is asked to keep while weights and keys run
 * through it. */
WR_DEVICE u32 wr_load4_kept(const void *p) {
    u32 v;
    asm volatile("{.reg .b64 policy; createpolicy.fractional.L2::evict_last.b64 policy,1.0;"
                 "ld.global.L2::cache_hint.u32 %0,[%1],policy;}"
                 : "=r"(v)
                 : "l"(p));
    return v;
}
/* 16 bytes that other multiprocessors may have written during this launch: past L1. */
WR_DEVICE uint4 wr_load16_l2(const void *p) {
    uint4 v;
    asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3},[%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}
/* The same of 4 bytes. */
WR_DEVICE u32 wr_load4_l2(const void *p) {
    u32 v;
    asm volatile("ld.global.cg.u32 %0,[%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
/* Adds 1 and returns the old value; all earlier writes of the block (after __syncthreads by its threads) are seen by
 * whoever sees the count. For "the last block to arrive does the rest". Never spin on it. */
WR_DEVICE u32 wr_arrive_global(u32 *counter) {
    asm volatile("fence.acq_rel.gpu;" ::: "memory"); /* __threadfence is the sequential one, which takes longer */
    u32 old = atomicAdd(counter, 1u);
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
    return old;
}

/* ---- shared memory ---- */

/* The address that the wrappers below take; p must lie in dynamic shared memory. */
WR_DEVICE u32 wr_smem(const void *p) { return (u32)__cvta_generic_to_shared(p); }

WR_DEVICE void wr_cp16(u32 to, const void *from) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0],[%1],16;" ::"r"(to), "l"(from) : "memory");
}
/* Zeros instead when !valid; `from` must be a readable address all the same. */
WR_DEVICE void wr_cp16_or_zero(u32 to, const void *from, bool valid) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0],[%1],16,%2;" ::"r"(to), "l"(from), "r"(valid ? 16 : 0)
                 : "memory");
}
WR_DEVICE void wr_cp_commit(void) { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> WR_DEVICE void wr_cp_wait(void) { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

WR_DEVICE void wr_ldmatrix4(u32 *r, u32 a) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3},[%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(a)
                 : "memory");
}
WR_DEVICE void wr_ldmatrix4_trans(u32 *r, u32 a) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3},[%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(a)
                 : "memory");
}
/* Named barrier id (1..15) of `threads` threads. */
WR_DEVICE void wr_barrier(int id, int threads) { asm volatile("bar.sync %0,%1;" ::"r"(id), "r"(threads) : "memory"); }

/* ---- mbarriers and bulk copies; addresses are shared ones ---- */

/* From sm_90 on: copies of any size by one thread. */
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define WR_HAS_BULK 1
#else
#define WR_HAS_BULK 0
#endif

WR_DEVICE void wr_bar_init(u32 bar, int count) {
    asm volatile("mbarrier.init.shared.b64 [%0],%1;" ::"r"(bar), "r"(count) : "memory");
}
WR_DEVICE void wr_bar_arrive(u32 bar) {
    asm volatile("{.reg .b64 t; mbarrier.arrive.shared.b64 t,[%0];}" ::"r"(bar) : "memory");
}
#if WR_HAS_BULK
/* After the last init, by the thread that did it; a __syncthreads must follow. */
WR_DEVICE void wr_bar_init_done(void) { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
/* Arrive, and expect so many bytes of bulk copies. */
WR_DEVICE void wr_bar_expect(u32 bar, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _,[%0],%1;" ::"r"(bar), "r"(bytes) : "memory");
}
/* Wait until the phase of this parity is over. A fresh barrier passes parity 1 at once. */
WR_DEVICE void wr_bar_wait(u32 bar, int parity) {
    asm volatile("{.reg .pred p; L: mbarrier.try_wait.parity.shared.b64 p,[%0],%1; @p bra D; bra L; D:}" ::"r"(bar),
                 "r"(parity)
                 : "memory");
}
/* bytes: a multiple of 16; both addresses 16-byte aligned. Completes on bar. */
WR_DEVICE void wr_bulk_copy(u32 to, const void *from, u32 bytes, u32 bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0],[%1],%2,[%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(bar)
                 : "memory");
}
/* The same of what is read once: it is the first to leave L2 again, where smaller things then stay. */
WR_DEVICE void wr_bulk_copy_once(u32 to, const void *from, u32 bytes, u32 bar) {
    asm volatile("{.reg .b64 policy; createpolicy.fractional.L2::evict_first.b64 policy,1.0;"
                 "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
                 "[%0],[%1],%2,[%3],policy;}" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(bar)
                 : "memory");
}
/* Asks for bytes (a multiple of 16, 16-byte aligned) that will be wanted soon to be brought into L2. */
WR_DEVICE void wr_prefetch_l2(const void *from, u32 bytes) {
    asm volatile("cp.async.bulk.prefetch.L2.global [%0],%1;" ::"l"(from), "r"(bytes) : "memory");
}
/* Ordinary writes to shared memory before this are seen by wgmma and bulk copies after it (and a barrier). */
WR_DEVICE void wr_fence_async(void) { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
#else
WR_DEVICE void wr_bar_init_done(void) {}
WR_DEVICE void wr_bar_wait(u32 bar, int parity) {
    asm volatile("{.reg .pred p; L: mbarrier.test_wait.parity.shared.b64 p,[%0],%1; @p bra D; bra L; D:}" ::"r"(bar),
                 "r"(parity)
                 : "memory");
}
/* Arrive once this thread's copies (wr_cp16) so far have landed. */
WR_DEVICE void wr_bar_arrive_copied(u32 bar) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(bar) : "memory");
}
WR_DEVICE void wr_prefetch_l2(const void *, u32) {}
WR_DEVICE void wr_fence_async(void) {}
#endif

/* ---- tensor cores ---- */

/* c += a b^T: a 16x16 (row), b 16x8 (col), bf16; c f32. */
WR_DEVICE void wr_mma_bf16(float *c, const u32 *a, u32 b0, u32 b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
WR_DEVICE void wr_mma_f16(float *c, const u32 *a, u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

#if WR_HAS_WGMMA
#include "cuda/kernels/hopper.cuh"
#endif
#endif /* WR_EMULATE */

/* The swizzled 128-byte layout of wgmma operands: 16-byte piece c of 128-byte row r lies at piece c ^ (r & 7).
 * Descriptor of a tile of bf16 in that layout at shared address a (1,024-byte aligned rows of 8): K-major operands
 * have stride_bytes 1,024 between groups of 8 rows, lead_bytes is then unused (1). MN-major: see the PTX manual. */
WR_DEVICE u64 wr_wgmma_desc(u32 a, u32 lead_bytes, u32 stride_bytes) {
    return (u64)((a & 0x3FFFF) >> 4) | (u64)(lead_bytes >> 4) << 16 | (u64)(stride_bytes >> 4) << 32 | 1ull << 62;
}

#endif
