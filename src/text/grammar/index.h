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

bool wr_gr_index_is_eos(const weir_token_index *index, int32_t id);

#endif
