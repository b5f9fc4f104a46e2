/* The tier of many rows: its bits against the chain that the contract describes, for every shape of tiles; every kind
 * of weight against the truth and against the family's reference row; what it writes and what it must not read; the
 * choice of tiles. */
#include "step_test.h"

#include "cpu/ref/dequant.h"
#include "cuda/kernels/linear_prefill.h"
#include "cuda/linear.h"
#include "cuda/linear_prefill.h"

typedef struct format {
    weir_quant quant;
    weir_dtype dtype; /* dense weights, affine scales */
} format;

typedef struct weight {
    wr_linear_args args; /* packed */
    void *data, *scales, *biases, *packed;
    int kind;
} weight;

static float unit(uint64_t i) { return (float)(mix(i) >> 40) * 0x1p-23f - 1; }

static void put(weir_dtype dtype, void *array, int64_t i, float x) {
    wr_tensor t = {.data = array, .dtype = dtype};
    put_float(&t, i, x);
}

/* Where a GGUF block keeps f16 scales: those at 0, 2 unless said otherwise. */
static void tame_blocks(weir_quant_mode mode, uint8_t *bytes, int64_t n, uint64_t seed) {
    int64_t step = wr_quant_block_bytes(mode);
    int first = mode == WEIR_QUANT_Q2_K ? 80 : mode == WEIR_QUANT_Q3_K ? 108 : mode == WEIR_QUANT_Q6_K ? 208 : 0;
    bool two = mode == WEIR_QUANT_Q2_K || mode == WEIR_QUANT_Q4_1 || mode == WEIR_QUANT_Q5_1 ||
               mode == WEIR_QUANT_Q4_K || mode == WEIR_QUANT_Q5_K;
    for (int64_t b = 0; b < n / step; b++)
        for (int i = 0; i <= (int)two; i++)
            put(WEIR_DTYPE_F16, bytes + b * step + first + 2 * i, 0, 0.01f * unit(seed + (uint64_t)(2 * b + i)));
}

static weight new_experts(format f, int64_t experts, int64_t rows, int64_t cols, uint64_t seed) {
    weight w = {.args = {.quant = wr_linear_quant(f.quant),
                         .weight_dtype = f.dtype,
                         .out_dtype = WEIR_DTYPE_F32,
                         .global_scale = f.quant.mode == WEIR_QUANT_NVFP4 ? 0.375f : 1,
                         .experts = experts,
                         .rows = rows,
                         .cols = cols}};
    weir_quant q = w.args.quant;
    rows *= experts;
    int64_t n = rows * wr_weight_row_bytes(&w.args);
    uint8_t *bytes = w.data = malloc((size_t)n);
    for (int64_t i = 0; i < n; i++) bytes[i] = (uint8_t)(mix(seed + (uint64_t)i) >> 20);
    if (q.mode == WEIR_QUANT_NONE) {
        for (int64_t i = 0; i < rows * cols; i++) put(f.dtype, w.data, i, unit(seed + (uint64_t)i));
    } else if (wr_quant_is_gguf(q.mode)) {
        tame_blocks(q.mode, bytes, n, seed);
    } else {
        int64_t groups = rows * cols / q.group_size;
        uint8_t *scales = w.scales = malloc((size_t)groups * 4);
        if (q.mode == WEIR_QUANT_AFFINE) w.biases = malloc((size_t)groups * 4);
        for (int64_t g = 0; g < groups; g++) {
            if (q.mode == WEIR_QUANT_AFFINE) {
                put(f.dtype, w.scales, g, 0.01f * unit(seed + (uint64_t)g));
                put(f.dtype, w.biases, g, 0.1f * unit(seed + (uint64_t)(g + groups)));
            } else {
                scales[g] =
                    (uint8_t)(q.mode == WEIR_QUANT_NVFP4 ? mix((uint64_t)g) % 0x7f : 120 + mix((uint64_t)g) % 9);
            }
        }
        for (int64_t i = 0; q.mode == WEIR_QUANT_MXFP8 && i < n; i++)
            if ((bytes[i] & 0x7f) == 0x7f) bytes[i] = 0; /* NaN */
    }
    w.kind = wr_linear_kind(&w.args);
    w.packed = malloc(wr_cuda_packed_bytes(&w.args));
    wr_cuda_pack(&w.args, w.data, w.scales, w.biases, w.packed, 0, 1);
    w.args.packed = 1;
    return w;
}
static weight new_weight(format f, int64_t rows, int64_t cols, uint64_t seed) {
    return new_experts(f, 1, rows, cols, seed);
}
static void free_weight(weight *w) {
    free(w->data);
    free(w->scales);
    free(w->biases);
    free(w->packed);
}
static void weight_row(const weight *w, int64_t expert, int64_t row, float *out) {
    wr_linear_args args = w->args;
    args.packed = 0;
    wr_dequant_row(&args, w->data, w->scales, w->biases, expert, row, out);
}

