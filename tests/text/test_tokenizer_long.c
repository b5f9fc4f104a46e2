/* Long and monotonous texts: time stays near linear, and results do not depend on
 * how the text came. */
#include "text_test.h"

enum { MEGABYTE = 1 << 20 };

static double encode_megabyte(const weir_tokenizer *tok, const char *text, size_t n, size_t *tokens) {
    weir_error err = {0};
    double begin = now_s();
    weir_status st = weir_tokenizer_encode(tok, text, n, WEIR_ENCODE_PARSE_SPECIAL, NULL, 0, tokens, &err);
    if (st != WEIR_OK) fail_msg("%s", err.message);
    return now_s() - begin;
}

/* every: one text of so many, since a megabyte takes up to a second. */
static void check_megabytes(const char *file, size_t every) {
    weir_tokenizer *tok = open_model(file);
    if (!tok) skip();
    char *text = malloc(MEGABYTE);
    static const struct {
        const char *name, *unit;
    } texts[] = {{"one letter", "a"},
                 {"spaces", " "},
                 {"newlines", "\n"},
                 {"digits", "7"},
                 {"punctuation", "!"},
                 {"emoji", "\xF0\x9F\x98\x80"},
                 {"marks", "\xCC\x81"},
                 {"marks out of order", "\xCC\x81\xCC\xA3"},
                 {"open special", "<|"},
                 {"special", "<|im_start|>"},
                 {"words", "the cat sat, "},
                 {"invalid", "\xFF"},
                 {"Hangul", "\xE1\x84\x92\xE1\x85\xA1"},
                 {"spaces and newlines", "  \n"},
                 {"contractions", "'s"},
                 {"letters and marks", "e\xCC\x81"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i += every) {
        size_t unit = strlen(texts[i].unit), n = MEGABYTE / unit * unit, tokens;
        for (size_t k = 0; k < n; k++) text[k] = texts[i].unit[k % unit];
        double took = encode_megabyte(tok, text, n, &tokens);
        if (getenv("WEIR_TEST_FIGURES")) {
            fprintf(stderr, "%s, a megabyte of %s: %.0f ms, %zu tokens\n", file, texts[i].name, took * 1e3, tokens);
        }
        assert_true(tokens > 0);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
        if (took > 2) fail_msg("%s: a megabyte of %s took %.2f s", file, texts[i].name, took);
#endif
    }
    free(text);
    weir_tokenizer_close(tok);
}

static void smollm2_takes_a_megabyte_of_anything_under_two_seconds(void **state) {
    (void)state;
    check_megabytes(SMOLLM2, 1);
}

static void qwen2_takes_a_megabyte_of_anything_under_two_seconds(void **state) {
    (void)state;
    check_megabytes(QWEN2, 5);
}

static void gemma3_takes_a_megabyte_of_anything_under_two_seconds(void **state) {
    (void)state;
    check_megabytes(GEMMA3, 4);
}

/* Byte-level vocabularies lose nothing: any valid text comes back. A random walk over
 * code points of all planes; the seed is fixed. */
static void random_text_comes_back(void **state) {
    (void)state;
    weir_tokenizer *tok = open_model(SMOLLM2);
    uint64_t seed = 88172645463325252u;
    for (int round = 0; round < 300; round++) {
        uint8_t text[512];
        size_t n = 0;
        while (n < 400) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            static const uint32_t limits[] = {0x80, 0x80, 0x250, 0x3000, 0xFFFF, 0x10FFFF};
            uint32_t cp = (uint32_t)(seed >> 20) % limits[seed % 6];
            if (cp >= 0xD800 && cp <= 0xDFFF) continue;
            /* SmolLM2 has no tokens for some control characters and for the bytes F1 and F2. */
            if (cp < 0x20 || (cp >= 0x40000 && cp < 0xC0000)) continue;
            n += (size_t)(cp < 0x80      ? sprintf((char *)text + n, "%c", (int)cp)
                          : cp < 0x800   ? sprintf((char *)text + n, "%c%c", 0xC0 | cp >> 6, 0x80 | (cp & 63))
                          : cp < 0x10000 ? sprintf((char *)text + n, "%c%c%c", 0xE0 | cp >> 12, 0x80 | (cp >> 6 & 63),
                                                   0x80 | (cp & 63))
                                         : sprintf((char *)text + n, "%c%c%c%c", 0xF0 | cp >> 18,
                                                   0x80 | (cp >> 12 & 63), 0x80 | (cp >> 6 & 63), 0x80 | (cp & 63)));
        }
        weir_encoding e;
        char *back;
        size_t bytes, at = 0;
        assert_int_equal(weir_tokenizer_encode_new(tok, (char *)text, n, 0, true, &e, NULL), WEIR_OK);
        assert_int_equal(weir_tokenizer_decode(tok, e.ids, e.n, 0, &back, &bytes, NULL), WEIR_OK);
        assert_int_equal(bytes, n);
        assert_memory_equal(back, text, n);
        /* The tokens' bytes follow one another, and a span is the characters that they are of. */
        for (size_t i = 0; i < e.n; i++) {
            char piece[600];
            size_t k = weir_tokenizer_token_bytes(tok, e.ids[i], piece, sizeof piece), begin = at, end = at + k;
            assert_memory_equal(piece, text + at, k);
            at += k;
            while (begin > 0 && (text[begin] & 0xC0) == 0x80) begin--;
            while (end < n && (text[end] & 0xC0) == 0x80) end++;
            assert_int_equal(e.spans[i].begin, begin);
            assert_int_equal(e.spans[i].end, end);
        }
        assert_int_equal(at, n);
        weir_encoding_deinit(&e);
        weir_text_free(back);
    }
    weir_tokenizer_close(tok);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smollm2_takes_a_megabyte_of_anything_under_two_seconds),
        cmocka_unit_test(qwen2_takes_a_megabyte_of_anything_under_two_seconds),
        cmocka_unit_test(gemma3_takes_a_megabyte_of_anything_under_two_seconds),
        cmocka_unit_test(random_text_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
