/* The variable `loop` of a for statement. */
#ifndef WR_TEXT_JINJA_LOOP_H
#define WR_TEXT_JINJA_LOOP_H

#include "text/jinja/iter.h"

struct wr_jnode;
struct wr_jframe;

typedef struct wr_jloop {
    wr_jval iterable;
    wr_jiter *it;
    int64_t index0; /* -1 before the first item */
    int64_t length; /* -1: not known yet */
    int64_t depth0;
    wr_jval after, before, current;
    wr_jval changed;             /* the arguments of the last call of changed(), a tuple */
    const struct wr_jnode *node; /* a recursive loop: its statement, else NULL */
    struct wr_jframe *outer;     /* ... and where that stands */
} wr_jloop;

bool wr_jloop_new(wr_jrun *run, wr_jval iterable, int64_t depth0, wr_jloop **out);
bool wr_jloop_next(wr_jrun *run, wr_jloop *loop, wr_jval *out, bool *has);
bool wr_jloop_length(wr_jrun *run, wr_jloop *loop, int64_t *out);
/* loop.name; *found: is there such an attribute? Methods are found elsewhere. */
bool wr_jloop_attribute(wr_jrun *run, wr_jloop *loop, const wr_jstr *name, wr_jval *out, bool *found);

#endif
