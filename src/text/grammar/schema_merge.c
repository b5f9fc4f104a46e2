/* The keywords of one alternative become one shape. Every keyword is known here, or refused by name. */
#include "text/grammar/format.h"
#include "text/grammar/pattern.h"
#include "text/grammar/schema.h"

#include <string.h>

/* ---- Keywords ------------------------------------------------------------------ */

/* Say nothing about validity, or are dealt with elsewhere. */
static const char *const silent[] = {
    "$schema", "$id", "id", "$comment", "$anchor", "$defs", "definitions", "$vocabulary", "$recursiveAnchor", "title",
    "description", "default", "example", "examples", "deprecated", "readOnly", "writeOnly", "contentEncoding",
    "contentMediaType", "contentSchema", "discriminator", "externalDocs", "xml", "markdownDescription", "enumNames",
    "enumDescriptions", "propertyOrdering", "propertyOrder", "strict", "name", "then", "else",
    /* read by the steps before and by the functions below */
    "$ref", "$recursiveRef", "allOf", "anyOf", "oneOf", "type", "const", "enum", "minimum", "maximum",
    "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern", "format", "minItems",
    "maxItems", "items", "prefixItems", "additionalItems", "properties", "required", "additionalProperties",
    "patternProperties", "propertyNames", "minProperties", "maxProperties"};

static bool is_silent(const char *key) {
    if (strncmp(key, "x-", 2) == 0) return true;
    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++)
        if (strcmp(silent[i], key) == 0) return true;
    return false;
}

/* Keywords that only say what anything fits, in the form given. */
static bool is_empty(const char *key, const json_t *value, const json_t *schema) {
    if (strcmp(key, "uniqueItems") == 0) {
        const json_t *max = json_object_get(schema, "maxItems");
        return json_is_false(value) || (json_is_integer(max) && json_integer_value(max) <= 1);
    }
    if (strcmp(key, "unevaluatedProperties") == 0 || strcmp(key, "unevaluatedItems") == 0)
        return json_is_true(value) || (json_is_object(value) && !json_object_size(value));
    if (strcmp(key, "dependentRequired") == 0 || strcmp(key, "dependentSchemas") == 0 ||
        strcmp(key, "dependencies") == 0)
        return json_is_object(value) && !json_object_size(value);
    if (strcmp(key, "not") == 0) return json_is_false(value);
    if (strcmp(key, "if") == 0) return !json_object_get(schema, "then") && !json_object_get(schema, "else");
    if (strcmp(key, "minContains") == 0 || strcmp(key, "maxContains") == 0) return !json_object_get(schema, "contains");
    if (strcmp(key, "nullable") == 0) return json_is_false(value);
    return false;
}

static bool check_keywords(wr_schema *s, wr_schema_part part) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)part.schema, key, value) {
        if (is_silent(key) || is_empty(key, value, part.schema)) continue;
        return WR_SCHEMA_FAIL(s, WEIR_E_UNSUPPORTED, wr_schema_below(s, part.pointer, key),
                              "the keyword \"%.60s\" cannot be enforced", key);
    }
    return true;
}

/* ---- Reading values of keywords -------------------------------------------------- */

static bool bad_keyword(wr_schema *s, wr_schema_part part, const char *key, const char *must) {
    return WR_SCHEMA_FAIL(s, WEIR_E_FORMAT, wr_schema_below(s, part.pointer, key), "must be %s", must);
}

/* A count; absent leaves *out. */
static bool read_count(wr_schema *s, wr_schema_part part, const char *key, uint32_t *out, bool *there) {
    const json_t *v = json_object_get(part.schema, key);
    *there = v != NULL;
    if (!v) return true;
    double d = json_is_number(v) ? json_number_value(v) : -1;
    if (d < 0 || d != (double)(uint64_t)(d < 1e18 ? d : 1e18))
        return bad_keyword(s, part, key, "a whole number from 0");
    *out = d >= WR_EXPR_ENDLESS ? WR_EXPR_ENDLESS - 1 : (uint32_t)d;
    return true;
}

