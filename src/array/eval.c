/* Evaluation of ad-hoc graphs: a structural key, a bounded cache of programs, results in buffers of their own.
 *
 * A program in use is out of the cache, so threads never share one; two that evaluate equal graphs at once compile
 * twice and both programs come to rest in the cache. Programs in it hold no buffers. Activations of the evaluations
 * of a device lie in one arena that grows as needed, those of each stream in one of its own: their work is in order, so
 * the next may use the memory again before the last is done. */
#include <pthread.h>
#include <string.h>

#include "array/compile.h"
#include "array/custom.h"
#include "array/stream.h"

/* Enough for the distinct steps of ad-hoc work; a program takes some 500 bytes a step. Larger ones are not kept. */
enum { N_ENTRIES = 64, KEEP_PROGRAM_BYTES = 4 << 20, KEEP_ARENA_BYTES = 64 << 20 };
static const size_t EVAL_CAP_BYTES = (size_t)1 << 30;

typedef struct entry {
    uint64_t hash, stamp;
    unsigned char *key;
    size_t key_bytes;
    wr_program *program; /* NULL: free place */
} entry;

struct wr_program_cache {
    pthread_mutex_t lock; /* entries */
    entry entries[N_ENTRIES];
    uint64_t clock;
    wr_eval_arena arena; /* of evaluations without a stream */
};

weir_status wr_device_open(const wr_backend *backend, int ordinal, int n_threads, weir_device **out, weir_error *err) {
    *out = NULL;
    weir_device *d = wr_calloc(1, sizeof *d);
    struct wr_program_cache *cache = wr_calloc(1, sizeof *cache);
    weir_status status = WEIR_OK;
    if (!d || !cache)
        status = WR_FAIL(err, WEIR_E_MEMORY, "no memory for a device");
    else
        status = wr_pool_open(n_threads, &d->pool, err);
    if (status == WEIR_OK && backend->runtime) status = backend->runtime->open(ordinal, &d->context, err);
    if (status != WEIR_OK) {
        if (d) wr_pool_close(d->pool);
        wr_free(d);
        wr_free(cache);
        return status;
    }
    pthread_mutex_init(&cache->lock, NULL);
    pthread_mutex_init(&cache->arena.lock, NULL);
    pthread_mutex_init(&d->kernels_lock, NULL);
    pthread_mutex_init(&d->streams_lock, NULL);
    d->backend = backend;
    d->cache = cache;
    *out = d;
    return WEIR_OK;
}

static void free_entry(entry *e) {
    wr_program_free(e->program);
    wr_free(e->key);
    e->program = NULL;
    e->key = NULL;
}

/* With its lock held, or alone. */
static size_t drop_arena(weir_device *device, wr_eval_arena *arena) {
    size_t bytes = arena->bytes;
    wr_device_free(device, arena->data, bytes);
    arena->data = NULL;
    arena->bytes = 0;
    return bytes;
}

static size_t try_drop(weir_device *device, wr_eval_arena *arena) {
    if (pthread_mutex_trylock(&arena->lock) != 0) return 0;
    size_t bytes = drop_arena(device, arena);
    pthread_mutex_unlock(&arena->lock);
    return bytes;
}

/* A lock may be this thread's own: an evaluation that finds no memory for its arena has freed the old one. */
bool wr_device_drop_arena(weir_device *device) {
    size_t bytes = try_drop(device, &device->cache->arena);
    pthread_mutex_lock(&device->streams_lock);
    for (weir_stream *s = device->streams; s; s = s->next) bytes += try_drop(device, &s->arena);
    pthread_mutex_unlock(&device->streams_lock);
    return bytes > 0;
}

weir_status weir_clear_cache(weir_device *device, size_t *bytes, weir_error *err) {
    if (bytes) *bytes = 0;
    if (!device) return WR_FAIL(err, WEIR_E_ARGUMENT, "weir_clear_cache: device is NULL");
    struct wr_program_cache *cache = device->cache;
    entry old[N_ENTRIES];
    pthread_mutex_lock(&cache->lock);
    memcpy(old, cache->entries, sizeof old);
    memset(cache->entries, 0, sizeof old);
    pthread_mutex_unlock(&cache->lock);
    for (int i = 0; i < N_ENTRIES; i++) free_entry(&old[i]);
    pthread_mutex_lock(&cache->arena.lock);
    size_t freed = drop_arena(device, &cache->arena);
    pthread_mutex_unlock(&cache->arena.lock);
    pthread_mutex_lock(&device->streams_lock);
    for (weir_stream *s = device->streams; s; s = s->next) freed += try_drop(device, &s->arena);
    pthread_mutex_unlock(&device->streams_lock);
    if (device->backend->runtime) WR_TRY(device->backend->runtime->trim(device->context, &freed, err));
    if (bytes) *bytes = freed;
    return WEIR_OK;
}

