/* The methods of texts that search, cut and join. */
#include <string.h>

#include "text/jinja/case.h"
#include "text/jinja/format.h"
#include "text/jinja/ops.h"
#include "text/jinja/show.h"
#include "text/jinja/text.h"
#include "text/unicode.h"

/* ---- searching ---- */

/* start and end of find and the like, as bytes; *none: they hold nothing at all. */
static bool bounds(wr_jrun *run, const wr_jcall *c, size_t *from, size_t *to, bool *none) {
    int64_t n = (int64_t)wr_jstr_chars(c->self.s), start = 0, end = n;
    if (wr_jgiven(c->args[1]) && !wr_jarg_int(run, c->args[1], 0, &start)) return false;
    if (wr_jgiven(c->args[2]) && !wr_jarg_int(run, c->args[2], n, &end)) return false;
    if (end > n) end = n;
    if (end < 0) end = end + n < 0 ? 0 : end + n;
    if (start < 0) start = start + n < 0 ? 0 : start + n;
    *none = start > end;
    if (*none) return true;
    *from = wr_jstr_byte(c->self.s, (size_t)start);
    *to = wr_jstr_byte(c->self.s, (size_t)end);
    return wr_jcharge(run, wr_jstr_ascii(c->self.s) ? 0 : c->self.s->bytes);
}

static size_t chars_in(const wr_jstr *s, size_t from, size_t to) {
    return wr_utf8_count((const uint8_t *)s->data + from, to - from);
}

static bool search(wr_jrun *run, const wr_jcall *c, bool last, bool must, wr_jval *out) {
    size_t from = 0, to = 0, at = SIZE_MAX;
    bool none;
    if (!wr_jarg_str(run, c->args[0], "argument") || !bounds(run, c, &from, &to, &none)) return false;
    if (!none) at = wr_jfind(c->self.s, from, to, c->args[0].s, last);
    if (!wr_jcharge(run, last ? (to - from) * (1 + c->args[0].s->bytes / 8) : to - from)) return false;
    if (at == SIZE_MAX && must) return WR_JERROR(run, "substring not found");
    *out = wr_jint(at == SIZE_MAX ? -1 : (int64_t)chars_in(c->self.s, 0, at));
    return true;
}
static bool str_find(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return search(run, c, false, false, out); }
static bool str_rfind(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return search(run, c, true, false, out); }
static bool str_index(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return search(run, c, false, true, out); }
static bool str_rindex(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return search(run, c, true, true, out); }

static bool str_count(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    size_t from = 0, to = 0;
    int64_t n = 0;
    bool none;
    if (!wr_jarg_str(run, c->args[0], "argument") || !bounds(run, c, &from, &to, &none)) return false;
    const wr_jstr *what = c->args[0].s;
    if (!none && !what->bytes) {
        n = (int64_t)chars_in(c->self.s, from, to) + 1;
    } else if (!none) {
        while ((from = wr_jfind(c->self.s, from, to, what, false)) != SIZE_MAX) from += what->bytes, n++;
    }
    *out = wr_jint(n);
    return wr_jcharge(run, c->self.s->bytes);
}

/* Does the text within the bounds begin, or end, with this? */
static bool affix(wr_jrun *run, const wr_jcall *c, bool end, wr_jval *out) {
    size_t from = 0, to = 0;
    bool none, found = false;
    wr_jval what = c->args[0];
    const wr_jval *options = what.type == WR_J_TUPLE ? what.list->items : &what;
    size_t n = what.type == WR_J_TUPLE ? what.list->n : 1;
    if (!bounds(run, c, &from, &to, &none)) return false;
    for (size_t i = 0; i < n && !found; i++) {
        if (options[i].type != WR_J_STR)
            return WR_JERROR(run, "%swith first arg must be str or a tuple of str, not %s", end ? "ends" : "starts",
                             wr_jtype_name(options[i]));
        const wr_jstr *s = options[i].s;
        found = !none && s->bytes <= to - from &&
                memcmp(c->self.s->data + (end ? to - s->bytes : from), s->data, s->bytes) == 0;
        if (!wr_jcharge(run, s->bytes)) return false;
    }
    *out = wr_jbool(found);
    return true;
}
static bool str_startswith(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return affix(run, c, false, out); }
static bool str_endswith(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return affix(run, c, true, out); }

