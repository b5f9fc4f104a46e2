/* Tokenizers from tokenizer.json, against the `tokenizers` library. */
#include "text_test.h"

static weir_tokenizer *open_file(const char *path) {
    weir_tokenizer *tok;
    weir_error err = {0};
    if (wr_tokenizer_open_json(path, NULL, &tok, &err) != WEIR_OK) fail_msg("%s", err.message);
    return tok;
}

static void check_golden(const weir_tokenizer *tok, const char *path) {
    json_t *root = load_golden(path), *c;
    size_t i;
    json_array_foreach(json_object_get(root, "encode"), i, c) {
        size_t bytes;
        char *text = case_text(c, &bytes);
        const json_t *ids = json_object_get(c, "ids"), *plain = json_object_get(c, "plain");
        check_encoding(tok, path, text, bytes, WEIR_ENCODE_PARSE_SPECIAL, ids);
        check_encoding(tok, path, text, bytes, 0, plain ? plain : ids);
        free(text);
    }
    json_array_foreach(json_object_get(root, "decode"), i, c) {
        check_decoding(tok, path, json_object_get(c, "ids"), 0, json_object_get(c, "all"));
        check_decoding(tok, path, json_object_get(c, "ids"), WEIR_DECODE_SKIP_SPECIAL, json_object_get(c, "skip"));
    }
    json_decref(root);
}

static void byte_level_file_encodes_and_decodes_as_the_reference(void **state) {
    (void)state;
    weir_tokenizer *tok = open_file(DATA("tiny_bytes.tokenizer.json"));
    check_golden(tok, DATA("tiny_bytes.golden.json"));
    weir_tokenizer_close(tok);
}

static void merges_written_as_strings_are_the_same_tokenizer(void **state) {
    (void)state;
    weir_tokenizer *tok = open_file(DATA("tiny_bytes_old.tokenizer.json"));
    check_golden(tok, DATA("tiny_bytes.golden.json"));
    weir_tokenizer_close(tok);
}

static void byte_fallback_file_encodes_and_decodes_as_the_reference(void **state) {
    (void)state;
    weir_tokenizer *tok = open_file(DATA("tiny_fallback.tokenizer.json"));
    check_golden(tok, DATA("tiny_fallback.golden.json"));
    weir_tokenizer_close(tok);
}

static void special_tokens_are_added_once_as_the_file_declares(void **state) {
    (void)state;
    static const char *const names[] = {"tiny_bytes", "tiny_fallback"};
    for (int k = 0; k < 2; k++) {
        char path[512];
        snprintf(path, sizeof path, DATA("%s.tokenizer.json"), names[k]);
        weir_tokenizer *tok = open_file(path);
        snprintf(path, sizeof path, DATA("%s.golden.json"), names[k]);
        json_t *root = load_golden(path), *c;
        size_t i;
        json_array_foreach(json_object_get(root, "encode"), i, c) {
            size_t bytes;
            char *text = case_text(c, &bytes);
            /* The reference adds a second BOS to a text that has one; weir does not. */
            bool has = bytes && (strncmp(text, "<|bos|>", 7) == 0 || strncmp(text, "<s>", 3) == 0);
            if (!has) {
                check_encoding(tok, path, text, bytes, WEIR_ENCODE_PARSE_SPECIAL | WEIR_ENCODE_ADD_SPECIAL,
                               json_object_get(c, "added"));
            }
            free(text);
        }
        json_decref(root);
        weir_tokenizer_close(tok);
    }
}

static void text_that_starts_with_bos_gets_no_second_one(void **state) {
    (void)state;
    weir_tokenizer *tok = open_file(DATA("tiny_bytes.tokenizer.json"));
    int32_t once[8], with[8], bos = weir_tokenizer_find(tok, "<|bos|>", 7);
    size_t n, m;
    assert_int_equal(bos, weir_tokenizer_bos(tok));
    unsigned both = WEIR_ENCODE_ADD_SPECIAL | WEIR_ENCODE_PARSE_SPECIAL;
    assert_int_equal(weir_tokenizer_encode(tok, "a", 1, both, once, 8, &n, NULL), WEIR_OK);
    assert_int_equal(weir_tokenizer_encode(tok, "<|bos|>a", 8, both, with, 8, &m, NULL), WEIR_OK);
    assert_int_equal(n, 2);
    assert_int_equal(m, 2);
    assert_memory_equal(once, with, 2 * sizeof *once);
    assert_int_equal(once[0], bos);
    /* Spelled out by a stranger it is plain text, so BOS is added in front. */
    assert_int_equal(weir_tokenizer_encode(tok, "<|bos|>", 7, WEIR_ENCODE_ADD_SPECIAL, with, 8, &m, NULL), WEIR_OK);
    assert_true(m > 2 && with[0] == bos && with[1] != bos);
    weir_tokenizer_close(tok);
}

