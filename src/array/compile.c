/* From the graph to steps: collects the reachable nodes, merges equal ones, resolves views into strides, inserts
 * contiguous copies. The order of steps is the order in which the nodes were made, which is what gives state its
 * order of reads and writes. */
#include "array/compile.h"

#include <string.h>

/* ---- collecting ---- */

/* glibc's qsort takes memory behind our back; this does not. */
static void sort_by_index(weir_array **a, int n) {
    for (int end = n, start = n / 2; end > 1;) {
        if (start > 0) {
            start--;
        } else {
            end--;
            weir_array *t = a[end];
            a[end] = a[0];
            a[0] = t;
        }
        for (int root = start, child; (child = 2 * root + 1) < end; root = child) {
            if (child + 1 < end && a[child]->index < a[child + 1]->index) child++;
            if (a[root]->index >= a[child]->index) break;
            weir_array *t = a[root];
            a[root] = a[child];
            a[child] = t;
        }
    }
}

static weir_status no_memory(weir_error *err) {
    return WR_FAIL(err, WEIR_E_MEMORY, "no memory for compiling a program");
}

weir_status wr_collect(weir_array *const *outputs, int n_outputs, wr_arena *memory, weir_array ***nodes, int *n_nodes,
                       weir_error *err) {
    weir_graph *graph = outputs[0]->graph;
    uint32_t mark = ++graph->mark;
    int n = 0, cap = 256;
    weir_array **list = wr_arena_alloc(memory, (size_t)cap * sizeof *list);
    if (!list) return no_memory(err);
    /* The list is its own queue: nodes behind `next` have not shown their inputs yet. */
    for (int i = 0, next = 0; i < n_outputs || next < n;) {
        int n_new = 1;
        weir_array *const *new_nodes;
        if (i < n_outputs) {
            new_nodes = &outputs[i++];
        } else {
            weir_array *node = list[next++];
            if (node->buffer) continue;
            new_nodes = node->in;
            n_new = node->n_in;
        }
        for (int k = 0; k < n_new; k++) {
            if (new_nodes[k]->mark == mark) continue;
            if (n == cap) {
                weir_array **more = wr_arena_alloc(memory, 2 * (size_t)cap * sizeof *list);
                if (!more) return no_memory(err);
                memcpy(more, list, (size_t)n * sizeof *list);
                list = more;
                cap *= 2;
            }
            new_nodes[k]->mark = mark;
            list[n++] = new_nodes[k];
        }
    }
    sort_by_index(list, n);
    for (int i = 0; i < n; i++) list[i]->slot = (uint32_t)i;
    *nodes = list;
    *n_nodes = n;
    return WEIR_OK;
}

