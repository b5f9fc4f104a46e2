/* Devices by name. The only file of the room that names a backend. */
#include <string.h>

#include "array/internal.h"

weir_status weir_device_open(const char *name, int n_threads, weir_device **out, weir_error *err) {
    if (!out) return WR_FAIL(err, WEIR_E_ARGUMENT, "weir_device_open: out is NULL");
    *out = NULL;
    if (!name) return WR_FAIL(err, WEIR_E_ARGUMENT, "weir_device_open: name is NULL; \"cpu\" is a device");
    if (n_threads < 0) return WR_FAIL(err, WEIR_E_ARGUMENT, "weir_device_open: %d threads", n_threads);
    if (strcmp(name, "cpu") != 0)
        return WR_FAIL(err, WEIR_E_UNSUPPORTED, "device \"%.40s\" is not supported; \"cpu\" is", name);
    const wr_backend *backend = wr_backend_cpu();
    if (backend->check) WR_TRY(backend->check(err));
    return wr_device_open(backend, n_threads, out, err);
}
