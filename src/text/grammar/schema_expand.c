/* References and combinations: a schema becomes alternatives of lists of plain objects. */
#include "text/grammar/schema.h"

#include <stdlib.h>
#include <string.h>

const char *wr_schema_below(wr_schema *s, const char *pointer, const char *key) {
    size_t n = strlen(pointer), escapes = 0;
    for (const char *p = key; *p; p++) escapes += *p == '~' || *p == '/';
    char *out = wr_gr_alloc(s->b, n + strlen(key) + escapes + 2, 1), *q = out;
    if (!out) return "";
    memcpy(q, pointer, n);
    q += n;
    *q++ = '/';
    for (const char *p = key; *p; p++) {
        if (*p == '~' || *p == '/') {
            *q++ = '~';
            *q++ = *p == '~' ? '0' : '1';
        } else {
            *q++ = *p;
        }
    }
    return out;
}

const char *wr_schema_item(wr_schema *s, const char *pointer, size_t index) {
    char number[24];
    snprintf(number, sizeof number, "%zu", index);
    return wr_schema_below(s, pointer, number);
}

/* ---- References --------------------------------------------------------------- */

/* One step of a JSON pointer: the part of *p up to the next slash, decoded in place. */
static char *pointer_step(char **p) {
    char *part = *p, *out = part, *in = part;
    for (; *in && *in != '/'; in++) {
        if (in[0] == '~' && (in[1] == '0' || in[1] == '1'))
            *out++ = *++in == '0' ? '~' : '/';
        else
            *out++ = *in;
    }
    *p = *in ? in + 1 : in;
    bool more = *in == '/';
    *out = 0;
    if (!more) *p = NULL;
    return part;
}

static void percent_decode(char *text) {
    char *out = text;
    for (char *in = text; *in; in++) {
        char hex[3] = {0}, *end;
        if (*in == '%' && in[1] && in[2]) {
            memcpy(hex, in + 1, 2);
            long c = strtol(hex, &end, 16);
            if (!*end && c > 0) {
                *out++ = (char)c;
                in += 2;
                continue;
            }
        }
        *out++ = *in;
    }
    *out = 0;
}

/* The schema with $anchor (or the id "#name" of draft 4) of that name. Recursion is bounded by the parser's depth. */
static bool find_anchor(wr_schema *s, const json_t *at, const char *pointer, const char *name, wr_schema_part *out) {
    const char *key;
    json_t *child;
    size_t i;
    if (json_is_object(at)) {
        const char *anchor = json_string_value(json_object_get(at, "$anchor"));
        const char *id = json_string_value(json_object_get(at, "$id"));
        if (!id) id = json_string_value(json_object_get(at, "id"));
        if ((anchor && strcmp(anchor, name) == 0) || (id && *id == '#' && strcmp(id + 1, name) == 0)) {
            *out = (wr_schema_part){at, pointer};
            return true;
        }
        json_object_foreach((json_t *)at, key,
                            child) if (find_anchor(s, child, wr_schema_below(s, pointer, key), name, out)) return true;
    }
    json_array_foreach(at, i, child) if (find_anchor(s, child, wr_schema_item(s, pointer, i), name, out)) return true;
    return false;
}

/* A schema with an id of its own inside another is a document of its own, and "#" within it means that one. */
bool wr_schema_check_ids(wr_schema *s, const json_t *at, const char *pointer, const char *id_at) {
    const char *key;
    json_t *child;
    size_t i;
    const char *id = json_string_value(json_object_get(at, "$id"));
    if (id && *id != '#' && *pointer) id_at = pointer;
    if (id_at && json_is_string(json_object_get(at, "$ref")))
        return WR_SCHEMA_FAIL(s, WEIR_E_UNSUPPORTED, wr_schema_below(s, id_at, "$id"),
                              "references inside of an embedded document cannot be followed; remove the \"$id\"");
    if (json_is_object(at))
        json_object_foreach(
            (json_t *)at, key,
            child) if (!wr_schema_check_ids(s, child, wr_schema_below(s, pointer, key), id_at)) return false;
    json_array_foreach(at, i,
                       child) if (!wr_schema_check_ids(s, child, wr_schema_item(s, pointer, i), id_at)) return false;
    return true;
}

