/* Rows of PAGED_ATTENTION: the decode kernel with its schedule and, where there is one, the prefill kernel behind the
 * same schedule; then the reference kernels. ATTENTION over whole tensors is attention_dense.c. */
#include "cuda/attention.h"

#include <stdint.h>
#include <stdio.h>

enum {
    /* Keys and values on their way to a multiprocessor. With more, memory serves some multiprocessors so much later
     * than others that the last is done later: at 32k keys and 32 rows a tile 45.7 us with 96 KB, 46.4 with 128, 50.2
     * with 192; with 64 some wait. */
    IN_FLIGHT = 96 << 10,
    MIN_STAGES = 2,
    PARTIAL_BYTES_MAX = 64 << 20, /* room for parts of tiles; tiles that find none are done whole */
    MAX_ROWS = 1 << 20,           /* so that rows times heads of a group stay far below 2^31 */
    MAX_GROUP = 1024,
    MAX_TALL_ROWS = 32,
    MERGE_PER_SM = 8, /* blocks of the merge kernel a multiprocessor */
    ALIGN = 256,
};

/* The instances of attention_decode.cu: head sizes; of the kernels for 16 and 32 rows a tile, blocks a multiprocessor
 * (0: there is none) and shared memory beside the ring; bytes of a slot of the ring. */
typedef struct instance {
    const char *name;
    int head_dim, value_dim, per_sm[2];
    size_t rest[2], slot;
} instance;
#define INSTANCE(d, e, short_per_sm, tall_per_sm)                                                                      \
    { #d, d, e, {short_per_sm, tall_per_sm }, {WR_ATTN_REST(d, 1), WR_ATTN_REST(d, 2) }, WR_ATTN_SLOT(d, e) }
static const instance instances[] = {
    INSTANCE(64, 64, 2, 1),   INSTANCE(80, 80, 2, 1),   INSTANCE(96, 96, 2, 1),   INSTANCE(128, 128, 2, 1),
    INSTANCE(192, 128, 2, 1), INSTANCE(256, 256, 2, 1), INSTANCE(512, 512, 1, 0),
};
enum { N_INSTANCES = sizeof instances / sizeof instances[0] };

/* What one step launches. */
typedef struct plan {
    const instance *instance;
    int index, tall; /* tall: tiles of 32 rows */
    int group, block, stages;
    int merge_rows; /* query rows of a tile at most */
    bool merges;    /* there may be tiles for the merge kernel */
    int64_t blocks; /* grid */
    bool all_shared;
    int64_t max_tiles, max_items, max_partial_rows;
    size_t shared_bytes;
    /* Places in the prepared bytes. */
    size_t items, cuts, arrived, prefill, run_start, run_end, tiles, prepared_bytes;
} plan;

static int type_of(weir_dtype dtype) {
    return dtype == WEIR_DTYPE_F32 ? WR_ATTN_F32 : dtype == WEIR_DTYPE_BF16 ? WR_ATTN_BF16 : WR_ATTN_F16;
}

static bool is_float(weir_dtype dtype) {
    return dtype == WEIR_DTYPE_F32 || dtype == WEIR_DTYPE_BF16 || dtype == WEIR_DTYPE_F16;
}

/* Whether the tensor-core definition holds for the step (decode, prefill and reference kernels agree on it). */
static bool is_half(const wr_step *step) {
    const wr_attention_args *args = step->args;
    weir_dtype k = step->in[1].dtype;
    return k == step->in[2].dtype && (k == WEIR_DTYPE_BF16 || k == WEIR_DTYPE_F16) && args->scale > 0;
}

static int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }

/* Keys that a sequence can have. */
static int64_t keys_of(const wr_step *step) { return min_i64(step->in[3].shape[1] * step->in[1].shape[1], INT32_MAX); }

/* An upper bound of the spans of a tile, as attention.cuh cuts them. Rows of one tile lie close together; a window
 * shortens it, which is left out. */
static int64_t max_spans(int64_t n_keys, int block) {
    int64_t blocks = n_keys / block + 1;
    return blocks <= 4     ? blocks
           : blocks <= 32  ? 4 + (blocks - 4 + 1) / 2
           : blocks <= 64  ? 18 + (blocks - 32 + 3) / 4
           : blocks <= 512 ? 26 + (blocks - 64 + 7) / 8
                           : 82 + (blocks - 512 + 15) / 16;
}

