/* Owns the reading of JSON (RFC 8259) without a tree. */
#include "text/json_lists.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/c_locale.h"
#include "text/unicode.h"
#include "text/work.h"

/* ---- Finding ---------------------------------------------------------------- */

#define BAD SIZE_MAX

static size_t skip_space(const char *t, size_t at, size_t end) {
    while (at < end && (t[at] == ' ' || t[at] == '\n' || t[at] == '\r' || t[at] == '\t')) at++;
    return at;
}

/* Behind the string that begins at `at`. */
static size_t skip_string(const char *t, size_t at, size_t end) {
    for (at++; at < end; at++) {
        if (t[at] == '"') return at + 1;
        if (t[at] == '\\') at++;
    }
    return BAD;
}

/* Behind the value at `at`; *n: members of the outermost list or object. */
static size_t skip_value(const char *t, size_t at, size_t end, size_t *n) {
    size_t depth = 0, commas = 0;
    bool any = false;
    *n = 0;
    while (at < end) {
        switch (t[at]) {
        case '"':
            at = skip_string(t, at, end);
            if (at == BAD || depth == 0) return at;
            any = true;
            continue;
        case '[':
        case '{':
            if (depth == 1) any = true;
            depth++;
            break;
        case ']':
        case '}':
            if (depth == 0) return at; /* of the object round this value */
            if (--depth == 0) {
                *n = any ? commas + 1 : 0;
                return at + 1;
            }
            break;
        case ',':
            if (depth == 0) return at;
            if (depth == 1) commas++;
            break;
        case ' ':
        case '\n':
        case '\r':
        case '\t':
            if (depth == 0) return at;
            break;
        default: any = true;
        }
        at++;
    }
    return depth ? BAD : at;
}

static bool same(const char *t, size_t begin, size_t end, const char *name) {
    size_t n = strlen(name);
    return end - begin == n + 2 && memcmp(t + begin + 1, name, n) == 0;
}

/* Call for the object at `at`: the values of keys[i] become spans[i]. */
static bool find_in(const char *t, size_t at, size_t end, const char *const *keys, size_t n, wr_json_span *spans) {
    at = skip_space(t, at, end);
    if (at >= end || t[at] != '{') return false;
    at = skip_space(t, at + 1, end);
    if (at < end && t[at] == '}') return true;
    while (at < end && t[at] == '"') {
        size_t key = at, members;
        at = skip_string(t, at, end);
        if (at == BAD) return false;
        size_t key_end = at;
        at = skip_space(t, at, end);
        if (at >= end || t[at] != ':') return false;
        at = skip_space(t, at + 1, end);
        size_t value = at;
        at = skip_value(t, at, end, &members);
        if (at == BAD) return false;
        for (size_t i = 0; i < n; i++) {
            if (!same(t, key, key_end, keys[i])) continue;
            if (spans[i].end) return false; /* twice: left to jansson, which refuses it */
            spans[i] = (wr_json_span){value, at, members};
        }
        at = skip_space(t, at, end);
        if (at < end && t[at] == '}') return true;
        if (at >= end || t[at] != ',') return false;
        at = skip_space(t, at + 1, end);
    }
    return false;
}

weir_status wr_json_cut(const char *text, size_t bytes, const char *parent, const char *const *keys, size_t n,
                        wr_json_span *spans, char **rest, size_t *rest_bytes, weir_error *err) {
    memset(spans, 0, n * sizeof *spans);
    wr_json_span outer = {0, bytes, 0};
    bool found = true;
    if (parent) {
        outer = (wr_json_span){0};
        found = find_in(text, 0, bytes, &parent, 1, &outer) && outer.end;
    }
    found = found && find_in(text, outer.begin, outer.end, keys, n, spans);
    if (!found) memset(spans, 0, n * sizeof *spans);
    *rest = wr_malloc(bytes + 4 * n + 1);
    if (!*rest) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for %zu bytes of JSON", bytes);
    char *out = *rest;
    for (size_t at = 0; at < bytes;) {
        const wr_json_span *next = NULL; /* the first span from here */
        for (size_t i = 0; i < n; i++) {
            if (spans[i].end > at && (!next || spans[i].begin < next->begin)) next = &spans[i];
        }
        size_t stop = next ? next->begin : bytes;
        memcpy(out, text + at, stop - at);
        out += stop - at;
        at = stop;
        if (!next) break;
        memcpy(out, "null", 4);
        out += 4;
        for (; at < next->end; at++) {
            if (text[at] == '\n') *out++ = '\n';
        }
    }
    *out = 0;
    *rest_bytes = (size_t)(out - *rest);
    return WEIR_OK;
}

