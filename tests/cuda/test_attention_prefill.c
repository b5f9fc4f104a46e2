/* Prefill attention over pages on the emulated card: the bits of the reference kernel for every row, and the CPU
 * reference's values, over head sizes, groups, runs, windows, caps, sinks, missing pages and types. */
#include "step_test.h"

#include "array/kv.h"
#include "cuda/attention.h"

#define F32  WEIR_DTYPE_F32
#define F16  WEIR_DTYPE_F16
#define BF16 WEIR_DTYPE_BF16

enum { MAX_RUNS = 3, MAX_PAGES = 24, MAX_ROWS = 400 };

typedef struct run {
    int pos, n_rows;
} run;

typedef struct scene {
    int d, e, kv_heads, group, window, skew, missing; /* missing: this page of each sequence, 0: none */
    float softcap;
    bool sinks;
    weir_dtype q_dtype;
    run runs[MAX_RUNS]; /* each of its own sequence */
} scene;

typedef struct stage {
    wr_attention_args args;
    cloth in[7];
    int n_rows, n_runs;
    wr_step step;
    wr_tensor tensors[7];
    wr_attn_schedule schedule;
    wr_attn_prefill_item prefill[MAX_ROWS];
    wr_attn_params params;
} stage;

static wr_attn_type type_of(weir_dtype dtype) {
    return dtype == F32 ? WR_ATTN_F32 : dtype == F16 ? WR_ATTN_F16 : WR_ATTN_BF16;
}

static cloth new_ints(int64_t n0, int64_t n1) {
    int64_t dims[] = {n0, n1};
    return new_input(WEIR_DTYPE_I32, n1 ? 2 : 1, dims, NULL, 0);
}

/* Pages of all sequences lie mixed; what no sequence has written is NaN. */
static void fill_pages(const scene *c, stage *s) {
    int32_t *table = s->in[3].t.data;
    for (int i = 0; i < s->n_runs; i++) {
        int n_keys = c->runs[i].pos + c->runs[i].n_rows;
        for (int page = 0; page < MAX_PAGES; page++) {
            int at = page * s->n_runs + (page % 2 ? i : s->n_runs - 1 - i);
            table[i * MAX_PAGES + page] = c->missing && page == c->missing ? (i % 2 ? -1 : 1 << 20) : at;
            for (int kv = 0; kv < 2; kv++) {
                const wr_tensor *t = &s->in[1 + kv].t;
                int64_t columns = kv ? c->e : c->d, row = t->shape[2] * columns;
                for (int key = page * 64; key < page * 64 + 64 && key < n_keys; key++)
                    for (int64_t j = 0; j < row; j++)
                        put_float(t,
                                  wr_kv_row(true, at, key % 64, j / columns, 64, t->shape[2], t->shape[3]) +
                                      wr_kv_column(true, key % 64, j % columns),
                                  (float)(mix((uint64_t)(((i * 7 + kv) * 100000 + key) * row + j)) >> 40) * 0x1p-23f -
                                      1);
            }
        }
    }
}

