/* Values of the template language: what Python's objects are to jinja2. Small ones lie
 * in the wr_jval itself, others in the heap of the rendering. All are immutable but
 * namespaces, loops, iterators, cyclers and joiners, as the sandbox has it. */
#ifndef WR_TEXT_JINJA_VALUE_H
#define WR_TEXT_JINJA_VALUE_H

#include "text/jinja/run.h"

typedef enum wr_jtype {
    WR_J_MISSING, /* no value at all: a variable without one, an argument not given */
    WR_J_UNDEFINED,
    WR_J_NONE,
    WR_J_BOOL,
    WR_J_INT,
    WR_J_FLOAT,
    WR_J_STR,
    WR_J_LIST,
    WR_J_TUPLE,
    WR_J_DICT,
    WR_J_VIEW, /* keys(), values(), items() of a dict */
    WR_J_RANGE,
    WR_J_ITER, /* generators and iterators: can be walked once */
    WR_J_NAMESPACE,
    WR_J_LOOP,
    WR_J_CYCLER,
    WR_J_JOINER,
    WR_J_MACRO,
    WR_J_FUNCTION, /* a global function */
    WR_J_METHOD,   /* a method with the value it belongs to */
} wr_jtype;

/* Text: valid UTF-8, not terminated, never changed. */
typedef struct wr_jstr {
    const char *data;
    size_t bytes;
    size_t chars;  /* characters; SIZE_MAX: not counted yet */
    uint64_t hash; /* 0: not computed yet */
    bool markup;   /* markupsafe's Markup: concatenation escapes the other side */
} wr_jstr;

typedef struct wr_jval {
    wr_jtype type;
    union {
        bool b;
        int64_t i;
        double f;
        struct wr_jstr *s;
        struct wr_jlist *list; /* LIST, TUPLE */
        struct wr_jdict *dict; /* DICT, NAMESPACE */
        struct wr_jview *view;
        struct wr_jrange *range;
        struct wr_jiter *iter;
        struct wr_jundefined *undefined;
        struct wr_jloop *loop;
        struct wr_jcycler *cycler;
        struct wr_jmacro *macro;
        const struct wr_jbuiltin *function;
        struct wr_jmethod *method;
    };
} wr_jval;

typedef struct wr_jlist {
    wr_jval *items;
    size_t n;
    bool group; /* a tuple of groupby: items are also named grouper and list */
} wr_jlist;

typedef struct wr_jentry {
    wr_jval key, value;
    uint64_t hash;
} wr_jentry;
typedef struct wr_jdict {
    wr_jentry *entries; /* in order of insertion */
    size_t n, cap;
    uint32_t *index; /* open addressing, entry + 1; NULL while small */
    size_t index_size;
    bool showing; /* its repr is being written */
} wr_jdict;

typedef enum wr_jview_kind { WR_J_KEYS, WR_J_VALUES, WR_J_ITEMS } wr_jview_kind;
typedef struct wr_jview {
    wr_jdict *dict;
    wr_jview_kind kind;
} wr_jview;

typedef struct wr_jrange {
    int64_t start, stop, step, n;
} wr_jrange;

typedef struct wr_jundefined {
    const wr_jstr *hint; /* the whole message, or NULL */
    wr_jval obj;         /* what was asked, or MISSING */
    wr_jval name;        /* for what */
} wr_jundefined;

/* cycler: items; joiner: items[0] is the separator, at > 0: used. */
typedef struct wr_jcycler {
    wr_jval *items;
    size_t n, at;
} wr_jcycler;

typedef struct wr_jmethod {
    wr_jval self;
    const struct wr_jbuiltin *method;
} wr_jmethod;

/* ---- making ---- */

static inline wr_jval wr_jnone(void) { return (wr_jval){.type = WR_J_NONE}; }
static inline wr_jval wr_jbool(bool b) { return (wr_jval){.type = WR_J_BOOL, .b = b}; }
static inline wr_jval wr_jint(int64_t i) { return (wr_jval){.type = WR_J_INT, .i = i}; }
static inline wr_jval wr_jfloat(double f) { return (wr_jval){.type = WR_J_FLOAT, .f = f}; }

/* Text that lives as long as the run; not copied. */
bool wr_jstr_view(wr_jrun *run, const char *data, size_t bytes, wr_jval *out);
bool wr_jstr_dup(wr_jrun *run, const char *data, size_t bytes, wr_jval *out);
#define wr_jstr_lit(run, literal, out) wr_jstr_view((run), (literal), sizeof(literal) - 1, (out))
/* What a buffer holds, which may not be written to any more. */
bool wr_jbuf_str(wr_jrun *run, wr_jbuf *buf, wr_jval *out);
/* v, a text, as Markup or as plain text. */
bool wr_jstr_mark(wr_jrun *run, wr_jval v, bool markup, wr_jval *out);

