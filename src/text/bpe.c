/* Symbols are a linked list in an array; candidate pairs are a binary heap whose
 * key is (rank or score, position), so ties go to the left. A pair whose symbols
 * changed since it was pushed is found out when popped: symbols only grow to the
 * right, so the pair is stale exactly when the left one is gone or the two are
 * not `bytes` long together any more. */
#include "text/bpe.h"

#include <string.h>

#include "base/mem.h"
#include "text/unicode.h"

typedef struct wr_bpe_symbol {
    int32_t id;    /* -1: a character without a token of its own (by score only) */
    uint32_t n;    /* bytes; 0 = merged into its left neighbour */
    uint32_t next; /* index, or NONE */
    uint32_t prev;
    uint32_t at; /* first byte, counted from the word's start */
} wr_bpe_symbol;

typedef struct wr_bpe_pair {
    uint64_t key; /* order << 32 | index of the left symbol */
    int32_t joined;
    uint32_t bytes;
} wr_bpe_pair;

/* Bytes of a word that wait to be given out. */
typedef struct wr_bpe_part {
    uint32_t at, n;
} wr_bpe_part;

#define NONE UINT32_MAX

void wr_bpe_deinit(wr_bpe *bpe) {
    wr_free(bpe->merges);
    wr_free(bpe->slot);
    wr_free(bpe->scores);
    wr_free(bpe->front);
    wr_free(bpe->back);
    *bpe = (wr_bpe){0};
}

size_t wr_bpe_heap_bytes(const wr_bpe *bpe) {
    return bpe->n_merges * sizeof *bpe->merges + bpe->n_slots * sizeof *bpe->slot +
           (bpe->scores ? bpe->n_scores * sizeof *bpe->scores : 0);
}

void wr_bpe_scratch_deinit(wr_bpe_scratch *s) {
    wr_free(s->symbols);
    wr_free(s->heap);
    wr_free(s->spelled);
    wr_free(s->halves);
    wr_free(s->parts);
    *s = (wr_bpe_scratch){0};
}

static size_t pair_home(const wr_bpe *bpe, int32_t left, int32_t right) {
    uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9E3779B97F4A7C15u;
    h ^= h >> 32;
    h *= 0xD6E8FEB86659FD93u;
    return (h >> 32) & (bpe->n_slots - 1);
}

static size_t pair_slot(const wr_bpe *bpe, int32_t left, int32_t right) {
    size_t mask = bpe->n_slots - 1, s = pair_home(bpe, left, right);
    while (bpe->slot[s]) {
        const wr_merge *m = &bpe->merges[bpe->slot[s] - 1];
        if (m->left == left && m->right == right) break;
        s = (s + 1) & mask;
    }
    return s;
}

weir_status wr_bpe_take_merges(wr_bpe *bpe, wr_merge *merges, size_t n, weir_error *err) {
    bpe->merges = merges;
    bpe->n_merges = n;
    size_t slots = 16;
    while (slots < n + n / 2) slots *= 2;
    bpe->slot = wr_calloc(slots, sizeof *bpe->slot);
    if (!bpe->slot) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for an index of %zu merges", n);
    bpe->n_slots = slots;
    enum { AHEAD = 16 };
    for (size_t i = 0; i < n; i++) {
        if (i + AHEAD < n) {
            const wr_merge *later = &merges[i + AHEAD];
            __builtin_prefetch(&bpe->slot[pair_home(bpe, later->left, later->right)], 1);
        }
        bpe->slot[pair_slot(bpe, merges[i].left, merges[i].right)] = (uint32_t)i + 1;
    }
    return WEIR_OK;
}

void wr_bpe_find_bytes(wr_bpe *bpe) {
    for (int b = 0; b < 256; b++) {
        uint8_t piece[4];
        bpe->byte_ids[b] = -1;
        if (bpe->bytes) {
            size_t n = wr_bytes_spell(&(uint8_t){(uint8_t)b}, 1, piece);
            bpe->byte_ids[b] = wr_vocab_find(bpe->vocab, piece, n);
        } else if (bpe->byte_fallback) {
            bpe->byte_ids[b] = wr_vocab_find_byte(bpe->vocab, (uint8_t)b);
        }
    }
}

enum { META_BYTES = WR_METASPACE_BYTES };

static bool is_meta(const uint8_t *p) { return memcmp(p, WR_METASPACE, META_BYTES) == 0; }

/* A joined piece whose left half is `left` bytes joins something with a space behind it. */
static bool joins_at(const uint8_t *piece, size_t left, size_t bytes) {
    return left + META_BYTES <= bytes && is_meta(piece + left) &&
           !(left >= META_BYTES && is_meta(piece + left - META_BYTES));
}

