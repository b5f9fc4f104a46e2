/* The linear family by emulation: the decode tiers, both ways of adding slices, against the plain reference in every
 * bit; packed against published; all against the CPU's reference within the rounding of bf16; experts, embeddings,
 * quantisers. */
#include "linear_test.h"

static const weir_dtype BF16 = WEIR_DTYPE_BF16, F16 = WEIR_DTYPE_F16, F32 = WEIR_DTYPE_F32;

static cloth outputs(weir_dtype dtype, int64_t m, int64_t n) { return new_output(dtype, 2, (int64_t[]){m, n}, 0); }

static void linear(const weight *w, const cloth *x, bool packed, const char *row, const wr_decode_plan *plan,
                   const cloth *y) {
    call c = {.op = WR_OP_LINEAR, .first = &x->t, .w = w, .packed = packed, .row = row, .plan = plan};
    if (!run_call(&c, y)) fail_msg("%s does not take %lld rows", row, (long long)x->t.shape[0]);
}
/* The first m rows of a tensor. */
static cloth head(const cloth *c, int64_t m) {
    cloth h = *c;
    h.t.shape[0] = m;
    return h;
}

/* |got - want| over |want|, as lengths of the whole. */
static double relative_error(const cloth *got, const cloth *want) {
    double error = 0, size = 0;
    for (int64_t i = 0; i < size_of(&want->t); i++) {
        double a = get_float(&got->t, i), b = get_float(&want->t, i);
        error += (a - b) * (a - b);
        size += b * b;
    }
    return sqrt(error / size);
}

static void cpu_run(wr_kernel kernel, size_t (*scratch)(const wr_step *, int), wr_op_id op, const cloth *x,
                    const wr_tensor *second, const weight *w, const cloth *y) {
    wr_linear_args args = w->args;
    wr_tensor in[5] = {x->t};
    const void *parts[3] = {w->data, w->scales, w->biases};
    int n = 1;
    if (second) in[n++] = *second;
    for (int i = 0; i < w->n_parts; i++) in[n++] = (wr_tensor){.data = (void *)(uintptr_t)parts[i]};
    args.out_dtype = y->t.dtype;
    wr_step step = {.op = op, .args = &args, .out = y->t, .n_in = n, .in = in};
    step.scratch = malloc(scratch ? scratch(&step, 1) + 64 : 64);
    kernel(&step, 0, 1);
    free(step.scratch);
}

/* ---- LINEAR ---- */

/* 1,280 columns are slices of 7, 7 and 6 tiles; 37 rows leave 5 in the last tile. */
static void every_format_and_row_count_has_the_bits_of_the_reference(void **state) {
    (void)state;
    static const int64_t counts[] = {1, 2, 3, 8, 9, 16, 17, 32, 33};
    for (int f = 0; f < COUNT(formats); f++) {
        weight w = new_weight(formats[f], 1, 37, 1280, 0.01f, 1);
        cloth x = tokens(BF16, 33, 1280, 0, 5), want = outputs(F32, 33, 37);
        linear(&w, &x, true, "ref", NULL, &want);
        for (int i = 0; i < COUNT(counts); i++) {
            cloth xm = head(&x, counts[i]), wm = head(&want, counts[i]), y = outputs(F32, counts[i], 37);
            char what[64];
            snprintf(what, sizeof(what), "%s, %d rows", wr_linear_kind_name(wr_linear_kind(&w.args)), (int)counts[i]);
            linear(&w, &xm, true, "decode", NULL, &y);
            check_equal(&y, &wm, what);
            free_cloth(&y);
        }
        free_weight(&w);
        free_cloth(&x);
        free_cloth(&want);
    }
}

/* 1,536 columns are three slices of 8 tiles, which the lean kernels take; 100 rows are 7 row tiles. */
static void whole_slices_have_the_bits_of_the_reference(void **state) {
    (void)state;
    static const int64_t counts[] = {1, 5, 8, 9, 16, 17, 32, 40};
    static const weir_dtype types[] = {WEIR_DTYPE_BF16, WEIR_DTYPE_F16};
    for (int f = 0; f < COUNT(formats); f++) {
        weight w = new_weight(formats[f], 1, 100, 1536, 0.01f, 1);
        for (int t = 0; t < COUNT(types); t++) {
            cloth x = tokens(types[t], 40, 1536, t, 5), want = outputs(F32, 40, 100);
            linear(&w, &x, true, "ref", NULL, &want);
            for (int i = 0; i < COUNT(counts) - 3 * t; i++) {
                cloth xm = head(&x, counts[i]), wm = head(&want, counts[i]), y = outputs(F32, counts[i], 100);
                char what[64];
                snprintf(what, sizeof(what), "%s, %d rows", wr_linear_kind_name(wr_linear_kind(&w.args)),
                         (int)counts[i]);
                linear(&w, &xm, true, "decode", NULL, &y);
                check_equal(&y, &wm, what);
                free_cloth(&y);
            }
            free_cloth(&x);
            free_cloth(&want);
        }
        free_weight(&w);
    }
}