/* y = x W^T by the row, with the given plan or, when it is NULL, the one that the row chooses. Memory that the prepare
 * step leaves alone is NaN. */
static void run_add(const weight *w, const wr_tensor *x, const wr_tensor *addend, const wr_prefill_plan *plan,
                    const cloth *y) {
    const wr_kernel_row *row = row_named(wr_cuda_linear_rows(WR_OP_LINEAR), "prefill");
    weir_error err = {0};
    wr_tensor in[3] = {*x}, packed = {.data = w->packed, .dtype = WEIR_DTYPE_U8, .n_dims = 1, .strides = {1}};
    packed.shape[0] = (int64_t)wr_cuda_packed_bytes(&w->args);
    if (addend) in[1] = *addend;
    in[addend ? 2 : 1] = packed;
    wr_step step = {.op = addend ? WR_OP_LINEAR_ADD : WR_OP_LINEAR,
                    .args = &w->args,
                    .out = y->t,
                    .n_in = addend ? 3 : 2,
                    .in = in,
                    .device = wr_emulate_traits()};
    size_t bytes = plan ? wr_linear_prefill_prepared_bytes(&step) : row->prepare_bytes(&step);
    size_t room = bytes / 256 * 256 + 512;
    uint8_t *prepared = aligned_alloc(256, room);
    memset(prepared, POISON, room);
    step.scratch = prepared;
    if (!plan)
        assert_int_equal(row->prepare_launch(&step, NULL, &err), WEIR_OK);
    else
        assert_int_equal(wr_linear_prefill_launch_prepare(&step, NULL, &err), WEIR_OK);
    for (size_t i = bytes; i < room; i++) assert_int_equal(prepared[i], POISON);
    step.scratch = NULL;
    step.prepared = prepared;
    if (plan) {
        assert_int_equal(wr_linear_prefill_launch_plan(&step, plan, NULL, &err), WEIR_OK);
    } else {
        assert_true(row->fits(&step));
        assert_int_equal(row->launch(&step, NULL, &err), WEIR_OK);
    }
    free(prepared);
    check_canaries(y);
}

static void run(const weight *w, const wr_tensor *x, const wr_prefill_plan *plan, const cloth *y) {
    run_add(w, x, NULL, plan, y);
}
/* By the reference row of the family. */
static void run_reference(const weight *w, const wr_tensor *x, const cloth *y) {
    wr_tensor in[2] = {*x, {.data = w->packed, .dtype = WEIR_DTYPE_U8, .n_dims = 1}};
    wr_step step = {.op = WR_OP_LINEAR, .args = &w->args, .n_in = 2, .in = in};
    assert_true(run_row(wr_cuda_linear_rows(WR_OP_LINEAR), "ref", &step, y));
}

/* What the contract says, with the emulation's meaning of a k16 step: slices are chains from 0, added in order. Exact
 * for weights that are bf16 numbers. x: a row of it. */
static float chain_of(const wr_tensor *x, int64_t row, const float *weights, int64_t cols) {
    int64_t per = wr_linear_slice_tiles(cols) * WR_TILE_COLS;
    float total = 0;
    for (int64_t first = 0; first < cols; first += per) {
        float c = 0;
        for (int64_t k = first; k < first + per && k < cols; k += 16) {
            double s = 0;
            for (int64_t i = k; i < k + 16 && i < cols; i++)
                s += (double)wr_bf16_to_f32(wr_f32_to_bf16(get_float(x, row * cols + i))) * (double)weights[i];
            c = (float)((double)c + s);
        }
        total += c;
    }
    return total;
}
static void chain(const weight *w, const wr_tensor *x, const cloth *y) {
    float *weights = malloc((size_t)w->args.cols * sizeof *weights);
    for (int64_t n = 0; n < w->args.rows; n++) {
        weight_row(w, 0, n, weights);
        for (int64_t t = 0; t < x->shape[0]; t++)
            put_float(&y->t, t * w->args.rows + n, chain_of(x, t, weights, w->args.cols));
    }
    free(weights);
}

static cloth tokens(weir_dtype dtype, int64_t m, int64_t cols, int skew, uint64_t seed) {
    cloth x = new_input(dtype, 2, (int64_t[]){m, cols}, NULL, skew);
    fill_tame(&x.t, seed, 1);
    return x;
}

