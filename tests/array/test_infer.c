/* Shapes and dtypes of results, and the messages of bad input. */
#include <math.h>

#include "array_test.h"

static weir_device *device;
static weir_graph *g;
static int setup(void **state) {
    (void)state;
    device = open_fake(&fake_backend, 1);
    g = new_graph(device);
    return 0;
}
static int teardown(void **state) {
    (void)state;
    weir_graph_free(g);
    weir_device_close(device);
    return 0;
}

static void check(weir_array *a, const char *want) {
    if (a->poisoned) fail_msg("poisoned: %s", a->graph->error.message);
    assert_string_equal(wr_describe(a).s, want);
}
#define L(dtype, ...) leaf(g, WEIR_DTYPE_##dtype, DIMS(__VA_ARGS__))

static void reductions(void **state) {
    (void)state;
    weir_array *x = L(BF16, 2, 3, 4), *i = L(I16, 2, 3);
    check(weir_sum(x, 0, NULL, false), "bf16 []");
    check(weir_sum(x, 2, (int[]){0, -1}, false), "bf16 [3]");
    check(weir_sum(x, 1, (int[]){1}, true), "bf16 [2, 1, 4]");
    check(weir_sum(i, 0, NULL, false), "i64 []");
    check(weir_sum(L(U8, 2), 0, NULL, false), "u64 []");
    check(weir_sum(L(BOOL, 2), 0, NULL, false), "i64 []");
    check(weir_mean(i, 0, NULL, true), "f32 [1, 1]");
    check(weir_max(i, 1, (int[]){0}, false), "i16 [3]");
    check(weir_logsumexp(x, 1, (int[]){-1}, false), "bf16 [2, 3]");
    check(weir_argmax(x, 1), "i32 [2, 4]");
    check(weir_softmax(i, -1), "f32 [2, 3]");
    check(weir_argsort(x, 0, true), "i32 [2, 3, 4]");
    check(weir_top_k(x, -1, 2), "bf16 [2, 3, 2]");
    check(weir_arg_top_k(x, -1, 0), "i32 [2, 3, 0]");
    check(weir_cumsum(x, 0, false, false), "bf16 [2, 3, 4]");
    check(weir_max(L(F32, 0, 3), 1, (int[]){1}, false), "f32 [0]");
    check(weir_sum(L(F32, 0, 3), 1, (int[]){0}, false), "f32 [3]");
}

static void moving(void **state) {
    (void)state;
    weir_array *x = L(F32, 5, 6);
    check(weir_slice(x, (int64_t[]){1, -1}, (int64_t[]){-1, -7}, (int64_t[]){2, -2}), "f32 [2, 3]");
    check(weir_slice(x, (int64_t[]){3, 0}, (int64_t[]){1, 99}, NULL), "f32 [0, 6]");
    check(weir_slice(x, (int64_t[]){0, 0}, NULL, (int64_t[]){INT64_MAX, 4}), "f32 [1, 2]");
    check(weir_slice(x, (int64_t[]){-1, -1}, NULL, (int64_t[]){INT64_MIN, -1}), "f32 [1, 6]");
    check(weir_transpose(x, (int[]){-1, 0}), "f32 [6, 5]");
    check(weir_reshape(x, 3, (int64_t[]){2, -1, 5}), "f32 [2, 3, 5]");
    check(weir_reshape(L(F32, 0, 4), 2, (int64_t[]){4, 0}), "f32 [4, 0]");
    check(weir_reshape(L(F32, 1), 0, NULL), "f32 []");
    check(weir_broadcast(weir_scalar_i32(g, 1), 2, (int64_t[]){0, 3}), "i32 [0, 3]");
    check(weir_take(x, L(U8, 2, 2), 1), "f32 [5, 2, 2]");
    check(weir_take(x, weir_scalar_i32(g, 1), 0), "f32 [6]");
    check(weir_take_along(x, L(I64, 5, 9), 1), "f32 [5, 9]");
    check(weir_scatter_add(x, L(I32, 2, 6), L(BF16, 2, 6), 0), "f32 [5, 6]");
    check(weir_concat((weir_array *[]){x, L(BF16, 5, 1)}, 2, -1), "f32 [5, 7]");
    check(weir_pad(x, (int64_t[]){1, 0}, (int64_t[]){0, 2}, 0), "f32 [6, 8]");
    check(weir_slice_update(x, weir_scalar_f32(g, 0), (int64_t[]){1, 1}, (int64_t[]){3, 3}, NULL), "f32 [5, 6]");
    weir_array *many[40];
    for (int i = 0; i < 40; i++) many[i] = L(U8, 2, 3);
    check(weir_concat(many, 40, 0), "u8 [80, 3]");
}

