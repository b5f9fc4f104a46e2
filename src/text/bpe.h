/* Byte-pair merging of one word, by rank (merges in order) or by score (the pair
 * whose joined piece scores best). n log n in the length of the word. */
#ifndef WR_TEXT_BPE_H
#define WR_TEXT_BPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "text/vocab.h"
#include "text/work.h"

typedef struct wr_merge {
    int32_t left, right, joined;
} wr_merge;

typedef struct wr_bpe {
    const wr_vocab *vocab; /* view */
    wr_merge *merges;      /* [n_merges] in order of rank; NULL: by score */
    uint32_t *slot;        /* [n_slots] rank + 1, 0 = empty */
    size_t n_merges, n_slots;
    float *scores; /* [n_scores], only by score; tokens behind are added ones and never joined */
    size_t n_scores;
    bool bytes; /* symbols start as bytes (byte-level), else as characters */
    bool byte_fallback, fuse_unk, ignore_merges;
    bool cuts_at_space; /* no merge joins another character with a U+2581 behind it */
    char *front, *back; /* owned; spelled round a word's characters: before all but the first, behind the last */
    size_t n_front, n_back;
    int32_t unk;           /* -1: what has no token is left out */
    int32_t byte_ids[256]; /* token of each byte, -1 if none */
} wr_bpe;

/* Take merges [n] (owned by bpe afterwards, whatever the result) and index them.
 * When a pair comes twice the later one counts, as in the published format. */
weir_status wr_bpe_take_merges(wr_bpe *bpe, wr_merge *merges, size_t n, weir_error *err);
/* Fill byte_ids from the vocabulary according to bytes / byte_fallback. */
void wr_bpe_find_bytes(wr_bpe *bpe);
/* Once everything is in: find out cuts_at_space, and keep merges from making control
 * tokens, which only the text's reader may put in. */
void wr_bpe_finish(wr_bpe *bpe);
void wr_bpe_deinit(wr_bpe *bpe);
size_t wr_bpe_heap_bytes(const wr_bpe *bpe);

/* Memory that words reuse. Init by zeroing. */
typedef struct wr_bpe_scratch {
    struct wr_bpe_symbol *symbols;
    struct wr_bpe_pair *heap;
    size_t symbols_cap, heap_cap, n_heap;
    uint8_t *spelled; /* a word in the byte-level alphabet */
    size_t spelled_cap;
    uint32_t *halves; /* [vocab->n] by score: bytes of the left half that an unused piece was last made from */
    struct wr_bpe_part *parts;
    size_t parts_cap;
} wr_bpe_scratch;
void wr_bpe_scratch_deinit(wr_bpe_scratch *s);

/* Append the tokens of bytes [begin, end) of v, valid UTF-8. Error: MEMORY, LIMIT
 * (word of 2^31 bytes or more). */
weir_status wr_bpe_word(const wr_bpe *bpe, wr_bpe_scratch *s, const wr_view *v, size_t begin, size_t end, wr_ids *out,
                        weir_error *err);

#endif
