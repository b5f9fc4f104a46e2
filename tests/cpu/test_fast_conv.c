/* Fast depthwise convolutions against the reference (sums in double, rounded once). */
#include "fast_test.h"

#include "cpu/ref/kernels.h"

typedef struct shape {
    int64_t batch, length, width, kernel;
    wr_conv1d_args args; /* groups are set to width */
} shape;

static void check(shape s, bool has_bias) {
    wr_conv1d_args args = s.args;
    args.groups = s.width;
    int64_t n = (s.length + args.pad_low + args.pad_high - args.dilation * (s.kernel - 1) - 1) / args.stride + 1;
    wr_tensor x = TENSOR(WEIR_DTYPE_F32, s.batch, s.length, s.width), w = TENSOR(WEIR_DTYPE_F32, s.width, s.kernel, 1);
    wr_tensor bias = TENSOR(WEIR_DTYPE_F32, s.width), y = TENSOR(WEIR_DTYPE_F32, s.batch, n, s.width);
    wr_tensor want = TENSOR(WEIR_DTYPE_F32, s.batch, n, s.width);
    fill(&x, 1, 1), fill(&w, 2, 1), fill(&bias, 3, 1);
    wr_step step = {.op = WR_OP_CONV1D, .args = &args, .n_in = has_bias ? 3 : 2, .in = (wr_tensor[]){x, w, bias}};
    step.out = want;
    wr_ref_conv1d(&step, 0, 1);
    step.out = y;
    char *first = malloc(tensor_bytes(&y));
    FOR_EACH_LEVEL(level) {
        run_level(wr_cpu_conv1d_rows, &step, level, 1, false);
        memcpy(first, y.data, tensor_bytes(&y));
        /* kernel + 1 terms below 1: each step of the chain is off by 2^-24 of at most that, twice in plain C */
        for (int64_t i = 0; i < tensor_size(&y); i++)
            if (!(fabs(get(&y, i) - get(&want, i)) <= 0x1p-23 * (double)(s.kernel + 1) * (double)(s.kernel + 1)))
                fail_msg("width %d, kernel %d, element %d: %.9g, should be %.9g", (int)s.width, (int)s.kernel, (int)i,
                         get(&y, i), get(&want, i));
        for (int threads = 2; threads <= 5; threads += 3) {
            run_level(wr_cpu_conv1d_rows, &step, level, threads, false);
            assert_memory_equal(first, y.data, tensor_bytes(&y));
        }
        wr_tensor last = TENSOR(WEIR_DTYPE_F32, 1, s.length, s.width); /* the last sequence alone */
        memcpy(last.data, (char *)x.data + tensor_bytes(&x) - tensor_bytes(&last), tensor_bytes(&last));
        wr_step alone = step;
        alone.in = (wr_tensor[]){last, w, bias};
        alone.out = TENSOR(WEIR_DTYPE_F32, 1, n, s.width);
        run_level(wr_cpu_conv1d_rows, &alone, level, 1, false);
        size_t bytes = tensor_bytes(&alone.out);
        assert_memory_equal(alone.out.data, first + tensor_bytes(&y) - bytes, bytes);
        free_tensor(&alone.out), free_tensor(&last);
    }
    free(first);
    free_tensor(&x), free_tensor(&w), free_tensor(&bias), free_tensor(&y), free_tensor(&want);
}

static void test_depthwise_matches_the_reference_and_sequences_do_not_mix(void **state) {
    (void)state;
    static const shape shapes[] = {
        {1, 1, 1, 1, {.stride = 1, .dilation = 1}},
        {2, 5, 3, 4, {.stride = 1, .dilation = 1, .pad_low = 3}}, /* causal */
        {3, 300, 64, 4, {.stride = 1, .dilation = 1, .pad_low = 3}},
        {2, 131, 67, 3, {.stride = 2, .dilation = 1, .pad_low = 1, .pad_high = 1}},
        {1, 40, 200, 5, {.stride = 3, .dilation = 2, .pad_low = 4, .pad_high = 7}},
        {2, 3, 33, 7, {.stride = 1, .dilation = 1, .pad_low = 6, .pad_high = 6}}, /* kernel beyond the sequence */
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) check(shapes[i], false), check(shapes[i], true);
}

/* Does any fast row take this step? */
static bool taken(const wr_kernel_row *rows, const wr_step *step) {
    while (rows->run && !rows->fits(step)) rows++;
    return rows->run != NULL;
}

static void test_other_groups_and_types_are_left_to_the_reference(void **state) {
    (void)state;
    wr_tensor x = TENSOR(WEIR_DTYPE_F32, 1, 5, 4), w = TENSOR(WEIR_DTYPE_F32, 4, 3, 2),
              one = TENSOR(WEIR_DTYPE_F32, 4, 3, 1);
    wr_tensor half = TENSOR(WEIR_DTYPE_F16, 4, 3, 1), y = TENSOR(WEIR_DTYPE_F32, 1, 3, 4);
    wr_conv1d_args args = {.stride = 1, .dilation = 1, .groups = 2};
    wr_step step = {.op = WR_OP_CONV1D, .args = &args, .n_in = 2, .in = (wr_tensor[]){x, w}, .out = y};
    assert_false(taken(wr_cpu_conv1d_rows, &step));
    args.groups = 4;
    step.in[1] = one;
    assert_true(taken(wr_cpu_conv1d_rows, &step));
    step.in[1] = half;
    assert_false(taken(wr_cpu_conv1d_rows, &step));
    free_tensor(&x), free_tensor(&w), free_tensor(&one), free_tensor(&half), free_tensor(&y);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_depthwise_matches_the_reference_and_sequences_do_not_mix),
        cmocka_unit_test(test_other_groups_and_types_are_left_to_the_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