/* ---- Reading ---------------------------------------------------------------- */

static weir_status wrong(const wr_json_reader *r, const char *wanted, weir_error *err) {
    return WR_FAIL(err, WEIR_E_FORMAT, "%s: %s expected at byte %zu", r->where, wanted, r->at);
}

weir_status wr_json_reader_init(wr_json_reader *r, const char *text, wr_json_span span, const char *where,
                                weir_error *err) {
    *r = (wr_json_reader){.text = text, .where = where, .at = span.begin, .end = span.end};
    size_t good = wr_utf8_valid((const uint8_t *)text + span.begin, span.end - span.begin);
    if (good == span.end - span.begin) return WEIR_OK;
    return WR_FAIL(err, WEIR_E_FORMAT, "%s: byte %zu is not UTF-8", where, span.begin + good);
}

void wr_json_reader_deinit(wr_json_reader *r) {
    wr_free(r->unescaped);
    *r = (wr_json_reader){0};
}

char wr_json_peek(wr_json_reader *r) {
    r->at = skip_space(r->text, r->at, r->end);
    return r->at < r->end ? r->text[r->at] : 0;
}

weir_status wr_json_enter(wr_json_reader *r, char open, weir_error *err) {
    if (wr_json_peek(r) != open) return wrong(r, open == '[' ? "a list" : "an object", err);
    r->at++;
    r->first = true;
    return WEIR_OK;
}

weir_status wr_json_more(wr_json_reader *r, char close, bool *more, weir_error *err) {
    char c = wr_json_peek(r);
    *more = c != close;
    if (!*more) {
        r->at++;
    } else if (!r->first) {
        if (c != ',') return wrong(r, "a comma or the end of the list", err);
        r->at++;
        if (wr_json_peek(r) == close) return wrong(r, "a value", err);
    }
    r->first = false;
    return WEIR_OK;
}

/* The four digits of \uXXXX at p; -1 when they are none. */
static int32_t code_unit(const char *p, const char *end) {
    int32_t unit = 0;
    if (end - p < 4) return -1;
    for (int i = 0; i < 4; i++) {
        int d = wr_hex_digit(p[i]);
        if (d < 0) return -1;
        unit = unit * 16 + d;
    }
    return unit;
}

