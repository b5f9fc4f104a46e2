/* Memory: every allocation of the library goes through here, so that the
 * failure sweep can make the nth one fail and tests can count them. */
#ifndef WR_BASE_MEM_H
#define WR_BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* As malloc, calloc, realloc, free; NULL on failure. wr_free accepts NULL. */
void *wr_malloc(size_t bytes);
void *wr_calloc(size_t count, size_t bytes);
void *wr_realloc(void *old, size_t bytes);
void wr_free(void *p);
char *wr_strdup(const char *text);
char *wr_strndup(const char *text, size_t bytes);

/* Page-aligned, zeroed, straight from the system (mmap, huge pages asked for);
 * for weights, KV and activations. NULL on failure. bytes must be given back as
 * it was asked for. */
void *wr_pages_alloc(size_t bytes);
void wr_pages_free(void *p, size_t bytes);
/* The area will be touched piece by piece and perhaps never whole (KV pages): no huge pages, so that only what is used
 * counts as resident. */
void wr_pages_sparse(void *p, size_t bytes);

/* Number of successful calls so far of the allocating functions above. */
uint64_t wr_alloc_count(void);

/* Arena: memory of one lifetime, freed together. Grows by chunks up to cap. */
typedef struct wr_arena {
    struct wr_arena_chunk *chunks; /* newest first */
    size_t used_bytes, cap_bytes;
} wr_arena;

void wr_arena_init(wr_arena *arena, size_t cap_bytes);
void wr_arena_deinit(wr_arena *arena);
/* Zeroed, 16-byte aligned; NULL when out of memory or above the cap. */
void *wr_arena_alloc(wr_arena *arena, size_t bytes);
char *wr_arena_strdup(wr_arena *arena, const char *text);
char *wr_arena_strndup(wr_arena *arena, const char *text, size_t bytes);

/* a * b and a + b into *out; false when the true value does not fit. */
static inline int wr_mul_size(size_t a, size_t b, size_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline int wr_add_size(size_t a, size_t b, size_t *out) { return !__builtin_add_overflow(a, b, out); }

#endif
