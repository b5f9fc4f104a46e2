/* Owns the places: subset construction over the program's states, one frame at a time, on demand. Within numbers a
 * place is a list of readings, and its key begins with READINGS, which no state has for a number. */
#include "text/grammar/machine.h"

#include <string.h>

#include "text/work.h"

wr_gr_place wr_gr_dead = {.tag = -1};

enum { READINGS = WR_GR_NONE, WORDS_OF_READING = 1 + WR_READING_WORDS /* the set's number before it */ };

weir_status wr_gr_machine_init(wr_gr_machine *m, weir_grammar *program, size_t cap_bytes, weir_error *err) {
    *m = (wr_gr_machine){.program = weir_grammar_retain(program), .cap_bytes = cap_bytes};
    pthread_mutex_init(&m->lock, NULL);
    m->back = wr_calloc(program->n_slots + 1, sizeof *m->back);
    m->enter = wr_calloc(program->n_rules + 1, sizeof *m->enter);
    m->stamp = wr_calloc(program->n_states + 1, sizeof *m->stamp);
    m->todo = wr_calloc(program->n_states + 1, sizeof *m->todo);
    m->member = wr_calloc(program->n_states + 1, sizeof *m->member);
    if (m->back && m->enter && m->stamp && m->todo && m->member) return WEIR_OK;
    wr_gr_machine_deinit(m);
    return WR_FAIL(err, WEIR_E_MEMORY, "no memory to run the grammar");
}

void wr_gr_machine_deinit(wr_gr_machine *m) {
    if (!m->program) return;
    for (size_t i = 0; i < m->sets.n && i < m->place_cap; i++) wr_free(m->place[i]);
    wr_free(m->place);
    wr_sets_deinit(&m->sets);
    wr_free((void *)m->back);
    wr_free((void *)m->enter);
    wr_free(m->stamp);
    wr_free(m->todo);
    wr_free(m->member);
    wr_free(m->reading);
    pthread_mutex_destroy(&m->lock);
    weir_grammar_release(m->program);
    *m = (wr_gr_machine){0};
}

/* ---- Making a place; under the lock -------------------------------------------- */

/* Add s and what it reaches without a byte; a call of a rule that can be empty may be passed over. */
static void add_closure(wr_gr_machine *m, uint32_t s, size_t *n_members) {
    const wr_gr_program *p = m->program;
    size_t n = 0;
    if (!p->state[s].live || m->stamp[s] == m->now) return;
    m->stamp[s] = m->now;
    m->todo[n++] = s;
    while (n) {
        uint32_t q = m->todo[--n];
        bool member = p->state[q].tag >= 0 || p->state[q].guard;
        for (uint32_t k = p->state[q].edges; k; k = p->edge[k].next) {
            wr_gr_edge edge = p->edge[k];
            uint32_t to = edge.to;
            if (edge.kind != WR_GR_EMPTY) member = true;
            if (edge.kind == WR_GR_BYTES) continue;
            if (edge.kind == WR_GR_CALL) {
                if (!p->rule[p->call[edge.to].rule].nullable) continue;
                to = p->call[edge.to].back;
            }
            if (!p->state[to].live || m->stamp[to] == m->now) continue;
            m->stamp[to] = m->now;
            m->todo[n++] = to;
        }
        if (member) m->member[(*n_members)++] = q;
    }
}

/* What the members say together. calls: room for those of all members. */
static void describe(const wr_gr_program *p, wr_gr_place *place, const uint32_t *member, size_t n, uint32_t *calls) {
    bool reads = false;
    place->tag = -1;
    place->calls = calls;
    for (size_t i = 0; i < n; i++) {
        const wr_gr_state *s = &p->state[member[i]];
        /* A declared name wins over "any other name", which has tag 0 or one above all names. */
        if (s->tag >= 0 && (place->tag <= 0 || (s->tag > 0 && s->tag < place->tag))) place->tag = s->tag;
        if (s->guard > place->guard) place->guard = s->guard;
        place->boundary |= s->boundary;
        if (s->name)
            wr_gr_bit_set(place->names, s->name - 1u);
        else
            place->others = true;
        for (uint32_t k = s->edges; k; k = p->edge[k].next) {
            if (p->edge[k].kind == WR_GR_BYTES) reads |= p->state[p->edge[k].to].live;
            if (p->edge[k].kind == WR_GR_CALL && p->call[p->edge[k].to].live) calls[place->n_calls++] = p->edge[k].to;
        }
    }
    place->only_final = place->tag >= 0 && !reads && !place->n_calls;
    place->plain = place->tag < 0 && !place->n_calls;
}

