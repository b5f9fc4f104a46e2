/* The iterators of the built-in types. */
#include "text/jinja/iter.h"

#include <string.h>

#include "text/jinja/loop.h"
#include "text/unicode.h"

void *wr_jiter_alloc(wr_jrun *run, size_t bytes, const char *type_name,
                     bool (*next)(wr_jrun *, wr_jiter *, wr_jval *, bool *), wr_jval source) {
    wr_jiter *it = wr_jalloc(run, bytes);
    if (!it) return NULL;
    it->next = next;
    it->type_name = type_name;
    it->source = source;
    return it;
}

bool wr_jiter_next(wr_jrun *run, wr_jiter *it, wr_jval *out, bool *has) {
    *has = false;
    if (it->done) return true;
    if (!wr_jcharge(run, 0) || !it->next(run, it, out, has)) return false;
    it->started = true;
    it->done = !*has;
    return true;
}

static bool next_of_list(wr_jrun *run, wr_jiter *it, wr_jval *out, bool *has) {
    (void)run;
    const wr_jlist *list = it->source.list;
    *has = it->at < list->n;
    if (*has) *out = list->items[it->at++];
    return true;
}

static bool next_char(wr_jrun *run, wr_jiter *it, wr_jval *out, bool *has) {
    const wr_jstr *s = it->source.s;
    uint32_t cp;
    *has = it->at < s->bytes;
    if (!*has) return true;
    size_t n = (size_t)wr_utf8_get((const uint8_t *)s->data + it->at, &cp);
    if (!wr_jstr_view(run, s->data + it->at, n, out)) return false;
    it->at += n;
    return true;
}

static bool entry_value(wr_jrun *run, const wr_jentry *e, wr_jview_kind kind, wr_jval *out) {
    if (kind != WR_J_ITEMS) {
        *out = kind == WR_J_KEYS ? e->key : e->value;
        return true;
    }
    if (!wr_jlist_new(run, WR_J_TUPLE, 2, out)) return false;
    out->list->items[0] = e->key;
    out->list->items[1] = e->value;
    return true;
}

static const wr_jdict *dict_of(wr_jval v, wr_jview_kind *kind) {
    *kind = v.type == WR_J_VIEW ? v.view->kind : WR_J_KEYS;
    return v.type == WR_J_VIEW ? v.view->dict : v.dict;
}

static bool next_of_dict(wr_jrun *run, wr_jiter *it, wr_jval *out, bool *has) {
    wr_jview_kind kind;
    const wr_jdict *dict = dict_of(it->source, &kind);
    *has = it->at < dict->n;
    return !*has || entry_value(run, &dict->entries[it->at++], kind, out);
}

static bool next_of_range(wr_jrun *run, wr_jiter *it, wr_jval *out, bool *has) {
    (void)run;
    const wr_jrange *r = it->source.range;
    *has = (int64_t)it->at < r->n;
    if (*has) *out = wr_jint(wr_jrange_at(r, (int64_t)it->at++));
    return true;
}

static bool next_of_none(wr_jrun *run, wr_jiter *it, wr_jval *out, bool *has) {
    (void)run, (void)it, (void)out;
    *has = false;
    return true;
}

/* A loop is its own iterator: item and loop in turn, as Python code in a template can
 * only reach by walking `loop` itself. */
static bool next_of_loop(wr_jrun *run, wr_jiter *it, wr_jval *out, bool *has) {
    wr_jval item;
    if (!wr_jloop_next(run, it->source.loop, &item, has)) return false;
    if (!*has) return true;
    if (!wr_jlist_new(run, WR_J_TUPLE, 2, out)) return false;
    out->list->items[0] = item;
    out->list->items[1] = it->source;
    return true;
}

bool wr_jiterable(wr_jval v) {
    switch (v.type) {
    case WR_J_UNDEFINED:
    case WR_J_STR:
    case WR_J_LIST:
    case WR_J_TUPLE:
    case WR_J_DICT:
    case WR_J_VIEW:
    case WR_J_RANGE:
    case WR_J_ITER:
    case WR_J_LOOP: return true;
    default: return false;
    }
}

