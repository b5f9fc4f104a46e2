/* What the compiler fuses for the CUDA device only: ropes into attention and into the write of keys, the writes of keys
 * and of values into one; with the bits of the steps one by one, and not where somebody else reads what would be gone.
 * Skipped without a device. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "array/kv.h"
#include "array/program.h"
#include "base/dtype.h"

#define DIMS(...)                                                                                                      \
    sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]) { __VA_ARGS__ }

enum { TOKENS = 5, HEADS = 4, KV_HEADS = 2, WIDTH = 64, PAGES = 3, ELEMENTS = PAGES * WR_KV_TILE * KV_HEADS * WIDTH };

static weir_device *cuda;

/* A layer's attention over fresh pages; what may keep it from being fused. */
typedef struct layer {
    bool q_read_twice, read_between, other_rows;
    wr_buffer *pages[2];
    weir_graph *graph;
    weir_array *outputs[3];
    int n_outputs;
} layer;

static weir_array *numbers(weir_graph *g, int n_dims, const int64_t *dims) {
    static float values[TOKENS * (HEADS + 2 * KV_HEADS) * WIDTH];
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) values[i] = (float)((i * 7919) % 2001) / 1000 - 1;
    return weir_from_data(g, WEIR_DTYPE_F32, n_dims, dims, values);
}
static weir_array *heads_of(weir_array *joined, int64_t first, int64_t n) {
    weir_array *part =
        weir_slice(joined, (int64_t[]){0, first * WIDTH}, (int64_t[]){TOKENS, (first + n) * WIDTH}, NULL);
    return weir_reshape(part, 3, (int64_t[]){-1, n, WIDTH});
}
static weir_array *rows(weir_graph *g, const int32_t *values) {
    return weir_from_data(g, WEIR_DTYPE_I32, DIMS(TOKENS), values);
}

static void build(layer *l) {
    weir_error err;
    assert_int_equal(weir_graph_new(cuda, &l->graph, &err), WEIR_OK);
    weir_graph *g = l->graph;
    weir_array *pages[2];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(wr_buffer_new_on(cuda, ELEMENTS * 2, &l->pages[i], &err), WEIR_OK);
        pages[i] = wr_leaf(g, WEIR_DTYPE_BF16, DIMS(PAGES, WR_KV_TILE, KV_HEADS, WIDTH), NULL, 0, l->pages[i]);
    }
    weir_array *joined = numbers(g, DIMS(TOKENS, (HEADS + 2 * KV_HEADS) * WIDTH));
    weir_array *blocks = weir_from_data(g, WEIR_DTYPE_I32, DIMS(1, 2), (int32_t[]){2, 0});
    weir_array *seq = rows(g, (int32_t[TOKENS]){0}), *other = rows(g, (int32_t[TOKENS]){0, 0, 0, 0, -1});
    weir_array *pos = rows(g, (int32_t[TOKENS]){62, 63, 64, 65, 66});
    wr_rope_table_args rope;
    assert_int_equal(wr_rope_frequencies(&(weir_rope_options){.interleaved = false}, WIDTH, &rope, &err), WEIR_OK);
    weir_array *table = wr_rope_table(pos, &rope);
    weir_array *q = wr_rope_apply(heads_of(joined, 0, HEADS), table, false);
    weir_array *k = wr_rope_apply(heads_of(joined, HEADS, KV_HEADS), table, false);
    weir_array *keys = wr_kv_write(pages[0], k, blocks, seq, pos, true);
    if (l->read_between) l->outputs[l->n_outputs++] = weir_neg(keys);
    weir_array *values = wr_kv_write(pages[1], heads_of(joined, HEADS + KV_HEADS, KV_HEADS), blocks,
                                     l->other_rows ? other : seq, pos, true);
    wr_attention_args args = {.scale = 0.125f, .causal = true, .tiled = true, .value_dim = WIDTH};
    l->outputs[l->n_outputs++] = wr_paged_attention(q, keys, values, blocks, seq, pos, NULL, &args);
    if (l->q_read_twice) l->outputs[l->n_outputs++] = weir_neg(q);
}

