/* The streaming decoder over byte-fallback and byte-level tokens. */
#include "text_test.h"

#include "base/fault.h"

static weir_tokenizer *open_fallback(void) {
    weir_tokenizer *tok;
    assert_int_equal(wr_tokenizer_open_json(DATA("tiny_fallback.tokenizer.json"), NULL, &tok, NULL), WEIR_OK);
    return tok;
}

static int32_t byte_token(const weir_tokenizer *tok, uint8_t byte) {
    char piece[8];
    snprintf(piece, sizeof piece, "<0x%02X>", byte);
    int32_t id = weir_tokenizer_find(tok, piece, 6);
    assert_true(id >= 0);
    return id;
}

/* Push bytes one token at a time; parts[i] is what push i must give, the last is finish. */
static void check_parts(const char *bytes, size_t n, const char *const parts[]) {
    weir_tokenizer *tok = open_fallback();
    weir_token_decoder dec;
    char out[64];
    size_t k;
    weir_token_decoder_init(&dec, tok, WEIR_DECODE_CONTINUE);
    for (size_t i = 0; i < n; i++) {
        int32_t id = byte_token(tok, (uint8_t)bytes[i]);
        assert_int_equal(weir_token_decoder_push(&dec, id, out, sizeof out, &k, NULL), WEIR_OK);
        assert_int_equal(k, strlen(parts[i]));
        assert_memory_equal(out, parts[i], k);
    }
    k = weir_token_decoder_finish(&dec, out, sizeof out);
    assert_int_equal(k, strlen(parts[n]));
    assert_memory_equal(out, parts[n], k);
    weir_tokenizer_close(tok);
}

#define R "\xEF\xBF\xBD" /* U+FFFD */

static void four_byte_tokens_give_one_emoji_at_the_last(void **state) {
    (void)state;
    check_parts("\xF0\x9F\x98\x80", 4, (const char *const[]){"", "", "", "\xF0\x9F\x98\x80", ""});
}

static void two_byte_tokens_give_one_letter_at_the_last(void **state) {
    (void)state;
    check_parts("\xC4\x8F!", 3, (const char *const[]){"", "\xC4\x8F", "!", ""});
}

static void character_cut_off_at_the_end_becomes_one_replacement(void **state) {
    (void)state;
    check_parts("a\xF0\x9F\x98", 4, (const char *const[]){"a", "", "", "", R});
    check_parts("\xC4", 1, (const char *const[]){"", R});
}

/* Unicode 15, chapter 3, table 3-8 and the bytes of fault 29. */
static void invalid_bytes_become_replacements_as_soon_as_they_are_known(void **state) {
    (void)state;
    check_parts("\xC0\x80", 2, (const char *const[]){R, R, ""});
    check_parts("\xED\xA0\x80", 3, (const char *const[]){"", R R, R, ""});
    check_parts("\xF4\x90\x80\x80", 4, (const char *const[]){"", R R, R, R, ""});
    check_parts("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF"
                "A",
                9, (const char *const[]){"", "", R, R, "", "", R, "", R "A", ""});
    check_parts("\xF0\x9F\xF0\x9F\x98\x80", 6, (const char *const[]){"", "", R, "", "", "\xF0\x9F\x98\x80", ""});
}

/* Every sequence of up to three bytes from a set that covers all states: what is streamed is what
 * Python's decoder gives for the whole, which here is: count of replacements by the standard's rule. */
static void streamed_text_is_always_valid(void **state) {
    (void)state;
    static const uint8_t set[] = {0x41, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC2,
                                  0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5, 0xFF};
    enum { N = sizeof set };
    weir_tokenizer *tok = open_fallback();
    int32_t ids[N];
    for (size_t i = 0; i < N; i++) ids[i] = byte_token(tok, set[i]);
    for (size_t code = 0; code < N * N * N * N; code++) {
        weir_token_decoder dec;
        char out[64];
        size_t n = 0, k, c = code;
        weir_token_decoder_init(&dec, tok, WEIR_DECODE_CONTINUE);
        for (int i = 0; i < 4; i++, c /= N) {
            assert_int_equal(weir_token_decoder_push(&dec, ids[c % N], out + n, sizeof out - n, &k, NULL), WEIR_OK);
            n += k;
        }
        n += weir_token_decoder_finish(&dec, out + n, sizeof out - n);
        json_t *text = json_stringn(out, n); /* jansson refuses what is not UTF-8 */
        if (!text) fail_msg("sequence %zu is not UTF-8", code);
        json_decref(text);
    }
    weir_tokenizer_close(tok);
}

