/* Thread pool: jobs, barriers, waiting callers, sleep, failures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/mem.h"
#include "base/pool.h"

enum { MAX_TEST_THREADS = 8 };

static wr_pool *open_pool(int n_threads) {
    wr_pool *pool;
    weir_error err;
    assert_int_equal(wr_pool_open(n_threads, &pool, &err), WEIR_OK);
    return pool;
}

typedef struct visit_job {
    int n_threads_seen[MAX_TEST_THREADS];
    int visits[MAX_TEST_THREADS];
} visit_job;

static void visit(void *context, int thread, int n_threads) {
    visit_job *job = context;
    job->n_threads_seen[thread] = n_threads;
    job->visits[thread]++;
}

static void every_thread_runs_each_job_once(void **state) {
    (void)state;
    for (int n = 1; n <= MAX_TEST_THREADS; n++) {
        wr_pool *pool = open_pool(n);
        assert_int_equal(wr_pool_threads(pool), n);
        visit_job job = {0};
        for (int round = 1; round <= 200; round++) {
            wr_pool_run(pool, visit, &job);
            for (int i = 0; i < MAX_TEST_THREADS; i++) {
                assert_int_equal(job.visits[i], i < n ? round : 0);
                assert_int_equal(job.n_threads_seen[i], i < n ? n : 0);
            }
        }
        wr_pool_close(pool);
    }
}

/* Each round every thread writes its own cell and reads the neighbour's, which
 * is right only if nobody passes a barrier too early. Plain variables, so the
 * thread sanitizer also sees whether a barrier orders memory. */
typedef struct barrier_job {
    wr_pool *pool;
    int rounds;
    struct cell {
        _Alignas(128) int value;
    } cells[2][MAX_TEST_THREADS];
    atomic_int wrong;
} barrier_job;

static void pass_barriers(void *context, int thread, int n_threads) {
    barrier_job *job = context;
    for (int round = 1; round <= job->rounds; round++) {
        struct cell *cells = job->cells[round & 1];
        cells[thread].value = round;
        wr_pool_barrier(job->pool, thread);
        if (cells[(thread + 1) % n_threads].value != round) atomic_fetch_add(&job->wrong, 1);
    }
}

static void run_barriers(int n_threads, int rounds) {
    wr_pool *pool = open_pool(n_threads);
    static barrier_job job;
    memset(&job, 0, sizeof job);
    job.pool = pool;
    job.rounds = rounds;
    uint64_t before = wr_alloc_count();
    wr_pool_run(pool, pass_barriers, &job);
    assert_int_equal(job.wrong, 0);
    assert_int_equal(job.cells[rounds & 1][n_threads - 1].value, rounds);
    assert_int_equal(wr_alloc_count(), before);
    wr_pool_close(pool);
}

static void barriers_hold_for_100000_rounds(void **state) {
    (void)state;
    run_barriers(2, 100000);
}

static void barriers_hold_with_more_threads_than_cores(void **state) {
    (void)state;
    run_barriers(3, 5000);
    run_barriers(MAX_TEST_THREADS, 2000);
}

static void a_barrier_of_one_thread_never_waits(void **state) {
    (void)state;
    run_barriers(1, 100000);
}

static void idle_by_turns(void *context, int thread, int n_threads) {
    wr_pool *pool = context;
    /* Long enough to send the other threads to sleep at the barrier. */
    for (int i = 0; i < 3 * n_threads; i++) {
        if (i % n_threads == thread) nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        wr_pool_barrier(pool, thread);
    }
}

static void sleepers_at_a_barrier_are_woken(void **state) {
    (void)state;
    wr_pool *pool = open_pool(4);
    for (int i = 0; i < 3; i++) wr_pool_run(pool, idle_by_turns, pool);
    wr_pool_close(pool);
}

static void sleeping_workers_are_woken_by_a_job(void **state) {
    (void)state;
    wr_pool *pool = open_pool(3);
    visit_job job = {0};
    for (int i = 1; i <= 20; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        wr_pool_run(pool, visit, &job);
        for (int t = 0; t < 3; t++) assert_int_equal(job.visits[t], i);
    }
    wr_pool_close(pool);
}

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void an_idle_pool_uses_no_cpu(void **state) {
    (void)state;
    wr_pool *pool = open_pool(2);
    visit_job job = {0};
    wr_pool_run(pool, visit, &job);
    double before = cpu_seconds();
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    /* A spinning worker would use 0.3 s; its last spin takes 60 us. */
    assert_true(cpu_seconds() - before < 0.03);
    wr_pool_close(pool);
}

