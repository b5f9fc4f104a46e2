/* The cache of evaluations: bounded, never fails, right on a hit. */
#include <unistd.h>

#include "array_test.h"
#include "base/fault.h"

/* Sanitizers keep freed memory on purpose; under them the resident size says nothing (0 is flat), and their own leak
 * check does this work. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

static size_t resident_bytes(void) {
    if (SANITIZED) return 0;
    long total = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f) return 0;
    if (fscanf(f, "%ld %ld", &total, &resident) != 2) resident = 0;
    fclose(f);
    return (size_t)resident * (size_t)sysconf(_SC_PAGESIZE);
}

static uint64_t evaluate_once(weir_device *device, int64_t n, float first) {
    weir_graph *g = new_graph(device);
    weir_error err;
    float *data = calloc((size_t)n, sizeof *data);
    data[0] = first;
    weir_array *x = weir_from_data(g, WEIR_DTYPE_F32, 1, &n, data);
    weir_array *y = weir_sum(weir_add(weir_exp(x), x), 0, NULL, false);
    if (weir_eval(&y, 1, &err) != WEIR_OK) fail_msg("%s", err.message);
    uint32_t bits;
    memcpy(&bits, weir_array_data(y), 4);
    free(data);
    weir_graph_free(g);
    return bits;
}

static void ten_thousand_shapes_survive_with_flat_memory(void **state) {
    (void)state;
    weir_device *device = open_fake(&fake_backend, 1);
    size_t warm = 0;
    for (int64_t n = 1; n <= 10000; n++) {
        evaluate_once(device, 1 + n % 97 + (n / 97) * 97, 1);
        if (n == 1000) warm = resident_bytes();
    }
    size_t end = resident_bytes();
    if (end > warm + (4u << 20)) fail_msg("memory rose from %zu to %zu bytes", warm, end);
    weir_device_close(device);
}

static void a_hit_reads_the_new_leaves(void **state) {
    (void)state;
    weir_device *device = open_fake(&fake_backend, 1);
    uint64_t a = evaluate_once(device, 8, 1), b = evaluate_once(device, 8, 2);
    assert_int_not_equal(a, b);
    assert_int_equal(evaluate_once(device, 8, 1), a);
    weir_device_close(device);
}

static void a_hit_compiles_nothing(void **state) {
    (void)state;
    weir_device *device = open_fake(&fake_backend, 1);
    evaluate_once(device, 8, 1);
    uint64_t before = wr_alloc_count();
    evaluate_once(device, 8, 1);
    uint64_t hit = wr_alloc_count() - before;
    before = wr_alloc_count();
    evaluate_once(device, 9, 1);
    assert_true(hit < wr_alloc_count() - before);
    weir_device_close(device);
}

static void graphs_that_share_leaves_differently_are_different(void **state) {
    (void)state;
    weir_device *device = open_fake(&fake_backend, 1);
    float one = 1, two = 2;
    uint32_t results[2];
    for (int same = 0; same < 2; same++) {
        weir_graph *g = new_graph(device);
        weir_array *a = weir_from_data(g, WEIR_DTYPE_F32, DIMS(1), &one);
        weir_array *b = weir_from_data(g, WEIR_DTYPE_F32, DIMS(1), &two);
        weir_array *y = weir_add(weir_exp(a), weir_exp(same ? a : b));
        weir_error err;
        assert_int_equal(weir_eval(&y, 1, &err), WEIR_OK);
        memcpy(&results[same], weir_array_data(y), 4);
        weir_graph_free(g);
    }
    assert_int_not_equal(results[0], results[1]);
    weir_device_close(device);
}

static void args_are_part_of_the_key(void **state) {
    (void)state;
    weir_device *device = open_fake(&fake_backend, 1);
    float data[6] = {1, 2, 3, 4, 5, 6};
    for (int axis = 0; axis < 2; axis++) {
        weir_graph *g = new_graph(device);
        weir_array *y = weir_sum(weir_from_data(g, WEIR_DTYPE_F32, DIMS(2, 3), data), 1, &axis, false);
        weir_error err;
        assert_int_equal(weir_eval(&y, 1, &err), WEIR_OK);
        assert_int_equal(weir_array_size(y), axis ? 2 : 3);
        weir_graph_free(g);
    }
    weir_device_close(device);
}

static void an_evaluated_array_is_a_leaf_afterwards(void **state) {
    (void)state;
    weir_device *device = open_fake(&fake_backend, 1);
    weir_graph *g = new_graph(device), *other = new_graph(device);
    weir_error err;
    weir_array *x = weir_exp(leaf(g, WEIR_DTYPE_F32, DIMS(8)));
    assert_null(weir_array_data(x));
    assert_int_equal(weir_eval(&x, 1, &err), WEIR_OK);
    const void *data = weir_array_data(x);
    weir_array *y = weir_neg(x);
    assert_int_equal(weir_eval((weir_array *[]){y, x}, 2, &err), WEIR_OK);
    assert_ptr_equal(weir_array_data(x), data);
    weir_array *kept = weir_array_keep(other, x);
    assert_ptr_equal(weir_array_data(kept), data);
    weir_graph_free(g); /* storage is counted */
    weir_array *z = weir_sin(kept);
    assert_int_equal(weir_eval(&z, 1, &err), WEIR_OK);
    weir_graph_free(other);
    weir_device_close(device);
}

