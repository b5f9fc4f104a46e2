/* Fast element-wise kernels: accuracy against the reference (double, rounded once), broadcast layouts, and fused chains
 * that give the bits of the single ops. */
#include "fast_test.h"

#include "cpu/ref/kernels.h"

static const wr_op_id unary_ops[] = {WR_OP_NEG,       WR_OP_ABS,   WR_OP_SIGN, WR_OP_SQUARE,  WR_OP_FLOOR,
                                     WR_OP_CEIL,      WR_OP_ROUND, WR_OP_SQRT, WR_OP_RSQRT,   WR_OP_RECIPROCAL,
                                     WR_OP_EXP,       WR_OP_EXPM1, WR_OP_TANH, WR_OP_SIGMOID, WR_OP_SILU,
                                     WR_OP_GELU_TANH, WR_OP_RELU};
static const wr_op_id binary_ops[] = {WR_OP_ADD, WR_OP_SUB, WR_OP_MUL, WR_OP_DIV, WR_OP_MAXIMUM, WR_OP_MINIMUM};
static const wr_op_id compare_ops[] = {WR_OP_EQUAL,      WR_OP_NOT_EQUAL, WR_OP_LESS,
                                       WR_OP_LESS_EQUAL, WR_OP_GREATER,   WR_OP_GREATER_EQUAL};
#define F32         WEIR_DTYPE_F32
#define F16         WEIR_DTYPE_F16
#define BF16        WEIR_DTYPE_BF16
#define I32         WEIR_DTYPE_I32
#define BOOL        WEIR_DTYPE_BOOL
#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))

/* Units in the last place that an op may be off by. */
static int ulps_of(wr_op_id op) {
    switch (op) {
    case WR_OP_EXP: return 2;
    case WR_OP_RSQRT: return 2;
    case WR_OP_EXPM1: return 3;
    case WR_OP_TANH:
    case WR_OP_SIGMOID:
    case WR_OP_SILU: return 4;
    case WR_OP_GELU_TANH: return 4; /* and see test_gelu: the exponent's own error grows with |x| */
    default: return 0;
    }
}

static int64_t ordered_bits(float x) {
    int32_t b;
    memcpy(&b, &x, 4);
    return b < 0 ? -(int64_t)(b & 0x7fffffff) : b;
}
static int64_t ulps_between(float a, float b) {
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b) ? 0 : INT64_MAX;
    int64_t d = ordered_bits(a) - ordered_bits(b);
    return d < 0 ? -d : d;
}

/* Values of all magnitudes, edges and specials. */
static void fill_wide(const wr_tensor *t) {
    static const float special[] = {
        0.0f,    -0.0f, INFINITY,   -INFINITY,  NAN,      1,      -1,      0.5f, -0.5f, 1.5f,   2.5f,
        -2.5f,   88.7f, 88.73f,     89,         -87.3f,   -87.4f, -103.9f, -104, -110,  1e-38f, 1e-42f,
        -1e-42f, 3e38f, 8388607.5f, 4194304.5f, -8388609, 1e-8f,  -1e-8f,  20,   -20,   9.01f,  -9.01f};
    int64_t n = tensor_size(t);
    for (int64_t i = 0; i < n; i++) {
        float x = i < COUNT(special) ? special[i] : noise((uint64_t)i) * powf(10, 3 * noise((uint64_t)i + 777777) - 1);
        put(t, i, x);
    }
}

static void run_op(wr_op_id op, wr_tensor *in, int n_in, wr_tensor *out, wr_cpu_isa level, int threads) {
    wr_cast_args cast = {.dtype = out->dtype};
    wr_step step = {.op = op, .args = &cast, .n_in = n_in, .in = in, .out = *out};
    run_level(wr_cpu_elementwise_rows, &step, level, threads, false);
}
static void run_reference(wr_op_id op, wr_tensor *in, int n_in, wr_tensor *out) {
    wr_cast_args cast = {.dtype = out->dtype};
    wr_step step = {.op = op, .args = &cast, .n_in = n_in, .in = in, .out = *out};
    wr_ref_elementwise(&step, 0, 1);
}

