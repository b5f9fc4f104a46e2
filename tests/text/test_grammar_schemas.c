/* JSON Schemas: documents must get the verdicts of Python's jsonschema (tests/data/text/grammar/schemas.json, made by
 * tools/check_grammar.py --goldens), and what cannot be enforced is refused by name. */
#include "text_test.h"

#include <locale.h>

#include "base/fault.h"
#include "weir/grammar.h"

static weir_grammar *compile(const char *schema, const weir_schema_options *options, weir_error *err) {
    weir_grammar *g = NULL;
    weir_grammar_from_schema(schema, strlen(schema), options, &g, err);
    return g;
}

static bool accepts(weir_constraint *k, const char *text, size_t bytes) {
    weir_constraint_state *s;
    assert_int_equal(weir_constraint_state_new(k, 0, &s, NULL), WEIR_OK);
    bool yes =
        weir_constraint_state_accept_bytes(s, text, bytes, NULL, NULL) == WEIR_OK && weir_constraint_state_can_end(s);
    weir_constraint_state_free(s);
    return yes;
}

static void documents_get_the_verdicts_of_jsonschema(void **state) {
    (void)state;
    json_t *root = load_golden(DATA("grammar/schemas.json")), *c, *text;
    size_t i, t, n_texts = 0, n_schemas = 0;
    json_array_foreach(root, i, c) {
        char *schema = json_dumps(json_object_get(c, "schema"), JSON_ENCODE_ANY);
        const json_t *accepted = json_object_get(c, "accepted"), *rejected = json_object_get(c, "rejected");
        weir_error err = {0};
        weir_grammar *g = compile(schema, &(weir_schema_options){.one_of_as_any_of = false}, &err);
        if (!g && strstr(err.message, "no text at all fits") && !json_array_size(accepted)) {
            wr_free(schema);
            continue;
        }
        if (!g) fail_msg("%s: %s", schema, err.message);
        weir_constraint *k;
        assert_int_equal(weir_constraint_new(g, NULL, 0, &k, &err), WEIR_OK);
        for (int verdict = 0; verdict < 2; verdict++) json_array_foreach(verdict ? accepted : rejected, t, text) {
                n_texts++;
                if (accepts(k, json_string_value(text), json_string_length(text)) != verdict)
                    fail_msg("%s: %s is %s", schema, json_string_value(text), verdict ? "valid" : "not valid");
            }
        n_schemas++;
        weir_constraint_free(k);
        weir_grammar_release(g);
        wr_free(schema);
    }
    assert_true(n_schemas >= 200);
    assert_true(n_texts >= 5000);
    json_decref(root);
}

