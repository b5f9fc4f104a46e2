/* What a checkpoint says about text: the chat template, and the tokens that end a turn. */
#include <string.h>

#include "base/io.h"
#include "file/checkpoint_impl.h"
#include "file/json.h"

enum {
    MAX_TEMPLATE_BYTES = 4 << 20,
    MAX_TOKENIZER_BYTES = 256 << 20,
    MAX_EOS = 1024,
};

#define NO_MEMORY(c) WR_FAIL(err, WEIR_E_MEMORY, "%s: out of memory", (c)->path)

/* ---- chat template ---- */

/* A string, or a list of {name, template} with one named "default". */
static const char *template_text(const json_t *value) {
    if (json_is_string(value)) return json_string_value(value);
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *item = json_array_get(value, i);
        const char *name = json_string_value(json_object_get(item, "name"));
        if (name && strcmp(name, "default") == 0) return json_string_value(json_object_get(item, "template"));
    }
    return NULL;
}

/* A file of the folder if it is there; *text stays NULL when it is not. */
static weir_status read_optional(const wr_checkpoint *c, const char *name, size_t max, char **text, size_t *bytes,
                                 weir_error *err) {
    char *path = wr_path_join(c->path, name);
    if (!path) return NO_MEMORY(c);
    weir_status status = wr_path_is_file(path) ? wr_file_read(path, max, text, bytes, err) : WEIR_OK;
    wr_free(path);
    return status;
}

/* chat_template.jinja first, as its writers do, then tokenizer_config.json, then the
 * file that processors write. */
static weir_status read_folder_template(wr_checkpoint *c, weir_error *err) {
    size_t bytes;
    WR_TRY(read_optional(c, "chat_template.jinja", MAX_TEMPLATE_BYTES, &c->chat_template, &bytes, err));
    if (c->chat_template) return WEIR_OK;
    const char *text = template_text(wr_config_find(c->tokenizer, "chat_template"));
    wr_config *processor = NULL;
    if (!text) {
        char *path = wr_path_join(c->path, "chat_template.json");
        if (!path) return NO_MEMORY(c);
        weir_status status = wr_path_is_file(path) ? wr_config_read(path, &processor, err) : WEIR_OK;
        wr_free(path);
        WR_TRY(status);
        text = template_text(wr_config_find(processor, "chat_template"));
    }
    weir_status status = WEIR_OK;
    if (text && !(c->chat_template = wr_strdup(text))) status = NO_MEMORY(c);
    wr_config_free(processor);
    return status;
}

weir_status wr_checkpoint_read_text(wr_checkpoint *c, weir_error *err) {
    if (!c->gguf) return read_folder_template(c, err);
    const char *text;
    size_t bytes;
    if (!wr_gguf_string(c->gguf, "tokenizer.chat_template", &text, &bytes)) return WEIR_OK;
    if (bytes > MAX_TEMPLATE_BYTES)
        return WR_FAIL(err, WEIR_E_LIMIT, "%s: the chat template has %zu bytes; at most %d are allowed", c->path, bytes,
                       MAX_TEMPLATE_BYTES);
    c->chat_template = wr_strndup(text, bytes);
    return c->chat_template ? WEIR_OK : NO_MEMORY(c);
}

/* ---- tokens that end a turn ---- */

typedef struct id_set {
    int32_t *ids;
    size_t cap, n;
} id_set;

static void add_id(id_set *set, int64_t id) {
    for (size_t i = 0; i < set->n && i < set->cap; i++)
        if (set->ids[i] == id) return;
    if (set->n < set->cap) set->ids[set->n] = (int32_t)id;
    set->n++;
}

static weir_status add_from_config(const wr_config *config, id_set *set, weir_error *err) {
    int64_t n, id;
    if (!config) return WEIR_OK;
    WR_TRY(wr_config_count(config, "eos_token_id", &n, err));
    if (n > MAX_EOS) return WR_FAIL(err, WEIR_E_LIMIT, "eos_token_id lists %lld tokens", (long long)n);
    for (int64_t i = 0; i < n; i++) {
        WR_TRY(wr_config_int_at(config, "eos_token_id", i, -1, INT32_MAX, &id, err));
        if (id >= 0) add_id(set, id); /* some configurations say -1 for none */
    }
    return WEIR_OK;
}

