/* Tokenizers from GGUF metadata. "gpt2" is byte-level BPE whose split rule the file
 * only names; the rules stand here. "llama" is SentencePiece's BPE: no merges, the
 * pair with the best score is joined. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "text/tok.h"
#include "text/unicode.h"

/* Token types of the format. */
enum { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER, TYPE_UNUSED, TYPE_BYTE };

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define LETTERS      "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define REST         " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER        "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER        "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(end)   "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" end "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" end
#define CASED_REST   " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* What each published tokenizer.json says under these names. */
typedef struct split_rule {
    const char *names; /* separated by spaces */
    const char *pattern;
    bool digits; /* every number character is a word of its own, before the pattern */
    bool nfc, ignore_merges;
} split_rule;

static const split_rule split_rules[] = {
    {"default gpt-2 gpt2 mpt olmo phi-2 jais", wr_gpt2_pattern, false, false, false},
    {"smollm starcoder refact codeshell", wr_gpt2_pattern, true, false, false},
    {"command-r", wr_gpt2_pattern, true, true, false},
    {"qwen2 deepseek-r1-qwen", CONTRACTIONS "|" LETTERS "|\\p{N}|" REST, false, true, false},
    {"llama-bpe llama3 llama-v3 dbrx smaug-bpe", CONTRACTIONS "|" LETTERS "|\\p{N}{1,3}|" REST, false, false, true},
    {"gpt-4o", CASED(CONTRACTIONS "?") "|\\p{N}{1,3}|" CASED_REST, false, false, false},
    {"tekken", CASED("") "|\\p{N}|" CASED_REST, false, false, true},
};

/* Pieces with which published chat models end a turn or a text. A GGUF file names
 * one end token, where Hugging Face's generation_config.json lists several. */
static const char *const end_pieces[] = {"<|im_end|>",      "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>",
                                         "<|eom_id|>",      "<end_of_turn>", "<|end|>",    "<|return|>",
                                         "<|end_of_turn|>", "<|eot|>",       "<EOT>",      "</s>"};

static bool named(const char *names, const char *name) {
    size_t n = strlen(name);
    for (const char *p = names; n && (p = strstr(p, name)); p++) {
        if ((p == names || p[-1] == ' ') && (p[n] == 0 || p[n] == ' ') && !strchr(name, ' ')) return true;
    }
    return false;
}

void wr_vocab_source_init(wr_vocab_source *src) {
    *src = (wr_vocab_source){.bos_id = -1,
                             .eos_id = -1,
                             .eot_id = -1,
                             .eom_id = -1,
                             .unk_id = -1,
                             .pad_id = -1,
                             .add_bos = -1,
                             .add_eos = -1,
                             .add_space_prefix = -1};
}

static int32_t type_at(const wr_vocab_source *src, size_t i) {
    int32_t type = TYPE_NORMAL;
    if (src->token_type) memcpy(&type, (const char *)src->token_type + i * sizeof type, sizeof type);
    return type;
}

/* All pieces, with flags by their types. */
static weir_status read_tokens(weir_tokenizer *tok, const wr_vocab_source *src, weir_error *err) {
    size_t n = src->tokens.n;
    if (n == 0) return WR_FAIL(err, WEIR_E_FORMAT, "tokenizer.ggml.tokens is missing or empty");
    /* Published vocabularies have 7 to 9 bytes a piece. */
    WR_TRY(wr_vocab_init(&tok->vocab, n, n < WR_VOCAB_MAX ? n * 9 : 0, err));
    for (size_t i = 0; i < n; i++) {
        const char *text;
        size_t bytes;
        if (!src->tokens.get(src->tokens.context, i, &text, &bytes)) {
            return WR_FAIL(err, WEIR_E_FORMAT, "tokenizer.ggml.tokens has no string at %zu of %zu", i, n);
        }
        int32_t type = type_at(src, i);
        unsigned flags = 0;
        switch (type) {
        case TYPE_NORMAL: break;
        case TYPE_UNKNOWN:
        case TYPE_CONTROL: flags = WR_TOKEN_SPECIAL; break;
        case TYPE_USER: break;
        case TYPE_UNUSED: flags = WR_TOKEN_UNUSED; break;
        case TYPE_BYTE:
            if (wr_vocab_byte_value((const uint8_t *)text, bytes) < 0) {
                return WR_FAIL(err, WEIR_E_FORMAT,
                               "tokenizer.ggml.token_type says that token %zu is a byte, but its "
                               "piece is not like <0xAB>",
                               i);
            }
            flags = WR_TOKEN_BYTE;
            break;
        default: return WR_FAIL(err, WEIR_E_FORMAT, "tokenizer.ggml.token_type[%zu] is %d, known are 1 to 6", i, type);
        }
        WR_TRY(wr_vocab_append(&tok->vocab, (int64_t)i, text, bytes, flags, err));
    }
    return wr_vocab_link_all(&tok->vocab, err);
}

