/* Paged attention on the emulated card: the decode kernel behind its schedule against the CPU reference's values and
 * the reference kernel's bits; a row's bits alone and in company; what the schedule lists. */
#include "step_test.h"

#include <float.h>

#include "array/kv.h"
#include "cuda/attention.h"

#define F32  WEIR_DTYPE_F32
#define F16  WEIR_DTYPE_F16
#define BF16 WEIR_DTYPE_BF16

enum { MAX_ROWS = 200 };

typedef struct row {
    int seq, pos;
} row;

/* Masks of a scene that is one run of rows. */
typedef enum mask_kind {
    NO_MASK,
    ALL,       /* true, or 0 */
    CAUSAL,    /* what is seen anyway */
    TREE,      /* rows are drafts of a tree: each sees the keys before the run, its ancestors and itself */
    ALIBI,     /* a slope a head times the distance */
    SCATTERED, /* by row, head and key; rows that are multiples of 5 see nothing */
    NARROW,    /* one for all rows and heads, which ends three keys early */
    LOWEST,    /* the lowest number for all keys */
    EMPTY      /* of no key */
} mask_kind;

typedef struct scene {
    int d, e, kv_heads, group, page, max_pages, n_seqs, window, skew;
    float softcap, scale;          /* scale 0: 3 / sqrt(d) */
    int half;                      /* pairs that rope rotates; 0: none */
    bool interleaved, plain, wide; /* plain: pages are not tiled; wide: q is a part of wider rows */
    bool sinks, hopper, small;     /* small: a card with 99 KB of shared memory a block */
    weir_dtype q, k, v, out;
    mask_kind mask;
    weir_dtype mask_dtype;
    int missing; /* this page of each sequence does not exist; 0: all do */
    int n_rows;
    row rows[MAX_ROWS];
} scene;

typedef struct stage {
    wr_attention_args args;
    cloth in[7], table, mask;
    wr_tensor tensors[9];
    wr_step step;
} stage;

static bool is_tiled(const scene *c) { return !c->plain && c->page == WR_KV_TILE; }

/* Pages of a sequence lie scattered; keys that nobody has written are NaN, and so are the pages of nobody. Table
 * entries after a sequence's last key name no page. */
static void fill_pages(const scene *c, stage *s) {
    int32_t *table = s->in[3].t.data;
    for (int seq = 0; seq < c->n_seqs; seq++) {
        int n_keys = 0;
        for (int i = 0; i < c->n_rows; i++)
            if (c->rows[i].seq == seq && c->rows[i].pos >= n_keys) n_keys = c->rows[i].pos + 1;
        for (int page = 0; page < c->max_pages; page++) {
            int at = 1 + page * c->n_seqs + (page % 2 ? seq : c->n_seqs - 1 - seq);
            bool there = page * c->page < n_keys && !(c->missing && page == c->missing);
            table[seq * c->max_pages + page] = there ? at : page % 2 ? -1 : 1 << 20;
            for (int kv = 0; kv < 2; kv++) {
                const wr_tensor *t = &s->in[1 + kv].t;
                int64_t columns = kv ? c->e : c->d, width = t->shape[2] * columns;
                for (int key = page * c->page; key < (page + 1) * c->page && key < n_keys; key++)
                    for (int64_t j = 0; j < width; j++)
                        put_float(
                            t,
                            wr_kv_row(is_tiled(c), at, key % c->page, j / columns, c->page, t->shape[2], t->shape[3]) +
                                wr_kv_column(is_tiled(c), key % c->page, j % columns),
                            (float)(mix((uint64_t)(((seq * 7 + kv) * 100000 + key) * width + j)) >> 40) * 0x1p-23f - 1);
            }
        }
    }
}

/* Query row i is filled from its sequence and position only, and so is the table of cosines and sines. */
static void fill_queries(const scene *c, stage *s) {
    const wr_tensor *q = &s->in[0].t;
    int64_t width = c->kv_heads * c->group * c->d, whole = q->shape[1] * q->shape[2];
    for (int i = 0; i < c->n_rows && c->half; i++)
        for (int64_t j = 0; j < 2 * c->half; j++) {
            double angle = c->rows[i].pos * pow(1000, -(double)(j % c->half) / c->half);
            put_float(&s->table.t, i * 2 * c->half + j, (float)(j < c->half ? cos(angle) : sin(angle)));
        }
    for (int i = 0; i < c->n_rows; i++)
        for (int64_t j = 0; j < width; j++)
            put_float(
                q, i * whole + j,
                (float)(mix((uint64_t)((c->rows[i].seq * 31 + 11) * 65536 + c->rows[i].pos) * 4099 + (uint64_t)j) >>
                        40) *
                        0x1p-23f -
                    1);
}

/* What the mask adds for row t, head h and key p; -INFINITY: hides it. */
static float mask_value(const scene *c, int64_t t, int64_t h, int64_t p) {
    int64_t pos = c->rows[t].pos, first = c->rows[0].pos;
    switch (c->mask) {
    case CAUSAL: return p <= pos ? 0 : -INFINITY;
    case TREE: {
        for (int64_t i = t; i >= 0; i = i > 0 ? (i - 1) / 2 : -1) /* node i's parent is (i - 1) / 2 */
            if (p == first + i) return 0;
        return p < first ? 0 : -INFINITY;
    }
    case ALIBI: return -exp2f(-(float)h) * (float)(pos - p);
    case SCATTERED: return t % 5 && mix((uint64_t)((t * 64 + h) * 100003 + p)) % 3 == 0 ? 0 : -INFINITY;
    case NARROW: return p % 7 == 3 ? -INFINITY : 0;
    case LOWEST: return -FLT_MAX;
    default: return 0;
    }
}

