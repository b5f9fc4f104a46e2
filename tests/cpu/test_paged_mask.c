/* Masks of attention over pages: the reference and every fast row against ATTENTION's reference over the same keys as
 * one tensor, and what a mask must not change. */
#include "fast_test.h"

#include <float.h>

#include "cpu/ref/kernels.h"

enum { REFERENCE = -1 /* as a level: the reference kernel */ };

/* Masks of a chunk of rows behind a context. All but NARROW are [T, H, S] or [T, 1, S]. */
typedef enum mask_kind {
    NO_MASK,
    ALL,       /* true, or 0 */
    CAUSAL,    /* what is seen anyway */
    TREE,      /* rows are drafts of a tree: each sees the context, its ancestors and itself */
    ALIBI,     /* a slope a head times the distance */
    SCATTERED, /* by row, head and key; rows that are multiples of 5 see nothing */
    NARROW,    /* [S - 3]: one for all rows and heads, and the last keys are beyond it */
    LOWEST     /* the lowest finite number for all keys */
} mask_kind;

/* Rows at positions n_keys - n_rows and on of one sequence. */
typedef struct scene {
    int64_t d, e, kv, group, page, n_keys, n_rows;
    weir_dtype q, cache;
    int64_t window;
    float softcap;
    bool sinks;
    mask_kind kind;
    weir_dtype mask;
} scene;

typedef struct stage {
    wr_attention_args args;
    wr_tensor q, k, v, k_pages, v_pages, table, seq, pos, mask, wide_mask, sinks;
} stage;

/* What the mask adds for row t, head h and key p; -INFINITY: hides it. */
static float mask_value(const scene *c, int64_t t, int64_t h, int64_t p) {
    int64_t first = c->n_keys - c->n_rows;
    switch (c->kind) {
    case CAUSAL: return p <= first + t ? 0 : -INFINITY;
    case TREE: {
        for (int64_t i = t; i >= 0; i = i > 0 ? (i - 1) / 2 : -1) /* node i's parent is (i - 1) / 2 */
            if (p == first + i) return 0;
        return p < first ? 0 : -INFINITY;
    }
    case ALIBI: return -exp2f(-(float)h) * (float)(first + t - p);
    case SCATTERED: return t % 5 && noise((uint64_t)((t * 64 + h) * 100003 + p)) > 0.3f ? 0 : -INFINITY;
    case NARROW: return p % 7 == 3 ? -INFINITY : 0;
    case LOWEST: return -FLT_MAX;
    default: return 0;
    }
}

static void put_mask(const wr_tensor *mask, int64_t at, float x) {
    put(mask, at, mask->dtype == WEIR_DTYPE_BOOL ? x != -INFINITY : x);
}

static void fill_masks(const scene *c, stage *s) {
    int64_t heads = c->kv * c->group, n = c->kind == NARROW ? c->n_keys - 3 : c->n_keys;
    bool all_rows = c->kind == NARROW, all_heads = all_rows || c->kind == CAUSAL || c->kind == TREE;
    s->mask = TENSOR(c->mask, all_rows ? 1 : c->n_rows, all_heads ? 1 : heads, n);
    s->wide_mask = TENSOR(c->mask, 1, heads, c->n_rows, c->n_keys);
    for (int64_t i = 0; i < tensor_size(&s->mask); i++)
        put_mask(&s->mask, i, mask_value(c, i / n / s->mask.shape[1], i / n % s->mask.shape[1], i % n));
    for (int64_t i = 0; i < tensor_size(&s->wide_mask); i++) {
        int64_t p = i % c->n_keys, t = i / c->n_keys % c->n_rows, h = i / c->n_keys / c->n_rows;
        put_mask(&s->wide_mask, i, p < n ? mask_value(c, t, h, p) : -INFINITY);
    }
}

/* Pages lie from the last to the first; what holds no key is NaN. */
static void fill_pages(const scene *c, const wr_tensor *plain, wr_tensor *pages, int64_t n_pages, int64_t columns) {
    *pages = TENSOR(plain->dtype, n_pages, c->page, c->kv, columns);
    size_t bytes = (size_t)(c->kv * columns) * weir_dtype_bytes(plain->dtype);
    for (int64_t i = 0; i < c->n_keys; i++)
        memcpy((char *)pages->data + (size_t)((n_pages - 1 - i / c->page) * c->page + i % c->page) * bytes,
               (const char *)plain->data + (size_t)i * bytes, bytes);
}

