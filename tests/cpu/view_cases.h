/* Views with real kernels: slices, negative steps, broadcast, transposes, empty arrays, scalars, with expected values
 * indexed by hand; and ops whose inputs lie in memory in other ways, against the CPU's reference over plain ones. On
 * the device that a program names: tests/cpu/test_array_views.c, tests/cuda/test_device_views.c. */
#ifndef WR_TESTS_CPU_VIEW_CASES_H
#define WR_TESTS_CPU_VIEW_CASES_H

#include "cpu/array_cpu_test.h"

static const char *device_name;
static weir_device *device, *cpu; /* device NULL: there is none here, and the tests are skipped */
static weir_graph *g;

static int open_devices(void **state) {
    weir_error err;
    (void)state;
    cpu = open_cpu(1);
    if (weir_device_open(device_name, 2, &device, &err) != WEIR_OK) print_message("%s\n", err.message);
    return 0;
}
static int close_devices(void **state) {
    (void)state;
    weir_device_close(device);
    weir_device_close(cpu);
    return 0;
}
static int setup(void **state) {
    (void)state;
    g = device ? new_graph(device) : NULL;
    return 0;
}
static int teardown(void **state) {
    (void)state;
    weir_graph_free(g);
    return 0;
}
#define WITH_DEVICE()                                                                                                  \
    do {                                                                                                               \
        (void)state;                                                                                                   \
        if (!device) skip();                                                                                           \
    } while (0)

/* Element (i, j) of a [4, 6] array is 10 i + j. */
static weir_array *grid(void) {
    float data[24];
    for (int i = 0; i < 24; i++) data[i] = (float)(10 * (i / 6) + i % 6);
    return weir_from_data(g, WEIR_DTYPE_F32, DIMS(4, 6), data);
}

static void check(weir_array *a, int n, const float *want) {
    evaluate(a);
    assert_int_equal(weir_array_size(a), n);
    const float *got = weir_array_data(a);
    for (int i = 0; i < n; i++)
        if (got[i] != want[i]) fail_msg("element %d is %g, want %g", i, (double)got[i], (double)want[i]);
}
#define CHECK(a, ...) check(a, (int)(sizeof((float[]){__VA_ARGS__}) / sizeof(float)), (float[]){__VA_ARGS__})

static void slices_follow_python(void **state) {
    WITH_DEVICE();
    weir_array *x = grid();
    CHECK(weir_slice(x, (int64_t[]){1, 4}, (int64_t[]){3, 6}, NULL), 14, 15, 24, 25);
    CHECK(weir_slice(x, (int64_t[]){-1, 5}, (int64_t[]){-5, 0}, (int64_t[]){-2, -3}), 35, 32, 15, 12);
    CHECK(weir_slice(x, (int64_t[]){0, -2}, (int64_t[]){1, 100}, NULL), 4, 5);
    /* A slice of a slice of a transpose, used by an op. */
    weir_array *t =
        weir_slice(weir_transpose(x, NULL), (int64_t[]){0, 3}, (int64_t[]){6, 0}, (int64_t[]){2, -1}); /* [3, 3] */
    CHECK(weir_add(weir_slice(t, (int64_t[]){2, 0}, (int64_t[]){-4, 3}, (int64_t[]){-1, 2}), weir_scalar_f32(g, 100)),
          134, 114, 132, 112, 130, 110);
}

static void reductions_and_products_take_views(void **state) {
    WITH_DEVICE();
    weir_array *t = weir_transpose(grid(), NULL);
    CHECK(weir_sum(t, 1, (int[]){0}, false), 15, 75, 135, 195);
    CHECK(weir_sum(weir_slice(t, (int64_t[]){5, 0}, (int64_t[]){3, 4}, (int64_t[]){-1, 3}), 1, (int[]){1}, false), 40,
          38);
    weir_array *reversed =
        weir_slice(grid(), (int64_t[]){1, 1}, (int64_t[]){-5, -7}, (int64_t[]){-1, -1}); /* 11 10; 1 0 */
    CHECK(weir_matmul(reversed, weir_transpose(reversed, NULL)), 221, 11, 11, 1);
    CHECK(weir_max(weir_broadcast(weir_scalar_f32(g, 3), 2, (int64_t[]){2, 5}), 1, (int[]){1}, false), 3, 3);
}

