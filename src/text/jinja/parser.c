/* Statements: the grammar of jinja2's parser, tag by tag. */
#include "text/jinja/parser.h"

#include <string.h>

/* ---- tokens ---- */

bool wr_jparser_next(wr_jparser *p) {
    if (p->has_ahead) {
        p->now = p->ahead;
        p->has_ahead = false;
        return true;
    }
    return wr_jlexer_next(&p->lexer, &p->now);
}

bool wr_jparser_look(wr_jparser *p, wr_jtoken **out) {
    if (!p->has_ahead && !wr_jlexer_next(&p->lexer, &p->ahead)) return false;
    p->has_ahead = true;
    *out = &p->ahead;
    return true;
}

bool wr_jparser_is_name(const wr_jtoken *token, const char *name) {
    return token->type == WR_J_T_NAME && token->bytes == strlen(name) && memcmp(token->text, name, token->bytes) == 0;
}

bool wr_jparser_skip(wr_jparser *p, wr_jtok type, bool *skipped) {
    bool is = p->now.type == type;
    if (skipped) *skipped = is;
    return !is || wr_jparser_next(p);
}

bool wr_jparser_skip_name(wr_jparser *p, const char *name, bool *skipped) {
    bool is = wr_jparser_at_name(p, name);
    if (skipped) *skipped = is;
    return !is || wr_jparser_next(p);
}

static bool expected(wr_jparser *p, const char *what) {
    const wr_jtoken *t = &p->now;
    if (t->type == WR_J_T_EOF) return WR_JSYNTAX(p->run, t->line, "unexpected end of template, expected '%s'.", what);
    int n = t->type == WR_J_T_NAME ? (int)(t->bytes < 80 ? t->bytes : 80) : 0;
    return WR_JSYNTAX(p->run, t->line, "expected token '%s', got '%.*s'", what, n ? n : 40,
                      n ? t->text : wr_jtok_name(t->type));
}

bool wr_jparser_expect(wr_jparser *p, wr_jtok type) {
    return p->now.type == type ? wr_jparser_next(p) : expected(p, wr_jtok_name(type));
}
bool wr_jparser_expect_name(wr_jparser *p, const char *name) {
    return wr_jparser_at_name(p, name) ? wr_jparser_next(p) : expected(p, name);
}

bool wr_jparser_unexpected(wr_jparser *p) {
    const wr_jtoken *t = &p->now;
    int n = t->type == WR_J_T_NAME ? (int)(t->bytes < 80 ? t->bytes : 80) : 0;
    return WR_JSYNTAX(p->run, t->line, "unexpected '%.*s'", n ? n : 40, n ? t->text : wr_jtok_name(t->type));
}

bool wr_jparser_take_name(wr_jparser *p, wr_jstr **out) {
    wr_jval name;
    wr_jentry *known;
    if (p->now.type != WR_J_T_NAME) return expected(p, "name");
    if (!wr_jstr_view(p->run, p->now.text, p->now.bytes, &name) || !wr_jdict_find(p->run, p->names, name, &known))
        return false;
    if (!known && !wr_jdict_set(p->run, p->names, name, name)) return false;
    *out = known ? known->value.s : name.s;
    return wr_jparser_next(p);
}

wr_jnode *wr_jnode_new(wr_jparser *p, wr_jkind kind, int line) {
    wr_jnode *node = wr_jalloc(p->run, sizeof *node);
    if (!node) return NULL;
    node->kind = (uint8_t)kind;
    node->line = (uint32_t)line;
    return node;
}

bool wr_jgrowing_add(wr_jparser *p, wr_jgrowing *list, wr_jnode *node) {
    if (!wr_jgrow(p->run, &list->at, &list->cap, list->n, 4, sizeof(wr_jnode *))) return false;
    list->at[list->n++] = node;
    return true;
}

/* ---- bodies ---- */

/* Names that end a body, with spaces between. */
static bool is_end(const wr_jparser *p, const char *ends) {
    return p->now.type == WR_J_T_NAME && wr_jword_index(ends, p->now.text, p->now.bytes) >= 0;
}

static bool parse_statement(wr_jparser *p, wr_jgrowing *body, const char *ends);

