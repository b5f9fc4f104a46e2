/* Writes a random checkpoint, opens it in an engine, and generates. */
#ifndef WR_TESTS_ENGINE_SYNTH_H
#define WR_TESTS_ENGINE_SYNTH_H

#include <math.h>
#include <stdio.h>

#include "drive.h"
#include "models/synth.h"

/* Prompt and output of a few tokens; the logits are neither flat nor a single peak: with outputs of variance about 1
 * each log-probability is near -ln(vocab), and the best of the vocabulary some deviations above it. */
static inline void synth_runs(const char *preset, weir_quant quant, weir_dtype dtype, int64_t n_layers) {
    weir_error err = {0};
    wr_synth *synth;
    char folder[] = "/tmp/weir-synth-XXXXXX", path[64], command[128];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/c", folder);
    wr_synth_options o = {.preset = preset, .quant = quant, .dtype = dtype, .n_layers = n_layers};
    wr_synth_write_options more = {.n_threads = 2};
    if (wr_synth_new(&o, &synth, &err) != WEIR_OK) fail_msg("%s", err.message);
    if (wr_synth_write(synth, path, &more, &err) != WEIR_OK) fail_msg("%s", err.message);
    wr_synth_free(synth);

    weir_engine *engine;
    weir_engine_info info;
    weir_engine_options options = {.max_context = 64, .max_batch = 1, .max_step_tokens = 8};
    if (weir_engine_open(path, &options, &engine, &err) != WEIR_OK) fail_msg("%s", err.message);
    weir_engine_get_info(engine, &info);
    assert_int_equal(info.n_layers, n_layers);
    assert_null(weir_engine_tokenizer(engine));
    const int32_t ids[] = {1, 17, 300, 4000, 48000, 7};
    weir_seq *seq;
    weir_seq_options so = {.tokens = ids,
                           .n_tokens = sizeof ids / sizeof *ids,
                           .max_tokens = 3,
                           .ignore_eos = true,
                           .logprobs = true,
                           .top_logprobs = 1,
                           .score_prompt = true};
    run *r = run_new();
    so.user = r;
    if (weir_seq_open(engine, &so, &seq, &err) != WEIR_OK) fail_msg("%s", err.message);
    run_all(engine, 1);
    weir_seq_close(seq);
    assert_int_equal(r->finish, WEIR_FINISH_LENGTH);
    assert_int_equal(r->n, 5 + 3);
    /* Gemma scales embeddings to variance 1 and its head is tied to them: behind few layers a token knows itself. */
    double most = strcmp(info.family, "gemma3") ? -1 : 0, even = log((double)info.vocab_size);
    for (size_t i = 0; i < r->n; i++) {
        double best = (double)r->top[i][0].logprob;
        if (!(best > -even + 2 && best < most)) fail_msg("%s: best log-probability %g of ln %g", preset, best, even);
        if (!(r->logprob[i] < 0 && (double)r->logprob[i] > -even - 25))
            fail_msg("%s: %g", preset, (double)r->logprob[i]);
    }
    free(r);
    weir_engine_close(engine);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

#endif
