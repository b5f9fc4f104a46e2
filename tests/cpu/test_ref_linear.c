/* Matrix products, linear layers, embeddings and convolution by the reference kernels. */
#include "cpu/ref_test.h"
#include "cpu/ref/dequant.h"

static void matmul_of_known_matrices(void **state) {
    (void)state;
    const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {1, 0, 0, 1, 1, 1};
    float y[8];
    RUN(MATMUL, NULL, T(F32, y, 2, 2), T(F32, a, 2, 3), T(F32, b, 3, 2));
    CHECK_F32(y, 4, 5, 10, 11);
    wr_tensor transposed = T(F32, a, 3, 2); /* a^T without a copy */
    transposed.strides[0] = 1;
    transposed.strides[1] = 3;
    RUN(MATMUL, NULL, T(F32, y, 2, 2), T(F32, a, 2, 3), transposed);
    CHECK_F32(y, 14, 32, 32, 77);
    RUN(MATMUL, NULL, T(F32, y, 2, 2), T(F32, NULL, 2, 0), T(F32, NULL, 0, 2));
    CHECK_F32(y, 0, 0, 0, 0);
    RUN(MATMUL, NULL, T(F32, y, 0, 2), T(F32, NULL, 0, 3), T(F32, b, 3, 2));
}

static void matmul_batches(void **state) {
    (void)state;
    enum { BATCH = 3, M = 4, K = 5, N = 6 };
    float a[BATCH * M * K], b[BATCH * K * N], y[2 * BATCH * M * N];
    fill_noise(a, BATCH * M * K, 1);
    fill_noise(b, BATCH * K * N, 2);
    RUN(MATMUL, NULL, T(F32, y, 1, BATCH, M, N), T(F32, a, 1, BATCH, M, K), T(F32, b, 1, BATCH, K, N));
    for (int i = 0; i < BATCH * M * N; i++) {
        int n = i % N, m = i / N % M, batch = i / N / M;
        double want = 0;
        for (int k = 0; k < K; k++) want += (double)a[(batch * M + m) * K + k] * b[(batch * K + k) * N + n];
        check_near(y[i], want, 2.5e-7); /* half a unit in the last place below 4 */
    }
}

/* A dense layer whose double sum is 1, and whose f32 sum in order of K would be 0. */
static void linear_sums_in_double(void **state) {
    (void)state;
    const float x[] = {0x1p30f, 1, -0x1p30f}, w[] = {1, 1, 1};
    float y[1];
    wr_linear_args args = {.weight_dtype = WEIR_DTYPE_F32, .global_scale = 1, .experts = 1, .rows = 1, .cols = 3};
    RUN(LINEAR, &args, T(F32, y, 1), T(F32, x, 3), T(F32, w, 1, 3));
    CHECK_F32(y, 1);
}

static void linear_by_dense_weights_of_each_dtype(void **state) {
    (void)state;
    enum { M = 3, K = 7, N = 5 };
    static const weir_dtype dtypes[] = {WEIR_DTYPE_F32, WEIR_DTYPE_F16, WEIR_DTYPE_BF16};
    float x[M * K], noise_w[N * K], y[M * N];
    fill_noise(x, M * K, 1);
    fill_noise(noise_w, N * K, 2);
    for (int d = 0; d < 3; d++) {
        float w[N * K];
        uint16_t half[N * K];
        for (int i = 0; i < N * K; i++) {
            half[i] = d == 1 ? wr_f32_to_f16(noise_w[i]) : wr_f32_to_bf16(noise_w[i]);
            w[i] = d == 0 ? noise_w[i] : d == 1 ? wr_f16_to_f32(half[i]) : wr_bf16_to_f32(half[i]);
        }
        wr_linear_args args = {.weight_dtype = dtypes[d], .global_scale = 1, .experts = 1, .rows = N, .cols = K};
        wr_tensor in[2] = {T(F32, x, M, K), tensor_of(dtypes[d], d ? (const void *)half : w, 2, (int64_t[]){N, K})};
        run_op(WR_OP_LINEAR, &args, T(F32, y, M, N), 2, in);
        for (int i = 0; i < M * N; i++) {
            double want = 0;
            for (int k = 0; k < K; k++) want += (double)x[i / N * K + k] * w[i % N * K + k];
            check_near(y[i], want, 2e-7);
        }
    }
}