static const format dense = {{WEIR_QUANT_NONE, 0, 0}, WEIR_DTYPE_BF16};

/* All shapes of tiles, over sizes that leave every kind of rest: rows of the last tile, rows of the last 16, tokens of
 * the last 8, columns of the last 64, an odd number of k tiles, a shorter last slice, fewer slices than groups. */
static void every_tile_shape_has_the_bits_of_the_chain(void **state) {
    (void)state;
    static const struct {
        int64_t m, n, k;
    } sizes[] = {{17, 8, 40}, {33, 100, 576}, {130, 72, 1600}, {64, 150, 2648}, {40, 272, 840}};
    wr_cuda_traits eight = *wr_emulate_traits(); /* multiprocessors, so that two clusters take turns */
    eight.n_sm = 9;
    int ran = 0;
    for (int s = 0; s < COUNT(sizes); s++) {
        weight w = new_weight(dense, sizes[s].n, sizes[s].k, 7);
        cloth x = tokens(WEIR_DTYPE_BF16, sizes[s].m, sizes[s].k, 0, 11);
        int64_t shape[] = {sizes[s].m, sizes[s].n};
        cloth want = new_output(WEIR_DTYPE_F32, 2, shape, 0);
        chain(&w, &x.t, &want);
        for (int i = 0; i < 4 * 4 * 4 * 3; i++) {
            int width = 16 << i % 4, halves = 1 + i / 4 % 4, groups = 1 + i / 16 % 4, cluster = 1 << i / 64;
            wr_prefill_plan plan;
            if (!wr_linear_prefill_shape(width, halves, groups, cluster, sizes[s].m, sizes[s].n, w.kind, &eight, &plan))
                continue;
            cloth got = new_output(WEIR_DTYPE_F32, 2, shape, 0);
            run(&w, &x.t, &plan, &got);
            char what[128];
            snprintf(what, sizeof what, "%lld x %lld x %lld by tiles of %d tokens, %d halves, %d groups, %d blocks",
                     (long long)sizes[s].m, (long long)sizes[s].n, (long long)sizes[s].k, width, halves, groups,
                     cluster);
            check_equal(&got, &want, what);
            free_cloth(&got);
            ran++;
        }
        free_cloth(&want);
        free_cloth(&x);
        free_weight(&w);
    }
    assert_int_equal(ran, COUNT(sizes) * 58); /* of 72, those whose sums and stages fit in a block's memory */
}

/* Tiles of 128 tokens over whole slices of 8 k tiles are a pipeline of their own; y of bf16 leaves by bulk copies where
 * all 64 rows of a warpgroup are there, everything else number by number or four at a time. */
static void whole_slices_and_all_ways_out_have_the_bits_of_the_reference(void **state) {
    (void)state;
    static const format kinds[] = {{{WEIR_QUANT_NONE, 0, 0}, WEIR_DTYPE_BF16},
                                   {{WEIR_QUANT_AFFINE, 64, 4}, WEIR_DTYPE_BF16},
                                   {{WEIR_QUANT_AFFINE, 64, 8}, WEIR_DTYPE_BF16}};
    static const weir_dtype dtypes[] = {WEIR_DTYPE_BF16, WEIR_DTYPE_F32, WEIR_DTYPE_F16};
    static const int64_t rows[] = {200, 320, 99};
    for (int i = 0; i < COUNT(kinds) * COUNT(rows); i++) {
        int64_t m = 150, n = rows[i % COUNT(rows)], cols = 1536;
        weight w = new_weight(kinds[i / COUNT(rows)], n, cols, 7);
        cloth x = tokens(WEIR_DTYPE_BF16, m, cols, 0, 11), sum = new_output(WEIR_DTYPE_F32, 2, (int64_t[]){m, n}, 0);
        run_reference(&w, &x.t, &sum);
        for (int d = 0; d < 6; d++) {
            weir_dtype dtype = dtypes[d / 2];
            cloth addend = tokens(dtype, m, n, 0, 3), want = new_output(dtype, 2, (int64_t[]){m, n}, 0);
            for (int64_t e = 0; e < m * n; e++)
                put_float(&want.t, e, get_float(&sum.t, e) + (d % 2 ? get_float(&addend.t, e) : 0));
            for (int shape = 0; shape < 4; shape++) {
                wr_cuda_traits few = *wr_emulate_traits();
                few.n_sm = 1 + shape;
                wr_prefill_plan plan;
                cloth got = new_output(dtype, 2, (int64_t[]){m, n}, 0);
                assert_true(
                    wr_linear_prefill_shape(shape < 3 ? 128 : 64, 1 + shape % 2, 1, 1, m, n, w.kind, &few, &plan));
                run_add(&w, &x.t, d % 2 ? &addend.t : NULL, &plan, &got);
                check_equal(&got, &want, weir_dtype_name(dtype));
                free_cloth(&got);
            }
            free_cloth(&want);
            free_cloth(&addend);
        }
        free_cloth(&x);
        free_cloth(&sum);
        free_weight(&w);
    }
}

