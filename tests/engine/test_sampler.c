/* Sampling: each option against arithmetic, draws against their distribution. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "engine/sampler.h"

enum { VOCAB = 8, DRAWS = 20000 };
/* log of 1, 2, 4, 8, 16, 32, 64, 128: probabilities of 2^i / 255. */
static float base_logits[VOCAB];

static int fill(void **state) {
    (void)state;
    for (int i = 0; i < VOCAB; i++) base_logits[i] = (float)(i * log(2.0));
    return 0;
}

static wr_sampler open_sampler(weir_sampling options) {
    wr_sampler s;
    weir_error err = {0};
    if (wr_sampler_init(&s, &options, VOCAB, 64, &err) != WEIR_OK) fail_msg("%s", err.message);
    return s;
}

/* How often each token is drawn over DRAWS positions. */
static void histogram(weir_sampling options, double share[VOCAB]) {
    wr_candidate scratch[VOCAB];
    wr_sampler s = open_sampler(options);
    int counts[VOCAB] = {0};
    for (int64_t p = 0; p < DRAWS; p++) counts[wr_sample(&s, base_logits, scratch, p)]++;
    for (int i = 0; i < VOCAB; i++) share[i] = counts[i] / (double)DRAWS;
    wr_sampler_deinit(&s);
}

/* Five standard deviations of a binomial share. */
static void assert_share(double got, double p) { assert_true(fabs(got - p) <= 5 * sqrt(p * (1 - p) / DRAWS) + 1e-12); }

static void philox_gives_the_published_vectors(void **state) {
    (void)state;
    uint32_t out[4]; /* Random123's known answers for philox4x32-10 */
    wr_philox(0, 0, out);
    assert_int_equal(out[0], 0x6627e8d5u);
    assert_int_equal(out[1], 0xe169c58du);
    assert_int_equal(out[2], 0xbc57ac4cu);
    assert_int_equal(out[3], 0x9b00dbd8u);
}

static void temperature_one_draws_the_model_distribution(void **state) {
    (void)state;
    double share[VOCAB];
    histogram((weir_sampling){.temperature = 1, .seed = 7}, share);
    for (int i = 0; i < VOCAB; i++) assert_share(share[i], (1 << i) / 255.0);
}

static void temperature_two_takes_square_roots(void **state) {
    (void)state;
    double share[VOCAB], total = 0;
    histogram((weir_sampling){.temperature = 2, .seed = 8}, share);
    for (int i = 0; i < VOCAB; i++) total += sqrt(1 << i);
    for (int i = 0; i < VOCAB; i++) assert_share(share[i], sqrt(1 << i) / total);
}

static void top_k_keeps_k(void **state) {
    (void)state;
    double share[VOCAB];
    histogram((weir_sampling){.temperature = 1, .top_k = 2, .seed = 9}, share);
    for (int i = 0; i < VOCAB; i++) assert_share(share[i], i < 6 ? 0 : (1 << i) / 192.0);
}

static void top_p_keeps_the_smallest_set_that_reaches_p(void **state) {
    (void)state;
    double share[VOCAB]; /* 128/255 = 0.502, (128 + 64)/255 = 0.753: 0.6 needs two */
    histogram((weir_sampling){.temperature = 1, .top_p = 0.6f, .seed = 10}, share);
    for (int i = 0; i < VOCAB; i++) assert_share(share[i], i < 6 ? 0 : (1 << i) / 192.0);
    histogram((weir_sampling){.temperature = 1, .top_p = 0.6f, .top_k = 5, .seed = 10}, share);
    for (int i = 0; i < VOCAB; i++) assert_share(share[i], i < 6 ? 0 : (1 << i) / 192.0); /* of 248: the same two */
    histogram((weir_sampling){.temperature = 1, .top_p = 0.98f, .seed = 10}, share);      /* six: 252/255 */
    for (int i = 0; i < VOCAB; i++) assert_share(share[i], i < 2 ? 0 : (1 << i) / 252.0);
}

static void min_p_drops_the_unlikely(void **state) {
    (void)state;
    double share[VOCAB]; /* a quarter of the best: 32, 64, 128 */
    histogram((weir_sampling){.temperature = 1, .min_p = 0.2499f, .seed = 11}, share);
    for (int i = 0; i < VOCAB; i++) assert_share(share[i], i < 5 ? 0 : (1 << i) / 224.0);
}

static void same_seed_and_position_give_the_same_draw(void **state) {
    (void)state;
    wr_candidate scratch[VOCAB];
    wr_sampler s = open_sampler((weir_sampling){.temperature = 1, .seed = 3});
    wr_sampler t = open_sampler((weir_sampling){.temperature = 1, .seed = 4});
    int differ = 0;
    for (int64_t p = 0; p < 200; p++) {
        int32_t a = wr_sample(&s, base_logits, scratch, p);
        assert_int_equal(a, wr_sample(&s, base_logits, scratch, p));
        differ += a != wr_sample(&t, base_logits, scratch, p);
    }
    assert_true(differ > 20); /* another seed is another text */
    wr_sampler_deinit(&s);
    wr_sampler_deinit(&t);
}

