/* Patterns in sorted order; a search narrows a range of them byte by byte. Sorted
 * order puts a pattern before its longer extensions, so the pattern that ends at
 * the current depth, if there is one, is the first of the range. */
#include "text/added.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/unicode.h"

void wr_added_deinit(wr_added *a) {
    wr_free(a->token);
    wr_free(a->text);
    *a = (wr_added){0};
}

size_t wr_added_heap_bytes(const wr_added *a) { return a->cap * sizeof *a->token + a->text_cap; }

weir_status wr_added_add(wr_added *a, int32_t id, const void *text, size_t bytes, unsigned flags, weir_error *err) {
    if (bytes == 0) return WEIR_OK;
    if (a->text_bytes + bytes > INT32_MAX) {
        return WR_FAIL(err, WEIR_E_LIMIT, "the added tokens are longer than 2 GiB together");
    }
    if (!wr_grow(&a->token, &a->cap, a->n + 1, sizeof *a->token) ||
        !wr_grow(&a->text, &a->text_cap, a->text_bytes + bytes, 1)) {
        return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the added token %d", id);
    }
    memcpy(a->text + a->text_bytes, text, bytes);
    a->token[a->n++] =
        (wr_added_token){.id = id, .flags = flags, .at = (uint32_t)a->text_bytes, .bytes = (uint32_t)bytes};
    a->text_bytes += bytes;
    return WEIR_OK;
}

static int compare(const wr_added *a, const wr_added_token *x, const wr_added_token *y) {
    size_t n = x->bytes < y->bytes ? x->bytes : y->bytes;
    int c = memcmp(a->text + x->at, a->text + y->at, n);
    if (c) return c;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Heap sort: in place, no allocation, never quadratic. */
static void sift(wr_added *a, size_t i, size_t n) {
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n) return;
        if (child + 1 < n && compare(a, &a->token[child], &a->token[child + 1]) < 0) child++;
        if (compare(a, &a->token[i], &a->token[child]) >= 0) return;
        wr_added_token t = a->token[i];
        a->token[i] = a->token[child];
        a->token[child] = t;
        i = child;
    }
}

void wr_added_sort(wr_added *a) {
    for (size_t i = a->n / 2; i-- > 0;) sift(a, i, a->n);
    for (size_t n = a->n; n > 1;) {
        wr_added_token t = a->token[0];
        a->token[0] = a->token[--n];
        a->token[n] = t;
        sift(a, 0, n);
    }
    size_t i = 0;
    for (unsigned b = 0; b < 256; b++) {
        while (i < a->n && a->text[a->token[i].at] < b) i++;
        a->first[b] = (uint32_t)i;
    }
    a->first[256] = (uint32_t)a->n;
}

/* First index in [low, high) whose byte at depth is not below b (or is above, with
 * above set). Patterns that end before depth come first. */
static size_t bound(const wr_added *a, size_t low, size_t high, size_t depth, uint8_t b, bool above) {
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const wr_added_token *t = &a->token[mid];
        bool before = t->bytes <= depth || a->text[t->at + depth] < b || (above && a->text[t->at + depth] == b);
        if (before) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

static const wr_added_token *longest(const wr_added *a, const uint8_t *p, size_t n) {
    size_t low = a->first[p[0]], high = a->first[p[0] + 1];
    const wr_added_token *best = NULL;
    for (size_t depth = 1; low < high; depth++) {
        if (a->token[low].bytes == depth) best = &a->token[low];
        if (depth >= n) break;
        size_t next = bound(a, low, high, depth, p[depth], false);
        high = bound(a, next, high, depth, p[depth], true);
        low = next;
    }
    return best;
}

size_t wr_added_longest(const wr_added *a, const uint8_t *p, size_t n) {
    const wr_added_token *t = longest(a, p, n);
    return t ? t->bytes : 0;
}

static bool touches_word(const wr_view *v, size_t begin, size_t end) {
    uint32_t cp;
    if (begin > 0) {
        wr_utf8_get(v->data + wr_utf8_back(v->data, begin), &cp);
        if (wr_char_is_word(cp)) return true;
    }
    if (end < v->n) {
        wr_utf8_get(v->data + end, &cp);
        if (wr_char_is_word(cp)) return true;
    }
    return false;
}

bool wr_added_next(const wr_added *a, const wr_view *v, bool special, size_t done, size_t *from, size_t *begin,
                   size_t *end, int32_t *id) {
    if (a->n == 0) return false;
    for (size_t i = *from; i < v->n;) {
        const wr_added_token *t = longest(a, v->data + i, v->n - i);
        if (!t) {
            i++;
            continue;
        }
        size_t b = i, e = i + t->bytes;
        i = e; /* a match that is not taken still covers its text */
        if ((t->flags & WR_ADDED_SPECIAL) && !special) continue;
        if ((t->flags & WR_ADDED_SINGLE_WORD) && touches_word(v, b, e)) continue;
        uint32_t cp;
        while ((t->flags & WR_ADDED_LSTRIP) && b > done) {
            size_t back = wr_utf8_back(v->data, b);
            wr_utf8_get(v->data + back, &cp);
            if (!wr_char_is_space(cp)) break;
            b = back;
        }
        while ((t->flags & WR_ADDED_RSTRIP) && e < v->n) {
            size_t k = (size_t)wr_utf8_get(v->data + e, &cp);
            if (!wr_char_is_space(cp)) break;
            e += k;
        }
        *begin = b;
        *end = e;
        *from = e;
        *id = t->id;
        return true;
    }
    return false;
}
