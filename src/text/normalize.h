/* Normalisers: steps that rewrite the text before it is cut. */
#ifndef WR_TEXT_NORMALIZE_H
#define WR_TEXT_NORMALIZE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "text/added.h"
#include "text/charsmap.h"
#include "text/regex.h"
#include "text/work.h"

typedef enum wr_norm_kind {
    WR_NORM_FORM,          /* NFC, NFD, NFKC, NFKD */
    WR_NORM_REPLACE,       /* every find (text or expression) becomes put */
    WR_NORM_PREPEND,       /* put in front of a text that is not empty */
    WR_NORM_STRIP,         /* white space at the ends */
    WR_NORM_PRECOMPILED,   /* SentencePiece's rules, as Hugging Face applies them */
    WR_NORM_SENTENCEPIECE, /* the same as SentencePiece does, with its handling of spaces */
    /* One character at a time: */
    WR_NORM_LOWERCASE,    /* by its full mapping */
    WR_NORM_NMT,          /* some controls go, some invisible characters become spaces */
    WR_NORM_CLEAN,        /* BERT: controls go, white space becomes a space */
    WR_NORM_SPACE_CJK,    /* BERT: spaces round Chinese characters */
    WR_NORM_DROP_MARKS,   /* characters of category M */
    WR_NORM_DROP_ACCENTS, /* of category Mn */
    WR_NORM_BYTE_LEVEL,   /* bytes become the characters of the byte-level alphabet */
} wr_norm_kind;

typedef struct wr_norm_step {
    wr_norm_kind kind;
    bool compose, compatible; /* FORM */
    bool newest;              /* FORM: by utf8proc's tables, not by those of Hugging Face's library */
    bool left, right;         /* STRIP */
    char *find, *put;         /* owned; REPLACE by text, PREPEND */
    size_t find_bytes, put_bytes;
    wr_regex *regex;                            /* owned; REPLACE by expression, else NULL */
    wr_charsmap *map;                           /* owned; PRECOMPILED, SENTENCEPIECE (there NULL: no rules) */
    const wr_added *atoms;                      /* view; SENTENCEPIECE: texts that rules leave alone */
    bool dummy_prefix, squeeze, escape, suffix; /* SENTENCEPIECE: a space in front; runs of spaces are one, none at the
                                                 * ends; a space is U+2581; that space goes to the end instead */
} wr_norm_step;

void wr_norm_step_deinit(wr_norm_step *step);

/* Run n steps over *v, which then views buffers[0] or buffers[1] if anything
 * changed. Every character keeps where it came from; one that a step adds has the
 * place of its neighbour. Error: MEMORY, LIMIT. */
weir_status wr_normalize(const wr_norm_step *steps, size_t n, wr_view *v, wr_text buffers[2], wr_regex_scratch *scratch,
                         weir_error *err);

/* The kinds of step that have a file of their own: write v anew to out, and say
 * whether it changed (if not, out is of no use). False: out of memory. */
bool wr_norm_form(const wr_norm_step *step, const wr_view *v, wr_text *out, bool *changed);
bool wr_norm_chars(const wr_norm_step *step, const wr_view *v, wr_text *out, bool *changed);
bool wr_norm_precompiled(const wr_norm_step *step, const wr_view *v, wr_text *out, bool *changed);
bool wr_norm_sentencepiece(const wr_norm_step *step, const wr_view *v, wr_text *out, bool *changed);

#endif
