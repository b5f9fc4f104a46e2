/* Fast attention kernels against the definition in double precision, and their promise of sameness bit for bit. */
#include "fast_test.h"

/* One paged problem: sequences of keys scattered over pages, and rows that look at them. */
typedef struct problem {
    int64_t d, e, heads, kv, page, max_pages;
    int n_seq, n_rows;
    weir_dtype q_dtype, kv_dtype;
    wr_attention_args args;
    wr_tensor in[7];
    int n_in;
} problem;

enum { MAX_SEQ = 8 };

/* lengths[s] keys in sequence s. Pages are dealt out from the last to the first; bytes that hold no key are NaN. */
static problem new_problem(int64_t d, int64_t e, int64_t heads, int64_t kv, int64_t page, weir_dtype q_dtype,
                           weir_dtype kv_dtype, wr_attention_args args, const int *lengths, int n_seq,
                           const int (*rows)[2], int n_rows) {
    problem p = {d, e, heads, kv, page, 0, n_seq, n_rows, q_dtype, kv_dtype, args, {{0}}, 6};
    int64_t n_pages = 0, used = 0;
    for (int s = 0; s < n_seq; s++) {
        int64_t n = (lengths[s] + page - 1) / page;
        if (n > p.max_pages) p.max_pages = n;
        n_pages += n;
    }
    p.max_pages++;
    p.in[0] = TENSOR(q_dtype, n_rows, heads, d);
    p.in[1] = TENSOR(kv_dtype, n_pages, page, kv, d);
    p.in[2] = TENSOR(kv_dtype, n_pages, page, kv, e);
    p.in[3] = TENSOR(WEIR_DTYPE_I32, n_seq, p.max_pages);
    p.in[4] = TENSOR(WEIR_DTYPE_I32, n_rows);
    p.in[5] = TENSOR(WEIR_DTYPE_I32, n_rows);
    int32_t *table = p.in[3].data;
    for (int s = 0; s < n_seq; s++)
        for (int64_t i = 0; i < p.max_pages; i++) {
            bool real = i < (lengths[s] + page - 1) / page;
            table[s * p.max_pages + i] = real ? (int32_t)(n_pages - 1 - used++) : 0x3fffffff;
        }
    for (int s = 0; s < n_seq; s++)
        for (int64_t i = 0; i < lengths[s]; i++) {
            int64_t at = (table[s * p.max_pages + i / page] * page + i % page) * kv;
            for (int64_t j = 0; j < kv * d; j++)
                put(&p.in[1], at * d + j, 2 * noise((uint64_t)(s * 7919 + i) * 4096 + j));
            for (int64_t j = 0; j < kv * e; j++)
                put(&p.in[2], at * e + j, noise((uint64_t)(s * 7919 + i + 50000) * 4096 + j));
        }
    for (int t = 0; t < n_rows; t++) {
        ((int32_t *)p.in[4].data)[t] = rows[t][0], ((int32_t *)p.in[5].data)[t] = rows[t][1];
        /* q depends on who asks, not on the row number, so that the same token can be asked alone. */
        for (int64_t j = 0; j < heads * d; j++)
            put(&p.in[0], t * heads * d + j,
                2 * noise((uint64_t)((rows[t][0] + 1) * 7919 + rows[t][1] + 99991) * 8192 + j));
    }
    if (args.has_sinks) {
        p.in[6] = TENSOR(WEIR_DTYPE_F32, heads);
        fill(&p.in[6], 5, 3);
        p.n_in = 7;
    }
    return p;
}

static void free_problem(problem *p) {
    for (int i = 0; i < p->n_in; i++) free_tensor(&p->in[i]);
}

static wr_tensor run_problem(problem *p, wr_cpu_isa level, int n_threads) {
    wr_step step = {.op = WR_OP_PAGED_ATTENTION, .args = &p->args, .n_in = p->n_in, .in = p->in};
    step.out = TENSOR(p->q_dtype, p->n_rows, p->heads, p->e);
    run_level(wr_cpu_paged_attention_rows, &step, level, n_threads, false);
    return step.out;
}

