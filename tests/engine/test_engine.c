/* What an engine promises about sequences, on small checkpoints without a
 * tokenizer: any order of opening, closing and cancelling, more sequences than
 * fit, the ends of the context, and that no sequence sees another. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "drive.h"

#define CHECKPOINTS WR_SOURCE_DIR "/tests/data/checkpoints/"
static const char llama[] = CHECKPOINTS "llama-f16-untied";
static const char gemma[] = CHECKPOINTS "gemma3-f16-tied"; /* a window of 16 in two of three layers */
enum { VOCAB = 157, MAX_PROMPT = 400 };

/* Sequence i of a family of unlike requests: lengths, sampling and counts differ. */
typedef struct request {
    int32_t ids[MAX_PROMPT];
    weir_seq_options options;
} request;

static request *request_new(size_t i, size_t n_prompt, int64_t max_tokens) {
    request *r = calloc(1, sizeof *r);
    assert_non_null(r);
    fill_ids(r->ids, n_prompt, VOCAB, i + 1);
    r->options = (weir_seq_options){.tokens = r->ids,
                                    .n_tokens = n_prompt,
                                    .max_tokens = max_tokens,
                                    .ignore_eos = true,
                                    .top_logprobs = 4,
                                    .score_prompt = i % 3 == 0,
                                    .sampling = {.temperature = i % 2 ? 0.9f : 0,
                                                 .top_k = i % 4 == 1 ? 20 : 0,
                                                 .repetition_penalty = i % 5 == 2 ? 1.3f : 0,
                                                 .seed = i}};
    return r;
}

static void nothing_is_left(weir_engine *engine) {
    weir_engine_stats stats;
    weir_engine_get_stats(engine, &stats);
    assert_int_equal(stats.running, 0);
    assert_int_equal(stats.waiting, 0);
    assert_int_equal(stats.kv_pages_used, 0);
}

/* All n requests at once on one engine give what each gives alone on another. Returns how many preemptions there were.
 */
static uint64_t together_equals_alone(const char *model, const weir_engine_options *options, request **requests,
                                      size_t n) {
    weir_engine *roomy = open_engine_or_fail(model, &(weir_engine_options){.max_context = options->max_context});
    weir_engine *engine = open_engine_or_fail(model, options);
    run **runs = calloc(n, sizeof *runs);
    weir_seq **seqs = calloc(n, sizeof *seqs);
    for (size_t i = 0; i < n; i++) {
        requests[i]->options.user = runs[i] = run_new();
        seqs[i] = open_seq(engine, &requests[i]->options);
    }
    run_all(engine, n);
    for (size_t i = 0; i < n; i++) {
        run *alone = run_alone(roomy, requests[i]->options);
        run_equal(alone, runs[i]);
        weir_seq_close(seqs[i]);
        free(alone);
        free(runs[i]);
        free(requests[i]);
    }
    weir_engine_stats stats;
    weir_engine_get_stats(engine, &stats);
    nothing_is_left(engine);
    weir_engine_close(engine);
    weir_engine_close(roomy);
    free(seqs);
    free(runs);
    return stats.preemptions;
}

static void fifty_sequences_through_a_batch_of_four_equal_alone(void **state) {
    (void)state;
    request *requests[50];
    for (size_t i = 0; i < 50; i++) requests[i] = request_new(i, 1 + i * 37 % 130, 1 + (int64_t)(i * 7 % 19));
    together_equals_alone(llama, &(weir_engine_options){.max_context = 256, .max_batch = 4, .max_step_tokens = 33},
                          requests, 50);
}

