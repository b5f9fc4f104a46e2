/* Owns the growing tables of a program, and lays expressions into them. */
#include "text/grammar/program.h"

#include <stdlib.h>
#include <string.h>

#include "text/grammar/automaton.h"
#include "text/unicode.h"
#include "text/work.h"

wr_gr_program *wr_gr_program_new(wr_gr_build *b) {
    wr_gr_program *p = wr_calloc(1, sizeof *p);
    size_t need = 1;
    if (p) atomic_init(&p->references, 1);
    if (p && (!wr_grow(&p->edge, &p->edge_cap, need, sizeof *p->edge) ||
              !wr_grow(&p->need, &p->need_cap, need, sizeof *p->need))) {
        weir_grammar_release(p);
        p = NULL;
    }
    if (!p) {
        wr_gr_no_memory(b);
        return NULL;
    }
    p->n_edges = p->n_needs = 1;
    p->any_string = WR_GR_NONE;
    return p;
}

weir_grammar *weir_grammar_retain(weir_grammar *g) {
    atomic_fetch_add_explicit(&g->references, 1, memory_order_relaxed);
    return g;
}

void weir_grammar_release(weir_grammar *g) {
    if (!g || atomic_fetch_sub_explicit(&g->references, 1, memory_order_acq_rel) > 1) return;
    wr_free(g->state);
    wr_free(g->edge);
    wr_free(g->call);
    wr_free(g->rule);
    wr_free(g->need);
    for (size_t i = 0; i < g->n_numbers; i++) wr_free(g->number[i]);
    wr_free(g->number);
    wr_free(g);
}

bool wr_gr_state_add(wr_gr_emit *e, int32_t tag, uint32_t *id) {
    wr_gr_program *p = e->p;
    if (e->b->status != WEIR_OK) return false;
    if (p->n_states >= WR_GR_STATES_MAX)
        return WR_GR_FAIL(e->b, WEIR_E_LIMIT, "the grammar needs more than %d states; make its repeats smaller",
                          WR_GR_STATES_MAX);
    if (!wr_grow(&p->state, &p->state_cap, p->n_states + 1, sizeof *p->state)) return wr_gr_no_memory(e->b);
    p->state[p->n_states] = (wr_gr_state){.tag = tag, .name = e->name, .need = WR_GR_NONE};
    *id = (uint32_t)p->n_states++;
    return true;
}

bool wr_gr_rule_add(wr_gr_emit *e, wr_gr_frame frame, const char *name, uint32_t *id) {
    wr_gr_program *p = e->p;
    if (!wr_grow(&p->rule, &p->rule_cap, p->n_rules + 1, sizeof *p->rule)) return wr_gr_no_memory(e->b);
    p->rule[p->n_rules] = (wr_gr_rule){.frame = frame, .name = name, .max = WR_EXPR_ENDLESS};
    *id = (uint32_t)p->n_rules++;
    return true;
}

static bool edge_add(wr_gr_emit *e, uint32_t from, wr_gr_edge edge) {
    wr_gr_program *p = e->p;
    if (!wr_grow(&p->edge, &p->edge_cap, p->n_edges + 1, sizeof *p->edge)) return wr_gr_no_memory(e->b);
    edge.next = p->state[from].edges;
    p->edge[p->n_edges] = edge;
    p->state[from].edges = (uint32_t)p->n_edges++;
    return true;
}

bool wr_gr_empty(wr_gr_emit *e, uint32_t from, uint32_t to) {
    return edge_add(e, from, (wr_gr_edge){.to = to, .kind = WR_GR_EMPTY});
}

bool wr_gr_bytes(wr_gr_emit *e, uint32_t from, uint8_t lo, uint8_t hi, uint32_t to) {
    return edge_add(e, from, (wr_gr_edge){.to = to, .kind = WR_GR_BYTES, .lo = lo, .hi = hi});
}

bool wr_gr_call_add(wr_gr_emit *e, uint32_t from, uint32_t rule, uint32_t back, uint32_t n_backs, bool counts) {
    wr_gr_program *p = e->p;
    if (!wr_grow(&p->call, &p->call_cap, p->n_calls + 1, sizeof *p->call)) return wr_gr_no_memory(e->b);
    p->call[p->n_calls] = (wr_gr_call){rule, back, n_backs, (uint32_t)p->n_slots, counts, false};
    p->n_slots += n_backs;
    return edge_add(e, from, (wr_gr_edge){.to = (uint32_t)p->n_calls++, .kind = WR_GR_CALL});
}