/* The escape at p (behind the backslash) as bytes in out; returns where it ends, or NULL. */
static const char *unescape(const char *p, const char *end, uint8_t out[4], size_t *n) {
    static const char plain[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const char *hit = p < end && *p ? strchr(plain, *p) : NULL;
    if (hit) {
        out[0] = (uint8_t)meant[hit - plain];
        *n = 1;
        return p + 1;
    }
    if (p >= end || *p != 'u') return NULL;
    int32_t unit = code_unit(p + 1, end);
    p += 5;
    if (unit < 0 || (unit >= 0xDC00 && unit <= 0xDFFF)) return NULL;
    if (unit >= 0xD800 && unit < 0xDC00) { /* the first of a pair */
        if (end - p < 6 || p[0] != '\\' || p[1] != 'u') return NULL;
        int32_t low = code_unit(p + 2, end);
        if (low < 0xDC00 || low > 0xDFFF) return NULL;
        unit = (int32_t)wr_surrogates_join((uint32_t)unit, (uint32_t)low);
        p += 6;
    }
    *n = (size_t)wr_utf8_put((uint32_t)unit, out);
    return p;
}

weir_status wr_json_string(wr_json_reader *r, const char **s, size_t *n, weir_error *err) {
    if (wr_json_peek(r) != '"') return wrong(r, "a string", err);
    const char *begin = r->text + r->at + 1, *end = r->text + r->end, *p = begin;
    while (p < end && *p != '"' && *p != '\\' && (uint8_t)*p >= 0x20) p++;
    size_t m = (size_t)(p - begin);
    *s = begin;
    if (p < end && *p == '\\') { /* the rare case: a copy */
        for (;;) {
            uint8_t utf8[4];
            size_t k = 1;
            if (!wr_grow(&r->unescaped, &r->cap, m + 4, 1)) {
                return WR_FAIL(err, WEIR_E_MEMORY, "%s: no memory for a string", r->where);
            }
            if (*s == begin) memcpy(r->unescaped, begin, m);
            *s = r->unescaped;
            if (p >= end || *p == '"' || (uint8_t)*p < 0x20) break;
            if (*p == '\\') {
                p = unescape(p + 1, end, utf8, &k);
                if (!p) return wrong(r, "a string with valid escapes", err);
            } else {
                utf8[0] = (uint8_t)*p++;
            }
            memcpy(r->unescaped + m, utf8, k);
            m += k;
        }
    }
    if (p >= end || *p != '"') return wrong(r, "a string that ends", err);
    *n = m;
    r->at = (size_t)(p + 1 - r->text);
    return WEIR_OK;
}

weir_status wr_json_key(wr_json_reader *r, const char **s, size_t *n, weir_error *err) {
    WR_TRY(wr_json_string(r, s, n, err));
    if (wr_json_peek(r) != ':') return wrong(r, "a colon", err);
    r->at++;
    return WEIR_OK;
}

/* Length of the JSON number at p; 0 if there is none. *whole: it is an integer. */
static size_t number_length(const char *p, const char *end, bool *whole) {
    const char *q = p;
    if (q < end && *q == '-') q++;
    const char *digits = q;
    while (q < end && *q >= '0' && *q <= '9') q++;
    if (q == digits || (q - digits > 1 && *digits == '0')) return 0;
    *whole = true;
    if (q < end && *q == '.') {
        const char *fraction = ++q;
        while (q < end && *q >= '0' && *q <= '9') q++;
        if (q == fraction) return 0;
        *whole = false;
    }
    if (q < end && (*q == 'e' || *q == 'E')) {
        q++;
        if (q < end && (*q == '+' || *q == '-')) q++;
        const char *exponent = q;
        while (q < end && *q >= '0' && *q <= '9') q++;
        if (q == exponent) return 0;
        *whole = false;
    }
    return (size_t)(q - p);
}

weir_status wr_json_int(wr_json_reader *r, int64_t *value, weir_error *err) {
    bool whole = false;
    wr_json_peek(r);
    const char *p = r->text + r->at;
    size_t n = number_length(p, r->text + r->end, &whole);
    uint64_t sum = 0;
    if (!n || !whole || n > 19) return wrong(r, "an integer", err);
    for (size_t i = *p == '-'; i < n; i++) sum = sum * 10 + (uint64_t)(p[i] - '0');
    *value = *p == '-' ? -(int64_t)sum : (int64_t)sum;
    r->at += n;
    return WEIR_OK;
}

weir_status wr_json_number(wr_json_reader *r, double *value, weir_error *err) {
    char copy[128];
    bool whole;
    wr_json_peek(r);
    const char *p = r->text + r->at;
    size_t n = number_length(p, r->text + r->end, &whole);
    if (!n || n >= sizeof copy) return wrong(r, "a number", err);
    memcpy(copy, p, n);
    copy[n] = 0;
    /* strtod obeys the program's locale, JSON does not. */
    if (!wr_c_locale()) return WR_FAIL(err, WEIR_E_MEMORY, "%s: no memory to read numbers", r->where);
    *value = strtod_l(copy, NULL, wr_c_locale());
    if (!isfinite(*value)) return wrong(r, "a number within the range of double precision", err);
    r->at += n;
    return WEIR_OK;
}

weir_status wr_json_skip(wr_json_reader *r, weir_error *err) {
    size_t n, at;
    if (!wr_json_peek(r)) return wrong(r, "a value", err);
    at = skip_value(r->text, r->at, r->end, &n);
    if (at == BAD || at == r->at) return wrong(r, "a value", err);
    r->at = at;
    return WEIR_OK;
}

weir_status wr_json_end(wr_json_reader *r, weir_error *err) {
    return wr_json_peek(r) ? wrong(r, "nothing more", err) : WEIR_OK;
}
