/* Numbers lists of words: the same list, the same number. The subset construction, whose lists are sets of states,
 * needs it twice, over characters while compiling and over bytes while matching; products and numbers have states of
 * several words. */
#ifndef WR_TEXT_GRAMMAR_SETS_H
#define WR_TEXT_GRAMMAR_SETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct wr_sets {
    uint32_t *pool;           /* all members, one list after the other */
    uint32_t *first, *length; /* of each list, in pool */
    uint32_t *slot;           /* open addressing, number + 1, 0 = empty */
    size_t n, cap, length_cap, pool_n, pool_cap, n_slots;
} wr_sets;

void wr_sets_deinit(wr_sets *s);
/* *fresh: it is new. Sets must come sorted, each member once. False when out of memory. */
bool wr_sets_number(wr_sets *s, const uint32_t *members, size_t n, uint32_t *number, bool *fresh);
void wr_sets_sort(uint32_t *members, size_t n);

#endif
