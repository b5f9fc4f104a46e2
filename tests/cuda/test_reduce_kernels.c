/* Reductions, argmax, softmax, running sums and sorts on the emulated card against the CPU's reference. Float sums of n
 * values in -1 .. 1 are off by (n / 32 + 40) 2^-24 of the sum of magnitudes at most, n being the longest chain's. */
#include "cuda/rows_test.h"

static const weir_dtype floats[] = {WEIR_DTYPE_F32, WEIR_DTYPE_F16, WEIR_DTYPE_BF16};
static const wr_op_id reductions[] = {WR_OP_SUM, WR_OP_MEAN, WR_OP_MAX, WR_OP_MIN, WR_OP_LOGSUMEXP};

/* A view of t with the axes in another order. */
static wr_tensor turned(wr_tensor t, const int *axes) {
    wr_tensor v = t;
    for (int d = 0; d < t.n_dims; d++) v.shape[d] = t.shape[axes[d]], v.strides[d] = t.strides[axes[d]];
    return v;
}
static wr_tensor reversed(wr_tensor t, int axis) {
    if (t.shape[axis]) t.data = wr_at(&t, (t.shape[axis] - 1) * t.strides[axis]);
    t.strides[axis] = -t.strides[axis];
    return t;
}

/* ---- reductions ---- */

static weir_dtype reduced_dtype(wr_op_id op, weir_dtype d) {
    bool is_float = wr_dtype_kind(d) == WR_KIND_FLOAT;
    if (op == WR_OP_SUM && !is_float) return wr_dtype_kind(d) == WR_KIND_UNSIGNED ? WEIR_DTYPE_U64 : WEIR_DTYPE_I64;
    if ((op == WR_OP_MEAN || op == WR_OP_LOGSUMEXP) && !is_float) return WEIR_DTYPE_F32;
    return d;
}

/* magnitude: of the largest element. Fails unless every row of the family is near the reference, or equal where exact.
 */
static void check_reduce(wr_op_id op, wr_tensor x, uint32_t axes, double magnitude, int order) {
    wr_reduce_args args = {.axes = axes};
    wr_step step = {.op = op, .args = &args, .n_in = 1, .in = &x};
    int64_t shape[WR_MAX_DIMS], n = 1;
    int n_dims = 0;
    for (int d = 0; d < x.n_dims; d++) {
        if (axes >> d & 1)
            n *= x.shape[d];
        else
            shape[n_dims++] = x.shape[d];
    }
    step.out = new_tensor(reduced_dtype(op, x.dtype), 0, n_dims, shape);
    wr_tensor want = reference(&step);
    bool exact = wr_dtype_kind(step.out.dtype) != WR_KIND_FLOAT || op == WR_OP_MAX || op == WR_OP_MIN;
    double total = op == WR_OP_SUM ? (double)n * magnitude : magnitude + 1;
    double slack = exact ? 0 : ((double)n / 32 + 40) * 0x1p-24 * total;
    FOR_EACH_FITTING(row, wr_cuda_reduce_rows(op), &step) {
        run_row(row, &step, order);
        compare(row, &step, &want, exact ? 0 : 2 * unit_of(step.out.dtype), slack);
    }
    free_tensor(&step.out), free_tensor(&want);
}

static void test_reductions_match_the_reference_at_every_length(void **state) {
    (void)state;
    static const int64_t lengths[] = {1, 2, 7, 32, 127, 1000, 1024, 1025, 4099, 16384, 16385, 40001};
    for (size_t s = 0; s < sizeof lengths / sizeof *lengths; s++)
        for (int t = 0; t < 3; t++)
            for (int o = 0; o < 5; o++) {
                wr_tensor x = SHIFTED(floats[t], (int)s % 5, 3, lengths[s]);
                fill(&x, s, 1);
                check_reduce(reductions[o], x, 2, 1, (int)s % 3 * 9);
                free_tensor(&x);
            }
}

