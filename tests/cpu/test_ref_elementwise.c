/* Element-wise reference kernels: each rule of weir/ops.h on values that show it. */
#include "cpu/ref_test.h"

#define N(...) ((int64_t)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)))

static void unary_f32(wr_op_id op, const float *x, const float *want, int64_t n) {
    float y[16];
    wr_tensor in = T(F32, x, n);
    run_op(op, NULL, T(F32, y, n), 1, &in);
    check_f32(y, want, n);
}
#define UNARY(op, x, ...) unary_f32(WR_OP_##op, x, (const float[]){__VA_ARGS__}, N(__VA_ARGS__))

static void unary_numeric_ops_of_floats(void **state) {
    (void)state;
    const float x[] = {-2.5f, -0.5f, 0, 0.5f, 1.5f, 2.5f, NAN, -INFINITY};
    UNARY(NEG, x, 2.5f, 0.5f, -0.0f, -0.5f, -1.5f, -2.5f, NAN, INFINITY);
    UNARY(ABS, x, 2.5f, 0.5f, 0, 0.5f, 1.5f, 2.5f, NAN, INFINITY);
    UNARY(SIGN, x, -1, -1, 0, 1, 1, 1, NAN, -1);
    UNARY(SQUARE, x, 6.25f, 0.25f, 0, 0.25f, 2.25f, 6.25f, NAN, INFINITY);
    UNARY(FLOOR, x, -3, -1, 0, 0, 1, 2, NAN, -INFINITY);
    UNARY(CEIL, x, -2, -0.0f, 0, 1, 2, 3, NAN, -INFINITY);
    UNARY(ROUND, x, -2, -0.0f, 0, 0, 2, 2, NAN, -INFINITY); /* half to even */
    UNARY(RELU, x, 0, 0, 0, 0.5f, 1.5f, 2.5f, NAN, 0);
}

/* Values to 9 digits from tables (Abramowitz and Stegun) or from the closed form beside them. */
static void functions_have_their_known_values(void **state) {
    (void)state;
    const float one[] = {1, 0};
    UNARY(SQRT, one, 1, 0);
    UNARY(RSQRT, one, 1, INFINITY);
    UNARY(RECIPROCAL, one, 1, INFINITY);
    UNARY(EXP, one, 2.71828183f, 1);
    UNARY(EXPM1, one, 1.71828183f, 0);
    UNARY(LOG, one, 0, -INFINITY);
    UNARY(LOG1P, one, 0.693147181f, 0);
    UNARY(LOG2, one, 0, -INFINITY);
    UNARY(SIN, one, 0.841470985f, 0);
    UNARY(COS, one, 0.540302306f, 1);
    UNARY(TAN, one, 1.55740772f, 0);
    UNARY(TANH, one, 0.761594156f, 0);
    UNARY(ERF, one, 0.842700793f, 0);
    UNARY(SIGMOID, one, 0.731058579f, 0.5f);
    UNARY(SILU, one, 0.731058579f, 0);
    UNARY(GELU, one, 0.841344746f, 0);      /* the normal distribution's value at 1 */
    UNARY(GELU_TANH, one, 0.841191990f, 0); /* (1 + tanh(sqrt(2 / pi) 1.044715)) / 2 */
    const float far[] = {-100, 100};
    UNARY(SIGMOID, far, 3.72007598e-44f, 1);
    UNARY(SILU, far, -3.72007598e-42f, 100);
    UNARY(TANH, far, -1, 1);
    const float tail[] = {-5}; /* -5 Phi(-5) = -5 * 2.86651572e-7 */
    UNARY(GELU, tail, -1.43325786e-6f);
}

