/* LINEAR with many rows on sm_90a: prepares the activations once for all weights that read them, then launches
 * kernels/linear_prefill.cu with the tile shape that a model of its time prefers. */
#include "cuda/linear_prefill.h"

#include <stdio.h>

#include "cuda/kernels/linear_prefill.h"
#include "cuda/linear_plan.h"

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* ---- the choice ---- */

/* The shapes that the kernels are built for: tokens, and the most warpgroups (registers decide). */
static const struct { int tokens, warpgroups; } widths[] = {{128, 2}, {64, 3}, {32, 4}, {16, 4}};

static bool built(int kind, int tokens) {
    switch (kind) {
#define WR_PREFILL_CASE(name) case WR_KIND_##name:
        WR_PREFILL_ALL_WIDTHS(WR_PREFILL_CASE) return true;
        WR_PREFILL_FEW_TOKENS(WR_PREFILL_CASE) return tokens != 64;
        WR_PREFILL_TWO_WIDTHS(WR_PREFILL_CASE) return tokens == 32 || tokens == 128;
        WR_PREFILL_ONE_WIDTH(WR_PREFILL_CASE) return tokens == 128;
#undef WR_PREFILL_CASE
    default: return false;
    }
}

/* Byte offsets of a block's shared memory: tokens, weights, the turning of outputs, sums of slices, barriers. */
typedef struct layout {
    size_t weights, turn, sums, bars, end;
} layout;
static layout layout_of(const wr_prefill_plan *p, size_t tile_bytes) {
    layout at;
    size_t tokens = (size_t)p->tokens, halves = (size_t)p->halves, groups = (size_t)p->groups;
    size_t others = (groups * (size_t)p->cluster - 1) * halves, weight_stages = groups * (size_t)p->weight_stages;
    at.weights = groups * (size_t)p->stages * WR_PREFILL_TOKEN_K_TILES(tokens) * tokens * 128;
    at.turn = at.weights + weight_stages * 4 * halves * (size_t)p->chunk * tile_bytes;
    at.sums = at.turn + halves * WR_PREFILL_TURN_BYTES(tokens);
    at.bars = at.sums + others * 64 * tokens * sizeof(float);
    at.end = at.bars + 16 * (groups * (size_t)p->stages + weight_stages + others);
    return at;
}

/* Instructions that a warp spends on a k tile: counted in the machine code of the kernels, rounded. */
static int issue_of(int kind) {
    int code = wr_linear_kind_code(kind), bits = wr_linear_kind_bits(kind);
    switch (wr_linear_kind_scales(kind)) {
    case WR_SC_NONE: return code == WR_CODE_F16 ? 230 : 30;
    case WR_SC_BF16_64:
    case WR_SC_BF16_32: return bits == 4 || bits == 2 ? 65 : bits == 8 ? 80 : 110;
    case WR_SC_E8M0:
    case WR_SC_E5M3: return 95;
    case WR_SC_K32:
    case WR_SC_K16:
    case WR_SC_K16M: return 200;
    default: return 150;
    }
}

/* How many clusters of so many blocks run at once, each block having a multiprocessor: larger ones do not fill every
 * part of the card (on an H200 66 of 2 blocks, 30 of 4). */
static int64_t clusters_at_once(int cluster, int n_sm) {
    return cluster <= 2 ? n_sm / cluster : n_sm * 10 / 11 / cluster;
}

/* Clock cycles of the whole launch by a simple model, fitted to measurements (linear_prefill.cuh): all warpgroups of a
 * block do a k tile in the time of the slower of tensor cores and issue slots, and of twice the instructions of one,
 * which do not overlap, or of bytes into the multiprocessor; per tile an epilogue, and, with groups, the exchange of
 * sums, more over clusters; tiles in waves over the multiprocessors; never faster than memory. m: rows; weights:
 * experts that are read. */
