/* What every compiling step of a grammar shares: memory that lives until the grammar is made, and the first failure.
 * A step that fails records why and returns NULL or false; callers look once, at the end. */
#ifndef WR_TEXT_GRAMMAR_BUILD_H
#define WR_TEXT_GRAMMAR_BUILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"

/* Limits against hostile input. */
enum {
    WR_GR_BUILD_BYTES_MAX = 256 << 20, /* of scratch while one grammar is compiled */
    WR_GR_NESTING_MAX = 200,           /* of groups in an expression or a grammar */
    WR_GR_REPEAT_MAX = 100000,         /* in {n,m} */
    WR_GR_SOURCE_MAX = 8 << 20,        /* bytes of a source text */
    WR_GR_AUTO_STATES_MAX = 20000,     /* of one automaton that must be made deterministic */
};

typedef struct wr_gr_build {
    wr_arena arena;
    weir_status status; /* WEIR_OK: nothing failed so far */
    weir_error *err;
    const char *where; /* place in the source, for messages; may be NULL */
} wr_gr_build;

void wr_gr_build_init(wr_gr_build *b, weir_error *err);
void wr_gr_build_deinit(wr_gr_build *b);

/* Zeroed memory of the build; NULL after recording LIMIT or MEMORY. */
void *wr_gr_alloc(wr_gr_build *b, size_t count, size_t bytes);
/* Room for `need` elements of an array in build memory (the old copy stays until the end). */
bool wr_gr_more(wr_gr_build *b, void *array, size_t *cap, size_t need, size_t element_bytes);

/* Record that memory ran out. Always returns false. */
bool wr_gr_no_memory(wr_gr_build *b);
/* Record the first failure: "WHERE: message". Always returns false. */
#define WR_GR_FAIL(b, code, ...) wr_gr_fail_at((b), (code), __FILE__, __LINE__, __VA_ARGS__)
bool wr_gr_fail_at(wr_gr_build *b, weir_status code, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#endif
