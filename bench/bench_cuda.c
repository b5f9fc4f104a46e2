/* Times kernels of the CUDA backend through the runtime and prints one JSON line a case:
 *
 *   bench_cuda [--quick] [linear | attention | prefill | nodes | ops ...]      default: all
 *   bench_cuda rows                                                      rows of linear have the same bits for any M
 *   bench_cuda linear=FORMAT,ROWS,COLS,M                                 one case
 *   bench_cuda attention=BATCH,KEYS,TOKENS,KV_HEADS,GROUP,HEAD_DIM       one case
 *
 * A case is one program of many calls of one op, replayed as a graph; weights, inputs and pages are cycled so that a
 * call finds none of its data in L2. us: microseconds a call, median of n replays one right after the other; min and
 * max show the spread. rested_us, for products of many rows, whose clock falls by a tenth when they go on for long: the
 * median of as many replays of some 5 ms, each after 50 ms of rest.
 * tb_s: bytes of weights, or of keys and values, a second; tflops: 2 x rows x cols x M, or of scores and P x V (causal:
 * what the mask leaves), a second. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/kv.h"
#include "bench_cuda.h"

/* ---- linear ---- */

static void bench_linear(weir_device *device, int f, int64_t rows, int64_t cols, const int64_t *ms, int n_ms) {
    enum { BEYOND_L2 = 180000000, MAX_COPIES = 24 };
    weir_error err;
    wr_linear_args a = bench_linear_args(&bench_formats[f], WEIR_DTYPE_BF16, rows, cols);
    size_t bytes;
    void *packed = bench_weight(device, &a, &bytes);
    wr_buffer *copies[MAX_COPIES];
    int n_copies = (int)(BEYOND_L2 / bytes) + 2;
    if (n_copies > MAX_COPIES) n_copies = MAX_COPIES;
    for (int i = 0; i < n_copies; i++) {
        bench_check(wr_buffer_new_on(device, bytes, &copies[i], &err), &err);
        bench_check(wr_buffer_write(copies[i], packed, bytes, &err), &err);
    }
    free(packed);
    for (int k = 0; k < n_ms; k++) {
        int64_t m = ms[k];
        weir_graph *g;
        bench_check(weir_graph_new(device, &g, &err), &err);
        int n_calls = m <= 64 ? 240 : m <= 512 ? 60 : 16;
        if (bench_quick) n_calls = 2;
        wr_buffer *x[BENCH_MAX_CALLS];
        weir_array *outputs[BENCH_MAX_CALLS];
        int n_x = (n_calls - 1) / n_copies + 1; /* equal calls would be merged: each has another pair of x and weight */
        for (int i = 0; i < n_x; i++) x[i] = bench_floats(device, WEIR_DTYPE_BF16, m * cols, 1);
        for (int i = 0; i < n_calls; i++) {
            weir_array *data = bench_weight_leaf(g, &a, copies[i % n_copies], bytes);
            weir_array *in = wr_leaf(g, WEIR_DTYPE_BF16, 2, (int64_t[]){m, cols}, NULL, 0, x[i / n_copies]);
            outputs[i] = wr_linear(in, &a, data, NULL, NULL);
        }
        bool many = m >= 512;
        double tflop = 2e-6 * (double)m * (double)rows * (double)cols;
        bench_timing t = bench_outputs(outputs, n_calls, WR_OP_LINEAR, many);
        printf("{\"bench\":\"linear\",\"format\":\"%s\",\"rows\":%lld,\"cols\":%lld,\"m\":%lld,\"us\":%.2f,"
               "\"min_us\":%.2f,\"max_us\":%.2f,\"n\":%d,\"calls\":%d,\"tb_s\":%.3f,\"tflops\":%.1f,\"variant\":\"%s\"",
               bench_formats[f].name, (long long)rows, (long long)cols, (long long)m, t.us, t.min_us, t.max_us, t.n,
               t.calls, (double)bytes / t.us * 1e-6, tflop / t.us, t.variant);
        if (many) printf(",\"rested_us\":%.2f,\"rested_tflops\":%.1f", t.rested_us, tflop / t.rested_us);
        printf("}\n");
        fflush(stdout);
        weir_graph_free(g);
        for (int i = 0; i < n_x; i++) wr_buffer_release(x[i]);
    }
    for (int i = 0; i < n_copies; i++) wr_buffer_release(copies[i]);
}

