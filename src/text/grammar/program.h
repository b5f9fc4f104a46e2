/* The one inner form of every grammar: rules over bytes.
 *
 * A rule is a nondeterministic automaton whose edges read a range of bytes, read nothing, or call a rule. A call pushes
 * a frame; the callee's final state pops it. What is regular needs no frames; only recursion and sharing do. JSON's
 * objects and arrays are rules of their own kind of frame, which remembers which properties it has seen and how many
 * items: so any order of properties costs no states, and a count of a million neither. */
#ifndef WR_TEXT_GRAMMAR_PROGRAM_H
#define WR_TEXT_GRAMMAR_PROGRAM_H

#include <stdatomic.h>

#include "text/grammar/expr.h"
#include "text/grammar/reading.h"
#include "weir/grammar.h"

enum {
    WR_GR_STATES_MAX = 2000000, /* of one grammar */
    WR_GR_NAMES_MAX = 256,      /* declared properties of one object */
    WR_GR_NAME_WORDS = WR_GR_NAMES_MAX / 64,
    WR_GR_NONE = UINT32_MAX,
};

typedef enum wr_gr_frame {
    WR_GR_PLAIN,
    WR_GR_STRING, /* counts characters */
    WR_GR_ARRAY,  /* counts items */
    WR_GR_OBJECT, /* counts properties and remembers the declared ones */
    WR_GR_KEY,    /* the name of a property, behind its opening quote; above the object's frame */
} wr_gr_frame;

/* Conditions for entering a state, on the registers of its own frame. */
typedef enum wr_gr_guard { WR_GR_FREE, WR_GR_MORE, WR_GR_CLOSE } wr_gr_guard;

typedef struct wr_gr_state {
    uint32_t edges; /* first, 0 = none */
    int32_t tag;    /* final: from 0; else -1. In keys: 1 + index of the name, or 0 or above all names for others */
    uint16_t name;  /* 1 + index of the name that this state spells; 0: none */
    uint8_t guard;  /* wr_gr_guard */
    bool boundary;  /* within a JSON string: between two characters */
    bool live;      /* some text leads from here to the end of the rule */
    uint32_t need;  /* a final state counts only while this state is live; WR_GR_NONE: always */
} wr_gr_state;

typedef enum wr_gr_edge_kind { WR_GR_BYTES, WR_GR_EMPTY, WR_GR_CALL } wr_gr_edge_kind;

typedef struct wr_gr_edge {
    uint32_t to, next; /* next edge of the same state, 0 = none; to of a call: the call's number */
    uint8_t kind, lo, hi;
} wr_gr_edge;

typedef struct wr_gr_call {
    uint32_t rule;
    uint32_t back, n_backs; /* states to go on from: back + tag for keys, else back */
    uint32_t slot;          /* place of the first in a table of all of them */
    bool counts;            /* returning from it counts in the caller's frame */
    bool live;              /* some text goes through it to the end of the caller */
} wr_gr_call;

typedef struct wr_gr_rule {
    wr_gr_frame frame;
    uint32_t start;
    uint32_t min, max; /* characters, items or properties; WR_EXPR_ENDLESS: no bound */
    bool others;       /* object: undeclared names may come */
    bool any_name;     /* object: and any name at all is one */
    uint64_t required[WR_GR_NAME_WORDS], offered[WR_GR_NAME_WORDS];
    uint32_t n_required, n_names;
    uint32_t key_call; /* object: the call of its key rule */
    uint32_t needs;    /* first state that must be live for the rule to be, in a list of the program; 0 = none */
    bool nullable, live;
    uint64_t first[4];  /* bytes that can begin it */
    uint64_t follow[4]; /* bytes that can come after it, wherever it is called; or more */
    const char *name;   /* for messages; in build memory, gone afterwards */
    /* A number: any of n_numbers sets of the program. Its states then say only what may be among its first bytes, and
     * that they can be told apart; what is read is a wr_reading for each set. */
    uint32_t number, n_numbers;
} wr_gr_rule;

