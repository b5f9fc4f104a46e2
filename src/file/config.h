/* A model's configuration: the config.json of a checkpoint, or for GGUF the same
 * keys made from its metadata, so that a model family reads one form only.
 * Looks in `text_config` first, then in the root. Values borrow from the
 * checkpoint and die with it. */
#ifndef WR_FILE_CONFIG_H
#define WR_FILE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

typedef struct wr_config wr_config;

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
