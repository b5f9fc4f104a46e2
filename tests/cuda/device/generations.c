/* An engine over the emulated driver as cards of several generations: no kernel is chosen that a card lacks (the
 * emulation would stop the program), by graph and kernel by kernel a request gives the same bits, and so do the tiers
 * of kernels that each generation has: the definition of a result does not depend on the card. One process for each
 * way, since a driver's card does not change. On a real card there is nothing to do. */
#include <sys/wait.h>

#include "device.h"
#include "engine/internal.h"

typedef struct way {
    const char *name, *arch, *graphs;
    bool uses_wgmma;
} way;

static const way ways[] = {
    {"sm_90, by graph", "90", "1", true},  {"sm_90, kernel by kernel", "90", "0", true},
    {"sm_80, by graph", "80", "1", false}, {"sm_80, kernel by kernel", "80", "0", false},
    {"sm_86, by graph", "86", "1", false}, {"sm_120, by graph", "120", "1", false},
};
enum { N_WAYS = sizeof ways / sizeof *ways, N_SEQS = 3, N_TOKENS = 8, MAX_RESULTS = 128 };

typedef struct result {
    int seq, kind;
    int64_t position;
    int32_t token;
    float logprob;
} result;
typedef struct answer {
    int n;
    bool uses_wgmma;
    result at[MAX_RESULTS];
} answer;

/* ---- in the child ---- */

/* Is there a step with a row that only sm_90 has? */
static bool chose_wgmma(const wr_buckets *b) {
    for (int i = 0; i < b->n; i++)
        for (int k = 0; k < b->program[i]->n_steps; k++)
            if (!strcmp(b->program[i]->steps[k].variant, "prefill")) return true;
    return false;
}

static weir_seq *open_one(weir_engine *engine, int i, int64_t vocab) {
    int32_t ids[32];
    uint64_t state = (uint64_t)i + 1;
    size_t n = (size_t)(29 - 9 * i);
    for (size_t k = 0; k < n; k++) ids[k] = (int32_t)(draw(&state) % (uint64_t)vocab);
    weir_seq *seq;
    weir_seq_options o = {.tokens = ids,
                          .n_tokens = n,
                          .max_tokens = N_TOKENS,
                          .ignore_eos = true,
                          .logprobs = true,
                          .score_prompt = i == 1,
                          .user = (void *)(intptr_t)i,
                          .sampling = {.temperature = i ? 0.8f : 0, .seed = (uint64_t)i}};
    MUST(weir_seq_open(engine, &o, &seq, err));
    return seq;
}

static void generate(const device_args *args, answer *a) {
    weir_engine *engine;
    weir_engine_info info;
    weir_seq *seqs[N_SEQS];
    weir_engine_options o = {
        .device = args->device, .n_threads = 1, .max_context = 64, .max_batch = N_SEQS, .max_step_tokens = 32};
    MUST(weir_engine_open(args->model, &o, &engine, err));
    weir_engine_get_info(engine, &info);
    a->uses_wgmma = chose_wgmma(&engine->body) || chose_wgmma(&engine->head) || chose_wgmma(&engine->whole);
    for (int i = 0; i < N_SEQS; i++) seqs[i] = open_one(engine, i, info.vocab_size);
    for (int left = N_SEQS; left;) {
        const weir_event *events;
        size_t n;
        MUST(weir_engine_step(engine, &events, &n, err));
        for (size_t i = 0; i < n; i++) {
            const weir_event *e = &events[i];
            left -= e->kind == WEIR_EVENT_FINISH;
            if (e->kind == WEIR_EVENT_FINISH || a->n == MAX_RESULTS) continue;
            a->at[a->n++] = (result){(int)(intptr_t)e->user, (int)e->kind, e->position, e->token, e->logprob};
        }
    }
    for (int i = 0; i < N_SEQS; i++) weir_seq_close(seqs[i]);
    weir_engine_close(engine);
}

/* ---- in the parent ---- */

static bool run_way(const device_args *args, const way *w, answer *a) {
    int ends[2], status = 0;
    memset(a, 0, sizeof *a);
    if (pipe(ends) != 0) return false;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        setenv("WR_EMULATE_ARCH", w->arch, 1);
        setenv("WEIR_CUDA_GRAPHS", w->graphs, 1);
        generate(args, a);
        _exit(write(ends[1], a, sizeof *a) == (ssize_t)sizeof *a ? 0 : 1); /* no more than a pipe holds */
    }
    close(ends[1]);
    ssize_t n = pid > 0 ? read(ends[0], a, sizeof *a) : -1;
    close(ends[0]);
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 && n == (ssize_t)sizeof *a;
}

static bool is_same(const way *w, const answer *want, const answer *got) {
    if (got->n != want->n || got->n < N_SEQS * N_TOKENS) {
        complain("%s: %d results, %s gave %d", w->name, got->n, ways[0].name, want->n);
        return false;
    }
    for (int i = 0; i < got->n; i++) {
        const result *a = &got->at[i], *b = &want->at[i];
        if (a->seq == b->seq && a->kind == b->kind && a->position == b->position && a->token == b->token &&
            a->logprob == b->logprob)
            continue;
        complain("%s: result %d is token %d of %a, %s gave %d of %a", w->name, i, a->token, (double)a->logprob,
                 ways[0].name, b->token, (double)b->logprob);
        return false;
    }
    return true;
}

int main(int argc, char **argv) {
    device_args args = read_args(argc, argv);
    if (!is_emulated()) {
        print_json("generations", "\"skipped\": \"a real card is of one generation\"");
        return 0;
    }
    static answer answers[N_WAYS];
    bool good = true;
    for (int i = 0; i < N_WAYS; i++) {
        const way *w = &ways[i];
        bool ran = run_way(&args, w, &answers[i]), is_right = ran && is_same(w, &answers[0], &answers[i]);
        if (!ran) complain("%s: it did not end well", w->name);
        if (ran && answers[i].uses_wgmma != w->uses_wgmma) {
            complain("%s: rows of sm_90 were %schosen", w->name, answers[i].uses_wgmma ? "" : "not ");
            is_right = false;
        }
        good = good && is_right;
        print_json("generations", "\"way\": \"%s\", \"results\": %d, \"sm_90_rows\": %s, \"passed\": %s", w->name,
                   answers[i].n, answers[i].uses_wgmma ? "true" : "false", is_right ? "true" : "false");
    }
    return good ? 0 : 1;
}