static void what_cannot_be_enforced_is_refused_with_its_place(void **state) {
    (void)state;
    static const struct {
        const char *schema;
        weir_status status;
        const char *words[2];
    } cases[] = {
        {"{\"properties\":{\"a\":{\"not\":{\"type\":\"null\"}}}}",
         WEIR_E_UNSUPPORTED,
         {"/properties/a/not", "\"not\""}},
        {"{\"type\":\"array\",\"uniqueItems\":true}", WEIR_E_UNSUPPORTED, {"/uniqueItems", "cannot be enforced"}},
        {"{\"type\":\"array\",\"contains\":{}}", WEIR_E_UNSUPPORTED, {"/contains", ""}},
        {"{\"if\":{},\"then\":{\"type\":\"null\"}}", WEIR_E_UNSUPPORTED, {"/if", ""}},
        {"{\"dependentRequired\":{\"a\":[\"b\"]}}", WEIR_E_UNSUPPORTED, {"/dependentRequired", ""}},
        {"{\"unevaluatedProperties\":false}", WEIR_E_UNSUPPORTED, {"/unevaluatedProperties", ""}},
        {"{\"minlength\":3}", WEIR_E_UNSUPPORTED, {"/minlength", ""}},
        {"{\"$defs\":{\"x\":{\"format\":\"iri\"}},\"items\":{\"$ref\":\"#/$defs/x\"}}",
         WEIR_E_UNSUPPORTED,
         {"/$defs/x/format", "\"iri\""}},
        {"{\"type\":\"string\",\"pattern\":\"(a)\\\\1\"}", WEIR_E_UNSUPPORTED, {"/pattern", "back reference"}},
        {"{\"type\":\"string\",\"pattern\":\"(?=a)\"}", WEIR_E_UNSUPPORTED, {"/pattern", "look-around"}},
        {"{\"type\":\"string\",\"pattern\":\"a\\\\b\"}", WEIR_E_UNSUPPORTED, {"/pattern", "word boundary"}},
        {"{\"type\":\"string\",\"pattern\":\"(a\"}", WEIR_E_FORMAT, {"/pattern", "open group"}},
        {"{\"oneOf\":[{\"type\":\"string\"},{\"type\":[\"string\",\"null\"]}]}",
         WEIR_E_UNSUPPORTED,
         {"/oneOf", "branches 0 and 1"}},
        {"{\"oneOf\":[{\"required\":[\"a\"]},{\"required\":[\"b\"]}]}", WEIR_E_UNSUPPORTED, {"/oneOf", ""}},
        {"{\"$ref\":\"#\"}", WEIR_E_FORMAT, {"refers to itself", ""}},
        {"{\"$ref\":\"#/nowhere\"}", WEIR_E_FORMAT, {"/$ref", "nothing lies at"}},
        {"{\"$ref\":\"other.json\"}", WEIR_E_UNSUPPORTED, {"/$ref", "another document"}},
        {"{\"items\":{\"$id\":\"x\",\"items\":{\"$ref\":\"#\"}}}", WEIR_E_UNSUPPORTED, {"/items/$id", "embedded"}},
        {"{\"allOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}", WEIR_E_FORMAT, {"no text at all fits", ""}},
        {"{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}", WEIR_E_FORMAT, {"no text at all fits", ""}},
        {"{\"type\":\"object\",\"properties\":{\"n\":{\"$ref\":\"#\"}},\"required\":[\"n\"]}",
         WEIR_E_FORMAT,
         {"no text at all", ""}},
        {"{\"type\":\"array\",\"items\":false,\"minItems\":1}", WEIR_E_FORMAT, {"no text at all fits", ""}},
        {"{\"type\":\"object\",\"minProperties\":3}", WEIR_E_UNSUPPORTED, {"/minProperties", "twice"}},
        {"{\"multipleOf\":1234567891}", WEIR_E_UNSUPPORTED, {"multipleOf", "above 1000000000"}},
        {"{\"allOf\":[{\"multipleOf\":2},{\"multipleOf\":3}]}",
         WEIR_E_UNSUPPORTED,
         {"/multipleOf", "two different multiples"}},
        {"{\"type\":\"strin\"}", WEIR_E_FORMAT, {"/type", "must be"}},
        {"{\"minLength\":-1}", WEIR_E_FORMAT, {"/minLength", "must be"}},
        {"{\"required\":\"a\"}", WEIR_E_FORMAT, {"/required", "must be"}},
        {"{\"properties\":[]}", WEIR_E_FORMAT, {"/properties", "must be"}},
        {"{\"anyOf\":[]}", WEIR_E_FORMAT, {"/anyOf", "not empty"}},
        {"{\"items\":3}", WEIR_E_FORMAT, {"/items", "must be an object"}},
        {"{\"type\":", WEIR_E_FORMAT, {"schema: line 1", ""}},
        {"3", WEIR_E_FORMAT, {"must be an object", ""}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weir_error err = {0};
        weir_grammar *g = NULL;
        weir_status st = weir_grammar_from_schema(cases[i].schema, strlen(cases[i].schema), NULL, &g, &err);
        if (st != cases[i].status || !strstr(err.message, cases[i].words[0]) || !strstr(err.message, cases[i].words[1]))
            fail_msg("%s: status %d, \"%s\"", cases[i].schema, st, err.message);
        assert_null(g);
    }
}

/* Small text, large demands: each must end soon, with a grammar or a LIMIT. */
static void hostile_schemas_are_bounded(void **state) {
    (void)state;
    static const char *const cases[] = {
        "{\"type\":\"string\",\"pattern\":\"^(((((a{1,99}){1,99}){1,99}){1,99}){1,99})$\"}",
        "{\"type\":\"string\",\"pattern\":\"^(a|b)*a(a|b){40}$\",\"minLength\":2,\"maxLength\":900}",
        "{\"type\":\"string\",\"pattern\":\"^.{100000}$\"}",
        "{\"type\":\"string\",\"pattern\":\"^(\\\\p{L}{1,1000}){1,1000}$\"}",
        "{\"type\":\"array\",\"minItems\":4000000000}",
        "{\"type\":\"string\",\"minLength\":4000000000}",
        "{\"type\":\"integer\",\"minimum\":1e300,\"maximum\":1e308}",
        "{\"allOf\":[{\"anyOf\":[{},{},{},{}]},{\"anyOf\":[{},{},{},{}]},{\"anyOf\":[{},{},{},{}]},{\"anyOf\":[{},{},{}"
        ",{}]},"
        "{\"anyOf\":[{},{},{},{}]},{\"anyOf\":[{},{},{},{}]},{\"anyOf\":[{},{},{},{}]}]}",
        "{\"$defs\":{\"a\":{\"anyOf\":[{\"$ref\":\"#/$defs/b\"},{\"$ref\":\"#/$defs/"
        "b\"}]},\"b\":{\"anyOf\":[{\"$ref\":\"#/$defs/a\"},"
        "{\"type\":\"null\"}]}},\"$ref\":\"#/$defs/a\"}",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weir_error err = {0};
        double start = now_s();
        weir_grammar *g = NULL;
        weir_status st = weir_grammar_from_schema(cases[i], strlen(cases[i]), NULL, &g, &err);
        if (st != WEIR_OK && st != WEIR_E_LIMIT && st != WEIR_E_FORMAT)
            fail_msg("%s: %d %s", cases[i], st, err.message);
        weir_grammar_release(g);
        if (now_s() - start > 20) fail_msg("%s took %.1f s", cases[i], now_s() - start);
    }
    char *many = malloc(1 << 16);
    size_t n = (size_t)sprintf(many, "{\"properties\":{");
    for (int i = 0; i < 257; i++) n += (size_t)sprintf(many + n, "%s\"p%d\":{}", i ? "," : "", i);
    n += (size_t)sprintf(many + n, "}}");
    weir_grammar *g;
    assert_int_equal(weir_grammar_from_schema(many, n, NULL, &g, NULL), WEIR_E_LIMIT);
    free(many);
}

static void check_text(const char *schema, const weir_schema_options *options, const char *text, bool expected) {
    weir_error err = {0};
    weir_constraint *k;
    weir_grammar *g = compile(schema, options, &err);
    if (!g) fail_msg("%s: %s", schema, err.message);
    assert_int_equal(weir_constraint_new(g, NULL, 0, &k, &err), WEIR_OK);
    if (accepts(k, text, strlen(text)) != expected)
        fail_msg("%s: %s should be %s", schema, text, expected ? "accepted" : "rejected");
    weir_constraint_free(k);
    weir_grammar_release(g);
}

static void options_choose_whitespace_and_spelling(void **state) {
    (void)state;
    static const char schema[] = "{\"properties\":{\"a\":{\"type\":\"string\"}},\"required\":[\"a\"],"
                                 "\"additionalProperties\":false,\"type\":\"object\"}";
    weir_schema_options none = {.max_whitespace = -1}, two = {.max_whitespace = 2}, plain = {.plain_strings = true};
    check_text(schema, NULL, " {\n \"a\" : \"x\" } \t", true);
    check_text(schema, &none, "{\"a\":\"x\"}", true);
    check_text(schema, &none, "{\"a\": \"x\"}", false);
    check_text(schema, &two, "{  \"a\"  :  \"x\"  }  ", true);
    check_text(schema, &two, "{   \"a\":\"x\"}", false);
    check_text(schema, &two, "{\"a\":\"x\"}   ", false);
    check_text(schema, NULL, "{\"\\u0061\":\"\\u0078\\/\"}", true);
    check_text(schema, &plain, "{\"\\u0061\":\"x\"}", false);
    check_text(schema, &plain, "{\"a\":\"\\/\"}", false);
    check_text(schema, &plain, "{\"a\":\"\\n\\u001f\\\"\\\\\xc3\xa9\"}", true);
    check_text("{\"oneOf\":[{\"type\":\"string\"},{\"type\":[\"string\",\"null\"]}]}",
               &(weir_schema_options){.one_of_as_any_of = true}, "null", true);
    weir_grammar *g;
    assert_int_equal(weir_grammar_from_schema("{}", 2, &(weir_schema_options){.max_whitespace = 1000}, &g, NULL),
                     WEIR_E_ARGUMENT);
}

/* What docs/grammars.md says beyond what jsonschema says. */
static void stated_rules_hold(void **state) {
    (void)state;
    check_text("{\"type\":\"integer\"}", NULL, "01", false);
    check_text("{\"type\":\"number\"}", NULL, "-1.5E+3", true);
    check_text("{\"type\":\"number\",\"minimum\":0}", NULL, "-0", true);
    check_text("{\"type\":\"number\",\"exclusiveMaximum\":0}", NULL, "-0.0", false);
    check_text("{\"type\":\"object\"}", NULL, "{\"a\":1,\"a\":2}", true); /* undeclared names are not remembered */
    check_text("{\"properties\":{\"a\":{}}}", NULL, "{\"a\":1,\"\\u0061\":2}", false);
    check_text("{\"type\":\"string\"}", NULL, "\"\\ud83d\\ude00\"", true);
    check_text("{\"type\":\"string\"}", NULL, "\"\\ud83d\"", false); /* half a character */
    check_text("{\"type\":\"string\"}", NULL, "\"\xed\xa0\x80\"", false);
    check_text("{\"type\":\"string\"}", NULL, "\"\xc0\x80\"", false);
    check_text("{\"type\":\"string\",\"maxLength\":1}", NULL, "\"\\ud83d\\ude00\"", true);
    check_text("{\"type\":\"string\",\"maxLength\":1}", NULL, "\"\xf0\x9f\x98\x80\"", true);
    check_text("{\"type\":\"string\",\"format\":\"email\"}", NULL, "\"a.b@c.de\"", true);
    check_text("{\"type\":\"string\",\"format\":\"email\"}", NULL, "\"a..b@c.de\"", false);
    check_text("{\"type\":\"string\",\"format\":\"duration\"}", NULL, "\"P1Y2M3DT4H5M6S\"", true);
    check_text("{\"type\":\"string\",\"format\":\"duration\"}", NULL, "\"P1Y3D\"", false);
    check_text("{\"type\":\"string\",\"format\":\"uri\"}", NULL, "\"https://u@h.org:80/a%20b?q=1#f\"", true);
    check_text("{\"type\":\"string\",\"format\":\"uri\"}", NULL, "\"no uri\"", false);
    check_text("{\"type\":\"string\",\"format\":\"hostname\"}", NULL, "\"a-b.example\"", true);
    check_text("{\"type\":\"string\",\"format\":\"time\"}", NULL, "\"23:59:59.5-01:30\"", true);
}

/* By default any spelling of a number that fits; with plain_numbers one that every reader takes for what it is. */
static void numbers_are_spelled_as_the_option_says(void **state) {
    (void)state;
    static const char draft4[] = "{\"$schema\":\"http://json-schema.org/draft-04/schema#\",\"type\":\"integer\"}";
    static const struct {
        const char *schema, *text;
        bool any, plain; /* accepted */
    } cases[] = {
        {"{\"type\":\"integer\"}", "-10", true, true},
        {"{\"type\":\"integer\"}", "1.0", true, false},
        {"{\"type\":\"integer\"}", "1.5e1", true, false},
        {"{\"type\":\"integer\"}", "1200E-2", true, false},
        {"{\"type\":\"integer\"}", "1.5", false, false},
        {"{\"type\":\"integer\"}", "1200e-3", false, false},
        {"{\"type\":\"integer\"}", "0.000", true, false},
        {draft4, "10", true, true},
        {draft4, "1.0", false, false}, /* no integer in that draft */
        {draft4, "1e1", false, false},
        {"{\"type\":\"number\"}", "1.50e-3", true, true},
        {"{\"minimum\":0,\"type\":\"number\"}", "1e3", true, false},
        {"{\"minimum\":0,\"type\":\"number\"}", "-1e-30", false, false},
        {"{\"minimum\":0,\"type\":\"number\"}", "-0.0e5", true, false},
        {"{\"minimum\":0,\"type\":\"number\"}", "1.50", true, true},
        {"{\"multipleOf\":0.25,\"maximum\":10}", "975.0e-2", true, false},
        {"{\"multipleOf\":0.25,\"maximum\":10}", "9.76", false, false},
        {"{\"multipleOf\":12,\"maximum\":1200}", "0.12E4", true, false},
        {"{\"enum\":[1]}", "1.00", true, true},
        {"{\"enum\":[1]}", "10e-1", true, false},
        {"{\"enum\":[1.5, \"a\"]}", "1.500", true, true},
        {"{\"enum\":[1.5, \"a\"]}", "15e-1", true, false},
        {"{\"enum\":[1.5, \"a\"]}", "15e-2", false, false},
        {"{\"const\":0}", "-0e99", true, false},
        {"{\"const\":1.0,\"type\":\"integer\"}", "1", true, true},
        {"{\"const\":[1, 2.0]}", "[1.0, 2]", true, true},
        {"{\"allOf\":[{\"enum\":[1,2]},{\"enum\":[2.0,3]}]}", "2", true, true},
    };
    weir_schema_options plain = {.plain_numbers = true};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check_text(cases[i].schema, NULL, cases[i].text, cases[i].any);
        check_text(cases[i].schema, &plain, cases[i].text, cases[i].plain);
    }
    weir_error err = {0};
    assert_null(compile("{\"multipleOf\":12345}", &plain, &err));
    assert_int_equal(err.status, WEIR_E_UNSUPPORTED);
    /* Each number of an enum is a reading of its own, so of very many only plain ones are read. */
    for (int n = 1000; n <= 1001; n++) {
        char *schema = malloc(16 + 5u * (size_t)n), *at = schema + sprintf(schema, "{\"enum\":[0");
        for (int i = 1; i < n; i++) at += sprintf(at, ",%d", i);
        strcpy(at, "]}");
        check_text(schema, NULL, "999", true);
        check_text(schema, NULL, "99.9e1", n == 1000);
        check_text(schema, NULL, "999.5", false);
        free(schema);
    }
}