static void test_unary_functions_are_within_their_stated_ulps(void **state) {
    (void)state;
    enum { N = 40013 };
    wr_tensor x = TENSOR(WEIR_DTYPE_F32, N), y = TENSOR(WEIR_DTYPE_F32, N), want = TENSOR(WEIR_DTYPE_F32, N);
    fill_wide(&x);
    for (int o = 0; o < COUNT(unary_ops); o++) {
        run_reference(unary_ops[o], &x, 1, &want);
        FOR_EACH_LEVEL(level) {
            run_op(unary_ops[o], &x, 1, &y, level, 2);
            for (int64_t i = 0; i < N; i++) {
                float a = ((float *)y.data)[i], b = ((float *)want.data)[i], v = ((float *)x.data)[i];
                int allowed = ulps_of(unary_ops[o]);
                /* Near the smallest normal number the error is absolute; 1 / (1 + e^89) is already 0. */
                bool tiny = fabsf(b) < 5e-37f && fabsf(a) < 5e-37f && allowed;
                if (unary_ops[o] == WR_OP_SILU && isinf(v)) continue; /* -inf / inf: both give NaN or its limit */
                if (unary_ops[o] == WR_OP_GELU_TANH && !isnan(v)) allowed = 4 + (int)(4 * v * v + fabsf(v * v * v) / 4);
                if (unary_ops[o] == WR_OP_GELU_TANH && fabsf(v) > 5) continue;
                if (!tiny && ulps_between(a, b) > allowed)
                    fail_msg("op %d of %.9g: %.9g, should be %.9g (%d ulp)", unary_ops[o], v, a, b,
                             (int)ulps_between(a, b));
            }
        }
    }
    free_tensor(&x), free_tensor(&y), free_tensor(&want);
}

/* gelu_tanh in the whole range: absolute error below 1e-6 of |x| (the reference's own form cancels below -5). */
static void test_gelu_tanh_is_right_in_the_tails(void **state) {
    (void)state;
    enum { N = 4001 };
    wr_tensor x = TENSOR(WEIR_DTYPE_F32, N), y = TENSOR(WEIR_DTYPE_F32, N);
    for (int i = 0; i < N; i++) put(&x, i, (float)(i - 2000) / 100);
    FOR_EACH_LEVEL(level) {
        run_op(WR_OP_GELU_TANH, &x, 1, &y, level, 1);
        for (int i = 0; i < N; i++) {
            double v = get(&x, i), u = sqrt(2 / M_PI) * (v + 0.044715 * v * v * v), want = v / (1 + exp(-2 * u));
            assert_true(fabs(get(&y, i) - want) <= 1e-6 * fabs(want) * (1 + fabs(u)) + 1e-37);
        }
    }
    free_tensor(&x), free_tensor(&y);
}