static void published_weights_have_the_bits_of_packed_ones(void **state) {
    (void)state;
    for (int f = 0; f < COUNT(formats); f++) {
        weight w = new_weight(formats[f], 1, 21, 768, 0.01f, 1);
        cloth x = tokens(BF16, 9, 768, 0, 6), want = outputs(F32, 9, 21), y = outputs(F32, 9, 21);
        linear(&w, &x, true, "ref", NULL, &want);
        linear(&w, &x, false, "ref", NULL, &y);
        check_equal(&y, &want, weir_quant_name(w.args.quant.mode));
        free_weight(&w);
        free_cloth(&x);
        free_cloth(&y);
        free_cloth(&want);
    }
}

/* What the device packs is what the host packs, byte for byte; 3 experts, rows and columns that do not fill a tile. */
static void the_device_packs_as_the_host_does(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{1, 37, 768}, {3, 5, 256}, {1, 16, 1280}};
    for (int f = 0; f < COUNT(formats); f++)
        for (int s = 0; s < COUNT(shapes); s++) {
            bool experts = shapes[s][0] > 1;
            weight w = new_weight(formats[f], shapes[s][0], shapes[s][1], shapes[s][2], 0.01f, 1);
            cloth x = tokens(BF16, 40, shapes[s][2], 0, 6), want = outputs(F32, 40, shapes[s][1]),
                  y = outputs(F32, 40, shapes[s][1]);
            cloth ids = new_input(WEIR_DTYPE_I32, 1, (int64_t[]){40}, NULL, 0);
            for (int i = 0; i < 40; i++) ((int32_t *)ids.t.data)[i] = (int32_t)(mix((uint64_t)i) % 4); /* 3: nobody */
            uint8_t *packed = malloc(w.packed_bytes);
            call c = {.op = experts ? WR_OP_GATHER_LINEAR : WR_OP_LINEAR,
                      .first = &x.t,
                      .second = experts ? &ids.t : NULL,
                      .w = &w,
                      .row = "ref"};
            assert_true(run_call(&c, &want));
            c.row = "pack";
            c.prepared = packed;
            assert_true(run_call(&c, &y));
            assert_memory_equal(packed, w.packed, w.packed_bytes);
            check_equal(&y, &want, wr_linear_kind_name(wr_linear_kind(&w.args)));
            c.device = wr_emulate_traits_plain();
            assert_true(run_call(&c, &y));
            check_equal(&y, &want, "without the kernels of one generation");
            c.packed = true;
            assert_false(run_call(&c, &y)); /* it is */
            free(packed);
            free_weight(&w);
            free_cloth(&x);
            free_cloth(&y);
            free_cloth(&want);
            free_cloth(&ids);
        }
}

/* An addend, and few rows over many experts, which are not packed for them. */
static void published_weights_are_packed_where_it_pays(void **state) {
    (void)state;
    weight w = new_weight(formats[2], 1, 40, 1280, 0.01f, 1), many = new_weight(formats[2], 9, 16, 256, 0.01f, 1);
    for (int64_t m = 1; m <= 70; m += 23) {
        cloth x = tokens(BF16, m, 1280, 0, 1), addend = tokens(F32, m, 40, 0, 2), y = outputs(F32, m, 40),
              want = outputs(F32, m, 40);
        call c = {.op = WR_OP_LINEAR_ADD, .first = &x.t, .second = &addend.t, .w = &w, .row = "ref"};
        assert_true(run_call(&c, &want));
        c.row = "pack";
        assert_true(run_call(&c, &y));
        check_equal(&y, &want, "an addend");
        free_cloth(&x);
        free_cloth(&addend);
        free_cloth(&y);
        free_cloth(&want);
    }
    for (int64_t m = 2; m <= 3; m++) {
        cloth x = tokens(BF16, m, 256, 0, 1), y = outputs(F32, m, 16);
        cloth ids = new_input(WEIR_DTYPE_I32, 1, (int64_t[]){m}, NULL, 0);
        for (int i = 0; i < m; i++) ((int32_t *)ids.t.data)[i] = i;
        call c = {.op = WR_OP_GATHER_LINEAR, .first = &x.t, .second = &ids.t, .w = &many, .row = "pack"};
        assert_int_equal(run_call(&c, &y), m == 3);
        free_cloth(&x);
        free_cloth(&ids);
        free_cloth(&y);
    }
    free_weight(&w);
    free_weight(&many);
}

