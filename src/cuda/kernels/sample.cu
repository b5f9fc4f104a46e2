/* SAMPLE: one token a row of logits, and the log-probabilities that were asked for.
 *
 * Contract (array/sample.h): the rules of engine/sampler.c. Logits after penalties and bias are computed again wherever
 * they are needed, by the same f32 operations, so they need no memory. A logit becomes a key, an unsigned number in the
 * same order (NaN 0); key and id together are different for all tokens, and "better" is exact. A weight is
 * exp((logit - max) / temperature) in whole units of 2^-44; weights below one unit count as nothing. Sums of whole
 * numbers do not depend on their order, hence neither on slices nor on which block comes last; what is decided from
 * them (top_p's and the draw's place) is exact. Against the CPU, which adds doubles, only a draw within about 2^-22 of
 * the border between two tokens may differ.
 *
 * Three kernels. scan: a block a slice of 8,192 logits finds its best token and, where log-probabilities are wanted,
 * its sum of exponentials; it clears the row's scratch. draw: greedy rows are done by one block. Others: each slice
 * adds its weights: one sum where tokens are taken in the order of ids (neither top_k nor top_p), else a histogram over
 * 2,048 bins of equal width in logits; the block that comes last places the cuts and the draw: the bin by prefix sums,
 * then the tokens of that bin, sorted. A bin of more than 2,048 tokens is cut down first, ten bits of (key, id) at a
 * time. top: a block a row finds the n best raw logits in the same manner, where they are wanted.
 *
 * Bytes: 4 V a row for greedy; 8 V + 24 KiB (there and back) with a draw in the order of ids, 12 to 20 V with cuts, of
 * which all but the first 4 V come from L2. Operations: an exponential a logit; three shared atomics in a histogram.
 *
 * Measured: docs/kernels.md.
 *
 * Dropped: sorting all candidates (a sort of V items costs what eight passes do, and only a prefix is used); a radix
 * histogram on the key's upper bits (a few bins hold nearly all logits, so its atomics collide); weights as doubles (a
 * fixed tree over sorted candidates would be needed to keep sums independent of slices). */
#include "cuda/kernels/device.cuh"
#include "cuda/kernels/sample.h"

enum {
    THREADS = WR_SAMPLE_THREADS,
    WARPS = THREADS / 32,
    BLOOM_BITS = 8192, /* which ids may have a bias; others need no look at the list */
    BATCH = 4,         /* logits of a thread at once */
    LIST = 2048,       /* tokens that are sorted in shared memory */
    DIGIT_BITS = 10,
    DIGITS = 1 << DIGIT_BITS,
    ID_BITS = 28,
    PLACE_BITS = 60
};
#define ALL_LANES    0xFFFFFFFFu
#define UNIT         0x1p44f /* of weights */
#define FARTHEST     31.0f   /* exp(-31) is below one unit */
#define BINS_OF_ONE  66.0f   /* bins of a distance of 1: 31 * 66 = 2,046 */
#define KEY_INFINITE 0xFF800000u
#define KEY_LEAST    0x007FFFFFu /* of -infinity */
#define LOWEST       -1e30

/* What a row's logits are changed by. */
typedef struct view {
    const float *logits;
    const u32 *counts; /* NULL: no penalties */
    const wr_sample_bias *bias;
    int n_bias;
    bool repeats;
    float repetition, presence, frequency;
    const u32 *bloom;
} view;

/* Shared memory of a block. */
typedef struct room {
    u32 *bloom;  /* [BLOOM_BITS / 32] */
    u64 *warps;  /* [WARPS] */
    u64 *items;  /* [LIST] */
    u64 *weight; /* [BINS] */
    u32 *count;  /* [BINS] */
    u64 *note;   /* [NOTES]: what one thread tells the others */
    view *seen;
} room;
enum { NOTE_BIN, NOTE_COUNT, NOTE_WEIGHT, NOTE_ID, NOTE_SIZE, NOTE_LAST, NOTE_ALL_COUNT, NOTE_ALL_WEIGHT, NOTES };

#define ROOM(name)                                                                                                     \
    WR_SHARED_ARRAY(u32, bloom_, BLOOM_BITS / 32);                                                                     \
    WR_SHARED_ARRAY(u64, warps_, WARPS);                                                                               \
    WR_SHARED_ARRAY(u64, items_, LIST);                                                                                \
    WR_SHARED_ARRAY(u64, weight_, WR_SAMPLE_BINS);                                                                     \
    WR_SHARED_ARRAY(u32, count_, WR_SAMPLE_BINS);                                                                      \
    WR_SHARED_ARRAY(u64, note_, NOTES);                                                                                \
    WR_SHARED_ARRAY(view, view_, 1);                                                                                   \
    const room name = {bloom_, warps_, items_, weight_, count_, note_, view_}

