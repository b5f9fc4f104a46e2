/* Element-wise fusion. Each element-wise draft starts as a program of one instruction over its operands and absorbs
 * the producers of its inputs when nobody else reads them. Each instruction keeps its own dtype and rounding, so the
 * result has the bits of the unfused steps. */
#include <string.h>

#include "array/compile.h"

/* Operands below FROM_CODE name inputs of the group, the others instruction (operand - FROM_CODE). */
enum { FROM_CODE = 128 };

typedef struct wr_group {
    int n, n_in;
    int32_t in[WR_MAX_INPUTS];   /* values */
    int32_t refs[WR_MAX_INPUTS]; /* operands of the original drafts that name the input */
    struct {
        uint8_t op, dtype, n_in, in[3];
    } code[WR_FUSED_MAX];
} wr_group;

static void start(const wr_compiler *c, const wr_draft *d, wr_group *g) {
    memset(g, 0, sizeof *g);
    g->n = 1;
    g->code[0].op = (uint8_t)d->op;
    g->code[0].dtype = (uint8_t)c->values[d->out].dtype;
    g->code[0].n_in = (uint8_t)d->n_in;
    for (int i = 0; i < d->n_in; i++) {
        int k = 0;
        while (k < g->n_in && g->in[k] != d->in[i]) k++;
        if (k == g->n_in) g->in[g->n_in++] = d->in[i];
        g->refs[k]++;
        g->code[0].in[i] = (uint8_t)k;
    }
}

/* The draft that makes input k of the group if it may be absorbed. */
static wr_draft *absorbable(const wr_compiler *c, const wr_group *g, int k) {
    const wr_value *value = &c->values[g->in[k]];
    const wr_storage *storage = &c->storages[value->storage];
    if (storage->place != WR_IN_ARENA || storage->producer == WR_NONE || storage->output) return NULL;
    wr_draft *p = &c->drafts[storage->producer];
    /* Only the result itself, not a view of it; and no reader outside the group. */
    if (!p->group || p->dead || p->out != g->in[k] || storage->n_uses != g->refs[k]) return NULL;
    if (p->group->n + g->n > WR_FUSED_MAX) return NULL;
    int added = 0;
    for (int i = 0; i < p->group->n_in; i++) {
        /* Reads of state stay where they were made. */
        if (c->storages[c->values[p->group->in[i]].storage].written) return NULL;
        int j = 0;
        while (j < g->n_in && g->in[j] != p->group->in[i]) j++;
        added += j == g->n_in;
    }
    return g->n_in - 1 + added <= WR_MAX_INPUTS ? p : NULL;
}

/* p's instructions go in front; input k becomes p's last one. */
static void absorb(wr_group *g, int k, const wr_group *p) {
    wr_group merged;
    uint8_t own[WR_MAX_INPUTS], others[WR_MAX_INPUTS];
    memset(&merged, 0, sizeof merged);
    for (int i = 0; i < g->n_in; i++) {
        if (i == k) {
            own[i] = (uint8_t)(FROM_CODE + p->n - 1);
            continue;
        }
        own[i] = (uint8_t)merged.n_in;
        merged.refs[merged.n_in] = g->refs[i];
        merged.in[merged.n_in++] = g->in[i];
    }
    for (int i = 0; i < p->n_in; i++) {
        int j = 0;
        while (j < merged.n_in && merged.in[j] != p->in[i]) j++;
        if (j == merged.n_in) merged.in[merged.n_in++] = p->in[i];
        merged.refs[j] += p->refs[i];
        others[i] = (uint8_t)j;
    }
    merged.n = p->n + g->n;
    for (int i = 0; i < merged.n; i++) {
        merged.code[i] = i < p->n ? p->code[i] : g->code[i - p->n];
        for (int o = 0; o < merged.code[i].n_in; o++) {
            uint8_t operand = merged.code[i].in[o];
            if (i < p->n)
                merged.code[i].in[o] = operand < FROM_CODE ? others[operand] : operand;
            else
                merged.code[i].in[o] = operand < FROM_CODE ? own[operand] : (uint8_t)(operand + p->n);
        }
    }
    *g = merged;
}