/* x and w rounded to bf16 leave about 2^-9 each. Where neither is rounded, only the sums differ. */
static void every_format_agrees_with_the_cpu(void **state) {
    (void)state;
    for (int f = 0; f < COUNT(formats); f++) {
        weight w = new_weight(formats[f], 1, 37, 1280, 0.01f, 1);
        cloth x = tokens(BF16, 5, 1280, 0, 7), want = outputs(F32, 5, 37), y = outputs(F32, 5, 37);
        linear(&w, &x, true, "decode", NULL, &y);
        cpu_run(wr_ref_linear, wr_ref_linear_scratch, WR_OP_LINEAR, &x, NULL, &w, &want);
        double error = relative_error(&y, &want), most = formats[f].exact || f == 1 ? 1e-5 : 4e-3;
        if (!(error <= most)) fail_msg("%s: relative error %g", wr_linear_kind_name(wr_linear_kind(&w.args)), error);
        free_weight(&w);
        free_cloth(&x);
        free_cloth(&y);
        free_cloth(&want);
    }
}

/* Every way to cut the work that the planner may choose, and some that it would not. */
static void no_plan_changes_a_bit(void **state) {
    (void)state;
    static const struct {
        int warps, tiles, chunk; /* chunk 0: direct */
        int64_t streams;
    } plans[] = {{4, 1, 0, 1}, {8, 2, 0, 2}, {12, 4, 0, 1}, {5, 3, 0, 3}, {8, 1, 0, 9},  {4, 4, 1, 1},
                 {8, 8, 1, 2}, {8, 4, 2, 1}, {6, 3, 2, 3},  {4, 1, 4, 2}, {12, 3, 4, 1}, {4, 4, 3, 1}};
    static const int picks[] = {0, 2, 6, 27, 36}; /* bf16, 4 bits, 8 bits, nvfp4, q4_k */
    for (int i = 0; i < COUNT(picks); i++) {
        weight w = new_weight(formats[picks[i]], 1, 100, 2048 + 256, 0.01f, 1);
        cloth x = tokens(BF16, 32, w.args.cols, 0, 8), want = outputs(BF16, 32, 100);
        int slices = (int)wr_linear_slices(w.args.cols);
        linear(&w, &x, true, "ref", NULL, &want);
        for (int k = 0; k < COUNT(plans); k++)
            for (int width = 8; width <= 32; width *= 2) {
                if ((width > 8 || i != 1) && plans[k].warps > 8) continue; /* launch bounds */
                int64_t m = width - 1;
                cloth xm = head(&x, m), wm = head(&want, m), y = outputs(BF16, m, 100);
                int chunk = plans[k].chunk ? plans[k].chunk : slices, chunks = (slices + chunk - 1) / chunk;
                wr_decode_plan plan = {.width = width,
                                       .threads = 32 * plans[k].warps,
                                       .group_tiles = plans[k].tiles,
                                       .chunk_slices = chunk,
                                       .chunks = chunks,
                                       .blocks = plans[k].streams * chunks,
                                       .shared_bytes = 227 << 10};
                linear(&w, &xm, true, "decode", &plan, &y);
                check_equal(&y, &wm, wr_linear_kind_name(wr_linear_kind(&w.args)));
                free_cloth(&y);
            }
        free_weight(&w);
        free_cloth(&x);
        free_cloth(&want);
    }
}

/* Blocks by themselves, blocks that bring x together, and slices spread over clusters: with row tiles that some warps,
 * and with a padded cluster a whole block, do not have; rows of x that can be copied in bulk, and others. */
