/* Thread pool. A decode step of a small model holds hundreds of barriers a few
 * tens of microseconds apart, so a sleeping wait (5-50 us to wake) is far too
 * dear there, while a spinning wait starves the others when there are more
 * threads than cores. Hence each thread spins for a limit that it learns: a
 * wait that ended within MAX_SPIN_NS raises the limit, a longer one lowers it,
 * and behind the limit it sleeps on a futex. */
#include "base/pool.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"

enum {
    MAX_THREADS = 1024,
    CACHE_LINE = 128,     /* two lines: the prefetcher of x86 fetches pairs */
    PAUSES_PER_CHECK = 32 /* pauses between looks at the clock, about 0.5-1 us */
};
#define MIN_SPIN_NS 2000u
#define MAX_SPIN_NS 60000u

/* A 32-bit word that threads wait upon, with the number of sleepers beside it,
 * so that a wake without sleepers needs no system call. */
typedef struct wait_word {
    _Alignas(CACHE_LINE) _Atomic uint32_t value;
    _Atomic uint32_t sleepers;
} wait_word;

typedef struct thread_slot {
    _Alignas(CACHE_LINE) wr_pool *pool;
    pthread_t handle;
    int index;
    uint32_t spin_ns; /* learned limit; written by its own thread only */
} thread_slot;

struct wr_pool {
    pthread_mutex_t caller; /* held by whoever runs a job */
    int n_threads;
    bool crowded; /* more threads than cores: hardly spin */
    bool stop;    /* written before epoch moves on */
    wr_pool_job job;
    void *context;
    size_t bytes;      /* of this whole block */
    wait_word epoch;   /* moves on when a job is posted */
    wait_word running; /* workers not yet done with the job */
    wait_word phase;   /* moves on when a barrier opens */
    _Alignas(CACHE_LINE) _Atomic uint32_t arrived;
    thread_slot slots[];
};

static inline void cpu_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

