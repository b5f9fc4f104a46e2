/* The grammar of JSON as a state machine with one bit of stack a level. */
#include "text/parse/json_scan.h"

#include <string.h>

enum state {
    VALUE,       /* a value must come */
    FIRST_VALUE, /* a value, or the end of an empty array */
    FIRST_KEY,   /* a key, or the end of an empty object */
    KEY,
    COLON,
    NEXT, /* a comma or the end of the container */
    STRING,
    KEY_STRING,
    ESCAPE,
    KEY_ESCAPE,
    HEX,
    KEY_HEX,
    LITERAL,
    MINUS,
    ZERO,
    INTEGER,
    POINT,
    FRACTION,
    EXPONENT,
    EXPONENT_SIGN,
    EXPONENT_DIGITS,
    BROKEN, /* after a mistake, outside of a string */
    BROKEN_STRING,
    BROKEN_ESCAPE,
};

static const char *const literals[] = {"true", "false", "null"};

static bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }

void wr_json_scan_init(wr_json_scan *s) { *s = (wr_json_scan){.state = VALUE}; }

bool wr_json_scan_in_string(const wr_json_scan *s) {
    switch (s->state) {
    case STRING:
    case KEY_STRING:
    case ESCAPE:
    case KEY_ESCAPE:
    case HEX:
    case KEY_HEX:
    case BROKEN_STRING:
    case BROKEN_ESCAPE: return true;
    default: return false;
    }
}

static wr_json_scan_end ended(wr_json_scan *s) {
    s->state = NEXT;
    return s->depth ? WR_JSON_MORE : WR_JSON_LAST;
}

static bool in_array(const wr_json_scan *s) {
    uint32_t level = s->depth - 1;
    return s->arrays[level / 8] >> level % 8 & 1;
}

/* The first mistake is at c. */
static wr_json_scan_end broken(wr_json_scan *s, uint8_t c) {
    bool in_string = wr_json_scan_in_string(s), escape = s->state == ESCAPE || s->state == KEY_ESCAPE;
    s->invalid = true;
    if (escape) {
        s->state = BROKEN_STRING; /* c is what was escaped */
        return WR_JSON_MORE;
    }
    s->state = in_string ? BROKEN_STRING : BROKEN;
    return wr_json_scan_step(s, c);
}

static wr_json_scan_end step_broken(wr_json_scan *s, uint8_t c) {
    switch (c) {
    case '"': s->state = BROKEN_STRING; return WR_JSON_MORE;
    case '{':
    case '[':
        if (s->depth < UINT32_MAX) s->depth++;
        return WR_JSON_MORE;
    case '}':
    case ']':
        if (s->depth == 0) return WR_JSON_PAST;
        return --s->depth ? WR_JSON_MORE : WR_JSON_LAST;
    default: return s->depth == 0 && (c == ',' || wr_json_space(c)) ? WR_JSON_PAST : WR_JSON_MORE;
    }
}

static wr_json_scan_end open_container(wr_json_scan *s, uint8_t c) {
    if (s->depth == WR_JSON_SCAN_DEPTH) return broken(s, c);
    uint32_t level = s->depth++;
    uint8_t bit = (uint8_t)(1u << level % 8);
    if (c == '[') {
        s->arrays[level / 8] |= bit;
    } else {
        s->arrays[level / 8] &= (uint8_t)~bit;
        if (level == 0) s->object = true;
    }
    s->state = c == '[' ? FIRST_VALUE : FIRST_KEY;
    return WR_JSON_MORE;
}

static wr_json_scan_end close_container(wr_json_scan *s) {
    s->depth--;
    return ended(s);
}

static wr_json_scan_end step_value(wr_json_scan *s, uint8_t c) {
    if (wr_json_space(c)) return WR_JSON_MORE;
    if (c == ']' && s->state == FIRST_VALUE) return close_container(s);
    if (c == '{' || c == '[') return open_container(s, c);
    if (c == '"') {
        s->state = STRING;
    } else if (c == '-') {
        s->state = MINUS;
    } else if (is_digit(c)) {
        s->state = c == '0' ? ZERO : INTEGER;
    } else if (c == 't' || c == 'f' || c == 'n') {
        s->state = LITERAL;
        s->literal = c == 't' ? 0 : c == 'f' ? 1 : 2;
        s->literal_at = 1;
    } else {
        return broken(s, c);
    }
    return WR_JSON_MORE;
}

/* A string, of a value or a key: plain, after a backslash, after \u. */
static wr_json_scan_end step_string(wr_json_scan *s, uint8_t c) {
    bool key = s->state == KEY_STRING || s->state == KEY_ESCAPE || s->state == KEY_HEX;
    if (s->state == STRING || s->state == KEY_STRING) {
        if (c == '"') {
            if (!key) return ended(s);
            s->state = COLON;
        } else if (c == '\\') {
            s->state = key ? KEY_ESCAPE : ESCAPE;
        } else if (c < 0x20) {
            return broken(s, c);
        }
    } else if (s->state == ESCAPE || s->state == KEY_ESCAPE) {
        if (c == 'u') {
            s->state = key ? KEY_HEX : HEX;
            s->digits = 0;
        } else if (c && strchr("\"\\/bfnrt", c)) {
            s->state = key ? KEY_STRING : STRING;
        } else {
            return broken(s, c);
        }
    } else {
        if (!is_digit(c) && !((c | 0x20) >= 'a' && (c | 0x20) <= 'f')) return broken(s, c);
        if (++s->digits == 4) s->state = key ? KEY_STRING : STRING;
    }
    return WR_JSON_MORE;
}

