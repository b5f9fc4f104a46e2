/* The part ops of bench_cuda: weights (embedding, quantising, linear layers in every format, experts), matrix products
 * and attention. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/kv.h"
#include "bench_cuda_ops.h"

#define F32  WEIR_DTYPE_F32
#define BF16 WEIR_DTYPE_BF16
#define F16  WEIR_DTYPE_F16

static const bench_format *format_of(const char *name) {
    for (int i = 0; i < bench_n_formats; i++)
        if (!strcmp(bench_formats[i].name, name)) return &bench_formats[i];
    weir_error err;
    bench_check(WR_FAIL(&err, WEIR_E_ARGUMENT, "there is no format %s", name), &err);
    return NULL;
}

/* ---- weights as published, whose bytes come from the pool ---- */

typedef struct weight_case {
    wr_linear_args args;
    bool packed;
    int64_t packed_bytes;
    /* bench_weight's; else the pool has the bytes */
    wr_buffer *copies[24];
    int n_copies;
    const int32_t *ids; /* GATHER_LINEAR: of each call */
} weight_case;

static void parts_of(op_bench *b, weir_graph *g, const wr_linear_args *a, weir_array **parts) {
    weir_error err;
    wr_weight_bytes need;
    const char *why;
    if (!wr_linear_bytes(a, &need, &why)) bench_check(WR_FAIL(&err, WEIR_E_ARGUMENT, "a weight: %s", why), &err);
    for (int i = 0; i < need.n_parts; i++) {
        int64_t columns = need.bytes[i] / a->rows / (int64_t)weir_dtype_bytes(need.dtype[i]);
        parts[i] = op_input(b, g, need.dtype[i], 2, (int64_t[]){a->rows, columns});
    }
}

static double published_bytes(const wr_linear_args *a) {
    wr_weight_bytes need;
    const char *why;
    double sum = 0;
    for (int i = 0; wr_linear_bytes(a, &need, &why) && i < need.n_parts; i++) sum += (double)need.bytes[i];
    return sum;
}

static weir_array *make_embedding(op_bench *b, weir_graph *g, const op_case *c, int call, weir_array *before) {
    (void)call, (void)before;
    const weight_case *w = c->with;
    weir_array *parts[3] = {NULL};
    wr_linear_args a = w->args;
    if (w->packed) {
        a.packed = 1;
        parts[0] = wr_leaf(g, WEIR_DTYPE_U8, 1, &w->packed_bytes, NULL, 0, b->pool);
    } else {
        int64_t at = b->at;
        b->at = 0; /* one weight for all calls */
        parts_of(b, g, &a, parts);
        b->at = at;
    }
    return wr_embedding(op_ids(g, c->n[0], a.rows), &a, parts[0], parts[1], parts[2]);
}

static void embeddings(op_bench *b) {
    static const int64_t full[] = {1, 128, 2048}, quick[] = {1, 3, 20};
    weight_case w = {.args =
                         bench_linear_args(format_of("affine4_g64"), BF16, op_size(128256, 320), op_size(4096, 128))};
    w.packed_bytes = (int64_t)b->device->backend->packed_bytes(&w.args);
    double row_bytes = published_bytes(&w.args) / (double)w.args.rows;
    for (int packed = 0; packed < 2; packed++)
        for (int i = 0; i < 3; i++) {
            int64_t rows = bench_quick ? quick[i] : full[i];
            w.packed = packed;
            op_measure(b,
                       &(op_case){.op = "embedding",
                                  .format = packed ? "affine4_g64, packed" : "affine4_g64",
                                  .id = WR_OP_EMBEDDING,
                                  .bytes = (double)rows * (row_bytes + 2 * (double)w.args.cols),
                                  .operations = 2 * (double)(rows * w.args.cols),
                                  .make = make_embedding,
                                  .n = {rows},
                                  .with = &w},
                       "%lld of [%lld, %lld]", (long long)rows, (long long)w.args.rows, (long long)w.args.cols);
        }
}

