/* The work that filters and methods of texts have in common. */
#include "text/jinja/text.h"

#include <stdlib.h>
#include <string.h>

#include "text/jinja/case.h"
#include "text/jinja/iter.h"
#include "text/jinja/ops.h"
#include "text/jinja/show.h"
#include "text/unicode.h"

size_t wr_jfind(const wr_jstr *s, size_t from, size_t to, const wr_jstr *what, bool last) {
    if (to < from || to - from < what->bytes) return SIZE_MAX;
    if (!last) {
        const char *p = what->bytes ? memmem(s->data + from, to - from, what->data, what->bytes) : s->data + from;
        return p ? (size_t)(p - s->data) : SIZE_MAX;
    }
    for (size_t at = to - what->bytes + 1; at-- > from;)
        if (memcmp(s->data + at, what->data, what->bytes) == 0) return at;
    return SIZE_MAX;
}

static bool in_set(uint32_t cp, const wr_jstr *set) {
    uint32_t c;
    if (!set) return wr_jchar_is_space(cp);
    for (size_t at = 0; at < set->bytes;) {
        at += (size_t)wr_utf8_get((const uint8_t *)set->data + at, &c);
        if (c == cp) return true;
    }
    return false;
}

/* What is left of s, [*begin, *end), without the characters of set (NULL: white space) at its ends, as for wr_jstrip.
 */
static void strip(const wr_jstr *s, const wr_jstr *set, char which, size_t *begin, size_t *end) {
    const uint8_t *p = (const uint8_t *)s->data;
    uint32_t cp;
    *begin = 0;
    *end = s->bytes;
    while (which != 'r' && *begin < *end) {
        size_t n = (size_t)wr_utf8_get(p + *begin, &cp);
        if (!in_set(cp, set)) break;
        *begin += n;
    }
    while (which != 'l' && *end > *begin) {
        size_t back = wr_utf8_back(p, *end);
        wr_utf8_get(p + back, &cp);
        if (!in_set(cp, set)) break;
        *end = back;
    }
}

bool wr_jstrip(wr_jrun *run, wr_jval v, wr_jval chars, char which, wr_jval *out) {
    const wr_jstr *s = v.s, *set = NULL;
    size_t begin, end;
    if (wr_jgiven(chars)) {
        if (!wr_jarg_str(run, chars, "strip arg")) return false;
        set = chars.s;
    }
    strip(s, set, which, &begin, &end);
    size_t gone = s->bytes - (end - begin);
    if (!wr_jcharge(run, gone * (set ? 1 + set->bytes : 1))) return false;
    if (!gone) {
        *out = v;
        return true;
    }
    if (!wr_jstr_view(run, s->data + begin, end - begin, out)) return false;
    out->s->markup = s->markup;
    return true;
}

bool wr_jreplace(wr_jrun *run, wr_jstr *s, const wr_jstr *old, const wr_jstr *new_text, int64_t count, bool markup,
                 wr_jval *out) {
    wr_jbuf buf = {0};
    size_t at = 0;
    if (!wr_jcharge(run, s->bytes + old->bytes)) return false;
    for (int64_t done = 0; count < 0 || done < count; done++) {
        size_t found = old->bytes ? wr_jfind(s, at, s->bytes, old, false) : at;
        if (found == SIZE_MAX) break;
        size_t next = found + old->bytes;
        if (!wr_jbuf_add(run, &buf, s->data + at, found - at) ||
            !wr_jbuf_add(run, &buf, new_text->data, new_text->bytes))
            return false;
        at = next;
        if (old->bytes) continue;
        /* An empty text is found before each character and at the end. */
        if (at == s->bytes) break;
        uint32_t cp;
        size_t n = (size_t)wr_utf8_get((const uint8_t *)s->data + at, &cp);
        if (!wr_jbuf_add(run, &buf, s->data + at, n)) return false;
        at += n;
    }
    if (!wr_jbuf_add(run, &buf, s->data + at, s->bytes - at) || !wr_jbuf_str(run, &buf, out)) return false;
    out->s->markup = markup;
    return true;
}

static bool is_line_end(uint32_t cp) {
    return (cp >= '\n' && cp <= '\r') || (cp >= 0x1C && cp <= 0x1E) || cp == 0x85 || cp == 0x2028 || cp == 0x2029;
}

bool wr_jsplit_lines(wr_jrun *run, wr_jstr *s, bool keep_ends, wr_jval *out) {
    const uint8_t *p = (const uint8_t *)s->data;
    wr_jitems items = {0};
    wr_jval line;
    uint32_t cp;
    if (!wr_jcharge(run, s->bytes)) return false;
    for (size_t at = 0; at < s->bytes;) {
        size_t from = at, end;
        for (end = at; at < s->bytes; end = at) {
            at += (size_t)wr_utf8_get(p + at, &cp);
            if (!is_line_end(cp)) continue;
            if (cp == '\r' && at < s->bytes && p[at] == '\n') at++;
            break;
        }
        if (!wr_jstr_view(run, s->data + from, (keep_ends ? at : end) - from, &line) ||
            !wr_jitems_add(run, &items, line))
            return false;
        line.s->markup = s->markup;
    }
    return wr_jitems_list(run, &items, WR_J_LIST, out);
}

