/* Shapes become rules: one for each type that a shape allows, and one for its literals. */
#include "text/grammar/schema.h"

#include <string.h>

/* ---- Whitespace ------------------------------------------------------------------ */

/* Let whitespace come at *at; *at becomes the state behind it. */
static bool blanks(wr_schema *s, uint32_t *at) {
    wr_gr_emit *e = &s->emit;
    int32_t max = s->options.max_whitespace;
    uint32_t from = *at, to, behind;
    if (max < 0) return true;
    if (max == 0) {
        return wr_gr_bytes(e, from, '\t', '\n', from) && wr_gr_bytes(e, from, '\r', '\r', from) &&
               wr_gr_bytes(e, from, ' ', ' ', from);
    }
    if (!wr_gr_state_add(e, -1, &behind)) return false;
    for (int32_t i = 0; i <= max; i++, from = to) {
        if (!wr_gr_empty(e, from, behind)) return false;
        if (i == max) break;
        if (!wr_gr_state_add(e, -1, &to) || !wr_gr_bytes(e, from, '\t', '\n', to) ||
            !wr_gr_bytes(e, from, '\r', '\r', to) || !wr_gr_bytes(e, from, ' ', ' ', to))
            return false;
    }
    *at = behind;
    return true;
}

/* ---- Scalars --------------------------------------------------------------------- */

/* A loop of characters of a set between quotes: its start, and the state inside. */
static bool string_loop(wr_schema *s, const wr_charset *set, uint32_t *start, uint32_t *inside) {
    wr_gr_emit *e = &s->emit;
    uint32_t end;
    return set && wr_gr_state_add(e, -1, start) && wr_gr_state_add(e, -1, inside) && wr_gr_state_add(e, 0, &end) &&
           wr_gr_bytes(e, *start, '"', '"', *inside) && wr_gr_lay_class(e, set, e->quoted, *inside, *inside) &&
           wr_gr_bytes(e, *inside, '"', '"', end);
}

static bool any_string(wr_schema *s) {
    if (s->any_string != WR_GR_NONE) return true;
    if (!string_loop(s, wr_charset_any(s->b), &s->any_string_start, &s->any_string_inside) ||
        !wr_gr_rule_add(&s->emit, WR_GR_PLAIN, NULL, &s->any_string))
        return false;
    s->emit.p->rule[s->any_string].start = s->any_string_start;
    s->emit.p->any_string = s->any_string_inside;
    s->emit.p->plain_strings = s->options.plain_strings;
    return true;
}

static bool counted_rule(wr_schema *s, uint32_t start, uint32_t min, uint32_t max, uint32_t *rule) {
    if (!wr_gr_rule_add(&s->emit, WR_GR_STRING, NULL, rule)) return false;
    s->emit.p->rule[*rule].start = start;
    s->emit.p->rule[*rule].min = min;
    s->emit.p->rule[*rule].max = max;
    return true;
}

/* "^[class]{n,m}$": the class and the bounds. Such strings are counted, which needs no states. */
static const wr_charset *repeated_class(const wr_expr *e, uint32_t *min, uint32_t *max) {
    if (e->kind != WR_EXPR_CAT || e->n != 3 || e->child[0]->kind != WR_EXPR_BEGIN || e->child[2]->kind != WR_EXPR_END)
        return NULL;
    const wr_expr *middle = e->child[1];
    *min = *max = 1;
    if (middle->kind == WR_EXPR_REPEAT) {
        *min = middle->min;
        *max = middle->max;
        middle = middle->child[0];
    }
    return middle->kind == WR_EXPR_CLASS ? middle->set : NULL;
}

/* *rule stays WR_GR_NONE when no string fits. */
static bool string_rule(wr_schema *s, const wr_schema_shape *shape, uint32_t *rule) {
    uint32_t min = shape->min_length, max = shape->max_length, start, inside;
    if (min > max) return true;
    if (!shape->n_patterns) {
        if (!any_string(s)) return false;
        if (min || max != WR_EXPR_ENDLESS) return counted_rule(s, s->any_string_start, min, max, rule);
        *rule = s->any_string;
        return true;
    }
    uint32_t n = 0, m = 0;
    const wr_charset *set = shape->n_patterns == 1 ? repeated_class(shape->pattern[0], &n, &m) : NULL;
    if (set) {
        if (n > min) min = n;
        if (m < max) max = m;
        if (min > max || (!set->n && min)) return true;
        return string_loop(s, set, &start, &inside) && counted_rule(s, start, min, max, rule);
    }
    const wr_auto *a = wr_schema_string(s, shape);
    if (!a) return false;
    return wr_auto_is_empty(a) || wr_gr_plain_rule(&s->emit, wr_expr_quoted(s->b, wr_expr_automaton(s->b, a)), rule);
}

