/* Expressions at work. */
#include <stdio.h>
#include <string.h>

#include "text/jinja/ast.h"
#include "text/jinja/iter.h"
#include "text/jinja/macro.h"
#include "text/jinja/show.h"

static wr_jval *slot(wr_jframe *frame, wr_jref ref) {
    for (uint32_t i = 0; i < ref.hops; i++) frame = frame->outer;
    return &frame->slots[ref.slot];
}

static bool eval_all(wr_jrun *run, const wr_jnodes *list, wr_jframe *frame, wr_jval *out) {
    for (uint32_t i = 0; i < list->n; i++)
        if (!wr_jeval(run, list->at[i], frame, &out[i])) return false;
    return true;
}

static bool eval_list(wr_jrun *run, const wr_jnode *node, wr_jframe *frame, wr_jval *out) {
    wr_jtype type = node->kind == WR_J_TUPLE_OF ? WR_J_TUPLE : WR_J_LIST;
    return wr_jlist_new(run, type, node->items.n, out) && eval_all(run, &node->items, frame, out->list->items);
}

static bool eval_dict(wr_jrun *run, const wr_jnode *node, wr_jframe *frame, wr_jval *out) {
    wr_jval key, value;
    if (!wr_jdict_new(run, out)) return false;
    for (uint32_t i = 0; i < node->items.n; i += 2)
        if (!wr_jeval(run, node->items.at[i], frame, &key) || !wr_jeval(run, node->items.at[i + 1], frame, &value) ||
            !wr_jdict_set(run, out->dict, key, value))
            return false;
    return true;
}

static bool eval_truth(wr_jrun *run, const wr_jnode *node, wr_jframe *frame, bool *out) {
    wr_jval v;
    return wr_jeval(run, node, frame, &v) && wr_jtruth(run, v, out);
}

static bool eval_condition(wr_jrun *run, const wr_jnode *node, wr_jframe *frame, wr_jval *out) {
    char hint[120];
    bool yes;
    if (!eval_truth(run, node->a, frame, &yes)) return false;
    if (yes) return wr_jeval(run, node->b, frame, out);
    if (node->c) return wr_jeval(run, node->c, frame, out);
    snprintf(hint, sizeof hint,
             "the inline if-expression on line %u evaluated to false and no else section was defined.", node->line);
    return wr_jundefined_hint(run, hint, out);
}

/* a < b == c: each neighbour pair, until one is false. */
static bool eval_compare(wr_jrun *run, const wr_jnode *node, wr_jframe *frame, wr_jval *out) {
    wr_jval left, right;
    bool is = true;
    if (!wr_jeval(run, node->a, frame, &left)) return false;
    for (uint32_t i = 0; is && i < node->items.n; i++, left = right) {
        const wr_jnode *part = node->items.at[i];
        if (!wr_jeval(run, part->a, frame, &right) || !wr_jrelation(run, (wr_jop)part->op, left, right, &is))
            return false;
    }
    *out = wr_jbool(is);
    return true;
}

/* a ~ b ~ c: their texts joined. The first one may grow where it lies. */
static bool eval_concat(wr_jrun *run, const wr_jnode *node, wr_jframe *frame, wr_jval *out) {
    wr_jval *parts = wr_jalloc_n(run, node->items.n, sizeof *parts);
    if (!parts || !eval_all(run, &node->items, frame, parts)) return false;
    for (uint32_t i = 0; i < node->items.n; i++)
        if (!wr_jstr_of(run, parts[i], &parts[i])) return false;
    *out = parts[0];
    for (uint32_t i = 1; i < node->items.n; i++)
        if (parts[i].s->bytes && !wr_jbinary(run, WR_J_ADD, *out, parts[i], out)) return false;
    return true;
}

/* What jinja2 computes before the template runs. */
static bool is_constant(const wr_jnode *node) {
    switch ((wr_jkind)node->kind) {
    case WR_J_CONST: return true;
    case WR_J_TUPLE_OF:
    case WR_J_LIST_OF:
    case WR_J_DICT_OF:
    case WR_J_OR:
    case WR_J_AND:
    case WR_J_NOT:
    case WR_J_BINARY:
    case WR_J_NEG:
    case WR_J_POS:
        for (uint32_t i = 0; i < node->items.n; i++)
            if (!is_constant(node->items.at[i])) return false;
        return (!node->a || is_constant(node->a)) && (!node->b || is_constant(node->b));
    default: return false;
    }
}

