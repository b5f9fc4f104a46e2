/* Malformed tokenizers: every one is refused with a status and words of its own. */
#include "text_test.h"

#include <math.h>

/* Files of tests/data/text/hostile, and what the message must say. */
static const struct {
    const char *name;
    weir_status status;
    const char *word;
} files[] = {
    {"empty", WEIR_E_FORMAT, "line 1"},
    {"truncated", WEIR_E_FORMAT, "line 1"},
    {"not_utf8", WEIR_E_FORMAT, "byte 362 is not UTF-8"},
    {"lone_surrogate", WEIR_E_FORMAT, "valid escapes expected at byte 361"},
    {"nul_in_key", WEIR_E_FORMAT, "first piece is not in"},
    {"deep", WEIR_E_FORMAT, "nested"},
    {"root_is_list", WEIR_E_FORMAT, "must be an object"},
    {"unknown_root_key", WEIR_E_UNSUPPORTED, "\"pretokenizer\""},
    {"duplicate_key", WEIR_E_FORMAT, "duplicate"},
    {"trailing_text", WEIR_E_FORMAT, "end of file"},
    {"no_model", WEIR_E_FORMAT, "model is missing"},
    {"model_is_list", WEIR_E_FORMAT, "model is a list"},
    {"model_unknown", WEIR_E_UNSUPPORTED, "\"Trigram\""},
    {"model_type_number", WEIR_E_FORMAT, "model.type is an integer"},
    {"model_unknown_key", WEIR_E_UNSUPPORTED, "\"max_input_chars_per_word\""},
    {"dropout", WEIR_E_UNSUPPORTED, "model.dropout"},
    {"word_suffix", WEIR_E_FORMAT, "model.end_of_word_suffix is an integer"},
    {"vocab_missing", WEIR_E_FORMAT, "model.vocab is missing"},
    {"vocab_empty", WEIR_E_FORMAT, "model.vocab is empty"},
    {"vocab_is_list", WEIR_E_FORMAT, "model.vocab: an object expected"},
    {"vocab_id_text", WEIR_E_FORMAT, "model.vocab: an integer expected at byte 366"},
    {"vocab_id_real", WEIR_E_FORMAT, "model.vocab: an integer expected at byte 366"},
    {"vocab_id_negative", WEIR_E_FORMAT, "negative id -1"},
    {"vocab_id_huge", WEIR_E_LIMIT, "4000000000"},
    {"vocab_id_overflow", WEIR_E_FORMAT, "an integer expected"},
    {"vocab_id_twice", WEIR_E_FORMAT, "id 1 is given to"},
    {"vocab_empty_piece", WEIR_E_FORMAT, "empty piece"},
    {"merges_missing", WEIR_E_FORMAT, "model.merges is missing"},
    {"merges_is_object", WEIR_E_FORMAT, "model.merges: a list expected"},
    {"merge_unknown_left", WEIR_E_FORMAT, "first piece is not in"},
    {"merge_unknown_right", WEIR_E_FORMAT, "second piece is not in"},
    {"merge_unknown_result", WEIR_E_FORMAT, "result is not in"},
    {"merge_without_space", WEIR_E_FORMAT, "one space between"},
    {"merge_of_three", WEIR_E_FORMAT, "one space between"},
    {"merge_triple", WEIR_E_FORMAT, "is not two strings"},
    {"merge_number", WEIR_E_FORMAT, "neither a string nor a pair"},
    {"unk_unknown", WEIR_E_FORMAT, "model.unk_token \"<unk>\""},
    {"byte_fallback_text", WEIR_E_FORMAT, "model.byte_fallback is a string"},
    {"added_is_object", WEIR_E_FORMAT, "added_tokens is not a list"},
    {"added_is_text", WEIR_E_FORMAT, "must be an object"},
    {"added_without_id", WEIR_E_FORMAT, "has no id"},
    {"added_without_content", WEIR_E_FORMAT, "has no content"},
    {"added_other_id", WEIR_E_FORMAT, "has id 9 here and 0"},
    {"added_taken_id", WEIR_E_FORMAT, "id 2 is given to"},
    {"added_twice", WEIR_E_FORMAT, "comes twice"},
    {"added_id_huge", WEIR_E_LIMIT, "ids must be below"},
    {"added_id_negative", WEIR_E_FORMAT, "negative id"},
    {"added_unknown_flag", WEIR_E_UNSUPPORTED, "\"fuzzy\""},
    {"normalizer_precompiled", WEIR_E_FORMAT, "0 bytes of trie"},
    {"precompiled_missing", WEIR_E_FORMAT, "precompiled_charsmap is missing"},
    {"precompiled_not_base64", WEIR_E_FORMAT, "not base64"},
    {"precompiled_texts", WEIR_E_FORMAT, "not terminated"},
    {"unigram_unk", WEIR_E_FORMAT, "model.unk_id is 3"},
    {"unigram_pair", WEIR_E_FORMAT, "model.vocab[0] is not [piece, score]"},
    {"unigram_score_text", WEIR_E_FORMAT, "a number expected"},
    {"unigram_object", WEIR_E_FORMAT, "a list expected"},
    {"wordpiece_unk", WEIR_E_FORMAT, "model.unk_token \"[UNK]\""},
    {"wordpiece_max", WEIR_E_FORMAT, "max_input_chars_per_word is negative"},
    {"wordlevel_key", WEIR_E_UNSUPPORTED, "\"max_input_chars_per_word\""},
    {"vocab_comma", WEIR_E_FORMAT, "a value expected"},
    {"vocab_no_comma", WEIR_E_FORMAT, "a comma or the end"},
    {"vocab_control", WEIR_E_FORMAT, "a string that ends"},
    {"vocab_half_pair", WEIR_E_FORMAT, "valid escapes"},
    {"vocab_leading_zero", WEIR_E_FORMAT, "an integer expected"},
    {"vocab_unclosed", WEIR_E_FORMAT, "near end of file"},
    {"normalizer_without_type", WEIR_E_FORMAT, "normalizer.type is missing"},
    {"normalizer_is_text", WEIR_E_FORMAT, "normalizer is not an object"},
    {"normalizer_extra_key", WEIR_E_UNSUPPORTED, "\"option\""},
    {"normalizer_nested", WEIR_E_LIMIT, "levels"},
    {"normalizer_many", WEIR_E_LIMIT, "64 steps"},
    {"regex_open_group", WEIR_E_FORMAT, "split expression \"(a\""},
    {"regex_open_class", WEIR_E_UNSUPPORTED, "an open class"},
    {"regex_bad_property", WEIR_E_FORMAT, "split expression"},
    {"regex_recursion", WEIR_E_UNSUPPORTED, "this kind of group"},
    {"regex_verb", WEIR_E_UNSUPPORTED, "(*"},
    {"regex_nested_class", WEIR_E_UNSUPPORTED, "a class inside a class"},
    {"regex_intersection", WEIR_E_UNSUPPORTED, "&& inside a class"},
    {"regex_keep_out", WEIR_E_UNSUPPORTED, "an escape of this letter"},
    {"regex_counted_plus", WEIR_E_UNSUPPORTED, "behind a counted repeat"},
    {"regex_deep", WEIR_E_FORMAT, "split expression"},
    {"regex_long", WEIR_E_LIMIT, "65536"},
    {"regex_number_too_big", WEIR_E_FORMAT, "split expression"},
    {"split_no_pattern", WEIR_E_FORMAT, "pre_tokenizer.pattern is missing"},
    {"split_other_behavior", WEIR_E_UNSUPPORTED, "\"Sideways\""},
    {"pre_tokenizer_bert_key", WEIR_E_UNSUPPORTED, "\"lowercase\""},
    {"fixed_length_zero", WEIR_E_FORMAT, "length must be at least 1"},
    {"delimiter_long", WEIR_E_FORMAT, "delimiter must be one character"},
    {"metaspace_long", WEIR_E_FORMAT, "one character"},
    {"metaspace_scheme", WEIR_E_FORMAT, "prepend_scheme must be"},
    {"template_unknown_token", WEIR_E_FORMAT, "lacks \"<s>\""},
    {"template_bad_id", WEIR_E_FORMAT, "adds the token 77"},
    {"template_without_text", WEIR_E_UNSUPPORTED, "leaves the text out"},
    {"template_second_sequence", WEIR_E_UNSUPPORTED, "another sequence"},
    {"template_many", WEIR_E_LIMIT, "more than 8 tokens"},
    {"decoder_wordpiece_prefix", WEIR_E_FORMAT, "decoder.prefix is missing"},
    {"decoder_order", WEIR_E_UNSUPPORTED, "at this place"},
    {"decoder_strip_twice", WEIR_E_UNSUPPORTED, "\"Strip\" at this place"},
    {"decoder_replace_behind_fuse", WEIR_E_UNSUPPORTED, "behind Fuse"},
    {"decoder_suffix_inside", WEIR_E_UNSUPPORTED, "the suffix \"a\" inside"},
    {"decoder_many", WEIR_E_LIMIT, "more than 16 steps"},
    {"decoder_strip_huge", WEIR_E_FORMAT, "start and stop of 0 to"},
};

