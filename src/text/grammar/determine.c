/* Deterministic automata over characters: subset construction, products, complements, matching. */
#include <string.h>

#include "text/grammar/automaton.h"
#include "text/grammar/sets.h"
#include "text/unicode.h"
#include "text/work.h"

/* Heap of one construction. */
typedef struct subsets {
    wr_gr_build *b;
    const wr_auto *a;
    wr_sets sets;
    uint32_t *stamp, now; /* [a->n] */
    uint32_t *todo;       /* [a->n] */
    uint32_t *member;     /* [n] the set being collected */
    size_t n;
} subsets;

static bool subsets_init(subsets *s, wr_gr_build *b, const wr_auto *a) {
    *s = (subsets){.b = b, .a = a};
    s->stamp = wr_gr_alloc(b, a->n, sizeof *s->stamp);
    s->todo = wr_gr_alloc(b, a->n, sizeof *s->todo);
    s->member = wr_gr_alloc(b, a->n, sizeof *s->member);
    return s->stamp && s->todo && s->member;
}

static void begin_set(subsets *s) {
    s->now++;
    s->n = 0;
}

/* Add q and what empty arrows reach from it. Only states that accept or read are members. */
static void add_closure(subsets *s, uint32_t q) {
    size_t n = 0;
    if (s->stamp[q] == s->now) return;
    s->stamp[q] = s->now;
    s->todo[n++] = q;
    while (n) {
        uint32_t p = s->todo[--n];
        bool member = s->a->state[p].tag >= 0;
        for (uint32_t k = s->a->state[p].arrows; k; k = s->a->arrow[k].next) {
            uint32_t to = s->a->arrow[k].to;
            if (s->a->arrow[k].on) {
                member = true;
            } else if (s->stamp[to] != s->now) {
                s->stamp[to] = s->now;
                s->todo[n++] = to;
            }
        }
        if (member) s->member[s->n++] = p;
    }
}

/* Number the set that was collected; a new one becomes a state of out. */
static bool end_set(subsets *s, wr_auto *out, uint32_t *number) {
    bool fresh;
    wr_sets_sort(s->member, s->n);
    if (!wr_sets_number(&s->sets, s->member, s->n, number, &fresh)) return wr_gr_no_memory(s->b);
    if (!fresh || !out) return true;
    int32_t tag = -1;
    for (size_t i = 0; i < s->n; i++) {
        int32_t t = s->a->state[s->member[i]].tag;
        if (t >= 0 && (tag < 0 || t < tag)) tag = t;
    }
    if (out->n >= WR_GR_AUTO_STATES_MAX)
        return WR_GR_FAIL(s->b, WEIR_E_LIMIT, "an expression needs more than %d states; make it simpler",
                          WR_GR_AUTO_STATES_MAX);
    return wr_auto_state_add(s->b, out, tag, number);
}

/* Cuts of the characters where some arrow of the set begins or ends. */
static bool collect_cuts(subsets *s, const uint32_t *set, size_t n, uint32_t **cut, size_t *cap, size_t *n_cuts) {
    *n_cuts = 0;
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = s->a->state[set[i]].arrows; k; k = s->a->arrow[k].next) {
            const wr_charset *on = s->a->arrow[k].on;
            for (size_t r = 0; on && r < on->n; r++) {
                if (!wr_grow(cut, cap, *n_cuts + 2, sizeof **cut)) return wr_gr_no_memory(s->b);
                (*cut)[(*n_cuts)++] = on->at[r].lo;
                (*cut)[(*n_cuts)++] = on->at[r].hi + 1;
            }
        }
    size_t unique = 0;
    wr_sets_sort(*cut, *n_cuts);
    for (size_t i = 0; i < *n_cuts; i++)
        if (!unique || (*cut)[unique - 1] != (*cut)[i]) (*cut)[unique++] = (*cut)[i];
    *n_cuts = unique;
    return true;
}

typedef struct target {
    uint32_t to;
    wr_charset on;
} target;

/* All arrows of state `from` of out. */
static bool expand(subsets *s, wr_auto *out, uint32_t from, uint32_t **cut, size_t *cap) {
    size_t n = s->sets.length[from], n_cuts, n_targets = 0, target_cap = 0;
    uint32_t *set = wr_gr_alloc(s->b, n + 1, sizeof *set); /* the pool may move */
    target *targets = NULL;
    if (!set) return false;
    if (n) memcpy(set, s->sets.pool + s->sets.first[from], n * sizeof *set);
    if (!collect_cuts(s, set, n, cut, cap, &n_cuts)) return false;
    for (size_t c = 0; c + 1 < n_cuts; c++) {
        uint32_t lo = (*cut)[c], hi = (*cut)[c + 1] - 1, to;
        begin_set(s);
        for (size_t i = 0; i < n; i++)
            for (uint32_t k = s->a->state[set[i]].arrows; k; k = s->a->arrow[k].next)
                if (s->a->arrow[k].on && wr_charset_has(s->a->arrow[k].on, lo)) add_closure(s, s->a->arrow[k].to);
        if (!s->n) continue;
        if (!end_set(s, out, &to)) return false;
        size_t t = 0;
        while (t < n_targets && targets[t].to != to) t++;
        if (t == n_targets) {
            if (!wr_gr_more(s->b, &targets, &target_cap, n_targets + 1, sizeof *targets)) return false;
            targets[n_targets++] = (target){to, {0}};
        }
        if (!wr_charset_add(s->b, &targets[t].on, lo, hi)) return false;
    }
    for (size_t t = 0; t < n_targets; t++) {
        const wr_charset *on = wr_charset_finish(s->b, &targets[t].on);
        if (!on || !wr_auto_arrow_add(s->b, out, from, on, targets[t].to)) return false;
    }
    return true;
}

