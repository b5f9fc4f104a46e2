/* Each step reads one text and writes another. */
#include "text/decode_rules.h"

#include <string.h>

#include "base/mem.h"
#include "text/unicode.h"
#include "text/work.h"

enum { BLOB_MAX = 1 << 28 };

void wr_decode_rules_deinit(wr_decode_rules *rules) {
    for (size_t i = 0; i < rules->n_steps; i++) {
        wr_free(rules->steps[i].find);
        wr_free(rules->steps[i].put);
        wr_regex_close(rules->steps[i].regex);
    }
    wr_free(rules->place[0]);
    wr_free(rules->place[1]);
    wr_free(rules->blob);
    wr_free(rules->owes);
    *rules = (wr_decode_rules){0};
}

size_t wr_decode_rules_heap_bytes(const wr_decode_rules *rules) {
    size_t n = rules->place[0] ? rules->n : 0;
    return rules->blob_cap + n * sizeof **rules->place * (rules->place[1] ? 2 : 1) + (rules->owes ? rules->n : 0);
}

/* The text that goes through the steps, and the memory of the next one. */
typedef struct piece {
    wr_text text, next;
    wr_pieces found;
    wr_regex_scratch regex;
} piece;

static const wr_range nowhere = {0, 0};

static void flip(piece *p) {
    wr_text swap = p->text;
    p->text = p->next;
    p->next = swap;
}

static bool add(wr_text *t, const void *bytes, size_t n) { return wr_text_add(t, bytes, n, nowhere); }

static bool starts(const wr_text *t, size_t at, const char *what, size_t n) {
    return t->n - at >= n && memcmp(t->data + at, what, n) == 0;
}

static bool replace(piece *p, const char *find, size_t n_find, const char *put, size_t n_put) {
    /* Most pieces have nothing of the kind, and stay where they are. */
    if (!n_find || !p->text.n || !memmem(p->text.data, p->text.n, find, n_find)) return true;
    p->next.n = 0;
    for (size_t i = 0; i < p->text.n;) {
        bool hit = starts(&p->text, i, find, n_find);
        if (!(hit ? add(&p->next, put, n_put) : add(&p->next, p->text.data + i, 1))) return false;
        i += hit ? n_find : 1;
    }
    flip(p);
    return true;
}

static weir_status replace_matches(piece *p, const wr_decode_step *step, weir_error *err) {
    size_t at = 0;
    p->found.n = p->next.n = 0;
    WR_TRY(wr_regex_find_all(step->regex, &p->regex, p->text.data, p->text.n, &p->found, err));
    bool ok = true;
    for (size_t i = 0; ok && i < p->found.n; i++) {
        ok = add(&p->next, p->text.data + at, p->found.at[i].begin - at) && add(&p->next, step->put, step->put_bytes);
        at = p->found.at[i].end;
    }
    if (ok) ok = p->text.n == at || add(&p->next, p->text.data + at, p->text.n - at);
    if (!ok) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the decoder");
    flip(p);
    return WEIR_OK;
}