/* Spans cover the characters that the reference names. ASCII cases: a byte is a character. */
static void spans_are_the_offsets_of_the_reference(void **state) {
    (void)state;
    weir_tokenizer *tok = open_file(DATA("tiny_bytes.tokenizer.json"));
    json_t *root = load_golden(DATA("tiny_bytes.golden.json")), *c;
    size_t i, checked = 0;
    json_array_foreach(json_object_get(root, "encode"), i, c) {
        const json_t *offsets = json_object_get(c, "offsets");
        if (!offsets) continue;
        size_t bytes;
        char *text = case_text(c, &bytes);
        weir_encoding e;
        assert_int_equal(weir_tokenizer_encode_new(tok, text, bytes, WEIR_ENCODE_PARSE_SPECIAL, true, &e, NULL),
                         WEIR_OK);
        for (size_t k = 0; k < e.n; k++) {
            const json_t *pair = json_array_get(offsets, k);
            assert_int_equal(e.spans[k].begin, json_integer_value(json_array_get(pair, 0)));
            assert_int_equal(e.spans[k].end, json_integer_value(json_array_get(pair, 1)));
            checked++;
        }
        weir_encoding_deinit(&e);
        free(text);
    }
    assert_true(checked > 500);
    json_decref(root);
    weir_tokenizer_close(tok);
}

/* Each supported normaliser, pre-tokeniser, post-processor and decoder, put into a small file. */
static void every_supported_step_acts_as_in_the_reference(void **state) {
    (void)state;
    json_t *root = load_golden(DATA("steps.golden.json")), *texts = json_object_get(root, "texts"), *c;
    size_t i;
    json_array_foreach(json_object_get(root, "cases"), i, c) {
        const char *name = json_string_value(json_object_get(c, "name")), *key;
        char path[512];
        snprintf(path, sizeof path, DATA("%s.tokenizer.json"), json_string_value(json_object_get(c, "base")));
        json_t *file = load_golden(path), *value;
        json_object_foreach(json_object_get(c, "patch"), key, value) json_object_set(file, key, value);
        json_object_foreach(json_object_get(c, "model"), key, value)
            json_object_set(json_object_get(file, "model"), key, value);
        char *text = json_dumps(file, JSON_COMPACT);
        weir_tokenizer *tok;
        weir_error err = {0};
        if (wr_tokenizer_open_text("tokenizer.json", text, strlen(text), NULL, 0, &tok, &err) != WEIR_OK) {
            fail_msg("%s: %s", name, err.message);
        }
        const json_t *decoded = json_object_get(c, "decoded");
        for (size_t k = 0; k < json_array_size(texts); k++) {
            const json_t *t = json_array_get(texts, k), *ids = json_array_get(json_object_get(c, "ids"), k);
            check_encoding(tok, name, json_string_value(t), json_string_length(t),
                           WEIR_ENCODE_PARSE_SPECIAL | WEIR_ENCODE_ADD_SPECIAL, ids);
            if (decoded) check_decoding(tok, name, ids, WEIR_DECODE_SKIP_SPECIAL, json_array_get(decoded, k));
        }
        weir_tokenizer_close(tok);
        wr_free(text);
        json_decref(file);
    }
    json_decref(root);
}

static char *small_file(size_t *bytes) {
    char *text;
    assert_int_equal(wr_file_read(DATA("tiny_bytes.tokenizer.json"), 1 << 20, &text, bytes, NULL), WEIR_OK);
    return text;
}

static weir_tokenizer *open_with_config(const char *config) {
    size_t bytes;
    char *text = small_file(&bytes);
    weir_tokenizer *tok;
    weir_error err = {0};
    if (wr_tokenizer_open_text("tokenizer.json", text, bytes, config, strlen(config), &tok, &err) != WEIR_OK) {
        fail_msg("%s", err.message);
    }
    wr_free(text);
    return tok;
}

