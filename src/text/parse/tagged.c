/* Calls as tags, a pair of them for each parameter: <function=name><parameter=key>value</parameter></function>. Values
 * are bare text, so the tool's schema, or an attribute of the tag, says which are strings. Strings are passed on as
 * they come; other values when they are whole. */
#include <string.h>

#include "text/parse/parse.h"
#include "text/parse/schema.h"

enum { START, SECTION, NAME, NAME_TAG, BODY, KEY, KEY_TAG, GAP, VALUE, OBJECT };

enum { TAG_BYTES = 256, BODY_MARKERS = 2 + WR_ENDS };

/* Read text again in this state. It ends with c, which the caller then reports as WR_GONE. */
static wr_output_step again_in(wr_parser *p, int state, const char *text) {
    p->call.state = state;
    wr_output_again(p, text, strlen(text));
    return WR_GONE;
}

static void replace_entities(wr_bytes *b) {
    static const char *const entities[][2] = {
        {"&quot;", "\""}, {"&apos;", "'"}, {"&lt;", "<"}, {"&gt;", ">"}, {"&amp;", "&"}};
    size_t to = 0;
    for (size_t i = 0; i < b->n;) {
        size_t skip = 1, which = 0, n_entities = sizeof entities / sizeof *entities;
        for (; which < n_entities; which++) {
            size_t n = strlen(entities[which][0]);
            if (b->n - i >= n && memcmp(b->data + i, entities[which][0], n) == 0) break;
        }
        b->data[to++] = which < n_entities ? entities[which][1][0] : b->data[i];
        if (which < n_entities) skip = strlen(entities[which][0]);
        i += skip;
    }
    b->n = to;
}

static bool begin(wr_parser *p) {
    if (p->opener->call->flags & WR_CALL_ENTITIES) replace_entities(&p->name);
    return wr_call_begin(p);
}

static void end(wr_parser *p) {
    wr_call_arguments(p, p->call.n_values ? "}" : "{}", p->call.n_values ? 1 : 2);
    wr_call_end(p, true, true);
    wr_call_between(p);
}

/* ---- The head ------------------------------------------------------------- */

static wr_output_step step_name(wr_parser *p, uint8_t c) {
    const wr_call_markers *m = p->opener->call;
    if (p->name.n == 0 && p->finder.n == 0 && wr_json_space(c)) return WR_HELD;
    int k = wr_marker_find(&p->finder, m->name_end, 3, c);
    wr_bytes_add(&p->name, p->finder.spill, p->finder.n_spill);
    for (size_t i = 0; i < p->finder.n_spill; i++) {
        if (!strchr(" \n\t\r<>{}[]", p->finder.spill[i]) && p->name.n <= WR_NAME_BYTES) continue;
        return wr_call_fail(p, p->finder.n ? p->finder.n - 1 : 0);
    }
    if (k < 0) return WR_HELD;
    if (p->name.n == 0) return wr_call_fail(p, 0);
    p->call.state = m->tag_end ? NAME_TAG : BODY;
    if (k == 0) return WR_HELD;
    /* The marker ends the name and means more: all of it but c is held. */
    size_t n = strlen(m->name_end[k]);
    p->held.n -= p->held.n < n - 1 ? p->held.n : n - 1;
    return again_in(p, BODY, m->name_end[k]);
}

/* What was held as the beginning of a parameter is none: text, of which the last n bytes are looked at once more. */
static wr_output_step parameter_fails(wr_parser *p, size_t n) {
    char rest[2 * WR_MARKER_BYTES];
    if (n > p->held.n) n = p->held.n; /* out of memory */
    if (n) memcpy(rest, p->held.data + p->held.n - n, n);
    wr_output_text(p, p->held.data, p->held.n - n);
    p->held.n = p->finder.n = 0;
    p->call.state = BODY;
    wr_output_again(p, rest, n);
    return WR_AGAIN;
}

/* The attributes that tags have, behind the first one: type="string", index="1", or the slash of an empty tag. Any
 * other text would be lost. */
static bool are_attributes(const char *text, size_t n) {
    static const char *const names[] = {"string=\"", "type=\"", "index=\""};
    for (size_t i = 0; i < n;) {
        size_t which = 0, from;
        if (wr_json_space((uint8_t)text[i]) || (text[i] == '/' && i + 1 == n)) {
            i++;
            continue;
        }
        while (which < 3 && (n - i < strlen(names[which]) || memcmp(text + i, names[which], strlen(names[which]))))
            which++;
        if (which == 3) return false;
        from = i += strlen(names[which]);
        while (i < n && (which == 2 ? text[i] >= '0' && text[i] <= '9' : text[i] >= 'a' && text[i] <= 'z')) i++;
        if (i == from || i == n || text[i++] != '"') return false;
    }
    return true;
}

