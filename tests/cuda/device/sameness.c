/* Sameness on a card, bit by bit, for one model (--model): what a request gives (its tokens, their log-probabilities
 * and the best tokens of each position) is the same alone and in batches of 2, 8 and 64 of mixed lengths, greedy and
 * drawn; with the prompt whole and in chunks; with keys and values written a row a step, as decoding does, and by
 * prefill; in steps of few rows behind many keys, as guesses are verified; preempted and resumed; as graphs and kernel
 * by kernel. --brief: every way and every size of batch, a quarter of the steps. --few: the fewest that reach every
 * kernel, for tools that make a step take long. */
#include "array/kv.h"
#include "device.h"
#include "engine/internal.h"

enum { MAX_REQUESTS = 64, MAX_PROMPT = 1500, MAX_SEEN = 512, N_TOP = 16 };

/* Of the engine and of its requests: one long, one whose prompt is scored, the others short and of many lengths. */
typedef struct sizes {
    int64_t context, step_tokens;
    int n_requests, n_chunked; /* n_chunked: so many of them are run in chunks */
    int64_t long_prompt, scored_prompt, short_prompts, output;
    int64_t chunks[12]; /* rows a step; ended by 0 */
    int n_tight;        /* requests that share too few pages */
    int64_t tight_prompt, tight_output;
} sizes;
static const sizes full = {
    2048, 2048, MAX_REQUESTS, 6, MAX_PROMPT, 150, 190, 24, {1, 2, 3, 4, 5, 8, 16, 17, 32, 64, 256}, 6, 90, 40};
static const sizes brief = {2048, 2048, MAX_REQUESTS, 3, 1200, 80, 150, 6, {1, 3, 8, 17, 64, 256}, 4, 58, 12};
static const sizes few = {256, 192, 5, 2, 110, 30, 40, 2, {16, 70}, 2, 61, 6};
static const sizes quick = {512, 192, 8, 2, 130, 40, 60, 4, {1, 3, 8, 64}, 3, 58, 8};
static const sizes smallest = {128, 24, 8, 2, 70, 18, 20, 2, {1, 3, 5, 16}, 3, 58, 8}; /* for the emulated driver */

static device_args args;
static const sizes *of;
static int64_t vocab;

typedef struct request {
    int id; /* its tokens and its way of sampling follow from it */
    int64_t length, output;
    bool scored;
} request;

typedef struct seen {
    int32_t token;
    float logprob;
    uint64_t top; /* hash of the best tokens with their log-probabilities */
} seen;

typedef struct answer {
    int64_t n;
    seen at[MAX_SEEN];
    weir_finish finish;
} answer;

/* ---- running ---- */

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t bytes) {
    for (const unsigned char *p = data; bytes--; p++) hash = (hash ^ *p) * 0x100000001b3u; /* FNV-1a */
    return hash;
}

static weir_status open_request(weir_engine *engine, const request *r, answer *a, weir_seq **out, weir_error *err) {
    static int32_t ids[MAX_PROMPT];
    uint64_t seed = (uint64_t)r->id + 1;
    for (int64_t i = 0; i < r->length; i++) ids[i] = (int32_t)(draw(&seed) % (uint64_t)vocab);
    *a = (answer){0};
    weir_seq_options o = {.tokens = ids,
                          .n_tokens = (size_t)r->length,
                          .max_tokens = r->output,
                          .ignore_eos = true,
                          .logprobs = true,
                          .top_logprobs = N_TOP,
                          .score_prompt = r->scored,
                          .user = a};
    if (r->id % 4 == 2) o.sampling = (weir_sampling){.temperature = 0.8f, .top_p = 0.95f, .seed = seed};
    if (r->id % 4 == 3)
        o.sampling =
            (weir_sampling){.temperature = 1, .top_k = 40, .repetition_penalty = 1.1f, .presence_penalty = 0.2f};
    return weir_seq_open(engine, &o, out, err);
}

/* false: this is the end of a request. */
static bool take(const weir_event *e) {
    answer *a = e->user;
    if (e->kind == WEIR_EVENT_FINISH) {
        a->finish = e->finish;
        return false;
    }
    seen s = {.token = e->token, .logprob = e->logprob, .top = 0xcbf29ce484222325u};
    for (int i = 0; i < e->n_top; i++) {
        s.top = hash_bytes(s.top, &e->top[i].token, sizeof e->top[i].token);
        s.top = hash_bytes(s.top, &e->top[i].logprob, sizeof e->top[i].logprob);
    }
    if (a->n < MAX_SEEN) a->at[a->n] = s;
    a->n++;
    return true;
}

