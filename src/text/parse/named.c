/* Calls as a name between control tokens and the arguments as bare JSON behind it: [TOOL_CALLS]name[ARGS]{...}. */
#include <string.h>

#include "text/parse/parse.h"

enum { START, SECTION, NAME, TYPE_OR_NAME, SECOND_NAME, ID, ARGUMENTS };

static void trim(wr_bytes *b) {
    size_t skip = 0;
    while (b->n && wr_json_space((uint8_t)b->data[b->n - 1])) b->n--;
    while (skip < b->n && wr_json_space((uint8_t)b->data[skip])) skip++;
    if (skip) memmove(b->data, b->data + skip, b->n -= skip);
}

/* functions.NAME:NUMBER is the id of a call of NAME. */
static void name_from_id(wr_parser *p) {
    static const char prefix[] = "functions.";
    size_t skip = sizeof prefix - 1;
    p->id.n = 0;
    wr_bytes_add(&p->id, p->name.data, p->name.n);
    if (p->name.n > skip && memcmp(p->name.data, prefix, skip) == 0) {
        memmove(p->name.data, p->name.data + skip, p->name.n -= skip);
    }
    size_t n = p->name.n;
    while (n && p->name.data[n - 1] >= '0' && p->name.data[n - 1] <= '9') n--;
    if (n > 1 && n < p->name.n && p->name.data[n - 1] == ':') p->name.n = n - 1;
}

/* The head is read up to its last byte but c, which is given to the arguments if `again`. */
static wr_output_step head_ends(wr_parser *p, bool again) {
    trim(&p->name);
    trim(&p->id);
    if (p->opener->call->flags & WR_CALL_NAME_IN_ID) name_from_id(p);
    if (!wr_call_begin(p)) return wr_call_fail(p, 0);
    p->call.state = ARGUMENTS;
    p->finder.n = 0;
    return again ? WR_AGAIN : WR_GONE;
}

static wr_output_step step_name(wr_parser *p, uint8_t c) {
    const wr_call_markers *m = p->opener->call;
    const char *const markers[] = {m->name_end[0], m->name_end[1], m->name_end[2], m->id_end};
    if (p->name.n == 0 && p->finder.n == 0) {
        if (wr_json_space(c)) return WR_HELD;
        if ((c == '[' || c == '{') && m->flags & WR_CALL_OR_WRAPPED) {
            p->opener++;
            p->call = (wr_call){0};
            return WR_AGAIN;
        }
    }
    int k = wr_marker_find(&p->finder, markers, 4, c);
    wr_bytes_add(&p->name, p->finder.spill, p->finder.n_spill);
    if (p->name.n > WR_NAME_BYTES || memchr(p->finder.spill, '\n', p->finder.n_spill)) {
        return wr_call_fail(p, p->finder.n ? p->finder.n - 1 : 0);
    }
    if (k < 0) return WR_HELD;
    if (k == 3) {
        p->call.state = ID;
        return WR_HELD;
    }
    if (m->flags & WR_CALL_TYPE_FIRST) {
        p->call.state = TYPE_OR_NAME;
        return WR_HELD;
    }
    return head_ends(p, markers[k][0] == '{');
}

/* Behind the first part of the head: arguments, or the name if that part was the type. */
static wr_output_step step_second(wr_parser *p, uint8_t c) {
    bool argument = wr_json_space(c) || c == '{' || c == '`';
    if (p->call.state == TYPE_OR_NAME) {
        if (argument || p->name.n != 8 || memcmp(p->name.data, "function", 8) != 0) return head_ends(p, true);
        p->name.n = 0;
        p->call.state = SECOND_NAME;
    }
    if (c == '\n' || c == '{' || c == '`') return head_ends(p, true);
    if (p->name.n == WR_NAME_BYTES) return wr_call_fail(p, 0);
    wr_bytes_byte(&p->name, c);
    return WR_HELD;
}

static wr_output_step step_id(wr_parser *p, uint8_t c) {
    int k = wr_marker_find(&p->finder, p->opener->call->name_end, 1, c);
    wr_bytes_add(&p->id, p->finder.spill, p->finder.n_spill);
    if (p->id.n > WR_NAME_BYTES) return wr_call_fail(p, p->finder.n ? p->finder.n - 1 : 0);
    return k < 0 ? WR_HELD : head_ends(p, false);
}

/* The line that opens a Markdown fence before the arguments, as far as it was read; else give back what was taken for
 * it. */
static bool opens_fence(wr_parser *p, uint8_t c) {
    static const char fence[] = "```json";
    wr_call *call = &p->call;
    if (call->args.begun || call->fence_done || !(p->opener->call->flags & WR_CALL_FENCED)) return false;
    if (call->at == 0 && wr_json_space(c)) return false;
    if (c == (uint8_t)fence[call->at]) {
        call->at++;
        return true;
    }
    call->fence_done = true;
    size_t n = call->at;
    if (n && n != 3 && fence[n]) wr_output_again(p, fence, n);
    return false;
}

static wr_output_step step_arguments(wr_parser *p, uint8_t c) {
    const wr_call_markers *m = p->opener->call;
    const char *markers[WR_ENDS + 1];
    int k;
    wr_output_format_ends(p->format, markers);
    markers[WR_ENDS] = m->close;
    if (opens_fence(p, c)) return WR_GONE;
    wr_arguments_end end = wr_arguments_step(p, c, markers, WR_ENDS + 1, &k);
    if (end == WR_ARGUMENTS_MORE) return WR_GONE;
    bool valid = wr_arguments_close(p);
    wr_call_end(p, valid || end == WR_ARGUMENTS_DONE || k == WR_ENDS, valid);
    wr_call_between(p);
    if (end == WR_ARGUMENTS_MARKER) wr_output_again(p, markers[k], strlen(markers[k]));
    return WR_GONE;
}

static wr_output_step step(wr_parser *p, uint8_t c) {
    switch (p->call.state) {
    case START: p->call.state = p->opener->section && !p->call.in_section ? SECTION : NAME; return WR_AGAIN;
    case SECTION: return wr_call_section(p, c, NAME);
    case NAME: return step_name(p, c);
    case TYPE_OR_NAME:
    case SECOND_NAME: return step_second(p, c);
    case ID: return step_id(p, c);
    default: return step_arguments(p, c);
    }
}

static void finish(wr_parser *p) {
    if (!p->call.begun) return;
    wr_call_arguments(p, p->finder.window, p->finder.n);
    p->finder.n = 0;
}

const wr_syntax wr_syntax_named = {.step = step, .finish = finish};