static void greedy_takes_the_lower_id_of_equals_and_never_nan(void **state) {
    (void)state;
    wr_candidate scratch[VOCAB];
    wr_sampler s = open_sampler((weir_sampling){0});
    float logits[VOCAB] = {NAN, 1, 5, 5, -INFINITY, 5, NAN, 0};
    assert_int_equal(wr_sample(&s, logits, scratch, 0), 2);
    for (int i = 0; i < VOCAB; i++) logits[i] = NAN;
    assert_int_equal(wr_sample(&s, logits, scratch, 0), -1);
    s.options.temperature = 1;
    assert_int_equal(wr_sample(&s, logits, scratch, 0), -1);
    wr_sampler_deinit(&s);
}

static void penalties_and_bias_change_logits_as_documented(void **state) {
    (void)state;
    wr_candidate scratch[VOCAB];
    weir_logit_bias bias = {0, 100};
    float logits[VOCAB] = {0, 0, 0, 0, 0, 0, 2, 3};
    wr_sampler s = open_sampler((weir_sampling){.repetition_penalty = 2});
    wr_sampler_see(&s, 7, false);
    assert_int_equal(wr_sample(&s, logits, scratch, 0), 6); /* 3 / 2 < 2 */
    wr_sampler_deinit(&s);
    s = open_sampler((weir_sampling){.frequency_penalty = 0.6f});
    wr_sampler_see(&s, 7, false);
    assert_int_equal(wr_sample(&s, logits, scratch, 0), 7); /* the prompt does not count */
    wr_sampler_see(&s, 7, true);
    assert_int_equal(wr_sample(&s, logits, scratch, 0), 7); /* 2.4 */
    wr_sampler_see(&s, 7, true);
    assert_int_equal(wr_sample(&s, logits, scratch, 0), 6); /* 1.8 */
    wr_sampler_deinit(&s);
    s = open_sampler((weir_sampling){.presence_penalty = 1.5f});
    wr_sampler_see(&s, 7, true);
    wr_sampler_see(&s, 7, true);
    assert_int_equal(wr_sample(&s, logits, scratch, 0), 6); /* 1.5, once */
    wr_sampler_deinit(&s);
    s = open_sampler((weir_sampling){.logit_bias = &bias, .n_logit_bias = 1});
    assert_int_equal(wr_sample(&s, logits, scratch, 0), 0);
    assert_true(logits[0] == 0); /* the raw row is left alone */
    wr_sampler_deinit(&s);
}

static void values_out_of_range_are_named(void **state) {
    (void)state;
    weir_logit_bias bias = {VOCAB, 1};
    const struct {
        weir_sampling options;
        const char *names;
    } cases[] = {{{.temperature = -1}, "temperature is -1"},
                 {{.temperature = NAN}, "temperature is"},
                 {{.top_k = -1}, "top_k is -1"},
                 {{.top_p = 1.5f}, "top_p is 1.5"},
                 {{.min_p = -0.5f}, "min_p is -0.5"},
                 {{.repetition_penalty = -1}, "repetition_penalty is -1"},
                 {{.presence_penalty = 200}, "presence_penalty is"},
                 {{.frequency_penalty = -200}, "frequency_penalty is"},
                 {{.logit_bias = &bias, .n_logit_bias = 1}, "logit_bias names token 8"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        wr_sampler s;
        weir_error err = {0};
        assert_int_equal(wr_sampler_init(&s, &cases[i].options, VOCAB, 64, &err), WEIR_E_ARGUMENT);
        if (!strstr(err.message, cases[i].names)) fail_msg("\"%s\" lacks \"%s\"", err.message, cases[i].names);
    }
}

static void top_tokens_are_sorted_with_ties_by_id(void **state) {
    (void)state;
    float logits[VOCAB] = {1, 3, 2, 3, NAN, 0, 3, -1};
    wr_candidate top[VOCAB];
    assert_int_equal(wr_top_tokens(logits, VOCAB, 4, top), 4);
    const int32_t expected[] = {1, 3, 6, 2};
    for (int i = 0; i < 4; i++) assert_int_equal(top[i].token, expected[i]);
    assert_int_equal(wr_top_tokens(logits, VOCAB, VOCAB, top), 7); /* NaN is never chosen */
    /* log(e + 3e^3 + e^2 + 1 + e^-1) */
    double lse = log(exp(1) + 3 * exp(3) + exp(2) + 1 + exp(-1));
    assert_true(fabs(wr_logsumexp(logits, VOCAB) - lse) < 1e-6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_published_vectors),
        cmocka_unit_test(temperature_one_draws_the_model_distribution),
        cmocka_unit_test(temperature_two_takes_square_roots),
        cmocka_unit_test(top_k_keeps_k),
        cmocka_unit_test(top_p_keeps_the_smallest_set_that_reaches_p),
        cmocka_unit_test(min_p_drops_the_unlikely),
        cmocka_unit_test(same_seed_and_position_give_the_same_draw),
        cmocka_unit_test(greedy_takes_the_lower_id_of_equals_and_never_nan),
        cmocka_unit_test(penalties_and_bias_change_logits_as_documented),
        cmocka_unit_test(values_out_of_range_are_named),
        cmocka_unit_test(top_tokens_are_sorted_with_ties_by_id),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
