/* Kernels that move data on the emulated card, equal in every bit to the CPU reference: every op, element sizes of 1,
 * 2, 4 and 8 bytes, views of all kinds, both rows, and blocks' threads in three orders. */
#include "step_test.h"

#define F32  WEIR_DTYPE_F32
#define F16  WEIR_DTYPE_F16
#define BF16 WEIR_DTYPE_BF16
#define I32  WEIR_DTYPE_I32
#define I64  WEIR_DTYPE_I64

static const char *const rows[] = {"fast", "ref"};
static const weir_dtype dtypes[] = {WEIR_DTYPE_I8, BF16, F32, WEIR_DTYPE_U64}; /* one of each size */

/* Runs a step by both rows into outputs of `shape`, aligned and not, and compares with the reference. */
static void check_step(wr_op_id op, const void *args, int n_in, const wr_tensor *in, weir_dtype dtype, int n_dims,
                       const int64_t *shape, wr_kernel golden) {
    wr_tensor copies[WR_MAX_INPUTS];
    memcpy(copies, in, (size_t)n_in * sizeof *in);
    wr_step step = {.op = op, .args = args, .n_in = n_in, .in = copies};
    cloth want = new_output(dtype, n_dims, shape, 0);
    step.out = want.t;
    golden(&step, 0, 1);
    for (int r = 0; r < COUNT(rows); r++)
        for (int skew = 0; skew < 2; skew++) {
            cloth got = new_output(dtype, n_dims, shape, skew);
            wr_emulate_order(skew ? 1 : r ? 5 : 0);
            assert_true(run_row(wr_cuda_move_rows(op), rows[r], &step, &got));
            char what[80];
            snprintf(what, sizeof what, "%s by %s", wr_ops[op].name, rows[r]);
            check_equal(&got, &want, what);
            free_cloth(&got);
        }
    wr_emulate_order(0);
    free_cloth(&want);
}

typedef struct layout {
    int n_dims;
    int64_t shape[WR_MAX_DIMS], strides[WR_MAX_DIMS];
} layout;
static const layout layouts[] = {
    {0, {0}, {0}},
    {1, {1}, {1}},
    {1, {16}, {1}},
    {1, {509}, {1}},
    {1, {509}, {-1}},
    {1, {509}, {0}},
    {1, {509}, {3}},
    {2, {13, 67}, {67, 1}},
    {2, {13, 64}, {128, 1}},
    {2, {13, 64}, {-80, 1}},
    {2, {13, 67}, {1, 13}}, /* transposed */
    {2, {64, 96}, {1, 64}},
    {2, {40, 33}, {1, -40}},
    {2, {7, 40}, {1, 7}},
    {3, {3, 35, 41}, {1435, 1, 35}},
    {3, {35, 3, 41}, {1, 1435, 35}},
    {3, {9, 11, 5}, {1, 45, 9}},
    {3, {5, 3, 31}, {0, 31, 1}},
    {3, {6, 4, 32}, {32, 192, 1}}, /* heads before tokens */
    {4, {2, 5, 3, 16}, {240, 16, 80, 1}},
    {8, {2, 2, 2, 2, 2, 2, 2, 3}, {1, 2, 4, 8, 16, 32, 64, 128}},
    {2, {65537, 3}, {3, 1}},
    {2, {65537, 3}, {1, 65537}},
    {2, {65537, 3}, {0, -1}},
};

static void copies_of_every_layout_are_contiguous_then(void **state) {
    (void)state;
    for (int l = 0; l < COUNT(layouts); l++)
        for (int d = 0; d < COUNT(dtypes); d++)
            for (int skew = 0; skew < 2; skew++) {
                const layout *s = &layouts[l];
                if (s->shape[0] > 10000 && (skew || d % 2)) continue;
                cloth x = new_input(dtypes[d], s->n_dims, s->shape, s->strides, 3 * skew);
                fill(&x.t, (uint64_t)l);
                check_step(WR_OP_COPY, NULL, 1, &x.t, dtypes[d], s->n_dims, s->shape, wr_ref_copy_op);
                free_cloth(&x);
            }
}

