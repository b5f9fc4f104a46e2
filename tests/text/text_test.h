/* Helpers of the text tests: golden files, and GGUF metadata as a vocabulary. */
#ifndef TEXT_TEST_H
#define TEXT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/io.h"
#include "base/mem.h"
#include "file/gguf.h"
#include "file/json.h"
#include "text/chat.h"
#include "text/tokenizer.h"

#ifndef WR_SOURCE_DIR
#define WR_SOURCE_DIR "."
#endif
#define DATA(name) WR_SOURCE_DIR "/tests/data/text/" name

static inline json_t *load_golden(const char *path) {
    json_error_t fault;
    wr_json_setup(); /* as the library does, so that both may free */
    json_t *root = json_load_file(path, JSON_ALLOW_NUL, &fault);
    if (!root) fail_msg("%s: %s at line %d", path, fault.text, fault.line);
    return root;
}

/* Text of a case: "text", or bytes by "hex". Freed by the caller. */
static inline char *case_text(const json_t *c, size_t *bytes) {
    const json_t *text = json_object_get(c, "text");
    char *out;
    if (text) {
        *bytes = json_string_length(text);
        out = malloc(*bytes + 1);
        memcpy(out, json_string_value(text), *bytes + 1);
        return out;
    }
    const char *hex = json_string_value(json_object_get(c, "hex"));
    *bytes = strlen(hex) / 2;
    out = malloc(*bytes + 1);
    for (size_t i = 0; i < *bytes; i++) {
        unsigned byte;
        sscanf(hex + 2 * i, "%2x", &byte);
        out[i] = (char)byte;
    }
    return out;
}

/* Encode must give exactly these ids; also when only counted, and through encode_new with spans. */
static inline void check_encoding(const weir_tokenizer *tok, const char *name, const char *text, size_t bytes,
                                  unsigned flags, const json_t *ids) {
    weir_error err = {0};
    weir_encoding e;
    size_t n = json_array_size(ids), count = 0;
    if (weir_tokenizer_encode_new(tok, text, bytes, flags, true, &e, &err) != WEIR_OK) {
        fail_msg("%s, text \"%s\": %s", name, text, err.message);
    }
    bool same = e.n == n;
    for (size_t i = 0; same && i < n; i++) same = e.ids[i] == json_integer_value(json_array_get(ids, i));
    if (!same) {
        char got[2000] = "";
        for (size_t i = 0; i < e.n && strlen(got) < 1900; i++) sprintf(got + strlen(got), " %d", e.ids[i]);
        char *want = json_dumps(ids, JSON_COMPACT);
        fail_msg("%s, flags %u, text \"%s\":\n got%s\nwant %s", name, flags, text, got, want);
    }
    for (size_t i = 0; i < e.n; i++) {
        assert_true(e.spans[i].begin <= e.spans[i].end);
        assert_true(e.spans[i].end <= bytes);
    }
    assert_int_equal(weir_tokenizer_encode(tok, text, bytes, flags, NULL, 0, &count, &err), WEIR_OK);
    assert_int_equal(count, n);
    weir_encoding_deinit(&e);
}

/* ids as an allocated array. */
static inline int32_t *array_ids(const json_t *list, size_t *n) {
    *n = json_array_size(list);
    int32_t *ids = malloc((*n + 1) * sizeof *ids);
    for (size_t i = 0; i < *n; i++) ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return ids;
}

/* Whole decode and streamed decode must both give this text. */
static inline void check_decoding(const weir_tokenizer *tok, const char *name, const json_t *list, unsigned flags,
                                  const json_t *text) {
    weir_error err = {0};
    size_t n, bytes, streamed = 0, k;
    int32_t *ids = array_ids(list, &n);
    char *got;
    assert_int_equal(weir_tokenizer_decode(tok, ids, n, flags, &got, &bytes, &err), WEIR_OK);
    if (bytes != json_string_length(text) || memcmp(got, json_string_value(text), bytes) != 0) {
        char *shown = json_dumps(list, JSON_COMPACT);
        fail_msg("%s, ids %s:\n got \"%s\"\nwant \"%s\"", name, shown, got, json_string_value(text));
    }
    size_t cap = weir_tokenizer_push_bytes_max(tok);
    char *part = malloc(cap);
    weir_token_decoder dec;
    weir_token_decoder_init(&dec, tok, flags);
    for (size_t i = 0; i <= n; i++) {
        if (i == n) {
            k = weir_token_decoder_finish(&dec, part, cap);
        } else {
            assert_int_equal(weir_token_decoder_push(&dec, ids[i], part, cap, &k, &err), WEIR_OK);
        }
        assert_true(streamed + k <= bytes);
        assert_memory_equal(got + streamed, part, k);
        streamed += k;
        /* What came out so far ends between two characters. */
        assert_true(streamed == bytes || ((unsigned char)got[streamed] & 0xC0) != 0x80);
    }
    assert_int_equal(streamed, bytes);
    free(part);
    free(ids);
    weir_text_free(got);
}

/* Seconds of processor time of this thread: tests run beside others. */
static inline double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- Real models ---------------------------------------------------------- */

