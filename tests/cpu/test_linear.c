/* The linear family: right to 1e-4 (activations have 16 bits; measured 1e-5 to 4e-5), and the same bits for any number
 * of rows, any number of threads and any instruction set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/dtype.h"
#include "cpu/isa.h"
#include "cpu/linear.h"
#include "linear_support.h"

static const wr_cpu_isa levels[] = {WR_CPU_PORTABLE, WR_CPU_AVX2, WR_CPU_AVX512};
enum { N_LEVELS = 3 };

static int64_t fit(const lin_case *c, int64_t cols) { return (cols + c->multiple - 1) / c->multiple * c->multiple; }

static float *random_x(int64_t n, unsigned seed) {
    float *x = malloc((size_t)n * sizeof *x + 1);
    uint64_t s = seed;
    for (int64_t i = 0; i < n; i++) x[i] = lin_random(&s) * (i % 7 == 3 ? 4.0f : 1.0f);
    return x;
}

/* sqrt(sum of squared errors / sum of squared products) against double precision over the published values. For
 * products of independent sign that is the error relative to the result; a result that cancels does not inflate it. */
static double error_of(const lin_weight *w, const float *x, const int32_t *ids, int64_t m, const float *y) {
    int64_t rows = w->args.rows, cols = w->args.cols;
    float *row = malloc((size_t)cols * sizeof *row + 1);
    double error = 0, norm = 0;
    for (int64_t e = 0; e < w->args.experts; e++)
        for (int64_t r = 0; r < rows; r++) {
            lin_weight_row(w, e, r, row);
            for (int64_t i = 0; i < m; i++) {
                if (ids && ids[i] != e) continue;
                double sum = 0;
                for (int64_t k = 0; k < cols; k++) {
                    double product = (double)row[k] * (double)x[i * cols + k];
                    sum += product, norm += product * product;
                }
                double d = sum - (double)y[i * rows + r];
                error += d * d;
            }
        }
    free(row);
    return norm > 0 ? sqrt(error / norm) : sqrt(error);
}

static void every_format_is_right_on_every_level(void **state) {
    (void)state;
    static const int64_t sizes[][3] = {{1, 17, 576}, {5, 7, 96}, {21, 33, 544}, {13, 1, 32}}; /* m, rows, cols */
    for (int v = 0; v < N_LEVELS; v++) {
        if (!wr_cpu_level_force(levels[v])) continue;
        for (int c = 0; c < lin_case_count; c++)
            for (int s = 0; s < 4; s++) {
                int64_t m = sizes[s][0], rows = sizes[s][1], cols = fit(&lin_cases[c], sizes[s][2]);
                if (lin_cases[c].multiple == 1 && s) cols += 3;
                lin_weight w;
                lin_weight_init(&w, &lin_cases[c], 1, rows, cols, 11u + (unsigned)s, 2);
                float *x = random_x(m * cols, 3), *y = malloc((size_t)(m * rows) * sizeof *y);
                const char *name = lin_matmul(&w, WEIR_DTYPE_F32, x, NULL, m, y, 1);
                assert_non_null(name);
                assert_true(strncmp(name, wr_cpu_isa_name(levels[v]), strlen(wr_cpu_isa_name(levels[v]))) == 0);
                double error = error_of(&w, x, NULL, m, y);
                if (!(error <= 1e-4))
                    fail_msg("%s %s m %d rows %d cols %d: error %g", name, lin_cases[c].name, (int)m, (int)rows,
                             (int)cols, error);
                free(x);
                free(y);
                lin_weight_deinit(&w);
            }
    }
    wr_cpu_level_force(wr_cpu_machine_level());
}

static void a_row_has_the_bits_it_has_alone(void **state) {
    (void)state;
    enum { M = 33, ROWS = 20 };
    for (int c = 0; c < lin_case_count; c++) {
        int64_t cols = fit(&lin_cases[c], 320);
        lin_weight w;
        lin_weight_init(&w, &lin_cases[c], 1, ROWS, cols, 5, 1);
        float *x = random_x(M * cols, 9);
        static float alone[M][ROWS], y[M][ROWS];
        for (int i = 0; i < M; i++) lin_matmul(&w, WEIR_DTYPE_F32, x + i * cols, NULL, 1, alone[i], 1);
        for (int m = 1; m <= M; m++) {
            lin_matmul(&w, WEIR_DTYPE_F32, x, NULL, m, y, 1);
            if (memcmp(y, alone, sizeof(float) * (size_t)(m * ROWS))) fail_msg("%s, %d rows", lin_cases[c].name, m);
        }
        free(x);
        lin_weight_deinit(&w);
    }
}