static void a_reshape_walks_a_view_in_row_major_order(void **state) {
    (void)state;
    const int64_t shape[3] = {6, 10, 8}, turned[3] = {8, 48, 1}, flat[2] = {15, 32}, none[1] = {480};
    for (int d = 0; d < COUNT(dtypes); d++) {
        cloth x = new_input(dtypes[d], 3, shape, turned, 0);
        fill(&x.t, 1);
        wr_shape_args args = {.n = 2, .dims = {15, 32}};
        check_step(WR_OP_RESHAPE, &args, 1, &x.t, dtypes[d], 2, flat, wr_ref_copy_op);
        check_step(WR_OP_RESHAPE, &args, 1, &x.t, dtypes[d], 1, none, wr_ref_copy_op);
        free_cloth(&x);
    }
}

static void views_that_are_kernels_follow_the_reference(void **state) {
    (void)state;
    const int64_t shape[3] = {9, 20, 33}, strides[3] = {1, 9, 180};
    const int64_t sliced[3] = {4, 20, 11}, turned[3] = {33, 9, 20}, wide[4] = {3, 9, 20, 33};
    for (int d = 0; d < COUNT(dtypes); d++)
        for (int view = 0; view < 2; view++) {
            cloth x = new_input(dtypes[d], 3, shape, view ? strides : NULL, 0);
            fill(&x.t, 1);
            wr_slice_args slice = {.start = {7, 0, 2}, .step = {-2, 1, 3}, .count = {4, 20, 11}};
            check_step(WR_OP_SLICE, &slice, 1, &x.t, dtypes[d], 3, sliced, wr_ref_view);
            wr_shape_args axes = {.n = 3, .dims = {2, 0, 1}};
            check_step(WR_OP_TRANSPOSE, &axes, 1, &x.t, dtypes[d], 3, turned, wr_ref_view);
            wr_shape_args target = {.n = 4, .dims = {3, 9, 20, 33}};
            check_step(WR_OP_BROADCAST, &target, 1, &x.t, dtypes[d], 4, wide, wr_ref_view);
            free_cloth(&x);
        }
}

static void slice_updates_change_their_slice_only(void **state) {
    (void)state;
    const int64_t shape[3] = {5, 12, 40}, turned[3] = {1, 5, 60}, scalar[1] = {1};
    static const wr_slice_args slices[] = {
        {.start = {1, 3, 8}, .step = {1, 1, 1}, .count = {3, 4, 16}},
        {.start = {4, 11, 39}, .step = {-2, -3, -1}, .count = {3, 4, 40}},
        {.start = {0, 0, 0}, .step = {1, 1, 1}, .count = {5, 12, 40}},
        {.start = {0, 2, 1}, .step = {1, 1, 5}, .count = {5, 0, 3}},
    };
    for (int d = 0; d < COUNT(dtypes); d++) {
        for (int s = 0; s < COUNT(slices); s++) {
            cloth x = new_input(dtypes[d], 3, shape, s % 2 ? turned : NULL, 0);
            cloth u = new_input(dtypes[d], 3, slices[s].count, NULL, 1);
            fill(&x.t, 1);
            fill(&u.t, 2);
            wr_tensor in[2] = {x.t, u.t};
            check_step(WR_OP_SLICE_UPDATE, &slices[s], 2, in, dtypes[d], 3, shape, wr_ref_slice_update);
            free_cloth(&x);
            free_cloth(&u);
        }
        cloth x = new_input(dtypes[d], 0, scalar, NULL, 0), u = new_input(dtypes[d], 0, scalar, NULL, 0);
        fill(&x.t, 1);
        fill(&u.t, 2);
        wr_tensor in[2] = {x.t, u.t};
        check_step(WR_OP_SLICE_UPDATE, &(wr_slice_args){0}, 2, in, dtypes[d], 0, scalar, wr_ref_slice_update);
        free_cloth(&x);
        free_cloth(&u);
    }
}