/* Do rows of x have the same bits whatever their number? Prints how many numbers of y differ from those of 512 rows. */
static void check_linear(weir_device *device, int f, int64_t rows, int64_t cols) {
    static const int64_t ms[] = {512, 1, 2, 3, 5, 6, 8, 9, 13, 16, 17, 32, 33, 64, 100, 128, 129, 300};
    enum { N = sizeof ms / sizeof *ms };
    weir_error err;
    wr_linear_args a = bench_linear_args(&bench_formats[f], 0, rows, cols);
    size_t bytes;
    void *packed = bench_weight(device, &a, &bytes);
    wr_buffer *w, *x = bench_floats(device, WEIR_DTYPE_BF16, ms[0] * cols, 1),
                  *addend = bench_floats(device, WEIR_DTYPE_F32, ms[0] * rows, 1);
    bench_check(wr_buffer_new_on(device, bytes, &w, &err), &err);
    bench_check(wr_buffer_write(w, packed, bytes, &err), &err);
    free(packed);
    for (int with_addend = 0; with_addend <= 1; with_addend++) {
        weir_graph *g;
        weir_array *y[N];
        int64_t differ = 0, infinite = 0;
        a.out_dtype = with_addend ? WEIR_DTYPE_F32 : WEIR_DTYPE_BF16;
        bench_check(weir_graph_new(device, &g, &err), &err);
        for (int i = 0; i < N; i++) {
            weir_array *in = wr_leaf(g, WEIR_DTYPE_BF16, 2, (int64_t[]){ms[i], cols}, NULL, 0, x);
            y[i] = wr_linear(in, &a, bench_weight_leaf(g, &a, w, bytes), NULL, NULL);
            if (with_addend)
                y[i] = weir_add(wr_leaf(g, WEIR_DTYPE_F32, 2, (int64_t[]){ms[i], rows}, NULL, 0, addend), y[i]);
        }
        bench_check(weir_eval(y, N, &err), &err);
        const void *first = weir_array_data(y[0]);
        for (int i = 0; i < N; i++) {
            const void *got = weir_array_data(y[i]);
            for (int64_t e = 0; e < ms[i] * rows; e++) {
                uint32_t bits = with_addend ? ((const uint32_t *)got)[e] : ((const uint16_t *)got)[e];
                uint32_t want = with_addend ? ((const uint32_t *)first)[e] : ((const uint16_t *)first)[e];
                uint32_t exponent = with_addend ? 0x7f800000u : 0x7f80u;
                differ += bits != want;
                infinite += (bits & exponent) == exponent;
            }
        }
        printf("{\"bench\":\"linear_rows\",\"format\":\"%s\",\"rows\":%lld,\"cols\":%lld,\"addend\":%s,\"counts\":%d,"
               "\"differ\":%lld,\"infinite\":%lld}\n",
               bench_formats[f].name, (long long)rows, (long long)cols, with_addend ? "true" : "false", (int)N,
               (long long)differ, (long long)infinite);
        fflush(stdout);
        weir_graph_free(g);
    }
    wr_buffer_release(w);
    wr_buffer_release(x);
    wr_buffer_release(addend);
}
static void check_linears(weir_device *device) {
    static const int64_t shapes[][2] = {{320, 4096}, {144, 14336}, {1000, 1536}, {2112, 1280}};
    for (int f = 0; f < BENCH_COMMON_FORMATS; f++)
        for (size_t s = 0; s < (bench_quick ? 1 : sizeof shapes / sizeof *shapes); s++)
            check_linear(device, f, shapes[s][0], shapes[s][1]);
}

