/* Fields that several parts of a tokenizer file have. */
#include "base/mem.h"
#include "text/fields.h"
#include "text/open_json.h"
#include "text/unicode.h"

const char wr_tok_metaspace_keys[] = "type replacement add_prefix_space prepend_scheme split str_rep";

weir_status wr_tok_unsupported(const char *where, const char *type, weir_error *err) {
    char shown[72];
    return WR_FAIL(err, WEIR_E_UNSUPPORTED, "%s of type \"%s\" is not supported", where,
                   wr_vocab_show(type, strlen(type), shown));
}

weir_status wr_tok_get_type(const json_t *obj, const char *where, const char **type, weir_error *err) {
    size_t bytes;
    *type = NULL;
    if (!json_is_object(obj)) return WR_FAIL(err, WEIR_E_FORMAT, "%s is not an object", where);
    WR_TRY(wr_field_string(obj, where, "type", type, &bytes, err));
    if (!*type) return WR_FAIL(err, WEIR_E_FORMAT, "%s.type is missing", where);
    return WEIR_OK;
}

weir_status wr_tok_get_sequence(const json_t *obj, const char *where, const char *key, int depth, json_t **list,
                                weir_error *err) {
    char keys[64];
    snprintf(keys, sizeof keys, "type %s", key);
    WR_TRY(wr_field_only(obj, where, keys, err));
    WR_TRY(wr_field_need(obj, where, key, JSON_ARRAY, list, err));
    if (depth < WR_TOK_NEST_MAX) return WEIR_OK;
    return WR_FAIL(err, WEIR_E_LIMIT, "%s: more than %d levels", where, WR_TOK_NEST_MAX);
}

weir_status wr_tok_keep(const char *text, size_t bytes, char **out, size_t *out_bytes, weir_error *err) {
    wr_free(*out);
    *out = wr_malloc(bytes + 1);
    if (!*out) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a tokenizer");
    memcpy(*out, text, bytes);
    (*out)[bytes] = 0;
    *out_bytes = bytes;
    return WEIR_OK;
}

weir_status wr_tok_keep_field(const json_t *obj, const char *where, const char *key, char **out, size_t *out_bytes,
                              weir_error *err) {
    const char *text = NULL;
    size_t bytes = 0;
    WR_TRY(wr_field_string(obj, where, key, &text, &bytes, err));
    if (!text) return WR_FAIL(err, WEIR_E_FORMAT, "%s.%s is missing", where, key);
    return wr_tok_keep(text, bytes, out, out_bytes, err);
}

weir_status wr_tok_get_pattern(const json_t *obj, const char *where, char **find, size_t *find_bytes, wr_regex **regex,
                               weir_error *err) {
    json_t *pattern;
    const char *text = NULL;
    size_t bytes = 0;
    WR_TRY(wr_field_need(obj, where, "pattern", JSON_OBJECT, &pattern, err));
    WR_TRY(wr_field_only(pattern, where, "String Regex", err));
    WR_TRY(wr_field_string(pattern, where, "Regex", &text, &bytes, err));
    if (text) return wr_regex_open(text, bytes, regex, err);
    WR_TRY(wr_field_string(pattern, where, "String", &text, &bytes, err));
    if (!text) return WR_FAIL(err, WEIR_E_FORMAT, "%s.pattern has neither String nor Regex", where);
    return wr_tok_keep(text, bytes, find, find_bytes, err);
}

weir_status wr_tok_get_front(const json_t *obj, const char *where, wr_cut_front *front, weir_error *err) {
    const char *scheme = NULL;
    size_t bytes;
    bool add = true;
    WR_TRY(wr_field_bool(obj, where, "add_prefix_space", &add, err));
    *front = add ? WR_FRONT_ALWAYS : WR_FRONT_NEVER;
    WR_TRY(wr_field_string(obj, where, "prepend_scheme", &scheme, &bytes, err));
    if (!scheme) return WEIR_OK;
    if (wr_tok_is(scheme, "always")) {
        *front = WR_FRONT_ALWAYS;
    } else if (wr_tok_is(scheme, "first")) {
        *front = WR_FRONT_FIRST;
    } else if (wr_tok_is(scheme, "never")) {
        *front = WR_FRONT_NEVER;
    } else {
        return WR_FAIL(err, WEIR_E_FORMAT, "%s.prepend_scheme must be always, first or never", where);
    }
    return WEIR_OK;
}

weir_status wr_tok_get_replacement(const json_t *obj, const char *where, const char **text, size_t *bytes,
                                   weir_error *err) {
    uint32_t cp;
    *text = WR_METASPACE;
    *bytes = WR_METASPACE_BYTES;
    WR_TRY(wr_field_string(obj, where, "replacement", text, bytes, err));
    if (*bytes == 0 || wr_utf8_get((const uint8_t *)*text, &cp) != (int)*bytes) {
        return WR_FAIL(err, WEIR_E_FORMAT, "%s.replacement must be one character", where);
    }
    return WEIR_OK;
}
