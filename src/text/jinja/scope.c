/* Which variable a name means. jinja2 decides this before a template runs, and this file
 * follows its rules to the letter: each scope knows the names it stores and those it
 * reads; on entry a scope takes a name from the scope around it (alias), from the
 * caller's variables (resolve), or starts without a value.
 *
 * A macro, the body of a call block or of {% generation %}, a recursive loop, the test of
 * a loop and a block are functions: scopes within one function share its slots, by
 * level and name. */
#include <string.h>

#include "text/jinja/parser.h"
#include "text/jinja/walk.h"

typedef struct slot {
    int level;
    const wr_jstr *name;
} slot;

typedef struct function {
    struct function *outer;
    slot *slots;
    uint32_t n;
    size_t cap;
} function;

typedef enum load_action { RESOLVE = WR_J_RESOLVE, ALIAS = WR_J_ALIAS, UNSET = WR_J_UNSET, PARAMETER } load_action;

struct frame;
typedef struct symbol {
    const wr_jstr *name;
    bool known, stored; /* known: the scope has a variable for it */
    load_action action;
    struct frame *from; /* ALIAS */
} symbol;

/* A scope; or, while an if is looked at, what one of its branches adds to a scope: base. */
typedef struct frame {
    struct frame *parent, *base;
    function *function;
    int level;
    symbol *symbols;
    size_t n, cap;
} frame;

typedef struct resolver {
    wr_jrun *run;
    struct wr_jinja *jinja;
    wr_jdict *undeclared, *blocks;
} resolver;

/* ---- symbols ---- */

static symbol *own(resolver *r, const frame *f, const wr_jstr *name) {
    for (size_t i = 0; i < f->n; i++)
        if (f->symbols[i].name == name) return &f->symbols[i];
    /* The search costs; who writes thousands of names in one scope pays for it. */
    if (!wr_jcharge(r->run, f->n * 8)) return NULL;
    return NULL;
}

static symbol *add(resolver *r, frame *f, const wr_jstr *name) {
    symbol *s = own(r, f, name);
    if (s) return s;
    if (!wr_jgrow(r->run, &f->symbols, &f->cap, f->n, 8, sizeof *f->symbols)) return NULL;
    s = &f->symbols[f->n++];
    *s = (symbol){.name = name};
    return s;
}

/* The scope's variable of this name, in it or in what it is based on. */
static symbol *known_here(resolver *r, const frame *f, const wr_jstr *name) {
    for (; f; f = f->base) {
        symbol *s = own(r, f, name);
        if (s && s->known) return s;
    }
    return NULL;
}

static bool stored_here(resolver *r, const frame *f, const wr_jstr *name) {
    for (; f; f = f->base) {
        const symbol *s = own(r, f, name);
        if (s && s->stored) return true;
    }
    return false;
}

/* The scope itself, of which f may be a branch. */
static frame *whole(frame *f) {
    while (f->base) f = f->base;
    return f;
}

/* The innermost scope that has the name; NULL: none. */
static frame *find(resolver *r, frame *f, const wr_jstr *name) {
    for (; f; f = whole(f)->parent)
        if (known_here(r, f, name)) return whole(f);
    return NULL;
}

static bool define(resolver *r, frame *f, const wr_jstr *name, load_action action, frame *from) {
    symbol *s = add(r, f, name);
    if (!s) return false;
    s->known = true;
    s->action = action;
    s->from = from;
    return true;
}

static bool store(resolver *r, frame *f, const wr_jstr *name) {
    symbol *s = add(r, f, name);
    if (!s) return false;
    s->stored = true;
    if (known_here(r, f, name)) return true;
    frame *from = find(r, whole(f)->parent, name);
    return define(r, f, name, from ? ALIAS : UNSET, from);
}

static bool declare(resolver *r, frame *f, const wr_jstr *name) {
    symbol *s = add(r, f, name);
    if (!s) return false;
    s->stored = true;
    return define(r, f, name, PARAMETER, NULL);
}

static bool load(resolver *r, frame *f, const wr_jstr *name) {
    if (find(r, f, name)) return true;
    return define(r, f, name, RESOLVE, NULL);
}

/* What the branches of an if know, the scope knows; what only a branch stores starts with
 * what is outside, since the branch may not be taken. */