/* ---- cutting ---- */

static bool part(wr_jrun *run, const wr_jstr *s, size_t from, size_t to, wr_jval *out) {
    if (!wr_jstr_view(run, s->data + from, to - from, out)) return false;
    out->s->markup = s->markup;
    return true;
}

static bool add_part(wr_jrun *run, wr_jitems *items, const wr_jstr *s, size_t from, size_t to) {
    wr_jval v;
    return part(run, s, from, to, &v) && wr_jitems_add(run, items, v);
}

static bool split_spaces(wr_jrun *run, const wr_jstr *s, int64_t max, wr_jitems *items) {
    const uint8_t *p = (const uint8_t *)s->data;
    uint32_t cp;
    size_t at = 0;
    for (;;) {
        size_t n = 0;
        while (at < s->bytes && (n = (size_t)wr_utf8_get(p + at, &cp), wr_jchar_is_space(cp))) at += n;
        if (at >= s->bytes) return true;
        /* The rest, with the spaces at its end. */
        if (max >= 0 && (int64_t)items->n >= max) return add_part(run, items, s, at, s->bytes);
        size_t from = at;
        while (at < s->bytes && (n = (size_t)wr_utf8_get(p + at, &cp), !wr_jchar_is_space(cp))) at += n;
        if (!add_part(run, items, s, from, at)) return false;
    }
}

/* As split_spaces from the end; items come in reverse. */
static bool rsplit_spaces(wr_jrun *run, const wr_jstr *s, int64_t max, wr_jitems *items) {
    const uint8_t *p = (const uint8_t *)s->data;
    uint32_t cp;
    size_t at = s->bytes, back;
    for (;;) {
        while (at > 0 && (back = wr_utf8_back(p, at), wr_utf8_get(p + back, &cp), wr_jchar_is_space(cp))) at = back;
        if (at == 0) return true;
        if (max >= 0 && (int64_t)items->n >= max) return add_part(run, items, s, 0, at);
        size_t end = at;
        while (at > 0 && (back = wr_utf8_back(p, at), wr_utf8_get(p + back, &cp), !wr_jchar_is_space(cp))) at = back;
        if (!add_part(run, items, s, at, end)) return false;
    }
}

static bool split(wr_jrun *run, const wr_jcall *c, bool right, wr_jval *out) {
    wr_jstr *s = c->self.s;
    wr_jitems items = {0};
    int64_t max;
    if (!wr_jarg_int(run, c->args[1], -1, &max) || !wr_jcharge(run, s->bytes)) return false;
    if (!wr_jgiven(c->args[0])) {
        if (!(right ? rsplit_spaces(run, s, max, &items) : split_spaces(run, s, max, &items))) return false;
    } else {
        if (!wr_jarg_str(run, c->args[0], "sep")) return false;
        const wr_jstr *sep = c->args[0].s;
        if (!sep->bytes) return WR_JERROR(run, "empty separator");
        size_t from = 0, to = s->bytes, at;
        while ((max < 0 || (int64_t)items.n < max) && (at = wr_jfind(s, from, to, sep, right)) != SIZE_MAX) {
            if (!(right ? add_part(run, &items, s, at + sep->bytes, to) : add_part(run, &items, s, from, at)))
                return false;
            if (right)
                to = at;
            else
                from = at + sep->bytes;
        }
        if (!add_part(run, &items, s, from, to)) return false;
    }
    for (size_t i = 0; right && i < items.n / 2; i++) {
        wr_jval v = items.at[i];
        items.at[i] = items.at[items.n - 1 - i];
        items.at[items.n - 1 - i] = v;
    }
    return wr_jitems_list(run, &items, WR_J_LIST, out);
}
static bool str_split(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return split(run, c, false, out); }
static bool str_rsplit(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return split(run, c, true, out); }

