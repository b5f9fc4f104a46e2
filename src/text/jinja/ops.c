/* Arithmetic and comparison. Integers have 64 bits: what would be longer in Python is
 * refused, never wrapped. */
#include "text/jinja/ops.h"

#include <math.h>
#include <string.h>

#include "text/jinja/format.h"
#include "text/jinja/show.h"
#include "text/unicode.h"

static const char *const signs[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

bool wr_jint_too_large(wr_jrun *run) {
    return wr_jfail(run, WEIR_E_LIMIT, "an integer is beyond 64 bits, which is not supported");
}

static bool unsupported(wr_jrun *run, wr_jop op, wr_jval a, wr_jval b) {
    return WR_JERROR(run, "unsupported operand type(s) for %s: '%s' and '%s'", signs[op], wr_jtype_name(a),
                     wr_jtype_name(b));
}

bool wr_jfloat_to_int(wr_jrun *run, double x, int64_t *out) {
    if (isnan(x)) return WR_JERROR(run, "cannot convert float NaN to integer");
    if (isinf(x)) return WR_JERROR(run, "cannot convert float infinity to integer");
    if (x >= 0x1p63 || x < -0x1p63) return wr_jint_too_large(run);
    *out = (int64_t)x;
    return true;
}

/* ---- integers ---- */

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
static int64_t floor_mod(int64_t a, int64_t b) {
    int64_t r = a % b;
    return r && (r < 0) != (b < 0) ? r + b : r;
}

static bool int_pow(wr_jrun *run, int64_t base, int64_t exponent, wr_jval *out) {
    int64_t result = 1;
    for (bool more = exponent > 0; more;) {
        if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) return wr_jint_too_large(run);
        exponent >>= 1;
        more = exponent > 0;
        if (more && __builtin_mul_overflow(base, base, &base)) return wr_jint_too_large(run);
    }
    *out = wr_jint(result);
    return true;
}

static bool int_binary(wr_jrun *run, wr_jop op, int64_t a, int64_t b, wr_jval *out) {
    int64_t r = 0;
    switch (op) {
    case WR_J_ADD:
        if (__builtin_add_overflow(a, b, &r)) return wr_jint_too_large(run);
        break;
    case WR_J_SUB:
        if (__builtin_sub_overflow(a, b, &r)) return wr_jint_too_large(run);
        break;
    case WR_J_MUL:
        if (__builtin_mul_overflow(a, b, &r)) return wr_jint_too_large(run);
        break;
    case WR_J_DIV:
        if (b == 0) return WR_JERROR(run, "division by zero");
        /* Correctly rounded where the operands are exact; beyond 2^53 long double is. */
        *out = wr_jfloat((double)((long double)a / (long double)b));
        return true;
    default: /* FLOORDIV, MOD */
        if (b == 0) return WR_JERROR(run, "integer division or modulo by zero");
        if (a == INT64_MIN && b == -1) {
            if (op == WR_J_FLOORDIV) return wr_jint_too_large(run);
            break; /* r = 0 */
        }
        r = op == WR_J_FLOORDIV ? floor_div(a, b) : floor_mod(a, b);
        break;
    }
    *out = wr_jint(r);
    return true;
}

/* ---- floats ---- */

static double float_mod(double a, double b) {
    double r = fmod(a, b);
    if (r == 0) return copysign(0.0, b);
    return (r < 0) != (b < 0) ? r + b : r;
}

/* As CPython: from the remainder, so that it agrees with %. */
static double float_floordiv(double a, double b) {
    double r = fmod(a, b), q = (a - r) / b;
    if (r != 0 && (r < 0) != (b < 0)) q -= 1;
    if (q == 0) return copysign(0.0, a / b);
    double whole = floor(q);
    return q - whole > 0.5 ? whole + 1 : whole;
}

