/* Programs: a graph put in order, fused, with its buffers planned by lifetime into one arena. There is one way to
 * run anything: compile a program, run it. */
#ifndef WR_ARRAY_PROGRAM_H
#define WR_ARRAY_PROGRAM_H

#include "array/backend.h"
#include "array/graph.h"

typedef struct wr_program wr_program;

typedef struct wr_program_options {
    bool reference; /* reference kernels only */
    bool no_fusion;
    /* Activation memory shared with other programs that never run at once (page-aligned, zeroed by its owner);
     * NULL: the program owns its arena. */
    void *arena;
    size_t arena_bytes;
} wr_program_options;

/* Compile the graph under outputs. Leaves that are DATA keep pointing at their buffers (retained): inputs and state
 * are buffers that the caller writes between runs. The program is independent of the graph afterwards. */
weir_status wr_program_new(weir_array *const *outputs, int n_outputs, const wr_program_options *options,
                           wr_program **out, weir_error *err);
void wr_program_free(wr_program *program);
/* Begin a run: on the CPU it is over when this returns, elsewhere it goes on after; programs of one device run in the
 * order in which they were started. No heap use. */
weir_status wr_program_start(wr_program *program, weir_error *err);
/* Start, and wait until it and all before it are done. */
weir_status wr_program_run(wr_program *program, weir_error *err);
/* Where output i lies after a run: contiguous, valid until the next run of any program on the same arena. */
const wr_tensor *wr_program_output(const wr_program *program, int i);
size_t
wr_program_arena_bytes(const wr_program *program); /* plan: activation bytes; with options.arena NULL the owned size */
size_t wr_program_own_bytes(const wr_program *program); /* host bytes of the steps themselves */
int wr_program_n_steps(const wr_program *program);
const wr_step *wr_program_step(const wr_program *program, int i);
/* Programs built by this process so far, those of evaluations among them. */
uint64_t wr_program_count(void);

/* Only the plan: how many arena bytes would wr_program_new need? */
weir_status wr_program_plan(weir_array *const *outputs, int n_outputs, const wr_program_options *options,
                            size_t *arena_bytes, weir_error *err);

#endif
