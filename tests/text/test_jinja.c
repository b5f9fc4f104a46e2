/* The template interpreter against jinja2's own results, at its limits, and without memory. */
#include "text_test.h"

#include <pthread.h>

#include "base/fault.h"
#include "text/jinja/jinja.h"

/* Render; the text (freed by the caller) or NULL, and then st and err. */
static char *render(const char *source, size_t bytes, const json_t *variables, const wr_jinja_limits *limits, size_t *n,
                    weir_status *st, weir_error *err) {
    wr_jinja *jinja;
    char *text = NULL;
    memset(err, 0, sizeof *err);
    *st = wr_jinja_new(source, bytes, &jinja, err);
    if (*st != WEIR_OK) {
        assert_null(jinja);
        return NULL;
    }
    *st = wr_jinja_render(jinja, variables, limits, &text, n, err);
    assert_int_equal(*st == WEIR_OK, text != NULL);
    wr_jinja_free(jinja);
    return text;
}

static void templates_render_as_in_jinja2(void **state) {
    (void)state;
    json_t *root = load_golden(DATA("templates.golden.json")), *c;
    wr_jinja_limits limits = {.now_s = json_integer_value(json_object_get(root, "now"))};
    size_t i, n_texts = 0;
    setenv("TZ", "UTC", 1);
    json_array_foreach(json_object_get(root, "cases"), i, c) {
        const json_t *source = json_object_get(c, "template"), *want = json_object_get(c, "text");
        const char *raised = json_string_value(json_object_get(c, "raised"));
        const char *name = json_string_value(json_object_get(c, "name"));
        weir_status st;
        weir_error err;
        size_t n = 0;
        char *got = render(json_string_value(source), json_string_length(source), json_object_get(c, "variables"),
                           &limits, &n, &st, &err);
        if (want) {
            if (!got) fail_msg("%s: %s", name, err.message);
            if (n != json_string_length(want) || memcmp(got, json_string_value(want), n) != 0)
                fail_msg("%s:\n got \"%s\"\nwant \"%s\"", name, got, json_string_value(want));
            n_texts++;
        } else {
            if (got) fail_msg("%s: should fail, gives \"%s\"", name, got);
            if (raised &&
                (strncmp(err.message, "the chat template says: ", 24) != 0 || strcmp(err.message + 24, raised) != 0))
                fail_msg("%s: \"%s\" are not the words \"%s\"", name, err.message, raised);
        }
        wr_free(got);
    }
    assert_true(n_texts > 150);
    json_decref(root);
}

/* The template must fail with this status and these words. */
static void check_fails(const char *source, const wr_jinja_limits *limits, weir_status status, const char *words) {
    weir_status st;
    weir_error err;
    size_t n = 0;
    char *got = render(source, strlen(source), NULL, limits, &n, &st, &err);
    if (got) fail_msg("%.80s: should fail, gives \"%.80s\"", source, got);
    if (st != status || !strstr(err.message, words))
        fail_msg("%.80s: %s: \"%s\" does not say \"%s\"", source, weir_status_text(st), err.message, words);
}

static void what_is_wrong_is_said_with_its_line(void **state) {
    (void)state;
    check_fails("a\n{% if x %}", NULL, WEIR_E_FORMAT, "line 2: Unexpected end of template");
    check_fails("{{ 1 + }}", NULL, WEIR_E_FORMAT, "line 1: unexpected 'end of print statement'");
    check_fails("{% foo %}", NULL, WEIR_E_FORMAT, "Encountered unknown tag 'foo'");
    check_fails("\n\n{{ a.b }}", NULL, WEIR_E_ARGUMENT, "line 3: 'a' is undefined");
    check_fails("{{ {}.b.c }}", NULL, WEIR_E_ARGUMENT, "'dict object' has no attribute 'b'");
    check_fails("{{ [][3].c }}", NULL, WEIR_E_ARGUMENT, "list object has no element 3");
    check_fails("{{ [].append(1) }}", NULL, WEIR_E_ARGUMENT,
                "access to attribute 'append' of 'list' object is unsafe.");
    check_fails("{{ ''.__class__.x }}", NULL, WEIR_E_ARGUMENT, "'__class__'");
    check_fails("{{ 1 | nope }}", NULL, WEIR_E_FORMAT, "No filter named 'nope'");
    check_fails("{{ x is nope }}", NULL, WEIR_E_FORMAT, "No test named 'nope'");
    check_fails("{% break %}", NULL, WEIR_E_FORMAT, "'break' outside loop");
    check_fails("{% for x in y %}{% set loop = 1 %}{% endfor %}", NULL, WEIR_E_FORMAT, "special loop variable");
    check_fails("\xFF", NULL, WEIR_E_FORMAT, "byte 0 is no UTF-8");
    check_fails("{% include 'x' %}", NULL, WEIR_E_UNSUPPORTED, "include");
    check_fails("{% from 'x' import y %}", NULL, WEIR_E_UNSUPPORTED, "from");
    check_fails("{% extends 'x' %}", NULL, WEIR_E_UNSUPPORTED, "extends");
    check_fails("{{ [1] | random }}", NULL, WEIR_E_UNSUPPORTED, "random");
    check_fails("{{ raise_exception('Only \\'user\\' may \\u00e9 speak') }}", NULL, WEIR_E_ARGUMENT,
                "the chat template says: Only 'user' may \xC3\xA9 speak");
}

