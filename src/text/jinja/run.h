/* One rendering: its memory, its limits, its first failure. Everything that a rendering
 * makes lives in one heap and dies with it, so values are never freed one by one. */
#ifndef WR_TEXT_JINJA_RUN_H
#define WR_TEXT_JINJA_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "base/status.h"

enum {
    /* Nesting that a template can cause: about as deep as Python's own limit of 1,000
     * frames lets macros recurse. 2 MB of stack suffice for it. */
    WR_JINJA_DEPTH = 1500,
    WR_JINJA_RANGE_MAX = 100000, /* the sandbox's own limit */
};

struct wr_jinja;
struct wr_jdict;

typedef struct wr_jrun {
    const struct wr_jinja *jinja;
    wr_arena values;
    /* Texts grow at the end of the newest chunk, so that a text which is built by
     * repeated concatenation is copied once. */
    struct wr_jchunk *chunks;
    size_t text_bytes; /* of all chunks */
    size_t memory_bytes, output_bytes;
    uint64_t steps; /* left */
    int depth, line;
    bool shared; /* several threads will read what is made: nothing is left to be computed later */
    int64_t now_s;
    struct wr_jdict *context;  /* the caller's variables */
    struct wr_jdict *exported; /* set at the template's top level; for blocks; may be NULL */
    struct wr_jbuf *out;       /* where output goes now */
    weir_status status;
    weir_error *err;
} wr_jrun;

/* All functions of this folder that return bool: false means failed, and the failure
 * is recorded in the run. The first one counts. */
bool wr_jfail(wr_jrun *run, weir_status status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* As Python's TypeError and the like: ARGUMENT, with the line. */
#define WR_JERROR(run, ...) wr_jfail((run), WEIR_E_ARGUMENT, __VA_ARGS__)
/* The template's own words, without anything about the place. */
bool wr_jraise(wr_jrun *run, const char *text, size_t bytes);

/* Spend work: one unit and what so many bytes cost. */
bool wr_jcharge(wr_jrun *run, size_t bytes);
/* Count a level of nesting; every successful enter has its leave. */
bool wr_jenter(wr_jrun *run);
static inline void wr_jleave(wr_jrun *run) { run->depth--; }

/* Zeroed memory for values; NULL: failed. */
void *wr_jalloc(wr_jrun *run, size_t bytes);
/* n * bytes, checked. */
void *wr_jalloc_n(wr_jrun *run, size_t n, size_t bytes);
/* Room for one more of n elements in *array (capacity *cap, at first `first`), which doubles by being copied. */
bool wr_jgrow(wr_jrun *run, void *array, size_t *cap, size_t n, size_t first, size_t bytes);
/* Memory for text, not zeroed; NULL: failed. */
char *wr_jtext(wr_jrun *run, size_t bytes);
/* Make the text at p (n bytes of text memory) `more` bytes longer where it lies; false,
 * and nothing is recorded, when that is not possible. */
bool wr_jtext_extend(wr_jrun *run, const char *p, size_t n, size_t more);

/* Give back what a text of cap bytes at p has beyond its first n, if it is the newest. */
void wr_jtext_cut(wr_jrun *run, const char *p, size_t cap, size_t n);

void wr_jrun_deinit(wr_jrun *run);

/* A text under construction, in text memory. Init by zeroing. */
typedef struct wr_jbuf {
    char *data;
    size_t n, cap;
} wr_jbuf;
bool wr_jbuf_add(wr_jrun *run, wr_jbuf *buf, const char *text, size_t n);
bool wr_jbuf_char(wr_jrun *run, wr_jbuf *buf, uint32_t cp);
bool wr_jbuf_fill(wr_jrun *run, wr_jbuf *buf, const char *text, size_t n, size_t times);
#define wr_jbuf_lit(run, buf, literal) wr_jbuf_add((run), (buf), (literal), sizeof(literal) - 1)

#endif
