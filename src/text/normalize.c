/* Each step reads one view and writes one text. A step that changes nothing (most
 * text is in composed form already) leaves the view alone. */
#include "text/normalize.h"

#include <string.h>

#include <utf8proc.h>

#include "base/mem.h"
#include "text/unicode.h"

void wr_norm_step_deinit(wr_norm_step *step) {
    wr_free(step->find);
    wr_free(step->put);
    wr_regex_close(step->regex);
    *step = (wr_norm_step){0};
}

typedef struct run {
    utf8proc_int32_t *cp;
    size_t n, cap;
    utf8proc_int32_t *sorted;
    size_t sorted_cap;
} run;

static int combining_class(utf8proc_int32_t cp) { return utf8proc_get_property(cp)->combining_class; }

/* Canonical order: a stable sort of every stretch of marks by combining class. By
 * counting, since a stretch may be as long as the text. */
static bool order_marks(run *r) {
    for (size_t i = 0; i < r->n;) {
        if (combining_class(r->cp[i]) == 0) {
            i++;
            continue;
        }
        size_t begin = i, count[256] = {0}, sum = 0;
        bool sorted = true;
        for (int last = 0; i < r->n; i++) {
            int c = combining_class(r->cp[i]);
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
        for (size_t k = begin; k < i; k++) r->sorted[count[combining_class(r->cp[k])]++] = r->cp[k];
        memcpy(r->cp + begin, r->sorted, (i - begin) * sizeof *r->cp);
    }
    return true;
}

/* Normalise bytes [begin, end) of v, which nothing outside combines with. */
static bool form_run(const wr_norm_step *step, const wr_view *v, size_t begin, size_t end, run *r, wr_text *out) {
    int options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (step->compatible ? UTF8PROC_COMPAT : 0);
    r->n = 0;
    for (size_t i = begin; i < end;) {
        uint32_t cp;
        i += (size_t)wr_utf8_get(v->data + i, &cp);
        int boundclass = 0;
        /* The longest decomposition, of U+FDFA, has 18 characters. */
        if (!wr_grow(&r->cp, &r->cap, r->n + 32, sizeof *r->cp)) return false;
        utf8proc_ssize_t n = utf8proc_decompose_char((utf8proc_int32_t)cp, r->cp + r->n, 32, options, &boundclass);
        if (n < 0 || n > 32) { /* not possible for a scalar value */
            r->cp[r->n] = (utf8proc_int32_t)cp;
            n = 1;
        }
        r->n += (size_t)n;
    }
    if (!order_marks(r)) return false;
    if (step->compose) {
        utf8proc_ssize_t n =
            utf8proc_normalize_utf32(r->cp, (utf8proc_ssize_t)r->n, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        if (n >= 0) r->n = (size_t)n;
    }
    /* Unchanged text keeps its exact origin. */
    size_t old = out->n, same = begin;
    wr_range from = wr_view_range(v, begin, end);
    bool equal = true;
    for (size_t i = 0; i < r->n; i++) {
        uint8_t utf8[4];
        size_t k = (size_t)wr_utf8_put((uint32_t)r->cp[i], utf8);
        if (equal && end - same >= k && memcmp(v->data + same, utf8, k) == 0) {
            same += k;
        } else {
            equal = false;
        }
        if (!wr_text_add(out, utf8, k, from)) return false;
    }
    if (equal && same == end) {
        out->n = old;
        return wr_text_add_part(out, v, begin, end);
    }
    return true;
}

/* Cut the text into runs at places that no composition crosses: in front of an
 * ASCII character, and at the borders of grapheme clusters. */
static bool step_form(const wr_norm_step *step, const wr_view *v, wr_text *out, bool *changed) {
    size_t i = 0;
    while (i < v->n && v->data[i] < 0x80) i++;
    if (i == v->n) return true;
    *changed = true;
    size_t begin = i > 0 ? i - 1 : 0;
    if (!wr_text_add_part(out, v, 0, begin)) return false;
    run r = {0};
    bool ok = true;
    while (ok && begin < v->n) {
        uint32_t cp, next;
        size_t end = begin + (size_t)wr_utf8_get(v->data + begin, &cp);
        if (cp < 0x80 && (end == v->n || v->data[end] < 0x80)) {
            ok = wr_text_add_part(out, v, begin, end);
            begin = end;
            continue;
        }
        utf8proc_int32_t state = 0;
        while (end < v->n && v->data[end] >= 0x80) {
            size_t k = (size_t)wr_utf8_get(v->data + end, &next);
            /* A mark always belongs to what is before it, also where it does not
             * extend the cluster in this table's opinion. */
            if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)cp, (utf8proc_int32_t)next, &state) &&
                combining_class((utf8proc_int32_t)next) == 0) {
                break;
            }
            cp = next;
            end += k;
        }
        ok = form_run(step, v, begin, end, &r, out);
        begin = end;
    }
    wr_free(r.cp);
    wr_free(r.sorted);
    return ok;
}

