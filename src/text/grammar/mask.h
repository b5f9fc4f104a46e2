/* Masks. What a place says about a whole vocabulary, whatever lies below its frame, is found once and kept: the tokens
 * that fit within the frame, and for tokens that leave it, what is left of them where they leave, as a small tree that
 * is tried against the frames at hand. */
#ifndef WR_TEXT_GRAMMAR_MASK_H
#define WR_TEXT_GRAMMAR_MASK_H

#include "text/grammar/index.h"
#include "text/grammar/walk.h"

struct weir_constraint {
    wr_gr_machine machine;
    weir_token_index *index; /* or NULL */
    size_t info_cap_bytes;   /* less than the machine's, so that places always find room */
};

/* Add the tokens that may follow c to mask; `first`: mask is not initialised yet. False when w has failed. */
bool wr_gr_mask_add(weir_constraint *k, wr_gr_walk *w, const wr_gr_config *c, uint32_t *mask, bool first);
void wr_gr_info_free(struct wr_gr_info *info);

#endif
