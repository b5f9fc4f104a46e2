/* Over the emulated driver, one call after another fails once: each failure must come out as a status, and nothing may
 * be left behind. */
#ifndef WR_TESTS_CUDA_SWEEP_H
#define WR_TESTS_CUDA_SWEEP_H

#include "device.h"

/* Opens what it needs, works, checks its results, closes everything. */
typedef weir_status (*sweep_run)(const device_args *args, weir_error *err);

/* Calls whose fault leaves nothing to report: they give something back, only tell how much memory there is, or ask for
 * memory and are tried again once what lies free in the pool went back. */
static inline bool may_pass(const char *call, const char *const *more) {
    static const char *const words[] = {"Free", "Destroy", "Alloc",   "Release", "Unload", "TrimTo",
                                        "Pop",  "Push",    "GetInfo", "Upload",  "Query",  "cuStreamSynchronize",
                                        NULL};
    for (const char *const *word = words; *word; word++)
        if (strstr(call, *word)) return true;
    for (; more && *more; more++)
        if (strstr(call, *more)) return true;
    return false;
}

static inline bool leaves_nothing(const char *what, long n, const char *call, const wr_emulate_live *before,
                                  const wr_emulate_live *after) {
    /* Making a context current fails only when it is gone, and what was in it with it. */
    if (memcmp(after, before, sizeof *after) == 0 || strstr(call, "Push")) return true;
    complain(
        "%s, call %ld, %s: left behind %zd bytes on the device, %zd pinned, %d allocations, %d graphs, %d execs, %d "
        "contexts, %d modules, %d streams, %d pools, %d events",
        what, n, call, after->device_bytes - before->device_bytes, after->host_bytes - before->host_bytes,
        after->allocations - before->allocations, after->graphs - before->graphs, after->execs - before->execs,
        after->contexts - before->contexts, after->modules - before->modules, after->streams - before->streams,
        after->pools - before->pools, after->events - before->events);
    return false;
}

static inline bool is_told(const char *what, long n, const char *call, const char *const *more, weir_status status,
                           const weir_error *err) {
    bool right = status == WEIR_OK ? may_pass(call, more)
                                   : status == WEIR_E_MEMORY || status == WEIR_E_DEVICE || status == WEIR_E_UNSUPPORTED;
    if (!right && status == WEIR_OK) complain("%s, call %ld: the failure of %s was not reported", what, n, call);
    if (!right && status != WEIR_OK)
        complain("%s, call %ld, %s: status %d, %s", what, n, call, (int)status, err->message);
    return right;
}

/* Every call of the first `dense` (0: of all) fails, with --quick ever fewer of those behind. more: parts of the names
 * of further calls, up to NULL, that this run does without; may be NULL. Prints a line; false when something was
 * wrong. */
static inline bool sweep(const char *what, sweep_run run, const device_args *args, long dense,
                         const char *const *more) {
    void (*fail_nth)(long);
    const char *(*failed)(void);
    wr_emulate_live (*live_now)(void);
    *(void **)&fail_nth = driver_function("wr_emulate_fail_nth");
    *(void **)&failed = driver_function("wr_emulate_failed");
    *(void **)&live_now = driver_function("wr_emulate_live_now");
    long reported = 0, quiet = 0, last = 0, stride = 1;
    bool right = true;
    wr_emulate_live before = live_now();
    for (long n = 1;; n += stride) {
        weir_error err = {0};
        fail_nth(n);
        weir_status status = run(args, &err);
        const char *call = failed();
        fail_nth(0);
        if (!call) {
            if (status != WEIR_OK) complain("%s, no failure asked for: %s", what, err.message), right = false;
            break;
        }
        last = n;
        *(status == WEIR_OK ? &quiet : &reported) += 1;
        wr_emulate_live after = live_now();
        if (!is_told(what, n, call, more, status, &err)) right = false;
        if (!leaves_nothing(what, n, call, &before, &after)) right = false;
        before = after;
        if (args->quick && dense && n >= dense) stride = 1 + n * 5 / dense;
    }
    print_json("failure_sweep",
               "\"what\": \"%s\", \"calls\": %ld, \"reported\": %ld, \"harmless\": %ld, \"passed\": %s", what, last,
               reported, quiet, right ? "true" : "false");
    return right;
}

#endif