static void first_space_is_taken_once_and_kept_when_text_continues(void **state) {
    (void)state;
    weir_tokenizer *tok = open_fallback();
    const char *piece = "\xE2\x96\x81";
    int32_t space = weir_tokenizer_find(tok, piece, 3), a = weir_tokenizer_find(tok, "a", 1);
    const int32_t ids[] = {space, space, a, space};
    char *text;
    size_t n;
    assert_int_equal(weir_tokenizer_decode(tok, ids, 4, 0, &text, &n, NULL), WEIR_OK);
    assert_string_equal(text, " a ");
    weir_text_free(text);
    assert_int_equal(weir_tokenizer_decode(tok, ids, 4, WEIR_DECODE_CONTINUE, &text, &n, NULL), WEIR_OK);
    assert_string_equal(text, "  a ");
    weir_text_free(text);
    /* A skipped control token in front changes nothing. */
    const int32_t more[] = {weir_tokenizer_bos(tok), space, a};
    assert_int_equal(weir_tokenizer_decode(tok, more, 3, WEIR_DECODE_SKIP_SPECIAL, &text, &n, NULL), WEIR_OK);
    assert_string_equal(text, "a");
    weir_text_free(text);
    weir_tokenizer_close(tok);
}

/* Fault 30: a byte-level file without a decoder is still turned back into text. */
static void byte_level_space_comes_back_without_a_declared_decoder(void **state) {
    (void)state;
    json_t *file = load_golden(DATA("tiny_bytes.tokenizer.json"));
    json_object_set_new(file, "decoder", json_null());
    char *json = json_dumps(file, JSON_COMPACT), *text;
    weir_tokenizer *tok;
    int32_t ids[32];
    size_t n, bytes;
    assert_int_equal(wr_tokenizer_open_text("tokenizer.json", json, strlen(json), NULL, 0, &tok, NULL), WEIR_OK);
    assert_int_equal(weir_tokenizer_encode(tok, "Hello world", 11, 0, ids, 32, &n, NULL), WEIR_OK);
    assert_int_equal(weir_tokenizer_decode(tok, ids, n, 0, &text, &bytes, NULL), WEIR_OK);
    assert_string_equal(text, "Hello world");
    weir_text_free(text);
    weir_tokenizer_close(tok);
    wr_free(json);
    json_decref(file);
}

static void push_allocates_nothing_and_tells_the_room_it_needs(void **state) {
    (void)state;
    weir_tokenizer *tok = open_model(SMOLLM2);
    weir_token_decoder dec;
    size_t cap = weir_tokenizer_push_bytes_max(tok), k;
    char *out = malloc(cap);
    weir_error err;
    weir_token_decoder_init(&dec, tok, 0);
    uint64_t before = wr_alloc_count();
    for (int32_t id = 0; id < weir_tokenizer_vocab_size(tok); id++) {
        assert_int_equal(weir_token_decoder_push(&dec, id, out, cap, &k, &err), WEIR_OK);
        assert_true(k <= cap);
    }
    weir_token_decoder_finish(&dec, out, cap);
    assert_int_equal(wr_alloc_count(), before);
    /* Refused for want of room, the decoder has not moved. */
    int32_t hello = weir_tokenizer_find(tok, "Hello", 5);
    assert_true(hello >= 0);
    assert_int_equal(weir_token_decoder_push(&dec, hello, out, 4, &k, &err), WEIR_E_LIMIT);
    assert_int_equal(weir_token_decoder_push(&dec, hello, out, 5, &k, &err), WEIR_OK);
    assert_memory_equal(out, "Hello", 5);
    assert_int_equal(weir_token_decoder_push(&dec, -1, out, 5, &k, &err), WEIR_E_ARGUMENT);
    /* An id that a padded vocabulary can sample but no token has. */
    assert_int_equal(weir_token_decoder_push(&dec, 1 << 30, out, 5, &k, &err), WEIR_OK);
    assert_int_equal(k, 0);
    free(out);
    weir_tokenizer_close(tok);
}

