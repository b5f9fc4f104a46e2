/* Formatting by templates of text: the operator % and the method format(). */
#ifndef WR_TEXT_JINJA_FORMAT_H
#define WR_TEXT_JINJA_FORMAT_H

#include "text/jinja/builtin.h"

/* text % value; a tuple has a value for each place, a dict one for each name. */
bool wr_jformat_percent(wr_jrun *run, wr_jval text, wr_jval value, wr_jval *out);
/* text.format(...), format_map(mapping). */
bool wr_jformat_call(wr_jrun *run, wr_jval text, const wr_jcall *call, wr_jval *out);
bool wr_jformat_map(wr_jrun *run, wr_jval text, wr_jval mapping, wr_jval *out);

/* How one value is written: the fields of Python's format specification. */
typedef struct wr_jspec {
    uint32_t fill; /* character */
    char align;    /* '<', '>', '^', '=' or 0 */
    char sign;     /* '+', '-', ' ' or 0 */
    bool alternate, zero;
    char grouping;            /* ',', '_' or 0 */
    int64_t width, precision; /* -1: not given */
    char type;                /* 0: not given */
} wr_jspec;

/* A number by spec, whose type is one of those of its kind. */
bool wr_jformat_int(wr_jrun *run, int64_t value, const wr_jspec *spec, wr_jbuf *buf);
bool wr_jformat_float(wr_jrun *run, double value, const wr_jspec *spec, wr_jbuf *buf);
/* Text in its field. */
bool wr_jformat_pad(wr_jrun *run, wr_jstr *s, const wr_jspec *spec, char fallback, wr_jbuf *buf);

#endif
