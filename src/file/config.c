/* Owns the JSON tree of one configuration. */
#include "file/config.h"

#include <string.h>

#include "base/mem.h"
#include "file/json.h"

enum { MAX_CONFIG_BYTES = 16 << 20 };

struct wr_config {
    char *name; /* for messages */
    json_t *root;
    const json_t *text; /* root's text_config, or NULL */
};

/* ---- making ---- */

weir_status wr_config_make(json_t *root, const char *name, wr_config **out, weir_error *err) {
    *out = NULL;
    if (!json_is_object(root)) {
        json_decref(root);
        return WR_FAIL(err, WEIR_E_FORMAT, "%s is not a JSON object", name);
    }
    const json_t *text = json_object_get(root, "text_config");
    if (json_is_null(text)) text = NULL;
    if (text && !json_is_object(text)) {
        json_decref(root);
        return WR_FAIL(err, WEIR_E_FORMAT, "%s: text_config is not an object", name);
    }
    wr_config *config = wr_calloc(1, sizeof *config);
    char *own_name = wr_strdup(name);
    if (!config || !own_name) {
        wr_free(config);
        wr_free(own_name);
        json_decref(root);
        return WR_FAIL(err, WEIR_E_MEMORY, "%s: out of memory", name);
    }
    *config = (wr_config){own_name, root, text};
    *out = config;
    return WEIR_OK;
}

weir_status wr_config_parse(const char *text, size_t bytes, const char *name, wr_config **out, weir_error *err) {
    json_t *root;
    *out = NULL;
    if (bytes > MAX_CONFIG_BYTES)
        return WR_FAIL(err, WEIR_E_LIMIT, "%s has %zu bytes; at most %d are allowed here", name, bytes,
                       MAX_CONFIG_BYTES);
    WR_TRY(wr_json_parse(text, bytes, name, &root, err));
    return wr_config_make(root, name, out, err);
}

weir_status wr_config_read(const char *path, wr_config **out, weir_error *err) {
    json_t *root;
    *out = NULL;
    WR_TRY(wr_json_read(path, MAX_CONFIG_BYTES, &root, err));
    return wr_config_make(root, path, out, err);
}

void wr_config_free(wr_config *config) {
    if (!config) return;
    json_decref(config->root);
    wr_free(config->name);
    wr_free(config);
}

/* ---- finding ---- */

static const json_t *present(const json_t *object, const char *key, size_t bytes) {
    const json_t *value = json_object_getn(object, key, bytes);
    return json_is_null(value) ? NULL : value;
}

const json_t *wr_config_find(const wr_config *config, const char *key) {
    if (!config) return NULL;
    size_t n = strcspn(key, ".");
    const json_t *value = config->text ? present(config->text, key, n) : NULL;
    if (!value) value = present(config->root, key, n);
    while (value && key[n] == '.') {
        key += n + 1;
        n = strcspn(key, ".");
        value = present(value, key, n); /* NULL when value is no object */
    }
    return value;
}

bool wr_config_has(const wr_config *config, const char *key) { return wr_config_find(config, key) != NULL; }

/* ---- reading ---- */

static weir_status fail_absent(const wr_config *c, const char *key, weir_error *err) {
    return WR_FAIL(err, WEIR_E_FORMAT, "%s has no '%s', which the model needs", c->name, key);
}

/* where: "" or "[3]". */
static weir_status as_int(const wr_config *c, const char *key, const char *where, const json_t *value, int64_t low,
                          int64_t high, int64_t *out, weir_error *err) {
    /* Some tools write whole numbers as 4096.0; 2^53 keeps the conversion exact. */
    double real = json_is_real(value) ? json_real_value(value) : 0;
    bool whole = json_is_real(value) && real >= -0x1p53 && real <= 0x1p53 && (double)(int64_t)real == real;
    if (json_is_integer(value) || whole) {
        int64_t number = whole ? (int64_t)real : (int64_t)json_integer_value(value);
        if (number >= low && number <= high) {
            *out = number;
            return WEIR_OK;
        }
    }
    char shown[64];
    wr_json_show(value, shown, sizeof shown);
    return WR_FAIL(err, WEIR_E_FORMAT, "%s: %s%s is %s; it must be an integer from %lld to %lld", c->name, key, where,
                   shown, (long long)low, (long long)high);
}

static weir_status as_float(const wr_config *c, const char *key, const char *where, const json_t *value, double low,
                            double high, double *out, weir_error *err) {
    if (json_is_number(value)) {
        double number = json_number_value(value);
        if (number >= low && number <= high) {
            *out = number;
            return WEIR_OK;
        }
    }
    char shown[64];
    wr_json_show(value, shown, sizeof shown);
    return WR_FAIL(err, WEIR_E_FORMAT, "%s: %s%s is %s; it must be a number from %g to %g", c->name, key, where, shown,
                   low, high);
}

