/* Chat turns against jinja2 running the templates. */
#include "text_test.h"

static void families_are_formatted_as_their_templates_do(void **state) {
    (void)state;
    json_t *root = load_golden(DATA("chat.golden.json")), *c, *pair;
    size_t i, k;
    json_array_foreach(json_object_get(root, "cases"), i, c) {
        const char *name = json_string_value(json_object_get(c, "name"));
        const char *text = json_string_value(json_object_get(json_object_get(root, "templates"), name));
        wr_chat_message messages[8];
        const json_t *list = json_object_get(c, "messages");
        json_array_foreach(list, k, pair) {
            messages[k].role = json_string_value(json_array_get(pair, 0));
            messages[k].content = json_string_value(json_array_get(pair, 1));
        }
        char *got;
        weir_error err = {0};
        bool generate = json_is_true(json_object_get(c, "generate"));
        if (wr_chat_format(text, json_string_value(json_object_get(c, "bos")), messages, json_array_size(list),
                           generate, &got, &err) != WEIR_OK) {
            fail_msg("%s, case %zu: %s", name, i, err.message);
        }
        const char *want = json_string_value(json_object_get(c, "text"));
        if (strcmp(got, want) != 0) fail_msg("%s, case %zu:\n got \"%s\"\nwant \"%s\"", name, i, got, want);
        wr_free(got);
    }
    json_decref(root);
}

/* The templates in the golden file are those of the models. */
static void templates_of_the_models_are_those_that_were_proved(void **state) {
    (void)state;
    json_t *root = load_golden(DATA("chat.golden.json")), *templates = json_object_get(root, "templates");
    weir_tokenizer *tok = open_model(SMOLLM2);
    assert_string_equal(weir_tokenizer_chat_template(tok), json_string_value(json_object_get(templates, "smollm2")));
    weir_tokenizer_close(tok);
    tok = open_model(QWEN2);
    if (tok) {
        assert_string_equal(weir_tokenizer_chat_template(tok),
                            json_string_value(json_object_get(templates, "qwen2.5")));
    }
    weir_tokenizer_close(tok);
    json_decref(root);
}

static void check_refused(const char *text, size_t n, const wr_chat_message *m, weir_status status, const char *word) {
    char *got;
    weir_error err = {0};
    assert_int_equal(wr_chat_format(text, NULL, m, n, true, &got, &err), status);
    assert_null(got);
    if (!strstr(err.message, word)) fail_msg("\"%s\" does not say \"%s\"", err.message, word);
}

static void what_cannot_be_formatted_is_refused_with_a_hint(void **state) {
    (void)state;
    const wr_chat_message user = {"user", "x"}, tool = {"tool", "x"}, system = {"system", "x"};
    const wr_chat_message twice[] = {user, user};
    check_refused(NULL, 1, &user, WEIR_E_UNSUPPORTED, "--raw");
    check_refused("{{ '[INST]' + messages[0].content + '[/INST]' }}", 1, &user, WEIR_E_UNSUPPORTED, "--raw");
    check_refused("<|start_header_id|>{{ date_string }}", 1, &user, WEIR_E_UNSUPPORTED, "--raw");
    check_refused("<|im_start|><|im_end|>", 1, &tool, WEIR_E_UNSUPPORTED, "\"tool\"");
    check_refused("<|im_start|><|im_end|>", 0, NULL, WEIR_E_ARGUMENT, "at least one");
    check_refused("<start_of_turn>", 2, twice, WEIR_E_ARGUMENT, "in turn");
    check_refused("<start_of_turn>{{ raise_exception('System role not supported') }}", 1, &system, WEIR_E_ARGUMENT,
                  "System role not supported");
}

static void earlier_thoughts_are_left_out_for_thinking_models(void **state) {
    (void)state;
    const wr_chat_message m[] = {{"user", "a"}, {"assistant", "<think>\nhm\n</think>\n\nb"}, {"user", "c"}};
    char *got;
    assert_int_equal(wr_chat_format("<|im_start|><|im_end|>{{ '</think>' }}", "", m, 3, true, &got, NULL), WEIR_OK);
    assert_string_equal(got, "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc"
                             "<|im_end|>\n<|im_start|>assistant\n");
    wr_free(got);
    check_refused("<|im_start|><|im_end|></think>", 2, m, WEIR_E_UNSUPPORTED, "--raw");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_are_formatted_as_their_templates_do),
        cmocka_unit_test(templates_of_the_models_are_those_that_were_proved),
        cmocka_unit_test(what_cannot_be_formatted_is_refused_with_a_hint),
        cmocka_unit_test(earlier_thoughts_are_left_out_for_thinking_models),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