/* Up to one of `ends` (whose tag is begun, and its name at hand), or the end if ends is NULL. */
static bool parse_until(wr_jparser *p, const char *ends, wr_jnodes *out) {
    wr_jgrowing body = {0}, output = {0};
    wr_jnode *node;
    int line = 0;
    for (;;) {
        bool printed = true;
        if (!output.n) line = p->now.line;
        if (wr_jparser_at(p, WR_J_T_DATA)) {
            if (!(node = wr_jnode_new(p, WR_J_DATA, p->now.line))) return false;
            node->value = p->now.value;
            if (!wr_jgrowing_add(p, &output, node) || !wr_jparser_next(p)) return false;
        } else if (wr_jparser_at(p, WR_J_T_VARIABLE_BEGIN)) {
            if (!wr_jparser_next(p) || !wr_jparse_tuple(p, true, NULL, false, &node) ||
                !wr_jgrowing_add(p, &output, node) || !wr_jparser_expect(p, WR_J_T_VARIABLE_END))
                return false;
        } else {
            printed = false;
        }
        if (printed) continue;
        if (output.n) {
            if (!(node = wr_jnode_new(p, WR_J_OUTPUT, line))) return false;
            node->items = wr_jgrowing_list(&output);
            if (!wr_jgrowing_add(p, &body, node)) return false;
            output = (wr_jgrowing){0};
        }
        if (wr_jparser_at(p, WR_J_T_EOF)) {
            if (ends)
                return WR_JSYNTAX(p->run, p->now.line,
                                  "Unexpected end of template. Jinja was looking for the following tags: '%s'.", ends);
            break;
        }
        if (!wr_jparser_next(p)) return false; /* past {% */
        if (ends && is_end(p, ends)) break;
        if (!parse_statement(p, &body, ends) || !wr_jparser_expect(p, WR_J_T_BLOCK_END)) return false;
    }
    *out = wr_jgrowing_list(&body);
    return true;
}

/* The body behind a tag; past its end's name when drop. */
static bool parse_body(wr_jparser *p, const char *ends, bool drop, wr_jnodes *out) {
    if (!wr_jparser_skip(p, WR_J_T_COLON, NULL) || !wr_jparser_expect(p, WR_J_T_BLOCK_END)) return false;
    if (!wr_jenter(p->run)) return false;
    bool done = parse_until(p, ends, out);
    wr_jleave(p->run);
    return done && (!drop || wr_jparser_next(p));
}

/* ---- statements ---- */

static bool parse_for(wr_jparser *p, wr_jnode *node) {
    node->kind = WR_J_FOR;
    p->for_depth++;
    if (!wr_jparse_target(p, "in", false, &node->a) || !wr_jparser_expect_name(p, "in") ||
        !wr_jparse_tuple(p, false, "recursive", false, &node->b))
        return false;
    bool tested, ended;
    if (!wr_jparser_skip_name(p, "if", &tested) || (tested && !wr_jparse_expression(p, true, &node->c)) ||
        !wr_jparser_skip_name(p, "recursive", &node->flag))
        return false;
    p->loop_depth++;
    if (!parse_body(p, "endfor else", false, &node->body)) return false;
    p->loop_depth--;
    if (!wr_jparser_skip_name(p, "endfor", &ended)) return false;
    /* The else part of a recursive loop is in a function of its own. */
    int reachable = p->loop_depth;
    if (node->flag) p->loop_depth = 0;
    if (!ended && (!wr_jparser_next(p) || !parse_body(p, "endfor", true, &node->orelse))) return false;
    p->loop_depth = reachable;
    p->for_depth--;
    return true;
}

static bool parse_if(wr_jparser *p, wr_jnode *node) {
    wr_jgrowing elifs = {0};
    wr_jnode *part = node;
    for (;;) {
        bool more;
        part->kind = WR_J_IF;
        if (!wr_jparse_tuple(p, false, NULL, false, &part->a) ||
            !parse_body(p, "elif else endif", false, &part->body) || !wr_jparser_skip_name(p, "elif", &more))
            return false;
        if (!more) break;
        if (!(part = wr_jnode_new(p, WR_J_IF, p->now.line)) || !wr_jgrowing_add(p, &elifs, part)) return false;
    }
    node->elifs = wr_jgrowing_list(&elifs);
    bool has_else;
    if (!wr_jparser_skip_name(p, "else", &has_else)) return false;
    return has_else ? parse_body(p, "endif", true, &node->orelse) : wr_jparser_next(p);
}

