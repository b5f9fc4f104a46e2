/* Calls as JSON objects that hold name and arguments: {"name": ..., "arguments": {...}}, alone or in a list. The
 * arguments are passed on as they come when the name stands before them. */
#include <string.h>

#include "text/json_lists.h"
#include "text/parse/parse.h"

enum {
    OPEN,
    FIRST_KEY,
    KEY_QUOTE,
    KEY,
    COLON,
    VALUE,
    NAME,
    ID,
    SKIPPED,
    ARGUMENTS,
    OTHER_ARGUMENTS,
    EARLY_ARGUMENTS,
    NEXT
};

enum { KEY_BYTES = 32 };

typedef enum meaning { KEY_UNKNOWN, KEY_NAME, KEY_ARGUMENTS, KEY_ID, KEY_OTHER } meaning;

static const struct {
    const char *key;
    meaning means;
} keys[] = {
    {"name", KEY_NAME},
    {"tool_name", KEY_NAME},
    {"function", KEY_NAME},
    {"arguments", KEY_ARGUMENTS},
    {"parameters", KEY_ARGUMENTS},
    {"args", KEY_ARGUMENTS},
    {"id", KEY_ID},
    {"tool_call_id", KEY_ID},
    {"call_id", KEY_ID},
    {"type", KEY_OTHER},
    {"index", KEY_OTHER},
};

/* The object is none of ours from here on. A call that has its arguments stays one. */
static wr_output_step give_up(wr_parser *p) {
    if (p->call.begun) wr_call_end(p, true, p->call.valid);
    return wr_call_fail(p, 0);
}

static meaning meaning_of(const wr_parser *p) {
    const char *key = p->held.data + p->call.at;
    size_t n = p->held.n - p->call.at;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (strlen(keys[i].key) == n && memcmp(keys[i].key, key, n) == 0) return keys[i].means;
    }
    return KEY_UNKNOWN;
}

/* Text of a JSON string, with its quotes, into out; false when it is none. */
static bool decode_string(const char *text, size_t n, wr_bytes *out) {
    wr_json_reader r;
    const char *string;
    size_t bytes;
    weir_status st = wr_json_reader_init(&r, text, (wr_json_span){0, n, 0}, "", NULL);
    if (st == WEIR_OK) st = wr_json_string(&r, &string, &bytes, NULL);
    if (st == WEIR_OK) st = wr_json_end(&r, NULL);
    out->n = 0;
    if (st == WEIR_OK) wr_bytes_add(out, string, bytes);
    if (st == WEIR_E_MEMORY) out->failed = true;
    wr_json_reader_deinit(&r);
    return st == WEIR_OK;
}

/* Arguments that are no object: null for none, or a string with the object in it. p->value has them. */
static void pass_other(wr_parser *p) {
    wr_bytes text = {0};
    char first = 0;
    if (p->value.n == 4 && memcmp(p->value.data, "null", 4) == 0) {
        wr_call_arguments(p, "{}", 2);
        p->call.valid = true;
    } else if (p->value.n && p->value.data[0] == '"' && decode_string(p->value.data, p->value.n, &text) &&
               wr_json_is_valid(text.data, text.n, &first) && first == '{') {
        wr_call_arguments(p, text.data, text.n);
        p->call.valid = true;
    } else {
        wr_call_arguments(p, p->value.data, p->value.n);
    }
    if (text.failed) p->value.failed = true;
    wr_bytes_deinit(&text);
}

static wr_output_step object_ends(wr_parser *p) {
    wr_call *call = &p->call;
    if (!call->begun) {
        if (!call->has_name || (p->opener->known && !call->args_end)) return wr_call_fail(p, 0);
        p->value.n = 0;
        wr_bytes_add(&p->value, p->held.data + call->args_at, call->args_end - call->args_at);
        if (!wr_call_begin(p)) return wr_call_fail(p, 0);
        if (p->value.n == 0 || p->value.data[0] == '{') {
            call->valid = p->value.n == 0 || wr_json_is_valid(p->value.data, p->value.n, NULL);
            wr_call_arguments(p, p->value.n ? p->value.data : "{}", p->value.n ? p->value.n : 2);
        } else {
            pass_other(p);
        }
    }
    wr_call_end(p, true, call->valid);
    wr_call_between(p);
    return WR_GONE;
}

/* c is the first byte of the value of call->key. */
static wr_output_step value_begins(wr_parser *p, uint8_t c) {
    wr_call *call = &p->call;
    wr_json_scan_init(&call->scan);
    call->at = p->held.n;
    if (call->key == KEY_NAME && c == '"' && !call->has_name) {
        call->state = NAME;
    } else if (call->key == KEY_ID && c == '"') {
        call->state = ID;
    } else if (call->key == KEY_ID || call->key == KEY_OTHER) {
        call->state = SKIPPED;
    } else if (call->key == KEY_ARGUMENTS && !call->args_end && !call->begun && c && strchr("{[\"-0123456789tfn", c)) {
        if (!call->has_name) {
            call->state = EARLY_ARGUMENTS;
            call->args_at = p->held.n;
        } else if (wr_call_begin(p)) {
            call->state = c == '{' ? ARGUMENTS : OTHER_ARGUMENTS;
        } else {
            return give_up(p);
        }
    } else {
        return give_up(p);
    }
    return WR_AGAIN;
}

