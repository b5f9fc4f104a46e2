/* Text to ids: repair, find added tokens, normalise, cut into words, give each word to
 * the model, add BOS and EOS. Everything an encoding needs is its own, so threads share
 * only the tokenizer. */
#include <string.h>

#include "base/mem.h"
#include "text/tok.h"
#include "text/unicode.h"

#define TEXT_MAX ((size_t)1 << 30)

typedef struct encoder {
    const weir_tokenizer *tok;
    unsigned flags;
    wr_ids out;
    size_t n_front, n_back; /* tokens of out that were added */
    wr_text repaired, norm[2];
    wr_cut_scratch cut;
    wr_regex_scratch regex;
    wr_bpe_scratch bpe;
    wr_unigram_scratch unigram;
} encoder;

static void encoder_init(encoder *e, const weir_tokenizer *tok, unsigned flags, bool with_spans) {
    *e = (encoder){.tok = tok, .flags = flags};
    e->out.with_map = e->repaired.with_map = e->norm[0].with_map = e->norm[1].with_map = with_spans;
    e->cut.buffers[0].with_map = e->cut.buffers[1].with_map = with_spans;
}

static void encoder_deinit(encoder *e) {
    wr_ids_deinit(&e->out);
    wr_text_deinit(&e->repaired);
    wr_text_deinit(&e->norm[0]);
    wr_text_deinit(&e->norm[1]);
    wr_cut_scratch_deinit(&e->cut);
    wr_regex_scratch_deinit(&e->regex);
    wr_bpe_scratch_deinit(&e->bpe);
    wr_unigram_scratch_deinit(&e->unigram);
}

/* Make *v valid UTF-8: every maximal invalid part becomes one U+FFFD. */
static weir_status repair(encoder *e, wr_view *v, weir_error *err) {
    size_t i = wr_utf8_valid(v->data, v->n);
    if (i == v->n) return WEIR_OK;
    bool ok = wr_text_add_part(&e->repaired, v, 0, i);
    while (ok && i < v->n) {
        uint32_t cp;
        int step = wr_utf8_step(v->data + i, v->n - i, &cp);
        size_t bad = step < 0 ? (size_t)-step : v->n - i; /* 0: cut off at the end */
        ok = wr_text_add(&e->repaired, "\xEF\xBF\xBD", 3, wr_view_range(v, i, i + bad));
        i += bad;
        size_t good = wr_utf8_valid(v->data + i, v->n - i);
        ok = ok && wr_text_add_part(&e->repaired, v, i, i + good);
        i += good;
    }
    if (!ok) return WR_FAIL(err, WEIR_E_MEMORY, "no memory to encode a text of %zu bytes", v->n);
    *v = wr_text_view(&e->repaired);
    return WEIR_OK;
}

static weir_status encode_word(encoder *e, const wr_view *v, size_t begin, size_t end, weir_error *err) {
    const weir_tokenizer *tok = e->tok;
    switch (tok->kind) {
    case WR_MODEL_UNIGRAM: return wr_unigram_word(&tok->unigram, &e->unigram, v, begin, end, &e->out, err);
    case WR_MODEL_WORDPIECE: return wr_wordpiece_word(&tok->wordpiece, v, begin, end, &e->out, err);
    default: return wr_bpe_word(&tok->bpe, &e->bpe, v, begin, end, &e->out, err);
    }
}

/* Normalised text without added tokens. */
static weir_status encode_words(encoder *e, wr_view v, bool starts_text, weir_error *err) {
    const weir_tokenizer *tok = e->tok;
    if (tok->n_cut == 0) return encode_word(e, &v, 0, v.n, err);
    WR_TRY(wr_cut(tok->cut, tok->n_cut, &v, starts_text, &e->cut, err));
    for (size_t i = 0; i < e->cut.pieces.n; i++) {
        wr_piece p = e->cut.pieces.at[i];
        WR_TRY(encode_word(e, &v, p.begin, p.end, err));
    }
    return WEIR_OK;
}

typedef weir_status (*encode_rest)(encoder *e, wr_view v, bool starts_text, weir_error *err);

