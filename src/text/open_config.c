/* tokenizer_config.json: what transformers keeps beside tokenizer.json. Only the keys
 * that concern a tokenizer's result are read; the others belong to Python classes. */
#include <stdlib.h>
#include <string.h>

#include "text/fields.h"
#include "text/open_json.h"
#include "text/tok.h"

weir_status wr_tok_get_named(const json_t *config, const char *key, const char **text, size_t *bytes, weir_error *err) {
    const json_t *value = json_object_get(config, key);
    if (json_is_object(value)) return wr_field_string(value, key, "content", text, bytes, err);
    return wr_field_string(config, "tokenizer_config.json", key, text, bytes, err);
}

/* *id stays when the key is absent or null. */
static weir_status read_named_token(const weir_tokenizer *tok, const json_t *config, const char *key, bool must,
                                    int32_t *id, weir_error *err) {
    const char *where = "tokenizer_config.json", *text = NULL;
    size_t bytes = 0;
    WR_TRY(wr_tok_get_named(config, key, &text, &bytes, err));
    if (!text) return WEIR_OK;
    int32_t found = wr_vocab_find(&tok->vocab, text, bytes);
    if (found < 0 && must) {
        char shown[72];
        return WR_FAIL(err, WEIR_E_FORMAT, "%s: %s is \"%s\", which is no token of the vocabulary", where, key,
                       wr_vocab_show(text, bytes, shown));
    }
    if (found >= 0) *id = found;
    return WEIR_OK;
}

/* A string, or a list of {"name", "template"} of which "default" counts. */
static weir_status read_chat_template(weir_tokenizer *tok, const json_t *config, weir_error *err) {
    const json_t *value = json_object_get(config, "chat_template");
    const char *text = NULL, *name;
    size_t bytes, i;
    json_t *item;
    if (json_is_string(value)) {
        text = json_string_value(value);
    } else if (json_is_array(value)) {
        json_array_foreach(value, i, item) {
            name = NULL;
            WR_TRY(wr_field_only(item, "chat_template", "name template", err));
            WR_TRY(wr_field_string(item, "chat_template", "name", &name, &bytes, err));
            if (name && strcmp(name, "default") == 0) {
                WR_TRY(wr_field_string(item, "chat_template", "template", &text, &bytes, err));
            }
        }
    } else if (value && !json_is_null(value)) {
        return WR_FAIL(err, WEIR_E_FORMAT, "tokenizer_config.json: chat_template is neither a string nor a list");
    }
    return text ? wr_tokenizer_set_chat_template(tok, text, err) : WEIR_OK;
}

/* add_bos_token and add_eos_token, where a config has them, overrule the
 * post-processor: true adds the token if it is not there, false takes it away. */
static weir_status apply_add_tokens(weir_tokenizer *tok, const json_t *config, int32_t eos, weir_error *err) {
    const char *where = "tokenizer_config.json";
    for (int i = 0; i < 2; i++) {
        const char *key = i ? "add_eos_token" : "add_bos_token";
        int32_t *ids = i ? tok->suffix : tok->prefix, id = i ? eos : tok->bos;
        size_t *n = i ? &tok->n_suffix : &tok->n_prefix;
        bool on = false;
        const json_t *value = json_object_get(config, key);
        if (!value || json_is_null(value)) continue;
        WR_TRY(wr_field_bool(config, where, key, &on, err));
        size_t outer = i && *n ? *n - 1 : 0;
        bool has = *n && ids[outer] == id;
        if (on && id < 0) {
            return WR_FAIL(err, WEIR_E_FORMAT, "%s: %s is true, but no such token is named", where, key);
        }
        if (on && !has) {
            if (*n == WR_TOK_AFFIX_MAX) return WR_FAIL(err, WEIR_E_LIMIT, "%s: too many tokens are added", where);
            if (i == 0) memmove(ids + 1, ids, *n * sizeof *ids);
            ids[i ? *n : 0] = id;
            ++*n;
        } else if (!on && has) {
            if (i == 0) memmove(ids, ids + 1, (*n - 1) * sizeof *ids);
            --*n;
        }
    }
    return WEIR_OK;
}

weir_status wr_tok_read_config(weir_tokenizer *tok, const json_t *config, weir_error *err) {
    const char *where = "tokenizer_config.json";
    int32_t eos = -1;
    if (!json_is_object(config)) return WR_FAIL(err, WEIR_E_FORMAT, "%s is not an object", where);
    /* Tokens that only the config lists. */
    json_t *added = json_object_get(config, "added_tokens_decoder");
    if (added && !json_is_object(added)) {
        return WR_FAIL(err, WEIR_E_FORMAT, "%s: added_tokens_decoder is not an object", where);
    }
    for (void *it = added ? json_object_iter(added) : NULL; it; it = json_object_iter_next(added, it)) {
        const char *key = json_object_iter_key(it), *text = NULL;
        const json_t *token = json_object_iter_value(it);
        size_t bytes = 0;
        char *end;
        long id = strtol(key, &end, 10);
        if (*key < '0' || *key > '9' || *end) {
            return WR_FAIL(err, WEIR_E_FORMAT, "%s: added_tokens_decoder has the key \"%.40s\", no id", where, key);
        }
        WR_TRY(wr_field_string(token, where, "content", &text, &bytes, err));
        int32_t known = text ? wr_vocab_find(&tok->vocab, text, bytes) : -1;
        if (known >= 0 && (tok->vocab.flags[known] & WR_TOKEN_ADDED)) continue;
        WR_TRY(wr_tok_read_added(tok, token, id, where, err));
    }
    WR_TRY(read_named_token(tok, config, "bos_token", true, &tok->bos, err));
    WR_TRY(read_named_token(tok, config, "eos_token", true, &eos, err));
    WR_TRY(read_named_token(tok, config, "pad_token", false, &tok->pad, err));
    WR_TRY(read_named_token(tok, config, "unk_token", false, &tok->unk, err));
    if (eos >= 0) WR_TRY(wr_tokenizer_add_eos(tok, eos, err));
    WR_TRY(apply_add_tokens(tok, config, eos, err));
    return read_chat_template(tok, config, err);
}
