/* The long lists of a tokenizer file. jansson makes an object of every string, which
 * for the 800,000 strings of a large file takes most of a second; so vocabulary and
 * merges are cut out of the text and read without a tree. The rest is jansson's. The
 * reader serves wherever one value is wanted without a tree. */
#ifndef WR_TEXT_JSON_LISTS_H
#define WR_TEXT_JSON_LISTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* One value of the text. */
typedef struct wr_json_span {
    size_t begin, end; /* bytes of the text; begin = end: there is none */
    size_t n;          /* its members, if it is a list or an object */
} wr_json_span;

/* Find the values of parent.keys[i] (or of keys[i] in the outermost object, with parent
 * NULL) for i < n, and copy the text without them: *rest (free with wr_free) has null in
 * their place and keeps their line ends. When the text is malformed nothing is found,
 * and *rest is all of it. Error: MEMORY. */
weir_status wr_json_cut(const char *text, size_t bytes, const char *parent, const char *const *keys, size_t n,
                        wr_json_span *spans, char **rest, size_t *rest_bytes, weir_error *err);

/* Reads a value from left to right; strict. where is for messages. */
typedef struct wr_json_reader {
    const char *text, *where;
    size_t at, end;
    char *unescaped;
    size_t cap;
    bool first; /* the next member is the first */
} wr_json_reader;

/* Error: FORMAT when the span is no UTF-8. */
weir_status wr_json_reader_init(wr_json_reader *r, const char *text, wr_json_span span, const char *where,
                                weir_error *err);
void wr_json_reader_deinit(wr_json_reader *r);

/* The character that the next value begins with; 0 at the end. */
char wr_json_peek(wr_json_reader *r);
/* Go into the list or object that comes: open is '[' or '{'. */
weir_status wr_json_enter(wr_json_reader *r, char open, weir_error *err);
/* *more: another member comes, and the reader stands at it; else the list or object
 * (close is ']' or '}') is left. */
weir_status wr_json_more(wr_json_reader *r, char close, bool *more, weir_error *err);
/* A string, not terminated: view, valid until the next string is read. A key with its colon. */
weir_status wr_json_string(wr_json_reader *r, const char **s, size_t *n, weir_error *err);
weir_status wr_json_key(wr_json_reader *r, const char **s, size_t *n, weir_error *err);
weir_status wr_json_int(wr_json_reader *r, int64_t *value, weir_error *err);
weir_status wr_json_number(wr_json_reader *r, double *value, weir_error *err);
/* Any value, passed over without being checked. */
weir_status wr_json_skip(wr_json_reader *r, weir_error *err);
/* The span holds nothing more. */
weir_status wr_json_end(wr_json_reader *r, weir_error *err);

#endif