/* All of them at once; answers: [n]. */
static weir_status run_together(weir_engine *engine, const request *requests, int n, answer *answers, weir_error *err) {
    weir_seq *seqs[MAX_REQUESTS] = {0};
    weir_status status = WEIR_OK;
    int running = 0;
    for (; running < n && status == WEIR_OK; running++)
        status = open_request(engine, &requests[running], &answers[running], &seqs[running], err);
    while (running && status == WEIR_OK) {
        const weir_event *events;
        size_t n_events;
        status = weir_engine_step(engine, &events, &n_events, err);
        for (size_t i = 0; i < n_events && status == WEIR_OK; i++) running -= !take(&events[i]);
    }
    for (int i = 0; i < n; i++) weir_seq_close(seqs[i]);
    return status;
}

/* ---- comparing ---- */

static bool is_whole(const request *r, const answer *a) {
    bool good = a->finish == WEIR_FINISH_LENGTH && a->n == r->output + (r->scored ? r->length - 1 : 0);
    for (int64_t i = 0; i < a->n && i < MAX_SEEN && good; i++) good = isfinite(a->at[i].logprob);
    if (!good)
        complain("request %d: %lld tokens, finish reason %d, or numbers that are none", r->id, (long long)a->n,
                 (int)a->finish);
    return good;
}

static bool is_same(const char *way, const request *r, const answer *want, const answer *got) {
    if (want->n == got->n && memcmp(want->at, got->at, sizeof want->at) == 0) return true;
    int64_t i = 0;
    while (i < want->n && i < got->n && memcmp(&want->at[i], &got->at[i], sizeof(seen)) == 0) i++;
    complain("%s, request %d of %lld tokens: %lld results, not %lld; result %lld is token %d with %a, not %d with %a",
             way, r->id, (long long)r->length, (long long)got->n, (long long)want->n, (long long)i, got->at[i].token,
             (double)got->at[i].logprob, want->at[i].token, (double)want->at[i].logprob);
    return false;
}

static bool report(const char *way, weir_engine *engine, const weir_engine_stats *before, double start, int requests,
                   int64_t results, bool good) {
    weir_engine_stats after;
    weir_engine_get_stats(engine, &after);
    print_json("sameness",
               "\"way\": \"%s\", \"requests\": %d, \"results\": %lld, \"steps\": %" PRIu64 ", \"preemptions\": %" PRIu64
               ", \"seconds\": %.2f, \"passed\": %s",
               way, requests, (long long)results, after.steps - before->steps, after.preemptions - before->preemptions,
               now_s() - start, good ? "true" : "false");
    return good;
}

/* The requests in groups of so many at once against what each gave alone. */
static bool check(const char *way, weir_engine *engine, int group, const request *requests, int n, const answer *want) {
    weir_error err = {0};
    answer *got = calloc((size_t)group, sizeof *got);
    bool good = got != NULL;
    int64_t n_seen = 0;
    double start = now_s();
    weir_engine_stats before;
    weir_engine_get_stats(engine, &before);
    for (int at = 0; at < n && good; at += group) {
        int count = n - at < group ? n - at : group;
        if (run_together(engine, requests + at, count, got, &err) != WEIR_OK) {
            complain("%s: %s", way, err.message);
            good = false;
        }
        for (int i = 0; i < count && good; i++) {
            good = is_whole(&requests[at + i], &got[i]) && is_same(way, &requests[at + i], &want[at + i], &got[i]);
            n_seen += got[i].n;
        }
    }
    free(got);
    return report(way, engine, &before, start, n, n_seen, good);
}

/* Answers of requests that each run alone; NULL when something is wrong. They must differ, or comparing says nothing.
 */
static answer *run_alone(weir_engine *engine, const request *requests, int n) {
    answer *all = calloc((size_t)n, sizeof *all);
    for (int i = 0; i < n; i++) {
        MUST(run_together(engine, &requests[i], 1, &all[i], err));
        if (!is_whole(&requests[i], &all[i])) exit(1);
        for (int k = 0; k < i; k++)
            if (all[k].at[0].top == all[i].at[0].top) {
                complain("requests %d and %d gave the same", k, i);
                exit(1);
            }
    }
    return all;
}

/* ---- ways ---- */

static weir_engine_options plain_options(void) {
    return (weir_engine_options){.device = args.device,
                                 .n_threads = 1,
                                 .max_context = of->context,
                                 .max_batch = of->n_requests,
                                 .max_step_tokens = of->step_tokens};
}