static void every_memory_failure_is_a_status_and_leaks_nothing(void **state) {
    (void)state;
    static const char text[] = "Caf\xC3\xA9 e\xCC\x81 <|im_start|> <lr> 12 \xFF word";
    char *json;
    size_t bytes;
    static const char config[] = "{\"bos_token\":\"<|bos|>\",\"chat_template\":\"x\"}";
    assert_int_equal(wr_file_read(DATA("tiny_bytes.tokenizer.json"), 1 << 20, &json, &bytes, NULL), WEIR_OK);
    bool done = false;
    uint64_t nth;
    for (nth = 1; !done; nth++) {
        weir_tokenizer *tok = NULL;
        weir_error err = {0};
        weir_encoding e = {0};
        char *back = NULL;
        size_t n;
        /* The JSON tree alone is thousands of allocations: step through them coarsely, then one by one. */
        wr_fault_arm(WR_FAULT_MEMORY, nth);
        weir_status st = wr_tokenizer_open_text("tokenizer.json", json, bytes, config, sizeof config - 1, &tok, &err);
        if (st == WEIR_OK) {
            st = weir_tokenizer_encode_new(tok, text, sizeof text - 1, 3, true, &e, &err);
            if (st == WEIR_OK) st = weir_tokenizer_decode(tok, e.ids, e.n, 0, &back, &n, &err);
        } else {
            assert_null(tok);
        }
        done = wr_fault_calls(WR_FAULT_MEMORY) < nth;
        wr_fault_arm(WR_FAULT_MEMORY, 0);
        if (st != WEIR_OK) {
            if (st != WEIR_E_MEMORY) fail_msg("failure %llu: %s", (unsigned long long)nth, err.message);
            assert_true(err.message[0] != 0);
        }
        weir_text_free(back);
        weir_encoding_deinit(&e);
        weir_tokenizer_close(tok);
        if (done) assert_int_equal(st, WEIR_OK);
        if (nth < 1500) nth += 12;
    }
    assert_true(nth > 100);
    wr_free(json);
}

static void every_file_failure_is_a_status_and_leaks_nothing(void **state) {
    (void)state;
    char folder[] = "/tmp/weir_text_XXXXXX", path[64], *json;
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"};
    size_t bytes;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(wr_file_read(DATA("tiny_bytes.tokenizer.json"), 1 << 20, &json, &bytes, NULL), WEIR_OK);
    const char *const texts[] = {json, "{\"chat_template\":\"old\",\"eos_token\":\"<|end|>\"}", "new"};
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fputs(texts[i], f);
        fclose(f);
    }
    weir_tokenizer *tok = NULL;
    weir_error err;
    weir_status st = WEIR_E_IO;
    for (uint64_t nth = 1; st != WEIR_OK; nth++) {
        wr_fault_arm(WR_FAULT_IO, nth);
        st = wr_tokenizer_open_folder(folder, &tok, &err);
        bool hit = wr_fault_calls(WR_FAULT_IO) >= nth;
        wr_fault_arm(WR_FAULT_IO, 0);
        if (st != WEIR_OK) {
            assert_int_equal(st, WEIR_E_IO);
            assert_null(tok);
        } else {
            assert_false(hit);
        }
        assert_true(nth < 100);
    }
    assert_string_equal(weir_tokenizer_chat_template(tok), "new");
    assert_int_equal(weir_tokenizer_eos(tok, NULL), 1);
    weir_tokenizer_close(tok);
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        remove(path);
    }
    remove(folder);
    wr_free(json);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(four_byte_tokens_give_one_emoji_at_the_last),
        cmocka_unit_test(two_byte_tokens_give_one_letter_at_the_last),
        cmocka_unit_test(character_cut_off_at_the_end_becomes_one_replacement),
        cmocka_unit_test(invalid_bytes_become_replacements_as_soon_as_they_are_known),
        cmocka_unit_test(streamed_text_is_always_valid),
        cmocka_unit_test(first_space_is_taken_once_and_kept_when_text_continues),
        cmocka_unit_test(byte_level_space_comes_back_without_a_declared_decoder),
        cmocka_unit_test(push_allocates_nothing_and_tells_the_room_it_needs),
        cmocka_unit_test(every_memory_failure_is_a_status_and_leaks_nothing),
        cmocka_unit_test(every_file_failure_is_a_status_and_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
