/* NVRTC, the CUDA compiler as a library, found at run time like the driver. */
#ifndef WR_CUDA_NVRTC_H
#define WR_CUDA_NVRTC_H

#include <stddef.h>

#include "base/mem.h"
#include "base/status.h"

/* As nvrtc.h declares them; results are 0 for success. */
typedef struct _nvrtcProgram *wr_nvrtc_program;
typedef struct wr_nvrtc {
    int (*nvrtcVersion)(int *major, int *minor);
    const char *(*nvrtcGetErrorString)(int result);
    int (*nvrtcCreateProgram)(wr_nvrtc_program *program, const char *source, const char *name, int n_headers,
                              const char *const *headers, const char *const *header_names);
    int (*nvrtcDestroyProgram)(wr_nvrtc_program *program);
    int (*nvrtcAddNameExpression)(wr_nvrtc_program program, const char *name);
    int (*nvrtcCompileProgram)(wr_nvrtc_program program, int n_flags, const char *const *flags);
    int (*nvrtcGetLoweredName)(wr_nvrtc_program program, const char *name, const char **lowered);
    int (*nvrtcGetCUBINSize)(wr_nvrtc_program program, size_t *bytes);
    int (*nvrtcGetCUBIN)(wr_nvrtc_program program, char *image);
    int (*nvrtcGetProgramLogSize)(wr_nvrtc_program program, size_t *bytes);
    int (*nvrtcGetProgramLog)(wr_nvrtc_program program, char *log);
    int major, minor;
} wr_nvrtc;

/* The loaded compiler; the same for the whole process, never unloaded. Search order: WEIR_NVRTC; the system's own
 * search, first of the driver's CUDA release (driver_version / 1000); the toolkit's folders. Errors: UNSUPPORTED. Any
 * thread. */
weir_status wr_nvrtc_load(int driver_version, const wr_nvrtc **out, weir_error *err);

/* What compiling gave, in an arena. */
typedef struct wr_nvrtc_result {
    const char *lowered; /* the kernel's name in the image */
    void *image;         /* a cubin */
    size_t image_bytes;
    const char *log; /* what the compiler said; "" for nothing. Also after a failure */
} wr_nvrtc_result;

/* Errors: ARGUMENT with the compiler's first error, MEMORY. Any thread. */
weir_status wr_nvrtc_compile(const wr_nvrtc *nvrtc, const char *name, const char *source, const char *const *flags,
                             int n_flags, wr_arena *memory, wr_nvrtc_result *out, weir_error *err);

#endif