static void every_malformed_file_has_its_own_error(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[512];
        weir_tokenizer *tok = NULL;
        weir_error err = {0};
        snprintf(path, sizeof path, DATA("hostile/%s.json"), files[i].name);
        weir_status st = wr_tokenizer_open_json(path, NULL, &tok, &err);
        if (st != files[i].status || !strstr(err.message, files[i].word)) {
            fail_msg("%s: status %d, \"%s\" (expected %d and \"%s\")", files[i].name, st, err.message, files[i].status,
                     files[i].word);
        }
        assert_null(tok);
        assert_non_null(strstr(err.message, "hostile/")); /* which file */
    }
}

static void missing_file_is_not_found(void **state) {
    (void)state;
    weir_tokenizer *tok;
    weir_error err = {0};
    assert_int_equal(wr_tokenizer_open_json(DATA("no such file"), NULL, &tok, &err), WEIR_E_NOT_FOUND);
    assert_int_equal(wr_tokenizer_open_folder(DATA("hostile"), &tok, &err), WEIR_E_NOT_FOUND);
    assert_non_null(strstr(err.message, "tokenizer.json"));
}

static void malformed_configs_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *config, *word;
    } cases[] = {
        {"", "tokenizer_config.json"},
        {"[1]", "not an object"},
        {"{\"bos_token\":\"<nothing>\"}", "\"<nothing>\""},
        {"{\"eos_token\":5}", "eos_token is an integer"},
        {"{\"bos_token\":{\"content\":5}}", "content is an integer"},
        {"{\"add_bos_token\":true}", ""}, /* the file's own post-processor names BOS */
        {"{\"add_eos_token\":true}", "no such token"},
        {"{\"add_bos_token\":\"yes\"}", "true or false"},
        {"{\"chat_template\":5}", "neither a string nor a list"},
        {"{\"chat_template\":[5]}", "must be an object"},
        {"{\"added_tokens_decoder\":[]}", "not an object"},
        {"{\"added_tokens_decoder\":{\"x\":{\"content\":\"y\"}}}", "no id"},
        {"{\"added_tokens_decoder\":{\"5\":{\"content\":\"<y>\"}}}", "id 5 is given to"},
        {"{\"added_tokens_decoder\":{\"99999999999999999999\":{\"content\":\"<y>\"}}}", "ids must be below"},
    };
    char *json;
    size_t bytes;
    assert_int_equal(wr_file_read(DATA("tiny_bytes.tokenizer.json"), 1 << 20, &json, &bytes, NULL), WEIR_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weir_tokenizer *tok = NULL;
        weir_error err = {0};
        weir_status st =
            wr_tokenizer_open_text("tokenizer.json", json, bytes, cases[i].config, strlen(cases[i].config), &tok, &err);
        bool good = *cases[i].word ? st != WEIR_OK && strstr(err.message, cases[i].word) : st == WEIR_OK;
        if (!good) fail_msg("config %zu: status %d, \"%s\"", i, st, err.message);
        weir_tokenizer_close(tok);
    }
    wr_free(json);
}