static bool step_lowercase(const wr_view *v, wr_text *out, bool *changed) {
    *changed = true;
    for (size_t i = 0; i < v->n;) {
        uint32_t cp;
        size_t k = (size_t)wr_utf8_get(v->data + i, &cp);
        uint32_t lower = (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
        uint8_t utf8[8];
        size_t m = (size_t)wr_utf8_put(lower, utf8);
        if (cp == 0x130) { /* the one character whose full lower case has two */
            memcpy(utf8, "i\xCC\x87", 3);
            m = 3;
        }
        bool ok = lower == cp && cp != 0x130 ? wr_text_add_part(out, v, i, i + k)
                                             : wr_text_add(out, utf8, m, wr_view_range(v, i, i + k));
        if (!ok) return false;
        i += k;
    }
    return true;
}

static weir_status step_replace(const wr_norm_step *step, const wr_view *v, wr_text *out, bool *changed,
                                wr_regex_scratch *scratch, weir_error *err) {
    wr_pieces found = {0};
    weir_status st = WEIR_OK;
    if (step->regex) {
        st = wr_regex_find_all(step->regex, scratch, v->data, v->n, &found, err);
    } else {
        for (size_t i = 0; step->find_bytes && i + step->find_bytes <= v->n;) {
            const uint8_t *hit = memchr(v->data + i, step->find[0], v->n - i - step->find_bytes + 1);
            if (!hit) break;
            i = (size_t)(hit - v->data);
            if (memcmp(hit, step->find, step->find_bytes) != 0) {
                i++;
                continue;
            }
            if (!wr_pieces_add(&found, i, i + step->find_bytes)) {
                st = WR_FAIL(err, WEIR_E_MEMORY, "no memory to normalise a text of %zu bytes", v->n);
                break;
            }
            i += step->find_bytes;
        }
    }
    size_t at = 0;
    bool ok = true;
    for (size_t i = 0; st == WEIR_OK && ok && i < found.n; i++) {
        wr_piece hit = found.at[i];
        wr_range from = {0, 0};
        if (hit.end > hit.begin) {
            from = wr_view_range(v, hit.begin, hit.end);
        } else if (v->n) {
            from = hit.begin < v->n ? wr_view_range(v, hit.begin, hit.begin + 1) : wr_view_range(v, v->n - 1, v->n);
            if (hit.begin < v->n) from.end = from.begin;
        }
        ok = wr_text_add_part(out, v, at, hit.begin) && wr_text_add(out, step->put, step->put_bytes, from);
        at = hit.end;
        *changed = true;
    }
    if (st == WEIR_OK && ok && *changed) ok = wr_text_add_part(out, v, at, v->n);
    wr_free(found.at);
    if (st == WEIR_OK && !ok) st = WR_FAIL(err, WEIR_E_MEMORY, "no memory to normalise a text of %zu bytes", v->n);
    return st;
}

static void step_strip(const wr_norm_step *step, wr_view *v) {
    size_t begin = 0, end = v->n;
    uint32_t cp;
    while (step->left && begin < end) {
        size_t k = (size_t)wr_utf8_get(v->data + begin, &cp);
        if (!wr_char_is_space(cp)) break;
        begin += k;
    }
    while (step->right && end > begin) {
        size_t back = wr_utf8_back(v->data, end);
        wr_utf8_get(v->data + back, &cp);
        if (!wr_char_is_space(cp)) break;
        end = back;
    }
    *v = wr_view_part(v, begin, end);
}

weir_status wr_normalize(const wr_norm_step *steps, size_t n, wr_view *v, wr_text buffers[2], wr_regex_scratch *scratch,
                         weir_error *err) {
    int use = 0;
    for (size_t i = 0; i < n && v->n; i++) {
        wr_text *out = &buffers[use];
        bool changed = false, ok = true;
        out->n = 0;
        switch (steps[i].kind) {
        case WR_NORM_FORM: ok = step_form(&steps[i], v, out, &changed); break;
        case WR_NORM_LOWERCASE: ok = step_lowercase(v, out, &changed); break;
        case WR_NORM_REPLACE: WR_TRY(step_replace(&steps[i], v, out, &changed, scratch, err)); break;
        case WR_NORM_PREPEND: {
            wr_range from = wr_view_range(v, 0, 1);
            from.end = from.begin;
            changed = true;
            ok = wr_text_add(out, steps[i].put, steps[i].put_bytes, from) && wr_text_add_part(out, v, 0, v->n);
            break;
        }
        case WR_NORM_STRIP: step_strip(&steps[i], v); break;
        }
        if (!ok) return WR_FAIL(err, WEIR_E_MEMORY, "no memory to normalise a text of %zu bytes", v->n);
        if (changed) {
            *v = wr_text_view(out);
            use ^= 1;
        }
    }
    return WEIR_OK;
}
