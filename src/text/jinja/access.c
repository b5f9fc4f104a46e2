/* obj.name and obj[key] as the sandboxed environment looks them up: what is not there is
 * undefined, and so is what the sandbox hides. */
#include <stdio.h>
#include <string.h>

#include "text/jinja/builtin.h"
#include "text/jinja/iter.h"
#include "text/jinja/loop.h"
#include "text/jinja/macro.h"
#include "text/jinja/ops.h"
#include "text/jinja/show.h"

/* Attributes with two underscores that every Python object has. */
static bool is_internal(const wr_jstr *name) {
    static const char *const names[] = {
        "__class__",   "__delattr__", "__dir__",           "__doc__",         "__eq__",
        "__format__",  "__ge__",      "__getattribute__",  "__getstate__",    "__gt__",
        "__hash__",    "__init__",    "__init_subclass__", "__le__",          "__lt__",
        "__ne__",      "__new__",     "__reduce__",        "__reduce_ex__",   "__repr__",
        "__setattr__", "__sizeof__",  "__str__",           "__subclasshook__"};
    if (name->bytes < 5 || memcmp(name->data, "__", 2) != 0) return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (wr_jstr_equals(name, names[i])) return true;
    return false;
}

static bool unsafe(wr_jrun *run, wr_jval obj, wr_jval name, wr_jval *out) {
    wr_jbuf hint = {0};
    wr_jval text;
    const char *type = wr_jtype_name(obj);
    if (!wr_jbuf_lit(run, &hint, "access to attribute ") || !wr_jrepr(run, name, &hint) ||
        !wr_jbuf_lit(run, &hint, " of '") || !wr_jbuf_add(run, &hint, type, strlen(type)) ||
        !wr_jbuf_lit(run, &hint, "' object is unsafe.") || !wr_jbuf_str(run, &hint, &text) ||
        !wr_jundefined_of(run, obj, name, out))
        return false;
    out->undefined->hint = text.s;
    return true;
}

/* Attributes that hold a value. */
static bool plain_attribute(wr_jrun *run, wr_jval obj, const wr_jstr *name, wr_jval *out, bool *found) {
    wr_jentry *entry;
    *found = true;
    switch (obj.type) {
    case WR_J_NAMESPACE:
        entry = wr_jdict_get(obj.dict, name->data, name->bytes);
        if (entry) *out = entry->value;
        *found = entry != NULL;
        return true;
    case WR_J_LOOP: return wr_jloop_attribute(run, obj.loop, name, out, found);
    case WR_J_TUPLE:
        if (obj.list->group && wr_jstr_equals(name, "grouper")) return *out = obj.list->items[0], true;
        if (obj.list->group && wr_jstr_equals(name, "list")) return *out = obj.list->items[1], true;
        break;
    case WR_J_CYCLER:
        if (wr_jstr_equals(name, "current")) return *out = obj.cycler->items[obj.cycler->at], true;
        if (wr_jstr_equals(name, "pos")) return *out = wr_jint((int64_t)obj.cycler->at), true;
        if (wr_jstr_equals(name, "items")) {
            *out = (wr_jval){.type = WR_J_TUPLE, .list = wr_jalloc(run, sizeof(wr_jlist))};
            if (!out->list) return false;
            *out->list = (wr_jlist){.items = obj.cycler->items, .n = obj.cycler->n};
            return true;
        }
        break;
    case WR_J_JOINER:
        if (wr_jstr_equals(name, "sep")) return *out = obj.cycler->items[0], true;
        if (wr_jstr_equals(name, "used")) return *out = wr_jbool(obj.cycler->at != 0), true;
        break;
    case WR_J_MACRO:
        if (wr_jstr_equals(name, "name")) {
            *out = obj.macro->name ? (wr_jval){.type = WR_J_STR, .s = (wr_jstr *)obj.macro->name} : wr_jnone();
            return true;
        }
        break;
    case WR_J_RANGE:
        if (wr_jstr_equals(name, "start")) return *out = wr_jint(obj.range->start), true;
        if (wr_jstr_equals(name, "stop")) return *out = wr_jint(obj.range->stop), true;
        if (wr_jstr_equals(name, "step")) return *out = wr_jint(obj.range->step), true;
        break;
    case WR_J_BOOL:
    case WR_J_INT:
        if (wr_jstr_equals(name, "real") || wr_jstr_equals(name, "numerator"))
            return *out = wr_jint(wr_jint_of(obj)), true;
        if (wr_jstr_equals(name, "imag")) return *out = wr_jint(0), true;
        if (wr_jstr_equals(name, "denominator")) return *out = wr_jint(1), true;
        break;
    case WR_J_FLOAT:
        if (wr_jstr_equals(name, "real")) return *out = obj, true;
        if (wr_jstr_equals(name, "imag")) return *out = wr_jfloat(0), true;
        break;
    default: break;
    }
    *found = false;
    return true;
}

