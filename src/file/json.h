/* JSON of model files, by jansson: with our allocators, a depth limit (jansson
 * recurses), duplicate keys refused, and messages that name file and place. */
#ifndef WR_FILE_JSON_H
#define WR_FILE_JSON_H

#include <stddef.h>

#include <jansson.h>

#include "base/status.h"

enum { WR_JSON_DEPTH = 64 };

/* Give jansson our allocators; everyone who uses jansson calls this first. Any thread, any number of times. */
void wr_json_setup(void);

/* name is for messages. The caller owns *out (json_decref). */
weir_status wr_json_parse(const char *text, size_t bytes, const char *name, json_t **out, weir_error *err);
/* As Python writes it: Infinity and -Infinity are read as 1e308 and -1e308. */
weir_status wr_json_read(const char *path, size_t max_bytes, json_t **out, weir_error *err);

/* The value as text, terminated, freed with wr_free; flags: jansson's. NULL stands for a value that could not be made
 * for lack of memory, so that a caller may check once. Errors: MEMORY. */
weir_status wr_json_text(const json_t *value, size_t flags, char **text, weir_error *err);

/* The value in a few words for a message: 12, "text", a list of 3. */
void wr_json_show(const json_t *value, char *out, size_t cap);

#endif