/* Whichever allocation fails, the failure is a status and nothing is lost. */
static void every_allocation_may_fail(void **state) {
    (void)state;
    static const char schema[] = "{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"pattern\":\"^(ab)*$"
                                 "\",\"maxLength\":5},\"n\":{\"enum\":[1,[2],"
                                 "{\"k\":null}]},\"next\":{\"$ref\":\"#\"}},\"patternProperties\":{\"^x\":{\"type\":"
                                 "\"integer\",\"minimum\":3}},\"required\":[\"a\"]}";
    static const char text[] = "{\"a\":\"abab\",\"x\":4,\"n\":{\"k\":null},\"next\":{\"a\":\"\"}}";
    bool done = false;
    for (uint64_t nth = 1; !done; nth++) {
        weir_error err = {0};
        weir_grammar *g = NULL;
        weir_constraint *k = NULL;
        weir_constraint_state *s = NULL, *copy = NULL;
        wr_fault_arm(WR_FAULT_MEMORY, nth);
        weir_status st = weir_grammar_from_schema(schema, strlen(schema), NULL, &g, &err);
        if (st == WEIR_OK) st = weir_constraint_new(g, NULL, 0, &k, &err);
        if (st == WEIR_OK) st = weir_constraint_state_new(k, 4, &s, &err);
        if (st == WEIR_OK) st = weir_constraint_state_accept_bytes(s, text, sizeof text - 1, NULL, &err);
        if (st == WEIR_OK) st = weir_constraint_state_dup(s, &copy, &err);
        done = wr_fault_calls(WR_FAULT_MEMORY) < nth;
        wr_fault_arm(WR_FAULT_MEMORY, 0);
        if (done)
            assert_int_equal(st, WEIR_OK);
        else if (st != WEIR_E_MEMORY)
            fail_msg("call %d: status %d, \"%s\"", (int)nth, st, err.message);
        weir_constraint_state_free(copy);
        weir_constraint_state_free(s);
        weir_constraint_free(k);
        weir_grammar_release(g);
    }
}