static bool eval_slice(wr_jrun *run, const wr_jnode *node, wr_jframe *frame, wr_jval *out) {
    wr_jval obj, at[3] = {{0}};
    if (!wr_jeval(run, node->a, frame, &obj)) return false;
    for (int i = 0; i < 3; i++)
        if (node->items.at[i] && !wr_jeval(run, node->items.at[i], frame, &at[i])) return false;
    /* A slice of constants is looked up like an item, and one that does not exist is undefined. */
    if (!wr_jis_str(obj) && !wr_jis_seq(obj) && obj.type != WR_J_RANGE && obj.type != WR_J_UNDEFINED &&
        is_constant(node->a)) {
        bool constant = true;
        for (int i = 0; i < 3; i++) constant = constant && (!node->items.at[i] || is_constant(node->items.at[i]));
        if (constant) return wr_jundefined_of(run, obj, (wr_jval){0}, out);
    }
    return wr_jslice(run, obj, at, out);
}

/* ---- calls ---- */

static bool splat_list(wr_jrun *run, const wr_jnode *node, wr_jframe *frame, wr_jval *rest) {
    wr_jval v;
    if (!wr_jeval(run, node, frame, &v)) return false;
    return wr_jiter_list(run, v, rest);
}

static bool splat_dict(wr_jrun *run, const wr_jnode *node, wr_jframe *frame, wr_jval *rest) {
    if (!wr_jeval(run, node, frame, rest)) return false;
    if (rest->type != WR_J_DICT)
        return WR_JERROR(run, "argument after ** must be a mapping, not %s", wr_jtype_name(*rest));
    for (size_t i = 0; i < rest->dict->n; i++)
        if (rest->dict->entries[i].key.type != WR_J_STR) return WR_JERROR(run, "keywords must be strings");
    return true;
}

bool wr_jarguments(wr_jrun *run, const wr_jnode *node, wr_jframe *frame, wr_jcall *call) {
    wr_jval more = {0}, named = {0};
    size_t n = node->items.n, n_kw = node->n_kwargs;
    *call = (wr_jcall){0};
    if (!n && !n_kw && !node->b && !node->c) return true;
    /* Evaluated as they stand; *args comes before the keywords in the call, as in Python. */
    wr_jval *args = wr_jalloc_n(run, n, sizeof *args);
    if (!args || !eval_all(run, &node->items, frame, args)) return false;
    if (node->b && !splat_list(run, node->b, frame, &more)) return false;
    wr_jkw *kw = wr_jalloc_n(run, n_kw, sizeof *kw);
    if (!kw) return false;
    for (size_t i = 0; i < n_kw; i++) {
        kw[i].name = (wr_jval){.type = WR_J_STR, .s = (wr_jstr *)node->kwargs[i].name};
        if (!wr_jeval(run, node->kwargs[i].value, frame, &kw[i].value)) return false;
    }
    if (node->c && !splat_dict(run, node->c, frame, &named)) return false;
    *call = (wr_jcall){.args = args, .n = n, .kw = kw, .n_kw = n_kw};
    if (node->b && more.list->n) {
        call->args = wr_jalloc_n(run, n + more.list->n, sizeof *args);
        if (!call->args) return false;
        if (n) memcpy(call->args, args, n * sizeof *args);
        memcpy(call->args + n, more.list->items, more.list->n * sizeof *args);
        call->n += more.list->n;
    }
    if (!node->c || !named.dict->n) return true;
    call->kw = wr_jalloc_n(run, n_kw + named.dict->n, sizeof *kw);
    if (!call->kw) return false;
    if (n_kw) memcpy(call->kw, kw, n_kw * sizeof *kw);
    for (size_t i = 0; i < named.dict->n; i++) {
        const wr_jentry *e = &named.dict->entries[i];
        for (size_t k = 0; k < n_kw; k++)
            if (wr_jstr_same(e->key.s, kw[k].name.s))
                return WR_JERROR(run, "got multiple values for keyword argument '%.*s'", (int)e->key.s->bytes,
                                 e->key.s->data);
        call->kw[call->n_kw++] = (wr_jkw){e->key, e->value};
    }
    return wr_jcharge(run, 8 * n_kw * named.dict->n);
}