/* getattr(obj, name), with the sandbox's judgement. */
static bool attribute(wr_jrun *run, wr_jval obj, wr_jval name, wr_jval *out, bool *found) {
    bool changes = false;
    if (!plain_attribute(run, obj, name.s, out, found)) return false;
    if (!*found) {
        const wr_jbuiltin *method = wr_jmethod_find(obj, name.s, &changes);
        *found = method || changes || is_internal(name.s);
        if (method) {
            wr_jmethod *bound = wr_jalloc(run, sizeof *bound);
            if (!bound) return false;
            *bound = (wr_jmethod){.self = obj, .method = method};
            *out = (wr_jval){.type = WR_J_METHOD, .method = bound};
            return true;
        }
    }
    if (*found && (changes || name.s->data[0] == '_') && name.s->bytes) return unsafe(run, obj, name, out);
    return true;
}

/* A key that cannot be hashed is no key: Python's TypeError, which getitem swallows. */
static bool hashable(wr_jval v, int depth) {
    if (v.type == WR_J_LIST || v.type == WR_J_DICT || v.type == WR_J_VIEW || depth > 64) return false;
    for (size_t i = 0; v.type == WR_J_TUPLE && i < v.list->n; i++)
        if (!hashable(v.list->items[i], depth + 1)) return false;
    return true;
}

static bool item_at(wr_jrun *run, wr_jval obj, int64_t i, wr_jval *out, bool *found) {
    int64_t n = 0;
    if (!wr_jlen(run, obj, &n)) return false;
    if (i < 0) i += n;
    *found = i >= 0 && i < n;
    if (!*found) return true;
    if (obj.type == WR_J_STR) return wr_jstr_sub(run, obj.s, (size_t)i, (size_t)i + 1, out);
    *out = obj.type == WR_J_RANGE ? wr_jint(wr_jrange_at(obj.range, i)) : obj.list->items[i];
    return true;
}

/* obj[key] */
static bool item(wr_jrun *run, wr_jval obj, wr_jval key, wr_jval *out, bool *found) {
    wr_jentry *entry;
    *found = false;
    if (obj.type == WR_J_DICT) {
        if (!hashable(key, 0)) return true;
        if (!wr_jdict_find(run, obj.dict, key, &entry)) return false;
        *found = entry != NULL;
        if (entry) *out = entry->value;
        return true;
    }
    if (!wr_jis_int(key) || (!wr_jis_str(obj) && !wr_jis_seq(obj) && obj.type != WR_J_RANGE)) return true;
    return item_at(run, obj, wr_jint_of(key), out, found);
}

bool wr_jgetitem(wr_jrun *run, wr_jval obj, wr_jval key, wr_jval *out) {
    bool found;
    if (obj.type == WR_J_UNDEFINED) return wr_jundefined_fail(run, obj);
    if (!item(run, obj, key, out, &found)) return false;
    if (!found && key.type == WR_J_STR && !attribute(run, obj, key, out, &found)) return false;
    return found || wr_jundefined_of(run, obj, key, out);
}

bool wr_jgetattr(wr_jrun *run, wr_jval obj, wr_jstr *name, wr_jval *out) {
    wr_jval key = {.type = WR_J_STR, .s = name};
    bool found;
    if (obj.type == WR_J_UNDEFINED) return wr_jundefined_fail(run, obj);
    if (!attribute(run, obj, key, out, &found)) return false;
    if (!found && !item(run, obj, key, out, &found)) return false;
    return found || wr_jundefined_of(run, obj, key, out);
}

bool wr_jgetattr_only(wr_jrun *run, wr_jval obj, wr_jval name, wr_jval *out) {
    bool found;
    if (obj.type == WR_J_UNDEFINED) return wr_jundefined_fail(run, obj);
    if (!attribute(run, obj, name, out, &found)) return false;
    return found || wr_jundefined_of(run, obj, name, out);
}