static weir_array *make_dequantize(op_bench *b, weir_graph *g, const op_case *c, int call, weir_array *before) {
    (void)call, (void)before;
    const weight_case *w = c->with;
    weir_array *parts[3] = {NULL};
    parts_of(b, g, &w->args, parts);
    return weir_dequantize(parts[0], parts[1], parts[2], w->args.quant, BF16);
}

static weir_array *make_quantize(op_bench *b, weir_graph *g, const op_case *c, int call, weir_array *before) {
    (void)call, (void)before;
    const weight_case *w = c->with;
    weir_array *made[3] = {NULL};
    weir_quantize(op_input(b, g, BF16, 2, c->n), w->args.quant, &made[0], &made[1], &made[2]);
    return c->id == WR_OP_QUANTIZE_WEIGHT ? made[0] : c->id == WR_OP_QUANTIZE_SCALES ? made[1] : made[2];
}

static void quantising(op_bench *b) {
    static const char *const names[] = {"affine4_g64", "affine8_g64", "mxfp4", "nvfp4", "mxfp8"};
    static const wr_op_id ids[] = {WR_OP_QUANTIZE_WEIGHT, WR_OP_QUANTIZE_SCALES, WR_OP_QUANTIZE_BIASES};
    int64_t n = op_size(4096, 128);
    double count = (double)(n * n);
    for (size_t f = 0; f < sizeof names / sizeof *names; f++) {
        weight_case w = {.args = bench_linear_args(format_of(names[f]), BF16, n, n)};
        wr_weight_bytes need;
        const char *why;
        if (!wr_linear_bytes(&w.args, &need, &why)) continue;
        op_case c = {.op = "dequantize",
                     .format = names[f],
                     .id = WR_OP_DEQUANTIZE,
                     .bytes = published_bytes(&w.args) + 2 * count,
                     .operations = 2 * count,
                     .make = make_dequantize,
                     .n = {n, n},
                     .with = &w};
        op_measure(b, &c, "[%lld, %lld]", (long long)n, (long long)n);
        for (int part = 0; part < need.n_parts; part++) {
            c.op = wr_ops[ids[part]].name;
            c.id = ids[part];
            c.bytes = 2 * count + (double)need.bytes[part];
            c.operations = 4 * count;
            c.make = make_quantize;
            op_measure(b, &c, "[%lld, %lld]", (long long)n, (long long)n);
        }
    }
}

/* ---- linear ---- */

static weir_array *make_linear(op_bench *b, weir_graph *g, const op_case *c, int call, weir_array *before) {
    (void)before;
    const weight_case *w = c->with;
    weir_array *parts[3] = {NULL};
    if (w->n_copies)
        parts[0] = bench_weight_leaf(g, &w->args, w->copies[call % w->n_copies], (size_t)w->packed_bytes);
    else
        parts_of(b, g, &w->args, parts);
    weir_array *x = op_input(b, g, c->id == WR_OP_NORM_LINEAR ? F32 : BF16, 2, (int64_t[]){c->n[0], w->args.cols});
    if (c->id == WR_OP_LINEAR) return wr_linear(x, &w->args, parts[0], parts[1], parts[2]);
    /* What the program compiler makes of a linear layer and what stands beside it. The weight is packed. */
    wr_linear_args args;
    memset(&args, 0, sizeof args);
    memcpy(&args, &w->args, sizeof args);
    args.out_dtype = 0;
    weir_array *in[] = {x, NULL, parts[0]};
    if (c->id == WR_OP_LINEAR_ADD) in[1] = op_input(b, g, BF16, 2, (int64_t[]){c->n[0], args.rows});
    if (c->id == WR_OP_NORM_LINEAR) {
        in[1] = op_input(b, g, F32, 1, &args.cols);
        args.norm_dtype = BF16;
        args.norm_eps = 1e-5f;
    }
    if (c->id != WR_OP_LINEAR_GATED) return wr_node(g, c->id, in, 3, &args);
    args.gate = WR_OP_SILU;
    in[1] = parts[0];
    return wr_node(g, c->id, in, 2, &args);
}