/* Blocks a multiprocessor: as many as wanted if the ring of each has three slots; else fewer. A multiprocessor has 1 KB
 * more for each block than it lets the block have. */
static bool fit_ring(const instance *in, int tall, size_t shared_bytes, plan *out) {
    for (int per_sm = in->per_sm[tall]; per_sm >= 1; per_sm--) {
        size_t each = (shared_bytes + 1024) / (size_t)per_sm - 1024;
        if (each < in->rest[tall] + 2 * in->slot) continue;
        size_t stages = (each - in->rest[tall]) / in->slot;
        if (stages < 3 && per_sm > 1) continue;
        size_t most = IN_FLIGHT / in->slot / (size_t)per_sm;
        if (most < MIN_STAGES) most = MIN_STAGES;
        if (most > WR_ATTN_MAX_STAGES) most = WR_ATTN_MAX_STAGES;
        out->stages = (int)(stages < most ? stages : most);
        out->shared_bytes = in->rest[tall] + (size_t)out->stages * in->slot;
        out->all_shared = (size_t)per_sm * (out->shared_bytes + 1024) > (shared_bytes + 1024) * WR_SHARED_PERCENT / 100;
        out->blocks = per_sm;
        return true;
    }
    return false;
}

static size_t place(size_t *at, size_t bytes) {
    size_t here = *at;
    *at = (here + bytes + ALIGN - 1) / ALIGN * ALIGN;
    return here;
}

/* Of one query row and span. */
static int64_t part_bytes(const wr_step *step) {
    return (step->out.shape[2] + WR_ATTN_PART_EXTRA) * (int64_t)sizeof(float);
}

static bool make_plan(const wr_step *step, plan *out) {
    const wr_cuda_traits *traits = wr_step_traits(step);
    const wr_tensor *q = &step->in[0], *k = &step->in[1];
    int64_t rows = q->shape[0], heads = q->shape[1], kv_heads = k->shape[2];
    *out = (plan){.index = 0};
    for (int i = 0; i < N_INSTANCES && !out->instance; i++)
        if (instances[i].head_dim == q->shape[2] && instances[i].value_dim == step->out.shape[2])
            out->instance = &instances[i], out->index = i;
    if (!out->instance || rows < 1 || rows > MAX_ROWS || heads / kv_heads > MAX_GROUP || heads < 1) return false;
    out->group = (int)(heads / kv_heads);
    /* Tall tiles read keys once for the many rows of a verified run; steps of more rows are mostly those of many
     * sequences, whose tiles are low. */
    out->tall = rows <= MAX_TALL_ROWS && rows * out->group > 16 && out->instance->per_sm[1] > 0;
    out->block = WR_ATTN_BLOCK(out->instance->head_dim);
    if (out->tall && !fit_ring(out->instance, 1, traits->shared_bytes, out)) out->tall = 0;
    if (!out->tall && !fit_ring(out->instance, 0, traits->shared_bytes, out)) return false;
    out->blocks *= traits->n_sm;
    int tile_rows = out->tall ? 32 : 16;
    /* A run of n rows has at most ceil(n * group / tile_rows) tiles. */
    out->max_tiles = rows * ((out->group + tile_rows - 1) / tile_rows);
    int64_t spans = max_spans(keys_of(step), out->block), row_bytes = part_bytes(step);
    out->max_partial_rows = spans > 1 ? min_i64(rows * heads * spans, PARTIAL_BYTES_MAX / row_bytes) : 0;
    out->merge_rows = (int)min_i64(rows * out->group, tile_rows);
    int64_t units = out->merge_rows * out->instance->value_dim / 4;
    out->merges = out->max_partial_rows > 0 && (units > WR_ATTN_SMALL_UNITS || spans * units > WR_ATTN_SMALL_MERGE);
    /* As many as there may be pieces of work, but no second block on some multiprocessors only. */
    int64_t pieces = min_i64(out->max_tiles * spans * kv_heads, WR_ATTN_MAX_CHUNKS);
    out->blocks = pieces < out->blocks ? min_i64(pieces, traits->n_sm) : out->blocks;
    out->max_items = 2 * out->blocks + out->max_tiles * kv_heads;
    if (out->max_items > INT32_MAX) return false;
    size_t at = sizeof(wr_attn_schedule);
    at = (at + ALIGN - 1) / ALIGN * ALIGN;
    out->items = place(&at, (size_t)out->max_items * sizeof(wr_attn_item));
    out->cuts = place(&at, (size_t)out->blocks * sizeof(wr_attn_item));
    out->arrived = place(&at, (size_t)out->blocks * sizeof(uint32_t));
    out->prefill = place(&at, (size_t)rows * sizeof(wr_attn_prefill_item));
    out->run_start = place(&at, (size_t)rows * sizeof(int32_t));
    out->run_end = place(&at, (size_t)rows * sizeof(int32_t));
    out->tiles = place(&at, (size_t)out->max_tiles * sizeof(wr_attn_tile));
    /* Steps share a schedule when they read the same table and rows with the same arguments and ask for as many bytes:
     * the last terms make steps of other head sizes, groups or KV heads ask for other numbers. */
    out->prepared_bytes = at + 64 * (size_t)(out->group * 16 + out->index * 2 + out->tall) + (size_t)(kv_heads % 64);
    return true;
}

