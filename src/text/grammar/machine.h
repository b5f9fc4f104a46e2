/* Running a program. A configuration is a place in the innermost frame, that frame's registers, and the frames below;
 * what a text can mean is a set of configurations, nearly always of one. The place is a set of the program's states
 * that no text so far tells apart (a state of the deterministic automaton of that frame, made when it is first needed),
 * or within a number the readings that its sets have of the text.
 *
 * Places are shared by threads: they are published with release stores, never changed and never freed before the
 * machine. Making one takes a lock. */
#ifndef WR_TEXT_GRAMMAR_MACHINE_H
#define WR_TEXT_GRAMMAR_MACHINE_H

#include <pthread.h>

#include "text/grammar/program.h"
#include "text/grammar/sets.h"

enum {
    WR_GR_CONFIGS_MAX = 512, /* readings of one text at once */
    WR_GR_DEPTH_MAX = 600,   /* frames; JSON takes one a level */
    WR_GR_LEAF_FRAMES = 8,   /* containers stop this much earlier than what they hold, so that a value always fits */
};

/* Strings and keys share places; what a place says about tokens differs. */
typedef enum wr_gr_variant { WR_GR_UNCOUNTED, WR_GR_COUNTED, WR_GR_IN_KEY, WR_GR_VARIANTS } wr_gr_variant;

struct wr_gr_info;

typedef struct wr_gr_place {
    int32_t tag; /* final: from 0, else -1 */
    uint8_t guard;
    bool boundary;
    bool only_final; /* nothing can be read or called here */
    bool others;     /* key: some state spells no declared name */
    bool plain;      /* reading is all there is to it: not final, no calls */
    uint32_t n_calls;
    const uint32_t *calls;
    uint32_t number;                                   /* of its set */
    uint64_t names[WR_GR_NAME_WORDS];                  /* key: declared names that may still come out */
    _Atomic(struct wr_gr_info *) info[WR_GR_VARIANTS]; /* masks, by the kind of frame that the place lies in */
    _Atomic(struct wr_gr_place *) next[];              /* [n_classes]; NULL: not known yet */
} wr_gr_place;

/* Leads nowhere. */
extern wr_gr_place wr_gr_dead;

typedef struct wr_gr_machine {
    weir_grammar *program; /* retained */
    pthread_mutex_t lock;  /* of all below but atomics */
    wr_sets sets;
    wr_gr_place **place; /* [sets.n] */
    size_t place_cap;
    _Atomic(wr_gr_place *) *back;    /* [n_slots] where calls go on */
    _Atomic(wr_gr_place *) *enter;   /* [n_rules] where rules start */
    uint32_t *stamp, *todo, *member; /* [n_states] */
    uint32_t now;
    uint32_t *reading; /* of a number: the key of the place that is being made */
    size_t reading_cap;
    atomic_size_t used_bytes;
    size_t cap_bytes;
} wr_gr_machine;

weir_status wr_gr_machine_init(wr_gr_machine *m, weir_grammar *program, size_t cap_bytes, weir_error *err);
void wr_gr_machine_deinit(wr_gr_machine *m);
/* NULL when there is no room (LIMIT) or no memory (MEMORY), in *status. */
wr_gr_place *wr_gr_enter(wr_gr_machine *m, uint32_t rule, weir_status *status);
wr_gr_place *wr_gr_back(wr_gr_machine *m, uint32_t call, int32_t tag, weir_status *status);
wr_gr_place *wr_gr_next_slow(wr_gr_machine *m, wr_gr_place *from, uint8_t byte, weir_status *status);
static inline wr_gr_place *wr_gr_next(wr_gr_machine *m, wr_gr_place *from, uint8_t byte, weir_status *status) {
    wr_gr_place *to = atomic_load_explicit(&from->next[m->program->class_of[byte]], memory_order_acquire);
    return to ? to : wr_gr_next_slow(m, from, byte, status);
}
/* The place inside an unconstrained JSON string; NULL when the program has none. */
wr_gr_place *wr_gr_any_string(wr_gr_machine *m, weir_status *status);

#endif
