/* A parsed template: nodes in one arena, names resolved to variables (scope.c). */
#ifndef WR_TEXT_JINJA_AST_H
#define WR_TEXT_JINJA_AST_H

#include "text/jinja/builtin.h"
#include "text/jinja/jinja.h"
#include "text/jinja/ops.h"
#include "text/jinja/value.h"

typedef enum wr_jkind {
    /* statements */
    WR_J_DATA,        /* value */
    WR_J_OUTPUT,      /* items */
    WR_J_IF,          /* a: test; body; elifs: IF nodes; orelse */
    WR_J_FOR,         /* a: target; b: iterable; c: test or NULL; body; orelse; flag: recursive; loop: `loop` is read */
    WR_J_SET,         /* a: target; b: expression */
    WR_J_SETBLOCK,    /* a: target; b: FILTER or NULL; body */
    WR_J_MACRODEF,    /* name; items: NAME parameters; defaults; body */
    WR_J_CALLBLOCK,   /* a: CALL, NULL for {% generation %}; items; defaults; body */
    WR_J_FILTERBLOCK, /* a: FILTER; body */
    WR_J_WITH,        /* items: targets; defaults: values; body */
    WR_J_SCOPE,       /* body; {% autoescape false %} */
    WR_J_BLOCK,       /* name; body */
    WR_J_BREAK,
    WR_J_CONTINUE,
    /* expressions */
    WR_J_CONST,    /* value */
    WR_J_NAME,     /* name, ref */
    WR_J_NSREF,    /* name, ref, value: the attribute; only as a target */
    WR_J_TUPLE_OF, /* items */
    WR_J_LIST_OF,
    WR_J_DICT_OF, /* items: key, value, key, value, ... */
    WR_J_COND,    /* a: test; b: then; c: else or NULL */
    WR_J_OR,      /* a, b */
    WR_J_AND,
    WR_J_NOT,     /* a */
    WR_J_COMPARE, /* a; items: others, each with op */
    WR_J_BINARY,  /* op, a, b */
    WR_J_CONCAT,  /* items */
    WR_J_NEG,     /* a */
    WR_J_POS,
    WR_J_GETATTR, /* a, name */
    WR_J_GETITEM, /* a, b */
    WR_J_SLICE,   /* a; items[3], each may be NULL */
    WR_J_CALL,    /* a: function; items: arguments; kwargs; b: *args or NULL; c: **kwargs or NULL */
    WR_J_FILTER,  /* a: what is filtered, NULL in a filter block; name, builtin; arguments as CALL, without its a */
    WR_J_TEST,
} wr_jkind;

/* A variable: so many functions outwards from the one that runs, and which of its slots. */
typedef struct wr_jref {
    uint32_t hops, slot;
} wr_jref;

/* What happens to a frame's variable when the frame is entered (jinja2's load
 * instructions, minus parameters, which are set by then). */
typedef enum wr_jload_kind { WR_J_RESOLVE, WR_J_ALIAS, WR_J_UNSET } wr_jload_kind;
typedef struct wr_jload {
    wr_jload_kind kind;
    wr_jref target;      /* hops is 0 */
    wr_jref from;        /* ALIAS */
    const wr_jstr *name; /* RESOLVE */
} wr_jload;
/* A scope of names. slots: those it owns, which become unset when it is left. */
typedef struct wr_jscope {
    wr_jload *loads;
    uint32_t *slots;
    uint32_t n_loads, n_slots;
} wr_jscope;

struct wr_jnode;
typedef struct wr_jnodes {
    struct wr_jnode **at;
    uint32_t n;
} wr_jnodes;

typedef struct wr_jkeyword {
    const wr_jstr *name;
    struct wr_jnode *value;
} wr_jkeyword;

typedef struct wr_jnode {
    uint8_t kind, op; /* wr_jkind, wr_jop */
    bool flag, loop, store, toplevel;
    uint32_t line, n_kwargs, n_slots;
    wr_jstr *name;
    wr_jval value;
    struct wr_jnode *a, *b, *c;
    wr_jnodes items, body, orelse, elifs, defaults;
    wr_jkeyword *kwargs;
    wr_jref ref;                   /* NAME, NSREF; FOR: of `loop` */
    const wr_jbuiltin *builtin;    /* FILTER, TEST; NULL: none of this name */
    wr_jscope *scope, *scope2;     /* FOR: body, else */
    struct wr_jtestloop *tested;   /* FOR with a test */
    struct wr_jspecials *specials; /* MACRODEF, CALLBLOCK */
} wr_jnode;

/* The test of a for is a function of its own: its scope, and the target once more. */
typedef struct wr_jtestloop {
    wr_jscope *scope;
    wr_jnode *target;
    uint32_t n_slots;
} wr_jtestloop;

/* What a macro reads of caller, kwargs and varargs, and where these go. */
typedef struct wr_jspecials {
    bool caller, kwargs, varargs;
    wr_jref caller_ref, kwargs_ref, varargs_ref;
    int explicit_caller; /* index of a parameter named caller; -1 */
} wr_jspecials;

/* The template. Immutable after wr_jinja_new. */
struct wr_jinja {
    wr_jrun memory; /* its heap: nodes, texts, constants */
    wr_jnodes body;
    wr_jscope *scope;
    uint32_t n_slots;
    bool has_blocks;
    wr_jval names;      /* a dict: each name of the template, once */
    wr_jval undeclared; /* a dict: those read from outside */
};

/* A function at work: its variables, and the function around it. */
typedef struct wr_jframe {
    wr_jval *slots;
    struct wr_jframe *outer;
} wr_jframe;

/* Parse into jinja->body. Errors are recorded in the run. */
bool wr_jparse(wr_jrun *run, const char *source, size_t bytes, struct wr_jinja *jinja);
/* Resolve all names. */
bool wr_jresolve(wr_jrun *run, struct wr_jinja *jinja);

/* Expressions and statements at work. */
bool wr_jeval(wr_jrun *run, const wr_jnode *node, wr_jframe *frame, wr_jval *out);
/* The arguments of a CALL, FILTER or TEST. */
bool wr_jarguments(wr_jrun *run, const wr_jnode *node, wr_jframe *frame, wr_jcall *call);
typedef enum wr_jflow { WR_J_NEXT, WR_J_LEAVE_LOOP, WR_J_NEXT_ITEM, WR_J_FAILED } wr_jflow;
wr_jflow wr_jexec(wr_jrun *run, const wr_jnodes *body, wr_jframe *frame);
/* Are the namespaces whose attributes a target sets namespaces? Asked before the value is computed. */
bool wr_jtarget_check(wr_jrun *run, const wr_jnode *target, wr_jframe *frame);
/* The filters of a filter or set block, over its text. */
bool wr_jfilter_chain(wr_jrun *run, const wr_jnode *node, wr_jframe *frame, wr_jval *text);
bool wr_jassign(wr_jrun *run, const wr_jnode *target, wr_jval v, wr_jframe *frame);
void wr_jscope_enter(wr_jrun *run, const wr_jscope *scope, wr_jframe *frame);

#endif
