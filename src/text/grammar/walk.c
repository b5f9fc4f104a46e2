/* One byte at a time: read within the frame, call a rule that can begin with the byte, or return first. */
#include "text/grammar/walk.h"

#include <string.h>

#include "text/work.h"

void wr_gr_walk_init(wr_gr_walk *w, wr_gr_machine *m) { *w = (wr_gr_walk){.m = m, .status = WEIR_OK}; }

void wr_gr_walk_deinit(wr_gr_walk *w) {
    for (size_t i = 0; i < w->n_chunks; i++) wr_free(w->chunk[i]);
    wr_free(w->chunk);
    wr_free(w->config);
    *w = (wr_gr_walk){0};
}

static bool failed(wr_gr_walk *w, weir_status status) {
    if (w->status == WEIR_OK) w->status = status;
    return false;
}

static wr_gr_node *new_node(wr_gr_walk *w) {
    size_t c = w->n_nodes / WR_GR_NODES_OF_CHUNK, i = w->n_nodes % WR_GR_NODES_OF_CHUNK;
    if (c == w->n_chunks) {
        wr_gr_node *chunk = NULL;
        if (wr_grow(&w->chunk, &w->chunk_cap, c + 1, sizeof *w->chunk))
            chunk = wr_malloc(WR_GR_NODES_OF_CHUNK * sizeof *chunk);
        if (!chunk) {
            failed(w, WEIR_E_MEMORY);
            return NULL;
        }
        w->chunk[w->n_chunks++] = chunk;
    }
    w->n_nodes++;
    return &w->chunk[c][i];
}

/* ---- Sets ------------------------------------------------------------------- */

static bool same_frames(const wr_gr_node *x, const wr_gr_node *y) {
    for (; x != y; x = x->up, y = y->up) {
        if (!x || !y || x->depth != y->depth || x->rule != y->rule || x->call != y->call || x->count != y->count ||
            memcmp(x->seen, y->seen, sizeof x->seen) != 0)
            return false;
    }
    return true;
}

static bool same(const wr_gr_config *x, const wr_gr_config *y) {
    return x->at == y->at && x->rule == y->rule && x->count == y->count &&
           memcmp(x->seen, y->seen, sizeof x->seen) == 0 && same_frames(x->up, y->up);
}

wr_gr_set wr_gr_walk_begin(const wr_gr_walk *w) { return (wr_gr_set){(uint32_t)w->n, 0, (uint32_t)w->n_nodes}; }

bool wr_gr_walk_add(wr_gr_walk *w, wr_gr_set *set, const wr_gr_config *c) {
    for (uint32_t i = 0; i < set->n; i++)
        if (same(&w->config[set->first + i], c)) return true;
    if (set->n >= WR_GR_CONFIGS_MAX) return failed(w, WEIR_E_LIMIT);
    wr_gr_config copy = *c; /* c may lie in the stack that grows */
    if (w->n == w->cap && !wr_grow(&w->config, &w->cap, w->n + 1, sizeof *w->config)) return failed(w, WEIR_E_MEMORY);
    w->config[w->n++] = copy;
    set->n++;
    return true;
}

bool wr_gr_walk_start(wr_gr_walk *w, wr_gr_config *c) {
    *c = (wr_gr_config){.rule = w->m->program->root};
    c->at = wr_gr_enter(w->m, c->rule, &w->status);
    return c->at != NULL;
}

/* ---- Registers -------------------------------------------------------------- */

void wr_gr_names_left(const wr_gr_rule *r, const uint64_t *seen, uint32_t count, uint64_t *left, bool *others) {
    uint32_t room = r->max == WR_EXPR_ENDLESS ? WR_EXPR_ENDLESS : r->max - count, missing = 0;
    *others = r->others;
    for (int i = 0; i < WR_GR_NAME_WORDS; i++) {
        left[i] = r->offered[i] & ~seen[i];
        missing += (uint32_t)__builtin_popcountll(r->required[i] & ~seen[i]);
    }
    if (room > missing) return;
    *others = false; /* only the required ones fit */
    for (int i = 0; i < WR_GR_NAME_WORDS; i++) left[i] = room ? left[i] & r->required[i] : 0;
}

static bool any_of(const uint64_t *x, const uint64_t *y) {
    uint64_t any = 0;
    for (int i = 0; i < WR_GR_NAME_WORDS; i++) any |= x[i] & y[i];
    return any != 0;
}

