/* Attribute paths, and the filters that apply a filter or test to each item: map,
 * select, reject, selectattr and rejectattr. They are generators, as in Python: nothing
 * is done, and nothing fails, before an item is asked for. */
#include "text/jinja/pick.h"

#include <string.h>

#include "text/jinja/builtin.h"
#include "text/jinja/case.h"
#include "text/jinja/iter.h"
#include "text/jinja/ops.h"
#include "text/unicode.h"

/* ---- paths ---- */

static bool path_part(wr_jrun *run, const wr_jstr *s, size_t from, size_t to, wr_jval *out) {
    bool digits = to > from;
    uint32_t cp;
    for (size_t at = from; at < to && digits;) {
        at += (size_t)wr_utf8_get((const uint8_t *)s->data + at, &cp);
        digits = wr_jchar_is(cp, WR_J_DECIMAL);
    }
    if (!digits) return wr_jstr_view(run, s->data + from, to - from, out);
    int64_t i = 0;
    for (size_t at = from; at < to;) {
        at += (size_t)wr_utf8_get((const uint8_t *)s->data + at, &cp);
        if (__builtin_mul_overflow(i, 10, &i) || __builtin_add_overflow(i, wr_jchar_decimal(cp), &i))
            return wr_jint_too_large(run);
    }
    *out = wr_jint(i);
    return true;
}

bool wr_jpath_parse(wr_jrun *run, wr_jval attribute, wr_jpath *out) {
    *out = (wr_jpath){0};
    if (!wr_jgiven(attribute)) return true;
    size_t n = 1, from = 0;
    const wr_jstr *s = attribute.type == WR_J_STR ? attribute.s : NULL;
    for (size_t i = 0; s && i < s->bytes; i++) n += s->data[i] == '.';
    if (!(out->parts = wr_jalloc_n(run, n, sizeof *out->parts))) return false;
    out->n = n;
    if (!s) {
        out->parts[0] = attribute;
        return true;
    }
    for (size_t i = 0, part = 0; i <= s->bytes; i++) {
        if (i < s->bytes && s->data[i] != '.') continue;
        if (!path_part(run, s, from, i, &out->parts[part++])) return false;
        from = i + 1;
    }
    return true;
}

bool wr_jpath_get(wr_jrun *run, const wr_jpath *path, wr_jval item, wr_jval instead, bool lower, wr_jval *out) {
    *out = item;
    for (size_t i = 0; i < path->n; i++) {
        if (!wr_jgetitem(run, *out, path->parts[i], out)) return false;
        if (out->type == WR_J_UNDEFINED && wr_jgiven(instead)) *out = instead;
    }
    return !lower || out->type != WR_J_STR || wr_jcase(run, out->s, WR_J_LOWER, out);
}

/* ---- generators ---- */

typedef enum pick_kind { MAP, SELECT, REJECT } pick_kind;

typedef struct pick_iter {
    wr_jiter base;
    pick_kind kind;
    bool by_attribute; /* selectattr, rejectattr; or map(attribute=...) */
    wr_jcall call;     /* the filter's own arguments */
    wr_jiter *items;
    wr_jpath path;
    wr_jval instead;
    const wr_jbuiltin *apply; /* NULL: the truth of the item */
} pick_iter;

static bool keyword_is(const wr_jkw *kw, const char *name) { return wr_jstr_is(kw->name, name); }

static bool prepare_map(wr_jrun *run, pick_iter *it) {
    wr_jcall *c = &it->call;
    wr_jval attribute = {0};
    if (c->n == 0) {
        const wr_jkw *unknown = NULL;
        for (size_t i = 0; i < c->n_kw; i++) {
            if (keyword_is(&c->kw[i], "attribute"))
                attribute = c->kw[i].value;
            else if (keyword_is(&c->kw[i], "default"))
                it->instead = c->kw[i].value;
            else
                unknown = &c->kw[i];
        }
        if (attribute.type == WR_J_MISSING) return WR_JERROR(run, "map requires a filter argument");
        if (unknown)
            return WR_JERROR(run, "Unexpected keyword argument '%.*s'", (int)unknown->name.s->bytes,
                             unknown->name.s->data);
        it->by_attribute = true;
        return wr_jpath_parse(run, attribute, &it->path);
    }
    it->apply = c->args[0].type == WR_J_STR ? wr_jfilter_find(c->args[0].s) : NULL;
    if (!it->apply) return WR_JERROR(run, "No filter named that map is given.");
    c->args++, c->n--;
    return true;
}

