/* What filters and methods of texts share. */
#ifndef WR_TEXT_JINJA_TEXT_H
#define WR_TEXT_JINJA_TEXT_H

#include "text/jinja/builtin.h"

/* str.strip: which is 'l', 'r' or 'b'(oth); chars: MISSING or none means whitespace. */
bool wr_jstrip(wr_jrun *run, wr_jval s, wr_jval chars, char which, wr_jval *out);
/* str.replace; count < 0: all. */
bool wr_jreplace(wr_jrun *run, wr_jstr *s, const wr_jstr *old, const wr_jstr *new_text, int64_t count, bool markup,
                 wr_jval *out);
/* str.splitlines as a list. */
bool wr_jsplit_lines(wr_jrun *run, wr_jstr *s, bool keep_ends, wr_jval *out);
/* sep.join(items), each of which must be a text unless soft, which takes str() of it. */
bool wr_jjoin(wr_jrun *run, wr_jval sep, wr_jval items, bool soft, wr_jval *out);
/* str.center */
bool wr_jcenter(wr_jrun *run, wr_jstr *s, int64_t width, const wr_jstr *fill, char align, wr_jval *out);

/* int(text, base); false in *valid when it is no number. */
bool wr_jparse_int(wr_jrun *run, wr_jstr *s, int64_t base, int64_t *out, bool *valid);
/* float(text) */
bool wr_jparse_float(wr_jrun *run, wr_jstr *s, double *out, bool *valid);

/* The place of a text in another, in bytes from `from` to `to`; SIZE_MAX: none. last: the last one. */
size_t wr_jfind(const wr_jstr *s, size_t from, size_t to, const wr_jstr *what, bool last);

#endif
