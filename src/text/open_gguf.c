/* Owns the way from a GGUF file's metadata to the lists that wr_tokenizer_open_vocab reads. */
#include <string.h>

#include "base/mem.h"
#include "file/gguf.h"
#include "text/tokenizer.h"

static bool get_string(void *context, size_t i, const char **text, size_t *bytes) {
    return wr_gguf_list_string(context, (int64_t)i, text, bytes);
}

static wr_string_list string_list(const wr_gguf *g, const char *key) {
    wr_gguf_type type;
    int64_t n;
    if (!wr_gguf_array(g, key, &type, &n) || type != WR_GGUF_STRING) n = 0;
    return (wr_string_list){.n = (size_t)n, .get = get_string, .context = (void *)wr_gguf_list_find(g, key)};
}

/* A terminated copy of a metadata string; NULL when absent or out of memory. */
static char *dup_string(const wr_gguf *g, const char *key) {
    const char *text;
    size_t bytes;
    return wr_gguf_string(g, key, &text, &bytes) ? wr_strndup(text, bytes) : NULL;
}

static int32_t int_or(const wr_gguf *g, const char *key, int32_t fallback) {
    int64_t value;
    return wr_gguf_int(g, key, &value) && value >= 0 && value <= INT32_MAX ? (int32_t)value : fallback;
}

/* scores and token types as plain arrays; a list of another length than the vocabulary is malformed. */
static weir_status read_lists(const wr_gguf *g, size_t n_tokens, float **scores, int32_t **types, weir_error *err) {
    static const char scores_key[] = "tokenizer.ggml.scores", types_key[] = "tokenizer.ggml.token_type";
    wr_gguf_type type;
    int64_t n;
    if (wr_gguf_array(g, scores_key, &type, &n)) {
        if ((size_t)n != n_tokens)
            return WR_FAIL(err, WEIR_E_FORMAT, "%s has %lld entries for %zu tokens", scores_key, (long long)n,
                           n_tokens);
        if (!(*scores = wr_malloc(n_tokens * sizeof **scores)))
            return WR_FAIL(err, WEIR_E_MEMORY, "no memory for %zu scores", n_tokens);
        const wr_gguf_list *list = wr_gguf_list_find(g, scores_key);
        for (size_t i = 0; i < n_tokens; i++) {
            double value;
            if (!wr_gguf_list_float(list, (int64_t)i, &value))
                return WR_FAIL(err, WEIR_E_FORMAT, "%s is not a list of numbers", scores_key);
            (*scores)[i] = (float)value;
        }
    }
    if (wr_gguf_array(g, types_key, &type, &n)) {
        if ((size_t)n != n_tokens)
            return WR_FAIL(err, WEIR_E_FORMAT, "%s has %lld entries for %zu tokens", types_key, (long long)n, n_tokens);
        if (!(*types = wr_malloc(n_tokens * sizeof **types)))
            return WR_FAIL(err, WEIR_E_MEMORY, "no memory for %zu token types", n_tokens);
        const wr_gguf_list *list = wr_gguf_list_find(g, types_key);
        for (size_t i = 0; i < n_tokens; i++) {
            int64_t value;
            if (!wr_gguf_list_int(list, (int64_t)i, &value))
                return WR_FAIL(err, WEIR_E_FORMAT, "%s is not a list of integers", types_key);
            (*types)[i] = (int32_t)value;
        }
    }
    return WEIR_OK;
}

/* The compiled normalisation rules; *rules NULL when there are none. */
static weir_status read_rules(const wr_gguf *g, uint8_t **rules, size_t *bytes, weir_error *err) {
    static const char key[] = "tokenizer.ggml.precompiled_charsmap";
    wr_gguf_type type;
    int64_t n;
    if (!wr_gguf_array(g, key, &type, &n) || n == 0) return WEIR_OK;
    *bytes = (size_t)n;
    if (!(*rules = wr_malloc(*bytes))) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for %zu bytes of %s", *bytes, key);
    const wr_gguf_list *list = wr_gguf_list_find(g, key);
    for (int64_t i = 0; i < n; i++) {
        int64_t value;
        if (!wr_gguf_list_int(list, i, &value)) return WR_FAIL(err, WEIR_E_FORMAT, "%s is not a list of bytes", key);
        (*rules)[i] = (uint8_t)value;
    }
    return WEIR_OK;
}

weir_status wr_tokenizer_open_gguf(const wr_gguf *g, weir_tokenizer **out, weir_error *err) {
    wr_vocab_source src;
    wr_vocab_source_init(&src);
    float *scores = NULL;
    int32_t *types = NULL;
    uint8_t *rules = NULL;
    char *model = dup_string(g, "tokenizer.ggml.model"), *pre = dup_string(g, "tokenizer.ggml.pre");
    char *chat = dup_string(g, "tokenizer.chat_template");
    weir_status st = WEIR_OK;
    src.tokens = string_list(g, "tokenizer.ggml.tokens");
    src.merges = string_list(g, "tokenizer.ggml.merges");
    src.model = model, src.pre = pre, src.chat_template = chat;
    src.bos_id = int_or(g, "tokenizer.ggml.bos_token_id", -1);
    src.eos_id = int_or(g, "tokenizer.ggml.eos_token_id", -1);
    src.eot_id = int_or(g, "tokenizer.ggml.eot_token_id", -1);
    src.eom_id = int_or(g, "tokenizer.ggml.eom_token_id", -1);
    src.unk_id = int_or(g, "tokenizer.ggml.unknown_token_id", -1);
    src.pad_id = int_or(g, "tokenizer.ggml.padding_token_id", -1);
    src.add_bos = int_or(g, "tokenizer.ggml.add_bos_token", -1);
    src.add_eos = int_or(g, "tokenizer.ggml.add_eos_token", -1);
    src.add_space_prefix = int_or(g, "tokenizer.ggml.add_space_prefix", -1);
    src.squeeze_spaces = int_or(g, "tokenizer.ggml.remove_extra_whitespaces", -1);
    /* BERT's names for the ids at both ends. */
    if (src.bos_id < 0) src.bos_id = int_or(g, "tokenizer.ggml.cls_token_id", -1);
    if (src.eos_id < 0) src.eos_id = int_or(g, "tokenizer.ggml.seperator_token_id", -1);
    if (!model || !src.tokens.n) {
        st = WR_FAIL(err, WEIR_E_FORMAT, "no tokenizer in the GGUF metadata (tokenizer.ggml.model and .tokens)");
        goto done;
    }
    WR_TRY_GOTO(st, read_lists(g, src.tokens.n, &scores, &types, err), done);
    WR_TRY_GOTO(st, read_rules(g, &rules, &src.rules_bytes, err), done);
    src.scores = scores, src.token_type = types, src.rules = rules;
    st = wr_tokenizer_open_vocab(&src, out, err);
done:
    wr_free(scores);
    wr_free(types);
    wr_free(rules);
    wr_free(model);
    wr_free(pre);
    wr_free(chat);
    return st;
}
