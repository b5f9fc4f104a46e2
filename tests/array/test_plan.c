/* The program compiler: order, barriers, memory, common subexpressions, views, prepare steps, state. */
#include "array_test.h"

/* ---- an independent evaluation of a graph, node by node in order of creation ---- */

typedef struct interpreted {
    unsigned char *data; /* contiguous; state: the caller's live copy */
    bool is_state;
} interpreted;

static int64_t source_index(const weir_array *node, int64_t index) {
    const weir_array *x = node->in[0];
    int64_t at[WR_MAX_DIMS] = {0}, from[WR_MAX_DIMS] = {0}, flat = 0;
    if (node->op == WR_OP_RESHAPE) return index;
    for (int d = node->n_dims - 1; d >= 0; d--) {
        at[d] = index % node->shape[d];
        index /= node->shape[d];
    }
    for (int d = 0; d < node->n_dims; d++) {
        if (node->op == WR_OP_TRANSPOSE) from[((const wr_shape_args *)node->args)->dims[d]] = at[d];
        if (node->op == WR_OP_SLICE) {
            const wr_slice_args *s = node->args;
            from[d] = s->start[d] + s->step[d] * at[d];
        }
        int own = d - (node->n_dims - x->n_dims);
        if (node->op == WR_OP_BROADCAST && own >= 0) from[own] = x->shape[own] == 1 ? 0 : at[d];
    }
    for (int d = 0; d < x->n_dims; d++) flat = flat * x->shape[d] + from[d];
    return flat;
}

static uint64_t hash_contiguous(const weir_array *a, const unsigned char *data) {
    wr_tensor t = {.data = (void *)(uintptr_t)data, .dtype = a->dtype, .n_dims = a->n_dims};
    memcpy(t.shape, a->shape, sizeof t.shape);
    wr_contiguous_strides(a->n_dims, a->shape, t.strides);
    return hash_tensor(&t);
}

static void interpret(weir_array **nodes, int n, interpreted *values) {
    for (int i = 0; i < n; i++) {
        weir_array *node = nodes[i];
        interpreted *v = &values[node->index];
        size_t size = weir_dtype_bytes(node->dtype);
        int64_t count = wr_n_elements(node->n_dims, node->shape);
        if (node->op == WR_OP_DATA) {
            v->data = malloc((size_t)count * size + 1);
            memcpy(v->data, (char *)node->buffer->data + node->offset * (int64_t)size, (size_t)count * size);
            continue;
        }
        const interpreted *base = node->n_in ? &values[node->in[0]->index] : NULL;
        uint64_t in[WR_MAX_INPUTS];
        for (int k = 0; k < node->n_in; k++) in[k] = hash_contiguous(node->in[k], values[node->in[k]->index].data);
        bool inplace = wr_ops[node->op].flags & WR_INPLACE, view = wr_ops[node->op].flags & WR_VIEW;
        v->is_state = inplace;
        v->data = inplace ? base->data : malloc((size_t)count * size + 1);
        for (int64_t e = 0; e < count; e++) {
            uint64_t bits = 0;
            if (view || node->op == WR_OP_COPY || inplace)
                memcpy(&bits, base->data + (view ? source_index(node, e) : e) * (int64_t)size, size);
            if (!view) bits = fake_element(node->op, in, node->n_in, e, bits);
            memcpy(v->data + e * (int64_t)size, &bits, size);
        }
    }
}

/* ---- random graphs ---- */

enum { MAX_NODES = 96 };

typedef struct random_graph {
    weir_graph *g;
    weir_array *nodes[MAX_NODES];
    int n;
    wr_buffer *state;
    unsigned char *state_start;
} random_graph;

static weir_array *any(random_graph *r, uint64_t *seed) { return r->nodes[random_below(seed, (uint32_t)r->n)]; }