static void reshapes_of_views_copy_when_they_must(void **state) {
    WITH_DEVICE();
    weir_array *t = weir_transpose(weir_slice(grid(), NULL, (int64_t[]){2, 2}, NULL), NULL); /* 0 10; 1 11 */
    CHECK(weir_reshape(t, 1, (int64_t[]){4}), 0, 10, 1, 11);
    CHECK(weir_reshape(
              weir_broadcast(weir_slice(grid(), (int64_t[]){0, 1}, (int64_t[]){1, 3}, NULL), 3, (int64_t[]){2, 1, 2}),
              1, (int64_t[]){4}),
          1, 2, 1, 2);
    CHECK(weir_contiguous(t), 0, 10, 1, 11);
}

static void ops_without_strides_get_copies(void **state) {
    WITH_DEVICE();
    weir_array *x =
        weir_transpose(weir_from_data(g, WEIR_DTYPE_F32, DIMS(2, 2), (float[]){3, 1, 4, 1}), NULL); /* 3 4; 1 1 */
    weir_array *y = weir_rms_norm(x, NULL, 0);
    evaluate(y);
    /* rms of (3, 4) is 5 / sqrt(2), of (1, 1) is 1. */
    const double want[] = {3 * sqrt(2) / 5, 4 * sqrt(2) / 5, 1, 1};
    for (int i = 0; i < 4; i++) assert_true(fabs((double)((const float *)weir_array_data(y))[i] - want[i]) < 1e-6);
}

static void empty_arrays_go_through_everything(void **state) {
    WITH_DEVICE();
    weir_array *e = weir_slice(grid(), (int64_t[]){2, 0}, (int64_t[]){2, 6}, NULL); /* [0, 6] */
    weir_array *all[] = {
        weir_add(e, e),
        weir_softmax(e, -1),
        weir_transpose(e, NULL),
        weir_sort(e, 0, false),
        weir_cumsum(e, 0, false, false),
        weir_rms_norm(e, NULL, 1e-5f),
        weir_matmul(e, weir_transpose(grid(), NULL)),
        weir_linear(e, grid()),
        weir_take(e, weir_from_data(g, WEIR_DTYPE_I32, DIMS(0), NULL), 0),
        weir_argmax(e, 1),
        weir_concat((weir_array *[]){e, e}, 2, 0),
        weir_reshape(e, 3, (int64_t[]){2, 0, 9}),
        weir_random_normal(g, DIMS(0), 1, 1),
    };
    weir_error err;
    if (weir_eval(all, (int)(sizeof all / sizeof *all), &err) != WEIR_OK) fail_msg("%s", err.message);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_int_equal(weir_array_size(all[i]), 0);
        assert_null(weir_array_data(all[i]));
    }
    CHECK(weir_sum(e, 1, (int[]){0}, false), 0, 0, 0, 0, 0, 0);
    CHECK(weir_matmul(weir_transpose(e, NULL), e), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
          0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    CHECK(weir_concat((weir_array *[]){e, weir_slice(grid(), (int64_t[]){3, 0}, (int64_t[]){4, 6}, NULL)}, 2, 0), 30,
          31, 32, 33, 34, 35);
}

static void products_over_nothing_are_zeros(void **state) {
    WITH_DEVICE();
    static const weir_dtype dtypes[] = {WEIR_DTYPE_F32, WEIR_DTYPE_F16, WEIR_DTYPE_BF16};
    for (int i = 0; i < 3; i++) {
        weir_array *x = weir_from_data(g, dtypes[i], DIMS(3, 0), NULL),
                   *w = weir_from_data(g, dtypes[i], DIMS(2, 0), NULL);
        CHECK(weir_cast(weir_linear(x, w), WEIR_DTYPE_F32), 0, 0, 0, 0, 0, 0);
        CHECK(weir_cast(weir_matmul(x, weir_transpose(w, NULL)), WEIR_DTYPE_F32), 0, 0, 0, 0, 0, 0);
    }
}

static void scalars_are_arrays(void **state) {
    WITH_DEVICE();
    weir_array *s = weir_scalar_f32(g, 9);
    CHECK(weir_sqrt(s), 3);
    CHECK(weir_sum(s, 0, NULL, true), 9);
    CHECK(weir_reshape(s, 2, (int64_t[]){1, 1}), 9);
    CHECK(weir_transpose(s, NULL), 9);
    CHECK(weir_slice(s, NULL, NULL, NULL), 9);
    CHECK(weir_matmul(weir_from_data(g, WEIR_DTYPE_F32, DIMS(2), (float[]){1, 2}),
                      weir_from_data(g, WEIR_DTYPE_F32, DIMS(2), (float[]){3, 4})),
          11);
}

