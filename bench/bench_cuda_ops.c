/* The part ops of bench_cuda: a line for shapes of every op that has kernels; products and attention are in
 * bench_cuda_products.c.
 *
 * A case is one program of several calls, replayed as a graph. Before each replay more memory is touched than L2 holds,
 * and no two calls share inputs, so all inputs come from memory. us holds a share of the replay's own start and end,
 * about 10 us for all calls; the first line, an op of 64 numbers called once, shows how much that is.
 * bytes: each input once as far as it is used, each output once; operations: what has to be computed, counted as in the
 * heads of the kernels' files. gb_s and tflops are these a second. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/kv.h"
#include "base/dtype.h"
#include "bench_cuda_ops.h"

#define F32  WEIR_DTYPE_F32
#define BF16 WEIR_DTYPE_BF16

/* ---- inputs ---- */

weir_array *op_input(op_bench *b, weir_graph *g, weir_dtype dtype, int n_dims, const int64_t *shape) {
    enum { ALIGN = 1024, SHIFT = 1 << 20 };
    weir_error err;
    int64_t size = (int64_t)weir_dtype_bytes(dtype), bytes = wr_n_elements(n_dims, shape) * size;
    if (b->at + bytes > b->pool_bytes) b->at = ++b->turn * ALIGN % SHIFT; /* equal calls would be merged */
    if (b->at + bytes > b->pool_bytes)
        bench_check(WR_FAIL(&err, WEIR_E_ARGUMENT, "an input of %lld bytes is too large for the pool of %lld",
                            (long long)bytes, (long long)b->pool_bytes),
                    &err);
    weir_array *leaf = wr_leaf(g, dtype, n_dims, shape, NULL, b->at / size, b->pool);
    b->at += (bytes + ALIGN - 1) / ALIGN * ALIGN;
    return leaf;
}

weir_array *op_logits(op_bench *b, weir_graph *g, int64_t rows) {
    if (b->logits_at + rows > b->n_logits) b->logits_at = 0;
    int64_t offset = b->logits_at * b->vocabulary;
    b->logits_at += rows;
    return wr_leaf(g, F32, 2, (int64_t[]){rows, b->vocabulary}, NULL, offset, b->logits);
}

weir_array *op_ids(weir_graph *g, int64_t n, int64_t end) {
    int32_t *ids = malloc((size_t)n * sizeof *ids);
    for (int64_t i = 0; i < n; i++) ids[i] = (int32_t)(bench_random() % (uint64_t)end);
    weir_array *array = weir_from_data(g, WEIR_DTYPE_I32, 1, &n, ids);
    free(ids);
    return array;
}

static void open_pool(op_bench *b) {
    weir_error err;
    b->pool_bytes = op_size(768ll << 20, 8 << 20);
    uint32_t *words = malloc((size_t)b->pool_bytes);
    for (int64_t i = 0; i < b->pool_bytes / 4; i++) words[i] = (bench_random() & 0x807f807fu) | 0x3f003f00u;
    bench_check(wr_buffer_new_on(b->device, (size_t)b->pool_bytes, &b->pool, &err), &err);
    bench_check(wr_buffer_write(b->pool, words, (size_t)b->pool_bytes, &err), &err);
    free(words);
}

/* Sums of four even distributions, about normal with a deviation of 2.3; some rows again and again. */
static void open_logits(op_bench *b) {
    enum { DIFFERENT = 8 };
    weir_error err;
    b->vocabulary = op_size(128256, 1000);
    b->n_logits = op_size(512, 16);
    int64_t n = b->vocabulary * DIFFERENT;
    size_t bytes = (size_t)(b->n_logits * b->vocabulary) * sizeof(float);
    float *logits = malloc(bytes);
    for (int64_t i = 0; i < n; i++) {
        float sum = 0;
        for (int k = 0; k < 4; k++) sum += (float)(bench_random() >> 8) * 0x1p-23f - 1;
        logits[i] = 2 * sum;
    }
    for (int64_t row = DIFFERENT; row < b->n_logits; row += DIFFERENT)
        memcpy(logits + row * b->vocabulary, logits, (size_t)n * sizeof(float));
    bench_check(wr_buffer_new_on(b->device, bytes, &b->logits, &err), &err);
    bench_check(wr_buffer_write(b->logits, logits, bytes, &err), &err);
    free(logits);
}

