/* Statements at work, macros and recursive loops among them. */
#include <string.h>

#include "text/jinja/ast.h"
#include "text/jinja/iter.h"
#include "text/jinja/macro.h"
#include "text/jinja/show.h"

/* When a scope is left its variables lose their values, as those that a macro may still see. */
static void leave(const wr_jscope *scope, wr_jframe *frame) {
    for (uint32_t i = 0; i < scope->n_slots; i++) frame->slots[scope->slots[i]] = (wr_jval){0};
}

static bool new_frame(wr_jrun *run, uint32_t n_slots, wr_jframe *outer, wr_jframe *out) {
    out->outer = outer;
    out->slots = wr_jalloc_n(run, n_slots, sizeof *out->slots);
    return out->slots != NULL;
}

/* Frames that a macro or a generator may outlive are in the heap. */
static wr_jframe *new_heap_frame(wr_jrun *run, uint32_t n_slots, wr_jframe *outer) {
    wr_jframe *frame = wr_jalloc(run, sizeof *frame);
    return frame && new_frame(run, n_slots, outer, frame) ? frame : NULL;
}

/* Run a body whose output becomes a text. */
static wr_jflow capture(wr_jrun *run, const wr_jnodes *body, wr_jframe *frame, wr_jval *text) {
    wr_jbuf buf = {0}, *before = run->out;
    run->out = &buf;
    wr_jflow flow = wr_jexec(run, body, frame);
    run->out = before;
    if (flow == WR_J_NEXT && !wr_jbuf_str(run, &buf, text)) return WR_J_FAILED;
    return flow;
}

/* What a call or filter block gives is joined as it is: it must be a text. */
static bool write_text(wr_jrun *run, wr_jval v) {
    if (v.type != WR_J_STR) return WR_JERROR(run, "expected str instance, %s found", wr_jtype_name(v));
    return wr_jbuf_add(run, run->out, v.s->data, v.s->bytes);
}

static wr_jflow flow_of(bool done) { return done ? WR_J_NEXT : WR_J_FAILED; }

static bool output(wr_jrun *run, const wr_jnode *node, wr_jframe *frame) {
    wr_jval v;
    for (uint32_t i = 0; i < node->items.n; i++) {
        const wr_jnode *item = node->items.at[i];
        if (item->kind == WR_J_DATA) {
            if (!wr_jbuf_add(run, run->out, item->value.s->data, item->value.s->bytes)) return false;
            continue;
        }
        run->line = (int)item->line;
        if (!wr_jeval(run, item, frame, &v) || !wr_jshow(run, v, run->out)) return false;
    }
    return true;
}

static wr_jflow exec_if(wr_jrun *run, const wr_jnode *node, wr_jframe *frame) {
    wr_jval v;
    bool yes;
    for (uint32_t i = 0;; i++) {
        const wr_jnode *part = i == 0 ? node : node->elifs.at[i - 1];
        run->line = (int)part->line;
        if (!wr_jeval(run, part->a, frame, &v) || !wr_jtruth(run, v, &yes)) return WR_J_FAILED;
        if (yes) return wr_jexec(run, &part->body, frame);
        if (i == node->elifs.n) return wr_jexec(run, &node->orelse, frame);
    }
}

/* ---- loops ---- */

/* The items of a loop with a test: a generator, so that the test sees what the body did. */
typedef struct tested_iter {
    wr_jiter base;
    wr_jiter *items;
    const wr_jnode *node;
    wr_jframe frame;
} tested_iter;

static bool tested_next(wr_jrun *run, wr_jiter *base, wr_jval *out, bool *has) {
    tested_iter *it = (tested_iter *)base;
    const wr_jtestloop *tested = it->node->tested;
    wr_jval v;
    bool yes = false;
    if (!base->started) {
        wr_jscope_enter(run, tested->scope, &it->frame);
        if (!wr_jiter_new(run, base->source, &it->items)) return false;
        base->started = true;
    }
    while (!yes) {
        if (!wr_jiter_next(run, it->items, out, has)) return false;
        if (!*has) return true;
        if (!wr_jassign(run, tested->target, *out, &it->frame) || !wr_jeval(run, it->node->c, &it->frame, &v) ||
            !wr_jtruth(run, v, &yes))
            return false;
    }
    return true;
}

