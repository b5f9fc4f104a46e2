/* SAMPLE on the emulated card against the CPU's sampler: the same token for the same draw, but where a draw, or what
 * top_p keeps, falls on the border of two tokens within rounding; exactly where weights are exact; whatever the other
 * rows, the order of threads and the number of slices. */
#include "cuda/rows_test.h"

#include "array/sample.h"
#include "cuda/sample.h"

/* The CPU's sampler stands in a room below: its one file is compiled in, as it needs base only. */
#include "engine/sampler.c"

enum { MAX_BIAS = 16 };

/* A row with all that it needs on both sides. */
typedef struct request {
    wr_sample_row row;
    wr_sample_bias bias[MAX_BIAS];
    float *logits;    /* [vocab] */
    uint32_t *counts; /* [vocab] or NULL */
} request;

typedef struct answer {
    int32_t token, n_top, top[WR_SAMPLE_MAX_TOP];
    float logprob, top_logprob[WR_SAMPLE_MAX_TOP];
} answer;

static float float_of(int32_t bits) { return wr_f32_from_bits((uint32_t)bits); }

/* All requests in one launch, with fresh memory for everything. Slots are given in falling order. */
static void device_sample(request *requests, int n, int64_t vocab, int n_top, int order, answer *answers) {
    wr_tensor logits = SHIFTED(WEIR_DTYPE_F32, 1, n, vocab);
    wr_tensor table = TENSOR(WEIR_DTYPE_U8, n * (int64_t)(sizeof(wr_sample_row) + MAX_BIAS * sizeof(wr_sample_bias)));
    wr_tensor counts = TENSOR(WEIR_DTYPE_U32, n, vocab), out = TENSOR(WEIR_DTYPE_I32, n, WR_SAMPLE_HEAD + 2 * n_top);
    for (int r = 0; r < n; r++) {
        wr_sample_row row = requests[r].row;
        memcpy((float *)logits.data + r * vocab, requests[r].logits, (size_t)vocab * sizeof(float));
        if (row.slot >= 0 && row.slot < n) row.slot = n - 1 - r;
        if (requests[r].counts)
            memcpy((uint32_t *)counts.data + (n - 1 - r) * vocab, requests[r].counts, (size_t)vocab * 4);
        row.bias_offset = (uint32_t)(n * (int)sizeof row + r * MAX_BIAS * (int)sizeof(wr_sample_bias));
        memcpy((char *)table.data + (size_t)r * sizeof row, &row, sizeof row);
        memcpy((char *)table.data + row.bias_offset, requests[r].bias, sizeof requests[r].bias);
    }
    wr_tensor in[] = {logits, table, counts};
    wr_sample_args args = {n_top};
    wr_step step = {.args = &args, .n_in = 3, .in = in, .out = out};
    const wr_kernel_row *row = wr_cuda_sample_table();
    assert_true(row_fits(row, &step));
    run_row(row, &step, order);
    for (int r = 0; r < n; r++) {
        const int32_t *o = (const int32_t *)out.data + r * (WR_SAMPLE_HEAD + 2 * n_top);
        answers[r] = (answer){.token = o[0], .n_top = o[1], .logprob = float_of(o[2])};
        assert_int_equal(o[3], 0);
        for (int i = 0; i < n_top; i++) {
            answers[r].top[i] = o[WR_SAMPLE_HEAD + i];
            answers[r].top_logprob[i] = float_of(o[WR_SAMPLE_HEAD + n_top + i]);
        }
        if (requests[r].counts)
            memcpy(requests[r].counts, (uint32_t *)counts.data + (n - 1 - r) * vocab, (size_t)vocab * 4);
    }
    check_guards(&logits), check_guards(&table), check_guards(&counts);
    free_tensor(&logits), free_tensor(&table), free_tensor(&counts), free_tensor(&out);
}

