/* Numbers sets of state numbers: the same set, the same number. The subset construction needs it twice, over characters
 * while compiling and over bytes while matching. */
#ifndef WR_TEXT_GRAMMAR_SETS_H
#define WR_TEXT_GRAMMAR_SETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct wr_sets {
    uint32_t *pool;           /* all members, one set after the other */
    uint32_t *first, *length; /* of each set, in pool */
    uint32_t *slot;           /* open addressing, number + 1, 0 = empty */
    size_t n, cap, length_cap, pool_n, pool_cap, n_slots;
} wr_sets;

void wr_sets_deinit(wr_sets *s);
/* members: sorted, each once. *fresh: it is new. False when out of memory. */
bool wr_sets_number(wr_sets *s, const uint32_t *members, size_t n, uint32_t *number, bool *fresh);

#endif
