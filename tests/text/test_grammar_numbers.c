/* Numbers in any spelling, within bounds: what is accepted is what arithmetic on whole numbers says, and what was taken
 * so far can always be completed. */
#include "text_test.h"

#include "text/grammar/reading.h"
#include "text/grammar/sets.h"

typedef __int128 wide;

/* Small enough that all below fits into 128 bits: digits times 10^power. */
typedef struct exact {
    wide digits;
    int power;
} exact;

static wide raised(int power) {
    wide x = 1;
    while (power-- > 0) x *= 10;
    return x;
}

static int order_of(exact x, exact y) {
    int least = x.power < y.power ? x.power : y.power;
    wide a = x.digits * raised(x.power - least), b = y.digits * raised(y.power - least);
    return a < b ? -1 : a > b;
}

/* JSON's grammar of numbers, and the value. False: no number. */
static bool parse(const char *p, exact *out) {
    bool negative = *p == '-', exponent_negative = false;
    int exponent = 0, digits = 0;
    *out = (exact){0};
    p += negative;
    if (*p == '0' && p[1] >= '0' && p[1] <= '9') return false;
    for (; *p >= '0' && *p <= '9'; p++, digits++) out->digits = out->digits * 10 + (*p - '0');
    if (!digits) return false;
    if (*p == '.') {
        for (digits = 0, p++; *p >= '0' && *p <= '9'; p++, digits++, out->power--)
            out->digits = out->digits * 10 + (*p - '0');
        if (!digits) return false;
    }
    if (*p == 'e' || *p == 'E') {
        p++;
        if (*p == '+' || *p == '-') exponent_negative = *p++ == '-';
        for (digits = 0; *p >= '0' && *p <= '9'; p++, digits++) exponent = exponent * 10 + (*p - '0');
        if (!digits) return false;
        out->power += exponent_negative ? -exponent : exponent;
    }
    if (negative) out->digits = -out->digits;
    while (out->digits && out->digits % 10 == 0) out->digits /= 10, out->power++;
    if (!out->digits) out->power = 0;
    return *p == 0;
}

/* What a schema may say, in decimals; NULL: nothing. */
typedef struct limits {
    const char *min, *max, *multiple;
    bool min_open, max_open, integer;
} limits;

static bool fits(const limits *l, exact x) {
    exact bound;
    if (l->min && (parse(l->min, &bound), order_of(x, bound) < (l->min_open ? 1 : 0))) return false;
    if (l->max && (parse(l->max, &bound), order_of(x, bound) > (l->max_open ? -1 : 0))) return false;
    if (l->integer && x.power < 0) return false;
    if (!l->multiple) return true;
    parse(l->multiple, &bound);
    int least = x.power < bound.power ? x.power : bound.power;
    return x.digits * raised(x.power - least) % (bound.digits * raised(bound.power - least)) == 0;
}

static void set_of(const limits *l, uint8_t room[4][WR_NUMBER_DIGITS], wr_number_set *out) {
    wr_gr_build b;
    wr_number_spec spec = {.integer = l->integer, .min_open = l->min_open, .max_open = l->max_open};
    struct {
        const char *text;
        bool *has;
        wr_decimal *value;
    } parts[] = {{l->min, &spec.has_min, &spec.min},
                 {l->max, &spec.has_max, &spec.max},
                 {l->multiple, &spec.has_multiple, &spec.multiple}};
    for (int i = 0; i < 3; i++) {
        if (!(*parts[i].has = parts[i].text != NULL)) continue;
        json_t *v = json_loads(parts[i].text, JSON_DECODE_ANY, NULL);
        assert_true(wr_decimal_of(v, parts[i].value));
        json_decref(v);
    }
    wr_gr_build_init(&b, NULL);
    assert_true(wr_number_set_of(&b, &spec, room, out));
    wr_gr_build_deinit(&b);
}

/* How many bytes were taken; all: and the text may end. */
static size_t read(const wr_number_set *set, const char *text, wr_reading *r, bool *all) {
    size_t n = 0;
    *r = (wr_reading){0};
    *all = false;
    for (; text[n]; n++) {
        wr_reading before = *r;
        if (wr_reading_step(set, r, (uint8_t)text[n])) continue;
        *r = before;
        return n;
    }
    *all = wr_reading_accepts(set, r);
    return n;
}

