/* One kernel row over one step on an open device, kernels in order and nothing in between: inputs, result, scratch and
 * what is prepared lie in one block of the device's memory that is NaN (ones, as integers) before and between them, so
 * that whatever is read and was not written shows, and afterwards every byte that is not the row's to write must be as
 * it was. */
#ifndef WR_TESTS_CUDA_ROWS_ON_DEVICE_H
#define WR_TESTS_CUDA_ROWS_ON_DEVICE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "array/internal.h"

/* How an input lies: as published; the axes in reverse order of memory and every second element; every axis backwards;
 * published, but an element behind the alignment, as behind a slice. The values stay. */
typedef enum row_placement { ROW_PLAIN, ROW_TRANSPOSED, ROW_BACKWARDS, ROW_SKEWED, ROW_PLACEMENTS } row_placement;
static const char *const row_placements[ROW_PLACEMENTS] = {"plain", "transposed", "backwards", "skewed"};

enum { ROW_GUARD = 512, ROW_NAN = 0xff };

typedef enum row_result { ROW_RAN, ROW_DOES_NOT_FIT, ROW_FAILED } row_result;

/* The block as it is filled here and then brought to the device. */
typedef struct row_block {
    unsigned char *bytes;
    bool *own; /* the row may write here */
    size_t size;
} row_block;

/* Where so many bytes lie in the block. */
static inline size_t row_place(row_block *b, size_t bytes, bool own) {
    size_t at = b->size + ROW_GUARD, end = (at + bytes + 255) / 256 * 256 + ROW_GUARD;
    b->bytes = realloc(b->bytes, end);
    b->own = realloc(b->own, end * sizeof *b->own);
    if (!b->bytes || !b->own) abort();
    memset(b->bytes + b->size, ROW_NAN, end - b->size);
    memset(b->own + b->size, 0, (end - b->size) * sizeof *b->own);
    for (size_t i = 0; own && i < bytes; i++) b->own[at + i] = true;
    b->size = end;
    return at;
}

/* The evaluated array's values; t->data becomes the offset of element 0. */
static inline size_t row_place_input(row_block *b, wr_tensor *t, const weir_array *a, const void *from,
                                     row_placement how, bool own) {
    size_t size = weir_dtype_bytes(a->dtype);
    int64_t n = wr_n_elements(a->n_dims, a->shape), step = how == ROW_TRANSPOSED ? 2 : 1, first = 0;
    *t = (wr_tensor){.dtype = a->dtype, .n_dims = a->n_dims};
    memcpy(t->shape, a->shape, sizeof t->shape);
    wr_contiguous_strides(a->n_dims, a->shape, t->strides);
    for (int d = 0; d < a->n_dims && how == ROW_TRANSPOSED; d++) {
        t->strides[d] = step;
        step *= a->shape[d] > 1 ? a->shape[d] : 1;
    }
    for (int d = 0; d < a->n_dims && how == ROW_BACKWARDS && n > 0; d++) {
        first += (a->shape[d] - 1) * t->strides[d];
        t->strides[d] = -t->strides[d];
    }
    if (how == ROW_SKEWED) first = 1;
    size_t at = row_place(b, (size_t)(n * (how == ROW_TRANSPOSED ? 2 : 1) + (how == ROW_SKEWED)) * size, own);
    at += (size_t)first * size;
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i, offset = 0;
        for (int d = a->n_dims - 1; d >= 0; d--) {
            offset += rest % a->shape[d] * t->strides[d];
            rest /= a->shape[d];
        }
        memcpy(b->bytes + (int64_t)at + offset * (int64_t)size, (const char *)from + i * (int64_t)size, size);
    }
    return at;
}

