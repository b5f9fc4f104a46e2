/* Owns waiting for the device. Blocking in the driver costs 150-200 us of latency and spinning a whole core (measured
 * on an H200), so the thread sleeps for most of the time that the work should take, learned from its recent runs, and
 * polls for the rest. There is no completion thread. */
#include <time.h>

#include "base/clock.h"
#include "cuda/context.h"

enum {
    WAKE_EARLY_NS = 70000, /* a sleep may last 50-60 us longer than asked: the kernel's timer slack */
    EARLY_SHARE = 40,      /* and the work a little shorter than the last: 1/40 of the time earlier still */
    /* A core that sleeps for long loses its caches, and the next launch is later for it: many naps, not one sleep. At
     * 5 ms of work (H200) a thread that sleeps once is later than one that spins by 5.0 to 5.2 us, whether it wakes
     * 1/12 of the time early, which takes 9 % of a core, or 1/20; with naps of 500 us by 2.0 (5.1 %), of 250 us by 2.7
     * (5.7 %), of 100 us by 0.9 (7.9 %). */
    NAP_NS = 100000,
    MOST_NAPS = 50, /* of one sleep; what takes longer may be later */
    MAX_POLL_SLEEP_NS = 1000000
};

static void sleep_until(uint64_t ns) {
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}
static void nap_until(uint64_t end) {
    uint64_t now = wr_now_ns(), nap = end > now ? (end - now) / MOST_NAPS : 0;
    if (nap < NAP_NS) nap = NAP_NS;
    for (; now < end; now = wr_now_ns()) sleep_until(end - now > nap ? now + nap : end);
}

/* Work is given: a graph whose duration may be known, or something else (NULL). */
void wr_cuda_expect(wr_cuda_context *c, wr_cuda_graph *graph) {
    uint64_t now = wr_now_ns();
    pthread_mutex_lock(&c->wait_lock);
    wr_cuda_mark *m = &c->now;
    m->graph = m->n_launched++ ? NULL : graph;
    if (m->n_launched == 1) m->launched_ns = now;
    if (m->expected_ns < now) m->expected_ns = now;
    if (graph) m->expected_ns += graph->typical_ns;
    pthread_mutex_unlock(&c->wait_lock);
}

void wr_cuda_forget(wr_cuda_context *c, const wr_cuda_graph *graph) {
    pthread_mutex_lock(&c->wait_lock);
    if (c->now.graph == graph) c->now.graph = NULL;
    for (int i = 0; i <= WR_RUNTIME_MARKS; i++)
        if (c->marks[i].graph == graph) c->marks[i].graph = NULL;
    pthread_mutex_unlock(&c->wait_lock);
}

/* The typical time follows what was seen. One who slept too long cannot see the true time: then it comes down. */
static void learn(wr_cuda_context *c, const wr_cuda_mark *waited, int which, bool overslept) {
    uint64_t now = wr_now_ns();
    pthread_mutex_lock(&c->wait_lock);
    uint64_t start = waited->launched_ns > c->done_ns ? waited->launched_ns : c->done_ns;
    wr_cuda_graph *g = c->marks[which].graph == waited->graph ? waited->graph : NULL; /* not freed meanwhile */
    c->done_ns = now;
    if (g && now > start) {
        if (overslept)
            g->typical_ns -= g->typical_ns / 16;
        else
            g->typical_ns = g->typical_ns ? (3 * g->typical_ns + (now - start)) / 4 : now - start;
    }
    pthread_mutex_unlock(&c->wait_lock);
}