static void reference_and_default_evaluation_agree(void **state) {
    WITH_DEVICE();
    weir_array *x = weir_neg(weir_square(weir_transpose(grid(), NULL)));
    weir_array *y = weir_neg(weir_square(weir_transpose(grid(), NULL)));
    weir_error err;
    assert_int_equal(weir_eval(&x, 1, &err), WEIR_OK);
    assert_int_equal(weir_eval_reference(&y, 1, &err), WEIR_OK);
    assert_memory_equal(weir_array_data(x), weir_array_data(y), 24 * 4);
}

/* ---- the same values laid out otherwise ---- */

typedef enum layout { PLAIN, TRANSPOSED, BACKWARDS, INSIDE, EVERY_SECOND, LAYOUTS } layout;
static const char *const layouts[LAYOUTS] = {"plain", "transposed", "backwards", "inside a larger one",
                                             "every second column"};

typedef struct lay_out {
    weir_graph *g;
    layout how;
    uint64_t seed;
} lay_out;

/* The values as a view of a leaf whose other elements are NaN (ones). */
static weir_array *lay(const lay_out *l, weir_dtype dtype, int n_dims, const int64_t *dims, const void *values) {
    int64_t outer[WEIR_MAX_DIMS], first[WEIR_MAX_DIMS], stop[WEIR_MAX_DIMS], step[WEIR_MAX_DIMS], n = 1, n_outer = 1;
    layout how = l->how;
    for (int d = 0; d < n_dims; d++) {
        int64_t size = dims[how == TRANSPOSED ? n_dims - 1 - d : d];
        bool wide = how == EVERY_SECOND && d == n_dims - 1;
        outer[d] = how == INSIDE ? size + 3 : wide ? 2 * size : size;
        first[d] = how == BACKWARDS ? size - 1 : how == INSIDE ? 1 : 0;
        step[d] = how == BACKWARDS ? -1 : wide ? 2 : 1;
        stop[d] = how == BACKWARDS ? -size - 1 : how == INSIDE ? 1 + size : outer[d];
        n *= size;
        n_outer *= outer[d];
    }
    size_t bytes = weir_dtype_bytes(dtype);
    unsigned char *leaf = malloc((size_t)n_outer * bytes + 1);
    assert_non_null(leaf);
    memset(leaf, 0xff, (size_t)n_outer * bytes);
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i, at = 0, index[WEIR_MAX_DIMS] = {0}, stride = 1;
        for (int d = n_dims - 1; d >= 0; d--)
            index[how == TRANSPOSED ? n_dims - 1 - d : d] = rest % dims[d], rest /= dims[d];
        for (int d = n_dims - 1; d >= 0; d--) at += (first[d] + index[d] * step[d]) * stride, stride *= outer[d];
        memcpy(leaf + at * (int64_t)bytes, (const char *)values + i * (int64_t)bytes, bytes);
    }
    weir_array *a = weir_from_data(l->g, dtype, n_dims, outer, leaf);
    free(leaf);
    return how == PLAIN || n_dims == 0 ? a
           : how == TRANSPOSED         ? weir_transpose(a, NULL)
                                       : weir_slice(a, first, stop, step);
}

/* Multiples of 1/8 from -2 to 2: exact in every type, and so are sums of products of two. */
static weir_array *numbers(lay_out *l, weir_dtype dtype, int n_dims, const int64_t *dims) {
    static unsigned char values[1 << 18];
    int64_t n = 1;
    for (int d = 0; d < n_dims; d++) n *= dims[d];
    assert_true(n * 4 <= (int64_t)sizeof values);
    for (int64_t i = 0; i < n; i++) {
        float f = ((float)random_below(&l->seed, 33) - 16) / 8;
        uint16_t h = dtype == WEIR_DTYPE_F16 ? wr_f32_to_f16(f) : wr_f32_to_bf16(f);
        int32_t whole = (int32_t)(f * 8);
        if (dtype == WEIR_DTYPE_F32)
            memcpy(values + 4 * i, &f, 4);
        else if (dtype == WEIR_DTYPE_I32)
            memcpy(values + 4 * i, &whole, 4);
        else if (dtype == WEIR_DTYPE_BOOL)
            values[i] = f > 0;
        else
            memcpy(values + 2 * i, &h, 2);
    }
    return lay(l, dtype, n_dims, dims, values);
}
#define F32(...)  numbers(l, WEIR_DTYPE_F32, DIMS(__VA_ARGS__))
#define BF16(...) numbers(l, WEIR_DTYPE_BF16, DIMS(__VA_ARGS__))