static int64_t cycles_of(const wr_prefill_plan *p, int64_t m, int64_t token_tiles, int64_t weights, int64_t n,
                         int64_t k_tiles, int kind, int n_sm) {
    enum {
        TENSOR = 2,
        LEAST_TOKENS = 44,
        BYTES = 40,
        FILL = 4000,
        EPILOGUE = 8,
        EXCHANGE = 2500,
        REMOTE = 2500,
        MEMORY = 20
    };
    int64_t tile_bytes = wr_linear_tile_bytes(kind), warpgroups = p->halves * p->groups;
    int64_t tokens = m < p->tokens ? (m + 7) / 8 * 8 : p->tokens; /* that are brought */
    int64_t step = TENSOR * warpgroups * (p->tokens > LEAST_TOKENS ? p->tokens : LEAST_TOKENS);
    int64_t other = issue_of(kind) * warpgroups;
    if (other > step) step = other;
    step += 2 * issue_of(kind);
    other = p->groups * (tokens * 128 + 4 * p->halves * tile_bytes) / BYTES;
    if (other > step) step = other;
    int64_t slice_tiles = wr_linear_slice_tiles(k_tiles * WR_TILE_COLS), groups = p->groups * p->cluster;
    int64_t rounds = ceil_div(ceil_div(k_tiles, slice_tiles), groups);
    int64_t steps = rounds * slice_tiles < k_tiles ? rounds * slice_tiles : k_tiles;
    int64_t exchange = (groups > 1 ? EXCHANGE : 0) + (p->cluster > 1 ? REMOTE : 0);
    int64_t tile = steps * step + EPILOGUE * p->tokens + exchange;
    int64_t tiles = token_tiles * ceil_div(n, 64 * p->halves);
    int64_t all = ceil_div(tiles, clusters_at_once(p->cluster, n_sm)) * tile + FILL;
    int64_t floor = weights * ceil_div(n, WR_TILE_ROWS) * k_tiles * tile_bytes / ((int64_t)MEMORY * n_sm);
    return (all > floor ? all : floor) + all / 16; /* of two that memory bounds, the less busy one */
}

/* Three stages of weights or more, else fewer stages of tokens. */
static bool stages_that_fit(wr_prefill_plan *p, size_t tile_bytes, size_t room) {
    int fewest = p->tokens == 128 ? 3 : 2;
    p->chunk = WR_PREFILL_CHUNK_OF(tile_bytes);
    for (p->stages = WR_PREFILL_STAGES; p->stages >= fewest; p->stages--)
        for (p->weight_stages = WR_PREFILL_WEIGHT_STAGES; p->weight_stages >= (p->stages > fewest ? 3 : 2);
             p->weight_stages--)
            if (layout_of(p, tile_bytes).end <= room) return true;
    return false;
}

/* token_tiles: the most there may be. */
static bool complete(wr_prefill_plan *p, int64_t token_tiles, int64_t n, int kind, const wr_cuda_traits *traits) {
    size_t tile_bytes = (size_t)wr_linear_tile_bytes(kind);
    if (!stages_that_fit(p, tile_bytes, traits->shared_bytes)) return false;
    p->shared_bytes = layout_of(p, tile_bytes).end;
    int64_t tiles = token_tiles * ceil_div(n, 64 * p->halves);
    int64_t clusters = clusters_at_once(p->cluster, traits->n_sm);
    p->threads = 128 * (p->halves * p->groups + 1);
    p->blocks = (tiles < clusters ? tiles : clusters) * p->cluster;
    return tiles <= INT32_MAX && clusters > 0;
}

/* Tiles of m rows that belong to so many experts, evenly spread; and the most there may be, ids out of range counting
 * as one more expert. */
static int64_t expected_tiles(int64_t m, int64_t experts, int tokens) {
    if (experts == 0) return ceil_div(m, tokens);
    return (m < experts ? m : experts) * ceil_div(ceil_div(m, experts), tokens);
}
static int64_t most_tiles(int64_t m, int64_t experts, int tokens) {
    int64_t tiles = m / tokens + experts + 1;
    return tiles < m ? tiles : m;
}

/* Tiles of 16 tokens and clusters are for rows that were the decode tiers'; more rows have tiles enough. */
enum { FEW_ROWS = 32 };

/* m rows by n weight rows, k tiles of 64 columns; experts 0: no gathering. */
typedef struct problem {
    int64_t m, experts, n, k_tiles, slices;
    int kind;
    const wr_cuda_traits *traits;
} problem;