typedef struct caller {
    wr_pool *pool;
    atomic_int *inside;
    atomic_int *collisions;
    int runs;
} caller;

static void alone(void *context, int thread, int n_threads) {
    caller *c = context;
    (void)n_threads;
    if (thread != 0) return;
    if (atomic_fetch_add(c->inside, 1) != 0) atomic_fetch_add(c->collisions, 1);
    sched_yield();
    atomic_fetch_sub(c->inside, 1);
    c->runs++;
}

static void *call_often(void *argument) {
    caller *c = argument;
    for (int i = 0; i < 500; i++) wr_pool_run(c->pool, alone, c);
    return NULL;
}

static void callers_take_turns(void **state) {
    (void)state;
    wr_pool *pool = open_pool(2);
    atomic_int inside = 0, collisions = 0;
    caller callers[3];
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        callers[i] = (caller){.pool = pool, .inside = &inside, .collisions = &collisions, .runs = 0};
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0);
    }
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 3; i++) assert_int_equal(callers[i].runs, 500);
    assert_int_equal(collisions, 0);
    wr_pool_close(pool);
}

static void note_signals(void *context, int thread, int n_threads) {
    (void)n_threads;
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    ((bool *)context)[thread] = sigismember(&blocked, SIGINT) == 1;
}

static void workers_leave_signals_to_the_program(void **state) {
    (void)state;
    wr_pool *pool = open_pool(2);
    bool blocked[2] = {true, false};
    wr_pool_run(pool, note_signals, blocked);
    assert_false(blocked[0]);
    assert_true(blocked[1]);
    wr_pool_close(pool);
}

static void zero_threads_means_one_per_usable_core(void **state) {
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    wr_pool *pool = open_pool(0);
    assert_int_equal(wr_pool_threads(pool), CPU_COUNT(&before));
    wr_pool_close(pool);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++) {
        if (CPU_ISSET(i, &before)) CPU_SET(i, &one);
    }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    pool = open_pool(0);
    assert_int_equal(wr_pool_threads(pool), 1);
    wr_pool_close(pool);
    /* Two threads on one core: neither may starve the other. */
    run_barriers(2, 2000);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

static void absurd_thread_counts_are_refused(void **state) {
    (void)state;
    const int counts[] = {-1, -100, 1025, 1 << 30};
    for (int i = 0; i < 4; i++) {
        wr_pool *pool = (wr_pool *)&counts;
        weir_error err;
        assert_int_equal(wr_pool_open(counts[i], &pool, &err), WEIR_E_ARGUMENT);
        assert_null(pool);
        assert_non_null(strstr(err.message, "1 to 1024"));
    }
    wr_pool_close(NULL);
}

static void a_pool_that_cannot_start_leaves_nothing_behind(void **state) {
    (void)state;
    int failures = 0;
    for (uint64_t nth = 1; nth < 20; nth++) {
        wr_pool *pool;
        weir_error err;
        wr_fault_arm(WR_FAULT_MEMORY, nth);
        weir_status status = wr_pool_open(4, &pool, &err);
        wr_fault_arm(WR_FAULT_MEMORY, 0);
        if (status == WEIR_OK) {
            visit_job job = {0};
            wr_pool_run(pool, visit, &job);
            assert_int_equal(job.visits[3], 1);
            wr_pool_close(pool);
            break;
        }
        assert_int_equal(status, WEIR_E_MEMORY);
        assert_null(pool);
        failures++;
    }
    assert_int_equal(failures, 4); /* the block, and three threads */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_thread_runs_each_job_once),
        cmocka_unit_test(barriers_hold_for_100000_rounds),
        cmocka_unit_test(barriers_hold_with_more_threads_than_cores),
        cmocka_unit_test(a_barrier_of_one_thread_never_waits),
        cmocka_unit_test(sleepers_at_a_barrier_are_woken),
        cmocka_unit_test(sleeping_workers_are_woken_by_a_job),
        cmocka_unit_test(an_idle_pool_uses_no_cpu),
        cmocka_unit_test(callers_take_turns),
        cmocka_unit_test(workers_leave_signals_to_the_program),
        cmocka_unit_test(zero_threads_means_one_per_usable_core),
        cmocka_unit_test(absurd_thread_counts_are_refused),
        cmocka_unit_test(a_pool_that_cannot_start_leaves_nothing_behind),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
