/* Graphs and their nodes. A graph owns one arena; a node is never freed alone. */
#include <stdarg.h>
#include <string.h>

#include "array/custom.h"
#include "array/internal.h"

/* Nodes, shapes and args of one graph; data lie in buffers. An engine's largest program needs a few MB. */
static const size_t GRAPH_CAP_BYTES = (size_t)1 << 30;

/* ---- shapes ---- */

bool wr_shape_size(int n_dims, const int64_t *shape, int64_t *out) {
    int64_t n = 1, bound = 8; /* bytes, with empty dimensions counted as 1 */
    for (int i = 0; i < n_dims; i++) {
        if (shape[i] < 0) return false;
        if (__builtin_mul_overflow(bound, shape[i] > 1 ? shape[i] : 1, &bound)) return false;
        n *= shape[i];
    }
    *out = n;
    return true;
}

void wr_contiguous_strides(int n_dims, const int64_t *shape, int64_t *strides) {
    int64_t step = 1;
    for (int i = n_dims - 1; i >= 0; i--) {
        strides[i] = step;
        step *= shape[i] > 1 ? shape[i] : 1;
    }
}

bool wr_is_contiguous(int n_dims, const int64_t *shape, const int64_t *strides) {
    int64_t step = 1;
    for (int i = 0; i < n_dims; i++)
        if (shape[i] == 0) return true;
    for (int i = n_dims - 1; i >= 0; i--) {
        if (shape[i] == 1) continue;
        if (strides[i] != step) return false;
        step *= shape[i];
    }
    return true;
}

wr_text wr_shape_text(int n_dims, const int64_t *shape) {
    wr_text t;
    size_t n = 0;
    t.s[n++] = '[';
    for (int i = 0; i < n_dims && n + 24 < sizeof t.s; i++)
        n += (size_t)snprintf(t.s + n, sizeof t.s - n, "%s%lld", i ? ", " : "", (long long)shape[i]);
    t.s[n++] = ']';
    t.s[n] = 0;
    return t;
}

wr_text wr_describe(const weir_array *a) {
    wr_text shape = wr_shape_text(a->n_dims, a->shape), t;
    snprintf(t.s, sizeof t.s, "%s %.180s", weir_dtype_name(a->dtype), shape.s);
    return t;
}

/* ---- graphs ---- */

weir_status weir_graph_new(weir_device *device, weir_graph **out, weir_error *err) {
    if (!out) return WR_FAIL(err, WEIR_E_ARGUMENT, "weir_graph_new: out is NULL");
    *out = NULL;
    if (!device) return WR_FAIL(err, WEIR_E_ARGUMENT, "weir_graph_new: device is NULL");
    weir_graph *g = wr_calloc(1, sizeof *g);
    if (!g) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a graph");
    g->device = device;
    wr_arena_init(&g->arena, GRAPH_CAP_BYTES);
    g->poison = (weir_array){.graph = g, .op = WR_OP_DATA, .poisoned = true, .dtype = WEIR_DTYPE_F32};
    *out = g;
    return WEIR_OK;
}

void weir_graph_free(weir_graph *graph) {
    if (!graph) return;
    for (weir_array *a = graph->buffered; a; a = a->next_buffered) wr_buffer_release(a->buffer);
    wr_graph_release_kernels(graph);
    wr_arena_deinit(&graph->arena);
    wr_free(graph);
}

weir_status weir_graph_error(const weir_graph *graph, weir_error *err) {
    if (!graph) return WR_FAIL(err, WEIR_E_ARGUMENT, "weir_graph_error: graph is NULL");
    if (err) *err = graph->error;
    return graph->error.status;
}

weir_device *wr_graph_device(const weir_graph *graph) { return graph->device; }

/* Ops whose every input is NULL have no graph to record an error in. */
static weir_array no_graph_poison = {.op = WR_OP_DATA, .poisoned = true, .dtype = WEIR_DTYPE_F32};

weir_array *wr_poison(weir_graph *graph, weir_status code, const char *format, ...) {
    if (!graph) return &no_graph_poison;
    if (graph->error.status == WEIR_OK) {
        va_list list;
        va_start(list, format);
        vsnprintf(graph->error.message, sizeof graph->error.message, format, list);
        va_end(list);
        graph->error.status = code;
    }
    return &graph->poison;
}