/* Find the tokens of `added` in v and give everything between them to rest. */
static weir_status encode_around(encoder *e, const wr_added *added, wr_view v, bool starts_text, encode_rest rest,
                                 weir_error *err) {
    size_t done = 0, from = 0, begin, end;
    int32_t id;
    bool special = e->flags & WEIR_ENCODE_PARSE_SPECIAL;
    while (wr_added_next(added, &v, special, done, &from, &begin, &end, &id)) {
        if (begin > done) WR_TRY(rest(e, wr_view_part(&v, done, begin), starts_text && done == 0, err));
        if (!wr_ids_add(&e->out, id, wr_view_range(&v, begin, end))) {
            return WR_FAIL(err, WEIR_E_MEMORY, "no memory to encode a text of %zu bytes", v.n);
        }
        done = end;
    }
    if (done < v.n) WR_TRY(rest(e, wr_view_part(&v, done, v.n), starts_text && done == 0, err));
    return WEIR_OK;
}

static weir_status encode_raw(encoder *e, wr_view v, bool starts_text, weir_error *err) {
    const weir_tokenizer *tok = e->tok;
    WR_TRY(wr_normalize(tok->norm, tok->n_norm, &v, e->norm, &e->regex, err));
    return encode_around(e, &tok->normalized, v, starts_text, encode_words, err);
}

/* ---- Spans ---------------------------------------------------------------- */

static size_t next_char(const char *text, size_t bytes, size_t at) {
    uint32_t cp;
    int k = wr_utf8_step((const uint8_t *)text + at, bytes - at, &cp);
    return k > 0 ? at + (size_t)k : k < 0 ? at + (size_t)-k : bytes;
}

static size_t previous_char(const char *text, size_t at) {
    size_t back = wr_utf8_back((const uint8_t *)text, at);
    return at - back > 4 ? at - 1 : back;
}

/* White space at the start or the end of a piece, in characters. */
static size_t count_spaces(const weir_tokenizer *tok, int32_t id, bool front) {
    const uint8_t *p = wr_vocab_piece(&tok->vocab, id);
    size_t n = wr_vocab_length(&tok->vocab, id), count = 0;
    for (size_t at = front ? 0 : n; front ? at < n : at > 0; count++) {
        uint32_t cp;
        size_t begin = front ? at : wr_utf8_back(p, at);
        size_t k = (size_t)wr_utf8_get(p + begin, &cp);
        if (cp != wr_byte_to_char(' ') && !wr_char_is_space(cp)) break;
        at = front ? begin + k : begin;
    }
    return count;
}

static void trim_span(const weir_tokenizer *tok, int32_t id, bool first, const char *text, size_t bytes,
                      weir_token_span *span) {
    size_t front = count_spaces(tok, id, true), back = count_spaces(tok, id, false);
    /* The space that was put in front of the text is not in the text. */
    if (front == 1 && tok->front_space && (first || span->begin == 0)) front = 0;
    for (; front && span->begin < span->end; front--) span->begin = next_char(text, bytes, span->begin);
    if (span->begin > span->end) span->begin = span->end;
    for (; back && span->end > span->begin; back--) span->end = previous_char(text, span->end);
    if (span->end < span->begin) span->end = span->begin;
}

/* Spans of the caller's text from what the tokens are known to have come from. */
static void find_spans(const encoder *e, const char *text, size_t bytes, weir_token_span *spans) {
    bool valid = e->repaired.n == 0;
    for (size_t i = 0; i < e->out.n; i++) {
        weir_token_span span = {e->out.from[i].begin, e->out.from[i].end};
        /* A part of a character has the place of the whole. */
        while (valid && span.begin > 0 && span.begin < bytes && (text[span.begin] & 0xC0) == 0x80) span.begin--;
        while (valid && span.end < bytes && (text[span.end] & 0xC0) == 0x80) span.end++;
        bool affix = i < e->n_front || i >= e->out.n - e->n_back;
        if (e->tok->trim_spans && !affix) trim_span(e->tok, e->out.id[i], i == e->n_front, text, bytes, &span);
        spans[i] = span;
    }
}

/* ---- All together ----------------------------------------------------------- */

static bool ids_equal(const int32_t *a, const int32_t *b, size_t n) { return memcmp(a, b, n * sizeof *a) == 0; }

