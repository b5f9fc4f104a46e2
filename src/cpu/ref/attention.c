/* Attention, over whole tensors and over KV pages.
 *
 * The definition, for one query row and one head, which fast kernels follow in f32 and this file evaluates in double
 * with one rounding at the end:
 *   - Keys are cut into blocks of 64 at fixed absolute positions: block b holds positions 64 b .. 64 b + 63 (for
 * ATTENTION the position is the key's index). A row visits the blocks that hold a visible key, in rising order; in a
 * window the first block, and at the row's own position the last one, is partial.
 *   - score = scale * (q . k); with softcap c: c * tanh(score / c); plus the float mask. A key that is not visible (by
 *     causality, window, padding, or a mask that is false or -inf or has no entry for it) is never read and takes no
 *     part.
 *   - Start: m = -inf, l = 0, o = 0. Per block: m' = max(m, the block's scores); if m' is -inf the block changes
 * nothing; f = exp(m - m'); p = exp(score - m'); l = l f + sum p; o = o f + sum p v, both sums in rising order of the
 * key.
 *   - A sink s is one more score at the end without a value: m' = max(m, s); l = l exp(m - m') + exp(s - m');
 *     o = o exp(m - m').
 *   - y = o / l, and 0 when l is 0.
 * So a row depends on its own query, keys and position only, never on its neighbours or on the number of rows. */
#include "array/kv.h"
#include "cpu/ref/kernels.h"
#include "cpu/ref/util.h"

enum { BLOCK = 64 };

/* One row in progress. o [n_values] lies in the step's scratch. */
typedef struct row_state {
    double m, l, *o;
    int64_t n_values;
} row_state;

/* Where the keys and values of one row and head lie. */
typedef struct source {
    double *q; /* [head_dim] */
    const wr_tensor *k, *v;
    int64_t k_dim_stride, v_dim_stride, head_dim;
    int64_t k_at, v_at;                 /* offset of the head */
    int64_t k_key_stride, v_key_stride; /* of a key */
    const int32_t *pages;               /* NULL: not paged, and the strides above count */
    int64_t max_pages, head;            /* paged */
    bool tiled;
    const wr_tensor *mask; /* NULL: none */
    int64_t mask_at, mask_stride;
} source;

/* Offsets of key j; false when it does not exist. */
static bool locate(const source *s, int64_t j, int64_t *k_at, int64_t *v_at) {
    *k_at = s->k_at + j * s->k_key_stride;
    *v_at = s->v_at + j * s->v_key_stride;
    if (!s->pages) return true;
    int64_t page_size = s->k->shape[1], heads = s->k->shape[2];
    if (page_size == 0 || j / page_size >= s->max_pages) return false;
    int64_t page = s->pages[j / page_size];
    if (page < 0 || page >= s->k->shape[0]) return false;
    *k_at = wr_kv_row(s->tiled, page, j % page_size, s->head, page_size, heads, s->k->shape[3]);
    *v_at = wr_kv_row(s->tiled, page, j % page_size, s->head, page_size, heads, s->v->shape[3]);
    return true;
}
/* How far behind the row's offset column d of key j lies. */
static int64_t column(const source *s, int64_t j, int64_t d, int64_t stride) {
    return s->tiled ? wr_kv_column(true, j, d) : d * stride;
}

/* Score of key j; -inf when it is not visible. */
static double score_of(const source *s, const wr_attention_args *a, int64_t j, int64_t k_at) {
    bool bool_mask = s->mask && s->mask->dtype == WEIR_DTYPE_BOOL;
    if (bool_mask && !wr_load_i64(s->mask->data, WEIR_DTYPE_BOOL, s->mask_at + j * s->mask_stride)) return -INFINITY;
    double added =
        s->mask && !bool_mask ? wr_load_f32(s->mask->data, s->mask->dtype, s->mask_at + j * s->mask_stride) : 0;
    if (added == -INFINITY) return -INFINITY;
    double dot = 0;
    for (int64_t d = 0; d < s->head_dim; d++)
        dot += s->q[d] * (double)wr_load_f32(s->k->data, s->k->dtype, k_at + column(s, j, d, s->k_dim_stride));
    double score = (double)a->scale * dot;
    if (a->softcap > 0) score = a->softcap * tanh(score / a->softcap);
    return score + added;
}

