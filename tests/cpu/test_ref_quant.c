/* Quantised formats against the gguf package 0.19 and MLX 0.32.4 (tools/goldens_quant.py wrote the files). */
#include "cpu/ref_test.h"
#include "cpu/ref/dequant.h"

enum { MAX_SECTIONS = 6 };

typedef struct record {
    int32_t mode, group, bits, dtype, rows, cols, n_sections, unused;
    int64_t bytes[MAX_SECTIONS];
    const uint8_t *section[MAX_SECTIONS];
} record;

typedef struct golden {
    uint8_t *data;
    size_t bytes, at;
} golden;

static golden golden_read(const char *name) {
    char path[1024];
    snprintf(path, sizeof path, "%s/tests/data/cpu/%s", WR_SOURCE_DIR, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    golden g = {0};
    fseek(file, 0, SEEK_END);
    g.bytes = (size_t)ftell(file);
    rewind(file);
    g.data = malloc(g.bytes);
    assert_int_equal(fread(g.data, 1, g.bytes, file), g.bytes);
    fclose(file);
    return g;
}

/* Sections are copied, so that they are aligned; freed by record_free. */
static bool record_next(golden *g, record *r) {
    if (g->at == g->bytes) return false;
    memcpy(r, g->data + g->at, 32);
    g->at += 32;
    for (int i = 0; i < r->n_sections; i++) {
        memcpy(&r->bytes[i], g->data + g->at, 8);
        g->at += 8;
        uint8_t *copy = malloc((size_t)r->bytes[i] + 1);
        memcpy(copy, g->data + g->at, (size_t)r->bytes[i]);
        r->section[i] = copy;
        g->at += (size_t)r->bytes[i];
    }
    return true;
}
static void record_free(record *r) {
    for (int i = 0; i < r->n_sections; i++) free((void *)(uintptr_t)r->section[i]);
}

static wr_linear_args args_of(const record *r) {
    return (wr_linear_args){.quant = {(weir_quant_mode)r->mode, r->group, r->bits},
                            .weight_dtype = (weir_dtype)r->dtype,
                            .out_dtype = WEIR_DTYPE_F32,
                            .global_scale = 1,
                            .experts = 1,
                            .rows = r->rows,
                            .cols = r->cols};
}

static void gguf_blocks_dequantise_bit_for_bit(void **state) {
    (void)state;
    golden g = golden_read("quant_gguf.bin");
    record r;
    int n = 0;
    for (; record_next(&g, &r); n++) {
        wr_linear_args args = args_of(&r);
        float *values = malloc((size_t)r.cols * sizeof(float));
        wr_dequant_row(&args, r.section[0], NULL, NULL, 0, 0, values);
        assert_int_equal(r.bytes[1], r.cols * (int64_t)sizeof(float));
        check_f32(values, (const float *)(const void *)r.section[1], r.cols);
        free(values);
        record_free(&r);
    }
    assert_int_equal(n, 10);
    free(g.data);
}

static void mlx_weights_dequantise_bit_for_bit(void **state) {
    (void)state;
    golden g = golden_read("quant_mlx.bin");
    record r;
    int n = 0;
    for (; record_next(&g, &r); n++) {
        wr_linear_args args = args_of(&r);
        float *values = malloc((size_t)r.cols * sizeof(float));
        for (int row = 0; row < r.rows; row++) {
            wr_dequant_row(&args, r.section[1], r.section[2], r.section[3], 0, row, values);
            check_f32(values, (const float *)(const void *)r.section[4] + row * r.cols, r.cols);
        }
        free(values);
        record_free(&r);
    }
    assert_int_equal(n, (6 * 3 + 3) * 3);
    free(g.data);
}

/* MLX computes scale * q + bias in the scales' dtype, with two roundings; DEQUANTIZE rounds once. u is the unit
 * roundoff (2^-8 for bf16, 2^-11 for f16), so they differ by at most u |scale q| for MLX's first rounding and u |y| for
 * each side's last one. */
static void dequantize_is_as_close_to_mlx_in_half_precision_as_its_roundings(void **state) {
    (void)state;
    golden g = golden_read("quant_mlx.bin");
    record r;
    while (record_next(&g, &r)) {
        wr_linear_args args = args_of(&r);
        args.out_dtype = (weir_dtype)r.dtype;
        bool affine = r.mode == WEIR_QUANT_AFFINE;
        int64_t n = (int64_t)r.rows * r.cols;
        double u = r.dtype == WEIR_DTYPE_BF16 ? 0x1p-8 : r.dtype == WEIR_DTYPE_F16 ? 0x1p-11 : 0;
        uint8_t *memory = malloc((size_t)n * 4);
        wr_tensor in[3] = {{.data = (void *)(uintptr_t)r.section[1], .dtype = WEIR_DTYPE_U32},
                           {.data = (void *)(uintptr_t)r.section[2], .dtype = args.weight_dtype},
                           {.data = (void *)(uintptr_t)r.section[3], .dtype = args.weight_dtype}};
        wr_tensor out = tensor_of(args.out_dtype, memory, 2, (int64_t[]){r.rows, r.cols});
        run_op(WR_OP_DEQUANTIZE, &args, out, affine ? 3 : 2, in);
        for (int64_t i = 0; i < n; i++) {
            double y = r.dtype == WEIR_DTYPE_F32    ? ((const float *)(const void *)memory)[i]
                       : r.dtype == WEIR_DTYPE_BF16 ? wr_bf16_to_f32(((const uint16_t *)(const void *)memory)[i])
                                                    : wr_f16_to_f32(((const uint16_t *)(const void *)memory)[i]);
            double want = ((const float *)(const void *)r.section[5])[i], bias = 0;
            const uint16_t *biases = (const void *)r.section[3];
            if (affine && r.dtype == WEIR_DTYPE_BF16) bias = wr_bf16_to_f32(biases[i / r.group]);
            if (affine && r.dtype == WEIR_DTYPE_F16) bias = wr_f16_to_f32(biases[i / r.group]);
            double bound =
                affine ? u * 1.01 * (fabs(y - bias) + 2 * fabs(y)) + (r.dtype == WEIR_DTYPE_F16 ? 0x1p-24 : 0) : 0;
            check_near(y, want, bound);
        }
        free(memory);
        record_free(&r);
    }
    free(g.data);
}

static const char *section_name[] = {"packed", "scales", "biases"};

static void quantising_gives_mlx_bits(void **state) {
    (void)state;
    static const wr_op_id ops[] = {WR_OP_QUANTIZE_WEIGHT, WR_OP_QUANTIZE_SCALES, WR_OP_QUANTIZE_BIASES};
    golden g = golden_read("quant_mlx.bin");
    record r;
    while (record_next(&g, &r)) {
        bool affine = r.mode == WEIR_QUANT_AFFINE;
        wr_quantize_args args = {{(weir_quant_mode)r.mode, r.group, r.bits}};
        wr_tensor w = tensor_of((weir_dtype)r.dtype, r.section[0], 2, (int64_t[]){r.rows, r.cols});
        for (int part = 0; part < (affine ? 3 : 2); part++) {
            weir_dtype dtype = part == 0 ? WEIR_DTYPE_U32 : affine ? (weir_dtype)r.dtype : WEIR_DTYPE_U8;
            int64_t last = part == 0 ? r.cols * r.bits / 32 : r.cols / r.group;
            uint8_t *got = malloc((size_t)r.bytes[1 + part]);
            wr_tensor out = tensor_of(dtype, got, 2, (int64_t[]){r.rows, last});
            assert_int_equal(bytes_of(&out), r.bytes[1 + part]);
            run_op(ops[part], &args, out, 1, &w);
            for (int64_t i = 0; i < r.bytes[1 + part]; i++)
                if (got[i] != r.section[1 + part][i])
                    fail_msg("mode %d group %d bits %d dtype %d: byte %lld of %s is %d, want %d", r.mode, r.group,
                             r.bits, r.dtype, (long long)i, section_name[part], got[i], r.section[1 + part][i]);
            free(got);
        }
        record_free(&r);
    }
    free(g.data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gguf_blocks_dequantise_bit_for_bit),
        cmocka_unit_test(mlx_weights_dequantise_bit_for_bit),
        cmocka_unit_test(dequantize_is_as_close_to_mlx_in_half_precision_as_its_roundings),
        cmocka_unit_test(quantising_gives_mlx_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
