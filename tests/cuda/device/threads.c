/* Many threads at once, with devices and engines of their own, opened and closed as they like, or with graphs, programs
 * and kernels of their own on one device: no error, and results that are known beforehand. There is no rule that a
 * device belongs to one thread. */
#include <pthread.h>
#include <stdatomic.h>

#include "axpy.h"
#include "weir/log.h"

enum { MAX_THREADS = 64, PROMPT = 24, OUTPUT = 12, N_PROMPTS = 4 };

static device_args args;
static double deadline;
static weir_device *shared; /* by half of the threads */
static atomic_bool failed;
static int32_t expected[N_PROMPTS][OUTPUT]; /* by one thread, before the others begin */
static atomic_long n_evals, n_programs, n_customs, n_compiled, n_engines, n_devices, n_tokens;

static void wrong(const char *what, weir_error *err) {
    atomic_store(&failed, true);
    complain("%s: %s", what, err && *err->message ? err->message : "wrong result");
}

static bool go_on(void) { return !atomic_load(&failed) && now_s() < deadline; }

/* ---- graphs ---- */

/* Small integers: every sum is exact in f32, whatever its order. */
static void fill_small(float *x, int64_t n, uint64_t *seed) {
    for (int64_t i = 0; i < n; i++) x[i] = (float)(draw(seed) % 7) - 3;
}

static bool same_product(const float *a, const float *b, const float *c, int64_t m, int64_t k, int64_t n) {
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            float sum = 0;
            for (int64_t l = 0; l < k; l++) sum += a[i * k + l] * b[l * n + j];
            if (c[i * n + j] != sum) return false;
        }
    return true;
}

static bool same_softmax(const float *x, const float *y, int64_t rows, int64_t cols) {
    for (int64_t i = 0; i < rows; i++) {
        double total = 0;
        for (int64_t j = 0; j < cols; j++) total += exp((double)x[i * cols + j]);
        for (int64_t j = 0; j < cols; j++) {
            double want = exp((double)x[i * cols + j]) / total;
            if (!(fabs((double)y[i * cols + j] - want) <= 1e-6 + 1e-5 * want)) return false;
        }
    }
    return true;
}

static bool same_rest(const float *a, const float *twice, const float *sums, int64_t rows, int64_t cols) {
    for (int64_t i = 0; i < rows; i++) {
        float sum = 0;
        for (int64_t j = 0; j < cols; j++) {
            sum += a[i * cols + j];
            if (twice[i * cols + j] != 2 * a[i * cols + j] + 1) return false;
        }
        if (sums[i] != sum) return false;
    }
    return true;
}

/* Product, softmax, element-wise and sum of random shapes in one evaluation. */
static bool evaluate(weir_device *device, uint64_t *seed, weir_error *err) {
    int64_t most = args.quick ? 12 : 200, m = 1 + (int64_t)draw(seed) % most, k = 1 + (int64_t)draw(seed) % most,
            n = 1 + (int64_t)draw(seed) % most;
    float *a = malloc((size_t)(m * k) * sizeof *a), *b = malloc((size_t)(k * n) * sizeof *b);
    weir_graph *g = NULL;
    bool good = false;
    if (a && b && weir_graph_new(device, &g, err) == WEIR_OK) {
        fill_small(a, m * k, seed);
        fill_small(b, k * n, seed);
        weir_array *x = matrix(g, m, k, a);
        weir_array *out[] = {weir_matmul(x, matrix(g, k, n, b)), weir_softmax(x, 1),
                             weir_add(weir_mul(x, weir_scalar_f32(g, 2)), weir_scalar_f32(g, 1)),
                             weir_sum(x, 1, (int[]){1}, false)};
        if (weir_eval(out, 4, err) == WEIR_OK) {
            const float *r[4];
            for (int i = 0; i < 4; i++) r[i] = weir_array_data(out[i]);
            good = r[0] && r[1] && r[2] && r[3] && same_product(a, b, r[0], m, k, n) && same_softmax(a, r[1], m, k) &&
                   same_rest(a, r[2], r[3], m, k);
        }
    }
    weir_graph_free(g);
    free(a);
    free(b);
    atomic_fetch_add(&n_evals, 1);
    return good;
}