static void integers_wrap(void **state) {
    (void)state;
    const int8_t x[] = {-128, -1, 0, 127};
    int8_t y[4];
    RUN(NEG, NULL, T(I8, y, 4), T(I8, x, 4));
    CHECK_INT(int8_t, y, -128, 1, 0, -127);
    RUN(ABS, NULL, T(I8, y, 4), T(I8, x, 4));
    CHECK_INT(int8_t, y, -128, 1, 0, 127);
    RUN(SQUARE, NULL, T(I8, y, 4), T(I8, x, 4));
    CHECK_INT(int8_t, y, 0, 1, 0, 1); /* 128^2 = 64 * 256; 127^2 = 63 * 256 + 1 */
    RUN(BIT_NOT, NULL, T(I8, y, 4), T(I8, x, 4));
    CHECK_INT(int8_t, y, 127, 0, -1, -128);
    const uint32_t u[] = {1, 0xffffffff};
    uint32_t v[2];
    RUN(NEG, NULL, T(U32, v, 2), T(U32, u, 2));
    CHECK_INT(uint32_t, v, 0xffffffff, 1);
    RUN(ADD, NULL, T(U32, v, 2), T(U32, u, 2), T(U32, u, 2));
    CHECK_INT(uint32_t, v, 2, 0xfffffffe);
    const int64_t big[] = {INT64_MIN, INT64_MAX};
    int64_t sum[2];
    RUN(ADD, NULL, T(I64, sum, 2), T(I64, big, 2), T(I64, big, 2));
    CHECK_INT(int64_t, sum, 0, -2);
    RUN(MUL, NULL, T(I64, sum, 2), T(I64, big, 2), T(I64, big, 2));
    CHECK_INT(int64_t, sum, 0, 1);
    const uint8_t flags[] = {0, 1, 1, 0};
    uint8_t not_flags[4];
    RUN(BIT_NOT, NULL, T(BOOL, not_flags, 4), T(BOOL, flags, 4));
    CHECK_INT(uint8_t, not_flags, 1, 0, 0, 1);
}

static void functions_of_integers_give_f32(void **state) {
    (void)state;
    const int32_t x[] = {4, -1, 16777217};
    float y[3];
    RUN(SQRT, NULL, T(F32, y, 2), T(I32, x, 2));
    CHECK_F32(y, 2, NAN);
    RUN(DIV, NULL, T(F32, y, 2), T(I32, x, 2), T(I32, A(int32_t, 3, 0), 2));
    CHECK_F32(y, 4.0f / 3, -INFINITY);
}

static void division_follows_the_divisors_sign(void **state) {
    (void)state;
    const int32_t a[] = {7, -7, 7, -7, 5, INT32_MIN}, b[] = {3, 3, -3, -3, 0, -1};
    int32_t y[6];
    RUN(FLOOR_DIV, NULL, T(I32, y, 6), T(I32, a, 6), T(I32, b, 6));
    CHECK_INT(int32_t, y, 2, -3, -3, 2, 0, INT32_MIN);
    RUN(REMAINDER, NULL, T(I32, y, 6), T(I32, a, 6), T(I32, b, 6));
    CHECK_INT(int32_t, y, 1, 2, -2, -1, 0, 0);
    const float fa[] = {7.5f, -7.5f, 7.5f, -7.5f, 1, -6, 5, -5}, fb[] = {2, 2, -2, -2, 0, 3, INFINITY, INFINITY};
    float q[8];
    RUN(FLOOR_DIV, NULL, T(F32, q, 8), T(F32, fa, 8), T(F32, fb, 8));
    CHECK_F32(q, 3, -4, -4, 3, INFINITY, -2, 0, -1);
    RUN(REMAINDER, NULL, T(F32, q, 8), T(F32, fa, 8), T(F32, fb, 8));
    CHECK_F32(q, 1.5f, 0.5f, -0.5f, -1.5f, NAN, 0, 5, INFINITY);
    const int64_t least[] = {INT64_MIN}, minus[] = {-1};
    int64_t z[1];
    RUN(FLOOR_DIV, NULL, T(I64, z, 1), T(I64, least, 1), T(I64, minus, 1));
    CHECK_INT(int64_t, z, INT64_MIN);
}

static void powers(void **state) {
    (void)state;
    const int32_t a[] = {3, 2, 2, 1, -1, -1, 0, -2}, b[] = {4, 31, -1, -5, -3, -2, 0, 3};
    int32_t y[8];
    RUN(POW, NULL, T(I32, y, 8), T(I32, a, 8), T(I32, b, 8));
    CHECK_INT(int32_t, y, 81, INT32_MIN, 0, 1, -1, 1, 1, -8);
    const uint8_t base[] = {3}, exponent[] = {6};
    uint8_t z[1];
    RUN(POW, NULL, T(U8, z, 1), T(U8, base, 1), T(U8, exponent, 1));
    CHECK_INT(uint8_t, z, 729 - 2 * 256);
    const float fa[] = {2, 4, -8}, fb[] = {10, -0.5f, 0.5f};
    float f[3];
    RUN(POW, NULL, T(F32, f, 3), T(F32, fa, 3), T(F32, fb, 3));
    CHECK_F32(f, 1024, 0.5f, NAN);
}

