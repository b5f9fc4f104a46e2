/* Thread pool: one job at a time, run by all threads together, with barriers
 * inside the job. The caller is thread 0. Workers wait by a short spin and then
 * sleep, so an idle pool uses no CPU. */
#ifndef WR_BASE_POOL_H
#define WR_BASE_POOL_H

#include "base/status.h"

typedef struct wr_pool wr_pool;
typedef void (*wr_pool_job)(void *context, int thread, int n_threads);

/* Cores this process may use; at least 1. */
int wr_pool_cores(void);
/* n_threads counts the caller; 0 = one per core this process may use. */
weir_status wr_pool_open(int n_threads, wr_pool **out, weir_error *err);
void wr_pool_close(wr_pool *pool);
int wr_pool_threads(const wr_pool *pool);
/* Run job on every thread; returns when all are done. One caller at a time
 * (a second one waits its turn). No heap use. */
void wr_pool_run(wr_pool *pool, wr_pool_job job, void *context);
/* Inside a job: wait until every thread has come here. */
void wr_pool_barrier(wr_pool *pool, int thread);

#endif
