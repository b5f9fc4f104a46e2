/* The lexer. Whitespace: a "-" in a tag strips all of it on that side; without one, the
 * blanks between the start of a line and a block or comment tag go (lstrip_blocks), and
 * one newline behind such a tag (trim_blocks); "+" keeps both. */
#include "text/jinja/lexer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/unicode.h"

const char *wr_jtok_name(wr_jtok type) {
    static const char *const names[] = {"end of template",
                                        "template data / text",
                                        "begin of print statement",
                                        "end of print statement",
                                        "begin of statement block",
                                        "end of statement block",
                                        "name",
                                        "string",
                                        "integer",
                                        "float",
                                        "+",
                                        "-",
                                        "*",
                                        "/",
                                        "//",
                                        "%",
                                        "**",
                                        "~",
                                        "[",
                                        "]",
                                        "(",
                                        ")",
                                        "{",
                                        "}",
                                        "==",
                                        "!=",
                                        ">",
                                        ">=",
                                        "<",
                                        "<=",
                                        "=",
                                        ".",
                                        ":",
                                        "|",
                                        ",",
                                        ";"};
    return names[type];
}

bool wr_jlexer_init(wr_jrun *run, const char *source, size_t bytes, wr_jlexer *lexer) {
    char *copy = wr_jtext(run, bytes);
    size_t n = 0;
    if (!copy) return false;
    for (size_t i = 0; i < bytes; i++) {
        if (source[i] == '\r') {
            copy[n++] = '\n';
            if (i + 1 < bytes && source[i + 1] == '\n') i++;
        } else {
            copy[n++] = source[i];
        }
    }
    if (n && copy[n - 1] == '\n') n--; /* jinja2 drops one newline at the end */
    *lexer = (wr_jlexer){.run = run, .source = copy, .bytes = n, .line = 1, .line_starting = true};
    return true;
}

static bool starts(const wr_jlexer *l, size_t at, const char *text) {
    size_t n = strlen(text);
    return l->bytes - at >= n && memcmp(l->source + at, text, n) == 0;
}

/* The end of the whitespace that begins at `at`. */
static size_t skip_space(const wr_jlexer *l, size_t at) {
    uint32_t cp;
    while (at < l->bytes) {
        size_t n = (size_t)wr_utf8_get((const uint8_t *)l->source + at, &cp);
        if (!wr_jchar_is_space(cp)) break;
        at += n;
    }
    return at;
}

static void count_lines(wr_jlexer *l, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) l->line += l->source[i] == '\n';
}

/* ---- data ---- */

/* The end of the text [from, to) without the whitespace at its end. */
static size_t strip_back(const wr_jlexer *l, size_t from, size_t to) {
    uint32_t cp;
    while (to > from) {
        size_t back = wr_utf8_back((const uint8_t *)l->source, to);
        wr_utf8_get((const uint8_t *)l->source + back, &cp);
        if (!wr_jchar_is_space(cp)) break;
        to = back;
    }
    return to;
}

/* lstrip_blocks: the blanks of the last line go when nothing else is in it. */
static size_t strip_line(const wr_jlexer *l, size_t from, size_t to) {
    size_t line = to;
    while (line > from && l->source[line - 1] != '\n') line--;
    if (line == from && !l->line_starting) return to;
    return line < to && skip_space(l, line) >= to ? line : to;
}

static size_t data_end(const wr_jlexer *l, size_t from, size_t tag, char sign, bool block) {
    if (sign == '-') return strip_back(l, from, tag);
    return sign != '+' && block ? strip_line(l, from, tag) : tag;
}

static char sign_at(const wr_jlexer *l, size_t at) {
    return at < l->bytes && (l->source[at] == '-' || l->source[at] == '+') ? l->source[at] : 0;
}

/* Behind the end of a block or comment tag whose closing text begins at `at`: what the
 * tag takes away. strip: it was "-%}". */
static size_t after_tag(const wr_jlexer *l, size_t at, char sign) {
    if (sign == '-') return skip_space(l, at);
    return sign != '+' && at < l->bytes && l->source[at] == '\n' ? at + 1 : at;
}

