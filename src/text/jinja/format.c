/* The two template languages within texts. */
#include "text/jinja/format.h"

#include <string.h>

#include "text/jinja/ops.h"
#include "text/jinja/show.h"
#include "text/unicode.h"

enum { WIDTH_MAX = 1 << 24 };

/* ---- % ---- */

typedef struct percent {
    wr_jrun *run;
    wr_jval value;
    size_t used; /* of a tuple's items */
    bool markup; /* values are escaped */
    bool named;
} percent;

static bool next_value(percent *p, wr_jval *out) {
    const wr_jlist *list = p->value.type == WR_J_TUPLE ? p->value.list : NULL;
    size_t n = list ? list->n : 1;
    if (p->used >= n) return WR_JERROR(p->run, "not enough arguments for format string");
    *out = list ? list->items[p->used] : p->value;
    p->used++;
    return true;
}

/* A width or precision: digits, or * for the next value. */
static bool percent_number(percent *p, const wr_jstr *s, size_t *at, int64_t *out) {
    wr_jval v;
    if (*at < s->bytes && s->data[*at] == '*') {
        ++*at;
        if (!next_value(p, &v)) return false;
        if (!wr_jis_int(v)) return WR_JERROR(p->run, "* wants int");
        *out = wr_jint_of(v);
    } else {
        for (*out = 0; *at < s->bytes && s->data[*at] >= '0' && s->data[*at] <= '9'; ++*at)
            if (*out < WIDTH_MAX) *out = *out * 10 + (s->data[*at] - '0');
    }
    if (*out < -WIDTH_MAX || *out >= WIDTH_MAX)
        return wr_jfail(p->run, WEIR_E_LIMIT, "a field width above %d is not supported", WIDTH_MAX);
    return true;
}

/* (name): the value of this key from here on. */
static bool percent_name(percent *p, const wr_jstr *s, size_t *at, wr_jval *value) {
    size_t depth = 1, from = ++*at;
    wr_jval key;
    wr_jentry *entry;
    if (p->value.type != WR_J_DICT) return WR_JERROR(p->run, "format requires a mapping");
    for (; *at < s->bytes && depth; ++*at) depth += (s->data[*at] == '(') - (s->data[*at] == ')');
    if (depth) return WR_JERROR(p->run, "incomplete format key");
    if (!wr_jstr_view(p->run, s->data + from, *at - 1 - from, &key) ||
        !wr_jdict_find(p->run, p->value.dict, key, &entry))
        return false;
    if (!entry) return WR_JERROR(p->run, "format: no such key");
    *value = entry->value;
    p->named = true;
    return true;
}

static bool percent_text(percent *p, wr_jval v, char type, const wr_jspec *spec, wr_jbuf *buf) {
    wr_jbuf text = {0}, escaped = {0};
    wr_jval s;
    if (type == 's' ? !wr_jshow(p->run, v, &text) : !wr_jrepr(p->run, v, &text)) return false;
    if (!wr_jbuf_str(p->run, &text, &s)) return false;
    if (p->markup && !(type == 's' && v.type == WR_J_STR && v.s->markup) &&
        (!wr_jescape(p->run, s.s, &escaped) || !wr_jbuf_str(p->run, &escaped, &s)))
        return false;
    if (spec->precision >= 0 && (size_t)spec->precision < wr_jstr_chars(s.s) &&
        !wr_jstr_sub(p->run, s.s, 0, (size_t)spec->precision, &s))
        return false;
    return wr_jformat_pad(p->run, s.s, spec, '>', buf);
}