static void test_reductions_take_any_axes_and_strides(void **state) {
    (void)state;
    for (int t = 0; t < 3; t++)
        for (int o = 0; o < 5; o++) {
            wr_tensor x = TENSOR(floats[t], 3, 5, 7, 2);
            fill(&x, 11, 2);
            wr_tensor odd = turned(reversed(x, 2), (int[]){2, 0, 3, 1}), same = x, thin = x;
            same.strides[1] = 0;
            thin.shape[2] = 4, thin.strides[2] *= 2;
            for (uint32_t axes = 0; axes < 16; axes++) {
                check_reduce(reductions[o], x, axes, 2, 0);
                check_reduce(reductions[o], odd, axes, 2, 1);
                check_reduce(reductions[o], same, axes, 2, 0);
                check_reduce(reductions[o], thin, axes, 2, 3);
            }
            free_tensor(&x);
            wr_tensor scalar = new_tensor(floats[t], 0, 0, NULL);
            fill(&scalar, 1, 1);
            check_reduce(reductions[o], scalar, 0, 1, 0);
            free_tensor(&scalar);
        }
}

static void test_reductions_of_integers_are_exact_and_wrap(void **state) {
    (void)state;
    for (int dtype = WEIR_DTYPE_BOOL; dtype <= WEIR_DTYPE_I64; dtype++) {
        wr_tensor x = TENSOR((weir_dtype)dtype, 4, 3, 300), small = TENSOR((weir_dtype)dtype, 5, 40);
        fill(&x, 3, 1), fill(&small, 4, 100);
        for (int o = 0; o < 4; o++) {
            if (reductions[o] == WR_OP_MEAN) continue;
            for (uint32_t axes = 1; axes < 8; axes++) check_reduce(reductions[o], x, axes, 0, (int)axes % 3);
        }
        check_reduce(WR_OP_MEAN, small, 2, 100, 0);
        check_reduce(WR_OP_LOGSUMEXP, small, 3, 100, 0);
        free_tensor(&x), free_tensor(&small);
    }
}

static void test_nan_and_infinity_pass_through_their_row(void **state) {
    (void)state;
    static const int64_t lengths[] = {6, 1500, 33000};
    for (int s = 0; s < 3; s++)
        for (int t = 0; t < 3; t++) {
            int64_t n = lengths[s];
            wr_tensor x = TENSOR(floats[t], 7, n);
            fill(&x, 5, 1);
            wr_store_f32(x.data, x.dtype, n / 2, NAN);
            wr_store_f32(x.data, x.dtype, n + 1, INFINITY);
            wr_store_f32(x.data, x.dtype, 2 * n + n - 1, -INFINITY);
            wr_store_f32(x.data, x.dtype, 3 * n, INFINITY), wr_store_f32(x.data, x.dtype, 3 * n + 5, -INFINITY);
            for (int64_t i = 0; i < n; i++) wr_store_f32(x.data, x.dtype, 4 * n + i, -INFINITY);
            wr_store_f32(x.data, x.dtype, 5 * n + 2, INFINITY), wr_store_f32(x.data, x.dtype, 5 * n + n - 1, NAN);
            for (int o = 0; o < 5; o++) check_reduce(reductions[o], x, 2, 1, o % 2);
            wr_axis_args args = {.axis = 1};
            wr_step step = {.op = WR_OP_SOFTMAX, .args = &args, .n_in = 1, .in = &x, .out = TENSOR(x.dtype, 7, n)};
            wr_tensor want = reference(&step);
            FOR_EACH_FITTING(row, wr_cuda_reduce_rows(WR_OP_SOFTMAX), &step) {
                run_row(row, &step, 0);
                compare(row, &step, &want, 2 * unit_of(x.dtype) + 0x1p-12, 0x1p-24);
            }
            free_tensor(&x), free_tensor(&step.out), free_tensor(&want);
        }
}

