/* The filters that make texts. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/jinja/case.h"
#include "text/jinja/format.h"
#include "text/jinja/iter.h"
#include "text/jinja/ops.h"
#include "text/jinja/pick.h"
#include "text/jinja/show.h"
#include "text/jinja/sort.h"
#include "text/jinja/text.h"
#include "text/unicode.h"

/* ---- case, space, marks ---- */

static bool cased(wr_jrun *run, const wr_jcall *c, wr_jcasing casing, wr_jval *out) {
    wr_jval text;
    return wr_jsoft_str(run, c->self, &text) && wr_jcase(run, text.s, casing, out);
}
static bool do_upper(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return cased(run, c, WR_J_UPPER, out); }
static bool do_lower(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return cased(run, c, WR_J_LOWER, out); }
static bool do_capitalize(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return cased(run, c, WR_J_CAPITALIZE, out); }

/* Words begin behind these, and behind whitespace. */
static bool begins_word(uint32_t cp) { return wr_jchar_is_space(cp) || (cp && cp < 0x80 && strchr("-({[<", (int)cp)); }

static bool do_title(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    wr_jval text, part;
    wr_jbuf buf = {0};
    uint32_t cp;
    if (!wr_jsoft_str(run, c->self, &text)) return false;
    const wr_jstr *s = text.s;
    const uint8_t *p = (const uint8_t *)s->data;
    for (size_t at = 0; at < s->bytes;) {
        /* A run of separators, or of other characters: its first one upper, the rest lower. */
        size_t from = at, first = (size_t)wr_utf8_get(p + at, &cp);
        bool kind = begins_word(cp);
        for (at += first; at < s->bytes;) {
            size_t n = (size_t)wr_utf8_get(p + at, &cp);
            if (begins_word(cp) != kind) break;
            at += n;
        }
        const wr_jstr head = {.data = s->data + from, .bytes = first},
                      tail = {.data = s->data + from + first, .bytes = at - from - first};
        if (!wr_jcase(run, &head, WR_J_UPPER, &part) || !wr_jbuf_add(run, &buf, part.s->data, part.s->bytes) ||
            !wr_jcase(run, &tail, WR_J_LOWER, &part) || !wr_jbuf_add(run, &buf, part.s->data, part.s->bytes))
            return false;
    }
    return wr_jbuf_str(run, &buf, out);
}

static bool do_trim(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    wr_jval text;
    return wr_jsoft_str(run, c->self, &text) && wr_jstrip(run, text, c->args[0], 'b', out);
}

static bool do_center(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    static const wr_jstr space = {.data = " ", .bytes = 1, .chars = 1};
    wr_jval text;
    int64_t width;
    return wr_jarg_int(run, c->args[0], 80, &width) && wr_jsoft_str(run, c->self, &text) &&
           wr_jcenter(run, text.s, width, &space, '^', out);
}

static bool do_string(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return wr_jsoft_str(run, c->self, out); }

static bool do_safe(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    return wr_jsoft_str(run, c->self, out) && wr_jstr_mark(run, *out, true, out);
}

static bool escaped(wr_jrun *run, wr_jval v, wr_jval *out) {
    wr_jbuf buf = {0};
    if (!wr_jsoft_str(run, v, out) || !wr_jescape(run, out->s, &buf) || !wr_jbuf_str(run, &buf, out)) return false;
    out->s->markup = true;
    return true;
}
static bool do_escape(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    *out = c->self;
    return (c->self.type == WR_J_STR && c->self.s->markup) || escaped(run, c->self, out);
}
static bool do_forceescape(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return escaped(run, c->self, out); }

/* ---- replacing and joining ---- */

static bool do_replace(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    wr_jval text, old, with;
    int64_t count = -1;
    if (wr_jgiven(c->args[2]) && !wr_jarg_int(run, c->args[2], -1, &count)) return false;
    return wr_jstr_of(run, c->self, &text) && wr_jstr_of(run, c->args[0], &old) && wr_jstr_of(run, c->args[1], &with) &&
           wr_jreplace(run, text.s, old.s, with.s, count, false, out);
}