/* The call has all of its arguments; what follows is held anew. */
static void arguments_end(wr_parser *p) {
    p->call.state = NEXT;
    p->held.n = 0;
}

/* A value that is held. */
static wr_output_step step_held_value(wr_parser *p, uint8_t c) {
    wr_call *call = &p->call;
    wr_json_scan_end end = wr_json_scan_step(&call->scan, c);
    if (call->scan.invalid && call->state != EARLY_ARGUMENTS) return give_up(p);
    if (end == WR_JSON_MORE) return WR_HELD;
    if (end == WR_JSON_LAST) wr_bytes_byte(&p->held, c);
    if (call->state == EARLY_ARGUMENTS) call->args_end = p->held.n;
    if (call->state == NAME || call->state == ID) {
        wr_bytes *out = call->state == NAME ? &p->name : &p->id;
        if (!decode_string(p->held.data + call->at, p->held.n - call->at, out)) {
            p->held.n -= end == WR_JSON_LAST;
            return give_up(p);
        }
        if (call->state == NAME) call->has_name = true;
    }
    call->state = NEXT;
    if (call->begun) p->held.n = 0;
    return end == WR_JSON_LAST ? WR_GONE : WR_AGAIN;
}

static wr_output_step step_arguments(wr_parser *p, uint8_t c) {
    wr_call *call = &p->call;
    if (call->state == OTHER_ARGUMENTS) {
        wr_json_scan_end end = wr_json_scan_step(&call->scan, c);
        if (end != WR_JSON_PAST) wr_bytes_byte(&p->value, c);
        if (end == WR_JSON_MORE) return WR_GONE;
        pass_other(p);
        arguments_end(p);
        return end == WR_JSON_LAST ? WR_GONE : WR_AGAIN;
    }
    const char *markers[WR_ENDS];
    int k;
    wr_output_format_ends(p->format, markers);
    switch (wr_arguments_step(p, c, markers, WR_ENDS, &k)) {
    case WR_ARGUMENTS_MORE: break;
    case WR_ARGUMENTS_DONE:
        call->valid = wr_arguments_close(p);
        arguments_end(p);
        break;
    case WR_ARGUMENTS_MARKER:
        wr_call_end(p, false, wr_arguments_close(p));
        wr_call_between(p);
        wr_output_again(p, markers[k], strlen(markers[k]));
        break;
    }
    return WR_GONE;
}

static wr_output_step step(wr_parser *p, uint8_t c) {
    wr_call *call = &p->call;
    switch (call->state) {
    case NAME:
    case ID:
    case SKIPPED:
    case EARLY_ARGUMENTS: return step_held_value(p, c);
    case ARGUMENTS:
    case OTHER_ARGUMENTS: return step_arguments(p, c);
    case KEY:
        if (c == '"') {
            call->key = meaning_of(p);
            if (call->key == KEY_UNKNOWN) return give_up(p);
            call->state = COLON;
            return WR_HELD;
        }
        return c < 0x20 || c == '\\' || p->held.n - call->at == KEY_BYTES ? give_up(p) : WR_HELD;
    default: break;
    }
    if (wr_json_space(c) && call->state != VALUE) return WR_HELD;
    switch (call->state) {
    case OPEN:
        if (c == '{') {
            call->state = FIRST_KEY;
        } else if (c == '[' && !p->list) {
            p->list = true;
        } else {
            return give_up(p);
        }
        return WR_HELD;
    case FIRST_KEY:
    case KEY_QUOTE:
        if (c != '"') return give_up(p);
        call->state = KEY;
        call->at = p->held.n + 1;
        return WR_HELD;
    case COLON:
        if (c != ':') return give_up(p);
        call->state = VALUE;
        return WR_HELD;
    case VALUE: return wr_json_space(c) ? WR_HELD : value_begins(p, c);
    default: /* NEXT */
        if (c == '}') return object_ends(p);
        if (c != ',') return give_up(p);
        call->state = KEY_QUOTE;
        return WR_HELD;
    }
}

static void finish(wr_parser *p) {
    if (!p->call.begun) return;
    if (p->call.state == ARGUMENTS) wr_call_arguments(p, p->finder.window, p->finder.n);
    if (p->call.state == OTHER_ARGUMENTS) wr_call_arguments(p, p->value.data, p->value.n);
    p->finder.n = 0;
}

static bool begins(const wr_parser *p, uint8_t c) {
    (void)p;
    return c == '{';
}

const wr_syntax wr_syntax_wrapped = {.step = step, .finish = finish, .begins = begins};
