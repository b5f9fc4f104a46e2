/* The generic test over the op table: for every op, several shapes (one element, primes, empty, 65,537 rows) and every
 * dtype it takes, each kernel row that fits against the reference row, with the same bits from 1, 2 and 5 threads,
 * canaries round every output and scratch, and NaN in every byte that must not be read: round inputs, in the gaps of
 * strided inputs, and in outputs before the run. An op without a generator fails the test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/internal.h"
#include "base/dtype.h"

#include "cpu/op_cases.h"

enum { GUARD = 64, CANARY = 0xa5 };

/* ---- running one kernel row ---- */

typedef struct guarded {
    unsigned char *block;
    size_t bytes;
} guarded;

/* 64-byte aligned bytes between canaries, filled with NaN. */
static void *guard(guarded *m, size_t bytes) {
    m->bytes = bytes;
    m->block = aligned_alloc(64, (bytes + 2 * GUARD + 63) & ~(size_t)63);
    memset(m->block, CANARY, GUARD);
    memset(m->block + GUARD, 0xff, bytes);
    memset(m->block + GUARD + bytes, CANARY, GUARD);
    return m->block + GUARD;
}
static bool intact(const guarded *m) {
    bool good = true;
    for (int i = 0; i < GUARD; i++) good &= m->block[i] == CANARY && m->block[GUARD + m->bytes + (size_t)i] == CANARY;
    return good;
}

static size_t tensor_bytes(const wr_tensor *t) {
    return (size_t)wr_n_elements(t->n_dims, t->shape) * weir_dtype_bytes(t->dtype);
}

/* The input's values in memory of its own; strided: the axes in reverse order of memory and every second element. */
static void *place_input(wr_tensor *t, const weir_array *a, bool strided, guarded *m) {
    const char *from = (const char *)a->buffer->data + a->offset * (int64_t)weir_dtype_bytes(a->dtype);
    size_t size = weir_dtype_bytes(a->dtype);
    int64_t n = wr_n_elements(a->n_dims, a->shape);
    *t = (wr_tensor){.dtype = a->dtype, .n_dims = a->n_dims};
    memcpy(t->shape, a->shape, sizeof t->shape);
    wr_contiguous_strides(a->n_dims, a->shape, t->strides);
    t->data = guard(m, (size_t)n * size * (strided ? 2 : 1));
    if (!strided) {
        memcpy(t->data, from, (size_t)n * size);
        return t->data;
    }
    int64_t step = 2;
    for (int d = 0; d < a->n_dims; d++) {
        t->strides[d] = step;
        step *= a->shape[d] > 1 ? a->shape[d] : 1;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i, offset = 0;
        for (int d = a->n_dims - 1; d >= 0; d--) {
            offset += rest % a->shape[d] * t->strides[d];
            rest /= a->shape[d];
        }
        memcpy((char *)t->data + offset * (int64_t)size, from + i * (int64_t)size, size);
    }
    return t->data;
}

/* Runs a row with n_threads shares; the result (malloc'd) or NULL when the row does not fit. */
static unsigned char *run_row(const weir_array *node, const wr_kernel_row *row, int n_threads, bool strided,
                              const char *label) {
    bool inplace = wr_ops[node->op].flags & WR_INPLACE;
    wr_tensor in[WR_MAX_INPUTS];
    guarded in_memory[WR_MAX_INPUTS], out_memory = {0}, scratch = {0}, prepared = {0};
    wr_step step = {.op = node->op, .args = node->args, .n_in = node->n_in, .in = in, .variant = row->name};
    for (int i = 0; i < node->n_in; i++) place_input(&in[i], node->in[i], strided, &in_memory[i]);
    step.out = (wr_tensor){.dtype = node->dtype, .n_dims = node->n_dims};
    memcpy(step.out.shape, node->shape, sizeof step.out.shape);
    wr_contiguous_strides(node->n_dims, node->shape, step.out.strides);
    size_t bytes = tensor_bytes(&step.out);
    unsigned char *result = NULL;
    step.out.data = inplace ? in[0].data : guard(&out_memory, bytes);
    if (!row->fits || row->fits(&step)) {
        if (row->prepare) {
            wr_step first = step;
            first.scratch = guard(&prepared, row->prepare_bytes(&step));
            for (int t = 0; t < n_threads; t++) row->prepare(&first, t, n_threads);
            step.prepared = first.scratch;
        }
        if (row->scratch_bytes) step.scratch = guard(&scratch, row->scratch_bytes(&step, n_threads));
        for (int t = n_threads - 1; t >= 0; t--) row->run(&step, t, n_threads); /* any order of threads is possible */
        result = malloc(bytes + 1);
        memcpy(result, step.out.data, bytes);
        bool good = (!out_memory.block || intact(&out_memory)) && (!scratch.block || intact(&scratch)) &&
                    (!prepared.block || intact(&prepared));
        for (int i = 0; i < node->n_in; i++) good &= intact(&in_memory[i]);
        if (!good) fail_msg("%s: wrote outside its memory", label);
    }
    for (int i = 0; i < node->n_in; i++) free(in_memory[i].block);
    free(out_memory.block);
    free(scratch.block);
    free(prepared.block);
    return result;
}

static double load(weir_dtype d, const unsigned char *p, int64_t i) {
    uint16_t h;
    float f;
    if (d == WEIR_DTYPE_F32) return memcpy(&f, p + 4 * i, 4), (double)f;
    memcpy(&h, p + 2 * i, 2);
    return (double)(d == WEIR_DTYPE_F16 ? wr_f16_to_f32(h) : wr_bf16_to_f32(h));
}

