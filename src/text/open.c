/* Finds out what kind of tokenizer a path names, and opens it. */
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "file/json.h"
#include "text/formats.h"
#include "text/open_json.h"

#define FILE_BYTES_MAX   ((size_t)1 << 28)
#define CONFIG_BYTES_MAX ((size_t)1 << 24)

static weir_status no_memory(weir_error *err) { return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a tokenizer"); }

/* Names that a folder's tokenizer may have, the fullest description first. */
static const char *const file_names[] = {"tokenizer.json",          "tekken.json",    "tokenizer.model", "spiece.model",
                                         "sentencepiece.bpe.model", "tiktoken.model", "qwen.tiktoken",   "vocab.txt"};
enum { N_FILE_NAMES = sizeof file_names / sizeof *file_names };

/* tiktoken's files are lines of base64, a space and digits; a protocol buffer begins with
 * a control character. */
static bool is_tiktoken(const char *text, size_t bytes) {
    size_t n = 0;
    while (n < bytes && n < 4096 && text[n] > ' ' && text[n] < 0x7F) n++;
    return n > 0 && n + 1 < bytes && text[n] == ' ' && text[n + 1] >= '0' && text[n + 1] <= '9';
}

static wr_tok_format find_format(const char *path, const char *text, size_t bytes) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t at = 0, n = strlen(name);
    if (n >= 9 && strcmp(name + n - 9, "vocab.txt") == 0) return wr_tok_build_wordpiece;
    while (at < bytes && strchr(" \t\r\n", text[at]) && text[at]) at++;
    if ((at < bytes && text[at] == '{') || (n > 5 && strcmp(name + n - 5, ".json") == 0)) {
        return strncmp(name, "tekken", 6) == 0 ? wr_tok_build_tekken : wr_tok_build_json;
    }
    return is_tiktoken(text, bytes) ? wr_tok_build_tiktoken : wr_tok_build_sentencepiece;
}

static weir_status open_text(wr_tok_format format, const char *text, size_t bytes, const char *config,
                             size_t config_bytes, weir_tokenizer **out, weir_error *err) {
    weir_tokenizer *tok = NULL;
    json_t *root = NULL;
    weir_status st;
    *out = NULL;
    WR_TRY_GOTO(st, wr_tok_new(&tok, err), done);
    if (config) WR_TRY_GOTO(st, wr_json_parse(config, config_bytes, "tokenizer_config.json", &root, err), done);
    WR_TRY_GOTO(st, format(tok, text, bytes, root, err), done);
    if (root) WR_TRY_GOTO(st, wr_tok_read_config(tok, root, err), done);
    st = wr_tok_finish(tok, err);
done:
    json_decref(root);
    if (st != WEIR_OK) {
        weir_tokenizer_close(tok);
        return st;
    }
    *out = tok;
    return WEIR_OK;
}

weir_status wr_tokenizer_open_text(const char *name, const char *text, size_t bytes, const char *config,
                                   size_t config_bytes, weir_tokenizer **out, weir_error *err) {
    return open_text(find_format(name, text, bytes), text, bytes, config, config_bytes, out, err);
}

static weir_status open_file(const char *path, const char *config, size_t config_bytes, weir_tokenizer **out,
                             weir_error *err) {
    char *text = NULL;
    size_t bytes = 0;
    *out = NULL;
    WR_TRY(wr_file_read(path, FILE_BYTES_MAX, &text, &bytes, err));
    weir_status st = wr_tokenizer_open_text(path, text, bytes, config, config_bytes, out, err);
    if (st != WEIR_OK) wr_err_context(err, "loading %s", path);
    wr_free(text);
    return st;
}

weir_status wr_tokenizer_open_json(const char *tokenizer_path, const char *config_path, weir_tokenizer **out,
                                   weir_error *err) {
    char *config = NULL;
    size_t bytes = 0;
    *out = NULL;
    if (config_path) WR_TRY(wr_file_read(config_path, CONFIG_BYTES_MAX, &config, &bytes, err));
    weir_status st = open_file(tokenizer_path, config, bytes, out, err);
    wr_free(config);
    return st;
}

/* The tokenizer file of a folder; NULL when there is none or no memory. Freed with wr_free. */
static char *find_file(const char *folder) {
    for (size_t i = 0; i < N_FILE_NAMES; i++) {
        char *path = wr_path_join(folder, file_names[i]);
        if (!path || wr_path_is_file(path)) return path;
        wr_free(path);
    }
    return NULL;
}

bool wr_tokenizer_in_folder(const char *folder) {
    char *path = find_file(folder);
    bool there = path != NULL;
    if (!there) {
        path = wr_path_join(folder, "vocab.json");
        there = !path || wr_path_is_file(path);
    }
    wr_free(path);
    return there;
}

/* A file that may be absent: *text stays NULL then. Any other failure is one. */
static weir_status read_optional(const char *folder, const char *name, char **text, size_t *bytes, weir_error *err) {
    weir_error why;
    char *path = wr_path_join(folder, name);
    if (!path) return no_memory(err);
    weir_status st = wr_file_read(path, CONFIG_BYTES_MAX, text, bytes, &why);
    wr_free(path);
    if (st == WEIR_E_NOT_FOUND) {
        *text = NULL;
        return WEIR_OK;
    }
    if (st != WEIR_OK && err) *err = why;
    return st;
}

weir_status wr_tokenizer_open_folder(const char *folder, weir_tokenizer **out, weir_error *err) {
    char *path = NULL, *config = NULL, *jinja = NULL;
    weir_tokenizer *tok = NULL;
    size_t config_bytes = 0, jinja_bytes = 0;
    weir_status st;
    *out = NULL;
    WR_TRY_GOTO(st, read_optional(folder, "tokenizer_config.json", &config, &config_bytes, err), done);
    WR_TRY_GOTO(st, read_optional(folder, "chat_template.jinja", &jinja, &jinja_bytes, err), done);
    path = find_file(folder);
    if (!path && !(path = wr_path_join(folder, file_names[0]))) { /* it names what is missing */
        st = no_memory(err);
        goto done;
    }
    WR_TRY_GOTO(st, open_file(path, config, config_bytes, &tok, err), done);
    if (jinja) st = wr_tokenizer_set_chat_template(tok, jinja, err);
done:
    wr_free(path);
    wr_free(config);
    wr_free(jinja);
    if (st != WEIR_OK) {
        weir_tokenizer_close(tok);
        return st;
    }
    *out = tok;
    return WEIR_OK;
}

static weir_status open_gguf_file(const char *path, weir_tokenizer **out, weir_error *err) {
    wr_gguf *gguf;
    WR_TRY(wr_gguf_open(path, &gguf, err));
    weir_status st = wr_tokenizer_open_gguf(gguf, out, err);
    if (st != WEIR_OK) wr_err_context(err, "loading %s", path);
    wr_gguf_close(gguf);
    return st;
}

weir_status weir_tokenizer_open(const char *path, weir_tokenizer **out, weir_error *err) {
    *out = NULL;
    if (wr_path_is_folder(path)) return wr_tokenizer_open_folder(path, out, err);
    size_t n = strlen(path);
    if (n > 5 && strcmp(path + n - 5, ".gguf") == 0) return open_gguf_file(path, out, err);
    return open_file(path, NULL, 0, out, err);
}