/* [rows, heads, keys]; rows and heads may be 1. */
static cloth new_mask(const scene *c, int64_t rows, int64_t heads, int64_t keys) {
    int64_t shape[] = {rows, heads, keys};
    cloth mask = new_input(c->mask_dtype, 3, shape, NULL, c->skew);
    for (int64_t i = 0; i < size_of(&mask.t); i++) {
        float x = mask_value(c, i / keys / heads, i / keys % heads, i % keys);
        if (c->mask_dtype == WEIR_DTYPE_BOOL)
            ((uint8_t *)mask.t.data)[i] = x != -INFINITY;
        else
            put_float(&mask.t, i, x);
    }
    return mask;
}

static stage *open_stage(scene *c) {
    stage *s = calloc(1, sizeof *s);
    if (!c->page) c->page = 64;
    if (!c->e) c->e = c->d;
    if (!c->k) c->k = BF16;
    if (!c->v) c->v = c->k;
    if (!c->q) c->q = c->k;
    if (!c->out) c->out = c->q;
    for (int i = 0; i < c->n_rows; i++) {
        if (c->rows[i].seq >= c->n_seqs) c->n_seqs = c->rows[i].seq + 1;
        if (c->rows[i].pos / c->page >= c->max_pages) c->max_pages = c->rows[i].pos / c->page + 1;
    }
    int64_t heads = (int64_t)c->kv_heads * c->group, n_pages = 1 + (int64_t)c->n_seqs * c->max_pages;
    bool tiled = is_tiled(c);
    int64_t q[] = {c->n_rows, heads + 2 * c->wide, c->d},
            k[] = {n_pages, c->page, c->kv_heads, wr_kv_columns(tiled, c->d)},
            v[] = {n_pages, c->page, c->kv_heads, wr_kv_columns(tiled, c->e)}, table[] = {c->n_seqs, c->max_pages},
            rope[] = {c->n_rows, 2, c->half};
    s->args = (wr_attention_args){.scale = c->scale != 0 ? c->scale : 3 / sqrtf((float)c->d),
                                  .softcap = c->softcap,
                                  .causal = true,
                                  .has_mask = c->mask != NO_MASK,
                                  .has_sinks = c->sinks,
                                  .has_rope = c->half > 0,
                                  .interleaved = c->interleaved,
                                  .tiled = tiled,
                                  .window = c->window,
                                  .value_dim = c->e};
    s->in[0] = new_input(c->q, 3, q, NULL, c->skew);
    s->in[1] = new_input(c->k, 4, k, NULL, tiled ? 0 : c->skew);
    s->in[2] = new_input(c->v, 4, v, NULL, tiled ? 0 : c->skew);
    s->table = new_input(F32, 3, rope, NULL, 0);
    s->in[3] = new_input(WEIR_DTYPE_I32, 2, table, NULL, 0);
    s->in[4] = new_input(WEIR_DTYPE_I32, 1, q, NULL, 0);
    s->in[5] = new_input(WEIR_DTYPE_I32, 1, q, NULL, 0);
    s->in[6] = new_input(F32, 1, &heads, NULL, 0);
    fill_tame(&s->in[6].t, 6, 2);
    fill_pages(c, s);
    fill_queries(c, s);
    for (int i = 0; i < c->n_rows; i++) {
        ((int32_t *)s->in[4].t.data)[i] = c->rows[i].seq;
        ((int32_t *)s->in[5].t.data)[i] = c->rows[i].pos;
    }
    for (int i = 0; i < 6; i++) s->tensors[i] = s->in[i].t;
    s->tensors[0].shape[1] = heads;
    int n_in = 6;
    if (c->mask) {
        int n_keys = c->rows[c->n_rows - 1].pos + 1;
        bool all_rows = c->mask == NARROW, all_heads = all_rows || c->mask == CAUSAL || c->mask == TREE;
        s->mask = new_mask(c, all_rows ? 1 : c->n_rows, all_heads ? 1 : heads,
                           c->mask == EMPTY    ? 0
                           : c->mask == NARROW ? n_keys - 3
                                               : n_keys);
        s->tensors[n_in] = s->mask.t;
        if (c->mask == EMPTY) s->tensors[n_in].data = NULL;
        n_in++;
    }
    if (c->sinks) s->tensors[n_in++] = s->in[6].t;
    if (c->half) s->tensors[n_in++] = s->table.t;
    s->step = (wr_step){.op = WR_OP_PAGED_ATTENTION,
                        .args = &s->args,
                        .in = s->tensors,
                        .n_in = n_in,
                        .device = c->hopper ? wr_emulate_traits() : wr_emulate_traits_plain()};
    static wr_cuda_traits small;
    small = *wr_emulate_traits_plain();
    small.shared_bytes = 99 << 10;
    if (c->small) s->step.device = &small;
    return s;
}

static void close_stage(stage *s) {
    for (int i = 0; i < 7; i++) free_cloth(&s->in[i]);
    free_cloth(&s->table);
    free_cloth(&s->mask);
    free(s);
}

static cloth new_result(const scene *c) {
    int64_t dims[] = {c->n_rows, (int64_t)c->kv_heads * c->group, c->e};
    return new_output(c->out, 3, dims, c->skew);
}

/* The schedule as the row prepares it; free_cloth it. */
static cloth prepare(stage *s, const wr_kernel_row *kernels) {
    int64_t bytes = (int64_t)kernels->prepare_bytes(&s->step);
    cloth prepared = new_cloth(WEIR_DTYPE_U8, 1, &bytes, NULL, 0, POISON);
    memset(prepared.base, CANARY, GUARD);
    memset(prepared.base + GUARD + bytes, CANARY, prepared.bytes - GUARD - (size_t)bytes);
    s->step.scratch = prepared.t.data;
    weir_error err = {0};
    if (kernels->prepare_launch(&s->step, NULL, &err) != WEIR_OK) fail_msg("prepare: %s", err.message);
    check_canaries(&prepared);
    return prepared;
}

/* Runs the row called `name`; a second time with the same schedule when it has one, for the counters must be as before.
 */