static void futex_wait(_Atomic uint32_t *word, uint32_t expected) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake_all(_Atomic uint32_t *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Wait while word == old. */
static void wait_change(wait_word *word, uint32_t old, thread_slot *slot) {
    /* The first looks need no clock: a barrier between running threads opens
     * within a few hundred nanoseconds. */
    for (int i = 0; i < PAUSES_PER_CHECK; i++) {
        if (atomic_load_explicit(&word->value, memory_order_acquire) != old) return;
        cpu_pause();
    }
    uint64_t start = wr_now_ns(), waited = 0;
    bool crowded = slot->pool->crowded;
    uint32_t limit = crowded ? 0 : slot->spin_ns;
    while (waited < limit) {
        for (int i = 0; i < PAUSES_PER_CHECK; i++) {
            if (atomic_load_explicit(&word->value, memory_order_acquire) != old) goto changed;
            cpu_pause();
        }
        waited = wr_now_ns() - start;
    }
    /* The sleeper is counted before the kernel compares the word, and the waker
     * moves the word before it reads the count: one of the two sees the other. */
    atomic_fetch_add_explicit(&word->sleepers, 1, memory_order_seq_cst);
    while (atomic_load_explicit(&word->value, memory_order_seq_cst) == old) futex_wait(&word->value, old);
    atomic_fetch_sub_explicit(&word->sleepers, 1, memory_order_relaxed);
    waited = wr_now_ns() - start;
changed:
    if (crowded) return;
    if (waited <= MAX_SPIN_NS) {
        slot->spin_ns = slot->spin_ns < MAX_SPIN_NS / 2 ? slot->spin_ns * 2 : MAX_SPIN_NS;
    } else {
        slot->spin_ns = slot->spin_ns / 2 > MIN_SPIN_NS ? slot->spin_ns / 2 : MIN_SPIN_NS;
    }
}

static void wake(wait_word *word) {
    if (atomic_load_explicit(&word->sleepers, memory_order_seq_cst)) futex_wake_all(&word->value);
}

void wr_pool_barrier(wr_pool *pool, int thread) {
    if (pool->n_threads == 1) return;
    /* The phase cannot move before this thread has arrived. */
    uint32_t phase = atomic_load_explicit(&pool->phase.value, memory_order_relaxed);
    uint32_t arrived = atomic_fetch_add_explicit(&pool->arrived, 1, memory_order_acq_rel) + 1;
    if (arrived == (uint32_t)pool->n_threads) {
        atomic_store_explicit(&pool->arrived, 0, memory_order_relaxed);
        atomic_fetch_add_explicit(&pool->phase.value, 1, memory_order_seq_cst);
        wake(&pool->phase);
    } else {
        wait_change(&pool->phase, phase, &pool->slots[thread]);
    }
}

static void *worker_main(void *argument) {
    thread_slot *slot = argument;
    wr_pool *pool = slot->pool;
    uint32_t epoch = 0;
    for (;;) {
        wait_change(&pool->epoch, epoch, slot);
        epoch++;
        if (pool->stop) return NULL;
        pool->job(pool->context, slot->index, pool->n_threads);
        if (atomic_fetch_sub_explicit(&pool->running.value, 1, memory_order_seq_cst) == 1) wake(&pool->running);
    }
}

void wr_pool_run(wr_pool *pool, wr_pool_job job, void *context) {
    pthread_mutex_lock(&pool->caller);
    if (pool->n_threads > 1) {
        pool->job = job;
        pool->context = context;
        atomic_store_explicit(&pool->running.value, (uint32_t)pool->n_threads - 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&pool->epoch.value, 1, memory_order_seq_cst);
        wake(&pool->epoch);
    }
    job(context, 0, pool->n_threads);
    if (pool->n_threads > 1) {
        uint32_t left;
        while ((left = atomic_load_explicit(&pool->running.value, memory_order_acquire)) != 0)
            wait_change(&pool->running, left, &pool->slots[0]);
    }
    pthread_mutex_unlock(&pool->caller);
}

int wr_pool_threads(const wr_pool *pool) { return pool->n_threads; }

int wr_pool_cores(void) {
    cpu_set_t sets[8]; /* 8,192 cores */
    memset(sets, 0, sizeof sets);
    if (sched_getaffinity(0, sizeof sets, sets) != 0) return 1;
    int n = CPU_COUNT_S(sizeof sets, sets);
    return n < 1 ? 1 : n;
}

/* Stop and join the workers 1 .. n_started - 1. */
static void stop_workers(wr_pool *pool, int n_started) {
    pool->stop = true;
    atomic_fetch_add_explicit(&pool->epoch.value, 1, memory_order_seq_cst);
    wake(&pool->epoch);
    for (int i = 1; i < n_started; i++) pthread_join(pool->slots[i].handle, NULL);
}

static void free_pool(wr_pool *pool) {
    pthread_mutex_destroy(&pool->caller);
    wr_pages_free(pool, pool->bytes);
}

weir_status wr_pool_open(int n_threads, wr_pool **out, weir_error *err) {
    *out = NULL;
    int cores = wr_pool_cores();
    if (n_threads == 0) n_threads = cores < MAX_THREADS ? cores : MAX_THREADS;
    if (n_threads < 1 || n_threads > MAX_THREADS)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "%d threads asked for; give 1 to %d, or 0 for one per core", n_threads,
                       MAX_THREADS);
    /* Pages, because the slots want their own cache lines. */
    size_t bytes = sizeof(wr_pool) + (size_t)n_threads * sizeof(thread_slot);
    wr_pool *pool = wr_pages_alloc(bytes);
    if (!pool) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a pool of %d threads", n_threads);
    pthread_mutex_init(&pool->caller, NULL);
    pool->bytes = bytes;
    pool->n_threads = n_threads;
    pool->crowded = n_threads > cores;
    for (int i = 0; i < n_threads; i++)
        pool->slots[i] = (thread_slot){.pool = pool, .index = i, .spin_ns = MAX_SPIN_NS};
    /* Signals belong to the program's own threads. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int n_started = 1, code = 0;
    while (n_started < n_threads && code == 0) {
        code = wr_fault_hit(WR_FAULT_MEMORY)
                   ? EAGAIN
                   : pthread_create(&pool->slots[n_started].handle, NULL, worker_main, &pool->slots[n_started]);
        if (code == 0) n_started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code != 0) {
        stop_workers(pool, n_started);
        free_pool(pool);
        return WR_FAIL(err, WEIR_E_MEMORY, "thread %d of %d could not be started (error %d); ask for fewer threads",
                       n_started, n_threads, code);
    }
    *out = pool;
    return WEIR_OK;
}

void wr_pool_close(wr_pool *pool) {
    if (!pool) return;
    stop_workers(pool, pool->n_threads);
    free_pool(pool);
}
