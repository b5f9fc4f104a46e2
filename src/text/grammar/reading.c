/* A number's text is sign, digits and exponent. With e still free, the digits so far can become any of the numbers that
 * begin with them wherever their point is; so before the exponent only the first digits, the remainder and the order to
 * the bounds' digits decide whether something fits. Then every exponent from some value to some other does. */
#include "text/grammar/reading.h"

typedef enum phase { START, MINUS, ZERO, WHOLE, POINT, FRACTION, EXPONENT, EXPONENT_SIGN, EXPONENT_DIGITS } phase;

/* The order of the digits so far to a bound's, both without their points: so many are equal, or decided. */
enum { LESS = 1 << 20, GREATER, ALWAYS /* a lower bound that every number from here on keeps */ };

static const int32_t endless = INT32_MAX;

static const wr_number_side *side_of(const wr_number_set *s, const wr_reading *r) { return &s->side[r->negative]; }

static void compare_digit(uint32_t *order, const wr_number_bound *bound, uint32_t digit) {
    if (!bound->there || *order >= LESS) return;
    uint32_t other = *order < bound->n ? bound->digit[*order] : 0;
    if (digit != other)
        *order = digit < other ? LESS : GREATER;
    else if (*order < bound->n)
        ++*order;
}

/* The digits so far, and only zeros behind them: -1, 0, 1. */
static int order_of(uint32_t order, const wr_number_bound *bound) {
    return order >= GREATER ? 1 : order == bound->n ? 0 : -1;
}

/* ---- Remainders ----------------------------------------------------------------- */

static uint32_t times_ten(uint64_t x, uint32_t modulus, int32_t times) {
    uint64_t base = 10 % modulus;
    x %= modulus;
    for (; times; times >>= 1) {
        if (times & 1) x = x * base % modulus;
        base = base * base % modulus;
    }
    return (uint32_t)x;
}

/* Zeros that the digits so far end with. */
static int32_t zeros(const wr_reading *r) { return r->last + (int32_t)r->n_fraction; }

/* n more digits can make the digits so far a multiple of the modulus. */
static bool can_complete(const wr_number_set *s, const wr_reading *r, int32_t n) {
    uint32_t rest = times_ten(r->rest, s->modulus, zeros(r) + n);
    uint64_t numbers = 1;
    for (int32_t i = 0; i < n && numbers < s->modulus; i++) numbers *= 10;
    return (s->modulus - rest) % s->modulus < numbers;
}

/* The least power of ten of the last digit that makes the number a multiple; false when none does. The digits without
 * zeros behind them have either no 2 or no 5 among their factors, so these can be counted in the remainder. */
static bool least_power(const wr_number_set *s, const wr_reading *r, int32_t *power) {
    uint32_t rest = r->rest, twos = s->twos, fives = s->fives;
    if (s->rest > 1 && rest % s->rest) return false;
    for (; twos && rest % 2 == 0; rest /= 2) twos--;
    for (rest = r->rest; fives && rest % 5 == 0; rest /= 5) fives--;
    *power = (int32_t)(twos > fives ? twos : fives) - s->scale;
    return true;
}

/* ---- What can still come --------------------------------------------------------- */

/* Some multiple between the bounds begins with the digits so far. Its digits are those of a whole number of 10^-scale;
 * both bounds are such. */
static bool some_multiple(const wr_number_set *s, const wr_reading *r) {
    const wr_number_side *side = side_of(s, r);
    if (!side->hi.there) return true;
    int32_t n = r->first + 1 + (int32_t)r->n_fraction, least = n - zeros(r); /* digits; without zeros behind them */
    int32_t most = side->hi.power + s->scale + 1, lo = side->lo.there ? side->lo.power + s->scale + 1 : 1;
    if (lo > least) least = lo;
    for (int32_t length = most; length >= least && length > 0; length--) {
        /* A bound that begins with the digits so far is itself such a multiple, and found like any other. */
        if (side->lo.there && length == lo && r->lo == LESS) continue;
        if (length == most && r->hi == GREATER) continue;
        if (length >= n ? can_complete(s, r, length - n) : times_ten(r->rest, s->modulus, zeros(r) - (n - length)) == 0)
            return true;
    }
    return false;
}

/* Some number of the set, not 0, begins with the digits so far. */
static bool some_begins(const wr_number_set *s, const wr_reading *r) {
    const wr_number_side *side = side_of(s, r);
    if (!side->some) return false;
    if (s->multiples) return some_multiple(s, r);
    if (!side->lo.there || !side->hi.there) return true;
    bool past = r->hi == GREATER || (r->hi == side->hi.n && side->hi.open);
    return side->lo.power + (r->lo == LESS) <= side->hi.power - past;
}

/* Forget what makes no difference any more. */
static void forget(const wr_number_set *s, wr_reading *r) {
    const wr_number_side *side = side_of(s, r);
    if (!s->multiples) {
        if (!side->lo.there && !side->hi.there) r->first = 0;
        return;
    }
    if (side->hi.there) return;
    /* A multiple with so many digits, wherever its point, is above the bound. */
    int32_t least = r->first - r->last - s->scale;
    if (side->lo.there && (least > side->lo.power || (least == side->lo.power && order_of(r->lo, &side->lo) >= 0)))
        r->lo = ALWAYS;
    if (!side->lo.there || r->lo == ALWAYS) r->first = 0;
}

/* ---- Digits ---------------------------------------------------------------------- */

static bool read_zero(const wr_number_set *s, wr_reading *r, bool in_fraction) {
    const wr_number_side *side = side_of(s, r);
    if (!in_fraction || !side->some) return !wr_number_side_is_empty(side);
    return ++r->n_fraction <= WR_READING_DIGITS_MAX;
}