static bool do_join(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    wr_jval sep = c->args[0], items = c->self;
    if (sep.type == WR_J_MISSING ? !wr_jstr_lit(run, "", &sep) : !wr_jstr_of(run, sep, &sep)) return false;
    if (wr_jgiven(c->args[1]) && !wr_jpick_attribute(run, items, c->args[1], &items)) return false;
    return wr_jjoin(run, sep, items, true, out);
}

static bool do_format(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    wr_jval text, values;
    if (c->n && c->n_kw) return WR_JERROR(run, "can't handle positional and keyword arguments at the same time");
    if (!wr_jsoft_str(run, c->self, &text)) return false;
    if (c->n_kw) {
        if (!wr_jdict_new(run, &values)) return false;
        for (size_t i = 0; i < c->n_kw; i++)
            if (!wr_jdict_set(run, values.dict, c->kw[i].name, c->kw[i].value)) return false;
    } else {
        if (!wr_jlist_new(run, WR_J_TUPLE, c->n, &values)) return false;
        for (size_t i = 0; i < c->n; i++) values.list->items[i] = c->args[i];
    }
    return wr_jformat_percent(run, text, values, out);
}

/* ---- lines ---- */

static bool do_indent(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    wr_jval by = c->args[0], text = c->self, lines, newline;
    bool first, blank;
    int64_t width = 4;
    wr_jbuf buf = {0};
    if (!wr_jarg_bool(run, c->args[1], false, &first) || !wr_jarg_bool(run, c->args[2], false, &blank)) return false;
    if (by.type != WR_J_STR) {
        wr_jbuf spaces = {0};
        if (!wr_jarg_int(run, by, 4, &width) || !wr_jbuf_fill(run, &spaces, " ", 1, width > 0 ? (size_t)width : 0) ||
            !wr_jbuf_str(run, &spaces, &by))
            return false;
    }
    /* A text without lines still has one; jinja2 adds a newline for that. */
    if (!wr_jstr_lit(run, "\n", &newline) || !wr_jbinary(run, WR_J_ADD, text, newline, &text)) return false;
    if (text.type != WR_J_STR) return WR_JERROR(run, "indent needs a text");
    if (!wr_jsplit_lines(run, text.s, false, &lines)) return false;
    for (size_t i = 0; i < lines.list->n; i++) {
        const wr_jstr *line = lines.list->items[i].s;
        bool indented = i == 0 ? first : blank || line->bytes;
        if (i && !wr_jbuf_lit(run, &buf, "\n")) return false;
        if (indented && !wr_jbuf_add(run, &buf, by.s->data, by.s->bytes)) return false;
        if (!wr_jbuf_add(run, &buf, line->data, line->bytes)) return false;
    }
    if (!wr_jbuf_str(run, &buf, out)) return false;
    out->s->markup = c->self.s->markup;
    return true;
}

static bool do_truncate(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    wr_jval end = c->args[2], head;
    bool kill_words;
    int64_t length, leeway = 5;
    if (!wr_jarg_int(run, c->args[0], 255, &length) || !wr_jarg_bool(run, c->args[1], false, &kill_words)) return false;
    if (wr_jgiven(c->args[3]) && !wr_jarg_int(run, c->args[3], 5, &leeway)) return false;
    if (end.type == WR_J_MISSING && !wr_jstr_lit(run, "...", &end)) return false;
    if (!wr_jarg_str(run, end, "end")) return false;
    int64_t tail = (int64_t)wr_jstr_chars(end.s);
    if (length < tail) return WR_JERROR(run, "expected length >= %lld, got %lld", (long long)tail, (long long)length);
    if (leeway < 0) return WR_JERROR(run, "expected leeway >= 0, got %lld", (long long)leeway);
    /* Anything that is short enough passes as it is. */
    *out = c->self;
    int64_t n;
    if (!wr_jlen(run, c->self, &n)) return false;
    if (n < 0) return WR_JERROR(run, "object of type '%s' has no len()", wr_jtype_name(c->self));
    if (n - length <= leeway) return true;
    if (!wr_jarg_str(run, c->self, "truncate's text")) return false;
    if (!wr_jstr_sub(run, c->self.s, 0, (size_t)(length - tail), &head)) return false;
    if (!kill_words) {
        static const wr_jstr space = {.data = " ", .bytes = 1};
        size_t at = wr_jfind(head.s, 0, head.s->bytes, &space, true);
        if (at != SIZE_MAX) {
            bool markup = head.s->markup;
            if (!wr_jstr_view(run, head.s->data, at, &head)) return false;
            head.s->markup = markup;
        }
    }
    return wr_jbinary(run, WR_J_ADD, head, end, out);
}