static void no_lean_plan_changes_a_bit(void **state) {
    (void)state;
    static const struct {
        int tiles, takers, cluster, split, most;
    } plans[] = {{1, 7, 1, 0, 3}, {2, 7, 1, 0, 2}, {1, 7, 2, 0, 5}, {2, 7, 2, 0, 3}, {2, 7, 2, 0, 2},
                 {4, 3, 2, 1, 1}, {3, 2, 2, 1, 2}, {2, 1, 2, 1, 3}, {1, 4, 2, 1, 2}, {5, 4, 2, 1, 1}};
    static const int picks[] = {0, 2, 6, 27, 36}; /* bf16, 4 bits, 8 bits, nvfp4, q4_k */
    for (int i = 0; i < COUNT(picks); i++) {
        weight w = new_weight(formats[picks[i]], 1, 100, 3584, 0.01f, 1);
        for (int t = 0; t < 2; t++) {
            cloth x = tokens(t ? F32 : BF16, 16, w.args.cols, 0, 8), want = outputs(BF16, 16, 100);
            linear(&w, &x, true, "ref", NULL, &want);
            for (int k = 0; k < COUNT(plans); k++)
                for (int64_t m = t ? 7 : 1; m <= 16; m += 1 + (m + 5) % 8) {
                    cloth xm = head(&x, m), wm = head(&want, m), y = outputs(BF16, m, 100);
                    wr_lean_plan plan = {.tiles = plans[k].tiles,
                                         .takers = plans[k].takers,
                                         .cluster = plans[k].cluster,
                                         .split = plans[k].split};
                    int kind = wr_linear_kind(&w.args);
                    wr_decode_shape shape = {.kind = kind,
                                             .m = m,
                                             .row_tiles = 7,
                                             .k_tiles = 56,
                                             .slices = 7,
                                             .slice_tiles = 8,
                                             .tile_bytes = wr_linear_tile_bytes(kind),
                                             .n_sm = 132,
                                             .clusters = true,
                                             .shared_bytes = 227 << 10};
                    bool fits = wr_linear_lean_shape(&shape, plans[k].most, &plan);
                    assert_int_equal(fits, plan.cluster == 1 || plan.split == (m <= 8));
                    if (!fits) {
                        free_cloth(&y);
                        continue;
                    }
                    call c = {
                        .op = WR_OP_LINEAR, .first = &xm.t, .w = &w, .packed = true, .row = "decode", .lean = &plan};
                    assert_true(run_call(&c, &y));
                    check_equal(&y, &wm, wr_linear_kind_name(kind));
                    free_cloth(&y);
                }
            free_cloth(&x);
            free_cloth(&want);
        }
        free_weight(&w);
    }
}

static void a_row_does_not_depend_on_its_neighbours(void **state) {
    (void)state;
    weight w = new_weight(formats[2], 1, 48, 1280, 0.01f, 1);
    cloth x = tokens(BF16, 33, 1280, 0, 9), all = outputs(F32, 33, 48);
    linear(&w, &x, true, "decode", NULL, &all);
    for (int64_t m = 0; m < 33; m++) {
        cloth one = x, want = all, y = outputs(F32, 1, 48);
        one.t.shape[0] = want.t.shape[0] = 1;
        one.t.data = (uint16_t *)x.t.data + m * 1280;
        want.t.data = (float *)all.t.data + m * 48;
        linear(&w, &one, true, "decode", NULL, &y);
        check_equal(&y, &want, "a row alone");
        free_cloth(&y);
    }
    free_weight(&w);
    free_cloth(&x);
    free_cloth(&all);
}

/* Columns that are no multiple of a vector, rows that are prime, data off any alignment, all dtypes. */
static void odd_sizes_alignments_and_dtypes_are_served(void **state) {
    (void)state;
    const weir_dtype dtypes[] = {BF16, F16, F32};
    static const int64_t shapes[][2] = {{1, 1}, {1, 17}, {7, 64}, {13, 100}, {16, 801}, {31, 1000}};
    for (int s = 0; s < COUNT(shapes); s++)
        for (int d = 0; d < 9; d++) {
            int64_t n = shapes[s][0], k = shapes[s][1], m = 3 + 7 * (d % 3);
            weight w = new_weight(formats[d % 2], 1, n, k, 1, 1);
            cloth x = tokens(dtypes[d / 3], m, k, d % 3, (uint64_t)d), want = outputs(dtypes[d % 3], m, n),
                  y = outputs(dtypes[d % 3], m, n), cpu = outputs(F32, m, n);
            linear(&w, &x, true, "ref", NULL, &want);
            linear(&w, &x, true, "decode", NULL, &y);
            check_equal(&y, &want, "decode");
            cpu_run(wr_ref_linear, wr_ref_linear_scratch, WR_OP_LINEAR, &x, NULL, &w, &cpu);
            if (n * m > 20) assert_true(relative_error(&y, &cpu) < 5e-3);
            free_weight(&w);
            free_cloth(&x);
            free_cloth(&y);
            free_cloth(&want);
            free_cloth(&cpu);
        }
}

static void f32_weights_are_multiplied_in_f32(void **state) {
    (void)state;
    format f = {MODE(NONE), WEIR_DTYPE_F32, true};
    weight w = {.args = {.weight_dtype = F32, .global_scale = 1, .experts = 1, .rows = 19, .cols = 501}, .n_parts = 1};
    w.data = malloc(19 * 501 * 4);
    for (int64_t i = 0; i < 19 * 501; i++) put(f.dtype, w.data, i, unit((uint64_t)i));
    cloth x = tokens(F32, 11, 501, 1, 3), want = outputs(F32, 11, 19), y = outputs(F32, 11, 19),
          one = outputs(F32, 1, 19);
    linear(&w, &x, false, "f32", NULL, &y);
    cpu_run(wr_ref_linear, wr_ref_linear_scratch, WR_OP_LINEAR, &x, NULL, &w, &want);
    assert_true(relative_error(&y, &want) < 5e-7);
    cloth x1 = head(&x, 1), y1 = head(&y, 1);
    linear(&w, &x1, false, "f32", NULL, &one);
    check_equal(&one, &y1, "a row alone");
    free(w.data);
    free_cloth(&x);
    free_cloth(&y);
    free_cloth(&want);
    free_cloth(&one);
}

