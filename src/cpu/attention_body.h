/* The code of cpu/attention.c, which tells the contract; included once a level.
 *
 * Names: L = VF_N lanes; D padded to a multiple of L is dp, E likewise ep. "Rows" are query rows of one KV head:
 * tokens times the heads of its group. Scores are kept in units of log2, so that a weight is one exp2. */
#include <float.h>

#include "cpu/attention.h"
#include "cpu/vec_math.h"

enum {
    BLOCK = WR_ATTENTION_BLOCK,
    SEGMENT = 16,                  /* keys that surely lie behind each other: the page size is a multiple */
    KEY_TILE = 4 * VF_N,           /* keys of a register tile */
    ROW_TILE = VF_N == 16 ? 6 : 3, /* rows of a register tile: 12 or 24 accumulators */
    LOG2_L = VF_N == 4   ? 2
             : VF_N == 8 ? 3
                         : 4,
    TILE_MIN = 8 /* fewer rows than this are cheaper one token at a time */
};

/* K or V of one sequence and KV head. */
typedef struct source {
    const char *base;
    int64_t key_bytes, page, page_bytes, first;
    const int32_t *table; /* NULL: not paged, key p lies at base + (p - first) * key_bytes */
    weir_dtype dtype;
} source;

static inline const char *key_at(const source *s, int64_t p) {
    if (!s->table) return s->base + (p - s->first) * s->key_bytes;
    return s->base + s->table[p / s->page] * s->page_bytes + p % s->page * s->key_bytes;
}

/* What is asked for ahead of its use: V of a block while its scores are made, K of the next block while V is summed.
 * Rows of a few lines each, far apart, are more than the hardware's own prefetch follows. s NULL: nothing. */
typedef struct ahead {
    const source *s;
    int64_t bytes, until; /* of a key's row; keys from `until` on are not touched */
} ahead;

VF_INLINE void ask_for(const ahead *a, int64_t p, int n) {
    if (!a->s || p + n > a->until) return;
    const char *at = key_at(a->s, p);
    for (int i = 0; i < n; i++, at += a->s->key_bytes)
        for (int64_t j = 0; j < a->bytes; j += 64) __builtin_prefetch(at + j, 0, 3);
}

/* What does not change over the rows of a call. */
typedef struct call {
    int64_t d, e, dp, ep;
    weir_dtype q_dtype;
    float q_scale;            /* on q; with a softcap to score / c, else to log2 units */
    float cap;                /* 0 or c * log2 e */
    bool has_mask, mask_bool; /* a row may have a mask */
    weir_dtype mask_dtype;
    int64_t mask_stride; /* elements from key to key */
} call;

/* One query row: who it is and its running state. */
typedef struct row {
    const void *q;
    void *out;
    int64_t lo, hi;   /* sees keys lo .. hi - 1 */
    const void *mask; /* of key 0; NULL: none */
    const float *sink;
    float m, l, m_total, l_total; /* of the span, of the spans before */
} row;

typedef struct work {
    row *rows;          /* [M] */
    float *q;           /* [M, dp]; tile: in the order of kt */
    float *s;           /* [M, BLOCK] */
    float *o, *o_total; /* [M, ep] */
    float *kt, *v;      /* tile: [dp, BLOCK], [BLOCK, ep] */
    float *stage;       /* [BLOCK, max(dp, ep)]: keys made f32 and padded when D or E is no multiple of L */
} work;

static size_t carve(work *w, char *memory, int64_t m, int64_t dp, int64_t ep) {
    size_t at = 0;
#define WR_CARVE(field, count)                                                                                         \
    if (memory) w->field = (void *)(memory + at);                                                                      \
    at += ((size_t)(count) * sizeof *w->field + 63) / 64 * 64
    WR_CARVE(rows, m);
    WR_CARVE(q, m * dp);
    WR_CARVE(s, m * BLOCK);
    WR_CARVE(o, m * ep);
    WR_CARVE(o_total, m * ep);
    WR_CARVE(kt, dp * BLOCK);
    WR_CARVE(v, BLOCK * ep);
    WR_CARVE(stage, BLOCK * (dp > ep ? dp : ep));
#undef WR_CARVE
    return at;
}

/* Keys k0 .. k1 - 1 of width n as f32 rows of np; the source then points there. */
static void stage_keys(source *s, float *stage, int64_t k0, int64_t k1, int64_t n, int64_t np) {
    for (int64_t p = k0; p < k1; p++) {
        float *to = stage + (p - k0) * np;
        row_to_f32(to, key_at(s, p), s->dtype, n);
        for (int64_t i = n; i < np; i++) to[i] = 0;
    }
    *s = (source){.base = (const char *)stage, .key_bytes = np * 4, .first = k0, .dtype = WEIR_DTYPE_F32};
}

/* What a row's mask adds to the score of key p, in units of log2; -inf, and only then, hides the key. */
static inline float mask_at(const call *c, const row *r, int64_t p) {
    if (c->mask_bool) return ((const uint8_t *)r->mask)[p * c->mask_stride] ? 0 : -INFINITY;
    float x = f32_load_as(r->mask, p * c->mask_stride, c->mask_dtype), scaled = x * VF_LOG2_E;
    return scaled == -INFINITY && x != -INFINITY ? -FLT_MAX : scaled;
}

/* The next keys, one behind the other, that the row sees from *from on and before `to`; false: there are none. */
static bool next_seen(const call *c, const row *r, int64_t *from, int64_t *until, int64_t to) {
    if (*from < r->lo) *from = r->lo;
    if (to > r->hi) to = r->hi;
    while (*from < to && r->mask && mask_at(c, r, *from) == -INFINITY) ++*from;
    for (*until = *from; *until < to && !(r->mask && mask_at(c, r, *until) == -INFINITY);) ++*until;
    return *from < *until;
}

/* ---- one token: the heads of the group share each load of K and V ---- */