static void a_row_of_many_panels_has_the_bits_it_has_alone(void **state) {
    (void)state;
    enum { M = 300, ROWS = 17 };
    for (int c = 0; c < lin_case_count; c++) {
        int64_t cols = fit(&lin_cases[c], 288);
        lin_weight w;
        lin_weight_init(&w, &lin_cases[c], 1, ROWS, cols, 6, 1);
        float *x = random_x(M * cols, 10);
        static float alone[ROWS], y[M][ROWS];
        lin_matmul(&w, WEIR_DTYPE_F32, x, NULL, M, y, 3);
        for (int i = 0; i < M; i += 23) {
            lin_matmul(&w, WEIR_DTYPE_F32, x + i * cols, NULL, 1, alone, 1);
            if (memcmp(y[i], alone, sizeof alone)) fail_msg("%s, row %d", lin_cases[c].name, i);
        }
        free(x);
        lin_weight_deinit(&w);
    }
}

static void bits_do_not_depend_on_threads(void **state) {
    (void)state;
    static const int ms[] = {1, 3, 13, 150};
    enum { ROWS = 50 };
    for (int c = 0; c < lin_case_count; c++) {
        int64_t cols = fit(&lin_cases[c], 96);
        lin_weight w;
        lin_weight_init(&w, &lin_cases[c], 1, ROWS, cols, 21, 5);
        float *x = random_x(150 * cols, 4);
        static float one[150 * ROWS], many[150 * ROWS];
        for (int i = 0; i < 4; i++) {
            lin_matmul(&w, WEIR_DTYPE_F32, x, NULL, ms[i], one, 1);
            for (int threads = 2; threads <= 5; threads += 3) {
                lin_matmul(&w, WEIR_DTYPE_F32, x, NULL, ms[i], many, threads);
                assert_memory_equal(one, many, sizeof(float) * (size_t)(ms[i] * ROWS));
            }
        }
        free(x);
        lin_weight_deinit(&w);
    }
}

static void levels_agree_in_every_bit(void **state) {
    (void)state;
    static const int ms[] = {1, 2, 4, 19};
    enum { ROWS = 33 };
    for (int c = 0; c < lin_case_count; c++) {
        int64_t cols = fit(&lin_cases[c], 576);
        lin_weight w;
        lin_weight_init(&w, &lin_cases[c], 1, ROWS, cols, 31, 1);
        float *x = random_x(19 * cols, 5);
        static float plain[19 * ROWS], fast[19 * ROWS];
        for (int i = 0; i < 4; i++) {
            wr_cpu_level_force(WR_CPU_PORTABLE);
            lin_matmul(&w, WEIR_DTYPE_F32, x, NULL, ms[i], plain, 1);
            for (int v = 1; v < N_LEVELS; v++) {
                if (!wr_cpu_level_force(levels[v])) continue;
                lin_matmul(&w, WEIR_DTYPE_F32, x, NULL, ms[i], fast, 1);
                if (memcmp(plain, fast, sizeof(float) * (size_t)(ms[i] * ROWS)))
                    fail_msg("%s, %d rows: %s differs from portable", lin_cases[c].name, ms[i],
                             wr_cpu_isa_name(levels[v]));
            }
        }
        free(x);
        lin_weight_deinit(&w);
    }
    wr_cpu_level_force(wr_cpu_machine_level());
}

