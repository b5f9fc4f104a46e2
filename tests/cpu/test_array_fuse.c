/* Fused element-wise chains have the bits of the unfused ones: random expressions over every dtype. */
#include "array/compile.h"
#include "array_cpu_test.h"

static weir_array *random_leaf(weir_graph *g, weir_dtype dtype, int n_dims, const int64_t *shape, uint64_t *seed) {
    int64_t n = wr_n_elements(n_dims, shape);
    float *data = malloc((size_t)n * sizeof *data + 4);
    for (int64_t i = 0; i < n; i++) data[i] = ((float)random_below(seed, 1 << 20) / (1 << 17)) - 4;
    weir_array *f = weir_from_data(g, WEIR_DTYPE_F32, n_dims, shape, data), *a = weir_cast(f, dtype);
    evaluate(a);
    free(data);
    return a;
}

static weir_array *random_op(weir_array **have, int n, uint64_t *seed) {
    weir_array *a = have[random_below(seed, (uint32_t)n)], *b = have[random_below(seed, (uint32_t)n)];
    bool is_bool = weir_array_dtype(a) == WEIR_DTYPE_BOOL && weir_array_dtype(b) == WEIR_DTYPE_BOOL;
    switch (random_below(seed, 22)) {
    case 0: return weir_exp(a);
    case 1: return weir_silu(a);
    case 2: return weir_gelu(a);
    case 3: return weir_tanh(a);
    case 4: return weir_sigmoid(a);
    case 5: return weir_rsqrt(a);
    case 6: return weir_cast(a, (weir_dtype)random_below(seed, WEIR_DTYPE_COUNT));
    case 7: return weir_less(a, b);
    case 8: return weir_select(weir_greater_equal(a, b), a, b);
    case 9: return weir_is_nan(a);
    case 10: return weir_logical_not(a);
    case 11: return weir_cast(a, WEIR_DTYPE_BF16);
    case 12: return weir_cast(a, WEIR_DTYPE_F16);
    case 13: return is_bool ? weir_logical_and(a, b) : weir_maximum(a, b);
    case 14: return is_bool ? weir_equal(a, b) : weir_sub(a, b);
    case 15: return weir_div(a, b);
    case 16: return is_bool ? weir_logical_or(a, b) : weir_floor_div(a, b);
    case 17: return is_bool ? weir_bit_xor(a, b) : weir_remainder(a, b);
    case 18: return weir_sin(a);
    case 19: return is_bool ? weir_not_equal(a, b) : weir_add(a, b);
    default: return is_bool ? weir_logical_and(a, b) : weir_mul(a, b);
    }
}

static void fused_equals_unfused_bit_for_bit(void **state) {
    (void)state;
    weir_device *device = open_cpu(2);
    uint64_t seed = 5;
    int fused = 0;
    for (int round = 0; round < 150; round++) {
        weir_graph *g = new_graph(device);
        weir_error err;
        int64_t shape[2] = {1 + random_below(&seed, 40), 1 + random_below(&seed, 70)};
        weir_array *have[40];
        int n = 0;
        for (int i = 0; i < 5; i++) {
            int64_t own[2] = {i == 3 ? 1 : shape[0], i == 4 ? 1 : shape[1]};
            static const weir_dtype common[] = {WEIR_DTYPE_BF16, WEIR_DTYPE_F16, WEIR_DTYPE_F32};
            weir_dtype d = i < 3 ? common[i] : (weir_dtype)random_below(&seed, WEIR_DTYPE_COUNT);
            have[n++] = weir_broadcast(random_leaf(g, d, 2, own, &seed), 2, shape);
        }
        have[n++] = weir_transpose(random_leaf(g, WEIR_DTYPE_BF16, DIMS(shape[1], shape[0]), &seed), NULL);
        int first = n;
        while (n < first + 20) {
            weir_array *made = random_op(have, n, &seed);
            if (weir_graph_error(g, &err) != WEIR_OK) fail_msg("%s", err.message);
            have[n++] = made;
        }
        weir_array *outputs[] = {have[n - 1], have[n - 2]};
        wr_program *with, *without;
        wr_program_options plain = {.no_fusion = true};
        assert_int_equal(wr_program_new(outputs, 2, NULL, &with, &err), WEIR_OK);
        assert_int_equal(wr_program_new(outputs, 2, &plain, &without, &err), WEIR_OK);
        assert_int_equal(wr_program_run(with, &err), WEIR_OK);
        assert_int_equal(wr_program_run(without, &err), WEIR_OK);
        fused += wr_program_n_steps(with) < wr_program_n_steps(without);
        for (int i = 0; i < 2; i++) {
            const wr_tensor *a = wr_program_output(with, i), *b = wr_program_output(without, i);
            assert_memory_equal(a->data, b->data, (size_t)weir_array_size(outputs[i]) * weir_dtype_bytes(a->dtype));
        }
        wr_program_free(with);
        wr_program_free(without);
        weir_graph_free(g);
    }
    assert_true(fused > 75); /* the test would be empty otherwise */
    weir_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(fused_equals_unfused_bit_for_bit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
