/* The inside of the parser, shared by its two files. */
#ifndef WR_TEXT_JINJA_PARSER_H
#define WR_TEXT_JINJA_PARSER_H

#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

typedef struct wr_jparser {
    wr_jrun *run;
    wr_jlexer lexer;
    wr_jtoken now, ahead;
    bool has_ahead;
    wr_jdict *names; /* each name once, so that equal names are one pointer */
    int for_depth;   /* for statements around this place */
    int loop_depth;  /* those that break and continue can reach */
    bool has_blocks;
} wr_jparser;

/* A list of nodes that grows. */
typedef struct wr_jgrowing {
    wr_jnode **at;
    size_t n, cap;
} wr_jgrowing;

bool wr_jparser_next(wr_jparser *p);
bool wr_jparser_look(wr_jparser *p, wr_jtoken **out);
bool wr_jparser_is_name(const wr_jtoken *token, const char *name);
static inline bool wr_jparser_at(const wr_jparser *p, wr_jtok type) { return p->now.type == type; }
static inline bool wr_jparser_at_name(const wr_jparser *p, const char *name) {
    return wr_jparser_is_name(&p->now, name);
}
/* Skip one token if it is this; *skipped may be NULL. */
bool wr_jparser_skip(wr_jparser *p, wr_jtok type, bool *skipped);
bool wr_jparser_skip_name(wr_jparser *p, const char *name, bool *skipped);
bool wr_jparser_expect(wr_jparser *p, wr_jtok type);
bool wr_jparser_expect_name(wr_jparser *p, const char *name);
bool wr_jparser_unexpected(wr_jparser *p);
/* The name at hand, and past it. */
bool wr_jparser_take_name(wr_jparser *p, wr_jstr **out);

wr_jnode *wr_jnode_new(wr_jparser *p, wr_jkind kind, int line);
bool wr_jgrowing_add(wr_jparser *p, wr_jgrowing *list, wr_jnode *node);
static inline wr_jnodes wr_jgrowing_list(const wr_jgrowing *list) {
    return (wr_jnodes){.at = list->at, .n = (uint32_t)list->n};
}

/* Expressions. condition: "x if y" is allowed; end: a name that ends a tuple, or NULL. */
bool wr_jparse_expression(wr_jparser *p, bool condition, wr_jnode **out);
bool wr_jparse_tuple(wr_jparser *p, bool condition, const char *end, bool in_brackets, wr_jnode **out);
/* A name or a tuple of names to assign to; namespaces: a.b too. */
bool wr_jparse_target(wr_jparser *p, const char *end, bool namespaces, wr_jnode **out);
/* A name to assign to. */
bool wr_jparse_target_name(wr_jparser *p, wr_jnode **out);
/* |name(...)|name(...): inline_start when the first "|" is left out. */
bool wr_jparse_filters(wr_jparser *p, wr_jnode *node, bool inline_start, wr_jnode **out);

#endif
