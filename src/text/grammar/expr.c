/* Constructors of expressions. */
#include "text/grammar/expr.h"

#include "text/unicode.h"

wr_expr *wr_expr_new(wr_gr_build *b, wr_expr_kind kind) {
    wr_expr *e = wr_gr_alloc(b, 1, sizeof *e);
    if (e) e->kind = kind;
    return e;
}

wr_expr *wr_expr_class(wr_gr_build *b, const wr_charset *set) {
    wr_expr *e = set ? wr_expr_new(b, WR_EXPR_CLASS) : NULL;
    if (e) e->set = set;
    return e;
}

bool wr_expr_add(wr_gr_build *b, wr_expr *parent, wr_expr *child) {
    if (!parent || !child || !wr_gr_more(b, &parent->child, &parent->cap, parent->n + 1, sizeof(wr_expr *)))
        return false;
    parent->child[parent->n++] = child;
    return true;
}

wr_expr *wr_expr_repeat(wr_gr_build *b, wr_expr *child, uint32_t min, uint32_t max) {
    wr_expr *e = wr_expr_new(b, WR_EXPR_REPEAT);
    if (!wr_expr_add(b, e, child)) return NULL;
    e->min = min;
    e->max = max;
    return e;
}

wr_expr *wr_expr_call(wr_gr_build *b, uint32_t rule) {
    wr_expr *e = wr_expr_new(b, WR_EXPR_CALL);
    if (e) e->rule = rule;
    return e;
}

wr_expr *wr_expr_automaton(wr_gr_build *b, const wr_auto *automaton) {
    wr_expr *e = automaton ? wr_expr_new(b, WR_EXPR_AUTO) : NULL;
    if (e) e->automaton = automaton;
    return e;
}

wr_expr *wr_expr_quoted(wr_gr_build *b, wr_expr *child) {
    wr_expr *e = wr_expr_new(b, WR_EXPR_QUOTED);
    return wr_expr_add(b, e, child) ? e : NULL;
}

wr_expr *wr_expr_text(wr_gr_build *b, const char *text, size_t bytes) {
    wr_expr *all = wr_expr_new(b, WR_EXPR_CAT);
    for (size_t i = 0; all && i < bytes;) {
        uint32_t cp;
        i += (size_t)wr_utf8_get((const uint8_t *)text + i, &cp);
        if (!wr_expr_add(b, all, wr_expr_class(b, wr_charset_range(b, cp, cp)))) return NULL;
    }
    return all;
}

bool wr_expr_text_add(wr_gr_build *b, wr_expr *texts, const char *text, size_t bytes) {
    if (!texts || !wr_gr_more(b, &texts->view, &texts->view_cap, texts->n_views + 1, sizeof *texts->view)) return false;
    texts->view[texts->n_views++] = (wr_expr_view){text, bytes};
    return true;
}
