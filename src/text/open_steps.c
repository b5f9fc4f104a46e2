/* The normalizer and the pre_tokenizer of tokenizer.json: all kinds that Hugging Face's
 * library defines. */
#include "base/mem.h"
#include "text/base64.h"
#include "text/fields.h"
#include "text/open_json.h"
#include "text/scripts.h"
#include "text/unicode.h"

static weir_status no_memory(weir_error *err) { return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a tokenizer"); }

/* ---- Normalisers ---------------------------------------------------------- */

static weir_status add_norm(weir_tokenizer *tok, wr_norm_kind kind, wr_norm_step **step, weir_error *err) {
    if (tok->n_norm >= WR_TOK_STEPS_MAX) {
        return WR_FAIL(err, WEIR_E_LIMIT, "normalizer: more than %d steps", WR_TOK_STEPS_MAX);
    }
    *step = wr_tok_add_norm(tok);
    if (!*step) return no_memory(err);
    (*step)->kind = kind;
    return WEIR_OK;
}

/* Kinds without any field. */
static const struct {
    const char *name;
    wr_norm_kind kind;
    bool compose, compatible;
} plain_norms[] = {
    {"NFC", WR_NORM_FORM, true, false},         {"NFD", WR_NORM_FORM, false, false},
    {"NFKC", WR_NORM_FORM, true, true},         {"NFKD", WR_NORM_FORM, false, true},
    {"Lowercase", WR_NORM_LOWERCASE, 0, 0},     {"Nmt", WR_NORM_NMT, 0, 0},
    {"StripAccents", WR_NORM_DROP_MARKS, 0, 0}, {"ByteLevel", WR_NORM_BYTE_LEVEL, 0, 0},
};

weir_status wr_tok_add_bert_norms(weir_tokenizer *tok, bool clean, bool cjk, bool strip, bool lowercase,
                                  weir_error *err) {
    wr_norm_step *step;
    if (clean) WR_TRY(add_norm(tok, WR_NORM_CLEAN, &step, err));
    if (cjk) WR_TRY(add_norm(tok, WR_NORM_SPACE_CJK, &step, err));
    if (strip) WR_TRY(add_norm(tok, WR_NORM_FORM, &step, err));
    if (strip) WR_TRY(add_norm(tok, WR_NORM_DROP_ACCENTS, &step, err));
    if (lowercase) WR_TRY(add_norm(tok, WR_NORM_LOWERCASE, &step, err));
    return WEIR_OK;
}

/* Four steps in one. strip_accents null means: as lowercase. */
static weir_status read_bert(weir_tokenizer *tok, const json_t *obj, const char *where, weir_error *err) {
    bool clean = true, cjk = true, lowercase = true;
    WR_TRY(wr_field_only(obj, where, "type clean_text handle_chinese_chars strip_accents lowercase", err));
    WR_TRY(wr_field_bool(obj, where, "clean_text", &clean, err));
    WR_TRY(wr_field_bool(obj, where, "handle_chinese_chars", &cjk, err));
    WR_TRY(wr_field_bool(obj, where, "lowercase", &lowercase, err));
    bool strip = lowercase;
    WR_TRY(wr_field_bool(obj, where, "strip_accents", &strip, err));
    return wr_tok_add_bert_norms(tok, clean, cjk, strip, lowercase, err);
}

static weir_status read_precompiled(wr_norm_step *step, const json_t *obj, const char *where, weir_error *err) {
    const char *text = NULL;
    size_t bytes = 0, blob_bytes = 0;
    WR_TRY(wr_field_only(obj, where, "type precompiled_charsmap", err));
    WR_TRY(wr_field_string(obj, where, "precompiled_charsmap", &text, &bytes, err));
    if (!text) return WR_FAIL(err, WEIR_E_FORMAT, "%s.precompiled_charsmap is missing", where);
    uint8_t *blob = wr_malloc(bytes / 4 * 3 + 3);
    step->map = wr_calloc(1, sizeof *step->map);
    weir_status st = WEIR_OK;
    if (!blob || !step->map) {
        st = no_memory(err);
    } else if (!wr_base64_read(text, bytes, blob, &blob_bytes)) {
        st = WR_FAIL(err, WEIR_E_FORMAT, "%s.precompiled_charsmap is not base64", where);
    } else {
        st = wr_charsmap_init(step->map, blob, blob_bytes, err);
    }
    wr_free(blob);
    return st;
}

static weir_status read_norm_step(weir_tokenizer *tok, const json_t *obj, const char *type, weir_error *err) {
    const char *where = "normalizer";
    wr_norm_step *step;
    if (wr_tok_is(type, "BertNormalizer")) return read_bert(tok, obj, where, err);
    for (size_t i = 0; i < sizeof plain_norms / sizeof *plain_norms; i++) {
        if (!wr_tok_is(type, plain_norms[i].name)) continue;
        WR_TRY(add_norm(tok, plain_norms[i].kind, &step, err));
        step->compose = plain_norms[i].compose;
        step->compatible = plain_norms[i].compatible;
        return wr_field_only(obj, where, "type", err);
    }
    if (wr_tok_is(type, "Strip")) {
        WR_TRY(add_norm(tok, WR_NORM_STRIP, &step, err));
        step->left = step->right = true;
        WR_TRY(wr_field_only(obj, where, "type strip_left strip_right", err));
        WR_TRY(wr_field_bool(obj, where, "strip_left", &step->left, err));
        return wr_field_bool(obj, where, "strip_right", &step->right, err);
    }
    if (wr_tok_is(type, "Prepend")) {
        WR_TRY(add_norm(tok, WR_NORM_PREPEND, &step, err));
        WR_TRY(wr_field_only(obj, where, "type prepend", err));
        return wr_tok_keep_field(obj, where, "prepend", &step->put, &step->put_bytes, err);
    }
    if (wr_tok_is(type, "Replace")) {
        WR_TRY(add_norm(tok, WR_NORM_REPLACE, &step, err));
        WR_TRY(wr_field_only(obj, where, "type pattern content", err));
        WR_TRY(wr_tok_get_pattern(obj, where, &step->find, &step->find_bytes, &step->regex, err));
        return wr_tok_keep_field(obj, where, "content", &step->put, &step->put_bytes, err);
    }
    if (wr_tok_is(type, "Precompiled")) {
        /* Files of models without rules have null here. */
        if (json_is_null(json_object_get(obj, "precompiled_charsmap"))) return WEIR_OK;
        WR_TRY(add_norm(tok, WR_NORM_PRECOMPILED, &step, err));
        return read_precompiled(step, obj, where, err);
    }
    return wr_tok_unsupported(where, type, err);
}

static weir_status read_norms(weir_tokenizer *tok, const json_t *obj, int depth, weir_error *err) {
    const char *where = "normalizer", *type;
    if (!obj || json_is_null(obj)) return WEIR_OK;
    WR_TRY(wr_tok_get_type(obj, where, &type, err));
    if (!wr_tok_is(type, "Sequence")) return read_norm_step(tok, obj, type, err);
    json_t *list, *item;
    size_t i;
    WR_TRY(wr_tok_get_sequence(obj, where, "normalizers", depth, &list, err));
    json_array_foreach(list, i, item) WR_TRY(read_norms(tok, item, depth + 1, err));
    return WEIR_OK;
}

weir_status wr_tok_read_normalizer(weir_tokenizer *tok, const json_t *obj, weir_error *err) {
    return read_norms(tok, obj, 0, err);
}

/* ---- Pre-tokenisers ------------------------------------------------------- */

static weir_status add_cut(weir_tokenizer *tok, wr_cut_kind kind, wr_cut_rule rule, wr_cut_step **step,
                           weir_error *err) {
    if (tok->n_cut >= WR_TOK_STEPS_MAX) {
        return WR_FAIL(err, WEIR_E_LIMIT, "pre_tokenizer: more than %d steps", WR_TOK_STEPS_MAX);
    }
    *step = wr_tok_add_cut(tok);
    if (!*step) return no_memory(err);
    (*step)->kind = kind;
    (*step)->rule = rule;
    return WEIR_OK;
}

weir_status wr_tok_add_bert_cuts(weir_tokenizer *tok, weir_error *err) {
    wr_cut_step *step;
    WR_TRY(add_cut(tok, WR_CUT_SPACES, WR_CUT_REMOVED, &step, err));
    return add_cut(tok, WR_CUT_PUNCTUATION, WR_CUT_ISOLATED, &step, err);
}

static weir_status get_rule(const json_t *obj, const char *where, wr_cut_rule *rule, weir_error *err) {
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous"};
    const char *text = NULL;
    size_t bytes;
    WR_TRY(wr_field_string(obj, where, "behavior", &text, &bytes, err));
    if (!text) return WR_FAIL(err, WEIR_E_FORMAT, "%s.behavior is missing", where);
    for (int i = 0; i < 5; i++) {
        if (!wr_tok_is(text, names[i])) continue;
        *rule = (wr_cut_rule)i;
        return WEIR_OK;
    }
    return wr_tok_unsupported("pre_tokenizer.behavior", text, err);
}

static weir_status read_byte_level(weir_tokenizer *tok, const json_t *obj, const char *where, weir_error *err) {
    bool prefix = true, use_regex = true, trim = true;
    wr_cut_step *step;
    WR_TRY(wr_field_only(obj, where, "type add_prefix_space trim_offsets use_regex", err));
    WR_TRY(wr_field_bool(obj, where, "add_prefix_space", &prefix, err));
    WR_TRY(wr_field_bool(obj, where, "use_regex", &use_regex, err));
    WR_TRY(wr_field_bool(obj, where, "trim_offsets", &trim, err));
    if (prefix) WR_TRY(add_cut(tok, WR_CUT_SPACE_FRONT, WR_CUT_ISOLATED, &step, err));
    if (use_regex) WR_TRY(wr_tok_add_cut_regex(tok, wr_gpt2_pattern, err));
    return add_cut(tok, WR_CUT_BYTE_LEVEL, WR_CUT_ISOLATED, &step, err);
}

/* The pieces are the matches of an expression of ours. */
static weir_status cut_to_matches(weir_tokenizer *tok, const char *pattern, size_t bytes, weir_error *err) {
    wr_cut_step *step;
    WR_TRY(add_cut(tok, WR_CUT_REGEX, WR_CUT_REMOVED, &step, err));
    step->invert = true;
    return wr_regex_open(pattern, bytes, &step->regex, err);
}

static weir_status read_cut_step(weir_tokenizer *tok, const json_t *obj, const char *type, weir_error *err) {
    const char *where = "pre_tokenizer", *text = NULL;
    size_t bytes = 0;
    wr_cut_step *step;
    if (wr_tok_is(type, "ByteLevel")) return read_byte_level(tok, obj, where, err);
    if (wr_tok_is(type, "Split")) {
        WR_TRY(add_cut(tok, WR_CUT_TEXT, WR_CUT_ISOLATED, &step, err));
        WR_TRY(wr_field_only(obj, where, "type pattern behavior invert", err));
        WR_TRY(wr_tok_get_pattern(obj, where, &step->find, &step->find_bytes, &step->regex, err));
        if (step->regex) step->kind = WR_CUT_REGEX;
        WR_TRY(get_rule(obj, where, &step->rule, err));
        return wr_field_bool(obj, where, "invert", &step->invert, err);
    }
    if (wr_tok_is(type, "Digits")) {
        bool individual = false;
        WR_TRY(wr_field_only(obj, where, "type individual_digits", err));
        WR_TRY(wr_field_bool(obj, where, "individual_digits", &individual, err));
        return add_cut(tok, WR_CUT_NUMBERS, individual ? WR_CUT_ISOLATED : WR_CUT_CONTIGUOUS, &step, err);
    }
    if (wr_tok_is(type, "Punctuation")) {
        WR_TRY(add_cut(tok, WR_CUT_PUNCTUATION, WR_CUT_ISOLATED, &step, err));
        WR_TRY(wr_field_only(obj, where, "type behavior", err));
        return json_object_get(obj, "behavior") ? get_rule(obj, where, &step->rule, err) : WEIR_OK;
    }
    if (wr_tok_is(type, "WhitespaceSplit") || wr_tok_is(type, "BertPreTokenizer")) {
        WR_TRY(wr_field_only(obj, where, "type", err));
        if (wr_tok_is(type, "BertPreTokenizer")) return wr_tok_add_bert_cuts(tok, err);
        return add_cut(tok, WR_CUT_SPACES, WR_CUT_REMOVED, &step, err);
    }
    if (wr_tok_is(type, "Whitespace")) {
        static const char pattern[] = "[\\w\\x{200C}\\x{200D}]+|[^\\w\\x{200C}\\x{200D}\\s]+";
        WR_TRY(wr_field_only(obj, where, "type", err));
        return cut_to_matches(tok, pattern, sizeof pattern - 1, err);
    }
    if (wr_tok_is(type, "UnicodeScripts")) {
        WR_TRY(wr_field_only(obj, where, "type", err));
        WR_TRY(add_cut(tok, WR_CUT_REGEX, WR_CUT_REMOVED, &step, err));
        step->invert = true;
        return wr_scripts_open(&step->regex, err);
    }
    if (wr_tok_is(type, "CharDelimiterSplit")) {
        uint32_t cp;
        WR_TRY(add_cut(tok, WR_CUT_TEXT, WR_CUT_REMOVED, &step, err));
        WR_TRY(wr_field_only(obj, where, "type delimiter", err));
        WR_TRY(wr_tok_keep_field(obj, where, "delimiter", &step->find, &step->find_bytes, err));
        if (step->find_bytes && wr_utf8_get((const uint8_t *)step->find, &cp) == (int)step->find_bytes) return WEIR_OK;
        return WR_FAIL(err, WEIR_E_FORMAT, "%s.delimiter must be one character", where);
    }
    if (wr_tok_is(type, "FixedLength")) {
        int64_t length = 5;
        WR_TRY(add_cut(tok, WR_CUT_LENGTH, WR_CUT_ISOLATED, &step, err));
        WR_TRY(wr_field_only(obj, where, "type length", err));
        WR_TRY(wr_field_int(obj, where, "length", &length, err));
        if (length < 1) return WR_FAIL(err, WEIR_E_FORMAT, "%s.length must be at least 1", where);
        step->length = (size_t)length;
        return WEIR_OK;
    }
    if (wr_tok_is(type, "Metaspace")) {
        WR_TRY(add_cut(tok, WR_CUT_METASPACE, WR_CUT_ISOLATED, &step, err));
        step->split = true;
        WR_TRY(wr_field_only(obj, where, wr_tok_metaspace_keys, err));
        WR_TRY(wr_tok_get_front(obj, where, &step->front, err));
        WR_TRY(wr_field_bool(obj, where, "split", &step->split, err));
        WR_TRY(wr_tok_get_replacement(obj, where, &text, &bytes, err));
        return wr_tok_keep(text, bytes, &step->find, &step->find_bytes, err);
    }
    return wr_tok_unsupported(where, type, err);
}

static weir_status read_cuts(weir_tokenizer *tok, const json_t *obj, int depth, weir_error *err) {
    const char *where = "pre_tokenizer", *type;
    if (!obj || json_is_null(obj)) return WEIR_OK;
    WR_TRY(wr_tok_get_type(obj, where, &type, err));
    if (!wr_tok_is(type, "Sequence")) return read_cut_step(tok, obj, type, err);
    json_t *list, *item;
    size_t i;
    WR_TRY(wr_tok_get_sequence(obj, where, "pretokenizers", depth, &list, err));
    json_array_foreach(list, i, item) WR_TRY(read_cuts(tok, item, depth + 1, err));
    return WEIR_OK;
}

weir_status wr_tok_read_pre_tokenizer(weir_tokenizer *tok, const json_t *obj, weir_error *err) {
    return read_cuts(tok, obj, 0, err);
}
