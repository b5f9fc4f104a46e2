/* The GGUF reader on any bytes: opened from memory, every tensor, known key and array
 * element read, and the configuration and names made from it. */
#include <stdint.h>

#include "file/config.h"
#include "file/gguf.h"
#include "file/gguf_hf.h"

static volatile uint8_t sum;

static void touch(const void *data, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) sum = (uint8_t)(sum + ((const uint8_t *)data)[i]);
}

static void read_key(const wr_gguf *g, const char *key) {
    int64_t integer, n;
    double real;
    const char *text;
    size_t bytes;
    wr_gguf_type type;
    wr_gguf_int(g, key, &integer);
    wr_gguf_float(g, key, &real);
    if (wr_gguf_string(g, key, &text, &bytes)) touch(text, bytes);
    if (!wr_gguf_array(g, key, &type, &n)) return;
    for (int64_t i = -1; i <= n; i++) {
        wr_gguf_array_int(g, key, i, &integer);
        wr_gguf_array_float(g, key, i, &real);
        if (wr_gguf_array_string(g, key, i, &text, &bytes)) touch(text, bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const keys[] = {"general.architecture",
                                       "general.alignment",
                                       "tokenizer.ggml.tokens",
                                       "tokenizer.ggml.scores",
                                       "k.i8",
                                       "k.f64",
                                       "a",
                                       "b"};
    wr_gguf *g;
    wr_config *config;
    weir_error err;
    if (wr_gguf_open_memory(data, size, "fuzz", &g, &err) != WEIR_OK) return 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) read_key(g, keys[i]);
    for (int64_t i = 0; i < wr_gguf_n_tensors(g); i++) {
        const wr_gguf_tensor *t = wr_gguf_tensor_at(g, i);
        char name[512];
        if (wr_gguf_tensor_find(g, t->name) != t) __builtin_trap();
        if (wr_gguf_hf_name(g, t->name, name, sizeof name, &err) != WEIR_OK) __builtin_trap();
        touch(t->data, t->bytes);
    }
    if (wr_gguf_hf_config(g, "fuzz", &config, &err) == WEIR_OK) wr_config_free(config);
    wr_gguf_close(g);
    return 0;
}