/* ---- a row ---- */

WR_DEVICE u32 *counts_of(const wr_sample_params &p, const wr_sample_row &row) {
    return p.counts && row.slot >= 0 && row.slot < p.n_slots ? p.counts + (i64)row.slot * p.vocab : nullptr;
}

/* The row's view, in shared memory, as registers are few. */
WR_DEVICE const view &view_of(const wr_sample_params &p, const wr_sample_row &row, int r, u32 *bloom, view *v) {
    if (threadIdx.x == 0) {
        v->logits = p.logits + (i64)r * p.vocab;
        v->counts = nullptr, v->bias = nullptr, v->n_bias = 0, v->bloom = bloom;
        v->repetition = row.repetition_penalty, v->presence = row.presence_penalty,
        v->frequency = row.frequency_penalty;
        v->repeats = v->repetition != 0 && v->repetition != 1;
        if (v->repeats || v->presence != 0 || v->frequency != 0) v->counts = counts_of(p, row);
        if (row.n_bias && row.bias_offset % 8 == 0 && row.bias_offset < p.table_bytes) {
            i64 room_for = (p.table_bytes - row.bias_offset) / 8;
            v->bias = (const wr_sample_bias *)(p.table + row.bias_offset);
            v->n_bias = (int)(row.n_bias < room_for ? row.n_bias : room_for);
        }
    }
    __syncthreads();
    if (v->n_bias) {
        for (int i = threadIdx.x; i < BLOOM_BITS / 32; i += THREADS) bloom[i] = 0;
        __syncthreads();
        for (int i = threadIdx.x; i < v->n_bias; i += THREADS) {
            u32 bit = (u32)v->bias[i].token % BLOOM_BITS;
            atomicOr(&bloom[bit / 32], 1u << bit % 32);
        }
        __syncthreads();
    }
    return *v;
}

/* The logit after penalties and bias; pairs of one token add in their order. A true call: it is rare, and large. */
static __device__ __noinline__ float adjusted(const view *v, int id, float l) {
    u32 seen = v->counts ? v->counts[id] : 0;
    if (seen) {
        if (v->repeats) l = l > 0 ? l / v->repetition : l * v->repetition;
        u32 n = seen & ~WR_SAMPLE_IN_PROMPT;
        if (n) l -= v->presence + v->frequency * (float)n;
    }
    u32 bit = (u32)id % BLOOM_BITS;
    if (v->n_bias && v->bloom[bit / 32] >> bit % 32 & 1)
        for (int i = 0; i < v->n_bias; i++)
            if (v->bias[i].token == id) l += v->bias[i].bias;
    return l;
}
WR_DEVICE float adjust(const view &v, int id, float l) { return v.counts || v.n_bias ? adjusted(&v, id, l) : l; }

WR_DEVICE u32 key_of(float l) {
    if (l != l) return 0;
    u32 bits = wr_f32_bits(l + 0.0f); /* -0 becomes 0 */
    return bits >> 31 ? ~bits : bits | 0x80000000u;
}
WR_DEVICE float logit_of(u32 key) { return wr_bits_f32(key >> 31 ? key & 0x7FFFFFFFu : ~key); }
/* Places in falling order: a better token has the smaller one. */
WR_DEVICE u64 place_of(u32 key, int id) { return (u64)(u32)~key << ID_BITS | (u64)(u32)id; }
WR_DEVICE u32 key_at(u64 place) { return ~(u32)(place >> ID_BITS); }
WR_DEVICE int id_at(u64 place) { return (int)(place & ((1ull << ID_BITS) - 1)); }

/* Logits first, first + step, .. as they came; NaN from the end on. All loads are on their way at once. */
WR_DEVICE void fetch_raw(float *l, const float *logits, int first, int step, int end) {
#pragma unroll
    for (int i = 0; i < BATCH; i++) {
        int id = first + i * step;
        l[i] = id < end ? logits[id] : wr_bits_f32(0x7FC00000u);
    }
}
/* The same as they are drawn from. */
WR_DEVICE void fetch(float *l, const view &v, int first, int step, int end) {
    fetch_raw(l, v.logits, first, step, end);
#pragma unroll
    for (int i = 0; i < BATCH; i++)
        if (first + i * step < end) l[i] = adjust(v, first + i * step, l[i]);
}

WR_DEVICE wr_sample_state *state_of(const wr_sample_params &p, int r) {
    return (wr_sample_state *)(p.scratch + (i64)r * p.row_bytes);
}
WR_DEVICE wr_sample_part *parts_of(const wr_sample_params &p, int r) { return (wr_sample_part *)(state_of(p, r) + 1); }

/* ---- a block ---- */