static bool percent_value(percent *p, wr_jval v, char type, wr_jspec *spec, wr_jbuf *buf) {
    int64_t i;
    switch (type) {
    case 's':
    case 'r':
    case 'a': spec->fill = ' '; return percent_text(p, v, type, spec, buf);
    case 'd':
    case 'i':
    case 'u':
    case 'o':
    case 'x':
    case 'X':
        if (v.type == WR_J_UNDEFINED) return wr_jundefined_fail(p->run, v);
        if (v.type == WR_J_FLOAT && (type == 'd' || type == 'i' || type == 'u')) {
            if (!wr_jfloat_to_int(p->run, v.f, &i)) return false;
        } else if (wr_jis_int(v)) {
            i = wr_jint_of(v);
        } else {
            return WR_JERROR(p->run, "%%%c format: a real number is required, not %s", type, wr_jtype_name(v));
        }
        spec->type = type == 'i' || type == 'u' ? 'd' : type;
        return wr_jformat_int(p->run, i, spec, buf);
    case 'c':
        spec->fill = ' ';
        if (v.type == WR_J_STR && wr_jstr_chars(v.s) == 1) return wr_jformat_pad(p->run, v.s, spec, '>', buf);
        if (!wr_jis_int(v)) return WR_JERROR(p->run, "%%c requires int or char");
        spec->type = 'c';
        if (!spec->align) spec->align = '>';
        return wr_jformat_int(p->run, wr_jint_of(v), spec, buf);
    default:
        if (v.type == WR_J_UNDEFINED) return wr_jundefined_fail(p->run, v);
        if (!wr_jis_number(v)) return WR_JERROR(p->run, "must be real number, not %s", wr_jtype_name(v));
        spec->type = type;
        return wr_jformat_float(p->run, wr_jfloat_of(v), spec, buf);
    }
}

/* One conversion, whose "%" was just passed. */
static bool percent_one(percent *p, const wr_jstr *s, size_t *at, wr_jbuf *buf) {
    wr_jspec spec = {.width = -1, .precision = -1};
    wr_jval v = {0};
    if (*at < s->bytes && s->data[*at] == '(' && !percent_name(p, s, at, &v)) return false;
    for (; *at < s->bytes && strchr("#0- +", s->data[*at]) && s->data[*at]; ++*at) {
        char c = s->data[*at];
        if (c == '#') spec.alternate = true;
        if (c == '0') spec.zero = true;
        if (c == '-') spec.align = '<';
        if (c == '+' || (c == ' ' && spec.sign != '+')) spec.sign = c;
    }
    if (!percent_number(p, s, at, &spec.width)) return false;
    if (spec.width < 0) spec.align = '<', spec.width = -spec.width;
    if (*at < s->bytes && s->data[*at] == '.') {
        ++*at;
        if (!percent_number(p, s, at, &spec.precision)) return false;
        if (spec.precision < 0) spec.precision = 0;
    }
    while (*at < s->bytes && strchr("hlL", s->data[*at]) && s->data[*at]) ++*at;
    if (*at >= s->bytes) return WR_JERROR(p->run, "incomplete format");
    char type = s->data[(*at)++];
    if (type == '%') return wr_jbuf_lit(p->run, buf, "%");
    if (!type || !strchr("srdiuoxXceEfFgGa", type)) return WR_JERROR(p->run, "unsupported format character '%c'", type);
    if (spec.align == '<') spec.zero = false;
    if (v.type == WR_J_MISSING && !next_value(p, &v)) return false;
    return percent_value(p, v, type, &spec, buf);
}

bool wr_jformat_percent(wr_jrun *run, wr_jval text, wr_jval value, wr_jval *out) {
    const wr_jstr *s = text.s;
    percent p = {.run = run, .value = value, .markup = s->markup};
    wr_jbuf buf = {0};
    for (size_t at = 0; at < s->bytes;) {
        const char *next = memchr(s->data + at, '%', s->bytes - at);
        size_t end = next ? (size_t)(next - s->data) : s->bytes;
        if (!wr_jbuf_add(run, &buf, s->data + at, end - at)) return false;
        at = end + 1;
        if (next && !percent_one(&p, s, &at, &buf)) return false;
    }
    bool mapping = value.type == WR_J_DICT || value.type == WR_J_LIST || value.type == WR_J_RANGE;
    if (value.type == WR_J_TUPLE ? p.used < value.list->n : !p.used && !p.named && !mapping)
        return WR_JERROR(run, "not all arguments converted during string formatting");
    if (!wr_jbuf_str(run, &buf, out)) return false;
    out->s->markup = s->markup;
    return true;
}

