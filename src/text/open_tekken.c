/* tekken.json. Ranks count from 0 behind the special tokens, whose ids are the first. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "file/json.h"
#include "text/base64.h"
#include "text/fields.h"
#include "text/formats.h"
#include "text/json_lists.h"
#include "text/ranks.h"

/* What files before version v7 leave out, in order of their ids. */
static const char *const old_specials[] = {"<unk>",
                                           "<s>",
                                           "</s>",
                                           "[INST]",
                                           "[/INST]",
                                           "[AVAILABLE_TOOLS]",
                                           "[/AVAILABLE_TOOLS]",
                                           "[TOOL_RESULTS]",
                                           "[/TOOL_RESULTS]",
                                           "[TOOL_CALLS]",
                                           "[IMG]",
                                           "<pad>",
                                           "[IMG_BREAK]",
                                           "[IMG_END]",
                                           "[PREFIX]",
                                           "[MIDDLE]",
                                           "[SUFFIX]",
                                           "[SYSTEM_PROMPT]",
                                           "[/SYSTEM_PROMPT]",
                                           "[TOOL_CONTENT]"};

/* {"rank": r, "token_bytes": base64, ...} as the token r + n_special. */
static weir_status read_rank(weir_tokenizer *tok, wr_json_reader *r, int64_t n_special, weir_error *err) {
    uint8_t token[WR_RANK_BYTES_MAX + 8];
    size_t token_bytes = 0;
    int64_t rank = -1;
    bool more;
    WR_TRY(wr_json_enter(r, '{', err));
    for (;;) {
        const char *key, *text;
        size_t n, bytes;
        WR_TRY(wr_json_more(r, '}', &more, err));
        if (!more) break;
        WR_TRY(wr_json_key(r, &key, &n, err));
        if (n == 4 && memcmp(key, "rank", 4) == 0) {
            WR_TRY(wr_json_int(r, &rank, err));
        } else if (n == 11 && memcmp(key, "token_bytes", 11) == 0) {
            WR_TRY(wr_json_string(r, &text, &bytes, err));
            if (bytes > WR_RANK_BYTES_MAX / 3 * 4 || !wr_base64_read(text, bytes, token, &token_bytes)) {
                return WR_FAIL(err, WEIR_E_FORMAT, "vocab: a token_bytes is not base64 of at most %d bytes",
                               WR_RANK_BYTES_MAX);
            }
        } else {
            WR_TRY(wr_json_skip(r, err));
        }
    }
    if (rank < 0 || rank >= WR_VOCAB_MAX) {
        return WR_FAIL(err, WEIR_E_FORMAT, "vocab: a token has the rank %lld", (long long)rank);
    }
    return wr_tok_add_rank(tok, rank + n_special, token, token_bytes, err);
}

static weir_status read_vocab(weir_tokenizer *tok, wr_json_reader *r, size_t n, int64_t n_special, weir_error *err) {
    bool more;
    WR_TRY(wr_json_enter(r, '[', err));
    for (size_t i = 0; i < n; i++) { /* what is behind the default size is not in use */
        WR_TRY(wr_json_more(r, ']', &more, err));
        if (!more) return WR_FAIL(err, WEIR_E_FORMAT, "vocab has %zu tokens, config needs %zu", i, n);
        WR_TRY(read_rank(tok, r, n_special, err));
    }
    return WEIR_OK;
}

