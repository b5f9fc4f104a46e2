/* Depth-first through a tree of strings, with one set of configurations a level. */
#include "text/grammar/info.h"

#include "base/mem.h"

void wr_gr_trial_mark(wr_gr_trial *t, const wr_gr_set *set, uint32_t from, uint32_t to) {
    (void)set;
    for (uint32_t i = from; i < to; i++) {
        wr_gr_trie_token token = t->trie->token[i];
        if (token.count >= t->min_count && token.count <= t->max_count) wr_gr_mask_set(t->mask, token.id);
    }
}

/* Nothing but reading happens to c: no calls, returns or registers. */
static bool only_reads(const wr_gr_walk *w, const wr_gr_config *c) {
    return c->at->plain && w->m->program->rule[c->rule].frame == WR_GR_PLAIN;
}

/* The set after one more byte. */
static wr_gr_set read_byte(wr_gr_walk *w, wr_gr_set from, uint8_t byte) {
    const wr_gr_config *c = &w->config[from.first];
    if (from.n != 1 || !only_reads(w, c) || w->n == w->cap) return wr_gr_walk_byte(w, from, byte);
    wr_gr_set set = wr_gr_walk_begin(w);
    wr_gr_place *to = wr_gr_next(w->m, c->at, byte, &w->status);
    if (!to || to == &wr_gr_dead) return set;
    if (to->only_final) return wr_gr_walk_byte(w, from, byte);
    w->config[w->n] = *c;
    w->config[w->n++].at = to;
    set.n = 1;
    return set;
}

bool wr_gr_trial_run(wr_gr_trial *t, wr_gr_set start) {
    wr_gr_walk *w = t->w;
    const wr_gr_trie_node *node = t->trie->node;
    wr_gr_set *level = wr_malloc((t->trie->max_depth + 1u) * sizeof *level);
    if (!level) {
        if (w->status == WEIR_OK) w->status = WEIR_E_MEMORY;
        return false;
    }
    level[0] = start;
    for (uint32_t i = 1; i < t->trie->n;) {
        uint32_t depth = node[i].depth;
        wr_gr_set from = level[depth - 1], set;
        wr_gr_walk_cut(w, from);
        t->node = i;
        if (depth == 1 && t->only_read) {
            wr_gr_config first = w->config[from.first];
            set = wr_gr_walk_read(w, &first, node[i].byte);
        } else {
            set = read_byte(w, from, node[i].byte);
        }
        if (!set.n) {
            if (w->status != WEIR_OK) break;
            i = node[i].skip;
            continue;
        }
        level[depth] = set;
        if (node[i].tokens != node[i + 1].tokens) t->fits(t, &set, node[i].tokens, node[i + 1].tokens);
        i++;
    }
    wr_gr_walk_cut(w, start);
    wr_free(level);
    return w->status == WEIR_OK;
}
