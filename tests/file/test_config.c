/* Configurations: where values are looked for, and what is refused. */
#include "fixture.h"

#include "file/config.h"

static wr_config *config_of(const char *text) {
    weir_error err;
    wr_config *config;
    assert_ok(wr_config_parse(text, strlen(text), "config.json", &config, &err));
    return config;
}

static void text_config_comes_before_the_root(void **state) {
    (void)state;
    weir_error err;
    int64_t n;
    wr_config *c = config_of("{\"a\": 1, \"b\": 2, \"text_config\": {\"a\": 3, \"b\": null}}");
    assert_ok(wr_config_int(c, "a", 0, 9, &n, &err));
    assert_int_equal(n, 3);
    assert_ok(wr_config_int(c, "b", 0, 9, &n, &err)); /* null counts as absent */
    assert_int_equal(n, 2);
    assert_false(wr_config_has(c, "c"));
    wr_config_free(c);
    wr_config_free(NULL);
}

static void paths_reach_into_objects_and_do_not_mix_two_of_them(void **state) {
    (void)state;
    weir_error err;
    double x;
    wr_config *c =
        config_of("{\"r\": {\"f\": 8, \"g\": 5}, \"text_config\": {\"r\": {\"f\": 2.5, \"d\": {\"e\": 1}}}}");
    assert_ok(wr_config_float_or(c, "r.f", 0, 10, -1, &x, &err));
    assert_true(x == 2.5);
    assert_ok(wr_config_float_or(c, "r.g", 0, 10, -1, &x, &err));
    assert_true(x == -1);
    assert_ok(wr_config_float_or(c, "r.d.e", 0, 10, -1, &x, &err));
    assert_true(x == 1);
    assert_false(wr_config_has(c, "r.f.x"));
    assert_false(wr_config_has(c, ""));
    assert_false(wr_config_has(c, "."));
    wr_config_free(c);
}

static void whole_numbers_written_as_reals_are_integers(void **state) {
    (void)state;
    weir_error err;
    int64_t n;
    wr_config *c = config_of("{\"a\": 4096.0, \"b\": 4096.5, \"c\": 1e300}");
    assert_ok(wr_config_int(c, "a", 0, 9999, &n, &err));
    assert_int_equal(n, 4096);
    assert_int_equal(wr_config_int(c, "b", 0, 9999, &n, &err), WEIR_E_FORMAT);
    assert_int_equal(wr_config_int(c, "c", INT64_MIN, INT64_MAX, &n, &err), WEIR_E_FORMAT);
    wr_config_free(c);
}

static void a_value_at_its_bound_passes_and_one_beyond_is_named(void **state) {
    (void)state;
    weir_error err;
    int64_t n;
    double x;
    wr_config *c = config_of("{\"n\": 9, \"x\": 0.5, \"b\": \"yes\", \"s\": 3}");
    bool flag;
    const char *text;
    assert_ok(wr_config_int(c, "n", 9, 9, &n, &err));
    assert_int_equal(wr_config_int(c, "n", 10, 20, &n, &err), WEIR_E_FORMAT);
    assert_says(err, "n is 9; it must be an integer from 10 to 20");
    assert_int_equal(wr_config_int_or(c, "n", 0, 8, 5, &n, &err), WEIR_E_FORMAT);
    assert_ok(wr_config_float_or(c, "x", 0.5, 0.5, 0, &x, &err));
    assert_int_equal(wr_config_float_or(c, "x", 0.6, 1, 0, &x, &err), WEIR_E_FORMAT);
    assert_says(err, "x is 0.5; it must be a number from 0.6 to 1");
    assert_int_equal(wr_config_bool_or(c, "b", false, &flag, &err), WEIR_E_FORMAT);
    assert_says(err, "b is \"yes\"; it must be true or false");
    assert_int_equal(wr_config_string_or(c, "s", "", &text, &err), WEIR_E_FORMAT);
    assert_says(err, "s is 3; it must be a string");
    assert_int_equal(wr_config_int(c, "absent", 0, 1, &n, &err), WEIR_E_FORMAT);
    assert_says(err, "config.json has no 'absent'");
    wr_config_free(c);
}

