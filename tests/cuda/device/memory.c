/* The memory plan on a device: an engine takes what `weir inspect` says, and a plan that does not fit is refused with
 * numbers before anything is loaded. */
#include "device.h"

#include "engine/plan.h"

static bool good = true;

/* A context's own share grows a little with what is done in it; the emulated driver counts requests alone. */
static size_t slack(void) { return is_emulated() ? 64 << 10 : (size_t)256 << 20; }

static size_t free_now(weir_device *device) {
    size_t free_bytes, total;
    MUST(device->backend->runtime->memory(device->context, &free_bytes, &total, err));
    return free_bytes;
}

static wr_memory planned(const device_args *args, const weir_engine_options *o) {
    wr_plan plan;
    wr_memory memory;
    MUST(wr_plan_init(&plan, args->model, o, err));
    MUST(wr_plan_measure(&plan, &memory, err));
    wr_plan_deinit(&plan);
    return memory;
}

static void takes_what_was_planned(const device_args *args, weir_device *device) {
    weir_engine *engine;
    weir_engine_options o = {.device = args->device, .n_threads = 1, .max_context = 512, .max_step_tokens = 64};
    size_t before = free_now(device);
    wr_memory memory = planned(args, &o);
    size_t needed = wr_memory_needed(&memory), between = free_now(device);
    MUST(weir_engine_open(args->model, &o, &engine, err));
    size_t taken = between > free_now(device) ? between - free_now(device) : 0;
    bool right = taken >= needed && taken - needed <= slack() && between + slack() >= before;
    print_json("memory_planned", "\"needed\": %zu, \"taken\": %zu, \"passed\": %s", needed, taken,
               right ? "true" : "false");
    if (!right) complain("an engine takes %zu bytes where %zu are planned", taken, needed);
    good = good && right;
    weir_engine_close(engine);
}

static void count_progress(void *context, double done) {
    (void)done;
    ++*(int *)context;
}

/* Keys and values for more than the device has. */
static void refuses_what_does_not_fit(const device_args *args, weir_device *device) {
    weir_engine *engine;
    weir_error err = {0};
    int n_loaded = 0;
    weir_engine_options o = {.device = args->device,
                             .n_threads = 1,
                             .max_context = 2048,
                             .max_batch = 1024,
                             .max_step_tokens = 1024,
                             .progress = count_progress,
                             .progress_context = &n_loaded};
    void (*set_memory)(size_t);
    *(void **)&set_memory = driver_function("wr_emulate_memory");
    if (set_memory) set_memory((size_t)64 << 20);
    size_t before = free_now(device);
    wr_memory memory = planned(args, &o);
    bool fits = wr_memory_needed(&memory) <= memory.free;
    if (fits) { /* a large card and a small model */
        o.kv_dtype = WEIR_DTYPE_F32;
        o.kv_bytes = memory.total;
        memory = planned(args, &o);
        fits = wr_memory_needed(&memory) <= memory.free;
    }
    weir_status status = fits ? WEIR_OK : weir_engine_open(args->model, &o, &engine, &err);
    bool right = fits || (status == WEIR_E_MEMORY && strstr(err.message, "does not fit") &&
                          strstr(err.message, "are free") && n_loaded == 0 && before <= free_now(device) + slack());
    print_json("memory_refused", "\"possible\": %s, \"needed\": %zu, \"free\": %zu, \"passed\": %s",
               fits ? "false" : "true", wr_memory_needed(&memory), memory.free, right ? "true" : "false");
    if (!right) complain("status %d, %d matrices loaded: %s", (int)status, n_loaded, err.message);
    if (status == WEIR_OK && !fits) weir_engine_close(engine);
    if (set_memory) set_memory((size_t)4 << 30);
    good = good && right;
}

int main(int argc, char **argv) {
    device_args args = read_args(argc, argv);
    weir_device *device = open_or_exit(args.device);
    takes_what_was_planned(&args, device);
    refuses_what_does_not_fit(&args, device);
    weir_device_close(device);
    return good ? 0 : 1;
}
