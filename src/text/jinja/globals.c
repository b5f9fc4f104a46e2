/* The functions that are there by name: jinja2's, and those that chat templates get. */
#include <string.h>
#include <time.h>

#include "text/jinja/iter.h"
#include "text/jinja/macro.h"
#include "text/jinja/ops.h"
#include "text/jinja/show.h"

static bool global_range(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    int64_t at[3] = {0, 0, 1};
    if (c->n_kw || c->n < 1 || c->n > 3) return WR_JERROR(run, "range expected 1 to 3 arguments, got %zu", c->n);
    for (size_t i = 0; i < c->n; i++)
        if (!wr_jarg_int(run, c->args[i], 0, &at[i])) return false;
    if (c->n == 1) at[1] = at[0], at[0] = 0;
    if (at[2] == 0) return WR_JERROR(run, "range() arg 3 must not be zero");
    /* The distance fits 64 bits without a sign. */
    bool up = at[2] > 0;
    uint64_t step = up ? (uint64_t)at[2] : 0 - (uint64_t)at[2], n = 0;
    if (up ? at[0] < at[1] : at[0] > at[1])
        n = ((up ? (uint64_t)at[1] - (uint64_t)at[0] : (uint64_t)at[0] - (uint64_t)at[1]) - 1) / step + 1;
    if (n > WR_JINJA_RANGE_MAX)
        return WR_JERROR(run, "Range too big. The sandbox blocks ranges larger than MAX_RANGE (%d).",
                         WR_JINJA_RANGE_MAX);
    wr_jrange *range = wr_jalloc(run, sizeof *range);
    if (!range) return false;
    *range = (wr_jrange){.start = at[0], .stop = at[1], .step = at[2], .n = (int64_t)n};
    *out = (wr_jval){.type = WR_J_RANGE, .range = range};
    return true;
}

/* One argument of dict(): a mapping, or pairs. */
static bool add_all(wr_jrun *run, wr_jdict *dict, wr_jval from) {
    wr_jval pair, both;
    wr_jiter *it;
    bool has;
    if (from.type == WR_J_DICT) {
        for (size_t i = 0; i < from.dict->n; i++)
            if (!wr_jdict_set(run, dict, from.dict->entries[i].key, from.dict->entries[i].value)) return false;
        return true;
    }
    if (from.type == WR_J_UNDEFINED) return wr_jundefined_fail(run, from); /* it is asked for keys() */
    if (!wr_jiter_new(run, from, &it)) return false;
    for (;;) {
        if (!wr_jiter_next(run, it, &pair, &has)) return false;
        if (!has) return true;
        if (!wr_jiterable(pair))
            return WR_JERROR(run, "cannot convert dictionary update sequence element to a sequence");
        if (!wr_jiter_list(run, pair, &both)) return false;
        if (both.list->n != 2)
            return WR_JERROR(run, "dictionary update sequence element has length %zu; 2 is required", both.list->n);
        if (!wr_jdict_set(run, dict, both.list->items[0], both.list->items[1])) return false;
    }
}

static bool global_dict(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    if (c->n > 1) return WR_JERROR(run, "dict expected at most 1 argument, got %zu", c->n);
    if (!wr_jdict_new(run, out) || (c->n && !add_all(run, out->dict, c->args[0]))) return false;
    for (size_t i = 0; i < c->n_kw; i++)
        if (!wr_jdict_set(run, out->dict, c->kw[i].name, c->kw[i].value)) return false;
    return true;
}

bool wr_jnamespace_check(wr_jrun *run, wr_jval name) {
    if (name.type != WR_J_STR || !name.s->bytes || name.s->data[0] != '_') return true;
    return WR_JERROR(
        run,
        "Chat templates cannot store underscore-prefixed attributes on a namespace, but got '%.*s'. Please "
        "rename the attribute.",
        (int)(name.s->bytes < 80 ? name.s->bytes : 80), name.s->data);
}