static void absent_values_take_the_fallback(void **state) {
    (void)state;
    weir_error err;
    int64_t n;
    double x;
    bool flag;
    const char *text;
    wr_config *c = config_of("{\"null\": null}");
    assert_ok(wr_config_int_or(c, "null", 0, 1, 77, &n, &err)); /* the fallback need not be in range */
    assert_int_equal(n, 77);
    assert_ok(wr_config_float_or(c, "x", 0, 1, 1.5, &x, &err));
    assert_true(x == 1.5);
    assert_ok(wr_config_bool_or(c, "b", true, &flag, &err));
    assert_true(flag);
    assert_ok(wr_config_string_or(c, "s", NULL, &text, &err));
    assert_null(text);
    wr_config_free(c);
}

static void lists_are_read_by_element_and_a_lone_value_is_a_list_of_one(void **state) {
    (void)state;
    weir_error err;
    int64_t n;
    double x;
    const char *text;
    wr_config *c = config_of("{\"l\": [1, 2.5, \"three\"], \"one\": 7, \"o\": {}, \"empty\": []}");
    assert_ok(wr_config_count(c, "l", &n, &err));
    assert_int_equal(n, 3);
    assert_ok(wr_config_count(c, "one", &n, &err));
    assert_int_equal(n, 1);
    assert_ok(wr_config_count(c, "none", &n, &err));
    assert_int_equal(n, 0);
    assert_ok(wr_config_count(c, "empty", &n, &err));
    assert_int_equal(n, 0);
    assert_int_equal(wr_config_count(c, "o", &n, &err), WEIR_E_FORMAT);
    assert_ok(wr_config_int_at(c, "l", 0, 0, 9, &n, &err));
    assert_int_equal(n, 1);
    assert_ok(wr_config_float_at(c, "l", 1, 0, 9, &x, &err));
    assert_true(x == 2.5);
    assert_ok(wr_config_string_at(c, "l", 2, &text, &err));
    assert_string_equal(text, "three");
    assert_ok(wr_config_int_at(c, "one", 0, 0, 9, &n, &err));
    assert_int_equal(n, 7);
    assert_int_equal(wr_config_int_at(c, "l", 2, 0, 9, &n, &err), WEIR_E_FORMAT);
    assert_says(err, "l[2] is \"three\"");
    assert_int_equal(wr_config_int_at(c, "l", 3, 0, 9, &n, &err), WEIR_E_FORMAT);
    assert_says(err, "l has 3 elements");
    assert_int_equal(wr_config_int_at(c, "l", -1, 0, 9, &n, &err), WEIR_E_FORMAT);
    assert_int_equal(wr_config_int_at(c, "none", 0, 0, 9, &n, &err), WEIR_E_FORMAT);
    wr_config_free(c);
}

static void infinity_as_python_writes_it_is_read_from_a_file(void **state) {
    (void)state;
    weir_error err;
    wr_config *c;
    double x;
    const char *text;
    fixture_folder folder;
    fixture_folder_make(&folder);
    const char *path = fixture_write(&folder, "c.json", "{\"l\": [0.0, Infinity, -Infinity], \"s\": \"Infinity\\\"\"}");
    assert_ok(wr_config_read(path, &c, &err));
    assert_ok(wr_config_float_at(c, "l", 1, 0, 1e308, &x, &err));
    assert_true(x == 1e308);
    assert_ok(wr_config_float_at(c, "l", 2, -1e308, 0, &x, &err));
    assert_true(x == -1e308);
    assert_ok(wr_config_string_or(c, "s", "", &text, &err));
    assert_string_equal(text, "Infinity\"");
    wr_config_free(c);
    fixture_folder_remove(&folder);
}

static void a_configuration_above_16_mib_is_refused(void **state) {
    (void)state;
    weir_error err;
    wr_config *c;
    size_t bytes = (16 << 20) + 1;
    char *text = malloc(bytes);
    memset(text, ' ', bytes);
    assert_int_equal(wr_config_parse(text, bytes, "c", &c, &err), WEIR_E_LIMIT);
    assert_null(c);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_config_comes_before_the_root),
        cmocka_unit_test(paths_reach_into_objects_and_do_not_mix_two_of_them),
        cmocka_unit_test(whole_numbers_written_as_reals_are_integers),
        cmocka_unit_test(a_value_at_its_bound_passes_and_one_beyond_is_named),
        cmocka_unit_test(absent_values_take_the_fallback),
        cmocka_unit_test(lists_are_read_by_element_and_a_lone_value_is_a_list_of_one),
        cmocka_unit_test(infinity_as_python_writes_it_is_read_from_a_file),
        cmocka_unit_test(a_configuration_above_16_mib_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