static void sequences_that_preempt_each_other_equal_alone(void **state) {
    (void)state;
    weir_engine_info info;
    const char *const models[] = {llama, gemma};
    for (size_t m = 0; m < 2; m++) {
        /* Four sequences of up to 190 tokens (3 pages) at 4 pages of the layers that see everything. */
        weir_engine_options options = {.max_context = 256, .max_batch = 4, .max_step_tokens = 40};
        weir_engine *engine = open_engine_or_fail(models[m], &options);
        weir_engine_get_info(engine, &info);
        weir_engine_close(engine);
        /* By default 4 + 3 x 1 pages; of Gemma's 3 layers one sees everything, and the windowed ones have
         * 4 x min(4, 1 + 1 + 2) pages for 2 layers. */
        options.kv_bytes = m == 0 ? info.kv_bytes / 7 * 4 : info.kv_bytes / (7 + 16 * 2) * (4 + 16 * 2);
        request *requests[6];
        for (size_t i = 0; i < 6; i++) requests[i] = request_new(i, 100, 90);
        assert_true(together_equals_alone(models[m], &options, requests, 6) > 0);
    }
}

static void closing_in_any_order_leaves_the_others_as_alone(void **state) {
    (void)state;
    enum { N = 12 };
    weir_engine *engine =
        open_engine_or_fail(llama, &(weir_engine_options){.max_context = 256, .max_batch = 3, .max_step_tokens = 16});
    request *requests[N];
    run *runs[N];
    weir_seq *seqs[N];
    for (size_t i = 0; i < N; i++) {
        requests[i] = request_new(i, 20 + i, 10);
        requests[i]->options.user = runs[i] = run_new();
        seqs[i] = open_seq(engine, &requests[i]->options);
    }
    const weir_event *events;
    size_t n;
    weir_seq_close(seqs[11]); /* the last, never run */
    weir_seq_close(seqs[6]);  /* one in the middle, waiting */
    for (size_t step = 0; step < 3; step++) {
        assert_int_equal(weir_engine_step(engine, &events, &n, NULL), WEIR_OK);
        for (size_t i = 0; i < n; i++) run_take(events[i].user, &events[i]);
    }
    weir_seq_close(seqs[0]); /* the oldest, running */
    weir_seq_close(seqs[10]);
    weir_seq_close(seqs[2]); /* running */
    run_all(engine, N - 5);
    weir_seq_close(NULL);
    static const size_t rest[] = {9, 1, 8, 3, 4, 7, 5}; /* finished ones, oldest neither first nor last */
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) weir_seq_close(seqs[rest[i]]);
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) {
        run *alone = run_alone(engine, requests[rest[i]]->options);
        run_equal(alone, runs[rest[i]]);
        free(alone);
    }
    nothing_is_left(engine);
    for (size_t i = 0; i < N; i++) free(runs[i]), free(requests[i]);
    weir_engine_close(engine);
}

/* The step's list of events is as long as a step's rows; there may be more waiting sequences than that. */
static void cancelling_more_sequences_than_a_step_can_report(void **state) {
    (void)state;
    enum { N = 200 };
    weir_engine *engine =
        open_engine_or_fail(llama, &(weir_engine_options){.max_context = 64, .max_batch = 2, .max_step_tokens = 2});
    weir_seq *seqs[N];
    run *runs[N];
    const weir_event *events;
    size_t n;
    for (size_t i = 0; i < N; i++) {
        request *r = request_new(i, 5, 4);
        r->options.user = runs[i] = run_new();
        seqs[i] = open_seq(engine, &r->options);
        free(r);
    }
    assert_int_equal(weir_engine_step(engine, &events, &n, NULL), WEIR_OK);
    for (size_t i = 0; i < N - 1; i++) weir_seq_cancel(seqs[i]);
    assert_int_equal(weir_engine_step(engine, &events, &n, NULL), WEIR_OK);
    size_t left = N;
    for (size_t i = 0; i < n; i++) {
        run_take(events[i].user, &events[i]);
        left -= events[i].kind == WEIR_EVENT_FINISH;
    }
    assert_int_equal(runs[0]->finish, WEIR_FINISH_CANCELLED); /* running ones at once */
    assert_int_equal(runs[1]->finish, WEIR_FINISH_CANCELLED);
    run_all(engine, left);
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(runs[i]->finish, i < N - 1 ? WEIR_FINISH_CANCELLED : WEIR_FINISH_LENGTH);
        assert_true(i < N - 1 ? runs[i]->n == 0 : runs[i]->n >= 4);
        weir_seq_close(seqs[i]);
        free(runs[i]);
    }
    nothing_is_left(engine);
    weir_engine_close(engine);
}