static void test_binary_and_compare_equal_the_reference_in_every_layout(void **state) {
    (void)state;
    /* b: whole, row, column, scalar, transposed. */
    static const int64_t strides[][3] = {{1309, 77, 1}, {0, 0, 1}, {17, 1, 0}, {0, 0, 0}, {1, 3 * 77, 3}};
    wr_tensor in[2] = {TENSOR(WEIR_DTYPE_F32, 3, 17, 77), TENSOR(WEIR_DTYPE_F32, 3, 17, 77)};
    wr_tensor out = TENSOR(WEIR_DTYPE_F32, 3, 17, 77), want = TENSOR(WEIR_DTYPE_F32, 3, 17, 77);
    wr_tensor truth = TENSOR(WEIR_DTYPE_BOOL, 3, 17, 77), want_truth = TENSOR(WEIR_DTYPE_BOOL, 3, 17, 77);
    fill_wide(&in[0]);
    fill(&in[1], 3, 4);
    for (int64_t i = 40; i < 80; i++) put(&in[1], i, (float)get(&in[0], i));
    for (int s = 0; s < COUNT(strides); s++) {
        memcpy(in[1].strides, strides[s], sizeof strides[s]);
        FOR_EACH_LEVEL(level) {
            for (int o = 0; o < COUNT(binary_ops); o++) {
                run_reference(binary_ops[o], in, 2, &want);
                run_op(binary_ops[o], in, 2, &out, level, 2);
                for (int64_t i = 0; i < tensor_size(&out); i++)
                    if (ulps_between(((float *)out.data)[i], ((float *)want.data)[i]))
                        fail_msg("op %d layout %d element %d", binary_ops[o], s, (int)i);
            }
            for (int o = 0; o < COUNT(compare_ops); o++) {
                run_reference(compare_ops[o], in, 2, &want_truth);
                run_op(compare_ops[o], in, 2, &truth, level, 1);
                assert_memory_equal(truth.data, want_truth.data, tensor_bytes(&truth));
            }
        }
    }
    free_tensor(&in[0]), free_tensor(&in[1]), free_tensor(&out), free_tensor(&want);
    free_tensor(&truth), free_tensor(&want_truth);
}

static void test_half_types_and_casts_equal_the_reference(void **state) {
    (void)state;
    static const weir_dtype types[] = {WEIR_DTYPE_F32, WEIR_DTYPE_F16, WEIR_DTYPE_BF16};
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++) {
            wr_tensor in[2] = {TENSOR(types[a], 1003), TENSOR(types[a], 1003)};
            wr_tensor out = TENSOR(types[b], 1003), want = TENSOR(types[b], 1003);
            fill_wide(&in[0]);
            fill(&in[1], 8, 3);
            FOR_EACH_LEVEL(level) {
                static const wr_op_id ops[] = {WR_OP_CAST, WR_OP_ADD, WR_OP_MUL, WR_OP_RELU, WR_OP_SQUARE};
                for (int o = 0; o < COUNT(ops); o++) {
                    int n_in = ops[o] == WR_OP_ADD || ops[o] == WR_OP_MUL ? 2 : 1;
                    run_reference(ops[o], in, n_in, &want);
                    run_op(ops[o], in, n_in, &out, level, 1);
                    for (int64_t i = 0; i < 1003; i++) {
                        double x = get(&out, i), y = get(&want, i);
                        if (!(x == y || (isnan(x) && isnan(y))))
                            fail_msg("op %d, %s to %s, %.9g: %.9g, should be %.9g", ops[o], weir_dtype_name(types[a]),
                                     weir_dtype_name(types[b]), get(&in[0], i), x, y);
                    }
                }
            }
            free_tensor(&in[0]), free_tensor(&in[1]), free_tensor(&out), free_tensor(&want);
        }
}

/* down-projection gate of a model and a chain through every kind of register: each step alone, then fused. */
static void check_chain(const wr_fused_args *code, int n_in, wr_tensor *in, int64_t rows, int64_t n) {
    FOR_EACH_LEVEL(level) {
        wr_tensor regs[WR_MAX_INPUTS + WR_FUSED_MAX];
        for (int k = 0; k < n_in; k++) regs[k] = in[k];
        for (int k = 0; k < code->n; k++) {
            wr_tensor operands[3];
            wr_op_id op = (wr_op_id)code->code[k].op;
            int count = op == WR_OP_SELECT ? 3 : op >= WR_OP_ADD && op <= WR_OP_GREATER_EQUAL ? 2 : 1;
            for (int i = 0; i < count; i++) operands[i] = regs[code->code[k].in[i]];
            wr_tensor y = TENSOR((weir_dtype)code->code[k].dtype, rows, n);
            wr_cast_args cast = {.dtype = y.dtype};
            wr_step step = {.op = op, .args = &cast, .n_in = count, .in = operands, .out = y};
            assert_true(wr_cpu_level_force(level));
            const wr_kernel_row *row = wr_cpu_elementwise_rows;
            while (row->run && !row->fits(&step)) row++;
            if (row->run)
                row->run(&step, 0, 1);
            else
                wr_ref_elementwise(&step, 0, 1);
            regs[n_in + k] = y;
        }
        wr_step step = {.op = WR_OP_FUSED, .args = code, .n_in = n_in, .in = in};
        step.out = TENSOR((weir_dtype)code->code[code->n - 1].dtype, rows, n);
        for (int threads = 1; threads <= 5; threads += 2) {
            run_level(wr_cpu_fused_rows, &step, level, threads, false);
            assert_memory_equal(step.out.data, regs[n_in + code->n - 1].data, tensor_bytes(&step.out));
        }
        free_tensor(&step.out);
        for (int k = 0; k < code->n; k++) free_tensor(&regs[n_in + k]);
    }
}

