/* Grammars, expressions and choices: which texts they accept, what is refused, and the state of a sequence. Expected
 * verdicts are read off the grammars. */
#include "text_test.h"

#include "weir/grammar.h"

typedef struct verdict {
    const char *source;
    const char *accepted[12], *rejected[12];
} verdict;

static bool accepts(weir_constraint *k, const char *text) {
    weir_constraint_state *s;
    assert_int_equal(weir_constraint_state_new(k, 0, &s, NULL), WEIR_OK);
    bool yes = weir_constraint_state_accept_bytes(s, text, strlen(text), NULL, NULL) == WEIR_OK &&
               weir_constraint_state_can_end(s);
    weir_constraint_state_free(s);
    return yes;
}

static void check_verdict(weir_grammar *g, const verdict *v) {
    weir_constraint *k;
    assert_int_equal(weir_constraint_new(g, NULL, 0, &k, NULL), WEIR_OK);
    for (size_t i = 0; i < 12 && v->accepted[i]; i++)
        if (!accepts(k, v->accepted[i])) fail_msg("%s should accept \"%s\"", v->source, v->accepted[i]);
    for (size_t i = 0; i < 12 && v->rejected[i]; i++)
        if (accepts(k, v->rejected[i])) fail_msg("%s should reject \"%s\"", v->source, v->rejected[i]);
    weir_constraint_free(k);
    weir_grammar_release(g);
}