/* LINEAR_ADD rounds once: to f32 it is the sum plus the addend. */
static void an_addend_is_added_before_the_rounding(void **state) {
    (void)state;
    weight w = new_weight(formats[2], 1, 40, 1280, 0.01f, 1);
    for (int64_t m = 3; m < 60; m += 19) {
        cloth x = tokens(BF16, m, 1280, 0, 1), plain = outputs(F32, m, 40);
        linear(&w, &x, true, "decode", NULL, &plain);
        for (int d = 0; d < 2; d++) {
            weir_dtype dtype = d ? BF16 : F32;
            cloth addend = tokens(dtype, m, 40, 0, 2), y = outputs(dtype, m, 40), want = outputs(dtype, m, 40);
            for (int64_t i = 0; i < m * 40; i++)
                put_float(&want.t, i, get_float(&plain.t, i) + get_float(&addend.t, i));
            static const char *const rows[] = {"decode", "ref"};
            for (int r = 0; r < 2; r++) {
                call c = {.op = WR_OP_LINEAR_ADD,
                          .first = &x.t,
                          .second = &addend.t,
                          .w = &w,
                          .packed = true,
                          .row = rows[r]};
                assert_true(run_call(&c, &y));
                check_equal(&y, &want, rows[r]);
            }
            free_cloth(&addend);
            free_cloth(&y);
            free_cloth(&want);
        }
        free_cloth(&x);
        free_cloth(&plain);
    }
    free_weight(&w);
}

/* act(gate) * up as steps of their own do it, in numbers of y's dtype. */
static void gates(wr_op_id act, const cloth *both, const cloth *y) {
    int64_t m = y->t.shape[0], half = y->t.shape[1];
    cloth gate = outputs(y->t.dtype, m, half), up = outputs(y->t.dtype, m, half), open = outputs(y->t.dtype, m, half);
    for (int64_t i = 0; i < m * half; i++) {
        put_float(&gate.t, i, get_float(&both->t, i / half * 2 * half + i % half));
        put_float(&up.t, i, get_float(&both->t, i / half * 2 * half + half + i % half));
    }
    wr_step step = {.op = act, .n_in = 1, .in = &gate.t};
    assert_true(run_row(wr_cuda_elementwise_rows(act), "chain", &step, &open));
    wr_tensor in[] = {open.t, up.t};
    step = (wr_step){.op = WR_OP_MUL, .n_in = 2, .in = in};
    assert_true(run_row(wr_cuda_elementwise_rows(WR_OP_MUL), "chain", &step, y));
    free_cloth(&gate);
    free_cloth(&up);
    free_cloth(&open);
}

/* 1,536 columns: the lean row takes 1 to 8 rows of x; 160 rows of the weight are 5 pairs of row tiles. */
static void gated_products_have_the_bits_of_the_steps_one_by_one(void **state) {
    (void)state;
    static const int64_t counts[] = {1, 2, 3, 5, 8};
    for (int f = 0; f < COUNT(formats); f++) {
        weight w = new_weight(formats[f], 1, 160, 1536, 0.01f, 1);
        for (int d = 0; d < 3; d++) {
            weir_dtype dtype = d == 0 ? BF16 : d == 1 ? F16 : F32;
            w.args.gate = d == 1 ? WR_OP_GELU_TANH : WR_OP_SILU;
            cloth x = tokens(BF16, 11, 1536, 0, 5), both = outputs(dtype, 11, 160), want = outputs(dtype, 11, 80),
                  y = outputs(dtype, 11, 80);
            linear(&w, &x, true, "ref", NULL, &both);
            gates(w.args.gate, &both, &want);
            call c = {.op = WR_OP_LINEAR_GATED, .first = &x.t, .w = &w, .packed = true, .row = "ref"};
            assert_true(run_call(&c, &y));
            check_equal(&y, &want, "ref");
            c.row = "lean";
            for (int i = 0; i < COUNT(counts); i++) {
                cloth xm = head(&x, counts[i]), wm = head(&want, counts[i]), ym = outputs(dtype, counts[i], 80);
                c.first = &xm.t;
                bool ran = run_call(&c, &ym);
                if (ran) check_equal(&ym, &wm, wr_linear_kind_name(wr_linear_kind(&w.args)));
                if (wr_linear_kind(&w.args) == WR_KIND_A4_64) assert_true(ran);
                free_cloth(&ym);
            }
            c.first = &x.t;
            assert_false(run_call(&c, &y)); /* 11 rows */
            free_cloth(&x);
            free_cloth(&both);
            free_cloth(&want);
            free_cloth(&y);
        }
        free_weight(&w);
    }
}

