/* Element-wise kernels on the emulated card against the CPU reference: every op on every dtype that it takes, all
 * casts, layouts, fused chains by both rows, and arrays made from nothing. */
#include "step_test.h"

#define F32  WEIR_DTYPE_F32
#define F16  WEIR_DTYPE_F16
#define BF16 WEIR_DTYPE_BF16
#define I32  WEIR_DTYPE_I32
#define BOOL WEIR_DTYPE_BOOL

static const char *const rows[] = {"chain", "ref"};

/* How far from the reference, which computes in double, a result of f32 may be, in units in the last place. Everything
 * else is equal. The reference's own gelu_tanh loses its digits for negative x: to 1e-15 of its value at x = -1. */
static int64_t ulps_of(wr_op_id op) {
    switch (op) {
    case WR_OP_EXP:
    case WR_OP_TANH: return 2;
    case WR_OP_SIGMOID:
    case WR_OP_SILU:
    case WR_OP_GELU_TANH: return 3;
    default: return 0;
    }
}
static double least_of(wr_op_id op) {
    switch (op) {
    case WR_OP_SIGMOID: return 0x1p-126;
    case WR_OP_SILU: return 0x1p-119; /* x e^x, where e^x is subnormal */
    case WR_OP_GELU_TANH: return 1e-14;
    default: return 0;
    }
}
/* A float of 16 bits may fall to the other side of a rounding border. */
static int64_t ulps_in(wr_op_id op, weir_dtype dtype) { return dtype == F32 ? ulps_of(op) : ulps_of(op) > 0; }

static void reference(wr_step *step, const cloth *out) {
    step->out = out->t;
    if (step->op == WR_OP_FUSED)
        wr_ref_fused(step, 0, 1);
    else
        wr_ref_elementwise(step, 0, 1);
}

/* Runs a step by every row that takes it, and compares. Returns how many did. */
static int check_step(wr_op_id op, const void *args, int n_in, const wr_tensor *in, weir_dtype dtype, int skew,
                      int64_t ulps, double least) {
    wr_tensor copies[WR_MAX_INPUTS];
    memcpy(copies, in, (size_t)n_in * sizeof *in);
    wr_step step = {.op = op, .args = args, .n_in = n_in, .in = copies};
    int n_dims = in[0].n_dims, ran = 0;
    cloth want = new_output(dtype, n_dims, in[0].shape, 0);
    reference(&step, &want);
    for (int r = 0; r < COUNT(rows); r++) {
        cloth got = new_output(dtype, n_dims, in[0].shape, skew);
        if (run_row(wr_cuda_elementwise_rows(op), rows[r], &step, &got)) {
            char what[80];
            snprintf(what, sizeof what, "%s by %s", op < WR_OP_COUNT ? wr_ops[op].name : "?", rows[r]);
            check_close(&got, &want, ulps, least, what);
            ran++;
        }
        free_cloth(&got);
    }
    free_cloth(&want);
    return ran;
}
static int check_op(wr_op_id op, int n_in, const wr_tensor *in, weir_dtype dtype) {
    wr_cast_args args = {.dtype = dtype};
    return check_step(op, &args, n_in, in, dtype, 0, ulps_in(op, dtype), least_of(op));
}

static void casts_follow_the_reference_for_every_pair_of_dtypes(void **state) {
    (void)state;
    const int64_t n = 1031;
    for (int from = 0; from < WEIR_DTYPE_COUNT; from++) {
        cloth x = new_input((weir_dtype)from, 1, &n, NULL, 1);
        fill(&x.t, (uint64_t)from);
        for (int to = 0; to < WEIR_DTYPE_COUNT; to++) {
            int ran = check_op(WR_OP_CAST, 1, &x.t, (weir_dtype)to);
            assert_int_equal(ran, from >= F16 && to >= F16 ? 2 : 1);
        }
        free_cloth(&x);
    }
}

