/* Owns waiting for the device. Blocking in the driver costs 150-200 us of latency and spinning a whole core (measured
 * on an H200), so the thread sleeps for most of the time that the work should take, learned from its recent runs, and
 * polls for the rest. There is no completion thread. */
#include <time.h>

#include "cuda/context.h"

enum {
    WAKE_EARLY_NS = 70000, /* a sleep may last 50-60 us longer than asked: the kernel's timer slack */
    MAX_POLL_SLEEP_NS = 1000000
};

uint64_t wr_cuda_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void sleep_until(uint64_t ns) {
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

/* Work begins: a graph whose duration may be known, or something else (NULL). */
void wr_cuda_expect(wr_cuda_context *c, wr_cuda_graph *graph) {
    uint64_t now = wr_cuda_now_ns();
    pthread_mutex_lock(&c->wait_lock);
    bool idle = !c->launched_ns;
    c->last_graph = idle ? graph : NULL;
    if (idle) c->launched_ns = c->expected_ns = now;
    if (graph) c->expected_ns += graph->typical_ns;
    pthread_mutex_unlock(&c->wait_lock);
}

/* The typical time follows what was seen. One who slept too long cannot see the true time: then it comes down. */
static void learn(wr_cuda_context *c, uint64_t now, bool overslept) {
    wr_cuda_graph *g = c->last_graph;
    if (!g) return;
    uint64_t seen = now - c->launched_ns;
    if (overslept)
        g->typical_ns -= g->typical_ns / 16;
    else
        g->typical_ns = g->typical_ns ? (3 * g->typical_ns + seen) / 4 : seen;
}

static CUresult poll(wr_cuda_context *c) {
    uint64_t now = wr_cuda_now_ns(), start = now;
    bool slept = c->expected_ns > now + WAKE_EARLY_NS;
    CUresult result = c->driver->cuEventQuery(c->event);
    if (result != CUDA_ERROR_NOT_READY) { /* it was over before */
        learn(c, now, true);
        return result;
    }
    if (slept) sleep_until(c->expected_ns - WAKE_EARLY_NS);
    bool first = true;
    while ((result = c->driver->cuEventQuery(c->event)) == CUDA_ERROR_NOT_READY) {
        first = false;
        now = wr_cuda_now_ns();
        uint64_t late = now > c->expected_ns ? now - c->expected_ns : 0;
        if (late > 2 * WAKE_EARLY_NS && late > (now - start) / 4) { /* no good prediction: poll ever more rarely */
            uint64_t pause = (now - start) / 16;
            sleep_until(now + (pause < MAX_POLL_SLEEP_NS ? pause : MAX_POLL_SLEEP_NS));
        }
    }
    learn(c, wr_cuda_now_ns(), slept && first);
    return result;
}

weir_status wr_cuda_wait(void *context, weir_error *err) {
    wr_cuda_context *c = context;
    WR_TRY(wr_cuda_enter(c, err));
    pthread_mutex_lock(&c->wait_lock);
    CUresult result = c->driver->cuEventRecord(c->event, c->stream);
    if (result == CUDA_SUCCESS) result = poll(c);
    c->launched_ns = c->expected_ns = 0;
    c->last_graph = NULL;
    pthread_mutex_unlock(&c->wait_lock);
    wr_cuda_leave(c);
    if (result != CUDA_SUCCESS)
        return wr_driver_fail(c->driver, result, "waiting for the device", __FILE__, __LINE__, err);
    return WEIR_OK;
}
