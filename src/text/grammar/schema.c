/* The way from a schema's text to a program, and the table of values. */
#include "text/grammar/schema.h"

#include <string.h>

#include "file/json.h"

static uint32_t hash_list(const wr_schema_list *list) {
    uint64_t h = list->n;
    for (size_t i = 0; i < list->n; i++)
        h = (h ^ (uint64_t)(uintptr_t)list->at[i].schema) * 0xD6E8FEB86659FD93u, h ^= h >> 32;
    return (uint32_t)(h >> 7) & 4095;
}

static bool same_list(const wr_schema_list *x, const wr_schema_list *y) {
    if (x->n != y->n) return false;
    for (size_t i = 0; i < x->n; i++)
        if (x->at[i].schema != y->at[i].schema) return false;
    return true;
}

/* Everything fits: `true` and {} among other parts say nothing, and alone they are the same value. */
static bool says_nothing(const json_t *schema) {
    return json_is_true(schema) || (json_is_object(schema) && !json_object_size(schema));
}

uint32_t wr_schema_value_of(wr_schema *s, wr_schema_list *list) {
    size_t n = 0;
    for (size_t i = 0; i < list->n; i++)
        if (!says_nothing(list->at[i].schema)) list->at[n++] = list->at[i];
    list->n = n;
    uint32_t *slot = &s->slot[hash_list(list)];
    for (uint32_t i = *slot; i; i = s->value[i - 1].next)
        if (same_list(&s->value[i - 1].list, list)) return i - 1;
    if (s->n_values >= WR_SCHEMA_VALUES_MAX) {
        WR_GR_FAIL(s->b, WEIR_E_LIMIT, "the schema has more than %d parts", WR_SCHEMA_VALUES_MAX);
        return WR_GR_NONE;
    }
    if (!wr_gr_more(s->b, &s->value, &s->value_cap, s->n_values + 1, sizeof *s->value)) return WR_GR_NONE;
    s->value[s->n_values++] = (wr_schema_value){.list = *list, .next = *slot};
    *slot = (uint32_t)s->n_values;
    return *slot - 1;
}

bool wr_schema_expand_value(wr_schema *s, uint32_t i) {
    if (s->value[i].stage != WR_SCHEMA_NEW) return true;
    s->value[i].stage = WR_SCHEMA_BEGUN;
    wr_schema_choice choice = {0};
    wr_schema_list list = s->value[i].list;
    s->b->where = list.n ? list.at[0].pointer : "the root";
    if (!wr_schema_expand(s, &list, &choice)) return false;
    wr_schema_shape **shape = wr_gr_alloc(s->b, choice.n + 1, sizeof *shape);
    size_t n = 0;
    for (size_t k = 0; shape && k < choice.n; k++) {
        if (!wr_schema_merge(s, &choice.at[k], &shape[n])) return false;
        if (shape[n]) n++;
    }
    s->value[i].shape = shape;
    s->value[i].n_shapes = n;
    s->value[i].stage = WR_SCHEMA_DONE;
    return shape != NULL;
}

/* The number of its draft, 3 to 7; 2019 for all later ones, and without one. */
static int draft_of(const json_t *root) {
    const char *name = json_string_value(json_object_get(root, "$schema"));
    for (int i = 3; name && i <= 7; i++)
        if (strstr(name, (const char[]){'d', 'r', 'a', 'f', 't', '-', '0', (char)('0' + i), 0})) return i;
    return 2019;
}

static bool compile(wr_schema *s) {
    wr_schema_list all = {0};
    int draft = draft_of(s->root);
    s->ref_alone = draft <= 7;
    s->integers_are_plain = draft <= 4;
    s->emit.quoted = s->options.plain_strings ? WR_GR_JSON_PLAIN : WR_GR_JSON;
    if (!wr_schema_check_ids(s, s->root, "", NULL) || !wr_schema_list_add(s, &all, s->root, "")) return false;
    uint32_t root = wr_schema_value_of(s, &all);
    if (root == WR_GR_NONE) return false;
    for (uint32_t i = 0; i < s->n_values; i++)
        if (!wr_schema_expand_value(s, i)) return false;
    return wr_schema_emit_all(s, root);
}

weir_status weir_grammar_from_schema(const char *json, size_t bytes, const weir_schema_options *options,
                                     weir_grammar **out, weir_error *err) {
    wr_gr_build b;
    json_t *root = NULL;
    *out = NULL;
    if (bytes > WR_GR_SOURCE_MAX)
        return WR_FAIL(err, WEIR_E_LIMIT, "a schema of %zu bytes; at most %d are allowed", bytes, WR_GR_SOURCE_MAX);
    WR_TRY(wr_json_parse(json, bytes, "schema", &root, err));
    wr_gr_build_init(&b, err);
    wr_schema *s = wr_gr_alloc(&b, 1, sizeof *s);
    if (s) {
        s->b = &b;
        s->emit = (wr_gr_emit){.b = &b, .p = wr_gr_program_new(&b)};
        s->root = root;
        s->made = json_array();
        s->any_string = s->any_number = s->any_integer = WR_GR_NONE;
        if (options) s->options = *options;
        if (s->options.max_whitespace > WR_GR_NESTING_MAX)
            WR_GR_FAIL(&b, WEIR_E_ARGUMENT, "max_whitespace is %d, at most %d is allowed; 0 means any",
                       s->options.max_whitespace, WR_GR_NESTING_MAX);
        else if (!s->made)
            WR_GR_FAIL(&b, WEIR_E_MEMORY, "no memory to compile the schema");
        else if (s->emit.p && compile(s))
            *out = s->emit.p;
        if (!*out) weir_grammar_release(s->emit.p);
        json_decref(s->made);
        wr_sets_deinit(&s->numbers);
    }
    json_decref(root);
    wr_gr_build_deinit(&b);
    return b.status;
}
