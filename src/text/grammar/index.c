/* Owns the tree of a vocabulary. */
#include "text/grammar/info.h"

#include <string.h>

#include "base/mem.h"
#include "text/work.h"

enum { TOKEN_BYTES_MAX = 65535 };

/* A token that the model may write as text. */
static bool is_text(const weir_tokenizer *tok, int32_t id) {
    return !weir_tokenizer_is_special(tok, id) && !weir_tokenizer_is_eos(tok, id);
}

static weir_status collect(weir_token_index *x, const weir_tokenizer *tok, weir_error *err) {
    size_t cap = 0, n_bytes = 0;
    if (!wr_grow(&x->text, &cap, x->n_ids + 1u, 1))
        return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the text of %u tokens", x->n_ids);
    for (uint32_t id = 0; id < x->n_ids; id++) {
        x->offset[id] = (uint32_t)n_bytes;
        if (!is_text(tok, (int32_t)id)) continue;
        size_t n = weir_tokenizer_token_bytes(tok, (int32_t)id, (char *)x->text + n_bytes, cap - n_bytes);
        if (n > TOKEN_BYTES_MAX)
            return WR_FAIL(err, WEIR_E_LIMIT, "token %u has %zu bytes, at most %d are allowed", id, n, TOKEN_BYTES_MAX);
        if (n_bytes + n > UINT32_MAX) return WR_FAIL(err, WEIR_E_LIMIT, "the vocabulary has more than 4 GiB of text");
        if (n > cap - n_bytes) {
            if (!wr_grow(&x->text, &cap, n_bytes + n, 1))
                return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the text of %u tokens", x->n_ids);
            weir_tokenizer_token_bytes(tok, (int32_t)id, (char *)x->text + n_bytes, cap - n_bytes);
        }
        n_bytes += n;
    }
    x->offset[x->n_ids] = (uint32_t)n_bytes;
    return WEIR_OK;
}

static weir_status plant(weir_token_index *x, weir_error *err) {
    wr_gr_trie_entry *entries = wr_malloc((x->n_ids + 1u) * sizeof *entries);
    size_t n = 0;
    for (uint32_t id = 0; entries && id < x->n_ids; id++) {
        uint32_t length = x->offset[id + 1] - x->offset[id];
        if (length)
            entries[n++] = (wr_gr_trie_entry){.text = x->text + x->offset[id], .length = length, .token = {id, 0}};
    }
    bool ok = entries && wr_gr_trie_init(&x->trie, entries, n);
    wr_free(entries);
    return ok ? WEIR_OK : WR_FAIL(err, WEIR_E_MEMORY, "no memory to prepare a vocabulary of %u tokens", x->n_ids);
}

/* Look into unconstrained strings now, as values, with a length and as names: no request shall wait for that. */
static weir_status warm(weir_token_index *x, weir_error *err) {
    static const char schema[] =
        "{\"properties\": {\"s\": {\"type\": \"string\"}, \"n\": {\"type\": \"string\", \"maxLength\": 9}}}";
    static const char *const inside[] = {"{\"", "{\"s\":\"", "{\"n\":\""};
    weir_grammar *grammar = NULL;
    weir_constraint *k = NULL;
    weir_constraint_state *s = NULL;
    uint32_t *mask = wr_malloc((x->n_words + 1) * sizeof *mask);
    weir_status st;
    if (!mask) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a mask of %zu words", x->n_words);
    WR_TRY_GOTO(st, weir_grammar_from_schema(schema, sizeof schema - 1, NULL, &grammar, err), done);
    WR_TRY_GOTO(st, weir_constraint_new(grammar, x, 0, &k, err), done);
    WR_TRY_GOTO(st, weir_constraint_state_new(k, 1, &s, err), done);
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
        WR_TRY_GOTO(st, weir_constraint_state_accept_bytes(s, inside[i], strlen(inside[i]), NULL, err), done);
        WR_TRY_GOTO(st, weir_constraint_state_mask(s, mask, x->n_words, err), done);
        WR_TRY_GOTO(st, weir_constraint_state_rollback(s, 1, err), done);
    }
done:
    weir_constraint_state_free(s);
    weir_constraint_free(k);
    weir_grammar_release(grammar);
    wr_free(mask);
    return st;
}

weir_status weir_token_index_new(const weir_tokenizer *tok, weir_token_index **out, weir_error *err) {
    const int32_t *eos;
    weir_status st;
    *out = NULL;
    weir_token_index *x = wr_calloc(1, sizeof *x);
    if (!x) return WR_FAIL(err, WEIR_E_MEMORY, "no memory to prepare a vocabulary");
    atomic_init(&x->references, 1);
    x->n_ids = (uint32_t)weir_tokenizer_vocab_size(tok);
    x->n_words = (x->n_ids + 31u) / 32;
    x->n_eos = weir_tokenizer_eos(tok, &eos);
    x->offset = wr_calloc(x->n_ids + 1u, sizeof *x->offset);
    x->eos = wr_malloc((x->n_eos + 1) * sizeof *x->eos);
    if (!x->offset || !x->eos) {
        st = WR_FAIL(err, WEIR_E_MEMORY, "no memory to prepare a vocabulary of %u tokens", x->n_ids);
        goto fail;
    }
    if (x->n_eos) memcpy(x->eos, eos, x->n_eos * sizeof *eos);
    WR_TRY_GOTO(st, collect(x, tok, err), fail);
    WR_TRY_GOTO(st, plant(x, err), fail);
    WR_TRY_GOTO(st, warm(x, err), fail);
    *out = x;
    return WEIR_OK;
fail:
    weir_token_index_release(x);
    return st;
}

weir_token_index *weir_token_index_retain(weir_token_index *x) {
    atomic_fetch_add_explicit(&x->references, 1, memory_order_relaxed);
    return x;
}

void weir_token_index_release(weir_token_index *x) {
    if (!x || atomic_fetch_sub_explicit(&x->references, 1, memory_order_acq_rel) > 1) return;
    for (int i = 0; i < 2; i++)
        for (int v = 0; v < WR_GR_VARIANTS; v++) wr_gr_info_free(x->any_string[i][v]);
    wr_gr_trie_deinit(&x->trie);
    wr_free(x->text);
    wr_free(x->offset);
    wr_free(x->eos);
    wr_free(x);
}

bool wr_gr_index_is_eos(const weir_token_index *x, int32_t id) {
    for (size_t i = 0; i < x->n_eos; i++)
        if (x->eos[i] == id) return true;
    return false;
}
