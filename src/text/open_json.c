/* Tokenizers from tokenizer.json (the format of Hugging Face's `tokenizers`
 * library) and tokenizer_config.json. Every key of the parts that are used is
 * either understood or refused by name. `truncation` and `padding` are for batches
 * and do not change what a text's tokens are; they are left to the caller, as
 * transformers does. */
#include "base/mem.h"
#include "file/json.h"
#include "text/fields.h"
#include "text/formats.h"
#include "text/open_json.h"

/* ---- Added tokens --------------------------------------------------------- */

weir_status wr_tok_read_added(weir_tokenizer *tok, const json_t *obj, int64_t id, const char *where, weir_error *err) {
    const char *text = NULL;
    size_t bytes = 0;
    static const char *const keys[] = {"special", "lstrip", "rstrip", "single_word", "normalized"};
    char shown[72];
    unsigned flags = 0;
    WR_TRY(wr_field_only(obj, where, "id content single_word lstrip rstrip normalized special __type", err));
    WR_TRY(wr_field_int(obj, where, "id", &id, err));
    WR_TRY(wr_field_string(obj, where, "content", &text, &bytes, err));
    if (!text) return WR_FAIL(err, WEIR_E_FORMAT, "%s: an added token has no content", where);
    wr_vocab_show(text, bytes, shown);
    for (unsigned i = 0; i < 5; i++) {
        bool on = false;
        WR_TRY(wr_field_bool(obj, where, keys[i], &on, err));
        if (on) flags |= 1u << i;
    }
    if (id == INT64_MIN) return WR_FAIL(err, WEIR_E_FORMAT, "%s: token \"%s\" has no id", where, shown);
    int32_t known = wr_vocab_find(&tok->vocab, text, bytes);
    if (known >= 0 && known != id) {
        return WR_FAIL(err, WEIR_E_FORMAT, "%s: token \"%s\" has id %lld here and %d in the vocabulary", where, shown,
                       (long long)id, known);
    }
    if (known < 0) WR_TRY(wr_vocab_add(&tok->vocab, id, text, bytes, 0, err));
    if (tok->vocab.flags[id] & WR_TOKEN_ADDED) {
        return WR_FAIL(err, WEIR_E_FORMAT, "%s: token \"%s\" comes twice", where, shown);
    }
    return wr_tok_add_added(tok, (int32_t)id, flags, err);
}

static weir_status read_added(weir_tokenizer *tok, const json_t *list, weir_error *err) {
    json_t *item;
    size_t i;
    json_array_foreach(list, i, item) WR_TRY(wr_tok_read_added(tok, item, INT64_MIN, "added_tokens", err));
    return WEIR_OK;
}

/* ---- All together --------------------------------------------------------- */

enum { VOCAB, MERGES, N_LISTS };

static weir_status read_tokenizer(weir_tokenizer *tok, const json_t *root, const char *text, const wr_json_span *lists,
                                  weir_error *err) {
    json_t *model;
    WR_TRY(wr_field_only(
        root, "the file",
        "version truncation padding added_tokens normalizer pre_tokenizer post_processor decoder model", err));
    const json_t *added = json_object_get(root, "added_tokens");
    if (added && !json_is_array(added) && !json_is_null(added)) {
        return WR_FAIL(err, WEIR_E_FORMAT, "added_tokens is not a list");
    }
    WR_TRY(wr_field_need(root, "the file", "model", JSON_OBJECT, &model, err));
    WR_TRY(wr_tok_read_normalizer(tok, json_object_get(root, "normalizer"), err));
    WR_TRY(wr_tok_read_pre_tokenizer(tok, json_object_get(root, "pre_tokenizer"), err));
    WR_TRY(wr_tok_read_model(tok, model, text, lists[VOCAB], lists[MERGES], json_array_size(added), err));
    WR_TRY(read_added(tok, added, err));
    WR_TRY(wr_tok_read_post_processor(tok, json_object_get(root, "post_processor"), err));
    return wr_tok_read_decoder(tok, json_object_get(root, "decoder"), err);
}

weir_status wr_tok_build_json(weir_tokenizer *tok, const char *text, size_t bytes, const json_t *config,
                              weir_error *err) {
    static const char *const lists[N_LISTS] = {"vocab", "merges"};
    (void)config;
    json_t *root = NULL;
    wr_json_span spans[N_LISTS];
    char *rest;
    size_t rest_bytes;
    WR_TRY(wr_json_cut(text, bytes, "model", lists, N_LISTS, spans, &rest, &rest_bytes, err));
    weir_status st = wr_json_parse(rest, rest_bytes, "tokenizer.json", &root, err);
    wr_free(rest);
    if (st != WEIR_OK) return st;
    st = read_tokenizer(tok, root, text, spans, err);
    if (st != WEIR_OK) wr_err_context(err, "reading tokenizer.json");
    json_decref(root);
    return st;
}
