/* The user's kernels (weir/custom.h): one object for equal contents on a device, counted; graphs and programs that call
 * a kernel hold it. A count changes only under the device's lock, so that a kernel that is found is never on its way
 * out. Compiling and loading happen outside of it. */
#include "array/custom.h"

#include <string.h>

#include "array/internal.h"
#include "base/log.h"

/* ---- holding ---- */

typedef struct wr_kernel_use {
    struct wr_kernel_use *next;
    weir_kernel *kernel;
} wr_kernel_use;

void wr_kernel_retain(weir_kernel *kernel) {
    pthread_mutex_lock(&kernel->device->kernels_lock);
    kernel->count++;
    pthread_mutex_unlock(&kernel->device->kernels_lock);
}

static void drop(weir_kernel *kernel) {
    wr_free(kernel->name);
    wr_free(kernel);
}

void wr_kernel_release(weir_kernel *kernel) {
    weir_device *device = kernel->device;
    if (!device) {
        if (--kernel->count == 0) drop(kernel);
        return;
    }
    pthread_mutex_lock(&device->kernels_lock);
    bool last = --kernel->count == 0;
    for (weir_kernel **at = &device->kernels; last && *at; at = &(*at)->next) {
        if (*at != kernel) continue;
        *at = kernel->next;
        break;
    }
    pthread_mutex_unlock(&device->kernels_lock);
    if (!last) return;
    device->backend->runtime->kernel_free(device->context, &kernel->binary);
    drop(kernel);
}

void weir_kernel_free(weir_kernel *kernel) {
    if (kernel) wr_kernel_release(kernel);
}

void wr_graph_release_kernels(weir_graph *graph) {
    for (wr_kernel_use *use = graph->kernels; use; use = use->next) wr_kernel_release(use->kernel);
}

void wr_device_unload_kernels(weir_device *device) {
    for (weir_kernel *k = device->kernels, *next; k; k = next) {
        next = k->next;
        device->backend->runtime->kernel_free(device->context, &k->binary);
        k->device = NULL;
    }
    device->kernels = NULL;
}

/* ---- making ---- */

static weir_status check_new(const weir_device *device, const char *name, const char *source,
                             const weir_kernel_options *options, weir_error *err) {
    if (!device || !name || !*name || !source)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "weir_kernel_new: %s is missing",
                       !device   ? "the device"
                       : !source ? "the source"
                                 : "the kernel's name");
    int n_flags = options ? options->n_flags : 0;
    if (n_flags < 0 || (n_flags > 0 && !options->flags))
        return WR_FAIL(err, WEIR_E_ARGUMENT, "weir_kernel_new: %d flags", n_flags);
    for (int i = 0; i < n_flags; i++)
        if (!options->flags[i]) return WR_FAIL(err, WEIR_E_ARGUMENT, "weir_kernel_new: flag %d is NULL", i);
    if (!device->backend->runtime || !device->backend->runtime->kernel_new)
        return WR_FAIL(err, WEIR_E_UNSUPPORTED, "kernel %.100s: custom kernels need a CUDA device; this one is %s",
                       name, device->backend->name);
    return WEIR_OK;
}

/* The kernel itself, or the one of the same content that is there already; then this one is not needed. */
static weir_kernel *enter(weir_device *device, weir_kernel *kernel) {
    weir_kernel *found;
    pthread_mutex_lock(&device->kernels_lock);
    for (found = device->kernels; found; found = found->next)
        if (!memcmp(found->binary.id, kernel->binary.id, sizeof kernel->binary.id)) break;
    if (found) {
        found->count++;
    } else {
        kernel->next = device->kernels;
        device->kernels = found = kernel;
    }
    pthread_mutex_unlock(&device->kernels_lock);
    return found;
}