static void a_ring_of_few_stages_gives_the_same_bits(void **state) {
    (void)state;
    weight w = new_weight(dense, 200, 1600, 5);
    cloth x = tokens(WEIR_DTYPE_BF16, 70, 1600, 0, 6);
    cloth want = new_output(WEIR_DTYPE_F32, 2, (int64_t[]){70, 200}, 0);
    chain(&w, &x.t, &want);
    wr_cuda_traits small = *wr_emulate_traits();
    for (small.shared_bytes = 120 << 10; small.shared_bytes < 220 << 10; small.shared_bytes += 40 << 10) {
        for (small.n_sm = 1; small.n_sm <= 3; small.n_sm++) {
            wr_prefill_plan plan;
            assert_true(wr_linear_prefill_shape(32, 1, 2, 1, 70, 200, w.kind, &small, &plan));
            assert_true(plan.shared_bytes <= small.shared_bytes);
            cloth got = new_output(WEIR_DTYPE_F32, 2, (int64_t[]){70, 200}, 0);
            run(&w, &x.t, &plan, &got);
            check_equal(&got, &want, "few stages");
            free_cloth(&got);
        }
    }
    free_cloth(&want);
    free_cloth(&x);
    free_weight(&w);
}

static const format formats[] = {
    {{WEIR_QUANT_NONE, 0, 0}, WEIR_DTYPE_BF16},     {{WEIR_QUANT_NONE, 0, 0}, WEIR_DTYPE_F16},
    {{WEIR_QUANT_AFFINE, 64, 4}, WEIR_DTYPE_BF16},  {{WEIR_QUANT_AFFINE, 32, 4}, WEIR_DTYPE_BF16},
    {{WEIR_QUANT_AFFINE, 64, 8}, WEIR_DTYPE_BF16},  {{WEIR_QUANT_AFFINE, 32, 8}, WEIR_DTYPE_BF16},
    {{WEIR_QUANT_AFFINE, 64, 2}, WEIR_DTYPE_BF16},  {{WEIR_QUANT_AFFINE, 32, 2}, WEIR_DTYPE_BF16},
    {{WEIR_QUANT_AFFINE, 64, 3}, WEIR_DTYPE_BF16},  {{WEIR_QUANT_AFFINE, 32, 3}, WEIR_DTYPE_BF16},
    {{WEIR_QUANT_AFFINE, 128, 5}, WEIR_DTYPE_BF16}, {{WEIR_QUANT_AFFINE, 32, 5}, WEIR_DTYPE_BF16},
    {{WEIR_QUANT_AFFINE, 64, 6}, WEIR_DTYPE_BF16},  {{WEIR_QUANT_AFFINE, 32, 6}, WEIR_DTYPE_BF16},
    {{WEIR_QUANT_AFFINE, 128, 4}, WEIR_DTYPE_BF16}, {{WEIR_QUANT_MXFP4, 32, 4}, WEIR_DTYPE_F32},
    {{WEIR_QUANT_NVFP4, 16, 4}, WEIR_DTYPE_F32},    {{WEIR_QUANT_MXFP8, 32, 8}, WEIR_DTYPE_F32},
    {{WEIR_QUANT_AFFINE, 64, 4}, WEIR_DTYPE_F16},   {{WEIR_QUANT_AFFINE, 64, 8}, WEIR_DTYPE_F16},
    {{WEIR_QUANT_AFFINE, 32, 4}, WEIR_DTYPE_F16},   {{WEIR_QUANT_AFFINE, 32, 5}, WEIR_DTYPE_F16},
    {{WEIR_QUANT_AFFINE, 64, 2}, WEIR_DTYPE_F32},   {{WEIR_QUANT_AFFINE, 64, 3}, WEIR_DTYPE_F32},
    {{WEIR_QUANT_AFFINE, 64, 4}, WEIR_DTYPE_F32},   {{WEIR_QUANT_AFFINE, 64, 5}, WEIR_DTYPE_F32},
    {{WEIR_QUANT_AFFINE, 64, 6}, WEIR_DTYPE_F32},   {{WEIR_QUANT_AFFINE, 64, 8}, WEIR_DTYPE_F32},
    {{WEIR_QUANT_Q4_0, 0, 0}, WEIR_DTYPE_F16},      {{WEIR_QUANT_Q4_1, 0, 0}, WEIR_DTYPE_F16},
    {{WEIR_QUANT_Q5_0, 0, 0}, WEIR_DTYPE_F16},      {{WEIR_QUANT_Q5_1, 0, 0}, WEIR_DTYPE_F16},
    {{WEIR_QUANT_Q8_0, 0, 0}, WEIR_DTYPE_F16},      {{WEIR_QUANT_Q2_K, 0, 0}, WEIR_DTYPE_F16},
    {{WEIR_QUANT_Q3_K, 0, 0}, WEIR_DTYPE_F16},      {{WEIR_QUANT_Q4_K, 0, 0}, WEIR_DTYPE_F16},
    {{WEIR_QUANT_Q5_K, 0, 0}, WEIR_DTYPE_F16},      {{WEIR_QUANT_Q6_K, 0, 0}, WEIR_DTYPE_F16},
};

