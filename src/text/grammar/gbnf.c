/* Grammars as llama.cpp's GBNF writes them: rules of literals, classes, groups, repeats and names. A rule ends where
 * the next one begins, so it may be spread over lines freely. */
#include "text/grammar/pattern.h"
#include "text/grammar/program.h"

#include <string.h>

#include "text/unicode.h"

enum { RULES_MAX = 100000 };

typedef struct gbnf_rule {
    const char *name;
    size_t length;
    wr_expr *body; /* NULL: not defined so far */
    uint32_t next; /* of the same hash slot, + 1 */
} gbnf_rule;

typedef struct parser {
    wr_gr_build *b;
    const char *begin, *p, *end;
    gbnf_rule *rule;
    size_t n, cap;
    uint32_t slot[1024]; /* by hash of the name, rule + 1 */
    int depth;
} parser;

static void *bad(parser *s, const char *what) {
    size_t line = 1, column = 1;
    for (const char *p = s->begin; p < s->p; p++) {
        if (*p == '\n')
            line++, column = 1;
        else
            column++;
    }
    WR_GR_FAIL(s->b, WEIR_E_FORMAT, "line %zu, column %zu: %s", line, column, what);
    return NULL;
}

static void skip_space(parser *s) {
    for (; s->p < s->end; s->p++) {
        if (*s->p == '#') {
            while (s->p + 1 < s->end && s->p[1] != '\n') s->p++;
        } else if (*s->p != ' ' && *s->p != '\t' && *s->p != '\n' && *s->p != '\r') {
            return;
        }
    }
}

static bool eat(parser *s, const char *text) {
    size_t n = strlen(text);
    if ((size_t)(s->end - s->p) < n || memcmp(s->p, text, n) != 0) return false;
    s->p += n;
    return true;
}

static bool is_name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

static size_t name_length(const parser *s) {
    const char *p = s->p;
    while (p < s->end && is_name_char(*p)) p++;
    return (size_t)(p - s->p);
}

/* At the beginning of "name ::=". */
static bool at_rule(parser *s) {
    const char *p = s->p;
    size_t n = name_length(s);
    s->p += n;
    skip_space(s);
    bool yes = n && s->end - s->p >= 3 && memcmp(s->p, "::=", 3) == 0;
    s->p = p;
    return yes;
}

/* The rule of a name, made when it is new; WR_GR_NONE when the build has failed. */
static uint32_t rule_of(parser *s, const char *name, size_t length) {
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < length; i++) h = (h ^ (uint8_t)name[i]) * 16777619u;
    uint32_t *slot = &s->slot[(h ^ h >> 16) & 1023];
    for (uint32_t i = *slot; i; i = s->rule[i - 1].next)
        if (s->rule[i - 1].length == length && memcmp(s->rule[i - 1].name, name, length) == 0) return i - 1;
    if (s->n >= RULES_MAX) {
        WR_GR_FAIL(s->b, WEIR_E_LIMIT, "more than %d rules", RULES_MAX);
        return WR_GR_NONE;
    }
    if (!wr_gr_more(s->b, &s->rule, &s->cap, s->n + 1, sizeof *s->rule)) return WR_GR_NONE;
    char *copy = wr_gr_alloc(s->b, length + 1, 1);
    if (!copy) return WR_GR_NONE;
    memcpy(copy, name, length);
    s->rule[s->n++] = (gbnf_rule){copy, length, NULL, *slot};
    return *slot = (uint32_t)s->n, (uint32_t)s->n - 1;
}

/* One character of a literal or a class. */
static bool character(parser *s, uint32_t *cp) {
    if (!eat(s, "\\")) {
        s->p += wr_utf8_get((const uint8_t *)s->p, cp);
        return true;
    }
    static const char letters[] = "nrt\\\"[]'-^/", values[] = "\n\r\t\\\"[]'-^/";
    if (s->p >= s->end) return bad(s, "a backslash at the end"), false;
    char c = *s->p++;
    const char *found = c ? strchr(letters, c) : NULL;
    if (found) {
        *cp = (uint32_t)values[found - letters];
        return true;
    }
    int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
    if (!digits || !wr_pattern_hex(&s->p, s->end, digits, cp) || *cp > WR_CHAR_MAX) {
        s->p--;
        return bad(s, "an unknown escape; there are \\n \\r \\t \\\\ \\\" \\[ \\] \\- \\^ \\xHH \\uHHHH \\UHHHHHHHH"),
               false;
    }
    return true;
}