void wr_bpe_finish(wr_bpe *bpe) {
    const wr_vocab *v = bpe->vocab;
    /* A space without a token of its own could become part of an unknown one. */
    bool cuts = !bpe->bytes && !bpe->front && !bpe->back && wr_vocab_find(v, WR_METASPACE, META_BYTES) >= 0;
    for (size_t i = 0; cuts && i < bpe->n_merges; i++) {
        const wr_merge *m = &bpe->merges[i];
        cuts = !joins_at(wr_vocab_piece(v, m->joined), wr_vocab_length(v, m->left), wr_vocab_length(v, m->joined));
    }
    for (size_t id = 0; cuts && id < bpe->n_scores; id++) {
        if (v->flags[id] & (WR_TOKEN_SPECIAL | WR_TOKEN_BYTE)) continue; /* never joined */
        const uint8_t *piece = wr_vocab_piece(v, (int32_t)id);
        size_t n = wr_vocab_length(v, (int32_t)id);
        for (size_t at = 1; cuts && at < n; at++) cuts = !joins_at(piece, at, n);
    }
    bpe->cuts_at_space = cuts;
    for (size_t i = 0; i < bpe->n_merges; i++) {
        if (v->flags[bpe->merges[i].joined] & WR_TOKEN_SPECIAL) bpe->merges[i].joined = -1;
    }
}

static bool heap_push(wr_bpe_scratch *s, wr_bpe_pair pair) {
    if (!wr_grow(&s->heap, &s->heap_cap, s->n_heap + 1, sizeof *s->heap)) return false;
    size_t i = s->n_heap++;
    while (i > 0 && s->heap[(i - 1) / 2].key > pair.key) {
        s->heap[i] = s->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    s->heap[i] = pair;
    return true;
}

static wr_bpe_pair heap_pop(wr_bpe_scratch *s) {
    wr_bpe_pair top = s->heap[0], last = s->heap[--s->n_heap];
    size_t i = 0, n = s->n_heap;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= n) break;
        if (child + 1 < n && s->heap[child + 1].key < s->heap[child].key) child++;
        if (s->heap[child].key >= last.key) break;
        s->heap[i] = s->heap[child];
        i = child;
    }
    s->heap[i] = last;
    return top;
}

/* Unsigned order of floats, best (largest) first. NaN was refused at open. */
static uint32_t score_order(float score) {
    uint32_t u;
    score += 0.0f; /* -0 and 0 are one score */
    memcpy(&u, &score, sizeof u);
    u = u & 0x80000000u ? ~u : u | 0x80000000u;
    return ~u;
}

/* Push the pair (left, its right neighbour) if it may be joined. */
static bool consider(const wr_bpe *bpe, wr_bpe_scratch *s, const uint8_t *word, uint32_t left) {
    if (left == NONE) return true;
    const wr_bpe_symbol *a = &s->symbols[left];
    if (a->next == NONE) return true;
    const wr_bpe_symbol *b = &s->symbols[a->next];
    wr_bpe_pair pair = {.bytes = a->n + b->n};
    if (bpe->merges) {
        uint32_t found = bpe->slot[pair_slot(bpe, a->id, b->id)];
        if (!found) return true;
        pair.joined = bpe->merges[found - 1].joined;
        if (pair.joined < 0) return true;
        pair.key = (uint64_t)(found - 1) << 32 | left;
    } else {
        pair.joined = wr_vocab_find(bpe->vocab, word + a->at, pair.bytes);
        if (pair.joined < 0 || (size_t)pair.joined >= bpe->n_scores) return true;
        /* Control, byte and unknown tokens are names, not text. */
        if (bpe->vocab->flags[pair.joined] & (WR_TOKEN_SPECIAL | WR_TOKEN_BYTE)) return true;
        if (bpe->vocab->flags[pair.joined] & WR_TOKEN_UNUSED) {
            if (!s->halves && !(s->halves = wr_calloc(bpe->vocab->n, sizeof *s->halves))) return false;
            s->halves[pair.joined] = a->n;
        }
        pair.key = (uint64_t)score_order(bpe->scores[pair.joined]) << 32 | left;
    }
    return heap_push(s, pair);
}

static bool add_symbol(wr_bpe_scratch *s, size_t *count, int32_t id, size_t at, size_t n) {
    if (!wr_grow(&s->symbols, &s->symbols_cap, *count + 1, sizeof *s->symbols)) return false;
    uint32_t i = (uint32_t)*count;
    s->symbols[i] =
        (wr_bpe_symbol){.id = id, .n = (uint32_t)n, .next = NONE, .prev = i ? i - 1 : NONE, .at = (uint32_t)at};
    if (i) s->symbols[i - 1].next = i;
    ++*count;
    return true;
}

/* All bytes of the character have tokens. */
static bool has_bytes(const wr_bpe *bpe, const uint8_t *p, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (bpe->byte_ids[p[i]] < 0) return false;
    }
    return true;
}