WR_DEVICE u64 block_max(u64 x, u64 *warps) {
    for (int gap = 16; gap; gap /= 2) {
        u64 other = __shfl_xor_sync(ALL_LANES, x, gap);
        x = other > x ? other : x;
    }
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
    __syncthreads();
    for (int w = 0; w < WARPS; w++) x = warps[w] > x ? warps[w] : x;
    __syncthreads();
    return x;
}
/* Sum of the threads before this one; *total: of all. */
WR_DEVICE u64 block_before(u64 x, u64 *warps, u64 *total) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    u64 sum = x;
    for (u32 gap = 1; gap < 32; gap *= 2) {
        u64 other = __shfl_up_sync(ALL_LANES, sum, gap);
        if (lane >= (int)gap) sum += other;
    }
    if (lane == 31) warps[warp] = sum;
    __syncthreads();
    u64 before = sum - x;
    *total = 0;
    for (int w = 0; w < WARPS; w++) {
        if (w < warp) before += warps[w];
        *total += warps[w];
    }
    __syncthreads();
    return before;
}
WR_DEVICE u64 block_sum(u64 x, u64 *warps) {
    u64 total;
    block_before(x, warps, &total);
    return total;
}
/* In a fixed order; needs room for WARPS. */
WR_DEVICE double block_sum_ordered(double x, double *warps) {
    for (int gap = 16; gap; gap /= 2) x = x + __shfl_xor_sync(ALL_LANES, x, gap);
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
    __syncthreads();
    double sum = 0;
    for (int w = 0; w < WARPS; w++) sum = sum + warps[w];
    __syncthreads();
    return sum;
}

/* Sorts n items, at most LIST; smallest first. */
WR_DEVICE void block_sort(u64 *items, int n) {
    int size = 1;
    while (size < n) size *= 2;
    for (int i = n + (int)threadIdx.x; i < size; i += THREADS) items[i] = ~0ull;
    __syncthreads();
    for (int run = 2; run <= size; run *= 2)
        for (int gap = run / 2; gap; gap /= 2) {
            for (int pair = threadIdx.x; pair < size / 2; pair += THREADS) {
                int low = pair / gap * gap * 2 + pair % gap, high = low + gap;
                u64 a = items[low], b = items[high];
                if ((b < a) == !(low & run)) items[low] = b, items[high] = a;
            }
            __syncthreads();
        }
}

/* log(sum(exp(raw logits))); NaN when there is no finite sum. */
WR_DEVICE double row_logsumexp(const wr_sample_params &p, int r, const room &m) {
    const wr_sample_part *parts = parts_of(p, r);
    u64 key = 0;
    for (int s = threadIdx.x; s < p.n_slices; s += THREADS) {
        u64 k = key_of(parts[s].raw_max);
        key = k > key ? k : key;
    }
    key = block_max(key, m.warps);
    double max = (double)logit_of((u32)key), sum = 0;
    for (int s = threadIdx.x; s < p.n_slices; s += THREADS)
        if (parts[s].raw_sum) sum = sum + (double)parts[s].raw_sum * 0x1p-44 * exp((double)parts[s].raw_max - max);
    sum = block_sum_ordered(sum, (double *)m.items);
    bool finite = key > KEY_LEAST && key < KEY_INFINITE;
    return finite ? max + log(sum) : (double)wr_bits_f32(0x7FC00000u);
}
WR_DEVICE i32 logprob_bits(float logit, double lse) {
    double x = (double)logit - lse;
    return (i32)wr_f32_bits((float)(x > LOWEST ? x : LOWEST));
}

/* All threads of one block: the row's result. */
WR_DEVICE void finish(const wr_sample_params &p, const wr_sample_row &row, int r, int token, const room &m) {
    i32 bits = 0;
    if (row.flags & WR_SAMPLE_LOGPROB && token >= 0) {
        double lse = row_logsumexp(p, r, m);
        bits = logprob_bits(p.logits[(i64)r * p.vocab + token], lse);
    }
    if (threadIdx.x) return;
    i32 *out = p.out + (i64)r * p.out_width;
    out[0] = (i32)token, out[1] = 0, out[2] = bits, out[3] = 0;
    u32 *counts = counts_of(p, row);
    if (row.flags & WR_SAMPLE_COUNT && counts && token >= 0) counts[token]++;
}

/* ---- scan ---- */

