/* Linear layers: which kernel serves a step, and how its work is cut. Choices look at shapes and the card only, and
 * never change bits (kernels/linear.h says what y is); tests force each of them. */
#include <stdio.h>

#include "base/dtype.h"
#include "base/mem.h"
#include "cuda/linear_plan.h"
#include "cuda/linear_prefill.h"

static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t elements(const wr_tensor *t, int n_dims) {
    int64_t n = 1;
    for (int d = 0; d < n_dims; d++) n *= t->shape[d];
    return n;
}
int wr_linear_number_type(weir_dtype dtype) {
    return dtype == WEIR_DTYPE_F32 ? WR_NUM_F32 : dtype == WEIR_DTYPE_BF16 ? WR_NUM_BF16 : WR_NUM_F16;
}
int wr_linear_first_weight(const wr_step *step) {
    switch (step->op) {
    case WR_OP_DEQUANTIZE: return 0;
    case WR_OP_LINEAR_ADD:
    case WR_OP_NORM_LINEAR:
    case WR_OP_GATHER_LINEAR: return 2;
    default: return 1;
    }
}

int64_t wr_linear_rows_of_x(const wr_step *step) { return elements(&step->in[0], step->in[0].n_dims - 1); }

void wr_linear_params_of(const wr_step *step, int first, wr_linear_params *out) {
    const wr_linear_args *a = step->args;
    weir_quant q = wr_linear_quant(a->quant);
    int kind = a->packed ? wr_linear_kind(a) : WR_KIND_COUNT;
    *out = (wr_linear_params){
        .x = step->in[0].data,
        .y = step->out.data,
        .w = step->in[first].data,
        .scales = step->n_in > first + 1 ? step->in[first + 1].data : NULL,
        .biases = step->n_in > first + 2 ? step->in[first + 2].data : NULL,
        .addend = step->op == WR_OP_LINEAR_ADD ? step->in[1].data : NULL,
        .ids = step->op == WR_OP_GATHER_LINEAR ? step->in[1].data : NULL,
        .half = a->gate ? a->rows / 2 : 0,
        .gelu = a->gate == WR_OP_GELU_TANH,
        .m = wr_linear_rows_of_x(step),
        .n = a->rows,
        .k = a->cols,
        .experts = a->experts,
        .row_tiles = wr_linear_row_tiles(a->rows),
        .k_tiles = wr_linear_k_tiles(a->cols),
        .slices = (int32_t)wr_linear_slices(a->cols),
        .slice_tiles = (int32_t)wr_linear_slice_tiles(a->cols),
        .kind = kind,
        .tile_bits = kind < WR_KIND_COUNT ? wr_linear_kind_bits(kind) : 0,
        .tile_code = kind < WR_KIND_COUNT ? wr_linear_kind_code(kind) : 0,
        .tile_scales = kind < WR_KIND_COUNT ? wr_linear_kind_scales(kind) : 0,
        .tile_offset = kind < WR_KIND_COUNT ? wr_linear_kind_offset(kind) : 0,
        .x_type = wr_linear_number_type(step->in[0].dtype),
        .y_type = wr_linear_number_type(step->out.dtype),
        .unscale = 1,
        .global_scale = q.mode == WEIR_QUANT_NVFP4 ? a->global_scale : 1,
        .mode = (int32_t)q.mode,
        .bits = q.bits,
        .group = q.group_size,
        .weight_type = wr_linear_number_type(a->weight_dtype),
        .block_bytes = (int32_t)wr_quant_block_bytes(q.mode),
    };
}

/* ---- the plan of the decode tiers ---- */

/* Most threads of the kernels for 8 and 16 rows (0: there is none for 16), and tiles read ahead. */
static const int16_t built[WR_KIND_COUNT][3] = {
#define ROW(name, ahead, threads8, threads16) [WR_KIND_##name] = {threads8, threads16, ahead},
    WR_LINEAR_KINDS_OF_MODELS(ROW)
#undef ROW
#define ROW(name, threads8) [WR_KIND_##name] = {threads8, 0, 2},
        WR_LINEAR_KINDS_MORE(ROW)
#undef ROW
};