static void consider(const problem *want, wr_prefill_plan p, int64_t *best, wr_prefill_plan *plan) {
    int64_t m = want->m, experts = want->experts;
    int64_t most = experts ? most_tiles(m, experts, p.tokens) : ceil_div(m, p.tokens);
    if ((int64_t)p.groups * p.cluster > want->slices || !complete(&p, most, want->n, want->kind, want->traits)) return;
    int64_t rows = experts ? ceil_div(m, experts) : m, tiles = expected_tiles(m, experts, p.tokens);
    int64_t cycles =
        cycles_of(&p, rows, tiles, experts ? experts : 1, want->n, want->k_tiles, want->kind, want->traits->n_sm);
    if (cycles > *best || (cycles == *best && p.groups <= plan->groups)) return; /* more groups, more on its way */
    *best = cycles;
    *plan = p;
}

static bool choose(int64_t m, int64_t experts, int64_t n, int64_t k_tiles, int kind, const wr_cuda_traits *traits,
                   wr_prefill_plan *plan) {
    int64_t best = INT64_MAX;
    if (!traits || !traits->hopper || traits->n_sm < 1 || kind >= WR_KIND_COUNT) return false;
    if (m < 1 || n < 1 || k_tiles < 1 || m > INT32_MAX || n > INT32_MAX || k_tiles > INT32_MAX / 64) return false;
    int64_t slices = ceil_div(k_tiles, wr_linear_slice_tiles(k_tiles * WR_TILE_COLS));
    problem want = {m, experts, n, k_tiles, slices, kind, traits};
    bool few = !experts && m <= FEW_ROWS;
    int most_blocks = few ? WR_PREFILL_CLUSTER : 1;
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        wr_prefill_plan p = {.tokens = widths[w].tokens};
        if (!built(kind, p.tokens) || (p.tokens < 32 && !few)) continue;
        for (p.cluster = 1; p.cluster <= most_blocks; p.cluster *= 2)
            for (p.halves = 1; p.halves <= widths[w].warpgroups; p.halves++)
                for (p.groups = 1; p.groups * p.halves <= widths[w].warpgroups; p.groups++)
                    consider(&want, p, &best, plan);
    }
    return best != INT64_MAX;
}

bool wr_linear_prefill_choose(int64_t m, int64_t n, int64_t k_tiles, int kind, const wr_cuda_traits *traits,
                              wr_prefill_plan *plan) {
    return choose(m, 0, n, k_tiles, kind, traits, plan);
}

bool wr_linear_prefill_shape(int tokens, int halves, int groups, int cluster, int64_t m, int64_t n, int kind,
                             const wr_cuda_traits *traits, wr_prefill_plan *plan) {
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        if (widths[w].tokens != tokens || halves * groups > widths[w].warpgroups || !built(kind, tokens)) continue;
        *plan = (wr_prefill_plan){.tokens = tokens, .halves = halves, .groups = groups, .cluster = cluster};
        return complete(plan, ceil_div(m, tokens), n, kind, traits);
    }
    return false;
}

/* ---- the rows ---- */

static bool gathers(const wr_step *step) { return step->op == WR_OP_GATHER_LINEAR; }

static bool plan_of(const wr_step *step, wr_prefill_plan *plan) {
    const wr_linear_args *a = step->args;
    int64_t m = wr_linear_rows_of_x(step);
    return choose(m, gathers(step) ? a->experts : 0, a->rows, wr_linear_k_tiles(a->cols), wr_linear_kind(a),
                  wr_step_traits(step), plan);
}

/* Are m rows the decode tiers'? Where rows fill most of a block's memory, only the lean one is fast. */
static bool for_decode(const wr_step *step, int64_t m) {
    const wr_linear_args *a = step->args;
    if (!built(wr_linear_kind(a), 16)) return m < WR_PREFILL_MIN_ROWS;
    wr_decode_shape shape;
    wr_lean_plan lean;
    wr_linear_decode_shape(step, m, &shape);
    if (wr_linear_lean_plan(&shape, 0, &lean)) return true;
    return m < WR_PREFILL_MIN_NARROW && 2 * m * shape.k_tiles * WR_TILE_COLS * 2 <= (int64_t)shape.shared_bytes;
}

