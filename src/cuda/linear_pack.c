/* LINEAR and GATHER_LINEAR over weights that nobody packed at load, as in programs of the array API: packed on the
 * device (kernels/linear_pack.cu), then served by the rows for packed weights, with the same bits. */
#include "base/mem.h"
#include "cuda/linear.h"

/* Gathering reads few experts where rows are few: it does not pay to pack all of them then. */
enum { EXPERTS_A_ROW = 4, ALIGNMENT = 256 };

/* The step as it is over packed weights. */
typedef struct packed_step {
    wr_step step;
    wr_linear_args args;
    wr_tensor in[3];
    const wr_kernel_row *row; /* that serves it */
    size_t prepared_bytes;    /* of the row's own prepare step */
} packed_step;

static bool packed_of(const wr_step *step, packed_step *out) {
    int first = wr_linear_first_weight(step);
    out->step = *step;
    out->args = *(const wr_linear_args *)step->args;
    out->args.packed = 1;
    for (int i = 0; i < first; i++) out->in[i] = step->in[i];
    out->in[first] = (wr_tensor){.data = (void *)(uintptr_t)step->prepared, .dtype = WEIR_DTYPE_U8, .n_dims = 1};
    out->step.args = &out->args;
    out->step.in = out->in;
    out->step.n_in = first + 1;
    for (out->row = wr_cuda_linear_rows(step->op); out->row->fits; out->row++) {
        if (!out->row->fits(&out->step)) continue;
        size_t bytes = out->row->prepare_bytes ? out->row->prepare_bytes(&out->step) : 0;
        out->prepared_bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        return true;
    }
    return false;
}

bool wr_linear_pack_fits(const wr_step *step) {
    const wr_linear_args *a = step->args;
    packed_step packed;
    if (a->packed || wr_cuda_packed_bytes(a) == 0) return false;
    if (step->op == WR_OP_GATHER_LINEAR && wr_linear_rows_of_x(step) * EXPERTS_A_ROW < a->experts) return false;
    return packed_of(step, &packed);
}
size_t wr_linear_pack_prepared_bytes(const wr_step *step) { return wr_cuda_packed_bytes(step->args); }

weir_status wr_linear_pack_launch_prepare(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    enum { THREADS = 256, TILES_A_BLOCK = THREADS / 32, MOST_BLOCKS = 1 << 20 };
    const wr_linear_args *a = step->args;
    int kind = wr_linear_kind(a);
    wr_linear_params p;
    wr_linear_params_of(step, wr_linear_first_weight(step), &p);
    p.y = step->scratch;
    p.tile_bits = wr_linear_kind_bits(kind);
    p.tile_code = wr_linear_kind_code(kind);
    p.tile_scales = wr_linear_kind_scales(kind);
    p.tile_offset = wr_linear_kind_offset(kind);
    int64_t blocks = p.experts * p.row_tiles * p.k_tiles / TILES_A_BLOCK + 1;
    wr_launch_spec spec = {.kernel = "wr_linear_pack",
                           .blocks = blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS,
                           .threads = THREADS,
                           .whole = true,
                           .params = &p,
                           .params_bytes = sizeof p};
    return wr_launch(launcher, &spec, err);
}

size_t wr_linear_pack_scratch_bytes(const wr_step *step, int n_threads) {
    packed_step packed;
    if (!packed_of(step, &packed)) return 0;
    size_t more = packed.row->scratch_bytes ? packed.row->scratch_bytes(&packed.step, n_threads) : 0;
    return packed.prepared_bytes + more;
}

weir_status wr_linear_pack_launch(const wr_step *step, wr_launcher *launcher, weir_error *err) {
    packed_step packed;
    if (!packed_of(step, &packed))
        return WR_FAIL(err, WEIR_E_STATE, "%s: no row for the packed weight", wr_ops[step->op].name);
    if (packed.row->prepare_launch) {
        WR_TRY(packed.row->prepare_launch(&packed.step, launcher, err));
        packed.step.prepared = step->scratch;
    }
    packed.step.scratch = (char *)step->scratch + packed.prepared_bytes;
    return packed.row->launch(&packed.step, launcher, err);
}
