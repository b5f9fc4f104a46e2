/* Values that models write in other notations than JSON, rewritten as JSON. */
#ifndef WR_TEXT_PARSE_CONVERT_H
#define WR_TEXT_PARSE_CONVERT_H

#include <stdbool.h>
#include <stddef.h>

#include "text/parse/bytes.h"

typedef enum wr_converted {
    WR_CONVERTED,       /* all of the text was a value, out has it */
    WR_CONVERTED_PART,  /* the text ended too early; out has what is sure so far */
    WR_CONVERTED_WRONG, /* it is nothing of the kind */
} wr_converted;

/* The arguments of a call in Python, the text between its parentheses ("a=1, b='x'"), as a JSON object. One dict alone
 * is the object itself. Literals only: strings (no f-strings), numbers, True, False, None, lists, tuples, dicts; also
 * true, false and null. */
wr_converted wr_convert_python_arguments(const char *text, size_t n, wr_bytes *out);
/* One Python literal. */
wr_converted wr_convert_python_value(const char *text, size_t n, wr_bytes *out);

/* The arguments of a call as Gemma writes them, the text between the outermost braces (a:1,b:[true],c:{d:Qx yQ} where Q
 * is `quote`), as a JSON object. */
wr_converted wr_convert_bare(const char *text, size_t n, const char *quote, wr_bytes *out);

#endif
