/* Ops against float64 values from NumPy and SciPy (tools/goldens_ops.py), through the fast kernels and through the
 * reference. */
#include "array_cpu_test.h"

enum { MAX_ARRAYS = 8 };
enum { F32, F64, I32, I64, U32, BOOL_ };

typedef struct golden {
    int kind, n_dims;
    int64_t dims[8], n;
    const void *data;
} golden;

typedef struct record {
    char name[64];
    int n;
    golden a[MAX_ARRAYS];
} record;

static unsigned char *file_bytes;
static size_t file_size, file_at;

static void take_bytes(void *to, size_t n) {
    assert_true(file_at + n <= file_size);
    memcpy(to, file_bytes + file_at, n);
    file_at += n;
}

static bool next_record(record *r) {
    static const size_t sizes[] = {4, 8, 4, 8, 4, 1};
    uint32_t length, n, kind, n_dims;
    if (file_at == file_size) return false;
    take_bytes(&length, 4);
    assert_true(length < sizeof r->name);
    take_bytes(r->name, length);
    r->name[length] = 0;
    take_bytes(&n, 4);
    assert_true(n <= MAX_ARRAYS);
    r->n = (int)n;
    for (int i = 0; i < r->n; i++) {
        golden *g = &r->a[i];
        take_bytes(&kind, 4);
        take_bytes(&n_dims, 4);
        g->kind = (int)kind;
        g->n_dims = (int)n_dims;
        take_bytes(g->dims, 8 * n_dims);
        g->n = 1;
        for (uint32_t d = 0; d < n_dims; d++) g->n *= g->dims[d];
        size_t bytes = (size_t)g->n * sizes[kind];
        void *copy = malloc(bytes + 8); /* aligned */
        take_bytes(copy, bytes);
        g->data = copy;
    }
    return true;
}

static weir_array *in(weir_graph *g, const golden *a) {
    static const weir_dtype dtypes[] = {WEIR_DTYPE_F32, WEIR_DTYPE_F32, WEIR_DTYPE_I32,
                                        WEIR_DTYPE_I64, WEIR_DTYPE_U32, WEIR_DTYPE_BOOL};
    assert_int_not_equal(a->kind, F64);
    return weir_from_data(g, dtypes[a->kind], a->n_dims, a->dims, a->data);
}
static double number(const golden *a, int i) {
    return a->kind == F64   ? ((const double *)a->data)[i]
           : a->kind == F32 ? (double)((const float *)a->data)[i]
           : a->kind == I32 ? ((const int32_t *)a->data)[i]
                            : (double)((const int64_t *)a->data)[i];
}

/* |got - want| <= relative |want| + absolute (times the largest of the record where it sums many terms). */
static double relative = 1e-6, absolute = 1e-7;