static bool float_pow(wr_jrun *run, double a, double b, wr_jval *out) {
    if (a == 0 && b < 0) return WR_JERROR(run, "0.0 cannot be raised to a negative power");
    if (a < 0 && b != floor(b) && isfinite(a) && isfinite(b))
        return wr_jfail(run, WEIR_E_UNSUPPORTED, "a complex number, which is not supported");
    double r = pow(a, b);
    if (isinf(r) && isfinite(a) && isfinite(b)) return WR_JERROR(run, "(34, 'Numerical result out of range')");
    *out = wr_jfloat(r);
    return true;
}

static bool float_binary(wr_jrun *run, wr_jop op, double a, double b, wr_jval *out) {
    switch (op) {
    case WR_J_ADD: *out = wr_jfloat(a + b); return true;
    case WR_J_SUB: *out = wr_jfloat(a - b); return true;
    case WR_J_MUL: *out = wr_jfloat(a * b); return true;
    case WR_J_POW: return float_pow(run, a, b, out);
    default: break;
    }
    if (b == 0) return WR_JERROR(run, op == WR_J_DIV ? "float division by zero" : "float floor division by zero");
    *out = wr_jfloat(op == WR_J_DIV ? a / b : op == WR_J_MOD ? float_mod(a, b) : float_floordiv(a, b));
    return true;
}

/* ---- texts and lists ---- */

/* a + b. The end of the text heap is where a text that grows lies: then only b is copied. */
static bool concat(wr_jrun *run, const wr_jstr *a, const wr_jstr *b, wr_jval *out) {
    wr_jbuf buf = {0};
    if (a->bytes + b->bytes > run->output_bytes)
        return wr_jfail(run, WEIR_E_LIMIT, "the output limit of %zu bytes is reached", run->output_bytes);
    if (wr_jtext_extend(run, a->data, a->bytes, b->bytes)) {
        char *end = (char *)a->data + a->bytes; /* text memory, which is ours to write behind a */
        if (b->bytes) memcpy(end, b->data, b->bytes);
        return wr_jcharge(run, b->bytes) && wr_jstr_view(run, a->data, a->bytes + b->bytes, out);
    }
    return wr_jbuf_add(run, &buf, a->data, a->bytes) && wr_jbuf_add(run, &buf, b->data, b->bytes) &&
           wr_jbuf_str(run, &buf, out);
}

static bool add_texts(wr_jrun *run, wr_jval a, wr_jval b, wr_jval *out) {
    bool markup = a.s->markup || b.s->markup;
    wr_jval *plain = a.s->markup == b.s->markup ? NULL : a.s->markup ? &b : &a;
    wr_jbuf escaped = {0};
    if (plain && (!wr_jescape(run, plain->s, &escaped) || !wr_jbuf_str(run, &escaped, plain))) return false;
    if (!concat(run, a.s, b.s, out)) return false;
    out->s->markup = markup;
    return true;
}

static bool add_lists(wr_jrun *run, wr_jval a, wr_jval b, wr_jval *out) {
    size_t n = a.list->n, m = b.list->n;
    if (!wr_jlist_new(run, a.type, n + m, out)) return false;
    if (n) memcpy(out->list->items, a.list->items, n * sizeof *a.list->items);
    if (m) memcpy(out->list->items + n, b.list->items, m * sizeof *b.list->items);
    return true;
}

static bool repeat(wr_jrun *run, wr_jval v, int64_t times, wr_jval *out) {
    size_t n = times > 0 ? (size_t)times : 0, all;
    wr_jbuf buf = {0};
    if (v.type == WR_J_STR) {
        if (!wr_jbuf_fill(run, &buf, v.s->data, v.s->bytes, n) || !wr_jbuf_str(run, &buf, out)) return false;
        out->s->markup = v.s->markup;
        return true;
    }
    if (!wr_mul_size(n, v.list->n, &all)) all = SIZE_MAX;
    if (!wr_jlist_new(run, v.type, all, out)) return false;
    for (size_t i = 0; i < n && v.list->n; i++)
        memcpy(out->list->items + i * v.list->n, v.list->items, v.list->n * sizeof *v.list->items);
    return true;
}

