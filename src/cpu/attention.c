/* Attention over paged and plain keys and values.
 *
 * Contract. A row's bits depend on its own q and on the keys and values it sees, on nothing else: not on the other
 * rows of the call, the number of threads, or whether it came alone or in a chunk. The sum is defined so that both
 * tiers, one token and tile, and any split of work can follow it exactly:
 *   - score: for each of L lanes a chain of fused multiply-adds over the columns d = lane, lane + L, ..., then the
 *     tree of neighbours over the lanes (L = 4, 8, 16 for plain C, AVX2, AVX-512: levels differ in the last bits);
 *   - blocks of 64 keys at fixed positions, online softmax, f32; the sum of weights of a block: chains over its
 *     vectors, then the tree of lanes; P V: a chain over the keys in order;
 *   - spans (256 keys, 1024 from position 4096 on): each begins anew and is merged into the total in order, always.
 * Keys outside a row's range are not read for it: one token reads exactly its range, a tile the union of its rows. Keys
 * that a mask hides are read, but nothing of them comes into the row; a mask that hides none and adds 0 changes no bit.
 *
 * Work: 2 (D + E) operations a row and key; bytes: (D + E) * size of an element of K and V a key and KV head, once
 * for all heads of the group in the one-token tier, once for a tile of 48 rows (24 from width 128 on) in the other.
 *
 * Measured by bench/bench_attention.c: EPYC (Zen 3), 2 cores, 2026-11-29, AVX2, f16 pages of 16, two threads. The
 * machine was shared with up to 16 busy processes, so the figures are by CPU time of both threads (median of 41), not
 * by the clock. Limits in the same hour, one core: FMA 91 GFLOP/s; reads of 64 MB 12 GB/s, of every third 128 bytes 7.
 *
 *   - prefill 512, 9 heads (3 KV) of 64: 4.9 ms, 62 GFLOP/s;
 *   - prefill 1500, same heads: 38.9 ms, 67 GFLOP/s;
 *   - 64 rows at 1024, same heads: 2.3 ms, 64 GFLOP/s;
 *   - prefill 512, 14 heads (2 KV) of 64: 8.4 ms, 56 GFLOP/s;
 *   - prefill 512, 4 heads (1 KV) of 256: 7.3 ms, 74 GFLOP/s;
 *   - prefill 512, 32 heads (8 KV) of 128: 31.3 ms, 69 GFLOP/s;
 *   - decode at 128, 9 heads (3 KV) of 64: 5.4 us, 18.3 GB/s;
 *   - decode at 1024, same, KV in cache: 87 us, 9.0 GB/s; KV of 30 layers in turn: 159 us, 5.0 GB/s;
 *   - decode at 8192, same: 1057 us, 6.0 GB/s;
 *   - decode of 8 sequences at 512, same: 558 us, 5.6 GB/s;
 *   - decode at 1024, 4 heads (1 KV) of 256: 179 us, 5.9 GB/s.
 *
 * Asking for V while K is read and for the next K while V is read took decode over 30 layers from 403 to 246 us (one
 * thread), and prefill, with the pieces of one KV head after each other, from 12.6 to 8.9 ms.
 *
 * Dropped: K kept row-wise in the tile tier with dot products along D (a horizontal sum for every score, 8 FMAs at
 * D = 64); transposing K in the one-token tier (24 shuffles for 8 x 8 values, against 9 for 4 horizontal sums). */
#define WR_VEC 0
#include "cpu/vec_simd.h"

#include "cpu/attention_body.h"
#include "cpu/fast.h"
#include "cpu/isa.h"

static bool is_i32(const wr_tensor *t) { return t->dtype == WEIR_DTYPE_I32; }

static bool paged_fits(const wr_step *step) {
    const wr_tensor *in = step->in;
    const wr_attention_args *args = step->args;
    if (args->has_mask && !is_float_dtype(in[6].dtype) && in[6].dtype != WEIR_DTYPE_BOOL) return false;
    return !args->tiled && !args->has_rope && is_float_dtype(in[0].dtype) && step->out.dtype == in[0].dtype &&
           is_float_dtype(in[1].dtype) && is_float_dtype(in[2].dtype) && is_i32(&in[3]) && is_i32(&in[4]) &&
           is_i32(&in[5]) && in[1].shape[1] % SEGMENT == 0 && in[0].shape[2] <= 512 && in[2].shape[3] <= 512 &&
           in[1].shape[2] > 0 && in[0].shape[1] % in[1].shape[2] == 0 &&
           (!args->has_sinks || in[6 + args->has_mask].dtype == WEIR_DTYPE_F32);
}

static bool plain_fits(const wr_step *step) {
    const wr_tensor *in = step->in;
    const wr_attention_args *args = step->args;
    for (int i = 0; i < 3; i++)
        if (!is_float_dtype(in[i].dtype) || in[i].n_dims != 4 || in[i].shape[3] > 512 ||
            (in[i].strides[3] != 1 && in[i].shape[3] > 1))
            return false;
    if (step->out.dtype != in[0].dtype || in[1].shape[1] == 0 || in[0].shape[1] % in[1].shape[1]) return false;
    if (args->has_mask && !is_float_dtype(in[3].dtype) && in[3].dtype != WEIR_DTYPE_BOOL) return false;
    return !args->has_sinks || in[3 + args->has_mask].dtype == WEIR_DTYPE_F32;
}

static void zero_turns(const wr_step *step, int thread, int n_threads) {
    (void)n_threads;
    if (thread == 0) memset(step->scratch, 0, WR_ATTENTION_SLOTS * sizeof(wr_attention_turns));
}
static size_t turns_bytes(const wr_step *step) {
    (void)step;
    return WR_ATTENTION_SLOTS * sizeof(wr_attention_turns);
}

static bool paged_fits_avx2(const wr_step *step) { return wr_cpu_level() >= WR_CPU_AVX2 && paged_fits(step); }
static bool paged_fits_avx512(const wr_step *step) { return wr_cpu_level() >= WR_CPU_AVX512 && paged_fits(step); }
static bool plain_fits_avx2(const wr_step *step) { return wr_cpu_level() >= WR_CPU_AVX2 && plain_fits(step); }
static bool plain_fits_avx512(const wr_step *step) { return wr_cpu_level() >= WR_CPU_AVX512 && plain_fits(step); }

#define PAGED_ROW(isa, fits_isa)                                                                                       \
    {                                                                                                                  \
        .name = #isa, .fits = fits_isa, .run = wr_paged_attention_##isa,                                               \
        .scratch_bytes = wr_paged_attention_scratch_##isa, .prepare = zero_turns, .prepare_inputs = 1u << 5,           \
        .prepare_bytes = turns_bytes                                                                                   \
    }
#define PLAIN_ROW(isa, fits_isa)                                                                                       \
    { .name = #isa, .fits = fits_isa, .run = wr_attention_##isa, .scratch_bytes = wr_attention_scratch_##isa }

const wr_kernel_row wr_cpu_paged_attention_rows[] = {
#if defined(WR_CPU_X86)
    PAGED_ROW(avx512, paged_fits_avx512),
    PAGED_ROW(avx2, paged_fits_avx2),
#endif
    PAGED_ROW(portable, paged_fits),
    {0}};

const wr_kernel_row wr_cpu_attention_rows[] = {
#if defined(WR_CPU_X86)
    PLAIN_ROW(avx512, plain_fits_avx512),
    PLAIN_ROW(avx2, plain_fits_avx2),
#endif
    PLAIN_ROW(portable, plain_fits),
    {0}};

WR_VEC_END
