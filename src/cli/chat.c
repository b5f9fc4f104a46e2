/* A chat at the terminal: lines with editing and history (libedit), the whole
 * conversation formatted by the model's template for each turn. */
#include "cli/chat.h"

#include <editline/readline.h>
#include <locale.h>
#include <string.h>

#include "base/mem.h"

enum { MAX_TURNS = 1024, HISTORY_LINES = 1000 };

typedef struct conversation {
    wr_chat_message messages[2 * MAX_TURNS + 1];
    size_t n;
} conversation;

static void forget(conversation *c, size_t keep) {
    while (c->n > keep) wr_free((void *)c->messages[--c->n].content);
}

static weir_status remember(conversation *c, const char *role, const char *text, weir_error *err) {
    char *copy = wr_strdup(text);
    if (!copy) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a message");
    c->messages[c->n++] = (wr_chat_message){role, copy};
    return WEIR_OK;
}

/* One question and its answer. --raw: only the line itself is continued. */
static weir_status turn(const wr_cli *cli, weir_engine *engine, conversation *c, const char *line, weir_error *err) {
    char *formatted = NULL, *answer = NULL;
    wr_answer_stats stats;
    size_t before = c->n;
    weir_status st;
    WR_TRY(remember(c, "user", line, err));
    if (!cli->raw) WR_TRY_GOTO(st, wr_cli_format_chat(engine, c->messages, c->n, &formatted, err), done);
    const char *text = cli->raw ? line : formatted;
    WR_TRY_GOTO(st, wr_cli_answer(cli, engine, text, strlen(text), !cli->raw, &answer, &stats, err), done);
    putchar('\n');
    WR_TRY_GOTO(st, wr_cli_flush(err), done);
    if (stats.full) fprintf(stderr, "weir run: the context is full, the answer was cut; /clear starts anew\n");
    if (cli->verbose) fprintf(stderr, "[%zu + %zu tokens, %s]\n", stats.n_prompt, stats.n_generated, stats.finish);
    st = remember(c, "assistant", answer, err);
done:
    if (st != WEIR_OK) forget(c, before);
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
static weir_status try_template(const weir_engine *engine, weir_error *err) {
    char *formatted = NULL;
    weir_status st = wr_cli_format_chat(engine, &(wr_chat_message){"user", ""}, 1, &formatted, err);
    wr_free(formatted);
    return st;
}

weir_status wr_cli_chat(const wr_cli *cli, weir_engine *engine, weir_error *err) {
    if (!cli->raw) WR_TRY(try_template(engine, err));
    conversation *c = wr_calloc(1, sizeof *c);
    if (!c) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a conversation");
    char *path = history_path(cli);
    weir_status st = WEIR_OK;
    /* In the C locale libedit drops every character beyond ASCII; all text here is UTF-8. */
    if (!setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1) setlocale(LC_CTYPE, "C.UTF-8");
    rl_readline_name = (char *)"weir";
    using_history();
    stifle_history(HISTORY_LINES);
    if (path) read_history(path);
    if (cli->system) st = remember(c, "system", cli->system, err);
    size_t keep = c->n;
    while (st == WEIR_OK) {
        char *line = readline("> ");
        if (!line || !strcmp(line, "/exit")) {
            if (!line) putchar('\n');
            free(line);
            break;
        }
        if (!strcmp(line, "/clear"))
            forget(c, keep);
        else if (*line) {
            add_history(line);
            if (c->n + 2 > sizeof c->messages / sizeof *c->messages) forget(c, keep);
            weir_error turn_err = {0};
            /* A turn that fails (a conversation longer than the context, say) ends the turn, not the chat. */
            if (turn(cli, engine, c, line, &turn_err) != WEIR_OK)
                fprintf(stderr, "weir run: %s%s\n", turn_err.message,
                        turn_err.status == WEIR_E_LIMIT ? "; /clear starts anew" : "");
        }
        free(line);
    }
    if (path) write_history(path);
    wr_free(path);
    forget(c, 0);
    wr_free(c);
    return st;
}
