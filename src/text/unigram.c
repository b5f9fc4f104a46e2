/* The best way to each place is found from left to right. Where no piece reaches
 * across a place, every way goes through it: what stands before is settled and given
 * out, so memory follows the longest chain of pieces, not the text. */
#include "text/unigram.h"

#include <math.h>

#include "base/mem.h"
#include "text/unicode.h"

typedef struct wr_unigram_node {
    double score;  /* of the best way to this place */
    uint32_t back; /* bytes of the last piece on it; 0: no way yet */
    int32_t id;    /* of that piece; NO_PIECE: an unknown character */
} wr_unigram_node;

enum { NO_PIECE = -1 };

/* Sums in single precision start anew beyond this, as SentencePiece's do. */
#define SINGLE_SUM_MAX 100000.0

void wr_unigram_deinit(wr_unigram *u) {
    wr_trie_deinit(&u->trie);
    wr_free(u->scores);
    *u = (wr_unigram){0};
}

size_t wr_unigram_heap_bytes(const wr_unigram *u) {
    return wr_trie_heap_bytes(&u->trie) + (u->scores ? u->n_scores * sizeof *u->scores : 0);
}

void wr_unigram_scratch_deinit(wr_unigram_scratch *s) {
    wr_free(s->nodes);
    *s = (wr_unigram_scratch){0};
}

weir_status wr_unigram_take_scores(wr_unigram *u, double *scores, double min_score, unsigned skip, weir_error *err) {
    u->scores = scores;
    u->n_scores = u->vocab->n;
    u->unk_score = min_score - 10;
    if (u->single) u->unk_score = (float)u->unk_score;
    return wr_trie_init(&u->trie, u->vocab, skip, err);
}

/* One word on its way to tokens. */
typedef struct run {
    const wr_unigram *u;
    const wr_view *v;
    wr_ids *out;
    size_t unknown_begin, unknown_end; /* unknown characters side by side are one token */
} run;

static bool end_unknown(run *r) {
    const wr_unigram *u = r->u;
    size_t begin = r->unknown_begin, end = r->unknown_end;
    if (begin == end) return true;
    wr_range from = wr_view_range(r->v, begin, end);
    r->unknown_begin = r->unknown_end = 0;
    bool bytes = u->byte_fallback;
    for (size_t i = begin; bytes && i < end; i++) bytes = u->byte_ids[r->v->data[i]] >= 0;
    for (size_t i = begin; bytes && i < end; i++) {
        if (!wr_ids_add(r->out, u->byte_ids[r->v->data[i]], from)) return false;
    }
    return bytes || u->unk < 0 || wr_ids_add(r->out, u->unk, from);
}

static bool emit(run *r, int32_t id, size_t begin, size_t end) {
    if (id == NO_PIECE) {
        if (r->unknown_begin == r->unknown_end) r->unknown_begin = begin;
        r->unknown_end = end;
        return true;
    }
    return end_unknown(r) && wr_ids_add(r->out, id, wr_view_range(r->v, begin, end));
}

/* The settled pieces of bytes [base, base + n): turn the links round, then give out. */
static bool emit_settled(run *r, wr_unigram_node *nodes, size_t base, size_t n) {
    for (size_t at = n, next = 0; at > 0;) {
        size_t before = at - nodes[at].back;
        nodes[at].back = (uint32_t)next; /* now: bytes of the piece behind this place */
        next = at - before;
        at = before;
        if (at == 0) nodes[0].back = (uint32_t)next;
    }
    for (size_t at = 0; at < n;) {
        size_t next = at + nodes[at].back;
        if (!emit(r, nodes[next].id, base + at, base + next)) return false;
        at = next;
    }
    return true;
}

static void offer(const wr_unigram *u, wr_unigram_node *to, double score, size_t back, int32_t id) {
    if (u->single) score = (float)score; /* ties are ties of rounded sums */
    if (to->back && !(score > to->score)) return;
    *to = (wr_unigram_node){.score = score, .back = (uint32_t)back, .id = id};
}

/* Make nodes up to index n usable; those from *made on are new. */
static bool reach(wr_unigram_scratch *s, size_t n, size_t *made) {
    if (n < *made) return true;
    if (!wr_grow(&s->nodes, &s->cap, n + 1, sizeof *s->nodes)) return false;
    while (*made <= n) s->nodes[(*made)++].back = 0;
    return true;
}

/* Make the sum at index `here` 0 and the later ones relative to it. */
static void start_anew(wr_unigram_node *nodes, size_t here, size_t made) {
    double offset = nodes[here].score;
    for (size_t i = here; i < made; i++) {
        if (i == here || nodes[i].back) nodes[i].score = (float)(nodes[i].score - offset);
    }
}

weir_status wr_unigram_word(const wr_unigram *u, wr_unigram_scratch *s, const wr_view *v, size_t begin, size_t end,
                            wr_ids *out, weir_error *err) {
    run r = {.u = u, .v = v, .out = out};
    const uint8_t *p = v->data;
    size_t base = begin, made = 0, furthest = begin; /* node i stands for place base + i */
    if (!reach(s, 0, &made)) goto memory;
    s->nodes[0].score = 0;
    for (size_t at = begin; at < end;) {
        uint32_t cp, node = 0;
        size_t step = (size_t)wr_utf8_get(p + at, &cp), here = at - base;
        if (u->single && fabs(s->nodes[here].score) > SINGLE_SUM_MAX) start_anew(s->nodes, here, made);
        double score = s->nodes[here].score;
        bool single = false;
        for (size_t k = at; k < end && (node = wr_trie_step(&u->trie, node, p[k])) != 0;) {
            k++;
            int32_t id = u->trie.id[node];
            if (id < 0 || u->vocab->flags[id] & WR_TOKEN_SPECIAL) continue; /* only the reader may put those in */
            if (!reach(s, k - base, &made)) goto memory;
            offer(u, &s->nodes[k - base], u->scores[id] + score, k - at, id);
            if (k > furthest) furthest = k;
            if (k == at + step) single = true;
        }
        if (!single) {
            if (!reach(s, here + step, &made)) goto memory;
            offer(u, &s->nodes[here + step], u->unk_score + score, step, NO_PIECE);
            if (at + step > furthest) furthest = at + step;
        }
        at += step;
        if (furthest != at) continue;
        double settled = s->nodes[at - base].score;
        if (!emit_settled(&r, s->nodes, base, at - base)) goto memory;
        base = at;
        made = 1;
        s->nodes[0].score = settled;
    }
    if (!end_unknown(&r)) goto memory;
    return WEIR_OK;
memory:
    return WR_FAIL(err, WEIR_E_MEMORY, "no memory to encode a word of %zu bytes", end - begin);
}
