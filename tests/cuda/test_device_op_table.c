/* Every op of the table on the CUDA device against the CPU's reference, over the cases of tests/cpu/op_cases.c: shapes
 * of one element, primes, empty and 65,537 rows, every dtype, every weight format as published and in the device's
 * layout; by the first row that fits and by the device's own reference row. Skipped without a device. */
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

typedef struct devices {
    weir_device *cpu, *cuda;
} devices;

/* Largest difference allowed: units in the last place of the type, and a share of the largest result. Products round
 * weights and activations to bf16 (8 bits), where f32 ones do not. */
typedef struct tolerance {
    double unit, share;
} tolerance;

static bool rounds_to_bf16(const weir_array *node) {
    switch (node->op) {
    case WR_OP_LINEAR:
    case WR_OP_LINEAR_ADD:
    case WR_OP_LINEAR_GATED:
    case WR_OP_NORM_LINEAR:
    case WR_OP_GATHER_LINEAR:
    case WR_OP_ATTENTION:
    case WR_OP_PAGED_ATTENTION: return true;
    default: return false;
    }
}

static tolerance tolerance_of(const weir_array *node) {
    /* Rotated keys were rounded to their own type before they went into the pages. */
    weir_dtype type = node->op == WR_OP_KV_APPEND && node->dtype == WEIR_DTYPE_F32 ? node->in[2]->dtype : node->dtype;
    double unit = type == WEIR_DTYPE_F32 ? 1e-6 : type == WEIR_DTYPE_F16 ? 0x1.01p-10 : 0x1.01p-7;
    return (tolerance){unit, rounds_to_bf16(node) ? 2e-2 : 4e-5};
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
    double largest = 0;
    tolerance most = tolerance_of(node);
    for (int64_t i = 0; i < n; i++) {
        double v = fabs(load(d, want, i));
        if (v > largest && isfinite(v)) largest = v;
    }
    for (int64_t i = 0; i < n; i++) {
        double a = load(d, got, i), b = load(d, want, i);
        if ((isnan(a) && isnan(b)) || a == b || fabs(a - b) <= most.unit * fabs(b) + most.share * largest) continue;
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

/* One case on both devices; how many comparisons were made, and *n_bad grows. */
static int check_case(const devices *d, const wr_case *c, wr_case_maker maker, bool *more, int *n_bad) {
    bool ignored;
    weir_array *want = make(d->cpu, c, maker, more);
    if (!want) return 0;
    char label[256], text[256];
    weir_error err;
    snprintf(label, sizeof label, "%s -> %s, variant %d of %s", wr_ops[c->op].name, wr_describe(want).s, c->variant,
             weir_dtype_name(c->dtype));
    if (getenv("WEIR_TEST_VERBOSE")) print_message("%s\n", label); /* a fault of a kernel ends the program */
    if (weir_eval_reference(&want, 1, &err) != WEIR_OK) fail_msg("%s: %s", label, err.message);
    int ran = 0;
    for (int reference = 0; reference < 2 && weir_array_size(want) > 0; reference++) {
        weir_array *got = make(d->cuda, c, maker, &ignored);
        if (!got) break; /* a layout of the CPU's that the device keeps as published: another variant has it */
        weir_status status = reference ? weir_eval_reference(&got, 1, &err) : weir_eval(&got, 1, &err);
        const char *kind = reference ? "reference row" : "first row";
        const unsigned char *data = status == WEIR_OK ? weir_array_data(got) : NULL;
        ran++;
        if (!data) {
            print_error("%s, %s: %s\n", label, kind, status == WEIR_OK ? "no data came back" : err.message);
            ++*n_bad;
            if (status == WEIR_E_DEVICE) fail_msg("the device is lost");
        } else if (!equal(want, data, weir_array_data(want), text, sizeof text)) {
            print_error("%s, %s: %s\n", label, kind, text);
            ++*n_bad;
        }
        weir_graph_free(got->graph);
    }
    weir_graph_free(want->graph);
    return ran;
}

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
    for (int op = 0; op < WR_OP_FUSED; op++)
        if (wr_ops[op].flags & WR_DEVICE_ONLY) /* has a test of its own */
            assert_non_null(d.cuda->backend->kernels((wr_op_id)op));
        else if (!only || !strcmp(only, wr_ops[op].name))
            check_op(&d, (wr_op_id)op, &n_bad);
    weir_device_close(d.cuda);
    weir_device_close(d.cpu);
    if (n_bad) fail_msg("%d results differ", n_bad);
}

int main(int argc, char **argv) {
    if (argc > 1 && !strcmp(argv[1], "--quick")) setenv("WEIR_TEST_QUICK", "1", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_op_on_the_device_agrees_with_the_cpu)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
