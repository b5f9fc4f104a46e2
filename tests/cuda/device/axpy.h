/* A kernel of the user's (weir/custom.h) for the programs of this folder, with what its results are. Over the emulated
 * driver a compiler that does not compile stands for NVRTC (tests/cuda/emulate/fake_nvrtc.c), and the kernel of this
 * name for whatever source it was given. */
#ifndef WR_TESTS_CUDA_AXPY_H
#define WR_TESTS_CUDA_AXPY_H

#include <ftw.h>

#include "device.h"
#include "weir/custom.h"

#define AXPY "selftest_custom_axpy"
static const char axpy[] =
    "extern \"C\" __global__ void " AXPY "(const float *x, const float *y, float *out, double a, long long n) {\n"
    "    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;\n"
    "    if (i < n) out[i] = (float)(a * (double)x[i] + (double)y[i]);\n"
    "}\n";

static inline weir_array *call_axpy(weir_graph *g, weir_kernel *k, weir_array *x, weir_array *y, double a, int64_t n) {
    weir_kernel_call call = {.dtype = WEIR_DTYPE_F32,
                             .n_dims = 1,
                             .shape = &n,
                             .blocks = {(n + 255) / 256 + !n},
                             .threads = {256},
                             .scalars = {{&a, sizeof a}, {&n, sizeof n}},
                             .n_scalars = 2};
    return weir_custom(g, k, (weir_array *[]){x, y}, 2, &call);
}

/* a (x + 1) + reversed y, then doubled, for x = y = 0 .. n - 1; a view goes in, ops of ours lie on both sides. */
static inline weir_array *build_axpy(weir_graph *g, weir_kernel *k, double a, int64_t n) {
    weir_array *x = weir_arange(g, WEIR_DTYPE_F32, 0, (double)n, 1);
    weir_array *y = weir_arange(g, WEIR_DTYPE_F32, 0, (double)n, 1);
    int64_t start = -1, stop = INT64_MIN, step = -1;
    weir_array *reversed = weir_slice(y, &start, &stop, &step);
    weir_array *z = call_axpy(g, k, weir_add(x, weir_scalar_f32(g, 1)), reversed, a, n);
    return weir_mul(z, weir_scalar_f32(g, 2));
}

static inline bool is_axpy(const float *got, double a, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!got || got[i] != (float)(2 * (a * (double)(i + 1) + (double)(n - 1 - i)))) return false;
    return true;
}

static inline weir_status evaluate_axpy(weir_device *device, weir_kernel *k, double a, int64_t n, bool *is_right,
                                        weir_error *err) {
    weir_graph *g;
    *is_right = false;
    WR_TRY(weir_graph_new(device, &g, err));
    weir_array *z = build_axpy(g, k, a, n);
    weir_status status = weir_eval(&z, 1, err);
    if (status == WEIR_OK) *is_right = is_axpy(weir_array_data(z), a, n);
    weir_graph_free(g);
    return status;
}

/* The emulated driver's compiler lies beside it. */
static inline void use_fake_compiler(void) {
    const char *driver = getenv("WEIR_CUDA_DRIVER"), *slash = driver ? strrchr(driver, '/') : NULL;
    char path[4096];
    if (!slash || !is_emulated() || getenv("WEIR_NVRTC")) return;
    snprintf(path, sizeof path, "%.*s/libnvrtc_fake.so", (int)(slash - driver), driver);
    setenv("WEIR_NVRTC", path, 1);
}

/* A folder for compiled kernels and the like, to be removed by remove_all. */
static inline bool make_folder(char *path, size_t size) {
    const char *temporary = getenv("TMPDIR");
    snprintf(path, size, "%.200s/weir-custom-XXXXXX", temporary && *temporary ? temporary : "/tmp");
    return mkdtemp(path) != NULL;
}

static inline int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *at) {
    (void)info, (void)kind, (void)at;
    return remove(path);
}
static inline void remove_all(const char *path) { nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS); }

#endif
