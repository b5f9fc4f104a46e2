/* Sorts and top-k on the device: passes over rows of items (kernels/sort.cu). */
#include "base/dtype.h"
#include "cuda/kernels/sort.h"
#include "cuda/rows.h"

/* Scratch that one pass over some of the rows may take; one row may take more. */
static const int64_t SCRATCH_BYTES = 256 << 20;

/* False when there is nothing to write. */
static bool sort_params(const wr_step *step, wr_sort_params *p) {
    const wr_tensor *x = &step->in[0], *out = &step->out;
    const wr_axis_args *args = step->args;
    bool top = step->op == WR_OP_TOP_K || step->op == WR_OP_ARG_TOP_K;
    *p = (wr_sort_params){.x = x->data, .out = out->data, .dtype = (int32_t)x->dtype};
    p->descending = top || args->descending;
    p->wants_index = step->op == WR_OP_ARGSORT || step->op == WR_OP_ARG_TOP_K;
    p->k = out->shape[args->axis], p->out_stride = out->strides[args->axis];
    wr_rows_split(x, 1u << args->axis, out, &p->rows, p->out_kept);
    p->n = p->rows.n, p->n_rows = p->rows.rows;
    return p->rows.rows > 0 && p->k > 0;
}

static bool is_wide(const wr_sort_params *p) { return weir_dtype_bytes((weir_dtype)p->dtype) == 8; }

/* Rows of a pass, when a row takes so many bytes. */
static int64_t rows_of_pass(const wr_sort_params *p, int64_t row_bytes) {
    int64_t rows = row_bytes > 0 ? SCRATCH_BYTES / row_bytes : p->rows.rows;
    if (rows < 1) rows = 1;
    return rows < p->rows.rows ? rows : p->rows.rows;
}

/* ---- merge sort ---- */

static int64_t merge_row_bytes(const wr_sort_params *p) {
    return p->n > WR_SORT_TILE ? 2 * p->n * (is_wide(p) ? WR_SORT_WIDE_BYTES : WR_SORT_NARROW_BYTES) : 0;
}
static size_t merge_scratch(const wr_step *step, int n_threads) {
    (void)n_threads;
    wr_sort_params p;
    if (!sort_params(step, &p)) return 0;
    return (size_t)(rows_of_pass(&p, merge_row_bytes(&p)) * merge_row_bytes(&p));
}

static weir_status merge_pass(wr_sort_params p, char *scratch, wr_launcher *launcher, weir_error *err) {
    bool wide = is_wide(&p);
    int64_t half = p.n_rows * merge_row_bytes(&p) / 2;
    p.tile = WR_SORT_TILE, p.tiles = wr_rows_chunks(p.n, WR_SORT_TILE), p.n_to = p.n;
    p.to = p.tiles > 1 ? scratch : NULL;
    WR_TRY(wr_rows_launch(launcher, wide ? "wr_sort_tiles_wide" : "wr_sort_tiles_narrow", p.n_rows * p.tiles, 1, &p,
                          sizeof p, err));
    if (p.tiles == 1) return WEIR_OK;
    p.from = scratch, p.to = scratch + half;
    for (p.width = WR_SORT_TILE; p.width < p.n; p.width *= 2) {
        WR_TRY(wr_rows_launch(launcher, wide ? "wr_sort_merge_wide" : "wr_sort_merge_narrow", p.n_rows * p.n,
                              WR_REDUCE_THREADS, &p, sizeof p, err));
        void *spare = p.from == scratch ? scratch : scratch + half;
        p.from = p.to, p.to = spare;
    }
    return wr_rows_launch(launcher, wide ? "wr_sort_emit_wide" : "wr_sort_emit_narrow", p.n_rows * p.k,
                          WR_REDUCE_THREADS, &p, sizeof p, err);
}

/* Short rows: a warp each, whether all is wanted or the first k. */
static bool short_fits(const wr_step *step) {
    wr_sort_params p;
    return sort_params(step, &p) && p.n <= WR_SORT_WARP && !is_wide(&p);
}
static weir_status launch_short(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    wr_sort_params p;
    if (!sort_params(step, &p)) return WEIR_OK;
    p.tile = WR_SORT_WARP, p.tiles = 1;
    return wr_rows_launch(launcher, "wr_sort_warp_narrow", p.n_rows, WR_REDUCE_THREADS / 32, &p, sizeof p, err);
}

