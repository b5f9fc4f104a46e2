/* Built level by level: a node stands for a range of tokens that share their first
 * `depth` bytes; sorting the range by the next byte gives its children. Nodes of one
 * parent so lie side by side, and no links are needed but the first child's. */
#include "text/trie.h"

#include <string.h>

#include "base/mem.h"
#include "text/work.h"

typedef struct range {
    uint32_t begin, end; /* of builder.order */
} range;

typedef struct builder {
    const wr_vocab *v;
    int32_t *order, *spare; /* [n_order] token ids */
    size_t n_order;
    range *of; /* [nodes] */
    size_t of_cap, first_cap, byte_cap, id_cap;
    wr_trie *t;
} builder;

static uint8_t byte_at(const builder *b, int32_t id, size_t depth) { return wr_vocab_piece(b->v, id)[depth]; }

static void sort_small(builder *b, range r, size_t depth) {
    for (uint32_t i = r.begin + 1; i < r.end; i++) {
        int32_t id = b->order[i];
        uint8_t byte = byte_at(b, id, depth);
        uint32_t k = i;
        for (; k > r.begin && byte_at(b, b->order[k - 1], depth) > byte; k--) b->order[k] = b->order[k - 1];
        b->order[k] = id;
    }
}

/* Counting sort of a range by the byte at depth. */
static void sort_range(builder *b, range r, size_t depth) {
    if (r.end - r.begin < 32) {
        sort_small(b, r, depth);
        return;
    }
    uint32_t count[256] = {0}, at = r.begin;
    for (uint32_t i = r.begin; i < r.end; i++) count[byte_at(b, b->order[i], depth)]++;
    for (int c = 0; c < 256; c++) {
        uint32_t n = count[c];
        count[c] = at;
        at += n;
    }
    for (uint32_t i = r.begin; i < r.end; i++) b->spare[count[byte_at(b, b->order[i], depth)]++] = b->order[i];
    memcpy(b->order + r.begin, b->spare + r.begin, (r.end - r.begin) * sizeof *b->order);
}

static bool add_node(builder *b, uint8_t byte, range r) {
    wr_trie *t = b->t;
    size_t n = t->n;
    if (!wr_grow(&b->of, &b->of_cap, n + 1, sizeof *b->of) || !wr_grow(&t->byte, &b->byte_cap, n + 1, 1) ||
        !wr_grow(&t->id, &b->id_cap, n + 1, sizeof *t->id) ||
        !wr_grow(&t->first, &b->first_cap, n + 2, sizeof *t->first)) {
        return false;
    }
    b->of[n] = r;
    t->byte[n] = byte;
    t->id[n] = -1;
    t->n++;
    return true;
}

static bool add_children(builder *b, uint32_t node, size_t depth) {
    wr_trie *t = b->t;
    range r = b->of[node];
    t->first[node] = (uint32_t)t->n;
    for (uint32_t i = r.begin; i < r.end; i++) { /* the one piece that ends here comes first */
        if (wr_vocab_length(b->v, b->order[i]) != depth) continue;
        t->id[node] = b->order[i];
        b->order[i] = b->order[r.begin];
        b->order[r.begin++] = t->id[node];
        break;
    }
    sort_range(b, r, depth);
    for (uint32_t i = r.begin; i < r.end;) {
        uint8_t byte = byte_at(b, b->order[i], depth);
        uint32_t k = i + 1;
        while (k < r.end && byte_at(b, b->order[k], depth) == byte) k++;
        if (!add_node(b, byte, (range){i, k})) return false;
        i = k;
    }
    return true;
}

static bool build(builder *b) {
    wr_trie *t = b->t;
    if (!add_node(b, 0, (range){0, (uint32_t)b->n_order})) return false;
    size_t depth = 0, level_end = 1;
    for (uint32_t node = 0; node < t->n; node++) {
        if (node == level_end) {
            depth++;
            level_end = t->n;
        }
        if (!add_children(b, node, depth)) return false;
    }
    t->first[t->n] = (uint32_t)t->n;
    for (uint32_t i = t->first[0]; i < t->first[1]; i++) t->root[t->byte[i]] = i;
    return true;
}

weir_status wr_trie_init(wr_trie *t, const wr_vocab *v, unsigned skip, weir_error *err) {
    *t = (wr_trie){0};
    builder b = {.v = v, .t = t};
    b.order = wr_malloc((v->n + 1) * sizeof *b.order);
    b.spare = wr_malloc((v->n + 1) * sizeof *b.spare);
    bool ok = b.order && b.spare;
    /* A vocabulary's text is below 2 GiB, and each byte of it makes one node at most. */
    for (size_t i = 0; ok && i < v->n; i++) {
        if ((v->flags[i] & WR_TOKEN_USED) && !(v->flags[i] & skip)) b.order[b.n_order++] = (int32_t)i;
    }
    ok = ok && build(&b);
    wr_free(b.order);
    wr_free(b.spare);
    wr_free(b.of);
    if (ok) return WEIR_OK;
    wr_trie_deinit(t);
    return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the tree of a vocabulary of %zu tokens", v->n);
}

void wr_trie_deinit(wr_trie *t) {
    wr_free(t->first);
    wr_free(t->byte);
    wr_free(t->id);
    *t = (wr_trie){0};
}

size_t wr_trie_heap_bytes(const wr_trie *t) { return t->n * (sizeof *t->first + 1 + sizeof *t->id); }
