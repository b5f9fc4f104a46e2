/* One character of a set, in bytes: UTF-8, or the ways in which a JSON string can spell it. Ranges are cut so that each
 * part is a sequence of digit ranges; neighbours that begin alike share states. */
#include "text/grammar/program.h"

typedef struct digit_range {
    uint8_t lo, hi;
} digit_range;

/* Sequences being laid from one state to another, in rising order. */
typedef struct path {
    wr_gr_emit *e;
    uint32_t from, to;
    int n; /* digits of the sequence before */
    digit_range digit[4];
    uint32_t state[4]; /* state[i]: behind digit i */
    bool hex;          /* digits are hex digits, not bytes */
} path;

static bool lay_digit(path *s, uint32_t from, digit_range d, uint32_t to) {
    if (!s->hex) return wr_gr_bytes(s->e, from, d.lo, d.hi, to);
    if (d.lo < 10 && !wr_gr_bytes(s->e, from, (uint8_t)('0' + d.lo), (uint8_t)('0' + (d.hi < 10 ? d.hi : 9)), to))
        return false;
    if (d.hi < 10) return true;
    int lo = d.lo > 10 ? d.lo - 10 : 0, hi = d.hi - 10;
    return wr_gr_bytes(s->e, from, (uint8_t)('a' + lo), (uint8_t)('a' + hi), to) &&
           wr_gr_bytes(s->e, from, (uint8_t)('A' + lo), (uint8_t)('A' + hi), to);
}

static bool lay_sequence(path *s, const digit_range *digit, int n) {
    int shared = 0;
    while (shared < n - 1 && shared < s->n - 1 && digit[shared].lo == s->digit[shared].lo &&
           digit[shared].hi == s->digit[shared].hi)
        shared++;
    uint32_t at = shared ? s->state[shared - 1] : s->from;
    for (int i = shared; i < n; i++) {
        uint32_t next = s->to;
        if (i < n - 1 && !wr_gr_state_add(s->e, -1, &next)) return false;
        if (!lay_digit(s, at, digit[i], next)) return false;
        s->digit[i] = digit[i];
        s->state[i] = at = next;
    }
    s->n = n;
    return true;
}

/* Numbers lo to hi, all of n digits of `bits` bits, as sequences; lead is added to the first digit and rest to others.
 */
static bool lay_range(path *s, uint32_t lo, uint32_t hi, int n, int bits, uint8_t lead, uint8_t rest) {
    for (int i = 1; i < n; i++) {
        uint32_t low = ((uint32_t)1 << (i * bits)) - 1;
        if ((lo & ~low) == (hi & ~low)) continue;
        if (lo & low)
            return lay_range(s, lo, lo | low, n, bits, lead, rest) &&
                   lay_range(s, (lo | low) + 1, hi, n, bits, lead, rest);
        if ((hi & low) != low)
            return lay_range(s, lo, (hi & ~low) - 1, n, bits, lead, rest) &&
                   lay_range(s, hi & ~low, hi, n, bits, lead, rest);
    }
    digit_range digit[4];
    for (int i = 0; i < n; i++) {
        uint32_t shift = (uint32_t)((n - 1 - i) * bits), mask = i ? ((uint32_t)1 << bits) - 1 : UINT32_MAX;
        uint8_t add = i ? rest : lead;
        digit[i] = (digit_range){(uint8_t)((lo >> shift & mask) + add), (uint8_t)((hi >> shift & mask) + add)};
    }
    return lay_sequence(s, digit, n);
}

static bool lay_utf8(wr_gr_emit *e, const wr_charset *set, uint32_t from, uint32_t to) {
    static const uint32_t last[4] = {0x7F, 0x7FF, 0xFFFF, WR_CHAR_MAX};
    static const uint8_t lead[4] = {0, 0xC0, 0xE0, 0xF0};
    path s = {.e = e, .from = from, .to = to};
    for (size_t i = 0; i < set->n; i++) {
        uint32_t lo = set->at[i].lo;
        for (int n = 0; n < 4 && lo <= set->at[i].hi; n++) {
            if (lo > last[n]) continue;
            uint32_t hi = set->at[i].hi < last[n] ? set->at[i].hi : last[n];
            if (!lay_range(&s, lo, hi, n + 1, 6, lead[n], 0x80)) return false;
            lo = hi + 1;
        }
    }
    return true;
}

/* Four hex digits, lo to hi. */
static bool lay_hex(wr_gr_emit *e, uint32_t lo, uint32_t hi, uint32_t from, uint32_t to) {
    path s = {.e = e, .from = from, .to = to, .hex = true};
    return lay_range(&s, lo, hi, 4, 4, 0, 0);
}

