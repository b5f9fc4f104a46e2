/* Reading the text of a JSON number: whether it can still become one of a set, in any spelling ("15", "15.0", "1.5e1"),
 * and whether it is one. No finite automaton can tell (an exponent may cancel any number of digits), so these are
 * states that are made as they come; what the digits so far have in common is all they keep, so there are few. Runs of
 * zeros and digits are bounded, and with them the number of states. */
#ifndef WR_TEXT_GRAMMAR_READING_H
#define WR_TEXT_GRAMMAR_READING_H

#include "text/grammar/number_set.h"

enum {
    /* Digits before the point, zeros directly behind it, or twice as many digits behind it, where they count. */
    WR_READING_DIGITS_MAX = 1000,
};

typedef struct wr_reading {
    uint32_t phase, negative;
    uint32_t started; /* a digit other than 0 has come */
    /* Before an exponent: powers of ten of the first digit and of the last that is not 0; digits behind the point; the
     * digits up to the last that is not 0, modulo the modulus; the order to each bound. */
    int32_t first, last;
    uint32_t n_fraction, rest, lo, hi;
    /* In an exponent: which ones fit, and its size so far. from > to: none. */
    int32_t from, to, size;
} wr_reading;
enum { WR_READING_WORDS = sizeof(wr_reading) / sizeof(uint32_t) };

/* Zeroed, a reading is at the start. False, and *r is undefined, when no number of the set goes on like this. */
bool wr_reading_step(const wr_number_set *set, wr_reading *r, uint8_t byte);
/* The text may end here. */
bool wr_reading_accepts(const wr_number_set *set, const wr_reading *r);

#endif
