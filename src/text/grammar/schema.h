/* JSON Schema to a program, in three steps: a schema is expanded into alternatives, each a list of objects whose
 * keywords must all hold ($ref, allOf, anyOf and oneOf are gone then); the keywords of each list are merged into a
 * shape, which says for every type of JSON what is allowed; shapes become rules.
 *
 * The same list always gives the same value, so recursion ends. */
#ifndef WR_TEXT_GRAMMAR_SCHEMA_H
#define WR_TEXT_GRAMMAR_SCHEMA_H

#include <jansson.h>

#include "text/grammar/number.h"
#include "text/grammar/program.h"
#include "text/grammar/sets.h"

enum {
    WR_SCHEMA_ALTERNATIVES_MAX = 2048, /* of one value */
    WR_SCHEMA_REFS_MAX = 100,          /* references that lead to references */
    WR_SCHEMA_VALUES_MAX = 200000,
    WR_SCHEMA_PATTERNS_MAX = 4,   /* patternProperties of one object */
    WR_SCHEMA_NUMBERS_MAX = 1000, /* of one enum, in any spelling; each is a reading of its own */
};

/* A schema, and where it stands in its document, for messages. */
typedef struct wr_schema_part {
    const json_t *schema;
    const char *pointer;
} wr_schema_part;

/* Parts that all hold, sorted by address, each once. */
typedef struct wr_schema_list {
    wr_schema_part *at;
    size_t n, cap;
} wr_schema_list;

/* Alternatives: any one list. None: nothing is valid. */
typedef struct wr_schema_choice {
    wr_schema_list *at;
    size_t n, cap;
} wr_schema_choice;

enum {
    WR_SCHEMA_NULL = 1,
    WR_SCHEMA_BOOLEAN = 2,
    WR_SCHEMA_NUMBER = 4,
    WR_SCHEMA_STRING = 8,
    WR_SCHEMA_ARRAY = 16,
    WR_SCHEMA_OBJECT = 32,
    WR_SCHEMA_ALL = 63,
};

typedef struct wr_schema_name {
    const char *text;
    size_t bytes;
    uint32_t value;
    bool required;
} wr_schema_name;

/* Names that are not declared: those that the automaton accepts, or all when it is NULL. */
typedef struct wr_schema_others {
    const wr_auto *names;
    uint32_t value;
} wr_schema_others;

typedef struct wr_schema_shape {
    unsigned types;
    const char *pointer;
    json_t **literal; /* [n_literals] with has_literals only these, scalars, are valid; borrowed */
    size_t n_literals, literal_cap;
    bool has_literals;
    wr_number_spec number;
    uint32_t min_length, max_length;
    const wr_expr **pattern; /* [n_patterns] all must match, somewhere */
    size_t n_patterns, pattern_cap;
    uint32_t min_items, max_items;
    uint32_t *prefix; /* [n_prefix] values of the first items */
    size_t n_prefix;
    uint32_t rest; /* value of the other items; WR_GR_NONE: there are none */
    uint32_t min_names, max_names;
    wr_schema_name *name; /* [n_names] declared */
    size_t n_names, name_cap;
    wr_schema_others *others; /* [n_others] */
    size_t n_others, others_cap;
    uint32_t *rule; /* [n_rules] */
    size_t n_rules;
} wr_schema_shape;

typedef enum wr_schema_stage { WR_SCHEMA_NEW, WR_SCHEMA_BEGUN, WR_SCHEMA_DONE } wr_schema_stage;

typedef struct wr_schema_value {
    wr_schema_list list;
    wr_schema_shape **shape; /* [n_shapes] any one */
    size_t n_shapes;
    wr_schema_stage stage;
    uint32_t next; /* of the same hash, + 1 */
} wr_schema_value;

typedef struct wr_schema {
    wr_gr_build *b;
    wr_gr_emit emit;
    const json_t *root;
    json_t *made; /* list of schemas that were put together here */
    weir_schema_options options;
    bool ref_alone;          /* drafts up to 7: nothing beside $ref counts */
    bool integers_are_plain; /* drafts up to 4: 1.0 is no integer */
    wr_schema_value *value;
    size_t n_values, value_cap;
    uint32_t slot[4096];      /* of values, by hash of their lists, + 1 */
    int depth, exclude_depth; /* of references; of values that are compared */
    /* Rules that many values share. */
    uint32_t any_string, any_string_start, any_string_inside, any_number, any_integer;
    wr_sets numbers;       /* by bounds; on the heap */
    uint32_t *number_rule; /* [numbers.n] */
    size_t number_rule_cap;
} wr_schema;

/* All of these: false or WR_GR_NONE after recording why in the build. */
/* The value of a list of schemas that all hold; expanded later, in turn. */
uint32_t wr_schema_value_of(wr_schema *s, wr_schema_list *list);
bool wr_schema_list_add(wr_schema *s, wr_schema_list *list, const json_t *schema, const char *pointer);
/* A place below another, in JSON pointer's notation. */
const char *wr_schema_below(wr_schema *s, const char *pointer, const char *key);
const char *wr_schema_item(wr_schema *s, const char *pointer, size_t index);
/* No references stand where this document's "#" is not theirs; id_at: NULL at the root. */
bool wr_schema_check_ids(wr_schema *s, const json_t *at, const char *pointer, const char *id_at);
/* Find what a $ref means. */
bool wr_schema_resolve(wr_schema *s, const char *ref, const char *pointer, wr_schema_part *out);
bool wr_schema_expand(wr_schema *s, const wr_schema_list *list, wr_schema_choice *out);
/* Merge the keywords of one alternative. *out NULL: nothing is valid. */
bool wr_schema_merge(wr_schema *s, const wr_schema_list *list, wr_schema_shape **out);
/* Equal as JSON Schema means it: 1 is 1.0. */
bool wr_schema_same_value(const json_t *x, const json_t *y);
/* Provably no document fits both. */
bool wr_schema_exclude(wr_schema *s, const wr_schema_shape *x, const wr_schema_shape *y);
/* Fill in the alternatives of a value, if that is not done or being done; it may add values. */
bool wr_schema_expand_value(wr_schema *s, uint32_t value);
/* Strings that the shape allows, as one automaton; NULL when the build failed. */
const wr_auto *wr_schema_string(wr_schema *s, const wr_schema_shape *shape);
/* *yes: this scalar satisfies the shape but for its literals. */
bool wr_schema_allows(wr_schema *s, const wr_schema_shape *shape, const json_t *scalar, bool *yes);
/* Rules for all values; the root calls the value `root`. */
bool wr_schema_emit_all(wr_schema *s, uint32_t root);

/* Record a failure at a keyword: "/properties/a/not: ...". */
#define WR_SCHEMA_FAIL(s, code, pointer, ...)                                                                          \
    ((s)->b->where = *(pointer) ? (pointer) : "the root", WR_GR_FAIL((s)->b, (code), __VA_ARGS__))

#endif