/* The step's kernels over the block at `base`, and the block back. */
static inline weir_status row_run_at(weir_device *device, const wr_kernel_row *row, wr_step *step, row_block *b,
                                     char *base, size_t prepared, size_t scratch, weir_error *err) {
    const wr_runtime *runtime = device->backend->runtime;
    wr_step steps[2] = {*step, *step};
    int n = row->prepare_launch ? 2 : 1;
    wr_step *last = &steps[n - 1];
    steps[0].launch = row->prepare_launch;
    steps[0].scratch = base + prepared;
    last->launch = row->launch;
    last->scratch = row->scratch_bytes ? base + scratch : NULL;
    last->prepared = n == 2 ? base + prepared : NULL;
    WR_TRY(wr_device_upload(device, base, b->bytes, b->size, err));
    WR_TRY(runtime->run(device->context, steps, n, err));
    WR_TRY(wr_device_wait(device, err));
    unsigned char *after = malloc(b->size);
    weir_status status = after ? wr_device_download(device, after, base, b->size, err)
                               : WR_FAIL(err, WEIR_E_MEMORY, "no memory for what came back");
    for (size_t i = 0; i < b->size && status == WEIR_OK; i++)
        if (!b->own[i] && after[i] != b->bytes[i])
            status = WR_FAIL(err, WEIR_E_STATE, "byte %zu of %zu, not the row's, was written", i, b->size);
    if (status == WEIR_OK) memcpy(b->bytes, after, b->size);
    free(after);
    return status;
}

/* The row over the node, whose inputs are evaluated. fixed: a bit for each input that lies as published whatever `how`
 * says; states do anyhow. *out: the result, to be freed. */
static inline row_result row_run(weir_device *device, const weir_array *node, const wr_kernel_row *row,
                                 row_placement how, unsigned fixed, unsigned char **out, weir_error *err) {
    unsigned flags = wr_ops[node->op].flags;
    wr_tensor in[WR_MAX_INPUTS];
    size_t at[WR_MAX_INPUTS], bytes = (size_t)weir_array_size(node) * weir_dtype_bytes(node->dtype);
    row_block b = {0};
    wr_step step = {.op = node->op,
                    .args = node->args,
                    .device = device->backend->runtime->traits(device->context),
                    .variant = row->name,
                    .n_in = node->n_in,
                    .in = in};
    for (int i = 0; i < node->n_in; i++) {
        bool state = (flags & WR_INPLACE && i == 0) || (flags & WR_INPLACE_TWO && i == 1);
        at[i] = row_place_input(&b, &in[i], node->in[i], weir_array_data(node->in[i]),
                                state || fixed >> i & 1 ? ROW_PLAIN : how, state);
    }
    step.out = (wr_tensor){.dtype = node->dtype, .n_dims = node->n_dims};
    memcpy(step.out.shape, node->shape, sizeof step.out.shape);
    wr_contiguous_strides(node->n_dims, node->shape, step.out.strides);
    row_result result = ROW_DOES_NOT_FIT;
    void *base = NULL;
    if (!row->fits || row->fits(&step)) {
        size_t result_at = flags & WR_INPLACE ? at[0] : row_place(&b, bytes, true);
        size_t prepared = row_place(&b, row->prepare_bytes ? row->prepare_bytes(&step) : 0, true);
        size_t scratch = row_place(&b, row->scratch_bytes ? row->scratch_bytes(&step, 1) : 0, true);
        weir_status status = wr_device_alloc(device, b.size, &base, err);
        for (int i = 0; i < node->n_in; i++) in[i].data = weir_array_size(node->in[i]) ? (char *)base + at[i] : NULL;
        step.out.data = (char *)base + result_at;
        if (status == WEIR_OK) status = row_run_at(device, row, &step, &b, base, prepared, scratch, err);
        result = status == WEIR_OK ? ROW_RAN : ROW_FAILED;
        *out = malloc(bytes + 1);
        if (*out && status == WEIR_OK) memcpy(*out, b.bytes + result_at, bytes);
        wr_device_free(device, base, b.size);
    }
    free(b.bytes);
    free(b.own);
    return result;
}

#endif
