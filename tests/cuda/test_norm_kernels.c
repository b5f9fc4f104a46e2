/* Norms, rotary embedding and convolution on the emulated card against the CPU's reference, which computes in
 * double. Norms add n squares in f32 over at least 32 lanes: (n / 32 + 20) 2^-24 of their sum at most. */
#include "cuda/rows_test.h"

static const weir_dtype floats[] = {WEIR_DTYPE_F32, WEIR_DTYPE_F16, WEIR_DTYPE_BF16};

/* ---- norms ---- */

/* Row r of a step alone, at another alignment, has the bits that it has among all. */
static void norm_row_alone(const wr_kernel_row *row, const wr_step *step, int64_t r, int order) {
    int64_t n = step->in[0].shape[1];
    wr_tensor x = SHIFTED(step->in[0].dtype, (int)(r % 5), 1, n), in[3];
    memcpy(in, step->in, (size_t)step->n_in * sizeof *in);
    memcpy(x.data, wr_at(&step->in[0], r * n), tensor_bytes(&x));
    in[0] = x;
    wr_step alone = *step;
    alone.in = in;
    alone.out = SHIFTED(step->out.dtype, (int)(r % 3), 1, n);
    run_row(row, &alone, order);
    assert_memory_equal(alone.out.data, wr_at(&step->out, r * n), tensor_bytes(&alone.out));
    free_tensor(&alone.out), free_tensor(&x);
}

static void check_norm(wr_op_id op, weir_dtype type, weir_dtype weight_type, weir_dtype out_type, int64_t rows,
                       int64_t n, int n_in, int order) {
    wr_tensor x = TENSOR(type, rows, n), weight = SHIFTED(weight_type, n % 3 == 0, n), bias = TENSOR(weight_type, n);
    fill(&x, (uint64_t)n, 3), fill(&weight, 5, 2), fill(&bias, 6, 2);
    wr_norm_args args = {.eps = 1e-5f, .weight_offset = op == WR_OP_RMS_NORM && n % 2 ? 1 : 0};
    wr_step step = {.op = op, .args = &args, .n_in = n_in, .in = (wr_tensor[]){x, weight, bias}};
    step.out = TENSOR(out_type, rows, n);
    wr_tensor want = reference(&step);
    FOR_EACH_FITTING(row, wr_cuda_norm_rows(op), &step) {
        run_row(row, &step, order);
        /* y is at most sqrt(n) and mostly near 1; the bias and the mean are subtracted in f32. */
        compare(row, &step, &want, 2 * unit_of(out_type) + (double)(n / 32 + 40) * 0x1p-24, 0x1p-20);
        for (int64_t r = 0; r < rows; r += rows / 3 + 1) norm_row_alone(row, &step, r, order);
    }
    free_tensor(&x), free_tensor(&weight), free_tensor(&bias), free_tensor(&want), free_tensor(&step.out);
}

static void test_norms_match_the_reference_and_rows_depend_on_themselves(void **state) {
    (void)state;
    static const int64_t shapes[][2] = {{1, 1},    {5, 7},    {9, 64},   {3, 256},  {2, 257},  {3, 576},  {1, 1024},
                                        {2, 1031}, {2, 2048}, {1, 3000}, {1, 4096}, {1, 8192}, {2, 8193}, {1, 17000}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int t = 0; t < 3; t++) {
            int order = (int)s % 3 * 5;
            check_norm(WR_OP_RMS_NORM, floats[t], floats[(t + s) % 3], floats[t], shapes[s][0], shapes[s][1],
                       1 + (int)(s + (size_t)t) % 2, order);
            check_norm(WR_OP_LAYER_NORM, floats[t], floats[(t + s) % 3], floats[t], shapes[s][0], shapes[s][1],
                       1 + (int)(s + (size_t)t) % 3, order);
        }
    /* A stream of f32 gives the bf16 input of the next product. */
    check_norm(WR_OP_RMS_NORM, WEIR_DTYPE_F32, WEIR_DTYPE_BF16, WEIR_DTYPE_BF16, 3, 576, 2, 0);
    check_norm(WR_OP_RMS_NORM, WEIR_DTYPE_F32, WEIR_DTYPE_F32, WEIR_DTYPE_F16, 3, 4096, 2, 1);
}

static void test_a_norm_of_many_rows_and_of_none(void **state) {
    (void)state;
    check_norm(WR_OP_RMS_NORM, WEIR_DTYPE_BF16, WEIR_DTYPE_F32, WEIR_DTYPE_BF16, 65537, 3, 2, 0);
    for (int e = 0; e < 2; e++) {
        wr_tensor x = TENSOR(WEIR_DTYPE_F32, e ? 4 : 0, e ? 0 : 4);
        wr_norm_args args = {.eps = 1};
        wr_step step = {.op = WR_OP_LAYER_NORM, .args = &args, .n_in = 1, .in = &x};
        step.out = TENSOR(WEIR_DTYPE_F32, e ? 4 : 0, e ? 0 : 4);
        FOR_EACH_FITTING(row, wr_cuda_norm_rows(WR_OP_LAYER_NORM), &step) run_row(row, &step, 0);
        free_tensor(&x), free_tensor(&step.out);
    }
}

