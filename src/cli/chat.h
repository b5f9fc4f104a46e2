/* Answering and chatting, shared by `weir run`'s two forms. */
#ifndef WR_CLI_CHAT_H
#define WR_CLI_CHAT_H

#include "cli/cli.h"
#include "text/chat.h"

typedef struct wr_answer_stats {
    size_t n_prompt, n_generated;
    size_t text_bytes; /* of the answer, which may hold 0 bytes */
    double prefill_s, decode_s;
    const char *finish;
    bool full; /* the context ended the answer */
} wr_answer_stats;

/* Generate from text, showing the answer as it comes. from_template: control tokens in the text count. *out: the whole
 * answer, terminated; free with wr_free. */
weir_status wr_cli_answer(const wr_cli *cli, weir_engine *engine, const char *text, size_t bytes, bool from_template,
                          char **out, wr_answer_stats *stats, weir_error *err);
/* Messages by the model's template, with --arg's values; free with wr_free. */
weir_status wr_cli_format_chat(const wr_cli *cli, const wr_chat *templates, const json_t *messages, char **out,
                               size_t *bytes, weir_error *err);
/* Append {role, content} to a list of messages. */
weir_status wr_cli_add_message(json_t *messages, const char *role, const char *text, size_t bytes, weir_error *err);
/* --arg K=V as an object: V as JSON where it is JSON, else as a text. The caller owns it. */
weir_status wr_cli_template_args(const wr_cli *cli, json_t **out, weir_error *err);
/* Lines from the terminal until its end. templates: NULL for --raw. */
weir_status wr_cli_chat(const wr_cli *cli, weir_engine *engine, const wr_chat *templates, weir_error *err);
/* [[token, logprob], ...] of an event. */
json_t *wr_cli_json_top(const weir_event *event);

#endif