static void bench_linears(weir_device *device) {
    static const int64_t most[] = {1, 2, 4, 6, 8, 16, 32, 64, 128, 512, 2048}, few[] = {1, 8, 32, 512};
    static const int64_t shapes[][2] = {{6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}, {128256, 4096}};
    if (bench_quick) {
        for (int f = 0; f < BENCH_COMMON_FORMATS; f++) bench_linear(device, f, 128, 256, few, 2);
        return;
    }
    for (int f = 0; f < BENCH_COMMON_FORMATS; f++)
        bench_linear(device, f, 12288, 4096, f < 5 ? most : few, f < 5 ? 11 : 4);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        bench_linear(device, 0, shapes[s][0], shapes[s][1], few, s == 4 ? 3 : 4);
}

/* linear=FORMAT,ROWS,COLS,M */
static void bench_one_linear(weir_device *device, const char *text) {
    char name[32];
    long long rows, cols, m;
    if (sscanf(text, "%31[^,],%lld,%lld,%lld", name, &rows, &cols, &m) == 4)
        for (int f = 0; f < bench_n_formats; f++)
            if (!strcmp(bench_formats[f].name, name)) {
                bench_linear(device, f, rows, cols, (int64_t[]){m}, 1);
                return;
            }
    fprintf(stderr, "bench_cuda: \"%s\" is no FORMAT,ROWS,COLS,M\n", text);
    exit(1);
}

/* ---- what a node costs ---- */

static void bench_nodes(weir_device *device) {
    enum { N_NODES = 400 };
    weir_error err;
    weir_graph *g;
    wr_buffer *state, *x = bench_floats(device, WEIR_DTYPE_F32, 64, 1);
    bench_check(weir_graph_new(device, &g, &err), &err);
    bench_check(wr_buffer_new_on(device, 256, &state, &err), &err);
    int64_t n = 64;
    weir_array *chain = wr_leaf(g, WEIR_DTYPE_F32, 1, &n, NULL, 0, state);
    weir_array *from = wr_leaf(g, WEIR_DTYPE_F32, 1, &n, NULL, 0, x);
    for (int i = 0; i < N_NODES; i++) chain = wr_store(chain, from);
    bench_timing t = bench_outputs(&chain, 1, WR_OP_STORE, false);
    printf("{\"bench\":\"nodes\",\"us\":%.3f,\"min_us\":%.3f,\"max_us\":%.3f,\"n\":%d,\"calls\":%d}\n", t.us / N_NODES,
           t.min_us / N_NODES, t.max_us / N_NODES, t.n, N_NODES);
    fflush(stdout);
    weir_graph_free(g);
    wr_buffer_release(state);
    wr_buffer_release(x);
}

/* ---- attention ---- */

enum { PAGE = 64 };