static void *bytes_of(const void *data, size_t bytes) {
    weir_error err;
    void *copy = malloc(bytes);
    assert_non_null(copy);
    assert_int_equal(wr_device_download(cuda, copy, data, bytes, &err), WEIR_OK);
    return copy;
}
static void same(const void *a, const void *b, size_t bytes) {
    void *x = bytes_of(a, bytes), *y = bytes_of(b, bytes);
    assert_memory_equal(x, y, bytes);
    free(x);
    free(y);
}
static int count(const wr_program *p, wr_op_id op) {
    int n = 0;
    const wr_step *last = NULL; /* a prepare step lends its inputs to the next */
    for (int i = 0; i < wr_program_n_steps(p); i++) {
        const wr_step *step = wr_program_step(p, i);
        n += step->op == op && !(last && last->in == step->in && step->n_in > 0);
        last = step;
    }
    return n;
}

typedef struct counts {
    int ropes, writes, appends;
} counts;

/* The layer fused has these steps, and the bits of the layer unfused. */
static void check(layer fused, counts want) {
    layer plain = fused;
    wr_program *program, *steps;
    weir_error err;
    if (!cuda) skip();
    build(&fused);
    build(&plain);
    assert_int_equal(wr_program_new(fused.outputs, fused.n_outputs, NULL, &program, &err), WEIR_OK);
    assert_int_equal(
        wr_program_new(plain.outputs, plain.n_outputs, &(wr_program_options){.no_fusion = true}, &steps, &err),
        WEIR_OK);
    assert_int_equal(count(program, WR_OP_ROPE), want.ropes);
    assert_int_equal(count(program, WR_OP_KV_WRITE), want.writes);
    assert_int_equal(count(program, WR_OP_KV_APPEND), want.appends);
    assert_int_equal(count(steps, WR_OP_ROPE), 2);
    assert_int_equal(count(steps, WR_OP_KV_WRITE), 2);
    assert_int_equal(count(steps, WR_OP_KV_APPEND), 0);
    assert_int_equal(wr_program_run(program, &err), WEIR_OK);
    assert_int_equal(wr_program_run(steps, &err), WEIR_OK);
    for (int i = 0; i < 2; i++) same(fused.pages[i]->data, plain.pages[i]->data, ELEMENTS * 2);
    for (int i = 0; i < fused.n_outputs; i++) {
        const wr_tensor *out = wr_program_output(program, i);
        size_t bytes = weir_dtype_bytes(out->dtype);
        for (int d = 0; d < out->n_dims; d++) bytes *= (size_t)out->shape[d];
        same(out->data, wr_program_output(steps, i)->data, bytes);
    }
    wr_program_free(program);
    wr_program_free(steps);
    for (int i = 0; i < 2; i++) wr_buffer_release(fused.pages[i]), wr_buffer_release(plain.pages[i]);
    weir_graph_free(fused.graph);
    weir_graph_free(plain.graph);
}

static void ropes_and_writes_become_two_steps(void **state) {
    (void)state;
    check((layer){.n_outputs = 0}, (counts){.appends = 1});
}
static void a_rope_that_others_read_stays(void **state) {
    (void)state;
    check((layer){.q_read_twice = true}, (counts){.ropes = 1, .appends = 1});
}
static void a_read_between_the_writes_keeps_them_apart(void **state) {
    (void)state;
    check((layer){.read_between = true}, (counts){.ropes = 1, .writes = 2});
}
static void writes_of_other_rows_stay_apart(void **state) {
    (void)state;
    check((layer){.other_rows = true}, (counts){.ropes = 1, .writes = 2});
}

static int open_device(void **state) {
    weir_error err;
    (void)state;
    if (weir_device_open("cuda", 1, &cuda, &err) != WEIR_OK) print_message("%s\n", err.message);
    return 0;
}
static int close_device(void **state) {
    (void)state;
    weir_device_close(cuda);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ropes_and_writes_become_two_steps),
        cmocka_unit_test(a_rope_that_others_read_stays),
        cmocka_unit_test(a_read_between_the_writes_keeps_them_apart),
        cmocka_unit_test(writes_of_other_rows_stay_apart),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
