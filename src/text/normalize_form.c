/* Unicode's normal forms. The text is cut into runs at places that no composition
 * crosses: in front of an ASCII character, and at the borders of grapheme clusters.
 *
 * Where a character came from is kept as Hugging Face's library keeps it: each
 * character of the result says how many of the old ones it uses up (the first of a
 * decomposition one, the others none, a composition the sum of its parts), and has the
 * place of the first that it uses, or else of the last that was used. */
#include <string.h>

#include <utf8proc.h>

#include "base/mem.h"
#include "text/normalize.h"
#include "text/unicode.h"
#include "text/unicode_reference.h"

typedef struct item {
    utf8proc_int32_t cp;
    uint16_t uses; /* old characters */
    uint8_t class; /* combining class */
} item;

typedef struct run {
    item *at, *sorted;
    size_t n, cap, sorted_cap;
} run;

static uint8_t combining_class(utf8proc_int32_t cp) { return (uint8_t)utf8proc_get_property(cp)->combining_class; }

/* Canonical order: a stable sort of every stretch of marks by combining class. By
 * counting, since a stretch may be as long as the text. */
static bool order_marks(run *r) {
    for (size_t i = 0; i < r->n;) {
        if (r->at[i].class == 0) {
            i++;
            continue;
        }
        size_t begin = i, count[256] = {0}, sum = 0;
        bool sorted = true;
        for (int last = 0; i < r->n; i++) {
            int c = r->at[i].class;
            if (c == 0) break;
            if (c < last) sorted = false;
            last = c;
            count[c]++;
        }
        if (sorted) continue;
        if (!wr_grow(&r->sorted, &r->sorted_cap, i - begin, sizeof *r->sorted)) return false;
        for (int c = 0; c < 256; c++) {
            size_t here = count[c];
            count[c] = sum;
            sum += here;
        }
        for (size_t k = begin; k < i; k++) r->sorted[count[r->at[k].class]++] = r->at[k];
        memcpy(r->at + begin, r->sorted, (i - begin) * sizeof *r->at);
    }
    return true;
}

/* The composition of two characters; 0 when they have none. */
static utf8proc_int32_t compose_pair(utf8proc_int32_t a, utf8proc_int32_t b) {
    utf8proc_int32_t pair[2] = {a, b};
    return utf8proc_normalize_utf32(pair, 2, UTF8PROC_STABLE | UTF8PROC_COMPOSE) == 1 ? pair[0] : 0;
}

/* Join every character with the last starter unless something between them blocks it. */
static void compose(run *r) {
    size_t out = 0, starter = SIZE_MAX;
    int last = 0; /* class of the character before, 0 right behind the starter */
    for (size_t i = 0; i < r->n; i++) {
        item x = r->at[i];
        int c = x.class;
        bool beside = out == starter + 1;
        /* `uses` of a starter stays small: only so many marks compose, but a run may be hostile. */
        if (starter != SIZE_MAX && (beside || (last < c && last != 0)) && r->at[starter].uses < UINT16_MAX) {
            utf8proc_int32_t joined = compose_pair(r->at[starter].cp, x.cp);
            if (joined) {
                r->at[starter].cp = joined;
                r->at[starter].uses = (uint16_t)(r->at[starter].uses + x.uses);
                continue;
            }
        }
        if (c == 0) starter = out;
        last = c;
        r->at[out++] = x;
    }
    r->n = out;
}

static bool decompose(const wr_norm_step *step, const wr_view *v, size_t begin, size_t end, run *r) {
    int options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (step->compatible ? UTF8PROC_COMPAT : 0);
    r->n = 0;
    for (size_t i = begin; i < end;) {
        uint32_t cp;
        utf8proc_int32_t parts[32]; /* the longest decomposition, of U+FDFA, has 18 characters */
        int boundclass = 0;
        i += (size_t)wr_utf8_get(v->data + i, &cp);
        bool inert = !step->newest && (wr_reference_unknown(cp) & WR_REFERENCE_FORM);
        utf8proc_ssize_t n = -1;
        if (!inert) n = utf8proc_decompose_char((utf8proc_int32_t)cp, parts, 32, options, &boundclass);
        if (n < 0 || n > 32) { /* inert; for a scalar value nothing else is possible */
            parts[0] = (utf8proc_int32_t)cp;
            n = 1;
        }
        if (!wr_grow(&r->at, &r->cap, r->n + (size_t)n, sizeof *r->at)) return false;
        for (utf8proc_ssize_t k = 0; k < n; k++) {
            r->at[r->n++] = (item){parts[k], k == 0, inert ? 0 : combining_class(parts[k])};
        }
    }
    return true;
}

