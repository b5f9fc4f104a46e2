/* Making values, and their plainest questions: type, truth, length, equality. */
#include "text/jinja/value.h"

#include <math.h>
#include <string.h>

#include "text/jinja/iter.h"
#include "text/jinja/loop.h"
#include "text/unicode.h"

/* ---- texts ---- */

bool wr_jstr_view(wr_jrun *run, const char *data, size_t bytes, wr_jval *out) {
    wr_jstr *s = wr_jalloc(run, sizeof *s);
    if (!s) return false;
    *s = (wr_jstr){.data = bytes ? data : "", .bytes = bytes, .chars = bytes ? SIZE_MAX : 0};
    *out = (wr_jval){.type = WR_J_STR, .s = s};
    if (run->shared) {
        wr_jstr_chars(s);
        wr_jstr_hash(s);
    }
    return true;
}

bool wr_jstr_dup(wr_jrun *run, const char *data, size_t bytes, wr_jval *out) {
    char *copy = wr_jtext(run, bytes);
    if (!copy) return false;
    if (bytes) memcpy(copy, data, bytes);
    return wr_jstr_view(run, copy, bytes, out);
}

bool wr_jbuf_str(wr_jrun *run, wr_jbuf *buf, wr_jval *out) {
    wr_jtext_cut(run, buf->data, buf->cap, buf->n);
    bool done = wr_jstr_view(run, buf->data, buf->n, out);
    *buf = (wr_jbuf){0};
    return done;
}

bool wr_jstr_mark(wr_jrun *run, wr_jval v, bool markup, wr_jval *out) {
    wr_jstr *s = v.s;
    *out = v;
    if (s->markup == markup) return true;
    if (!wr_jstr_view(run, s->data, s->bytes, out)) return false;
    out->s->markup = markup;
    return true;
}

bool wr_jstr_same(const wr_jstr *a, const wr_jstr *b) {
    return a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0;
}

bool wr_jstr_equals(const wr_jstr *s, const char *text) {
    return s->bytes == strlen(text) && memcmp(s->data, text, s->bytes) == 0;
}

bool wr_jstr_is(wr_jval v, const char *text) { return v.type == WR_J_STR && wr_jstr_equals(v.s, text); }

size_t wr_jstr_chars(wr_jstr *s) {
    if (s->chars != SIZE_MAX) return s->chars;
    return s->chars = wr_utf8_count((const uint8_t *)s->data, s->bytes);
}

size_t wr_jstr_byte(wr_jstr *s, size_t i) {
    size_t chars = wr_jstr_chars(s), at = 0;
    if (chars == s->bytes || i == 0) return i;
    if (i == chars) return s->bytes;
    if (i > chars / 2) { /* from the end */
        for (at = s->bytes; i < chars; i++) at = wr_utf8_back((const uint8_t *)s->data, at);
        return at;
    }
    uint32_t cp;
    while (i--) at += (size_t)wr_utf8_get((const uint8_t *)s->data + at, &cp);
    return at;
}

bool wr_jstr_sub(wr_jrun *run, wr_jstr *s, size_t begin, size_t end, wr_jval *out) {
    if (!wr_jcharge(run, wr_jstr_ascii(s) ? 0 : s->bytes)) return false;
    size_t from = wr_jstr_byte(s, begin), to = wr_jstr_byte(s, end);
    if (!wr_jstr_view(run, s->data + from, to - from, out)) return false;
    out->s->chars = end - begin;
    out->s->markup = s->markup;
    return true;
}

bool wr_jchar_is_space(uint32_t cp) { return wr_char_is_space(cp) || (cp >= 0x1C && cp <= 0x1F); }

/* ---- lists ---- */

bool wr_jlist_new(wr_jrun *run, wr_jtype type, size_t n, wr_jval *out) {
    wr_jlist *list = wr_jalloc(run, sizeof *list);
    if (!list) return false;
    list->items = wr_jalloc_n(run, n, sizeof *list->items);
    if (!list->items) return false;
    list->n = n;
    *out = (wr_jval){.type = type, .list = list};
    return true;
}

bool wr_jitems_add(wr_jrun *run, wr_jitems *items, wr_jval v) {
    if (!wr_jgrow(run, &items->at, &items->cap, items->n, 8, sizeof *items->at)) return false;
    items->at[items->n++] = v;
    return true;
}

