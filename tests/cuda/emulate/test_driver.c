/* Proves the emulated driver: what weir's runtime relies on, and what the tests of the runtime rely on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>

#include "cuda/emulate/emulated.h"
#include "cuda/emulate/selftest.h"

#define OK(call) assert_int_equal((call), CUDA_SUCCESS)

static CUcontext context;
static CUmodule module;
static CUstream stream;

static int open_device(void **state) {
    (void)state;
    CUdevice device;
    OK(cuInit(0));
    OK(cuDeviceGet(&device, 0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxPushCurrent(context));
    OK(cuModuleLoadData(&module, "image"));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return 0;
}

static void test_everything_can_be_given_back(void **state) {
    (void)state;
    wr_emulate_fail_nth(0);
    wr_emulate_order(0);
    OK(cuStreamDestroy(stream));
    OK(cuModuleUnload(module));
    OK(cuCtxPopCurrent(NULL));
    OK(cuDevicePrimaryCtxRelease(0));
    const wr_emulate_live none = {0}, live = wr_emulate_live_now();
    assert_memory_equal(&live, &none, sizeof(live));
    assert_int_equal(open_device(NULL), 0);
}

static void test_fresh_memory_is_nan_and_copies_stay_inside(void **state) {
    (void)state;
    CUdeviceptr p;
    unsigned char bytes[100];
    OK(cuMemAlloc(&p, 100));
    assert_int_equal(p % 256, 0);
    OK(cuMemcpyDtoHAsync(bytes, p, 100, stream));
    OK(cuStreamSynchronize(stream));
    for (int i = 0; i < 100; i++) assert_int_equal(bytes[i], 0xFF);
    OK(cuMemsetD8Async(p + 10, 3, 90, stream));
    OK(cuMemcpyDtoHAsync(bytes, p + 9, 2, stream));
    assert_int_equal(bytes[0], 0xFF);
    assert_int_equal(bytes[1], 3);
    assert_int_equal(cuMemcpyHtoDAsync(p + 10, bytes, 91, stream), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemFree(p + 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(p));
    assert_int_equal(cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
}

static void test_memory_ends_and_pools_give_back_when_trimmed(void **state) {
    (void)state;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location.type = CU_MEM_LOCATION_TYPE_DEVICE};
    CUmemoryPool pool;
    CUdeviceptr a, b;
    size_t free_bytes, total;
    cuuint64_t reserved;
    wr_emulate_memory(1 << 20);
    OK(cuMemPoolCreate(&pool, &props));
    OK(cuMemAllocFromPoolAsync(&a, 600 << 10, pool, stream));
    assert_int_equal(cuMemAllocFromPoolAsync(&b, 600 << 10, pool, stream), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemFreeAsync(a, stream));
    assert_int_equal(cuMemAlloc(&b, 600 << 10), CUDA_ERROR_OUT_OF_MEMORY); /* the pool keeps it */
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
    assert_int_equal(reserved, 600 << 10);
    OK(cuMemAllocFromPoolAsync(&a, 600 << 10, pool, stream));
    OK(cuMemFreeAsync(a, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuMemPoolTrimTo(pool, 0));
    OK(cuMemGetInfo(&free_bytes, &total));
    assert_int_equal(free_bytes, 1 << 20);
    OK(cuMemAlloc(&b, 600 << 10));
    OK(cuMemFree(b));
    OK(cuMemPoolDestroy(pool));
    wr_emulate_memory((size_t)4 << 30);
}

/* Runs f in a child, which must die of the signal. */
static void dies(void (*f)(CUdeviceptr p), int signal_number) {
    const pid_t child = fork();
    if (child == 0) {
        CUdeviceptr p;
        signal(SIGABRT, SIG_DFL);
        signal(SIGSEGV, SIG_DFL);
        close(STDERR_FILENO);
        if (cuMemAlloc(&p, 100) == CUDA_SUCCESS) f(p);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == signal_number);
}

static void write_behind(CUdeviceptr p) {
    ((volatile char *)p)[100] = 0;
    cuMemFree(p);
}
static void write_before(CUdeviceptr p) {
    ((volatile char *)p)[-1] = 0;
    cuMemFree(p);
}
static void read_behind(CUdeviceptr p) { (void)((volatile char *)p)[256]; }
static void read_freed(CUdeviceptr p) {
    cuMemFree(p);
    (void)((volatile char *)p)[0];
}

static void test_overruns_and_use_after_free_stop_the_program(void **state) {
    (void)state;
    dies(write_behind, SIGABRT);
    dies(write_before, SIGABRT);
#ifndef __SANITIZE_ADDRESS__ /* which ends the program with words instead */
    dies(read_behind, SIGSEGV);
    dies(read_freed, SIGSEGV);
#else
    (void)read_behind, (void)read_freed;
#endif
}