static bool str_splitlines(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    bool keep;
    return wr_jarg_bool(run, c->args[0], false, &keep) && wr_jsplit_lines(run, c->self.s, keep, out);
}

static bool partition(wr_jrun *run, const wr_jcall *c, bool right, wr_jval *out) {
    wr_jstr *s = c->self.s;
    if (!wr_jarg_str(run, c->args[0], "sep")) return false;
    const wr_jstr *sep = c->args[0].s;
    if (!sep->bytes) return WR_JERROR(run, "empty separator");
    size_t at = wr_jfind(s, 0, s->bytes, sep, right), end = at + sep->bytes;
    if (at == SIZE_MAX) at = end = right ? 0 : s->bytes;
    if (!wr_jlist_new(run, WR_J_TUPLE, 3, out) || !wr_jcharge(run, s->bytes)) return false;
    return part(run, s, 0, at, &out->list->items[0]) && part(run, s, at, end, &out->list->items[1]) &&
           part(run, s, end, s->bytes, &out->list->items[2]);
}
static bool str_partition(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return partition(run, c, false, out); }
static bool str_rpartition(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return partition(run, c, true, out); }

static bool str_strip(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    return wr_jstrip(run, c->self, c->args[0], 'b', out);
}
static bool str_lstrip(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    return wr_jstrip(run, c->self, c->args[0], 'l', out);
}
static bool str_rstrip(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    return wr_jstrip(run, c->self, c->args[0], 'r', out);
}

static bool remove_affix(wr_jrun *run, const wr_jcall *c, bool end, wr_jval *out) {
    const wr_jstr *s = c->self.s;
    if (!wr_jarg_str(run, c->args[0], "argument")) return false;
    const wr_jstr *what = c->args[0].s;
    *out = c->self;
    if (what->bytes > s->bytes || memcmp(s->data + (end ? s->bytes - what->bytes : 0), what->data, what->bytes) != 0)
        return true;
    return part(run, s, end ? 0 : what->bytes, end ? s->bytes - what->bytes : s->bytes, out);
}
static bool str_removeprefix(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return remove_affix(run, c, false, out); }
static bool str_removesuffix(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return remove_affix(run, c, true, out); }

/* ---- making ---- */

static bool str_replace(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    wr_jval with = c->args[1];
    wr_jbuf escaped = {0};
    int64_t count;
    if (!wr_jarg_str(run, c->args[0], "replace() argument 1") || !wr_jarg_str(run, with, "replace() argument 2") ||
        !wr_jarg_int(run, c->args[2], -1, &count))
        return false;
    if (c->self.s->markup && !with.s->markup &&
        (!wr_jescape(run, with.s, &escaped) || !wr_jbuf_str(run, &escaped, &with)))
        return false;
    return wr_jreplace(run, c->self.s, c->args[0].s, with.s, count, c->self.s->markup, out);
}

static bool str_join(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    return wr_jjoin(run, c->self, c->args[0], false, out);
}

static bool pad(wr_jrun *run, const wr_jcall *c, char align, wr_jval *out) {
    static const wr_jstr space = {.data = " ", .bytes = 1, .chars = 1};
    const wr_jstr *fill = &space;
    int64_t width;
    if (!wr_jarg_int(run, c->args[0], 0, &width)) return false;
    if (c->args[1].type != WR_J_MISSING) {
        if (!wr_jarg_str(run, c->args[1], "fillchar")) return false;
        if (wr_jstr_chars(c->args[1].s) != 1)
            return WR_JERROR(run, "The fill character must be exactly one character long");
        fill = c->args[1].s;
    }
    return wr_jcenter(run, c->self.s, width, fill, align, out);
}
static bool str_center(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return pad(run, c, '^', out); }
static bool str_ljust(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return pad(run, c, '<', out); }
static bool str_rjust(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return pad(run, c, '>', out); }

