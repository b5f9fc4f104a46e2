/* What the parts of reading a Hugging Face tokenizer share. Messages name the place:
 * `where` is "normalizer", "decoder" and so on. */
#ifndef WR_TEXT_OPEN_JSON_H
#define WR_TEXT_OPEN_JSON_H

#include <stdint.h>
#include <string.h>

#include <jansson.h>

#include "base/status.h"
#include "text/json_lists.h"
#include "text/tok.h"

enum { WR_TOK_STEPS_MAX = 64, WR_TOK_NEST_MAX = 8 };

/* ---- Parts of the file ---- */

/* `model`, whose long lists were cut out of text: its vocabulary and merges stand there
 * at the spans. n_added: tokens that will follow. */
weir_status wr_tok_read_model(weir_tokenizer *tok, const json_t *model, const char *text, wr_json_span vocab,
                              wr_json_span merges, size_t n_added, weir_error *err);
/* NULL or JSON null: nothing. Steps are appended to those that tok has. */
weir_status wr_tok_read_normalizer(weir_tokenizer *tok, const json_t *obj, weir_error *err);
weir_status wr_tok_read_pre_tokenizer(weir_tokenizer *tok, const json_t *obj, weir_error *err);
weir_status wr_tok_read_post_processor(weir_tokenizer *tok, const json_t *obj, weir_error *err);
weir_status wr_tok_read_decoder(weir_tokenizer *tok, const json_t *obj, weir_error *err);
/* One added token: an object of added_tokens, or of added_tokens_decoder, whose id is
 * its key (else INT64_MIN). */
weir_status wr_tok_read_added(weir_tokenizer *tok, const json_t *obj, int64_t id, const char *where, weir_error *err);
/* A token that tokenizer_config.json names, as "<s>" or {"content": "<s>", ...}; the outputs stay when the key is
 * absent or null. View. */
weir_status wr_tok_get_named(const json_t *config, const char *key, const char **text, size_t *bytes, weir_error *err);
/* Apply tokenizer_config.json. */
weir_status wr_tok_read_config(weir_tokenizer *tok, const json_t *config, weir_error *err);

/* ---- Fields ---- */

/* obj.type, which must be there. View. */
weir_status wr_tok_get_type(const json_t *obj, const char *where, const char **type, weir_error *err);
/* The list of a Sequence under key; LIMIT when depth is too large. */
weir_status wr_tok_get_sequence(const json_t *obj, const char *where, const char *key, int depth, json_t **list,
                                weir_error *err);
/* UNSUPPORTED, naming the type. */
weir_status wr_tok_unsupported(const char *where, const char *type, weir_error *err);
/* A terminated copy in place of *out. */
weir_status wr_tok_keep(const char *text, size_t bytes, char **out, size_t *out_bytes, weir_error *err);
/* The string obj[key], which must be there, likewise. */
weir_status wr_tok_keep_field(const json_t *obj, const char *where, const char *key, char **out, size_t *out_bytes,
                              weir_error *err);
/* pattern: {"String": text} or {"Regex": expression}; exactly one of the outputs is set. */
weir_status wr_tok_get_pattern(const json_t *obj, const char *where, char **find, size_t *find_bytes, wr_regex **regex,
                               weir_error *err);
/* prepend_scheme, or the older add_prefix_space. */
weir_status wr_tok_get_front(const json_t *obj, const char *where, wr_cut_front *front, weir_error *err);
/* Keys of Metaspace, and the one character that it writes for a space. */
extern const char wr_tok_metaspace_keys[];
weir_status wr_tok_get_replacement(const json_t *obj, const char *where, const char **text, size_t *bytes,
                                   weir_error *err);

static inline bool wr_tok_is(const char *a, const char *b) { return strcmp(a, b) == 0; }

#endif
