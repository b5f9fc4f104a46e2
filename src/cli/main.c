/* The weir command: find the command, parse its options, run it, report. */
#include <signal.h>
#include <string.h>

#include "cli/cli.h"

/* Exit codes: 0 done, 1 the work failed, 2 the command line is wrong. */
static int report(const char *command, weir_status status, const weir_error *err) {
    if (status == WEIR_OK) return 0;
    fprintf(stderr, "weir%s%s: %s\n", command ? " " : "", command ? command : "", err->message);
    return status == WEIR_E_ARGUMENT ? 2 : 1;
}

static int find_command(const char *name) {
    for (int i = 0; i < WR_N_COMMANDS; i++)
        if (!strcmp(name, wr_commands[i].name)) return i;
    if (!strcmp(name, "--version") || !strcmp(name, "-V")) return WR_CMD_VERSION;
    if (!strcmp(name, "--help") || !strcmp(name, "-h")) return WR_CMD_HELP;
    return -1;
}

int main(int argc, char **argv) {
    weir_error err = {0};
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is a write error that is reported, not a death */
    if (argc < 2) {
        wr_print_overview(stderr);
        return 2;
    }
    int id = find_command(argv[1]);
    if (id < 0)
        return report(NULL,
                      WR_FAIL(&err, WEIR_E_ARGUMENT, "unknown command \"%s\"; weir help lists the commands", argv[1]),
                      &err);
    const wr_command *command = &wr_commands[id];
    wr_cli cli = {.command = (wr_command_id)id};
    weir_status st = wr_options_parse(&wr_cli_options, (unsigned)id, argc - 2, (const char *const *)argv + 2, &cli,
                                      cli.words, command->words[0] ? 1 : 0, &cli.n_words, &err);
    if (st != WEIR_OK) return report(command->name, st, &err);
    if (cli.help) {
        wr_print_command_help(stdout, cli.command);
        return report(command->name, wr_cli_flush(&err), &err);
    }
    cli.model = cli.words[0];
    if (!strcmp(command->words, "MODEL") && !cli.model)
        return report(command->name,
                      WR_FAIL(&err, WEIR_E_ARGUMENT,
                              "no model named; give a folder, a .gguf file, a Hugging Face id or a "
                              "name of `weir list`"),
                      &err);
    return report(command->name, command->run(&cli, &err), &err);
}