/* The CPU's choice; *adjusted: the logits that it drew from, to be freed. */
static int32_t host_sample(const request *q, int64_t vocab, float **adjusted) {
    weir_error err = {0};
    wr_sampler s;
    weir_logit_bias bias[MAX_BIAS];
    size_t n_bias = 0;
    for (uint32_t i = 0; i < q->row.n_bias; i++)
        if (q->bias[i].token >= 0 && q->bias[i].token < vocab)
            bias[n_bias++] = (weir_logit_bias){q->bias[i].token, q->bias[i].bias};
    weir_sampling o = {.temperature = q->row.temperature,
                       .top_k = q->row.top_k,
                       .top_p = q->row.top_p,
                       .min_p = q->row.min_p,
                       .repetition_penalty = q->row.repetition_penalty,
                       .presence_penalty = q->row.presence_penalty,
                       .frequency_penalty = q->row.frequency_penalty,
                       .logit_bias = bias,
                       .n_logit_bias = n_bias,
                       .seed = q->row.seed};
    if (wr_sampler_init(&s, &o, vocab, vocab, &err) != WEIR_OK) fail_msg("%s", err.message);
    for (int64_t i = 0; i < vocab && q->counts && q->row.slot >= 0; i++) {
        if (q->counts[i] & WR_SAMPLE_IN_PROMPT) wr_sampler_see(&s, (int32_t)i, false);
        for (uint32_t k = 0; k < (q->counts[i] & ~WR_SAMPLE_IN_PROMPT); k++) wr_sampler_see(&s, (int32_t)i, true);
    }
    wr_candidate *scratch = malloc((size_t)vocab * sizeof *scratch);
    int32_t token = wr_sample(&s, q->logits, scratch, q->row.position);
    *adjusted = malloc((size_t)vocab * sizeof **adjusted);
    memcpy(*adjusted, s.adjusted ? s.adjusted : q->logits, (size_t)vocab * sizeof **adjusted);
    free(scratch);
    wr_sampler_deinit(&s);
    return token;
}

/* ---- is another token a matter of rounding? ---- */

static int by_rank(const void *a, const void *b) {
    const wr_candidate *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->token < y->token ? -1 : 1;
}

/* Would the draw give the token if `kept` candidates stayed, c in the order of drawing, and its place on the line from
 * 0 to the sum of weights moved by a few units of f32's rounding? */
static bool near_border(const wr_candidate *c, const double *w, int64_t kept, double u, int32_t token) {
    double total = 0, before = 0;
    for (int64_t i = 0; i < kept; i++) total += w[i];
    for (int64_t i = 0; i < kept; before += w[i++])
        if (c[i].token == token) return u * total > before - 4e-6 * total && u * total < before + w[i] + 4e-6 * total;
    return false;
}

/* A disagreement is allowed when the draw falls within 4e-6 of the border (weights are off by some 1e-6, from f32's
 * exp and from the logits' distance in f32), with as many tokens kept as in exact arithmetic, or one more or less. */
static bool is_rounding(const request *q, const float *l, int64_t vocab, int32_t token) {
    wr_candidate *c = malloc((size_t)vocab * sizeof *c);
    double *w = malloc((size_t)vocab * sizeof *w), total = 0, sum = 0;
    int64_t n = 0, kept;
    for (int64_t i = 0; i < vocab; i++)
        if (l[i] == l[i] && l[i] > -INFINITY) c[n++] = (wr_candidate){l[i], (int32_t)i};
    const wr_sample_row *o = &q->row;
    bool ranked = (o->top_k > 0 && o->top_k < vocab) || (o->top_p > 0 && o->top_p < 1);
    float max = -INFINITY;
    for (int64_t i = 0; i < n; i++) max = c[i].logit > max ? c[i].logit : max;
    if (ranked) qsort(c, (size_t)n, sizeof *c, by_rank);
    if (o->top_k > 0 && o->top_k < n) n = o->top_k;
    for (int64_t i = 0; i < n; i++) total += w[i] = exp(((double)c[i].logit - (double)max) / (double)o->temperature);
    for (kept = 0; kept < n && (!(o->top_p > 0 && o->top_p < 1) || sum < (double)o->top_p * total);) sum += w[kept++];
    uint32_t bits[4];
    wr_philox(o->seed, (uint64_t)o->position, bits);
    double u = (double)(((uint64_t)bits[0] << 21) ^ (bits[1] >> 11)) * 0x1p-53;
    bool found = false;
    for (int64_t k = kept - 1; k <= kept + 1 && !found; k++) {
        if (k < 1 || k > n) continue;
        wr_candidate *left = malloc((size_t)k * sizeof *left);
        double *weights = malloc((size_t)k * sizeof *weights);
        int64_t m = 0;
        for (int64_t i = 0; i < k; i++)
            if (w[i] >= (double)o->min_p) left[m] = c[i], weights[m++] = w[i];
        found = near_border(left, weights, m, u, token);
        free(left), free(weights);
    }
    free(c), free(w);
    return found;
}