static weir_status launch_merge(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    wr_sort_params p;
    if (!sort_params(step, &p)) return WEIR_OK;
    int64_t each = rows_of_pass(&p, merge_row_bytes(&p));
    for (p.first_row = 0; p.first_row < p.rows.rows; p.first_row += each) {
        p.n_rows = p.rows.rows - p.first_row < each ? p.rows.rows - p.first_row : each;
        WR_TRY(merge_pass(p, step->scratch, launcher, err));
    }
    return WEIR_OK;
}

/* ---- top-k: tiles keep their first k ---- */

static bool top_k_fits(const wr_step *step) {
    const wr_axis_args *args = step->args;
    bool top = step->op == WR_OP_TOP_K || step->op == WR_OP_ARG_TOP_K;
    return top && args->k <= WR_TOP_K_MOST && weir_dtype_bytes(step->in[0].dtype) <= 4;
}

static int64_t top_k_tile(const wr_sort_params *p) {
    return p->k <= WR_TOP_K_SMALL / 4 ? WR_TOP_K_SMALL : WR_TOP_K_TILE;
}
/* Items that a row of n leaves after one round; 0 when the round is the last. */
static int64_t top_k_left(const wr_sort_params *p, int64_t n) {
    int64_t tiles = wr_rows_chunks(n, top_k_tile(p));
    return tiles > 1 ? tiles * p->k : 0;
}
static int64_t top_k_row_bytes(const wr_sort_params *p) {
    int64_t first = top_k_left(p, p->n);
    return (first + top_k_left(p, first)) * WR_SORT_NARROW_BYTES;
}
static size_t top_k_scratch(const wr_step *step, int n_threads) {
    (void)n_threads;
    wr_sort_params p;
    if (!sort_params(step, &p)) return 0;
    return (size_t)(rows_of_pass(&p, top_k_row_bytes(&p)) * top_k_row_bytes(&p));
}

static weir_status launch_top_k(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    wr_sort_params p;
    if (!sort_params(step, &p)) return WEIR_OK;
    int64_t each = rows_of_pass(&p, top_k_row_bytes(&p)), n = p.n;
    p.tile = top_k_tile(&p);
    for (p.first_row = 0; p.first_row < p.rows.rows; p.first_row += each) {
        p.n_rows = p.rows.rows - p.first_row < each ? p.rows.rows - p.first_row : each;
        char *first = step->scratch, *second = first + p.n_rows * top_k_left(&p, n) * WR_SORT_NARROW_BYTES;
        p.n = n, p.from = NULL;
        for (bool odd = false;; odd = !odd) {
            p.tiles = wr_rows_chunks(p.n, p.tile), p.n_to = top_k_left(&p, p.n);
            p.to = p.n_to ? (odd ? second : first) : NULL;
            WR_TRY(wr_rows_launch(launcher, "wr_top_k_tiles", p.n_rows * p.tiles, 1, &p, sizeof p, err));
            if (!p.n_to) break;
            p.n = p.n_to, p.from = p.to;
        }
    }
    return WEIR_OK;
}

static weir_status launch_reference(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    wr_sort_params p;
    if (!sort_params(step, &p)) return WEIR_OK;
    return wr_rows_launch(launcher, "wr_sort_ref", p.rows.rows * p.n, WR_REDUCE_THREADS, &p, sizeof p, err);
}

const wr_kernel_row *wr_cuda_sort_rows(wr_op_id op) {
    static const wr_kernel_row rows[] = {
        {.name = "short", .fits = short_fits, .launch = launch_short},
        {.name = "top_k", .fits = top_k_fits, .launch = launch_top_k, .scratch_bytes = top_k_scratch},
        {.name = "merge", .launch = launch_merge, .scratch_bytes = merge_scratch},
        {.name = "ref", .launch = launch_reference},
        {0},
    };
    return op == WR_OP_SORT || op == WR_OP_ARGSORT || op == WR_OP_TOP_K || op == WR_OP_ARG_TOP_K ? rows : NULL;
}
