/* Cases for every op of the table; see op_cases.c. */
#ifndef WR_TESTS_OP_CASES_H
#define WR_TESTS_OP_CASES_H

#include "array/internal.h"

enum { WR_CASE_ONE, WR_CASE_PRIME, WR_CASE_EMPTY, WR_CASE_TALL, WR_CASE_SHAPES };

typedef struct wr_case {
    weir_graph *g;
    wr_op_id op;
    int shape, variant;
    weir_dtype dtype;
    uint64_t seed; /* equal seeds give equal data */
} wr_case;

/* A node of c->op over leaves, poisoned or NULL where the case does not apply. *more is set while there are further
 * variants. */
typedef weir_array *(*wr_case_maker)(wr_case *c, bool *more);
/* NULL: the op has none; add one. */
wr_case_maker wr_case_of(wr_op_id op);

#endif
