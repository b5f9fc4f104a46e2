/* Paged attention: what its host code and its kernels share. The numbers that fix bits stand in attention.cuh. */
#ifndef WR_CUDA_KERNELS_ATTENTION_H
#define WR_CUDA_KERNELS_ATTENTION_H

#include <stddef.h>
#include <stdint.h>

#include "array/kv.h"

enum {
    WR_ATTN_TILE_ROWS = 32,        /* query rows (tokens x group) of a decode item at most */
    WR_ATTN_PREFILL_MIN_ROWS = 64, /* a run of so many rows goes to the prefill kernel where there is one */
    WR_ATTN_SCHEDULE_THREADS = 1024,
    WR_ATTN_PART_EXTRA = 4, /* floats of a part beside its o: m, l, two unused */
    WR_ATTN_MERGE_THREADS = 32,
    WR_ATTN_MERGE_COLUMNS = 2, /* a lane, of a row that a warp merges */
    /* A cut tile with no more units (fours of columns of a row), and units times spans, is merged by the decode block
     * that finishes it; others by the merge kernel. */
    WR_ATTN_SMALL_UNITS = 256,
    WR_ATTN_SMALL_MERGE = 128 * 64,
    WR_ATTN_ITEM_PAGES = 12,   /* of its keys that an item names itself: whole blocks' */
    WR_ATTN_MAX_CHUNKS = 1024, /* blocks of the decode kernel at most */
    WR_ATTN_MAX_STAGES = 12,
};

/* Shared memory of the decode kernel for head_dim d, value_dim e and `tiles` of 16 query rows: `stages` slots for a
 * block of keys or values each, then all the rest. */
#define WR_ATTN_BLOCK(d)   ((d) >= 192 ? 64 : 128)
#define WR_ATTN_PANELS(d)  (((d) + 63) / 64)
#define WR_ATTN_SLOT(d, e) (WR_ATTN_PANELS((d) > (e) ? (d) : (e)) * WR_ATTN_BLOCK(d) * 128)
/* Threads of a block for `tiles` of 16 query rows: for each four warps that compute and one that brings queries, and
 * one warp that brings keys and values. */
#define WR_ATTN_DECODE_THREADS(tiles) ((tiles)*160 + 32)
/* Blocks of the merge kernel, one warp each, for a row of e columns. */
#define WR_ATTN_MERGE_BLOCKS(e)      (((e) + 32 * WR_ATTN_MERGE_COLUMNS - 1) / (32 * WR_ATTN_MERGE_COLUMNS))
#define WR_ATTN_Q_BYTES(d, tiles)    ((tiles)*16 * ((d)*2 + 16))
#define WR_ATTN_Q_BUFFERS(d)         ((d) > 256 ? 1 : 2)
#define WR_ATTN_WORK_BYTES(d, tiles) ((tiles)*16 * (WR_ATTN_BLOCK(d) * 2 + 16) + 8 * (tiles)*16 * 4)
#define WR_ATTN_REST(d, tiles)                                                                                         \
    (WR_ATTN_Q_BUFFERS(d) * WR_ATTN_Q_BYTES(d, tiles) + WR_ATTN_WORK_BYTES(d, tiles) + WR_ATTN_JOBS_BYTES +            \
     WR_ATTN_BARS_BYTES)
enum {
    WR_ATTN_JOB_BYTES = 128, /* an item: a word for each lane of a warp */
    WR_ATTN_JOBS_BYTES = 2 * WR_ATTN_JOB_BYTES + 16,
    WR_ATTN_BARS_BYTES = 3 * 128
};

typedef enum wr_attn_type { WR_ATTN_F32, WR_ATTN_BF16, WR_ATTN_F16, WR_ATTN_BOOL /* masks only */ } wr_attn_type;

/* A piece of decode work: a tile, which is query rows first .. first + n_rows - 1 of one run of consecutive rows and
 * positions for one KV head, or some of its spans. Query row i is head i % group of the group and row `row` + i / group
 * of q, at position pos + i / group. The item walks spans span .. span + n_spans - 1. */
typedef struct wr_attn_item {
    int32_t row;     /* of q */
    int32_t pos;     /* of that row */
    int32_t seq;     /* -1: rows that give 0 */
    int32_t first;   /* the first query row's head in the group: 0 .. group - 1 */
    int32_t head;    /* of keys and values */
    int32_t n_rows;  /* 1 .. WR_ATTN_TILE_ROWS; 0: the chunk is empty */
    int32_t span;    /* absolute */
    int32_t n_spans; /* 0: nothing is seen */
    int32_t next;    /* the chunk's next item; -1: this is the last one */
    /* Several items share a tile that is cut, n_parts > 0. The first merges its spans into part 0, the others write
     * span s as part s - part_span, a part being n_rows rows of the scratch from row partial + part * n_rows on. Parts
     * are then merged like spans, which gives the same bits. part_span is `span` in the first item and less in the
     * others. */
    int32_t part_span, n_parts;
    uint32_t partial;
    int32_t n_items;                  /* how many share the tile */
    int32_t block, last;              /* first and last softmax block of the item; last < block: none */
    int32_t from, to;                 /* keys that some query row of the tile sees */
    int32_t all_from, all_to;         /* keys that every one of them sees */
    int32_t counter;                  /* of a cut tile that decode blocks merge: its counter; else -1 */
    int32_t page[WR_ATTN_ITEM_PAGES]; /* of keys from the first block on; -1: there is none */
} wr_attn_item;

