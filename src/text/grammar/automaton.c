/* From expressions to automata (Thompson's construction), and trimming. Anchors are resolved here: what can be reached
 * through ^ without a character belongs to the start only, and $ leads only to acceptance without a way on. */
#include "text/grammar/automaton.h"

#include <string.h>

/* Marks of anchor arrows while an expression is built; compared by address. */
static const wr_charset begin_mark, end_mark;

wr_auto *wr_auto_new(wr_gr_build *b) {
    wr_auto *a = wr_gr_alloc(b, 1, sizeof *a);
    if (!a || !wr_gr_more(b, &a->arrow, &a->arrow_cap, 1, sizeof *a->arrow)) return NULL;
    a->n_arrows = 1;
    return a;
}

bool wr_auto_state_add(wr_gr_build *b, wr_auto *a, int32_t tag, uint32_t *id) {
    if (!wr_gr_more(b, &a->state, &a->cap, a->n + 1, sizeof *a->state)) return false;
    a->state[a->n] = (wr_auto_state){0, tag};
    *id = (uint32_t)a->n++;
    return true;
}

bool wr_auto_arrow_add(wr_gr_build *b, wr_auto *a, uint32_t from, const wr_charset *on, uint32_t to) {
    if (!wr_gr_more(b, &a->arrow, &a->arrow_cap, a->n_arrows + 1, sizeof *a->arrow)) return false;
    a->arrow[a->n_arrows] = (wr_arrow){on, to, a->state[from].arrows};
    a->state[from].arrows = (uint32_t)a->n_arrows++;
    return true;
}

/* ---- Expressions ------------------------------------------------------------ */

static bool link(wr_gr_build *b, wr_auto *a, const wr_expr *e, uint32_t from, uint32_t to);

static bool link_repeat(wr_gr_build *b, wr_auto *a, const wr_expr *e, uint32_t from, uint32_t to) {
    uint32_t at = from, next, max = e->max;
    for (uint32_t i = 0; i < e->min; i++, at = next)
        if (!wr_auto_state_add(b, a, -1, &next) || !link(b, a, e->child[0], at, next)) return false;
    if (max == WR_EXPR_ENDLESS) {
        return wr_auto_state_add(b, a, -1, &next) && wr_auto_arrow_add(b, a, at, NULL, next) &&
               link(b, a, e->child[0], next, next) && wr_auto_arrow_add(b, a, next, NULL, to);
    }
    for (uint32_t i = e->min; i < max; i++, at = next)
        if (!wr_auto_arrow_add(b, a, at, NULL, to) || !wr_auto_state_add(b, a, -1, &next) ||
            !link(b, a, e->child[0], at, next))
            return false;
    return wr_auto_arrow_add(b, a, at, NULL, to);
}

/* A copy of inner behind the states of a, entered from a state by an empty arrow; *base: where its states begin. */
static bool copy_into(wr_gr_build *b, wr_auto *a, const wr_auto *inner, bool tags, uint32_t from, uint32_t *base) {
    uint32_t id;
    *base = (uint32_t)a->n;
    for (size_t i = 0; i < inner->n; i++)
        if (!wr_auto_state_add(b, a, tags ? inner->state[i].tag : -1, &id)) return false;
    for (uint32_t i = 0; i < inner->n; i++)
        for (uint32_t k = inner->state[i].arrows; k; k = inner->arrow[k].next)
            if (!wr_auto_arrow_add(b, a, *base + i, inner->arrow[k].on, *base + inner->arrow[k].to)) return false;
    return wr_auto_arrow_add(b, a, from, NULL, *base + inner->start);
}

static bool link_automaton(wr_gr_build *b, wr_auto *a, const wr_auto *inner, uint32_t from, uint32_t to) {
    uint32_t base;
    if (!copy_into(b, a, inner, false, from, &base)) return false;
    for (uint32_t i = 0; i < inner->n; i++)
        if (inner->state[i].tag >= 0 && !wr_auto_arrow_add(b, a, base + i, NULL, to)) return false;
    return true;
}

