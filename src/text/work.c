/* Growable arrays; one growth rule for all. */
#include "text/work.h"

#include <string.h>

#include "base/mem.h"

bool wr_grow(void *p, size_t *cap, size_t need, size_t element_bytes) {
    if (need <= *cap) return true;
    size_t want = *cap + *cap / 2 + 16, bytes;
    if (want < need) want = need;
    if (!wr_mul_size(want, element_bytes, &bytes)) return false;
    void *old;
    memcpy(&old, p, sizeof old); /* p is a pointer to some object pointer */
    void *grown = wr_realloc(old, bytes);
    if (!grown) return false;
    memcpy(p, &grown, sizeof grown);
    *cap = want;
    return true;
}

wr_view wr_view_part(const wr_view *v, size_t begin, size_t end) {
    return (wr_view){
        .data = v->data + begin, .n = end - begin, .map = v->map ? v->map + begin : NULL, .base = v->base + begin};
}

wr_range wr_view_range(const wr_view *v, size_t begin, size_t end) {
    if (!v->map) return (wr_range){(uint32_t)(v->base + begin), (uint32_t)(v->base + end)};
    return (wr_range){v->map[begin].begin, v->map[end - 1].end};
}

void wr_text_deinit(wr_text *t) {
    wr_free(t->data);
    wr_free(t->map);
    *t = (wr_text){0};
}

static bool reserve(wr_text *t, size_t n) {
    if (!wr_grow(&t->data, &t->cap, t->n + n, 1)) return false;
    return !t->with_map || wr_grow(&t->map, &t->map_cap, t->n + n, sizeof *t->map);
}

bool wr_text_add(wr_text *t, const void *bytes, size_t n, wr_range from) {
    if (n == 0) return true;
    if (!reserve(t, n)) return false;
    memcpy(t->data + t->n, bytes, n);
    if (t->with_map) {
        for (size_t i = 0; i < n; i++) t->map[t->n + i] = from;
    }
    t->n += n;
    return true;
}

bool wr_text_add_part(wr_text *t, const wr_view *v, size_t begin, size_t end) {
    size_t n = end - begin;
    if (n == 0) return true;
    if (!reserve(t, n)) return false;
    memcpy(t->data + t->n, v->data + begin, n);
    if (t->with_map) {
        for (size_t i = 0; i < n; i++) t->map[t->n + i] = wr_view_range(v, begin + i, begin + i + 1);
    }
    t->n += n;
    return true;
}

wr_view wr_text_view(const wr_text *t) {
    return (wr_view){.data = t->data, .n = t->n, .map = t->with_map ? t->map : NULL, .base = 0};
}

bool wr_pieces_add(wr_pieces *p, size_t begin, size_t end) {
    if (!wr_grow(&p->at, &p->cap, p->n + 1, sizeof *p->at)) return false;
    p->at[p->n++] = (wr_piece){begin, end};
    return true;
}

bool wr_pieces_find(wr_pieces *p, const uint8_t *text, size_t begin, size_t end, const char *what, size_t bytes) {
    for (size_t at = begin; bytes && at + bytes <= end;) {
        const uint8_t *hit = memchr(text + at, what[0], end - at - bytes + 1);
        if (!hit) break;
        at = (size_t)(hit - text);
        if (memcmp(hit, what, bytes) != 0) {
            at++;
            continue;
        }
        if (!wr_pieces_add(p, at, at + bytes)) return false;
        at += bytes;
    }
    return true;
}

void wr_ids_deinit(wr_ids *ids) {
    wr_free(ids->id);
    wr_free(ids->from);
    *ids = (wr_ids){0};
}

bool wr_ids_add(wr_ids *ids, int32_t id, wr_range from) {
    if (!wr_grow(&ids->id, &ids->cap, ids->n + 1, sizeof *ids->id)) return false;
    if (ids->with_map) {
        if (!wr_grow(&ids->from, &ids->from_cap, ids->n + 1, sizeof *ids->from)) return false;
        ids->from[ids->n] = from;
    }
    ids->id[ids->n++] = id;
    return true;
}
