/* Growable memory of one encoding: arrays, and text that remembers where in the
 * caller's text each of its bytes came from. */
#ifndef WR_TEXT_WORK_H
#define WR_TEXT_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Make room for `need` elements in *p (capacity *cap), growing by half at least.
 * False when out of memory or when the size overflows. */
bool wr_grow(void *p, size_t *cap, size_t need, size_t element_bytes);

typedef struct wr_range {
    uint32_t begin, end;
} wr_range;

/* Text to read. map is NULL when byte i came from byte base + i. */
typedef struct wr_view {
    const uint8_t *data;
    size_t n;
    const wr_range *map;
    size_t base;
} wr_view;

/* A part of a view, and where bytes [begin, end), begin < end, came from. */
wr_view wr_view_part(const wr_view *v, size_t begin, size_t end);
wr_range wr_view_range(const wr_view *v, size_t begin, size_t end);

/* Text being written. Init by zeroing, then set with_map. */
typedef struct wr_text {
    uint8_t *data;
    wr_range *map; /* only with_map */
    size_t n, cap, map_cap;
    bool with_map;
} wr_text;

void wr_text_deinit(wr_text *t);
/* Append bytes that all came from `from`. False when out of memory. */
bool wr_text_add(wr_text *t, const void *bytes, size_t n, wr_range from);
/* Append bytes [begin, end) of v unchanged. */
bool wr_text_add_part(wr_text *t, const wr_view *v, size_t begin, size_t end);
wr_view wr_text_view(const wr_text *t);

/* Cuts of a text. */
typedef struct wr_piece {
    size_t begin, end;
} wr_piece;
typedef struct wr_pieces {
    wr_piece *at;
    size_t n, cap;
} wr_pieces;
bool wr_pieces_add(wr_pieces *p, size_t begin, size_t end);
/* Append where `what` (empty: nowhere) stands in bytes [begin, end) of text, from left to right, not overlapping. */
bool wr_pieces_find(wr_pieces *p, const uint8_t *text, size_t begin, size_t end, const char *what, size_t bytes);

/* Tokens being written. */
typedef struct wr_ids {
    int32_t *id;
    wr_range *from; /* only with_map */
    size_t n, cap, from_cap;
    bool with_map;
} wr_ids;
void wr_ids_deinit(wr_ids *ids);
bool wr_ids_add(wr_ids *ids, int32_t id, wr_range from);

#endif