/* BOS and EOS, unless the text has them already. */
static bool add_affixes(encoder *e, size_t text_bytes) {
    const weir_tokenizer *tok = e->tok;
    wr_ids *out = &e->out;
    size_t np = tok->n_prefix, ns = tok->n_suffix, n = out->n;
    bool front = np && !(n >= np && ids_equal(out->id, tok->prefix, np));
    bool back = ns && !(n >= ns && ids_equal(out->id + n - ns, tok->suffix, ns));
    wr_range end = {(uint32_t)text_bytes, (uint32_t)text_bytes};
    e->n_front = front ? np : 0;
    e->n_back = back ? ns : 0;
    for (size_t i = 0; front && i < np; i++) {
        if (!wr_ids_add(out, 0, (wr_range){0, 0})) return false;
    }
    if (front) {
        if (n) memmove(out->id + np, out->id, n * sizeof *out->id);
        memcpy(out->id, tok->prefix, np * sizeof *out->id);
        if (out->with_map) {
            if (n) memmove(out->from + np, out->from, n * sizeof *out->from);
            memset(out->from, 0, np * sizeof *out->from);
        }
    }
    for (size_t i = 0; back && i < ns; i++) {
        if (!wr_ids_add(out, tok->suffix[i], end)) return false;
    }
    return true;
}

static weir_status encode(encoder *e, const char *text, size_t bytes, weir_error *err) {
    if (bytes > TEXT_MAX) {
        return WR_FAIL(err, WEIR_E_LIMIT, "a text of %zu bytes is longer than the %zu that can be encoded at once",
                       bytes, TEXT_MAX);
    }
    if (bytes && !text) return WR_FAIL(err, WEIR_E_ARGUMENT, "text is NULL but has %zu bytes", bytes);
    wr_view v = {.data = (const uint8_t *)text, .n = bytes};
    WR_TRY(repair(e, &v, err));
    WR_TRY(encode_around(e, &e->tok->raw, v, true, encode_raw, err));
    if ((e->flags & WEIR_ENCODE_ADD_SPECIAL) && !add_affixes(e, bytes)) {
        return WR_FAIL(err, WEIR_E_MEMORY, "no memory to encode a text of %zu bytes", bytes);
    }
    return WEIR_OK;
}

weir_status weir_tokenizer_encode(const weir_tokenizer *tok, const char *text, size_t bytes, unsigned flags,
                                  int32_t *ids, size_t cap, size_t *n, weir_error *err) {
    encoder e;
    *n = 0;
    encoder_init(&e, tok, flags, false);
    weir_status st = encode(&e, text, bytes, err);
    if (st == WEIR_OK) {
        *n = e.out.n;
        size_t give = e.out.n < cap ? e.out.n : cap;
        if (ids && give) memcpy(ids, e.out.id, give * sizeof *ids);
        if (ids && cap < e.out.n) {
            st = WR_FAIL(err, WEIR_E_LIMIT, "the text has %zu tokens, there is room for %zu", e.out.n, cap);
        }
    }
    encoder_deinit(&e);
    return st;
}

weir_status weir_tokenizer_encode_new(const weir_tokenizer *tok, const char *text, size_t bytes, unsigned flags,
                                      bool with_spans, weir_encoding *out, weir_error *err) {
    encoder e;
    *out = (weir_encoding){0};
    encoder_init(&e, tok, flags, with_spans);
    weir_status st = encode(&e, text, bytes, err);
    if (st == WEIR_OK && e.out.n) {
        if (with_spans) {
            out->spans = wr_malloc(e.out.n * sizeof *out->spans);
            if (!out->spans) st = WR_FAIL(err, WEIR_E_MEMORY, "no memory to encode a text of %zu bytes", bytes);
        }
        if (st == WEIR_OK) {
            if (with_spans) find_spans(&e, text, bytes, out->spans);
            out->ids = e.out.id;
            out->n = e.out.n;
            e.out.id = NULL; /* it is the caller's now */
        }
    }
    encoder_deinit(&e);
    return st;
}

void weir_encoding_deinit(weir_encoding *encoding) {
    if (!encoding) return;
    wr_free(encoding->ids);
    wr_free(encoding->spans);
    *encoding = (weir_encoding){0};
}
