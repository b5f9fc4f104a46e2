/* Every kind of model, step and file, against the libraries (tools/goldens_kinds.py). */
#include "text_test.h"

#include "base/fault.h"

static void check_spans(const weir_tokenizer *tok, const char *name, const json_t *text, const json_t *spans) {
    weir_encoding e;
    const char *s = json_string_value(text);
    assert_int_equal(
        weir_tokenizer_encode_new(tok, s, json_string_length(text), WEIR_ENCODE_PARSE_SPECIAL, true, &e, NULL),
        WEIR_OK);
    assert_int_equal(e.n, json_array_size(spans));
    for (size_t i = 0; i < e.n; i++) {
        json_int_t begin = json_integer_value(json_array_get(json_array_get(spans, i), 0));
        json_int_t end = json_integer_value(json_array_get(json_array_get(spans, i), 1));
        if (e.spans[i].begin != (size_t)begin || e.spans[i].end != (size_t)end) {
            fail_msg("%s, text \"%s\", token %zu: span [%zu, %zu), expected [%lld, %lld)", name, s, i, e.spans[i].begin,
                     e.spans[i].end, begin, end);
        }
    }
    weir_encoding_deinit(&e);
}

/* The base with the case's changes, as text; freed with wr_free. */
static char *case_file(const json_t *root, const json_t *c) {
    const char *base = json_string_value(json_object_get(c, "base")), *key;
    json_t *file = json_deep_copy(json_object_get(json_object_get(root, "bases"), base)), *value;
    json_object_foreach(json_object_get(c, "patch"), key, value) json_object_set(file, key, value);
    json_object_foreach(json_object_get(c, "model"), key, value)
        json_object_set(json_object_get(file, "model"), key, value);
    char *text = json_dumps(file, JSON_COMPACT);
    json_decref(file);
    return text;
}

/* Ids, places and texts of a case. */
static void check_case(const weir_tokenizer *tok, const json_t *texts, const json_t *c) {
    const char *name = json_string_value(json_object_get(c, "name"));
    json_t *t;
    size_t k;
    const json_t *spans = json_object_get(c, "spans"), *all = json_object_get(c, "all");
    json_array_foreach(texts, k, t) {
        const json_t *ids = json_array_get(json_object_get(c, "ids"), k);
        check_encoding(tok, name, json_string_value(t), json_string_length(t),
                       WEIR_ENCODE_PARSE_SPECIAL | WEIR_ENCODE_ADD_SPECIAL, ids);
        check_encoding(tok, name, json_string_value(t), json_string_length(t), WEIR_ENCODE_PARSE_SPECIAL,
                       json_array_get(json_object_get(c, "bare"), k));
        if (spans) check_spans(tok, name, t, json_array_get(spans, k));
        if (!all) continue;
        const json_t *whole = json_array_get(all, k), *rest = json_array_get(json_object_get(c, "skip"), k);
        if (json_is_string(whole)) check_decoding(tok, name, ids, 0, whole);
        if (json_is_string(rest)) check_decoding(tok, name, ids, WEIR_DECODE_SKIP_SPECIAL, rest);
    }
}

static void every_model_and_step_is_as_the_reference(void **state) {
    (void)state;
    json_t *root = load_golden(DATA("kinds.golden.json")), *texts = json_object_get(root, "texts"), *c;
    size_t i;
    json_array_foreach(json_object_get(root, "cases"), i, c) {
        const char *name = json_string_value(json_object_get(c, "name"));
        char *file = case_file(root, c);
        weir_tokenizer *tok;
        weir_error err = {0};
        if (wr_tokenizer_open_text("tokenizer.json", file, strlen(file), NULL, 0, &tok, &err) != WEIR_OK) {
            fail_msg("%s: %s", name, err.message);
        }
        check_case(tok, texts, c);
        weir_tokenizer_close(tok);
        wr_free(file);
    }
    json_decref(root);
}

