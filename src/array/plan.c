/* Order, barriers and memory of a program.
 *
 * Steps between two barriers (an epoch) do not depend on each other and run on all threads at once. A step may move
 * forward into an earlier epoch past a few others; never further, so that the memory of a wide graph stays bounded.
 * Lifetimes are counted in epochs: two buffers share bytes only when a barrier lies between their uses, so reuse of
 * memory adds no hazard. */
#include <string.h>

#include "array/compile.h"

/* How many unscheduled steps are looked at: a transformer layer's q, k and v branches with their norms and rope. */
enum { WINDOW = 16, ALIGN = 64 };

static weir_status no_memory(weir_error *err) {
    return WR_FAIL(err, WEIR_E_MEMORY, "no memory for planning a program");
}

/* ---- dependencies ---- */

typedef struct deps {
    int n;
    int32_t *list; /* drafts */
} deps;

/* One use of a state buffer. */
typedef struct access {
    struct access *next; /* of the same storage, earlier */
    int32_t draft;
    bool write;
    int64_t begin, end; /* bytes */
} access;

static void byte_range(const wr_value *v, int64_t *begin, int64_t *end) {
    int64_t low = v->layout.offset, high = low + 1, size = (int64_t)weir_dtype_bytes(v->dtype);
    *begin = *end = 0;
    for (int i = 0; i < v->layout.n_dims; i++) {
        int64_t span = (v->layout.shape[i] - 1) * v->layout.strides[i];
        if (v->layout.shape[i] == 0) return;
        if (span < 0)
            low += span;
        else
            high += span;
    }
    *begin = low * size;
    *end = high * size;
}

/* A prepare step reads some inputs only. */
static bool reads_input(const wr_compiler *c, const wr_draft *d, int i) {
    return !d->is_prepare || c->drafts[d->prepares].row->prepare_inputs >> i & 1;
}

static weir_status find_deps(wr_compiler *c, deps *all, weir_error *err) {
    access **latest = wr_arena_alloc(c->memory, (size_t)c->n_storages * sizeof *latest);
    int32_t *found = wr_arena_alloc(c->memory, (size_t)c->n_drafts * sizeof *found);
    int32_t *found_by = wr_arena_alloc(c->memory, (size_t)c->n_drafts * sizeof *found_by); /* place + 1 */
    if (!latest || !found || !found_by) return no_memory(err);
    for (int o = 0; o < c->n_order; o++) {
        int32_t id = c->order[o];
        const wr_draft *d = &c->drafts[id];
        int n = 0;
        found_by[id] = o + 1; /* not on itself */
#define FIND(on)                                                                                                       \
    do {                                                                                                               \
        if (found_by[on] != o + 1) {                                                                                   \
            found_by[on] = o + 1;                                                                                      \
            found[n++] = on;                                                                                           \
        }                                                                                                              \
    } while (0)
        for (int i = 0; i <= d->n_in; i++) {
            /* Inputs, then the output where it is state. */
            bool is_out = i == d->n_in, write = is_out || (i == 1 && wr_ops[d->op].flags & WR_INPLACE_TWO);
            if (!is_out && !reads_input(c, d, i)) continue;
            if (write && d->is_prepare) continue;
            const wr_value *v = &c->values[is_out ? d->out : d->in[i]];
            const wr_storage *s = &c->storages[v->storage];
            if (s->place != WR_IN_LEAF) {
                if (!write && s->producer != WR_NONE) FIND(s->producer);
                continue;
            }
            if (!s->written) continue;
            access *a = wr_arena_alloc(c->memory, sizeof *a);
            if (!a) return no_memory(err);
            *a = (access){.next = latest[v->storage], .draft = id, .write = write};
            byte_range(v, &a->begin, &a->end);
            for (access *b = a->next; b; b = b->next)
                if ((a->write || b->write) && a->begin < b->end && b->begin < a->end) FIND(b->draft);
            latest[v->storage] = a;
        }
        if (d->prepared != WR_NONE) FIND(c->storages[d->prepared].producer);
#undef FIND
        all[id].n = n;
        all[id].list = wr_arena_alloc(c->memory, (size_t)n * sizeof *found);
        if (!all[id].list) return no_memory(err);
        memcpy(all[id].list, found, (size_t)n * sizeof *found);
    }
    return WEIR_OK;
}

/* ---- order and barriers ---- */

static bool ready(const wr_compiler *c, const deps *d, int32_t epoch) {
    for (int i = 0; i < d->n; i++) {
        int32_t of = c->drafts[d->list[i]].epoch;
        if (of == WR_NONE || of >= epoch) return false;
    }
    return true;
}

static void live(wr_storage *s, int32_t epoch) {
    if (epoch < s->first) s->first = epoch;
    if (epoch > s->last) s->last = epoch;
}

