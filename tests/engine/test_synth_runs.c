/* Random checkpoints run: every preset's architecture opens in the engine and
 * generates, in each quantisation. (The large presets: test_slow_synth_runs.c.) */
#include <stdio.h>

#include "drive.h"
#include "synth.h"

static void small_presets_generate_in_every_mode(void **state) {
    (void)state;
    static const char *const presets[] = {"smollm2-135m", "qwen3-0.6b"};
    for (size_t p = 0; p < 2; p++) {
        synth_runs(presets[p], (weir_quant){WEIR_QUANT_AFFINE, 64, 4}, WEIR_DTYPE_BF16, 2);
        synth_runs(presets[p], (weir_quant){WEIR_QUANT_MXFP4, 32, 4}, WEIR_DTYPE_BF16, 2);
    }
    synth_runs(presets[0], (weir_quant){WEIR_QUANT_NONE, 0, 0}, WEIR_DTYPE_F16, 2);
    synth_runs(presets[0], (weir_quant){WEIR_QUANT_AFFINE, 32, 3}, WEIR_DTYPE_F32, 2);
    synth_runs(presets[0], (weir_quant){WEIR_QUANT_AFFINE, 128, 8}, WEIR_DTYPE_F16, 2); /* 576 columns stay dense */
    synth_runs(presets[0], (weir_quant){WEIR_QUANT_NVFP4, 16, 4}, WEIR_DTYPE_BF16, 2);
    synth_runs(presets[0], (weir_quant){WEIR_QUANT_MXFP8, 32, 8}, WEIR_DTYPE_BF16, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(small_presets_generate_in_every_mode)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