/* ---- requests ---- */

static double uniform(uint64_t i) { return (double)(random_bits(i) >> 11) * 0x1p-53; }

/* Logits as models give them: most about 0, some far above. */
static void fill_logits(float *l, int64_t vocab, uint64_t seed) {
    for (int64_t i = 0; i < vocab; i++) {
        uint64_t at = seed * 1000003u + (uint64_t)i * 4;
        double normal = sqrt(-2 * log(1 - uniform(at))) * cos(6.283185307179586 * uniform(at + 1));
        l[i] = (float)(3 * normal + (random_bits(at + 2) % 200 == 0 ? 8 : 0));
        if (random_bits(at + 3) % 7 == 0) l[i] = rintf(l[i] * 4) / 4; /* ties */
    }
}

static void fill_request(request *q, int64_t vocab, uint64_t seed) {
    static const float temperatures[] = {1, 0.7f, 0.2f, 1.5f, 1e-3f, 50}, shares[] = {0.9f, 0.5f, 0.99f, 0.05f},
                       floors[] = {0.05f, 0.3f, 1, 1e-5f};
    uint64_t bits = random_bits(seed * 77 + 5);
    wr_sample_row *o = &q->row;
    *o = (wr_sample_row){.seed = random_bits(seed), .position = (int64_t)(bits % 100000), .slot = -1};
    o->temperature = temperatures[bits / 8 % 6];
    if (bits >> 20 & 1) o->top_k = 1 + (int32_t)((bits >> 24) % (uint64_t)(vocab < 100 ? vocab : 100));
    if (bits >> 32 & 1) o->top_p = shares[bits >> 34 & 3];
    if (bits >> 37 & 1) o->min_p = floors[bits >> 39 & 3];
    q->logits = malloc((size_t)vocab * sizeof *q->logits);
    fill_logits(q->logits, vocab, seed);
    if (bits >> 42 & 1) {
        o->slot = 0;
        o->repetition_penalty = bits >> 43 & 1 ? 1.3f : 0;
        o->presence_penalty = bits >> 44 & 1 ? 0.5f : 0;
        o->frequency_penalty = bits >> 45 & 1 ? -0.25f : 0.1f;
        q->counts = calloc((size_t)vocab, sizeof *q->counts);
        for (int64_t i = 0; i < vocab; i++) {
            uint64_t mixed = random_bits(seed * 131 + (uint64_t)i);
            if (mixed % 4 == 0) q->counts[i] = (uint32_t)(mixed >> 8) % 3 | (mixed >> 40 & 1 ? WR_SAMPLE_IN_PROMPT : 0);
        }
    }
    if (bits >> 47 & 1) {
        o->n_bias = MAX_BIAS;
        for (int i = 0; i < MAX_BIAS; i++) /* some twice, some of no token */
            q->bias[i] = (wr_sample_bias){(int32_t)(random_bits(seed + (uint64_t)i / 2) % (uint64_t)(vocab + 2)) - 1,
                                          (float)(i % 5) - 2.3f};
    }
}

static request *new_requests(int n, int64_t vocab, uint64_t seed) {
    request *q = calloc((size_t)n, sizeof *q);
    for (int i = 0; i < n; i++) fill_request(&q[i], vocab, seed + (uint64_t)i);
    return q;
}
static void free_requests(request *q, int n) {
    for (int i = 0; i < n; i++) free(q[i].logits), free(q[i].counts);
    free(q);
}

static const char *show(const request *q) {
    static char text[200];
    const wr_sample_row *o = &q->row;
    snprintf(text, sizeof text, "temperature %g top_k %d top_p %g min_p %g slot %d biases %u", (double)o->temperature,
             o->top_k, (double)o->top_p, (double)o->min_p, o->slot, o->n_bias);
    return text;
}

/* Returns how many tokens differ; fails when one does without a border. */
static int compare_all(const request *q, int n, int64_t vocab, const answer *got) {
    int differ = 0;
    for (int i = 0; i < n; i++) {
        float *l;
        int32_t want = host_sample(&q[i], vocab, &l);
        if (want != got[i].token) {
            differ++;
            if (got[i].token < 0 || got[i].token >= vocab || !is_rounding(&q[i], l, vocab, got[i].token))
                fail_msg("row %d of %lld logits, %s: token %d, should be %d", i, (long long)vocab, show(&q[i]),
                         got[i].token, want);
        }
        free(l);
    }
    return differ;
}

