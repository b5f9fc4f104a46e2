/* json.dumps, and the way from jansson's values to the template's. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "text/jinja/from_json.h"
#include "text/jinja/show.h"
#include "text/jinja/sort.h"
#include "text/unicode.h"

static bool dump(wr_jrun *run, wr_jval v, const wr_jjson *how, int level, wr_jbuf *buf);

static bool dump_text(wr_jrun *run, const wr_jstr *s, const wr_jjson *how, wr_jbuf *buf) {
    static const char shorts[] = "\"\\\n\r\t\b\f", letters[] = "\"\\nrtbf";
    size_t from = 0;
    uint32_t cp;
    char code[16];
    if (!wr_jbuf_lit(run, buf, "\"")) return false;
    for (size_t at = 0, next; at < s->bytes; at = next) {
        next = at + (size_t)wr_utf8_get((const uint8_t *)s->data + at, &cp);
        const char *known = cp && cp < 0x80 ? strchr(shorts, (int)cp) : NULL;
        if (!known && cp >= 0x20 && (cp < 0x7F || !how->ensure_ascii)) continue;
        int n;
        if (known) {
            n = snprintf(code, sizeof code, "\\%c", letters[known - shorts]);
        } else if (cp < 0x10000) {
            n = snprintf(code, sizeof code, "\\u%04x", cp);
        } else {
            uint32_t rest = cp - 0x10000;
            n = snprintf(code, sizeof code, "\\u%04x\\u%04x", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
        }
        if (!wr_jbuf_add(run, buf, s->data + from, at - from) || !wr_jbuf_add(run, buf, code, (size_t)n)) return false;
        from = next;
    }
    return wr_jbuf_add(run, buf, s->data + from, s->bytes - from) && wr_jbuf_lit(run, buf, "\"");
}

static bool dump_scalar(wr_jrun *run, wr_jval v, wr_jbuf *buf) {
    switch (v.type) {
    case WR_J_NONE: return wr_jbuf_lit(run, buf, "null");
    case WR_J_BOOL: return v.b ? wr_jbuf_lit(run, buf, "true") : wr_jbuf_lit(run, buf, "false");
    case WR_J_FLOAT:
        if (isnan(v.f)) return wr_jbuf_lit(run, buf, "NaN");
        if (isinf(v.f)) return v.f < 0 ? wr_jbuf_lit(run, buf, "-Infinity") : wr_jbuf_lit(run, buf, "Infinity");
        return wr_jrepr(run, v, buf);
    default: return wr_jrepr(run, v, buf);
    }
}

static bool line(wr_jrun *run, const wr_jjson *how, int level, wr_jbuf *buf) {
    if (!how->indented) return true;
    return wr_jbuf_lit(run, buf, "\n") &&
           wr_jbuf_fill(run, buf, how->indent.s->data, how->indent.s->bytes, (size_t)level);
}

static bool dump_list(wr_jrun *run, const wr_jlist *list, const wr_jjson *how, int level, wr_jbuf *buf) {
    if (!list->n) return wr_jbuf_lit(run, buf, "[]");
    if (!wr_jbuf_lit(run, buf, "[")) return false;
    for (size_t i = 0; i < list->n; i++) {
        if (i && !wr_jbuf_add(run, buf, how->item.s->data, how->item.s->bytes)) return false;
        if (!line(run, how, level + 1, buf) || !dump(run, list->items[i], how, level + 1, buf)) return false;
    }
    return line(run, how, level, buf) && wr_jbuf_lit(run, buf, "]");
}

static bool dump_key(wr_jrun *run, wr_jval key, const wr_jjson *how, wr_jbuf *buf) {
    if (key.type == WR_J_STR) return dump_text(run, key.s, how, buf);
    if (!wr_jis_number(key) && key.type != WR_J_NONE)
        return WR_JERROR(run, "keys must be str, int, float, bool or None, not %s", wr_jtype_name(key));
    return wr_jbuf_lit(run, buf, "\"") && dump_scalar(run, key, buf) && wr_jbuf_lit(run, buf, "\"");
}

static bool dump_dict(wr_jrun *run, const wr_jdict *dict, const wr_jjson *how, int level, wr_jbuf *buf) {
    const wr_jentry *entries = dict->entries;
    if (!dict->n) return wr_jbuf_lit(run, buf, "{}");
    if (how->sort_keys && !wr_jsort_entries(run, dict, &entries)) return false;
    if (!wr_jbuf_lit(run, buf, "{")) return false;
    for (size_t i = 0; i < dict->n; i++) {
        if (i && !wr_jbuf_add(run, buf, how->item.s->data, how->item.s->bytes)) return false;
        if (!line(run, how, level + 1, buf) || !dump_key(run, entries[i].key, how, buf) ||
            !wr_jbuf_add(run, buf, how->colon.s->data, how->colon.s->bytes) ||
            !dump(run, entries[i].value, how, level + 1, buf))
            return false;
    }
    return line(run, how, level, buf) && wr_jbuf_lit(run, buf, "}");
}

static bool dump(wr_jrun *run, wr_jval v, const wr_jjson *how, int level, wr_jbuf *buf) {
    bool done;
    switch (v.type) {
    case WR_J_STR: return dump_text(run, v.s, how, buf);
    case WR_J_NONE:
    case WR_J_BOOL:
    case WR_J_INT:
    case WR_J_FLOAT: return dump_scalar(run, v, buf);
    case WR_J_LIST:
    case WR_J_TUPLE:
    case WR_J_DICT:
        if (!wr_jenter(run)) return false;
        done = v.type == WR_J_DICT ? dump_dict(run, v.dict, how, level, buf) : dump_list(run, v.list, how, level, buf);
        wr_jleave(run);
        return done;
    default: return WR_JERROR(run, "Object of type %s is not JSON serializable", wr_jtype_name(v));
    }
}

bool wr_jjson_dump(wr_jrun *run, wr_jval v, const wr_jjson *how, wr_jbuf *buf) { return dump(run, v, how, 0, buf); }

/* ---- from jansson ---- */

