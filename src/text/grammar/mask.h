/* Masks: what the places of a configuration say, put together with the frames below. */
#ifndef WR_TEXT_GRAMMAR_MASK_H
#define WR_TEXT_GRAMMAR_MASK_H

#include "text/grammar/info.h"

/* Add the tokens that may follow c to mask, [n_words]; empty: nothing was added so far. False when w has failed. */
bool wr_gr_mask_add(weir_constraint *k, wr_gr_walk *w, const wr_gr_config *c, uint32_t *mask, bool empty);

#endif
