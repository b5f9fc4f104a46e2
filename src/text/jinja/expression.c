/* Expressions: jinja2's precedence, from `x if y else z` down to names and literals. */
#include <string.h>

#include "text/jinja/parser.h"

static bool parse_unary(wr_jparser *p, bool with_filters, wr_jnode **out);
static bool parse_primary(wr_jparser *p, bool namespaces, wr_jnode **out);

/* A node of two children. */
static bool join(wr_jparser *p, wr_jkind kind, int line, wr_jnode *a, wr_jnode *b, wr_jnode **out) {
    wr_jnode *node = wr_jnode_new(p, kind, line);
    if (!node) return false;
    node->a = a;
    node->b = b;
    *out = node;
    return true;
}

/* ---- from loose to tight ---- */

/* left op right op ..., for operators with types [first, last]. */
static bool parse_binary(wr_jparser *p, const wr_jtok *types, const wr_jop *ops, size_t n,
                         bool (*operand)(wr_jparser *, wr_jnode **), wr_jnode **out) {
    int line = p->now.line;
    wr_jnode *right;
    if (!operand(p, out)) return false;
    for (;;) {
        size_t i = 0;
        while (i < n && types[i] != p->now.type) i++;
        if (i == n) return true;
        if (!wr_jparser_next(p) || !operand(p, &right) || !join(p, WR_J_BINARY, line, *out, right, out)) return false;
        (*out)->op = (uint8_t)ops[i];
        line = p->now.line;
    }
}

static bool parse_unary_full(wr_jparser *p, wr_jnode **out) { return parse_unary(p, true, out); }

static bool parse_pow(wr_jparser *p, wr_jnode **out) {
    static const wr_jtok types[] = {WR_J_T_POW};
    static const wr_jop ops[] = {WR_J_POW};
    return parse_binary(p, types, ops, 1, parse_unary_full, out);
}

static bool parse_product(wr_jparser *p, wr_jnode **out) {
    static const wr_jtok types[] = {WR_J_T_MUL, WR_J_T_DIV, WR_J_T_FLOORDIV, WR_J_T_MOD};
    static const wr_jop ops[] = {WR_J_MUL, WR_J_DIV, WR_J_FLOORDIV, WR_J_MOD};
    return parse_binary(p, types, ops, 4, parse_pow, out);
}

static bool parse_concat(wr_jparser *p, wr_jnode **out) {
    wr_jgrowing items = {0};
    int line = p->now.line;
    if (!parse_product(p, out)) return false;
    if (!wr_jparser_at(p, WR_J_T_TILDE)) return true;
    if (!wr_jgrowing_add(p, &items, *out)) return false;
    while (wr_jparser_at(p, WR_J_T_TILDE))
        if (!wr_jparser_next(p) || !parse_product(p, out) || !wr_jgrowing_add(p, &items, *out)) return false;
    if (!(*out = wr_jnode_new(p, WR_J_CONCAT, line))) return false;
    (*out)->items = wr_jgrowing_list(&items);
    return true;
}

static bool parse_sum(wr_jparser *p, wr_jnode **out) {
    static const wr_jtok types[] = {WR_J_T_ADD, WR_J_T_SUB};
    static const wr_jop ops[] = {WR_J_ADD, WR_J_SUB};
    return parse_binary(p, types, ops, 2, parse_concat, out);
}

/* The comparison at hand, past it; false in *is when there is none. */
static bool take_comparison(wr_jparser *p, wr_jop *op, bool *is) {
    static const struct {
        wr_jtok type;
        wr_jop op;
    } signs[] = {{WR_J_T_EQ, WR_J_EQ},   {WR_J_T_NE, WR_J_NE}, {WR_J_T_LT, WR_J_LT},
                 {WR_J_T_LTEQ, WR_J_LE}, {WR_J_T_GT, WR_J_GT}, {WR_J_T_GTEQ, WR_J_GE}};
    wr_jtoken *ahead;
    *is = true;
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        if (p->now.type != signs[i].type) continue;
        *op = signs[i].op;
        return wr_jparser_next(p);
    }
    *op = WR_J_IN;
    if (wr_jparser_at_name(p, "in")) return wr_jparser_next(p);
    if (wr_jparser_at_name(p, "not")) {
        if (!wr_jparser_look(p, &ahead)) return false;
        *op = WR_J_NOT_IN;
        if (wr_jparser_is_name(ahead, "in")) return wr_jparser_next(p) && wr_jparser_next(p);
    }
    *is = false;
    return true;
}

