/* What waiting for the device costs: how much later than a thread that spins on an event one knows that work is done,
 * and processor time, of weir's way (the expected time slept, the rest polled), of an event that blocks in the driver,
 * and of a host callback with a condition variable; all four in the same run, in turn. Work of 5 ms takes the device
 * now 10 us more and now 10 less, which is none of the thread's doing: the time between two events around the work, by
 * the device's clock, is taken off each run. And: what is open and idle uses no processor.
 * --n: only work of so many microseconds. */
#include <pthread.h>

#include "cuda/context.h"
#include "device.h"

enum { SPIN, WEIR, BLOCK, CALLBACK, N_WAYS };
static const char *const way_names[] = {"spin", "weir", "block", "callback"};
enum { MAX_SAMPLES = 4000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool called;

static void call_back(void *context) {
    (void)context;
    pthread_mutex_lock(&lock);
    called = true;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&lock);
}

static void check(CUresult result, const char *what) {
    if (result == CUDA_SUCCESS) return;
    complain("%s: CUresult %d", what, (int)result);
    exit(1);
}

typedef struct bench {
    weir_device *device;
    wr_cuda_context *c;
    wr_program *program;
    CUevent spinning, blocking, begun, ended; /* the last two have times */
    CUresult (*elapsed)(float *ms, CUevent from, CUevent to);
} bench;

/* Microseconds of one run: by the thread's clock, and by the device's. */
typedef struct run_time {
    double wall, device;
} run_time;

/* Started by the driver itself, not by weir, whose bookkeeping must see only the runs that it waits for. */
static void start_plain(const bench *b) {
    check(b->c->driver->cuGraphLaunch(((wr_cuda_graph *)b->program->graph)->exec, b->c->stream), "launching");
}

static void wait_plain(const bench *b, int way) {
    const wr_driver *d = b->c->driver;
    if (way == SPIN) {
        check(d->cuEventRecord(b->spinning, b->c->stream), "recording");
        CUresult result;
        while ((result = d->cuEventQuery(b->spinning)) == CUDA_ERROR_NOT_READY) {}
        check(result, "querying");
    } else if (way == BLOCK) {
        check(d->cuEventRecord(b->blocking, b->c->stream), "recording");
        check(d->cuEventSynchronize(b->blocking), "synchronising");
    } else {
        called = false;
        check(d->cuLaunchHostFunc(b->c->stream, call_back, NULL), "calling back");
        pthread_mutex_lock(&lock);
        while (!called) pthread_cond_wait(&changed, &lock);
        pthread_mutex_unlock(&lock);
    }
}

/* One launch and its wait. */
static run_time sample(bench *b, int way) {
    const wr_driver *d = b->c->driver;
    CUcontext old;
    check(d->cuCtxPushCurrent(b->c->context), "entering");
    double start = now_s();
    check(d->cuEventRecord(b->begun, b->c->stream), "recording");
    if (way == WEIR)
        MUST(wr_program_start(b->program, err));
    else
        start_plain(b);
    check(d->cuEventRecord(b->ended, b->c->stream), "recording");
    if (way == WEIR)
        MUST(wr_device_wait(b->device, err));
    else
        wait_plain(b, way);
    run_time t = {.wall = 1e6 * (now_s() - start)};
    float ms = 0;
    check(b->elapsed(&ms, b->begun, b->ended), "asking for the time between events");
    t.device = 1e3 * ms;
    d->cuCtxPopCurrent(&old);
    return t;
}

static double spun(bench *b, int n) {
    double times[64];
    for (int i = 0; i < 5; i++) sample(b, SPIN);
    for (int i = 0; i < n; i++) times[i] = sample(b, SPIN).wall;
    return median(times, (size_t)n);
}

/* A program of about that long: a chain of products, as many as it takes. 0: the shortest there is. */
static wr_program *calibrated(bench *b, double us, int64_t size) {
    int n = 1;
    for (int i = 0; i < 3; i++) {
        MUST(chain_new(b->device, size, n, &b->program, err));
        double short_us = spun(b, 31);
        if (us <= 0) break;
        wr_program *one = b->program;
        MUST(chain_new(b->device, size, n + 8, &b->program, err));
        double each = (spun(b, 31) - short_us) / 8;
        double more = (us - short_us) / (each > 0.2 ? each : 0.2);
        wr_program_free(b->program);
        b->program = one;
        int next = n + (int)lround(more);
        if (next < 1) next = 1;
        if (next > 4000) next = 4000;
        if (next == n) break;
        n = next;
        wr_program_free(b->program);
        b->program = NULL;
    }
    if (!b->program) MUST(chain_new(b->device, size, n, &b->program, err));
    return b->program;
}