bool wr_jitems_list(wr_jrun *run, wr_jitems *items, wr_jtype type, wr_jval *out) {
    wr_jlist *list = wr_jalloc(run, sizeof *list);
    if (!list) return false;
    list->items = items->at;
    list->n = items->n;
    *out = (wr_jval){.type = type, .list = list};
    return true;
}

/* ---- undefined ---- */

static bool new_undefined(wr_jrun *run, wr_jval obj, wr_jval name, wr_jval *out) {
    wr_jundefined *u = wr_jalloc(run, sizeof *u);
    if (!u) return false;
    u->obj = obj;
    u->name = name;
    *out = (wr_jval){.type = WR_J_UNDEFINED, .undefined = u};
    return true;
}

bool wr_jundefined_name(wr_jrun *run, wr_jval name, wr_jval *out) {
    return new_undefined(run, (wr_jval){0}, name, out);
}
bool wr_jundefined_of(wr_jrun *run, wr_jval obj, wr_jval name, wr_jval *out) {
    return new_undefined(run, obj, name, out);
}
bool wr_jundefined_hint(wr_jrun *run, const char *hint, wr_jval *out) {
    wr_jval text;
    if (!wr_jstr_dup(run, hint, strlen(hint), &text) || !new_undefined(run, (wr_jval){0}, (wr_jval){0}, out))
        return false;
    out->undefined->hint = text.s;
    return true;
}

/* ---- questions ---- */

const char *wr_jtype_name(wr_jval v) {
    switch (v.type) {
    case WR_J_MISSING: return "missing";
    case WR_J_UNDEFINED: return "Undefined";
    case WR_J_NONE: return "NoneType";
    case WR_J_BOOL: return "bool";
    case WR_J_INT: return "int";
    case WR_J_FLOAT: return "float";
    case WR_J_STR: return v.s->markup ? "Markup" : "str";
    case WR_J_LIST: return "list";
    case WR_J_TUPLE: return "tuple";
    case WR_J_DICT: return "dict";
    case WR_J_VIEW:
        return v.view->kind == WR_J_KEYS ? "dict_keys" : v.view->kind == WR_J_VALUES ? "dict_values" : "dict_items";
    case WR_J_RANGE: return "range";
    case WR_J_ITER: return v.iter->type_name;
    case WR_J_NAMESPACE: return "Namespace";
    case WR_J_LOOP: return "LoopContext";
    case WR_J_CYCLER: return "Cycler";
    case WR_J_JOINER: return "Joiner";
    case WR_J_MACRO: return "Macro";
    case WR_J_FUNCTION: return "function";
    case WR_J_METHOD: return "builtin_function_or_method";
    }
    return "object";
}

bool wr_jlen(wr_jrun *run, wr_jval v, int64_t *out) {
    switch (v.type) {
    case WR_J_UNDEFINED: *out = 0; return true;
    case WR_J_STR: *out = (int64_t)wr_jstr_chars(v.s); return wr_jcharge(run, v.s->bytes);
    case WR_J_LIST:
    case WR_J_TUPLE: *out = (int64_t)v.list->n; return true;
    case WR_J_DICT: *out = (int64_t)v.dict->n; return true;
    case WR_J_VIEW: *out = (int64_t)v.view->dict->n; return true;
    case WR_J_RANGE: *out = v.range->n; return true;
    case WR_J_LOOP: return wr_jloop_length(run, v.loop, out);
    default: *out = -1; return true;
    }
}

bool wr_jtruth(wr_jrun *run, wr_jval v, bool *out) {
    int64_t n;
    switch (v.type) {
    case WR_J_MISSING:
    case WR_J_UNDEFINED:
    case WR_J_NONE: *out = false; return true;
    case WR_J_BOOL: *out = v.b; return true;
    case WR_J_INT: *out = v.i != 0; return true;
    case WR_J_FLOAT: *out = v.f != 0; return true;
    case WR_J_STR: *out = v.s->bytes != 0; return true;
    default:
        if (!wr_jlen(run, v, &n)) return false;
        *out = n != 0;
        return true;
    }
}

