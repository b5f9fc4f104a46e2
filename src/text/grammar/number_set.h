/* Sets of numbers, exactly: an interval for each sign, and the multiples of one number. They belong to a program and
 * are read from text digit by digit (reading.h). */
#ifndef WR_TEXT_GRAMMAR_NUMBER_SET_H
#define WR_TEXT_GRAMMAR_NUMBER_SET_H

#include "text/grammar/number.h"

enum {
    WR_NUMBER_DIGITS = 3 * WR_DECIMAL_DIGITS, /* of a bound that is moved to a multiple */
    WR_MODULUS_MAX = 1000000000,
};

/* d.ddd times 10^power: the digits begin and end with one that is not 0. */
typedef struct wr_number_bound {
    bool there, open; /* open: the bound itself does not belong */
    uint32_t n;
    int32_t power;
    uint8_t *digit; /* [n] 0 to 9 */
} wr_number_bound;

/* Sizes of the numbers of one sign. With multiples both bounds are multiples, and closed. */
typedef struct wr_number_side {
    bool zero; /* 0 belongs, "-0" too */
    bool some; /* a size above 0 does; the bounds mean nothing otherwise */
    wr_number_bound lo, hi;
} wr_number_side;

typedef struct wr_number_set {
    wr_number_side side[2]; /* [1]: below 0 */
    bool multiples;         /* of modulus / 10^scale; modulus is no multiple of 10 */
    uint32_t modulus;
    int32_t scale;
    uint32_t twos, fives, rest; /* modulus = 2^twos * 5^fives * rest */
} wr_number_set;

/* room: for the digits. UNSUPPORTED in the build: a multiple whose digits are above WR_MODULUS_MAX. */
bool wr_number_set_of(wr_gr_build *b, const wr_number_spec *spec, uint8_t room[4][WR_NUMBER_DIGITS],
                      wr_number_set *out);
/* In one block of the heap; NULL without memory. */
wr_number_set *wr_number_set_dup(const wr_number_set *set);
static inline bool wr_number_side_is_empty(const wr_number_side *s) { return !s->zero && !s->some; }

#endif
