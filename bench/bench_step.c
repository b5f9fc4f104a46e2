/* Where the time of a decode step goes on a GPU: the step's graph is replayed whole, then without each kind of kernel,
 * and the difference is what that kind costs there, overlaps and gaps included; all graphs are replayed in turn.
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

enum { N_REPLAYS = 301, MAX_KINDS = 128 };

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

typedef struct kind {
    char label[WR_TRACE_LABEL];
    int steps;
    bool stays;
    void *graph; /* of all steps but these */
    double us[N_REPLAYS], median, spread;
} kind;
static kind list[MAX_KINDS];

static void *graph_without(const wr_program *p, const int *kinds, int without) {
    weir_error err;
    wr_step *steps = malloc((size_t)p->n_steps * sizeof *steps);
    void *graph;
    int n = 0;
    for (int i = 0; i < p->n_steps; i++)
        if (kinds[i] != without) steps[n++] = p->steps[i];
    check(p->device->backend->runtime->graph_new(p->device->context, steps, n, &graph, &err), &err);
    free(steps);
    return graph;
}

static double replay_us(const wr_program *p, void *graph) {
    weir_error err;
    const wr_runtime *runtime = p->device->backend->runtime;
    uint64_t start = wr_now_ns();
    check(runtime->graph_launch(p->device->context, graph, &err),
          &err); /* one: its time is learned, so waiting is exact */
    check(runtime->wait(p->device->context, &err), &err);
    return (double)(wr_now_ns() - start) / 1e3;
}

/* Median and spread of the middle half; us becomes sorted. */
static void settle(kind *k) {
    qsort(k->us, N_REPLAYS, sizeof *k->us, by_value);
    k->median = k->us[N_REPLAYS / 2];
    k->spread = k->us[N_REPLAYS * 3 / 4] - k->us[N_REPLAYS / 4];
}

static int by_cost(const void *a, const void *b) {
    const kind *x = a, *y = b;
    return (x->median > y->median) - (x->median < y->median);
}

/* What a step is part of. Steps on integers that lead to the embedding go with it, so that none is without the other;
 * sampling goes with what stores it. */
static void label_of(const wr_program *p, int i, int embedding, char *label) {
    const wr_step *step = &p->steps[i];
    wr_trace_label(p, i, label);
    bool is_float = step->out.dtype >= WEIR_DTYPE_F16;
    if (step->op == WR_OP_SAMPLE || step->op == WR_OP_STORE)
        strcpy(label, "sample, store");
    else if (i == embedding || (i < embedding && !is_float))
        strcpy(label, "tokens, embedding");
    else if (!can_be_left_out(step, label))
        strcpy(label, "others");
}

static void profile(const wr_program *p, int64_t batch, int64_t keys) {
    int *kinds = malloc((size_t)p->n_steps * sizeof *kinds), n = 0, embedding = -1;
    for (int i = 0; i < p->n_steps; i++)
        if (p->steps[i].op == WR_OP_EMBEDDING) embedding = i;
    for (int i = 0; i < p->n_steps; i++) {
        char label[WR_TRACE_LABEL];
        label_of(p, i, embedding, label);
        int k = 0;
        while (k < n && strcmp(list[k].label, label) != 0) k++;
        if (k == MAX_KINDS - 1) k = MAX_KINDS - 2;
        if (k == n) strcpy(list[n++].label, label);
        list[k].steps++;
        list[k].stays = !strcmp(label, "others");
        kinds[i] = k;
    }
    kind *whole = &list[n];
    whole->steps = p->n_steps;
    for (int k = 0; k <= n; k++)
        if (!list[k].stays) list[k].graph = graph_without(p, kinds, k < n ? k : -1);
    /* In turn, so that whatever the card's clock does, it does to all. */
    for (int i = -20; i < N_REPLAYS; i++)
        for (int k = 0; k <= n; k++)
            if (list[k].graph) list[k].us[i < 0 ? 0 : i] = replay_us(p, list[k].graph);
    for (int k = 0; k <= n; k++) {
        if (!list[k].graph) continue;
        settle(&list[k]);
        p->device->backend->runtime->graph_free(p->device->context, list[k].graph);
    }
    double all = whole->median, spread = whole->spread;
    qsort(list, (size_t)n, sizeof *list, by_cost);
    for (int k = 0; k < n; k++) {
        if (list[k].stays) continue;
        double us = all - list[k].median;
        printf("{\"bench\":\"step\",\"batch\":%lld,\"keys\":%lld,\"kind\":\"%s\",\"steps\":%d,\"us\":%.1f,"
               "\"us_each\":%.2f,\"spread_us\":%.1f,\"n\":%d}\n",
               (long long)batch, (long long)keys, list[k].label, list[k].steps, us, us / list[k].steps, list[k].spread,
               N_REPLAYS);
    }
    printf("{\"bench\":\"step\",\"batch\":%lld,\"keys\":%lld,\"kind\":\"whole\",\"steps\":%d,\"us\":%.1f,"
           "\"spread_us\":%.1f,\"n\":%d}\n",
           (long long)batch, (long long)keys, p->n_steps, all, spread, N_REPLAYS);
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
