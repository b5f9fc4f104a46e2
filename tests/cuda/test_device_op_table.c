/* Every op of the table on the CUDA device against the CPU's reference, over the cases of tests/cpu/op_cases.c: shapes
 * of one element, primes, empty and 65,537 rows, every dtype, every weight format as published and in the device's
 * layout; evaluated, and by every row that fits, with inputs as published and, where the op takes any strides,
 * transposed and backwards, between NaN in all memory that is not theirs. Skipped without a device.
 * WEIR_TEST_VERBOSE: also what each kind of result needs of its tolerance. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "cpu/op_cases.h"
#include "cuda/rows_on_device.h"

typedef struct devices {
    weir_device *cpu, *cuda;
} devices;

/* The share of the largest result that may be wrong, beside the last place of the type; and what was needed so far. */
typedef struct tolerance {
    const char *name;
    double share, worst;
} tolerance;

/* What results are held to, by what their products are made of. Behind each: the share needed over all cases with the
 * emulated driver, beside the last place. Inputs rounded to TF32 (11 bits) need 3e-5 and more of f32 products, 2e-4
 * and more of f32 attention. */
enum {
    NO_PRODUCTS,
    F32_PRODUCTS,
    BF16_PRODUCTS,
    ROUNDED_WEIGHTS,
    ROUNDED_X,
    F32_ATTENTION,
    HALF_ATTENTION,
    ROUNDED_QUERIES,
    N_KINDS
};
static tolerance tolerances[N_KINDS] = {
    [NO_PRODUCTS] = {"no products", 4e-5, 0},            /* 1.0e-7; a card's exp, sin and erf are its own */
    [F32_PRODUCTS] = {"f32 products", 5e-6, 0},          /* 5.3e-8 */
    [BF16_PRODUCTS] = {"bf16 products", 1e-4, 0},        /* 0: exact, and added in f32 */
    [ROUNDED_WEIGHTS] = {"weights in bf16", 1e-2, 0},    /* 6.1e-3, where a gate multiplies two sums */
    [ROUNDED_X] = {"x in bf16", 1e-2, 0},                /* 6.5e-3, likewise */
    [F32_ATTENTION] = {"f32 attention", 5e-5, 0},        /* 1.4e-5 */
    [HALF_ATTENTION] = {"16-bit attention", 2e-3, 0},    /* 0, but weights of keys are rounded to 16 bits */
    [ROUNDED_QUERIES] = {"queries in 16 bits", 3e-2, 0}, /* 1.95e-2: scores of up to 12, rounded by 2^-9 */
};

static int linear_kind(const weir_array *node) {
    const wr_linear_args *a = node->args;
    bool dense = a->quant.mode == WEIR_QUANT_NONE;
    if (dense && a->weight_dtype == WEIR_DTYPE_F32) return F32_PRODUCTS;
    if (node->op == WR_OP_NORM_LINEAR || node->in[0]->dtype != WEIR_DTYPE_BF16) return ROUNDED_X;
    return dense ? BF16_PRODUCTS : ROUNDED_WEIGHTS;
}

static tolerance *tolerance_of(const weir_array *node) {
    switch (node->op) {
    case WR_OP_LINEAR:
    case WR_OP_LINEAR_ADD:
    case WR_OP_LINEAR_GATED:
    case WR_OP_NORM_LINEAR:
    case WR_OP_GATHER_LINEAR: return &tolerances[linear_kind(node)];
    case WR_OP_MATMUL: return &tolerances[node->dtype == WEIR_DTYPE_F32 ? F32_PRODUCTS : BF16_PRODUCTS];
    case WR_OP_ATTENTION:
    case WR_OP_PAGED_ATTENTION:
        if (node->in[0]->dtype != node->in[1]->dtype) return &tolerances[ROUNDED_QUERIES];
        return &tolerances[node->in[0]->dtype == WEIR_DTYPE_F32 ? F32_ATTENTION : HALF_ATTENTION];
    default: return &tolerances[NO_PRODUCTS];
    }
}

/* The last place of the type that the result was last rounded to. */
static double unit_of(const weir_array *node) {
    /* Rotated keys were rounded to their own type before they went into the pages. */
    weir_dtype type = node->op == WR_OP_KV_APPEND && node->dtype == WEIR_DTYPE_F32 ? node->in[2]->dtype : node->dtype;
    return type == WEIR_DTYPE_F32 ? 1e-6 : type == WEIR_DTYPE_F16 ? 0x1.01p-10 : 0x1.01p-7;
}

