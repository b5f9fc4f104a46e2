/* Owns the reading of flags and environment variables. */
#include "base/options.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static weir_status bad_value(const wr_option *o, const char *source, const char *text, weir_error *err) {
    if (o->type == WR_OPTION_BYTES)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "%s is \"%s\"; it must be a number of bytes, as 512M or 2G", source, text);
    return WR_FAIL(err, WEIR_E_ARGUMENT, "%s is \"%s\"; it must be %s from %.15g to %.15g", source, text,
                   o->type == WR_OPTION_INT ? "a whole number" : "a number", o->low, o->high);
}

static bool parse_bytes(const char *text, int64_t *out) {
    char *end;
    errno = 0;
    double n = strtod(text, &end);
    if (end == text || errno || !(n >= 0)) return false;
    static const char units[] = "KMGT";
    const char *unit = isalpha((unsigned char)*end) ? strchr(units, toupper((unsigned char)*end)) : NULL;
    if (unit) {
        for (const char *u = units; u <= unit; u++) n *= 1024;
        end++;
    }
    if (*end || n > 9e18) return false;
    *out = (int64_t)n;
    return true;
}

/* source: the flag or variable, for messages. */
static weir_status set_value(const wr_option *o, const char *source, const char *text, void *values, weir_error *err) {
    char *place = (char *)values + o->offset, *end;
    errno = 0;
    switch (o->type) {
    case WR_OPTION_FLAG: *(bool *)place = strcmp(text, "0") != 0 && *text; return WEIR_OK;
    case WR_OPTION_INT: {
        long long n = strtoll(text, &end, 10);
        if (end == text || *end || errno || (double)n < o->low || (double)n > o->high)
            return bad_value(o, source, text, err);
        *(int64_t *)place = n;
        return WEIR_OK;
    }
    case WR_OPTION_FLOAT: {
        double n = strtod(text, &end);
        if (end == text || *end || !(n >= o->low && n <= o->high)) return bad_value(o, source, text, err);
        *(double *)place = n;
        return WEIR_OK;
    }
    case WR_OPTION_BYTES: return parse_bytes(text, (int64_t *)place) ? WEIR_OK : bad_value(o, source, text, err);
    case WR_OPTION_TEXT: *(const char **)place = text; return WEIR_OK;
    case WR_OPTION_TEXTS: {
        wr_texts *list = (wr_texts *)place;
        if (list->n == WR_MAX_TEXTS)
            return WR_FAIL(err, WEIR_E_ARGUMENT, "%s is given more than %d times", source, WR_MAX_TEXTS);
        list->at[list->n++] = text;
        return WEIR_OK;
    }
    case WR_OPTION_NONE: break;
    }
    return WEIR_OK;
}

/* Edit distance of two short names, for "did you mean". */
static size_t distance(const char *a, const char *b) {
    enum { CAP = 48 };
    size_t row[CAP + 1], n = strlen(b);
    if (n > CAP) return n;
    for (size_t j = 0; j <= n; j++) row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < n; j++) {
            size_t best = diagonal + (a[i] != b[j]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j + 1] + 1 < best) best = row[j + 1] + 1;
            diagonal = row[j + 1];
            row[j + 1] = best;
        }
    }
    return row[n];
}

/* word: as it was given, maybe with "=value". */
static weir_status unknown_option(const wr_option_table *t, unsigned command, const char *word, weir_error *err) {
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    const char *nearest = NULL;
    size_t best = 4;
    for (size_t i = 0; i < t->n; i++) {
        const wr_option *o = &t->options[i];
        if (!o->name || !(o->commands >> command & 1)) continue;
        size_t d = distance(name, o->name);
        if (d < best) best = d, nearest = o->name;
    }
    if (nearest) return WR_FAIL(err, WEIR_E_ARGUMENT, "unknown option %s; did you mean %s?", name, nearest);
    return WR_FAIL(err, WEIR_E_ARGUMENT, "unknown option %s; --help lists the options", name);
}

static const wr_option *find_option(const wr_option_table *t, unsigned command, const char *name, size_t bytes) {
    for (size_t i = 0; i < t->n; i++) {
        const wr_option *o = &t->options[i];
        if (!o->name || !(o->commands >> command & 1)) continue;
        if (strlen(o->name) == bytes && !memcmp(o->name, name, bytes)) return o;
        if (bytes == 2 && o->letter && name[0] == '-' && name[1] == o->letter) return o;
    }
    return NULL;
}

static weir_status set_defaults(const wr_option_table *t, unsigned command, void *values, weir_error *err) {
    for (size_t i = 0; i < t->n; i++) {
        const wr_option *o = &t->options[i];
        if (o->type == WR_OPTION_NONE) continue;
        if (o->fallback) WR_TRY(set_value(o, o->name, o->fallback, values, err));
        const char *text = o->variable && (o->commands >> command & 1) ? getenv(o->variable) : NULL;
        if (text && *text) WR_TRY(set_value(o, o->variable, text, values, err));
    }
    return WEIR_OK;
}

weir_status wr_options_parse(const wr_option_table *t, unsigned command, int argc, const char *const *argv,
                             void *values, const char **words, size_t cap, size_t *n_words, weir_error *err) {
    *n_words = 0;
    WR_TRY(set_defaults(t, command, values, err));
    bool options = true;
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (options && !strcmp(word, "--")) {
            options = false;
            continue;
        }
        if (!options || word[0] != '-' || !word[1]) { /* "-" alone is a word: standard input */
            if (*n_words == cap) return WR_FAIL(err, WEIR_E_ARGUMENT, "unexpected argument \"%s\"", word);
            words[(*n_words)++] = word;
            continue;
        }
        const char *equals = word[1] == '-' ? strchr(word, '=') : NULL;
        const wr_option *o = find_option(t, command, word, equals ? (size_t)(equals - word) : strlen(word));
        if (!o) return unknown_option(t, command, word, err);
        const char *value = equals ? equals + 1 : "1";
        if (o->type != WR_OPTION_FLAG && !equals) {
            if (++i == argc) return WR_FAIL(err, WEIR_E_ARGUMENT, "%s needs a value: %s", o->name, o->value);
            value = argv[i];
        }
        WR_TRY(set_value(o, o->name, value, values, err));
    }
    return WEIR_OK;
}