static bool merge(resolver *r, frame *f, frame *branches, int n) {
    for (int i = 0; i < n; i++) {
        for (size_t k = 0; k < branches[i].n; k++) {
            const symbol *s = &branches[i].symbols[k];
            if (s->known && !define(r, f, s->name, s->action, s->from)) return false;
        }
    }
    for (int i = 0; i < n; i++) {
        for (size_t k = 0; k < branches[i].n; k++) {
            const symbol *s = &branches[i].symbols[k];
            if (!s->stored || stored_here(r, f, s->name)) continue;
            frame *from = find(r, whole(f)->parent, s->name);
            if (!define(r, f, s->name, from ? ALIAS : RESOLVE, from)) return false;
        }
    }
    for (int i = 0; i < n; i++) {
        for (size_t k = 0; k < branches[i].n; k++) {
            if (!branches[i].symbols[k].stored) continue;
            symbol *mine = add(r, f, branches[i].symbols[k].name);
            if (!mine) return false;
            mine->stored = true;
        }
    }
    return r->run->status == WEIR_OK;
}

/* ---- what a scope stores and reads ---- */

typedef struct look {
    resolver *r;
    frame *f;
    bool parameters; /* names that are set are parameters */
} look;

static bool look_at(void *context, const wr_jnode *node);

static bool look_list(look *l, const wr_jnodes *list) { return wr_jwalk_list(list, look_at, l); }
static bool look_one(look *l, const wr_jnode *node) { return !node || look_at(l, node); }

static bool look_branch(look *l, frame *branch, const wr_jnodes *list) {
    *branch = (frame){.base = l->f, .function = l->f->function, .level = l->f->level};
    look inner = {.r = l->r, .f = branch};
    return look_list(&inner, list);
}

static bool look_if(look *l, const wr_jnode *node) {
    frame branches[3];
    return look_one(l, node->a) && look_branch(l, &branches[0], &node->body) &&
           look_branch(l, &branches[1], &node->elifs) && look_branch(l, &branches[2], &node->orelse) &&
           merge(l->r, l->f, branches, 3);
}

static bool look_deep(look *l, const wr_jnode *node) {
    switch ((wr_jkind)node->kind) {
    case WR_J_IF: return look_if(l, node);
    case WR_J_SET: return look_one(l, node->b) && look_one(l, node->a);
    case WR_J_FOR: return look_one(l, node->b);
    case WR_J_CALLBLOCK: return look_one(l, node->a);
    case WR_J_FILTERBLOCK: return look_one(l, node->a);
    case WR_J_WITH: return look_list(l, &node->defaults);
    case WR_J_SETBLOCK: return look_one(l, node->a);
    case WR_J_SCOPE:
    case WR_J_BLOCK: return true;
    default: return wr_jwalk_children(node, look_at, l);
    }
}

static bool look_at(void *context, const wr_jnode *node) {
    look *l = context;
    if (!wr_jcharge(l->r->run, 0)) return false;
    if (node->kind == WR_J_NAME) {
        if (l->parameters) return declare(l->r, l->f, node->name);
        return node->store ? store(l->r, l->f, node->name) : load(l->r, l->f, node->name);
    }
    if (node->kind == WR_J_NSREF) return load(l->r, l->f, node->name);
    if (node->kind == WR_J_MACRODEF) return store(l->r, l->f, node->name);
    if (node->kind == WR_J_CONST || node->kind == WR_J_DATA) return true;
    if (!wr_jenter(l->r->run)) return false;
    bool done = look_deep(l, node);
    wr_jleave(l->r->run);
    return done && l->r->run->status == WEIR_OK;
}

static bool look_parameters(resolver *r, frame *f, const wr_jnode *target) {
    look l = {.r = r, .f = f, .parameters = true};
    return look_one(&l, target);
}

/* ---- slots ---- */

static bool slot_of(resolver *r, function *fn, int level, const wr_jstr *name, uint32_t *out) {
    for (uint32_t i = 0; i < fn->n; i++) {
        if (fn->slots[i].level != level || fn->slots[i].name != name) continue;
        *out = i;
        return true;
    }
    if (!wr_jcharge(r->run, fn->n * 8)) return false;
    if (!wr_jgrow(r->run, &fn->slots, &fn->cap, fn->n, 8, sizeof *fn->slots)) return false;
    *out = fn->n;
    fn->slots[fn->n++] = (slot){level, name};
    return true;
}

/* The variable of f that a name means, seen from function fn. */
static bool reference(resolver *r, frame *f, function *fn, const wr_jstr *name, int line, wr_jref *out) {
    frame *owner = find(r, f, name);
    if (!owner)
        return r->run->status == WEIR_OK &&
               WR_JSYNTAX(r->run, line, "Tried to resolve a name to a reference that was unknown to the frame ('%.*s')",
                          (int)(name->bytes < 80 ? name->bytes : 80), name->data);
    out->hops = 0;
    for (; fn != owner->function; fn = fn->outer) out->hops++;
    return slot_of(r, owner->function, owner->level, name, &out->slot);
}

