/* The children of a node, in the order of jinja2's own fields, which decides what a
 * name that is both read and set in a body is taken for. */
#ifndef WR_TEXT_JINJA_WALK_H
#define WR_TEXT_JINJA_WALK_H

#include "text/jinja/ast.h"

typedef bool (*wr_jvisitor)(void *context, const wr_jnode *node);
bool wr_jwalk_children(const wr_jnode *node, wr_jvisitor visit, void *context);
bool wr_jwalk_list(const wr_jnodes *list, wr_jvisitor visit, void *context);

/* Which of n names, at most 31, a body reads before it sets them itself: bit i of *found for names[i]. */
bool wr_jwalk_undeclared(wr_jrun *run, const wr_jnodes *body, const char *const *names, int n, unsigned *found);

#endif