static weir_status finish(wr_compiler *c, wr_draft *d, weir_error *err) {
    const wr_group *g = d->group;
    wr_fused_args *args = wr_arena_alloc(c->memory, sizeof *args);
    int32_t *in = wr_arena_alloc(c->memory, (size_t)g->n_in * sizeof *in);
    if (!args || !in) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for compiling a program");
    args->n = g->n;
    for (int i = 0; i < g->n; i++) {
        args->code[i].op = g->code[i].op;
        args->code[i].dtype = g->code[i].dtype;
        for (int o = 0; o < g->code[i].n_in; o++) {
            uint8_t operand = g->code[i].in[o];
            args->code[i].in[o] = operand < FROM_CODE ? operand : (uint8_t)(operand - FROM_CODE + g->n_in);
        }
    }
    memcpy(in, g->in, (size_t)g->n_in * sizeof *in);
    d->op = WR_OP_FUSED;
    d->args = args;
    d->n_in = g->n_in;
    d->in = in;
    return WEIR_OK;
}

/* The draft of this op that makes the storage of `value`, when there is one reader of it. */
static wr_draft *only_made_for(const wr_compiler *c, int32_t value, wr_op_id op) {
    const wr_storage *storage = &c->storages[c->values[value].storage];
    if (storage->place != WR_IN_ARENA || storage->producer == WR_NONE || storage->output || storage->n_uses != 1)
        return NULL;
    wr_draft *p = &c->drafts[storage->producer];
    return p->op == op && !p->dead ? p : NULL;
}

/* ---- an add into the linear before it ---- */

static bool same_shape(const wr_layout *a, const wr_layout *b) {
    if (a->n_dims != b->n_dims) return false;
    for (int i = 0; i < a->n_dims; i++)
        if (a->shape[i] != b->shape[i]) return false;
    return true;
}
static bool same_layout(const wr_layout *a, const wr_layout *b) {
    return wr_is_contiguous(b->n_dims, b->shape, b->strides) && same_shape(a, b);
}

/* The linear whose result is input k of the add, when nobody else reads it. */
static wr_draft *linear_of(const wr_compiler *c, const wr_draft *add, int k) {
    const wr_value *value = &c->values[add->in[k]], *out = &c->values[add->out];
    wr_draft *p = only_made_for(c, add->in[k], WR_OP_LINEAR);
    /* The linear's own rounding must be the add's, so that the fused one only leaves a rounding out. */
    return p && p->n_in < 5 && value->dtype == out->dtype && same_layout(&out->layout, &value->layout) ? p : NULL;
}

static weir_status fuse_linear_adds(wr_compiler *c, weir_error *err) {
    for (int i = 0; i < c->n_drafts; i++) {
        wr_draft *add = &c->drafts[i], *linear = NULL;
        if (add->op != WR_OP_ADD || add->dead) continue;
        int other = 1;
        for (; other >= 0 && !linear; other--) linear = linear_of(c, add, 1 - other);
        other++;
        const wr_value *addend = &c->values[add->in[other]];
        if (!linear || addend->dtype != c->values[add->out].dtype || c->storages[addend->storage].written ||
            !same_layout(&c->values[add->out].layout, &addend->layout))
            continue;
        int32_t *in = wr_arena_alloc(c->memory, (size_t)(linear->n_in + 1) * sizeof *in);
        if (!in) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for compiling a program");
        in[0] = linear->in[0];
        in[1] = add->in[other];
        for (int k = 1; k < linear->n_in; k++) in[k + 1] = linear->in[k];
        add->op = WR_OP_LINEAR_ADD;
        add->args = linear->args;
        add->n_in = linear->n_in + 1;
        add->in = in;
        linear->dead = true;
    }
    return WEIR_OK;
}