/* The place with this key, if there is one already; else a new one, its number set, in *fresh. n_calls: room for them.
 */
static wr_gr_place *numbered_place(wr_gr_machine *m, const uint32_t *key, size_t n, size_t n_calls, bool *fresh,
                                   weir_status *status) {
    uint32_t number;
    size_t bytes = sizeof(wr_gr_place) + m->program->n_classes * sizeof(wr_gr_place *) + n_calls * sizeof(uint32_t);
    if (m->used_bytes + bytes + n * sizeof(uint32_t) > m->cap_bytes) {
        *status = WEIR_E_LIMIT;
        return NULL;
    }
    *status = WEIR_E_MEMORY;
    if (!wr_grow(&m->place, &m->place_cap, m->sets.n + 1, sizeof *m->place)) return NULL;
    wr_gr_place *place = wr_calloc(1, bytes);
    if (!place) return NULL;
    if (!wr_sets_number(&m->sets, key, n, &number, fresh)) {
        wr_free(place);
        return NULL;
    }
    *status = WEIR_OK;
    if (!*fresh) {
        wr_free(place);
        return m->place[number];
    }
    place->number = number;
    m->place[number] = place;
    atomic_fetch_add(&m->used_bytes, bytes + n * sizeof(uint32_t));
    return place;
}

/* The place of the collected members. */
static wr_gr_place *place_of(wr_gr_machine *m, size_t n, weir_status *status) {
    const wr_gr_program *p = m->program;
    bool fresh;
    if (n == 0) return &wr_gr_dead;
    wr_sets_sort(m->member, n);
    size_t n_calls = 0;
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = p->state[m->member[i]].edges; k; k = p->edge[k].next)
            n_calls += p->edge[k].kind == WR_GR_CALL;
    wr_gr_place *place = numbered_place(m, m->member, n, n_calls, &fresh, status);
    if (place && fresh) describe(p, place, m->member, n, (uint32_t *)&place->next[p->n_classes]);
    return place;
}

/* ---- Numbers; under the lock ------------------------------------------------------ */

/* Reading i of a key, and the number of its set. */
static uint32_t get_reading(const uint32_t *key, size_t i, wr_reading *r) {
    key += 1 + i * WORDS_OF_READING;
    memcpy(r, key + 1, sizeof *r);
    return key[0];
}

static bool add_reading(wr_gr_machine *m, size_t *n, uint32_t set, const wr_reading *r, weir_status *status) {
    size_t at = 1 + *n * WORDS_OF_READING;
    if (!wr_grow(&m->reading, &m->reading_cap, at + WORDS_OF_READING, sizeof *m->reading)) {
        *status = WEIR_E_MEMORY;
        return false;
    }
    m->reading[0] = READINGS;
    m->reading[at] = set;
    memcpy(m->reading + at + 1, r, sizeof *r);
    ++*n;
    return true;
}

/* The place of the n readings in m->reading. */
static wr_gr_place *place_of_readings(wr_gr_machine *m, size_t n, weir_status *status) {
    bool fresh;
    wr_reading r;
    if (n == 0) return &wr_gr_dead;
    wr_gr_place *place = numbered_place(m, m->reading, 1 + n * WORDS_OF_READING, 0, &fresh, status);
    if (!place || !fresh) return place;
    place->tag = -1;
    for (size_t i = 0; i < n && place->tag < 0; i++) {
        uint32_t set = get_reading(m->reading, i, &r);
        if (wr_reading_accepts(m->program->number[set], &r)) place->tag = 0;
    }
    place->others = true;
    place->plain = place->tag < 0;
    return place;
}