/* Root of the mean square of the difference over that of the reference: bf16 weights have 2^-9 of error each at the
 * most, which adds up like noise. Dense bf16 x against itself is exact up to the order of sums. */
static double relative_error(const weight *w, const wr_tensor *x, const cloth *y) {
    int64_t rows = w->args.rows, cols = w->args.cols, m = x->shape[0];
    float *weights = malloc((size_t)cols * sizeof *weights);
    double error = 0, all = 0;
    for (int64_t n = 0; n < rows; n++) {
        weight_row(w, 0, n, weights);
        for (int64_t t = 0; t < m; t++) {
            double sum = 0;
            for (int64_t i = 0; i < cols; i++) sum += (double)get_float(x, t * cols + i) * (double)weights[i];
            double d = (double)get_float(&y->t, t * rows + n) - sum;
            error += d * d;
            all += sum * sum;
        }
    }
    free(weights);
    return sqrt(error / all);
}

static void every_kind_of_weight_is_near_the_truth_and_equal_to_the_reference_row(void **state) {
    (void)state;
    enum { M = 37, N = 80, K = 768 };
    bool seen[WR_KIND_COUNT] = {false};
    cloth x = tokens(WEIR_DTYPE_BF16, M, K, 0, 3);
    for (int f = 0; f < COUNT(formats); f++) {
        weight w = new_weight(formats[f], N, K, 100 + (uint64_t)f);
        cloth first = new_output(WEIR_DTYPE_F32, 2, (int64_t[]){M, N}, 0);
        run(&w, &x.t, NULL, &first);
        double error = relative_error(&w, &x.t, &first);
        if (!(error < 0x1p-9)) fail_msg("%s: relative error %g", wr_linear_kind_name(w.kind), error);
        cloth reference = new_output(WEIR_DTYPE_F32, 2, (int64_t[]){M, N}, 0);
        run_reference(&w, &x.t, &reference);
        check_equal(&first, &reference, wr_linear_kind_name(w.kind));
        free_cloth(&reference);
        for (int width = 16; width <= 128; width *= 2) {
            wr_prefill_plan plan;
            if (!wr_linear_prefill_shape(width, 1, 2, 1, M, N, w.kind, wr_emulate_traits(), &plan)) continue;
            cloth y = new_output(WEIR_DTYPE_F32, 2, (int64_t[]){M, N}, 0);
            run(&w, &x.t, &plan, &y);
            check_equal(&y, &first, wr_linear_kind_name(w.kind));
            free_cloth(&y);
        }
        seen[w.kind] = true;
        free_cloth(&first);
        free_weight(&w);
    }
    for (int kind = 0; kind < WR_KIND_COUNT; kind++)
        if (!seen[kind]) fail_msg("%s was not tried", wr_linear_kind_name(kind));
    free_cloth(&x);
}