WR_KERNEL(wr_sample_scan, wr_sample_params, WR_SAMPLE_THREADS, 2) {
    WR_SHARED_ARRAY(u32, bloom, BLOOM_BITS / 32);
    WR_SHARED_ARRAY(u64, warps, WARPS);
    WR_SHARED_ARRAY(view, seen, 1);
    wr_grid_launch();
    wr_grid_wait();
    const u32 n_slices = (u32)p.n_slices;
    const int r = (int)(blockIdx.x / n_slices), slice = (int)(blockIdx.x % n_slices);
    const wr_sample_row &row = ((const wr_sample_row *)p.table)[r];
    if (row.flags & WR_SAMPLE_OFF) return;
    const view &v = view_of(p, row, r, bloom, seen);
    if (row.temperature != 0) {
        const int words = (int)sizeof(wr_sample_state) / 4, n = (int)n_slices;
        u32 *state = (u32 *)state_of(p, r);
        for (int i = words * slice / n + (int)threadIdx.x; i < words * (slice + 1) / n; i += THREADS) state[i] = 0;
    }
    const int first = (int)(slice * WR_SAMPLE_SLICE + threadIdx.x), end = (int)p.vocab;
    u64 best = 0, sum = 0;
    u32 largest = 0;
#pragma unroll 1
    for (int e = 0; e < WR_SAMPLE_EACH; e += BATCH) {
        float l[BATCH];
        fetch_raw(l, v.logits, first + e * THREADS, THREADS, end);
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            int id = first + (e + i) * THREADS;
            u32 key = key_of(l[i]);
            largest = key > largest ? key : largest;
            if (id < end) key = key_of(adjust(v, id, l[i]));
            u64 candidate = (u64)key << 32 | (u32)~id;
            best = candidate > best ? candidate : best;
        }
    }
    best = block_max(best, warps);
    float raw_max = wr_bits_f32(0xFF800000u);
    if (row.flags & WR_SAMPLE_LOGPROB || row.n_top > 0) { /* the same for all threads */
        largest = (u32)block_max(largest, warps);
        if (largest) raw_max = logit_of(largest);
        bool finite = largest > KEY_LEAST && largest < KEY_INFINITE;
#pragma unroll 1
        for (int e = 0; finite && e < WR_SAMPLE_EACH; e += BATCH) {
            float l[BATCH];
            fetch_raw(l, v.logits, first + e * THREADS, THREADS, end);
#pragma unroll
            for (int i = 0; i < BATCH; i++)
                if (l[i] == l[i]) sum += (u64)(expf(l[i] - raw_max) * UNIT);
        }
        sum = block_sum(sum, warps);
    }
    if (threadIdx.x) return;
    wr_sample_part *part = parts_of(p, r) + slice;
    part->best = best, part->raw_sum = sum, part->sum = 0, part->raw_max = raw_max, part->unused = 0;
}

/* ---- weights ---- */

typedef struct scale {
    float max, inverse; /* of the temperature; at most FLT_MAX, so that 0 times it is 0 */
    u64 floor;          /* weights below it are dropped by min_p, which comes after the cuts */
} scale;

WR_DEVICE float distance(const scale &s, float l) { return (s.max - l) * s.inverse; }
/* 0 for NaN and -infinity too. */
WR_DEVICE u64 weight_of(float distance_) { return distance_ < FARTHEST ? (u64)(expf(-distance_) * UNIT) : 0; }
WR_DEVICE int bin_of(float distance_) { return (int)(distance_ * BINS_OF_ONE); }

WR_DEVICE scale scale_of(const wr_sample_row &row, float max) {
    scale s = {max, 1 / row.temperature, 1};
    if (s.inverse > 3.4028234e38f) s.inverse = 3.4028234e38f;
    double least = ceil((double)row.min_p * 0x1p44);
    if (least > 1) s.floor = (u64)least;
    return s;
}

/* 53 random bits, as the CPU takes them (base/philox.h). */
WR_DEVICE u64 random_bits(u64 seed, u64 counter) {
    u32 k0 = (u32)seed, k1 = (u32)(seed >> 32), c0 = (u32)counter, c1 = (u32)(counter >> 32), c2 = 0, c3 = 0;
    for (int round = 0; round < 10; round++) {
        u64 p0 = (u64)0xD2511F53u * c0, p1 = (u64)0xCD9E8D57u * c2;
        c0 = (u32)(p1 >> 32) ^ c1 ^ k0;
        c1 = (u32)p1;
        c2 = (u32)(p0 >> 32) ^ c3 ^ k1;
        c3 = (u32)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (u64)c0 << 21 ^ (u64)(c1 >> 11);
}
/* The whole part of u * total, u = bits * 2^-53. */
WR_DEVICE u64 goal_of(u64 bits, u64 total) { return __umul64hi(bits, total) << 11 | bits * total >> 53; }

/* Adds to a 64-bit sum in two words, which shared memory does by itself; the word that overflows says so once. */
WR_DEVICE void add_wide(u32 *low, u32 *high, u64 x) {
    u32 part = (u32)x, old = atomicAdd(low, part), carry = (u32)(x >> 32) + (old + part < old);
    if (carry) atomicAdd(high, carry);
}

/* ---- draws in the order of ids ---- */

WR_DEVICE void add_slice(const wr_sample_params &p, const view &v, const scale &s, int r, int slice, const room &m) {
    u64 sum = 0;
    const int first = (int)(slice * WR_SAMPLE_SLICE + threadIdx.x);
#pragma unroll 1
    for (int e = 0; e < WR_SAMPLE_EACH; e += BATCH) {
        float l[BATCH];
        fetch(l, v, first + e * THREADS, THREADS, (int)p.vocab);
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            u64 w = weight_of(distance(s, l[i]));
            sum += w >= s.floor ? w : 0;
        }
    }
    sum = block_sum(sum, m.warps);
    if (threadIdx.x == 0) parts_of(p, r)[slice].sum = sum;
}

