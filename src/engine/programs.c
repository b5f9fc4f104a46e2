/* Owns the engine's programs. The body (embedding to last layer), the head (final norm to logits) and, on a device of
 * its own, both in one are compiled once for each of a fixed list of row counts when the engine opens; a step picks the
 * smallest that holds its rows and fills the rest with padding rows. Nothing else of a step is fixed: tokens,
 * positions, sequences and block tables are data. */
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

const wr_buckets *wr_buckets_for(const weir_engine *e, int64_t n) {
    return e->whole.n && n <= e->whole.rows[e->whole.n - 1] ? &e->whole : &e->body;
}

int wr_bucket_for(const wr_buckets *b, int64_t n) {
    int i = 0;
    while (i < b->n - 1 && b->rows[i] < n) i++;
    return i;
}

/* Part i of the step's rows: 0 tokens, 1 row_seq, 2 row_pos. */
static weir_array *row_input(const weir_engine *e, weir_graph *g, int64_t rows, int i) {
    size_t at = wr_at_rows(e, rows) + (size_t)(i * rows) * sizeof(int32_t);
    return wr_feed_leaf(&e->feed, g, WEIR_DTYPE_I32, 1, &rows, at);
}

/* A token r - head_rows stands for what row r of the step before was given, which the host has not seen yet: counted
 * from the end, as take does. */
static weir_array *resolved_tokens(const weir_engine *e, weir_graph *g, weir_array *tokens) {
    if (!e->sampled) return tokens;
    weir_array *given = wr_leaf(g, WEIR_DTYPE_I32, 1, &e->head_rows, &(int64_t){WR_SAMPLE_HEAD}, 0, e->sampled);
    return weir_select(weir_less(tokens, weir_scalar_i32(g, 0)), weir_take(given, tokens, 0), tokens);
}

/* A program under construction. */
typedef struct build {
    weir_engine *engine;
    weir_graph *graph;
    int64_t rows;        /* that it runs */
    weir_array **leaves; /* [2 n_layers]: pages of keys, then of values */
    weir_array *outputs[3];
    int n_outputs;
} build;

static weir_array *body(build *b) {
    weir_engine *e = b->engine;
    const wr_hyper *h = &e->model->hyper;
    wr_step_inputs in = {.tokens = resolved_tokens(e, b->graph, row_input(e, b->graph, b->rows, 0)),
                         .row_seq = row_input(e, b->graph, b->rows, 1),
                         .row_pos = row_input(e, b->graph, b->rows, 2),
                         .k_pages = b->leaves,
                         .v_pages = b->leaves + h->n_layers};
    int64_t table_shape[] = {e->kv.max_batch, e->kv.max_pages};
    for (int i = 0; i < e->kv.n_groups; i++)
        in.block_table[i] = wr_feed_leaf(&e->feed, b->graph, WEIR_DTYPE_I32, 2, table_shape,
                                         e->at_tables + (size_t)i * wr_kv_table_bytes(&e->kv));
    for (int64_t i = 0; i < h->n_layers; i++) {
        int64_t n_pages = e->kv.group[h->layer_kv_group[i]].n_pages;
        int64_t shape[] = {n_pages, WR_PAGE_TOKENS, h->n_kv_heads, wr_model_kv_columns(e->model)};
        in.k_pages[i] = wr_leaf(b->graph, e->options.kv_dtype, 4, shape, NULL, 0, e->kv.keys[i]);
        in.v_pages[i] = wr_leaf(b->graph, e->options.kv_dtype, 4, shape, NULL, 0, e->kv.values[i]);
    }
    return e->model->family->body(e->model, &in);
}

static weir_array *hidden_leaf(build *b) {
    weir_engine *e = b->engine;
    int64_t shape[] = {e->options.max_step_tokens, e->model->hyper.hidden};
    return wr_leaf(b->graph, WEIR_DTYPE_F32, 2, shape, NULL, 0, b->engine->hidden);
}

/* Outputs: logits; on a device also what was sampled: the first words of each row, which the next step reads too, and
 * all of it. */
static void add_head(build *b, weir_array *hidden) {
    weir_engine *e = b->engine;
    b->outputs[0] = wr_model_head(e->model, hidden);
    b->n_outputs = 1;
    if (!e->sampled) return;
    int64_t rows = b->outputs[0]->shape[0], vocab = e->model->hyper.vocab;
    int64_t table_bytes = (int64_t)(e->feed.bytes - e->at_samples);
    weir_array *table = wr_feed_leaf(&e->feed, b->graph, WEIR_DTYPE_U8, 1, &table_bytes, e->at_samples);
    weir_array *counts =
        wr_leaf(b->graph, WEIR_DTYPE_U32, 2, (int64_t[]){e->options.max_batch, vocab}, NULL, 0, e->counts);
    weir_array *all = wr_sample_tokens(b->outputs[0], table, counts, WR_SAMPLE_MAX_TOP);
    weir_array *first = weir_slice(all, (int64_t[]){0, 0}, (int64_t[]){rows, WR_SAMPLE_HEAD}, NULL);
    int64_t shape[] = {e->head_rows, WR_SAMPLE_HEAD};
    b->outputs[b->n_outputs++] = wr_store(wr_leaf(b->graph, WEIR_DTYPE_I32, 2, shape, NULL, 0, e->sampled), first);
    b->outputs[b->n_outputs++] = all;
}

