/* Owns launching: the steps of a program one by one, or as the nodes of a graph. Both go through the same launch
 * functions of the kernel rows, so that they cannot differ. */
#include <string.h>

#include "base/mem.h"
#include "cuda/context.h"

struct wr_launcher {
    wr_cuda_context *context;
    CUstream stream;
    CUgraph graph;    /* NULL: start at once */
    CUgraphNode last; /* of the chain so far */
    bool has_last;
    bool full; /* the next waits for the whole end of the last: one of them is not ours, or the last says so */
};

enum { MAX_PARAMS_BYTES = 4096, MAX_THREADS = 1024 };

/* Every kernel of ours waits for the kernels before it itself (wr_grid_wait), so its beginning may overlap their end.
 */
static bool overlaps(const wr_launcher *l) { return l->context->traits.arch >= 90 && !l->full; }

/* Of clusters of so many blocks. */
static CUlaunchAttributeValue cluster_of(int blocks) {
    return (CUlaunchAttributeValue){.clusterDim = {.x = (unsigned)blocks, .y = 1, .z = 1}};
}

static weir_status launch_now(const wr_launcher *l, const wr_function_spec *spec, int cluster, weir_error *err) {
    CUlaunchAttribute attributes[2];
    unsigned n = 0;
    if (overlaps(l))
        attributes[n++] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                              .value = {.programmaticStreamSerializationAllowed = 1}};
    if (cluster > 1)
        attributes[n++] =
            (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value = cluster_of(cluster)};
    CUlaunchConfig config = {.gridDimX = spec->grid[0],
                             .gridDimY = spec->grid[1],
                             .gridDimZ = spec->grid[2],
                             .blockDimX = spec->block[0],
                             .blockDimY = spec->block[1],
                             .blockDimZ = spec->block[2],
                             .sharedMemBytes = (unsigned)spec->shared_bytes,
                             .hStream = l->stream,
                             .attrs = attributes,
                             .numAttrs = n};
    WR_CU(l->context->driver, cuLaunchKernelEx(&config, spec->function, spec->params, NULL), spec->name);
    return WEIR_OK;
}

static weir_status add_node(wr_launcher *l, const wr_function_spec *spec, int cluster, weir_error *err) {
    CUgraphNodeParams node = {.type = CU_GRAPH_NODE_TYPE_KERNEL,
                              .kernel = {.func = spec->function,
                                         .gridDimX = spec->grid[0],
                                         .gridDimY = spec->grid[1],
                                         .gridDimZ = spec->grid[2],
                                         .blockDimX = spec->block[0],
                                         .blockDimY = spec->block[1],
                                         .blockDimZ = spec->block[2],
                                         .sharedMemBytes = (unsigned)spec->shared_bytes,
                                         .kernelParams = spec->params}};
    CUgraphEdgeData edge = {0};
    if (overlaps(l)) {
        edge.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
        edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    }
    CUgraphNode added;
    WR_CU(l->context->driver, cuGraphAddNode(&added, l->graph, &l->last, &edge, l->has_last ? 1 : 0, &node),
          spec->name);
    if (cluster > 1) {
        CUlaunchAttributeValue value = cluster_of(cluster);
        WR_CU(l->context->driver, cuGraphKernelNodeSetAttribute(added, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &value),
              spec->name);
    }
    l->last = added;
    l->has_last = true;
    return WEIR_OK;
}

static weir_status launch(wr_launcher *l, const wr_function_spec *spec, int cluster, weir_error *err) {
    weir_status status = l->graph ? add_node(l, spec, cluster, err) : launch_now(l, spec, cluster, err);
    l->full = false;
    return status;
}

weir_status wr_launch(wr_launcher *l, const wr_launch_spec *spec, weir_error *err) {
    if (spec->blocks <= 0) return WEIR_OK;
    if (spec->blocks > INT32_MAX || spec->threads < 1 || spec->threads > MAX_THREADS ||
        spec->params_bytes > MAX_PARAMS_BYTES || spec->shared_bytes > l->context->traits.shared_bytes)
        return WR_FAIL(err, WEIR_E_LIMIT, "%s: %lld blocks of %d threads with %zu bytes of shared memory", spec->kernel,
                       (long long)spec->blocks, spec->threads, spec->shared_bytes);
    CUfunction f;
    WR_TRY(wr_cuda_find(l->context, spec, &f, err));
    wr_function_spec function = {.name = spec->kernel,
                                 .function = f,
                                 .grid = {(uint32_t)spec->blocks, 1, 1},
                                 .block = {(uint32_t)spec->threads, 1, 1},
                                 .shared_bytes = spec->shared_bytes,
                                 .params = (void *[]){(void *)spec->params}};
    WR_TRY(launch(l, &function, spec->cluster, err));
    l->full = spec->whole;
    return WEIR_OK;
}