/* ---- Vocabularies as GGUF metadata has them ------------------------------- */

static bool array_string(void *context, size_t i, const char **text, size_t *bytes) {
    *text = ((const char *const *)context)[i];
    *bytes = *text ? strlen(*text) : 0;
    return *text != NULL;
}

static const char *const pieces[] = {"a", "b", "ab", "<s>", "<0x41>"};
static const char *const merges[] = {"a b"};
static const int32_t types[] = {1, 1, 1, 3, 6};
static const float scores[] = {0, -1, -2, 0, 0};

static wr_vocab_source good_source(const char *model) {
    wr_vocab_source src;
    wr_vocab_source_init(&src);
    src.model = model;
    src.tokens = (wr_string_list){5, array_string, (void *)pieces};
    src.merges = (wr_string_list){1, array_string, (void *)merges};
    src.token_type = types;
    src.scores = scores;
    src.bos_id = 3;
    return src;
}

static void check_source(const wr_vocab_source *src, weir_status status, const char *word) {
    weir_tokenizer *tok = NULL;
    weir_error err = {0};
    weir_status st = wr_tokenizer_open_vocab(src, &tok, &err);
    if (st != status || !strstr(err.message, word)) {
        fail_msg("status %d, \"%s\" (expected %d and \"%s\")", st, err.message, status, word);
    }
    weir_tokenizer_close(tok);
}