static int fill_requests(request *requests) {
    for (int i = 0; i < of->n_requests; i++)
        requests[i] = (request){.id = i, .length = 1 + i * 37 % of->short_prompts, .output = of->output};
    requests[0].length = of->long_prompt;
    requests[1].length = of->scored_prompt;
    requests[1].scored = true;
    return of->n_requests;
}

/* In brief, the long prompt is not fed in so many steps. */
static bool is_slow(const request *r, int64_t rows) { return args.brief && r->length > 200 * rows; }

/* The engine takes fewer rows a step than it was opened for; nothing else knows of it. */
static bool check_rows(weir_engine *engine, int64_t rows, int group, const request *requests, int n,
                       const answer *want) {
    char way[64];
    int64_t usual = engine->options.max_step_tokens;
    snprintf(way, sizeof way, "%lld row%s a step%s", (long long)rows, rows > 1 ? "s" : "",
             group > 1 ? ", together" : "");
    int skip = is_slow(&requests[0], rows);
    engine->options.max_step_tokens = rows;
    bool good = check(way, engine, group, requests + skip, n - skip, want + skip);
    engine->options.max_step_tokens = usual;
    return good;
}

/* Hash of the keys and values of positions [0, end) of all layers; of a layer with a window those that it
 * still has a page later. */
static uint64_t hash_pages(weir_engine *engine, const weir_seq *seq, int64_t end) {
    const wr_hyper *h = &engine->model->hyper;
    const wr_kv *kv = &engine->kv;
    int64_t columns = wr_model_kv_columns(engine->model);
    bool tiled = engine->model->backend->tiles_pages;
    size_t element = weir_dtype_bytes(engine->options.kv_dtype);
    size_t page_bytes = WR_PAGE_TOKENS * (size_t)(h->n_kv_heads * columns) * element;
    char *page = malloc(page_bytes);
    uint64_t hash = 0xcbf29ce484222325u;
    if (!page) exit(1);
    for (int64_t i = 0; i < 2 * h->n_layers; i++) {
        int64_t layer = i / 2, group = h->layer_kv_group[layer], window = h->window[group];
        const int32_t *table = kv->tables + (group * kv->max_batch + seq->slot) * kv->max_pages;
        const char *memory = (i % 2 ? kv->values : kv->keys)[layer]->data;
        for (int64_t at = window && end + WR_PAGE_TOKENS > window ? end + WR_PAGE_TOKENS - window : 0, n; at < end;
             at += n) {
            n = WR_PAGE_TOKENS - at % WR_PAGE_TOKENS;
            if (n > end - at) n = end - at;
            size_t place = (size_t)table[at / WR_PAGE_TOKENS] * page_bytes;
            MUST(wr_device_download(engine->device, page, memory + place, page_bytes, err));
            for (int64_t pos = at % WR_PAGE_TOKENS; pos < at % WR_PAGE_TOKENS + n; pos++)
                for (int64_t k = 0; k < h->n_kv_heads * h->head_dim; k += 8) { /* eights lie together */
                    int64_t row = wr_kv_row(tiled, 0, pos, k / h->head_dim, WR_PAGE_TOKENS, h->n_kv_heads, columns);
                    row += wr_kv_column(tiled, pos, k % h->head_dim);
                    hash = hash_bytes(hash, page + (size_t)row * element, 8 * element);
                }
        }
    }
    free(page);
    return hash;
}

/* What the request's prompt leaves in the pages, so many rows a step. */
static uint64_t hash_prompt(weir_engine *engine, const request *r, int64_t rows) {
    weir_seq *seq;
    answer *a = calloc(1, sizeof *a);
    int64_t usual = engine->options.max_step_tokens;
    engine->options.max_step_tokens = rows;
    MUST(open_request(engine, r, a, &seq, err));
    while (a->n < 1 + (r->scored ? r->length - 1 : 0)) {
        const weir_event *events;
        size_t n;
        MUST(weir_engine_step(engine, &events, &n, err));
        for (size_t i = 0; i < n; i++) take(&events[i]);
    }
    uint64_t hash = hash_pages(engine, seq, r->length);
    weir_seq_close(seq);
    engine->options.max_step_tokens = usual;
    free(a);
    return hash;
}