static void shifts_by_the_width_or_more(void **state) {
    (void)state;
    const int8_t a[] = {3, -3, 3, -3, -3, 3}, by[] = {2, 1, 8, 8, 100, -1};
    int8_t y[6];
    RUN(SHIFT_LEFT, NULL, T(I8, y, 6), T(I8, a, 6), T(I8, by, 6));
    CHECK_INT(int8_t, y, 12, -6, 0, 0, 0, 0);
    RUN(SHIFT_RIGHT, NULL, T(I8, y, 6), T(I8, a, 6), T(I8, by, 6));
    CHECK_INT(int8_t, y, 0, -2, 0, -1, -1, 0);
    const uint32_t u[] = {0x80000001, 0x80000001}, count[] = {31, 32};
    uint32_t v[2];
    RUN(SHIFT_LEFT, NULL, T(U32, v, 2), T(U32, u, 2), T(U32, count, 2));
    CHECK_INT(uint32_t, v, 0x80000000, 0);
    RUN(SHIFT_RIGHT, NULL, T(U32, v, 2), T(U32, u, 2), T(U32, count, 2));
    CHECK_INT(uint32_t, v, 1, 0);
}

static void maximum_and_minimum_propagate_nan(void **state) {
    (void)state;
    const float a[] = {1, NAN, 2, NAN}, b[] = {3, 0, NAN, NAN};
    float y[4];
    RUN(MAXIMUM, NULL, T(F32, y, 4), T(F32, a, 4), T(F32, b, 4));
    CHECK_F32(y, 3, NAN, NAN, NAN);
    RUN(MINIMUM, NULL, T(F32, y, 4), T(F32, a, 4), T(F32, b, 4));
    CHECK_F32(y, 1, NAN, NAN, NAN);
    const uint64_t u[] = {1, UINT64_MAX}, v[] = {2, 5};
    uint64_t z[2];
    RUN(MAXIMUM, NULL, T(U64, z, 2), T(U64, u, 2), T(U64, v, 2));
    CHECK_INT(uint64_t, z, 2, UINT64_MAX);
}

static void comparisons_and_logic(void **state) {
    (void)state;
    const float a[] = {1, 2, NAN, 0}, b[] = {1, 1, NAN, -0.0f};
    uint8_t y[4];
#define COMPARE(op, ...)                                                                                               \
    RUN(op, NULL, T(BOOL, y, 4), T(F32, a, 4), T(F32, b, 4));                                                          \
    CHECK_INT(uint8_t, y, __VA_ARGS__)
    COMPARE(EQUAL, 1, 0, 0, 1);
    COMPARE(NOT_EQUAL, 0, 1, 1, 0);
    COMPARE(LESS, 0, 0, 0, 0);
    COMPARE(LESS_EQUAL, 1, 0, 0, 1);
    COMPARE(GREATER, 0, 1, 0, 0);
    COMPARE(GREATER_EQUAL, 1, 1, 0, 1);
    COMPARE(LOGICAL_AND, 1, 1, 1, 0);
    COMPARE(LOGICAL_OR, 1, 1, 1, 0);
    const int64_t s[] = {-1, INT64_MAX}, t[] = {1, INT64_MIN};
    RUN(LESS, NULL, T(BOOL, y, 2), T(I64, s, 2), T(I64, t, 2));
    CHECK_INT(uint8_t, y, 1, 0);
    const uint64_t u[] = {UINT64_MAX}, v[] = {1};
    RUN(LESS, NULL, T(BOOL, y, 1), T(U64, u, 1), T(U64, v, 1));
    CHECK_INT(uint8_t, y, 0);
    const float special[] = {NAN, INFINITY, -INFINITY, 0};
    RUN(IS_NAN, NULL, T(BOOL, y, 4), T(F32, special, 4));
    CHECK_INT(uint8_t, y, 1, 0, 0, 0);
    RUN(IS_INF, NULL, T(BOOL, y, 4), T(F32, special, 4));
    CHECK_INT(uint8_t, y, 0, 1, 1, 0);
    RUN(LOGICAL_NOT, NULL, T(BOOL, y, 4), T(F32, special, 4));
    CHECK_INT(uint8_t, y, 0, 0, 0, 1);
    RUN(IS_NAN, NULL, T(BOOL, y, 2), T(I64, s, 2));
    CHECK_INT(uint8_t, y, 0, 0);
}

