/* Ops that move or make data, by the reference kernels. */
#include "cpu/ref_test.h"
#include "cpu/ref/kernels.h"

static const int32_t six[] = {1, 2, 3, 4, 5, 6};

static void copies_of_strided_views(void **state) {
    (void)state;
    int32_t y[6];
    wr_tensor x = T(I32, six, 3, 2); /* the transpose of [2, 3] */
    x.strides[0] = 1;
    x.strides[1] = 3;
    RUN(COPY, NULL, T(I32, y, 3, 2), x);
    CHECK_INT(int32_t, y, 1, 4, 2, 5, 3, 6);
    RUN(RESHAPE, NULL, T(I32, y, 6), x);
    CHECK_INT(int32_t, y, 1, 4, 2, 5, 3, 6);
    wr_tensor reversed = T(I32, six + 5, 6);
    reversed.strides[0] = -1;
    RUN(COPY, NULL, T(I32, y, 6), reversed);
    CHECK_INT(int32_t, y, 6, 5, 4, 3, 2, 1);
    RUN(COPY, NULL, SCALAR(I32, y), SCALAR(I32, six));
    assert_int_equal(y[0], 1);
    RUN(COPY, NULL, T(I32, y, 0, 3), T(I32, NULL, 0, 3));
}

static void large_copies_by_every_element_size(void **state) {
    (void)state;
    enum { ROWS = 3, COLS = 40000 };
    static const weir_dtype dtypes[] = {WEIR_DTYPE_U8, WEIR_DTYPE_F16, WEIR_DTYPE_F32, WEIR_DTYPE_I64};
    for (int k = 0; k < 4; k++) {
        size_t size = weir_dtype_bytes(dtypes[k]);
        unsigned char *x = malloc(ROWS * COLS * size), *y = malloc(ROWS * COLS * size);
        for (size_t i = 0; i < ROWS * COLS * size; i++) x[i] = (unsigned char)(i * 2654435761u >> 13);
        wr_tensor in = tensor_of(dtypes[k], x, 2, (int64_t[]){ROWS, COLS});
        in.strides[0] = 1;
        in.strides[1] = ROWS;
        run_op(WR_OP_COPY, NULL, tensor_of(dtypes[k], y, 2, (int64_t[]){ROWS, COLS}), 1, &in);
        for (size_t r = 0; r < ROWS; r++)
            for (size_t c = 0; c < COLS; c++)
                assert_memory_equal(y + (r * COLS + c) * size, x + (c * ROWS + r) * size, size);
        free(x);
        free(y);
    }
}

static void views_can_be_copied_out(void **state) {
    (void)state;
    int32_t y[12];
    wr_slice_args slice = {.start = {1, 2}, .step = {1, -2}, .count = {1, 2}};
    RUN(SLICE, &slice, T(I32, y, 1, 2), T(I32, six, 2, 3));
    CHECK_INT(int32_t, y, 6, 4);
    RUN(TRANSPOSE, ARGS(wr_shape_args, .n = 2, .dims = {1, 0}), T(I32, y, 3, 2), T(I32, six, 2, 3));
    CHECK_INT(int32_t, y, 1, 4, 2, 5, 3, 6);
    RUN(BROADCAST, ARGS(wr_shape_args, .n = 2, .dims = {2, 3}), T(I32, y, 2, 3), T(I32, six, 3));
    CHECK_INT(int32_t, y, 1, 2, 3, 1, 2, 3);
    RUN(BROADCAST, ARGS(wr_shape_args, .n = 2, .dims = {2, 3}), T(I32, y, 2, 3), T(I32, six, 2, 1));
    CHECK_INT(int32_t, y, 1, 1, 1, 2, 2, 2);
}

static void slice_update_with_steps(void **state) {
    (void)state;
    int32_t y[6];
    const int32_t u[] = {-1, -2, -3, -4};
    wr_slice_args args = {.start = {0, 2}, .step = {1, -2}, .count = {2, 2}};
    RUN(SLICE_UPDATE, &args, T(I32, y, 2, 3), T(I32, six, 2, 3), T(I32, u, 2, 2));
    CHECK_INT(int32_t, y, -2, 2, -1, -4, 5, -3);
    wr_slice_args row = {.start = {1}, .step = {2}, .count = {2}};
    RUN(SLICE_UPDATE, &row, T(I32, y, 6), T(I32, six, 6), T(I32, u, 2));
    CHECK_INT(int32_t, y, 1, -1, 3, -2, 5, 6);
    wr_slice_args none = {.start = {0}, .step = {1}, .count = {0}};
    RUN(SLICE_UPDATE, &none, T(I32, y, 6), T(I32, six, 6), T(I32, NULL, 0));
    CHECK_INT(int32_t, y, 1, 2, 3, 4, 5, 6);
}