static bool eval_call(wr_jrun *run, const wr_jnode *node, wr_jframe *frame, wr_jval *out) {
    wr_jval f;
    wr_jcall call;
    if (!wr_jeval(run, node->a, frame, &f) || !wr_jarguments(run, node, frame, &call)) return false;
    run->line = (int)node->line;
    return wr_jcall_value(run, f, &call, out);
}

/* A filter or a test of self. */
static bool apply(wr_jrun *run, const wr_jnode *node, wr_jframe *frame, wr_jval self, wr_jval *out) {
    wr_jcall call;
    if (!wr_jarguments(run, node, frame, &call)) return false;
    run->line = (int)node->line;
    if (!node->builtin)
        return WR_JERROR(run, "No %s named '%.*s' found.", node->kind == WR_J_FILTER ? "filter" : "test",
                         (int)(node->name->bytes < 80 ? node->name->bytes : 80), node->name->data);
    call.self = self;
    return wr_jbuiltin_call(run, node->builtin, &call, out);
}

bool wr_jfilter_chain(wr_jrun *run, const wr_jnode *node, wr_jframe *frame, wr_jval *text) {
    if (!wr_jenter(run)) return false;
    bool done = (!node->a || wr_jfilter_chain(run, node->a, frame, text)) && apply(run, node, frame, *text, text);
    wr_jleave(run);
    return done;
}

/* ---- all of them ---- */

static bool eval_deep(wr_jrun *run, const wr_jnode *node, wr_jframe *frame, wr_jval *out) {
    wr_jval a, b;
    bool yes;
    switch ((wr_jkind)node->kind) {
    case WR_J_TUPLE_OF:
    case WR_J_LIST_OF: return eval_list(run, node, frame, out);
    case WR_J_DICT_OF: return eval_dict(run, node, frame, out);
    case WR_J_COND: return eval_condition(run, node, frame, out);
    case WR_J_OR:
    case WR_J_AND:
        if (!wr_jeval(run, node->a, frame, out) || !wr_jtruth(run, *out, &yes)) return false;
        return yes == (node->kind == WR_J_OR) || wr_jeval(run, node->b, frame, out);
    case WR_J_NOT:
        if (!eval_truth(run, node->a, frame, &yes)) return false;
        *out = wr_jbool(!yes);
        return true;
    case WR_J_COMPARE: return eval_compare(run, node, frame, out);
    case WR_J_BINARY:
        if (!wr_jeval(run, node->a, frame, &a) || !wr_jeval(run, node->b, frame, &b)) return false;
        run->line = (int)node->line;
        return wr_jbinary(run, (wr_jop)node->op, a, b, out);
    case WR_J_CONCAT: return eval_concat(run, node, frame, out);
    case WR_J_NEG:
    case WR_J_POS: return wr_jeval(run, node->a, frame, &a) && wr_jnegate(run, a, node->kind == WR_J_NEG, out);
    case WR_J_GETATTR:
        if (!wr_jeval(run, node->a, frame, &a)) return false;
        run->line = (int)node->line;
        return wr_jgetattr(run, a, node->name, out);
    case WR_J_GETITEM:
        if (!wr_jeval(run, node->a, frame, &a) || !wr_jeval(run, node->b, frame, &b)) return false;
        run->line = (int)node->line;
        return wr_jgetitem(run, a, b, out);
    case WR_J_SLICE: return eval_slice(run, node, frame, out);
    case WR_J_CALL: return eval_call(run, node, frame, out);
    case WR_J_FILTER:
    case WR_J_TEST: return wr_jeval(run, node->a, frame, &a) && apply(run, node, frame, a, out);
    default: return WR_JERROR(run, "this is no expression");
    }
}

