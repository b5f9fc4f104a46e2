/* The operators of expressions, on values of any type. */
#ifndef WR_TEXT_JINJA_OPS_H
#define WR_TEXT_JINJA_OPS_H

#include "text/jinja/value.h"

typedef enum wr_jop {
    WR_J_ADD,
    WR_J_SUB,
    WR_J_MUL,
    WR_J_DIV,
    WR_J_FLOORDIV,
    WR_J_MOD,
    WR_J_POW,
    WR_J_EQ,
    WR_J_NE,
    WR_J_LT,
    WR_J_LE,
    WR_J_GT,
    WR_J_GE,
    WR_J_IN,
    WR_J_NOT_IN,
} wr_jop;

/* ADD to POW. */
bool wr_jbinary(wr_jrun *run, wr_jop op, wr_jval a, wr_jval b, wr_jval *out);
/* EQ to NOT_IN. */
bool wr_jrelation(wr_jrun *run, wr_jop op, wr_jval a, wr_jval b, bool *out);
bool wr_jnegate(wr_jrun *run, wr_jval v, bool minus, wr_jval *out);

/* A float as an int, cut towards zero; fails, as an error, on NaN and infinity. */
bool wr_jfloat_to_int(wr_jrun *run, double x, int64_t *out);
bool wr_jint_too_large(wr_jrun *run); /* records it */

/* environment.getitem and getattr: no failure but for an undefined obj. What is not there
 * is undefined. */
bool wr_jgetitem(wr_jrun *run, wr_jval obj, wr_jval key, wr_jval *out);
bool wr_jgetattr(wr_jrun *run, wr_jval obj, wr_jstr *name, wr_jval *out);
/* The filter `attr`: an attribute, never an item. */
bool wr_jgetattr_only(wr_jrun *run, wr_jval obj, wr_jval name, wr_jval *out);
/* obj[start:stop:step]; MISSING and none are left out. */
bool wr_jslice(wr_jrun *run, wr_jval obj, const wr_jval at[3], wr_jval *out);
/* Python's rule for the bounds of a slice of n items: from where, to where, how many.
 * start and stop may be NULL; step != 0. */
int64_t wr_jslice_bounds(int64_t n, const int64_t *start, const int64_t *stop, int64_t step, int64_t *first,
                         int64_t *end);

#endif
