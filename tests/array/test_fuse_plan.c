/* What the compiler fuses, seen on the steps; that fused results have the bits of unfused ones is tested with real
 * kernels in tests/cpu/test_array_fuse.c. */
#include "array_test.h"

static weir_device *device;
static weir_graph *g;
static int setup(void **state) {
    (void)state;
    device = open_fake(&fake_backend_fused, 2);
    g = new_graph(device);
    return 0;
}
static int teardown(void **state) {
    (void)state;
    weir_graph_free(g);
    weir_device_close(device);
    return 0;
}

static void a_chain_is_one_step_with_its_rounding_kept(void **state) {
    (void)state;
    weir_array *x = leaf(g, WEIR_DTYPE_BF16, DIMS(8)), *w = leaf(g, WEIR_DTYPE_F32, DIMS(8));
    /* mul in bf16, then f32 by promotion, then back. */
    weir_array *y = weir_cast(weir_add(weir_mul(weir_silu(x), x), w), WEIR_DTYPE_BF16);
    wr_program *p = compile(&y, 1, NULL);
    assert_int_equal(wr_program_n_steps(p), 1);
    const wr_step *s = wr_program_step(p, 0);
    assert_int_equal(s->op, WR_OP_FUSED);
    const wr_fused_args *f = s->args;
    assert_int_equal(f->n, 5);
    assert_int_equal(s->n_in, 2);
    static const wr_op_id ops[] = {WR_OP_SILU, WR_OP_MUL, WR_OP_CAST, WR_OP_ADD, WR_OP_CAST};
    static const weir_dtype dtypes[] = {WEIR_DTYPE_BF16, WEIR_DTYPE_BF16, WEIR_DTYPE_F32, WEIR_DTYPE_F32,
                                        WEIR_DTYPE_BF16};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(f->code[i].op, ops[i]);
        assert_int_equal(f->code[i].dtype, dtypes[i]);
    }
    /* Registers: inputs x and w in some order, then instructions from 2 on. */
    int x_at = s->in[0].dtype == WEIR_DTYPE_BF16 ? 0 : 1;
    assert_int_equal(f->code[0].in[0], x_at);
    assert_int_equal(f->code[1].in[0], 2);
    assert_int_equal(f->code[1].in[1], x_at);
    assert_int_equal(f->code[2].in[0], 3);
    assert_int_equal(f->code[3].in[0], 4);
    assert_int_equal(f->code[3].in[1], 1 - x_at);
    assert_int_equal(f->code[4].in[0], 5);
    wr_program_free(p);
}

static void a_diamond_inside_one_step_is_fused(void **state) {
    (void)state;
    weir_array *x = leaf(g, WEIR_DTYPE_F32, DIMS(8)), *h = weir_exp(x);
    weir_array *y = weir_add(weir_sin(h), weir_cos(h));
    wr_program *p = compile(&y, 1, NULL);
    assert_int_equal(wr_program_n_steps(p), 1);
    assert_int_equal(((const wr_fused_args *)wr_program_step(p, 0)->args)->n, 4);
    wr_program_free(p);
}

static void results_that_others_read_are_not_fused_away(void **state) {
    (void)state;
    weir_array *x = leaf(g, WEIR_DTYPE_F32, DIMS(8, 8)), *h = weir_exp(x);
    wr_program *p = compile((weir_array *[]){weir_neg(h), weir_sum(h, 0, NULL, false)}, 2, NULL);
    assert_int_equal(wr_program_n_steps(p), 3);
    wr_program_free(p);
    p = compile((weir_array *[]){weir_neg(h), h}, 2, NULL);
    assert_int_equal(wr_program_n_steps(p), 2);
    wr_program_free(p);
    weir_array *t = weir_neg(weir_transpose(weir_exp(x), NULL)); /* through a view: not fused */
    p = compile(&t, 1, NULL);
    assert_int_equal(wr_program_n_steps(p), 2);
    wr_program_free(p);
}

static void a_broadcast_result_is_not_computed_again_per_row(void **state) {
    (void)state;
    weir_array *row = weir_exp(leaf(g, WEIR_DTYPE_F32, DIMS(8))),
               *y = weir_add(leaf(g, WEIR_DTYPE_F32, DIMS(100, 8)), row);
    wr_program *p = compile(&y, 1, NULL);
    assert_int_equal(wr_program_n_steps(p), 2);
    wr_program_free(p);
}

static void long_chains_are_cut_at_the_limits(void **state) {
    (void)state;
    weir_array *y = leaf(g, WEIR_DTYPE_F32, DIMS(8));
    for (int i = 0; i < 40; i++) y = weir_sin(y);
    wr_program *p = compile(&y, 1, NULL);
    assert_int_equal(wr_program_n_steps(p), 3); /* 16 + 16 + 8 */
    wr_program_free(p);
    y = leaf(g, WEIR_DTYPE_F32, DIMS(8));
    for (int i = 0; i < 40; i++) y = weir_add(y, leaf(g, WEIR_DTYPE_F32, DIMS(8)));
    p = compile(&y, 1, NULL);
    int instructions = 0;
    for (int i = 0; i < wr_program_n_steps(p); i++) {
        const wr_step *s = wr_program_step(p, i);
        assert_true(s->n_in <= WR_MAX_INPUTS);
        int n = s->op == WR_OP_FUSED ? ((const wr_fused_args *)s->args)->n : 1;
        assert_true(n <= WR_FUSED_MAX);
        instructions += n;
    }
    assert_int_equal(instructions, 40);
    wr_program_free(p);
}

static void a_read_of_state_stays_before_the_write(void **state) {
    (void)state;
    wr_buffer *buffer;
    weir_error err;
    assert_int_equal(wr_buffer_new(48 * 4, &buffer, &err), WEIR_OK);
    weir_array *pages = wr_leaf(g, WEIR_DTYPE_F32, DIMS(2, 4, 2, 3), NULL, 0, buffer);
    weir_array *table = leaf(g, WEIR_DTYPE_I32, DIMS(1, 2)), *row = leaf(g, WEIR_DTYPE_I32, DIMS(2));
    weir_array *early = weir_exp(pages);
    weir_array *written = wr_kv_write(pages, leaf(g, WEIR_DTYPE_F32, DIMS(2, 2, 3)), table, row, row, false);
    weir_array *y = weir_add(early, written);
    wr_program *p = compile(&y, 1, NULL);
    assert_int_equal(wr_program_n_steps(p), 3);
    assert_int_equal(wr_program_step(p, 0)->op, WR_OP_EXP);
    assert_int_equal(wr_program_step(p, 1)->op, WR_OP_KV_WRITE);
    assert_true(wr_program_step(p, 1)->barrier);
    wr_program_free(p);
    wr_buffer_release(buffer);
}

static void no_fusion_is_an_option(void **state) {
    (void)state;
    weir_array *y = weir_neg(weir_exp(leaf(g, WEIR_DTYPE_F32, DIMS(8))));
    wr_program *p = compile(&y, 1, &(wr_program_options){.no_fusion = true});
    assert_int_equal(wr_program_n_steps(p), 2);
    wr_program_free(p);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_chain_is_one_step_with_its_rounding_kept),
        TEST(a_diamond_inside_one_step_is_fused),
        TEST(results_that_others_read_are_not_fused_away),
        TEST(a_broadcast_result_is_not_computed_again_per_row),
        TEST(long_chains_are_cut_at_the_limits),
        TEST(a_read_of_state_stays_before_the_write),
        TEST(no_fusion_is_an_option),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
