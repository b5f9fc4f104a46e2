/* Simple mappings and categories come from utf8proc, the rest from case_table.h. */
#include "text/jinja/case.h"

#include <utf8proc.h>

#include "text/jinja/case_table.h"
#include "text/jinja/show.h"
#include "text/unicode.h"

#define IN(table, cp) in_ranges((table), sizeof(table) / sizeof *(table), (cp))
static bool in_ranges(const wr_jcode_range *table, size_t n, uint32_t cp) {
    for (size_t i = 0; i < n && table[i].first <= cp; i++)
        if (cp <= table[i].last) return true;
    return false;
}

static utf8proc_category_t category(uint32_t cp) { return utf8proc_category((utf8proc_int32_t)cp); }

bool wr_jchar_is_lower(uint32_t cp) {
    if (cp < 0x80) return cp >= 'a' && cp <= 'z';
    return category(cp) == UTF8PROC_CATEGORY_LL || IN(other_lower, cp);
}
bool wr_jchar_is_upper(uint32_t cp) {
    if (cp < 0x80) return cp >= 'A' && cp <= 'Z';
    return category(cp) == UTF8PROC_CATEGORY_LU || IN(other_upper, cp);
}
bool wr_jchar_is_title(uint32_t cp) { return cp >= 0x80 && category(cp) == UTF8PROC_CATEGORY_LT; }

static bool is_cased(uint32_t cp) { return wr_jchar_is_lower(cp) || wr_jchar_is_upper(cp) || wr_jchar_is_title(cp); }