static const char metaspace[] = "\xE2\x96\x81"; /* U+2581 stands for the space */

/* SentencePiece looks for user-defined symbols where spaces are U+2581 already; the
 * file has them with spaces. */
static weir_status add_user_symbol(weir_tokenizer *tok, int32_t id, weir_error *err) {
    const uint8_t *piece = wr_vocab_piece(&tok->vocab, id);
    wr_text spelled = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < wr_vocab_length(&tok->vocab, id); i++) {
        ok = piece[i] == ' ' ? wr_text_add(&spelled, metaspace, 3, (wr_range){0, 0})
                             : wr_text_add(&spelled, piece + i, 1, (wr_range){0, 0});
    }
    tok->vocab.flags[id] |= WR_TOKEN_ADDED;
    weir_status st = ok ? wr_added_add(&tok->normalized, id, spelled.data, spelled.n, 0, err)
                        : WR_FAIL(err, WEIR_E_MEMORY, "no memory for the user-defined token %d", id);
    wr_text_deinit(&spelled);
    return st;
}

static weir_status read_added(weir_tokenizer *tok, const wr_vocab_source *src, weir_error *err) {
    for (size_t i = 0; src->token_type && i < src->tokens.n; i++) {
        int32_t type = type_at(src, i);
        if (type != TYPE_UNKNOWN && type != TYPE_CONTROL && type != TYPE_USER) continue;
        size_t bytes = wr_vocab_length(&tok->vocab, (int32_t)i);
        if (wr_utf8_valid(wr_vocab_piece(&tok->vocab, (int32_t)i), bytes) != bytes) {
            return WR_FAIL(err, WEIR_E_FORMAT, "the piece of token %zu (control or user-defined) is not UTF-8", i);
        }
        if (type == TYPE_USER && tok->bpe.scores) {
            WR_TRY(add_user_symbol(tok, (int32_t)i, err));
        } else {
            WR_TRY(wr_tok_add_added(tok, (int32_t)i, type == TYPE_USER ? 0 : WR_ADDED_SPECIAL, err));
        }
    }
    return WEIR_OK;
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
    const split_rule *rule = NULL;
    for (size_t i = 0; i < sizeof split_rules / sizeof *split_rules; i++) {
        if (named(split_rules[i].names, pre)) rule = &split_rules[i];
    }
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
    tok->bpe.ignore_merges = rule->ignore_merges;
    /* Byte-level files have no unknown token in their model: SmolLM2
     * names <|endoftext|>, but the 21 bytes that its vocabulary lacks (six control
     * characters, and bytes of no character in use) are left out. */
    WR_TRY(read_merges(tok, src, err));
    if (rule->nfc) {
        wr_norm_step *step = wr_tok_add_norm(tok);
        if (!step) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a tokenizer");
        step->kind = WR_NORM_FORM;
        step->compose = true;
    }
    if (rule->digits) {
        wr_cut_step *step = wr_tok_add_cut(tok);
        if (!step) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a tokenizer");
        step->kind = WR_CUT_NUMBERS;
    }
    return wr_tok_add_cut_regex(tok, rule->pattern, err);
}