bool wr_linear_prefill_fits(const wr_step *step) {
    const wr_linear_args *a = step->args;
    wr_prefill_plan plan;
    return !gathers(step) && a->packed && !for_decode(step, wr_linear_rows_of_x(step)) && plan_of(step, &plan);
}

static int64_t padded(int64_t m) { return ceil_div(m, WR_PREFILL_ATOM) * WR_PREFILL_ATOM; }

size_t wr_linear_prefill_prepared_bytes(const wr_step *step) {
    const wr_linear_args *a = step->args;
    return (size_t)(padded(wr_linear_rows_of_x(step)) * wr_linear_k_tiles(a->cols)) * 128;
}

/* Into p->out; jobs, max_jobs, m_pad and job_tokens are the caller's. */
static weir_status launch_prepare(const wr_step *step, wr_prefill_prepare_params *p, wr_launcher *launcher,
                                  weir_error *err) {
    const wr_linear_args *a = step->args;
    p->x = step->in[0].data;
    p->m = wr_linear_rows_of_x(step);
    p->cols = a->cols;
    p->k_tiles = (int32_t)wr_linear_k_tiles(a->cols);
    p->dtype = (int32_t)step->in[0].dtype;
    wr_launch_spec spec = {.kernel = "wr_linear_prefill_prepare",
                           .blocks = p->m_pad,
                           .threads = WR_PREFILL_PREPARE_THREADS,
                           .params = p,
                           .params_bytes = sizeof *p};
    return wr_launch(launcher, &spec, err);
}
weir_status wr_linear_prefill_launch_prepare(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    wr_prefill_prepare_params p = {.out = step->scratch, .m_pad = padded(wr_linear_rows_of_x(step))};
    return launch_prepare(step, &p, launcher, err);
}

/* x, m_pad and jobs are in p. */
static weir_status launch_tiles(const wr_step *step, const wr_prefill_plan *plan, wr_prefill_params *p,
                                wr_launcher *launcher, weir_error *err) {
    const wr_linear_args *a = step->args;
    int kind = wr_linear_kind(a);
    layout at = layout_of(plan, (size_t)wr_linear_tile_bytes(kind));
    p->w = step->in[wr_linear_first_weight(step)].data;
    p->y = step->out.data;
    p->addend = step->op == WR_OP_LINEAR_ADD ? step->in[1].data : NULL;
    p->m = wr_linear_rows_of_x(step);
    p->n = a->rows;
    p->unscale = wr_linear_kind_unscale(kind);
    p->global_scale = a->quant.mode == WEIR_QUANT_NVFP4 ? a->global_scale : 1;
    p->dtype = (int32_t)step->out.dtype;
    p->n_row_tiles = (int32_t)wr_linear_row_tiles(a->rows);
    p->k_tiles = (int32_t)wr_linear_k_tiles(a->cols);
    p->slices = (int32_t)wr_linear_slices(a->cols);
    p->slice_tiles = (int32_t)wr_linear_slice_tiles(a->cols);
    p->tile_bytes = (int32_t)wr_linear_tile_bytes(kind);
    p->expert_bytes = (int64_t)p->n_row_tiles * p->k_tiles * p->tile_bytes;
    p->halves = plan->halves;
    p->groups = plan->groups;
    p->cluster = plan->cluster;
    p->stages = plan->stages;
    p->weight_stages = plan->weight_stages;
    p->chunk = plan->chunk;
    p->at_weights = (int32_t)at.weights;
    p->at_turn = (int32_t)at.turn;
    p->at_sums = (int32_t)at.sums;
    p->at_bars = (int32_t)at.bars;
    char name[64];
    snprintf(name, sizeof name, "wr_linear_prefill_%s_%d", wr_linear_kind_name(kind), plan->tokens);
    wr_launch_spec spec = {.kernel = name,
                           .blocks = plan->blocks,
                           .cluster = plan->cluster,
                           .threads = plan->threads,
                           .shared_bytes = plan->shared_bytes,
                           .params = p,
                           .params_bytes = sizeof *p};
    return wr_launch(launcher, &spec, err);
}