/* Only plainly written numbers are wanted, or are numbers of this type. */
static bool is_plain(const wr_schema *s, const wr_number_spec *n) {
    return s->options.plain_numbers || (n->integer && s->integers_are_plain);
}

/* The words that tell a set of numbers from others. */
static bool set_key(wr_schema *s, const wr_number_set *set, uint32_t **key, size_t *n) {
    size_t cap = 0;
    *n = 0;
    for (int i = 0; i < 4; i++) {
        const wr_number_side *side = &set->side[i / 2];
        const wr_number_bound *bound = i % 2 ? &side->hi : &side->lo;
        if (!wr_gr_more(s->b, key, &cap, *n + 6 + bound->n, sizeof **key)) return false;
        uint32_t word[] = {side->zero, side->some, bound->there, bound->open, bound->n, (uint32_t)bound->power};
        memcpy(*key + *n, word, sizeof word);
        *n += sizeof word / sizeof *word;
        for (uint32_t k = 0; k < bound->n; k++) (*key)[(*n)++] = bound->digit[k];
    }
    if (!wr_gr_more(s->b, key, &cap, *n + 3, sizeof **key)) return false;
    uint32_t word[] = {set->multiples, set->modulus, (uint32_t)set->scale};
    memcpy(*key + *n, word, sizeof word);
    *n += sizeof word / sizeof *word;
    return true;
}

/* Numbers as the schema bounds them, in any spelling; values with the same bounds share a rule and its states. */
static bool exact_number_rule(wr_schema *s, const wr_number_spec *spec, uint32_t *rule) {
    uint8_t room[4][WR_NUMBER_DIGITS];
    uint32_t *key = NULL, number;
    size_t n;
    wr_number_set set;
    bool fresh;
    if (!wr_number_set_of(s->b, spec, room, &set)) return false;
    if (wr_number_side_is_empty(&set.side[0]) && wr_number_side_is_empty(&set.side[1])) return true;
    if (!set_key(s, &set, &key, &n)) return false;
    if (!wr_sets_number(&s->numbers, key, n, &number, &fresh)) return wr_gr_no_memory(s->b);
    if (fresh) {
        if (!wr_gr_number_rule(&s->emit, rule) || !wr_gr_number_add(&s->emit, *rule, &set) ||
            !wr_gr_more(s->b, &s->number_rule, &s->number_rule_cap, number + 1u, sizeof *s->number_rule))
            return false;
        s->number_rule[number] = *rule;
    }
    *rule = s->number_rule[number];
    return true;
}

static bool number_rule(wr_schema *s, const wr_schema_shape *shape, uint32_t *rule) {
    const wr_number_spec *n = &shape->number;
    bool bounded = n->has_min || n->has_max || n->has_multiple;
    if (!is_plain(s, n) && (bounded || n->integer)) return exact_number_rule(s, n, rule);
    uint32_t *kept = bounded ? NULL : n->integer ? &s->any_integer : &s->any_number;
    if (kept && *kept != WR_GR_NONE) {
        *rule = *kept;
        return true;
    }
    const wr_auto *a = wr_number_automaton(s->b, n);
    if (!a) return false;
    if (wr_auto_is_empty(a)) return true;
    if (!wr_gr_plain_rule(&s->emit, wr_expr_automaton(s->b, a), rule)) return false;
    if (kept) *kept = *rule;
    return true;
}

/* Numbers among the literals are written as in the schema. */
static bool is_plain_literal(const wr_schema *s, const wr_schema_shape *shape) {
    size_t n = 0;
    for (size_t i = 0; i < shape->n_literals; i++) n += json_is_number(shape->literal[i]);
    return is_plain(s, &shape->number) || n > WR_SCHEMA_NUMBERS_MAX;
}

/* Any spelling of the numbers among the literals. */
static bool literal_number_rule(wr_schema *s, const wr_schema_shape *shape, uint32_t *rule) {
    for (size_t i = 0; i < shape->n_literals; i++) {
        const json_t *v = shape->literal[i];
        uint8_t room[4][WR_NUMBER_DIGITS];
        wr_number_spec spec = {.has_min = true, .has_max = true};
        wr_number_set set;
        bool yes;
        if (!json_is_number(v)) continue;
        if (!wr_schema_allows(s, shape, v, &yes)) return false;
        if (!yes || !wr_decimal_of(v, &spec.min)) continue;
        spec.max = spec.min;
        if (!wr_number_set_of(s->b, &spec, room, &set) || (*rule == WR_GR_NONE && !wr_gr_number_rule(&s->emit, rule)) ||
            !wr_gr_number_add(&s->emit, *rule, &set))
            return false;
    }
    return true;
}

