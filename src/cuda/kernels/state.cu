/* STORE: bytes into a state buffer, as they are.
 *
 * Bytes: each read and written once; all threads have a load in flight at once. Operations: none. Measured:
 * docs/kernels.md. */
#include "cuda/kernels/device.cuh"
#include "cuda/kernels/state.h"

WR_KERNEL(wr_store_bytes, wr_store_params, WR_STORE_THREADS, 1) {
    wr_grid_launch();
    wr_grid_wait();
    u8 *to = (u8 *)p.to;
    const u8 *from = (const u8 *)p.from;
    i64 first = (i64)blockIdx.x * WR_STORE_THREADS + threadIdx.x, step = (i64)gridDim.x * WR_STORE_THREADS;
    bool wide = (((u64)to | (u64)from) & 15) == 0;
    i64 n_wide = wide ? p.bytes / 16 : 0;
    for (i64 i = first; i < n_wide; i += step) ((uint4 *)to)[i] = ((const uint4 *)from)[i];
    for (i64 i = n_wide * 16 + first; i < p.bytes; i += step) to[i] = from[i];
}
