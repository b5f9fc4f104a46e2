/* Owns the loading of the NVIDIA driver. Nothing here is undone at exit: the driver looks after itself, and a
 * destructor that calls it could run after it has shut down. */
#include "cuda/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static wr_driver loaded;
static bool is_loaded;

enum { OLDEST_VERSION = 12040 };

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)

static weir_status find_functions(void *library, wr_driver *d, weir_error *err) {
    static const struct {
        const char *name;
        size_t offset;
    } functions[] = {
#define FUNCTION(name) {TEXT(name), offsetof(wr_driver, name)},
        WR_DRIVER_LIST(FUNCTION)
#undef FUNCTION
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *f = dlsym(library, functions[i].name);
        if (!f)
            return WR_FAIL(err, WEIR_E_UNSUPPORTED,
                           "the NVIDIA driver is too old: it has no %s; weir needs one for CUDA %d.%d or later",
                           functions[i].name, OLDEST_VERSION / 1000, OLDEST_VERSION % 1000 / 10);
        memcpy((char *)d + functions[i].offset, &f, sizeof f);
    }
    return WEIR_OK;
}

static weir_status load(wr_driver *d, weir_error *err) {
    const char *path = getenv("WEIR_CUDA_DRIVER");
    bool named = path && *path;
    void *library = dlopen(named ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library && named) return WR_FAIL(err, WEIR_E_UNSUPPORTED, "WEIR_CUDA_DRIVER is \"%s\": %s", path, dlerror());
    if (!library) return WR_FAIL(err, WEIR_E_NOT_FOUND, "no NVIDIA driver on this machine (libcuda.so.1 not found)");
    WR_TRY(find_functions(library, d, err));
    CUresult result = d->cuInit(0);
    if (result == CUDA_ERROR_NO_DEVICE) return WR_FAIL(err, WEIR_E_NOT_FOUND, "the NVIDIA driver finds no card");
    if (result != CUDA_SUCCESS) return wr_driver_fail(d, result, "starting the driver", __FILE__, __LINE__, err);
    WR_CU(d, cuDriverGetVersion(&d->version), "asking for the driver's version");
    if (d->version < OLDEST_VERSION)
        return WR_FAIL(err, WEIR_E_UNSUPPORTED,
                       "the NVIDIA driver is for CUDA %d.%d; weir needs one for CUDA %d.%d or later", d->version / 1000,
                       d->version % 1000 / 10, OLDEST_VERSION / 1000, OLDEST_VERSION % 1000 / 10);
    return WEIR_OK;
}

weir_status wr_driver_load(const wr_driver **out, weir_error *err) {
    weir_status status = WEIR_OK;
    pthread_mutex_lock(&lock);
    if (!is_loaded) status = load(&loaded, err);
    if (status == WEIR_OK) is_loaded = true;
    pthread_mutex_unlock(&lock);
    *out = status == WEIR_OK ? &loaded : NULL;
    return status;
}

/* Faults of a running kernel: the context is lost with it, and CUDA gives the process no other. */
static bool is_lost(CUresult result) {
    switch (result) {
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED: return true;
    default: return false;
    }
}

weir_status wr_driver_fail(const wr_driver *driver, CUresult result, const char *doing, const char *file, int line,
                           weir_error *err) {
    const char *name = NULL, *text = NULL;
    driver->cuGetErrorName(result, &name);
    driver->cuGetErrorString(result, &text);
    weir_status code = result == CUDA_ERROR_OUT_OF_MEMORY ? WEIR_E_MEMORY : WEIR_E_DEVICE;
    return wr_fail_at(err, code, file, line, "%s: %s (%s, %d)%s", doing, text ? text : "unknown fault",
                      name ? name : "?", (int)result,
                      is_lost(result) ? ": a kernel failed, and nothing more runs on any GPU in this process" : "");
}