static cloth run_paged(const scene *c, stage *s, const char *name) {
    const wr_kernel_row *kernels = row_named(wr_cuda_attention_rows(WR_OP_PAGED_ATTENTION), name);
    cloth out = new_result(c), again = new_result(c);
    s->step.out = out.t;
    if (kernels->fits && !kernels->fits(&s->step)) fail_msg("%s does not take head size %d", name, c->d);
    int64_t bytes = kernels->scratch_bytes ? (int64_t)kernels->scratch_bytes(&s->step, 1) : 0;
    cloth scratch = new_cloth(WEIR_DTYPE_U8, 1, &bytes, NULL, 0, POISON), prepared = {.base = NULL};
    if (kernels->prepare_launch) prepared = prepare(s, kernels);
    weir_error err = {0};
    s->step.prepared = prepared.t.data;
    s->step.scratch = bytes ? scratch.t.data : NULL;
    for (int i = 0; i < 2; i++) {
        s->step.out = i ? again.t : out.t;
        if (kernels->launch(&s->step, NULL, &err) != WEIR_OK) fail_msg("%s: %s", name, err.message);
        if (!kernels->prepare_launch) break;
        check_canaries(&prepared);
        check_canaries(i ? &again : &out);
        if (i) check_equal(&again, &out, "a second time");
    }
    free_cloth(&scratch), free_cloth(&prepared), free_cloth(&again);
    return out;
}

static cloth run_cpu(const scene *c, stage *s) {
    cloth out = new_result(c);
    s->step.out = out.t;
    s->step.scratch = malloc(wr_ref_attention_scratch(&s->step, 1) + 1);
    wr_ref_paged_attention(&s->step, 0, 1);
    free(s->step.scratch);
    return out;
}

/* Weights are rounded to the type of the values (8 or 11 bits) and values reach 1; then the output is rounded. */
static double slack(const scene *c) {
    return c->k == F32 || c->v == F32 ? 2e-6 : c->k == F16 && c->q != BF16 ? 1.5e-3 : 6e-3;
}

static void describe(const scene *c, char *what, size_t size) {
    snprintf(what, size, "D%d E%d, %d x %d heads, window %d, cap %g, %d rows, first %d of %d", c->d, c->e, c->kv_heads,
             c->group, c->window, (double)c->softcap, c->n_rows, c->rows[0].pos, c->rows[0].seq);
}

/* Where the row for f32 fits, it has the reference's bits. */
static void check_f32(const scene *c, stage *s, const cloth *plain, const char *what) {
    const wr_kernel_row *kernels = row_named(wr_cuda_attention_rows(WR_OP_PAGED_ATTENTION), "f32");
    bool mixed = c->k == F32 || c->v == F32 || c->k != c->v || s->args.scale <= 0;
    assert_int_equal(kernels->fits(&s->step), mixed);
    if (!mixed) return;
    cloth got = run_paged(c, s, "f32");
    check_equal(&got, plain, what);
    free_cloth(&got);
}

static void check_scene(scene c) {
    char what[160];
    stage *s = open_stage(&c);
    describe(&c, what, sizeof what);
    cloth fast = run_paged(&c, s, "paged"), plain = run_paged(&c, s, "ref"), cpu = run_cpu(&c, s);
    check_close(&plain, &cpu, 1, slack(&c), what);
    check_close(&fast, &cpu, 1, slack(&c), what);
    check_equal(&fast, &plain, what);
    check_f32(&c, s, &plain, what);
    free_cloth(&fast), free_cloth(&plain), free_cloth(&cpu);
    close_stage(s);
}

/* Not the fast kernels. */
static void check_plain(scene c) {
    char what[160];
    stage *s = open_stage(&c);
    describe(&c, what, sizeof what);
    cloth plain = run_paged(&c, s, "ref"), cpu = run_cpu(&c, s);
    check_close(&plain, &cpu, 1, slack(&c), what);
    check_f32(&c, s, &plain, what);
    free_cloth(&plain), free_cloth(&cpu);
    close_stage(s);
}

/* Every row of the scene, run alone, has the bits it has in company. */
static void check_alone(scene c) {
    stage *s = open_stage(&c);
    cloth all = run_paged(&c, s, "paged");
    size_t bytes = (size_t)(c.kv_heads * c.group * c.e) * weir_dtype_bytes(c.out);
    for (int i = 0; i < c.n_rows; i++) {
        scene one = c;
        one.n_rows = 1;
        one.rows[0] = c.rows[i];
        /* The same pools: only the rows differ. */
        stage *t = open_stage(&one);
        for (int j = 1; j < 4; j++) t->tensors[j] = s->tensors[j];
        cloth alone = run_paged(&one, t, "paged");
        if (memcmp(alone.t.data, (char *)all.t.data + (size_t)i * bytes, bytes))
            fail_msg("D%d: row %d (position %d of %d) is another alone than among %d", c.d, i, c.rows[i].pos,
                     c.rows[i].seq, c.n_rows);
        free_cloth(&alone);
        close_stage(t);
    }
    free_cloth(&all);
    close_stage(s);
}

static const int edges[] = {1, 63, 64, 65, 128, 129, 255, 256, 257, 511, 512, 513, 1100};

static void every_length_is_right_at_every_head_size(void **state) {
    (void)state;
    static const int sizes[][2] = {{64, 64}, {80, 80}, {96, 96}, {128, 128}, {192, 128}, {256, 256}, {512, 512}};
    for (int i = 0; i < COUNT(sizes); i++) {
        scene c = {.d = sizes[i][0], .e = sizes[i][1], .kv_heads = 1, .group = 2 + i % 3};
        bool few = sizes[i][0] > 128; /* the wide ones are slow here */
        for (int j = 0; j < COUNT(edges); j++)
            if (!few || j % 3 == 1 || edges[j] == 1100) c.rows[c.n_rows] = (row){c.n_rows, edges[j] - 1}, c.n_rows++;
        check_scene(c);
    }
}

