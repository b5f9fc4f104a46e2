/* The compiler's frame and its last stages: choice of kernels with their prepare steps and scratch, and the program
 * as one compact block (an engine holds many programs of hundreds of steps). */
#include <stdatomic.h>
#include <string.h>

#include "array/compile.h"
#include "array/custom.h"

/* Draft memory of one compilation; a program of 10,000 steps takes about 30 MB. */
static const size_t DRAFT_CAP_BYTES = (size_t)2 << 30;

static weir_status no_memory(weir_error *err) {
    return WR_FAIL(err, WEIR_E_MEMORY, "no memory for compiling a program");
}

/* ---- kernels ---- */

static void fill_tensor(const wr_compiler *c, int32_t value, wr_tensor *t) {
    const wr_value *v = &c->values[value];
    t->data = NULL;
    t->dtype = v->dtype;
    t->n_dims = v->layout.n_dims;
    for (int i = 0; i < v->layout.n_dims; i++) {
        t->shape[i] = v->layout.shape[i];
        t->strides[i] = v->layout.strides[i];
    }
}

static wr_step *sketch(wr_compiler *c, const wr_draft *d) {
    wr_step *step = wr_arena_alloc(c->memory, sizeof *step);
    wr_tensor *in = wr_arena_alloc(c->memory, (size_t)d->n_in * sizeof *in);
    if (!step || !in) return NULL;
    step->op = d->op;
    step->args = d->args;
    step->device = c->traits;
    step->n_in = d->n_in;
    step->in = in;
    for (int i = 0; i < d->n_in; i++) fill_tensor(c, d->in[i], &in[i]);
    fill_tensor(c, d->out, &step->out);
    return step;
}

static weir_status choose_row(const wr_compiler *c, wr_draft *d, weir_error *err) {
    const wr_kernel_row *rows = c->device->backend->kernels(d->op);
    for (int i = 0; rows && rows[i].name; i++) {
        if (c->reference && rows[i + 1].name) continue;
        if (rows[i].fits && !rows[i].fits(d->step)) continue;
        d->row = &rows[i];
        return WEIR_OK;
    }
    const weir_dtype dtype = c->values[d->n_in ? d->in[0] : d->out].dtype;
    return WR_FAIL(err, WEIR_E_UNSUPPORTED, "%s: backend %s has no kernel for it on %s", wr_ops[d->op].name,
                   c->device->backend->name, weir_dtype_name(dtype));
}

weir_status wr_has_fast_row(wr_compiler *c, const wr_draft *d, bool *has, weir_error *err) {
    const wr_kernel_row *rows = c->device->backend->kernels(d->op);
    const wr_step *step = sketch(c, d);
    *has = false;
    if (!step) return no_memory(err);
    for (int i = 0; rows && rows[i].name && rows[i + 1].name && !*has; i++) *has = !rows[i].fits || rows[i].fits(step);
    return WEIR_OK;
}

static int32_t new_scratch(wr_compiler *c, size_t bytes) {
    return bytes > INT64_MAX ? WR_NONE : wr_add_storage(c, WR_IN_ARENA, (int64_t)bytes);
}

static bool reads_same(const wr_draft *a, const wr_draft *b, unsigned inputs) {
    for (int i = 0; inputs >> i; i++)
        if (inputs >> i & 1 && a->in[i] != b->in[i]) return false;
    return true;
}

/* The prepare draft that others share: same function, same inputs, same bytes. */
static weir_status add_prepare(wr_compiler *c, int32_t id, int first_prepare, weir_error *err) {
    wr_draft *d = &c->drafts[id];
    const wr_kernel_row *row = d->row;
    size_t bytes = row->prepare_bytes ? row->prepare_bytes(d->step) : 0;
    bool state = false;
    for (int i = 0; i < d->n_in; i++)
        if (row->prepare_inputs >> i & 1) state = state || c->storages[c->values[d->in[i]].storage].written;
    for (int p = c->n_drafts - 1; p >= first_prepare && !state; p--) {
        const wr_draft *other = &c->drafts[p], *user = &c->drafts[other->prepares];
        if (user->row->prepare == row->prepare && user->row->prepare_launch == row->prepare_launch &&
            reads_same(user, d, row->prepare_inputs) && c->storages[other->scratch].bytes == (int64_t)bytes &&
            (!row->prepare_by_args || !memcmp(user->args, d->args, wr_ops[d->op].args_bytes))) {
            d->prepared = other->scratch;
            return WEIR_OK;
        }
    }
    int32_t result = new_scratch(c, bytes);
    if (result == WR_NONE) return no_memory(err);
    int32_t p = wr_add_draft(c, d->op, d->n_in, d->in, d->out, d->args);
    if (p == WR_NONE) return no_memory(err);
    c->drafts[p].is_prepare = true;
    c->drafts[p].prepares = id;
    c->drafts[p].scratch = result;
    c->drafts[p].row = row;
    c->storages[result].producer = p;
    c->drafts[id].prepared = result; /* drafts may have moved */
    c->drafts[id].lender = p;
    c->order[c->n_order++] = p;
    return WEIR_OK;
}

