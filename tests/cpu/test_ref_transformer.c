/* Norms, rotary embedding, KV pages and attention by the reference kernels. Attention is compared with the formula
 * written down plainly: all scores, one softmax, one weighted sum. */
#include "cpu/ref_test.h"

static void norms_of_known_rows(void **state) {
    (void)state;
    const float x[] = {3, -4, 3, 4, 1, 7, 1, 7}, weight[] = {1, 2, 1, 0}, bias[] = {0, 0, 1, 5};
    float y[8];
    /* Row 0: mean of squares 50 / 4; row 1: 100 / 4. */
    wr_norm_args args = {.eps = 0};
    RUN(RMS_NORM, &args, T(F32, y, 2, 4), T(F32, x, 2, 4));
    for (int i = 0; i < 8; i++) check_near(y[i], x[i] / sqrt(i < 4 ? 12.5 : 25), 1e-7);
    args.weight_offset = 1;
    args.eps = 11;
    RUN(RMS_NORM, &args, T(F32, y, 1, 4), T(F32, x + 4, 1, 4), T(F32, weight, 4));
    for (int i = 0; i < 4; i++) check_near(y[i], x[4 + i] / 6 * (weight[i] + 1), 3e-7);
    /* Mean 4, variance 9. */
    args.eps = 7;
    RUN(LAYER_NORM, &args, T(F32, y, 1, 4), T(F32, x + 4, 1, 4), T(F32, weight, 4), T(F32, bias, 4));
    CHECK_F32(y, -0.75f, 1.5f, 0.25f, 5);
    uint16_t half[4];
    const uint16_t x_half[] = {0x3f80, 0x40e0, 0x3f80, 0x40e0};
    RUN(LAYER_NORM, &args, T(BF16, half, 1, 4), T(BF16, x_half, 1, 4), T(F32, weight, 4), T(F32, bias, 4));
    CHECK_INT(uint16_t, half, 0xbf40, 0x3fc0, 0x3e80, 0x40a0);
    RUN(RMS_NORM, &args, T(F32, y, 0, 4), T(F32, NULL, 0, 4));
}

/* Position, frequency, cosine and sine of their product; computed with 60 digits. */
static const struct {
    int64_t position;
    double frequency, cosine, sine;
} angles[] = {
    {0, 1.0, 1, 0},
    {1, 1.0, 0.540302305868, 0.841470984808},
    {1, 0.1, 0.995004165278, 0.099833416647},
    {1000, 1.0, 0.562379076291, 0.826879540532},
    {1000, 0.1, 0.862318872288, -0.506365641110},
    {1048575, 1.0, 0.788042239529, -0.615621173059},
    {1048575, 0.1, -0.846190440809, -0.532880603779},
    {1048575, 0.001, 0.753815784324, -0.657085811218},
};

static void rope_table_is_exact_at_far_positions(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof angles / sizeof angles[0]; i++) {
        wr_rope_table_args args = {.half = 2, .attention_factor = 0.5, .inv_freq = {0, angles[i].frequency}};
        float y[4];
        int32_t narrow = (int32_t)angles[i].position;
        RUN(ROPE_TABLE, &args, T(F32, y, 1, 2, 2), T(I64, &angles[i].position, 1));
        check_near(y[0], 0.5, 0);
        check_near(y[1], 0.5 * angles[i].cosine, 1e-7);
        check_near(y[2], 0, 0);
        check_near(y[3], 0.5 * angles[i].sine, 1e-7);
        float again[4];
        RUN(ROPE_TABLE, &args, T(F32, again, 1, 2, 2), T(I32, &narrow, 1));
        assert_memory_equal(y, again, sizeof y);
    }
}

