/* Owns the engine's programs. The body (embedding to last layer) and the head
 * (final norm to logits) are compiled once for each of a fixed list of row counts
 * when the engine opens; a step picks the smallest that holds its rows and fills
 * the rest with padding rows. Nothing else of a step is fixed: tokens, positions,
 * sequences and block tables are data. */
#include <string.h>

#include "engine/internal.h"

/* 1, 2, 3, 4, 6, 8, 12, 16, ...: at most a third of a step is padding. */
static void fill_rows(wr_buckets *b, int64_t max_rows) {
    b->n = 0;
    for (int64_t n = 1; n < max_rows && b->n < WR_MAX_BUCKETS - 1;) {
        b->rows[b->n++] = n;
        bool power = (n & (n - 1)) == 0;
        n = n == 1 ? 2 : power ? n + n / 2 : n + n / 3;
    }
    b->rows[b->n++] = max_rows;
}

int wr_bucket_for(const wr_buckets *b, int64_t n) {
    int i = 0;
    while (i < b->n - 1 && b->rows[i] < n) i++;
    return i;
}

static weir_array *i32_leaf(weir_graph *g, int64_t n, wr_buffer *buffer) {
    return wr_leaf(g, WEIR_DTYPE_I32, 1, &n, NULL, 0, buffer);
}

static weir_array *build_body(weir_engine *e, weir_graph *g, int64_t rows, weir_array **leaves) {
    const wr_hyper *h = &e->model->hyper;
    wr_step_inputs in = {.tokens = i32_leaf(g, rows, e->tokens),
                         .row_seq = i32_leaf(g, rows, e->row_seq),
                         .row_pos = i32_leaf(g, rows, e->row_pos),
                         .k_pages = leaves,
                         .v_pages = leaves + h->n_layers};
    for (int i = 0; i < e->kv.n_groups; i++)
        in.block_table[i] =
            wr_leaf(g, WEIR_DTYPE_I32, 2, (int64_t[]){e->kv.max_batch, e->kv.max_pages}, NULL, 0, e->kv.group[i].table);
    for (int64_t i = 0; i < h->n_layers; i++) {
        int64_t n_pages = e->kv.group[h->layer_kv_group[i]].n_pages;
        int64_t shape[] = {n_pages, WR_PAGE_TOKENS, h->n_kv_heads, h->head_dim};
        in.k_pages[i] = wr_leaf(g, e->options.kv_dtype, 4, shape, NULL, 0, e->kv.keys[i]);
        in.v_pages[i] = wr_leaf(g, e->options.kv_dtype, 4, shape, NULL, 0, e->kv.values[i]);
    }
    return e->model->family->body(e->model, &in);
}

static weir_array *build_head(weir_engine *e, weir_graph *g, int64_t rows, weir_array **leaves) {
    (void)leaves;
    int64_t shape[] = {rows, e->model->hyper.hidden};
    return wr_model_head(e->model, wr_leaf(g, WEIR_DTYPE_F32, 2, shape, NULL, 0, e->head_in));
}

typedef weir_array *(*build_fn)(weir_engine *, weir_graph *, int64_t, weir_array **);

/* program NULL: only the arena's size. */
static weir_status compile(weir_engine *e, build_fn build, int64_t rows, wr_program **program, size_t *arena_bytes,
                           weir_error *err) {
    weir_graph *graph = NULL;
    weir_status st;
    wr_program_options options = {.reference = e->options.reference, .arena = e->arena, .arena_bytes = e->arena_bytes};
    weir_array **leaves = wr_calloc((size_t)e->model->hyper.n_layers * 2, sizeof *leaves);
    if (!leaves) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a step program of %lld rows", (long long)rows);
    WR_TRY_GOTO(st, weir_graph_new(e->device, &graph, err), done);
    weir_array *out = build(e, graph, rows, leaves);
    st = program ? wr_program_new(&out, 1, &options, program, err)
                 : wr_program_plan(&out, 1, &options, arena_bytes, err);
done:
    weir_graph_free(graph);
    wr_free(leaves);
    return st;
}

static weir_status compile_all(weir_engine *e, build_fn build, wr_buckets *b, weir_error *err) {
    for (int i = 0; i < b->n; i++) WR_TRY(compile(e, build, b->rows[i], &b->program[i], NULL, err));
    return WEIR_OK;
}

/* The largest arena that any bucket needs. Not always the largest bucket: kernels for fewer rows may want more scratch.
 */
static weir_status plan_all(weir_engine *e, build_fn build, const wr_buckets *b, size_t *most, weir_error *err) {
    for (int i = 0; i < b->n; i++) {
        size_t bytes;
        WR_TRY(compile(e, build, b->rows[i], NULL, &bytes, err));
        if (bytes > *most) *most = bytes;
    }
    return WEIR_OK;
}

weir_status wr_engine_programs_new(weir_engine *e, weir_error *err) {
    fill_rows(&e->body, e->options.max_step_tokens);
    fill_rows(&e->head, e->head_rows);
    size_t bytes = 0;
    WR_TRY(plan_all(e, build_body, &e->body, &bytes, err));
    WR_TRY(plan_all(e, build_head, &e->head, &bytes, err));
    e->arena = wr_pages_alloc(bytes);
    if (!e->arena)
        return WR_FAIL(err, WEIR_E_MEMORY, "no memory for %zu bytes of activations; lower max_step_tokens", bytes);
    e->arena_bytes = bytes;
    WR_TRY(compile_all(e, build_body, &e->body, err));
    return compile_all(e, build_head, &e->head, err);
}

void wr_engine_programs_free(weir_engine *e) {
    for (int i = 0; i < e->body.n; i++) wr_program_free(e->body.program[i]);
    for (int i = 0; i < e->head.n; i++) wr_program_free(e->head.program[i]);
    e->body.n = e->head.n = 0;
    if (e->arena) wr_pages_free(e->arena, e->arena_bytes);
    e->arena = NULL;
}