static bool merge_counts(wr_schema *s, wr_schema_part part, const char *min_key, const char *max_key, uint32_t *min,
                         uint32_t *max) {
    uint32_t v = 0;
    bool there;
    if (!read_count(s, part, min_key, &v, &there)) return false;
    if (there && v > *min) *min = v;
    if (!read_count(s, part, max_key, &v, &there)) return false;
    if (there && v < *max) *max = v;
    return true;
}

static bool type_bit(const char *name, unsigned *bit, bool *integer) {
    static const char *const names[] = {"null", "boolean", "number", "string", "array", "object", "integer"};
    for (unsigned i = 0; i < 7; i++)
        if (strcmp(names[i], name) == 0) {
            *bit |= i == 6 ? (unsigned)WR_SCHEMA_NUMBER : 1u << i;
            *integer = i == 6;
            return true;
        }
    return false;
}

static bool merge_type(wr_schema *s, wr_schema_part part, wr_schema_shape *shape) {
    const json_t *type = json_object_get(part.schema, "type");
    unsigned bits = 0;
    bool integer = false, any_number = false, any_integer = false, ok = true;
    if (!type) return true;
    if (json_is_array(type)) {
        json_t *item;
        size_t i;
        json_array_foreach(type, i, item) {
            ok = ok && json_is_string(item) && type_bit(json_string_value(item), &bits, &integer);
            any_integer |= ok && integer;
            any_number |= ok && strcmp(json_string_value(item), "number") == 0;
        }
    } else {
        ok = json_is_string(type) && type_bit(json_string_value(type), &bits, &any_integer);
    }
    if (!ok)
        return bad_keyword(s, part, "type",
                           "null, boolean, number, integer, string, array, object, or a list of these");
    shape->types &= bits;
    if (any_integer && !any_number) shape->number.integer = true;
    return true;
}

static bool merge_literals(wr_schema *s, wr_schema_part part, wr_schema_shape *shape) {
    json_t *constant = json_object_get(part.schema, "const"), *list = json_object_get(part.schema, "enum"), *v;
    for (int which = 0; which < 2; which++) {
        json_t *given = which ? list : constant;
        size_t n = 0, i;
        if (!given) continue;
        if (which && !json_is_array(list)) return bad_keyword(s, part, "enum", "a list");
        size_t n_given = which ? json_array_size(list) : 1;
        if (!shape->has_literals) {
            for (i = 0; i < n_given; i++) {
                v = which ? json_array_get(list, i) : constant;
                if (!wr_gr_more(s->b, &shape->literal, &shape->literal_cap, shape->n_literals + 1, sizeof v))
                    return false;
                shape->literal[shape->n_literals++] = v;
            }
            shape->has_literals = true;
            continue;
        }
        for (size_t k = 0; k < shape->n_literals; k++) {
            bool found = false;
            for (i = 0; i < n_given && !found; i++)
                found = wr_schema_same_value(shape->literal[k], which ? json_array_get(list, i) : constant);
            if (found) shape->literal[n++] = shape->literal[k];
        }
        shape->n_literals = n;
    }
    return true;
}

/* ---- Numbers --------------------------------------------------------------------- */

static void raise_min(wr_number_spec *n, const wr_decimal *v, bool open) {
    int order = n->has_min ? wr_decimal_compare(v, &n->min) : 1;
    if (order < 0) return;
    n->min_open = open || (order == 0 && n->min_open);
    n->min = *v;
    n->has_min = true;
}
static void lower_max(wr_number_spec *n, const wr_decimal *v, bool open) {
    int order = n->has_max ? wr_decimal_compare(v, &n->max) : -1;
    if (order > 0) return;
    n->max_open = open || (order == 0 && n->max_open);
    n->max = *v;
    n->has_max = true;
}

static bool merge_bound(wr_schema *s, wr_schema_part part, const char *key, const char *open_key, bool is_min,
                        wr_number_spec *n) {
    const json_t *bound = json_object_get(part.schema, key), *open = json_object_get(part.schema, open_key);
    wr_decimal v;
    if (bound) {
        if (!json_is_number(bound)) return bad_keyword(s, part, key, "a number");
        if (!wr_decimal_of(bound, &v)) /* beyond 10^360 */
            return WR_SCHEMA_FAIL(s, WEIR_E_LIMIT, wr_schema_below(s, part.pointer, key), "this number is too long");
        (is_min ? raise_min : lower_max)(n, &v, json_is_true(open)); /* true: draft 4 */
    }
    if (!open || json_is_boolean(open)) return true;
    if (!json_is_number(open)) return bad_keyword(s, part, open_key, "a number");
    if (!wr_decimal_of(open, &v))
        return WR_SCHEMA_FAIL(s, WEIR_E_LIMIT, wr_schema_below(s, part.pointer, open_key), "this number is too long");
    (is_min ? raise_min : lower_max)(n, &v, true);
    return true;
}

