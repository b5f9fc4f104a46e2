/* EMBEDDING: y[i, :] = row ids[i] of the weight; an id out of range gives NaN. DEQUANTIZE: the whole weight. In f32, as
 * published, rounded once to y's dtype; packed and published weights alike.
 *
 * A thread has one number at a time, and fetches its code and its group's scale by itself: L1 serves what lies
 * together. Bytes: rows of codes and scales, and y. Operations: 2 a number, and some twenty to find its code. Both ops
 * are small (a step's tokens) or rare. Measured: docs/kernels.md. */
#include "cuda/kernels/linear_scalar.cuh"

enum { EMBEDDING_THREADS = 256 };

WR_KERNEL(wr_embedding_rows, wr_linear_params, EMBEDDING_THREADS, 1) {
    wr_grid_launch();
    wr_grid_wait();
    const i64 count = p.m * p.k;
    const bool narrow = count >> 32 == 0;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (i64)gridDim.x * blockDim.x) {
        const i64 t = narrow ? (i64)((u32)i / (u32)p.k) : i / p.k, id = p.ids[t];
        const bool known = id >= 0 && id < p.n;
        wr_linear_put(p.y, p.y_type, i, known ? weight_f32(p, 0, id, i - t * p.k) : wr_bits_f32(0x7FC00000u));
    }
}

/* m: experts times rows. */
WR_KERNEL(wr_dequantize, wr_linear_params, EMBEDDING_THREADS, 1) {
    wr_grid_launch();
    wr_grid_wait();
    const i64 count = p.m * p.k;
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (i64)gridDim.x * blockDim.x) {
        const i64 row = i / p.k;
        wr_linear_put(p.y, p.y_type, i, weight_f32(p, row / p.n, row % p.n, i % p.k));
    }
}
