/* A token's first byte is read at the place, or in a rule that is called there, or in a frame below after returning:
 * each of these is a place of its own, and what it says is kept with it. */
#include "text/grammar/mask.h"

#include <string.h>

/* Closed keys depend on what the object has seen, byte for byte; few tokens can begin them, so they are just tried.
 * Near the deepest frame everything is, since what fits there depends on the depth. */
static bool depends_on_frames(const weir_constraint *k, wr_gr_walk *w, const wr_gr_config *c) {
    const wr_gr_program *p = k->machine.program;
    const wr_gr_rule *r = &p->rule[c->rule];
    if (c->up && c->up->depth + k->index->trie.max_depth >= WR_GR_DEPTH_MAX - WR_GR_LEAF_FRAMES) return true;
    if (r->frame == WR_GR_KEY) return !wr_gr_keys_are_open(&p->rule[c->up->rule]);
    if (r->frame != WR_GR_OBJECT || wr_gr_keys_are_open(r)) return false;
    const wr_gr_place *quoted = wr_gr_next(w->m, c->at, '"', &w->status);
    for (uint32_t i = 0; quoted && i < quoted->n_calls; i++)
        if (p->rule[p->call[quoted->calls[i]].rule].frame == WR_GR_KEY) return true;
    return false;
}

static void add_fitting(const wr_gr_info *info, size_t n_words, uint32_t room, uint32_t *mask, bool empty) {
    if (info->room && room < WR_GR_ROOMS) {
        const uint32_t *fitting = info->room + room * n_words;
        for (size_t i = 0; i < n_words; i++) mask[i] |= fitting[i];
        return;
    }
    if (info->by_count && room < info->max_count) {
        uint32_t fit = info->begin[room + 1], all = info->begin[info->max_count + 1];
        if (!empty || fit <= all / 2) {
            for (uint32_t i = 0; i < fit; i++) wr_gr_mask_set(mask, info->by_count[i]);
            return;
        }
        memcpy(mask, info->mask, n_words * sizeof *mask);
        for (uint32_t i = fit; i < all; i++) wr_gr_mask_clear(mask, info->by_count[i]);
        return;
    }
    if (info->list)
        for (uint32_t i = 0; i < info->n_fit; i++) wr_gr_mask_set(mask, info->list[i]);
    else
        for (size_t i = 0; i < n_words; i++) mask[i] |= info->mask[i];
}

/* The rests of one point, tried against c's frames. */
static bool add_leaving(wr_gr_walk *w, const wr_gr_config *c, const wr_gr_leaving *l, wr_gr_trial *t) {
    wr_gr_set set = wr_gr_walk_begin(w);
    wr_gr_config from = *c;
    t->trie = &l->rest;
    if (l->call != WR_GR_NONE && !wr_gr_walk_push(w, c, l->call, &from)) return w->status == WEIR_OK;
    from.at = l->at;
    if (!from.at) {
        wr_gr_place *string = wr_gr_any_string(w->m, &w->status);
        from.at = string ? wr_gr_next(w->m, string, '"', &w->status) : NULL;
        if (!from.at) return false;
    }
    if (l->call != WR_GR_NONE) from.rule = l->rule;
    bool fits = true;
    if (w->m->program->rule[from.rule].frame == WR_GR_KEY && from.at->tag >= 0)
        fits = wr_gr_key_fits(w, from.up, from.at);
    /* Tokens that end exactly here. */
    if (fits && l->rest.n > 0) wr_gr_trial_mark(t, &set, 0, l->rest.node[1].tokens);
    bool ok = true;
    if (fits && l->rest.n > 1) {
        ok = wr_gr_walk_add(w, &set, &from);
        set.n_nodes = (uint32_t)w->n_nodes;
        ok = ok && wr_gr_trial_run(t, set);
    }
    w->n = set.first;
    return ok;
}

/* Tokens whose first byte is read at c's place. */
static bool add_place(weir_constraint *k, wr_gr_walk *w, const wr_gr_config *c, uint32_t *mask, bool empty) {
    const wr_gr_rule *r = &w->m->program->rule[c->rule];
    wr_gr_trial t = {.w = w,
                     .trie = &k->index->trie,
                     .only_read = true,
                     .mask = mask,
                     .fits = wr_gr_trial_mark,
                     .max_count = UINT32_MAX};
    uint32_t room = UINT32_MAX;
    bool kept, ok = true;
    if (c->at->only_final) return true;
    if (depends_on_frames(k, w, c)) {
        wr_gr_set set = wr_gr_walk_begin(w);
        ok = wr_gr_walk_add(w, &set, c) && wr_gr_trial_run(&t, set);
        w->n = set.first;
        return ok;
    }
    wr_gr_info *info = wr_gr_info_of(k, w, c, &kept);
    if (!info) return false;
    t.only_read = false;
    if (r->frame == WR_GR_STRING) {
        room = r->max == WR_EXPR_ENDLESS ? UINT32_MAX : r->max - c->count;
        t.min_count = c->count < r->min ? r->min - c->count : 0;
        t.max_count = room;
    }
    add_fitting(info, k->index->n_words, room, mask, empty);
    for (size_t i = 0; ok && i < info->n_leave; i++) ok = add_leaving(w, c, &info->leave[i], &t);
    if (!kept) wr_gr_info_free(info);
    return ok;
}

/* pushed: c's frame has just been entered, so returning is the caller's affair. */
static bool add_all(weir_constraint *k, wr_gr_walk *w, const wr_gr_config *c, bool pushed, uint32_t *mask, bool empty) {
    wr_gr_config other;
    if (!add_place(k, w, c, mask, empty)) return false;
    for (uint32_t i = 0; i < c->at->n_calls; i++) {
        size_t n_nodes = w->n_nodes;
        if (wr_gr_walk_push(w, c, c->at->calls[i], &other) && !add_all(k, w, &other, true, mask, false)) return false;
        w->n_nodes = n_nodes;
        if (w->status != WEIR_OK) return false;
    }
    if (pushed || c->at->tag < 0 || !c->up || !wr_gr_walk_pop(w, c, &other)) return w->status == WEIR_OK;
    return add_all(k, w, &other, false, mask, false);
}

bool wr_gr_mask_add(weir_constraint *k, wr_gr_walk *w, const wr_gr_config *c, uint32_t *mask, bool empty) {
    return add_all(k, w, c, false, mask, empty);
}
