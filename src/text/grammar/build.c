/* Owns the memory and the failure of one compilation. */
#include "text/grammar/build.h"

#include <stdarg.h>
#include <string.h>

void wr_gr_build_init(wr_gr_build *b, weir_error *err) {
    *b = (wr_gr_build){.status = WEIR_OK, .err = err};
    wr_arena_init(&b->arena, WR_GR_BUILD_BYTES_MAX);
}

void wr_gr_build_deinit(wr_gr_build *b) { wr_arena_deinit(&b->arena); }

bool wr_gr_fail_at(wr_gr_build *b, weir_status code, const char *file, int line, const char *format, ...) {
    if (b->status != WEIR_OK) return false;
    char text[WEIR_ERROR_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    b->status = b->where && *b->where ? wr_fail_at(b->err, code, file, line, "%s: %s", b->where, text)
                                      : wr_fail_at(b->err, code, file, line, "%s", text);
    return false;
}

bool wr_gr_no_memory(wr_gr_build *b) { return WR_GR_FAIL(b, WEIR_E_MEMORY, "no memory to compile the grammar"); }

void *wr_gr_alloc(wr_gr_build *b, size_t count, size_t bytes) {
    size_t total;
    if (!wr_mul_size(count, bytes, &total)) total = SIZE_MAX / 2;
    void *p = total < WR_GR_BUILD_BYTES_MAX ? wr_arena_alloc(&b->arena, total) : NULL;
    if (p) return p;
    if (total >= WR_GR_BUILD_BYTES_MAX || b->arena.used_bytes > WR_GR_BUILD_BYTES_MAX - total)
        WR_GR_FAIL(b, WEIR_E_LIMIT, "the grammar is too large: compiling it would need more than %d MiB",
                   WR_GR_BUILD_BYTES_MAX >> 20);
    else
        wr_gr_no_memory(b);
    return NULL;
}

bool wr_gr_more(wr_gr_build *b, void *array, size_t *cap, size_t need, size_t element_bytes) {
    if (need <= *cap) return true;
    size_t want = *cap * 2 < need ? need : *cap * 2;
    if (want < 8) want = 8;
    void *old, *grown = wr_gr_alloc(b, want, element_bytes);
    if (!grown) return false;
    memcpy(&old, array, sizeof old); /* array is a pointer to some object pointer */
    if (*cap) memcpy(grown, old, *cap * element_bytes);
    memcpy(array, &grown, sizeof grown);
    *cap = want;
    return true;
}
