/* Streams and events of the array API: right results whichever stream computes what and however early arrays die,
 * the CPU by the same calls, threads with a stream each, and every driver call failing once. */
#include "sweep.h"

#include <pthread.h>

static bool good = true;

static void expect(const char *what, const char *device, bool is_right) {
    if (!is_right) good = false;
    print_json("streams", "\"case\": \"%s\", \"device\": \"%s\", \"passed\": %s", what, device,
               is_right ? "true" : "false");
}

/* sum over i of ((i + start) * 2 + 1), through intermediate arrays. */
static weir_array *build(weir_array *x) {
    weir_graph *g = x->graph;
    weir_array *y = weir_add(weir_mul(x, weir_scalar_f32(g, 2)), weir_scalar_f32(g, 1));
    return weir_cumsum(y, 0, false, false);
}

static bool is_result(const weir_array *y, int64_t start, int64_t n, int64_t skip) {
    const float *data = weir_array_data(y);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += 2 * (double)(start + i) + 1;
        if (!data || (i >= skip && data[i - skip] != (float)sum)) return false;
    }
    return true;
}

static weir_graph *graph_on(weir_device *device) {
    weir_graph *g;
    MUST(weir_graph_new(device, &g, err));
    return g;
}

static weir_array *numbers(weir_graph *g, int64_t start, int64_t n) {
    return weir_arange(g, WEIR_DTYPE_F32, (double)start, (double)(start + n), 1);
}

/* ---- one thread ---- */

static void data_waits(weir_device *device, const char *name) {
    weir_stream *s;
    MUST(weir_stream_open(device, &s, err));
    bool is_right = true;
    for (int64_t n = 1; n < 3000 && is_right; n = 3 * n + 1) {
        weir_graph *g = graph_on(device);
        weir_array *y = build(numbers(g, 5, n));
        MUST(weir_eval_async(&y, 1, s, err));
        is_right = is_result(y, 5, n, 0);
        weir_graph_free(g);
    }
    expect("data of an array on its way waits for it", name, is_right);
    weir_graph *g = graph_on(device);
    weir_array *y = build(numbers(g, 5, 100)), *z = build(numbers(g, 6, 100));
    MUST(weir_eval_async((weir_array *[]){y, z}, 2, s, err));
    weir_stream_close(s);
    expect("arrays outlive the stream that computed them", name, is_result(y, 5, 100, 0) && is_result(z, 6, 100, 0));
    weir_graph_free(g);
}

/* From stream to stream, to weir_eval and back, without an event. */
static void chain(weir_device *device, const char *name) {
    enum { N = 500, STREAMS = 3, ROUNDS = 12 };
    weir_stream *s[STREAMS];
    for (int i = 0; i < STREAMS; i++) MUST(weir_stream_open(device, &s[i], err));
    weir_graph *before = graph_on(device);
    weir_array *x = numbers(before, 0, N);
    MUST(weir_eval_async(&x, 1, s[0], err));
    for (int round = 1; round <= ROUNDS; round++) {
        weir_graph *g = graph_on(device);
        weir_array *y = weir_add(weir_array_keep(g, x), weir_scalar_f32(g, 1));
        weir_array *waste = weir_cumsum(weir_exp(y), 0, false, false); /* work that nobody waits for */
        weir_array *both[2] = {y, waste};
        if (round % (STREAMS + 1) == STREAMS)
            MUST(weir_eval(both, 2, err));
        else
            MUST(weir_eval_async(both, 2, s[round % (STREAMS + 1)], err));
        weir_graph_free(before); /* what the round before made may be in use still */
        before = g;
        x = y;
    }
    const float *data = weir_array_data(x);
    bool is_right = data != NULL;
    for (int i = 0; i < N && is_right; i++) is_right = data[i] == (float)(i + ROUNDS);
    weir_graph_free(before);
    for (int i = 0; i < STREAMS; i++) weir_stream_close(s[i]);
    expect("arrays go from stream to stream", name, is_right);
}

