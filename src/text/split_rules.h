/* The split rules of published byte-level tokenizers whose files only name them. */
#ifndef WR_TEXT_SPLIT_RULES_H
#define WR_TEXT_SPLIT_RULES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "text/tok.h"

enum { WR_SPLIT_PATTERNS_MAX = 4 };

typedef struct wr_split_rule {
    const char *names;                           /* as GGUF files have them, separated by spaces */
    const char *patterns[WR_SPLIT_PATTERNS_MAX]; /* applied one after the other, up to NULL */
    bool digits;                                 /* every number character is a word of its own, before the patterns */
    bool nfc, ignore_merges;
} wr_split_rule;

/* NULL when no rule has this name. */
const wr_split_rule *wr_split_rule_find(const char *name);
/* Give tok the steps of a rule. Error: MEMORY. */
weir_status wr_split_rule_apply(const wr_split_rule *rule, weir_tokenizer *tok, weir_error *err);

#endif