static void test_empty_axes_and_many_rows(void **state) {
    (void)state;
    for (int t = 0; t < 3; t++) {
        wr_tensor none = TENSOR(floats[t], 3, 0), no_rows = TENSOR(floats[t], 0, 4);
        check_reduce(WR_OP_SUM, none, 2, 1, 0), check_reduce(WR_OP_MEAN, none, 2, 1, 0);
        check_reduce(WR_OP_LOGSUMEXP, none, 2, 1, 0);
        for (int o = 0; o < 5; o++) check_reduce(reductions[o], no_rows, 2, 1, 0);
        free_tensor(&none), free_tensor(&no_rows);
    }
    wr_tensor many = TENSOR(WEIR_DTYPE_F32, 65537, 3);
    fill(&many, 2, 1);
    check_reduce(WR_OP_SUM, many, 2, 1, 0);
    check_reduce(WR_OP_MAX, many, 1, 1, 0);
    free_tensor(&many);
}

/* A row at another alignment, alone, has the bits that it has among all; the output rows of x are [n]. */
static void test_a_row_alone_has_the_bits_it_has_among_others(void **state) {
    (void)state;
    static const int64_t lengths[] = {37, 1030, 20001};
    static const wr_op_id ops[] = {WR_OP_SUM, WR_OP_LOGSUMEXP, WR_OP_SOFTMAX, WR_OP_CUMSUM};
    for (int s = 0; s < 3; s++)
        for (int o = 0; o < 4; o++) {
            int64_t n = lengths[s], each = ops[o] == WR_OP_SUM || ops[o] == WR_OP_LOGSUMEXP ? 1 : n;
            wr_tensor x = TENSOR(WEIR_DTYPE_F32, 9, n), y = TENSOR(WEIR_DTYPE_F32, 9, each);
            fill(&x, 1, 4);
            wr_reduce_args reduce = {.axes = 2, .keep_dims = true};
            wr_axis_args axis = {.axis = 1};
            const void *args = each == 1 ? (const void *)&reduce : &axis;
            wr_step step = {.op = ops[o], .args = args, .n_in = 1, .in = &x, .out = y};
            const wr_kernel_row *row = first_fitting(wr_cuda_reduce_rows(ops[o]), &step);
            run_row(row, &step, 0);
            for (int64_t r = 0; r < 9; r += 4) {
                wr_tensor one = SHIFTED(WEIR_DTYPE_F32, (int)r % 3 + 1, 1, n);
                memcpy(one.data, wr_at(&x, r * n), tensor_bytes(&one));
                /* The same elements as a column, too. */
                wr_tensor column = TENSOR(WEIR_DTYPE_F32, n, 2), column_view = column;
                for (int64_t i = 0; i < n; i++) ((float *)column.data)[2 * i + 1] = ((float *)one.data)[i];
                column_view.data = wr_at(&column, 1), column_view.shape[0] = 1, column_view.shape[1] = n;
                column_view.strides[0] = 1, column_view.strides[1] = 2;
                wr_tensor ways[] = {one, column_view};
                for (int way = 0; way < 2; way++) {
                    wr_step alone = {.op = ops[o], .args = args, .n_in = 1, .in = &ways[way]};
                    alone.out = SHIFTED(WEIR_DTYPE_F32, way, 1, each);
                    run_row(row, &alone, 7);
                    assert_memory_equal(alone.out.data, wr_at(&y, r * each), (size_t)each * 4);
                    free_tensor(&alone.out);
                }
                free_tensor(&one), free_tensor(&column);
            }
            free_tensor(&x), free_tensor(&y);
        }
}

/* ---- argmax ---- */

static void check_argmax(wr_tensor x, int axis, int order) {
    wr_axis_args args = {.axis = axis};
    wr_step step = {.op = WR_OP_ARGMAX, .args = &args, .n_in = 1, .in = &x};
    int64_t shape[WR_MAX_DIMS];
    int n_dims = 0;
    for (int d = 0; d < x.n_dims; d++)
        if (d != axis) shape[n_dims++] = x.shape[d];
    step.out = new_tensor(WEIR_DTYPE_I32, 0, n_dims, shape);
    wr_tensor want = reference(&step);
    FOR_EACH_FITTING(row, wr_cuda_reduce_rows(WR_OP_ARGMAX), &step) {
        run_row(row, &step, order);
        compare_bits(row, &step, &want);
    }
    free_tensor(&step.out), free_tensor(&want);
}