static void open_flush(op_bench *b) {
    weir_error err;
    weir_graph *g;
    wr_buffer *zeros;
    int64_t n = op_size(40 << 20, 1024);
    bench_check(wr_buffer_new_on(b->device, (size_t)n * 4, &zeros, &err), &err);
    bench_check(weir_graph_new(b->device, &g, &err), &err);
    weir_array *out = weir_add(wr_leaf(g, F32, 1, &n, NULL, 0, zeros), weir_scalar_f32(g, 1));
    bench_check(wr_program_new(&out, 1, NULL, &b->flush, &err), &err);
    weir_graph_free(g);
    wr_buffer_release(zeros);
}

/* ---- measuring ---- */

/* So many that a replay takes a millisecond at 2 TB/s and 100 TFLOP/s. */
static int calls_of(const op_case *c) {
    double us = fmax(c->bytes / 2e6, c->operations / 100e6);
    int n = bench_quick ? 2 : us * OP_MOST_CALLS < 1000 ? OP_MOST_CALLS : us > 1000 ? 1 : (int)(1000 / us);
    return c->most_calls && n > c->most_calls ? c->most_calls : n;
}

/* Few replays of what is slow. */
static int replays_of(double us) { return bench_quick ? 1 : us > 50e3 ? 3 : us > 5e3 ? 7 : BENCH_MAX_REPLAYS; }

static double program_of(op_bench *b, const op_case *c, int calls, wr_program **program) {
    weir_error err;
    weir_graph *g;
    weir_array *outputs[OP_MOST_CALLS] = {NULL};
    double us;
    bench_check(weir_graph_new(b->device, &g, &err), &err);
    for (int i = 0; i < calls; i++) outputs[i] = c->make(b, g, c, i, i ? outputs[i - 1] : NULL);
    bench_check(weir_graph_error(g, &err), &err);
    weir_array **from = c->chained ? outputs + calls - 1 : outputs;
    bench_check(wr_program_new(from, c->chained ? 1 : calls, NULL, program, &err), &err);
    weir_graph_free(g);
    bench_replay(*program, 0, 1, 0, NULL, &us);
    return us;
}

void op_measure(op_bench *b, const op_case *c, const char *shape, ...) {
    char text[96];
    va_list arguments;
    va_start(arguments, shape);
    vsnprintf(text, sizeof text, shape, arguments);
    va_end(arguments);
    wr_program *program;
    double us[BENCH_MAX_REPLAYS];
    int calls = calls_of(c), n = replays_of(program_of(b, c, calls, &program));
    bench_replay(program, n > 7 ? 2 : 0, n, 0, b->flush, us);
    double median = us[n / 2] / calls;
    printf("{\"bench\":\"ops\",\"op\":\"%s\",\"shape\":\"%s\",\"dtype\":\"%s\",\"row\":\"%s\",\"bytes\":%.0f,"
           "\"operations\":%.0f,\"us\":%.2f,\"min_us\":%.2f,\"max_us\":%.2f,\"n\":%d,\"calls\":%d,\"gb_s\":%.1f",
           c->op, text, c->format ? c->format : weir_dtype_name(c->dtype), bench_variant(program, c->id), c->bytes,
           c->operations, median, us[0] / calls, us[n - 1] / calls, n, calls, c->bytes / median * 1e-3);
    if (c->operations > 0) printf(",\"tflops\":%.3f", c->operations / median * 1e-6);
    printf("}\n");
    fflush(stdout);
    wr_program_free(program);
}

static const int64_t few_rows[] = {1, 128, 2048}, few_quick[] = {1, 3, 20};
enum { N_FEW = 3 };
static int64_t rows_of(int i) { return bench_quick ? few_quick[i] : few_rows[i]; }

/* ---- norms, rotation, keys and values ---- */