WR_DEVICE int draw_by_id(const wr_sample_params &p, const view &v, const scale &s, int r, u64 bits, const room &m) {
    u64 total = 0;
    for (int i = threadIdx.x; i < p.n_slices; i += THREADS) {
        uint4 half = wr_load16_l2(&parts_of(p, r)[i].sum); /* sum, and more */
        m.items[i] = (u64)half.y << 32 | half.x;
        total += m.items[i];
    }
    total = block_sum(total, m.warps);
    if (threadIdx.x == 0) {
        u64 goal = goal_of(bits, total), sum = 0;
        int i = 0;
        while (i + 1 < p.n_slices && sum + m.items[i] <= goal) sum += m.items[i++];
        m.note[NOTE_BIN] = (u64)i, m.note[NOTE_WEIGHT] = goal - sum;
    }
    __syncthreads();
    const int first = (int)m.note[NOTE_BIN] * WR_SAMPLE_SLICE + (int)threadIdx.x * WR_SAMPLE_EACH;
    u64 goal = m.note[NOTE_WEIGHT], own = 0, unused;
    for (int pass = 0; pass < 2; pass++) { /* once for the sum, once more where the token is */
        u64 sum = pass ? block_before(own, m.warps, &unused) : 0;
        if (pass && (goal < sum || sum + own <= goal)) break;
        int found = -1;
#pragma unroll 1
        for (int e = 0; e < WR_SAMPLE_EACH; e += BATCH) { /* a thread's logits are neighbours here */
            float l[BATCH];
            fetch(l, v, first + e, 1, (int)p.vocab);
#pragma unroll
            for (int i = 0; i < BATCH; i++) {
                u64 w = weight_of(distance(s, l[i]));
                sum += w >= s.floor ? w : 0;
                if (pass && found < 0 && sum > goal) found = first + e + i;
            }
        }
        if (pass) m.note[NOTE_ID] = (u64)found;
        if (!pass) own = sum;
    }
    __syncthreads();
    return (int)m.note[NOTE_ID];
}

/* ---- draws in falling order ---- */

WR_DEVICE void add_histogram(const wr_sample_params &p, const view &v, const scale &s, int r, int slice, bool floors,
                             const room &m) {
    u32 *low = (u32 *)m.weight, *high = low + WR_SAMPLE_BINS;
    for (int b = threadIdx.x; b < WR_SAMPLE_BINS; b += THREADS) low[b] = high[b] = m.count[b] = 0;
    __syncthreads();
    u64 weight = 0, count = 0;
    const int first = (int)(slice * WR_SAMPLE_SLICE + threadIdx.x);
#pragma unroll 1
    for (int e = 0; e < WR_SAMPLE_EACH; e += BATCH) {
        float l[BATCH];
        fetch(l, v, first + e * THREADS, THREADS, (int)p.vocab);
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            float d = distance(s, l[i]);
            u64 w = weight_of(d);
            if (!w) continue;
            int b = bin_of(d);
            atomicAdd(&m.count[b], 1u);
            add_wide(&low[b], &high[b], w);
            if (w >= s.floor) weight += w, count++;
        }
    }
    __syncthreads();
    wr_sample_state *state = state_of(p, r);
    for (int b = threadIdx.x; b < WR_SAMPLE_BINS; b += THREADS)
        if (m.count[b]) {
            atomicAdd((u32 *)&state->count[b], m.count[b]);
            atomicAdd((u64 *)&state->weight[b], (u64)high[b] << 32 | low[b]);
        }
    if (!floors) return;
    weight = block_sum(weight, m.warps);
    count = block_sum(count, m.warps);
    if (threadIdx.x == 0 && count) {
        atomicAdd((u64 *)&state->floor_weight, weight);
        atomicAdd((u32 *)&state->floor_count, (u32)count);
    }
}

/* The tokens under consideration: of a bin (-1: every logit that is a number, as it came), and of a prefix of the
 * place. */
