/* Poison: the first error is kept, nothing crashes, evaluation reports it. */
#include "array_test.h"

static void the_first_error_is_kept_and_reported(void **state) {
    (void)state;
    weir_device *device = open_fake(&fake_backend, 1);
    weir_graph *g = new_graph(device);
    weir_error err;
    weir_array *bad = weir_add(leaf(g, WEIR_DTYPE_F32, DIMS(2)), leaf(g, WEIR_DTYPE_F32, DIMS(3)));
    weir_array *worse = weir_transpose(weir_matmul(bad, bad), (int[]){7, 8});
    weir_array *later = weir_sum(leaf(g, WEIR_DTYPE_F32, DIMS(2)), 1, (int[]){5}, false);
    assert_true(bad->poisoned && worse->poisoned && later->poisoned);
    assert_int_equal(weir_graph_error(g, &err), WEIR_E_ARGUMENT);
    assert_memory_equal(err.message, "add:", 4);
    assert_int_equal(weir_eval(&worse, 1, &err), WEIR_E_ARGUMENT);
    assert_memory_equal(err.message, "add:", 4);
    assert_null(weir_array_data(worse));
    /* Sound arrays of the graph can still be had. */
    weir_array *good = weir_exp(leaf(g, WEIR_DTYPE_F32, DIMS(2)));
    assert_int_equal(weir_eval(&good, 1, &err), WEIR_OK);
    weir_graph_free(g);
    weir_device_close(device);
}

static void every_builder_takes_poison_and_null(void **state) {
    (void)state;
    weir_device *device = open_fake(&fake_backend, 1);
    weir_graph *g = new_graph(device);
    weir_array *p = weir_arange(g, WEIR_DTYPE_F32, 0, 1, 0);
    weir_quant q = {WEIR_QUANT_AFFINE, 32, 4};
    int64_t d[] = {1};
    for (int null = 0; null < 2; null++) {
        weir_array *x = null ? NULL : p, *w, *s, *b;
#define U(name) assert_true(weir_##name(x)->poisoned);
        WEIR_UNARY_OPS(U)
#define B(name) assert_true(weir_##name(x, p)->poisoned &&weir_##name(p, x)->poisoned);
        WEIR_BINARY_OPS(B)
        weir_quantize(x, q, &w, &s, &b);
        weir_array *all[] = {
            weir_cast(x, WEIR_DTYPE_I8),
            weir_select(x, x, x),
            weir_sum(x, 0, NULL, false),
            weir_mean(x, 0, NULL, false),
            weir_max(x, 0, NULL, false),
            weir_min(x, 0, NULL, false),
            weir_logsumexp(x, 0, NULL, false),
            weir_argmax(x, 0),
            weir_softmax(x, 0),
            weir_sort(x, 0, false),
            weir_argsort(x, 0, false),
            weir_top_k(x, 0, 1),
            weir_arg_top_k(x, 0, 1),
            weir_cumsum(x, 0, false, false),
            weir_take(x, x, 0),
            weir_take_along(x, x, 0),
            weir_scatter(x, x, x, 0),
            weir_scatter_add(x, x, x, 0),
            weir_slice(x, d, d, d),
            weir_slice_update(x, x, d, d, d),
            weir_concat(&x, 1, 0),
            weir_pad(x, d, d, 0),
            weir_transpose(x, NULL),
            weir_reshape(x, 1, d),
            weir_broadcast(x, 1, d),
            weir_contiguous(x),
            weir_matmul(x, x),
            weir_linear(x, x),
            weir_quantized_matmul(x, x, x, x, q),
            weir_gather_quantized_matmul(x, x, x, x, x, q),
            weir_dequantize(x, x, x, q, WEIR_DTYPE_F32),
            w,
            s,
            b,
            weir_rms_norm(x, x, 0),
            weir_layer_norm(x, x, x, 0),
            weir_rope(x, x, NULL),
            weir_attention(x, x, x, x, x, NULL),
            weir_conv1d(x, x, x, 1, 1, 1, 0, 0),
            weir_array_keep(g, x),
            weir_from_data(NULL, WEIR_DTYPE_F32, 1, d, d),
            weir_full(NULL, WEIR_DTYPE_F32, 1, d, 0),
            weir_arange(NULL, WEIR_DTYPE_F32, 0, 1, 1),
            weir_random_bits(NULL, 1, d, 0, 0),
        };
        weir_error err;
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            assert_non_null(all[i]);
            if (!all[i]->poisoned) fail_msg("expression %zu is not poisoned", i);
            assert_int_equal(weir_eval(&all[i], 1, &err), WEIR_E_ARGUMENT);
            assert_int_not_equal(err.message[0], 0);
            assert_null(weir_array_data(all[i]));
        }
    }
    weir_graph_free(g);
    weir_device_close(device);
}