/* 8, 16 or 32: the narrowest kernel that takes m rows. */
static int width_for(int kind, int64_t m) {
    if (m <= 8) return 8;
    return m <= 16 && built[kind][1] ? 16 : 32;
}
static int most_threads(int kind, int width) { return width == 32 ? 256 : built[kind][width / 16]; }

/* Shared memory of a block: x, and the sums of two row groups when slices are added there. */
static int64_t shared_of(const wr_decode_shape *s, const wr_decode_plan *p) {
    int64_t cols = (p->chunks > 1 ? (int64_t)p->chunk_slices * s->slice_tiles : s->k_tiles) * WR_TILE_COLS;
    int64_t x = (s->m * (cols + 8) * 2 + 127) / 128 * 128;
    int64_t sums = p->chunks > 1 ? 0 : 2ll * p->group_tiles * s->slices * (p->width / 8) * 8 * 20 * 4;
    return x + sums;
}

/* Bytes that the busiest multiprocessor moves, those through L2 alone counting less, with a handicap for too few warps
 * to keep the memory busy. The weights are fitted by eye to the trial kernels' times; only the order of plans matters.
 */
static double cost_of(const wr_decode_shape *s, const wr_decode_plan *p, int64_t resident_blocks) {
    int64_t groups = ceil_div(s->row_tiles, p->group_tiles), streams = p->blocks / p->chunks;
    int64_t rounds = ceil_div(groups, streams), busy = ceil_div(p->blocks, s->n_sm), warps = p->threads / 32;
    double units = (double)(busy * rounds * warps * ceil_div((int64_t)p->group_tiles * p->chunk_slices, warps));
    double weights = units * (double)(s->slice_tiles * s->tile_bytes);
    /* 64 KB on their way keep a multiprocessor's share of the memory busy (its latency times its bandwidth). */
    int64_t resident_warps = (busy < resident_blocks ? busy : resident_blocks) * warps;
    double few = 64e3 / (double)(resident_warps * built[s->kind][2] * s->tile_bytes);
    int64_t x_cols = (p->chunks > 1 ? p->chunk_slices * s->slice_tiles : s->k_tiles) * WR_TILE_COLS;
    double l2 = (double)(busy * s->m * x_cols * 2);
    if (p->chunks > 1) l2 += units * (double)s->m * WR_TILE_ROWS * 4 * 2;
    double per_warp = (double)(rounds * ceil_div((int64_t)p->group_tiles * p->chunk_slices, warps));
    double spread = p->chunks > 1 ? 40e3 * per_warp : 0;
    return weights * (few > 1 ? few : 1) + 0.3 * l2 + spread;
}

static void consider(const wr_decode_shape *s, wr_decode_plan p, double *best, wr_decode_plan *out) {
    int64_t warps = p.threads / 32, groups = ceil_div(s->row_tiles, p.group_tiles);
    int64_t resident = (most_threads(s->kind, p.width) == 384 ? 24 : 16) / warps;
    p.shared_bytes = (size_t)shared_of(s, &p);
    if (p.shared_bytes > s->shared_bytes || resident < 1) return;
    int64_t by_shared = (int64_t)((s->shared_bytes + 1024) / (p.shared_bytes + 1024));
    if (by_shared < resident) resident = by_shared;
    /* fewer blocks than fit may share the rounds better */
    for (int64_t per_sm = resident; per_sm >= 1; per_sm--) {
        int64_t streams = per_sm * s->n_sm / p.chunks;
        if (streams < 1) streams = 1;
        p.blocks = (streams < groups ? streams : groups) * p.chunks;
        double cost = cost_of(s, &p, resident);
        if (cost >= *best) continue;
        *best = cost;
        *out = p;
    }
}