static bool parse_compare(wr_jparser *p, wr_jnode **out) {
    wr_jgrowing items = {0};
    wr_jnode *first, *other;
    int line = p->now.line;
    wr_jop op;
    bool is;
    if (!parse_sum(p, &first)) return false;
    for (;;) {
        if (!take_comparison(p, &op, &is)) return false;
        if (!is) break;
        /* The operand's own op is in use when it is arithmetic: a node of its own holds this one. */
        wr_jnode *holder = wr_jnode_new(p, WR_J_COMPARE, line);
        if (!holder || !parse_sum(p, &other) || !wr_jgrowing_add(p, &items, holder)) return false;
        holder->op = (uint8_t)op;
        holder->a = other;
    }
    *out = first;
    if (!items.n) return true;
    if (!(*out = wr_jnode_new(p, WR_J_COMPARE, line))) return false;
    (*out)->a = first;
    (*out)->items = wr_jgrowing_list(&items);
    return true;
}

static bool parse_not(wr_jparser *p, wr_jnode **out) {
    int line = p->now.line;
    wr_jnode *inner;
    if (!wr_jparser_at_name(p, "not")) return parse_compare(p, out);
    if (!wr_jparser_next(p) || !wr_jenter(p->run)) return false;
    bool done = parse_not(p, &inner);
    wr_jleave(p->run);
    return done && join(p, WR_J_NOT, line, inner, NULL, out);
}

static bool parse_logic(wr_jparser *p, bool is_or, wr_jnode **out) {
    int line = p->now.line;
    wr_jnode *right;
    for (bool more = false;; line = p->now.line) {
        if (!(is_or ? parse_logic(p, false, &right) : parse_not(p, &right))) return false;
        if (!more)
            *out = right;
        else if (!join(p, is_or ? WR_J_OR : WR_J_AND, line, *out, right, out))
            return false;
        if (!wr_jparser_skip_name(p, is_or ? "or" : "and", &more)) return false;
        if (!more) return true;
    }
}

static bool parse_condition(wr_jparser *p, wr_jnode **out) {
    int line = p->now.line;
    bool more, has_else;
    if (!parse_logic(p, true, out)) return false;
    for (;; line = p->now.line) {
        wr_jnode *node, *test, *other = NULL;
        if (!wr_jparser_skip_name(p, "if", &more)) return false;
        if (!more) return true;
        if (!parse_logic(p, true, &test) || !wr_jparser_skip_name(p, "else", &has_else)) return false;
        if (has_else && !wr_jparse_expression(p, true, &other)) return false;
        if (!(node = wr_jnode_new(p, WR_J_COND, line))) return false;
        node->a = test;
        node->b = *out;
        node->c = other;
        *out = node;
    }
}

bool wr_jparse_expression(wr_jparser *p, bool condition, wr_jnode **out) {
    if (!wr_jenter(p->run)) return false;
    bool done = condition ? parse_condition(p, out) : parse_logic(p, true, out);
    wr_jleave(p->run);
    return done;
}

/* ---- tuples, lists, dicts ---- */

static bool tuple_ends(const wr_jparser *p, const char *end) {
    wr_jtok t = p->now.type;
    return t == WR_J_T_VARIABLE_END || t == WR_J_T_BLOCK_END || t == WR_J_T_RPAREN ||
           (end && wr_jparser_at_name(p, end));
}

/* simple: names only, as targets are. */
static bool parse_items(wr_jparser *p, bool simple, bool condition, bool namespaces, const char *end, bool in_brackets,
                        wr_jnode **out) {
    wr_jgrowing items = {0};
    int line = p->now.line;
    bool is_tuple = false;
    wr_jnode *item;
    for (;;) {
        if (items.n && !wr_jparser_expect(p, WR_J_T_COMMA)) return false;
        if (tuple_ends(p, end)) break;
        if (!(simple ? parse_primary(p, namespaces, &item) : wr_jparse_expression(p, condition, &item)) ||
            !wr_jgrowing_add(p, &items, item))
            return false;
        if (!wr_jparser_at(p, WR_J_T_COMMA)) break;
        is_tuple = true;
        line = p->now.line;
    }
    if (!is_tuple && items.n) {
        *out = items.at[0];
        return true;
    }
    if (!is_tuple && !in_brackets) {
        return WR_JSYNTAX(p->run, p->now.line, "Expected an expression, got '%s'", wr_jtok_name(p->now.type));
    }
    if (!(*out = wr_jnode_new(p, WR_J_TUPLE_OF, line))) return false;
    (*out)->items = wr_jgrowing_list(&items);
    return true;
}

