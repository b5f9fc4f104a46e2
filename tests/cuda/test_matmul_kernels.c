/* Dense products on the emulated card against the CPU's reference (sums in double): tiles and their edges, any strides,
 * broadcast batches, every dtype; a row's bits depend on nothing but the row. */
#include "cuda/rows_test.h"

static const weir_dtype floats[] = {WEIR_DTYPE_F32, WEIR_DTYPE_F16, WEIR_DTYPE_BF16};

static wr_tensor turned(wr_tensor t) { /* the last two axes change places */
    int r = t.n_dims - 2, c = t.n_dims - 1;
    int64_t shape = t.shape[r], stride = t.strides[r];
    t.shape[r] = t.shape[c], t.strides[r] = t.strides[c];
    t.shape[c] = shape, t.strides[c] = stride;
    return t;
}

/* One f32 chain of k products of values in -1 .. 1: each step is off by 2^-24 of a partial sum. Random signs keep the
 * partial sums small: (8 + 2 k) 2^-24, and a rounding to the dtype. */
static void close_to(const wr_kernel_row *row, const wr_step *step, const wr_tensor *want, int64_t k) {
    compare(row, step, want, 2 * unit_of(want->dtype), 0x1p-24 * (8 + 2 * (double)k));
}

static void check(weir_dtype type, int64_t m, int64_t n, int64_t k, int order) {
    wr_tensor a = TENSOR(type, m, k), b = TENSOR(type, k, n), y = SHIFTED(type, 1, m, n);
    wr_tensor at = TENSOR(type, k, m), bt = SHIFTED(type, 8, n, k), first = TENSOR(type, m, n);
    fill(&a, (uint64_t)(m + k), 1), fill(&b, (uint64_t)(n + 7 * k), 1);
    for (int64_t i = 0; i < m * k; i++) wr_store_f32(at.data, type, i % k * m + i / k, wr_load_f32(a.data, type, i));
    for (int64_t i = 0; i < n * k; i++) wr_store_f32(bt.data, type, i % n * k + i / n, wr_load_f32(b.data, type, i));
    wr_tensor in[2] = {a, b};
    wr_step step = {.op = WR_OP_MATMUL, .n_in = 2, .in = in, .out = y};
    wr_tensor want = reference(&step);
    FOR_EACH_FITTING(row, wr_cuda_matmul_rows(WR_OP_MATMUL), &step) {
        run_row(row, &step, order);
        close_to(row, &step, &want, k);
        memcpy(first.data, y.data, tensor_bytes(&y));
        for (int layout = 1; layout < 4; layout++) { /* the same bits from either order of memory */
            in[0] = layout & 1 ? turned(at) : a;
            in[1] = layout & 2 ? turned(bt) : b;
            run_row(row, &step, order);
            compare_bits(row, &step, &first);
        }
        in[0] = a, in[1] = b;
        /* The last row alone, and the last half of the rows, have the bits that they have among all. */
        for (int64_t rows = 1; rows < m; rows += m / 2 + 1) {
            wr_tensor part = SHIFTED(type, 3, rows, k), want_part = TENSOR(type, rows, n);
            memcpy(part.data, (char *)a.data + tensor_bytes(&a) - tensor_bytes(&part), tensor_bytes(&part));
            memcpy(want_part.data, (char *)first.data + tensor_bytes(&y) - tensor_bytes(&want_part),
                   tensor_bytes(&want_part));
            wr_step alone = step;
            alone.in = (wr_tensor[]){part, b};
            alone.out = TENSOR(type, rows, n);
            run_row(row, &alone, order);
            compare_bits(row, &alone, &want_part);
            free_tensor(&alone.out), free_tensor(&part), free_tensor(&want_part);
        }
    }
    free_tensor(&a), free_tensor(&b), free_tensor(&at), free_tensor(&bt), free_tensor(&y), free_tensor(&want);
    free_tensor(&first);
}