static weir_array *make_norm(op_bench *b, weir_graph *g, const op_case *c, int call, weir_array *before) {
    (void)call, (void)before;
    weir_array *x = op_input(b, g, c->dtype, 2, c->n), *weight = op_input(b, g, F32, 1, c->n + 1);
    if (c->id == WR_OP_RMS_NORM) return weir_rms_norm(x, weight, 1e-5f);
    return weir_layer_norm(x, weight, op_input(b, g, F32, 1, c->n + 1), 1e-5f);
}

static void norms(op_bench *b) {
    int64_t cols = op_size(4096, 256);
    for (int i = 0; i < N_FEW; i++)
        for (int layer = 0; layer < 2; layer++) {
            int64_t rows = rows_of(i);
            double count = (double)(rows * cols);
            op_measure(b,
                       &(op_case){.op = layer ? "layer_norm" : "rms_norm",
                                  .dtype = BF16,
                                  .id = layer ? WR_OP_LAYER_NORM : WR_OP_RMS_NORM,
                                  .bytes = 4 * count + (double)((layer ? 8 : 4) * cols),
                                  .operations = (layer ? 7 : 4) * count,
                                  .make = make_norm,
                                  .n = {rows, cols}},
                       "%lld x %lld", (long long)rows, (long long)cols);
        }
}

static weir_array *make_table(op_bench *b, weir_graph *g, const op_case *c, int call, weir_array *before) {
    (void)b, (void)call, (void)before;
    return wr_rope_table(op_ids(g, c->n[0], 100000), c->with);
}

static weir_array *make_rope(op_bench *b, weir_graph *g, const op_case *c, int call, weir_array *before) {
    (void)call, (void)before;
    weir_array *table = op_input(b, g, F32, 3, (int64_t[]){c->n[0], 2, c->n[2] / 2});
    return wr_rope_apply(op_input(b, g, c->dtype, 3, c->n), table, false);
}

/* Each call behind the rows of the call before. */
static weir_array *make_append(op_bench *b, weir_graph *g, const op_case *c, int call, weir_array *before) {
    wr_buffer *const *pages = c->with;
    int64_t rows = c->n[0], heads = c->n[1], width = c->n[2], n_pages = c->n[3];
    int64_t shape[] = {n_pages, WR_KV_TILE, heads, width};
    int32_t *numbers = calloc((size_t)(n_pages + 2 * rows), sizeof *numbers);
    for (int64_t i = 0; i < n_pages; i++) numbers[i] = (int32_t)i;
    for (int64_t i = 0; i < rows; i++) numbers[n_pages + i] = (int32_t)(call * rows + i);
    weir_array *in[] = {before ? before : wr_leaf(g, c->dtype, 4, shape, NULL, 0, pages[0]),
                        wr_leaf(g, c->dtype, 4, shape, NULL, 0, pages[1]),
                        op_input(b, g, BF16, 3, c->n),
                        op_input(b, g, BF16, 3, c->n),
                        weir_from_data(g, WEIR_DTYPE_I32, 2, (int64_t[]){1, n_pages}, numbers),
                        weir_from_data(g, WEIR_DTYPE_I32, 1, &rows, numbers + n_pages + rows),
                        weir_from_data(g, WEIR_DTYPE_I32, 1, &rows, numbers + n_pages),
                        op_input(b, g, F32, 3, (int64_t[]){rows, 2, width / 2})};
    free(numbers);
    wr_kv_args args;
    memset(&args, 0, sizeof args);
    args.tiled = args.has_rope = true;
    return wr_node(g, WR_OP_KV_APPEND, in, 8, &args);
}