bool wr_jparse_tuple(wr_jparser *p, bool condition, const char *end, bool in_brackets, wr_jnode **out) {
    return parse_items(p, false, condition, false, end, in_brackets, out);
}

/* What follows "[" or "{", past the closing bracket. */
static bool parse_display(wr_jparser *p, wr_jtok close, wr_jnode *node) {
    wr_jgrowing items = {0};
    wr_jnode *item;
    bool dict = close == WR_J_T_RBRACE;
    while (!wr_jparser_at(p, close)) {
        if (items.n && !wr_jparser_expect(p, WR_J_T_COMMA)) return false;
        if (wr_jparser_at(p, close)) break;
        if (!wr_jparse_expression(p, true, &item) || !wr_jgrowing_add(p, &items, item)) return false;
        if (!dict) continue;
        if (!wr_jparser_expect(p, WR_J_T_COLON) || !wr_jparse_expression(p, true, &item) ||
            !wr_jgrowing_add(p, &items, item))
            return false;
    }
    node->items = wr_jgrowing_list(&items);
    return wr_jparser_next(p);
}

/* ---- targets ---- */

static bool is_constant_name(const wr_jstr *name) {
    static const char *const names[] = {"true", "false", "none", "True", "False", "None"};
    for (size_t i = 0; i < 6; i++)
        if (wr_jstr_equals(name, names[i])) return true;
    return false;
}

static bool can_assign(wr_jparser *p, wr_jnode *node) {
    node->store = true;
    switch (node->kind) {
    case WR_J_NAME:
        if (is_constant_name(node->name)) break;
        if (p->for_depth && wr_jstr_equals(node->name, "loop"))
            return WR_JSYNTAX(p->run, (int)node->line, "Can't assign to special loop variable in for-loop target");
        return true;
    case WR_J_NSREF: return true;
    case WR_J_TUPLE_OF:
        for (uint32_t i = 0; i < node->items.n; i++)
            if (!can_assign(p, node->items.at[i])) return false;
        return true;
    default: break;
    }
    const char *word = node->kind == WR_J_NAME      ? "name"
                       : node->kind == WR_J_CONST   ? "const"
                       : node->kind == WR_J_LIST_OF ? "list"
                       : node->kind == WR_J_DICT_OF ? "dict"
                                                    : "expression";
    return WR_JSYNTAX(p->run, (int)node->line, "can't assign to '%s'", word);
}

bool wr_jparse_target(wr_jparser *p, const char *end, bool namespaces, wr_jnode **out) {
    return parse_items(p, true, false, namespaces, end, false, out) && can_assign(p, *out);
}

bool wr_jparse_target_name(wr_jparser *p, wr_jnode **out) {
    int line = p->now.line;
    wr_jstr *name;
    if (!wr_jparser_take_name(p, &name) || !(*out = wr_jnode_new(p, WR_J_NAME, line))) return false;
    (*out)->name = name;
    (*out)->store = true;
    if (is_constant_name(name)) return WR_JSYNTAX(p->run, line, "can't assign to 'name'");
    return true;
}

/* ---- literals and names ---- */

static bool parse_name(wr_jparser *p, bool namespaces, wr_jnode *node) {
    wr_jstr *name, *attribute;
    if (!wr_jparser_take_name(p, &name)) return false;
    if (is_constant_name(name)) {
        char c = name->data[0] | 0x20;
        node->kind = WR_J_CONST;
        node->value = c == 'n' ? wr_jnone() : wr_jbool(c == 't');
        return true;
    }
    node->kind = WR_J_NAME;
    node->name = name;
    if (namespaces && wr_jparser_at(p, WR_J_T_DOT)) {
        node->kind = WR_J_NSREF;
        if (!wr_jparser_next(p) || !wr_jparser_take_name(p, &attribute)) return false;
        node->value = (wr_jval){.type = WR_J_STR, .s = attribute};
        return true;
    }
    /* Ready for those who print or use it without a value. */
    return wr_jundefined_name(p->run, (wr_jval){.type = WR_J_STR, .s = name}, &node->value);
}