static const limits cases[] = {
    {.integer = true},
    {.integer = true, .min = "0"},
    {.integer = true, .min = "1"},
    {.integer = true, .min = "0", .max = "100"},
    {.integer = true, .min = "-20", .max = "7", .multiple = "3"},
    {.integer = true, .max = "-12", .multiple = "0.25"},
    {.integer = true, .multiple = "1.5", .min = "100"},
    {.integer = true, .min = "1200", .min_open = true},
    {.integer = true, .min = "-0.5", .max = "0.5"},
    {.min = "0"},
    {.min = "0", .min_open = true},
    {.max = "0", .max_open = true},
    {.min = "0", .max = "0"},
    {.min = "-2.5", .max = "100.25"},
    {.min = "1.5", .max = "1.6", .min_open = true, .max_open = true},
    {.min = "99.9", .max = "100.1"},
    {.min = "99.9", .max = "100", .max_open = true},
    {.min = "-0.001", .max = "-0.001"},
    {.min = "250", .max = "250"},
    {.min = "0.00125"},
    {.max = "-30", .max_open = true},
    {.multiple = "0.1"},
    {.multiple = "7"},
    {.multiple = "250", .min = "300"},
    {.multiple = "0.75", .min = "20", .max = "22", .min_open = true, .max_open = true},
    {.multiple = "7", .min = "-20", .max = "20"},
    {.multiple = "64", .max = "1000"},
    {.multiple = "0.004", .max = "-0.001", .min = "-1"},
    {.multiple = "12.5", .min = "1", .max = "101"},
    {.multiple = "3000", .min = "1"},
};
enum { N_CASES = sizeof cases / sizeof *cases };

static uint64_t seed = 1;
static uint32_t below(uint32_t n) { /* xorshift64* */
    seed ^= seed >> 12;
    seed ^= seed << 25;
    seed ^= seed >> 27;
    return (uint32_t)((seed * 2685821657736338717u >> 32) * n >> 32);
}

/* A spelling of digits * 10^power, with up to 3 zeros before and behind the digits and the point anywhere. */
static void spell(exact x, char *out) {
    char digits[80];
    wide size = x.digits < 0 ? -x.digits : x.digits;
    int n = snprintf(digits, sizeof digits, "%.*s%lld", (int)below(4), "000", (long long)size);
    for (uint32_t zeros = below(4); zeros; zeros--, x.power--) digits[n++] = '0';
    digits[n] = 0;
    int point = 1 + (int)below((uint32_t)n), whole = 0; /* digits before the point */
    while (whole < point - 1 && digits[whole] == '0') whole++;
    out += sprintf(out, "%s%.*s", x.digits < 0 || !below(9) ? "-" : "", point - whole, digits + whole);
    if (point < n) out += sprintf(out, ".%s", digits + point);
    int exponent = x.power + (n - point);
    if (!exponent && below(3)) return;
    sprintf(out, "%c%s%s%d", "eE"[below(2)],
            exponent < 0 ? "-"
            : below(2)   ? "+"
                         : "",
            below(4) ? "" : "0", abs(exponent));
}

static void every_spelling_gets_the_verdict_of_exact_arithmetic(void **state) {
    (void)state;
    uint8_t room[4][WR_NUMBER_DIGITS];
    size_t verdicts[2] = {0};
    for (size_t c = 0; c < N_CASES; c++) {
        const limits *l = &cases[c];
        const char *near[] = {l->min, l->max, l->multiple, "0", "1"};
        wr_number_set set;
        set_of(l, room, &set);
        for (int i = 0; i < 20000; i++) {
            char text[120];
            const char *about = near[below(5)];
            exact x, read_back;
            wr_reading r;
            bool all;
            parse(about ? about : "10", &x);
            int finer = (int)below(4); /* a value near a bound, a multiple, or any */
            x.digits *= raised(finer);
            x.power -= finer;
            if (below(3)) x.digits += (int)below(41) - 20;
            if (below(6) == 0) x.digits *= (int)below(40) - 10;
            if (below(6) == 0) x.power += (int)below(7) - 3;
            spell(x, text);
            if (below(5) == 0) text[below((uint32_t)strlen(text))] = "0123456789.eE+-"[below(15)];
            if (strlen(text) > 17 || (strchr(text, 'e') && strlen(strchr(text, 'e')) > 4) ||
                (strchr(text, 'E') && strlen(strchr(text, 'E')) > 4))
                continue; /* beyond the arithmetic of this test */
            bool expected = parse(text, &read_back) && read_back.power > -18 && read_back.power < 18;
            if (!expected && parse(text, &read_back)) continue;
            expected = expected && fits(l, read_back);
            read(&set, text, &r, &all);
            if (all != expected) fail_msg("case %zu: %s is %s", c, text, expected ? "refused" : "accepted");
            verdicts[expected]++;
        }
    }
    assert_true(verdicts[0] > 80000 && verdicts[1] > 80000);
}

/* Some text that fits begins with what r has read: looked for breadth first, each reading once. */
static bool can_be_completed(const wr_number_set *set, const wr_reading *from) {
    enum { READINGS_MAX = 50000 };
    wr_sets seen = {0};
    uint32_t key[WR_READING_WORDS], number;
    bool found = false, fresh;
    memcpy(key, from, sizeof key);
    assert_true(wr_sets_number(&seen, key, WR_READING_WORDS, &number, &fresh));
    for (size_t i = 0; i < seen.n && seen.n < READINGS_MAX && !found; i++) {
        wr_reading here, next;
        memcpy(&here, seen.pool + seen.first[i], sizeof here);
        found = wr_reading_accepts(set, &here);
        for (const char *c = "0123456789.e+-"; *c && !found; c++) {
            next = here;
            if (!wr_reading_step(set, &next, (uint8_t)*c)) continue;
            memcpy(key, &next, sizeof key);
            assert_true(wr_sets_number(&seen, key, WR_READING_WORDS, &number, &fresh));
        }
    }
    wr_sets_deinit(&seen);
    return found;
}

