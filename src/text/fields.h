/* Reading the fields of JSON objects strictly, with messages that name the place. Paths are
 * "model.vocab"; `where` is the path of the object that is asked. */
#ifndef WR_TEXT_FIELDS_H
#define WR_TEXT_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/status.h"

/* Every key of obj is one of known (separated by spaces), else UNSUPPORTED. FORMAT
 * when obj is no object. */
weir_status wr_field_only(const json_t *obj, const char *where, const char *known, weir_error *err);
/* obj[key]; absent or null leaves *out as it is. FORMAT for another type. */
weir_status wr_field_bool(const json_t *obj, const char *where, const char *key, bool *out, weir_error *err);
weir_status wr_field_int(const json_t *obj, const char *where, const char *key, int64_t *out, weir_error *err);
/* View into obj; sets *text, terminated, and *bytes. */
weir_status wr_field_string(const json_t *obj, const char *where, const char *key, const char **text, size_t *bytes,
                            weir_error *err);
/* obj[key] must be there and have this type (JSON_OBJECT, JSON_ARRAY, ...). */
weir_status wr_field_need(const json_t *obj, const char *where, const char *key, json_type type, json_t **out,
                          weir_error *err);

#endif