bool wr_schema_resolve(wr_schema *s, const char *ref, const char *pointer, wr_schema_part *out) {
    const char *hash = strchr(ref, '#'), *id = json_string_value(json_object_get(s->root, "$id"));
    size_t base = hash ? (size_t)(hash - ref) : strlen(ref);
    if (base &&
        !(id && strlen(id) >= base && strncmp(id, ref, base) == 0 && (!id[base] || strcmp(id + base, "#") == 0)))
        return WR_SCHEMA_FAIL(s, WEIR_E_UNSUPPORTED, wr_schema_below(s, pointer, "$ref"),
                              "\"%.80s\" lies in another document; only references into this one can be followed", ref);
    *out = (wr_schema_part){s->root, ""};
    if (!hash || !hash[1]) return true;
    if (hash[1] != '/') {
        if (find_anchor(s, s->root, "", hash + 1, out)) return true;
        return WR_SCHEMA_FAIL(s, WEIR_E_FORMAT, wr_schema_below(s, pointer, "$ref"), "there is no anchor \"%.80s\"",
                              hash + 1);
    }
    char *copy = wr_gr_alloc(s->b, strlen(hash), 1);
    if (!copy) return false;
    memcpy(copy, hash + 2, strlen(hash) - 1);
    percent_decode(copy);
    for (char *rest = copy; rest;) {
        char *part = pointer_step(&rest), *end;
        const json_t *next = json_object_get(out->schema, part);
        if (json_is_array(out->schema)) {
            unsigned long i = strtoul(part, &end, 10);
            next = *part && !*end ? json_array_get(out->schema, i) : NULL;
        }
        if (!next)
            return WR_SCHEMA_FAIL(s, WEIR_E_FORMAT, wr_schema_below(s, pointer, "$ref"), "nothing lies at \"%.80s\"",
                                  ref);
        *out = (wr_schema_part){next, wr_schema_below(s, out->pointer, part)};
    }
    return true;
}

/* ---- Lists and choices ---------------------------------------------------------- */

bool wr_schema_list_add(wr_schema *s, wr_schema_list *list, const json_t *schema, const char *pointer) {
    size_t i = list->n;
    for (size_t k = 0; k < list->n; k++)
        if (list->at[k].schema == schema) return true;
    if (!wr_gr_more(s->b, &list->at, &list->cap, list->n + 1, sizeof *list->at)) return false;
    for (; i && (uintptr_t)list->at[i - 1].schema > (uintptr_t)schema; i--) list->at[i] = list->at[i - 1];
    list->at[i] = (wr_schema_part){schema, pointer};
    list->n++;
    return true;
}

static bool choice_add(wr_schema *s, wr_schema_choice *c, wr_schema_list list) {
    if (c->n >= WR_SCHEMA_ALTERNATIVES_MAX)
        return WR_GR_FAIL(s->b, WEIR_E_LIMIT, "combinations of anyOf, oneOf and allOf give more than %d alternatives",
                          WR_SCHEMA_ALTERNATIVES_MAX);
    if (!wr_gr_more(s->b, &c->at, &c->cap, c->n + 1, sizeof *c->at)) return false;
    c->at[c->n++] = list;
    return true;
}

/* c becomes every combination of one of its lists with one of d's. */
static bool choice_and(wr_schema *s, wr_schema_choice *c, const wr_schema_choice *d) {
    wr_schema_choice all = {0};
    for (size_t i = 0; i < c->n; i++)
        for (size_t k = 0; k < d->n; k++) {
            wr_schema_list list = {0};
            for (size_t m = 0; m < c->at[i].n; m++)
                if (!wr_schema_list_add(s, &list, c->at[i].at[m].schema, c->at[i].at[m].pointer)) return false;
            for (size_t m = 0; m < d->at[k].n; m++)
                if (!wr_schema_list_add(s, &list, d->at[k].at[m].schema, d->at[k].at[m].pointer)) return false;
            if (!choice_add(s, &all, list)) return false;
        }
    *c = all;
    return true;
}

static bool expand_part(wr_schema *s, wr_schema_part part, wr_schema_choice *out);

static bool and_part(wr_schema *s, wr_schema_choice *c, const json_t *schema, const char *pointer) {
    wr_schema_choice d = {0};
    return expand_part(s, (wr_schema_part){schema, pointer}, &d) && choice_and(s, c, &d);
}

/* What is left of one branch beside what holds anyway. */
typedef struct branch_shapes {
    wr_schema_shape **at;
    size_t n;
} branch_shapes;

static bool merge_branch(wr_schema *s, const wr_schema_choice *base, const wr_schema_choice *branch,
                         branch_shapes *out) {
    wr_schema_choice all = *base;
    if (!choice_and(s, &all, branch) || !(out->at = wr_gr_alloc(s->b, all.n + 1, sizeof *out->at))) return false;
    for (size_t i = 0; i < all.n; i++) {
        if (!wr_schema_merge(s, &all.at[i], &out->at[out->n])) return false;
        if (out->at[out->n]) out->n++;
    }
    return true;
}