static void every_kind_of_file_is_as_the_reference(void **state) {
    (void)state;
    json_t *root = load_golden(DATA("kinds.golden.json")), *texts = json_object_get(root, "texts"), *c, *t;
    size_t i, k;
    json_array_foreach(json_object_get(root, "files"), i, c) {
        const char *name = json_string_value(json_object_get(c, "file"));
        char path[512];
        weir_tokenizer *tok;
        weir_error err = {0};
        snprintf(path, sizeof path, DATA("%s"), name);
        if (weir_tokenizer_open(path, &tok, &err) != WEIR_OK) fail_msg("%s: %s", name, err.message);
        json_array_foreach(texts, k, t) {
            const json_t *ids = json_array_get(json_object_get(c, "ids"), k);
            const json_t *decoded = json_array_get(json_object_get(c, "decoded"), k);
            check_encoding(tok, name, json_string_value(t), json_string_length(t), 0, ids);
            if (json_is_string(decoded)) check_decoding(tok, name, ids, 0, decoded);
        }
        weir_tokenizer_close(tok);
    }
    json_decref(root);
}

/* The pieces of the golden file's WordPiece model as vocab.txt. Freed by the caller. */
static char *words_file(const json_t *root, const char *line_end) {
    json_t *vocab = json_object_get(
        json_object_get(json_object_get(json_object_get(root, "bases"), "wordpiece"), "model"), "vocab");
    const char *piece;
    json_t *id;
    size_t n = json_object_size(vocab), bytes = 1;
    const char **pieces = calloc(n, sizeof *pieces);
    json_object_foreach(vocab, piece, id) {
        assert_true((size_t)json_integer_value(id) < n);
        pieces[json_integer_value(id)] = piece;
        bytes += strlen(piece) + strlen(line_end);
    }
    char *text = malloc(bytes), *at = text;
    for (size_t i = 0; i < n; i++) at += sprintf(at, "%s%s", pieces[i], line_end);
    free(pieces);
    return text;
}

/* vocab.txt has only pieces: what is done with text, and which tokens are put round it, is BERT's or in the config. */
static void vocab_files_are_read_as_the_reference_reads_them(void **state) {
    (void)state;
    static const struct {
        const char *name, *config, *line_end;
    } cases[] = {
        {"wordpiece", NULL, "\n"},
        {"wordpiece", "{}", "\r\n"},
        {"wordpiece", "{\"do_lower_case\":true,\"strip_accents\":null,\"never_split\":null,\"cls_token\":\"[CLS]\"}",
         "\r"},
        {"BertNormalizer (True, False, None, True)", "{\"tokenize_chinese_chars\":false}", "\n"},
        {"BertNormalizer (True, True, False, True)", "{\"strip_accents\":false}", "\n"},
        {"BertNormalizer (True, True, True, False)", "{\"do_lower_case\":false,\"strip_accents\":true}", "\n"},
        {"BertNormalizer (True, True, None, False)",
         "{\"do_lower_case\":false,\"tokenizer_class\":\"BertTokenizerFast\",\"sep_token\":{\"content\":\"[SEP]\"}}",
         "\n"},
    };
    json_t *root = load_golden(DATA("kinds.golden.json")), *c;
    size_t found = 0, k;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = words_file(root, cases[i].line_end);
        weir_tokenizer *tok;
        weir_error err = {0};
        if (wr_tokenizer_open_text("some/vocab.txt", text, strlen(text), cases[i].config,
                                   cases[i].config ? strlen(cases[i].config) : 0, &tok, &err) != WEIR_OK)
            fail_msg("case %zu: %s", i, err.message);
        json_array_foreach(json_object_get(root, "cases"), k, c) {
            if (strcmp(json_string_value(json_object_get(c, "name")), cases[i].name) != 0) continue;
            check_case(tok, json_object_get(root, "texts"), c);
            found++;
        }
        assert_int_equal(weir_tokenizer_bos(tok), 2); /* [CLS] */
        weir_tokenizer_close(tok);
        free(text);
    }
    assert_int_equal(found, sizeof cases / sizeof *cases);
    json_decref(root);
}