static weir_array *out_of_memory(weir_graph *graph, const char *what) {
    return wr_poison(graph, WEIR_E_MEMORY, "%s: no memory for the graph's nodes (%zu bytes used)", what,
                     graph->arena.used_bytes);
}

weir_graph *wr_inputs_graph(const char *op, weir_array *const *in, int n, int n_needed, weir_array **poisoned) {
    weir_graph *graph = NULL;
    for (int i = 0; i < n && !graph; i++)
        if (in[i]) graph = in[i]->graph;
    *poisoned = graph ? &graph->poison : &no_graph_poison;
    if (!graph) return NULL;
    bool sound = true;
    for (int i = 0; i < n; i++) {
        if (!in[i]) {
            if (i >= n_needed) continue;
            wr_poison(graph, WEIR_E_ARGUMENT, "%s: input %d is NULL", op, i);
            sound = false;
        } else if (in[i]->graph != graph) {
            wr_poison(graph, WEIR_E_ARGUMENT,
                      "%s: input %d belongs to another graph; bring it over with weir_array_keep", op, i);
            sound = false;
        } else if (in[i]->poisoned) {
            sound = false;
        }
    }
    return sound ? graph : NULL;
}

weir_array *wr_node(weir_graph *graph, wr_op_id op, weir_array *const *in, int n_in, const void *args) {
    const wr_op_info *info = &wr_ops[op];
    weir_array *poisoned;
    if (n_in > 0 && !wr_inputs_graph(info->name, in, n_in, n_in, &poisoned)) {
        return graph ? wr_poison(graph, WEIR_E_ARGUMENT, "%s: an input is missing or faulty", info->name) : poisoned;
    }
    if (!graph) return &no_graph_poison;
    if (n_in > 0 && in[0]->graph != graph)
        return wr_poison(graph, WEIR_E_ARGUMENT, "%s: input 0 belongs to another graph", info->name);
    if (n_in < info->min_inputs || n_in > info->max_inputs)
        return wr_poison(graph, WEIR_E_ARGUMENT, "%s: %d inputs, it takes %d to %d", info->name, n_in, info->min_inputs,
                         info->max_inputs);
    weir_array *node = wr_arena_alloc(&graph->arena, sizeof *node);
    if (!node) return out_of_memory(graph, info->name);
    node->graph = graph;
    node->op = op;
    node->n_in = n_in;
    if (n_in > 0) {
        node->in = wr_arena_alloc(&graph->arena, (size_t)n_in * sizeof *node->in);
        if (!node->in) return out_of_memory(graph, info->name);
        memcpy(node->in, in, (size_t)n_in * sizeof *in);
    }
    if (info->args_bytes) {
        node->args = wr_arena_alloc(&graph->arena, info->args_bytes);
        if (!node->args) return out_of_memory(graph, info->name);
        memcpy(node->args, args, info->args_bytes);
    }
    weir_error fault;
    weir_status status = info->infer(node, &fault);
    if (status != WEIR_OK) return wr_poison(graph, status, "%s", fault.message);
    int64_t size;
    if (!wr_shape_size(node->n_dims, node->shape, &size))
        return wr_poison(graph, WEIR_E_LIMIT, "%s: the result %s is too large", info->name, wr_describe(node).s);
    node->index = graph->n_nodes++;
    return node;
}

void wr_set_buffer(weir_array *node, wr_buffer *buffer, int64_t offset) {
    if (node->buffer) {
        wr_buffer_release(node->buffer);
    } else {
        node->next_buffered = node->graph->buffered;
        node->graph->buffered = node;
    }
    node->buffer = buffer;
    node->offset = offset;
}

/* Do all elements of the view lie inside the buffer? */
static bool fits_buffer(weir_dtype dtype, int n_dims, const int64_t *shape, const int64_t *strides, int64_t offset,
                        size_t bytes) {
    int64_t low = offset, high = offset, span;
    for (int i = 0; i < n_dims; i++) {
        if (shape[i] == 0) return true;
        if (__builtin_mul_overflow(shape[i] - 1, strides[i], &span)) return false;
        if (__builtin_add_overflow(span < 0 ? low : high, span, span < 0 ? &low : &high)) return false;
    }
    return low >= 0 && high >= 0 && (uint64_t)high < bytes / weir_dtype_bytes(dtype);
}

