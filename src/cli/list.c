/* weir list: the models at hand. */
#include <string.h>

#include "cli/cli.h"
#include "file/store.h"

static weir_status show(void *context, const wr_store_entry *e, weir_error *err) {
    const wr_cli *cli = context;
    if (cli->json)
        return wr_cli_json(json_pack("{s:o,s:o,s:s,s:I,s:b,s:o}", "name", wr_cli_json_text(e->name, strlen(e->name)),
                                     "path", wr_cli_json_text(e->path, strlen(e->path)), "kind", e->kind, "bytes",
                                     (json_int_t)e->bytes, "complete", e->complete, "problem",
                                     wr_cli_json_text(e->why, strlen(e->why))),
                           err);
    printf("%-48s %-12s %9.1f MB%s%s\n", e->name, e->kind, (double)e->bytes / 1e6,
           e->complete ? "" : "  incomplete: ", e->complete ? "" : e->why);
    return WEIR_OK;
}

weir_status wr_cmd_list(const wr_cli *cli, weir_error *err) {
    WR_TRY(wr_store_list(show, (void *)cli, err));
    return wr_cli_flush(err);
}
