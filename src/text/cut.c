/* A step turns the list of pieces into a finer one. The three steps that also change
 * the text write it anew, piece by piece. */
#include "text/cut.h"

#include <string.h>

#include "base/mem.h"
#include "text/unicode.h"

void wr_cut_step_deinit(wr_cut_step *step) {
    wr_regex_close(step->regex);
    wr_free(step->find);
    *step = (wr_cut_step){0};
}

void wr_cut_scratch_deinit(wr_cut_scratch *s) {
    wr_text_deinit(&s->buffers[0]);
    wr_text_deinit(&s->buffers[1]);
    wr_free(s->pieces.at);
    wr_free(s->spare.at);
    wr_free(s->matches.at);
    wr_regex_scratch_deinit(&s->regex);
    *s = (wr_cut_scratch){0};
}

static bool char_matches(wr_cut_kind kind, uint32_t cp) {
    switch (kind) {
    case WR_CUT_NUMBERS: return wr_char_is_number(cp);
    case WR_CUT_PUNCTUATION: return wr_char_is_punctuation(cp);
    default: return wr_char_is_space(cp);
    }
}

/* Matches of the step inside one piece, in absolute positions. */
static weir_status find_matches(const wr_cut_step *step, const wr_view *v, wr_piece piece, wr_cut_scratch *s,
                                weir_error *err) {
    s->matches.n = 0;
    const uint8_t *p = v->data + piece.begin;
    size_t n = piece.end - piece.begin;
    bool ok = true;
    if (step->kind == WR_CUT_REGEX) {
        WR_TRY(wr_regex_find_all(step->regex, &s->regex, p, n, &s->matches, err));
        for (size_t i = 0; i < s->matches.n; i++) {
            s->matches.at[i].begin += piece.begin;
            s->matches.at[i].end += piece.begin;
        }
    } else if (step->kind == WR_CUT_TEXT || step->kind == WR_CUT_METASPACE) {
        ok = wr_pieces_find(&s->matches, v->data, piece.begin, piece.end, step->find, step->find_bytes);
    } else if (step->kind == WR_CUT_LENGTH) {
        for (size_t i = 0, begin = 0, chars = 0; ok && i < n; begin = i, chars = 0) {
            uint32_t cp;
            while (i < n && chars++ < step->length) i += (size_t)wr_utf8_get(p + i, &cp);
            ok = wr_pieces_add(&s->matches, piece.begin + begin, piece.begin + i);
        }
    } else {
        for (size_t i = 0; ok && i < n;) {
            uint32_t cp;
            size_t k = (size_t)wr_utf8_get(p + i, &cp);
            if (char_matches(step->kind, cp)) ok = wr_pieces_add(&s->matches, piece.begin + i, piece.begin + i + k);
            i += k;
        }
    }
    return ok ? WEIR_OK : WR_FAIL(err, WEIR_E_MEMORY, "no memory to cut a text of %zu bytes", v->n);
}

/* The segments of one piece, match or not, arrive in order. */
typedef struct cutter {
    wr_pieces *out;
    wr_cut_rule rule;
    size_t first; /* out->n when the piece began */
    bool invert, previous_match;
    bool held; /* WITH_NEXT: a match waits for what follows */
    size_t held_begin, held_end;
} cutter;

static bool add_segment(cutter *c, size_t begin, size_t end, bool is_match) {
    if (c->invert) is_match = !is_match;
    wr_pieces *out = c->out;
    bool previous = c->previous_match, join = false;
    c->previous_match = is_match;
    switch (c->rule) {
    case WR_CUT_ISOLATED: break;
    case WR_CUT_REMOVED:
        if (is_match) return true;
        break;
    case WR_CUT_WITH_PREVIOUS: join = is_match && !previous; break;
    case WR_CUT_CONTIGUOUS: join = is_match == previous; break;
    case WR_CUT_WITH_NEXT:
        if (c->held) {
            c->held = false;
            if (is_match) {
                if (!wr_pieces_add(out, c->held_begin, c->held_end)) return false;
            } else {
                begin = c->held_begin;
            }
        }
        if (is_match) {
            c->held = true;
            c->held_begin = begin;
            c->held_end = end;
            return true;
        }
        break;
    }
    if (join && out->n > c->first) {
        out->at[out->n - 1].end = end;
        return true;
    }
    return wr_pieces_add(out, begin, end);
}