/* The end of "{% raw %}" at tag, or 0 when it is something else. */
static size_t raw_begin(const wr_jlexer *l, size_t tag) {
    if (!starts(l, tag, "{%")) return 0;
    size_t at = tag + 2;
    if (sign_at(l, at)) at++;
    at = skip_space(l, at);
    if (!starts(l, at, "raw")) return 0;
    at = skip_space(l, at + 3);
    if (starts(l, at, "-%}")) return skip_space(l, at + 3);
    return starts(l, at, "%}") ? at + 2 : 0;
}

/* The contents of a raw block that begins at `at` and how it ends. */
static bool raw_body(wr_jlexer *l, size_t at, wr_jtoken *out) {
    int line = l->line;
    for (size_t tag = at; tag < l->bytes; tag++) {
        if (!starts(l, tag, "{%")) continue;
        size_t p = tag + 2;
        char sign = sign_at(l, p), end_sign;
        p = skip_space(l, p + (sign != 0));
        if (!starts(l, p, "endraw")) continue;
        p = skip_space(l, p + 6);
        end_sign = sign_at(l, p);
        if (!starts(l, p + (end_sign != 0), "%}")) continue;
        size_t end = data_end(l, at, tag, sign, true);
        out->type = WR_J_T_DATA;
        out->line = line;
        l->at = after_tag(l, p + (end_sign != 0) + 2, end_sign);
        count_lines(l, at, l->at);
        l->line_starting = l->source[l->at - 1] == '\n';
        return wr_jstr_view(l->run, l->source + at, end - at, &out->value);
    }
    return WR_JSYNTAX(l->run, line, "Missing end of raw directive");
}

/* Skip the comment at tag; its tag was already judged. */
static bool skip_comment(wr_jlexer *l, size_t tag) {
    size_t at = tag + 2;
    if (sign_at(l, at)) at++;
    for (; at < l->bytes; at++) {
        char sign = sign_at(l, at);
        if (!starts(l, at + (sign != 0), "#}")) continue;
        size_t end = after_tag(l, at + (sign != 0) + 2, sign);
        count_lines(l, l->at, end);
        l->at = end;
        l->line_starting = l->source[end - 1] == '\n';
        return true;
    }
    return WR_JSYNTAX(l->run, l->line, "Missing end of comment tag");
}

/* Text up to the next tag. Empty data is no token: *out stays EOF then. */
static bool lex_data(wr_jlexer *l, wr_jtoken *out) {
    size_t from = l->at, tag = from;
    while (tag < l->bytes && !(l->source[tag] == '{' && tag + 1 < l->bytes && strchr("{%#", l->source[tag + 1]))) tag++;
    out->type = WR_J_T_EOF;
    out->line = l->line;
    size_t end = tag;
    if (tag < l->bytes) {
        char kind = l->source[tag + 1], sign = sign_at(l, tag + 2);
        size_t raw = raw_begin(l, tag);
        end = data_end(l, from, tag, sign, kind != '{');
        count_lines(l, from, tag);
        l->at = tag;
        if (raw) {
            /* The data before and the raw text are two tokens; joined they are the same output. */
            wr_jtoken inner;
            wr_jbuf both = {0};
            count_lines(l, tag, raw);
            l->at = raw;
            l->line_starting = l->source[raw - 1] == '\n';
            if (!raw_body(l, raw, &inner) || !wr_jbuf_add(l->run, &both, l->source + from, end - from) ||
                !wr_jbuf_add(l->run, &both, inner.value.s->data, inner.value.s->bytes))
                return false;
            if (!both.n) return true;
            out->type = WR_J_T_DATA;
            return wr_jbuf_str(l->run, &both, &out->value);
        }
        if (kind == '#') {
            if (!skip_comment(l, tag)) return false;
        } else {
            l->pending = kind == '{' ? WR_J_T_VARIABLE_BEGIN : WR_J_T_BLOCK_BEGIN;
            l->pending_end = tag + 2 + (sign != 0);
        }
    } else {
        count_lines(l, from, tag);
        l->at = tag;
    }
    if (end == from) return true;
    out->type = WR_J_T_DATA;
    return wr_jstr_view(l->run, l->source + from, end - from, &out->value);
}