static bool merge_number(wr_schema *s, wr_schema_part part, wr_schema_shape *shape) {
    wr_number_spec *n = &shape->number;
    const json_t *multiple = json_object_get(part.schema, "multipleOf");
    if (!merge_bound(s, part, "minimum", "exclusiveMinimum", true, n) ||
        !merge_bound(s, part, "maximum", "exclusiveMaximum", false, n))
        return false;
    if (!multiple) return true;
    if (!json_is_number(multiple) || json_number_value(multiple) <= 0)
        return bad_keyword(s, part, "multipleOf", "a number above 0");
    wr_decimal v;
    const char *where = wr_schema_below(s, part.pointer, "multipleOf");
    if (!wr_decimal_of(multiple, &v)) return WR_SCHEMA_FAIL(s, WEIR_E_LIMIT, where, "this number is too long");
    if (n->has_multiple && wr_decimal_compare(&v, &n->multiple) != 0)
        return WR_SCHEMA_FAIL(s, WEIR_E_UNSUPPORTED, where, "two different multiples of one number cannot be enforced");
    n->multiple = v;
    n->has_multiple = true;
    return true;
}

/* ---- Strings --------------------------------------------------------------------- */

static bool add_pattern(wr_schema *s, wr_schema_shape *shape, const char *text, size_t bytes) {
    const wr_expr *e = wr_pattern_parse(s->b, text, bytes);
    if (!e || !wr_gr_more(s->b, &shape->pattern, &shape->pattern_cap, shape->n_patterns + 1, sizeof e)) return false;
    shape->pattern[shape->n_patterns++] = e;
    return true;
}

static bool merge_string(wr_schema *s, wr_schema_part part, wr_schema_shape *shape) {
    const json_t *pattern = json_object_get(part.schema, "pattern"), *format = json_object_get(part.schema, "format");
    if (!merge_counts(s, part, "minLength", "maxLength", &shape->min_length, &shape->max_length)) return false;
    if (pattern) {
        if (!json_is_string(pattern)) return bad_keyword(s, part, "pattern", "a string");
        s->b->where = wr_schema_below(s, part.pointer, "pattern");
        if (!add_pattern(s, shape, json_string_value(pattern), json_string_length(pattern))) return false;
    }
    if (!format) return true;
    if (!json_is_string(format)) return bad_keyword(s, part, "format", "a string");
    const char *inside = wr_format_pattern(json_string_value(format));
    const char *where = wr_schema_below(s, part.pointer, "format");
    if (!inside)
        return WR_SCHEMA_FAIL(s, WEIR_E_UNSUPPORTED, where, "the format \"%.60s\" cannot be enforced",
                              json_string_value(format));
    if (!*inside) return true;
    s->b->where = where;
    size_t n = strlen(inside);
    char *whole = wr_gr_alloc(s->b, n + 7, 1);
    if (!whole) return false;
    snprintf(whole, n + 7, "^(?:%s)$", inside);
    return add_pattern(s, shape, whole, n + 6);
}

/* ---- Lists ----------------------------------------------------------------------- */

/* prefixItems and items, or items as a list and additionalItems before 2020. */
static bool items_of(wr_schema *s, wr_schema_part part, const json_t **prefix, const json_t **rest,
                     const char **prefix_key, const char **rest_key) {
    const json_t *items = json_object_get(part.schema, "items");
    *prefix_key = "prefixItems";
    *rest_key = "items";
    *prefix = json_object_get(part.schema, "prefixItems");
    *rest = items;
    if (json_is_array(items) && !*prefix) {
        *prefix_key = "items";
        *rest_key = "additionalItems";
        *prefix = items;
        *rest = json_object_get(part.schema, "additionalItems");
    }
    if (*prefix && !json_is_array(*prefix)) return bad_keyword(s, part, "prefixItems", "a list of schemas");
    return true;
}

