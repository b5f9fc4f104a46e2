/* The CUDA backend as the array room sees it. */
#include "cuda/context.h"

static const wr_kernel_row *kernels(wr_op_id op) {
    const wr_kernel_row *(*const families[])(wr_op_id) = {
        wr_cuda_elementwise_rows, wr_cuda_move_rows,   wr_cuda_reduce_rows, wr_cuda_norm_rows,
        wr_cuda_kv_rows,          wr_cuda_matmul_rows, wr_cuda_linear_rows, wr_cuda_attention_rows,
        wr_cuda_state_rows,       wr_cuda_sample_rows, wr_cuda_custom_rows,
    };
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const wr_kernel_row *rows = families[i](op);
        if (rows) return rows;
    }
    return NULL;
}

static const wr_runtime runtime = {
    .open = wr_cuda_open,
    .close = wr_cuda_close,
    .traits = wr_cuda_device_traits,
    .alloc = wr_cuda_alloc,
    .free = wr_cuda_free,
    .reserve = wr_cuda_reserve,
    .release = wr_cuda_release,
    .host_alloc = wr_cuda_host_alloc,
    .host_free = wr_cuda_host_free,
    .upload = wr_cuda_upload,
    .download = wr_cuda_download,
    .trim = wr_cuda_trim,
    .memory = wr_cuda_memory,
    .graph_new = wr_cuda_graph_new,
    .graph_free = wr_cuda_graph_free,
    .graph_launch = wr_cuda_graph_launch,
    .run = wr_cuda_run,
    .send = wr_cuda_send,
    .fetch = wr_cuda_fetch,
    .mark = wr_cuda_mark_set,
    .wait_mark = wr_cuda_mark_wait,
    .wait = wr_cuda_wait,
    .stream_open = wr_cuda_stream_open,
    .stream_close = wr_cuda_stream_close,
    .stream_alloc = wr_cuda_stream_alloc,
    .stream_run = wr_cuda_stream_run,
    .event_open = wr_cuda_event_open,
    .event_close = wr_cuda_event_close,
    .event_record = wr_cuda_event_record,
    .event_join = wr_cuda_event_join,
    .event_wait = wr_cuda_event_wait,
    .kernel_new = wr_cuda_kernel_new,
    .kernel_free = wr_cuda_kernel_free,
};

static weir_status check(weir_error *err) {
    const wr_driver *driver;
    return wr_driver_load(&driver, err);
}

static const wr_backend backend = {
    .name = "cuda",
    .check = check,
    .kernels = kernels,
    .packed_bytes = wr_cuda_packed_bytes,
    .pack = wr_cuda_pack,
    .runtime = &runtime,
    .activation = WEIR_DTYPE_BF16,
    .kv = WEIR_DTYPE_BF16,
    .fuses_linear_add = true,
    .fuses_linear_gated = true,
    .fuses_norm_linear = true,
    .fuses_rope = true,
    .tiles_pages = true,
    .joins_rows = true,
    .describe = wr_cuda_describe,
    .built_for = wr_cuda_architectures,
};

/* What the array room looks for in this library; version: WR_BACKEND_VERSION of the caller. */
__attribute__((visibility("default"))) const wr_backend *wr_backend_cuda(int version) {
    return version == WR_BACKEND_VERSION ? &backend : NULL;
}