static bool do_wordcount(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    wr_jval text;
    int64_t n = 0;
    bool inside = false;
    uint32_t cp;
    if (!wr_jsoft_str(run, c->self, &text)) return false;
    for (size_t at = 0; at < text.s->bytes;) {
        at += (size_t)wr_utf8_get((const uint8_t *)text.s->data + at, &cp);
        bool word = cp == '_' || wr_jchar_is(cp, WR_J_ALNUM);
        n += word && !inside;
        inside = word;
    }
    *out = wr_jint(n);
    return wr_jcharge(run, text.s->bytes);
}

/* ---- numbers as texts ---- */

static bool do_filesizeformat(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    static const char *const plain[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
    static const char *const doubled[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
    bool binary, valid = true;
    double bytes = 0, unit = 0;
    char text[400];
    if (!wr_jarg_bool(run, c->args[0], false, &binary)) return false;
    if (c->self.type == WR_J_UNDEFINED) return wr_jundefined_fail(run, c->self);
    if (c->self.type == WR_J_STR) {
        if (!wr_jparse_float(run, c->self.s, &bytes, &valid)) return false;
        if (!valid) return WR_JERROR(run, "could not convert string to float");
    } else if (wr_jis_number(c->self)) {
        bytes = wr_jfloat_of(c->self);
    } else {
        return WR_JERROR(run, "float() argument must be a string or a real number, not '%s'", wr_jtype_name(c->self));
    }
    double base = binary ? 1024 : 1000;
    if (bytes == 1) return wr_jstr_lit(run, "1 Byte", out);
    if (bytes < base) {
        int64_t whole;
        if (!wr_jfloat_to_int(run, bytes, &whole)) return false;
        snprintf(text, sizeof text, "%lld Bytes", (long long)whole);
        return wr_jstr_dup(run, text, strlen(text), out);
    }
    size_t i = 0;
    for (unit = base * base; i < 7 && !(bytes < unit); i++) unit *= base;
    snprintf(text, sizeof text, "%.1f %s", base * bytes / unit, (binary ? doubled : plain)[i]);
    return wr_jstr_dup(run, text, strlen(text), out);
}

static bool do_int(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    wr_jval v = c->self;
    int64_t base = 10, i;
    double x = 0;
    bool valid = false;
    if (c->args[1].type != WR_J_MISSING && !wr_jarg_int(run, c->args[1], 10, &base)) return false;
    *out = c->args[0].type == WR_J_MISSING ? wr_jint(0) : c->args[0];
    if (v.type == WR_J_UNDEFINED) return wr_jundefined_fail(run, v);
    if (wr_jis_int(v)) {
        *out = wr_jint(wr_jint_of(v));
        return true;
    }
    if (v.type == WR_J_STR) {
        if (!wr_jparse_int(run, v.s, base, &i, &valid)) return false;
        if (valid) {
            *out = wr_jint(i);
            return true;
        }
        if (!wr_jparse_float(run, v.s, &x, &valid)) return false;
        if (!valid) return true;
    } else if (v.type == WR_J_FLOAT) {
        x = v.f;
        /* int(infinity) is an OverflowError, which the first attempt lets through. */
        if (isinf(x)) return WR_JERROR(run, "cannot convert float infinity to integer");
    } else {
        return true;
    }
    if (isnan(x) || isinf(x)) return true;
    if (!wr_jfloat_to_int(run, x, &i)) return false;
    *out = wr_jint(i);
    return true;
}

static bool do_float(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    wr_jval v = c->self;
    double x = 0;
    bool valid = false;
    if (v.type == WR_J_UNDEFINED) return wr_jundefined_fail(run, v);
    if (wr_jis_number(v)) x = wr_jfloat_of(v), valid = true;
    if (v.type == WR_J_STR && !wr_jparse_float(run, v.s, &x, &valid)) return false;
    *out = valid ? wr_jfloat(x) : c->args[0].type == WR_J_MISSING ? wr_jfloat(0) : c->args[0];
    return true;
}

/* ---- JSON, URLs, HTML ---- */

static bool do_tojson(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    wr_jval indent = c->args[1], separators = c->args[2], pair;
    wr_jjson how = {0};
    wr_jbuf buf = {0};
    int64_t width;
    if (!wr_jarg_bool(run, c->args[0], false, &how.ensure_ascii) ||
        !wr_jarg_bool(run, c->args[3], false, &how.sort_keys))
        return false;
    how.indented = wr_jgiven(indent);
    how.indent = indent;
    if (how.indented && indent.type != WR_J_STR) {
        wr_jbuf spaces = {0};
        if (!wr_jarg_int(run, indent, 0, &width) ||
            !wr_jbuf_fill(run, &spaces, " ", 1, width > 0 ? (size_t)width : 0) ||
            !wr_jbuf_str(run, &spaces, &how.indent))
            return false;
    }
    if (wr_jgiven(separators)) {
        if (!wr_jiterable(separators)) return WR_JERROR(run, "separators must be a pair");
        if (!wr_jiter_list(run, separators, &pair)) return false;
        if (pair.list->n != 2) return WR_JERROR(run, "separators must be a pair");
        how.item = pair.list->items[0];
        how.colon = pair.list->items[1];
        if (!wr_jarg_str(run, how.item, "a separator") || !wr_jarg_str(run, how.colon, "a separator")) return false;
    } else if (!(how.indented ? wr_jstr_lit(run, ",", &how.item) : wr_jstr_lit(run, ", ", &how.item)) ||
               !wr_jstr_lit(run, ": ", &how.colon)) {
        return false;
    }
    return wr_jjson_dump(run, c->self, &how, &buf) && wr_jbuf_str(run, &buf, out);
}

/* urllib.parse.quote of str(v); a query also quotes "/" and turns spaces into "+". */
static bool quote(wr_jrun *run, wr_jval v, bool query, wr_jbuf *buf) {
    wr_jval text;
    char code[4];
    if (!wr_jsoft_str(run, v, &text)) return false;
    for (size_t i = 0; i < text.s->bytes; i++) {
        uint8_t b = (uint8_t)text.s->data[i];
        bool plain = (b >= 'a' && b <= 'z') || (b >= 'A' && b <= 'Z') || (b >= '0' && b <= '9') ||
                     (b && b < 0x80 && strchr(query ? "_.-~" : "_.-~/", b));
        int n = plain || (query && b == ' ') ? snprintf(code, sizeof code, "%c", plain ? b : '+')
                                             : snprintf(code, sizeof code, "%%%02X", b);
        if (!wr_jbuf_add(run, buf, code, (size_t)n)) return false;
    }
    return true;
}

static bool do_urlencode(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    wr_jbuf buf = {0};
    wr_jval items = c->self, pair, both;
    wr_jiter *it;
    bool has;
    if (items.type == WR_J_STR || !wr_jiterable(items))
        return quote(run, items, false, &buf) && wr_jbuf_str(run, &buf, out);
    if (items.type == WR_J_DICT && !wr_jview_new(run, items.dict, WR_J_ITEMS, &items)) return false;
    if (!wr_jiter_new(run, items, &it)) return false;
    for (size_t i = 0;; i++) {
        if (!wr_jiter_next(run, it, &pair, &has)) return false;
        if (!has) return wr_jbuf_str(run, &buf, out);
        if (!wr_jiterable(pair)) return WR_JERROR(run, "cannot unpack non-iterable %s object", wr_jtype_name(pair));
        if (!wr_jiter_list(run, pair, &both)) return false;
        if (both.list->n != 2) return WR_JERROR(run, "urlencode needs pairs");
        if ((i && !wr_jbuf_lit(run, &buf, "&")) || !quote(run, both.list->items[0], true, &buf) ||
            !wr_jbuf_lit(run, &buf, "=") || !quote(run, both.list->items[1], true, &buf))
            return false;
    }
}

static bool do_xmlattr(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    wr_jbuf buf = {0};
    bool space, some = false;
    if (!wr_jarg_bool(run, c->args[0], true, &space)) return false;
    if (c->self.type != WR_J_DICT)
        return WR_JERROR(run, "'%s' object has no attribute 'items'", wr_jtype_name(c->self));
    for (size_t i = 0; i < c->self.dict->n; i++) {
        const wr_jentry *e = &c->self.dict->entries[i];
        wr_jval value;
        if (e->value.type == WR_J_NONE || e->value.type == WR_J_UNDEFINED) continue;
        if (!wr_jarg_str(run, e->key, "an attribute name")) return false;
        for (size_t k = 0; k < e->key.s->bytes; k++)
            if (strchr(" \t\n\r\f\v/>=", e->key.s->data[k]) && e->key.s->data[k])
                return WR_JERROR(run, "Invalid character in attribute name");
        if (((some || space) && !wr_jbuf_lit(run, &buf, " ")) || !wr_jescape(run, e->key.s, &buf) ||
            !wr_jbuf_lit(run, &buf, "=\"") || !wr_jsoft_str(run, e->value, &value))
            return false;
        if (value.s->markup ? !wr_jbuf_add(run, &buf, value.s->data, value.s->bytes) : !wr_jescape(run, value.s, &buf))
            return false;
        if (!wr_jbuf_lit(run, &buf, "\"")) return false;
        some = true;
    }
    return wr_jbuf_str(run, &buf, out);
}

static bool do_pprint(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    wr_jbuf buf = {0};
    wr_jval v = c->self;
    enum { LINE = 80 };
    if (v.type == WR_J_DICT) { /* pprint sorts, at every level; deeper ones are refused below by their width */
        const wr_jentry *sorted;
        wr_jval copy;
        if (!wr_jsort_entries(run, v.dict, &sorted) || !wr_jdict_new(run, &copy)) return false;
        for (size_t i = 0; i < v.dict->n; i++) {
            if (sorted[i].value.type == WR_J_DICT && sorted[i].value.dict->n > 1)
                return wr_jfail(run, WEIR_E_UNSUPPORTED, "the filter pprint is supported for flat values only");
            if (!wr_jdict_set(run, copy.dict, sorted[i].key, sorted[i].value)) return false;
        }
        v = copy;
    }
    if (!wr_jrepr(run, v, &buf) || !wr_jbuf_str(run, &buf, out)) return false;
    if (wr_jstr_chars(out->s) <= LINE) return true;
    return wr_jfail(run, WEIR_E_UNSUPPORTED, "the filter pprint is supported for one line of %d characters only", LINE);
}

static bool refused(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    (void)c, (void)out;
    return wr_jfail(run, WEIR_E_UNSUPPORTED, "the filters urlize, striptags and wordwrap are not supported");
}

static const wr_jbuiltin filters[] = {
    {"tojson", "ensure_ascii indent separators sort_keys", 0, do_tojson},
    {"trim", "chars", 0, do_trim},
    {"replace", "old new count", 2, do_replace},
    {"join", "d attribute", 0, do_join},
    {"upper", "", 0, do_upper},
    {"lower", "", 0, do_lower},
    {"string", "", 0, do_string},
    {"safe", "", 0, do_safe},
    {"int", "default base", 0, do_int},
    {"float", "default", 0, do_float},
    {"indent", "width first blank", 0, do_indent},
    {"capitalize", "", 0, do_capitalize},
    {"title", "", 0, do_title},
    {"format", NULL, 0, do_format},
    {"escape", "", 0, do_escape},
    {"e", "", 0, do_escape},
    {"forceescape", "", 0, do_forceescape},
    {"center", "width", 0, do_center},
    {"truncate", "length killwords end leeway", 0, do_truncate},
    {"wordcount", "", 0, do_wordcount},
    {"filesizeformat", "binary", 0, do_filesizeformat},
    {"urlencode", "", 0, do_urlencode},
    {"xmlattr", "autospace", 0, do_xmlattr},
    {"pprint", "", 0, do_pprint},
    {"urlize", NULL, 0, refused},
    {"striptags", NULL, 0, refused},
    {"wordwrap", NULL, 0, refused},
};
const wr_jtable wr_jtext_filters = {filters, sizeof filters / sizeof *filters};