static weir_array *random_view(weir_array *x, uint64_t *seed) {
    int64_t start[WR_MAX_DIMS], stop[WR_MAX_DIMS], step[WR_MAX_DIMS];
    switch (random_below(seed, 4)) {
    case 0: return weir_transpose(x, NULL);
    case 1: return weir_reshape(x, 1, (int64_t[]){-1});
    case 2:
        if (x->n_dims < 3)
            return weir_broadcast(weir_reshape(x, 2, (int64_t[]){1, -1}), 2, (int64_t[]){3, weir_array_size(x)});
        return weir_reshape(x, 2, (int64_t[]){x->shape[0], -1});
    default:
        for (int d = 0; d < x->n_dims; d++) {
            start[d] = random_below(seed, (uint32_t)x->shape[d]);
            stop[d] = x->shape[d];
            step[d] = 1 + random_below(seed, 2);
            if (random_below(seed, 2)) {
                start[d] = x->shape[d] - 1;
                stop[d] = INT64_MIN / 2; /* clamped to before the first */
                step[d] = -step[d];
            }
        }
        return weir_slice(x, start, stop, step);
    }
}

static weir_array *same_shape_as(weir_array *x, random_graph *r) {
    for (int i = r->n - 1; i >= 0; i--) {
        weir_array *y = r->nodes[i];
        if (y != x && y->dtype == x->dtype && y->n_dims == x->n_dims &&
            !memcmp(x->shape, y->shape, (size_t)x->n_dims * sizeof *x->shape))
            return y;
    }
    return x;
}

static void make_random(random_graph *r, weir_device *device, uint64_t seed) {
    static const int64_t pages_shape[] = {2, 4, 2, 3};
    weir_error err;
    memset(r, 0, sizeof *r);
    r->g = new_graph(device);
    for (int i = 0; i < 3; i++) {
        float data[24];
        for (int k = 0; k < 24; k++) data[k] = (float)random_below(&seed, 1000);
        r->nodes[r->n++] = weir_from_data(r->g, WEIR_DTYPE_F32, DIMS(2, 3, 4), data);
    }
    assert_int_equal(wr_buffer_new(48 * 4, &r->state, &err), WEIR_OK);
    for (int k = 0; k < 48; k++) ((float *)r->state->data)[k] = (float)k;
    r->state_start = malloc(48 * 4);
    memcpy(r->state_start, r->state->data, 48 * 4);
    weir_array *pages = wr_leaf(r->g, WEIR_DTYPE_F32, 4, pages_shape, NULL, 0, r->state);
    weir_array *table = leaf(r->g, WEIR_DTYPE_I32, DIMS(1, 2)), *row = leaf(r->g, WEIR_DTYPE_I32, DIMS(2));
    weir_array *written = pages;
    while (r->n < 40) {
        weir_array *x = any(r, &seed), *made = NULL;
        if (weir_array_size(x) == 0 || weir_array_size(x) > 400) continue;
        switch (random_below(&seed, 9)) {
        case 0: made = weir_exp(x); break;
        case 1: made = weir_add(x, same_shape_as(x, r)); break;
        case 2: made = weir_sum(x, 1, (int[]){x->n_dims ? 0 : 0}, true); break;
        case 3:
        case 4: made = random_view(x, &seed); break;
        case 5: made = weir_concat((weir_array *[]){x, same_shape_as(x, r)}, 2, 0); break;
        case 6:
            if (x->n_dims < 2) continue;
            made = weir_matmul(x, weir_transpose(x, x->n_dims == 2 ? (int[]){1, 0} : (int[]){0, 2, 1}));
            break;
        case 7: /* write state, reading what has been computed; sometimes through the old name */
            if (weir_array_size(x) < 12) continue;
            x = weir_slice(weir_reshape(x, 1, (int64_t[]){-1}), (int64_t[]){0}, (int64_t[]){12}, NULL);
            written = wr_kv_write(written, weir_reshape(x, 3, (int64_t[]){2, 2, 3}), table, row, row, false);
            continue;
        default: /* read state through either name */
            if (weir_array_size(x) < 12) continue;
            x = weir_slice(weir_reshape(x, 1, (int64_t[]){-1}), (int64_t[]){0}, (int64_t[]){12}, NULL);
            made =
                wr_paged_attention(weir_reshape(x, 3, (int64_t[]){2, 2, 3}), random_below(&seed, 2) ? pages : written,
                                   written, table, row, row, NULL, NULL, &(wr_attention_args){.scale = 1});
            break;
        }
        if (made->poisoned) fail_msg("%s", r->g->error.message);
        if (made->n_dims >= 1 && made->n_dims <= 3) r->nodes[r->n++] = made;
    }
}

