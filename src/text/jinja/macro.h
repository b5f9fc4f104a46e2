/* What the statements of a template define that can be called. */
#ifndef WR_TEXT_JINJA_MACRO_H
#define WR_TEXT_JINJA_MACRO_H

#include "text/jinja/builtin.h"
#include "text/jinja/loop.h"

typedef struct wr_jmacro {
    const wr_jstr *name; /* NULL: the body of a call block */
    const struct wr_jnode *node;
    struct wr_jframe *outer; /* where it was defined */
} wr_jmacro;

bool wr_jmacro_call(wr_jrun *run, const wr_jmacro *macro, const wr_jcall *call, wr_jval *out);
/* loop(items) of a recursive for. */
bool wr_jloop_recurse(wr_jrun *run, wr_jloop *loop, const wr_jcall *call, wr_jval *out);

/* May a namespace have an attribute of this name? */
bool wr_jnamespace_check(wr_jrun *run, wr_jval name);

#endif
