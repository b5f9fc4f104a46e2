/* Which devices a build is for: machine code runs on its own generation from its minor number on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "cuda/context.h"

static void a_device_needs_code_of_its_generation(void **state) {
    (void)state;
    static const struct {
        int capability;
        const char *architectures, *says; /* NULL: it can be used */
    } cases[] = {
        {75, "sm_80 sm_86", "8.0"},
        {80, "sm_80", NULL},
        {86, "sm_80", NULL},
        {89, "sm_80 sm_90a", NULL},
        {80, "sm_86", "-DWEIR_CUDA_ARCHS=80"},
        {90, "sm_80 sm_86 sm_89", "-DWEIR_CUDA_ARCHS=90"},
        {90, "sm_90a", NULL},
        {100, "sm_90a", "sm_90a only"},
        {103, "sm_90a sm_100", NULL},
        {121, "sm_80 sm_120", NULL},
        {120, "sm_121", "sm_121 only"},
        {120, "sm_80 sm_86 sm_89 sm_90a sm_100", "sm_120 device"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char why[240];
        wr_cuda_unfit(cases[i].capability, cases[i].architectures, why, sizeof why);
        if (cases[i].says)
            assert_non_null(strstr(why, cases[i].says));
        else
            assert_string_equal(why, "");
    }
}

static void a_long_list_is_cut_not_overrun(void **state) {
    (void)state;
    char why[24];
    memset(why, 'x', sizeof why);
    wr_cuda_unfit(121, "sm_80 sm_86 sm_89 sm_90a sm_100", why, sizeof why - 1);
    assert_int_equal(strlen(why), sizeof why - 2);
    assert_int_equal(why[sizeof why - 1], 'x');
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_needs_code_of_its_generation),
        cmocka_unit_test(a_long_list_is_cut_not_overrun),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
