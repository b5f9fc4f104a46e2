/* JSON as the caller gives it, as values of a rendering. */
#ifndef WR_TEXT_JINJA_FROM_JSON_H
#define WR_TEXT_JINJA_FROM_JSON_H

#include <jansson.h>

#include "text/jinja/value.h"

/* Everything is copied. */
bool wr_jfrom_json(wr_jrun *run, const json_t *json, wr_jval *out);

#endif
