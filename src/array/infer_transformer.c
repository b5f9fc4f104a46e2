/* Shape and dtype rules of norms, rotary embedding, attention, KV pages and convolution. */
#include "array/internal.h"
#include "array/kv.h"

static const char *name(const weir_array *out) { return wr_ops[out->op].name; }

static weir_status like(weir_array *out, const weir_array *x) {
    out->dtype = x->dtype;
    out->n_dims = x->n_dims;
    for (int i = 0; i < x->n_dims; i++) out->shape[i] = x->shape[i];
    return WEIR_OK;
}

static bool is(const weir_array *a, weir_dtype dtype, int n_dims) { return a->dtype == dtype && a->n_dims == n_dims; }

weir_status wr_infer_norm(weir_array *out, weir_error *err) {
    const weir_array *x = out->in[0];
    if (!wr_is_float(x->dtype) || x->n_dims < 1)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "%s: input %s must be a float with at least one axis", name(out),
                       wr_describe(x).s);
    for (int i = 1; i < out->n_in; i++) {
        const weir_array *w = out->in[i];
        if (w->n_dims != 1 || !wr_is_float(w->dtype) || w->shape[0] != x->shape[x->n_dims - 1])
            return WR_FAIL(err, WEIR_E_ARGUMENT, "%s: %s %s does not fit input %s", name(out),
                           i == 1 ? "weight" : "bias", wr_describe(w).s, wr_describe(x).s);
    }
    const wr_norm_args *args = out->args;
    like(out, x);
    if (args->out_dtype) out->dtype = args->out_dtype;
    if (wr_is_float(out->dtype)) return WEIR_OK;
    return WR_FAIL(err, WEIR_E_ARGUMENT, "%s: result dtype %s must be a float", name(out), weir_dtype_name(out->dtype));
}

weir_status wr_infer_rope_table(weir_array *out, weir_error *err) {
    const wr_rope_table_args *args = out->args;
    const weir_array *positions = out->in[0];
    if (!wr_is_index(positions->dtype) || positions->n_dims != 1)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "rope_table: positions %s must be i32 or i64 [T]",
                       wr_describe(positions).s);
    if (args->half < 1 || args->half > WR_ROPE_MAX_HALF)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "rope_table: %d rotated pairs, 1 to %d are possible", args->half,
                       WR_ROPE_MAX_HALF);
    out->dtype = WEIR_DTYPE_F32;
    out->n_dims = 3;
    out->shape[0] = positions->shape[0];
    out->shape[1] = 2;
    out->shape[2] = args->half;
    return WEIR_OK;
}

weir_status wr_infer_rope(weir_array *out, weir_error *err) {
    const weir_array *x = out->in[0], *table = out->in[1];
    if (!wr_is_float(x->dtype) || x->n_dims != 3 || !is(table, WEIR_DTYPE_F32, 3) || table->shape[0] != x->shape[0] ||
        table->shape[1] != 2 || table->shape[2] > x->shape[2] / 2)
        return WR_FAIL(err, WEIR_E_ARGUMENT,
                       "rope: input %s (float [T, H, D]) and table %s (f32 [T, 2, half]) do not fit", wr_describe(x).s,
                       wr_describe(table).s);
    return like(out, x);
}

