/* What the array room's tests share: a backend whose every kernel writes a hash of what it reads. A wrong buffer,
 * order, stride or a missing barrier changes the hash, so the planner can be tested without real kernels. */
#ifndef WR_TESTS_ARRAY_ARRAY_TEST_H
#define WR_TESTS_ARRAY_ARRAY_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/compile.h"
#include "weir/ops.h"

#define DIMS(...)                                                                                                      \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }

static inline uint64_t mix64(uint64_t h, uint64_t x) {
    h = (h ^ x) * 0xff51afd7ed558ccdu;
    return h ^ h >> 29;
}

static inline int64_t strided_offset(const wr_tensor *t, int64_t index) {
    int64_t offset = 0;
    for (int d = t->n_dims - 1; d >= 0; d--) {
        offset += index % t->shape[d] * t->strides[d];
        index /= t->shape[d];
    }
    return offset;
}

static inline uint64_t element_bits(const wr_tensor *t, int64_t index) {
    uint64_t bits = 0;
    size_t size = weir_dtype_bytes(t->dtype);
    memcpy(&bits, (const char *)t->data + strided_offset(t, index) * (int64_t)size, size);
    return bits;
}

static inline uint64_t hash_tensor(const wr_tensor *t) {
    int64_t n = wr_n_elements(t->n_dims, t->shape);
    uint64_t h = (uint64_t)n;
    for (int64_t i = 0; i < n; i++) h = mix64(h, element_bits(t, i));
    return h;
}

/* One element of an op's result; `old` is what an in-place op finds there. */
static inline uint64_t fake_element(wr_op_id op, const uint64_t *in, int n_in, int64_t index, uint64_t old) {
    uint64_t h = mix64((uint64_t)op, (uint64_t)index);
    if (op == WR_OP_COPY) return old;
    for (int i = wr_ops[op].flags & WR_INPLACE ? 1 : 0; i < n_in; i++) h = mix64(h, in[i]);
    return wr_ops[op].flags & WR_INPLACE ? mix64(h, old) : h;
}

static inline void fake_run(const wr_step *step, int thread, int n_threads) {
    uint64_t in[WR_MAX_INPUTS];
    bool inplace = wr_ops[step->op].flags & WR_INPLACE;
    for (int i = inplace; i < step->n_in; i++) in[i] = hash_tensor(&step->in[i]);
    if (step->prepared) in[0] = *(const uint64_t *)step->prepared;
    if (step->scratch) ((unsigned char *)step->scratch)[thread] = 1;
    size_t size = weir_dtype_bytes(step->out.dtype);
    int64_t n = wr_n_elements(step->out.n_dims, step->out.shape);
    for (int64_t i = thread; i < n; i += n_threads) {
        char *to = (char *)step->out.data + i * (int64_t)size;
        uint64_t old = 0;
        if (inplace) memcpy(&old, to, size);
        if (step->op == WR_OP_COPY) old = element_bits(&step->in[0], i);
        uint64_t bits = fake_element(step->op, in, step->n_in, i, old);
        memcpy(to, &bits, size);
    }
}

static inline void fake_prepare(const wr_step *step, int thread, int n_threads) {
    (void)n_threads;
    if (thread == 0) *(uint64_t *)step->scratch = hash_tensor(&step->in[0]);
}
static inline size_t fake_prepare_bytes(const wr_step *step) { return (void)step, sizeof(uint64_t); }
static inline size_t fake_scratch_bytes(const wr_step *step, int n_threads) {
    return (void)step, (size_t)n_threads * 64;
}

static inline const wr_kernel_row *fake_kernels(wr_op_id op) {
    static const wr_kernel_row plain[] = {{.name = "fake", .run = fake_run}, {0}};
    static const wr_kernel_row prepared[] = {{.name = "fake_prepared",
                                              .run = fake_run,
                                              .scratch_bytes = fake_scratch_bytes,
                                              .prepare = fake_prepare,
                                              .prepare_inputs = 1u << 0,
                                              .prepare_bytes = fake_prepare_bytes},
                                             {.name = "fake", .run = fake_run},
                                             {0}};
    if (op == WR_OP_FUSED || op == WR_OP_DATA) return NULL;
    return op == WR_OP_MATMUL ? prepared : plain;
}
/* The same, and it offers fused steps (to look at, not to run). */
static inline const wr_kernel_row *fake_kernels_fused(wr_op_id op) {
    static const wr_kernel_row fused[] = {{.name = "fake_fused", .run = fake_run}, {0}};
    return op == WR_OP_FUSED ? fused : fake_kernels(op);
}

static const wr_backend fake_backend = {.name = "fake", .kernels = fake_kernels};
static const wr_backend fake_backend_fused = {.name = "fake", .kernels = fake_kernels_fused};

static inline weir_device *open_fake(const wr_backend *backend, int n_threads) {
    weir_device *device = NULL;
    weir_error err;
    if (wr_device_open(backend, 0, n_threads, &device, &err) != WEIR_OK) fail_msg("%s", err.message);
    return device;
}

static inline weir_graph *new_graph(weir_device *device) {
    weir_graph *graph = NULL;
    weir_error err;
    if (weir_graph_new(device, &graph, &err) != WEIR_OK) fail_msg("%s", err.message);
    return graph;
}

static inline wr_program *compile(weir_array *const *outputs, int n, const wr_program_options *options) {
    wr_program *program = NULL;
    weir_error err;
    if (wr_program_new(outputs, n, options, &program, &err) != WEIR_OK) fail_msg("%s", err.message);
    return program;
}

/* A leaf without contents of any interest. */
static inline weir_array *leaf(weir_graph *g, weir_dtype dtype, int n_dims, const int64_t *shape) {
    int64_t n = wr_n_elements(n_dims, shape);
    void *zeros = calloc((size_t)n + 1, 8);
    weir_array *a = weir_from_data(g, dtype, n_dims, shape, zeros);
    free(zeros);
    return a;
}

static inline int count_op(const wr_program *program, wr_op_id op) {
    int n = 0;
    for (int i = 0; i < wr_program_n_steps(program); i++) n += wr_program_step(program, i)->op == op;
    return n;
}
static inline int count_barriers(const wr_program *program) {
    int n = 0;
    for (int i = 0; i < wr_program_n_steps(program); i++) n += wr_program_step(program, i)->barrier;
    return n;
}

static inline uint32_t random_below(uint64_t *state, uint32_t n) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % n);
}

#endif
