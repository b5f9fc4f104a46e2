/* ATTENTION over whole tensors on the emulated card, against the CPU reference: every row of the table, all masks,
 * layouts and head sizes, hidden NaNs, and rows whose bits do not depend on what stands beside them. */
#include "step_test.h"

#include "cuda/attention.h"

#define F32  WEIR_DTYPE_F32
#define F16  WEIR_DTYPE_F16
#define BF16 WEIR_DTYPE_BF16

enum { NO_MASK, BOOL_MASK, FLOAT_MASK, BROADCAST_MASK };

typedef struct shape {
    weir_dtype dtype;
    int64_t b, h, g, l, s, d, e, window;
    bool causal, sinks, swapped, fast; /* swapped: stored as [B, L, H, D]; fast: the mma row takes it */
    int mask, skew;
    float softcap;
} shape;

typedef struct fabric {
    wr_attention_args args;
    cloth in[5];
    int n_in;
} fabric;

static cloth new_operand(const shape *c, int64_t heads, int64_t length, int64_t width, uint64_t seed) {
    int64_t dims[] = {c->b, heads, length, width}, strides[] = {heads * length * width, width, heads * width, 1};
    cloth x = new_input(c->dtype, 4, dims, c->swapped ? strides : NULL, c->skew);
    fill_tame(&x.t, seed, 1);
    return x;
}

/* NaN in what nobody may look at. */
static void poison(const wr_tensor *t, int64_t key) {
    for (int64_t i = 0; i < size_of(t); i++)
        if (i / t->shape[3] % t->shape[2] == key) put_float(t, offset_of(t, i), NAN);
}

static fabric weave(const shape *c) {
    fabric f = {.args = {.scale = 1 / sqrtf((float)(c->d ? c->d : 1)) * 4,
                         .softcap = c->softcap,
                         .causal = c->causal,
                         .window = c->window,
                         .has_mask = c->mask != NO_MASK,
                         .has_sinks = c->sinks},
                .n_in = 3};
    f.in[0] = new_operand(c, c->h, c->l, c->d, 1);
    f.in[1] = new_operand(c, c->g, c->s, c->d, 2);
    f.in[2] = new_operand(c, c->g, c->s, c->e, 3);
    if (c->mask) {
        int64_t dims[] = {c->b, c->h, c->l, c->s}, flat[] = {0, 0, 0, 1};
        weir_dtype dtype = c->mask == BOOL_MASK ? WEIR_DTYPE_BOOL : c->mask == FLOAT_MASK ? F32 : c->dtype;
        cloth mask = new_input(dtype, 4, dims, c->mask == BROADCAST_MASK ? flat : NULL, 0);
        for (int64_t i = 0; i < size_of(&mask.t); i++) {
            int64_t at = offset_of(&mask.t, i), key = i % c->s;
            /* Key 3 is hidden from all, some by chance; the first row sees nothing. */
            bool seen = key != 3 && mix((uint64_t)at) % 3 && (i / c->s % c->l != 0 || c->mask == BROADCAST_MASK);
            if (dtype == WEIR_DTYPE_BOOL)
                put_int(&mask.t, at, seen);
            else
                put_float(&mask.t, at, seen ? (float)(mix((uint64_t)at) % 5) - 2 : -INFINITY);
        }
        f.in[f.n_in++] = mask;
        if (c->s > 3) poison(&f.in[1].t, 3), poison(&f.in[2].t, 3);
    }
    if (c->sinks) {
        f.in[f.n_in] = new_input(F32, 1, &c->h, NULL, 0);
        fill_tame(&f.in[f.n_in].t, 4, 3);
        if (c->h > 1) ((float *)f.in[f.n_in].t.data)[1] = -INFINITY;
        f.n_in++;
    }
    return f;
}

static void unravel(fabric *f) {
    for (int i = 0; i < f->n_in; i++) free_cloth(&f->in[i]);
}

static wr_step step_of(const fabric *f, wr_tensor *in) {
    for (int i = 0; i < f->n_in; i++) in[i] = f->in[i].t;
    return (wr_step){.op = WR_OP_ATTENTION, .args = &f->args, .n_in = f->n_in, .in = in};
}

static void reference(wr_step *step, const cloth *out) {
    step->out = out->t;
    step->scratch = malloc(wr_ref_attention_scratch(step, 1) + 1);
    wr_ref_attention(step, 0, 1);
    free(step->scratch);
    step->scratch = NULL;
}