static void early_deaths(weir_device *device, const char *name) {
    weir_stream *s[2];
    bool is_right = true;
    for (int i = 0; i < 2; i++) MUST(weir_stream_open(device, &s[i], err));
    for (int i = 0; i < 60 && is_right; i++) {
        weir_graph *g = graph_on(device), *kept = graph_on(device);
        weir_array *x = numbers(g, i, 200 + 37 * (i % 7)), *y = build(x);
        MUST(weir_eval_async((weir_array *[]){x, y}, 2, s[i % 2], err));
        weir_array *view = weir_array_keep(kept, y);
        int64_t skip = 100, stop = INT64_MAX, step = 1;
        weir_array *tail = weir_slice(view, &skip, &stop, &step);
        MUST(weir_eval_async(&tail, 1, s[(i + i / 2) % 2], err));
        weir_graph_free(g); /* at once */
        is_right = is_result(tail, i, 200 + 37 * (i % 7), skip);
        weir_graph_free(kept);
        if (i % 16 == 7) MUST(weir_clear_cache(device, NULL, err));
    }
    for (int i = 0; i < 2; i++) MUST(weir_stream_wait(s[i], err));
    for (int i = 0; i < 2; i++) weir_stream_close(s[i]);
    expect("memory is used again only when nothing given can touch it", name, is_right);
}

/* A program reads what a stream computes. */
static void program_reads(weir_device *device, const char *name) {
    weir_stream *s;
    wr_program *program;
    MUST(weir_stream_open(device, &s, err));
    weir_graph *g = graph_on(device), *p = graph_on(device);
    weir_array *x = numbers(g, 3, 300);
    MUST(weir_eval_async(&x, 1, s, err));
    weir_array *y = build(weir_array_keep(p, x));
    MUST(wr_program_new(&y, 1, NULL, &program, err));
    weir_graph_free(g);
    MUST(wr_program_run(program, err));
    float last;
    const wr_tensor *out = wr_program_output(program, 0);
    MUST(wr_device_download(device, &last, (const float *)out->data + 299, sizeof last, err));
    wr_program_free(program);
    weir_graph_free(p);
    weir_stream_close(s);
    expect("a program reads what a stream computes", name, last == 300.0f * 6 + 300 * 299 + 300);
}

static void events(weir_device *device, const char *name) {
    weir_stream *a, *b;
    weir_event *e;
    MUST(weir_stream_open(device, &a, err));
    MUST(weir_stream_open(device, &b, err));
    MUST(weir_event_open(device, &e, err));
    MUST(weir_event_wait(e, b, err)); /* reached: it was not recorded */
    weir_graph *g = graph_on(device);
    weir_array *x = build(numbers(g, 1, 1000)), *y = build(numbers(g, 2, 1000));
    MUST(weir_eval_async(&x, 1, a, err));
    MUST(weir_event_record(e, a, err));
    MUST(weir_event_wait(e, b, err));
    MUST(weir_eval_async(&y, 1, b, err));
    MUST(weir_event_record(e, b, err));
    MUST(weir_event_wait(e, NULL, err));
    MUST(weir_stream_wait(a, err));
    bool is_right = is_result(x, 1, 1000, 0) && is_result(y, 2, 1000, 0);
    weir_graph_free(g);
    weir_event_close(e);
    weir_stream_close(a);
    weir_stream_close(b);
    weir_error fault = {0};
    is_right = is_right && weir_stream_wait(NULL, &fault) == WEIR_E_ARGUMENT &&
               weir_event_record(NULL, NULL, &fault) == WEIR_E_ARGUMENT &&
               weir_eval_async(&x, 0, NULL, &fault) == WEIR_E_ARGUMENT;
    expect("events order streams and the caller", name, is_right);
}

static void other_device(weir_device *device, const char *name) {
    weir_device *other;
    weir_stream *s;
    weir_error fault = {0};
    MUST(weir_device_open("cpu", 1, &other, err));
    MUST(weir_stream_open(other, &s, err));
    weir_graph *g = graph_on(device);
    weir_array *x = numbers(g, 1, 10);
    expect("a stream of another device is refused", name, weir_eval_async(&x, 1, s, &fault) == WEIR_E_ARGUMENT);
    weir_graph_free(g);
    weir_stream_close(s);
    weir_device_close(other);
}

/* ---- several threads ---- */

static void *one_thread(void *context) {
    weir_device *device = context;
    weir_stream *s;
    MUST(weir_stream_open(device, &s, err));
    void *result = NULL;
    for (int i = 0; i < 40; i++) {
        weir_graph *g = graph_on(device);
        weir_array *x = build(numbers(g, i, 300 + i));
        MUST(weir_eval_async(&x, 1, s, err));
        if (i % 8 == 3) {
            MUST(weir_clear_cache(device, NULL, err));
            weir_array *z = weir_add(x, weir_scalar_f32(g, 0));
            MUST(weir_eval(&z, 1, err));
            if (!is_result(z, i, 300 + i, 0)) result = (void *)"wrong";
        }
        if (i % 3 && !is_result(x, i, 300 + i, 0)) result = (void *)"wrong";
        weir_graph_free(g);
    }
    weir_stream_close(s);
    return result;
}