/* The table of the step, NULL: q is as it should be. */
static const wr_tensor *rope_of(const wr_step *step) {
    const wr_attention_args *args = step->args;
    return args->has_rope ? &step->in[6 + args->has_mask + args->has_sinks] : NULL;
}

static bool fast_fits(const wr_step *step) {
    plan unused;
    const wr_attention_args *args = step->args;
    const wr_tensor *rope = rope_of(step);
    if (args->has_mask) return false; /* only the reference kernels look at one */
    if (!args->tiled || (rope && rope->shape[2] % (args->interleaved ? 4 : 8))) return false;
    return is_half(step) && is_float(step->in[0].dtype) && is_float(step->out.dtype) &&
           step->in[1].shape[1] == WR_KV_TILE && step->in[1].shape[0] > 0 && step->in[1].shape[0] <= INT32_MAX &&
           step->in[3].shape[0] > 0 && step->in[3].shape[0] <= INT32_MAX && step->in[3].shape[1] > 0 &&
           step->in[3].shape[1] <= INT32_MAX && make_plan(step, &unused);
}

static size_t fast_prepare_bytes(const wr_step *step) {
    plan s;
    return make_plan(step, &s) ? s.prepared_bytes : 0;
}

static size_t fast_scratch_bytes(const wr_step *step, int n_threads) {
    plan s;
    (void)n_threads;
    if (!make_plan(step, &s)) return 0;
    /* The prefill kernel has ended when the decode kernel writes there. */
    size_t parts = (size_t)(s.max_partial_rows * part_bytes(step)), totals = wr_attn_prefill_scratch(step);
    return parts > totals ? parts : totals;
}

static weir_status fast_prepare(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    const wr_attention_args *args = step->args;
    char *base = step->scratch;
    plan s;
    if (!make_plan(step, &s)) return WR_FAIL(err, WEIR_E_ARGUMENT, "paged_attention: this step has no fast kernel");
    wr_attn_schedule_params params = {
        .table = step->in[3].data,
        .row_seq = step->in[4].data,
        .row_pos = step->in[5].data,
        .n_pages = step->in[1].shape[0],
        .max_pages = step->in[3].shape[1],
        .schedule = (wr_attn_schedule *)base,
        .items = (wr_attn_item *)(base + s.items),
        .prefill = (wr_attn_prefill_item *)(base + s.prefill),
        .cuts = (wr_attn_item *)(base + s.cuts),
        .arrived = (uint32_t *)(base + s.arrived),
        .run_start = (int32_t *)(base + s.run_start),
        .run_end = (int32_t *)(base + s.run_end),
        .tiles = (wr_attn_tile *)(base + s.tiles),
        .n_keys = keys_of(step),
        .window = args->window,
        .n_rows = (int32_t)step->in[0].shape[0],
        .n_seqs = (int32_t)step->in[3].shape[0],
        .kv_heads = (int32_t)step->in[1].shape[2],
        .group = s.group,
        .block = s.block,
        .prefill_tile = wr_attn_prefill_tile(step),
        .n_blocks = (int32_t)s.blocks,
        .tile_rows = s.tall ? 32 : 16,
        .max_tiles = (int32_t)s.max_tiles,
        .value_dim = (int32_t)step->out.shape[2],
        .max_partial_rows = (uint32_t)s.max_partial_rows,
    };
    wr_launch_spec spec = {.kernel = "wr_attn_schedule_kernel",
                           .blocks = 1,
                           .threads = WR_ATTN_SCHEDULE_THREADS,
                           .params = &params,
                           .params_bytes = sizeof params};
    return wr_launch(launcher, &spec, err);
}

