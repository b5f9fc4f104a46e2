/* Packed weights: they stand for exactly the published values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cpu/linear.h"
#include "linear_support.h"

static void every_format_unpacks_to_the_published_bits(void **state) {
    (void)state;
    static const int64_t sizes[][2] = {{1, 256}, {17, 512}, {33, 768}};
    for (int c = 0; c < lin_case_count; c++)
        for (int s = 0; s < 3; s++) {
            int64_t rows = sizes[s][0], cols = sizes[s][1] + (lin_cases[c].multiple == 1 ? 5 : 0), experts = 1 + s;
            lin_weight w;
            lin_weight_init(&w, &lin_cases[c], experts, rows, cols, 7u + (unsigned)s, 1 + s);
            float a[1024], b[1024];
            for (int64_t e = 0; e < experts; e++)
                for (int64_t r = 0; r < rows; r++) {
                    lin_weight_row(&w, e, r, a);
                    wr_cpu_unpack_row(&w.args, w.packed, e, r, b);
                    for (int64_t k = 0; k < cols; k++)
                        if (memcmp(a + k, b + k, 4) && !(a[k] == 0 && b[k] == 0))
                            fail_msg("%s row %d column %d: %a published, %a packed", lin_cases[c].name, (int)r, (int)k,
                                     (double)a[k], (double)b[k]);
                }
            lin_weight_deinit(&w);
        }
}

static void a_packed_weight_has_the_published_size(void **state) {
    (void)state;
    for (int c = 0; c < lin_case_count; c++) {
        wr_linear_args args = {.quant = lin_cases[c].quant,
                               .weight_dtype = lin_cases[c].dtype,
                               .global_scale = 1,
                               .experts = 2,
                               .rows = 32,
                               .cols = 512};
        lin_weight w;
        lin_weight_init(&w, &lin_cases[c], 2, 32, 512, 1, 1);
        lin_weight_deinit(&w);
        int64_t values = 2 * 32 * 512, bytes;
        weir_quant q = args.quant;
        static const int64_t gguf[][3] = {{WEIR_QUANT_Q4_0, 32, 18},   {WEIR_QUANT_Q4_1, 32, 20},
                                          {WEIR_QUANT_Q5_0, 32, 22},   {WEIR_QUANT_Q5_1, 32, 24},
                                          {WEIR_QUANT_Q8_0, 32, 34},   {WEIR_QUANT_Q2_K, 256, 84},
                                          {WEIR_QUANT_Q3_K, 256, 110}, {WEIR_QUANT_Q4_K, 256, 144},
                                          {WEIR_QUANT_Q5_K, 256, 176}, {WEIR_QUANT_Q6_K, 256, 210}};
        size_t element = weir_dtype_bytes(args.weight_dtype);
        bytes = 0;
        for (int i = 0; i < 10; i++)
            if (gguf[i][0] == (int64_t)q.mode) bytes = values / gguf[i][1] * gguf[i][2];
        /* Q3_K's scales are 16 x 6 bits, as published; nothing is rounded up. */
        if (q.mode == WEIR_QUANT_NONE) bytes = values * (int64_t)element;
        if (q.mode == WEIR_QUANT_AFFINE) bytes = values * q.bits / 8 + values / q.group_size * 2 * (int64_t)element;
        if (q.mode == WEIR_QUANT_MXFP4) bytes = values / 2 + values / 32;
        if (q.mode == WEIR_QUANT_NVFP4) bytes = values / 2 + values / 16;
        if (q.mode == WEIR_QUANT_MXFP8) bytes = values + values / 32;
        if (wr_cpu_packed_bytes(&args) != (size_t)bytes)
            fail_msg("%s: %zu bytes, expected %zu", lin_cases[c].name, wr_cpu_packed_bytes(&args), (size_t)bytes);
    }
}

static void unfit_weights_keep_their_layout(void **state) {
    (void)state;
    wr_linear_args args = {.quant = {WEIR_QUANT_Q4_K, 32, 4}, .experts = 1, .rows = 16, .cols = 128};
    assert_int_equal(wr_cpu_packed_bytes(&args), 0); /* columns are not whole blocks */
    args.quant = (weir_quant){WEIR_QUANT_AFFINE, 64, 7};
    args.weight_dtype = WEIR_DTYPE_F16;
    assert_int_equal(wr_cpu_packed_bytes(&args), 0); /* no such width */
    args.quant = (weir_quant){WEIR_QUANT_NONE, 0, 0};
    args.weight_dtype = WEIR_DTYPE_I32;
    assert_int_equal(wr_cpu_packed_bytes(&args), 0);
    args.weight_dtype = WEIR_DTYPE_F32;
    args.rows = args.cols = INT64_MAX / 4;
    assert_int_equal(wr_cpu_packed_bytes(&args), 0); /* does not fit a size_t */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_format_unpacks_to_the_published_bits),
        cmocka_unit_test(a_packed_weight_has_the_published_size),
        cmocka_unit_test(unfit_weights_keep_their_layout),
    };
    return cmocka_run_group_tests_name("pack", tests, NULL, NULL);
}
