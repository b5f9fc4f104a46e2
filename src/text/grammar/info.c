/* Finding out about places. Most are looked into by trying the whole vocabulary; the inside of an unconstrained string,
 * where that takes longest, is the same in every grammar and kept with the vocabulary; and names of open objects differ
 * from it only where they spell a declared name. */
#include "text/grammar/info.h"

#include <string.h>

#include "text/work.h"

void wr_gr_info_free(wr_gr_info *info) {
    if (!info) return;
    for (size_t i = 0; i < info->n_leave; i++) wr_gr_trie_deinit(&info->leave[i].rest);
    wr_free(info->leave);
    wr_free(info->mask);
    wr_free(info->list);
    wr_free(info->by_count);
    wr_free(info->begin);
    wr_free(info->room);
    wr_free(info->leaver);
    wr_free(info->used);
    wr_free(info);
}

/* One string that leaves. */
typedef struct rest {
    uint32_t leave; /* index in info */
    uint32_t place; /* of its token in the index's list */
    uint32_t used;
    uint32_t count;
} rest;

typedef struct finding {
    weir_constraint *k;
    wr_gr_walk *w;
    wr_gr_trial *t;
    wr_gr_info *info;
    rest *rests;
    size_t n_rests, rest_cap;
    uint32_t *count; /* [n_ids] characters of the tokens that fit, plus 1; only where they count */
    bool no_memory;
} finding;

/* What can follow a value in JSON: for what is kept with the vocabulary. */
static const uint64_t json_follow[4] = {(uint64_t)1 << '\t' | (uint64_t)1 << '\n' | (uint64_t)1 << '\r' |
                                            (uint64_t)1 << ' ' | (uint64_t)1 << ',' | (uint64_t)1 << ':',
                                        (uint64_t)1 << (']' - 64) | (uint64_t)1 << ('}' - 64)};

static void fits_within(wr_gr_trial *t, const wr_gr_set *set, uint32_t from, uint32_t to) {
    finding *f = t->context;
    uint32_t count = t->w->config[set->first].count;
    for (uint32_t i = from; i < to; i++) {
        uint32_t id = t->trie->token[i].id;
        wr_gr_mask_set(f->info->mask, id);
        if (!f->count) continue;
        f->count[id] = count + 1;
        if (count > f->info->max_count) f->info->max_count = count;
    }
}

static uint32_t leave_of(finding *f, wr_gr_place *at, uint32_t rule, uint32_t call) {
    wr_gr_info *info = f->info;
    for (uint32_t i = 0; i < info->n_leave; i++)
        if (info->leave[i].at == at && info->leave[i].rule == rule && info->leave[i].call == call) return i;
    if (!wr_grow(&info->leave, &info->leave_cap, info->n_leave + 1, sizeof *info->leave)) {
        f->no_memory = true;
        return 0;
    }
    info->leave[info->n_leave] = (wr_gr_leaving){.at = at, .rule = rule, .call = call};
    return (uint32_t)info->n_leave++;
}

/* Tokens [from, to) of the index's list leave after `used` bytes, unless what they go on with cannot follow. */
static void add_rests(finding *f, uint32_t leave, uint32_t from, uint32_t to, uint32_t used, uint32_t count,
                      const uint64_t *follow) {
    const weir_token_index *x = f->k->index;
    if (f->no_memory || !wr_grow(&f->rests, &f->rest_cap, f->n_rests + (to - from), sizeof *f->rests)) {
        f->no_memory = true;
        return;
    }
    for (uint32_t i = from; i < to; i++) {
        uint32_t at = x->offset[x->trie.token[i].id] + used;
        if (at < x->offset[x->trie.token[i].id + 1] && !wr_gr_bit(follow, x->text[at])) continue;
        f->rests[f->n_rests++] = (rest){leave, i, used, count};
    }
}

static void leaves(void *context, const wr_gr_config *c, bool has_read) {
    static const uint64_t any[4] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    finding *f = context;
    const wr_gr_trie_node *node = &f->t->trie->node[f->t->node];
    const wr_gr_rule *r = &f->w->m->program->rule[c->rule];
    bool in_base = c->up == f->w->base;
    /* Having read, the frame is at its end. */
    const uint64_t *follow = !has_read ? any : f->w->follow ? f->w->follow : r->follow;
    uint32_t leave = leave_of(f, c->at, c->rule, in_base ? WR_GR_NONE : c->up->call);
    add_rests(f, leave, node->tokens, f->t->trie->node[node->skip].tokens, node->depth - (has_read ? 0u : 1u),
              in_base ? c->count : 0, follow);
}

