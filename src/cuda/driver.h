/* The NVIDIA driver's functions, found at run time: weir starts on machines without a driver. */
#ifndef WR_CUDA_DRIVER_H
#define WR_CUDA_DRIVER_H

#include <cuda.h>

#include "base/status.h"

/* cuda.h maps names to versions by macros; the list is expanded through them. */
#define WR_DRIVER_LIST(X)                                                                                              \
    X(cuInit)                                                                                                          \
    X(cuDriverGetVersion)                                                                                              \
    X(cuGetErrorName)                                                                                                  \
    X(cuGetErrorString)                                                                                                \
    X(cuDeviceGetCount)                                                                                                \
    X(cuDeviceGet)                                                                                                     \
    X(cuDeviceGetName)                                                                                                 \
    X(cuDeviceGetAttribute)                                                                                            \
    X(cuDeviceTotalMem)                                                                                                \
    X(cuDevicePrimaryCtxRetain)                                                                                        \
    X(cuDevicePrimaryCtxRelease)                                                                                       \
    X(cuCtxPushCurrent)                                                                                                \
    X(cuCtxPopCurrent)                                                                                                 \
    X(cuModuleLoadData)                                                                                                \
    X(cuModuleUnload)                                                                                                  \
    X(cuModuleGetFunction)                                                                                             \
    X(cuFuncSetAttribute)                                                                                              \
    X(cuFuncGetAttribute)                                                                                              \
    X(cuFuncLoad)                                                                                                      \
    X(cuFuncGetParamInfo)                                                                                              \
    X(cuMemGetInfo)                                                                                                    \
    X(cuMemAlloc)                                                                                                      \
    X(cuMemFree)                                                                                                       \
    X(cuMemHostAlloc)                                                                                                  \
    X(cuMemFreeHost)                                                                                                   \
    X(cuMemcpyHtoDAsync)                                                                                               \
    X(cuMemcpyDtoHAsync)                                                                                               \
    X(cuMemsetD8Async)                                                                                                 \
    X(cuMemPoolCreate)                                                                                                 \
    X(cuMemPoolDestroy)                                                                                                \
    X(cuMemPoolTrimTo)                                                                                                 \
    X(cuMemPoolGetAttribute)                                                                                           \
    X(cuMemPoolSetAttribute)                                                                                           \
    X(cuMemAllocFromPoolAsync)                                                                                         \
    X(cuMemFreeAsync)                                                                                                  \
    X(cuStreamCreate)                                                                                                  \
    X(cuStreamDestroy)                                                                                                 \
    X(cuStreamSynchronize)                                                                                             \
    X(cuStreamWaitEvent)                                                                                               \
    X(cuEventCreate)                                                                                                   \
    X(cuEventDestroy)                                                                                                  \
    X(cuEventRecord)                                                                                                   \
    X(cuEventQuery)                                                                                                    \
    X(cuEventSynchronize)                                                                                              \
    X(cuLaunchKernelEx)                                                                                                \
    X(cuLaunchHostFunc)                                                                                                \
    X(cuGraphCreate)                                                                                                   \
    X(cuGraphDestroy)                                                                                                  \
    X(cuGraphAddNode)                                                                                                  \
    X(cuGraphKernelNodeSetAttribute)                                                                                   \
    X(cuGraphInstantiate)                                                                                              \
    X(cuGraphExecDestroy)                                                                                              \
    X(cuGraphUpload)                                                                                                   \
    X(cuGraphLaunch)

typedef struct wr_driver {
#define WR_DRIVER_FIELD(name) __typeof__(&name) name;
    WR_DRIVER_LIST(WR_DRIVER_FIELD)
#undef WR_DRIVER_FIELD
    int version; /* 12080 for CUDA 12.8 */
} wr_driver;

/* The loaded driver; the same for the whole process, never unloaded. WEIR_CUDA_DRIVER names another library than the
 * system's libcuda.so.1. Errors: NOT_FOUND when there is none or it finds no card, UNSUPPORTED when it is too old or
 * the named one does not do, DEVICE when it does not start. Any thread. */
weir_status wr_driver_load(const wr_driver **out, weir_error *err);

/* A status for a result: MEMORY for want of memory, else DEVICE, with the driver's name of the fault and what was
 * being done. */
weir_status wr_driver_fail(const wr_driver *driver, CUresult result, const char *doing, const char *file, int line,
                           weir_error *err);
#define WR_CU(driver, call, doing)                                                                                     \
    do {                                                                                                               \
        CUresult wr_cu_result_ = (driver)->call;                                                                       \
        if (wr_cu_result_ != CUDA_SUCCESS)                                                                             \
            return wr_driver_fail((driver), wr_cu_result_, (doing), __FILE__, __LINE__, err);                          \
    } while (0)

#endif
