/* Nothing at run time: once sequences are open, a step takes no heap memory, from
 * weir, from the C library or from any library below. The program's own malloc
 * family counts every call of the process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>

#include "drive.h"

#include "base/mem.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COUNTING 0 /* the sanitizer owns malloc */
#else
#define COUNTING 1
#endif

static atomic_ulong n_heap_calls;

#if COUNTING
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

void *malloc(size_t bytes) {
    atomic_fetch_add(&n_heap_calls, 1);
    return __libc_malloc(bytes);
}
void *calloc(size_t count, size_t bytes) {
    atomic_fetch_add(&n_heap_calls, 1);
    return __libc_calloc(count, bytes);
}
void *realloc(void *old, size_t bytes) {
    atomic_fetch_add(&n_heap_calls, 1);
    return __libc_realloc(old, bytes);
}
int posix_memalign(void **out, size_t alignment, size_t bytes) {
    atomic_fetch_add(&n_heap_calls, 1);
    *out = __libc_memalign(alignment, bytes);
    return *out ? 0 : 12;
}
void *aligned_alloc(size_t alignment, size_t bytes) {
    atomic_fetch_add(&n_heap_calls, 1);
    return __libc_memalign(alignment, bytes);
}
#endif

enum { N_SEQS = 3, PROMPT = 40, OUTPUT = 30 };

static void count_steps(const char *model, int64_t vocab) {
    weir_engine *engine =
        open_engine_or_fail(model, &(weir_engine_options){.max_context = 128, .max_step_tokens = 16, .n_threads = 2});
    weir_seq *seqs[N_SEQS];
    run *runs[N_SEQS];
    int32_t ids[PROMPT];
    for (size_t i = 0; i < N_SEQS; i++) {
        fill_ids(ids, PROMPT, vocab, i + 1);
        weir_logit_bias bias = {5, -1};
        weir_seq_options o = {.tokens = ids,
                              .n_tokens = PROMPT,
                              .max_tokens = OUTPUT,
                              .ignore_eos = true,
                              .score_prompt = true,
                              .top_logprobs = 8,
                              .user = runs[i] = run_new(),
                              .sampling = {.temperature = i ? 0.9f : 0,
                                           .top_p = 0.9f,
                                           .min_p = 0.01f,
                                           .seed = i,
                                           .repetition_penalty = 1.1f,
                                           .logit_bias = &bias,
                                           .n_logit_bias = 1}};
        seqs[i] = open_seq(engine, &o);
    }
    unsigned long before = atomic_load(&n_heap_calls);
    uint64_t allocs = wr_alloc_count();
    run_all(engine, N_SEQS); /* prefill in chunks, then decode; the first step included */
    assert_int_equal(atomic_load(&n_heap_calls) - before, 0);
    assert_int_equal(wr_alloc_count() - allocs, 0);
    for (size_t i = 0; i < N_SEQS; i++) {
        assert_int_equal(runs[i]->n, PROMPT - 1 + OUTPUT);
        weir_seq_close(seqs[i]);
        free(runs[i]);
    }
    weir_engine_close(engine);
}

static void the_counter_counts(void **state) {
    (void)state;
    if (!COUNTING) skip();
    unsigned long before = atomic_load(&n_heap_calls);
    void *volatile p = malloc(10);
    free(p);
    assert_int_equal(atomic_load(&n_heap_calls) - before, 1);
}

static void a_step_of_a_small_model_takes_no_heap(void **state) {
    (void)state;
    count_steps(WR_SOURCE_DIR "/tests/data/checkpoints/gemma3-affine-b4g32-tied", 150);
    count_steps(WR_SOURCE_DIR "/tests/data/checkpoints/qwen2-nvfp4-tied", 150);
}

static void a_step_of_smollm2_takes_no_heap(void **state) {
    (void)state;
    char *model = store_model("SmolLM2-135M-Instruct.Q4_1.gguf");
    assert_non_null(model);
    count_steps(model, 49152);
    wr_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_counter_counts),
        cmocka_unit_test(a_step_of_a_small_model_takes_no_heap),
        cmocka_unit_test(a_step_of_smollm2_takes_no_heap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
