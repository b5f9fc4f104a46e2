/* What a place says about a whole vocabulary, whatever lies below its frame: found once, then kept. */
#ifndef WR_TEXT_GRAMMAR_INFO_H
#define WR_TEXT_GRAMMAR_INFO_H

#include "text/grammar/index.h"
#include "text/grammar/walk.h"

struct weir_constraint {
    wr_gr_machine machine;
    weir_token_index *index; /* or NULL */
    size_t info_cap_bytes;   /* less than the machine's, so that places always find room */
};

/* Most tokens have fewer characters than this. */
enum { WR_GR_ROOMS = 16 };

/* What is left of tokens that reached a point where only the frames below know on: tried against the frames at hand. */
typedef struct wr_gr_leaving {
    wr_gr_place *at;     /* NULL: the end of an unconstrained string, behind its quote */
    uint32_t rule, call; /* the point lies in a frame above the base, pushed by this call; WR_GR_NONE: in the base */
    wr_gr_trie rest;
} wr_gr_leaving;

typedef struct wr_gr_info {
    /* Tokens that begin by reading at the place and end within its frame, or in frames above it: as a mask of n_words,
     * or where they are few as a list. */
    uint32_t *mask, *list;
    uint32_t n_fit;
    /* In frames that count: the tokens in order of the characters they begin; those with at most n of them are
     * by_count[0] to begin[n + 1], n <= max_count. */
    uint32_t *by_count, *begin;
    uint32_t max_count;
    /* Where they are many, also masks of those with at most 0, 1, ... WR_GR_ROOMS - 1 characters, one after the other.
     */
    uint32_t *room;
    wr_gr_leaving *leave;
    size_t n_leave, leave_cap, bytes;
    /* Of unconstrained strings in keys: the tokens that leave (places in the index's list of tokens, rising), and how
     * many bytes they have used until then. */
    uint32_t *leaver, *used;
    size_t n_leavers;
} wr_gr_info;

/* *kept: it stays; else the caller frees it. NULL when w has failed. */
wr_gr_info *wr_gr_info_of(weir_constraint *k, wr_gr_walk *w, const wr_gr_config *c, bool *kept);
void wr_gr_info_free(wr_gr_info *info);

/* ---- Trying a tree of strings ---------------------------------------------- */

typedef struct wr_gr_trial {
    wr_gr_walk *w;
    const wr_gr_trie *trie;
    bool only_read;                /* the first byte is read at the place: no calls, no returns before it */
    uint32_t *mask;                /* for wr_gr_trial_mark */
    uint32_t min_count, max_count; /* tokens with counts outside do not fit */
    uint32_t node;                 /* where the trial is now */
    void (*fits)(struct wr_gr_trial *t, const wr_gr_set *set, uint32_t from, uint32_t to);
    void *context;
} wr_gr_trial;

/* Every string of the tree from the set, depth first; t->fits is told of those that fit, the empty one excepted. False
 * when the walk has failed. */
bool wr_gr_trial_run(wr_gr_trial *t, wr_gr_set start);
/* Sets the tokens' bits. */
void wr_gr_trial_mark(wr_gr_trial *t, const wr_gr_set *set, uint32_t from, uint32_t to);

#endif
