/* ldmatrix, mma and wgmma: fragments, the descriptors of shared memory, and the one meaning of a k16 step.
 *
 * Fragments of m16n8k16 (PTX manual), lane = 4 g + t: A registers 0..3 hold (row g, k 2t..2t+1), (g + 8, 2t..),
 * (g, 2t + 8..), (g + 8, 2t + 8..); B registers (k 2t.., column g), (k 2t + 8.., g); C 0..3 (row g, columns 2t, 2t +
 * 1), (g + 8, the same). wgmma: warp w of the warpgroup holds rows 16 w.. of A in the same way, and D as N / 8 such C.
 *
 * Descriptor: address / 16 in bits 0..13, lead / 16 in 16..29, stride / 16 in 32..45, swizzle in 62..63 (1: 128 bytes,
 * the only one here). K-major: row r, k lies at r / 8 * stride + r % 8 * 128 + 2 k. MN-major: element mn of k lies at
 * mn / 64 * lead + mn % 64 * 2 + k / 8 * stride + k % 8 * 128. Then bits 4..6 of the address are xored with 7..9. */
#include "engine.h"

namespace emu {

namespace {

/* ---- the k16 step ---- */

/* c[r, j] for 16 rows: n columns (a multiple of 8), c with leading dimension n, b [16, n]. Four columns at a time,
 * which changes no bit: every output has its own sum, and the products of 11-bit fractions are exact. */
typedef double four __attribute__((vector_size(32), aligned(8), may_alias));
typedef float four_f32 __attribute__((vector_size(16), aligned(4), may_alias));

__attribute__((target_clones("avx2", "default"))) void k16_step(float *c, const double *a, const double *b, int n) {
    for (int r = 0; r < 16; r++)
        for (int j = 0; j < n; j += 8) {
            four s0 = {0, 0, 0, 0}, s1 = s0;
            for (int k = 0; k < 16; k++) {
                const double x = a[r * 16 + k];
                s0 += x * *(const four *)(b + k * n + j);
                s1 += x * *(const four *)(b + k * n + j + 4);
            }
            four_f32 *out = (four_f32 *)(c + r * n + j);
            out[0] = __builtin_convertvector(__builtin_convertvector(out[0], four) + s0, four_f32);
            out[1] = __builtin_convertvector(__builtin_convertvector(out[1], four) + s1, four_f32);
        }
}

double bf16(u32 bits) { return (double)wr_bf16_to_f32((u16)bits); }
double f16(u32 bits) { return (double)wr_f16_to_f32((u16)bits); }

void fragment_a(double *a, int lane, const u32 *r, bool half) {
    const int g = lane / 4, t = lane % 4;
    for (int i = 0; i < 4; i++) {
        double *to = a + (g + 8 * (i & 1)) * 16 + 2 * t + 8 * (i >> 1);
        to[0] = half ? f16(r[i] & 0xFFFF) : bf16(r[i] & 0xFFFF);
        to[1] = half ? f16(r[i] >> 16) : bf16(r[i] >> 16);
    }
}

struct mma {
    float *c;
    const u32 *a;
    u32 b[2];
};

void meet_mma(engine *, u32, u32, int op, void **arguments) {
    double a[256], b[128];
    float c[128];
    const bool half = op == WR_EMU_MMA_F16;
    for (int lane = 0; lane < 32; lane++) {
        const mma *m = (const mma *)arguments[lane];
        const int g = lane / 4, t = lane % 4;
        fragment_a(a, lane, m->a, half);
        for (int i = 0; i < 2; i++) {
            b[(2 * t + 8 * i) * 8 + g] = half ? f16(m->b[i] & 0xFFFF) : bf16(m->b[i] & 0xFFFF);
            b[(2 * t + 8 * i + 1) * 8 + g] = half ? f16(m->b[i] >> 16) : bf16(m->b[i] >> 16);
        }
        for (int i = 0; i < 4; i++) c[(g + 8 * (i >> 1)) * 8 + 2 * t + (i & 1)] = m->c[i];
    }
    k16_step(c, a, b, 8);
    for (int lane = 0; lane < 32; lane++) {
        const mma *m = (const mma *)arguments[lane];
        for (int i = 0; i < 4; i++) m->c[i] = c[(lane / 4 + 8 * (i >> 1)) * 8 + 2 * (lane % 4) + (i & 1)];
    }
}

struct ldmatrix {
    u32 *r;
    u32 address;
    int line;
};

void meet_ldmatrix(engine *, u32, u32, int op, void **arguments) {
    const u8 *rows[32];
    for (int lane = 0; lane < 32; lane++) {
        const ldmatrix *l = (const ldmatrix *)arguments[lane];
        rows[lane] = shared_at(l->address, 16, 16, op_name(op), l->line);
    }
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) {
            u16 pair[2];
            for (int e = 0; e < 2; e++) {
                const int row = op == WR_EMU_LDMATRIX ? lane / 4 : 2 * (lane % 4) + e;
                const int column = op == WR_EMU_LDMATRIX ? 2 * (lane % 4) + e : lane / 4;
                memcpy(&pair[e], rows[8 * i + row] + 2 * column, 2);
            }
            ((const ldmatrix *)arguments[lane])->r[i] = pair[0] | (u32)pair[1] << 16;
        }
}

void meet_stmatrix_trans(engine *, u32, u32, int op, void **arguments) {
    u8 *rows[32];
    for (int lane = 0; lane < 32; lane++) {
        const ldmatrix *l = (const ldmatrix *)arguments[lane];
        rows[lane] = shared_at(l->address, 16, 16, op_name(op), l->line);
    }
    for (int lane = 0; lane < 32; lane++)
        for (int i = 0; i < 4; i++) {
            const u32 pair = ((const ldmatrix *)arguments[lane])->r[i];
            for (int e = 0; e < 2; e++) {
                const u16 value = (u16)(pair >> (16 * e));
                memcpy(rows[8 * i + 2 * (lane % 4) + e] + 2 * (lane / 4), &value, 2);
            }
        }
}

/* ---- wgmma ---- */

struct wgmma {
    int n;
    float *d;
    const u32 *a;
    u64 a_desc, b_desc;
    bool b_transposed, add;
    int line;
};

/* 8 elements of a swizzled operand: piece `offset` (in bytes from the start of the descriptor) as if not swizzled. */
const u16 *piece(u64 desc, u32 offset, int line) {
    const u32 start = (u32)(desc & 0x3FFF) << 4;
    u32 address = start + offset;
    address ^= (address >> 7 & 7) << 4;
    return (const u16 *)shared_at(address, 16, 16, "wgmma operand", line);
}

void check_descriptor(u64 desc, const char *which, int line) {
    const u32 start = (u32)(desc & 0x3FFF) << 4, stride = (u32)(desc >> 32 & 0x3FFF) << 4;
    if (desc >> 62 != 1)
        wr_emu_fail(line, "wgmma %s: swizzle mode %u, only 128 bytes is emulated", which, (u32)(desc >> 62));
    if (desc >> 49 & 7) wr_emu_fail(line, "wgmma %s: base offset %u, 0 is wanted", which, (u32)(desc >> 49 & 7));
    if (start & 0x380)
        wr_emu_fail(line, "wgmma %s: address %u is not in the first of 8 rows (1,024 bytes)", which, start);
    if (stride % 1024) wr_emu_fail(line, "wgmma %s: a stride of %u bytes breaks the swizzle of 1,024", which, stride);
}

u64 hash(u64 h, const u16 *p) {
    u64 v[2];
    memcpy(v, p, 16);
    for (u64 x : v) h = (h ^ x) * 0x9E3779B97F4A7C15ull, h ^= h >> 29;
    return h;
}

/* Rows 0..n_rows-1 of a K-major operand as [16, n_rows] (or [n_rows, 16]); returns a hash of what it read. */
u64 read_k_major(u64 desc, int first, int n_rows, double *out, bool by_k, int line, u64 h) {
    const u32 stride = (u32)(desc >> 32 & 0x3FFF) << 4;
    if ((desc << 4 & 127) > 96)
        wr_emu_fail(line, "wgmma operand: 16 of K begin %u bytes into a row", (u32)(desc << 4 & 127));
    for (int r = 0; r < n_rows; r++)
        for (int half = 0; half < 2; half++) {
            const u32 row = (u32)(first + r);
            const u16 *p = piece(desc, row / 8 * stride + row % 8 * 128 + 16 * (u32)half, line);
            h = hash(h, p);
            for (int i = 0; out && i < 8; i++) {
                const int k = 8 * half + i;
                out[by_k ? k * n_rows + r : r * 16 + k] = bf16(p[i]);
            }
        }
    return h;
}

u64 read_mn_major(u64 desc, int n, double *out, int line, u64 h) {
    const u32 lead = (u32)(desc >> 16 & 0x3FFF) << 4, stride = (u32)(desc >> 32 & 0x3FFF) << 4;
    if (desc << 4 & 127) wr_emu_fail(line, "wgmma operand: a transposed tile begins inside a row of 128 bytes");
    if (n > 64 && lead % 1024) wr_emu_fail(line, "wgmma operand: a lead of %u bytes breaks the swizzle of 1,024", lead);
    for (u32 k = 0; k < 16; k++)
        for (u32 j = 0; j < (u32)n; j += 8) {
            const u16 *p = piece(desc, j / 64 * lead + j % 64 * 2 + k / 8 * stride + k % 8 * 128, line);
            h = hash(h, p);
            for (u32 i = 0; out && i < 8; i++) out[k * (u32)n + j + i] = bf16(p[i]);
        }
    return h;
}

u64 read_b(u64 desc, bool transposed, int n, double *out, int line, u64 h) {
    return transposed ? read_mn_major(desc, n, out, line, h) : read_k_major(desc, 0, n, out, true, line, h);
}

constexpr u32 IN_FLIGHT = 0xFFFFFFFFu;

/* Calls f(index in c, lane's register) for the accumulators of a lane. */
template <typename F> void each_register(const accumulator *acc, int lane, F f) {
    for (int i = 0; i < acc->n / 2; i++)
        f((lane / 4 + 8 * (i >> 1 & 1)) * acc->n + 8 * (i / 4) + 2 * (lane % 4) + (i & 1), i);
}

accumulator *accumulator_of(warp &own, void **arguments, int n, int line) {
    const wgmma *first = (const wgmma *)arguments[0];
    for (accumulator *acc : own.accumulators) {
        if (acc->d[0] == first->d && acc->n == n) {
            for (int lane = 0; lane < 32; lane++)
                if (acc->d[lane] != ((const wgmma *)arguments[lane])->d)
                    wr_emu_fail(line, "wgmma: the lanes name different accumulators");
            return acc;
        }
        if (first->d < acc->d[0] + acc->n / 2 && acc->d[0] < first->d + n / 2)
            wr_emu_fail(line, "wgmma: another one in flight has accumulators that overlap these");
    }
    accumulator *acc = new accumulator;
    acc->n = n;
    acc->n_pending = 0;
    acc->c.resize(16 * (size_t)n);
    for (int lane = 0; lane < 32; lane++) {
        float *d = acc->d[lane] = ((const wgmma *)arguments[lane])->d;
        each_register(acc, lane, [&](int at, int i) { acc->c[(size_t)at] = d[i]; });
        memset(d, POISON, (size_t)n / 2 * sizeof(float));
    }
    own.accumulators.push_back(acc);
    return acc;
}

void meet_wgmma(engine *e, u32 w, u32, int, void **arguments) {
    warp &own = e->warps[w];
    const wgmma *m = (const wgmma *)arguments[0];
    double a[256], b[16 * 256];
    u64 h = 0;
    if (!own.fenced) wr_emu_fail(m->line, "wgmma without a wr_wgmma_fence since registers could last change");
    for (int lane = 1; lane < 32; lane++) {
        const wgmma *o = (const wgmma *)arguments[lane];
        if (o->a_desc != m->a_desc || o->b_desc != m->b_desc || o->add != m->add || o->n != m->n)
            wr_emu_fail(m->line, "wgmma: lane %d has other descriptors than lane 0", lane);
    }
    check_descriptor(m->b_desc, "B", m->line);
    if (m->a) {
        for (int lane = 0; lane < 32; lane++) fragment_a(a, lane, ((const wgmma *)arguments[lane])->a, false);
    } else {
        check_descriptor(m->a_desc, "A", m->line);
        h = read_k_major(m->a_desc, 16 * (int)(w % 4), 16, a, false, m->line, h);
    }
    h = read_b(m->b_desc, m->b_transposed, m->n, b, m->line, h);
    accumulator *acc = accumulator_of(own, arguments, m->n, m->line);
    if (!m->add) acc->c.assign(acc->c.size(), 0.0f);
    k16_step(acc->c.data(), a, b, m->n);
    acc->n_pending++;
    own.pending.push_back({acc, m->a_desc, m->b_desc, h, !m->a, m->b_transposed, m->n, own.wgmma_group, (u32)m->line});
    own.wgmma_count++;
    const u64 same[] = {m->a_desc, m->b_desc, (u64)m->n << 2 | (u64)m->b_transposed << 1 | m->add};
    for (u64 x : same) own.wgmma_hash = (own.wgmma_hash ^ x) * 0x9E3779B97F4A7C15ull;
}

/* The operation is over: its operands must be what they were, and its accumulators untouched. */
void complete(engine *e, u32 w, const wgmma_pending &p) {
    u64 h = 0;
    if (p.a_shared) h = read_k_major(p.a_desc, 16 * (int)(w % 4), 16, nullptr, false, (int)p.line, h);
    h = read_b(p.b_desc, p.b_transposed, p.n, nullptr, (int)p.line, h);
    if (h != p.operands)
        wr_emu_fail((int)p.line, "wgmma: an operand in shared memory changed between this wgmma and its wait");
    if (--p.acc->n_pending) return;
    for (int lane = 0; lane < 32; lane++)
        each_register(p.acc, lane, [&](int at, int i) {
            if (wr_f32_bits(p.acc->d[lane][i]) != IN_FLIGHT)
                wr_emu_fail((int)p.line, "wgmma: accumulator %d of lane %d was written before the wait", i, lane);
            p.acc->d[lane][i] = p.acc->c[(size_t)at];
        });
    std::vector<accumulator *> &all = e->warps[w].accumulators;
    for (size_t i = 0; i < all.size(); i++)
        if (all[i] == p.acc) {
            all.erase(all.begin() + (long)i);
            break;
        }
    delete p.acc;
}

void meet_warpgroup(engine *e, u32 w, u32, int op, void **arguments) {
    warp &own = e->warps[w];
    if (op == WR_EMU_WGMMA_FENCE) own.fenced = true;
    if (op == WR_EMU_WGMMA_COMMIT) {
        own.wgmma_group++;
        /* The next A registers may be new; those of a shared A cannot. */
        if (!own.pending.empty() && !own.pending.back().a_shared) own.fenced = false;
    }
    if (op != WR_EMU_WGMMA_WAIT) return;
    const u32 left = (u32) * (const int *)arguments[0];
    size_t n = 0;
    while (n < own.pending.size() && own.pending[n].group + left < own.wgmma_group) complete(e, w, own.pending[n++]);
    own.pending.erase(own.pending.begin(), own.pending.begin() + (long)n);
    own.fenced = false;
}

} // namespace