static void inputs_and_outputs_have_every_float_type_and_any_alignment(void **state) {
    (void)state;
    static const weir_dtype types[] = {WEIR_DTYPE_F32, WEIR_DTYPE_BF16, WEIR_DTYPE_F16};
    for (int n = 88; n <= 91; n += 3) { /* rows of y that keep 16-byte alignment, and that do not */
        weight w = new_weight(dense, n, 328, 1);
        for (int i = 0; i < COUNT(types); i++) {
            for (int skew = 0; skew <= 1; skew++) {
                cloth x = tokens(types[i], 35, 328, skew, 2);
                cloth got = new_output(types[i], 2, (int64_t[]){35, n}, skew), exact, want;
                exact = new_output(WEIR_DTYPE_F32, 2, (int64_t[]){35, n}, 0);
                want = new_output(types[i], 2, (int64_t[]){35, n}, 0);
                chain(&w, &x.t, &exact);
                for (int64_t e = 0; e < 35 * n; e++) put_float(&want.t, e, get_float(&exact.t, e));
                run(&w, &x.t, NULL, &got);
                check_equal(&got, &want, "types");
                free_cloth(&x);
                free_cloth(&got);
                free_cloth(&exact);
                free_cloth(&want);
            }
        }
        free_weight(&w);
    }
}

static void an_addend_is_added_before_the_rounding(void **state) {
    (void)state;
    static const weir_dtype types[] = {WEIR_DTYPE_F32, WEIR_DTYPE_BF16, WEIR_DTYPE_F16};
    for (int n = 88; n <= 91; n += 3) {
        weight w = new_weight(dense, n, 328, 1);
        cloth x = tokens(WEIR_DTYPE_BF16, 35, 328, 0, 2), exact;
        exact = new_output(WEIR_DTYPE_F32, 2, (int64_t[]){35, n}, 0);
        chain(&w, &x.t, &exact);
        for (int i = 0; i < COUNT(types); i++) {
            cloth add = tokens(types[i], 35, n, 1, 9), got = new_output(types[i], 2, (int64_t[]){35, n}, 0);
            cloth want = new_output(types[i], 2, (int64_t[]){35, n}, 0);
            for (int64_t e = 0; e < 35 * n; e++) put_float(&want.t, e, get_float(&exact.t, e) + get_float(&add.t, e));
            run_add(&w, &x.t, &add.t, NULL, &got);
            check_equal(&got, &want, "addend");
            free_cloth(&add);
            free_cloth(&got);
            free_cloth(&want);
        }
        free_cloth(&x);
        free_cloth(&exact);
        free_weight(&w);
    }
}

/* Experts with none, one, a few and very many rows; ids that name no expert. */
static void rows_go_through_their_own_expert(void **state) {
    (void)state;
    static const struct {
        int64_t m, experts, n, k;
    } sizes[] = {{200, 5, 72, 840}, {97, 2, 150, 128}, {40, 1, 64, 64}, {330, 3, 16, 200}};
    for (int s = 0; s < COUNT(sizes); s++) {
        int64_t m = sizes[s].m, experts = sizes[s].experts, n = sizes[s].n, k = sizes[s].k;
        weight w = new_experts(dense, experts, n, k, 21);
        cloth x = tokens(s % 2 ? WEIR_DTYPE_F32 : WEIR_DTYPE_BF16, m, k, 0, 4),
              got = new_output(WEIR_DTYPE_F32, 2, (int64_t[]){m, n}, 0);
        cloth want = new_output(WEIR_DTYPE_F32, 2, (int64_t[]){m, n}, 0);
        int32_t *ids = malloc((size_t)m * sizeof *ids);
        for (int64_t i = 0; i < m; i++)
            ids[i] = i == 3 ? -1 : i % 50 == 7 ? (int32_t)experts : i == 5 ? 0 : i % 3 ? (int32_t)experts - 1 : 1;
        if (experts > 1 && s == 0)
            for (int64_t i = 60; i < 75; i++) ids[i] = 2;
        float *weights = malloc((size_t)k * sizeof *weights);
        for (int64_t e = 0; e < n * m; e++) {
            bool known = ids[e / n] >= 0 && ids[e / n] < experts;
            if (known) weight_row(&w, ids[e / n], e % n, weights);
            put_float(&want.t, e, known ? chain_of(&x.t, e / n, weights, k) : NAN);
        }
        free(weights);
        wr_tensor in[3] = {x.t,
                           {.data = ids, .dtype = WEIR_DTYPE_I32, .n_dims = 1, .shape = {m}, .strides = {1}},
                           {.data = w.packed, .dtype = WEIR_DTYPE_U8, .n_dims = 1}};
        wr_step step = {.op = WR_OP_GATHER_LINEAR,
                        .args = &w.args,
                        .out = got.t,
                        .n_in = 3,
                        .in = in,
                        .device = wr_emulate_traits()};
        const wr_kernel_row *row = row_named(wr_cuda_linear_rows(WR_OP_GATHER_LINEAR), "prefill");
        weir_error err = {0};
        assert_true(row->fits(&step));
        assert_false(wr_linear_prefill_fits(&step));
        size_t bytes = row->scratch_bytes(&step, 1), room = (bytes + 255) / 256 * 256 + 256;
        uint8_t *scratch = step.scratch = aligned_alloc(256, room);
        memset(scratch, POISON, room);
        assert_int_equal(row->launch(&step, NULL, &err), WEIR_OK);
        for (size_t i = bytes; i < room; i++) assert_int_equal(scratch[i], POISON);
        check_canaries(&got);
        check_equal(&got, &want, "experts");
        free(scratch);
        free(ids);
        free_cloth(&x);
        free_cloth(&got);
        free_cloth(&want);
        free_weight(&w);
    }
}

