/* Calls whose arguments are not JSON and are rewritten when the call is whole: Python, [f(a=1), g()], and Gemma's
 * notation, call:f{a:1}. */
#include <string.h>

#include "text/parse/convert.h"
#include "text/parse/parse.h"
#include "text/parse/schema.h"

enum { OPEN, NAME, ARGUMENTS };

/* Where in a Python string: none, behind its first quote, behind its second, inside, with three quotes. */
enum { NO_STRING, ONE_QUOTE, TWO_QUOTES, STRING, LONG_STRING };

static bool begins_name(uint8_t c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static bool is_python(const wr_parser *p) { return p->opener->call->flags & WR_CALL_PYTHON; }
static bool name_is(const wr_parser *p, const char *name) {
    return p->name.n == strlen(name) && memcmp(p->name.data, name, p->name.n) == 0;
}

static wr_converted convert(wr_parser *p) {
    const char *text = p->held.data + p->call.args_at;
    size_t n = p->held.n - p->call.args_at;
    p->value.n = 0;
    if (is_python(p)) return wr_convert_python_arguments(text, n, &p->value);
    return wr_convert_bare(text, n, p->opener->call->quote, &p->value);
}

/* The call's last bracket is c. */
static wr_output_step call_ends(wr_parser *p) {
    if (convert(p) != WR_CONVERTED || !wr_call_begin(p)) return wr_call_fail(p, 0);
    wr_call_arguments(p, p->value.data, p->value.n);
    wr_call_end(p, true, true);
    wr_call_between(p);
    return WR_GONE;
}

static void arguments_begin(wr_parser *p) {
    p->call.state = ARGUMENTS;
    p->call.depth = 1;
    p->call.args_at = p->held.n + 1; /* behind the bracket */
}

/* ---- Python --------------------------------------------------------------- */

static wr_output_step python_head(wr_parser *p, uint8_t c) {
    static const char module[] = "default_api.";
    wr_call *call = &p->call;
    if (call->state == OPEN) {
        if (wr_json_space(c)) return WR_HELD;
        if (c == '[' && !call->depth) {
            call->depth = 1;
            p->list = true;
            return WR_HELD;
        }
        if (!begins_name(c)) return wr_call_fail(p, 0);
        call->state = NAME;
    }
    if (begins_name(c) || (c >= '0' && c <= '9') || c == '.' || c == '-') {
        if (p->name.n == WR_NAME_BYTES) return wr_call_fail(p, 0);
        wr_bytes_byte(&p->name, c);
        return WR_HELD;
    }
    if (c != '(') return wr_call_fail(p, 0);
    if (name_is(p, "print") && !wr_tools_find(p->tools, "print", 5)) {
        p->name.n = 0; /* print(f(...)): what is printed is the call */
        call->state = OPEN;
        return WR_HELD;
    }
    size_t skip = sizeof module - 1;
    if (p->name.n > skip && memcmp(p->name.data, module, skip) == 0) {
        memmove(p->name.data, p->name.data + skip, p->name.n -= skip);
    }
    if (p->opener->bare && p->tools && !wr_tools_find(p->tools, p->name.data, p->name.n)) return wr_call_fail(p, 0);
    arguments_begin(p);
    return WR_HELD;
}

static wr_output_step python_arguments(wr_parser *p, uint8_t c) {
    wr_call *call = &p->call;
    if (call->at) { /* behind a backslash */
        call->at = 0;
        return WR_HELD;
    }
    switch (call->quotes) {
    case ONE_QUOTE:
        if (c == call->quote) {
            call->quotes = TWO_QUOTES;
            return WR_HELD;
        }
        call->quotes = STRING;
        break;
    case TWO_QUOTES: /* an empty string, or three quotes */
        call->quotes = c == call->quote ? LONG_STRING : NO_STRING;
        call->key = 0;
        if (call->quotes) return WR_HELD;
        break;
    default: break;
    }
    if (call->quotes == STRING || call->quotes == LONG_STRING) {
        call->at = c == '\\';
        call->key = c == call->quote ? call->key + 1 : 0;
        if (call->key == (call->quotes == STRING ? 1 : 3)) call->quotes = call->key = NO_STRING;
        return WR_HELD;
    }
    if (c == '"' || c == '\'') {
        call->quote = c;
        call->quotes = ONE_QUOTE;
        call->key = 0;
    } else if (c == '(' || c == '[' || c == '{') {
        call->depth++;
    } else if ((c == ')' || c == ']' || c == '}') && --call->depth == 0) {
        return c == ')' ? call_ends(p) : wr_call_fail(p, 0);
    }
    return WR_HELD;
}

/* ---- Gemma ---------------------------------------------------------------- */

static wr_output_step bare_head(wr_parser *p, uint8_t c) {
    static const char prefix[] = "call:";
    wr_call *call = &p->call;
    if (call->state == OPEN) {
        if (call->at == 0 && wr_json_space(c)) return WR_HELD;
        if (c != (uint8_t)prefix[call->at]) return wr_call_fail(p, 0);
        if (!prefix[++call->at]) call->state = NAME;
        return WR_HELD;
    }
    if (c == '{') {
        while (p->name.n && wr_json_space((uint8_t)p->name.data[p->name.n - 1])) p->name.n--;
        if (p->name.n == 0) return wr_call_fail(p, 0);
        arguments_begin(p);
        return WR_HELD;
    }
    if (c < 0x20 || c == '<' || c == '}' || p->name.n == WR_NAME_BYTES) return wr_call_fail(p, 0);
    wr_bytes_byte(&p->name, c);
    return WR_HELD;
}

static wr_output_step bare_arguments(wr_parser *p, uint8_t c) {
    wr_call *call = &p->call;
    const char *const markers[] = {p->opener->call->quote, call->quotes ? NULL : p->opener->call->close};
    int k = wr_marker_find(&p->finder, markers, 2, c);
    for (size_t i = 0; i < p->finder.n_spill && !call->quotes; i++) {
        char one = p->finder.spill[i];
        if (one == '{' || one == '[') call->depth++;
        /* No marker has a bracket: this is c. */
        if ((one == '}' || one == ']') && --call->depth == 0) return one == '}' ? call_ends(p) : wr_call_fail(p, 0);
    }
    if (k == 0) call->quotes = !call->quotes;
    return k == 1 ? wr_call_fail(p, strlen(markers[1]) - 1) : WR_HELD;
}

static wr_output_step step(wr_parser *p, uint8_t c) {
    if (p->call.state == ARGUMENTS) return is_python(p) ? python_arguments(p, c) : bare_arguments(p, c);
    return is_python(p) ? python_head(p, c) : bare_head(p, c);
}

static void finish(wr_parser *p) {
    if (p->call.state != ARGUMENTS) return;
    wr_converted st = convert(p);
    if (st == WR_CONVERTED_WRONG || !wr_call_begin(p)) return;
    if (st == WR_CONVERTED && p->value.n) p->value.n--; /* its last bracket is missing in the text too */
    wr_call_arguments(p, p->value.data, p->value.n);
    p->finder.n = 0;
}

static bool begins(const wr_parser *p, uint8_t c) { return is_python(p) && p->list && begins_name(c); }

const wr_syntax wr_syntax_held = {.step = step, .finish = finish, .begins = begins};