static void free_random(random_graph *r) {
    weir_graph_free(r->g);
    wr_buffer_release(r->state);
    free(r->state_start);
}

/* Every node in order of creation: what the interpreter walks. */
static int all_nodes(weir_array *const *outputs, int n_outputs, weir_array **nodes) {
    wr_arena memory;
    weir_array **found;
    int n;
    weir_error err;
    wr_arena_init(&memory, 1 << 24);
    assert_int_equal(wr_collect(outputs, n_outputs, &memory, &found, &n, &err), WEIR_OK);
    assert_true(n <= 1024);
    memcpy(nodes, found, (size_t)n * sizeof *found);
    wr_arena_deinit(&memory);
    return n;
}

typedef struct range {
    const char *begin, *end;
} range;

static range tensor_range(const wr_tensor *t) {
    int64_t low = 0, high = 1, size = (int64_t)weir_dtype_bytes(t->dtype);
    if (wr_n_elements(t->n_dims, t->shape) == 0) return (range){NULL, NULL};
    for (int d = 0; d < t->n_dims; d++) {
        int64_t span = (t->shape[d] - 1) * t->strides[d];
        if (span < 0)
            low += span;
        else
            high += span;
    }
    return (range){(char *)t->data + low * size, (char *)t->data + high * size};
}

static bool overlap(range a, range b) { return a.begin < b.end && b.begin < a.end; }

static bool is_prepare_step(const wr_step *s) { return s->kernel == fake_prepare; }

static int written_ranges(const wr_step *s, int n_threads, range *out) {
    int n = 0;
    if (!is_prepare_step(s)) out[n++] = tensor_range(&s->out);
    if (s->scratch)
        out[n++] =
            (range){s->scratch, (char *)s->scratch + (is_prepare_step(s) ? 8 : fake_scratch_bytes(s, n_threads))};
    return n;
}

static int read_ranges(const wr_step *s, range *out) {
    int n = 0;
    for (int i = 0; i < (is_prepare_step(s) ? 1 : s->n_in); i++) out[n++] = tensor_range(&s->in[i]);
    if (s->prepared) out[n++] = (range){s->prepared, (const char *)s->prepared + 8};
    return n;
}

/* Steps that no wait separates must not touch what another of them writes, unless thread 0 does both in order. */
static void check_hazards(const wr_program *p, int n_threads) {
    int n = wr_program_n_steps(p);
    for (int i = 0; i < n; i++) {
        bool ordered = false;
        for (int j = i + 1; j < n && !wr_program_step(p, j)->sync; j++) {
            const wr_step *a = wr_program_step(p, i), *b = wr_program_step(p, j);
            ordered |= b->barrier;
            if (ordered && a->solo && b->solo) continue;
            range wa[2], wb[2], ra[WR_MAX_INPUTS + 1], rb[WR_MAX_INPUTS + 1];
            int nwa = written_ranges(a, n_threads, wa), nwb = written_ranges(b, n_threads, wb);
            int nra = read_ranges(a, ra), nrb = read_ranges(b, rb);
            for (int x = 0; x < nwa; x++) {
                for (int y = 0; y < nwb; y++) assert_false(overlap(wa[x], wb[y]));
                for (int y = 0; y < nrb; y++) assert_false(overlap(wa[x], rb[y]));
            }
            for (int x = 0; x < nra; x++)
                for (int y = 0; y < nwb; y++) assert_false(overlap(ra[x], wb[y]));
        }
    }
}