bool wr_linear_decode_plan(const wr_decode_shape *s, wr_decode_plan *out) {
    if (s->kind >= WR_KIND_COUNT || s->m < 1 || s->m > 32 || s->row_tiles < 1 || s->slices < 1) return false;
    if (s->row_tiles > INT32_MAX / 2 || s->k_tiles > INT32_MAX / 64 || s->n_sm < 1) return false;
    double best = 1e300;
    wr_decode_plan p = {.width = width_for(s->kind, s->m)};
    int most_warps = most_threads(s->kind, p.width) / 32;
    for (int warps = 4; warps <= most_warps && !s->force_spread; warps++) { /* direct */
        p.threads = 32 * warps;
        p.chunks = 1;
        p.chunk_slices = s->slices;
        p.group_tiles = warps > s->slices ? warps / s->slices : 1;
        consider(s, p, &best, out);
    }
    bool may_spread = s->slices > 1 && s->row_tiles <= WR_SPREAD_ROW_TILES && !s->force_direct;
    for (int chunk = 1; chunk <= 4 && chunk < s->slices && may_spread; chunk *= 2)
        for (int tiles = 1; tiles * chunk <= most_warps; tiles++) {
            if (tiles * chunk < 4) continue;
            p.threads = 32 * tiles * chunk;
            p.chunk_slices = chunk;
            p.chunks = (int)ceil_div(s->slices, chunk);
            p.group_tiles = tiles;
            consider(s, p, &best, out);
        }
    return best < 1e300;
}

void wr_linear_decode_shape(const wr_step *step, int64_t m, wr_decode_shape *out) {
    const wr_linear_args *a = step->args;
    const wr_cuda_traits *traits = wr_step_traits(step);
    int kind = a->packed ? wr_linear_kind(a) : WR_KIND_COUNT;
    *out = (wr_decode_shape){.kind = kind,
                             .m = m,
                             .row_tiles = wr_linear_row_tiles(a->rows),
                             .k_tiles = wr_linear_k_tiles(a->cols),
                             .slices = (int)wr_linear_slices(a->cols),
                             .slice_tiles = (int)wr_linear_slice_tiles(a->cols),
                             .tile_bytes = kind < WR_KIND_COUNT ? wr_linear_tile_bytes(kind) : 0,
                             .n_sm = traits->n_sm,
                             .clusters = traits->hopper,
                             .shared_bytes = traits->shared_bytes};
}

/* ---- LINEAR, LINEAR_ADD ---- */

enum { MOST_ROWS = 32 };

static bool decode_plan_of(const wr_step *step, int64_t m, wr_decode_plan *plan) {
    wr_decode_shape shape;
    wr_linear_decode_shape(step, m, &shape);
    return wr_linear_decode_plan(&shape, plan);
}
/* Any number of rows, in chunks of 32. */
static bool decode_fits(const wr_step *step) {
    wr_decode_plan plan;
    int64_t m = wr_linear_rows_of_x(step), rest = m % MOST_ROWS;
    return (m < MOST_ROWS || decode_plan_of(step, MOST_ROWS, &plan)) &&
           (rest == 0 || decode_plan_of(step, rest, &plan));
}
static size_t decode_scratch(const wr_step *step, int n_threads) {
    (void)n_threads;
    const wr_linear_args *a = step->args;
    wr_decode_plan plan;
    int64_t m = wr_linear_rows_of_x(step), most = 0;
    for (int i = 0; i < 2; i++) {
        int64_t rows = i == 0 ? (m < MOST_ROWS ? m : MOST_ROWS) : m % MOST_ROWS;
        if (rows > most && decode_plan_of(step, rows, &plan) && plan.chunks > 1) most = rows;
    }
    return (size_t)(wr_linear_row_tiles(a->rows) * wr_linear_slices(a->cols) * most * WR_TILE_ROWS * 4);
}