/* Unicode's Case_Ignorable: marks, modifiers, and the punctuation that stands within words. */
static bool is_ignorable(uint32_t cp) {
    static const uint32_t within[] = {0x27,   0x2E,   0x3A,   0xB7,   0x387,  0x55F,  0x5F4,  0x2018, 0x2019,
                                      0x2024, 0x2027, 0xFE13, 0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
    for (size_t i = 0; i < sizeof within / sizeof *within; i++)
        if (within[i] == cp) return true;
    switch (category(cp)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK: return true;
    default: return false;
    }
}

bool wr_jchar_is(uint32_t cp, wr_jclass class) {
    utf8proc_category_t c = category(cp);
    bool alpha = c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
    bool decimal = c == UTF8PROC_CATEGORY_ND;
    bool digit = decimal || IN(other_digit, cp);
    bool numeric = decimal || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO || IN(other_numeric, cp);
    switch (class) {
    case WR_J_ALPHA: return alpha;
    case WR_J_ALNUM: return alpha || digit || numeric;
    case WR_J_DECIMAL: return decimal;
    case WR_J_DIGIT: return digit;
    case WR_J_NUMERIC: return numeric;
    case WR_J_PRINTABLE: return wr_jchar_is_printable(cp);
    case WR_J_SPACE: return wr_jchar_is_space(cp);
    }
    return false;
}

int wr_jchar_decimal(uint32_t cp) {
    if (cp < 0x80) return cp >= '0' && cp <= '9' ? (int)(cp - '0') : -1;
    if (category(cp) != UTF8PROC_CATEGORY_ND) return -1;
    /* Decimal digits come in runs of ten from zero; some runs touch (mathematical ones). */
    uint32_t first = cp;
    while (cp - first < 10 * 5 && category(first - 1) == UTF8PROC_CATEGORY_ND) first--;
    return (int)((cp - first) % 10);
}

bool wr_jstr_cased(const wr_jstr *s, char which) {
    bool found = false, previous = false;
    uint32_t cp;
    for (size_t at = 0; at < s->bytes;) {
        at += (size_t)wr_utf8_get((const uint8_t *)s->data + at, &cp);
        bool lower = wr_jchar_is_lower(cp), upper = wr_jchar_is_upper(cp), title = wr_jchar_is_title(cp);
        if (which == 't') {
            if ((upper || title) ? previous : lower ? !previous : false) return false;
            found |= lower || upper || title;
            previous = lower || upper || title;
        } else {
            if (title || (which == 'l' ? upper : lower)) return false;
            found |= which == 'l' ? lower : upper;
        }
    }
    return found;
}

/* ---- mapping ---- */

static bool put_special(wr_jrun *run, const wr_jspecial_case *table, size_t n, uint32_t cp, wr_jbuf *buf, bool *found) {
    *found = false;
    for (size_t i = 0; i < n && table[i].from <= cp; i++) {
        if (table[i].from != cp) continue;
        *found = true;
        for (int k = 0; k < 3 && table[i].to[k]; k++)
            if (!wr_jbuf_char(run, buf, table[i].to[k])) return false;
    }
    return true;
}

static bool put_upper(wr_jrun *run, uint32_t cp, bool title, wr_jbuf *buf) {
    bool found;
    if (cp < 0x80) return wr_jbuf_char(run, buf, cp >= 'a' && cp <= 'z' ? cp - 32 : cp);
    if (title ? !put_special(run, special_title, sizeof special_title / sizeof *special_title, cp, buf, &found)
              : !put_special(run, special_upper, sizeof special_upper / sizeof *special_upper, cp, buf, &found))
        return false;
    if (found) return true;
    utf8proc_int32_t c = (utf8proc_int32_t)cp;
    return wr_jbuf_char(run, buf, (uint32_t)(title ? utf8proc_totitle(c) : utf8proc_toupper(c)));
}

/* A capital sigma at the end of a word becomes its own small form. */
static bool is_final_sigma(const wr_jstr *s, size_t at, size_t next) {
    const uint8_t *p = (const uint8_t *)s->data;
    uint32_t cp;
    bool before = false;
    for (size_t back = at; back > 0;) {
        back = wr_utf8_back(p, back);
        wr_utf8_get(p + back, &cp);
        if (is_ignorable(cp)) continue;
        before = is_cased(cp);
        break;
    }
    if (!before) return false;
    while (next < s->bytes) {
        next += (size_t)wr_utf8_get(p + next, &cp);
        if (!is_ignorable(cp)) return !is_cased(cp);
    }
    return true;
}

static bool put_lower(wr_jrun *run, const wr_jstr *s, size_t at, size_t next, uint32_t cp, wr_jbuf *buf) {
    bool found;
    if (cp < 0x80) return wr_jbuf_char(run, buf, cp >= 'A' && cp <= 'Z' ? cp + 32 : cp);
    if (cp == 0x3A3)
        return wr_jcharge(run, s->bytes) && wr_jbuf_char(run, buf, is_final_sigma(s, at, next) ? 0x3C2 : 0x3C3);
    if (!put_special(run, special_lower, sizeof special_lower / sizeof *special_lower, cp, buf, &found)) return false;
    return found || wr_jbuf_char(run, buf, (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp));
}

static bool put_folded(wr_jrun *run, uint32_t cp, wr_jbuf *buf) {
    utf8proc_int32_t folded[8];
    int boundary = 0;
    if (cp < 0x80) return wr_jbuf_char(run, buf, cp >= 'A' && cp <= 'Z' ? cp + 32 : cp);
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)cp, folded, 8, UTF8PROC_CASEFOLD, &boundary);
    for (utf8proc_ssize_t i = 0; i < n && i < 8; i++)
        if (!wr_jbuf_char(run, buf, (uint32_t)folded[i])) return false;
    return true;
}

bool wr_jcase(wr_jrun *run, const wr_jstr *s, wr_jcasing casing, wr_jval *out) {
    wr_jbuf buf = {0};
    bool previous = false; /* a cased character stands before */
    uint32_t cp;
    for (size_t at = 0, next; at < s->bytes; at = next) {
        next = at + (size_t)wr_utf8_get((const uint8_t *)s->data + at, &cp);
        bool done;
        switch (casing) {
        case WR_J_UPPER: done = put_upper(run, cp, false, &buf); break;
        case WR_J_LOWER: done = put_lower(run, s, at, next, cp, &buf); break;
        case WR_J_CAPITALIZE:
            done = at == 0 ? put_upper(run, cp, true, &buf) : put_lower(run, s, at, next, cp, &buf);
            break;
        case WR_J_TITLE:
            done = previous ? put_lower(run, s, at, next, cp, &buf) : put_upper(run, cp, true, &buf);
            previous = is_cased(cp);
            break;
        case WR_J_SWAPCASE:
            done = wr_jchar_is_upper(cp)   ? put_lower(run, s, at, next, cp, &buf)
                   : wr_jchar_is_lower(cp) ? put_upper(run, cp, false, &buf)
                                           : wr_jbuf_char(run, &buf, cp);
            break;
        default: done = put_folded(run, cp, &buf); break;
        }
        if (!done) return false;
    }
    if (!wr_jbuf_str(run, &buf, out)) return false;
    out->s->markup = s->markup;
    return true;
}