/* batch sequences of n_keys, each with n_tokens new rows at its end. */
static void bench_attention(weir_device *device, const char *name, int64_t batch, int64_t n_keys, int64_t n_tokens,
                            int64_t kv_heads, int64_t group, int64_t width) {
    enum { BEYOND_L2 = 200000000, MAX_COPIES = 24 };
    weir_error err;
    int64_t pages = (n_keys + PAGE - 1) / PAGE, all_pages = pages * batch, heads = kv_heads * group;
    int64_t columns = wr_kv_columns(true, width), elements = all_pages * PAGE * kv_heads * columns;
    int64_t rows = batch * n_tokens;
    int n_copies = (int)(BEYOND_L2 / (elements * 4)) + 1;
    if (n_copies > MAX_COPIES) n_copies = MAX_COPIES;
    wr_buffer *k[MAX_COPIES], *v[MAX_COPIES];
    for (int i = 0; i < n_copies; i++) {
        k[i] = i ? wr_buffer_retain(k[0]) : bench_floats(device, WEIR_DTYPE_BF16, elements, 1);
        if (i) {
            wr_buffer_release(k[i]);
            bench_check(wr_buffer_new_on(device, (size_t)elements * 2, &k[i], &err), &err);
            bench_check(wr_buffer_write(k[i], wr_buffer_host(k[0]), (size_t)elements * 2, &err), &err);
        }
        bench_check(wr_buffer_new_on(device, (size_t)elements * 2, &v[i], &err), &err);
        bench_check(wr_buffer_write(v[i], wr_buffer_host(k[0]), (size_t)elements * 2, &err), &err);
    }
    int32_t *table = malloc((size_t)all_pages * 4), *seq = malloc((size_t)rows * 4), *pos = malloc((size_t)rows * 4);
    for (int64_t i = 0; i < all_pages; i++) table[i] = (int32_t)i;
    for (int64_t i = all_pages - 1; i > 0; i--) {
        int64_t j = bench_random() % (uint32_t)(i + 1);
        int32_t t = table[i];
        table[i] = table[j], table[j] = t;
    }
    for (int64_t i = 0; i < rows; i++) {
        seq[i] = (int32_t)(i / n_tokens);
        pos[i] = (int32_t)(n_keys - n_tokens + i % n_tokens);
    }
    weir_graph *g;
    bench_check(weir_graph_new(device, &g, &err), &err);
    weir_array *blocks = weir_from_data(g, WEIR_DTYPE_I32, 2, (int64_t[]){batch, pages}, table);
    weir_array *row_seq = weir_from_data(g, WEIR_DTYPE_I32, 1, &rows, seq);
    weir_array *row_pos = weir_from_data(g, WEIR_DTYPE_I32, 1, &rows, pos);
    weir_array *outputs[BENCH_MAX_CALLS];
    int n_calls = bench_quick ? 2 : n_tokens > 64 ? 8 : 240;
    wr_buffer *q[BENCH_MAX_CALLS];
    int n_q = (n_calls - 1) / n_copies + 1; /* equal calls would be merged */
    for (int i = 0; i < n_q; i++) q[i] = bench_floats(device, WEIR_DTYPE_BF16, rows * heads * width, 2);
    for (int i = 0; i < n_calls; i++) {
        int64_t shape[] = {all_pages, PAGE, kv_heads, columns};
        wr_attention_args args;
        memset(&args, 0, sizeof args);
        args.scale = 1 / sqrtf((float)width);
        args.causal = true;
        args.tiled = true;
        args.value_dim = width;
        outputs[i] = wr_paged_attention(
            wr_leaf(g, WEIR_DTYPE_BF16, 3, (int64_t[]){rows, heads, width}, NULL, 0, q[i / n_copies]),
            wr_leaf(g, WEIR_DTYPE_BF16, 4, shape, NULL, 0, k[i % n_copies]),
            wr_leaf(g, WEIR_DTYPE_BF16, 4, shape, NULL, 0, v[i % n_copies]), blocks, row_seq, row_pos, NULL, NULL,
            &args);
    }
    bench_timing t = bench_outputs(outputs, n_calls, WR_OP_PAGED_ATTENTION, false);
    double pairs = (double)n_tokens * (double)(n_keys - n_tokens) + (double)n_tokens * (double)(n_tokens + 1) / 2;
    double flop = 4 * (double)(batch * heads * width) * pairs;
    printf("{\"bench\":\"%s\",\"batch\":%lld,\"keys\":%lld,\"tokens\":%lld,\"kv_heads\":%lld,\"group\":%lld,"
           "\"head_dim\":%lld,\"us\":%.2f,\"min_us\":%.2f,\"max_us\":%.2f,\"n\":%d,\"calls\":%d,\"tb_s\":%.3f,"
           "\"tflops\":%.1f,\"variant\":\"%s\"}\n",
           name, (long long)batch, (long long)n_keys, (long long)n_tokens, (long long)kv_heads, (long long)group,
           (long long)width, t.us, t.min_us, t.max_us, t.n, t.calls, (double)elements * 4 / t.us * 1e-6,
           flop / t.us * 1e-6, t.variant);
    fflush(stdout);
    weir_graph_free(g);
    for (int i = 0; i < n_q; i++) wr_buffer_release(q[i]);
    for (int i = 0; i < n_copies; i++) wr_buffer_release(k[i]), wr_buffer_release(v[i]);
    free(table), free(seq), free(pos);
}