static void random_graphs_give_what_node_by_node_evaluation_gives(void **state) {
    (void)state;
    for (int threads = 1; threads <= 3; threads += 2) {
        weir_device *device = open_fake(&fake_backend, threads);
        for (uint64_t seed = 1; seed <= 60; seed++) {
            random_graph r;
            make_random(&r, device, seed * 7919);
            weir_array *outputs[5], *nodes[1024];
            uint64_t pick = seed;
            for (int i = 0; i < 5; i++) outputs[i] = r.nodes[r.n - 1 - (int)random_below(&pick, 20)];
            wr_program *p = compile(outputs, 5, NULL);
            int n_nodes = all_nodes(outputs, 5, nodes);
            interpreted *values = calloc(r.g->n_nodes, sizeof *values);
            interpret(nodes, n_nodes, values);
            check_hazards(p, threads);
            weir_error err;
            for (int run = 0; run < 2; run++) { /* a program runs again from the same state */
                memcpy(r.state->data, r.state_start, 48 * 4);
                assert_int_equal(wr_program_run(p, &err), WEIR_OK);
                for (int i = 0; i < 5; i++) {
                    const wr_tensor *t = wr_program_output(p, i);
                    size_t bytes = (size_t)weir_array_size(outputs[i]) * weir_dtype_bytes(t->dtype);
                    assert_true(wr_is_contiguous(t->n_dims, t->shape, t->strides));
                    if (bytes) assert_memory_equal(t->data, values[outputs[i]->index].data, bytes);
                }
            }
            for (int i = 0; i < n_nodes; i++)
                if (!values[nodes[i]->index].is_state) free(values[nodes[i]->index].data);
            free(values);
            wr_program_free(p);
            free_random(&r);
        }
        weir_device_close(device);
    }
}

/* ---- single properties ---- */

static weir_device *device;
static weir_graph *g;

static int setup(void **state) {
    (void)state;
    device = open_fake(&fake_backend, 2);
    g = new_graph(device);
    return 0;
}
static int teardown(void **state) {
    (void)state;
    weir_graph_free(g);
    weir_device_close(device);
    return 0;
}

static void equal_subexpressions_are_computed_once(void **state) {
    (void)state;
    weir_array *x = leaf(g, WEIR_DTYPE_F32, DIMS(4, 4));
    weir_array *a = weir_exp(weir_transpose(x, NULL)), *b = weir_exp(weir_transpose(x, NULL));
    wr_program *p = compile((weir_array *[]){weir_mul(a, b), weir_exp(x)}, 2, NULL);
    assert_int_equal(count_op(p, WR_OP_EXP), 2);
    assert_int_equal(wr_program_n_steps(p), 3);
    wr_program_free(p);
}

static void views_take_no_step_unless_strides_cannot_say_them(void **state) {
    (void)state;
    weir_array *x = leaf(g, WEIR_DTYPE_F32, DIMS(4, 6));
    weir_array *t = weir_transpose(x, NULL);
    wr_program *p = compile(
        (weir_array *[]){weir_exp(weir_slice(t, (int64_t[]){5, 0}, (int64_t[]){0, 4}, (int64_t[]){-2, 1}))}, 1, NULL);
    assert_int_equal(wr_program_n_steps(p), 1);
    const wr_tensor *in = &wr_program_step(p, 0)->in[0];
    assert_int_equal(in->strides[0], -2);
    assert_int_equal(in->strides[1], 6);
    assert_ptr_equal(in->data, (char *)weir_array_data(x) + 5 * 4);
    wr_program_free(p);
    p = compile((weir_array *[]){weir_exp(weir_reshape(t, 1, (int64_t[]){24}))}, 1, NULL);
    assert_int_equal(count_op(p, WR_OP_COPY), 1);
    wr_program_free(p);
    /* Splitting an axis of a transposed array needs no copy. */
    p = compile((weir_array *[]){weir_exp(weir_reshape(t, 3, (int64_t[]){2, 3, 4}))}, 1, NULL);
    assert_int_equal(count_op(p, WR_OP_COPY), 0);
    wr_program_free(p);
}

static void kernels_that_take_no_strides_get_one_shared_copy(void **state) {
    (void)state;
    weir_array *x = weir_transpose(leaf(g, WEIR_DTYPE_F32, DIMS(4, 6)), NULL);
    wr_program *p =
        compile((weir_array *[]){weir_rms_norm(x, NULL, 1e-5f), weir_layer_norm(x, NULL, NULL, 1e-5f)}, 2, NULL);
    assert_int_equal(count_op(p, WR_OP_COPY), 1);
    assert_int_equal(wr_program_n_steps(p), 3);
    wr_program_free(p);
}

static void independent_steps_have_no_barrier_between(void **state) {
    (void)state;
    weir_array *x = leaf(g, WEIR_DTYPE_F32, DIMS(8, 8));
    weir_array *h = weir_exp(x);
    wr_program *p = compile((weir_array *[]){weir_add(weir_sqrt(h), weir_neg(h)), weir_sin(x), weir_cos(x)}, 3, NULL);
    /* exp, sin, cos | sqrt, neg | add */
    assert_int_equal(wr_program_n_steps(p), 6);
    assert_int_equal(count_barriers(p), 2);
    wr_program_free(p);
}