static double load(weir_dtype d, const unsigned char *p, int64_t i) {
    uint16_t h;
    float f;
    if (d == WEIR_DTYPE_F32) return memcpy(&f, p + 4 * i, 4), (double)f;
    memcpy(&h, p + 2 * i, 2);
    return (double)(d == WEIR_DTYPE_F16 ? wr_f16_to_f32(h) : wr_bf16_to_f32(h));
}

/* false, with the first difference in text. */
static bool equal(const weir_array *node, const unsigned char *got, const unsigned char *want, char *text,
                  size_t size) {
    int64_t n = weir_array_size(node);
    weir_dtype d = node->dtype;
    if (!wr_is_float(d)) {
        int64_t bytes = n * (int64_t)weir_dtype_bytes(d), at = 0;
        while (at < bytes && got[at] == want[at]) at++;
        snprintf(text, size, "byte %lld of %lld is %d, not %d", (long long)at, (long long)bytes,
                 at < bytes ? got[at] : 0, at < bytes ? want[at] : 0);
        return at == bytes;
    }
    double largest = 0, unit = unit_of(node);
    tolerance *most = tolerance_of(node);
    for (int64_t i = 0; i < n; i++) {
        double v = fabs(load(d, want, i));
        if (v > largest && isfinite(v)) largest = v;
    }
    for (int64_t i = 0; i < n; i++) {
        double a = load(d, got, i), b = load(d, want, i), off = fabs(a - b) - unit * fabs(b);
        if ((isnan(a) && isnan(b)) || a == b || off <= 0) continue;
        if (off > most->worst * largest && isfinite(off)) most->worst = off / largest;
        if (off <= most->share * largest) continue;
        snprintf(text, size, "element %lld is %.9g, not %.9g (largest %g)", (long long)i, a, b, largest);
        return false;
    }
    return true;
}

static weir_array *make(weir_device *device, const wr_case *like, wr_case_maker maker, bool *more) {
    wr_case c = *like;
    weir_error err;
    if (weir_graph_new(device, &c.g, &err) != WEIR_OK) fail_msg("%s", err.message);
    *more = false;
    weir_array *node = maker(&c, more);
    if (node && !node->poisoned) return node;
    weir_graph_free(c.g);
    return NULL;
}

/* One case on both devices. */
typedef struct comparison {
    const devices *d;
    const wr_case *c;
    wr_case_maker maker;
    weir_array *want;
    char label[256];
    int ran, n_bad;
} comparison;

static void complain(comparison *k, const char *way, const char *text) {
    print_error("%s, %s: %s\n", k->label, way, text);
    k->n_bad++;
}

static void check_shape(comparison *k, const weir_array *got) {
    bool same = got->n_dims == k->want->n_dims && got->dtype == k->want->dtype;
    for (int i = 0; i < got->n_dims && same; i++) same = got->shape[i] == k->want->shape[i];
    if (!same) complain(k, "shape", wr_describe(got).s);
}

static void check_result(comparison *k, const char *way, const void *got) {
    char text[256];
    bool empty = weir_array_size(k->want) == 0;
    k->ran++;
    if (!got != empty)
        complain(k, way, got ? "an empty array has data" : "no data came back");
    else if (got && !equal(k->want, got, weir_array_data(k->want), text, sizeof text))
        complain(k, way, text);
}

static void check_status(comparison *k, const char *way, weir_status status, const weir_error *err) {
    if (status == WEIR_OK) return;
    complain(k, way, err->message);
    if (status == WEIR_E_DEVICE) fail_msg("the device is lost");
}

static void *poisoned_memory(weir_device *device, size_t bytes) {
    weir_error err;
    void *p, *nan = malloc(bytes + 1);
    assert_non_null(nan);
    memset(nan, ROW_NAN, bytes);
    if (wr_device_alloc(device, bytes, &p, &err) != WEIR_OK || wr_device_upload(device, p, nan, bytes, &err) != WEIR_OK)
        fail_msg("%s", err.message);
    free(nan);
    return p;
}

/* What the pool hands out next is cut from NaN: it clears the bytes asked for, not those between arrays. */
static void poison_pool(weir_device *device) {
    static const size_t sizes[] = {1 << 9, 1 << 12, 1 << 16};
    void *p[3];
    for (int i = 0; i < 3; i++) p[i] = poisoned_memory(device, sizes[i]);
    for (int i = 0; i < 3; i++) wr_device_free(device, p[i], sizes[i]);
}

