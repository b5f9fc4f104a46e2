/* Which files make up a safetensors model, found before any of them is opened. */
#ifndef WR_FILE_SHARDS_H
#define WR_FILE_SHARDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct wr_shards {
    char **paths; /* sorted */
    int n;
} wr_shards;

/* path: a folder or one file. Errors: NOT_FOUND (no weights, a missing shard), FORMAT
 * (empty shard, unfinished download, malformed index). */
weir_status wr_shards_find(const char *path, wr_shards *out, weir_error *err);
void wr_shards_free(wr_shards *shards);

/* The names in a folder, sorted, without "." and ".."; free with wr_folder_free. */
typedef struct wr_folder {
    char **names;
    size_t n;
} wr_folder;
weir_status wr_folder_list(const char *path, wr_folder *out, weir_error *err);
void wr_folder_free(wr_folder *folder);

bool wr_text_starts(const char *text, const char *prefix);
bool wr_text_ends(const char *text, const char *suffix);

#endif
