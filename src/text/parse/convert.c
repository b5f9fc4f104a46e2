/* Two recursive-descent readers over one cursor. Each writes JSON as it goes, so that what was read of a text that is
 * cut off is there. */
#include "text/parse/convert.h"

#include <string.h>

#include "text/parse/json_scan.h"
#include "text/unicode.h"

enum { DEPTH = 64 }; /* levels of brackets */

typedef struct cursor {
    const char *at, *end;
    wr_bytes *out;
    const char *quote; /* Gemma's */
    int depth;
} cursor;

static void skip_space(cursor *c) {
    while (c->at < c->end && wr_json_space((uint8_t)*c->at)) c->at++;
}
static bool is_word(char ch) {
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') || ch == '_' ||
           (unsigned char)ch >= 0x80;
}
static bool starts(const cursor *c, const char *text, size_t n) {
    return (size_t)(c->end - c->at) >= n && memcmp(c->at, text, n) == 0;
}

/* What follows is `text` and no longer word: step over it. */
static bool take_word(cursor *c, const char *text) {
    size_t n = strlen(text);
    if (!starts(c, text, n) || (c->at + n < c->end && is_word(c->at[n]))) return false;
    c->at += n;
    return true;
}

static bool take_constant(cursor *c) {
    static const char *const words[][2] = {{"True", "true"}, {"False", "false"}, {"None", "null"},
                                           {"true", "true"}, {"false", "false"}, {"null", "null"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (take_word(c, words[i][0])) {
            wr_bytes_put(c->out, words[i][1]);
            return true;
        }
    }
    return false;
}

/* A number in Python's notation, written in JSON's: 1_000, 1., .5, 0x1F are none of JSON's. */
static wr_converted number(cursor *c) {
    char digits[64];
    size_t n = 0;
    const char *begin = c->at;
    while (c->at < c->end && (is_word(*c->at) || *c->at == '.' || *c->at == '+' || *c->at == '-')) {
        if ((*c->at == '+' || *c->at == '-') && c->at != begin && (c->at[-1] | 0x20) != 'e') break;
        c->at++;
    }
    if (c->at == c->end && !c->depth) return WR_CONVERTED_PART; /* more digits may come */
    for (const char *p = begin; p < c->at; p++) {
        bool digit_before = p > begin && p[-1] >= '0' && p[-1] <= '9';
        bool digit_behind = p + 1 < c->at && p[1] >= '0' && p[1] <= '9';
        if (n + 4 > sizeof digits) { /* too long to be rewritten: as it is, or nothing */
            if (!wr_json_is_valid(begin, (size_t)(c->at - begin), NULL)) return WR_CONVERTED_WRONG;
            wr_bytes_add(c->out, begin, (size_t)(c->at - begin));
            return WR_CONVERTED;
        }
        if (*p == '_' && digit_before && digit_behind) continue;
        if (*p == '+' && p == begin) continue;
        if (*p == '.' && !digit_before) digits[n++] = '0';
        digits[n++] = *p;
        if (*p == '.' && !digit_behind) digits[n++] = '0';
    }
    char first = 0;
    if (!wr_json_is_valid(digits, n, &first) || !(first == '-' || (first >= '0' && first <= '9'))) {
        return WR_CONVERTED_WRONG;
    }
    wr_bytes_add(c->out, digits, n);
    return WR_CONVERTED;
}

/* ---- Python --------------------------------------------------------------- */

static wr_converted python_value(cursor *c);

/* `digits` hexadecimal digits; -1 when there are fewer, -2 when they are none. */
static long hex_digits(cursor *c, int digits) {
    long value = 0;
    for (int i = 0; i < digits; i++, c->at++) {
        if (c->at == c->end) return -1;
        int digit = wr_hex_digit(*c->at);
        if (digit < 0) return -2;
        value = value << 4 | digit;
    }
    return value;
}

/* Behind a backslash. Unknown escapes stand for themselves, as in Python. */
static wr_converted python_escape(cursor *c) {
    static const char plain[] = "\\\\''\"\"n\nt\tr\rb\bf\fa\av\v";
    char ch = *c->at++;
    const char *at = NULL;
    for (const char *p = plain; *p; p += 2) {
        if (*p == ch) at = p + 1;
    }
    if (at) {
        wr_bytes_escaped(c->out, at, 1);
    } else if (ch == 'x' || ch == 'u' || ch == 'U') {
        uint8_t utf8[4];
        long cp = hex_digits(c, ch == 'x' ? 2 : ch == 'u' ? 4 : 8);
        if (cp < 0) return cp == -1 ? WR_CONVERTED_PART : WR_CONVERTED_WRONG;
        if (cp >= 0xD800 && cp < 0xDC00 && starts(c, "\\u", 2)) { /* a pair, as JSON writes it */
            c->at += 2;
            long low = hex_digits(c, 4);
            if (low == -1) return WR_CONVERTED_PART;
            if (low < 0xDC00 || low > 0xDFFF) return WR_CONVERTED_WRONG;
            cp = (long)wr_surrogates_join((uint32_t)cp, (uint32_t)low);
        }
        if (cp > 0x10FFFF || (cp >= 0xD800 && cp <= 0xDFFF)) return WR_CONVERTED_WRONG;
        wr_bytes_escaped(c->out, (const char *)utf8, (size_t)wr_utf8_put((uint32_t)cp, utf8));
    } else if (ch >= '0' && ch <= '7') {
        unsigned value = (unsigned)(ch - '0');
        for (int i = 0; i < 2 && c->at < c->end && *c->at >= '0' && *c->at <= '7'; i++) {
            value = value * 8 + (unsigned)(*c->at++ - '0');
        }
        uint8_t utf8[4];
        wr_bytes_escaped(c->out, (const char *)utf8, (size_t)wr_utf8_put(value, utf8));
    } else if (ch != '\n') { /* an escaped line break is none */
        char both[2] = {'\\', ch};
        wr_bytes_escaped(c->out, both, 2);
    }
    return WR_CONVERTED;
}

static wr_converted python_string(cursor *c, bool raw) {
    char quote = *c->at, triple[3] = {quote, quote, quote};
    size_t n = starts(c, triple, 3) ? 3 : 1;
    c->at += n;
    while (c->at < c->end) {
        if (starts(c, triple, n)) {
            c->at += n;
            return WR_CONVERTED;
        }
        if (*c->at == '\\' && !raw) {
            if (++c->at == c->end) return WR_CONVERTED_PART;
            wr_converted st = python_escape(c);
            if (st != WR_CONVERTED) return st;
            continue;
        }
        const char *begin = c->at++;
        if (raw && *begin == '\\' && c->at < c->end) c->at++; /* the quote behind it ends nothing */
        while (c->at < c->end && *c->at != '\\' && *c->at != quote) c->at++;
        wr_bytes_escaped(c->out, begin, (size_t)(c->at - begin));
    }
    return WR_CONVERTED_PART;
}

/* Adjacent strings are one. */
static wr_converted python_strings(cursor *c) {
    wr_bytes_byte(c->out, '"');
    for (;;) {
        bool raw = *c->at == 'r';
        if (raw) c->at++;
        wr_converted st = python_string(c, raw);
        if (st != WR_CONVERTED) return st;
        const char *end = c->at;
        skip_space(c);
        if (c->at < c->end && (*c->at == '"' || *c->at == '\'')) continue;
        c->at = end;
        wr_bytes_byte(c->out, '"');
        return WR_CONVERTED;
    }
}

/* A list, tuple or dict, whose bracket is next. */
static wr_converted python_container(cursor *c) {
    char open = *c->at++, close = open == '[' ? ']' : open == '(' ? ')' : '}';
    bool dict = open == '{', comma = true;
    size_t n = 0;
    wr_bytes_byte(c->out, dict ? '{' : '[');
    for (;; n++) {
        skip_space(c);
        if (c->at == c->end) return WR_CONVERTED_PART;
        if (*c->at == close) {
            /* (x) is x in brackets; a tuple of one has a comma. */
            if (open == '(' && n == 1 && !comma) return WR_CONVERTED_WRONG;
            c->at++;
            wr_bytes_byte(c->out, dict ? '}' : ']');
            return WR_CONVERTED;
        }
        if (!comma) return WR_CONVERTED_WRONG;
        if (n) wr_bytes_put(c->out, ", ");
        if (dict && *c->at != '"' && *c->at != '\'') return WR_CONVERTED_WRONG;
        wr_converted st = python_value(c);
        if (st == WR_CONVERTED && dict) {
            skip_space(c);
            if (c->at == c->end) return WR_CONVERTED_PART;
            if (*c->at++ != ':') return WR_CONVERTED_WRONG;
            wr_bytes_put(c->out, ": ");
            skip_space(c);
            st = python_value(c);
        }
        if (st != WR_CONVERTED) return st;
        skip_space(c);
        comma = c->at < c->end && *c->at == ',';
        if (comma) c->at++;
    }
}

static wr_converted python_value(cursor *c) {
    if (c->at == c->end) return WR_CONVERTED_PART;
    char ch = *c->at;
    if (ch == '"' || ch == '\'' || (ch == 'r' && c->at + 1 < c->end && (c->at[1] == '"' || c->at[1] == '\''))) {
        return python_strings(c);
    }
    if (ch == '[' || ch == '(' || ch == '{') {
        if (c->depth == DEPTH) return WR_CONVERTED_WRONG;
        c->depth++;
        wr_converted st = python_container(c);
        c->depth--;
        return st;
    }
    if (take_constant(c)) return WR_CONVERTED;
    if ((ch >= '0' && ch <= '9') || ch == '-' || ch == '+' || ch == '.') return number(c);
    return WR_CONVERTED_WRONG;
}

wr_converted wr_convert_python_value(const char *text, size_t n, wr_bytes *out) {
    cursor c = {.at = text, .end = text + n, .out = out, .depth = 1};
    skip_space(&c);
    wr_converted st = python_value(&c);
    skip_space(&c);
    return st == WR_CONVERTED && c.at < c.end ? WR_CONVERTED_WRONG : st;
}

wr_converted wr_convert_python_arguments(const char *text, size_t n, wr_bytes *out) {
    cursor c = {.at = text, .end = text + n, .out = out};
    skip_space(&c);
    if (c.at < c.end && *c.at == '{') return wr_convert_python_value(text, n, out);
    c.depth = 1;
    wr_bytes_byte(out, '{');
    for (size_t i = 0;; i++) {
        skip_space(&c);
        if (c.at == c.end) break;
        const char *name = c.at;
        while (c.at < c.end && is_word(*c.at)) c.at++;
        size_t name_bytes = (size_t)(c.at - name);
        skip_space(&c);
        if (name_bytes == 0 || (*name >= '0' && *name <= '9')) return WR_CONVERTED_WRONG;
        wr_bytes_put(out, i ? ", \"" : "\"");
        wr_bytes_escaped(out, name, name_bytes);
        if (c.at == c.end) return WR_CONVERTED_PART;
        if (*c.at++ != '=') return WR_CONVERTED_WRONG;
        wr_bytes_put(out, "\": ");
        skip_space(&c);
        wr_converted st = python_value(&c);
        if (st != WR_CONVERTED) return st;
        skip_space(&c);
        if (c.at == c.end) break;
        if (*c.at++ != ',') return WR_CONVERTED_WRONG;
    }
    wr_bytes_byte(out, '}');
    return WR_CONVERTED;
}

/* ---- Gemma ---------------------------------------------------------------- */

static wr_converted bare_value(cursor *c);

/* A string whose opening quote is next. */
static wr_converted quoted(cursor *c) {
    size_t n = strlen(c->quote);
    const char *begin = c->at += n;
    while (c->at < c->end && !starts(c, c->quote, n)) c->at++;
    wr_bytes_byte(c->out, '"');
    wr_bytes_escaped(c->out, begin, (size_t)(c->at - begin));
    if (c->at == c->end) return WR_CONVERTED_PART;
    c->at += n;
    wr_bytes_byte(c->out, '"');
    return WR_CONVERTED;
}

static wr_converted bare_pairs(cursor *c, bool to_brace) {
    wr_bytes_byte(c->out, '{');
    for (size_t i = 0;; i++) {
        skip_space(c);
        if (c->at == c->end || *c->at == '}') break;
        if (i) wr_bytes_put(c->out, ", ");
        if (starts(c, c->quote, strlen(c->quote))) {
            wr_converted st = quoted(c);
            if (st != WR_CONVERTED) return st;
            skip_space(c);
        } else { /* a bare key goes up to the colon */
            const char *key = c->at;
            while (c->at < c->end && !strchr(":,{}[]\n", *c->at)) c->at++;
            size_t n = (size_t)(c->at - key);
            while (n && wr_json_space((uint8_t)key[n - 1])) n--;
            if (n >= 2 && *key == '"' && key[n - 1] == '"') {
                key++;
                n -= 2;
            }
            if (n == 0) return WR_CONVERTED_WRONG;
            wr_bytes_byte(c->out, '"');
            wr_bytes_escaped(c->out, key, n);
            if (c->at == c->end) return WR_CONVERTED_PART;
            wr_bytes_byte(c->out, '"');
        }
        if (c->at == c->end) return WR_CONVERTED_PART;
        if (*c->at++ != ':') return WR_CONVERTED_WRONG;
        wr_bytes_put(c->out, ": ");
        wr_converted st = bare_value(c);
        if (st != WR_CONVERTED) return st;
        skip_space(c);
        if (c->at == c->end || *c->at == '}') break;
        if (*c->at++ != ',') return WR_CONVERTED_WRONG;
    }
    if (to_brace) {
        if (c->at == c->end) return WR_CONVERTED_PART;
        c->at++;
    }
    wr_bytes_byte(c->out, '}');
    return WR_CONVERTED;
}

static wr_converted bare_list(cursor *c) {
    wr_bytes_byte(c->out, '[');
    for (size_t i = 0;; i++) {
        skip_space(c);
        if (c->at == c->end) return WR_CONVERTED_PART;
        if (*c->at == ']') break;
        if (i) wr_bytes_put(c->out, ", ");
        wr_converted st = bare_value(c);
        if (st != WR_CONVERTED) return st;
        skip_space(c);
        if (c->at == c->end) return WR_CONVERTED_PART;
        if (*c->at == ']') break;
        if (*c->at++ != ',') return WR_CONVERTED_WRONG;
    }
    c->at++;
    wr_bytes_byte(c->out, ']');
    return WR_CONVERTED;
}

static wr_converted bare_value(cursor *c) {
    skip_space(c);
    if (c->at == c->end) return WR_CONVERTED_PART;
    if (starts(c, c->quote, strlen(c->quote))) return quoted(c);
    if (*c->at == '{' || *c->at == '[') {
        bool object = *c->at++ == '{';
        if (c->depth == DEPTH) return WR_CONVERTED_WRONG;
        c->depth++;
        wr_converted st = object ? bare_pairs(c, true) : bare_list(c);
        c->depth--;
        return st;
    }
    /* Anything else up to the next comma or bracket: JSON, or a word that lost its quotes. */
    const char *begin = c->at;
    while (c->at < c->end && !strchr(",{}[]", *c->at)) c->at++;
    size_t n = (size_t)(c->at - begin);
    while (n && wr_json_space((uint8_t)begin[n - 1])) n--;
    cursor word = {.at = begin, .end = begin + n, .out = c->out};
    if (wr_json_is_valid(begin, n, NULL)) {
        wr_bytes_add(c->out, begin, n);
    } else if (!take_constant(&word)) {
        wr_bytes_byte(c->out, '"');
        wr_bytes_escaped(c->out, begin, n);
        wr_bytes_byte(c->out, '"');
    }
    return WR_CONVERTED;
}

wr_converted wr_convert_bare(const char *text, size_t n, const char *quote, wr_bytes *out) {
    cursor c = {.at = text, .end = text + n, .out = out, .quote = quote};
    wr_converted st = bare_pairs(&c, false);
    return st == WR_CONVERTED && c.at < c.end ? WR_CONVERTED_WRONG : st;
}
