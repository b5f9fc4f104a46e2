/* Upper and lower case, and the questions of str.is...(), by Unicode as Python has it. */
#ifndef WR_TEXT_JINJA_CASE_H
#define WR_TEXT_JINJA_CASE_H

#include "text/jinja/value.h"

typedef enum wr_jcasing {
    WR_J_UPPER,
    WR_J_LOWER,
    WR_J_TITLE,      /* str.title: each word's first letter */
    WR_J_CAPITALIZE, /* str.capitalize */
    WR_J_SWAPCASE,
    WR_J_CASEFOLD,
} wr_jcasing;

/* A text in another case, as Markup if s is. */
bool wr_jcase(wr_jrun *run, const wr_jstr *s, wr_jcasing casing, wr_jval *out);

typedef enum wr_jclass {
    WR_J_ALPHA,
    WR_J_ALNUM,
    WR_J_DECIMAL,
    WR_J_DIGIT,
    WR_J_NUMERIC,
    WR_J_PRINTABLE,
    WR_J_SPACE,
} wr_jclass;
bool wr_jchar_is(uint32_t cp, wr_jclass class);
bool wr_jchar_is_lower(uint32_t cp);
bool wr_jchar_is_upper(uint32_t cp);
bool wr_jchar_is_title(uint32_t cp);
/* The value of a decimal digit; -1: none. */
int wr_jchar_decimal(uint32_t cp);
/* str.islower, isupper, istitle: which is 'l', 'u' or 't'. */
bool wr_jstr_cased(const wr_jstr *s, char which);

#endif
