/* What fails is a status: too little memory says how much there is and leaves a device that works; a kernel that writes
 * where it may not takes the GPUs of the process with it, all of them, since the driver has it so, but neither the CPU
 * nor the process; and over that driver every call of opening, evaluating, running an engine fails once, with nothing
 * left behind. */
#include "sweep.h"

#include <sys/wait.h>

#include "axpy.h"

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

static const char *other_card(const char *name) { return strcmp(name, "cuda:1") ? "cuda:1" : "cuda:0"; }

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
static void many_results(weir_device *device, const char *name) {
    size_t free_bytes, total;
    weir_error fault = {0};
    weir_status status = WEIR_OK;
    wr_buffer *buffers[64] = {0};
    MUST(device->backend->runtime->memory(device->context, &free_bytes, &total, err));
    for (int i = 0; i < 64 && status == WEIR_OK; i++) status = wr_buffer_new_on(device, total / 8, &buffers[i], &fault);
    expect_memory("an eighth until it is full", status, &fault);
    if ((status = work(device, &fault)) != WEIR_OK && status != WEIR_E_MEMORY)
        fail("work on a full device: %s", fault.message);
    weir_device *second;
    if (weir_device_open(other_card(name), 1, &second, &fault) == WEIR_OK) {
        status = work(second, &fault);
        if (status != WEIR_OK) fail("work on another card while this one is full: %s", fault.message);
        print_json("out_of_memory", "\"case\": \"another card goes on\", \"passed\": %s",
                   status == WEIR_OK ? "true" : "false");
        weir_device_close(second);
    }
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
    if (!is_emulated() || !args->quick) many_results(device, args->device);
    MUST(work(device, err));
    engine_too_large(args);
    MUST(work(device, err));
    MUST(run_program(device, err));
    weir_device_close(device);
}

/* ---- a lost device ---- */

enum { N_TOKENS = 6, OWN_CODE = 5 };
#define WILD "selftest_custom_wild" /* the emulated driver knows it by this name */
static const char wild[] =
    "extern \"C\" __global__ void " WILD "(const float *x, const float *y, float *out, double a, long long n) {\n"
    "    out[((long long)1 << 40) + threadIdx.x] = x[0] + y[0] + (float)a + (float)n;\n"
    "}\n";

static void expect(const char *what, bool is_right, const char *said) {
    char text[sizeof((weir_error *)0)->message + 1];
    snprintf(text, sizeof text, "%s", said ? said : "");
    for (char *p = text; *p; p++)
        if (*p == '"' || *p == '\\') *p = '\'';
    if (!is_right) fail("%s: \"%s\"", what, text);
    print_json("lost_device", "\"case\": \"%s\", \"message\": \"%s\", \"passed\": %s", what, text,
               is_right ? "true" : "false");
}

static void expect_lost(const char *what, weir_status status, const weir_error *err) {
    bool is_right = status == WEIR_E_DEVICE && strstr(err->message, "nothing more runs on any GPU");
    expect(what, is_right, status == WEIR_OK ? "it went well" : err->message);
}

static weir_engine_options small_engine(const char *device) {
    return (weir_engine_options){
        .device = device, .n_threads = 1, .max_context = 32, .max_batch = 2, .max_step_tokens = 4};
}

static weir_engine *open_engine(const device_args *args, const char *device) {
    weir_engine *engine;
    weir_engine_options o = small_engine(device);
    MUST(weir_engine_open(args->model, &o, &engine, err));
    return engine;
}

static weir_status open_sequence(weir_engine *engine, weir_seq **out, weir_error *err) {
    weir_seq_options o = {.tokens = (int32_t[]){1, 5, 7}, .n_tokens = 3, .max_tokens = N_TOKENS, .ignore_eos = true};
    return weir_seq_open(engine, &o, out, err);
}

static weir_status generate(weir_engine *engine, int32_t tokens[N_TOKENS], weir_error *err) {
    weir_seq *seq;
    WR_TRY(open_sequence(engine, &seq, err));
    weir_status status = WEIR_OK;
    int n_got = 0;
    for (bool ended = false; !ended && status == WEIR_OK;) {
        const weir_event *events;
        size_t n;
        status = weir_engine_step(engine, &events, &n, err);
        for (size_t i = 0; i < n && status == WEIR_OK; i++) {
            ended = ended || events[i].kind == WEIR_EVENT_FINISH;
            if (events[i].kind == WEIR_EVENT_TOKEN && n_got < N_TOKENS) tokens[n_got++] = events[i].token;
        }
    }
    weir_seq_close(seq);
    if (status == WEIR_OK && n_got != N_TOKENS) return WR_FAIL(err, WEIR_E_STATE, "%d tokens came", n_got);
    return status;
}

/* Another device, with an engine that has answered before. */
typedef struct bystander {
    const char *name;
    weir_device *device;
    weir_engine *engine;
    int32_t tokens[N_TOKENS];
} bystander;

static bystander bystander_open(const device_args *args, const char *name) {
    bystander s = {.name = name};
    MUST(weir_device_open(name, 1, &s.device, err));
    s.engine = open_engine(args, name);
    MUST(generate(s.engine, s.tokens, err));
    return s;
}

static void goes_on(const bystander *s, const char *when) {
    weir_error fault = {0};
    char what[100];
    int32_t tokens[N_TOKENS] = {0};
    weir_status status = work(s->device, &fault);
    snprintf(what, sizeof what, "%s goes on %s", s->name, when);
    expect(what, status == WEIR_OK, status ? fault.message : NULL);
    status = generate(s->engine, tokens, &fault);
    snprintf(what, sizeof what, "an engine on %s gives the same tokens %s", s->name, when);
    expect(what, status == WEIR_OK && !memcmp(tokens, s->tokens, sizeof tokens), status ? fault.message : NULL);
}

