/* weir list: the models at hand. */
#include "cli/cli.h"
#include "file/store.h"

static weir_status show(void *context, const wr_store_entry *e, weir_error *err) {
    const wr_cli *cli = context;
    if (cli->json)
        return wr_cli_json(json_pack("{s:s,s:s,s:s,s:I,s:b,s:s}", "name", e->name, "path", e->path, "kind", e->kind,
                                     "bytes", (json_int_t)e->bytes, "complete", e->complete, "problem", e->why),
                           err);
    printf("%-48s %-12s %9.1f MB%s%s\n", e->name, e->kind, (double)e->bytes / 1e6,
           e->complete ? "" : "  incomplete: ", e->complete ? "" : e->why);
    return WEIR_OK;
}

weir_status wr_cmd_list(const wr_cli *cli, weir_error *err) {
    WR_TRY(wr_store_list(show, (void *)cli, err));
    return wr_cli_flush(err);
}
