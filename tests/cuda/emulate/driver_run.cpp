/* The emulated driver's streams, events, launches and graphs. */
#include "driver_state.h"

#include <set>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "emulate.h"

namespace driver {

namespace {

bool asynchronous(void) {
    static const bool on = getenv("WR_EMULATE_ASYNC") && atoi(getenv("WR_EMULATE_ASYNC"));
    return on;
}

/* Never destroyed, like the driver's globals. */
struct stream_list {
    std::mutex lock;
    std::set<CUstream> open;
};
stream_list &streams(void) {
    static stream_list *s = new stream_list;
    return *s;
}

void work(CUstream s) {
    std::unique_lock<std::mutex> locked(s->lock);
    for (;;) {
        s->changed.wait(locked, [&] { return s->closing || !s->queue.empty(); });
        if (s->queue.empty()) return;
        std::function<void()> next = std::move(s->queue.front());
        s->queue.pop_front();
        s->busy = true;
        locked.unlock();
        next();
        next = nullptr;
        locked.lock();
        s->busy = false;
        s->changed.notify_all();
    }
}

double now_ms(void) {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

} // namespace

CUstream stream_of(CUstream given) {
    static CUstream_st *fallback = new CUstream_st;
    return given ? given : fallback;
}

/* Without a thread the lock keeps work of several callers in order. */
void submit(CUstream s, std::function<void()> f) {
    std::unique_lock<std::mutex> locked(s->lock);
    if (!asynchronous()) {
        s->changed.wait(locked, [&] { return !s->busy; });
        s->busy = true;
        locked.unlock();
        f();
        locked.lock();
        s->busy = false;
        s->changed.notify_all();
        return;
    }
    if (!s->worker.joinable()) s->worker = std::thread(work, s);
    s->queue.push_back(std::move(f));
    s->changed.notify_all();
}

void drain(CUstream s) {
    std::unique_lock<std::mutex> locked(s->lock);
    s->changed.wait(locked, [&] { return s->queue.empty() && !s->busy; });
}

void drain_all(void) {
    const std::lock_guard<std::mutex> locked(streams().lock);
    for (CUstream s : streams().open) drain(s);
    drain(stream_of(nullptr));
}

/* ---- launches ---- */

bool takes_words(CUfunction f) {
    static const char start[] = "selftest_custom_";
    return strncmp(f->kernel->name, start, sizeof(start) - 1) == 0;
}

/* Pointers lie at multiples of 8 bytes in a struct. */
static bool points_elsewhere(const std::vector<unsigned char> &params) {
    for (size_t at = 0; n_devices() > 1 && at + sizeof(void *) <= params.size(); at += sizeof(void *)) {
        const void *p;
        memcpy(&p, params.data() + at, sizeof(p));
        if (is_foreign_memory(p)) return true;
    }
    return false;
}

CUresult make_launch(launch *out, CUfunction f, const unsigned grid[3], const unsigned block[3], unsigned shared_bytes,
                     void **params, void **extra) {
    const char *name = f && f->kernel ? f->kernel->name : "?";
    if (!f || !f->kernel) return refuse(CUDA_ERROR_INVALID_HANDLE, "launch", "no function");
    if (is_foreign(f->context, name, "a kernel")) return CUDA_ERROR_INVALID_HANDLE;
    if (!params || !params[0] || extra) return refuse(CUDA_ERROR_INVALID_VALUE, name, "its parameters are missing");
    if (grid[0] == 0 || grid[0] > 0x7FFFFFFF || grid[1] != 1 || grid[2] != 1)
        return refuse(CUDA_ERROR_INVALID_VALUE, name, "a grid of %u x %u x %u", grid[0], grid[1], grid[2]);
    if (block[0] == 0 || block[0] > 1024 || block[1] != 1 || block[2] != 1)
        return refuse(CUDA_ERROR_INVALID_VALUE, name, "a block of %u x %u x %u", block[0], block[1], block[2]);
    if ((int)block[0] > f->kernel->max_threads)
        return refuse(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, name, "%u threads; its bounds say %d", block[0],
                      f->kernel->max_threads);
    if ((int)shared_bytes > f->max_dynamic)
        return refuse(CUDA_ERROR_INVALID_VALUE, name, "%u bytes of shared memory; it may have %d", shared_bytes,
                      f->max_dynamic);
    const size_t one = takes_words(f) ? 8 : f->kernel->params_bytes;
    *out = {f, grid[0], 1, block[0], shared_bytes, {}};
    for (size_t i = 0; i < f->kernel->params_bytes / one; i++) {
        const unsigned char *bytes = (const unsigned char *)params[i];
        out->params.insert(out->params.end(), bytes, bytes + one);
    }
    return points_elsewhere(out->params)
               ? refuse(CUDA_ERROR_INVALID_VALUE, name, "a parameter is memory of another card")
               : CUDA_SUCCESS;
}

CUresult set_cluster(launch *l, const CUlaunchAttributeValue &v) {
    const unsigned n = v.clusterDim.x;
    if (architecture() < 90) return refuse(CUDA_ERROR_NOT_SUPPORTED, l->f->kernel->name, "clusters, on an older card");
    if (n == 0 || n > 8 || v.clusterDim.y != 1 || v.clusterDim.z != 1 || l->blocks % n)
        return refuse(CUDA_ERROR_INVALID_CLUSTER_SIZE, l->f->kernel->name, "%u blocks in clusters of %u x %u x %u",
                      l->blocks, n, v.clusterDim.y, v.clusterDim.z);
    l->cluster = n;
    return CUDA_SUCCESS;
}

/* After a fault nothing runs. */
void launch::run(void (*before)(void *), void *before_argument) const {
    if (strcmp(f->kernel->name, "selftest_custom_wild") == 0) lose_all(CUDA_ERROR_ILLEGAL_ADDRESS);
    if (standing() != CUDA_SUCCESS) return;
    {
        const std::lock_guard<std::mutex> locked(count.lock);
        count.launches++;
    }
    wr_emulate_launch_over(f->kernel, blocks, cluster, threads, shared_bytes, params.data(), before, before_argument);
}

namespace {

/* ---- graphs ---- */

CUresult kernel_node(CUgraphNode n, const CUDA_KERNEL_NODE_PARAMS_v3 &p) {
    const unsigned grid[] = {p.gridDimX, p.gridDimY, p.gridDimZ}, block[] = {p.blockDimX, p.blockDimY, p.blockDimZ};
    return make_launch(&n->kernel, p.func, grid, block, p.sharedMemBytes, p.kernelParams, p.extra);
}

u8 *end_of_copy(CUmemorytype type, void *host, CUdeviceptr device) {
    return type == CU_MEMORYTYPE_HOST ? (u8 *)host : (u8 *)device;
}

CUresult memcpy_node(CUgraphNode n, const CUDA_MEMCPY3D &p) {
    const CUDA_MEMCPY3D c = p;
    if (c.srcMemoryType == CU_MEMORYTYPE_ARRAY || c.dstMemoryType == CU_MEMORYTYPE_ARRAY)
        return refuse(CUDA_ERROR_NOT_SUPPORTED, "memcpy node", "arrays");
    n->work = [c] {
        const u8 *from = end_of_copy(c.srcMemoryType, (void *)c.srcHost, c.srcDevice) + c.srcXInBytes;
        u8 *to = end_of_copy(c.dstMemoryType, c.dstHost, c.dstDevice) + c.dstXInBytes;
        for (size_t z = 0; z < c.Depth; z++)
            for (size_t y = 0; y < c.Height; y++)
                memmove(to + ((c.dstZ + z) * c.dstHeight + c.dstY + y) * c.dstPitch,
                        from + ((c.srcZ + z) * c.srcHeight + c.srcY + y) * c.srcPitch, c.WidthInBytes);
    };
    return CUDA_SUCCESS;
}

CUresult memset_node(CUgraphNode n, const CUDA_MEMSET_NODE_PARAMS_v2 &p) {
    const CUDA_MEMSET_NODE_PARAMS_v2 m = p;
    if (m.elementSize != 1 && m.elementSize != 2 && m.elementSize != 4) return CUDA_ERROR_INVALID_VALUE;
    n->work = [m] {
        for (size_t y = 0; y < m.height; y++)
            for (size_t x = 0; x < m.width; x++)
                memcpy((u8 *)m.dst + y * m.pitch + x * m.elementSize, &m.value, m.elementSize);
    };
    return CUDA_SUCCESS;
}

CUresult add_node(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, const CUgraphEdgeData *edges, size_t n,
                  CUgraphNodeType type, std::function<CUresult(CUgraphNode)> fill) {
    std::unique_ptr<CUgraphNode_st> made(new CUgraphNode_st());
    made->type = type;
    for (size_t i = 0; i < n; i++) {
        bool known = false;
        for (const auto &other : graph->nodes) known |= other.get() == after[i];
        if (!known) return refuse(CUDA_ERROR_INVALID_VALUE, "graph", "a dependency is no node of the graph");
        made->after.push_back(after[i]);
        if (edges && edges[i].type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC) {
            if (type != CU_GRAPH_NODE_TYPE_KERNEL || after[i]->type != CU_GRAPH_NODE_TYPE_KERNEL ||
                edges[i].from_port != CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC)
                return refuse(CUDA_ERROR_INVALID_VALUE, "graph", "a programmatic edge is from a kernel to a kernel");
            if (architecture() < 90)
                return refuse(CUDA_ERROR_NOT_SUPPORTED, "graph", "a programmatic edge, on an older card");
            made->programmatic = n == 1;
        }
    }
    const CUresult result = fill(made.get());
    if (result != CUDA_SUCCESS) return result;
    *out = made->self = made.get();
    graph->nodes.push_back(std::move(made));
    return CUDA_SUCCESS;
}

/* An order that the edges allow: of the nodes that may run the first, or the last, or any. */
CUresult sort_nodes(CUgraph graph, CUgraphExec exec) {
    std::vector<CUgraphNode> left;
    std::set<CUgraphNode> done;
    u64 random = (u64)wr_emulate_order_now();
    for (const auto &n : graph->nodes) left.push_back(n.get());
    while (!left.empty()) {
        std::vector<size_t> ready;
        for (size_t i = 0; i < left.size(); i++) {
            bool free = true;
            for (CUgraphNode a : left[i]->after) free &= done.count(a) != 0;
            if (free) ready.push_back(i);
            if (free && wr_emulate_order_now() == 0) break;
        }
        if (ready.empty()) return refuse(CUDA_ERROR_INVALID_VALUE, "graph", "its edges form a circle");
        random = random * 6364136223846793005ull + 1442695040888963407ull;
        const size_t pick = wr_emulate_order_now() == 0   ? ready[0]
                            : wr_emulate_order_now() == 1 ? ready.back()
                                                          : ready[(random >> 33) % ready.size()];
        exec->nodes.push_back(*left[pick]);
        done.insert(left[pick]);
        left.erase(left.begin() + (long)pick);
    }
    return CUDA_SUCCESS;
}

CUresult instantiate(CUgraphExec *out, CUgraph graph) {
    std::unique_ptr<CUgraphExec_st> exec(new CUgraphExec_st);
    const CUresult result = sort_nodes(graph, exec.get());
    if (result != CUDA_SUCCESS) return result;
    exec->context = current_context();
    *out = exec.release();
    counted([](wr_emulate_live &l) { l.execs++; });
    return CUDA_SUCCESS;
}

void run_kernel(void *n) { ((const node *)n)->kernel.run(); }

/* Of two kernels with a programmatic edge, the second begins first; which pairs, changes from launch to launch. */
void run_graph(CUgraphExec exec) {
    const size_t n = exec->nodes.size();
    bool pair = exec->launches++ % 2 == 0;
    for (size_t i = 0; i < n; i++) {
        node &first = exec->nodes[i];
        if (first.type != CU_GRAPH_NODE_TYPE_KERNEL) {
            if (first.work) first.work();
            continue;
        }
        const bool may = i + 1 < n && exec->nodes[i + 1].programmatic && exec->nodes[i + 1].after[0] == first.self;
        if (may && pair)
            exec->nodes[++i].kernel.run(run_kernel, &first);
        else
            first.kernel.run();
        pair |= may;
    }
}

} // namespace

} // namespace driver

using namespace driver;

extern "C" {

/* ---- streams ---- */

CUresult cuStreamCreate(CUstream *out, unsigned) {
    ENTER(OTHER);
    *out = new CUstream_st;
    (*out)->context = current_context();
    const std::lock_guard<std::mutex> locked(streams().lock);
    streams().open.insert(*out);
    counted([](wr_emulate_live &l) { l.streams++; });
    return CUDA_SUCCESS;
}
CUresult cuStreamDestroy(CUstream s) {
    const CUresult injected = enter_context(__func__, GIVES_BACK);
    if (!s) return CUDA_ERROR_INVALID_HANDLE;
    drain(s);
    {
        const std::lock_guard<std::mutex> locked(streams().lock);
        streams().open.erase(s);
    }
    {
        const std::lock_guard<std::mutex> locked(s->lock);
        s->closing = true;
        s->changed.notify_all();
    }
    if (s->worker.joinable()) s->worker.join();
    delete s;
    counted([](wr_emulate_live &l) { l.streams--; });
    return injected;
}
CUresult cuStreamSynchronize(CUstream s) {
    ENTER_STREAM(WAITS, s);
    drain(stream_of(s));
    return standing();
}
CUresult cuStreamQuery(CUstream s) {
    ENTER_STREAM(WAITS, s);
    s = stream_of(s);
    const std::lock_guard<std::mutex> locked(s->lock);
    return s->queue.empty() && !s->busy ? standing() : CUDA_ERROR_NOT_READY;
}
CUresult cuLaunchHostFunc(CUstream s, CUhostFn f, void *data) {
    ENTER_STREAM(OTHER, s);
    submit(stream_of(s), [=] { f(data); });
    return CUDA_SUCCESS;
}

/* ---- events ---- */

CUresult cuEventCreate(CUevent *out, unsigned) {
    ENTER(OTHER);
    *out = new CUevent_st;
    (*out)->context = current_context();
    counted([](wr_emulate_live &l) { l.events++; });
    return CUDA_SUCCESS;
}
CUresult cuEventDestroy(CUevent e) {
    const CUresult injected = enter_context(__func__, GIVES_BACK);
    if (!e) return CUDA_ERROR_INVALID_HANDLE;
    drain_all();
    delete e;
    counted([](wr_emulate_live &l) { l.events--; });
    return injected;
}
static std::shared_ptr<CUevent_st::record> latest_of(CUevent e) {
    const std::lock_guard<std::mutex> locked(e->lock);
    return e->latest;
}
CUresult cuEventRecord(CUevent e, CUstream s) {
    ENTER_STREAM(OTHER, s);
    if (is_foreign(e->context, __func__, "an event")) return CUDA_ERROR_INVALID_HANDLE;
    auto r = std::make_shared<CUevent_st::record>();
    {
        const std::lock_guard<std::mutex> locked(e->lock);
        e->latest = r;
    }
    submit(stream_of(s), [=] {
        const double now = now_ms();
        {
            const std::lock_guard<std::mutex> locked(e->lock);
            e->ms = now;
        }
        const std::lock_guard<std::mutex> locked(r->lock);
        r->reached = true;
        r->changed.notify_all();
    });
    return CUDA_SUCCESS;
}
CUresult cuEventQuery(CUevent e) {
    ENTER(WAITS);
    const auto r = latest_of(e);
    if (!r) return CUDA_SUCCESS;
    const std::lock_guard<std::mutex> locked(r->lock);
    return r->reached ? standing() : CUDA_ERROR_NOT_READY;
}
CUresult cuEventSynchronize(CUevent e) {
    ENTER(WAITS);
    if (const auto r = latest_of(e)) r->wait();
    return standing();
}
CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned) {
    ENTER_STREAM(OTHER, s);
    if (const auto r = latest_of(e)) submit(stream_of(s), [r] { r->wait(); });
    return CUDA_SUCCESS;
}
CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to) {
    ENTER(OTHER);
    *ms = (float)(to->ms - from->ms);
    return CUDA_SUCCESS;
}
#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to) { return cuEventElapsedTime_v2(ms, from, to); }

