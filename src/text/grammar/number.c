/* One state machine reads sign, digits and fraction, and carries a comparison with each bound and a remainder; its
 * reachable states become the automaton. */
#include "text/grammar/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/c_locale.h"
#include "text/grammar/pattern.h"
#include "text/grammar/sets.h"

/* ---- Decimals ----------------------------------------------------------------- */

/* The shortest of printf's forms that reads back as v. */
static void shortest(double v, char out[40]) {
    locale_t before = wr_c_locale_enter();
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, 40, "%.*g", digits, v);
        if (strtod(out, NULL) == v) break;
    }
    wr_c_locale_leave(before);
}

bool wr_decimal_of(const json_t *number, wr_decimal *out) {
    char text[40];
    *out = (wr_decimal){0};
    if (json_is_integer(number))
        snprintf(text, sizeof text, "%lld", (long long)json_integer_value(number));
    else if (json_is_real(number))
        shortest(json_real_value(number), text);
    else
        return false;
    const char *p = text;
    char digits[40];
    int n = 0, point = -1, exponent = 0;
    out->negative = *p == '-';
    if (*p == '-') p++;
    for (; *p && *p != 'e'; p++) {
        if (*p == '.')
            point = n;
        else
            digits[n++] = *p;
    }
    if (*p == 'e') exponent = atoi(p + 1);
    point = (point < 0 ? n : point) + exponent; /* digits before the point */
    if (point > WR_DECIMAL_DIGITS - 40 || point < -(WR_DECIMAL_DIGITS - 40)) return false;
    for (int i = 0; i < point; i++)
        if (out->n_whole || (i < n && digits[i] != '0')) out->whole[out->n_whole++] = i < n ? digits[i] : '0';
    if (!out->n_whole) out->whole[out->n_whole++] = '0';
    for (int i = point; i < n; i++) out->fraction[out->n_fraction++] = i < 0 ? '0' : digits[i];
    while (out->n_fraction && out->fraction[out->n_fraction - 1] == '0') out->n_fraction--;
    if (out->n_whole == 1 && out->whole[0] == '0' && !out->n_fraction) out->negative = false;
    return true;
}

static bool is_zero(const wr_decimal *x) { return x->n_whole == 1 && x->whole[0] == '0' && !x->n_fraction; }

int wr_decimal_compare(const wr_decimal *x, const wr_decimal *y) {
    if (x->negative != y->negative) return x->negative ? -1 : 1;
    int sign = x->negative ? -1 : 1, n = x->n_fraction < y->n_fraction ? x->n_fraction : y->n_fraction;
    if (x->n_whole != y->n_whole) return x->n_whole < y->n_whole ? -sign : sign;
    int order = memcmp(x->whole, y->whole, (size_t)x->n_whole);
    if (!order) order = memcmp(x->fraction, y->fraction, (size_t)n);
    if (!order) order = x->n_fraction - y->n_fraction;
    return order < 0 ? -sign : order > 0 ? sign : 0;
}

/* ---- The machine ---------------------------------------------------------------- */

typedef enum phase { START, MINUS, ZERO, WHOLE, POINT, FRACTION } phase;

/* The size so far against that of a bound: digits read (whole ones, then of the fraction), and the order if decided. */
typedef struct order {
    uint32_t n;
    int32_t sign;
} order;

typedef struct reading {
    uint32_t phase, negative;
    order min, max;
    uint32_t rest, n_fraction; /* modulo the multiple; digits of the fraction, up to those of the multiple's */
} reading;
enum { READING_WORDS = sizeof(reading) / sizeof(uint32_t) };

static void order_whole(order *o, const wr_decimal *bound, char digit) {
    uint32_t length = (uint32_t)bound->n_whole;
    if (o->n > length) return;
    if (o->n < length && !o->sign) o->sign = digit < bound->whole[o->n] ? -1 : digit > bound->whole[o->n];
    if (++o->n > length) o->sign = 1;
}

/* Before the fraction, and before the end. */
static void order_point(order *o, const wr_decimal *bound) {
    if (o->n < (uint32_t)bound->n_whole) o->sign = -1;
    o->n = 0;
}

