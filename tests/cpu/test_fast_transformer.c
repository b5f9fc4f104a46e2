/* Fast norms, rotary embedding and KV pages against the reference (double, rounded once). */
#include "fast_test.h"

#include "cpu/ref/kernels.h"

static const weir_dtype types[] = {WEIR_DTYPE_F32, WEIR_DTYPE_F16, WEIR_DTYPE_BF16};
/* One rounding of the type, relative. */
static double precision(weir_dtype t) { return t == WEIR_DTYPE_F32 ? 4e-7 : t == WEIR_DTYPE_F16 ? 1e-3 : 8e-3; }

static void check_close(const wr_tensor *y, const wr_tensor *want, double scale) {
    for (int64_t i = 0; i < tensor_size(y); i++) {
        double a = get(y, i), b = get(want, i);
        if (!(fabs(a - b) <= precision(y->dtype) * (fabs(b) + scale)))
            fail_msg("element %d: %.9g, should be %.9g", (int)i, a, b);
    }
}

static void check_norm(wr_op_id op, int64_t rows, int64_t n, weir_dtype type, weir_dtype weight, int n_in,
                       float offset) {
    wr_norm_args args = {.eps = 1e-6f, .weight_offset = offset};
    wr_tensor in[3] = {TENSOR(type, rows, n), TENSOR(weight, n), TENSOR(weight, n)};
    for (int i = 0; i < 3; i++) fill(&in[i], 11 + (uint64_t)i, 2);
    wr_step step = {.op = op, .args = &args, .n_in = n_in, .in = in, .out = TENSOR(type, rows, n)};
    wr_tensor y = step.out, want = TENSOR(type, rows, n), one = TENSOR(type, rows, n);
    step.out = want;
    wr_ref_norm(&step, 0, 1);
    step.out = y;
    FOR_EACH_LEVEL(level) {
        run_level(wr_cpu_norm_rows, &step, level, 1, false);
        check_close(&y, &want, 1);
        memcpy(one.data, y.data, tensor_bytes(&y));
        for (int threads = 2; threads <= 5; threads += 3) {
            run_level(wr_cpu_norm_rows, &step, level, threads, false);
            assert_memory_equal(one.data, y.data, tensor_bytes(&y));
        }
        /* The last row alone. */
        size_t row = (size_t)n * weir_dtype_bytes(type), at = (size_t)(rows - 1) * row;
        wr_tensor part[3] = {TENSOR(type, 1, n), in[1], in[2]};
        memcpy(part[0].data, (char *)in[0].data + at, row);
        wr_step alone = {.op = op, .args = &args, .n_in = n_in, .in = part, .out = TENSOR(type, 1, n)};
        run_level(wr_cpu_norm_rows, &alone, level, 1, false);
        assert_memory_equal((char *)one.data + at, alone.out.data, row);
        free_tensor(&alone.out), free_tensor(&part[0]);
    }
    free_tensor(&y), free_tensor(&want), free_tensor(&one);
    for (int i = 0; i < 3; i++) free_tensor(&in[i]);
}

static void test_norms_match_the_reference_for_any_row_length_and_type(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 3, 31, 64, 576, 1000, 4097};
    for (int s = 0; s < 7; s++)
        for (int t = 0; t < 3; t++)
            for (int w = 0; w < 3; w++) {
                check_norm(WR_OP_RMS_NORM, 37, sizes[s], types[t], types[w], 2, w == 1 ? 1.0f : 0.0f);
                check_norm(WR_OP_LAYER_NORM, 5, sizes[s], types[t], types[w], 3, 0);
            }
    check_norm(WR_OP_RMS_NORM, 9, 100, WEIR_DTYPE_F32, WEIR_DTYPE_F32, 1, 0);
    check_norm(WR_OP_LAYER_NORM, 9, 100, WEIR_DTYPE_F32, WEIR_DTYPE_F32, 1, 0);
    check_norm(WR_OP_LAYER_NORM, 9, 100, WEIR_DTYPE_F32, WEIR_DTYPE_F32, 2, 0);
}

static void test_rope_table_is_exact_to_1e_7_at_positions_to_2_20(void **state) {
    (void)state;
    wr_rope_table_args args = {.half = 48, .attention_factor = 1.25};
    for (int i = 0; i < args.half; i++) args.inv_freq[i] = pow(10000, -(double)i / args.half);
    static const int64_t positions[] = {0, 1, 2, 77, 1499, 65535, 131071, 1048575, 1048576, 5000001, 1 << 30};
    for (int wide = 0; wide < 2; wide++) {
        wr_tensor in = TENSOR(wide ? WEIR_DTYPE_I64 : WEIR_DTYPE_I32, 11);
        for (int i = 0; i < 11; i++)
            if (wide)
                ((int64_t *)in.data)[i] = positions[i];
            else
                ((int32_t *)in.data)[i] = (int32_t)positions[i];
        wr_step step = {.op = WR_OP_ROPE_TABLE, .args = &args, .n_in = 1, .in = &in};
        step.out = TENSOR(WEIR_DTYPE_F32, 11, 2, 48);
        FOR_EACH_LEVEL(level) for (int threads = 1; threads <= 5; threads += 2) {
            run_level(wr_cpu_rope_table_rows, &step, level, threads, false);
            for (int t = 0; t < 11; t++)
                for (int i = 0; i < 48; i++) {
                    /* long double keeps the product of position and frequency exact to 2^-64. */
                    long double angle = (long double)((double)positions[t] * args.inv_freq[i]);
                    double c = get(&step.out, t * 96 + i), s = get(&step.out, t * 96 + 48 + i);
                    assert_true(fabs(c - (double)(1.25L * cosl(angle))) <= 1e-7);
                    assert_true(fabs(s - (double)(1.25L * sinl(angle))) <= 1e-7);
                }
        }
        free_tensor(&in), free_tensor(&step.out);
    }
}

