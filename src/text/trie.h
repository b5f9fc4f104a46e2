/* All pieces of a vocabulary as one tree of bytes, to find every piece that begins
 * at a place of a text in one walk. */
#ifndef WR_TEXT_TRIE_H
#define WR_TEXT_TRIE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "text/vocab.h"

typedef struct wr_trie {
    uint32_t *first; /* [n + 1] the children of node i are first[i] ... first[i + 1] - 1, by rising byte */
    uint8_t *byte;   /* [n] the byte that leads to the node */
    int32_t *id;     /* [n] the token that ends there, or -1 */
    size_t n;
    uint32_t root[256]; /* child of the root by byte, 0 = none */
} wr_trie;

/* Of all used tokens without any flag of `skip` (WR_TOKEN_*). Time and memory are
 * linear in the bytes of the pieces. Error: MEMORY. */
weir_status wr_trie_init(wr_trie *t, const wr_vocab *v, unsigned skip, weir_error *err);
void wr_trie_deinit(wr_trie *t);
size_t wr_trie_heap_bytes(const wr_trie *t);

/* The root is node 0. The child of `node` by `byte`; 0 when there is none. */
static inline uint32_t wr_trie_step(const wr_trie *t, uint32_t node, uint8_t byte) {
    if (node == 0) return t->root[byte];
    uint32_t low = t->first[node], high = t->first[node + 1];
    while (high - low > 8) {
        uint32_t mid = low + (high - low) / 2;
        if (t->byte[mid] <= byte) {
            low = mid;
        } else {
            high = mid;
        }
    }
    for (; low < high; low++) {
        if (t->byte[low] == byte) return low;
    }
    return 0;
}

#endif