static wr_expr *parse_literal(parser *s) {
    wr_expr *all = wr_expr_new(s->b, WR_EXPR_CAT);
    while (all && !eat(s, "\"")) {
        uint32_t cp;
        if (s->p >= s->end) return bad(s, "a literal without end");
        if (!character(s, &cp) || !wr_expr_add(s->b, all, wr_expr_class(s->b, wr_charset_range(s->b, cp, cp))))
            return NULL;
    }
    return all;
}

static wr_expr *parse_class(parser *s) {
    wr_charset set = {0};
    bool inverted = eat(s, "^");
    while (!eat(s, "]")) {
        uint32_t lo, hi;
        if (s->p >= s->end) return bad(s, "a class without end");
        if (!character(s, &lo)) return NULL;
        hi = lo;
        if (s->end - s->p > 1 && *s->p == '-' && s->p[1] != ']') {
            s->p++;
            if (!character(s, &hi)) return NULL;
            if (lo > hi) return bad(s, "a range with its ends reversed");
        }
        if (!wr_charset_add(s->b, &set, lo, hi)) return NULL;
    }
    const wr_charset *done = wr_charset_finish(s->b, &set);
    return wr_expr_class(s->b, inverted ? wr_charset_not(s->b, done) : done);
}

static wr_expr *parse_alternatives(parser *s);

/* NULL without a failure where no element begins. */
static wr_expr *parse_element(parser *s) {
    if (eat(s, "\"")) return parse_literal(s);
    if (eat(s, "[")) return parse_class(s);
    if (eat(s, ".")) return wr_expr_class(s->b, wr_charset_any(s->b));
    if (eat(s, "(")) {
        if (++s->depth > WR_GR_NESTING_MAX) {
            WR_GR_FAIL(s->b, WEIR_E_LIMIT, "groups are nested deeper than %d", WR_GR_NESTING_MAX);
            return NULL;
        }
        wr_expr *e = parse_alternatives(s);
        s->depth--;
        if (e && !eat(s, ")")) return bad(s, "expected a closing parenthesis");
        return e;
    }
    size_t n = name_length(s);
    if (!n || at_rule(s)) return NULL;
    uint32_t rule = rule_of(s, s->p, n);
    s->p += n;
    return rule == WR_GR_NONE ? NULL : wr_expr_call(s->b, rule);
}

static bool number(parser *s, uint32_t *out) {
    const char *first = s->p;
    uint64_t v = 0;
    for (; s->p < s->end && *s->p >= '0' && *s->p <= '9'; s->p++)
        v = v > WR_GR_REPEAT_MAX ? v : v * 10 + (uint64_t)(*s->p - '0');
    *out = (uint32_t)v;
    return s->p > first;
}

static wr_expr *parse_repeats(parser *s, wr_expr *e) {
    for (int n = 0; e; n++) {
        uint32_t min = 0, max = WR_EXPR_ENDLESS;
        skip_space(s);
        if (eat(s, "*")) {
        } else if (eat(s, "+")) {
            min = 1;
        } else if (eat(s, "?")) {
            max = 1;
        } else if (eat(s, "{")) {
            skip_space(s);
            if (!number(s, &min)) return bad(s, "expected a number");
            max = min;
            skip_space(s);
            if (eat(s, ",")) {
                skip_space(s);
                if (!number(s, &max)) max = WR_EXPR_ENDLESS;
                skip_space(s);
            }
            if (!eat(s, "}")) return bad(s, "expected a closing brace");
            if (min > max) return bad(s, "a repeat with its bounds reversed");
        } else {
            return e;
        }
        if (n == WR_GR_NESTING_MAX || min > WR_GR_REPEAT_MAX || (max != WR_EXPR_ENDLESS && max > WR_GR_REPEAT_MAX)) {
            WR_GR_FAIL(s->b, WEIR_E_LIMIT, "a repeat of more than %d times", WR_GR_REPEAT_MAX);
            return NULL;
        }
        e = wr_expr_repeat(s->b, e, min, max);
    }
    return e;
}