/* Floats: a unit in the last place of the type, and 4e-5 of the largest result, which covers another order of
 * summation in f32 and activations of 16 bits. Everything else: the same bits. */
static void compare(const weir_array *node, const unsigned char *got, const unsigned char *want, const char *label) {
    int64_t n = wr_n_elements(node->n_dims, node->shape);
    weir_dtype d = node->dtype;
    if (!wr_is_float(d)) {
        if (memcmp(got, want, (size_t)n * weir_dtype_bytes(d))) fail_msg("%s: differs from the reference", label);
        return;
    }
    double largest = 0, unit = d == WEIR_DTYPE_F32 ? 1e-6 : d == WEIR_DTYPE_F16 ? 0x1.01p-10 : 0x1.01p-7;
    for (int64_t i = 0; i < n; i++) {
        double v = fabs(load(d, want, i));
        if (v > largest && isfinite(v)) largest = v;
    }
    for (int64_t i = 0; i < n; i++) {
        double a = load(d, got, i), b = load(d, want, i);
        if ((isnan(a) && isnan(b)) || a == b || fabs(a - b) <= unit * fabs(b) + 4e-5 * largest) continue;
        fail_msg("%s: element %lld is %.9g, the reference gives %.9g (largest %g)", label, (long long)i, a, b, largest);
    }
}

static int check_node(weir_array *node, bool strided, const char *label) {
    static const int threads[] = {1, 2, 5};
    const wr_kernel_row *rows = wr_backend_cpu()->kernels(node->op);
    if (!rows) fail_msg("%s: no kernels", label);
    int n_rows = 0, ran = 0;
    while (rows[n_rows].name) n_rows++;
    size_t bytes = (size_t)wr_n_elements(node->n_dims, node->shape) * weir_dtype_bytes(node->dtype);
    unsigned char *want = run_row(node, &rows[n_rows - 1], 1, strided, label);
    if (!want) fail_msg("%s: the reference does not fit", label);
    for (int r = n_rows - 1; r >= 0; r--) {
        char name[320];
        snprintf(name, sizeof name, "%s [%s]", label, rows[r].name);
        unsigned char *first = NULL;
        for (int t = 0; t < 3; t++) {
            unsigned char *got = run_row(node, &rows[r], threads[t], strided, name);
            if (!got) break;
            ran++;
            if (!first) {
                first = got;
                compare(node, got, want, name);
                continue;
            }
            if (memcmp(first, got, bytes)) fail_msg("%s: %d threads give other bits than 1", name, threads[t]);
            free(got);
        }
        free(first);
    }
    free(want);
    return ran;
}

static void check_op(weir_device *device, wr_op_id op) {
    if (wr_ops[op].flags & WR_DEVICE_ONLY) {
        assert_null(wr_backend_cpu()->kernels(op));
        return;
    }
    wr_case_maker make = wr_case_of(op);
    if (!make) fail_msg("op \"%s\" has no generator in tests/cpu/op_cases.c: add one", wr_ops[op].name);
    int ran = 0;
    for (int shape = 0; shape < WR_CASE_SHAPES; shape++) {
        for (int d = 0; d < WEIR_DTYPE_COUNT; d++) {
            if (shape == WR_CASE_TALL && d != WEIR_DTYPE_F32 && d != WEIR_DTYPE_I8) continue;
            bool more = true;
            for (int variant = 0; more; variant++) {
                weir_graph *g;
                weir_error err;
                assert_int_equal(weir_graph_new(device, &g, &err), WEIR_OK);
                wr_case c = {.g = g,
                             .op = op,
                             .shape = shape,
                             .variant = variant,
                             .dtype = (weir_dtype)d,
                             .seed = 1234567u * (unsigned)op + (unsigned)(shape * 1000 + d * 100 + variant)};
                more = false;
                weir_array *node = make(&c, &more);
                if (node && !node->poisoned) {
                    assert_int_equal(node->op, op);
                    char label[256];
                    snprintf(label, sizeof label, "%s -> %s, variant %d of %s", wr_ops[op].name, wr_describe(node).s,
                             variant, weir_dtype_name(c.dtype));
                    if (node->n_in && weir_eval_reference(node->in, node->n_in, &err) != WEIR_OK)
                        fail_msg("%s: %s", label, err.message);
                    if (wr_n_elements(node->n_dims, node->shape) > 0) ran += check_node(node, false, label);
                    bool any_strides = wr_ops[op].flags & (WR_STRIDED | WR_EW | WR_VIEW);
                    if (any_strides && node->n_in && wr_n_elements(node->n_dims, node->shape) > 0 &&
                        shape != WR_CASE_TALL)
                        ran += check_node(node, true, label);
                }
                weir_graph_free(g);
            }
        }
    }
    if (ran == 0) fail_msg("op \"%s\": its generator made no case", wr_ops[op].name);
}

static void every_op_agrees_with_its_reference(void **state) {
    (void)state;
    weir_device *device;
    weir_error err;
    assert_int_equal(wr_device_open(wr_backend_cpu(), 0, 1, &device, &err), WEIR_OK);
    const char *only = getenv("WEIR_TEST_OP");
    for (int op = 0; op < WR_OP_DATA; op++)
        if (!only || !strcmp(only, wr_ops[op].name)) check_op(device, (wr_op_id)op);
    weir_device_close(device);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_op_agrees_with_its_reference)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
