/* A small attention block: norm, projections, rotary embedding, causal attention with grouped heads, output projection
 * and residual. Shows causality: changing the last token changes only the last row. */
#include <stdio.h>
#include <string.h>

#include <weir/ops.h>

enum { TOKENS = 6, WIDTH = 64, HEADS = 4, KV_HEADS = 2, HEAD = 16 };

static weir_array *weight(weir_graph *g, int64_t rows, int64_t columns, uint64_t seed) {
    return weir_mul(weir_random_normal(g, 2, (const int64_t[]){rows, columns}, seed, 0), weir_scalar_f32(g, 0.1f));
}

/* [TOKENS, heads * HEAD] to [1, heads, TOKENS, HEAD], with rotation when positions are given. */
static weir_array *heads(weir_array *x, int64_t n, weir_array *positions) {
    x = weir_reshape(x, 3, (const int64_t[]){TOKENS, n, HEAD});
    if (positions) x = weir_rope(x, positions, NULL);
    return weir_reshape(weir_transpose(x, (const int[]){1, 0, 2}), 4, (const int64_t[]){1, n, TOKENS, HEAD});
}

static weir_array *block(weir_graph *g, weir_array *x) {
    weir_array *positions = weir_arange(g, WEIR_DTYPE_I32, 0, TOKENS, 1);
    weir_array *h = weir_rms_norm(x, NULL, 1e-5f);
    weir_array *q = heads(weir_linear(h, weight(g, HEADS * HEAD, WIDTH, 1)), HEADS, positions);
    weir_array *k = heads(weir_linear(h, weight(g, KV_HEADS * HEAD, WIDTH, 2)), KV_HEADS, positions);
    weir_array *v = heads(weir_linear(h, weight(g, KV_HEADS * HEAD, WIDTH, 3)), KV_HEADS, NULL);
    const weir_attention_options causal = {.causal = true};
    weir_array *a = weir_attention(q, k, v, NULL, NULL, &causal);
    a = weir_reshape(weir_transpose(a, (const int[]){0, 2, 1, 3}), 2, (const int64_t[]){TOKENS, HEADS * HEAD});
    return weir_add(x, weir_linear(a, weight(g, WIDTH, HEADS * HEAD, 4)));
}

int main(void) {
    weir_device *device = NULL;
    weir_graph *graph = NULL;
    weir_error err;
    int exit_code = 1;

    if (weir_device_open("cpu", 0, &device, &err) != WEIR_OK) goto fail;
    if (weir_graph_new(device, &graph, &err) != WEIR_OK) goto fail;

    weir_array *x = weir_random_normal(graph, 2, (const int64_t[]){TOKENS, WIDTH}, 9, 0);
    weir_array *changed = weir_slice_update(x, weir_scalar_f32(graph, 1), (const int64_t[]){TOKENS - 1, 0},
                                            (const int64_t[]){TOKENS, WIDTH}, NULL);
    weir_array *y[] = {block(graph, x), block(graph, changed)};
    if (weir_eval(y, 2, &err) != WEIR_OK) goto fail;

    const size_t row = WIDTH * sizeof(float);
    const char *a = weir_array_data(y[0]), *b = weir_array_data(y[1]);
    int same = 0;
    while (same < TOKENS && memcmp(a + row * (size_t)same, b + row * (size_t)same, row) == 0) same++;
    printf("%d of %d rows are bit-identical after the last token changed\n", same, TOKENS);
    exit_code = same == TOKENS - 1 ? 0 : 1;
    goto done;
fail:
    fprintf(stderr, "attention: %s\n", err.message);
done:
    weir_graph_free(graph);
    weir_device_close(device);
    return exit_code;
}
