/* Where keys and values lie in their pages [P, page, G, C]: C columns of G heads at each position of a page.
 *
 * Plain: in that order; C is the head's width D. Tiled: page is 64, C is D rounded up to a multiple of 64 (what lies
 * behind D is never written), and a page's elements are ordered [G][C / 64][64 positions][64 columns]; in a row of 64
 * columns, the eight from 8 c on stand at place c ^ (position % 8). So the 64 positions of one head are one piece of
 * memory, and in shared memory it is what tensor cores read. The kernels' words for the same: cuda/kernels/pages.cuh.
 */
#ifndef WR_ARRAY_KV_H
#define WR_ARRAY_KV_H

#include <stdbool.h>
#include <stdint.h>

enum { WR_KV_TILE = 64 };

/* C for heads of d columns. */
static inline int64_t wr_kv_columns(bool tiled, int64_t d) {
    return tiled ? (d + WR_KV_TILE - 1) / WR_KV_TILE * WR_KV_TILE : d;
}

/* The element where the row of a head begins; pos: in the page. page_size, heads, columns: page, G, C. */
static inline int64_t wr_kv_row(bool tiled, int64_t page, int64_t pos, int64_t head, int64_t page_size, int64_t heads,
                                int64_t columns) {
    return tiled ? (page * heads + head) * columns * WR_KV_TILE + pos * WR_KV_TILE
                 : ((page * page_size + pos) * heads + head) * columns;
}

/* How far behind it column d lies. */
static inline int64_t wr_kv_column(bool tiled, int64_t pos, int64_t d) {
    if (!tiled) return d;
    int64_t place = (d / 8 % 8) ^ (pos % 8);
    return d / WR_KV_TILE * (WR_KV_TILE * WR_KV_TILE) + place * 8 + d % 8;
}

#endif
