/* STORE: parameters shared by launcher and kernel. */
#ifndef WR_CUDA_STATE_H
#define WR_CUDA_STATE_H

#include <stdint.h>

typedef struct wr_store_params {
    void *to;
    const void *from;
    int64_t bytes;
} wr_store_params;

enum { WR_STORE_THREADS = 256 };

#endif
