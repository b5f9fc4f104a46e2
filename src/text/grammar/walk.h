/* Reading bytes with sets of configurations, and trying many continuations: sets lie on a stack, and going back is
 * cutting it. A walk belongs to one thread. */
#ifndef WR_TEXT_GRAMMAR_WALK_H
#define WR_TEXT_GRAMMAR_WALK_H

#include "text/grammar/machine.h"

/* A frame that waits for a call to return. Immutable once linked. */
typedef struct wr_gr_node {
    const struct wr_gr_node *up;
    uint32_t rule, call; /* of the waiting frame; the call that it waits for */
    uint32_t count, depth;
    uint32_t references; /* of those that a state keeps */
    uint64_t seen[WR_GR_NAME_WORDS];
} wr_gr_node;

typedef struct wr_gr_config {
    wr_gr_place *at;
    const wr_gr_node *up; /* NULL: the outermost frame */
    uint32_t rule, count;
    uint64_t seen[WR_GR_NAME_WORDS];
} wr_gr_config;

/* A run of configurations on a walk's stack. */
typedef struct wr_gr_set {
    uint32_t first, n;
    uint32_t n_nodes; /* of the walk when the set was complete */
} wr_gr_set;

enum { WR_GR_NODES_OF_CHUNK = 128 };

typedef struct wr_gr_walk {
    wr_gr_machine *m;
    wr_gr_config *config;
    size_t n, cap;
    wr_gr_node **chunk; /* [n_chunks][WR_GR_NODES_OF_CHUNK] */
    size_t n_chunks, chunk_cap, n_nodes;
    weir_status status; /* the first failure: LIMIT or MEMORY */
    /* Relative walks know nothing of the frames from `base` on, nor of the registers of the frame that stands on it.
     * What would need them is handed to stop: the configuration, and whether it has read the present byte already. */
    const wr_gr_node *base;
    const uint64_t *follow; /* bytes that can follow the base's rule, when it is not its own set that counts */
    void (*stop)(void *context, const wr_gr_config *c, bool has_read);
    void *context;
} wr_gr_walk;

void wr_gr_walk_init(wr_gr_walk *w, wr_gr_machine *m);
void wr_gr_walk_deinit(wr_gr_walk *w);
/* Forget all sets but those up to and with this one. */
static inline void wr_gr_walk_cut(wr_gr_walk *w, wr_gr_set set) {
    w->n = set.first + set.n;
    w->n_nodes = set.n_nodes;
}
/* Begin a set behind all others; then add to it. */
wr_gr_set wr_gr_walk_begin(const wr_gr_walk *w);
bool wr_gr_walk_add(wr_gr_walk *w, wr_gr_set *set, const wr_gr_config *c);
/* The set that `from` becomes by a byte, behind all others; empty when the byte does not fit or the walk has failed. */
wr_gr_set wr_gr_walk_byte(wr_gr_walk *w, wr_gr_set from, uint8_t byte);
/* The same of one configuration, by reading within its frame only. */
wr_gr_set wr_gr_walk_read(wr_gr_walk *w, const wr_gr_config *c, uint8_t byte);
/* Return from c, which is final and not outermost; false when that leads nowhere. */
bool wr_gr_walk_pop(wr_gr_walk *w, const wr_gr_config *c, wr_gr_config *below);
/* The start of a text. False when the walk has failed. */
bool wr_gr_walk_start(wr_gr_walk *w, wr_gr_config *c);
/* Push a frame for the call onto c: the configuration within it, or false when it would be too deep, or failed. */
bool wr_gr_walk_push(wr_gr_walk *w, const wr_gr_config *c, uint32_t call, wr_gr_config *inner);
/* The text may end in c. */
bool wr_gr_walk_can_end(wr_gr_walk *w, const wr_gr_config *c);
/* A key that has come to `at`, in the frame above the object's, can still end well; at its end: it has. */
bool wr_gr_key_fits(const wr_gr_walk *w, const wr_gr_node *object, const wr_gr_place *at);
/* Declared names that may come next in an object with these registers; *others: undeclared ones too. */
void wr_gr_names_left(const wr_gr_rule *r, const uint64_t *seen, uint32_t count, uint64_t *left, bool *others);
/* Keys of this object need no look at its registers before they end. */
static inline bool wr_gr_keys_are_open(const wr_gr_rule *object) {
    return object->any_name && object->max == WR_EXPR_ENDLESS;
}

#endif