/* ---- tests ---- */

static void draws_are_those_of_the_cpu(void **state) {
    (void)state;
    static const struct {
        int64_t vocab;
        int n;
    } cases[] = {{1, 8}, {2, 24}, {157, 1200}, {1000, 600}, {8192, 24}, {8193, 24}, {20011, 60}};
    int rows = 0, differ = 0;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        request *q = new_requests(cases[c].n, cases[c].vocab, 1000 * (c + 1));
        answer *got = calloc((size_t)cases[c].n, sizeof *got);
        device_sample(q, cases[c].n, cases[c].vocab, 0, (int)c % 3, got);
        differ += compare_all(q, cases[c].n, cases[c].vocab, got);
        rows += cases[c].n;
        free(got);
        free_requests(q, cases[c].n);
    }
    print_message("%d of %d draws differ (on a border of two tokens)\n", differ, rows);
    assert_true(differ * 1000 <= rows);
}

static void large_vocabularies_are_sampled(void **state) {
    (void)state;
    static const int64_t vocabs[] = {151936, 262208};
    for (int c = 0; c < 2; c++) {
        enum { N = 6 };
        request *q = new_requests(N, vocabs[c], 90 + 10 * (uint64_t)c);
        answer got[N];
        device_sample(q, N, vocabs[c], 0, 0, got);
        assert_true(compare_all(q, N, vocabs[c], got) <= 1);
        free_requests(q, N);
    }
}

/* Weights are whole numbers on both sides then, so nothing may differ; and bins are far too large to be sorted. */
static void equal_logits_are_drawn_exactly(void **state) {
    (void)state;
    enum { N = 24, VOCAB = 20000 };
    request *q = calloc(N, sizeof *q);
    answer got[N];
    for (int i = 0; i < N; i++) {
        q[i].row = (wr_sample_row){.seed = random_bits((uint64_t)i), .position = i, .temperature = 0.8f, .slot = -1};
        q[i].row.top_k = i % 4 == 0 ? 0 : i % 4 == 1 ? 5000 : i % 4 == 2 ? 7 : 19999;
        q[i].row.top_p = i % 3 == 0 ? 0 : i % 3 == 1 ? 0.5f : 0.0625f;
        q[i].row.min_p = i % 5 == 0 ? 1 : 0;
        q[i].logits = malloc(VOCAB * sizeof(float));
        /* All alike (0 and -0 are), or two heights so far apart that the lower one weighs nothing. */
        for (int k = 0; k < VOCAB; k++) q[i].logits[k] = i < 12 ? (k % 2 ? -0.0f : 0.0f) : k % 3 ? 1.5f : -1e4f;
    }
    device_sample(q, N, VOCAB, 0, 2, got);
    for (int i = 0; i < N; i++) {
        float *l;
        int32_t want = host_sample(&q[i], VOCAB, &l);
        free(l);
        if (want != got[i].token) fail_msg("row %d, %s: token %d, should be %d", i, show(&q[i]), got[i].token, want);
    }
    free_requests(q, N);
}

/* Thousands of different logits within one bin. */
static void crowded_bins_are_cut_down(void **state) {
    (void)state;
    enum { N = 12, VOCAB = 9000 };
    request *q = calloc(N, sizeof *q);
    answer got[N];
    for (int i = 0; i < N; i++) {
        q[i].row = (wr_sample_row){.seed = random_bits((uint64_t)i + 50), .position = 9, .temperature = 1, .slot = -1};
        q[i].row.top_k = i % 2 ? 4000 + i : 0;
        q[i].row.top_p = i % 3 == 2 ? 0.4f : i % 2 ? 0 : 0.95f;
        q[i].row.min_p = i % 4 == 3 ? 0.5f : 0;
        q[i].logits = malloc(VOCAB * sizeof(float));
        for (int k = 0; k < VOCAB; k++)
            q[i].logits[k] = 4 + (float)(random_bits((uint64_t)(i * VOCAB + k)) % 5000) * 2e-6f;
        q[i].logits[77] = 4.3f; /* so that the others are in a bin behind the first */
    }
    device_sample(q, N, VOCAB, 0, 1, got);
    compare_all(q, N, VOCAB, got);
    free_requests(q, N);
}