static void threads(weir_device *device, const char *name, int n) {
    pthread_t t[16];
    bool is_right = true;
    for (int i = 0; i < n; i++)
        if (pthread_create(&t[i], NULL, one_thread, device)) exit(1);
    for (int i = 0; i < n; i++) {
        void *result;
        pthread_join(t[i], &result);
        is_right = is_right && !result;
    }
    expect("threads with a stream each", name, is_right);
}

/* ---- every call fails once ---- */

/* Memory that cannot be cleared is asked for again; where memory cannot be freed in order, the streams are waited for.
 */
static const char *const done_without[] = {"cuMemsetD8Async", "cuEventRecord", "cuStreamWaitEvent", NULL};

static weir_status use_streams(const device_args *args, weir_error *err) {
    weir_device *device;
    weir_stream *s = NULL;
    weir_event *e = NULL;
    weir_graph *g = NULL;
    WR_TRY(weir_device_open(args->device, 1, &device, err));
    weir_status status = weir_stream_open(device, &s, err);
    if (status == WEIR_OK) status = weir_event_open(device, &e, err);
    if (status == WEIR_OK) status = weir_graph_new(device, &g, err);
    if (status == WEIR_OK) {
        weir_array *x = build(numbers(g, 1, 50)), *y = build(x);
        status = weir_eval_async(&x, 1, s, err);
        if (status == WEIR_OK) status = weir_event_record(e, s, err);
        if (status == WEIR_OK) status = weir_event_wait(e, NULL, err);
        if (status == WEIR_OK) status = weir_eval(&y, 1, err);
        if (status == WEIR_OK) status = weir_stream_wait(s, err);
        if (status == WEIR_OK && !is_result(x, 1, 50, 0))
            status = WR_FAIL(err, WEIR_E_DEVICE, "the result was not copied");
    }
    weir_graph_free(g);
    weir_event_close(e);
    weir_stream_close(s);
    weir_device_close(device);
    return status;
}

/* ---- what it gives ---- */

/* n chains of small matrix products, each in a stream of its own, against one after the other. */
static double time_chains(weir_device *device, weir_stream **streams, int n_streams, int n) {
    enum { SIZE = 256, PRODUCTS = 40 };
    weir_graph *g = graph_on(device);
    weir_array *y[8];
    static float data[SIZE * SIZE];
    for (int i = 0; i < SIZE; i++) data[i * SIZE + (i + 1) % SIZE] = 1;
    for (int i = 0; i < n; i++) {
        weir_array *m = matrix(g, SIZE, SIZE, data);
        y[i] = m;
        for (int k = 0; k < PRODUCTS; k++) y[i] = weir_matmul(y[i], m);
    }
    double start = now_s();
    for (int i = 0; i < n; i++) MUST(weir_eval_async(&y[i], 1, streams[i % n_streams], err));
    double given = now_s();
    for (int i = 0; i < n_streams; i++) MUST(weir_stream_wait(streams[i], err));
    double end = now_s();
    weir_graph_free(g);
    print_json("streams_time", "\"streams\": %d, \"chains\": %d, \"given_ms\": %.3f, \"done_ms\": %.3f", n_streams, n,
               (given - start) * 1e3, (end - start) * 1e3);
    return end - start;
}

static void times(weir_device *device) {
    weir_stream *s[4];
    for (int i = 0; i < 4; i++) MUST(weir_stream_open(device, &s[i], err));
    for (int round = 0; round < 3; round++) {
        time_chains(device, s, 1, 4);
        time_chains(device, s, 4, 4);
    }
    for (int i = 0; i < 4; i++) weir_stream_close(s[i]);
}

static void all(weir_device *device, const char *name, bool quick) {
    data_waits(device, name);
    chain(device, name);
    early_deaths(device, name);
    program_reads(device, name);
    events(device, name);
    threads(device, name, quick ? 4 : 16);
}

int main(int argc, char **argv) {
    device_args args = read_args(argc, argv);
    weir_device *device = open_or_exit(args.device), *cpu;
    MUST(weir_device_open("cpu", 2, &cpu, err));
    all(cpu, "cpu", args.quick);
    weir_device_close(cpu);
    all(device, args.device, args.quick);
    other_device(device, args.device);
    if (!is_emulated()) times(device);
    weir_device_close(device);
    if (is_emulated()) good = sweep("streams", use_streams, &args, 0, done_without) && good;
    return good ? 0 : 1;
}
