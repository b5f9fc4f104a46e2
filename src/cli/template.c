/* weir template: what a model is given for a conversation. */
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "cli/chat.h"
#include "file/json.h"
#include "text/chat_source.h"

enum { JSON_BYTES_MAX = 256 << 20 };

weir_status wr_cli_template_args(const wr_cli *cli, json_t **out, weir_error *err) {
    json_t *object = json_object();
    *out = NULL;
    for (size_t i = 0; object && i < cli->args.n; i++) {
        const char *text = cli->args.at[i], *equals = strchr(text, '=');
        if (!equals || equals == text) {
            json_decref(object);
            return WR_FAIL(err, WEIR_E_ARGUMENT, "--arg is \"%s\"; it must be K=V, as enable_thinking=false", text);
        }
        size_t n = strlen(equals + 1);
        json_t *value = json_loadb(equals + 1, n, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        if (!value) value = wr_chat_text(equals + 1, n);
        if (!value || json_object_setn_new(object, text, (size_t)(equals - text), value) != 0) {
            json_decref(object);
            object = NULL;
        }
    }
    if (!object) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the template's arguments");
    *out = object;
    return WEIR_OK;
}

/* What is to be rendered. */
typedef struct input {
    json_t *messages, *tools, *documents, *extra;
} input;

static void deinit(input *in) {
    json_decref(in->messages);
    json_decref(in->tools);
    json_decref(in->documents);
    json_decref(in->extra);
}

/* The messages, or an object that holds them and more. */
static weir_status take_request(input *in, json_t *value /* take */, weir_error *err) {
    if (!json_is_object(value)) {
        in->messages = value;
        return WEIR_OK;
    }
    const char *const names[] = {"messages", "tools", "documents", "chat_template_kwargs"};
    json_t **const fields[] = {&in->messages, &in->tools, &in->documents, &in->extra};
    for (int i = 0; i < 4; i++) *fields[i] = json_incref(json_object_get(value, names[i]));
    bool found = in->messages != NULL;
    json_decref(value);
    return found ? WEIR_OK : WR_FAIL(err, WEIR_E_FORMAT, "the JSON object has no \"messages\"");
}

static weir_status read_messages(const wr_cli *cli, input *in, weir_error *err) {
    wr_cli source = *cli;
    char *text;
    size_t bytes;
    json_t *value;
    if (!cli->prompt && !cli->file) source.file = "-";
    WR_TRY(wr_cli_text(&source, &text, &bytes, err));
    weir_status st = WEIR_OK;
    if (cli->prompt) {
        in->messages = json_array();
        if (cli->system) st = wr_cli_add_message(in->messages, "system", cli->system, strlen(cli->system), err);
        if (st == WEIR_OK) st = wr_cli_add_message(in->messages, "user", text, bytes, err);
    } else {
        const char *name = strcmp(source.file, "-") ? source.file : "standard input";
        st = wr_json_parse(text, bytes, name, &value, err);
        if (st == WEIR_OK) st = take_request(in, value, err);
    }
    wr_free(text);
    return st;
}

static weir_status read_list(const char *path, json_t **out, weir_error *err) {
    if (!path) return WEIR_OK;
    json_decref(*out);
    *out = NULL;
    return wr_json_read(path, JSON_BYTES_MAX, out, err);
}

static weir_status open_chat(const wr_cli *cli, wr_chat **out, weir_error *err) {
    wr_checkpoint *checkpoint = NULL;
    char *text = NULL;
    size_t bytes;
    json_t *special = NULL;
    weir_status st;
    *out = NULL;
    WR_TRY_GOTO(st, wr_checkpoint_open(cli->model, &checkpoint, err), done);
    if (cli->template_file) {
        WR_TRY_GOTO(st, wr_chat_source_tokens(checkpoint, &special, err), done);
        WR_TRY_GOTO(st, wr_file_read(cli->template_file, WR_JINJA_SOURCE_BYTES_MAX, &text, &bytes, err), done);
        st = wr_chat_new(text, bytes, special, out, err);
        if (st != WEIR_OK) wr_err_context(err, "%s", cli->template_file);
    } else {
        st = wr_chat_open(checkpoint, out, err);
    }
done:
    json_decref(special);
    wr_free(text);
    wr_checkpoint_close(checkpoint);
    return st;
}

static weir_status show_names(const wr_cli *cli, const wr_chat *chat, weir_error *err) {
    const char *name;
    for (size_t i = 0; (name = wr_chat_name(chat, i)); i++) {
        if (cli->json)
            WR_TRY(wr_cli_json(json_pack("{s:o}", "name", wr_chat_text(name, strlen(name))), err));
        else
            printf("%s\n", name);
    }
    return wr_cli_flush(err);
}

static weir_status render(const wr_cli *cli, const wr_chat *chat, const input *in, weir_error *err) {
    char *text;
    size_t bytes;
    json_t *extra;
    WR_TRY(wr_cli_template_args(cli, &extra, err));
    if (in->extra) json_object_update_missing(extra, in->extra);
    wr_chat_request request = {.messages = in->messages,
                               .tools = in->tools,
                               .documents = in->documents,
                               .extra = extra,
                               .name = cli->name,
                               .add_generation_prompt = !cli->no_generation_prompt};
    weir_status st = wr_chat_render(chat, &request, NULL, &text, &bytes, err);
    json_decref(extra);
    WR_TRY(st);
    if (cli->json) {
        st = wr_cli_json(json_pack("{s:o}", "text", json_stringn(text, bytes)), err);
    } else {
        fwrite(text, 1, bytes, stdout);
        st = wr_cli_flush(err);
    }
    wr_free(text);
    return st;
}

weir_status wr_cmd_template(const wr_cli *cli, weir_error *err) {
    wr_chat *chat = NULL;
    input in = {0};
    weir_status st;
    if (cli->system && !cli->prompt)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "-s goes with -p; a JSON file holds its own system message");
    WR_TRY_GOTO(st, open_chat(cli, &chat, err), done);
    if (cli->list) {
        st = show_names(cli, chat, err);
        goto done;
    }
    WR_TRY_GOTO(st, read_messages(cli, &in, err), done);
    WR_TRY_GOTO(st, read_list(cli->tools, &in.tools, err), done);
    WR_TRY_GOTO(st, read_list(cli->documents, &in.documents, err), done);
    st = render(cli, chat, &in, err);
done:
    deinit(&in);
    wr_chat_free(chat);
    return st;
}
