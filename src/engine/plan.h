/* The plan of an engine: what would be opened and the bytes it would take, made
 * from headers alone. Opening an engine begins with it; `weir inspect` prints it. */
#ifndef WR_ENGINE_PLAN_H
#define WR_ENGINE_PLAN_H

#include "engine/kv.h"
#include "weir/engine.h"

typedef struct wr_plan {
    wr_checkpoint *checkpoint;
    wr_model *model;             /* bound, not loaded */
    weir_engine_options options; /* defaults filled in */
    wr_kv_plan kv;
    size_t kv_bytes_per_token; /* over all layers */
} wr_plan;

/* Errors: as weir_engine_open's, all that can be told without loading. */
weir_status wr_plan_init(wr_plan *plan, const char *model, const weir_engine_options *options, weir_error *err);
void wr_plan_deinit(wr_plan *plan);

#endif