static void test_calls_need_a_current_context(void **state) {
    (void)state;
    CUdeviceptr p;
    OK(cuCtxPopCurrent(NULL));
    assert_int_equal(cuMemAlloc(&p, 100), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuCtxPushCurrent(context));
}

static void test_launches_are_checked(void **state) {
    (void)state;
    CUfunction f;
    CUdeviceptr out;
    uint32_t host[128];
    assert_int_equal(cuModuleGetFunction(&f, module, "no_such_kernel"), CUDA_ERROR_NOT_FOUND);
    OK(cuModuleGetFunction(&f, module, "selftest_chain"));
    OK(cuMemAlloc(&out, sizeof(host)));
    OK(cuMemsetD8Async(out, 0, sizeof(host), stream));
    selftest_params p = {.out = (void *)out};
    void *params[] = {&p};
    CUlaunchConfig c = {2, 1, 1, 64, 1, 1, 0, stream, NULL, 0};
    OK(cuLaunchKernelEx(&c, f, params, NULL));
    OK(cuMemcpyDtoHAsync(host, out, sizeof(host), stream));
    OK(cuStreamSynchronize(stream));
    for (int i = 0; i < 128; i++) assert_int_equal(host[i], 1);
    c.blockDimX = 65;
    assert_int_equal(cuLaunchKernelEx(&c, f, params, NULL), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    c.blockDimX = 64;
    c.sharedMemBytes = 49153;
    assert_int_equal(cuLaunchKernelEx(&c, f, params, NULL), CUDA_ERROR_INVALID_VALUE);
    OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000));
    OK(cuLaunchKernelEx(&c, f, params, NULL));
    c.gridDimX = 0;
    assert_int_equal(cuLaunchKernelEx(&c, f, params, NULL), CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamSynchronize(stream));
    OK(cuMemFree(out));
}

/* A chain of n kernels with programmatic edges, launched twice; the sums of what it added. */
static void run_chain(int n, int what, uint32_t sums[2]) {
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode last = NULL, node;
    CUfunction f;
    CUdeviceptr out;
    uint32_t host[64];
    OK(cuModuleGetFunction(&f, module, "selftest_chain"));
    OK(cuMemAlloc(&out, sizeof(host)));
    OK(cuGraphCreate(&graph, 0));
    selftest_params p = {.out = (void *)out, .what = what};
    void *params[] = {&p};
    for (int i = 0; i < n; i++, last = node) {
        CUgraphNodeParams k = {.type = CU_GRAPH_NODE_TYPE_KERNEL,
                               .kernel = {.func = f,
                                          .gridDimX = 1,
                                          .gridDimY = 1,
                                          .gridDimZ = 1,
                                          .blockDimX = 64,
                                          .blockDimY = 1,
                                          .blockDimZ = 1,
                                          .kernelParams = params}};
        CUgraphEdgeData edge = {.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
                                .type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
        OK(cuGraphAddNode(&node, graph, &last, &edge, i > 0, &k));
    }
    p.out = NULL; /* it was copied */
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    OK(cuGraphUpload(exec, stream));
    for (int launch = 0; launch < 2; launch++) {
        OK(cuMemsetD8Async(out, 0, sizeof(host), stream));
        OK(cuGraphLaunch(exec, stream));
        OK(cuMemcpyDtoHAsync(host, out, sizeof(host), stream));
        OK(cuStreamSynchronize(stream));
        sums[launch] = 0;
        for (int i = 0; i < 64; i++) sums[launch] += host[i];
    }
    OK(cuGraphExecDestroy(exec));
    OK(cuMemFree(out));
}

static void test_a_graph_runs_in_order_and_shows_kernels_that_read_too_early(void **state) {
    (void)state;
    uint32_t sums[2];
    const long before = wr_emulate_launches();
    for (int order = 0; order < 3; order++) {
        wr_emulate_order(order);
        run_chain(5, 0, sums);
        assert_int_equal(sums[0], 5 * 64);
        assert_int_equal(sums[1], 5 * 64);
        run_chain(2, 1, sums);
        assert_true(sums[0] < 2 * 64); /* the pair overlaps in the first launch */
    }
    assert_int_equal(wr_emulate_launches() - before, 3 * 2 * (5 + 2));
}

/* Of selftest_cluster: each thread of 8 blocks has the number of the thread before in a cluster of 4. */
static void check_passed(CUdeviceptr out) {
    float host[8 * 64];
    OK(cuMemcpyDtoHAsync(host, out, sizeof(host), stream));
    OK(cuStreamSynchronize(stream));
    for (int i = 0; i < 8 * 64; i++) assert_true(host[i] == (float)(100 * (i / 256 * 4 + (i / 64 + 3) % 4) + i % 64));
    OK(cuMemsetD8Async(out, 0, sizeof(host), stream));
}

static void test_clusters_are_an_attribute_of_launches_and_of_nodes(void **state) {
    (void)state;
    CUfunction f;
    CUdeviceptr out;
    OK(cuModuleGetFunction(&f, module, "selftest_cluster"));
    OK(cuMemAlloc(&out, 8 * 64 * sizeof(float)));
    selftest_params p = {.out = (void *)out, .n = 1, .k = 4};
    void *params[] = {&p};
    CUlaunchAttribute four = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value = {.clusterDim = {4, 1, 1}}};
    CUlaunchConfig c = {8, 1, 1, 64, 1, 1, 1040, stream, &four, 1};
    OK(cuLaunchKernelEx(&c, f, params, NULL));
    check_passed(out);
    four.value.clusterDim.x = 3;
    assert_int_equal(cuLaunchKernelEx(&c, f, params, NULL), CUDA_ERROR_INVALID_CLUSTER_SIZE);

    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode node;
    CUgraphNodeParams k = {.type = CU_GRAPH_NODE_TYPE_KERNEL,
                           .kernel = {.func = f,
                                      .gridDimX = 8,
                                      .gridDimY = 1,
                                      .gridDimZ = 1,
                                      .blockDimX = 64,
                                      .blockDimY = 1,
                                      .blockDimZ = 1,
                                      .sharedMemBytes = 1040,
                                      .kernelParams = params}};
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddNode(&node, graph, NULL, NULL, 0, &k));
    assert_int_equal(cuGraphKernelNodeSetAttribute(node, four.id, &four.value), CUDA_ERROR_INVALID_CLUSTER_SIZE);
    four.value.clusterDim.x = 4;
    OK(cuGraphKernelNodeSetAttribute(node, four.id, &four.value));
    OK(cuGraphInstantiate(&exec, graph, 0));
    OK(cuGraphDestroy(graph));
    OK(cuGraphLaunch(exec, stream));
    check_passed(out);
    OK(cuGraphExecDestroy(exec));
    OK(cuMemFree(out));
}