/* Digits of a fraction count where they can make a multiple, and as long as another that is not 0 may come. */
static bool counts(const wr_number_set *s, const wr_reading *r, uint32_t digit) {
    const wr_number_side *side = side_of(s, r);
    if (!s->multiples) return false;
    return digit || !side->hi.there || r->first + 1 + (int32_t)r->n_fraction <= side->hi.power + s->scale;
}

static bool read_digit(const wr_number_set *s, wr_reading *r, uint32_t digit, bool in_fraction) {
    const wr_number_side *side = side_of(s, r);
    if (!r->started) {
        if (!digit) return read_zero(s, r, in_fraction);
        r->started = 1;
        r->first = in_fraction ? -(int32_t)r->n_fraction - 1 : 0;
        r->last = s->multiples ? r->first : 0;
        r->n_fraction = in_fraction && s->multiples ? r->n_fraction + 1 : 0;
        r->rest = digit % s->modulus;
    } else {
        if (!in_fraction) {
            r->first++;
            r->last += s->multiples;
        } else if (counts(s, r, digit)) {
            r->n_fraction++;
        }
        if (digit && s->multiples) {
            r->rest = (times_ten(r->rest, s->modulus, zeros(r)) + digit) % s->modulus;
            r->last -= zeros(r);
        }
    }
    compare_digit(&r->lo, &side->lo, digit);
    compare_digit(&r->hi, &side->hi, digit);
    if (!some_begins(s, r)) return false;
    forget(s, r);
    if (!in_fraction) return r->first <= WR_READING_DIGITS_MAX && r->last <= WR_READING_DIGITS_MAX;
    if (!s->multiples || side->hi.there) return true;
    int32_t left = 2 * WR_READING_DIGITS_MAX - (int32_t)r->n_fraction;
    for (int32_t n = left < 9 ? left : 9; n >= 0; n--)
        if (can_complete(s, r, n)) return true;
    return false;
}

/* ---- Exponents ------------------------------------------------------------------- */

/* The exponents that bring the digits so far into the set: all from *from to *to. */
static bool exponents(const wr_number_set *s, const wr_reading *r, int32_t *from, int32_t *to) {
    const wr_number_side *side = side_of(s, r);
    *from = -endless;
    *to = endless;
    if (!r->started) return side->zero;
    if (!side->some) return false;
    if (side->lo.there && r->lo != ALWAYS) {
        int order = order_of(r->lo, &side->lo);
        *from = side->lo.power - r->first + (order < 0 || (order == 0 && side->lo.open));
    }
    if (side->hi.there) {
        int order = order_of(r->hi, &side->hi);
        *to = side->hi.power - r->first - (order > 0 || (order == 0 && side->hi.open));
    }
    if (s->multiples) {
        int32_t power;
        if (!least_power(s, r, &power)) return false;
        if (power - r->last > *from) *from = power - r->last;
    }
    return *from <= *to;
}

static bool begin_exponent(const wr_number_set *s, wr_reading *r) {
    int32_t from, to;
    if (!exponents(s, r, &from, &to)) return false;
    *r = (wr_reading){.phase = EXPONENT, .from = from, .to = to};
    return true;
}

/* From here on the bounds are those of the exponent's size. */
static bool exponent_sign(wr_reading *r, bool negative) {
    int32_t from = negative ? -r->to : r->from, to = negative ? -r->from : r->to;
    *r = (wr_reading){.phase = EXPONENT_SIGN, .from = from > 0 ? from : 0, .to = to};
    return r->from <= to;
}

static bool exponent_digit(wr_reading *r, int32_t digit) {
    if (r->phase == EXPONENT && !exponent_sign(r, false)) return false;
    r->phase = EXPONENT_DIGITS;
    r->size = r->size * 10 + digit;
    if (r->to == endless) {
        if (r->size >= r->from) r->from = 0, r->size = r->size > 0; /* all that follows fits */
        return true;
    }
    /* Some number that begins with these digits lies within the bounds. */
    for (int64_t lo = r->size, hi = r->size; lo <= r->to; lo *= 10, hi = hi * 10 + 9) {
        if (hi >= r->from) return true;
        if (!lo) return r->from <= r->to;
    }
    return false;
}

/* ---- Steps ----------------------------------------------------------------------- */

bool wr_reading_step(const wr_number_set *s, wr_reading *r, uint8_t byte) {
    bool digit = byte >= '0' && byte <= '9';
    uint32_t value = (uint32_t)byte - '0';
    phase at = (phase)r->phase;
    switch (byte) {
    case '-':
    case '+':
        if (at == EXPONENT) return exponent_sign(r, byte == '-');
        if (at != START || byte == '+') return false;
        r->phase = MINUS;
        r->negative = 1;
        return !wr_number_side_is_empty(side_of(s, r));
    case '.': r->phase = POINT; return at == ZERO || at == WHOLE;
    case 'e':
    case 'E': return (at == ZERO || at == WHOLE || at == FRACTION) && begin_exponent(s, r);
    default: break;
    }
    if (!digit || at == ZERO) return false;
    if (at >= EXPONENT) return exponent_digit(r, (int32_t)value);
    bool in_fraction = at == POINT || at == FRACTION;
    r->phase = in_fraction ? FRACTION : value || at == WHOLE ? WHOLE : ZERO;
    return read_digit(s, r, value, in_fraction);
}

bool wr_reading_accepts(const wr_number_set *s, const wr_reading *r) {
    int32_t from, to;
    switch ((phase)r->phase) {
    case ZERO:
    case WHOLE:
    case FRACTION: return exponents(s, r, &from, &to) && from <= 0 && 0 <= to;
    case EXPONENT_DIGITS: return r->from <= r->size && r->size <= r->to;
    default: return false;
    }
}
