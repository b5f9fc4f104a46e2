/* LINEAR with many rows on sm_90a: prepares the activations once for all weights that read them, then launches
 * kernels/linear_prefill.cu with the tile shape that a model of its time prefers. */
#include "cuda/linear_prefill.h"

#include <stdio.h>

#include "cuda/kernels/linear_prefill.h"
#include "cuda/linear.h"

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/* ---- the choice ---- */

/* The shapes that the kernels are built for: tokens, and the most warpgroups (registers decide). */
static const struct { int tokens, warpgroups; } widths[] = {{128, 2}, {64, 3}, {32, 4}};

static bool built(int kind, int tokens) {
    switch (kind) {
#define WR_PREFILL_CASE(name) case WR_KIND_##name:
        WR_PREFILL_ALL_WIDTHS(WR_PREFILL_CASE) return true;
        WR_PREFILL_TWO_WIDTHS(WR_PREFILL_CASE) return tokens != 64;
        WR_PREFILL_ONE_WIDTH(WR_PREFILL_CASE) return tokens == 128;
#undef WR_PREFILL_CASE
    default: return false;
    }
}

/* Byte offsets of a block's shared memory: activations, weights, the turning of outputs, sums of slices, barriers. */
typedef struct layout {
    size_t weights, turn, sums, bars, end;
} layout;
static layout layout_of(const wr_prefill_plan *p, size_t tile_bytes) {
    layout at;
    size_t tokens = (size_t)p->tokens, halves = (size_t)p->halves, stages = (size_t)(p->stages * p->groups);
    size_t others = ((size_t)p->groups - 1) * halves;
    at.weights = stages * tokens * 128;
    at.turn = at.weights + stages * 4 * halves * tile_bytes;
    at.sums = at.turn + halves * WR_PREFILL_CHUNK * WR_PREFILL_PITCH * sizeof(float);
    at.bars = at.sums + others * 64 * tokens * sizeof(float);
    at.end = at.bars + 8 * (2 * stages + 2 * others);
    return at;
}

/* Instructions that a warp spends on a k tile: counted in the machine code of the kernels, rounded. */
static int issue_of(int kind) {
    int code = wr_linear_kind_code(kind), bits = wr_linear_kind_bits(kind);
    switch (wr_linear_kind_scales(kind)) {
    case WR_SC_NONE: return code == WR_CODE_F16 ? 150 : 60;
    case WR_SC_BF16_64:
    case WR_SC_BF16_32: return bits == 4 ? 95 : 120;
    case WR_SC_E8M0:
    case WR_SC_E5M3: return 120;
    default: return 220;
    }
}

/* Clock cycles of the whole launch by a simple model: per k tile the slowest of tensor cores, issue slots, bytes into
 * the multiprocessor and the latency of one warpgroup's chain; per tile a filling of the ring and an epilogue; tiles in
 * waves over the multiprocessors; never faster than memory. */
static int64_t cycles_of(const wr_prefill_plan *p, int64_t m, int64_t n, int64_t k_tiles, int kind, int n_sm) {
    enum { TENSOR = 2, BYTES = 40, CHAIN = 260, FILL = 1500, EPILOGUE = 8, MEMORY = 20 };
    int64_t tile_bytes = wr_linear_tile_bytes(kind);
    int64_t step = TENSOR * p->halves * p->tokens, other = (int64_t)issue_of(kind) * p->halves;
    if (other > step) step = other;
    other = (p->tokens * 128 + 4 * p->halves * tile_bytes) / BYTES;
    if (other > step) step = other;
    other = CHAIN / p->groups;
    if (other > step) step = other;
    step += (int64_t)issue_of(kind) * p->halves / 8; /* what does not overlap */
    int64_t tiles = ceil_div(m, p->tokens) * ceil_div(n, 64 * p->halves);
    int64_t all = ceil_div(tiles, n_sm) * (k_tiles * step + EPILOGUE * p->tokens) + FILL;
    int64_t floor = ceil_div(n, WR_TILE_ROWS) * k_tiles * tile_bytes / ((int64_t)MEMORY * n_sm);
    return all > floor ? all : floor;
}

static bool complete(wr_prefill_plan *p, int64_t m, int64_t n, int kind, const wr_cuda_traits *traits) {
    size_t tile_bytes = (size_t)wr_linear_tile_bytes(kind);
    for (p->stages = WR_PREFILL_STAGES / p->groups; p->stages > 2; p->stages--) {
        p->shared_bytes = layout_of(p, tile_bytes).end;
        if (p->shared_bytes <= traits->shared_bytes) break;
    }
    int64_t tiles = ceil_div(m, p->tokens) * ceil_div(n, 64 * p->halves);
    p->threads = 128 * (p->halves * p->groups + 1);
    p->blocks = tiles < traits->n_sm ? tiles : traits->n_sm;
    return p->stages > 2 && tiles <= INT32_MAX;
}

bool wr_linear_prefill_choose(int64_t m, int64_t n, int64_t k_tiles, int kind, const wr_cuda_traits *traits,
                              wr_prefill_plan *plan) {
    int64_t best = INT64_MAX;
    if (!traits || !traits->hopper || traits->n_sm < 1 || kind >= WR_KIND_COUNT) return false;
    if (m < 1 || n < 1 || k_tiles < 1 || m > INT32_MAX || n > INT32_MAX || k_tiles > INT32_MAX / 64) return false;
    int64_t slices = ceil_div(k_tiles, wr_linear_slice_tiles(k_tiles * WR_TILE_COLS));
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        if (!built(kind, widths[w].tokens)) continue;
        for (int halves = 1; halves <= widths[w].warpgroups; halves++) {
            for (int groups = 1; groups * halves <= widths[w].warpgroups && groups <= slices; groups++) {
                wr_prefill_plan p = {.tokens = widths[w].tokens, .halves = halves, .groups = groups};
                if (!complete(&p, m, n, kind, traits)) continue;
                int64_t cycles = cycles_of(&p, m, n, k_tiles, kind, traits->n_sm);
                if (cycles >= best) continue;
                best = cycles;
                *plan = p;
            }
        }
    }
    return best != INT64_MAX;
}