/* The output lies where input 0 does: nothing is copied, what is not updated stays. */
static void updates_in_place_keep_the_rest(void **state) {
    (void)state;
    const int64_t shape[2] = {6, 10};
    cloth x = new_output(I32, 2, shape, 0), want = new_output(I32, 2, shape, 0);
    cloth u = new_input(I32, 2, (int64_t[]){2, 3}, NULL, 0);
    fill(&x.t, 1);
    fill(&want.t, 1);
    fill(&u.t, 2);
    wr_slice_args args = {.start = {1, 4}, .step = {3, 2}, .count = {2, 3}};
    wr_tensor in[2] = {x.t, u.t};
    wr_step step = {.op = WR_OP_SLICE_UPDATE, .args = &args, .n_in = 2, .in = in};
    assert_true(run_row(wr_cuda_move_rows(step.op), "fast", &step, &x));
    for (int64_t i = 0; i < 2; i++)
        for (int64_t j = 0; j < 3; j++)
            ((int32_t *)want.t.data)[(1 + 3 * i) * 10 + 4 + 2 * j] = ((int32_t *)u.t.data)[i * 3 + j];
    check_equal(&x, &want, "slice_update in place");
    free_cloth(&x);
    free_cloth(&want);
    free_cloth(&u);
}

static void concat_joins_up_to_sixteen_inputs_along_any_axis(void **state) {
    (void)state;
    for (int d = 0; d < COUNT(dtypes); d++)
        for (int axis = 0; axis < 3; axis++)
            for (int n_in = 1; n_in <= WR_MAX_INPUTS; n_in += n_in == 1 ? 2 : 13) {
                cloth x[WR_MAX_INPUTS];
                wr_tensor in[WR_MAX_INPUTS];
                int64_t total = 0;
                for (int k = 0; k < n_in; k++) {
                    int64_t shape[3] = {3, 10, 24}, strides[3];
                    shape[axis] = k == 1 ? 0 : axis == 2 ? 8 * (k % 3 + 1) : k % 3 + 1;
                    strides[0] = 1, strides[1] = shape[0], strides[2] = shape[0] * shape[1];
                    x[k] = new_input(dtypes[d], 3, shape, k % 4 == 3 ? strides : NULL, k % 4 == 2);
                    fill(&x[k].t, (uint64_t)k);
                    in[k] = x[k].t;
                    total += shape[axis];
                }
                int64_t shape[3] = {3, 10, 24};
                shape[axis] = total;
                wr_axis_args args = {.axis = axis};
                check_step(WR_OP_CONCAT, &args, n_in, in, dtypes[d], 3, shape, wr_ref_concat);
                for (int k = 0; k < n_in; k++) free_cloth(&x[k]);
            }
}

static void pad_surrounds_with_the_value_in_the_dtype(void **state) {
    (void)state;
    static const double values[] = {0, -3.7, 1e30, NAN, 200.5};
    const int64_t shape[2] = {7, 30}, turned[2] = {1, 7};
    for (int d = 0; d < WEIR_DTYPE_COUNT; d++)
        for (int v = 0; v < COUNT(values); v++) {
            wr_pad_args args = {.low = {2, 3 * (v % 2)}, .high = {1, v}, .value = values[v]};
            int64_t padded[2] = {10, 30 + 3 * (v % 2) + v};
            if (v == 4) args.low[0] = args.low[1] = args.high[0] = args.high[1] = 0, padded[0] = 7, padded[1] = 30;
            cloth x = new_input((weir_dtype)d, 2, shape, v % 2 ? turned : NULL, 0);
            fill(&x.t, 1);
            check_step(WR_OP_PAD, &args, 1, &x.t, (weir_dtype)d, 2, padded, wr_ref_pad);
            free_cloth(&x);
        }
    /* Nothing to surround. */
    const int64_t empty[2] = {0, 5}, four[2] = {4, 5};
    cloth x = new_input(F32, 2, empty, NULL, 0);
    wr_pad_args args = {.low = {1, 0}, .high = {3, 0}, .value = 2};
    check_step(WR_OP_PAD, &args, 1, &x.t, F32, 2, four, wr_ref_pad);
    free_cloth(&x);
}