weir_status wr_infer_attention(weir_array *out, weir_error *err) {
    const wr_attention_args *args = out->args;
    const weir_array *q = out->in[0], *k = out->in[1], *v = out->in[2];
    bool good = wr_is_float(q->dtype) && q->n_dims == 4 && is(k, q->dtype, 4) && is(v, q->dtype, 4);
    good = good && k->shape[0] == q->shape[0] && v->shape[0] == q->shape[0] && k->shape[1] == v->shape[1] &&
           k->shape[2] == v->shape[2] && k->shape[3] == q->shape[3] &&
           (k->shape[1] > 0 ? q->shape[1] % k->shape[1] == 0 : q->shape[1] == 0);
    if (!good)
        return WR_FAIL(
            err, WEIR_E_ARGUMENT,
            "attention: q %s, k %s, v %s do not fit [B,H,L,D], [B,G,S,D], [B,G,S,E] of one float dtype with H a "
            "multiple of G",
            wr_describe(q).s, wr_describe(k).s, wr_describe(v).s);
    if (out->n_in != 3 + args->has_mask + args->has_sinks)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "attention: %d inputs do not fit mask %d, sinks %d", out->n_in,
                       args->has_mask, args->has_sinks);
    if (args->has_mask) {
        const weir_array *mask = out->in[3];
        if (mask->n_dims != 4 || (mask->dtype != WEIR_DTYPE_BOOL && !wr_is_float(mask->dtype)) ||
            mask->shape[0] != q->shape[0] || mask->shape[1] != q->shape[1] || mask->shape[2] != q->shape[2] ||
            mask->shape[3] != k->shape[2])
            return WR_FAIL(err, WEIR_E_ARGUMENT, "attention: mask %s must be bool or float [B,H,L,S] for q %s and k %s",
                           wr_describe(mask).s, wr_describe(q).s, wr_describe(k).s);
    }
    if (args->has_sinks) {
        const weir_array *sinks = out->in[3 + args->has_mask];
        if (!is(sinks, WEIR_DTYPE_F32, 1) || sinks->shape[0] != q->shape[1])
            return WR_FAIL(err, WEIR_E_ARGUMENT, "attention: sinks %s must be f32 [%lld]", wr_describe(sinks).s,
                           (long long)q->shape[1]);
    }
    if (args->window < 0)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "attention: window is %lld; 0 means none", (long long)args->window);
    like(out, q);
    out->shape[3] = v->shape[3];
    return WEIR_OK;
}

/* in[first..first+2]: block_table i32 [S, max_pages], row_seq i32 [T], row_pos i32 [T]. */
static weir_status check_rows(const weir_array *out, int first, int64_t n_rows, weir_error *err) {
    const weir_array *table = out->in[first], *seq = out->in[first + 1], *pos = out->in[first + 2];
    if (is(table, WEIR_DTYPE_I32, 2) && is(seq, WEIR_DTYPE_I32, 1) && is(pos, WEIR_DTYPE_I32, 1) &&
        seq->shape[0] == n_rows && pos->shape[0] == n_rows)
        return WEIR_OK;
    return WR_FAIL(err, WEIR_E_ARGUMENT,
                   "%s: block_table %s, row_seq %s, row_pos %s must be i32 [S, max_pages], i32 [%lld], i32 [%lld]",
                   name(out), wr_describe(table).s, wr_describe(seq).s, wr_describe(pos).s, (long long)n_rows,
                   (long long)n_rows);
}

weir_status wr_infer_store(weir_array *out, weir_error *err) {
    const weir_array *state = out->in[0], *x = out->in[1];
    bool good = (state->buffer || wr_ops[state->op].flags & WR_INPLACE) && state->n_dims >= 1 &&
                x->n_dims == state->n_dims && x->dtype == state->dtype && x->shape[0] <= state->shape[0] &&
                (!state->buffer || wr_is_contiguous(state->n_dims, state->shape, state->strides));
    for (int i = 1; good && i < x->n_dims; i++) good = x->shape[i] == state->shape[i];
    if (!good)
        return WR_FAIL(err, WEIR_E_ARGUMENT,
                       "store: %s does not fit into state %s (a contiguous leaf or an earlier store, the same dtype)",
                       wr_describe(x).s, wr_describe(state).s);
    return like(out, state);
}

weir_status wr_infer_sample(weir_array *out, weir_error *err) {
    const wr_sample_args *args = out->args;
    const weir_array *logits = out->in[0], *rows = out->in[1], *counts = out->n_in > 2 ? out->in[2] : NULL;
    bool good = is(logits, WEIR_DTYPE_F32, 2) && is(rows, WEIR_DTYPE_U8, 1) && args->n_top >= 0 &&
                args->n_top <= WR_SAMPLE_MAX_TOP && logits->shape[0] <= rows->shape[0] / (int64_t)sizeof(wr_sample_row);
    if (counts) good = good && is(counts, WEIR_DTYPE_U32, 2) && counts->shape[1] == logits->shape[1];
    if (!good)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "sample: logits %s, rows %s, counts %s and %d best tokens do not fit",
                       wr_describe(logits).s, wr_describe(rows).s, counts ? wr_describe(counts).s : "none",
                       args->n_top);
    out->dtype = WEIR_DTYPE_I32;
    out->n_dims = 2;
    out->shape[0] = logits->shape[0];
    out->shape[1] = WR_SAMPLE_HEAD + 2 * args->n_top;
    return WEIR_OK;
}

