/* What all tokenizers share: making, closing and asking. */
#include "text/tok.h"

#include <string.h>

#include "base/mem.h"
#include "text/unicode.h"

const char wr_gpt2_pattern[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

weir_status wr_tok_new(weir_tokenizer **out, weir_error *err) {
    weir_tokenizer *tok = wr_calloc(1, sizeof *tok);
    *out = tok;
    if (!tok) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a tokenizer");
    tok->bpe.vocab = tok->unigram.vocab = tok->wordpiece.vocab = &tok->vocab;
    tok->bpe.unk = tok->unigram.unk = tok->wordpiece.unk = tok->bos = tok->pad = tok->unk = -1;
    return WEIR_OK;
}

void weir_tokenizer_close(weir_tokenizer *tok) {
    if (!tok) return;
    for (size_t i = 0; i < tok->n_norm; i++) wr_norm_step_deinit(&tok->norm[i]);
    for (size_t i = 0; i < tok->n_cut; i++) wr_cut_step_deinit(&tok->cut[i]);
    wr_free(tok->norm);
    wr_free(tok->cut);
    wr_added_deinit(&tok->raw);
    wr_added_deinit(&tok->normalized);
    wr_added_deinit(&tok->atoms);
    wr_bpe_deinit(&tok->bpe);
    wr_unigram_deinit(&tok->unigram);
    wr_wordpiece_deinit(&tok->wordpiece);
    wr_vocab_deinit(&tok->vocab);
    wr_decode_rules_deinit(&tok->decode);
    wr_free(tok->chat_template);
    wr_free(tok);
}

wr_norm_step *wr_tok_add_norm(weir_tokenizer *tok) {
    if (!wr_grow(&tok->norm, &tok->norm_cap, tok->n_norm + 1, sizeof *tok->norm)) return NULL;
    wr_norm_step *step = &tok->norm[tok->n_norm++];
    *step = (wr_norm_step){0};
    return step;
}

wr_cut_step *wr_tok_add_cut(weir_tokenizer *tok) {
    if (!wr_grow(&tok->cut, &tok->cut_cap, tok->n_cut + 1, sizeof *tok->cut)) return NULL;
    wr_cut_step *step = &tok->cut[tok->n_cut++];
    *step = (wr_cut_step){0};
    return step;
}

weir_status wr_tok_add_cut_regex(weir_tokenizer *tok, const char *pattern, weir_error *err) {
    wr_cut_step *step = wr_tok_add_cut(tok);
    if (!step) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a tokenizer");
    step->kind = WR_CUT_REGEX;
    return wr_regex_open(pattern, strlen(pattern), &step->regex, err);
}

weir_status wr_tok_add_added(weir_tokenizer *tok, int32_t id, unsigned flags, weir_error *err) {
    wr_vocab *v = &tok->vocab;
    const uint8_t *piece = wr_vocab_piece(v, id);
    size_t bytes = wr_vocab_length(v, id);
    v->flags[id] |= WR_TOKEN_ADDED | (flags & WR_ADDED_SPECIAL ? WR_TOKEN_SPECIAL : 0);
    if (!(flags & WR_ADDED_NORMALIZED)) return wr_added_add(&tok->raw, id, piece, bytes, flags, err);
    wr_text buffers[2] = {0};
    wr_regex_scratch scratch = {0};
    wr_view view = {.data = piece, .n = bytes};
    weir_status st = wr_normalize(tok->norm, tok->n_norm, &view, buffers, &scratch, err);
    if (st == WEIR_OK) st = wr_added_add(&tok->normalized, id, view.data, view.n, flags, err);
    wr_text_deinit(&buffers[0]);
    wr_text_deinit(&buffers[1]);
    wr_regex_scratch_deinit(&scratch);
    return st;
}

weir_status wr_tok_add_decode(weir_tokenizer *tok, wr_decode_step **out, weir_error *err) {
    wr_decode_rules *rules = &tok->decode;
    if (rules->n_steps == WR_DECODE_STEPS_MAX) {
        return WR_FAIL(err, WEIR_E_LIMIT, "decoder: more than %d steps", WR_DECODE_STEPS_MAX);
    }
    *out = &rules->steps[rules->n_steps++];
    **out = (wr_decode_step){0};
    return WEIR_OK;
}

weir_status wr_tok_decode_metaspace(weir_tokenizer *tok, weir_error *err) {
    wr_decode_step *step = NULL;
    WR_TRY(wr_tok_add_decode(tok, &step, err));
    step->kind = WR_DECODE_METASPACE;
    step->find = wr_strdup(WR_METASPACE);
    step->find_bytes = WR_METASPACE_BYTES;
    return step->find ? WEIR_OK : WR_FAIL(err, WEIR_E_MEMORY, "no memory for a tokenizer");
}

weir_status wr_tok_finish(weir_tokenizer *tok, weir_error *err) {
    wr_added_sort(&tok->raw);
    wr_added_sort(&tok->normalized);
    wr_added_sort(&tok->atoms);
    wr_vocab_trim(&tok->vocab);
    wr_bpe_find_bytes(&tok->bpe);
    if (tok->kind == WR_MODEL_BPE) wr_bpe_finish(&tok->bpe);
    for (int b = 0; b < 256 && tok->unigram.byte_fallback; b++) {
        tok->unigram.byte_ids[b] = wr_vocab_find_byte(&tok->vocab, (uint8_t)b);
    }
    return wr_decode_rules_finish(&tok->decode, &tok->vocab, err);
}

int32_t weir_tokenizer_vocab_size(const weir_tokenizer *tok) { return (int32_t)tok->vocab.n; }

const char *weir_tokenizer_piece(const weir_tokenizer *tok, int32_t id, size_t *bytes) {
    bool has = wr_vocab_has(&tok->vocab, id);
    if (bytes) *bytes = has ? wr_vocab_length(&tok->vocab, id) : 0;
    return has ? (const char *)wr_vocab_piece(&tok->vocab, id) : NULL;
}

int32_t weir_tokenizer_find(const weir_tokenizer *tok, const char *piece, size_t bytes) {
    return wr_vocab_find(&tok->vocab, piece, bytes);
}

int32_t weir_tokenizer_bos(const weir_tokenizer *tok) { return tok->bos; }
int32_t weir_tokenizer_pad(const weir_tokenizer *tok) { return tok->pad; }
int32_t weir_tokenizer_unk(const weir_tokenizer *tok) { return tok->unk; }

size_t weir_tokenizer_eos(const weir_tokenizer *tok, const int32_t **ids) {
    if (ids) *ids = tok->eos;
    return tok->n_eos;
}

bool weir_tokenizer_is_eos(const weir_tokenizer *tok, int32_t id) {
    for (size_t i = 0; i < tok->n_eos; i++) {
        if (tok->eos[i] == id) return true;
    }
    return false;
}

bool weir_tokenizer_is_special(const weir_tokenizer *tok, int32_t id) {
    return wr_vocab_has(&tok->vocab, id) && (tok->vocab.flags[id] & WR_TOKEN_SPECIAL);
}

const char *weir_tokenizer_chat_template(const weir_tokenizer *tok) { return tok->chat_template; }

weir_status wr_tokenizer_add_eos(weir_tokenizer *tok, int32_t id, weir_error *err) {
    if (id < 0 || (size_t)id >= tok->vocab.n) {
        return WR_FAIL(err, WEIR_E_ARGUMENT, "end-of-text id %d is outside the tokenizer's %zu tokens", id,
                       tok->vocab.n);
    }
    if (weir_tokenizer_is_eos(tok, id)) return WEIR_OK;
    if (tok->n_eos == WR_TOK_EOS_MAX) {
        return WR_FAIL(err, WEIR_E_LIMIT, "more than %d ids end a text", WR_TOK_EOS_MAX);
    }
    tok->eos[tok->n_eos++] = id;
    return WEIR_OK;
}

weir_status wr_tokenizer_set_chat_template(weir_tokenizer *tok, const char *text, weir_error *err) {
    char *copy = NULL;
    if (text && !(copy = wr_strdup(text))) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the chat template");
    wr_free(tok->chat_template);
    tok->chat_template = copy;
    return WEIR_OK;
}

size_t wr_tokenizer_heap_bytes(const weir_tokenizer *tok) {
    return sizeof *tok + wr_vocab_heap_bytes(&tok->vocab) + wr_bpe_heap_bytes(&tok->bpe) +
           wr_unigram_heap_bytes(&tok->unigram) + wr_wordpiece_heap_bytes(&tok->wordpiece) +
           wr_decode_rules_heap_bytes(&tok->decode) + wr_added_heap_bytes(&tok->atoms) +
           wr_added_heap_bytes(&tok->raw) + wr_added_heap_bytes(&tok->normalized) + tok->norm_cap * sizeof *tok->norm +
           tok->cut_cap * sizeof *tok->cut + (tok->chat_template ? strlen(tok->chat_template) + 1 : 0);
}
