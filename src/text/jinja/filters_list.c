/* The filters of lists, dicts and numbers. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/jinja/builtin.h"
#include "text/jinja/case.h"
#include "text/jinja/iter.h"
#include "text/jinja/ops.h"
#include "text/jinja/pick.h"
#include "text/jinja/sort.h"
#include "text/jinja/show.h"
#include "text/unicode.h"

/* ---- one of many ---- */

static bool do_length(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    int64_t n;
    if (!wr_jlen(run, c->self, &n)) return false;
    if (n < 0) return WR_JERROR(run, "object of type '%s' has no len()", wr_jtype_name(c->self));
    *out = wr_jint(n);
    return true;
}

static bool first_of(wr_jrun *run, wr_jiter *it, const char *none, wr_jval *out) {
    bool has;
    if (!wr_jiter_next(run, it, out, &has)) return false;
    return has || wr_jundefined_hint(run, none, out);
}

static bool do_first(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    wr_jiter *it;
    return wr_jiter_new(run, c->self, &it) && first_of(run, it, "No first item, sequence was empty.", out);
}

static bool do_last(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    wr_jiter *it;
    if (c->self.type == WR_J_UNDEFINED) return WR_JERROR(run, "'Undefined' object is not reversible");
    if (!wr_jiter_reversed(run, c->self, &it)) return false;
    if (!it) return WR_JERROR(run, "'%s' object is not reversible", wr_jtype_name(c->self));
    return first_of(run, it, "No last item, sequence was empty.", out);
}

static bool do_default(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    bool falsy = false, is = true;
    *out = c->self;
    if (!wr_jarg_bool(run, c->args[1], false, &falsy)) return false;
    if (falsy && !wr_jtruth(run, c->self, &is)) return false;
    if (c->self.type != WR_J_UNDEFINED && is) return true;
    *out = c->args[0];
    return c->args[0].type != WR_J_MISSING || wr_jstr_lit(run, "", out);
}

static bool do_attr(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    return wr_jarg_str(run, c->args[0], "an attribute's name") && wr_jgetattr_only(run, c->self, c->args[0], out);
}

/* The least or the greatest; the first of equal ones. */
static bool extreme(wr_jrun *run, const wr_jcall *c, char op, wr_jval *out) {
    wr_jpath path;
    wr_jiter *it;
    wr_jval item, key, best = {0};
    bool sensitive, has, better;
    if (!wr_jarg_bool(run, c->args[0], false, &sensitive) || !wr_jiter_new(run, c->self, &it)) return false;
    if (!wr_jpath_parse(run, c->args[1], &path)) return false;
    for (;;) {
        if (!wr_jiter_next(run, it, &item, &has)) return false;
        if (!has) break;
        if (!wr_jpath_get(run, &path, item, (wr_jval){0}, !sensitive, &key)) return false;
        better = best.type == WR_J_MISSING;
        if (!better && !wr_jcompare(run, key, best, op, &better)) return false;
        if (!better) continue;
        best = key;
        *out = item;
    }
    if (best.type == WR_J_MISSING) return wr_jundefined_hint(run, "No aggregated item, sequence was empty.", out);
    return true;
}
static bool do_min(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return extreme(run, c, '<', out); }
static bool do_max(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return extreme(run, c, '>', out); }

static bool do_sum(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    wr_jval items = c->self, item;
    wr_jiter *it;
    bool has;
    *out = c->args[1].type == WR_J_MISSING ? wr_jint(0) : c->args[1];
    if (wr_jgiven(c->args[0]) && !wr_jpick_attribute(run, items, c->args[0], &items)) return false;
    if (!wr_jiter_new(run, items, &it)) return false;
    if (out->type == WR_J_STR) return WR_JERROR(run, "sum() can't sum strings [use ''.join(seq) instead]");
    for (;;) {
        if (!wr_jiter_next(run, it, &item, &has)) return false;
        if (!has) return true;
        if (!wr_jbinary(run, WR_J_ADD, *out, item, out)) return false;
    }
}

/* ---- lists of the same items ---- */

static bool do_list(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return wr_jiter_list(run, c->self, out); }