static weir_array *unary(weir_graph *g, const char *op, weir_array *x) {
    (void)g;
#define U(name)                                                                                                        \
    if (!strcmp(op, #name)) return weir_##name(x);
    WEIR_UNARY_OPS(U)
    fail_msg("no op %s", op);
    return NULL;
}
static weir_array *binary(const char *op, weir_array *a, weir_array *b) {
#define B(name)                                                                                                        \
    if (!strcmp(op, #name)) return weir_##name(a, b);
    WEIR_BINARY_OPS(B)
    fail_msg("no op %s", op);
    return NULL;
}

static weir_array *rope(weir_graph *g, const record *r) {
    const double *o = r->a[1].data;
    weir_rope_options options = {.kind = (weir_rope_kind)o[0],
                                 .dims = (int)o[1],
                                 .base = o[2],
                                 .factor = o[3],
                                 .original_max_positions = o[4],
                                 .low_freq_factor = o[5],
                                 .high_freq_factor = o[6],
                                 .beta_fast = o[7],
                                 .beta_slow = o[8],
                                 .mscale = o[9],
                                 .mscale_all_dim = o[10],
                                 .attention_factor = o[11],
                                 .sequence_length = o[12],
                                 .no_truncate = o[13] != 0,
                                 .factors = r->a[2].data};
    /* x = (1.., 0..) turns into (cos.., sin..). */
    int64_t t = r->a[0].n, half = options.dims / 2;
    weir_array *one = weir_full(g, WEIR_DTYPE_F32, DIMS(t, 1, half), 1),
               *zero = weir_full(g, WEIR_DTYPE_F32, DIMS(t, 1, half), 0);
    weir_array *y = weir_rope(weir_concat((weir_array *[]){one, zero}, 2, -1), in(g, &r->a[0]), &options);
    return weir_reshape(y, 3, (int64_t[]){t, 2, half});
}

static weir_array *attention(weir_graph *g, const record *r) {
    const float *o = r->a[5].data;
    weir_attention_options options = {.scale = o[0], .causal = o[1] != 0, .window = (int64_t)o[2], .softcap = o[3]};
    return weir_attention(in(g, &r->a[0]), in(g, &r->a[1]), in(g, &r->a[2]), r->a[3].n ? in(g, &r->a[3]) : NULL,
                          r->a[4].n ? in(g, &r->a[4]) : NULL, &options);
}

static weir_array *build(weir_graph *g, const record *r) {
    const golden *a = r->a;
    const char *name = r->name;
    relative = 1e-6;
    absolute = 1e-7;
    if (!strncmp(name, "unary ", 6)) {
        relative = 2e-6;
        return unary(g, name + 6, in(g, &a[0]));
    }
    if (!strncmp(name, "binary ", 7)) {
        relative = 2e-6;
        /* A remainder is a difference: its error is that of what it was subtracted from. */
        if (!strcmp(name + 7, "remainder")) absolute = 1e-6;
        return binary(name + 7, in(g, &a[0]), in(g, &a[1]));
    }
    if (!strncmp(name, "random_", 7)) {
        const uint32_t *w = a[0].data;
        uint64_t seed = w[0] | (uint64_t)w[1] << 32, counter = w[2] | (uint64_t)w[3] << 32;
        relative = absolute = 0;
        return !strcmp(name, "random_bits") ? weir_random_bits(g, 1, a[1].dims, seed, counter)
                                            : weir_random_uniform(g, 1, a[1].dims, seed, counter);
    }
    if (!strcmp(name, "rope")) {
        relative = 0;
        absolute = 1e-6; /* the promise, at positions to 2^20 */
        return rope(g, r);
    }
    absolute = 4e-6; /* of the largest: sums of many terms */
    if (!strcmp(name, "attention")) return attention(g, r);
    if (!strcmp(name, "matmul")) return weir_matmul(in(g, &a[0]), in(g, &a[1]));
    if (!strcmp(name, "rms_norm")) return weir_rms_norm(in(g, &a[0]), in(g, &a[1]), ((const float *)a[2].data)[0]);
    if (!strcmp(name, "layer_norm"))
        return weir_layer_norm(in(g, &a[0]), in(g, &a[1]), in(g, &a[2]), ((const float *)a[3].data)[0]);
    if (!strcmp(name, "conv1d")) {
        const int64_t *o = a[3].data;
        return weir_conv1d(in(g, &a[0]), in(g, &a[1]), a[2].n ? in(g, &a[2]) : NULL, o[0], o[1], o[2], o[3], o[4]);
    }
    weir_array *x = in(g, &a[0]);
    int axis = (int)number(&a[r->n - 2], 0);
    if (!strcmp(name, "sum")) return weir_sum(x, 1, &axis, false);
    if (!strcmp(name, "mean")) return weir_mean(x, 1, &axis, false);
    if (!strcmp(name, "max")) return weir_max(x, 1, &axis, false);
    if (!strcmp(name, "min")) return weir_min(x, 1, &axis, false);
    if (!strcmp(name, "logsumexp")) return weir_logsumexp(x, 1, &axis, false);
    if (!strcmp(name, "argmax")) return weir_argmax(x, axis);
    if (!strcmp(name, "softmax")) return weir_softmax(x, axis);
    if (!strcmp(name, "cumsum")) return weir_cumsum(x, axis, false, false);
    if (!strcmp(name, "sort")) return weir_sort(x, axis, false);
    if (!strcmp(name, "argsort")) return weir_argsort(x, axis, false);
    if (!strcmp(name, "top_k")) return weir_top_k(x, axis, (int64_t)number(&a[1], 1));
    if (!strcmp(name, "arg_top_k")) return weir_arg_top_k(x, axis, (int64_t)number(&a[1], 1));
    if (!strcmp(name, "take")) return weir_take(x, in(g, &a[1]), axis);
    axis = 1;
    if (!strcmp(name, "take_along")) return weir_take_along(x, in(g, &a[1]), axis);
    if (!strcmp(name, "scatter_add")) return weir_scatter_add(x, in(g, &a[1]), in(g, &a[2]), axis);
    fail_msg("no case for record %s", name);
    return NULL;
}

static void compare(const record *r, int index, weir_array *y) {
    const golden *want = &r->a[r->n - 1];
    assert_int_equal(weir_array_n_dims(y), want->n_dims);
    for (int d = 0; d < want->n_dims; d++) assert_int_equal(weir_array_dim(y, d), want->dims[d]);
    if (want->kind == I32 || want->kind == U32) {
        assert_int_equal(weir_dtype_bytes(weir_array_dtype(y)), 4);
        assert_memory_equal(weir_array_data(y), want->data, (size_t)want->n * 4);
        return;
    }
    assert_int_equal(weir_array_dtype(y), WEIR_DTYPE_F32);
    const float *got = weir_array_data(y);
    const double *w = want->data;
    double largest = 0, scale = 1;
    for (int64_t i = 0; i < want->n; i++)
        if (isfinite(w[i]) && fabs(w[i]) > largest) largest = fabs(w[i]);
    if (absolute == 4e-6) scale = largest;
    for (int64_t i = 0; i < want->n; i++) {
        double limit = relative * fabs(w[i]) + absolute * scale;
        if ((isnan(w[i]) && isnan(got[i])) || (double)got[i] == w[i] || fabs((double)got[i] - w[i]) <= limit) continue;
        if (fabs(w[i]) > 3.4028235e38 && isinf(got[i])) continue; /* beyond f32 */
        fail_msg("record %d (%s), element %lld: %.9g, expected %.12g", index, r->name, (long long)i, (double)got[i],
                 w[i]);
    }
}

static void values_agree_with_numpy(void **state) {
    (void)state;
    FILE *f = fopen(WR_SOURCE_DIR "/tests/data/array/ops.bin", "rb");
    assert_non_null(f);
    file_bytes = malloc(1 << 22);
    file_size = fread(file_bytes, 1, 1 << 22, f);
    fclose(f);
    assert_true(file_size > 8 && !memcmp(file_bytes, "WRGOLD1\n", 8));
    file_at = 8;
    weir_device *device = open_cpu(2);
    record r;
    int n = 0;
    for (; next_record(&r); n++) {
        for (int reference = 0; reference < 2; reference++) {
            weir_graph *g = new_graph(device);
            weir_error err;
            weir_array *y = build(g, &r);
            weir_status status = reference ? weir_eval_reference(&y, 1, &err) : weir_eval(&y, 1, &err);
            if (status != WEIR_OK) fail_msg("record %d (%s): %s", n, r.name, err.message);
            compare(&r, n, y);
            weir_graph_free(g);
        }
        for (int i = 0; i < r.n; i++) free((void *)(uintptr_t)r.a[i].data);
    }
    assert_true(n >= 70);
    free(file_bytes);
    weir_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_agree_with_numpy)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
