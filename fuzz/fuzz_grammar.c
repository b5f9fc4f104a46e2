/* Constrained output. The first byte says what the source is (s: schema, g: GBNF, r: expression, c: choices, a line
 * each; capital S: a schema with bounded whitespace and plain strings), then the source up to a 0 byte, then a text.
 * What compiles is used: the text is read by bytes and by tokens of a small vocabulary, masks must be exact, what a
 * mask allows must be accepted, and steps taken back must leave the same mask. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "text/tokenizer.h"
#include "weir/grammar.h"

enum { N_TOKENS = 256 + 24, N_WORDS = (N_TOKENS + 31) / 32, CACHE_BYTES = 8 << 20 };

static const char *const pieces[] = {"\"",  "\":",  "\",", "{\"", "}",   "]",  "[[", "\\u", "00",  "a",    "ab",
                                     "abc", "true", "12",  "1.",  " \"", "\n", "  ", "}}",  "\"}", "name", "x"};

static bool get_piece(void *context, size_t i, const char **text, size_t *bytes) {
    static char byte[8];
    (void)context;
    if (i < 256) {
        static const char digits[] = "0123456789ABCDEF";
        memcpy(byte, "<0x00>", 7);
        byte[3] = digits[i / 16];
        byte[4] = digits[i % 16];
        *text = byte;
    } else {
        *text = i == N_TOKENS - 1 ? "</s>" : i == N_TOKENS - 2 ? "<unk>" : pieces[i - 256];
    }
    *bytes = strlen(*text);
    return true;
}

static weir_token_index *index_of_tokens(void) {
    static weir_token_index *index;
    if (index) return index;
    static float scores[N_TOKENS];
    static int32_t types[N_TOKENS];
    wr_vocab_source src;
    wr_vocab_source_init(&src);
    for (int i = 0; i < N_TOKENS; i++) types[i] = i < 256 ? 6 : 1;
    types[N_TOKENS - 1] = 3;
    types[N_TOKENS - 2] = 2;
    src.model = "llama";
    src.tokens = (wr_string_list){N_TOKENS, get_piece, NULL};
    src.scores = scores;
    src.token_type = types;
    src.unk_id = N_TOKENS - 2;
    src.eos_id = N_TOKENS - 1;
    weir_tokenizer *tok;
    if (wr_tokenizer_open_vocab(&src, &tok, NULL) != WEIR_OK || weir_token_index_new(tok, &index, NULL) != WEIR_OK)
        abort();
    weir_tokenizer_close(tok);
    return index;
}

static weir_status compile(char kind, const char *source, size_t n, weir_grammar **out, weir_error *err) {
    weir_schema_options plain = {
        .max_whitespace = 2, .plain_strings = true, .plain_numbers = true, .one_of_as_any_of = true};
    if (kind == 'g') return weir_grammar_from_gbnf(source, n, out, err);
    if (kind == 'r') return weir_grammar_from_regex(source, n, out, err);
    if (kind != 'c') return weir_grammar_from_schema(source, n, kind == 'S' ? &plain : NULL, out, err);
    const char *texts[16];
    size_t bytes[16], count = 0;
    for (const char *p = source, *end = source + n; p <= end && count < 16;) {
        const char *stop = p < end ? memchr(p, '\n', (size_t)(end - p)) : NULL;
        texts[count] = p;
        bytes[count++] = (size_t)((stop ? stop : end) - p);
        p = stop ? stop + 1 : end + 1;
    }
    return weir_grammar_from_choices(texts, bytes, count, out, err);
}

static bool bit(const uint32_t *mask, int32_t id) { return mask[id >> 5] >> (id & 31) & 1; }

/* The mask here against each token's acceptance; false when the grammar is at a limit. */
static bool check_mask(weir_constraint_state *s) {
    uint32_t mask[N_WORDS], again[N_WORDS];
    if (weir_constraint_state_mask(s, mask, N_WORDS, NULL) != WEIR_OK) return false;
    bool any = false;
    for (int32_t id = 0; id < N_TOKENS; id++) {
        weir_status st = weir_constraint_state_accept(s, id, NULL);
        if (st != WEIR_OK && st != WEIR_E_ARGUMENT) return false;
        if ((st == WEIR_OK) != bit(mask, id)) __builtin_trap();
        if (st == WEIR_OK && weir_constraint_state_rollback(s, 1, NULL) != WEIR_OK) __builtin_trap();
        any |= st == WEIR_OK;
    }
    /* Every byte is a token, so a text that fits can go on. */
    if (!any && !weir_constraint_state_ended(s)) __builtin_trap();
    if (weir_constraint_state_mask(s, again, N_WORDS, NULL) != WEIR_OK) return false;
    if (memcmp(mask, again, sizeof mask) != 0) __builtin_trap();
    return true;
}

static void check_forced(weir_constraint_state *s) {
    char forced[64];
    size_t n, taken;
    if (weir_constraint_state_forced(s, forced, sizeof forced, &n, NULL) != WEIR_OK || !n) return;
    weir_status st = weir_constraint_state_accept_bytes(s, forced, n, &taken, NULL);
    if (st == WEIR_E_ARGUMENT) __builtin_trap();
    if (st == WEIR_OK && weir_constraint_state_rollback(s, 1, NULL) != WEIR_OK) __builtin_trap();
}

static void use(weir_grammar *g, const char *text, size_t n) {
    weir_constraint *k;
    weir_constraint_state *s, *whole;
    if (weir_constraint_new(g, index_of_tokens(), CACHE_BYTES, &k, NULL) != WEIR_OK) return;
    if (weir_constraint_state_new(k, 3, &s, NULL) == WEIR_OK) {
        size_t taken = 0, i = 0;
        if (weir_constraint_state_new(k, 0, &whole, NULL) == WEIR_OK) {
            weir_constraint_state_accept_bytes(whole, text, n, &taken, NULL);
            weir_constraint_state_free(whole);
        }
        bool fine = check_mask(s);
        for (; fine && i < n && i < 24; i++) {
            check_forced(s);
            weir_status st = weir_constraint_state_accept_bytes(s, text + i, 1, NULL, NULL);
            if (st == WEIR_E_ARGUMENT && i < taken) __builtin_trap();
            if (st != WEIR_OK) break;
            fine = check_mask(s);
        }
        /* Then where the mask leads. */
        for (int step = 0; fine && step < 12; step++) {
            uint32_t mask[N_WORDS];
            int32_t chosen = -1;
            if (weir_constraint_state_mask(s, mask, N_WORDS, NULL) != WEIR_OK) break;
            for (int32_t id = 0; id < N_TOKENS; id++)
                if (bit(mask, (id * 7 + step) % N_TOKENS)) chosen = (id * 7 + step) % N_TOKENS;
            if (chosen < 0 || weir_constraint_state_accept(s, chosen, NULL) != WEIR_OK) break;
            if (step % 4 == 3) fine = check_mask(s);
        }
        weir_constraint_state_free(s);
    }
    weir_constraint_free(k);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    weir_error err = {0};
    weir_grammar *g = NULL;
    if (size < 2) return 0;
    const char *source = (const char *)data + 1, *end = (const char *)data + size;
    const char *zero = memchr(source, 0, size - 1);
    size_t n = (size_t)((zero ? zero : end) - source);
    if (compile((char)data[0], source, n, &g, &err) == WEIR_OK)
        use(g, zero ? zero + 1 : end, zero ? (size_t)(end - zero - 1) : 0);
    else if (!err.message[0])
        __builtin_trap();
    weir_grammar_release(g);
    return 0;
}