static stage open_stage(const scene *c) {
    stage s = {.args = {.scale = 1 / sqrtf((float)c->d),
                        .softcap = c->softcap,
                        .causal = true,
                        .has_mask = c->kind != NO_MASK,
                        .has_sinks = c->sinks,
                        .window = c->window}};
    int64_t n_pages = (c->n_keys + c->page - 1) / c->page;
    s.q = TENSOR(c->q, c->n_rows, c->kv * c->group, c->d);
    s.k = TENSOR(c->cache, c->n_keys, c->kv, c->d);
    s.v = TENSOR(c->cache, c->n_keys, c->kv, c->e);
    fill(&s.q, 1, 2), fill(&s.k, 2, 2), fill(&s.v, 3, 1);
    fill_pages(c, &s.k, &s.k_pages, n_pages, c->d);
    fill_pages(c, &s.v, &s.v_pages, n_pages, c->e);
    s.table = TENSOR(WEIR_DTYPE_I32, 1, n_pages);
    s.seq = TENSOR(WEIR_DTYPE_I32, c->n_rows);
    s.pos = TENSOR(WEIR_DTYPE_I32, c->n_rows);
    for (int64_t i = 0; i < n_pages; i++) put(&s.table, i, (float)(n_pages - 1 - i));
    for (int64_t i = 0; i < c->n_rows; i++) put(&s.seq, i, 0), put(&s.pos, i, (float)(c->n_keys - c->n_rows + i));
    s.sinks = TENSOR(WEIR_DTYPE_F32, c->kv * c->group);
    fill(&s.sinks, 4, 2);
    if (c->kind != NO_MASK) fill_masks(c, &s);
    return s;
}

static void close_stage(stage *s) {
    wr_tensor *all[] = {&s->q, &s->k, &s->v, &s->k_pages, &s->v_pages, &s->table, &s->seq, &s->pos, &s->sinks};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free_tensor(all[i]);
    if (!s->args.has_mask) return;
    free_tensor(&s->mask), free_tensor(&s->wide_mask);
}

static void run_reference(wr_step *step, wr_kernel kernel) {
    step->scratch = malloc(wr_ref_attention_scratch(step, 1) + 1);
    kernel(step, 0, 1);
    free(step->scratch);
    check_guards(&step->out);
}

/* Rows first .. first + n - 1 of the scene. */
static wr_tensor run_rows(const scene *c, stage *s, int level, int n_threads, int64_t first, int64_t n) {
    wr_tensor in[8] = {s->q, s->k_pages, s->v_pages, s->table, s->seq, s->pos};
    int n_in = 6;
    if (s->args.has_mask) in[n_in++] = s->mask;
    if (s->args.has_sinks) in[n_in++] = s->sinks;
    for (int i = 0; i < 7; i++) {
        if (i > 0 && i < 4) continue;
        if (i == 6 && (!s->args.has_mask || in[6].shape[0] != c->n_rows)) continue;
        in[i].shape[0] = n;
        in[i].data = (char *)in[i].data + (size_t)(first * in[i].strides[0]) * weir_dtype_bytes(in[i].dtype);
    }
    wr_step step = {.op = WR_OP_PAGED_ATTENTION, .args = &s->args, .n_in = n_in, .in = in};
    step.out = TENSOR(c->q, n, c->kv * c->group, c->e);
    if (level == REFERENCE)
        run_reference(&step, wr_ref_paged_attention);
    else
        run_level(wr_cpu_paged_attention_rows, &step, (wr_cpu_isa)level, n_threads, false);
    return step.out;
}
static wr_tensor run_paged(const scene *c, stage *s, int level, int n_threads) {
    return run_rows(c, s, level, n_threads, 0, c->n_rows);
}