/* The rest of a tag. Attributes go to p->value. */
static wr_output_step step_tag(wr_parser *p, uint8_t c) {
    int k = wr_marker_find(&p->finder, &p->opener->call->tag_end, 1, c);
    wr_bytes_add(&p->value, p->finder.spill, p->finder.n_spill);
    if (p->value.n > TAG_BYTES || memchr(p->finder.spill, '\n', p->finder.n_spill)) {
        if (!p->call.begun) return wr_call_fail(p, p->finder.n ? p->finder.n - 1 : 0);
        return parameter_fails(p, p->finder.n ? p->finder.n - 1 : 0);
    }
    if (k < 0) return WR_HELD;
    if (!are_attributes(p->value.data, p->value.n)) return p->call.begun ? parameter_fails(p, 0) : wr_call_fail(p, 0);
    if (p->call.state == NAME_TAG) {
        if (p->value.n && p->value.data[p->value.n - 1] == '/') { /* a tag that closes itself */
            if (!begin(p)) return wr_call_fail(p, 0);
            end(p);
            return WR_GONE;
        }
        p->value.n = 0;
        p->call.state = BODY;
    } else {
        p->call.state = VALUE;
        p->held.n = 0;
        return WR_GONE;
    }
    return WR_HELD;
}

/* ---- Between the parameters ----------------------------------------------- */

/* Markers of the body: the first goes on with the call, the others end it. markers: [BODY_MARKERS] */
static void body_markers(const wr_parser *p, const char **markers) {
    markers[0] = p->opener->call->key_open;
    markers[1] = p->opener->call->close;
    wr_output_format_ends(p->format, markers + 2);
}

static wr_output_step step_body(wr_parser *p, uint8_t c) {
    const char *markers[BODY_MARKERS];
    int k;
    body_markers(p, markers);
    if (c == '{' && p->finder.n == 0 && p->call.n_values == 0) {
        if (!p->call.begun && !begin(p)) return wr_call_fail(p, 0);
        p->call.state = OBJECT;
        return WR_AGAIN;
    }
    if (!p->call.begun) {
        /* Only a parameter or the end of the call prove that it is one. */
        wr_output_step done = wr_call_expect(p, markers, 2, c, &k);
        if (k < 0) return done;
        if (!begin(p)) return wr_call_fail(p, 0);
    } else {
        k = wr_marker_find(&p->finder, markers, BODY_MARKERS, c);
        for (size_t i = 0; i < p->finder.n_spill; i++) { /* text that has no place here is content */
            wr_bytes_byte(&p->held, (uint8_t)p->finder.spill[i]);
            if (wr_json_space((uint8_t)p->finder.spill[i])) continue;
            wr_output_text(p, p->held.data, p->held.n);
            p->held.n = 0;
        }
        if (k < 0) return WR_GONE;
    }
    p->held.n = 0;
    if (k == 0) {
        wr_bytes_put(&p->held, markers[0]);
        p->key.n = p->value.n = 0;
        p->call.state = KEY;
    } else {
        end(p);
        if (k > 1) wr_output_again(p, markers[k], strlen(markers[k]));
    }
    return WR_GONE;
}

/* ---- Parameters ----------------------------------------------------------- */

static wr_output_step step_key(wr_parser *p, uint8_t c) {
    const wr_call_markers *m = p->opener->call;
    int k = wr_marker_find(&p->finder, &m->key_end, 1, c);
    wr_bytes_add(&p->key, p->finder.spill, p->finder.n_spill);
    for (size_t i = 0; i < p->finder.n_spill; i++) {
        if (p->finder.spill[i] != '\n' && p->finder.spill[i] != '<' && p->key.n <= WR_NAME_BYTES) continue;
        return parameter_fails(p, p->finder.n_spill - i + p->finder.n - 1);
    }
    if (k < 0) return WR_HELD;
    if (m->flags & WR_CALL_ENTITIES) replace_entities(&p->key);
    p->call.state = m->tag_end ? KEY_TAG : m->value_open ? GAP : VALUE;
    if (p->call.state == VALUE) {
        p->held.n = 0;
        return WR_GONE;
    }
    return WR_HELD;
}

/* White space and the marker before a value. */
static wr_output_step step_gap(wr_parser *p, uint8_t c) {
    int k = wr_marker_find(&p->finder, &p->opener->call->value_open, 1, c);
    for (size_t i = 0; i < p->finder.n_spill; i++) {
        if (wr_json_space((uint8_t)p->finder.spill[i])) continue;
        return parameter_fails(p, p->finder.n_spill - i + p->finder.n - 1);
    }
    if (k < 0) return WR_HELD;
    p->call.state = VALUE;
    p->held.n = 0;
    return WR_GONE;
}

/* What an attribute of the tag says about the type, else the schema. */
static unsigned value_types(const wr_parser *p) {
    static const char *const strings[] = {"string=\"true\"", "type=\"string\""};
    static const char *const others[] = {"string=\"false\"", "type=\""};
    for (int is_string = 1; is_string >= 0; is_string--) {
        for (size_t i = 0; i < 2; i++) {
            const char *attribute = is_string ? strings[i] : others[i];
            if (p->value.n && memmem(p->value.data, p->value.n, attribute, strlen(attribute))) {
                return is_string ? WR_TYPE_STRING : WR_TYPE_ALL & ~(unsigned)WR_TYPE_STRING;
            }
        }
    }
    return wr_tool_types(p->tool, p->key.data, p->key.n);
}

