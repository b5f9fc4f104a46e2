/* How kernels/linear_lean.cu and linear_wide.cu share their work. */
#include <stdio.h>
#include <stdlib.h>

#include "cuda/linear_plan.h"

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

enum { SLOT_PITCH = WR_LEAN_TILES * WR_TILE_COLS * 2 + 16, PART_BYTES = 8 * 20 * 4, BARRIER_BYTES = 512 };

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
    if (!common(s) || s->m > 8 || jobs < 1) return false;
    int most_warps = jobs > 1 ? 16 : 24;
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
                int64_t blocks = ceil_div(per_sm * s->n_sm, jobs);
                if (jobs > 1 && s->m > 1 && blocks < 8) blocks = 8; /* most of the possible jobs do not exist */
                p.blocks = blocks < groups ? blocks : groups;
                double cost = cost_of(s, jobs, &p, per_sm);
                if (cost >= best) continue;
                best = cost;
                *out = p;
            }
        }
    }
    return best < 1e300;
}

bool wr_linear_wide_plan(const wr_decode_shape *s, wr_lean_plan *out) {
    double best = 1e300;
    if (!common(s) || s->m > 32) return false;
    int n8 = s->m <= 16 ? 2 : 4;
    for (int takers = 1; takers <= s->slices && takers <= 15; takers++) {
        for (int tiles = 1; tiles * takers <= 15; tiles++) {
            wr_lean_plan p = {.tiles = tiles, .takers = takers};
            int64_t groups = ceil_div(s->row_tiles, tiles);
            size_t base = BARRIER_BYTES + (size_t)((2 * takers - 1) * tiles * n8 * 512);
            size_t slot = (size_t)s->m * SLOT_PITCH;
            if (base + slot > s->shared_bytes) continue;
            size_t depth = (s->shared_bytes - base) / slot;
            p.depth = (int)(depth < (size_t)s->slices ? depth : (size_t)s->slices);
            if (p.depth > BARRIER_BYTES / 16) p.depth = BARRIER_BYTES / 16;
            if (p.depth < takers) continue;
            p.shared_bytes = base + (size_t)p.depth * slot;
            p.threads = 32 * (tiles * takers + (p.depth < s->slices));
            p.blocks = groups < s->n_sm ? groups : s->n_sm;
            double cost = cost_of(s, 1, &p, 1);
            if (cost >= best) continue;
            best = cost;
            *out = p;
        }
    }
    return best < 1e300;
}