static void appends(op_bench *b, int64_t rows, weir_dtype dtype) {
    enum { CALLS = 16 };
    weir_error err;
    wr_buffer *pages[2];
    int64_t heads = op_size(8, 2), width = op_size(128, 64), n_pages = (rows * CALLS - 1) / WR_KV_TILE + 1;
    size_t bytes = (size_t)(n_pages * WR_KV_TILE * heads * width) * weir_dtype_bytes(dtype);
    for (int i = 0; i < 2; i++) bench_check(wr_buffer_new_on(b->device, bytes, &pages[i], &err), &err);
    op_measure(
        b,
        &(op_case){.op = "kv_append",
                   .dtype = dtype,
                   .id = WR_OP_KV_APPEND,
                   .bytes = (double)(rows * heads * width) * 2 * (2 + op_bytes(dtype)) + (double)(rows * width * 4),
                   .operations = 3.0 * (double)(rows * heads * width),
                   .make = make_append,
                   .chained = true,
                   .most_calls = CALLS,
                   .n = {rows, heads, width, n_pages},
                   .with = pages},
        "%lld x %lld x %lld, k and v, rotated", (long long)rows, (long long)heads, (long long)width);
    for (int i = 0; i < 2; i++) wr_buffer_release(pages[i]);
}

static void rotations(op_bench *b) {
    weir_error err;
    wr_rope_table_args table;
    int64_t heads = op_size(32, 2), width = op_size(128, 64);
    bench_check(wr_rope_frequencies(&(weir_rope_options){.base = 500000}, (int)width, &table, &err), &err);
    for (int i = 0; i < N_FEW; i++) {
        int64_t rows = rows_of(i);
        double angles = (double)(rows * width / 2), count = (double)(rows * heads * width);
        op_measure(b,
                   &(op_case){.op = "rope_table",
                              .dtype = F32,
                              .id = WR_OP_ROPE_TABLE,
                              .bytes = (double)rows * 4 + angles * 8,
                              .make = make_table,
                              .n = {rows},
                              .with = &table},
                   "%lld positions, %lld wide", (long long)rows, (long long)width);
        op_measure(b,
                   &(op_case){.op = "rope",
                              .dtype = BF16,
                              .id = WR_OP_ROPE,
                              .bytes = 4 * count + 8 * angles,
                              .operations = 3 * count,
                              .make = make_rope,
                              .n = {rows, heads, width}},
                   "%lld x %lld x %lld", (long long)rows, (long long)heads, (long long)width);
    }
    for (int i = 0; i < N_FEW; i++) appends(b, rows_of(i), BF16);
    appends(b, rows_of(1), F32);
}

/* ---- element-wise ---- */

enum { CHAIN, GENERAL, SILU_UP, GELU, CAST, UNIFORM, NORMAL, BITS, FILL, N_ELEMENTWISE };

static weir_array *make_elementwise(op_bench *b, weir_graph *g, const op_case *c, int call, weir_array *before) {
    (void)before;
    if (c->n[1] >= UNIFORM && c->n[1] <= BITS) {
        uint64_t at = (uint64_t)call;
        return c->n[1] == UNIFORM  ? weir_random_uniform(g, 1, c->n, 1, at)
               : c->n[1] == NORMAL ? weir_random_normal(g, 1, c->n, 1, at)
                                   : weir_random_bits(g, 1, c->n, 1, at);
    }
    if (c->n[1] == FILL) return weir_full(g, c->dtype, 1, c->n, call);
    weir_array *x = op_input(b, g, c->dtype, 1, c->n);
    if (c->n[1] == CAST) return weir_cast(x, c->dtype == F32 ? BF16 : F32);
    if (c->n[1] == GELU) return weir_gelu_tanh(x);
    weir_array *y = op_input(b, g, c->dtype, 1, c->n);
    if (c->n[1] == SILU_UP) return weir_mul(weir_silu(x), y);
    weir_array *z = op_input(b, g, c->dtype, 1, c->n);
    if (c->n[1] == CHAIN) return weir_mul(weir_add(x, y), z);
    return weir_mul(weir_sub(x, y), weir_maximum(weir_sin(y), z));
}

