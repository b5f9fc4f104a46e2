/* Chats: where templates come from, what they are given, and exactly one BOS at the end. */
#include "text_test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "file/checkpoint.h"

#define VALID(name) WR_SOURCE_DIR "/tests/data/file/valid/" name

static char *render(const wr_chat *chat, const wr_chat_request *request, weir_status *st, weir_error *err) {
    char *text;
    size_t bytes;
    memset(err, 0, sizeof *err);
    *st = wr_chat_render(chat, request, NULL, &text, &bytes, err);
    return text;
}

static void check_text(const wr_chat *chat, const wr_chat_request *request, const char *want) {
    weir_status st;
    weir_error err;
    char *got = render(chat, request, &st, &err);
    if (!got) fail_msg("%s", err.message);
    assert_string_equal(got, want);
    wr_free(got);
}

static void check_refused(const wr_chat *chat, const wr_chat_request *request, weir_status status, const char *word) {
    weir_status st;
    weir_error err;
    assert_null(render(chat, request, &st, &err));
    if (st != status || !strstr(err.message, word)) fail_msg("\"%s\" does not say \"%s\"", err.message, word);
}

static json_t *parse(const char *text) {
    json_error_t error;
    wr_json_setup();
    json_t *value = json_loads(text, 0, &error);
    if (!value) fail_msg("%s: %s", text, error.text);
    return value;
}

static wr_chat *chat_of(const char *source, const char *special_tokens) {
    json_t *special = special_tokens ? parse(special_tokens) : NULL;
    wr_chat *chat;
    weir_error err = {0};
    if (wr_chat_new(source, strlen(source), special, &chat, &err) != WEIR_OK) fail_msg("%s", err.message);
    json_decref(special);
    return chat;
}