static bool from_list(wr_jrun *run, const json_t *json, wr_jval *out) {
    size_t n = json_array_size(json);
    if (!wr_jlist_new(run, WR_J_LIST, n, out)) return false;
    for (size_t i = 0; i < n; i++)
        if (!wr_jfrom_json(run, json_array_get(json, i), &out->list->items[i])) return false;
    return true;
}

static bool from_object(wr_jrun *run, const json_t *json, wr_jval *out) {
    if (!wr_jdict_new(run, out)) return false;
    for (void *it = json_object_iter((json_t *)json); it; it = json_object_iter_next((json_t *)json, it)) {
        const char *name = json_object_iter_key(it);
        wr_jval key, value;
        if (!wr_jstr_dup(run, name, json_object_iter_key_len(it), &key) ||
            !wr_jfrom_json(run, json_object_iter_value(it), &value) || !wr_jdict_set(run, out->dict, key, value))
            return false;
    }
    return true;
}

bool wr_jfrom_json(wr_jrun *run, const json_t *json, wr_jval *out) {
    bool done;
    switch (json_typeof(json)) {
    case JSON_STRING: return wr_jstr_dup(run, json_string_value(json), json_string_length(json), out);
    case JSON_INTEGER: *out = wr_jint(json_integer_value(json)); return true;
    case JSON_REAL: *out = wr_jfloat(json_real_value(json)); return true;
    case JSON_TRUE:
    case JSON_FALSE: *out = wr_jbool(json_is_true(json)); return true;
    case JSON_NULL: *out = wr_jnone(); return true;
    default:
        if (!wr_jenter(run)) return false;
        done = json_is_array(json) ? from_list(run, json, out) : from_object(run, json, out);
        wr_jleave(run);
        return done;
    }
}