/* Every branch of oneOf against every other: each must be excluded by what holds anyway or by its own conditions. */
static bool check_exclusive(wr_schema *s, const wr_schema_choice *base, const wr_schema_choice *branch, size_t n,
                            const char *where) {
    branch_shapes *shapes = wr_gr_alloc(s->b, n, sizeof *shapes);
    for (size_t i = 0; i < n; i++)
        if (!shapes || !merge_branch(s, base, &branch[i], &shapes[i])) return false;
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n; k++)
            for (size_t a = 0; a < shapes[i].n; a++)
                for (size_t c = 0; c < shapes[k].n; c++) {
                    if (wr_schema_exclude(s, shapes[i].at[a], shapes[k].at[c])) continue;
                    if (s->b->status != WEIR_OK) return false;
                    return WR_SCHEMA_FAIL(
                        s, WEIR_E_UNSUPPORTED, where,
                        "branches %zu and %zu may both fit one document, which cannot be prevented; use "
                        "anyOf, or tell them apart by a required property with const",
                        i, k);
                }
    return true;
}

static bool expand_branches(wr_schema *s, wr_schema_part part, const char *key, wr_schema_choice *out) {
    const json_t *list = json_object_get(part.schema, key);
    const char *where = wr_schema_below(s, part.pointer, key);
    if (!list) return true;
    if (!json_is_array(list) || !json_array_size(list))
        return WR_SCHEMA_FAIL(s, WEIR_E_FORMAT, where, "must be a list of schemas that is not empty");
    size_t n = json_array_size(list), i;
    json_t *item;
    if (strcmp(key, "allOf") == 0) {
        json_array_foreach(list, i, item) if (!and_part(s, out, item, wr_schema_item(s, where, i))) return false;
        return true;
    }
    wr_schema_choice all = {0}, *branch = wr_gr_alloc(s->b, n, sizeof *branch);
    if (!branch) return false;
    json_array_foreach(list, i, item) {
        if (!expand_part(s, (wr_schema_part){item, wr_schema_item(s, where, i)}, &branch[i])) return false;
        for (size_t k = 0; k < branch[i].n; k++)
            if (!choice_add(s, &all, branch[i].at[k])) return false;
    }
    if (*key == 'o' && !s->options.one_of_as_any_of && !check_exclusive(s, out, branch, n, where)) return false;
    return choice_and(s, out, &all);
}

/* ---- Literals that are lists or objects ------------------------------------------ */

/* A schema that only this value satisfies. New reference. */
static json_t *schema_of(const json_t *value, int depth) {
    const char *key;
    json_t *item;
    size_t i;
    if (depth > 64) return NULL;
    if (json_is_array(value)) {
        json_t *prefix = json_array();
        json_array_foreach(value, i, item) json_array_append_new(prefix, schema_of(item, depth + 1));
        json_int_t n = (json_int_t)json_array_size(value);
        if (!n) {
            json_decref(prefix);
            return json_pack("{s:s,s:i}", "type", "array", "maxItems", 0);
        }
        return json_pack("{s:s,s:o,s:b,s:I}", "type", "array", "prefixItems", prefix, "items", 0, "minItems", n);
    }
    if (json_is_object(value)) {
        json_t *properties = json_object(), *required = json_array();
        json_object_foreach((json_t *)value, key, item) {
            json_object_set_new(properties, key, schema_of(item, depth + 1));
            json_array_append_new(required, json_string(key));
        }
        return json_pack("{s:s,s:o,s:o,s:b}", "type", "object", "properties", properties, "required", required,
                         "additionalProperties", 0);
    }
    return json_pack("{s:O}", "const", value);
}

static bool has_all(const json_t *schema, const json_t *value) {
    /* json_pack gives NULL when out of memory, and containers silently lack such members. */
    if (!schema) return false;
    if (json_is_array(value)) {
        const json_t *prefix = json_object_get(schema, "prefixItems");
        if (json_array_size(prefix) != json_array_size(value)) return false;
        for (size_t i = 0; i < json_array_size(value); i++)
            if (!has_all(json_array_get(prefix, i), json_array_get(value, i))) return false;
    } else if (json_is_object(value)) {
        const json_t *properties = json_object_get(schema, "properties");
        const char *key;
        json_t *item;
        if (json_array_size(json_object_get(schema, "required")) != json_object_size(value)) return false;
        json_object_foreach((json_t *)value, key,
                            item) if (!has_all(json_object_get(properties, key), item)) return false;
    }
    return true;
}

static bool keep_made(wr_schema *s, json_t *schema) {
    if (schema && json_array_append_new(s->made, schema) == 0) return true;
    return WR_GR_FAIL(s->b, WEIR_E_MEMORY, "no memory to compile the schema");
}

/* jansson copies as far as memory reaches, and does not say so. */
static json_t *copy_of(const json_t *schema) {
    json_t *copy = json_copy((json_t *)schema);
    if (copy && json_object_size(copy) == json_object_size(schema)) return copy;
    json_decref(copy);
    return NULL;
}

