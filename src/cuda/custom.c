/* The user's kernels (weir/custom.h) on a CUDA device: from source, or from the cache of files, to a loaded function,
 * and the launch of one. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "array/custom.h"
#include "base/clock.h"
#include "cuda/context.h"
#include "cuda/kernel_cache.h"
#include "cuda/kernel_headers.h"
#include "cuda/nvrtc.h"

typedef struct loaded_kernel {
    CUmodule module;
    CUfunction function;
} loaded_kernel;

/* ---- calls ---- */

static weir_status launch(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    const wr_custom_args *args = step->args;
    const loaded_kernel *k = args->kernel->binary.handle;
    void *pointers[WR_MAX_INPUTS + 1], *params[WR_KERNEL_MAX_PARAMS];
    int n = 0;
    for (int i = 0; i < step->n_in; i++, n++) pointers[n] = step->in[i].data;
    pointers[n++] = step->out.data;
    for (int i = 0; i < n; i++) params[i] = &pointers[i];
    for (uint32_t i = 0; i < args->n_scalars; i++) params[n++] = (void *)(args->scalars + args->scalar_offset[i]);
    wr_function_spec spec = {
        .name = args->kernel->name, .function = k->function, .shared_bytes = args->shared_bytes, .params = params};
    memcpy(spec.grid, args->grid, sizeof spec.grid);
    memcpy(spec.block, args->block, sizeof spec.block);
    return wr_launch_function(launcher, &spec, err);
}

const wr_kernel_row *wr_cuda_custom_rows(wr_op_id op) {
    static const wr_kernel_row rows[] = {{.name = "custom", .launch = launch}, {0}};
    return op == WR_OP_CUSTOM ? rows : NULL;
}

/* ---- from source to image ---- */

enum { MAX_FLAGS = 256, SMALL_TEXT = 32 };
static const size_t COMPILE_CAP_BYTES = (size_t)1 << 30; /* texts, the image, the list of headers */

typedef struct job {
    wr_cuda_context *context;
    const wr_kernel_source *source;
    const wr_nvrtc *nvrtc;
    wr_arena *memory;
    wr_header_folders folders;
    char arch[SMALL_TEXT]; /* "sm_90a" */
    const char *flags[MAX_FLAGS];
    int n_flags;
    unsigned char id[WR_SHA256_BYTES];
    char folder[WR_KERNEL_PATH_BYTES];
    bool keeps; /* in folder */
} job;

__attribute__((format(printf, 2, 3))) static void say(void (*to)(const char *text), const char *format, ...) {
    char text[WR_KERNEL_PATH_BYTES + WEIR_ERROR_BYTES + 512];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    to(text);
}

static bool has_flag(const wr_kernel_source *s, const char *start) {
    for (int i = 0; i < s->n_flags; i++)
        if (!strncmp(s->flags[i], start, strlen(start))) return true;
    return false;
}

/* Ours, the user's, and the folders of headers that no flag named. */
static weir_status gather_flags(job *j, weir_error *err) {
    const wr_kernel_source *s = j->source;
    int arch = j->context->traits.arch;
    snprintf(j->arch, sizeof j->arch, "sm_%d%s", arch, arch >= 90 ? "a" : ""); /* all that this device has */
    WR_TRY(wr_header_folders_find(s->flags, s->n_flags, j->memory, &j->folders, err));
    if (s->n_flags + j->folders.n + 4 > MAX_FLAGS)
        return WR_FAIL(err, WEIR_E_LIMIT, "kernel %.100s: %d flags for the compiler", s->name, s->n_flags);
    char *target = wr_arena_alloc(j->memory, SMALL_TEXT + sizeof "--gpu-architecture=");
    if (!target) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for kernel %.100s", s->name);
    sprintf(target, "--gpu-architecture=%s", j->arch);
    j->flags[j->n_flags++] = target;
    if (!has_flag(s, "--std") && !has_flag(s, "-std")) j->flags[j->n_flags++] = "--std=c++17";
    j->flags[j->n_flags++] = "--no-source-include"; /* where the program happens to run is no place for headers */
    for (int i = 0; i < s->n_flags; i++) j->flags[j->n_flags++] = s->flags[i];
    for (int i = j->folders.n_user; i < j->folders.n; i++) {
        size_t n = strlen(j->folders.at[i]);
        char *flag = wr_arena_alloc(j->memory, n + 3);
        if (!flag) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for kernel %.100s", s->name);
        memcpy(flag, "-I", 2);
        memcpy(flag + 2, j->folders.at[i], n + 1);
        j->flags[j->n_flags++] = flag;
    }
    return WEIR_OK;
}

