/* WordPiece (the longest piece at each place of a word) and WordLevel (whole words
 * only). */
#ifndef WR_TEXT_WORDPIECE_H
#define WR_TEXT_WORDPIECE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "text/trie.h"
#include "text/vocab.h"
#include "text/work.h"

typedef struct wr_wordpiece {
    const wr_vocab *vocab; /* view */
    wr_trie trie;
    uint32_t inner; /* node below which the pieces inside of words stand; UINT32_MAX: there are none */
    size_t max_chars;
    int32_t unk; /* -1: what has no token is left out */
    bool whole;  /* WordLevel: no trie */
} wr_wordpiece;

/* prefix [bytes]: what the pieces inside of words begin with ("##"). Error: MEMORY. */
weir_status wr_wordpiece_init(wr_wordpiece *w, const char *prefix, size_t bytes, weir_error *err);
void wr_wordpiece_deinit(wr_wordpiece *w);
size_t wr_wordpiece_heap_bytes(const wr_wordpiece *w);

/* Append the tokens of bytes [begin, end) of v, valid UTF-8. Error: MEMORY. */
weir_status wr_wordpiece_word(const wr_wordpiece *w, const wr_view *v, size_t begin, size_t end, wr_ids *out,
                              weir_error *err);

#endif
