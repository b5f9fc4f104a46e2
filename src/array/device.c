/* Devices by name: the only file of the room that names backends. The CUDA backend is a library of its own, loaded
 * when it is first asked for, so that the rest starts on any machine; it is never unloaded. */
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "array/internal.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const wr_backend *cuda;

static const char LIBRARY[] = "libweir-cuda.so";

/* The folder of this code: of libweir.so, or of the program it was linked into. */
static void own_folder(char *out, size_t size) {
    Dl_info info;
    const char *slash = NULL;
    *out = 0;
    if (dladdr((void *)wr_device_backend, &info) && info.dli_fname) slash = strrchr(info.dli_fname, '/');
    if (slash) snprintf(out, size, "%.*s", (int)(slash - info.dli_fname), info.dli_fname);
}

static void *open_at(const char *path, const char *named_by, weir_error *err) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) WR_FAIL(err, WEIR_E_UNSUPPORTED, "%s\"%.300s\" cannot be loaded: %s", named_by, path, dlerror());
    return library;
}

/* Search order: WEIR_CUDA_LIBRARY; the folder of this code and its neighbours; the system's own search. */
static void *open_library(weir_error *err) {
    const char *named = getenv("WEIR_CUDA_LIBRARY");
    if (named && *named) return open_at(named, "WEIR_CUDA_LIBRARY is ", err);
    char folder[PATH_MAX], path[PATH_MAX + 64];
    own_folder(folder, sizeof folder);
    static const char *const places[] = {"/", "/weir/", "/../", "/../lib/weir/", "/../lib/"};
    for (size_t i = 0; *folder && i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s%s%s", folder, places[i], LIBRARY);
        if (access(path, F_OK) == 0) return open_at(path, "", err);
    }
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        WR_FAIL(err, WEIR_E_UNSUPPORTED, "%s was not found (beside %s): this build of weir is for the CPU only",
                LIBRARY, *folder ? folder : "the program");
    return library;
}

static weir_status load_cuda(const wr_backend **out, weir_error *err) {
    void *library = open_library(err);
    if (!library) return WEIR_E_UNSUPPORTED;
    const wr_backend *(*entry)(int);
    void *symbol = dlsym(library, "wr_backend_cuda");
    memcpy(&entry, &symbol, sizeof entry);
    *out = symbol ? entry(WR_BACKEND_VERSION) : NULL;
    if (*out) return WEIR_OK;
    dlclose(library);
    return WR_FAIL(err, WEIR_E_UNSUPPORTED, "%s is of another version of weir; install both from one build", LIBRARY);
}

static weir_status cuda_backend(const wr_backend **out, weir_error *err) {
    weir_status status = WEIR_OK;
    pthread_mutex_lock(&lock);
    if (!cuda) status = load_cuda(&cuda, err);
    *out = cuda;
    pthread_mutex_unlock(&lock);
    return status == WEIR_OK ? (*out)->check(err) : status;
}

weir_status wr_device_backend(const char *name, const wr_backend **backend, int *ordinal, weir_error *err) {
    *backend = NULL;
    *ordinal = 0;
    if (!name) return WR_FAIL(err, WEIR_E_ARGUMENT, "the device's name is NULL; there are \"cpu\" and \"cuda\"");
    if (!strcmp(name, "cpu")) {
        *backend = wr_backend_cpu();
        return (*backend)->check ? (*backend)->check(err) : WEIR_OK;
    }
    if (!strncmp(name, "cuda", 4) && (!name[4] || name[4] == ':')) {
        if (name[4]) {
            char *end;
            long n = strtol(name + 5, &end, 10);
            if (end == name + 5 || *end || n < 0 || n > 1023)
                return WR_FAIL(err, WEIR_E_ARGUMENT, "device \"%.40s\": after cuda: comes a number, as in cuda:0",
                               name);
            *ordinal = (int)n;
        }
        return cuda_backend(backend, err);
    }
    return WR_FAIL(err, WEIR_E_UNSUPPORTED, "device \"%.40s\" is not known; there are cpu, cuda and cuda:N", name);
}

weir_status weir_device_open(const char *name, int n_threads, weir_device **out, weir_error *err) {
    if (!out) return WR_FAIL(err, WEIR_E_ARGUMENT, "weir_device_open: out is NULL");
    *out = NULL;
    if (n_threads < 0) return WR_FAIL(err, WEIR_E_ARGUMENT, "weir_device_open: %d threads", n_threads);
    const wr_backend *backend;
    int ordinal;
    WR_TRY(wr_device_backend(name, &backend, &ordinal, err));
    return wr_device_open(backend, ordinal, n_threads, out, err);
}