/* n items, MISSING at first. */
bool wr_jlist_new(wr_jrun *run, wr_jtype type, size_t n, wr_jval *out);
/* A list that grows while it is built. */
typedef struct wr_jitems {
    wr_jval *at;
    size_t n, cap;
} wr_jitems;
bool wr_jitems_add(wr_jrun *run, wr_jitems *items, wr_jval v);
bool wr_jitems_list(wr_jrun *run, wr_jitems *items, wr_jtype type, wr_jval *out);

bool wr_jdict_new(wr_jrun *run, wr_jval *out);
bool wr_jdict_set(wr_jrun *run, wr_jdict *dict, wr_jval key, wr_jval value);
/* *found: the entry or NULL. Fails on a key that cannot be hashed. */
bool wr_jdict_find(wr_jrun *run, const wr_jdict *dict, wr_jval key, wr_jentry **found);
/* With a text key; never fails. */
wr_jentry *wr_jdict_get(const wr_jdict *dict, const char *key, size_t bytes);

bool wr_jview_new(wr_jrun *run, wr_jdict *dict, wr_jview_kind kind, wr_jval *out);

bool wr_jundefined_name(wr_jrun *run, wr_jval name, wr_jval *out);
bool wr_jundefined_of(wr_jrun *run, wr_jval obj, wr_jval name, wr_jval *out);
bool wr_jundefined_hint(wr_jrun *run, const char *hint, wr_jval *out);
/* Records the error that using this value is. */
bool wr_jundefined_fail(wr_jrun *run, wr_jval v);

/* ---- asking ---- */

/* "str", "dict", ... as Python names the type. */
const char *wr_jtype_name(wr_jval v);
static inline bool wr_jis_str(wr_jval v) { return v.type == WR_J_STR; }
static inline bool wr_jis_seq(wr_jval v) { return v.type == WR_J_LIST || v.type == WR_J_TUPLE; }
/* bool counts as int, as in Python. */
static inline bool wr_jis_int(wr_jval v) { return v.type == WR_J_INT || v.type == WR_J_BOOL; }
static inline int64_t wr_jint_of(wr_jval v) { return v.type == WR_J_BOOL ? v.b : v.i; }
static inline bool wr_jis_number(wr_jval v) { return wr_jis_int(v) || v.type == WR_J_FLOAT; }
static inline double wr_jfloat_of(wr_jval v) { return v.type == WR_J_FLOAT ? v.f : (double)wr_jint_of(v); }
bool wr_jstr_is(wr_jval v, const char *text);
/* The same of a text itself, and of two. */
bool wr_jstr_equals(const wr_jstr *s, const char *text);
bool wr_jstr_same(const wr_jstr *a, const wr_jstr *b);

bool wr_jtruth(wr_jrun *run, wr_jval v, bool *out);
bool wr_jequal(wr_jrun *run, wr_jval a, wr_jval b, bool *out);
/* a < b, a <= b by one function: op is '<', 'l' (<=), '>', 'g' (>=). */
bool wr_jcompare(wr_jrun *run, wr_jval a, wr_jval b, char op, bool *out);
bool wr_jhash(wr_jrun *run, wr_jval v, uint64_t *out);
/* The same object (Python's `is`). */
bool wr_jsame(wr_jval a, wr_jval b);
/* item in box */
bool wr_jcontains(wr_jrun *run, wr_jval box, wr_jval item, bool *out);
/* len(v); -1, and no failure, when it has none. */
bool wr_jlen(wr_jrun *run, wr_jval v, int64_t *out);

/* ---- texts by character ---- */

size_t wr_jstr_chars(wr_jstr *s);
uint64_t wr_jstr_hash(wr_jstr *s);
static inline bool wr_jstr_ascii(wr_jstr *s) { return wr_jstr_chars(s) == s->bytes; }
/* The byte at which character i begins; i <= chars. */
size_t wr_jstr_byte(wr_jstr *s, size_t i);
/* Characters [begin, end) as a view. */
bool wr_jstr_sub(wr_jrun *run, wr_jstr *s, size_t begin, size_t end, wr_jval *out);
bool wr_jchar_is_space(uint32_t cp); /* str.isspace */

#endif
