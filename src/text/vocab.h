/* The pieces of a vocabulary: id to bytes and bytes to id. About 13 bytes a token
 * beside the text of the pieces. */
#ifndef WR_TEXT_VOCAB_H
#define WR_TEXT_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* Above any published vocabulary; keeps what a hostile file can claim small. */
enum { WR_VOCAB_MAX = 1 << 22 };

enum {
    WR_TOKEN_USED = 1,
    WR_TOKEN_SPECIAL = 2, /* control: skipped when asked, found only when asked */
    WR_TOKEN_ADDED = 4,   /* stands for its own text, whatever the decoder */
    WR_TOKEN_BYTE = 8,    /* "<0xAB>": one byte */
    WR_TOKEN_UNUSED = 16, /* has a place but is never produced by merging */
};

typedef struct wr_vocab_place {
    uint32_t offset, length;
} wr_vocab_place;

typedef struct wr_vocab {
    uint8_t *blob; /* pieces one after the other, in order of wr_vocab_add */
    size_t blob_bytes, blob_cap;
    wr_vocab_place *place; /* [n] where in the blob */
    uint8_t *flags;        /* [n] WR_TOKEN_* */
    uint32_t *slot;        /* [n_slots] hash bits << 23 | id + 1, 0 = empty; n_slots a power of two */
    size_t n, n_used, n_slots, cap;
    size_t max_piece_bytes;
} wr_vocab;

/* expected: number of tokens, a hint to reserve memory once. blob_bytes likewise. */
weir_status wr_vocab_init(wr_vocab *v, size_t expected, size_t blob_bytes, weir_error *err);
void wr_vocab_deinit(wr_vocab *v);
/* Errors: FORMAT (empty piece, id used twice, piece used twice), LIMIT (id too
 * large, piece text above 2 GiB), MEMORY. */
weir_status wr_vocab_add(wr_vocab *v, int64_t id, const void *piece, size_t bytes, unsigned flags, weir_error *err);
/* The same in two halves, for whole vocabularies: append every id, then link all
 * (where a piece that comes twice is found). No wr_vocab_find in between. */
weir_status wr_vocab_append(wr_vocab *v, int64_t id, const void *piece, size_t bytes, unsigned flags, weir_error *err);
weir_status wr_vocab_link_all(wr_vocab *v, weir_error *err);
/* Give back memory that is not needed once all pieces are in. */
void wr_vocab_trim(wr_vocab *v);

int32_t wr_vocab_find(const wr_vocab *v, const void *piece, size_t bytes);
static inline bool wr_vocab_has(const wr_vocab *v, int64_t id) {
    return id >= 0 && (uint64_t)id < v->n && (v->flags[id] & WR_TOKEN_USED);
}
/* As wr_vocab_find, where the answer is probably guess (any number). */
int32_t wr_vocab_find_near(const wr_vocab *v, int32_t guess, const void *piece, size_t bytes);
static inline const uint8_t *wr_vocab_piece(const wr_vocab *v, int32_t id) { return v->blob + v->place[id].offset; }
static inline size_t wr_vocab_length(const wr_vocab *v, int32_t id) { return v->place[id].length; }
/* The byte of a piece spelled "<0xAB>"; -1 for any other. */
int wr_vocab_byte_value(const uint8_t *piece, size_t bytes);
/* The token "<0xAB>" of a byte; -1 if none. */
int32_t wr_vocab_find_byte(const wr_vocab *v, uint8_t byte);
/* Print a piece into buf for a message: cut, and only printable ASCII. Returns buf. */
const char *wr_vocab_show(const void *piece, size_t bytes, char buf[72]);

size_t wr_vocab_heap_bytes(const wr_vocab *v);

#endif