static void other_types_are_right(void **state) {
    (void)state;
    static const weir_dtype types[][3] = {{BF16, F16, BF16}, {F32, F16, F32},  {F16, F16, F16},
                                          {F32, BF16, F32},  {F16, BF16, F32}, {BF16, BF16, F16}};
    for (int i = 0; i < COUNT(types); i++)
        check_scene((scene){.d = i % 2 ? 128 : 64,
                            .kv_heads = 2,
                            .group = 2,
                            .q = types[i][0],
                            .k = types[i][1],
                            .out = types[i][2],
                            .n_rows = 3,
                            .rows = {{0, 300}, {1, 40}, {0, 301}}});
}

static void every_group_is_right(void **state) {
    (void)state;
    static const int groups[] = {1, 3, 5, 8, 16, 20, 40};
    for (int i = 0; i < COUNT(groups); i++)
        check_scene((scene){.d = 64,
                            .kv_heads = i % 2 + 1,
                            .group = groups[i],
                            .n_rows = 6,
                            .rows = {{0, 126}, {0, 127}, {0, 128}, {0, 129}, {1, 77}, {2, 599}}});
}

static void windows_caps_and_sinks_are_right(void **state) {
    (void)state;
    for (int i = 0; i < 6; i++) {
        static const int windows[] = {1, 64, 100, 300, 5000, 0};
        scene c = {.d = i % 2 ? 256 : 128,
                   .kv_heads = 1,
                   .group = 4,
                   .window = windows[i],
                   .softcap = i >= 3 ? 2 : 0,
                   .sinks = i % 2 == 0,
                   .n_rows = 9};
        for (int j = 0; j < 4; j++) c.rows[j] = (row){0, 510 + j};
        for (int j = 0; j < 4; j++) c.rows[4 + j] = (row){1, j};
        c.rows[8] = (row){2, 700};
        check_scene(c);
    }
}

/* Rows of no sequence, of a sequence that does not exist, and before the first key. */
static void rows_that_see_nothing_give_zero(void **state) {
    (void)state;
    for (int sinks = 0; sinks < 2; sinks++)
        check_scene(
            (scene){.d = 64,
                    .kv_heads = 2,
                    .group = 4,
                    .n_seqs = 3,
                    .max_pages = 4,
                    .sinks = sinks,
                    .n_rows = 9,
                    .rows = {{-1, 0}, {-1, 1}, {0, 5}, {-1, 77}, {1, -1}, {1, 0}, {1, 1}, {2, 100}, {-5, 200}}});
}

/* Pages that are not there, in the middle of a context, and positions past the table. */
static void keys_on_no_page_are_not_seen(void **state) {
    (void)state;
    for (int d = 64; d <= 256; d += 192) {
        scene c = {.d = d,
                   .kv_heads = 1,
                   .group = 2,
                   .missing = 2,
                   .n_rows = 5,
                   .rows = {{0, 126}, {0, 127}, {0, 128}, {1, 400}, {0, 192}}};
        check_scene(c);
        stage *s = open_stage(&c);
        ((int32_t *)s->in[5].t.data)[3] = 100000;
        cloth fast = run_paged(&c, s, "paged"), cpu = run_cpu(&c, s);
        check_close(&fast, &cpu, 1, slack(&c), "past the table");
        free_cloth(&fast), free_cloth(&cpu);
        close_stage(s);
    }
}

static void queries_without_alignment_are_right(void **state) {
    (void)state;
    for (int d = 80; d <= 128; d += 48)
        check_scene((scene){.d = d,
                            .kv_heads = 1,
                            .group = 3,
                            .skew = 1,
                            .sinks = true,
                            .n_rows = 3,
                            .rows = {{0, 300}, {1, 9}, {0, 10}}});
}

/* Rotated before, and by the kernel: the same bits; also as columns of a wider matrix. */
static void ropes_are_right(void **state) {
    (void)state;
    static const struct {
        int d, half;
        bool interleaved;
        weir_dtype q;
    } cases[] = {{128, 64, false, F32},   {64, 16, false, F32},  {96, 48, true, F32},    {80, 12, true, BF16},
                 {256, 128, false, BF16}, {128, 32, false, F16}, {128, 64, false, BF16}, {64, 16, false, BF16}};
    for (int i = 0; i < COUNT(cases); i++)
        check_scene((scene){.d = cases[i].d,
                            .kv_heads = 1,
                            .group = i % 2 ? 8 : 4,
                            .half = cases[i].half,
                            .interleaved = cases[i].interleaved,
                            .wide = i % 2,
                            .sinks = i % 2,
                            .hopper = true,
                            .q = cases[i].q,
                            .n_rows = 7,
                            .rows = {{0, 130}, {0, 131}, {0, 132}, {0, 133}, {0, 134}, {0, 135}, {1, 9}}});
    /* The prefill kernel. */
    for (int d = 64; d <= 256; d += 64) {
        scene c = {.d = d, .kv_heads = 1, .group = 2, .half = d / 2, .wide = true, .hopper = true, .q = F32};
        for (int i = 0; i < 66; i++) c.rows[c.n_rows++] = (row){0, 70 + i};
        if (d != 192) check_scene(c);
    }
    /* What the fast kernels do not take: a half that is no multiple of 8. */
    check_plain(
        (scene){.d = 64, .kv_heads = 1, .group = 2, .half = 12, .q = F32, .n_rows = 2, .rows = {{0, 130}, {1, 3}}});
}

static void a_row_has_the_same_bits_alone(void **state) {
    (void)state;
    /* Sequences of many lengths, a run of eight tokens, rows in no order, twice the same row. */
    scene c = {.d = 128, .kv_heads = 2, .group = 4, .n_rows = 20};
    for (int i = 0; i < 8; i++) c.rows[i] = (row){0, 1020 + i};
    for (int i = 8; i < 16; i++) c.rows[i] = (row){i - 7, 37 * i};
    c.rows[16] = (row){3, 370}, c.rows[17] = (row){3, 100}, c.rows[18] = (row){0, 1027}, c.rows[19] = (row){1, 10};
    check_alone(c);
    c.d = 256, c.kv_heads = 1, c.window = 200, c.sinks = true, c.n_rows = 11;
    check_alone(c);
}