/* The definition, in double. out [e]. */
static void define_row(const problem *p, int t, int64_t head, double *out) {
    int seq = ((int32_t *)p->in[4].data)[t];
    int64_t pos = ((int32_t *)p->in[5].data)[t], kv = head / (p->heads / p->kv);
    for (int64_t j = 0; j < p->e; j++) out[j] = 0;
    if (seq < 0) return;
    int64_t lo = p->args.window && pos - p->args.window + 1 > 0 ? pos - p->args.window + 1 : 0;
    double *s = malloc((size_t)(pos + 1) * sizeof *s), most = -INFINITY, sum = 0;
    for (int64_t i = lo; i <= pos; i++) {
        int64_t at =
            (((int32_t *)p->in[3].data)[seq * p->max_pages + i / p->page] * p->page + i % p->page) * p->kv + kv;
        double x = 0;
        for (int64_t j = 0; j < p->d; j++)
            x += get(&p->in[0], (t * p->heads + head) * p->d + j) * get(&p->in[1], at * p->d + j);
        x *= p->args.scale;
        if (p->args.softcap > 0) x = p->args.softcap * tanh(x / p->args.softcap);
        s[i] = x;
        most = x > most ? x : most;
    }
    for (int64_t i = lo; i <= pos; i++) {
        int64_t at =
            (((int32_t *)p->in[3].data)[seq * p->max_pages + i / p->page] * p->page + i % p->page) * p->kv + kv;
        double w = exp(s[i] - most);
        sum += w;
        for (int64_t j = 0; j < p->e; j++) out[j] += w * get(&p->in[2], at * p->e + j);
    }
    if (p->args.has_sinks) sum += exp(get(&p->in[6], head) - most);
    for (int64_t j = 0; j < p->e; j++) out[j] /= sum;
    free(s);
}

/* |y - definition| <= tolerance of the output's type: f32 2e-5 (values below 1; scores up to about 30 carry an error
 * of 30 * 2^-23 each), f16 and bf16 one rounding more. */
static void check_definition(const problem *p, const wr_tensor *y) {
    double tolerance = p->q_dtype == WEIR_DTYPE_F32 ? 2e-5 : p->q_dtype == WEIR_DTYPE_F16 ? 6e-4 : 5e-3;
    double out[512];
    for (int t = 0; t < p->n_rows; t++)
        for (int64_t h = 0; h < p->heads; h++) {
            define_row(p, t, h, out);
            for (int64_t j = 0; j < p->e; j++) {
                double got = get(y, (t * p->heads + h) * p->e + j);
                if (!(fabs(got - out[j]) <= tolerance))
                    fail_msg("row %d head %d column %d: %.9g, should be %.9g", t, (int)h, (int)j, got, out[j]);
            }
        }
}

/* Rows of several sequences at once: decode rows, a prefill chunk, padding. */
static const int mixed_lengths[] = {700, 1, 75, 1300, 64};
static int mixed_rows(int rows[][2]) {
    int n = 0;
    rows[n][0] = 3, rows[n++][1] = 1299;
    rows[n][0] = 1, rows[n++][1] = 0;
    rows[n][0] = -1, rows[n++][1] = 0;
    for (int i = 0; i < 75; i++) rows[n][0] = 2, rows[n++][1] = i;    /* whole prompt */
    for (int i = 660; i < 700; i++) rows[n][0] = 0, rows[n++][1] = i; /* later chunk */
    rows[n][0] = 4, rows[n++][1] = 63;
    rows[n][0] = -1, rows[n++][1] = 0;
    return n;
}