static bool parse_strings(wr_jparser *p, wr_jnode *node) {
    wr_jbuf buf = {0};
    node->value = p->now.value;
    if (!wr_jparser_next(p)) return false;
    if (!wr_jparser_at(p, WR_J_T_STRING)) return true;
    if (!wr_jbuf_add(p->run, &buf, node->value.s->data, node->value.s->bytes)) return false;
    while (wr_jparser_at(p, WR_J_T_STRING)) {
        const wr_jstr *s = p->now.value.s;
        if (!wr_jbuf_add(p->run, &buf, s->data, s->bytes) || !wr_jparser_next(p)) return false;
    }
    return wr_jbuf_str(p->run, &buf, &node->value);
}

static bool parse_primary(wr_jparser *p, bool namespaces, wr_jnode **out) {
    wr_jnode *node = wr_jnode_new(p, WR_J_CONST, p->now.line);
    if (!node) return false;
    *out = node;
    switch (p->now.type) {
    case WR_J_T_NAME: return parse_name(p, namespaces, node);
    case WR_J_T_STRING: return parse_strings(p, node);
    case WR_J_T_INTEGER:
    case WR_J_T_FLOAT: node->value = p->now.value; return wr_jparser_next(p);
    case WR_J_T_LPAREN:
        return wr_jparser_next(p) && wr_jparse_tuple(p, true, NULL, true, out) && wr_jparser_expect(p, WR_J_T_RPAREN);
    case WR_J_T_LBRACKET:
        node->kind = WR_J_LIST_OF;
        return wr_jparser_next(p) && parse_display(p, WR_J_T_RBRACKET, node);
    case WR_J_T_LBRACE: node->kind = WR_J_DICT_OF; return wr_jparser_next(p) && parse_display(p, WR_J_T_RBRACE, node);
    default: return wr_jparser_unexpected(p);
    }
}

/* ---- what follows a primary ---- */

/* One part of a slice, unless it is left out. */
static bool slice_part(wr_jparser *p, wr_jnode **out) {
    if (wr_jparser_at(p, WR_J_T_COLON) || wr_jparser_at(p, WR_J_T_RBRACKET) || wr_jparser_at(p, WR_J_T_COMMA))
        return true;
    return wr_jparse_expression(p, true, out);
}

/* One thing within [ ]: an expression or start:stop:step. *slice: the latter, whose a is not set. */
static bool parse_subscribed(wr_jparser *p, wr_jnode **out, bool *slice) {
    wr_jnode *parts[3] = {NULL};
    bool more;
    *slice = wr_jparser_at(p, WR_J_T_COLON);
    if (!*slice) {
        if (!wr_jparse_expression(p, true, &parts[0])) return false;
        *out = parts[0];
        *slice = wr_jparser_at(p, WR_J_T_COLON);
        if (!*slice) return true;
    }
    if (!wr_jparser_next(p) || !slice_part(p, &parts[1]) || !wr_jparser_skip(p, WR_J_T_COLON, &more)) return false;
    if (more && !slice_part(p, &parts[2])) return false;
    wr_jnode *node = wr_jnode_new(p, WR_J_SLICE, p->now.line);
    if (!node || !(node->items.at = wr_jalloc(p->run, sizeof parts))) return false;
    memcpy(node->items.at, parts, sizeof parts);
    node->items.n = 3;
    *out = node;
    return true;
}