static bool cut_piece(const wr_cut_step *step, wr_piece piece, const wr_pieces *matches, wr_pieces *out) {
    cutter c = {.out = out, .rule = step->rule, .first = out->n, .invert = step->invert};
    if (step->kind == WR_CUT_METASPACE) c.rule = WR_CUT_WITH_NEXT;
    size_t at = piece.begin;
    for (size_t i = 0; i < matches->n; i++) {
        wr_piece m = matches->at[i];
        if (at != m.begin && !add_segment(&c, at, m.begin, false)) return false;
        if (!add_segment(&c, m.begin, m.end, true)) return false;
        at = m.end;
    }
    if (at != piece.end && !add_segment(&c, at, piece.end, false)) return false;
    if (c.held && !wr_pieces_add(out, c.held_begin, c.held_end)) return false;
    size_t keep = c.first;
    for (size_t i = c.first; i < out->n; i++) {
        if (out->at[i].end > out->at[i].begin) out->at[keep++] = out->at[i];
    }
    out->n = keep;
    return true;
}

static bool starts_with(const wr_view *v, wr_piece piece, const char *text, size_t n) {
    return piece.end - piece.begin >= n && memcmp(v->data + piece.begin, text, n) == 0;
}

/* One piece with what SPACE_FRONT or METASPACE put in front of it, and METASPACE's
 * spelling of spaces. */
static bool rewrite_spaces(const wr_cut_step *step, const wr_view *v, wr_piece piece, bool may_lead, wr_text *out) {
    bool meta = step->kind == WR_CUT_METASPACE;
    const char *front = meta ? step->find : " ";
    size_t front_bytes = meta ? step->find_bytes : 1, at = piece.begin;
    bool has = starts_with(v, piece, " ", 1) || (meta && starts_with(v, piece, front, front_bytes));
    if (may_lead && !has) {
        uint32_t cp;
        size_t k = (size_t)wr_utf8_get(v->data + at, &cp);
        if (!wr_text_add(out, front, front_bytes, wr_view_range(v, at, at + k))) return false;
    }
    while (meta && at < piece.end) {
        const uint8_t *space = memchr(v->data + at, ' ', piece.end - at);
        if (!space) break;
        size_t k = (size_t)(space - v->data);
        if (!wr_text_add_part(out, v, at, k)) return false;
        if (!wr_text_add(out, step->find, step->find_bytes, wr_view_range(v, k, k + 1))) return false;
        at = k + 1;
    }
    return wr_text_add_part(out, v, at, piece.end);
}

static bool rewrite_bytes(const wr_view *v, wr_piece piece, wr_text *out) {
    for (size_t i = piece.begin; i < piece.end;) {
        uint32_t cp;
        uint8_t spelled[8];
        size_t k = (size_t)wr_utf8_get(v->data + i, &cp), m = wr_bytes_spell(v->data + i, k, spelled);
        if (!wr_text_add(out, spelled, m, wr_view_range(v, i, i + k))) return false;
        i += k;
    }
    return true;
}

/* Write the text of all pieces anew into out, as the step wants it. */
static bool rewrite(const wr_cut_step *step, wr_view *v, bool starts_text, wr_text *out, wr_pieces *pieces) {
    out->n = 0;
    for (size_t i = 0; i < pieces->n; i++) {
        wr_piece *piece = &pieces->at[i];
        size_t begin = out->n;
        bool lead = step->kind != WR_CUT_METASPACE || step->front == WR_FRONT_ALWAYS ||
                    (step->front == WR_FRONT_FIRST && starts_text && i == 0 && piece->begin == 0);
        if (!(step->kind == WR_CUT_BYTE_LEVEL ? rewrite_bytes(v, *piece, out)
                                              : rewrite_spaces(step, v, *piece, lead, out))) {
            return false;
        }
        *piece = (wr_piece){begin, out->n};
    }
    *v = wr_text_view(out);
    return true;
}

weir_status wr_cut(const wr_cut_step *steps, size_t n, wr_view *v, bool starts_text, wr_cut_scratch *s,
                   weir_error *err) {
    int use = 0;
    s->pieces.n = 0;
    if (v->n && !wr_pieces_add(&s->pieces, 0, v->n)) goto memory;
    for (size_t i = 0; i < n; i++) {
        const wr_cut_step *step = &steps[i];
        bool rewrites = step->kind >= WR_CUT_SPACE_FRONT;
        if (rewrites) {
            if (!rewrite(step, v, starts_text, &s->buffers[use], &s->pieces)) goto memory;
            use ^= 1;
            if (step->kind != WR_CUT_METASPACE || !step->split) continue;
        }
        s->spare.n = 0;
        for (size_t k = 0; k < s->pieces.n; k++) {
            WR_TRY(find_matches(step, v, s->pieces.at[k], s, err));
            if (!cut_piece(step, s->pieces.at[k], &s->matches, &s->spare)) goto memory;
        }
        wr_pieces swap = s->pieces;
        s->pieces = s->spare;
        s->spare = swap;
    }
    return WEIR_OK;
memory:
    return WR_FAIL(err, WEIR_E_MEMORY, "no memory to cut a text of %zu bytes", v->n);
}