weir_status wr_choose_kernels(wr_compiler *c, weir_error *err) {
    int n = c->n_drafts;
    c->order = wr_arena_alloc(c->memory, 2 * (size_t)n * sizeof *c->order);
    if (!c->order) return no_memory(err);
    for (int i = 0; i < n; i++) {
        wr_draft *d = &c->drafts[i];
        if (d->dead) continue;
        d->step = sketch(c, d);
        if (!d->step) return no_memory(err);
        WR_TRY(choose_row(c, d, err));
        if (d->row->prepare || d->row->prepare_launch) {
            WR_TRY(add_prepare(c, i, n, err));
            d = &c->drafts[i];
        }
        size_t bytes = d->row->scratch_bytes ? d->row->scratch_bytes(d->step, c->n_threads) : 0;
        if (bytes) {
            int32_t scratch = new_scratch(c, bytes);
            if (scratch == WR_NONE) return no_memory(err);
            d->scratch = scratch;
        }
        c->order[c->n_order++] = i;
    }
    return WEIR_OK;
}

/* ---- the block ---- */

typedef struct writer {
    char *at, *end; /* NULL: only count */
    size_t bytes;
} writer;

/* Next part of the block, 16-byte aligned; NULL while counting. */
static void *take(writer *w, size_t bytes) {
    bytes = (bytes + 15) & ~(size_t)15;
    w->bytes += bytes;
    if (!w->at) return NULL;
    void *p = w->at;
    w->at += bytes;
    wr_assert(w->at <= w->end);
    return p;
}

static wr_binding binding_of(const wr_compiler *c, int32_t storage, int64_t offset_bytes) {
    if (storage == WR_NONE) return (wr_binding){.base = WR_NONE};
    const wr_storage *s = &c->storages[storage];
    if (s->place == WR_IN_ARENA) return (wr_binding){.base = 0, .offset = s->offset + offset_bytes};
    if (s->place == WR_IN_LEAF) return (wr_binding){.base = 1 + s->slot, .offset = offset_bytes};
    return (wr_binding){.base = 1 + c->n_leaves + s->slot, .offset = offset_bytes};
}

static wr_binding value_binding(const wr_compiler *c, int32_t value) {
    const wr_value *v = &c->values[value];
    return binding_of(c, v->storage, v->layout.offset * (int64_t)weir_dtype_bytes(v->dtype));
}

/* Args are copied once for equal bytes among recent ones: layers repeat them. */
enum { RECENT_ARGS = 64 };
typedef struct args_pool {
    struct {
        const void *from;
        const void *copy;
        size_t bytes;
    } recent[RECENT_ARGS];
    int n;
} args_pool;

static const void *pooled_args(writer *w, args_pool *pool, const void *args, size_t bytes) {
    if (!args || !bytes) return NULL;
    for (int i = 0; i < RECENT_ARGS && i < pool->n; i++)
        if (pool->recent[i].bytes == bytes && !memcmp(pool->recent[i].from, args, bytes)) return pool->recent[i].copy;
    void *copy = take(w, bytes);
    if (copy) memcpy(copy, args, bytes);
    int at = pool->n++ % RECENT_ARGS;
    pool->recent[at].from = args;
    pool->recent[at].copy = copy;
    pool->recent[at].bytes = bytes;
    return copy;
}

static int64_t value_bytes(const wr_compiler *c, int32_t value) {
    const wr_value *v = &c->values[value];
    return wr_n_elements(v->layout.n_dims, v->layout.shape) * (int64_t)weir_dtype_bytes(v->dtype);
}