wr_auto *wr_auto_determine(wr_gr_build *b, const wr_auto *a) {
    subsets s;
    uint32_t *cut = NULL, start;
    size_t cap = 0;
    wr_auto *out = a ? wr_auto_new(b) : NULL;
    if (!out) return NULL;
    if (a->deterministic) return (wr_auto *)a;
    bool ok = subsets_init(&s, b, a);
    if (ok) {
        begin_set(&s);
        add_closure(&s, a->start);
        ok = end_set(&s, out, &start);
    }
    for (uint32_t i = 0; ok && i < out->n; i++) ok = expand(&s, out, i, &cut, &cap);
    wr_free(cut);
    wr_sets_deinit(&s.sets);
    out->start = 0;
    out->deterministic = true;
    return ok ? out : NULL;
}

/* ---- Products and complements ------------------------------------------------ */

static bool pair_state(wr_gr_build *b, wr_sets *pairs, wr_auto *out, const wr_auto *x, const wr_auto *y, uint32_t p,
                       uint32_t q, uint32_t *id) {
    uint32_t key[2] = {p, (uint32_t)x->n + q};
    bool fresh;
    if (!wr_sets_number(pairs, key, 2, id, &fresh)) return wr_gr_no_memory(b);
    if (!fresh) return true;
    if (out->n >= WR_GR_AUTO_STATES_MAX)
        return WR_GR_FAIL(b, WEIR_E_LIMIT,
                          "conditions on one value need more than %d states together; make them simpler",
                          WR_GR_AUTO_STATES_MAX);
    return wr_auto_state_add(b, out, x->state[p].tag >= 0 && y->state[q].tag >= 0 ? x->state[p].tag : -1, id);
}

wr_auto *wr_auto_and(wr_gr_build *b, const wr_auto *first, const wr_auto *second) {
    const wr_auto *x = wr_auto_determine(b, first), *y = wr_auto_determine(b, second);
    wr_auto *out = x && y ? wr_auto_new(b) : NULL;
    wr_sets pairs = {0};
    uint32_t id;
    bool ok = out && pair_state(b, &pairs, out, x, y, x->start, y->start, &id);
    for (uint32_t i = 0; ok && i < out->n; i++) {
        uint32_t p = pairs.pool[pairs.first[i]], q = pairs.pool[pairs.first[i] + 1] - (uint32_t)x->n;
        for (uint32_t k = x->state[p].arrows; ok && k; k = x->arrow[k].next)
            for (uint32_t m = y->state[q].arrows; ok && m; m = y->arrow[m].next) {
                const wr_charset *on = wr_charset_and(b, x->arrow[k].on, y->arrow[m].on);
                if (!on || !on->n) {
                    ok = on != NULL;
                    continue;
                }
                ok = pair_state(b, &pairs, out, x, y, x->arrow[k].to, y->arrow[m].to, &id) &&
                     wr_auto_arrow_add(b, out, i, on, id);
            }
    }
    wr_sets_deinit(&pairs);
    if (!ok) return NULL;
    out->deterministic = true;
    return wr_auto_or(b, &(const wr_auto *){out}, 1); /* trimmed; its empty arrow makes it be determined again */
}

wr_auto *wr_auto_not(wr_gr_build *b, const wr_auto *a) {
    const wr_auto *d = wr_auto_determine(b, a);
    wr_auto *out = d ? wr_auto_new(b) : NULL;
    const wr_charset *any = wr_charset_any(b);
    uint32_t id, rest;
    if (!out || !any) return NULL;
    for (size_t i = 0; i < d->n; i++)
        if (!wr_auto_state_add(b, out, d->state[i].tag >= 0 ? -1 : 0, &id)) return NULL;
    if (!wr_auto_state_add(b, out, 0, &rest) || !wr_auto_arrow_add(b, out, rest, any, rest)) return NULL;
    for (uint32_t i = 0; i < d->n; i++) {
        wr_charset known = {0};
        for (uint32_t k = d->state[i].arrows; k; k = d->arrow[k].next)
            if (!wr_auto_arrow_add(b, out, i, d->arrow[k].on, d->arrow[k].to) ||
                !wr_charset_add_all(b, &known, d->arrow[k].on))
                return NULL;
        const wr_charset *other = wr_charset_not(b, wr_charset_finish(b, &known));
        if (!other || (other->n && !wr_auto_arrow_add(b, out, i, other, rest))) return NULL;
    }
    out->start = d->start;
    return wr_auto_or(b, &(const wr_auto *){out}, 1);
}

bool wr_auto_match(wr_gr_build *b, const wr_auto *a, const char *text, size_t bytes, int32_t *tag) {
    subsets s;
    *tag = -1;
    if (!a || !subsets_init(&s, b, a)) return false;
    uint32_t *set = wr_gr_alloc(b, a->n, sizeof *set);
    if (!set) return false;
    begin_set(&s);
    add_closure(&s, a->start);
    for (size_t i = 0; i < bytes && s.n;) {
        uint32_t cp;
        size_t n = s.n;
        memcpy(set, s.member, n * sizeof *set);
        i += (size_t)wr_utf8_get((const uint8_t *)text + i, &cp);
        begin_set(&s);
        for (size_t m = 0; m < n; m++)
            for (uint32_t k = a->state[set[m]].arrows; k; k = a->arrow[k].next)
                if (a->arrow[k].on && wr_charset_has(a->arrow[k].on, cp)) add_closure(&s, a->arrow[k].to);
    }
    for (size_t i = 0; i < s.n; i++) {
        int32_t t = a->state[s.member[i]].tag;
        if (t >= 0 && (*tag < 0 || t < *tag)) *tag = t;
    }
    return true;
}