static void a_bad_token_spoils_its_own_row_only(void **state) {
    (void)state;
    weight w = new_weight(dense, 64, 128, 1);
    cloth x = tokens(WEIR_DTYPE_BF16, 40, 128, 0, 2), y = new_output(WEIR_DTYPE_F32, 2, (int64_t[]){40, 64}, 0);
    put_float(&x.t, 21 * 128 + 5, NAN);
    run(&w, &x.t, NULL, &y);
    for (int64_t i = 0; i < 40 * 64; i++) assert_int_equal(isnan(get_float(&y.t, i)), i / 64 == 21);
    free_cloth(&x);
    free_cloth(&y);
    free_weight(&w);
}

/* ---- the choice, as on an H200 ---- */

static const wr_cuda_traits h200 = {
    .arch = 90, .hopper = true, .n_sm = 132, .shared_bytes = 227 << 10, .l2_bytes = (size_t)60 << 20};

static wr_prefill_plan choice(int64_t m, int64_t n, int64_t k) {
    wr_prefill_plan plan;
    assert_true(wr_linear_prefill_choose(m, n, k / 64, WR_KIND_A4_64, &h200, &plan));
    return plan;
}

static void choices_keep_the_card_busy(void **state) {
    (void)state;
    assert_int_equal(choice(2048, 12288, 4096).tokens, 128);
    assert_int_equal(choice(512, 12288, 4096).tokens, 128);
    assert_int_equal(choice(32, 12288, 4096).tokens, 32);
    assert_true(choice(128, 12288, 4096).blocks > 120); /* tiles of 128 x 128 would use 96 of 132 */
    assert_true(choice(64, 4096, 4096).blocks >= 64);
    assert_true(choice(32, 4096, 14336).groups > 1);
}

/* Few tiles are shared by clusters; many need none. */
static void few_tiles_are_shared_by_blocks(void **state) {
    (void)state;
    assert_true(choice(16, 4096, 14336).cluster > 1 && choice(16, 4096, 14336).blocks > 120);
    assert_true(choice(32, 4096, 4096).blocks > 120);
    assert_int_equal(choice(64, 4096, 14336).cluster, 1);
    assert_int_equal(choice(16, 128256, 4096).cluster, 1);
    assert_int_equal(choice(16, 12288, 4096).tokens, 16);
}

static void every_choice_fits_the_card(void **state) {
    (void)state;
    static const int64_t rows[] = {1, 16, 100, 1024, 4096, 12288, 28672, 151936, 262144};
    for (int kind = 0; kind < WR_KIND_COUNT; kind++) {
        for (int64_t m = 1; m < 100000; m += m / 3 + 1) {
            for (int n = 0; n < COUNT(rows); n++) {
                for (int64_t k_tiles = 1; k_tiles < 300; k_tiles += k_tiles / 2 + 1) {
                    wr_prefill_plan p;
                    assert_true(wr_linear_prefill_choose(m, rows[n], k_tiles, kind, &h200, &p));
                    assert_true(p.shared_bytes <= h200.shared_bytes && p.stages * (p.tokens == 128 ? 1 : 2) > 2);
                    assert_true(p.blocks >= 1 && p.blocks <= h200.n_sm && p.blocks % p.cluster == 0);
                    assert_true(p.threads == 128 * (p.halves * p.groups + 1));
                    assert_true(p.threads <= (p.tokens == 128 ? 384 : p.tokens == 64 ? 512 : 640));
                }
            }
        }
    }
}

