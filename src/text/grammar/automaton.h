/* Finite automata over characters, in build memory: what patterns, formats, number ranges and lengths become before
 * they are spelled in bytes. They can be intersected and asked for emptiness, which expressions cannot. */
#ifndef WR_TEXT_GRAMMAR_AUTOMATON_H
#define WR_TEXT_GRAMMAR_AUTOMATON_H

#include "text/grammar/expr.h"

typedef struct wr_arrow {
    const wr_charset *on; /* NULL: without a character */
    uint32_t to, next;    /* next arrow of the same state, 0 = none */
} wr_arrow;

typedef struct wr_auto_state {
    uint32_t arrows; /* first, 0 = none */
    int32_t tag;     /* accepting: from 0; else -1 */
} wr_auto_state;

struct wr_auto {
    wr_auto_state *state;
    wr_arrow *arrow; /* [0] is not used */
    size_t n, cap, n_arrows, arrow_cap;
    uint32_t start;
    bool deterministic;
};

wr_auto *wr_auto_new(wr_gr_build *b);
bool wr_auto_state_add(wr_gr_build *b, wr_auto *a, int32_t tag, uint32_t *id);
bool wr_auto_arrow_add(wr_gr_build *b, wr_auto *a, uint32_t from, const wr_charset *on, uint32_t to);

/* Whole texts that e matches; no calls in e. Anchors within e mean the ends of the text. Every state of the result can
 * be reached and can reach acceptance (but the start of an empty one). */
wr_auto *wr_auto_of(wr_gr_build *b, const wr_expr *e);
/* Texts with a part that e matches: JSON Schema's "pattern". */
wr_auto *wr_auto_search(wr_gr_build *b, const wr_expr *e);
/* min to max characters of any kind; max may be WR_EXPR_ENDLESS. */
wr_auto *wr_auto_length(wr_gr_build *b, uint32_t min, uint32_t max);
/* Deterministic and trimmed; LIMIT when it needs more than WR_GR_AUTO_STATES_MAX states. A text that several
 * tags accept gets the smallest tag. */
wr_auto *wr_auto_determine(wr_gr_build *b, const wr_auto *a);
/* Texts that both accept, with x's tags. */
wr_auto *wr_auto_and(wr_gr_build *b, const wr_auto *x, const wr_auto *y);
/* Every text that a, which is made deterministic, refuses; tag 0. */
wr_auto *wr_auto_not(wr_gr_build *b, const wr_auto *a);
/* Several in one, tags kept. */
wr_auto *wr_auto_or(wr_gr_build *b, const wr_auto *const *list, size_t n);
bool wr_auto_is_empty(const wr_auto *a);
/* The tag that a (any automaton) gives the text, -1: not accepted. False when the build has failed. */
bool wr_auto_match(wr_gr_build *b, const wr_auto *a, const char *text, size_t bytes, int32_t *tag);

#endif
