/* Which tiles serve a LINEAR of many rows. A pure function of the shape and the card: it never changes bits, only time.
 */
#ifndef WR_CUDA_LINEAR_PREFILL_H
#define WR_CUDA_LINEAR_PREFILL_H

#include "cuda/launch.h"

typedef struct wr_prefill_plan {
    int tokens;               /* of a block's tile: 32, 64 or 128 */
    int halves;               /* warpgroups over weight rows: the tile has 64 * halves of them */
    int groups;               /* warpgroups that share the slices */
    int stages;               /* of tokens, of each group */
    int weight_stages, chunk; /* of weights, of each group; k tiles of one */
    int64_t blocks;
    int threads;
    size_t shared_bytes;
} wr_prefill_plan;

enum {
    WR_PREFILL_MIN_ROWS = 17,       /* fewer rows are the decode tiers' */
    WR_PREFILL_MIN_EXPERT_ROWS = 16 /* of the average expert */
};

/* m tokens by n weight rows, k tiles of 64 columns. False: this tier cannot serve it. */
bool wr_linear_prefill_choose(int64_t m, int64_t n, int64_t k_tiles, int kind, const wr_cuda_traits *traits,
                              wr_prefill_plan *plan);
/* The plan of one given shape of tiles; false when no kernel of that kind has it. */
bool wr_linear_prefill_shape(int tokens, int halves, int groups, int64_t m, int64_t n, int kind,
                             const wr_cuda_traits *traits, wr_prefill_plan *plan);

/* The row "prefill" of LINEAR and LINEAR_ADD: x is made ready first, then read in place (wr_step's prepared). */
bool wr_linear_prefill_fits(const wr_step *step);
size_t wr_linear_prefill_prepared_bytes(const wr_step *step);
weir_status wr_linear_prefill_launch_prepare(const wr_step *step, wr_launcher *launcher, weir_error *err);
weir_status wr_linear_prefill_launch(const wr_step *step, wr_launcher *launcher, weir_error *err);
/* The same with a plan of the caller's. */
weir_status wr_linear_prefill_launch_plan(const wr_step *step, const wr_prefill_plan *plan, wr_launcher *launcher,
                                          weir_error *err);

/* The row "prefill" of GATHER_LINEAR. */
bool wr_gather_prefill_fits(const wr_step *step);
size_t wr_gather_prefill_scratch_bytes(const wr_step *step, int n_threads);
weir_status wr_gather_prefill_launch(const wr_step *step, wr_launcher *launcher, weir_error *err);

#endif