static void linear(op_bench *b, wr_op_id id, weight_case *w, const char *format, double weight_bytes, int64_t m) {
    double rows = (double)w->args.rows, cols = (double)w->args.cols;
    double out = id == WR_OP_LINEAR_ADD ? 2 * rows : id == WR_OP_LINEAR_GATED ? rows / 2 : rows; /* and the addend */
    double norm = id == WR_OP_NORM_LINEAR ? 4 * cols + 2 * (double)m * cols : 0; /* its weight; x is in f32 */
    char text[48];
    snprintf(text, sizeof text, "%s%s", format, w->args.packed ? ", packed" : "");
    op_measure(b,
               &(op_case){.op = wr_ops[id].name,
                          .format = text,
                          .id = id,
                          .bytes = weight_bytes + norm + 2 * (double)m * (cols + out),
                          .operations = 2 * (double)m * rows * cols,
                          .make = make_linear,
                          .n = {m},
                          .with = w},
               "%lld x [%lld, %lld]", (long long)m, (long long)w->args.rows, (long long)w->args.cols);
}

/* Every format; the first one also with what the program compiler fuses into it, for as many rows as it does. */
static void packed_linears(op_bench *b) {
    enum { BEYOND_L2 = 120000000 };
    static const wr_op_id fused[] = {WR_OP_LINEAR_ADD, WR_OP_LINEAR_GATED, WR_OP_NORM_LINEAR};
    static const int64_t full[] = {1, 8, 32, 2048}, quick[] = {1, 9, 17, 70};
    weir_error err;
    int64_t n = op_size(4096, 256);
    for (int f = 0; f < bench_n_formats; f++) {
        weight_case w = {.args = bench_linear_args(&bench_formats[f], BF16, n, n)};
        size_t bytes;
        void *packed = bench_weight(b->device, &w.args, &bytes);
        w.packed_bytes = (int64_t)bytes;
        w.n_copies = bench_quick ? 2 : (int)(BEYOND_L2 / bytes) + 2;
        for (int i = 0; i < w.n_copies; i++) {
            bench_check(wr_buffer_new_on(b->device, bytes, &w.copies[i], &err), &err);
            bench_check(wr_buffer_write(w.copies[i], packed, bytes, &err), &err);
        }
        free(packed);
        for (int i = 0; i < 4; i++)
            linear(b, WR_OP_LINEAR, &w, bench_formats[f].name, (double)bytes, bench_quick ? quick[i] : full[i]);
        for (int k = 0; k < 3 && f == 0; k++)
            for (int i = 0; i < (fused[k] == WR_OP_LINEAR_ADD ? 4 : fused[k] == WR_OP_LINEAR_GATED ? 2 : 1); i++)
                linear(b, fused[k], &w, bench_formats[f].name, (double)bytes, bench_quick ? quick[i] : full[i]);
        for (int i = 0; i < w.n_copies; i++) wr_buffer_release(w.copies[i]);
    }
}

static void published_linears(op_bench *b) {
    static const char *const names[] = {"affine4_g64", "bf16"};
    static const int64_t full[] = {1, 8, 64, 2048}, quick[] = {1, 9, 17, 70};
    for (size_t f = 0; f < sizeof names / sizeof *names; f++)
        for (int i = 0; i < 4; i++) {
            weight_case w = {.args =
                                 bench_linear_args(format_of(names[f]), BF16, op_size(12288, 96), op_size(4096, 128))};
            linear(b, WR_OP_LINEAR, &w, names[f], published_bytes(&w.args), bench_quick ? quick[i] : full[i]);
        }
}

/* ---- experts ---- */

enum { EXPERT_CALLS = 16 };