static stage *open_stage(const scene *c) {
    stage *s = calloc(1, sizeof *s);
    while (s->n_runs < MAX_RUNS && c->runs[s->n_runs].n_rows) s->n_rows += c->runs[s->n_runs++].n_rows;
    int64_t heads = c->kv_heads * c->group, q[] = {s->n_rows, heads, c->d},
            k[] = {s->n_runs * MAX_PAGES, 64, c->kv_heads, wr_kv_columns(true, c->d)},
            v[] = {s->n_runs * MAX_PAGES, 64, c->kv_heads, wr_kv_columns(true, c->e)};
    s->args = (wr_attention_args){.scale = 3 / sqrtf((float)c->d),
                                  .softcap = c->softcap,
                                  .causal = true,
                                  .has_sinks = c->sinks,
                                  .tiled = true,
                                  .window = c->window,
                                  .value_dim = c->e};
    s->in[0] = new_input(c->q_dtype, 3, q, NULL, c->skew);
    s->in[1] = new_input(BF16, 4, k, NULL, 0);
    s->in[2] = new_input(BF16, 4, v, NULL, 0);
    s->in[3] = new_ints(s->n_runs, MAX_PAGES);
    s->in[4] = new_ints(s->n_rows, 0);
    s->in[5] = new_ints(s->n_rows, 0);
    s->in[6] = new_input(F32, 1, &heads, NULL, 0);
    fill_tame(&s->in[0].t, 5, 1);
    fill_tame(&s->in[6].t, 6, 2);
    fill_pages(c, s);
    int row = 0;
    for (int i = 0; i < s->n_runs; i++)
        for (int j = 0; j < c->runs[i].n_rows; j++, row++) {
            ((int32_t *)s->in[4].t.data)[row] = i;
            ((int32_t *)s->in[5].t.data)[row] = c->runs[i].pos + j;
        }
    for (int i = 0; i < 7; i++) s->tensors[i] = s->in[i].t;
    s->step = (wr_step){.op = WR_OP_PAGED_ATTENTION,
                        .args = &s->args,
                        .in = s->tensors,
                        .n_in = 6 + c->sinks,
                        .device = wr_emulate_traits()};
    float scale = s->args.scale, cap = c->softcap;
    s->params = (wr_attn_params){.q = s->in[0].t.data,
                                 .k = s->in[1].t.data,
                                 .v = s->in[2].t.data,
                                 .q_row = heads * c->d,
                                 .q_head = c->d,
                                 .tiled = true,
                                 .k_columns = (int32_t)k[3],
                                 .v_columns = (int32_t)v[3],
                                 .table = s->in[3].t.data,
                                 .row_seq = s->in[4].t.data,
                                 .row_pos = s->in[5].t.data,
                                 .sinks = c->sinks ? s->in[6].t.data : NULL,
                                 .schedule = &s->schedule,
                                 .prefill = s->prefill,
                                 .n_pages = s->n_runs * MAX_PAGES,
                                 .max_pages = MAX_PAGES,
                                 .window = c->window,
                                 .page = 64,
                                 .n_rows = s->n_rows,
                                 .n_heads = (int32_t)heads,
                                 .kv_heads = c->kv_heads,
                                 .group = c->group,
                                 .head_dim = c->d,
                                 .value_dim = c->e,
                                 .n_seqs = s->n_runs,
                                 .q_type = type_of(c->q_dtype),
                                 .kv_type = WR_ATTN_BF16,
                                 .v_type = WR_ATTN_BF16,
                                 .out_type = type_of(c->q_dtype),
                                 .log2_factor = (cap > 0 ? 1 : scale) * 1.4426950408889634f,
                                 .softcap = cap,
                                 .softcap_scale = cap > 0 ? scale / cap : 0,
                                 .scale = scale};
    return s;
}

static void close_stage(stage *s) {
    for (int i = 0; i < 7; i++) free_cloth(&s->in[i]);
    free(s);
}

static cloth new_result(const scene *c, const stage *s) {
    int64_t dims[] = {s->n_rows, c->kv_heads * c->group, c->e};
    return new_output(c->q_dtype, 3, dims, c->skew);
}

/* Tiles as the schedule would list them, the last ones first. */
static void run_prefill(const scene *c, stage *s, const cloth *out) {
    int tile = wr_attn_prefill_tile(&s->step), row = 0, n = 0;
    assert_int_equal(tile, 128 / c->group);
    for (int i = 0; i < s->n_runs; i++)
        for (int j = 0; j < c->runs[i].n_rows; j += tile)
            s->prefill[n++] =
                (wr_attn_prefill_item){row + j, c->runs[i].n_rows - j < tile ? c->runs[i].n_rows - j : tile,
                                       c->runs[i].pos + j, i},
            row += j + tile >= c->runs[i].n_rows ? c->runs[i].n_rows : 0;
    for (int i = 0; i < n / 2; i++) {
        wr_attn_prefill_item first = s->prefill[i];
        s->prefill[i] = s->prefill[n - 1 - i];
        s->prefill[n - 1 - i] = first;
    }
    s->schedule.n_prefill = (uint32_t)n;
    s->params.out = out->t.data;
    weir_error err = {0};
    int64_t bytes = (int64_t)wr_attn_prefill_scratch(&s->step);
    cloth scratch = new_output(WEIR_DTYPE_U8, 1, &bytes, 0);
    s->params.partial = scratch.t.data;
    if (wr_attn_prefill_launch(&s->step, &s->params, NULL, &err) != WEIR_OK) fail_msg("%s", err.message);
    check_canaries(out);
    check_canaries(&scratch);
    free_cloth(&scratch);
    assert_int_equal(s->schedule.prefill_next, 0);
    assert_int_equal(s->schedule.prefill_done, 0);
}