/* The value of the item at a position: what all parts say about it. n_prefix and more: any later item. */
static uint32_t item_value(wr_schema *s, const wr_schema_list *list, size_t position) {
    wr_schema_list all = {0};
    for (size_t i = 0; i < list->n; i++) {
        const json_t *prefix, *rest;
        const char *prefix_key, *rest_key, *p = list->at[i].pointer;
        if (!items_of(s, list->at[i], &prefix, &rest, &prefix_key, &rest_key)) return WR_GR_NONE;
        if (position < json_array_size(prefix)) {
            const char *where = wr_schema_item(s, wr_schema_below(s, p, prefix_key), position);
            if (!wr_schema_list_add(s, &all, json_array_get(prefix, position), where)) return WR_GR_NONE;
        } else if (rest && !wr_schema_list_add(s, &all, rest, wr_schema_below(s, p, rest_key))) {
            return WR_GR_NONE;
        }
    }
    return wr_schema_value_of(s, &all);
}

static bool merge_items(wr_schema *s, const wr_schema_list *list, wr_schema_shape *shape) {
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++) {
        const json_t *prefix, *rest;
        const char *prefix_key, *rest_key;
        if (!items_of(s, list->at[i], &prefix, &rest, &prefix_key, &rest_key)) return false;
        if (json_array_size(prefix) > n) n = json_array_size(prefix);
    }
    shape->prefix = wr_gr_alloc(s->b, n + 1, sizeof *shape->prefix);
    if (!shape->prefix) return false;
    shape->n_prefix = n;
    for (size_t i = 0; i < n; i++)
        if ((shape->prefix[i] = item_value(s, list, i)) == WR_GR_NONE) return false;
    return (shape->rest = item_value(s, list, n)) != WR_GR_NONE;
}

/* ---- Objects --------------------------------------------------------------------- */

/* All patternProperties of the alternative. */
typedef struct key_pattern {
    size_t part; /* of the list */
    const json_t *schema;
    const char *pointer;
    const wr_auto *names;
} key_pattern;

typedef struct key_patterns {
    key_pattern at[WR_SCHEMA_PATTERNS_MAX];
    size_t n;
} key_patterns;

static bool collect_patterns(wr_schema *s, const wr_schema_list *list, key_patterns *out) {
    for (size_t i = 0; i < list->n; i++) {
        const json_t *patterns = json_object_get(list->at[i].schema, "patternProperties");
        const char *where = wr_schema_below(s, list->at[i].pointer, "patternProperties"), *key;
        json_t *value;
        if (patterns && !json_is_object(patterns)) return bad_keyword(s, list->at[i], "patternProperties", "an object");
        json_object_foreach((json_t *)patterns, key, value) {
            if (out->n == WR_SCHEMA_PATTERNS_MAX)
                return WR_SCHEMA_FAIL(s, WEIR_E_UNSUPPORTED, where,
                                      "more than %d patterns for one object cannot be enforced",
                                      WR_SCHEMA_PATTERNS_MAX);
            const char *pointer = wr_schema_below(s, where, key);
            s->b->where = pointer;
            const wr_auto *names = wr_auto_search(s->b, wr_pattern_parse(s->b, key, strlen(key)));
            if (!names) return false;
            out->at[out->n++] = (key_pattern){i, value, pointer, names};
        }
    }
    return true;
}

/* The value of a property that matches the patterns of bit set `matched`; name NULL: not declared. */
static uint32_t property_value(wr_schema *s, const wr_schema_list *list, const key_patterns *patterns, unsigned matched,
                               const char *name) {
    wr_schema_list all = {0};
    for (size_t i = 0; i < list->n; i++) {
        const json_t *schema = list->at[i].schema, *additional = json_object_get(schema, "additionalProperties");
        const json_t *own = name ? json_object_get(json_object_get(schema, "properties"), name) : NULL;
        const char *p = list->at[i].pointer;
        bool known = own != NULL;
        if (own && !wr_schema_list_add(s, &all, own, wr_schema_below(s, wr_schema_below(s, p, "properties"), name)))
            return WR_GR_NONE;
        for (size_t k = 0; k < patterns->n; k++) {
            if (patterns->at[k].part != i || !(matched >> k & 1)) continue;
            known = true;
            if (!wr_schema_list_add(s, &all, patterns->at[k].schema, patterns->at[k].pointer)) return WR_GR_NONE;
        }
        if (!known && additional &&
            !wr_schema_list_add(s, &all, additional, wr_schema_below(s, p, "additionalProperties")))
            return WR_GR_NONE;
    }
    return wr_schema_value_of(s, &all);
}

