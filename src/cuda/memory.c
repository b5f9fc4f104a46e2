/* Owns device memory: the pool of the array runtime, lasting arenas, pinned host memory, copies. */
#include "cuda/context.h"

static weir_status too_large(wr_cuda_context *c, size_t bytes, weir_error *err) {
    size_t free_bytes = 0, total = 0;
    c->driver->cuMemGetInfo(&free_bytes, &total);
    return WR_FAIL(err, WEIR_E_MEMORY, "no memory for %zu bytes on cuda:%d: %zu of %zu are free", bytes, c->ordinal,
                   free_bytes, total);
}

/* All kernels may read it: fresh memory is zeros. */
static weir_status clear(wr_cuda_context *c, CUstream stream, CUdeviceptr p, size_t bytes, weir_error *err) {
    WR_CU(c->driver, cuMemsetD8Async(p, 0, bytes, stream), "clearing memory");
    return WEIR_OK;
}

static weir_status alloc_pooled(wr_cuda_context *c, CUstream stream, size_t bytes, void **out, weir_error *err) {
    CUdeviceptr p = 0;
    CUresult result = c->driver->cuMemAllocFromPoolAsync(&p, bytes, c->pool, stream);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) { /* what lies free in the pool in other sizes goes back first */
        wr_cuda_settle(c);
        c->driver->cuMemPoolTrimTo(c->pool, 0);
        result = c->driver->cuMemAllocFromPoolAsync(&p, bytes, c->pool, stream);
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY) return too_large(c, bytes, err);
    if (result != CUDA_SUCCESS) return wr_driver_fail(c->driver, result, "allocating memory", __FILE__, __LINE__, err);
    weir_status status = clear(c, stream, p, bytes, err);
    if (status != WEIR_OK) {
        c->driver->cuMemFreeAsync(p, stream);
        return status;
    }
    *out = (void *)p;
    return WEIR_OK;
}

weir_status wr_cuda_alloc_on(wr_cuda_context *c, CUstream stream, size_t bytes, void **out, weir_error *err) {
    *out = NULL;
    WR_TRY(wr_cuda_enter(c, err));
    weir_status status = alloc_pooled(c, stream, bytes ? bytes : 1, out, err);
    wr_cuda_leave(c);
    return status;
}

weir_status wr_cuda_alloc(void *context, size_t bytes, void **out, weir_error *err) {
    wr_cuda_context *c = context;
    return wr_cuda_alloc_on(c, c->stream, bytes, out, err);
}

void wr_cuda_free(void *context, void *p, size_t bytes) {
    (void)bytes;
    wr_cuda_context *c = context;
    if (!p || wr_cuda_enter(c, NULL) != WEIR_OK) return;
    wr_cuda_free_ordered(c, (CUdeviceptr)p);
    wr_cuda_leave(c);
}

static weir_status alloc_lasting(wr_cuda_context *c, size_t bytes, void **out, weir_error *err) {
    CUdeviceptr p = 0;
    CUresult result = c->driver->cuMemAlloc(&p, bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        wr_cuda_settle(c);
        c->driver->cuMemPoolTrimTo(c->pool, 0);
        result = c->driver->cuMemAlloc(&p, bytes);
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY) return too_large(c, bytes, err);
    if (result != CUDA_SUCCESS) return wr_driver_fail(c->driver, result, "allocating memory", __FILE__, __LINE__, err);
    weir_status status = clear(c, c->stream, p, bytes, err);
    if (status != WEIR_OK) {
        c->driver->cuMemFree(p);
        return status;
    }
    *out = (void *)p;
    return WEIR_OK;
}

weir_status wr_cuda_reserve(void *context, size_t bytes, void **out, weir_error *err) {
    wr_cuda_context *c = context;
    *out = NULL;
    WR_TRY(wr_cuda_enter(c, err));
    weir_status status = alloc_lasting(c, bytes ? bytes : 1, out, err);
    wr_cuda_leave(c);
    return status;
}

void wr_cuda_release(void *context, void *p, size_t bytes) {
    (void)bytes;
    wr_cuda_context *c = context;
    if (!p || wr_cuda_enter(c, NULL) != WEIR_OK) return;
    c->driver->cuMemFree((CUdeviceptr)p); /* waits for the device */
    wr_cuda_leave(c);
}

