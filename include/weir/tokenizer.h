/* weir: tokenizers. Text to token ids and back.
 *
 * A tokenizer comes from a model (a Hugging Face folder or a GGUF file) and
 * never changes after it was opened: any number of threads may use one at the
 * same time. All text is UTF-8 given as pointer and length in bytes; a 0 byte is
 * an ordinary character. Token ids are int32_t, from 0; -1 means "none". */
#ifndef WEIR_TOKENIZER_H
#define WEIR_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_tokenizer weir_tokenizer;

/* Open the tokenizer of a model: of a folder (tokenizer.json; else tekken.json,
 * tokenizer.model, a tiktoken file or vocab.txt, each with tokenizer_config.json where there is
 * one), of a GGUF file, or one of those files itself. Weights are not needed.
 * Errors: NOT_FOUND, IO, FORMAT (malformed), UNSUPPORTED (a step that is not known, by
 * name), LIMIT, MEMORY. */
weir_status weir_tokenizer_open(const char *path, weir_tokenizer **out, weir_error *err);

/* Nothing that was borrowed from the tokenizer may be used afterwards. Accepts NULL. */
void weir_tokenizer_close(weir_tokenizer *tok);

/* ---- The vocabulary ---------------------------------------------------- */

/* Largest token id plus one. Some ids below it may be unused. */
int32_t weir_tokenizer_vocab_size(const weir_tokenizer *tok);

/* The piece of a token as the vocabulary spells it ("\xC4\xA0world" in a
 * byte-level vocabulary). View: lives as long as the tokenizer; not terminated.
 * NULL and 0 bytes for an id that is not used. */
const char *weir_tokenizer_piece(const weir_tokenizer *tok, int32_t id, size_t *bytes);

/* The token whose piece, in the vocabulary's own spelling, is exactly this; -1 if none. */
int32_t weir_tokenizer_find(const weir_tokenizer *tok, const char *piece, size_t bytes);

/* The bytes that a token stands for in text (" world"; one byte for a byte
 * token; possibly no valid UTF-8 by themselves). Writes at most cap bytes and
 * returns the number that the token has; 0 for an unused id. */
size_t weir_tokenizer_token_bytes(const weir_tokenizer *tok, int32_t id, char *out, size_t cap);

/* Special ids as the model declares them; -1 if it declares none. */
int32_t weir_tokenizer_bos(const weir_tokenizer *tok);
int32_t weir_tokenizer_pad(const weir_tokenizer *tok);
int32_t weir_tokenizer_unk(const weir_tokenizer *tok);
/* All ids that end a turn or a text. View. Returns how many. */
size_t weir_tokenizer_eos(const weir_tokenizer *tok, const int32_t **ids);
bool weir_tokenizer_is_eos(const weir_tokenizer *tok, int32_t id);
/* True for control tokens (<|im_start|>, <s>, ...): those that
 * WEIR_DECODE_SKIP_SPECIAL leaves out and WEIR_ENCODE_PARSE_SPECIAL finds. */
bool weir_tokenizer_is_special(const weir_tokenizer *tok, int32_t id);

/* The chat template that came with the tokenizer, terminated; NULL if none. View. */
const char *weir_tokenizer_chat_template(const weir_tokenizer *tok);

/* ---- Text to ids ------------------------------------------------------- */

enum {
    /* Add BOS and EOS as the tokenizer declares. A text that already starts with
     * BOS (found by PARSE_SPECIAL) gets no second one; the same for EOS. */
    WEIR_ENCODE_ADD_SPECIAL = 1,
    /* Control tokens spelled out in the text become those tokens. Without it
     * they are plain text: use that for text that strangers wrote. */
    WEIR_ENCODE_PARSE_SPECIAL = 2,
};

/* Encode `bytes` bytes of text. Bytes that are no valid UTF-8 are encoded as
 * U+FFFD. What a vocabulary has no token for becomes its unknown token, or is left
 * out where it declares none, as in the published format. *n receives the number of tokens of the whole text, always.
 * With ids NULL (and cap 0) this only counts. Errors: LIMIT when cap < *n (ids[0..cap) are then the first tokens) or
 * when the text is longer than 1 GiB; MEMORY. Any thread. */
