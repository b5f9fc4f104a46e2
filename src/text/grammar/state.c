/* Constraints, and the state of one sequence: its sets of configurations, one after each step that can be taken back.
 * Frames that a state keeps are counted and live in a pool of its own; all trying is done on a walk's stack. */
#include "text/grammar/mask.h"

#include <string.h>

#include "text/work.h"

enum { CACHE_BYTES_DEFAULT = 128 << 20 };

weir_status weir_constraint_new(weir_grammar *grammar, weir_token_index *index, size_t cache_bytes,
                                weir_constraint **out, weir_error *err) {
    *out = NULL;
    weir_constraint *k = wr_calloc(1, sizeof *k);
    if (!k) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a constraint");
    size_t cap = cache_bytes ? cache_bytes : CACHE_BYTES_DEFAULT;
    weir_status st = wr_gr_machine_init(&k->machine, grammar, cap, err);
    if (st != WEIR_OK) {
        wr_free(k);
        return st;
    }
    k->info_cap_bytes = cap / 4 * 3;
    k->index = index ? weir_token_index_retain(index) : NULL;
    *out = k;
    return WEIR_OK;
}

void weir_constraint_free(weir_constraint *k) {
    if (!k) return;
    for (size_t i = 0; i < k->machine.sets.n; i++)
        for (int v = 0; v < WR_GR_VARIANTS; v++) wr_gr_info_free(k->machine.place[i]->info[v]);
    wr_gr_machine_deinit(&k->machine);
    weir_token_index_release(k->index);
    wr_free(k);
}

size_t weir_constraint_cache_bytes(const weir_constraint *k) { return atomic_load(&k->machine.used_bytes); }

size_t weir_constraint_mask_words(const weir_constraint *k) { return k->index ? k->index->n_words : 0; }

/* ---- States ----------------------------------------------------------------- */

typedef struct moment {
    size_t first, n; /* of config */
    bool ended;
} moment;

struct weir_constraint_state {
    weir_constraint *k;
    wr_gr_walk walk;
    wr_gr_config *config; /* of all moments, in order */
    moment *moments;      /* [n_moments]; the last is now */
    size_t n_configs, config_cap, n_moments, moment_cap, max_rollback;
    wr_gr_node *idle; /* nodes to be used again, linked by up */
    wr_gr_node **chunk;
    size_t n_chunks, chunk_cap;
    uint32_t *memo; /* mask of the present moment, if memo_valid */
    bool memo_valid;
};

static moment *now(const weir_constraint_state *s) { return &s->moments[s->n_moments - 1]; }

static weir_status walk_failed(const weir_constraint_state *s, weir_error *err) {
    if (s->walk.status == WEIR_E_MEMORY) return WR_FAIL(err, WEIR_E_MEMORY, "no memory to follow the grammar");
    if (s->k->machine.used_bytes + (1 << 16) > s->k->machine.cap_bytes)
        return WR_FAIL(err, WEIR_E_LIMIT, "the grammar's automaton needs more than the %zu bytes of its cache",
                       s->k->machine.cap_bytes);
    return WR_FAIL(err, WEIR_E_LIMIT, "the text has more than %d readings at once; make the grammar less ambiguous",
                   WR_GR_CONFIGS_MAX);
}

static wr_gr_node *take_node(weir_constraint_state *s) {
    if (!s->idle) {
        wr_gr_node *chunk = NULL;
        if (wr_grow(&s->chunk, &s->chunk_cap, s->n_chunks + 1, sizeof *s->chunk))
            chunk = wr_malloc(WR_GR_NODES_OF_CHUNK * sizeof *chunk);
        if (!chunk) return NULL;
        s->chunk[s->n_chunks++] = chunk;
        for (size_t i = 0; i < WR_GR_NODES_OF_CHUNK; i++) {
            chunk[i].up = s->idle;
            s->idle = &chunk[i];
        }
    }
    wr_gr_node *node = s->idle;
    s->idle = (wr_gr_node *)node->up;
    return node;
}

static void release_node(weir_constraint_state *s, const wr_gr_node *node) {
    while (node) {
        wr_gr_node *mine = (wr_gr_node *)node;
        if (--mine->references) return;
        node = mine->up;
        mine->up = s->idle;
        s->idle = mine;
    }
}

