/* SentencePiece's compiled normalisation rules: a double-array trie (Darts-clone)
 * from byte strings to places in a list of terminated replacements. */
#ifndef WR_TEXT_CHARSMAP_H
#define WR_TEXT_CHARSMAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct wr_charsmap {
    uint32_t *units; /* [n_units] */
    char *texts;     /* [n_texts], the last byte is 0, all is valid UTF-8 */
    size_t n_units, n_texts;
    uint8_t ascii[16]; /* one bit a byte: some rule begins with this ASCII character */
} wr_charsmap;

/* Copies out of blob [bytes]: the length of the trie in bytes (32 bits, little
 * endian), the trie, the texts. Errors: FORMAT (sizes do not agree, texts are no
 * UTF-8), MEMORY. */
weir_status wr_charsmap_init(wr_charsmap *map, const uint8_t *blob, size_t bytes, weir_error *err);
void wr_charsmap_deinit(wr_charsmap *map);

/* The replacement (terminated, view) of the shortest or the longest rule that p [n]
 * begins with; NULL when there is none. *used: bytes of p that the rule is for. */
const char *wr_charsmap_shortest(const wr_charsmap *map, const uint8_t *p, size_t n, size_t *used);
const char *wr_charsmap_longest(const wr_charsmap *map, const uint8_t *p, size_t n, size_t *used);

static inline int wr_charsmap_has_ascii(const wr_charsmap *map, uint8_t c) { return map->ascii[c >> 3] >> (c & 7) & 1; }

#endif
