/* Files beside the weights, and GGUF metadata. */
#include "text/chat_source.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "file/gguf.h"
#include "file/json.h"
#include "text/jinja/jinja.h"

enum { CONFIG_BYTES_MAX = 64 << 20, NAMES_MAX = 64 };

#define NO_MEMORY WR_FAIL(err, WEIR_E_MEMORY, "no memory for the chat templates")

typedef struct reader {
    const char *folder;
    wr_chat_source_callback callback;
    void *context;
    size_t n; /* templates found */
} reader;

static weir_status give(reader *r, const char *name, const char *text, size_t bytes, weir_error *err) {
    r->n++;
    return r->callback(r->context, name, text, bytes, err);
}

/* ---- folders ---- */

/* A JSON file of the folder; *out stays NULL when it is not there. */
static weir_status read_json(const char *folder, const char *name, json_t **out, weir_error *err) {
    char *path = wr_path_join(folder, name);
    *out = NULL;
    if (!path) return NO_MEMORY;
    weir_status st = wr_path_is_file(path) ? wr_json_read(path, CONFIG_BYTES_MAX, out, err) : WEIR_OK;
    wr_free(path);
    return st;
}

static weir_status give_file(reader *r, const char *path, const char *name, weir_error *err) {
    char *text;
    size_t bytes;
    WR_TRY(wr_file_read(path, WR_JINJA_SOURCE_BYTES_MAX, &text, &bytes, err));
    weir_status st = give(r, name, text, bytes, err);
    wr_free(text);
    return st;
}

static weir_status give_named_file(reader *r, const char *folder, const char *file, const char *name, weir_error *err) {
    char *path = wr_path_join(folder, file);
    if (!path) return NO_MEMORY;
    weir_status st = wr_path_is_file(path) ? give_file(r, path, name, err) : WEIR_OK;
    wr_free(path);
    return st;
}

/* Every NAME.jinja of additional_chat_templates. */
static weir_status give_additional(reader *r, weir_error *err) {
    static const char end[] = ".jinja";
    char *folder = wr_path_join(r->folder, "additional_chat_templates");
    if (!folder) return NO_MEMORY;
    DIR *dir = opendir(folder);
    weir_status st = WEIR_OK;
    const struct dirent *entry;
    while (st == WEIR_OK && dir && r->n < NAMES_MAX && (entry = readdir(dir))) {
        size_t n = strlen(entry->d_name);
        char name[256];
        if (n < sizeof end || n >= sizeof name || strcmp(entry->d_name + n - (sizeof end - 1), end) != 0) continue;
        memcpy(name, entry->d_name, n - (sizeof end - 1));
        name[n - (sizeof end - 1)] = 0;
        st = give_named_file(r, folder, entry->d_name, name, err);
    }
    if (dir) closedir(dir);
    wr_free(folder);
    return st;
}

/* A text, a list of {name, template}, or an object of texts by name. */
static weir_status give_value(reader *r, const char *where, const json_t *value, weir_error *err) {
    if (!value || json_is_null(value)) return WEIR_OK;
    if (json_is_string(value)) return give(r, "default", json_string_value(value), json_string_length(value), err);
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *item = json_array_get(value, i), *text = json_object_get(item, "template");
        const char *name = json_string_value(json_object_get(item, "name"));
        if (!name || !json_is_string(text))
            return WR_FAIL(err, WEIR_E_FORMAT, "%s: entry %zu of chat_template has no name and template", where, i);
        WR_TRY(give(r, name, json_string_value(text), json_string_length(text), err));
    }
    for (void *it = json_object_iter((json_t *)value); it; it = json_object_iter_next((json_t *)value, it)) {
        const json_t *text = json_object_iter_value(it);
        if (!json_is_string(text))
            return WR_FAIL(err, WEIR_E_FORMAT, "%s: chat_template.%s is no text", where, json_object_iter_key(it));
        WR_TRY(give(r, json_object_iter_key(it), json_string_value(text), json_string_length(text), err));
    }
    if (json_is_array(value) || json_is_object(value)) return WEIR_OK;
    return WR_FAIL(err, WEIR_E_FORMAT, "%s: chat_template is neither a text nor a list", where);
}

static weir_status folder_templates(reader *r, weir_error *err) {
    static const char *const files[] = {"tokenizer_config.json", "chat_template.json"};
    WR_TRY(give_named_file(r, r->folder, "chat_template.jinja", "default", err));
    WR_TRY(give_additional(r, err));
    /* Files of their own replace what the configuration has. */
    for (int i = 0; i < 2 && r->n == 0; i++) {
        json_t *config;
        WR_TRY(read_json(r->folder, files[i], &config, err));
        weir_status st = give_value(r, files[i], json_object_get(config, "chat_template"), err);
        json_decref(config);
        WR_TRY(st);
    }
    return WEIR_OK;
}

/* ---- GGUF ---- */