/* A program may have set a locale that writes 1.5 as 1,5. */
static void bounds_hold_where_the_decimal_point_is_a_comma(void **state) {
    (void)state;
    static const char schema[] = "{\"type\": \"number\", \"minimum\": 1.5, \"maximum\": 2.25}";
    static const char *const texts[] = {"1.5", "2.25", "1.49", "2.26"}; /* the first two fit */
    char folder[] = "/tmp/weir-locale-XXXXXX", command[200];
    assert_non_null(mkdtemp(folder));
    snprintf(command, sizeof command, "localedef -i de_DE -f UTF-8 %s/de_DE.UTF-8 2>/dev/null", folder);
    bool made = system(command) == 0;
    setenv("LOCPATH", folder, 1);
    bool set = made && setlocale(LC_NUMERIC, "de_DE.UTF-8") && *localeconv()->decimal_point == ',';
    bool right[4] = {false};
    if (set) {
        weir_grammar *g = compile(schema, NULL, NULL);
        weir_constraint *k;
        assert_non_null(g);
        assert_int_equal(weir_constraint_new(g, NULL, 0, &k, NULL), WEIR_OK);
        for (int i = 0; i < 4; i++) right[i] = accepts(k, texts[i], strlen(texts[i])) == (i < 2);
        weir_constraint_free(k);
        weir_grammar_release(g);
    }
    setlocale(LC_NUMERIC, "C");
    unsetenv("LOCPATH");
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    if (!set) skip(); /* this system has no means to make such a locale */
    for (int i = 0; i < 4; i++) assert_true(right[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents_get_the_verdicts_of_jsonschema),
        cmocka_unit_test(what_cannot_be_enforced_is_refused_with_its_place),
        cmocka_unit_test(hostile_schemas_are_bounded),
        cmocka_unit_test(options_choose_whitespace_and_spelling),
        cmocka_unit_test(stated_rules_hold),
        cmocka_unit_test(numbers_are_spelled_as_the_option_says),
        cmocka_unit_test(bounds_hold_where_the_decimal_point_is_a_comma),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
