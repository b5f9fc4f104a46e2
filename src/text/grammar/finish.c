/* What is found out about a whole program: which states lead anywhere, what can begin each rule, which bytes are alike.
 * A state that leads nowhere is never entered, so a text that was accepted so far can always be completed. */
#include <string.h>

#include "text/grammar/program.h"

/* ---- Live states ------------------------------------------------------------ */

static bool call_lives(const wr_gr_program *p, const wr_gr_call *call) {
    for (uint32_t i = 0; p->rule[call->rule].live && i < call->n_backs; i++)
        if (p->state[call->back + i].live) return true;
    return false;
}

static bool state_lives(const wr_gr_program *p, uint32_t s) {
    if (p->state[s].tag >= 0 && (p->state[s].need == WR_GR_NONE || p->state[p->state[s].need].live)) return true;
    for (uint32_t k = p->state[s].edges; k; k = p->edge[k].next) {
        wr_gr_edge edge = p->edge[k];
        if (edge.kind == WR_GR_CALL ? call_lives(p, &p->call[edge.to]) : p->state[edge.to].live) return true;
    }
    return false;
}

/* Names that can have a value, and whether other names can. */
static void offer(const wr_gr_program *p, wr_gr_rule *r) {
    wr_gr_call key = p->call[r->key_call];
    memset(r->offered, 0, sizeof r->offered);
    r->others = r->any_name = p->state[key.back].live;
    for (uint32_t t = 1; t < key.n_backs; t++) {
        if (!p->state[key.back + t].live) continue;
        if (t <= r->n_names)
            wr_gr_bit_set(r->offered, t - 1);
        else
            r->others = true;
    }
}

static bool rule_lives(const wr_gr_program *p, wr_gr_rule *r) {
    if (!p->state[r->start].live) return false;
    for (uint32_t n = r->needs; n; n = p->need[n].next)
        if (!p->state[p->need[n].state].live) return false;
    if (r->frame != WR_GR_OBJECT) return true;
    offer(p, r);
    uint32_t names = 0;
    for (int w = 0; w < WR_GR_NAME_WORDS; w++) names += (uint32_t)__builtin_popcountll(r->offered[w]);
    return r->min <= r->max && r->n_required <= r->max && (r->others || r->min <= names);
}

/* States that an edge without a call leads from, by where it leads to: those of t are from[begin[t] .. begin[t + 1]).
 */
typedef struct arrivals {
    uint32_t *begin, *from;
} arrivals;

static bool find_arrivals(wr_gr_emit *e, arrivals *a) {
    const wr_gr_program *p = e->p;
    a->begin = wr_gr_alloc(e->b, p->n_states + 2, sizeof *a->begin);
    a->from = wr_gr_alloc(e->b, p->n_edges + 1, sizeof *a->from);
    if (!a->begin || !a->from) return false;
    memset(a->begin, 0, (p->n_states + 2) * sizeof *a->begin);
    uint32_t *end = a->begin + 1; /* of each, once all are there */
    for (size_t s = 0; s < p->n_states; s++)
        for (uint32_t k = p->state[s].edges; k; k = p->edge[k].next)
            if (p->edge[k].kind != WR_GR_CALL) end[p->edge[k].to + 1]++;
    for (size_t s = 0; s < p->n_states; s++) end[s + 1] += end[s];
    for (size_t s = 0; s < p->n_states; s++)
        for (uint32_t k = p->state[s].edges; k; k = p->edge[k].next)
            if (p->edge[k].kind != WR_GR_CALL) a->from[end[p->edge[k].to]++] = (uint32_t)s;
    return true;
}

/* The state lives, and all from which edges lead here. */
static void revive(wr_gr_program *p, uint32_t state, const arrivals *a, uint32_t *todo) {
    size_t n = 0;
    p->state[state].live = true;
    for (todo[n++] = state; n > 0;) {
        uint32_t t = todo[--n];
        for (uint32_t i = a->begin[t]; i < a->begin[t + 1]; i++) {
            uint32_t s = a->from[i];
            if (p->state[s].live) continue;
            p->state[s].live = true;
            todo[n++] = s;
        }
    }
}

/* The smallest solution. What depends on calls and needs is found by sweeps, of which chains of these take few. */
static void find_live(wr_gr_program *p, const arrivals *a, uint32_t *todo) {
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t s = p->n_states; s-- > 0;)
            if (!p->state[s].live && state_lives(p, (uint32_t)s)) {
                revive(p, (uint32_t)s, a, todo);
                changed = true;
            }
        for (size_t r = p->n_rules; r-- > 0;)
            if (!p->rule[r].live && rule_lives(p, &p->rule[r])) changed = p->rule[r].live = true;
    }
    for (size_t c = 0; c < p->n_calls; c++) p->call[c].live = call_lives(p, &p->call[c]);
    for (size_t r = 0; r < p->n_rules; r++)
        if (p->rule[r].frame == WR_GR_OBJECT) offer(p, &p->rule[r]);
}

/* ---- Beginnings ------------------------------------------------------------- */