/* Rounds of every way in turn, each round from another one on. */
static bool measure(bench *b, double us, int rounds, int per_round, bool must_hold) {
    static double walls[N_WAYS][MAX_SAMPLES], devices[N_WAYS][MAX_SAMPLES], lates[N_WAYS][MAX_SAMPLES];
    double cpu[N_WAYS] = {0}, wall[N_WAYS] = {0}, late[N_WAYS];
    int n = 0;
    for (int i = 0; i < (rounds > 2 ? 40 : 2); i++) sample(b, WEIR); /* it learns how long a run takes */
    for (int r = 0; r < rounds; r++, n += per_round)
        for (int k = 0; k < N_WAYS; k++) {
            int way = (r + k) % N_WAYS;
            double before = cpu_s(), start = now_s();
            for (int i = 0; i < per_round; i++) {
                run_time t = sample(b, way);
                walls[way][n + i] = t.wall, devices[way][n + i] = t.device, lates[way][n + i] = t.wall - t.device;
            }
            cpu[way] += cpu_s() - before;
            wall[way] += now_s() - start;
        }
    bool good = true;
    for (int way = 0; way < N_WAYS; way++) late[way] = median(lates[way], (size_t)n);
    for (int way = 0; way < N_WAYS; way++) {
        double extra = late[way] - late[SPIN], share = cpu[way] / wall[way];
        bool holds = way != WEIR || !must_hold || (extra <= 5 && (us < 5000 || share <= 0.10));
        good = good && holds;
        print_json("waiting",
                   "\"work_us\": %.0f, \"way\": \"%s\", \"wall_us\": %.2f, \"device_us\": %.2f, \"late_us\": %.2f, "
                   "\"p10_us\": %.2f, \"p90_us\": %.2f, \"extra_us\": %.2f, \"cpu_share\": %.4f, \"n\": %d, "
                   "\"passed\": %s",
                   us, way_names[way], median(walls[way], (size_t)n), median(devices[way], (size_t)n), late[way],
                   lates[way][n / 10], lates[way][n - 1 - n / 10], extra, share, n, holds ? "true" : "false");
    }
    return good;
}

static bool idle_uses_nothing(const device_args *args, weir_device *device, bool must_hold) {
    weir_engine *engine;
    weir_engine_options o = {
        .device = args->device, .n_threads = 1, .max_context = 64, .max_batch = 2, .max_step_tokens = 8};
    MUST(weir_engine_open(args->model, &o, &engine, err));
    MUST(wr_device_wait(device, err));
    double seconds = args->quick ? 0.2 : 2, before = cpu_s();
    struct timespec t = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
    nanosleep(&t, NULL);
    double used = cpu_s() - before;
    bool good = !must_hold || used < 0.005;
    print_json("idle", "\"seconds\": %.1f, \"cpu_ms\": %.3f, \"passed\": %s", seconds, 1e3 * used,
               good ? "true" : "false");
    weir_engine_close(engine);
    return good;
}

int main(int argc, char **argv) {
    device_args args = read_args(argc, argv);
    bench b = {.device = open_or_exit(args.device)};
    b.c = b.device->context;
    bool card = !is_emulated(), good = true;
    CUcontext old;
    check(b.c->driver->cuCtxPushCurrent(b.c->context), "entering");
    check(b.c->driver->cuEventCreate(&b.spinning, CU_EVENT_DISABLE_TIMING), "making an event");
    check(b.c->driver->cuEventCreate(&b.blocking, CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING), "making an event");
    check(b.c->driver->cuEventCreate(&b.begun, CU_EVENT_DEFAULT), "making an event");
    check(b.c->driver->cuEventCreate(&b.ended, CU_EVENT_DEFAULT), "making an event");
    b.c->driver->cuCtxPopCurrent(&old);
    *(void **)&b.elapsed = driver_function("cuEventElapsedTime");
    if (!b.elapsed) return complain("the driver has no cuEventElapsedTime"), 1;
    static const double work_us[] = {0, 20, 200, 5000};
    for (size_t i = 0; i < sizeof work_us / sizeof *work_us; i++) {
        double us = work_us[i];
        if (args.n && (double)args.n != us) continue;
        calibrated(&b, card ? us : 0, card && us >= 5000 ? 1024 : card && us >= 200 ? 256 : 64);
        int per_round = args.quick ? 1 : us >= 5000 ? 10 : 50, rounds = args.quick ? 2 : us >= 5000 ? 20 : 40;
        if (!measure(&b, us, rounds, per_round, card)) good = false;
        wr_program_free(b.program);
        b.program = NULL;
    }
    if (!idle_uses_nothing(&args, b.device, card)) good = false;
    check(b.c->driver->cuCtxPushCurrent(b.c->context), "entering");
    CUevent events[] = {b.spinning, b.blocking, b.begun, b.ended};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++) b.c->driver->cuEventDestroy(events[i]);
    b.c->driver->cuCtxPopCurrent(&old);
    weir_device_close(b.device);
    return good ? 0 : 1;
}