static void greedy_takes_the_first_best_number(void **state) {
    (void)state;
    enum { N = 9, VOCAB = 17000 };
    request *q = calloc(N, sizeof *q);
    answer got[N];
    static const int32_t want[N] = {8191, 5, -1, -1, 16999, 3, 8200, 12, -1};
    for (int i = 0; i < N; i++) {
        float fill_with = i == 2 ? NAN : i == 3 || i == 8 ? -INFINITY : -1;
        q[i].row.slot = -1;
        q[i].row.temperature = i == 7 || i == 8 ? 1 : 0; /* +infinity is taken, none refused, with a draw too */
        q[i].logits = malloc(VOCAB * sizeof(float));
        for (int k = 0; k < VOCAB; k++) q[i].logits[k] = fill_with;
    }
    q[0].logits[8191] = q[0].logits[8192] = q[0].logits[16999] = 2;
    q[1].logits[5] = -0.0f, q[1].logits[6] = 0, q[1].logits[0] = NAN;
    q[4].logits[16999] = -0.5f, q[4].logits[1] = -NAN;
    for (int k = 0; k < VOCAB; k++) q[5].logits[k] = k < 3 ? NAN : -1e38f;
    q[6].logits[8200] = INFINITY, q[6].logits[9000] = INFINITY;
    q[7].logits[12] = INFINITY, q[7].logits[13] = INFINITY;
    for (int order = 0; order < 3; order++) {
        device_sample(q, N, VOCAB, 0, order, got);
        for (int i = 0; i < N; i++) {
            float *l;
            assert_int_equal(got[i].token, want[i]);
            assert_int_equal(host_sample(&q[i], VOCAB, &l), want[i]);
            free(l);
        }
    }
    free_requests(q, N);
}

static void a_row_is_the_same_alone_and_among_others(void **state) {
    (void)state;
    enum { N = 40, TOP = 5 };
    const int64_t vocab = 9001;
    request *q = new_requests(N, vocab, 4242);
    answer all[N], alone, again[N];
    for (int i = 0; i < N; i++) q[i].row.flags = WR_SAMPLE_LOGPROB, q[i].row.n_top = i % (TOP + 1);
    device_sample(q, N, vocab, TOP, 0, all);
    device_sample(q, N, vocab, TOP, 12345, again);
    for (int i = 0; i < N; i++) {
        assert_memory_equal(&all[i], &again[i], sizeof all[i]);
        if (i % 5) continue;
        device_sample(&q[i], 1, vocab, TOP, 1, &alone);
        assert_memory_equal(&all[i], &alone, sizeof alone);
    }
    free_requests(q, N);
}

static void log_probabilities_are_of_the_raw_logits(void **state) {
    (void)state;
    enum { N = 12, TOP = WR_SAMPLE_MAX_TOP };
    static const int64_t vocabs[] = {50, 8193, 30000};
    for (int c = 0; c < 3; c++) {
        const int64_t vocab = vocabs[c];
        request *q = new_requests(N, vocab, 7000 + (uint64_t)c);
        answer got[N];
        for (int i = 0; i < N; i++) {
            q[i].row.flags = i == 3 ? 0 : WR_SAMPLE_LOGPROB;
            q[i].row.n_top = i == 4 ? 0 : i == 5 ? 1 : i == 6 ? 1000 : 20 * (i % 7);
            if (i == 7) q[i].logits[3] = NAN, q[i].logits[4] = -INFINITY;
            if (i == 8) q[i].logits[3] = INFINITY;
            for (int64_t k = 0; i == 9 && k < vocab; k++) q[i].logits[k] = 0.25f; /* lower ids first */
            for (int64_t k = 0; i == 10 && k < vocab; k++) q[i].logits[k] = k % 9 ? NAN : (float)k * 1e-3f;
            if (i == 11) q[i].row.flags |= WR_SAMPLE_OFF;
        }
        device_sample(q, N, vocab, TOP, c, got);
        for (int i = 0; i < N; i++) {
            wr_candidate best[WR_SAMPLE_MAX_TOP];
            int n = i == 11 ? 0 : q[i].row.n_top < TOP ? q[i].row.n_top : TOP;
            n = n ? wr_top_tokens(q[i].logits, vocab, n, best) : 0;
            double lse = wr_logsumexp(q[i].logits, vocab), floor = -1e30;
            assert_int_equal(got[i].n_top, n);
            for (int k = 0; k < TOP; k++) {
                double want = k < n ? (double)best[k].logit - lse : 0;
                if (!(want > floor)) want = floor;
                assert_int_equal(got[i].top[k], k < n ? best[k].token : 0);
                assert_true(fabs((double)got[i].top_logprob[k] - want) <= 2e-6 * (1 + fabs(want)));
            }
            if (i == 11) assert_int_equal(got[i].token, -1);
            double want = i == 3 || i == 11 ? 0 : (double)q[i].logits[got[i].token] - lse;
            if (!(want > floor)) want = floor;
            assert_true(fabs((double)got[i].logprob - want) <= 2e-6 * (1 + fabs(want)));
        }
        free_requests(q, N);
    }
}

