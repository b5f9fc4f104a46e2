/* Heap, pages and arenas. Owns the count of allocations, by which tests prove
 * that a running engine allocates nothing. */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/fault.h"

static _Atomic uint64_t alloc_count;

static void *counted(void *p) {
    if (p) atomic_fetch_add_explicit(&alloc_count, 1, memory_order_relaxed);
    return p;
}

/* Zero bytes give a real pointer, so that NULL always means failure. */
void *wr_malloc(size_t bytes) {
    if (wr_fault_hit(WR_FAULT_MEMORY)) return NULL;
    return counted(malloc(bytes ? bytes : 1));
}

void *wr_calloc(size_t count, size_t bytes) {
    size_t total;
    if (wr_fault_hit(WR_FAULT_MEMORY) || !wr_mul_size(count, bytes, &total)) return NULL;
    return counted(calloc(total ? total : 1, 1));
}

void *wr_realloc(void *old, size_t bytes) {
    if (wr_fault_hit(WR_FAULT_MEMORY)) return NULL;
    return counted(realloc(old, bytes ? bytes : 1));
}

void wr_free(void *p) { free(p); }

char *wr_strndup(const char *text, size_t bytes) {
    size_t n = strnlen(text, bytes);
    char *copy = wr_malloc(n + 1);
    if (!copy) return NULL;
    memcpy(copy, text, n);
    copy[n] = 0;
    return copy;
}

char *wr_strdup(const char *text) { return wr_strndup(text, strlen(text)); }

/* ---- pages ---- */

enum { HUGE_PAGE_BYTES = 2 << 20 };

/* What the system maps for a request of so many bytes; 0 when it overflows. */
static size_t mapped_bytes(size_t bytes) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), sum;
    if (bytes == 0) bytes = 1;
    if (!wr_add_size(bytes, page - 1, &sum)) return 0;
    return sum / page * page;
}

void *wr_pages_alloc(size_t bytes) {
    size_t size = mapped_bytes(bytes), reserve = size;
    /* Large areas start on a huge page; the surplus around them is given back. */
    bool huge = size >= HUGE_PAGE_BYTES;
    if (size == 0 || wr_fault_hit(WR_FAULT_MEMORY)) return NULL;
    if (huge && !wr_add_size(size, HUGE_PAGE_BYTES, &reserve)) return NULL;
    uint8_t *base = mmap(NULL, reserve, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return NULL;
    if (huge) {
        size_t before = (HUGE_PAGE_BYTES - (uintptr_t)base % HUGE_PAGE_BYTES) % HUGE_PAGE_BYTES;
        size_t behind = reserve - before - size;
        if (before) munmap(base, before);
        base += before;
        if (behind) munmap(base + size, behind);
        /* Only a wish: a kernel without huge pages refuses it, and that is fine. */
        (void)madvise(base, size, MADV_HUGEPAGE);
    }
    return counted(base);
}

void wr_pages_sparse(void *p, size_t bytes) {
    (void)madvise(p, mapped_bytes(bytes), MADV_NOHUGEPAGE); /* only a wish, as above */
}

void wr_pages_free(void *p, size_t bytes) {
    if (p) munmap(p, mapped_bytes(bytes));
}

uint64_t wr_alloc_count(void) { return atomic_load_explicit(&alloc_count, memory_order_relaxed); }

/* ---- arena ---- */

enum { ARENA_ALIGN = 16, ARENA_CHUNK_BYTES = 64 << 10 };

typedef struct wr_arena_chunk {
    struct wr_arena_chunk *next;
    size_t used, size; /* of data[] */
    _Alignas(ARENA_ALIGN) uint8_t data[];
} wr_arena_chunk;

void wr_arena_init(wr_arena *arena, size_t cap_bytes) {
    *arena = (wr_arena){.chunks = NULL, .used_bytes = 0, .cap_bytes = cap_bytes};
}

void wr_arena_deinit(wr_arena *arena) {
    if (!arena) return;
    for (wr_arena_chunk *chunk = arena->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        wr_free(chunk);
    }
    arena->chunks = NULL;
    arena->used_bytes = 0;
}

void *wr_arena_alloc(wr_arena *arena, size_t bytes) {
    size_t need, total;
    if (!wr_add_size(bytes ? bytes : 1, ARENA_ALIGN - 1, &need)) return NULL;
    need -= need % ARENA_ALIGN;
    if (!wr_add_size(arena->used_bytes, need, &total) || total > arena->cap_bytes) return NULL;
    wr_arena_chunk *chunk = arena->chunks;
    if (!chunk || chunk->size - chunk->used < need) {
        size_t size = need > ARENA_CHUNK_BYTES ? need : ARENA_CHUNK_BYTES, whole;
        if (!wr_add_size(size, sizeof *chunk, &whole)) return NULL;
        chunk = wr_calloc(1, whole);
        if (!chunk) return NULL;
        chunk->size = size;
        /* A big block must not hide the room left in the newest chunk. */
        if (need > ARENA_CHUNK_BYTES / 2 && arena->chunks) {
            chunk->next = arena->chunks->next;
            arena->chunks->next = chunk;
        } else {
            chunk->next = arena->chunks;
            arena->chunks = chunk;
        }
    }
    void *p = chunk->data + chunk->used;
    chunk->used += need;
    arena->used_bytes = total;
    return p;
}

char *wr_arena_strndup(wr_arena *arena, const char *text, size_t bytes) {
    size_t n = strnlen(text, bytes);
    char *copy = wr_arena_alloc(arena, n + 1);
    if (copy) memcpy(copy, text, n);
    return copy;
}

char *wr_arena_strdup(wr_arena *arena, const char *text) { return wr_arena_strndup(arena, text, strlen(text)); }