/* The token of word [i, i + step) as front and back spell it; -1 if none. *ok false: out of memory. */
static int32_t affixed(const wr_bpe *bpe, wr_bpe_scratch *s, const uint8_t *word, size_t i, size_t step, bool last,
                       bool *ok) {
    size_t m = 0;
    if (!wr_grow(&s->spelled, &s->spelled_cap, bpe->n_front + bpe->n_back + 2 * step, 1)) {
        *ok = false;
        return -1;
    }
    if (i > 0 && bpe->n_front) memcpy(s->spelled, bpe->front, m = bpe->n_front);
    if (bpe->bytes) {
        m += wr_bytes_spell(word + i, step, s->spelled + m);
    } else {
        memcpy(s->spelled + m, word + i, step);
        m += step;
    }
    if (last && bpe->n_back) {
        memcpy(s->spelled + m, bpe->back, bpe->n_back);
        m += bpe->n_back;
    }
    return wr_vocab_find(bpe->vocab, s->spelled, m);
}

/* First symbols of a word whose tokens come from merges. */
static bool split_for_merges(const wr_bpe *bpe, wr_bpe_scratch *s, const uint8_t *word, size_t n, size_t *count) {
    bool fusing = false, ok = true, plain = !bpe->front && !bpe->back;
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        size_t step = bpe->bytes ? 1 : (size_t)wr_utf8_get(word + i, &cp);
        int32_t id = !plain       ? affixed(bpe, s, word, i, step, i + step == n, &ok)
                     : bpe->bytes ? bpe->byte_ids[word[i]]
                                  : wr_vocab_find(bpe->vocab, word + i, step);
        if (!ok) return false;
        if (id >= 0) {
            if (!add_symbol(s, count, id, i, step)) return false;
            fusing = false;
        } else if (!bpe->bytes && bpe->byte_fallback && has_bytes(bpe, word + i, step)) {
            for (size_t k = 0; k < step; k++) {
                if (!add_symbol(s, count, bpe->byte_ids[word[i + k]], i + k, 1)) return false;
            }
            fusing = false;
        } else if (bpe->unk >= 0) {
            if (fusing) {
                s->symbols[*count - 1].n += (uint32_t)step;
            } else if (!add_symbol(s, count, bpe->unk, i, step)) {
                return false;
            }
            fusing = bpe->fuse_unk;
        }
        i += step;
    }
    return true;
}

static bool split_for_scores(const wr_bpe *bpe, wr_bpe_scratch *s, const uint8_t *word, size_t n, size_t *count) {
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        size_t step = (size_t)wr_utf8_get(word + i, &cp);
        int32_t id = wr_vocab_find(bpe->vocab, word + i, step);
        if (id >= 0 && ((size_t)id >= bpe->n_scores || bpe->vocab->flags[id] & (WR_TOKEN_SPECIAL | WR_TOKEN_BYTE))) {
            id = -1;
        }
        if (!add_symbol(s, count, id, i, step)) return false;
        i += step;
    }
    return true;
}

/* A character that no merge took: its bytes, or unknown; *unknown: the token before was. */
static bool emit_fallback(const wr_bpe *bpe, const wr_view *v, size_t at, size_t n, bool *unknown, wr_ids *out) {
    bool fuse = *unknown && bpe->fuse_unk;
    *unknown = false;
    if (bpe->byte_fallback && has_bytes(bpe, v->data + at, n)) {
        for (size_t k = 0; k < n; k++) {
            wr_range from = wr_view_range(v, at + k, at + k + 1);
            if (!wr_ids_add(out, bpe->byte_ids[v->data[at + k]], from)) return false;
        }
        return true;
    }
    *unknown = true;
    wr_range from = wr_view_range(v, at, at + n);
    if (bpe->unk < 0) return true;
    if (!fuse) return wr_ids_add(out, bpe->unk, from);
    if (out->with_map) out->from[out->n - 1].end = from.end;
    return true;
}

/* A symbol; id -1: no token of its own. */
static bool emit(const wr_bpe *bpe, const wr_view *v, size_t at, size_t n, int32_t id, bool *unknown, wr_ids *out) {
    if (id < 0) return emit_fallback(bpe, v, at, n, unknown, out);
    *unknown = false;
    return wr_ids_add(out, id, wr_view_range(v, at, at + n));
}

/* An unused piece takes part in merging but is given out as what it was made from. */
static bool emit_unused(const wr_bpe *bpe, wr_bpe_scratch *s, const wr_view *v, size_t begin, wr_bpe_part part,
                        bool *unknown, wr_ids *out) {
    size_t count = 0;
    for (;;) {
        int32_t id = wr_vocab_find(bpe->vocab, v->data + begin + part.at, part.n);
        uint32_t half = id >= 0 && bpe->vocab->flags[id] & WR_TOKEN_UNUSED ? s->halves[id] : 0;
        if (half) { /* first the left half, later the right one */
            if (!wr_grow(&s->parts, &s->parts_cap, count + 1, sizeof *s->parts)) return false;
            s->parts[count++] = (wr_bpe_part){part.at + half, part.n - half};
            part.n = half;
            continue;
        }
        if (!emit(bpe, v, begin + part.at, part.n, id, unknown, out)) return false;
        if (count == 0) return true;
        part = s->parts[--count];
    }
}