static bool parse_set(wr_jparser *p, wr_jnode *node) {
    bool plain;
    node->kind = WR_J_SET;
    if (!wr_jparse_target(p, NULL, true, &node->a) || !wr_jparser_skip(p, WR_J_T_ASSIGN, &plain)) return false;
    if (plain) return wr_jparse_tuple(p, true, NULL, false, &node->b);
    node->kind = WR_J_SETBLOCK;
    return wr_jparse_filters(p, NULL, false, &node->b) && parse_body(p, "endset", true, &node->body);
}

/* (name, name=default) */
static bool parse_signature(wr_jparser *p, wr_jnode *node) {
    wr_jgrowing names = {0}, defaults = {0};
    wr_jnode *name, *value;
    if (!wr_jparser_expect(p, WR_J_T_LPAREN)) return false;
    while (!wr_jparser_at(p, WR_J_T_RPAREN)) {
        bool has_default;
        if (names.n && !wr_jparser_expect(p, WR_J_T_COMMA)) return false;
        if (!wr_jparse_target_name(p, &name) || !wr_jparser_skip(p, WR_J_T_ASSIGN, &has_default)) return false;
        for (size_t i = 0; i < names.n; i++)
            if (names.at[i]->name == name->name)
                return WR_JSYNTAX(p->run, (int)name->line, "duplicate argument '%.*s'", (int)name->name->bytes,
                                  name->name->data);
        if (has_default) {
            if (!wr_jparse_expression(p, true, &value) || !wr_jgrowing_add(p, &defaults, value)) return false;
        } else if (defaults.n) {
            return WR_JSYNTAX(p->run, p->now.line, "non-default argument follows default argument");
        }
        if (!wr_jgrowing_add(p, &names, name)) return false;
    }
    node->items = wr_jgrowing_list(&names);
    node->defaults = wr_jgrowing_list(&defaults);
    return wr_jparser_next(p);
}

/* The body of a function: break and continue do not reach out of it. */
static bool parse_function_body(wr_jparser *p, const char *ends, wr_jnodes *out) {
    int reachable = p->loop_depth;
    p->loop_depth = 0;
    bool done = parse_body(p, ends, true, out);
    p->loop_depth = reachable;
    return done;
}

static bool parse_macro(wr_jparser *p, wr_jnode *node) {
    wr_jnode *name;
    node->kind = WR_J_MACRODEF;
    if (!wr_jparse_target_name(p, &name)) return false;
    node->name = name->name;
    return parse_signature(p, node) && parse_function_body(p, "endmacro", &node->body);
}

static bool parse_call(wr_jparser *p, wr_jnode *node) {
    node->kind = WR_J_CALLBLOCK;
    if (wr_jparser_at(p, WR_J_T_LPAREN) && !parse_signature(p, node)) return false;
    if (!wr_jparse_expression(p, true, &node->a)) return false;
    if (node->a->kind != WR_J_CALL) return WR_JSYNTAX(p->run, (int)node->line, "expected call");
    return parse_function_body(p, "endcall", &node->body);
}

static bool parse_with(wr_jparser *p, wr_jnode *node) {
    wr_jgrowing targets = {0}, values = {0};
    wr_jnode *target, *value;
    node->kind = WR_J_WITH;
    while (!wr_jparser_at(p, WR_J_T_BLOCK_END)) {
        if (targets.n && !wr_jparser_expect(p, WR_J_T_COMMA)) return false;
        if (!wr_jparse_target(p, NULL, false, &target) || !wr_jparser_expect(p, WR_J_T_ASSIGN) ||
            !wr_jparse_expression(p, true, &value) || !wr_jgrowing_add(p, &targets, target) ||
            !wr_jgrowing_add(p, &values, value))
            return false;
    }
    node->items = wr_jgrowing_list(&targets);
    node->defaults = wr_jgrowing_list(&values);
    return parse_body(p, "endwith", true, &node->body);
}

static bool parse_block(wr_jparser *p, wr_jnode *node) {
    node->kind = WR_J_BLOCK;
    p->has_blocks = true;
    if (!wr_jparser_take_name(p, &node->name)) return false;
    if (wr_jparser_at_name(p, "scoped") || wr_jparser_at_name(p, "required"))
        return wr_jfail(p->run, WEIR_E_UNSUPPORTED, "blocks that are scoped or required are not supported");
    if (!parse_function_body(p, "endblock", &node->body)) return false;
    if (p->now.type == WR_J_T_NAME && p->now.bytes == node->name->bytes &&
        memcmp(p->now.text, node->name->data, p->now.bytes) == 0)
        return wr_jparser_next(p);
    return true;
}

