/* Owns opening and closing of devices and the kernels loaded on them. Closing gives everything back, but nobody need
 * close: no exit handler and no destructor calls the driver. */
#include <string.h>

#include "base/mem.h"
#include "cuda/context.h"

/* The kernels for all architectures, as nvcc made them: one image a kernel file, embedded by the build. */
extern const void *const wr_cuda_images[];
extern const int wr_cuda_n_images;

weir_status wr_cuda_enter(const wr_cuda_context *c, weir_error *err) {
    WR_CU(c->driver, cuCtxPushCurrent(c->context), "making the device current");
    return WEIR_OK;
}

void wr_cuda_leave(const wr_cuda_context *c) {
    CUcontext old;
    c->driver->cuCtxPopCurrent(&old);
}

static weir_status get(const wr_cuda_context *c, CUdevice_attribute what, int *out, weir_error *err) {
    WR_CU(c->driver, cuDeviceGetAttribute(out, what, c->device), "asking for the device's properties");
    return WEIR_OK;
}

static weir_status read_traits(wr_cuda_context *c, weir_error *err) {
    int major, minor, shared, l2;
    WR_TRY(get(c, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major, err));
    WR_TRY(get(c, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor, err));
    WR_TRY(get(c, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &c->traits.n_sm, err));
    WR_TRY(get(c, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, &shared, err));
    WR_TRY(get(c, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, &l2, err));
    c->traits.arch = 10 * major + minor;
    c->traits.shared_bytes = (size_t)shared;
    c->traits.l2_bytes = (size_t)l2;
    c->traits.hopper = c->traits.arch == 90 && strstr(wr_cuda_architectures, "sm_90a") != NULL;
    if (c->traits.arch < 80)
        return WR_FAIL(err, WEIR_E_UNSUPPORTED, "cuda:%d has compute capability %d.%d; weir needs 8.0 or later",
                       c->ordinal, major, minor);
    return WEIR_OK;
}

static weir_status load_kernels(wr_cuda_context *c, weir_error *err) {
    wr_assert(wr_cuda_n_images <= WR_CUDA_MAX_IMAGES);
    for (c->n_modules = 0; c->n_modules < wr_cuda_n_images; c->n_modules++) {
        CUresult result = c->driver->cuModuleLoadData(&c->modules[c->n_modules], wr_cuda_images[c->n_modules]);
        if (result == CUDA_ERROR_NO_BINARY_FOR_GPU)
            return WR_FAIL(err, WEIR_E_UNSUPPORTED,
                           "cuda:%d is an sm_%d device, and this build has kernels for %s only; build with "
                           "-DWEIR_CUDA_ARCHS=%d or all",
                           c->ordinal, c->traits.arch, wr_cuda_architectures, c->traits.arch);
        if (result != CUDA_SUCCESS)
            return wr_driver_fail(c->driver, result, "loading the kernels", __FILE__, __LINE__, err);
    }
    return WEIR_OK;
}

static weir_status open_pool(wr_cuda_context *c, weir_error *err) {
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = c->device}};
    WR_CU(c->driver, cuMemPoolCreate(&c->pool, &props), "making a memory pool");
    cuuint64_t keep = UINT64_MAX; /* freed memory stays in the pool until it is trimmed */
    WR_CU(c->driver, cuMemPoolSetAttribute(c->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep), "setting up the pool");
    return WEIR_OK;
}

static weir_status open_in_context(wr_cuda_context *c, weir_error *err) {
    WR_TRY(load_kernels(c, err));
    WR_CU(c->driver, cuStreamCreate(&c->stream, CU_STREAM_NON_BLOCKING), "making a stream");
    for (int i = 0; i <= WR_RUNTIME_MARKS; i++)
        WR_CU(c->driver, cuEventCreate(&c->marks[i].event, CU_EVENT_DISABLE_TIMING), "making an event");
    return open_pool(c, err);
}

static weir_status open_device(wr_cuda_context *c, weir_error *err) {
    WR_TRY(wr_driver_load(&c->driver, err));
    int count;
    WR_CU(c->driver, cuDeviceGetCount(&count), "counting devices");
    if (c->ordinal < 0 || c->ordinal >= count)
        return WR_FAIL(err, WEIR_E_NOT_FOUND, "there is no cuda:%d; this machine has cuda:0%s%.0d", c->ordinal,
                       count > 1 ? " to cuda:" : "", count > 1 ? count - 1 : 0);
    WR_CU(c->driver, cuDeviceGet(&c->device, c->ordinal), "finding the device");
    WR_TRY(read_traits(c, err));
    WR_CU(c->driver, cuDevicePrimaryCtxRetain(&c->context, c->device), "opening the device");
    WR_TRY(wr_cuda_enter(c, err));
    weir_status status = open_in_context(c, err);
    wr_cuda_leave(c);
    return status;
}