bool wr_jbinary(wr_jrun *run, wr_jop op, wr_jval a, wr_jval b, wr_jval *out) {
    if (op == WR_J_MOD && a.type == WR_J_STR) return wr_jformat_percent(run, a, b, out);
    if (a.type == WR_J_UNDEFINED) return wr_jundefined_fail(run, a);
    if (b.type == WR_J_UNDEFINED) return wr_jundefined_fail(run, b);
    if (wr_jis_number(a) && wr_jis_number(b)) {
        if (wr_jis_int(a) && wr_jis_int(b)) {
            int64_t x = wr_jint_of(a), y = wr_jint_of(b);
            if (op != WR_J_POW) return int_binary(run, op, x, y, out);
            if (y >= 0) return int_pow(run, x, y, out);
        }
        return float_binary(run, op, wr_jfloat_of(a), wr_jfloat_of(b), out);
    }
    if (op == WR_J_ADD) {
        if (wr_jis_str(a) && wr_jis_str(b)) return add_texts(run, a, b, out);
        if (wr_jis_seq(a) && a.type == b.type) return add_lists(run, a, b, out);
        if (wr_jis_str(a)) return WR_JERROR(run, "can only concatenate str (not \"%s\") to str", wr_jtype_name(b));
        if (wr_jis_seq(a))
            return WR_JERROR(run, "can only concatenate %s (not \"%s\") to %s", wr_jtype_name(a), wr_jtype_name(b),
                             wr_jtype_name(a));
    }
    if (op == WR_J_MUL) {
        if ((wr_jis_str(a) || wr_jis_seq(a)) && wr_jis_int(b)) return repeat(run, a, wr_jint_of(b), out);
        if ((wr_jis_str(b) || wr_jis_seq(b)) && wr_jis_int(a)) return repeat(run, b, wr_jint_of(a), out);
    }
    return unsupported(run, op, a, b);
}

bool wr_jnegate(wr_jrun *run, wr_jval v, bool minus, wr_jval *out) {
    if (v.type == WR_J_UNDEFINED) return wr_jundefined_fail(run, v);
    if (v.type == WR_J_FLOAT) {
        *out = wr_jfloat(minus ? -v.f : v.f);
        return true;
    }
    if (!wr_jis_int(v))
        return WR_JERROR(run, "bad operand type for unary %c: '%s'", minus ? '-' : '+', wr_jtype_name(v));
    int64_t i = wr_jint_of(v);
    if (minus && i == INT64_MIN) return wr_jint_too_large(run);
    *out = wr_jint(minus ? -i : i);
    return true;
}

bool wr_jrelation(wr_jrun *run, wr_jop op, wr_jval a, wr_jval b, bool *out) {
    static const char compare[] = {[WR_J_LT] = '<', [WR_J_LE] = 'l', [WR_J_GT] = '>', [WR_J_GE] = 'g'};
    switch (op) {
    case WR_J_EQ: return wr_jequal(run, a, b, out);
    case WR_J_NE:
        if (!wr_jequal(run, a, b, out)) return false;
        *out = !*out;
        return true;
    case WR_J_IN: return wr_jcontains(run, b, a, out);
    case WR_J_NOT_IN:
        if (!wr_jcontains(run, b, a, out)) return false;
        *out = !*out;
        return true;
    default: return wr_jcompare(run, a, b, compare[op], out);
    }
}

/* ---- slices ---- */

int64_t wr_jslice_bounds(int64_t n, const int64_t *start, const int64_t *stop, int64_t step, int64_t *first,
                         int64_t *end) {
    int64_t low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;
    int64_t from = start ? *start : step < 0 ? high : low, to = stop ? *stop : step < 0 ? low : high;
    if (start) {
        if (from < 0) from += n;
        from = from < low ? low : from > high ? high : from;
    }
    if (stop) {
        if (to < 0) to += n;
        to = to < low ? low : to > high ? high : to;
    }
    *first = from;
    *end = to;
    if (step < 0) return to < from ? (from - to - 1) / -step + 1 : 0;
    return from < to ? (to - from - 1) / step + 1 : 0;
}

