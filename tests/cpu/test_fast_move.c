/* Fast copies, concatenations and gathers: the reference's bytes, for every size of element, layout and thread count.
 */
#include "fast_test.h"

#include "cpu/ref/kernels.h"

static const weir_dtype types[] = {WEIR_DTYPE_U8, WEIR_DTYPE_F16, WEIR_DTYPE_F32, WEIR_DTYPE_I64};

static void fill_bytes(const wr_tensor *t, uint64_t seed) {
    for (size_t i = 0; i < tensor_bytes(t); i++)
        ((uint8_t *)t->data)[i] = (uint8_t)((seed + i) * 0x9e3779b97f4a7c15u >> 33);
}

/* Each level with 1, 2 and 5 threads gives the bytes of the reference. */
static void check(const wr_kernel_row *rows, wr_kernel reference, wr_step *step) {
    wr_tensor y = step->out, want = new_tensor(y.dtype, y.n_dims, y.shape);
    step->out = want;
    reference(step, 0, 1);
    step->out = y;
    FOR_EACH_LEVEL(level)
    for (int threads = 1; threads <= 5; threads += threads == 1 ? 1 : 3) {
        run_level(rows, step, level, threads, false);
        assert_memory_equal(y.data, want.data, tensor_bytes(&y));
    }
    free_tensor(&want);
}

static wr_tensor permuted(const wr_tensor *t, const int *axes) {
    wr_tensor p = *t;
    for (int d = 0; d < t->n_dims; d++) p.shape[d] = t->shape[axes[d]], p.strides[d] = t->strides[axes[d]];
    return p;
}

static void check_copy(wr_tensor x) {
    wr_tensor y = new_tensor(x.dtype, x.n_dims, x.shape);
    wr_step step = {.op = WR_OP_COPY, .n_in = 1, .in = &x, .out = y};
    check(wr_cpu_copy_rows, wr_ref_copy_op, &step);
    free_tensor(&y);
    int64_t n = tensor_size(&x);
    y = TENSOR(x.dtype, n);
    step.op = WR_OP_RESHAPE, step.out = y;
    check(wr_cpu_copy_rows, wr_ref_copy_op, &step);
    free_tensor(&y);
}

static void test_copies_of_every_order_of_axes_have_the_bytes_of_the_reference(void **state) {
    (void)state;
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    static const int64_t shapes[][3] = {{1, 1, 1}, {3, 7, 13}, {2, 40, 72}, {33, 1, 65}, {5, 100, 31}, {9, 129, 250}};
    for (int t = 0; t < 4; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            wr_tensor x = new_tensor(types[t], 3, shapes[s]);
            fill_bytes(&x, s);
            for (int o = 0; o < 6; o++) check_copy(permuted(&x, orders[o]));
            free_tensor(&x);
        }
}

static void test_copies_of_slices_and_broadcasts_have_the_bytes_of_the_reference(void **state) {
    (void)state;
    for (int t = 0; t < 4; t++) {
        wr_tensor x = TENSOR(types[t], 20, 31, 44), part = x;
        fill_bytes(&x, 5);
        part.shape[0] = 10, part.strides[0] *= 2; /* every second of axis 0, 21 to 41 of axis 2 */
        part.shape[2] = 20;
        part.data = (char *)x.data + 21 * weir_dtype_bytes(types[t]);
        check_copy(part);
        part.strides[2] = 2, part.data = x.data; /* no axis is contiguous */
        check_copy(part);
        part = x;
        part.strides[2] = 0; /* broadcast along the last axis, then along the first */
        check_copy(part);
        part.strides[2] = 1, part.strides[0] = 0;
        check_copy(part);
        part = x; /* backwards along the last axis */
        part.data = (char *)x.data + 43 * weir_dtype_bytes(types[t]);
        part.strides[2] = -1;
        check_copy(part);
        free_tensor(&x);
        x = TENSOR(types[t], 300001); /* a long row is shared out by pieces */
        fill_bytes(&x, 6);
        check_copy(x);
        free_tensor(&x);
    }
}