static weir_status launch_decode(wr_linear_params *p, const wr_decode_plan *plan, int64_t blocks, wr_launcher *launcher,
                                 weir_error *err) {
    char name[64];
    snprintf(name, sizeof(name), "wr_linear_%s_%d", wr_linear_kind_name(p->kind), plan->width);
    p->group_tiles = plan->group_tiles;
    p->chunk_slices = plan->chunk_slices;
    p->chunks = plan->chunks;
    p->units = plan->group_tiles * plan->chunk_slices;
    p->groups = (int32_t)ceil_div(p->row_tiles, plan->group_tiles);
    p->warps = plan->threads / 32;
    p->stride = (int32_t)(p->ids ? p->job_blocks : blocks / plan->chunks);
    p->unscale = wr_linear_kind_unscale(p->kind);
    wr_launch_spec spec = {.kernel = name,
                           .blocks = blocks,
                           .threads = plan->threads,
                           .shared_bytes = plan->shared_bytes,
                           .all_shared = true,
                           .params = p,
                           .params_bytes = sizeof(*p)};
    return wr_launch(launcher, &spec, err);
}

weir_status wr_linear_decode_launch(const wr_step *step, const wr_decode_plan *forced, wr_launcher *launcher,
                                    weir_error *err) {
    wr_linear_params all;
    wr_linear_params_of(step, wr_linear_first_weight(step), &all);
    for (int64_t first = 0; first < all.m; first += MOST_ROWS) {
        wr_linear_params p = all;
        wr_decode_plan plan;
        p.m = all.m - first < MOST_ROWS ? all.m - first : MOST_ROWS;
        p.x = (const char *)all.x + first * all.k * (int64_t)weir_dtype_bytes(step->in[0].dtype);
        int64_t y_offset = first * all.n * (int64_t)weir_dtype_bytes(step->out.dtype);
        p.y = (char *)all.y + y_offset;
        if (all.addend) p.addend = (const char *)all.addend + y_offset;
        p.partials = step->scratch;
        bool done = false;
        if (!forced) WR_TRY(wr_linear_lean_launch(step, &p, &done, launcher, err));
        if (done) continue;
        if (forced)
            plan = *forced;
        else if (!decode_plan_of(step, p.m, &plan))
            return WR_FAIL(err, WEIR_E_STATE, "linear: no plan for %lld rows by %lld x %lld weights", (long long)p.m,
                           (long long)all.n, (long long)all.k);
        WR_TRY(launch_decode(&p, &plan, plan.blocks, launcher, err));
    }
    return WEIR_OK;
}
static weir_status decode_launch(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    return wr_linear_decode_launch(step, NULL, launcher, err);
}

/* ---- the references ---- */

enum { REF_THREADS = 128, BLOCKS_MOST = 1 << 20 };

static int64_t blocks_for(int64_t items, int64_t per_block) {
    int64_t blocks = ceil_div(items, per_block);
    return blocks < BLOCKS_MOST ? blocks : BLOCKS_MOST;
}
static bool f32_fits(const wr_step *step) {
    const wr_linear_args *a = step->args;
    return !a->packed && a->quant.mode == WEIR_QUANT_NONE && a->weight_dtype == WEIR_DTYPE_F32;
}
static weir_status ref_launch(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    wr_linear_params p;
    wr_linear_params_of(step, wr_linear_first_weight(step), &p);
    bool f32 = f32_fits(step);
    int64_t m_tiles = p.ids ? p.m : ceil_div(p.m, 8), n_tiles = f32 ? p.n : p.row_tiles;
    wr_launch_spec spec = {.kernel = f32 ? "wr_linear_f32" : "wr_linear_ref",
                           .blocks = blocks_for(m_tiles * n_tiles, REF_THREADS / 32),
                           .threads = REF_THREADS,
                           .params = &p,
                           .params_bytes = sizeof(p)};
    return wr_launch(launcher, &spec, err);
}