static bool parse_subscript(wr_jparser *p, wr_jnode **node) {
    wr_jgrowing args = {0};
    wr_jnode *of = *node, *arg = NULL;
    int line = p->now.line;
    bool slice = false, any_slice = false;
    if (wr_jparser_at(p, WR_J_T_DOT)) {
        if (!wr_jparser_next(p)) return false;
        if (wr_jparser_at(p, WR_J_T_NAME)) {
            wr_jstr *name;
            if (!wr_jparser_take_name(p, &name) || !join(p, WR_J_GETATTR, line, of, NULL, node)) return false;
            (*node)->name = name;
            return true;
        }
        if (!wr_jparser_at(p, WR_J_T_INTEGER)) return WR_JSYNTAX(p->run, p->now.line, "expected name or number");
        if (!(arg = wr_jnode_new(p, WR_J_CONST, p->now.line))) return false;
        arg->value = p->now.value;
        return wr_jparser_next(p) && join(p, WR_J_GETITEM, line, of, arg, node);
    }
    if (!wr_jparser_next(p)) return false;
    while (!wr_jparser_at(p, WR_J_T_RBRACKET)) {
        if (args.n && !wr_jparser_expect(p, WR_J_T_COMMA)) return false;
        if (!parse_subscribed(p, &arg, &slice) || !wr_jgrowing_add(p, &args, arg)) return false;
        any_slice |= slice;
    }
    if (!wr_jparser_next(p)) return false;
    if (args.n == 1) {
        if (!slice) return join(p, WR_J_GETITEM, line, of, arg, node);
        arg->a = of;
        *node = arg;
        return true;
    }
    if (any_slice) return wr_jfail(p->run, WEIR_E_UNSUPPORTED, "a slice within a tuple is not supported");
    if (!(arg = wr_jnode_new(p, WR_J_TUPLE_OF, line))) return false;
    arg->items = wr_jgrowing_list(&args);
    return join(p, WR_J_GETITEM, line, of, arg, node);
}

static bool add_keyword(wr_jparser *p, wr_jnode *call, size_t *cap, const wr_jstr *name, wr_jnode *value) {
    for (uint32_t i = 0; i < call->n_kwargs; i++)
        if (call->kwargs[i].name == name)
            return WR_JSYNTAX(p->run, p->now.line, "keyword argument repeated: %.*s", (int)name->bytes, name->data);
    if (!wr_jgrow(p->run, &call->kwargs, cap, call->n_kwargs, 4, sizeof *call->kwargs)) return false;
    call->kwargs[call->n_kwargs++] = (wr_jkeyword){name, value};
    return wr_jcharge(p->run, call->n_kwargs * 8);
}

/* "(" to ")" into the fields for arguments. */
static bool parse_arguments(wr_jparser *p, wr_jnode *call) {
    wr_jgrowing args = {0};
    size_t cap = 0;
    int line = p->now.line;
    bool first = true;
    wr_jnode *value;
    wr_jtoken *ahead;
    if (!wr_jparser_expect(p, WR_J_T_LPAREN)) return false;
    for (; !wr_jparser_at(p, WR_J_T_RPAREN); first = false) {
        bool ordered = true;
        if (!first && !wr_jparser_expect(p, WR_J_T_COMMA)) return false;
        if (wr_jparser_at(p, WR_J_T_RPAREN)) break;
        bool star = wr_jparser_at(p, WR_J_T_MUL), stars = wr_jparser_at(p, WR_J_T_POW);
        bool keyword = false;
        if (wr_jparser_at(p, WR_J_T_NAME)) {
            if (!wr_jparser_look(p, &ahead)) return false;
            keyword = ahead->type == WR_J_T_ASSIGN;
        }
        if (star || stars) {
            ordered = star ? !call->b && !call->c : !call->c;
            if (ordered && (!wr_jparser_next(p) || !wr_jparse_expression(p, true, star ? &call->b : &call->c)))
                return false;
        } else if (keyword) {
            wr_jstr *name;
            ordered = !call->c;
            if (ordered && (!wr_jparser_take_name(p, &name) || !wr_jparser_next(p) ||
                            !wr_jparse_expression(p, true, &value) || !add_keyword(p, call, &cap, name, value)))
                return false;
        } else {
            ordered = !call->b && !call->c && !call->n_kwargs;
            if (ordered && (!wr_jparse_expression(p, true, &value) || !wr_jgrowing_add(p, &args, value))) return false;
        }
        if (!ordered) return WR_JSYNTAX(p->run, line, "invalid syntax for function call expression");
    }
    call->items = wr_jgrowing_list(&args);
    return wr_jparser_next(p);
}

static bool parse_call(wr_jparser *p, wr_jnode **node) {
    wr_jnode *call;
    return join(p, WR_J_CALL, p->now.line, *node, NULL, &call) && parse_arguments(p, call) && (*node = call, true);
}

static bool parse_postfix(wr_jparser *p, wr_jnode **node) {
    for (;;) {
        if (wr_jparser_at(p, WR_J_T_DOT) || wr_jparser_at(p, WR_J_T_LBRACKET)) {
            if (!parse_subscript(p, node)) return false;
        } else if (wr_jparser_at(p, WR_J_T_LPAREN)) {
            if (!parse_call(p, node)) return false;
        } else {
            return true;
        }
    }
}