static wr_expr *literal(wr_schema *s, const json_t *v, bool integer) {
    switch (json_typeof(v)) {
    case JSON_NULL: return wr_expr_text(s->b, "null", 4);
    case JSON_TRUE: return wr_expr_text(s->b, "true", 4);
    case JSON_FALSE: return wr_expr_text(s->b, "false", 5);
    default: return wr_number_literal(s->b, v, integer);
    }
}

/* All literals but numbers that are read in any spelling. */
static bool literal_rule(wr_schema *s, const wr_schema_shape *shape, uint32_t *rule) {
    wr_expr *any = wr_expr_new(s->b, WR_EXPR_ALT), *strings = wr_expr_new(s->b, WR_EXPR_TEXTS);
    bool plain = is_plain_literal(s, shape), ok = any && strings;
    for (size_t i = 0; ok && i < shape->n_literals; i++) {
        const json_t *v = shape->literal[i];
        bool yes;
        if (json_is_number(v) && !plain) continue;
        ok = wr_schema_allows(s, shape, v, &yes);
        if (!ok || !yes) continue;
        ok = json_is_string(v) ? wr_expr_text_add(s->b, strings, json_string_value(v), json_string_length(v))
                               : wr_expr_add(s->b, any, literal(s, v, shape->number.integer));
    }
    if (!ok || (strings->n_views && !wr_expr_add(s->b, any, wr_expr_quoted(s->b, strings)))) return false;
    return !any->n || wr_gr_plain_rule(&s->emit, any, rule);
}

static bool word_rule(wr_schema *s, const wr_schema_shape *shape, uint32_t *rule) {
    wr_expr *any = wr_expr_new(s->b, WR_EXPR_ALT);
    if ((shape->types & WR_SCHEMA_NULL) && !wr_expr_add(s->b, any, wr_expr_text(s->b, "null", 4))) return false;
    if (shape->types & WR_SCHEMA_BOOLEAN) {
        if (!wr_expr_add(s->b, any, wr_expr_text(s->b, "true", 4)) ||
            !wr_expr_add(s->b, any, wr_expr_text(s->b, "false", 5)))
            return false;
    }
    return wr_gr_plain_rule(&s->emit, any, rule);
}

/* ---- Lists and objects ------------------------------------------------------------- */

/* Every rule of a value may come at `from`; afterwards it goes on at `back`. */
static bool call_value(wr_schema *s, uint32_t from, uint32_t value, uint32_t back, bool counts) {
    const wr_schema_value *v = &s->value[value];
    for (size_t i = 0; i < v->n_shapes; i++)
        for (size_t k = 0; k < v->shape[i]->n_rules; k++)
            if (!wr_gr_call_add(&s->emit, from, v->shape[i]->rule[k], back, 1, counts)) return false;
    return true;
}

/* The state in which item `value` is awaited at `open`, and what follows it: a closing bracket, or a comma to *more. */
static bool item(wr_schema *s, uint32_t rule, uint32_t open, uint32_t value, bool needed, uint32_t end, uint32_t more) {
    wr_gr_emit *e = &s->emit;
    uint32_t await, behind;
    if (!wr_gr_state_add(e, -1, &await) || !wr_gr_empty(e, open, await) || !wr_gr_state_add(e, -1, &behind) ||
        !call_value(s, await, value, behind, true) || (needed && !wr_gr_need_add(e, rule, await)) ||
        !blanks(s, &behind) || !wr_gr_bytes(e, behind, ']', ']', end))
        return false;
    return more == WR_GR_NONE || wr_gr_bytes(e, behind, ',', ',', more);
}

static bool guarded(wr_gr_emit *e, int32_t tag, wr_gr_guard guard, uint32_t *id) {
    if (!wr_gr_state_add(e, tag, id)) return false;
    e->p->state[*id].guard = (uint8_t)guard;
    return true;
}