static bool str_zfill(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    wr_jstr *s = c->self.s;
    wr_jbuf buf = {0};
    int64_t width;
    if (!wr_jarg_int(run, c->args[0], 0, &width)) return false;
    int64_t chars = (int64_t)wr_jstr_chars(s);
    size_t sign = s->bytes && (s->data[0] == '-' || s->data[0] == '+'),
           zeros = width > chars ? (size_t)(width - chars) : 0;
    if (!wr_jbuf_add(run, &buf, s->data, sign) || !wr_jbuf_fill(run, &buf, "0", 1, zeros) ||
        !wr_jbuf_add(run, &buf, s->data + sign, s->bytes - sign) || !wr_jbuf_str(run, &buf, out))
        return false;
    out->s->markup = s->markup;
    return true;
}

static bool str_expandtabs(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    const wr_jstr *s = c->self.s;
    wr_jbuf buf = {0};
    int64_t size, column = 0;
    if (!wr_jarg_int(run, c->args[0], 8, &size)) return false;
    for (size_t at = 0; at < s->bytes; at++) {
        char ch = s->data[at];
        if (ch == '\t') {
            size_t n = size > 0 ? (size_t)(size - column % size) : 0;
            if (!wr_jbuf_fill(run, &buf, " ", 1, n)) return false;
            column += (int64_t)n;
            continue;
        }
        if (!wr_jbuf_add(run, &buf, &ch, 1)) return false;
        column += ((uint8_t)ch & 0xC0) != 0x80;
        if (ch == '\n' || ch == '\r') column = 0;
    }
    if (!wr_jbuf_str(run, &buf, out)) return false;
    out->s->markup = s->markup;
    return true;
}

static bool str_format(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return wr_jformat_call(run, c->self, c, out); }
static bool str_format_map(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    return wr_jformat_map(run, c->self, c->args[0], out);
}

static bool no_bytes(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    (void)c, (void)out;
    return wr_jfail(run, WEIR_E_UNSUPPORTED, "the methods encode, translate and maketrans of texts are not supported");
}

static const wr_jbuiltin methods[] = {
    {"strip", "chars", -1, str_strip},
    {"split", "sep maxsplit", 0, str_split},
    {"startswith", "prefix start end", -2, str_startswith},
    {"endswith", "suffix start end", -2, str_endswith},
    {"replace", "old new count", -3, str_replace},
    {"lstrip", "chars", -1, str_lstrip},
    {"rstrip", "chars", -1, str_rstrip},
    {"join", "iterable", -2, str_join},
    {"format", NULL, 0, str_format},
    {"find", "sub start end", -2, str_find},
    {"rfind", "sub start end", -2, str_rfind},
    {"index", "sub start end", -2, str_index},
    {"rindex", "sub start end", -2, str_rindex},
    {"count", "sub start end", -2, str_count},
    {"rsplit", "sep maxsplit", 0, str_rsplit},
    {"splitlines", "keepends", 0, str_splitlines},
    {"partition", "sep", -2, str_partition},
    {"rpartition", "sep", -2, str_rpartition},
    {"removeprefix", "prefix", -2, str_removeprefix},
    {"removesuffix", "suffix", -2, str_removesuffix},
    {"center", "width fillchar", -2, str_center},
    {"ljust", "width fillchar", -2, str_ljust},
    {"rjust", "width fillchar", -2, str_rjust},
    {"zfill", "width", -2, str_zfill},
    {"expandtabs", "tabsize", 0, str_expandtabs},
    {"format_map", "mapping", -2, str_format_map},
    {"encode", NULL, 0, no_bytes},
    {"translate", NULL, 0, no_bytes},
    {"maketrans", NULL, 0, no_bytes},
};
const wr_jtable wr_jtext_methods = {methods, sizeof methods / sizeof *methods};