static bool scope_of(resolver *r, frame *f, wr_jscope **out) {
    wr_jscope *scope = wr_jalloc(r->run, sizeof *scope);
    if (!scope || !(scope->loads = wr_jalloc_n(r->run, f->n, sizeof *scope->loads)) ||
        !(scope->slots = wr_jalloc_n(r->run, f->n, sizeof *scope->slots)))
        return false;
    for (size_t i = 0; i < f->n; i++) {
        const symbol *s = &f->symbols[i];
        wr_jload at = {.kind = (wr_jload_kind)s->action, .name = s->name};
        if (!s->known) continue;
        if (!slot_of(r, f->function, f->level, s->name, &at.target.slot)) return false;
        scope->slots[scope->n_slots++] = at.target.slot;
        if (s->action == PARAMETER) continue;
        if (s->action == ALIAS && !reference(r, s->from, f->function, s->name, 0, &at.from)) return false;
        wr_jval name = {.type = WR_J_STR, .s = (wr_jstr *)s->name};
        if (s->action == RESOLVE && !wr_jdict_set(r->run, r->undeclared, name, name)) return false;
        scope->loads[scope->n_loads++] = at;
    }
    *out = scope;
    return true;
}

static frame inner(frame *f, function *fn) { return (frame){.parent = f, .function = fn, .level = f->level + 1}; }

/* ---- names to variables ---- */

typedef struct place {
    resolver *r;
    frame *f;
    function *fn;
    bool soft;     /* in an if: filters that do not exist fail only when reached */
    bool toplevel; /* what is set here, blocks can see */
} place;

static bool resolve_list(place *p, const wr_jnodes *list);
static bool resolve(place *p, wr_jnode *node);

static bool resolve_child(void *context, const wr_jnode *node) { return resolve(context, (wr_jnode *)node); }

/* A body in a scope of its own. */
static bool resolve_body(place *p, frame *f, const wr_jnodes *body) {
    place within = {.r = p->r, .f = f, .fn = f->function};
    return resolve_list(&within, body);
}

static bool copy_target(resolver *r, const wr_jnode *from, wr_jnode **out) {
    wr_jnode *copy = wr_jalloc(r->run, sizeof *copy);
    if (!copy) return false;
    *copy = *from;
    *out = copy;
    if (from->kind != WR_J_TUPLE_OF) return true;
    if (!(copy->items.at = wr_jalloc_n(r->run, from->items.n, sizeof(wr_jnode *))) || !wr_jenter(r->run)) return false;
    for (uint32_t i = 0; i < from->items.n; i++)
        if (!copy_target(r, from->items.at[i], &copy->items.at[i])) return false;
    wr_jleave(r->run);
    return true;
}

/* A name as its one pointer, also when the template never writes it. */
static bool interned(resolver *r, const char *text, const wr_jstr **out) {
    wr_jval name;
    wr_jentry *known = wr_jdict_get(r->jinja->names.dict, text, strlen(text));
    if (!known &&
        (!wr_jstr_view(r->run, text, strlen(text), &name) || !wr_jdict_set(r->run, r->jinja->names.dict, name, name)))
        return false;
    *out = known ? known->key.s : name.s;
    return true;
}

static bool resolve_for_test(place *p, wr_jnode *node) {
    function fn = {.outer = p->fn};
    frame f = inner(p->f, &fn);
    look l = {.r = p->r, .f = &f};
    wr_jtestloop *tested = node->tested = wr_jalloc(p->r->run, sizeof *tested);
    place within = {.r = p->r, .f = &f, .fn = &fn};
    if (!tested || !look_parameters(p->r, &f, node->a) || !look_one(&l, node->c) ||
        !copy_target(p->r, node->a, &tested->target) || !resolve(&within, tested->target) ||
        !resolve(&within, node->c) || !scope_of(p->r, &f, &tested->scope))
        return false;
    tested->n_slots = fn.n;
    return true;
}

