/* tiktoken's rank files. What a program adds in code to the published ones stands in the
 * table here. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "text/base64.h"
#include "text/formats.h"
#include "text/ranks.h"
#include "text/split_rules.h"

/* Special tokens in order of their ids from `first`, separated by spaces; "%A-B" stands
 * for a numbered run <|extra_A|>...; "+N" leaves N ids out. */
typedef struct encoding {
    size_t n_ranks;
    const char *rule; /* of split_rules */
    int32_t first;
    const char *specials;
} encoding;

static const encoding encodings[] = {
    {50256, "gpt-2", 50256, "<|endoftext|>"}, /* r50k_base, gpt2 */
    {50257, "gpt-2", 50257, "<|endoftext|>"}, /* Whisper, multilingual */
    {50280, "gpt-2", 50256, "<|endoftext|>"}, /* p50k_base */
    {100256, "cl100k", 100257, "<|endoftext|> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> +15 <|endofprompt|>"},
    {199998, "o200k", 199999, "<|endoftext|> +18 <|endofprompt|>"},
    {128000, "llama3", 128000,
     "<|begin_of_text|> <|end_of_text|> <|reserved_special_token_0|> <|reserved_special_token_1|> "
     "<|finetune_right_pad_id|> <|reserved_special_token_2|> <|start_header_id|> <|end_header_id|> <|eom_id|> "
     "<|eot_id|> <|python_tag|>"},
    {151643, "qwen2", 151643, "<|endoftext|> <|im_start|> <|im_end|> %0-204"},
    {248044, "qwen35", 248044,
     "<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> <|box_end|> "
     "<|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|> <|image_pad|> <|video_pad|> "
     "<tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|fim_pad|> <|repo_name|> <|file_sep|> "
     "<tool_response> </tool_response> <think> </think> <|audio_start|> <|audio_end|> <tts_pad> <tts_text_bos> "
     "<tts_text_eod> <tts_text_bos_single> <|audio_pad|>"},
};

static weir_status add_specials(weir_tokenizer *tok, const encoding *e, weir_error *err) {
    int64_t id = e->first;
    for (const char *p = e->specials; *p;) {
        size_t n = strcspn(p, " ");
        int from, to, skip;
        char text[64];
        if (sscanf(p, "+%d", &skip) == 1) {
            id += skip;
        } else if (sscanf(p, "%%%d-%d", &from, &to) == 2) {
            for (int i = from; i <= to; i++) {
                int m = snprintf(text, sizeof text, "<|extra_%d|>", i);
                WR_TRY(wr_tok_add_special(tok, id++, text, (size_t)m, err));
            }
        } else {
            WR_TRY(wr_tok_add_special(tok, id++, p, n, err));
        }
        p += n + (p[n] == ' ');
    }
    return WEIR_OK;
}

/* The ids that begin and end texts, by their published names. */
static weir_status name_specials(weir_tokenizer *tok, weir_error *err) {
    static const char *const ends[] = {"<|endoftext|>", "<|end_of_text|>", "<|eot_id|>", "<|eom_id|>", "<|im_end|>"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        int32_t id = wr_vocab_find(&tok->vocab, ends[i], strlen(ends[i]));
        if (id >= 0) WR_TRY(wr_tokenizer_add_eos(tok, id, err));
    }
    tok->bos = wr_vocab_find(&tok->vocab, "<|begin_of_text|>", 17);
    if (tok->bos >= 0) tok->prefix[tok->n_prefix++] = tok->bos;
    return WEIR_OK;
}

/* One line; its rank is the token's id. */
static weir_status read_line(weir_tokenizer *tok, const char *line, size_t n, size_t number, weir_error *err) {
    uint8_t token[WR_RANK_BYTES_MAX + 8];
    size_t bytes;
    int64_t rank = 0;
    const char *space = memchr(line, ' ', n);
    size_t digits = space ? n - (size_t)(space + 1 - line) : 0;
    bool ok = digits > 0 && digits < 10;
    for (size_t i = 0; ok && i < digits; i++) {
        ok = space[1 + i] >= '0' && space[1 + i] <= '9';
        rank = rank * 10 + (space[1 + i] - '0');
    }
    size_t coded = ok ? (size_t)(space - line) : 0;
    if (!coded || coded > WR_RANK_BYTES_MAX / 3 * 4 || !wr_base64_read(line, coded, token, &bytes)) {
        return WR_FAIL(err, WEIR_E_FORMAT, "line %zu is not base64 (of at most %d bytes), a space and a rank", number,
                       WR_RANK_BYTES_MAX);
    }
    return wr_tok_add_rank(tok, rank, token, bytes, err);
}

weir_status wr_tok_build_tiktoken(weir_tokenizer *tok, const char *text, size_t bytes, const json_t *config,
                                  weir_error *err) {
    const encoding *found = NULL;
    size_t n = 0;
    WR_TRY(wr_vocab_init(&tok->vocab, bytes / 13 < WR_VOCAB_MAX ? bytes / 13 : WR_VOCAB_MAX, 0, err));
    for (size_t at = 0, number = 1; at < bytes; number++) {
        const char *line = text + at, *stop = memchr(line, '\n', bytes - at);
        size_t length = stop ? (size_t)(stop - line) : bytes - at;
        at += length + 1;
        if (length && line[length - 1] == '\r') length--;
        if (length == 0) continue;
        WR_TRY(read_line(tok, line, length, number, err));
        n++;
    }
    for (size_t i = 0; i < sizeof encodings / sizeof *encodings; i++) {
        if (encodings[i].n_ranks == n) found = &encodings[i];
    }
    if (!found) {
        return WR_FAIL(err, WEIR_E_UNSUPPORTED,
                       "a tiktoken file of %zu ranks: how it splits text is not known; use the model's tokenizer.json",
                       n);
    }
    /* The rule first: the ranks say how merges are, whatever it has. */
    WR_TRY(wr_split_rule_apply(wr_split_rule_find(found->rule), tok, err));
    WR_TRY(wr_tok_link_ranks(tok, err));
    for (size_t i = 0; i < tok->n_norm; i++) tok->norm[i].newest = true; /* the programs use Python's */
    if (config) return WEIR_OK;
    WR_TRY(add_specials(tok, found, err));
    return name_specials(tok, err);
}
