/* The model of tokenizer.json: BPE, Unigram, WordPiece and WordLevel. */
#include <math.h>

#include "base/mem.h"
#include "text/fields.h"
#include "text/open_json.h"

static weir_status no_memory(weir_error *err) { return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a tokenizer"); }

/* The token named by model.unk_token; -1 when there is no such field. */
static weir_status read_unk(weir_tokenizer *tok, const json_t *model, weir_error *err) {
    const char *text = NULL;
    size_t bytes = 0;
    char shown[72];
    WR_TRY(wr_field_string(model, "model", "unk_token", &text, &bytes, err));
    if (!text) return WEIR_OK;
    tok->unk = wr_vocab_find(&tok->vocab, text, bytes);
    if (tok->unk >= 0) return WEIR_OK;
    return WR_FAIL(err, WEIR_E_FORMAT, "model.unk_token \"%s\" is not in model.vocab",
                   wr_vocab_show(text, bytes, shown));
}

/* ---- Vocabularies ---------------------------------------------------------- */

static unsigned piece_flags(const char *piece, size_t bytes) {
    return wr_vocab_byte_value((const uint8_t *)piece, bytes) >= 0 ? WR_TOKEN_BYTE : 0;
}

/* {"piece": id, ...} */
static weir_status read_ids(weir_tokenizer *tok, wr_json_reader *r, weir_error *err) {
    bool more;
    WR_TRY(wr_json_enter(r, '{', err));
    for (;;) {
        const char *piece;
        size_t bytes;
        int64_t id;
        WR_TRY(wr_json_more(r, '}', &more, err));
        if (!more) return wr_json_end(r, err);
        WR_TRY(wr_json_key(r, &piece, &bytes, err));
        unsigned flags = piece_flags(piece, bytes);
        WR_TRY(wr_json_int(r, &id, err)); /* does not touch piece */
        WR_TRY(wr_vocab_append(&tok->vocab, id, piece, bytes, flags, err));
    }
}

/* [["piece", score], ...]; the place is the id. */
static weir_status read_scores(weir_tokenizer *tok, wr_json_reader *r, double *scores, size_t n, weir_error *err) {
    bool more;
    WR_TRY(wr_json_enter(r, '[', err));
    for (size_t id = 0;; id++) {
        const char *piece;
        size_t bytes;
        double score;
        WR_TRY(wr_json_more(r, ']', &more, err));
        if (!more) return wr_json_end(r, err);
        WR_TRY(wr_json_enter(r, '[', err));
        WR_TRY(wr_json_more(r, ']', &more, err));
        WR_TRY(wr_json_string(r, &piece, &bytes, err));
        WR_TRY(wr_json_more(r, ']', &more, err));
        WR_TRY(wr_json_number(r, &score, err)); /* does not touch piece */
        WR_TRY(wr_json_more(r, ']', &more, err));
        if (more || id >= n) return WR_FAIL(err, WEIR_E_FORMAT, "model.vocab[%zu] is not [piece, score]", id);
        WR_TRY(wr_vocab_append(&tok->vocab, (int64_t)id, piece, bytes, piece_flags(piece, bytes), err));
        scores[id] = score;
    }
}

/* scores NULL: an object of ids. */
static weir_status read_vocab(weir_tokenizer *tok, const char *text, wr_json_span span, size_t n_added, double *scores,
                              weir_error *err) {
    wr_json_reader r;
    if (span.n == 0) {
        return WR_FAIL(err, WEIR_E_FORMAT, "model.vocab is %s", span.end > span.begin ? "empty" : "missing");
    }
    WR_TRY(wr_vocab_init(&tok->vocab, span.n + n_added, 0, err));
    weir_status st = wr_json_reader_init(&r, text, span, "model.vocab", err);
    if (st == WEIR_OK) st = scores ? read_scores(tok, &r, scores, span.n, err) : read_ids(tok, &r, err);
    wr_json_reader_deinit(&r);
    return st == WEIR_OK ? wr_vocab_link_all(&tok->vocab, err) : st;
}

/* ---- BPE -------------------------------------------------------------------- */

/* Where merges are read; the left half is copied, since reading the right one may move it. */
typedef struct merge_reader {
    const wr_vocab *v;
    wr_json_reader r;
    uint8_t *joined;
    size_t cap, n_front; /* bytes that the right half loses: continuing_subword_prefix */
    int32_t guess;       /* of the next joined piece: trainers number them in the order of merges */
} merge_reader;

static weir_status join(merge_reader *m, size_t i, const char *a, size_t na, const char *b, size_t nb, wr_merge *out,
                        weir_error *err) {
    char sa[72], sb[72];
    size_t skip = m->n_front < nb ? m->n_front : nb;
    if (!wr_grow(&m->joined, &m->cap, na + nb + 1, 1)) return no_memory(err);
    if (a != (const char *)m->joined) memcpy(m->joined, a, na);
    memcpy(m->joined + na, b + skip, nb - skip);
    out->left = wr_vocab_find(m->v, m->joined, na);
    out->right = wr_vocab_find(m->v, b, nb);
    out->joined = wr_vocab_find_near(m->v, m->guess, m->joined, na + nb - skip);
    m->guess = out->joined + 1;
    if (out->left >= 0 && out->right >= 0 && out->joined >= 0) return WEIR_OK;
    const char *which = out->left < 0 ? "first piece" : out->right < 0 ? "second piece" : "result";
    return WR_FAIL(err, WEIR_E_FORMAT, "model.merges[%zu] joins \"%s\" and \"%s\": its %s is not in model.vocab", i,
                   wr_vocab_show(m->joined, na, sa), wr_vocab_show(b, nb, sb), which);
}

/* "left right" or ["left", "right"]. */
static weir_status read_merge(merge_reader *m, size_t i, wr_merge *out, weir_error *err) {
    const char *a, *b;
    size_t na, nb;
    bool more;
    char shown[72];
    if (wr_json_peek(&m->r) == '"') {
        WR_TRY(wr_json_string(&m->r, &a, &na, err));
        b = memchr(a, ' ', na);
        if (!b || memchr(b + 1, ' ', na - (size_t)(b - a) - 1)) {
            return WR_FAIL(err, WEIR_E_FORMAT, "model.merges[%zu] \"%s\" is not two pieces with one space between", i,
                           wr_vocab_show(a, na, shown));
        }
        nb = na - (size_t)(b - a) - 1;
        return join(m, i, a, (size_t)(b - a), b + 1, nb, out, err);
    }
    if (wr_json_peek(&m->r) != '[') {
        return WR_FAIL(err, WEIR_E_FORMAT, "model.merges[%zu] is neither a string nor a pair", i);
    }
    WR_TRY(wr_json_enter(&m->r, '[', err));
    WR_TRY(wr_json_more(&m->r, ']', &more, err));
    WR_TRY(wr_json_string(&m->r, &a, &na, err));
    if (!wr_grow(&m->joined, &m->cap, na + 1, 1)) return no_memory(err);
    memcpy(m->joined, a, na);
    WR_TRY(wr_json_more(&m->r, ']', &more, err));
    WR_TRY(wr_json_string(&m->r, &b, &nb, err));
    WR_TRY(wr_json_more(&m->r, ']', &more, err));
    if (more) return WR_FAIL(err, WEIR_E_FORMAT, "model.merges[%zu] is not two strings", i);
    if (!wr_grow(&m->joined, &m->cap, na + nb + 1, 1)) return no_memory(err);
    return join(m, i, (const char *)m->joined, na, b, nb, out, err);
}

static weir_status read_all_merges(merge_reader *m, wr_merge *merges, size_t n, weir_error *err) {
    bool more;
    WR_TRY(wr_json_enter(&m->r, '[', err));
    for (size_t i = 0;; i++) {
        WR_TRY(wr_json_more(&m->r, ']', &more, err));
        if (!more) return wr_json_end(&m->r, err);
        if (i >= n) return WR_FAIL(err, WEIR_E_FORMAT, "model.merges is malformed");
        WR_TRY(read_merge(m, i, &merges[i], err));
    }
}

static weir_status read_merges(weir_tokenizer *tok, const char *text, wr_json_span span, weir_error *err) {
    if (span.begin == span.end) return WR_FAIL(err, WEIR_E_FORMAT, "model.merges is missing");
    if (span.n > WR_VOCAB_MAX) {
        return WR_FAIL(err, WEIR_E_LIMIT, "model.merges has %zu entries, at most %d are allowed", span.n, WR_VOCAB_MAX);
    }
    merge_reader m = {.v = &tok->vocab, .n_front = tok->bpe.n_front, .guess = -1};
    wr_merge *merges = wr_malloc((span.n + 1) * sizeof *merges);
    weir_status st = merges ? wr_json_reader_init(&m.r, text, span, "model.merges", err) : no_memory(err);
    if (st == WEIR_OK) st = read_all_merges(&m, merges, span.n, err);
    wr_json_reader_deinit(&m.r);
    wr_free(m.joined);
    if (st == WEIR_OK) return wr_bpe_take_merges(&tok->bpe, merges, span.n, err);
    wr_free(merges);
    return st;
}

/* One of the texts round a word's characters; empty is none. */
static weir_status read_affix(const json_t *model, const char *key, char **text, size_t *bytes, weir_error *err) {
    const json_t *value = json_object_get(model, key);
    if (!value || json_is_null(value)) return WEIR_OK;
    WR_TRY(wr_tok_keep_field(model, "model", key, text, bytes, err));
    if (*bytes) return WEIR_OK;
    wr_free(*text);
    *text = NULL;
    return WEIR_OK;
}

static weir_status read_bpe(weir_tokenizer *tok, const json_t *model, const char *text, wr_json_span vocab,
                            wr_json_span merges, size_t n_added, weir_error *err) {
    wr_bpe *bpe = &tok->bpe;
    WR_TRY(wr_field_only(model, "model",
                         "type dropout unk_token continuing_subword_prefix end_of_word_suffix fuse_unk byte_fallback "
                         "ignore_merges vocab merges",
                         err));
    const json_t *dropout = json_object_get(model, "dropout");
    if (dropout && !json_is_null(dropout) && !(json_is_number(dropout) && json_number_value(dropout) == 0)) {
        return WR_FAIL(err, WEIR_E_UNSUPPORTED, "model.dropout is not supported; it makes encoding random");
    }
    WR_TRY(read_affix(model, "continuing_subword_prefix", &bpe->front, &bpe->n_front, err));
    WR_TRY(read_affix(model, "end_of_word_suffix", &bpe->back, &bpe->n_back, err));
    WR_TRY(wr_field_bool(model, "model", "fuse_unk", &bpe->fuse_unk, err));
    WR_TRY(wr_field_bool(model, "model", "byte_fallback", &bpe->byte_fallback, err));
    WR_TRY(wr_field_bool(model, "model", "ignore_merges", &bpe->ignore_merges, err));
    WR_TRY(read_vocab(tok, text, vocab, n_added, NULL, err));
    WR_TRY(read_unk(tok, model, err));
    bpe->unk = tok->unk;
    /* Words that are spelled in the byte-level alphabet last of all need not be: the
     * model can go from their bytes. */
    if (tok->n_cut && tok->cut[tok->n_cut - 1].kind == WR_CUT_BYTE_LEVEL) {
        tok->n_cut--;
        bpe->bytes = true;
    }
    return read_merges(tok, text, merges, err);
}

/* ---- The others --------------------------------------------------------------- */

static weir_status read_unigram(weir_tokenizer *tok, const json_t *model, const char *text, wr_json_span vocab,
                                size_t n_added, weir_error *err) {
    int64_t unk = -1;
    double min_score = INFINITY;
    wr_unigram *u = &tok->unigram;
    tok->kind = WR_MODEL_UNIGRAM;
    WR_TRY(wr_field_only(model, "model", "type unk_id byte_fallback vocab", err));
    WR_TRY(wr_field_int(model, "model", "unk_id", &unk, err));
    WR_TRY(wr_field_bool(model, "model", "byte_fallback", &u->byte_fallback, err));
    if (unk < -1 || (unk >= 0 && (uint64_t)unk >= vocab.n)) {
        return WR_FAIL(err, WEIR_E_FORMAT, "model.unk_id is %lld, the vocabulary has %zu tokens", (long long)unk,
                       vocab.n);
    }
    double *scores = wr_calloc(vocab.n + 1, sizeof *scores);
    weir_status st = scores ? read_vocab(tok, text, vocab, n_added, scores, err) : no_memory(err);
    if (st != WEIR_OK) {
        wr_free(scores);
        return st;
    }
    for (size_t i = 0; i < tok->vocab.n; i++) {
        if (scores[i] < min_score) min_score = scores[i];
    }
    tok->unk = u->unk = (int32_t)unk;
    return wr_unigram_take_scores(u, scores, min_score, 0, err);
}

static weir_status read_words(weir_tokenizer *tok, const json_t *model, bool whole, const char *text,
                              wr_json_span vocab, size_t n_added, weir_error *err) {
    const char *prefix = "##";
    size_t bytes = 2;
    int64_t max_chars = 100;
    wr_wordpiece *w = &tok->wordpiece;
    tok->kind = WR_MODEL_WORDPIECE;
    w->whole = whole;
    WR_TRY(wr_field_only(model, "model",
                         whole ? "type unk_token vocab"
                               : "type unk_token continuing_subword_prefix max_input_chars_per_word vocab",
                         err));
    WR_TRY(wr_field_string(model, "model", "continuing_subword_prefix", &prefix, &bytes, err));
    WR_TRY(wr_field_int(model, "model", "max_input_chars_per_word", &max_chars, err));
    if (max_chars < 0) return WR_FAIL(err, WEIR_E_FORMAT, "model.max_input_chars_per_word is negative");
    WR_TRY(read_vocab(tok, text, vocab, n_added, NULL, err));
    WR_TRY(read_unk(tok, model, err));
    w->unk = tok->unk;
    w->max_chars = (size_t)max_chars;
    return wr_wordpiece_init(w, prefix, bytes, err);
}

weir_status wr_tok_read_model(weir_tokenizer *tok, const json_t *model, const char *text, wr_json_span vocab,
                              wr_json_span merges, size_t n_added, weir_error *err) {
    const char *type = NULL;
    size_t bytes;
    WR_TRY(wr_field_string(model, "model", "type", &type, &bytes, err));
    /* The oldest files have no type: those with merges are BPE, a list is Unigram's. */
    if (!type) type = vocab.n && text[vocab.begin] == '[' ? "Unigram" : "BPE";
    if (!json_is_null(json_object_get(model, "vocab")) && json_object_get(model, "vocab")) {
        return WR_FAIL(err, WEIR_E_FORMAT, "model.vocab could not be read; write its key without escapes");
    }
    if (wr_tok_is(type, "BPE")) return read_bpe(tok, model, text, vocab, merges, n_added, err);
    if (wr_tok_is(type, "Unigram")) return read_unigram(tok, model, text, vocab, n_added, err);
    if (wr_tok_is(type, "WordPiece")) return read_words(tok, model, false, text, vocab, n_added, err);
    if (wr_tok_is(type, "WordLevel")) return read_words(tok, model, true, text, vocab, n_added, err);
    return wr_tok_unsupported("model", type, err);
}