weir_status wr_cuda_open(int ordinal, void **out, weir_error *err) {
    *out = NULL;
    wr_cuda_context *c = wr_calloc(1, sizeof *c);
    if (!c) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a device");
    c->ordinal = ordinal;
    pthread_mutex_init(&c->functions_lock, NULL);
    pthread_mutex_init(&c->wait_lock, NULL);
    pthread_mutex_init(&c->streams_lock, NULL);
    weir_status status = open_device(c, err);
    if (status != WEIR_OK) {
        wr_cuda_close(c);
        return status;
    }
    *out = c;
    return WEIR_OK;
}

void wr_cuda_close(void *context) {
    wr_cuda_context *c = context;
    if (!c) return;
    if (c->context && wr_cuda_enter(c, NULL) == WEIR_OK) {
        const wr_driver *d = c->driver;
        if (c->stream) d->cuStreamSynchronize(c->stream);
        if (c->freeing) d->cuStreamSynchronize(c->freeing);
        if (c->pool) d->cuMemPoolDestroy(c->pool);
        for (int i = 0; i <= WR_RUNTIME_MARKS; i++)
            if (c->marks[i].event) d->cuEventDestroy(c->marks[i].event);
        if (c->fence) d->cuEventDestroy(c->fence);
        if (c->freeing) d->cuStreamDestroy(c->freeing);
        if (c->stream) d->cuStreamDestroy(c->stream);
        for (int i = 0; i < c->n_modules; i++) d->cuModuleUnload(c->modules[i]);
        wr_cuda_leave(c);
    }
    if (c->context) c->driver->cuDevicePrimaryCtxRelease(c->device);
    pthread_mutex_destroy(&c->functions_lock);
    pthread_mutex_destroy(&c->wait_lock);
    pthread_mutex_destroy(&c->streams_lock);
    wr_free(c);
}

const void *wr_cuda_device_traits(const void *context) { return &((const wr_cuda_context *)context)->traits; }

/* ---- kernels by name ---- */

static unsigned hash_name(const char *name) {
    unsigned h = 2166136261u;
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 16777619u;
    return h;
}

/* Loaded now rather than at its first launch, and allowed all the shared memory that a block may have.
 *
 * A multiprocessor's memory is divided between shared memory and L1, in which loads on their way take room (H200, 4
 * bits, one row of [12288, 4096]: 8.43 us with all of it shared, 7.75 with 72 %). As few different answers as can be: a
 * multiprocessor has to run empty before it is divided anew, and no kernel can begin beside the end of another. A
 * decode step of 8 layers of an 8B model for one sequence, all kernels at 100, attention alone, none: 562, 557, 550 us.
 */
static weir_status prepare(wr_cuda_context *c, const char *name, bool all_shared, CUfunction *out, weir_error *err) {
    CUresult result = CUDA_ERROR_NOT_FOUND;
    for (int i = 0; i < c->n_modules && result == CUDA_ERROR_NOT_FOUND; i++)
        result = c->driver->cuModuleGetFunction(out, c->modules[i], name);
    if (result != CUDA_SUCCESS) return wr_driver_fail(c->driver, result, name, __FILE__, __LINE__, err);
    WR_CU(c->driver, cuFuncLoad(*out), name);
    int fixed;
    WR_CU(c->driver, cuFuncGetAttribute(&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, *out), name);
    WR_CU(
        c->driver,
        cuFuncSetAttribute(*out, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)c->traits.shared_bytes - fixed),
        name);
    WR_CU(c->driver,
          cuFuncSetAttribute(*out, CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                             all_shared ? 100 : WR_SHARED_PERCENT),
          name);
    return WEIR_OK;
}

/* Callers may build the name on their stack: it is copied. */
weir_status wr_cuda_find(wr_cuda_context *c, const wr_launch_spec *spec, CUfunction *out, weir_error *err) {
    const char *kernel = spec->kernel;
    weir_status status = WEIR_OK;
    wr_assert(strlen(kernel) < WR_CUDA_NAME_BYTES);
    pthread_mutex_lock(&c->functions_lock);
    unsigned at = hash_name(kernel) & (WR_CUDA_MAX_FUNCTIONS - 1);
    while (*c->functions[at].name && strcmp(c->functions[at].name, kernel) != 0)
        at = (at + 1) & (WR_CUDA_MAX_FUNCTIONS - 1);
    wr_cuda_function *f = &c->functions[at];
    if (!*f->name) {
        wr_assert(c->n_functions < WR_CUDA_MAX_FUNCTIONS / 2);
        status = prepare(c, kernel, spec->all_shared, &f->function, err);
        if (status == WEIR_OK) {
            snprintf(f->name, sizeof f->name, "%s", kernel);
            c->n_functions++;
        }
    }
    *out = f->function;
    pthread_mutex_unlock(&c->functions_lock);
    return status;
}
