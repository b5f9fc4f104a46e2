/* The command line: one file a command; the table of options serves parsing,
 * help, man page, completion and docs. */
#ifndef WR_CLI_CLI_H
#define WR_CLI_CLI_H

#include <jansson.h>
#include <stdio.h>

#include "base/options.h"
#include "base/status.h"
#include "weir/engine.h"

typedef enum wr_command_id {
    WR_CMD_RUN,
    WR_CMD_TOKENIZE,
    WR_CMD_TEMPLATE,
    WR_CMD_GRAMMAR,
    WR_CMD_SCORE,
    WR_CMD_INSPECT,
    WR_CMD_BENCH,
    WR_CMD_LIST,
    WR_CMD_SYNTH,
    WR_CMD_VERSION,
    WR_CMD_HELP,
    WR_N_COMMANDS
} wr_command_id;

/* What the options of all commands fill. */
typedef struct wr_cli {
    wr_command_id command;
    bool help, json, raw, ignore_eos, special, verbose, reference, logprobs, list, force, devices;
    const char *prompt, *file, *system, *ids, *device, *kv_dtype, *prompts, *lengths, *batches, *format, *history;
    const char *output, *quant, *dtype;
    wr_texts stop, args;
    const char *name, *tools, *documents, *template_file;
    bool no_generation_prompt;
    const char *kind, *texts, *mask_model; /* of weir grammar */
    bool plain_strings, plain_numbers, one_of_as_any_of;
    int64_t max_whitespace;
    int64_t layers, bits, group_size;
    int64_t threads, context, batch, step_tokens, kv_bytes, max_tokens, top_k, seed, top, repetitions;
    double temperature, top_p, min_p, repetition_penalty, presence_penalty, frequency_penalty;
    wr_texts logit_bias;
    const char *model; /* first word */
    const char *words[2];
    size_t n_words;
} wr_cli;

typedef struct wr_command {
    const char *name, *words, *summary, *description;
    weir_status (*run)(const wr_cli *cli, weir_error *err);
} wr_command;

extern const wr_command wr_commands[WR_N_COMMANDS];
extern const wr_option_table wr_cli_options;
/* JSON fields of each command's --json output, for the docs. */
extern const char *const wr_command_fields[WR_N_COMMANDS];

weir_status wr_cmd_run(const wr_cli *cli, weir_error *err);
weir_status wr_cmd_tokenize(const wr_cli *cli, weir_error *err);
weir_status wr_cmd_template(const wr_cli *cli, weir_error *err);
weir_status wr_cmd_grammar(const wr_cli *cli, weir_error *err);
weir_status wr_cmd_score(const wr_cli *cli, weir_error *err);
weir_status wr_cmd_inspect(const wr_cli *cli, weir_error *err);
weir_status wr_cmd_bench(const wr_cli *cli, weir_error *err);
weir_status wr_cmd_list(const wr_cli *cli, weir_error *err);
weir_status wr_cmd_synth(const wr_cli *cli, weir_error *err);
weir_status wr_cmd_version(const wr_cli *cli, weir_error *err);
weir_status wr_cmd_help(const wr_cli *cli, weir_error *err);

/* cli/help.c */
void wr_print_command_help(FILE *out, wr_command_id command);
void wr_print_overview(FILE *out);

/* cli/common.c: what several commands do alike. */
/* "auto" becomes what it stands for here; a GPU that is there and cannot be used gets a line on standard error. */
weir_status wr_cli_engine_options(const wr_cli *cli, weir_engine_options *options, weir_error *err);
/* Opens the engine with progress on a terminal. */
weir_status wr_cli_open(const wr_cli *cli, weir_engine **engine, weir_error *err);
weir_status wr_cli_sampling(const wr_cli *cli, weir_sampling *sampling, weir_logit_bias *bias, size_t cap,
                            weir_error *err);
/* The text that -p or -f name ("-": standard input); allocated with wr_malloc. NULL when neither is given. */
weir_status wr_cli_text(const wr_cli *cli, char **text, size_t *bytes, weir_error *err);
/* NOT_FOUND when tok is NULL, since the model has none. */
weir_status wr_cli_need_tokenizer(const wr_cli *cli, const weir_tokenizer *tok, weir_error *err);
/* One JSON line on standard output; takes the object. Errors: IO, MEMORY. */
weir_status wr_cli_json(json_t *object, weir_error *err);
/* Text as a JSON string: bytes that are no UTF-8 become U+FFFD. */
json_t *wr_cli_json_text(const char *text, size_t bytes);
/* Flush standard output; a closed pipe or full disk is an IO error. */
weir_status wr_cli_flush(weir_error *err);
/* "1,2,8" into numbers; ARGUMENT when malformed. */
weir_status wr_cli_numbers(const char *option, const char *text, int64_t *out, size_t cap, size_t *n, weir_error *err);

/* Seconds of a clock that only goes forward. */
double wr_cli_now_s(void);

#endif