/* ---- inside tags ---- */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Digits with single "_" between, the first of which stands at `at`; the end. */
static size_t digits(const wr_jlexer *l, size_t at, const char *allowed) {
    while (at < l->bytes) {
        size_t p = at + (l->source[at] == '_');
        if (p >= l->bytes || !l->source[p] || !strchr(allowed, l->source[p])) break;
        at = p + 1;
    }
    return at;
}

static const char decimal[] = "0123456789";

/* Digits with single "_" between, at `at`; the end, or `at` when there is none. */
static size_t decimals(const wr_jlexer *l, size_t at) {
    if (at >= l->bytes || !is_digit(l->source[at])) return at;
    return digits(l, at, decimal);
}

/* A float at `at`; its end or 0. */
static size_t float_end(const wr_jlexer *l, size_t at) {
    if (at && l->source[at - 1] == '.') return 0;
    size_t end = decimals(l, at), fraction = end, exponent;
    if (end == at) return 0;
    if (end < l->bytes && l->source[end] == '.') {
        fraction = decimals(l, end + 1);
        if (fraction == end + 1) fraction = end;
    }
    exponent = fraction;
    if (exponent < l->bytes && (l->source[exponent] == 'e' || l->source[exponent] == 'E')) {
        size_t p = exponent + 1;
        if (p < l->bytes && (l->source[p] == '+' || l->source[p] == '-')) p++;
        size_t q = decimals(l, p);
        if (q != p) return q;
    }
    return fraction != end ? fraction : 0;
}

static bool lex_number(wr_jlexer *l, wr_jtoken *out) {
    size_t from = l->at, end = float_end(l, from), n = 0;
    char text[512];
    out->type = end ? WR_J_T_FLOAT : WR_J_T_INTEGER;
    int base = 10;
    if (!end) {
        char c = l->source[from], x = from + 1 < l->bytes ? l->source[from + 1] | 0x20 : 0;
        const char *allowed = c != '0' ? decimal : x == 'x' ? "0123456789abcdefABCDEF" : x == 'o' ? "01234567" : "01";
        base = c != '0' ? 10 : x == 'x' ? 16 : x == 'o' ? 8 : x == 'b' ? 2 : 10;
        end = 0;
        if (base != 10) {
            size_t p = from + 2 + (from + 2 < l->bytes && l->source[from + 2] == '_');
            end = p < l->bytes && l->source[p] && strchr(allowed, l->source[p]) ? digits(l, p, allowed) : 0;
        }
        if (!end) {
            base = 10;
            end = c == '0' ? digits(l, from, "0") : digits(l, from, decimal);
        } else {
            from += 2;
        }
    }
    for (size_t i = from; i < end; i++) {
        if (l->source[i] == '_') continue;
        if (n + 1 >= sizeof text) return WR_JSYNTAX(l->run, l->line, "a number has too many digits");
        text[n++] = l->source[i];
    }
    text[n] = 0;
    l->at = end;
    errno = 0;
    if (out->type == WR_J_T_FLOAT) {
        out->value = wr_jfloat(strtod(text, NULL));
        return true;
    }
    long long value = strtoll(text, NULL, base);
    if (errno)
        return wr_jfail(l->run, WEIR_E_LIMIT, "the integer %.40s is beyond 64 bits, which is not supported", text);
    out->value = wr_jint(value);
    return true;
}

static bool is_name_start(uint32_t cp) {
    if (cp < 0x80) return (cp >= 'a' && cp <= 'z') || (cp >= 'A' && cp <= 'Z') || cp == '_';
    return wr_char_is_word(cp) && !wr_char_is_number(cp);
}
static bool is_name_char(uint32_t cp) {
    return is_name_start(cp) || (cp < 0x80 ? is_digit((char)cp) : wr_char_is_word(cp));
}

