/* Questions about shapes: which scalars and strings they allow, and whether two exclude each other. */
#include "text/grammar/schema.h"

#include <string.h>

#include "text/unicode.h"

enum { EXCLUDE_DEPTH_MAX = 8 };

const wr_auto *wr_schema_string(wr_schema *s, const wr_schema_shape *shape) {
    const wr_auto *all = NULL;
    s->b->where = shape->pointer;
    if (shape->has_literals) {
        wr_expr *any = wr_expr_new(s->b, WR_EXPR_ALT);
        for (size_t i = 0; i < shape->n_literals; i++) {
            const json_t *v = shape->literal[i];
            if (json_is_string(v) &&
                !wr_expr_add(s->b, any, wr_expr_text(s->b, json_string_value(v), json_string_length(v))))
                return NULL;
        }
        if (!any || !(all = wr_auto_of(s->b, any))) return NULL;
    }
    for (size_t i = 0; i < shape->n_patterns; i++) {
        const wr_auto *one = wr_auto_search(s->b, shape->pattern[i]);
        all = all ? wr_auto_and(s->b, all, one) : one;
        if (!all) return NULL;
    }
    if (all && !shape->min_length && shape->max_length == WR_EXPR_ENDLESS) return all;
    const wr_auto *length = wr_auto_length(s->b, shape->min_length, shape->max_length);
    return all && length ? wr_auto_and(s->b, all, length) : length;
}

static bool number_allows(wr_schema *s, const wr_schema_shape *shape, const json_t *v, bool *yes) {
    uint8_t room[4][WR_NUMBER_DIGITS];
    wr_number_set set;
    wr_decimal d;
    wr_reading r = {0};
    char text[2 * WR_DECIMAL_DIGITS + 3];
    *yes = false;
    if (!wr_decimal_of(v, &d)) return true; /* too large for any bound that could be written */
    if (!wr_number_set_of(s->b, &shape->number, room, &set)) return false;
    int length = snprintf(text, sizeof text, "%s%.*s%s%.*s", d.negative ? "-" : "", d.n_whole, d.whole,
                          d.n_fraction ? "." : "", d.n_fraction, d.fraction);
    for (int i = 0; i < length; i++)
        if (!wr_reading_step(&set, &r, (uint8_t)text[i])) return true;
    *yes = wr_reading_accepts(&set, &r);
    return true;
}

static bool same_number(const json_t *x, const json_t *y) {
    wr_decimal a, b;
    return json_is_number(y) && wr_decimal_of(x, &a) && wr_decimal_of(y, &b) && wr_decimal_compare(&a, &b) == 0;
}

/* Recursion is bounded by the parser's depth. */
bool wr_schema_same_value(const json_t *x, const json_t *y) {
    const char *key;
    json_t *item;
    size_t i;
    if (json_is_number(x)) return same_number(x, y);
    if (json_is_array(x)) {
        if (!json_is_array(y) || json_array_size(x) != json_array_size(y)) return false;
        json_array_foreach(x, i, item) if (!wr_schema_same_value(item, json_array_get(y, i))) return false;
        return true;
    }
    if (!json_is_object(x)) return json_equal(x, y);
    if (!json_is_object(y) || json_object_size(x) != json_object_size(y)) return false;
    json_object_foreach((json_t *)x, key, item) {
        const json_t *other = json_object_get(y, key);
        if (!other || !wr_schema_same_value(item, other)) return false;
    }
    return true;
}

bool wr_schema_allows(wr_schema *s, const wr_schema_shape *shape, const json_t *v, bool *yes) {
    *yes = false;
    switch (json_typeof(v)) {
    case JSON_NULL: *yes = shape->types & WR_SCHEMA_NULL; return true;
    case JSON_TRUE:
    case JSON_FALSE: *yes = shape->types & WR_SCHEMA_BOOLEAN; return true;
    case JSON_INTEGER:
    case JSON_REAL: return !(shape->types & WR_SCHEMA_NUMBER) || number_allows(s, shape, v, yes);
    case JSON_STRING: break;
    default: return true;
    }
    const char *text = json_string_value(v);
    size_t bytes = json_string_length(v);
    if (!(shape->types & WR_SCHEMA_STRING)) return true;
    size_t length = wr_utf8_count((const uint8_t *)text, bytes);
    *yes = length >= shape->min_length && length <= shape->max_length;
    for (size_t i = 0; *yes && i < shape->n_patterns; i++) {
        int32_t tag;
        if (!wr_auto_match(s->b, wr_auto_search(s->b, shape->pattern[i]), text, bytes, &tag)) return false;
        *yes = tag >= 0;
    }
    return true;
}

