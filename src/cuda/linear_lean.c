/* The decode tier of the shapes that models have: how kernels/linear_lean.cu shares its work, and its launches. */
#include <stdio.h>

#include "cuda/kernels/norm.h"
#include "cuda/linear_plan.h"

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

enum { PART_BYTES = 8 * 20 * 4, SLICE_BYTES = WR_LEAN_TILES * WR_TILE_COLS * 2, MOST_NORMED = 2 };

/* Tiles read ahead, and warps of a block for up to 16 rows; 0: no kernels of this kind. */
static int ahead_of(int kind) {
    switch (kind) {
#define CASE(name, ahead, threads8, threads16)                                                                         \
    case WR_KIND_##name: return ahead;
        WR_LINEAR_KINDS_OF_MODELS(CASE)
#undef CASE
    default: return 0;
    }
}
static int warps16_of(int kind) {
    switch (kind) {
#define CASE(name, ahead, threads8, threads16)                                                                         \
    case WR_KIND_##name: return threads16 / 16;
        WR_LINEAR_KINDS_OF_MODELS(CASE)
#undef CASE
    default: return 0;
    }
}

static bool common(const wr_decode_shape *s) {
    return ahead_of(s->kind) && s->m >= 1 && s->m <= (s->clusters ? 16 : 8) && s->slice_tiles == WR_LEAN_TILES &&
           s->k_tiles % WR_LEAN_TILES == 0 && s->slices > 0 && s->row_tiles > 0 && s->row_tiles < INT32_MAX / 64 &&
           s->k_tiles < INT32_MAX / 64;
}
static int most_warps(const wr_decode_shape *s, const wr_lean_plan *p, int64_t jobs) {
    if (jobs) return WR_LEAN_GATHER_WARPS;
    if (p->split) return WR_LEAN_SPLIT_WARPS;
    return s->m > 8 ? warps16_of(s->kind) : WR_LEAN_WARPS;
}
/* Slices of x that a block keeps; warps and memory of a block; false: no kernel has this shape. */
static bool complete(const wr_decode_shape *s, int64_t jobs, int64_t most_blocks, wr_lean_plan *p) {
    int64_t width = s->m > 8 ? 2 : 1, split = p->split ? p->cluster : 1, kept = ceil_div(s->slices, split);
    int64_t groups = ceil_div(s->row_tiles, p->tiles);
    p->threads = 32 * p->tiles * p->takers;
    p->blocks = most_blocks < groups ? most_blocks : groups;
    int64_t buffers = p->split && groups <= p->blocks ? 1 : 2;
    int64_t sums = buffers * ceil_div(p->tiles, split) * s->slices * width * PART_BYTES;
    int64_t norm = s->normed ? (WR_LEAN_NORM_PARTS + (1 + s->m) * s->k_tiles * WR_TILE_COLS) * 4 : 0; /* before sums */
    p->shared_bytes = (size_t)(WR_LEAN_BAR_BYTES + (s->m * (kept * SLICE_BYTES + 16) + 127) / 128 * 128 +
                               (sums > norm ? sums : norm));
    if (p->split)
        p->blocks *= p->cluster;
    else
        p->blocks = ceil_div(p->blocks, p->cluster) * p->cluster;
    /* A warp of the others has one slice of a row tile. */
    bool whole = jobs || p->split || s->gated || p->takers == s->slices;
    if ((s->gated || s->normed) && (s->m > 8 || p->cluster > 1 || (s->gated && p->tiles % 2))) return false;
    uint64_t step = (uint64_t)(p->blocks * p->tiles) * (uint64_t)s->k_tiles * (uint64_t)s->tile_bytes;
    return whole && kept <= WR_LEAN_SLICES && p->takers <= kept && p->threads <= 32 * most_warps(s, p, jobs) &&
           p->tiles <= 15 && p->shared_bytes <= s->shared_bytes && most_blocks > 0 && step <= UINT32_MAX &&
           (p->cluster == 1 || (s->clusters && !jobs && (p->split ? s->m <= 8 : s->m > 8))) && (s->m <= 8 || !jobs) &&
           (!p->split || (p->cluster == 2 && s->slices > kept));
}
bool wr_linear_lean_shape(const wr_decode_shape *s, int64_t most, wr_lean_plan *p) {
    return common(s) && complete(s, 0, most, p);
}