bool wr_gr_need_add(wr_gr_emit *e, uint32_t rule, uint32_t state) {
    wr_gr_program *p = e->p;
    if (!wr_grow(&p->need, &p->need_cap, p->n_needs + 1, sizeof *p->need)) return wr_gr_no_memory(e->b);
    p->need[p->n_needs] = (wr_gr_need){state, p->rule[rule].needs};
    p->rule[rule].needs = (uint32_t)p->n_needs++;
    return true;
}

/* ---- Expressions ------------------------------------------------------------ */

static bool lay_repeat(wr_gr_emit *e, const wr_expr *x, wr_gr_spelling spelling, uint32_t from, uint32_t to) {
    uint32_t at = from, next;
    for (uint32_t i = 0; i < x->min; i++, at = next)
        if (!wr_gr_state_add(e, -1, &next) || !wr_gr_lay(e, x->child[0], spelling, at, next)) return false;
    if (x->max == WR_EXPR_ENDLESS)
        return wr_gr_state_add(e, -1, &next) && wr_gr_empty(e, at, next) &&
               wr_gr_lay(e, x->child[0], spelling, next, next) && wr_gr_empty(e, next, to);
    for (uint32_t i = x->min; i < x->max; i++, at = next)
        if (!wr_gr_empty(e, at, to) || !wr_gr_state_add(e, -1, &next) || !wr_gr_lay(e, x->child[0], spelling, at, next))
            return false;
    return wr_gr_empty(e, at, to);
}

static bool lay_automaton(wr_gr_emit *e, const wr_auto *a, wr_gr_spelling spelling, uint32_t from, uint32_t to) {
    uint32_t base = (uint32_t)e->p->n_states, id;
    for (size_t i = 0; i < a->n; i++)
        if (!wr_gr_state_add(e, -1, &id)) return false;
    for (uint32_t i = 0; i < a->n; i++) {
        for (uint32_t k = a->state[i].arrows; k; k = a->arrow[k].next) {
            wr_arrow w = a->arrow[k];
            if (!(w.on ? wr_gr_lay_class(e, w.on, spelling, base + i, base + w.to)
                       : wr_gr_empty(e, base + i, base + w.to)))
                return false;
        }
        if (a->state[i].tag >= 0 && !wr_gr_empty(e, base + i, to)) return false;
    }
    return wr_gr_empty(e, from, base + a->start);
}