/* {"id": 2, "content": "</s>"} in tokenizer.json's added_tokens. */
static weir_status find_added_token(const wr_checkpoint *c, const char *content, int64_t *id, weir_error *err) {
    char *path = wr_path_join(c->path, "tokenizer.json");
    json_t *root = NULL;
    if (!path) return NO_MEMORY(c);
    weir_status status = wr_path_is_file(path) ? wr_json_read(path, MAX_TOKENIZER_BYTES, &root, err) : WEIR_OK;
    wr_free(path);
    const json_t *tokens = json_object_get(root, "added_tokens");
    for (size_t i = 0; i < json_array_size(tokens); i++) {
        const json_t *token = json_array_get(tokens, i);
        const char *text = json_string_value(json_object_get(token, "content"));
        if (text && strcmp(text, content) == 0) *id = (int64_t)json_integer_value(json_object_get(token, "id"));
    }
    json_decref(root);
    return status;
}

/* eos_token is a text, or an object with `content`. */
static weir_status add_from_tokenizer(const wr_checkpoint *c, id_set *set, weir_error *err) {
    const json_t *token = wr_config_find(c->tokenizer, "eos_token");
    if (json_is_object(token)) token = json_object_get(token, "content");
    const char *content = json_string_value(token);
    if (!content) return WEIR_OK;
    int64_t id = -1;
    const char *key;
    json_t *value, *decoder = (json_t *)wr_config_find(c->tokenizer, "added_tokens_decoder");
    json_object_foreach(decoder, key, value) {
        const char *text = json_string_value(json_object_get(value, "content"));
        if (text && strcmp(text, content) == 0) id = strtoll(key, NULL, 10);
    }
    if (id < 0) WR_TRY(find_added_token(c, content, &id, err));
    if (id >= 0 && id <= INT32_MAX) add_id(set, id);
    return WEIR_OK;
}

/* GGUF metadata names one end token, but chat models have several: those control tokens
 * whose text is a turn's end by convention count as well. */
static void add_from_gguf(const wr_gguf *g, id_set *set) {
    static const char *const ends[] = {"<|im_end|>", "<|endoftext|>", "<|eot_id|>",
                                       "<|eom_id|>", "<|end|>",       "<end_of_turn>"};
    wr_gguf_type type;
    int64_t n, kind;
    if (!wr_gguf_array(g, "tokenizer.ggml.token_type", &type, &n)) return;
    const wr_gguf_list *kinds = wr_gguf_list_find(g, "tokenizer.ggml.token_type");
    const wr_gguf_list *tokens = wr_gguf_list_find(g, "tokenizer.ggml.tokens");
    for (int64_t i = 0; i < n; i++) {
        const char *text;
        size_t bytes;
        if (!wr_gguf_list_int(kinds, i, &kind) || kind != 3) continue; /* 3: control */
        if (!wr_gguf_list_string(tokens, i, &text, &bytes)) continue;
        for (size_t k = 0; k < sizeof ends / sizeof *ends; k++)
            if (bytes == strlen(ends[k]) && memcmp(text, ends[k], bytes) == 0) add_id(set, i);
    }
}

weir_status wr_checkpoint_eos(const wr_checkpoint *c, int32_t *ids, size_t cap, size_t *n, weir_error *err) {
    id_set set = {ids, cap, 0};
    *n = 0;
    WR_TRY(add_from_config(c->config, &set, err));
    WR_TRY(add_from_config(c->generation, &set, err));
    if (c->gguf)
        add_from_gguf(c->gguf, &set);
    else
        WR_TRY(add_from_tokenizer(c, &set, err));
    *n = set.n;
    return WEIR_OK;
}