/* Scores of keys k0 .. k1 - 1 for n_h rows: one chain a lane over D, then the tree of lanes. */
VF_INLINE void token_scores(const source *src, weir_dtype dtype, const float *q, int64_t dp, float *s, int64_t block,
                            int64_t k0, int64_t k1, const ahead *next, const int n_h) {
    const int64_t bytes = dtype == WEIR_DTYPE_F32 ? 4 : 2;
    for (int64_t k = k0 & ~(int64_t)3; k < k1; k += 4) {
        const char *key[4];
        if (k >= k0) ask_for(next, k, 4);
        if (k >= k0 && k + 4 <= k1) {
            key[0] = key_at(src, k);
            for (int i = 1; i < 4; i++) key[i] = key[0] + i * src->key_bytes;
        } else { /* what must not be read is replaced by a key that may be; its score is masked later */
            for (int i = 0; i < 4; i++) {
                int64_t p = k + i;
                key[i] = key_at(src, p < k0 ? k0 : p >= k1 ? k1 - 1 : p);
            }
        }
        vf acc[3][4];
        for (int h = 0; h < n_h; h++)
            for (int i = 0; i < 4; i++) acc[h][i] = vf_set(0);
        for (int64_t j = 0; j < dp; j += VF_N) {
            vf x[4];
            for (int i = 0; i < 4; i++) x[i] = vf_load_as(key[i] + j * bytes, dtype);
            for (int h = 0; h < n_h; h++) {
                vf y = vf_load(q + h * dp + j);
                for (int i = 0; i < 4; i++) acc[h][i] = vf_fma(x[i], y, acc[h][i]);
            }
        }
        for (int h = 0; h < n_h; h++) vf_sum4(s + h * BLOCK + (k - block), acc[h][0], acc[h][1], acc[h][2], acc[h][3]);
    }
}

/* o[h] += sum of p * v over keys k0 .. k1 - 1 in order, columns j .. j + n_v * L - 1. */
VF_INLINE void token_columns(const source *src, weir_dtype dtype, const float *p, float *o, int64_t ep, int64_t block,
                             int64_t k0, int64_t k1, int64_t j, const ahead *next, const int n_h, const int n_v) {
    const int64_t bytes = dtype == WEIR_DTYPE_F32 ? 4 : 2;
    vf acc[3][8];
    for (int h = 0; h < n_h; h++)
        for (int c = 0; c < n_v; c++) acc[h][c] = vf_load(o + h * ep + j + c * VF_N);
    for (int64_t k = k0; k < k1;) {
        int64_t end = (k | (SEGMENT - 1)) + 1;
        if (end > k1) end = k1;
        const char *value = key_at(src, k) + j * bytes;
        if (j == 0 && k % SEGMENT == 0) ask_for(next, k + BLOCK, SEGMENT);
        for (; k < end; k++, value += src->key_bytes) {
            vf x[8];
            for (int c = 0; c < n_v; c++) x[c] = vf_load_as(value + c * VF_N * bytes, dtype);
            for (int h = 0; h < n_h; h++) {
                vf y = vf_set(p[h * BLOCK + (k - block)]);
                for (int c = 0; c < n_v; c++) acc[h][c] = vf_fma(y, x[c], acc[h][c]);
            }
        }
    }
    for (int h = 0; h < n_h; h++)
        for (int c = 0; c < n_v; c++) vf_store(o + h * ep + j + c * VF_N, acc[h][c]);
}

VF_INLINE void token_values(const source *src, weir_dtype dtype, const float *p, float *o, int64_t ep, int64_t block,
                            int64_t k0, int64_t k1, const ahead *next, const int n_h) {
    int64_t j = 0;
    if (n_h == 1)
        for (; j + 8 * VF_N <= ep; j += 8 * VF_N) token_columns(src, dtype, p, o, ep, block, k0, k1, j, next, n_h, 8);
    for (; j + 4 * VF_N <= ep; j += 4 * VF_N) token_columns(src, dtype, p, o, ep, block, k0, k1, j, next, n_h, 4);
    for (; j + 2 * VF_N <= ep; j += 2 * VF_N) token_columns(src, dtype, p, o, ep, block, k0, k1, j, next, n_h, 2);
    for (; j < ep; j += VF_N) token_columns(src, dtype, p, o, ep, block, k0, k1, j, next, n_h, 1);
}

static const ahead nothing = {0};

