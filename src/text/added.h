/* Added tokens: texts that are found in the input before anything else happens to
 * it, longest first at each place. */
#ifndef WR_TEXT_ADDED_H
#define WR_TEXT_ADDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "text/work.h"

enum {
    WR_ADDED_SPECIAL = 1,     /* only looked for when special tokens are parsed */
    WR_ADDED_LSTRIP = 2,      /* takes the white space before it */
    WR_ADDED_RSTRIP = 4,      /* and behind it */
    WR_ADDED_SINGLE_WORD = 8, /* not where a word character touches it */
    WR_ADDED_NORMALIZED = 16, /* looked for in normalised text, in normalised form */
};

typedef struct wr_added_token {
    int32_t id;
    uint32_t flags, at, bytes; /* bytes [at, at + bytes) of the text */
} wr_added_token;

/* A set of patterns, sorted by wr_added_sort before the first search. */
typedef struct wr_added {
    wr_added_token *token;
    size_t n, cap;
    uint8_t *text;
    size_t text_bytes, text_cap;
    uint32_t first[257]; /* patterns that begin with byte b: [first[b], first[b+1]) */
} wr_added;

void wr_added_deinit(wr_added *a);
/* Error: MEMORY, LIMIT. Empty patterns are left out. */
weir_status wr_added_add(wr_added *a, int32_t id, const void *text, size_t bytes, unsigned flags, weir_error *err);
void wr_added_sort(wr_added *a);
/* Bytes of the longest pattern that p [n], n >= 1, begins with; 0 when there is none. */
size_t wr_added_longest(const wr_added *a, const uint8_t *p, size_t n);
size_t wr_added_heap_bytes(const wr_added *a);

/* The next token in v at or behind *from; false when there is none. *begin and
 * *end are what it covers (never before `done`, where the last one ended), and
 * *from moves behind it. */
bool wr_added_next(const wr_added *a, const wr_view *v, bool special, size_t done, size_t *from, size_t *begin,
                   size_t *end, int32_t *id);

#endif