weir_status weir_tokenizer_encode(const weir_tokenizer *tok, const char *text, size_t bytes, unsigned flags,
                                  int32_t *ids, size_t cap, size_t *n, weir_error *err);

/* Where a token lies in the text: bytes [begin, end). Empty for added BOS/EOS.
 * Several tokens of one character (or of a character that normalisation
 * changed) may have the same span. */
typedef struct weir_token_span {
    size_t begin, end;
} weir_token_span;

/* The result of one encoding; free with weir_encoding_deinit. */
typedef struct weir_encoding {
    int32_t *ids;           /* [n] */
    weir_token_span *spans; /* [n], or NULL when they were not asked for */
    size_t n;
} weir_encoding;

/* As weir_tokenizer_encode, into memory of its own. out need not be initialised;
 * after an error it is empty. */
weir_status weir_tokenizer_encode_new(const weir_tokenizer *tok, const char *text, size_t bytes, unsigned flags,
                                      bool with_spans, weir_encoding *out, weir_error *err);
void weir_encoding_deinit(weir_encoding *encoding);

/* ---- Ids to text ------------------------------------------------------- */

enum {
    WEIR_DECODE_SKIP_SPECIAL = 1, /* leave control tokens out */
    /* The ids continue an earlier text: keep the space that some vocabularies
     * put before the first word of a text. */
    WEIR_DECODE_CONTINUE = 2,
};

/* Whole decode: the text is valid UTF-8 and terminated; free with
 * weir_text_free. *bytes does not count the terminator. Equal to pushing all ids
 * through a weir_token_decoder. Errors: ARGUMENT for a negative id; MEMORY. An
 * id that the vocabulary does not use gives no text. */
weir_status weir_tokenizer_decode(const weir_tokenizer *tok, const int32_t *ids, size_t n, unsigned flags, char **text,
                                  size_t *bytes, weir_error *err);
void weir_text_free(char *text);

/* Streaming decode. The text that comes out is always whole characters: bytes of
 * a character that is not complete yet are held back, and no U+FFFD is written
 * for them unless a later byte, or the end, shows that they are invalid (each
 * maximal invalid part gives one U+FFFD). Uses no heap. The caller owns it; it
 * may be copied; the tokenizer must outlive it. Fields are private. */
typedef struct weir_token_decoder {
    const weir_tokenizer *tok;
    unsigned flags;
    uint32_t n_pushed; /* tokens that gave text so far, saturating */
    uint32_t n_strip;  /* leading characters that may still be taken away */
    uint32_t n_held;   /* characters held back that go if the text ends here */
    int32_t previous;  /* the last id; -1: none */
    bool owes;         /* a space that comes before the next token */
    uint8_t n_pending;
    uint8_t pending[3]; /* a valid beginning of one character */
} weir_token_decoder;

void weir_token_decoder_init(weir_token_decoder *dec, const weir_tokenizer *tok, unsigned flags);
/* The most bytes that one push or finish can give for this tokenizer. */
size_t weir_tokenizer_push_bytes_max(const weir_tokenizer *tok);
/* Give the next id; *n bytes (maybe 0) of complete UTF-8 come to out, which is
 * not terminated. Errors: ARGUMENT for a negative id; LIMIT when cap is less
 * than this push needs, and then the decoder has not moved. */
weir_status weir_token_decoder_push(weir_token_decoder *dec, int32_t id, char *out, size_t cap, size_t *n,
                                    weir_error *err);
/* The end: a character that stayed incomplete becomes one U+FFFD. cap >= 3 is
 * always enough. Afterwards the decoder is as after init. Returns the bytes written. */
size_t weir_token_decoder_finish(weir_token_decoder *dec, char *out, size_t cap);

#ifdef __cplusplus
}
#endif
#endif