static void *cancel_soon(void *seq) {
    usleep(2000);
    weir_seq_cancel(seq);
    return NULL;
}

static void another_thread_cancels_a_running_sequence(void **state) {
    (void)state;
    weir_engine *engine = open_engine_or_fail(llama, NULL);
    request *r = request_new(0, 10, 2000), *other = request_new(1, 30, 20);
    r->options.score_prompt = false;
    r->options.user = run_new();
    other->options.user = run_new();
    weir_seq *seq = open_seq(engine, &r->options), *other_seq = open_seq(engine, &other->options);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, cancel_soon, seq), 0);
    run_all(engine, 2);
    pthread_join(thread, NULL);
    run *cancelled = r->options.user, *whole = other->options.user, *alone = NULL;
    /* 2,000 tokens take far more than 2 ms; a machine that stops for seconds may still reach the end. */
    if (cancelled->finish != WEIR_FINISH_LENGTH) assert_int_equal(cancelled->finish, WEIR_FINISH_CANCELLED);
    size_t n;
    weir_seq_tokens(seq, &n);
    assert_int_equal(n, 10 + cancelled->n);
    weir_seq_close(seq);
    weir_seq_close(other_seq);
    alone = run_alone(engine, other->options);
    run_equal(alone, whole);
    nothing_is_left(engine);
    free(alone), free(cancelled), free(whole), free(r), free(other);
    weir_engine_close(engine);
}

