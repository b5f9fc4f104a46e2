/* How a decode tier shares its work: pure, tested without a card. */
#ifndef WR_CUDA_LINEAR_PLAN_H
#define WR_CUDA_LINEAR_PLAN_H

#include "cuda/kernels/quantize.h"
#include "cuda/linear.h"

typedef struct wr_decode_shape {
    int kind;  /* WR_KIND_* */
    int64_t m; /* 1..32 rows of x, all in one launch */
    int64_t row_tiles, k_tiles;
    int slices, slice_tiles;
    int64_t tile_bytes;
    int n_sm;
    size_t shared_bytes;
    bool gated;                      /* LINEAR_GATED: row tiles of a block come in pairs */
    bool normed;                     /* NORM_LINEAR: blocks have room for the norm's weights */
    bool force_direct, force_spread; /* consider only one way to add the slices (tests, GATHER_LINEAR) */
    bool clusters;                   /* the card and the build have kernels of clusters */
} wr_decode_shape;

typedef struct wr_decode_plan {
    int width; /* rows that the kernel is built for: 8, 16, 32 */
    int threads;
    int group_tiles, chunk_slices; /* see wr_linear_params */
    int chunks;                    /* 1: direct */
    int64_t blocks;
    size_t shared_bytes;
} wr_decode_plan;

/* Of a LINEAR or GATHER_LINEAR step, m rows a launch or a job. */
void wr_linear_decode_shape(const wr_step *step, int64_t m, wr_decode_shape *out);

/* Of kernels/linear_lean.cu. */
typedef struct wr_lean_plan {
    int tiles, takers; /* row tiles of a block (split: of a cluster) at once; warps of a block for each */
    int cluster;       /* blocks that share x (1: none does), or, split, the slices */
    bool split;
    int threads;
    int64_t blocks; /* of a job */
    size_t shared_bytes;
} wr_lean_plan;

/* False: no such kernel can serve it. jobs: of GATHER_LINEAR, of at most m rows; LINEAR: 0. */
bool wr_linear_lean_plan(const wr_decode_shape *shape, int64_t jobs, wr_lean_plan *out);
/* The plan of one given way to share a LINEAR (tiles, takers, cluster, split); blocks or clusters: the most there are.
 */
bool wr_linear_lean_shape(const wr_decode_shape *shape, int64_t most, wr_lean_plan *plan);
weir_status wr_linear_lean_launch_plan(const wr_step *step, const wr_lean_plan *plan, wr_launcher *launcher,
                                       weir_error *err);

/* Launch them where they serve; *done says whether. The rows of p (its x, y, m) are one launch's. */
weir_status wr_linear_lean_launch(const wr_step *step, wr_linear_params *p, bool *done, wr_launcher *launcher,
                                  weir_error *err);
weir_status wr_linear_lean_gather_launch(const wr_step *step, wr_linear_params *p, int64_t rows_of_job, int64_t jobs,
                                         bool *done, wr_launcher *launcher, weir_error *err);

/* The rows "lean" of LINEAR_GATED and NORM_LINEAR. */
bool wr_linear_gated_fits(const wr_step *step);
bool wr_linear_normed_fits(const wr_step *step);
weir_status wr_linear_fused_launch(const wr_step *step, wr_launcher *launcher, weir_error *err);

/* False: no decode kernel can serve it. */
bool wr_linear_decode_plan(const wr_decode_shape *shape, wr_decode_plan *out);
/* The row's launch; forced: a plan of the caller's for each chunk of rows, or NULL. */
weir_status wr_linear_decode_launch(const wr_step *step, const wr_decode_plan *forced, wr_launcher *launcher,
                                    weir_error *err);

#endif