/* Walks of the states that a rule's start reaches without a byte. */
typedef struct walk {
    wr_gr_emit *e;
    uint32_t *stamp, *todo; /* [n_states] */
    uint32_t now;
} walk;

/* Calls visit(context, state) for each; false from it ends the walk. */
static bool each_at_start(walk *w, uint32_t rule, bool (*visit)(void *context, uint32_t state), void *context) {
    const wr_gr_program *p = w->e->p;
    size_t n = 0;
    w->now++;
    w->todo[n++] = p->rule[rule].start;
    w->stamp[p->rule[rule].start] = w->now;
    while (n) {
        uint32_t s = w->todo[--n];
        if (!p->state[s].live) continue;
        if (!visit(context, s)) return false;
        for (uint32_t k = p->state[s].edges; k; k = p->edge[k].next) {
            wr_gr_edge edge = p->edge[k];
            uint32_t to = edge.to;
            if (edge.kind == WR_GR_BYTES) continue;
            if (edge.kind == WR_GR_CALL) {
                if (!p->rule[p->call[edge.to].rule].nullable) continue;
                to = p->call[edge.to].back;
            }
            if (w->stamp[to] == w->now) continue;
            w->stamp[to] = w->now;
            w->todo[n++] = to;
        }
    }
    return true;
}

static bool is_not_final(void *context, uint32_t s) { return ((const wr_gr_program *)context)->state[s].tag < 0; }

static void find_nullable(walk *w) {
    wr_gr_program *p = w->e->p;
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t r = p->n_rules; r-- > 0;) {
            if (p->rule[r].frame != WR_GR_PLAIN || p->rule[r].nullable || !p->rule[r].live) continue;
            if (!each_at_start(w, (uint32_t)r, is_not_final, p)) changed = p->rule[r].nullable = true;
        }
    }
}

/* The rules that a rule calls before its first byte, as a growing list; and its own first bytes. */
typedef struct beginnings {
    wr_gr_emit *e;
    wr_gr_rule *rule;
    uint32_t *callee;
    size_t n, cap;
} beginnings;

static bool note_beginning(void *context, uint32_t s) {
    beginnings *g = context;
    const wr_gr_program *p = g->e->p;
    for (uint32_t k = p->state[s].edges; k; k = p->edge[k].next) {
        wr_gr_edge edge = p->edge[k];
        if (edge.kind == WR_GR_BYTES && p->state[edge.to].live)
            for (unsigned c = edge.lo; c <= edge.hi; c++) wr_gr_bit_set(g->rule->first, c);
        if (edge.kind != WR_GR_CALL || !p->call[edge.to].live) continue;
        if (!wr_gr_more(g->e->b, &g->callee, &g->cap, g->n + 1, sizeof *g->callee)) return false;
        g->callee[g->n++] = p->call[edge.to].rule;
    }
    return true;
}

/* First bytes of every rule, callees before callers; a rule that begins with itself is refused. */
static bool find_first(walk *w) {
    enum { WHITE, GREY, BLACK };
    wr_gr_program *p = w->e->p;
    wr_gr_build *b = w->e->b;
    uint8_t *color = wr_gr_alloc(b, p->n_rules, 1);
    beginnings *of = wr_gr_alloc(b, p->n_rules, sizeof *of);
    size_t *next = wr_gr_alloc(b, p->n_rules, sizeof *next);
    uint32_t *path = wr_gr_alloc(b, p->n_rules, sizeof *path);
    if (!color || !of || !next || !path) return false;
    for (uint32_t root = 0; root < p->n_rules; root++) {
        size_t depth = 0;
        if (color[root] == WHITE) path[depth++] = root;
        while (depth) {
            uint32_t r = path[depth - 1];
            if (color[r] == WHITE) {
                color[r] = GREY;
                of[r] = (beginnings){.e = w->e, .rule = &p->rule[r]};
                if (!each_at_start(w, r, note_beginning, &of[r])) return false;
            }
            if (next[r] == of[r].n) {
                for (size_t i = 0; i < of[r].n; i++)
                    for (int k = 0; k < 4; k++) p->rule[r].first[k] |= p->rule[of[r].callee[i]].first[k];
                color[r] = BLACK;
                depth--;
                continue;
            }
            uint32_t callee = of[r].callee[next[r]++];
            if (color[callee] == GREY)
                return WR_GR_FAIL(b, WEIR_E_UNSUPPORTED,
                                  "rule \"%s\" can begin with itself (left recursion); write it as a repeat",
                                  p->rule[callee].name ? p->rule[callee].name : "?");
            if (color[callee] == WHITE) path[depth++] = callee;
        }
    }
    return true;
}

/* ---- What follows ----------------------------------------------------------- */

/* Add to the bytes that can follow a rule those that can come at `from`, to which it returns within rule `caller`; and
 * if the caller can end there, what follows the caller. True when there were new ones. */