static void check_shape(const shape *c) {
    static const char *const names[] = {"mma", "ref"};
    fabric f = weave(c);
    wr_tensor in[5];
    wr_step step = step_of(&f, in);
    int64_t dims[] = {c->b, c->h, c->l, c->e};
    cloth want = new_output(c->dtype, 4, dims, 0);
    reference(&step, &want);
    for (int r = 0; r < COUNT(names); r++) {
        char what[120];
        snprintf(what, sizeof what, "%s of B%d H%d/%d L%d S%d D%d/%d causal %d window %d mask %d", names[r], (int)c->b,
                 (int)c->h, (int)c->g, (int)c->l, (int)c->s, (int)c->d, (int)c->e, c->causal, (int)c->window, c->mask);
        cloth got = new_output(c->dtype, 4, dims, c->skew);
        bool ran = run_row(wr_cuda_dense_attention_rows(), names[r], &step, &got);
        assert_int_equal(ran, r == 1 || c->fast);
        /* The fast row rounds weights to 16 bits: 2^-9 or 2^-12 of values below 1. */
        double least = r == 1 ? 2e-6 : c->dtype == F16 ? 5e-4 : 4e-3;
        if (ran) check_close(&got, &want, c->dtype == F32 ? 8 : 1, least, what);
        free_cloth(&got);
    }
    free_cloth(&want);
    unravel(&f);
}

static void every_head_size_follows_the_reference(void **state) {
    (void)state;
    static const int64_t sizes[][2] = {{64, 64}, {80, 80}, {96, 96}, {128, 128}, {192, 128}, {256, 256}, {512, 512}};
    for (int i = 0; i < COUNT(sizes); i++)
        for (int f16 = 0; f16 < 2; f16++)
            check_shape(&(shape){.dtype = f16 ? F16 : BF16,
                                 .b = 1,
                                 .h = 2,
                                 .g = 1,
                                 .l = 67,
                                 .s = 133,
                                 .d = sizes[i][0],
                                 .e = sizes[i][1],
                                 .causal = true,
                                 .fast = true});
}

static void masks_windows_sinks_and_caps_follow_the_reference(void **state) {
    (void)state;
    for (int mask = NO_MASK; mask <= BROADCAST_MASK; mask++)
        for (int i = 0; i < 4; i++)
            check_shape(&(shape){.dtype = i == 3               ? F32
                                          : mask == FLOAT_MASK ? F16
                                                               : BF16,
                                 .b = 2,
                                 .h = 3,
                                 .g = i == 2 ? 3 : 1,
                                 .l = 70,
                                 .s = 150,
                                 .d = 64,
                                 .e = 64,
                                 .causal = i == 1,
                                 .window = i == 2 ? 20 : 0,
                                 .sinks = i != 0,
                                 .softcap = i == 2 ? 2.0f : 0,
                                 .mask = mask,
                                 .swapped = i == 1,
                                 .fast = i != 3});
}

static void odd_sizes_and_layouts_follow_the_reference(void **state) {
    (void)state;
    static const shape shapes[] = {
        {F32, 1, 1, 1, 1, 1, 1, 1, 0, false, false, false, false, NO_MASK, 0, 0},
        {F32, 1, 2, 2, 5, 7, 33, 1100, 0, true, true, false, false, NO_MASK, 0, 0},
        {BF16, 1, 2, 1, 3, 65, 40, 24, 0, false, false, true, false, FLOAT_MASK, 0, 1.5f},
        {F16, 1, 1, 1, 9, 4, 64, 64, 0, true, true, false, true, NO_MASK, 0, 0},   /* the first rows see nothing */
        {BF16, 1, 2, 1, 5, 0, 64, 64, 0, false, true, false, true, NO_MASK, 0, 0}, /* no keys */
        {F32, 1, 2, 1, 5, 0, 8, 8, 0, true, false, false, false, NO_MASK, 0, 0},
        {BF16, 1, 2, 1, 5, 9, 0, 8, 0, true, false, false, false, NO_MASK, 0, 0},   /* empty queries: all alike */
        {BF16, 1, 2, 1, 0, 9, 64, 64, 0, true, false, false, true, NO_MASK, 0, 0},  /* nothing to do */
        {BF16, 1, 2, 1, 5, 70, 64, 64, 0, true, false, false, true, NO_MASK, 3, 0}, /* no 16-byte loads */
        {F16, 1, 2, 1, 66, 70, 128, 128, 7, false, false, true, true, NO_MASK, 1, 0},
    };
    for (int i = 0; i < COUNT(shapes); i++) check_shape(&shapes[i]);
}