typedef struct range {
    int bin, shift;
    u64 prefix;
} range;

/* l: after penalties and bias, or as it came, as the range wants. */
WR_DEVICE bool in_range(const scale &s, const range &g, bool better_too, int id, float l, u64 *place, u64 *w) {
    *w = 0;
    if (l != l) return false;
    if (g.bin >= 0) {
        float d = distance(s, l);
        if (!(d < FARTHEST) || bin_of(d) != g.bin) return false;
        *w = weight_of(d);
        if (!*w) return false;
    }
    *place = place_of(key_of(l), id);
    u64 prefix = *place >> g.shift;
    return prefix == g.prefix || (better_too && prefix < g.prefix);
}

/* A prefix of the tokens in falling order. */
typedef struct cut {
    u64 count, weight;
} cut;

/* Cuts the range, of more than LIST tokens, to those of the digit in which the goal is reached. before: all tokens
 * before the range. Returns how many are left. */
WR_DEVICE u64 narrow(const wr_sample_params &p, const view &v, const scale &s, range *g, cut *before, u64 goal,
                     bool by_weight, const room &m) {
    u32 *count = (u32 *)m.items, *low = count + DIGITS, *high = low + DIGITS;
    for (int i = threadIdx.x; i < 3 * DIGITS; i += THREADS) count[i] = 0;
    __syncthreads();
#pragma unroll 1
    for (int id = threadIdx.x; id < p.vocab; id += THREADS) { /* rarely done, so short rather than quick */
        u64 place, w;
        if (!in_range(s, *g, false, id, adjust(v, id, v.logits[id]), &place, &w)) continue;
        u32 digit = (u32)(place >> (g->shift - DIGIT_BITS)) % DIGITS;
        atomicAdd(&count[digit], 1u);
        add_wide(&low[digit], &high[digit], w);
    }
    __syncthreads();
    u64 counts[2], weights[2], total;
    int first = 2 * threadIdx.x;
    for (int i = 0; i < 2; i++) {
        counts[i] = count[first + i];
        weights[i] = (u64)high[first + i] << 32 | low[first + i];
    }
    cut at = {before->count + block_before(counts[0] + counts[1], m.warps, &total),
              before->weight + block_before(weights[0] + weights[1], m.warps, &total)};
    for (int i = 0; i < 2; i++) {
        u64 from = by_weight ? at.weight : at.count, own = by_weight ? weights[i] : counts[i];
        if (from < goal && goal <= from + own) {
            m.note[NOTE_BIN] = (u64)(first + i), m.note[NOTE_SIZE] = counts[i];
            m.note[NOTE_COUNT] = at.count, m.note[NOTE_WEIGHT] = at.weight;
        }
        at.count += counts[i], at.weight += weights[i];
    }
    __syncthreads();
    g->prefix = g->prefix << DIGIT_BITS | m.note[NOTE_BIN];
    g->shift -= DIGIT_BITS;
    before->count = m.note[NOTE_COUNT], before->weight = m.note[NOTE_WEIGHT];
    u64 size = m.note[NOTE_SIZE];
    __syncthreads();
    return size;
}

/* The range's tokens into items, sorted; there must be at most LIST. Returns how many. */
WR_DEVICE int collect(const wr_sample_params &p, const view &v, const scale &s, const range &g, bool better_too,
                      const room &m) {
    u32 *size = (u32 *)&m.note[NOTE_SIZE];
    if (threadIdx.x == 0) *size = 0;
    __syncthreads();
#pragma unroll 1
    for (int first_id = threadIdx.x; first_id < p.vocab; first_id += BATCH * THREADS) {
        float l[BATCH];
        fetch(l, v, first_id, THREADS, (int)p.vocab);
#pragma unroll
        for (int i = 0; i < BATCH; i++) {
            u64 place, w;
            if (!in_range(s, g, better_too, first_id + i * THREADS, l[i], &place, &w)) continue;
            u32 at = atomicAdd(size, 1u);
            if (at < LIST) m.items[at] = place;
        }
    }
    __syncthreads();
    int n = (int)*size;
    block_sort(m.items, n);
    return n;
}

/* The list that is in shared memory: of a whole bin, or of nothing (-1). */
typedef struct list {
    int bin, n;
} list;

/* m.weight and m.count hold the sums before each bin, notes those of all bins. The least prefix that reaches the goal,
 * which is from 1 to all; *id: its last token. */
