/* A word of which one part has no piece becomes one unknown token as a whole. */
#include "text/wordpiece.h"

#include "base/mem.h"
#include "text/unicode.h"

weir_status wr_wordpiece_init(wr_wordpiece *w, const char *prefix, size_t bytes, weir_error *err) {
    if (w->whole) return WEIR_OK;
    WR_TRY(wr_trie_init(&w->trie, w->vocab, 0, err));
    w->inner = 0;
    for (size_t i = 0; i < bytes; i++) {
        w->inner = wr_trie_step(&w->trie, w->inner, (uint8_t)prefix[i]);
        if (!w->inner) break;
    }
    /* Without a prefix the pieces inside of words are those at their start. */
    if (bytes && !w->inner) w->inner = UINT32_MAX;
    return WEIR_OK;
}

void wr_wordpiece_deinit(wr_wordpiece *w) {
    wr_trie_deinit(&w->trie);
    *w = (wr_wordpiece){0};
}

size_t wr_wordpiece_heap_bytes(const wr_wordpiece *w) { return wr_trie_heap_bytes(&w->trie); }

static bool more_chars(const uint8_t *p, size_t n, size_t max) {
    size_t count = 0;
    if (n <= max) return false;
    for (size_t i = 0; i < n && count <= max; i++) count += (p[i] & 0xC0) != 0x80;
    return count > max;
}

/* Control tokens stand in the same vocabulary, but only the text's reader may put them in. */
static bool is_piece(const wr_wordpiece *w, int32_t id) { return id >= 0 && !(w->vocab->flags[id] & WR_TOKEN_SPECIAL); }

weir_status wr_wordpiece_word(const wr_wordpiece *w, const wr_view *v, size_t begin, size_t end, wr_ids *out,
                              weir_error *err) {
    const uint8_t *p = v->data;
    size_t before = out->n, at = begin;
    if (begin == end) return WEIR_OK;
    if (w->whole) {
        int32_t id = wr_vocab_find(w->vocab, p + begin, end - begin);
        if (is_piece(w, id)) {
            if (!wr_ids_add(out, id, wr_view_range(v, begin, end))) goto memory;
            return WEIR_OK;
        }
    } else if (!more_chars(p + begin, end - begin, w->max_chars)) {
        while (at < end) {
            uint32_t node = at == begin ? 0 : w->inner;
            size_t longest = 0;
            int32_t id = -1;
            if (node == UINT32_MAX) break;
            for (size_t k = at; k < end && (node = wr_trie_step(&w->trie, node, p[k])) != 0;) {
                k++;
                if (!is_piece(w, w->trie.id[node]) || (k < end && (p[k] & 0xC0) == 0x80)) continue;
                longest = k;
                id = w->trie.id[node];
            }
            if (id < 0) break;
            if (!wr_ids_add(out, id, wr_view_range(v, at, longest))) goto memory;
            at = longest;
        }
        if (at == end) return WEIR_OK;
        out->n = before;
    }
    if (w->unk >= 0 && !wr_ids_add(out, w->unk, wr_view_range(v, begin, end))) goto memory;
    return WEIR_OK;
memory:
    return WR_FAIL(err, WEIR_E_MEMORY, "no memory to encode a word of %zu bytes", end - begin);
}