static void test_concatenations_have_the_bytes_of_the_reference(void **state) {
    (void)state;
    for (int t = 0; t < 4; t++)
        for (int axis = 0; axis < 3; axis++) {
            int64_t shape[3] = {11, 35, 67}, lengths[] = {11, 1, 0, 300}, total = 0;
            wr_tensor in[4];
            for (int i = 0; i < 4; i++) {
                shape[axis] = lengths[i], total += lengths[i];
                in[i] = new_tensor(types[t], 3, shape);
                fill_bytes(&in[i], (uint64_t)i);
            }
            shape[axis] = total;
            wr_tensor y = new_tensor(types[t], 3, shape);
            wr_axis_args args = {.axis = axis};
            wr_step step = {.op = WR_OP_CONCAT, .args = &args, .n_in = 4, .in = in, .out = y};
            check(wr_cpu_concat_rows, wr_ref_concat, &step);
            for (int i = 0; i < 4; i++) free_tensor(&in[i]);
            free_tensor(&y);
        }
}

/* Indices in and out of range, counted from either end. */
static void test_gathers_have_the_bytes_of_the_reference(void **state) {
    (void)state;
    for (int t = 0; t < 4; t++)
        for (int axis = 0; axis < 3; axis++)
            for (int wide = 0; wide < 2; wide++) {
                wr_tensor x = TENSOR(types[t], 23, 29, 301), ids = TENSOR(wide ? WEIR_DTYPE_I64 : WEIR_DTYPE_I32, 7, 6);
                fill_bytes(&x, 3);
                int64_t n = x.shape[axis], shape[4];
                for (int64_t i = 0; i < 42; i++) put(&ids, i, (float)(i * 17 % (2 * n + 6) - n - 3));
                wr_tensor turned = permuted(&ids, (int[]){1, 0});
                for (int d = 0; d < 3; d++) shape[d < axis ? d : d + 1] = x.shape[d];
                shape[axis] = 6, shape[axis + 1] = 7;
                wr_tensor y = new_tensor(types[t], 4, shape);
                wr_axis_args args = {.axis = axis};
                wr_step step = {.op = WR_OP_TAKE, .args = &args, .n_in = 2, .in = (wr_tensor[]){x, turned}, .out = y};
                check(wr_cpu_take_rows, wr_ref_take, &step);
                free_tensor(&x), free_tensor(&ids), free_tensor(&y);
            }
}

/* Does any fast row take this step? */
static bool taken(const wr_kernel_row *rows, const wr_step *step) {
    while (rows->run && !rows->fits(step)) rows++;
    return rows->run != NULL;
}

static void test_casts_and_gathers_of_strided_rows_are_left_to_the_reference(void **state) {
    (void)state;
    wr_tensor x = TENSOR(WEIR_DTYPE_F32, 4, 6), ids = TENSOR(WEIR_DTYPE_I32, 3), half = TENSOR(WEIR_DTYPE_F16, 4, 6);
    wr_tensor y = TENSOR(WEIR_DTYPE_F32, 3, 4);
    wr_axis_args args = {.axis = 0};
    wr_step step = {.op = WR_OP_COPY, .args = &args, .n_in = 1, .in = &x, .out = half};
    assert_false(taken(wr_cpu_copy_rows, &step));
    step.op = WR_OP_CONCAT;
    assert_false(taken(wr_cpu_concat_rows, &step));
    step = (wr_step){.op = WR_OP_TAKE, .args = &args, .n_in = 2, .out = y};
    step.in = (wr_tensor[]){permuted(&x, (int[]){1, 0}), ids};
    assert_false(taken(wr_cpu_take_rows, &step));
    free_tensor(&x), free_tensor(&ids), free_tensor(&half), free_tensor(&y);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies_of_every_order_of_axes_have_the_bytes_of_the_reference),
        cmocka_unit_test(test_copies_of_slices_and_broadcasts_have_the_bytes_of_the_reference),
        cmocka_unit_test(test_concatenations_have_the_bytes_of_the_reference),
        cmocka_unit_test(test_gathers_have_the_bytes_of_the_reference),
        cmocka_unit_test(test_casts_and_gathers_of_strided_rows_are_left_to_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
