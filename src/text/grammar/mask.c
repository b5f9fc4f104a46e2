/* Owns what is kept of places, and its use. */
#include "text/grammar/mask.h"

#include <string.h>

#include "text/work.h"

/* What is left of tokens that reached a point where only the frames below know on. */
typedef struct leaving {
    wr_gr_place *at;
    uint32_t rule, call; /* the point lies in a frame above the base, pushed by this call; WR_GR_NONE: in the base */
    wr_gr_trie rest;
} leaving;

typedef struct wr_gr_info {
    uint32_t *fits; /* [n_words] tokens that end within the frame, or in frames above it */
    /* In frames that count: the same tokens in order of the characters they begin; those with at most n of them are
     * by_count[0] to begin[n + 1], n <= max_count. */
    uint32_t *by_count, *begin;
    uint32_t max_count;
    leaving *leave;
    size_t n_leave, leave_cap, bytes;
} wr_gr_info;

void wr_gr_info_free(wr_gr_info *info) {
    if (!info) return;
    for (size_t i = 0; i < info->n_leave; i++) wr_gr_trie_deinit(&info->leave[i].rest);
    wr_free(info->leave);
    wr_free(info->fits);
    wr_free(info->by_count);
    wr_free(info->begin);
    wr_free(info);
}

static void set_bit(uint32_t *mask, uint32_t id) { mask[id >> 5] |= (uint32_t)1 << (id & 31); }

/* ---- Trying a tree of strings ---------------------------------------------- */

typedef struct trial {
    wr_gr_walk *w;
    const wr_gr_trie *trie;
    uint32_t *mask;
    uint32_t min_count, max_count; /* tokens with counts outside do not fit */
    uint32_t node;                 /* where the trial is now */
    void (*fits)(struct trial *t, const wr_gr_set *set, uint32_t from, uint32_t to);
    void *context;
} trial;

static void fits_mask(trial *t, const wr_gr_set *set, uint32_t from, uint32_t to) {
    (void)set;
    for (uint32_t i = from; i < to; i++) {
        wr_gr_trie_token token = t->trie->token[i];
        if (token.count >= t->min_count && token.count <= t->max_count) set_bit(t->mask, token.id);
    }
}

/* Nothing but reading happens to c: no calls, returns or registers, unless it counts. */
static bool only_reads(const wr_gr_walk *w, const wr_gr_config *c) {
    if (!c->at->plain) return false;
    switch (w->m->program->rule[c->rule].frame) {
    case WR_GR_PLAIN: return true;
    case WR_GR_KEY: return w->base && (c->up == w->base || c->up->up == w->base);
    default: return false;
    }
}

/* The set after one more byte. */
static wr_gr_set read_byte(wr_gr_walk *w, wr_gr_set from, uint8_t byte) {
    const wr_gr_config *c = &w->config[from.first];
    if (from.n != 1 || !only_reads(w, c) || w->n == w->cap) return wr_gr_walk_byte(w, from, byte);
    wr_gr_set set = wr_gr_walk_begin(w);
    wr_gr_place *to = wr_gr_next(w->m, c->at, byte, &w->status);
    if (!to || to == &wr_gr_dead) return set;
    w->config[w->n] = *c;
    w->config[w->n++].at = to;
    set.n = 1;
    return set;
}

