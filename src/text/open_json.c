/* Tokenizers from tokenizer.json (the format of Hugging Face's `tokenizers`
 * library) and tokenizer_config.json. Every key of the parts that are used is
 * either understood or refused by name. `truncation` and `padding` are for batches
 * and do not change what a text's tokens are; they are left to the caller, as
 * transformers does. */
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "file/json.h"
#include "text/fields.h"
#include "text/open_json.h"
#include "text/tok.h"
#include "text/unicode.h"

enum { JSON_BYTES_MAX = 1 << 28, CONFIG_BYTES_MAX = 1 << 24, STEPS_MAX = 64, NEST_MAX = 8, DECODE_TEXT_MAX = 256 };

static weir_status no_memory(weir_error *err) { return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a tokenizer"); }

static weir_status unsupported(const char *where, const char *type, weir_error *err) {
    char shown[72];
    return WR_FAIL(err, WEIR_E_UNSUPPORTED, "%s of type \"%s\" is not supported", where,
                   wr_vocab_show(type, strlen(type), shown));
}

/* obj.type, which must be there. */
static weir_status get_type(const json_t *obj, const char *where, const char **type, weir_error *err) {
    size_t bytes;
    *type = NULL;
    if (!json_is_object(obj)) return WR_FAIL(err, WEIR_E_FORMAT, "%s is not an object", where);
    WR_TRY(wr_field_string(obj, where, "type", type, &bytes, err));
    if (!*type) return WR_FAIL(err, WEIR_E_FORMAT, "%s.type is missing", where);
    return WEIR_OK;
}

static bool is(const char *a, const char *b) { return strcmp(a, b) == 0; }

/* Copy a string out of the JSON. */
static weir_status keep(const char *text, size_t bytes, char **out, size_t *out_bytes, weir_error *err) {
    wr_free(*out);
    *out = wr_malloc(bytes + 1);
    if (!*out) return no_memory(err);
    memcpy(*out, text, bytes);
    (*out)[bytes] = 0;
    *out_bytes = bytes;
    return WEIR_OK;
}

/* {"String": text} or {"Regex": expression}; exactly one of the outputs is set. */
static weir_status get_pattern(const json_t *obj, const char *where, char **find, size_t *find_bytes, wr_regex **regex,
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
    return keep(text, bytes, find, find_bytes, err);
}

/* ---- Normalisers ---------------------------------------------------------- */

static weir_status read_normalizer(weir_tokenizer *tok, const json_t *obj, int depth, weir_error *err) {
    const char *where = "normalizer", *type, *text = NULL;
    size_t bytes = 0;
    if (!obj || json_is_null(obj)) return WEIR_OK;
    WR_TRY(get_type(obj, where, &type, err));
    if (is(type, "Sequence")) {
        json_t *list, *item;
        size_t i;
        WR_TRY(wr_field_only(obj, where, "type normalizers", err));
        WR_TRY(wr_field_need(obj, where, "normalizers", JSON_ARRAY, &list, err));
        if (depth >= NEST_MAX) return WR_FAIL(err, WEIR_E_LIMIT, "%s: more than %d levels", where, NEST_MAX);
        json_array_foreach(list, i, item) WR_TRY(read_normalizer(tok, item, depth + 1, err));
        return WEIR_OK;
    }
    if (tok->n_norm >= STEPS_MAX) return WR_FAIL(err, WEIR_E_LIMIT, "%s: more than %d steps", where, STEPS_MAX);
    wr_norm_step *step = wr_tok_add_norm(tok);
    if (!step) return no_memory(err);
    if (is(type, "NFC") || is(type, "NFD") || is(type, "NFKC") || is(type, "NFKD")) {
        step->kind = WR_NORM_FORM;
        step->compatible = type[2] == 'K';
        step->compose = type[strlen(type) - 1] == 'C';
        return wr_field_only(obj, where, "type", err);
    }
    if (is(type, "Lowercase")) {
        step->kind = WR_NORM_LOWERCASE;
        return wr_field_only(obj, where, "type", err);
    }
    if (is(type, "Strip")) {
        step->kind = WR_NORM_STRIP;
        step->left = step->right = true;
        WR_TRY(wr_field_only(obj, where, "type strip_left strip_right", err));
        WR_TRY(wr_field_bool(obj, where, "strip_left", &step->left, err));
        return wr_field_bool(obj, where, "strip_right", &step->right, err);
    }
    if (is(type, "Prepend")) {
        step->kind = WR_NORM_PREPEND;
        WR_TRY(wr_field_only(obj, where, "type prepend", err));
        WR_TRY(wr_field_string(obj, where, "prepend", &text, &bytes, err));
        if (!text) return WR_FAIL(err, WEIR_E_FORMAT, "%s.prepend is missing", where);
        return keep(text, bytes, &step->put, &step->put_bytes, err);
    }
    if (is(type, "Replace")) {
        step->kind = WR_NORM_REPLACE;
        WR_TRY(wr_field_only(obj, where, "type pattern content", err));
        WR_TRY(get_pattern(obj, where, &step->find, &step->find_bytes, &step->regex, err));
        WR_TRY(wr_field_string(obj, where, "content", &text, &bytes, err));
        if (!text) return WR_FAIL(err, WEIR_E_FORMAT, "%s.content is missing", where);
        return keep(text, bytes, &step->put, &step->put_bytes, err);
    }
    return unsupported(where, type, err);
}

/* ---- Pre-tokenisers ------------------------------------------------------- */

static weir_status get_rule(const json_t *obj, const char *where, wr_cut_rule *rule, weir_error *err) {
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    const char *text = NULL;
    size_t bytes;
    WR_TRY(wr_field_string(obj, where, "behavior", &text, &bytes, err));
    if (!text) return WR_FAIL(err, WEIR_E_FORMAT, "%s.behavior is missing", where);
    for (int i = 0; i < 5; i++) {
        if (!is(text, names[i])) continue;
        *rule = (wr_cut_rule)i;
        return WEIR_OK;
    }
    return unsupported("pre_tokenizer.behavior", text, err);
}

/* prepend_scheme, or the older add_prefix_space. */
static weir_status get_front(const json_t *obj, const char *where, wr_cut_front *front, weir_error *err) {
    const char *scheme = NULL;
    size_t bytes;
    bool add = true;
    WR_TRY(wr_field_bool(obj, where, "add_prefix_space", &add, err));
    *front = add ? WR_FRONT_ALWAYS : WR_FRONT_NEVER;
    WR_TRY(wr_field_string(obj, where, "prepend_scheme", &scheme, &bytes, err));
    if (!scheme) return WEIR_OK;
    if (is(scheme, "always")) {
        *front = WR_FRONT_ALWAYS;
    } else if (is(scheme, "first")) {
        *front = WR_FRONT_FIRST;
    } else if (is(scheme, "never")) {
        *front = WR_FRONT_NEVER;
    } else {
        return WR_FAIL(err, WEIR_E_FORMAT, "%s.prepend_scheme must be always, first or never", where);
    }
    return WEIR_OK;
}

static const char metaspace_keys[] = "type replacement add_prefix_space prepend_scheme split str_rep";

/* The one character that Metaspace writes for a space. */
static weir_status get_replacement(const json_t *obj, const char *where, const char **text, size_t *bytes,
                                   weir_error *err) {
    uint32_t cp;
    *text = "\xE2\x96\x81";
    *bytes = 3;
    WR_TRY(wr_field_string(obj, where, "replacement", text, bytes, err));
    if (*bytes == 0 || wr_utf8_get((const uint8_t *)*text, &cp) != (int)*bytes) {
        return WR_FAIL(err, WEIR_E_FORMAT, "%s.replacement must be one character", where);
    }
    return WEIR_OK;
}

static weir_status read_byte_level(weir_tokenizer *tok, const json_t *obj, const char *where, weir_error *err) {
    bool prefix = true, use_regex = true, trim = true;
    WR_TRY(wr_field_only(obj, where, "type add_prefix_space trim_offsets use_regex", err));
    WR_TRY(wr_field_bool(obj, where, "add_prefix_space", &prefix, err));
    WR_TRY(wr_field_bool(obj, where, "use_regex", &use_regex, err));
    WR_TRY(wr_field_bool(obj, where, "trim_offsets", &trim, err));
    tok->bpe.bytes = true;
    if (prefix) {
        wr_cut_step *step = wr_tok_add_cut(tok);
        if (!step) return no_memory(err);
        step->kind = WR_CUT_SPACE_FRONT;
    }
    return use_regex ? wr_tok_add_cut_regex(tok, wr_gpt2_pattern, err) : WEIR_OK;
}

static weir_status read_cut(weir_tokenizer *tok, const json_t *obj, const char *type, weir_error *err) {
    const char *where = "pre_tokenizer", *text;
    size_t bytes;
    wr_cut_step *step = wr_tok_add_cut(tok);
    if (!step) return no_memory(err);
    if (is(type, "Split")) {
        WR_TRY(wr_field_only(obj, where, "type pattern behavior invert", err));
        WR_TRY(get_pattern(obj, where, &step->find, &step->find_bytes, &step->regex, err));
        step->kind = step->regex ? WR_CUT_REGEX : WR_CUT_TEXT;
        WR_TRY(get_rule(obj, where, &step->rule, err));
        return wr_field_bool(obj, where, "invert", &step->invert, err);
    }
    if (is(type, "Digits")) {
        bool individual = false;
        WR_TRY(wr_field_only(obj, where, "type individual_digits", err));
        WR_TRY(wr_field_bool(obj, where, "individual_digits", &individual, err));
        step->kind = WR_CUT_NUMBERS;
        step->rule = individual ? WR_CUT_ISOLATED : WR_CUT_CONTIGUOUS;
        return WEIR_OK;
    }
    if (is(type, "Punctuation")) {
        step->kind = WR_CUT_PUNCTUATION;
        WR_TRY(wr_field_only(obj, where, "type behavior", err));
        return json_object_get(obj, "behavior") ? get_rule(obj, where, &step->rule, err) : WEIR_OK;
    }
    if (is(type, "WhitespaceSplit")) {
        step->kind = WR_CUT_SPACES;
        step->rule = WR_CUT_REMOVED;
        return wr_field_only(obj, where, "type", err);
    }
    if (is(type, "Whitespace")) {
        static const char pattern[] = "[\\w\\x{200C}\\x{200D}]+|[^\\w\\x{200C}\\x{200D}\\s]+";
        step->kind = WR_CUT_REGEX;
        step->rule = WR_CUT_REMOVED;
        step->invert = true;
        WR_TRY(wr_field_only(obj, where, "type", err));
        return wr_regex_open(pattern, sizeof pattern - 1, &step->regex, err);
    }
    if (is(type, "Metaspace")) {
        step->kind = WR_CUT_METASPACE;
        step->split = true;
        WR_TRY(wr_field_only(obj, where, metaspace_keys, err));
        WR_TRY(get_front(obj, where, &step->front, err));
        WR_TRY(wr_field_bool(obj, where, "split", &step->split, err));
        WR_TRY(get_replacement(obj, where, &text, &bytes, err));
        return keep(text, bytes, &step->find, &step->find_bytes, err);
    }
    return unsupported(where, type, err);
}

static weir_status read_pre_tokenizer(weir_tokenizer *tok, const json_t *obj, int depth, weir_error *err) {
    const char *where = "pre_tokenizer", *type;
    if (!obj || json_is_null(obj)) return WEIR_OK;
    WR_TRY(get_type(obj, where, &type, err));
    if (is(type, "Sequence")) {
        json_t *list, *item;
        size_t i;
        WR_TRY(wr_field_only(obj, where, "type pretokenizers", err));
        WR_TRY(wr_field_need(obj, where, "pretokenizers", JSON_ARRAY, &list, err));
        if (depth >= NEST_MAX) return WR_FAIL(err, WEIR_E_LIMIT, "%s: more than %d levels", where, NEST_MAX);
        json_array_foreach(list, i, item) WR_TRY(read_pre_tokenizer(tok, item, depth + 1, err));
        return WEIR_OK;
    }
    /* After ByteLevel the text is spelled in another alphabet; here it stays bytes,
     * so a later step would see something else. */
    if (tok->bpe.bytes) {
        return WR_FAIL(err, WEIR_E_UNSUPPORTED, "%s: the step \"%.40s\" behind ByteLevel is not supported", where,
                       type);
    }
    if (tok->n_cut >= STEPS_MAX) return WR_FAIL(err, WEIR_E_LIMIT, "%s: more than %d steps", where, STEPS_MAX);
    return is(type, "ByteLevel") ? read_byte_level(tok, obj, where, err) : read_cut(tok, obj, type, err);
}

/* ---- The model ------------------------------------------------------------ */

/* One string of a merge. */
static bool get_half(const json_t *value, const char **text, size_t *bytes) {
    if (!json_is_string(value)) return false;
    *text = json_string_value(value);
    *bytes = json_string_length(value);
    return true;
}

static weir_status read_merge(const wr_vocab *v, const json_t *item, size_t i, uint8_t **joined, size_t *cap,
                              wr_merge *out, weir_error *err) {
    const char *a = NULL, *b = NULL;
    size_t na = 0, nb = 0;
    char sa[72], sb[72];
    if (json_is_array(item)) {
        if (json_array_size(item) != 2 || !get_half(json_array_get(item, 0), &a, &na) ||
            !get_half(json_array_get(item, 1), &b, &nb)) {
            return WR_FAIL(err, WEIR_E_FORMAT, "model.merges[%zu] is not two strings", i);
        }
    } else if (get_half(item, &a, &na)) {
        b = memchr(a, ' ', na);
        if (!b || memchr(b + 1, ' ', na - (size_t)(b - a) - 1)) {
            return WR_FAIL(err, WEIR_E_FORMAT, "model.merges[%zu] \"%s\" is not two pieces with one space between", i,
                           wr_vocab_show(a, na, sa));
        }
        nb = na - (size_t)(b - a) - 1;
        na = (size_t)(b - a);
        b++;
    } else {
        return WR_FAIL(err, WEIR_E_FORMAT, "model.merges[%zu] is neither a string nor a pair", i);
    }
    if (!wr_grow(joined, cap, na + nb + 1, 1)) return no_memory(err);
    memcpy(*joined, a, na);
    memcpy(*joined + na, b, nb);
    *out = (wr_merge){wr_vocab_find(v, a, na), wr_vocab_find(v, b, nb), wr_vocab_find(v, *joined, na + nb)};
    if (out->left >= 0 && out->right >= 0 && out->joined >= 0) return WEIR_OK;
    const char *which = out->left < 0 ? "first piece" : out->right < 0 ? "second piece" : "result";
    return WR_FAIL(err, WEIR_E_FORMAT, "model.merges[%zu] joins \"%s\" and \"%s\": its %s is not in model.vocab", i,
                   wr_vocab_show(a, na, sa), wr_vocab_show(b, nb, sb), which);
}

static weir_status read_merges(weir_tokenizer *tok, const json_t *list, weir_error *err) {
    size_t n = json_array_size(list), cap = 0;
    if (n > WR_VOCAB_MAX) {
        return WR_FAIL(err, WEIR_E_LIMIT, "model.merges has %zu entries, at most %d are allowed", n, WR_VOCAB_MAX);
    }
    wr_merge *merges = wr_malloc((n + 1) * sizeof *merges);
    uint8_t *joined = NULL;
    weir_status st = merges ? WEIR_OK : no_memory(err);
    for (size_t i = 0; st == WEIR_OK && i < n; i++) {
        st = read_merge(&tok->vocab, json_array_get(list, i), i, &joined, &cap, &merges[i], err);
    }
    wr_free(joined);
    if (st != WEIR_OK) {
        wr_free(merges);
        return st;
    }
    return wr_bpe_take_merges(&tok->bpe, merges, n, err);
}

static weir_status read_vocab(weir_tokenizer *tok, json_t *vocab, size_t n_added, weir_error *err) {
    size_t n = json_object_size(vocab);
    if (n == 0) return WR_FAIL(err, WEIR_E_FORMAT, "model.vocab is empty");
    WR_TRY(wr_vocab_init(&tok->vocab, n + n_added, 0, err));
    for (void *it = json_object_iter(vocab); it; it = json_object_iter_next(vocab, it)) {
        const char *piece = json_object_iter_key(it);
        size_t bytes = json_object_iter_key_len(it);
        const json_t *id = json_object_iter_value(it);
        if (!json_is_integer(id)) {
            char shown[72];
            return WR_FAIL(err, WEIR_E_FORMAT, "model.vocab[\"%s\"] is not an integer",
                           wr_vocab_show(piece, bytes, shown));
        }
        unsigned flags = 0;
        if (wr_vocab_byte_value((const uint8_t *)piece, bytes) >= 0) flags = WR_TOKEN_BYTE;
        WR_TRY(wr_vocab_append(&tok->vocab, json_integer_value(id), piece, bytes, flags, err));
    }
    return wr_vocab_link_all(&tok->vocab, err);
}

static weir_status read_model(weir_tokenizer *tok, const json_t *model, size_t n_added, weir_error *err) {
    const char *where = "model", *type = NULL, *text;
    size_t bytes;
    json_t *vocab, *merges;
    WR_TRY(wr_field_string(model, where, "type", &type, &bytes, err));
    /* The oldest files have no type; they were all BPE. */
    if (type && !is(type, "BPE")) return unsupported(where, type, err);
    WR_TRY(wr_field_only(model, where,
                         "type dropout unk_token continuing_subword_prefix end_of_word_suffix fuse_unk byte_fallback "
                         "ignore_merges vocab merges",
                         err));
    const json_t *dropout = json_object_get(model, "dropout");
    if (dropout && !json_is_null(dropout) && !(json_is_number(dropout) && json_number_value(dropout) == 0)) {
        return WR_FAIL(err, WEIR_E_UNSUPPORTED, "model.dropout is not supported; it makes encoding random");
    }
    for (int i = 0; i < 2; i++) {
        const char *key = i ? "end_of_word_suffix" : "continuing_subword_prefix";
        text = NULL;
        bytes = 0;
        WR_TRY(wr_field_string(model, where, key, &text, &bytes, err));
        if (bytes) return WR_FAIL(err, WEIR_E_UNSUPPORTED, "model.%s is \"%.40s\": not supported", key, text);
    }
    WR_TRY(wr_field_bool(model, where, "fuse_unk", &tok->bpe.fuse_unk, err));
    WR_TRY(wr_field_bool(model, where, "byte_fallback", &tok->bpe.byte_fallback, err));
    WR_TRY(wr_field_bool(model, where, "ignore_merges", &tok->bpe.ignore_merges, err));
    WR_TRY(wr_field_need(model, where, "vocab", JSON_OBJECT, &vocab, err));
    WR_TRY(wr_field_need(model, where, "merges", JSON_ARRAY, &merges, err));
    WR_TRY(read_vocab(tok, vocab, n_added, err));
    text = NULL;
    WR_TRY(wr_field_string(model, where, "unk_token", &text, &bytes, err));
    if (text) {
        char shown[72];
        tok->bpe.unk = tok->unk = wr_vocab_find(&tok->vocab, text, bytes);
        if (tok->unk < 0) {
            return WR_FAIL(err, WEIR_E_FORMAT, "model.unk_token \"%s\" is not in model.vocab",
                           wr_vocab_show(text, bytes, shown));
        }
    }
    return read_merges(tok, merges, err);
}

/* ---- Added tokens --------------------------------------------------------- */

weir_status wr_tok_read_added(weir_tokenizer *tok, const json_t *obj, int64_t id, const char *where, weir_error *err) {
    const char *text = NULL;
    size_t bytes = 0;
    static const char *const keys[] = {"special", "lstrip", "rstrip", "single_word", "normalized"};
    char shown[72];
    unsigned flags = 0;
    WR_TRY(wr_field_only(obj, where, "id content single_word lstrip rstrip normalized special __type", err));
    WR_TRY(wr_field_int(obj, where, "id", &id, err));
    WR_TRY(wr_field_string(obj, where, "content", &text, &bytes, err));
    if (!text) return WR_FAIL(err, WEIR_E_FORMAT, "%s: an added token has no content", where);
    wr_vocab_show(text, bytes, shown);
    for (unsigned i = 0; i < 5; i++) {
        bool on = false;
        WR_TRY(wr_field_bool(obj, where, keys[i], &on, err));
        if (on) flags |= 1u << i;
    }
    if (id == INT64_MIN) return WR_FAIL(err, WEIR_E_FORMAT, "%s: token \"%s\" has no id", where, shown);
    int32_t known = wr_vocab_find(&tok->vocab, text, bytes);
    if (known >= 0 && known != id) {
        return WR_FAIL(err, WEIR_E_FORMAT, "%s: token \"%s\" has id %lld here and %d in the vocabulary", where, shown,
                       (long long)id, known);
    }
    if (known < 0) WR_TRY(wr_vocab_add(&tok->vocab, id, text, bytes, 0, err));
    if (tok->vocab.flags[id] & WR_TOKEN_ADDED) {
        return WR_FAIL(err, WEIR_E_FORMAT, "%s: token \"%s\" comes twice", where, shown);
    }
    return wr_tok_add_added(tok, (int32_t)id, flags, err);
}

static weir_status read_added(weir_tokenizer *tok, const json_t *list, weir_error *err) {
    json_t *item;
    size_t i;
    json_array_foreach(list, i, item) WR_TRY(wr_tok_read_added(tok, item, INT64_MIN, "added_tokens", err));
    return WEIR_OK;
}

/* ---- Post-processors ------------------------------------------------------ */

static weir_status add_affix(weir_tokenizer *tok, bool front, int64_t id, const char *where, weir_error *err) {
    size_t *n = front ? &tok->n_prefix : &tok->n_suffix;
    if (!wr_vocab_has(&tok->vocab, id)) {
        return WR_FAIL(err, WEIR_E_FORMAT, "%s adds the token %lld, which the vocabulary does not have", where,
                       (long long)id);
    }
    if (*n == WR_TOK_AFFIX_MAX) {
        return WR_FAIL(err, WEIR_E_LIMIT, "%s adds more than %d tokens", where, WR_TOK_AFFIX_MAX);
    }
    (front ? tok->prefix : tok->suffix)[(*n)++] = (int32_t)id;
    return WEIR_OK;
}

static weir_status read_template(weir_tokenizer *tok, const json_t *obj, const char *where, weir_error *err) {
    json_t *single, *specials, *item, *ids, *id;
    size_t i, k, bytes;
    bool front = true;
    WR_TRY(wr_field_only(obj, where, "type single pair special_tokens", err));
    WR_TRY(wr_field_need(obj, where, "single", JSON_ARRAY, &single, err));
    WR_TRY(wr_field_need(obj, where, "special_tokens", JSON_OBJECT, &specials, err));
    json_array_foreach(single, i, item) {
        WR_TRY(wr_field_only(item, where, "SpecialToken Sequence", err));
        const json_t *token = json_object_get(item, "SpecialToken"), *sequence = json_object_get(item, "Sequence");
        const char *name = NULL;
        if (!token == !sequence) return WR_FAIL(err, WEIR_E_FORMAT, "%s.single[%zu] names no one part", where, i);
        WR_TRY(wr_field_only(token ? token : sequence, where, "id type_id", err));
        WR_TRY(wr_field_string(token ? token : sequence, where, "id", &name, &bytes, err));
        if (!name) return WR_FAIL(err, WEIR_E_FORMAT, "%s.single[%zu] has no id", where, i);
        if (sequence) {
            if (!is(name, "A") || !front) {
                return WR_FAIL(err, WEIR_E_UNSUPPORTED, "%s.single has another sequence than one A", where);
            }
            front = false;
            continue;
        }
        const json_t *entry = json_object_get(specials, name);
        if (!entry) return WR_FAIL(err, WEIR_E_FORMAT, "%s.special_tokens lacks \"%.40s\"", where, name);
        WR_TRY(wr_field_only(entry, where, "id ids tokens", err));
        WR_TRY(wr_field_need(entry, where, "ids", JSON_ARRAY, &ids, err));
        json_array_foreach(ids, k, id) {
            if (!json_is_integer(id)) {
                return WR_FAIL(err, WEIR_E_FORMAT, "%s.special_tokens: an id of \"%.40s\" is not an integer", where,
                               name);
            }
            WR_TRY(add_affix(tok, front, json_integer_value(id), where, err));
        }
    }
    if (front) return WR_FAIL(err, WEIR_E_UNSUPPORTED, "%s.single leaves the text out", where);
    return WEIR_OK;
}

/* RobertaProcessing and BertProcessing: "cls": [piece, id], "sep": [piece, id]. */
static weir_status read_cls_sep(weir_tokenizer *tok, const json_t *obj, const char *where, weir_error *err) {
    WR_TRY(wr_field_only(obj, where, "type sep cls trim_offsets add_prefix_space", err));
    for (int i = 0; i < 2; i++) {
        json_t *pair;
        WR_TRY(wr_field_need(obj, where, i ? "sep" : "cls", JSON_ARRAY, &pair, err));
        const json_t *id = json_array_get(pair, 1);
        if (!json_is_integer(id)) return WR_FAIL(err, WEIR_E_FORMAT, "%s: cls and sep are [piece, id]", where);
        WR_TRY(add_affix(tok, i == 0, json_integer_value(id), where, err));
    }
    return WEIR_OK;
}

static weir_status read_post_processor(weir_tokenizer *tok, const json_t *obj, int depth, weir_error *err) {
    const char *where = "post_processor", *type;
    if (!obj || json_is_null(obj)) return WEIR_OK;
    WR_TRY(get_type(obj, where, &type, err));
    if (is(type, "Sequence")) {
        json_t *list, *item;
        size_t i;
        WR_TRY(wr_field_only(obj, where, "type processors", err));
        WR_TRY(wr_field_need(obj, where, "processors", JSON_ARRAY, &list, err));
        if (depth >= NEST_MAX) return WR_FAIL(err, WEIR_E_LIMIT, "%s: more than %d levels", where, NEST_MAX);
        json_array_foreach(list, i, item) WR_TRY(read_post_processor(tok, item, depth + 1, err));
        return WEIR_OK;
    }
    if (is(type, "ByteLevel")) { /* only trims offsets */
        return wr_field_only(obj, where, "type add_prefix_space trim_offsets use_regex", err);
    }
    if (tok->n_prefix || tok->n_suffix) {
        return WR_FAIL(err, WEIR_E_UNSUPPORTED, "%s: two steps that add tokens", where);
    }
    if (is(type, "TemplateProcessing")) return read_template(tok, obj, where, err);
    if (is(type, "RobertaProcessing") || is(type, "BertProcessing")) return read_cls_sep(tok, obj, where, err);
    return unsupported(where, type, err);
}

/* ---- Decoders ------------------------------------------------------------- */

/* Steps in the one order that can be done while streaming. */
enum { STAGE_START, STAGE_REPLACE, STAGE_BYTES, STAGE_FUSE, STAGE_STRIP };

static weir_status read_decoder(weir_tokenizer *tok, const json_t *obj, int depth, int *stage, weir_error *err) {
    const char *where = "decoder", *type, *text = NULL;
    wr_decode_rules *rules = &tok->decode;
    size_t bytes = 0;
    int here;
    WR_TRY(get_type(obj, where, &type, err));
    if (is(type, "Sequence")) {
        json_t *list, *item;
        size_t i;
        WR_TRY(wr_field_only(obj, where, "type decoders", err));
        WR_TRY(wr_field_need(obj, where, "decoders", JSON_ARRAY, &list, err));
        if (depth >= NEST_MAX) return WR_FAIL(err, WEIR_E_LIMIT, "%s: more than %d levels", where, NEST_MAX);
        json_array_foreach(list, i, item) WR_TRY(read_decoder(tok, item, depth + 1, stage, err));
        return WEIR_OK;
    }
    if (is(type, "ByteLevel") || is(type, "Replace") || is(type, "Metaspace")) {
        here = STAGE_REPLACE;
    } else if (is(type, "ByteFallback")) {
        here = STAGE_BYTES;
    } else if (is(type, "Fuse")) {
        here = STAGE_FUSE;
    } else if (is(type, "Strip")) {
        here = STAGE_STRIP;
    } else {
        return unsupported(where, type, err);
    }
    if (here <= *stage || (here == STAGE_STRIP && *stage != STAGE_FUSE)) {
        return WR_FAIL(err, WEIR_E_UNSUPPORTED, "%s: the step \"%s\" at this place is not supported", where, type);
    }
    *stage = here;
    if (is(type, "ByteLevel")) {
        rules->byte_level = true;
        return wr_field_only(obj, where, "type add_prefix_space trim_offsets use_regex", err);
    }
    if (is(type, "Metaspace")) {
        wr_cut_front front;
        WR_TRY(wr_field_only(obj, where, metaspace_keys, err));
        WR_TRY(get_front(obj, where, &front, err));
        rules->drop_in_first = front != WR_FRONT_NEVER;
        WR_TRY(get_replacement(obj, where, &text, &bytes, err));
        WR_TRY(keep(text, bytes, &rules->find, &rules->find_bytes, err));
        return keep(" ", 1, &rules->put, &rules->put_bytes, err);
    }
    if (is(type, "Replace")) {
        wr_regex *regex = NULL;
        WR_TRY(wr_field_only(obj, where, "type pattern content", err));
        WR_TRY(get_pattern(obj, where, &rules->find, &rules->find_bytes, &regex, err));
        if (regex) {
            wr_regex_close(regex);
            return WR_FAIL(err, WEIR_E_UNSUPPORTED, "%s: Replace by an expression is not supported", where);
        }
        WR_TRY(wr_field_string(obj, where, "content", &text, &bytes, err));
        if (!text || !rules->find_bytes || bytes > DECODE_TEXT_MAX) {
            return WR_FAIL(err, WEIR_E_FORMAT, "%s: Replace needs a pattern and a content of at most %d bytes", where,
                           DECODE_TEXT_MAX);
        }
        return keep(text, bytes, &rules->put, &rules->put_bytes, err);
    }
    if (is(type, "Strip")) {
        int64_t start = 0, stop = 0;
        uint32_t cp = 0;
        WR_TRY(wr_field_only(obj, where, "type content start stop", err));
        WR_TRY(wr_field_string(obj, where, "content", &text, &bytes, err));
        WR_TRY(wr_field_int(obj, where, "start", &start, err));
        WR_TRY(wr_field_int(obj, where, "stop", &stop, err));
        if (!text || !bytes || wr_utf8_get((const uint8_t *)text, &cp) != (int)bytes || start < 0 ||
            start > DECODE_TEXT_MAX) {
            return WR_FAIL(err, WEIR_E_FORMAT, "%s: Strip needs one character and a start of 0 to %d", where,
                           DECODE_TEXT_MAX);
        }
        if (stop != 0) return WR_FAIL(err, WEIR_E_UNSUPPORTED, "%s: Strip at the end is not supported", where);
        rules->strip_char = cp;
        rules->n_strip = (uint32_t)start;
        return WEIR_OK;
    }
    if (is(type, "ByteFallback")) rules->byte_fallback = true;
    return wr_field_only(obj, where, "type", err);
}

/* ---- All together --------------------------------------------------------- */

static weir_status read_tokenizer(weir_tokenizer *tok, const json_t *root, weir_error *err) {
    json_t *model;
    WR_TRY(wr_field_only(
        root, "the file",
        "version truncation padding added_tokens normalizer pre_tokenizer post_processor decoder model", err));
    const json_t *added = json_object_get(root, "added_tokens"), *decoder = json_object_get(root, "decoder");
    if (added && !json_is_array(added) && !json_is_null(added)) {
        return WR_FAIL(err, WEIR_E_FORMAT, "added_tokens is not a list");
    }
    WR_TRY(wr_field_need(root, "the file", "model", JSON_OBJECT, &model, err));
    WR_TRY(read_normalizer(tok, json_object_get(root, "normalizer"), 0, err));
    WR_TRY(read_pre_tokenizer(tok, json_object_get(root, "pre_tokenizer"), 0, err));
    WR_TRY(read_model(tok, model, json_array_size(added), err));
    WR_TRY(read_added(tok, added, err));
    WR_TRY(read_post_processor(tok, json_object_get(root, "post_processor"), 0, err));
    if (tok->n_prefix) tok->bos = tok->prefix[0];
    if (decoder && !json_is_null(decoder)) {
        int stage = STAGE_START;
        return read_decoder(tok, decoder, 0, &stage, err);
    }
    /* Without a decoder the format joins tokens with spaces, which for byte-level
     * pieces would give "Hello \xC4\xA0world": those are always turned back. */
    tok->decode.byte_level = tok->bpe.bytes;
    tok->decode.join_with_space = !tok->bpe.bytes;
    return WEIR_OK;
}

weir_status wr_tokenizer_open_json_text(const char *json, size_t json_bytes, const char *config, size_t config_bytes,
                                        weir_tokenizer **out, weir_error *err) {
    weir_tokenizer *tok = NULL;
    json_t *root = NULL, *config_root = NULL;
    weir_status st;
    *out = NULL;
    WR_TRY_GOTO(st, wr_tok_new(&tok, err), done);
    WR_TRY_GOTO(st, wr_json_parse(json, json_bytes, "tokenizer.json", &root, err), done);
    st = read_tokenizer(tok, root, err);
    if (st != WEIR_OK) {
        wr_err_context(err, "reading tokenizer.json");
        goto done;
    }
    json_decref(root);
    root = NULL;
    if (config) {
        WR_TRY_GOTO(st, wr_json_parse(config, config_bytes, "tokenizer_config.json", &config_root, err), done);
        WR_TRY_GOTO(st, wr_tok_read_config(tok, config_root, err), done);
    }
    wr_tok_finish(tok);
done:
    json_decref(root);
    json_decref(config_root);
    if (st != WEIR_OK) {
        weir_tokenizer_close(tok);
        return st;
    }
    *out = tok;
    return WEIR_OK;
}

/* A file that may be absent: *text stays NULL then. Any other failure is one. */
static weir_status read_optional(const char *path, char **text, size_t *bytes, weir_error *err) {
    weir_error why;
    weir_status st = wr_file_read(path, CONFIG_BYTES_MAX, text, bytes, &why);
    if (st == WEIR_E_NOT_FOUND) {
        *text = NULL;
        return WEIR_OK;
    }
    if (st != WEIR_OK && err) *err = why;
    return st;
}

static weir_status open_files(const char *tokenizer_path, const char *config, size_t config_bytes, weir_tokenizer **out,
                              weir_error *err) {
    char *json = NULL;
    size_t bytes = 0;
    WR_TRY(wr_file_read(tokenizer_path, JSON_BYTES_MAX, &json, &bytes, err));
    weir_status st = wr_tokenizer_open_json_text(json, bytes, config, config_bytes, out, err);
    if (st != WEIR_OK) wr_err_context(err, "loading %s", tokenizer_path);
    wr_free(json);
    return st;
}

weir_status wr_tokenizer_open_json(const char *tokenizer_path, const char *config_path, weir_tokenizer **out,
                                   weir_error *err) {
    char *config = NULL;
    size_t bytes = 0;
    *out = NULL;
    if (config_path) WR_TRY(wr_file_read(config_path, CONFIG_BYTES_MAX, &config, &bytes, err));
    weir_status st = open_files(tokenizer_path, config, bytes, out, err);
    wr_free(config);
    return st;
}

weir_status wr_tokenizer_open_folder(const char *folder, weir_tokenizer **out, weir_error *err) {
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"};
    char *paths[3] = {NULL}, *config = NULL, *jinja = NULL;
    weir_tokenizer *tok = NULL;
    size_t config_bytes = 0, jinja_bytes = 0;
    weir_status st;
    *out = NULL;
    for (int i = 0; i < 3; i++) {
        if ((paths[i] = wr_path_join(folder, names[i]))) continue;
        st = no_memory(err);
        goto done;
    }
    WR_TRY_GOTO(st, read_optional(paths[1], &config, &config_bytes, err), done);
    WR_TRY_GOTO(st, read_optional(paths[2], &jinja, &jinja_bytes, err), done);
    WR_TRY_GOTO(st, open_files(paths[0], config, config_bytes, &tok, err), done);
    if (jinja) st = wr_tokenizer_set_chat_template(tok, jinja, err);
done:
    for (int i = 0; i < 3; i++) wr_free(paths[i]);
    wr_free(config);
    wr_free(jinja);
    if (st != WEIR_OK) {
        weir_tokenizer_close(tok);
        return st;
    }
    *out = tok;
    return WEIR_OK;
}