/* [T, H, E] as the paged op gives it. */
static wr_tensor run_dense(const scene *c, stage *s, int level) {
    int64_t heads = c->kv * c->group;
    wr_tensor in[5] = {s->q, s->k, s->v}, out = TENSOR(c->q, c->n_rows, heads, c->e);
    int n_in = 3;
    if (s->args.has_mask) in[n_in++] = s->wide_mask;
    if (s->args.has_sinks) in[n_in++] = s->sinks;
    for (int i = 0; i < 3; i++) { /* [length, heads, columns] to [1, heads, length, columns] */
        wr_tensor t = in[i];
        in[i] = (wr_tensor){.dtype = t.dtype,
                            .n_dims = 4,
                            .data = t.data,
                            .shape = {1, t.shape[1], t.shape[0], t.shape[2]},
                            .strides = {0, t.strides[1], t.strides[0], 1}};
    }
    wr_step step = {.op = WR_OP_ATTENTION, .args = &s->args, .n_in = n_in, .in = in};
    step.out = TENSOR(c->q, 1, heads, c->n_rows, c->e);
    if (level == REFERENCE)
        run_reference(&step, wr_ref_attention);
    else
        run_level(wr_cpu_attention_rows, &step, (wr_cpu_isa)level, 1, false);
    for (int64_t i = 0; i < tensor_size(&out); i++) {
        int64_t column = i % c->e, h = i / c->e % heads, t = i / c->e / heads;
        put(&out, i, (float)get(&step.out, (h * c->n_rows + t) * c->e + column));
    }
    free_tensor(&step.out);
    return out;
}

/* The reference computes in double; fast rows in f32, with scores up to about 20. Then the result's own rounding. */
static void check_near(const scene *c, const wr_tensor *got, const wr_tensor *want, int level) {
    double slack = (level == REFERENCE ? 1e-6 : 2e-5) + (c->q == WEIR_DTYPE_F32 ? 0 : 5e-3);
    for (int64_t i = 0; i < tensor_size(got); i++)
        if (!(fabs(get(got, i) - get(want, i)) <= slack))
            fail_msg("D%d, %d rows of %d keys, mask %d of %s, level %d: element %d is %.9g, not %.9g", (int)c->d,
                     (int)c->n_rows, (int)c->n_keys, c->kind, weir_dtype_name(c->mask), level, (int)i, get(got, i),
                     get(want, i));
}

/* The reference and every level that this machine has. */
#define FOR_EACH_ROW(level) for (int level = REFERENCE; level <= (int)wr_cpu_machine_level(); level++)

static const scene scenes[] = {
    {.d = 64,
     .e = 64,
     .kv = 2,
     .group = 4,
     .page = 16,
     .n_keys = 150,
     .n_rows = 9,
     .q = WEIR_DTYPE_F32,
     .cache = WEIR_DTYPE_F32},
    {.d = 128,
     .e = 128,
     .kv = 1,
     .group = 3,
     .page = 32,
     .n_keys = 300,
     .n_rows = 33,
     .q = WEIR_DTYPE_F32,
     .cache = WEIR_DTYPE_BF16,
     .sinks = true},
    {.d = 192,
     .e = 128,
     .kv = 1,
     .group = 2,
     .page = 16,
     .n_keys = 90,
     .n_rows = 5,
     .q = WEIR_DTYPE_F32,
     .cache = WEIR_DTYPE_BF16,
     .window = 40,
     .sinks = true},
    {.d = 80,
     .e = 80,
     .kv = 2,
     .group = 1,
     .page = 16,
     .n_keys = 70,
     .n_rows = 1,
     .q = WEIR_DTYPE_BF16,
     .cache = WEIR_DTYPE_BF16,
     .softcap = 5},
    {.d = 20,
     .e = 12,
     .kv = 2,
     .group = 2,
     .page = 16,
     .n_keys = 600,
     .n_rows = 40,
     .q = WEIR_DTYPE_F32,
     .cache = WEIR_DTYPE_F16,
     .window = 100},
};
enum { N_SCENES = sizeof scenes / sizeof *scenes };

/* A kind that only hides is made of bools and of floats in turn. */
static weir_dtype dtype_of(mask_kind kind, int turn) {
    static const weir_dtype floats[] = {WEIR_DTYPE_F32, WEIR_DTYPE_BF16, WEIR_DTYPE_F16};
    return kind == ALIBI || kind == LOWEST ? WEIR_DTYPE_F32 : turn % 2 ? floats[turn / 2 % 3] : WEIR_DTYPE_BOOL;
}

static void check_against_dense(scene c) {
    stage s = open_stage(&c);
    wr_tensor want = run_dense(&c, &s, REFERENCE);
    FOR_EACH_ROW(level) {
        wr_tensor got = run_paged(&c, &s, level, 2);
        check_near(&c, &got, &want, level);
        free_tensor(&got);
    }
    free_tensor(&want);
    close_stage(&s);
}

static void masks_give_what_dense_attention_gives(void **state) {
    (void)state;
    for (int i = 0; i < N_SCENES; i++)
        for (mask_kind kind = ALL; kind < LOWEST; kind++)
            for (int turn = 0; turn < 2; turn++) {
                scene c = scenes[i];
                c.kind = kind, c.mask = dtype_of(kind, 2 * i + turn);
                check_against_dense(c);
            }
}

