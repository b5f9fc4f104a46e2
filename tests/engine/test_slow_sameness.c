/* Sameness on a real model, bitwise: batch = alone, chunks = whole, threads,
 * repetition, preemption. Compared are tokens, log-probabilities and the best 16
 * of every position, of the prompt and of the output. */
#include "drive.h"

static const char model_file[] = "SmolLM2-135M-Instruct.Q4_1.gguf";
enum { PROMPT = 150, GENERATE = 12, N_SEQS = 8, VOCAB = 49152 };

static char *model;

static int find_model(void **state) {
    (void)state;
    model = store_model(model_file);
    return model ? 0 : -1; /* always required */
}

static int free_model(void **state) {
    (void)state;
    free(model);
    return 0;
}

static weir_seq_options options_for(const int32_t *ids, size_t n, size_t i) {
    /* Half of them greedy, half drawn. */
    return (weir_seq_options){.tokens = ids,
                              .n_tokens = n,
                              .max_tokens = GENERATE,
                              .ignore_eos = true,
                              .score_prompt = true,
                              .top_logprobs = RUN_MAX_TOP,
                              .sampling = {.temperature = i % 2 ? 0.8f : 0, .top_p = 0.95f, .seed = i}};
}

static run *run_with(const weir_engine_options *options, size_t prompt, size_t i) {
    int32_t ids[PROMPT];
    fill_ids(ids, prompt, VOCAB, i + 1);
    weir_engine *engine = open_engine_or_fail(model, options);
    run *r = run_alone(engine, options_for(ids, prompt, i));
    weir_engine_close(engine);
    return r;
}

static void batch_of_eight_equals_alone(void **state) {
    (void)state;
    weir_engine *engine = open_engine_or_fail(model, &(weir_engine_options){.max_context = 512, .n_threads = 2});
    run *alone[N_SEQS], *together[N_SEQS];
    weir_seq *seqs[N_SEQS];
    int32_t ids[N_SEQS][PROMPT];
    for (size_t i = 0; i < N_SEQS; i++) {
        size_t n = PROMPT - 17 * i; /* lengths differ */
        fill_ids(ids[i], n, VOCAB, i + 1);
        alone[i] = run_alone(engine, options_for(ids[i], n, i));
    }
    for (size_t i = 0; i < N_SEQS; i++) {
        weir_seq_options o = options_for(ids[i], PROMPT - 17 * i, i);
        o.user = together[i] = run_new();
        seqs[i] = open_seq(engine, &o);
    }
    run_all(engine, N_SEQS);
    for (size_t i = 0; i < N_SEQS; i++) {
        weir_seq_close(seqs[i]);
        run_equal(alone[i], together[i]);
        free(alone[i]);
        free(together[i]);
    }
    weir_engine_close(engine);
}

static void prompt_in_chunks_of_1_7_64_equals_whole(void **state) {
    (void)state;
    run *whole =
        run_with(&(weir_engine_options){.max_context = 512, .max_step_tokens = 512, .max_batch = 1}, PROMPT, 1);
    static const int64_t chunks[] = {1, 7, 64};
    for (size_t i = 0; i < 3; i++) {
        run *chunked = run_with(
            &(weir_engine_options){.max_context = 512, .max_step_tokens = chunks[i], .max_batch = 1}, PROMPT, 1);
        run_equal(whole, chunked);
        free(chunked);
    }
    free(whole);
}

static void one_thread_equals_two_and_three(void **state) {
    (void)state;
    run *one = run_with(&(weir_engine_options){.max_context = 512, .n_threads = 1}, PROMPT, 3);
    for (int threads = 2; threads <= 3; threads++) {
        run *many = run_with(&(weir_engine_options){.max_context = 512, .n_threads = threads}, PROMPT, 3);
        run_equal(one, many);
        free(many);
    }
    free(one);
}

static void run_twice_is_the_same(void **state) {
    (void)state;
    run *first = run_with(NULL, 40, 5), *second = run_with(NULL, 40, 5);
    run_equal(first, second);
    free(first);
    free(second);
}

static void preempted_equals_uninterrupted(void **state) {
    (void)state;
    enum { N = 3, LENGTH = 60, OUTPUT = 100 };
    /* SmolLM2: 46,080 bytes a token with f32 keys and values, 2.95 MB a page; five pages hold 320 tokens, three
     * sequences come to 480. */
    weir_engine_options tight = {
        .max_context = 256, .max_batch = N, .kv_dtype = WEIR_DTYPE_F32, .kv_bytes = 5 * 64 * 46080 + 1000};
    weir_engine *roomy = open_engine_or_fail(
        model, &(weir_engine_options){.max_context = 256, .max_batch = N, .kv_dtype = WEIR_DTYPE_F32});
    weir_engine *narrow = open_engine_or_fail(model, &tight);
    run *expected[N], *got[N];
    weir_seq *seqs[N];
    int32_t ids[N][LENGTH];
    for (size_t i = 0; i < N; i++) {
        fill_ids(ids[i], LENGTH, VOCAB, i + 70);
        weir_seq_options o = options_for(ids[i], LENGTH, i);
        o.max_tokens = OUTPUT;
        expected[i] = run_alone(roomy, o);
        o.user = got[i] = run_new();
        seqs[i] = open_seq(narrow, &o);
    }
    run_all(narrow, N);
    weir_engine_stats stats;
    weir_engine_get_stats(narrow, &stats);
    assert_true(stats.preemptions > 0);
    for (size_t i = 0; i < N; i++) {
        run_equal(expected[i], got[i]);
        weir_seq_close(seqs[i]);
        free(expected[i]);
        free(got[i]);
    }
    weir_engine_close(roomy);
    weir_engine_close(narrow);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batch_of_eight_equals_alone),     cmocka_unit_test(prompt_in_chunks_of_1_7_64_equals_whole),
        cmocka_unit_test(one_thread_equals_two_and_three), cmocka_unit_test(run_twice_is_the_same),
        cmocka_unit_test(preempted_equals_uninterrupted),
    };
    return cmocka_run_group_tests(tests, find_model, free_model);
}