static bool do_reverse(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    wr_jiter *it;
    wr_jval list;
    if (c->self.type == WR_J_STR) {
        const wr_jval at[3] = {{0}, {0}, {.type = WR_J_INT, .i = -1}};
        return wr_jslice(run, c->self, at, out);
    }
    if (!wr_jiter_reversed(run, c->self, &it)) return false;
    if (it) {
        *out = (wr_jval){.type = WR_J_ITER, .iter = it};
        return true;
    }
    if (!wr_jiterable(c->self)) return WR_JERROR(run, "argument must be iterable");
    if (!wr_jiter_list(run, c->self, &list)) return false;
    size_t n = list.list->n;
    if (!wr_jlist_new(run, WR_J_LIST, n, out)) return false;
    for (size_t i = 0; i < n; i++) out->list->items[i] = list.list->items[n - 1 - i];
    return true;
}

/* The items of a list with their keys, to be sorted. */
static bool sortable(wr_jrun *run, wr_jval items, const wr_jpath *path, wr_jval instead, bool sensitive,
                     wr_jsortable **out, size_t *n) {
    wr_jval list;
    if (!wr_jiter_list(run, items, &list)) return false;
    *n = list.list->n;
    if (!(*out = wr_jalloc_n(run, *n, sizeof **out))) return false;
    for (size_t i = 0; i < *n; i++) {
        wr_jval item = list.list->items[i];
        (*out)[i].value = item;
        if (!wr_jpath_get(run, path, item, instead, !sensitive, &(*out)[i].key)) return false;
    }
    return true;
}

static bool sorted_values(wr_jrun *run, wr_jsortable *items, size_t n, bool reverse, wr_jval *out) {
    if (!wr_jsort(run, items, n, reverse) || !wr_jlist_new(run, WR_J_LIST, n, out)) return false;
    for (size_t i = 0; i < n; i++) out->list->items[i] = items[i].value;
    return true;
}

/* sort by "a,b": keys are lists of attributes. */
static bool do_sort(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    wr_jval attribute = c->args[2], list, part;
    bool reverse, sensitive;
    wr_jsortable *items;
    size_t n_paths = 1, from = 0;
    if (!wr_jarg_bool(run, c->args[0], false, &reverse) || !wr_jarg_bool(run, c->args[1], false, &sensitive))
        return false;
    const wr_jstr *s = attribute.type == WR_J_STR ? attribute.s : NULL;
    for (size_t i = 0; s && i < s->bytes; i++) n_paths += s->data[i] == ',';
    wr_jpath *paths = wr_jalloc_n(run, n_paths, sizeof *paths);
    if (!paths) return false;
    if (!s && !wr_jpath_parse(run, attribute, &paths[0])) return false;
    for (size_t i = 0, k = 0; s && i <= s->bytes; i++) {
        if (i < s->bytes && s->data[i] != ',') continue;
        if (!wr_jstr_view(run, s->data + from, i - from, &part) || !wr_jpath_parse(run, part, &paths[k++]))
            return false;
        from = i + 1;
    }
    if (!wr_jiter_list(run, c->self, &list)) return false;
    size_t n = list.list->n;
    if (!(items = wr_jalloc_n(run, n, sizeof *items))) return false;
    for (size_t i = 0; i < n; i++) {
        items[i].value = list.list->items[i];
        if (!wr_jlist_new(run, WR_J_LIST, n_paths, &items[i].key)) return false;
        for (size_t k = 0; k < n_paths; k++)
            if (!wr_jpath_get(run, &paths[k], items[i].value, (wr_jval){0}, !sensitive, &items[i].key.list->items[k]))
                return false;
    }
    return sorted_values(run, items, n, reverse, out);
}