bool wr_jjoin(wr_jrun *run, wr_jval sep, wr_jval items, bool soft, wr_jval *out) {
    wr_jiter *it;
    wr_jval item;
    wr_jbuf buf = {0};
    bool has, markup = sep.s->markup;
    if (!wr_jiter_new(run, items, &it)) return false;
    for (size_t i = 0;; i++) {
        if (!wr_jiter_next(run, it, &item, &has)) return false;
        if (!has) break;
        if (i && !wr_jbuf_add(run, &buf, sep.s->data, sep.s->bytes)) return false;
        if (!soft && item.type != WR_J_STR && !markup)
            return WR_JERROR(run, "sequence item %zu: expected str instance, %s found", i, wr_jtype_name(item));
        if (markup && !(item.type == WR_J_STR && item.s->markup)) {
            wr_jval text;
            if (!wr_jsoft_str(run, item, &text) || !wr_jescape(run, text.s, &buf)) return false;
        } else if (!wr_jshow(run, item, &buf)) {
            return false;
        }
    }
    if (!wr_jbuf_str(run, &buf, out)) return false;
    out->s->markup = markup;
    return true;
}

bool wr_jcenter(wr_jrun *run, wr_jstr *s, int64_t width, const wr_jstr *fill, char align, wr_jval *out) {
    size_t chars = wr_jstr_chars(s), all = width > (int64_t)chars ? (size_t)width - chars : 0;
    /* Python's centre: the odd blank goes to the left when the width is odd. */
    size_t left = align == '^' ? all / 2 + (all & (size_t)width & 1) : align == '>' ? all : 0;
    wr_jbuf buf = {0};
    if (!wr_jbuf_fill(run, &buf, fill->data, fill->bytes, left) || !wr_jbuf_add(run, &buf, s->data, s->bytes) ||
        !wr_jbuf_fill(run, &buf, fill->data, fill->bytes, all - left) || !wr_jbuf_str(run, &buf, out))
        return false;
    out->s->markup = s->markup;
    return true;
}

/* ---- numbers ---- */

/* The text without spaces around, with any script's digits as ASCII, and without the
 * single "_" between digits; false when it does not fit or "_" stands elsewhere. */
static bool plain_number(const wr_jstr *s, char *out, size_t cap) {
    const uint8_t *p = (const uint8_t *)s->data;
    size_t begin, end, n = 0;
    uint32_t cp;
    strip(s, NULL, 'b', &begin, &end);
    bool digit = false;
    for (size_t at = begin; at < end;) {
        at += (size_t)wr_utf8_get(p + at, &cp);
        int value = wr_jchar_decimal(cp);
        bool letter = cp < 0x80 && ((cp | 0x20) >= 'a' && (cp | 0x20) <= 'z');
        if (cp == '_') {
            if (!digit || at >= end) return false;
            wr_utf8_get(p + at, &cp);
            letter = cp < 0x80 && ((cp | 0x20) >= 'a' && (cp | 0x20) <= 'z');
            if (wr_jchar_decimal(cp) < 0 && !letter) return false;
            continue;
        }
        if (value < 0 && cp >= 0x80) return false;
        if (n + 1 >= cap || cp == 0) return false;
        digit = value >= 0 || letter;
        out[n++] = value >= 0 ? (char)('0' + value) : (char)cp;
    }
    out[n] = 0;
    return n > 0;
}

bool wr_jparse_int(wr_jrun *run, wr_jstr *s, int64_t base, int64_t *out, bool *valid) {
    char text[400], *p = text;
    *valid = false;
    if (base != 0 && (base < 2 || base > 36)) return true;
    if (!plain_number(s, text, sizeof text)) return true;
    bool minus = *p == '-';
    if (*p == '-' || *p == '+') p++;
    char x = p[0] == '0' ? (char)(p[1] | 0x20) : 0;
    int64_t named = x == 'x' ? 16 : x == 'o' ? 8 : x == 'b' ? 2 : 0;
    if (named && (base == 0 || base == named)) {
        base = named;
        p += 2;
    } else if (base == 0) {
        base = 10;
        if (p[0] == '0' && strspn(p, "0") != strlen(p)) return true;
    }
    uint64_t value = 0;
    if (!*p) return true;
    for (; *p; p++) {
        int digit = *p >= '0' && *p <= '9'                     ? *p - '0'
                    : (*p | 0x20) >= 'a' && (*p | 0x20) <= 'z' ? (*p | 0x20) - 'a' + 10
                                                               : 99;
        if (digit >= base) return true;
        if (__builtin_mul_overflow(value, (uint64_t)base, &value) ||
            __builtin_add_overflow(value, (uint64_t)digit, &value))
            value = UINT64_MAX;
    }
    if (value > (uint64_t)INT64_MAX + minus) return wr_jint_too_large(run);
    *out = (int64_t)(minus ? 0 - value : value);
    *valid = true;
    return true;
}

bool wr_jparse_float(wr_jrun *run, wr_jstr *s, double *out, bool *valid) {
    char text[400], *end;
    (void)run;
    *valid = false;
    if (!plain_number(s, text, sizeof text)) return true;
    const char *p = text + (*text == '-' || *text == '+');
    /* strtod also reads hexadecimal and nan(...), which Python does not. */
    bool word = strcasecmp(p, "inf") == 0 || strcasecmp(p, "infinity") == 0 || strcasecmp(p, "nan") == 0;
    if (!word && strspn(p, "0123456789.eE+-") != strlen(p)) return true;
    *out = strtod(text, &end);
    *valid = *end == 0 && end != text;
    return true;
}