static weir_status gated_ref_launch(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    wr_linear_params p;
    wr_linear_params_of(step, wr_linear_first_weight(step), &p);
    bool f32 = f32_fits(step);
    int64_t n_tiles = f32 ? p.half : ceil_div(p.half, WR_TILE_ROWS);
    wr_launch_spec spec = {.kernel = f32 ? "wr_linear_gated_f32" : "wr_linear_gated_ref",
                           .blocks = blocks_for(ceil_div(p.m, 8) * n_tiles, REF_THREADS / 32),
                           .threads = REF_THREADS,
                           .params = &p,
                           .params_bytes = sizeof(p)};
    return wr_launch(launcher, &spec, err);
}

/* NORM_LINEAR's: the norm into scratch, then the reference of what is left. */
static size_t normed_ref_scratch(const wr_step *step, int n_threads) {
    const wr_linear_args *a = step->args;
    (void)n_threads;
    return (size_t)(wr_linear_rows_of_x(step) * a->cols) * weir_dtype_bytes(a->norm_dtype);
}
static weir_status normed_ref_launch(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    const wr_linear_args *a = step->args;
    wr_norm_args of = {.eps = a->norm_eps, .weight_offset = a->norm_offset, .out_dtype = a->norm_dtype};
    wr_step norm = {.op = WR_OP_RMS_NORM, .args = &of, .out = step->in[0], .n_in = 2, .in = step->in};
    norm.out.data = step->scratch;
    norm.out.dtype = a->norm_dtype;
    WR_TRY(wr_cuda_norm_rows(WR_OP_RMS_NORM)[0].launch(&norm, launcher, err));
    wr_tensor in[4] = {norm.out};
    for (int i = 2; i < step->n_in; i++) in[i - 1] = step->in[i];
    wr_step rest = *step;
    rest.op = a->gate ? WR_OP_LINEAR_GATED : WR_OP_LINEAR;
    rest.in = in;
    rest.n_in = step->n_in - 1;
    return a->gate ? gated_ref_launch(&rest, launcher, err) : ref_launch(&rest, launcher, err);
}

/* ---- GATHER_LINEAR ---- */

enum { FEW_ROWS = 64 }; /* up to so many, each row reads its expert by itself */

/* Rows of a job: what the average expert gets, rounded up to a kernel's width, as far as x fits in shared memory. */
static bool gather_plan_of(const wr_step *step, int64_t *rows_of_job, wr_decode_plan *plan) {
    const wr_linear_args *a = step->args;
    int64_t rows = wr_linear_rows_of_x(step), average = a->experts > 0 ? ceil_div(rows, a->experts) : 0;
    wr_decode_shape shape;
    for (int64_t most = rows <= FEW_ROWS ? 1 : average <= 8 ? 8 : average <= 16 ? 16 : 32; most >= 1; most /= 2) {
        wr_linear_decode_shape(step, most, &shape);
        shape.force_direct = true;
        *rows_of_job = most;
        if (wr_linear_decode_plan(&shape, plan)) return true;
    }
    return false;
}
static int64_t most_jobs(const wr_step *step, int64_t rows_of_job) {
    const wr_linear_args *a = step->args;
    int64_t rows = wr_linear_rows_of_x(step), jobs = rows / rows_of_job + a->experts + 1;
    return jobs < rows ? jobs : rows;
}
static bool gather_fits(const wr_step *step) {
    const wr_linear_args *a = step->args;
    wr_decode_plan plan;
    int64_t most, rows = wr_linear_rows_of_x(step);
    return rows > 0 && gather_plan_of(step, &most, &plan) &&
           (rows <= FEW_ROWS || (a->experts <= WR_SORT_MAX_EXPERTS && rows < INT32_MAX));
}
static size_t gather_scratch(const wr_step *step, int n_threads) {
    (void)n_threads;
    int64_t most = 1, rows = wr_linear_rows_of_x(step);
    wr_decode_plan plan;
    if (rows <= FEW_ROWS || !gather_plan_of(step, &most, &plan)) return 0;
    return sizeof(wr_linear_jobs) + (size_t)most_jobs(step, most) * sizeof(wr_linear_job) + (size_t)rows * 4;
}
/* Brings rows of one expert together as jobs of at most `most` rows, in the step's scratch. */
static weir_status launch_sort(const wr_step *step, int64_t most, wr_linear_params *p, wr_launcher *launcher,
                               weir_error *err) {
    wr_linear_sort_params sort = {.ids = p->ids,
                                  .jobs = step->scratch,
                                  .rows = p->m,
                                  .max_jobs = most_jobs(step, most),
                                  .experts = (int32_t)p->experts,
                                  .most = (int32_t)most};
    wr_launch_spec spec = {.kernel = "wr_linear_sort",
                           .blocks = 1,
                           .threads = WR_SORT_THREADS,
                           .shared_bytes = (size_t)(p->experts + 1) * 4,
                           .params = &sort,
                           .params_bytes = sizeof(sort)};
    p->jobs = sort.jobs;
    p->max_jobs = sort.max_jobs;
    return wr_launch(launcher, &spec, err);
}