void weir_device_close(weir_device *device) {
    if (!device) return;
    struct wr_program_cache *cache = device->cache;
    for (int i = 0; i < N_ENTRIES; i++) free_entry(&cache->entries[i]);
    drop_arena(device, &cache->arena);
    wr_device_unload_kernels(device);
    if (device->backend->runtime) device->backend->runtime->close(device->context);
    pthread_mutex_destroy(&cache->lock);
    pthread_mutex_destroy(&cache->arena.lock);
    pthread_mutex_destroy(&device->kernels_lock);
    pthread_mutex_destroy(&device->streams_lock);
    wr_free(cache);
    wr_pool_close(device->pool);
    wr_free(device);
}

/* ---- the key ---- */

typedef struct key {
    unsigned char *data;
    size_t bytes;
    uint64_t hash;
} key;

static void put(key *k, const void *data, size_t bytes) {
    if (bytes) memcpy(k->data + k->bytes, data, bytes);
    k->bytes += bytes;
}

static uint64_t hash_bytes(const unsigned char *data, size_t bytes) {
    uint64_t h = bytes, word;
    for (; bytes >= 8; data += 8, bytes -= 8) {
        memcpy(&word, data, 8);
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    word = 0;
    memcpy(&word, data, bytes);
    h = (h ^ word) * 0xbf58476d1ce4e5b9u;
    return h ^ h >> 32;
}

static weir_status make_key(weir_array *const *nodes, int n_nodes, const int32_t *slots, weir_array *const *outputs,
                            int n_outputs, bool reference, wr_arena *memory, key *k, weir_error *err) {
    size_t most = 16 + 8 * (size_t)n_outputs;
    for (int i = 0; i < n_nodes; i++)
        most += 32 + 16 * WR_MAX_DIMS + 4 * (size_t)nodes[i]->n_in + wr_ops[nodes[i]->op].args_bytes;
    k->bytes = 0;
    k->data = wr_arena_alloc(memory, most);
    if (!k->data) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for evaluating %d nodes", n_nodes);
    int32_t head[2] = {n_nodes, reference};
    put(k, head, sizeof head);
    for (int i = 0; i < n_nodes; i++) {
        const weir_array *node = nodes[i];
        bool leaf = node->buffer != NULL;
        uint8_t kind[4] = {(uint8_t)(leaf ? WR_OP_DATA : node->op), (uint8_t)node->dtype, (uint8_t)node->n_dims,
                           (uint8_t)(leaf ? 0 : node->n_in)};
        size_t dims = (size_t)node->n_dims * sizeof *node->shape;
        put(k, kind, sizeof kind);
        put(k, node->shape, dims);
        if (leaf) {
            put(k, &slots[i], sizeof slots[i]);
            put(k, &node->offset, sizeof node->offset);
            put(k, node->strides, dims);
            continue;
        }
        for (int j = 0; j < node->n_in; j++) put(k, &node->in[j]->slot, sizeof node->in[j]->slot);
        put(k, node->args, wr_ops[node->op].args_bytes);
    }
    for (int i = 0; i < n_outputs; i++) put(k, &outputs[i]->slot, sizeof outputs[i]->slot);
    k->hash = hash_bytes(k->data, k->bytes);
    return WEIR_OK;
}

/* ---- the cache ---- */

static wr_program *take_out(struct wr_program_cache *cache, const key *k) {
    wr_program *found = NULL;
    pthread_mutex_lock(&cache->lock);
    for (int i = 0; i < N_ENTRIES && !found; i++) {
        entry *e = &cache->entries[i];
        if (!e->program || e->hash != k->hash || e->key_bytes != k->bytes || memcmp(e->key, k->data, k->bytes))
            continue;
        found = e->program;
        e->program = NULL;
        wr_free(e->key);
        e->key = NULL;
    }
    pthread_mutex_unlock(&cache->lock);
    return found;
}

/* Never fails: without memory for the key the program is dropped. */
static void put_in(struct wr_program_cache *cache, const key *k, wr_program *program) {
    entry old = {.program = program};
    if (program->own_bytes + k->bytes <= KEEP_PROGRAM_BYTES) {
        unsigned char *copy = wr_malloc(k->bytes);
        if (copy) {
            memcpy(copy, k->data, k->bytes);
            pthread_mutex_lock(&cache->lock);
            entry *to = &cache->entries[0];
            for (int i = 1; i < N_ENTRIES && to->program; i++) {
                entry *e = &cache->entries[i];
                if (!e->program || e->stamp < to->stamp) to = e;
            }
            old = *to;
            *to = (entry){
                .hash = k->hash, .stamp = ++cache->clock, .key = copy, .key_bytes = k->bytes, .program = program};
            pthread_mutex_unlock(&cache->lock);
        }
    }
    free_entry(&old);
}

/* ---- evaluation ---- */

/* With the arena's lock held. */
static weir_status grow_arena(weir_device *device, weir_stream *stream, wr_eval_arena *arena, size_t bytes,
                              weir_error *err) {
    if (bytes <= arena->bytes) return WEIR_OK;
    drop_arena(device, arena);
    weir_status status = stream && stream->handle ? wr_stream_alloc(stream, bytes, &arena->data, err)
                                                  : wr_device_alloc(device, bytes, &arena->data, err);
    if (status == WEIR_OK)
        arena->bytes = bytes;
    else
        wr_err_context(err, "intermediate results of an evaluation");
    return status;
}

static weir_status run_bound(weir_device *device, weir_stream *stream, wr_program *program, void **bases,
                             weir_error *err) {
    wr_eval_arena *arena = stream ? &stream->arena : &device->cache->arena;
    weir_status status = WEIR_OK;
    pthread_mutex_lock(&arena->lock);
    if (stream && stream->closed) status = WR_FAIL(err, WEIR_E_STATE, "weir_eval_async: the stream was closed");
    if (status == WEIR_OK) status = grow_arena(device, stream, arena, program->arena_bytes, err);
    if (status == WEIR_OK) {
        bases[0] = arena->data;
        wr_program_bind(program, program->bindings, bases);
        if (stream && stream->handle)
            status = wr_stream_run(stream, program->steps, program->n_steps, err);
        else
            status = wr_program_run(program, err);
    }
    if (arena->bytes > KEEP_ARENA_BYTES && wr_device_is_host(device)) drop_arena(device, arena);
    pthread_mutex_unlock(&arena->lock);
    return status;
}

/* Buffers for the results, the run, and the arrays take their data. */
static weir_status run_program(weir_device *device, weir_stream *stream, wr_program *program, wr_buffer **leaves,
                               weir_array **arrays, int n, wr_arena *memory, weir_error *err) {
    int first = 1 + program->n_leaves, n_new = program->n_output_buffers, made = 0;
    void **bases = wr_arena_alloc(memory, (size_t)(first + n_new) * sizeof *bases);
    wr_buffer **fresh = wr_arena_alloc(memory, (size_t)n_new * sizeof *fresh);
    weir_status status = WEIR_OK;
    if (!bases || !fresh) status = WR_FAIL(err, WEIR_E_MEMORY, "no memory for evaluating");
    for (int i = 0; i < program->n_leaves && status == WEIR_OK; i++) {
        bases[1 + i] = leaves[i]->data;
        if (leaves[i]->writer) status = wr_stream_join(leaves[i]->writer, stream, err);
    }
    while (made < n_new && status == WEIR_OK) {
        size_t bytes = program->output_bytes[made];
        status = stream ? wr_buffer_new_in(stream, bytes, &fresh[made], err)
                        : wr_buffer_new_on(device, bytes, &fresh[made], err);
        if (status == WEIR_OK) {
            bases[first + made] = fresh[made]->data;
            made++;
        }
    }
    if (status == WEIR_OK) status = run_bound(device, stream, program, bases, err);
    for (int i = 0; i < n && status == WEIR_OK; i++) {
        int32_t base = program->output_base[i];
        wr_buffer *buffer = base >= first ? fresh[base - first] : leaves[base - 1];
        /* Retained before the old buffer goes, which may be the same. */
        wr_set_buffer(arrays[i], wr_buffer_retain(buffer), program->output_offset[i]);
        wr_contiguous_strides(arrays[i]->n_dims, arrays[i]->shape, arrays[i]->strides);
    }
    for (int i = 0; i < made; i++) wr_buffer_release(fresh[i]);
    return status;
}

static weir_status check(weir_array *const *arrays, int n, weir_error *err) {
    if (n < 0 || (n > 0 && !arrays)) return WR_FAIL(err, WEIR_E_ARGUMENT, "weir_eval: %d arrays", n);
    for (int i = 0; i < n; i++) {
        const weir_array *a = arrays[i];
        if (!a) return WR_FAIL(err, WEIR_E_ARGUMENT, "weir_eval: array %d is NULL", i);
        if (a->poisoned && (!a->graph || a->graph->error.status == WEIR_OK))
            return WR_FAIL(err, WEIR_E_ARGUMENT, "weir_eval: array %d was made of NULL arrays", i);
        if (a->poisoned) return weir_graph_error(a->graph, err);
        if (a->graph != arrays[0]->graph)
            return WR_FAIL(err, WEIR_E_ARGUMENT, "weir_eval: array %d belongs to another graph than array 0", i);
    }
    return WEIR_OK;
}

static weir_status eval(weir_array *const *arrays, int n, weir_stream *stream, bool reference, weir_error *err) {
    WR_TRY(check(arrays, n, err));
    if (stream && n > 0 && arrays[0]->graph->device != stream->device)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "weir_eval_async: arrays and stream are of different devices");
    wr_arena memory;
    wr_arena_init(&memory, EVAL_CAP_BYTES);
    weir_status status = WEIR_OK;
    weir_array **todo = NULL, **nodes;
    wr_buffer **leaves;
    int32_t *slots;
    int n_todo = 0, n_nodes, n_leaves;
    wr_program *program = NULL;
    for (int i = 0; i < n; i++) {
        weir_array *a = arrays[i];
        if (a->buffer && wr_is_contiguous(a->n_dims, a->shape, a->strides)) {
            if (!stream) WR_TRY_GOTO(status, wr_buffer_settle(a->buffer, err), done);
            continue;
        }
        if (!todo && !(todo = wr_arena_alloc(&memory, (size_t)n * sizeof *todo))) {
            status = WR_FAIL(err, WEIR_E_MEMORY, "no memory for evaluating");
            goto done;
        }
        todo[n_todo++] = a;
    }
    if (n_todo == 0) goto done;
    weir_device *device = todo[0]->graph->device;
    key k;
    WR_TRY_GOTO(status, wr_collect(todo, n_todo, &memory, &nodes, &n_nodes, err), done);
    WR_TRY_GOTO(status, wr_collect_leaves(nodes, n_nodes, &memory, &leaves, &n_leaves, &slots, err), done);
    WR_TRY_GOTO(status, make_key(nodes, n_nodes, slots, todo, n_todo, reference, &memory, &k, err), done);
    program = take_out(device->cache, &k);
    if (!program) {
        wr_program_options options = {.reference = reference, .no_fusion = reference};
        WR_TRY_GOTO(status, wr_compile(todo, n_todo, &options, WR_COMPILE_EVAL, &program, NULL, err), done);
    }
    status = run_program(device, stream, program, leaves, todo, n_todo, &memory, err);
    put_in(device->cache, &k, program);
done:
    wr_arena_deinit(&memory);
    return status;
}

weir_status weir_eval(weir_array *const *arrays, int n, weir_error *err) { return eval(arrays, n, NULL, false, err); }
weir_status weir_eval_reference(weir_array *const *arrays, int n, weir_error *err) {
    return eval(arrays, n, NULL, true, err);
}
weir_status weir_eval_async(weir_array *const *arrays, int n, weir_stream *stream, weir_error *err) {
    if (!stream) return WR_FAIL(err, WEIR_E_ARGUMENT, "weir_eval_async: the stream is NULL");
    return eval(arrays, n, stream, false, err);
}