static void chunks_of_any_length_give_what_dense_attention_gives(void **state) {
    (void)state;
    for (int n = 1; n <= 40; n++)
        for (mask_kind kind = TREE; kind <= SCATTERED; kind++)
            check_against_dense((scene){64, 64, 1, 2, 16, 60 + 3 * n, n, WEIR_DTYPE_F32, WEIR_DTYPE_BF16, 0, 0, n % 2,
                                        kind, dtype_of(kind, n)});
}

/* Bits with a mask of `kind` and `dtype` and with `other`. */
static void check_same_bits(scene c, mask_kind kind, weir_dtype dtype, mask_kind other, weir_dtype other_dtype) {
    scene d = c;
    c.kind = kind, c.mask = dtype;
    d.kind = other, d.mask = other_dtype;
    stage s = open_stage(&c), r = open_stage(&d);
    FOR_EACH_ROW(level) {
        wr_tensor got = run_paged(&c, &s, level, 2), want = run_paged(&d, &r, level, 2);
        assert_memory_equal(got.data, want.data, tensor_bytes(&want));
        free_tensor(&got), free_tensor(&want);
    }
    close_stage(&s), close_stage(&r);
}

static void a_mask_that_hides_nothing_changes_no_bit(void **state) {
    (void)state;
    static const weir_dtype dtypes[] = {WEIR_DTYPE_BOOL, WEIR_DTYPE_F32, WEIR_DTYPE_BF16, WEIR_DTYPE_F16};
    for (int i = 0; i < N_SCENES; i++)
        for (int j = 0; j < 4; j++) {
            check_same_bits(scenes[i], ALL, dtypes[j], NO_MASK, WEIR_DTYPE_F32);
            check_same_bits(scenes[i], CAUSAL, dtypes[j], NO_MASK, WEIR_DTYPE_F32);
        }
}

static void zero_and_infinity_have_the_bits_of_true_and_false(void **state) {
    (void)state;
    for (int i = 0; i < N_SCENES; i++)
        for (mask_kind kind = TREE; kind <= NARROW; kind++)
            if (kind != ALIBI) check_same_bits(scenes[i], kind, WEIR_DTYPE_F32, kind, WEIR_DTYPE_BOOL);
}

/* Any number of threads, any chunk: a lone row goes another way than a tile, and spreads its spans over threads. */
static void masked_rows_alone_and_on_many_threads_have_the_same_bits(void **state) {
    (void)state;
    for (int i = 0; i < N_SCENES; i++)
        for (mask_kind kind = TREE; kind <= NARROW; kind++) {
            scene c = scenes[i];
            c.kind = kind, c.mask = dtype_of(kind, i);
            stage s = open_stage(&c);
            FOR_EACH_ROW(level) {
                wr_tensor all = run_paged(&c, &s, level, 1);
                size_t bytes = tensor_bytes(&all) / (size_t)c.n_rows;
                for (int64_t t = 0, n; t < c.n_rows; t += n) {
                    n = t % 3 ? 1 : c.n_rows - t < 3 ? c.n_rows - t : 3;
                    wr_tensor part = run_rows(&c, &s, level, t % 2 ? 5 : 2, t, n);
                    assert_memory_equal(part.data, (char *)all.data + (size_t)t * bytes, tensor_bytes(&part));
                    free_tensor(&part);
                }
                free_tensor(&all);
            }
            close_stage(&s);
        }
}

static void a_row_whose_keys_are_all_hidden_gives_zero(void **state) {
    (void)state;
    for (int sinks = 0; sinks < 2; sinks++)
        for (int turn = 0; turn < 2; turn++) {
            scene c = {64,
                       64,
                       2,
                       2,
                       16,
                       150,
                       11,
                       WEIR_DTYPE_F32,
                       WEIR_DTYPE_F16,
                       0,
                       0,
                       sinks,
                       SCATTERED,
                       turn ? WEIR_DTYPE_F32 : WEIR_DTYPE_BOOL};
            stage s = open_stage(&c);
            FOR_EACH_ROW(level)
            for (int n = 1; n <= 11; n += 10) { /* alone, and in a tile */
                wr_tensor paged = run_rows(&c, &s, level, 1, 5, n == 1 ? 1 : 6), dense = run_dense(&c, &s, level);
                for (int64_t j = 0; j < 4 * 64; j++) {
                    assert_true(get(&paged, j) == 0);
                    assert_true(get(&dense, 5 * 4 * 64 + j) == 0);
                }
                free_tensor(&paged), free_tensor(&dense);
            }
            close_stage(&s);
        }
}