/* The result's dtype by the rules of the array room; WEIR_DTYPE_COUNT: the op does not take it. */
static weir_dtype result_of(wr_op_id op, weir_dtype x) {
    const weir_dtype none = WEIR_DTYPE_COUNT;
    bool is_float = x >= F16;
    switch (op) {
    case WR_OP_NEG:
    case WR_OP_ABS:
    case WR_OP_SIGN:
    case WR_OP_SQUARE:
    case WR_OP_FLOOR:
    case WR_OP_CEIL:
    case WR_OP_ROUND:
    case WR_OP_RELU:
    case WR_OP_ADD:
    case WR_OP_SUB:
    case WR_OP_MUL:
    case WR_OP_FLOOR_DIV:
    case WR_OP_REMAINDER:
    case WR_OP_POW:
    case WR_OP_MAXIMUM:
    case WR_OP_MINIMUM: return x == BOOL ? none : x;
    case WR_OP_LOGICAL_NOT:
    case WR_OP_IS_NAN:
    case WR_OP_IS_INF: return BOOL;
    case WR_OP_BIT_NOT:
    case WR_OP_BIT_AND:
    case WR_OP_BIT_OR:
    case WR_OP_BIT_XOR: return is_float ? none : x;
    case WR_OP_SHIFT_LEFT:
    case WR_OP_SHIFT_RIGHT: return is_float || x == BOOL ? none : x;
    default: break;
    }
    if (op >= WR_OP_LOGICAL_AND && op <= WR_OP_GREATER_EQUAL) return BOOL;
    return is_float ? x : F32;
}

static void every_op_follows_the_reference_on_every_dtype(void **state) {
    (void)state;
    const int64_t n = 2503;
    int steps = 0;
    for (int d = 0; d < WEIR_DTYPE_COUNT; d++) {
        cloth x[2];
        for (int k = 0; k < 2; k++) {
            x[k] = new_input((weir_dtype)d, 1, &n, NULL, 0);
            fill(&x[k].t, (uint64_t)(100 + 2 * d + k));
        }
        /* Equal operands, small divisors and shift counts. */
        for (int64_t i = 0; i < n; i += 7) {
            size_t bytes = weir_dtype_bytes((weir_dtype)d);
            memcpy((char *)x[1].t.data + (size_t)i * bytes, (char *)x[0].t.data + (size_t)i * bytes, bytes);
            if (d < F16) put_int(&x[1].t, i + 1 < n ? i + 1 : i, (uint64_t)(i % 70 - 3));
        }
        for (int op = 0; op < WR_OP_SELECT; op++) {
            weir_dtype y = result_of((wr_op_id)op, (weir_dtype)d);
            if (y == WEIR_DTYPE_COUNT || op == WR_OP_CAST) continue;
            wr_tensor in[2] = {x[0].t, x[1].t};
            assert_true(check_op((wr_op_id)op, wr_ops[op].max_inputs, in, y) >= 1);
            steps++;
        }
        free_cloth(&x[0]);
        free_cloth(&x[1]);
    }
    assert_true(steps > 400);
}

static void select_takes_one_of_two_values(void **state) {
    (void)state;
    const int64_t n = 515;
    cloth condition = new_input(BOOL, 1, &n, NULL, 0);
    fill(&condition.t, 3);
    for (int d = 0; d < WEIR_DTYPE_COUNT; d++) {
        cloth a = new_input((weir_dtype)d, 1, &n, NULL, 0), b = new_input((weir_dtype)d, 1, &n, NULL, 0);
        fill(&a.t, 4);
        fill(&b.t, 5);
        wr_tensor in[3] = {condition.t, a.t, b.t};
        assert_int_equal(check_op(WR_OP_SELECT, 3, in, (weir_dtype)d), 1);
        free_cloth(&a);
        free_cloth(&b);
    }
    free_cloth(&condition);
}

