/* Views with real kernels: slices, negative steps, broadcast, transposes, empty arrays, scalars. Expected values are
 * indexed by hand in the tests. */
#include "array_cpu_test.h"

static weir_device *device;
static weir_graph *g;
static int setup(void **state) {
    (void)state;
    device = open_cpu(2);
    g = new_graph(device);
    return 0;
}
static int teardown(void **state) {
    (void)state;
    weir_graph_free(g);
    weir_device_close(device);
    return 0;
}

/* Element (i, j) of a [4, 6] array is 10 i + j. */
static weir_array *grid(void) {
    float data[24];
    for (int i = 0; i < 24; i++) data[i] = (float)(10 * (i / 6) + i % 6);
    return weir_from_data(g, WEIR_DTYPE_F32, DIMS(4, 6), data);
}

static void check(weir_array *a, int n, const float *want) {
    evaluate(a);
    assert_int_equal(weir_array_size(a), n);
    const float *got = weir_array_data(a);
    for (int i = 0; i < n; i++)
        if (got[i] != want[i]) fail_msg("element %d is %g, want %g", i, (double)got[i], (double)want[i]);
}
#define CHECK(a, ...) check(a, (int)(sizeof((float[]){__VA_ARGS__}) / sizeof(float)), (float[]){__VA_ARGS__})

static void slices_follow_python(void **state) {
    (void)state;
    weir_array *x = grid();
    CHECK(weir_slice(x, (int64_t[]){1, 4}, (int64_t[]){3, 6}, NULL), 14, 15, 24, 25);
    CHECK(weir_slice(x, (int64_t[]){-1, 5}, (int64_t[]){-5, 0}, (int64_t[]){-2, -3}), 35, 32, 15, 12);
    CHECK(weir_slice(x, (int64_t[]){0, -2}, (int64_t[]){1, 100}, NULL), 4, 5);
    /* A slice of a slice of a transpose, used by an op. */
    weir_array *t =
        weir_slice(weir_transpose(x, NULL), (int64_t[]){0, 3}, (int64_t[]){6, 0}, (int64_t[]){2, -1}); /* [3, 3] */
    CHECK(weir_add(weir_slice(t, (int64_t[]){2, 0}, (int64_t[]){-4, 3}, (int64_t[]){-1, 2}), weir_scalar_f32(g, 100)),
          134, 114, 132, 112, 130, 110);
}

static void reductions_and_products_take_views(void **state) {
    (void)state;
    weir_array *t = weir_transpose(grid(), NULL);
    CHECK(weir_sum(t, 1, (int[]){0}, false), 15, 75, 135, 195);
    CHECK(weir_sum(weir_slice(t, (int64_t[]){5, 0}, (int64_t[]){3, 4}, (int64_t[]){-1, 3}), 1, (int[]){1}, false), 40,
          38);
    weir_array *reversed =
        weir_slice(grid(), (int64_t[]){1, 1}, (int64_t[]){-5, -7}, (int64_t[]){-1, -1}); /* 11 10; 1 0 */
    CHECK(weir_matmul(reversed, weir_transpose(reversed, NULL)), 221, 11, 11, 1);
    CHECK(weir_max(weir_broadcast(weir_scalar_f32(g, 3), 2, (int64_t[]){2, 5}), 1, (int[]){1}, false), 3, 3);
}

static void reshapes_of_views_copy_when_they_must(void **state) {
    (void)state;
    weir_array *t = weir_transpose(weir_slice(grid(), NULL, (int64_t[]){2, 2}, NULL), NULL); /* 0 10; 1 11 */
    CHECK(weir_reshape(t, 1, (int64_t[]){4}), 0, 10, 1, 11);
    CHECK(weir_reshape(
              weir_broadcast(weir_slice(grid(), (int64_t[]){0, 1}, (int64_t[]){1, 3}, NULL), 3, (int64_t[]){2, 1, 2}),
              1, (int64_t[]){4}),
          1, 2, 1, 2);
    CHECK(weir_contiguous(t), 0, 10, 1, 11);
}