/* ---- format() ---- */

typedef struct formatter {
    wr_jrun *run;
    const wr_jcall *call;
    const wr_jval *mapping; /* format_map */
    int64_t next;           /* automatic number; -1: numbers are given */
    bool markup;
} formatter;

static bool parse_spec(wr_jrun *run, const wr_jstr *s, wr_jspec *spec) {
    size_t at = 0;
    uint32_t cp = 0;
    *spec = (wr_jspec){.width = -1, .precision = -1};
#define PEEK(i) (at + (i) < s->bytes ? s->data[at + (i)] : 0)
    size_t first = s->bytes ? (size_t)wr_utf8_get((const uint8_t *)s->data, &cp) : 0;
    if (first && PEEK(first) && strchr("<>^=", PEEK(first))) {
        spec->fill = cp;
        spec->align = s->data[first];
        at = first + 1;
    } else if (PEEK(0) && strchr("<>^=", PEEK(0))) {
        spec->align = s->data[at++];
    }
    if (PEEK(0) && strchr("+- ", PEEK(0))) spec->sign = s->data[at++];
    if (PEEK(0) == 'z') return wr_jfail(run, WEIR_E_UNSUPPORTED, "the option z of a format is not supported");
    if (PEEK(0) == '#') spec->alternate = true, at++;
    if (PEEK(0) == '0') {
        spec->zero = true;
        at++;
        if (!spec->fill) spec->fill = '0';
    }
    for (; PEEK(0) >= '0' && PEEK(0) <= '9'; at++) {
        spec->width = (spec->width < 0 ? 0 : spec->width) * 10 + (PEEK(0) - '0');
        if (spec->width > WIDTH_MAX)
            return wr_jfail(run, WEIR_E_LIMIT, "a field width above %d is not supported", WIDTH_MAX);
    }
    if (PEEK(0) == ',' || PEEK(0) == '_') spec->grouping = s->data[at++];
    if (PEEK(0) == '.') {
        at++;
        if (PEEK(0) < '0' || PEEK(0) > '9') return WR_JERROR(run, "Format specifier missing precision");
        for (spec->precision = 0; PEEK(0) >= '0' && PEEK(0) <= '9'; at++)
            if (spec->precision < WIDTH_MAX) spec->precision = spec->precision * 10 + (PEEK(0) - '0');
    }
    if (at < s->bytes) spec->type = s->data[at++];
#undef PEEK
    return at == s->bytes || WR_JERROR(run, "Invalid format specifier");
}

static bool unknown_code(wr_jrun *run, char type, wr_jval v) {
    return WR_JERROR(run, "Unknown format code '%c' for object of type '%s'", type, wr_jtype_name(v));
}

/* format(value, spec) */
static bool format_value(wr_jrun *run, wr_jval v, const wr_jstr *s, wr_jbuf *buf) {
    wr_jspec spec;
    wr_jval text;
    if (v.type != WR_J_STR && !wr_jis_number(v)) {
        if (s->bytes) return WR_JERROR(run, "unsupported format string passed to %s.__format__", wr_jtype_name(v));
        return wr_jshow(run, v, buf);
    }
    if (!s->bytes) return wr_jshow(run, v, buf);
    if (!parse_spec(run, s, &spec)) return false;
    if (v.type == WR_J_STR) {
        if (spec.type && spec.type != 's') return unknown_code(run, spec.type, v);
        if (spec.sign) return WR_JERROR(run, "Sign not allowed in string format specifier");
        if (spec.alternate) return WR_JERROR(run, "Alternate form (#) not allowed in string format specifier");
        if (spec.align == '=') return WR_JERROR(run, "'=' alignment not allowed in string format specifier");
        if (spec.grouping) return WR_JERROR(run, "Cannot specify '%c' with 's'.", spec.grouping);
        text = v;
        if (spec.precision >= 0 && (size_t)spec.precision < wr_jstr_chars(v.s) &&
            !wr_jstr_sub(run, v.s, 0, (size_t)spec.precision, &text))
            return false;
        return wr_jformat_pad(run, text.s, &spec, '<', buf);
    }
    if (wr_jis_int(v) && (!spec.type || strchr("dbcoxXn", spec.type))) {
        if (spec.precision >= 0) return WR_JERROR(run, "Precision not allowed in integer format specifier");
        if (spec.type == 'c' && spec.sign) return WR_JERROR(run, "Sign not allowed with integer format specifier 'c'");
        if (spec.grouping == ',' && spec.type && spec.type != 'd')
            return WR_JERROR(run, "Cannot specify ',' with '%c'.", spec.type);
        if (spec.type == 'n') spec.type = 'd';
        return wr_jformat_int(run, wr_jint_of(v), &spec, buf);
    }
    if (spec.type && !strchr("eEfFgGn%", spec.type)) return unknown_code(run, spec.type, v);
    return wr_jformat_float(run, wr_jfloat_of(v), &spec, buf);
}