/* Lay e between two states. Recursion is as deep as the expression, which its parser bounds. */
static bool link(wr_gr_build *b, wr_auto *a, const wr_expr *e, uint32_t from, uint32_t to) {
    uint32_t at = from, next;
    switch (e->kind) {
    case WR_EXPR_EMPTY: return wr_auto_arrow_add(b, a, from, NULL, to);
    case WR_EXPR_CLASS: return e->set->n == 0 || wr_auto_arrow_add(b, a, from, e->set, to);
    case WR_EXPR_CAT:
        for (size_t i = 0; i < e->n; i++, at = next)
            if (!wr_auto_state_add(b, a, -1, &next) || !link(b, a, e->child[i], at, next)) return false;
        return wr_auto_arrow_add(b, a, at, NULL, to);
    case WR_EXPR_ALT:
        for (size_t i = 0; i < e->n; i++)
            if (!link(b, a, e->child[i], from, to)) return false;
        return true;
    case WR_EXPR_REPEAT: return link_repeat(b, a, e, from, to);
    case WR_EXPR_BEGIN: return wr_auto_arrow_add(b, a, from, &begin_mark, to);
    case WR_EXPR_END: return wr_auto_arrow_add(b, a, from, &end_mark, to);
    case WR_EXPR_AUTO: return link_automaton(b, a, e->automaton, from, to);
    case WR_EXPR_CALL:
    case WR_EXPR_QUOTED:
    case WR_EXPR_TEXTS: break;
    }
    wr_assert(!"an expression that calls a rule is no automaton");
}

/* ---- Trimming --------------------------------------------------------------- */

static bool mark_forward(wr_gr_build *b, const wr_auto *a, uint32_t from, bool through_begin, bool only_empty,
                         uint8_t *seen) {
    uint32_t *todo = wr_gr_alloc(b, a->n, sizeof *todo);
    size_t n = 0;
    if (!todo) return false;
    if (!seen[from]) todo[n++] = from, seen[from] = 1;
    while (n) {
        uint32_t q = todo[--n];
        for (uint32_t k = a->state[q].arrows; k; k = a->arrow[k].next) {
            const wr_charset *on = a->arrow[k].on;
            if (on == &end_mark || (on == &begin_mark && !through_begin)) continue;
            if (only_empty && on && on != &begin_mark) continue;
            uint32_t to = a->arrow[k].to;
            if (!seen[to]) todo[n++] = to, seen[to] = 1;
        }
    }
    return true;
}

/* States that reach an accepting one; without a character when only_empty (and then through $). */
static bool mark_backward(wr_gr_build *b, const wr_auto *a, bool only_empty, uint8_t *seen) {
    uint32_t *first = wr_gr_alloc(b, a->n + 1, sizeof *first), *from = wr_gr_alloc(b, a->n_arrows, sizeof *from);
    uint32_t *todo = wr_gr_alloc(b, a->n, sizeof *todo);
    size_t n = 0;
    if (!first || !from || !todo) return false;
    for (size_t i = 0; i < a->n; i++)
        for (uint32_t k = a->state[i].arrows; k; k = a->arrow[k].next) first[a->arrow[k].to + 1]++;
    for (size_t i = 0; i < a->n; i++) first[i + 1] += first[i];
    for (size_t i = a->n; i-- > 0;) {
        for (uint32_t k = a->state[i].arrows; k; k = a->arrow[k].next) {
            const wr_charset *on = a->arrow[k].on;
            bool pass = only_empty ? !on || on == &end_mark : on != &begin_mark && on != &end_mark;
            from[first[a->arrow[k].to]++] = pass ? (uint32_t)i + 1 : 0;
        }
    }
    for (size_t i = 0; i < a->n; i++)
        if (a->state[i].tag >= 0) seen[i] = 1, todo[n++] = (uint32_t)i;
    while (n) {
        uint32_t q = todo[--n];
        for (uint32_t k = q ? first[q - 1] : 0; k < first[q]; k++) {
            uint32_t p = from[k];
            if (p && !seen[p - 1]) seen[p - 1] = 1, todo[n++] = p - 1;
        }
    }
    return true;
}

/* A copy of what is reachable and leads somewhere, without anchor arrows. */
static wr_auto *trim(wr_gr_build *b, const wr_auto *a) {
    uint8_t *forward = wr_gr_alloc(b, a->n, 1), *backward = wr_gr_alloc(b, a->n, 1);
    uint32_t *id = wr_gr_alloc(b, a->n, sizeof *id);
    wr_auto *out = wr_auto_new(b);
    if (!forward || !backward || !id || !out || !mark_forward(b, a, a->start, false, false, forward) ||
        !mark_backward(b, a, false, backward))
        return NULL;
    for (size_t i = 0; i < a->n; i++)
        if (((forward[i] && backward[i]) || i == a->start) && !wr_auto_state_add(b, out, a->state[i].tag, &id[i]))
            return NULL;
    for (size_t i = 0; i < a->n; i++) {
        if (!(forward[i] && backward[i])) continue;
        for (uint32_t k = a->state[i].arrows; k; k = a->arrow[k].next) {
            wr_arrow w = a->arrow[k];
            if (w.on == &begin_mark || w.on == &end_mark || !(forward[w.to] && backward[w.to])) continue;
            if (!wr_auto_arrow_add(b, out, id[i], w.on, id[w.to])) return NULL;
        }
    }
    out->start = id[a->start];
    out->deterministic = a->deterministic;
    return out;
}