static void test_argmax_takes_the_first_of_equals_and_nan_before_all(void **state) {
    (void)state;
    static const int64_t lengths[] = {1, 3, 1000, 1025, 4096, 4097, 20000};
    for (int dtype = WEIR_DTYPE_BOOL; dtype < WEIR_DTYPE_COUNT; dtype++)
        for (int s = 0; s < 7; s++) {
            int64_t n = lengths[s];
            wr_tensor x = SHIFTED((weir_dtype)dtype, s % 3, 5, n), square = TENSOR((weir_dtype)dtype, 3, 4, 5);
            fill(&x, (uint64_t)s, s % 2 ? 1 : 9); /* integers below 9: many ties */
            fill(&square, (uint64_t)s, 1);
            if (wr_dtype_kind(x.dtype) == WR_KIND_FLOAT) {
                wr_store_f32(x.data, x.dtype, n / 2, 50), wr_store_f32(x.data, x.dtype, n - 1, 50); /* ties */
                wr_store_f32(x.data, x.dtype, n + n / 3, NAN), wr_store_f32(x.data, x.dtype, n + n - 1, NAN);
                wr_store_f32(x.data, x.dtype, n, INFINITY);
                for (int64_t i = 0; i < n; i++) wr_store_f32(x.data, x.dtype, 2 * n + i, i % 2 ? 0.0f : -0.0f);
                for (int64_t i = 0; i < n; i++) wr_store_f32(x.data, x.dtype, 3 * n + i, -INFINITY);
            }
            check_argmax(x, 1, s % 3);
            for (int axis = 0; axis < 3; axis++) check_argmax(reversed(square, (axis + 1) % 3), axis, 0);
            free_tensor(&x), free_tensor(&square);
        }
}

/* ---- softmax and running sums ---- */

static void check_scan(wr_op_id op, wr_tensor x, weir_dtype out_type, wr_axis_args args, double part, double slack,
                       int order) {
    wr_step step = {.op = op, .args = &args, .n_in = 1, .in = &x, .out = new_tensor(out_type, 1, x.n_dims, x.shape)};
    wr_tensor want = reference(&step);
    FOR_EACH_FITTING(row, wr_cuda_reduce_rows(op), &step) {
        run_row(row, &step, order);
        compare(row, &step, &want, part, slack);
    }
    free_tensor(&step.out), free_tensor(&want);
}

static void test_softmax_matches_the_reference_along_any_axis(void **state) {
    (void)state;
    static const int64_t lengths[] = {1, 5, 1000, 1024, 1025, 16384, 16387, 50000};
    for (int t = 0; t < 3; t++) {
        for (int s = 0; s < 8; s++) {
            wr_tensor x = SHIFTED(floats[t], s % 4, 3, lengths[s]);
            fill(&x, (uint64_t)s, 20);
            wr_store_f32(x.data, x.dtype, 0, -INFINITY);
            double part = 2 * unit_of(x.dtype) + ((double)lengths[s] / 1024 + 80) * 0x1p-24;
            check_scan(WR_OP_SOFTMAX, x, x.dtype, (wr_axis_args){.axis = 1}, part, 0x1p-24, s % 3);
            free_tensor(&x);
        }
        wr_tensor x = TENSOR(floats[t], 4, 9, 6), none = TENSOR(floats[t], 3, 0);
        fill(&x, 1, 5);
        for (int axis = 0; axis < 3; axis++) {
            double part = 2 * unit_of(x.dtype) + 0x1p-17;
            check_scan(WR_OP_SOFTMAX, x, x.dtype, (wr_axis_args){.axis = axis}, part, 0x1p-24, 0);
            check_scan(WR_OP_SOFTMAX, reversed(turned(x, (int[]){2, 0, 1}), 1), x.dtype, (wr_axis_args){.axis = axis},
                       part, 0x1p-24, 0);
        }
        check_scan(WR_OP_SOFTMAX, none, x.dtype, (wr_axis_args){.axis = 1}, 0, 0, 0);
        free_tensor(&x), free_tensor(&none);
    }
}