static weir_array *indices(lay_out *l, int32_t below, int n_dims, const int64_t *dims) {
    int32_t values[256];
    int64_t n = 1;
    for (int d = 0; d < n_dims; d++) n *= dims[d];
    assert_true(n <= 256);
    for (int64_t i = 0; i < n; i++) values[i] = (int32_t)random_below(&l->seed, (uint32_t)below);
    return lay(l, WEIR_DTYPE_I32, n_dims, dims, values);
}

/* The parts of a weight as published, each laid out by itself. */
static void weight(lay_out *l, weir_quant quant, int n_dims, const int64_t *dims, weir_array **parts) {
    weir_graph *own = new_graph(cpu);
    weir_error err;
    lay_out plain = {.g = own, .how = PLAIN, .seed = l->seed};
    weir_quantize(numbers(&plain, WEIR_DTYPE_F32, n_dims, dims), quant, &parts[0], &parts[1], &parts[2]);
    l->seed = plain.seed;
    int n = parts[2] ? 3 : 2;
    if (weir_eval(parts, n, &err) != WEIR_OK) fail_msg("%s", err.message);
    for (int i = 0; i < n; i++) {
        int64_t shape[WEIR_MAX_DIMS];
        for (int d = 0; d < weir_array_n_dims(parts[i]); d++) shape[d] = weir_array_dim(parts[i], d);
        parts[i] = lay(l, weir_array_dtype(parts[i]), n_dims, shape, weir_array_data(parts[i]));
    }
    weir_graph_free(own);
}
static const weir_quant affine4 = {WEIR_QUANT_AFFINE, 64, 4}, affine8 = {WEIR_QUANT_AFFINE, 32, 8},
                        affine3 = {WEIR_QUANT_AFFINE, 64, 3}, mxfp4 = {WEIR_QUANT_MXFP4, 32, 4},
                        mxfp8 = {WEIR_QUANT_MXFP8, 32, 8};

/* One expert of [3, rows, ..] as a matrix. */
static weir_array *plane(weir_array *a, int64_t at) {
    if (!a) return NULL;
    int64_t rows = weir_array_dim(a, 1), cols = weir_array_dim(a, 2);
    weir_array *one = weir_slice(a, (int64_t[]){at, 0, 0}, (int64_t[]){at + 1, rows, cols}, NULL);
    return weir_reshape(one, 2, (int64_t[]){rows, cols});
}

/* ---- cases ---- */

