/* Reads JSON Schema only as far as "string or something else" needs it; what it does not know allows every type. */
#include "text/parse/schema.h"

#include <string.h>

#include "file/json.h"
#include "text/parse/convert.h"
#include "text/parse/json_scan.h"

enum { NESTING = 16 }; /* of anyOf, $ref and the like */

/* {"type": "function", "function": F} or F itself. */
static const json_t *function_of(const json_t *tool) {
    const json_t *function = json_object_get(tool, "function");
    return json_is_object(function) ? function : tool;
}

weir_status wr_tools_new(const char *json, json_t **out, weir_error *err) {
    json_t *tools;
    *out = NULL;
    WR_TRY(wr_json_parse(json, strlen(json), "the list of tools", &tools, err));
    weir_status st = WEIR_OK;
    if (!json_is_array(tools)) st = WR_FAIL(err, WEIR_E_FORMAT, "the list of tools is no JSON array");
    for (size_t i = 0; st == WEIR_OK && i < json_array_size(tools); i++) {
        if (!json_is_string(json_object_get(function_of(json_array_get(tools, i)), "name"))) {
            st = WR_FAIL(err, WEIR_E_FORMAT, "tool %zu of the list has no name", i);
        }
    }
    if (st != WEIR_OK) {
        json_decref(tools);
        return st;
    }
    *out = tools;
    return WEIR_OK;
}

const json_t *wr_tools_find(const json_t *tools, const char *name, size_t bytes) {
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const json_t *function = function_of(json_array_get(tools, i)), *its = json_object_get(function, "name");
        if (json_string_length(its) == bytes && memcmp(json_string_value(its), name, bytes) == 0) return function;
    }
    return NULL;
}

static unsigned type_named(const char *name) {
    static const char *const names[] = {"string", "integer", "number", "boolean", "null", "array", "object"};
    static const unsigned bits[] = {WR_TYPE_STRING,  WR_TYPE_INTEGER, WR_TYPE_NUMBER | WR_TYPE_INTEGER,
                                    WR_TYPE_BOOLEAN, WR_TYPE_NULL,    WR_TYPE_ARRAY,
                                    WR_TYPE_OBJECT};
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0) return bits[i];
    }
    return 0;
}

static unsigned type_of(const json_t *value) {
    switch (json_typeof(value)) {
    case JSON_STRING: return WR_TYPE_STRING;
    case JSON_INTEGER: return WR_TYPE_INTEGER;
    case JSON_REAL: return WR_TYPE_NUMBER;
    case JSON_TRUE:
    case JSON_FALSE: return WR_TYPE_BOOLEAN;
    case JSON_NULL: return WR_TYPE_NULL;
    case JSON_ARRAY: return WR_TYPE_ARRAY;
    default: return WR_TYPE_OBJECT;
    }
}

/* "#/$defs/Name" within root. */
static const json_t *resolve(const json_t *root, const char *ref) {
    const json_t *at = root;
    if (!ref || ref[0] != '#') return NULL;
    for (ref++; at && *ref == '/';) {
        size_t n = strcspn(++ref, "/");
        at = json_object_getn(at, ref, n);
        ref += n;
    }
    return at;
}

static unsigned types_of(const json_t *root, const json_t *schema, int depth) {
    static const char *const any[] = {"anyOf", "oneOf"};
    unsigned types = 0;
    if (!json_is_object(schema) || depth == NESTING) return 0;
    const json_t *type = json_object_get(schema, "type"), *values = json_object_get(schema, "enum");
    if (json_is_string(type)) return type_named(json_string_value(type));
    for (size_t i = 0; i < json_array_size(type); i++) types |= type_named(json_string_value(json_array_get(type, i)));
    if (types) return types;
    for (size_t i = 0; i < json_array_size(values); i++) types |= type_of(json_array_get(values, i));
    if (types) return types;
    const json_t *constant = json_object_get(schema, "const");
    if (constant) return type_of(constant);
    const json_t *target = resolve(root, json_string_value(json_object_get(schema, "$ref")));
    if (target) return types_of(root, target, depth + 1);
    for (size_t k = 0; k < 2; k++) {
        const json_t *list = json_object_get(schema, any[k]);
        for (size_t i = 0; i < json_array_size(list); i++) {
            unsigned one = types_of(root, json_array_get(list, i), depth + 1);
            if (!one) return 0;
            types |= one;
        }
    }
    const json_t *all = json_object_get(schema, "allOf");
    for (size_t i = 0; i < json_array_size(all); i++) {
        unsigned one = types_of(root, json_array_get(all, i), depth + 1);
        if (one) types = types ? types & one : one;
    }
    return types;
}

unsigned wr_tool_types(const json_t *tool, const char *key, size_t key_bytes) {
    const json_t *schema = json_object_get(tool, "parameters");
    if (!schema) schema = json_object_get(tool, "input_schema");
    return types_of(schema, json_object_getn(json_object_get(schema, "properties"), key, key_bytes), 0);
}

static unsigned type_by_first(char first) {
    switch (first) {
    case '"': return WR_TYPE_STRING;
    case '{': return WR_TYPE_OBJECT;
    case '[': return WR_TYPE_ARRAY;
    case 't':
    case 'f': return WR_TYPE_BOOLEAN;
    case 'n': return WR_TYPE_NULL;
    default: return WR_TYPE_NUMBER | WR_TYPE_INTEGER;
    }
}

void wr_typed_value(const char *text, size_t n, unsigned types, wr_bytes *out) {
    if (n == 0) text = ""; /* it may be NULL */
    char first = 0;
    const unsigned not_string = types ? types & ~(unsigned)WR_TYPE_STRING : ~(unsigned)WR_TYPE_STRING;
    bool json = wr_json_is_valid(text, n, &first) && first != '"';
    size_t begin = 0, end = n;
    while (begin < end && wr_json_space((uint8_t)text[begin])) begin++;
    while (end > begin && wr_json_space((uint8_t)text[end - 1])) end--;
    if (json && (type_by_first(first) & not_string)) {
        wr_bytes_add(out, text + begin, end - begin);
        return;
    }
    if (types && !(types & WR_TYPE_STRING)) {
        /* It must not be a string: JSON of a wrong type rather than that; True and {'a': 1} are meant as JSON. */
        wr_bytes literal = {0};
        bool python = !json && wr_convert_python_value(text, n, &literal) == WR_CONVERTED && literal.data[0] != '"';
        if (json || python) wr_bytes_add(out, json ? text + begin : literal.data, json ? end - begin : literal.n);
        if (literal.failed) out->failed = true;
        wr_bytes_deinit(&literal);
        if (json || python) return;
    }
    wr_bytes_byte(out, '"');
    wr_bytes_escaped(out, text, n);
    wr_bytes_byte(out, '"');
}