/* Bytes that a step reads and writes: is it worth waking other threads? */
static int64_t step_bytes(const wr_compiler *c, const wr_draft *d) {
    int64_t sum = 0;
    for (int i = 0; i <= d->n_in; i++) {
        sum += value_bytes(c, i < d->n_in ? d->in[i] : d->out);
        if (sum > INT32_MAX) return INT32_MAX;
    }
    return sum;
}

/* Below this a step costs less than the barriers around it: 2,048 elements of silu(a) * b take 2.6 us, a barrier 1 us
 * (measured on Zen 3, two threads). */
enum { SOLO_BYTES = 24 << 10 };

static bool is_solo(const wr_compiler *c, const wr_draft *d) {
    if (d->is_prepare) {
        int64_t bytes = c->storages[d->scratch].bytes;
        for (int i = 0; i < d->n_in; i++)
            if (d->row->prepare_inputs >> i & 1) bytes += value_bytes(c, d->in[i]);
        return bytes <= SOLO_BYTES;
    }
    switch (d->op) { /* more work than their bytes say, or weights to read */
    case WR_OP_LINEAR:
    case WR_OP_LINEAR_GATED:
    case WR_OP_NORM_LINEAR:
    case WR_OP_GATHER_LINEAR:
    case WR_OP_MATMUL:
    case WR_OP_ATTENTION:
    case WR_OP_PAGED_ATTENTION:
    case WR_OP_CONV1D:
    case WR_OP_SORT:
    case WR_OP_ARGSORT: return false;
    case WR_OP_KV_WRITE: return value_bytes(c, d->in[1]) <= SOLO_BYTES; /* not the pages */
    case WR_OP_KV_APPEND: return value_bytes(c, d->in[2]) + value_bytes(c, d->in[3]) <= SOLO_BYTES;
    default: return step_bytes(c, d) <= SOLO_BYTES;
    }
}

/* Steps that thread 0 does alone follow each other in program order, so a barrier between two epochs of only such steps
 * is not waited for. (Buffers that share memory are kept apart by an epoch's distance at least: if one of the two is
 * used by all threads, its epoch is not solo and its barrier stays.) */
static void place_syncs(wr_step *steps, int n) {
    bool solo_before = false;
    for (int i = 0; i < n;) {
        int end = i + 1;
        bool solo = steps[i].solo;
        for (; end < n && !steps[end].barrier; end++) solo &= steps[end].solo;
        steps[i].sync = steps[i].barrier && !(solo && solo_before);
        solo_before = solo;
        i = end;
    }
}

/* Waking a pool costs some 5-50 us; one thread moves this much in a few. */
enum { SERIAL_BYTES = 16 << 10 };

