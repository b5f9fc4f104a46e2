/* Fast dense products against the reference (sums in double, rounded once): shapes round the tiles, blocks and passes,
 * any strides, broadcast batches, every float type; threads, neighbours and layout without influence on a row. */
#include "fast_test.h"

#include "cpu/ref/kernels.h"

static const weir_dtype types[] = {WEIR_DTYPE_F32, WEIR_DTYPE_F16, WEIR_DTYPE_BF16};

static wr_tensor turned(wr_tensor t) { /* the last two axes change places */
    int r = t.n_dims - 2, c = t.n_dims - 1;
    int64_t shape = t.shape[r], stride = t.strides[r];
    t.shape[r] = t.shape[c], t.strides[r] = t.strides[c];
    t.shape[c] = shape, t.strides[c] = stride;
    return t;
}

static void run_reference(const wr_step *step, wr_tensor want) {
    wr_step s = *step;
    s.out = want;
    wr_ref_matmul(&s, 0, 1);
}

/* One chain of k products and sums in f32, each off by 2^-24 of a partial sum at most, which the sum of magnitudes
 * bounds: k * 2^-24 * k for values in -1 .. 1, twice that in plain C. Random signs give far less; the tolerance
 * is 2^-24 * (8 + 2 k), and a unit in the last place of the result's type. */
static double tolerance(weir_dtype type, double want, int64_t k) {
    double unit = type == WEIR_DTYPE_F32 ? 0x1p-23 : type == WEIR_DTYPE_F16 ? 0x1.01p-10 : 0x1.01p-7;
    return unit * fabs(want) + 0x1p-24 * (8 + 2 * (double)k);
}

static void compare(const wr_tensor *got, const wr_tensor *want, int64_t k) {
    for (int64_t i = 0; i < tensor_size(got); i++) {
        double a = get(got, i), b = get(want, i);
        if (!(fabs(a - b) <= tolerance(got->dtype, b, k)))
            fail_msg("%s, K %d, element %d: %.9g, should be %.9g", weir_dtype_name(got->dtype), (int)k, (int)i, a, b);
    }
}

static void check(weir_dtype type, int64_t m, int64_t n, int64_t k) {
    wr_tensor a = TENSOR(type, m, k), b = TENSOR(type, k, n), y = TENSOR(type, m, n), want = TENSOR(type, m, n);
    wr_tensor at = TENSOR(type, k, m), bt = TENSOR(type, n, k);
    fill(&a, (uint64_t)(m + k), 1), fill(&b, (uint64_t)(n + 7 * k), 1);
    for (int64_t i = 0; i < m * k; i++) put(&at, i % k * m + i / k, (float)get(&a, i));
    for (int64_t i = 0; i < n * k; i++) put(&bt, i % n * k + i / n, (float)get(&b, i));
    wr_tensor in[2] = {a, b};
    wr_step step = {.op = WR_OP_MATMUL, .n_in = 2, .in = in, .out = y};
    run_reference(&step, want);
    char *first = malloc(tensor_bytes(&y) + 1);
    FOR_EACH_LEVEL(level) {
        run_level(wr_cpu_matmul_rows, &step, level, 1, false);
        compare(&y, &want, k);
        memcpy(first, y.data, tensor_bytes(&y));
        for (int layout = 0; layout < 4; layout++) { /* the same bits from either order of memory */
            in[0] = layout & 1 ? turned(at) : a;
            in[1] = layout & 2 ? turned(bt) : b;
            for (int threads = 1; threads <= 5; threads += threads == 1 ? 1 : 3) {
                run_level(wr_cpu_matmul_rows, &step, level, threads, false);
                assert_memory_equal(first, y.data, tensor_bytes(&y));
            }
        }
        in[0] = a, in[1] = b;
        /* The last row alone, and the last half of the rows, have the bits that they have among all. */
        for (int64_t rows = 1; rows <= m; rows += m / 2 + 1) {
            wr_tensor part = TENSOR(type, rows, k);
            memcpy(part.data, (char *)a.data + tensor_bytes(&a) - tensor_bytes(&part), tensor_bytes(&part));
            wr_step alone = step;
            alone.in = (wr_tensor[]){part, b};
            alone.out = TENSOR(type, rows, n);
            run_level(wr_cpu_matmul_rows, &alone, level, 1, false);
            size_t bytes = tensor_bytes(&alone.out);
            assert_memory_equal(alone.out.data, first + tensor_bytes(&y) - bytes, bytes);
            free_tensor(&alone.out), free_tensor(&part);
        }
    }
    free(first);
    free_tensor(&a), free_tensor(&b), free_tensor(&at), free_tensor(&bt), free_tensor(&y), free_tensor(&want);
}