static weir_status as_string(const wr_config *c, const char *key, const char *where, const json_t *value,
                             const char **out, weir_error *err) {
    if (json_is_string(value)) {
        *out = json_string_value(value);
        return WEIR_OK;
    }
    char shown[64];
    wr_json_show(value, shown, sizeof shown);
    return WR_FAIL(err, WEIR_E_FORMAT, "%s: %s%s is %s; it must be a string", c->name, key, where, shown);
}

weir_status wr_config_int(const wr_config *c, const char *key, int64_t low, int64_t high, int64_t *out,
                          weir_error *err) {
    const json_t *value = wr_config_find(c, key);
    if (!value) return fail_absent(c, key, err);
    return as_int(c, key, "", value, low, high, out, err);
}

weir_status wr_config_int_or(const wr_config *c, const char *key, int64_t low, int64_t high, int64_t fallback,
                             int64_t *out, weir_error *err) {
    const json_t *value = wr_config_find(c, key);
    *out = fallback;
    return value ? as_int(c, key, "", value, low, high, out, err) : WEIR_OK;
}

weir_status wr_config_float_or(const wr_config *c, const char *key, double low, double high, double fallback,
                               double *out, weir_error *err) {
    const json_t *value = wr_config_find(c, key);
    *out = fallback;
    return value ? as_float(c, key, "", value, low, high, out, err) : WEIR_OK;
}

weir_status wr_config_bool_or(const wr_config *c, const char *key, bool fallback, bool *out, weir_error *err) {
    const json_t *value = wr_config_find(c, key);
    *out = fallback;
    if (!value) return WEIR_OK;
    if (!json_is_boolean(value)) {
        char shown[64];
        wr_json_show(value, shown, sizeof shown);
        return WR_FAIL(err, WEIR_E_FORMAT, "%s: %s is %s; it must be true or false", c->name, key, shown);
    }
    *out = json_is_true(value);
    return WEIR_OK;
}

weir_status wr_config_string_or(const wr_config *c, const char *key, const char *fallback, const char **out,
                                weir_error *err) {
    const json_t *value = wr_config_find(c, key);
    *out = fallback;
    return value ? as_string(c, key, "", value, out, err) : WEIR_OK;
}

/* ---- lists ---- */

weir_status wr_config_count(const wr_config *c, const char *key, int64_t *n, weir_error *err) {
    const json_t *value = wr_config_find(c, key);
    *n = 0;
    if (!value) return WEIR_OK;
    if (json_is_object(value)) return WR_FAIL(err, WEIR_E_FORMAT, "%s: %s is an object, not a list", c->name, key);
    *n = json_is_array(value) ? (int64_t)json_array_size(value) : 1;
    return WEIR_OK;
}

static weir_status element(const wr_config *c, const char *key, int64_t index, char where[32], const json_t **out,
                           weir_error *err) {
    int64_t n;
    WR_TRY(wr_config_count(c, key, &n, err));
    if (n == 0) return fail_absent(c, key, err);
    if (index < 0 || index >= n)
        return WR_FAIL(err, WEIR_E_FORMAT, "%s: %s has %lld elements; number %lld is needed", c->name, key,
                       (long long)n, (long long)index);
    const json_t *value = wr_config_find(c, key);
    *out = json_is_array(value) ? json_array_get(value, (size_t)index) : value;
    snprintf(where, 32, "[%lld]", (long long)index);
    return WEIR_OK;
}

weir_status wr_config_int_at(const wr_config *c, const char *key, int64_t index, int64_t low, int64_t high,
                             int64_t *out, weir_error *err) {
    char where[32];
    const json_t *value;
    WR_TRY(element(c, key, index, where, &value, err));
    return as_int(c, key, where, value, low, high, out, err);
}

weir_status wr_config_float_at(const wr_config *c, const char *key, int64_t index, double low, double high, double *out,
                               weir_error *err) {
    char where[32];
    const json_t *value;
    WR_TRY(element(c, key, index, where, &value, err));
    return as_float(c, key, where, value, low, high, out, err);
}

weir_status wr_config_string_at(const wr_config *c, const char *key, int64_t index, const char **out, weir_error *err) {
    char where[32];
    const json_t *value;
    WR_TRY(element(c, key, index, where, &value, err));
    return as_string(c, key, where, value, out, err);
}