void tensor_begin_block(engine *e) {
    for (u32 w = 0; w < e->n_warps; w++) {
        warp &own = e->warps[w];
        own.wgmma_group = 0;
        own.fenced = false;
        own.wgmma_count = own.wgmma_hash = 0;
    }
}

void tensor_end_thread(engine *e, thread *t) {
    const warp &own = e->warps[t->id / 32];
    if (!own.pending.empty()) wr_emu_fail((int)own.pending[0].line, "the thread ends while a wgmma is in flight");
}

void tensor_end_block(engine *e) {
    for (u32 w = 0; w < e->n_warps; w++) {
        const warp &own = e->warps[w];
        if (own.wgmma_count == 0) continue;
        for (u32 other = w / 4 * 4; other < w / 4 * 4 + 4; other++)
            if (other >= e->n_warps || e->warps[other].wgmma_count != own.wgmma_count ||
                e->warps[other].wgmma_hash != own.wgmma_hash)
                wr_emu_fail(0, "the wgmma of warps %u and %u, of one warpgroup, are not the same", w, other);
    }
}

} // namespace emu

using namespace emu;

void wr_emu_ldmatrix(wr_emu_op op, u32 *r, u32 a, int line) {
    ldmatrix l = {r, a, line};
    warp_meet_aligned(op, &l, line, meet_ldmatrix);
}

