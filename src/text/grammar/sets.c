/* A hash table of lists. */
#include "text/grammar/sets.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/work.h"

void wr_sets_deinit(wr_sets *s) {
    wr_free(s->pool);
    wr_free(s->first);
    wr_free(s->length);
    wr_free(s->slot);
    *s = (wr_sets){0};
}

static int by_value(const void *x, const void *y) {
    uint32_t a = *(const uint32_t *)x, c = *(const uint32_t *)y;
    return a < c ? -1 : a > c;
}

void wr_sets_sort(uint32_t *members, size_t n) {
    if (n) qsort(members, n, sizeof *members, by_value);
}

static uint64_t hash(const uint32_t *members, size_t n) {
    uint64_t h = 0x9E3779B97F4A7C15u ^ n;
    for (size_t i = 0; i < n; i++) {
        h = (h ^ members[i]) * 0xD6E8FEB86659FD93u;
        h ^= h >> 32;
    }
    return h;
}

static size_t find(const wr_sets *s, const uint32_t *members, size_t n) {
    size_t mask = s->n_slots - 1, at = hash(members, n) & mask;
    for (; s->slot[at]; at = (at + 1) & mask) {
        uint32_t i = s->slot[at] - 1;
        if (s->length[i] == n && (n == 0 || memcmp(s->pool + s->first[i], members, n * sizeof *members) == 0)) break;
    }
    return at;
}

static bool more_slots(wr_sets *s) {
    size_t n = s->n_slots ? s->n_slots * 2 : 64;
    uint32_t *fresh = wr_calloc(n, sizeof *fresh);
    if (!fresh) return false;
    wr_free(s->slot);
    s->slot = fresh;
    s->n_slots = n;
    for (size_t i = 0; i < s->n; i++) s->slot[find(s, s->pool + s->first[i], s->length[i])] = (uint32_t)i + 1;
    return true;
}

bool wr_sets_number(wr_sets *s, const uint32_t *members, size_t n, uint32_t *number, bool *fresh) {
    *fresh = false;
    if ((s->n + 1) * 2 > s->n_slots && !more_slots(s)) return false;
    size_t at = find(s, members, n);
    if (!s->slot[at]) {
        if (!wr_grow(&s->first, &s->cap, s->n + 1, sizeof *s->first) ||
            !wr_grow(&s->length, &s->length_cap, s->n + 1, sizeof *s->length) ||
            !wr_grow(&s->pool, &s->pool_cap, s->pool_n + n, sizeof *s->pool))
            return false;
        s->first[s->n] = (uint32_t)s->pool_n;
        s->length[s->n] = (uint32_t)n;
        if (n) memcpy(s->pool + s->pool_n, members, n * sizeof *members);
        s->pool_n += n;
        s->slot[at] = (uint32_t)++s->n;
        *fresh = true;
    }
    *number = s->slot[at] - 1;
    return true;
}
