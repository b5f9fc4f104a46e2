/* Running a program: every thread walks the steps, with a barrier where the plan has one. */
#include <string.h>

#include "array/compile.h"
#include "array/custom.h"
#include "base/clock.h"

static void *resolve(wr_binding b, void *const *bases) {
    /* As integers: a plan may be made before its leaves have memory. */
    return b.base == WR_NONE ? NULL : (void *)((uintptr_t)bases[b.base] + (uintptr_t)b.offset);
}

void wr_program_bind(wr_program *program, const wr_binding *b, void *const *bases) {
    for (int i = 0; i < program->n_steps; i++) {
        wr_step *step = &program->steps[i];
        step->out.data = resolve(*b++, bases);
        for (int k = 0; k < step->n_in; k++) step->in[k].data = resolve(*b++, bases);
        step->scratch = resolve(*b++, bases);
        step->prepared = resolve(*b++, bases);
    }
    for (int i = 0; i < program->n_outputs; i++) program->outputs[i].data = resolve(*b++, bases);
}

static inline void run_step(const wr_step *step, wr_pool *pool, int thread, int n_threads) {
    if (step->sync && n_threads > 1) wr_pool_barrier(pool, thread);
    if (!step->solo)
        step->kernel(step, thread, n_threads);
    else if (thread == 0)
        step->kernel(step, 0, 1); /* the same bits: kernels split by outputs only */
}

static void run_steps(void *context, int thread, int n_threads) {
    const wr_program *program = context;
    wr_pool *pool = program->device->pool;
    for (int i = 0; i < program->n_steps; i++) {
        run_step(&program->steps[i], pool, thread, n_threads);
    }
}

/* Thread 0's time from step to step, its waiting at barriers included. */
static void run_steps_timed(void *context, int thread, int n_threads) {
    const wr_program *program = context;
    wr_pool *pool = program->device->pool;
    uint64_t before = thread == 0 ? wr_now_ns() : 0;
    for (int i = 0; i < program->n_steps; i++) {
        run_step(&program->steps[i], pool, thread, n_threads);
        if (thread == 0) {
            uint64_t after = wr_now_ns();
            program->step_ns[i] += after - before;
            before = after;
        }
    }
}

/* One step at a time, each waited for: what a kernel costs, its launch included. */
static weir_status run_on_device_timed(wr_program *program, weir_error *err) {
    const wr_runtime *runtime = program->device->backend->runtime;
    void *context = program->device->context;
    WR_TRY(runtime->wait(context, err));
    for (int i = 0; i < program->n_steps; i++) {
        uint64_t before = wr_now_ns();
        WR_TRY(runtime->run(context, &program->steps[i], 1, err));
        WR_TRY(runtime->wait(context, err));
        program->step_ns[i] += wr_now_ns() - before;
    }
    return WEIR_OK;
}

static weir_status start_on_device(wr_program *program, weir_error *err) {
    const wr_runtime *runtime = program->device->backend->runtime;
    if (program->step_ns) return run_on_device_timed(program, err);
    if (program->graph) return runtime->graph_launch(program->device->context, program->graph, err);
    return runtime->run(program->device->context, program->steps, program->n_steps, err);
}

weir_status wr_program_start(wr_program *program, weir_error *err) {
    if (!program) return WR_FAIL(err, WEIR_E_ARGUMENT, "program is NULL");
    program->n_runs++;
    if (program->n_steps == 0) return WEIR_OK;
    if (program->device->backend->runtime) return start_on_device(program, err);
    wr_pool_job job = program->step_ns ? run_steps_timed : run_steps;
    if (program->serial)
        job(program, 0, 1);
    else
        wr_pool_run(program->device->pool, job, program);
    return WEIR_OK;
}

weir_status wr_program_run(wr_program *program, weir_error *err) {
    WR_TRY(wr_program_start(program, err));
    return wr_device_wait(program->device, err);
}

void wr_program_free(wr_program *program) {
    if (!program) return;
    if (program->step_ns) wr_trace_report(program);
    for (int i = 0; i < program->n_leaves && program->leaves; i++) wr_buffer_release(program->leaves[i]);
    if (program->graph) program->device->backend->runtime->graph_free(program->device->context, program->graph);
    if (program->owns_arena) wr_device_free(program->device, program->arena, program->arena_bytes);
    for (int i = 0; i < program->n_steps; i++)
        if (program->steps[i].op == WR_OP_CUSTOM) wr_kernel_release(wr_step_kernel(&program->steps[i]));
    wr_free(program->step_ns);
    wr_free(program);
}

const wr_tensor *wr_program_output(const wr_program *program, int i) { return &program->outputs[i]; }
size_t wr_program_arena_bytes(const wr_program *program) { return program->arena_bytes; }
size_t wr_program_own_bytes(const wr_program *program) { return program->own_bytes; }
int wr_program_n_steps(const wr_program *program) { return program->n_steps; }
const wr_step *wr_program_step(const wr_program *program, int i) { return &program->steps[i]; }
