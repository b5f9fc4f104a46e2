/* Tokenizers. The input is cut at 0 bytes: tokenizer.json, tokenizer_config.json, text.
 * An input that begins with 'W' is vocab.txt instead of tokenizer.json; one with 'K' is tekken.json and text, with 'R'
 * a tiktoken file, with 'P' SentencePiece's model (both whole). One that begins with 'V' is a vocabulary as GGUF
 * metadata has it instead: a byte of options, then lines of pieces, after a 0 byte lines of merges, after another the
 * text. What opens must encode any text, and what it decodes must be UTF-8. */
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

static void check_decode(const weir_tokenizer *tok, const int32_t *ids, size_t n, unsigned flags) {
    char *text, *part;
    size_t bytes, at = 0, k, cap = weir_tokenizer_push_bytes_max(tok);
    weir_token_decoder dec;
    if (weir_tokenizer_decode(tok, ids, n, flags, &text, &bytes, NULL) != WEIR_OK) return;
    if (wr_utf8_valid((const uint8_t *)text, bytes) != bytes || text[bytes]) __builtin_trap();
    part = wr_malloc(cap);
    weir_token_decoder_init(&dec, tok, flags);
    for (size_t i = 0; part && i < n; i++) {
        if (weir_token_decoder_push(&dec, ids[i], part, cap, &k, NULL) != WEIR_OK) __builtin_trap();
        if (wr_utf8_valid((const uint8_t *)part, k) != k) __builtin_trap();
        if (at + k > bytes || memcmp(text + at, part, k) != 0) __builtin_trap();
        at += k;
    }
    if (part && at + weir_token_decoder_finish(&dec, part, cap) != bytes) __builtin_trap();
    wr_free(part);
    weir_text_free(text);
}

static void check_encode(const weir_tokenizer *tok, const char *text, size_t bytes) {
    for (unsigned flags = 0; flags < 4; flags++) {
        weir_encoding e;
        size_t n;
        weir_status st = weir_tokenizer_encode_new(tok, text, bytes, flags, true, &e, NULL);
        if (st != WEIR_OK) return;
        for (size_t i = 0; i < e.n; i++) {
            if (!weir_tokenizer_piece(tok, e.ids[i], NULL)) __builtin_trap();
            if (e.spans[i].begin > e.spans[i].end || e.spans[i].end > bytes) __builtin_trap();
        }
        if (weir_tokenizer_encode(tok, text, bytes, flags, NULL, 0, &n, NULL) != WEIR_OK || n != e.n) __builtin_trap();
        check_decode(tok, e.ids, e.n, flags);
        weir_encoding_deinit(&e);
    }
}

static void check(weir_tokenizer *tok, const uint8_t *text, size_t bytes) {
    static const char fixed[] = "Hello, w\xC3\xB6rld!  12 3\n\t<|im_start|> e\xCC\x81\xE1\x84\x92\xE1\x85\xA1 "
                                "\xF0\x9F\x98\x80\xFF\xE2\x96\x81"
                                "ab";
    int32_t ids[64];
    check_encode(tok, (const char *)text, bytes);
    check_encode(tok, fixed, sizeof fixed - 1);
    int32_t size = weir_tokenizer_vocab_size(tok);
    for (int32_t i = 0; i < 64; i++) ids[i] = (int32_t)((uint32_t)i * 2654435761u % (uint32_t)(size + 1));
    for (unsigned flags = 0; flags < 4; flags++) check_decode(tok, ids, 64, flags);
    weir_tokenizer_close(tok);
}

/* The next part of the input, up to a 0 byte or the end. */
static const uint8_t *next_part(const uint8_t **at, const uint8_t *end, size_t *n) {
    const uint8_t *part = *at, *zero = part < end ? memchr(part, 0, (size_t)(end - part)) : NULL;
    *n = (size_t)((zero ? zero : end) - part);
    *at = zero ? zero + 1 : end;
    return part;
}

typedef struct lines {
    const uint8_t *at, *end;
} lines;

