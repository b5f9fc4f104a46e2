/* jinja2's LoopContext. It looks one item ahead only when `last` or `nextitem` is asked,
 * and walks to the end only for the length of what has none. */
#include "text/jinja/loop.h"

bool wr_jloop_new(wr_jrun *run, wr_jval iterable, int64_t depth0, wr_jloop **out) {
    wr_jloop *loop = wr_jalloc(run, sizeof *loop);
    if (!loop || !wr_jiter_new(run, iterable, &loop->it)) return false;
    loop->iterable = iterable;
    loop->index0 = loop->length = -1;
    loop->depth0 = depth0;
    *out = loop;
    return true;
}

bool wr_jloop_next(wr_jrun *run, wr_jloop *loop, wr_jval *out, bool *has) {
    *has = loop->after.type != WR_J_MISSING;
    if (*has) {
        *out = loop->after;
        loop->after = (wr_jval){0};
    } else if (!wr_jiter_next(run, loop->it, out, has)) {
        return false;
    }
    if (!*has) return true;
    loop->index0++;
    loop->before = loop->current;
    loop->current = *out;
    return true;
}

bool wr_jloop_length(wr_jrun *run, wr_jloop *loop, int64_t *out) {
    wr_jval rest;
    if (loop->length < 0) {
        if (!wr_jlen(run, loop->iterable, &loop->length)) return false;
        if (loop->length < 0) {
            if (!wr_jiter_list(run, (wr_jval){.type = WR_J_ITER, .iter = loop->it}, &rest) ||
                !wr_jiter_new(run, rest, &loop->it))
                return false;
            loop->length = (int64_t)rest.list->n + loop->index0 + 1 + (loop->after.type != WR_J_MISSING);
        }
    }
    *out = loop->length;
    return true;
}

static bool peek(wr_jrun *run, wr_jloop *loop, bool *has) {
    wr_jval next;
    *has = loop->after.type != WR_J_MISSING;
    if (*has) return true;
    if (!wr_jiter_next(run, loop->it, &next, has)) return false;
    if (*has) loop->after = next;
    return true;
}

bool wr_jloop_attribute(wr_jrun *run, wr_jloop *loop, const wr_jstr *name, wr_jval *out, bool *found) {
    static const char *const names[] = {"index",  "index0", "revindex", "revindex0", "first",   "last",
                                        "length", "depth",  "depth0",   "previtem",  "nextitem"};
    size_t i, n = sizeof names / sizeof *names;
    int64_t length = 0;
    bool has = true;
    for (i = 0; i < n; i++)
        if (wr_jstr_equals(name, names[i])) break;
    *found = i < n;
    switch (i) {
    case 0: *out = wr_jint(loop->index0 + 1); return true;
    case 1: *out = wr_jint(loop->index0); return true;
    case 2:
    case 3:
    case 6:
        if (!wr_jloop_length(run, loop, &length)) return false;
        *out = wr_jint(i == 6 ? length : i == 2 ? length - loop->index0 : length - loop->index0 - 1);
        return true;
    case 4: *out = wr_jbool(loop->index0 == 0); return true;
    case 5:
        if (!peek(run, loop, &has)) return false;
        *out = wr_jbool(!has);
        return true;
    case 7: *out = wr_jint(loop->depth0 + 1); return true;
    case 8: *out = wr_jint(loop->depth0); return true;
    case 9:
        if (loop->index0 == 0) return wr_jundefined_hint(run, "there is no previous item", out);
        *out = loop->before;
        return true;
    case 10:
        if (!peek(run, loop, &has)) return false;
        if (!has) return wr_jundefined_hint(run, "there is no next item", out);
        *out = loop->after;
        return true;
    default: return true;
    }
}