static void check_rope(int64_t rows, int64_t heads, int64_t width, int64_t half, weir_dtype type, bool interleaved) {
    wr_rope_args args = {.interleaved = interleaved};
    /* x is the first part of a wider row, as q is of a joined q, k, v. */
    wr_tensor whole = TENSOR(type, rows, heads + 3, width), table = TENSOR(WEIR_DTYPE_F32, rows, 2, half);
    fill(&whole, 1, 3), fill(&table, 2, 1);
    wr_tensor in[2] = {whole, table};
    in[0].shape[1] = heads;
    wr_step step = {.op = WR_OP_ROPE, .args = &args, .n_in = 2, .in = in, .out = TENSOR(type, rows, heads, width)};
    wr_tensor y = step.out, want = TENSOR(type, rows, heads, width), one = TENSOR(type, rows, heads, width);
    step.out = want;
    wr_ref_rope(&step, 0, 1);
    step.out = y;
    FOR_EACH_LEVEL(level) {
        run_level(wr_cpu_rope_rows, &step, level, 1, false);
        check_close(&y, &want, 3);
        memcpy(one.data, y.data, tensor_bytes(&y));
        run_level(wr_cpu_rope_rows, &step, level, 5, false);
        assert_memory_equal(one.data, y.data, tensor_bytes(&y));
    }
    free_tensor(&whole), free_tensor(&table), free_tensor(&y), free_tensor(&want), free_tensor(&one);
}

static void test_rope_matches_the_reference_in_both_pairings(void **state) {
    (void)state;
    for (int t = 0; t < 3; t++)
        for (int interleaved = 0; interleaved < 2; interleaved++) {
            check_rope(33, 9, 64, 32, types[t], interleaved);
            check_rope(1, 2, 80, 20, types[t], interleaved);
            check_rope(5, 3, 14, 7, types[t], interleaved);
            check_rope(2, 1, 256, 128, types[t], interleaved);
        }
}

static void test_kv_write_converts_into_the_right_slots_and_no_others(void **state) {
    (void)state;
    for (int t = 0; t < 3; t++)
        for (int u = 0; u < 3; u++)
            for (int threads = 1; threads <= 5; threads += 4) {
                enum { ROWS = 300, PAGES = 40, PAGE = 16, HEADS = 3, WIDTH = 20 };
                wr_tensor in[5] = {TENSOR(types[u], PAGES, PAGE, HEADS, WIDTH), TENSOR(types[t], ROWS, HEADS, WIDTH),
                                   TENSOR(WEIR_DTYPE_I32, 2, 20), TENSOR(WEIR_DTYPE_I32, ROWS),
                                   TENSOR(WEIR_DTYPE_I32, ROWS)};
                fill(&in[1], 4, 2);
                for (int i = 0; i < 40; i++) put(&in[2], i, (float)(i == 19 ? -1 : i == 39 ? PAGES : PAGES - 1 - i));
                for (int i = 0; i < ROWS; i++) {
                    put(&in[3], i, (float)(i % 50 == 7 ? -1 : i % 50 == 8 ? 2 : i % 2));
                    put(&in[4], i, (float)(i == 100 ? 5000 : i));
                }
                wr_tensor want = TENSOR(types[u], PAGES, PAGE, HEADS, WIDTH);
                wr_step step = {
                    .op = WR_OP_KV_WRITE, .args = &(wr_kv_args){.tiled = false}, .n_in = 5, .in = in, .out = want};
                wr_ref_kv_write(&step, 0, 1);
                FOR_EACH_LEVEL(level) {
                    memset(in[0].data, 0xff, tensor_bytes(&in[0]));
                    step.out = in[0];
                    run_level(wr_cpu_kv_write_rows, &step, level, threads, true);
                    assert_memory_equal(in[0].data, want.data, tensor_bytes(&want));
                }
                for (int i = 0; i < 5; i++) free_tensor(&in[i]);
                free_tensor(&want);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norms_match_the_reference_for_any_row_length_and_type),
        cmocka_unit_test(test_rope_table_is_exact_to_1e_7_at_positions_to_2_20),
        cmocka_unit_test(test_rope_matches_the_reference_in_both_pairings),
        cmocka_unit_test(test_kv_write_converts_into_the_right_slots_and_no_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