/* ---- act(gate) * up into the linear before it ---- */

/* Is the value columns [first, first + shape's last) of a matrix with twice as many, with all other axes as they are?
 */
static bool is_half(const wr_value *v, int64_t first, weir_dtype dtype) {
    const wr_layout *l = &v->layout;
    int64_t width = l->n_dims ? l->shape[l->n_dims - 1] : 0, stride = 2 * width;
    if (v->dtype != dtype || l->offset != first || width == 0 || (width > 1 && l->strides[l->n_dims - 1] != 1))
        return false;
    for (int i = l->n_dims - 2; i >= 0; stride *= l->shape[i--])
        if (l->shape[i] != 1 && l->strides[i] != stride) return false;
    return true;
}

/* The draft that may become the product's whole: it makes the gate and the up half, which nobody else reads. */
static wr_draft *gated_linear(const wr_compiler *c, const wr_draft *mul, int k, wr_draft **act) {
    const wr_value *out = &c->values[mul->out], *up = &c->values[mul->in[1 - k]];
    *act = NULL;
    for (int i = 0; i < 2 && !*act; i++) *act = only_made_for(c, mul->in[k], i ? WR_OP_GELU_TANH : WR_OP_SILU);
    if (!*act || (*act)->out != mul->in[k] || c->values[(*act)->out].dtype != out->dtype) return NULL;
    const wr_value *gate = &c->values[(*act)->in[0]];
    const wr_storage *both = &c->storages[gate->storage];
    if (gate->storage != up->storage || both->place != WR_IN_ARENA || both->producer == WR_NONE || both->output ||
        both->n_uses != 2)
        return NULL;
    wr_draft *p = &c->drafts[both->producer];
    if (p->op != WR_OP_LINEAR || p->dead || c->storages[c->values[p->in[0]].storage].written) return NULL;
    const wr_linear_args *args = p->args;
    int64_t width = out->layout.n_dims ? out->layout.shape[out->layout.n_dims - 1] : 0;
    bool halves = args->rows == 2 * width && is_half(gate, 0, out->dtype) && is_half(up, width, out->dtype);
    return halves && same_shape(&out->layout, &gate->layout) && same_shape(&out->layout, &up->layout) ? p : NULL;
}

static weir_status fuse_gates(wr_compiler *c, weir_error *err) {
    for (int i = 0; i < c->n_drafts; i++) {
        wr_draft *mul = &c->drafts[i], *act, *linear = NULL;
        if (mul->op != WR_OP_MUL || mul->dead) continue;
        for (int k = 0; k < 2 && !linear; k++) linear = gated_linear(c, mul, k, &act);
        if (!linear) continue;
        wr_linear_args *args = wr_arena_alloc(c->memory, sizeof *args);
        if (!args) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for compiling a program");
        memcpy(args, linear->args, sizeof *args);
        args->gate = (int)act->op;
        wr_draft fused = *mul;
        fused.op = WR_OP_LINEAR_GATED;
        fused.args = args;
        fused.n_in = linear->n_in;
        fused.in = linear->in;
        bool taken;
        WR_TRY(wr_has_fast_row(c, &fused, &taken, err));
        if (!taken) continue;
        *mul = fused;
        linear->dead = act->dead = true;
    }
    return WEIR_OK;
}

/* ---- a norm into the linear that alone reads it ---- */

