/* Tokenizers from GGUF metadata. "gpt2" is byte-level BPE whose split rule the file
 * only names. "llama" is SentencePiece's BPE (no merges, the pair with the best score is
 * joined), "t5" its Unigram, "bert" WordPiece. */
#include <string.h>

#include "base/mem.h"
#include "text/sentencepiece.h"
#include "text/split_rules.h"
#include "text/tok.h"
#include "text/unicode.h"

/* Pieces with which published chat models end a turn or a text. A GGUF file names
 * one end token, where Hugging Face's generation_config.json lists several. */
static const char *const end_pieces[] = {"<|im_end|>",      "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>",
                                         "<|eom_id|>",      "<end_of_turn>", "<|end|>",    "<|return|>",
                                         "<|end_of_turn|>", "<|eot|>",       "<EOT>",      "</s>"};

void wr_vocab_source_init(wr_vocab_source *src) {
    *src = (wr_vocab_source){.bos_id = -1,
                             .eos_id = -1,
                             .eot_id = -1,
                             .eom_id = -1,
                             .unk_id = -1,
                             .pad_id = -1,
                             .add_bos = -1,
                             .add_eos = -1,
                             .add_space_prefix = -1,
                             .squeeze_spaces = -1};
}

/* A piece of "bert": U+2581 stands in front of those that begin a word; WordPiece marks
 * the others, and leaves names in brackets alone. */
static weir_status append_bert(weir_tokenizer *tok, size_t i, const char *text, size_t bytes, unsigned flags,
                               weir_error *err) {
    bool starts = bytes > WR_METASPACE_BYTES && memcmp(text, WR_METASPACE, WR_METASPACE_BYTES) == 0;
    bool name = bytes > 2 && text[0] == '[' && text[bytes - 1] == ']';
    if (starts) {
        return wr_vocab_append(&tok->vocab, (int64_t)i, text + WR_METASPACE_BYTES, bytes - WR_METASPACE_BYTES, flags,
                               err);
    }
    if (name || flags) return wr_vocab_append(&tok->vocab, (int64_t)i, text, bytes, flags, err);
    char *inner = wr_malloc(bytes + 2);
    if (!inner) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for token %zu", i);
    memcpy(inner, "##", 2);
    memcpy(inner + 2, text, bytes);
    weir_status st = wr_vocab_append(&tok->vocab, (int64_t)i, inner, bytes + 2, flags, err);
    wr_free(inner);
    return st;
}

/* All pieces, with flags by their types. */
static weir_status read_tokens(weir_tokenizer *tok, const wr_vocab_source *src, weir_error *err) {
    size_t n = src->tokens.n;
    bool bert = strcmp(src->model, "bert") == 0;
    if (n == 0) return WR_FAIL(err, WEIR_E_FORMAT, "tokenizer.ggml.tokens is missing or empty");
    /* Published vocabularies have 7 to 9 bytes a piece. */
    WR_TRY(wr_vocab_init(&tok->vocab, n, n < WR_VOCAB_MAX ? n * 9 : 0, err));
    for (size_t i = 0; i < n; i++) {
        const char *text;
        size_t bytes;
        unsigned flags;
        if (!src->tokens.get(src->tokens.context, i, &text, &bytes)) {
            return WR_FAIL(err, WEIR_E_FORMAT, "tokenizer.ggml.tokens has no string at %zu of %zu", i, n);
        }
        WR_TRY(wr_piece_flags(wr_piece_kind_at(src->token_type, i), text, bytes, i, &flags, err));
        WR_TRY(bert ? append_bert(tok, i, text, bytes, flags, err)
                    : wr_vocab_append(&tok->vocab, (int64_t)i, text, bytes, flags, err));
    }
    return wr_vocab_link_all(&tok->vocab, err);
}