static weir_status no_plan(const wr_step *step, weir_error *err) {
    const wr_linear_args *a = step->args;
    return WR_FAIL(err, WEIR_E_STATE, "linear of %lld rows by %lld x %lld x %lld weights: no tile fits",
                   (long long)wr_linear_rows_of_x(step), (long long)a->experts, (long long)a->rows, (long long)a->cols);
}

weir_status wr_linear_prefill_launch_plan(const wr_step *step, const wr_prefill_plan *plan, wr_launcher *launcher,
                                          weir_error *err) {
    wr_prefill_params p = {.x = step->prepared, .m_pad = padded(wr_linear_rows_of_x(step))};
    return launch_tiles(step, plan, &p, launcher, err);
}
weir_status wr_linear_prefill_launch(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    wr_prefill_plan plan;
    if (!plan_of(step, &plan)) return no_plan(step, err);
    return wr_linear_prefill_launch_plan(step, &plan, launcher, err);
}

/* ---- experts: rows sorted by expert (kernels/linear_gather.cu), each job a token tile ---- */

bool wr_gather_prefill_fits(const wr_step *step) {
    const wr_linear_args *a = step->args;
    wr_prefill_plan plan;
    int64_t m = wr_linear_rows_of_x(step);
    return gathers(step) && a->packed && a->experts >= 1 && a->experts <= WR_SORT_MAX_EXPERTS &&
           m >= WR_PREFILL_MIN_ROWS && m / a->experts >= WR_PREFILL_MIN_EXPERT_ROWS && plan_of(step, &plan);
}

/* Scratch: the jobs, then the prepared activations, every job with room for a whole tile. */
typedef struct gather_layout {
    int64_t max_jobs, m_pad;
    size_t x, end;
} gather_layout;
static gather_layout gather_layout_of(const wr_step *step, const wr_prefill_plan *plan) {
    const wr_linear_args *a = step->args;
    int64_t m = wr_linear_rows_of_x(step);
    gather_layout at = {.max_jobs = most_tiles(m, a->experts, plan->tokens)};
    size_t jobs = sizeof(wr_linear_jobs) + (size_t)at.max_jobs * sizeof(wr_linear_job) + (size_t)m * 4;
    at.m_pad = at.max_jobs * plan->tokens;
    at.x = (jobs + 127) / 128 * 128;
    at.end = at.x + (size_t)(at.m_pad * wr_linear_k_tiles(a->cols)) * 128;
    return at;
}
size_t wr_gather_prefill_scratch_bytes(const wr_step *step, int n_threads) {
    (void)n_threads;
    wr_prefill_plan plan;
    return plan_of(step, &plan) ? gather_layout_of(step, &plan).end : 0;
}

weir_status wr_gather_prefill_launch(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    const wr_linear_args *a = step->args;
    wr_prefill_plan plan;
    if (!plan_of(step, &plan)) return no_plan(step, err);
    gather_layout at = gather_layout_of(step, &plan);
    void *x = (char *)step->scratch + at.x;
    wr_linear_sort_params sort = {.ids = step->in[1].data,
                                  .jobs = step->scratch,
                                  .rows = wr_linear_rows_of_x(step),
                                  .max_jobs = at.max_jobs,
                                  .experts = (int32_t)a->experts,
                                  .most = plan.tokens};
    wr_launch_spec spec = {.kernel = "wr_linear_sort",
                           .blocks = 1,
                           .threads = WR_SORT_THREADS,
                           .shared_bytes = (size_t)(a->experts + 1) * 4,
                           .params = &sort,
                           .params_bytes = sizeof sort};
    WR_TRY(wr_launch(launcher, &spec, err));
    wr_prefill_prepare_params prepared = {
        .out = x, .jobs = sort.jobs, .max_jobs = at.max_jobs, .m_pad = at.m_pad, .job_tokens = plan.tokens};
    WR_TRY(launch_prepare(step, &prepared, launcher, err));
    wr_prefill_params p = {.x = x, .m_pad = at.m_pad, .jobs = sort.jobs, .max_jobs = at.max_jobs};
    return launch_tiles(step, &plan, &p, launcher, err);
}