/* As a user has it: planned, fused, as one graph. */
static void check_evaluated(comparison *k) {
    bool ignored;
    weir_error err;
    poison_pool(k->d->cuda);
    weir_array *got = make(k->d->cuda, k->c, k->maker, &ignored);
    if (!got) return; /* a layout of the CPU's that the device keeps as published: another variant has it */
    check_shape(k, got);
    weir_status status = weir_eval(&got, 1, &err);
    check_status(k, "evaluated", status, &err);
    if (status == WEIR_OK) check_result(k, "evaluated", weir_array_data(got));
    weir_graph_free(got->graph);
}

/* As an engine has it: results, intermediates and scratch in an arena, which is NaN. */
static void check_program(comparison *k) {
    bool ignored;
    weir_error err;
    wr_program *program = NULL;
    size_t bytes = 0, size = (size_t)weir_array_size(k->want) * weir_dtype_bytes(k->want->dtype);
    weir_array *node = make(k->d->cuda, k->c, k->maker, &ignored);
    if (!node) return;
    weir_status status = wr_program_plan(&node, 1, NULL, &bytes, &err);
    void *arena = status == WEIR_OK ? poisoned_memory(k->d->cuda, bytes) : NULL, *got = size ? malloc(size) : NULL;
    wr_program_options options = {.arena = arena, .arena_bytes = bytes};
    if (status == WEIR_OK) status = wr_program_new(&node, 1, &options, &program, &err);
    if (status == WEIR_OK) status = wr_program_run(program, &err);
    if (status == WEIR_OK && got)
        status = wr_device_download(k->d->cuda, got, wr_program_output(program, 0)->data, size, &err);
    check_status(k, "as a program", status, &err);
    if (status == WEIR_OK) check_result(k, "as a program", got);
    free(got);
    wr_program_free(program);
    wr_device_free(k->d->cuda, arena, bytes);
    weir_graph_free(node->graph);
}

/* Inputs that lie in memory in one way only: packed weights and pages; and of the writes of keys and values all but the
 * keys and values. */
static unsigned fixed_inputs(const weir_array *node) {
    switch (node->op) {
    case WR_OP_PAGED_ATTENTION: return 1u << 1 | 1u << 2;
    case WR_OP_KV_WRITE: return ~(1u << 1);
    case WR_OP_KV_APPEND: return ~(1u << 2 | 1u << 3);
    case WR_OP_LINEAR:
    case WR_OP_NORM_LINEAR:
    case WR_OP_LINEAR_ADD:
    case WR_OP_LINEAR_GATED:
    case WR_OP_GATHER_LINEAR:
    case WR_OP_EMBEDDING:
    case WR_OP_DEQUANTIZE: break;
    default: return 0;
    }
    unsigned fixed = 0;
    for (int i = 0; i < node->n_in; i++) fixed |= (unsigned)(node->in[i]->dtype == WEIR_DTYPE_U8) << i;
    return ((const wr_linear_args *)node->args)->packed ? fixed : 0;
}

static void check_row(comparison *k, const weir_array *node, const wr_kernel_row *row, row_placement how) {
    weir_error err = {0};
    char way[128];
    unsigned char *got = NULL;
    snprintf(way, sizeof way, "row %s, inputs %s", row->name, row_placements[how]);
    row_result result = row_run(k->d->cuda, node, row, how, fixed_inputs(node), &got, &err);
    if (result == ROW_FAILED) check_status(k, way, err.status, &err);
    if (result == ROW_RAN) check_result(k, way, got);
    free(got);
}

static void check_rows(comparison *k) {
    bool ignored;
    weir_error err;
    weir_array *node = make(k->d->cuda, k->c, k->maker, &ignored);
    if (!node) return;
    if (weir_eval_reference(node->in, node->n_in, &err) != WEIR_OK) fail_msg("%s: %s", k->label, err.message);
    bool any_strides = wr_ops[node->op].flags & (WR_STRIDED | WR_EW | WR_VIEW);
    for (const wr_kernel_row *row = k->d->cuda->backend->kernels(node->op); row->name; row++)
        for (int how = 0; how < ROW_PLACEMENTS; how++) {
            if (how != ROW_PLAIN && (node->n_in == 0 || k->c->shape == WR_CASE_TALL)) continue;
            if ((how == ROW_TRANSPOSED || how == ROW_BACKWARDS) && !any_strides) continue;
            check_row(k, node, row, (row_placement)how);
        }
    weir_graph_free(node->graph);
}