#define WR_TOKEN_CASES(dt)                                                                                             \
    static void scores_##dt(const source *src, const float *q, int64_t dp, float *s, int64_t block, int64_t k0,        \
                            int64_t k1, const ahead *next, int64_t m) {                                                \
        for (; m > 4 || m == 3; m -= 3, q += 3 * dp, s += 3 * BLOCK, next = &nothing)                                  \
            token_scores(src, WEIR_DTYPE_##dt, q, dp, s, block, k0, k1, next, 3);                                      \
        for (; m >= 2; m -= 2, q += 2 * dp, s += 2 * BLOCK, next = &nothing)                                           \
            token_scores(src, WEIR_DTYPE_##dt, q, dp, s, block, k0, k1, next, 2);                                      \
        if (m) token_scores(src, WEIR_DTYPE_##dt, q, dp, s, block, k0, k1, next, 1);                                   \
    }                                                                                                                  \
    static void values_##dt(const source *src, const float *p, float *o, int64_t ep, int64_t block, int64_t k0,        \
                            int64_t k1, const ahead *next, int64_t m) {                                                \
        for (; m > 4 || m == 3; m -= 3, p += 3 * BLOCK, o += 3 * ep, next = &nothing)                                  \
            token_values(src, WEIR_DTYPE_##dt, p, o, ep, block, k0, k1, next, 3);                                      \
        for (; m >= 2; m -= 2, p += 2 * BLOCK, o += 2 * ep, next = &nothing)                                           \
            token_values(src, WEIR_DTYPE_##dt, p, o, ep, block, k0, k1, next, 2);                                      \
        if (m) token_values(src, WEIR_DTYPE_##dt, p, o, ep, block, k0, k1, next, 1);                                   \
    }
WR_TOKEN_CASES(F16)
WR_TOKEN_CASES(BF16)
WR_TOKEN_CASES(F32)

static void token_qk(source src, work *w, const call *c, int64_t block, int64_t k0, int64_t k1, const ahead *next,
                     int64_t m) {
    if (c->d % VF_N) stage_keys(&src, w->stage, k0, k1, c->d, c->dp);
    if (src.dtype == WEIR_DTYPE_F16)
        scores_F16(&src, w->q, c->dp, w->s, block, k0, k1, next, m);
    else if (src.dtype == WEIR_DTYPE_BF16)
        scores_BF16(&src, w->q, c->dp, w->s, block, k0, k1, next, m);
    else
        scores_F32(&src, w->q, c->dp, w->s, block, k0, k1, next, m);
}

static void token_pv_of(const source *src, const float *p, float *o, const call *c, int64_t block, int64_t k0,
                        int64_t k1, const ahead *next, int64_t m) {
    if (src->dtype == WEIR_DTYPE_F16)
        values_F16(src, p, o, c->ep, block, k0, k1, next, m);
    else if (src->dtype == WEIR_DTYPE_BF16)
        values_BF16(src, p, o, c->ep, block, k0, k1, next, m);
    else
        values_F32(src, p, o, c->ep, block, k0, k1, next, m);
}

static void token_pv(source src, work *w, const call *c, int64_t block, int64_t k0, int64_t k1, const ahead *next,
                     int64_t m) {
    if (c->e % VF_N) stage_keys(&src, w->stage, k0, k1, c->e, c->ep);
    if (!c->has_mask) {
        token_pv_of(&src, w->s, w->o, c, block, k0, k1, next, m);
        return;
    }
    /* A weight of 0 times infinity would reach a row that does not see that key, so heads go together only where they
     * share a row of the mask. */
    for (int64_t r = 0, n; r < m; r += n) {
        for (n = 1; r + n < m && w->rows[r + n].mask == w->rows[r].mask;) n++;
        for (int64_t from = k0, until; next_seen(c, &w->rows[r], &from, &until, k1); from = until)
            token_pv_of(&src, w->s + r * BLOCK, w->o + r * c->ep, c, block, from, until, r ? &nothing : next, n);
    }
}

/* ---- a tile of rows: K made f32 and transposed, V made f32, once for all rows ---- */

/* Where column d of K lies in kt and in a tile's q: columns of one lane (d mod L) behind each other. */
static inline int64_t lane_order(int64_t d, int64_t dp) { return d % VF_N * (dp / VF_N) + d / VF_N; }

#if WR_VEC
VF_INLINE __m256 load8_as(const char *p, weir_dtype dtype) {
    if (dtype == WEIR_DTYPE_F32) return _mm256_loadu_ps((const float *)p);
    __m128i h = _mm_loadu_si128((const __m128i *)p);
    if (dtype == WEIR_DTYPE_F16) return _mm256_cvtph_ps(h);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}
VF_INLINE void transpose8(__m256 r[8]) {
    __m256 t[8], u[8];
    for (int i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        u[4 * i + 0] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
        u[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
        u[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
        u[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x20);
        r[i + 4] = _mm256_permute2f128_ps(u[i], u[i + 4], 0x31);
    }
}
VF_INLINE void transpose_keys(const source *src, weir_dtype dtype, float *kt, int64_t dp, int64_t block, int64_t k0,
                              int64_t k1, const ahead *next) {
    const int64_t bytes = dtype == WEIR_DTYPE_F32 ? 4 : 2;
    for (int64_t k = k0 & ~(int64_t)7; k < k1; k += 8) {
        const char *key[8];
        if (k >= k0) ask_for(next, k, 8);
        for (int i = 0; i < 8; i++) {
            int64_t p = k + i;
            key[i] = i && p > k0 && p < k1 ? key[i - 1] + src->key_bytes
                                           : key_at(src, p < k0    ? k0
                                                         : p >= k1 ? k1 - 1
                                                                   : p);
        }
        for (int64_t d = 0; d < dp; d += 8) {
            __m256 r[8];
            for (int i = 0; i < 8; i++) r[i] = load8_as(key[i] + d * bytes, dtype);
            transpose8(r);
            for (int i = 0; i < 8; i++) _mm256_storeu_ps(kt + lane_order(d + i, dp) * BLOCK + (k - block), r[i]);
        }
    }
}
#else
VF_INLINE void transpose_keys(const source *src, weir_dtype dtype, float *kt, int64_t dp, int64_t block, int64_t k0,
                              int64_t k1, const ahead *next) {
    (void)next;
    for (int64_t k = k0; k < k1; k++) {
        const char *key = key_at(src, k);
        for (int64_t d = 0; d < dp; d++) kt[lane_order(d, dp) * BLOCK + (k - block)] = f32_load_as(key, d, dtype);
    }
}
#endif

/* V as f32; true when all of it is finite. */
VF_INLINE bool widen_values(const source *src, weir_dtype dtype, float *v, int64_t ep, int64_t block, int64_t k0,
                            int64_t k1, const ahead *next) {
    const int64_t bytes = dtype == WEIR_DTYPE_F32 ? 4 : 2;
    vi bad = vi_set(0);
    for (int64_t k = k0; k < k1; k++) {
        const char *value = key_at(src, k);
        if (k % SEGMENT == 0) ask_for(next, k + BLOCK, SEGMENT);
        float *to = v + (k - block) * ep;
        for (int64_t j = 0; j < ep; j += VF_N) {
            vf x = vf_load_as(value + j * bytes, dtype);
            bad |= ((vi)x & 0x7f800000) == 0x7f800000;
            vf_store(to + j, x);
        }
    }
    int32_t any = 0;
    for (int i = 0; i < VF_N; i++) any |= bad[i];
    return !any;
}

#define WR_TILE_CASES(dt)                                                                                              \
    static void transpose_##dt(const source *src, float *kt, int64_t dp, int64_t block, int64_t k0, int64_t k1,        \
                               const ahead *next) {                                                                    \
        transpose_keys(src, WEIR_DTYPE_##dt, kt, dp, block, k0, k1, next);                                             \
    }                                                                                                                  \
    static bool widen_##dt(const source *src, float *v, int64_t ep, int64_t block, int64_t k0, int64_t k1,             \
                           const ahead *next) {                                                                        \
        return widen_values(src, WEIR_DTYPE_##dt, v, ep, block, k0, k1, next);                                         \
    }
WR_TILE_CASES(F16)
WR_TILE_CASES(BF16)
WR_TILE_CASES(F32)

/* Scores of n_r rows by KEY_TILE keys. The lanes' chains are added by the tree of vf_sum: a binary counter over the
 * lanes, partial sums on a stack. */
VF_INLINE void tile_scores(const float *q, const float *kt, float *s, int64_t dp, const int n_r) {
    const int64_t chain = dp / VF_N;
    vf stack[LOG2_L + 1][ROW_TILE * 4];
    int top = 0;
    for (int lane = 0; lane < VF_N; lane++) {
        vf acc[ROW_TILE][4];
        for (int r = 0; r < n_r; r++)
            for (int c = 0; c < 4; c++) acc[r][c] = vf_set(0);
        const float *kl = kt + lane * chain * BLOCK, *ql = q + lane * chain;
        for (int64_t j = 0; j < chain; j++) {
            vf x[4];
            for (int c = 0; c < 4; c++) x[c] = vf_load(kl + j * BLOCK + c * VF_N);
            for (int r = 0; r < n_r; r++) {
                vf y = vf_set(ql[r * dp + j]);
                for (int c = 0; c < 4; c++) acc[r][c] = vf_fma(x[c], y, acc[r][c]);
            }
        }
        for (int bits = lane; bits & 1; bits >>= 1) {
            top--;
            for (int r = 0; r < n_r; r++)
                for (int c = 0; c < 4; c++) acc[r][c] = stack[top][r * 4 + c] + acc[r][c];
        }
        for (int r = 0; r < n_r; r++)
            for (int c = 0; c < 4; c++) stack[top][r * 4 + c] = acc[r][c];
        top++;
    }
    for (int r = 0; r < n_r; r++)
        for (int c = 0; c < 4; c++) vf_store(s + r * BLOCK + c * VF_N, stack[0][r * 4 + c]);
}

/* o += p v over n keys in order; n_r rows, n_v vectors of columns. */
VF_INLINE void tile_values(const float *p, const float *v, float *o, int64_t ep, int64_t n, const int n_r,
                           const int n_v) {
    vf acc[ROW_TILE][4];
    for (int r = 0; r < n_r; r++)
        for (int c = 0; c < n_v; c++) acc[r][c] = vf_load(o + r * ep + c * VF_N);
    for (int64_t k = 0; k < n; k++) {
        vf x[4];
        for (int c = 0; c < n_v; c++) x[c] = vf_load(v + k * ep + c * VF_N);
        for (int r = 0; r < n_r; r++) {
            vf y = vf_set(p[r * BLOCK + k]);
            for (int c = 0; c < n_v; c++) acc[r][c] = vf_fma(y, x[c], acc[r][c]);
        }
    }
    for (int r = 0; r < n_r; r++)
        for (int c = 0; c < n_v; c++) vf_store(o + r * ep + c * VF_N, acc[r][c]);
}

VF_INLINE void tile_value_rows(const float *p, const float *v, float *o, int64_t ep, int64_t n, const int n_r) {
    int64_t j = 0;
    for (; j + 4 * VF_N <= ep; j += 4 * VF_N) tile_values(p, v + j, o + j, ep, n, n_r, 4);
    for (; j + 2 * VF_N <= ep; j += 2 * VF_N) tile_values(p, v + j, o + j, ep, n, n_r, 2);
    for (; j < ep; j += VF_N) tile_values(p, v + j, o + j, ep, n, n_r, 1);
}

static void tile_qk(source src, work *w, const call *c, int64_t block, int64_t k0, int64_t k1, const ahead *next,
                    int64_t m) {
    if (c->d % VF_N) stage_keys(&src, w->stage, k0, k1, c->d, c->dp);
    if (src.dtype == WEIR_DTYPE_F16)
        transpose_F16(&src, w->kt, c->dp, block, k0, k1, next);
    else if (src.dtype == WEIR_DTYPE_BF16)
        transpose_BF16(&src, w->kt, c->dp, block, k0, k1, next);
    else
        transpose_F32(&src, w->kt, c->dp, block, k0, k1, next);
    for (int64_t k = (k0 - block) / KEY_TILE * KEY_TILE; k < k1 - block; k += KEY_TILE) {
        int64_t r = 0;
        for (; r + ROW_TILE <= m; r += ROW_TILE)
            tile_scores(w->q + r * c->dp, w->kt + k, w->s + r * BLOCK + k, c->dp, ROW_TILE);
        for (; r < m; r++) tile_scores(w->q + r * c->dp, w->kt + k, w->s + r * BLOCK + k, c->dp, 1);
    }
}

static void tile_pv(source src, work *w, const call *c, int64_t block, int64_t k0, int64_t k1, const ahead *next,
                    int64_t m) {
    if (c->e % VF_N) stage_keys(&src, w->stage, k0, k1, c->e, c->ep);
    bool finite;
    if (src.dtype == WEIR_DTYPE_F16)
        finite = widen_F16(&src, w->v, c->ep, block, k0, k1, next);
    else if (src.dtype == WEIR_DTYPE_BF16)
        finite = widen_BF16(&src, w->v, c->ep, block, k0, k1, next);
    else
        finite = widen_F32(&src, w->v, c->ep, block, k0, k1, next);
    int64_t r = 0;
    if (finite) {
        const float *v = w->v + (k0 - block) * c->ep;
        for (; r + ROW_TILE <= m; r += ROW_TILE)
            tile_value_rows(w->s + r * BLOCK + (k0 - block), v, w->o + r * c->ep, c->ep, k1 - k0, ROW_TILE);
        for (; r < m; r++) tile_value_rows(w->s + r * BLOCK + (k0 - block), v, w->o + r * c->ep, c->ep, k1 - k0, 1);
        return;
    }
    /* A weight of 0 times infinity would reach rows that do not see that key. */
    for (; r < m; r++)
        for (int64_t lo = k0, hi; next_seen(c, &w->rows[r], &lo, &hi, k1); lo = hi)
            tile_value_rows(w->s + r * BLOCK + (lo - block), w->v + (lo - block) * c->ep, w->o + r * c->ep, c->ep,
                            hi - lo, 1);
}

/* ---- what both share: softmax of a block, merge of spans, the end ---- */

static inline float exp2_neg(float x) { return vf_exp2_neg(vf_set(x))[0]; }

/* Scores of one row and block become weights; the row's state and sums follow. */
static void weigh_block(const call *c, row *r, float *s, float *o, int64_t block) {
    vf x[BLOCK / VF_N], most = vf_set(-INFINITY);
    bool whole = r->lo <= block && r->hi >= block + BLOCK;
    int64_t lo = r->lo - block, hi = r->hi - block;
    vi low = vi_set((int32_t)(lo < 0 ? 0 : lo > BLOCK ? BLOCK : lo));
    vi high = vi_set((int32_t)(hi < 0 ? 0 : hi > BLOCK ? BLOCK : hi));
    float mask[BLOCK];
    if (r->mask)
        for (int i = 0; i < BLOCK; i++) mask[i] = i < lo || i >= hi ? 0 : mask_at(c, r, block + i);
    for (int i = 0; i < BLOCK / VF_N; i++) {
        x[i] = vf_load(s + i * VF_N);
        if (!whole) {
            vi key = vi_iota() + vi_set(i * VF_N);
            x[i] = vf_sel((key >= low) & (key < high), x[i], vf_set(-INFINITY));
        }
    }
    if (c->cap != 0)
        for (int i = 0; i < BLOCK / VF_N; i++)
            x[i] = vf_sel(x[i] == vf_set(-INFINITY), x[i], vf_set(c->cap) * vf_tanh(x[i]));
    if (r->mask)
        for (int i = 0; i < BLOCK / VF_N; i++) { /* a hidden key's score may be NaN */
            vf added = vf_load(mask + i * VF_N);
            x[i] = vf_sel(added == vf_set(-INFINITY), added, x[i] + added);
        }
    for (int i = 0; i < BLOCK / VF_N; i++) most = vf_max(x[i], most);
    float m = vf_most(most);
    m = m > r->m ? m : r->m;
    if (m == -INFINITY) { /* nothing seen so far, unless every score is NaN, which must come out as NaN */
        vi nan = vi_set(0);
        for (int i = 0; i < BLOCK / VF_N; i++) nan |= x[i] != x[i];
        int32_t any = 0;
        for (int i = 0; i < VF_N; i++) any |= nan[i];
        if (any) m = 0;
    }
    if (m == -INFINITY) {
        for (int i = 0; i < BLOCK / VF_N; i++) vf_store(s + i * VF_N, vf_set(0));
        return;
    }
    if (r->m != m && r->m != -INFINITY) {
        float shrink = exp2_neg(r->m - m);
        r->l *= shrink;
        for (int64_t j = 0; j < c->ep; j += VF_N) vf_store(o + j, vf_load(o + j) * vf_set(shrink));
    }
    r->m = m;
    vf sum = vf_set(0);
    for (int i = 0; i < BLOCK / VF_N; i++) {
        vf p = vf_exp2_neg(x[i] - vf_set(m));
        vf_store(s + i * VF_N, p);
        sum = sum + p;
    }
    r->l += vf_sum(sum);
}

/* (m_total, l_total, o_total) = merge of itself and (m, l, o). */
static void merge_span(row *r, float *o_total, float m, float l, const float *o, int64_t ep) {
    if (m == -INFINITY) return;
    if (r->m_total == -INFINITY) {
        r->m_total = m, r->l_total = l;
        memcpy(o_total, o, (size_t)ep * 4);
        return;
    }
    float most = m > r->m_total ? m : r->m_total;
    float a = exp2_neg(r->m_total - most), b = exp2_neg(m - most);
    r->m_total = most;
    r->l_total = r->l_total * a + l * b;
    for (int64_t j = 0; j < ep; j += VF_N)
        vf_store(o_total + j, vf_load(o_total + j) * vf_set(a) + vf_load(o + j) * vf_set(b));
}

static void finish_row(const call *c, row *r, float *o) {
    float scale = 0;
    if (r->m_total != -INFINITY) {
        float l = r->l_total, shrink = 1;
        if (r->sink) {
            float sink = *r->sink * VF_LOG2_E, most = sink > r->m_total ? sink : r->m_total;
            shrink = exp2_neg(r->m_total - most);
            l = l * shrink + exp2_neg(sink - most);
        }
        scale = shrink / l;
    }
    if (scale == 0) { /* sees nothing */
        memset(r->out, 0, (size_t)c->e * (c->q_dtype == WEIR_DTYPE_F32 ? 4 : 2));
        return;
    }
    /* + 0 makes -0 to 0: the sign of a zero could tell which keys a tile had beside the row's own. */
    for (int64_t j = 0; j < c->ep; j += VF_N) vf_store(o + j, vf_load(o + j) * vf_set(scale) + vf_set(0));
    row_from_f32(r->out, o, c->q_dtype, c->e);
}

/* All rows over all their spans; with `partial` only over span `only`, whose state goes to partial[row], of
 * ep + 2 floats, partial_stride floats apart. */
static void run_rows(const call *c, work *w, int64_t m, bool tile, const source *ks, const source *vs, int64_t only,
                     float *const *partial) {
    int64_t lo = INT64_MAX, hi = 0;
    for (int64_t r = 0; r < m; r++) {
        row *t = &w->rows[r];
        if (t->lo < t->hi) {
            if (t->lo < lo) lo = t->lo;
            if (t->hi > hi) hi = t->hi;
        }
        t->m_total = -INFINITY, t->l_total = 0;
        float *q = w->q + r * c->dp;
        if (!tile) {
            row_to_f32(q, t->q, c->q_dtype, c->d);
            for (int64_t d = c->d; d < c->dp; d++) q[d] = 0;
            for (int64_t d = 0; d < c->dp; d += VF_N) vf_store(q + d, vf_load(q + d) * vf_set(c->q_scale));
        } else {
            int64_t chain = c->dp / VF_N;
            row_to_f32(w->stage, t->q, c->q_dtype, c->d);
            for (int64_t d = c->d; d < c->dp; d++) w->stage[d] = 0;
            for (int64_t j = 0; j < chain; j++)
                for (int lane = 0; lane < VF_N; lane++) q[lane * chain + j] = w->stage[j * VF_N + lane] * c->q_scale;
        }
    }
    int64_t start = partial ? wr_attention_span_start(only) : lo;
    int64_t stop = partial ? wr_attention_span_start(only + 1) : hi;
    start = start > lo ? start : lo, stop = stop < hi ? stop : hi;
    if (start >= stop) {
        for (int64_t r = 0; r < m; r++) w->rows[r].m = -INFINITY, w->rows[r].l = 0;
        memset(w->o, 0, (size_t)(m * c->ep) * 4);
    }
    int64_t v_bytes = c->e * (vs->dtype == WEIR_DTYPE_F32 ? 4 : 2),
            k_bytes = c->d * (ks->dtype == WEIR_DTYPE_F32 ? 4 : 2);
    ahead next_v = {vs, v_bytes, stop}, next_k = {ks, k_bytes, stop};
    for (int64_t at = start; at < stop;) {
        int64_t span_end = wr_attention_span_start(wr_attention_span(at) + 1);
        if (span_end > stop) span_end = stop;
        for (int64_t r = 0; r < m; r++) w->rows[r].m = -INFINITY, w->rows[r].l = 0;
        memset(w->o, 0, (size_t)(m * c->ep) * 4);
        while (at < span_end) {
            int64_t block = at & ~(int64_t)(BLOCK - 1), end = block + BLOCK < span_end ? block + BLOCK : span_end;
            if (tile)
                tile_qk(*ks, w, c, block, at, end, &next_v, m);
            else
                token_qk(*ks, w, c, block, at, end, &next_v, m);
            for (int64_t r = 0; r < m; r++) weigh_block(c, &w->rows[r], w->s + r * BLOCK, w->o + r * c->ep, block);
            if (tile)
                tile_pv(*vs, w, c, block, at, end, &next_k, m);
            else
                token_pv(*vs, w, c, block, at, end, &next_k, m);
            at = end;
        }
        for (int64_t r = 0; r < m && !partial; r++)
            merge_span(&w->rows[r], w->o_total + r * c->ep, w->rows[r].m, w->rows[r].l, w->o + r * c->ep, c->ep);
    }
    for (int64_t r = 0; r < m; r++) {
        if (!partial) {
            finish_row(c, &w->rows[r], w->o_total + r * c->ep);
        } else {
            partial[r][0] = w->rows[r].m, partial[r][1] = w->rows[r].l;
            memcpy(partial[r] + 2, w->o + r * c->ep, (size_t)c->ep * 4);
        }
    }
}

/* ---- the ops ---- */

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* Rows of a tile: enough to pay for widening K and V, few enough that the tile stays in L2. */
static int64_t tile_rows(int64_t d, int64_t e) { return d > 128 || e > 128 ? 24 : 48; }

static float set_scales(call *c, const wr_attention_args *args) {
    c->cap = args->softcap > 0 ? args->softcap * VF_LOG2_E : 0;
    return c->q_scale = args->softcap > 0 ? args->scale / args->softcap : args->scale * VF_LOG2_E;
}

/* Paged: sizes of one call. */
typedef struct paged {
    int64_t n_rows, n_heads, n_kv, group, max_rows, max_tokens, max_keys, max_spans, split_rows;
    size_t work_bytes, partial_floats; /* of one row and head */
} paged;

static paged paged_sizes(const wr_step *step, int n_threads) {
    const wr_tensor *q = &step->in[0], *k = &step->in[1], *v = &step->in[2], *table = &step->in[3];
    paged p = {.n_rows = q->shape[0], .n_heads = q->shape[1], .n_kv = k->shape[2]};
    p.group = p.n_kv ? p.n_heads / p.n_kv : 0;
    int64_t dp = round_up(q->shape[2], VF_N), ep = round_up(v->shape[3], VF_N);
    p.max_rows = tile_rows(dp, ep);
    p.max_tokens = p.group && p.group < p.max_rows ? p.max_rows / p.group : 1;
    p.max_keys = table->shape[1] * k->shape[1];
    p.max_spans = p.max_keys ? wr_attention_span(p.max_keys - 1) + 1 : 0;
    /* Few rows: spans are spread over the threads. Only then memory for partial results is needed. */
    p.split_rows = n_threads > 1 && p.n_rows <= WR_ATTENTION_SPLIT_ROWS && p.n_kv < 4 * n_threads ? p.n_rows : 0;
    p.partial_floats = (size_t)ep + 2;
    p.work_bytes = carve(&(work){0}, NULL, p.max_rows, dp, ep);
    return p;
}

size_t WR_ISA(wr_paged_attention_scratch)(const wr_step *step, int n_threads) {
    paged p = paged_sizes(step, n_threads);
    size_t partial = (size_t)(p.split_rows * p.n_heads * p.max_spans) * p.partial_floats * 4;
    return (size_t)n_threads * p.work_bytes + partial;
}

/* A piece of work: rows first .. first + n - 1 of one sequence (seq -1: nothing to see), found from the last row
 * backwards, so that the longest rows of a prompt come first. */
typedef struct piece {
    int64_t first, n, seq, spans_from, n_spans;
} piece;

static int64_t row_seq_of(const wr_step *step, const paged *p, int64_t t) {
    int64_t seq = ((const int32_t *)step->in[4].data)[t], pos = ((const int32_t *)step->in[5].data)[t];
    return seq < 0 || seq >= step->in[3].shape[0] || pos < 0 || pos >= p->max_keys ? -1 : seq;
}

static void row_range(const wr_step *step, int64_t t, int64_t *lo, int64_t *hi) {
    const wr_attention_args *args = step->args;
    int64_t pos = ((const int32_t *)step->in[5].data)[t];
    *hi = pos + 1;
    *lo = args->window > 0 && args->window <= pos ? pos - args->window + 1 : 0;
}

/* The piece that ends before row `end`. */
static piece piece_before(const wr_step *step, const paged *p, int64_t end, bool split) {
    const int32_t *pos = step->in[5].data;
    piece x = {.first = end - 1, .n = 1, .seq = row_seq_of(step, p, end - 1), .n_spans = 1};
    while (x.first > 0 && x.n < p->max_tokens && row_seq_of(step, p, x.first - 1) == x.seq &&
           (x.seq < 0 || pos[x.first - 1] + 1 == pos[x.first]))
        x.first--, x.n++;
    if (split && x.seq >= 0) {
        int64_t lo, hi, unused;
        row_range(step, x.first, &lo, &unused);
        row_range(step, end - 1, &unused, &hi);
        x.spans_from = wr_attention_span(lo);
        x.n_spans = wr_attention_span(hi - 1) - x.spans_from + 1;
    }
    return x;
}

static void paged_call(const wr_step *step, call *c) {
    const wr_attention_args *args = step->args;
    *c = (call){.d = step->in[0].shape[2],
                .e = step->in[2].shape[3],
                .q_dtype = step->in[0].dtype,
                .has_mask = args->has_mask,
                .mask_stride = 1};
    if (args->has_mask) c->mask_dtype = step->in[6].dtype, c->mask_bool = c->mask_dtype == WEIR_DTYPE_BOOL;
    c->dp = round_up(c->d, VF_N), c->ep = round_up(c->e, VF_N);
    set_scales(c, args);
}

static source paged_source(const wr_step *step, const wr_tensor *pages, int64_t seq, int64_t kv) {
    int64_t bytes = pages->dtype == WEIR_DTYPE_F32 ? 4 : 2, width = pages->shape[3] * bytes;
    return (source){.base = (const char *)pages->data + kv * width,
                    .key_bytes = pages->shape[2] * width,
                    .page = pages->shape[1],
                    .page_bytes = pages->shape[1] * pages->shape[2] * width,
                    .table = (const int32_t *)step->in[3].data + seq * step->in[3].shape[1],
                    .dtype = pages->dtype};
}

static void paged_row(const wr_step *step, const paged *p, const call *c, int64_t t, int64_t head, row *r) {
    const wr_attention_args *args = step->args;
    size_t bytes = c->q_dtype == WEIR_DTYPE_F32 ? 4 : 2;
    int64_t at = t * p->n_heads + head;
    *r = (row){.q = (const char *)step->in[0].data + (size_t)(at * c->d) * bytes,
               .out = (char *)step->out.data + (size_t)(at * c->e) * bytes,
               .sink = args->has_sinks ? (const float *)step->in[6 + args->has_mask].data + head : NULL,
               .m_total = -INFINITY};
    row_range(step, t, &r->lo, &r->hi);
    if (!args->has_mask) return;
    const wr_tensor *mask = &step->in[6];
    int64_t first =
        (mask->shape[0] == 1 ? 0 : t * mask->strides[0]) + (mask->shape[1] == 1 ? 0 : head * mask->strides[1]);
    r->mask = (const char *)mask->data + first * (int64_t)weir_dtype_bytes(mask->dtype);
    if (r->hi > mask->shape[2]) r->hi = mask->shape[2];
}

/* The heads of one KV head over a piece; span -1: all spans. */
static void run_piece(const wr_step *step, const paged *p, const call *c, work *w, const piece *x, int64_t kv,
                      int64_t span, float *partials) {
    size_t row_bytes = (size_t)c->e * (c->q_dtype == WEIR_DTYPE_F32 ? 4 : 2);
    if (x->seq < 0) {
        for (int64_t t = x->first; t < x->first + x->n; t++)
            memset((char *)step->out.data + (size_t)(t * p->n_heads + kv * p->group) * row_bytes, 0,
                   (size_t)p->group * row_bytes);
        return;
    }
    source ks = paged_source(step, &step->in[1], x->seq, kv), vs = paged_source(step, &step->in[2], x->seq, kv);
    bool tile = x->n * p->group >= TILE_MIN && x->n > 1;
    for (int64_t t = x->first; t < x->first + x->n; t += tile ? x->n : 1)
        for (int64_t h = 0; h < p->group; h += p->max_rows) {
            float *partial[48];
            int64_t n_h = p->group - h < p->max_rows ? p->group - h : p->max_rows, m = 0;
            for (int64_t i = t; i < t + (tile ? x->n : 1); i++)
                for (int64_t j = h; j < h + n_h; j++, m++) {
                    int64_t head = kv * p->group + j;
                    paged_row(step, p, c, i, head, &w->rows[m]);
                    if (span >= 0)
                        partial[m] =
                            partials + (size_t)((i * p->n_heads + head) * p->max_spans + span) * p->partial_floats;
                }
            run_rows(c, w, m, tile, &ks, &vs, span, span >= 0 ? partial : NULL);
        }
}

static void merge_partials(const wr_step *step, const paged *p, const call *c, work *w, const float *partials) {
    for (int64_t t = 0; t < p->n_rows; t++) {
        if (row_seq_of(step, p, t) < 0) continue;
        for (int64_t head = 0; head < p->n_heads; head++) {
            row r;
            paged_row(step, p, c, t, head, &r);
            for (int64_t span = wr_attention_span(r.lo); span <= wr_attention_span(r.hi - 1); span++) {
                const float *from =
                    partials + (size_t)((t * p->n_heads + head) * p->max_spans + span) * p->partial_floats;
                merge_span(&r, w->o_total, from[0], from[1], from + 2, c->ep);
            }
            finish_row(c, &r, w->o_total);
        }
    }
}

void WR_ISA(wr_paged_attention)(const wr_step *step, int thread, int n_threads) {
    paged p = paged_sizes(step, n_threads);
    call c;
    paged_call(step, &c);
    work w;
    carve(&w, (char *)step->scratch + (size_t)thread * p.work_bytes, p.max_rows, c.dp, c.ep);
    float *partials = (float *)((char *)step->scratch + (size_t)n_threads * p.work_bytes);
    wr_attention_turns *turns = wr_attention_turns_of(step);
    bool split = false;
    if (turns && p.split_rows) {
        int64_t n = 0;
        for (int64_t end = p.n_rows; end > 0; n++) end = piece_before(step, &p, end, false).first;
        split = n * p.n_kv < 4 * n_threads;
    }
    /* Items in order: pieces, KV heads, spans; for a prompt KV heads first, so that K and V of one stay in L2 over all
     * its pieces. A thread takes the next item when it is free; without the counter every n_threads-th. */
    int64_t item = 0, mine = turns ? atomic_fetch_add_explicit(&turns->next, 1, memory_order_relaxed) : thread;
    bool prompt = !split && p.n_rows > p.max_tokens;
    for (int64_t outer = 0; outer < (prompt ? p.n_kv : 1); outer++)
        for (int64_t end = p.n_rows; end > 0;) {
            piece x = piece_before(step, &p, end, split);
            int64_t n = prompt ? 1 : p.n_kv * x.n_spans;
            for (; mine < item + n;
                 mine = turns ? atomic_fetch_add_explicit(&turns->next, 1, memory_order_relaxed) : mine + n_threads) {
                int64_t kv = prompt ? outer : (mine - item) % p.n_kv;
                int64_t span = split && x.seq >= 0 ? x.spans_from + (mine - item) / p.n_kv : -1;
                run_piece(step, &p, &c, &w, &x, kv, span, partials);
            }
            item += n;
            end = x.first;
        }
    if (!turns) return;
    /* The last to come here puts the counters back and, when spans were spread, merges them. */
    if (atomic_fetch_add_explicit(&turns->done, 1, memory_order_acq_rel) + 1 < n_threads) return;
    atomic_store_explicit(&turns->next, 0, memory_order_relaxed);
    atomic_store_explicit(&turns->done, 0, memory_order_relaxed);
    if (split) merge_partials(step, &p, &c, &w, partials);
}

/* Not paged: items are (batch, KV head, piece of queries), dealt out in turn, the last queries first. */
size_t WR_ISA(wr_attention_scratch)(const wr_step *step, int n_threads) {
    int64_t dp = round_up(step->in[0].shape[3], VF_N), ep = round_up(step->in[2].shape[3], VF_N);
    return (size_t)n_threads * carve(&(work){0}, NULL, tile_rows(dp, ep), dp, ep);
}

void WR_ISA(wr_attention)(const wr_step *step, int thread, int n_threads) {
    const wr_attention_args *args = step->args;
    const wr_tensor *q = &step->in[0], *k = &step->in[1], *v = &step->in[2], *out = &step->out;
    const wr_tensor *mask = args->has_mask ? &step->in[3] : NULL;
    const wr_tensor *sinks = args->has_sinks ? &step->in[3 + (mask != NULL)] : NULL;
    call c = {.d = q->shape[3], .e = v->shape[3], .q_dtype = q->dtype, .has_mask = mask != NULL};
    c.dp = round_up(c.d, VF_N), c.ep = round_up(c.e, VF_N);
    set_scales(&c, args);
    int64_t n_batch = q->shape[0], n_q = q->shape[2], n_keys = k->shape[2], n_kv = k->shape[1];
    if (!out->shape[0] || !out->shape[1] || !n_q || !c.e) return;
    int64_t group = q->shape[1] / n_kv, max_rows = tile_rows(c.dp, c.ep);
    int64_t tokens = group < max_rows ? max_rows / group : 1, n_pieces = (n_q + tokens - 1) / tokens;
    int64_t q_bytes = weir_dtype_bytes(q->dtype), k_bytes = weir_dtype_bytes(k->dtype);
    int64_t v_bytes = weir_dtype_bytes(v->dtype);
    int64_t mask_strides[4] = {0};
    int64_t mask_bytes = 0;
    if (mask) {
        mask_bytes = weir_dtype_bytes(mask->dtype);
        c.mask_bool = mask->dtype == WEIR_DTYPE_BOOL, c.mask_dtype = mask->dtype;
        for (int i = 0; i < mask->n_dims; i++)
            if (mask->shape[i] != 1) mask_strides[4 - mask->n_dims + i] = mask->strides[i];
        c.mask_stride = mask_strides[3];
    }
    work w;
    size_t work_bytes = carve(&(work){0}, NULL, max_rows, c.dp, c.ep);
    carve(&w, (char *)step->scratch + (size_t)thread * work_bytes, max_rows, c.dp, c.ep);
    for (int64_t item = thread; item < n_batch * n_kv * n_pieces; item += n_threads) {
        int64_t b = item % (n_batch * n_kv) / n_kv, kv = item % n_kv;
        int64_t last = n_q - item / (n_batch * n_kv) * tokens, first = last > tokens ? last - tokens : 0;
        source ks = {.base = (const char *)k->data + (b * k->strides[0] + kv * k->strides[1]) * k_bytes,
                     .key_bytes = k->strides[2] * k_bytes,
                     .dtype = k->dtype};
        source vs = {.base = (const char *)v->data + (b * v->strides[0] + kv * v->strides[1]) * v_bytes,
                     .key_bytes = v->strides[2] * v_bytes,
                     .dtype = v->dtype};
        bool tile = (last - first) * group >= TILE_MIN && last - first > 1;
        for (int64_t l = first; l < last; l += tile ? last - first : 1)
            for (int64_t h = 0; h < group; h += max_rows) {
                int64_t n_h = group - h < max_rows ? group - h : max_rows, m = 0;
                for (int64_t i = l; i < l + (tile ? last - first : 1); i++)
                    for (int64_t head = kv * group + h; head < kv * group + h + n_h; head++) {
                        int64_t pos = i + n_keys - n_q;
                        bool bounded = args->causal || args->window > 0;
                        row *r = &w.rows[m++];
                        *r = (row){.q = (const char *)q->data +
                                        (b * q->strides[0] + head * q->strides[1] + i * q->strides[2]) * q_bytes,
                                   .out = (char *)out->data + ((b * out->shape[1] + head) * n_q + i) * c.e * q_bytes,
                                   .hi = !bounded  ? n_keys
                                         : pos < 0 ? 0
                                                   : pos + 1,
                                   .lo = args->window > 0 && args->window <= pos ? pos - args->window + 1 : 0};
                        if (mask)
                            r->mask = (const char *)mask->data +
                                      (b * mask_strides[0] + head * mask_strides[1] + i * mask_strides[2]) * mask_bytes;
                        if (sinks) r->sink = (const float *)sinks->data + head * sinks->strides[0];
                    }
                run_rows(&c, &w, m, tile, &ks, &vs, -1, NULL);
            }
    }
}
