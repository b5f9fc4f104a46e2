/* What the programs of this folder share. Each proves one promise of the runtime on a card, prints a JSON object a line
 * and exits 0 when the promise is kept, 1 when it is not, 77 when there is no card. --quick: a small form, which the
 * test suite runs over the emulated driver (WEIR_CUDA_DRIVER). */
#ifndef WR_TESTS_CUDA_DEVICE_H
#define WR_TESTS_CUDA_DEVICE_H

#include <dlfcn.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "array/compile.h"
#include "base/clock.h"
#include "cuda/emulate/emulated.h"
#include "weir/engine.h"
#include "weir/ops.h"

typedef struct device_args {
    bool quick, brief, few;
    const char *device, *model;
    long n, seconds, threads;
} device_args;

static inline double now_s(void) { return (double)wr_now_ns() * 1e-9; }

/* Of all threads of the process. */
static inline double cpu_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* --quick, --brief, --few, --device NAME, --model PATH, --n N, --seconds S, --threads N. Zero stays where nothing was
 * said. */
static inline device_args read_args(int argc, char **argv) {
    device_args a = {.device = "cuda", .model = WR_SOURCE_DIR "/tests/data/checkpoints/llama-affine-b4g64-untied"};
    const char *data = getenv("WEIR_TEST_DATA"); /* where the tests run away from their source */
    static char path[4096];
    if (data) snprintf(path, sizeof path, "%s/checkpoints/llama-affine-b4g64-untied", data), a.model = path;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--quick")) {
            a.quick = true;
            continue;
        }
        if (!strcmp(argv[i], "--brief") || !strcmp(argv[i], "--few")) {
            *(argv[i][2] == 'b' ? &a.brief : &a.few) = true;
            continue;
        }
        if (!strcmp(argv[i], "--device"))
            a.device = value;
        else if (!strcmp(argv[i], "--model"))
            a.model = value;
        else if (!strcmp(argv[i], "--n"))
            a.n = atol(value);
        else if (!strcmp(argv[i], "--seconds"))
            a.seconds = atol(value);
        else if (!strcmp(argv[i], "--threads"))
            a.threads = atol(value);
        else {
            fprintf(stderr, "unknown argument %s\n", argv[i]);
            exit(2);
        }
        i++;
    }
    return a;
}

/* A line {"test": name, ...}; format gives the rest, without braces. */
__attribute__((format(printf, 2, 3))) static inline void print_json(const char *name, const char *format, ...) {
    va_list list;
    printf("{\"test\": \"%s\", ", name);
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    printf("}\n");
    fflush(stdout);
}

__attribute__((format(printf, 1, 2))) static inline void complain(const char *format, ...) {
    va_list list;
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
}

/* What has no place in a status here: the program ends. */
#define MUST(call)                                                                                                     \
    do {                                                                                                               \
        weir_error must_err_ = {0};                                                                                    \
        weir_error *err = &must_err_;                                                                                  \
        if ((call) != WEIR_OK) {                                                                                       \
            complain("%s:%d: %s", __FILE__, __LINE__, must_err_.message);                                              \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

/* A function of the driver, which lies in a library that weir opened itself; those of the emulated one are NULL with a
 * real one. */
static inline void *driver_function(const char *name) {
    const char *path = getenv("WEIR_CUDA_DRIVER");
    void *library = dlopen(path && *path ? path : "libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    return library ? dlsym(library, name) : NULL;
}
static inline bool is_emulated(void) { return driver_function("wr_emulate_live_now") != NULL; }

/* 77 without a card, 1 after another fault. */
static inline weir_device *open_or_exit(const char *name) {
    weir_error err = {0};
    weir_device *device;
    weir_status status = weir_device_open(name, 1, &device, &err);
    if (status == WEIR_OK) return device;
    complain("%s", err.message);
    exit(status == WEIR_E_UNSUPPORTED || status == WEIR_E_NOT_FOUND ? 77 : 1);
}

static inline weir_array *matrix(weir_graph *g, int64_t rows, int64_t cols, const float *data) {
    return weir_from_data(g, WEIR_DTYPE_F32, 2, (int64_t[]){rows, cols}, data);
}

/* n products of an [size, size] matrix, one after the other: work of a chosen length in one program. */
static inline weir_status chain_new(weir_device *device, int64_t size, int n, wr_program **out, weir_error *err) {
    weir_graph *g;
    WR_TRY(weir_graph_new(device, &g, err));
    float *data = calloc((size_t)(size * size), sizeof *data);
    for (int64_t i = 0; data && i < size; i++) data[i * size + (i + 1) % size] = 1;
    weir_array *step = data ? matrix(g, size, size, data) : NULL, *x = step;
    for (int i = 0; i < n; i++) x = weir_matmul(x, step);
    free(data);
    weir_status status = wr_program_new(&x, 1, NULL, out, err);
    weir_graph_free(g);
    return status;
}

static inline int by_double(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static inline double median(double *values, size_t n) {
    qsort(values, n, sizeof *values, by_double);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* Fixed arithmetic: the same on every machine. */
static inline uint64_t draw(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

#endif