static void malformed_vocab_files_are_refused(void **state) {
    (void)state;
    static const char good[] = "[UNK]\n[CLS]\n[SEP]\na\n";
    static const struct {
        const char *text, *config;
        weir_status status;
        const char *word;
    } cases[] = {
        {"", NULL, WEIR_E_FORMAT, "no tokens"},
        {"\n\n", NULL, WEIR_E_FORMAT, "no tokens"},
        {"a\nb\xff\n", NULL, WEIR_E_FORMAT, "line 2, byte 2 is not UTF-8"},
        {"[UNK]\na\na\n", NULL, WEIR_E_FORMAT, "\"a\""},
        {"[CLS]\n[SEP]\na\n", NULL, WEIR_E_FORMAT, "no token \"[UNK]\"; name the model's own as unk_token"},
        {"[UNK]\n[CLS]\na\n", NULL, WEIR_E_FORMAT, "\"[SEP]\""},
        {good, "{\"cls_token\":\"<s>\"}", WEIR_E_FORMAT, "\"<s>\""},
        {good, "{\"cls_token\":3}", WEIR_E_FORMAT, "cls_token is an integer"},
        {good, "{\"do_lower_case\":1}", WEIR_E_FORMAT, "do_lower_case is an integer"},
        {good, "{\"do_basic_tokenize\":false}", WEIR_E_UNSUPPORTED, "do_basic_tokenize"},
        {good, "{\"never_split\":[\"a\"]}", WEIR_E_UNSUPPORTED, "never_split"},
        {good, "{\"tokenizer_class\":\"BertJapaneseTokenizer\"}", WEIR_E_UNSUPPORTED, "\"BertJapaneseTokenizer\""},
        {good, "{\"tokenizer_class\":\"EsmTokenizer\"}", WEIR_E_UNSUPPORTED, "tokenizer.json"},
        {good, "[]", WEIR_E_FORMAT, "not an object"},
        {good, "{", WEIR_E_FORMAT, "tokenizer_config.json: line 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weir_tokenizer *tok;
        weir_error err = {0};
        weir_status st = wr_tokenizer_open_text("vocab.txt", cases[i].text, strlen(cases[i].text), cases[i].config,
                                                cases[i].config ? strlen(cases[i].config) : 0, &tok, &err);
        if (st != cases[i].status || !strstr(err.message, cases[i].word))
            fail_msg("case %zu: status %d, \"%s\"", i, st, err.message);
        assert_null(tok);
    }
}

/* One opening, encoding and decoding; every failure of memory is a status, and nothing leaks. */
static bool run_short_of_memory(const char *name, const char *data, size_t n, uint64_t nth) {
    static const char text[] = "Hello, caf\xC3\xA9 \xEF\xAC\x81 words  12 zq \xE6\x97\xA5";
    weir_tokenizer *tok = NULL;
    weir_error err = {0};
    wr_fault_arm(WR_FAULT_MEMORY, nth);
    weir_status st = wr_tokenizer_open_text(name, data, n, NULL, 0, &tok, &err);
    weir_encoding e = {0};
    char *back = NULL;
    size_t bytes;
    if (st == WEIR_OK) st = weir_tokenizer_encode_new(tok, text, sizeof text - 1, 3, true, &e, &err);
    if (st == WEIR_OK) st = weir_tokenizer_decode(tok, e.ids, e.n, 0, &back, &bytes, &err);
    bool hit = wr_fault_calls(WR_FAULT_MEMORY) >= nth;
    wr_fault_arm(WR_FAULT_MEMORY, 0);
    if (st != (hit ? WEIR_E_MEMORY : WEIR_OK) && !(hit && st == WEIR_OK)) {
        fail_msg("%s, allocation %llu: status %d, \"%s\"", name, (unsigned long long)nth, st, err.message);
    }
    weir_text_free(back);
    weir_encoding_deinit(&e);
    weir_tokenizer_close(tok);
    return hit;
}

static void every_failed_allocation_of_a_vocab_file_is_a_status(void **state) {
    (void)state;
    json_t *root = load_golden(DATA("kinds.golden.json"));
    char *words = words_file(root, "\n");
    uint64_t nth = 1;
    while (run_short_of_memory("vocab.txt", words, strlen(words), nth)) nth += 1 + nth / 60;
    assert_true(nth > 20);
    free(words);
    json_decref(root);
}

static void every_failed_allocation_is_a_status(void **state) {
    (void)state;
    json_t *root = load_golden(DATA("kinds.golden.json")), *c;
    size_t i;
    json_array_foreach(json_object_get(root, "cases"), i, c) {
        /* Opening a whole vocabulary anew for each: the first case of each base, and some steps. */
        if (i % 5 && json_object_size(json_object_get(c, "patch"))) continue;
        char *file = case_file(root, c);
        uint64_t nth = 1;
        while (run_short_of_memory("tokenizer.json", file, strlen(file), nth)) nth += 1 + nth / 60;
        assert_true(nth > 20);
        wr_free(file);
    }
    json_array_foreach(json_object_get(root, "files"), i, c) {
        const char *name = json_string_value(json_object_get(c, "file"));
        char path[512], *data;
        size_t n;
        snprintf(path, sizeof path, DATA("%s"), name);
        assert_int_equal(wr_file_read(path, 1 << 20, &data, &n, NULL), WEIR_OK);
        uint64_t nth = 1;
        while (run_short_of_memory(name, data, n, nth)) nth++;
        assert_true(nth > 20);
        wr_free(data);
    }
    json_decref(root);
}

/* BOS is added once, from the file or from the text, also where a chat's text has it. */
static void files_of_models_add_one_bos(void **state) {
    (void)state;
    static const char *const files[] = {"pieces_bpe.model", "tekken_small.json"};
    for (size_t i = 0; i < 2; i++) {
        char path[512];
        weir_tokenizer *tok;
        snprintf(path, sizeof path, DATA("%s"), files[i]);
        assert_int_equal(weir_tokenizer_open(path, &tok, NULL), WEIR_OK);
        int32_t bos = weir_tokenizer_bos(tok), ids[16];
        assert_true(bos >= 0);
        assert_true(weir_tokenizer_is_special(tok, bos));
        static const char *const texts[] = {"hi", "<s>hi"};
        for (size_t k = 0; k < 2; k++) {
            size_t n, count = 0;
            unsigned flags = WEIR_ENCODE_ADD_SPECIAL | WEIR_ENCODE_PARSE_SPECIAL;
            assert_int_equal(weir_tokenizer_encode(tok, texts[k], strlen(texts[k]), flags, ids, 16, &n, NULL), WEIR_OK);
            for (size_t j = 0; j < n; j++) count += ids[j] == bos;
            assert_int_equal(count, 1);
            assert_int_equal(ids[0], bos);
        }
        weir_tokenizer_close(tok);
    }
}

/* Without PARSE_SPECIAL the names of control tokens are text like any other, whatever the model. */
static void plain_text_gives_no_control_tokens(void **state) {
    (void)state;
    json_t *root = load_golden(DATA("kinds.golden.json")), *bases = json_object_get(root, "bases"), *base;
    const char *name;
    json_object_foreach(bases, name, base) {
        char *file = json_dumps(base, JSON_COMPACT);
        weir_tokenizer *tok;
        assert_int_equal(wr_tokenizer_open_text("tokenizer.json", file, strlen(file), NULL, 0, &tok, NULL), WEIR_OK);
        for (int32_t id = 0; id < weir_tokenizer_vocab_size(tok); id++) {
            if (!weir_tokenizer_is_special(tok, id)) continue;
            size_t bytes, n;
            const char *piece = weir_tokenizer_piece(tok, id, &bytes);
            int32_t ids[32];
            assert_int_equal(weir_tokenizer_encode(tok, piece, bytes, 0, ids, 32, &n, NULL), WEIR_OK);
            for (size_t i = 0; i < n; i++) {
                if (weir_tokenizer_is_special(tok, ids[i]) && ids[i] != weir_tokenizer_unk(tok)) {
                    fail_msg("%s: the text \"%.*s\" gives the control token %d", name, (int)bytes, piece, ids[i]);
                }
            }
            assert_int_equal(weir_tokenizer_encode(tok, piece, bytes, WEIR_ENCODE_PARSE_SPECIAL, ids, 32, &n, NULL),
                             WEIR_OK);
            assert_int_equal(n, 1);
            assert_int_equal(ids[0], id);
        }
        weir_tokenizer_close(tok);
        wr_free(file);
    }
    json_decref(root);
}

/* Tokens that only tokenizer_config.json lists stand behind the model's own, which knows no score of theirs. */
static void a_config_adds_tokens_to_any_model(void **state) {
    (void)state;
    static const char *const files[] = {"pieces_bpe.model", "pieces_unigram.model", "tekken_small.json"};
    for (size_t i = 0; i < 3; i++) {
        char path[512], config[512], *data;
        size_t n, count;
        weir_tokenizer *tok;
        int32_t ids[16];
        weir_error err = {0};
        snprintf(path, sizeof path, DATA("%s"), files[i]);
        assert_int_equal(wr_file_read(path, 1 << 20, &data, &n, NULL), WEIR_OK);
        assert_int_equal(wr_tokenizer_open_text(path, data, n, NULL, 0, &tok, NULL), WEIR_OK);
        int32_t size = weir_tokenizer_vocab_size(tok);
        weir_tokenizer_close(tok);
        snprintf(config, sizeof config,
                 "{\"added_tokens_decoder\":{\"%d\":{\"content\":\"qqq\",\"special\":true},"
                 "\"%d\":{\"content\":\"\u6f22\",\"special\":false}}}",
                 size, size + 1);
        if (wr_tokenizer_open_text(path, data, n, config, strlen(config), &tok, &err) != WEIR_OK) {
            fail_msg("%s: %s", files[i], err.message);
        }
        assert_int_equal(
            weir_tokenizer_encode(tok, "aqqq\xE6\xBC\xA2", 7, WEIR_ENCODE_PARSE_SPECIAL, ids, 16, &count, NULL),
            WEIR_OK);
        assert_true(count >= 3);
        assert_int_equal(ids[count - 2], size);
        assert_int_equal(ids[count - 1], size + 1);
        assert_int_equal(weir_tokenizer_encode(tok, "qqq", 3, 0, ids, 16, &count, NULL), WEIR_OK);
        for (size_t k = 0; k < count; k++) assert_int_not_equal(ids[k], size);
        weir_tokenizer_close(tok);
        wr_free(data);
    }
}

/* tiktoken's file does not say how it splits: one that is not known is refused, not guessed. */
static void unknown_rank_files_are_refused(void **state) {
    (void)state;
    char path[512];
    weir_tokenizer *tok;
    weir_error err = {0};
    snprintf(path, sizeof path, "%s/tokenizer_kinds.tiktoken", WR_BINARY_DIR);
    static const struct {
        const char *text;
        weir_status status;
        const char *word;
    } cases[] = {{"YQ== 0\nYg== 1\n", WEIR_E_UNSUPPORTED, "2 ranks"},     {"YQ== 0\nYg=", WEIR_E_FORMAT, "line 2"},
                 {"YQ== 0\nYg== x\n", WEIR_E_FORMAT, "line 2"},           {"YQ== 0\n\n", WEIR_E_UNSUPPORTED, "1 ranks"},
                 {"YQ== 0\nYg== 0\n", WEIR_E_FORMAT, "id 0 is given to"}, {"YQ== 0\n 1\n", WEIR_E_FORMAT, "line 2"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        fputs(cases[i].text, f);
        fclose(f);
        weir_status st = weir_tokenizer_open(path, &tok, &err);
        if (st != cases[i].status || !strstr(err.message, cases[i].word)) {
            fail_msg("case %zu: status %d, \"%s\"", i, st, err.message);
        }
        assert_null(tok);
    }
    remove(path);
}

/* Every cut of a model file is refused or opens; none crashes. */
static void cut_model_files_are_refused(void **state) {
    (void)state;
    static const char *const files[] = {"pieces_bpe.model", "pieces_unigram.model"};
    char path[512], cut[512];
    snprintf(cut, sizeof cut, "%s/tokenizer_kinds_cut.model", WR_BINARY_DIR);
    for (size_t i = 0; i < 2; i++) {
        char *data;
        size_t n;
        snprintf(path, sizeof path, DATA("%s"), files[i]);
        assert_int_equal(wr_file_read(path, 1 << 20, &data, &n, NULL), WEIR_OK);
        for (size_t k = 0; k < n; k += 1 + n / 199) {
            weir_tokenizer *tok;
            FILE *f = fopen(cut, "wb");
            assert_non_null(f);
            fwrite(data, 1, k, f);
            fclose(f);
            if (weir_tokenizer_open(cut, &tok, NULL) == WEIR_OK) weir_tokenizer_close(tok);
        }
        wr_free(data);
    }
    remove(cut);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_model_and_step_is_as_the_reference),
        cmocka_unit_test(every_kind_of_file_is_as_the_reference),
        cmocka_unit_test(vocab_files_are_read_as_the_reference_reads_them),
        cmocka_unit_test(malformed_vocab_files_are_refused),
        cmocka_unit_test(every_failed_allocation_is_a_status),
        cmocka_unit_test(every_failed_allocation_of_a_vocab_file_is_a_status),
        cmocka_unit_test(files_of_models_add_one_bos),
        cmocka_unit_test(plain_text_gives_no_control_tokens),
        cmocka_unit_test(a_config_adds_tokens_to_any_model),
        cmocka_unit_test(unknown_rank_files_are_refused),
        cmocka_unit_test(cut_model_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
