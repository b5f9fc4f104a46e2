/* The tools of a request, as far as parsing needs them: their names, and which types their parameters may have. */
#ifndef WR_TEXT_PARSE_SCHEMA_H
#define WR_TEXT_PARSE_SCHEMA_H

#include <stddef.h>

#include <jansson.h>

#include "base/status.h"
#include "text/parse/bytes.h"

enum wr_type {
    WR_TYPE_STRING = 1,
    WR_TYPE_INTEGER = 2,
    WR_TYPE_NUMBER = 4,
    WR_TYPE_BOOLEAN = 8,
    WR_TYPE_NULL = 16,
    WR_TYPE_ARRAY = 32,
    WR_TYPE_OBJECT = 64,
    WR_TYPE_ALL = 127,
};

/* json: an array as in the OpenAI API ({"type": "function", "function": {...}}) or of bare functions. *out is owned by
 * the caller (json_decref). Errors: FORMAT, MEMORY. */
weir_status wr_tools_new(const char *json, json_t **out, weir_error *err);

/* The tool of this name, NULL if there is none. View; tools may be NULL. */
const json_t *wr_tools_find(const json_t *tools, const char *name, size_t bytes);

/* The types (WR_TYPE_...) that the tool's schema allows for a parameter; 0 when it does not say. tool may be NULL. */
unsigned wr_tool_types(const json_t *tool, const char *key, size_t key_bytes);

/* A value that was written without quotes, as JSON of one of these types (0: any) where it is one, else as a string. */
void wr_typed_value(const char *text, size_t n, unsigned types, wr_bytes *out);

#endif