static wr_expr *parse_alternatives(parser *s) {
    wr_expr *any = wr_expr_new(s->b, WR_EXPR_ALT);
    do {
        wr_expr *all = wr_expr_new(s->b, WR_EXPR_CAT), *e;
        for (;;) {
            skip_space(s);
            e = parse_element(s);
            if (!e) break;
            if (!wr_expr_add(s->b, all, parse_repeats(s, e))) return NULL;
        }
        if (s->b->status != WEIR_OK || !wr_expr_add(s->b, any, all)) return NULL;
        skip_space(s);
    } while (eat(s, "|"));
    return any;
}

static bool parse_rules(parser *s) {
    if ((size_t)(s->end - s->begin) > WR_GR_SOURCE_MAX)
        return WR_GR_FAIL(s->b, WEIR_E_LIMIT, "a grammar of more than %d bytes", WR_GR_SOURCE_MAX);
    size_t valid = wr_utf8_valid((const uint8_t *)s->begin, (size_t)(s->end - s->begin));
    if (s->begin + valid < s->end) {
        s->p = s->begin + valid;
        return bad(s, "bytes that are no UTF-8") != NULL;
    }
    for (skip_space(s); s->p < s->end; skip_space(s)) {
        if (!at_rule(s)) return bad(s, "expected a rule, as in: root ::= \"yes\" | \"no\"") != NULL;
        size_t n = name_length(s);
        uint32_t r = rule_of(s, s->p, n);
        if (r == WR_GR_NONE) return false;
        if (s->rule[r].body) return bad(s, "this rule is defined twice") != NULL;
        s->p += n;
        skip_space(s);
        eat(s, "::=");
        wr_expr *body = parse_alternatives(s);
        if (!body) return false;
        s->rule[r].body = body;
    }
    return true;
}

static bool emit_rules(wr_gr_emit *e, parser *s) {
    uint32_t root = rule_of(s, "root", 4), id, end;
    if (root == WR_GR_NONE) return false;
    for (size_t i = 0; i < s->n; i++) {
        if (!s->rule[i].body) return WR_GR_FAIL(s->b, WEIR_E_FORMAT, "rule \"%.60s\" is not defined", s->rule[i].name);
        if (!wr_gr_rule_add(e, WR_GR_PLAIN, s->rule[i].name, &id)) return false;
    }
    for (size_t i = 0; i < s->n; i++) {
        uint32_t start;
        if (!wr_gr_state_add(e, -1, &start) || !wr_gr_state_add(e, 0, &end)) return false;
        e->p->rule[i].start = start;
        if (!wr_gr_lay(e, s->rule[i].body, WR_GR_UTF8, start, end)) return false;
    }
    e->p->root = root;
    return wr_gr_finish(e);
}

weir_status weir_grammar_from_gbnf(const char *text, size_t bytes, weir_grammar **out, weir_error *err) {
    wr_gr_build b;
    *out = NULL;
    wr_gr_build_init(&b, err);
    b.where = "grammar";
    wr_gr_emit e = {.b = &b, .p = wr_gr_program_new(&b)};
    parser *s = wr_gr_alloc(&b, 1, sizeof *s);
    if (s && e.p) {
        s->b = &b;
        s->begin = s->p = text;
        s->end = text + bytes;
        if (parse_rules(s) && emit_rules(&e, s)) *out = e.p;
    }
    if (!*out) weir_grammar_release(e.p);
    wr_gr_build_deinit(&b);
    return b.status;
}