static void making(void **state) {
    (void)state;
    check(weir_arange(g, WEIR_DTYPE_I32, 0, 10, 3), "i32 [4]");
    check(weir_arange(g, WEIR_DTYPE_F32, 0, -1, 1), "f32 [0]");
    check(weir_arange(g, WEIR_DTYPE_F32, 1, 0, -0.25), "f32 [4]");
    check(weir_full(g, WEIR_DTYPE_BOOL, 0, NULL, 1), "bool []");
    check(weir_random_bits(g, DIMS(3, 0), 1, 2), "u32 [3, 0]");
}

static void products(void **state) {
    (void)state;
    check(weir_matmul(L(F16, 5, 1, 2, 3), L(BF16, 4, 3, 7)), "f32 [5, 4, 2, 7]");
    check(weir_matmul(L(F32, 3), L(F32, 3)), "f32 []");
    check(weir_matmul(L(F32, 3), L(F32, 2, 3, 4)), "f32 [2, 4]");
    check(weir_matmul(L(F32, 2, 5, 3), L(F32, 3)), "f32 [2, 5]");
    check(weir_matmul(L(F32, 2, 0), L(F32, 0, 3)), "f32 [2, 3]");
    check(weir_linear(L(BF16, 2, 7, 64), L(BF16, 9, 64)), "bf16 [2, 7, 9]");
    weir_quant affine = {WEIR_QUANT_AFFINE, 32, 3}, q6 = {.mode = WEIR_QUANT_Q6_K}, mx = {.mode = WEIR_QUANT_MXFP4};
    weir_array *w, *s, *b;
    weir_quantize(L(BF16, 10, 64), affine, &w, &s, &b);
    check(w, "u32 [10, 6]");
    check(s, "bf16 [10, 2]");
    check(b, "bf16 [10, 2]");
    check(weir_quantized_matmul(L(F32, 1, 64), w, s, b, affine), "f32 [1, 10]");
    check(weir_dequantize(w, s, b, affine, WEIR_DTYPE_F16), "f16 [10, 64]");
    weir_quantize(L(F32, 2, 10, 64), mx, &w, &s, &b);
    assert_null(b);
    check(s, "u8 [2, 10, 2]");
    check(weir_gather_quantized_matmul(L(F16, 3, 64), L(I32, 3), w, s, NULL, mx), "f16 [3, 10]");
    check(weir_dequantize(w, s, NULL, mx, WEIR_DTYPE_F32), "f32 [2, 10, 64]");
    check(weir_quantized_matmul(L(F32, 0, 512), L(U8, 3, 420), NULL, NULL, q6), "f32 [0, 3]");
}

static void transformers(void **state) {
    (void)state;
    check(weir_rms_norm(L(BF16, 2, 8), L(BF16, 8), 1e-6f), "bf16 [2, 8]");
    check(weir_layer_norm(L(F16, 8), NULL, L(F32, 8), 1e-6f), "f16 [8]");
    check(weir_rope(L(BF16, 5, 2, 8), L(I64, 5), NULL), "bf16 [5, 2, 8]");
    check(weir_attention(L(F16, 1, 8, 3, 16), L(F16, 1, 2, 9, 16), L(F16, 1, 2, 9, 4), L(BOOL, 3, 9), L(F16, 8), NULL),
          "f16 [1, 8, 3, 4]");
    wr_attention_args paged = {.scale = 1};
#define PAGED(mask)                                                                                                    \
    wr_paged_attention(L(F16, 5, 8, 16), L(BF16, 3, 32, 2, 16), L(BF16, 3, 32, 2, 4), L(I32, 1, 2), L(I32, 5),         \
                       L(I32, 5), mask, L(F32, 8), &paged)
    check(PAGED(NULL), "f16 [5, 8, 4]");
    check(PAGED(L(BOOL, 5, 8, 64)), "f16 [5, 8, 4]");
    check(PAGED(L(BF16, 5, 1, 7)), "f16 [5, 8, 4]");
    check(PAGED(L(F32, 8, 100)), "f16 [5, 8, 4]");
    check(PAGED(L(BOOL, 0)), "f16 [5, 8, 4]");
    check(weir_conv1d(L(F32, 2, 10, 6), L(F32, 6, 4, 1), L(F32, 6), 2, 1, 6, 3, 0), "f32 [2, 5, 6]");
    check(weir_conv1d(L(F32, 2, 2, 6), L(F32, 6, 4, 1), NULL, 1, 1, 6, 0, 0), "f32 [2, 0, 6]");
}