weir_array *wr_leaf(weir_graph *graph, weir_dtype dtype, int n_dims, const int64_t *shape, const int64_t *strides,
                    int64_t offset, wr_buffer *buffer) {
    int64_t size;
    if (!graph) return &no_graph_poison;
    if (!buffer) return wr_poison(graph, WEIR_E_ARGUMENT, "data: buffer is NULL");
    if (!wr_is_dtype(dtype)) return wr_poison(graph, WEIR_E_ARGUMENT, "data: dtype %d does not exist", (int)dtype);
    if (n_dims < 0 || n_dims > WR_MAX_DIMS || (n_dims > 0 && !shape))
        return wr_poison(graph, WEIR_E_ARGUMENT, "data: %d dimensions, 0 to %d are possible", n_dims, WR_MAX_DIMS);
    if (!wr_shape_size(n_dims, shape, &size))
        return wr_poison(graph, WEIR_E_ARGUMENT, "data: shape %s is negative or too large",
                         wr_shape_text(n_dims, shape).s);
    weir_array *node = wr_arena_alloc(&graph->arena, sizeof *node);
    if (!node) return out_of_memory(graph, "data");
    node->graph = graph;
    node->op = WR_OP_DATA;
    node->dtype = dtype;
    node->n_dims = n_dims;
    for (int i = 0; i < n_dims; i++) node->shape[i] = shape[i];
    if (strides)
        memcpy(node->strides, strides, (size_t)n_dims * sizeof *strides);
    else
        wr_contiguous_strides(n_dims, shape, node->strides);
    if (!fits_buffer(dtype, n_dims, shape, node->strides, offset, buffer->bytes))
        return wr_poison(graph, WEIR_E_ARGUMENT, "data: %s at element %lld does not fit into a buffer of %zu bytes",
                         wr_describe(node).s, (long long)offset, buffer->bytes);
    node->index = graph->n_nodes++;
    wr_set_buffer(node, wr_buffer_retain(buffer), offset);
    return node;
}

/* ---- what users may ask of an array ---- */

const void *weir_array_data(const weir_array *array) {
    if (!array || array->poisoned || !array->buffer) return NULL;
    if (wr_n_elements(array->n_dims, array->shape) == 0) return NULL;
    if (!wr_is_contiguous(array->n_dims, array->shape, array->strides)) return NULL;
    const char *data = wr_buffer_host(array->buffer);
    return data ? data + array->offset * (int64_t)weir_dtype_bytes(array->dtype) : NULL;
}

weir_dtype weir_array_dtype(const weir_array *array) { return array ? array->dtype : WEIR_DTYPE_F32; }
int weir_array_n_dims(const weir_array *array) { return array ? array->n_dims : 0; }

int64_t weir_array_dim(const weir_array *array, int axis) {
    int a;
    return array && wr_axis(axis, array->n_dims, &a) ? array->shape[a] : 0;
}

int64_t weir_array_size(const weir_array *array) {
    return array && !array->poisoned ? wr_n_elements(array->n_dims, array->shape) : 0;
}

weir_array *weir_array_keep(weir_graph *to, const weir_array *array) {
    if (!to) return &no_graph_poison;
    if (!array) return wr_poison(to, WEIR_E_ARGUMENT, "keep: array is NULL");
    if (array->poisoned) {
        return wr_poison(to, array->graph ? array->graph->error.status : WEIR_E_ARGUMENT,
                         "keep: the array is faulty: %s",
                         array->graph ? array->graph->error.message : "it was made of NULL");
    }
    if (array->graph->device != to->device)
        return wr_poison(to, WEIR_E_ARGUMENT, "keep: the array belongs to another device");
    if (!array->buffer) return wr_poison(to, WEIR_E_STATE, "keep: the array was not evaluated; call weir_eval first");
    return wr_leaf(to, array->dtype, array->n_dims, array->shape, array->strides, array->offset, array->buffer);
}