static weir_status fuse_norms(wr_compiler *c, weir_error *err) {
    for (int i = 0; i < c->n_drafts; i++) {
        wr_draft *d = &c->drafts[i];
        if ((d->op != WR_OP_LINEAR && d->op != WR_OP_LINEAR_GATED) || d->dead) continue;
        const wr_value *x = &c->values[d->in[0]];
        wr_draft *norm = only_made_for(c, d->in[0], WR_OP_RMS_NORM);
        if (!norm || norm->n_in != 2 || c->storages[c->values[norm->in[0]].storage].written ||
            !same_layout(&c->values[norm->out].layout, &x->layout) || x->layout.offset != 0 ||
            c->values[norm->in[1]].dtype != WEIR_DTYPE_F32)
            continue;
        /* Like all weights of a linear, it may be read before the steps in front of it have ended. */
        const wr_storage *weight = &c->storages[c->values[norm->in[1]].storage];
        if (weight->place != WR_IN_LEAF || weight->written) continue;
        const wr_norm_args *of = norm->args;
        wr_linear_args *args = wr_arena_alloc(c->memory, sizeof *args);
        int32_t *in = wr_arena_alloc(c->memory, (size_t)(d->n_in + 1) * sizeof *in);
        if (!args || !in) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for compiling a program");
        memcpy(args, d->args, sizeof *args);
        args->norm_dtype = x->dtype;
        args->norm_eps = of->eps;
        args->norm_offset = of->weight_offset;
        in[0] = norm->in[0];
        in[1] = norm->in[1];
        memcpy(in + 2, d->in + 1, (size_t)(d->n_in - 1) * sizeof *in);
        wr_draft fused = *d;
        fused.op = WR_OP_NORM_LINEAR;
        fused.args = args;
        fused.n_in = d->n_in + 1;
        fused.in = in;
        bool taken;
        WR_TRY(wr_has_fast_row(c, &fused, &taken, err));
        if (!taken) continue;
        *d = fused;
        norm->dead = true;
    }
    return WEIR_OK;
}

/* ---- rope into what reads its result ---- */

/* The rope whose result is `value`, when nobody else reads it and its columns lie together. */
static wr_draft *rope_of(const wr_compiler *c, int32_t value) {
    wr_draft *p = only_made_for(c, value, WR_OP_ROPE);
    if (!p || p->out != value) return NULL;
    const wr_value *x = &c->values[p->in[0]], *table = &c->values[p->in[1]];
    bool plain = wr_is_contiguous(table->layout.n_dims, table->layout.shape, table->layout.strides) &&
                 (x->layout.strides[2] == 1 || x->layout.shape[2] == 1);
    return plain && !c->storages[x->storage].written ? p : NULL;
}
static bool interleaved(const wr_draft *rope) { return ((const wr_rope_args *)rope->args)->interleaved; }

static weir_status rotate_queries(wr_compiler *c, wr_draft *d, weir_error *err) {
    wr_draft *rope = rope_of(c, d->in[0]);
    const wr_attention_args *old = d->args;
    if (!rope || old->has_rope) return WEIR_OK;
    int32_t *in = wr_arena_alloc(c->memory, (size_t)(d->n_in + 1) * sizeof *in);
    wr_attention_args *args = wr_arena_alloc(c->memory, sizeof *args);
    if (!in || !args) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for compiling a program");
    memcpy(args, old, sizeof *args);
    args->has_rope = true;
    args->interleaved = interleaved(rope);
    memcpy(in, d->in, (size_t)d->n_in * sizeof *in);
    in[0] = rope->in[0];
    in[d->n_in++] = rope->in[1];
    d->in = in;
    d->args = args;
    rope->dead = true;
    return WEIR_OK;
}

/* Two writes of the same rows into like pages, with nothing between them that touches the first one's. */
static bool are_pair(const wr_compiler *c, int first, int second) {
    const wr_draft *a = &c->drafts[first], *b = &c->drafts[second];
    const wr_value *pa = &c->values[a->in[0]], *pb = &c->values[b->in[0]];
    for (int i = 2; i < 5; i++)
        if (a->in[i] != b->in[i]) return false;
    if (pa->storage == pb->storage || pa->dtype != pb->dtype || memcmp(a->args, b->args, sizeof(wr_kv_args)) ||
        c->values[a->in[1]].dtype != c->values[b->in[1]].dtype)
        return false;
    for (int i = 0; i < 3; i++)
        if (pa->layout.shape[i] != pb->layout.shape[i]) return false;
    for (int k = first + 1; k < second; k++) {
        const wr_draft *d = &c->drafts[k];
        if (d->dead) continue;
        for (int i = 0; i <= d->n_in; i++)
            if (c->values[i < d->n_in ? d->in[i] : d->out].storage == pa->storage) return false;
    }
    return true;
}