weir_status weir_kernel_new(weir_device *device, const char *name, const char *source,
                            const weir_kernel_options *options, weir_kernel **out, weir_error *err) {
    if (!out) return WR_FAIL(err, WEIR_E_ARGUMENT, "weir_kernel_new: out is NULL");
    *out = NULL;
    WR_TRY(check_new(device, name, source, options, err));
    weir_kernel *kernel = wr_calloc(1, sizeof *kernel);
    char *copy = wr_strdup(name);
    if (!kernel || !copy) {
        wr_free(kernel);
        wr_free(copy);
        return WR_FAIL(err, WEIR_E_MEMORY, "no memory for kernel %.100s", name);
    }
    kernel->device = device;
    kernel->count = 1;
    kernel->name = copy;
    wr_kernel_source from = {.name = name,
                             .source = source,
                             .flags = options ? options->flags : NULL,
                             .n_flags = options ? options->n_flags : 0,
                             .notice = wr_log_text,
                             .announce = wr_announce};
    const wr_runtime *runtime = device->backend->runtime;
    weir_status status = runtime->kernel_new(device->context, &from, &kernel->binary, err);
    if (status != WEIR_OK) {
        drop(kernel);
        return status;
    }
    *out = enter(device, kernel);
    if (*out == kernel) return WEIR_OK;
    runtime->kernel_free(device->context, &kernel->binary);
    drop(kernel);
    return WEIR_OK;
}

/* ---- calling ---- */

static weir_array *refuse(weir_graph *graph, const weir_kernel *kernel, const char *why) {
    return wr_poison(graph, WEIR_E_ARGUMENT, "kernel %.100s: %s", kernel->name, why);
}

/* false, with the reason. */
static bool fill_shape(wr_custom_args *args, const weir_kernel_call *call, char *why, size_t size) {
    if (!wr_is_dtype(call->dtype))
        return snprintf(why, size, "dtype %d of the result does not exist", (int)call->dtype), false;
    if (call->n_dims < 0 || call->n_dims > WR_MAX_DIMS || (call->n_dims && !call->shape))
        return snprintf(why, size, "a result of %d dimensions; 0 to %d are possible", call->n_dims, WR_MAX_DIMS), false;
    int64_t n;
    if (!wr_shape_size(call->n_dims, call->shape, &n))
        return snprintf(why, size, "the result's shape %s is negative or too large",
                        wr_shape_text(call->n_dims, call->shape).s),
               false;
    args->dtype = call->dtype;
    args->n_dims = call->n_dims;
    for (int i = 0; i < call->n_dims; i++) args->shape[i] = call->shape[i];
    return true;
}

static bool fill_launch(wr_custom_args *args, const weir_kernel_call *call, const wr_kernel_binary *k, char *why,
                        size_t size) {
    static const int64_t most_blocks[3] = {INT32_MAX, 65535, 65535};
    static const int32_t most_threads[3] = {1024, 1024, 64};
    int64_t threads = 1;
    for (int i = 0; i < 3; i++) {
        int64_t b = call->blocks[i] || i == 0 ? call->blocks[i] : 1;
        int32_t t = call->threads[i] || i == 0 ? call->threads[i] : 1;
        if (b < 1 || b > most_blocks[i])
            return snprintf(why, size, "%lld blocks in %c; 1 to %lld are possible", (long long)b, "xyz"[i],
                            (long long)most_blocks[i]),
                   false;
        if (t < 1 || t > most_threads[i])
            return snprintf(why, size, "%d threads of a block in %c; 1 to %d are possible", t, "xyz"[i],
                            most_threads[i]),
                   false;
        threads *= t;
        args->grid[i] = (uint32_t)b;
        args->block[i] = (uint32_t)t;
    }
    if (threads > k->max_threads)
        return snprintf(why, size, "%lld threads of a block; this kernel can have %d", (long long)threads,
                        k->max_threads),
               false;
    if (call->shared_bytes > k->max_shared_bytes)
        return snprintf(why, size, "%zu bytes of dynamic shared memory; on this device it can have %zu",
                        call->shared_bytes, k->max_shared_bytes),
               false;
    args->shared_bytes = call->shared_bytes;
    return true;
}

static bool fill_scalars(wr_custom_args *args, const weir_kernel_call *call, char *why, size_t size) {
    size_t at = 0, total = 0;
    if (call->n_scalars < 0 || call->n_scalars > WEIR_KERNEL_MAX_SCALARS)
        return snprintf(why, size, "%d scalars; at most %d are possible", call->n_scalars, WEIR_KERNEL_MAX_SCALARS),
               false;
    for (int i = 0; i < call->n_scalars; i++) {
        const weir_kernel_scalar *s = &call->scalars[i];
        if (!s->data || !s->bytes || s->bytes > WEIR_KERNEL_MAX_SCALAR_BYTES ||
            (total += s->bytes) > WEIR_KERNEL_MAX_SCALAR_BYTES)
            return snprintf(why, size, "scalar %d of %zu bytes is missing, or all are more than %d", i,
                            s->data ? s->bytes : 0, WEIR_KERNEL_MAX_SCALAR_BYTES),
                   false;
        args->scalar_offset[i] = (uint32_t)at;
        memcpy(args->scalars + at, s->data, s->bytes);
        at += (s->bytes + 15) & ~(size_t)15;
    }
    args->n_scalars = (uint32_t)call->n_scalars;
    return true;
}