/* The same frames in nodes of s, with one reference for the caller. Nodes of s have references, others none. */
static bool keep_frames(weir_constraint_state *s, const wr_gr_node *node, const wr_gr_node **out) {
    const wr_gr_node *path[WR_GR_DEPTH_MAX + 1], *below;
    size_t n = 0;
    for (; node && !node->references; node = node->up) path[n++] = node;
    if (node) ((wr_gr_node *)node)->references++;
    for (below = node; n; n--) {
        wr_gr_node *copy = take_node(s);
        if (!copy) {
            release_node(s, below);
            return false;
        }
        *copy = *path[n - 1];
        copy->up = below;
        copy->references = 1;
        below = copy;
    }
    *out = below;
    return true;
}

static void drop_last(weir_constraint_state *s) {
    moment *m = now(s);
    for (size_t i = 0; i < m->n; i++) release_node(s, s->config[m->first + i].up);
    s->n_configs = m->first;
    s->n_moments--;
}

/* Forget moments that can no longer be gone back to; in batches, so that moving is cheap. */
static void forget_old(weir_constraint_state *s) {
    size_t keep = s->max_rollback + 1;
    if (s->n_moments < 2 * keep + 16) return;
    size_t drop = s->n_moments - keep, n = s->moments[drop].first;
    for (size_t i = 0; i < n; i++) release_node(s, s->config[i].up);
    if (n) memmove(s->config, s->config + n, (s->n_configs - n) * sizeof *s->config);
    memmove(s->moments, s->moments + drop, keep * sizeof *s->moments);
    s->n_configs -= n;
    s->n_moments = keep;
    for (size_t i = 0; i < keep; i++) s->moments[i].first -= n;
}

static bool same_as_now(const weir_constraint_state *s, const wr_gr_config *config, size_t n) {
    const moment *m = now(s);
    if (m->ended || m->n != n) return false;
    for (size_t i = 0; i < n; i++) {
        const wr_gr_config *x = &s->config[m->first + i], *y = &config[i];
        if (x->at != y->at || x->up != y->up || x->rule != y->rule || x->count != y->count ||
            memcmp(x->seen, y->seen, sizeof x->seen) != 0)
            return false;
    }
    return true;
}

/* A new moment of these configurations, whose frames may be anyone's. */
static weir_status push_moment(weir_constraint_state *s, const wr_gr_config *config, size_t n, bool ended,
                               weir_error *err) {
    if (s->n_moments) s->memo_valid = s->memo_valid && !ended && same_as_now(s, config, n);
    if (!wr_grow(&s->config, &s->config_cap, s->n_configs + n, sizeof *s->config) ||
        !wr_grow(&s->moments, &s->moment_cap, s->n_moments + 1, sizeof *s->moments))
        return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the state of a constraint");
    size_t first = s->n_configs;
    for (size_t i = 0; i < n; i++) {
        wr_gr_config *c = &s->config[first + i];
        *c = config[i];
        if (keep_frames(s, config[i].up, &c->up)) continue;
        while (i) release_node(s, s->config[first + --i].up);
        return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the state of a constraint");
    }
    s->n_configs = first + n;
    s->moments[s->n_moments++] = (moment){first, n, ended};
    forget_old(s);
    return WEIR_OK;
}

static weir_status new_state(weir_constraint *k, size_t max_rollback, weir_constraint_state **out, weir_error *err) {
    weir_constraint_state *s = wr_calloc(1, sizeof *s);
    if (s) s->memo = wr_malloc((weir_constraint_mask_words(k) + 1) * sizeof *s->memo);
    if (!s || !s->memo) {
        wr_free(s);
        return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the state of a constraint");
    }
    s->k = k;
    s->max_rollback = max_rollback < SIZE_MAX / 4 ? max_rollback : SIZE_MAX / 4;
    wr_gr_walk_init(&s->walk, &k->machine);
    *out = s;
    return WEIR_OK;
}

weir_status weir_constraint_state_new(weir_constraint *k, size_t max_rollback, weir_constraint_state **out,
                                      weir_error *err) {
    weir_constraint_state *s = NULL;
    wr_gr_config start;
    *out = NULL;
    WR_TRY(new_state(k, max_rollback, &s, err));
    weir_status st = wr_gr_walk_start(&s->walk, &start) ? push_moment(s, &start, 1, false, err) : walk_failed(s, err);
    if (st != WEIR_OK) {
        weir_constraint_state_free(s);
        return st;
    }
    *out = s;
    return WEIR_OK;
}