static void test_special_values_stay_in_their_row(void **state) {
    (void)state;
    wr_tensor x = TENSOR(WEIR_DTYPE_F32, 4, 300);
    fill(&x, 1, 1);
    ((float *)x.data)[300 + 17] = NAN;
    ((float *)x.data)[600 + 17] = INFINITY;
    wr_norm_args args = {.eps = 1e-6f};
    for (int op = WR_OP_RMS_NORM; op <= WR_OP_LAYER_NORM; op++) {
        wr_step step = {.op = (wr_op_id)op, .args = &args, .n_in = 1, .in = &x, .out = TENSOR(WEIR_DTYPE_F32, 4, 300)};
        wr_tensor want = reference(&step);
        FOR_EACH_FITTING(row, wr_cuda_norm_rows((wr_op_id)op), &step) {
            run_row(row, &step, 0);
            compare(row, &step, &want, 1e-5, 1e-6);
        }
        free_tensor(&step.out), free_tensor(&want);
    }
    free_tensor(&x);
}

/* ---- rotary embedding ---- */

static void test_rope_tables_are_right_to_a_millionth_at_positions_to_2_20(void **state) {
    (void)state;
    wr_rope_table_args args = {.half = 5, .attention_factor = 1.25};
    for (int i = 0; i < args.half; i++) args.inv_freq[i] = pow(10000, -i / 5.0);
    for (int wide = 0; wide < 2; wide++) {
        wr_tensor positions = TENSOR(wide ? WEIR_DTYPE_I64 : WEIR_DTYPE_I32, 6);
        static const int64_t values[] = {0, 1, 127, 65537, (1 << 20) - 1, 1 << 20};
        for (int i = 0; i < 6; i++) wr_store_i64(positions.data, positions.dtype, i, values[i]);
        wr_step step = {.op = WR_OP_ROPE_TABLE, .args = &args, .n_in = 1, .in = &positions};
        step.out = TENSOR(WEIR_DTYPE_F32, 6, 2, 5);
        FOR_EACH_FITTING(row, wr_cuda_norm_rows(WR_OP_ROPE_TABLE), &step) {
            run_row(row, &step, 0);
            for (int t = 0; t < 6; t++)
                for (int i = 0; i < 5; i++) { /* in long double, an independent way to the angle */
                    long double angle = (long double)values[t] * (long double)args.inv_freq[i];
                    const float *y = (const float *)step.out.data + t * 10 + i;
                    assert_true(fabsl(y[0] - 1.25L * cosl(angle)) < 1e-6L);
                    assert_true(fabsl(y[5] - 1.25L * sinl(angle)) < 1e-6L);
                }
        }
        free_tensor(&positions), free_tensor(&step.out);
    }
}

/* x is a slice of a wider array: [tokens, heads, width] out of [tokens, heads + 2, width + extra]. */
static void check_rope(weir_dtype type, int64_t tokens, int64_t heads, int64_t width, int64_t half, int64_t extra,
                       bool interleaved) {
    wr_tensor room = SHIFTED(type, extra == 3, tokens, heads + 2, width + extra);
    wr_tensor table = TENSOR(WEIR_DTYPE_F32, tokens, 2, half);
    fill(&room, (uint64_t)width, 1), fill(&table, 3, 1);
    wr_tensor x = room;
    x.shape[1] = heads, x.shape[2] = width;
    x.data = wr_at(&room, width + extra);
    wr_rope_args args = {.interleaved = interleaved};
    wr_step step = {.op = WR_OP_ROPE, .args = &args, .n_in = 2, .in = (wr_tensor[]){x, table}};
    step.out = TENSOR(type, tokens, heads, width);
    wr_tensor want = reference(&step), first = {0};
    FOR_EACH_FITTING(row, wr_cuda_norm_rows(WR_OP_ROPE), &step) {
        run_row(row, &step, 0);
        compare(row, &step, &want, 2 * unit_of(type), 3 * 0x1p-24); /* near a tie the last place may differ */
        if (first.data) {                                           /* the fast row has the bits of the plain one */
            compare_bits(row, &step, &first);
            free_tensor(&first);
        } else {
            first = TENSOR(type, tokens, heads, width);
            memcpy(first.data, step.out.data, tensor_bytes(&first));
        }
    }
    if (first.data) free_tensor(&first);
    free_tensor(&room), free_tensor(&table), free_tensor(&want), free_tensor(&step.out);
}