/* Normalise bytes [begin, end) of v, which nothing outside combines with. */
static bool form_run(const wr_norm_step *step, const wr_view *v, size_t begin, size_t end, run *r, wr_text *out) {
    if (!decompose(step, v, begin, end, r) || !order_marks(r)) return false;
    if (step->compose) compose(r);
    size_t at = begin; /* the next old character */
    wr_range last = begin ? wr_view_range(v, begin - 1, begin) : (wr_range){0, 0};
    for (size_t i = 0; i < r->n; i++) {
        uint8_t utf8[4];
        size_t k = (size_t)wr_utf8_put((uint32_t)r->at[i].cp, utf8);
        wr_range from = last;
        for (unsigned used = 0; used < r->at[i].uses; used++) {
            uint32_t cp;
            size_t n = (size_t)wr_utf8_get(v->data + at, &cp);
            last = wr_view_range(v, at, at + n);
            if (used == 0) from = last;
            at += n;
        }
        if (!wr_text_add(out, utf8, k, from)) return false;
    }
    return true;
}

/* A character may be compatible with one that composes with what is before it though the
 * character itself begins a cluster: the letters of U+3131... with Hangul's jamo. */
static bool joins_when_compatible(uint32_t cp) {
    utf8proc_int32_t parts[32];
    int boundclass = 0;
    int options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
    utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)cp, parts, 32, options, &boundclass);
    if (n < 1 || n > 32) return false;
    bool jamo = (parts[0] >= 0x1161 && parts[0] <= 0x1175) || (parts[0] >= 0x11A8 && parts[0] <= 0x11C2);
    return jamo || combining_class(parts[0]) != 0;
}

/* End of the run that begins at a character that is not followed by ASCII alone. */
static size_t run_end(const wr_norm_step *step, const wr_view *v, size_t begin) {
    uint32_t cp, next;
    size_t end = begin + (size_t)wr_utf8_get(v->data + begin, &cp);
    utf8proc_int32_t state = 0;
    while (end < v->n && v->data[end] >= 0x80) {
        size_t k = (size_t)wr_utf8_get(v->data + end, &next);
        /* A mark always belongs to what is before it, also where it does not
         * extend the cluster in this table's opinion. */
        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)cp, (utf8proc_int32_t)next, &state) &&
            combining_class((utf8proc_int32_t)next) == 0 && !(step->compatible && joins_when_compatible(next))) {
            break;
        }
        cp = next;
        end += k;
    }
    return end;
}

bool wr_norm_form(const wr_norm_step *step, const wr_view *v, wr_text *out, bool *changed) {
    size_t i = 0;
    while (i < v->n && v->data[i] < 0x80) i++;
    *changed = i < v->n;
    if (!*changed) return true;
    size_t begin = i > 0 ? i - 1 : 0;
    if (!wr_text_add_part(out, v, 0, begin)) return false;
    run r = {0};
    bool ok = true;
    while (ok && begin < v->n) {
        size_t plain = begin; /* ASCII up to the last character before something else */
        while (plain < v->n && v->data[plain] < 0x80 && (plain + 1 == v->n || v->data[plain + 1] < 0x80)) plain++;
        ok = wr_text_add_part(out, v, begin, plain);
        begin = plain;
        if (!ok || begin == v->n) break;
        size_t end = run_end(step, v, begin);
        ok = form_run(step, v, begin, end, &r, out);
        begin = end;
    }
    wr_free(r.at);
    wr_free(r.sorted);
    return ok;
}
