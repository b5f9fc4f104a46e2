/* Opening of tokenizers, for the rooms below. The public side is in
 * weir/tokenizer.h. Everything an opener reads is checked and copied: paths,
 * sources and their strings may go away after the call. */
#ifndef WR_TEXT_TOKENIZER_H
#define WR_TEXT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "file/gguf.h"
#include "weir/tokenizer.h"

/* From tokenizer.json, with tokenizer_config.json beside it (or NULL): the
 * latter names BOS, EOS, PAD and UNK, says whether BOS is added, and may carry a
 * chat template. Errors: NOT_FOUND, IO, FORMAT (malformed), UNSUPPORTED (a kind
 * of step that is not implemented, by name), LIMIT, MEMORY. */
weir_status wr_tokenizer_open_json(const char *tokenizer_path, const char *config_path, weir_tokenizer **out,
                                   weir_error *err);

/* From a model folder: tokenizer.json, or else the first that exists of tekken.json,
 * tokenizer.model and other names of the same formats; and if they exist
 * tokenizer_config.json and chat_template.jinja (which wins over the config's template). */
weir_status wr_tokenizer_open_folder(const char *folder, weir_tokenizer **out, weir_error *err);

/* From a file's text in memory; name decides about its format as a file's name does, and
 * config (tokenizer_config.json) may be NULL. */
weir_status wr_tokenizer_open_text(const char *name, const char *text, size_t bytes, const char *config,
                                   size_t config_bytes, weir_tokenizer **out, weir_error *err);

/* The folder has a tokenizer file, be it of a form that is not supported. */
bool wr_tokenizer_in_folder(const char *folder);

/* From the metadata of an open GGUF file. */
weir_status wr_tokenizer_open_gguf(const wr_gguf *gguf, weir_tokenizer **out, weir_error *err);

/* A list of n strings. get is called for i = 0, 1, ... n-1 in this order, each
 * once, during the opener only; it returns false when there is no such string.
 * *text need not be terminated and need not live longer than the next call. */
typedef struct wr_string_list {
    size_t n;
    bool (*get)(void *context, size_t i, const char **text, size_t *bytes);
    void *context;
} wr_string_list;

/* What GGUF metadata says about a tokenizer (keys tokenizer.ggml.*). Zero the
 * struct, set the ids to -1 with wr_vocab_source_init, then fill in. */
typedef struct wr_vocab_source {
    const char *model;         /* "gpt2" (byte-level BPE), "llama" (BPE by scores), "t5" (Unigram) or "bert"
                                * (WordPiece); required */
    const char *pre;           /* name of the split rule; NULL is taken as "default" */
    wr_string_list tokens;     /* required; id = index */
    const float *scores;       /* [tokens.n] or NULL; required for "llama" and "t5". May be unaligned. */
    const int32_t *token_type; /* [tokens.n] or NULL = all normal. May be unaligned.
                                * 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte */
    wr_string_list merges;     /* "left right"; n = 0 if absent; required for "gpt2" */
    int32_t bos_id, eos_id, eot_id, eom_id, unk_id, pad_id; /* -1 if absent */
    /* -1 if absent: then "llama" and "bert" add BOS, "t5" and "bert" EOS, and "llama" and
     * "t5" a space in front. squeeze_spaces: runs of spaces count as one. */
    int add_bos, add_eos, add_space_prefix, squeeze_spaces;
    const uint8_t *rules; /* "t5": compiled normalisation rules [rules_bytes], or NULL */
    size_t rules_bytes;
    const char *chat_template; /* terminated, or NULL */
} wr_vocab_source;

void wr_vocab_source_init(wr_vocab_source *src);

/* Errors: FORMAT, UNSUPPORTED (unknown model or pre, by name), LIMIT, MEMORY. */
weir_status wr_tokenizer_open_vocab(const wr_vocab_source *src, weir_tokenizer **out, weir_error *err);

/* Count id among the ids that end a text (from config.json or
 * generation_config.json). Twice is once. Before the tokenizer is shared between
 * threads. Errors: ARGUMENT (id outside the vocabulary), LIMIT (more than 64). */
weir_status wr_tokenizer_add_eos(weir_tokenizer *tok, int32_t id, weir_error *err);

/* Replace the chat template (NULL = none); copied. */
weir_status wr_tokenizer_set_chat_template(weir_tokenizer *tok, const char *text, weir_error *err);

/* Heap bytes that the open tokenizer keeps. */
size_t wr_tokenizer_heap_bytes(const weir_tokenizer *tok);

#endif
