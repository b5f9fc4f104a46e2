/* A model's configuration: the config.json of a checkpoint, or for GGUF the same
 * keys made from its metadata, so that a model family reads one form only.
 * Looks in `text_config` first, then in the root; a path whose first part is in
 * `text_config` is looked for only there. Values borrow from the
 * checkpoint and die with it. */
#ifndef WR_FILE_CONFIG_H
#define WR_FILE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

struct json_t; /* jansson's */

typedef struct wr_config wr_config;

/* name is for messages; max 16 MiB. */
weir_status wr_config_parse(const char *text, size_t bytes, const char *name, wr_config **out, weir_error *err);
weir_status wr_config_read(const char *path, wr_config **out, weir_error *err);
/* From values already made; root is taken, also on failure. */
weir_status wr_config_make(struct json_t *root /* take */, const char *name, wr_config **out, weir_error *err);
void wr_config_free(wr_config *config);
/* The value itself, borrowed; NULL when absent or null. */
const struct json_t *wr_config_find(const wr_config *config, const char *key);

bool wr_config_has(const wr_config *config, const char *key); /* present and not null */
/* Reading with bounds: a value of another type or outside [low, high] is an
 * error that names key and value. `_or` gives fallback when absent or null. A key
 * may be a path: "rope_scaling.factor". */
weir_status wr_config_int(const wr_config *c, const char *key, int64_t low, int64_t high, int64_t *out,
                          weir_error *err);
weir_status wr_config_int_or(const wr_config *c, const char *key, int64_t low, int64_t high, int64_t fallback,
                             int64_t *out, weir_error *err);
weir_status wr_config_float_or(const wr_config *c, const char *key, double low, double high, double fallback,
                               double *out, weir_error *err);
weir_status wr_config_bool_or(const wr_config *c, const char *key, bool fallback, bool *out, weir_error *err);
/* *out borrowed, or fallback. */
weir_status wr_config_string_or(const wr_config *c, const char *key, const char *fallback, const char **out,
                                weir_error *err);
/* Lists: count (0 when absent) and elements. A lone number counts as a list of one. */
weir_status wr_config_count(const wr_config *c, const char *key, int64_t *n, weir_error *err);
weir_status wr_config_int_at(const wr_config *c, const char *key, int64_t index, int64_t low, int64_t high,
                             int64_t *out, weir_error *err);
weir_status wr_config_float_at(const wr_config *c, const char *key, int64_t index, double low, double high, double *out,
                               weir_error *err);
weir_status wr_config_string_at(const wr_config *c, const char *key, int64_t index, const char **out, weir_error *err);

#endif
