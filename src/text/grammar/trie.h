/* Byte strings that stand for tokens, as a tree in depth-first order: a walk goes through the array, and skips what is
 * below a byte that does not fit. */
#ifndef WR_TEXT_GRAMMAR_TRIE_H
#define WR_TEXT_GRAMMAR_TRIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct wr_gr_trie_node {
    uint32_t skip;   /* the next node that is not below this one */
    uint32_t tokens; /* first of its tokens; the next node's first ends them */
    uint16_t depth;  /* bytes from the root */
    uint8_t byte;
} wr_gr_trie_node;

typedef struct wr_gr_trie_token {
    uint32_t id, count;
} wr_gr_trie_token;

typedef struct wr_gr_trie {
    wr_gr_trie_node *node;   /* [n + 1]; [0] is the root, [n] ends the last tokens */
    wr_gr_trie_token *token; /* [n_tokens] */
    uint32_t n, n_tokens, max_depth;
} wr_gr_trie;

/* One string; sorting keeps what is needed of it in front. */
typedef struct wr_gr_trie_entry {
    uint64_t head; /* its first bytes, the first one uppermost */
    const uint8_t *text;
    uint32_t length; /* below 65536 */
    wr_gr_trie_token token;
} wr_gr_trie_entry;

/* Sorts entries. False when out of memory. */
bool wr_gr_trie_init(wr_gr_trie *t, wr_gr_trie_entry *entries, size_t n);
void wr_gr_trie_deinit(wr_gr_trie *t);
size_t wr_gr_trie_bytes(const wr_gr_trie *t);

#endif
