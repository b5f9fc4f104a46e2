/* The formats of tokenizer files. Each fills an empty tokenizer from a file's text;
 * wr_tok_read_config and wr_tok_finish come after. */
#ifndef WR_TEXT_FORMATS_H
#define WR_TEXT_FORMATS_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/status.h"
#include "text/tok.h"

/* config: tokenizer_config.json, which is applied afterwards; NULL without one. */
typedef weir_status (*wr_tok_format)(weir_tokenizer *tok, const char *text, size_t bytes, const json_t *config,
                                     weir_error *err);

/* tokenizer.json of Hugging Face's library. */
weir_status wr_tok_build_json(weir_tokenizer *tok, const char *text, size_t bytes, const json_t *config,
                              weir_error *err);
/* tekken.json of Mistral: ranks of bytes, special tokens before them; adds BOS. */
weir_status wr_tok_build_tekken(weir_tokenizer *tok, const char *text, size_t bytes, const json_t *config,
                                weir_error *err);
/* tiktoken's lines of base64 and rank. They do not say how text is split nor which tokens
 * are special; published ones are known by their number of ranks. */
weir_status wr_tok_build_tiktoken(weir_tokenizer *tok, const char *text, size_t bytes, const json_t *config,
                                  weir_error *err);
/* SentencePiece's model file (a protocol buffer): BPE and Unigram; adds BOS if it has one. */
weir_status wr_tok_build_sentencepiece(weir_tokenizer *tok, const char *text, size_t bytes, const json_t *config,
                                       weir_error *err);
/* vocab.txt of BERT models: a piece a line, with what transformers' BertTokenizer does by itself. */
weir_status wr_tok_build_wordpiece(weir_tokenizer *tok, const char *text, size_t bytes, const json_t *config,
                                   weir_error *err);

#endif