/* Lay the program out; called once to count and once to write. bindings is NULL while counting. */
static void lay_out(wr_compiler *c, writer *w, wr_program *program, wr_binding *bindings) {
    args_pool pool = {.n = 0};
    size_t n_bindings = 0;
    int64_t work = 0;
    wr_step *steps = take(w, (size_t)c->n_order * sizeof *steps);
    if (program) program->steps = steps;
    for (int o = 0; o < c->n_order; o++) {
        wr_draft *d = &c->drafts[c->order[o]];
        const wr_draft *user = d->is_prepare ? &c->drafts[d->prepares] : d;
        const void *args =
            pooled_args(w, &pool, d->args, d->op == WR_OP_FUSED ? sizeof(wr_fused_args) : wr_ops[d->op].args_bytes);
        /* A prepare step comes before its user and lends it its inputs. */
        wr_tensor *in = d->lender != WR_NONE ? c->drafts[d->lender].laid_in : take(w, (size_t)d->n_in * sizeof *in);
        d->laid_in = in;
        work += step_bytes(c, d);
        if (!program) continue;
        memcpy(in, user->step->in, (size_t)d->n_in * sizeof *in);
        wr_step *step = &steps[o];
        *step = (wr_step){.op = d->op,
                          .barrier = d->barrier,
                          .solo = is_solo(c, d),
                          .kernel = d->is_prepare ? d->row->prepare : d->row->run,
                          .launch = d->is_prepare ? d->row->prepare_launch : d->row->launch,
                          .device = c->traits,
                          .variant = d->row->name,
                          .args = args,
                          .out = user->step->out,
                          .n_in = d->n_in,
                          .in = in};
        if (d->op == WR_OP_CUSTOM) wr_kernel_retain(wr_step_kernel(step));
        bindings[n_bindings++] = value_binding(c, d->out);
        for (int i = 0; i < d->n_in; i++) bindings[n_bindings++] = value_binding(c, d->in[i]);
        bindings[n_bindings++] = binding_of(c, d->scratch, 0);
        bindings[n_bindings++] = binding_of(c, d->prepared, 0);
    }
    wr_tensor *outputs = take(w, (size_t)c->n_outputs * sizeof *outputs);
    wr_buffer **leaves = c->for_eval ? NULL : take(w, (size_t)c->n_leaves * sizeof *leaves);
    size_t *output_bytes = c->for_eval ? take(w, (size_t)c->n_output_buffers * sizeof *output_bytes) : NULL;
    int32_t *output_base = c->for_eval ? take(w, (size_t)c->n_outputs * sizeof *output_base) : NULL;
    int64_t *output_offset = c->for_eval ? take(w, (size_t)c->n_outputs * sizeof *output_offset) : NULL;
    if (!program) return;
    place_syncs(steps, c->n_order);
    program->n_steps = c->n_order;
    program->n_outputs = c->n_outputs;
    program->n_leaves = c->n_leaves;
    program->n_output_buffers = c->n_output_buffers;
    program->outputs = outputs;
    program->leaves = leaves;
    program->output_bytes = output_bytes;
    program->output_base = output_base;
    program->output_offset = output_offset;
    program->serial = work <= SERIAL_BYTES;
    for (int i = 0; i < c->n_outputs; i++) {
        wr_binding b = value_binding(c, c->outputs[i]);
        fill_tensor(c, c->outputs[i], &outputs[i]);
        bindings[n_bindings++] = b;
        if (!c->for_eval) continue;
        output_base[i] = b.base;
        output_offset[i] = c->values[c->outputs[i]].layout.offset;
    }
    for (int i = 0; i < c->n_leaves && leaves; i++) leaves[i] = wr_buffer_retain(c->leaves[i]);
    for (int i = 0; i < c->n_storages && output_bytes; i++)
        if (c->storages[i].place == WR_IN_OUTPUT) output_bytes[c->storages[i].slot] = (size_t)c->storages[i].bytes;
}

static size_t count_bindings(const wr_compiler *c) {
    size_t n = (size_t)c->n_outputs;
    for (int o = 0; o < c->n_order; o++) n += 3 + (size_t)c->drafts[c->order[o]].n_in;
    return n;
}

static weir_status build(wr_compiler *c, const wr_program_options *options, wr_program **out, weir_error *err) {
    writer w = {.at = NULL};
    size_t n_bindings = count_bindings(c), own;
    lay_out(c, &w, NULL, NULL);
    wr_binding *bindings = NULL;
    own = sizeof(wr_program) + 16 + w.bytes + (c->for_eval ? n_bindings * sizeof *bindings : 0);
    wr_program *program = wr_calloc(1, own);
    if (!program) return no_memory(err);
    program->device = c->device;
    program->own_bytes = own;
    program->arena_bytes = c->arena_bytes;
    char *at = (char *)program + ((sizeof *program + 15) & ~(size_t)15);
    w = (writer){.at = at, .end = (char *)program + own};
    bindings = c->for_eval ? take(&w, n_bindings * sizeof *bindings)
                           : wr_arena_alloc(c->memory, n_bindings * sizeof *bindings);
    void **bases = wr_arena_alloc(c->memory, (size_t)(1 + c->n_leaves) * sizeof *bases);
    if (!bindings || !bases) {
        wr_free(program);
        return no_memory(err);
    }
    lay_out(c, &w, program, bindings);
    if (wr_trace_times() && c->n_order > 0) program->step_ns = wr_calloc((size_t)c->n_order, sizeof *program->step_ns);
    if (c->for_eval) {
        program->bindings = bindings;
        *out = program;
        return WEIR_OK;
    }
    if (options && options->arena) {
        program->arena = options->arena;
        if (c->arena_bytes > options->arena_bytes) {
            wr_program_free(program);
            return WR_FAIL(err, WEIR_E_LIMIT, "the program needs %zu bytes of activations, its arena has %zu",
                           c->arena_bytes, options->arena_bytes);
        }
    } else if (c->arena_bytes > 0) {
        weir_status status = wr_device_alloc(c->device, c->arena_bytes, &program->arena, err);
        program->owns_arena = status == WEIR_OK;
        if (status != WEIR_OK) {
            wr_err_context(err, "activations of a program");
            wr_program_free(program);
            return status;
        }
    }
    bases[0] = program->arena;
    weir_status status = WEIR_OK;
    for (int i = 0; i < c->n_leaves; i++) {
        bases[1 + i] = c->leaves[i]->data;
        if (status == WEIR_OK) status = wr_buffer_settle(c->leaves[i], err); /* programs know nothing of streams */
    }
    wr_program_bind(program, bindings, bases);
    const wr_runtime *runtime = c->device->backend->runtime;
    if (status == WEIR_OK && runtime && !wr_trace_times())
        status = runtime->graph_new(c->device->context, program->steps, program->n_steps, &program->graph, err);
    if (status != WEIR_OK) {
        wr_program_free(program);
        return status;
    }
    *out = program;
    return WEIR_OK;
}