/* What all kernels of the family want; the schedule's fields stay empty. */
static wr_attn_params params_of(const wr_step *step) {
    const wr_attention_args *args = step->args;
    const wr_tensor *q = &step->in[0], *k = &step->in[1], *v = &step->in[2];
    const wr_tensor *rope = rope_of(step), *mask = args->has_mask ? &step->in[6] : NULL;
    const float log2_e = 1.4426950408889634f;
    return (wr_attn_params){
        .q = q->data,
        .k = k->data,
        .v = v->data,
        .out = step->out.data,
        .q_row = q->strides[0],
        .q_head = q->strides[1],
        .rope = rope ? rope->data : NULL,
        .half = rope ? (int32_t)rope->shape[2] : 0,
        .interleaved = args->interleaved,
        .tiled = args->tiled,
        .k_columns = (int32_t)k->shape[3],
        .v_columns = (int32_t)v->shape[3],
        .table = step->in[3].data,
        .row_seq = step->in[4].data,
        .row_pos = step->in[5].data,
        .sinks = args->has_sinks ? step->in[6 + args->has_mask].data : NULL,
        .n_pages = k->shape[0],
        .max_pages = step->in[3].shape[1],
        .window = args->window,
        .page = (int32_t)k->shape[1],
        .n_rows = (int32_t)q->shape[0],
        .n_heads = (int32_t)q->shape[1],
        .kv_heads = (int32_t)k->shape[2],
        .group = (int32_t)(q->shape[1] / k->shape[2]),
        .head_dim = (int32_t)q->shape[2],
        .value_dim = (int32_t)step->out.shape[2],
        .n_seqs = (int32_t)step->in[3].shape[0],
        .q_type = type_of(q->dtype),
        .kv_type = type_of(k->dtype),
        .v_type = type_of(v->dtype),
        .out_type = type_of(step->out.dtype),
        .log2_factor = args->softcap > 0 ? log2_e : args->scale * log2_e,
        .softcap = args->softcap,
        .softcap_scale = args->softcap > 0 ? args->scale / args->softcap : 0,
        .scale = args->scale,
        .mask = !mask                ? NULL
                : mask->shape[2] > 0 ? mask->data
                                     : q->data, /* an empty one hides all and is not read */
        .mask_type = !mask                            ? 0
                     : mask->dtype == WEIR_DTYPE_BOOL ? WR_ATTN_BOOL
                                                      : type_of(mask->dtype),
        .mask_row = mask && mask->shape[0] != 1 ? mask->strides[0] : 0,
        .mask_head = mask && mask->shape[1] != 1 ? mask->strides[1] : 0,
        .mask_keys = mask ? mask->shape[2] : 0,
        .mask_factor = args->softcap > 0 || !(args->scale > 0) ? 1 : 1 / args->scale,
    };
}

/* Whether the decode kernel may move q and its table in eights. */
static bool q_is_aligned(const wr_step *step) {
    const wr_attention_args *args = step->args;
    const wr_tensor *q = &step->in[0], *rope = rope_of(step);
    if (q->dtype != step->in[1].dtype || (uintptr_t)q->data % 16 || q->strides[0] % 8 || q->strides[1] % 8)
        return false;
    return !rope || (!args->interleaved && (uintptr_t)rope->data % 16 == 0 && rope->shape[2] % 8 == 0);
}