/* ---- Putting it together ------------------------------------------------------- */

static bool plant_rests(finding *f) {
    wr_gr_info *info = f->info;
    const weir_token_index *x = f->k->index;
    wr_gr_trie_entry *entries = wr_malloc((f->n_rests + 1) * sizeof *entries);
    bool ok = entries != NULL;
    for (uint32_t l = 0; ok && l < info->n_leave; l++) {
        size_t n = 0;
        for (size_t i = 0; i < f->n_rests; i++) {
            const rest *r = &f->rests[i];
            uint32_t id = x->trie.token[r->place].id, begin = x->offset[id] + r->used;
            if (r->leave != l || wr_gr_mask_has(info->mask, id)) continue;
            entries[n++] = (wr_gr_trie_entry){
                .text = x->text + begin, .length = x->offset[id + 1] - begin, .token = {id, r->count}};
        }
        ok = wr_gr_trie_init(&info->leave[l].rest, entries, n);
        if (ok) info->bytes += wr_gr_trie_bytes(&info->leave[l].rest);
    }
    wr_free(entries);
    info->bytes += info->n_leave * sizeof *info->leave;
    return ok;
}

static bool order_by_count(finding *f) {
    wr_gr_info *info = f->info;
    uint32_t n_ids = f->k->index->n_ids;
    info->begin = wr_calloc(info->max_count + 3u, sizeof *info->begin);
    info->by_count = wr_malloc((info->n_fit + 1u) * sizeof *info->by_count);
    if (!info->begin || !info->by_count) return false;
    for (uint32_t id = 0; id < n_ids; id++)
        if (f->count[id]) info->begin[f->count[id] + 1]++;
    for (uint32_t n = 0; n <= info->max_count; n++) info->begin[n + 2] += info->begin[n + 1];
    for (uint32_t id = 0; id < n_ids; id++)
        if (f->count[id]) info->by_count[info->begin[f->count[id]]++] = id;
    info->bytes += (info->max_count + 3u) * sizeof *info->begin + info->n_fit * sizeof *info->by_count;
    size_t n_words = f->k->index->n_words;
    if (info->n_fit < n_words) return true;
    info->room = wr_calloc(WR_GR_ROOMS * n_words, sizeof *info->room);
    if (!info->room) return false;
    info->bytes += WR_GR_ROOMS * n_words * sizeof *info->room;
    for (uint32_t n = 0; n < WR_GR_ROOMS; n++) {
        uint32_t *mask = info->room + n * n_words, top = n < info->max_count ? n : info->max_count;
        if (n) memcpy(mask, mask - n_words, n_words * sizeof *mask);
        for (uint32_t i = n ? info->begin[top] : 0; i < info->begin[top + 1]; i++)
            wr_gr_mask_set(mask, info->by_count[i]);
    }
    return true;
}

/* Count the tokens, and keep few of them as a list. */
static bool settle_mask(finding *f, bool may_list) {
    wr_gr_info *info = f->info;
    size_t n_words = f->k->index->n_words;
    for (size_t i = 0; i < n_words; i++) info->n_fit += (uint32_t)__builtin_popcount(info->mask[i]);
    if (!may_list || info->n_fit > n_words / 4) {
        info->bytes += n_words * sizeof *info->mask;
        return true;
    }
    size_t n = 0;
    info->list = wr_malloc((info->n_fit + 1) * sizeof *info->list);
    if (!info->list) return false;
    for (size_t i = 0; i < n_words; i++)
        for (uint32_t bits = info->mask[i]; bits; bits &= bits - 1)
            info->list[n++] = (uint32_t)(i * 32) + (uint32_t)__builtin_ctz(bits);
    wr_free(info->mask);
    info->mask = NULL;
    info->bytes += n * sizeof *info->list;
    return true;
}