static void steps_move_forward_only_a_little(void **state) {
    (void)state;
    /* 200 independent pairs big -> small: run in order they need the memory of a few, not of all. */
    enum { N = 200, SIZE = 1 << 16 };
    weir_array *sum = NULL;
    for (int i = 0; i < N; i++) {
        weir_array *big = weir_random_uniform(g, DIMS(SIZE), (uint64_t)i, 0);
        weir_array *small = weir_sum(big, 0, NULL, true);
        sum = sum ? weir_add(sum, small) : small;
    }
    size_t bytes;
    weir_error err;
    assert_int_equal(wr_program_plan(&sum, 1, NULL, &bytes, &err), WEIR_OK);
    assert_true(bytes < 20 * (size_t)SIZE * 4);
}

static void memory_of_a_chain_is_two_buffers(void **state) {
    (void)state;
    weir_array *x = leaf(g, WEIR_DTYPE_F32, DIMS(1024));
    for (int i = 0; i < 50; i++) x = weir_exp(x);
    wr_program *p = compile(&x, 1, NULL);
    assert_int_equal(wr_program_arena_bytes(p), 2 * 4096);
    wr_program_free(p);
}

static void one_prepare_step_serves_all_readers_of_an_input(void **state) {
    (void)state;
    weir_array *x = leaf(g, WEIR_DTYPE_F32, DIMS(4, 4)), *h = weir_exp(x);
    weir_array *q = weir_matmul(h, x), *k = weir_matmul(h, weir_transpose(x, NULL)), *v = weir_matmul(x, h);
    wr_program *p = compile((weir_array *[]){q, k, v}, 3, NULL);
    int prepares = 0, readers_of_h = 0;
    const void *result = NULL;
    for (int i = 0; i < wr_program_n_steps(p); i++) {
        const wr_step *s = wr_program_step(p, i);
        if (is_prepare_step(s)) prepares++;
        if (s->op == WR_OP_EXP) result = s->out.data;
    }
    const void *prepared = NULL;
    for (int i = 0; i < wr_program_n_steps(p); i++) {
        const wr_step *s = wr_program_step(p, i);
        if (is_prepare_step(s) || s->op != WR_OP_MATMUL || s->in[0].data != result) continue;
        readers_of_h++;
        if (prepared) assert_ptr_equal(s->prepared, prepared);
        prepared = s->prepared;
    }
    assert_int_equal(prepares, 2);
    assert_int_equal(readers_of_h, 2);
    wr_program_free(p);
}

/* Products and maxima have kernels that prepare both of their inputs. */
static const wr_kernel_row *kernels_of_both(wr_op_id op) {
    static const wr_kernel_row rows[] = {{.name = "fake_both",
                                          .run = fake_run,
                                          .prepare = fake_prepare,
                                          .prepare_inputs = 1u << 0 | 1u << 1,
                                          .prepare_bytes = fake_prepare_bytes},
                                         {0}};
    return op == WR_OP_MATMUL || op == WR_OP_MAXIMUM ? rows : fake_kernels(op);
}

static void a_prepare_step_of_two_inputs_serves_readers_of_both(void **state) {
    (void)state;
    static const wr_backend backend = {.name = "fake", .kernels = kernels_of_both};
    weir_device *own = open_fake(&backend, 1);
    weir_graph *graph = new_graph(own);
    weir_array *x = leaf(graph, WEIR_DTYPE_F32, DIMS(4, 4)), *h = weir_exp(x), *k = weir_sin(x);
    wr_program *p = compile((weir_array *[]){weir_matmul(h, x), weir_maximum(h, x), weir_matmul(h, k)}, 3, NULL);
    int prepares = 0;
    const void *of_matmul[2] = {NULL}, *of_maximum = NULL;
    for (int i = 0, n = 0; i < wr_program_n_steps(p); i++) {
        const wr_step *s = wr_program_step(p, i);
        if (is_prepare_step(s))
            prepares++;
        else if (s->op == WR_OP_MATMUL && n < 2)
            of_matmul[n++] = s->prepared;
        else if (s->op == WR_OP_MAXIMUM)
            of_maximum = s->prepared;
    }
    assert_int_equal(prepares, 2);
    assert_true(of_maximum && (of_maximum == of_matmul[0]) != (of_maximum == of_matmul[1]));
    /* What it reads comes before it: all steps have the values of their inputs. */
    weir_error err;
    assert_int_equal(wr_program_run(p, &err), WEIR_OK);
    wr_program_free(p);
    weir_graph_free(graph);
    weir_device_close(own);
}