/* Indices from -n - 2 to n + 1: some out of range on either side. */
static void fill_indices(const wr_tensor *ids, int64_t n, uint64_t seed) {
    for (int64_t i = 0; i < size_of(ids); i++)
        put_int(ids, offset_of(ids, i),
                (uint64_t)((int64_t)(mix(seed * 977 + (uint64_t)i) % (uint64_t)(2 * n + 4)) - n - 2));
}

static void take_gathers_along_any_axis_and_marks_what_is_missing(void **state) {
    (void)state;
    const int64_t shape[3] = {6, 5, 32}, turned[3] = {1, 192, 6}, odd[3] = {6, 5, 33}, ids_shape[2] = {4, 3};
    const int64_t ids_turned[2] = {1, 4};
    for (int d = 0; d < WEIR_DTYPE_COUNT; d++)
        for (int axis = 0; axis < 3; axis++)
            for (int form = 0; form < 4; form++) {
                const int64_t *size = form == 2 ? odd : shape;
                cloth x = new_input((weir_dtype)d, 3, size, form == 1 ? turned : NULL, form == 3);
                cloth ids = new_input(form % 2 ? I64 : I32, 2, ids_shape, form == 3 ? ids_turned : NULL, 0);
                fill(&x.t, 1);
                fill_indices(&ids.t, size[axis], (uint64_t)form);
                int64_t out[4];
                int n = 0;
                for (int i = 0; i < axis; i++) out[n++] = size[i];
                out[n++] = 4, out[n++] = 3;
                for (int i = axis + 1; i < 3; i++) out[n++] = size[i];
                wr_tensor in[2] = {x.t, ids.t};
                wr_axis_args args = {.axis = axis};
                check_step(WR_OP_TAKE, &args, 2, in, (weir_dtype)d, 4, out, wr_ref_take);
                free_cloth(&x);
                free_cloth(&ids);
            }
    /* One index, no axis of its own; and out of nothing. */
    const int64_t row[1] = {40}, table[2] = {9, 40}, nothing[2] = {0, 40};
    cloth ids = new_input(I32, 0, NULL, NULL, 0), x = new_input(BF16, 2, table, NULL, 0), none;
    none = new_input(BF16, 2, nothing, NULL, 0);
    fill(&x.t, 1);
    put_int(&ids.t, 0, 7);
    wr_axis_args args = {.axis = 0};
    check_step(WR_OP_TAKE, &args, 2, (wr_tensor[]){x.t, ids.t}, BF16, 1, row, wr_ref_take);
    check_step(WR_OP_TAKE, &args, 2, (wr_tensor[]){none.t, ids.t}, BF16, 1, row, wr_ref_take);
    free_cloth(&ids);
    free_cloth(&x);
    free_cloth(&none);
}

static void take_along_and_scatter_walk_lines_in_order(void **state) {
    (void)state;
    for (int d = 0; d < WEIR_DTYPE_COUNT; d++)
        for (int axis = 0; axis < 3; axis++)
            for (int form = 0; form < 3; form++) {
                int64_t shape[3] = {7, 6, 5}, ids_shape[3] = {7, 6, 5}, turned[3] = {1, 7, 42}, ids_turned[3];
                ids_shape[axis] = form == 1 ? 1 : 19;
                ids_turned[2] = 1, ids_turned[0] = ids_shape[2], ids_turned[1] = ids_shape[2] * ids_shape[0];
                cloth x = new_input((weir_dtype)d, 3, shape, form == 2 ? turned : NULL, 0);
                cloth ids = new_input(form % 2 ? I64 : I32, 3, ids_shape, form == 2 ? ids_turned : NULL, 0);
                cloth u = new_input((weir_dtype)d, 3, ids_shape, form ? ids_turned : NULL, 0);
                fill(&x.t, 1);
                fill(&u.t, 2);
                fill_indices(&ids.t, shape[axis], (uint64_t)(d + form));
                if (d >= F16) { /* sums whose bits show their order */
                    fill_tame(&x.t, 1, 3);
                    fill_tame(&u.t, 2, 3);
                }
                wr_axis_args args = {.axis = axis};
                wr_tensor in[3] = {x.t, ids.t, u.t};
                check_step(WR_OP_TAKE_ALONG, &args, 2, in, (weir_dtype)d, 3, ids_shape, wr_ref_take_along);
                check_step(WR_OP_SCATTER, &args, 3, in, (weir_dtype)d, 3, shape, wr_ref_scatter);
                if (d != WEIR_DTYPE_BOOL)
                    check_step(WR_OP_SCATTER_ADD, &args, 3, in, (weir_dtype)d, 3, shape, wr_ref_scatter);
                free_cloth(&x);
                free_cloth(&ids);
                free_cloth(&u);
            }
}