/* Each in a graph of its own: the message must hold the op's name and the values given. */
#define REFUSED(expression, ...)                                                                                       \
    do {                                                                                                               \
        weir_graph *outer = g;                                                                                         \
        g = new_graph(device);                                                                                         \
        weir_array *bad = (expression);                                                                                \
        assert_true(bad->poisoned);                                                                                    \
        const char *const words[] = {__VA_ARGS__};                                                                     \
        weir_error refusal;                                                                                            \
        assert_int_not_equal(weir_eval(&bad, 1, &refusal), WEIR_OK);                                                   \
        for (size_t word = 0; word < sizeof words / sizeof *words; word++)                                             \
            if (!strstr(refusal.message, words[word])) fail_msg("no \"%s\" in: %s", words[word], refusal.message);     \
        weir_graph_free(g);                                                                                            \
        g = outer;                                                                                                     \
    } while (0)

static void messages_name_op_and_values(void **state) {
    (void)state;
    REFUSED(weir_add(L(F32, 2, 3), L(BF16, 4)), "add", "f32 [2, 3]", "bf16 [4]");
    REFUSED(weir_add(L(BOOL, 2), L(BOOL, 2)), "add", "bool [2]");
    REFUSED(weir_neg(L(BOOL, 2)), "neg", "bool [2]");
    REFUSED(weir_bit_and(L(F32, 2), L(I32, 2)), "bit_and", "f32 [2]");
    REFUSED(weir_select(L(F32, 2), L(F32, 2), L(F32, 2)), "select", "bool");
    REFUSED(weir_cast(L(F32, 2), (weir_dtype)77), "cast", "77");
    REFUSED(weir_sum(L(F32, 2, 3), 1, (int[]){2}, false), "sum", "axis 2", "f32 [2, 3]");
    REFUSED(weir_sum(L(F32, 2, 3), 2, (int[]){1, -1}, false), "sum", "-1", "twice");
    REFUSED(weir_max(L(F32, 2, 0), 0, NULL, false), "max", "f32 [2, 0]");
    REFUSED(weir_argmax(L(F32, 2, 0), -1), "argmax", "f32 [2, 0]");
    REFUSED(weir_softmax(weir_scalar_f32(g, 1), 0), "softmax", "axis 0", "f32 []");
    REFUSED(weir_top_k(L(F32, 3), 0, 4), "top_k", "4", "f32 [3]");
    REFUSED(weir_take(L(F32, 3), L(F32, 3), 0), "take", "f32 [3]", "i32 or i64");
    REFUSED(weir_take_along(L(F32, 3, 4), L(I32, 2, 4), 1), "take_along", "i32 [2, 4]");
    REFUSED(weir_scatter(L(F32, 3), L(I32, 2), L(F32, 1), 0), "scatter", "f32 [1]");
    REFUSED(weir_slice(L(F32, 3), NULL, NULL, (int64_t[]){0}), "slice", "axis 0");
    REFUSED(weir_slice_update(L(F32, 3), L(F32, 2), (int64_t[]){0}, (int64_t[]){3}, NULL), "f32 [2]", "[3]");
    REFUSED(weir_concat((weir_array *[]){L(F32, 3), L(F32, 3, 1)}, 2, 0), "concat", "input 1", "f32 [3, 1]");
    REFUSED(weir_pad(L(F32, 3), (int64_t[]){-1}, NULL, 0), "pad", "-1");
    REFUSED(weir_transpose(L(F32, 3, 4), (int[]){0, 0}), "transpose", "[0, 0]");
    REFUSED(weir_reshape(L(F32, 3, 4), 2, (int64_t[]){5, -1}), "reshape", "[5, -1]");
    REFUSED(weir_reshape(L(F32, 3, 4), 2, (int64_t[]){5, 2}), "reshape", "12", "10");
    REFUSED(weir_broadcast(L(F32, 3), 2, (int64_t[]){3, 2}), "broadcast", "f32 [3]", "[3, 2]");
    REFUSED(weir_arange(g, WEIR_DTYPE_F32, 0, 1, 0), "arange", "step 0");
    REFUSED(weir_arange(g, WEIR_DTYPE_F32, 0, (double)NAN, 1), "arange");
    REFUSED(weir_full(g, WEIR_DTYPE_F32, 2, (int64_t[]){INT64_MAX / 4, 3}, 0), "full", "too large");
    REFUSED(weir_full(g, WEIR_DTYPE_F32, 1, (int64_t[]){-1}, 0), "full", "-1");
    REFUSED(weir_full(g, WEIR_DTYPE_F32, 9, (int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1}, 0), "full", "9");
    REFUSED(weir_matmul(L(F32, 2, 3), L(F32, 4, 5)), "matmul", "f32 [2, 3]", "f32 [4, 5]");
    REFUSED(weir_matmul(L(F32, 2, 2, 3), L(F32, 3, 3, 5)), "matmul", "batch");
    REFUSED(weir_linear(L(F32, 2, 3), L(F32, 4, 5)), "linear", "f32 [2, 3]");
    REFUSED(weir_quantized_matmul(L(F32, 2, 64), L(U32, 4, 8), L(F32, 4, 3), L(F32, 4, 2),
                                  (weir_quant){WEIR_QUANT_AFFINE, 32, 4}),
            "linear", "scales", "f32 [4, 3]");
    REFUSED(
        weir_quantized_matmul(L(F32, 2, 64), L(U32, 4, 8), L(F32, 4, 2), NULL, (weir_quant){WEIR_QUANT_AFFINE, 32, 4}),
        "linear", "3 parts");
    REFUSED(
        weir_quantized_matmul(L(F32, 2, 64), L(U32, 4, 8), L(F32, 4, 2), NULL, (weir_quant){WEIR_QUANT_AFFINE, 48, 7}),
        "48", "7");
    REFUSED(weir_quantized_matmul(L(F32, 2, 64), L(U8, 4, 19), NULL, NULL, (weir_quant){.mode = WEIR_QUANT_Q4_0}),
            "u8 [4, 19]");
    REFUSED(weir_rms_norm(L(F32, 2, 3), L(F32, 4), 0), "rms_norm", "f32 [4]", "f32 [2, 3]");
    REFUSED(weir_rope(L(F32, 2, 1, 8), L(I32, 2), &(weir_rope_options){.dims = 7}), "rope", "7");
    REFUSED(weir_rope(L(F32, 2, 1, 8), L(I32, 3), NULL), "rope", "f32 [3, 2, 4]");
    REFUSED(weir_attention(L(F32, 1, 3, 1, 8), L(F32, 1, 2, 1, 8), L(F32, 1, 2, 1, 8), NULL, NULL, NULL), "attention",
            "[1, 3, 1, 8]");
    REFUSED(weir_attention(L(F32, 1, 2, 1, 8), L(F32, 1, 2, 1, 8), L(F32, 1, 2, 1, 8), L(F32, 7), NULL, NULL),
            "f32 [7]");
    wr_attention_args paged = {.scale = 1};
    REFUSED(PAGED(L(BOOL, 4, 8, 64)), "paged_attention", "bool [4, 8, 64]", "[5 or 1, 8 or 1, keys]");
    REFUSED(PAGED(L(F32, 2, 64)), "f32 [1, 2, 64]");
    REFUSED(PAGED(L(I32, 5, 8, 64)), "i32 [5, 8, 64]", "bool or float");
    REFUSED(PAGED(L(F32, 1, 5, 8, 64)), "f32 [1, 5, 8, 64]");
    REFUSED(PAGED(weir_scalar_f32(g, 0)), "paged_attention", "f32 []");
    REFUSED(weir_conv1d(L(F32, 1, 4, 6), L(F32, 6, 2, 2), NULL, 1, 1, 6, 0, 0), "conv1d", "f32 [6, 2, 2]");
    REFUSED(weir_conv1d(L(F32, 1, 4, 6), L(F32, 6, 2, 1), NULL, 0, 1, 6, 0, 0), "conv1d", "stride 0");
}