/* What comes after such a kernel waits for its end as well: it need not know of early launches. */
weir_status wr_launch_function(wr_launcher *l, const wr_function_spec *spec, weir_error *err) {
    l->full = true;
    WR_TRY(launch(l, spec, 0, err));
    l->full = true;
    return WEIR_OK;
}

static weir_status launch_steps(wr_launcher *l, const wr_step *steps, int n, weir_error *err) {
    for (int i = 0; i < n; i++) {
        weir_status status = steps[i].launch(&steps[i], l, err);
        if (status == WEIR_OK) continue;
        wr_err_context(err, "step %d of %d, %s [%s]", i, n, wr_ops[steps[i].op].name, steps[i].variant);
        return status;
    }
    return WEIR_OK;
}

weir_status wr_cuda_run_on(wr_cuda_context *c, CUstream stream, const wr_step *steps, int n, weir_error *err) {
    wr_launcher l = {.context = c, .stream = stream};
    WR_TRY(wr_cuda_enter(c, err));
    weir_status status = launch_steps(&l, steps, n, err);
    wr_cuda_leave(c);
    return status;
}

weir_status wr_cuda_run(void *context, const wr_step *steps, int n, weir_error *err) {
    wr_cuda_context *c = context;
    wr_cuda_expect(c, NULL);
    return wr_cuda_run_on(c, c->stream, steps, n, err);
}

static weir_status make_graph(wr_cuda_context *c, CUgraph *graph, const wr_step *steps, int n, wr_cuda_graph *g,
                              weir_error *err) {
    WR_CU(c->driver, cuGraphCreate(graph, 0), "making a graph");
    wr_launcher l = {.context = c, .graph = *graph};
    WR_TRY(launch_steps(&l, steps, n, err));
    WR_CU(c->driver, cuGraphInstantiate(&g->exec, *graph, 0), "instantiating a graph");
    WR_CU(c->driver, cuGraphUpload(g->exec, c->stream), "uploading a graph");
    return WEIR_OK;
}

weir_status wr_cuda_graph_new(void *context, const wr_step *steps, int n, void **out, weir_error *err) {
    wr_cuda_context *c = context;
    const char *graphs = getenv("WEIR_CUDA_GRAPHS");
    *out = NULL;
    if (graphs && !strcmp(graphs, "0")) return WEIR_OK; /* the reference path: kernels are started one by one */
    wr_cuda_graph *g = wr_calloc(1, sizeof *g);
    if (!g) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a graph of %d steps", n);
    weir_status status = wr_cuda_enter(c, err);
    if (status != WEIR_OK) {
        wr_free(g);
        return status;
    }
    CUgraph graph = NULL;
    status = make_graph(c, &graph, steps, n, g, err);
    if (graph) c->driver->cuGraphDestroy(graph);
    wr_cuda_leave(c);
    if (status != WEIR_OK) {
        wr_cuda_graph_free(c, g);
        return status;
    }
    *out = g;
    return WEIR_OK;
}

void wr_cuda_graph_free(void *context, void *graph) {
    wr_cuda_context *c = context;
    wr_cuda_graph *g = graph;
    if (!g) return;
    if (g->exec && wr_cuda_enter(c, NULL) == WEIR_OK) {
        c->driver->cuGraphExecDestroy(g->exec);
        wr_cuda_leave(c);
    }
    wr_cuda_forget(c, g);
    wr_free(g);
}

weir_status wr_cuda_graph_launch(void *context, void *graph, weir_error *err) {
    wr_cuda_context *c = context;
    wr_cuda_graph *g = graph;
    WR_TRY(wr_cuda_enter(c, err));
    wr_cuda_expect(c, g);
    CUresult result = c->driver->cuGraphLaunch(g->exec, c->stream);
    wr_cuda_leave(c);
    if (result != CUDA_SUCCESS) return wr_driver_fail(c->driver, result, "launching a graph", __FILE__, __LINE__, err);
    return WEIR_OK;
}