/* Of every number of warps that a norm may have, fewer and more than a block's. */
static void normed_products_have_the_bits_of_the_steps_one_by_one(void **state) {
    (void)state;
    static const int64_t cols[] = {512, 1536, 4096, 5632};
    for (int i = 0; i < COUNT(cols) * 2; i++) {
        int64_t k = cols[i / 2];
        weight w = new_weight(formats[2 - i % 2 * 2], 1, 96, k, 0.01f, 1);
        cloth x = tokens(F32, 2, k, i % 3, 5), of = tokens(F32, 1, k, i % 2, 6), normed = outputs(BF16, 2, k);
        of.t.n_dims = 1, of.t.shape[0] = k, of.t.strides[0] = 1;
        w.args.norm_dtype = BF16, w.args.norm_eps = 1e-5f, w.args.norm_offset = (float)(i % 2);
        wr_norm_args args = {.eps = 1e-5f, .weight_offset = (float)(i % 2), .out_dtype = BF16};
        wr_tensor in[] = {x.t, of.t};
        wr_step step = {.op = WR_OP_RMS_NORM, .args = &args, .n_in = 2, .in = in};
        assert_true(run_row(wr_cuda_norm_rows(WR_OP_RMS_NORM), "rows", &step, &normed));
        for (int gate = 0; gate < 2; gate++) {
            int64_t n = gate ? 48 : 96;
            cloth both = outputs(BF16, 2, 96), want = outputs(BF16, 2, n);
            w.args.gate = 0;
            linear(&w, &normed, true, "ref", NULL, gate ? &both : &want);
            if (gate) gates(w.args.gate = WR_OP_SILU, &both, &want);
            for (int64_t m = 1; m <= 2; m++) {
                cloth xm = head(&x, m), wm = head(&want, m);
                static const char *const rows[] = {"lean", "ref"};
                for (int r = 0; r < 2; r++) {
                    cloth y = outputs(BF16, m, n);
                    call c = {.op = WR_OP_NORM_LINEAR,
                              .first = &xm.t,
                              .second = &of.t,
                              .w = &w,
                              .packed = true,
                              .row = rows[r]};
                    assert_true(run_call(&c, &y));
                    check_equal(&y, &wm, rows[r]);
                    free_cloth(&y);
                }
            }
            free_cloth(&both);
            free_cloth(&want);
        }
        free_weight(&w);
        free_cloth(&x);
        free_cloth(&of);
        free_cloth(&normed);
    }
}

static void cards_with_little_shared_memory_get_the_same_bits(void **state) {
    (void)state;
    weight w = new_weight(formats[2], 1, 64, 4096, 0.01f, 1);
    cloth x = tokens(BF16, 32, 4096, 0, 4), want = outputs(BF16, 32, 64), y = outputs(BF16, 32, 64);
    wr_cuda_traits small = *wr_emulate_traits_plain();
    small.shared_bytes = 99 << 10;
    linear(&w, &x, true, "ref", NULL, &want);
    call c = {.op = WR_OP_LINEAR, .first = &x.t, .w = &w, .packed = true, .row = "decode", .device = &small};
    assert_true(run_call(&c, &y));
    check_equal(&y, &want, "99 KiB");
    free_weight(&w);
    free_cloth(&x);
    free_cloth(&y);
    free_cloth(&want);
}

/* ---- GATHER_LINEAR ---- */

static cloth ids_of(int64_t n, int experts, uint64_t seed) {
    cloth ids = new_input(WEIR_DTYPE_I32, 1, &n, NULL, 0);
    for (int64_t i = 0; i < n; i++) ((int32_t *)ids.t.data)[i] = (int32_t)(mix(seed + (uint64_t)i) % (uint64_t)experts);
    return ids;
}