static void test_events_are_passed_once_the_work_before_them_is_done(void **state) {
    (void)state;
    CUevent a, b;
    float ms = -1;
    OK(cuEventCreate(&a, 0));
    OK(cuEventCreate(&b, 0));
    OK(cuEventQuery(a)); /* never recorded */
    OK(cuEventRecord(a, stream));
    OK(cuEventRecord(b, stream));
    OK(cuStreamWaitEvent(stream, a, 0));
    OK(cuEventSynchronize(b));
    OK(cuEventQuery(b));
    OK(cuEventElapsedTime(&ms, a, b));
    assert_true(ms >= 0);
    OK(cuEventDestroy(a));
    OK(cuEventDestroy(b));
}

static void test_the_nth_call_fails_once(void **state) {
    (void)state;
    CUdeviceptr a, b;
    wr_emulate_fail_nth(2);
    OK(cuMemAlloc(&a, 16));
    assert_int_equal(cuMemAlloc(&b, 16), CUDA_ERROR_OUT_OF_MEMORY);
    assert_string_equal(wr_emulate_failed(), "cuMemAlloc_v2");
    OK(cuMemAlloc(&b, 16));
    assert_int_equal(wr_emulate_calls(), 3);
    wr_emulate_fail_nth(1);
    assert_int_equal(cuMemFree(a), CUDA_ERROR_LAUNCH_FAILED); /* and yet it is freed */
    assert_int_equal(wr_emulate_live_now().allocations, 1);
    wr_emulate_fail_nth(1);
    assert_int_equal(cuStreamSynchronize(stream), CUDA_ERROR_LAUNCH_FAILED);
    OK(cuMemFree(b));
}

static long n_seen;
static void see(void *name, const char *called, long n) {
    if (!strcmp(name, called)) n_seen = n;
}
static long calls_of(char *name) {
    n_seen = 0;
    wr_emulate_each_call(see, name);
    return n_seen;
}

static void test_calls_are_counted_by_name(void **state) {
    (void)state;
    CUevent e;
    const long before = calls_of("cuEventCreate"), others = calls_of("cuStreamCreate");
    OK(cuEventCreate(&e, 0));
    OK(cuEventDestroy(e));
    assert_int_equal(calls_of("cuEventCreate") - before, 1);
    assert_int_equal(calls_of("cuStreamCreate") - others, 0);
}

/* An image as nvcc makes it, with code for one kind of card. */
static CUresult load_image_of(uint32_t architecture) {
    struct {
        uint32_t magic;
        uint16_t version, head_bytes;
        uint64_t bytes;
        uint16_t kind, code_version;
        uint32_t code_head_bytes;
        uint64_t code_bytes;
        uint32_t more[3], architecture;
        char code[16];
    } image = {0xBA55ED50, 1, 16, 48, 2, 1, 32, 16, {0}, architecture, ""};
    CUmodule m;
    const CUresult result = cuModuleLoadData(&m, &image);
    if (result == CUDA_SUCCESS) OK(cuModuleUnload(m));
    return result;
}

