/* GATHER_LINEAR of many rows: brings rows of x with the same expert together, for the decode tiers and others to work
 * on as jobs (linear.h). One block: counts ids, adds the counts up, gives each row its place. The order of rows inside
 * an expert is not fixed, and no bit depends on it.
 *
 * Bytes: ids twice, 4 a row and 16 a job written. Operations: two shared atomics a row. A few microseconds; it pays
 * when it saves reading experts more than once. Measured: docs/kernels.md. */
#include "cuda/kernels/linear.cuh"

/* The sum of x over lanes below this one; *total: over all. */
WR_DEVICE int scan_warp(int x, int lane, int *total) {
    int sum = x;
    for (int d = 1; d < 32; d *= 2) {
        const int other = __shfl_up_sync(0xFFFFFFFFu, sum, d);
        if (lane >= d) sum += other;
    }
    *total = __shfl_sync(0xFFFFFFFFu, sum, 31);
    return sum - x;
}

/* Dynamic shared memory: experts + 1 counts. The last one is of ids out of range. */
WR_KERNEL(wr_linear_sort, wr_linear_sort_params, WR_SORT_THREADS, 1) {
    WR_DYNAMIC_SHARED(shared);
    int *counts = (int *)shared;
    wr_linear_job *list = (wr_linear_job *)(p.jobs + 1);
    i32 *order = (i32 *)(list + p.max_jobs);
    const int bins = p.experts + 1, lane = threadIdx.x % 32;
    wr_grid_launch();
    wr_grid_wait();
    for (int e = threadIdx.x; e < bins; e += WR_SORT_THREADS) counts[e] = 0;
    __syncthreads();
    for (i64 i = threadIdx.x; i < p.rows; i += WR_SORT_THREADS) {
        const u32 id = (u32)p.ids[i];
        atomicAdd(&counts[id < (u32)p.experts ? (int)id : p.experts], 1);
    }
    __syncthreads();
    if (threadIdx.x < 32) { /* counts become first places; jobs are written on the way */
        int rows = 0, jobs = 0;
        for (int base = 0; base < bins; base += 32) {
            const int e = base + lane, count = e < bins ? counts[e] : 0;
            int n_rows, n_jobs;
            const int first = rows + scan_warp(count, lane, &n_rows);
            int job = jobs + scan_warp((count + p.most - 1) / p.most, lane, &n_jobs);
            for (int done = 0; done < count; done += p.most, job++) {
                list[job].expert = e < p.experts ? e : -1;
                list[job].first = first + done;
                list[job].count = min(count - done, p.most);
            }
            if (e < bins) counts[e] = first;
            rows += n_rows;
            jobs += n_jobs;
        }
        if (lane == 0) p.jobs->n = jobs;
    }
    __syncthreads();
    for (i64 i = threadIdx.x; i < p.rows; i += WR_SORT_THREADS) {
        const u32 id = (u32)p.ids[i];
        order[atomicAdd(&counts[id < (u32)p.experts ? (int)id : p.experts], 1)] = (i32)i;
    }
}