static bool global_namespace(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    if (!global_dict(run, c, out)) return false;
    for (size_t i = 0; i < out->dict->n; i++)
        if (!wr_jnamespace_check(run, out->dict->entries[i].key)) return false;
    out->type = WR_J_NAMESPACE;
    return true;
}

static bool new_cycler(wr_jrun *run, wr_jtype type, const wr_jval *items, size_t n, wr_jval *out) {
    wr_jcycler *cycler = wr_jalloc(run, sizeof *cycler);
    if (!cycler || !(cycler->items = wr_jalloc_n(run, n, sizeof *items))) return false;
    if (n) memcpy(cycler->items, items, n * sizeof *items);
    cycler->n = n;
    *out = (wr_jval){.type = type, .cycler = cycler};
    return true;
}

static bool global_cycler(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    if (!c->n || c->n_kw) return WR_JERROR(run, "at least one item has to be provided");
    return new_cycler(run, WR_J_CYCLER, c->args, c->n, out);
}

static bool global_joiner(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    wr_jval sep = c->args[0];
    if (sep.type == WR_J_MISSING && !wr_jstr_lit(run, ", ", &sep)) return false;
    return new_cycler(run, WR_J_JOINER, &sep, 1, out);
}

static bool global_raise(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    wr_jbuf text = {0};
    (void)out;
    if (!wr_jshow(run, c->args[0], &text)) return false;
    return wr_jraise(run, text.data ? text.data : "", text.n);
}

/* datetime.now().strftime(format): the local time, without a zone. */
static bool global_strftime_now(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    time_t now = run->now_s ? (time_t)run->now_s : time(NULL);
    struct tm local;
    wr_jbuf buf = {0};
    if (!wr_jarg_str(run, c->args[0], "strftime() argument 1")) return false;
    const wr_jstr *f = c->args[0].s;
    if (f->bytes && memchr(f->data, 0, f->bytes)) return WR_JERROR(run, "embedded null character");
    if (!localtime_r(&now, &local)) return WR_JERROR(run, "the time cannot be had");
    for (size_t at = 0; at < f->bytes;) {
        const char *next = memchr(f->data + at, '%', f->bytes - at);
        size_t end = next ? (size_t)(next - f->data) : f->bytes, n = 2;
        if (!wr_jbuf_add(run, &buf, f->data + at, end - at)) return false;
        if (!next) break;
        /* A directive, with the flags that glibc has ("%-d"). */
        char form[8] = {'%'}, text[256];
        while (end + n < f->bytes && n < 6 && strchr("-_0^#:EO", f->data[end + n - 1])) n++;
        if (end + n > f->bytes) n = f->bytes - end;
        memcpy(form, f->data + end, n);
        form[n] = 0;
        char last = form[n - 1];
        if (n >= 2 && last == 'f') {
            memcpy(text, "000000", 7);
        } else if (n >= 2 && (last == 'z' || last == 'Z')) {
            text[0] = 0;
        } else if (n < 2 || (unsigned char)last >= 0x80) {
            memcpy(text, form, n + 1);
        } else {
            text[strftime(text, sizeof text, form, &local)] = 0;
        }
        if (!wr_jbuf_add(run, &buf, text, strlen(text))) return false;
        at = end + n;
    }
    return wr_jbuf_str(run, &buf, out);
}

static bool refused(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    (void)c, (void)out;
    return wr_jfail(run, WEIR_E_UNSUPPORTED, "lipsum() is not supported: a prompt must be the same each time");
}

static const wr_jbuiltin functions[] = {
    {"raise_exception", "message", 1, global_raise},
    {"namespace", NULL, 0, global_namespace},
    {"strftime_now", "format", 1, global_strftime_now},
    {"range", NULL, 0, global_range},
    {"dict", NULL, 0, global_dict},
    {"cycler", NULL, 0, global_cycler},
    {"joiner", "sep", 0, global_joiner},
    {"lipsum", NULL, 0, refused},
};
const wr_jtable wr_jglobals = {functions, sizeof functions / sizeof *functions};