static bool add_next(walk *w, uint32_t caller, uint32_t from, uint64_t *follow) {
    const wr_gr_program *p = w->e->p;
    uint64_t all[4] = {0};
    size_t n = 0;
    bool changed = false;
    w->now++;
    w->todo[n++] = from;
    w->stamp[from] = w->now;
    while (n) {
        uint32_t s = w->todo[--n];
        if (!p->state[s].live) continue;
        for (int i = 0; i < 4 && p->state[s].tag >= 0; i++) all[i] |= p->rule[caller].follow[i];
        for (uint32_t k = p->state[s].edges; k; k = p->edge[k].next) {
            wr_gr_edge edge = p->edge[k];
            uint32_t to = edge.to;
            if (edge.kind == WR_GR_BYTES) {
                for (unsigned c = edge.lo; c <= edge.hi && p->state[to].live; c++) wr_gr_bit_set(all, c);
                continue;
            }
            if (edge.kind == WR_GR_CALL) {
                const wr_gr_rule *callee = &p->rule[p->call[edge.to].rule];
                for (int i = 0; i < 4 && p->call[edge.to].live; i++) all[i] |= callee->first[i];
                if (!callee->nullable) continue;
                to = p->call[edge.to].back;
            }
            if (w->stamp[to] == w->now) continue;
            w->stamp[to] = w->now;
            w->todo[n++] = to;
        }
    }
    for (int i = 0; i < 4; i++) {
        changed |= (all[i] & ~follow[i]) != 0;
        follow[i] |= all[i];
    }
    return changed;
}

/* The rule in which each call stands, [n_calls]: found by walking from the starts. What rules share makes no calls. */
static uint32_t *find_callers(walk *w) {
    const wr_gr_program *p = w->e->p;
    uint32_t *caller = wr_gr_alloc(w->e->b, p->n_calls + 1, sizeof *caller);
    for (uint32_t r = 0; caller && r < p->n_rules; r++) {
        size_t n = 0;
        if (w->stamp[p->rule[r].start]) continue;
        w->todo[n++] = p->rule[r].start;
        w->stamp[p->rule[r].start] = 1;
        while (n) {
            for (uint32_t k = p->state[w->todo[--n]].edges, next; k; k = next) {
                wr_gr_edge edge = p->edge[k];
                uint32_t first = edge.to, count = 1;
                next = edge.next;
                if (edge.kind == WR_GR_CALL) {
                    caller[edge.to] = r;
                    first = p->call[edge.to].back;
                    count = p->call[edge.to].n_backs;
                }
                for (uint32_t to = first; to < first + count; to++) {
                    if (w->stamp[to]) continue;
                    w->stamp[to] = 1;
                    w->todo[n++] = to;
                }
            }
        }
    }
    return caller;
}

/* Used only to leave hopeless things untried: when it takes too many rounds, anything may follow. */
static bool find_follow(walk *w) {
    enum { ROUNDS_MAX = 40 };
    wr_gr_program *p = w->e->p;
    memset(w->stamp, 0, p->n_states * sizeof *w->stamp);
    uint32_t *caller = find_callers(w);
    if (!caller) return false;
    memset(w->stamp, 0, p->n_states * sizeof *w->stamp);
    bool changed = true;
    for (int round = 0; changed && round < ROUNDS_MAX; round++) {
        changed = false;
        for (uint32_t c = 0; c < p->n_calls; c++)
            for (uint32_t i = 0; i < p->call[c].n_backs; i++)
                changed |= add_next(w, caller[c], p->call[c].back + i, p->rule[p->call[c].rule].follow);
    }
    for (size_t r = 0; changed && r < p->n_rules; r++) memset(p->rule[r].follow, 0xFF, sizeof p->rule[r].follow);
    return true;
}

/* ---- Classes of bytes ------------------------------------------------------- */

static void find_classes(wr_gr_program *p) {
    bool cut[257] = {false};
    for (size_t k = 1; k < p->n_edges; k++)
        if (p->edge[k].kind == WR_GR_BYTES) cut[p->edge[k].lo] = cut[p->edge[k].hi + 1] = true;
    unsigned class = 0;
    for (unsigned c = 0; c < 256; c++) {
        if (c && cut[c]) class ++;
        p->class_of[c] = (uint8_t) class;
    }
    p->n_classes = class + 1;
}

bool wr_gr_finish(wr_gr_emit *e) {
    wr_gr_program *p = e->p;
    if (e->b->status != WEIR_OK) return false;
    walk w = {.e = e};
    w.stamp = wr_gr_alloc(e->b, p->n_states + 1, sizeof *w.stamp);
    w.todo = wr_gr_alloc(e->b, p->n_states + 1, sizeof *w.todo);
    arrivals to;
    if (!w.stamp || !w.todo || !find_arrivals(e, &to)) return false;
    find_live(p, &to, w.todo);
    if (!p->rule[p->root].live)
        return WR_GR_FAIL(e->b, WEIR_E_FORMAT, "no text at all fits; look for conditions that exclude each other");
    find_nullable(&w);
    if (!find_first(&w) || !find_follow(&w)) return false;
    find_classes(p);
    for (size_t r = 0; r < p->n_rules; r++) p->rule[r].name = NULL;
    return true;
}
