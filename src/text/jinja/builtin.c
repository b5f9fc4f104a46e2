/* Finding built-in functions, and binding arguments as Python does. */
#include "text/jinja/builtin.h"

#include <string.h>

#include "text/jinja/macro.h"
#include "text/jinja/ops.h"

static const wr_jbuiltin *find_in(const wr_jtable *table, const wr_jstr *name) {
    for (size_t i = 0; i < table->n; i++) {
        const char *known = table->at[i].name;
        if (strncmp(known, name->data, name->bytes) == 0 && !known[name->bytes]) return &table->at[i];
    }
    return NULL;
}

const wr_jbuiltin *wr_jfilter_find(const wr_jstr *name) {
    const wr_jbuiltin *found = find_in(&wr_jtext_filters, name);
    if (!found) found = find_in(&wr_jlist_filters, name);
    return found ? found : find_in(&wr_jpick_filters, name);
}
const wr_jbuiltin *wr_jtest_find(const wr_jstr *name) { return find_in(&wr_jtests, name); }
const wr_jbuiltin *wr_jglobal_find(const wr_jstr *name) { return find_in(&wr_jglobals, name); }

int wr_jword_index(const char *words, const char *text, size_t bytes) {
    int i = 0;
    for (const char *p = words; *p; i++) {
        size_t n = strcspn(p, " ");
        if (n == bytes && memcmp(p, text, n) == 0) return i;
        p += n + strspn(p + n, " ");
    }
    return -1;
}

static bool is_word(const char *words, const wr_jstr *name) {
    return wr_jword_index(words, name->data, name->bytes) >= 0;
}

const wr_jbuiltin *wr_jmethod_find(wr_jval self, const wr_jstr *name, bool *unsafe) {
    /* wr_jother_methods spells type and name: "dict.get". */
    char full[64];
    const wr_jbuiltin *found;
    *unsafe = false;
    switch (self.type) {
    case WR_J_STR:
        found = find_in(&wr_jtext_methods, name);
        return found ? found : find_in(&wr_jtext_case_methods, name);
    case WR_J_LIST: *unsafe = is_word("append clear pop reverse insert sort extend remove", name); break;
    case WR_J_DICT: *unsafe = is_word("clear pop popitem setdefault update", name); break;
    case WR_J_TUPLE:
    case WR_J_INT:
    case WR_J_BOOL:
    case WR_J_FLOAT:
    case WR_J_RANGE:
    case WR_J_LOOP:
    case WR_J_CYCLER: break;
    case WR_J_FUNCTION:
        if (strcmp(self.function->name, "dict") != 0) return NULL;
        break;
    default: return NULL;
    }
    if (*unsafe || name->bytes > 32) return NULL;
    const char *type = self.type == WR_J_FUNCTION ? "class" : self.type == WR_J_LOOP ? "loop" : wr_jtype_name(self);
    if (self.type == WR_J_BOOL) type = "int";
    if (self.type == WR_J_CYCLER) type = "cycler";
    int n = snprintf(full, sizeof full, "%s.%.*s", type, (int)name->bytes, name->data);
    return find_in(&wr_jother_methods, &(wr_jstr){.data = full, .bytes = (size_t)n});
}

/* ---- binding ---- */

static int param_count(const char *params) {
    int n = 0;
    for (const char *p = params; *p; n++) {
        p += strcspn(p, " ");
        p += strspn(p, " ");
    }
    return n;
}

bool wr_jbuiltin_call(wr_jrun *run, const wr_jbuiltin *f, const wr_jcall *call, wr_jval *out) {
    wr_jval args[WR_J_PARAMS_MAX] = {{0}};
    if (!f->params) return f->call(run, call, out);
    int n = param_count(f->params);
    if (call->n > (size_t)n)
        return WR_JERROR(run, "%s() takes at most %d argument%s (%zu given)", f->name, n, n == 1 ? "" : "s", call->n);
    for (size_t i = 0; i < call->n; i++) args[i] = call->args[i];
    for (size_t i = 0; i < call->n_kw; i++) {
        const wr_jstr *name = call->kw[i].name.s;
        int at = f->required < 0 ? -1 : wr_jword_index(f->params, name->data, name->bytes);
        int shown = name->bytes < 80 ? (int)name->bytes : 80;
        if (at < 0) return WR_JERROR(run, "%s() got an unexpected keyword argument '%.*s'", f->name, shown, name->data);
        if (args[at].type != WR_J_MISSING)
            return WR_JERROR(run, "%s() got multiple values for argument '%.*s'", f->name, shown, name->data);
        args[at] = call->kw[i].value;
    }
    int required = f->required < 0 ? -f->required - 1 : f->required;
    for (int i = 0; i < required; i++)
        if (args[i].type == WR_J_MISSING)
            return WR_JERROR(run, "%s() is missing a required argument (%d given, %d needed)", f->name, i, required);
    return f->call(run, &(wr_jcall){.self = call->self, .args = args, .n = (size_t)n}, out);
}

bool wr_jcall_value(wr_jrun *run, wr_jval f, const wr_jcall *call, wr_jval *out) {
    wr_jcall bound = *call;
    if (!wr_jenter(run)) return false;
    bool done;
    switch (f.type) {
    case WR_J_UNDEFINED: done = wr_jundefined_fail(run, f); break;
    case WR_J_MACRO: done = wr_jmacro_call(run, f.macro, call, out); break;
    case WR_J_FUNCTION: done = wr_jbuiltin_call(run, f.function, call, out); break;
    case WR_J_METHOD:
        bound.self = f.method->self;
        done = wr_jbuiltin_call(run, f.method->method, &bound, out);
        break;
    case WR_J_LOOP: done = wr_jloop_recurse(run, f.loop, call, out); break;
    case WR_J_JOINER:
        if (call->n || call->n_kw) {
            done = WR_JERROR(run, "a joiner takes no arguments");
        } else {
            done = true;
            *out = f.cycler->items[0];
            if (!f.cycler->at) done = wr_jstr_lit(run, "", out);
            f.cycler->at = 1;
        }
        break;
    default: done = WR_JERROR(run, "'%s' object is not callable", wr_jtype_name(f)); break;
    }
    wr_jleave(run);
    return done;
}

/* ---- arguments ---- */

bool wr_jarg_int(wr_jrun *run, wr_jval v, int64_t fallback, int64_t *out) {
    *out = fallback;
    if (v.type == WR_J_MISSING) return true;
    if (v.type == WR_J_UNDEFINED) return wr_jundefined_fail(run, v);
    if (!wr_jis_int(v)) return WR_JERROR(run, "'%s' object cannot be interpreted as an integer", wr_jtype_name(v));
    *out = wr_jint_of(v);
    return true;
}

bool wr_jarg_bool(wr_jrun *run, wr_jval v, bool fallback, bool *out) {
    *out = fallback;
    return v.type == WR_J_MISSING || wr_jtruth(run, v, out);
}

bool wr_jarg_str(wr_jrun *run, wr_jval v, const char *what) {
    if (v.type == WR_J_STR) return true;
    if (v.type == WR_J_UNDEFINED) return WR_JERROR(run, "%s must be a str, not Undefined", what);
    return WR_JERROR(run, "%s must be a str, not %s", what, wr_jtype_name(v));
}