bool wr_linear_prefill_shape(int tokens, int halves, int groups, int64_t m, int64_t n, int kind,
                             const wr_cuda_traits *traits, wr_prefill_plan *plan) {
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
        if (widths[w].tokens != tokens || halves * groups > widths[w].warpgroups || !built(kind, tokens)) continue;
        *plan = (wr_prefill_plan){.tokens = tokens, .halves = halves, .groups = groups};
        return complete(plan, m, n, kind, traits);
    }
    return false;
}

/* ---- the row ---- */

/* Rows of x: all of its axes but the last. */
static int64_t rows_of(const wr_step *step) {
    int64_t m = 1;
    for (int d = 0; d < step->in[0].n_dims - 1; d++) m *= step->in[0].shape[d];
    return m;
}
static bool plan_of(const wr_step *step, wr_prefill_plan *plan) {
    const wr_linear_args *a = step->args;
    return wr_linear_prefill_choose(rows_of(step), a->rows, wr_linear_k_tiles(a->cols), wr_linear_kind(a),
                                    wr_step_traits(step), plan);
}

static bool fits(const wr_step *step) {
    const wr_linear_args *a = step->args;
    wr_prefill_plan plan;
    return step->op == WR_OP_LINEAR && a->packed && rows_of(step) >= WR_PREFILL_MIN_ROWS && plan_of(step, &plan);
}

static int64_t padded(int64_t m) { return ceil_div(m, WR_PREFILL_ATOM) * WR_PREFILL_ATOM; }

static size_t prepare_bytes(const wr_step *step) {
    const wr_linear_args *a = step->args;
    return (size_t)(padded(rows_of(step)) * wr_linear_k_tiles(a->cols)) * 128;
}

static weir_status prepare(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    const wr_linear_args *a = step->args;
    int64_t m = rows_of(step);
    wr_prefill_prepare_params p = {.x = step->in[0].data,
                                   .out = step->scratch,
                                   .m = m,
                                   .m_pad = padded(m),
                                   .cols = a->cols,
                                   .k_tiles = (int32_t)wr_linear_k_tiles(a->cols),
                                   .dtype = (int32_t)step->in[0].dtype};
    wr_launch_spec spec = {.kernel = "wr_linear_prefill_prepare",
                           .blocks = p.m_pad,
                           .threads = WR_PREFILL_PREPARE_THREADS,
                           .params = &p,
                           .params_bytes = sizeof p};
    return wr_launch(launcher, &spec, err);
}

weir_status wr_linear_prefill_launch(const wr_step *step, const wr_prefill_plan *plan, wr_launcher *launcher,
                                     weir_error *err) {
    const wr_linear_args *a = step->args;
    int kind = wr_linear_kind(a);
    layout at = layout_of(plan, (size_t)wr_linear_tile_bytes(kind));
    int64_t m = rows_of(step);
    wr_prefill_params p = {.w = step->in[1].data,
                           .x = step->prepared,
                           .y = step->out.data,
                           .m = m,
                           .m_pad = padded(m),
                           .n = a->rows,
                           .unscale = wr_linear_kind_unscale(kind),
                           .global_scale = a->global_scale,
                           .dtype = (int32_t)step->out.dtype,
                           .n_row_tiles = (int32_t)wr_linear_row_tiles(a->rows),
                           .k_tiles = (int32_t)wr_linear_k_tiles(a->cols),
                           .slices = (int32_t)wr_linear_slices(a->rows, a->cols),
                           .slice_tiles = (int32_t)wr_linear_slice_tiles(a->cols),
                           .tile_bytes = (int32_t)wr_linear_tile_bytes(kind),
                           .halves = plan->halves,
                           .groups = plan->groups,
                           .stages = plan->stages,
                           .at_weights = (int32_t)at.weights,
                           .at_turn = (int32_t)at.turn,
                           .at_sums = (int32_t)at.sums,
                           .at_bars = (int32_t)at.bars};
    char name[64];
    snprintf(name, sizeof name, "wr_linear_prefill_%s_%d", wr_linear_kind_name(kind), plan->tokens);
    wr_launch_spec spec = {.kernel = name,
                           .blocks = plan->blocks,
                           .threads = plan->threads,
                           .shared_bytes = plan->shared_bytes,
                           .params = &p,
                           .params_bytes = sizeof p};
    return wr_launch(launcher, &spec, err);
}

static weir_status launch(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    const wr_linear_args *a = step->args;
    wr_prefill_plan plan;
    if (!plan_of(step, &plan))
        return WR_FAIL(err, WEIR_E_STATE, "linear of %lld rows by %lld x %lld weights: no tile fits",
                       (long long)rows_of(step), (long long)a->rows, (long long)a->cols);
    return wr_linear_prefill_launch(step, &plan, launcher, err);
}

const wr_kernel_row wr_cuda_linear_prefill_row = {.name = "prefill",
                                                  .fits = fits,
                                                  .launch = launch,
                                                  .prepare_launch = prepare,
                                                  .prepare_input = 0,
                                                  .prepare_bytes = prepare_bytes};
