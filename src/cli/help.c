/* weir help: help, man page, Markdown and shell completion all
 * come from the two tables of table.c. */
#include <string.h>

#include "cli/cli.h"
#include "weir/version.h"

static bool belongs(const wr_option *o, int command) { return o->commands >> command & 1; }

static void print_option(FILE *out, const wr_option *o) {
    char left[64];
    snprintf(left, sizeof left, "%s%c%s %s%s%s", o->letter ? "-" : " ", o->letter ? o->letter : ' ',
             o->letter ? "," : " ", o->name, o->value ? " " : "", o->value ? o->value : "");
    bool shown = o->fallback && strcmp(o->fallback, "0");
    fprintf(out, "  %-32s %s%s%s%s%s%s%s\n", left, o->help, shown ? " (default " : "", shown ? o->fallback : "",
            shown ? ")" : "", o->variable ? " [" : "", o->variable ? o->variable : "", o->variable ? "]" : "");
}

void wr_print_command_help(FILE *out, wr_command_id id) {
    const wr_command *c = &wr_commands[id];
    fprintf(out, "usage: weir %s %s [options]\n\n%s.\n", c->name, c->words, c->summary);
    if (*c->description) fprintf(out, "%s\n", c->description);
    fprintf(out, "\noptions:\n");
    for (size_t i = 0; i < wr_cli_options.n; i++)
        if (wr_cli_options.options[i].name && belongs(&wr_cli_options.options[i], (int)id))
            print_option(out, &wr_cli_options.options[i]);
}

void wr_print_overview(FILE *out) {
    fprintf(out, "weir runs language models.\n\nusage: weir COMMAND [MODEL] [options]\n\ncommands:\n");
    for (int i = 0; i < WR_N_COMMANDS; i++) fprintf(out, "  %-10s %s\n", wr_commands[i].name, wr_commands[i].summary);
    fprintf(out, "\nMODEL is a folder, a .gguf file, a Hugging Face id in the local cache, or a name of `weir list`.\n"
                 "weir COMMAND --help shows a command's options.\n");
}

static void print_man(void) {
    printf(
        ".TH WEIR 1 \"\" \"weir %s\" \"User Commands\"\n.SH NAME\nweir \\- run language models\n.SH SYNOPSIS\n"
        ".B weir\n.I COMMAND\n[\n.I MODEL\n] [options]\n.SH DESCRIPTION\nweir loads checkpoints as they are published "
        "(MLX-quantised and Hugging Face safetensors, GGUF) and runs them on the CPU or an NVIDIA GPU. MODEL is a "
        "folder, a .gguf file, "
        "a Hugging Face id in the local cache, or a name that\n.B weir list\nshows.\n.SH COMMANDS\n",
        WEIR_VERSION);
    for (int i = 0; i < WR_N_COMMANDS; i++) {
        const wr_command *c = &wr_commands[i];
        printf(".SS weir %s %s\n%s.\n", c->name, c->words, c->summary);
        if (*c->description) printf("%s\n", c->description);
        for (size_t k = 0; k < wr_cli_options.n; k++) {
            const wr_option *o = &wr_cli_options.options[k];
            if (!o->name || !belongs(o, i) || !strcmp(o->name, "--help")) continue;
            printf(".TP\n");
            if (o->letter) printf("\\fB\\-%c\\fR, ", o->letter);
            printf("\\fB\\-\\-%s\\fR%s%s\n%s.", o->name + 2, o->value ? " " : "", o->value ? o->value : "", o->help);
            if (o->fallback) printf(" Default: %s.", o->fallback);
            printf("\n");
        }
        if (wr_command_fields[i]) printf(".PP\n\\-\\-json: %s\n", wr_command_fields[i]);
    }
    printf(".SH ENVIRONMENT\n");
    for (size_t k = 0; k < wr_cli_options.n; k++) {
        const wr_option *o = &wr_cli_options.options[k];
        if (o->variable) printf(".TP\n.B %s\n%s.\n", o->variable, o->help);
    }
    printf(".SH EXIT STATUS\n0 when done, 1 when the work failed, 2 when the command line is wrong.\n");
}

static void print_markdown(void) {
    printf("# The weir command\n\nThis page is written by `weir help --format markdown` from the table of options.\n");
    for (int i = 0; i < WR_N_COMMANDS; i++) {
        const wr_command *c = &wr_commands[i];
        printf("\n## weir %s %s\n\n%s.%s%s\n\n| option | value | default | meaning |\n| --- | --- | --- | --- |\n",
               c->name, c->words, c->summary, *c->description ? " " : "", c->description);
        for (size_t k = 0; k < wr_cli_options.n; k++) {
            const wr_option *o = &wr_cli_options.options[k];
            if (!o->name || !belongs(o, i)) continue;
            printf("| `%s`", o->name);
            if (o->letter) printf(", `-%c`", o->letter);
            printf(" | %s | %s | %s |\n", o->value ? o->value : "", o->fallback ? o->fallback : "", o->help);
        }
        if (wr_command_fields[i]) printf("\n`--json`: %s\n", wr_command_fields[i]);
    }
    printf("\n## Environment\n\n| variable | meaning |\n| --- | --- |\n");
    for (size_t k = 0; k < wr_cli_options.n; k++) {
        const wr_option *o = &wr_cli_options.options[k];
        if (o->variable) printf("| `%s` | %s |\n", o->variable, o->help);
    }
    printf("\nExit status: 0 when done, 1 when the work failed, 2 when the command line is wrong.\n");
}

static void print_bash(void) {
    printf("# bash completion for weir\n_weir() {\n  local cur=${COMP_WORDS[COMP_CWORD]} options\n"
           "  if [ \"$COMP_CWORD\" -eq 1 ]; then COMPREPLY=($(compgen -W \"");
    for (int i = 0; i < WR_N_COMMANDS; i++) printf("%s%s", i ? " " : "", wr_commands[i].name);
    printf("\" -- \"$cur\")); return; fi\n  case ${COMP_WORDS[1]} in\n");
    for (int i = 0; i < WR_N_COMMANDS; i++) {
        printf("  %s) options=\"", wr_commands[i].name);
        for (size_t k = 0; k < wr_cli_options.n; k++)
            if (wr_cli_options.options[k].name && belongs(&wr_cli_options.options[k], i))
                printf("%s ", wr_cli_options.options[k].name);
        printf("\" ;;\n");
    }
    printf("  esac\n  case $cur in\n  -*) COMPREPLY=($(compgen -W \"$options\" -- \"$cur\")) ;;\n"
           "  *) COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n  esac\n}\ncomplete -F _weir weir\n");
}

weir_status wr_cmd_help(const wr_cli *cli, weir_error *err) {
    static const struct {
        const char *name;
        void (*print)(void);
    } formats[] = {{"man", print_man}, {"markdown", print_markdown}, {"bash", print_bash}};
    if (cli->format) {
        for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
            if (!strcmp(cli->format, formats[i].name)) {
                formats[i].print();
                return wr_cli_flush(err);
            }
        return WR_FAIL(err, WEIR_E_ARGUMENT, "--format is \"%s\"; it must be man, markdown or bash", cli->format);
    }
    if (!cli->n_words) {
        wr_print_overview(stdout);
        return wr_cli_flush(err);
    }
    for (int i = 0; i < WR_N_COMMANDS; i++)
        if (!strcmp(cli->words[0], wr_commands[i].name)) {
            wr_print_command_help(stdout, (wr_command_id)i);
            return wr_cli_flush(err);
        }
    return WR_FAIL(err, WEIR_E_ARGUMENT, "unknown command \"%s\"; weir help lists the commands", cli->words[0]);
}