static bool resolve_for(place *p, wr_jnode *node) {
    static const char *const loop_name[] = {"loop"};
    resolver *r = p->r;
    function own_function = {.outer = p->fn}, *fn = node->flag ? &own_function : p->fn;
    frame body = inner(p->f, fn), orelse = inner(p->f, fn);
    look in_body = {.r = r, .f = &body}, in_else = {.r = r, .f = &orelse};
    place target = {.r = r, .f = &body, .fn = fn};
    unsigned found;
    if (!wr_jwalk_undeclared(r->run, &node->body, loop_name, 1, &found)) return false;
    node->loop = node->flag || found;
    const wr_jstr *loop;
    if (!interned(r, "loop", &loop) || (node->loop && !declare(r, &body, loop))) return false;
    if (!look_parameters(r, &body, node->a) || !look_list(&in_body, &node->body) || !look_list(&in_else, &node->orelse))
        return false;
    if (node->c && !resolve_for_test(p, node)) return false;
    if (!resolve(&target, node->a) || !resolve(p, node->b)) return false;
    if (node->loop && !reference(r, &body, fn, loop, 0, &node->ref)) return false;
    if (!resolve_body(p, &body, &node->body) || !scope_of(r, &body, &node->scope)) return false;
    if (node->orelse.n && (!resolve_body(p, &orelse, &node->orelse) || !scope_of(r, &orelse, &node->scope2)))
        return false;
    node->n_slots = own_function.n;
    return true;
}

/* The body of a macro or of a call block. */
static bool resolve_macro_body(place *p, wr_jnode *node) {
    static const char *const names[] = {"caller", "kwargs", "varargs"};
    resolver *r = p->r;
    function fn = {.outer = p->fn};
    frame f = inner(p->f, &fn);
    look l = {.r = r, .f = &f};
    wr_jspecials *s = node->specials = wr_jalloc(r->run, sizeof *s);
    wr_jref *refs[3];
    bool *has[3], named[3] = {false};
    const wr_jstr *special[3];
    unsigned found;
    if (!s) return false;
    s->explicit_caller = -1;
    refs[0] = &s->caller_ref, refs[1] = &s->kwargs_ref, refs[2] = &s->varargs_ref;
    has[0] = &s->caller, has[1] = &s->kwargs, has[2] = &s->varargs;
    if (!wr_jwalk_undeclared(r->run, &node->body, names, 3, &found)) return false;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < node->items.n; i++)
            if (!declare(r, &f, node->items.at[i]->name)) return false;
        if (!look_list(&l, &node->defaults) || !look_list(&l, &node->body)) return false;
        for (int i = 0; i < 3 && pass == 0; i++) {
            if (!interned(r, names[i], &special[i])) return false;
            for (uint32_t k = 0; k < node->items.n; k++) {
                if (node->items.at[k]->name != special[i]) continue;
                named[i] = true;
                if (i == 0) s->explicit_caller = (int)k;
            }
            *has[i] = (found >> i & 1) && (i == 0 || !named[i]);
            if (*has[i] && !named[i] && !declare(r, &f, special[i])) return false;
        }
    }
    if (s->caller && s->explicit_caller >= 0 && s->explicit_caller < (int)(node->items.n - node->defaults.n))
        return WR_JSYNTAX(r->run, (int)node->line,
                          "When defining macros or call blocks the special \"caller\" argument must be omitted or be "
                          "given a default.");
    place within = {.r = r, .f = &f, .fn = &fn};
    for (uint32_t i = 0; i < node->items.n; i++)
        if (!reference(r, &f, &fn, node->items.at[i]->name, 0, &node->items.at[i]->ref)) return false;
    for (int i = 0; i < 3; i++)
        if (*has[i] && !named[i] && !reference(r, &f, &fn, special[i], 0, refs[i])) return false;
    if (!resolve_list(&within, &node->defaults) || !resolve_list(&within, &node->body) ||
        !scope_of(r, &f, &node->scope))
        return false;
    node->n_slots = fn.n;
    return true;
}

static bool resolve_with(place *p, wr_jnode *node) {
    frame f = inner(p->f, p->fn);
    look l = {.r = p->r, .f = &f};
    place targets = {.r = p->r, .f = &f, .fn = p->fn};
    for (uint32_t i = 0; i < node->items.n; i++)
        if (!look_parameters(p->r, &f, node->items.at[i])) return false;
    return look_list(&l, &node->body) && resolve_list(p, &node->defaults) && resolve_list(&targets, &node->items) &&
           resolve_body(p, &f, &node->body) && scope_of(p->r, &f, &node->scope);
}

/* Filter blocks, set blocks and plain scopes: a body, and maybe a filter in its scope. */
static bool resolve_scope(place *p, wr_jnode *node, wr_jnode *filter, bool look_at_filter) {
    frame f = inner(p->f, p->fn);
    look l = {.r = p->r, .f = &f};
    place within = {.r = p->r, .f = &f, .fn = p->fn};
    return look_list(&l, &node->body) && (!look_at_filter || look_one(&l, filter)) &&
           resolve_body(p, &f, &node->body) && (!filter || resolve(&within, filter)) &&
           scope_of(p->r, &f, &node->scope);
}