/* Row t has the bits of LINEAR with its expert's matrix; ids out of range give NaN. */
static void experts_have_the_bits_of_linear(void **state) {
    (void)state;
    static const struct {
        int64_t tokens, cols;
        int experts, format;
    } cases[] = {{5, 768, 4, 2},   {64, 256, 8, 26},  {65, 256, 7, 2},  {150, 1280, 3, 5},
                 {200, 256, 2, 0}, {90, 256, 40, 36}, {70, 768, 5, 1},  {13, 256, 3, 28},
                 {7, 1024, 3, 28}, {11, 512, 4, 2},   {90, 512, 30, 5}, {70, 1024, 40, 0}};
    for (int i = 0; i < COUNT(cases); i++) {
        int64_t t = cases[i].tokens, k = cases[i].cols, n = 37;
        weight w = new_weight(formats[cases[i].format], cases[i].experts, n, k, 0.01f, 1);
        cloth x = tokens(BF16, t, k, 0, 3), ids = ids_of(t, cases[i].experts, 77), y = outputs(F32, t, n),
              ref = outputs(F32, t, n);
        int32_t *id = ids.t.data;
        id[1] = -1, id[t - 1] = cases[i].experts, id[t / 2] = INT32_MIN;
        static const char *const rows[] = {"decode", "ref"};
        for (int r = 0; r < 2; r++) {
            call c = {
                .op = WR_OP_GATHER_LINEAR, .first = &x.t, .second = &ids.t, .w = &w, .packed = true, .row = rows[r]};
            assert_true(run_call(&c, r ? &ref : &y));
        }
        check_equal(&y, &ref, "tiers");
        for (int64_t row = 0; row < t; row++) {
            cloth one = x, got = y, want = outputs(F32, 1, n);
            one.t.shape[0] = got.t.shape[0] = 1;
            one.t.data = (uint16_t *)x.t.data + row * k;
            got.t.data = (float *)y.t.data + row * n;
            bool known = id[row] >= 0 && id[row] < cases[i].experts;
            weight expert = w;
            expert.args.experts = 1;
            if (known) {
                expert.packed = (uint8_t *)w.packed + id[row] * (int64_t)wr_cuda_packed_bytes(&expert.args);
                linear(&expert, &one, true, "decode", NULL, &want);
                check_equal(&got, &want, "an expert");
            } else {
                for (int64_t e = 0; e < n; e++) assert_true(isnan(get_float(&got.t, e)));
            }
            free_cloth(&want);
        }
        free_weight(&w);
        free_cloth(&x);
        free_cloth(&ids);
        free_cloth(&y);
        free_cloth(&ref);
    }
}

/* ---- EMBEDDING, QUANTIZE ---- */

static void embeddings_are_the_cpus(void **state) {
    (void)state;
    const weir_dtype dtypes[] = {F32, BF16, F16};
    for (int f = 0; f < COUNT(formats); f++) {
        weight w = new_weight(formats[f], 1, 19, 256, 0.01f, 1);
        int64_t n = 7;
        cloth ids = ids_of(n, 19, 5);
        ((int32_t *)ids.t.data)[2] = -1;
        ((int32_t *)ids.t.data)[4] = 19;
        for (int d = 0; d < 3; d++) {
            cloth y = outputs(dtypes[d], n, 256), want = outputs(dtypes[d], n, 256);
            cpu_run(wr_ref_embedding, wr_ref_linear_scratch, WR_OP_EMBEDDING, &ids, NULL, &w, &want);
            for (int packed = 0; packed < 2; packed++) {
                call c = {.op = WR_OP_EMBEDDING, .first = &ids.t, .w = &w, .packed = packed, .row = "ref"};
                assert_true(run_call(&c, &y));
                check_close(&y, &want, formats[f].exact || f == 1 ? 0 : 1, 1e-7, weir_quant_name(w.args.quant.mode));
            }
            free_cloth(&y);
            free_cloth(&want);
        }
        free_weight(&w);
        free_cloth(&ids);
    }
}

static void quantisers_have_the_cpus_bits(void **state) {
    (void)state;
    const weir_dtype dtypes[] = {F32, BF16, F16};
    static const wr_op_id ops[] = {WR_OP_QUANTIZE_WEIGHT, WR_OP_QUANTIZE_SCALES, WR_OP_QUANTIZE_BIASES};
    for (int f = 0; f < 29; f++) {
        if (formats[f].quant.mode == WEIR_QUANT_NONE) continue;
        wr_quantize_args args = {wr_linear_quant(formats[f].quant)};
        bool affine = args.quant.mode == WEIR_QUANT_AFFINE;
        for (int d = 0; d < 3; d++)
            for (int o = 0; o < (affine ? 3 : 2); o++) {
                int64_t cols = 256, group = args.quant.group_size;
                cloth x = tokens(dtypes[d], 6, cols, 0, 9);
                for (int64_t i = 0; i < 2 * group; i++) put_float(&x.t, i, i < group ? 0 : 3);
                for (int64_t i = 0; i < cols; i++) put_float(&x.t, 5 * cols + i, 100 * unit((uint64_t)i));
                weir_dtype dtype = o == 0 ? WEIR_DTYPE_U8 : affine ? dtypes[d] : WEIR_DTYPE_U8;
                int64_t shape[] = {6, o == 0 ? cols * args.quant.bits / 8 : cols / group};
                cloth y = new_output(dtype, 2, shape, 0), want = new_output(dtype, 2, shape, 0);
                wr_step step = {.op = ops[o], .args = &args, .out = want.t, .n_in = 1, .in = &x.t};
                wr_ref_quantize(&step, 0, 1);
                assert_true(run_row(wr_cuda_linear_rows(ops[o]), "ref", &step, &y));
                check_equal(&y, &want, weir_quant_name(args.quant.mode));
                free_cloth(&x);
                free_cloth(&y);
                free_cloth(&want);
            }
    }
}