bool wr_jiter_new(wr_jrun *run, wr_jval v, wr_jiter **out) {
    bool (*next)(wr_jrun *, wr_jiter *, wr_jval *, bool *) = NULL;
    const char *name = "generator";
    switch (v.type) {
    case WR_J_ITER: *out = v.iter; return true;
    case WR_J_UNDEFINED: next = next_of_none; break;
    case WR_J_STR: next = next_char, name = "str_iterator"; break;
    case WR_J_LIST: next = next_of_list, name = "list_iterator"; break;
    case WR_J_TUPLE: next = next_of_list, name = "tuple_iterator"; break;
    case WR_J_DICT:
    case WR_J_VIEW: next = next_of_dict, name = "dict_keyiterator"; break;
    case WR_J_RANGE: next = next_of_range, name = "range_iterator"; break;
    case WR_J_LOOP: next = next_of_loop, name = "LoopContext"; break;
    default: return WR_JERROR(run, "'%s' object is not iterable", wr_jtype_name(v));
    }
    *out = wr_jiter_alloc(run, sizeof **out, name, next, v);
    return *out != NULL;
}

static bool next_back(wr_jrun *run, wr_jiter *it, wr_jval *out, bool *has) {
    wr_jview_kind kind;
    const wr_jdict *dict;
    wr_jval v = it->source;
    *has = it->at > 0;
    if (!*has) return true;
    it->at--;
    switch (v.type) {
    case WR_J_LIST:
    case WR_J_TUPLE: *out = v.list->items[it->at]; return true;
    case WR_J_RANGE: *out = wr_jint(wr_jrange_at(v.range, (int64_t)it->at)); return true;
    default: dict = dict_of(v, &kind); return entry_value(run, &dict->entries[it->at], kind, out);
    }
}

/* Texts too: reversed() of one walks characters. */
static bool next_char_back(wr_jrun *run, wr_jiter *it, wr_jval *out, bool *has) {
    const wr_jstr *s = it->source.s;
    *has = it->at > 0;
    if (!*has) return true;
    size_t begin = wr_utf8_back((const uint8_t *)s->data, it->at);
    if (!wr_jstr_view(run, s->data + begin, it->at - begin, out)) return false;
    it->at = begin;
    return true;
}

bool wr_jiter_reversed(wr_jrun *run, wr_jval v, wr_jiter **out) {
    size_t n;
    const char *name = "reversed";
    *out = NULL;
    switch (v.type) {
    case WR_J_STR: n = v.s->bytes; break;
    case WR_J_LIST: n = v.list->n, name = "list_reverseiterator"; break;
    case WR_J_TUPLE: n = v.list->n; break;
    case WR_J_DICT: n = v.dict->n, name = "dict_reversekeyiterator"; break;
    case WR_J_VIEW: n = v.view->dict->n, name = "dict_reversekeyiterator"; break;
    case WR_J_RANGE: n = (size_t)v.range->n, name = "range_iterator"; break;
    default: return true;
    }
    *out = wr_jiter_alloc(run, sizeof **out, name, v.type == WR_J_STR ? next_char_back : next_back, v);
    if (!*out) return false;
    (*out)->at = n;
    return true;
}

bool wr_jiter_list(wr_jrun *run, wr_jval v, wr_jval *out) {
    wr_jitems items = {0};
    wr_jiter *it;
    wr_jval item;
    bool has = true;
    if (wr_jis_seq(v)) { /* a copy: lists never change, but who compares objects sees two */
        if (!wr_jlist_new(run, WR_J_LIST, v.list->n, out)) return false;
        if (v.list->n) memcpy(out->list->items, v.list->items, v.list->n * sizeof *v.list->items);
        return true;
    }
    if (!wr_jiter_new(run, v, &it)) return false;
    while (has) {
        if (!wr_jiter_next(run, it, &item, &has) || (has && !wr_jitems_add(run, &items, item))) return false;
    }
    return wr_jitems_list(run, &items, WR_J_LIST, out);
}