static bool check_pages(weir_engine *engine, const request *requests, int n) {
    bool good = true;
    double start = now_s();
    int n_hashes = 0;
    weir_engine_stats before;
    weir_engine_get_stats(engine, &before);
    for (int i = 0; i < n; i++) {
        uint64_t whole = hash_prompt(engine, &requests[i], engine->options.max_step_tokens);
        for (int k = 0; of->chunks[k]; k += 2, n_hashes++)
            if (!is_slow(&requests[i], of->chunks[k]) && hash_prompt(engine, &requests[i], of->chunks[k]) != whole) {
                complain("request %d: its keys and values by %lld rows a step are others", requests[i].id,
                         (long long)of->chunks[k]);
                good = false;
            }
    }
    return report("keys and values written by decoding and by prefill", engine, &before, start, n, n_hashes, good);
}

static bool check_batches_and_chunks(weir_engine *engine, const request *requests, int n, const answer *want) {
    char way[32];
    bool good = check("again", engine, 1, requests, of->n_chunked, want);
    for (int group = 2, last = 0; !last; group *= group == 2 ? 4 : 8) {
        last = group >= n;
        if (last) group = n;
        snprintf(way, sizeof way, "batch of %d", group);
        good = check(way, engine, group, requests, n, want) && good;
    }
    for (int i = 0; of->chunks[i]; i++)
        good = check_rows(engine, of->chunks[i], 1, requests, of->n_chunked, want) && good;
    return check_rows(engine, 10, 8, requests, n > 16 ? 16 : n, want) && good;
}

/* Of so many pages for layers without a window. */
static size_t kv_bytes(const weir_engine_options *options, int64_t pages) {
    wr_plan plan;
    MUST(wr_plan_init(&plan, args.model, options, err));
    size_t bytes = 0;
    for (int g = 0; g < plan.model->hyper.n_kv_groups; g++) {
        int64_t n = plan.model->hyper.window[g] ? plan.kv.n_pages[g] : pages;
        bytes += (size_t)n * WR_PAGE_TOKENS * wr_model_kv_bytes_per_token(plan.model, g, plan.options.kv_dtype);
    }
    wr_plan_deinit(&plan);
    return bytes;
}

/* All prompts fit, but not what follows them: each request needs a page more before it ends. */
static bool check_preemption(weir_engine *roomy) {
    request requests[8];
    int n = of->n_tight;
    int64_t needed = 0;
    for (int i = 0; i < n; i++) {
        requests[i] = (request){.id = 100 + i, .length = of->tight_prompt + i, .output = of->tight_output};
        needed += (requests[i].length + WR_PAGE_TOKENS - 1) / WR_PAGE_TOKENS;
    }
    answer *want = run_alone(roomy, requests, n);
    weir_engine_options o = plain_options();
    o.max_batch = n;
    o.kv_bytes = kv_bytes(&o, needed + 1);
    weir_engine *tight;
    weir_engine_stats stats;
    MUST(weir_engine_open(args.model, &o, &tight, err));
    bool good = check("preempted and resumed", tight, n, requests, n, want);
    weir_engine_get_stats(tight, &stats);
    if (!stats.preemptions) complain("nothing was preempted"), good = false;
    weir_engine_close(tight);
    free(want);
    return good;
}

static bool check_direct(const request *requests, int n, const answer *want) {
    weir_engine_options o = plain_options();
    weir_engine *direct;
    setenv("WEIR_CUDA_GRAPHS", "0", 1);
    MUST(weir_engine_open(args.model, &o, &direct, err));
    unsetenv("WEIR_CUDA_GRAPHS");
    bool good = check("kernel by kernel", direct, 1, requests, 2, want);
    good = check("kernel by kernel, together", direct, n, requests, n, want) && good;
    weir_engine_close(direct);
    return good;
}

int main(int argc, char **argv) {
    args = read_args(argc, argv);
    of = args.brief ? &brief : args.few ? &few : !args.quick ? &full : is_emulated() ? &smallest : &quick;
    weir_device_close(open_or_exit(args.device));
    weir_engine_options o = plain_options();
    weir_engine *engine;
    weir_engine_info info;
    MUST(weir_engine_open(args.model, &o, &engine, err));
    weir_engine_get_info(engine, &info);
    vocab = info.vocab_size;
    request requests[MAX_REQUESTS];
    int n = fill_requests(requests);
    answer *want = run_alone(engine, requests, n);
    bool good = check_batches_and_chunks(engine, requests, n, want);
    good = check_pages(engine, requests, 2) && good;
    good = check_preemption(engine) && good;
    weir_engine_close(engine);
    good = check_direct(requests, n, want) && good;
    free(want);
    return good ? 0 : 1;
}