/* Tiled pages begin at whole tiles of their buffer: kernels copy them in bulk. */
static bool is_pages(const weir_array *pages, bool tiled) {
    return wr_is_float(pages->dtype) && pages->n_dims == 4 &&
           (!tiled || (pages->shape[1] == WR_KV_TILE && (!pages->buffer || pages->offset % WR_KV_TILE == 0)));
}

/* x [T, G, D] goes into the pages. */
static weir_status check_write(const weir_array *out, const weir_array *pages, const weir_array *x, bool tiled,
                               weir_error *err) {
    if (!pages->buffer && !(wr_ops[pages->op].flags & WR_INPLACE))
        return WR_FAIL(err, WEIR_E_ARGUMENT, "%s: pages are the result of %s; they must be a leaf or an earlier write",
                       name(out), wr_ops[pages->op].name);
    if (!is_pages(pages, tiled) || !wr_is_float(x->dtype) || x->n_dims != 3 || x->shape[1] != pages->shape[2] ||
        wr_kv_columns(tiled, x->shape[2]) != pages->shape[3] ||
        (pages->buffer && !wr_is_contiguous(4, pages->shape, pages->strides)))
        return WR_FAIL(err, WEIR_E_ARGUMENT,
                       "%s: pages %s (contiguous float [P, page, G, D]; tiled: [P, %d, G, D up to a multiple of %d]) "
                       "and x %s (float [T, G, D]) do not fit",
                       name(out), wr_describe(pages).s, WR_KV_TILE, WR_KV_TILE, wr_describe(x).s);
    return WEIR_OK;
}

weir_status wr_infer_kv_write(weir_array *out, weir_error *err) {
    const wr_kv_args *args = out->args;
    WR_TRY(check_write(out, out->in[0], out->in[1], args->tiled, err));
    WR_TRY(check_rows(out, 2, out->in[1]->shape[0], err));
    return like(out, out->in[0]);
}

static bool is_rope_table(const weir_array *table, const weir_array *x) {
    return is(table, WEIR_DTYPE_F32, 3) && table->shape[0] == x->shape[0] && table->shape[1] == 2 &&
           2 * table->shape[2] <= x->shape[2];
}

weir_status wr_infer_kv_append(weir_array *out, weir_error *err) {
    const wr_kv_args *args = out->args;
    const weir_array *k = out->in[2], *v = out->in[3];
    for (int i = 0; i < 2; i++) WR_TRY(check_write(out, out->in[i], out->in[2 + i], args->tiled, err));
    if (k->shape[0] != v->shape[0] || k->shape[1] != v->shape[1] || out->in[0]->shape[0] != out->in[1]->shape[0] ||
        out->in[0]->shape[1] != out->in[1]->shape[1])
        return WR_FAIL(err, WEIR_E_ARGUMENT, "kv_append: k %s and v %s, or their pages %s and %s, do not fit",
                       wr_describe(k).s, wr_describe(v).s, wr_describe(out->in[0]).s, wr_describe(out->in[1]).s);
    if (out->n_in != 7 + args->has_rope || (args->has_rope && !is_rope_table(out->in[7], k)))
        return WR_FAIL(err, WEIR_E_ARGUMENT,
                       "kv_append: %d inputs and rope %d do not fit; a table is f32 [%lld, 2, half]", out->n_in,
                       args->has_rope, (long long)k->shape[0]);
    WR_TRY(check_rows(out, 4, k->shape[0], err));
    return like(out, out->in[0]);
}

/* Axes of 1 are one row, or head, for all; the keys' axis never is. */
static bool is_paged_mask(const weir_array *mask, const weir_array *q) {
    bool good = mask->n_dims == 3 && (mask->dtype == WEIR_DTYPE_BOOL || wr_is_float(mask->dtype));
    for (int i = 0; good && i < 2; i++) good = mask->shape[i] == q->shape[i] || mask->shape[i] == 1;
    return good;
}