static bool lex_name(wr_jlexer *l, wr_jtoken *out) {
    size_t end = l->at;
    uint32_t cp;
    while (end < l->bytes) {
        size_t n = (size_t)wr_utf8_get((const uint8_t *)l->source + end, &cp);
        if (!is_name_char(cp)) break;
        end += n;
    }
    out->type = WR_J_T_NAME;
    out->text = l->source + l->at;
    out->bytes = end - l->at;
    l->at = end;
    return true;
}

/* \xHH, \uHHHH, \UHHHHHHHH and octal, as Python's unicode-escape codec has them. */
static bool escape_code(wr_jlexer *l, size_t *at, size_t end, wr_jbuf *buf) {
    char c = l->source[*at];
    size_t n = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0, p = *at + (n != 0);
    uint32_t cp = 0;
    if (n) {
        for (size_t i = 0; i < n; i++, p++) {
            int digit = p < end ? wr_hex_digit(l->source[p]) : -1;
            if (digit < 0) return WR_JSYNTAX(l->run, l->line, "truncated \\%c escape in a string", c);
            cp = cp << 4 | (uint32_t)digit;
        }
    } else {
        for (; n < 3 && p < end && l->source[p] >= '0' && l->source[p] <= '7'; n++, p++)
            cp = cp << 3 | (uint32_t)(l->source[p] - '0');
    }
    if (cp > 0x10FFFF) return WR_JSYNTAX(l->run, l->line, "illegal Unicode character in a string");
    if (cp >= 0xD800 && cp <= 0xDFFF)
        return WR_JSYNTAX(l->run, l->line, "half a surrogate pair in a string, which no text can hold");
    *at = p;
    return wr_jbuf_char(l->run, buf, cp);
}

static bool unescape(wr_jlexer *l, size_t at, size_t end, wr_jbuf *buf) {
    static const char letters[] = "\\'\"abfnrtv", meanings[] = "\\'\"\a\b\f\n\r\t\v";
    while (at < end) {
        size_t plain = at;
        while (at < end && l->source[at] != '\\') at++;
        if (!wr_jbuf_add(l->run, buf, l->source + plain, at - plain)) return false;
        if (at == end) break;
        at++; /* the lexer saw that something follows */
        char c = l->source[at];
        const char *known = c ? strchr(letters, c) : NULL;
        if (c == '\n') {
            at++;
        } else if (known) {
            if (!wr_jbuf_add(l->run, buf, &meanings[known - letters], 1)) return false;
            at++;
        } else if (c == 'x' || c == 'u' || c == 'U' || (c >= '0' && c <= '7')) {
            if (!escape_code(l, &at, end, buf)) return false;
        } else if ((uint8_t)c >= 0x80) {
            /* The codec sees such a character as an escape of its own, whose backslash
             * the one before it then escapes. */
            char code[16];
            uint32_t cp;
            at += (size_t)wr_utf8_get((const uint8_t *)l->source + at, &cp);
            const char *form = cp < 0x100 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x";
            int n = snprintf(code, sizeof code, form, cp);
            if (!wr_jbuf_add(l->run, buf, code, (size_t)n)) return false;
        } else if (c == 'N') {
            return WR_JSYNTAX(l->run, l->line, "\\N{...} in a string is not supported; use \\u");
        } else if (!wr_jbuf_lit(l->run, buf, "\\")) {
            return false;
        }
    }
    return true;
}

static bool lex_string(wr_jlexer *l, wr_jtoken *out) {
    char quote = l->source[l->at];
    size_t end = l->at + 1;
    bool escapes = false;
    while (end < l->bytes && l->source[end] != quote) {
        if (l->source[end] == '\\') {
            escapes = true;
            end++;
        }
        end++;
    }
    if (end >= l->bytes) return WR_JSYNTAX(l->run, l->line, "unexpected char \"%c\": a string does not end", quote);
    out->type = WR_J_T_STRING;
    wr_jbuf buf = {0};
    bool done = escapes ? unescape(l, l->at + 1, end, &buf) && wr_jbuf_str(l->run, &buf, &out->value)
                        : wr_jstr_view(l->run, l->source + l->at + 1, end - l->at - 1, &out->value);
    count_lines(l, l->at, end);
    l->at = end + 1;
    return done;
}