weir_status weir_constraint_state_dup(const weir_constraint_state *old, weir_constraint_state **out, weir_error *err) {
    weir_constraint_state *s = NULL;
    *out = NULL;
    WR_TRY(new_state(old->k, old->max_rollback, &s, err));
    const moment *m = now(old);
    weir_status st = WEIR_OK;
    wr_gr_config *copy = wr_malloc((m->n + 1) * sizeof *copy);
    wr_gr_node *frames = wr_malloc((m->n * (WR_GR_DEPTH_MAX + 1) + 1) * sizeof *frames);
    size_t n_frames = 0;
    if (!copy || !frames) st = WR_FAIL(err, WEIR_E_MEMORY, "no memory for the state of a constraint");
    for (size_t i = 0; st == WEIR_OK && i < m->n; i++) {
        /* As frames without references, which push_moment copies. */
        copy[i] = old->config[m->first + i];
        const wr_gr_node **link = &copy[i].up;
        for (const wr_gr_node *f = copy[i].up; f; f = f->up) {
            frames[n_frames] = *f;
            frames[n_frames].references = 0;
            *link = &frames[n_frames];
            link = &frames[n_frames++].up;
        }
    }
    if (st == WEIR_OK) st = push_moment(s, copy, m->n, m->ended, err);
    wr_free(copy);
    wr_free(frames);
    if (st != WEIR_OK) {
        weir_constraint_state_free(s);
        return st;
    }
    *out = s;
    return WEIR_OK;
}

void weir_constraint_state_free(weir_constraint_state *s) {
    if (!s) return;
    wr_gr_walk_deinit(&s->walk);
    for (size_t i = 0; i < s->n_chunks; i++) wr_free(s->chunk[i]);
    wr_free(s->chunk);
    wr_free(s->config);
    wr_free(s->moments);
    wr_free(s->memo);
    wr_free(s);
}

/* ---- Reading ---------------------------------------------------------------- */

/* The present configurations on an empty walk. */
static wr_gr_set begin_walk(weir_constraint_state *s) {
    wr_gr_walk *w = &s->walk;
    w->n = w->n_nodes = 0;
    w->status = WEIR_OK;
    wr_gr_set set = wr_gr_walk_begin(w);
    const moment *m = now(s);
    for (size_t i = 0; i < m->n; i++)
        if (!wr_gr_walk_add(w, &set, &s->config[m->first + i])) break;
    return set;
}

static weir_status read_text(weir_constraint_state *s, const uint8_t *text, size_t n, size_t *taken, weir_error *err) {
    wr_gr_walk *w = &s->walk;
    wr_gr_set set = begin_walk(s);
    size_t i = 0;
    for (; i < n; i++) {
        wr_gr_set next = wr_gr_walk_byte(w, set, text[i]);
        if (!next.n) break;
        /* No way back is needed: the new set takes the old one's place. */
        memmove(w->config + set.first, w->config + next.first, next.n * sizeof *w->config);
        set.n = next.n;
        set.n_nodes = next.n_nodes;
        wr_gr_walk_cut(w, set);
    }
    *taken = i;
    if (w->status != WEIR_OK) return walk_failed(s, err);
    return i == n ? push_moment(s, w->config + set.first, set.n, false, err) : WEIR_OK;
}

weir_status weir_constraint_state_accept_bytes(weir_constraint_state *s, const char *text, size_t bytes, size_t *taken,
                                               weir_error *err) {
    size_t fit = 0;
    weir_status st = now(s)->ended && bytes ? WEIR_OK : read_text(s, (const uint8_t *)text, bytes, &fit, err);
    if (taken) *taken = fit;
    if (st != WEIR_OK || fit == bytes) return st;
    return WR_FAIL(err, WEIR_E_ARGUMENT, "the text breaks the grammar at byte %zu of %zu", fit, bytes);
}

/* False also when the walk has failed. */
static bool may_end(weir_constraint_state *s) {
    const moment *m = now(s);
    s->walk.status = WEIR_OK;
    for (size_t i = 0; i < m->n; i++)
        if (wr_gr_walk_can_end(&s->walk, &s->config[m->first + i])) return true;
    return false;
}

