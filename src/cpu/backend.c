/* The CPU backend: which kernels each op has. Rows of the fast families come
 * first, the reference last; see cpu/rows.h for how a family registers. */
#include <pthread.h>
#include <string.h>

#include "cpu/isa.h"
#include "cpu/linear.h"
#include "cpu/ref/ref.h"
#include "cpu/rows.h"

/* One line an op that has fast kernels. */
static const wr_kernel_row *const fast_rows[WR_OP_COUNT] = {
    [WR_OP_LINEAR] = wr_cpu_linear_rows,
    [WR_OP_GATHER_LINEAR] = wr_cpu_gather_linear_rows,
    [WR_OP_EMBEDDING] = wr_cpu_embedding_rows,
    [WR_OP_DATA] = NULL,
};

const wr_cpu_packing wr_cpu_packing_used = {
    .packed_bytes = wr_cpu_packed_bytes,
    .pack = wr_cpu_pack,
    .unpack_row = wr_cpu_unpack_row,
};

static wr_kernel_row joined[WR_OP_COUNT][WR_CPU_ROWS_MAX + 2];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void join(void) {
    for (int op = 0; op < WR_OP_COUNT; op++) {
        int n = 0;
        for (const wr_kernel_row *row = fast_rows[op]; row && row->run; row++) {
            wr_assert(n < WR_CPU_ROWS_MAX);
            joined[op][n++] = *row;
        }
        wr_kernel run = wr_cpu_ref((wr_op_id)op);
        if (run) joined[op][n] = (wr_kernel_row){.name = "ref", .run = run, .scratch_bytes = wr_cpu_ref_scratch};
    }
}

static const wr_kernel_row *kernels(wr_op_id op) {
    if ((unsigned)op >= WR_OP_COUNT || !joined[op][0].run) return NULL;
    return joined[op];
}

static size_t packed_bytes(const wr_linear_args *args) { return wr_cpu_packing_used.packed_bytes(args); }

static void pack(const wr_linear_args *args, const void *data, const void *scales, const void *biases, void *packed,
                 int thread, int n_threads) {
    wr_cpu_packing_used.pack(args, data, scales, biases, packed, thread, n_threads);
}

const wr_backend *wr_backend_cpu(void) {
    static const wr_backend backend = {
        .name = "cpu", .check = wr_cpu_level_error, .kernels = kernels, .packed_bytes = packed_bytes, .pack = pack};
    pthread_once(&once, join);
    return &backend;
}
