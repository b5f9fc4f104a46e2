/* What SentencePiece's model files and the GGUF kinds made from them have in common. */
#ifndef WR_TEXT_SENTENCEPIECE_H
#define WR_TEXT_SENTENCEPIECE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "text/tok.h"

/* Kinds of piece, numbered alike in both formats. */
enum {
    WR_PIECE_NORMAL = 1,
    WR_PIECE_UNKNOWN,
    WR_PIECE_CONTROL,
    WR_PIECE_USER,
    WR_PIECE_UNUSED,
    WR_PIECE_BYTE,
    WR_PIECE_KINDS
};

/* Flags of the vocabulary for a piece of this kind. Errors: FORMAT (another kind, a
 * byte that is not spelled like <0xAB>). */
weir_status wr_piece_flags(int32_t kind, const char *piece, size_t bytes, size_t id, unsigned *flags, weir_error *err);

typedef struct wr_piece_model {
    bool unigram; /* else BPE by scores */
    bool byte_fallback;
    bool dummy_prefix, squeeze, escape, suffix; /* as in wr_norm_step */
    const uint8_t *rules;                       /* compiled rules, [rules_bytes], copied; NULL: none */
    size_t rules_bytes;
    const float *scores;  /* [tok->vocab.n], copied */
    const int32_t *kinds; /* [tok->vocab.n], copied; NULL: all normal. May be unaligned. */
    int32_t unk;          /* -1: none */
} wr_piece_model;

static inline int32_t wr_piece_kind_at(const int32_t *kinds, size_t i) {
    int32_t kind = WR_PIECE_NORMAL;
    if (kinds) __builtin_memcpy(&kind, (const char *)kinds + i * sizeof kind, sizeof kind);
    return kind;
}

/* Control, unknown and user-defined pieces of a byte-level vocabulary as added tokens. */
weir_status wr_tok_add_piece_kinds(weir_tokenizer *tok, const int32_t *kinds, weir_error *err);
/* Once all pieces are linked: added tokens, normaliser, model and decoder. Errors:
 * FORMAT (NaN, rules, unknown kinds), MEMORY, LIMIT. */
weir_status wr_tok_set_pieces(weir_tokenizer *tok, const wr_piece_model *m, weir_error *err);

#endif