static weir_array *make_gather(op_bench *b, weir_graph *g, const op_case *c, int call, weir_array *before) {
    (void)before;
    const weight_case *w = c->with;
    int64_t rows = c->n[0];
    weir_array *x = op_input(b, g, BF16, 2, (int64_t[]){rows, w->args.cols});
    weir_array *ids = weir_from_data(g, WEIR_DTYPE_I32, 1, &rows, w->ids + call * rows);
    return wr_gather_linear(x, ids, &w->args, wr_leaf(g, WEIR_DTYPE_U8, 1, &w->packed_bytes, NULL, 0, w->copies[0]),
                            NULL, NULL);
}

/* `each` different experts for every token; the mean number of experts that a call reads. */
static double choose_experts(int32_t *ids, int64_t tokens, int64_t each, int64_t experts) {
    int32_t *order = malloc((size_t)experts * sizeof *order);
    double used = 0;
    for (int call = 0; call < EXPERT_CALLS; call++) {
        bool *seen = calloc((size_t)experts, sizeof *seen);
        for (int64_t e = 0; e < experts; e++) order[e] = (int32_t)e;
        for (int64_t t = 0; t < tokens; t++)
            for (int64_t k = 0; k < each; k++) {
                int64_t other = k + bench_random() % (uint64_t)(experts - k);
                int32_t id = order[other];
                order[other] = order[k], order[k] = id;
                *ids++ = id;
                used += !seen[id];
                seen[id] = true;
            }
        free(seen);
    }
    free(order);
    return used / EXPERT_CALLS;
}

static void experts(op_bench *b) {
    static const int64_t full[] = {1, 16, 128, 2048}, quick[] = {1, 3, 9, 40};
    weir_error err;
    int64_t each = op_size(8, 2);
    weight_case w = {.args = bench_linear_args(format_of("affine4_g64"), 0, op_size(1536, 48), op_size(2048, 128))};
    size_t bytes;
    w.args.experts = op_size(128, 6);
    void *packed = bench_weight(b->device, &w.args, &bytes);
    w.packed_bytes = (int64_t)bytes;
    bench_check(wr_buffer_new_on(b->device, bytes, &w.copies[0], &err), &err);
    bench_check(wr_buffer_write(w.copies[0], packed, bytes, &err), &err);
    free(packed);
    for (int i = 0; i < 4; i++) {
        int64_t tokens = bench_quick ? quick[i] : full[i], m = tokens * each;
        double rows = (double)w.args.rows, cols = (double)w.args.cols;
        int32_t *ids = malloc((size_t)(m * EXPERT_CALLS) * sizeof *ids);
        double used = choose_experts(ids, tokens, each, w.args.experts);
        w.ids = ids;
        op_measure(b,
                   &(op_case){.op = "gather_linear",
                              .format = "affine4_g64, packed",
                              .id = WR_OP_GATHER_LINEAR,
                              .bytes = (double)bytes * used / (double)w.args.experts + 2 * (double)m * (rows + cols),
                              .operations = 2 * (double)m * rows * cols,
                              .make = make_gather,
                              .most_calls = EXPERT_CALLS,
                              .n = {m},
                              .with = &w},
                   "%lld tokens, %lld of %lld experts [%lld, %lld]", (long long)tokens, (long long)each,
                   (long long)w.args.experts, (long long)w.args.rows, (long long)w.args.cols);
        free(ids);
    }
    wr_buffer_release(w.copies[0]);
}

/* ---- dense products and attention ---- */

static weir_array *make_matmul(op_bench *b, weir_graph *g, const op_case *c, int call, weir_array *before) {
    (void)call, (void)before;
    weir_array *x = op_input(b, g, c->dtype, 3, (int64_t[]){c->n[0], c->n[1], c->n[2]});
    return weir_matmul(x, op_input(b, g, c->dtype, 3, (int64_t[]){c->n[0], c->n[2], c->n[3]}));
}