/* Writes of keys, then of values, become one; with the rope of the keys. */
static weir_status join_writes(wr_compiler *c, int first, int second, weir_error *err) {
    wr_draft *keys = &c->drafts[first], *values = &c->drafts[second], *rope = rope_of(c, keys->in[1]);
    int32_t *in = wr_arena_alloc(c->memory, 8 * sizeof *in);
    wr_kv_args *args = wr_arena_alloc(c->memory, sizeof *args);
    if (!in || !args) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for compiling a program");
    memcpy(args, keys->args, sizeof *args);
    in[0] = keys->in[0];
    in[1] = values->in[0];
    in[2] = rope ? rope->in[0] : keys->in[1];
    in[3] = values->in[1];
    for (int i = 2; i < 5; i++) in[2 + i] = keys->in[i];
    values->op = WR_OP_KV_APPEND;
    values->out = keys->out;
    values->in = in;
    values->n_in = 7;
    values->args = args;
    keys->dead = true;
    if (!rope) return WEIR_OK;
    args->has_rope = true;
    args->interleaved = interleaved(rope);
    in[values->n_in++] = rope->in[1];
    rope->dead = true;
    return WEIR_OK;
}

static weir_status fuse_ropes(wr_compiler *c, weir_error *err) {
    for (int i = 0, write = WR_NONE; i < c->n_drafts; i++) {
        wr_draft *d = &c->drafts[i];
        if (d->dead) continue;
        if (d->op == WR_OP_PAGED_ATTENTION) WR_TRY(rotate_queries(c, d, err));
        if (d->op != WR_OP_KV_WRITE) continue;
        if (write != WR_NONE && are_pair(c, write, i)) {
            WR_TRY(join_writes(c, write, i, err));
            write = WR_NONE;
        } else {
            write = i;
        }
    }
    return WEIR_OK;
}

weir_status wr_fuse(wr_compiler *c, weir_error *err) {
    if (!c->no_fusion && c->device->backend->fuses_linear_add) WR_TRY(fuse_linear_adds(c, err));
    if (!c->no_fusion && !c->reference && c->device->backend->fuses_linear_gated) WR_TRY(fuse_gates(c, err));
    if (!c->no_fusion && !c->reference && c->device->backend->fuses_norm_linear) WR_TRY(fuse_norms(c, err));
    if (!c->no_fusion && c->device->backend->fuses_rope) WR_TRY(fuse_ropes(c, err));
    if (c->no_fusion || !c->device->backend->kernels(WR_OP_FUSED)) return WEIR_OK;
    for (int i = 0; i < c->n_drafts; i++) {
        wr_draft *d = &c->drafts[i];
        if (!(wr_ops[d->op].flags & WR_EW)) continue;
        d->group = wr_arena_alloc(c->memory, sizeof *d->group);
        if (!d->group) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for compiling a program");
        start(c, d, d->group);
        for (int k = 0; k < d->group->n_in; k++) {
            wr_draft *p = absorbable(c, d->group, k);
            if (!p) continue;
            absorb(d->group, k, p->group);
            p->dead = true;
            k = -1; /* the inputs are others now */
        }
    }
    for (int i = 0; i < c->n_drafts; i++)
        if (c->drafts[i].group && !c->drafts[i].dead && c->drafts[i].group->n > 1)
            WR_TRY(finish(c, &c->drafts[i], err));
    return WEIR_OK;
}