static void elementwise(op_bench *b) {
    static const struct {
        const char *op, *shape;
        int n_in, operations;
        bool half_too;
    } kinds[] = {
        [CHAIN] = {"fused", "(a + b) * c", 3, 2, true},
        [GENERAL] = {"fused", "(a - b) * max(sin b, c)", 3, 4, true},
        [SILU_UP] = {"fused", "silu(a) * b", 2, 5, true},
        [GELU] = {"gelu_tanh", "", 1, 12, true},
        [CAST] = {"cast", "f32 and bf16", 1, 1, true},
        [UNIFORM] = {"random_uniform", "", 0, 20, false},
        [NORMAL] = {"random_normal", "", 0, 40, false},
        [BITS] = {"random_bits", "", 0, 18, false},
        [FILL] = {"full", "", 0, 0, true},
    };
    static const wr_op_id ids[] = {
        [GELU] = WR_OP_GELU_TANH,       [CAST] = WR_OP_CAST,        [UNIFORM] = WR_OP_RANDOM_UNIFORM,
        [NORMAL] = WR_OP_RANDOM_NORMAL, [BITS] = WR_OP_RANDOM_BITS, [FILL] = WR_OP_FULL};
    int64_t n = op_size(1 << 24, 3000);
    for (int k = 0; k < N_ELEMENTWISE; k++)
        for (int half = 0; half <= kinds[k].half_too; half++) {
            weir_dtype dtype = half ? BF16 : k == BITS ? WEIR_DTYPE_U32 : F32;
            double each = kinds[k].n_in * op_bytes(dtype) + (k == CAST ? 6 - op_bytes(dtype) : op_bytes(dtype));
            op_measure(b,
                       &(op_case){.op = kinds[k].op,
                                  .dtype = dtype,
                                  .id = k <= SILU_UP ? WR_OP_FUSED : ids[k],
                                  .bytes = each * (double)n,
                                  .operations = kinds[k].operations * (double)n,
                                  .make = make_elementwise,
                                  .n = {n, k}},
                       "%lld%s%s", (long long)n, *kinds[k].shape ? ": " : "",
                       k != CAST ? kinds[k].shape
                       : half    ? "to f32"
                                 : "to bf16");
        }
}

/* ---- moving ---- */

static weir_array *make_move(op_bench *b, weir_graph *g, const op_case *c, int call, weir_array *before) {
    (void)call, (void)before;
    int64_t rows = c->n[0], cols = c->n[1], part = c->n[2];
    if (c->id == WR_OP_TAKE) { /* all calls from one table, whose rows are read once */
        weir_array *table = wr_leaf(g, c->dtype, 2, c->n, NULL, 0, b->pool);
        return weir_take(table, op_ids(g, part, rows), 0);
    }
    weir_array *x = op_input(b, g, c->dtype, 2, c->n), *y = NULL;
    int64_t few[] = {part, cols}, square[] = {part, part}, zero[] = {0, 0}, low[] = {1, 3}, high[] = {2, 5};
    switch (c->id) {
    case WR_OP_COPY: return weir_contiguous(weir_transpose(x, NULL));
    case WR_OP_PAD: return weir_pad(x, low, high, 0);
    case WR_OP_CONCAT: y = op_input(b, g, c->dtype, 2, c->n); return weir_concat((weir_array *[]){x, y}, 2, 1);
    case WR_OP_SLICE_UPDATE: return weir_slice_update(x, op_input(b, g, c->dtype, 2, square), zero, square, NULL);
    case WR_OP_SCATTER:
    case WR_OP_SCATTER_ADD:
        y = weir_reshape(op_ids(g, part * cols, rows), 2, few);
        return (c->id == WR_OP_SCATTER ? weir_scatter : weir_scatter_add)(x, y, op_input(b, g, c->dtype, 2, few), 0);
    case WR_OP_TAKE_ALONG:
        y = weir_reshape(op_ids(g, rows * part, cols), 2, (int64_t[]){rows, part});
        return weir_take_along(x, y, 1);
    default: return NULL;
    }
}