weir_status wr_infer_paged_attention(weir_array *out, weir_error *err) {
    const wr_attention_args *args = out->args;
    const weir_array *q = out->in[0], *k = out->in[1], *v = out->in[2];
    bool good = wr_is_float(q->dtype) && q->n_dims == 3 && is_pages(k, args->tiled) && is_pages(v, args->tiled);
    int64_t value_dim = !good ? 0 : args->tiled ? args->value_dim : v->shape[3];
    good = good && k->shape[0] == v->shape[0] && k->shape[1] == v->shape[1] && k->shape[2] == v->shape[2] &&
           k->shape[3] == wr_kv_columns(args->tiled, q->shape[2]) && value_dim >= 0 &&
           v->shape[3] == wr_kv_columns(args->tiled, value_dim) && k->shape[2] > 0 && q->shape[1] % k->shape[2] == 0;
    if (!good)
        return WR_FAIL(err, WEIR_E_ARGUMENT,
                       "paged_attention: q %s, k %s, v %s do not fit [T,H,D], [P,page,G,D], [P,page,G,E] with H a "
                       "multiple of G; tiled %d: page %d, D and E (%lld) up to a multiple of %d",
                       wr_describe(q).s, wr_describe(k).s, wr_describe(v).s, args->tiled, WR_KV_TILE,
                       (long long)args->value_dim, WR_KV_TILE);
    WR_TRY(check_rows(out, 3, q->shape[0], err));
    int sinks = 6 + args->has_mask, rope = sinks + args->has_sinks;
    if (out->n_in != rope + args->has_rope || (args->has_rope && !is_rope_table(out->in[rope], q)))
        return WR_FAIL(err, WEIR_E_ARGUMENT,
                       "paged_attention: %d inputs do not fit mask %d, sinks %d and rope %d (f32 [T, 2, half])",
                       out->n_in, args->has_mask, args->has_sinks, args->has_rope);
    if (args->has_mask && !is_paged_mask(out->in[6], q))
        return WR_FAIL(err, WEIR_E_ARGUMENT,
                       "paged_attention: mask %s must be bool or float [%lld or 1, %lld or 1, keys] for q %s",
                       wr_describe(out->in[6]).s, (long long)q->shape[0], (long long)q->shape[1], wr_describe(q).s);
    if (args->has_sinks && (!is(out->in[sinks], WEIR_DTYPE_F32, 1) || out->in[sinks]->shape[0] != q->shape[1]))
        return WR_FAIL(err, WEIR_E_ARGUMENT, "paged_attention: sinks %s must be f32 [%lld]",
                       wr_describe(out->in[sinks]).s, (long long)q->shape[1]);
    if (args->window < 0)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "paged_attention: window is %lld; 0 means none", (long long)args->window);
    like(out, q);
    out->shape[2] = value_dim;
    return WEIR_OK;
}

weir_status wr_infer_conv1d(weir_array *out, weir_error *err) {
    const wr_conv1d_args *args = out->args;
    const weir_array *x = out->in[0], *w = out->in[1];
    bool good = wr_is_float(x->dtype) && x->n_dims == 3 && is(w, x->dtype, 3) && args->groups > 0 &&
                x->shape[2] % args->groups == 0 && w->shape[0] % args->groups == 0 &&
                w->shape[2] == x->shape[2] / args->groups && w->shape[1] > 0;
    if (good && out->n_in == 3) good = is(out->in[2], x->dtype, 1) && out->in[2]->shape[0] == w->shape[0];
    if (!good)
        return WR_FAIL(err, WEIR_E_ARGUMENT,
                       "conv1d: input %s ([B, L, C]), weight %s ([O, kernel, C/groups]), groups %lld%s%s do not fit",
                       wr_describe(x).s, wr_describe(w).s, (long long)args->groups, out->n_in == 3 ? ", bias " : "",
                       out->n_in == 3 ? wr_describe(out->in[2]).s : "");
    int64_t length = x->shape[1], reach;
    if (args->stride < 1 || args->dilation < 1 || args->pad_low < 0 || args->pad_high < 0 ||
        __builtin_add_overflow(length, args->pad_low, &length) ||
        __builtin_add_overflow(length, args->pad_high, &length) ||
        __builtin_mul_overflow(w->shape[1] - 1, args->dilation, &reach))
        return WR_FAIL(
            err, WEIR_E_ARGUMENT, "conv1d: stride %lld, dilation %lld, padding %lld and %lld are not possible",
            (long long)args->stride, (long long)args->dilation, (long long)args->pad_low, (long long)args->pad_high);
    out->dtype = x->dtype;
    out->n_dims = 3;
    out->shape[0] = x->shape[0];
    out->shape[1] = length > reach ? (length - reach - 1) / args->stride + 1 : 0;
    out->shape[2] = w->shape[0];
    return WEIR_OK;
}
