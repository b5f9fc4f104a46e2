/* Unigram: of all ways to cut a word into pieces the one whose scores have the
 * largest sum (Viterbi). Kudo 2018, "Subword Regularization". */
#ifndef WR_TEXT_UNIGRAM_H
#define WR_TEXT_UNIGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "text/trie.h"
#include "text/vocab.h"
#include "text/work.h"

typedef struct wr_unigram {
    const wr_vocab *vocab; /* view */
    wr_trie trie;
    double *scores; /* [n_scores]: the tokens that were there when they were taken */
    size_t n_scores;
    double unk_score; /* of a character without a piece of its own */
    bool single;      /* sums are kept in single precision, as SentencePiece does */
    bool byte_fallback;
    int32_t unk;           /* -1: what has no token is left out */
    int32_t byte_ids[256]; /* token of each byte, -1 if none */
} wr_unigram;

/* Take scores [vocab->n] (owned by u afterwards, whatever the result; none is NaN)
 * and index the pieces of all tokens without a flag of `skip`. min_score: the lowest
 * score, 10 below which an unknown character stands, as both publishers have it.
 * Error: MEMORY. */
weir_status wr_unigram_take_scores(wr_unigram *u, double *scores, double min_score, unsigned skip, weir_error *err);
void wr_unigram_deinit(wr_unigram *u);
size_t wr_unigram_heap_bytes(const wr_unigram *u);

/* Memory that words reuse. Init by zeroing. */
typedef struct wr_unigram_scratch {
    struct wr_unigram_node *nodes;
    size_t cap;
} wr_unigram_scratch;
void wr_unigram_scratch_deinit(wr_unigram_scratch *s);

/* Append the tokens of bytes [begin, end) of v, valid UTF-8. Error: MEMORY. */
weir_status wr_unigram_word(const wr_unigram *u, wr_unigram_scratch *s, const wr_view *v, size_t begin, size_t end,
                            wr_ids *out, weir_error *err);

#endif
