/* Random published weights, a double-precision reference, and a runner for one kernel row; for test_linear and
 * test_pack. */
#ifndef WR_TESTS_CPU_LINEAR_SUPPORT_H
#define WR_TESTS_CPU_LINEAR_SUPPORT_H

#include "array/backend.h"

typedef struct lin_case {
    const char *name;
    weir_quant quant;
    weir_dtype dtype; /* dense, affine */
    int multiple;     /* of columns */
} lin_case;
extern const lin_case lin_cases[];
extern const int lin_case_count;

typedef struct lin_weight {
    wr_linear_args args; /* packed = 1 */
    void *data, *scales, *biases, *packed;
    size_t packed_bytes;
} lin_weight;
/* Packs with n_threads shares. */
void lin_weight_init(lin_weight *w, const lin_case *c, int64_t experts, int64_t rows, int64_t cols, unsigned seed,
                     int n_threads);
void lin_weight_deinit(lin_weight *w);
/* The published values of one row, by cpu/ref/dequant.h. */
void lin_weight_row(const lin_weight *w, int64_t expert, int64_t row, float *out);

float lin_random(uint64_t *state); /* -1..1 */
/* First row of the table that fits step; prepares and runs it in n_threads shares, one after the other, with
 * scratch of exactly the asked size between canaries. Returns its name; NULL when none fits. */
const char *lin_run(const wr_kernel_row *rows, wr_step *step, int n_threads);
/* y[m][rows] = x w^T of dtype x_dtype by the rows of the op (LINEAR; GATHER_LINEAR when ids is not NULL). y has
 * canaries. */
const char *lin_matmul(const lin_weight *w, weir_dtype x_dtype, const void *x, const int32_t *ids, int64_t m, void *y,
                       int n_threads);

#endif
