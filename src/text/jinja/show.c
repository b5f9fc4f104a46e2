/* str() and repr(), with Python's quoting and its shortest floats. */
#include "text/jinja/show.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "text/jinja/builtin.h"
#include "text/jinja/iter.h"
#include "text/jinja/loop.h"
#include "text/jinja/macro.h"
#include "text/unicode.h"

/* ---- floats ---- */

/* The fewest digits that read back as x, as d.ddde+xx. */
static void shortest(double x, char *out, size_t cap) {
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, cap, "%.*e", digits - 1, x);
        if (strtod(out, NULL) == x) return;
    }
}

size_t wr_jfloat_repr(double x, char out[WR_JFLOAT_BYTES]) {
    char sci[WR_JFLOAT_BYTES], digits[24];
    size_t n = 0, at = 0;
    if (isnan(x) || isinf(x))
        return (size_t)snprintf(out, WR_JFLOAT_BYTES, "%s", isnan(x) ? "nan" : x < 0 ? "-inf" : "inf");
    shortest(fabs(x), sci, sizeof sci);
    char *e = strchr(sci, 'e');
    int exponent = atoi(e + 1);
    for (char *p = sci; p < e; p++)
        if (*p >= '0' && *p <= '9') digits[n++] = *p;
    if (signbit(x)) out[at++] = '-';
    if (exponent < -4 || exponent >= 16) {
        out[at++] = digits[0];
        if (n > 1) {
            out[at++] = '.';
            memcpy(out + at, digits + 1, n - 1);
            at += n - 1;
        }
        at += (size_t)snprintf(out + at, WR_JFLOAT_BYTES - at, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
        return at;
    }
    if (exponent < 0) {
        memcpy(out + at, "0.", 2);
        at += 2;
        for (int i = -1; i > exponent; i--) out[at++] = '0';
        memcpy(out + at, digits, n);
        at += n;
    } else {
        size_t whole = (size_t)exponent + 1;
        for (size_t i = 0; i < whole; i++) out[at++] = i < n ? digits[i] : '0';
        out[at++] = '.';
        if (n <= whole) out[at++] = '0';
        for (size_t i = whole; i < n; i++) out[at++] = digits[i];
    }
    out[at] = 0;
    return at;
}

/* ---- texts ---- */

bool wr_jchar_is_printable(uint32_t cp) {
    if (cp < 0x7F) return cp >= 0x20;
    switch (utf8proc_category((utf8proc_int32_t)cp)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS: return false;
    default: return true;
    }
}

static bool repr_char(wr_jrun *run, uint32_t cp, char quote, wr_jbuf *buf) {
    char code[16];
    const char *form = cp < 0x100 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x";
    if (cp == (uint8_t)quote || cp == '\\') return wr_jbuf_lit(run, buf, "\\") && wr_jbuf_char(run, buf, cp);
    if (cp == '\n') return wr_jbuf_lit(run, buf, "\\n");
    if (cp == '\r') return wr_jbuf_lit(run, buf, "\\r");
    if (cp == '\t') return wr_jbuf_lit(run, buf, "\\t");
    if (wr_jchar_is_printable(cp)) return wr_jbuf_char(run, buf, cp);
    int n = snprintf(code, sizeof code, form, cp);
    return wr_jbuf_add(run, buf, code, (size_t)n);
}

static bool repr_text(wr_jrun *run, const wr_jstr *s, wr_jbuf *buf) {
    bool single = s->bytes && memchr(s->data, '\'', s->bytes), twice = s->bytes && memchr(s->data, '"', s->bytes);
    char quote = single && !twice ? '"' : '\'';
    uint32_t cp;
    if (s->markup && !wr_jbuf_lit(run, buf, "Markup(")) return false;
    if (!wr_jbuf_add(run, buf, &quote, 1)) return false;
    for (size_t at = 0; at < s->bytes;) {
        at += (size_t)wr_utf8_get((const uint8_t *)s->data + at, &cp);
        if (!repr_char(run, cp, quote, buf)) return false;
    }
    return wr_jbuf_add(run, buf, &quote, 1) && (!s->markup || wr_jbuf_lit(run, buf, ")"));
}

/* ---- containers ---- */

static bool repr_items(wr_jrun *run, wr_jval v, wr_jbuf *buf, const char *open, const char *close) {
    wr_jiter *it;
    wr_jval item;
    bool has = true, first = true;
    if (!wr_jbuf_add(run, buf, open, strlen(open)) || !wr_jiter_new(run, v, &it)) return false;
    for (;; first = false) {
        if (!wr_jiter_next(run, it, &item, &has)) return false;
        if (!has) break;
        if ((!first && !wr_jbuf_lit(run, buf, ", ")) || !wr_jrepr(run, item, buf)) return false;
    }
    return wr_jbuf_add(run, buf, close, strlen(close));
}

static bool repr_dict(wr_jrun *run, wr_jdict *dict, wr_jbuf *buf) {
    if (dict->showing) return wr_jbuf_lit(run, buf, "{...}"); /* a namespace can hold itself */
    dict->showing = true;
    bool done = wr_jbuf_lit(run, buf, "{");
    for (size_t i = 0; done && i < dict->n; i++) {
        done = (i == 0 || wr_jbuf_lit(run, buf, ", ")) && wr_jrepr(run, dict->entries[i].key, buf) &&
               wr_jbuf_lit(run, buf, ": ") && wr_jrepr(run, dict->entries[i].value, buf);
    }
    dict->showing = false;
    return done && wr_jbuf_lit(run, buf, "}");
}

static bool repr_range(wr_jrun *run, const wr_jrange *r, wr_jbuf *buf) {
    char text[80];
    int n = r->step == 1 ? snprintf(text, sizeof text, "range(%lld, %lld)", (long long)r->start, (long long)r->stop)
                         : snprintf(text, sizeof text, "range(%lld, %lld, %lld)", (long long)r->start,
                                    (long long)r->stop, (long long)r->step);
    return wr_jbuf_add(run, buf, text, (size_t)n);
}

static bool repr_loop(wr_jrun *run, wr_jloop *loop, wr_jbuf *buf) {
    char text[80];
    int64_t length;
    if (!wr_jloop_length(run, loop, &length)) return false;
    int n = snprintf(text, sizeof text, "<LoopContext %lld/%lld>", (long long)loop->index0 + 1, (long long)length);
    return wr_jbuf_add(run, buf, text, (size_t)n);
}

static bool repr_macro(wr_jrun *run, const wr_jmacro *macro, wr_jbuf *buf) {
    if (!macro->name) return wr_jbuf_lit(run, buf, "<Macro anonymous>");
    return wr_jbuf_lit(run, buf, "<Macro ") && repr_text(run, macro->name, buf) && wr_jbuf_lit(run, buf, ">");
}

static bool repr_deep(wr_jrun *run, wr_jval v, wr_jbuf *buf) {
    switch (v.type) {
    case WR_J_LIST: return repr_items(run, v, buf, "[", "]");
    case WR_J_TUPLE: return repr_items(run, v, buf, "(", v.list->n == 1 ? ",)" : ")");
    case WR_J_DICT: return repr_dict(run, v.dict, buf);
    case WR_J_VIEW:
        return wr_jbuf_add(run, buf, wr_jtype_name(v), strlen(wr_jtype_name(v))) && repr_items(run, v, buf, "([", "])");
    default: return wr_jbuf_lit(run, buf, "<Namespace ") && repr_dict(run, v.dict, buf) && wr_jbuf_lit(run, buf, ">");
    }
}

bool wr_jrepr(wr_jrun *run, wr_jval v, wr_jbuf *buf) {
    char number[WR_JFLOAT_BYTES];
    switch (v.type) {
    case WR_J_MISSING:
    case WR_J_UNDEFINED: return wr_jbuf_lit(run, buf, "Undefined");
    case WR_J_NONE: return wr_jbuf_lit(run, buf, "None");
    case WR_J_BOOL: return v.b ? wr_jbuf_lit(run, buf, "True") : wr_jbuf_lit(run, buf, "False");
    case WR_J_INT:
        return wr_jbuf_add(run, buf, number, (size_t)snprintf(number, sizeof number, "%lld", (long long)v.i));
    case WR_J_FLOAT: return wr_jbuf_add(run, buf, number, wr_jfloat_repr(v.f, number));
    case WR_J_STR: return repr_text(run, v.s, buf);
    case WR_J_LIST:
    case WR_J_TUPLE:
    case WR_J_DICT:
    case WR_J_VIEW:
    case WR_J_NAMESPACE: {
        if (!wr_jenter(run)) return false;
        bool done = repr_deep(run, v, buf);
        wr_jleave(run);
        return done;
    }
    case WR_J_RANGE: return repr_range(run, v.range, buf);
    case WR_J_LOOP: return repr_loop(run, v.loop, buf);
    case WR_J_MACRO: return repr_macro(run, v.macro, buf);
    default:
        /* Python shows an address here, another one each time. */
        return wr_jfail(run, WEIR_E_UNSUPPORTED, "a value of type '%s' cannot be written as text", wr_jtype_name(v));
    }
}

bool wr_jshow(wr_jrun *run, wr_jval v, wr_jbuf *buf) {
    if (v.type == WR_J_STR) return wr_jbuf_add(run, buf, v.s->data, v.s->bytes);
    if (v.type == WR_J_UNDEFINED || v.type == WR_J_MISSING) return true;
    return wr_jrepr(run, v, buf);
}

bool wr_jstr_of(wr_jrun *run, wr_jval v, wr_jval *out) {
    if (v.type == WR_J_STR) return wr_jstr_mark(run, v, false, out);
    return wr_jsoft_str(run, v, out);
}

bool wr_jsoft_str(wr_jrun *run, wr_jval v, wr_jval *out) {
    wr_jbuf buf = {0};
    *out = v;
    return v.type == WR_J_STR || (wr_jshow(run, v, &buf) && wr_jbuf_str(run, &buf, out));
}

bool wr_jescape(wr_jrun *run, const wr_jstr *s, wr_jbuf *buf) {
    size_t from = 0;
    for (size_t i = 0; i < s->bytes; i++) {
        char c = s->data[i];
        const char *entity = c == '&'    ? "&amp;"
                             : c == '<'  ? "&lt;"
                             : c == '>'  ? "&gt;"
                             : c == '\'' ? "&#39;"
                             : c == '"'  ? "&#34;"
                                         : NULL;
        if (!entity) continue;
        if (!wr_jbuf_add(run, buf, s->data + from, i - from) || !wr_jbuf_add(run, buf, entity, strlen(entity)))
            return false;
        from = i + 1;
    }
    return wr_jbuf_add(run, buf, s->data + from, s->bytes - from);
}

/* ---- what is wrong with an undefined value ---- */

static bool object_type(wr_jrun *run, wr_jval v, wr_jbuf *buf) {
    if (v.type == WR_J_NONE) return wr_jbuf_lit(run, buf, "None");
    const char *name = wr_jtype_name(v);
    const char *module = v.type == WR_J_NAMESPACE || v.type == WR_J_CYCLER || v.type == WR_J_JOINER ? "jinja2.utils."
                         : v.type == WR_J_LOOP || v.type == WR_J_MACRO                              ? "jinja2.runtime."
                         : v.type == WR_J_STR && v.s->markup                                        ? "markupsafe."
                                                                                                    : "";
    return wr_jbuf_add(run, buf, module, strlen(module)) && wr_jbuf_add(run, buf, name, strlen(name)) &&
           wr_jbuf_lit(run, buf, " object");
}

bool wr_jundefined_fail(wr_jrun *run, wr_jval v) {
    const wr_jundefined *u = v.undefined;
    wr_jbuf text = {0};
    wr_jval type;
    bool made = true;
    if (u->hint) {
        made = wr_jbuf_add(run, &text, u->hint->data, u->hint->bytes);
    } else if (u->obj.type == WR_J_MISSING) {
        made = wr_jrepr(run, u->name, &text) && wr_jbuf_lit(run, &text, " is undefined");
    } else if (u->name.type != WR_J_STR) {
        made = object_type(run, u->obj, &text) && wr_jbuf_lit(run, &text, " has no element ") &&
               wr_jrepr(run, u->name, &text);
    } else {
        wr_jbuf name = {0};
        made = object_type(run, u->obj, &name) && wr_jbuf_str(run, &name, &type) && wr_jrepr(run, type, &text) &&
               wr_jbuf_lit(run, &text, " has no attribute ") && wr_jrepr(run, u->name, &text);
    }
    return made && WR_JERROR(run, "%.*s", (int)(text.n < 900 ? text.n : 900), text.data ? text.data : "");
}
