/* Control pieces are found in the text as it is, user-defined ones in the normalised
 * text: for BPE nothing is joined across them, for Unigram they score so high that they
 * are taken. */
#include "text/sentencepiece.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "text/unicode.h"

static weir_status no_memory(weir_error *err) { return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a tokenizer"); }

weir_status wr_piece_flags(int32_t kind, const char *piece, size_t bytes, size_t id, unsigned *flags, weir_error *err) {
    *flags = 0;
    switch (kind) {
    case WR_PIECE_NORMAL:
    case WR_PIECE_USER: return WEIR_OK;
    case WR_PIECE_UNKNOWN:
    case WR_PIECE_CONTROL: *flags = WR_TOKEN_SPECIAL; return WEIR_OK;
    case WR_PIECE_UNUSED: *flags = WR_TOKEN_UNUSED; return WEIR_OK;
    case WR_PIECE_BYTE:
        *flags = WR_TOKEN_BYTE;
        if (wr_vocab_byte_value((const uint8_t *)piece, bytes) >= 0) return WEIR_OK;
        return WR_FAIL(err, WEIR_E_FORMAT, "token %zu is said to be a byte, but its piece is not like <0xAB>", id);
    default:
        return WR_FAIL(err, WEIR_E_FORMAT, "token %zu has the type %d, known are 1 to %d", id, kind,
                       WR_PIECE_KINDS - 1);
    }
}

/* Where user-defined pieces are looked for, spaces are U+2581 already; a file may have
 * them with spaces. */
static weir_status add_user_piece(weir_tokenizer *tok, int32_t id, wr_added *to, weir_error *err) {
    const uint8_t *piece = wr_vocab_piece(&tok->vocab, id);
    wr_text spelled = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < wr_vocab_length(&tok->vocab, id); i++) {
        ok = piece[i] == ' ' ? wr_text_add(&spelled, WR_METASPACE, WR_METASPACE_BYTES, (wr_range){0, 0})
                             : wr_text_add(&spelled, piece + i, 1, (wr_range){0, 0});
    }
    tok->vocab.flags[id] |= WR_TOKEN_ADDED;
    weir_status st = ok ? wr_added_add(to, id, spelled.data, spelled.n, 0, err) : no_memory(err);
    wr_text_deinit(&spelled);
    return st;
}

/* user: where user-defined pieces are found; NULL = in the text as it is. */
static weir_status add_kinds(weir_tokenizer *tok, const int32_t *kinds, wr_added *user, weir_error *err) {
    for (size_t i = 0; kinds && i < tok->vocab.n; i++) {
        int32_t kind = wr_piece_kind_at(kinds, i);
        if (kind != WR_PIECE_UNKNOWN && kind != WR_PIECE_CONTROL && kind != WR_PIECE_USER) continue;
        size_t bytes = wr_vocab_length(&tok->vocab, (int32_t)i);
        if (wr_utf8_valid(wr_vocab_piece(&tok->vocab, (int32_t)i), bytes) != bytes) {
            return WR_FAIL(err, WEIR_E_FORMAT, "the piece of token %zu (control or user-defined) is not UTF-8", i);
        }
        if (kind == WR_PIECE_USER && user) {
            WR_TRY(add_user_piece(tok, (int32_t)i, user, err));
        } else {
            WR_TRY(wr_tok_add_added(tok, (int32_t)i, kind == WR_PIECE_USER ? 0 : WR_ADDED_SPECIAL, err));
        }
    }
    return WEIR_OK;
}

weir_status wr_tok_add_piece_kinds(weir_tokenizer *tok, const int32_t *kinds, weir_error *err) {
    return add_kinds(tok, kinds, NULL, err);
}

static weir_status set_normalizer(weir_tokenizer *tok, const wr_piece_model *m, weir_error *err) {
    wr_norm_step *step = wr_tok_add_norm(tok);
    if (!step) return no_memory(err);
    step->kind = WR_NORM_SENTENCEPIECE;
    step->dummy_prefix = m->dummy_prefix;
    step->squeeze = m->squeeze;
    step->escape = m->escape;
    step->suffix = m->suffix;
    step->atoms = &tok->atoms;
    if (!m->rules_bytes) return WEIR_OK;
    step->map = wr_calloc(1, sizeof *step->map);
    return step->map ? wr_charsmap_init(step->map, m->rules, m->rules_bytes, err) : no_memory(err);
}

static weir_status set_decoder(weir_tokenizer *tok, const wr_piece_model *m, weir_error *err) {
    tok->decode.byte_fallback = m->byte_fallback;
    tok->decode.strip_char = ' ';
    if (m->suffix && m->dummy_prefix) tok->decode.n_strip_end = 1;
    if (!m->suffix && m->dummy_prefix) tok->decode.n_strip = 1;
    if (m->squeeze) tok->decode.n_strip = UINT32_MAX; /* no text began with spaces */
    return wr_tok_decode_metaspace(tok, err);
}

static weir_status set_bpe(weir_tokenizer *tok, const wr_piece_model *m, weir_error *err) {
    wr_bpe *bpe = &tok->bpe;
    bpe->byte_fallback = m->byte_fallback;
    bpe->fuse_unk = true;
    bpe->unk = m->unk;
    bpe->scores = wr_malloc(tok->vocab.n * sizeof *bpe->scores);
    if (!bpe->scores) return no_memory(err);
    bpe->n_scores = tok->vocab.n;
    memcpy(bpe->scores, m->scores, bpe->n_scores * sizeof *bpe->scores);
    return WEIR_OK;
}

/* A user-defined piece gets a tenth for each byte behind its first, where scores of other
 * pieces are logarithms of probabilities. */
static weir_status set_unigram(weir_tokenizer *tok, const wr_piece_model *m, weir_error *err) {
    size_t n = tok->vocab.n;
    float lowest = FLT_MAX; /* of normal pieces */
    double *scores = wr_malloc(n * sizeof *scores);
    if (!scores) return no_memory(err);
    for (size_t i = 0; i < n; i++) {
        int32_t kind = wr_piece_kind_at(m->kinds, i);
        scores[i] = (double)m->scores[i];
        if (kind == WR_PIECE_NORMAL && m->scores[i] < lowest) lowest = m->scores[i];
        if (kind != WR_PIECE_USER) continue;
        scores[i] = (float)(0.1 * (double)(wr_vocab_length(&tok->vocab, (int32_t)i) - 1));
    }
    tok->kind = WR_MODEL_UNIGRAM;
    tok->unigram.byte_fallback = m->byte_fallback;
    tok->unigram.single = true;
    tok->unigram.unk = m->unk;
    return wr_unigram_take_scores(&tok->unigram, scores, (double)lowest,
                                  WR_TOKEN_SPECIAL | WR_TOKEN_BYTE | WR_TOKEN_UNUSED, err);
}

weir_status wr_tok_set_pieces(weir_tokenizer *tok, const wr_piece_model *m, weir_error *err) {
    for (size_t i = 0; i < tok->vocab.n; i++) {
        if (!isfinite(m->scores[i])) return WR_FAIL(err, WEIR_E_FORMAT, "the score of token %zu is not a number", i);
    }
    WR_TRY(set_normalizer(tok, m, err));
    WR_TRY(m->unigram ? set_unigram(tok, m, err) : set_bpe(tok, m, err));
    WR_TRY(add_kinds(tok, m->kinds, m->unigram ? &tok->atoms : &tok->normalized, err));
    return set_decoder(tok, m, err);
}