static bool tested_items(wr_jrun *run, const wr_jnode *node, wr_jframe *outer, wr_jval *items) {
    tested_iter *it = wr_jiter_alloc(run, sizeof *it, "generator", tested_next, *items);
    if (!it || !new_frame(run, node->tested->n_slots, outer, &it->frame)) return false;
    it->node = node;
    *items = (wr_jval){.type = WR_J_ITER, .iter = &it->base};
    return true;
}

/* Walk items; the frame is the loop's. *none: no round came to its end, and then jinja2
 * takes the else part, also after break and continue. */
static wr_jflow walk(wr_jrun *run, const wr_jnode *node, wr_jval items, wr_jframe *frame, wr_jloop *loop, bool *none) {
    wr_jiter *it = NULL;
    wr_jval item;
    bool has;
    *none = true;
    if (!loop && !wr_jiter_new(run, items, &it)) return WR_J_FAILED;
    for (;;) {
        if (!(loop ? wr_jloop_next(run, loop, &item, &has) : wr_jiter_next(run, it, &item, &has))) return WR_J_FAILED;
        if (!has) return WR_J_NEXT;
        if (loop) frame->slots[node->ref.slot] = (wr_jval){.type = WR_J_LOOP, .loop = loop};
        if (!wr_jassign(run, node->a, item, frame)) return WR_J_FAILED;
        wr_jscope_enter(run, node->scope, frame);
        wr_jflow flow = wr_jexec(run, &node->body, frame);
        if (flow == WR_J_FAILED) return flow;
        if (flow == WR_J_LEAVE_LOOP) return WR_J_NEXT;
        if (flow == WR_J_NEXT) *none = false;
    }
}

/* The whole statement over these items, in the loop's own frame. */
static wr_jflow exec_items(wr_jrun *run, const wr_jnode *node, wr_jval items, wr_jframe *frame, wr_jloop *loop) {
    bool none;
    wr_jflow flow = walk(run, node, items, frame, loop, &none);
    if (flow == WR_J_FAILED) return flow;
    leave(node->scope, frame);
    if (!none || !node->orelse.n) return WR_J_NEXT;
    wr_jscope_enter(run, node->scope2, frame);
    flow = wr_jexec(run, &node->orelse, frame);
    if (flow == WR_J_NEXT) leave(node->scope2, frame);
    return flow;
}

/* One round of a recursive loop, whose output is a text. */
static bool recurse(wr_jrun *run, const wr_jnode *node, wr_jframe *outer, wr_jval items, int64_t depth0, wr_jval *out) {
    wr_jframe *frame = new_heap_frame(run, node->n_slots, outer);
    wr_jbuf buf = {0}, *before = run->out;
    wr_jloop *loop;
    if (!frame || (node->c && !tested_items(run, node, outer, &items)) || !wr_jloop_new(run, items, depth0, &loop))
        return false;
    loop->node = node;
    loop->outer = outer;
    run->out = &buf;
    wr_jflow flow = exec_items(run, node, items, frame, loop);
    run->out = before;
    return flow != WR_J_FAILED && wr_jbuf_str(run, &buf, out);
}

bool wr_jloop_recurse(wr_jrun *run, wr_jloop *loop, const wr_jcall *call, wr_jval *out) {
    if (call->n != 1 || call->n_kw) return WR_JERROR(run, "loop() takes one argument, what to iterate over");
    if (!loop->node) return WR_JERROR(run, "The loop must have the 'recursive' marker to be called recursively.");
    return recurse(run, loop->node, loop->outer, call->args[0], loop->depth0 + 1, out);
}

