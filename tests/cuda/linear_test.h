/* What the tests of the linear family share: random weights of every format, packed and published, and rows run by name
 * on the emulated card. */
#ifndef WR_TESTS_CUDA_LINEAR_TEST_H
#define WR_TESTS_CUDA_LINEAR_TEST_H

#include "step_test.h"

#include "cpu/ref/dequant.h"
#include "cuda/linear_plan.h"

typedef struct format {
    weir_quant quant;
    weir_dtype dtype; /* dense weights, affine scales */
    bool exact;       /* packed weights are the published ones in f32, and bf16 numbers: no rounding at all */
} format;

#define AFFINE(group, bits)                                                                                            \
    { WEIR_QUANT_AFFINE, group, bits }
#define MODE(name)                                                                                                     \
    { WEIR_QUANT_##name, 0, 0 }
static const format formats[] = {
    {MODE(NONE), WEIR_DTYPE_BF16, true},      {MODE(NONE), WEIR_DTYPE_F16, false},
    {AFFINE(64, 4), WEIR_DTYPE_BF16, false},  {AFFINE(32, 4), WEIR_DTYPE_BF16, false},
    {AFFINE(128, 4), WEIR_DTYPE_BF16, false}, {AFFINE(64, 8), WEIR_DTYPE_BF16, false},
    {AFFINE(32, 8), WEIR_DTYPE_BF16, false},  {AFFINE(64, 2), WEIR_DTYPE_BF16, false},
    {AFFINE(32, 2), WEIR_DTYPE_BF16, false},  {AFFINE(64, 3), WEIR_DTYPE_BF16, false},
    {AFFINE(32, 3), WEIR_DTYPE_BF16, false},  {AFFINE(64, 5), WEIR_DTYPE_BF16, false},
    {AFFINE(32, 5), WEIR_DTYPE_BF16, false},  {AFFINE(64, 6), WEIR_DTYPE_BF16, false},
    {AFFINE(32, 6), WEIR_DTYPE_BF16, false},  {AFFINE(64, 4), WEIR_DTYPE_F16, false},
    {AFFINE(128, 8), WEIR_DTYPE_F16, false},  {AFFINE(32, 4), WEIR_DTYPE_F16, false},
    {AFFINE(32, 5), WEIR_DTYPE_F16, false},   {AFFINE(128, 3), WEIR_DTYPE_F16, false},
    {AFFINE(64, 2), WEIR_DTYPE_F32, false},   {AFFINE(32, 3), WEIR_DTYPE_F32, false},
    {AFFINE(64, 4), WEIR_DTYPE_F32, false},   {AFFINE(128, 5), WEIR_DTYPE_F32, false},
    {AFFINE(64, 6), WEIR_DTYPE_F32, false},   {AFFINE(32, 8), WEIR_DTYPE_F32, false},
    {MODE(MXFP4), WEIR_DTYPE_U8, true},       {MODE(NVFP4), WEIR_DTYPE_U8, true},
    {MODE(MXFP8), WEIR_DTYPE_U8, true},       {MODE(Q4_0), WEIR_DTYPE_U8, false},
    {MODE(Q4_1), WEIR_DTYPE_U8, false},       {MODE(Q5_0), WEIR_DTYPE_U8, false},
    {MODE(Q5_1), WEIR_DTYPE_U8, false},       {MODE(Q8_0), WEIR_DTYPE_U8, false},
    {MODE(Q2_K), WEIR_DTYPE_U8, false},       {MODE(Q3_K), WEIR_DTYPE_U8, false},
    {MODE(Q4_K), WEIR_DTYPE_U8, false},       {MODE(Q5_K), WEIR_DTYPE_U8, false},
    {MODE(Q6_K), WEIR_DTYPE_U8, false},
};

typedef struct weight {
    wr_linear_args args; /* packed 0 */
    void *data, *scales, *biases, *packed;
    size_t packed_bytes;
    int n_parts;
} weight;

static inline float unit(uint64_t i) { return (float)(mix(i) >> 40) * 0x1p-23f - 1; }
static inline void put(weir_dtype dtype, void *array, int64_t i, float x) {
    wr_tensor t = {.data = array, .dtype = dtype};
    put_float(&t, i, x);
}

/* f16 scales of GGUF blocks become ordinary numbers. */
static inline void tame_blocks(weir_quant_mode mode, uint8_t *bytes, int64_t n, uint64_t seed) {
    int64_t step = wr_quant_block_bytes(mode);
    int first = mode == WEIR_QUANT_Q2_K ? 80 : mode == WEIR_QUANT_Q3_K ? 108 : mode == WEIR_QUANT_Q6_K ? 208 : 0;
    bool two = mode == WEIR_QUANT_Q2_K || mode == WEIR_QUANT_Q4_1 || mode == WEIR_QUANT_Q5_1 ||
               mode == WEIR_QUANT_Q4_K || mode == WEIR_QUANT_Q5_K;
    for (int64_t b = 0; b < n / step; b++)
        for (int i = 0; i <= (int)two; i++)
            put(WEIR_DTYPE_F16, bytes + b * step + first + 2 * i, 0, 0.01f * unit(seed + (uint64_t)(2 * b + i)));
}

/* The weight, packed by n_threads shares. scale: of affine groups. */
static inline weight new_weight(format f, int64_t experts, int64_t rows, int64_t cols, float scale, int n_threads) {
    uint64_t seed = (uint64_t)rows * 131 + (uint64_t)cols;
    weight w = {.args = {.quant = wr_linear_quant(f.quant),
                         .weight_dtype = f.dtype,
                         .out_dtype = WEIR_DTYPE_F32,
                         .global_scale = f.quant.mode == WEIR_QUANT_NVFP4 ? 0.375f : 1,
                         .experts = experts,
                         .rows = rows,
                         .cols = cols}};
    weir_quant q = w.args.quant = wr_quant_is_gguf(f.quant.mode) ? f.quant : w.args.quant;
    int64_t n = experts * rows * wr_weight_row_bytes(&w.args);
    uint8_t *bytes = w.data = malloc((size_t)n + 1);
    for (int64_t i = 0; i < n; i++) bytes[i] = (uint8_t)(mix(seed + (uint64_t)i) >> 20);
    w.n_parts = 1;
    if (q.mode == WEIR_QUANT_NONE) {
        for (int64_t i = 0; i < experts * rows * cols; i++) put(f.dtype, w.data, i, unit(seed + (uint64_t)i));
    } else if (wr_quant_is_gguf(q.mode)) {
        tame_blocks(q.mode, bytes, n, seed);
    } else {
        int64_t groups = experts * rows * cols / q.group_size;
        bool affine = q.mode == WEIR_QUANT_AFFINE;
        uint8_t *scales = w.scales = malloc((size_t)groups * 4 + 1);
        if (affine) w.biases = malloc((size_t)groups * 4 + 1);
        for (int64_t g = 0; g < groups; g++) {
            if (affine) {
                put(f.dtype, w.scales, g, scale * unit(seed + (uint64_t)g));
                put(f.dtype, w.biases, g, 10 * scale * unit(seed + (uint64_t)(g + groups)));
            } else { /* every E4M3 but NaN, both signs; E8M0 of ordinary size */
                uint64_t r = mix((uint64_t)g);
                scales[g] = (uint8_t)(q.mode == WEIR_QUANT_NVFP4 ? r % 0x7f | (r >> 20 & 0x80) : 120 + r % 9);
            }
        }
        for (int64_t i = 0; q.mode == WEIR_QUANT_MXFP8 && i < n; i++)
            if ((bytes[i] & 0x7f) == 0x7f) bytes[i] = 0; /* NaN */
        w.n_parts = affine ? 3 : 2;
    }
    w.packed_bytes = wr_cuda_packed_bytes(&w.args);
    w.packed = aligned_alloc(256, (w.packed_bytes + 511) / 256 * 256);
    memset(w.packed, CANARY, (w.packed_bytes + 511) / 256 * 256);
    for (int t = 0; t < n_threads; t++) wr_cuda_pack(&w.args, w.data, w.scales, w.biases, w.packed, t, n_threads);
    for (size_t i = w.packed_bytes; i < (w.packed_bytes + 511) / 256 * 256; i++)
        assert_int_equal(((uint8_t *)w.packed)[i], CANARY);
    return w;
}
static inline void free_weight(weight *w) {
    free(w->data);
    free(w->scales);
    free(w->biases);
    free(w->packed);
}

static inline cloth tokens(weir_dtype dtype, int64_t m, int64_t cols, int skew, uint64_t seed) {
    cloth x = new_input(dtype, 2, (int64_t[]){m, cols}, NULL, skew);
    fill_tame(&x.t, seed, 1);
    return x;
}

/* A call of the family: inputs before the weight, then the weight's parts. */
typedef struct call {
    wr_op_id op;
    const wr_tensor *first, *second; /* NULL: not there */
    const weight *w;
    bool packed;
    const char *row;              /* of the table */
    const wr_decode_plan *plan;   /* forced on the decode row, or NULL */
    const wr_lean_plan *lean;     /* likewise */
    const wr_cuda_traits *device; /* NULL: wr_emulate_traits() */
    void *prepared;               /* gets what the row's prepare step made, or NULL */
} call;

/* False when the row does not take it. */
static inline bool run_call(const call *c, const cloth *y) {
    wr_linear_args args = c->w->args;
    wr_tensor in[5];
    int n = 0;
    memset(in, 0, sizeof(in));
    if (c->first) in[n++] = *c->first;
    if (c->second) in[n++] = *c->second;
    args.packed = c->packed;
    args.out_dtype = y->t.dtype;
    const void *parts[3] = {c->packed ? c->w->packed : c->w->data, c->w->scales, c->w->biases};
    for (int i = 0; i < (c->packed ? 1 : c->w->n_parts); i++)
        in[n++] = (wr_tensor){.data = (void *)(uintptr_t)parts[i], .dtype = WEIR_DTYPE_U8, .n_dims = 1};
    wr_step step = {.op = c->op,
                    .args = &args,
                    .out = y->t,
                    .n_in = n,
                    .in = in,
                    .device = c->device ? c->device : wr_emulate_traits()};
    const wr_kernel_row *row = row_named(wr_cuda_linear_rows(c->op), c->row);
    assert_non_null(row);
    if (row->fits && !row->fits(&step)) return false;
    weir_error err = {0};
    size_t prepared_bytes = row->prepare_bytes ? row->prepare_bytes(&step) : 0,
           room = (prepared_bytes + 511) / 256 * 256;
    uint8_t *prepared = aligned_alloc(256, room);
    memset(prepared, POISON, room);
    step.scratch = prepared;
    if (row->prepare_launch && row->prepare_launch(&step, NULL, &err) != WEIR_OK)
        fail_msg("%s, prepare: %s", wr_ops[c->op].name, err.message);
    for (size_t i = prepared_bytes; i < room; i++) assert_int_equal(prepared[i], POISON);
    if (c->prepared) memcpy(c->prepared, prepared, prepared_bytes);
    step.prepared = prepared;
    size_t bytes = row->scratch_bytes ? row->scratch_bytes(&step, 1) : 0;
    if (c->plan) bytes = (size_t)(wr_linear_row_tiles(args.rows) * wr_linear_slices(args.cols) * 32 * 64);
    uint8_t *scratch = aligned_alloc(256, (bytes + 511) / 256 * 256);
    memset(scratch, POISON, (bytes + 511) / 256 * 256);
    step.scratch = scratch;
    weir_status status = c->plan   ? wr_linear_decode_launch(&step, c->plan, NULL, &err)
                         : c->lean ? wr_linear_lean_launch_plan(&step, c->lean, NULL, &err)
                                   : row->launch(&step, NULL, &err);
    if (status != WEIR_OK) fail_msg("%s: %s", wr_ops[c->op].name, err.message);
    for (size_t i = bytes; i < (bytes + 511) / 256 * 256; i++) assert_int_equal(scratch[i], POISON);
    free(scratch);
    free(prepared);
    check_canaries(y);
    return true;
}

#endif