static void families_are_formatted_as_their_templates_do(void **state) {
    (void)state;
    json_t *root = load_golden(DATA("chat.golden.json")), *c, *pair;
    size_t i, k;
    json_array_foreach(json_object_get(root, "cases"), i, c) {
        const char *name = json_string_value(json_object_get(c, "name"));
        json_t *special = json_pack("{s:O}", "bos_token", json_object_get(c, "bos"));
        json_t *messages = json_array();
        const char *source = json_string_value(json_object_get(json_object_get(root, "templates"), name));
        wr_chat *chat;
        assert_int_equal(wr_chat_new(source, strlen(source), special, &chat, NULL), WEIR_OK);
        json_array_foreach(json_object_get(c, "messages"), k, pair) {
            json_array_append_new(
                messages, json_pack("{s:O,s:O}", "role", json_array_get(pair, 0), "content", json_array_get(pair, 1)));
        }
        wr_chat_request request = {.messages = messages,
                                   .add_generation_prompt = json_is_true(json_object_get(c, "generate"))};
        check_text(chat, &request, json_string_value(json_object_get(c, "text")));
        json_decref(messages);
        json_decref(special);
        wr_chat_free(chat);
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

static void messages_are_prepared_as_transformers_does(void **state) {
    (void)state;
    wr_chat *chat = chat_of("{{ messages | tojson }}", NULL);
    json_t *messages = parse("[{\"role\":\"a\",\"content\":null,\"x\":{\"y\":null}},"
                             "{\"role\":\"b\",\"reasoning\":\"R\",\"content\":\"c\"},"
                             "{\"role\":\"d\",\"thinking\":\"T\",\"reasoning_content\":\"Q\"}]");
    check_text(chat, &(wr_chat_request){.messages = messages},
               "[{\"role\": \"a\", \"x\": {\"y\": null}}, {\"thinking\": \"R\", \"role\": \"b\", \"reasoning\": \"R\", "
               "\"content\": \"c\", \"reasoning_content\": \"R\"}, {\"thinking\": \"T\", \"role\": \"d\", "
               "\"reasoning_content\": \"Q\"}]");
    json_decref(messages);
    wr_chat_free(chat);
}

static void everything_reaches_the_template(void **state) {
    (void)state;
    wr_chat *chat = chat_of("{{ bos_token }}{{ eos_token }}{{ tools | tojson }}{{ documents | tojson }}"
                            "{{ add_generation_prompt }}{{ enable_thinking }}{{ messages | length }}",
                            "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"}");
    json_t *messages = parse("[]"), *tools = parse("[{\"a\":1}]"), *documents = parse("[{\"title\":\"t\"}]");
    json_t *extra = parse("{\"enable_thinking\":false,\"eos_token\":\"E\"}");
    wr_chat_request request = {.messages = messages, .tools = tools, .documents = documents, .extra = extra};
    check_text(chat, &request, "<s>E[{\"a\": 1}][{\"title\": \"t\"}]FalseFalse0");
    request = (wr_chat_request){.messages = messages, .add_generation_prompt = true};
    check_text(chat, &request, "<s></s>nullnullTrue0");
    request.messages = tools;
    request.tools = extra;
    check_refused(chat, &request, WEIR_E_ARGUMENT, "tools must be a list");
    request = (wr_chat_request){.messages = extra};
    check_refused(chat, &request, WEIR_E_ARGUMENT, "messages must be a list");
    json_t *wrong = parse("[1]");
    request.messages = wrong;
    check_refused(chat, &request, WEIR_E_ARGUMENT, "message 0 is no object");
    json_decref(wrong);
    json_decref(messages);
    json_decref(tools);
    json_decref(documents);
    json_decref(extra);
    wr_chat_free(chat);
}

/* ---- where templates come from ---- */

static wr_chat *open_chat(const char *path) {
    wr_checkpoint *c;
    wr_chat *chat;
    weir_error err = {0};
    if (wr_checkpoint_open(path, &c, &err) != WEIR_OK) fail_msg("%s", err.message);
    if (wr_chat_open(c, &chat, &err) != WEIR_OK) fail_msg("%s", err.message);
    wr_checkpoint_close(c);
    return chat;
}

static void write_file(const char *folder, const char *name, const char *text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void copy_file(const char *folder, const char *name) {
    char *text;
    size_t bytes;
    char from[512];
    snprintf(from, sizeof from, VALID("mlx/%s"), name);
    assert_int_equal(wr_file_read(from, 1 << 24, &text, &bytes, NULL), WEIR_OK);
    char to[512];
    snprintf(to, sizeof to, "%s/%s", folder, name);
    assert_int_equal(wr_file_write(to, text, bytes, NULL), WEIR_OK);
    wr_free(text);
}

static void templates_are_found_where_checkpoints_keep_them(void **state) {
    (void)state;
    json_t *messages = parse("[{\"role\":\"user\",\"content\":\"x\"}]"), *tools = parse("[{}]");
    wr_chat_request plain = {.messages = messages}, with_tools = {.messages = messages, .tools = tools};
    /* A list of {name, template}: tool_use when there are tools. */
    wr_chat *chat = open_chat(VALID("mlx"));
    check_text(chat, &plain, "plain");
    check_text(chat, &with_tools, "tools");
    plain.name = "tool_use";
    check_text(chat, &plain, "tools");
    plain.name = "rag";
    check_refused(chat, &plain, WEIR_E_NOT_FOUND, "the model has: tool_use, default");
    plain.name = NULL;
    wr_chat_free(chat);
    /* chat_template.jinja before tokenizer_config.json. */
    chat = open_chat(VALID("sharded"));
    check_text(chat, &plain, "from jinja");
    wr_chat_free(chat);
    /* GGUF metadata. */
    chat = open_chat(VALID("llama.gguf"));
    check_text(chat, &plain, "[{'role': 'user', 'content': 'x'}]");
    wr_chat_free(chat);
    /* Files beside the checkpoint, and tokens that are objects. */
    char folder[] = "/tmp/weir-chat-XXXXXX", sub[64];
    assert_non_null(mkdtemp(folder));
    static const char *const files[] = {"config.json", "model.safetensors"};
    for (size_t i = 0; i < 2; i++) copy_file(folder, files[i]);
    write_file(folder, "tokenizer_config.json",
               "{\"bos_token\":{\"content\":\"<B>\",\"lstrip\":false},\"add_bos_token\":true,\"image_token\":\"<I>\","
               "\"extra_special_tokens\":{\"boa\":\"<A>\"},\"chat_template\":\"old\"}");
    write_file(folder, "special_tokens_map.json", "{\"bos_token\":\"no\",\"eos_token\":\"<E>\"}");
    write_file(folder, "chat_template.jinja",
               "{{ bos_token }}{{ eos_token }}{{ image_token }}{{ boa }}{{ add_bos_token }}");
    snprintf(sub, sizeof sub, "%s/additional_chat_templates", folder);
    assert_int_equal(mkdir(sub, 0700), 0);
    write_file(sub, "tool_use.jinja", "tools here");
    write_file(sub, "broken.jinja", "{% if %}");
    write_file(sub, "notes.txt", "{{");
    chat = open_chat(folder);
    check_text(chat, &plain, "<B><E><I><A>");
    check_text(chat, &with_tools, "tools here");
    plain.name = "broken"; /* one that is wrong harms no other */
    check_refused(chat, &plain, WEIR_E_FORMAT, "Expected an expression");
    wr_chat_free(chat);
    static const char *const gone[] = {"config.json",
                                       "model.safetensors",
                                       "tokenizer_config.json",
                                       "special_tokens_map.json",
                                       "chat_template.jinja",
                                       "additional_chat_templates/tool_use.jinja",
                                       "additional_chat_templates/broken.jinja",
                                       "additional_chat_templates/notes.txt",
                                       "additional_chat_templates"};
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", folder, gone[i]);
        assert_true(wr_path_remove(path));
    }
    rmdir(folder);
    json_decref(messages);
    json_decref(tools);
}

static void a_checkpoint_without_template_is_refused_with_a_hint(void **state) {
    (void)state;
    wr_checkpoint *c;
    wr_chat *chat;
    weir_error err = {0};
    assert_int_equal(wr_checkpoint_open(WR_SOURCE_DIR "/tests/data/checkpoints/llama-f16-untied", &c, &err), WEIR_OK);
    assert_int_equal(wr_chat_open(c, &chat, &err), WEIR_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "--raw"));
    assert_null(chat);
    wr_checkpoint_close(c);
}

static void bytes_that_are_no_text_become_replacement_characters(void **state) {
    (void)state;
    json_t *text = wr_chat_text("a\xC0\x80\xF0\x9F\x98z\0y\xE2\x82", 11);
    const char want[] = "a\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBDz\0y\xEF\xBF\xBD";
    assert_int_equal(json_string_length(text), sizeof want - 1);
    assert_memory_equal(json_string_value(text), want, sizeof want - 1);
    json_decref(text);
}

/* A template that writes BOS, and a tokenizer that adds it: one, not two; and one when the template writes none. */
static void a_formatted_chat_has_exactly_one_bos(void **state) {
    (void)state;
    static const char *const templates[] = {"{{ bos_token }}{{ messages[0].content }}", "{{ messages[0].content }}"};
    weir_tokenizer *tok = open_model(GEMMA3);
    if (!tok) skip();
    json_t *messages = parse("[{\"role\":\"user\",\"content\":\"Hello\"}]");
    for (size_t i = 0; i < 2; i++) {
        wr_chat *chat = chat_of(templates[i], "{\"bos_token\":\"<bos>\"}");
        weir_status st;
        weir_error err;
        weir_encoding e;
        char *text = render(chat, &(wr_chat_request){.messages = messages}, &st, &err);
        assert_non_null(text);
        assert_int_equal(weir_tokenizer_encode_new(tok, text, strlen(text),
                                                   WEIR_ENCODE_ADD_SPECIAL | WEIR_ENCODE_PARSE_SPECIAL, false, &e,
                                                   &err),
                         WEIR_OK);
        size_t n_bos = 0;
        for (size_t k = 0; k < e.n; k++) n_bos += e.ids[k] == weir_tokenizer_bos(tok);
        assert_int_equal(n_bos, 1);
        assert_int_equal(e.ids[0], weir_tokenizer_bos(tok));
        weir_encoding_deinit(&e);
        wr_free(text);
        wr_chat_free(chat);
    }
    json_decref(messages);
    weir_tokenizer_close(tok);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_are_formatted_as_their_templates_do),
        cmocka_unit_test(templates_of_the_models_are_those_that_were_proved),
        cmocka_unit_test(messages_are_prepared_as_transformers_does),
        cmocka_unit_test(everything_reaches_the_template),
        cmocka_unit_test(templates_are_found_where_checkpoints_keep_them),
        cmocka_unit_test(a_checkpoint_without_template_is_refused_with_a_hint),
        cmocka_unit_test(bytes_that_are_no_text_become_replacement_characters),
        cmocka_unit_test(a_formatted_chat_has_exactly_one_bos),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