/* Positions first .. last - 1, all of one block. */
static void visit_block(row_state *row, const source *s, const wr_attention_args *a, int64_t first, int64_t last) {
    double scores[BLOCK], best = row->m;
    int64_t k_at, v_at[BLOCK];
    for (int64_t j = first; j < last; j++) {
        double score = -INFINITY;
        if (locate(s, j, &k_at, &v_at[j - first])) score = score_of(s, a, j, k_at);
        scores[j - first] = score;
        if (isnan(score) || score > best) best = score;
    }
    if (best == -INFINITY) return;
    double factor = exp(row->m - best);
    row->m = best;
    row->l *= factor;
    for (int64_t e = 0; e < row->n_values; e++) row->o[e] *= factor;
    for (int64_t j = first; j < last; j++) {
        if (scores[j - first] == -INFINITY) continue;
        double p = exp(scores[j - first] - best);
        row->l += p;
        for (int64_t e = 0; e < row->n_values; e++)
            row->o[e] += p * wr_load_f32(s->v->data, s->v->dtype, v_at[j - first] + column(s, j, e, s->v_dim_stride));
    }
}

/* Keys first .. last - 1, then the sink, then the result. */
static void attend(row_state *row, const source *s, const wr_attention_args *a, int64_t first, int64_t last,
                   const float *sink, const wr_tensor *out, int64_t to, int64_t to_stride) {
    row->m = -INFINITY;
    row->l = 0;
    for (int64_t e = 0; e < row->n_values; e++) row->o[e] = 0;
    for (int64_t block = first / BLOCK; block * BLOCK < last; block++) {
        int64_t from = block * BLOCK > first ? block * BLOCK : first;
        int64_t until = (block + 1) * BLOCK < last ? (block + 1) * BLOCK : last;
        if (from < until) visit_block(row, s, a, from, until);
    }
    if (sink && *sink > -INFINITY) {
        double best = row->m > *sink ? row->m : *sink, factor = exp(row->m - best);
        row->l = row->l * factor + exp(*sink - best);
        for (int64_t e = 0; e < row->n_values; e++) row->o[e] *= factor;
    }
    for (int64_t e = 0; e < row->n_values; e++)
        wr_store_f64(out->data, out->dtype, to + e * to_stride, row->l == 0 ? 0 : row->o[e] / row->l);
}

size_t wr_ref_attention_scratch(const wr_step *step, int n_threads) {
    const wr_tensor *q = &step->in[0], *out = &step->out;
    return (size_t)(out->shape[out->n_dims - 1] + q->shape[q->n_dims - 1]) * sizeof(double) * (size_t)n_threads;
}
/* A thread's part of it: the row, and behind it s->q. */
static row_state open_row(const wr_step *step, source *s, int64_t n_values, int thread) {
    double *own = (double *)step->scratch + (n_values + s->head_dim) * thread;
    s->q = own + n_values;
    return (row_state){.n_values = n_values, .o = own};
}