/* A name with dots, as filters and tests may have. */
static bool dotted_name(wr_jparser *p, wr_jstr **out) {
    wr_jstr *part;
    if (!wr_jparser_take_name(p, out)) return false;
    while (wr_jparser_at(p, WR_J_T_DOT)) {
        wr_jbuf buf = {0};
        wr_jval whole;
        if (!wr_jparser_next(p) || !wr_jparser_take_name(p, &part) ||
            !wr_jbuf_add(p->run, &buf, (*out)->data, (*out)->bytes) || !wr_jbuf_lit(p->run, &buf, ".") ||
            !wr_jbuf_add(p->run, &buf, part->data, part->bytes) || !wr_jbuf_str(p->run, &buf, &whole))
            return false;
        *out = whole.s;
    }
    return true;
}

bool wr_jparse_filters(wr_jparser *p, wr_jnode *node, bool inline_start, wr_jnode **out) {
    *out = node;
    for (; wr_jparser_at(p, WR_J_T_PIPE) || inline_start; inline_start = false) {
        if (!inline_start && !wr_jparser_next(p)) return false;
        wr_jnode *filter;
        if (!join(p, WR_J_FILTER, p->now.line, *out, NULL, &filter) || !dotted_name(p, &filter->name)) return false;
        filter->builtin = wr_jfilter_find(filter->name);
        if (wr_jparser_at(p, WR_J_T_LPAREN) && !parse_arguments(p, filter)) return false;
        *out = filter;
    }
    return true;
}

static bool parse_test(wr_jparser *p, wr_jnode **node) {
    wr_jnode *test, *arg;
    bool negated;
    int line = p->now.line;
    if (!wr_jparser_next(p) || !wr_jparser_skip_name(p, "not", &negated) ||
        !join(p, WR_J_TEST, line, *node, NULL, &test) || !dotted_name(p, &test->name))
        return false;
    test->builtin = wr_jtest_find(test->name);
    wr_jtok t = p->now.type;
    if (t == WR_J_T_LPAREN) {
        if (!parse_arguments(p, test)) return false;
    } else if ((t == WR_J_T_NAME || t == WR_J_T_STRING || t == WR_J_T_INTEGER || t == WR_J_T_FLOAT ||
                t == WR_J_T_LBRACKET || t == WR_J_T_LBRACE) &&
               !wr_jparser_at_name(p, "else") && !wr_jparser_at_name(p, "or") && !wr_jparser_at_name(p, "and")) {
        wr_jgrowing args = {0};
        if (wr_jparser_at_name(p, "is"))
            return WR_JSYNTAX(p->run, p->now.line, "You cannot chain multiple tests with is");
        if (!parse_primary(p, false, &arg) || !parse_postfix(p, &arg) || !wr_jgrowing_add(p, &args, arg)) return false;
        test->items = wr_jgrowing_list(&args);
    }
    *node = test;
    return !negated || join(p, WR_J_NOT, line, test, NULL, node);
}

static bool parse_filter_tail(wr_jparser *p, wr_jnode **node) {
    for (;;) {
        if (wr_jparser_at(p, WR_J_T_PIPE)) {
            if (!wr_jparse_filters(p, *node, false, node)) return false;
        } else if (wr_jparser_at_name(p, "is")) {
            if (!parse_test(p, node)) return false;
        } else if (wr_jparser_at(p, WR_J_T_LPAREN)) {
            if (!parse_call(p, node)) return false;
        } else {
            return true;
        }
    }
}

static bool parse_unary(wr_jparser *p, bool with_filters, wr_jnode **out) {
    int line = p->now.line;
    bool minus = wr_jparser_at(p, WR_J_T_SUB);
    if (minus || wr_jparser_at(p, WR_J_T_ADD)) {
        wr_jnode *inner;
        if (!wr_jparser_next(p) || !wr_jenter(p->run)) return false;
        bool done = parse_unary(p, false, &inner);
        wr_jleave(p->run);
        if (!done || !join(p, minus ? WR_J_NEG : WR_J_POS, line, inner, NULL, out)) return false;
    } else if (!parse_primary(p, false, out)) {
        return false;
    }
    return parse_postfix(p, out) && (!with_filters || parse_filter_tail(p, out));
}