typedef struct layout {
    int n_dims;
    int64_t shape[WR_MAX_DIMS], a[WR_MAX_DIMS], b[WR_MAX_DIMS];
} layout;
static const layout layouts[] = {
    {0, {0}, {0}, {0}},
    {1, {1}, {1}, {1}},
    {1, {8}, {1}, {0}},
    {1, {509}, {1}, {-1}},
    {1, {509}, {3}, {1}},
    {2, {7, 64}, {64, 1}, {0, 1}},
    {2, {7, 64}, {64, 1}, {1, 0}},
    {2, {7, 64}, {128, 1}, {192, 1}},
    {2, {13, 67}, {70, 1}, {67, 1}},
    {2, {13, 67}, {1, 13}, {67, 1}},
    {2, {13, 67}, {-67, 1}, {67, -1}},
    {2, {257, 1}, {1, 1}, {4, 1}},
    {3, {5, 3, 31}, {93, 31, 1}, {0, 31, 1}},
    {3, {5, 3, 31}, {93, 31, 1}, {0, 0, 1}},
    {3, {5, 3, 31}, {1, 5, 15}, {93, 31, 1}},
    {5, {2, 3, 2, 3, 7}, {126, 42, 21, 7, 1}, {1, 2, 6, 12, 36}},
    {8, {2, 2, 2, 2, 2, 2, 2, 3}, {192, 96, 48, 24, 12, 6, 3, 1}, {1, 2, 4, 8, 16, 32, 64, 128}},
    {2, {65537, 3}, {3, 1}, {0, 1}},
    {2, {65537, 3}, {1, 65537}, {3, 1}},
};

static void layouts_of_all_kinds_reach_their_own_elements(void **state) {
    (void)state;
    static const weir_dtype dtypes[] = {F32, BF16, F16, I32, WEIR_DTYPE_I8, WEIR_DTYPE_U64};
    for (int l = 0; l < COUNT(layouts); l++)
        for (int d = 0; d < COUNT(dtypes); d++)
            for (int skew = 0; skew < 2; skew++) {
                const layout *s = &layouts[l];
                if (skew && size_of(&(wr_tensor){.n_dims = s->n_dims, .shape = {s->shape[0], s->shape[1]}}) > 10000)
                    continue;
                cloth a = new_input(dtypes[d], s->n_dims, s->shape, s->a, skew);
                cloth b = new_input(dtypes[d], s->n_dims, s->shape, s->b, 0);
                fill(&a.t, (uint64_t)l);
                fill(&b.t, (uint64_t)l + 50);
                wr_tensor in[2] = {a.t, b.t};
                check_step(WR_OP_SUB, NULL, 2, in, dtypes[d], skew, 0, 0);
                if (d % 2 == 0) check_step(WR_OP_LESS, NULL, 2, in, BOOL, skew, 0, 0);
                free_cloth(&a);
                free_cloth(&b);
            }
}

/* [batch, heads, tokens, head_dim] by strides, and a row for all of it. */
static void rows_along_three_axes_are_chains(void **state) {
    (void)state;
    const int64_t shape[4] = {2, 5, 3, 16}, heads[4] = {240, 16, 80, 1}, row[4] = {0, 0, 0, 1}, one[4] = {0, 16, 0, 0};
    for (int skew = 0; skew < 2; skew++) {
        cloth a = new_input(BF16, 4, shape, heads, skew), b = new_input(BF16, 4, shape, row, 0);
        cloth c = new_input(BF16, 4, shape, one, 0);
        fill(&a.t, 1);
        fill(&b.t, 2);
        fill(&c.t, 3);
        assert_int_equal(check_step(WR_OP_MUL, NULL, 2, (wr_tensor[]){a.t, b.t}, BF16, skew, 0, 0), 2);
        assert_int_equal(check_step(WR_OP_DIV, NULL, 2, (wr_tensor[]){c.t, a.t}, BF16, skew, 0, 0), 2);
        free_cloth(&a);
        free_cloth(&b);
        free_cloth(&c);
    }
}

/* ---- fused chains ---- */

typedef struct instruction {
    wr_op_id op;
    weir_dtype dtype;
    uint8_t in[3];
} instruction;
static wr_fused_args fuse(int n, const instruction *code) {
    wr_fused_args args = {.n = n};
    for (int i = 0; i < n; i++) {
        args.code[i].op = (uint8_t)code[i].op;
        args.code[i].dtype = (uint8_t)code[i].dtype;
        memcpy(args.code[i].in, code[i].in, sizeof code[i].in);
    }
    return args;
}