/* In double both, in another order: far below a rounding of the output, which may fall either way near a tie. */
static void test_running_sums_go_both_ways_with_and_without_the_element(void **state) {
    (void)state;
    static const int64_t lengths[] = {1, 4, 33, 1024, 1025, 5000};
    for (int dtype = WEIR_DTYPE_BOOL; dtype < WEIR_DTYPE_COUNT; dtype++)
        for (int s = 0; s < 6; s++)
            for (int way = 0; way < 4; way++) {
                wr_tensor x = TENSOR((weir_dtype)dtype, 2, lengths[s], 2);
                fill(&x, (uint64_t)s, 1);
                bool is_float = wr_dtype_kind(x.dtype) == WR_KIND_FLOAT;
                weir_dtype out = reduced_dtype(WR_OP_SUM, x.dtype);
                if (is_float && lengths[s] > 1) /* what stands before a NaN or an infinity stays a number */
                    wr_store_f32(x.data, x.dtype, lengths[s] - 1, s % 2 ? NAN : INFINITY);
                wr_axis_args args = {.axis = 1, .reverse = way & 1, .exclusive = way & 2};
                check_scan(WR_OP_CUMSUM, x, out, args, is_float ? 2 * unit_of(out) : 0, is_float ? 0x1p-40 : 0, s % 3);
                args.axis = 2;
                if (lengths[s] <= 40) /* thousands of rows of two elements show nothing more */
                    check_scan(WR_OP_CUMSUM, reversed(x, 2), out, args, is_float ? 2 * unit_of(out) : 0,
                               is_float ? 0x1p-40 : 0, 0);
                free_tensor(&x);
            }
}

/* ---- sorts ---- */

static void check_sort(wr_op_id op, wr_tensor x, wr_axis_args args, int order) {
    bool indices = op == WR_OP_ARGSORT || op == WR_OP_ARG_TOP_K;
    wr_step step = {.op = op, .args = &args, .n_in = 1, .in = &x};
    int64_t shape[WR_MAX_DIMS];
    memcpy(shape, x.shape, sizeof shape);
    if (op == WR_OP_TOP_K || op == WR_OP_ARG_TOP_K) shape[args.axis] = args.k;
    step.out = new_tensor(indices ? WEIR_DTYPE_I32 : x.dtype, 0, x.n_dims, shape);
    wr_tensor want = reference(&step);
    FOR_EACH_FITTING(row, wr_cuda_reduce_rows(op), &step) {
        /* The reference counts n * n times, for short rows only; a block a row is slow here for many. */
        if (strcmp(row->name, "ref") == 0 && x.shape[args.axis] > 600) continue;
        if (strcmp(row->name, "short") != 0 && wr_tensor_size(&x) / (x.shape[args.axis] + 1) > 1000) continue;
        run_row(row, &step, order);
        compare_bits(row, &step, &want);
    }
    free_tensor(&step.out), free_tensor(&want);
}

/* Ties, NaN of two payloads, both zeros, infinities. */
static void spice(const wr_tensor *x) {
    int64_t n = wr_tensor_size(x);
    if (wr_dtype_kind(x->dtype) != WR_KIND_FLOAT) return;
    static const float values[] = {NAN, 0.0f, -0.0f, INFINITY, -INFINITY, 0.25f, 0.25f};
    for (int64_t i = 0; i < n; i += 5) wr_store_f32(x->data, x->dtype, i, values[i / 5 % 7]);
}

static void test_sorts_are_stable_for_every_dtype_and_length(void **state) {
    (void)state;
    static const int64_t lengths[] = {1, 2, 100, 600, 2048, 2049, 9001};
    for (int dtype = WEIR_DTYPE_BOOL; dtype < WEIR_DTYPE_COUNT; dtype++)
        for (int s = 0; s < 7; s++) {
            wr_tensor x = TENSOR((weir_dtype)dtype, 2, lengths[s]);
            fill(&x, (uint64_t)s, s % 2 ? 1 : 50);
            spice(&x);
            for (int descending = 0; descending < 2; descending++) {
                if (lengths[s] > 600 && descending != dtype % 2) continue; /* slow: one direction a dtype */
                wr_axis_args args = {.axis = 1, .descending = descending};
                check_sort(WR_OP_SORT, x, args, s % 3);
                if (lengths[s] <= 2049) check_sort(WR_OP_ARGSORT, x, args, 0);
            }
            free_tensor(&x);
        }
}