static weir_status gguf_template(reader *r, const wr_gguf *g, const char *name, weir_error *err) {
    char key[160] = "tokenizer.chat_template";
    const char *text;
    size_t bytes;
    bool is_default = strcmp(name, "default") == 0;
    if (!is_default) snprintf(key, sizeof key, "tokenizer.chat_template.%.100s", name);
    return wr_gguf_string(g, key, &text, &bytes) ? give(r, name, text, bytes, err) : WEIR_OK;
}

static weir_status gguf_templates(reader *r, const wr_gguf *g, weir_error *err) {
    static const char list[] = "tokenizer.chat_templates";
    wr_gguf_type type;
    int64_t n;
    WR_TRY(gguf_template(r, g, "default", err));
    if (!wr_gguf_array(g, list, &type, &n) || type != WR_GGUF_STRING) n = 0;
    for (int64_t i = 0; i < n && i < NAMES_MAX; i++) {
        const char *text;
        size_t bytes;
        char name[101];
        if (!wr_gguf_array_string(g, list, i, &text, &bytes) || bytes >= sizeof name) continue;
        memcpy(name, text, bytes);
        name[bytes] = 0;
        if (strcmp(name, "default") != 0) WR_TRY(gguf_template(r, g, name, err));
    }
    /* Some writers leave the list out. */
    return n ? WEIR_OK : gguf_template(r, g, "tool_use", err);
}

weir_status wr_chat_source_templates(const wr_checkpoint *c, wr_chat_source_callback callback, void *context,
                                     weir_error *err) {
    reader r = {.folder = wr_checkpoint_path(c), .callback = callback, .context = context};
    const wr_gguf *gguf = wr_checkpoint_gguf(c);
    return gguf ? gguf_templates(&r, gguf, err) : folder_templates(&r, err);
}

/* ---- special tokens ---- */

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), k = strlen(end);
    return n > k && strcmp(text + n - k, end) == 0;
}

/* The values of an object that name a token and are not known yet: texts, or objects with `content`. any: all
 * of its keys count, else those that end in _token. */
static bool add_tokens(const json_t *object, bool any, json_t *tokens) {
    for (void *it = json_object_iter((json_t *)object); it; it = json_object_iter_next((json_t *)object, it)) {
        const char *key = json_object_iter_key(it);
        json_t *value = json_object_iter_value(it);
        if (json_is_object(value)) value = json_object_get(value, "content");
        if (!json_is_string(value) || (!any && !ends_with(key, "_token")) || json_object_get(tokens, key)) continue;
        if (json_object_set(tokens, key, value) != 0) return false;
    }
    return true;
}

static weir_status tokens_of_file(const char *folder, const char *file, json_t *tokens, weir_error *err) {
    json_t *config;
    WR_TRY(read_json(folder, file, &config, err));
    bool done = add_tokens(config, false, tokens) &&
                add_tokens(json_object_get(config, "extra_special_tokens"), true, tokens) &&
                add_tokens(json_object_get(config, "model_specific_special_tokens"), true, tokens);
    json_decref(config);
    return done ? WEIR_OK : NO_MEMORY;
}

static weir_status tokens_of_gguf(const wr_gguf *g, json_t *tokens, weir_error *err) {
    static const char *const names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                        "pad_token", "cls_token", "mask_token"};
    enum { N_NAMES = sizeof names / sizeof *names };
    static const char *const keys[N_NAMES] = {"tokenizer.ggml.bos_token_id",     "tokenizer.ggml.eos_token_id",
                                              "tokenizer.ggml.unknown_token_id", "tokenizer.ggml.seperator_token_id",
                                              "tokenizer.ggml.padding_token_id", "tokenizer.ggml.cls_token_id",
                                              "tokenizer.ggml.mask_token_id"};
    for (size_t i = 0; i < N_NAMES; i++) {
        const char *text;
        size_t bytes;
        int64_t id;
        if (!wr_gguf_int(g, keys[i], &id) || !wr_gguf_array_string(g, "tokenizer.ggml.tokens", id, &text, &bytes))
            continue;
        json_t *value = json_stringn(text, bytes); /* NULL too for a piece that is no text */
        if (value && json_object_set_new(tokens, names[i], value) != 0) return NO_MEMORY;
    }
    return WEIR_OK;
}

weir_status wr_chat_source_tokens(const wr_checkpoint *c, json_t **out, weir_error *err) {
    const wr_gguf *gguf = wr_checkpoint_gguf(c);
    const char *folder = wr_checkpoint_path(c);
    *out = NULL;
    wr_json_setup();
    json_t *tokens = json_object();
    if (!tokens) return NO_MEMORY;
    weir_status st =
        gguf ? tokens_of_gguf(gguf, tokens, err) : tokens_of_file(folder, "tokenizer_config.json", tokens, err);
    if (st == WEIR_OK && !gguf) st = tokens_of_file(folder, "special_tokens_map.json", tokens, err);
    if (st != WEIR_OK) {
        json_decref(tokens);
        return st;
    }
    *out = tokens;
    return WEIR_OK;
}
