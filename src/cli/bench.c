/* weir bench: prefill and decode speed through the same step loop that serves. */
#include <string.h>

#include "base/mem.h"
#include "cli/cli.h"

enum { MAX_SIZES = 16, MAX_REPETITIONS = 1000 };

/* Ids that look like text to the model: spread over the vocabulary, the same every time. */
static void fill_prompt(int32_t *ids, int64_t n, int64_t vocab, uint64_t seed) {
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        ids[i] = (int32_t)((seed >> 33) % (uint64_t)vocab);
    }
}

typedef struct timing {
    double prefill_s, decode_s, host_us; /* host_us: what the host itself did in a decode step, their median */
} timing;

static double host_us(const weir_engine_stats *before, const weir_engine_stats *after) {
    uint64_t n = after->steps - before->steps;
    uint64_t ns = after->step_ns - before->step_ns - (after->wait_ns - before->wait_ns);
    return n ? (double)ns / 1e3 / (double)n : 0;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(double *values, size_t n) {
    if (n == 0) return 0;
    qsort(values, n, sizeof *values, by_value);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* batch sequences of n_prompt tokens, n_gen tokens each. Decode is timed from the step after the last first token. */
static weir_status measure(weir_engine *engine, int32_t *ids, int64_t n_prompt, int64_t n_gen, int64_t batch,
                           timing *out, weir_error *err) {
    weir_engine_info info;
    weir_engine_get_info(engine, &info);
    weir_seq **seqs = wr_calloc((size_t)batch, sizeof *seqs);
    double *host = wr_calloc((size_t)n_gen, sizeof *host);
    size_t n_host = 0;
    weir_status st = WEIR_OK;
    if (!seqs || !host) {
        st = WR_FAIL(err, WEIR_E_MEMORY, "no memory for %lld sequences", (long long)batch);
        goto done;
    }
    for (int64_t i = 0; i < batch; i++) {
        fill_prompt(ids, n_prompt, info.vocab_size, (uint64_t)i + 1);
        weir_seq_options options = {
            .tokens = ids, .n_tokens = (size_t)n_prompt, .max_tokens = n_gen, .ignore_eos = true};
        WR_TRY_GOTO(st, weir_seq_open(engine, &options, &seqs[i], err), done);
    }
    double start = wr_cli_now_s(), first = start;
    weir_engine_stats before, after;
    weir_engine_get_stats(engine, &before);
    for (int64_t waiting = batch, running = batch; running;) {
        const weir_event *events;
        size_t n;
        WR_TRY_GOTO(st, weir_engine_step(engine, &events, &n, err), done);
        weir_engine_get_stats(engine, &after);
        if (waiting == 0 && n_host < (size_t)n_gen) host[n_host++] = host_us(&before, &after);
        before = after;
        for (size_t i = 0; i < n; i++) {
            if (events[i].kind == WEIR_EVENT_TOKEN && events[i].position == n_prompt && --waiting == 0)
                first = wr_cli_now_s();
            running -= events[i].kind == WEIR_EVENT_FINISH;
            if (events[i].kind == WEIR_EVENT_FINISH && events[i].finish == WEIR_FINISH_ERROR) {
                st = WR_FAIL(err, WEIR_E_STATE, "the model gave no finite logit");
                goto done;
            }
        }
    }
    *out = (timing){.prefill_s = first - start, .decode_s = wr_cli_now_s() - first};
    out->host_us = median_of(host, n_host);
done:
    for (int64_t i = 0; i < batch && seqs; i++) weir_seq_close(seqs[i]);
    wr_free(seqs);
    wr_free(host);
    return st;
}

/* rates: [n] tokens a second. host: [n] microseconds, NULL: not shown. */
static weir_status show(const wr_cli *cli, const char *what, int64_t n_prompt, int64_t n_gen, int64_t batch,
                        int threads, double *rates, double *host, size_t n, weir_error *err) {
    double median = median_of(rates, n), us = host ? median_of(host, n) : 0;
    if (cli->json) {
        WR_TRY(wr_cli_json(json_pack("{s:s,s:I,s:I,s:I,s:i,s:I,s:f,s:f,s:f,s:o*}", "what", what, "n_prompt",
                                     (json_int_t)n_prompt, "n_gen", (json_int_t)n_gen, "batch", (json_int_t)batch,
                                     "threads", threads, "n", (json_int_t)n, "tok_s", median, "min_tok_s", rates[0],
                                     "max_tok_s", rates[n - 1], "host_us", host ? json_real(us) : NULL),
                           err));
        return wr_cli_flush(err);
    }
    printf("%-8s prompt %5lld  generated %5lld  batch %3lld  threads %d  %9.1f tok/s  (%.1f to %.1f, n %zu)", what,
           (long long)n_prompt, (long long)n_gen, (long long)batch, threads, median, rates[0], rates[n - 1], n);
    if (host) printf("  host %.1f us a step", us);
    printf("\n");
    return wr_cli_flush(err);
}

static weir_status bench_prefill(const wr_cli *cli, weir_engine *engine, int32_t *ids, int64_t n_prompt, int threads,
                                 weir_error *err) {
    double rates[MAX_REPETITIONS];
    for (int64_t r = -1; r < cli->repetitions; r++) { /* the first is a warm-up */
        timing t = {0};
        WR_TRY(measure(engine, ids, n_prompt, 1, 1, &t, err));
        if (r >= 0) rates[r] = (double)n_prompt / t.prefill_s;
    }
    return show(cli, "prefill", n_prompt, 0, 1, threads, rates, NULL, (size_t)cli->repetitions, err);
}

/* On the CPU all of a step is the host's work: then it is not shown by itself. */
static weir_status bench_decode(const wr_cli *cli, weir_engine *engine, int32_t *ids, int64_t n_gen, int64_t batch,
                                const weir_engine_info *info, weir_error *err) {
    double rates[MAX_REPETITIONS], host[MAX_REPETITIONS];
    for (int64_t r = -1; r < cli->repetitions; r++) {
        timing t = {0};
        WR_TRY(measure(engine, ids, 1, n_gen + 1, batch, &t, err)); /* the first token belongs to the prefill */
        if (r >= 0) rates[r] = (double)(n_gen * batch) / t.decode_s, host[r] = t.host_us;
    }
    bool on_device = strcmp(info->device, "cpu") != 0;
    return show(cli, "decode", 1, n_gen, batch, info->n_threads, rates, on_device ? host : NULL,
                (size_t)cli->repetitions, err);
}

static weir_status check_sizes(const char *option, const int64_t *sizes, size_t n, int64_t most, weir_error *err) {
    for (size_t i = 0; i < n; i++)
        if (sizes[i] > most)
            return WR_FAIL(err, WEIR_E_ARGUMENT, "%s has %lld; at most %lld tokens fit the context (--context)", option,
                           (long long)sizes[i], (long long)(most > 0 ? most : 0));
    return WEIR_OK;
}

weir_status wr_cmd_bench(const wr_cli *cli, weir_error *err) {
    int64_t prompts[MAX_SIZES], lengths[MAX_SIZES], batches[MAX_SIZES];
    size_t n_prompts, n_lengths, n_batches;
    WR_TRY(wr_cli_numbers("--prompts", cli->prompts, prompts, MAX_SIZES, &n_prompts, err));
    WR_TRY(wr_cli_numbers("--lengths", cli->lengths, lengths, MAX_SIZES, &n_lengths, err));
    WR_TRY(wr_cli_numbers("--batches", cli->batches, batches, MAX_SIZES, &n_batches, err));
    wr_cli sized = *cli;
    for (size_t i = 0; i < n_batches; i++)
        if (batches[i] > sized.batch) sized.batch = batches[i];
    weir_engine *engine = NULL;
    weir_engine_info info;
    int32_t *ids = NULL;
    weir_status st;
    WR_TRY_GOTO(st, wr_cli_open(&sized, &engine, err), done);
    weir_engine_get_info(engine, &info);
    /* A sequence that the context cuts short would be timed as if it were whole. */
    WR_TRY_GOTO(st, check_sizes("--prompts", prompts, n_prompts, info.max_context - 1, err), done);
    WR_TRY_GOTO(st, check_sizes("--lengths", lengths, n_lengths, info.max_context - 2, err), done);
    ids = wr_malloc((size_t)info.max_context * sizeof *ids);
    if (!ids) {
        st = WR_FAIL(err, WEIR_E_MEMORY, "no memory for a prompt of %lld tokens", (long long)info.max_context);
        goto done;
    }
    for (size_t i = 0; i < n_prompts; i++)
        if (prompts[i]) WR_TRY_GOTO(st, bench_prefill(cli, engine, ids, prompts[i], info.n_threads, err), done);
    for (size_t b = 0; b < n_batches; b++)
        for (size_t i = 0; i < n_lengths; i++)
            if (lengths[i] && batches[b])
                WR_TRY_GOTO(st, bench_decode(cli, engine, ids, lengths[i], batches[b], &info, err), done);
done:
    weir_engine_close(engine);
    wr_free(ids);
    return st;
}
