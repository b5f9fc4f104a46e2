/* Recursive descent over the expression; groups nest at most WR_GR_NESTING_MAX deep. */
#include "text/grammar/pattern.h"

#include <string.h>

#include "text/unicode.h"

typedef struct parser {
    wr_gr_build *b;
    const char *begin, *p, *end;
    int depth;
} parser;

static bool at(const parser *s, const char *text) {
    size_t n = strlen(text);
    return (size_t)(s->end - s->p) >= n && memcmp(s->p, text, n) == 0;
}
static bool eat(parser *s, const char *text) {
    if (!at(s, text)) return false;
    s->p += strlen(text);
    return true;
}
static void *bad(parser *s, const char *what) {
    WR_GR_FAIL(s->b, WEIR_E_FORMAT, "expression \"%.*s\": %s at byte %zu",
               s->end - s->begin > 60 ? 60 : (int)(s->end - s->begin), s->begin, what, (size_t)(s->p - s->begin));
    return NULL;
}
static void *refuse(parser *s, const char *what) {
    WR_GR_FAIL(s->b, WEIR_E_UNSUPPORTED, "expression \"%.*s\": %s (byte %zu) cannot be enforced",
               s->end - s->begin > 60 ? 60 : (int)(s->end - s->begin), s->begin, what, (size_t)(s->p - s->begin));
    return NULL;
}

bool wr_pattern_hex(const char **p, const char *end, int digits, uint32_t *cp) {
    uint32_t value = 0;
    if (end - *p < digits) return false;
    for (int i = 0; i < digits; i++) {
        int d = wr_hex_digit((*p)[i]);
        if (d < 0) return false;
        value = value << 4 | (uint32_t)d;
    }
    *p += digits;
    *cp = value;
    return true;
}

static bool braced_hex(parser *s, uint32_t *cp) {
    *cp = 0;
    const char *first = s->p;
    for (uint32_t d; s->p < s->end && *s->p != '}'; *cp = *cp << 4 | d)
        if (*cp > WR_CHAR_MAX || !wr_pattern_hex(&s->p, s->end, 1, &d)) return false;
    return s->p > first && *cp <= WR_CHAR_MAX && eat(s, "}");
}

/* \p{...}, behind the p. */
static const wr_charset *property(parser *s, bool inverted) {
    const char *close = at(s, "{") ? memchr(s->p, '}', (size_t)(s->end - s->p)) : NULL;
    if (!close) return bad(s, "\\p needs a property in braces");
    const char *name = s->p + 1, *equals = memchr(name, '=', (size_t)(close - name));
    if (equals) {
        size_t n = (size_t)(equals - name);
        bool general = (n == 2 && memcmp(name, "gc", 2) == 0) || (n == 16 && memcmp(name, "General_Category", 16) == 0);
        if (!general) return refuse(s, "a Unicode property other than a general category");
        name = equals + 1;
    }
    const wr_charset *set = wr_charset_category(s->b, name, (size_t)(close - name));
    if (!set) return s->b->status == WEIR_OK ? refuse(s, "a Unicode property other than a general category") : NULL;
    s->p = close + 1;
    return inverted ? wr_charset_not(s->b, set) : set;
}

