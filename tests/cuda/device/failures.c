/* What fails is a status: too little memory says how much there is and leaves a device that works; and over the
 * emulated driver every call of opening, evaluating, running an engine fails once, with nothing left behind. */
#include "sweep.h"

static bool good = true;

__attribute__((format(printf, 1, 2))) static void fail(const char *format, ...) {
    va_list list;
    good = false;
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
}

/* Something small, with its right result. */
static weir_status work(weir_device *device, weir_error *err) {
    weir_graph *g;
    WR_TRY(weir_graph_new(device, &g, err));
    weir_array *x = matrix(g, 2, 2, (float[]){1, 2, 3, 4}), *y = weir_matmul(x, x);
    weir_status status = weir_eval(&y, 1, err);
    if (status == WEIR_OK) {
        const float *data = weir_array_data(y);
        if (!data)
            status = WR_FAIL(err, WEIR_E_DEVICE, "the result was not copied");
        else if (data[0] != 7 || data[1] != 10 || data[2] != 15 || data[3] != 22)
            fail("a product is wrong");
    }
    weir_graph_free(g);
    return status;
}

static weir_status run_program(weir_device *device, weir_error *err) {
    wr_program *program;
    WR_TRY(chain_new(device, 8, 2, &program, err));
    weir_status status = wr_program_run(program, err);
    wr_program_free(program);
    return status;
}

/* ---- too little memory ---- */

static bool has_digit(const char *text) { return strpbrk(text, "0123456789") != NULL; }

static void expect_memory(const char *what, weir_status status, const weir_error *err) {
    bool right = status == WEIR_E_MEMORY && has_digit(err->message) && strstr(err->message, "free");
    if (!right) fail("%s: status %d, \"%s\"", what, (int)status, status ? err->message : "");
    char shown[sizeof err->message];
    snprintf(shown, sizeof shown, "%s", status ? err->message : "");
    for (char *p = shown; *p; p++)
        if (*p == '"' || *p == '\\') *p = '\'';
    print_json("out_of_memory", "\"case\": \"%s\", \"message\": \"%s\", \"passed\": %s", what, shown,
               right ? "true" : "false");
}

static void one_large_result(weir_device *device) {
    weir_graph *g;
    weir_error fault = {0};
    MUST(weir_graph_new(device, &g, err));
    weir_array *x = weir_full(g, WEIR_DTYPE_F32, 1, (int64_t[]){(int64_t)1 << 40}, 1);
    weir_status status = weir_eval(&x, 1, &fault);
    expect_memory("4 TiB at once", status, &fault);
    weir_graph_free(g);
}

/* An eighth of what there is, until there is no more. */
static void many_results(weir_device *device) {
    size_t free_bytes, total;
    weir_error fault = {0};
    weir_status status = WEIR_OK;
    wr_buffer *buffers[64] = {0};
    MUST(device->backend->runtime->memory(device->context, &free_bytes, &total, err));
    for (int i = 0; i < 64 && status == WEIR_OK; i++) status = wr_buffer_new_on(device, total / 8, &buffers[i], &fault);
    expect_memory("an eighth until it is full", status, &fault);
    if ((status = work(device, &fault)) != WEIR_OK && status != WEIR_E_MEMORY)
        fail("work on a full device: %s", fault.message);
    for (int i = 0; i < 64; i++) wr_buffer_release(buffers[i]);
}

/* A card too small for any model; only the emulated one can become so. */
static void engine_too_large(const device_args *args) {
    weir_engine *engine;
    weir_error err = {0};
    weir_engine_options o = {.device = args->device, .n_threads = 1, .max_context = 64, .max_step_tokens = 8};
    void (*set_memory)(size_t);
    *(void **)&set_memory = driver_function("wr_emulate_memory");
    if (!set_memory) return;
    set_memory(64 << 10);
    weir_status status = weir_engine_open(args->model, &o, &engine, &err);
    expect_memory("a model on a card of 64 KiB", status, &err);
    if (status == WEIR_OK) weir_engine_close(engine);
    set_memory((size_t)4 << 30);
}

static void out_of_memory(const device_args *args) {
    weir_device *device = open_or_exit(args->device);
    one_large_result(device);
    MUST(work(device, err));
    if (!is_emulated() || !args->quick) many_results(device);
    MUST(work(device, err));
    engine_too_large(args);
    MUST(work(device, err));
    MUST(run_program(device, err));
    weir_device_close(device);
}

/* ---- every call fails once ---- */

static weir_status use_device(const device_args *args, weir_error *err) {
    weir_device *device;
    WR_TRY(weir_device_open(args->device, 1, &device, err));
    weir_status status = work(device, err);
    if (status == WEIR_OK) status = run_program(device, err);
    size_t freed;
    if (status == WEIR_OK) status = device->backend->runtime->trim(device->context, &freed, err);
    weir_device_close(device);
    return status;
}

static weir_status step(weir_engine *engine, weir_error *err) {
    weir_seq *seq;
    weir_status status = WEIR_OK;
    weir_seq_options o = {.tokens = (int32_t[]){1, 5, 7}, .n_tokens = 3, .max_tokens = 2, .ignore_eos = true};
    WR_TRY(weir_seq_open(engine, &o, &seq, err));
    for (bool ended = false; !ended && status == WEIR_OK;) {
        const weir_event *events;
        size_t n;
        status = weir_engine_step(engine, &events, &n, err);
        for (size_t i = 0; i < n && status == WEIR_OK; i++) ended = ended || events[i].kind == WEIR_EVENT_FINISH;
    }
    weir_seq_close(seq);
    return status;
}

static weir_status use_engine(const device_args *args, weir_error *err) {
    weir_engine *engine;
    weir_engine_options o = {
        .device = args->device, .n_threads = 1, .max_context = 32, .max_batch = 1, .max_step_tokens = 2};
    WR_TRY(weir_engine_open(args->model, &o, &engine, err));
    weir_status status = step(engine, err);
    weir_engine_close(engine);
    return status;
}

int main(int argc, char **argv) {
    device_args args = read_args(argc, argv);
    out_of_memory(&args);
    if (is_emulated()) {
        good = sweep("device", use_device, &args, 0, NULL) && good;
        good = sweep("engine", use_engine, &args, 200, NULL) && good; /* its calls repeat themselves */
    }
    return good ? 0 : 1;
}