static void not_finite_values_stay_in_their_row(void **state) {
    (void)state;
    enum { M = 12, ROWS = 18 };
    for (int c = 0; c < lin_case_count; c++) {
        int64_t cols = fit(&lin_cases[c], 64);
        lin_weight w;
        lin_weight_init(&w, &lin_cases[c], 1, ROWS, cols, 41, 1);
        float *x = random_x(M * cols, 6);
        static float clean[M][ROWS], y[M][ROWS];
        for (int m = 3; m <= M; m += 9) { /* both tiers */
            float keep = x[1 * cols + 37];
            lin_matmul(&w, WEIR_DTYPE_F32, x, NULL, m, clean, 1);
            for (int kind = 0; kind < 3; kind++) {
                x[1 * cols + 37] = kind == 0 ? NAN : kind == 1 ? INFINITY : -INFINITY;
                lin_matmul(&w, WEIR_DTYPE_F32, x, NULL, m, y, 1);
                for (int i = 0; i < m; i++)
                    for (int r = 0; r < ROWS; r++) {
                        /* 0 * infinity and infinity - infinity are NaN too: not finite is what is promised. */
                        if (i == 1 && isfinite(y[i][r]) != 0)
                            fail_msg("%s: a value that is not finite was lost", lin_cases[c].name);
                        if (i != 1) assert_memory_equal(&y[i][r], &clean[i][r], sizeof(float));
                    }
            }
            x[1 * cols + 37] = keep;
        }
        free(x);
        lin_weight_deinit(&w);
    }
}

/* Groups of zeros, of subnormals, of values near the end of the range, and one large value among small ones. */
static void extreme_activations_are_right(void **state) {
    (void)state;
    enum { M = 4, ROWS = 16 };
    for (int c = 0; c < lin_case_count; c++) {
        int64_t cols = fit(&lin_cases[c], 64);
        lin_weight w;
        lin_weight_init(&w, &lin_cases[c], 1, ROWS, cols, 51, 1);
        float *x = random_x(M * cols, 7), y[M * ROWS];
        for (int64_t k = 0; k < cols; k++) {
            x[k] = 0;
            x[cols + k] *= 1e-42f;
            x[2 * cols + k] *= 1e30f;
            if (k == 5) x[3 * cols + k] = 1000;
        }
        lin_matmul(&w, WEIR_DTYPE_F32, x, NULL, M, y, 1);
        for (int r = 0; r < ROWS; r++) assert_true(y[r] == 0);
        /* 2^-126 is the smallest scale: an error of half of it times the row's absolute sum is allowed. */
        for (int r = 0; r < ROWS; r++) assert_true(fabsf(y[ROWS + r]) < 1e-36f);
        for (int i = 2; i < 4; i++) {
            double error = error_of(&w, x + i * cols, NULL, 1, y + i * ROWS);
            /* One value of 1000 among 31 small ones: rounding gives each 1000 / 32767 / sqrt(12), together 5e-5 of the
             * large product, more where its weight is small. */
            if (!(error <= (i == 3 ? 2e-4 : 1e-4))) fail_msg("%s, row %d: error %g", lin_cases[c].name, i, error);
        }
        free(x);
        lin_weight_deinit(&w);
    }
}

static void half_activations_give_the_rounded_f32_result(void **state) {
    (void)state;
    enum { M = 11, ROWS = 20 };
    static const weir_dtype dtypes[] = {WEIR_DTYPE_BF16, WEIR_DTYPE_F16};
    for (int c = 0; c < lin_case_count; c++)
        for (int d = 0; d < 2; d++) {
            int64_t cols = fit(&lin_cases[c], 96);
            lin_weight w;
            lin_weight_init(&w, &lin_cases[c], 1, ROWS, cols, 61, 1);
            float *x = random_x(M * cols, 8), y[M * ROWS];
            uint16_t *h = malloc((size_t)(M * cols) * 2), z[M * ROWS];
            bool bf16 = dtypes[d] == WEIR_DTYPE_BF16;
            for (int64_t i = 0; i < M * cols; i++) {
                h[i] = bf16 ? wr_f32_to_bf16(x[i]) : wr_f32_to_f16(x[i]);
                x[i] = bf16 ? wr_bf16_to_f32(h[i]) : wr_f16_to_f32(h[i]);
            }
            lin_matmul(&w, WEIR_DTYPE_F32, x, NULL, M, y, 1);
            lin_matmul(&w, dtypes[d], h, NULL, M, z, 2);
            for (int i = 0; i < M * ROWS; i++)
                assert_int_equal(z[i], bf16 ? wr_f32_to_bf16(y[i]) : wr_f32_to_f16(y[i]));
            free(x);
            free(h);
            lin_weight_deinit(&w);
        }
}