static bool list_rule(wr_schema *s, const wr_schema_shape *shape, uint32_t rule) {
    wr_gr_emit *e = &s->emit;
    uint32_t start, open, end, next;
    uint32_t max = shape->max_items;
    e->p->rule[rule].min = shape->min_items;
    e->p->rule[rule].max = max;
    if (!wr_gr_state_add(e, -1, &start) || !wr_gr_state_add(e, -1, &open) || !guarded(e, 0, WR_GR_CLOSE, &end) ||
        !wr_gr_bytes(e, start, '[', '[', open) || !blanks(s, &open) || !wr_gr_bytes(e, open, ']', ']', end))
        return false;
    e->p->rule[rule].start = start;
    for (size_t i = 0; i < shape->n_prefix && i < max; i++) {
        if (!guarded(e, -1, WR_GR_MORE, &next)) return false;
        if (!item(s, rule, open, shape->prefix[i], i < shape->min_items, end, next)) return false;
        open = next;
        if (!blanks(s, &open)) return false;
    }
    if (shape->n_prefix >= max) return true;
    /* The first of the other items follows what there is; the next ones follow a comma of their own. */
    if (!guarded(e, -1, WR_GR_MORE, &next)) return false;
    uint32_t loop = next;
    return blanks(s, &loop) && item(s, rule, open, shape->rest, shape->n_prefix < shape->min_items, end, next) &&
           item(s, rule, loop, shape->rest, false, end, next);
}

/* The names of an object, each with its own tag, and all other names, with tag 0 or tags above. */
static bool key_rule(wr_schema *s, const wr_schema_shape *shape, uint32_t first_back, uint32_t *rule) {
    wr_gr_emit *e = &s->emit;
    uint32_t start, from, last, end;
    if (!wr_gr_rule_add(e, WR_GR_KEY, NULL, rule) || !wr_gr_state_add(e, -1, &start)) return false;
    e->p->rule[*rule].start = start;
    for (size_t i = 0; i < shape->n_names; i++) {
        int32_t tag = (int32_t)i + 1;
        e->name = (uint16_t)tag;
        bool ok = wr_gr_state_add(e, -1, &from) && wr_gr_state_add(e, -1, &last) && wr_gr_state_add(e, tag, &end) &&
                  wr_gr_empty(e, start, from) &&
                  wr_gr_lay(e, wr_expr_text(s->b, shape->name[i].text, shape->name[i].bytes), e->quoted, from, last) &&
                  wr_gr_bytes(e, last, '"', '"', end);
        e->name = 0;
        if (!ok) return false;
    }
    for (size_t i = 0; i < shape->n_others; i++) {
        int32_t tag = shape->others[i].names ? (int32_t)(shape->n_names + 1 + i) : 0;
        if (!tag) {
            if (!any_string(s) || !wr_gr_empty(e, start, s->any_string_inside)) return false;
            continue;
        }
        if (!wr_gr_state_add(e, -1, &last) || !wr_gr_state_add(e, tag, &end) ||
            !wr_gr_lay(e, wr_expr_automaton(s->b, shape->others[i].names), e->quoted, start, last) ||
            !wr_gr_bytes(e, last, '"', '"', end))
            return false;
        e->p->state[end].need = first_back + (uint32_t)tag;
    }
    return true;
}

static bool object_rule(wr_schema *s, const wr_schema_shape *shape, uint32_t rule) {
    wr_gr_emit *e = &s->emit;
    uint32_t start, open, key, end, next, comma, keys, first_back = 0, id;
    uint32_t n_backs = (uint32_t)(shape->n_names + 1 + shape->n_others);
    if (!wr_gr_state_add(e, -1, &start) || !wr_gr_state_add(e, -1, &open) || !wr_gr_state_add(e, -1, &next) ||
        !guarded(e, 0, WR_GR_CLOSE, &end) || !guarded(e, -1, WR_GR_MORE, &comma) || !guarded(e, -1, WR_GR_MORE, &key))
        return false;
    for (uint32_t i = 0; i < n_backs; i++) {
        if (!wr_gr_state_add(e, -1, &id)) return false;
        if (!i) first_back = id;
    }
    if (!wr_gr_bytes(e, start, '{', '{', open) || !blanks(s, &open) || !wr_gr_bytes(e, open, '}', '}', end) ||
        !wr_gr_bytes(e, open, '"', '"', key) || !key_rule(s, shape, first_back, &keys))
        return false;
    e->p->rule[rule].key_call = (uint32_t)e->p->n_calls;
    if (!wr_gr_call_add(e, key, keys, first_back, n_backs, true)) return false;
    uint32_t behind = next, after_comma = comma;
    if (!blanks(s, &behind) || !wr_gr_bytes(e, behind, '}', '}', end) || !wr_gr_bytes(e, behind, ',', ',', comma) ||
        !blanks(s, &after_comma) || !wr_gr_bytes(e, after_comma, '"', '"', key))
        return false;
    for (uint32_t tag = 0; tag < n_backs; tag++) {
        uint32_t colon = first_back + tag, await, value = WR_GR_NONE;
        if (tag >= 1 && tag <= shape->n_names) value = shape->name[tag - 1].value;
        for (size_t i = 0; i < shape->n_others; i++)
            if (tag == (shape->others[i].names ? shape->n_names + 1 + i : 0)) value = shape->others[i].value;
        if (value == WR_GR_NONE) continue;
        if (!blanks(s, &colon) || !wr_gr_state_add(e, -1, &await) || !wr_gr_bytes(e, colon, ':', ':', await) ||
            !blanks(s, &await) || !call_value(s, await, value, next, false))
            return false;
        if (tag >= 1 && tag <= shape->n_names && shape->name[tag - 1].required &&
            !wr_gr_need_add(e, rule, first_back + tag))
            return false;
    }
    wr_gr_rule *r = &e->p->rule[rule];
    r->start = start;
    r->min = shape->min_names;
    r->max = shape->max_names;
    r->n_names = (uint32_t)shape->n_names;
    for (size_t i = 0; i < shape->n_names; i++)
        if (shape->name[i].required) wr_gr_bit_set(r->required, (unsigned)i), r->n_required++;
    return true;
}