static bool all_digits(const char *p, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (p[i] < '0' || p[i] > '9') return false;
    return n > 0 && n < 10;
}

static int64_t number(const char *p, size_t n) {
    int64_t v = 0;
    for (size_t i = 0; i < n; i++) v = v * 10 + (p[i] - '0');
    return v;
}

/* The value of a field's first name. */
static bool field_first(formatter *f, const char *p, size_t n, wr_jval *out) {
    const wr_jcall *call = f->call;
    if (n == 0 || all_digits(p, n)) {
        if (n == 0 ? f->next < 0 : f->next > 0)
            return WR_JERROR(f->run, "cannot switch between manual and automatic field numbering");
        int64_t i = n ? number(p, n) : f->next++;
        if (n) f->next = -1;
        if (f->mapping || (size_t)i >= call->n)
            return WR_JERROR(f->run, "Replacement index %lld out of range for positional args tuple", (long long)i);
        *out = call->args[i];
        return true;
    }
    if (f->mapping) {
        wr_jval key;
        wr_jentry *e;
        if (f->mapping->type != WR_J_DICT) return WR_JERROR(f->run, "format_map() needs a mapping");
        if (!wr_jstr_view(f->run, p, n, &key) || !wr_jdict_find(f->run, f->mapping->dict, key, &e)) return false;
        if (e) *out = e->value;
        return e || WR_JERROR(f->run, "format: no such key");
    }
    for (size_t i = 0; i < call->n_kw; i++) {
        if (call->kw[i].name.s->bytes != n || memcmp(call->kw[i].name.s->data, p, n) != 0) continue;
        *out = call->kw[i].value;
        return true;
    }
    return WR_JERROR(f->run, "format: no argument named '%.*s'", (int)(n < 80 ? n : 80), p);
}

/* name.attribute[item] */
static bool field_value(formatter *f, const char *p, size_t n, wr_jval *out) {
    size_t at = 0;
    wr_jval name;
    while (at < n && p[at] != '.' && p[at] != '[') at++;
    if (!field_first(f, p, at, out)) return false;
    while (at < n) {
        bool item = p[at] == '[';
        size_t from = ++at;
        while (at < n && (item ? p[at] != ']' : p[at] != '.' && p[at] != '[')) at++;
        size_t length = at - from;
        if (item && at++ == n) return WR_JERROR(f->run, "Missing ']' in format string");
        if (length == 0) return WR_JERROR(f->run, "Empty attribute in format string");
        if (item && at < n && p[at] != '.' && p[at] != '[')
            return WR_JERROR(f->run, "Only '.' or '[' may follow ']' in format field specifier");
        if (!wr_jstr_dup(f->run, p + from, length, &name)) return false;
        if (item && all_digits(p + from, length)) name = wr_jint(number(p + from, length));
        if (!(item ? wr_jgetitem(f->run, *out, name, out) : wr_jgetattr(f->run, *out, name.s, out))) return false;
    }
    return true;
}

static bool format_text(formatter *f, const char *p, size_t n, int depth, wr_jbuf *buf);