static bool may_close(const wr_gr_rule *r, const wr_gr_config *c) {
    uint64_t missing = 0;
    for (int i = 0; i < WR_GR_NAME_WORDS; i++) missing |= r->required[i] & ~c->seen[i];
    return !missing && c->count >= r->min;
}

static bool may_have_more(const wr_gr_rule *r, const wr_gr_config *c) {
    uint64_t left[WR_GR_NAME_WORDS];
    bool others;
    if (r->frame != WR_GR_OBJECT) return c->count < r->max;
    wr_gr_names_left(r, c->seen, c->count, left, &others);
    return others || any_of(left, left);
}

/* One more of what the frame counts; above every bound numbers are alike. */
static void count(const wr_gr_rule *r, uint32_t *n) {
    uint32_t top = r->max == WR_EXPR_ENDLESS ? r->min : r->max;
    if (*n < top) ++*n;
}

bool wr_gr_key_fits(const wr_gr_walk *w, const wr_gr_node *object, const wr_gr_place *at) {
    const wr_gr_rule *r = &w->m->program->rule[object->rule];
    uint64_t left[WR_GR_NAME_WORDS];
    bool others;
    wr_gr_names_left(r, object->seen, object->count, left, &others);
    if (at->tag < 0) return (others && at->others) || any_of(left, at->names);
    return at->tag >= 1 && (uint32_t)at->tag <= r->n_names ? wr_gr_bit(left, (unsigned)at->tag - 1) : others;
}

/* ---- Moves ------------------------------------------------------------------ */

/* Move c to `to` by a byte, if the registers allow it. */
static bool enter(wr_gr_walk *w, wr_gr_config *c, wr_gr_place *to, uint8_t byte) {
    const wr_gr_rule *r = &w->m->program->rule[c->rule];
    bool based = w->base && c->up == w->base;
    switch (r->frame) {
    case WR_GR_PLAIN: break;
    case WR_GR_STRING:
        if (!c->at->boundary) break;
        if (byte != '"') {
            if (!based && c->count >= r->max) return false;
            c->count++;
            break;
        }
        if (based) {
            c->at = to;
            w->stop(w->context, c, true);
            return false;
        }
        if (c->count < r->min) return false;
        break;
    case WR_GR_ARRAY:
    case WR_GR_OBJECT:
        if (to->guard == WR_GR_FREE || to == c->at) break; /* staying, by whitespace, asks nothing again */
        if (based) {
            w->stop(w->context, c, false);
            return false;
        }
        if (to->guard == WR_GR_CLOSE ? !may_close(r, c) : !may_have_more(r, c)) return false;
        break;
    case WR_GR_KEY:
        if (!based && !(w->base && c->up->up == w->base)) {
            if (!wr_gr_key_fits(w, c->up, to)) return false;
        } else if (to->tag >= 0) { /* open keys: only the end depends on what was seen */
            c->at = to;
            w->stop(w->context, c, true);
            return false;
        }
        break;
    }
    c->at = to;
    return true;
}

bool wr_gr_walk_push(wr_gr_walk *w, const wr_gr_config *c, uint32_t call, wr_gr_config *inner) {
    const wr_gr_program *p = w->m->program;
    uint32_t rule = p->call[call].rule, depth = c->up ? c->up->depth + 1 : 1;
    bool container = p->rule[rule].frame == WR_GR_ARRAY || p->rule[rule].frame == WR_GR_OBJECT;
    if (depth > (container ? WR_GR_DEPTH_MAX - WR_GR_LEAF_FRAMES : WR_GR_DEPTH_MAX)) return false;
    *inner = (wr_gr_config){.rule = rule};
    inner->at = wr_gr_enter(w->m, rule, &w->status);
    if (!inner->at) return false;
    if (!p->call[call].counts && p->rule[c->rule].frame == WR_GR_PLAIN && !(w->base && c->up == w->base)) {
        /* Nothing is left to do in this frame: the callee returns to who called it. */
        wr_gr_place *back = wr_gr_back(w->m, call, 0, &w->status);
        if (!back) return false;
        inner->up = c->up;
        if (back->only_final) return true;
    }
    wr_gr_node *node = new_node(w);
    if (!node) return false;
    *node = (wr_gr_node){.up = c->up, .rule = c->rule, .call = call, .count = c->count, .depth = depth};
    memcpy(node->seen, c->seen, sizeof node->seen);
    inner->up = node;
    return true;
}