/* Bytes that the busiest multiprocessor has to bring, in units of a weight's: more if too few are on their way, and
 * what the rounds, x and the exchange of sums cost beside. Fitted to an H200: about 33 KB a microsecond; x is not had
 * for less than weights, unless two blocks bring it together. */
static double cost_of(const wr_decode_shape *s, int64_t jobs, const wr_lean_plan *p, int64_t per_sm) {
    int64_t split = p->split ? p->cluster : 1, kept = ceil_div(s->slices, split), warps = p->threads / 32;
    int64_t groups = ceil_div(s->row_tiles, p->tiles), streams = p->blocks / split;
    int64_t rounds = ceil_div(groups, streams), busy = ceil_div(jobs * p->blocks, s->n_sm);
    int64_t at_once = busy < per_sm ? busy : per_sm, turns = ceil_div(kept, p->takers);
    double bytes = (double)(busy * rounds * p->tiles * kept * WR_LEAN_TILES * s->tile_bytes);
    double uneven = (double)(turns * p->takers) / (double)kept; /* of which half is made up for by the memory */
    double few = 45e3 / (double)(at_once * warps * ahead_of(s->kind) * s->tile_bytes);
    double x = (double)(busy * s->m * kept * SLICE_BYTES) * (!p->split && p->cluster > 1 ? 0.7 : 1);
    return bytes * (few > 1 ? few : 1) * (0.5 + 0.5 * uneven) + x + (p->split ? 65e3 : 3e3) * (double)rounds;
}

static void consider(const wr_decode_shape *s, int64_t jobs, wr_lean_plan p, double *best, wr_lean_plan *out) {
    int64_t warps = (int64_t)p.tiles * p.takers, most = most_warps(s, &p, jobs) / warps;
    for (int64_t per_sm = p.cluster > 1 ? 1 : most; per_sm >= 1; per_sm--) {
        int64_t blocks = ceil_div(per_sm * s->n_sm, jobs ? jobs : 1);
        if (s->m > 1 && jobs && blocks < 8) blocks = 8; /* most of the possible jobs do not exist */
        if (p.cluster > 1) blocks = p.split ? s->n_sm / 2 : s->n_sm / 2 * 2;
        if (!complete(s, jobs, blocks, &p)) continue;
        int64_t fit = (int64_t)((s->shared_bytes + 1024) / (p.shared_bytes + 1024));
        if (per_sm > fit) continue;
        double cost = cost_of(s, jobs ? jobs : 1, &p, per_sm);
        if (cost >= *best) continue;
        *best = cost;
        *out = p;
    }
}

bool wr_linear_lean_plan(const wr_decode_shape *s, int64_t jobs, wr_lean_plan *out) {
    double best = 1e300;
    if (!common(s) || jobs < 0) return false;
    for (int form = 0; form < 3; form++) /* by themselves, x brought by two blocks, slices spread over two */
        for (int takers = 1; takers <= s->slices && takers <= WR_LEAN_WARPS; takers++)
            for (int tiles = 1; tiles * takers <= WR_LEAN_WARPS; tiles++) {
                if (tiles * takers < 4 && takers < s->slices) continue;
                wr_lean_plan p = {.tiles = tiles, .takers = takers, .cluster = form ? 2 : 1, .split = form == 2};
                consider(s, jobs, p, &best, out);
            }
    return best < 1e300;
}

/* ---- launches ---- */

/* form: the kernel's name behind the kind's. */
static weir_status launch(wr_linear_params *p, const wr_lean_plan *plan, const char *form, int64_t jobs,
                          wr_launcher *launcher, weir_error *err) {
    char name[64];
    snprintf(name, sizeof(name), "wr_linear_%s_%s", wr_linear_kind_name(p->kind), form);
    p->group_tiles = plan->tiles;
    p->chunk_slices = plan->takers;
    p->chunks = plan->cluster;
    p->warps = plan->threads / 32;
    p->groups = (int32_t)ceil_div(p->row_tiles, plan->tiles);
    p->stride = (int32_t)(plan->split ? plan->blocks / plan->cluster : plan->blocks);
    p->job_blocks = (int32_t)plan->blocks;
    p->row_step = p->stride * plan->tiles / (p->half ? 2 : 1); /* gated: of each of a pair */
    p->row_step_bytes = (uint32_t)(p->row_step * p->k_tiles * wr_linear_tile_bytes(p->kind));
    p->unscale = wr_linear_kind_unscale(p->kind);
    wr_launch_spec spec = {.kernel = name,
                           .blocks = plan->blocks * jobs,
                           .cluster = plan->cluster > 1 ? plan->cluster : 0,
                           .threads = plan->threads,
                           .shared_bytes = plan->shared_bytes,
                           .params = p,
                           .params_bytes = sizeof(*p)};
    return wr_launch(launcher, &spec, err);
}
static const char *form_of(const wr_lean_plan *plan, int64_t m) {
    if (plan->split) return "split";
    return m > 8 ? "lean16" : "lean";
}