static void long_contexts_are_right(void **state) {
    (void)state;
    /* On both sides of the places where spans grow: 512 and 4,096 keys (256 and 2,048 at head size 256). */
    check_scene((scene){.d = 64, .kv_heads = 1, .group = 4, .n_rows = 3, .rows = {{0, 1023}, {0, 1024}, {1, 2600}}});
    check_scene((scene){.d = 64, .kv_heads = 1, .group = 1, .n_rows = 2, .rows = {{0, 4095}, {0, 4300}}});
    check_scene((scene){.d = 256, .kv_heads = 1, .group = 2, .n_rows = 2, .rows = {{0, 1023}, {0, 2100}}});
    /* So many spans that the merge kernel has to do it. */
    check_scene((scene){.d = 256, .kv_heads = 1, .group = 1, .n_rows = 1, .rows = {{0, 7900}}});
}

/* With the prefill kernel behind the same schedule. */
static void runs_of_many_rows_have_the_reference_bits(void **state) {
    (void)state;
    for (int hopper = 0; hopper < 2; hopper++) {
        scene c = {.d = 64, .kv_heads = 1, .group = 4, .hopper = hopper, .sinks = true};
        for (int i = 0; i < 70; i++) c.rows[c.n_rows++] = (row){0, 200 + i};
        for (int i = 0; i < 5; i++) c.rows[c.n_rows++] = (row){1, 600 + i};
        c.rows[c.n_rows++] = (row){-1, 0};
        for (int i = 0; i < 64; i++) c.rows[c.n_rows++] = (row){2, i};
        check_scene(c);
    }
}

static void the_reference_takes_any_shape(void **state) {
    (void)state;
    static const int sizes[][3] = {{40, 40, 16}, {72, 24, 64}, {1, 3, 7}, {128, 128, 32}, {200, 17, 1}};
    for (int i = 0; i < COUNT(sizes); i++)
        for (int type = 0; type < 4; type++)
            check_plain((scene){.d = sizes[i][0],
                                .e = sizes[i][1],
                                .page = sizes[i][2],
                                .kv_heads = 2,
                                .group = 2,
                                .k = type == 0   ? BF16
                                     : type == 1 ? F16
                                                 : F32,
                                .v = type == 3 ? BF16 : 0,
                                .q = F32,
                                .window = i == 2 ? 30 : 0,
                                .softcap = i == 3 ? 3 : 0,
                                .sinks = i % 2,
                                .n_rows = 4,
                                .rows = {{0, 130}, {1, 0}, {-1, 3}, {1, 62}}});
    /* A scale that is not positive. */
    check_plain(
        (scene){.d = 64, .kv_heads = 1, .group = 2, .q = F32, .scale = -0.3f, .n_rows = 2, .rows = {{0, 130}, {1, 3}}});
}

/* Where rings for tiles of 32 rows are too large, tiles of 16 serve. */
static void little_shared_memory_is_enough(void **state) {
    (void)state;
    static const int sizes[][2] = {{64, 64}, {128, 128}, {192, 128}, {256, 256}};
    for (int i = 0; i < COUNT(sizes); i++)
        check_scene((scene){.d = sizes[i][0],
                            .e = sizes[i][1],
                            .kv_heads = 1,
                            .group = 8,
                            .small = true,
                            .n_rows = 5,
                            .rows = {{0, 700}, {0, 701}, {0, 702}, {0, 703}, {1, 90}}});
}

static void a_nan_stays_in_its_row(void **state) {
    (void)state;
    scene c = {.d = 128, .kv_heads = 1, .group = 2, .n_rows = 3, .rows = {{0, 300}, {1, 300}, {2, 300}}};
    stage *s = open_stage(&c);
    put_float(&s->in[0].t, 2 * 128 + 5, NAN); /* row 1, head 0 */
    cloth fast = run_paged(&c, s, "paged"), plain = run_paged(&c, s, "ref"), cpu = run_cpu(&c, s);
    check_close(&fast, &cpu, 1, slack(&c), "NaN");
    check_equal(&fast, &plain, "NaN");
    for (int i = 0; i < 128; i++) assert_true(isnan(get_float(&fast.t, 2 * 128 + i)));
    free_cloth(&fast), free_cloth(&plain), free_cloth(&cpu);
    close_stage(s);
}

/* ---- masks, which only the reference kernels serve ---- */

/* Rows at the end of a sequence of n_keys. */
static scene run_of(scene c, int n_keys, int n_rows) {
    c.n_rows = n_rows;
    for (int i = 0; i < n_rows; i++) c.rows[i] = (row){0, n_keys - n_rows + i};
    return c;
}