/* Return from c, which is final, to the frame below. */
static bool pop(wr_gr_walk *w, const wr_gr_config *c, wr_gr_config *out) {
    const wr_gr_program *p = w->m->program;
    const wr_gr_node *node = c->up;
    const wr_gr_call *call = &p->call[node->call];
    const wr_gr_rule *r = &p->rule[node->rule];
    int32_t tag = c->at->tag;
    *out = (wr_gr_config){.up = node->up, .rule = node->rule, .count = node->count};
    memcpy(out->seen, node->seen, sizeof out->seen);
    if (r->frame == WR_GR_OBJECT && call->counts) { /* a key, which was checked when it ended */
        if (tag >= 1 && (uint32_t)tag <= r->n_names) wr_gr_bit_set(out->seen, (unsigned)tag - 1);
    }
    if (call->counts) count(r, &out->count);
    out->at = wr_gr_back(w->m, node->call, tag, &w->status);
    return out->at && out->at != &wr_gr_dead;
}

/* Where nothing is left to do but return, return at once: what follows is then the same for all that end there. */
static bool settle(wr_gr_walk *w, wr_gr_config *c) {
    while (c->at->only_final && c->up) {
        if (w->base && (c->up == w->base || (c->up->up == w->base && w->m->program->call[c->up->call].counts))) break;
        wr_gr_config below;
        if (!pop(w, c, &below)) return false;
        *c = below;
    }
    return true;
}

static bool starts(const wr_gr_rule *r, uint8_t byte) { return wr_gr_bit(r->first, byte); }

/* c's successors by a byte, added to set. pushed: the frame has just been entered, so returning is the caller's affair.
 */
static void step(wr_gr_walk *w, wr_gr_set *set, wr_gr_config c, uint8_t byte, bool pushed) {
    const wr_gr_program *p = w->m->program;
    for (;;) {
        wr_gr_config moved = c;
        wr_gr_place *to = wr_gr_next(w->m, c.at, byte, &w->status);
        if (!to) return;
        if (to != &wr_gr_dead && enter(w, &moved, to, byte) && settle(w, &moved) && !wr_gr_walk_add(w, set, &moved))
            return;
        for (uint32_t i = 0; i < c.at->n_calls; i++) {
            uint32_t call = c.at->calls[i];
            const wr_gr_rule *callee = &p->rule[p->call[call].rule];
            if (!starts(callee, byte)) continue;
            if (callee->frame == WR_GR_KEY && w->base && c.up == w->base && !wr_gr_keys_are_open(&p->rule[c.rule])) {
                w->stop(w->context, &c, false);
                continue;
            }
            wr_gr_config inner;
            if (wr_gr_walk_push(w, &c, call, &inner)) step(w, set, inner, byte, true);
            if (w->status != WEIR_OK) return;
        }
        if (pushed || c.at->tag < 0 || !c.up) return;
        if (w->base && (c.up == w->base || (c.up->up == w->base && p->call[c.up->call].counts))) {
            const uint64_t *follow = w->follow && c.up == w->base ? w->follow : p->rule[c.rule].follow;
            if (wr_gr_bit(follow, byte)) w->stop(w->context, &c, false);
            return;
        }
        wr_gr_config below;
        if (!pop(w, &c, &below)) return;
        c = below;
    }
}

wr_gr_set wr_gr_walk_read(wr_gr_walk *w, const wr_gr_config *c, uint8_t byte) {
    wr_gr_set set = wr_gr_walk_begin(w);
    wr_gr_config moved = *c;
    wr_gr_place *to = wr_gr_next(w->m, c->at, byte, &w->status);
    if (to && to != &wr_gr_dead && enter(w, &moved, to, byte) && settle(w, &moved)) wr_gr_walk_add(w, &set, &moved);
    if (w->status != WEIR_OK) set.n = 0;
    set.n_nodes = (uint32_t)w->n_nodes;
    return set;
}

bool wr_gr_walk_pop(wr_gr_walk *w, const wr_gr_config *c, wr_gr_config *below) { return pop(w, c, below); }

wr_gr_set wr_gr_walk_byte(wr_gr_walk *w, wr_gr_set from, uint8_t byte) {
    wr_gr_set set = wr_gr_walk_begin(w);
    for (uint32_t i = 0; i < from.n && w->status == WEIR_OK; i++) step(w, &set, w->config[from.first + i], byte, false);
    if (w->status != WEIR_OK) set.n = 0;
    set.n_nodes = (uint32_t)w->n_nodes;
    return set;
}

bool wr_gr_walk_can_end(wr_gr_walk *w, const wr_gr_config *c) {
    wr_gr_config here = *c, below;
    while (here.at->tag >= 0) {
        if (!here.up) return true;
        if (!pop(w, &here, &below)) return false;
        here = below;
    }
    return false;
}