static void bench_decode(weir_device *device) {
    if (bench_quick) {
        bench_attention(device, "attention", 2, 300, 1, 2, 2, 64);
        return;
    }
    bench_attention(device, "attention", 1, 32768, 1, 8, 4, 128);
    bench_attention(device, "attention", 1, 32768, 4, 8, 4, 128);
    bench_attention(device, "attention", 1, 32768, 8, 8, 4, 128);
    bench_attention(device, "attention", 1, 4096, 1, 8, 4, 128);
    bench_attention(device, "attention", 1, 512, 1, 8, 4, 128);
    bench_attention(device, "attention", 8, 8192, 1, 8, 4, 128);
    bench_attention(device, "attention", 64, 2048, 1, 8, 4, 128);
    bench_attention(device, "attention", 1, 32768, 1, 2, 8, 256);
    bench_attention(device, "attention", 1, 4096, 1, 2, 8, 256);
    bench_attention(device, "attention", 1, 8192, 1, 3, 3, 64);
}

/* attention=BATCH,KEYS,TOKENS,KV_HEADS,GROUP,HEAD_DIM */
static void bench_one_attention(weir_device *device, const char *text) {
    long long n[6];
    if (sscanf(text, "%lld,%lld,%lld,%lld,%lld,%lld", n, n + 1, n + 2, n + 3, n + 4, n + 5) != 6) {
        fprintf(stderr, "bench_cuda: \"%s\" is no BATCH,KEYS,TOKENS,KV_HEADS,GROUP,HEAD_DIM\n", text);
        exit(1);
    }
    bench_attention(device, n[2] > 64 ? "prefill" : "attention", n[0], n[1], n[2], n[3], n[4], n[5]);
}

static void bench_prefill(weir_device *device) {
    if (bench_quick) {
        bench_attention(device, "prefill", 1, 192, 192, 2, 2, 64);
        return;
    }
    bench_attention(device, "prefill", 1, 2048, 2048, 8, 4, 128);
    bench_attention(device, "prefill", 1, 8192, 8192, 8, 4, 128);
    bench_attention(device, "prefill", 1, 32768, 2048, 8, 4, 128);
    bench_attention(device, "prefill", 1, 8192, 8192, 2, 8, 256);
    bench_attention(device, "prefill", 1, 8192, 8192, 3, 3, 64);
}

int main(int argc, char **argv) {
    weir_error err;
    weir_device *device;
    bool all = true;
    bench_check(weir_device_open("cuda", 0, &device, &err), &err);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--quick"))
            bench_quick = true;
        else
            all = false;
    }
    for (int i = all ? 0 : 1; i < (all ? 1 : argc); i++) {
        if (all || !strcmp(argv[i], "nodes")) bench_nodes(device);
        if (!all && !strncmp(argv[i], "linear=", 7)) bench_one_linear(device, argv[i] + 7);
        if (!all && !strcmp(argv[i], "rows")) check_linears(device);
        if (all || !strcmp(argv[i], "linear")) bench_linears(device);
        if (all || !strcmp(argv[i], "attention")) bench_decode(device);
        if (all || !strcmp(argv[i], "prefill")) bench_prefill(device);
        if (all || !strcmp(argv[i], "ops")) bench_ops(device);
        if (!all && !strncmp(argv[i], "attention=", 10)) bench_one_attention(device, argv[i] + 10);
    }
    weir_device_close(device);
    return 0;
}