static bool do_dictsort(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    bool sensitive, reverse, by_value;
    if (!wr_jarg_bool(run, c->args[0], false, &sensitive) || !wr_jarg_bool(run, c->args[2], false, &reverse))
        return false;
    by_value = wr_jstr_is(c->args[1], "value");
    if (c->args[1].type != WR_J_MISSING && !by_value && !wr_jstr_is(c->args[1], "key"))
        return WR_JERROR(run, "You can only sort by either \"key\" or \"value\"");
    if (c->self.type == WR_J_UNDEFINED) return wr_jundefined_fail(run, c->self);
    if (c->self.type != WR_J_DICT)
        return WR_JERROR(run, "'%s' object has no attribute 'items'", wr_jtype_name(c->self));
    size_t n = c->self.dict->n;
    wr_jsortable *items = wr_jalloc_n(run, n, sizeof *items);
    if (!items) return false;
    for (size_t i = 0; i < n; i++) {
        const wr_jentry *e = &c->self.dict->entries[i];
        if (!wr_jlist_new(run, WR_J_TUPLE, 2, &items[i].value)) return false;
        items[i].value.list->items[0] = e->key;
        items[i].value.list->items[1] = e->value;
        wr_jval key = by_value ? e->value : e->key;
        if (!sensitive && key.type == WR_J_STR && !wr_jcase(run, key.s, WR_J_LOWER, &key)) return false;
        items[i].key = key;
    }
    return sorted_values(run, items, n, reverse, out);
}

static bool do_groupby(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    wr_jpath path;
    wr_jsortable *items;
    wr_jitems groups = {0};
    size_t n;
    bool sensitive, same;
    if (!wr_jarg_bool(run, c->args[2], false, &sensitive) || !wr_jpath_parse(run, c->args[0], &path) ||
        !sortable(run, c->self, &path, c->args[1], sensitive, &items, &n) || !wr_jsort(run, items, n, false))
        return false;
    for (size_t i = 0; i < n;) {
        wr_jval group, key = items[i].key, members;
        wr_jitems list = {0};
        size_t first = i;
        for (same = true; i < n;) {
            if (!wr_jequal(run, items[i].key, key, &same)) return false;
            if (!same) break;
            if (!wr_jitems_add(run, &list, items[i++].value)) return false;
        }
        if (!sensitive && !wr_jpath_get(run, &path, items[first].value, c->args[1], false, &key)) return false;
        if (!wr_jitems_list(run, &list, WR_J_LIST, &members) || !wr_jlist_new(run, WR_J_TUPLE, 2, &group)) return false;
        group.list->group = true;
        group.list->items[0] = key;
        group.list->items[1] = members;
        if (!wr_jitems_add(run, &groups, group)) return false;
    }
    return wr_jitems_list(run, &groups, WR_J_LIST, out);
}

/* ---- generators ---- */

typedef struct step_iter {
    wr_jiter base;
    wr_jiter *items;
    wr_jval list, fill; /* slice: all items */
    wr_jdict *seen;     /* unique */
    wr_jpath path;
    bool sensitive;
    int64_t size, offset;
} step_iter;

static bool new_step(wr_jrun *run, const wr_jcall *c, bool (*next)(wr_jrun *, wr_jiter *, wr_jval *, bool *),
                     step_iter **out, wr_jval *value) {
    *out = wr_jiter_alloc(run, sizeof **out, "generator", next, c->self);
    if (!*out) return false;
    *value = (wr_jval){.type = WR_J_ITER, .iter = &(*out)->base};
    return true;
}

static bool start(wr_jrun *run, step_iter *it) {
    if (it->base.started) return true;
    it->base.started = true;
    return wr_jiter_new(run, it->base.source, &it->items);
}

static bool items_next(wr_jrun *run, wr_jiter *base, wr_jval *out, bool *has) {
    step_iter *it = (step_iter *)base;
    if (!base->started && base->source.type == WR_J_UNDEFINED) {
        *has = false;
        return true;
    }
    if (!base->started) {
        if (base->source.type != WR_J_DICT) return WR_JERROR(run, "Can only get item pairs from a mapping.");
        if (!wr_jview_new(run, base->source.dict, WR_J_ITEMS, &base->source)) return false;
    }
    return start(run, it) && wr_jiter_next(run, it->items, out, has);
}

static bool do_items(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    step_iter *it;
    return new_step(run, c, items_next, &it, out);
}