/* The same instructions one by one, each as a step of its own by the reference row: the bits a chain must have. */
static cloth run_unfused(int n, const instruction *code, int n_in, const wr_tensor *in) {
    wr_tensor registers[WR_MAX_INPUTS + WR_FUSED_MAX];
    cloth results[WR_FUSED_MAX];
    memcpy(registers, in, (size_t)n_in * sizeof *in);
    for (int i = 0; i < n; i++) {
        wr_tensor operands[3];
        wr_cast_args cast = {.dtype = code[i].dtype};
        wr_step step = {.op = code[i].op, .args = &cast, .n_in = wr_ops[code[i].op].max_inputs, .in = operands};
        for (int o = 0; o < step.n_in; o++) operands[o] = registers[code[i].in[o]];
        results[i] = new_output(code[i].dtype, in[0].n_dims, in[0].shape, 0);
        assert_true(run_row(wr_cuda_elementwise_rows(step.op), "ref", &step, &results[i]));
        registers[n_in + i] = results[i].t;
    }
    for (int i = 0; i < n - 1; i++) free_cloth(&results[i]);
    return results[n - 1];
}
/* expected_rows: how many rows should take it. */
static void check_chain(int n, const instruction *code, int n_in, const wr_tensor *in, int expected_rows) {
    wr_fused_args args = fuse(n, code);
    wr_tensor copies[WR_MAX_INPUTS];
    memcpy(copies, in, (size_t)n_in * sizeof *in);
    wr_step step = {.op = WR_OP_FUSED, .args = &args, .n_in = n_in, .in = copies};
    cloth want = run_unfused(n, code, n_in, in);
    int ran = 0;
    for (int r = 0; r < COUNT(rows); r++)
        for (int skew = 0; skew < 2; skew++) {
            cloth got = new_output(code[n - 1].dtype, in[0].n_dims, in[0].shape, skew);
            if (run_row(wr_cuda_elementwise_rows(WR_OP_FUSED), rows[r], &step, &got)) {
                check_equal(&got, &want, rows[r]);
                ran += !skew;
            }
            free_cloth(&got);
        }
    assert_int_equal(ran, expected_rows);
    free_cloth(&want);
}

/* act(a) * b over the halves of [T, 2F], F a multiple of 8 and not, skewed and not. */
static void gated_activations_have_the_bits_of_their_ops(void **state) {
    (void)state;
    static const wr_op_id acts[] = {WR_OP_SILU, WR_OP_GELU_TANH};
    static const weir_dtype dtypes[] = {F32, BF16, F16};
    static const int64_t sizes[][2] = {{1, 64}, {1, 67}, {5, 64}, {3, 72}, {5, 67}, {9, 256}};
    for (int s = 0; s < COUNT(sizes); s++)
        for (int d = 0; d < COUNT(dtypes); d++)
            for (int o = 0; o < COUNT(dtypes); o++)
                for (int skew = 0; skew < 2; skew++) {
                    int64_t width = sizes[s][1], shape[2] = {sizes[s][0], 2 * width};
                    cloth x = new_input(dtypes[d], 2, shape, NULL, skew);
                    fill_tame(&x.t, (uint64_t)(s + d), 8);
                    put_float(&x.t, 3, NAN);
                    put_float(&x.t, 5, -INFINITY);
                    wr_tensor in[2] = {x.t, x.t};
                    in[0].shape[1] = in[1].shape[1] = width;
                    in[1].data = (char *)x.t.data + (size_t)width * weir_dtype_bytes(dtypes[d]);
                    const instruction code[] = {{acts[s % 2], dtypes[d], {0, 0, 0}},
                                                {WR_OP_MUL, dtypes[d], {2, 1, 0}},
                                                {WR_OP_CAST, dtypes[o], {3, 0, 0}}};
                    check_chain(o == d ? 2 : 3, code, 2, in, 2);
                    free_cloth(&x);
                }
}