static weir_status fast_launch(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    char *base = (char *)(uintptr_t)step->prepared, name[64];
    plan s;
    if (!make_plan(step, &s)) return WR_FAIL(err, WEIR_E_ARGUMENT, "paged_attention: this step has no fast kernel");
    wr_attn_params params = params_of(step);
    params.schedule = (wr_attn_schedule *)base;
    params.items = (wr_attn_item *)(base + s.items);
    params.prefill = (wr_attn_prefill_item *)(base + s.prefill);
    params.merge_rows = s.merge_rows;
    params.q_aligned = q_is_aligned(step);
    params.partial = step->scratch;
    params.cuts = (wr_attn_item *)(base + s.cuts);
    params.arrived = (uint32_t *)(base + s.arrived);
    params.stages = s.stages;
    if (wr_attn_prefill_tile(step) > 0) WR_TRY(wr_attn_prefill_launch(step, &params, launcher, err));
    snprintf(name, sizeof name, "wr_attn_decode_%s_%d_%s", s.instance->name, s.tall + 1,
             params.kv_type == WR_ATTN_BF16 ? "bf16" : "f16");
    wr_launch_spec spec = {.kernel = name,
                           .blocks = s.blocks,
                           .threads = WR_ATTN_DECODE_THREADS(s.tall + 1),
                           .shared_bytes = s.shared_bytes,
                           .all_shared = s.all_shared,
                           .params = &params,
                           .params_bytes = sizeof params};
    WR_TRY(wr_launch(launcher, &spec, err));
    if (!s.merges) return WEIR_OK;
    spec.kernel = "wr_attn_merge_kernel";
    /* No more than there may be cut tiles, one a decode block: a block reads its first tile before it knows how many
     * there are. */
    spec.blocks = min_i64(MERGE_PER_SM * (int64_t)wr_step_traits(step)->n_sm,
                          min_i64(s.blocks, s.max_tiles * params.kv_heads) * s.merge_rows *
                              WR_ATTN_MERGE_BLOCKS(params.value_dim));
    spec.threads = WR_ATTN_MERGE_THREADS;
    spec.shared_bytes = 0;
    spec.all_shared = false;
    return wr_launch(launcher, &spec, err);
}

enum { PLAIN_STATIC = 8 << 10 }; /* of shared memory, beside the query and the sums */
static size_t f32_shared(const wr_step *step) {
    return (size_t)(step->in[0].shape[2] + step->out.shape[2]) * sizeof(float);
}
static weir_status ref_launch(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    wr_attn_params params = params_of(step);
    bool half = is_half(step);
    const char *name = !half                            ? "wr_attn_ref_f32"
                       : params.kv_type == WR_ATTN_BF16 ? "wr_attn_ref_bf16"
                                                        : "wr_attn_ref_f16";
    int64_t units = step->in[0].shape[0] * step->in[0].shape[1];
    if (step->out.shape[2] == 0) return WEIR_OK;
    wr_launch_spec spec = {.kernel = name,
                           .blocks = min_i64(units, 1 << 16),
                           .threads = 32,
                           .shared_bytes = (size_t)(params.value_dim + 7) / 8 * 8 * sizeof(float) * 2,
                           .params = &params,
                           .params_bytes = sizeof params};
    return wr_launch(launcher, &spec, err);
}

/* Keys or values in f32, or of two types, or a scale that is not positive. */
static bool f32_fits(const wr_step *step) {
    return !is_half(step) && f32_shared(step) <= wr_step_traits(step)->shared_bytes - PLAIN_STATIC;
}
static weir_status f32_launch(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    wr_attn_params params = params_of(step);
    int64_t units = step->in[0].shape[0] * step->in[0].shape[1];
    if (step->out.shape[2] == 0) return WEIR_OK;
    wr_launch_spec spec = {.kernel = "wr_attn_f32",
                           .blocks = min_i64(units, 1 << 16),
                           .threads = 256,
                           .shared_bytes = f32_shared(step),
                           .params = &params,
                           .params_bytes = sizeof params};
    return wr_launch(launcher, &spec, err);
}

static const wr_kernel_row paged_rows[] = {
    {.name = "paged",
     .fits = fast_fits,
     .scratch_bytes = fast_scratch_bytes,
     .prepare_inputs = 1u << 3 | 1u << 4 | 1u << 5,
     .prepare_bytes = fast_prepare_bytes,
     .prepare_by_args = true,
     .prepare_launch = fast_prepare,
     .launch = fast_launch},
    {.name = "f32", .fits = f32_fits, .launch = f32_launch},
    {.name = "ref", .launch = ref_launch},
    {.name = NULL},
};

const wr_kernel_row *wr_cuda_attention_rows(wr_op_id op) {
    return op == WR_OP_PAGED_ATTENTION ? paged_rows : op == WR_OP_ATTENTION ? wr_cuda_dense_attention_rows() : NULL;
}
