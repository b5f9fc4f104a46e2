/* The methods of everything that is no text. */
#include <math.h>

#include "text/jinja/iter.h"
#include "text/jinja/loop.h"
#include "text/jinja/ops.h"
#include "text/jinja/text.h"

/* ---- dicts ---- */

static bool dict_get(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    wr_jentry *e;
    if (!wr_jdict_find(run, c->self.dict, c->args[0], &e)) return false;
    *out = e ? e->value : c->args[1].type != WR_J_MISSING ? c->args[1] : wr_jnone();
    return true;
}

#define VIEW(name, kind)                                                                                               \
    static bool name(wr_jrun *run, const wr_jcall *c, wr_jval *out) {                                                  \
        return wr_jview_new(run, c->self.dict, kind, out);                                                             \
    }
VIEW(dict_keys, WR_J_KEYS)
VIEW(dict_values, WR_J_VALUES)
VIEW(dict_items, WR_J_ITEMS)

static bool dict_copy(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    if (!wr_jdict_new(run, out)) return false;
    for (size_t i = 0; i < c->self.dict->n; i++)
        if (!wr_jdict_set(run, out->dict, c->self.dict->entries[i].key, c->self.dict->entries[i].value)) return false;
    return true;
}

static bool dict_fromkeys(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    wr_jval key, value = c->args[1].type == WR_J_MISSING ? wr_jnone() : c->args[1];
    wr_jiter *it;
    bool has;
    if (!wr_jdict_new(run, out) || !wr_jiter_new(run, c->args[0], &it)) return false;
    for (;;) {
        if (!wr_jiter_next(run, it, &key, &has)) return false;
        if (!has) return true;
        if (!wr_jdict_set(run, out->dict, key, value)) return false;
    }
}

/* ---- lists, tuples, ranges ---- */

static bool seq_count(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    wr_jiter *it;
    wr_jval item;
    bool has, same;
    int64_t n = 0;
    if (!wr_jiter_new(run, c->self, &it)) return false;
    for (;; n += same) {
        if (!wr_jiter_next(run, it, &item, &has)) return false;
        if (!has) break;
        same = wr_jsame(item, c->args[0]);
        if (!same && !wr_jequal(run, item, c->args[0], &same)) return false;
    }
    *out = wr_jint(n);
    return true;
}

static bool seq_index(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    int64_t n = 0, start, stop, i = 0;
    wr_jiter *it;
    wr_jval item;
    bool has, same;
    if (!wr_jlen(run, c->self, &n) || !wr_jarg_int(run, c->args[1], 0, &start) ||
        !wr_jarg_int(run, c->args[2], n, &stop) || !wr_jiter_new(run, c->self, &it))
        return false;
    if (start < 0) start = start + n < 0 ? 0 : start + n;
    if (stop < 0) stop += n;
    for (;; i++) {
        if (!wr_jiter_next(run, it, &item, &has)) return false;
        if (!has || i >= stop) return WR_JERROR(run, "value is not in %s", wr_jtype_name(c->self));
        if (i < start) continue;
        same = wr_jsame(item, c->args[0]);
        if (!same && !wr_jequal(run, item, c->args[0], &same)) return false;
        if (!same) continue;
        *out = wr_jint(i);
        return true;
    }
}

static bool list_copy(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return wr_jiter_list(run, c->self, out); }

/* ---- numbers ---- */

static bool float_is_integer(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    (void)run;
    *out = wr_jbool(isfinite(c->self.f) && c->self.f == floor(c->self.f));
    return true;
}

static bool number_conjugate(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    (void)run;
    *out = c->self.type == WR_J_FLOAT ? c->self : wr_jint(wr_jint_of(c->self));
    return true;
}

static bool int_bit_length(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    int64_t i = wr_jint_of(c->self), n = 0;
    (void)run;
    for (uint64_t rest = i < 0 ? 0 - (uint64_t)i : (uint64_t)i; rest; rest >>= 1) n++;
    *out = wr_jint(n);
    return true;
}

/* ---- loops and cyclers ---- */

static bool loop_cycle(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    if (!c->n || c->n_kw) return WR_JERROR(run, "no items for cycling given");
    *out = c->args[(size_t)c->self.loop->index0 % c->n];
    return true;
}

static bool loop_changed(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    wr_jloop *loop = c->self.loop;
    wr_jval now;
    bool same = false;
    if (c->n_kw) return WR_JERROR(run, "changed() takes no keyword arguments");
    if (!wr_jlist_new(run, WR_J_TUPLE, c->n, &now)) return false;
    for (size_t i = 0; i < c->n; i++) now.list->items[i] = c->args[i];
    if (loop->changed.type != WR_J_MISSING && !wr_jequal(run, loop->changed, now, &same)) return false;
    if (!same) loop->changed = now;
    *out = wr_jbool(!same);
    return true;
}

static bool cycler_next(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    wr_jcycler *cycler = c->self.cycler;
    (void)run;
    *out = cycler->items[cycler->at];
    cycler->at = (cycler->at + 1) % cycler->n;
    return true;
}

static bool cycler_reset(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    (void)run;
    c->self.cycler->at = 0;
    *out = wr_jnone();
    return true;
}

static const wr_jbuiltin methods[] = {
    {"dict.get", "key default", -2, dict_get},
    {"dict.items", "", -1, dict_items},
    {"dict.keys", "", -1, dict_keys},
    {"dict.values", "", -1, dict_values},
    {"dict.copy", "", -1, dict_copy},
    {"dict.fromkeys", "iterable value", -2, dict_fromkeys},
    {"class.fromkeys", "iterable value", -2, dict_fromkeys},
    {"list.count", "value", -2, seq_count},
    {"list.index", "value start stop", -2, seq_index},
    {"list.copy", "", -1, list_copy},
    {"tuple.count", "value", -2, seq_count},
    {"tuple.index", "value start stop", -2, seq_index},
    {"range.count", "value", -2, seq_count},
    {"range.index", "value", -2, seq_index},
    {"int.bit_length", "", -1, int_bit_length},
    {"int.conjugate", "", -1, number_conjugate},
    {"float.conjugate", "", -1, number_conjugate},
    {"float.is_integer", "", -1, float_is_integer},
    {"loop.cycle", NULL, 0, loop_cycle},
    {"loop.changed", NULL, 0, loop_changed},
    {"cycler.next", "", -1, cycler_next},
    {"cycler.reset", "", -1, cycler_reset},
};
const wr_jtable wr_jother_methods = {methods, sizeof methods / sizeof *methods};
