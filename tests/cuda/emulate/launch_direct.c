/* wr_launch for programs that run rows without the runtime: the kernel runs before the call returns. It is weak: in a
 * program that also holds the runtime, the runtime's own counts. */
#include "cuda/emulate/direct.h"

#include "base/status.h"

void wr_emulate_launch_cluster(const char *kernel, uint32_t blocks, uint32_t cluster_blocks, uint32_t threads,
                               size_t shared_bytes, const void *params);

static const wr_cuda_traits hopper = {
    .arch = 90, .hopper = true, .n_sm = 4, .shared_bytes = 227 << 10, .l2_bytes = (size_t)50 << 20};
static const wr_cuda_traits plain = {
    .arch = 80, .hopper = false, .n_sm = 4, .shared_bytes = 163 << 10, .l2_bytes = (size_t)40 << 20};

const wr_cuda_traits *wr_emulate_traits(void) { return &hopper; }
const wr_cuda_traits *wr_emulate_traits_plain(void) { return &plain; }

__attribute__((weak)) weir_status wr_launch(wr_launcher *launcher, const wr_launch_spec *spec, weir_error *err) {
    (void)launcher;
    if (spec->blocks <= 0) return WEIR_OK;
    if (spec->blocks > INT32_MAX)
        return WR_FAIL(err, WEIR_E_UNSUPPORTED, "%s: a grid of %lld blocks; the most is 2^31 - 1", spec->kernel,
                       (long long)spec->blocks);
    wr_emulate_launch_cluster(spec->kernel, (uint32_t)spec->blocks, spec->cluster ? (uint32_t)spec->cluster : 1,
                              (uint32_t)spec->threads, spec->shared_bytes, spec->params);
    return WEIR_OK;
}