static void malformed_metadata_has_its_own_error(void **state) {
    (void)state;
    wr_vocab_source s = good_source("gpt2");
    check_source(&s, WEIR_OK, "");
    s.model = NULL;
    check_source(&s, WEIR_E_FORMAT, "tokenizer.ggml.model is missing");
    s.model = "rwkv";
    check_source(&s, WEIR_E_UNSUPPORTED, "\"rwkv\"");
    s = good_source("gpt2");
    s.pre = "some-new-rule";
    check_source(&s, WEIR_E_UNSUPPORTED, "\"some-new-rule\"");
    s.pre = "gpt-2 olmo"; /* two names are no name */
    check_source(&s, WEIR_E_UNSUPPORTED, "\"gpt-2 olmo\"");
    s.pre = "";
    check_source(&s, WEIR_E_UNSUPPORTED, "\"\"");
    s = good_source("gpt2");
    s.tokens.n = 0;
    check_source(&s, WEIR_E_FORMAT, "tokens is missing");
    s.tokens.n = (size_t)1 << 40;
    check_source(&s, WEIR_E_LIMIT, "1099511627776 tokens");
    s = good_source("gpt2");
    s.merges.n = 0;
    check_source(&s, WEIR_E_FORMAT, "merges is missing");
    s.merges.n = (size_t)1 << 40;
    check_source(&s, WEIR_E_LIMIT, "1099511627776 entries");
    static const char *const bad_merges[][1] = {{"ab"}, {"a c"}, {"c a"}, {"b a"}, {" b"}, {""}, {NULL}};
    static const char *const words[] = {"space between", "right piece",   "left piece",    "joined piece",
                                        "space between", "space between", "no string at 0"};
    for (size_t i = 0; i < 7; i++) {
        s = good_source("gpt2");
        s.merges.context = (void *)bad_merges[i];
        check_source(&s, WEIR_E_FORMAT, words[i]);
    }
    static const char *const doubled[] = {"a", "b", "ab", "a", "<0x41>"};
    s = good_source("gpt2");
    s.tokens.context = (void *)doubled;
    check_source(&s, WEIR_E_FORMAT, "piece \"a\" has two ids, 0 and 3");
    static const char *const gap[] = {"a", "b", "ab", NULL, "<0x41>"};
    s.tokens.context = (void *)gap;
    check_source(&s, WEIR_E_FORMAT, "no string at 3 of 5");
    static const char *const empty[] = {"a", "", "ab", "<s>", "<0x41>"};
    s.tokens.context = (void *)empty;
    check_source(&s, WEIR_E_FORMAT, "token 1 has an empty piece");
    static const char *const broken[] = {"a", "b", "ab", "<\xFF>", "<0x41>"};
    s.tokens.context = (void *)broken;
    check_source(&s, WEIR_E_FORMAT, "token 3 (control or user-defined) is not UTF-8");
    static const int32_t odd_type[] = {1, 1, 1, 9, 6}, no_byte[] = {1, 6, 1, 3, 6};
    s = good_source("llama");
    check_source(&s, WEIR_OK, "");
    s.token_type = odd_type;
    check_source(&s, WEIR_E_FORMAT, "token 3 has the type 9");
    s.token_type = no_byte;
    check_source(&s, WEIR_E_FORMAT, "token 1 is said to be a byte");
    s = good_source("llama");
    s.scores = NULL;
    check_source(&s, WEIR_E_FORMAT, "scores is missing");
    static const float no_number[] = {0, NAN, 0, 0, 0};
    s.scores = no_number;
    check_source(&s, WEIR_E_FORMAT, "score of token 1");
    s = good_source("llama");
    s.pre = "qwen2";
    check_source(&s, WEIR_E_UNSUPPORTED, "\"qwen2\"");
    s = good_source("llama");
    s.bos_id = 5;
    check_source(&s, WEIR_E_FORMAT, "bos_token_id is 5");
    s.bos_id = -2;
    check_source(&s, WEIR_E_FORMAT, "bos_token_id is -2");
    s = good_source("llama");
    s.eos_id = 1000000;
    check_source(&s, WEIR_E_FORMAT, "eos_token_id is 1000000");
    s = good_source("llama");
    s.unk_id = 5;
    check_source(&s, WEIR_E_FORMAT, "unknown_token_id is 5");
    s = good_source("llama");
    s.bos_id = -1;
    s.add_bos = 1;
    check_source(&s, WEIR_E_FORMAT, "add_bos_token is true");
    s = good_source("llama");
    s.add_eos = 1;
    check_source(&s, WEIR_E_FORMAT, "add_eos_token is true");
    s = good_source("gpt2");
    s.add_space_prefix = 1;
    check_source(&s, WEIR_E_UNSUPPORTED, "add_space_prefix");
}

