/* Status text and error messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/status.h"

static void every_code_has_its_own_sentence(void **state) {
    (void)state;
    for (int a = 0; a < WEIR_STATUS_COUNT; a++) {
        assert_true(strlen(weir_status_text((weir_status)a)) > 1);
        for (int b = 0; b < a; b++)
            assert_string_not_equal(weir_status_text((weir_status)a), weir_status_text((weir_status)b));
    }
    assert_string_equal(weir_status_text(WEIR_OK), "ok");
}

static void a_code_from_nowhere_still_has_a_sentence(void **state) {
    (void)state;
    assert_string_equal(weir_status_text(WEIR_STATUS_COUNT), "unknown status");
    assert_string_equal(weir_status_text((weir_status)77), "unknown status");
}

static void message_ends_with_its_place(void **state) {
    (void)state;
    weir_error err;
    assert_int_equal(wr_fail_at(&err, WEIR_E_FORMAT, "/a/b/gguf.c", 88, "header says %d bytes", 912), WEIR_E_FORMAT);
    assert_int_equal(err.status, WEIR_E_FORMAT);
    assert_string_equal(err.message, "header says 912 bytes (gguf.c:88)");
}

static void context_goes_before_the_place(void **state) {
    (void)state;
    weir_error err;
    wr_fail_at(&err, WEIR_E_FORMAT, "x.c", 7, "bad (very)");
    wr_err_context(&err, "loading %s", "m.gguf");
    wr_err_context(&err, "second");
    assert_string_equal(err.message, "bad (very); loading m.gguf; second (x.c:7)");
    assert_int_equal(err.status, WEIR_E_FORMAT);
}

static void context_without_a_place_is_appended(void **state) {
    (void)state;
    weir_error err = {WEIR_E_IO, "foreign text"};
    wr_err_context(&err, "here");
    assert_string_equal(err.message, "foreign text; here");
    weir_error like_a_place = {WEIR_E_IO, "see (a b:12)"};
    wr_err_context(&like_a_place, "here");
    assert_string_equal(like_a_place.message, "see (a b:12); here");
    weir_error empty = {WEIR_E_IO, ""};
    wr_err_context(&empty, "only");
    assert_string_equal(empty.message, "only");
}

static void null_error_means_status_only(void **state) {
    (void)state;
    assert_int_equal(WR_FAIL(NULL, WEIR_E_MEMORY, "x"), WEIR_E_MEMORY);
    wr_err_context(NULL, "x");
}

static void a_message_may_quote_the_error_it_replaces(void **state) {
    (void)state;
    weir_error err;
    wr_fail_at(&err, WEIR_E_IO, "a.c", 1, "first");
    wr_fail_at(&err, WEIR_E_STATE, "b.c", 2, "second after %s", err.message);
    assert_string_equal(err.message, "second after first (a.c:1) (b.c:2)");
}

static void a_long_message_is_cut_and_keeps_its_place(void **state) {
    (void)state;
    weir_error err;
    char text[3 * WEIR_ERROR_BYTES];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    wr_fail_at(&err, WEIR_E_IO, "a.c", 1, "%s", text);
    assert_int_equal(strlen(err.message), WEIR_ERROR_BYTES - 1);
    assert_string_equal(err.message + WEIR_ERROR_BYTES - 1 - 8, " (a.c:1)");
    wr_err_context(&err, "%s", text);
    assert_int_equal(strlen(err.message), WEIR_ERROR_BYTES - 1);
    assert_string_equal(err.message + WEIR_ERROR_BYTES - 1 - 8, " (a.c:1)");
}

static void a_cut_never_splits_a_character(void **state) {
    (void)state;
    /* U+20AC is E2 82 AC; for each of three shifts the cut falls on another byte. */
    for (int shift = 0; shift < 3; shift++) {
        char text[1500] = "ab";
        size_t n = (size_t)shift;
        while (n + 3 < sizeof text) {
            memcpy(text + n, "\xE2\x82\xAC", 3);
            n += 3;
        }
        text[n] = 0;
        weir_error err;
        wr_fail_at(&err, WEIR_E_IO, "a.c", 1, "%s", text);
        size_t length = strlen(err.message), body = length - 8;
        assert_string_equal(err.message + body, " (a.c:1)");
        /* vsnprintf may have cut inside a character: then a '?' stands for each stray byte. */
        for (size_t i = (size_t)shift; i + 3 <= body && err.message[i] != '?'; i += 3)
            assert_memory_equal(err.message + i, "\xE2\x82\xAC", 3);
        assert_true(length <= WEIR_ERROR_BYTES - 1 && length >= WEIR_ERROR_BYTES - 4);
    }
}

static void bytes_that_are_not_utf8_are_replaced(void **state) {
    (void)state;
    weir_error err;
    /* Stray continuation, overlong, surrogate, above U+10FFFF, cut sequence. */
    wr_fail_at(&err, WEIR_E_IO, "a.c", 1, "%s", "\x80|\xC0\x80|\xED\xA0\x80|\xF4\x90\x80\x80|\xE2\x82");
    assert_string_equal(err.message, "?|??|???|????|?? (a.c:1)");
    wr_fail_at(&err, WEIR_E_IO, "a.c", 1, "%s", "\xC2\xA2 \xE2\x82\xAC \xF0\x9F\x98\x80 \xF4\x8F\xBF\xBF");
    assert_string_equal(err.message, "\xC2\xA2 \xE2\x82\xAC \xF0\x9F\x98\x80 \xF4\x8F\xBF\xBF (a.c:1)");
}

static weir_status forward(weir_error *err, int *reached) {
    weir_status status = WEIR_OK;
    WR_TRY(WEIR_OK);
    *reached = 1;
    WR_TRY_GOTO(status, WR_FAIL(err, WEIR_E_LIMIT, "limit"), fail);
    *reached = 2;
fail:
    return status;
}

static void try_forwards_the_first_failure(void **state) {
    (void)state;
    int reached = 0;
    weir_error err;
    assert_int_equal(forward(&err, &reached), WEIR_E_LIMIT);
    assert_int_equal(reached, 1);
    assert_non_null(strstr(err.message, "limit (test_status.c:"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_code_has_its_own_sentence),
        cmocka_unit_test(a_code_from_nowhere_still_has_a_sentence),
        cmocka_unit_test(message_ends_with_its_place),
        cmocka_unit_test(context_goes_before_the_place),
        cmocka_unit_test(context_without_a_place_is_appended),
        cmocka_unit_test(null_error_means_status_only),
        cmocka_unit_test(a_message_may_quote_the_error_it_replaces),
        cmocka_unit_test(a_long_message_is_cut_and_keeps_its_place),
        cmocka_unit_test(a_cut_never_splits_a_character),
        cmocka_unit_test(bytes_that_are_not_utf8_are_replaced),
        cmocka_unit_test(try_forwards_the_first_failure),
    };
    return cmocka_run_group_tests_name("status", tests, NULL, NULL);
}