/* Without the lock: others may launch meanwhile. m is a copy. */
static CUresult poll(wr_cuda_context *c, const wr_cuda_mark *m, int which) {
    uint64_t now = wr_now_ns(), start = now;
    uint64_t early = WAKE_EARLY_NS + (m->expected_ns > now ? (m->expected_ns - now) / EARLY_SHARE : 0);
    bool sleeps = m->expected_ns > now + early, at_once = true;
    CUresult result = c->driver->cuEventQuery(m->event);
    if (result == CUDA_ERROR_NOT_READY && sleeps) nap_until(m->expected_ns - early);
    if (result != CUDA_ERROR_NOT_READY) sleeps = true; /* it was over before anyone looked */
    while (result == CUDA_ERROR_NOT_READY && (result = c->driver->cuEventQuery(m->event)) == CUDA_ERROR_NOT_READY) {
        at_once = false;
        now = wr_now_ns();
        uint64_t late = now > m->expected_ns ? now - m->expected_ns : 0;
        if (late > 2 * WAKE_EARLY_NS && late > (now - start) / 4) { /* no good prediction: poll ever more rarely */
            uint64_t pause = (now - start) / 16;
            sleep_until(now + (pause < MAX_POLL_SLEEP_NS ? pause : MAX_POLL_SLEEP_NS));
        }
    }
    learn(c, m, which, sleeps && at_once);
    return result;
}

/* With the lock held. */
static CUresult set(wr_cuda_context *c, int which) {
    wr_cuda_mark *m = &c->marks[which];
    CUevent event = m->event;
    *m = c->now;
    m->event = event;
    c->now.n_launched = 0;
    c->now.graph = NULL;
    return c->driver->cuEventRecord(event, c->stream);
}

static weir_status failed(const wr_cuda_context *c, CUresult result, int line, weir_error *err) {
    return wr_driver_fail(c->driver, result, "waiting for the device", __FILE__, line, err);
}

weir_status wr_cuda_mark_set(void *context, int which, weir_error *err) {
    wr_cuda_context *c = context;
    WR_TRY(wr_cuda_enter(c, err));
    pthread_mutex_lock(&c->wait_lock);
    CUresult result = set(c, which);
    pthread_mutex_unlock(&c->wait_lock);
    wr_cuda_leave(c);
    return result == CUDA_SUCCESS ? WEIR_OK : failed(c, result, __LINE__, err);
}

weir_status wr_cuda_mark_wait(void *context, int which, weir_error *err) {
    wr_cuda_context *c = context;
    WR_TRY(wr_cuda_enter(c, err));
    pthread_mutex_lock(&c->wait_lock);
    wr_cuda_mark mark = c->marks[which];
    pthread_mutex_unlock(&c->wait_lock);
    CUresult result = poll(c, &mark, which);
    wr_cuda_leave(c);
    return result == CUDA_SUCCESS ? WEIR_OK : failed(c, result, __LINE__, err);
}

/* Several threads may wait at once, each for what was given before it came: the event of one may be recorded anew by
 * another before it was reached, which only makes the first wait for a little more. */
weir_status wr_cuda_wait(void *context, weir_error *err) {
    wr_cuda_context *c = context;
    WR_TRY(wr_cuda_enter(c, err));
    pthread_mutex_lock(&c->wait_lock);
    CUresult result = set(c, WR_RUNTIME_MARKS);
    wr_cuda_mark mark = c->marks[WR_RUNTIME_MARKS];
    pthread_mutex_unlock(&c->wait_lock);
    if (result == CUDA_SUCCESS) result = poll(c, &mark, WR_RUNTIME_MARKS);
    wr_cuda_leave(c);
    return result == CUDA_SUCCESS ? WEIR_OK : failed(c, result, __LINE__, err);
}

CUresult wr_cuda_poll_event(wr_cuda_context *c, CUevent event) {
    enum { SPIN_NS = 50000 };
    uint64_t start = wr_now_ns(), now;
    CUresult result;
    while ((result = c->driver->cuEventQuery(event)) == CUDA_ERROR_NOT_READY) {
        now = wr_now_ns();
        if (now - start < SPIN_NS) continue;
        uint64_t pause = (now - start) / 16;
        sleep_until(now + (pause < MAX_POLL_SLEEP_NS ? pause : MAX_POLL_SLEEP_NS));
    }
    return result;
}