static inline void store_path(const char *file, char path[1024]) {
    const char *store = getenv("WEIR_STORE"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (store && *store) {
        snprintf(path, 1024, "%s/%s", store, file);
    } else if (cache && *cache) {
        snprintf(path, 1024, "%s/weir/store/%s", cache, file);
    } else {
        snprintf(path, 1024, "%s/.cache/weir/store/%s", home ? home : "", file);
    }
}

typedef struct gguf_vocab {
    wr_gguf *gguf;
    wr_vocab_source src;
    char model[32], pre[64];
    char *template;
    float *scores;
    int32_t *types;
    const char *key_merges;
} gguf_vocab;

static inline bool gguf_token(void *context, size_t i, const char **text, size_t *bytes) {
    return wr_gguf_array_string(context, "tokenizer.ggml.tokens", (int64_t)i, text, bytes);
}
static inline bool gguf_merge(void *context, size_t i, const char **text, size_t *bytes) {
    return wr_gguf_array_string(context, "tokenizer.ggml.merges", (int64_t)i, text, bytes);
}
static inline int32_t gguf_id(const wr_gguf *g, const char *key) {
    int64_t v;
    return wr_gguf_int(g, key, &v) ? (int32_t)v : -1;
}

/* False when the file is not there. */
static inline bool gguf_vocab_open(gguf_vocab *v, const char *file) {
    char path[1024];
    weir_error err = {0};
    wr_gguf_type type;
    int64_t n;
    memset(v, 0, sizeof *v);
    store_path(file, path);
    if (!wr_path_is_file(path)) return false;
    if (wr_gguf_open(path, &v->gguf, &err) != WEIR_OK) fail_msg("%s", err.message);
    wr_gguf *g = v->gguf;
    wr_vocab_source *s = &v->src;
    wr_vocab_source_init(s);
    const char *text;
    size_t bytes;
    assert_true(wr_gguf_string(g, "tokenizer.ggml.model", &text, &bytes));
    snprintf(v->model, sizeof v->model, "%.*s", (int)bytes, text);
    s->model = v->model;
    if (wr_gguf_string(g, "tokenizer.ggml.pre", &text, &bytes)) {
        snprintf(v->pre, sizeof v->pre, "%.*s", (int)bytes, text);
        s->pre = v->pre;
    }
    if (wr_gguf_string(g, "tokenizer.chat_template", &text, &bytes)) {
        v->template = strndup(text, bytes);
        s->chat_template = v->template;
    }
    assert_true(wr_gguf_array(g, "tokenizer.ggml.tokens", &type, &n));
    s->tokens = (wr_string_list){(size_t)n, gguf_token, g};
    if (wr_gguf_array(g, "tokenizer.ggml.merges", &type, &n)) s->merges = (wr_string_list){(size_t)n, gguf_merge, g};
    if (wr_gguf_array(g, "tokenizer.ggml.scores", &type, &n)) {
        v->scores = malloc((size_t)n * sizeof(float));
        for (int64_t i = 0; i < n; i++) {
            double x = 0;
            wr_gguf_array_float(g, "tokenizer.ggml.scores", i, &x);
            v->scores[i] = (float)x;
        }
        s->scores = v->scores;
    }
    if (wr_gguf_array(g, "tokenizer.ggml.token_type", &type, &n)) {
        v->types = malloc((size_t)n * sizeof(int32_t));
        for (int64_t i = 0; i < n; i++) {
            int64_t x = 0;
            wr_gguf_array_int(g, "tokenizer.ggml.token_type", i, &x);
            v->types[i] = (int32_t)x;
        }
        s->token_type = v->types;
    }
    s->bos_id = gguf_id(g, "tokenizer.ggml.bos_token_id");
    s->eos_id = gguf_id(g, "tokenizer.ggml.eos_token_id");
    s->eot_id = gguf_id(g, "tokenizer.ggml.eot_token_id");
    s->eom_id = gguf_id(g, "tokenizer.ggml.eom_token_id");
    s->unk_id = gguf_id(g, "tokenizer.ggml.unknown_token_id");
    s->pad_id = gguf_id(g, "tokenizer.ggml.padding_token_id");
    s->add_bos = gguf_id(g, "tokenizer.ggml.add_bos_token");
    s->add_eos = gguf_id(g, "tokenizer.ggml.add_eos_token");
    s->add_space_prefix = gguf_id(g, "tokenizer.ggml.add_space_prefix");
    return true;
}

static inline void gguf_vocab_close(gguf_vocab *v) {
    free(v->template);
    free(v->scores);
    free(v->types);
    wr_gguf_close(v->gguf);
}

#define SMOLLM2 "SmolLM2-135M-Instruct.Q4_1.gguf"
#define QWEN2   "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
#define GEMMA3  "gemma-3-270m-q4_k_m.gguf"

/* The tokenizer of a model of the store; NULL when an optional model is missing. */
static inline weir_tokenizer *open_model(const char *file) {
    gguf_vocab v;
    weir_tokenizer *tok;
    weir_error err = {0};
    if (!gguf_vocab_open(&v, file)) {
        if (strcmp(file, SMOLLM2) == 0) fail_msg("%s is not in the store; run make run once", file);
        return NULL;
    }
    if (wr_tokenizer_open_vocab(&v.src, &tok, &err) != WEIR_OK) fail_msg("%s: %s", file, err.message);
    gguf_vocab_close(&v); /* nothing of the file may be needed any more */
    return tok;
}

#endif