static void test_an_image_for_other_cards_is_refused_where_that_was_asked_for(void **state) {
    (void)state;
    OK(load_image_of(80));
    setenv("WR_EMULATE_IMAGES", "1", 1);
    OK(load_image_of(90));
    assert_int_equal(load_image_of(80), CUDA_ERROR_NO_BINARY_FOR_GPU);
    assert_int_equal(load_image_of(100), CUDA_ERROR_NO_BINARY_FOR_GPU);
    unsetenv("WR_EMULATE_IMAGES");
}

static CUresult launch_over(CUfunction f, CUstream s, CUdeviceptr x, CUdeviceptr out) {
    const double a = 2;
    const int64_t n = 8;
    void *params[] = {&x, &x, &out, (void *)&a, (void *)&n};
    CUlaunchConfig c = {1, 1, 1, 32, 1, 1, 0, s, NULL, 0};
    return cuLaunchKernelEx(&c, f, params, NULL);
}

/* What is made on one is nothing to the other; but a fault is the whole process's, as it is with NVIDIA's driver. */
static void test_two_cards_are_apart_and_lost_together(void **state) {
    (void)state;
    CUcontext second;
    CUstream other;
    CUmodule m;
    CUfunction wild, axpy, first_axpy;
    CUdeviceptr here, there;
    CUdevice device;
    float host[8];
    size_t free_bytes, total;
    int n;
    OK(cuDeviceGetCount(&n));
    assert_int_equal(n, 2);
    assert_int_equal(cuDeviceGet(&device, 2), CUDA_ERROR_INVALID_DEVICE);
    OK(cuMemAlloc(&here, 1000));
    OK(cuModuleGetFunction(&first_axpy, module, "selftest_custom_axpy"));
    OK(cuDevicePrimaryCtxRetain(&second, 1));
    OK(cuCtxPushCurrent(second));
    OK(cuMemGetInfo(&free_bytes, &total));
    assert_int_equal(free_bytes, total); /* none of the first card's */
    OK(cuMemAlloc(&there, 1000));
    OK(cuStreamCreate(&other, 0));
    OK(cuModuleLoadData(&m, "image"));
    OK(cuModuleGetFunction(&axpy, m, "selftest_custom_axpy"));
    OK(cuModuleGetFunction(&wild, m, "selftest_custom_wild"));
    assert_int_equal(cuMemsetD8Async(there, 0, 32, stream), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cuMemsetD8Async(here, 0, 32, other), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(launch_over(first_axpy, other, there, there), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(launch_over(axpy, other, here, there), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemsetD8Async(there, 0, 1000, other));
    OK(launch_over(axpy, other, there, there + 512));
    OK(launch_over(wild, other, there, there)); /* the fault comes out later */
    assert_int_equal(cuStreamSynchronize(other), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(launch_over(axpy, other, there, there), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuMemGetInfo(&free_bytes, &total), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuMemFree(there), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuStreamDestroy(other), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuModuleUnload(m), CUDA_ERROR_ILLEGAL_ADDRESS);
    OK(cuCtxPopCurrent(NULL));
    assert_int_equal(launch_over(first_axpy, stream, here, here + 512), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuMemcpyDtoHAsync(host, here, sizeof(host), stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cuDevicePrimaryCtxRetain(&second, 0), CUDA_ERROR_ILLEGAL_ADDRESS);
}

int main(void) {
    setenv("WR_EMULATE_DEVICES", "2", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fresh_memory_is_nan_and_copies_stay_inside),
        cmocka_unit_test(test_memory_ends_and_pools_give_back_when_trimmed),
        cmocka_unit_test(test_overruns_and_use_after_free_stop_the_program),
        cmocka_unit_test(test_calls_need_a_current_context),
        cmocka_unit_test(test_launches_are_checked),
        cmocka_unit_test(test_a_graph_runs_in_order_and_shows_kernels_that_read_too_early),
        cmocka_unit_test(test_clusters_are_an_attribute_of_launches_and_of_nodes),
        cmocka_unit_test(test_events_are_passed_once_the_work_before_them_is_done),
        cmocka_unit_test(test_the_nth_call_fails_once),
        cmocka_unit_test(test_calls_are_counted_by_name),
        cmocka_unit_test(test_an_image_for_other_cards_is_refused_where_that_was_asked_for),
        cmocka_unit_test(test_everything_can_be_given_back),
        cmocka_unit_test(test_two_cards_are_apart_and_lost_together), /* the last: nothing can be closed after it */
    };
    return cmocka_run_group_tests(tests, open_device, NULL);
}
