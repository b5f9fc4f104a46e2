/* Levels of the CPU room, and the join of fast rows with the reference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cpu/isa.h"
#include "cpu/ref/ref.h"

/* WEIR_CPU is read once a process, so each value is tried in a child. */
static bool in_child(const char *value, weir_status status, wr_cpu_isa level, const char *in_message) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        weir_error err = {0};
        setenv("WEIR_CPU", value, 1);
        bool good = wr_cpu_level_error(&err) == status && wr_cpu_level() == level;
        if (in_message) good = good && strstr(err.message, in_message) != NULL;
        _exit(good ? 7 : 1);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    return WIFEXITED(result) && WEXITSTATUS(result) == 7;
}

static void levels_can_be_forced_down_and_not_up(void **state) {
    (void)state;
    static const char *const names[] = {"portable", "avx2", "avx512"};
    wr_cpu_isa machine = wr_cpu_machine_level();
    assert_true(wr_cpu_level() <= machine);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(wr_cpu_isa_name((wr_cpu_isa)i), names[i]);
        assert_int_equal(wr_cpu_level_force((wr_cpu_isa)i), i <= (int)machine);
        if (i <= (int)machine) assert_int_equal(wr_cpu_level(), i);
    }
    assert_false(wr_cpu_level_force((wr_cpu_isa)3));
}

/* Runs first, while this process has not read the variable. */
static void wrong_values_of_the_environment_are_errors(void **state) {
    (void)state;
    wr_cpu_isa machine;
    pid_t child = fork();
    if (child == 0) {
        unsetenv("WEIR_CPU");
        _exit(20 + (int)wr_cpu_machine_level());
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    machine = (wr_cpu_isa)(WEXITSTATUS(result) - 20);
    assert_true(in_child("portable", WEIR_OK, WR_CPU_PORTABLE, NULL));
    assert_true(in_child("", WEIR_OK, machine, NULL));
    assert_true(in_child("sse9", WEIR_E_ARGUMENT, machine, "WEIR_CPU=sse9"));
    if (machine >= WR_CPU_AVX2) assert_true(in_child("avx2", WEIR_OK, WR_CPU_AVX2, NULL));
    if (machine < WR_CPU_AVX512)
        assert_true(in_child("avx512", WEIR_E_UNSUPPORTED, machine, wr_cpu_isa_name(machine)));
    else
        assert_true(in_child("avx512", WEIR_OK, WR_CPU_AVX512, NULL));
}

static void every_op_ends_with_its_reference(void **state) {
    (void)state;
    const wr_backend *backend = wr_backend_cpu();
    assert_string_equal(backend->name, "cpu");
    for (int op = 0; op < WR_OP_COUNT; op++) {
        const wr_kernel_row *row = backend->kernels((wr_op_id)op);
        if (op == WR_OP_DATA || wr_ops[op].flags & WR_DEVICE_ONLY) {
            assert_null(row);
            continue;
        }
        assert_non_null(row);
        while (row[1].run) row++;
        assert_string_equal(row->name, "ref");
        assert_true(row->run == wr_cpu_ref((wr_op_id)op));
        assert_null(row->fits);
    }
    assert_null(backend->kernels(WR_OP_COUNT));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_values_of_the_environment_are_errors),
        cmocka_unit_test(levels_can_be_forced_down_and_not_up),
        cmocka_unit_test(every_op_ends_with_its_reference),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