/* ---- launches ---- */

CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params, void **extra) {
    ENTER_STREAM(WAITS, c->hStream);
    const unsigned grid[] = {c->gridDimX, c->gridDimY, c->gridDimZ},
                   block[] = {c->blockDimX, c->blockDimY, c->blockDimZ};
    launch l;
    CUresult result = make_launch(&l, f, grid, block, c->sharedMemBytes, params, extra);
    for (unsigned i = 0; i < c->numAttrs && result == CUDA_SUCCESS; i++) {
        if (c->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) result = set_cluster(&l, c->attrs[i].value);
        if (c->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION && architecture() < 90)
            result = refuse(CUDA_ERROR_NOT_SUPPORTED, __func__, "an early launch, on an older card");
    }
    if (result != CUDA_SUCCESS) return result;
    submit(stream_of(c->hStream), [l] { l.run(); });
    return CUDA_SUCCESS;
}

/* ---- graphs ---- */

CUresult cuGraphCreate(CUgraph *out, unsigned) {
    ENTER(OTHER);
    *out = new CUgraph_st;
    counted([](wr_emulate_live &l) { l.graphs++; });
    return CUDA_SUCCESS;
}
CUresult cuGraphDestroy(CUgraph graph) {
    const CUresult injected = enter_context(__func__, GIVES_BACK);
    if (!graph) return CUDA_ERROR_INVALID_HANDLE;
    delete graph;
    counted([](wr_emulate_live &l) { l.graphs--; });
    return injected;
}
CUresult cuGraphAddNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, const CUgraphEdgeData *edges,
                        size_t n, CUgraphNodeParams *p) {
    ENTER(OTHER);
    return add_node(out, graph, after, edges, n, p->type, [p](CUgraphNode made) {
        switch (p->type) {
        case CU_GRAPH_NODE_TYPE_KERNEL: return kernel_node(made, p->kernel);
        case CU_GRAPH_NODE_TYPE_MEMCPY: return memcpy_node(made, p->memcpy.copyParams);
        case CU_GRAPH_NODE_TYPE_MEMSET: return memset_node(made, p->memset);
        case CU_GRAPH_NODE_TYPE_HOST: {
            const CUDA_HOST_NODE_PARAMS_v2 h = p->host;
            made->work = [h] { h.fn(h.userData); };
            return CUDA_SUCCESS;
        }
        case CU_GRAPH_NODE_TYPE_EMPTY: return CUDA_SUCCESS;
        default: return refuse(CUDA_ERROR_NOT_SUPPORTED, "graph", "node type %d", (int)p->type);
        }
    });
}
CUresult cuGraphAddKernelNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t n,
                              const CUDA_KERNEL_NODE_PARAMS *p) {
    ENTER(OTHER);
    CUDA_KERNEL_NODE_PARAMS_v3 same;
    static_assert(sizeof(same) == sizeof(*p), "the versions differ in name only");
    memcpy(&same, p, sizeof(same));
    return add_node(out, graph, after, nullptr, n, CU_GRAPH_NODE_TYPE_KERNEL,
                    [&](CUgraphNode made) { return kernel_node(made, same); });
}
CUresult cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph graph, const CUgraphNode *after, size_t n,
                              const CUDA_MEMCPY3D *p, CUcontext) {
    ENTER(OTHER);
    return add_node(out, graph, after, nullptr, n, CU_GRAPH_NODE_TYPE_MEMCPY,
                    [&](CUgraphNode made) { return memcpy_node(made, *p); });
}
CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUlaunchAttributeID id, const CUlaunchAttributeValue *value) {
    ENTER(OTHER);
    if (!node || node->type != CU_GRAPH_NODE_TYPE_KERNEL || !value) return CUDA_ERROR_INVALID_VALUE;
    if (id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
        return refuse(CUDA_ERROR_NOT_SUPPORTED, "graph", "attribute %d of a kernel", (int)id);
    return set_cluster(&node->kernel, *value);
}
CUresult cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS *p) {
    ENTER(OTHER);
    const CUresult result = instantiate(out, graph);
    p->result_out = result == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
    return result;
}
CUresult cuGraphInstantiate(CUgraphExec *out, CUgraph graph, unsigned long long) {
    ENTER(OTHER);
    return instantiate(out, graph);
}
CUresult cuGraphUpload(CUgraphExec, CUstream) {
    ENTER(OTHER);
    return CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec exec, CUstream s) {
    ENTER_STREAM(WAITS, s);
    if (is_foreign(exec->context, __func__, "a graph")) return CUDA_ERROR_INVALID_HANDLE;
    submit(stream_of(s), [exec] { run_graph(exec); });
    return CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec exec) {
    const CUresult injected = enter_context(__func__, GIVES_BACK);
    if (!exec) return CUDA_ERROR_INVALID_HANDLE;
    drain_all();
    delete exec;
    counted([](wr_emulate_live &l) { l.execs--; });
    return injected;
}

} // extern "C"