static bool lex_operator(wr_jlexer *l, wr_jtoken *out) {
    static const char opening[] = "([{", closing[] = ")]}";
    char c = l->source[l->at];
    for (wr_jtok type = WR_J_T_SEMICOLON; type >= WR_J_T_ADD; type--) {
        const char *text = wr_jtok_name(type);
        /* "**", "//", ">=" and the like before their first character alone. */
        bool longer = (c == '*' || c == '/' || c == '>' || c == '<' || c == '=') && l->at + 1 < l->bytes &&
                      l->source[l->at + 1] == (c == '*' || c == '/' ? c : '=');
        if (!starts(l, l->at, text) || (longer && strlen(text) == 1)) continue;
        out->type = type;
        l->at += strlen(text);
        if (strchr(opening, c)) return wr_jbuf_add(l->run, &l->open, &closing[strchr(opening, c) - opening], 1);
        if (!strchr(closing, c)) return true;
        if (!l->open.n) return WR_JSYNTAX(l->run, l->line, "unexpected '%c'", c);
        char expected = l->open.data[--l->open.n];
        return expected == c || WR_JSYNTAX(l->run, l->line, "unexpected '%c', expected '%c'", c, expected);
    }
    uint32_t cp;
    int n = wr_utf8_get((const uint8_t *)l->source + l->at, &cp);
    return WR_JSYNTAX(l->run, l->line, "unexpected char '%.*s'", n, l->source + l->at);
}

/* The end of the tag at this place, when no bracket is open. */
static bool at_tag_end(wr_jlexer *l, wr_jtoken *out) {
    bool block = l->state == WR_J_IN_BLOCK;
    const char *text = block ? "%}" : "}}";
    char sign = l->source[l->at];
    if (l->open.n) return false;
    if (sign != '-' && !(sign == '+' && block)) sign = 0;
    if (!starts(l, l->at + (sign != 0), text)) return false;
    size_t end = l->at + (sign != 0) + 2;
    out->type = block ? WR_J_T_BLOCK_END : WR_J_T_VARIABLE_END;
    size_t next = block ? after_tag(l, end, sign) : sign == '-' ? skip_space(l, end) : end;
    count_lines(l, l->at, next);
    l->line_starting = l->source[next - 1] == '\n';
    l->at = next;
    l->state = WR_J_IN_DATA;
    return true;
}

bool wr_jlexer_next(wr_jlexer *l, wr_jtoken *out) {
    *out = (wr_jtoken){.type = WR_J_T_EOF, .line = l->line};
    if (!wr_jcharge(l->run, 0)) return false;
    while (l->state == WR_J_IN_DATA) {
        if (l->pending != WR_J_T_EOF) {
            *out = (wr_jtoken){.type = l->pending, .line = l->line};
            l->state = l->pending == WR_J_T_BLOCK_BEGIN ? WR_J_IN_BLOCK : WR_J_IN_VARIABLE;
            l->pending = WR_J_T_EOF;
            l->at = l->pending_end;
            return true;
        }
        if (l->at >= l->bytes) {
            out->line = l->line;
            return true;
        }
        if (!lex_data(l, out)) return false;
        if (out->type == WR_J_T_DATA) return true;
    }
    size_t end = skip_space(l, l->at);
    /* The tag's end is looked for before each token; whitespace is a token too. */
    count_lines(l, l->at, end);
    l->at = end;
    out->line = l->line;
    if (l->at >= l->bytes) return true;
    if (at_tag_end(l, out)) return true;
    char c = l->source[l->at];
    uint32_t cp;
    wr_utf8_get((const uint8_t *)l->source + l->at, &cp);
    if (is_digit(c)) return lex_number(l, out);
    if (c == '"' || c == '\'') return lex_string(l, out);
    return is_name_start(cp) ? lex_name(l, out) : lex_operator(l, out);
}