static wr_schema_name *name_of(wr_schema *s, wr_schema_shape *shape, const char *text) {
    for (size_t i = 0; i < shape->n_names; i++)
        if (strcmp(shape->name[i].text, text) == 0) return &shape->name[i];
    if (!wr_gr_more(s->b, &shape->name, &shape->name_cap, shape->n_names + 1, sizeof *shape->name)) return NULL;
    wr_schema_name *name = &shape->name[shape->n_names++];
    *name = (wr_schema_name){.text = text, .bytes = strlen(text)};
    return name;
}

static bool collect_names(wr_schema *s, wr_schema_part part, wr_schema_shape *shape) {
    const json_t *properties = json_object_get(part.schema, "properties"),
                 *required = json_object_get(part.schema, "required");
    const char *key;
    json_t *value;
    size_t i;
    if (properties && !json_is_object(properties)) return bad_keyword(s, part, "properties", "an object");
    json_object_foreach((json_t *)properties, key, value) if (!name_of(s, shape, key)) return false;
    if (required && json_is_boolean(required)) required = NULL; /* draft 3 wrote it inside the property */
    if (required && !json_is_array(required)) return bad_keyword(s, part, "required", "a list of names");
    json_array_foreach(required, i, value) {
        if (!json_is_string(value)) return bad_keyword(s, part, "required", "a list of names");
        wr_schema_name *name = name_of(s, shape, json_string_value(value));
        if (!name) return false;
        name->required = true;
    }
    if (shape->n_names > WR_GR_NAMES_MAX)
        return WR_SCHEMA_FAIL(s, WEIR_E_LIMIT, part.pointer, "more than %d properties in one object", WR_GR_NAMES_MAX);
    return true;
}

/* What propertyNames say, as one automaton; NULL without them. */
static bool names_automaton(wr_schema *s, const wr_schema_list *list, const wr_auto **out) {
    wr_schema_list all = {0};
    wr_schema_choice choice = {0};
    const char *where = NULL;
    *out = NULL;
    for (size_t i = 0; i < list->n; i++) {
        const json_t *names = json_object_get(list->at[i].schema, "propertyNames");
        if (!names) continue;
        where = wr_schema_below(s, list->at[i].pointer, "propertyNames");
        if (!wr_schema_list_add(s, &all, names, where)) return false;
    }
    if (!where) return true;
    if (!wr_schema_expand(s, &all, &choice)) return false;
    const wr_auto **any = wr_gr_alloc(s->b, choice.n + 1, sizeof *any);
    size_t n = 0;
    for (size_t i = 0; any && i < choice.n; i++) {
        wr_schema_shape *shape;
        if (!wr_schema_merge(s, &choice.at[i], &shape)) return false;
        if (!shape || !(shape->types & WR_SCHEMA_STRING)) continue;
        if (!(any[n++] = wr_schema_string(s, shape))) return false;
    }
    if (!any) return false;
    *out = wr_auto_or(s->b, any, n);
    return *out != NULL;
}

/* Undeclared names, by which patterns they match. */
static bool merge_others(wr_schema *s, const wr_schema_list *list, const key_patterns *patterns, const wr_auto *allowed,
                         wr_schema_shape *shape) {
    for (unsigned matched = 0; matched < 1u << patterns->n; matched++) {
        const wr_auto *names = allowed;
        for (size_t k = 0; k < patterns->n; k++) {
            const wr_auto *one = patterns->at[k].names;
            if (!(matched >> k & 1) && !(one = wr_auto_not(s->b, one))) return false;
            names = names ? wr_auto_and(s->b, names, one) : one;
            if (!names) return false;
        }
        if (names && wr_auto_is_empty(names)) continue;
        uint32_t value = property_value(s, list, patterns, matched, NULL);
        if (value == WR_GR_NONE) return false;
        /* `false` is common, and needs no automaton. */
        bool never = s->value[value].list.n == 1 && json_is_false(s->value[value].list.at[0].schema);
        if (never) continue;
        if (!wr_gr_more(s->b, &shape->others, &shape->others_cap, shape->n_others + 1, sizeof *shape->others))
            return false;
        shape->others[shape->n_others++] = (wr_schema_others){names, value};
    }
    return true;
}

