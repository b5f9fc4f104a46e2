/* Thin layer over jansson. */
#include "text/json.h"

#include <string.h>

#include "base/mem.h"
#include "text/vocab.h"

static const char *type_name(json_type type) {
    switch (type) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "a list";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL: return "a number";
    case JSON_TRUE:
    case JSON_FALSE: return "true or false";
    default: return "null";
    }
}

weir_status wr_json_parse(const char *text, size_t bytes, const char *name, json_t **out, weir_error *err) {
    json_error_t fault;
    json_set_alloc_funcs(wr_malloc, wr_free);
    *out = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &fault);
    if (*out) return WEIR_OK;
    if (json_error_code(&fault) == json_error_out_of_memory) {
        return WR_FAIL(err, WEIR_E_MEMORY, "%s: no memory to read %zu bytes of JSON", name, bytes);
    }
    char shown[72];
    return WR_FAIL(err, WEIR_E_FORMAT, "%s: not valid JSON at line %d, column %d: %s", name, fault.line, fault.column,
                   wr_vocab_show(fault.text, strlen(fault.text), shown));
}

weir_status wr_json_only(const json_t *obj, const char *where, const char *known, weir_error *err) {
    if (!json_is_object(obj)) {
        return WR_FAIL(err, WEIR_E_FORMAT, "%s is %s, it must be an object", where,
                       obj ? type_name(json_typeof(obj)) : "missing");
    }
    for (void *it = json_object_iter((json_t *)obj); it; it = json_object_iter_next((json_t *)obj, it)) {
        const char *key = json_object_iter_key(it), *p = known;
        size_t n = strlen(key);
        while ((p = strstr(p, key)) && n) {
            if ((p == known || p[-1] == ' ') && (p[n] == 0 || p[n] == ' ')) break;
            p++;
        }
        if (!p || !n || strchr(key, ' ')) {
            char shown[72];
            return WR_FAIL(err, WEIR_E_UNSUPPORTED, "%s has the key \"%s\", which is not supported", where,
                           wr_vocab_show(key, n, shown));
        }
    }
    return WEIR_OK;
}

static weir_status wrong_type(const json_t *value, const char *where, const char *key, const char *wanted,
                              weir_error *err) {
    return WR_FAIL(err, WEIR_E_FORMAT, "%s.%s is %s, it must be %s", where, key, type_name(json_typeof(value)), wanted);
}

weir_status wr_json_bool(const json_t *obj, const char *where, const char *key, bool *out, weir_error *err) {
    const json_t *value = json_object_get(obj, key);
    if (!value || json_is_null(value)) return WEIR_OK;
    if (!json_is_boolean(value)) return wrong_type(value, where, key, "true or false", err);
    *out = json_is_true(value);
    return WEIR_OK;
}

weir_status wr_json_int(const json_t *obj, const char *where, const char *key, int64_t *out, weir_error *err) {
    const json_t *value = json_object_get(obj, key);
    if (!value || json_is_null(value)) return WEIR_OK;
    if (!json_is_integer(value)) return wrong_type(value, where, key, "an integer", err);
    *out = json_integer_value(value);
    return WEIR_OK;
}

weir_status wr_json_string(const json_t *obj, const char *where, const char *key, const char **text, size_t *bytes,
                           weir_error *err) {
    const json_t *value = json_object_get(obj, key);
    if (!value || json_is_null(value)) return WEIR_OK;
    if (!json_is_string(value)) return wrong_type(value, where, key, "a string", err);
    *text = json_string_value(value);
    *bytes = json_string_length(value);
    return WEIR_OK;
}

weir_status wr_json_need(const json_t *obj, const char *where, const char *key, json_type type, json_t **out,
                         weir_error *err) {
    json_t *value = json_object_get(obj, key);
    if (!value) return WR_FAIL(err, WEIR_E_FORMAT, "%s.%s is missing", where, key);
    if (json_typeof(value) != type) return wrong_type(value, where, key, type_name(type), err);
    *out = value;
    return WEIR_OK;
}
