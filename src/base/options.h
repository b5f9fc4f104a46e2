/* Options: one table says everything about a program's flags and environment
 * variables; parsing, --help, the man page and the docs are made from it. */
#ifndef WR_BASE_OPTIONS_H
#define WR_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef enum wr_option_type {
    WR_OPTION_FLAG,  /* bool */
    WR_OPTION_INT,   /* int64_t, within [low, high] */
    WR_OPTION_FLOAT, /* double, within [low, high] */
    WR_OPTION_BYTES, /* int64_t; takes K, M, G (powers of 1,024) */
    WR_OPTION_TEXT,  /* const char * */
    WR_OPTION_TEXTS, /* wr_texts: may be given several times */
    WR_OPTION_NONE   /* only an environment variable, read where it is used; listed in the docs */
} wr_option_type;

enum { WR_MAX_TEXTS = 16 };
typedef struct wr_texts {
    const char *at[WR_MAX_TEXTS];
    size_t n;
} wr_texts;

typedef struct wr_option {
    const char *name;     /* "--max-tokens"; NULL for a variable only */
    char letter;          /* 'n', or 0 */
    const char *variable; /* environment variable that sets it too, or NULL */
    wr_option_type type;
    const char *value;    /* what stands for the value in the help: "N" */
    const char *fallback; /* default as text, or NULL: zero */
    double low, high;     /* INT and FLOAT */
    size_t offset;        /* of the value in the struct that is filled */
    unsigned commands;    /* bit i: taken by command i */
    const char *help;     /* one sentence, no full stop */
} wr_option;

typedef struct wr_option_table {
    const wr_option *options;
    size_t n;
} wr_option_table;

/* Set defaults, then the environment's values, then the arguments'. values: the struct of the offsets. Arguments that
 * are no options come to words (at most cap). "--" ends the options. Errors: ARGUMENT naming option, value and what is
 * allowed; an unknown option names the nearest known one. Strings borrow from argv and the environment. */
weir_status wr_options_parse(const wr_option_table *table, unsigned command, int argc, const char *const *argv,
                             void *values, const char **words, size_t cap, size_t *n_words, weir_error *err);

#endif
