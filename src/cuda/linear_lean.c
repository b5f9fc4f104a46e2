/* The decode tier of the shapes that models have: how kernels/linear_lean.cu shares its work, and its launches. */
#include <stdio.h>

#include "cuda/linear_plan.h"

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

enum { PART_BYTES = 8 * 20 * 4 };

static int ahead_of(int kind) {
    switch (kind) {
#define CASE(name, ahead, threads8, threads16)                                                                         \
    case WR_KIND_##name: return ahead;
        WR_LINEAR_KINDS_OF_MODELS(CASE)
#undef CASE
    default: return 0;
    }
}

static bool common(const wr_decode_shape *s) {
    return ahead_of(s->kind) && s->m >= 1 && s->slice_tiles == WR_LEAN_TILES && s->k_tiles % WR_LEAN_TILES == 0 &&
           s->slices > 0 && s->row_tiles > 0 && s->row_tiles < INT32_MAX / 64 && s->k_tiles < INT32_MAX / 64;
}

/* Bytes that the busiest multiprocessor has to bring, in units of a weight's: more if too few are on their way, and
 * what the rounds and x cost beside. */
static double cost_of(const wr_decode_shape *s, int64_t jobs, const wr_lean_plan *p, int64_t per_sm) {
    int64_t warps = (int64_t)p->tiles * p->takers, groups = ceil_div(s->row_tiles, p->tiles);
    int64_t rounds = ceil_div(groups, p->blocks), busy = ceil_div(jobs * p->blocks, s->n_sm);
    int64_t at_once = busy < per_sm ? busy : per_sm, turns = ceil_div(s->slices, p->takers);
    double bytes = (double)(busy * rounds * warps * turns * WR_LEAN_TILES * s->tile_bytes);
    double few = 45e3 / (double)(at_once * warps * ahead_of(s->kind) * s->tile_bytes);
    double x = 0.3 * (double)(busy * s->m * s->k_tiles * WR_TILE_COLS * 2);
    return bytes * (few > 1 ? few : 1) + x + 6e3 * (double)rounds;
}

bool wr_linear_lean_plan(const wr_decode_shape *s, int64_t jobs, wr_lean_plan *out) {
    double best = 1e300;
    if (!common(s) || s->m > 8 || jobs < 0) return false;
    int most_warps = jobs ? WR_LEAN_GATHER_WARPS : WR_LEAN_WARPS;
    for (int takers = 1; takers <= s->slices && takers <= most_warps; takers++) {
        for (int tiles = 1; tiles * takers <= most_warps && tiles <= 15; tiles++) {
            if (tiles * takers < 4 && takers < s->slices) continue;
            wr_lean_plan p = {.tiles = tiles, .takers = takers, .threads = 32 * tiles * takers};
            int64_t groups = ceil_div(s->row_tiles, tiles);
            p.shared_bytes = (size_t)(s->m * (s->k_tiles * WR_TILE_COLS + 8) * 2 + 127) / 128 * 128 +
                             (size_t)(2 * tiles * s->slices * PART_BYTES);
            if (p.shared_bytes > s->shared_bytes) continue;
            int64_t most = most_warps / (tiles * takers);
            int64_t fit = (int64_t)((s->shared_bytes + 1024) / (p.shared_bytes + 1024));
            for (int64_t per_sm = most < fit ? most : fit; per_sm >= 1; per_sm--) {
                int64_t blocks = ceil_div(per_sm * s->n_sm, jobs ? jobs : 1);
                if (s->m > 1 && jobs && blocks < 8) blocks = 8; /* most of the possible jobs do not exist */
                p.blocks = blocks < groups ? blocks : groups;
                double cost = cost_of(s, jobs ? jobs : 1, &p, per_sm);
                if (cost >= best) continue;
                best = cost;
                *out = p;
            }
        }
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
    p->units = (int32_t)(plan->tiles * p->slices);
    p->warps = plan->tiles * plan->takers;
    p->groups = (int32_t)ceil_div(p->row_tiles, plan->tiles);
    p->stride = p->job_blocks = (int32_t)plan->blocks;
    p->unscale = wr_linear_kind_unscale(p->kind);
    wr_launch_spec spec = {.kernel = name,
                           .blocks = plan->blocks * jobs,
                           .threads = plan->threads,
                           .shared_bytes = plan->shared_bytes,
                           .params = p,
                           .params_bytes = sizeof(*p)};
    return wr_launch(launcher, &spec, err);
}

weir_status wr_linear_lean_launch(const wr_step *step, wr_linear_params *p, bool *done, wr_launcher *launcher,
                                  weir_error *err) {
    wr_decode_shape shape;
    wr_lean_plan plan;
    wr_linear_decode_shape(step, p->m, &shape);
    *done = wr_linear_lean_plan(&shape, 0, &plan);
    return *done ? launch(p, &plan, "lean", 1, launcher, err) : WEIR_OK;
}

weir_status wr_linear_lean_gather_launch(const wr_step *step, wr_linear_params *p, int64_t rows_of_job, int64_t jobs,
                                         bool *done, wr_launcher *launcher, weir_error *err) {
    wr_decode_shape shape;
    wr_lean_plan plan;
    wr_linear_decode_shape(step, rows_of_job, &shape);
    *done = wr_linear_lean_plan(&shape, jobs, &plan);
    return *done ? launch(p, &plan, "gather", jobs, launcher, err) : WEIR_OK;
}