/* A program, compiled once and run over changing input. */
static bool run_programs(weir_device *device, uint64_t *seed, weir_error *err) {
    int64_t rows = 1 + (int64_t)draw(seed) % 8, cols = 1 + (int64_t)draw(seed) % (args.quick ? 40 : 4000);
    size_t bytes = (size_t)(rows * cols) * sizeof(float);
    float *x = malloc(bytes), *sums = malloc((size_t)rows * sizeof *sums);
    weir_graph *g = NULL;
    wr_buffer *buffer = NULL;
    wr_program *program = NULL;
    bool good = x && sums && weir_graph_new(device, &g, err) == WEIR_OK &&
                wr_buffer_new_on(device, bytes, &buffer, err) == WEIR_OK;
    if (good) {
        weir_array *in = wr_leaf(g, WEIR_DTYPE_F32, 2, (int64_t[]){rows, cols}, NULL, 0, buffer);
        weir_array *sum = weir_sum(weir_mul(in, in), 1, (int[]){1}, false);
        good = wr_program_new(&sum, 1, NULL, &program, err) == WEIR_OK;
    }
    for (int i = 0; i < (args.quick ? 2 : 10) && good; i++) {
        fill_small(x, rows * cols, seed);
        good = wr_buffer_write(buffer, x, bytes, err) == WEIR_OK && wr_program_run(program, err) == WEIR_OK &&
               wr_device_download(device, sums, wr_program_output(program, 0)->data, (size_t)rows * sizeof *sums,
                                  err) == WEIR_OK;
        for (int64_t r = 0; r < rows && good; r++) {
            float sum = 0;
            for (int64_t c = 0; c < cols; c++) sum += x[r * cols + c] * x[r * cols + c];
            good = sums[r] == sum;
        }
        atomic_fetch_add(&n_programs, 1);
    }
    wr_program_free(program);
    weir_graph_free(g);
    wr_buffer_release(buffer);
    free(x);
    free(sums);
    return good;
}

static void take_notice(void *context, const char *text) {
    (void)context;
    if (strstr(text, " compiled for ")) atomic_fetch_add(&n_compiled, 1);
}

/* A kernel of the user's among ops: mostly one that is loaded or lies in the cache of files, now and then a source that
 * nobody compiled before, while others launch. */
static bool run_custom(weir_device *device, uint64_t *seed, weir_error *err) {
    enum { FRESH = 64 };
    long n = atomic_fetch_add(&n_customs, 1);
    char source[sizeof axpy + 32];
    snprintf(source, sizeof source, "%s// %ld\n", axpy, n % FRESH ? 0 : n / FRESH);
    weir_kernel *kernel;
    bool is_right = false;
    if (weir_kernel_new(device, AXPY, source, NULL, &kernel, err) != WEIR_OK) return false;
    double a = 1 + (double)(draw(seed) % 8);
    int64_t size = 1 + (int64_t)draw(seed) % (args.quick ? 300 : 20000);
    weir_status status = evaluate_axpy(device, kernel, a, size, &is_right, err);
    weir_kernel_free(kernel);
    return status == WEIR_OK && is_right;
}

/* One of each kind. */
static void work(weir_device *device, uint64_t *seed, const char *where) {
    weir_error err = {0};
    char text[128];
    const char *what = !evaluate(device, seed, &err)       ? "evaluating"
                       : !run_programs(device, seed, &err) ? "running a program"
                       : !run_custom(device, seed, &err)   ? "evaluating a custom kernel"
                                                           : NULL;
    if (!what) return;
    snprintf(text, sizeof text, "%s on a device %s", what, where);
    wrong(text, &err);
}

/* Graphs of its own on a device that others use too. */
static void *sharing_thread(void *context) {
    uint64_t seed = (uint64_t)(uintptr_t)context;
    do work(shared, &seed, "that others share");
    while (go_on());
    return NULL;
}

static void *graph_thread(void *context) {
    uint64_t seed = (uint64_t)(uintptr_t)context;
    weir_error err = {0};
    do {
        weir_device *device;
        if (weir_device_open(args.device, 1, &device, &err) != WEIR_OK) {
            wrong("opening a device", &err);
            return NULL;
        }
        atomic_fetch_add(&n_devices, 1);
        for (int i = 0; i < (args.quick ? 2 : 200) && go_on(); i++) work(device, &seed, "of its own");
        weir_device_close(device);
    } while (go_on());
    return NULL;
}

/* ---- engines ---- */