static bool slice_range(wr_jrun *run, const wr_jrange *r, int64_t first, int64_t end, int64_t step, int64_t count,
                        wr_jval *out) {
    wr_jrange *part = wr_jalloc(run, sizeof *part);
    if (!part) return false;
    part->n = count;
    if (__builtin_mul_overflow(r->step, step, &part->step) || __builtin_mul_overflow(first, r->step, &part->start) ||
        __builtin_add_overflow(r->start, part->start, &part->start) ||
        __builtin_mul_overflow(end, r->step, &part->stop) || __builtin_add_overflow(r->start, part->stop, &part->stop))
        return wr_jint_too_large(run);
    *out = (wr_jval){.type = WR_J_RANGE, .range = part};
    return true;
}

static bool slice_text(wr_jrun *run, wr_jstr *s, int64_t first, int64_t step, int64_t count, wr_jval *out) {
    wr_jbuf buf = {0};
    if (count == 0) first = 0, step = 1;
    if (step == 1) return wr_jstr_sub(run, s, (size_t)first, (size_t)(first + count), out);
    size_t at = wr_jstr_byte(s, (size_t)first);
    bool ascii = wr_jstr_ascii(s);
    const uint8_t *p = (const uint8_t *)s->data;
    uint32_t cp;
    for (int64_t i = 0; i < count; i++) {
        if (!wr_jbuf_add(run, &buf, s->data + at, (size_t)wr_utf8_get(p + at, &cp))) return false;
        if (i + 1 == count) break;
        if (ascii) {
            at = (size_t)((int64_t)at + step);
            continue;
        }
        for (int64_t k = step; k > 0; k--) at += (size_t)wr_utf8_get(p + at, &cp);
        for (int64_t k = step; k < 0; k++) at = wr_utf8_back(p, at);
    }
    if (!wr_jbuf_str(run, &buf, out)) return false;
    out->s->markup = s->markup;
    return true;
}

bool wr_jslice(wr_jrun *run, wr_jval obj, const wr_jval at[3], wr_jval *out) {
    int64_t bounds[3] = {0}, n = 0, first, end;
    const int64_t *given[3] = {NULL};
    if (obj.type == WR_J_UNDEFINED) return wr_jundefined_fail(run, obj);
    if (!wr_jis_str(obj) && !wr_jis_seq(obj) && obj.type != WR_J_RANGE)
        return obj.type == WR_J_DICT ? WR_JERROR(run, "unhashable type: 'slice'")
                                     : WR_JERROR(run, "'%s' object is not subscriptable", wr_jtype_name(obj));
    for (int i = 0; i < 3; i++) {
        if (at[i].type == WR_J_MISSING || at[i].type == WR_J_NONE) continue;
        if (!wr_jis_int(at[i])) return WR_JERROR(run, "slice indices must be integers or None");
        bounds[i] = wr_jint_of(at[i]);
        given[i] = &bounds[i];
    }
    int64_t step = given[2] ? bounds[2] : 1;
    if (step == 0) return WR_JERROR(run, "slice step cannot be zero");
    if (step == INT64_MIN) step++; /* as far; its negative exists */
    if (!wr_jlen(run, obj, &n)) return false;
    int64_t count = wr_jslice_bounds(n, given[0], given[1], step, &first, &end);
    if (obj.type == WR_J_STR) return slice_text(run, obj.s, first, step, count, out);
    if (obj.type == WR_J_RANGE) return slice_range(run, obj.range, first, end, step, count, out);
    if (!wr_jlist_new(run, obj.type, (size_t)count, out)) return false;
    for (int64_t i = 0; i < count; i++) out->list->items[i] = obj.list->items[first + i * step];
    return true;
}