static void the_context_ends_where_it_says(void **state) {
    (void)state;
    enum { CONTEXT = 100 };
    weir_engine *engine = open_engine_or_fail(gemma, &(weir_engine_options){.max_context = CONTEXT});
    static const struct {
        size_t prompt;
        int64_t max_tokens;
        size_t generated;
    } cases[] = {{CONTEXT - 1, 0, 1}, {CONTEXT - 1, 1, 1},   {CONTEXT - 1, 50, 1}, {1, 0, CONTEXT - 1},
                 {1, 1, 1},           {1, 200, CONTEXT - 1}, {50, 50, 50},         {64, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        request *r = request_new(1, cases[i].prompt, cases[i].max_tokens);
        run *got = run_alone(engine, r->options);
        assert_int_equal(got->n, cases[i].generated);
        assert_int_equal(got->position[got->n - 1], cases[i].prompt + cases[i].generated - 1);
        assert_int_equal(got->finish, WEIR_FINISH_LENGTH);
        free(got);
        free(r);
    }
    weir_error err = {0};
    weir_seq *seq;
    request *r = request_new(0, CONTEXT, 0);
    assert_int_equal(weir_seq_open(engine, &r->options, &seq, &err), WEIR_E_LIMIT);
    assert_null(seq);
    assert_non_null(strstr(err.message, "100"));
    r->options.max_tokens = -1; /* to be scored, the whole context may be used */
    run *scores = run_alone(engine, r->options);
    assert_int_equal(scores->n, CONTEXT - 1);
    r->options.n_tokens = CONTEXT + 1;
    assert_int_equal(weir_seq_open(engine, &r->options, &seq, &err), WEIR_E_LIMIT);
    assert_non_null(strstr(err.message, "101"));
    assert_non_null(strstr(err.message, "100"));
    free(scores);
    free(r);
    weir_engine_close(engine);
}

static void a_stop_token_ends_the_output_where_it_occurs(void **state) {
    (void)state;
    weir_engine *engine = open_engine_or_fail(llama, NULL);
    request *r = request_new(1, 20, 30);
    run *whole = run_alone(engine, r->options);
    assert_int_equal(whole->n, 30);
    size_t at = 0; /* first place of the token that comes last */
    while (whole->token[at] != whole->token[20]) at++;
    r->options.stop_tokens = (int32_t[]){VOCAB - 1, whole->token[20]};
    r->options.n_stop_tokens = 2;
    for (size_t i = 0; i < at; i++)
        if (whole->token[i] == VOCAB - 1) at = i;
    run *cut = run_alone(engine, r->options);
    assert_int_equal(cut->n, at + 1);
    assert_int_equal(cut->finish, WEIR_FINISH_STOP);
    assert_memory_equal(cut->token, whole->token, cut->n * sizeof *cut->token);
    free(whole), free(cut), free(r);
    weir_engine_close(engine);
}

/* Log-probabilities are of what the model said, whatever is done to the logits before the draw. */
static void penalties_and_bias_do_not_change_logprobs(void **state) {
    (void)state;
    weir_engine *engine = open_engine_or_fail(llama, NULL);
    request *r = request_new(0, 40, 1);
    r->options.top_logprobs = RUN_MAX_TOP;
    run *plain = run_alone(engine, r->options);
    int32_t banned = plain->token[39]; /* 39 scores, then the greedy token */
    r->options.sampling = (weir_sampling){.repetition_penalty = 1.5f,
                                          .presence_penalty = 1,
                                          .frequency_penalty = -1,
                                          .logit_bias = &(weir_logit_bias){banned, -1e9f},
                                          .n_logit_bias = 1};
    run *changed = run_alone(engine, r->options);
    assert_int_equal(changed->n, 40);
    assert_int_not_equal(changed->token[39], banned);
    assert_memory_equal(changed->top, plain->top, 40 * sizeof *plain->top);
    assert_memory_equal(changed->logprob, plain->logprob, 39 * sizeof *plain->logprob);
    assert_true(changed->logprob[39] <= plain->logprob[39] && changed->logprob[39] > -100);
    free(plain), free(changed), free(r);
    weir_engine_close(engine);
}

static void scoring_and_generating_together_equal_each_alone(void **state) {
    (void)state;
    weir_engine *engine = open_engine_or_fail(gemma, &(weir_engine_options){.max_step_tokens = 24});
    request *r = request_new(1, 77, 20);
    r->options.score_prompt = true;
    run *both = run_alone(engine, r->options);
    r->options.score_prompt = false;
    run *generated = run_alone(engine, r->options);
    r->options.score_prompt = true, r->options.max_tokens = -1;
    run *scored = run_alone(engine, r->options);
    assert_int_equal(scored->n, 76);
    assert_int_equal(generated->n, 20);
    assert_int_equal(both->n, 96);
    assert_memory_equal(both->token, scored->token, 76 * sizeof *both->token);
    assert_memory_equal(both->logprob, scored->logprob, 76 * sizeof *both->logprob);
    assert_memory_equal(both->token + 76, generated->token, 20 * sizeof *both->token);
    assert_memory_equal(both->logprob + 76, generated->logprob, 20 * sizeof *both->logprob);
    assert_memory_equal(scored->token, r->ids + 1, 76 * sizeof *scored->token);
    free(both), free(generated), free(scored), free(r);
    weir_engine_close(engine);
}

static void top_k_of_0_and_of_the_vocabulary_are_the_same(void **state) {
    (void)state;
    weir_engine *engine = open_engine_or_fail(llama, NULL);
    request *r = request_new(3, 20, 40);
    r->options.sampling = (weir_sampling){.temperature = 1.5f, .seed = 7};
    run *off = run_alone(engine, r->options), *again = run_alone(engine, r->options);
    run_equal(off, again); /* the same seed gives the same output */
    r->options.sampling.top_k = VOCAB;
    run *all = run_alone(engine, r->options);
    run_equal(off, all);
    r->options.sampling.seed = 8;
    run *other = run_alone(engine, r->options);
    assert_memory_not_equal(off->token, other->token, 40 * sizeof *off->token);
    free(off), free(again), free(all), free(other), free(r);
    weir_engine_close(engine);
}

static void what_is_refused_is_named_and_harms_nothing(void **state) {
    (void)state;
    weir_engine *engine = open_engine_or_fail(llama, NULL);
    request *r = request_new(1, 10, 5);
    run *before = run_alone(engine, r->options);
    const weir_seq_options good = r->options;
    static const int32_t outside[] = {3, VOCAB}, negative[] = {-1};
    const char *const stop[] = {"x"};
    struct {
        weir_seq_options options;
        const char *named;
    } bad[] = {{good, "no tokens"},    {good, "157"},         {good, "-1"},          {good, "max_tokens"},
               {good, "top_logprobs"}, {good, "temperature"}, {good, "top_p"},       {good, "bias"},
               {good, "tokenizer"},    {good, "top_k"},       {good, "top_logprobs"}};
    bad[0].options.n_tokens = 0;
    bad[1].options.tokens = outside, bad[1].options.n_tokens = 2;
    bad[2].options.tokens = negative, bad[2].options.n_tokens = 1;
    bad[3].options.max_tokens = -2;
    bad[4].options.top_logprobs = WEIR_MAX_TOP_LOGPROBS + 1;
    bad[5].options.sampling.temperature = -1;
    bad[6].options.sampling.top_p = 0.0f / 0.0f;
    bad[7].options.sampling.logit_bias = &(weir_logit_bias){VOCAB, 1}, bad[7].options.sampling.n_logit_bias = 1;
    bad[8].options.stop = stop, bad[8].options.n_stop = 1;
    bad[9].options.sampling.top_k = -1;
    bad[10].options.top_logprobs = -1;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weir_seq *seq = (weir_seq *)1;
        weir_error err = {0};
        assert_int_equal(weir_seq_open(engine, &bad[i].options, &seq, &err), WEIR_E_ARGUMENT);
        assert_null(seq);
        if (!strstr(err.message, bad[i].named)) fail_msg("\"%s\" does not name %s", err.message, bad[i].named);
    }
    run *after = run_alone(engine, r->options);
    run_equal(before, after);
    free(before), free(after), free(r);
    weir_engine_close(engine);
}