static weir_array *adding(lay_out *l) { return weir_add(weir_mul(F32(5, 7, 3), F32(7, 3)), F32(5, 1, 1)); }
static weir_array *adding_bf16(lay_out *l) { return weir_add(weir_silu(BF16(4, 16)), BF16(16)); }
static weir_array *selecting(lay_out *l) {
    return weir_select(numbers(l, WEIR_DTYPE_BOOL, DIMS(6, 9)), F32(6, 9),
                       weir_cast(numbers(l, WEIR_DTYPE_I32, DIMS(9)), WEIR_DTYPE_F32));
}
static weir_array *summing(lay_out *l) { return weir_sum(F32(5, 7, 33), 2, (int[]){0, 2}, false); }
static weir_array *summing_rows(lay_out *l) { return weir_sum(BF16(9, 70), 1, (int[]){1}, false); }
static weir_array *choosing(lay_out *l) { return weir_argmax(F32(9, 70), 1); }
static weir_array *softmax(lay_out *l) { return weir_softmax(F32(5, 6, 37), 1); }
static weir_array *sorting(lay_out *l) { return weir_argsort(F32(5, 37), 1, true); }
static weir_array *top(lay_out *l) { return weir_top_k(BF16(5, 77), 1, 6); }
static weir_array *adding_up(lay_out *l) { return weir_cumsum(F32(7, 45), 1, true, false); }
static weir_array *taking(lay_out *l) { return weir_take(BF16(11, 16), indices(l, 11, DIMS(3, 4)), 0); }
static weir_array *taking_along(lay_out *l) { return weir_take_along(F32(6, 12), indices(l, 12, DIMS(6, 5)), 1); }
static weir_array *scattering(lay_out *l) {
    return weir_scatter_add(F32(6, 12), indices(l, 12, DIMS(6, 5)), F32(6, 5), 1);
}
static weir_array *updating(lay_out *l) {
    return weir_slice_update(F32(6, 12), F32(3, 6), (int64_t[]){0, 1}, (int64_t[]){6, 13}, (int64_t[]){2, 2});
}
static weir_array *joining(lay_out *l) { return weir_concat((weir_array *[]){BF16(3, 8), BF16(3, 16)}, 2, 1); }
static weir_array *padding(lay_out *l) { return weir_pad(F32(3, 8), (int64_t[]){1, 0}, (int64_t[]){0, 2}, 0.5); }
static weir_array *matmul(lay_out *l) { return weir_matmul(F32(3, 5, 17), F32(17, 6)); }
static weir_array *matmul_bf16(lay_out *l) { return weir_matmul(BF16(2, 40, 64), BF16(1, 64, 72)); }
static weir_array *linear(lay_out *l) { return weir_linear(F32(5, 70), F32(9, 70)); }
static weir_array *linear_bf16(lay_out *l) { return weir_linear(BF16(3, 5, 128), BF16(24, 128)); }
static weir_array *linear_of_broadcast(lay_out *l) {
    return weir_linear(weir_broadcast(F32(1, 70), 2, (int64_t[]){6, 70}),
                       weir_broadcast(F32(1, 70), 2, (int64_t[]){9, 70}));
}