static void steps_of_others_are_refused(void **state) {
    (void)state;
    weight w = new_weight(dense, 64, 128, 1);
    cloth x = tokens(WEIR_DTYPE_BF16, 40, 128, 0, 2), y = new_output(WEIR_DTYPE_BF16, 2, (int64_t[]){40, 64}, 0);
    wr_tensor in[2] = {x.t, {.data = w.packed, .dtype = WEIR_DTYPE_U8, .n_dims = 1, .shape = {1}}};
    wr_step step = {
        .op = WR_OP_LINEAR, .args = &w.args, .out = y.t, .n_in = 2, .in = in, .device = wr_emulate_traits()};
    const wr_kernel_row *row = row_named(wr_cuda_linear_rows(WR_OP_LINEAR), "prefill");
    assert_true(row->fits(&step));
    step.device = wr_emulate_traits_plain();
    assert_false(row->fits(&step));
    step.device = wr_emulate_traits();
    step.in[0].shape[0] = WR_PREFILL_MIN_NARROW - 1;
    assert_false(row->fits(&step));
    step.in[0].shape[0] = 0;
    assert_false(row->fits(&step));
    step.in[0].shape[0] = 40;
    w.args.packed = 0;
    assert_false(row->fits(&step));
    free_cloth(&x);
    free_cloth(&y);
    free_weight(&w);
}

/* Up to 16 rows are the decode tiers' where slices have 8 k tiles and x, or the cluster's share of it, fits in a
 * block's memory; others of 9 rows and more have tiles of 16 tokens. Weights without these: from 17 rows on. */
static void few_rows_are_taken_where_the_decode_tiers_cannot_hold_them(void **state) {
    (void)state;
    static const struct {
        format f;
        int64_t m, cols;
        bool taken;
    } cases[] = {{{{WEIR_QUANT_AFFINE, 64, 4}, WEIR_DTYPE_BF16}, 8, 14336, false},
                 {{{WEIR_QUANT_AFFINE, 64, 4}, WEIR_DTYPE_BF16}, 9, 14336, true},
                 {{{WEIR_QUANT_AFFINE, 64, 4}, WEIR_DTYPE_BF16}, 8, 28672, true},
                 {{{WEIR_QUANT_AFFINE, 64, 4}, WEIR_DTYPE_BF16}, 16, 4096, false},
                 {{{WEIR_QUANT_AFFINE, 64, 4}, WEIR_DTYPE_BF16}, 17, 4096, true},
                 {{{WEIR_QUANT_AFFINE, 64, 4}, WEIR_DTYPE_BF16}, 8, 4160, false},
                 {{{WEIR_QUANT_AFFINE, 64, 4}, WEIR_DTYPE_BF16}, 9, 4160, true},
                 {{{WEIR_QUANT_AFFINE, 64, 3}, WEIR_DTYPE_BF16}, 8, 14336, false},
                 {{{WEIR_QUANT_AFFINE, 64, 3}, WEIR_DTYPE_BF16}, 16, 4096, false},
                 {{{WEIR_QUANT_AFFINE, 64, 3}, WEIR_DTYPE_BF16}, 17, 4096, true}};
    for (int i = 0; i < COUNT(cases); i++) {
        wr_linear_args args = {.quant = wr_linear_quant(cases[i].f.quant),
                               .weight_dtype = cases[i].f.dtype,
                               .experts = 1,
                               .rows = 64,
                               .cols = cases[i].cols,
                               .packed = 1};
        wr_tensor in[2] = {{.dtype = WEIR_DTYPE_BF16, .n_dims = 2, .shape = {cases[i].m, cases[i].cols}}};
        wr_step step = {.op = WR_OP_LINEAR, .args = &args, .n_in = 2, .in = in, .device = &h200};
        assert_int_equal(wr_linear_prefill_fits(&step), cases[i].taken);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tile_shape_has_the_bits_of_the_chain),
        cmocka_unit_test(whole_slices_and_all_ways_out_have_the_bits_of_the_reference),
        cmocka_unit_test(a_ring_of_few_stages_gives_the_same_bits),
        cmocka_unit_test(every_kind_of_weight_is_near_the_truth_and_equal_to_the_reference_row),
        cmocka_unit_test(inputs_and_outputs_have_every_float_type_and_any_alignment),
        cmocka_unit_test(an_addend_is_added_before_the_rounding),
        cmocka_unit_test(rows_go_through_their_own_expert),
        cmocka_unit_test(a_bad_token_spoils_its_own_row_only),
        cmocka_unit_test(choices_keep_the_card_busy),
        cmocka_unit_test(few_tiles_are_shared_by_blocks),
        cmocka_unit_test(every_choice_fits_the_card),
        cmocka_unit_test(steps_of_others_are_refused),
        cmocka_unit_test(few_rows_are_taken_where_the_decode_tiers_cannot_hold_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
