/* What a schema says of numbers, and plainly written ones as automata: whole ones without a point, within bounds
 * without an exponent, with any number of digits. Any other spelling is reading.h's affair. */
#ifndef WR_TEXT_GRAMMAR_NUMBER_H
#define WR_TEXT_GRAMMAR_NUMBER_H

#include <jansson.h>

#include "text/grammar/automaton.h"

enum { WR_DECIMAL_DIGITS = 400, WR_MULTIPLE_MAX = 10000 };

/* whole.fraction, exactly; 0 is "0" and "". */
typedef struct wr_decimal {
    bool negative;
    int n_whole, n_fraction;
    char whole[WR_DECIMAL_DIGITS], fraction[WR_DECIMAL_DIGITS]; /* digits, not terminated */
} wr_decimal;

/* The shortest decimal that reads as this number. */
bool wr_decimal_of(const json_t *number, wr_decimal *out);
/* Below, equal, above: -1, 0, 1. */
int wr_decimal_compare(const wr_decimal *x, const wr_decimal *y);

typedef struct wr_number_spec {
    bool integer;
    bool has_min, has_max, has_multiple;
    bool min_open, max_open;       /* the bound itself does not belong */
    wr_decimal min, max, multiple; /* multiple is above 0 */
} wr_number_spec;

/* Any JSON number, exponents included, when spec has no bounds. NULL when the build has failed (UNSUPPORTED: a multiple
 * above WR_MULTIPLE_MAX when its point is left out). */
const wr_auto *wr_number_automaton(wr_gr_build *b, const wr_number_spec *spec);
/* A plainly written number: as JSON has it, and where that has no exponent, with zeros behind its fraction too. */
wr_expr *wr_number_literal(wr_gr_build *b, const json_t *number, bool integer);

#endif
