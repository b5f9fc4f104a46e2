/* The CPU backend: which kernels each op has. Rows of the fast families come
 * first, the reference last; see cpu/rows.h for how a family registers. */
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "cpu/fast.h"
#include "cpu/isa.h"
#include "cpu/linear.h"
#include "cpu/ref/ref.h"
#include "cpu/rows.h"

/* One line an op that has fast kernels. */
static const wr_kernel_row *const fast_rows[WR_OP_COUNT] = {
    [WR_OP_LINEAR] = wr_cpu_linear_rows,
    [WR_OP_GATHER_LINEAR] = wr_cpu_gather_linear_rows,
    [WR_OP_EMBEDDING] = wr_cpu_embedding_rows,
    [WR_OP_PAGED_ATTENTION] = wr_cpu_paged_attention_rows,
    [WR_OP_ATTENTION] = wr_cpu_attention_rows,
    [WR_OP_RMS_NORM] = wr_cpu_norm_rows,
    [WR_OP_LAYER_NORM] = wr_cpu_norm_rows,
    [WR_OP_ROPE] = wr_cpu_rope_rows,
    [WR_OP_ROPE_TABLE] = wr_cpu_rope_table_rows,
    [WR_OP_KV_WRITE] = wr_cpu_kv_write_rows,
    [WR_OP_FUSED] = wr_cpu_fused_rows,
    [WR_OP_NEG] = wr_cpu_elementwise_rows,
    [WR_OP_ABS] = wr_cpu_elementwise_rows,
    [WR_OP_SIGN] = wr_cpu_elementwise_rows,
    [WR_OP_SQUARE] = wr_cpu_elementwise_rows,
    [WR_OP_FLOOR] = wr_cpu_elementwise_rows,
    [WR_OP_CEIL] = wr_cpu_elementwise_rows,
    [WR_OP_ROUND] = wr_cpu_elementwise_rows,
    [WR_OP_SQRT] = wr_cpu_elementwise_rows,
    [WR_OP_RSQRT] = wr_cpu_elementwise_rows,
    [WR_OP_RECIPROCAL] = wr_cpu_elementwise_rows,
    [WR_OP_EXP] = wr_cpu_elementwise_rows,
    [WR_OP_EXPM1] = wr_cpu_elementwise_rows,
    [WR_OP_TANH] = wr_cpu_elementwise_rows,
    [WR_OP_SIGMOID] = wr_cpu_elementwise_rows,
    [WR_OP_SILU] = wr_cpu_elementwise_rows,
    [WR_OP_GELU_TANH] = wr_cpu_elementwise_rows,
    [WR_OP_RELU] = wr_cpu_elementwise_rows,
    [WR_OP_CAST] = wr_cpu_elementwise_rows,
    [WR_OP_ADD] = wr_cpu_elementwise_rows,
    [WR_OP_SUB] = wr_cpu_elementwise_rows,
    [WR_OP_MUL] = wr_cpu_elementwise_rows,
    [WR_OP_DIV] = wr_cpu_elementwise_rows,
    [WR_OP_MAXIMUM] = wr_cpu_elementwise_rows,
    [WR_OP_MINIMUM] = wr_cpu_elementwise_rows,
    [WR_OP_EQUAL] = wr_cpu_elementwise_rows,
    [WR_OP_NOT_EQUAL] = wr_cpu_elementwise_rows,
    [WR_OP_LESS] = wr_cpu_elementwise_rows,
    [WR_OP_LESS_EQUAL] = wr_cpu_elementwise_rows,
    [WR_OP_GREATER] = wr_cpu_elementwise_rows,
    [WR_OP_GREATER_EQUAL] = wr_cpu_elementwise_rows,
    [WR_OP_SELECT] = wr_cpu_elementwise_rows,
    [WR_OP_SUM] = wr_cpu_reduce_rows,
    [WR_OP_MEAN] = wr_cpu_reduce_rows,
    [WR_OP_MAX] = wr_cpu_reduce_rows,
    [WR_OP_MIN] = wr_cpu_reduce_rows,
    [WR_OP_LOGSUMEXP] = wr_cpu_reduce_rows,
    [WR_OP_ARGMAX] = wr_cpu_reduce_rows,
    [WR_OP_SOFTMAX] = wr_cpu_reduce_rows,
    [WR_OP_MATMUL] = wr_cpu_matmul_rows,
    [WR_OP_COPY] = wr_cpu_copy_rows,
    [WR_OP_RESHAPE] = wr_cpu_copy_rows,
    [WR_OP_CONCAT] = wr_cpu_concat_rows,
    [WR_OP_TAKE] = wr_cpu_take_rows,
    [WR_OP_CONV1D] = wr_cpu_conv1d_rows,
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
        for (const wr_kernel_row *row = fast_rows[op]; row && row->name; row++) {
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

static weir_status describe(int ordinal, bool measure, weir_device_info *out, weir_error *err) {
    if (ordinal) return WR_FAIL(err, WEIR_E_NOT_FOUND, "there is one device \"cpu\"");
    *out = (weir_device_info){.name = "cpu", .n_units = wr_pool_cores()};
    snprintf(out->model, sizeof out->model, "%s", wr_cpu_isa_name(wr_cpu_level()));
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    long pages = sysconf(_SC_PHYS_PAGES), unused = measure ? sysconf(_SC_AVPHYS_PAGES) : 0;
    out->memory_bytes = pages > 0 ? (size_t)pages * page : 0;
    out->free_bytes = unused > 0 ? (size_t)unused * page : 0;
    weir_error problem;
    if (wr_cpu_level_error(&problem) != WEIR_OK)
        snprintf(out->problem, sizeof out->problem, "%.*s", (int)sizeof out->problem - 1, problem.message);
    return WEIR_OK;
}

const wr_backend *wr_backend_cpu(void) {
    static const wr_backend backend = {.name = "cpu",
                                       .check = wr_cpu_level_error,
                                       .kernels = kernels,
                                       .packed_bytes = packed_bytes,
                                       .pack = pack,
                                       .activation = WEIR_DTYPE_F32,
                                       .kv = WEIR_DTYPE_F16,
                                       .describe = describe};
    pthread_once(&once, join);
    return &backend;
}
