/* A chat at the terminal: lines with editing and history (libedit), the whole
 * conversation formatted by the model's template for each turn. */
#include "cli/chat.h"

#include <editline/readline.h>
#include <locale.h>
#include <string.h>

#include "base/mem.h"

enum { MAX_TURNS = 1024, HISTORY_LINES = 1000 };

/* A conversation is a list of messages; forget all but the first `keep`. */
static void forget(json_t *messages, size_t keep) {
    while (json_array_size(messages) > keep) json_array_remove(messages, json_array_size(messages) - 1);
}

/* One question and its answer. --raw: only the line itself is continued. */
static weir_status turn(const wr_cli *cli, weir_engine *engine, const wr_chat *templates, json_t *messages,
                        const char *line, weir_error *err) {
    char *formatted = NULL, *answer = NULL;
    wr_answer_stats stats;
    size_t before = json_array_size(messages), bytes = strlen(line);
    weir_status st;
    WR_TRY(wr_cli_add_message(messages, "user", line, bytes, err));
    if (templates) WR_TRY_GOTO(st, wr_cli_format_chat(cli, templates, messages, &formatted, &bytes, err), done);
    const char *text = templates ? formatted : line;
    WR_TRY_GOTO(st, wr_cli_answer(cli, engine, text, bytes, templates != NULL, &answer, &stats, err), done);
    putchar('\n');
    WR_TRY_GOTO(st, wr_cli_flush(err), done);
    if (stats.full) fprintf(stderr, "weir run: the context is full, the answer was cut; /clear starts anew\n");
    if (cli->verbose) fprintf(stderr, "[%zu + %zu tokens, %s]\n", stats.n_prompt, stats.n_generated, stats.finish);
    st = wr_cli_add_message(messages, "assistant", answer, stats.text_bytes, err);
done:
    if (st != WEIR_OK) forget(messages, before);
    wr_free(answer);
    wr_free(formatted);
    return st;
}

/* $WEIR_HISTORY, or ~/.weir_history; NULL: none. */
static char *history_path(const wr_cli *cli) {
    if (cli->history) return wr_strdup(cli->history);
    const char *variable = getenv("WEIR_HISTORY"), *home = getenv("HOME");
    if (variable || !home) return NULL; /* set, but empty: none */
    size_t bytes = strlen(home) + sizeof "/.weir_history";
    char *path = wr_malloc(bytes);
    if (path) snprintf(path, bytes, "%s/.weir_history", home);
    return path;
}

/* A model without a usable template is refused at once, not at the first line. */
static weir_status try_template(const wr_cli *cli, const wr_chat *templates, weir_error *err) {
    char *formatted = NULL;
    size_t bytes;
    json_t *messages = json_array();
    weir_status st = wr_cli_add_message(messages, "user", "hello", 5, err);
    if (st == WEIR_OK) st = wr_cli_format_chat(cli, templates, messages, &formatted, &bytes, err);
    json_decref(messages);
    wr_free(formatted);
    return st;
}

weir_status wr_cli_chat(const wr_cli *cli, weir_engine *engine, const wr_chat *templates, weir_error *err) {
    if (templates) WR_TRY(try_template(cli, templates, err));
    json_t *messages = json_array();
    if (!messages) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a conversation");
    char *path = history_path(cli);
    weir_status st = WEIR_OK;
    /* In the C locale libedit drops every character beyond ASCII; all text here is UTF-8. */
    if (!setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1) setlocale(LC_CTYPE, "C.UTF-8");
    rl_readline_name = (char *)"weir";
    using_history();
    stifle_history(HISTORY_LINES);
    if (path) read_history(path);
    if (cli->system) st = wr_cli_add_message(messages, "system", cli->system, strlen(cli->system), err);
    size_t keep = json_array_size(messages);
    while (st == WEIR_OK) {
        char *line = readline("> ");
        if (!line || !strcmp(line, "/exit")) {
            if (!line) putchar('\n');
            free(line);
            break;
        }
        if (!strcmp(line, "/clear"))
            forget(messages, keep);
        else if (*line) {
            add_history(line);
            if (json_array_size(messages) > 2 * MAX_TURNS) forget(messages, keep);
            weir_error turn_err = {0};
            /* A turn that fails (a conversation longer than the context, say) ends the turn, not the chat. */
            if (turn(cli, engine, templates, messages, line, &turn_err) != WEIR_OK)
                fprintf(stderr, "weir run: %s%s\n", turn_err.message,
                        turn_err.status == WEIR_E_LIMIT ? "; /clear starts anew" : "");
        }
        free(line);
    }
    if (path) write_history(path);
    wr_free(path);
    json_decref(messages);
    return st;
}
