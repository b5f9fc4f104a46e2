/* Functions that are there without the template's doing: filters, tests, methods and
 * globals, in tables, and the binding of arguments to their parameters. */
#ifndef WR_TEXT_JINJA_BUILTIN_H
#define WR_TEXT_JINJA_BUILTIN_H

#include "text/jinja/value.h"

typedef struct wr_jkw {
    wr_jval name, value; /* name: a text */
} wr_jkw;

/* A call. self: what is filtered or tested, or whose method it is; MISSING for a global. */
typedef struct wr_jcall {
    wr_jval self;
    wr_jval *args;
    size_t n;
    wr_jkw *kw;
    size_t n_kw;
} wr_jcall;

enum { WR_J_PARAMS_MAX = 8 };

typedef struct wr_jbuiltin {
    const char *name;
    /* Names of the parameters with spaces between: bound, so that args has exactly one
     * value for each, MISSING where none is given. NULL: the call comes as it was made. */
    const char *params;
    int required; /* the first so many must be given; -1 for methods without keywords */
    bool (*call)(wr_jrun *run, const wr_jcall *call, wr_jval *out);
} wr_jbuiltin;

/* NULL when there is none. */
const wr_jbuiltin *wr_jfilter_find(const wr_jstr *name);
const wr_jbuiltin *wr_jtest_find(const wr_jstr *name);
const wr_jbuiltin *wr_jglobal_find(const wr_jstr *name);
/* *unsafe: there is such a method, and it changes its object, which the sandbox forbids. */
const wr_jbuiltin *wr_jmethod_find(wr_jval self, const wr_jstr *name, bool *unsafe);

/* Where text [bytes] stands in a list of words with spaces between; -1: nowhere. */
int wr_jword_index(const char *words, const char *text, size_t bytes);

/* The tables, one of each file. */
typedef struct wr_jtable {
    const wr_jbuiltin *at;
    size_t n;
} wr_jtable;
extern const wr_jtable wr_jtext_filters, wr_jlist_filters, wr_jpick_filters, wr_jtests, wr_jglobals, wr_jtext_methods,
    wr_jtext_case_methods, wr_jother_methods;

/* Bind and call. */
bool wr_jbuiltin_call(wr_jrun *run, const wr_jbuiltin *builtin, const wr_jcall *call, wr_jval *out);
/* Call any value, as a template's f(...) does. */
bool wr_jcall_value(wr_jrun *run, wr_jval f, const wr_jcall *call, wr_jval *out);

/* Arguments by type, with the default for MISSING. All fail as errors. */
bool wr_jarg_int(wr_jrun *run, wr_jval v, int64_t fallback, int64_t *out);
bool wr_jarg_bool(wr_jrun *run, wr_jval v, bool fallback, bool *out);
bool wr_jarg_str(wr_jrun *run, wr_jval v, const char *what);
static inline bool wr_jgiven(wr_jval v) { return v.type != WR_J_MISSING && v.type != WR_J_NONE; }

#endif