static weir_status read_merges(weir_tokenizer *tok, const wr_vocab_source *src, weir_error *err) {
    const wr_vocab *v = &tok->vocab;
    size_t n = src->merges.n, bytes;
    if (n == 0) return WR_FAIL(err, WEIR_E_FORMAT, "tokenizer.ggml.merges is missing; model \"gpt2\" needs it");
    if (n > WR_VOCAB_MAX) {
        return WR_FAIL(err, WEIR_E_LIMIT, "tokenizer.ggml.merges has %zu entries, at most %d are allowed", n,
                       WR_VOCAB_MAX);
    }
    wr_merge *merges = wr_malloc(n * sizeof *merges);
    uint8_t *joined = NULL;
    size_t joined_cap = 0;
    int32_t guess = -1; /* trainers number tokens in the order of the merges that make them */
    if (!merges) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for %zu merges", n);
    weir_status st = WEIR_OK;
    for (size_t i = 0; i < n; i++) {
        const char *text, *space = NULL;
        char shown[72];
        if (!src->merges.get(src->merges.context, i, &text, &bytes)) {
            st = WR_FAIL(err, WEIR_E_FORMAT, "tokenizer.ggml.merges has no string at %zu of %zu", i, n);
            goto done;
        }
        /* A piece never contains a space, so the first one that has text before it
         * is the separator. */
        if (bytes > 2) space = memchr(text + 1, ' ', bytes - 2);
        if (!space) {
            st = WR_FAIL(err, WEIR_E_FORMAT, "tokenizer.ggml.merges[%zu] \"%s\" is not two pieces with a space between",
                         i, wr_vocab_show(text, bytes, shown));
            goto done;
        }
        size_t left = (size_t)(space - text), right = bytes - left - 1;
        if (!wr_grow(&joined, &joined_cap, left + right, 1)) {
            st = WR_FAIL(err, WEIR_E_MEMORY, "no memory for %zu merges", n);
            goto done;
        }
        memcpy(joined, text, left);
        memcpy(joined + left, space + 1, right);
        merges[i] = (wr_merge){wr_vocab_find(v, text, left), wr_vocab_find(v, space + 1, right),
                               wr_vocab_find_near(v, guess, joined, left + right)};
        guess = merges[i].joined + 1;
        if (merges[i].left < 0 || merges[i].right < 0 || merges[i].joined < 0) {
            const char *which = merges[i].left < 0 ? "left" : merges[i].right < 0 ? "right" : "joined";
            st = WR_FAIL(err, WEIR_E_FORMAT, "tokenizer.ggml.merges[%zu] \"%s\": its %s piece is no token", i,
                         wr_vocab_show(text, bytes, shown), which);
            goto done;
        }
    }
    st = wr_bpe_take_merges(&tok->bpe, merges, n, err);
    merges = NULL;
done:
    wr_free(joined);
    wr_free(merges);
    return st;
}

static weir_status open_gpt2(weir_tokenizer *tok, const wr_vocab_source *src, weir_error *err) {
    const char *pre = src->pre ? src->pre : "default";
    const wr_split_rule *rule = wr_split_rule_find(pre);
    if (!rule) {
        char shown[72];
        return WR_FAIL(err, WEIR_E_UNSUPPORTED,
                       "tokenizer.ggml.pre is \"%s\": its split rule is not known; use the model's tokenizer.json",
                       wr_vocab_show(pre, strlen(pre), shown));
    }
    if (src->add_space_prefix > 0) {
        return WR_FAIL(err, WEIR_E_UNSUPPORTED, "tokenizer.ggml.add_space_prefix is true for model \"gpt2\"");
    }
    tok->bpe.bytes = tok->decode.byte_level = true;
    /* Byte-level files have no unknown token in their model: SmolLM2
     * names <|endoftext|>, but the 21 bytes that its vocabulary lacks (six control
     * characters, and bytes of no character in use) are left out. */
    WR_TRY(read_merges(tok, src, err));
    WR_TRY(wr_split_rule_apply(rule, tok, err));
    return wr_tok_add_piece_kinds(tok, src->token_type, err);
}

static weir_status open_pieces(weir_tokenizer *tok, const wr_vocab_source *src, bool unigram, weir_error *err) {
    size_t n = src->tokens.n, n_bytes = 0;
    if (!unigram && src->pre && strcmp(src->pre, "default") != 0) {
        char shown[72];
        return WR_FAIL(err, WEIR_E_UNSUPPORTED,
                       "tokenizer.ggml.pre is \"%s\" for model \"llama\"; known is \"default\"",
                       wr_vocab_show(src->pre, strlen(src->pre), shown));
    }
    if (!src->scores) {
        return WR_FAIL(err, WEIR_E_FORMAT, "tokenizer.ggml.scores is missing; model \"%s\" needs it", src->model);
    }
    for (size_t i = 0; i < n; i++) n_bytes += wr_piece_kind_at(src->token_type, i) == WR_PIECE_BYTE;
    float *scores = wr_malloc(n * sizeof *scores); /* the source's may be unaligned */
    if (!scores) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the scores of %zu tokens", n);
    memcpy(scores, src->scores, n * sizeof *scores);
    wr_piece_model m = {.unigram = unigram,
                        .byte_fallback = !unigram || n_bytes,
                        .dummy_prefix = src->add_space_prefix != 0,
                        .squeeze = src->squeeze_spaces > 0,
                        .escape = true,
                        .rules = src->rules,
                        .rules_bytes = src->rules_bytes,
                        .scores = scores,
                        .kinds = src->token_type,
                        .unk = src->unk_id};
    weir_status st = wr_tok_set_pieces(tok, &m, err);
    wr_free(scores);
    return st;
}