static void chains_with_scalars_have_the_bits_of_their_ops(void **state) {
    (void)state;
    const int64_t shape[2] = {6, 80}, none[2] = {0, 0}, row[2] = {0, 1}, column[2] = {1, 0};
    cloth x = new_input(BF16, 2, shape, NULL, 0), bias = new_input(F32, 2, shape, row, 0);
    cloth cap = new_input(F32, 2, shape, none, 1), scale = new_input(F32, 2, shape, column, 0);
    fill_tame(&x.t, 1, 60);
    fill_tame(&bias.t, 2, 3);
    fill_tame(&scale.t, 3, 2);
    put_float(&cap.t, 0, 30);
    wr_tensor in[4] = {x.t, bias.t, cap.t, scale.t};
    /* cap * tanh((x + bias) / cap), less a column, its square, back to bf16 */
    const instruction code[] = {{WR_OP_CAST, F32, {0, 0, 0}}, {WR_OP_ADD, F32, {1, 4, 0}},
                                {WR_OP_DIV, F32, {5, 2, 0}},  {WR_OP_TANH, F32, {6, 0, 0}},
                                {WR_OP_MUL, F32, {7, 2, 0}},  {WR_OP_SUB, F32, {3, 8, 0}},
                                {WR_OP_MUL, F32, {9, 9, 0}},  {WR_OP_CAST, BF16, {10, 0, 0}}};
    check_chain(8, code, 4, in, 2);
    /* Starting from another input than the first. */
    const instruction late[] = {
        {WR_OP_SQRT, F32, {3, 0, 0}}, {WR_OP_DIV, F32, {1, 4, 0}}, {WR_OP_MINIMUM, F32, {5, 2, 0}}};
    check_chain(3, late, 4, in, 2);
    free_cloth(&x);
    free_cloth(&bias);
    free_cloth(&cap);
    free_cloth(&scale);
}

/* Not chains: a value that is used twice, a condition, integers between. */
static void programs_of_other_forms_are_interpreted(void **state) {
    (void)state;
    const int64_t shape[2] = {11, 37}, turned[2] = {1, 11};
    cloth x = new_input(F32, 2, shape, NULL, 0), y = new_input(BF16, 2, shape, turned, 0);
    fill(&x.t, 1);
    fill(&y.t, 2);
    wr_tensor in[2] = {x.t, y.t};
    const instruction twice[] = {{WR_OP_CAST, F32, {1, 0, 0}},
                                 {WR_OP_ADD, F32, {0, 2, 0}},
                                 {WR_OP_TANH, F32, {3, 0, 0}},
                                 {WR_OP_MUL, F32, {3, 4, 0}}};
    check_chain(4, twice, 2, in, 1);
    const instruction mixed[] = {{WR_OP_CAST, F32, {1, 0, 0}},   {WR_OP_LESS, BOOL, {0, 2, 0}},
                                 {WR_OP_CAST, I32, {0, 0, 0}},   {WR_OP_BIT_NOT, I32, {4, 0, 0}},
                                 {WR_OP_CAST, F32, {5, 0, 0}},   {WR_OP_SIN, F32, {6, 0, 0}},
                                 {WR_OP_SELECT, F32, {3, 7, 2}}, {WR_OP_CAST, F16, {8, 0, 0}}};
    check_chain(8, mixed, 2, in, 1);
    free_cloth(&x);
    free_cloth(&y);
}

/* 16 inputs, 15 and 16 instructions, 8 axes that do not merge: the largest there is, in floats and in integers. */
static void the_largest_programs_run(void **state) {
    (void)state;
    const int64_t shape[8] = {2, 3, 2, 2, 3, 2, 2, 5}, turned[8] = {1, 2, 6, 12, 24, 72, 144, 288};
    static const weir_dtype dtypes[] = {F32, WEIR_DTYPE_I16};
    for (int d = 0; d < COUNT(dtypes); d++) {
        cloth x[WR_MAX_INPUTS];
        wr_tensor in[WR_MAX_INPUTS];
        instruction code[WR_FUSED_MAX];
        for (int k = 0; k < WR_MAX_INPUTS; k++) {
            x[k] = new_input(dtypes[d], 8, shape, k % 2 ? turned : NULL, k % 3);
            fill(&x[k].t, (uint64_t)k);
            in[k] = x[k].t;
            code[k] = (instruction){k % 3 ? WR_OP_ADD : WR_OP_MUL, dtypes[d], {(uint8_t)(k + 15), (uint8_t)(k + 1), 0}};
        }
        code[0].in[0] = 0;
        code[15] = (instruction){WR_OP_NEG, dtypes[d], {30, 0, 0}};
        check_chain(16, code, 16, in, 1);
        for (int k = 0; k < WR_MAX_INPUTS; k++) free_cloth(&x[k]);
    }
}

