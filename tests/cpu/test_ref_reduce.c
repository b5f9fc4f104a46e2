/* Reductions, softmax, running sums and sorting by the reference kernels. */
#include "cpu/ref_test.h"

static const wr_reduce_args over_last = {.axes = 2}, over_first = {.axes = 1}, over_both = {.axes = 3};

static void sums_over_any_axes_and_strides(void **state) {
    (void)state;
    const float x[] = {1, 2, 3, 4, 5, 6};
    float y[3];
    RUN(SUM, &over_last, T(F32, y, 2), T(F32, x, 2, 3));
    CHECK_F32(y, 6, 15);
    RUN(SUM, &over_first, T(F32, y, 3), T(F32, x, 2, 3));
    CHECK_F32(y, 5, 7, 9);
    RUN(MEAN, &over_both, SCALAR(F32, y), T(F32, x, 2, 3));
    CHECK_F32(y, 3.5f);
    RUN(MAX, &over_first, T(F32, y, 1, 3), T(F32, x, 2, 3));
    CHECK_F32(y, 4, 5, 6);
    RUN(MIN, &over_last, T(F32, y, 2), T(F32, x, 2, 3));
    CHECK_F32(y, 1, 4);
    wr_tensor transposed = T(F32, x, 3, 2);
    transposed.strides[0] = 1;
    transposed.strides[1] = 3;
    RUN(SUM, &over_last, T(F32, y, 3), transposed);
    CHECK_F32(y, 5, 7, 9);
}

static void sums_of_integers_are_64_bits_wide(void **state) {
    (void)state;
    const int8_t x[] = {100, 100, 100, -1};
    int64_t y[2];
    RUN(SUM, &over_first, SCALAR(I64, y), T(I8, x, 4));
    CHECK_INT(int64_t, y, 299);
    const uint8_t flags[] = {1, 1, 0, 255};
    RUN(SUM, &over_first, SCALAR(I64, y), T(BOOL, flags, 4));
    CHECK_INT(int64_t, y, 3);
    const uint64_t u[] = {UINT64_MAX, 1, 7};
    uint64_t v[1];
    RUN(SUM, &over_first, SCALAR(U64, v), T(U64, u, 3));
    CHECK_INT(uint64_t, v, 7);
    RUN(MAX, &over_first, SCALAR(U64, v), T(U64, u, 3));
    CHECK_INT(uint64_t, v, UINT64_MAX);
    RUN(MIN, &over_first, SCALAR(U64, v), T(U64, u, 3));
    CHECK_INT(uint64_t, v, 1);
    int8_t least[1];
    RUN(MIN, &over_first, SCALAR(I8, least), T(I8, x, 4));
    CHECK_INT(int8_t, least, -1);
    float mean[1];
    RUN(MEAN, &over_first, SCALAR(F32, mean), T(I8, x, 4));
    CHECK_F32(mean, 74.75f);
}

static void nothing_reduces_to_the_neutral_element(void **state) {
    (void)state;
    float y[2];
    RUN(SUM, &over_last, T(F32, y, 2), T(F32, NULL, 2, 0));
    CHECK_F32(y, 0, 0);
    RUN(LOGSUMEXP, &over_last, T(F32, y, 2), T(F32, NULL, 2, 0));
    CHECK_F32(y, -INFINITY, -INFINITY);
    RUN(SUM, &over_last, T(F32, y, 0), T(F32, NULL, 0, 3));
}

static void nan_propagates_through_reductions(void **state) {
    (void)state;
    const float x[] = {1, NAN, 3, NAN, 1, 2};
    float y[2];
    RUN(MAX, &over_last, T(F32, y, 2), T(F32, x, 2, 3));
    CHECK_F32(y, NAN, NAN);
    RUN(MIN, &over_last, T(F32, y, 2), T(F32, x, 2, 3));
    CHECK_F32(y, NAN, NAN);
    RUN(LOGSUMEXP, &over_last, T(F32, y, 2), T(F32, x, 2, 3));
    CHECK_F32(y, NAN, NAN);
}