static void moves(op_bench *b) {
    int64_t n = op_size(4096, 96), part = op_size(1024, 24), rows = op_size(32768, 200), few = op_size(128, 5),
            many = op_size(2048, 40), k = op_size(64, 3);
    double square = (double)(n * n), updates = (double)(part * n);
    struct {
        const char *op, *text;
        wr_op_id id;
        weir_dtype dtype;
        int64_t rows, cols, part;
        double elements, indices; /* moved in and out; read */
    } cases[] = {
        {"copy", "transposed", WR_OP_COPY, BF16, n, n, 0, 2 * square, 0},
        {"copy", "transposed", WR_OP_COPY, F32, n, n, 0, 2 * square, 0},
        {"concat", "two along columns", WR_OP_CONCAT, BF16, n, n, 0, 4 * square, 0},
        {"pad", "3 rows, 8 columns", WR_OP_PAD, BF16, n, n, 0, square + (double)((n + 3) * (n + 8)), 0},
        {"slice_update", "a square", WR_OP_SLICE_UPDATE, BF16, n, n, part, 2 * square + 2 * (double)(part * part), 0},
        {"take", "rows", WR_OP_TAKE, BF16, rows, n, few, 2 * (double)(few * n), (double)few},
        {"take", "rows", WR_OP_TAKE, BF16, rows, n, many, 2 * (double)(many * n), (double)many},
        {"take_along", "of each row", WR_OP_TAKE_ALONG, F32, n, n, k, 2 * (double)(n * k), (double)(n * k)},
        {"scatter", "updates a column", WR_OP_SCATTER, BF16, n, n, part, 2 * square + 2 * updates, updates},
        {"scatter_add", "updates a column", WR_OP_SCATTER_ADD, F32, n, n, part, 2 * square + 3 * updates, updates},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char taken[32] = "";
        if (cases[i].part) snprintf(taken, sizeof taken, "%lld ", (long long)cases[i].part);
        op_measure(b,
                   &(op_case){.op = cases[i].op,
                              .dtype = cases[i].dtype,
                              .id = cases[i].id,
                              .bytes = cases[i].elements * op_bytes(cases[i].dtype) + 4 * cases[i].indices,
                              .make = make_move,
                              .most_calls = cases[i].indices > 1e6 ? 4 : 16,
                              .n = {cases[i].rows, cases[i].cols, cases[i].part}},
                   "%lld x %lld: %s%s", (long long)cases[i].rows, (long long)cases[i].cols, taken, cases[i].text);
    }
}

/* ---- reductions, sorting ---- */

static weir_array *make_reduction(op_bench *b, weir_graph *g, const op_case *c, int call, weir_array *before) {
    (void)call, (void)before;
    int axis = (int)c->n[2];
    weir_array *x = c->with ? op_logits(b, g, c->n[0]) : op_input(b, g, c->dtype, 2, c->n);
    switch (c->id) {
    case WR_OP_SUM: return weir_sum(x, 1, &axis, false);
    case WR_OP_MAX: return weir_max(x, 1, &axis, false);
    case WR_OP_LOGSUMEXP: return weir_logsumexp(x, 1, &axis, false);
    case WR_OP_ARGMAX: return weir_argmax(x, axis);
    case WR_OP_SOFTMAX: return weir_softmax(x, axis);
    case WR_OP_CUMSUM: return weir_cumsum(x, axis, false, false);
    case WR_OP_SORT: return weir_sort(x, axis, true);
    case WR_OP_ARGSORT: return weir_argsort(x, axis, true);
    case WR_OP_TOP_K: return weir_top_k(x, axis, c->n[3]);
    default: return weir_arg_top_k(x, axis, c->n[3]);
    }
}

/* Of logits, or of the pool's numbers. */
static void reduction(op_bench *b, wr_op_id id, bool logits, weir_dtype dtype, int64_t rows, int64_t cols, int axis,
                      int64_t k) {
    double n = (double)(rows * cols), line = (double)(axis ? cols : rows), lines = n / line;
    bool sorts = id == WR_OP_SORT || id == WR_OP_ARGSORT, whole = sorts || id == WR_OP_SOFTMAX || id == WR_OP_CUMSUM;
    double out = whole ? n : k ? lines * (double)k : lines;
    char text[32];
    snprintf(text, sizeof text, k ? ", %lld best" : axis ? ": rows" : ": columns", (long long)k);
    op_measure(b,
               &(op_case){.op = wr_ops[id].name,
                          .dtype = dtype,
                          .id = id,
                          .bytes = (n + out) * op_bytes(dtype),
                          .operations = sorts                   ? n * log2(line)
                                        : id == WR_OP_SOFTMAX   ? 5 * n
                                        : id == WR_OP_LOGSUMEXP ? 4 * n
                                                                : n,
                          .make = make_reduction,
                          .most_calls = logits ? (int)(b->n_logits / rows) : 0,
                          .n = {rows, cols, axis, k},
                          .with = logits ? b : NULL},
               "%lld x %lld%s", (long long)rows, (long long)cols, text);
}

