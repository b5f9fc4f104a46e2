/* Eight threads evaluate graphs of one device at once, equal and different ones; thread counts do not change bits. */
#include <pthread.h>

#include "array_cpu_test.h"

static weir_array *build(weir_graph *g, int64_t n, float scale) {
    float *data = malloc((size_t)(n * n) * sizeof *data);
    for (int64_t i = 0; i < n * n; i++) data[i] = scale * (float)(i % 17 - 8);
    weir_array *x = weir_from_data(g, WEIR_DTYPE_F32, DIMS(n, n), data);
    free(data);
    weir_array *h = weir_softmax(weir_matmul(x, weir_transpose(x, NULL)), -1);
    return weir_sum(weir_mul(weir_silu(h), weir_add(h, x)), 1, (int[]){0}, false);
}

enum { THREADS = 8, ROUNDS = 60 };
static weir_device *shared;
static float expected[ROUNDS][40];
static int failures[THREADS];

static void *work(void *argument) {
    int id = (int)(intptr_t)argument;
    for (int round = 0; round < ROUNDS; round++) {
        int r = (round * 7 + id * 3) % ROUNDS; /* other threads are at other shapes, now and then at the same */
        int64_t n = 2 + r % 39;
        weir_graph *g;
        if (weir_graph_new(shared, &g, NULL) != WEIR_OK) return failures[id]++, NULL;
        weir_array *y = build(g, n, 0.01f * (float)r);
        if (weir_eval(&y, 1, NULL) != WEIR_OK || memcmp(weir_array_data(y), expected[r], (size_t)n * 4) != 0)
            failures[id]++;
        weir_graph_free(g);
    }
    return NULL;
}

static void eight_threads_get_what_one_gets(void **state) {
    (void)state;
    weir_device *alone = open_cpu(1);
    for (int r = 0; r < ROUNDS; r++) {
        weir_graph *g = new_graph(alone);
        weir_array *y = build(g, 2 + r % 39, 0.01f * (float)r);
        evaluate(y);
        memcpy(expected[r], weir_array_data(y), (size_t)(2 + r % 39) * 4);
        weir_graph_free(g);
    }
    weir_device_close(alone);
    for (int n_threads = 1; n_threads <= 3; n_threads += 2) {
        pthread_t handles[THREADS];
        shared = open_cpu(n_threads);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&handles[i], NULL, work, (void *)(intptr_t)i), 0);
        for (int i = 0; i < THREADS; i++) pthread_join(handles[i], NULL);
        for (int i = 0; i < THREADS; i++) assert_int_equal(failures[i], 0);
        weir_device_close(shared);
    }
}

static void unknown_devices_are_refused(void **state) {
    (void)state;
    weir_device *device = (weir_device *)1;
    weir_error err;
    assert_int_equal(weir_device_open("abacus", 0, &device, &err), WEIR_E_UNSUPPORTED);
    assert_null(device);
    assert_non_null(strstr(err.message, "abacus"));
    assert_int_equal(weir_device_open("cpu", -1, &device, &err), WEIR_E_ARGUMENT);
    assert_int_equal(weir_device_open(NULL, 0, &device, &err), WEIR_E_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_threads_get_what_one_gets),
        cmocka_unit_test(unknown_devices_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
