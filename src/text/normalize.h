/* Normalisers: steps that rewrite the text before it is cut. */
#ifndef WR_TEXT_NORMALIZE_H
#define WR_TEXT_NORMALIZE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "text/regex.h"
#include "text/work.h"

typedef enum wr_norm_kind {
    WR_NORM_FORM,      /* NFC, NFD, NFKC, NFKD */
    WR_NORM_LOWERCASE, /* per character, by its full mapping */
    WR_NORM_REPLACE,   /* every find (text or expression) becomes put */
    WR_NORM_PREPEND,   /* put in front of a text that is not empty */
    WR_NORM_STRIP,     /* white space at the ends */
} wr_norm_kind;

typedef struct wr_norm_step {
    wr_norm_kind kind;
    bool compose, compatible; /* FORM */
    bool left, right;         /* STRIP */
    char *find, *put;         /* owned; REPLACE by text, PREPEND */
    size_t find_bytes, put_bytes;
    wr_regex *regex; /* owned; REPLACE by expression, else NULL */
} wr_norm_step;

void wr_norm_step_deinit(wr_norm_step *step);

/* Run n steps over *v, which then views buffers[0] or buffers[1] if anything
 * changed. Error: MEMORY, LIMIT. */
weir_status wr_normalize(const wr_norm_step *steps, size_t n, wr_view *v, wr_text buffers[2], wr_regex_scratch *scratch,
                         weir_error *err);

#endif