weir_status wr_schedule(wr_compiler *c, weir_error *err) {
    deps *all = wr_arena_alloc(c->memory, (size_t)c->n_drafts * sizeof *all);
    int32_t *order = wr_arena_alloc(c->memory, (size_t)c->n_order * sizeof *order);
    if (!all || !order) return no_memory(err);
    WR_TRY(find_deps(c, all, err));
    int n = 0, head = 0;
    for (int32_t epoch = 0; n < c->n_order; epoch++) {
        bool first = true;
        int seen = 0;
        for (int i = head; i < c->n_order && seen < WINDOW; i++) {
            wr_draft *d = &c->drafts[c->order[i]];
            if (d->epoch != WR_NONE) continue;
            if (!ready(c, &all[c->order[i]], epoch)) {
                seen++;
                continue;
            }
            d->epoch = epoch;
            d->barrier = first && epoch > 0;
            first = false;
            order[n++] = c->order[i];
        }
        while (head < c->n_order && c->drafts[c->order[head]].epoch != WR_NONE) head++;
    }
    c->order = order;
    for (int o = 0; o < c->n_order; o++) {
        const wr_draft *d = &c->drafts[order[o]];
        if (d->scratch != WR_NONE) live(&c->storages[d->scratch], d->epoch);
        if (d->prepared != WR_NONE) live(&c->storages[d->prepared], d->epoch);
        for (int i = 0; i < d->n_in; i++)
            if (reads_input(c, d, i)) live(&c->storages[c->values[d->in[i]].storage], d->epoch);
        if (!d->is_prepare) live(&c->storages[c->values[d->out].storage], d->epoch);
    }
    for (int i = 0; i < c->n_outputs; i++) live(&c->storages[c->values[c->outputs[i]].storage], INT32_MAX);
    return WEIR_OK;
}

/* ---- memory ---- */

static bool before(const wr_storage *s, int32_t a, int32_t b) {
    return s[a].bytes != s[b].bytes ? s[a].bytes > s[b].bytes : a < b;
}

/* Largest first; heap sort needs no memory of its own. */
static void sort_by_size(const wr_storage *s, int32_t *a, int n) {
    for (int end = n, start = n / 2; end > 1;) {
        if (start > 0) {
            start--;
        } else {
            end--;
            int32_t t = a[end];
            a[end] = a[0];
            a[0] = t;
        }
        for (int root = start, child; (child = 2 * root + 1) < end; root = child) {
            if (child + 1 < end && before(s, a[child], a[child + 1])) child++;
            if (!before(s, a[root], a[child])) break;
            int32_t t = a[root];
            a[root] = a[child];
            a[child] = t;
        }
    }
}

weir_status wr_plan_arena(wr_compiler *c, weir_error *err) {
    wr_storage *s = c->storages;
    int32_t *todo = wr_arena_alloc(c->memory, (size_t)c->n_storages * sizeof *todo);
    int32_t *placed = wr_arena_alloc(c->memory, (size_t)c->n_storages * sizeof *placed); /* by offset */
    if (!todo || !placed) return no_memory(err);
    int n = 0, n_placed = 0;
    for (int i = 0; i < c->n_storages; i++) {
        if (s[i].place != WR_IN_ARENA || s[i].last < 0 || s[i].bytes == 0) continue;
        if (__builtin_add_overflow(s[i].bytes, ALIGN - 1, &s[i].bytes))
            return WR_FAIL(err, WEIR_E_LIMIT, "a buffer of a program exceeds 2^63 bytes");
        s[i].bytes -= s[i].bytes % ALIGN;
        todo[n++] = i;
    }
    sort_by_size(s, todo, n);
    int64_t total = 0;
    for (int t = 0; t < n; t++) {
        wr_storage *own = &s[todo[t]];
        int64_t end = 0, best = INT64_MAX, at = -1;
        for (int p = 0; p < n_placed; p++) {
            const wr_storage *other = &s[placed[p]];
            if (other->first > own->last || own->first > other->last) continue;
            int64_t gap = other->offset - end;
            if (gap >= own->bytes && gap < best) {
                best = gap;
                at = end;
            }
            if (other->offset + other->bytes > end) end = other->offset + other->bytes;
        }
        own->offset = at >= 0 ? at : end;
        int64_t top;
        if (__builtin_add_overflow(own->offset, own->bytes, &top))
            return WR_FAIL(err, WEIR_E_LIMIT, "the buffers of a program exceed 2^63 bytes");
        if (top > total) total = top;
        int p = n_placed++;
        for (; p > 0 && s[placed[p - 1]].offset > own->offset; p--) placed[p] = placed[p - 1];
        placed[p] = todo[t];
    }
    c->arena_bytes = (size_t)total;
    return WEIR_OK;
}