static weir_status gather_launch(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    wr_linear_params p;
    wr_decode_plan plan;
    int64_t most;
    wr_linear_params_of(step, wr_linear_first_weight(step), &p);
    if (!gather_plan_of(step, &most, &plan))
        return WR_FAIL(err, WEIR_E_STATE, "gather_linear: no plan for %lld x %lld weights", (long long)p.n,
                       (long long)p.k);
    if (p.m > FEW_ROWS) WR_TRY(launch_sort(step, most, &p, launcher, err));
    int64_t jobs = p.jobs ? p.max_jobs : p.m;
    bool done = false;
    WR_TRY(wr_linear_lean_gather_launch(step, &p, most, jobs, &done, launcher, err));
    if (done) return WEIR_OK;
    /* Enough blocks a job that all multiprocessors are busy, and no more than the job has row groups. */
    int64_t busy = wr_step_traits(step)->n_sm * 3ll, groups = ceil_div(p.row_tiles, plan.group_tiles);
    int64_t share = ceil_div(busy, jobs);
    if (p.jobs && share < 8) share = 8; /* most of the possible jobs do not exist */
    p.job_blocks = (int32_t)(share < groups ? share : groups);
    return launch_decode(&p, &plan, jobs * p.job_blocks, launcher, err);
}

/* ---- EMBEDDING, DEQUANTIZE ---- */

static weir_status numbers_launch(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    wr_linear_params p;
    wr_linear_params_of(step, wr_linear_first_weight(step), &p);
    bool embedding = step->op == WR_OP_EMBEDDING;
    p.ids = embedding ? step->in[0].data : NULL;
    p.m = embedding ? elements(&step->in[0], step->in[0].n_dims) : p.experts * p.n;
    wr_launch_spec spec = {.kernel = embedding ? "wr_embedding_rows" : "wr_dequantize",
                           .blocks = blocks_for(p.m * p.k, 256),
                           .threads = 256,
                           .params = &p,
                           .params_bytes = sizeof(p)};
    return wr_launch(launcher, &spec, err);
}

/* ---- QUANTIZE_* ---- */

static weir_status quantize_launch(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    const wr_quantize_args *a = step->args;
    wr_quantize_params p = {.w = step->in[0].data,
                            .out = step->out.data,
                            .groups = elements(&step->in[0], step->in[0].n_dims) / a->quant.group_size,
                            .type = wr_linear_number_type(step->in[0].dtype),
                            .mode = (int32_t)a->quant.mode,
                            .bits = a->quant.bits,
                            .group = a->quant.group_size,
                            .part = step->op == WR_OP_QUANTIZE_WEIGHT   ? WR_QUANTIZE_WEIGHT
                                    : step->op == WR_OP_QUANTIZE_SCALES ? WR_QUANTIZE_SCALES
                                                                        : WR_QUANTIZE_BIASES};
    wr_launch_spec spec = {.kernel = "wr_quantize",
                           .blocks = blocks_for(p.groups, 64),
                           .threads = 64,
                           .params = &p,
                           .params_bytes = sizeof(p)};
    return wr_launch(launcher, &spec, err);
}