void wr_emu_stmatrix_trans(u32 a, const u32 *r, int line) {
    u32 values[4] = {r[0], r[1], r[2], r[3]};
    ldmatrix l = {values, a, line};
    warp_meet_aligned(WR_EMU_STMATRIX_TRANS, &l, line, meet_stmatrix_trans);
}

void wr_emu_mma(wr_emu_op op, float *c, const u32 *a, u32 b0, u32 b1, int line) {
    mma m = {c, a, {b0, b1}};
    warp_meet_aligned(op, &m, line, meet_mma);
}

void wr_emu_wgmma(int n, float *d, const u32 *a, u64 a_desc, u64 b_desc, bool b_transposed, bool add, int line) {
    wgmma m = {n, d, a, a_desc, b_desc, b_transposed, add, line};
    warp_meet_aligned(WR_EMU_WGMMA, &m, line, meet_wgmma);
}

void wr_emu_warpgroup(wr_emu_op op, int n, int line) {
    need_sm_90(op_name(op), line);
    warp_meet_aligned(op, &n, line, meet_warpgroup);
}

/* Exact product, then one rounding: the sum is rounded to odd in double and in float, which keeps enough for the last
 * step to be right (the formats have 53, 24 and 8 bits). */
u16 wr_emu_fma_bf16(u16 a, u16 b, u16 c) {
    const double x = bf16(a) * bf16(b), y = bf16(c);
    double sum = x + y;
    if (!isfinite(sum)) return wr_f32_to_bf16((float)sum);
    const double back = sum - x, lost = (x - (sum - back)) + (y - back);
    i64 bits = __double_as_longlong(sum);
    if (lost != 0 && !(bits & 1)) sum = __longlong_as_double(bits + ((lost > 0) == (sum > 0) ? 1 : -1));
    float f = (float)sum;
    u32 small = wr_f32_bits(f);
    if ((double)f != sum && !(small & 1)) f = nextafterf(f, sum > (double)f ? INFINITY : -INFINITY);
    return wr_f32_to_bf16(f);
}