weir_status wr_cuda_host_alloc(void *context, size_t bytes, void **out, weir_error *err) {
    wr_cuda_context *c = context;
    *out = NULL;
    WR_TRY(wr_cuda_enter(c, err));
    CUresult result =
        c->driver->cuMemHostAlloc(out, bytes ? bytes : 1, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    wr_cuda_leave(c);
    if (result == CUDA_SUCCESS) return WEIR_OK;
    weir_status status = wr_driver_fail(c->driver, result, "pinning host memory", __FILE__, __LINE__, err);
    wr_err_context(err, "%zu bytes", bytes);
    return status;
}

void wr_cuda_host_free(void *context, void *p) {
    wr_cuda_context *c = context;
    if (!p || wr_cuda_enter(c, NULL) != WEIR_OK) return;
    c->driver->cuMemFreeHost(p);
    wr_cuda_leave(c);
}

weir_status wr_cuda_download(void *context, void *to, const void *from, size_t bytes, weir_error *err) {
    wr_cuda_context *c = context;
    WR_TRY(wr_cuda_wait(c, err)); /* by our way of waiting; what is left then is the copy */
    WR_TRY(wr_cuda_enter(c, err));
    CUresult result = c->driver->cuMemcpyDtoHAsync(to, (CUdeviceptr)from, bytes, c->stream);
    if (result == CUDA_SUCCESS) result = c->driver->cuStreamSynchronize(c->stream);
    wr_cuda_leave(c);
    if (result != CUDA_SUCCESS)
        return wr_driver_fail(c->driver, result, "copying from the device", __FILE__, __LINE__, err);
    return WEIR_OK;
}

weir_status wr_cuda_send(void *context, void *to, const void *from_host, size_t bytes, weir_error *err) {
    wr_cuda_context *c = context;
    WR_TRY(wr_cuda_enter(c, err));
    CUresult result = c->driver->cuMemcpyHtoDAsync((CUdeviceptr)to, from_host, bytes, c->stream);
    wr_cuda_leave(c);
    if (result != CUDA_SUCCESS)
        return wr_driver_fail(c->driver, result, "copying to the device", __FILE__, __LINE__, err);
    return WEIR_OK;
}

weir_status wr_cuda_upload(void *context, void *to, const void *from, size_t bytes, weir_error *err) {
    WR_TRY(wr_cuda_send(context, to, from, bytes, err));
    return wr_cuda_wait(context, err);
}

weir_status wr_cuda_fetch(void *context, void *to_host, const void *from, size_t bytes, weir_error *err) {
    wr_cuda_context *c = context;
    WR_TRY(wr_cuda_enter(c, err));
    CUresult result = c->driver->cuMemcpyDtoHAsync(to_host, (CUdeviceptr)from, bytes, c->stream);
    wr_cuda_leave(c);
    if (result != CUDA_SUCCESS)
        return wr_driver_fail(c->driver, result, "fetching from the device", __FILE__, __LINE__, err);
    return WEIR_OK;
}

weir_status wr_cuda_trim(void *context, size_t *bytes, weir_error *err) {
    wr_cuda_context *c = context;
    cuuint64_t before = 0, after = 0;
    *bytes = 0;
    WR_TRY(wr_cuda_wait(c, err)); /* frees that are pending come first */
    WR_TRY(wr_cuda_enter(c, err));
    CUresult result = wr_cuda_settle(c);
    if (result == CUDA_SUCCESS)
        result = c->driver->cuMemPoolGetAttribute(c->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &before);
    if (result == CUDA_SUCCESS) result = c->driver->cuMemPoolTrimTo(c->pool, 0);
    if (result == CUDA_SUCCESS)
        result = c->driver->cuMemPoolGetAttribute(c->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &after);
    wr_cuda_leave(c);
    if (result != CUDA_SUCCESS)
        return wr_driver_fail(c->driver, result, "trimming the memory pool", __FILE__, __LINE__, err);
    *bytes = before > after ? (size_t)(before - after) : 0;
    return WEIR_OK;
}

weir_status wr_cuda_memory(void *context, size_t *free_bytes, size_t *total_bytes, weir_error *err) {
    wr_cuda_context *c = context;
    WR_TRY(wr_cuda_enter(c, err));
    CUresult result = c->driver->cuMemGetInfo(free_bytes, total_bytes);
    wr_cuda_leave(c);
    if (result != CUDA_SUCCESS)
        return wr_driver_fail(c->driver, result, "asking for free memory", __FILE__, __LINE__, err);
    return WEIR_OK;
}