static bool unique_next(wr_jrun *run, wr_jiter *base, wr_jval *out, bool *has) {
    step_iter *it = (step_iter *)base;
    wr_jval key;
    wr_jentry *known;
    if (!start(run, it)) return false;
    for (;;) {
        if (!wr_jiter_next(run, it->items, out, has)) return false;
        if (!*has) return true;
        if (!wr_jpath_get(run, &it->path, *out, (wr_jval){0}, !it->sensitive, &key) ||
            !wr_jdict_find(run, it->seen, key, &known))
            return false;
        if (!known) return wr_jdict_set(run, it->seen, key, key);
    }
}

static bool do_unique(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    step_iter *it;
    wr_jval seen;
    if (!new_step(run, c, unique_next, &it, out) || !wr_jdict_new(run, &seen) ||
        !wr_jarg_bool(run, c->args[0], false, &it->sensitive) || !wr_jpath_parse(run, c->args[1], &it->path))
        return false;
    it->seen = seen.dict;
    return true;
}

static bool batch_next(wr_jrun *run, wr_jiter *base, wr_jval *out, bool *has) {
    step_iter *it = (step_iter *)base;
    wr_jitems row = {0};
    wr_jval item;
    bool more = true;
    if (!start(run, it)) return false;
    /* One item is looked at beyond a full row: jinja2 gives a row when the next one comes. */
    while ((int64_t)row.n != it->size || !row.n) {
        if (!wr_jiter_next(run, it->items, &item, &more)) return false;
        if (!more) break;
        if (!wr_jitems_add(run, &row, item)) return false;
    }
    *has = row.n > 0;
    while (*has && !more && wr_jgiven(it->fill) && (int64_t)row.n < it->size)
        if (!wr_jitems_add(run, &row, it->fill)) return false;
    return !*has || wr_jitems_list(run, &row, WR_J_LIST, out);
}

static bool do_batch(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    step_iter *it;
    if (!new_step(run, c, batch_next, &it, out)) return false;
    it->fill = c->args[1];
    if (!wr_jarg_int(run, c->args[0], 0, &it->size)) return false;
    /* No length of a row equals such a size: one row takes all. */
    if (it->size <= 0) it->size = INT64_MAX, it->fill = (wr_jval){0};
    return true;
}

static bool slice_next(wr_jrun *run, wr_jiter *base, wr_jval *out, bool *has) {
    step_iter *it = (step_iter *)base;
    if (!base->started) {
        base->started = true;
        if (!wr_jiter_list(run, base->source, &it->list)) return false;
        if (it->size == 0) return WR_JERROR(run, "integer division or modulo by zero");
    }
    int64_t n = (int64_t)it->list.list->n, at = (int64_t)base->at;
    *has = at < it->size;
    if (!*has) return true;
    int64_t each = n / it->size, extra = n % it->size, from = it->offset + at * each;
    if (at < extra) it->offset++;
    int64_t to = it->offset + (at + 1) * each;
    bool filled = wr_jgiven(it->fill) && at >= extra;
    if (!wr_jlist_new(run, WR_J_LIST, (size_t)(to - from) + filled, out)) return false;
    for (int64_t i = from; i < to; i++) out->list->items[i - from] = it->list.list->items[i];
    if (filled) out->list->items[to - from] = it->fill;
    base->at++;
    return true;
}

static bool do_slice(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    step_iter *it;
    if (!new_step(run, c, slice_next, &it, out)) return false;
    it->fill = c->args[1];
    return wr_jarg_int(run, c->args[0], 0, &it->size);
}

/* ---- numbers ---- */

static bool do_abs(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    if (c->self.type == WR_J_FLOAT) {
        *out = wr_jfloat(fabs(c->self.f));
        return true;
    }
    if (!wr_jis_int(c->self)) return WR_JERROR(run, "bad operand type for abs(): '%s'", wr_jtype_name(c->self));
    return wr_jnegate(run, c->self, wr_jint_of(c->self) < 0, out);
}

/* round(x, precision): to the nearest, halves of the decimal value to even, as the
 * shortest way to see it: printed with that many digits and read back. */