static void hostile_templates_meet_limits(void **state) {
    (void)state;
    const wr_jinja_limits small = {.steps = 100000, .memory_bytes = 1 << 20, .output_bytes = 1 << 16};
    const wr_jinja_limits little_text = {.steps = 1000000, .memory_bytes = 8 << 20, .output_bytes = 1 << 10};
    check_fails("{% for a in range(1000) %}{% for b in range(1000) %}{% endfor %}{% endfor %}", &small, WEIR_E_LIMIT,
                "time limit");
    check_fails("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", NULL, WEIR_E_LIMIT, "depth limit");
    check_fails("{{ 'a' * 100000000000 }}", NULL, WEIR_E_LIMIT, "output limit");
    check_fails("{{ [1] * 100000000000 }}", NULL, WEIR_E_LIMIT, "memory limit");
    check_fails("{% for a in range(2000) %}xxxxxxxxxxxxxxxx{% endfor %}", &little_text, WEIR_E_LIMIT, "output limit");
    check_fails("{% set n = namespace(s='x') %}{% for a in range(60) %}{% set n.s = n.s ~ n.s %}{% endfor %}", NULL,
                WEIR_E_LIMIT, "output limit");
    check_fails("{% set n = namespace(l=[1]) %}{% for a in range(60) %}{% set n.l = n.l + n.l %}{% endfor %}", NULL,
                WEIR_E_LIMIT, "memory limit");
    check_fails("{% set n = namespace(l=[]) %}{% for a in range(5000) %}{% set n.l = [n.l] %}{% endfor %}{{ n.l }}",
                NULL, WEIR_E_LIMIT, "depth limit");
    check_fails(
        "{% set n = namespace(l=[]) %}{% for a in range(5000) %}{% set n.l = [n.l] %}{% endfor %}{{ n.l|tojson }}",
        NULL, WEIR_E_LIMIT, "depth limit");
    check_fails("{{ range(100001) }}", NULL, WEIR_E_ARGUMENT, "Range too big");
    check_fails("{{ 2 ** 63 }}", NULL, WEIR_E_LIMIT, "beyond 64 bits");
    check_fails("{{ 9223372036854775807 + 1 }}", NULL, WEIR_E_LIMIT, "beyond 64 bits");
    check_fails("{{ 9223372036854775808 }}", NULL, WEIR_E_LIMIT, "beyond 64 bits");
    check_fails("{{ '9' * 30 | int }}{{ ('9' * 30) | int }}", NULL, WEIR_E_LIMIT, "beyond 64 bits");
    check_fails("{{ '%999999999d' % 1 }}", NULL, WEIR_E_LIMIT, "width");
    check_fails("{{ '{:999999999}'.format(1) }}", NULL, WEIR_E_LIMIT, "width");
    check_fails("{{ '%.99999f' % 1 }}", NULL, WEIR_E_LIMIT, "precision");
}

/* A template of n times this text. */
static char *repeated(const char *head, const char *text, size_t n) {
    size_t h = strlen(head), k = strlen(text);
    char *out = malloc(h + n * k + 1);
    memcpy(out, head, h);
    for (size_t i = 0; i < n; i++) memcpy(out + h + i * k, text, k);
    out[h + n * k] = 0;
    return out;
}