/* Query rows of a run, from head `first` of row `row` on, for all KV heads. */
typedef struct wr_attn_tile {
    int32_t row, first;
    int64_t before; /* work of the tiles before it for one head, in blocks */
} wr_attn_tile;

/* A piece of prefill work, for every head: rows row .. row + n_rows - 1 of q, at positions pos, pos + 1, ... */
typedef struct wr_attn_prefill_item {
    int32_t row, n_rows, pos, seq;
} wr_attn_prefill_item;

/* Head of the schedule. The prefill counters are 0 before and after each attention kernel; the kernels leave them so.
 */
typedef struct wr_attn_schedule {
    uint32_t n_prefill;      /* prefill items; each is done for every head */
    uint32_t prefill_next;   /* free for the prefill kernel */
    uint32_t prefill_done;   /* free for the prefill kernel */
    uint32_t n_partial_rows; /* taken */
    uint32_t n_cuts;         /* tiles for the merge kernel */
    uint32_t n_chunks;       /* of decode work; the decode kernel has as many blocks */
    uint32_t unused[26];
} wr_attn_schedule;

/* One struct for every kernel of the family. q [T, H, D] with strides of rows and heads, pages [P, page, G, columns]
 * (array/kv.h), out [T, H, E]; all else contiguous. */
typedef struct wr_attn_params {
    const void *q, *k, *v;
    void *out;
    int64_t q_row, q_head;
    const float *rope; /* [T, 2, half]: q is rotated by it; NULL: it is not */
    int32_t half, interleaved;
    const int32_t *table; /* [n_seqs, max_pages] */
    const int32_t *row_seq, *row_pos;
    const float *sinks; /* NULL: none */
    /* The schedule. */
    wr_attn_schedule *schedule;
    wr_attn_item *items;
    wr_attn_prefill_item *prefill;
    float *partial;     /* [partial rows, E + WR_ATTN_PART_EXTRA] */
    wr_attn_item *cuts; /* [n_cuts]: the first item of each tile that the merge kernel merges */
    uint32_t *arrived;  /* [chunks]: items of a tile that are done; 0 between launches */
    int64_t n_pages;    /* P */
    int64_t max_pages;  /* entries of the table a sequence */
    int64_t window;     /* 0: none */
    int32_t page;       /* keys a page */
    int32_t tiled;      /* reference kernels only; the others want it */
    int32_t k_columns, v_columns;
    int32_t stages;    /* of the decode kernel's ring */
    int32_t n_rows;    /* T */
    int32_t n_heads;   /* H */
    int32_t kv_heads;  /* G */
    int32_t group;     /* H / G */
    int32_t head_dim;  /* D */
    int32_t value_dim; /* E */
    int32_t n_seqs;    /* S */
    int32_t q_type;    /* wr_attn_type */
    int32_t kv_type;   /* of k */
    int32_t v_type;    /* reference kernel only: of v */
    int32_t out_type;
    int32_t merge_rows;  /* query rows of a tile at most */
    int32_t q_aligned;   /* decode kernel: q has the type of k, and eights of q and of the table are whole */
    float log2_factor;   /* c: a weight is 2^(c * (score - maximum)) */
    float softcap;       /* 0: none */
    float softcap_scale; /* scale / softcap: score = softcap * tanh(softcap_scale * dot) */
    float scale;         /* reference kernel for f32 only */
    /* Reference kernels only; the others serve no masks. [T or 1, H or 1, mask_keys], its rows contiguous. */
    int32_t mask_type;           /* wr_attn_type */
    const void *mask;            /* NULL: none */
    int64_t mask_row, mask_head; /* strides; 0 where broadcast */
    int64_t mask_keys;           /* positions from here on are hidden */
    float mask_factor;           /* makes a scaled score of what is added to one; 1 / scale, with softcap 1 */
    int32_t unused;
} wr_attn_params;

/* The prepare kernel's own. One block. */
typedef struct wr_attn_schedule_params {
    const int32_t *table; /* [n_seqs, max_pages] */
    const int32_t *row_seq, *row_pos;
    int64_t n_pages, max_pages;
    wr_attn_schedule *schedule;
    wr_attn_item *items; /* [2 * n_blocks + max_tiles * G]: the first item of each chunk, then the others */
    wr_attn_prefill_item *prefill;
    wr_attn_item *cuts;           /* [n_blocks] */
    uint32_t *arrived;            /* [n_blocks] */
    int32_t *run_start, *run_end; /* [T] each: scratch */
    wr_attn_tile *tiles;          /* [max_tiles]: scratch */
    int64_t n_keys;               /* max_pages * page: positions from here on hold nothing */
    int64_t window;
    int32_t n_rows, n_seqs, kv_heads, group;
    int32_t block;        /* keys of a softmax block */
    int32_t prefill_tile; /* rows of a prefill item at most; 0: all rows are decode work */
    int32_t n_blocks;     /* grid of the decode kernel, and chunks of its work; at most WR_ATTN_MAX_CHUNKS */
    int32_t tile_rows;    /* query rows of a decode tile: 16 or 32 */
    int32_t max_tiles;
    int32_t value_dim;
    uint32_t max_partial_rows;
} wr_attn_schedule_params;

#endif