/* BERT without capitals: the format has no field for the others. */
static weir_status open_bert(weir_tokenizer *tok, const wr_vocab_source *src, weir_error *err) {
    WR_TRY(wr_tok_add_bert_norms(tok, true, true, true, true, err));
    WR_TRY(wr_tok_add_bert_cuts(tok, err));
    tok->kind = WR_MODEL_WORDPIECE;
    tok->wordpiece.max_chars = 100;
    tok->wordpiece.unk = src->unk_id;
    WR_TRY(wr_tok_decode_wordpiece(tok, err));
    WR_TRY(wr_wordpiece_init(&tok->wordpiece, "##", 2, err));
    return wr_tok_add_piece_kinds(tok, src->token_type, err);
}

static weir_status check_id(const weir_tokenizer *tok, int32_t id, const char *key, weir_error *err) {
    if (id < -1 || (id >= 0 && (size_t)id >= tok->vocab.n)) {
        return WR_FAIL(err, WEIR_E_FORMAT, "tokenizer.ggml.%s_token_id is %d, the vocabulary has %zu tokens", key, id,
                       tok->vocab.n);
    }
    return WEIR_OK;
}

static weir_status set_special_ids(weir_tokenizer *tok, const wr_vocab_source *src, weir_error *err) {
    WR_TRY(check_id(tok, src->bos_id, "bos", err));
    WR_TRY(check_id(tok, src->eos_id, "eos", err));
    WR_TRY(check_id(tok, src->eot_id, "eot", err));
    WR_TRY(check_id(tok, src->eom_id, "eom", err));
    WR_TRY(check_id(tok, src->unk_id, "unknown", err));
    WR_TRY(check_id(tok, src->pad_id, "padding", err));
    tok->bos = src->bos_id;
    tok->unk = src->unk_id;
    tok->pad = src->pad_id;
    const int32_t ends[] = {src->eos_id, src->eot_id, src->eom_id};
    for (size_t i = 0; i < 3; i++) {
        if (ends[i] >= 0) WR_TRY(wr_tokenizer_add_eos(tok, ends[i], err));
    }
    for (size_t i = 0; i < sizeof end_pieces / sizeof *end_pieces; i++) {
        int32_t id = wr_vocab_find(&tok->vocab, end_pieces[i], strlen(end_pieces[i]));
        if (id >= 0 && wr_piece_kind_at(src->token_type, (size_t)id) == WR_PIECE_CONTROL)
            WR_TRY(wr_tokenizer_add_eos(tok, id, err));
    }
    bool bert = strcmp(src->model, "bert") == 0, t5 = strcmp(src->model, "t5") == 0;
    bool add_bos =
        src->add_bos > 0 || (src->add_bos < 0 && (bert || strcmp(src->model, "llama") == 0) && src->bos_id >= 0);
    bool add_eos = src->add_eos > 0 || (src->add_eos < 0 && (bert || t5) && src->eos_id >= 0);
    if (src->add_bos > 0 && src->bos_id < 0) {
        return WR_FAIL(err, WEIR_E_FORMAT, "tokenizer.ggml.add_bos_token is true but there is no bos_token_id");
    }
    if (src->add_eos > 0 && src->eos_id < 0) {
        return WR_FAIL(err, WEIR_E_FORMAT, "tokenizer.ggml.add_eos_token is true but there is no eos_token_id");
    }
    if (add_bos) tok->prefix[tok->n_prefix++] = src->bos_id;
    if (add_eos) tok->suffix[tok->n_suffix++] = src->eos_id;
    return WEIR_OK;
}

weir_status wr_tokenizer_open_vocab(const wr_vocab_source *src, weir_tokenizer **out, weir_error *err) {
    weir_tokenizer *tok = NULL;
    weir_status st;
    *out = NULL;
    if (!src->model) return WR_FAIL(err, WEIR_E_FORMAT, "tokenizer.ggml.model is missing");
    bool gpt2 = strcmp(src->model, "gpt2") == 0, bert = strcmp(src->model, "bert") == 0;
    bool t5 = strcmp(src->model, "t5") == 0;
    if (!gpt2 && !bert && !t5 && strcmp(src->model, "llama") != 0) {
        char shown[72];
        return WR_FAIL(err, WEIR_E_UNSUPPORTED,
                       "tokenizer.ggml.model is \"%s\"; supported are gpt2, llama, t5 and bert",
                       wr_vocab_show(src->model, strlen(src->model), shown));
    }
    WR_TRY_GOTO(st, wr_tok_new(&tok, err), fail);
    WR_TRY_GOTO(st, read_tokens(tok, src, err), fail);
    WR_TRY_GOTO(st, set_special_ids(tok, src, err), fail);
    WR_TRY_GOTO(st,
                gpt2   ? open_gpt2(tok, src, err)
                : bert ? open_bert(tok, src, err)
                       : open_pieces(tok, src, t5, err),
                fail);
    WR_TRY_GOTO(st, wr_tokenizer_set_chat_template(tok, src->chat_template, err), fail);
    WR_TRY_GOTO(st, wr_tok_finish(tok, err), fail);
    *out = tok;
    return WEIR_OK;
fail:
    weir_tokenizer_close(tok);
    return st;
}