typedef struct wr_gr_need {
    uint32_t state, next;
} wr_gr_need;

struct weir_grammar {
    atomic_uint references;
    wr_gr_state *state;
    wr_gr_edge *edge; /* [0] is not used */
    wr_gr_call *call;
    wr_gr_rule *rule;
    wr_gr_need *need; /* [0] is not used */
    wr_number_set **number;
    size_t n_states, n_edges, n_calls, n_rules, n_needs, n_slots, n_numbers;
    size_t state_cap, edge_cap, call_cap, rule_cap, need_cap, number_cap;
    uint32_t root;
    /* Bytes that no edge tells apart have the same class. */
    uint8_t class_of[256];
    unsigned n_classes;
    /* The state inside an unconstrained JSON string, WR_GR_NONE without one: most tokens are decided here. */
    uint32_t any_string;
    bool plain_strings; /* how it is spelled */
};
typedef struct weir_grammar wr_gr_program;

/* How classes are spelled. */
typedef enum wr_gr_spelling {
    WR_GR_UTF8,
    WR_GR_JSON,       /* within a JSON string: literally or by any escape */
    WR_GR_JSON_PLAIN, /* the same, escapes only where JSON demands one */
} wr_gr_spelling;

typedef struct wr_gr_emit {
    wr_gr_build *b;
    wr_gr_program *p;
    wr_gr_spelling quoted; /* the spelling within quotes */
    uint16_t name;         /* given to new states */
} wr_gr_emit;

/* All false after recording why in the build. */
bool wr_gr_state_add(wr_gr_emit *e, int32_t tag, uint32_t *id);
bool wr_gr_rule_add(wr_gr_emit *e, wr_gr_frame frame, const char *name, uint32_t *id);
bool wr_gr_empty(wr_gr_emit *e, uint32_t from, uint32_t to);
bool wr_gr_bytes(wr_gr_emit *e, uint32_t from, uint8_t lo, uint8_t hi, uint32_t to);
bool wr_gr_call_add(wr_gr_emit *e, uint32_t from, uint32_t rule, uint32_t back, uint32_t n_backs, bool counts);
/* rule is live only while state is. */
bool wr_gr_need_add(wr_gr_emit *e, uint32_t rule, uint32_t state);
/* Lay an expression between two states. */
bool wr_gr_lay(wr_gr_emit *e, const wr_expr *x, wr_gr_spelling spelling, uint32_t from, uint32_t to);
/* A plain rule that is this expression. */
bool wr_gr_plain_rule(wr_gr_emit *e, const wr_expr *x, uint32_t *rule);
/* A rule for numbers, of no set yet; and one more set, which is copied, before there is another such rule. */
bool wr_gr_number_rule(wr_gr_emit *e, uint32_t *rule);
bool wr_gr_number_add(wr_gr_emit *e, uint32_t rule, const wr_number_set *set);
/* One character; one of a set. */
bool wr_gr_lay_char(wr_gr_emit *e, uint32_t cp, wr_gr_spelling spelling, uint32_t from, uint32_t to);
bool wr_gr_lay_class(wr_gr_emit *e, const wr_charset *set, wr_gr_spelling spelling, uint32_t from, uint32_t to);

/* The last step: which states are live, what can begin a rule, classes of bytes. Errors: UNSUPPORTED for left
 * recursion; FORMAT when no text at all fits. */
bool wr_gr_finish(wr_gr_emit *e);

wr_gr_program *wr_gr_program_new(wr_gr_build *b);

static inline bool wr_gr_bit(const uint64_t *set, unsigned i) { return set[i >> 6] >> (i & 63) & 1; }
static inline void wr_gr_bit_set(uint64_t *set, unsigned i) { set[i >> 6] |= (uint64_t)1 << (i & 63); }

#endif