/* The token whose piece is the whole word; -1 if none. *ok false: out of memory. */
static int32_t whole_word(const wr_bpe *bpe, wr_bpe_scratch *s, const uint8_t *word, size_t n, bool *ok) {
    int32_t id;
    *ok = true;
    if (!bpe->bytes) {
        id = wr_vocab_find(bpe->vocab, word, n);
    } else {
        if (n > bpe->vocab->max_piece_bytes) return -1;
        if (!wr_grow(&s->spelled, &s->spelled_cap, 2 * n, 1)) {
            *ok = false;
            return -1;
        }
        id = wr_vocab_find(bpe->vocab, s->spelled, wr_bytes_spell(word, n, s->spelled));
    }
    return id >= 0 && bpe->vocab->flags[id] & (WR_TOKEN_UNUSED | WR_TOKEN_SPECIAL) ? -1 : id;
}

/* Merge bytes [begin, end) of v, at least one. False: out of memory. */
static bool merge(const wr_bpe *bpe, wr_bpe_scratch *s, const wr_view *v, size_t begin, size_t end, wr_ids *out) {
    const uint8_t *word = v->data + begin;
    size_t n = end - begin, count = 0;
    if (!(bpe->merges ? split_for_merges : split_for_scores)(bpe, s, word, n, &count)) return false;
    s->n_heap = 0;
    for (size_t i = 0; i + 1 < count; i++) {
        if (!consider(bpe, s, word, (uint32_t)i)) return false;
    }
    while (s->n_heap) {
        wr_bpe_pair top = heap_pop(s);
        uint32_t left = (uint32_t)top.key;
        wr_bpe_symbol *a = &s->symbols[left];
        if (a->n == 0 || a->next == NONE) continue;
        wr_bpe_symbol *b = &s->symbols[a->next];
        if (a->n + b->n != top.bytes) continue;
        a->id = top.joined;
        a->n = top.bytes;
        a->next = b->next;
        b->n = 0;
        if (a->next != NONE) s->symbols[a->next].prev = left;
        if (!consider(bpe, s, word, a->prev) || !consider(bpe, s, word, left)) return false;
    }
    bool unknown = false;
    for (uint32_t i = 0; count && i != NONE; i = s->symbols[i].next) {
        const wr_bpe_symbol *a = &s->symbols[i];
        if (a->id >= 0 && s->halves && bpe->vocab->flags[a->id] & WR_TOKEN_UNUSED) {
            if (!emit_unused(bpe, s, v, begin, (wr_bpe_part){a->at, a->n}, &unknown, out)) return false;
        } else if (!emit(bpe, v, begin + a->at, a->n, a->id, &unknown, out)) {
            return false;
        }
    }
    return true;
}

/* Where the next part of a word begins that no merge joins with what is before: short
 * parts merge faster than one long one. */
static size_t part_end(const wr_bpe *bpe, const uint8_t *p, size_t begin, size_t end) {
    for (size_t at = begin + 1; bpe->cuts_at_space && at + META_BYTES <= end; at++) {
        const uint8_t *hit = memchr(p + at, WR_METASPACE[0] & 0xFF, end - META_BYTES + 1 - at);
        if (!hit) break;
        at = (size_t)(hit - p);
        if (joins_at(p, at, end)) return at;
    }
    return end;
}

weir_status wr_bpe_word(const wr_bpe *bpe, wr_bpe_scratch *s, const wr_view *v, size_t begin, size_t end, wr_ids *out,
                        weir_error *err) {
    const uint8_t *p = v->data;
    bool ok = true;
    if (begin == end) return WEIR_OK;
    if (end - begin > INT32_MAX) {
        return WR_FAIL(err, WEIR_E_LIMIT, "one word of the text has %zu bytes", end - begin);
    }
    if (bpe->ignore_merges) {
        int32_t id = whole_word(bpe, s, p + begin, end - begin, &ok);
        if (id >= 0) {
            if (wr_ids_add(out, id, wr_view_range(v, begin, end))) return WEIR_OK;
            ok = false;
        }
    }
    for (size_t at = begin, next; ok && at < end; at = next) {
        next = part_end(bpe, p, at, end);
        ok = merge(bpe, s, v, at, next, out);
    }
    return ok ? WEIR_OK : WR_FAIL(err, WEIR_E_MEMORY, "no memory to encode a word of %zu bytes", end - begin);
}