static void grammars_accept_their_texts(void **state) {
    (void)state;
    static const verdict cases[] = {
        {"root ::= \"yes\" | \"no\"", {"yes", "no"}, {"", "ye", "yesno", "maybe"}},
        {"root ::= [a-c]+ [^a-c\\n]?", {"a", "abcx", "cc\xc3\xa9"}, {"", "xa", "a\n", "axx"}},
        {"# sums\nroot ::= expr \"=\" num\nexpr ::= term ([-+] term)*\nterm ::= num |\n  \"(\" expr \")\"\nnum ::= "
         "[0-9]+",
         {"1=1", "1+2=3", "(1-(2))+3=4"},
         {"1+=2", "(1=1", "1"}},
        {"root ::= \"a\"{2,3} \"b\"{2} \"c\"{1,}", {"aabbc", "aaabbccc"}, {"abbc", "aaaabbc", "aabb"}},
        {"root ::= nested\nnested ::= \"(\" nested? \")\" nested?",
         {"()", "(())", "()()", "(()())()"},
         {"(", ")(", "(()", ""}},
        {"root ::= \"\\x41\\u00e9\\U0001F600\\t\\\"\\\\\" .",
         {"A\xc3\xa9\xf0\x9f\x98\x80\t\"\\z"},
         {"A\xc3\xa9\xf0\x9f\x98\x80\t\"\\"}},
        /* Ambiguous, nullable and right-recursive. */
        {"root ::= ws word (ws word)* ws\nword ::= [a-z]+\nws ::= [ ]*", {"a", " a b ", "ab  cd"}, {"", " ", "a1"}},
        {"root ::= (\"a\" | \"ab\") (\"c\" | \"bc\")", {"ac", "abc", "abbc"}, {"ab", "a"}},
        {"root ::= list\nlist ::= \"x\" | \"x\" list", {"x", "xxxx"}, {"", "xy"}},
        {"root ::= a* \"e\"\na ::= b | c\nb ::= \"1\" | \"12\"\nc ::= \"2\" | \"123\"",
         {"e", "1212123e", "12e"},
         {"3e", "13e"}},
        {"root ::= [\xc3\xa0-\xc3\xbf]+", {"\xc3\xa9\xc3\xbf"}, {"\xc3", "\xc4\x80", "e"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weir_error err = {0};
        weir_grammar *g;
        if (weir_grammar_from_gbnf(cases[i].source, strlen(cases[i].source), &g, &err) != WEIR_OK)
            fail_msg("%s: %s", cases[i].source, err.message);
        check_verdict(g, &cases[i]);
    }
}

/* A beginning is accepted only if some text goes on from it. */
static void what_leads_nowhere_is_no_beginning(void **state) {
    (void)state;
    static const struct {
        const char *source, *text;
    } cases[] = {
        {"root ::= (a b)* \"x\"\na ::= \"a\"\nb ::= \"b\" b", "a"}, /* b never ends */
        {"root ::= \"a\" [^\\x00-\\U0010FFFF] | \"b\"", "a"},
        {"root ::= (\"a\" c | \"b\")\nc ::= d \"c\"\nd ::= \"d\" c", "a"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weir_error err = {0};
        weir_grammar *g;
        weir_constraint *k;
        weir_constraint_state *s;
        if (weir_grammar_from_gbnf(cases[i].source, strlen(cases[i].source), &g, &err) != WEIR_OK)
            fail_msg("%s: %s", cases[i].source, err.message);
        assert_int_equal(weir_constraint_new(g, NULL, 0, &k, NULL), WEIR_OK);
        assert_int_equal(weir_constraint_state_new(k, 0, &s, NULL), WEIR_OK);
        if (weir_constraint_state_accept_bytes(s, cases[i].text, 1, NULL, NULL) != WEIR_E_ARGUMENT)
            fail_msg("%s: \"%s\" leads nowhere", cases[i].source, cases[i].text);
        weir_constraint_state_free(s);
        weir_constraint_free(k);
        weir_grammar_release(g);
    }
}

static void expressions_match_whole_texts(void **state) {
    (void)state;
    static const verdict cases[] = {
        {"a|bc", {"a", "bc"}, {"", "abc", "b"}},
        {"^a$|^(?:b|c)+$", {"a", "bcb"}, {"ab", "aa"}},
        {"(\\d{3})-(?<x>\\d{4})", {"123-4567"}, {"1234567", "123-456"}},
        {"[^\\d\\s]*?x{0,2}", {"", "abxx", "\xe2\x82\xac"}, {"1", "a b"}},
        {"\\u{1F600}|\\ud83d\\ude01", {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x81"}, {"\xf0\x9f\x98\x82"}},
        {"\\p{Lu}\\p{Ll}+", {"Abc", "\xc3\x84hm"}, {"abc", "AB"}},
        {".*", {"", "a b\t"}, {"a\nb"}},
        {"a{,2}{", {"a{,2}{"}, {"aa"}},
        {"(a*)*b", {"b", "aaab"}, {"a"}},
        {"$a|b^|c", {"c"}, {"a", "b"}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weir_error err = {0};
        weir_grammar *g;
        if (weir_grammar_from_regex(cases[i].source, strlen(cases[i].source), &g, &err) != WEIR_OK)
            fail_msg("%s: %s", cases[i].source, err.message);
        check_verdict(g, &cases[i]);
    }
}

/* Texts share what they begin with: beginnings of each other, characters that share bytes, one text twice. */
static void choices_that_begin_alike_are_kept_apart(void **state) {
    (void)state;
    static const char *const texts[] = {"ab",
                                        "a",
                                        "abc",
                                        "ab",
                                        "b\xc3\xa9",
                                        "b\xc3\xa8",
                                        "b\xc3\xa8x",
                                        "b\xe2\x82\xac",
                                        "acc",
                                        "abd",
                                        "b",
                                        "\xf0\x9f\x98\x80",
                                        "\xf0\x9f\x98\x81"};
    static const verdict v = {
        "choices",
        {"a", "ab", "abc", "abd", "acc", "b", "b\xc3\xa9", "b\xc3\xa8", "b\xc3\xa8x", "b\xe2\x82\xac",
         "\xf0\x9f\x98\x81"},
        {"", "ac", "acd", "abcd", "b\xc3", "b\xc3\xa9x", "b\xc3\xa7", "b\xe2\x82", "\xf0\x9f\x98\x82", "bb"}};
    weir_grammar *g;
    assert_int_equal(weir_grammar_from_choices(texts, NULL, sizeof texts / sizeof *texts, &g, NULL), WEIR_OK);
    check_verdict(g, &v);
    static const char schema[] = "{\"enum\":[\"ab\",\"a\",\"\xc3\xa9\",\"\xc3\xa8\",3,\"\",\"a\\\"b\"]}";
    static const verdict in_json = {
        "enum",
        {"\"a\"", "\"ab\"", "\"\\u0061b\"", "\"\xc3\xa8\"", "\"\\u00e9\"", "3", "\"\"", "\"a\\\"b\"", "\"a\\u0022b\""},
        {"\"b\"", "\"\xc3\xa7\"", "\"\\u00ea\"", "\"3\"", "\"a\\b\"", "\"abb\""}};
    assert_int_equal(weir_grammar_from_schema(schema, sizeof schema - 1, NULL, &g, NULL), WEIR_OK);
    check_verdict(g, &in_json);
}

static void choices_accept_exactly_one(void **state) {
    (void)state;
    static const char *const texts[] = {"red", "reddish", "\xc3\xa9"};
    static const verdict v = {"choices", {"red", "reddish", "\xc3\xa9"}, {"", "re", "redd", "redred"}};
    weir_grammar *g;
    weir_error err = {0};
    assert_int_equal(weir_grammar_from_choices(texts, NULL, 3, &g, &err), WEIR_OK);
    check_verdict(g, &v);
    assert_int_equal(weir_grammar_from_choices(texts, NULL, 0, &g, &err), WEIR_E_ARGUMENT);
    assert_int_equal(weir_grammar_from_choices((const char *const[]){""}, NULL, 1, &g, &err), WEIR_E_ARGUMENT);
    assert_int_equal(weir_grammar_from_choices((const char *const[]){"\xff"}, NULL, 1, &g, &err), WEIR_E_FORMAT);
}

static void malformed_sources_are_refused_with_their_place(void **state) {
    (void)state;
    static const struct {
        bool regex;
        const char *source;
        weir_status status;
        const char *word;
    } cases[] = {
        {false, "", WEIR_E_FORMAT, "\"root\" is not defined"},
        {false, "start ::= \"a\"", WEIR_E_FORMAT, "\"root\" is not defined"},
        {false, "root ::= x", WEIR_E_FORMAT, "\"x\" is not defined"},
        {false, "root ::= \"a", WEIR_E_FORMAT, "line 1, column 12"},
        {false, "root ::= \"a\"\nroot ::= \"b\"", WEIR_E_FORMAT, "line 2"},
        {false, "root ::= (\"a\"", WEIR_E_FORMAT, "closing parenthesis"},
        {false, "root ::= [a", WEIR_E_FORMAT, "class without end"},
        {false, "root ::= [z-a]", WEIR_E_FORMAT, "reversed"},
        {false, "root ::= \"\\q\"", WEIR_E_FORMAT, "unknown escape"},
        {false, "root ::= \"a\"{3,2}", WEIR_E_FORMAT, "reversed"},
        {false, "root ::= \"a\"{x}", WEIR_E_FORMAT, "number"},
        {false, "root = \"a\"", WEIR_E_FORMAT, "expected a rule"},
        {false, "root ::= \"\xff\"", WEIR_E_FORMAT, "UTF-8"},
        {false, "root ::= root \"a\" | \"b\"", WEIR_E_UNSUPPORTED, "left recursion"},
        {false, "root ::= a\na ::= b? c\nb ::= \"x\"\nc ::= a \"y\" | \"z\"", WEIR_E_UNSUPPORTED, "left recursion"},
        {false, "root ::= \"a\" root", WEIR_E_FORMAT, "no text at all fits"},
        {false, "root ::= \"a\"{200000}", WEIR_E_LIMIT, "100000"},
        {true, "a)", WEIR_E_FORMAT, "closing parenthesis"},
        {true, "[a", WEIR_E_FORMAT, "open class"},
        {true, "*a", WEIR_E_FORMAT, "anything to repeat"},
        {true, "a**", WEIR_E_FORMAT, "repeat of a repeat"},
        {true, "a{3,2}", WEIR_E_FORMAT, "reversed"},
        {true, "(?i)a", WEIR_E_UNSUPPORTED, "kind of group"},
        {true, "a++", WEIR_E_UNSUPPORTED, "possessive"},
        {true, "\\p{Script=Greek}", WEIR_E_UNSUPPORTED, "general category"},
        {true, "\\q", WEIR_E_UNSUPPORTED, "escape of this letter"},
        {true, "a\\", WEIR_E_FORMAT, "backslash at the end"},
        {true, "[^\\d\\D]", WEIR_E_FORMAT, "no text at all fits"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weir_error err = {0};
        weir_grammar *g = NULL;
        weir_status st = (cases[i].regex ? weir_grammar_from_regex
                                         : weir_grammar_from_gbnf)(cases[i].source, strlen(cases[i].source), &g, &err);
        if (st != cases[i].status || !strstr(err.message, cases[i].word))
            fail_msg("%s: status %d, \"%s\"", cases[i].source, st, err.message);
        assert_null(g);
    }
    /* Groups in groups. */
    char deep[2 * 300 + 20];
    weir_grammar *g;
    memset(deep, '(', 300);
    memset(deep + 300, ')', 300);
    assert_int_equal(weir_grammar_from_regex(deep, 600, &g, NULL), WEIR_E_LIMIT);
}

static void states_go_back_and_are_copied(void **state) {
    (void)state;
    weir_grammar *g;
    weir_constraint *k;
    weir_constraint_state *s, *copy;
    weir_error err = {0};
    size_t taken;
    assert_int_equal(weir_grammar_from_gbnf("root ::= n\nn ::= \"(\" n \")\" | \"x\"", 32, &g, &err), WEIR_OK);
    assert_int_equal(weir_constraint_new(g, NULL, 0, &k, &err), WEIR_OK);
    weir_grammar_release(g); /* the constraint keeps it */
    assert_int_equal(weir_constraint_state_new(k, 40, &s, &err), WEIR_OK);
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 30; i++)
            assert_int_equal(weir_constraint_state_accept_bytes(s, "(", 1, NULL, &err), WEIR_OK);
        assert_int_equal(weir_constraint_state_accept_bytes(s, "x", 1, NULL, &err), WEIR_OK);
        assert_int_equal(weir_constraint_state_dup(s, &copy, &err), WEIR_OK);
        assert_int_equal(weir_constraint_state_history(copy), 0);
        for (int i = 0; i < 30; i++) {
            assert_false(weir_constraint_state_can_end(copy));
            assert_int_equal(weir_constraint_state_accept_bytes(copy, ")", 1, NULL, &err), WEIR_OK);
        }
        assert_true(weir_constraint_state_can_end(copy));
        assert_int_equal(weir_constraint_state_accept_bytes(copy, ")", 1, NULL, &err), WEIR_E_ARGUMENT);
        weir_constraint_state_free(copy);
        assert_int_equal(weir_constraint_state_history(s), 31);
        assert_int_equal(weir_constraint_state_rollback(s, 31, &err), WEIR_OK);
        assert_int_equal(weir_constraint_state_accept_bytes(s, "(x))", 4, &taken, &err), WEIR_E_ARGUMENT);
        assert_int_equal(taken, 3);
        assert_int_equal(weir_constraint_state_history(s), 0); /* a failed step moves nothing */
    }
    for (int i = 0; i < 100; i++) assert_int_equal(weir_constraint_state_accept_bytes(s, "(", 1, NULL, &err), WEIR_OK);
    assert_int_equal(weir_constraint_state_history(s), 40);
    assert_int_equal(weir_constraint_state_rollback(s, 41, &err), WEIR_E_STATE);
    assert_int_equal(weir_constraint_state_rollback(s, 40, &err), WEIR_OK);
    for (int i = 0; i < 60; i++)
        assert_int_equal(weir_constraint_state_accept_bytes(s, i ? ")" : "x)", i ? 1 : 2, NULL, &err), WEIR_OK);
    assert_true(weir_constraint_state_can_end(s));
    assert_int_equal(weir_constraint_state_mask(s, NULL, 0, &err), WEIR_E_STATE);
    assert_int_equal(weir_constraint_state_accept(s, 0, &err), WEIR_E_STATE);
    weir_constraint_state_free(s);
    weir_constraint_free(k);
}

static void forced_bytes_are_those_without_a_choice(void **state) {
    (void)state;
    static const struct {
        const char *before, *forced;
    } steps[] = /* Either property may come first, so only its quote is forced. */
        {{"", "{\""},
         {"{\"name\":\"x", ""},
         {"{\"name\":\"x\"", ",\"kind\":\"circle\"}"},
         {"{\"name\":\"x\",\"k", "ind\":\"circle\"}"}};
    static const char schema[] = "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"kind\":{"
                                 "\"const\":\"circle\"}},\"required\":[\"name\",\"kind\"],"
                                 "\"additionalProperties\":false}";
    weir_schema_options options = {.max_whitespace = -1, .plain_strings = true};
    weir_grammar *g;
    weir_constraint *k;
    weir_error err = {0};
    assert_int_equal(weir_grammar_from_schema(schema, sizeof schema - 1, &options, &g, &err), WEIR_OK);
    assert_int_equal(weir_constraint_new(g, NULL, 0, &k, &err), WEIR_OK);
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        weir_constraint_state *s;
        char out[64];
        size_t n;
        assert_int_equal(weir_constraint_state_new(k, 0, &s, &err), WEIR_OK);
        assert_int_equal(weir_constraint_state_accept_bytes(s, steps[i].before, strlen(steps[i].before), NULL, &err),
                         WEIR_OK);
        assert_int_equal(weir_constraint_state_forced(s, out, sizeof out, &n, &err), WEIR_OK);
        const char *want = steps[i].forced;
        if (n != strlen(want) || memcmp(out, want, n) != 0) fail_msg("after %s: %.*s", steps[i].before, (int)n, out);
        weir_constraint_state_free(s);
    }
    weir_constraint_free(k);
    weir_grammar_release(g);
}

/* (a|b)*a(a|b){n} needs 2^n states: the cache ends, and that is an error of the call that needs more. */
static void an_exploding_automaton_ends_at_its_limit(void **state) {
    (void)state;
    weir_grammar *g;
    weir_constraint *k;
    weir_constraint_state *s;
    weir_error err = {0};
    weir_status st = WEIR_OK;
    assert_int_equal(weir_grammar_from_regex("(a|b)*a(a|b){60}", 16, &g, &err), WEIR_OK);
    assert_int_equal(weir_constraint_new(g, NULL, 200000, &k, &err), WEIR_OK);
    assert_int_equal(weir_constraint_state_new(k, 0, &s, &err), WEIR_OK);
    uint32_t random = 1;
    for (int i = 0; i < 100000 && st == WEIR_OK; i++) {
        random = random * 1664525 + 1013904223;
        st = weir_constraint_state_accept_bytes(s, random >> 31 ? "a" : "b", 1, NULL, &err);
    }
    assert_int_equal(st, WEIR_E_LIMIT);
    assert_non_null(strstr(err.message, "cache"));
    assert_true(weir_constraint_cache_bytes(k) <= 200000);
    weir_constraint_state_free(s);
    weir_constraint_free(k);
    weir_grammar_release(g);
}

static void deep_nesting_ends_at_its_limit(void **state) {
    (void)state;
    weir_grammar *g;
    weir_constraint *k;
    weir_constraint_state *s;
    size_t taken;
    char text[1000];
    memset(text, '[', sizeof text);
    assert_int_equal(weir_grammar_from_schema("true", 4, NULL, &g, NULL), WEIR_OK);
    assert_int_equal(weir_constraint_new(g, NULL, 0, &k, NULL), WEIR_OK);
    assert_int_equal(weir_constraint_state_new(k, 0, &s, NULL), WEIR_OK);
    assert_int_equal(weir_constraint_state_accept_bytes(s, text, sizeof text, &taken, NULL), WEIR_E_ARGUMENT);
    assert_in_range(taken, 500, 600);
    /* There a scalar still fits, and all can be closed. */
    assert_int_equal(weir_constraint_state_accept_bytes(s, text, taken, NULL, NULL), WEIR_OK);
    assert_int_equal(weir_constraint_state_accept_bytes(s, "\"x\"", 3, NULL, NULL), WEIR_OK);
    memset(text, ']', sizeof text);
    assert_int_equal(weir_constraint_state_accept_bytes(s, text, taken, NULL, NULL), WEIR_OK);
    assert_true(weir_constraint_state_can_end(s));
    weir_constraint_state_free(s);
    weir_constraint_free(k);
    weir_grammar_release(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grammars_accept_their_texts),
        cmocka_unit_test(what_leads_nowhere_is_no_beginning),
        cmocka_unit_test(expressions_match_whole_texts),
        cmocka_unit_test(choices_accept_exactly_one),
        cmocka_unit_test(choices_that_begin_alike_are_kept_apart),
        cmocka_unit_test(malformed_sources_are_refused_with_their_place),
        cmocka_unit_test(states_go_back_and_are_copied),
        cmocka_unit_test(forced_bytes_are_those_without_a_choice),
        cmocka_unit_test(an_exploding_automaton_ends_at_its_limit),
        cmocka_unit_test(deep_nesting_ends_at_its_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
