/* Renders templates for the scripts that compare them with jinja2: one JSON object a line on standard input,
 * {"template": text, "variables": object, "now": seconds, "steps": limit}, one on standard output, {"text": ...} or
 * {"error": message, "status": number}. A template that is the same as the line's before is compiled once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "file/json.h"
#include "text/jinja/jinja.h"

static json_t *failure(weir_status status, const weir_error *err) {
    json_t *message = json_string(err->message);
    return json_pack("{s:o,s:i}", "error", message ? message : json_string("?"), "status", (int)status);
}

static json_t *answer(const json_t *line, wr_jinja **jinja, char **source) {
    const json_t *text = json_object_get(line, "template");
    const char *template_text = json_string_value(text);
    weir_error err = {0};
    weir_status st;
    if (!*source || json_string_length(text) != strlen(*source) || strcmp(*source, template_text) != 0) {
        wr_jinja_free(*jinja);
        free(*source);
        *source = NULL;
        st = wr_jinja_new(template_text, json_string_length(text), jinja, &err);
        if (st != WEIR_OK) return failure(st, &err);
        *source = strdup(template_text);
    }
    wr_jinja_limits limits = {.now_s = json_integer_value(json_object_get(line, "now")),
                              .steps = (uint64_t)json_integer_value(json_object_get(line, "steps"))};
    char *out;
    size_t bytes;
    st = wr_jinja_render(*jinja, json_object_get(line, "variables"), &limits, &out, &bytes, &err);
    if (st != WEIR_OK) return failure(st, &err);
    json_t *result = json_pack("{s:o}", "text", json_stringn(out, bytes));
    wr_free(out);
    return result;
}

int main(void) {
    wr_jinja *jinja = NULL;
    char *line = NULL, *source = NULL;
    size_t cap = 0;
    ssize_t n;
    wr_json_setup();
    while ((n = getline(&line, &cap, stdin)) > 0) {
        json_error_t error;
        json_t *in = json_loadb(line, (size_t)n, JSON_ALLOW_NUL, &error);
        if (!in) {
            fprintf(stderr, "jinja_lines: %s\n", error.text);
            return 1;
        }
        json_t *out = answer(in, &jinja, &source);
        json_dumpf(out, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
        putchar('\n');
        fflush(stdout);
        json_decref(in);
        json_decref(out);
    }
    wr_jinja_free(jinja);
    free(source);
    free(line);
    return 0;
}