static void every_failure_of_memory_is_a_status_and_the_next_attempt_works(void **state) {
    (void)state;
    weir_device *device = open_fake(&fake_backend, 1);
    uint64_t want = evaluate_once(device, 40, 3);
    for (uint64_t nth = 1; nth < 200; nth++) {
        weir_error err = {.status = WEIR_OK};
        weir_graph *g = NULL;
        float data[41] = {3};
        int64_t n = 40 + (int64_t)(nth & 1); /* both hits and misses */
        wr_fault_arm(WR_FAULT_MEMORY, nth);
        weir_status status = weir_graph_new(device, &g, &err);
        if (status == WEIR_OK) {
            weir_array *x = weir_from_data(g, WEIR_DTYPE_F32, 1, &n, data);
            weir_array *y = weir_sum(weir_add(weir_exp(x), x), 0, NULL, false);
            status = weir_eval(&y, 1, &err);
        }
        bool done = wr_fault_calls(WR_FAULT_MEMORY) < nth;
        wr_fault_arm(WR_FAULT_MEMORY, 0);
        if (status != WEIR_OK) {
            assert_int_equal(status, WEIR_E_MEMORY);
            assert_int_not_equal(err.message[0], 0);
        }
        weir_graph_free(g);
        assert_int_equal(evaluate_once(device, 40, 3), want);
        if (done && nth > 2 && !(nth & 1)) break;
        assert_true(nth < 199);
    }
    weir_device_close(device);
}

static void clearing_gives_back_what_evaluations_keep(void **state) {
    (void)state;
    weir_device *device = open_fake(&fake_backend, 1);
    weir_error err;
    size_t bytes = 1;
    assert_int_equal(weir_clear_cache(NULL, &bytes, &err), WEIR_E_ARGUMENT);
    assert_int_equal(weir_clear_cache(device, &bytes, &err), WEIR_OK);
    assert_int_equal(bytes, 0);
    uint64_t want = evaluate_once(device, 1000, 1);
    assert_int_equal(weir_clear_cache(device, &bytes, &err), WEIR_OK);
    assert_in_range(bytes, 8000, 16384); /* exp(x) and its sum with x */
    assert_int_equal(weir_clear_cache(device, &bytes, &err), WEIR_OK);
    assert_int_equal(bytes, 0);
    uint64_t built = wr_program_count();
    assert_int_equal(evaluate_once(device, 1000, 1), want);
    assert_int_equal(wr_program_count(), built + 1); /* the program is gone too */
    assert_int_equal(weir_clear_cache(device, NULL, &err), WEIR_OK);
    weir_device_close(device);
}

static void an_allocation_without_room_takes_the_arena_and_is_tried_once_more(void **state) {
    (void)state;
    weir_device *device = open_fake(&fake_backend, 1);
    weir_error err;
    void *p;
    size_t bytes;
    evaluate_once(device, 1000, 1);
    for (int arena = 1; arena >= 0; arena--) {
        wr_fault_arm(WR_FAULT_MEMORY, 1);
        weir_status status = wr_device_alloc(device, 4096, &p, &err);
        wr_fault_arm(WR_FAULT_MEMORY, 0);
        assert_int_equal(status, arena ? WEIR_OK : WEIR_E_MEMORY);
        wr_device_free(device, p, 4096);
        assert_int_equal(weir_clear_cache(device, &bytes, &err), WEIR_OK);
        assert_int_equal(bytes, 0);
    }
    weir_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ten_thousand_shapes_survive_with_flat_memory),
        cmocka_unit_test(a_hit_reads_the_new_leaves),
        cmocka_unit_test(a_hit_compiles_nothing),
        cmocka_unit_test(graphs_that_share_leaves_differently_are_different),
        cmocka_unit_test(args_are_part_of_the_key),
        cmocka_unit_test(an_evaluated_array_is_a_leaf_afterwards),
        cmocka_unit_test(every_failure_of_memory_is_a_status_and_the_next_attempt_works),
        cmocka_unit_test(clearing_gives_back_what_evaluations_keep),
        cmocka_unit_test(an_allocation_without_room_takes_the_arena_and_is_tried_once_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