static weir_array *by_weight(lay_out *l, weir_quant quant) {
    weir_array *w[3] = {NULL}, *x = BF16(5, 128);
    weight(l, quant, DIMS(24, 128), w);
    return weir_quantized_matmul(x, w[0], w[1], w[2], quant);
}
static weir_array *by_affine4(lay_out *l) { return by_weight(l, affine4); }
static weir_array *by_affine3(lay_out *l) { return by_weight(l, affine3); }
static weir_array *by_affine8(lay_out *l) { return by_weight(l, affine8); }
static weir_array *by_mxfp4(lay_out *l) { return by_weight(l, mxfp4); }
static weir_array *by_mxfp8(lay_out *l) { return by_weight(l, mxfp8); }
/* Bytes of q8_0: an f16 scale before every 32 values. */
static weir_array *by_q8_0(lay_out *l) {
    enum { ROWS = 12, BLOCKS = 4, BLOCK = 34 };
    unsigned char bytes[ROWS * BLOCKS * BLOCK];
    for (int i = 0; i < ROWS * BLOCKS * BLOCK; i++) bytes[i] = (unsigned char)random_below(&l->seed, 256);
    for (int i = 0; i < ROWS * BLOCKS; i++) bytes[i * BLOCK] = 0, bytes[i * BLOCK + 1] = 0x20; /* 2^-7 */
    weir_array *x = F32(5, 128);
    return weir_quantized_matmul(x, lay(l, WEIR_DTYPE_U8, DIMS(ROWS, BLOCKS * BLOCK), bytes), NULL, NULL,
                                 (weir_quant){.mode = WEIR_QUANT_Q8_0});
}
static weir_array *by_one_expert(lay_out *l) {
    weir_array *w[3] = {NULL}, *x = F32(5, 128);
    weight(l, affine4, DIMS(3, 8, 128), w);
    return weir_quantized_matmul(x, plane(w[0], 1), plane(w[1], 1), plane(w[2], 1), affine4);
}
/* All rows of three experts as one matrix: w has three axes. */
static weir_array *by_all_experts(lay_out *l) {
    weir_array *w[3] = {NULL}, *x = BF16(70, 128);
    weight(l, mxfp4, DIMS(3, 8, 128), w);
    return weir_quantized_matmul(x, w[0], w[1], w[2], mxfp4);
}
static weir_array *gathering(lay_out *l) {
    weir_array *w[3] = {NULL}, *x = BF16(7, 128), *ids = indices(l, 3, DIMS(7));
    weight(l, affine8, DIMS(3, 8, 128), w);
    return weir_gather_quantized_matmul(x, ids, w[0], w[1], w[2], affine8);
}
/* The experts 1 and 2, each twice. */
static weir_array *gathering_from_views(lay_out *l) {
    weir_array *w[3] = {NULL}, *x = F32(7, 128), *ids = indices(l, 4, DIMS(7));
    weight(l, mxfp4, DIMS(3, 8, 128), w);
    for (int i = 0; i < 2; i++) {
        int64_t cols = weir_array_dim(w[i], 2);
        weir_array *two = weir_slice(w[i], (int64_t[]){1, 0, 0}, (int64_t[]){3, 8, cols}, NULL);
        two = weir_broadcast(weir_reshape(two, 4, (int64_t[]){2, 1, 8, cols}), 4, (int64_t[]){2, 2, 8, cols});
        w[i] = weir_reshape(two, 3, (int64_t[]){4, 8, cols});
    }
    return weir_gather_quantized_matmul(x, ids, w[0], w[1], NULL, mxfp4);
}
static weir_array *dequantizing(lay_out *l) {
    weir_array *w[3] = {NULL};
    weight(l, affine4, DIMS(3, 8, 128), w);
    return weir_dequantize(w[0], w[1], w[2], affine4, WEIR_DTYPE_F32);
}
static weir_array *quantizing(lay_out *l) {
    weir_array *packed, *scales, *biases;
    weir_quantize(F32(6, 128), affine4, &packed, &scales, &biases);
    return weir_dequantize(packed, scales, biases, affine4, WEIR_DTYPE_F32);
}
static weir_array *rms_norm(lay_out *l) { return weir_rms_norm(BF16(6, 80), F32(80), 1e-5f); }
static weir_array *layer_norm(lay_out *l) { return weir_layer_norm(F32(3, 6, 33), F32(33), F32(33), 1e-5f); }
static weir_array *rope(lay_out *l) {
    weir_array *x = BF16(5, 3, 32), *positions = indices(l, 500, DIMS(5));
    return weir_rope(x, positions, &(weir_rope_options){0});
}
static weir_array *attention(lay_out *l) {
    weir_array *q = F32(2, 4, 5, 24), *k = F32(2, 2, 9, 24), *v = F32(2, 2, 9, 16), *mask = F32(4, 1, 9);
    return weir_attention(q, k, v, mask, F32(4), &(weir_attention_options){.causal = true});
}
/* As a model has them: [tokens, heads, columns], and the heads' axis brought forward. */
static weir_array *attention_bf16(lay_out *l) {
    weir_array *in[3] = {BF16(1, 20, 4, 64), BF16(1, 20, 2, 64), BF16(1, 20, 2, 64)};
    for (int i = 0; i < 3; i++) in[i] = weir_transpose(in[i], (int[]){0, 2, 1, 3});
    return weir_attention(in[0], in[1], in[2], numbers(l, WEIR_DTYPE_BOOL, DIMS(20, 20)), NULL,
                          &(weir_attention_options){0});
}
static weir_array *convolving(lay_out *l) { return weir_conv1d(F32(2, 9, 6), F32(4, 3, 3), F32(4), 1, 1, 2, 1, 1); }

typedef struct view_case {
    const char *name;
    weir_array *(*make)(lay_out *l);
    double share; /* of the largest result that one may be off, beside the last place */
} view_case;

/* Sums are exact, weights of the block floats too; those of affine formats are rounded to bf16 on a GPU, and are one
 * rounding or two. */