static void *run_own_engine(void *out) {
    weir_engine *engine = open_engine_or_fail(llama, &(weir_engine_options){.n_threads = 2});
    request *r = request_new(3, 60, 60);
    *(run **)out = run_alone(engine, r->options);
    free(r);
    weir_engine_close(engine);
    return NULL;
}

static void two_engines_in_two_threads_equal_one(void **state) {
    (void)state;
    run *runs[3];
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++) assert_int_equal(pthread_create(&threads[i], NULL, run_own_engine, &runs[i]), 0);
    for (size_t i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    run_own_engine(&runs[2]);
    run_equal(runs[0], runs[2]);
    run_equal(runs[1], runs[2]);
    for (size_t i = 0; i < 3; i++) free(runs[i]);
}

static size_t resident_bytes(void) {
    size_t pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%zu %zu", &pages, &resident), 2);
    fclose(f);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

static void a_thousand_requests_leave_memory_flat(void **state) {
    (void)state;
    weir_engine *engine = open_engine_or_fail(gemma, &(weir_engine_options){.max_context = 128});
    size_t warm = 0;
    for (size_t i = 0; i < 1000; i++) {
        request *r = request_new(i, 1 + i % 17, 1 + (int64_t)(i % 3));
        run *got = run_alone(engine, r->options);
        free(got);
        free(r);
        if (i == 99) warm = resident_bytes();
    }
    nothing_is_left(engine);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_true(resident_bytes() < warm + (1 << 20)); /* 900 leaks of 1.2 kB would show */
#endif
    weir_engine_close(engine);
}

/* A copy of the llama checkpoint in which the embedding of token 0 is NaN. */
static void write_damaged(char *folder) {
    char path[512], command_line[1024];
    assert_non_null(mkdtemp(folder));
    snprintf(command_line, sizeof command_line, "cp '%s/config.json' '%s/model.safetensors' '%s'", llama, llama,
             folder);
    assert_int_equal(system(command_line), 0);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    uint64_t header_bytes;
    char header[1 << 14] = "";
    assert_int_equal(fread(&header_bytes, sizeof header_bytes, 1, f), 1);
    assert_true(header_bytes < sizeof header);
    assert_int_equal(fread(header, 1, header_bytes, f), header_bytes);
    const char *entry = strstr(header, "\"model.embed_tokens.weight\"");
    assert_non_null(entry);
    const char *offsets = strstr(entry, "\"data_offsets\":[");
    assert_non_null(offsets);
    long begin = strtol(offsets + strlen("\"data_offsets\":["), NULL, 10);
    assert_int_equal(fseek(f, 8 + (long)header_bytes + begin, SEEK_SET), 0);
    for (int i = 0; i < 32; i++) assert_int_equal(fwrite("\x00\x7e", 2, 1, f), 1); /* f16 NaN */
    fclose(f);
}

static void a_sequence_without_finite_logits_fails_alone(void **state) {
    (void)state;
    char folder[] = "/tmp/weir-test-XXXXXX", path[64];
    write_damaged(folder);
    weir_engine *engine = open_engine_or_fail(folder, &(weir_engine_options){.max_context = 128, .max_batch = 2});
    request *good = request_new(1, 70, 20), *bad = request_new(2, 70, 20);
    for (size_t i = 0; i < 70; i++) good->ids[i] = 1 + good->ids[i] % (VOCAB - 1);
    bad->ids[30] = 0;
    good->options.sampling.logit_bias = &(weir_logit_bias){0, -1e9f}; /* never draw the damaged token */
    good->options.sampling.n_logit_bias = 1;
    run *alone = run_alone(engine, good->options);
    assert_int_equal(alone->finish, WEIR_FINISH_LENGTH);
    run *failed = bad->options.user = run_new(), *beside = good->options.user = run_new();
    weir_seq *a = open_seq(engine, &bad->options), *b = open_seq(engine, &good->options);
    run_all(engine, 2);
    assert_int_equal(failed->finish, WEIR_FINISH_ERROR);
    assert_int_equal(failed->n, 0);
    run_equal(alone, beside);
    weir_seq_close(a);
    weir_seq_close(b);
    run *later = run_alone(engine, good->options); /* on the pages that held NaN */
    run_equal(alone, later);
    bad->options.max_tokens = -1, bad->options.score_prompt = true;
    run *scored = run_alone(engine, bad->options);
    assert_int_equal(scored->n, 69);
    for (size_t i = 0; i < scored->n; i++) assert_true(scored->logprob[i] <= 0 && scored->logprob[i] >= -1e30f);
    free(alone), free(failed), free(beside), free(later), free(scored), free(good), free(bad);
    weir_engine_close(engine);
    snprintf(path, sizeof path, "%s/config.json", folder);
    unlink(path);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    unlink(path);
    rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fifty_sequences_through_a_batch_of_four_equal_alone),
        cmocka_unit_test(sequences_that_preempt_each_other_equal_alone),
        cmocka_unit_test(closing_in_any_order_leaves_the_others_as_alone),
        cmocka_unit_test(cancelling_more_sequences_than_a_step_can_report),
        cmocka_unit_test(another_thread_cancels_a_running_sequence),
        cmocka_unit_test(the_context_ends_where_it_says),
        cmocka_unit_test(a_stop_token_ends_the_output_where_it_occurs),
        cmocka_unit_test(penalties_and_bias_do_not_change_logprobs),
        cmocka_unit_test(scoring_and_generating_together_equal_each_alone),
        cmocka_unit_test(top_k_of_0_and_of_the_vocabulary_are_the_same),
        cmocka_unit_test(what_is_refused_is_named_and_harms_nothing),
        cmocka_unit_test(two_engines_in_two_threads_equal_one),
        cmocka_unit_test(a_thousand_requests_leave_memory_flat),
        cmocka_unit_test(a_sequence_without_finite_logits_fails_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