static void order_fraction(order *o, const wr_decimal *bound, char digit) {
    if (o->sign) return;
    char other = o->n < (uint32_t)bound->n_fraction ? bound->fraction[o->n] : '0';
    o->sign = digit < other ? -1 : digit > other;
    o->n = o->sign || o->n >= (uint32_t)bound->n_fraction ? 0 : o->n + 1;
    if (!o->sign && o->n == 0) o->n = (uint32_t)bound->n_fraction;
}

static int order_at_end(order o, const wr_decimal *bound, bool in_fraction) {
    if (!in_fraction) order_point(&o, bound);
    if (o.sign) return o.sign;
    return o.n < (uint32_t)bound->n_fraction ? -1 : 0;
}

/* size >= |bound| and the like, put together with the signs. */
static bool above(bool negative, int size, const wr_decimal *bound, bool open) {
    if (!negative) return bound->negative || size > 0 || (size == 0 && !open);
    if (!bound->negative) return is_zero(bound) && size == 0 && !open;
    return size < 0 || (size == 0 && !open);
}
static bool below(bool negative, int size, const wr_decimal *bound, bool open) {
    if (negative && bound->negative) return size > 0 || (size == 0 && !open);
    if (negative) return !is_zero(bound) || size > 0 || !open; /* -0 is 0 */
    if (bound->negative) return false;
    return size < 0 || (size == 0 && !open);
}

typedef struct machine {
    const wr_number_spec *spec;
    uint32_t modulus, n_fraction; /* the multiple is modulus / 10^n_fraction */
} machine;

static bool step(const machine *m, reading *r, char c) {
    const wr_number_spec *spec = m->spec;
    bool digit = c >= '0' && c <= '9';
    switch ((phase)r->phase) {
    case START:
        if (c == '-') {
            r->phase = MINUS;
            r->negative = 1;
            return true;
        }
        /* fall through */
    case MINUS:
        if (!digit) return false;
        r->phase = c == '0' ? ZERO : WHOLE;
        break;
    case ZERO:
    case WHOLE:
        if (c == '.' && !spec->integer) {
            r->phase = POINT;
            if (spec->has_min) order_point(&r->min, &spec->min);
            if (spec->has_max) order_point(&r->max, &spec->max);
            return true;
        }
        if (!digit || r->phase == ZERO) return false;
        break;
    case POINT:
    case FRACTION:
        if (!digit) return false;
        r->phase = FRACTION;
        if (spec->has_min) order_fraction(&r->min, &spec->min, c);
        if (spec->has_max) order_fraction(&r->max, &spec->max, c);
        if (!m->modulus) return true;
        if (r->n_fraction == m->n_fraction) return c == '0';
        r->n_fraction++;
        r->rest = (r->rest * 10 + (uint32_t)(c - '0')) % m->modulus;
        return true;
    }
    if (spec->has_min) order_whole(&r->min, &spec->min, c);
    if (spec->has_max) order_whole(&r->max, &spec->max, c);
    if (m->modulus) r->rest = (r->rest * 10 + (uint32_t)(c - '0')) % m->modulus;
    return true;
}

static bool accepts(const machine *m, const reading *r) {
    const wr_number_spec *spec = m->spec;
    bool in_fraction = r->phase == FRACTION;
    if (r->phase != ZERO && r->phase != WHOLE && !in_fraction) return false;
    if (spec->has_min && !above(r->negative, order_at_end(r->min, &spec->min, in_fraction), &spec->min, spec->min_open))
        return false;
    if (spec->has_max && !below(r->negative, order_at_end(r->max, &spec->max, in_fraction), &spec->max, spec->max_open))
        return false;
    uint32_t rest = r->rest;
    for (uint32_t i = r->n_fraction; m->modulus && i < m->n_fraction; i++) rest = rest * 10 % m->modulus;
    return !m->modulus || rest == 0;
}

static bool machine_init(wr_gr_build *b, machine *m, const wr_number_spec *spec) {
    *m = (machine){.spec = spec};
    if (!spec->has_multiple) return true;
    m->n_fraction = (uint32_t)spec->multiple.n_fraction;
    uint64_t modulus = 0;
    for (int i = 0; i < spec->multiple.n_whole && modulus <= WR_MULTIPLE_MAX; i++)
        modulus = modulus * 10 + (uint64_t)(spec->multiple.whole[i] - '0');
    for (int i = 0; i < spec->multiple.n_fraction && modulus <= WR_MULTIPLE_MAX; i++)
        modulus = modulus * 10 + (uint64_t)(spec->multiple.fraction[i] - '0');
    if (modulus > WR_MULTIPLE_MAX)
        return WR_GR_FAIL(b, WEIR_E_UNSUPPORTED, "multipleOf: its digits without the point are above %d",
                          WR_MULTIPLE_MAX);
    m->modulus = (uint32_t)modulus;
    return true;
}