/* ---- Anchors ---------------------------------------------------------------- */

/* e between a fresh start and one accepting state; $ arrows become empty ones to acceptance at the end, *end. */
static wr_auto *lay(wr_gr_build *b, const wr_expr *e, uint32_t *begin, uint32_t *accept, uint32_t *end) {
    wr_auto *a = e ? wr_auto_new(b) : NULL;
    if (!a || !wr_auto_state_add(b, a, -1, begin) || !wr_auto_state_add(b, a, 0, accept) ||
        !link(b, a, e, *begin, *accept) || !wr_auto_state_add(b, a, -1, end))
        return NULL;
    uint8_t *at_end = wr_gr_alloc(b, a->n, 1);
    if (!at_end || !mark_backward(b, a, true, at_end)) return NULL;
    a->state[*end].tag = 0;
    for (uint32_t k = 1, n = (uint32_t)a->n_arrows; k < n; k++)
        if (a->arrow[k].on == &end_mark && at_end[a->arrow[k].to])
            a->arrow[k] = (wr_arrow){NULL, *end, a->arrow[k].next};
    return a;
}

/* The start gets empty arrows to all that begin reaches without a character, ^ passed. */
static bool open_begin(wr_gr_build *b, wr_auto *a, uint32_t begin) {
    uint8_t *seen = wr_gr_alloc(b, a->n, 1);
    size_t n = a->n;
    if (!seen || !mark_forward(b, a, begin, true, true, seen) || !wr_auto_state_add(b, a, -1, &a->start)) return false;
    for (uint32_t i = 0; i < n; i++)
        if (seen[i] && !wr_auto_arrow_add(b, a, a->start, NULL, i)) return false;
    return true;
}

wr_auto *wr_auto_of(wr_gr_build *b, const wr_expr *e) {
    uint32_t begin, accept, end;
    wr_auto *a = lay(b, e, &begin, &accept, &end);
    return a && open_begin(b, a, begin) ? trim(b, a) : NULL;
}

wr_auto *wr_auto_search(wr_gr_build *b, const wr_expr *e) {
    uint32_t begin, accept, end, skip;
    wr_auto *a = lay(b, e, &begin, &accept, &end);
    const wr_charset *any = wr_charset_any(b);
    if (!a || !any || !open_begin(b, a, begin) || !wr_auto_state_add(b, a, -1, &skip) ||
        !wr_auto_arrow_add(b, a, a->start, any, skip) || !wr_auto_arrow_add(b, a, skip, any, skip) ||
        !wr_auto_arrow_add(b, a, skip, NULL, begin) || !wr_auto_arrow_add(b, a, accept, any, accept))
        return NULL;
    return trim(b, a);
}

wr_auto *wr_auto_length(wr_gr_build *b, uint32_t min, uint32_t max) {
    wr_auto *a = wr_auto_new(b);
    const wr_charset *any = wr_charset_any(b);
    uint32_t last = max == WR_EXPR_ENDLESS ? min : max, id;
    if (!a || !any) return NULL;
    if (last >= WR_GR_AUTO_STATES_MAX) {
        WR_GR_FAIL(b, WEIR_E_LIMIT, "a length of %u together with another condition; at most %d can be enforced", last,
                   WR_GR_AUTO_STATES_MAX - 1);
        return NULL;
    }
    for (uint32_t i = 0; i <= last; i++)
        if (!wr_auto_state_add(b, a, i >= min ? 0 : -1, &id) || (i && !wr_auto_arrow_add(b, a, id - 1, any, id)))
            return NULL;
    if (max == WR_EXPR_ENDLESS && !wr_auto_arrow_add(b, a, last, any, last)) return NULL;
    a->deterministic = true;
    return a;
}

wr_auto *wr_auto_or(wr_gr_build *b, const wr_auto *const *list, size_t n) {
    wr_auto *a = wr_auto_new(b);
    uint32_t base;
    if (!a || !wr_auto_state_add(b, a, -1, &a->start)) return NULL;
    for (size_t l = 0; l < n; l++)
        if (!list[l] || !copy_into(b, a, list[l], true, a->start, &base)) return NULL;
    return trim(b, a);
}

bool wr_auto_is_empty(const wr_auto *a) { return a->state[a->start].tag < 0 && !a->state[a->start].arrows; }