/* By the reference kernel. */
static void run_plain(stage *s, const cloth *out) {
    weir_error err = {0};
    s->step.out = out->t;
    if (row_named(wr_cuda_attention_rows(WR_OP_PAGED_ATTENTION), "ref")->launch(&s->step, NULL, &err) != WEIR_OK)
        fail_msg("%s", err.message);
    check_canaries(out);
}

static void run_reference(stage *s, const cloth *out) {
    s->step.out = out->t;
    s->step.scratch = malloc(wr_ref_attention_scratch(&s->step, 1) + 1);
    wr_ref_paged_attention(&s->step, 0, 1);
    free(s->step.scratch);
}

static void check_scene(const scene *c) {
    char what[120];
    snprintf(what, sizeof what, "D%d E%d, %d x %d heads, window %d, cap %g, %d rows at %d", c->d, c->e, c->kv_heads,
             c->group, c->window, (double)c->softcap, c->runs[0].n_rows, c->runs[0].pos);
    stage *s = open_stage(c);
    cloth prefill = new_result(c, s), plain = new_result(c, s), reference = new_result(c, s);
    s->step.out = prefill.t;
    run_prefill(c, s, &prefill);
    run_plain(s, &plain);
    run_reference(s, &reference);
    check_equal(&prefill, &plain, what);
    check_close(&prefill, &reference, 1, 4e-3, what);
    free_cloth(&prefill), free_cloth(&plain), free_cloth(&reference);
    close_stage(s);
}

static void every_head_size_has_the_reference_bits(void **state) {
    (void)state;
    static const int sizes[][2] = {{64, 64}, {80, 80}, {96, 96}, {128, 128}, {192, 128}, {256, 256}};
    for (int i = 0; i < COUNT(sizes); i++)
        check_scene(&(scene){
            .d = sizes[i][0], .e = sizes[i][1], .kv_heads = 1, .group = 4, .q_dtype = BF16, .runs = {{330, 64}}});
}

static void every_group_has_the_reference_bits(void **state) {
    (void)state;
    static const int groups[] = {1, 3, 7, 16};
    for (int i = 0; i < COUNT(groups); i++)
        check_scene(&(scene){
            .d = 64, .e = 64, .kv_heads = 2, .group = groups[i], .q_dtype = BF16, .runs = {{0, 70}, {200, 9}}});
}

/* Three spans and more, on both sides of the place where they grow. */
static void long_contexts_have_the_reference_bits(void **state) {
    (void)state;
    check_scene(&(scene){.d = 64, .e = 64, .kv_heads = 1, .group = 8, .q_dtype = F32, .runs = {{1400, 64}}});
    check_scene(&(scene){.d = 256, .e = 256, .kv_heads = 1, .group = 8, .q_dtype = F32, .runs = {{1270, 64}}});
}

static void windows_caps_and_sinks_have_the_reference_bits(void **state) {
    (void)state;
    for (int d = 64; d <= 256; d += 192)
        for (int i = 0; i < 4; i++)
            check_scene(&(scene){.d = d,
                                 .e = d,
                                 .kv_heads = 1,
                                 .group = 4,
                                 .window = i == 0   ? 1
                                           : i == 1 ? 100
                                                    : 0,
                                 .softcap = i == 2 ? 1.5f : 0,
                                 .sinks = i % 2,
                                 .q_dtype = BF16,
                                 .runs = {{390, 66}, {3, 1}}});
}