static weir_status read_specials(weir_tokenizer *tok, const json_t *list, int64_t n_special, weir_error *err) {
    size_t given = list ? json_array_size(list) : sizeof old_specials / sizeof *old_specials;
    for (int64_t id = 0; id < n_special; id++) {
        char filler[40];
        const char *text = filler;
        size_t n = (size_t)snprintf(filler, sizeof filler, "<SPECIAL_%lld>", (long long)id);
        if ((uint64_t)id < given && !list) {
            text = old_specials[id];
            n = strlen(text);
        } else if ((uint64_t)id < given) {
            const json_t *entry = json_array_get(list, (size_t)id);
            int64_t rank = -1;
            WR_TRY(wr_field_only(entry, "special_tokens", "rank token_str is_control", err));
            WR_TRY(wr_field_int(entry, "special_tokens", "rank", &rank, err));
            WR_TRY(wr_field_string(entry, "special_tokens", "token_str", &text, &n, err));
            if (rank != id || text == filler) {
                return WR_FAIL(err, WEIR_E_FORMAT, "special_tokens[%lld] has no text or another rank", (long long)id);
            }
        }
        WR_TRY(wr_tok_add_special(tok, id, text, n, err));
        if (strcmp(text, "<s>") == 0) tok->bos = (int32_t)id;
        if (strcmp(text, "<unk>") == 0) tok->unk = (int32_t)id;
        if (strcmp(text, "<pad>") == 0) tok->pad = (int32_t)id;
        if (strcmp(text, "</s>") == 0) WR_TRY(wr_tokenizer_add_eos(tok, (int32_t)id, err));
    }
    return WEIR_OK;
}

static weir_status read_file(weir_tokenizer *tok, const json_t *root, const char *text, wr_json_span vocab,
                             weir_error *err) {
    json_t *config;
    int64_t size = -1, n_special = -1;
    const char *pattern = NULL;
    size_t pattern_bytes;
    wr_json_reader r;
    WR_TRY(wr_field_only(root, "the file",
                         "config vocab special_tokens multimodal image audio model_settings_builder type", err));
    WR_TRY(wr_field_need(root, "the file", "config", JSON_OBJECT, &config, err));
    WR_TRY(wr_field_int(config, "config", "default_vocab_size", &size, err));
    WR_TRY(wr_field_int(config, "config", "default_num_special_tokens", &n_special, err));
    WR_TRY(wr_field_string(config, "config", "pattern", &pattern, &pattern_bytes, err));
    const json_t *specials = json_object_get(root, "special_tokens");
    if (json_is_null(specials)) specials = NULL;
    if (!pattern || n_special < 0 || size <= n_special || size > WR_VOCAB_MAX || vocab.n == 0 ||
        (specials && !json_is_array(specials))) {
        return WR_FAIL(err, WEIR_E_FORMAT,
                       "config needs pattern, default_vocab_size (up to %d) above default_num_special_tokens, and "
                       "vocab must not be empty",
                       WR_VOCAB_MAX);
    }
    WR_TRY(wr_tok_add_cut_regex(tok, pattern, err));
    WR_TRY(wr_vocab_init(&tok->vocab, (size_t)size, 0, err));
    weir_status st = wr_json_reader_init(&r, text, vocab, "vocab", err);
    if (st == WEIR_OK) st = read_vocab(tok, &r, (size_t)(size - n_special), n_special, err);
    wr_json_reader_deinit(&r);
    if (st == WEIR_OK) st = wr_tok_link_ranks(tok, err);
    if (st == WEIR_OK) st = read_specials(tok, specials, n_special, err);
    if (st == WEIR_OK && tok->bos >= 0) tok->prefix[tok->n_prefix++] = tok->bos;
    return st;
}

weir_status wr_tok_build_tekken(weir_tokenizer *tok, const char *text, size_t bytes, const json_t *config,
                                weir_error *err) {
    static const char *const lists[] = {"vocab"};
    (void)config;
    wr_json_span vocab;
    char *rest;
    size_t rest_bytes;
    json_t *root = NULL;
    WR_TRY(wr_json_cut(text, bytes, NULL, lists, 1, &vocab, &rest, &rest_bytes, err));
    weir_status st = wr_json_parse(rest, rest_bytes, "tekken.json", &root, err);
    wr_free(rest);
    if (st != WEIR_OK) return st;
    st = read_file(tok, root, text, vocab, err);
    if (st != WEIR_OK) wr_err_context(err, "reading tekken.json");
    json_decref(root);
    return st;
}