/* What the reference takes away between English words, in its order. */
static bool clean_up(piece *p) {
    static const char *const pairs[][2] = {{" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
                                           {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
                                           {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    if (p->text.n && !memchr(p->text.data, ' ', p->text.n)) return true;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (!replace(p, pairs[i][0], strlen(pairs[i][0]), pairs[i][1], strlen(pairs[i][1]))) return false;
    }
    return true;
}

static bool word_piece(piece *p, const wr_decode_step *step, bool first) {
    if (!first) {
        bool inner = starts(&p->text, 0, step->find, step->find_bytes);
        size_t skip = inner ? step->find_bytes : 0;
        p->next.n = 0;
        if (!inner && !add(&p->next, " ", 1)) return false;
        if (!add(&p->next, p->text.data + skip, p->text.n - skip)) return false;
        flip(p);
    }
    return !step->cleanup || clean_up(p);
}

static void strip(wr_text *t, const wr_decode_step *step) {
    size_t begin = 0, end = t->n;
    uint32_t cp;
    for (uint32_t i = 0; i < step->start && begin < end; i++) {
        size_t k = (size_t)wr_utf8_get(t->data + begin, &cp);
        if (cp != step->strip_char) break;
        begin += k;
    }
    for (uint32_t i = 0; i < step->stop && begin < end; i++) {
        size_t back = wr_utf8_back(t->data, end);
        wr_utf8_get(t->data + back, &cp);
        if (cp != step->strip_char) break;
        end = back;
    }
    if (begin) memmove(t->data, t->data + begin, end - begin);
    t->n = end - begin;
}

static weir_status apply(piece *p, const wr_decode_step *step, bool first, bool *owes, weir_error *err) {
    bool ok = true;
    switch (step->kind) {
    case WR_DECODE_REPLACE:
        if (step->regex) return replace_matches(p, step, err);
        ok = replace(p, step->find, step->find_bytes, step->put, step->put_bytes);
        break;
    case WR_DECODE_METASPACE:
        ok = replace(p, step->find, step->find_bytes, " ", first && step->drop_in_first ? 0 : 1);
        break;
    case WR_DECODE_WORDPIECE: ok = word_piece(p, step, first); break;
    case WR_DECODE_SUFFIX: {
        size_t n = p->text.n, m = step->find_bytes;
        if (n >= m && m && starts(&p->text, n - m, step->find, m)) {
            p->text.n -= m;
            *owes = true;
        }
        for (size_t i = 0; m && i < p->text.n; i++) {
            if (starts(&p->text, i, step->find, m)) {
                return WR_FAIL(err, WEIR_E_UNSUPPORTED, "decoder: a piece with the suffix \"%.40s\" inside",
                               step->find);
            }
        }
        break;
    }
    case WR_DECODE_STRIP: strip(&p->text, step); break;
    case WR_DECODE_CTC:
        ok = replace(p, step->find, step->find_bytes, "", 0) &&
             (!step->cleanup || (clean_up(p) && replace(p, step->put, step->put_bytes, " ", 1)));
        break;
    }
    return ok ? WEIR_OK : WR_FAIL(err, WEIR_E_MEMORY, "no memory for the decoder");
}

static weir_status store(wr_decode_rules *rules, const wr_vocab *v, piece *p, int32_t id, bool first, weir_error *err) {
    bool owes = false;
    p->text.n = 0;
    if (!add(&p->text, wr_vocab_piece(v, id), wr_vocab_length(v, id))) {
        return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the decoder");
    }
    bool byte = rules->byte_fallback && (v->flags[id] & WR_TOKEN_BYTE);
    for (size_t i = 0; i < rules->n_steps && !byte; i++) WR_TRY(apply(p, &rules->steps[i], first, &owes, err));
    size_t n = p->text.n;
    if (rules->blob_bytes + n > BLOB_MAX) {
        return WR_FAIL(err, WEIR_E_LIMIT, "decoder: the texts of all tokens are longer than %d bytes", BLOB_MAX);
    }
    if (!wr_grow(&rules->blob, &rules->blob_cap, rules->blob_bytes + n + 1, 1)) {
        return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the decoder");
    }
    if (n) memcpy(rules->blob + rules->blob_bytes, p->text.data, n);
    rules->place[first][id] = (wr_vocab_place){(uint32_t)rules->blob_bytes, (uint32_t)n};
    rules->blob_bytes += n;
    if (n > rules->max_bytes) rules->max_bytes = n;
    if (rules->owes) rules->owes[id] = owes;
    return WEIR_OK;
}

weir_status wr_decode_rules_finish(wr_decode_rules *rules, const wr_vocab *v, weir_error *err) {
    bool first = false, suffix = false;
    rules->max_bytes = v->max_piece_bytes;
    rules->n = v->n;
    if (rules->n_steps == 0) return WEIR_OK;
    for (size_t i = 0; i < rules->n_steps; i++) {
        first |= rules->steps[i].drop_in_first || rules->steps[i].kind == WR_DECODE_WORDPIECE;
        suffix |= rules->steps[i].kind == WR_DECODE_SUFFIX;
    }
    rules->place[0] = wr_calloc(v->n, sizeof **rules->place);
    if (first) rules->place[1] = wr_calloc(v->n, sizeof **rules->place);
    if (suffix) rules->owes = wr_calloc(v->n, 1);
    bool ok = rules->place[0] && (!first || rules->place[1]) && (!suffix || rules->owes) &&
              wr_grow(&rules->blob, &rules->blob_cap, v->blob_bytes + 1, 1);
    if (!ok) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the decoder of %zu tokens", v->n);
    piece p = {0};
    weir_status st = WEIR_OK;
    for (size_t id = 0; id < v->n && st == WEIR_OK; id++) {
        if (!(v->flags[id] & WR_TOKEN_USED)) continue;
        st = store(rules, v, &p, (int32_t)id, false, err);
        if (first && st == WEIR_OK) st = store(rules, v, &p, (int32_t)id, true, err);
    }
    wr_text_deinit(&p.text);
    wr_text_deinit(&p.next);
    wr_free(p.found.at);
    wr_regex_scratch_deinit(&p.regex);
    return st;
}