/* The part without its literals, and with only those that are scalars. */
static bool split_literals(wr_schema *s, wr_schema_part part, wr_schema_choice *out) {
    const json_t *constant = json_object_get(part.schema, "const"), *list = json_object_get(part.schema, "enum");
    json_t *value, *scalars = json_array(), *bare = copy_of(part.schema), *some;
    size_t i;
    bool split = false;
    bool kept = keep_made(s, scalars);
    if (!keep_made(s, bare) || !kept) return false;
    json_object_del(bare, "const");
    json_object_del(bare, "enum");
    json_t *all = constant ? json_pack("[O]", constant) : json_incref((json_t *)list);
    if (!keep_made(s, all)) return false;
    json_array_foreach(all, i, value) {
        if (constant && list) { /* both: only what is in both */
            size_t k = 0;
            while (k < json_array_size(list) && !wr_schema_same_value(value, json_array_get(list, k))) k++;
            if (k == json_array_size(list)) continue;
        }
        if (!json_is_array(value) && !json_is_object(value)) {
            if (json_array_append(scalars, value)) return keep_made(s, NULL);
            continue;
        }
        wr_schema_list both = {0};
        json_t *only = schema_of(value, 0);
        if (!keep_made(s, only) || !has_all(only, value)) return keep_made(s, NULL);
        if (!wr_schema_list_add(s, &both, bare, part.pointer) || !wr_schema_list_add(s, &both, only, part.pointer) ||
            !choice_add(s, out, both))
            return false;
        split = true;
    }
    wr_schema_list rest = {0};
    if (!split) return wr_schema_list_add(s, &rest, part.schema, part.pointer) && choice_add(s, out, rest);
    if (!json_array_size(scalars)) return true;
    some = copy_of(bare);
    if (!keep_made(s, some) || json_object_set(some, "enum", scalars)) return keep_made(s, NULL);
    return wr_schema_list_add(s, &rest, some, part.pointer) && choice_add(s, out, rest);
}

/* ---- One schema ------------------------------------------------------------------ */

static bool has_containers(const json_t *list) {
    json_t *value;
    size_t i;
    json_array_foreach(list, i, value) if (json_is_array(value) || json_is_object(value)) return true;
    return false;
}

static bool expand_object(wr_schema *s, wr_schema_part part, wr_schema_choice *out) {
    const json_t *ref = json_object_get(part.schema, "$ref"), *constant = json_object_get(part.schema, "const");
    wr_schema_list self = {0};
    if (!ref) ref = json_object_get(part.schema, "$recursiveRef");
    if (!(ref && s->ref_alone)) {
        if (json_is_array(constant) || json_is_object(constant) ||
            has_containers(json_object_get(part.schema, "enum"))) {
            if (!split_literals(s, part, out)) return false;
        } else if (!wr_schema_list_add(s, &self, part.schema, part.pointer) || !choice_add(s, out, self)) {
            return false;
        }
    } else if (!choice_add(s, out, self)) {
        return false;
    }
    if (ref) {
        wr_schema_part target;
        if (!json_is_string(ref))
            return WR_SCHEMA_FAIL(s, WEIR_E_FORMAT, wr_schema_below(s, part.pointer, "$ref"), "must be a string");
        if (!wr_schema_resolve(s, json_string_value(ref), part.pointer, &target) ||
            !and_part(s, out, target.schema, target.pointer))
            return false;
        if (s->ref_alone) return true;
    }
    return expand_branches(s, part, "allOf", out) && expand_branches(s, part, "anyOf", out) &&
           expand_branches(s, part, "oneOf", out);
}

static bool expand_part(wr_schema *s, wr_schema_part part, wr_schema_choice *out) {
    wr_schema_list none = {0};
    if (json_is_true(part.schema)) return choice_add(s, out, none);
    if (json_is_false(part.schema)) return true;
    if (!json_is_object(part.schema))
        return WR_SCHEMA_FAIL(s, WEIR_E_FORMAT, part.pointer, "a schema must be an object, true or false");
    if (s->depth >= WR_SCHEMA_REFS_MAX)
        return WR_SCHEMA_FAIL(s, WEIR_E_FORMAT, part.pointer, "refers to itself without anything in between");
    s->depth++;
    bool ok = expand_object(s, part, out);
    s->depth--;
    return ok;
}

bool wr_schema_expand(wr_schema *s, const wr_schema_list *list, wr_schema_choice *out) {
    wr_schema_list none = {0};
    if (!choice_add(s, out, none)) return false;
    for (size_t i = 0; i < list->n; i++)
        if (!and_part(s, out, list->at[i].schema, list->at[i].pointer)) return false;
    return true;
}
