/* Each step reads one view and writes one text. A step that changes nothing (most
 * text is in composed form already) leaves the view alone. */
#include "text/normalize.h"

#include <string.h>

#include "base/mem.h"
#include "text/unicode.h"

void wr_norm_step_deinit(wr_norm_step *step) {
    wr_free(step->find);
    wr_free(step->put);
    wr_regex_close(step->regex);
    if (step->map) wr_charsmap_deinit(step->map);
    wr_free(step->map);
    *step = (wr_norm_step){0};
}

static weir_status step_replace(const wr_norm_step *step, const wr_view *v, wr_text *out, bool *changed,
                                wr_regex_scratch *scratch, weir_error *err) {
    wr_pieces found = {0};
    weir_status st = WEIR_OK;
    bool ok = true;
    if (step->regex) {
        st = wr_regex_find_all(step->regex, scratch, v->data, v->n, &found, err);
    } else {
        ok = wr_pieces_find(&found, v->data, 0, v->n, step->find, step->find_bytes);
    }
    size_t at = 0;
    for (size_t i = 0; st == WEIR_OK && ok && i < found.n; i++) {
        wr_piece hit = found.at[i];
        wr_range from = {0, 0};
        if (hit.end > hit.begin) {
            from = wr_view_range(v, wr_utf8_back(v->data, hit.end), hit.end);
        } else if (hit.begin > 0) {
            from = wr_view_range(v, hit.begin - 1, hit.begin);
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
        case WR_NORM_FORM: ok = wr_norm_form(&steps[i], v, out, &changed); break;
        case WR_NORM_PRECOMPILED: ok = wr_norm_precompiled(&steps[i], v, out, &changed); break;
        case WR_NORM_SENTENCEPIECE: ok = wr_norm_sentencepiece(&steps[i], v, out, &changed); break;
        case WR_NORM_REPLACE: WR_TRY(step_replace(&steps[i], v, out, &changed, scratch, err)); break;
        case WR_NORM_PREPEND: {
            uint32_t cp;
            wr_range from = wr_view_range(v, 0, (size_t)wr_utf8_get(v->data, &cp));
            changed = true;
            ok = wr_text_add(out, steps[i].put, steps[i].put_bytes, from) && wr_text_add_part(out, v, 0, v->n);
            break;
        }
        case WR_NORM_STRIP: step_strip(&steps[i], v); break;
        default: ok = wr_norm_chars(&steps[i], v, out, &changed); break;
        }
        if (!ok) return WR_FAIL(err, WEIR_E_MEMORY, "no memory to normalise a text of %zu bytes", v->n);
        if (changed) {
            *v = wr_text_view(out);
            use ^= 1;
        }
    }
    return WEIR_OK;
}
