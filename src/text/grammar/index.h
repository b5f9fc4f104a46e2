/* The vocabulary of a tokenizer, prepared for masks. */
#ifndef WR_TEXT_GRAMMAR_INDEX_H
#define WR_TEXT_GRAMMAR_INDEX_H

#include <stdatomic.h>

#include "text/grammar/trie.h"
#include "weir/grammar.h"

struct weir_token_index {
    atomic_uint references;
    wr_gr_trie trie;  /* tokens that stand for text */
    uint8_t *text;    /* their bytes */
    uint32_t *offset; /* [n_ids + 1] in text; equal ones: no text token */
    uint32_t n_ids;
    size_t n_words;
    int32_t *eos; /* [n_eos] */
    size_t n_eos;
    /* What is known of the inside of an unconstrained JSON string, by its spelling (any, plain) and kind of frame. */
    _Atomic(struct wr_gr_info *) any_string[2][3];
};

/* Masks: bit id & 31 of word id >> 5. */
static inline bool wr_gr_mask_has(const uint32_t *mask, uint32_t id) { return mask[id >> 5] >> (id & 31) & 1; }
static inline void wr_gr_mask_set(uint32_t *mask, uint32_t id) { mask[id >> 5] |= (uint32_t)1 << (id & 31); }
static inline void wr_gr_mask_clear(uint32_t *mask, uint32_t id) { mask[id >> 5] &= ~((uint32_t)1 << (id & 31)); }

bool wr_gr_index_is_eos(const weir_token_index *index, int32_t id);

#endif