/* Every string of the tree from the set, depth first; t->fits is told of those that fit, the empty one excepted. */
static bool try_all(trial *t, wr_gr_set start) {
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
        wr_gr_walk_cut(w, level[depth - 1]);
        t->node = i;
        wr_gr_set set = read_byte(w, level[depth - 1], node[i].byte);
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

/* ---- Finding out about a place ------------------------------------------------ */

/* One string that leaves. */
typedef struct rest {
    uint32_t leave; /* index in info */
    wr_gr_trie_entry entry;
} rest;

typedef struct finding {
    weir_constraint *k;
    trial *t;
    wr_gr_info *info;
    rest *rests;
    size_t n_rests, rest_cap;
    uint32_t *count; /* [n_ids] characters of the tokens that fit, plus 1; only where they count */
    uint32_t n_fit;
    bool no_memory;
} finding;

static void fits_within(trial *t, const wr_gr_set *set, uint32_t from, uint32_t to) {
    finding *f = t->context;
    uint32_t count = t->w->config[set->first].count;
    for (uint32_t i = from; i < to; i++) {
        uint32_t id = t->trie->token[i].id;
        set_bit(f->info->fits, id);
        if (!f->count) continue;
        f->n_fit++;
        f->count[id] = count + 1;
        if (count > f->info->max_count) f->info->max_count = count;
    }
}

static uint32_t leave_of(finding *f, const wr_gr_config *c, uint32_t call) {
    wr_gr_info *info = f->info;
    for (uint32_t i = 0; i < info->n_leave; i++)
        if (info->leave[i].at == c->at && info->leave[i].rule == c->rule && info->leave[i].call == call) return i;
    if (!wr_grow(&info->leave, &info->leave_cap, info->n_leave + 1, sizeof *info->leave)) {
        f->no_memory = true;
        return 0;
    }
    info->leave[info->n_leave] = (leaving){.at = c->at, .rule = c->rule, .call = call};
    return (uint32_t)info->n_leave++;
}

static void leaves(void *context, const wr_gr_config *c, bool has_read) {
    finding *f = context;
    const wr_gr_trie *trie = f->t->trie;
    const wr_gr_trie_node *node = &trie->node[f->t->node];
    uint32_t leave = leave_of(f, c, c->up == f->t->w->base ? WR_GR_NONE : c->up->call);
    uint32_t from = node->tokens, to = trie->node[node->skip].tokens, used = node->depth - (has_read ? 0u : 1u);
    if (f->no_memory || !wr_grow(&f->rests, &f->rest_cap, f->n_rests + (to - from), sizeof *f->rests)) {
        f->no_memory = true;
        return;
    }
    for (uint32_t i = from; i < to; i++) {
        uint32_t id = trie->token[i].id;
        const weir_token_index *x = f->k->index;
        f->rests[f->n_rests++] = (rest){leave,
                                        {.text = x->text + x->offset[id] + used,
                                         .length = x->offset[id + 1] - x->offset[id] - used,
                                         .token = {id, c->up == f->t->w->base ? c->count : 0}}};
    }
}

static bool plant_rests(finding *f) {
    wr_gr_info *info = f->info;
    wr_gr_trie_entry *entries = wr_malloc((f->n_rests + 1) * sizeof *entries);
    bool ok = entries != NULL;
    for (uint32_t l = 0; ok && l < info->n_leave; l++) {
        size_t n = 0;
        for (size_t i = 0; i < f->n_rests; i++) {
            const rest *r = &f->rests[i];
            uint32_t id = r->entry.token.id;
            if (r->leave == l && !(info->fits[id >> 5] >> (id & 31) & 1)) entries[n++] = r->entry;
        }
        ok = wr_gr_trie_init(&info->leave[l].rest, entries, n);
        if (ok) info->bytes += wr_gr_trie_bytes(&info->leave[l].rest);
    }
    wr_free(entries);
    return ok;
}

static bool order_by_count(finding *f) {
    wr_gr_info *info = f->info;
    info->begin = wr_calloc(info->max_count + 3u, sizeof *info->begin);
    info->by_count = wr_malloc((f->n_fit + 1u) * sizeof *info->by_count);
    if (!info->begin || !info->by_count) return false;
    for (uint32_t id = 0; id < f->k->index->n_ids; id++)
        if (f->count[id]) info->begin[f->count[id] + 1]++;
    for (uint32_t n = 0; n <= info->max_count; n++) info->begin[n + 2] += info->begin[n + 1];
    for (uint32_t id = 0; id < f->k->index->n_ids; id++)
        if (f->count[id]) info->by_count[info->begin[f->count[id]]++] = id;
    info->bytes += (info->max_count + 3u) * sizeof *info->begin + f->n_fit * sizeof *info->by_count;
    return true;
}

/* NULL when w has failed. */
static wr_gr_info *find_info(weir_constraint *k, wr_gr_walk *w, const wr_gr_config *c, wr_gr_variant variant) {
    bool counted = variant == WR_GR_COUNTED;
    static const wr_gr_node base = {.depth = 1};
    wr_gr_config start = {.at = c->at, .rule = c->rule, .up = &base};
    trial t = {.w = w, .trie = &k->index->trie, .fits = fits_within};
    finding f = {.k = k, .t = &t, .info = wr_calloc(1, sizeof *f.info)};
    wr_gr_set set = wr_gr_walk_begin(w);
    size_t n_words = k->index->n_words;
    bool ok = f.info && (f.info->fits = wr_calloc(n_words + 1, sizeof(uint32_t)));
    if (ok && counted) ok = (f.count = wr_calloc(k->index->n_ids + 1u, sizeof *f.count)) != NULL;
    if (ok) {
        f.info->bytes = sizeof *f.info + n_words * sizeof(uint32_t);
        t.context = w->context = &f;
        w->base = &base;
        w->stop = leaves;
        ok = wr_gr_walk_add(w, &set, &start) && try_all(&t, set) && !f.no_memory;
        w->base = NULL;
        if (ok) ok = plant_rests(&f) && (!counted || order_by_count(&f));
        if (f.info) f.info->bytes += f.info->n_leave * sizeof *f.info->leave;
    }
    w->n = set.first;
    w->n_nodes = set.n_nodes;
    wr_free(f.rests);
    wr_free(f.count);
    if (ok) return f.info;
    if (w->status == WEIR_OK) w->status = WEIR_E_MEMORY;
    wr_gr_info_free(f.info);
    return NULL;
}

/* What is known of c's place. *kept: it stays with the place; else the caller frees it. */
static wr_gr_info *info_of(weir_constraint *k, wr_gr_walk *w, const wr_gr_config *c, wr_gr_variant variant,
                           bool *kept) {
    _Atomic(wr_gr_info *) *place = (_Atomic(wr_gr_info *) *)&c->at->info[variant];
    wr_gr_info *info = atomic_load_explicit(place, memory_order_acquire), *none = NULL;
    *kept = true;
    if (info) return info;
    info = find_info(k, w, c, variant);
    if (!info) return NULL;
    if (atomic_load(&k->machine.used_bytes) + info->bytes > k->info_cap_bytes) {
        *kept = false;
        return info;
    }
    if (atomic_compare_exchange_strong_explicit(place, &none, info, memory_order_acq_rel, memory_order_acquire)) {
        atomic_fetch_add(&k->machine.used_bytes, info->bytes);
        return info;
    }
    wr_gr_info_free(info); /* another thread was faster */
    return none;
}

/* ---- Using it --------------------------------------------------------------- */

/* Closed keys depend on what the object has seen, byte for byte; few tokens can begin them, so they are just tried.
 * Near the deepest frame everything is, since what fits there depends on the depth. */
static bool depends_on_frames(const weir_constraint *k, const wr_gr_config *c) {
    const wr_gr_program *p = k->machine.program;
    if (c->up && c->up->depth + k->index->trie.max_depth >= WR_GR_DEPTH_MAX - WR_GR_LEAF_FRAMES) return true;
    if (p->rule[c->rule].frame == WR_GR_KEY) return !wr_gr_keys_are_open(&p->rule[c->up->rule]);
    if (p->rule[c->rule].frame != WR_GR_OBJECT || wr_gr_keys_are_open(&p->rule[c->rule])) return false;
    for (uint32_t i = 0; i < c->at->n_calls; i++)
        if (p->rule[p->call[c->at->calls[i]].rule].frame == WR_GR_KEY) return true;
    return false;
}

static void add_fitting(const wr_gr_info *info, size_t n_words, uint32_t room, uint32_t *mask, bool first) {
    if (!info->by_count || room >= info->max_count) {
        if (first)
            memcpy(mask, info->fits, n_words * sizeof *mask);
        else
            for (size_t i = 0; i < n_words; i++) mask[i] |= info->fits[i];
        return;
    }
    uint32_t fit = info->begin[room + 1], all = info->begin[info->max_count + 1];
    if (first && fit > all - fit) {
        memcpy(mask, info->fits, n_words * sizeof *mask);
        for (uint32_t i = fit; i < all; i++) mask[info->by_count[i] >> 5] &= ~((uint32_t)1 << (info->by_count[i] & 31));
        return;
    }
    if (first) memset(mask, 0, n_words * sizeof *mask);
    for (uint32_t i = 0; i < fit; i++) set_bit(mask, info->by_count[i]);
}

/* The rests of one point, tried against c's frames. */
static bool add_leaving(wr_gr_walk *w, const wr_gr_config *c, const leaving *l, trial *t) {
    wr_gr_set set = wr_gr_walk_begin(w);
    wr_gr_config from = *c;
    t->trie = &l->rest;
    if (l->call != WR_GR_NONE && !wr_gr_walk_push(w, c, l->call, &from)) return w->status == WEIR_OK;
    from.at = l->at;
    if (l->call != WR_GR_NONE) from.rule = l->rule;
    if (w->m->program->rule[from.rule].frame == WR_GR_KEY && l->at->tag >= 0 && !wr_gr_key_fits(w, from.up, l->at)) {
        w->n_nodes = set.n_nodes;
        return true;
    }
    /* Tokens that end exactly here. */
    if (l->rest.n > 0) fits_mask(t, &set, 0, l->rest.node[1].tokens);
    if (!wr_gr_walk_add(w, &set, &from)) return false;
    set.n_nodes = (uint32_t)w->n_nodes;
    bool ok = try_all(t, set);
    w->n = set.first;
    return ok;
}

bool wr_gr_mask_add(weir_constraint *k, wr_gr_walk *w, const wr_gr_config *c, uint32_t *mask, bool first) {
    const wr_gr_program *p = w->m->program;
    const wr_gr_rule *r = &p->rule[c->rule];
    size_t n_words = k->index->n_words;
    trial t = {.w = w, .trie = &k->index->trie, .mask = mask, .fits = fits_mask, .max_count = UINT32_MAX};
    if (depends_on_frames(k, c)) {
        wr_gr_set set = wr_gr_walk_begin(w);
        if (first) memset(mask, 0, n_words * sizeof *mask);
        bool ok = wr_gr_walk_add(w, &set, c) && try_all(&t, set);
        w->n = set.first;
        return ok;
    }
    wr_gr_variant variant = r->frame == WR_GR_STRING ? WR_GR_COUNTED
                            : r->frame == WR_GR_KEY  ? WR_GR_IN_KEY
                                                     : WR_GR_UNCOUNTED;
    bool kept;
    wr_gr_info *info = info_of(k, w, c, variant, &kept);
    if (!info) return false;
    uint32_t room = UINT32_MAX;
    if (variant == WR_GR_COUNTED) {
        room = r->max == WR_EXPR_ENDLESS ? UINT32_MAX : r->max - c->count;
        t.min_count = c->count < r->min ? r->min - c->count : 0;
        t.max_count = room;
    }
    add_fitting(info, n_words, room, mask, first);
    bool ok = true;
    for (size_t i = 0; ok && i < info->n_leave; i++) ok = add_leaving(w, c, &info->leave[i], &t);
    if (!kept) wr_gr_info_free(info);
    return ok;
}