static void rope_rotates_pairs_and_copies_the_rest(void **state) {
    (void)state;
    /* Quarter turn for pair 0, half turn for pair 1; D is 5, so the last value stays. */
    const float table[] = {0, -1, 1, 0}, x[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    float y[10];
    RUN(ROPE, ARGS(wr_rope_args, false), T(F32, y, 1, 2, 5), T(F32, x, 1, 2, 5), T(F32, table, 1, 2, 2));
    CHECK_F32(y, -3, -2, 1, -4, 5, -8, -7, 6, -9, 10);
    RUN(ROPE, ARGS(wr_rope_args, true), T(F32, y, 1, 2, 5), T(F32, x, 1, 2, 5), T(F32, table, 1, 2, 2));
    CHECK_F32(y, -2, 1, -3, -4, 5, -7, 6, -8, -9, 10);
    wr_tensor swapped = T(F32, x, 1, 2, 5); /* heads interleaved in memory */
    swapped.strides[1] = 1;
    swapped.strides[2] = 2;
    RUN(ROPE, ARGS(wr_rope_args, false), T(F32, y, 1, 2, 5), swapped, T(F32, table, 1, 2, 2));
    CHECK_F32(y, -5, -3, 1, -7, 9, -6, -4, 2, -8, 10);
}

static void kv_write_puts_rows_into_their_pages(void **state) {
    (void)state;
    enum { PAGES = 3, PAGE = 2, WIDTH = 2 };
    uint16_t pages[PAGES * PAGE * WIDTH];
    memset(pages, 0, sizeof pages);
    const float x[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    const int32_t table[] = {2, 0, 1, -1}, seq[] = {0, 0, 1, -1, 1, 0}, pos[] = {1, 2, 0, 0, 3, 4};
    wr_tensor in[5] = {T(BF16, pages, PAGES, PAGE, 1, WIDTH), T(F32, x, 6, 1, WIDTH), T(I32, table, 2, 2),
                       T(I32, seq, 6), T(I32, pos, 6)};
    wr_step step = {.op = WR_OP_KV_WRITE, .args = &(wr_kv_args){.tiled = false}, .out = in[0], .n_in = 5, .in = in};
    run_threads(&step, 2);
    /* Row 0: sequence 0, position 1: page 2, slot 1. Row 1: position 2: page 0, slot 0. Row 2: sequence 1: page 1, slot
     * 0. Rows 3 (padding), 4 (page -1) and 5 (beyond the table) are skipped. */
    const float want[] = {3, 4, 0, 0, 5, 6, 0, 0, 0, 0, 1, 2};
    for (int i = 0; i < PAGES * PAGE * WIDTH; i++) assert_true(wr_bf16_to_f32(pages[i]) == want[i]);
}

/* One query row by the formula: n keys and values lie behind k and v at the given distances; seen[j] says which count
 * and added[j] is added to the score. */
static void plain_attention(const float *q, const float *k, const float *v, int64_t n, int64_t head_dim,
                            int64_t n_values, int64_t k_stride, int64_t v_stride, const wr_attention_args *a,
                            const bool *seen, const float *added, const float *sink, double *y) {
    double *score = malloc((size_t)n * sizeof *score + 1), total = sink ? exp(*sink) : 0;
    for (int64_t e = 0; e < n_values; e++) y[e] = 0;
    for (int64_t j = 0; j < n; j++) {
        double s = 0;
        if (!seen[j]) continue;
        for (int64_t d = 0; d < head_dim; d++) s += (double)q[d] * k[j * k_stride + d];
        s *= a->scale;
        if (a->softcap > 0) s = a->softcap * tanh(s / a->softcap);
        score[j] = exp(s + (added ? added[j] : 0)); /* scores are small here, so no maximum is needed */
        total += score[j];
    }
    for (int64_t j = 0; j < n; j++)
        for (int64_t e = 0; e < n_values && seen[j]; e++) y[e] += score[j] / total * v[j * v_stride + e];
    free(score);
}

enum { B = 2, H = 4, G = 2, L = 3, S = 150, D = 8, E = 5 };

static void check_attention(const wr_attention_args *a, bool bool_mask) {
    static float q[B * H * L * D], k[B * G * S * D], v[B * G * S * E], y[B * H * L * E], mask[B * H * L * S], sinks[H];
    static uint8_t flags[B * H * L * S];
    bool seen[S];
    double want[E];
    fill_noise(q, B * H * L * D, 1);
    fill_noise(k, B * G * S * D, 2);
    fill_noise(v, B * G * S * E, 3);
    fill_noise(mask, B * H * L * S, 4);
    fill_noise(sinks, H, 5);
    for (int i = 0; i < B * H * L * S; i++) flags[i] = mask[i] > -0.5f;
    wr_tensor in[5] = {T(F32, q, B, H, L, D), T(F32, k, B, G, S, D), T(F32, v, B, G, S, E)};
    int n_in = 3;
    if (a->has_mask) in[n_in++] = bool_mask ? T(BOOL, flags, B, H, L, S) : T(F32, mask, B, H, L, S);
    if (a->has_sinks) in[n_in++] = T(F32, sinks, H);
    run_op(WR_OP_ATTENTION, a, T(F32, y, B, H, L, E), n_in, in);
    for (int row = 0; row < B * H * L; row++) {
        int l = row % L, h = row / L % H, b = row / L / H, g = b * G + h / (H / G), at = l + S - L;
        for (int j = 0; j < S; j++) {
            seen[j] = (!a->causal || j <= at) && (!a->window || (j <= at && j > at - a->window));
            if (a->has_mask && bool_mask) seen[j] = seen[j] && flags[row * S + j];
        }
        plain_attention(q + row * D, k + g * S * D, v + g * S * E, S, D, E, D, E, a, seen,
                        a->has_mask && !bool_mask ? mask + row * S : NULL, a->has_sinks ? &sinks[h] : NULL, want);
        for (int e = 0; e < E; e++) check_near(y[row * E + e], want[e], 1e-6);
    }
}

static void attention_is_the_formula(void **state) {
    (void)state;
    check_attention(&(wr_attention_args){.scale = 0.4f}, false);
    check_attention(&(wr_attention_args){.scale = 0.4f, .causal = true}, false);
    check_attention(&(wr_attention_args){.scale = 0.4f, .causal = true, .window = 70}, false);
    check_attention(&(wr_attention_args){.scale = 0.4f, .window = 1}, false);
    check_attention(&(wr_attention_args){.scale = 3, .softcap = 0.7f}, false);
    check_attention(&(wr_attention_args){.scale = 0.4f, .has_mask = true}, false);
    check_attention(&(wr_attention_args){.scale = 0.4f, .has_mask = true, .causal = true}, true);
    check_attention(&(wr_attention_args){.scale = 0.4f, .has_sinks = true, .causal = true}, false);
    check_attention(&(wr_attention_args){.scale = 0.4f, .has_mask = true, .has_sinks = true}, true);
}

static void a_query_that_sees_nothing_gives_zero(void **state) {
    (void)state;
    const float q[] = {1, 1}, k[] = {NAN}, v[] = {NAN}, mask[] = {-INFINITY, -INFINITY}, sink[] = {0};
    float y[2];
    /* Two queries, one key: query 0 stands before it. */
    wr_attention_args causal = {.scale = 1, .causal = true};
    RUN(ATTENTION, &causal, T(F32, y, 1, 1, 2, 1), T(F32, q, 1, 1, 2, 1), T(F32, A(float, 1), 1, 1, 1, 1),
        T(F32, A(float, 7), 1, 1, 1, 1));
    CHECK_F32(y, 0, 7);
    wr_attention_args masked = {.scale = 1, .has_mask = true, .has_sinks = true};
    RUN(ATTENTION, &masked, T(F32, y, 1, 1, 2, 1), T(F32, q, 1, 1, 2, 1), T(F32, k, 1, 1, 1, 1), T(F32, v, 1, 1, 1, 1),
        T(F32, mask, 1, 1, 2, 1), T(F32, sink, 1));
    CHECK_F32(y, 0, 0);
    RUN(ATTENTION, ARGS(wr_attention_args, .scale = 1), T(F32, y, 1, 1, 2, 1), T(F32, q, 1, 1, 2, 1),
        T(F32, NULL, 1, 1, 0, 1), T(F32, NULL, 1, 1, 0, 1));
    CHECK_F32(y, 0, 0);
}

static void attention_over_large_scores_does_not_overflow(void **state) {
    (void)state;
    const float q[] = {1000}, k[] = {1, 2, 2, 1}, v[] = {5, 1, 3, 5};
    float y[1];
    RUN(ATTENTION, ARGS(wr_attention_args, .scale = 1), T(F32, y, 1, 1, 1, 1), T(F32, q, 1, 1, 1, 1),
        T(F32, k, 1, 1, 4, 1), T(F32, v, 1, 1, 4, 1));
    CHECK_F32(y, 2);
}

/* Three sequences in pages of 16 that lie in the pool in falling order; one padding row, one row per case. */
static void check_paged(const wr_attention_args *a) {
    enum { SEQS = 3, PAGE = 16, MAX_PAGES = 10, ROWS = 7, POOL = SEQS * MAX_PAGES };
    static float k[POOL * PAGE * G * D], v[POOL * PAGE * G * E], q[ROWS * H * D], y[ROWS * H * E], sinks[H];
    static float flat_k[MAX_PAGES * PAGE * D], flat_v[MAX_PAGES * PAGE * E];
    int32_t table[SEQS * MAX_PAGES];
    const int32_t seq[ROWS] = {0, 1, -1, 2, 2, 1, 0}, pos[ROWS] = {0, 63, 5, 64, 159, 100, 15};
    bool seen[MAX_PAGES * PAGE];
    double want[E];
    fill_noise(k, POOL * PAGE * G * D, 1);
    fill_noise(v, POOL * PAGE * G * E, 2);
    fill_noise(q, ROWS * H * D, 3);
    fill_noise(sinks, H, 4);
    for (int i = 0; i < SEQS * MAX_PAGES; i++) table[i] = POOL - 1 - i;
    wr_tensor in[7] = {T(F32, q, ROWS, H, D),
                       T(F32, k, POOL, PAGE, G, D),
                       T(F32, v, POOL, PAGE, G, E),
                       T(I32, table, SEQS, MAX_PAGES),
                       T(I32, seq, ROWS),
                       T(I32, pos, ROWS),
                       T(F32, sinks, H)};
    run_op(WR_OP_PAGED_ATTENTION, a, T(F32, y, ROWS, H, E), 6 + a->has_sinks, in);
    for (int row = 0; row < ROWS * H; row++) {
        int t = row / H, h = row % H, g = h / (H / G);
        for (int j = 0; j < MAX_PAGES * PAGE && seq[t] >= 0; j++) {
            int64_t at = (table[seq[t] * MAX_PAGES + j / PAGE] * PAGE + j % PAGE) * G + g;
            memcpy(flat_k + j * D, k + at * D, D * sizeof(float));
            memcpy(flat_v + j * E, v + at * E, E * sizeof(float));
            seen[j] = j <= pos[t] && (!a->window || j > pos[t] - a->window);
        }
        if (seq[t] < 0)
            memset(want, 0, sizeof want);
        else
            plain_attention(q + row * D, flat_k, flat_v, MAX_PAGES * PAGE, D, E, D, E, a, seen, NULL,
                            a->has_sinks ? &sinks[h] : NULL, want);
        for (int e = 0; e < E; e++) check_near(y[row * E + e], want[e], 1e-6);
    }
}

static void paged_attention_is_the_formula(void **state) {
    (void)state;
    check_paged(&(wr_attention_args){.scale = 0.4f});
    check_paged(&(wr_attention_args){.scale = 0.4f, .window = 40});
    check_paged(&(wr_attention_args){.scale = 0.4f, .window = 64, .has_sinks = true});
    check_paged(&(wr_attention_args){.scale = 2, .softcap = 1.5f, .has_sinks = true});
}

/* The block structure is absolute, so more rows or other rows beside it change no bit. */
static void a_row_alone_has_the_bits_of_the_row_in_a_batch(void **state) {
    (void)state;
    enum { PAGE = 32, PAGES = 8, ROWS = 4 };
    static float k[PAGES * PAGE * G * D], v[PAGES * PAGE * G * E], q[ROWS * H * D], all[ROWS * H * E], one[H * E];
    const int32_t table[PAGES] = {3, 1, 0, 2, 7, 6, 5, 4}, seq[ROWS] = {0}, pos[ROWS] = {200, 5, 64, 255};
    fill_noise(k, PAGES * PAGE * G * D, 1);
    fill_noise(v, PAGES * PAGE * G * E, 2);
    fill_noise(q, ROWS * H * D, 3);
    wr_attention_args args = {.scale = 1, .window = 100};
    RUN(PAGED_ATTENTION, &args, T(F32, all, ROWS, H, E), T(F32, q, ROWS, H, D), T(F32, k, PAGES, PAGE, G, D),
        T(F32, v, PAGES, PAGE, G, E), T(I32, table, 1, PAGES), T(I32, seq, ROWS), T(I32, pos, ROWS));
    for (int t = 0; t < ROWS; t++) {
        RUN(PAGED_ATTENTION, &args, T(F32, one, 1, H, E), T(F32, q + t * H * D, 1, H, D), T(F32, k, PAGES, PAGE, G, D),
            T(F32, v, PAGES, PAGE, G, E), T(I32, table, 1, PAGES), T(I32, seq + t, 1), T(I32, pos + t, 1));
        assert_memory_equal(one, all + t * H * E, sizeof one);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_of_known_rows),
        cmocka_unit_test(rope_table_is_exact_at_far_positions),
        cmocka_unit_test(rope_rotates_pairs_and_copies_the_rest),
        cmocka_unit_test(kv_write_puts_rows_into_their_pages),
        cmocka_unit_test(attention_is_the_formula),
        cmocka_unit_test(a_query_that_sees_nothing_gives_zero),
        cmocka_unit_test(attention_over_large_scores_does_not_overflow),
        cmocka_unit_test(paged_attention_is_the_formula),
        cmocka_unit_test(a_row_alone_has_the_bits_of_the_row_in_a_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