static bool state_of(wr_gr_build *b, const machine *m, wr_sets *known, wr_auto *a, const reading *r, uint32_t *id) {
    uint32_t key[READING_WORDS];
    bool fresh;
    memcpy(key, r, sizeof key);
    if (!wr_sets_number(known, key, READING_WORDS, id, &fresh)) return wr_gr_no_memory(b);
    if (!fresh) return true;
    if (a->n >= 10 * WR_GR_AUTO_STATES_MAX)
        return WR_GR_FAIL(b, WEIR_E_LIMIT, "the bounds of a number need too many states");
    return wr_auto_state_add(b, a, accepts(m, r) ? 0 : -1, id);
}

static const wr_auto *bounded(wr_gr_build *b, const wr_number_spec *spec) {
    static const char alphabet[] = "-.0123456789";
    machine m;
    wr_sets known = {0};
    wr_auto *a = wr_auto_new(b);
    reading r = {0};
    uint32_t id;
    const wr_charset *set[sizeof alphabet - 1];
    for (size_t i = 0; i < sizeof alphabet - 1; i++)
        set[i] = wr_charset_range(b, (uint32_t)alphabet[i], (uint32_t)alphabet[i]);
    bool ok = a && machine_init(b, &m, spec) && state_of(b, &m, &known, a, &r, &id);
    for (uint32_t s = 0; ok && s < a->n; s++) {
        for (size_t i = 0; ok && i < sizeof alphabet - 1; i++) {
            memcpy(&r, known.pool + known.first[s], sizeof r);
            if (!step(&m, &r, alphabet[i])) continue;
            ok = set[i] && state_of(b, &m, &known, a, &r, &id) && wr_auto_arrow_add(b, a, s, set[i], id);
        }
    }
    wr_sets_deinit(&known);
    return ok ? wr_auto_or(b, &(const wr_auto *){a}, 1) : NULL;
}

const wr_auto *wr_number_automaton(wr_gr_build *b, const wr_number_spec *spec) {
    if (spec->has_min || spec->has_max || spec->has_multiple) return bounded(b, spec);
    static const char integer[] = "-?(0|[1-9][0-9]*)", number[] = "-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?";
    const char *text = spec->integer ? integer : number;
    return wr_auto_of(b, wr_pattern_parse(b, text, strlen(text)));
}

wr_expr *wr_number_literal(wr_gr_build *b, const json_t *number, bool integer) {
    char text[WR_DECIMAL_DIGITS];
    double v = json_number_value(number), size = v < 0 ? -v : v;
    wr_decimal d;
    size_t n = 0;
    if ((size != 0 && (size < 1e-5 || size >= 1e16) && json_is_real(number)) || !wr_decimal_of(number, &d)) {
        shortest(v, text);
        return wr_expr_text(b, text, strlen(text));
    }
    if (d.negative) text[n++] = '-';
    memcpy(text + n, d.whole, (size_t)d.n_whole);
    n += (size_t)d.n_whole;
    if (d.n_fraction) {
        text[n++] = '.';
        memcpy(text + n, d.fraction, (size_t)d.n_fraction);
        n += (size_t)d.n_fraction;
    }
    wr_expr *all = wr_expr_new(b, WR_EXPR_CAT), *zero = wr_expr_text(b, "0", 1);
    if (!wr_expr_add(b, all, wr_expr_text(b, text, n))) return NULL;
    if (integer) return all;
    if (d.n_fraction) return wr_expr_add(b, all, wr_expr_repeat(b, zero, 0, WR_EXPR_ENDLESS)) ? all : NULL;
    wr_expr *tail = wr_expr_new(b, WR_EXPR_CAT);
    if (!wr_expr_add(b, tail, wr_expr_text(b, ".", 1)) ||
        !wr_expr_add(b, tail, wr_expr_repeat(b, zero, 1, WR_EXPR_ENDLESS)))
        return NULL;
    return wr_expr_add(b, all, wr_expr_repeat(b, tail, 0, 1)) ? all : NULL;
}
