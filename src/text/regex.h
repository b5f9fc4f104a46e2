/* Split expressions. Tokenizer files are written for the Oniguruma engine with
 * Ruby's syntax; the expression is translated to PCRE2, and whatever would mean
 * something else there is refused by name. */
#ifndef WR_TEXT_REGEX_H
#define WR_TEXT_REGEX_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "text/work.h"

typedef struct wr_regex wr_regex;

/* Errors: FORMAT (no valid expression), UNSUPPORTED, LIMIT (longer than 64 KiB),
 * MEMORY. The message shows the expression. */
weir_status wr_regex_open(const char *pattern, size_t bytes, wr_regex **out, weir_error *err);
void wr_regex_close(wr_regex *regex);

/* Memory that searches reuse, with any expression. Init by zeroing. */
typedef struct wr_regex_scratch {
    void *match_data;
} wr_regex_scratch;
void wr_regex_scratch_deinit(wr_regex_scratch *scratch);

/* All matches in text [n], valid UTF-8, in order, not overlapping, appended to
 * matches (empty ones too, except directly behind a match). Any thread. Errors:
 * LIMIT (the expression needs too many steps on this text), MEMORY. */
weir_status wr_regex_find_all(const wr_regex *regex, wr_regex_scratch *scratch, const uint8_t *text, size_t n,
                              wr_pieces *matches, weir_error *err);

#endif