static wr_jflow exec_for(wr_jrun *run, const wr_jnode *node, wr_jframe *frame) {
    wr_jval items, text;
    wr_jloop *loop = NULL;
    if (!wr_jeval(run, node->b, frame, &items)) return WR_J_FAILED;
    run->line = (int)node->line;
    if (node->flag)
        return flow_of(recurse(run, node, frame, items, 0, &text) &&
                       wr_jbuf_add(run, run->out, text.s->data, text.s->bytes));
    if (node->c && !tested_items(run, node, frame, &items)) return WR_J_FAILED;
    if (node->loop && !wr_jloop_new(run, items, 0, &loop)) return WR_J_FAILED;
    return exec_items(run, node, items, frame, loop);
}

/* ---- macros ---- */

static bool define_macro(wr_jrun *run, const wr_jnode *node, wr_jframe *frame, wr_jval *out) {
    wr_jmacro *macro = wr_jalloc(run, sizeof *macro);
    if (!macro) return false;
    *macro = (wr_jmacro){.name = node->name, .node = node, .outer = frame};
    *out = (wr_jval){.type = WR_J_MACRO, .macro = macro};
    return true;
}

/* The value of a keyword, which is then used up; MISSING: none. */
static wr_jval take(wr_jkw *kw, size_t n, const wr_jstr *name) {
    for (size_t i = 0; i < n; i++) {
        wr_jval v = kw[i].value;
        if (v.type == WR_J_MISSING || !wr_jstr_same(kw[i].name.s, name)) continue;
        kw[i].value = (wr_jval){0};
        return v;
    }
    return (wr_jval){0};
}

/* Keywords that no parameter took. */
static bool rest_of_keywords(wr_jrun *run, const wr_jmacro *macro, const wr_jkw *kw, size_t n, wr_jframe *frame) {
    const wr_jspecials *s = macro->node->specials;
    wr_jval rest;
    const wr_jstr anonymous = {.data = "None", .bytes = 4}, *name = macro->name ? macro->name : &anonymous;
    if (s->kwargs && !wr_jdict_new(run, &rest)) return false;
    for (size_t i = 0; i < n; i++) {
        if (kw[i].value.type == WR_J_MISSING) continue;
        const wr_jstr *key = kw[i].name.s;
        if (!s->kwargs)
            return WR_JERROR(run, "macro '%.*s' takes no keyword argument '%.*s'", (int)name->bytes, name->data,
                             (int)(key->bytes < 80 ? key->bytes : 80), key->data);
        if (!wr_jdict_set(run, rest.dict, kw[i].name, kw[i].value)) return false;
    }
    if (s->kwargs) frame->slots[s->kwargs_ref.slot] = rest;
    return true;
}

/* Arguments to parameters, in the order of jinja2's Macro.__call__. */
static bool bind(wr_jrun *run, const wr_jmacro *macro, const wr_jcall *call, wr_jframe *frame) {
    const wr_jnode *node = macro->node;
    const wr_jspecials *s = node->specials;
    static const wr_jstr caller_name = {.data = "caller", .bytes = 6};
    size_t n = node->items.n, given = call->n < n ? call->n : n;
    wr_jkw *kw = wr_jalloc_n(run, call->n_kw, sizeof *kw);
    if (!kw) return false;
    if (call->n_kw) memcpy(kw, call->kw, call->n_kw * sizeof *kw);
    for (size_t i = 0; i < n; i++)
        frame->slots[node->items.at[i]->ref.slot] =
            i < given ? call->args[i] : take(kw, call->n_kw, node->items.at[i]->name);
    if (s->caller && s->explicit_caller < 0) {
        wr_jval caller = take(kw, call->n_kw, &caller_name);
        if (!wr_jgiven(caller)) {
            if (!wr_jundefined_hint(run, "No caller defined", &caller)) return false;
        }
        frame->slots[s->caller_ref.slot] = caller;
    }
    if (!rest_of_keywords(run, macro, kw, call->n_kw, frame)) return false;
    if (s->varargs) {
        wr_jval rest;
        if (!wr_jlist_new(run, WR_J_TUPLE, call->n - given, &rest)) return false;
        for (size_t i = given; i < call->n; i++) rest.list->items[i - given] = call->args[i];
        frame->slots[s->varargs_ref.slot] = rest;
        return true;
    }
    if (call->n <= n) return true;
    const wr_jstr anonymous = {.data = "None", .bytes = 4}, *name = macro->name ? macro->name : &anonymous;
    return WR_JERROR(run, "macro '%.*s' takes not more than %zu argument(s)", (int)name->bytes, name->data, n);
}