bool wr_jsame(wr_jval a, wr_jval b) {
    if (a.type != b.type) return false;
    switch (a.type) {
    case WR_J_MISSING:
    case WR_J_NONE: return true;
    case WR_J_BOOL: return a.b == b.b;
    case WR_J_INT: return a.i == b.i;
    case WR_J_FLOAT: return a.f == b.f;
    case WR_J_STR: /* equal texts: Python shares those that come from the template */
        return a.s == b.s || (a.s->markup == b.s->markup && wr_jstr_same(a.s, b.s));
    default: return a.list == b.list;
    }
}

/* An int and a float: -1, 0, 1; 2 when there is no order (NaN). Exact beyond 2^53. */
static int order_numbers(wr_jval a, wr_jval b) {
    if (wr_jis_int(a) && wr_jis_int(b)) {
        int64_t x = wr_jint_of(a), y = wr_jint_of(b);
        return (x > y) - (x < y);
    }
    if (wr_jis_int(a)) {
        int order = order_numbers(b, a);
        return order == 2 ? 2 : -order;
    }
    double x = a.f;
    if (isnan(x)) return 2;
    if (!wr_jis_int(b)) return isnan(b.f) ? 2 : (x > b.f) - (x < b.f);
    if (x >= 0x1p63) return 1;
    if (x < -0x1p63) return -1;
    int64_t whole = (int64_t)x, y = wr_jint_of(b);
    if (whole != y) return whole > y ? 1 : -1;
    double rest = x - (double)whole;
    return (rest > 0) - (rest < 0);
}