static void tokens_are_counted_where_that_is_wanted(void **state) {
    (void)state;
    enum { N = 6, VOCAB = 300 };
    request *q = calloc(N, sizeof *q);
    answer got[N];
    for (int i = 0; i < N; i++) {
        q[i].row = (wr_sample_row){.flags = i % 2 ? WR_SAMPLE_COUNT : 0, .slot = i < 4 ? 0 : i == 4 ? -1 : 1000};
        q[i].logits = malloc(VOCAB * sizeof(float));
        q[i].counts = calloc(VOCAB, sizeof(uint32_t));
        fill_logits(q[i].logits, VOCAB, (uint64_t)i);
        q[i].counts[9] = 3 | WR_SAMPLE_IN_PROMPT;
        if (i == 3) q[i].logits[9] = 50;
    }
    device_sample(q, N, VOCAB, 0, 0, got);
    assert_int_equal(got[3].token, 9);
    for (int i = 0; i < N; i++)
        for (int k = 0; k < VOCAB; k++) {
            uint32_t before = k == 9 ? 3 | WR_SAMPLE_IN_PROMPT : 0;
            assert_int_equal(q[i].counts[k], before + (i % 2 && i < 4 && k == got[i].token));
        }
    free_requests(q, N);
}

static void what_does_not_fit_is_refused(void **state) {
    (void)state;
    wr_tensor in[] = {{.dtype = WEIR_DTYPE_F32, .n_dims = 2, .shape = {2, 100}},
                      {.dtype = WEIR_DTYPE_U8, .n_dims = 1, .shape = {2 * sizeof(wr_sample_row)}},
                      {.dtype = WEIR_DTYPE_U32, .n_dims = 2, .shape = {4, 100}}};
    wr_sample_args args = {3};
    wr_step step = {
        .args = &args, .n_in = 3, .in = in, .out = {.dtype = WEIR_DTYPE_I32, .n_dims = 2, .shape = {2, 10}}};
    const wr_kernel_row *row = wr_cuda_sample_table();
    assert_true(row->fits(&step));
    step.n_in = 2;
    assert_true(row->fits(&step));
    step.n_in = 3, in[2].shape[1] = 99;
    assert_false(row->fits(&step));
    in[2].shape[1] = 100, args.n_top = 4;
    assert_false(row->fits(&step));
    args.n_top = 3, in[0].dtype = WEIR_DTYPE_F16;
    assert_false(row->fits(&step));
    in[0].dtype = WEIR_DTYPE_F32, in[0].shape[1] = in[2].shape[1] = ((int64_t)1 << 24) + 1;
    assert_false(row->fits(&step));
    in[0].shape[1] = in[2].shape[1] = 100, in[1].shape[0]--;
    weir_error err = {0};
    assert_int_equal(row->launch(&step, NULL, &err), WEIR_E_ARGUMENT);
    assert_non_null(strstr(err.message, "127 bytes for 2 rows"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_takes_the_first_best_number),
        cmocka_unit_test(draws_are_those_of_the_cpu),
        cmocka_unit_test(equal_logits_are_drawn_exactly),
        cmocka_unit_test(crowded_bins_are_cut_down),
        cmocka_unit_test(large_vocabularies_are_sampled),
        cmocka_unit_test(a_row_is_the_same_alone_and_among_others),
        cmocka_unit_test(log_probabilities_are_of_the_raw_logits),
        cmocka_unit_test(tokens_are_counted_where_that_is_wanted),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
