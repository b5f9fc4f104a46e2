/* Walking values. Generators work as Python's: an item is computed when it is asked
 * for, and a second walk finds nothing. */
#ifndef WR_TEXT_JINJA_ITER_H
#define WR_TEXT_JINJA_ITER_H

#include "text/jinja/value.h"

/* An iterator. next sets *has to false at the end, and may be called again then. Those
 * who make one embed this at the start of a larger struct. */
typedef struct wr_jiter {
    bool (*next)(wr_jrun *run, struct wr_jiter *it, wr_jval *out, bool *has);
    const char *type_name;
    wr_jval source; /* what is walked */
    size_t at;
    bool started, done;
} wr_jiter;

bool wr_jiterable(wr_jval v);
/* iter(v): v itself when it is an iterator. Fails, as an error, when v cannot be walked. */
bool wr_jiter_new(wr_jrun *run, wr_jval v, wr_jiter **out);
/* reversed(v); *out is NULL when v has no order. */
bool wr_jiter_reversed(wr_jrun *run, wr_jval v, wr_jiter **out);
bool wr_jiter_next(wr_jrun *run, wr_jiter *it, wr_jval *out, bool *has);
/* All that is left, as a new list. */
bool wr_jiter_list(wr_jrun *run, wr_jval v, wr_jval *out);
/* An iterator of `bytes` bytes (a struct that begins with wr_jiter). */
void *wr_jiter_alloc(wr_jrun *run, size_t bytes, const char *type_name,
                     bool (*next)(wr_jrun *, wr_jiter *, wr_jval *, bool *), wr_jval source);

/* The item of a range. */
static inline int64_t wr_jrange_at(const wr_jrange *r, int64_t i) { return r->start + i * r->step; }

#endif