static const view_case view_cases[] = {
    {"element-wise", adding, 0},
    {"element-wise, bf16", adding_bf16, 0},
    {"select", selecting, 0},
    {"sum of two axes", summing, 0},
    {"sum of rows", summing_rows, 0},
    {"argmax", choosing, 0},
    {"softmax", softmax, 1e-6},
    {"argsort", sorting, 0},
    {"top_k", top, 0},
    {"cumsum", adding_up, 0},
    {"take", taking, 0},
    {"take_along", taking_along, 0},
    {"scatter_add", scattering, 0},
    {"slice_update", updating, 0},
    {"concat", joining, 0},
    {"pad", padding, 0},
    {"matmul", matmul, 0},
    {"matmul, bf16", matmul_bf16, 0},
    {"linear", linear, 0},
    {"linear, bf16", linear_bf16, 0},
    {"linear of broadcast arrays", linear_of_broadcast, 0},
    {"quantized_matmul, affine 4", by_affine4, 5e-3},
    {"quantized_matmul, affine 3", by_affine3, 5e-3},
    {"quantized_matmul, affine 8", by_affine8, 5e-3},
    {"quantized_matmul, mxfp4", by_mxfp4, 0},
    {"quantized_matmul, mxfp8", by_mxfp8, 0},
    {"quantized_matmul, q8_0", by_q8_0, 0},
    {"quantized_matmul by one of three experts", by_one_expert, 5e-3},
    {"quantized_matmul by all experts", by_all_experts, 0},
    {"gather_quantized_matmul", gathering, 5e-3},
    {"gather_quantized_matmul, views of views", gathering_from_views, 0},
    {"dequantize", dequantizing, 1e-7},
    {"quantize", quantizing, 1e-7},
    {"rms_norm", rms_norm, 1e-6},
    {"layer_norm", layer_norm, 1e-6},
    {"rope", rope, 1e-6},
    {"attention", attention, 2e-6},
    {"attention, bf16", attention_bf16, 2e-3}, /* weights of keys are rounded to bf16 */
    {"conv1d", convolving, 0},
};

static double element(const weir_array *a, int64_t i) {
    const void *p = weir_array_data(a);
    switch (weir_array_dtype(a)) {
    case WEIR_DTYPE_F32: return (double)((const float *)p)[i];
    case WEIR_DTYPE_F16: return (double)wr_f16_to_f32(((const uint16_t *)p)[i]);
    case WEIR_DTYPE_BF16: return (double)wr_bf16_to_f32(((const uint16_t *)p)[i]);
    case WEIR_DTYPE_I32: return ((const int32_t *)p)[i];
    default: fail_msg("%s has no number here", weir_dtype_name(weir_array_dtype(a))); return NAN;
    }
}

static void compare(const view_case *c, const char *how, weir_array *got, weir_array *want) {
    int64_t n = weir_array_size(want);
    double largest = 0;
    double unit = weir_array_dtype(want) == WEIR_DTYPE_F32   ? 1e-6
                  : weir_array_dtype(want) == WEIR_DTYPE_I32 ? 0
                                                             : 0x1.01p-7;
    assert_int_equal(weir_array_size(got), n);
    assert_int_equal(weir_array_dtype(got), weir_array_dtype(want));
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(element(want, i)));
    assert_true(largest > 0 && isfinite(largest));
    for (int64_t i = 0; i < n; i++) {
        double a = element(got, i), b = element(want, i);
        if (!(fabs(a - b) <= unit * fabs(b) + c->share * largest))
            fail_msg("%s, %s: element %lld is %.9g, not %.9g (largest %g)", c->name, how, (long long)i, a, b, largest);
    }
}

static void inputs_may_lie_anyhow(void **state) {
    WITH_DEVICE();
    weir_error err;
    for (size_t i = 0; i < sizeof view_cases / sizeof *view_cases; i++) {
        const view_case *c = &view_cases[i];
        weir_graph *plain = new_graph(cpu);
        weir_array *want = c->make(&(lay_out){.g = plain, .seed = i + 1});
        if (weir_eval_reference(&want, 1, &err) != WEIR_OK) fail_msg("%s: %s", c->name, err.message);
        for (int how = 0; how < LAYOUTS; how++)
            for (int reference = 0; reference < 2; reference++) {
                weir_graph *own = new_graph(device);
                weir_array *got = c->make(&(lay_out){.g = own, .how = (layout)how, .seed = i + 1});
                if ((reference ? weir_eval_reference : weir_eval)(&got, 1, &err) != WEIR_OK)
                    fail_msg("%s, %s: %s", c->name, layouts[how], err.message);
                compare(c, layouts[how], got, want);
                weir_graph_free(own);
            }
        weir_graph_free(plain);
    }
}

static int run_view_tests(const char *name) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(slices_follow_python),
        TEST(reductions_and_products_take_views),
        TEST(reshapes_of_views_copy_when_they_must),
        TEST(ops_without_strides_get_copies),
        TEST(empty_arrays_go_through_everything),
        TEST(products_over_nothing_are_zeros),
        TEST(scalars_are_arrays),
        TEST(reference_and_default_evaluation_agree),
        TEST(inputs_may_lie_anyhow),
    };
    device_name = name;
    return cmocka_run_group_tests(tests, open_devices, close_devices);
}

#endif