/* ---- the table ---- */

/* first_weight: the input where the weight's parts begin, three at most. */
#define PACK_ROW(first_weight)                                                                                         \
    {                                                                                                                  \
        .name = "pack", .fits = wr_linear_pack_fits, .scratch_bytes = wr_linear_pack_scratch_bytes,                    \
        .launch = wr_linear_pack_launch, .prepare_launch = wr_linear_pack_launch_prepare,                              \
        .prepare_inputs = 7u << (first_weight), .prepare_bytes = wr_linear_pack_prepared_bytes,                        \
        .prepare_by_args = true                                                                                        \
    }
#define LINEAR_ROWS(first_weight)                                                                                      \
    {                                                                                                                  \
        {.name = "prefill",                                                                                            \
         .fits = wr_linear_prefill_fits,                                                                               \
         .launch = wr_linear_prefill_launch,                                                                           \
         .prepare_launch = wr_linear_prefill_launch_prepare,                                                           \
         .prepare_inputs = 1u << 0,                                                                                    \
         .prepare_bytes = wr_linear_prefill_prepared_bytes},                                                           \
            {.name = "decode", .fits = decode_fits, .scratch_bytes = decode_scratch, .launch = decode_launch},         \
            PACK_ROW(first_weight), {.name = "f32", .fits = f32_fits, .launch = ref_launch},                           \
            {.name = "ref", .launch = ref_launch}, {                                                                   \
            0                                                                                                          \
        }                                                                                                              \
    }

const wr_kernel_row *wr_cuda_linear_rows(wr_op_id op) {
    static const wr_kernel_row linear[] = LINEAR_ROWS(1), linear_add[] = LINEAR_ROWS(2);
    static const wr_kernel_row gated[] = {
        {.name = "lean", .fits = wr_linear_gated_fits, .launch = wr_linear_fused_launch},
        {.name = "ref", .launch = gated_ref_launch},
        {0}};
    static const wr_kernel_row normed[] = {
        {.name = "lean", .fits = wr_linear_normed_fits, .launch = wr_linear_fused_launch},
        {.name = "ref", .launch = normed_ref_launch, .scratch_bytes = normed_ref_scratch},
        {0}};
    static const wr_kernel_row gather[] = {
        {.name = "prefill",
         .fits = wr_gather_prefill_fits,
         .scratch_bytes = wr_gather_prefill_scratch_bytes,
         .launch = wr_gather_prefill_launch},
        {.name = "decode", .fits = gather_fits, .scratch_bytes = gather_scratch, .launch = gather_launch},
        PACK_ROW(2),
        {.name = "f32", .fits = f32_fits, .launch = ref_launch},
        {.name = "ref", .launch = ref_launch},
        {0}};
    static const wr_kernel_row numbers[] = {{.name = "ref", .launch = numbers_launch}, {0}};
    static const wr_kernel_row quantize[] = {{.name = "ref", .launch = quantize_launch}, {0}};
    switch (op) {
    case WR_OP_LINEAR: return linear;
    case WR_OP_LINEAR_ADD: return linear_add;
    case WR_OP_LINEAR_GATED: return gated;
    case WR_OP_NORM_LINEAR: return normed;
    case WR_OP_GATHER_LINEAR: return gather;
    case WR_OP_EMBEDDING:
    case WR_OP_DEQUANTIZE: return numbers;
    case WR_OP_QUANTIZE_WEIGHT:
    case WR_OP_QUANTIZE_SCALES:
    case WR_OP_QUANTIZE_BIASES: return quantize;
    default: return NULL;
    }
}