typedef struct shape {
    int64_t d, e, heads, kv, page;
    weir_dtype q, cache;
    float softcap;
    int64_t window;
    bool sinks;
} shape;
static const shape shapes[] = {
    {64, 64, 9, 3, 16, WEIR_DTYPE_F32, WEIR_DTYPE_F16, 0, 0, false},
    {64, 64, 14, 2, 32, WEIR_DTYPE_F32, WEIR_DTYPE_BF16, 0, 0, true},
    {256, 256, 4, 1, 16, WEIR_DTYPE_F32, WEIR_DTYPE_F16, 0, 100, false},
    {128, 128, 4, 4, 64, WEIR_DTYPE_BF16, WEIR_DTYPE_BF16, 30, 0, false},
    {80, 80, 6, 2, 16, WEIR_DTYPE_F32, WEIR_DTYPE_F32, 0, 33, true},
    {16, 48, 5, 1, 48, WEIR_DTYPE_F16, WEIR_DTYPE_F16, 5, 500, true},
    {20, 12, 8, 2, 16, WEIR_DTYPE_F32, WEIR_DTYPE_F16, 0, 0, false},
    {192, 128, 2, 1, 16, WEIR_DTYPE_F32, WEIR_DTYPE_BF16, 0, 1, false},
    {512, 512, 2, 1, 16, WEIR_DTYPE_F32, WEIR_DTYPE_F16, 0, 0, false},
    {32, 32, 64, 1, 16, WEIR_DTYPE_F32, WEIR_DTYPE_F16, 0, 0, false},
    {7, 5, 3, 3, 16, WEIR_DTYPE_F32, WEIR_DTYPE_F32, 0, 65, true},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

static problem shape_problem(const shape *s, const int (*rows)[2], int n) {
    wr_attention_args args = {.scale = 1 / sqrtf((float)s->d),
                              .softcap = s->softcap,
                              .causal = true,
                              .has_sinks = s->sinks,
                              .window = s->window};
    return new_problem(s->d, s->e, s->heads, s->kv, s->page, s->q, s->cache, args, mixed_lengths, 5, rows, n);
}

static void test_paged_rows_of_many_sequences_match_the_definition(void **state) {
    (void)state;
    int rows[256][2], n = mixed_rows(rows);
    for (int i = 0; i < N_SHAPES; i++) {
        problem p = shape_problem(&shapes[i], rows, n);
        FOR_EACH_LEVEL(level) {
            wr_tensor y = run_problem(&p, level, 2);
            check_definition(&p, &y);
            free_tensor(&y);
        }
        free_problem(&p);
    }
}

static void test_paged_bits_do_not_depend_on_threads(void **state) {
    (void)state;
    int rows[256][2], n = mixed_rows(rows);
    for (int i = 0; i < N_SHAPES; i++) {
        problem p = shape_problem(&shapes[i], rows, n);
        FOR_EACH_LEVEL(level) {
            wr_tensor one = run_problem(&p, level, 1);
            for (int threads = 2; threads <= 5; threads += 3) {
                wr_tensor y = run_problem(&p, level, threads);
                assert_memory_equal(y.data, one.data, tensor_bytes(&y));
                free_tensor(&y);
            }
            free_tensor(&one);
        }
        free_problem(&p);
    }
}

/* Alone: every row of the batch asked by itself (decode tier, spans spread over threads), and in chunks of 7. */
static void test_paged_rows_alone_and_in_chunks_equal_the_batch(void **state) {
    (void)state;
    int rows[256][2], n = mixed_rows(rows);
    for (int i = 0; i < N_SHAPES; i++) {
        problem p = shape_problem(&shapes[i], rows, n);
        size_t row_bytes = (size_t)(shapes[i].heads * shapes[i].e) * weir_dtype_bytes(shapes[i].q);
        FOR_EACH_LEVEL(level) {
            wr_tensor all = run_problem(&p, level, 2);
            for (int chunk = 1; chunk <= 7; chunk += 6)
                for (int t = 0; t < n; t += chunk) {
                    int m = n - t < chunk ? n - t : chunk;
                    problem part = p;
                    part.n_rows = m;
                    part.in[0].shape[0] = part.in[4].shape[0] = part.in[5].shape[0] = m;
                    part.in[0].data = (char *)p.in[0].data +
                                      (size_t)(t * shapes[i].heads * shapes[i].d) * weir_dtype_bytes(shapes[i].q);
                    part.in[4].data = (int32_t *)p.in[4].data + t;
                    part.in[5].data = (int32_t *)p.in[5].data + t;
                    wr_tensor y = run_problem(&part, level, t % 2 ? 5 : 1);
                    assert_memory_equal(y.data, (char *)all.data + (size_t)t * row_bytes, tensor_bytes(&y));
                    free_tensor(&y);
                }
            free_tensor(&all);
        }
        free_problem(&p);
    }
}

static void test_paged_long_context_splits_over_spans_without_changing_bits(void **state) {
    (void)state;
    static const int lengths[] = {9000, 4500};
    const int rows[][2] = {{0, 8999}, {1, 4498}, {1, 4499}, {0, 5200}, {-1, 0}};
    wr_attention_args args = {.scale = 0.125f, .causal = true};
    problem p = new_problem(64, 64, 4, 1, 16, WEIR_DTYPE_F32, WEIR_DTYPE_F16, args, lengths, 2, rows, 5);
    FOR_EACH_LEVEL(level) {
        wr_tensor one = run_problem(&p, level, 1);
        check_definition(&p, &one);
        for (int threads = 2; threads <= 5; threads += 3) {
            wr_tensor y = run_problem(&p, level, threads);
            assert_memory_equal(y.data, one.data, tensor_bytes(&y));
            free_tensor(&y);
        }
        free_tensor(&one);
    }
    free_problem(&p);
}

/* Infinity in the V of one key must not reach the rows before it, though a tile holds them together. */
static void test_paged_infinity_in_a_later_value_does_not_reach_earlier_rows(void **state) {
    (void)state;
    static const int lengths[] = {40};
    int rows[40][2];
    for (int i = 0; i < 40; i++) rows[i][0] = 0, rows[i][1] = i;
    wr_attention_args args = {.scale = 0.125f, .causal = true};
    problem p = new_problem(64, 64, 3, 1, 64, WEIR_DTYPE_F32, WEIR_DTYPE_F16, args, lengths, 1, rows, 40);
    FOR_EACH_LEVEL(level) {
        wr_tensor before = run_problem(&p, level, 1);
        uint16_t *v = p.in[2].data, was = v[20 * 64 + 3];
        v[20 * 64 + 3] = 0x7c00;
        wr_tensor y = run_problem(&p, level, 1);
        v[20 * 64 + 3] = was;
        assert_memory_equal(y.data, before.data, 20 * 3 * 64 * 4);
        assert_true(isinf(((float *)y.data)[20 * 3 * 64 + 3]));
        free_tensor(&before);
        free_tensor(&y);
    }
    free_problem(&p);
}

static void test_paged_nan_in_q_gives_nan_in_its_row_only(void **state) {
    (void)state;
    static const int lengths[] = {40};
    int rows[40][2];
    for (int i = 0; i < 40; i++) rows[i][0] = 0, rows[i][1] = i;
    wr_attention_args args = {.scale = 0.125f, .causal = true};
    problem p = new_problem(64, 64, 1, 1, 64, WEIR_DTYPE_F32, WEIR_DTYPE_F16, args, lengths, 1, rows, 40);
    ((float *)p.in[0].data)[7 * 64] = NAN;
    FOR_EACH_LEVEL(level) {
        wr_tensor y = run_problem(&p, level, 1);
        for (int t = 0; t < 40; t++) assert_int_equal(isnan(((float *)y.data)[t * 64]) != 0, t == 7);
        free_tensor(&y);
    }
    free_problem(&p);
}

/* Plain attention: strided q, k, v (heads inside of tokens), masks of both kinds, grouped heads. */
static void run_plain(int64_t heads, int64_t kv, int64_t n_q, int64_t n_keys, int64_t d, weir_dtype mask_dtype,
                      bool sinks, bool causal, int64_t window, float softcap) {
    int64_t batch = 2;
    wr_attention_args args = {.scale = 0.3f,
                              .softcap = softcap,
                              .causal = causal,
                              .window = window,
                              .has_mask = mask_dtype != WEIR_DTYPE_COUNT,
                              .has_sinks = sinks};
    wr_tensor in[5];
    int n_in = 3;
    in[0] = TENSOR(WEIR_DTYPE_F32, batch, n_q, heads, d);
    in[1] = TENSOR(WEIR_DTYPE_F16, batch, n_keys, kv, d);
    in[2] = TENSOR(WEIR_DTYPE_BF16, batch, n_keys, kv, d);
    for (int i = 0; i < 3; i++) {
        fill(&in[i], 31 + (uint64_t)i, 1.5f);
        int64_t length = in[i].shape[1], stride = in[i].strides[1]; /* to [B, heads, L, d] */
        in[i].shape[1] = in[i].shape[2], in[i].strides[1] = in[i].strides[2];
        in[i].shape[2] = length, in[i].strides[2] = stride;
    }
    if (args.has_mask) {
        in[n_in] = TENSOR(mask_dtype, heads, n_q, n_keys); /* broadcast over the batch */
        fill(&in[n_in], 77, 2);
        if (mask_dtype == WEIR_DTYPE_BOOL)
            for (int64_t i = 0; i < tensor_size(&in[n_in]); i++)
                put(&in[n_in], i, noise((uint64_t)i) > 0 || i < n_keys);
        else
            put(&in[n_in], 2, -INFINITY);
        n_in++;
    }
    if (sinks) in[n_in] = TENSOR(WEIR_DTYPE_F32, heads), fill(&in[n_in], 9, 2), n_in++;
    wr_step step = {.op = WR_OP_ATTENTION, .args = &args, .n_in = n_in, .in = in};
    step.out = TENSOR(WEIR_DTYPE_F32, batch, heads, n_q, d);
    float *first = malloc(tensor_bytes(&step.out));
    FOR_EACH_LEVEL(level) {
        for (int threads = 1; threads <= 3; threads += 2) {
            run_level(wr_cpu_attention_rows, &step, level, threads, false);
            if (threads == 1)
                memcpy(first, step.out.data, tensor_bytes(&step.out));
            else
                assert_memory_equal(first, step.out.data, tensor_bytes(&step.out));
        }
        double *s = malloc((size_t)n_keys * sizeof *s), *want = malloc((size_t)d * sizeof *want);
        for (int64_t b = 0; b < batch; b++)
            for (int64_t h = 0; h < heads; h++)
                for (int64_t l = 0; l < n_q; l++) {
                    int64_t g = h / (heads / kv), pos = l + n_keys - n_q;
                    double most = -INFINITY, sum = 0;
                    for (int64_t j = 0; j < d; j++) want[j] = 0;
                    for (int64_t i = 0; i < n_keys; i++) {
                        s[i] = 0;
                        for (int64_t j = 0; j < d; j++)
                            s[i] += get(&in[0], ((b * n_q + l) * heads + h) * d + j) *
                                    get(&in[1], ((b * n_keys + i) * kv + g) * d + j);
                        s[i] *= (double)args.scale;
                        if (softcap > 0) s[i] = softcap * tanh(s[i] / softcap);
                        if (args.has_mask) {
                            double m = get(&in[3], (h * n_q + l) * n_keys + i);
                            s[i] = mask_dtype != WEIR_DTYPE_BOOL ? s[i] + m : m != 0 ? s[i] : -INFINITY;
                        }
                        if ((causal || window) && i > pos) s[i] = -INFINITY;
                        if (window && i <= pos - window) s[i] = -INFINITY;
                        most = s[i] > most ? s[i] : most;
                    }
                    for (int64_t i = 0; i < n_keys && most > -INFINITY; i++) {
                        double w = exp(s[i] - most);
                        sum += w;
                        for (int64_t j = 0; j < d; j++) want[j] += w * get(&in[2], ((b * n_keys + i) * kv + g) * d + j);
                    }
                    if (sinks && most > -INFINITY) sum += exp(get(&in[n_in - 1], h) - most);
                    for (int64_t j = 0; j < d; j++) {
                        double y = get(&step.out, ((b * heads + h) * n_q + l) * d + j);
                        if (!(fabs(y - (sum > 0 ? want[j] / sum : 0)) <= 2e-5))
                            fail_msg("batch %d head %d query %d: %.9g, should be %.9g", (int)b, (int)h, (int)l, y,
                                     want[j] / sum);
                    }
                }
        free(s), free(want);
    }
    free(first);
    free_tensor(&step.out);
    for (int i = 0; i < n_in; i++) free_tensor(&in[i]);
}

static void test_plain_attention_with_masks_windows_and_groups_matches_the_definition(void **state) {
    (void)state;
    run_plain(6, 2, 50, 130, 64, WEIR_DTYPE_COUNT, false, true, 0, 0);
    run_plain(6, 2, 1, 300, 64, WEIR_DTYPE_BOOL, true, false, 0, 0);
    run_plain(4, 4, 33, 70, 40, WEIR_DTYPE_BOOL, false, false, 0, 0);
    run_plain(4, 1, 9, 130, 20, WEIR_DTYPE_F32, true, true, 0, 10);
    run_plain(2, 1, 70, 70, 128, WEIR_DTYPE_F16, false, true, 17, 0);
    run_plain(2, 2, 10, 4, 16, WEIR_DTYPE_COUNT, false, true, 0, 0); /* more queries than keys: the first see none */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paged_rows_of_many_sequences_match_the_definition),
        cmocka_unit_test(test_paged_bits_do_not_depend_on_threads),
        cmocka_unit_test(test_paged_rows_alone_and_in_chunks_equal_the_batch),
        cmocka_unit_test(test_paged_long_context_splits_over_spans_without_changing_bits),
        cmocka_unit_test(test_paged_infinity_in_a_later_value_does_not_reach_earlier_rows),
        cmocka_unit_test(test_paged_nan_in_q_gives_nan_in_its_row_only),
        cmocka_unit_test(test_plain_attention_with_masks_windows_and_groups_matches_the_definition),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
