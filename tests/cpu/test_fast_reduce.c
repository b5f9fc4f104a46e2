/* Fast reductions over the last axes against the reference (double, rounded once): lengths round the vector and chain
 * sizes, special values, threads and neighbours without influence. */
#include "fast_test.h"

#include "cpu/ref/kernels.h"

static const wr_op_id ops[] = {WR_OP_SUM,       WR_OP_MEAN,   WR_OP_MAX,    WR_OP_MIN,
                               WR_OP_LOGSUMEXP, WR_OP_ARGMAX, WR_OP_SOFTMAX};
static const weir_dtype types[] = {WEIR_DTYPE_F32, WEIR_DTYPE_F16, WEIR_DTYPE_BF16};

static void run_reference(const wr_step *step) {
    if (step->op == WR_OP_SOFTMAX)
        wr_ref_softmax(step, 0, 1);
    else if (step->op == WR_OP_ARGMAX)
        wr_ref_argmax(step, 0, 1);
    else
        wr_ref_reduce(step, 0, 1);
}

/* Sums: 2^-24 of the sum of magnitudes (1.5 n for values in -3 .. 3), far below the bound of any order of f32
 * additions; exp: 2 ulp; halves: one rounding more. */
static double tolerance(weir_dtype type, double want, int64_t n) {
    double one = type == WEIR_DTYPE_F32 ? 1e-6 : type == WEIR_DTYPE_F16 ? 1e-3 : 8e-3;
    return one * (fabs(want) + 1) + 6e-8 * 1.5 * (double)n;
}

static void check(wr_op_id op, weir_dtype type, int64_t rows, int64_t n, bool special) {
    wr_axis_args axis = {.axis = 1};
    wr_reduce_args reduce = {.axes = 2};
    bool by_axis = op == WR_OP_SOFTMAX || op == WR_OP_ARGMAX;
    wr_tensor x = TENSOR(type, rows, n), y, want;
    fill(&x, (uint64_t)n * 7 + op, 3);
    if (special && rows > 6) { /* NaN, infinities, rows of -infinity, equals */
        put(&x, n + n / 2, NAN), put(&x, 2 * n + n / 3, INFINITY), put(&x, 3 * n + n - 1, -INFINITY);
        for (int64_t i = 0; i < n; i++) put(&x, 4 * n + i, -INFINITY), put(&x, 5 * n + i, 1), put(&x, 6 * n + i, NAN);
    }
    weir_dtype out = op == WR_OP_ARGMAX ? WEIR_DTYPE_I32 : type;
    y = op == WR_OP_SOFTMAX ? TENSOR(out, rows, n) : TENSOR(out, rows);
    want = op == WR_OP_SOFTMAX ? TENSOR(out, rows, n) : TENSOR(out, rows);
    wr_step step = {.op = op, .args = by_axis ? (const void *)&axis : &reduce, .n_in = 1, .in = &x, .out = want};
    run_reference(&step);
    step.out = y;
    char *first = malloc(tensor_bytes(&y));
    FOR_EACH_LEVEL(level) {
        run_level(wr_cpu_reduce_rows, &step, level, 1, false);
        memcpy(first, y.data, tensor_bytes(&y));
        for (int64_t i = 0; i < tensor_size(&y); i++) {
            double a = get(&y, i), b = get(&want, i);
            bool same = (isnan(a) && isnan(b)) || a == b;
            if (!same && (out == WEIR_DTYPE_I32 || !(fabs(a - b) <= tolerance(type, b, n))))
                fail_msg("op %d, %s [%d, %d], element %d: %.9g, should be %.9g", op, weir_dtype_name(type), (int)rows,
                         (int)n, (int)i, a, b);
        }
        for (int threads = 2; threads <= 5; threads += 3) {
            run_level(wr_cpu_reduce_rows, &step, level, threads, false);
            assert_memory_equal(first, y.data, tensor_bytes(&y));
        }
        size_t part = tensor_bytes(&y) / (size_t)rows, row = tensor_bytes(&x) / (size_t)rows;
        wr_tensor last = TENSOR(type, 1, n);
        memcpy(last.data, (char *)x.data + (size_t)(rows - 1) * row, row);
        wr_step alone = step;
        alone.in = &last;
        alone.out = op == WR_OP_SOFTMAX ? TENSOR(out, 1, n) : TENSOR(out, 1);
        run_level(wr_cpu_reduce_rows, &alone, level, 1, false);
        assert_memory_equal(alone.out.data, first + (size_t)(rows - 1) * part, part);
        free_tensor(&alone.out), free_tensor(&last);
    }
    free(first);
    free_tensor(&x), free_tensor(&y), free_tensor(&want);
}

static void test_reductions_match_the_reference_and_do_not_depend_on_neighbours(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, 7, 8, 31, 32, 33, 100, 1000, 4099};
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
        for (int t = 0; t < 3; t++)
            for (int s = 0; s < 10; s++) check(ops[o], types[t], 19, sizes[s], s > 2);
    check(WR_OP_ARGMAX, WEIR_DTYPE_F32, 2, 49152, false);
    check(WR_OP_SOFTMAX, WEIR_DTYPE_F32, 3, 49152, false);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reductions_match_the_reference_and_do_not_depend_on_neighbours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