/* An expression that backtracks without end is stopped, not waited for. */
static void runaway_expression_is_a_limit(void **state) {
    (void)state;
    json_t *file = load_golden(DATA("tiny_bytes.tokenizer.json"));
    json_t *split = json_pack("{s:s,s:{s:s},s:s,s:b}", "type", "Split", "pattern", "Regex", "(a|aa)+$", "behavior",
                              "Isolated", "invert", 0);
    json_array_set_new(json_object_get(json_object_get(file, "pre_tokenizer"), "pretokenizers"), 0, split);
    char *json = json_dumps(file, JSON_COMPACT);
    weir_tokenizer *tok;
    weir_error err = {0};
    assert_int_equal(wr_tokenizer_open_text("tokenizer.json", json, strlen(json), NULL, 0, &tok, &err), WEIR_OK);
    char text[101];
    memset(text, 'a', 100);
    text[100] = 'b';
    size_t n;
    assert_int_equal(weir_tokenizer_encode(tok, text, sizeof text, 0, NULL, 0, &n, &err), WEIR_E_LIMIT);
    assert_non_null(strstr(err.message, "too many steps"));
    /* The next text is not harmed. */
    assert_int_equal(weir_tokenizer_encode(tok, "ab", 2, 0, NULL, 0, &n, &err), WEIR_OK);
    weir_tokenizer_close(tok);
    wr_free(json);
    json_decref(file);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_malformed_file_has_its_own_error),
        cmocka_unit_test(missing_file_is_not_found),
        cmocka_unit_test(malformed_configs_are_refused),
        cmocka_unit_test(malformed_metadata_has_its_own_error),
        cmocka_unit_test(runaway_expression_is_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