static void value_begins(wr_parser *p) {
    wr_bytes text = {0};
    p->call.types = value_types(p);
    p->call.string = p->call.types == WR_TYPE_STRING;
    p->value.n = 0;
    wr_bytes_put(&text, p->call.n_values++ ? ", \"" : "{\"");
    wr_bytes_escaped(&text, p->key.data, p->key.n);
    wr_bytes_put(&text, p->call.string ? "\": \"" : "\": ");
    wr_call_arguments(p, text.data, text.n);
    if (text.failed) p->value.failed = true;
    wr_bytes_deinit(&text);
}

static void value_text(wr_parser *p, const char *text, size_t n) {
    if (p->call.string) {
        p->value.n = 0;
        wr_bytes_escaped(&p->value, text, n);
        wr_call_arguments(p, p->value.data, p->value.n);
    } else {
        wr_bytes_add(&p->value, text, n);
    }
}

static void value_ends(wr_parser *p) {
    if (p->call.string) {
        wr_call_arguments(p, "\"", 1);
    } else {
        wr_bytes text = {0};
        wr_typed_value(p->value.data, p->value.n, p->call.types, &text);
        wr_call_arguments(p, text.data, text.n);
        if (text.failed) p->value.failed = true;
        wr_bytes_deinit(&text);
    }
    p->value.n = 0;
    p->call.at = 0;
}

static wr_output_step step_value(wr_parser *p, uint8_t c) {
    const wr_call_markers *m = p->opener->call;
    if (p->call.at == 0) { /* nothing of the value was read */
        p->call.at = 1;
        value_begins(p);
        p->call.lines = c == '\n' && m->line_end[0];
        if (p->call.lines) p->call.at = 2;
    }
    const char *const *ends = p->call.lines ? m->line_end : m->value_end;
    int k = wr_marker_find(&p->finder, ends, p->call.lines ? 5 : 3, c);
    const char *text = p->finder.spill;
    size_t n = p->finder.n_spill;
    if (p->call.at == 2 && n) { /* the first line break began no marker */
        p->call.at = 1;
        text++;
        n--;
    }
    if (n) value_text(p, text, n);
    if (k < 0) return WR_GONE;
    value_ends(p);
    p->call.state = BODY;
    return k == 0 ? WR_GONE : again_in(p, BODY, strrchr(ends[k], '<'));
}

/* JSON in the place of the parameters. */
static wr_output_step step_object(wr_parser *p, uint8_t c) {
    const char *markers[BODY_MARKERS];
    int k;
    body_markers(p, markers);
    wr_arguments_end how = wr_arguments_step(p, c, markers + 1, BODY_MARKERS - 1, &k);
    if (how == WR_ARGUMENTS_MORE) return WR_GONE;
    wr_call_end(p, true, wr_arguments_close(p));
    wr_call_between(p);
    if (how == WR_ARGUMENTS_MARKER) wr_output_again(p, markers[1 + k], strlen(markers[1 + k]));
    return WR_GONE;
}

static wr_output_step step(wr_parser *p, uint8_t c) {
    switch (p->call.state) {
    case START: p->call.state = p->opener->section && !p->call.in_section ? SECTION : NAME; return WR_AGAIN;
    case SECTION:
        if (c == '{' && p->finder.n == 0 && p->opener->call->flags & WR_CALL_OR_WRAPPED) {
            p->opener++;
            p->call = (wr_call){0};
            p->list = false;
            return WR_AGAIN;
        }
        return wr_call_section(p, c, NAME);
    case NAME: return step_name(p, c);
    case NAME_TAG:
    case KEY_TAG: return step_tag(p, c);
    case BODY: return step_body(p, c);
    case KEY: return step_key(p, c);
    case GAP: return step_gap(p, c);
    case VALUE: return step_value(p, c);
    default: return step_object(p, c);
    }
}

static void finish(wr_parser *p) {
    wr_call *call = &p->call;
    if (!call->begun) return;
    if (call->state == VALUE) {
        const char *text = p->finder.window;
        size_t n = p->finder.n;
        if (call->at == 2 && n) {
            text++;
            n--;
        }
        if (call->at == 0) value_begins(p);
        value_text(p, text, n);
        if (!call->string) wr_call_arguments(p, p->value.data, p->value.n);
        p->finder.n = 0;
    } else if (call->state == OBJECT) {
        wr_call_arguments(p, p->finder.window, p->finder.n);
        p->finder.n = 0;
    } else if (call->state != BODY) {
        p->finder.n = 0; /* its window is held */
    }
}

const wr_syntax wr_syntax_tagged = {.step = step, .finish = finish};
