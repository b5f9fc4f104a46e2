/* The definition of attention's bits, shared by the decode, prefill and reference kernels over bf16 and f16 keys.
 *
 * For one query row at position p and one head:
 *   - Keys are cut at fixed absolute positions into blocks of 128 keys (64 from head_dim 192 on) and blocks into spans,
 *     whose length grows with position (wr_attn_span_*).
 *   - score = q . k, a chain over head_dim in k16 steps of m16n8k16, started at 0 (head_dim padded with zeros to a
 *     multiple of 16). With softcap: wr_attn_score. Keys that p does not see (after p, before its window, on no page)
 *     score -inf.
 *   - Each span starts at m = -inf, l = 0, o = 0. Per block, in order: m' = max(m, scores); a = wr_attn_decay(m, m');
 *     weights w = wr_attn_weight(score, m'); l = fma(l, a, sum w); o = o * a, then the chain o += w v over the block's
 *     keys in k16 steps, w rounded once to the type of v. Sums use unrounded weights.
 *   - sum w: a block is four groups of block / 4 keys. In a group, lane t of four adds, from 0, w[8 n + 2 t] and
 *     w[8 n + 2 t + 1] for n = 0, 1, ...; then lanes are added by xor 1, then xor 2. The groups: ((0 + 1) + 2) + 3.
 *   - Spans are merged in rising order, from m = -inf, l = 0, o = 0, by wr_attn_merge. Also a single one.
 *   - A sink is one more merge: wr_attn_sink. Result: wr_attn_inverse(l) * o, rounded to the output's type.
 *   - A mask (reference kernels only) hides keys: those where it is false or -inf, and those behind its last one, score
 *     -inf. Else wr_attn_masked adds what it holds to the score. From the row's first block on in which that is not 0,
 *     weights are wr_attn_far_weight(score, m'). So a mask that is true, or 0, for all that p sees changes no bit, and 0
 *     and -inf have the bits of true and false.
 * A block without a visible key leaves m, l and o as they are, and so does a span without one; so kernels may process
 * or skip them as they like (only the sign of an o that underflowed to -0 could tell). Keys that no row of a tile sees
 * must be stored as zeros in shared memory, since 0 * NaN is NaN. */
#ifndef WR_CUDA_KERNELS_ATTENTION_CUH
#define WR_CUDA_KERNELS_ATTENTION_CUH

#include "cuda/kernels/attention.h"
#include "cuda/kernels/eights.cuh"

#define WR_ATTN_NONE wr_bits_f32(0xFF800000u) /* -inf */

/* ---- spans ----
 * Short ones first, so that a short context is shared by several multiprocessors; long ones later, so that there are
 * few partial results. Blocks of 128: 128 keys up to 512, 256 up to 4,096, 512 up to 8,192, 1,024 up to 65,536, then
 * 2,048. Blocks of 64: half of all that. */

/* The span that holds block b; the first block of span s (its end is the first block of span s + 1). The host's
 * max_spans (cuda/attention.c) says the same. */
WR_DEVICE constexpr int wr_attn_span_of(i64 b) {
    return b < 4     ? (int)b
           : b < 32  ? (int)(4 + (b - 4) / 2)
           : b < 64  ? (int)(18 + (b - 32) / 4)
           : b < 512 ? (int)(26 + (b - 64) / 8)
                     : (int)(82 + (b - 512) / 16);
}
WR_DEVICE constexpr i64 wr_attn_span_begin(int s) {
    return s < 4    ? s
           : s < 18 ? 4 + (i64)(s - 4) * 2
           : s < 26 ? 32 + (i64)(s - 18) * 4
           : s < 82 ? 64 + (i64)(s - 26) * 8
                    : 512 + (i64)(s - 82) * 16;
}
static_assert(wr_attn_span_begin(4) == 4 && wr_attn_span_begin(18) == 32 && wr_attn_span_begin(26) == 64 &&
                  wr_attn_span_begin(82) == 512,
              "tiers meet");
static_assert(wr_attn_span_of(4) == 4 && wr_attn_span_of(32) == 18 && wr_attn_span_of(64) == 26 &&
                  wr_attn_span_of(512) == 82,
              "tiers meet");

/* The first and the last key that a row sees; last < first: none. n_keys: positions from there on hold nothing. */
WR_DEVICE i64 wr_attn_first_key(i64 pos, i64 window) {
    return window > 0 && pos - window + 1 > 0 ? pos - window + 1 : 0;
}
WR_DEVICE i64 wr_attn_last_key(i64 pos, i64 n_keys) { return pos < n_keys ? pos : n_keys - 1; }

/* ---- numbers ---- */

/* A dot product as a score: softcap * tanh(softcap_scale * dot), with tanh x = 1 - 2 / (1 + e^2x). Near 0 that is right
 * to 1e-7 of the cap, which is all that weights in bf16 could show, and it costs no branch. */