static void test_sorts_take_any_axis_and_strides(void **state) {
    (void)state;
    wr_tensor x = TENSOR(WEIR_DTYPE_F32, 5, 6, 7), none = TENSOR(WEIR_DTYPE_F32, 0, 6),
              flat = TENSOR(WEIR_DTYPE_F32, 3, 0);
    fill(&x, 4, 1);
    spice(&x);
    for (int axis = 0; axis < 3; axis++)
        for (int op = WR_OP_SORT; op <= WR_OP_ARG_TOP_K; op++) {
            wr_axis_args args = {.axis = axis, .k = 3};
            check_sort((wr_op_id)op, x, args, 0);
            check_sort((wr_op_id)op, reversed(turned(x, (int[]){1, 2, 0}), axis), args, 1);
            if (axis == 1) check_sort((wr_op_id)op, none, args, 0);
            args.k = 0;
            if (axis == 1) check_sort((wr_op_id)op, flat, args, 0);
            if (op == WR_OP_TOP_K) check_sort((wr_op_id)op, x, args, 0);
        }
    free_tensor(&x), free_tensor(&none), free_tensor(&flat);
}

static void test_top_k_falls_with_the_lower_index_first(void **state) {
    (void)state;
    static const int64_t cases[][2] = {{1, 1},      {300, 300},  {1000, 40},    {1024, 1024}, {4097, 256},
                                       {5000, 257}, {20000, 64}, {20000, 1024}, {9000, 1025}, {33000, 1}};
    static const weir_dtype types[] = {WEIR_DTYPE_F32, WEIR_DTYPE_BF16, WEIR_DTYPE_I8, WEIR_DTYPE_U32, WEIR_DTYPE_I64};
    for (int s = 0; s < 10; s++)
        for (int t = 0; t < 5; t++) {
            if (cases[s][0] > 5000 && t % 4 != s % 4) continue; /* slow here: one or two dtypes a case */
            wr_tensor x = SHIFTED(types[t], s % 3, 2, cases[s][0]);
            fill(&x, (uint64_t)s, 1);
            if (s % 2) spice(&x);
            check_sort(WR_OP_TOP_K, x, (wr_axis_args){.axis = 1, .k = cases[s][1]}, s % 3);
            check_sort(WR_OP_ARG_TOP_K, x, (wr_axis_args){.axis = 1, .k = cases[s][1]}, 0);
            free_tensor(&x);
        }
    wr_tensor many = TENSOR(WEIR_DTYPE_F16, 65537, 3);
    fill(&many, 2, 1);
    check_sort(WR_OP_ARG_TOP_K, many, (wr_axis_args){.axis = 1, .k = 2}, 0);
    free_tensor(&many);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reductions_match_the_reference_at_every_length),
        cmocka_unit_test(test_reductions_take_any_axes_and_strides),
        cmocka_unit_test(test_reductions_of_integers_are_exact_and_wrap),
        cmocka_unit_test(test_nan_and_infinity_pass_through_their_row),
        cmocka_unit_test(test_empty_axes_and_many_rows),
        cmocka_unit_test(test_a_row_alone_has_the_bits_it_has_among_others),
        cmocka_unit_test(test_argmax_takes_the_first_of_equals_and_nan_before_all),
        cmocka_unit_test(test_softmax_matches_the_reference_along_any_axis),
        cmocka_unit_test(test_running_sums_go_both_ways_with_and_without_the_element),
        cmocka_unit_test(test_sorts_are_stable_for_every_dtype_and_length),
        cmocka_unit_test(test_sorts_take_any_axis_and_strides),
        cmocka_unit_test(test_top_k_falls_with_the_lower_index_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
