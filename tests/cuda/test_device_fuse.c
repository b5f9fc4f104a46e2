/* What the compiler fuses for the CUDA device only: ropes into attention and into the write of keys, the writes of keys
 * and of values into one, act(gate) * up into the linear before it, norms into the linear behind them; with the bits of
 * the steps one by one, and not where somebody else reads what would be gone. Skipped without a device. */
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
    l->outputs[l->n_outputs++] = wr_paged_attention(q, keys, values, blocks, seq, pos, NULL, NULL, &args);
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

/* ---- norm, linear, act(gate) * up ---- */

enum { COLUMNS = 512, HALF = 48 };

typedef struct gated {
    int64_t rows;
    bool gelu, up_first, gate_read_twice, other_halves;
    bool normed, norm_read_twice, norm_weight_computed;
    bool fuses, fuses_norm;
} gated;

/* A dense bf16 weight as the device's kernels want it. */
static weir_array *packed_weight(weir_graph *g, wr_linear_args *args) {
    *args = (wr_linear_args){
        .weight_dtype = WEIR_DTYPE_BF16, .global_scale = 1, .experts = 1, .rows = 2 * HALF, .cols = COLUMNS};
    uint16_t *dense = malloc(2 * HALF * COLUMNS * sizeof *dense);
    for (int i = 0; i < 2 * HALF * COLUMNS; i++) dense[i] = wr_f32_to_bf16((float)((i * 7919) % 2003) / 20000 - 0.05f);
    int64_t bytes = (int64_t)cuda->backend->packed_bytes(args);
    void *packed = calloc(1, (size_t)bytes);
    cuda->backend->pack(args, dense, NULL, NULL, packed, 0, 1);
    args->packed = 1;
    weir_array *w = weir_from_data(g, WEIR_DTYPE_U8, 1, &bytes, packed);
    free(dense);
    free(packed);
    return w;
}

static int build_gated(const gated *c, weir_graph *g, weir_array **outputs) {
    wr_linear_args args;
    float *values = malloc((size_t)c->rows * COLUMNS * sizeof *values);
    for (int64_t i = 0; i < c->rows * COLUMNS; i++) values[i] = (float)((i * 104729) % 2001) / 1000 - 1;
    weir_array *x = weir_from_data(g, WEIR_DTYPE_F32, DIMS(c->rows, COLUMNS), values);
    free(values);
    weir_array *w = packed_weight(g, &args);
    wr_norm_args norm = {.eps = 1e-5f, .weight_offset = 1, .out_dtype = WEIR_DTYPE_BF16};
    weir_array *weight = weir_slice(x, (int64_t[]){0, 0}, (int64_t[]){1, COLUMNS}, NULL);
    weight = weir_reshape(weight, 1, (int64_t[]){COLUMNS});
    if (c->norm_weight_computed) weight = weir_neg(weight);
    weir_array *from =
        c->normed ? wr_node(g, WR_OP_RMS_NORM, (weir_array *[]){x, weight}, 2, &norm) : weir_cast(x, WEIR_DTYPE_BF16);
    weir_array *both = wr_linear(from, &args, w, NULL, NULL);
    int64_t at = c->other_halves ? HALF : 0;
    weir_array *gate = weir_slice(both, (int64_t[]){0, at}, (int64_t[]){c->rows, at + HALF}, NULL);
    weir_array *up = weir_slice(both, (int64_t[]){0, HALF - at}, (int64_t[]){c->rows, 2 * HALF - at}, NULL);
    weir_array *open = c->gelu ? weir_gelu_tanh(gate) : weir_silu(gate);
    int n = 0;
    outputs[n++] = c->up_first ? weir_mul(up, open) : weir_mul(open, up);
    if (c->gate_read_twice) outputs[n++] = weir_neg(gate);
    if (c->norm_read_twice)
        outputs[n++] = weir_slice(weir_neg(from), (int64_t[]){0, 0}, (int64_t[]){c->rows, HALF}, NULL);
    return n;
}

static void check_gated(gated c) {
    weir_error err;
    weir_graph *graph;
    weir_array *outputs[2];
    wr_program *program, *steps;
    if (!cuda) skip();
    assert_int_equal(weir_graph_new(cuda, &graph, &err), WEIR_OK);
    int n = build_gated(&c, graph, outputs);
    assert_int_equal(wr_program_new(outputs, n, NULL, &program, &err), WEIR_OK);
    assert_int_equal(wr_program_new(outputs, n, &(wr_program_options){.no_fusion = true}, &steps, &err), WEIR_OK);
    assert_int_equal(count(program, WR_OP_NORM_LINEAR), c.fuses_norm);
    assert_int_equal(count(program, WR_OP_LINEAR_GATED), c.fuses && !c.fuses_norm);
    assert_int_equal(count(program, WR_OP_LINEAR), !c.fuses && !c.fuses_norm);
    assert_int_equal(count(program, WR_OP_RMS_NORM), c.normed && !c.fuses_norm);
    assert_int_equal(count(steps, WR_OP_NORM_LINEAR), 0);
    assert_int_equal(count(steps, WR_OP_LINEAR_GATED), 0);
    assert_int_equal(wr_program_run(program, &err), WEIR_OK);
    assert_int_equal(wr_program_run(steps, &err), WEIR_OK);
    for (int i = 0; i < n; i++)
        same(wr_program_output(program, i)->data, wr_program_output(steps, i)->data, (size_t)c.rows * HALF * 2);
    wr_program_free(program);
    wr_program_free(steps);
    weir_graph_free(graph);
}

static void gates_go_into_the_linear_of_few_rows(void **state) {
    (void)state;
    for (int64_t rows = 1; rows <= 8; rows++) check_gated((gated){.rows = rows, .fuses = true});
    check_gated((gated){.rows = 3, .gelu = true, .fuses = true});
    check_gated((gated){.rows = 2, .up_first = true, .fuses = true});
}
static void gates_of_many_rows_stay(void **state) {
    (void)state;
    check_gated((gated){.rows = 40});
}
static void gates_that_others_read_stay(void **state) {
    (void)state;
    check_gated((gated){.rows = 1, .gate_read_twice = true});
}
static void a_gate_in_the_lower_half_stays(void **state) {
    (void)state;
    check_gated((gated){.rows = 1, .other_halves = true});
}

static void norms_go_into_the_linear_of_very_few_rows(void **state) {
    (void)state;
    check_gated((gated){.rows = 1, .normed = true, .fuses = true, .fuses_norm = true});
    check_gated((gated){.rows = 2, .normed = true, .gate_read_twice = true, .fuses_norm = true});
    check_gated((gated){.rows = 40, .normed = true});
}
static void norms_that_others_read_stay(void **state) {
    (void)state;
    check_gated((gated){.rows = 1, .normed = true, .norm_read_twice = true, .fuses = true});
    check_gated((gated){.rows = 1, .normed = true, .norm_weight_computed = true, .fuses = true});
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
        cmocka_unit_test(gates_go_into_the_linear_of_few_rows),
        cmocka_unit_test(gates_of_many_rows_stay),
        cmocka_unit_test(gates_that_others_read_stay),
        cmocka_unit_test(a_gate_in_the_lower_half_stays),
        cmocka_unit_test(norms_go_into_the_linear_of_very_few_rows),
        cmocka_unit_test(norms_that_others_read_stay),
    };
    return cmocka_run_group_tests(tests, open_device, close_device);
}