static weir_status open_llama(weir_tokenizer *tok, const wr_vocab_source *src, weir_error *err) {
    size_t n = src->tokens.n;
    if (src->pre && strcmp(src->pre, "default") != 0) {
        char shown[72];
        return WR_FAIL(err, WEIR_E_UNSUPPORTED,
                       "tokenizer.ggml.pre is \"%s\" for model \"llama\"; known is \"default\"",
                       wr_vocab_show(src->pre, strlen(src->pre), shown));
    }
    if (!src->scores) {
        return WR_FAIL(err, WEIR_E_FORMAT, "tokenizer.ggml.scores is missing; model \"llama\" needs it");
    }
    tok->bpe.scores = wr_malloc(n * sizeof(float));
    tok->decode.find = wr_strdup(metaspace);
    tok->decode.put = wr_strdup(" ");
    if (!tok->bpe.scores || !tok->decode.find || !tok->decode.put) {
        return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the scores of %zu tokens", n);
    }
    memcpy(tok->bpe.scores, src->scores, n * sizeof(float));
    for (size_t i = 0; i < n; i++) {
        if (isnan(tok->bpe.scores[i])) {
            return WR_FAIL(err, WEIR_E_FORMAT, "tokenizer.ggml.scores[%zu] is not a number", i);
        }
    }
    tok->decode.find_bytes = strlen(metaspace);
    tok->decode.put_bytes = 1;
    tok->bpe.byte_fallback = tok->decode.byte_fallback = true;
    tok->bpe.unk = src->unk_id;
    bool front = src->add_space_prefix != 0;
    for (int i = front ? 0 : 1; i < 2; i++) {
        wr_norm_step *step = wr_tok_add_norm(tok);
        if (!step) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a tokenizer");
        step->kind = i == 0 ? WR_NORM_PREPEND : WR_NORM_REPLACE;
        step->put = wr_strdup(metaspace);
        step->put_bytes = strlen(metaspace);
        step->find = wr_strdup(" ");
        step->find_bytes = 1;
        if (!step->put || !step->find) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a tokenizer");
    }
    if (front) {
        tok->decode.strip_char = ' ';
        tok->decode.n_strip = 1;
    }
    return WEIR_OK;
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
        if (id >= 0 && type_at(src, (size_t)id) == TYPE_CONTROL) WR_TRY(wr_tokenizer_add_eos(tok, id, err));
    }
    bool add_bos = src->add_bos > 0 || (src->add_bos < 0 && strcmp(src->model, "llama") == 0 && src->bos_id >= 0);
    if (src->add_bos > 0 && src->bos_id < 0) {
        return WR_FAIL(err, WEIR_E_FORMAT, "tokenizer.ggml.add_bos_token is true but there is no bos_token_id");
    }
    if (src->add_eos > 0 && src->eos_id < 0) {
        return WR_FAIL(err, WEIR_E_FORMAT, "tokenizer.ggml.add_eos_token is true but there is no eos_token_id");
    }
    if (add_bos) tok->prefix[tok->n_prefix++] = src->bos_id;
    if (src->add_eos > 0) tok->suffix[tok->n_suffix++] = src->eos_id;
    return WEIR_OK;
}

weir_status wr_tokenizer_open_vocab(const wr_vocab_source *src, weir_tokenizer **out, weir_error *err) {
    weir_tokenizer *tok = NULL;
    weir_status st;
    *out = NULL;
    if (!src->model) return WR_FAIL(err, WEIR_E_FORMAT, "tokenizer.ggml.model is missing");
    bool gpt2 = strcmp(src->model, "gpt2") == 0;
    if (!gpt2 && strcmp(src->model, "llama") != 0) {
        char shown[72];
        return WR_FAIL(err, WEIR_E_UNSUPPORTED, "tokenizer.ggml.model is \"%s\"; supported are gpt2 and llama",
                       wr_vocab_show(src->model, strlen(src->model), shown));
    }
    WR_TRY_GOTO(st, wr_tok_new(&tok, err), fail);
    WR_TRY_GOTO(st, read_tokens(tok, src, err), fail);
    WR_TRY_GOTO(st, set_special_ids(tok, src, err), fail);
    WR_TRY_GOTO(st, (gpt2 ? open_gpt2 : open_llama)(tok, src, err), fail);
    WR_TRY_GOTO(st, read_added(tok, src, err), fail);
    WR_TRY_GOTO(st, wr_tokenizer_set_chat_template(tok, src->chat_template, err), fail);
    wr_tok_finish(tok);
    *out = tok;
    return WEIR_OK;
fail:
    weir_tokenizer_close(tok);
    return st;
}
