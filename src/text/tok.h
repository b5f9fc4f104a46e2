/* The tokenizer's inside, shared by the files of this room only. */
#ifndef WR_TEXT_TOK_H
#define WR_TEXT_TOK_H

#include "base/status.h"
#include "text/added.h"
#include "text/bpe.h"
#include "text/cut.h"
#include "text/decode_rules.h"
#include "text/normalize.h"
#include "text/tokenizer.h"
#include "text/unigram.h"
#include "text/vocab.h"
#include "text/wordpiece.h"

enum { WR_TOK_AFFIX_MAX = 8, WR_TOK_EOS_MAX = 64 };

typedef enum wr_model_kind { WR_MODEL_BPE, WR_MODEL_UNIGRAM, WR_MODEL_WORDPIECE } wr_model_kind;

struct weir_tokenizer {
    wr_vocab vocab;
    wr_model_kind kind; /* of the next three the one that is used */
    wr_bpe bpe;
    wr_unigram unigram;
    wr_wordpiece wordpiece;   /* and WordLevel */
    wr_added raw, normalized; /* looked for before and after normalisation */
    wr_norm_step *norm;
    wr_cut_step *cut;
    size_t n_norm, norm_cap, n_cut, cut_cap;
    wr_added atoms; /* texts that SentencePiece's rules leave alone */
    wr_decode_rules decode;
    bool trim_spans, front_space; /* spans leave out white space at the ends; but not one that was put in front */
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
/* The next step of the decoder, zeroed; LIMIT when there are too many. */
weir_status wr_tok_add_decode(weir_tokenizer *tok, wr_decode_step **out, weir_error *err);
/* What BERT does to text before its words, how it cuts these, and how its pieces become text again. */
weir_status wr_tok_add_bert_norms(weir_tokenizer *tok, bool clean, bool cjk, bool strip_accents, bool lowercase,
                                  weir_error *err);
weir_status wr_tok_add_bert_cuts(weir_tokenizer *tok, weir_error *err);
weir_status wr_tok_decode_wordpiece(weir_tokenizer *tok, weir_error *err);
/* The space that pieces spell as U+2581 is one again. */
weir_status wr_tok_decode_metaspace(weir_tokenizer *tok, weir_error *err);
/* After everything is in: sort, index, trim. Errors: those of wr_decode_rules_finish. */
weir_status wr_tok_finish(weir_tokenizer *tok, weir_error *err);

#endif
