/* UTF-8 by the state table of the standard, classes by utf8proc. */
#include "text/unicode.h"

#include <utf8proc.h>

#include "text/unicode_reference.h"

int wr_utf8_step(const uint8_t *p, size_t n, uint32_t *cp) {
    uint8_t a = p[0];
    if (a < 0x80) {
        *cp = a;
        return 1;
    }
    /* The allowed range of the second byte excludes overlong forms, surrogates
     * and values above U+10FFFF. */
    uint8_t low = 0x80, high = 0xBF;
    int length;
    if (a >= 0xC2 && a <= 0xDF) {
        length = 2;
        *cp = a & 0x1F;
    } else if (a >= 0xE0 && a <= 0xEF) {
        length = 3;
        *cp = a & 0x0F;
        if (a == 0xE0) low = 0xA0;
        if (a == 0xED) high = 0x9F;
    } else if (a >= 0xF0 && a <= 0xF4) {
        length = 4;
        *cp = a & 0x07;
        if (a == 0xF0) low = 0x90;
        if (a == 0xF4) high = 0x8F;
    } else {
        return -1;
    }
    for (int i = 1; i < length; i++) {
        if ((size_t)i >= n) return 0;
        if (p[i] < low || p[i] > high) return -i;
        *cp = *cp << 6 | (p[i] & 0x3F);
        low = 0x80;
        high = 0xBF;
    }
    return length;
}

int wr_utf8_put(uint32_t cp, uint8_t out[4]) {
    if (cp < 0x80) {
        out[0] = (uint8_t)cp;
        return 1;
    }
    if (cp < 0x800) {
        out[0] = (uint8_t)(0xC0 | cp >> 6);
        out[1] = (uint8_t)(0x80 | (cp & 0x3F));
        return 2;
    }
    if (cp < 0x10000) {
        out[0] = (uint8_t)(0xE0 | cp >> 12);
        out[1] = (uint8_t)(0x80 | (cp >> 6 & 0x3F));
        out[2] = (uint8_t)(0x80 | (cp & 0x3F));
        return 3;
    }
    out[0] = (uint8_t)(0xF0 | cp >> 18);
    out[1] = (uint8_t)(0x80 | (cp >> 12 & 0x3F));
    out[2] = (uint8_t)(0x80 | (cp >> 6 & 0x3F));
    out[3] = (uint8_t)(0x80 | (cp & 0x3F));
    return 4;
}

size_t wr_utf8_valid(const uint8_t *p, size_t n) {
    size_t i = 0;
    uint32_t cp;
    while (i < n) {
        int step = p[i] < 0x80 ? 1 : wr_utf8_step(p + i, n - i, &cp);
        if (step <= 0) break;
        i += (size_t)step;
    }
    return i;
}

int wr_utf8_get(const uint8_t *p, uint32_t *cp) {
    uint8_t a = p[0];
    if (a < 0x80) {
        *cp = a;
        return 1;
    }
    if (a < 0xE0) {
        *cp = (uint32_t)(a & 0x1F) << 6 | (p[1] & 0x3F);
        return 2;
    }
    if (a < 0xF0) {
        *cp = (uint32_t)(a & 0x0F) << 12 | (uint32_t)(p[1] & 0x3F) << 6 | (p[2] & 0x3F);
        return 3;
    }
    *cp = (uint32_t)(a & 0x07) << 18 | (uint32_t)(p[1] & 0x3F) << 12 | (uint32_t)(p[2] & 0x3F) << 6 | (p[3] & 0x3F);
    return 4;
}

size_t wr_utf8_back(const uint8_t *p, size_t at) {
    do {
        at--;
    } while (at > 0 && (p[at] & 0xC0) == 0x80);
    return at;
}

size_t wr_utf8_count(const uint8_t *p, size_t n) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) count += (p[i] & 0xC0) != 0x80;
    return count;
}

bool wr_char_is_space(uint32_t cp) {
    if (cp < 0x80) return cp == ' ' || (cp >= '\t' && cp <= '\r');
    return cp == 0x85 || cp == 0xA0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 ||
           cp == 0x202F || cp == 0x205F || cp == 0x3000;
}

static utf8proc_category_t category(uint32_t cp) { return utf8proc_category((utf8proc_int32_t)cp); }

bool wr_char_is_number(uint32_t cp) {
    if (cp < 0x80) return cp >= '0' && cp <= '9';
    utf8proc_category_t c = category(cp);
    return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

bool wr_char_is_punctuation(uint32_t cp) {
    if (cp < 0x80) {
        return (cp >= '!' && cp <= '/') || (cp >= ':' && cp <= '@') || (cp >= '[' && cp <= '`') ||
               (cp >= '{' && cp <= '~');
    }
    utf8proc_category_t c = category(cp);
    if (cp == 0x166D || cp == 0x111C9) return true; /* punctuation in older versions */
    return c >= UTF8PROC_CATEGORY_PC && c <= UTF8PROC_CATEGORY_PO &&
           !(wr_reference_unknown(cp) & WR_REFERENCE_PUNCTUATION);
}

bool wr_char_is_word(uint32_t cp) {
    utf8proc_category_t c = category(cp);
    return (c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_NL) || c == UTF8PROC_CATEGORY_PC ||
           (cp >= 0x24B6 && cp <= 0x24E9) /* circled letters are Alphabetic */ || cp == 0x200C || cp == 0x200D;
}

bool wr_char_is_control(uint32_t cp) {
    utf8proc_category_t c = category(cp);
    return (c == UTF8PROC_CATEGORY_CC || c == UTF8PROC_CATEGORY_CF || c == UTF8PROC_CATEGORY_CO) &&
           !(wr_reference_unknown(cp) & WR_REFERENCE_CONTROL);
}

bool wr_char_is_mark(uint32_t cp, bool nonspacing_only) {
    utf8proc_category_t c = category(cp);
    /* Marks in older versions. */
    if (cp == 0x1734 || (!nonspacing_only && (cp == 0x1CF2 || cp == 0x1CF3))) return true;
    bool is =
        c == UTF8PROC_CATEGORY_MN || (!nonspacing_only && (c == UTF8PROC_CATEGORY_MC || c == UTF8PROC_CATEGORY_ME));
    return is && !(wr_reference_unknown(cp) & (nonspacing_only ? WR_REFERENCE_NONSPACING : WR_REFERENCE_MARK));
}

static bool byte_is_printable(unsigned b) {
    return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
}

uint32_t wr_byte_to_char(uint8_t byte) {
    if (byte_is_printable(byte)) return byte;
    /* The unprintable bytes are 00-20, 7F-A0 and AD. */
    if (byte <= 0x20) return 0x100u + byte;
    if (byte <= 0xA0) return 0x121u + (byte - 0x7Fu);
    return 0x143u;
}

size_t wr_bytes_spell(const uint8_t *p, size_t n, uint8_t *out) {
    size_t m = 0;
    for (size_t i = 0; i < n; i++) m += (size_t)wr_utf8_put(wr_byte_to_char(p[i]), out + m);
    return m;
}

int wr_char_to_byte(uint32_t cp) {
    if (cp < 0x100) return byte_is_printable(cp) ? (int)cp : -1;
    if (cp <= 0x120) return (int)(cp - 0x100);
    if (cp <= 0x142) return (int)(cp - 0x121 + 0x7F);
    return cp == 0x143 ? 0xAD : -1;
}