/* q [B, H, L, D], k [B, G, S, D], v [B, G, S, E]. */
void wr_ref_attention(const wr_step *step, int thread, int n_threads) {
    const wr_attention_args *a = step->args;
    const wr_tensor *q = &step->in[0], *k = &step->in[1], *v = &step->in[2], *out = &step->out;
    const wr_tensor *mask = a->has_mask ? &step->in[3] : NULL;
    const wr_tensor *sinks = a->has_sinks ? &step->in[3 + a->has_mask] : NULL;
    int64_t heads = q->shape[1], length = q->shape[2], n_keys = k->shape[2], begin, end;
    if (wr_tensor_size(out) == 0) return;
    wr_share(q->shape[0] * heads * length, thread, n_threads, &begin, &end);
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t l = unit % length, h = unit / length % heads, b = unit / length / heads;
        int64_t g = h / (heads / k->shape[1]), position = l + n_keys - length, first = 0, last = n_keys;
        source s = {.k = k,
                    .v = v,
                    .k_dim_stride = k->strides[3],
                    .v_dim_stride = v->strides[3],
                    .head_dim = q->shape[3],
                    .k_key_stride = k->strides[2],
                    .v_key_stride = v->strides[2],
                    .mask = mask};
        row_state row = open_row(step, &s, v->shape[3], thread);
        for (int64_t d = 0; d < s.head_dim; d++)
            s.q[d] = wr_load_f32(q->data, q->dtype,
                                 b * q->strides[0] + h * q->strides[1] + l * q->strides[2] + d * q->strides[3]);
        s.k_at = b * k->strides[0] + g * k->strides[1];
        s.v_at = b * v->strides[0] + g * v->strides[1];
        if (mask) {
            s.mask_at = b * mask->strides[0] + h * mask->strides[1] + l * mask->strides[2];
            s.mask_stride = mask->strides[3];
        }
        if ((a->causal || a->window) && position + 1 < last) last = position + 1;
        if (a->window && position - a->window + 1 > first) first = position - a->window + 1;
        float sink = sinks ? wr_load_f32(sinks->data, sinks->dtype, h * sinks->strides[0]) : 0;
        attend(&row, &s, a, first, last, sinks ? &sink : NULL, out,
               b * out->strides[0] + h * out->strides[1] + l * out->strides[2], out->strides[3]);
    }
}

/* q [T, H, D], strided where it is rotated here; pages [P, page, G, C] and mask [T or 1, H or 1, S], contiguous. */
void wr_ref_paged_attention(const wr_step *step, int thread, int n_threads) {
    const wr_attention_args *a = step->args;
    const wr_tensor *q = &step->in[0], *k = &step->in[1], *v = &step->in[2], *table = &step->in[3], *out = &step->out;
    const wr_tensor *mask = a->has_mask ? &step->in[6] : NULL;
    const wr_tensor *rope = a->has_rope ? &step->in[6 + a->has_mask + a->has_sinks] : NULL;
    const int32_t *row_seq = step->in[4].data, *row_pos = step->in[5].data;
    const float *sinks = a->has_sinks ? step->in[6 + a->has_mask].data : NULL;
    int64_t heads = q->shape[1], groups = k->shape[2], n_values = out->shape[2], begin, end;
    if (wr_tensor_size(out) == 0) return;
    wr_share(q->shape[0] * heads, thread, n_threads, &begin, &end);
    for (int64_t unit = begin; unit < end; unit++) {
        int64_t t = unit / heads, h = unit % heads, seq = row_seq[t], pos = row_pos[t];
        if (seq < 0 || seq >= table->shape[0]) {
            for (int64_t e = 0; e < n_values; e++) wr_store_f32(out->data, out->dtype, unit * n_values + e, 0);
            continue;
        }
        source s = {.k = k,
                    .v = v,
                    .k_dim_stride = 1,
                    .v_dim_stride = 1,
                    .head_dim = q->shape[2],
                    .pages = (const int32_t *)table->data + seq * table->shape[1],
                    .max_pages = table->shape[1],
                    .head = h / (heads / groups),
                    .tiled = a->tiled,
                    .mask = mask};
        row_state row = open_row(step, &s, n_values, thread);
        for (int64_t d = 0; d < s.head_dim; d++) s.q[d] = wr_ref_rotated(q, rope, a->interleaved, t, h, d);
        int64_t first = a->window && pos - a->window + 1 > 0 ? pos - a->window + 1 : 0, last = pos + 1;
        if (mask) {
            if (mask->shape[0] != 1) s.mask_at += t * mask->strides[0];
            if (mask->shape[1] != 1) s.mask_at += h * mask->strides[1];
            s.mask_stride = 1;
            if (last > mask->shape[2]) last = mask->shape[2];
        }
        attend(&row, &s, a, first, last, sinks ? &sinks[h] : NULL, out, unit * n_values, 1);
    }
}