static void test_products_match_the_reference_and_rows_depend_on_themselves(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {
        {1, 1, 1},      {1, 17, 9},     {2, 31, 64},    {3, 72, 136},   {16, 64, 128}, {17, 65, 257},
        {64, 128, 200}, {65, 129, 130}, {200, 40, 513}, {258, 264, 72}, {13, 63, 400}, {257, 385, 40},
    };
    for (int t = 0; t < 3; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            check(floats[t], shapes[s][0], shapes[s][1], shapes[s][2], (int)s % 3 * 7);
}

/* a [3, 1, 5, 24 of 48], b [4, 24, 40]: batches [3, 4]; broadcast rows; columns from the back. */
static void test_batches_broadcast_and_strides_are_any(void **state) {
    (void)state;
    for (int t = 0; t < 3; t++) {
        weir_dtype type = floats[t];
        wr_tensor a = TENSOR(type, 3, 1, 10, 48), b = TENSOR(type, 4, 24, 40), y = TENSOR(type, 3, 4, 5, 40);
        fill(&a, 1, 1), fill(&b, 2, 1);
        wr_tensor every_second = a, same = b, back = b, plain = a;
        every_second.shape[2] = 5, every_second.strides[2] *= 2;
        every_second.shape[3] = 24, every_second.strides[3] = 2;
        plain.shape[2] = 5, plain.shape[3] = 24;
        same.strides[2] = 0;
        back.data = wr_at(&b, 39), back.strides[2] = -1;
        wr_tensor lefts[] = {every_second, plain}, rights[] = {b, same, back};
        for (int l = 0; l < 2; l++)
            for (int r = 0; r < 3; r++) {
                wr_step step = {.op = WR_OP_MATMUL, .n_in = 2, .in = (wr_tensor[]){lefts[l], rights[r]}, .out = y};
                wr_tensor want = reference(&step);
                FOR_EACH_FITTING(row, wr_cuda_matmul_rows(WR_OP_MATMUL), &step) {
                    run_row(row, &step, 1);
                    close_to(row, &step, &want, 24);
                }
                free_tensor(&want);
            }
        free_tensor(&a), free_tensor(&b), free_tensor(&y);
    }
}

/* The same a for every row of a batch that only a has: one product of all rows, with the bits of each alone. */
static void test_a_batch_of_single_rows_has_the_bits_of_each_row(void **state) {
    (void)state;
    wr_tensor a = TENSOR(WEIR_DTYPE_BF16, 20, 1, 80), b = TENSOR(WEIR_DTYPE_BF16, 80, 48);
    wr_tensor y = TENSOR(WEIR_DTYPE_BF16, 20, 1, 48);
    fill(&a, 3, 1), fill(&b, 4, 1);
    wr_step step = {.op = WR_OP_MATMUL, .n_in = 2, .in = (wr_tensor[]){a, b}, .out = y};
    const wr_kernel_row *row = first_fitting(wr_cuda_matmul_rows(WR_OP_MATMUL), &step);
    run_row(row, &step, 0);
    for (int64_t i = 0; i < 20; i++) {
        wr_tensor one = {
            .data = wr_at(&a, i * 80), .dtype = a.dtype, .n_dims = 2, .shape = {1, 80}, .strides = {80, 1}};
        wr_step alone = {.op = WR_OP_MATMUL, .n_in = 2, .in = (wr_tensor[]){one, b}};
        alone.out = TENSOR(WEIR_DTYPE_BF16, 1, 48);
        run_row(row, &alone, 0);
        assert_memory_equal(alone.out.data, wr_at(&y, i * 48), 96);
        free_tensor(&alone.out);
    }
    free_tensor(&a), free_tensor(&b), free_tensor(&y);
}

/* 2^24 + 1 - 2^24 in this order is 0 in f32, since the 1 is lost; 2^24 - 2^24 + 1 is 1. */
static void test_f32_sums_are_one_chain_in_the_order_of_k_and_never_tf32(void **state) {
    (void)state;
    float a[3] = {0x1p24f, 1, -0x1p24f}, b[3] = {1, 1, 1}, c[1] = {1 + 0x1p-23f}, d[1] = {1 + 0x1p-23f}, y;
    wr_tensor in[2] = {{a, WEIR_DTYPE_F32, 2, {1, 3}, {3, 1}}, {b, WEIR_DTYPE_F32, 2, {3, 1}, {1, 1}}};
    wr_tensor out = TENSOR(WEIR_DTYPE_F32, 1, 1);
    wr_step step = {.op = WR_OP_MATMUL, .n_in = 2, .in = in, .out = out};
    FOR_EACH_FITTING(row, wr_cuda_matmul_rows(WR_OP_MATMUL), &step) {
        in[0].data = a, in[0].shape[1] = in[1].shape[0] = 3, in[1].data = b;
        run_row(row, &step, 0);
        memcpy(&y, out.data, 4);
        assert_true(y == 0);
        in[0].data = c, in[0].shape[1] = in[1].shape[0] = 1, in[1].data = d; /* TF32 would give 1 */
        run_row(row, &step, 0);
        memcpy(&y, out.data, 4);
        assert_true(y == 1 + 0x1p-22f);
    }
    free_tensor(&out);
}

static void test_inner_size_0_gives_0_and_empty_outputs_write_nothing(void **state) {
    (void)state;
    for (int t = 0; t < 3; t++) {
        wr_tensor a = TENSOR(floats[t], 5, 0), b = TENSOR(floats[t], 0, 7), y = TENSOR(floats[t], 5, 7);
        wr_tensor none = TENSOR(floats[t], 0, 4), c = TENSOR(floats[t], 4, 7), empty = TENSOR(floats[t], 0, 7);
        wr_step step = {.op = WR_OP_MATMUL, .n_in = 2, .in = (wr_tensor[]){a, b}, .out = y};
        wr_step nothing = {.op = WR_OP_MATMUL, .n_in = 2, .in = (wr_tensor[]){none, c}, .out = empty};
        FOR_EACH_FITTING(row, wr_cuda_matmul_rows(WR_OP_MATMUL), &step) {
            run_row(row, &step, 0);
            for (int64_t i = 0; i < 35; i++) assert_true(wr_load_f32(y.data, y.dtype, i) == 0);
            run_row(row, &nothing, 0);
        }
        free_tensor(&a), free_tensor(&b), free_tensor(&y), free_tensor(&none), free_tensor(&c), free_tensor(&empty);
    }
}

/* Infinity and NaN reach their own row or column only; what lies between the rows of a view is NaN and never read. */
static void test_special_values_stay_in_their_row(void **state) {
    (void)state;
    for (int t = 0; t < 3; t++) {
        weir_dtype type = floats[t];
        wr_tensor room = TENSOR(type, 20, 56), b = TENSOR(type, 40, 24), y = TENSOR(type, 20, 24);
        fill(&b, 5, 1);
        for (int64_t i = 0; i < 20; i++)
            for (int64_t j = 0; j < 40; j++) wr_store_f32(room.data, type, i * 56 + j, noise((uint64_t)(i * 40 + j)));
        wr_store_f32(room.data, type, 3 * 56 + 7, INFINITY);
        wr_store_f32(room.data, type, 4 * 56 + 39, NAN);
        wr_store_f32(b.data, type, 7 * 24 + 2, 0); /* infinity * 0 */
        wr_tensor a = room;
        a.shape[1] = 40;
        wr_step step = {.op = WR_OP_MATMUL, .n_in = 2, .in = (wr_tensor[]){a, b}, .out = y};
        wr_tensor want = reference(&step);
        FOR_EACH_FITTING(row, wr_cuda_matmul_rows(WR_OP_MATMUL), &step) {
            run_row(row, &step, 0);
            close_to(row, &step, &want, 40);
        }
        free_tensor(&room), free_tensor(&b), free_tensor(&y), free_tensor(&want);
    }
}

static void test_many_rows_and_integers(void **state) {
    (void)state;
    wr_tensor a = TENSOR(WEIR_DTYPE_BF16, 65537, 3), b = TENSOR(WEIR_DTYPE_BF16, 3, 2), y = TENSOR(a.dtype, 65537, 2);
    fill(&a, 8, 1), fill(&b, 9, 1);
    wr_step step = {.op = WR_OP_MATMUL, .n_in = 2, .in = (wr_tensor[]){a, b}, .out = y};
    wr_tensor want = reference(&step);
    run_row(first_fitting(wr_cuda_matmul_rows(WR_OP_MATMUL), &step), &step, 0);
    close_to(wr_cuda_matmul_rows(WR_OP_MATMUL), &step, &want, 3);
    free_tensor(&a), free_tensor(&b), free_tensor(&y), free_tensor(&want);
    static const weir_dtype integers[] = {WEIR_DTYPE_I32, WEIR_DTYPE_U8, WEIR_DTYPE_I64, WEIR_DTYPE_U64};
    for (int t = 0; t < 4; t++) {
        wr_tensor c = TENSOR(integers[t], 2, 5, 9), d = TENSOR(integers[t], 2, 9, 6), z = TENSOR(integers[t], 2, 5, 6);
        fill(&c, 1, 1), fill(&d, 2, 1);
        wr_step whole = {.op = WR_OP_MATMUL, .n_in = 2, .in = (wr_tensor[]){c, d}, .out = z};
        wr_tensor right = reference(&whole);
        FOR_EACH_FITTING(row, wr_cuda_matmul_rows(WR_OP_MATMUL), &whole) {
            run_row(row, &whole, 0);
            compare_bits(row, &whole, &right);
        }
        free_tensor(&c), free_tensor(&d), free_tensor(&z), free_tensor(&right);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products_match_the_reference_and_rows_depend_on_themselves),
        cmocka_unit_test(test_batches_broadcast_and_strides_are_any),
        cmocka_unit_test(test_a_batch_of_single_rows_has_the_bits_of_each_row),
        cmocka_unit_test(test_f32_sums_are_one_chain_in_the_order_of_k_and_never_tf32),
        cmocka_unit_test(test_inner_size_0_gives_0_and_empty_outputs_write_nothing),
        cmocka_unit_test(test_special_values_stay_in_their_row),
        cmocka_unit_test(test_many_rows_and_integers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
