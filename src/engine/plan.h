/* The plan of an engine: what would be opened and the bytes it would take, made
 * from headers alone. Opening an engine begins with it; `weir inspect` prints it. */
#ifndef WR_ENGINE_PLAN_H
#define WR_ENGINE_PLAN_H

#include "engine/kv.h"
#include "weir/engine.h"

/* What an engine takes on its device, in bytes. */
typedef struct wr_memory {
    size_t weights;     /* laid out; on a device of its own also those that stay as published */
    size_t mapped;      /* weights that stay in the file, on the CPU */
    size_t kv;          /* keys and values */
    size_t arena;       /* activations of the step programs, */
    size_t hidden;      /* and what goes from the body to the head */
    size_t inputs;      /* of a step: tokens, positions, block tables, sampling */
    size_t sampled;     /* what was sampled last */
    size_t counts;      /* tokens that sequences with penalties have seen */
    size_t free, total; /* of the device; 0 on the CPU, where the system lends memory that it may not have */
} wr_memory;
static inline size_t wr_memory_needed(const wr_memory *m) {
    return m->weights + m->kv + m->arena + m->hidden + m->inputs + m->sampled + m->counts;
}
/* MEMORY when it is more than is free: what each part needs, what there is, and what to lower. */
weir_status wr_memory_check(const wr_memory *memory, const char *device, weir_error *err);

typedef struct wr_plan {
    wr_checkpoint *checkpoint;
    wr_model *model;             /* bound, not loaded */
    weir_engine_options options; /* defaults filled in */
    wr_kv_plan kv;
    size_t kv_bytes_per_token; /* over all layers */
    char device[16];           /* "cpu" or "cuda:N" */
} wr_plan;

/* Errors: as weir_engine_open's, all that can be told without loading. */
weir_status wr_plan_init(wr_plan *plan, const char *model, const weir_engine_options *options, weir_error *err);
/* Opens the device for a moment, to plan the step programs for it; loads nothing. */
weir_status wr_plan_measure(const wr_plan *plan, wr_memory *memory, weir_error *err);
void wr_plan_deinit(wr_plan *plan);

#endif