static void reference_option_takes_the_last_row(void **state) {
    (void)state;
    weir_array *x = leaf(g, WEIR_DTYPE_F32, DIMS(4, 4)), *y = weir_matmul(x, x);
    wr_program *p = compile(&y, 1, &(wr_program_options){.reference = true});
    assert_int_equal(wr_program_n_steps(p), 1);
    assert_string_equal(wr_program_step(p, 0)->variant, "fake");
    wr_program_free(p);
}

static void an_arena_that_is_too_small_is_refused_with_both_numbers(void **state) {
    (void)state;
    weir_array *x = weir_exp(leaf(g, WEIR_DTYPE_F32, DIMS(1000)));
    _Alignas(64) static char arena[64];
    wr_program *p = NULL;
    weir_error err;
    wr_program_options options = {.arena = arena, .arena_bytes = sizeof arena};
    assert_int_equal(wr_program_new(&x, 1, &options, &p, &err), WEIR_E_LIMIT);
    assert_null(p);
    assert_non_null(strstr(err.message, "4032"));
    assert_non_null(strstr(err.message, "64"));
}

static void state_is_read_and_written_in_order_of_creation(void **state) {
    (void)state;
    wr_buffer *buffer;
    weir_error err;
    assert_int_equal(wr_buffer_new(48 * 4, &buffer, &err), WEIR_OK);
    weir_array *pages = wr_leaf(g, WEIR_DTYPE_F32, DIMS(2, 4, 2, 3), NULL, 0, buffer);
    weir_array *table = leaf(g, WEIR_DTYPE_I32, DIMS(1, 2)), *row = leaf(g, WEIR_DTYPE_I32, DIMS(2));
    weir_array *before = weir_exp(pages);
    weir_array *written = wr_kv_write(pages, leaf(g, WEIR_DTYPE_F32, DIMS(2, 2, 3)), table, row, row, false);
    weir_array *after_by_old_name = weir_exp(pages), *after = weir_exp(written);
    wr_program *p = compile((weir_array *[]){after, after_by_old_name, before, written}, 4, NULL);
    float start[48], expected[48];
    memcpy(start, buffer->data, sizeof start);
    wr_step fake = {
        .op = WR_OP_EXP,
        .n_in = 1,
        .in = &(wr_tensor){.data = start, .dtype = WEIR_DTYPE_F32, .n_dims = 1, .shape = {48}, .strides = {1}}};
    fake.out = *fake.in;
    fake.out.data = expected;
    fake_run(&fake, 0, 1);
    assert_int_equal(wr_program_run(p, &err), WEIR_OK);
    assert_memory_equal(wr_program_output(p, 2)->data, expected, sizeof expected);
    /* The write's result is the state itself, and both later readers saw it. */
    assert_ptr_equal(wr_program_output(p, 3)->data, buffer->data);
    assert_memory_not_equal(start, buffer->data, sizeof start);
    fake.in[0].data = buffer->data;
    fake_run(&fake, 0, 1);
    assert_memory_equal(wr_program_output(p, 0)->data, expected, sizeof expected);
    assert_memory_equal(wr_program_output(p, 1)->data, expected, sizeof expected);
    wr_program_free(p);
    wr_buffer_release(buffer);
}

