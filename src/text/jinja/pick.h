/* Picking attributes of items, as several filters do: "a.b.0". */
#ifndef WR_TEXT_JINJA_PICK_H
#define WR_TEXT_JINJA_PICK_H

#include "text/jinja/value.h"

/* An attribute path, split. */
typedef struct wr_jpath {
    wr_jval *parts;
    size_t n;
} wr_jpath;
/* attribute: a text, an int or none (no parts). */
bool wr_jpath_parse(wr_jrun *run, wr_jval attribute, wr_jpath *out);
/* The attribute of an item; instead: what stands for undefined ones, or MISSING. lower: texts in lower case. */
bool wr_jpath_get(wr_jrun *run, const wr_jpath *path, wr_jval item, wr_jval instead, bool lower, wr_jval *out);
/* A generator of the attribute of each item. */
bool wr_jpick_attribute(wr_jrun *run, wr_jval items, wr_jval attribute, wr_jval *out);

#endif