static void reductions(op_bench *b) {
    static const wr_op_id ids[] = {WR_OP_SUM, WR_OP_MAX, WR_OP_ARGMAX};
    int64_t n = op_size(4096, 96), batch = op_size(128, 2), v = b->vocabulary, k = op_size(50, 5);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        for (int axis = 1; axis >= 0; axis--) reduction(b, ids[i], false, F32, n, n, axis, 0);
        reduction(b, ids[i], true, F32, batch, v, 1, 0);
    }
    reduction(b, WR_OP_SUM, false, BF16, n, n, 1, 0);
    reduction(b, WR_OP_SUM, false, F32, 1, op_size(1 << 24, 20000), 1, 0);
    reduction(b, WR_OP_LOGSUMEXP, true, F32, batch, v, 1, 0);
    reduction(b, WR_OP_SOFTMAX, true, F32, batch, v, 1, 0);
    reduction(b, WR_OP_SOFTMAX, false, F32, n, n, 0, 0);
    for (int axis = 1; axis >= 0; axis--) reduction(b, WR_OP_CUMSUM, false, F32, n, n, axis, 0);
    reduction(b, WR_OP_CUMSUM, false, F32, 1, op_size(1 << 24, 20000), 1, 0);
    for (int i = 0; i < 2; i++) {
        reduction(b, WR_OP_SORT, true, F32, i ? batch : 1, v, 1, 0);
        reduction(b, WR_OP_ARGSORT, true, F32, i ? batch : 1, v, 1, 0);
        reduction(b, WR_OP_TOP_K, true, F32, i ? batch : 1, v, 1, k);
        reduction(b, WR_OP_ARG_TOP_K, true, F32, i ? batch : 1, v, 1, k);
    }
    reduction(b, WR_OP_TOP_K, false, F32, op_size(2048, 20), 128, 1, 8); /* experts of tokens */
}

/* ---- sampling ---- */

enum { GREEDY, DRAW, CUTS, PENALTIES, N_SAMPLES };

typedef struct sample_case {
    wr_sample_row row;
    wr_buffer *counts;
} sample_case;

static weir_array *make_sample(op_bench *b, weir_graph *g, const op_case *c, int call, weir_array *before) {
    (void)before;
    const sample_case *s = c->with;
    int64_t batch = c->n[0], bytes = batch * (int64_t)sizeof(wr_sample_row);
    wr_sample_row *rows = calloc((size_t)batch, sizeof *rows);
    for (int64_t i = 0; i < batch; i++) {
        rows[i] = s->row;
        rows[i].seed = (uint64_t)(call * batch + i);
        rows[i].slot = s->counts ? (int32_t)i : -1;
    }
    weir_array *in = weir_from_data(g, WEIR_DTYPE_U8, 1, &bytes, rows);
    free(rows);
    int64_t shape[] = {batch, b->vocabulary};
    weir_array *counts = s->counts ? wr_leaf(g, WEIR_DTYPE_U32, 2, shape, NULL, 0, s->counts) : NULL;
    return wr_sample_tokens(op_logits(b, g, batch), in, counts, s->row.n_top);
}