static bool resolve_block(place *p, wr_jnode *node) {
    resolver *r = p->r;
    function fn = {0};
    frame f = {.function = &fn};
    look l = {.r = r, .f = &f};
    wr_jval name = {.type = WR_J_STR, .s = node->name};
    wr_jentry *known;
    if (!wr_jdict_find(r->run, r->blocks, name, &known)) return false;
    if (known)
        return WR_JSYNTAX(r->run, (int)node->line, "block '%.*s' defined twice", (int)node->name->bytes,
                          node->name->data);
    if (!wr_jdict_set(r->run, r->blocks, name, wr_jbool(true))) return false;
    place within = {.r = r, .f = &f, .fn = &fn};
    if (!look_list(&l, &node->body) || !resolve_list(&within, &node->body) || !scope_of(r, &f, &node->scope))
        return false;
    node->n_slots = fn.n;
    return true;
}

/* A filter or test that does not exist is an error now, unless an if stands before it. */
static bool resolve_builtin(place *p, const wr_jnode *node) {
    if (node->builtin || p->soft) return true;
    return WR_JSYNTAX(p->r->run, (int)node->line, "No %s named '%.*s'.", node->kind == WR_J_FILTER ? "filter" : "test",
                      (int)(node->name->bytes < 80 ? node->name->bytes : 80), node->name->data);
}

static bool resolve_deep(place *p, wr_jnode *node) {
    place soft = *p;
    soft.soft = true;
    switch ((wr_jkind)node->kind) {
    case WR_J_IF: return wr_jwalk_children(node, resolve_child, &soft);
    case WR_J_COND: return wr_jwalk_children(node, resolve_child, &soft);
    case WR_J_FOR: return resolve_for(p, node);
    case WR_J_SET: node->toplevel = p->toplevel; return resolve(p, node->a) && resolve(p, node->b);
    case WR_J_SETBLOCK:
        node->toplevel = p->toplevel;
        return resolve(p, node->a) && resolve_scope(p, node, node->b, false);
    case WR_J_MACRODEF:
        node->toplevel = p->toplevel;
        return resolve_macro_body(p, node) && reference(p->r, p->f, p->fn, node->name, 0, &node->ref);
    case WR_J_CALLBLOCK: return resolve_macro_body(p, node) && (!node->a || resolve(p, node->a));
    case WR_J_FILTERBLOCK: return resolve_scope(p, node, node->a, true);
    case WR_J_SCOPE: return resolve_scope(p, node, NULL, false);
    case WR_J_WITH: return resolve_with(p, node);
    case WR_J_BLOCK: return resolve_block(p, node);
    case WR_J_FILTER:
    case WR_J_TEST: return resolve_builtin(p, node) && wr_jwalk_children(node, resolve_child, p);
    default: return wr_jwalk_children(node, resolve_child, p);
    }
}

static bool resolve(place *p, wr_jnode *node) {
    wr_jrun *run = p->r->run;
    if (!wr_jcharge(run, 0)) return false;
    if (node->kind == WR_J_NAME || node->kind == WR_J_NSREF)
        return reference(p->r, p->f, p->fn, node->name, (int)node->line, &node->ref);
    if (node->kind == WR_J_CONST || node->kind == WR_J_DATA) return true;
    if (!wr_jenter(run)) return false;
    bool done = resolve_deep(p, node);
    wr_jleave(run);
    return done;
}

static bool resolve_list(place *p, const wr_jnodes *list) { return wr_jwalk_list(list, resolve_child, p); }

bool wr_jresolve(wr_jrun *run, struct wr_jinja *jinja) {
    wr_jval undeclared, blocks;
    function fn = {0};
    frame f = {.function = &fn};
    if (!wr_jdict_new(run, &undeclared) || !wr_jdict_new(run, &blocks)) return false;
    resolver r = {.run = run, .jinja = jinja, .undeclared = undeclared.dict, .blocks = blocks.dict};
    look l = {.r = &r, .f = &f};
    place p = {.r = &r, .f = &f, .fn = &fn, .toplevel = true};
    if (!look_list(&l, &jinja->body) || !resolve_list(&p, &jinja->body) || !scope_of(&r, &f, &jinja->scope))
        return false;
    jinja->n_slots = fn.n;
    jinja->undeclared = undeclared;
    return true;
}
