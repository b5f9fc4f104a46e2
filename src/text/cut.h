/* Pre-tokenisers: steps that cut text into the words that are merged one by one. */
#ifndef WR_TEXT_CUT_H
#define WR_TEXT_CUT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "text/regex.h"
#include "text/work.h"

typedef enum wr_cut_kind {
    WR_CUT_REGEX,       /* at the matches of an expression */
    WR_CUT_TEXT,        /* at every occurrence of a text */
    WR_CUT_NUMBERS,     /* at characters of category N */
    WR_CUT_PUNCTUATION, /* at punctuation */
    WR_CUT_SPACES,      /* at white space */
    WR_CUT_LENGTH,      /* after every `length` characters */
    WR_CUT_SPACE_FRONT, /* put a space in front of every piece that has none */
    WR_CUT_METASPACE,   /* spaces become `find`, and maybe one in front */
    WR_CUT_BYTE_LEVEL,  /* bytes become the characters of the byte-level alphabet */
} wr_cut_kind;

/* What becomes of a match. */
typedef enum wr_cut_rule {
    WR_CUT_ISOLATED,
    WR_CUT_REMOVED,
    WR_CUT_WITH_PREVIOUS,
    WR_CUT_WITH_NEXT,
    WR_CUT_CONTIGUOUS
} wr_cut_rule;

typedef enum wr_cut_front { WR_FRONT_NEVER, WR_FRONT_FIRST, WR_FRONT_ALWAYS } wr_cut_front;

typedef struct wr_cut_step {
    wr_cut_kind kind;
    wr_cut_rule rule;
    bool invert;        /* what does not match counts as the match */
    wr_cut_front front; /* METASPACE */
    bool split;         /* METASPACE: cut in front of every `find` */
    wr_regex *regex;    /* owned; REGEX */
    char *find;         /* owned; TEXT, METASPACE */
    size_t find_bytes;
    size_t length; /* LENGTH; at least 1 */
} wr_cut_step;

void wr_cut_step_deinit(wr_cut_step *step);

/* Memory that texts reuse. Init by zeroing. */
typedef struct wr_cut_scratch {
    wr_text buffers[2];
    wr_pieces pieces, spare, matches;
    wr_regex_scratch regex;
} wr_cut_scratch;
void wr_cut_scratch_deinit(wr_cut_scratch *s);

/* Cut *v; the pieces (never empty) are in s->pieces, and *v may then view one of
 * s->buffers. starts_text: *v begins where the caller's text begins. Errors:
 * MEMORY, LIMIT. */
weir_status wr_cut(const wr_cut_step *steps, size_t n, wr_view *v, bool starts_text, wr_cut_scratch *s,
                   weir_error *err);

#endif
