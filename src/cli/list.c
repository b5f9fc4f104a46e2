/* weir list: the models at hand. */
#include <string.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "file/store.h"

typedef struct listing {
    bool json;
    size_t n;
} listing;

static weir_status show(void *context, const wr_store_entry *e, weir_error *err) {
    listing *list = context;
    list->n++;
    if (list->json)
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
    listing list = {.json = cli->json};
    WR_TRY(wr_store_list(show, &list, err));
    if (!list.n && !cli->json) { /* no model is no error, but a wrong WEIR_STORE should be seen */
        char *store = wr_store_folder(), *hub = wr_store_hub_folder();
        fprintf(stderr, "no models in %s or %s\n", store ? store : "the store", hub ? hub : "the Hugging Face cache");
        wr_free(store);
        wr_free(hub);
    }
    return wr_cli_flush(err);
}
