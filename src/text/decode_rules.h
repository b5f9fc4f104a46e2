/* How the pieces of tokens become text: what is done to each piece by itself is done
 * once, when the tokenizer is opened; what is done to the whole text, while it comes. */
#ifndef WR_TEXT_DECODE_RULES_H
#define WR_TEXT_DECODE_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "text/regex.h"
#include "text/vocab.h"

enum { WR_DECODE_STEPS_MAX = 16 };

typedef enum wr_decode_kind {
    WR_DECODE_REPLACE,   /* every find (text or expression) becomes put */
    WR_DECODE_METASPACE, /* every find becomes a space; in the first token it goes, with drop_in_first */
    WR_DECODE_WORDPIECE, /* all but the first token: find is taken off the front, or else a space put there */
    WR_DECODE_SUFFIX,    /* every find becomes a space, in the last token nothing */
    WR_DECODE_STRIP,     /* up to start and stop of one character go at the ends */
    WR_DECODE_CTC,       /* every find goes; with cleanup, put becomes a space */
} wr_decode_kind;

typedef struct wr_decode_step {
    wr_decode_kind kind;
    char *find, *put; /* owned */
    size_t find_bytes, put_bytes;
    wr_regex *regex; /* owned; REPLACE by expression, else NULL */
    bool drop_in_first;
    bool cleanup; /* WORDPIECE, CTC: no space before punctuation and English contractions */
    uint32_t strip_char, start, stop;
} wr_decode_step;

typedef struct wr_decode_rules {
    wr_decode_step steps[WR_DECODE_STEPS_MAX]; /* for each piece, in order */
    size_t n_steps;
    bool byte_level, byte_fallback; /* pieces are spelled in the byte-level alphabet; byte tokens are bytes */
    bool join_with_space;           /* a file without decoder: tokens are words */
    bool repeats_count_once;        /* CTC: a token behind itself gives nothing */
    uint32_t strip_char, n_strip, n_strip_end; /* so many of strip_char may go at the ends of the whole text */
    /* What wr_decode_rules_finish made of the pieces; place is NULL when they stay as they are. */
    wr_vocab_place *place[2]; /* [vocab n] in blob: of a token inside of a text; of the first, NULL = the same */
    uint8_t *blob, *owes;     /* owes: [vocab n] 1 = a space follows unless the token is the last; NULL = never */
    size_t blob_bytes, blob_cap, n, max_bytes;
} wr_decode_rules;

void wr_decode_rules_deinit(wr_decode_rules *rules);
/* Once all tokens are in. Errors: LIMIT (the texts are longer than 256 MiB together),
 * UNSUPPORTED (SUFFIX inside of a piece), MEMORY. */
weir_status wr_decode_rules_finish(wr_decode_rules *rules, const wr_vocab *v, weir_error *err);
size_t wr_decode_rules_heap_bytes(const wr_decode_rules *rules);

/* The text of a used token, before byte_level. View. */
static inline const uint8_t *wr_decode_text(const wr_decode_rules *rules, const wr_vocab *v, int32_t id, bool first,
                                            size_t *bytes) {
    const wr_vocab_place *place = rules->place[first && rules->place[1]];
    *bytes = place ? place[id].length : wr_vocab_length(v, id);
    return place ? rules->blob + place[id].offset : wr_vocab_piece(v, id);
}

#endif