static void test_fused_chains_have_the_bits_of_their_single_ops(void **state) {
    (void)state;
    static const int64_t sizes[][2] = {{1, 1}, {1, 576}, {3, 1536}, {37, 300}, {129, 7}};
    for (int s = 0; s < COUNT(sizes); s++) {
        int64_t rows = sizes[s][0], n = sizes[s][1];
        wr_tensor in[4] = {TENSOR(F32, rows, n), TENSOR(F32, rows, n), TENSOR(BF16, rows, n), TENSOR(I32, rows, n)};
        for (int i = 0; i < 4; i++) fill(&in[i], 60 + (uint64_t)i, i == 3 ? 50 : 4);
        wr_tensor row = in[1];
        row.strides[0] = 0;
        wr_fused_args gate = {.n = 2, .code = {{WR_OP_SILU, F32, {0}}, {WR_OP_MUL, F32, {2, 1}}}};
        check_chain(&gate, 2, in, rows, n);
        wr_tensor with_row[2] = {in[0], row};
        wr_fused_args broadcast = {
            .n = 3, .code = {{WR_OP_ADD, F32, {0, 1}}, {WR_OP_GELU_TANH, F32, {2}}, {WR_OP_MUL, F32, {3, 1}}}};
        check_chain(&broadcast, 2, with_row, rows, n);
        wr_fused_args half = {
            .n = 4,
            .code = {
                {WR_OP_CAST, F32, {2}}, {WR_OP_MUL, F32, {4, 0}}, {WR_OP_CAST, F16, {5}}, {WR_OP_SQUARE, F16, {6}}}};
        check_chain(&half, 4, in, rows, n);
        wr_fused_args mixed = {.n = 9,
                               .code = {{WR_OP_ABS, I32, {3}},
                                        {WR_OP_CAST, F32, {4}},
                                        {WR_OP_LOG1P, F32, {5}},
                                        {WR_OP_EXP, F32, {0}},
                                        {WR_OP_LESS, BOOL, {7, 6}},
                                        {WR_OP_SELECT, F32, {8, 7, 1}},
                                        {WR_OP_CAST, BF16, {9}},
                                        {WR_OP_ERF, BF16, {10}},
                                        {WR_OP_ADD, BF16, {11, 2}}}};
        check_chain(&mixed, 4, in, rows, n);
        wr_fused_args whole = {.n = 2, .code = {{WR_OP_EXP, F32, {0}}, {WR_OP_CAST, I32, {4}}}};
        check_chain(&whole, 4, in, rows, n);
        for (int i = 0; i < 4; i++) free_tensor(&in[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unary_functions_are_within_their_stated_ulps),
        cmocka_unit_test(test_gelu_tanh_is_right_in_the_tails),
        cmocka_unit_test(test_binary_and_compare_equal_the_reference_in_every_layout),
        cmocka_unit_test(test_half_types_and_casts_equal_the_reference),
        cmocka_unit_test(test_fused_chains_have_the_bits_of_their_single_ops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