static int by_text(const void *a, const void *b) {
    const wr_expr_view *x = a, *y = b;
    size_t n = x->bytes < y->bytes ? x->bytes : y->bytes;
    int order = n ? memcmp(x->text, y->text, n) : 0;
    if (order) return order;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* As a tree: texts that begin alike share states. */
static bool lay_texts(wr_gr_emit *e, const wr_expr *x, wr_gr_spelling spelling, uint32_t from, uint32_t to) {
    size_t longest = 0;
    if (x->n_views) qsort(x->view, x->n_views, sizeof *x->view, by_text);
    for (size_t i = 0; i < x->n_views; i++)
        if (x->view[i].bytes > longest) longest = x->view[i].bytes;
    uint32_t *behind = wr_gr_alloc(e->b, longest + 1, sizeof *behind); /* of the present text, by bytes before */
    if (!behind) return false;
    behind[0] = from;
    for (size_t i = 0; i < x->n_views; i++) {
        wr_expr_view v = x->view[i], before = i ? x->view[i - 1] : (wr_expr_view){"", 0};
        size_t at = 0, width;
        uint32_t cp;
        while (at < v.bytes && at < before.bytes && v.text[at] == before.text[at]) at++;
        while (at && at < v.bytes && ((uint8_t)v.text[at] & 0xC0) == 0x80) at--; /* whole characters */
        for (; at < v.bytes; at += width) {
            width = (size_t)wr_utf8_get((const uint8_t *)v.text + at, &cp);
            if (!wr_gr_state_add(e, -1, &behind[at + width]) ||
                !wr_gr_lay_char(e, cp, spelling, behind[at], behind[at + width]))
                return false;
        }
        if (!wr_gr_empty(e, behind[v.bytes], to)) return false;
    }
    return true;
}

bool wr_gr_lay(wr_gr_emit *e, const wr_expr *x, wr_gr_spelling spelling, uint32_t from, uint32_t to) {
    uint32_t at = from, next, last;
    if (!x || e->b->status != WEIR_OK) return false;
    switch (x->kind) {
    case WR_EXPR_EMPTY: return wr_gr_empty(e, from, to);
    case WR_EXPR_CLASS: return wr_gr_lay_class(e, x->set, spelling, from, to);
    case WR_EXPR_CAT:
        for (size_t i = 0; i < x->n; i++, at = next)
            if (!wr_gr_state_add(e, -1, &next) || !wr_gr_lay(e, x->child[i], spelling, at, next)) return false;
        return wr_gr_empty(e, at, to);
    case WR_EXPR_ALT:
        for (size_t i = 0; i < x->n; i++)
            if (!wr_gr_lay(e, x->child[i], spelling, from, to)) return false;
        return true;
    case WR_EXPR_REPEAT: return lay_repeat(e, x, spelling, from, to);
    case WR_EXPR_CALL: return wr_gr_call_add(e, from, x->rule, to, 1, false);
    case WR_EXPR_AUTO: return lay_automaton(e, x->automaton, spelling, from, to);
    case WR_EXPR_TEXTS: return lay_texts(e, x, spelling, from, to);
    case WR_EXPR_QUOTED:
        if (!wr_gr_state_add(e, -1, &next) || !wr_gr_state_add(e, -1, &last) || !wr_gr_bytes(e, from, '"', '"', next) ||
            !wr_gr_lay(e, x->child[0], e->quoted, next, last))
            return false;
        e->p->state[last].boundary = true;
        return wr_gr_bytes(e, last, '"', '"', to);
    case WR_EXPR_BEGIN:
    case WR_EXPR_END: break;
    }
    wr_assert(!"anchors must be resolved before an expression is laid");
}

bool wr_gr_plain_rule(wr_gr_emit *e, const wr_expr *x, uint32_t *rule) {
    uint32_t start, end;
    if (!x || !wr_gr_rule_add(e, WR_GR_PLAIN, NULL, rule) || !wr_gr_state_add(e, -1, &start) ||
        !wr_gr_state_add(e, 0, &end))
        return false;
    e->p->rule[*rule].start = start;
    return wr_gr_lay(e, x, WR_GR_UTF8, start, end);
}

/* The states say of a number only that it is made of its characters, and with which it begins: enough for what finish.c
 * finds out. */
static const char number_bytes[] = "0123456789.eE+-";

bool wr_gr_number_rule(wr_gr_emit *e, uint32_t *rule) {
    uint32_t start, inside;
    if (!wr_gr_rule_add(e, WR_GR_PLAIN, NULL, rule) || !wr_gr_state_add(e, -1, &start) ||
        !wr_gr_state_add(e, 0, &inside))
        return false;
    e->p->rule[*rule].start = start;
    e->p->rule[*rule].number = (uint32_t)e->p->n_numbers;
    for (const char *c = number_bytes; *c; c++)
        if (!wr_gr_bytes(e, inside, (uint8_t)*c, (uint8_t)*c, inside)) return false;
    return true;
}

bool wr_gr_number_add(wr_gr_emit *e, uint32_t rule, const wr_number_set *set) {
    wr_gr_program *p = e->p;
    wr_gr_rule *r = &p->rule[rule];
    wr_assert(r->number + r->n_numbers == p->n_numbers);
    if (!wr_grow(&p->number, &p->number_cap, p->n_numbers + 1, sizeof *p->number) ||
        !(p->number[p->n_numbers] = wr_number_set_dup(set)))
        return wr_gr_no_memory(e->b);
    p->n_numbers++;
    r->n_numbers++;
    for (const char *c = number_bytes; *c; c++) {
        if (wr_gr_bit(r->first, (uint8_t)*c) || !wr_reading_step(set, &(wr_reading){0}, (uint8_t)*c)) continue;
        wr_gr_bit_set(r->first, (uint8_t)*c);
        if (!wr_gr_bytes(e, r->start, (uint8_t)*c, (uint8_t)*c, r->start + 1)) return false;
    }
    return true;
}