static void build_body(build *b) {
    b->outputs[0] = wr_store(hidden_leaf(b), body(b));
    b->n_outputs = 1;
}

static void build_head(build *b) {
    const weir_engine *e = b->engine;
    add_head(b,
             weir_take(hidden_leaf(b), wr_feed_leaf(&e->feed, b->graph, WEIR_DTYPE_I32, 1, &b->rows, e->at_picks), 0));
}

static void build_whole(build *b) { add_head(b, body(b)); }

typedef void (*build_fn)(build *);

/* program NULL: only the arena's size. */
static weir_status compile(weir_engine *e, build_fn fill, int64_t rows, wr_program **program, size_t *arena_bytes,
                           weir_error *err) {
    weir_graph *graph = NULL;
    weir_status st;
    wr_program_options options = {.reference = e->options.reference, .arena = e->arena, .arena_bytes = e->arena_bytes};
    weir_array **leaves = wr_calloc((size_t)e->model->hyper.n_layers * 2, sizeof *leaves);
    if (!leaves) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a step program of %lld rows", (long long)rows);
    WR_TRY_GOTO(st, weir_graph_new(e->device, &graph, err), done);
    build b = {.engine = e, .graph = graph, .rows = rows, .leaves = leaves};
    fill(&b);
    st = program ? wr_program_new(b.outputs, b.n_outputs, &options, program, err)
                 : wr_program_plan(b.outputs, b.n_outputs, &options, arena_bytes, err);
done:
    weir_graph_free(graph);
    wr_free(leaves);
    return st;
}

static weir_status compile_all(weir_engine *e, build_fn fill, wr_buckets *b, weir_error *err) {
    for (int i = 0; i < b->n; i++) WR_TRY(compile(e, fill, b->rows[i], &b->program[i], NULL, err));
    return WEIR_OK;
}

/* The largest arena that any bucket needs. Not always the largest bucket: kernels for fewer rows may want more scratch.
 */
static weir_status plan_all(weir_engine *e, build_fn fill, const wr_buckets *b, size_t *most, weir_error *err) {
    for (int i = 0; i < b->n; i++) {
        size_t bytes;
        WR_TRY(compile(e, fill, b->rows[i], NULL, &bytes, err));
        if (bytes > *most) *most = bytes;
    }
    return WEIR_OK;
}

/* Drop the buckets that another kind of program serves. */
static void keep_from(wr_buckets *b, int64_t least) {
    int n = 0;
    for (int i = 0; i < b->n; i++)
        if (b->rows[i] >= least) b->rows[n++] = b->rows[i];
    b->n = n;
}

static void fill_buckets(weir_engine *e) {
    fill_rows(&e->body, e->options.max_step_tokens);
    fill_rows(&e->head, e->head_rows);
    if (!wr_device_is_host(e->device)) {
        fill_rows(&e->whole, e->head_rows);
        keep_from(&e->body, e->head_rows + 1);
    }
}

weir_status wr_engine_programs_plan(weir_engine *e, size_t *bytes, weir_error *err) {
    fill_buckets(e);
    *bytes = 0;
    WR_TRY(plan_all(e, build_body, &e->body, bytes, err));
    WR_TRY(plan_all(e, build_head, &e->head, bytes, err));
    return plan_all(e, build_whole, &e->whole, bytes, err);
}

weir_status wr_engine_programs_new(weir_engine *e, weir_error *err) {
    size_t bytes = e->memory.arena;
    weir_status st = wr_device_reserve(e->device, bytes, &e->arena, err);
    if (st != WEIR_OK) {
        wr_err_context(err, "%zu bytes of activations; lower max_step_tokens", bytes);
        return st;
    }
    e->arena_bytes = bytes;
    WR_TRY(compile_all(e, build_body, &e->body, err));
    WR_TRY(compile_all(e, build_head, &e->head, err));
    return compile_all(e, build_whole, &e->whole, err);
}

static void free_all(wr_buckets *b) {
    for (int i = 0; i < b->n; i++) wr_program_free(b->program[i]);
    b->n = 0;
}

void wr_engine_programs_free(weir_engine *e) {
    free_all(&e->body);
    free_all(&e->head);
    free_all(&e->whole);
    if (e->device) wr_device_release(e->device, e->arena, e->arena_bytes);
    e->arena = NULL;
}