/* The tokens that leave, for infos that are derived from this one. Rests are in rising order, for the tree is. */
static bool keep_leavers(finding *f) {
    wr_gr_info *info = f->info;
    info->leaver = wr_malloc((f->n_rests + 1) * sizeof *info->leaver);
    info->used = wr_malloc((f->n_rests + 1) * sizeof *info->used);
    if (!info->leaver || !info->used) return false;
    for (size_t i = 0; i < f->n_rests; i++) {
        info->leaver[i] = f->rests[i].place;
        info->used[i] = f->rests[i].used;
    }
    info->n_leavers = f->n_rests;
    info->bytes += f->n_rests * (sizeof *info->leaver + sizeof *info->used);
    return true;
}

static bool begin(finding *f, weir_constraint *k, wr_gr_walk *w) {
    *f = (finding){.k = k, .w = w, .info = wr_calloc(1, sizeof *f->info)};
    if (f->info) f->info->mask = wr_calloc(k->index->n_words + 1, sizeof *f->info->mask);
    if (f->info) f->info->bytes = sizeof *f->info;
    return f->info && f->info->mask;
}

static wr_gr_info *end(finding *f, bool ok) {
    wr_free(f->rests);
    wr_free(f->count);
    if (ok) return f->info;
    if (f->w->status == WEIR_OK) f->w->status = WEIR_E_MEMORY;
    wr_gr_info_free(f->info);
    return NULL;
}

/* ---- By trying ------------------------------------------------------------------ */

static wr_gr_info *find_by_trying(weir_constraint *k, wr_gr_walk *w, const wr_gr_config *c, wr_gr_variant variant,
                                  bool is_any_string) {
    static const wr_gr_node base = {.depth = 1};
    wr_gr_config start = {.at = c->at, .rule = c->rule, .up = &base};
    wr_gr_trial t = {.w = w, .trie = &k->index->trie, .fits = fits_within, .only_read = true};
    bool counted = variant == WR_GR_COUNTED;
    finding f;
    wr_gr_set set = wr_gr_walk_begin(w);
    bool ok = begin(&f, k, w);
    if (ok && counted) ok = (f.count = wr_calloc(k->index->n_ids + 1u, sizeof *f.count)) != NULL;
    if (ok) {
        f.t = &t;
        t.context = w->context = &f;
        w->base = &base;
        w->stop = leaves;
        w->follow = is_any_string ? json_follow : NULL;
        ok = wr_gr_walk_add(w, &set, &start) && wr_gr_trial_run(&t, set) && !f.no_memory;
        w->base = NULL;
        w->follow = NULL;
        ok = ok && plant_rests(&f) && (!is_any_string || variant != WR_GR_IN_KEY || keep_leavers(&f)) &&
             settle_mask(&f, !counted && !is_any_string) && (!counted || order_by_count(&f));
    }
    for (size_t i = 0; ok && is_any_string && i < f.info->n_leave; i++) f.info->leave[i].at = NULL;
    w->n = set.first;
    w->n_nodes = set.n_nodes;
    return end(&f, ok);
}

/* ---- By comparing ---------------------------------------------------------------- */

/* Tokens [from, to) do as they do inside an unconstrained string. */
static void same_as_string(finding *f, const wr_gr_info *string, uint32_t from, uint32_t to, uint32_t leave) {
    size_t lo = 0, hi = string->n_leavers;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (string->leaver[mid] < from)
            lo = mid + 1;
        else
            hi = mid;
    }
    size_t n = lo;
    while (n < string->n_leavers && string->leaver[n] < to) n++;
    if (!wr_grow(&f->rests, &f->rest_cap, f->n_rests + (n - lo), sizeof *f->rests)) {
        f->no_memory = true;
        return;
    }
    for (; lo < n; lo++) f->rests[f->n_rests++] = (rest){leave, string->leaver[lo], string->used[lo], 0};
}

static void clear_tokens(finding *f, uint32_t from, uint32_t to) {
    const wr_gr_trie_token *token = f->k->index->trie.token;
    for (uint32_t i = from; i < to; i++) wr_gr_mask_clear(f->info->mask, token[i].id);
}

/* The place of a key where any name may still come, against the inside of a string: below a byte that takes both to the
 * same place nothing differs. */