/* ---- plans ---- */

static void plans_fit_the_card(void **state) {
    (void)state;
    static const int64_t sizes[] = {64, 576, 1024, 3072, 4096, 11008, 14336, 53248, 128256};
    static const int64_t shared[] = {227 << 10, 163 << 10, 99 << 10};
    for (int kind = 0; kind < WR_KIND_COUNT; kind++)
        for (int64_t m = 1; m <= 32; m++)
            for (int i = 0; i < COUNT(sizes) * COUNT(sizes) * 3; i++) {
                int64_t n = sizes[i % COUNT(sizes)], k = sizes[i / COUNT(sizes) % COUNT(sizes)];
                wr_decode_shape s = {.kind = kind,
                                     .m = m,
                                     .row_tiles = wr_linear_row_tiles(n),
                                     .k_tiles = wr_linear_k_tiles(k),
                                     .slices = (int)wr_linear_slices(k),
                                     .slice_tiles = (int)wr_linear_slice_tiles(k),
                                     .tile_bytes = wr_linear_tile_bytes(kind),
                                     .n_sm = 132,
                                     .shared_bytes = (size_t)shared[i % 3]};
                wr_decode_plan p;
                if (m % 7 && kind != WR_KIND_A4_64) continue; /* all counts for one kind */
                assert_true(wr_linear_decode_plan(&s, &p));
                assert_true(p.width >= m && p.threads >= 32 && p.threads <= (p.width == 32 ? 256 : 384));
                assert_true(p.shared_bytes <= s.shared_bytes && p.blocks >= 1 && p.blocks % p.chunks == 0);
                assert_true((int64_t)p.chunk_slices * p.chunks >= s.slices);
                assert_true(p.chunks == 1 || (p.chunks - 1) * p.chunk_slices < s.slices);
                s.clusters = shared[i % 3] > 200 << 10;
                for (int form = 0; form < 4; form++) {
                    wr_lean_plan lean;
                    s.gated = form & 1, s.normed = form & 2;
                    if (m > 16 || !wr_linear_lean_plan(&s, 0, &lean)) continue;
                    assert_true(lean.shared_bytes <= s.shared_bytes && lean.threads == 32 * lean.tiles * lean.takers);
                    assert_true(lean.threads <= 32 * WR_LEAN_WARPS && lean.blocks >= 1 && lean.blocks <= 24 * s.n_sm);
                    assert_true(lean.blocks % lean.cluster == 0 && (lean.cluster == 1 || s.clusters));
                    assert_true(lean.split ? m <= 8 : s.gated || lean.takers == s.slices);
                    assert_true(!form || (m <= 8 && lean.cluster == 1));
                    assert_true(!s.gated || lean.tiles % 2 == 0);
                    assert_true(!s.normed || lean.shared_bytes >= (size_t)(m * (k + 8) * 2 + 4 * k + 1024));
                }
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_and_row_count_has_the_bits_of_the_reference),
        cmocka_unit_test(whole_slices_have_the_bits_of_the_reference),
        cmocka_unit_test(published_weights_have_the_bits_of_packed_ones),
        cmocka_unit_test(the_device_packs_as_the_host_does),
        cmocka_unit_test(published_weights_are_packed_where_it_pays),
        cmocka_unit_test(every_format_agrees_with_the_cpu),
        cmocka_unit_test(no_plan_changes_a_bit),
        cmocka_unit_test(no_lean_plan_changes_a_bit),
        cmocka_unit_test(a_row_does_not_depend_on_its_neighbours),
        cmocka_unit_test(odd_sizes_alignments_and_dtypes_are_served),
        cmocka_unit_test(f32_weights_are_multiplied_in_f32),
        cmocka_unit_test(an_addend_is_added_before_the_rounding),
        cmocka_unit_test(gated_products_have_the_bits_of_the_steps_one_by_one),
        cmocka_unit_test(normed_products_have_the_bits_of_the_steps_one_by_one),
        cmocka_unit_test(cards_with_little_shared_memory_get_the_same_bits),
        cmocka_unit_test(experts_have_the_bits_of_linear),
        cmocka_unit_test(embeddings_are_the_cpus),
        cmocka_unit_test(quantisers_have_the_cpus_bits),
        cmocka_unit_test(plans_fit_the_card),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