WR_DEVICE float wr_attn_score(float dot, float softcap, float softcap_scale) {
    if (!(softcap > 0.0f)) return dot;
    float e = wr_ex2(dot * softcap_scale * 2.8853900817779268f); /* 2 log2 e */
    return fmaf(softcap * -2.0f, 1.0f / (1.0f + e), softcap);
}
/* What a maximum takes off in the exponent. */
WR_DEVICE float wr_attn_offset(float m, float c) { return m == WR_ATTN_NONE ? 0.0f : m * c; }
/* c > 0; a score of -inf weighs 0. offset = wr_attn_offset(m, c). */
WR_DEVICE float wr_attn_weight(float score, float offset, float c) { return wr_ex2(fmaf(score, c, -offset)); }
/* The same to rounding, for scores that a mask may have moved far away: there m * c is off by more than weights bear. m
 * is not -inf. */
WR_DEVICE float wr_attn_far_weight(float score, float m, float c) { return wr_ex2((score - m) * c); }
/* A score with what a mask adds to it, given in units of scale * dot. Finite stays finite: a row whose keys all have the
 * lowest number is not one that sees nothing. */
WR_DEVICE float wr_attn_masked(float score, float added, float factor) {
    const float most = 3.402823466e38f, x = added * factor;
    return score + (added - added == 0.0f ? fminf(fmaxf(x, -most), most) : x);
}
/* What the sums so far are worth when the maximum rises from `from` to `to`; exactly 1 when it does not. */
WR_DEVICE float wr_attn_decay(float from, float to, float c) {
    return from == WR_ATTN_NONE ? 0.0f : wr_ex2((from - to) * c);
}
/* Merge span (ms, ls, os) into the total: a and b first, then l and every o by wr_attn_fold. */
WR_DEVICE float wr_attn_merge(float *m, float ms, float c, float *a, float *b) {
    float to = fmaxf(*m, ms);
    *a = wr_attn_decay(*m, to, c);
    *b = wr_attn_decay(ms, to, c);
    return *m = to;
}
WR_DEVICE float wr_attn_fold(float total, float a, float part, float b) { return fmaf(total, a, part * b); }
/* The sink of a head: changes l, returns the factor of o. */
WR_DEVICE float wr_attn_sink(float m, float *l, float sink, float c) {
    if (!(sink > WR_ATTN_NONE)) return 1.0f;
    float exponent = m == WR_ATTN_NONE ? WR_ATTN_NONE : m * c, s = sink * 1.4426950408889634f, to = fmaxf(exponent, s),
          a = m == WR_ATTN_NONE ? 0.0f : wr_ex2(exponent - to);
    *l = fmaf(*l, a, wr_ex2(s - to));
    return a;
}
WR_DEVICE float wr_attn_inverse(float l) { return l == 0.0f ? 0.0f : 1.0f / l; }

/* ---- types ---- */

WR_DEVICE int wr_attn_dtype(int type) {
    return type == WR_ATTN_F32 ? WEIR_DTYPE_F32 : type == WR_ATTN_BF16 ? WEIR_DTYPE_BF16 : WEIR_DTYPE_F16;
}
/* Two weights in the type of v; kv_type WR_ATTN_BF16 or WR_ATTN_F16. */
template <int KV> WR_DEVICE u32 wr_attn_pack(float lo, float hi) {
    return KV == WR_ATTN_F16 ? wr_pack_f16(lo, hi) : wr_pack_bf16(lo, hi);
}
template <int KV> WR_DEVICE void wr_attn_mma(float *c, const u32 *a, u32 b0, u32 b1) {
    if (KV == WR_ATTN_F16)
        wr_mma_f16(c, a, b0, b1);
    else
        wr_mma_bf16(c, a, b0, b1);
}
WR_DEVICE float wr_attn_load(const void *p, i64 at, int type) {
    if (type == WR_ATTN_F32) return ((const float *)p)[at];
    u16 x = ((const u16 *)p)[at];
    return type == WR_ATTN_BF16 ? wr_bf16_to_f32(x) : wr_f16_to_f32(x);
}
WR_DEVICE void wr_attn_store(void *p, i64 at, int type, float x) {
    if (type == WR_ATTN_F32)
        ((float *)p)[at] = x;
    else
        ((u16 *)p)[at] = type == WR_ATTN_BF16 ? wr_f32_to_bf16(x) : wr_f32_to_f16(x);
}

/* Lane i has the page of keys 64 (first + i) of the sequence, -1 where there is none. */
WR_DEVICE i32 wr_attn_pages_from(const wr_attn_params *p, int seq, i64 first) {
    const i64 i = first + threadIdx.x % 32;
    if (seq < 0 || seq >= p->n_seqs || i >= p->max_pages) return -1;
    const i32 page = (i32)wr_load4_kept(p->table + (i64)seq * p->max_pages + i);
    return page < p->n_pages ? page : -1;
}

#endif
