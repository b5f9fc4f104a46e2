/* The large presets, cut to a few layers: their embeddings alone are hundreds of
 * megabytes on disk and in memory. */
#include <stdio.h>

#include "drive.h"
#include "synth.h"

static void large_presets_generate(void **state) {
    (void)state;
    weir_quant two_bits = {WEIR_QUANT_AFFINE, 64, 2};
    synth_runs("llama-3.1-8b", two_bits, WEIR_DTYPE_BF16, 2);
    synth_runs("qwen3-8b", two_bits, WEIR_DTYPE_BF16, 2);
    synth_runs("qwen2.5-7b", two_bits, WEIR_DTYPE_BF16, 2);
    synth_runs("gemma-3-12b", two_bits, WEIR_DTYPE_BF16, 6); /* the sixth layer sees everything */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(large_presets_generate)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