static void half_precision_sums_do_not_round_on_the_way(void **state) {
    (void)state;
    enum { COUNT = 4096 };
    uint16_t ones[COUNT], y[1];
    for (int i = 0; i < COUNT; i++) ones[i] = 0x3f80;
    RUN(SUM, &over_first, SCALAR(BF16, y), T(BF16, ones, COUNT));
    CHECK_INT(uint16_t, y, 0x4580); /* 4096; bf16 additions would stop at 256 */
}

static void logsumexp_of_large_and_infinite_values(void **state) {
    (void)state;
    const float x[] = {1000, 1000, -INFINITY, -INFINITY, INFINITY, 0};
    float y[3];
    RUN(LOGSUMEXP, &over_last, T(F32, y, 3), T(F32, x, 3, 2));
    CHECK_F32(y, 1000.693147f, -INFINITY, INFINITY);
}

static void argmax_takes_the_first_and_nan_is_largest(void **state) {
    (void)state;
    const float x[] = {1, 3, 3, 2, -1, NAN, 9, NAN};
    int32_t y[4];
    RUN(ARGMAX, ARGS(wr_axis_args, .axis = 1), T(I32, y, 2), T(F32, x, 2, 4));
    CHECK_INT(int32_t, y, 1, 1);
    RUN(ARGMAX, ARGS(wr_axis_args, .axis = 0), T(I32, y, 4), T(F32, x, 2, 4));
    CHECK_INT(int32_t, y, 0, 1, 1, 1);
    const uint64_t u[] = {1, UINT64_MAX, 2};
    RUN(ARGMAX, ARGS(wr_axis_args, .axis = 0), SCALAR(I32, y), T(U64, u, 3));
    CHECK_INT(int32_t, y, 1);
}

static void softmax_of_known_values(void **state) {
    (void)state;
    /* exp of 0, ln 2, ln 5 is 1 : 2 : 5. */
    const float x[] = {1000, 1000.693147f, 1001.609438f, -INFINITY, -INFINITY, -INFINITY, 0, -INFINITY, 0};
    float y[9];
    wr_axis_args last = {.axis = 1};
    RUN(SOFTMAX, &last, T(F32, y, 3, 3), T(F32, x, 3, 3));
    check_near(y[0], 0.125, 1e-5);
    check_near(y[1], 0.25, 1e-5);
    check_near(y[2], 0.625, 1e-5);
    check_f32(y + 3, A(float, 0, 0, 0, 0.5f, 0, 0.5f), 6);
    RUN(SOFTMAX, ARGS(wr_axis_args, .axis = 0), T(F32, y, 3, 1), T(F32, A(float, 4, 4, -INFINITY), 3, 1));
    CHECK_F32(y, 0.5f, 0.5f, 0);
}

static void running_sums(void **state) {
    (void)state;
    const float x[] = {1, 2, 3, 10, 20, 30};
    float y[6];
    RUN(CUMSUM, ARGS(wr_axis_args, .axis = 1), T(F32, y, 2, 3), T(F32, x, 2, 3));
    CHECK_F32(y, 1, 3, 6, 10, 30, 60);
    RUN(CUMSUM, ARGS(wr_axis_args, .axis = 1, .reverse = true), T(F32, y, 2, 3), T(F32, x, 2, 3));
    CHECK_F32(y, 6, 5, 3, 60, 50, 30);
    RUN(CUMSUM, ARGS(wr_axis_args, .axis = 1, .exclusive = true), T(F32, y, 2, 3), T(F32, x, 2, 3));
    CHECK_F32(y, 0, 1, 3, 0, 10, 30);
    RUN(CUMSUM, ARGS(wr_axis_args, .axis = 1, .reverse = true, .exclusive = true), T(F32, y, 2, 3), T(F32, x, 2, 3));
    CHECK_F32(y, 5, 3, 0, 50, 30, 0);
    RUN(CUMSUM, ARGS(wr_axis_args, .axis = 0), T(F32, y, 2, 3), T(F32, x, 2, 3));
    CHECK_F32(y, 1, 2, 3, 11, 22, 33);
    int64_t z[3];
    RUN(CUMSUM, ARGS(wr_axis_args, .axis = 0), T(I64, z, 3), T(I8, A(int8_t, 127, 127, -1), 3));
    CHECK_INT(int64_t, z, 127, 254, 253);
}