static bool prepare_select(wr_jrun *run, pick_iter *it) {
    wr_jcall *c = &it->call;
    if (it->by_attribute) {
        if (c->n == 0) return WR_JERROR(run, "Missing parameter for attribute name");
        if (!wr_jpath_parse(run, c->args[0], &it->path)) return false;
        c->args++, c->n--;
    }
    if (c->n == 0) return true;
    it->apply = c->args[0].type == WR_J_STR ? wr_jtest_find(c->args[0].s) : NULL;
    if (!it->apply) return WR_JERROR(run, "No test named that select is given.");
    c->args++, c->n--;
    return true;
}

static bool pick_next(wr_jrun *run, wr_jiter *base, wr_jval *out, bool *has) {
    pick_iter *it = (pick_iter *)base;
    wr_jval v;
    bool yes;
    if (!base->started) {
        base->started = true;
        if (!wr_jtruth(run, base->source, &yes)) return false;
        if (!yes) {
            *has = false;
            return true;
        }
        if (!(it->kind == MAP ? prepare_map(run, it) : prepare_select(run, it)) ||
            !wr_jiter_new(run, base->source, &it->items))
            return false;
    }
    for (;;) {
        if (!wr_jiter_next(run, it->items, out, has)) return false;
        if (!*has) return true;
        v = *out;
        if (it->by_attribute && !wr_jpath_get(run, &it->path, v, it->instead, false, &v)) return false;
        it->call.self = v;
        if (it->apply && !wr_jbuiltin_call(run, it->apply, &it->call, &v)) return false;
        if (it->kind == MAP) {
            *out = v;
            return true;
        }
        if (!wr_jtruth(run, v, &yes)) return false;
        if (yes == (it->kind == SELECT)) return true;
    }
}

static bool pick(wr_jrun *run, const wr_jcall *c, pick_kind kind, bool by_attribute, wr_jval *out) {
    pick_iter *it = wr_jiter_alloc(run, sizeof *it, "generator", pick_next, c->self);
    if (!it) return false;
    it->kind = kind;
    it->by_attribute = by_attribute;
    it->call = *c;
    *out = (wr_jval){.type = WR_J_ITER, .iter = &it->base};
    return true;
}

static bool do_map(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return pick(run, c, MAP, false, out); }
static bool do_select(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return pick(run, c, SELECT, false, out); }
static bool do_reject(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return pick(run, c, REJECT, false, out); }
static bool do_selectattr(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return pick(run, c, SELECT, true, out); }
static bool do_rejectattr(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return pick(run, c, REJECT, true, out); }

/* ---- map(getter, items), which unlike a generator walks its items at once ---- */

typedef struct attribute_iter {
    wr_jiter base;
    wr_jiter *items;
    wr_jpath path;
} attribute_iter;

static bool attribute_next(wr_jrun *run, wr_jiter *base, wr_jval *out, bool *has) {
    attribute_iter *it = (attribute_iter *)base;
    if (!wr_jiter_next(run, it->items, out, has)) return false;
    return !*has || wr_jpath_get(run, &it->path, *out, (wr_jval){0}, false, out);
}

bool wr_jpick_attribute(wr_jrun *run, wr_jval items, wr_jval attribute, wr_jval *out) {
    attribute_iter *it = wr_jiter_alloc(run, sizeof *it, "map", attribute_next, items);
    if (!it || !wr_jpath_parse(run, attribute, &it->path) || !wr_jiter_new(run, items, &it->items)) return false;
    *out = (wr_jval){.type = WR_J_ITER, .iter = &it->base};
    return true;
}

static const wr_jbuiltin filters[] = {
    {"map", NULL, 0, do_map},
    {"select", NULL, 0, do_select},
    {"reject", NULL, 0, do_reject},
    {"selectattr", NULL, 0, do_selectattr},
    {"rejectattr", NULL, 0, do_rejectattr},
};
const wr_jtable wr_jpick_filters = {filters, sizeof filters / sizeof *filters};
