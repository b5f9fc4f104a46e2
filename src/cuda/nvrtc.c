/* Owns the loading and the use of NVRTC. */
#include "cuda/nvrtc.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static wr_nvrtc loaded;
static bool is_loaded;

/* ---- loading ---- */

enum { NEWEST = 13, OLDEST = 12, PATH_BYTES = 4096 };

static void *open_in_toolkit(const char *root, const char *name) {
    static const char *const folders[] = {"lib64", "lib"};
    char path[PATH_BYTES];
    for (size_t i = 0; root && *root && i < sizeof folders / sizeof *folders; i++) {
        int n = snprintf(path, sizeof path, "%s/%s/%s", root, folders[i], name);
        void *library = n < (int)sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
        if (library) return library;
    }
    return NULL;
}

static void *open_library(int driver_major, weir_error *err) {
    const char *named = getenv("WEIR_NVRTC");
    if (named && *named) {
        void *library = dlopen(named, RTLD_NOW | RTLD_LOCAL);
        if (!library) WR_FAIL(err, WEIR_E_UNSUPPORTED, "WEIR_NVRTC is \"%.300s\": %s", named, dlerror());
        return library;
    }
    /* What a newer compiler makes may be unknown to an older driver: the driver's own release first. */
    int first = driver_major >= OLDEST && driver_major <= NEWEST ? driver_major : NEWEST;
    for (int i = 0; i <= NEWEST - OLDEST; i++) {
        char name[32];
        void *library;
        snprintf(name, sizeof name, "libnvrtc.so.%d", i == 0 ? first : OLDEST + NEWEST - first);
        if ((library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) || (library = open_in_toolkit(getenv("CUDA_HOME"), name)) ||
            (library = open_in_toolkit(getenv("CUDA_PATH"), name)) ||
            (library = open_in_toolkit("/usr/local/cuda", name)))
            return library;
    }
    WR_FAIL(
        err, WEIR_E_UNSUPPORTED,
        "custom kernels need NVRTC, and libnvrtc.so.%d or .%d was not found: install the CUDA toolkit's NVRTC, or set "
        "WEIR_NVRTC or CUDA_HOME",
        NEWEST, OLDEST);
    return NULL;
}

/* NVRTC opens its library of builtins by name alone, which fails where its folder is not searched: it is loaded here
 * from beside NVRTC, and then found by its name. */
static void load_builtins(const wr_nvrtc *n) {
    Dl_info info;
    void *function;
    memcpy(&function, &n->nvrtcVersion, sizeof function);
    const char *slash = dladdr(function, &info) && info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
    if (!slash) return;
    char path[1024];
    snprintf(path, sizeof path, "%.*s/libnvrtc-builtins.so.%d.%d", (int)(slash - info.dli_fname), info.dli_fname,
             n->major, n->minor);
    dlopen(path, RTLD_NOW | RTLD_GLOBAL); /* without it NVRTC says what is missing */
}

static weir_status load(int driver_version, wr_nvrtc *n, weir_error *err) {
    void *library = open_library(driver_version / 1000, err);
    if (!library) return WEIR_E_UNSUPPORTED;
#define FIND(name)                                                                                                     \
    { #name, offsetof(wr_nvrtc, name) }
    static const struct {
        const char *name;
        size_t offset;
    } functions[] = {FIND(nvrtcVersion),           FIND(nvrtcGetErrorString),    FIND(nvrtcCreateProgram),
                     FIND(nvrtcDestroyProgram),    FIND(nvrtcAddNameExpression), FIND(nvrtcCompileProgram),
                     FIND(nvrtcGetLoweredName),    FIND(nvrtcGetCUBINSize),      FIND(nvrtcGetCUBIN),
                     FIND(nvrtcGetProgramLogSize), FIND(nvrtcGetProgramLog)};
#undef FIND
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *f = dlsym(library, functions[i].name);
        if (!f) {
            dlclose(library);
            return WR_FAIL(err, WEIR_E_UNSUPPORTED, "NVRTC is too old: it has no %s; weir needs CUDA %d's or later",
                           functions[i].name, OLDEST);
        }
        memcpy((char *)n + functions[i].offset, &f, sizeof f);
    }
    int result = n->nvrtcVersion(&n->major, &n->minor);
    if (result) return WR_FAIL(err, WEIR_E_UNSUPPORTED, "NVRTC does not start: %s", n->nvrtcGetErrorString(result));
    load_builtins(n);
    return WEIR_OK;
}