static void casts_truncate_and_saturate(void **state) {
    (void)state;
    const float x[] = {-1.9f, 1.9f, 300, -300, NAN, INFINITY, -INFINITY, 0};
    int8_t i8[8];
    RUN(CAST, &(wr_cast_args){WEIR_DTYPE_I8}, T(I8, i8, 8), T(F32, x, 8));
    CHECK_INT(int8_t, i8, -1, 1, 127, -128, 0, 127, -128, 0);
    uint64_t u64[8];
    RUN(CAST, &(wr_cast_args){WEIR_DTYPE_U64}, T(U64, u64, 8), T(F32, x, 8));
    CHECK_INT(uint64_t, u64, 0, 1, 300, 0, 0, UINT64_MAX, 0, 0);
    int64_t i64[2];
    RUN(CAST, &(wr_cast_args){WEIR_DTYPE_I64}, T(I64, i64, 2), T(F32, A(float, 0x1p63f, -0x1p63f), 2));
    CHECK_INT(int64_t, i64, INT64_MAX, INT64_MIN);
    uint8_t flags[8];
    RUN(CAST, &(wr_cast_args){WEIR_DTYPE_BOOL}, T(BOOL, flags, 8), T(F32, x, 8));
    CHECK_INT(uint8_t, flags, 1, 1, 1, 1, 1, 1, 1, 0);
    const int64_t wide[] = {-1, 256, 1 << 20, INT64_MIN};
    uint8_t u8[4];
    RUN(CAST, &(wr_cast_args){WEIR_DTYPE_U8}, T(U8, u8, 4), T(I64, wide, 4));
    CHECK_INT(uint8_t, u8, 0, 255, 255, 0);
    const uint64_t huge[] = {UINT64_MAX, 5};
    RUN(CAST, &(wr_cast_args){WEIR_DTYPE_I64}, T(I64, i64, 2), T(U64, huge, 2));
    CHECK_INT(int64_t, i64, INT64_MAX, 5);
    float f[2];
    RUN(CAST, &(wr_cast_args){WEIR_DTYPE_F32}, T(F32, f, 2), T(U64, huge, 2));
    CHECK_F32(f, 0x1p64f, 5);
    uint16_t h[4];
    RUN(CAST, &(wr_cast_args){WEIR_DTYPE_F16}, T(F16, h, 4), T(F32, A(float, 1, 65520, 0x1p-24f, -2), 4));
    CHECK_INT(uint16_t, h, 0x3c00, 0x7c00, 0x0001, 0xc000);
    RUN(CAST, &(wr_cast_args){WEIR_DTYPE_BF16}, T(BF16, h, 2), T(F16, A(uint16_t, 0x3c00, 0x3c01), 2));
    CHECK_INT(uint16_t, h, 0x3f80, 0x3f80);
}

static void select_takes_by_condition(void **state) {
    (void)state;
    const uint8_t c[] = {1, 0, 1};
    const int32_t a[] = {1, 2, 3}, b[] = {-1, -2, -3};
    int32_t y[3];
    RUN(SELECT, NULL, T(I32, y, 3), T(BOOL, c, 3), T(I32, a, 3), T(I32, b, 3));
    CHECK_INT(int32_t, y, 1, -2, 3);
}

static void half_precision_rounds_once_from_f32(void **state) {
    (void)state;
    /* bf16 has 8 bits: 256 + 1 lies between 256 and 258 and goes to even. */
    const uint16_t a[] = {0x4380, 0x4381}, one[] = {0x3f80, 0x3f80};
    uint16_t y[2];
    RUN(ADD, NULL, T(BF16, y, 2), T(BF16, a, 2), T(BF16, one, 2));
    CHECK_INT(uint16_t, y, 0x4380, 0x4382); /* 257 -> 256, 259 -> 260 */
    const uint16_t big[] = {0x7bff};        /* 65504 */
    RUN(ADD, NULL, T(F16, y, 1), T(F16, big, 1), T(F16, big, 1));
    CHECK_INT(uint16_t, y, 0x7c00);
}