static void writes_to_different_state_need_no_barrier(void **state) {
    (void)state;
    wr_buffer *buffer;
    weir_error err;
    assert_int_equal(wr_buffer_new(2 * 48 * 4, &buffer, &err), WEIR_OK);
    weir_array *k = wr_leaf(g, WEIR_DTYPE_F32, DIMS(2, 4, 2, 3), NULL, 0, buffer);
    weir_array *v = wr_leaf(g, WEIR_DTYPE_F32, DIMS(2, 4, 2, 3), NULL, 48, buffer);
    weir_array *table = leaf(g, WEIR_DTYPE_I32, DIMS(1, 2)), *row = leaf(g, WEIR_DTYPE_I32, DIMS(2));
    weir_array *x = leaf(g, WEIR_DTYPE_F32, DIMS(2, 2, 3));
    k = wr_kv_write(k, x, table, row, row, false);
    v = wr_kv_write(v, x, table, row, row, false);
    weir_array *y = wr_paged_attention(x, k, v, table, row, row, NULL, NULL, &(wr_attention_args){.scale = 1});
    wr_program *p = compile(&y, 1, NULL);
    assert_int_equal(wr_program_n_steps(p), 3);
    assert_int_equal(count_barriers(p), 1);
    assert_true(wr_program_step(p, 2)->barrier);
    wr_program_free(p);
    wr_buffer_release(buffer);
}

static void a_run_takes_no_heap(void **state) {
    (void)state;
    weir_array *x = leaf(g, WEIR_DTYPE_F32, DIMS(64, 64));
    for (int i = 0; i < 8; i++) x = weir_matmul(weir_exp(x), x);
    wr_program *p = compile(&x, 1, NULL);
    weir_error err;
    assert_int_equal(wr_program_run(p, &err), WEIR_OK);
    uint64_t before = wr_alloc_count();
    for (int i = 0; i < 3; i++) assert_int_equal(wr_program_run(p, &err), WEIR_OK);
    assert_true(wr_alloc_count() == before);
    wr_program_free(p);
}

static void a_program_takes_about_500_bytes_a_step(void **state) {
    (void)state;
    weir_array *x = leaf(g, WEIR_DTYPE_F32, DIMS(64, 64)), *y = x;
    for (int i = 0; i < 200; i++) y = i % 2 ? weir_add(y, x) : weir_rms_norm(y, NULL, 1e-5f);
    wr_program *p = compile(&y, 1, NULL);
    assert_int_equal(wr_program_n_steps(p), 200);
    assert_true(wr_program_own_bytes(p) < 200 * 512);
    wr_program_free(p);
}

static void a_program_outlives_its_graph(void **state) {
    (void)state;
    weir_graph *own = new_graph(device);
    weir_array *x = leaf(own, WEIR_DTYPE_F32, DIMS(16)), *y = weir_exp(x);
    wr_program *p = compile(&y, 1, NULL);
    weir_graph_free(own);
    weir_error err;
    assert_int_equal(wr_program_run(p, &err), WEIR_OK);
    wr_program_free(p);
}

static void planning_needs_no_memory_under_the_leaves(void **state) {
    (void)state;
    wr_buffer *none;
    weir_error err;
    size_t planned;
    assert_int_equal(wr_buffer_view(NULL, 4096, &none, &err), WEIR_OK);
    weir_array *y = weir_exp(weir_exp(wr_leaf(g, WEIR_DTYPE_F32, DIMS(1024), NULL, 0, none)));
    assert_int_equal(wr_program_plan(&y, 1, NULL, &planned, &err), WEIR_OK);
    assert_int_equal(planned, 2 * 4096);
    wr_buffer_release(none);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs_give_what_node_by_node_evaluation_gives),
        TEST(equal_subexpressions_are_computed_once),
        TEST(views_take_no_step_unless_strides_cannot_say_them),
        TEST(kernels_that_take_no_strides_get_one_shared_copy),
        TEST(independent_steps_have_no_barrier_between),
        TEST(steps_move_forward_only_a_little),
        TEST(memory_of_a_chain_is_two_buffers),
        TEST(one_prepare_step_serves_all_readers_of_an_input),
        TEST(a_prepare_step_of_two_inputs_serves_readers_of_both),
        TEST(reference_option_takes_the_last_row),
        TEST(an_arena_that_is_too_small_is_refused_with_both_numbers),
        TEST(state_is_read_and_written_in_order_of_creation),
        TEST(writes_to_different_state_need_no_barrier),
        TEST(a_run_takes_no_heap),
        TEST(a_program_takes_about_500_bytes_a_step),
        TEST(a_program_outlives_its_graph),
        TEST(planning_needs_no_memory_under_the_leaves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