static bool next_line(void *context, size_t i, const char **text, size_t *bytes) {
    lines *l = context;
    (void)i;
    if (l->at >= l->end) return false;
    const uint8_t *stop = memchr(l->at, '\n', (size_t)(l->end - l->at));
    *text = (const char *)l->at;
    *bytes = (size_t)((stop ? stop : l->end) - l->at);
    l->at = stop ? stop + 1 : l->end;
    return true;
}

static size_t count_lines(const uint8_t *part, size_t n) {
    size_t count = n > 0;
    for (size_t i = 0; i + 1 < n; i++) count += part[i] == '\n';
    return count;
}

static void fuzz_vocab(const uint8_t *data, size_t size) {
    static const char *const pres[] = {NULL, "smollm", "qwen2", "llama-bpe"};
    const uint8_t *at = data + 2, *end = data + size;
    size_t np, nm, nt;
    uint8_t options = data[1];
    const uint8_t *pieces = next_part(&at, end, &np), *merges = next_part(&at, end, &nm);
    const uint8_t *text = next_part(&at, end, &nt);
    lines piece_lines = {pieces, pieces + np}, merge_lines = {merges, merges + nm};
    wr_vocab_source src;
    wr_vocab_source_init(&src);
    static const char *const models[] = {"llama", "t5", "bert", "llama"};
    src.model = options & 1 ? "gpt2" : models[options >> 2 & 3];
    src.squeeze_spaces = options >> 4 & 1;
    src.pre = options & 1 ? pres[options >> 1 & 3] : NULL;
    src.add_space_prefix = options & 1 ? 0 : options >> 1 & 1;
    src.tokens = (wr_string_list){count_lines(pieces, np), next_line, &piece_lines};
    src.merges = (wr_string_list){count_lines(merges, nm), next_line, &merge_lines};
    size_t n = src.tokens.n;
    if (n == 0 || n > 1000) return;
    int32_t types[1000];
    float scores[1000];
    for (size_t i = 0; i < n; i++) {
        /* Types by the line's first byte, so that a mutation can reach them all. */
        const char *piece = "";
        size_t bytes = 0;
        next_line(&piece_lines, i, &piece, &bytes);
        types[i] = bytes == 6 && piece[0] == '<' && piece[1] == '0' ? 6
                   : bytes && piece[0] == '<'                       ? 3
                   : bytes && piece[0] == '['                       ? 4
                                                                    : 1;
        scores[i] = -(float)(i * 7 % 31);
    }
    piece_lines.at = pieces;
    src.token_type = types;
    src.scores = scores;
    src.bos_id = options & 8 ? (int32_t)(options >> 4) : -1;
    src.eos_id = options & 16 ? (int32_t)(options >> 5) : -1;
    weir_tokenizer *tok;
    weir_error err;
    if (wr_tokenizer_open_vocab(&src, &tok, &err) == WEIR_OK) check(tok, text, nt);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    weir_tokenizer *tok;
    weir_error err;
    if (size >= 2 && data[0] == 'V') {
        fuzz_vocab(data, size);
        return 0;
    }
    const uint8_t *at = data, *end = data + size, *text = NULL;
    size_t nj = 0, nc = 0, nt = 0;
    weir_status st;
    if (size >= 2 && (data[0] == 'R' || data[0] == 'P')) {
        const char *name = data[0] == 'R' ? "a.tiktoken" : "tokenizer.model";
        st = wr_tokenizer_open_text(name, (const char *)data + 1, size - 1, NULL, 0, &tok, &err);
        if (st == WEIR_OK) check(tok, data, size);
        return 0;
    }
    bool tekken = size >= 2 && data[0] == 'K', words = size >= 2 && data[0] == 'W';
    at += tekken || words;
    const uint8_t *json = next_part(&at, end, &nj), *config = tekken ? NULL : next_part(&at, end, &nc);
    text = next_part(&at, end, &nt);
    const char *name = tekken ? "tekken.json" : words ? "vocab.txt" : "tokenizer.json";
    st = wr_tokenizer_open_text(name, (const char *)json, nj, nc ? (const char *)config : NULL, nc, &tok, &err);
    if (st == WEIR_OK) {
        check(tok, text, nt);
    } else if (!memchr(err.message, 0, sizeof err.message) || !err.message[0]) {
        __builtin_trap();
    }
    return 0;
}