/* Parameters without a value get their default, in order. */
static bool fill_in(wr_jrun *run, const wr_jnode *node, wr_jframe *frame) {
    uint32_t n = node->items.n, first = n - node->defaults.n;
    for (uint32_t i = 0; i < n; i++) {
        const wr_jnode *parameter = node->items.at[i];
        wr_jval *v = &frame->slots[parameter->ref.slot], value;
        char hint[160];
        if (v->type != WR_J_MISSING) continue;
        if (i >= first) {
            if (!wr_jeval(run, node->defaults.at[i - first], frame, &value)) return false;
        } else {
            size_t shown = parameter->name->bytes < 100 ? parameter->name->bytes : 100;
            snprintf(hint, sizeof hint, "parameter '%.*s' was not provided", (int)shown, parameter->name->data);
            if (!wr_jundefined_hint(run, hint, &value)) return false;
        }
        *v = value;
    }
    return true;
}

bool wr_jmacro_call(wr_jrun *run, const wr_jmacro *macro, const wr_jcall *call, wr_jval *out) {
    const wr_jnode *node = macro->node;
    wr_jframe *frame = new_heap_frame(run, node->n_slots, macro->outer);
    if (!frame || !bind(run, macro, call, frame)) return false;
    wr_jscope_enter(run, node->scope, frame);
    return fill_in(run, node, frame) && capture(run, &node->body, frame, out) == WR_J_NEXT;
}

static bool exec_call_block(wr_jrun *run, const wr_jnode *node, wr_jframe *frame) {
    wr_jval caller, f, text;
    wr_jcall call;
    if (!define_macro(run, node, frame, &caller)) return false;
    if (!node->a) { /* {% generation %} */
        call = (wr_jcall){0};
        return wr_jcall_value(run, caller, &call, &text) && wr_jbuf_add(run, run->out, text.s->data, text.s->bytes);
    }
    if (!wr_jeval(run, node->a->a, frame, &f) || !wr_jarguments(run, node->a, frame, &call)) return false;
    wr_jkw *kw = wr_jalloc_n(run, call.n_kw + 1, sizeof *kw);
    wr_jval name;
    if (!kw || !wr_jstr_lit(run, "caller", &name)) return false;
    if (call.n_kw) memcpy(kw, call.kw, call.n_kw * sizeof *kw);
    kw[call.n_kw++] = (wr_jkw){name, caller};
    call.kw = kw;
    run->line = (int)node->line;
    return wr_jcall_value(run, f, &call, &text) && write_text(run, text);
}

/* ---- the rest ---- */

static bool export_names(wr_jrun *run, const wr_jnode *target, wr_jframe *frame) {
    if (target->kind == WR_J_NAME)
        return wr_jdict_set(run, run->exported, (wr_jval){.type = WR_J_STR, .s = target->name},
                            frame->slots[target->ref.slot]);
    for (uint32_t i = 0; target->kind == WR_J_TUPLE_OF && i < target->items.n; i++)
        if (!export_names(run, target->items.at[i], frame)) return false;
    return true;
}

static bool set(wr_jrun *run, const wr_jnode *node, wr_jval v, wr_jframe *frame) {
    run->line = (int)node->line;
    return wr_jassign(run, node->a, v, frame) &&
           (!run->exported || !node->toplevel || export_names(run, node->a, frame));
}

