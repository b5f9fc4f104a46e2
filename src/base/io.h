/* File access: every open, read, map and write of the library goes through here, so
 * that failures can be injected and messages are alike. */
#ifndef WR_BASE_IO_H
#define WR_BASE_IO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* A file mapped read-only. */
typedef struct wr_map {
    const uint8_t *data; /* NULL for an empty file */
    size_t bytes;
} wr_map;

/* Map a whole regular file. Errors: NOT_FOUND, IO; the message names the path. */
weir_status wr_map_open(const char *path, wr_map *map, weir_error *err);
void wr_map_close(wr_map *map);
/* Tell the system that [offset, offset + bytes) will not be read again soon, so
 * that it no longer counts as resident. */
void wr_map_drop(const wr_map *map, size_t offset, size_t bytes);

/* Whole file into memory, with one 0 byte behind it; free with wr_free.
 * Refused with LIMIT when larger than max_bytes. */
weir_status wr_file_read(const char *path, size_t max_bytes, char **text, size_t *bytes, weir_error *err);

/* A file being written. Any thread may write any part of it. */
typedef struct wr_out {
    int fd; /* -1 when closed */
    char *path;
} wr_out;

/* A new file of that many bytes, so that a full disk is found here; STATE when the path exists already. */
weir_status wr_out_create(const char *path, uint64_t bytes, wr_out *out, weir_error *err);
weir_status wr_out_write(const wr_out *out, uint64_t offset, const void *data, size_t bytes, weir_error *err);
/* Also after a failure, and twice; the system may report here what it could not write. */
weir_status wr_out_close(wr_out *out, weir_error *err);
/* A whole new file. */
weir_status wr_file_write(const char *path, const void *data, size_t bytes, weir_error *err);

weir_status wr_folder_create(const char *path, weir_error *err); /* STATE when the path exists already */
/* Atomic; an existing file at `to` is replaced, a folder only when it is empty. */
weir_status wr_path_rename(const char *from, const char *to, weir_error *err);
bool wr_path_remove(const char *path); /* a file or an empty folder; false when it is still there */

bool wr_path_exists(const char *path);
bool wr_path_is_file(const char *path);
bool wr_path_is_folder(const char *path);
/* "folder/name", allocated; NULL when out of memory. */
char *wr_path_join(const char *folder, const char *name);

#endif