static void test_products_match_the_reference_and_rows_depend_on_themselves(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {
        {1, 1, 1},    {1, 17, 9},    {2, 31, 64},   {3, 32, 65},    {4, 33, 100},  {5, 8, 7},    {6, 16, 256},
        {7, 15, 257}, {11, 1, 33},   {12, 200, 31}, {13, 63, 300},  {97, 193, 40}, {1, 800, 70}, {100, 3, 130},
        {65, 7, 513}, {70, 200, 37}, {193, 20, 5},  {6, 1000, 129}, {7, 400, 129}, {40, 40, 0},
    };
    for (int t = 0; t < 3; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            check(types[t], shapes[s][0], shapes[s][1], shapes[s][2]);
}

/* a [3, 1, 5, 19], b [4, 19, 21]: batches [3, 4]; and a with strides that no axis order explains. */
static void test_batches_broadcast_and_strides_are_any(void **state) {
    (void)state;
    wr_tensor a = TENSOR(WEIR_DTYPE_F32, 3, 1, 10, 38), b = TENSOR(WEIR_DTYPE_F32, 4, 19, 21);
    wr_tensor y = TENSOR(WEIR_DTYPE_F32, 3, 4, 5, 21), want = TENSOR(WEIR_DTYPE_F32, 3, 4, 5, 21);
    fill(&a, 1, 1), fill(&b, 2, 1);
    wr_tensor view = a;
    view.shape[2] = 5, view.strides[2] *= 2;
    view.shape[3] = 19, view.strides[3] = 2;
    wr_step step = {.op = WR_OP_MATMUL, .n_in = 2, .in = (wr_tensor[]){view, b}, .out = y};
    run_reference(&step, want);
    FOR_EACH_LEVEL(level)
    for (int threads = 1; threads <= 5; threads += threads == 1 ? 1 : 3) {
        run_level(wr_cpu_matmul_rows, &step, level, threads, false);
        compare(&y, &want, 19);
    }
    /* b with a stride of 0 along n: every column is column 0. */
    wr_tensor same = b;
    same.strides[2] = 0;
    step.in = (wr_tensor[]){view, same};
    run_reference(&step, want);
    FOR_EACH_LEVEL(level) {
        run_level(wr_cpu_matmul_rows, &step, level, 2, false);
        compare(&y, &want, 19);
    }
    free_tensor(&a), free_tensor(&b), free_tensor(&y), free_tensor(&want);
}

/* 2^24 + 1 - 2^24 in this order is 0 in f32 (the 1 is lost) and 1 + 2^24 - 2^24 is 0 too, but 2^24 - 2^24 + 1 is 1. */
static void test_sums_are_one_chain_in_the_order_of_k(void **state) {
    (void)state;
    wr_tensor a = TENSOR(WEIR_DTYPE_F32, 2, 3), b = TENSOR(WEIR_DTYPE_F32, 3, 1), y = TENSOR(WEIR_DTYPE_F32, 2, 1);
    memcpy(a.data, (float[]){0x1p24f, 1, -0x1p24f, 0x1p24f, -0x1p24f, 1}, 24);
    memcpy(b.data, (float[]){1, 1, 1}, 12);
    wr_step step = {.op = WR_OP_MATMUL, .n_in = 2, .in = (wr_tensor[]){a, b}, .out = y};
    FOR_EACH_LEVEL(level) {
        run_level(wr_cpu_matmul_rows, &step, level, 1, false);
        assert_memory_equal(y.data, ((float[]){0, 1}), 8);
    }
    free_tensor(&a), free_tensor(&b), free_tensor(&y);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products_match_the_reference_and_rows_depend_on_themselves),
        cmocka_unit_test(test_batches_broadcast_and_strides_are_any),
        cmocka_unit_test(test_sums_are_one_chain_in_the_order_of_k),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