static int order_texts(const wr_jstr *a, const wr_jstr *b) {
    /* UTF-8 sorts as code points do. */
    int order = memcmp(a->data, b->data, a->bytes < b->bytes ? a->bytes : b->bytes);
    return order ? order : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static bool equal_lists(wr_jrun *run, const wr_jlist *a, const wr_jlist *b, bool *out) {
    *out = a->n == b->n;
    for (size_t i = 0; *out && i < a->n; i++)
        if (!wr_jequal(run, a->items[i], b->items[i], out)) return false;
    return true;
}

static bool equal_dicts(wr_jrun *run, const wr_jdict *a, const wr_jdict *b, bool *out) {
    *out = a->n == b->n;
    for (size_t i = 0; *out && i < a->n; i++) {
        wr_jentry *other;
        if (!wr_jdict_find(run, b, a->entries[i].key, &other)) return false;
        *out = other != NULL;
        if (other && !wr_jequal(run, a->entries[i].value, other->value, out)) return false;
    }
    return true;
}

static bool equal_ranges(const wr_jrange *a, const wr_jrange *b) {
    return a->n == b->n && (a->n == 0 || (a->start == b->start && (a->n == 1 || a->step == b->step)));
}

bool wr_jequal(wr_jrun *run, wr_jval a, wr_jval b, bool *out) {
    bool done = true;
    if (!wr_jcharge(run, 0)) return false;
    if (wr_jis_number(a) && wr_jis_number(b)) {
        *out = order_numbers(a, b) == 0;
        return true;
    }
    *out = false;
    if (a.type != b.type) return true;
    switch (a.type) {
    case WR_J_NONE:
    case WR_J_UNDEFINED: *out = true; return true;
    case WR_J_STR: *out = wr_jstr_same(a.s, b.s); return wr_jcharge(run, a.s->bytes);
    case WR_J_LIST:
    case WR_J_TUPLE:
    case WR_J_DICT:
        if (a.list == b.list) { /* the same object; a NaN in it equals itself, as in Python */
            *out = true;
            return true;
        }
        if (!wr_jenter(run)) return false;
        done = a.type == WR_J_DICT ? equal_dicts(run, a.dict, b.dict, out) : equal_lists(run, a.list, b.list, out);
        wr_jleave(run);
        return done;
    case WR_J_RANGE: *out = equal_ranges(a.range, b.range); return true;
    case WR_J_VIEW:
        if (a.view->kind != WR_J_VALUES)
            return wr_jfail(run, WEIR_E_UNSUPPORTED, "views of dicts cannot be compared; compare lists of them");
        *out = a.view == b.view;
        return true;
    case WR_J_METHOD:
        *out = a.method->method == b.method->method && wr_jsame(a.method->self, b.method->self);
        return true;
    default: *out = wr_jsame(a, b); return true;
    }
}

static bool order_lists(wr_jrun *run, const wr_jlist *a, const wr_jlist *b, char op, bool *out) {
    size_t n = a->n < b->n ? a->n : b->n;
    for (size_t i = 0; i < n; i++) {
        bool same = wr_jsame(a->items[i], b->items[i]);
        if (!same && !wr_jequal(run, a->items[i], b->items[i], &same)) return false;
        if (!same) return wr_jcompare(run, a->items[i], b->items[i], op, out);
    }
    *out = op == '<' ? a->n < b->n : op == 'l' ? a->n <= b->n : op == '>' ? a->n > b->n : a->n >= b->n;
    return true;
}

bool wr_jcompare(wr_jrun *run, wr_jval a, wr_jval b, char op, bool *out) {
    int order;
    if (!wr_jcharge(run, 0)) return false;
    if (a.type == WR_J_UNDEFINED) return wr_jundefined_fail(run, a);
    if (b.type == WR_J_UNDEFINED) return wr_jundefined_fail(run, b);
    if (wr_jis_number(a) && wr_jis_number(b)) {
        order = order_numbers(a, b);
    } else if (wr_jis_str(a) && wr_jis_str(b)) {
        if (!wr_jcharge(run, a.s->bytes)) return false;
        order = order_texts(a.s, b.s);
    } else if (wr_jis_seq(a) && a.type == b.type) {
        if (!wr_jenter(run)) return false;
        bool done = order_lists(run, a.list, b.list, op, out);
        wr_jleave(run);
        return done;
    } else {
        const char *sign = op == '<' ? "<" : op == 'l' ? "<=" : op == '>' ? ">" : ">=";
        return WR_JERROR(run, "'%s' not supported between instances of '%s' and '%s'", sign, wr_jtype_name(a),
                         wr_jtype_name(b));
    }
    *out = order != 2 && (op == '<' ? order < 0 : op == 'l' ? order <= 0 : op == '>' ? order > 0 : order >= 0);
    return true;
}

/* ---- membership ---- */

static bool in_text(wr_jrun *run, wr_jval box, wr_jval item, bool *out) {
    if (item.type != WR_J_STR) {
        if (item.type == WR_J_UNDEFINED)
            return WR_JERROR(run, "'in <string>' requires string as left operand, not Undefined");
        return WR_JERROR(run, "'in <string>' requires string as left operand, not %s", wr_jtype_name(item));
    }
    *out = memmem(box.s->data, box.s->bytes, item.s->data, item.s->bytes) != NULL;
    return wr_jcharge(run, box.s->bytes + item.s->bytes);
}

static bool in_view(wr_jrun *run, const wr_jview *view, wr_jval item, bool *out) {
    wr_jentry *entry;
    bool is_item = view->kind == WR_J_ITEMS;
    *out = false;
    if (is_item && (item.type != WR_J_TUPLE || item.list->n != 2)) return true;
    if (!wr_jdict_find(run, view->dict, is_item ? item.list->items[0] : item, &entry)) return false;
    *out = entry != NULL;
    return !entry || !is_item || wr_jequal(run, entry->value, item.list->items[1], out);
}

bool wr_jcontains(wr_jrun *run, wr_jval box, wr_jval item, bool *out) {
    wr_jentry *entry;
    wr_jiter *it;
    wr_jval v;
    bool has;
    if (box.type == WR_J_STR) return in_text(run, box, item, out);
    if (box.type == WR_J_DICT) {
        if (!wr_jdict_find(run, box.dict, item, &entry)) return false;
        *out = entry != NULL;
        return true;
    }
    if (box.type == WR_J_VIEW && box.view->kind != WR_J_VALUES) return in_view(run, box.view, item, out);
    if (!wr_jiterable(box)) return WR_JERROR(run, "argument of type '%s' is not iterable", wr_jtype_name(box));
    if (!wr_jiter_new(run, box, &it)) return false;
    for (*out = false; !*out;) {
        if (!wr_jiter_next(run, it, &v, &has)) return false;
        if (!has) return true;
        *out = wr_jsame(v, item);
        if (!*out && !wr_jequal(run, v, item, out)) return false;
    }
    return true;
}