/* A Q8_0 weight of three experts: scales 1, 0.5, 2 and values 0, 1, 2, ... make every sum exact. */
enum { EXPERTS = 3, ROWS = 2, COLS = 64, BLOCK_BYTES = 34 };
static void fill_q8(uint8_t *data) {
    static const uint16_t scales[EXPERTS] = {0x3c00, 0x3800, 0x4000};
    for (int block = 0; block < EXPERTS * ROWS * COLS / 32; block++) {
        uint8_t *b = data + block * BLOCK_BYTES;
        memcpy(b, &scales[block / (ROWS * COLS / 32)], 2);
        for (int i = 0; i < 32; i++) b[2 + i] = (uint8_t)(int8_t)(block % 4 * 32 + i - 60);
    }
}
/* Value c of row r of expert e. */
static double q8_value(int e, int r, int c) {
    static const double scales[EXPERTS] = {1, 0.5, 2};
    return scales[e] * (r * COLS + c - 60);
}
static const wr_linear_args q8_args = {.quant = {WEIR_QUANT_Q8_0, 32, 8},
                                       .out_dtype = WEIR_DTYPE_F32,
                                       .global_scale = 1,
                                       .experts = EXPERTS,
                                       .rows = ROWS,
                                       .cols = COLS};

static void linear_and_experts_by_quantised_weights(void **state) {
    (void)state;
    uint8_t data[EXPERTS * ROWS * COLS / 32 * BLOCK_BYTES];
    float x[5 * COLS], y[5 * ROWS];
    const int32_t ids[] = {2, 0, 0, -1, 3};
    fill_q8(data);
    for (int i = 0; i < 5 * COLS; i++) x[i] = (float)(i % 7 - 3);
    RUN(GATHER_LINEAR, &q8_args, T(F32, y, 5, ROWS), T(F32, x, 5, COLS), T(I32, ids, 5), T(U8, data, sizeof data));
    for (int t = 0; t < 5; t++)
        for (int r = 0; r < ROWS; r++) {
            double want = 0;
            for (int c = 0; c < COLS && t < 3; c++) want += x[t * COLS + c] * q8_value(ids[t], r, c);
            if (t < 3)
                assert_true(y[t * ROWS + r] == want);
            else
                assert_true(isnan(y[t * ROWS + r])); /* no such expert */
        }
    wr_linear_args one = q8_args;
    one.experts = 1;
    uint16_t half[2 * ROWS], x_half[2 * COLS];
    for (int i = 0; i < 2 * COLS; i++) x_half[i] = wr_f32_to_f16(x[i]);
    RUN(LINEAR, &one, T(F16, half, 2, ROWS), T(F16, x_half, 2, COLS), T(U8, data, sizeof data / EXPERTS));
    for (int i = 0; i < 2 * ROWS; i++) {
        double want = 0;
        for (int c = 0; c < COLS; c++) want += x[i / ROWS * COLS + c] * q8_value(0, i % ROWS, c);
        assert_int_equal(half[i], wr_f32_to_f16((float)want));
    }
    RUN(LINEAR, &one, T(F32, y, 0, ROWS), T(F32, NULL, 0, COLS), T(U8, data, sizeof data / EXPERTS));
}

