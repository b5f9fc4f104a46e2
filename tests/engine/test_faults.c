/* The nth call fails: over opening an engine and one request, every injected
 * failure of memory or I/O is a status with a message, and the next attempt works.
 * Under the address sanitizer this also shows that nothing leaks. */
#include "drive.h"

#include "base/fault.h"
#include "base/mem.h"

/* Open, generate six tokens, close. */
static weir_status attempt(const char *model, int32_t *tokens, size_t *n, weir_error *err) {
    weir_engine *engine = NULL;
    weir_seq *seq = NULL;
    weir_status st;
    int32_t ids[] = {1, 2, 3, 4, 5};
    weir_logit_bias bias = {5, -1};
    weir_seq_options options = {.tokens = ids,
                                .n_tokens = 5,
                                .max_tokens = 6,
                                .ignore_eos = true,
                                .top_logprobs = 4,
                                .stop_tokens = (int32_t[]){156},
                                .n_stop_tokens = 1,
                                .sampling = {.frequency_penalty = 0.1f, .logit_bias = &bias, .n_logit_bias = 1}};
    st = weir_engine_open(model, &(weir_engine_options){.max_context = 64, .max_step_tokens = 8, .n_threads = 2},
                          &engine, err);
    if (st != WEIR_OK) {
        assert_null(engine);
        return st;
    }
    st = weir_seq_open(engine, &options, &seq, err);
    *n = 0;
    for (bool done = false; st == WEIR_OK && !done;) {
        const weir_event *events;
        size_t n_events;
        st = weir_engine_step(engine, &events, &n_events, err);
        for (size_t i = 0; st == WEIR_OK && i < n_events; i++) {
            if (events[i].kind == WEIR_EVENT_TOKEN) tokens[(*n)++] = events[i].token;
            done |= events[i].kind == WEIR_EVENT_FINISH;
        }
    }
    weir_seq_close(seq);
    weir_engine_close(engine);
    return st;
}

/* Every one of the first `dense` calls fails once, then a sample: opening makes the same calls for each layer. */
static void sweep(const char *model, wr_fault_kind kind, uint64_t dense) {
    int32_t expected[8], got[8];
    size_t n_expected, n_got;
    weir_error err = {0};
    wr_fault_arm(kind, UINT64_MAX); /* only count */
    if (attempt(model, expected, &n_expected, &err) != WEIR_OK) fail_msg("%s", err.message);
    uint64_t calls = wr_fault_calls(kind);
    assert_true(calls > 2);
    assert_int_equal(n_expected, 6);
    uint64_t failures = 0;
    for (uint64_t nth = 1; nth <= calls; nth += nth < dense ? 1 : 1 + nth / 20) {
        memset(&err, 0, sizeof err);
        wr_fault_arm(kind, nth);
        weir_status st = attempt(model, got, &n_got, &err);
        bool hit = wr_fault_calls(kind) >= nth;
        wr_fault_arm(kind, 0);
        if (st != WEIR_OK) {
            failures++;
            assert_true(st == WEIR_E_MEMORY || st == WEIR_E_IO || st == WEIR_E_NOT_FOUND);
            assert_true(err.message[0] != 0);
        } else if (hit) {
            /* A failure may be survived (a cache not filled), but never change the result. */
            assert_int_equal(n_got, n_expected);
            assert_memory_equal(got, expected, n_got * sizeof *got);
        }
    }
    assert_true(failures >= (calls < dense ? calls : dense) / 2); /* the sweep reaches real calls */
    assert_int_equal(attempt(model, got, &n_got, &err), WEIR_OK);
    assert_memory_equal(got, expected, n_expected * sizeof *got);
}

static const char safetensors[] = WR_SOURCE_DIR "/tests/data/checkpoints/llama-affine-b4g64-untied";
static const char sharded[] = WR_SOURCE_DIR "/tests/data/checkpoints/qwen2-affine-b4g64-tied-sharded";

static void every_memory_failure_is_a_status(void **state) {
    (void)state;
    sweep(safetensors, WR_FAULT_MEMORY, 1000);
}

static void every_io_failure_is_a_status(void **state) {
    (void)state;
    sweep(safetensors, WR_FAULT_IO, 1000);
    sweep(sharded, WR_FAULT_IO, 1000);
}

/* With a tokenizer, weights laid out by threads, and thousands of calls. */
static void a_real_model_survives_failures_too(void **state) {
    (void)state;
    char *model = store_model("SmolLM2-135M-Instruct.Q4_1.gguf");
    assert_non_null(model);
    sweep(model, WR_FAULT_MEMORY, 40);
    sweep(model, WR_FAULT_IO, 40);
    wr_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_memory_failure_is_a_status),
        cmocka_unit_test(every_io_failure_is_a_status),
        cmocka_unit_test(a_real_model_survives_failures_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