static bool compare(finding *f, wr_gr_place *from, wr_gr_place *string_place, const wr_gr_info *string, uint32_t rule) {
    wr_gr_machine *m = f->w->m;
    const wr_gr_trie *trie = &f->k->index->trie;
    const wr_gr_trie_node *node = trie->node;
    wr_gr_place **own = wr_malloc((trie->max_depth + 1u) * sizeof *own),
                **other = wr_malloc((trie->max_depth + 1u) * sizeof *other);
    uint32_t string_end = leave_of(f, NULL, rule, WR_GR_NONE);
    bool ok = own && other;
    if (ok) own[0] = from, other[0] = string_place;
    for (uint32_t i = 1; ok && i < trie->n && !f->no_memory;) {
        uint32_t depth = node[i].depth, first = node[i].tokens, last = node[node[i].skip].tokens;
        wr_gr_place *x = wr_gr_next(m, own[depth - 1], node[i].byte, &f->w->status), *y = other[depth - 1];
        if (y != &wr_gr_dead) y = wr_gr_next(m, y, node[i].byte, &f->w->status);
        if (!x || !y) ok = false;
        if (!ok) break;
        if (x == y || x == &wr_gr_dead || x->tag >= 0) {
            if (x == &wr_gr_dead) {
                clear_tokens(f, first, last);
            } else if (x == y) {
                same_as_string(f, string, first, last, string_end);
            } else {
                clear_tokens(f, first, last);
                add_rests(f, leave_of(f, x, rule, WR_GR_NONE), first, last, depth, 0, m->program->rule[rule].follow);
            }
            i = node[i].skip;
            continue;
        }
        own[depth] = x;
        other[depth] = y;
        for (uint32_t k = first; k < node[i + 1].tokens; k++) wr_gr_mask_set(f->info->mask, trie->token[k].id);
        i++;
    }
    wr_free(own);
    wr_free(other);
    return ok && !f->no_memory;
}

static wr_gr_info *find_by_comparing(weir_constraint *k, wr_gr_walk *w, const wr_gr_config *c,
                                     wr_gr_place *string_place) {
    finding f;
    bool kept;
    wr_gr_config inside = *c;
    inside.at = string_place;
    wr_gr_info *string = wr_gr_info_of(k, w, &inside, &kept);
    if (!string) return NULL;
    bool ok = begin(&f, k, w);
    if (ok) {
        memcpy(f.info->mask, string->mask, k->index->n_words * sizeof *string->mask);
        ok = compare(&f, c->at, string_place, string, c->rule) && plant_rests(&f) && settle_mask(&f, true);
    }
    if (!kept) wr_gr_info_free(string);
    return end(&f, ok);
}

wr_gr_info *wr_gr_info_of(weir_constraint *k, wr_gr_walk *w, const wr_gr_config *c, bool *kept) {
    wr_gr_frame frame = w->m->program->rule[c->rule].frame;
    wr_gr_variant variant = frame == WR_GR_STRING ? WR_GR_COUNTED : frame == WR_GR_KEY ? WR_GR_IN_KEY : WR_GR_UNCOUNTED;
    wr_gr_place *string = wr_gr_any_string(w->m, &w->status);
    _Atomic(wr_gr_info *) *place = &c->at->info[variant];
    bool is_string = c->at == string;
    if (is_string) place = &k->index->any_string[w->m->program->plain_strings][variant];
    wr_gr_info *info = atomic_load_explicit(place, memory_order_acquire), *none = NULL;
    *kept = true;
    if (info || w->status != WEIR_OK) return w->status == WEIR_OK ? info : NULL;
    if (variant == WR_GR_IN_KEY && string && !is_string)
        info = find_by_comparing(k, w, c, string);
    else
        info = find_by_trying(k, w, c, variant, is_string);
    if (!info) return NULL;
    if (!is_string && atomic_load(&k->machine.used_bytes) + info->bytes > k->info_cap_bytes) {
        *kept = false;
        return info;
    }
    if (atomic_compare_exchange_strong_explicit(place, &none, info, memory_order_acq_rel, memory_order_acquire)) {
        if (!is_string) atomic_fetch_add(&k->machine.used_bytes, info->bytes);
        return info;
    }
    wr_gr_info_free(info); /* another thread was faster */
    return none;
}