/* A row broadcast against a transposed matrix, longer than one chunk of the kernel. */
static void strides_of_zero_and_transposed_inputs(void **state) {
    (void)state;
    enum { ROWS = 3, COLS = 150 };
    float matrix[COLS * ROWS], row[COLS], y[ROWS * COLS];
    fill_noise(matrix, COLS * ROWS, 1);
    fill_noise(row, COLS, 2);
    wr_tensor a = T(F32, matrix, ROWS, COLS), b = T(F32, row, ROWS, COLS);
    a.strides[0] = 1;
    a.strides[1] = ROWS;
    b.strides[0] = 0;
    RUN(SUB, NULL, T(F32, y, ROWS, COLS), a, b);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLS; j++) assert_true(y[i * COLS + j] == matrix[j * ROWS + i] - row[j]);
    float scalar = 2, sum;
    RUN(ADD, NULL, SCALAR(F32, &sum), SCALAR(F32, &scalar), SCALAR(F32, &scalar));
    assert_true(sum == 4);
    RUN(ADD, NULL, T(F32, y, 0, 7), T(F32, NULL, 0, 7), T(F32, NULL, 0, 7));
}

static void fused_chain_has_the_bits_of_its_ops(void **state) {
    (void)state;
    enum { COUNT = 200 };
    float noise_a[COUNT], noise_b[COUNT];
    uint16_t a[COUNT], b[COUNT], silu[COUNT], product[COUNT], fused[COUNT];
    uint8_t truth[COUNT], fused_truth[COUNT];
    fill_noise(noise_a, COUNT, 3);
    fill_noise(noise_b, COUNT, 4);
    for (int i = 0; i < COUNT; i++) {
        a[i] = wr_f32_to_bf16(4 * noise_a[i]);
        b[i] = wr_f32_to_bf16(noise_b[i]);
    }
    RUN(SILU, NULL, T(BF16, silu, COUNT), T(BF16, a, COUNT));
    RUN(MUL, NULL, T(BF16, product, COUNT), T(BF16, silu, COUNT), T(BF16, b, COUNT));
    RUN(GREATER, NULL, T(BOOL, truth, COUNT), T(BF16, product, COUNT), T(BF16, b, COUNT));
    wr_fused_args args = {.n = 2, .code = {{WR_OP_SILU, WEIR_DTYPE_BF16, {0}}, {WR_OP_MUL, WEIR_DTYPE_BF16, {2, 1}}}};
    RUN(FUSED, &args, T(BF16, fused, COUNT), T(BF16, a, COUNT), T(BF16, b, COUNT));
    assert_memory_equal(fused, product, sizeof fused);
    args.n = 3;
    args.code[2].op = WR_OP_GREATER;
    args.code[2].dtype = WEIR_DTYPE_BOOL;
    args.code[2].in[0] = 3;
    args.code[2].in[1] = 1;
    RUN(FUSED, &args, T(BOOL, fused_truth, COUNT), T(BF16, a, COUNT), T(BF16, b, COUNT));
    assert_memory_equal(fused_truth, truth, sizeof truth);
    wr_fused_args mixed = {.n = 3,
                           .code = {{WR_OP_CAST, WEIR_DTYPE_F32, {0}},
                                    {WR_OP_RELU, WEIR_DTYPE_F32, {1}},
                                    {WR_OP_CAST, WEIR_DTYPE_I32, {2}}}};
    int32_t y[4];
    RUN(FUSED, &mixed, T(I32, y, 4), T(BF16, A(uint16_t, 0x4049, 0xc049, 0x7fc0, 0x3f00), 4));
    CHECK_INT(int32_t, y, 3, 0, 0, 0); /* 3.14, -3.14, NaN, 0.5 */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unary_numeric_ops_of_floats),
        cmocka_unit_test(functions_have_their_known_values),
        cmocka_unit_test(integers_wrap),
        cmocka_unit_test(functions_of_integers_give_f32),
        cmocka_unit_test(division_follows_the_divisors_sign),
        cmocka_unit_test(powers),
        cmocka_unit_test(shifts_by_the_width_or_more),
        cmocka_unit_test(maximum_and_minimum_propagate_nan),
        cmocka_unit_test(comparisons_and_logic),
        cmocka_unit_test(casts_truncate_and_saturate),
        cmocka_unit_test(select_takes_by_condition),
        cmocka_unit_test(half_precision_rounds_once_from_f32),
        cmocka_unit_test(strides_of_zero_and_transposed_inputs),
        cmocka_unit_test(fused_chain_has_the_bits_of_its_ops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