/* A number whose last byte may have been the one before c. */
static wr_json_scan_end number_ends(wr_json_scan *s, uint8_t c) {
    s->state = NEXT;
    if (s->depth) return wr_json_scan_step(s, c);
    if (c == ',' || c == '}' || c == ']' || wr_json_space(c)) return WR_JSON_PAST;
    return broken(s, c);
}

static wr_json_scan_end step_number(wr_json_scan *s, uint8_t c) {
    switch (s->state) {
    case MINUS:
        if (!is_digit(c)) return broken(s, c);
        s->state = c == '0' ? ZERO : INTEGER;
        return WR_JSON_MORE;
    case ZERO:
    case INTEGER:
        if (is_digit(c) && s->state == INTEGER) return WR_JSON_MORE;
        if (c == '.') {
            s->state = POINT;
        } else if (c == 'e' || c == 'E') {
            s->state = EXPONENT;
        } else {
            return number_ends(s, c);
        }
        return WR_JSON_MORE;
    case POINT:
        if (!is_digit(c)) return broken(s, c);
        s->state = FRACTION;
        return WR_JSON_MORE;
    case FRACTION:
        if (is_digit(c)) return WR_JSON_MORE;
        if (c != 'e' && c != 'E') return number_ends(s, c);
        s->state = EXPONENT;
        return WR_JSON_MORE;
    case EXPONENT:
        if (c == '+' || c == '-') {
            s->state = EXPONENT_SIGN;
            return WR_JSON_MORE;
        } /* fall through */
    case EXPONENT_SIGN:
        if (!is_digit(c)) return broken(s, c);
        s->state = EXPONENT_DIGITS;
        return WR_JSON_MORE;
    default: return is_digit(c) ? WR_JSON_MORE : number_ends(s, c);
    }
}

static wr_json_scan_end step_between(wr_json_scan *s, uint8_t c) {
    if (wr_json_space(c)) return WR_JSON_MORE;
    switch (s->state) {
    case COLON:
        if (c != ':') return broken(s, c);
        s->state = VALUE;
        return WR_JSON_MORE;
    case NEXT:
        if (c == ',') {
            s->state = in_array(s) ? VALUE : KEY;
            return WR_JSON_MORE;
        }
        if (c == (in_array(s) ? ']' : '}')) return close_container(s);
        return broken(s, c);
    default: /* FIRST_KEY, KEY */
        if (c == '}' && s->state == FIRST_KEY) return close_container(s);
        if (c != '"') return broken(s, c);
        s->state = KEY_STRING;
        return WR_JSON_MORE;
    }
}

wr_json_scan_end wr_json_scan_step(wr_json_scan *s, uint8_t c) {
    switch (s->state) {
    case VALUE:
    case FIRST_VALUE: return step_value(s, c);
    case FIRST_KEY:
    case KEY:
    case COLON:
    case NEXT: return step_between(s, c);
    case STRING:
    case KEY_STRING:
    case ESCAPE:
    case KEY_ESCAPE:
    case HEX:
    case KEY_HEX: return step_string(s, c);
    case LITERAL: {
        const char *literal = literals[s->literal];
        if (c != (uint8_t)literal[s->literal_at]) return broken(s, c);
        return literal[++s->literal_at] ? WR_JSON_MORE : ended(s);
    }
    case BROKEN: return step_broken(s, c);
    case BROKEN_STRING:
        if (c == '\\') s->state = BROKEN_ESCAPE;
        if (c != '"') return WR_JSON_MORE;
        s->state = BROKEN;
        return s->depth ? WR_JSON_MORE : WR_JSON_LAST;
    case BROKEN_ESCAPE: s->state = BROKEN_STRING; return WR_JSON_MORE;
    default: return step_number(s, c);
    }
}

bool wr_json_is_valid(const char *text, size_t n, char *first) {
    wr_json_scan s;
    wr_json_scan_end end = WR_JSON_MORE;
    size_t i = 0;
    wr_json_scan_init(&s);
    while (n && wr_json_space((uint8_t)text[n - 1])) n--;
    while (i < n && wr_json_space((uint8_t)text[i])) i++;
    if (i == n) return false;
    if (first) *first = text[i];
    while (i < n && end == WR_JSON_MORE && !s.invalid) end = wr_json_scan_step(&s, (uint8_t)text[i++]);
    if (s.invalid) return false;
    if (end == WR_JSON_MORE) return wr_json_scan_step(&s, ' ') == WR_JSON_PAST && !s.invalid; /* a number */
    return end == WR_JSON_LAST && i == n;
}
