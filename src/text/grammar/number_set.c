/* Bounds and a multiple, as a schema says them, become a set. All arithmetic is on decimal digits. */
#include "text/grammar/number_set.h"

#include <string.h>

#include "base/mem.h"

/* The size of x, above 0. */
static void bound_of(const wr_decimal *x, bool open, uint8_t *room, wr_number_bound *out) {
    *out = (wr_number_bound){.there = true, .open = open, .digit = room};
    int n = x->n_whole + x->n_fraction, from = 0;
    for (int i = 0; i < n; i++)
        out->digit[i] = (uint8_t)((i < x->n_whole ? x->whole[i] : x->fraction[i - x->n_whole]) - '0');
    while (!out->digit[from]) from++;
    while (!out->digit[n - 1]) n--;
    out->n = (uint32_t)(n - from);
    out->power = x->n_whole - 1 - from;
    memmove(out->digit, out->digit + from, out->n);
}

/* -1, 0, 1: by size. */
static int compare(const wr_number_bound *x, const wr_number_bound *y) {
    if (x->power != y->power) return x->power < y->power ? -1 : 1;
    uint32_t n = x->n < y->n ? x->n : y->n;
    int order = memcmp(x->digit, y->digit, n);
    if (order) return order < 0 ? -1 : 1;
    return x->n < y->n ? -1 : x->n > y->n;
}

/* ---- Multiples ------------------------------------------------------------------ */

static bool modulus_of(wr_gr_build *b, const wr_number_spec *spec, wr_number_set *out) {
    uint64_t modulus = 1;
    out->multiples = spec->has_multiple || spec->integer;
    if (spec->has_multiple) {
        wr_number_bound m;
        uint8_t room[WR_NUMBER_DIGITS];
        bound_of(&spec->multiple, false, room, &m);
        modulus = 0;
        for (uint32_t i = 0; i < m.n && modulus <= WR_MODULUS_MAX; i++) modulus = modulus * 10 + m.digit[i];
        if (modulus > WR_MODULUS_MAX)
            return WR_GR_FAIL(b, WEIR_E_UNSUPPORTED, "multipleOf: its digits without the point are above %d",
                              WR_MODULUS_MAX);
        out->scale = (int32_t)m.n - 1 - m.power;
    }
    /* The whole ones among the multiples of m / 10^s are those of m / gcd(m, 10^s). */
    for (; spec->integer && out->scale > 0; out->scale--) {
        if (modulus % 2 == 0) modulus /= 2;
        if (modulus % 5 == 0) modulus /= 5;
    }
    out->modulus = out->rest = (uint32_t)modulus;
    for (; out->rest % 2 == 0; out->rest /= 2) out->twos++;
    for (; out->rest % 5 == 0; out->rest /= 5) out->fives++;
    return true;
}

/* A whole number with leading zeros, the last digit behind the others. */
typedef struct whole {
    int n;
    uint8_t digit[WR_NUMBER_DIGITS + 1];
} whole;

static void add(whole *x, uint32_t v) {
    for (int i = x->n - 1; v; i--) {
        v += x->digit[i];
        x->digit[i] = (uint8_t)(v % 10);
        v /= 10;
    }
}

/* v <= x */
static void subtract(whole *x, uint32_t v) {
    for (int i = x->n - 1; v; i--) {
        uint32_t d = v % 10;
        v /= 10;
        if (x->digit[i] < d) {
            x->digit[i] = (uint8_t)(x->digit[i] + 10);
            v++;
        }
        x->digit[i] = (uint8_t)(x->digit[i] - d);
    }
}