/* ---- made from nothing ---- */

static void check_made(wr_op_id op, const void *args, wr_kernel golden, weir_dtype dtype, int64_t n, int skew) {
    wr_step step = {.op = op, .args = args};
    cloth want = new_output(dtype, 1, &n, 0), got = new_output(dtype, 1, &n, skew);
    step.out = want.t;
    golden(&step, 0, 1);
    assert_true(run_row(wr_cuda_elementwise_rows(op), "ref", &step, &got));
    check_equal(&got, &want, wr_ops[op].name);
    free_cloth(&want);
    free_cloth(&got);
}
static void arrays_made_from_nothing_equal_the_reference(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 3, 7, 16, 31, 1000, 65537};
    for (int s = 0; s < COUNT(sizes); s++)
        for (int skew = 0; skew < 2; skew++) {
            for (int d = 0; d < WEIR_DTYPE_COUNT; d++) {
                wr_full_args full = {.dtype = (weir_dtype)d, .value = -3.14159, .integer = INT64_C(-81985529216486896)};
                check_made(WR_OP_FULL, &full, wr_ref_full, (weir_dtype)d, sizes[s], skew);
                wr_arange_args range = {.dtype = (weir_dtype)d, .start = -7.25, .step = 0.3, .count = sizes[s]};
                check_made(WR_OP_ARANGE, &range, wr_ref_arange, (weir_dtype)d, sizes[s], skew);
            }
            wr_random_args random = {.seed = UINT64_C(0x123456789abcdef0), .counter = UINT64_C(0xfffffffffffffffe)};
            check_made(WR_OP_RANDOM_BITS, &random, wr_ref_random, WEIR_DTYPE_U32, sizes[s], skew);
            check_made(WR_OP_RANDOM_UNIFORM, &random, wr_ref_random, F32, sizes[s], skew);
            check_made(WR_OP_RANDOM_NORMAL, &random, wr_ref_random, F32, sizes[s], skew);
        }
}

static void every_element_wise_op_has_rows_and_others_have_none(void **state) {
    (void)state;
    for (int op = 0; op < WR_OP_COUNT; op++) {
        bool ours = (wr_ops[op].flags & WR_EW) || op == WR_OP_FULL || op == WR_OP_ARANGE || op == WR_OP_RANDOM_BITS ||
                    op == WR_OP_RANDOM_UNIFORM || op == WR_OP_RANDOM_NORMAL;
        const wr_kernel_row *table = wr_cuda_elementwise_rows((wr_op_id)op);
        assert_int_equal(table != NULL, ours);
        if (ours) assert_non_null(row_named(table, "ref"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(casts_follow_the_reference_for_every_pair_of_dtypes),
        cmocka_unit_test(every_op_follows_the_reference_on_every_dtype),
        cmocka_unit_test(select_takes_one_of_two_values),
        cmocka_unit_test(layouts_of_all_kinds_reach_their_own_elements),
        cmocka_unit_test(rows_along_three_axes_are_chains),
        cmocka_unit_test(gated_activations_have_the_bits_of_their_ops),
        cmocka_unit_test(chains_with_scalars_have_the_bits_of_their_ops),
        cmocka_unit_test(programs_of_other_forms_are_interpreted),
        cmocka_unit_test(the_largest_programs_run),
        cmocka_unit_test(arrays_made_from_nothing_equal_the_reference),
        cmocka_unit_test(every_element_wise_op_has_rows_and_others_have_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
