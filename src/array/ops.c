/* The op table: rows from ops.def, the functions that check inputs from infer_*.c. */
#include "array/internal.h"

#define WR_OP(id, name, lo, hi, args, flags, infer) weir_status wr_infer_##infer(weir_array *out, weir_error *err);
#include "array/ops.def"
#undef WR_OP

static weir_status infer_never(weir_array *out, weir_error *err) {
    return WR_FAIL(err, WEIR_E_ARGUMENT, "%s: not an op that can be built by wr_node", wr_ops[out->op].name);
}

/* An empty args struct has no bytes: nothing to copy or compare. */
#define ARGS_BYTES(args) _Generic(*(args *)0, wr_no_args : 0, default : sizeof(args))

const wr_op_info wr_ops[WR_OP_COUNT] = {
#define WR_OP(id, name, lo, hi, args, flags, infer)                                                                    \
    [WR_OP_##id] = {name, lo, hi, ARGS_BYTES(args), flags, wr_infer_##infer},
#include "array/ops.def"
#undef WR_OP
    [WR_OP_FUSED] = {"fused", 1, WR_MAX_INPUTS, sizeof(wr_fused_args), WR_EW, infer_never},
    [WR_OP_DATA] = {"data", 0, 0, 0, 0, infer_never},
};