static void add_text(wr_sha256 *h, const char *text) {
    uint64_t n = strlen(text);
    wr_sha256_add(h, &n, sizeof n);
    wr_sha256_add(h, text, n);
}

/* All that the image depends on. Not the folders of headers, whose contents count: a program that was moved finds its
 * kernels. */
static void identify(job *j) {
    const wr_kernel_source *s = j->source;
    wr_sha256 h;
    wr_sha256_init(&h);
    add_text(&h, "weir " WR_VERSION " kernel 1");
    int32_t numbers[3] = {j->nvrtc->major, j->nvrtc->minor, s->n_flags};
    wr_sha256_add(&h, numbers, sizeof numbers);
    add_text(&h, j->arch);
    add_text(&h, s->name);
    add_text(&h, s->source);
    for (int i = 0; i < s->n_flags; i++) add_text(&h, s->flags[i]);
    if (!wr_header_hash(&j->folders, s->source, j->memory, &h)) j->keeps = false;
    wr_sha256_end(&h, j->id);
}

/* The folders that were searched, when it was a header that was missing. */
static void explain(const job *j, const wr_nvrtc_result *compiled, weir_error *err) {
    if (!strstr(compiled->log, "open source file")) return;
    char list[400] = "";
    size_t n = 0;
    for (int i = 0; i < j->folders.n && n < sizeof list; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "", j->folders.at[i]);
    wr_err_context(err, "headers are searched in %s (WEIR_CUDA_INCLUDE or a flag -I adds a folder)",
                   n ? list : "no folder");
}

static weir_status compile(const job *j, wr_kernel_image *out, weir_error *err) {
    wr_nvrtc_result compiled;
    const char *name = j->source->name;
    uint64_t start = wr_now_ns();
    weir_status status =
        wr_nvrtc_compile(j->nvrtc, name, j->source->source, j->flags, j->n_flags, j->memory, &compiled, err);
    double ms = (double)(wr_now_ns() - start) / 1e6;
    if (*compiled.log) j->source->notice(compiled.log);
    if (status != WEIR_OK) {
        explain(j, &compiled, err);
        return status;
    }
    *out = (wr_kernel_image){.lowered = compiled.lowered, .image = compiled.image, .image_bytes = compiled.image_bytes};
    weir_error fault = {0};
    bool kept = j->keeps && wr_kernel_cache_store(j->folder, j->id, out, &fault) == WEIR_OK;
    say(j->source->announce, "kernel %.200s compiled for %s in %.0f ms by NVRTC %d.%d, %s%s", name, j->arch, ms,
        j->nvrtc->major, j->nvrtc->minor, kept ? "kept in " : "not kept", kept ? j->folder : "");
    if (j->keeps && !kept) say(j->source->notice, "the kernel cache cannot be written: %s", fault.message);
    return WEIR_OK;
}

/* ---- from image to function ---- */

