/* Devices by name: what is described, what "auto" stands for, and what is refused with which words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "array/graph.h"
#include "cpu/isa.h"

static void the_cpu_is_described(void **state) {
    (void)state;
    weir_device_info info;
    weir_error err;
    assert_int_equal(weir_device_describe("cpu", &info, &err), WEIR_OK);
    assert_string_equal(info.name, "cpu");
    assert_string_equal(info.model, wr_cpu_isa_name(wr_cpu_level()));
    assert_int_equal(info.n_units, wr_pool_cores());
    assert_true(info.memory_bytes > 0 && info.free_bytes <= info.memory_bytes);
    assert_int_equal(info.capability, 0);
    assert_string_equal(info.problem, "");
}

static void wrong_names_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *name;
        weir_status status;
        const char *says;
    } cases[] = {
        {NULL, WEIR_E_ARGUMENT, "NULL"},        {"", WEIR_E_UNSUPPORTED, "cuda:N"},
        {"cpu:0", WEIR_E_UNSUPPORTED, "cpu:0"}, {"cudax", WEIR_E_UNSUPPORTED, "cudax"},
        {"cuda:", WEIR_E_ARGUMENT, "number"},   {"cuda:-1", WEIR_E_ARGUMENT, "number"},
        {"cuda:1x", WEIR_E_ARGUMENT, "number"}, {"cuda:99999999999999999999", WEIR_E_ARGUMENT, "number"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weir_device_info info;
        weir_device *device;
        weir_error err;
        assert_int_equal(weir_device_describe(cases[i].name, &info, &err), cases[i].status);
        assert_non_null(strstr(err.message, cases[i].says));
        assert_int_equal(weir_device_open(cases[i].name, 1, &device, &err), cases[i].status);
        assert_non_null(strstr(err.message, cases[i].says));
        assert_null(device);
    }
    weir_error err;
    assert_int_equal(weir_device_describe("cpu", NULL, &err), WEIR_E_ARGUMENT);
}

/* WEIR_CUDA_LIBRARY names no library: somebody wanted a GPU, so there is a reason to tell, and the CPU serves. */
static void auto_is_the_cpu_when_the_gpu_is_of_no_use(void **state) {
    (void)state;
    char name[16];
    weir_error why, err;
    weir_device *device;
    setenv("WEIR_CUDA_LIBRARY", "/nosuch/library.so", 1);
    wr_device_choose(name, &why);
    assert_string_equal(name, "cpu");
    assert_int_equal(why.status, WEIR_E_UNSUPPORTED);
    assert_non_null(strstr(why.message, "/nosuch/library.so"));
    assert_null(wr_device_cuda_built_for(&err));
    assert_int_equal(weir_device_open("cuda", 1, &device, &err), WEIR_E_UNSUPPORTED);
    assert_int_equal(weir_device_open("auto", 1, &device, &err), WEIR_OK);
    assert_ptr_equal(device->backend, wr_backend_cpu());
    weir_device_close(device);
    unsetenv("WEIR_CUDA_LIBRARY");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cpu_is_described),
        cmocka_unit_test(wrong_names_are_refused),
        cmocka_unit_test(auto_is_the_cpu_when_the_gpu_is_of_no_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
