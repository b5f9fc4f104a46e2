/* weir: constrained output. A JSON Schema, a grammar, a regular expression or a list of choices becomes a mask of the
 * tokens that may come next.
 *
 * The mask is exact: a token is allowed if and only if the text so far followed by the token's bytes is the beginning
 * of a text that the grammar accepts. Tokens are byte strings; one may end within a character. Control tokens are never
 * allowed, but the tokenizer's end tokens are where the text may end.
 *
 * A grammar never changes after it was compiled, an index neither; both may be shared by any number of threads and are
 * counted. A constraint joins a grammar to a vocabulary and caches what it learns; it may be shared by threads too. A
 * state belongs to one sequence, and to one thread at a time. docs/grammars.md says what is accepted. */
#ifndef WEIR_GRAMMAR_H
#define WEIR_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/status.h"
#include "weir/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Grammars ------------------------------------------------------------ */

typedef struct weir_grammar weir_grammar;

/* Zeroed: every JSON text of every document that the schema accepts, with properties in any order, any whitespace and
 * any spelling of strings and numbers. */
typedef struct weir_schema_options {
    /* 0: any whitespace between the parts; N: at most N characters in a row; -1: none at all. */
    int32_t max_whitespace;
    /* Strings escape only what they must: "A", never "\u0041". Then names are forced byte by byte. */
    bool plain_strings;
    /* Whole numbers are written without a point, and numbers that the schema bounds without an exponent: 10, never 10.0
     * or 1e1, which many readers take for no integer. */
    bool plain_numbers;
    /* Take oneOf as anyOf where branches cannot be proved to exclude each other, instead of refusing. */
    bool one_of_as_any_of;
} weir_schema_options;

/* From a JSON Schema (drafts 4 to 2020-12, what docs/grammars.md lists). options may be NULL. Errors: FORMAT (no JSON,
 * a malformed schema, or one that no document satisfies); UNSUPPORTED (a keyword that cannot be enforced: the message
 * has its JSON pointer); LIMIT; MEMORY. */
weir_status weir_grammar_from_schema(const char *json, size_t bytes, const weir_schema_options *options,
                                     weir_grammar **out, weir_error *err);
/* From rules as llama.cpp's GBNF writes them; the first is "root". Errors: FORMAT, UNSUPPORTED (left recursion), LIMIT,
 * MEMORY. */
weir_status weir_grammar_from_gbnf(const char *text, size_t bytes, weir_grammar **out, weir_error *err);
/* Texts that the whole expression (ECMA-262's syntax) matches. Errors as above. */
weir_status weir_grammar_from_regex(const char *text, size_t bytes, weir_grammar **out, weir_error *err);
/* Exactly one of n texts (UTF-8, not empty). bytes: their lengths, or NULL when they are terminated. */
weir_status weir_grammar_from_choices(const char *const *texts, const size_t *bytes, size_t n, weir_grammar **out,
                                      weir_error *err);

weir_grammar *weir_grammar_retain(weir_grammar *grammar);
/* Accepts NULL. */
void weir_grammar_release(weir_grammar *grammar);

/* ---- A vocabulary, prepared ------------------------------------------------ */

typedef struct weir_token_index weir_token_index;

/* The vocabulary of tok as a tree of bytes; about 0.1 s for 150,000 tokens, so one for each tokenizer. tok may be
 * closed afterwards. Errors: MEMORY, LIMIT. */
weir_status weir_token_index_new(const weir_tokenizer *tok, weir_token_index **out, weir_error *err);
weir_token_index *weir_token_index_retain(weir_token_index *index);
/* Accepts NULL. */
void weir_token_index_release(weir_token_index *index);

/* ---- Constraints --------------------------------------------------------- */

typedef struct weir_constraint weir_constraint;

/* Retains both. index may be NULL: then only bytes can be accepted. cache_bytes: the most memory that cached masks and
 * automaton states take together; 0: 128 MiB. Without room for more, masks are computed each time; without room for the
 * automaton's own states, the call that needs one is a LIMIT error. Errors: MEMORY. */
weir_status weir_constraint_new(weir_grammar *grammar, weir_token_index *index, size_t cache_bytes,
                                weir_constraint **out, weir_error *err);
/* After all of its states are freed. Accepts NULL. */
void weir_constraint_free(weir_constraint *constraint);
/* Bytes of the cache now. */
size_t weir_constraint_cache_bytes(const weir_constraint *constraint);

/* ---- One sequence -------------------------------------------------------- */

typedef struct weir_constraint_state weir_constraint_state;

/* At the beginning of a text. max_rollback: how many of the last accepted tokens can be taken back. Errors: MEMORY. */
weir_status weir_constraint_state_new(weir_constraint *constraint, size_t max_rollback, weir_constraint_state **out,
                                      weir_error *err);
/* A copy of its own, without the right to take back what came before it. Errors: MEMORY. */
weir_status weir_constraint_state_dup(const weir_constraint_state *state, weir_constraint_state **out, weir_error *err);
/* Accepts NULL. */
void weir_constraint_state_free(weir_constraint_state *state);

/* Words of a mask: one bit a token id, bit (id % 32) of word id / 32. 0 without an index. */
size_t weir_constraint_mask_words(const weir_constraint *constraint);
/* Write the mask of the tokens that may come next: n_words as above. After an end token it is empty. Errors: LIMIT
 * (more readings of the text at once than can be followed, or no room for the automaton), MEMORY, STATE (no index). */
weir_status weir_constraint_state_mask(weir_constraint_state *state, uint32_t *mask, size_t n_words, weir_error *err);

/* Take one token, an end token too. Errors: ARGUMENT (not allowed here; the state has not moved), LIMIT, MEMORY, STATE.
 */
weir_status weir_constraint_state_accept(weir_constraint_state *state, int32_t token, weir_error *err);
/* Take text that came without tokens, as one step of the history. *taken: how many bytes fit; ARGUMENT when not all do,
 * and then the state has not moved. taken may be NULL. */
weir_status weir_constraint_state_accept_bytes(weir_constraint_state *state, const char *text, size_t bytes,
                                               size_t *taken, weir_error *err);
/* Take back the last n steps. STATE when fewer are kept. */
weir_status weir_constraint_state_rollback(weir_constraint_state *state, size_t n, weir_error *err);
/* Steps that could be taken back now. */
size_t weir_constraint_state_history(const weir_constraint_state *state);
/* The text may end here. */
bool weir_constraint_state_can_end(const weir_constraint_state *state);
/* An end token was accepted. */
bool weir_constraint_state_ended(const weir_constraint_state *state);
/* The bytes that must come next whatever the model says, at most cap; the state does not move. To use them, encode
 * them together with the text before and accept the tokens. Errors: as mask. */
weir_status weir_constraint_state_forced(weir_constraint_state *state, char *out, size_t cap, size_t *n,
                                         weir_error *err);

#ifdef __cplusplus
}
#endif
#endif