static uint64_t mix(uint64_t h, uint64_t x) {
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

static size_t table_size(int n) {
    size_t size = 16;
    while (size < 2 * (size_t)n) size *= 2;
    return size;
}

weir_status wr_collect_leaves(weir_array *const *nodes, int n_nodes, wr_arena *memory, wr_buffer ***leaves,
                              int *n_leaves, int32_t **slots, weir_error *err) {
    size_t size = table_size(n_nodes);
    int32_t *table = wr_arena_alloc(memory, size * sizeof *table); /* place + 1 */
    *slots = wr_arena_alloc(memory, (size_t)n_nodes * sizeof **slots);
    *leaves = wr_arena_alloc(memory, (size_t)n_nodes * sizeof **leaves);
    if (!table || !*slots || !*leaves) return no_memory(err);
    *n_leaves = 0;
    for (int i = 0; i < n_nodes; i++) {
        wr_buffer *buffer = nodes[i]->buffer;
        (*slots)[i] = WR_NONE;
        if (!buffer) continue;
        size_t at = mix(1, (uintptr_t)buffer) & (size - 1);
        while (table[at] && (*leaves)[table[at] - 1] != buffer) at = (at + 1) & (size - 1);
        if (!table[at]) {
            (*leaves)[*n_leaves] = buffer;
            table[at] = ++*n_leaves;
        }
        (*slots)[i] = table[at] - 1;
    }
    return WEIR_OK;
}

/* ---- growing arrays ---- */

static bool grow(wr_arena *memory, void **array, int n, int *cap, size_t item) {
    if (n < *cap) return true;
    int more = *cap ? 2 * *cap : 64;
    void *p = wr_arena_alloc(memory, (size_t)more * item);
    if (!p) return false;
    if (n) memcpy(p, *array, (size_t)n * item);
    *array = p;
    *cap = more;
    return true;
}

int32_t wr_add_storage(wr_compiler *c, wr_place place, int64_t bytes) {
    if (!grow(c->memory, (void **)&c->storages, c->n_storages, &c->cap_storages, sizeof *c->storages)) return WR_NONE;
    c->storages[c->n_storages] = (wr_storage){
        .place = place, .slot = WR_NONE, .producer = WR_NONE, .first = INT32_MAX, .last = -1, .bytes = bytes};
    return c->n_storages++;
}

int32_t wr_add_value(wr_compiler *c, int32_t storage, weir_dtype dtype, const wr_layout *layout) {
    if (storage == WR_NONE || !grow(c->memory, (void **)&c->values, c->n_values, &c->cap_values, sizeof *c->values))
        return WR_NONE;
    c->values[c->n_values] = (wr_value){.storage = storage, .copy = WR_NONE, .dtype = dtype, .layout = *layout};
    return c->n_values++;
}

int32_t wr_add_draft(wr_compiler *c, wr_op_id op, int n_in, const int32_t *in, int32_t out, const void *args) {
    if (!grow(c->memory, (void **)&c->drafts, c->n_drafts, &c->cap_drafts, sizeof *c->drafts)) return WR_NONE;
    int32_t *inputs = wr_arena_alloc(c->memory, (size_t)n_in * sizeof *inputs);
    if (!inputs) return WR_NONE;
    for (int i = 0; i < n_in; i++) {
        inputs[i] = in[i];
        c->storages[c->values[in[i]].storage].n_uses++;
    }
    c->drafts[c->n_drafts] = (wr_draft){.op = op,
                                        .prepares = WR_NONE,
                                        .n_in = n_in,
                                        .in = inputs,
                                        .out = out,
                                        .args = args,
                                        .scratch = WR_NONE,
                                        .prepared = WR_NONE,
                                        .lender = WR_NONE,
                                        .epoch = WR_NONE};
    return c->n_drafts++;
}

/* ---- views ---- */

static bool reshape_layout(const wr_shape_args *args, const wr_layout *in, wr_layout *out) {
    out->n_dims = args->n;
    out->offset = in->offset;
    for (int i = 0; i < args->n; i++) out->shape[i] = args->dims[i];
    wr_contiguous_strides(args->n, args->dims, out->strides);
    if (wr_is_contiguous(in->n_dims, in->shape, in->strides)) return true;
    /* Drop axes of 1, then cover each run of input axes with a run of output axes of the same product; a run of
     * several input axes must be contiguous in itself. */
    int64_t shape[WR_MAX_DIMS], strides[WR_MAX_DIMS];
    int n = 0;
    for (int i = 0; i < in->n_dims; i++) {
        if (in->shape[i] == 1) continue;
        shape[n] = in->shape[i];
        strides[n++] = in->strides[i];
    }
    for (int i = 0, o = 0; i < n;) {
        int i_end = i + 1, o_begin = o;
        int64_t have = shape[i], want = 1;
        do {
            while (want < have && o < out->n_dims) want *= out->shape[o++];
            while (have < want && i_end < n) have *= shape[i_end++];
        } while (have != want && (o < out->n_dims || i_end < n));
        if (have != want) return false;
        for (int k = i; k < i_end - 1; k++)
            if (strides[k] != shape[k + 1] * strides[k + 1]) return false;
        int64_t step = strides[i_end - 1];
        for (int k = o - 1; k >= o_begin; k--) {
            out->strides[k] = step;
            step *= out->shape[k];
        }
        i = i_end;
    }
    return true;
}

bool wr_view_layout(const weir_array *node, const wr_layout *in, wr_layout *out) {
    memset(out, 0, sizeof *out);
    out->n_dims = node->n_dims;
    out->offset = in->offset;
    memcpy(out->shape, node->shape, sizeof out->shape);
    switch (node->op) {
    case WR_OP_SLICE: {
        const wr_slice_args *args = node->args;
        for (int i = 0; i < in->n_dims; i++) {
            out->strides[i] = in->strides[i] * args->step[i];
            out->offset += in->strides[i] * args->start[i];
        }
        return true;
    }
    case WR_OP_TRANSPOSE: {
        const wr_shape_args *args = node->args;
        for (int i = 0; i < in->n_dims; i++) out->strides[i] = in->strides[args->dims[i]];
        return true;
    }
    case WR_OP_BROADCAST: {
        int added = node->n_dims - in->n_dims;
        for (int i = 0; i < in->n_dims; i++)
            out->strides[added + i] = in->shape[i] == node->shape[added + i] ? in->strides[i] : 0;
        return true;
    }
    case WR_OP_RESHAPE: return reshape_layout(node->args, in, out);
    default: return false;
    }
}

/* ---- steps ---- */

static bool layout_contiguous(const wr_layout *l) { return wr_is_contiguous(l->n_dims, l->shape, l->strides); }

static int32_t new_result(wr_compiler *c, weir_dtype dtype, int n_dims, const int64_t *shape) {
    wr_layout layout;
    memset(&layout, 0, sizeof layout);
    layout.n_dims = n_dims;
    for (int i = 0; i < n_dims; i++) layout.shape[i] = shape[i];
    wr_contiguous_strides(n_dims, shape, layout.strides);
    int64_t bytes = wr_n_elements(n_dims, shape) * (int64_t)weir_dtype_bytes(dtype);
    return wr_add_value(c, wr_add_storage(c, WR_IN_ARENA, bytes), dtype, &layout);
}

/* A copy of state holds only where it is made: it is not shared. */
static int32_t copied(wr_compiler *c, int32_t v) {
    bool state = c->storages[c->values[v].storage].written;
    if (!state && c->values[v].copy != WR_NONE) return c->values[v].copy;
    wr_layout layout = c->values[v].layout;
    int32_t out = new_result(c, c->values[v].dtype, layout.n_dims, layout.shape);
    if (out == WR_NONE || wr_n_elements(layout.n_dims, layout.shape) == 0) return out;
    int32_t draft = wr_add_draft(c, WR_OP_COPY, 1, &v, out, NULL);
    if (draft == WR_NONE) return WR_NONE;
    c->storages[c->values[out].storage].producer = draft;
    c->values[v].copy = out;
    return out;
}

static int32_t contiguous(wr_compiler *c, int32_t v) {
    return layout_contiguous(&c->values[v].layout) ? v : copied(c, v);
}

/* An evaluated array must not hold on to a large result of which it is a small part. */
static int32_t output_value(wr_compiler *c, int32_t v) {
    const wr_value *value = &c->values[v];
    const wr_storage *storage = &c->storages[value->storage];
    int64_t bytes = wr_n_elements(value->layout.n_dims, value->layout.shape) * (int64_t)weir_dtype_bytes(value->dtype);
    if (c->for_eval && storage->place == WR_IN_ARENA && bytes != storage->bytes) return copied(c, v);
    return contiguous(c, v);
}

static uint64_t hash_node(const weir_array *node) {
    uint64_t h = mix(mix((uint64_t)node->op, (uint64_t)node->dtype), (uint64_t)node->n_dims);
    for (int i = 0; i < node->n_dims; i++) h = mix(h, (uint64_t)node->shape[i]);
    if (node->buffer) return mix(mix(h, (uintptr_t)node->buffer), (uint64_t)node->offset);
    for (int i = 0; i < node->n_in; i++) h = mix(h, node->in[i]->slot);
    const unsigned char *args = node->args;
    for (size_t i = 0; i < wr_ops[node->op].args_bytes; i++) h = h * 0x100000001b3u ^ args[i];
    return mix(h, 0);
}

/* Same result, judged by the values (slots) of the inputs. */
static bool same_node(const weir_array *a, const weir_array *b) {
    size_t dims = (size_t)a->n_dims * sizeof *a->shape;
    if (a->dtype != b->dtype || a->n_dims != b->n_dims || memcmp(a->shape, b->shape, dims)) return false;
    if (a->buffer || b->buffer)
        return a->buffer == b->buffer && a->offset == b->offset && !memcmp(a->strides, b->strides, dims);
    if (a->op != b->op || a->n_in != b->n_in) return false;
    for (int i = 0; i < a->n_in; i++)
        if (a->in[i]->slot != b->in[i]->slot) return false;
    size_t bytes = wr_ops[a->op].args_bytes;
    return bytes == 0 || !memcmp(a->args, b->args, bytes);
}

/* Two equal ops on state are not equal when a write lies between them. */
static bool may_merge(const wr_compiler *c, const weir_array *node) {
    if (node->buffer) return true;
    unsigned flags = wr_ops[node->op].flags;
    if (flags & WR_INPLACE) return false;
    if (flags & WR_VIEW) return true;
    for (int i = 0; i < node->n_in; i++)
        if (c->storages[c->values[node->in[i]->slot].storage].written) return false;
    return true;
}

static int32_t leaf_value(wr_compiler *c, const weir_array *node, int32_t slot) {
    wr_layout layout;
    memset(&layout, 0, sizeof layout);
    layout.n_dims = node->n_dims;
    layout.offset = node->offset;
    memcpy(layout.shape, node->shape, sizeof layout.shape);
    memcpy(layout.strides, node->strides, sizeof layout.strides);
    return wr_add_value(c, slot, node->dtype, &layout); /* storage i is leaf i */
}

static int32_t node_value(wr_compiler *c, const weir_array *node) {
    const wr_op_info *info = &wr_ops[node->op];
    int32_t in[WR_MAX_INPUTS];
    for (int i = 0; i < node->n_in; i++) in[i] = (int32_t)node->in[i]->slot;
    if (info->flags & WR_VIEW) {
        wr_layout layout;
        if (!wr_view_layout(node, &c->values[in[0]].layout, &layout)) {
            in[0] = contiguous(c, in[0]);
            if (in[0] == WR_NONE) return WR_NONE;
            wr_view_layout(node, &c->values[in[0]].layout, &layout);
        }
        return wr_add_value(c, c->values[in[0]].storage, c->values[in[0]].dtype, &layout);
    }
    if (node->op == WR_OP_COPY && layout_contiguous(&c->values[in[0]].layout) &&
        !c->storages[c->values[in[0]].storage].written)
        return in[0];
    for (int i = 0; i < node->n_in && !(info->flags & (WR_STRIDED | WR_EW)); i++) {
        in[i] = contiguous(c, in[i]);
        if (in[i] == WR_NONE) return WR_NONE;
    }
    int32_t out;
    if (info->flags & WR_INPLACE) {
        wr_layout layout = c->values[in[0]].layout;
        out = wr_add_value(c, c->values[in[0]].storage, node->dtype, &layout);
    } else {
        out = new_result(c, node->dtype, node->n_dims, node->shape);
    }
    if (out == WR_NONE) return WR_NONE;
    if (wr_n_elements(node->n_dims, node->shape) == 0) return out; /* nothing to compute */
    int32_t draft = wr_add_draft(c, node->op, node->n_in, in, out, node->args);
    if (draft == WR_NONE) return WR_NONE;
    if (!(info->flags & WR_INPLACE)) c->storages[c->values[out].storage].producer = draft;
    return out;
}

static void mark_leaf(wr_compiler *c, const int32_t *slots, const weir_array *node) {
    while (!node->buffer && wr_ops[node->op].flags & WR_INPLACE) node = node->in[0];
    if (node->buffer) c->storages[slots[node->slot]].written = true;
}
/* Leaves that an INPLACE op of this program writes. */
static void mark_state(wr_compiler *c, const int32_t *slots) {
    for (int i = 0; i < c->n_nodes; i++) {
        const weir_array *node = c->nodes[i];
        if (node->buffer) continue;
        if (wr_ops[node->op].flags & WR_INPLACE) mark_leaf(c, slots, node);
        if (wr_ops[node->op].flags & WR_INPLACE_TWO) mark_leaf(c, slots, node->in[1]);
    }
}

weir_status wr_draft_steps(wr_compiler *c, weir_array *const *outputs, int n_outputs, weir_error *err) {
    int32_t *slots;
    WR_TRY(wr_collect(outputs, n_outputs, c->memory, &c->nodes, &c->n_nodes, err));
    WR_TRY(wr_collect_leaves(c->nodes, c->n_nodes, c->memory, &c->leaves, &c->n_leaves, &slots, err));
    for (int i = 0; i < c->n_leaves; i++) {
        int32_t s = wr_add_storage(c, WR_IN_LEAF, (int64_t)c->leaves[i]->bytes);
        if (s == WR_NONE) return no_memory(err);
        c->storages[s].slot = i;
    }
    mark_state(c, slots);

    size_t size = table_size(c->n_nodes);
    weir_array **table = wr_arena_alloc(c->memory, size * sizeof *table);
    if (!table) return no_memory(err);
    for (int i = 0; i < c->n_nodes; i++) {
        weir_array *node = c->nodes[i];
        /* Inputs have smaller indices: their slots are values already. */
        size_t at = hash_node(node) & (size - 1);
        bool merge = may_merge(c, node);
        while (merge && table[at] && !same_node(table[at], node)) at = (at + 1) & (size - 1);
        if (merge && table[at]) {
            node->slot = table[at]->slot;
            continue;
        }
        if (merge) table[at] = node;
        int32_t value = node->buffer ? leaf_value(c, node, slots[i]) : node_value(c, node);
        if (value == WR_NONE) return no_memory(err);
        node->slot = (uint32_t)value;
    }

    c->outputs = wr_arena_alloc(c->memory, (size_t)n_outputs * sizeof *c->outputs);
    if (!c->outputs) return no_memory(err);
    c->n_outputs = n_outputs;
    for (int i = 0; i < n_outputs; i++) {
        int32_t v = output_value(c, (int32_t)outputs[i]->slot);
        if (v == WR_NONE) return no_memory(err);
        c->outputs[i] = v;
        c->storages[c->values[v].storage].output = true;
        c->storages[c->values[v].storage].n_uses++;
    }
    return WEIR_OK;
}
