/* Owns the table: what each published tokenizer.json says. */
#include "text/split_rules.h"

#include <string.h>

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define LETTERS      "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+"
#define REST         " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER        "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER        "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define CASED(end)   "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" end "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER "*" end
#define CASED_REST   " ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define LETTERS_MARKS                                                                                                  \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define ASCII_PUNCTUATION "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]"
#define KANA_HAN          "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+"
#define DEEPSEEK_REST                                                                                                  \
    ASCII_PUNCTUATION "[A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*"               \
                      "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const wr_split_rule rules[] = {
    {"default gpt-2 gpt2 mpt olmo phi-2 jais", {wr_gpt2_pattern}, false, false, false},
    {"smollm starcoder refact codeshell", {wr_gpt2_pattern}, true, false, false},
    {"command-r", {wr_gpt2_pattern}, true, true, false},
    {"qwen2 deepseek-r1-qwen", {CONTRACTIONS "|" LETTERS "|\\p{N}|" REST}, false, true, false},
    {"qwen35", {CONTRACTIONS "|" LETTERS_MARKS}, false, true, false},
    {"llama-bpe llama3 llama-v3 dbrx smaug-bpe", {CONTRACTIONS "|" LETTERS "|\\p{N}{1,3}|" REST}, false, false, true},
    {"glm4 chatglm-bpe cl100k", {CONTRACTIONS "|" LETTERS "|\\p{N}{1,3}|" REST}, false, false, false},
    {"gpt-4o llama4 o200k", {CASED(CONTRACTIONS "?") "|\\p{N}{1,3}|" CASED_REST}, false, false, false},
    {"tekken", {CASED("") "|\\p{N}|" CASED_REST}, false, false, true},
    {"deepseek-v3", {"\\p{N}{1,3}", KANA_HAN, DEEPSEEK_REST}, false, false, false},
};

const wr_split_rule *wr_split_rule_find(const char *name) {
    size_t n = strlen(name);
    if (n == 0 || strchr(name, ' ')) return NULL;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const char *names = rules[i].names;
        for (const char *p = names; (p = strstr(p, name)); p++) {
            if ((p == names || p[-1] == ' ') && (p[n] == 0 || p[n] == ' ')) return &rules[i];
        }
    }
    return NULL;
}

weir_status wr_split_rule_apply(const wr_split_rule *rule, weir_tokenizer *tok, weir_error *err) {
    tok->bpe.ignore_merges = rule->ignore_merges;
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
    for (size_t i = 0; i < WR_SPLIT_PATTERNS_MAX && rule->patterns[i]; i++) {
        WR_TRY(wr_tok_add_cut_regex(tok, rule->patterns[i], err));
    }
    return WEIR_OK;
}
