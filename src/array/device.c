/* Devices by name: the only file of the room that names backends. The CUDA backend is a library of its own, loaded
 * when it is first asked for, so that the rest starts on any machine; it is never unloaded. */
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "array/internal.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const wr_backend *cuda;

#define LIBRARY "libweir-cuda.so"
/* The build says where libraries are installed: as seen from the prefix, and (WR_INSTALLED) the folder of this one. */
#ifndef WR_LIBDIR
#define WR_LIBDIR "lib"
#endif

/* The folder of this code: of libweir.so, or of the program it was linked into, whose name in the list of what is
 * loaded is empty; argv[0], which dladdr would give, need not be a path. */
static void own_folder(char *out, size_t size) {
    Dl_info info;
    struct link_map *self = NULL;
    *out = 0;
    if (!dladdr1((void *)wr_device_backend, &info, (void **)&self, RTLD_DL_LINKMAP) || !self) return;
    if (*self->l_name) {
        snprintf(out, size, "%s", self->l_name);
    } else {
        ssize_t n = readlink("/proc/self/exe", out, size - 1);
        out[n > 0 ? n : 0] = 0;
    }
    char *slash = strrchr(out, '/');
    if (slash) *slash = 0;
}

static weir_status open_at(const char *path, const char *named_by, void **library, weir_error *err) {
    *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (*library) return WEIR_OK;
    return WR_FAIL(err, WEIR_E_UNSUPPORTED, "%s\"%.300s\" cannot be loaded: %s", named_by, path, dlerror());
}

/* NOT_FOUND: there is none; UNSUPPORTED: there is one, of no use. Search order: WEIR_CUDA_LIBRARY; the folder of this
 * code and its neighbours; where the build was to be installed; the system's own search. */
static weir_status open_library(void **library, weir_error *err) {
    const char *named = getenv("WEIR_CUDA_LIBRARY");
    if (named && *named) return open_at(named, "WEIR_CUDA_LIBRARY is ", library, err);
    char folder[PATH_MAX], path[PATH_MAX + 64];
    own_folder(folder, sizeof folder);
    static const char *const places[] = {"/", "/weir/", "/../lib/weir/", "/../" WR_LIBDIR "/weir/"};
    for (size_t i = 0; *folder && i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s%s%s", folder, places[i], LIBRARY);
        if (access(path, F_OK) == 0) return open_at(path, "", library, err);
    }
#ifdef WR_INSTALLED
    if (access(WR_INSTALLED "/" LIBRARY, F_OK) == 0) return open_at(WR_INSTALLED "/" LIBRARY, "", library, err);
#endif
    *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (*library) return WEIR_OK;
    return WR_FAIL(err, WEIR_E_NOT_FOUND, "%s was not found (beside %s): this weir is for the CPU only", LIBRARY,
                   *folder ? folder : "the program");
}

static weir_status load_cuda(const wr_backend **out, weir_error *err) {
    void *library;
    WR_TRY(open_library(&library, err));
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
    return status;
}

const char *wr_device_cuda_built_for(weir_error *err) {
    const wr_backend *backend;
    return cuda_backend(&backend, err) == WEIR_OK ? backend->built_for : NULL;
}

static weir_status named(const char *name, const wr_backend **backend, int *ordinal, weir_error *err) {
    *backend = NULL;
    *ordinal = 0;
    if (!name) return WR_FAIL(err, WEIR_E_ARGUMENT, "the device's name is NULL; there are auto, cpu, cuda and cuda:N");
    if (!strcmp(name, "cpu")) {
        *backend = wr_backend_cpu();
        return WEIR_OK;
    }
    if (strncmp(name, "cuda", 4) != 0 || (name[4] && name[4] != ':'))
        return WR_FAIL(err, WEIR_E_UNSUPPORTED, "device \"%.40s\" is not known; there are auto, cpu, cuda and cuda:N",
                       name);
    if (name[4]) {
        char *end;
        long n = strtol(name + 5, &end, 10);
        if (end == name + 5 || *end || n < 0 || n > 1023)
            return WR_FAIL(err, WEIR_E_ARGUMENT, "device \"%.40s\": after cuda: comes a number, as in cuda:0", name);
        *ordinal = (int)n;
    }
    return cuda_backend(backend, err);
}

void wr_device_choose(char name[16], weir_error *why) {
    weir_error fault = {0}, first = {0};
    weir_device_info info;
    const wr_backend *backend;
    *why = (weir_error){0};
    snprintf(name, 16, "cpu");
    weir_status status = cuda_backend(&backend, &fault);
    for (int i = 0; status == WEIR_OK; i++) {
        status = backend->describe(i, false, &info, &fault);
        if (status == WEIR_OK && !*info.problem) {
            snprintf(name, 16, "%s", info.name);
            return;
        }
        if (status == WEIR_OK && i == 0) WR_FAIL(&first, WEIR_E_UNSUPPORTED, "%s", info.problem);
    }
    if (first.status != WEIR_OK)
        *why = first;
    else if (status != WEIR_E_NOT_FOUND)
        *why = fault;
}

weir_status weir_device_describe(const char *name, weir_device_info *out, weir_error *err) {
    if (!out) return WR_FAIL(err, WEIR_E_ARGUMENT, "weir_device_describe: out is NULL");
    memset(out, 0, sizeof *out);
    const wr_backend *backend;
    int ordinal;
    WR_TRY(named(name, &backend, &ordinal, err));
    return backend->describe(ordinal, true, out, err);
}

weir_status wr_device_backend(const char *name, const wr_backend **backend, int *ordinal, weir_error *err) {
    char chosen[16];
    if (name && !strcmp(name, "auto")) {
        weir_error why;
        wr_device_choose(chosen, &why);
        name = chosen;
    }
    WR_TRY(named(name, backend, ordinal, err));
    return (*backend)->check ? (*backend)->check(err) : WEIR_OK;
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