static void matmuls(op_bench *b) {
    static const weir_dtype dtypes[] = {BF16, F16, F32};
    int64_t n = op_size(4096, 96), small = op_size(128, 32);
    const int64_t shapes[][4] = {{1, n, n, n}, {1, 1, n, n}, {op_size(32, 3), small, small, small}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int d = 0; d < 3; d++) {
            double batch = (double)shapes[s][0], m = (double)shapes[s][1], k = (double)shapes[s][2],
                   columns = (double)shapes[s][3];
            op_case c = {.op = "matmul",
                         .dtype = dtypes[d],
                         .id = WR_OP_MATMUL,
                         .bytes = batch * (m * k + k * columns + m * columns) * op_bytes(dtypes[d]),
                         .operations = 2 * batch * m * k * columns,
                         .make = make_matmul};
            memcpy(c.n, shapes[s], sizeof shapes[s]);
            op_measure(b, &c, "%lld: %lld x %lld x %lld", (long long)c.n[0], (long long)c.n[1], (long long)c.n[2],
                       (long long)c.n[3]);
        }
}

static weir_array *make_dense(op_bench *b, weir_graph *g, const op_case *c, int call, weir_array *before) {
    (void)call, (void)before;
    int64_t heads = c->n[0], kv_heads = c->n[1], rows = c->n[2], width = c->n[3],
            kv_shape[] = {1, kv_heads, rows, width};
    weir_array *q = op_input(b, g, c->dtype, 4, (int64_t[]){1, heads, rows, width});
    weir_array *k = op_input(b, g, c->dtype, 4, kv_shape), *v = op_input(b, g, c->dtype, 4, kv_shape);
    weir_attention_options options = {.causal = c->n[4]};
    return weir_attention(q, k, v, NULL, NULL, &options);
}

static void dense_attention(op_bench *b, weir_dtype dtype, bool causal) {
    int64_t heads = op_size(32, 4), kv_heads = op_size(8, 2), rows = op_size(2048, 70), width = op_size(128, 64);
    double pairs = causal ? (double)rows * (double)(rows + 1) / 2 : (double)(rows * rows);
    op_measure(b,
               &(op_case){.op = "attention",
                          .dtype = dtype,
                          .id = WR_OP_ATTENTION,
                          .bytes = 2 * (double)((heads + kv_heads) * rows * width) * op_bytes(dtype),
                          .operations = 4 * (double)(heads * width) * pairs,
                          .make = make_dense,
                          .n = {heads, kv_heads, rows, width, causal}},
               "%lld over %lld heads, %lld x %lld%s", (long long)heads, (long long)kv_heads, (long long)rows,
               (long long)width, causal ? ", causal" : "");
}

/* ---- paged attention ---- */

typedef struct paged_case {
    int64_t batch, keys, tokens, kv_heads, group, d, e;
    weir_array *table, *seq, *pos; /* of all calls, so that the schedule is made once, as for the layers of a model */
} paged_case;

static void place_sequences(weir_graph *g, paged_case *p) {
    int64_t pages = (p->keys - 1) / WR_KV_TILE + 1, all = pages * p->batch, rows = p->batch * p->tokens;
    int32_t *numbers = malloc((size_t)(all + 2 * rows) * sizeof *numbers), *seq = numbers + all, *pos = seq + rows;
    for (int64_t i = 0; i < all; i++) numbers[i] = (int32_t)i;
    for (int64_t i = all - 1; i > 0; i--) {
        int64_t j = bench_random() % (uint64_t)(i + 1);
        int32_t number = numbers[i];
        numbers[i] = numbers[j], numbers[j] = number;
    }
    for (int64_t i = 0; i < rows; i++) {
        seq[i] = (int32_t)(i / p->tokens);
        pos[i] = (int32_t)(p->keys - p->tokens + i % p->tokens);
    }
    p->table = weir_from_data(g, WEIR_DTYPE_I32, 2, (int64_t[]){p->batch, pages}, numbers);
    p->seq = weir_from_data(g, WEIR_DTYPE_I32, 1, &rows, seq);
    p->pos = weir_from_data(g, WEIR_DTYPE_I32, 1, &rows, pos);
    free(numbers);
}

