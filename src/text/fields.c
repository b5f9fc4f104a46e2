/* The checks that every object of a tokenizer file goes through. */
#include "text/fields.h"

#include <string.h>

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

weir_status wr_field_only(const json_t *obj, const char *where, const char *known, weir_error *err) {
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

weir_status wr_field_bool(const json_t *obj, const char *where, const char *key, bool *out, weir_error *err) {
    const json_t *value = json_object_get(obj, key);
    if (!value || json_is_null(value)) return WEIR_OK;
    if (!json_is_boolean(value)) return wrong_type(value, where, key, "true or false", err);
    *out = json_is_true(value);
    return WEIR_OK;
}

weir_status wr_field_int(const json_t *obj, const char *where, const char *key, int64_t *out, weir_error *err) {
    const json_t *value = json_object_get(obj, key);
    if (!value || json_is_null(value)) return WEIR_OK;
    if (!json_is_integer(value)) return wrong_type(value, where, key, "an integer", err);
    *out = json_integer_value(value);
    return WEIR_OK;
}

weir_status wr_field_string(const json_t *obj, const char *where, const char *key, const char **text, size_t *bytes,
                            weir_error *err) {
    const json_t *value = json_object_get(obj, key);
    if (!value || json_is_null(value)) return WEIR_OK;
    if (!json_is_string(value)) return wrong_type(value, where, key, "a string", err);
    *text = json_string_value(value);
    *bytes = json_string_length(value);
    return WEIR_OK;
}

weir_status wr_field_need(const json_t *obj, const char *where, const char *key, json_type type, json_t **out,
                          weir_error *err) {
    json_t *value = json_object_get(obj, key);
    if (!value) return WR_FAIL(err, WEIR_E_FORMAT, "%s.%s is missing", where, key);
    if (json_typeof(value) != type) return wrong_type(value, where, key, type_name(type), err);
    *out = value;
    return WEIR_OK;
}