static double round_float(double x, int64_t precision) {
    char text[420];
    if (!isfinite(x) || precision > 323) return x;
    if (precision < -308) return copysign(0.0, x);
    if (precision >= 0) {
        snprintf(text, sizeof text, "%.*f", (int)precision, x);
        return strtod(text, NULL);
    }
    double unit = pow(10, (double)-precision), y = x / unit, z = round(y);
    if (fabs(y - z) == 0.5) z = 2.0 * round(y / 2.0);
    return z * unit;
}

static bool round_int(wr_jrun *run, int64_t i, int64_t precision, wr_jval *out) {
    int64_t unit = 1;
    *out = wr_jint(i);
    if (precision >= 0) return true;
    for (int64_t k = precision; k < 0; k++) {
        if (__builtin_mul_overflow(unit, 10, &unit)) {
            *out = wr_jint(0);
            return true;
        }
    }
    int64_t rest = i % unit;
    if (rest < 0) rest += unit;
    int64_t down = i - rest;
    bool up = rest > unit / 2 || (rest == unit / 2 && unit % 2 == 0 && down / unit % 2 != 0);
    if (up && __builtin_add_overflow(down, unit, &down)) return wr_jint_too_large(run);
    *out = wr_jint(down);
    return true;
}

static bool do_round(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    int64_t precision;
    wr_jval v = c->self, unit;
    bool ceiling = wr_jstr_is(c->args[1], "ceil"), floored = wr_jstr_is(c->args[1], "floor");
    if (c->args[1].type != WR_J_MISSING && !ceiling && !floored && !wr_jstr_is(c->args[1], "common"))
        return WR_JERROR(run, "method must be common, ceil or floor");
    if (!wr_jarg_int(run, c->args[0], 0, &precision)) return false;
    if (v.type == WR_J_UNDEFINED) return wr_jundefined_fail(run, v);
    if (!wr_jis_number(v)) return WR_JERROR(run, "type %s doesn't define __round__ method", wr_jtype_name(v));
    if (!ceiling && !floored) {
        if (wr_jis_int(v)) return round_int(run, wr_jint_of(v), precision, out);
        double rounded = round_float(v.f, precision);
        if (isinf(rounded) && isfinite(v.f)) return WR_JERROR(run, "rounded value too large to represent");
        *out = wr_jfloat(rounded);
        return true;
    }
    /* func(value * 10**precision) / 10**precision */
    if (!wr_jbinary(run, WR_J_POW, wr_jint(10), wr_jint(precision), &unit) || !wr_jbinary(run, WR_J_MUL, v, unit, &v))
        return false;
    if (v.type == WR_J_FLOAT) {
        int64_t whole;
        double x = ceiling ? ceil(v.f) : floor(v.f);
        if (!wr_jfloat_to_int(run, x, &whole)) return false;
        v = wr_jint(whole);
    }
    return wr_jbinary(run, WR_J_DIV, v, unit, out);
}

static bool do_random(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    (void)c, (void)out;
    return wr_jfail(run, WEIR_E_UNSUPPORTED, "the filter random is not supported: a prompt must be the same each time");
}

static const wr_jbuiltin filters[] = {
    {"length", "", 0, do_length},
    {"list", "", 0, do_list},
    {"default", "default_value boolean", 0, do_default},
    {"first", "", 0, do_first},
    {"last", "", 0, do_last},
    {"items", "", 0, do_items},
    {"reverse", "", 0, do_reverse},
    {"sort", "reverse case_sensitive attribute", 0, do_sort},
    {"dictsort", "case_sensitive by reverse", 0, do_dictsort},
    {"unique", "case_sensitive attribute", 0, do_unique},
    {"min", "case_sensitive attribute", 0, do_min},
    {"max", "case_sensitive attribute", 0, do_max},
    {"sum", "attribute start", 0, do_sum},
    {"round", "precision method", 0, do_round},
    {"abs", "", 0, do_abs},
    {"count", "", 0, do_length},
    {"d", "default_value boolean", 0, do_default},
    {"batch", "linecount fill_with", 1, do_batch},
    {"slice", "slices fill_with", 1, do_slice},
    {"groupby", "attribute default case_sensitive", 1, do_groupby},
    {"attr", "name", 1, do_attr},
    {"random", "", 0, do_random},
};
const wr_jtable wr_jlist_filters = {filters, sizeof filters / sizeof *filters};
