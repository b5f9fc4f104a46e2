/* The packed layout: what the kernels read out of it is what the CPU reference reads out of the published weight. */
#include "linear_test.h"

/* DEQUANTIZE by the emulated kernel against cpu/ref/dequant.c, packed and published. */
static void check_dequantised(const weight *w, bool packed, double tolerance) {
    int64_t rows = w->args.rows, cols = w->args.cols, experts = w->args.experts;
    cloth y = new_output(WEIR_DTYPE_F32, 2, (int64_t[]){experts * rows, cols}, 0);
    call c = {.op = WR_OP_DEQUANTIZE, .w = w, .packed = packed, .row = "ref"};
    assert_true(run_call(&c, &y));
    float *want = malloc((size_t)cols * sizeof(float));
    for (int64_t r = 0; r < experts * rows; r++) {
        wr_dequant_row(&w->args, w->data, w->scales, w->biases, r / rows, r % rows, want);
        double largest = 0; /* a product that the bias takes away leaves its rounding behind */
        for (int64_t k = 0; k < cols; k++) largest = fmax(largest, fabs((double)want[k]));
        for (int64_t k = 0; k < cols; k++) {
            double got = get_float(&y.t, r * cols + k), error = fabs(got - (double)want[k]);
            if (!(error <= tolerance * largest))
                fail_msg("%s %d bits group %d, %s: [%lld, %lld] is %.9g, not %.9g", weir_quant_name(w->args.quant.mode),
                         w->args.quant.bits, w->args.quant.group_size, packed ? "packed" : "published", (long long)r,
                         (long long)k, got, (double)want[k]);
        }
    }
    free(want);
    free_cloth(&y);
}

/* In f32, so a value differs by the rounding of one product at most; scale-only formats not at all. */
static void every_format_is_dequantised_as_on_the_cpu(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{1, 16, 256}, {1, 1, 256}, {1, 37, 512}, {3, 5, 256}};
    for (int f = 0; f < COUNT(formats); f++)
        for (int s = 0; s < COUNT(shapes); s++) {
            weight w = new_weight(formats[f], shapes[s][0], shapes[s][1], shapes[s][2], 0.01f, 1);
            double tolerance = formats[f].exact ? 0 : 2e-7;
            check_dequantised(&w, true, tolerance);
            check_dequantised(&w, false, tolerance);
            free_weight(&w);
        }
}

static void columns_need_not_fill_the_last_tile(void **state) {
    (void)state;
    for (int f = 0; f < COUNT(formats); f++) {
        weir_quant_mode mode = formats[f].quant.mode;
        int64_t unit_cols = mode == WEIR_QUANT_NONE     ? 1
                            : mode >= WEIR_QUANT_Q2_K   ? 256
                            : mode >= WEIR_QUANT_Q4_0   ? 32
                            : mode == WEIR_QUANT_AFFINE ? formats[f].quant.group_size
                            : mode == WEIR_QUANT_NVFP4  ? 16
                                                        : 32;
        weight w = new_weight(formats[f], 1, 18, 9 * unit_cols, 0.01f, 1);
        check_dequantised(&w, true, formats[f].exact ? 0 : 2e-7);
        check_dequantised(&w, false, formats[f].exact ? 0 : 2e-7);
        free_weight(&w);
    }
}

static void affine_scales_may_be_large_and_small(void **state) {
    (void)state;
    static const float scales[] = {1e7f, 300, 1, 0.03125f, 1e-3f, 1e-9f, 1e-20f};
    for (int f = 2; f <= 14; f++)
        for (int s = 0; s < COUNT(scales); s++) {
            weight w = new_weight(formats[f], 1, 16, 256, scales[s], 1);
            check_dequantised(&w, true, 2e-7);
            free_weight(&w);
        }
}

static void the_number_of_threads_changes_nothing(void **state) {
    (void)state;
    for (int f = 0; f < COUNT(formats); f++) {
        weight one = new_weight(formats[f], 2, 50, 256, 0.01f, 1), many = new_weight(formats[f], 2, 50, 256, 0.01f, 5);
        assert_int_equal(one.packed_bytes, many.packed_bytes);
        assert_memory_equal(one.packed, many.packed, one.packed_bytes);
        free_weight(&one);
        free_weight(&many);
    }
}

/* Joined matrices: rows of 16 n, one behind the other. */
static void packed_matrices_of_whole_row_tiles_join(void **state) {
    (void)state;
    for (int f = 0; f < COUNT(formats); f++) {
        weight all = new_weight(formats[f], 1, 48, 256, 0.01f, 1), part = all;
        part.args.rows = 16;
        size_t bytes = wr_cuda_packed_bytes(&part.args);
        assert_int_equal(3 * bytes, all.packed_bytes);
        uint8_t *packed = malloc(bytes);
        wr_cuda_pack(&part.args, all.data, all.scales, all.biases, packed, 0, 1);
        assert_memory_equal(packed, all.packed, bytes);
        free(packed);
        free_weight(&all);
    }
}

static void sizes_that_overflow_or_are_empty_are_not_packed(void **state) {
    (void)state;
    wr_linear_args args = {.quant = {WEIR_QUANT_AFFINE, 64, 4}, .weight_dtype = WEIR_DTYPE_BF16, .experts = 1};
    args.rows = 0, args.cols = 64;
    assert_int_equal(wr_cuda_packed_bytes(&args), 0);
    args.rows = 64, args.cols = 0;
    assert_int_equal(wr_cuda_packed_bytes(&args), 0);
    args.rows = INT64_MAX / 64, args.cols = 1 << 20;
    assert_int_equal(wr_cuda_packed_bytes(&args), 0);
    args.rows = 64, args.cols = 128;
    assert_int_equal(wr_cuda_packed_bytes(&args), 4 * 2 * 576);
    args.quant.mode = WEIR_QUANT_NONE, args.weight_dtype = WEIR_DTYPE_F32;
    assert_int_equal(wr_cuda_packed_bytes(&args), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_is_dequantised_as_on_the_cpu),
        cmocka_unit_test(columns_need_not_fill_the_last_tile),
        cmocka_unit_test(affine_scales_may_be_large_and_small),
        cmocka_unit_test(the_number_of_threads_changes_nothing),
        cmocka_unit_test(packed_matrices_of_whole_row_tiles_join),
        cmocka_unit_test(sizes_that_overflow_or_are_empty_are_not_packed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