static void concat_and_pad(void **state) {
    (void)state;
    int32_t y[16];
    const int32_t more[] = {7, 8};
    RUN(CONCAT, ARGS(wr_axis_args, .axis = 1), T(I32, y, 2, 4), T(I32, six, 2, 3), T(I32, more, 2, 1),
        T(I32, NULL, 2, 0));
    CHECK_INT(int32_t, y, 1, 2, 3, 7, 4, 5, 6, 8);
    RUN(CONCAT, ARGS(wr_axis_args, .axis = 0), T(I32, y, 8), T(I32, six, 6), T(I32, more, 2));
    CHECK_INT(int32_t, y, 1, 2, 3, 4, 5, 6, 7, 8);
    wr_pad_args pad = {.low = {1, 0}, .high = {0, 2}, .value = 9};
    RUN(PAD, &pad, T(I32, y, 3, 5), T(I32, six, 2, 3));
    CHECK_INT(int32_t, y, 9, 9, 9, 9, 9, 1, 2, 3, 9, 9, 4, 5, 6, 9, 9);
    RUN(PAD, &pad, T(I32, y, 1, 5), T(I32, NULL, 0, 3));
    CHECK_INT(int32_t, y, 9, 9, 9, 9, 9);
}

static void take_by_either_index_type(void **state) {
    (void)state;
    int32_t y[12];
    const int64_t ids[] = {2, -3, 3, 0};
    RUN(TAKE, ARGS(wr_axis_args, .axis = 1), T(I32, y, 2, 2, 2), T(I32, six, 2, 3), T(I64, ids, 2, 2));
    CHECK_INT(int32_t, y, 3, 1, 0, 1, 6, 4, 0, 4); /* index 3 is out of range */
    const int32_t row[] = {1};
    RUN(TAKE, ARGS(wr_axis_args, .axis = 0), T(I32, y, 1, 3), T(I32, six, 2, 3), T(I32, row, 1));
    CHECK_INT(int32_t, y, 4, 5, 6);
    RUN(TAKE, ARGS(wr_axis_args, .axis = 0), T(I32, y, 3), T(I32, six, 2, 3), SCALAR(I32, row));
    CHECK_INT(int32_t, y, 4, 5, 6);
    float f[2];
    RUN(TAKE, ARGS(wr_axis_args, .axis = 0), T(F32, f, 2), T(F32, A(float, 7, 8), 2), T(I32, A(int32_t, -3, 1), 2));
    CHECK_F32(f, NAN, 8);
    RUN(TAKE, ARGS(wr_axis_args, .axis = 0), T(I32, y, 0, 3), T(I32, six, 2, 3), T(I32, NULL, 0));
}

static void take_along_one_axis(void **state) {
    (void)state;
    int32_t y[4];
    const int32_t ids[] = {2, 0, -1, 5};
    RUN(TAKE_ALONG, ARGS(wr_axis_args, .axis = 1), T(I32, y, 2, 2), T(I32, six, 2, 3), T(I32, ids, 2, 2));
    CHECK_INT(int32_t, y, 3, 1, 6, 0);
    RUN(TAKE_ALONG, ARGS(wr_axis_args, .axis = 0), T(I32, y, 1, 3), T(I32, six, 2, 3),
        T(I32, A(int32_t, 1, 0, 1), 1, 3));
    assert_memory_equal(y, A(int32_t, 4, 2, 6), 12);
}

static void scatter_in_index_order(void **state) {
    (void)state;
    int32_t y[6];
    const int32_t ids[] = {1, 1, -3, 3, 0, 2}, u[] = {10, 20, 30, 40, 50, 60};
    RUN(SCATTER, ARGS(wr_axis_args, .axis = 1), T(I32, y, 2, 3), T(I32, six, 2, 3), T(I32, ids, 2, 3), T(I32, u, 2, 3));
    CHECK_INT(int32_t, y, 30, 20, 3, 50, 5, 60);
    RUN(SCATTER_ADD, ARGS(wr_axis_args, .axis = 1), T(I32, y, 2, 3), T(I32, six, 2, 3), T(I32, ids, 2, 3),
        T(I32, u, 2, 3));
    CHECK_INT(int32_t, y, 31, 32, 3, 54, 5, 66);
    RUN(SCATTER, ARGS(wr_axis_args, .axis = 0), T(I32, y, 2, 3), T(I32, six, 2, 3), T(I32, A(int32_t, 1, 0, 1), 1, 3),
        T(I32, u, 1, 3));
    CHECK_INT(int32_t, y, 1, 20, 3, 10, 5, 30);
    float f[2]; /* 2^24 + 1 rounds to 2^24, so the order shows: 1 + 1 first would give 2^24 + 2 */
    RUN(SCATTER_ADD, ARGS(wr_axis_args, .axis = 0), T(F32, f, 2), T(F32, A(float, 0x1p24f, 0), 2),
        T(I32, A(int32_t, 0, 0), 2), T(F32, A(float, 1, 1), 2));
    CHECK_F32(f, 0x1p24f, 0);
}

