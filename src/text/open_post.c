/* The post_processor and the decoder of tokenizer.json. */
#include "text/fields.h"
#include "text/open_json.h"
#include "text/unicode.h"

enum { DECODE_TEXT_MAX = 256 };

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
            if (!wr_tok_is(name, "A") || !front) {
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

/* ByteLevel and RobertaProcessing can take white space out of the spans. */
static weir_status read_trim(weir_tokenizer *tok, const json_t *obj, const char *where, weir_error *err) {
    bool trim = true, front = true;
    WR_TRY(wr_field_bool(obj, where, "trim_offsets", &trim, err));
    WR_TRY(wr_field_bool(obj, where, "add_prefix_space", &front, err));
    if (!trim) return WEIR_OK;
    tok->trim_spans = true;
    tok->front_space = front;
    return WEIR_OK;
}

static weir_status read_post_processor(weir_tokenizer *tok, const json_t *obj, int depth, weir_error *err) {
    const char *where = "post_processor", *type;
    if (!obj || json_is_null(obj)) return WEIR_OK;
    WR_TRY(wr_tok_get_type(obj, where, &type, err));
    if (wr_tok_is(type, "Sequence")) {
        json_t *list, *item;
        size_t i;
        WR_TRY(wr_tok_get_sequence(obj, where, "processors", depth, &list, err));
        json_array_foreach(list, i, item) WR_TRY(read_post_processor(tok, item, depth + 1, err));
        return WEIR_OK;
    }
    if (wr_tok_is(type, "ByteLevel")) {
        WR_TRY(wr_field_only(obj, where, "type add_prefix_space trim_offsets use_regex", err));
        return read_trim(tok, obj, where, err);
    }
    if (tok->n_prefix || tok->n_suffix) {
        return WR_FAIL(err, WEIR_E_UNSUPPORTED, "%s: two steps that add tokens", where);
    }
    if (wr_tok_is(type, "TemplateProcessing")) return read_template(tok, obj, where, err);
    if (wr_tok_is(type, "RobertaProcessing")) WR_TRY(read_trim(tok, obj, where, err));
    if (wr_tok_is(type, "RobertaProcessing") || wr_tok_is(type, "BertProcessing")) {
        return read_cls_sep(tok, obj, where, err);
    }
    return wr_tok_unsupported(where, type, err);
}

weir_status wr_tok_read_post_processor(weir_tokenizer *tok, const json_t *obj, weir_error *err) {
    WR_TRY(read_post_processor(tok, obj, 0, err));
    if (tok->n_prefix) tok->bos = tok->prefix[0];
    return WEIR_OK;
}

/* ---- Decoders ------------------------------------------------------------- */

/* What the steps so far have made of the pieces: still one text each, byte tokens turned
 * to bytes, or all one text. */
typedef enum joining { JOIN_NONE, JOIN_BYTES, JOIN_ALL, JOIN_STRIPPED } joining;

static weir_status read_strip(weir_tokenizer *tok, const json_t *obj, const char *where, joining *joined,
                              weir_error *err) {
    const char *text = NULL;
    size_t bytes = 0;
    int64_t start = 0, stop = 0;
    uint32_t cp = 0;
    wr_decode_step *step;
    WR_TRY(wr_field_only(obj, where, "type content start stop", err));
    WR_TRY(wr_field_string(obj, where, "content", &text, &bytes, err));
    WR_TRY(wr_field_int(obj, where, "start", &start, err));
    WR_TRY(wr_field_int(obj, where, "stop", &stop, err));
    if (!text || !bytes || wr_utf8_get((const uint8_t *)text, &cp) != (int)bytes || start < 0 || stop < 0 ||
        start > DECODE_TEXT_MAX || stop > DECODE_TEXT_MAX) {
        return WR_FAIL(err, WEIR_E_FORMAT, "%s: Strip needs one character, and a start and stop of 0 to %d", where,
                       DECODE_TEXT_MAX);
    }
    if (*joined == JOIN_ALL) { /* from the whole text */
        tok->decode.strip_char = cp;
        tok->decode.n_strip = (uint32_t)start;
        tok->decode.n_strip_end = (uint32_t)stop;
        *joined = JOIN_STRIPPED;
        return WEIR_OK;
    }
    WR_TRY(wr_tok_add_decode(tok, &step, err));
    step->kind = WR_DECODE_STRIP;
    step->strip_char = cp;
    step->start = (uint32_t)start;
    step->stop = (uint32_t)stop;
    return WEIR_OK;
}

static weir_status read_replace(weir_tokenizer *tok, const json_t *obj, const char *where, joining joined,
                                weir_error *err) {
    wr_decode_step *step;
    uint32_t cp;
    WR_TRY(wr_tok_add_decode(tok, &step, err));
    step->kind = WR_DECODE_REPLACE;
    WR_TRY(wr_field_only(obj, where, "type pattern content", err));
    WR_TRY(wr_tok_get_pattern(obj, where, &step->find, &step->find_bytes, &step->regex, err));
    WR_TRY(wr_tok_keep_field(obj, where, "content", &step->put, &step->put_bytes, err));
    if (step->put_bytes > DECODE_TEXT_MAX || (!step->regex && !step->find_bytes)) {
        return WR_FAIL(err, WEIR_E_FORMAT, "%s: Replace needs a pattern and a content of at most %d bytes", where,
                       DECODE_TEXT_MAX);
    }
    /* In the joined text a longer one could lie across two pieces. */
    bool one = step->find && wr_utf8_get((const uint8_t *)step->find, &cp) == (int)step->find_bytes;
    if (joined < JOIN_ALL || (joined == JOIN_ALL && one)) return WEIR_OK;
    return WR_FAIL(err, WEIR_E_UNSUPPORTED, "%s: Replace of more than one character behind Fuse is not supported",
                   where);
}

weir_status wr_tok_decode_wordpiece(weir_tokenizer *tok, weir_error *err) {
    wr_decode_step *step;
    WR_TRY(wr_tok_add_decode(tok, &step, err));
    step->kind = WR_DECODE_WORDPIECE;
    step->cleanup = true;
    return wr_tok_keep("##", 2, &step->find, &step->find_bytes, err);
}

static weir_status read_words(weir_tokenizer *tok, const json_t *obj, const char *where, const char *type,
                              weir_error *err) {
    wr_decode_step *step;
    WR_TRY(wr_tok_add_decode(tok, &step, err));
    if (wr_tok_is(type, "WordPiece")) {
        step->kind = WR_DECODE_WORDPIECE;
        step->cleanup = true;
        WR_TRY(wr_field_only(obj, where, "type prefix cleanup", err));
        WR_TRY(wr_field_bool(obj, where, "cleanup", &step->cleanup, err));
        return wr_tok_keep_field(obj, where, "prefix", &step->find, &step->find_bytes, err);
    }
    if (wr_tok_is(type, "BPEDecoder")) {
        step->kind = WR_DECODE_SUFFIX;
        WR_TRY(wr_field_only(obj, where, "type suffix", err));
        return wr_tok_keep_field(obj, where, "suffix", &step->find, &step->find_bytes, err);
    }
    if (wr_tok_is(type, "CTC")) {
        step->kind = WR_DECODE_CTC;
        step->cleanup = true;
        tok->decode.repeats_count_once = true;
        WR_TRY(wr_field_only(obj, where, "type pad_token word_delimiter_token cleanup", err));
        WR_TRY(wr_field_bool(obj, where, "cleanup", &step->cleanup, err));
        WR_TRY(wr_tok_keep_field(obj, where, "pad_token", &step->find, &step->find_bytes, err));
        return wr_tok_keep_field(obj, where, "word_delimiter_token", &step->put, &step->put_bytes, err);
    }
    const char *text;
    size_t bytes;
    wr_cut_front front;
    step->kind = WR_DECODE_METASPACE;
    WR_TRY(wr_field_only(obj, where, wr_tok_metaspace_keys, err));
    WR_TRY(wr_tok_get_front(obj, where, &front, err));
    step->drop_in_first = front != WR_FRONT_NEVER;
    WR_TRY(wr_tok_get_replacement(obj, where, &text, &bytes, err));
    return wr_tok_keep(text, bytes, &step->find, &step->find_bytes, err);
}

static weir_status read_decoder(weir_tokenizer *tok, const json_t *obj, int depth, joining *joined, weir_error *err) {
    const char *where = "decoder", *type;
    wr_decode_rules *rules = &tok->decode;
    WR_TRY(wr_tok_get_type(obj, where, &type, err));
    if (wr_tok_is(type, "Sequence")) {
        json_t *list, *item;
        size_t i;
        WR_TRY(wr_tok_get_sequence(obj, where, "decoders", depth, &list, err));
        json_array_foreach(list, i, item) WR_TRY(read_decoder(tok, item, depth + 1, joined, err));
        return WEIR_OK;
    }
    bool words = wr_tok_is(type, "WordPiece") || wr_tok_is(type, "BPEDecoder") || wr_tok_is(type, "CTC") ||
                 wr_tok_is(type, "Metaspace");
    if (*joined == JOIN_STRIPPED || (*joined == JOIN_ALL && (words || wr_tok_is(type, "ByteFallback"))) ||
        (*joined != JOIN_NONE && wr_tok_is(type, "ByteLevel"))) {
        if (!wr_tok_is(type, "Fuse")) {
            return WR_FAIL(err, WEIR_E_UNSUPPORTED, "%s: the step \"%s\" at this place is not supported", where, type);
        }
    }
    if (words) return read_words(tok, obj, where, type, err);
    if (wr_tok_is(type, "Replace")) return read_replace(tok, obj, where, *joined, err);
    if (wr_tok_is(type, "Strip")) return read_strip(tok, obj, where, joined, err);
    if (wr_tok_is(type, "ByteLevel")) {
        rules->byte_level = true;
        *joined = JOIN_ALL;
        return wr_field_only(obj, where, "type add_prefix_space trim_offsets use_regex", err);
    }
    if (wr_tok_is(type, "ByteFallback")) {
        rules->byte_fallback = true;
        *joined = JOIN_BYTES;
        return wr_field_only(obj, where, "type", err);
    }
    if (!wr_tok_is(type, "Fuse")) return wr_tok_unsupported(where, type, err);
    if (*joined < JOIN_ALL) *joined = JOIN_ALL;
    return wr_field_only(obj, where, "type", err);
}

weir_status wr_tok_read_decoder(weir_tokenizer *tok, const json_t *obj, weir_error *err) {
    joining joined = JOIN_NONE;
    if (obj && !json_is_null(obj)) return read_decoder(tok, obj, 0, &joined, err);
    /* Without a decoder the format joins tokens with spaces, which for byte-level
     * pieces would give "Hello \xC4\xA0world": those are always turned back. */
    tok->decode.byte_level = tok->bpe.bytes;
    tok->decode.join_with_space = !tok->bpe.bytes;
    return WEIR_OK;
}