WR_DEVICE cut find(const wr_sample_params &p, const view &v, const scale &s, u64 goal, bool by_weight, list *kept,
                   int *id, const room &m) {
    for (int b = threadIdx.x; b < WR_SAMPLE_BINS; b += THREADS) {
        bool last = b + 1 == WR_SAMPLE_BINS;
        u64 from = by_weight ? m.weight[b] : m.count[b];
        u64 to = by_weight ? (last ? m.note[NOTE_ALL_WEIGHT] : m.weight[b + 1])
                 : last    ? m.note[NOTE_ALL_COUNT]
                           : m.count[b + 1];
        if (from < goal && goal <= to) m.note[NOTE_BIN] = (u64)b;
    }
    __syncthreads();
    int b = (int)m.note[NOTE_BIN];
    cut before = {m.count[b], m.weight[b]};
    u64 n = (b + 1 == WR_SAMPLE_BINS ? m.note[NOTE_ALL_COUNT] : m.count[b + 1]) - before.count;
    __syncthreads();
    if (kept->bin != b) {
        range g = {b, PLACE_BITS, 0};
        kept->bin = n > LIST ? -1 : b;
        while (n > LIST) n = narrow(p, v, s, &g, &before, goal, by_weight, m);
        kept->n = collect(p, v, s, g, false, m);
    }
    enum { EACH = LIST / THREADS };
    u64 weights[EACH], own = 0, total;
    int first = EACH * threadIdx.x;
    for (int i = 0; i < EACH; i++) {
        weights[i] = first + i < kept->n ? weight_of(distance(s, logit_of(key_at(m.items[first + i])))) : 0;
        own += weights[i];
    }
    u64 weight = before.weight + block_before(own, m.warps, &total);
    for (int i = 0; i < EACH && first + i < kept->n; i++) {
        u64 count = before.count + (u64)(first + i) + 1;
        bool reached = by_weight ? weight < goal && goal <= weight + weights[i] : count == goal;
        weight += weights[i];
        if (!reached) continue;
        m.note[NOTE_COUNT] = count, m.note[NOTE_WEIGHT] = weight;
        m.note[NOTE_ID] = (u64)id_at(m.items[first + i]);
    }
    __syncthreads();
    cut found = {m.note[NOTE_COUNT], m.note[NOTE_WEIGHT]};
    *id = (int)m.note[NOTE_ID];
    __syncthreads();
    return found;
}

/* The row's histogram becomes the sums before each bin, in shared memory. */
WR_DEVICE cut load_histogram(const wr_sample_state *state, const room &m) {
    enum { EACH = WR_SAMPLE_BINS / THREADS };
    int first = EACH * threadIdx.x;
    u64 weights[EACH], counts[EACH], weight = 0, count = 0;
    for (int i = 0; i < EACH; i += 2) {
        uint4 two = wr_load16_l2(&state->weight[first + i]);
        weights[i] = (u64)two.y << 32 | two.x, weights[i + 1] = (u64)two.w << 32 | two.z;
        weight += weights[i] + weights[i + 1];
    }
    uint4 four = wr_load16_l2(&state->count[first]);
    counts[0] = four.x, counts[1] = four.y, counts[2] = four.z, counts[3] = four.w;
    for (int i = 0; i < EACH; i++) count += counts[i];
    cut all;
    weight = block_before(weight, m.warps, &all.weight);
    count = block_before(count, m.warps, &all.count);
    for (int i = 0; i < EACH; i++) {
        m.weight[first + i] = weight, m.count[first + i] = (u32)count;
        weight += weights[i], count += counts[i];
    }
    if (threadIdx.x == 0) m.note[NOTE_ALL_COUNT] = all.count, m.note[NOTE_ALL_WEIGHT] = all.weight;
    __syncthreads();
    return all;
}

WR_DEVICE int draw_by_rank(const wr_sample_params &p, const wr_sample_row &row, const view &v, const scale &s, int r,
                           u64 bits, const room &m) {
    const wr_sample_state *state = state_of(p, r);
    cut left = load_histogram(state, m); /* the prefix that is left by the cuts so far: all */
    list kept = {-1, 0};
    int id = -1;
    enum { TOP_K, TOP_P, DRAW, STAGES };
#pragma unroll 1
    for (int stage = TOP_K; stage < STAGES; stage++) {
        u64 goal;
        if (stage == TOP_K) {
            if (row.top_k <= 0 || (u64)row.top_k >= left.count) continue;
            goal = (u64)row.top_k;
        } else if (stage == TOP_P) {
            if (!(row.top_p > 0 && row.top_p < 1)) continue;
            double share = ceil((double)row.top_p * (double)left.weight);
            goal = share > 1 ? (u64)share : 1;
        } else {
            uint4 floor = wr_load16_l2(&state->floor_weight);
            const cut rest = {floor.z, (u64)floor.y << 32 | floor.x};
            if (row.min_p > 0 && rest.count < left.count) left = rest;
            goal = goal_of(bits, left.weight) + 1;
        }
        left = find(p, v, s, goal, stage != TOP_K, &kept, &id, m);
    }
    return id;
}