static void missing_pages_are_not_seen(void **state) {
    (void)state;
    for (int d = 64; d <= 256; d += 192)
        check_scene(&(scene){
            .d = d, .e = d, .kv_heads = 1, .group = 4, .missing = 2, .q_dtype = BF16, .runs = {{120, 64}, {150, 20}}});
    /* Positions past the table. */
    check_scene(
        &(scene){.d = 64, .e = 64, .kv_heads = 1, .group = 8, .q_dtype = BF16, .runs = {{MAX_PAGES * 64 - 9, 64}}});
}

static void other_types_and_places_have_the_reference_bits(void **state) {
    (void)state;
    for (int d = 64; d <= 256; d += 192)
        for (int i = 0; i < 3; i++)
            check_scene(&(scene){.d = d,
                                 .e = d,
                                 .kv_heads = 1,
                                 .group = 2,
                                 .skew = i == 0,
                                 .sinks = true,
                                 .q_dtype = i == 0   ? BF16
                                            : i == 1 ? F16
                                                     : F32,
                                 .runs = {{300, 65}}});
}

static void a_step_without_prefill_writes_nothing(void **state) {
    (void)state;
    scene c = {.d = 64, .e = 64, .kv_heads = 2, .group = 4, .q_dtype = BF16, .runs = {{0, 64}}};
    stage *s = open_stage(&c);
    cloth out = new_result(&c, s);
    s->step.out = out.t;
    memset(out.t.data, CANARY, (size_t)size_of(&out.t) * 2);
    c.runs[0].n_rows = 0, s->n_runs = 0;
    run_prefill(&c, s, &out);
    for (int64_t i = 0; i < size_of(&out.t) * 2; i++) assert_int_equal(((uint8_t *)out.t.data)[i], CANARY);
    free_cloth(&out);
    close_stage(s);
}

static void only_steps_that_the_kernels_serve_are_taken(void **state) {
    (void)state;
    scene c = {.d = 64, .e = 64, .kv_heads = 2, .group = 4, .q_dtype = BF16, .runs = {{0, 64}}};
    stage *s = open_stage(&c);
    cloth out = new_result(&c, s);
    s->step.out = out.t;
    assert_int_equal(wr_attn_prefill_tile(&s->step), 32);
    s->step.device = wr_emulate_traits_plain();
    assert_int_equal(wr_attn_prefill_tile(&s->step), 0);
    s->step.device = wr_emulate_traits();
    s->tensors[0].shape[0] = 63;
    assert_int_equal(wr_attn_prefill_tile(&s->step), 0);
    s->tensors[0].shape[0] = 64;
    s->tensors[1].dtype = s->tensors[2].dtype = F16;
    assert_int_equal(wr_attn_prefill_tile(&s->step), 0);
    s->tensors[1].dtype = s->tensors[2].dtype = BF16;
    s->tensors[1].shape[1] = s->tensors[2].shape[1] = 32;
    assert_int_equal(wr_attn_prefill_tile(&s->step), 0);
    s->tensors[1].shape[1] = s->tensors[2].shape[1] = 64;
    s->tensors[0].shape[2] = 72;
    assert_int_equal(wr_attn_prefill_tile(&s->step), 0);
    s->tensors[0].shape[2] = 64;
    s->tensors[0].shape[1] = 2 * 129;
    assert_int_equal(wr_attn_prefill_tile(&s->step), 0);
    free_cloth(&out);
    close_stage(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_head_size_has_the_reference_bits),
        cmocka_unit_test(every_group_has_the_reference_bits),
        cmocka_unit_test(long_contexts_have_the_reference_bits),
        cmocka_unit_test(windows_caps_and_sinks_have_the_reference_bits),
        cmocka_unit_test(missing_pages_are_not_seen),
        cmocka_unit_test(other_types_and_places_have_the_reference_bits),
        cmocka_unit_test(a_step_without_prefill_writes_nothing),
        cmocka_unit_test(only_steps_that_the_kernels_serve_are_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