/* ---- the frame ---- */

static atomic_uint_fast64_t n_built;

uint64_t wr_program_count(void) { return atomic_load_explicit(&n_built, memory_order_relaxed); }

/* Results of an evaluation go into buffers of their own, which the arrays keep. */
static void place_outputs(wr_compiler *c) {
    for (int i = 0; i < c->n_outputs; i++) {
        wr_storage *s = &c->storages[c->values[c->outputs[i]].storage];
        if (s->place != WR_IN_ARENA) continue;
        s->place = WR_IN_OUTPUT;
        s->slot = c->n_output_buffers++;
    }
}

static weir_status check_outputs(weir_array *const *outputs, int n, weir_error *err) {
    if (n < 1 || !outputs) return WR_FAIL(err, WEIR_E_ARGUMENT, "a program needs at least one output");
    for (int i = 0; i < n; i++) {
        if (!outputs[i]) return WR_FAIL(err, WEIR_E_ARGUMENT, "output %d is NULL", i);
        if (outputs[i]->poisoned) {
            weir_status status = outputs[i]->graph ? weir_graph_error(outputs[i]->graph, err) : WEIR_OK;
            if (status != WEIR_OK) return status;
            return WR_FAIL(err, WEIR_E_ARGUMENT, "output %d was made of NULL arrays", i);
        }
        if (outputs[i]->graph != outputs[0]->graph)
            return WR_FAIL(err, WEIR_E_ARGUMENT, "output %d belongs to another graph than output 0", i);
    }
    return WEIR_OK;
}

weir_status wr_compile(weir_array *const *outputs, int n_outputs, const wr_program_options *options,
                       wr_compile_mode mode, wr_program **out, size_t *arena_bytes, weir_error *err) {
    WR_TRY(check_outputs(outputs, n_outputs, err));
    wr_arena memory;
    wr_arena_init(&memory, DRAFT_CAP_BYTES);
    wr_compiler c = {.device = outputs[0]->graph->device, .memory = &memory};
    c.reference = options && options->reference;
    c.no_fusion = options && options->no_fusion;
    c.for_eval = mode == WR_COMPILE_EVAL;
    c.n_threads = wr_pool_threads(c.device->pool);
    if (c.device->backend->runtime) c.traits = c.device->backend->runtime->traits(c.device->context);
    weir_status status;
    WR_TRY_GOTO(status, wr_draft_steps(&c, outputs, n_outputs, err), done);
    WR_TRY_GOTO(status, wr_fuse(&c, err), done);
    WR_TRY_GOTO(status, wr_choose_kernels(&c, err), done);
    WR_TRY_GOTO(status, wr_schedule(&c, err), done);
    if (c.for_eval) place_outputs(&c);
    WR_TRY_GOTO(status, wr_plan_arena(&c, err), done);
    if (arena_bytes) *arena_bytes = c.arena_bytes;
    if (mode != WR_COMPILE_PLAN) {
        WR_TRY_GOTO(status, build(&c, options, out, err), done);
        atomic_fetch_add_explicit(&n_built, 1, memory_order_relaxed);
        if (wr_trace_enabled()) wr_trace_program(*out);
    }
done:
    wr_arena_deinit(&memory);
    return status;
}

weir_status wr_program_new(weir_array *const *outputs, int n_outputs, const wr_program_options *options,
                           wr_program **out, weir_error *err) {
    *out = NULL;
    return wr_compile(outputs, n_outputs, options, WR_COMPILE_PROGRAM, out, NULL, err);
}

weir_status wr_program_plan(weir_array *const *outputs, int n_outputs, const wr_program_options *options,
                            size_t *arena_bytes, weir_error *err) {
    return wr_compile(outputs, n_outputs, options, WR_COMPILE_PLAN, NULL, arena_bytes, err);
}
