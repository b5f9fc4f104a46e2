/* Expressions over characters: what every source of grammars is parsed to. In build memory; a constructor given NULL,
 * or out of memory, gives NULL, and the build has recorded why. */
#ifndef WR_TEXT_GRAMMAR_EXPR_H
#define WR_TEXT_GRAMMAR_EXPR_H

#include "text/grammar/charset.h"

typedef struct wr_auto wr_auto;

typedef enum wr_expr_kind {
    WR_EXPR_EMPTY,
    WR_EXPR_CLASS,  /* one character of set */
    WR_EXPR_CAT,    /* all children in order */
    WR_EXPR_ALT,    /* any one child; none: nothing matches */
    WR_EXPR_REPEAT, /* child 0, min to max times; max WR_EXPR_ENDLESS: no bound */
    WR_EXPR_CALL,   /* rule */
    WR_EXPR_BEGIN,  /* only before the first character, only behind the last: in automata over characters */
    WR_EXPR_END,
    WR_EXPR_AUTO,   /* what the automaton accepts */
    WR_EXPR_QUOTED, /* child 0 as a JSON string spells it, with the quotes */
    WR_EXPR_TEXTS,  /* any one of a list of texts; not in automata */
} wr_expr_kind;

/* Valid UTF-8, borrowed. */
typedef struct wr_expr_view {
    const char *text;
    size_t bytes;
} wr_expr_view;

enum { WR_EXPR_ENDLESS = UINT32_MAX };

typedef struct wr_expr {
    wr_expr_kind kind;
    const wr_charset *set;
    const wr_auto *automaton;
    struct wr_expr **child;
    size_t n, cap;
    uint32_t min, max, rule;
    wr_expr_view *view; /* [n_views] of TEXTS */
    size_t n_views, view_cap;
} wr_expr;

wr_expr *wr_expr_new(wr_gr_build *b, wr_expr_kind kind);
wr_expr *wr_expr_class(wr_gr_build *b, const wr_charset *set);
wr_expr *wr_expr_repeat(wr_gr_build *b, wr_expr *child, uint32_t min, uint32_t max);
wr_expr *wr_expr_call(wr_gr_build *b, uint32_t rule);
wr_expr *wr_expr_automaton(wr_gr_build *b, const wr_auto *automaton);
wr_expr *wr_expr_quoted(wr_gr_build *b, wr_expr *child);
/* Valid UTF-8 as the characters it holds. */
wr_expr *wr_expr_text(wr_gr_build *b, const char *text, size_t bytes);
/* Append to TEXTS. */
bool wr_expr_text_add(wr_gr_build *b, wr_expr *texts, const char *text, size_t bytes);
/* Append to a CAT or an ALT. */
bool wr_expr_add(wr_gr_build *b, wr_expr *parent, wr_expr *child);

#endif