static void test_rope_rotates_both_ways_all_or_part_of_a_head(void **state) {
    (void)state;
    for (int t = 0; t < 3; t++)
        for (int interleaved = 0; interleaved < 2; interleaved++) {
            check_rope(floats[t], 3, 2, 64, 32, 0, interleaved);
            check_rope(floats[t], 5, 3, 128, 64, 8, interleaved);
            check_rope(floats[t], 2, 3, 96, 16, 3, interleaved);
            check_rope(floats[t], 1, 1, 80, 40, 0, interleaved);
            check_rope(floats[t], 4, 2, 7, 3, 2, interleaved);
            check_rope(floats[t], 1, 5, 6, 1, 0, interleaved);
            check_rope(floats[t], 257, 1, 16, 8, 0, interleaved);
            check_rope(floats[t], 0, 2, 16, 8, 0, interleaved);
        }
}

static void test_rope_takes_reversed_axes_and_a_shared_table_row(void **state) {
    (void)state;
    wr_tensor room = TENSOR(WEIR_DTYPE_F32, 4, 2, 16), table = TENSOR(WEIR_DTYPE_F32, 1, 2, 8);
    fill(&room, 2, 1), fill(&table, 3, 1);
    wr_tensor x = room, shared = table;
    shared.shape[0] = 4, shared.strides[0] = 0;
    x.data = wr_at(&room, 4 * 32 - 1);
    for (int d = 0; d < 3; d++) x.strides[d] = -x.strides[d];
    wr_rope_args args = {0};
    wr_step step = {.op = WR_OP_ROPE, .args = &args, .n_in = 2, .in = (wr_tensor[]){x, shared}};
    step.out = TENSOR(WEIR_DTYPE_F32, 4, 2, 16);
    wr_tensor want = reference(&step);
    FOR_EACH_FITTING(row, wr_cuda_norm_rows(WR_OP_ROPE), &step) {
        run_row(row, &step, 0);
        compare(row, &step, &want, 0x1p-23, 3 * 0x1p-24);
    }
    free_tensor(&room), free_tensor(&table), free_tensor(&want), free_tensor(&step.out);
}

/* ---- convolution ---- */

static void check_conv(weir_dtype type, int64_t batches, int64_t length, int64_t channels, int64_t outputs,
                       int64_t kernel, wr_conv1d_args args, int n_in) {
    wr_tensor x = TENSOR(type, batches, length, channels), w = TENSOR(type, outputs, kernel, channels / args.groups);
    wr_tensor bias = TENSOR(type, outputs);
    fill(&x, 1, 1), fill(&w, 2, 1), fill(&bias, 3, 1);
    int64_t whole = length + args.pad_low + args.pad_high, reach = (kernel - 1) * args.dilation;
    wr_step step = {.op = WR_OP_CONV1D, .args = &args, .n_in = n_in, .in = (wr_tensor[]){x, w, bias}};
    step.out = TENSOR(type, batches, whole > reach ? (whole - reach - 1) / args.stride + 1 : 0, outputs);
    wr_tensor want = reference(&step);
    double terms = (double)(kernel * channels / args.groups + 2);
    FOR_EACH_FITTING(row, wr_cuda_norm_rows(WR_OP_CONV1D), &step) {
        run_row(row, &step, 0);
        compare(row, &step, &want, 2 * unit_of(type), terms * (8 + terms) * 0x1p-24);
    }
    free_tensor(&x), free_tensor(&w), free_tensor(&bias), free_tensor(&want), free_tensor(&step.out);
}

static void test_conv1d_pads_strides_dilates_and_groups(void **state) {
    (void)state;
    for (int t = 0; t < 3; t++)
        for (int n_in = 2; n_in <= 3; n_in++) {
            check_conv(floats[t], 2, 9, 6, 4, 3, (wr_conv1d_args){1, 1, 1, 1, 1}, n_in);
            check_conv(floats[t], 1, 17, 8, 8, 4, (wr_conv1d_args){1, 1, 8, 3, 0}, n_in);
            check_conv(floats[t], 1, 31, 6, 9, 5, (wr_conv1d_args){3, 2, 3, 4, 2}, n_in);
            check_conv(floats[t], 2, 3, 2, 2, 7, (wr_conv1d_args){1, 1, 1, 0, 0}, n_in);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norms_match_the_reference_and_rows_depend_on_themselves),
        cmocka_unit_test(test_a_norm_of_many_rows_and_of_none),
        cmocka_unit_test(test_special_values_stay_in_their_row),
        cmocka_unit_test(test_rope_tables_are_right_to_a_millionth_at_positions_to_2_20),
        cmocka_unit_test(test_rope_rotates_both_ways_all_or_part_of_a_head),
        cmocka_unit_test(test_rope_takes_reversed_axes_and_a_shared_table_row),
        cmocka_unit_test(test_conv1d_pads_strides_dilates_and_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