/* The set that an escape stands for, behind the backslash. */
static const wr_charset *escape(parser *s, bool in_class) {
    wr_gr_build *b = s->b;
    uint32_t cp = 0;
    if (s->p >= s->end) return bad(s, "a backslash at the end");
    char c = *s->p;
    if ((c >= '1' && c <= '9') || (c == 'k' && !in_class)) return refuse(s, "a back reference");
    if ((c == 'b' || c == 'B') && !in_class) return refuse(s, "a word boundary");
    s->p++;
    switch (c) {
    case 'd':
    case 'w':
    case 's': return wr_charset_named(b, c);
    case 'D':
    case 'W':
    case 'S': return wr_charset_not(b, wr_charset_named(b, (char)(c | 32)));
    case 'p': return property(s, false);
    case 'P': return property(s, true);
    case 't': return wr_charset_range(b, '\t', '\t');
    case 'n': return wr_charset_range(b, '\n', '\n');
    case 'r': return wr_charset_range(b, '\r', '\r');
    case 'f': return wr_charset_range(b, '\f', '\f');
    case 'v': return wr_charset_range(b, '\v', '\v');
    case 'b': return wr_charset_range(b, '\b', '\b');
    case '0':
        if (s->p < s->end && *s->p >= '0' && *s->p <= '9') return refuse(s, "an octal escape");
        return wr_charset_range(b, 0, 0);
    case 'x':
        if (!wr_pattern_hex(&s->p, s->end, 2, &cp)) return bad(s, "\\x needs two hex digits");
        return wr_charset_range(b, cp, cp);
    case 'u':
        if (eat(s, "{") ? !braced_hex(s, &cp) : !wr_pattern_hex(&s->p, s->end, 4, &cp))
            return bad(s, "\\u needs four hex digits, or up to six in braces");
        if (cp >= 0xD800 && cp < 0xDC00 && eat(s, "\\u")) {
            uint32_t low;
            if (!wr_pattern_hex(&s->p, s->end, 4, &low) || low < 0xDC00 || low > 0xDFFF)
                return bad(s, "half of a surrogate pair");
            cp = wr_surrogates_join(cp, low);
        }
        return wr_charset_range(b, cp, cp);
    case 'c':
        if (s->p < s->end && ((*s->p | 32) >= 'a' && (*s->p | 32) <= 'z')) {
            cp = (uint32_t)*s->p++ & 31;
            return wr_charset_range(b, cp, cp);
        }
        return bad(s, "\\c needs a letter");
    default: break;
    }
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
        s->p--;
        return refuse(s, "an escape of this letter");
    }
    s->p--;
    s->p += wr_utf8_get((const uint8_t *)s->p, &cp);
    return wr_charset_range(b, cp, cp);
}

static const wr_charset *class_atom(parser *s, uint32_t *single) {
    *single = UINT32_MAX;
    const wr_charset *set;
    if (eat(s, "\\")) {
        set = escape(s, true);
    } else {
        uint32_t cp;
        s->p += wr_utf8_get((const uint8_t *)s->p, &cp);
        set = wr_charset_range(s->b, cp, cp);
        if (set && !set->n) return bad(s, "a surrogate");
    }
    if (set && set->n == 1 && set->at[0].lo == set->at[0].hi) *single = set->at[0].lo;
    return set;
}

/* Behind the opening bracket. */
static wr_expr *parse_class(parser *s) {
    wr_charset set = {0};
    bool inverted = eat(s, "^");
    while (!eat(s, "]")) {
        uint32_t lo, hi;
        if (s->p >= s->end) return bad(s, "an open class");
        const wr_charset *first = class_atom(s, &lo);
        if (!first) return NULL;
        if (at(s, "-") && s->end - s->p > 1 && s->p[1] != ']') {
            s->p++;
            if (!class_atom(s, &hi)) return NULL;
            if (lo == UINT32_MAX || hi == UINT32_MAX || lo > hi) return bad(s, "a range that is none");
            if (!wr_charset_add(s->b, &set, lo, hi)) return NULL;
        } else if (!wr_charset_add_all(s->b, &set, first)) {
            return NULL;
        }
    }
    const wr_charset *done = wr_charset_finish(s->b, &set);
    return wr_expr_class(s->b, inverted ? wr_charset_not(s->b, done) : done);
}

static wr_expr *parse_alternatives(parser *s);

/* Behind the opening parenthesis. */
static wr_expr *parse_group(parser *s) {
    if (eat(s, "?")) {
        if (at(s, "=") || at(s, "!") || at(s, "<=") || at(s, "<!")) return refuse(s, "look-around");
        if (at(s, "<") || eat(s, "P<")) {
            const char *close = memchr(s->p, '>', (size_t)(s->end - s->p));
            if (!close) return bad(s, "a group name without end");
            s->p = close + 1;
        } else if (!eat(s, ":")) {
            return refuse(s, "this kind of group");
        }
    }
    if (++s->depth > WR_GR_NESTING_MAX) {
        WR_GR_FAIL(s->b, WEIR_E_LIMIT, "groups are nested deeper than %d", WR_GR_NESTING_MAX);
        return NULL;
    }
    wr_expr *e = parse_alternatives(s);
    s->depth--;
    if (e && !eat(s, ")")) return bad(s, "an open group");
    return e;
}

