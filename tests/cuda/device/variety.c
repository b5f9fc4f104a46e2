/* Variety costs nothing: 10,000 distinct pairs of prompt length and batch shape through one engine without one program
 * built after it opened, and 10,000 distinct shapes of ad-hoc work through a bounded cache; host and device memory end
 * where they began. */
#include <malloc.h>

#include "device.h"

enum { MAX_BATCH = 16 };
enum { HOST_SLACK = 256 << 10, DEVICE_SLACK = 4 << 20 }; /* what the driver and the heap keep for themselves */

typedef struct usage {
    size_t host, device;
    uint64_t allocations, programs;
} usage;

/* Memory of the device as all its users left it, the array runtime's free pool given back. */
static usage measure(weir_device *device) {
    usage u = {.host = mallinfo2().uordblks + mallinfo2().hblkhd,
               .allocations = wr_alloc_count(),
               .programs = wr_program_count()};
    size_t freed, free_bytes, total;
    const wr_runtime *runtime = device->backend->runtime;
    MUST(runtime->trim(device->context, &freed, err));
    MUST(runtime->memory(device->context, &free_bytes, &total, err));
    u.device = total - free_bytes;
    return u;
}

static bool grew(const usage *before, const usage *after) {
    return after->host > before->host + HOST_SLACK || after->device > before->device + DEVICE_SLACK;
}

static void print_usage(const char *name, const usage *before, const usage *after, long n, double seconds, bool good) {
    print_json(name,
               "\"shapes\": %ld, \"seconds\": %.1f, \"programs_built\": %" PRIu64 ", \"host_growth_bytes\": %lld, "
               "\"device_growth_bytes\": %lld, \"allocations\": %" PRIu64 ", \"passed\": %s",
               n, seconds, after->programs - before->programs, (long long)after->host - (long long)before->host,
               (long long)after->device - (long long)before->device, after->allocations - before->allocations,
               good ? "true" : "false");
}

/* ---- engine ---- */

/* The first sequence of `length` tokens, the others ever shorter; two tokens of output. */
static void run_batch(weir_engine *engine, int64_t vocab, int64_t length, int batch) {
    static int32_t ids[8192];
    weir_seq *seqs[MAX_BATCH];
    uint64_t seed = (uint64_t)(length * MAX_BATCH + batch);
    for (int64_t i = 0; i < length; i++) ids[i] = (int32_t)(draw(&seed) % (uint64_t)vocab);
    for (int i = 0; i < batch; i++) {
        weir_seq_options o = {
            .tokens = ids, .n_tokens = (size_t)((length + i) / (i + 1)), .max_tokens = 2, .ignore_eos = true};
        MUST(weir_seq_open(engine, &o, &seqs[i], err));
    }
    for (int running = batch; running;) {
        const weir_event *events;
        size_t n;
        MUST(weir_engine_step(engine, &events, &n, err));
        for (size_t i = 0; i < n; i++) {
            running -= events[i].kind == WEIR_EVENT_FINISH;
            if (events[i].kind == WEIR_EVENT_FINISH && events[i].finish != WEIR_FINISH_LENGTH) {
                complain("a sequence ended with finish reason %d", (int)events[i].finish);
                exit(1);
            }
        }
    }
    for (int i = 0; i < batch; i++) weir_seq_close(seqs[i]);
}

static bool engine_shapes(const device_args *args, weir_device *device, long n) {
    int64_t lengths = (n + MAX_BATCH - 1) / MAX_BATCH;
    weir_engine *engine;
    weir_engine_options o = {.device = args->device,
                             .n_threads = 1,
                             .max_context = lengths + 8 > 64 ? lengths + 8 : 64,
                             .max_batch = MAX_BATCH,
                             .max_step_tokens = args->quick ? 16 : 1024};
    MUST(weir_engine_open(args->model, &o, &engine, err));
    weir_engine_info info;
    weir_engine_get_info(engine, &info);
    for (int i = 1; i <= MAX_BATCH; i += 5) run_batch(engine, info.vocab_size, lengths, i);
    usage before = measure(device);
    double start = now_s();
    /* In an order in which neighbours differ: i * p mod n visits everything when p is prime to n. */
    const long p = 7919;
    for (long i = 0; i < n; i++) {
        long k = i * p % n;
        run_batch(engine, info.vocab_size, 1 + k / MAX_BATCH, 1 + (int)(k % MAX_BATCH));
    }
    usage after = measure(device);
    bool good = after.programs == before.programs && !grew(&before, &after);
    print_usage("variety_engine", &before, &after, n, now_s() - start, good);
    weir_engine_close(engine);
    return good;
}

/* ---- ad-hoc work ---- */

static bool evaluate(weir_device *device, int64_t rows, int64_t cols) {
    weir_graph *g;
    MUST(weir_graph_new(device, &g, err));
    weir_array *x = weir_broadcast(weir_arange(g, WEIR_DTYPE_F32, 0, (double)cols, 1), 2, (int64_t[]){rows, cols});
    weir_array *y = weir_sum(weir_add(x, weir_scalar_f32(g, 1)), 1, (int[]){1}, false);
    MUST(weir_eval(&y, 1, err));
    const float *sums = weir_array_data(y);
    float want = (float)(cols * (cols + 1) / 2);
    bool good = sums && sums[0] == want && sums[rows - 1] == want;
    weir_graph_free(g);
    if (!good) complain("the sums of [%lld, %lld] are wrong", (long long)rows, (long long)cols);
    return good;
}

static bool array_shapes(weir_device *device, long n) {
    bool good = true;
    for (long i = 0; i < n / 20 + 70; i++)
        good = evaluate(device, 1 + i % 10, 1001 + i) && good; /* the cache is full */
    usage before = measure(device);
    double start = now_s();
    for (long i = 0; i < n && good; i++) good = evaluate(device, 1 + i / 500, 1 + i % 500);
    usage after = measure(device);
    good = good && after.programs - before.programs >= (uint64_t)n && !grew(&before, &after);
    print_usage("variety_arrays", &before, &after, n, now_s() - start, good);
    return good;
}

int main(int argc, char **argv) {
    device_args args = read_args(argc, argv);
    long n = args.n ? args.n : args.quick ? 20 : 10000;
    weir_device *device = open_or_exit(args.device);
    bool good = engine_shapes(&args, device, n);
    good = array_shapes(device, args.quick && !args.n ? 200 : n) && good;
    weir_device_close(device);
    return good ? 0 : 1;
}
