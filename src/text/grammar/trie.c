/* Sorted strings to a tree. */
#include "text/grammar/trie.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/work.h"

static int by_text(const void *a, const void *b) {
    const wr_gr_trie_entry *x = a, *y = b;
    if (x->head != y->head) return x->head < y->head ? -1 : 1;
    uint32_t n = x->length < y->length ? x->length : y->length;
    int order = n > 8 ? memcmp(x->text + 8, y->text + 8, n - 8) : 0;
    if (order) return order;
    if (x->length != y->length) return x->length < y->length ? -1 : 1;
    return x->token.id < y->token.id ? -1 : x->token.id > y->token.id;
}

static uint64_t head_of(const uint8_t *text, uint32_t n) {
    uint64_t head = 0;
    for (uint32_t i = 0; i < 8; i++) head = head << 8 | (i < n ? text[i] : 0);
    return head;
}

bool wr_gr_trie_init(wr_gr_trie *t, wr_gr_trie_entry *entries, size_t n) {
    size_t cap = 0, token_cap = 0;
    *t = (wr_gr_trie){0};
    for (size_t i = 0; i < n; i++) {
        entries[i].head = head_of(entries[i].text, entries[i].length);
        if (entries[i].length > t->max_depth) t->max_depth = entries[i].length;
    }
    if (n) qsort(entries, n, sizeof *entries, by_text);
    uint32_t *open = wr_malloc((t->max_depth + 1u) * sizeof *open); /* node of each depth of the present path */
    if (!open || !wr_grow(&t->node, &cap, 2, sizeof *t->node) ||
        !wr_grow(&t->token, &token_cap, n + 1, sizeof *t->token))
        goto fail;
    t->node[t->n++] = (wr_gr_trie_node){0};
    open[0] = 0;
    uint32_t depth = 0;
    for (size_t i = 0; i < n; i++) {
        const wr_gr_trie_entry *e = &entries[i], *before = i ? e - 1 : NULL;
        uint32_t shared = 0;
        while (before && shared < e->length && shared < before->length && e->text[shared] == before->text[shared])
            shared++;
        for (; depth > shared; depth--) t->node[open[depth]].skip = t->n;
        if (!wr_grow(&t->node, &cap, t->n + (e->length - shared) + 1u, sizeof *t->node)) goto fail;
        for (; depth < e->length; depth++) {
            open[depth + 1] = t->n;
            t->node[t->n++] = (wr_gr_trie_node){0, t->n_tokens, (uint16_t)(depth + 1), e->text[depth]};
        }
        t->token[t->n_tokens++] = e->token;
    }
    for (;; depth--) {
        t->node[open[depth]].skip = t->n;
        if (depth == 0) break;
    }
    t->node[t->n] = (wr_gr_trie_node){t->n, t->n_tokens, 0, 0};
    wr_free(open);
    return true;
fail:
    wr_free(open);
    wr_gr_trie_deinit(t);
    return false;
}

void wr_gr_trie_deinit(wr_gr_trie *t) {
    wr_free(t->node);
    wr_free(t->token);
    *t = (wr_gr_trie){0};
}

size_t wr_gr_trie_bytes(const wr_gr_trie *t) { return (t->n + 1u) * sizeof *t->node + t->n_tokens * sizeof *t->token; }