/* What is given against what the compiled kernel takes. */
static bool check_params(const wr_kernel_binary *k, int n_inputs, const weir_kernel_call *call, char *why,
                         size_t size) {
    int n = n_inputs + 1 + call->n_scalars;
    if (k->n_params != n)
        return snprintf(why, size, "it takes %d parameters; %d inputs, the result and %d scalars are %d", k->n_params,
                        n_inputs, call->n_scalars, n),
               false;
    for (int i = 0; i < n; i++) {
        bool pointer = i <= n_inputs;
        size_t bytes = pointer ? sizeof(void *) : call->scalars[i - n_inputs - 1].bytes;
        if (bytes != k->param_bytes[i])
            return snprintf(why, size, "its parameter %d has %zu bytes, %s %d has %zu", i, k->param_bytes[i],
                            i < n_inputs    ? "the pointer of input"
                            : i == n_inputs ? "the result's pointer,"
                                            : "scalar",
                            i <= n_inputs ? i : i - n_inputs - 1, bytes),
                   false;
    }
    return true;
}

static bool hold(weir_graph *graph, weir_kernel *kernel) {
    for (wr_kernel_use *use = graph->kernels; use; use = use->next)
        if (use->kernel == kernel) return true;
    wr_kernel_use *use = wr_arena_alloc(&graph->arena, sizeof *use);
    if (!use) return false;
    wr_kernel_retain(kernel);
    *use = (wr_kernel_use){.next = graph->kernels, .kernel = kernel};
    graph->kernels = use;
    return true;
}

weir_array *weir_custom(weir_graph *graph, weir_kernel *kernel, weir_array *const *inputs, int n_inputs,
                        const weir_kernel_call *call) {
    char why[320];
    weir_array *poisoned;
    wr_custom_args args;
    memset(&args, 0, sizeof args);
    if (!graph || !kernel || !call)
        return wr_poison(graph, WEIR_E_ARGUMENT, "weir_custom: %s is NULL", !kernel ? "the kernel" : "the call");
    if (kernel->device != graph->device)
        return refuse(graph, kernel, kernel->device ? "it was made for another device" : "its device was closed");
    if (n_inputs < 0 || n_inputs > WR_MAX_INPUTS || (n_inputs && !inputs)) {
        snprintf(why, sizeof why, "%d inputs; 0 to %d are possible", n_inputs, WR_MAX_INPUTS);
        return refuse(graph, kernel, why);
    }
    if (n_inputs && wr_inputs_graph("custom", inputs, n_inputs, n_inputs, &poisoned) != graph)
        return wr_poison(graph, WEIR_E_ARGUMENT, "kernel %.100s: an input is missing, faulty or of another graph",
                         kernel->name);
    if (!fill_shape(&args, call, why, sizeof why) || !fill_launch(&args, call, &kernel->binary, why, sizeof why) ||
        !fill_scalars(&args, call, why, sizeof why) || !check_params(&kernel->binary, n_inputs, call, why, sizeof why))
        return refuse(graph, kernel, why);
    args.kernel = kernel;
    if (!hold(graph, kernel))
        return wr_poison(graph, WEIR_E_MEMORY, "kernel %.100s: no memory for the graph's nodes", kernel->name);
    return wr_node(graph, WR_OP_CUSTOM, inputs, n_inputs, &args);
}

weir_status wr_infer_custom(weir_array *out, weir_error *err);
weir_status wr_infer_custom(weir_array *out, weir_error *err) {
    (void)err; /* weir_custom has looked at everything */
    const wr_custom_args *args = out->args;
    out->dtype = args->dtype;
    out->n_dims = args->n_dims;
    for (int i = 0; i < args->n_dims; i++) out->shape[i] = args->shape[i];
    return WEIR_OK;
}