weir_status wr_nvrtc_load(int driver_version, const wr_nvrtc **out, weir_error *err) {
    weir_status status = WEIR_OK;
    pthread_mutex_lock(&lock);
    if (!is_loaded) status = load(driver_version, &loaded, err);
    if (status == WEIR_OK) is_loaded = true;
    pthread_mutex_unlock(&lock);
    *out = status == WEIR_OK ? &loaded : NULL;
    return status;
}

/* ---- compiling ---- */

static weir_status failed(const wr_nvrtc *n, int result, const char *name, weir_error *err) {
    return WR_FAIL(err, WEIR_E_DEVICE, "kernel %.100s: NVRTC: %s", name, n->nvrtcGetErrorString(result));
}

static weir_status no_memory(const char *name, weir_error *err) {
    return WR_FAIL(err, WEIR_E_MEMORY, "no memory for compiling kernel %.100s", name);
}

static weir_status read_log(const wr_nvrtc *n, wr_nvrtc_program program, const char *name, wr_arena *memory,
                            wr_nvrtc_result *out, weir_error *err) {
    size_t bytes = 0;
    int result = n->nvrtcGetProgramLogSize(program, &bytes);
    if (result) return failed(n, result, name, err);
    char *log = wr_arena_alloc(memory, bytes + 1);
    if (!log) return no_memory(name, err);
    if (bytes > 1 && (result = n->nvrtcGetProgramLog(program, log))) return failed(n, result, name, err);
    for (size_t end = strlen(log); end > 0 && (log[end - 1] == '\n' || log[end - 1] == ' '); end--) log[end - 1] = 0;
    out->log = log;
    return WEIR_OK;
}

/* From the line of the first error on: warnings may come before it. */
static const char *first_error(const char *log) {
    const char *at = strstr(log, "error");
    while (at && at > log && at[-1] != '\n') at--;
    return at ? at : log;
}

static weir_status compile(const wr_nvrtc *n, wr_nvrtc_program program, const char *name, const char *const *flags,
                           int n_flags, wr_arena *memory, wr_nvrtc_result *out, weir_error *err) {
    enum { SHOWN_BYTES = 600 };
    const char *lowered;
    int result = n->nvrtcAddNameExpression(program, name);
    if (result) return failed(n, result, name, err);
    int compiled = n->nvrtcCompileProgram(program, n_flags, flags);
    WR_TRY(read_log(n, program, name, memory, out, err));
    if (compiled && *out->log)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "kernel %.100s does not compile: %.*s", name, SHOWN_BYTES,
                       first_error(out->log));
    if (compiled)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "kernel %.100s does not compile: %s", name,
                       n->nvrtcGetErrorString(compiled));
    if ((result = n->nvrtcGetLoweredName(program, name, &lowered)) ||
        (result = n->nvrtcGetCUBINSize(program, &out->image_bytes)))
        return failed(n, result, name, err);
    out->lowered = wr_arena_strdup(memory, lowered);
    out->image = wr_arena_alloc(memory, out->image_bytes);
    if (!out->lowered || !out->image) return no_memory(name, err);
    result = n->nvrtcGetCUBIN(program, out->image);
    return result ? failed(n, result, name, err) : WEIR_OK;
}

weir_status wr_nvrtc_compile(const wr_nvrtc *nvrtc, const char *name, const char *source, const char *const *flags,
                             int n_flags, wr_arena *memory, wr_nvrtc_result *out, weir_error *err) {
    wr_nvrtc_program program;
    *out = (wr_nvrtc_result){.log = ""};
    int result = nvrtc->nvrtcCreateProgram(&program, source, "kernel.cu", 0, NULL, NULL);
    if (result) return failed(nvrtc, result, name, err);
    weir_status status = compile(nvrtc, program, name, flags, n_flags, memory, out, err);
    nvrtc->nvrtcDestroyProgram(&program);
    return status;
}