static void what_was_taken_can_be_completed(void **state) {
    (void)state;
    uint8_t room[4][WR_NUMBER_DIGITS];
    for (size_t c = 0; c < N_CASES; c++) {
        wr_number_set set;
        set_of(&cases[c], room, &set);
        for (int i = 0; i < 40; i++) {
            wr_reading r = {0};
            char text[64];
            uint32_t length = 1 + below(14);
            for (uint32_t n = 0, tries = 0; n < length && tries < 400; tries++) {
                wr_reading next = r;
                char byte = "00123456789.e+-"[below(15)];
                if (!wr_reading_step(&set, &next, (uint8_t)byte)) continue;
                r = next;
                text[n++] = byte;
                text[n] = 0;
                if (!can_be_completed(&set, &r)) fail_msg("case %zu: nothing fits behind %s", c, text);
            }
        }
    }
}

/* Where digits are counted they end at some time, and not in a place without a way out. */
static void runs_of_digits_end_where_a_number_can(void **state) {
    (void)state;
    uint8_t room[4][WR_NUMBER_DIGITS];
    static const char *const begins[] = {"", "1", "7", "-", "-3", "0.", "-0.", "1.", "3."};
    static const char *const ways[] = {"0", "1", "9", "09", "7000"};
    for (size_t c = 0; c < N_CASES; c++) {
        wr_number_set set;
        set_of(&cases[c], room, &set);
        for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
            for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
                wr_reading r, next;
                bool all;
                if (read(&set, begins[i], &r, &all) != strlen(begins[i])) continue;
                for (int n = 0; n < 2500; n++) {
                    next = r;
                    if (!wr_reading_step(&set, &next, (uint8_t)ways[w][(size_t)n % strlen(ways[w])])) continue;
                    r = next;
                }
                if (!can_be_completed(&set, &r))
                    fail_msg("case %zu: nothing fits behind %s%s...", c, begins[i], ways[w]);
            }
    }
}

/* Numbers of a thousand digits are read, more zeros than that are not, where they count. */
static void long_numbers_are_read_up_to_the_stated_length(void **state) {
    (void)state;
    uint8_t room[4][WR_NUMBER_DIGITS];
    static char text[4096];
    wr_number_set set;
    wr_reading r;
    bool all;
    set_of(&(limits){.integer = true, .max = "100"}, room, &set);
    text[0] = '1';
    memset(text + 1, '0', WR_READING_DIGITS_MAX);
    strcpy(text + 1 + WR_READING_DIGITS_MAX, "e-1000");
    read(&set, text, &r, &all);
    assert_true(all);
    text[1 + WR_READING_DIGITS_MAX] = '0';
    assert_int_equal(read(&set, text, &r, &all), 1 + WR_READING_DIGITS_MAX);
    set_of(&(limits){.min = "0.5", .max = "1"}, room, &set); /* behind the first digit nothing is counted */
    strcpy(text, "0.7");
    memset(text + 3, '1', 4000);
    text[4003] = 0;
    read(&set, text, &r, &all);
    assert_true(all);
}

static void bounds_move_to_the_multiples_between_them(void **state) {
    (void)state;
    uint8_t room[4][WR_NUMBER_DIGITS];
    wr_number_set set;
    set_of(&(limits){.multiple = "7", .min = "-20", .max = "20"}, room, &set); /* -14 to 14 */
    for (int i = 0; i < 2; i++) {
        assert_int_equal(set.side[i].hi.n, 2);
        assert_int_equal(set.side[i].hi.digit[0] * 10 + set.side[i].hi.digit[1], 14);
        assert_false(set.side[i].lo.there);
        assert_true(set.side[i].zero);
    }
    set_of(&(limits){.multiple = "0.75", .min = "21", .min_open = true, .max = "22"}, room, &set); /* 21.75 alone */
    assert_true(set.side[0].some && !set.side[0].zero && !set.side[1].some && !set.side[1].zero);
    assert_int_equal(set.side[0].lo.n, 4);
    assert_memory_equal(set.side[0].lo.digit, ((uint8_t[]){2, 1, 7, 5}), 4);
    assert_int_equal(set.side[0].lo.power, 1);
    set_of(&(limits){.multiple = "0.75", .min = "21", .min_open = true, .max = "21.5"}, room, &set);
    assert_false(set.side[0].some);
    set_of(&(limits){.integer = true, .multiple = "1.25"}, room, &set); /* 5 is the least whole multiple */
    assert_int_equal(set.modulus, 5);
    assert_int_equal(set.scale, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_spelling_gets_the_verdict_of_exact_arithmetic),
        cmocka_unit_test(what_was_taken_can_be_completed),
        cmocka_unit_test(runs_of_digits_end_where_a_number_can),
        cmocka_unit_test(long_numbers_are_read_up_to_the_stated_length),
        cmocka_unit_test(bounds_move_to_the_multiples_between_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
