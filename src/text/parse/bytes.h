/* Bytes being written; init by zeroing. */
#ifndef WR_TEXT_PARSE_BYTES_H
#define WR_TEXT_PARSE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct wr_bytes {
    char *data;
    size_t n, cap;
    bool failed; /* out of memory: what was added since is missing */
} wr_bytes;

void wr_bytes_deinit(wr_bytes *b);
void wr_bytes_add(wr_bytes *b, const void *data, size_t n);
void wr_bytes_put(wr_bytes *b, const char *text);
static inline void wr_bytes_byte(wr_bytes *b, uint8_t c) {
    if (b->n < b->cap) {
        b->data[b->n++] = (char)c;
    } else {
        wr_bytes_add(b, &c, 1);
    }
}
/* Text as the inside of a JSON string, without its quotes. */
void wr_bytes_escaped(wr_bytes *b, const char *text, size_t n);

#endif
