/* Walking over syntax trees. */
#include "text/jinja/walk.h"

bool wr_jwalk_list(const wr_jnodes *list, wr_jvisitor visit, void *context) {
    for (uint32_t i = 0; i < list->n; i++)
        if (list->at[i] && !visit(context, list->at[i])) return false;
    return true;
}

static bool one(const wr_jnode *node, wr_jvisitor visit, void *context) { return !node || visit(context, node); }

static bool arguments(const wr_jnode *node, wr_jvisitor visit, void *context) {
    if (!wr_jwalk_list(&node->items, visit, context)) return false;
    for (uint32_t i = 0; i < node->n_kwargs; i++)
        if (!visit(context, node->kwargs[i].value)) return false;
    return one(node->b, visit, context) && one(node->c, visit, context);
}

bool wr_jwalk_children(const wr_jnode *node, wr_jvisitor visit, void *context) {
    switch ((wr_jkind)node->kind) {
    case WR_J_FOR:
        return one(node->a, visit, context) && one(node->b, visit, context) &&
               wr_jwalk_list(&node->body, visit, context) && wr_jwalk_list(&node->orelse, visit, context) &&
               one(node->c, visit, context);
    case WR_J_IF:
        return one(node->a, visit, context) && wr_jwalk_list(&node->body, visit, context) &&
               wr_jwalk_list(&node->elifs, visit, context) && wr_jwalk_list(&node->orelse, visit, context);
    case WR_J_SETBLOCK:
    case WR_J_MACRODEF:
    case WR_J_CALLBLOCK:
    case WR_J_WITH:
        return one(node->a, visit, context) && one(node->b, visit, context) &&
               wr_jwalk_list(&node->items, visit, context) && wr_jwalk_list(&node->defaults, visit, context) &&
               wr_jwalk_list(&node->body, visit, context);
    case WR_J_FILTERBLOCK: return wr_jwalk_list(&node->body, visit, context) && one(node->a, visit, context);
    case WR_J_SCOPE:
    case WR_J_BLOCK: return wr_jwalk_list(&node->body, visit, context);
    case WR_J_CALL:
    case WR_J_FILTER:
    case WR_J_TEST: return one(node->a, visit, context) && arguments(node, visit, context);
    default:
        return one(node->a, visit, context) && one(node->b, visit, context) && one(node->c, visit, context) &&
               wr_jwalk_list(&node->items, visit, context);
    }
}

typedef struct search {
    wr_jrun *run;
    const char *const *names;
    int n;
    unsigned left, found;
} search;

static bool search_node(void *context, const wr_jnode *node) {
    search *s = context;
    if (!wr_jcharge(s->run, 0)) return false;
    if (node->kind == WR_J_BLOCK || node->kind == WR_J_NSREF) return true;
    if (node->kind == WR_J_NAME) {
        for (int i = 0; i < s->n; i++) {
            unsigned bit = 1u << i;
            if (!(s->left & bit) || !wr_jstr_equals(node->name, s->names[i])) continue;
            if (node->store)
                s->left &= ~bit;
            else
                s->found |= bit;
        }
        return true;
    }
    if (!wr_jenter(s->run)) return false;
    bool done = wr_jwalk_children(node, search_node, s);
    wr_jleave(s->run);
    return done;
}

bool wr_jwalk_undeclared(wr_jrun *run, const wr_jnodes *body, const char *const *names, int n, unsigned *found) {
    search s = {.run = run, .names = names, .n = n, .left = (1u << n) - 1};
    bool done = wr_jwalk_list(body, search_node, &s);
    *found = s.found;
    return done;
}