/* ATTENTION's reference over the run's keys as one tensor. */
static cloth run_dense(scene c, const stage *s) {
    int64_t heads = s->tensors[0].shape[1], n_keys = c.rows[c.n_rows - 1].pos + 1;
    int64_t kv_shape[2][4] = {{1, c.kv_heads, n_keys, c.d}, {1, c.kv_heads, n_keys, c.e}};
    int64_t wide[] = {1, heads, c.n_rows, c.e};
    cloth kv[2], out = new_result(&c), result = new_cloth(c.out, 4, wide, NULL, 0, CANARY);
    for (int i = 0; i < 2; i++) {
        const wr_tensor *pages = &s->in[1 + i].t;
        int64_t columns = kv_shape[i][3];
        kv[i] = new_input(F32, 4, kv_shape[i], NULL, 0);
        for (int64_t j = 0; j < size_of(&kv[i].t); j++) {
            int64_t key = j / columns % n_keys, head = j / columns / n_keys;
            int64_t page = ((const int32_t *)s->in[3].t.data)[key / c.page];
            put_float(&kv[i].t, j,
                      get_float(pages,
                                wr_kv_row(is_tiled(&c), page, key % c.page, head, c.page, c.kv_heads, pages->shape[3]) +
                                    wr_kv_column(is_tiled(&c), key % c.page, j % columns)));
        }
    }
    cloth mask = new_mask(&c, c.n_rows, heads, n_keys);
    for (int64_t i = 0; i < size_of(&mask.t) && (c.mask == NARROW || c.mask == EMPTY); i++) {
        if (i % n_keys < n_keys - 3 && c.mask == NARROW) continue;
        if (c.mask_dtype == WEIR_DTYPE_BOOL)
            ((uint8_t *)mask.t.data)[i] = 0;
        else
            put_float(&mask.t, i, -INFINITY);
    }
    wr_tensor in[5] = {s->in[0].t, kv[0].t, kv[1].t, mask.t, s->in[6].t};
    in[0] = (wr_tensor){.dtype = c.q,
                        .n_dims = 4,
                        .data = s->in[0].t.data,
                        .shape = {1, heads, c.n_rows, c.d},
                        .strides = {0, c.d, heads * c.d, 1}};
    in[3].n_dims = 4; /* [rows, heads, keys] to [1, heads, rows, keys] */
    for (int i = 0; i < 4; i++) {
        in[3].shape[i] = (int64_t[]){1, heads, c.n_rows, n_keys}[i];
        in[3].strides[i] = (int64_t[]){0, n_keys, heads * n_keys, 1}[i];
    }
    wr_step step = {.op = WR_OP_ATTENTION, .args = &s->args, .in = in, .n_in = 4 + c.sinks, .out = result.t};
    step.scratch = malloc(wr_ref_attention_scratch(&step, 1) + 1);
    wr_ref_attention(&step, 0, 1);
    free(step.scratch);
    for (int64_t i = 0; i < size_of(&out.t); i++) {
        int64_t t = i / c.e / heads, h = i / c.e % heads;
        put_float(&out.t, i, get_float(&result.t, (h * c.n_rows + t) * c.e + i % c.e));
    }
    free_cloth(&kv[0]), free_cloth(&kv[1]), free_cloth(&mask), free_cloth(&result);
    return out;
}

static void check_masked(scene c) {
    char what[160];
    stage *s = open_stage(&c);
    describe(&c, what, sizeof what);
    snprintf(what + strlen(what), sizeof what - strlen(what), ", mask %d of %s", c.mask, weir_dtype_name(c.mask_dtype));
    const wr_kernel_row *fast = row_named(wr_cuda_attention_rows(WR_OP_PAGED_ATTENTION), "paged");
    cloth got = run_paged(&c, s, "ref"), cpu = run_cpu(&c, s), dense = run_dense(c, s);
    assert_false(fast->fits(&s->step));
    check_close(&cpu, &dense, 1, 1e-6, what);
    check_close(&got, &dense, 1, slack(&c), what);
    check_f32(&c, s, &got, what);
    free_cloth(&got), free_cloth(&cpu), free_cloth(&dense);
    close_stage(s);
}

static weir_dtype mask_dtype_of(mask_kind kind, int turn) {
    static const weir_dtype floats[] = {F32, BF16, F16};
    return kind == ALIBI || kind == LOWEST ? F32 : turn % 2 ? floats[turn / 2 % 3] : WEIR_DTYPE_BOOL;
}

static const scene masked[] = {
    {.d = 64, .kv_heads = 2, .group = 4, .k = F32, .q = F32},
    {.d = 64, .kv_heads = 2, .group = 2, .k = BF16, .q = F32, .sinks = true},
    {.d = 128, .kv_heads = 1, .group = 3, .k = BF16, .window = 70},
    {.d = 128, .kv_heads = 1, .group = 2, .k = F32, .q = F32, .sinks = true, .softcap = 4},
    {.d = 192, .e = 128, .kv_heads = 1, .group = 2, .k = BF16, .q = F32, .softcap = 2, .sinks = true, .skew = 1},
    {.d = 192, .e = 128, .kv_heads = 1, .group = 2, .k = F32, .q = F32, .window = 40},
    {.d = 24, .kv_heads = 2, .group = 1, .page = 16, .k = F16, .q = F32},
};

static void masks_give_what_dense_attention_gives(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(masked); i++)
        for (mask_kind kind = ALL; kind <= EMPTY; kind++) {
            scene c = run_of(masked[i], 140 + 70 * (i % 3), 1 + (7 * i + kind) % 12);
            c.mask = kind;
            for (int turn = 0; turn < 2; turn++) {
                c.mask_dtype = mask_dtype_of(kind, 2 * i + turn);
                check_masked(c);
            }
        }
}

static void chunks_of_any_length_take_masks(void **state) {
    (void)state;
    for (int n = 1; n <= 40; n++) {
        scene c = run_of(masked[n % 2], 50 + 3 * n, n);
        c.mask = n % 3 == 0 ? TREE : n % 3 == 1 ? CAUSAL : ALIBI;
        c.mask_dtype = mask_dtype_of(c.mask, n / 3);
        check_masked(c);
    }
}

/* The bits of the fast kernels, that is. */
static void a_mask_that_hides_nothing_changes_no_bit(void **state) {
    (void)state;
    static const weir_dtype dtypes[] = {WEIR_DTYPE_BOOL, F32, BF16, F16};
    for (int i = 0; i < COUNT(masked); i++)
        for (int j = 0; j < COUNT(dtypes); j++) {
            scene plain = run_of(masked[i], j == 3 ? 700 : 200, 3), c = plain;
            c.mask = j % 2 ? CAUSAL : ALL, c.mask_dtype = dtypes[j];
            stage *s = open_stage(&c), *t = open_stage(&plain);
            cloth got = run_paged(&c, s, "ref"), want = run_paged(&plain, t, "ref");
            check_equal(&got, &want, "masked and not");
            if (row_named(wr_cuda_attention_rows(WR_OP_PAGED_ATTENTION), "paged")->fits(&t->step)) {
                cloth fast = run_paged(&plain, t, "paged");
                check_equal(&got, &fast, "masked and fast");
                free_cloth(&fast);
            }
            free_cloth(&got), free_cloth(&want);
            close_stage(s), close_stage(t);
        }
}