/* Many updates of few elements: most of 32 neighbours meet. */
static void long_scatters_add_in_the_order_of_the_index(void **state) {
    (void)state;
    static const weir_dtype sums[] = {F32, BF16, F16, I32, WEIR_DTYPE_U8};
    const int64_t shape[2] = {3, 11}, long_shape[2] = {3, 1009}, turned[2] = {1, 3};
    for (int d = 0; d < COUNT(sums); d++) {
        cloth x = new_input(sums[d], 2, shape, NULL, 0), u = new_input(sums[d], 2, long_shape, turned, 0);
        cloth ids = new_input(I32, 2, long_shape, NULL, 0);
        fill(&x.t, 1);
        fill(&u.t, 2);
        if (sums[d] >= F16) {
            fill_tame(&x.t, 1, 3);
            fill_tame(&u.t, 2, 3);
        }
        fill_indices(&ids.t, 11, 3);
        wr_axis_args args = {.axis = 1};
        wr_tensor in[3] = {x.t, ids.t, u.t};
        check_step(WR_OP_SCATTER, &args, 3, in, sums[d], 2, shape, wr_ref_scatter);
        check_step(WR_OP_SCATTER_ADD, &args, 3, in, sums[d], 2, shape, wr_ref_scatter);
        free_cloth(&x);
        free_cloth(&u);
        free_cloth(&ids);
    }
}

static void a_scatter_of_nothing_copies(void **state) {
    (void)state;
    const int64_t shape[2] = {3, 8}, empty[2] = {0, 8};
    cloth x = new_input(F16, 2, shape, NULL, 0), ids = new_input(I32, 2, empty, NULL, 0),
          u = new_input(F16, 2, empty, NULL, 0);
    fill(&x.t, 1);
    wr_axis_args args = {.axis = 0};
    wr_tensor in[3] = {x.t, ids.t, u.t};
    check_step(WR_OP_SCATTER, &args, 3, in, F16, 2, shape, wr_ref_scatter);
    check_step(WR_OP_SCATTER_ADD, &args, 3, in, F16, 2, shape, wr_ref_scatter);
    free_cloth(&x);
    free_cloth(&ids);
    free_cloth(&u);
}

static void a_change_of_dtype_is_refused(void **state) {
    (void)state;
    const int64_t n = 4;
    cloth x = new_input(F32, 1, &n, NULL, 0), y = new_output(F16, 1, &n, 0);
    wr_step step = {.op = WR_OP_COPY, .n_in = 1, .in = &x.t, .out = y.t};
    weir_error err = {0};
    assert_int_equal(wr_cuda_move_rows(WR_OP_COPY)->launch(&step, NULL, &err), WEIR_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "copy: input 0 is f32, the output f16"));
    free_cloth(&x);
    free_cloth(&y);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_of_every_layout_are_contiguous_then),
        cmocka_unit_test(a_reshape_walks_a_view_in_row_major_order),
        cmocka_unit_test(views_that_are_kernels_follow_the_reference),
        cmocka_unit_test(slice_updates_change_their_slice_only),
        cmocka_unit_test(updates_in_place_keep_the_rest),
        cmocka_unit_test(concat_joins_up_to_sixteen_inputs_along_any_axis),
        cmocka_unit_test(pad_surrounds_with_the_value_in_the_dtype),
        cmocka_unit_test(take_gathers_along_any_axis_and_marks_what_is_missing),
        cmocka_unit_test(take_along_and_scatter_walk_lines_in_order),
        cmocka_unit_test(long_scatters_add_in_the_order_of_the_index),
        cmocka_unit_test(a_scatter_of_nothing_copies),
        cmocka_unit_test(a_change_of_dtype_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