static wr_expr *parse_atom(parser *s) {
    uint32_t cp;
    if (eat(s, "(")) return parse_group(s);
    if (eat(s, "[")) return parse_class(s);
    if (eat(s, ".")) return wr_expr_class(s->b, wr_charset_named(s->b, '.'));
    if (eat(s, "\\")) return wr_expr_class(s->b, escape(s, false));
    if (at(s, "*") || at(s, "+") || at(s, "?")) return bad(s, "a repeat without anything to repeat");
    s->p += wr_utf8_get((const uint8_t *)s->p, &cp);
    return wr_expr_class(s->b, wr_charset_range(s->b, cp, cp));
}

static bool number(const char **p, const char *end, uint32_t *out) {
    const char *first = *p;
    uint64_t v = 0;
    for (; *p < end && **p >= '0' && **p <= '9'; (*p)++) v = v > UINT32_MAX ? v : v * 10 + (uint64_t)(**p - '0');
    *out = v > UINT32_MAX - 1 ? UINT32_MAX - 1 : (uint32_t)v;
    return *p > first;
}

/* {n}, {n,} or {n,m}; false, and nothing eaten, for a brace that is an ordinary character. */
static bool counts(parser *s, uint32_t *min, uint32_t *max) {
    const char *p = s->p + 1;
    if (!at(s, "{") || !number(&p, s->end, min)) return false;
    *max = *min;
    if (p < s->end && *p == ',') {
        p++;
        if (!number(&p, s->end, max)) *max = WR_EXPR_ENDLESS;
    }
    if (p >= s->end || *p != '}') return false;
    s->p = p + 1;
    return true;
}

static wr_expr *parse_repeats(parser *s, wr_expr *e) {
    uint32_t min, max;
    if (eat(s, "*"))
        min = 0, max = WR_EXPR_ENDLESS;
    else if (eat(s, "+"))
        min = 1, max = WR_EXPR_ENDLESS;
    else if (eat(s, "?"))
        min = 0, max = 1;
    else if (!counts(s, &min, &max))
        return e;
    eat(s, "?"); /* lazy: the same language */
    if (at(s, "+")) return refuse(s, "a possessive repeat");
    if (at(s, "*") || at(s, "?")) return bad(s, "a repeat of a repeat");
    if (min > max) return bad(s, "a repeat with its bounds reversed");
    if (min > WR_GR_REPEAT_MAX || (max != WR_EXPR_ENDLESS && max > WR_GR_REPEAT_MAX)) {
        WR_GR_FAIL(s->b, WEIR_E_LIMIT, "a repeat of more than %d times", WR_GR_REPEAT_MAX);
        return NULL;
    }
    return wr_expr_repeat(s->b, e, min, max);
}

static wr_expr *parse_sequence(parser *s) {
    wr_expr *all = wr_expr_new(s->b, WR_EXPR_CAT);
    while (all && s->p < s->end && !at(s, "|") && !at(s, ")")) {
        wr_expr *e = eat(s, "^")   ? wr_expr_new(s->b, WR_EXPR_BEGIN)
                     : eat(s, "$") ? wr_expr_new(s->b, WR_EXPR_END)
                                   : parse_atom(s);
        if (e && e->kind != WR_EXPR_BEGIN && e->kind != WR_EXPR_END) e = parse_repeats(s, e);
        if (!wr_expr_add(s->b, all, e)) return NULL;
    }
    return all;
}

static wr_expr *parse_alternatives(parser *s) {
    wr_expr *any = wr_expr_new(s->b, WR_EXPR_ALT);
    do {
        if (!any || !wr_expr_add(s->b, any, parse_sequence(s))) return NULL;
    } while (eat(s, "|"));
    return any->n == 1 ? any->child[0] : any;
}

wr_expr *wr_pattern_parse(wr_gr_build *b, const char *text, size_t bytes) {
    parser s = {b, text, text, text + bytes, 0};
    if (bytes > WR_GR_SOURCE_MAX) {
        WR_GR_FAIL(b, WEIR_E_LIMIT, "an expression of %zu bytes; at most %d are allowed", bytes, WR_GR_SOURCE_MAX);
        return NULL;
    }
    if (wr_utf8_valid((const uint8_t *)text, bytes) != bytes) return bad(&s, "bytes that are no UTF-8");
    wr_expr *e = parse_alternatives(&s);
    if (e && s.p < s.end) return bad(&s, "a closing parenthesis without its opening one");
    return e;
}