/* ---- All shapes -------------------------------------------------------------------- */

/* Rules of scalars are made whole; containers only get their numbers, since they refer to each other. */
static bool scalar_rules(wr_schema *s, wr_schema_shape *shape) {
    enum { RULES_OF_SHAPE = 6 };
    uint32_t *rule = shape->rule = wr_gr_alloc(s->b, RULES_OF_SHAPE, sizeof *rule), made;
    if (!rule) return false;
    s->b->where = shape->pointer;
    if (shape->has_literals) {
        made = WR_GR_NONE;
        if (!literal_rule(s, shape, &made)) return false;
        if (made != WR_GR_NONE) rule[shape->n_rules++] = made;
        made = WR_GR_NONE;
        if (!is_plain_literal(s, shape) && !literal_number_rule(s, shape, &made)) return false;
        if (made != WR_GR_NONE) rule[shape->n_rules++] = made;
    } else {
        if (shape->types & (WR_SCHEMA_NULL | WR_SCHEMA_BOOLEAN)) {
            if (!word_rule(s, shape, &rule[shape->n_rules++])) return false;
        }
        made = WR_GR_NONE;
        if ((shape->types & WR_SCHEMA_NUMBER) && !number_rule(s, shape, &made)) return false;
        if (made != WR_GR_NONE) rule[shape->n_rules++] = made;
        made = WR_GR_NONE;
        if ((shape->types & WR_SCHEMA_STRING) && !string_rule(s, shape, &made)) return false;
        if (made != WR_GR_NONE) rule[shape->n_rules++] = made;
    }
    if (shape->types & WR_SCHEMA_ARRAY) {
        if (!wr_gr_rule_add(&s->emit, WR_GR_ARRAY, NULL, &rule[shape->n_rules++])) return false;
    }
    if (shape->types & WR_SCHEMA_OBJECT) {
        if (!wr_gr_rule_add(&s->emit, WR_GR_OBJECT, NULL, &rule[shape->n_rules++])) return false;
    }
    return true;
}

static bool container_rules(wr_schema *s, wr_schema_shape *shape) {
    s->b->where = shape->pointer;
    for (size_t i = 0; i < shape->n_rules; i++) {
        wr_gr_frame frame = s->emit.p->rule[shape->rule[i]].frame;
        if (frame == WR_GR_ARRAY && !list_rule(s, shape, shape->rule[i])) return false;
        if (frame == WR_GR_OBJECT && !object_rule(s, shape, shape->rule[i])) return false;
    }
    return true;
}

bool wr_schema_emit_all(wr_schema *s, uint32_t root) {
    wr_gr_emit *e = &s->emit;
    uint32_t start, end;
    for (size_t i = 0; i < s->n_values; i++)
        for (size_t k = 0; k < s->value[i].n_shapes; k++)
            if (!scalar_rules(s, s->value[i].shape[k])) return false;
    for (size_t i = 0; i < s->n_values; i++)
        for (size_t k = 0; k < s->value[i].n_shapes; k++)
            if (!container_rules(s, s->value[i].shape[k])) return false;
    s->b->where = "the schema";
    if (!wr_gr_rule_add(e, WR_GR_PLAIN, "the schema", &e->p->root) || !wr_gr_state_add(e, -1, &start) ||
        !wr_gr_state_add(e, 0, &end))
        return false;
    e->p->rule[e->p->root].start = start;
    uint32_t behind, last;
    if (!wr_gr_state_add(e, -1, &behind)) return false;
    last = behind;
    return blanks(s, &start) && call_value(s, start, root, behind, false) && blanks(s, &last) &&
           wr_gr_empty(e, last, end) && wr_gr_finish(e);
}
