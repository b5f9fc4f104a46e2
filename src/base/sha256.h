/* SHA-256 (FIPS 180-4): names and checks of what is kept in files. */
#ifndef WR_BASE_SHA256_H
#define WR_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { WR_SHA256_BYTES = 32 };

typedef struct wr_sha256 {
    uint32_t state[8];
    uint64_t n_bytes;
    unsigned char block[64]; /* the last n_bytes % 64 of them */
} wr_sha256;

void wr_sha256_init(wr_sha256 *h);
void wr_sha256_add(wr_sha256 *h, const void *data, size_t bytes);
/* The hash of all that was added; h is used up. */
void wr_sha256_end(wr_sha256 *h, unsigned char out[WR_SHA256_BYTES]);

#endif