/* All prompts as one batch; tokens: [N_PROMPTS][OUTPUT]. */
static weir_status generate(weir_engine *engine, int32_t (*tokens)[OUTPUT], weir_error *err) {
    weir_seq *seqs[N_PROMPTS] = {0};
    weir_engine_info info;
    weir_engine_get_info(engine, &info);
    weir_status status = WEIR_OK;
    int output = args.quick ? 2 : OUTPUT, running = 0;
    for (int i = 0; i < N_PROMPTS && status == WEIR_OK; i++) {
        int32_t ids[PROMPT];
        uint64_t seed = (uint64_t)i + 1;
        for (int k = 0; k < PROMPT; k++) ids[k] = (int32_t)(draw(&seed) % (uint64_t)info.vocab_size);
        weir_seq_options o = {.tokens = ids,
                              .n_tokens = (size_t)(args.quick ? 3 : PROMPT - 5 * i),
                              .max_tokens = output,
                              .ignore_eos = true,
                              .user = tokens[i]};
        status = weir_seq_open(engine, &o, &seqs[i], err);
        running += status == WEIR_OK;
    }
    while (running && status == WEIR_OK) {
        const weir_event *events;
        size_t n;
        status = weir_engine_step(engine, &events, &n, err);
        for (size_t i = 0; i < n && status == WEIR_OK; i++) running -= events[i].kind == WEIR_EVENT_FINISH;
    }
    for (int i = 0; i < N_PROMPTS; i++) {
        size_t n = 0;
        const int32_t *all = seqs[i] ? weir_seq_tokens(seqs[i], &n) : NULL;
        for (int k = 0; k < output && status == WEIR_OK; k++) tokens[i][k] = all[n - (size_t)output + (size_t)k];
        weir_seq_close(seqs[i]);
    }
    atomic_fetch_add(&n_tokens, N_PROMPTS * output);
    return status;
}

static weir_status open_engine(weir_engine **engine, weir_error *err) {
    weir_engine_options o = {.device = args.device,
                             .n_threads = 1,
                             .max_context = 64,
                             .max_batch = N_PROMPTS,
                             .max_step_tokens = args.quick ? 8 : 32};
    return weir_engine_open(args.model, &o, engine, err);
}

static void *engine_thread(void *context) {
    (void)context;
    weir_error err = {0};
    do {
        weir_engine *engine;
        if (open_engine(&engine, &err) != WEIR_OK) {
            wrong("opening an engine", &err);
            return NULL;
        }
        atomic_fetch_add(&n_engines, 1);
        for (int i = 0; i < (args.quick ? 1 : 50) && !atomic_load(&failed); i++) {
            int32_t tokens[N_PROMPTS][OUTPUT] = {0};
            if (generate(engine, tokens, &err) != WEIR_OK)
                wrong("stepping an engine", &err);
            else if (memcmp(tokens, expected, sizeof tokens) != 0)
                wrong("tokens of an engine", NULL);
        }
        weir_engine_close(engine);
    } while (go_on());
    return NULL;
}

int main(int argc, char **argv) {
    args = read_args(argc, argv);
    long n = args.threads ? args.threads : args.quick ? 5 : 20;
    if (n > MAX_THREADS) n = MAX_THREADS;
    long seconds = args.seconds ? args.seconds : args.quick ? 1 : 60;
    shared = open_or_exit(args.device);
    char folder[256];
    if (!make_folder(folder, sizeof folder)) return 1;
    setenv("WEIR_KERNEL_CACHE", folder, 1);
    use_fake_compiler();
    weir_set_log(take_notice, NULL);
    weir_engine *engine;
    MUST(open_engine(&engine, err));
    MUST(generate(engine, expected, err));
    weir_engine_close(engine);

    pthread_t threads[MAX_THREADS];
    double start = now_s();
    deadline = start + (double)seconds;
    static void *(*const kinds[])(void *) = {engine_thread, sharing_thread, graph_thread, sharing_thread};
    for (long i = 0; i < n; i++)
        if (pthread_create(&threads[i], NULL, kinds[i % 4], (void *)(uintptr_t)(i + 1))) return 1;
    for (long i = 0; i < n; i++) pthread_join(threads[i], NULL);
    weir_device_close(shared);
    remove_all(folder);
    bool good = !atomic_load(&failed);
    print_json("threads",
               "\"threads\": %ld, \"seconds\": %.1f, \"devices\": %ld, \"evaluations\": %ld, \"program_runs\": %ld, "
               "\"custom_kernels\": %ld, \"compiled\": %ld, \"engines\": %ld, \"tokens\": %ld, \"passed\": %s",
               n, now_s() - start, atomic_load(&n_devices), atomic_load(&n_evals), atomic_load(&n_programs),
               atomic_load(&n_customs), atomic_load(&n_compiled), atomic_load(&n_engines), atomic_load(&n_tokens),
               good ? "true" : "false");
    return good ? 0 : 1;
}
