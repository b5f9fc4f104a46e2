/* vocab.txt: the pieces of a BERT model, one a line; a line's number is the id. How text becomes words, and which
 * tokens are special, stands in tokenizer_config.json or is what transformers' BertTokenizer takes for granted. */
#include <string.h>

#include "text/fields.h"
#include "text/formats.h"
#include "text/open_json.h"
#include "text/unicode.h"

static const char where[] = "tokenizer_config.json";

/* A line as Python reads it: it ends with \n, \r\n or \r, or with the file. */
static size_t line_length(const char *text, size_t bytes, size_t *whole) {
    size_t n = 0;
    while (n < bytes && text[n] != '\n' && text[n] != '\r') n++;
    *whole = n + (n < bytes) + (n + 1 < bytes && text[n] == '\r' && text[n + 1] == '\n');
    return n;
}

static weir_status read_lines(weir_tokenizer *tok, const char *text, size_t bytes, weir_error *err) {
    size_t whole, n, valid;
    /* Published vocabularies have 7 to 9 bytes a line. */
    WR_TRY(wr_vocab_init(&tok->vocab, bytes / 8 < WR_VOCAB_MAX ? bytes / 8 : WR_VOCAB_MAX, 0, err));
    for (size_t at = 0, id = 0; at < bytes; at += whole, id++) {
        n = line_length(text + at, bytes - at, &whole);
        valid = wr_utf8_valid((const uint8_t *)text + at, n);
        if (valid < n) return WR_FAIL(err, WEIR_E_FORMAT, "line %zu, byte %zu is not UTF-8", id + 1, valid + 1);
        if (n)
            WR_TRY(wr_vocab_append(&tok->vocab, (int64_t)id, text + at, n, 0, err)); /* an empty one is never found */
    }
    if (!tok->vocab.n) return WR_FAIL(err, WEIR_E_FORMAT, "the vocabulary has no tokens");
    return wr_vocab_link_all(&tok->vocab, err);
}

/* BertTokenizer's own kind, under whichever name; others that have a vocab.txt do other things with it. */
static weir_status check_class(const json_t *config, weir_error *err) {
    static const char *const known[] = {"BertTokenizer",       "DistilBertTokenizer", "ElectraTokenizer",
                                        "MobileBertTokenizer", "ConvBertTokenizer",   "SqueezeBertTokenizer",
                                        "LayoutLMTokenizer",   "LxmertTokenizer",     "RetriBertTokenizer",
                                        "PreTrainedTokenizer"};
    const char *name = NULL;
    size_t bytes;
    WR_TRY(wr_field_string(config, where, "tokenizer_class", &name, &bytes, err));
    if (!name) return WEIR_OK;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t n = strlen(known[i]);
        if (strncmp(name, known[i], n) == 0 && (!name[n] || wr_tok_is(name + n, "Fast"))) return WEIR_OK;
    }
    char shown[72];
    return WR_FAIL(err, WEIR_E_UNSUPPORTED,
                   "%s: tokenizer_class \"%s\" cannot be read from vocab.txt; use the model's tokenizer.json", where,
                   wr_vocab_show(name, bytes, shown));
}

static weir_status read_words(weir_tokenizer *tok, const json_t *config, weir_error *err) {
    bool lowercase = true, cjk = true, basic = true;
    WR_TRY(wr_field_bool(config, where, "do_lower_case", &lowercase, err));
    WR_TRY(wr_field_bool(config, where, "tokenize_chinese_chars", &cjk, err));
    WR_TRY(wr_field_bool(config, where, "do_basic_tokenize", &basic, err));
    bool strip = lowercase; /* also where it is null */
    WR_TRY(wr_field_bool(config, where, "strip_accents", &strip, err));
    const json_t *kept = json_object_get(config, "never_split");
    if (!basic || (kept && !json_is_null(kept) && !(json_is_array(kept) && !json_array_size(kept))))
        return WR_FAIL(err, WEIR_E_UNSUPPORTED, "%s: %s is not supported; use the model's tokenizer.json", where,
                       basic ? "never_split" : "do_basic_tokenize false");
    WR_TRY(wr_tok_add_bert_norms(tok, true, cjk, strip, lowercase, err));
    return wr_tok_add_bert_cuts(tok, err);
}

/* The token that config, or else transformers, names for a purpose; it must be there, or may be. */
static weir_status read_special(weir_tokenizer *tok, const json_t *config, const char *key, const char *text, bool must,
                                int32_t *id, weir_error *err) {
    size_t bytes = strlen(text);
    char shown[72];
    WR_TRY(wr_tok_get_named(config, key, &text, &bytes, err));
    *id = wr_vocab_find(&tok->vocab, text, bytes);
    if (*id >= 0) {
        if (tok->vocab.flags[*id] & WR_TOKEN_ADDED) return WEIR_OK; /* of two purposes */
        return wr_tok_add_added(tok, *id, WR_ADDED_SPECIAL, err);
    }
    if (!must) return WEIR_OK;
    return WR_FAIL(err, WEIR_E_FORMAT, "the vocabulary has no token \"%s\"; name the model's own as %s in %s",
                   wr_vocab_show(text, bytes, shown), key, where);
}

weir_status wr_tok_build_wordpiece(weir_tokenizer *tok, const char *text, size_t bytes, const json_t *config,
                                   weir_error *err) {
    int32_t cls, sep, mask;
    if (config && !json_is_object(config)) return WR_FAIL(err, WEIR_E_FORMAT, "%s is not an object", where);
    WR_TRY(check_class(config, err));
    WR_TRY(read_lines(tok, text, bytes, err));
    WR_TRY(read_words(tok, config, err));
    WR_TRY(read_special(tok, config, "unk_token", "[UNK]", true, &tok->unk, err));
    WR_TRY(read_special(tok, config, "cls_token", "[CLS]", true, &cls, err));
    WR_TRY(read_special(tok, config, "sep_token", "[SEP]", true, &sep, err));
    WR_TRY(read_special(tok, config, "pad_token", "[PAD]", false, &tok->pad, err));
    WR_TRY(read_special(tok, config, "mask_token", "[MASK]", false, &mask, err));
    tok->bos = tok->prefix[tok->n_prefix++] = cls;
    tok->suffix[tok->n_suffix++] = sep;
    tok->kind = WR_MODEL_WORDPIECE;
    tok->wordpiece.max_chars = 100;
    tok->wordpiece.unk = tok->unk;
    WR_TRY(wr_tok_decode_wordpiece(tok, err));
    return wr_wordpiece_init(&tok->wordpiece, "##", 2, err);
}