weir_status weir_constraint_state_accept(weir_constraint_state *s, int32_t token, weir_error *err) {
    const weir_token_index *x = s->k->index;
    if (!x) return WR_FAIL(err, WEIR_E_STATE, "this constraint has no vocabulary");
    if (now(s)->ended) return WR_FAIL(err, WEIR_E_ARGUMENT, "token %d comes after the end", token);
    if (token < 0 || (uint32_t)token >= x->n_ids)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "token %d is outside the vocabulary of %u", token, x->n_ids);
    if (wr_gr_index_is_eos(x, token)) {
        bool yes = may_end(s);
        if (s->walk.status != WEIR_OK) return walk_failed(s, err);
        if (!yes) return WR_FAIL(err, WEIR_E_ARGUMENT, "the text may not end here, as token %d says", token);
        return push_moment(s, NULL, 0, true, err);
    }
    size_t n = x->offset[token + 1] - x->offset[token], taken;
    if (!n) return WR_FAIL(err, WEIR_E_ARGUMENT, "token %d is no text", token);
    WR_TRY(read_text(s, x->text + x->offset[token], n, &taken, err));
    if (taken == n) return WEIR_OK;
    return WR_FAIL(err, WEIR_E_ARGUMENT, "token %d breaks the grammar at its byte %zu of %zu", token, taken, n);
}

weir_status weir_constraint_state_rollback(weir_constraint_state *s, size_t n, weir_error *err) {
    if (n > weir_constraint_state_history(s))
        return WR_FAIL(err, WEIR_E_STATE, "%zu steps cannot be taken back, only %zu are kept", n,
                       weir_constraint_state_history(s));
    if (n) s->memo_valid = false;
    for (; n; n--) drop_last(s);
    return WEIR_OK;
}

size_t weir_constraint_state_history(const weir_constraint_state *s) {
    return s->n_moments - 1 < s->max_rollback ? s->n_moments - 1 : s->max_rollback;
}

bool weir_constraint_state_can_end(const weir_constraint_state *s) {
    return may_end((weir_constraint_state *)s); /* the walk is scratch */
}

bool weir_constraint_state_ended(const weir_constraint_state *s) { return now(s)->ended; }

weir_status weir_constraint_state_mask(weir_constraint_state *s, uint32_t *mask, size_t n_words, weir_error *err) {
    const weir_token_index *x = s->k->index;
    if (!x) return WR_FAIL(err, WEIR_E_STATE, "this constraint has no vocabulary");
    if (n_words != x->n_words)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "a mask of %zu words was given, this vocabulary needs %zu", n_words,
                       x->n_words);
    if (!s->memo_valid) {
        const moment *m = now(s);
        wr_gr_set set = begin_walk(s);
        memset(s->memo, 0, n_words * sizeof *s->memo);
        for (size_t i = 0; i < m->n && s->walk.status == WEIR_OK; i++) {
            wr_gr_walk_cut(&s->walk, set);
            wr_gr_mask_add(s->k, &s->walk, &s->config[m->first + i], s->memo, i == 0);
        }
        if (s->walk.status != WEIR_OK) return walk_failed(s, err);
        bool end = may_end(s);
        if (s->walk.status != WEIR_OK) return walk_failed(s, err);
        if (end)
            for (size_t i = 0; i < x->n_eos; i++)
                if ((uint32_t)x->eos[i] < x->n_ids) wr_gr_mask_set(s->memo, (uint32_t)x->eos[i]);
        s->memo_valid = true;
    }
    memcpy(mask, s->memo, n_words * sizeof *mask);
    return WEIR_OK;
}

/* The only byte that fits, -1 when there are none or more. */
static int only_byte(weir_constraint_state *s, wr_gr_set set) {
    const wr_gr_program *p = s->k->machine.program;
    int only = -1;
    for (unsigned c = 0; c < 256; c++) {
        bool alone =
            (c == 0 || p->class_of[c] != p->class_of[c - 1]) && (c == 255 || p->class_of[c] != p->class_of[c + 1]);
        if (c && p->class_of[c] == p->class_of[c - 1]) continue; /* as the byte before it */
        bool fits = wr_gr_walk_byte(&s->walk, set, (uint8_t)c).n > 0;
        wr_gr_walk_cut(&s->walk, set);
        if (!fits) continue;
        if (!alone || only >= 0) return -1;
        only = (int)c;
    }
    return only;
}

weir_status weir_constraint_state_forced(weir_constraint_state *s, char *out, size_t cap, size_t *n, weir_error *err) {
    wr_gr_set set = begin_walk(s);
    wr_gr_walk *w = &s->walk;
    for (*n = 0; *n < cap && w->status == WEIR_OK; ++*n) {
        bool may_end = false;
        for (uint32_t i = 0; i < set.n && !may_end; i++) may_end = wr_gr_walk_can_end(w, &w->config[set.first + i]);
        int byte = may_end ? -1 : only_byte(s, set);
        if (byte < 0) break;
        set = wr_gr_walk_byte(w, set, (uint8_t)byte);
        out[*n] = (char)byte;
    }
    return w->status == WEIR_OK ? WEIR_OK : walk_failed(s, err);
}