static bool merge_names(wr_schema *s, const wr_schema_list *list, wr_schema_shape *shape, bool *possible) {
    key_patterns patterns = {0};
    const wr_auto *allowed;
    size_t kept = 0;
    uint32_t n_required = 0;
    for (size_t i = 0; i < list->n; i++)
        if (!collect_names(s, list->at[i], shape) ||
            !merge_counts(s, list->at[i], "minProperties", "maxProperties", &shape->min_names, &shape->max_names))
            return false;
    if (!collect_patterns(s, list, &patterns) || !names_automaton(s, list, &allowed)) return false;
    for (size_t i = 0; i < shape->n_names; i++) {
        wr_schema_name name = shape->name[i];
        unsigned matched = 0;
        int32_t tag;
        for (size_t k = 0; k < patterns.n; k++) {
            if (!wr_auto_match(s->b, patterns.at[k].names, name.text, name.bytes, &tag)) return false;
            if (tag >= 0) matched |= 1u << k;
        }
        n_required += name.required;
        if (allowed) {
            if (!wr_auto_match(s->b, allowed, name.text, name.bytes, &tag)) return false;
            if (tag < 0) {
                *possible = *possible && !name.required;
                continue;
            }
        }
        if ((name.value = property_value(s, list, &patterns, matched, name.text)) == WR_GR_NONE) return false;
        shape->name[kept++] = name;
    }
    shape->n_names = kept;
    if (!merge_others(s, list, &patterns, allowed, shape)) return false;
    if (shape->n_others && shape->min_names > n_required + 1)
        return WR_SCHEMA_FAIL(
            s, WEIR_E_UNSUPPORTED, wr_schema_below(s, list->at[0].pointer, "minProperties"),
            "undeclared names could come twice, so a minimum above the required ones plus 1 cannot be "
            "enforced; set additionalProperties to false");
    return true;
}

/* ---- All of it ------------------------------------------------------------------- */

bool wr_schema_merge(wr_schema *s, const wr_schema_list *list, wr_schema_shape **out) {
    wr_schema_shape *shape = wr_gr_alloc(s->b, 1, sizeof *shape);
    *out = NULL;
    if (!shape) return false;
    *shape = (wr_schema_shape){.types = WR_SCHEMA_ALL,
                               .pointer = list->n ? list->at[0].pointer : "",
                               .max_length = WR_EXPR_ENDLESS,
                               .max_items = WR_EXPR_ENDLESS,
                               .max_names = WR_EXPR_ENDLESS,
                               .rest = WR_GR_NONE};
    for (size_t i = 0; i < list->n; i++) {
        wr_schema_part part = list->at[i];
        if (!check_keywords(s, part) || !merge_type(s, part, shape) || !merge_literals(s, part, shape) ||
            !merge_number(s, part, shape) || !merge_string(s, part, shape) ||
            !merge_counts(s, part, "minItems", "maxItems", &shape->min_items, &shape->max_items))
            return false;
    }
    s->b->where = shape->pointer;
    bool possible = true;
    if (shape->has_literals) shape->types &= ~(unsigned)(WR_SCHEMA_ARRAY | WR_SCHEMA_OBJECT);
    if ((shape->types & WR_SCHEMA_ARRAY) && shape->min_items <= shape->max_items) {
        if (!merge_items(s, list, shape)) return false;
    } else {
        shape->types &= ~(unsigned)WR_SCHEMA_ARRAY;
    }
    if (shape->types & WR_SCHEMA_OBJECT) {
        if (!merge_names(s, list, shape, &possible)) return false;
        if (!possible || shape->min_names > shape->max_names) shape->types &= ~(unsigned)WR_SCHEMA_OBJECT;
    }
    if (shape->types) *out = shape;
    return true;
}