static weir_status describe(wr_cuda_context *c, CUfunction f, const char *name, wr_kernel_binary *out,
                            weir_error *err) {
    int fixed;
    WR_CU(c->driver, cuFuncLoad(f), name);
    WR_CU(c->driver, cuFuncGetAttribute(&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f), name);
    WR_CU(c->driver, cuFuncGetAttribute(&out->max_threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, f), name);
    out->max_shared_bytes = (size_t)fixed < c->traits.shared_bytes ? c->traits.shared_bytes - (size_t)fixed : 0;
    WR_CU(c->driver, cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)out->max_shared_bytes),
          name);
    size_t offset, bytes;
    for (out->n_params = 0; out->n_params <= WR_KERNEL_MAX_PARAMS; out->n_params++) {
        CUresult result = c->driver->cuFuncGetParamInfo(f, (size_t)out->n_params, &offset, &bytes);
        if (result == CUDA_ERROR_INVALID_VALUE) break; /* there is none with this number */
        if (result != CUDA_SUCCESS) return wr_driver_fail(c->driver, result, name, __FILE__, __LINE__, err);
        if (out->n_params < WR_KERNEL_MAX_PARAMS) out->param_bytes[out->n_params] = bytes;
    }
    return WEIR_OK;
}

static weir_status load(const job *j, const wr_kernel_image *image, wr_kernel_binary *out, weir_error *err) {
    wr_cuda_context *c = j->context;
    const char *name = j->source->name;
    loaded_kernel *k = wr_calloc(1, sizeof *k);
    if (!k) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for kernel %.100s", name);
    weir_status status = WEIR_OK;
    CUresult result = c->driver->cuModuleLoadData(&k->module, image->image);
    if (result == CUDA_SUCCESS) result = c->driver->cuModuleGetFunction(&k->function, k->module, image->lowered);
    if (result != CUDA_SUCCESS)
        status = wr_driver_fail(c->driver, result, "loading a kernel", __FILE__, __LINE__, err);
    else
        status = describe(c, k->function, name, out, err);
    if (status != WEIR_OK) {
        if (k->module) c->driver->cuModuleUnload(k->module);
        wr_free(k);
        wr_err_context(err, "kernel %.100s", name);
        return status;
    }
    out->handle = k;
    memcpy(out->id, j->id, sizeof out->id);
    return WEIR_OK;
}

/* With the device current. */
static weir_status make(job *j, wr_kernel_binary *out, weir_error *err) {
    wr_kernel_image image;
    weir_error fault = {0};
    weir_status status =
        j->keeps ? wr_kernel_cache_load(j->folder, j->id, j->memory, &image, &fault) : WEIR_E_NOT_FOUND;
    if (status == WEIR_OK) return load(j, &image, out, err);
    if (status != WEIR_E_NOT_FOUND) say(j->source->notice, "a file of the kernel cache is not used: %s", fault.message);
    WR_TRY(compile(j, &image, err));
    return load(j, &image, out, err);
}

static weir_status prepare(job *j, weir_error *err) {
    WR_TRY(wr_nvrtc_load(j->context->driver->version, &j->nvrtc, err));
    WR_TRY(gather_flags(j, err));
    j->keeps = wr_kernel_cache_folder(j->folder);
    identify(j);
    return WEIR_OK;
}

weir_status wr_cuda_kernel_new(void *context, const wr_kernel_source *source, wr_kernel_binary *out, weir_error *err) {
    wr_arena memory;
    memset(out, 0, sizeof *out);
    wr_arena_init(&memory, COMPILE_CAP_BYTES);
    job *j = wr_arena_alloc(&memory, sizeof *j);
    weir_status status = WEIR_OK;
    if (!j) {
        status = WR_FAIL(err, WEIR_E_MEMORY, "no memory for kernel %.100s", source->name);
    } else {
        j->context = context;
        j->source = source;
        j->memory = &memory;
        status = prepare(j, err);
    }
    if (status == WEIR_OK) status = wr_cuda_enter(context, err);
    if (status == WEIR_OK) {
        status = make(j, out, err);
        wr_cuda_leave(context);
    }
    wr_arena_deinit(&memory);
    return status;
}

void wr_cuda_kernel_free(void *context, wr_kernel_binary *kernel) {
    wr_cuda_context *c = context;
    loaded_kernel *k = kernel->handle;
    kernel->handle = NULL;
    if (!k) return;
    if (wr_cuda_enter(c, NULL) == WEIR_OK) {
        wr_cuda_settle(c); /* it may run still */
        c->driver->cuModuleUnload(k->module);
        wr_cuda_leave(c);
    }
    wr_free(k);
}