/* Strides that no 16-byte load can follow, backwards too. */
static void reversed_and_strided_inputs_are_followed(void **state) {
    (void)state;
    shape c = {.dtype = BF16, .b = 1, .h = 2, .g = 2, .l = 9, .s = 70, .d = 64, .e = 64, .causal = true};
    fabric f = weave(&c);
    int64_t dims[] = {1, 2, 70, 64}, strides[] = {0, -70 * 130, 130, 2}, out_dims[] = {1, 2, 9, 64};
    for (int i = 1; i < 3; i++) {
        free_cloth(&f.in[i]);
        f.in[i] = new_input(BF16, 4, dims, strides, 0);
        fill_tame(&f.in[i].t, (uint64_t)i, 1);
    }
    wr_tensor in[5];
    wr_step step = step_of(&f, in);
    cloth want = new_output(BF16, 4, out_dims, 0), got = new_output(BF16, 4, out_dims, 0);
    reference(&step, &want);
    assert_true(run_row(wr_cuda_dense_attention_rows(), "mma", &step, &got));
    check_close(&got, &want, 1, 4e-3, "strided");
    free_cloth(&want), free_cloth(&got);
    unravel(&f);
}

/* The last rows alone, and one batch alone, have the bits that they have among all. */
static void a_row_has_the_same_bits_alone(void **state) {
    (void)state;
    static const char *const names[] = {"mma", "ref"};
    shape c = {.dtype = BF16, .b = 2, .h = 2, .g = 1, .l = 133, .s = 140, .d = 64, .e = 64, .causal = true};
    for (c.window = 0; c.window <= 50; c.window += 50) {
        fabric f = weave(&c);
        wr_tensor in[5];
        for (int r = 0; r < COUNT(names); r++) {
            wr_step step = step_of(&f, in);
            int64_t dims[] = {2, 2, 133, 64}, few[] = {1, 2, 3, 64};
            cloth all = new_output(BF16, 4, dims, 0), some = new_output(BF16, 4, few, 0);
            assert_true(run_row(wr_cuda_dense_attention_rows(), names[r], &step, &all));
            for (int i = 0; i < 3; i++) {
                in[i].data = (uint16_t *)in[i].data + in[i].strides[0];
                in[i].shape[0] = 1;
            }
            in[0].data = (uint16_t *)in[0].data + 130 * in[0].strides[2];
            in[0].shape[2] = 3;
            assert_true(run_row(wr_cuda_dense_attention_rows(), names[r], &step, &some));
            for (int h = 0; h < 2; h++)
                assert_memory_equal((uint16_t *)some.t.data + h * 3 * 64,
                                    (uint16_t *)all.t.data + ((2 + h) * 133 + 130) * 64, 3 * 64 * 2);
            free_cloth(&all), free_cloth(&some);
        }
        unravel(&f);
    }
}

/* Cards whose shared memory does not hold a tile of 512 columns get the reference. */
static void a_small_card_gets_the_rows_that_it_can_run(void **state) {
    (void)state;
    shape c = {.dtype = BF16, .b = 1, .h = 1, .g = 1, .l = 2, .s = 3, .d = 512, .e = 512};
    fabric f = weave(&c);
    wr_tensor in[5];
    wr_step step = step_of(&f, in);
    wr_cuda_traits small = {.arch = 86, .n_sm = 1, .shared_bytes = 99 << 10};
    step.out = (wr_tensor){.n_dims = 4, .dtype = BF16, .shape = {1, 1, 2, 512}, .strides = {1024, 1024, 512, 1}};
    step.device = &small;
    assert_false(row_named(wr_cuda_dense_attention_rows(), "mma")->fits(&step));
    in[0].shape[3] = in[1].shape[3] = in[2].shape[3] = step.out.shape[3] = 256;
    assert_true(row_named(wr_cuda_dense_attention_rows(), "mma")->fits(&step));
    assert_null(row_named(wr_cuda_dense_attention_rows(), "ref")->fits);
    unravel(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_head_size_follows_the_reference),
        cmocka_unit_test(masks_windows_sinks_and_caps_follow_the_reference),
        cmocka_unit_test(odd_sizes_and_layouts_follow_the_reference),
        cmocka_unit_test(reversed_and_strided_inputs_are_followed),
        cmocka_unit_test(a_row_has_the_same_bits_alone),
        cmocka_unit_test(a_small_card_gets_the_rows_that_it_can_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