/* As dense attention: a score as low as it can be still is one, and where all are, all weigh the same. */
static void the_lowest_number_hides_no_key_from_a_row_that_has_no_other(void **state) {
    (void)state;
    for (int i = 0; i < N_SCENES; i++) {
        scene c = scenes[i];
        c.kind = LOWEST, c.mask = WEIR_DTYPE_F32;
        c.sinks = false;
        check_against_dense(c);
        stage s = open_stage(&c);
        wr_tensor want = run_dense(&c, &s, REFERENCE);
        FOR_EACH_ROW(level) {
            wr_tensor dense = run_dense(&c, &s, level);
            check_near(&c, &dense, &want, level);
            free_tensor(&dense);
        }
        free_tensor(&want);
        close_stage(&s);
    }
}

/* NaN and infinity in hidden keys and values stay there, paged and dense. */
static void nothing_of_a_hidden_key_comes_into_a_row(void **state) {
    (void)state;
    for (int rows = 1; rows <= 20; rows += 19)
        for (int turn = 0; turn < 2; turn++) {
            scene c = {64,
                       64,
                       1,
                       2,
                       16,
                       100,
                       rows,
                       WEIR_DTYPE_F32,
                       WEIR_DTYPE_F32,
                       0,
                       0,
                       true,
                       NARROW,
                       turn ? WEIR_DTYPE_F32 : WEIR_DTYPE_BOOL};
            stage s = open_stage(&c), bad = open_stage(&c);
            wr_tensor *pools[] = {&bad.k, &bad.v, &bad.k_pages, &bad.v_pages};
            int64_t last_page = (c.n_keys - 1) / c.page;
            for (int64_t p = 3; p < c.n_keys; p += 7) /* what NARROW hides */
                for (int i = 0; i < 4; i++)
                    put(pools[i], (i < 2 ? p : (last_page - p / c.page) * c.page + p % c.page) * 64 + p % 64,
                        i % 2 ? INFINITY : NAN);
            FOR_EACH_ROW(level) {
                wr_tensor want = run_paged(&c, &s, level, 1), got = run_paged(&c, &bad, level, 1);
                assert_memory_equal(got.data, want.data, tensor_bytes(&want));
                free_tensor(&want), free_tensor(&got);
                want = run_dense(&c, &s, level), got = run_dense(&c, &bad, level);
                assert_memory_equal(got.data, want.data, tensor_bytes(&want));
                free_tensor(&want), free_tensor(&got);
            }
            close_stage(&s), close_stage(&bad);
        }
}

/* No key at all is within the mask. */
static void an_empty_mask_hides_everything(void **state) {
    (void)state;
    for (int rows = 1; rows <= 20; rows += 19) {
        scene c = {64, 64, 1, 2, 16, 100, rows, WEIR_DTYPE_F32, WEIR_DTYPE_F32, 0, 0, true, NARROW, WEIR_DTYPE_BOOL};
        stage s = open_stage(&c);
        s.mask.shape[2] = 0;
        FOR_EACH_ROW(level)
        for (int threads = 1; threads < 4; threads++) {
            wr_tensor y = run_paged(&c, &s, level, threads);
            for (int64_t i = 0; i < tensor_size(&y); i++) assert_true(get(&y, i) == 0);
            free_tensor(&y);
        }
        s.mask.shape[2] = c.n_keys - 3;
        close_stage(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_give_what_dense_attention_gives),
        cmocka_unit_test(chunks_of_any_length_give_what_dense_attention_gives),
        cmocka_unit_test(a_mask_that_hides_nothing_changes_no_bit),
        cmocka_unit_test(zero_and_infinity_have_the_bits_of_true_and_false),
        cmocka_unit_test(masked_rows_alone_and_on_many_threads_have_the_same_bits),
        cmocka_unit_test(a_row_whose_keys_are_all_hidden_gives_zero),
        cmocka_unit_test(the_lowest_number_hides_no_key_from_a_row_that_has_no_other),
        cmocka_unit_test(nothing_of_a_hidden_key_comes_into_a_row),
        cmocka_unit_test(an_empty_mask_hides_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
