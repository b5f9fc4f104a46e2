/* What the tests of the array room with real kernels share. */
#ifndef WR_TESTS_CPU_ARRAY_CPU_TEST_H
#define WR_TESTS_CPU_ARRAY_CPU_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "weir/ops.h"

#define DIMS(...)                                                                                                      \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }

static inline weir_device *open_cpu(int n_threads) {
    weir_device *device = NULL;
    weir_error err;
    if (weir_device_open("cpu", n_threads, &device, &err) != WEIR_OK) fail_msg("%s", err.message);
    return device;
}
static inline weir_graph *new_graph(weir_device *device) {
    weir_graph *graph = NULL;
    weir_error err;
    if (weir_graph_new(device, &graph, &err) != WEIR_OK) fail_msg("%s", err.message);
    return graph;
}
static inline void evaluate(weir_array *a) {
    weir_error err;
    if (weir_eval(&a, 1, &err) != WEIR_OK) fail_msg("%s", err.message);
}
static inline uint32_t random_below(uint64_t *state, uint32_t n) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % n);
}

#endif