static wr_gr_place *number_start(wr_gr_machine *m, const wr_gr_rule *rule, weir_status *status) {
    size_t n = 0;
    for (uint32_t i = 0; i < rule->n_numbers; i++)
        if (!add_reading(m, &n, rule->number + i, &(wr_reading){0}, status)) return NULL;
    return place_of_readings(m, n, status);
}

static wr_gr_place *number_next(wr_gr_machine *m, const wr_gr_place *from, uint8_t byte, weir_status *status) {
    const uint32_t *key = m->sets.pool + m->sets.first[from->number];
    size_t n = 0, n_from = (m->sets.length[from->number] - 1) / WORDS_OF_READING;
    for (size_t i = 0; i < n_from; i++) {
        wr_reading r;
        uint32_t set = get_reading(key, i, &r);
        if (wr_reading_step(m->program->number[set], &r, byte) && !add_reading(m, &n, set, &r, status)) return NULL;
    }
    return place_of_readings(m, n, status);
}

/* ---- From place to place ---------------------------------------------------------- */

/* The place of one state, or the start of a number's rule, kept in *kept. */
static wr_gr_place *place_at(wr_gr_machine *m, _Atomic(wr_gr_place *) *kept, uint32_t state, const wr_gr_rule *number,
                             weir_status *status) {
    wr_gr_place *place = atomic_load_explicit(kept, memory_order_acquire);
    if (place) return place;
    pthread_mutex_lock(&m->lock);
    if (number) {
        place = number_start(m, number, status);
    } else {
        size_t n = 0;
        m->now++;
        add_closure(m, state, &n);
        place = place_of(m, n, status);
    }
    if (place) atomic_store_explicit(kept, place, memory_order_release);
    pthread_mutex_unlock(&m->lock);
    return place;
}

wr_gr_place *wr_gr_enter(wr_gr_machine *m, uint32_t rule, weir_status *status) {
    const wr_gr_rule *r = &m->program->rule[rule];
    return place_at(m, &m->enter[rule], r->start, r->n_numbers ? r : NULL, status);
}

wr_gr_place *wr_gr_back(wr_gr_machine *m, uint32_t call, int32_t tag, weir_status *status) {
    const wr_gr_call *c = &m->program->call[call];
    uint32_t which = c->n_backs > 1 ? (uint32_t)tag : 0;
    return place_at(m, &m->back[c->slot + which], c->back + which, NULL, status);
}

wr_gr_place *wr_gr_any_string(wr_gr_machine *m, weir_status *status) {
    if (m->program->any_string == WR_GR_NONE) return NULL;
    return place_at(m, &m->back[m->program->n_slots], m->program->any_string, NULL, status);
}

/* The place behind a byte, of a place that is no number's. */
static wr_gr_place *state_next(wr_gr_machine *m, const wr_gr_place *from, uint8_t byte, weir_status *status) {
    const wr_gr_program *p = m->program;
    const uint32_t *set = m->sets.pool + m->sets.first[from->number];
    size_t n = 0;
    m->now++;
    for (size_t i = 0; i < m->sets.length[from->number]; i++)
        for (uint32_t k = p->state[set[i]].edges; k; k = p->edge[k].next)
            if (p->edge[k].kind == WR_GR_BYTES && p->edge[k].lo <= byte && byte <= p->edge[k].hi)
                add_closure(m, p->edge[k].to, &n);
    return place_of(m, n, status);
}

wr_gr_place *wr_gr_next_slow(wr_gr_machine *m, wr_gr_place *from, uint8_t byte, weir_status *status) {
    pthread_mutex_lock(&m->lock);
    bool number = m->sets.pool[m->sets.first[from->number]] == READINGS;
    wr_gr_place *to = number ? number_next(m, from, byte, status) : state_next(m, from, byte, status);
    if (to) atomic_store_explicit(&from->next[m->program->class_of[byte]], to, memory_order_release);
    pthread_mutex_unlock(&m->lock);
    return to;
}
