/* Values as text: Python's str(), repr() and json.dumps(). */
#ifndef WR_TEXT_JINJA_SHOW_H
#define WR_TEXT_JINJA_SHOW_H

#include "text/jinja/value.h"

/* Append str(v) or repr(v). */
bool wr_jshow(wr_jrun *run, wr_jval v, wr_jbuf *buf);
bool wr_jrepr(wr_jrun *run, wr_jval v, wr_jbuf *buf);
/* str(v) as a plain text; soft keeps Markup as it is. */
bool wr_jstr_of(wr_jrun *run, wr_jval v, wr_jval *out);
bool wr_jsoft_str(wr_jrun *run, wr_jval v, wr_jval *out);

/* repr of a float into out[WR_JFLOAT_BYTES]; its length. */
enum { WR_JFLOAT_BYTES = 40 };
size_t wr_jfloat_repr(double x, char out[WR_JFLOAT_BYTES]);

typedef struct wr_jjson {
    bool ensure_ascii, sort_keys;
    bool indented;       /* one item a line, indented by `indent` */
    wr_jval indent;      /* a text */
    wr_jval item, colon; /* separators, texts */
} wr_jjson;
/* json.dumps. Fails, as an error, on what has no JSON. */
bool wr_jjson_dump(wr_jrun *run, wr_jval v, const wr_jjson *how, wr_jbuf *buf);

/* markupsafe's escape of & < > ' " into buf. */
bool wr_jescape(wr_jrun *run, const wr_jstr *s, wr_jbuf *buf);

/* Is a character written as it is by repr()? */
bool wr_jchar_is_printable(uint32_t cp);

#endif