static void arrays_of_two_graphs_do_not_mix(void **state) {
    (void)state;
    weir_device *device = open_fake(&fake_backend, 1);
    weir_graph *a = new_graph(device), *b = new_graph(device);
    weir_array *x = leaf(a, WEIR_DTYPE_F32, DIMS(2)), *y = leaf(b, WEIR_DTYPE_F32, DIMS(2));
    assert_true(weir_add(x, y)->poisoned);
    weir_error err;
    assert_int_equal(weir_graph_error(a, &err), WEIR_E_ARGUMENT);
    assert_non_null(strstr(err.message, "weir_array_keep"));
    weir_array *both[] = {weir_exp(x), weir_exp(y)};
    assert_int_equal(weir_eval(both, 2, &err), WEIR_E_ARGUMENT);
    weir_array *unevaluated = weir_array_keep(a, both[1]);
    assert_true(unevaluated->poisoned);
    weir_graph_free(a);
    weir_graph_free(b);
    weir_device_close(device);
}

static void nothing_to_evaluate_is_fine_and_null_is_not(void **state) {
    (void)state;
    weir_device *device = open_fake(&fake_backend, 1);
    weir_graph *g = new_graph(device);
    weir_error err;
    weir_array *none = NULL, *x = leaf(g, WEIR_DTYPE_F32, DIMS(2));
    assert_int_equal(weir_eval(NULL, 0, &err), WEIR_OK);
    assert_int_equal(weir_eval(&x, 1, &err), WEIR_OK);
    assert_int_equal(weir_eval(&none, 1, &err), WEIR_E_ARGUMENT);
    assert_int_equal(weir_eval(&none, 1, NULL), WEIR_E_ARGUMENT);
    weir_graph_free(g);
    weir_graph_free(NULL);
    weir_device_close(device);
    weir_device_close(NULL);
    wr_program_free(NULL);
    wr_buffer_release(NULL);
}

static const wr_kernel_row *no_kernels(wr_op_id op) { return (void)op, NULL; }
static const wr_backend bare_backend = {.name = "bare", .kernels = no_kernels};

static void an_op_without_a_kernel_is_named(void **state) {
    (void)state;
    weir_device *device = open_fake(&bare_backend, 1);
    weir_graph *g = new_graph(device);
    weir_error err;
    weir_array *x = weir_exp(leaf(g, WEIR_DTYPE_F16, DIMS(2)));
    assert_int_equal(weir_eval(&x, 1, &err), WEIR_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "exp"));
    assert_non_null(strstr(err.message, "bare"));
    assert_non_null(strstr(err.message, "f16"));
    weir_graph_free(g);
    weir_device_close(device);
}

static void kv_write_takes_state_only(void **state) {
    (void)state;
    weir_device *device = open_fake(&fake_backend, 1);
    weir_graph *g = new_graph(device);
    weir_array *pages = leaf(g, WEIR_DTYPE_F32, DIMS(2, 4, 2, 3)), *x = leaf(g, WEIR_DTYPE_F32, DIMS(2, 2, 3));
    weir_array *table = leaf(g, WEIR_DTYPE_I32, DIMS(1, 2)), *row = leaf(g, WEIR_DTYPE_I32, DIMS(2));
    assert_false(wr_kv_write(wr_kv_write(pages, x, table, row, row, false), x, table, row, row, false)->poisoned);
    weir_error err;
    assert_true(wr_kv_write(weir_exp(pages), x, table, row, row, false)->poisoned);
    assert_int_equal(weir_graph_error(g, &err), WEIR_E_ARGUMENT);
    assert_non_null(strstr(err.message, "exp"));
    weir_graph_free(g);
    weir_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_error_is_kept_and_reported),
        cmocka_unit_test(every_builder_takes_poison_and_null),
        cmocka_unit_test(arrays_of_two_graphs_do_not_mix),
        cmocka_unit_test(nothing_to_evaluate_is_fine_and_null_is_not),
        cmocka_unit_test(an_op_without_a_kernel_is_named),
        cmocka_unit_test(kv_write_takes_state_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
