/* SentencePiece's compiled rules, in the two ways that published models use them. */
#include <string.h>

#include <utf8proc.h>

#include "text/normalize.h"
#include "text/unicode.h"

/* ---- As Hugging Face does --------------------------------------------------- */

/* A grapheme cluster below this size is looked up as a whole first. */
enum { CLUSTER_BYTES_MAX = 6 };

static size_t cluster_end(const wr_view *v, size_t begin) {
    uint32_t cp, next;
    utf8proc_int32_t state = 0;
    size_t end = begin + (size_t)wr_utf8_get(v->data + begin, &cp);
    while (end < v->n) {
        /* Two ASCII characters are two clusters, but for CR LF. */
        if (cp < 0x80 && v->data[end] < 0x80 && !(cp == '\r' && v->data[end] == '\n')) break;
        size_t k = (size_t)wr_utf8_get(v->data + end, &next);
        if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)cp, (utf8proc_int32_t)next, &state)) break;
        cp = next;
        end += k;
    }
    return end;
}

/* The shortest rule that [begin, end) starts with replaces all of it. */
static bool replace(const wr_norm_step *step, const wr_view *v, size_t begin, size_t end, wr_text *out, bool *done,
                    bool *changed) {
    size_t used;
    const char *text = wr_charsmap_shortest(step->map, v->data + begin, end - begin, &used);
    *done = text != NULL;
    if (!text) return true;
    *changed = true;
    uint32_t cp;
    size_t n = strlen(text);
    /* Where several characters become one, it has the place of the first. */
    bool one = n && wr_utf8_get((const uint8_t *)text, &cp) == (int)n;
    if (one) end = begin + (size_t)wr_utf8_get(v->data + begin, &cp);
    return wr_text_add(out, text, n, wr_view_range(v, begin, end));
}

bool wr_norm_precompiled(const wr_norm_step *step, const wr_view *v, wr_text *out, bool *changed) {
    for (size_t i = 0; i < v->n;) {
        size_t plain = i; /* characters that no rule and no cluster can concern */
        while (plain < v->n && v->data[plain] < 0x80 && (plain + 1 == v->n || v->data[plain + 1] < 0x80) &&
               !wr_charsmap_has_ascii(step->map, v->data[plain])) {
            plain++;
        }
        if (!wr_text_add_part(out, v, i, plain)) return false;
        i = plain;
        if (i == v->n) break;
        size_t end = cluster_end(v, i);
        bool done = false;
        if (end - i < CLUSTER_BYTES_MAX && !replace(step, v, i, end, out, &done, changed)) return false;
        while (!done && i < end) {
            uint32_t cp;
            size_t k = (size_t)wr_utf8_get(v->data + i, &cp);
            bool replaced;
            if (!replace(step, v, i, i + k, out, &replaced, changed)) return false;
            if (!replaced && !wr_text_add_part(out, v, i, i + k)) return false;
            i += k;
        }
        i = end;
    }
    return true;
}

/* ---- As SentencePiece does -------------------------------------------------- */

/* What the text at `at` becomes, and how many bytes of it that concerns. */
static const uint8_t *prefix(const wr_norm_step *step, const wr_view *v, size_t at, size_t *n, size_t *used) {
    const uint8_t *p = v->data + at;
    size_t atom = step->atoms ? wr_added_longest(step->atoms, p, v->n - at) : 0;
    if (atom) {
        *n = *used = atom;
        return p;
    }
    const char *text = step->map ? wr_charsmap_longest(step->map, p, v->n - at, used) : NULL;
    if (text) {
        *n = strlen(text);
        return (const uint8_t *)text;
    }
    uint32_t cp;
    *n = *used = (size_t)wr_utf8_get(p, &cp);
    return p;
}

static bool add_space(const wr_norm_step *step, wr_text *out, wr_range from) {
    return step->escape ? wr_text_add(out, WR_METASPACE, WR_METASPACE_BYTES, from) : wr_text_add(out, " ", 1, from);
}

static wr_range place(const wr_view *v, size_t at) {
    wr_range r = at < v->n ? wr_view_range(v, at, at + 1) : wr_view_range(v, v->n - 1, v->n);
    if (at < v->n) {
        r.end = r.begin;
    } else {
        r.begin = r.end;
    }
    return r;
}

/* What goes belongs to the character before it. */
static void extend_last(wr_text *out, uint32_t end) {
    if (!out->with_map) return;
    for (size_t i = out->n, first = out->n ? wr_utf8_back(out->data, out->n) : 0; i > first;) out->map[--i].end = end;
}

bool wr_norm_sentencepiece(const wr_norm_step *step, const wr_view *v, wr_text *out, bool *changed) {
    size_t at = 0, n, used;
    *changed = true;
    while (step->squeeze && at < v->n) {
        const uint8_t *text = prefix(step, v, at, &n, &used);
        if (n != 1 || text[0] != ' ') break;
        at += used;
    }
    if (at == v->n) return true; /* nothing but spaces */
    if (step->dummy_prefix && !step->suffix && !add_space(step, out, place(v, at))) return false;
    bool after_space = step->squeeze;
    while (at < v->n) {
        const uint8_t *text = prefix(step, v, at, &n, &used);
        wr_range from = wr_view_range(v, at, at + used);
        while (after_space && n && *text == ' ') text++, n--;
        for (size_t i = 0; i < n;) {
            size_t k = i;
            while (k < n && text[k] != ' ') k++;
            if (!wr_text_add(out, text + i, k - i, from)) return false;
            if (k < n && !add_space(step, out, from)) return false;
            i = k + 1;
        }
        if (n) after_space = step->squeeze && text[n - 1] == ' ';
        if (!n) extend_last(out, from.end);
        at += used;
    }
    const char *space = step->escape ? WR_METASPACE : " ";
    size_t space_bytes = strlen(space);
    while (step->squeeze && out->n >= space_bytes &&
           memcmp(out->data + out->n - space_bytes, space, space_bytes) == 0) {
        out->n -= space_bytes;
    }
    return !step->dummy_prefix || !step->suffix || add_space(step, out, place(v, v->n));
}