static bool parse_print(wr_jparser *p, wr_jnode *node) {
    wr_jgrowing items = {0};
    wr_jnode *item;
    node->kind = WR_J_OUTPUT;
    while (!wr_jparser_at(p, WR_J_T_BLOCK_END)) {
        if (items.n && !wr_jparser_expect(p, WR_J_T_COMMA)) return false;
        if (!wr_jparse_expression(p, true, &item) || !wr_jgrowing_add(p, &items, item)) return false;
    }
    node->items = wr_jgrowing_list(&items);
    return true;
}

static bool parse_autoescape(wr_jparser *p, wr_jnode *node) {
    wr_jnode *value;
    node->kind = WR_J_SCOPE;
    if (!wr_jparse_expression(p, true, &value)) return false;
    if (value->kind != WR_J_CONST || value->value.type != WR_J_BOOL || value->value.b)
        return wr_jfail(p->run, WEIR_E_UNSUPPORTED, "autoescape is not supported: a prompt is no HTML");
    return parse_body(p, "endautoescape", true, &node->body);
}

static bool parse_jump(wr_jparser *p, wr_jnode *node, wr_jkind kind) {
    node->kind = (uint8_t)kind;
    if (p->loop_depth) return true;
    return WR_JSYNTAX(p->run, (int)node->line, "'%s' outside loop", kind == WR_J_BREAK ? "break" : "continue");
}

static bool parse_statement(wr_jparser *p, wr_jgrowing *body, const char *ends) {
    wr_jnode *node = wr_jnode_new(p, WR_J_DATA, p->now.line);
    const wr_jtoken tag = p->now;
    if (!node || !wr_jgrowing_add(p, body, node)) return false;
    if (tag.type != WR_J_T_NAME) return WR_JSYNTAX(p->run, tag.line, "tag name expected");
    p->run->line = tag.line;
    if (!wr_jparser_next(p)) return false;
    if (wr_jparser_is_name(&tag, "for")) return parse_for(p, node);
    if (wr_jparser_is_name(&tag, "if")) return parse_if(p, node);
    if (wr_jparser_is_name(&tag, "set")) return parse_set(p, node);
    if (wr_jparser_is_name(&tag, "macro")) return parse_macro(p, node);
    if (wr_jparser_is_name(&tag, "call")) return parse_call(p, node);
    if (wr_jparser_is_name(&tag, "with")) return parse_with(p, node);
    if (wr_jparser_is_name(&tag, "block")) return parse_block(p, node);
    if (wr_jparser_is_name(&tag, "print")) return parse_print(p, node);
    if (wr_jparser_is_name(&tag, "autoescape")) return parse_autoescape(p, node);
    if (wr_jparser_is_name(&tag, "break")) return parse_jump(p, node, WR_J_BREAK);
    if (wr_jparser_is_name(&tag, "continue")) return parse_jump(p, node, WR_J_CONTINUE);
    if (wr_jparser_is_name(&tag, "filter")) {
        node->kind = WR_J_FILTERBLOCK;
        return wr_jparse_filters(p, NULL, true, &node->a) && parse_body(p, "endfilter", true, &node->body);
    }
    if (wr_jparser_is_name(&tag, "generation")) {
        node->kind = WR_J_CALLBLOCK;
        return parse_function_body(p, "endgeneration", &node->body);
    }
    static const char *const refused[] = {"include", "import", "from", "extends"};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (wr_jparser_is_name(&tag, refused[i]))
            return wr_jfail(p->run, WEIR_E_UNSUPPORTED, "{%% %s %%} is not supported: a chat template is one file",
                            refused[i]);
    return WR_JSYNTAX(p->run, tag.line, "Encountered unknown tag '%.*s'.%s%s%s", (int)(tag.bytes < 80 ? tag.bytes : 80),
                      tag.text, ends ? " Jinja was looking for the following tags: '" : "", ends ? ends : "",
                      ends ? "'." : "");
}

bool wr_jparse(wr_jrun *run, const char *source, size_t bytes, struct wr_jinja *jinja) {
    wr_jparser p = {.run = run};
    if (!wr_jdict_new(run, &jinja->names) || !wr_jlexer_init(run, source, bytes, &p.lexer)) return false;
    p.names = jinja->names.dict;
    if (!wr_jparser_next(&p) || !parse_until(&p, NULL, &jinja->body)) return false;
    jinja->has_blocks = p.has_blocks;
    return true;
}
