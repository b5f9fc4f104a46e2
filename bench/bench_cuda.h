/* What the parts of bench_cuda share: bench_cuda.c has main and the parts linear, attention, prefill, nodes and rows,
 * bench_cuda_ops.c and bench_cuda_products.c the part ops. A failure ends the program. */
#ifndef WR_BENCH_CUDA_H
#define WR_BENCH_CUDA_H

#include "array/internal.h"

extern bool bench_quick; /* tiny cases, few replays: to try the program out */

void bench_check(weir_status status, const weir_error *err);
uint32_t bench_random(void);

enum { BENCH_MAX_CALLS = 512, BENCH_MAX_REPLAYS = 15 };

/* Microseconds a call: the median of n replays of a program of so many calls, and the ends. */
typedef struct bench_timing {
    double us, min_us, max_us;
    double rested_us; /* 0: not measured */
    int n, calls;
    const char *variant; /* the kernel row */
} bench_timing;

/* n replays of the program behind n_warm that do not count, each after so many seconds of rest, or after a run of
 * `before` (may be NULL); microseconds each, in rising order. */
void bench_replay(wr_program *program, int n_warm, int n, double rest_s, wr_program *before, double *us);
/* The outputs as one program, each of the same cost. */
bench_timing bench_outputs(weir_array **outputs, int n_calls, wr_op_id op, bool also_rested);
/* The kernel row of the program's last step of the op; of its last step where there is none. */
const char *bench_variant(const wr_program *program, wr_op_id op);

/* Of even distribution between -scale and scale; f32 or bf16. */
wr_buffer *bench_floats(weir_device *device, weir_dtype dtype, int64_t n, float scale);

/* Formats of weights; the part linear measures the first ones, the part ops all. */
typedef struct bench_format {
    const char *name;
    weir_quant quant;
    weir_dtype dtype; /* of a dense weight, or of an affine one's scales */
} bench_format;
enum { BENCH_COMMON_FORMATS = 14 };
extern const bench_format bench_formats[];
extern const int bench_n_formats;

wr_linear_args bench_linear_args(const bench_format *format, weir_dtype out, int64_t rows, int64_t cols);
/* Random codes under scales of 2^-7 or so, in host memory, in the device's layout where it has one (then a->packed is
 * set). The caller frees them. */
void *bench_weight(weir_device *device, wr_linear_args *a, size_t *bytes);
/* Such a weight in a buffer. */
weir_array *bench_weight_leaf(weir_graph *g, const wr_linear_args *a, wr_buffer *w, size_t bytes);

/* The part ops. */
void bench_ops(weir_device *device);

#endif