static void experts_give_the_bits_of_their_own_linear(void **state) {
    (void)state;
    enum { M = 40, ROWS = 18, E = 3 };
    for (int c = 0; c < lin_case_count; c++) {
        int64_t cols = fit(&lin_cases[c], 64);
        lin_weight w;
        lin_weight_init(&w, &lin_cases[c], E, ROWS, cols, 71, 2);
        float *x = random_x(M * cols, 9);
        static float y[M][ROWS], alone[ROWS];
        int32_t ids[M];
        for (int i = 0; i < M; i++) ids[i] = i == 7 ? -1 : i == 8 ? E : i % 5 ? 2 : 0; /* expert 1 gets nothing */
        for (int threads = 1; threads <= 3; threads++) {
            assert_non_null(lin_matmul(&w, WEIR_DTYPE_F32, x, ids, M, y, threads));
            for (int i = 0; i < M; i++) {
                if (ids[i] < 0 || ids[i] >= E) {
                    for (int r = 0; r < ROWS; r++) assert_true(isnan(y[i][r]));
                    continue;
                }
                lin_weight one = w;
                one.args.experts = 1;
                one.packed_bytes = w.packed_bytes / E;
                one.packed = (char *)w.packed + one.packed_bytes * (size_t)ids[i];
                lin_matmul(&one, WEIR_DTYPE_F32, x + i * cols, NULL, 1, alone, 1);
                assert_memory_equal(y[i], alone, sizeof alone);
            }
        }
        free(x);
        lin_weight_deinit(&w);
    }
}

static void embedding_reads_rows_of_the_packed_table(void **state) {
    (void)state;
    enum { ROWS = 37 };
    for (int c = 0; c < lin_case_count; c++) {
        int64_t cols = fit(&lin_cases[c], 1280); /* more than one piece */
        lin_weight w;
        lin_weight_init(&w, &lin_cases[c], 1, ROWS, cols, 81, 1);
        wr_linear_args args = w.args;
        args.packed = 1;
        int32_t ids[5] = {36, 0, -1, 37, 17};
        float *y = malloc((size_t)(5 * cols) * sizeof *y), *row = malloc((size_t)cols * sizeof *row);
        wr_tensor in[2] = {{.data = ids, .dtype = WEIR_DTYPE_I32, .n_dims = 1, .shape = {5}, .strides = {1}},
                           {.data = w.packed, .dtype = WEIR_DTYPE_U8, .n_dims = 1}};
        wr_step step = {.op = WR_OP_EMBEDDING, .args = &args, .in = in, .n_in = 2};
        step.out =
            (wr_tensor){.data = y, .dtype = WEIR_DTYPE_F32, .n_dims = 2, .shape = {5, cols}, .strides = {cols, 1}};
        for (int threads = 1; threads <= 7; threads += 6) {
            memset(y, 0, (size_t)(5 * cols) * sizeof *y);
            assert_non_null(lin_run(wr_cpu_embedding_rows, &step, threads));
            for (int i = 0; i < 5; i++) {
                if (ids[i] >= 0 && ids[i] < ROWS) lin_weight_row(&w, 0, ids[i], row);
                for (int64_t k = 0; k < cols; k++)
                    assert_true(ids[i] < 0 || ids[i] >= ROWS ? isnan(y[i * cols + k]) : y[i * cols + k] == row[k]);
            }
        }
        free(y);
        free(row);
        lin_weight_deinit(&w);
    }
}

static void empty_inputs_are_fine(void **state) {
    (void)state;
    lin_weight w;
    lin_weight_init(&w, &lin_cases[0], 1, 16, 32, 1, 1);
    float x[32] = {0}, y[16];
    assert_non_null(lin_matmul(&w, WEIR_DTYPE_F32, x, NULL, 0, y, 2));
    lin_weight_deinit(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_is_right_on_every_level),
        cmocka_unit_test(a_row_has_the_bits_it_has_alone),
        cmocka_unit_test(a_row_of_many_panels_has_the_bits_it_has_alone),
        cmocka_unit_test(bits_do_not_depend_on_threads),
        cmocka_unit_test(levels_agree_in_every_bit),
        cmocka_unit_test(not_finite_values_stay_in_their_row),
        cmocka_unit_test(extreme_activations_are_right),
        cmocka_unit_test(half_activations_give_the_rounded_f32_result),
        cmocka_unit_test(experts_give_the_bits_of_their_own_linear),
        cmocka_unit_test(embedding_reads_rows_of_the_packed_table),
        cmocka_unit_test(empty_inputs_are_fine),
    };
    return cmocka_run_group_tests_name("linear", tests, NULL, NULL);
}