static void nested_source_meets_limits(void **state) {
    (void)state;
    static const char *const texts[] = {"(", "[", "{% if x %}", "{% for x in y %}", "not ", "-", "{'a':"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char *source = repeated(texts[i][0] == '{' && texts[i][1] == '%' ? "" : "{{ ", texts[i], 100000);
        check_fails(source, NULL, WEIR_E_LIMIT, "depth limit");
        free(source);
    }
    char *source = repeated("{{ a", ".b", 100000);
    source = realloc(source, strlen(source) + 4);
    strcat(source, " }}");
    check_fails(source, NULL, WEIR_E_LIMIT, "depth limit");
    free(source);
    source = repeated("", "x", 5 << 20);
    check_fails(source, NULL, WEIR_E_LIMIT, "bytes");
    free(source);
}

/* A text that grows by concatenation is copied once, not once a step. */
static void growing_texts_cost_what_they_grow(void **state) {
    (void)state;
    static const char source[] =
        "{% set n = namespace(s='') %}{% for a in range(50000) %}{% set n.s = n.s ~ 'twenty characters...' "
        "%}{% endfor %}{{ n.s|length }}";
    const wr_jinja_limits limits = {.steps = 3000000, .memory_bytes = 64 << 20};
    weir_status st;
    weir_error err;
    size_t n;
    char *got = render(source, sizeof source - 1, NULL, &limits, &n, &st, &err);
    if (!got) fail_msg("%s", err.message);
    assert_string_equal(got, "1000000");
    wr_free(got);
}

static void every_lost_allocation_is_a_status(void **state) {
    (void)state;
    static const char source[] =
        "{% macro f(a, b=2) %}{{ a }}{{ caller() if caller }}{% endmacro %}{% set ns = namespace(x=1) %}"
        "{% for m in messages if m.role %}{{ m.content|upper|trim }}{{ loop.last }}{% set ns.x = ns.x ~ m.role %}{% "
        "else %}{% endfor "
        "%}{% call f(1) %}{{ messages|tojson(indent=2) }}{% endcall %}{{ '%s' % ns }}{{ "
        "messages|map(attribute='role')|join }}";
    json_t *variables =
        json_loads("{\"messages\":[{\"role\":\"user\",\"content\":\" hi \"},{\"role\":\"x\"}]}", 0, NULL);
    bool done = false;
    for (uint64_t nth = 1; !done && nth < 10000; nth++) {
        weir_status st;
        weir_error err;
        size_t n;
        wr_fault_arm(WR_FAULT_MEMORY, nth);
        char *text = render(source, sizeof source - 1, variables, NULL, &n, &st, &err);
        wr_fault_arm(WR_FAULT_MEMORY, 0);
        done = text != NULL;
        if (!done) assert_int_equal(st, WEIR_E_MEMORY);
        wr_free(text);
    }
    assert_true(done);
    json_decref(variables);
}

static void *render_often(void *jinja) {
    json_t *variables = json_loads("{\"messages\":[{\"role\":\"user\",\"content\":\"h\\u00e9\"}]}", 0, NULL);
    for (int i = 0; i < 200; i++) {
        char *text;
        size_t n;
        if (wr_jinja_render(jinja, variables, NULL, &text, &n, NULL) != WEIR_OK) return jinja;
        bool same = strcmp(text, "user\xC3\xA9\xC3\xA9tail") == 0;
        wr_free(text);
        if (!same) return jinja;
    }
    json_decref(variables);
    return NULL;
}

static void one_template_serves_many_threads(void **state) {
    (void)state;
    static const char source[] =
        "{% for m in messages %}{{ m.role ~ '\xC3\xA9\xC3\xA9\xC3\xA9'[1:] }}{% endfor %}{{ 'tail' }}";
    wr_jinja *jinja;
    pthread_t threads[4];
    wr_json_setup();
    assert_int_equal(wr_jinja_new(source, sizeof source - 1, &jinja, NULL), WEIR_OK);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, render_often, jinja), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_true(wr_jinja_reads(jinja, "messages"));
    assert_false(wr_jinja_reads(jinja, "tools"));
    wr_jinja_free(jinja);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(templates_render_as_in_jinja2),     cmocka_unit_test(what_is_wrong_is_said_with_its_line),
        cmocka_unit_test(hostile_templates_meet_limits),     cmocka_unit_test(nested_source_meets_limits),
        cmocka_unit_test(growing_texts_cost_what_they_grow), cmocka_unit_test(every_lost_allocation_is_a_status),
        cmocka_unit_test(one_template_serves_many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