static void samples(op_bench *b) {
    static const char *const names[] = {"greedy", "temperature 0.8", "top_k 50, top_p 0.95", "penalties, top_p 0.95"};
    static const wr_sample_row kinds[] = {
        [GREEDY] = {.temperature = 0},
        [DRAW] = {.temperature = 0.8f},
        [CUTS] = {.temperature = 0.8f, .top_k = 50, .top_p = 0.95f},
        [PENALTIES] = {.temperature = 0.8f, .top_p = 0.95f, .repetition_penalty = 1.1f, .presence_penalty = 0.5f},
    };
    static const int64_t batches[] = {1, 32, 128}, quick[] = {1, 2, 3};
    weir_error err;
    for (int k = 0; k < N_SAMPLES; k++)
        for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
            int64_t batch = bench_quick ? quick[i] : batches[i];
            double n = (double)(batch * b->vocabulary);
            sample_case s = {.row = kinds[k]};
            if (k == PENALTIES) bench_check(wr_buffer_new_on(b->device, (size_t)n * 4, &s.counts, &err), &err);
            op_measure(b,
                       &(op_case){.op = "sample",
                                  .dtype = F32,
                                  .id = WR_OP_SAMPLE,
                                  .bytes = n * (s.counts ? 8 : 4),
                                  .operations = n * (k == GREEDY ? 1 : 4),
                                  .make = make_sample,
                                  .most_calls = (int)(b->n_logits / batch),
                                  .n = {batch},
                                  .with = &s},
                       "%lld x %lld: %s", (long long)batch, (long long)b->vocabulary, names[k]);
            if (s.counts) wr_buffer_release(s.counts);
        }
}

/* ---- one dimension of convolution, and what a replay costs ---- */

static weir_array *make_conv(op_bench *b, weir_graph *g, const op_case *c, int call, weir_array *before) {
    (void)call, (void)before;
    int64_t length = c->n[0], in = c->n[1], out = c->n[2], kernel = c->n[3], groups = c->n[4];
    weir_array *x = op_input(b, g, c->dtype, 3, (int64_t[]){1, length, in});
    weir_array *w = op_input(b, g, c->dtype, 3, (int64_t[]){out, kernel, in / groups});
    return weir_conv1d(x, w, NULL, 1, 1, groups, kernel - 1, 0);
}

static void convolution(op_bench *b, int64_t length, int64_t in, int64_t out, int64_t kernel, int64_t groups) {
    double weights = (double)(out * kernel * (in / groups));
    op_measure(b,
               &(op_case){.op = "conv1d",
                          .dtype = BF16,
                          .id = WR_OP_CONV1D,
                          .bytes = 2 * ((double)(length * (in + out)) + weights),
                          .operations = 2 * (double)length * weights,
                          .make = make_conv,
                          .n = {length, in, out, kernel, groups}},
               "%lld x %lld, %lld out, kernel %lld%s", (long long)length, (long long)in, (long long)out,
               (long long)kernel, groups > 1 ? ", depthwise" : "");
}

static weir_array *make_store(op_bench *b, weir_graph *g, const op_case *c, int call, weir_array *before) {
    (void)call;
    weir_array *state = before ? before : wr_leaf(g, c->dtype, 1, c->n, NULL, 0, *(wr_buffer *const *)c->with);
    return wr_store(state, op_input(b, g, c->dtype, 1, c->n));
}

static void store(op_bench *b, int64_t n, int most_calls) {
    weir_error err;
    wr_buffer *state;
    bench_check(wr_buffer_new_on(b->device, (size_t)n * 4, &state, &err), &err);
    op_measure(b,
               &(op_case){.op = "store",
                          .dtype = F32,
                          .id = WR_OP_STORE,
                          .bytes = 8 * (double)n,
                          .make = make_store,
                          .chained = true,
                          .most_calls = most_calls,
                          .n = {n},
                          .with = &state},
               "%lld%s", (long long)n, most_calls == 1 ? ", once: what a replay costs" : "");
    wr_buffer_release(state);
}

void bench_ops(weir_device *device) {
    op_bench b = {.device = device};
    open_pool(&b);
    open_logits(&b);
    open_flush(&b);
    store(&b, 64, 1);
    store(&b, op_size(1 << 22, 3000), 0);
    norms(&b);
    rotations(&b);
    elementwise(&b);
    moves(&b);
    reductions(&b);
    samples(&b);
    convolution(&b, op_size(2048, 30), op_size(8192, 64), op_size(8192, 64), 4, op_size(8192, 64));
    convolution(&b, op_size(3000, 30), op_size(128, 32), op_size(1280, 48), 3, 1);
    bench_op_products(&b);
    wr_program_free(b.flush);
    wr_buffer_release(b.logits);
    wr_buffer_release(b.pool);
}
