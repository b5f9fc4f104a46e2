/* Every way to cut a token into two tokens becomes a merge. A pair of neighbours is then
 * joined exactly when tiktoken joins it; the order among merges into one token does not
 * matter, since when its turn comes only one of them can be there: what lower ranks
 * make of its bytes. */
#include "text/ranks.h"

#include <string.h>

#include "base/mem.h"
#include "text/unicode.h"

enum { MERGES_MAX = 4 * WR_VOCAB_MAX };

weir_status wr_tok_add_rank(weir_tokenizer *tok, int64_t id, const uint8_t *bytes, size_t n, weir_error *err) {
    uint8_t spelled[2 * WR_RANK_BYTES_MAX];
    if (n > WR_RANK_BYTES_MAX) {
        return WR_FAIL(err, WEIR_E_LIMIT, "token %lld has %zu bytes, at most %d are allowed", (long long)id, n,
                       WR_RANK_BYTES_MAX);
    }
    return wr_vocab_append(&tok->vocab, id, spelled, wr_bytes_spell(bytes, n, spelled), 0, err);
}

weir_status wr_tok_link_ranks(weir_tokenizer *tok, weir_error *err) {
    const wr_vocab *v = &tok->vocab;
    wr_merge *merges = NULL;
    size_t n = 0, cap = 0;
    WR_TRY(wr_vocab_link_all(&tok->vocab, err));
    weir_status st = wr_grow(&merges, &cap, v->n + v->n / 2 + 1, sizeof *merges)
                         ? WEIR_OK
                         : WR_FAIL(err, WEIR_E_MEMORY, "no memory for the merges of %zu tokens", v->n);
    for (size_t id = 0; id < v->n && st == WEIR_OK; id++) {
        const uint8_t *piece = wr_vocab_piece(v, (int32_t)id);
        size_t bytes = wr_vocab_length(v, (int32_t)id);
        for (size_t at = 1; at < bytes && st == WEIR_OK; at++) {
            if ((piece[at] & 0xC0) == 0x80) continue; /* inside of a letter of the alphabet */
            int32_t left = wr_vocab_find(v, piece, at), right;
            if (left < 0 || (right = wr_vocab_find(v, piece + at, bytes - at)) < 0) continue;
            if (n == MERGES_MAX) {
                st = WR_FAIL(err, WEIR_E_LIMIT, "the vocabulary has more than %d merges", MERGES_MAX);
            } else if (!wr_grow(&merges, &cap, n + 1, sizeof *merges)) {
                st = WR_FAIL(err, WEIR_E_MEMORY, "no memory for the merges of %zu tokens", v->n);
            } else {
                merges[n++] = (wr_merge){left, right, (int32_t)id};
            }
        }
    }
    if (st != WEIR_OK) {
        wr_free(merges);
        return st;
    }
    /* A word that is a token is that token, whatever merging would give. */
    tok->bpe.bytes = tok->bpe.ignore_merges = tok->decode.byte_level = true;
    return wr_bpe_take_merges(&tok->bpe, merges, n, err);
}

weir_status wr_tok_add_special(weir_tokenizer *tok, int64_t id, const char *text, size_t n, weir_error *err) {
    if (wr_utf8_valid((const uint8_t *)text, n) != n) {
        return WR_FAIL(err, WEIR_E_FORMAT, "the text of the special token %lld is not UTF-8", (long long)id);
    }
    /* A token of the same text may be there already; the special one is found as an
     * added token, the other by its text. */
    if (wr_vocab_find(&tok->vocab, text, n) >= 0) {
        WR_TRY(wr_vocab_append(&tok->vocab, id, text, n, 0, err));
    } else {
        WR_TRY(wr_vocab_add(&tok->vocab, id, text, n, 0, err));
    }
    return wr_tok_add_added(tok, (int32_t)id, WR_ADDED_SPECIAL, err);
}
