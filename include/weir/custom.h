/* weir: kernels of one's own, written in CUDA C++ and called as ops of a graph.
 *
 *   static const char source[] =
 *       "template <typename T> __global__ void axpy(const T *x, const T *y, T *out, float a, long long n) {\n"
 *       "    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
 *       "    if (i < n) out[i] = T(a * float(x[i]) + float(y[i]));\n"
 *       "}\n";
 *   weir_kernel_new(device, "axpy<float>", source, NULL, &kernel, &err);
 *   weir_array *z = weir_custom(graph, kernel, (weir_array *[]){x, y}, 2,
 *                               &(weir_kernel_call){.dtype = WEIR_DTYPE_F32, .n_dims = 1, .shape = &n,
 *                                                   .blocks = {(n + 255) / 256}, .threads = {256},
 *                                                   .scalars = {{&a, sizeof a}, {&n, sizeof n}}, .n_scalars = 2});
 *   weir_kernel_free(kernel);       (graphs that use it keep what they need)
 *
 * The kernel's parameters are, in this order: one const pointer for each input; the pointer of the result; the scalars.
 * Inputs are contiguous and row-major; a strided view is copied first. Pointers are aligned to their element, results
 * to 64 bytes. The pointer of an empty input may be NULL; when the result is empty the kernel is not run. The kernel
 * must write every element of the result, must not write its inputs, and must give the same result for the same
 * arguments: weir merges equal calls. In a graph it runs after all that it reads is written, and what reads its
 * result runs after it.
 *
 * Compiling is done by NVRTC (libnvrtc of the CUDA toolkit), found at run time: WEIR_NVRTC, the system's search, then
 * the toolkit (CUDA_HOME, CUDA_PATH, /usr/local/cuda). Compiled kernels lie in a folder of files, WEIR_KERNEL_CACHE, or
 * else $XDG_CACHE_HOME/weir/kernels, or else ~/.cache/weir/kernels; WEIR_KERNEL_CACHE set to an empty text: nothing is
 * kept. A file's name is a hash of the source, the name, the flags, every header that the source includes, the
 * architecture and the versions of compiler and weir; any number of processes may share the folder. Headers are
 * searched in the folders of -I flags; then WEIR_CUDA_INCLUDE (folders separated by ':'); then include/ and
 * ../include/ beside libweir-cuda.so and beside the program; then where weir was built; then the toolkit's include/. A
 * notice with the duration tells of every compilation (weir/log.h). */
#ifndef WEIR_CUSTOM_H
#define WEIR_CUSTOM_H

#include "weir/array.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_kernel weir_kernel;

typedef struct weir_kernel_options {
    const char *const *flags; /* for the compiler, as "-DROWS=4", "-I/my/headers", "-fmad=false"; copied */
    int n_flags;
} weir_kernel_options;

enum { WEIR_KERNEL_MAX_INPUTS = 16, WEIR_KERNEL_MAX_SCALARS = 16, WEIR_KERNEL_MAX_SCALAR_BYTES = 256 };

/* One value, passed to the kernel as its bytes: data points to a float for a parameter float, to a struct of the same
 * layout for a struct. */
typedef struct weir_kernel_scalar {
    const void *data;
    size_t bytes;
} weir_kernel_scalar;

typedef struct weir_kernel_call {
    weir_dtype dtype; /* of the result */
    int n_dims;
    const int64_t *shape;
    int64_t blocks[3];   /* grid: x at most 2^31 - 1, y and z at most 65,535; 0 in y, z is 1 */
    int32_t threads[3];  /* of a block: at most 1,024 in all, z at most 64; 0 in y, z is 1 */
    size_t shared_bytes; /* dynamic shared memory of a block, up to the card's limit (no need to opt in) */
    weir_kernel_scalar scalars[WEIR_KERNEL_MAX_SCALARS]; /* at most WEIR_KERNEL_MAX_SCALAR_BYTES together */
    int n_scalars;
} weir_kernel_call;

/* Compile a kernel, or take it from the disk cache, and load it on the device; seconds when it is compiled. name: of a
 * __global__ function of the source, or of an instance of a template, as "axpy<float>", "ns::f<4>"; extern "C" is not
 * needed. The same content on the same device gives the same kernel, counted. C++17 unless a flag says otherwise, for
 * the device's own architecture.
 * Errors: ARGUMENT: the source does not compile (the message begins with the compiler's first error; the whole
 * of what it said goes to weir_set_log's function), or has no such kernel. UNSUPPORTED: the device is no CUDA device,
 * or there is no NVRTC. MEMORY, DEVICE. A cache that cannot be read or written is no error, only a notice.
 * Any thread, several at once. */
weir_status weir_kernel_new(weir_device *device, const char *name, const char *source,
                            const weir_kernel_options *options, weir_kernel **out, weir_error *err);
/* The caller's count goes; the kernel is unloaded when no graph and no cached program uses it any more
 * (weir_clear_cache empties the cache). NULL is allowed. Any thread; also after its device was closed. */
void weir_kernel_free(weir_kernel *kernel);

/* The call as a lazy array. call and all it points to are copied. Errors go to the graph, as with every op: too many
 * or wrong parameters (counted and measured against the compiled kernel), a grid, block or shared memory that cannot
 * be launched, a kernel of another device. What the kernel does wrong when it runs (an access outside its arrays) is
 * WEIR_E_DEVICE from weir_eval; the process and the CPU go on, but CUDA lets nothing more run on any GPU in this
 * process: every later call there says so with WEIR_E_DEVICE.
 * Threads: as for every op; a kernel may be used in any number of graphs at once. */
weir_array *weir_custom(weir_graph *graph, weir_kernel *kernel, weir_array *const *inputs, int n_inputs,
                        const weir_kernel_call *call);

#ifdef __cplusplus
}
#endif
#endif