static void zero_and_infinity_have_the_bits_of_true_and_false(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(masked); i++)
        for (mask_kind kind = TREE; kind <= NARROW; kind++) {
            if (kind == ALIBI) continue;
            scene c = run_of(masked[i], 270, 6), d;
            c.mask = kind, c.mask_dtype = WEIR_DTYPE_BOOL;
            d = c, d.mask_dtype = F32;
            stage *s = open_stage(&c), *t = open_stage(&d);
            cloth bools = run_paged(&c, s, "ref"), floats = run_paged(&d, t, "ref");
            check_equal(&floats, &bools, "floats and bools");
            free_cloth(&bools), free_cloth(&floats);
            close_stage(s), close_stage(t);
        }
}

/* The pools' NaN stays out of rows that do not see it; SCATTERED rows that see nothing give 0 with sinks and without,
 * which masks_give_what_dense_attention_gives has seen. */
static void nothing_of_a_hidden_key_comes_into_a_row(void **state) {
    (void)state;
    for (int i = 0; i < COUNT(masked); i++) {
        scene c = run_of(masked[i], 150, 4);
        c.mask = NARROW, c.mask_dtype = i % 2 ? F32 : WEIR_DTYPE_BOOL;
        stage *s = open_stage(&c);
        cloth want = run_paged(&c, s, "ref");
        for (int kv = 0; kv < 2; kv++)
            for (int key = 3; key < 150; key += 7) {
                const wr_tensor *pages = &s->in[1 + kv].t;
                int64_t page = ((const int32_t *)s->in[3].t.data)[key / c.page];
                for (int head = 0; head < c.kv_heads; head++)
                    put_float(pages,
                              wr_kv_row(is_tiled(&c), page, key % c.page, head, c.page, c.kv_heads, pages->shape[3]) +
                                  wr_kv_column(is_tiled(&c), key % c.page, key % c.e),
                              key % 2 ? NAN : INFINITY);
            }
        cloth got = run_paged(&c, s, "ref");
        check_equal(&got, &want, "NaN in hidden keys");
        free_cloth(&got), free_cloth(&want);
        close_stage(s);
    }
}

/* Its place among the inputs, with a table of ropes behind it. */
static void masks_go_with_ropes(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        scene c = run_of(masked[i], 130, 5);
        c.half = 16, c.wide = true, c.mask = SCATTERED, c.mask_dtype = i % 2 ? F32 : WEIR_DTYPE_BOOL;
        check_plain(c);
    }
}

/* ---- the schedule ---- */

/* An item's own pages are those of the table from its first block on. */
static void check_pages(const stage *s, const wr_attn_item *item, int each) {
    const wr_tensor *table = &s->step.in[3];
    for (int i = 0; i < WR_ATTN_ITEM_PAGES && item->seq >= 0; i++) {
        int64_t at = (int64_t)item->block * each + i;
        bool there = at < ((int64_t)item->last + 1) * each && at < table->shape[1];
        int32_t page = there ? ((const int32_t *)table->data)[item->seq * table->shape[1] + at] : -1;
        assert_int_equal(item->page[i], page < s->step.in[1].shape[0] ? page : -1);
    }
}

/* Each query row and head sees each of its spans once; returns how many tiles, of a KV head each, are cut. */
static int check_schedule(scene c) {
    stage *s = open_stage(&c);
    cloth out = new_result(&c);
    s->step.out = out.t;
    const wr_kernel_row *kernels = wr_cuda_attention_rows(WR_OP_PAGED_ATTENTION);
    assert_true(kernels->fits(&s->step));
    cloth prepared = prepare(s, kernels);
    const wr_attn_schedule *head = prepared.t.data;
    const wr_attn_item *items = (const void *)((const char *)prepared.t.data + 256);
    int seen[MAX_ROWS][64] = {{0}}, cut = 0, block = c.d >= 192 ? 64 : 128;
    assert_int_equal(head->prefill_next, 0);
    for (uint32_t chunk = 0; chunk < head->n_chunks; chunk++) {
        const wr_attn_item *item = items[chunk].n_rows > 0 ? &items[chunk] : NULL;
        for (; item; item = item->next >= 0 ? &items[item->next] : NULL) {
            assert_in_range(item->n_rows, 1, WR_ATTN_TILE_ROWS);
            assert_in_range(item->head, 0, c.kv_heads - 1);
            check_pages(s, item, block / WR_KV_TILE);
            for (int r = 0; r < item->n_rows; r++) {
                int at = item->row + (item->first + r) / c.group;
                assert_in_range(at, 0, c.n_rows - 1);
                assert_int_equal(c.rows[at].seq, item->seq);
                if (item->seq >= 0) assert_int_equal(c.rows[at].pos, item->pos + (item->first + r) / c.group);
                if (item->n_spans == 0) seen[at][0]++;
                for (int span = item->span; span < item->span + item->n_spans; span++) seen[at][span]++;
            }
            if (item->n_parts == 0) continue;
            cut += item->part_span == item->span;
            assert_true(item->n_items > 1 && item->n_parts > 1);
            assert_in_range(item->span + item->n_spans - 1 - item->part_span, 0,
                            item->part_span == item->span ? 60 : item->n_parts - 1);
            assert_true(item->partial + (uint32_t)(item->n_parts * item->n_rows) <= head->n_partial_rows);
        }
    }
    for (int i = 0; i < c.n_rows; i++) {
        int last = c.rows[i].pos / block; /* spans of one block, then of two */
        int n_spans = c.rows[i].seq < 0 ? 1 : last < 4 ? last + 1 : 4 + (last - 4) / 2 + 1;
        for (int span = 0; span < n_spans; span++) assert_int_equal(seen[i][span], c.group * c.kv_heads);
    }
    free_cloth(&prepared), free_cloth(&out);
    close_stage(s);
    return cut;
}