/* Characters above U+FFFF as two escapes; from: behind the first \u. */
static bool lay_pair(wr_gr_emit *e, uint32_t lo, uint32_t hi, uint32_t from, uint32_t to) {
    lo -= 0x10000;
    hi -= 0x10000;
    while (lo <= hi) {
        /* One high half, or as many as have all their low halves. */
        uint32_t high = lo >> 10, top = high, low = lo & 0x3FF, low_top = 0x3FF, mid, slash, u;
        if (low == 0 && (hi & 0x3FF) == 0x3FF)
            top = hi >> 10;
        else if (low == 0 && hi >> 10 > high)
            top = (hi >> 10) - 1;
        else if (hi >> 10 == high)
            low_top = hi & 0x3FF;
        if (!wr_gr_state_add(e, -1, &mid) || !wr_gr_state_add(e, -1, &slash) || !wr_gr_state_add(e, -1, &u) ||
            !lay_hex(e, 0xD800 + high, 0xD800 + top, from, mid) || !wr_gr_bytes(e, mid, '\\', '\\', slash) ||
            !wr_gr_bytes(e, slash, 'u', 'u', u) || !lay_hex(e, 0xDC00 + low, 0xDC00 + low_top, u, to))
            return false;
        lo = (top << 10 | low_top) + 1;
    }
    return true;
}

/* The escapes of the characters of set; from: before the backslash. */
static bool lay_escapes(wr_gr_emit *e, const wr_charset *set, bool plain, uint32_t from, uint32_t to) {
    static const char letter[] = "\"\\/bfnrt", meaning[] = "\"\\/\b\f\n\r\t";
    uint32_t slash = WR_GR_NONE, u = WR_GR_NONE;
    for (int i = 0; letter[i]; i++) {
        if (!wr_charset_has(set, (uint32_t)meaning[i]) || (plain && letter[i] == '/')) continue;
        if (slash == WR_GR_NONE && !(wr_gr_state_add(e, -1, &slash) && wr_gr_bytes(e, from, '\\', '\\', slash)))
            return false;
        if (!wr_gr_bytes(e, slash, (uint8_t)letter[i], (uint8_t)letter[i], to)) return false;
    }
    for (size_t i = 0; i < set->n; i++) {
        uint32_t lo = set->at[i].lo, hi = set->at[i].hi;
        if (plain && lo >= 0x20) break;
        if (plain && hi >= 0x20) hi = 0x1F;
        if (slash == WR_GR_NONE && !(wr_gr_state_add(e, -1, &slash) && wr_gr_bytes(e, from, '\\', '\\', slash)))
            return false;
        if (u == WR_GR_NONE && !(wr_gr_state_add(e, -1, &u) && wr_gr_bytes(e, slash, 'u', 'u', u))) return false;
        if (lo <= 0xFFFF && !lay_hex(e, lo, hi < 0xFFFF ? hi : 0xFFFF, u, to)) return false;
        if (hi > 0xFFFF && !lay_pair(e, lo > 0xFFFF ? lo : 0x10000, hi, u, to)) return false;
    }
    return true;
}

bool wr_gr_lay_char(wr_gr_emit *e, uint32_t cp, wr_gr_spelling spelling, uint32_t from, uint32_t to) {
    wr_char_range range = {cp, cp};
    const wr_charset set = {&range, 1, 1};
    if (spelling == WR_GR_UTF8) return lay_utf8(e, &set, from, to);
    e->p->state[from].boundary = true;
    bool bare = cp >= 0x20 && cp != '"' && cp != '\\';
    return (!bare || lay_utf8(e, &set, from, to)) && lay_escapes(e, &set, spelling == WR_GR_JSON_PLAIN, from, to);
}

bool wr_gr_lay_class(wr_gr_emit *e, const wr_charset *set, wr_gr_spelling spelling, uint32_t from, uint32_t to) {
    if (!set || e->b->status != WEIR_OK) return false;
    if (set->n == 1 && set->at[0].lo == set->at[0].hi) return wr_gr_lay_char(e, set->at[0].lo, spelling, from, to);
    if (spelling == WR_GR_UTF8) return lay_utf8(e, set, from, to);
    wr_charset bare = {0};
    if (!wr_charset_add(e->b, &bare, 0x20, 0x21) || !wr_charset_add(e->b, &bare, 0x23, 0x5B) ||
        !wr_charset_add(e->b, &bare, 0x5D, WR_CHAR_MAX))
        return false;
    const wr_charset *literal = wr_charset_and(e->b, set, wr_charset_finish(e->b, &bare));
    e->p->state[from].boundary = true;
    return literal && lay_utf8(e, literal, from, to) && lay_escapes(e, set, spelling == WR_GR_JSON_PLAIN, from, to);
}
