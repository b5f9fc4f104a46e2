/* Where the time of a decode step goes on a GPU: the step's graph is replayed whole, then without each kind of kernel,
 * and the difference is what that kind costs there, overlaps and gaps included.
 *
 *   bench_step MODEL [BATCH [KEYS]]        default: 1 sequence, 1 key before it
 *
 * One JSON line a kind, the dearest first, then one for the whole. us: microseconds of a step, median of n replays;
 * steps: kernels of that kind. What a kind leaves unwritten the others read as it was, which costs the same; kinds that
 * say where others read (integers, attention's schedule) stay in. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/compile.h"
#include "array/internal.h"
#include "base/clock.h"
#include "engine/internal.h"

enum { N_REPLAYS = 61, MAX_KINDS = 128, RUNS = 8 };

static void check(weir_status status, const weir_error *err) {
    if (status == WEIR_OK) return;
    fprintf(stderr, "bench_step: %s\n", err->message);
    exit(1);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool can_be_left_out(const wr_step *step, const char *label) {
    weir_dtype dtype = step->out.dtype;
    bool is_float = dtype == WEIR_DTYPE_F32 || dtype == WEIR_DTYPE_BF16 || dtype == WEIR_DTYPE_F16;
    return is_float && !strstr(label, "attention prepare");
}

/* Median microseconds of one replay of the steps whose kind is not `without`; spread: of the middle half. */
static double time_without(const wr_program *p, const int *kinds, int without, double *spread) {
    weir_error err;
    const wr_runtime *runtime = p->device->backend->runtime;
    void *context = p->device->context, *graph;
    wr_step *steps = malloc((size_t)p->n_steps * sizeof *steps);
    double us[N_REPLAYS];
    int n = 0;
    for (int i = 0; i < p->n_steps; i++)
        if (kinds[i] != without) steps[n++] = p->steps[i];
    check(runtime->graph_new(context, steps, n, &graph, &err), &err);
    for (int i = -2; i < N_REPLAYS; i++) {
        check(runtime->wait(context, &err), &err);
        uint64_t start = wr_now_ns();
        for (int k = 0; k < RUNS; k++) check(runtime->graph_launch(context, graph, &err), &err);
        check(runtime->wait(context, &err), &err);
        if (i >= 0) us[i] = (double)(wr_now_ns() - start) / 1e3 / RUNS;
    }
    runtime->graph_free(context, graph);
    free(steps);
    qsort(us, N_REPLAYS, sizeof *us, by_value);
    *spread = us[N_REPLAYS * 3 / 4] - us[N_REPLAYS / 4];
    return us[N_REPLAYS / 2];
}

typedef struct kind {
    char label[WR_TRACE_LABEL];
    int steps;
    double us, spread;
} kind;
static kind list[MAX_KINDS];

static int by_cost(const void *a, const void *b) {
    const kind *x = a, *y = b;
    return (x->us < y->us) - (x->us > y->us);
}

static void profile(const wr_program *p, int64_t batch, int64_t keys) {
    int *kinds = malloc((size_t)p->n_steps * sizeof *kinds), n = 0;
    for (int i = 0; i < p->n_steps; i++) {
        char label[WR_TRACE_LABEL];
        wr_trace_label(p, i, label);
        if (!can_be_left_out(&p->steps[i], label)) strcpy(label, "others");
        int k = 0;
        while (k < n && strcmp(list[k].label, label) != 0) k++;
        if (k == MAX_KINDS) k = MAX_KINDS - 1;
        if (k == n) strcpy(list[n++].label, label);
        list[k].steps++;
        kinds[i] = k;
    }
    double spread, whole = time_without(p, kinds, -1, &spread);
    for (int k = 0; k < n; k++)
        if (strcmp(list[k].label, "others") != 0) list[k].us = whole - time_without(p, kinds, k, &list[k].spread);
    qsort(list, (size_t)n, sizeof *list, by_cost);
    for (int k = 0; k < n; k++)
        printf("{\"bench\":\"step\",\"batch\":%lld,\"keys\":%lld,\"kind\":\"%s\",\"steps\":%d,\"us\":%.1f,"
               "\"us_each\":%.2f,\"spread_us\":%.1f,\"n\":%d}\n",
               (long long)batch, (long long)keys, list[k].label, list[k].steps, list[k].us, list[k].us / list[k].steps,
               list[k].spread, N_REPLAYS);
    printf("{\"bench\":\"step\",\"batch\":%lld,\"keys\":%lld,\"kind\":\"whole\",\"steps\":%d,\"us\":%.1f,"
           "\"spread_us\":%.1f,\"n\":%d}\n",
           (long long)batch, (long long)keys, p->n_steps, whole, spread, N_REPLAYS);
    free(kinds);
}

int main(int argc, char **argv) {
    if (argc < 2 || argc > 4) {
        fprintf(stderr, "usage: bench_step MODEL [BATCH [KEYS]]\n");
        return 2;
    }
    weir_error err;
    int64_t batch = argc > 2 ? atoll(argv[2]) : 1, keys = argc > 3 ? atoll(argv[3]) : 1;
    weir_engine *engine;
    weir_engine_options options = {.device = "cuda", .max_batch = batch, .max_context = keys + 64};
    check(weir_engine_open(argv[1], &options, &engine, &err), &err);
    /* Steps of the whole batch, so that the step's inputs lie on the device. */
    int32_t *ids = calloc((size_t)keys, sizeof *ids);
    weir_seq **seqs = calloc((size_t)batch, sizeof *seqs);
    for (int64_t k = 0; k < keys; k++) ids[k] = (int32_t)(k % 1000);
    for (int64_t i = 0; i < batch; i++)
        check(weir_seq_open(
                  engine,
                  &(weir_seq_options){.tokens = ids, .n_tokens = (size_t)keys, .max_tokens = 48, .ignore_eos = true},
                  &seqs[i], &err),
              &err);
    const weir_event *events;
    size_t n_events;
    for (int64_t tokens = 0; tokens < batch * 8;) {
        check(weir_engine_step(engine, &events, &n_events, &err), &err);
        tokens += (int64_t)n_events;
    }
    const wr_buckets *b = wr_buckets_for(engine, batch);
    profile(b->program[wr_bucket_for(b, batch)], batch, keys);
    for (int64_t i = 0; i < batch; i++) weir_seq_close(seqs[i]);
    weir_engine_close(engine);
    free(ids);
    free(seqs);
    return 0;
}