/* How many comparisons were made, and *n_bad grows. */
static int check_case(const devices *d, const wr_case *c, wr_case_maker maker, bool *more, int *n_bad) {
    weir_array *want = make(d->cpu, c, maker, more);
    if (!want) return 0;
    weir_error err;
    comparison k = {.d = d, .c = c, .maker = maker, .want = want};
    snprintf(k.label, sizeof k.label, "%s -> %s, variant %d of %s", wr_ops[c->op].name, wr_describe(want).s, c->variant,
             weir_dtype_name(c->dtype));
    if (getenv("WEIR_TEST_VERBOSE")) print_message("%s\n", k.label); /* a fault of a kernel ends the program */
    if (weir_eval_reference(&want, 1, &err) != WEIR_OK) fail_msg("%s: %s", k.label, err.message);
    check_evaluated(&k);
    check_program(&k);
    if (weir_array_size(want) > 0) check_rows(&k); /* no step with an empty result comes to a row */
    weir_graph_free(want->graph);
    *n_bad += k.n_bad;
    return k.ran;
}

static int part, n_parts = 1; /* of the ops, that this process takes */

static bool quick(void) {
    const char *text = getenv("WEIR_TEST_QUICK");
    return text && *text;
}

static void check_op(const devices *d, wr_op_id op, int *n_bad) {
    wr_case_maker maker = wr_case_of(op);
    if (!maker) fail_msg("op \"%s\" has no case in tests/cpu/op_cases.c: add one", wr_ops[op].name);
    int ran = 0;
    for (int shape = 0; shape < WR_CASE_SHAPES; shape++)
        for (int dtype = 0; dtype < WEIR_DTYPE_COUNT; dtype++) {
            if (shape == WR_CASE_TALL && (quick() || (dtype != WEIR_DTYPE_F32 && dtype != WEIR_DTYPE_I8))) continue;
            bool more = true;
            for (int variant = 0; more; variant++) {
                wr_case c = {.op = op,
                             .shape = shape,
                             .variant = variant,
                             .dtype = (weir_dtype)dtype,
                             .seed = 1234567u * (unsigned)op + (unsigned)(shape * 1000 + dtype * 100 + variant)};
                ran += check_case(d, &c, maker, &more, n_bad);
            }
        }
    if (ran == 0) fail_msg("op \"%s\": nothing was compared", wr_ops[op].name);
}

static void every_op_on_the_device_agrees_with_the_cpu(void **state) {
    devices d;
    weir_error err;
    (void)state;
    if (weir_device_open("cuda", 1, &d.cuda, &err) != WEIR_OK) {
        print_message("%s\n", err.message);
        skip();
    }
    assert_int_equal(weir_device_open("cpu", 1, &d.cpu, &err), WEIR_OK);
    const char *only = getenv("WEIR_TEST_OP");
    int n_bad = 0;
    for (int op = part; op < WR_OP_FUSED; op += n_parts)
        if (wr_ops[op].flags & WR_DEVICE_ONLY) /* has a test of its own */
            assert_non_null(d.cuda->backend->kernels((wr_op_id)op));
        else if (!only || !strcmp(only, wr_ops[op].name))
            check_op(&d, (wr_op_id)op, &n_bad);
    weir_device_close(d.cuda);
    weir_device_close(d.cpu);
    for (int i = 0; i < N_KINDS && getenv("WEIR_TEST_VERBOSE"); i++)
        print_message("%s: %.2g of the largest may be wrong, %.2g was\n", tolerances[i].name, tolerances[i].share,
                      tolerances[i].worst);
    if (n_bad) fail_msg("%d results differ", n_bad);
}

/* --quick; --part I N: every Nth op from number I (0..N-1) on, so that N processes share the work. */
int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--quick")) {
            setenv("WEIR_TEST_QUICK", "1", 1);
        } else if (!strcmp(argv[i], "--part") && i + 2 < argc) {
            part = atoi(argv[++i]);
            n_parts = atoi(argv[++i]);
        } else {
            fprintf(stderr, "%s: unknown option %s; there are --quick and --part I N\n", argv[0], argv[i]);
            return 2;
        }
    }
    if (n_parts < 1 || part < 0 || part >= n_parts) {
        fprintf(stderr, "%s: there is no part %d of %d\n", argv[0], part, n_parts);
        return 2;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_op_on_the_device_agrees_with_the_cpu)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