static wr_jflow exec_set_block(wr_jrun *run, const wr_jnode *node, wr_jframe *frame) {
    wr_jval text;
    wr_jscope_enter(run, node->scope, frame);
    wr_jflow flow = capture(run, &node->body, frame, &text);
    if (flow != WR_J_NEXT) return flow;
    if ((node->b && !wr_jfilter_chain(run, node->b, frame, &text)) || !set(run, node, text, frame)) return WR_J_FAILED;
    leave(node->scope, frame);
    return WR_J_NEXT;
}

static wr_jflow exec_filter_block(wr_jrun *run, const wr_jnode *node, wr_jframe *frame) {
    wr_jval text;
    wr_jscope_enter(run, node->scope, frame);
    wr_jflow flow = capture(run, &node->body, frame, &text);
    if (flow != WR_J_NEXT) return flow;
    if (!wr_jfilter_chain(run, node->a, frame, &text) || !write_text(run, text)) return WR_J_FAILED;
    leave(node->scope, frame);
    return WR_J_NEXT;
}

static wr_jflow exec_scope(wr_jrun *run, const wr_jnode *node, wr_jframe *frame) {
    wr_jval v;
    wr_jscope_enter(run, node->scope, frame);
    for (uint32_t i = 0; i < node->items.n; i++) /* of a with */
        if (!wr_jeval(run, node->defaults.at[i], frame, &v) || !wr_jassign(run, node->items.at[i], v, frame))
            return WR_J_FAILED;
    wr_jflow flow = wr_jexec(run, &node->body, frame);
    if (flow == WR_J_NEXT) leave(node->scope, frame);
    return flow;
}

static wr_jflow exec_block(wr_jrun *run, const wr_jnode *node) {
    wr_jframe *frame = new_heap_frame(run, node->n_slots, NULL);
    if (!frame) return WR_J_FAILED;
    wr_jscope_enter(run, node->scope, frame);
    return wr_jexec(run, &node->body, frame);
}

static wr_jflow exec_one(wr_jrun *run, const wr_jnode *node, wr_jframe *frame) {
    wr_jval v;
    switch ((wr_jkind)node->kind) {
    case WR_J_OUTPUT: return flow_of(output(run, node, frame));
    case WR_J_IF: return exec_if(run, node, frame);
    case WR_J_FOR: return exec_for(run, node, frame);
    case WR_J_SET:
        run->line = (int)node->line;
        return flow_of(wr_jtarget_check(run, node->a, frame) && wr_jeval(run, node->b, frame, &v) &&
                       set(run, node, v, frame));
    case WR_J_SETBLOCK: return exec_set_block(run, node, frame);
    case WR_J_MACRODEF:
        if (!define_macro(run, node, frame, &v)) return WR_J_FAILED;
        frame->slots[node->ref.slot] = v;
        if (run->exported && node->toplevel)
            return flow_of(wr_jdict_set(run, run->exported, (wr_jval){.type = WR_J_STR, .s = node->name}, v));
        return WR_J_NEXT;
    case WR_J_CALLBLOCK: return flow_of(exec_call_block(run, node, frame));
    case WR_J_FILTERBLOCK: return exec_filter_block(run, node, frame);
    case WR_J_WITH:
    case WR_J_SCOPE: return exec_scope(run, node, frame);
    case WR_J_BLOCK: return exec_block(run, node);
    case WR_J_BREAK: return WR_J_LEAVE_LOOP;
    case WR_J_CONTINUE: return WR_J_NEXT_ITEM;
    default: return flow_of(WR_JERROR(run, "this is no statement"));
    }
}

wr_jflow wr_jexec(wr_jrun *run, const wr_jnodes *body, wr_jframe *frame) {
    wr_jflow flow = WR_J_NEXT;
    if (!wr_jenter(run)) return WR_J_FAILED;
    for (uint32_t i = 0; flow == WR_J_NEXT && i < body->n; i++) {
        if (!wr_jcharge(run, 0)) {
            flow = WR_J_FAILED;
            break;
        }
        flow = exec_one(run, body->at[i], frame);
    }
    wr_jleave(run);
    return flow;
}