static void broken_data_is_refused(void **state) {
    (void)state;
    float x[4] = {0};
    REFUSED(weir_from_data(g, WEIR_DTYPE_F32, 1, (int64_t[]){4}, NULL), "NULL");
    REFUSED(weir_from_data(g, (weir_dtype)-1, 1, (int64_t[]){4}, x), "dtype");
    REFUSED(weir_from_data(g, WEIR_DTYPE_F32, 2, (int64_t[]){INT64_MAX, INT64_MAX}, x), "too large");
    wr_buffer *buffer;
    weir_error err;
    assert_int_equal(wr_buffer_new(16, &buffer, &err), WEIR_OK);
    REFUSED(wr_leaf(g, WEIR_DTYPE_F32, 1, (int64_t[]){5}, NULL, 0, buffer), "16 bytes");
    REFUSED(wr_leaf(g, WEIR_DTYPE_F32, 1, (int64_t[]){4}, (int64_t[]){-1}, 2, buffer), "16 bytes");
    REFUSED(wr_leaf(g, WEIR_DTYPE_F32, 1, (int64_t[]){4}, (int64_t[]){INT64_MAX}, 0, buffer), "16 bytes");
    check(wr_leaf(g, WEIR_DTYPE_F32, 1, (int64_t[]){4}, (int64_t[]){-1}, 3, buffer), "f32 [4]");
    wr_buffer_release(buffer);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(reductions),
        TEST(moving),
        TEST(making),
        TEST(products),
        TEST(transformers),
        TEST(messages_name_op_and_values),
        TEST(broken_data_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