static void sorting_is_stable_with_nan_last(void **state) {
    (void)state;
    const float x[] = {2, NAN, -1, 2, 0, -0.0f, INFINITY, NAN, -INFINITY};
    float y[9];
    int32_t at[9];
    RUN(SORT, ARGS(wr_axis_args, .axis = 0), T(F32, y, 9), T(F32, x, 9));
    CHECK_F32(y, -INFINITY, -1, 0, -0.0f, 2, 2, INFINITY, NAN, NAN);
    RUN(ARGSORT, ARGS(wr_axis_args, .axis = 0), T(I32, at, 9), T(F32, x, 9));
    CHECK_INT(int32_t, at, 8, 2, 4, 5, 0, 3, 6, 1, 7);
    RUN(ARGSORT, ARGS(wr_axis_args, .axis = 0, .descending = true), T(I32, at, 9), T(F32, x, 9));
    CHECK_INT(int32_t, at, 6, 0, 3, 4, 5, 2, 8, 1, 7);
    const int64_t wide[] = {INT64_MAX, INT64_MIN, 0, -1};
    int64_t sorted[4];
    RUN(SORT, ARGS(wr_axis_args, .axis = 0), T(I64, sorted, 4), T(I64, wide, 4));
    CHECK_INT(int64_t, sorted, INT64_MIN, -1, 0, INT64_MAX);
    const uint8_t columns[] = {3, 1, 2, 5, 1, 9};
    uint8_t by_column[6];
    RUN(SORT, ARGS(wr_axis_args, .axis = 0, .descending = true), T(U8, by_column, 3, 2), T(U8, columns, 3, 2));
    CHECK_INT(uint8_t, by_column, 3, 9, 2, 5, 1, 1);
    RUN(SORT, ARGS(wr_axis_args, .axis = 0), T(F32, y, 0, 2), T(F32, NULL, 0, 2));
}

static void top_k_falls_and_prefers_lower_indices(void **state) {
    (void)state;
    const float x[] = {1, 5, 3, 5, NAN, 2, 2, 2, 2, 2};
    float y[6];
    int32_t at[6];
    wr_axis_args args = {.axis = 1, .k = 3};
    RUN(TOP_K, &args, T(F32, y, 2, 3), T(F32, x, 2, 5));
    CHECK_F32(y, 5, 5, 3, 2, 2, 2);
    RUN(ARG_TOP_K, &args, T(I32, at, 2, 3), T(F32, x, 2, 5));
    CHECK_INT(int32_t, at, 1, 3, 2, 0, 1, 2);
    args.k = 0;
    RUN(ARG_TOP_K, &args, T(I32, at, 2, 0), T(F32, x, 2, 5));
}

/* Against insertion into place, for a length that is no power of two. */
static void sorting_long_rows_orders_every_pair(void **state) {
    (void)state;
    enum { COUNT = 1237 };
    float x[COUNT], y[COUNT];
    int32_t at[COUNT];
    fill_noise(x, COUNT, 7);
    for (int i = 0; i < COUNT; i++) x[i] = rintf(40 * x[i]); /* many equals */
    RUN(SORT, ARGS(wr_axis_args, .axis = 0), T(F32, y, COUNT), T(F32, x, COUNT));
    RUN(ARGSORT, ARGS(wr_axis_args, .axis = 0), T(I32, at, COUNT), T(F32, x, COUNT));
    for (int i = 0; i < COUNT; i++) {
        assert_true(y[i] == x[at[i]]);
        if (i) assert_true(y[i - 1] < y[i] || (y[i - 1] == y[i] && at[i - 1] < at[i]));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_over_any_axes_and_strides),
        cmocka_unit_test(sums_of_integers_are_64_bits_wide),
        cmocka_unit_test(nothing_reduces_to_the_neutral_element),
        cmocka_unit_test(nan_propagates_through_reductions),
        cmocka_unit_test(half_precision_sums_do_not_round_on_the_way),
        cmocka_unit_test(logsumexp_of_large_and_infinite_values),
        cmocka_unit_test(argmax_takes_the_first_and_nan_is_largest),
        cmocka_unit_test(softmax_of_known_values),
        cmocka_unit_test(running_sums),
        cmocka_unit_test(sorting_is_stable_with_nan_last),
        cmocka_unit_test(top_k_falls_and_prefers_lower_indices),
        cmocka_unit_test(sorting_long_rows_orders_every_pair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