static void the_schedule_lists_all_work_once(void **state) {
    (void)state;
    /* One long sequence is cut. */
    assert_int_equal(check_schedule((scene){.d = 128, .kv_heads = 2, .group = 4, .n_rows = 1, .rows = {{0, 1900}}}), 2);
    assert_int_equal(check_schedule((scene){.d = 256, .kv_heads = 2, .group = 4, .n_rows = 1, .rows = {{0, 1900}}}), 2);
    /* One of two blocks is not: it would gain less than a merge takes. */
    assert_int_equal(check_schedule((scene){.d = 128, .kv_heads = 2, .group = 4, .n_rows = 1, .rows = {{0, 255}}}), 0);
    assert_int_equal(check_schedule((scene){.d = 128, .kv_heads = 2, .group = 4, .n_rows = 1, .rows = {{0, 1023}}}), 2);
    /* Many short ones are not. */
    scene many = {.d = 128, .kv_heads = 8, .group = 4, .n_rows = 64};
    for (int i = 0; i < 64; i++) many.rows[i] = (row){i, 700 + i};
    assert_int_equal(check_schedule(many), 0);
    /* Among many short ones, a long one is. */
    many.rows[30].pos = 2047;
    many.kv_heads = 1;
    many.d = 64;
    for (int i = 0; i < 64; i++)
        if (i != 30) many.rows[i].pos = i;
    assert_int_equal(check_schedule(many), 1);
    /* Padding, runs, groups that do not divide a tile. */
    scene mixed = {.d = 64, .kv_heads = 1, .group = 5, .n_rows = 100};
    for (int i = 0; i < 100; i++)
        mixed.rows[i] = i < 50 ? (row){0, 10 + i} : i < 60 ? (row){-1, 0} : (row){1 + i / 9, i};
    check_schedule(mixed);
}

/* When there is no room for parts, no tile is cut. */
static void tiles_are_cut_while_there_is_room(void **state) {
    (void)state;
    enum { ROWS = 8, CHUNKS = 12 };
    static int32_t seq[ROWS], pos[ROWS], start[ROWS], end[ROWS];
    static wr_attn_tile tiles[ROWS];
    static wr_attn_item items[CHUNKS * 2 + ROWS], cuts[CHUNKS];
    static uint32_t arrived[CHUNKS];
    static wr_attn_schedule head;
    for (int i = 0; i < ROWS; i++) seq[i] = 0, pos[i] = 1000 + i;
    wr_attn_schedule_params params = {.row_seq = seq,
                                      .row_pos = pos,
                                      .schedule = &head,
                                      .items = items,
                                      .cuts = cuts,
                                      .arrived = arrived,
                                      .value_dim = 128,
                                      .run_start = start,
                                      .run_end = end,
                                      .tiles = tiles,
                                      .n_keys = 2048,
                                      .n_rows = ROWS,
                                      .n_seqs = 1,
                                      .kv_heads = 1,
                                      .group = 4,
                                      .block = 128,
                                      .n_blocks = CHUNKS,
                                      .tile_rows = 32,
                                      .max_tiles = ROWS};
    wr_launch_spec spec = {.kernel = "wr_attn_schedule_kernel",
                           .blocks = 1,
                           .threads = WR_ATTN_SCHEDULE_THREADS,
                           .params = &params,
                           .params_bytes = sizeof params};
    static const struct {
        uint32_t room;
        int n_items, n_cuts;
    } cases[] = {{192, 6, 1}, {191, 1, 0}, {0, 1, 0}};
    for (int i = 0; i < COUNT(cases); i++) { /* four spans of 128 keys, two of 256, 32 query rows: 192 parts */
        params.max_partial_rows = cases[i].room;
        weir_error err = {0};
        if (wr_launch(NULL, &spec, &err) != WEIR_OK) fail_msg("%s", err.message);
        int n_items = 0, n_spans = 0;
        for (int c = 0; c < CHUNKS; c++) {
            if (items[c].n_rows == 0) continue;
            assert_int_equal(items[c].n_parts, cases[i].n_items > 1 ? 6 : 0);
            assert_int_equal(items[c].next, -1);
            n_items++;
            n_spans += items[c].n_spans;
        }
        assert_int_equal(n_items, cases[i].n_items);
        assert_int_equal(n_spans, 6);
        assert_int_equal(head.n_cuts, cases[i].n_cuts);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length_is_right_at_every_head_size),
        cmocka_unit_test(other_types_are_right),
        cmocka_unit_test(every_group_is_right),
        cmocka_unit_test(windows_caps_and_sinks_are_right),
        cmocka_unit_test(rows_that_see_nothing_give_zero),
        cmocka_unit_test(keys_on_no_page_are_not_seen),
        cmocka_unit_test(queries_without_alignment_are_right),
        cmocka_unit_test(ropes_are_right),
        cmocka_unit_test(a_row_has_the_same_bits_alone),
        cmocka_unit_test(long_contexts_are_right),
        cmocka_unit_test(runs_of_many_rows_have_the_reference_bits),
        cmocka_unit_test(the_reference_takes_any_shape),
        cmocka_unit_test(little_shared_memory_is_enough),
        cmocka_unit_test(a_nan_stays_in_its_row),
        cmocka_unit_test(masks_give_what_dense_attention_gives),
        cmocka_unit_test(chunks_of_any_length_take_masks),
        cmocka_unit_test(a_mask_that_hides_nothing_changes_no_bit),
        cmocka_unit_test(zero_and_infinity_have_the_bits_of_true_and_false),
        cmocka_unit_test(nothing_of_a_hidden_key_comes_into_a_row),
        cmocka_unit_test(masks_go_with_ropes),
        cmocka_unit_test(the_schedule_lists_all_work_once),
        cmocka_unit_test(tiles_are_cut_while_there_is_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
