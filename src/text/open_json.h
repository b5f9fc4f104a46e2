/* What the two halves of reading a Hugging Face tokenizer share. */
#ifndef WR_TEXT_OPEN_JSON_H
#define WR_TEXT_OPEN_JSON_H

#include <stdint.h>

#include <jansson.h>

#include "base/status.h"
#include "text/tokenizer.h"

/* One added token: an object of added_tokens, or of added_tokens_decoder, whose id is
 * its key (else INT64_MIN). where is for messages. */
weir_status wr_tok_read_added(weir_tokenizer *tok, const json_t *obj, int64_t id, const char *where, weir_error *err);

/* Apply tokenizer_config.json. */
weir_status wr_tok_read_config(weir_tokenizer *tok, const json_t *config, weir_error *err);

#endif
