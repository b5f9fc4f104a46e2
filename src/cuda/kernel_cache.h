/* Compiled kernels in files: a folder that any number of processes share. A file is written whole under another name
 * and renamed, and is believed only when its head, its lengths and its checksum are right. */
#ifndef WR_CUDA_KERNEL_CACHE_H
#define WR_CUDA_KERNEL_CACHE_H

#include <stdbool.h>

#include "base/mem.h"
#include "base/sha256.h"

enum { WR_KERNEL_PATH_BYTES = 4096 };

/* $WEIR_KERNEL_CACHE, else $XDG_CACHE_HOME/weir/kernels, else ~/.cache/weir/kernels; false: nothing is to be kept. */
bool wr_kernel_cache_folder(char out[WR_KERNEL_PATH_BYTES]);

/* A kernel as it is kept. */
typedef struct wr_kernel_image {
    const char *lowered; /* the function's name in the image */
    const void *image;
    size_t image_bytes;
} wr_kernel_image;

/* OK; NOT_FOUND: no such file; else why it cannot be used (FORMAT, IO, MEMORY). What it holds lies in memory. */
weir_status wr_kernel_cache_load(const char *folder, const unsigned char id[WR_SHA256_BYTES], wr_arena *memory,
                                 wr_kernel_image *out, weir_error *err);
/* Makes the folder when it is not there; replaces a file of the same id. */
weir_status wr_kernel_cache_store(const char *folder, const unsigned char id[WR_SHA256_BYTES],
                                  const wr_kernel_image *kernel, weir_error *err);
/* "folder/<32 hexadecimal digits>.kernel" */
void wr_kernel_cache_path(const char *folder, const unsigned char id[WR_SHA256_BYTES], char out[WR_KERNEL_PATH_BYTES]);

#endif
