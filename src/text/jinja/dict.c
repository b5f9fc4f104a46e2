/* Dictionaries, in order of insertion, with an index once they are larger than a few
 * entries; and the hash, by which 1, 1.0 and true are one key. */
#include <math.h>
#include <string.h>

#include "text/jinja/value.h"

enum { SMALL = 8 };

static uint64_t mix(uint64_t h) {
    h ^= h >> 32;
    h *= 0x9E3779B97F4A7C15u;
    h ^= h >> 29;
    return h ? h : 1;
}

static uint64_t hash_text(const char *data, size_t bytes) {
    uint64_t h = 0xCBF29CE484222325u; /* FNV-1a */
    for (size_t i = 0; i < bytes; i++) h = (h ^ (uint8_t)data[i]) * 0x100000001B3u;
    return mix(h);
}

uint64_t wr_jstr_hash(wr_jstr *s) { return s->hash ? s->hash : (s->hash = hash_text(s->data, s->bytes)); }

bool wr_jhash(wr_jrun *run, wr_jval v, uint64_t *out) {
    switch (v.type) {
    case WR_J_STR: *out = wr_jstr_hash(v.s); return wr_jcharge(run, v.s->bytes);
    case WR_J_BOOL:
    case WR_J_INT: *out = mix((uint64_t)wr_jint_of(v) + 1); return true;
    case WR_J_FLOAT:
        if (v.f >= -0x1p63 && v.f < 0x1p63 && v.f == floor(v.f)) {
            *out = mix((uint64_t)(int64_t)v.f + 1);
        } else {
            memcpy(out, &v.f, sizeof *out);
            *out = mix(*out);
        }
        return true;
    case WR_J_TUPLE: {
        if (!wr_jenter(run)) return false;
        uint64_t all = v.list->n, one = 0;
        for (size_t i = 0; i < v.list->n; i++) {
            if (!wr_jhash(run, v.list->items[i], &one)) return false;
            all = mix(all ^ one);
        }
        wr_jleave(run);
        *out = all;
        return wr_jcharge(run, 0);
    }
    case WR_J_RANGE: *out = mix((uint64_t)v.range->n); return true;
    case WR_J_LIST:
    case WR_J_DICT:
    case WR_J_VIEW: return WR_JERROR(run, "unhashable type: '%s'", wr_jtype_name(v));
    case WR_J_MISSING:
    case WR_J_UNDEFINED:
    case WR_J_NONE: *out = mix((uint64_t)v.type); return true;
    default: *out = mix((uint64_t)(uintptr_t)v.list); return true;
    }
}

bool wr_jdict_new(wr_jrun *run, wr_jval *out) {
    wr_jdict *dict = wr_jalloc(run, sizeof *dict);
    if (!dict) return false;
    *out = (wr_jval){.type = WR_J_DICT, .dict = dict};
    return true;
}

bool wr_jview_new(wr_jrun *run, wr_jdict *dict, wr_jview_kind kind, wr_jval *out) {
    wr_jview *view = wr_jalloc(run, sizeof *view);
    if (!view) return false;
    *view = (wr_jview){.dict = dict, .kind = kind};
    *out = (wr_jval){.type = WR_J_VIEW, .view = view};
    return true;
}

static void index_entry(wr_jdict *dict, size_t i) {
    size_t at = dict->entries[i].hash & (dict->index_size - 1);
    while (dict->index[at]) at = (at + 1) & (dict->index_size - 1);
    dict->index[at] = (uint32_t)i + 1;
}

static bool grow(wr_jrun *run, wr_jdict *dict) {
    size_t cap = dict->cap ? 2 * dict->cap : 4;
    if (cap > UINT32_MAX / 4)
        return wr_jfail(run, WEIR_E_LIMIT, "the memory limit is reached: a dictionary is too large");
    wr_jentry *entries = wr_jalloc_n(run, cap, sizeof *entries);
    if (!entries) return false;
    if (dict->n) memcpy(entries, dict->entries, dict->n * sizeof *entries);
    if (cap > SMALL) {
        uint32_t *index = wr_jalloc_n(run, 2 * cap, sizeof *index);
        if (!index) return false;
        dict->index = index;
        dict->index_size = 2 * cap;
    }
    dict->entries = entries;
    dict->cap = cap;
    for (size_t i = 0; dict->index && i < dict->n; i++) index_entry(dict, i);
    return true;
}

/* Equal keys; those of text, nearly all, without the general comparison. */
static bool same_key(wr_jrun *run, const wr_jentry *e, uint64_t hash, wr_jval key, bool *same) {
    *same = false;
    if (e->hash != hash) return true;
    if (e->key.type == WR_J_STR && key.type == WR_J_STR) {
        *same = wr_jstr_same(e->key.s, key.s);
        return true;
    }
    if (wr_jsame(e->key, key)) {
        *same = true;
        return true;
    }
    return wr_jequal(run, e->key, key, same);
}

static bool find_hashed(wr_jrun *run, const wr_jdict *dict, uint64_t hash, wr_jval key, wr_jentry **found) {
    bool same = false;
    *found = NULL;
    if (!dict->index) {
        for (size_t i = 0; i < dict->n; i++) {
            if (!same_key(run, &dict->entries[i], hash, key, &same)) return false;
            if (!same) continue;
            *found = &dict->entries[i];
            return true;
        }
        return true;
    }
    size_t mask = dict->index_size - 1;
    for (size_t at = hash & mask; dict->index[at]; at = (at + 1) & mask) {
        wr_jentry *e = &dict->entries[dict->index[at] - 1];
        if (!wr_jcharge(run, 0) || !same_key(run, e, hash, key, &same)) return false;
        if (!same) continue;
        *found = e;
        return true;
    }
    return true;
}

bool wr_jdict_find(wr_jrun *run, const wr_jdict *dict, wr_jval key, wr_jentry **found) {
    uint64_t hash = 0;
    return wr_jhash(run, key, &hash) && find_hashed(run, dict, hash, key, found);
}

wr_jentry *wr_jdict_get(const wr_jdict *dict, const char *key, size_t bytes) {
    uint64_t hash = dict->index ? hash_text(key, bytes) : 0;
    size_t mask = dict->index_size - 1, at = hash & mask;
    for (size_t i = 0; dict->index ? dict->index[at] != 0 : i < dict->n; i++, at = (at + 1) & mask) {
        wr_jentry *e = &dict->entries[dict->index ? dict->index[at] - 1 : i];
        if (e->key.type == WR_J_STR && e->key.s->bytes == bytes && memcmp(e->key.s->data, key, bytes) == 0) return e;
    }
    return NULL;
}

bool wr_jdict_set(wr_jrun *run, wr_jdict *dict, wr_jval key, wr_jval value) {
    uint64_t hash = 0;
    wr_jentry *found;
    if (!wr_jhash(run, key, &hash) || !find_hashed(run, dict, hash, key, &found)) return false;
    if (found) {
        found->value = value;
        return true;
    }
    if (dict->n == dict->cap && !grow(run, dict)) return false;
    dict->entries[dict->n] = (wr_jentry){.key = key, .value = value, .hash = hash};
    if (dict->index) index_entry(dict, dict->n);
    dict->n++;
    return true;
}