static void constants_and_ranges(void **state) {
    (void)state;
    float f[4];
    int8_t i[3];
    run_op(WR_OP_FULL, ARGS(wr_full_args, .dtype = WEIR_DTYPE_F32, .n = 1, .dims = {2}, .value = 0.1), T(F32, f, 2), 0,
           NULL);
    CHECK_F32(f, 0.1f, 0.1f);
    run_op(WR_OP_FULL, ARGS(wr_full_args, .dtype = WEIR_DTYPE_I8, .n = 1, .dims = {3}, .integer = -5), T(I8, i, 3), 0,
           NULL);
    CHECK_INT(int8_t, i, -5, -5, -5);
    run_op(WR_OP_ARANGE, ARGS(wr_arange_args, WEIR_DTYPE_F32, 1, 0.1, 4), T(F32, f, 4), 0, NULL);
    CHECK_F32(f, 1, 1.1f, 1.2f, 1.3f);
    run_op(WR_OP_ARANGE, ARGS(wr_arange_args, WEIR_DTYPE_I8, 5, -2, 3), T(I8, i, 3), 0, NULL);
    CHECK_INT(int8_t, i, 5, 3, 1);
}

/* The known-answer vectors that the authors publish with their library. */
static void philox_gives_the_published_vectors(void **state) {
    (void)state;
    static const uint32_t cases[3][10] = {{0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
                                          {0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff,
                                           0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
                                          {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0,
                                           0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}};
    for (int i = 0; i < 3; i++) {
        uint32_t out[4];
        wr_philox4x32(cases[i], cases[i] + 4, out);
        assert_memory_equal(out, cases[i] + 6, 16);
    }
}

static void random_values_depend_on_seed_counter_and_index_only(void **state) {
    (void)state;
    uint32_t bits[7], later[3];
    wr_random_args args = {.n = 1, .dims = {7}};
    run_op(WR_OP_RANDOM_BITS, &args, T(U32, bits, 7), 0, NULL);
    assert_memory_equal(bits, A(uint32_t, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8), 16);
    args.counter = 1;
    run_op(WR_OP_RANDOM_BITS, &args, T(U32, later, 3), 0, NULL);
    assert_memory_equal(later, bits + 4, 12);
    args.counter = 0;
    float uniform[2], normal[4];
    run_op(WR_OP_RANDOM_UNIFORM, &args, T(F32, uniform, 2), 0, NULL);
    CHECK_F32(uniform, 0x6627e8 * 0x1p-24f, 0xe169c5 * 0x1p-24f);
    run_op(WR_OP_RANDOM_NORMAL, &args, T(F32, normal, 4), 0, NULL);
    /* u = 0x6627e9 / 2^24 = 0.39905, v = 0xe169c5 / 2^24 = 0.88052: r = sqrt(-2 ln u), r cos(2 pi v), r sin(2 pi v) */
    double u = 0x6627e9 * 0x1p-24, v = 0xe169c5 * 0x1p-24;
    check_near(normal[0], sqrt(-2 * log(u)) * cos(2 * 3.14159265358979 * v), 1e-6);
    check_near(normal[1], sqrt(-2 * log(u)) * sin(2 * 3.14159265358979 * v), 1e-6);
}

static void random_numbers_have_the_moments_of_their_distribution(void **state) {
    (void)state;
    enum { COUNT = 40000 };
    float *x = malloc(COUNT * sizeof *x);
    wr_random_args args = {.seed = 12345, .counter = 1, .n = 1, .dims = {COUNT}};
    double mean = 0, square = 0;
    run_op(WR_OP_RANDOM_NORMAL, &args, T(F32, x, COUNT), 0, NULL);
    for (int i = 0; i < COUNT; i++) mean += x[i] / COUNT, square += (double)x[i] * x[i] / COUNT;
    check_near(mean, 0, 4 / sqrt(COUNT)); /* four standard deviations */
    check_near(square, 1, 4 * sqrt(2.0 / COUNT));
    run_op(WR_OP_RANDOM_UNIFORM, &args, T(F32, x, COUNT), 0, NULL);
    mean = 0;
    for (int i = 0; i < COUNT; i++) {
        assert_true(x[i] >= 0 && x[i] < 1);
        mean += x[i] / COUNT;
    }
    check_near(mean, 0.5, 4 * sqrt(1.0 / 12 / COUNT));
    free(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_of_strided_views),
        cmocka_unit_test(large_copies_by_every_element_size),
        cmocka_unit_test(views_can_be_copied_out),
        cmocka_unit_test(slice_update_with_steps),
        cmocka_unit_test(concat_and_pad),
        cmocka_unit_test(take_by_either_index_type),
        cmocka_unit_test(take_along_one_axis),
        cmocka_unit_test(scatter_in_index_order),
        cmocka_unit_test(constants_and_ranges),
        cmocka_unit_test(philox_gives_the_published_vectors),
        cmocka_unit_test(random_values_depend_on_seed_counter_and_index_only),
        cmocka_unit_test(random_numbers_have_the_moments_of_their_distribution),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
