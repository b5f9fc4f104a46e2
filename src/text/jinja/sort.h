/* Sorting as Python's sorted() does: stable, and by < alone. */
#ifndef WR_TEXT_JINJA_SORT_H
#define WR_TEXT_JINJA_SORT_H

#include "text/jinja/value.h"

/* What is sorted by its key; reverse keeps equal ones in order, as Python does. */
typedef struct wr_jsortable {
    wr_jval key, value;
} wr_jsortable;
bool wr_jsort(wr_jrun *run, wr_jsortable *items, size_t n, bool reverse);
/* The entries of a dict by key. */
bool wr_jsort_entries(wr_jrun *run, const wr_jdict *dict, const wr_jentry **out);

#endif
