/* Sets of characters (Unicode scalar values), as sorted ranges that neither touch nor overlap. Sets live in build
 * memory and never change once made. A NULL result means that the build has failed. */
#ifndef WR_TEXT_GRAMMAR_CHARSET_H
#define WR_TEXT_GRAMMAR_CHARSET_H

#include "text/grammar/build.h"

enum { WR_CHAR_MAX = 0x10FFFF };

typedef struct wr_char_range {
    uint32_t lo, hi; /* both belong to the set */
} wr_char_range;

typedef struct wr_charset {
    wr_char_range *at;
    size_t n, cap;
} wr_charset;

/* Collecting: any order, overlaps allowed; then wr_charset_finish gives a set. */
bool wr_charset_add(wr_gr_build *b, wr_charset *set, uint32_t lo, uint32_t hi);
bool wr_charset_add_all(wr_gr_build *b, wr_charset *set, const wr_charset *other);
/* Sort and join; surrogates are left out, for no text has them. */
const wr_charset *wr_charset_finish(wr_gr_build *b, wr_charset *set);

const wr_charset *wr_charset_range(wr_gr_build *b, uint32_t lo, uint32_t hi);
const wr_charset *wr_charset_any(wr_gr_build *b);
const wr_charset *wr_charset_not(wr_gr_build *b, const wr_charset *set);
const wr_charset *wr_charset_and(wr_gr_build *b, const wr_charset *x, const wr_charset *y);
bool wr_charset_has(const wr_charset *set, uint32_t cp);

/* 'd', 'w', 's' as ECMA-262 defines them; '.' is any character but the four line ends. */
const wr_charset *wr_charset_named(wr_gr_build *b, char name);
/* A Unicode general category: "L", "Lu", "Letter", ... NULL without a failure when unknown. */
const wr_charset *wr_charset_category(wr_gr_build *b, const char *name, size_t bytes);

#endif