/* Move a bound to the next multiple that belongs, up or down; false when that is 0. */
static bool to_multiple(const wr_number_set *s, wr_number_bound *bound, bool up) {
    enum { ROOM = 12 }; /* digits of a modulus, and one that is carried */
    whole x = {0};
    int n = bound->power + s->scale + 1; /* digits of the bound times 10^scale before the point */
    if (n < 0) n = 0;
    x.n = n + ROOM;
    for (int i = 0; i < n && i < (int)bound->n; i++) x.digit[ROOM + i] = bound->digit[i];
    bool exact = (int)bound->n <= bound->power + s->scale + 1, zero = true;
    if (up && (!exact || bound->open)) add(&x, 1);
    for (int i = 0; i < x.n; i++) zero = zero && !x.digit[i];
    if (!up && zero) return false;
    if (!up && exact && bound->open) subtract(&x, 1);
    uint64_t rest = 0;
    for (int i = 0; i < x.n; i++) rest = (rest * 10 + x.digit[i]) % s->modulus;
    if (up && rest) add(&x, s->modulus - (uint32_t)rest);
    if (!up) subtract(&x, (uint32_t)rest);
    int from = 0, to = x.n;
    while (from < x.n && !x.digit[from]) from++;
    if (from == x.n) return false;
    while (!x.digit[to - 1]) to--;
    bound->open = false;
    bound->n = (uint32_t)(to - from);
    bound->power = x.n - 1 - from - s->scale;
    memcpy(bound->digit, x.digit + from, bound->n);
    return true;
}

/* ---- Sides ---------------------------------------------------------------------- */

static bool is_zero(const wr_decimal *x) { return x->n_whole == 1 && x->whole[0] == '0' && !x->n_fraction; }

/* near: the bound towards 0 and beyond; far: the other. Those of numbers below 0 come with their signs turned. */
static void side_of(const wr_number_set *s, const wr_decimal *near, bool near_open, const wr_decimal *far,
                    bool far_open, bool turned, uint8_t room[2][WR_NUMBER_DIGITS], wr_number_side *out) {
    bool beyond = near && near->negative != turned && !is_zero(near); /* the bound is of the other sign */
    *out = (wr_number_side){.some = true, .zero = true};
    if (near && !beyond) out->zero = is_zero(near) && !near_open;
    if (far) {
        bool negative = far->negative != turned && !is_zero(far);
        if (negative) out->zero = out->some = false;
        if (is_zero(far)) {
            out->zero = out->zero && !far_open;
            out->some = false;
        }
    }
    if (!out->some) return;
    if (near && !beyond && !is_zero(near)) bound_of(near, near_open, room[0], &out->lo);
    if (far) bound_of(far, far_open, room[1], &out->hi);
    if (s->multiples) {
        if (out->lo.there) to_multiple(s, &out->lo, true);
        if (out->hi.there && !to_multiple(s, &out->hi, false)) out->some = false;
    }
    if (!out->some || !out->lo.there || !out->hi.there) return;
    int order = compare(&out->lo, &out->hi);
    out->some = order < 0 || (order == 0 && !out->lo.open && !out->hi.open);
}

bool wr_number_set_of(wr_gr_build *b, const wr_number_spec *spec, uint8_t room[4][WR_NUMBER_DIGITS],
                      wr_number_set *out) {
    const wr_decimal *min = spec->has_min ? &spec->min : NULL, *max = spec->has_max ? &spec->max : NULL;
    *out = (wr_number_set){0};
    if (!modulus_of(b, spec, out)) return false;
    side_of(out, min, spec->min_open, max, spec->max_open, false, room, &out->side[0]);
    side_of(out, max, spec->max_open, min, spec->min_open, true, room + 2, &out->side[1]);
    return true;
}

wr_number_set *wr_number_set_dup(const wr_number_set *set) {
    size_t bytes = sizeof *set;
    for (int i = 0; i < 4; i++) bytes += (i % 2 ? &set->side[i / 2].hi : &set->side[i / 2].lo)->n;
    wr_number_set *copy = wr_malloc(bytes);
    if (!copy) return NULL;
    *copy = *set;
    uint8_t *at = (uint8_t *)(copy + 1);
    for (int i = 0; i < 4; i++) {
        wr_number_bound *bound = i % 2 ? &copy->side[i / 2].hi : &copy->side[i / 2].lo;
        if (bound->n) memcpy(at, bound->digit, bound->n);
        bound->digit = at;
        at += bound->n;
    }
    return copy;
}