/* ---- Exclusion ------------------------------------------------------------------- */

static bool values_exclude(wr_schema *s, uint32_t x, uint32_t y) {
    if (x == y || s->exclude_depth >= EXCLUDE_DEPTH_MAX) return false;
    s->exclude_depth++;
    bool excluded = wr_schema_expand_value(s, x) && wr_schema_expand_value(s, y);
    /* One that is just being expanded is not known yet. */
    excluded = excluded && s->value[x].stage == WR_SCHEMA_DONE && s->value[y].stage == WR_SCHEMA_DONE;
    for (size_t i = 0; excluded && i < s->value[x].n_shapes; i++)
        for (size_t k = 0; excluded && k < s->value[y].n_shapes; k++)
            excluded = wr_schema_exclude(s, s->value[x].shape[i], s->value[y].shape[k]);
    s->exclude_depth--;
    return excluded;
}

/* No literal of x is allowed by y. */
static bool literals_exclude(wr_schema *s, const wr_schema_shape *x, const wr_schema_shape *y) {
    for (size_t i = 0; i < x->n_literals; i++) {
        bool yes;
        if (!wr_schema_allows(s, y, x->literal[i], &yes)) return false;
        for (size_t k = 0; yes && y->has_literals; k++) {
            if (k == y->n_literals)
                yes = false;
            else if (wr_schema_same_value(x->literal[i], y->literal[k]))
                return false;
        }
        if (yes) return false;
    }
    return true;
}

static bool numbers_exclude(const wr_number_spec *x, const wr_number_spec *y) {
    for (int swap = 0; swap < 2; swap++) {
        const wr_number_spec *low = swap ? y : x, *high = swap ? x : y;
        if (!low->has_max || !high->has_min) continue;
        int order = wr_decimal_compare(&low->max, &high->min);
        if (order < 0 || (order == 0 && (low->max_open || high->min_open))) return true;
    }
    return false;
}

static bool strings_exclude(wr_schema *s, const wr_schema_shape *x, const wr_schema_shape *y) {
    if (x->max_length < y->min_length || y->max_length < x->min_length) return true;
    if (!x->n_patterns || !y->n_patterns) return false;
    const wr_auto *both = wr_auto_and(s->b, wr_schema_string(s, x), wr_schema_string(s, y));
    return both && wr_auto_is_empty(both);
}

static uint32_t item_of(const wr_schema_shape *x, uint32_t i) { return i < x->n_prefix ? x->prefix[i] : x->rest; }

static bool lists_exclude(wr_schema *s, const wr_schema_shape *x, const wr_schema_shape *y) {
    if (x->max_items < y->min_items || y->max_items < x->min_items) return true;
    uint32_t both = x->min_items > y->min_items ? x->min_items : y->min_items; /* surely there */
    for (uint32_t i = 0; i < both && i < 16; i++)
        if (values_exclude(s, item_of(x, i), item_of(y, i))) return true;
    return false;
}

/* A property that x requires and y, which has it declared or is closed, does not take. */
static bool required_excludes(wr_schema *s, const wr_schema_shape *x, const wr_schema_shape *y) {
    for (size_t i = 0; i < x->n_names; i++) {
        if (!x->name[i].required) continue;
        size_t k = 0;
        while (k < y->n_names && strcmp(x->name[i].text, y->name[k].text) != 0) k++;
        if (k == y->n_names ? y->n_others == 0 : values_exclude(s, x->name[i].value, y->name[k].value)) return true;
    }
    return false;
}

bool wr_schema_exclude(wr_schema *s, const wr_schema_shape *x, const wr_schema_shape *y) {
    unsigned common = x->types & y->types;
    if (!common) return true;
    unsigned scalars = WR_SCHEMA_NULL | WR_SCHEMA_BOOLEAN | WR_SCHEMA_NUMBER | WR_SCHEMA_STRING;
    if (x->has_literals || y->has_literals) {
        if (!(x->has_literals ? literals_exclude(s, x, y) : literals_exclude(s, y, x))) return false;
        common &= ~scalars;
    }
    if (common & (WR_SCHEMA_NULL | WR_SCHEMA_BOOLEAN)) return false;
    if ((common & WR_SCHEMA_NUMBER) && !numbers_exclude(&x->number, &y->number)) return false;
    if ((common & WR_SCHEMA_STRING) && !strings_exclude(s, x, y)) return false;
    if ((common & WR_SCHEMA_ARRAY) && !lists_exclude(s, x, y)) return false;
    if ((common & WR_SCHEMA_OBJECT) && !required_excludes(s, x, y) && !required_excludes(s, y, x)) return false;
    return s->b->status == WEIR_OK;
}
