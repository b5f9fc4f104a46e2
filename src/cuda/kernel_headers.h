/* Headers of the user's kernels: where they are searched, and which of them a source includes. */
#ifndef WR_CUDA_KERNEL_HEADERS_H
#define WR_CUDA_KERNEL_HEADERS_H

#include <stdbool.h>

#include "base/mem.h"
#include "base/sha256.h"

enum { WR_HEADER_FOLDERS = 64 };
typedef struct wr_header_folders {
    const char *at[WR_HEADER_FOLDERS]; /* those that exist, in order */
    int n, n_user;                     /* the first n_user came by flags */
} wr_header_folders;

/* In order: -I flags; WEIR_CUDA_INCLUDE (separated by ':'); include/ and ../include/ beside this library and beside the
 * program; where weir was built; include/ of CUDA_HOME, CUDA_PATH, /usr/local/cuda. Texts lie in memory. Errors:
 * MEMORY, LIMIT. */
weir_status wr_header_folders_find(const char *const *flags, int n_flags, wr_arena *memory, wr_header_folders *out,
                                   weir_error *err);

/* Add name and content of every header that the source includes, directly or through others, to the hash; conditionals
 * are not looked at, so it may be more than the compiler reads. false: there are too many, and the hash says nothing.
 */
bool wr_header_hash(const wr_header_folders *folders, const char *source, wr_arena *memory, wr_sha256 *hash);

#endif