static void config_names_special_tokens_as_string_or_object(void **state) {
    (void)state;
    weir_tokenizer *tok = open_with_config(
        "{\"bos_token\":{\"__type\":\"AddedToken\",\"content\":\"<|bos|>\",\"lstrip\":false},\"eos_token\":\"<|end|>\","
        "\"pad_token\":\"<|im_end|>\",\"unk_token\":null,\"model_max_length\":1e30,\"chat_template\":[{\"name\":"
        "\"tool\","
        "\"template\":\"T\"},{\"name\":\"default\",\"template\":\"D\"}]}");
    const int32_t *eos;
    assert_int_equal(weir_tokenizer_bos(tok), weir_tokenizer_find(tok, "<|bos|>", 7));
    assert_int_equal(weir_tokenizer_eos(tok, &eos), 1);
    assert_int_equal(eos[0], weir_tokenizer_find(tok, "<|end|>", 7));
    assert_int_equal(weir_tokenizer_pad(tok), weir_tokenizer_find(tok, "<|im_end|>", 10));
    assert_int_equal(weir_tokenizer_unk(tok), -1);
    assert_string_equal(weir_tokenizer_chat_template(tok), "D");
    assert_true(weir_tokenizer_is_special(tok, eos[0]));
    assert_false(weir_tokenizer_is_special(tok, weir_tokenizer_find(tok, "<tool_call>", 11)));
    /* The engine adds what config.json lists; twice is once, and nonsense is refused. */
    assert_int_equal(wr_tokenizer_add_eos(tok, 3, NULL), WEIR_OK);
    assert_int_equal(wr_tokenizer_add_eos(tok, 3, NULL), WEIR_OK);
    assert_int_equal(weir_tokenizer_eos(tok, NULL), 2);
    assert_int_equal(wr_tokenizer_add_eos(tok, weir_tokenizer_vocab_size(tok), NULL), WEIR_E_ARGUMENT);
    assert_int_equal(wr_tokenizer_add_eos(tok, -1, NULL), WEIR_E_ARGUMENT);
    weir_tokenizer_close(tok);
}

static void config_turns_bos_off_and_eos_on(void **state) {
    (void)state;
    weir_tokenizer *tok =
        open_with_config("{\"bos_token\":\"<|bos|>\",\"eos_token\":\"<|end|>\",\"add_bos_token\":false,"
                         "\"add_eos_token\":true}");
    int32_t ids[4];
    size_t n;
    assert_int_equal(weir_tokenizer_encode(tok, "a", 1, WEIR_ENCODE_ADD_SPECIAL, ids, 4, &n, NULL), WEIR_OK);
    assert_int_equal(n, 2);
    assert_int_equal(ids[0], weir_tokenizer_find(tok, "a", 1));
    assert_int_equal(ids[1], weir_tokenizer_find(tok, "<|end|>", 7));
    weir_tokenizer_close(tok);
}

static void tokens_that_only_the_config_lists_are_found(void **state) {
    (void)state;
    weir_tokenizer *tok =
        open_with_config("{\"added_tokens_decoder\":{\"2000\":{\"content\":\"<new>\",\"lstrip\":false,\"normalized\":"
                         "false,\"rstrip\":false,\"single_word\":false,\"special\":true}}}");
    int32_t ids[8];
    size_t n;
    assert_int_equal(weir_tokenizer_encode(tok, "a<new>", 6, WEIR_ENCODE_PARSE_SPECIAL, ids, 8, &n, NULL), WEIR_OK);
    assert_int_equal(n, 2);
    assert_int_equal(ids[1], 2000);
    assert_int_equal(weir_tokenizer_vocab_size(tok), 2001);
    /* Ids between are unused: no piece, no text, no crash. */
    assert_null(weir_tokenizer_piece(tok, 1500, NULL));
    char *text;
    size_t bytes;
    assert_int_equal(weir_tokenizer_decode(tok, (int32_t[]){1500, ids[0]}, 2, 0, &text, &bytes, NULL), WEIR_OK);
    assert_string_equal(text, "a");
    weir_text_free(text);
    weir_tokenizer_close(tok);
}

static void too_little_room_is_told_with_the_need(void **state) {
    (void)state;
    weir_tokenizer *tok = open_file(DATA("tiny_bytes.tokenizer.json"));
    int32_t ids[3] = {-7, -7, -7}, all[16];
    size_t n, m;
    weir_error err = {0};
    assert_int_equal(weir_tokenizer_encode(tok, "xqzj", 4, 0, all, 16, &m, NULL), WEIR_OK);
    assert_int_equal(weir_tokenizer_encode(tok, "xqzj", 4, 0, ids, 2, &n, &err), WEIR_E_LIMIT);
    assert_int_equal(n, m);
    assert_memory_equal(ids, all, 2 * sizeof *ids);
    assert_int_equal(ids[2], -7);
    weir_tokenizer_close(tok);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(byte_level_file_encodes_and_decodes_as_the_reference),
        cmocka_unit_test(merges_written_as_strings_are_the_same_tokenizer),
        cmocka_unit_test(byte_fallback_file_encodes_and_decodes_as_the_reference),
        cmocka_unit_test(special_tokens_are_added_once_as_the_file_declares),
        cmocka_unit_test(text_that_starts_with_bos_gets_no_second_one),
        cmocka_unit_test(spans_are_the_offsets_of_the_reference),
        cmocka_unit_test(every_supported_step_acts_as_in_the_reference),
        cmocka_unit_test(config_names_special_tokens_as_string_or_object),
        cmocka_unit_test(config_turns_bos_off_and_eos_on),
        cmocka_unit_test(tokens_that_only_the_config_lists_are_found),
        cmocka_unit_test(too_little_room_is_told_with_the_need),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
