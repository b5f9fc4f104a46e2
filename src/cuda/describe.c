/* Owns looking at devices without opening them: what `weir version --devices` shows and what "auto" chooses by. */
#include <string.h>

#include "cuda/context.h"

/* Machine code runs on devices of its own generation with the same minor number or a later one; code of an "a" kind on
 * exactly its own. */
static bool runs_on(int capability, const char *architecture) {
    char *end;
    long built = strtol(architecture + strlen("sm_"), &end, 10);
    if (*end == 'a') return built == capability;
    return built / 10 == capability / 10 && built <= capability;
}

void wr_cuda_unfit(int capability, const char *architectures, char *why, size_t size) {
    *why = 0;
    if (capability < 80) {
        snprintf(why, size, "has compute capability %d.%d; weir needs 8.0 or later", capability / 10, capability % 10);
        return;
    }
    for (const char *a = strstr(architectures, "sm_"); a; a = strstr(a + 1, "sm_"))
        if (runs_on(capability, a)) return;
    snprintf(why, size,
             "is an sm_%d device, and this build has kernels for %s only; build with -DWEIR_CUDA_ARCHS=%d or all",
             capability, architectures, capability);
}

static weir_status get(const wr_driver *d, CUdevice device, CUdevice_attribute what, int *out, weir_error *err) {
    WR_CU(d, cuDeviceGetAttribute(out, what, device), "asking for the device's properties");
    return WEIR_OK;
}

/* The driver tells what is free of the current context's device only. */
static CUresult read_free(const wr_driver *d, CUdevice device, size_t *free_bytes) {
    CUcontext context, old;
    size_t total;
    CUresult result = d->cuDevicePrimaryCtxRetain(&context, device);
    if (result != CUDA_SUCCESS) return result;
    result = d->cuCtxPushCurrent(context);
    if (result == CUDA_SUCCESS) {
        result = d->cuMemGetInfo(free_bytes, &total);
        d->cuCtxPopCurrent(&old);
    }
    d->cuDevicePrimaryCtxRelease(device);
    return result;
}

static weir_status describe(const wr_driver *d, CUdevice device, weir_device_info *out, weir_error *err) {
    int major, minor;
    WR_CU(d, cuDeviceGetName(out->model, (int)sizeof out->model, device), "asking for the device's name");
    WR_CU(d, cuDeviceTotalMem(&out->memory_bytes, device), "asking for the device's memory");
    WR_TRY(get(d, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &major, err));
    WR_TRY(get(d, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &minor, err));
    WR_TRY(get(d, device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &out->n_units, err));
    out->capability = 10 * major + minor;
    out->driver_version = d->version;
    return WEIR_OK;
}

weir_status wr_cuda_describe(int ordinal, bool measure, weir_device_info *out, weir_error *err) {
    const wr_driver *d;
    CUdevice device;
    int count;
    *out = (weir_device_info){0};
    WR_TRY(wr_driver_load(&d, err));
    WR_CU(d, cuDeviceGetCount(&count), "counting devices");
    if (ordinal < 0 || ordinal >= count)
        return WR_FAIL(err, WEIR_E_NOT_FOUND, "there is no cuda:%d; devices on this machine: %d", ordinal, count);
    WR_CU(d, cuDeviceGet(&device, ordinal), "finding the device");
    snprintf(out->name, sizeof out->name, "cuda:%d", ordinal);
    WR_TRY(describe(d, device, out, err));
    char why[sizeof out->problem - sizeof out->name];
    wr_cuda_unfit(out->capability, wr_cuda_architectures, why, sizeof why);
    if (*why) {
        snprintf(out->problem, sizeof out->problem, "%s %s", out->name, why);
        return WEIR_OK;
    }
    CUresult result = measure ? read_free(d, device, &out->free_bytes) : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS) return WEIR_OK;
    weir_error fault;
    wr_driver_fail(d, result, "using the device", __FILE__, __LINE__, &fault);
    snprintf(out->problem, sizeof out->problem, "%.*s", (int)sizeof out->problem - 1, fault.message);
    return WEIR_OK;
}
