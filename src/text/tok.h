/* The tokenizer's inside, shared by the files of this room only. */
#ifndef WR_TEXT_TOK_H
#define WR_TEXT_TOK_H

#include "base/status.h"
#include "text/added.h"
#include "text/bpe.h"
#include "text/cut.h"
#include "text/normalize.h"
#include "text/tokenizer.h"
#include "text/vocab.h"

enum { WR_TOK_AFFIX_MAX = 8, WR_TOK_EOS_MAX = 64, WR_TOK_REPLACE_MAX = 256 };

/* Pieces to text. In this order: bytes of the byte-level alphabet, or replace and
 * byte tokens; then the start of the whole text is stripped. */
typedef struct wr_decode_rules {
    bool byte_level, byte_fallback;
    bool join_with_space; /* a file without decoder: tokens are words */
    bool drop_in_first;   /* the first token loses `find` (Metaspace) */
    char *find, *put;     /* owned; NULL: nothing is replaced */
    size_t find_bytes, put_bytes;
    uint32_t strip_char, n_strip; /* up to n_strip of strip_char at the start */
} wr_decode_rules;

struct weir_tokenizer {
    wr_vocab vocab;
    wr_bpe bpe;
    wr_added raw, normalized; /* looked for before and after normalisation */
    wr_norm_step *norm;
    wr_cut_step *cut;
    size_t n_norm, norm_cap, n_cut, cut_cap;
    wr_decode_rules decode;
    int32_t prefix[WR_TOK_AFFIX_MAX], suffix[WR_TOK_AFFIX_MAX]; /* what ADD_SPECIAL adds */
    size_t n_prefix, n_suffix;
    int32_t bos, pad, unk;
    int32_t eos[WR_TOK_EOS_MAX];
    size_t n_eos;
    char *chat_template;
};

/* A tokenizer with nothing in it; weir_tokenizer_close at any time after. */
weir_status wr_tok_new(weir_tokenizer **out, weir_error *err);
/* Append a zeroed step; NULL when out of memory. */
wr_norm_step *wr_tok_add_norm(weir_tokenizer *tok);
wr_cut_step *wr_tok_add_cut(weir_tokenizer *tok);
/* The expression of GPT-2's byte-level pre-tokeniser, as a step of tok. */
weir_status wr_tok_add_cut_regex(weir_tokenizer *tok, const char *pattern, weir_error *err);
extern const char wr_gpt2_pattern[];
/* An added token (WR_ADDED_* flags) whose piece is in the vocabulary already. */
weir_status wr_tok_add_added(weir_tokenizer *tok, int32_t id, unsigned flags, weir_error *err);
/* After everything is in: sort, index, trim. */
void wr_tok_finish(weir_tokenizer *tok);

#endif
