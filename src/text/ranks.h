/* Byte-level vocabularies without merges (tiktoken's): two neighbours are joined when
 * together they are a token, the token of the lowest rank first. */
#ifndef WR_TEXT_RANKS_H
#define WR_TEXT_RANKS_H

#include "base/status.h"
#include "text/tok.h"

/* Longer than any published token, and keeps the work on a hostile file small. */
enum { WR_RANK_BYTES_MAX = 1024 };

/* Append a token of any bytes [n]; tokens are ranked by id. Errors: FORMAT, LIMIT, MEMORY. */
weir_status wr_tok_add_rank(weir_tokenizer *tok, int64_t id, const uint8_t *bytes, size_t n, weir_error *err);
/* Once all tokens are appended: link the vocabulary and make the merges that mean the
 * same. Errors: FORMAT (a token comes twice), LIMIT, MEMORY. */
weir_status wr_tok_link_ranks(weir_tokenizer *tok, weir_error *err);
/* A special token [n] that is found in text, and skipped in answers. */
weir_status wr_tok_add_special(weir_tokenizer *tok, int64_t id, const char *text, size_t n, weir_error *err);

#endif