static void embedding_rows_and_unknown_ids(void **state) {
    (void)state;
    uint8_t data[ROWS * COLS / 32 * BLOCK_BYTES * EXPERTS];
    float y[4 * COLS];
    const int32_t ids[] = {1, 0, 2, -1};
    fill_q8(data);
    wr_linear_args args = q8_args;
    args.experts = 1;
    RUN(EMBEDDING, &args, T(F32, y, 2, 2, COLS), T(I32, ids, 2, 2), T(U8, data, sizeof data / EXPERTS));
    for (int c = 0; c < COLS; c++) {
        assert_true(y[c] == q8_value(0, 1, c));
        assert_true(y[COLS + c] == q8_value(0, 0, c));
        assert_true(isnan(y[2 * COLS + c]) && isnan(y[3 * COLS + c]));
    }
    float all[EXPERTS * ROWS * COLS];
    RUN(DEQUANTIZE, &q8_args, T(F32, all, EXPERTS, ROWS, COLS), T(U8, data, sizeof data));
    for (int i = 0; i < EXPERTS * ROWS * COLS; i++)
        assert_true(all[i] == q8_value(i / COLS / ROWS, i / COLS % ROWS, i % COLS));
}

static void nvfp4_applies_the_global_scale(void **state) {
    (void)state;
    uint8_t data[8], scales[1] = {0x38}; /* 1.0 */
    float y[16];
    for (int i = 0; i < 8; i++) data[i] = (uint8_t)(2 * i | (2 * i + 1) << 4);
    wr_linear_args args = {.quant = {WEIR_QUANT_NVFP4, 16, 4},
                           .out_dtype = WEIR_DTYPE_F32,
                           .global_scale = 0.25f,
                           .experts = 1,
                           .rows = 1,
                           .cols = 16};
    RUN(DEQUANTIZE, &args, T(F32, y, 1, 16), T(U32, data, 2), T(U8, scales, 1));
    CHECK_F32(y, 0, 0.125f, 0.25f, 0.375f, 0.5f, 0.75f, 1, 1.5f, -0.0f, -0.125f, -0.25f, -0.375f, -0.5f, -0.75f, -1,
              -1.5f);
}

static void conv1d_with_stride_dilation_groups_and_padding(void **state) {
    (void)state;
    /* One channel, kernel (1, 10, 100), dilation 2, padding 2 and 1: positions -2, 0, 2 first. */
    const float x[] = {1, 2, 3, 4, 5}, w[] = {1, 10, 100}, bias[] = {1000};
    float y[12];
    wr_conv1d_args args = {.stride = 2, .dilation = 2, .groups = 1, .pad_low = 2, .pad_high = 1};
    RUN(CONV1D, &args, T(F32, y, 1, 2, 1), T(F32, x, 1, 5, 1), T(F32, w, 1, 3, 1), T(F32, bias, 1));
    CHECK_F32(y, 1000 + 10 * 1 + 100 * 3, 1000 + 1 + 10 * 3 + 100 * 5);
    /* Depthwise: two channels, each with its own kernel of two; causal padding. */
    const float two[] = {1, 10, 2, 20, 3, 30}, own[] = {1, 2, 3, 4};
    wr_conv1d_args depthwise = {.stride = 1, .dilation = 1, .groups = 2, .pad_low = 1};
    RUN(CONV1D, &depthwise, T(F32, y, 1, 3, 2), T(F32, two, 1, 3, 2), T(F32, own, 2, 2, 1));
    CHECK_F32(y, 2, 40, 1 + 4, 30 + 80, 2 + 6, 60 + 120);
    /* Dense: one output from two channels, kernel 1. */
    wr_conv1d_args dense = {.stride = 1, .dilation = 1, .groups = 1};
    RUN(CONV1D, &dense, T(F32, y, 1, 3, 1), T(F32, two, 1, 3, 2), T(F32, own, 1, 1, 2));
    CHECK_F32(y, 21, 42, 63);
    RUN(CONV1D, &dense, T(F32, y, 0, 3, 1), T(F32, NULL, 0, 3, 2), T(F32, own, 1, 1, 2));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matmul_of_known_matrices),
        cmocka_unit_test(matmul_batches),
        cmocka_unit_test(linear_sums_in_double),
        cmocka_unit_test(linear_by_dense_weights_of_each_dtype),
        cmocka_unit_test(linear_and_experts_by_quantised_weights),
        cmocka_unit_test(embedding_rows_and_unknown_ids),
        cmocka_unit_test(nvfp4_applies_the_global_scale),
        cmocka_unit_test(conv1d_with_stride_dilation_groups_and_padding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