static void ops_without_strides_get_copies(void **state) {
    (void)state;
    weir_array *x =
        weir_transpose(weir_from_data(g, WEIR_DTYPE_F32, DIMS(2, 2), (float[]){3, 1, 4, 1}), NULL); /* 3 4; 1 1 */
    weir_array *y = weir_rms_norm(x, NULL, 0);
    evaluate(y);
    /* rms of (3, 4) is 5 / sqrt(2), of (1, 1) is 1. */
    const double want[] = {3 * sqrt(2) / 5, 4 * sqrt(2) / 5, 1, 1};
    for (int i = 0; i < 4; i++) assert_true(fabs((double)((const float *)weir_array_data(y))[i] - want[i]) < 1e-6);
}

static void empty_arrays_go_through_everything(void **state) {
    (void)state;
    weir_array *e = weir_slice(grid(), (int64_t[]){2, 0}, (int64_t[]){2, 6}, NULL); /* [0, 6] */
    weir_array *all[] = {
        weir_add(e, e),
        weir_softmax(e, -1),
        weir_transpose(e, NULL),
        weir_sort(e, 0, false),
        weir_cumsum(e, 0, false, false),
        weir_rms_norm(e, NULL, 1e-5f),
        weir_matmul(e, weir_transpose(grid(), NULL)),
        weir_linear(e, grid()),
        weir_take(e, weir_from_data(g, WEIR_DTYPE_I32, DIMS(0), NULL), 0),
        weir_argmax(e, 1),
        weir_concat((weir_array *[]){e, e}, 2, 0),
        weir_reshape(e, 3, (int64_t[]){2, 0, 9}),
        weir_random_normal(g, DIMS(0), 1, 1),
    };
    weir_error err;
    if (weir_eval(all, (int)(sizeof all / sizeof *all), &err) != WEIR_OK) fail_msg("%s", err.message);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_int_equal(weir_array_size(all[i]), 0);
        assert_null(weir_array_data(all[i]));
    }
    CHECK(weir_sum(e, 1, (int[]){0}, false), 0, 0, 0, 0, 0, 0);
    CHECK(weir_matmul(weir_transpose(e, NULL), e), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
          0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    CHECK(weir_concat((weir_array *[]){e, weir_slice(grid(), (int64_t[]){3, 0}, (int64_t[]){4, 6}, NULL)}, 2, 0), 30,
          31, 32, 33, 34, 35);
}

static void scalars_are_arrays(void **state) {
    (void)state;
    weir_array *s = weir_scalar_f32(g, 9);
    CHECK(weir_sqrt(s), 3);
    CHECK(weir_sum(s, 0, NULL, true), 9);
    CHECK(weir_reshape(s, 2, (int64_t[]){1, 1}), 9);
    CHECK(weir_transpose(s, NULL), 9);
    CHECK(weir_slice(s, NULL, NULL, NULL), 9);
    CHECK(weir_matmul(weir_from_data(g, WEIR_DTYPE_F32, DIMS(2), (float[]){1, 2}),
                      weir_from_data(g, WEIR_DTYPE_F32, DIMS(2), (float[]){3, 4})),
          11);
}

static void reference_and_default_evaluation_agree(void **state) {
    (void)state;
    weir_array *x = weir_neg(weir_square(weir_transpose(grid(), NULL)));
    weir_array *y = weir_neg(weir_square(weir_transpose(grid(), NULL)));
    weir_error err;
    assert_int_equal(weir_eval(&x, 1, &err), WEIR_OK);
    assert_int_equal(weir_eval_reference(&y, 1, &err), WEIR_OK);
    assert_memory_equal(weir_array_data(x), weir_array_data(y), 24 * 4);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(slices_follow_python),
        TEST(reductions_and_products_take_views),
        TEST(reshapes_of_views_copy_when_they_must),
        TEST(ops_without_strides_get_copies),
        TEST(empty_arrays_go_through_everything),
        TEST(scalars_are_arrays),
        TEST(reference_and_default_evaluation_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