weir_status wr_linear_lean_launch(const wr_step *step, wr_linear_params *p, bool *done, wr_launcher *launcher,
                                  weir_error *err) {
    wr_decode_shape shape;
    wr_lean_plan plan;
    wr_linear_decode_shape(step, p->m, &shape);
    *done = wr_linear_lean_plan(&shape, 0, &plan);
    return *done ? launch(p, &plan, form_of(&plan, p->m), 1, launcher, err) : WEIR_OK;
}
weir_status wr_linear_lean_launch_plan(const wr_step *step, const wr_lean_plan *plan, wr_launcher *launcher,
                                       weir_error *err) {
    wr_linear_params p;
    wr_linear_params_of(step, step->op == WR_OP_LINEAR ? 1 : 2, &p);
    return launch(&p, plan, form_of(plan, p.m), 1, launcher, err);
}

/* ---- LINEAR_GATED, NORM_LINEAR ---- */

static bool fused_plan_of(const wr_step *step, wr_lean_plan *plan) {
    const wr_linear_args *a = step->args;
    wr_decode_shape shape;
    wr_linear_decode_shape(step, wr_linear_rows_of_x(step), &shape);
    shape.normed = step->op == WR_OP_NORM_LINEAR;
    shape.gated = a->gate != 0; /* the sums of a gate's row tile and of its up half's meet in a block */
    return (!a->gate || a->rows % (2 * WR_TILE_ROWS) == 0) && wr_linear_lean_plan(&shape, 0, plan);
}
bool wr_linear_gated_fits(const wr_step *step) {
    wr_lean_plan plan;
    return fused_plan_of(step, &plan);
}
/* Every block norms all of x. */
bool wr_linear_normed_fits(const wr_step *step) {
    const wr_linear_args *a = step->args;
    wr_lean_plan plan;
    return step->in[0].dtype == WEIR_DTYPE_F32 && a->norm_dtype == WEIR_DTYPE_BF16 && a->cols <= WR_NORM_MOST &&
           a->cols % WR_TILE_COLS == 0 && wr_linear_rows_of_x(step) <= MOST_NORMED && fused_plan_of(step, &plan);
}
weir_status wr_linear_fused_launch(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    const wr_linear_args *a = step->args;
    wr_linear_params p;
    wr_lean_plan plan;
    bool normed = step->op == WR_OP_NORM_LINEAR;
    wr_linear_params_of(step, normed ? 2 : 1, &p);
    if (!fused_plan_of(step, &plan))
        return WR_FAIL(err, WEIR_E_STATE, "%s: no plan for %lld x %lld weights", wr_ops[step->op].name, (long long)p.n,
                       (long long)p.k);
    if (normed) {
        p.norm = step->in[1].data;
        p.norm_eps = a->norm_eps;
        p.norm_offset = a->norm_offset;
        p.norm_warps = wr_norm_threads(a->cols) / 32;
    }
    return launch(&p, &plan, a->gate ? "gated" : "lean", 1, launcher, err);
}

weir_status wr_linear_lean_gather_launch(const wr_step *step, wr_linear_params *p, int64_t rows_of_job, int64_t jobs,
                                         bool *done, wr_launcher *launcher, weir_error *err) {
    wr_decode_shape shape;
    wr_lean_plan plan;
    wr_linear_decode_shape(step, rows_of_job, &shape);
    *done = wr_linear_lean_plan(&shape, jobs, &plan);
    return *done ? launch(p, &plan, "gather", jobs, launcher, err) : WEIR_OK;
}