bool wr_jeval(wr_jrun *run, const wr_jnode *node, wr_jframe *frame, wr_jval *out) {
    if (node->kind == WR_J_CONST) {
        *out = node->value;
        return wr_jcharge(run, 0);
    }
    if (node->kind == WR_J_NAME) {
        *out = *slot(frame, node->ref);
        if (out->type == WR_J_MISSING) *out = node->value; /* undefined, by this name */
        return wr_jcharge(run, 0);
    }
    if (!wr_jcharge(run, 0) || !wr_jenter(run)) return false;
    bool done = eval_deep(run, node, frame, out);
    wr_jleave(run);
    return done;
}

/* ---- assignment ---- */

static bool unpack(wr_jrun *run, const wr_jnode *target, wr_jval v, wr_jframe *frame) {
    uint32_t n = target->items.n, i = 0;
    wr_jval *items = wr_jalloc_n(run, n, sizeof *items), item;
    wr_jiter *it;
    bool has = true;
    if (!items) return false;
    if (!wr_jiterable(v)) return WR_JERROR(run, "cannot unpack non-iterable %s object", wr_jtype_name(v));
    if (!wr_jiter_new(run, v, &it)) return false;
    for (;; i++) {
        if (!wr_jiter_next(run, it, &item, &has)) return false;
        if (!has || i == n) break;
        items[i] = item;
    }
    if (has) return WR_JERROR(run, "too many values to unpack (expected %u)", n);
    if (i < n) return WR_JERROR(run, "not enough values to unpack (expected %u, got %u)", n, i);
    for (i = 0; i < n; i++)
        if (!wr_jassign(run, target->items.at[i], items[i], frame)) return false;
    return true;
}

static bool assign_attribute(wr_jrun *run, const wr_jnode *target, wr_jval v, wr_jframe *frame) {
    wr_jval ns = *slot(frame, target->ref);
    if (ns.type != WR_J_NAMESPACE) return WR_JERROR(run, "cannot assign attribute on non-namespace object");
    return wr_jnamespace_check(run, target->value) && wr_jdict_set(run, ns.dict, target->value, v);
}

bool wr_jtarget_check(wr_jrun *run, const wr_jnode *target, wr_jframe *frame) {
    if (target->kind == WR_J_NSREF && slot(frame, target->ref)->type != WR_J_NAMESPACE)
        return WR_JERROR(run, "cannot assign attribute on non-namespace object");
    for (uint32_t i = 0; target->kind == WR_J_TUPLE_OF && i < target->items.n; i++)
        if (!wr_jtarget_check(run, target->items.at[i], frame)) return false;
    return true;
}

bool wr_jassign(wr_jrun *run, const wr_jnode *target, wr_jval v, wr_jframe *frame) {
    if (target->kind == WR_J_NAME) {
        *slot(frame, target->ref) = v;
        return true;
    }
    if (target->kind == WR_J_NSREF) return assign_attribute(run, target, v, frame);
    if (!wr_jenter(run)) return false;
    bool done = unpack(run, target, v, frame);
    wr_jleave(run);
    return done;
}

void wr_jscope_enter(wr_jrun *run, const wr_jscope *scope, wr_jframe *frame) {
    for (uint32_t i = 0; i < scope->n_loads; i++) {
        const wr_jload *load = &scope->loads[i];
        wr_jval *target = &frame->slots[load->target.slot];
        if (load->kind == WR_J_UNSET) {
            *target = (wr_jval){0};
        } else if (load->kind == WR_J_ALIAS) {
            *target = *slot(frame, load->from);
        } else {
            const wr_jdict *places[] = {run->exported, run->context};
            *target = (wr_jval){0};
            for (int k = 0; k < 2 && target->type == WR_J_MISSING; k++) {
                wr_jentry *e = places[k] ? wr_jdict_get(places[k], load->name->data, load->name->bytes) : NULL;
                if (e) *target = e->value;
            }
            if (target->type == WR_J_MISSING) {
                const wr_jbuiltin *global = wr_jglobal_find(load->name);
                if (global) *target = (wr_jval){.type = WR_J_FUNCTION, .function = global};
            }
        }
    }
}