/* False: another block does what is left. The slices of a row agree on what they see. */
WR_DEVICE bool choose(const wr_sample_params &p, const wr_sample_row &row, int r, int slice, const room &m,
                      int *token) {
    *token = -1;
    if (row.flags & WR_SAMPLE_OFF || (row.temperature == 0 && slice)) return slice == 0;
    u64 best = 0;
    for (int i = threadIdx.x; i < p.n_slices; i += THREADS) {
        u64 other = parts_of(p, r)[i].best;
        best = other > best ? other : best;
    }
    best = block_max(best, m.warps);
    u32 key = (u32)(best >> 32);
    if (row.temperature == 0 || key <= KEY_LEAST || key >= KEY_INFINITE) {
        if (key > KEY_LEAST) *token = (int)~(u32)best;
        return slice == 0;
    }
    const view &v = view_of(p, row, r, m.bloom, m.seen);
    const scale s = scale_of(row, logit_of(key));
    bool ranked = (row.top_k > 0 && row.top_k < p.vocab) || (row.top_p > 0 && row.top_p < 1);
    if (ranked)
        add_histogram(p, v, s, r, slice, row.min_p > 0, m);
    else
        add_slice(p, v, s, r, slice, m);
    __syncthreads();
    if (threadIdx.x == 0) m.note[NOTE_LAST] = wr_arrive_global((u32 *)&state_of(p, r)->arrived) == (u32)p.n_slices - 1;
    __syncthreads();
    if (!m.note[NOTE_LAST]) return false;
    u64 bits = random_bits(row.seed, (u64)row.position);
    *token = ranked ? draw_by_rank(p, row, v, s, r, bits, m) : draw_by_id(p, v, s, r, bits, m);
    return true;
}

WR_KERNEL(wr_sample_draw, wr_sample_params, WR_SAMPLE_THREADS, 2) {
    ROOM(m);
    wr_grid_launch();
    wr_grid_wait();
    const u32 n_slices = (u32)p.n_slices;
    const int r = (int)(blockIdx.x / n_slices), slice = (int)(blockIdx.x % n_slices);
    int token;
    const wr_sample_row &row = ((const wr_sample_row *)p.table)[r];
    if (choose(p, row, r, slice, m, &token)) finish(p, row, r, token, m);
}

/* ---- the best tokens ---- */

WR_KERNEL(wr_sample_top, wr_sample_params, WR_SAMPLE_THREADS, 2) {
    ROOM(m);
    wr_grid_launch();
    wr_grid_wait();
    const int r = (int)blockIdx.x;
    const wr_sample_row &row = ((const wr_sample_row *)p.table)[r];
    i32 *out = p.out + (i64)r * p.out_width, *tokens = out + WR_SAMPLE_HEAD, *logprobs = tokens + p.n_top;
    int wanted = row.flags & WR_SAMPLE_OFF ? 0 : row.n_top < p.n_top ? row.n_top : p.n_top, n = 0;
    if (wanted > 0) {
        if (threadIdx.x == 0) *m.seen = view{p.logits + (i64)r * p.vocab, nullptr, nullptr, 0, false, 0, 0, 0, nullptr};
        __syncthreads();
        const view &v = *m.seen;
        const scale unused = {0, 0, 0};
        u64 numbers = 0;
#pragma unroll 1
        for (int first = threadIdx.x; first < p.vocab; first += BATCH * THREADS) {
            float l[BATCH];
            fetch(l, v, first, THREADS, (int)p.vocab);
#pragma unroll
            for (int i = 0; i < BATCH; i++) numbers += l[i] == l[i];
        }
        numbers = block_sum(numbers, m.warps);
        u64 goal = (u64)wanted < numbers ? (u64)wanted : numbers, size = numbers;
        range g = {-1, PLACE_BITS, 0};
        cut before = {0, 0};
        while (before.count + size > LIST) size = narrow(p, v, unused, &g, &before, goal, false, m);
        if (goal) collect(p, v, unused, g, true, m);
        n = (int)goal;
    }
    if (n) {
        u64 place = threadIdx.x < n ? m.items[threadIdx.x] : 0;
        __syncthreads();
        double lse = row_logsumexp(p, r, m); /* uses the room of the items */
        if (threadIdx.x < n) {
            tokens[threadIdx.x] = (i32)id_at(place);
            logprobs[threadIdx.x] = logprob_bits(p.logits[(i64)r * p.vocab + id_at(place)], lse);
        }
    }
    for (int i = n + (int)threadIdx.x; i < p.n_top; i += THREADS) tokens[i] = logprobs[i] = 0;
    if (threadIdx.x == 0) out[1] = n;
}