/* Another card: each call is a status. */
static void is_lost_too(const bystander *s, const char *when) {
    weir_error fault = {0};
    char what[100];
    int32_t tokens[N_TOKENS];
    snprintf(what, sizeof what, "evaluating on %s %s", s->name, when);
    expect_lost(what, work(s->device, &fault), &fault);
    snprintf(what, sizeof what, "a request of an engine on %s %s", s->name, when);
    expect_lost(what, generate(s->engine, tokens, &fault), &fault);
}

static void bystander_close(bystander *s) {
    weir_engine_close(s->engine);
    weir_device_close(s->device);
}

static weir_status run_wild(weir_device *device, weir_kernel *k, weir_error *err) {
    weir_graph *g;
    int64_t n = 64;
    double a = 1;
    WR_TRY(weir_graph_new(device, &g, err));
    weir_array *x = weir_arange(g, WEIR_DTYPE_F32, 0, 64, 1);
    weir_array *z = weir_custom(g, k, (weir_array *[]){x, x}, 2,
                                &(weir_kernel_call){.dtype = WEIR_DTYPE_F32,
                                                    .n_dims = 1,
                                                    .shape = &n,
                                                    .blocks = {1},
                                                    .threads = {64},
                                                    .scalars = {{&a, sizeof a}, {&n, sizeof n}},
                                                    .n_scalars = 2});
    weir_status status = weir_eval(&z, 1, err);
    weir_graph_free(g);
    return status;
}

/* Every way to use it: a program and a kernel made before, an engine with a sequence under way, anything new. */
static void use_lost(const device_args *args, weir_device *device, wr_program *program, weir_engine *engine) {
    weir_error fault = {0};
    weir_kernel *k;
    weir_device *again;
    weir_engine *other;
    const weir_event *events;
    int32_t tokens[N_TOKENS];
    size_t n;
    weir_engine_options o = small_engine(args->device);
    expect_lost("evaluating on it", work(device, &fault), &fault);
    expect_lost("a program made before", wr_program_run(program, &fault), &fault);
    expect_lost("weir_clear_cache", weir_clear_cache(device, &n, &fault), &fault);
    expect_lost("a new kernel", weir_kernel_new(device, AXPY, axpy, NULL, &k, &fault), &fault);
    expect_lost("opening it again", weir_device_open(args->device, 1, &again, &fault), &fault);
    expect_lost("a step of an engine", weir_engine_step(engine, &events, &n, &fault), &fault);
    expect_lost("and its next step", weir_engine_step(engine, &events, &n, &fault), &fault);
    expect_lost("another request of this engine", generate(engine, tokens, &fault), &fault);
    expect_lost("another engine", weir_engine_open(args->model, &o, &other, &fault), &fault);
}

static int lose_device(const device_args *args) {
    const char *second = other_card(args->device);
    weir_error fault = {0};
    weir_device_info info;
    weir_kernel *k;
    wr_program *program;
    weir_seq *seq;
    weir_device *device = open_or_exit(args->device);
    weir_engine *engine = open_engine(args, args->device);
    bystander cpu = bystander_open(args, "cpu"), card = {.name = second};
    bool has_second = weir_device_describe(second, &info, &fault) == WEIR_OK && !*info.problem;
    if (has_second)
        card = bystander_open(args, second);
    else
        print_json("lost_device", "\"case\": \"another card\", \"skipped\": \"there is no second card\"");
    setenv("WEIR_KERNEL_CACHE", "", 1);
    MUST(weir_kernel_new(device, WILD, wild, NULL, &k, err));
    MUST(chain_new(device, 8, 2, &program, err));
    MUST(wr_program_run(program, err));
    MUST(open_sequence(engine, &seq, err));
    const weir_event *events;
    size_t n;
    for (int i = 0; i < 2; i++) MUST(weir_engine_step(engine, &events, &n, err)); /* a step is under way now */

    expect_lost("a kernel that writes outside its arrays", run_wild(device, k, &fault), &fault);
    use_lost(args, device, program, engine);
    goes_on(&cpu, "beside it");
    if (has_second) is_lost_too(&card, "beside it");
    weir_seq_close(seq);
    weir_engine_close(engine);
    wr_program_free(program);
    weir_kernel_free(k);
    weir_device_close(device);
    goes_on(&cpu, "after its closing");
    if (has_second) {
        is_lost_too(&card, "after its closing");
        bystander_close(&card);
        expect_lost("opening the other card", weir_device_open(second, 1, &card.device, &fault), &fault);
    }
    bystander_close(&cpu);
    return good ? OWN_CODE : 1;
}

/* In a process of its own, whose exit code must be what it chose. Before this one has touched the driver, which does
 * not survive a fork. 77: there is no card. */
static int in_process(const device_args *args) {
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        if (is_emulated()) setenv("WR_EMULATE_DEVICES", "2", 1);
        use_fake_compiler();
        exit(lose_device(args));
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void lost_device(const device_args *args) {
    int code = in_process(args);
    if (code == 77) exit(77);
    char text[80];
    snprintf(text, sizeof text, "%s %d", code < 0 ? "signal" : "exit code", abs(code));
    expect("the process ends with its own code", code == OWN_CODE, text);
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
    lost_device(&args);
    out_of_memory(&args);
    if (is_emulated()) {
        good = sweep("device", use_device, &args, 0, NULL) && good;
        good = sweep("engine", use_engine, &args, 200, NULL) && good; /* its calls repeat themselves */
    }
    return good ? 0 : 1;
}