static weir_array *make_paged(op_bench *b, weir_graph *g, const op_case *c, int call, weir_array *before) {
    (void)before;
    paged_case *p = c->with;
    if (call == 0) place_sequences(g, p);
    int64_t all = ((p->keys - 1) / WR_KV_TILE + 1) * p->batch, heads = p->kv_heads * p->group;
    int64_t k_shape[] = {all, WR_KV_TILE, p->kv_heads, wr_kv_columns(true, p->d)};
    int64_t v_shape[] = {all, WR_KV_TILE, p->kv_heads, wr_kv_columns(true, p->e)};
    wr_attention_args args;
    memset(&args, 0, sizeof args);
    args.scale = 1 / sqrtf((float)p->d);
    args.causal = args.tiled = true;
    args.value_dim = p->e;
    weir_array *q = op_input(b, g, BF16, 3, (int64_t[]){p->batch * p->tokens, heads, p->d});
    weir_array *k = op_input(b, g, c->dtype, 4, k_shape), *v = op_input(b, g, c->dtype, 4, v_shape);
    return wr_paged_attention(q, k, v, p->table, p->seq, p->pos, NULL, NULL, &args);
}

static void paged(op_bench *b, paged_case p, weir_dtype dtype) {
    double rows = (double)(p.batch * p.tokens), heads = (double)(p.kv_heads * p.group), width = (double)(p.d + p.e);
    double earlier = (double)(p.keys - p.tokens), pairs = rows * (earlier + (double)(p.tokens + 1) / 2);
    char head[24];
    snprintf(head, sizeof head, p.d == p.e ? "%lld" : "%lld/%lld", (long long)p.d, (long long)p.e);
    op_measure(b,
               &(op_case){.op = p.tokens > 1 ? "paged_attention, prefill" : "paged_attention, decode",
                          .dtype = dtype,
                          .id = WR_OP_PAGED_ATTENTION,
                          .bytes = (double)(p.batch * p.keys * p.kv_heads) * width * op_bytes(dtype) +
                                   2 * rows * heads * width,
                          .operations = 2 * heads * width * pairs,
                          .make = make_paged,
                          .with = &p},
               "%lld x %lld keys, %lld x %lld heads of %s", (long long)p.batch, (long long)p.keys,
               (long long)p.kv_heads, (long long)p.group, head);
}

static void paged_attention(op_bench *b) {
    static const int heads[][4] = {{64, 64, 8, 4},   {80, 80, 8, 4},   {96, 96, 8, 4},  {128, 128, 8, 4},
                                   {192, 128, 8, 4}, {256, 256, 4, 4}, {512, 512, 2, 8}};
    static const weir_dtype dtypes[] = {BF16, F16, F32};
    for (int d = 0; d < 3; d++)
        for (size_t h = 0; h < sizeof heads / sizeof *heads; h++) {
            const int *s = heads[h];
            paged_case p = {.batch = 1,
                            .keys = op_size(8192, 130),
                            .tokens = 1,
                            .kv_heads = op_size(s[2], 2),
                            .group = op_size(s[3], 2),
                            .d = s[0],
                            .e = s[1]};
            paged(b, p, dtypes[d]);
            p.batch = op_size(32, 2);
            p.keys = op_size(2048, 70);
            paged(b, p, dtypes[d]);
            bool filled = s[0] == 64 || s[0] == 128 || s[0] == 256 || s[0] == 512;
            if (!filled || dtypes[d] == F32) continue;
            p.batch = 1;
            p.tokens = p.keys;
            paged(b, p, dtypes[d]);
        }
}

void bench_op_products(op_bench *b) {
    embeddings(b);
    quantising(b);
    packed_linears(b);
    published_linears(b);
    experts(b);
    matmuls(b);
    dense_attention(b, BF16, true);
    dense_attention(b, BF16, false);
    dense_attention(b, F16, true);
    dense_attention(b, F32, true);
    paged_attention(b);
}
