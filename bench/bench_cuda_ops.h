/* The part ops of bench_cuda: what its files share. */
#ifndef WR_BENCH_CUDA_OPS_H
#define WR_BENCH_CUDA_OPS_H

#include "bench_cuda.h"

/* What a run of the part keeps on the device. */
typedef struct op_bench {
    weir_device *device;
    wr_buffer *pool; /* inputs of all cases, one behind the other: as bf16 and as f32 +-[0.5, 1), as f16 +-[1.7, 1.9] */
    int64_t pool_bytes, at, turn; /* the next input's place; how often the end was reached */
    wr_buffer *logits;            /* f32 [n_logits, vocabulary], as models give them */
    int64_t vocabulary, n_logits, logits_at;
    wr_program *flush; /* reads and writes more than L2 holds */
} op_bench;

/* One case: some calls of one op, each with inputs of its own. */
typedef struct op_case op_case;
struct op_case {
    const char *op;
    weir_dtype dtype;
    const char *format; /* printed instead of the dtype; NULL: the dtype */
    wr_op_id id;        /* whose kernel row is printed; several steps may be needed for one call */
    /* Each input and each output once, as far as it is used; what has to be computed. Of one call. */
    double bytes, operations;
    /* before: what the call before gave, NULL for the first. */
    weir_array *(*make)(op_bench *b, weir_graph *g, const op_case *c, int call, weir_array *before);
    bool chained;   /* the last call's result depends on all others and is the only output */
    int most_calls; /* 0: as many as fit the time */
    int64_t n[8];   /* the shape, as make wants it */
    void *with;     /* what else make wants */
};

enum { OP_MOST_CALLS = 64 };

/* Time it and print its line; the shape as for printf. */
void op_measure(op_bench *b, const op_case *c, const char *shape, ...) __attribute__((format(printf, 3, 4)));

/* Data that no call before has used; from the pool, and rows of logits. */
weir_array *op_input(op_bench *b, weir_graph *g, weir_dtype dtype, int n_dims, const int64_t *shape);
weir_array *op_logits(op_bench *b, weir_graph *g, int64_t rows);
/* n numbers from 0 to below `end`, i32. */
weir_array *op_ids(weir_graph *g, int64_t n, int64_t end);

static inline int64_t op_size(int64_t full, int64_t quick) { return bench_quick ? quick : full; }
static inline double op_bytes(weir_dtype dtype) { return (double)weir_dtype_bytes(dtype); }

/* bench_cuda_products.c: matrix products and attention. */
void bench_op_products(op_bench *b);

#endif