/* What stands between { and }: name!conversion:spec. */
static bool format_field(formatter *f, const char *p, size_t n, int depth, wr_jbuf *buf) {
    wr_jrun *run = f->run;
    size_t at = 0, brackets = 0;
    wr_jval v, text, spec;
    wr_jbuf inner = {0}, shown = {0}, escaped = {0};
    char conversion = 0;
    for (; at < n && (brackets || (p[at] != '!' && p[at] != ':')); at++) {
        if (p[at] == '[') brackets = 1;
        if (p[at] == ']') brackets = 0;
        if (p[at] == '{') return WR_JERROR(run, "unexpected '{' in field name");
    }
    size_t name = at;
    if (at < n && p[at] == '!') {
        if (at + 1 >= n) return WR_JERROR(run, "end of string while looking for conversion specifier");
        conversion = p[at + 1];
        at += 2;
        if (at < n && p[at] != ':') return WR_JERROR(run, "expected ':' after conversion specifier");
    }
    if (!field_value(f, p, name, &v)) return false;
    if (conversion && conversion != 's' && conversion != 'r' && conversion != 'a')
        return WR_JERROR(run, "Unknown conversion specifier '%c'", conversion);
    if (conversion) {
        if (!(conversion == 's' ? wr_jshow(run, v, &inner) : wr_jrepr(run, v, &inner)) || !wr_jbuf_str(run, &inner, &v))
            return false;
    }
    if (at < n) at++;
    if (!format_text(f, p + at, n - at, depth - 1, &inner) || !wr_jbuf_str(run, &inner, &spec)) return false;
    bool safe = v.type == WR_J_STR && v.s->markup;
    if (!f->markup) return format_value(run, v, spec.s, buf);
    if (safe && spec.s->bytes) return WR_JERROR(run, "Unsupported format specification for Markup.");
    if (!format_value(run, v, spec.s, &shown) || !wr_jbuf_str(run, &shown, &text)) return false;
    if (safe) return wr_jbuf_add(run, buf, text.s->data, text.s->bytes);
    return wr_jescape(run, text.s, &escaped) && wr_jbuf_add(run, buf, escaped.data, escaped.n);
}

static bool format_text(formatter *f, const char *p, size_t n, int depth, wr_jbuf *buf) {
    if (depth < 0) return WR_JERROR(f->run, "Max string recursion exceeded");
    for (size_t at = 0; at < n;) {
        size_t from = at;
        while (at < n && p[at] != '{' && p[at] != '}') at++;
        if (!wr_jbuf_add(f->run, buf, p + from, at - from)) return false;
        if (at == n) break;
        char c = p[at++];
        if (at < n && p[at] == c) {
            if (!wr_jbuf_add(f->run, buf, &c, 1)) return false;
            at++;
            continue;
        }
        if (c == '}') return WR_JERROR(f->run, "Single '}' encountered in format string");
        if (at == n) return WR_JERROR(f->run, "Single '{' encountered in format string");
        size_t open = 1, field = at;
        for (; at < n && open; at++) open += (p[at] == '{') - (p[at] == '}');
        if (open) return WR_JERROR(f->run, "expected '}' before end of string");
        if (!format_field(f, p + field, at - 1 - field, depth, buf)) return false;
    }
    return true;
}

static bool format_whole(formatter *f, wr_jval text, wr_jval *out) {
    wr_jbuf buf = {0};
    if (!format_text(f, text.s->data, text.s->bytes, 2, &buf) || !wr_jbuf_str(f->run, &buf, out)) return false;
    out->s->markup = text.s->markup;
    return true;
}

bool wr_jformat_call(wr_jrun *run, wr_jval text, const wr_jcall *call, wr_jval *out) {
    formatter f = {.run = run, .call = call, .markup = text.s->markup};
    return format_whole(&f, text, out);
}

bool wr_jformat_map(wr_jrun *run, wr_jval text, wr_jval mapping, wr_jval *out) {
    const wr_jcall none = {0};
    formatter f = {.run = run, .call = &none, .mapping = &mapping, .markup = text.s->markup};
    return format_whole(&f, text, out);
}
