/* The gate that holds stop strings back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/stop.h"

/* Feed pieces; returns what came out, and where it stopped (-1: never). */
static int feed(const char *const *stops, size_t n_stops, const char *const *pieces, char *out) {
    wr_stop_gate gate;
    assert_int_equal(wr_stop_gate_init(&gate, stops, n_stops, 64, NULL), WEIR_OK);
    int stopped = -1;
    *out = 0;
    const char *text;
    size_t bytes;
    for (int i = 0; pieces[i] && stopped < 0; i++) {
        size_t room, n = strlen(pieces[i]);
        wr_stop_gate_begin(&gate);
        char *space = wr_stop_gate_space(&gate, &room);
        assert_true(n <= room);
        memcpy(space, pieces[i], n);
        if (wr_stop_gate_push(&gate, n, &text, &bytes)) stopped = i;
        strncat(out, text, bytes);
        strcat(out, "|");
    }
    if (stopped < 0) {
        wr_stop_gate_flush(&gate, &text, &bytes);
        strncat(out, text, bytes);
    }
    wr_stop_gate_deinit(&gate);
    return stopped;
}

static void a_stop_string_over_three_tokens_never_leaks(void **state) {
    (void)state;
    char out[256];
    int at = feed((const char *[]){"\nUser:"}, 1, (const char *[]){"Hi.", "\n", "Us", "er: more", NULL}, out);
    assert_int_equal(at, 3);
    assert_string_equal(out, "Hi.||||");
}

static void a_prefix_that_fails_to_match_is_let_go(void **state) {
    (void)state;
    char out[256];
    int at = feed((const char *[]){"\nUser:"}, 1, (const char *[]){"a\nUs", "ual", "\n", NULL}, out);
    assert_int_equal(at, -1);
    assert_string_equal(out, "a|\nUsual||\n"); /* the last newline only at the end */
}

static void the_earliest_of_several_wins(void **state) {
    (void)state;
    char out[256];
    int at = feed((const char *[]){"END", "B"}, 2, (const char *[]){"aBcEND", NULL}, out);
    assert_int_equal(at, 0);
    assert_string_equal(out, "a|");
}

static void overlapping_prefixes_keep_the_longest(void **state) {
    (void)state;
    char out[256];
    int at = feed((const char *[]){"aab"}, 1, (const char *[]){"a", "a", "a", "b", NULL}, out);
    assert_int_equal(at, 3);
    assert_string_equal(out, "||a||");
}

static void wrong_stop_strings_are_refused(void **state) {
    (void)state;
    wr_stop_gate gate;
    weir_error err = {0};
    char longer[WEIR_MAX_STOP_BYTES + 2];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    assert_int_equal(wr_stop_gate_init(&gate, (const char *[]){""}, 1, 8, &err), WEIR_E_ARGUMENT);
    assert_non_null(strstr(err.message, "stop string 0 has 0 bytes"));
    assert_int_equal(wr_stop_gate_init(&gate, (const char *[]){"ok", longer}, 2, 8, &err), WEIR_E_ARGUMENT);
    assert_non_null(strstr(err.message, "stop string 1 has 257 bytes"));
    const char *many[WEIR_MAX_STOP_STRINGS + 1];
    for (size_t i = 0; i <= WEIR_MAX_STOP_STRINGS; i++) many[i] = "s";
    assert_int_equal(wr_stop_gate_init(&gate, many, WEIR_MAX_STOP_STRINGS + 1, 8, &err), WEIR_E_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stop_string_over_three_tokens_never_leaks),
        cmocka_unit_test(a_prefix_that_fails_to_match_is_let_go),
        cmocka_unit_test(the_earliest_of_several_wins),
        cmocka_unit_test(overlapping_prefixes_keep_the_longest),
        cmocka_unit_test(wrong_stop_strings_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
