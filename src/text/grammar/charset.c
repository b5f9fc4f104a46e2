/* Sets of characters; categories come from utf8proc. */
#include "text/grammar/charset.h"

#include <stdlib.h>
#include <string.h>

#include <utf8proc.h>

bool wr_charset_add(wr_gr_build *b, wr_charset *set, uint32_t lo, uint32_t hi) {
    if (!wr_gr_more(b, &set->at, &set->cap, set->n + 1, sizeof *set->at)) return false;
    set->at[set->n++] = (wr_char_range){lo, hi};
    return true;
}

bool wr_charset_add_all(wr_gr_build *b, wr_charset *set, const wr_charset *other) {
    if (!other) return false;
    for (size_t i = 0; i < other->n; i++)
        if (!wr_charset_add(b, set, other->at[i].lo, other->at[i].hi)) return false;
    return true;
}

static int by_lo(const void *x, const void *y) {
    uint32_t a = ((const wr_char_range *)x)->lo, c = ((const wr_char_range *)y)->lo;
    return a < c ? -1 : a > c;
}

enum { SURROGATE_LO = 0xD800, SURROGATE_HI = 0xDFFF };

/* Append [lo, hi] without surrogates to a set whose ranges all begin before; false when out of memory. */
static bool append(wr_gr_build *b, wr_charset *out, uint32_t lo, uint32_t hi) {
    if (lo < SURROGATE_LO && hi > SURROGATE_HI)
        return append(b, out, lo, SURROGATE_LO - 1) && append(b, out, SURROGATE_HI + 1, hi);
    if (lo >= SURROGATE_LO && lo <= SURROGATE_HI) lo = SURROGATE_HI + 1;
    if (hi >= SURROGATE_LO && hi <= SURROGATE_HI) hi = SURROGATE_LO - 1;
    if (lo > hi) return true;
    if (out->n && out->at[out->n - 1].hi + 1 >= lo) {
        if (hi > out->at[out->n - 1].hi) out->at[out->n - 1].hi = hi;
        return true;
    }
    return wr_charset_add(b, out, lo, hi);
}

const wr_charset *wr_charset_finish(wr_gr_build *b, wr_charset *set) {
    wr_charset *out = wr_gr_alloc(b, 1, sizeof *out);
    if (!out || b->status != WEIR_OK) return NULL;
    if (set->n) qsort(set->at, set->n, sizeof *set->at, by_lo);
    for (size_t i = 0; i < set->n; i++)
        if (!append(b, out, set->at[i].lo, set->at[i].hi)) return NULL;
    return out;
}

const wr_charset *wr_charset_range(wr_gr_build *b, uint32_t lo, uint32_t hi) {
    wr_charset set = {0};
    return wr_charset_add(b, &set, lo, hi) ? wr_charset_finish(b, &set) : NULL;
}

const wr_charset *wr_charset_any(wr_gr_build *b) { return wr_charset_range(b, 0, WR_CHAR_MAX); }

const wr_charset *wr_charset_not(wr_gr_build *b, const wr_charset *set) {
    wr_charset out = {0};
    uint32_t from = 0;
    if (!set) return NULL;
    for (size_t i = 0; i < set->n; i++) {
        if (set->at[i].lo > from && !wr_charset_add(b, &out, from, set->at[i].lo - 1)) return NULL;
        from = set->at[i].hi + 1;
    }
    if (from <= WR_CHAR_MAX && !wr_charset_add(b, &out, from, WR_CHAR_MAX)) return NULL;
    return wr_charset_finish(b, &out);
}

const wr_charset *wr_charset_and(wr_gr_build *b, const wr_charset *x, const wr_charset *y) {
    wr_charset out = {0};
    if (!x || !y) return NULL;
    for (size_t i = 0, j = 0; i < x->n && j < y->n;) {
        uint32_t lo = x->at[i].lo > y->at[j].lo ? x->at[i].lo : y->at[j].lo;
        uint32_t hi = x->at[i].hi < y->at[j].hi ? x->at[i].hi : y->at[j].hi;
        if (lo <= hi && !wr_charset_add(b, &out, lo, hi)) return NULL;
        if (x->at[i].hi < y->at[j].hi)
            i++;
        else
            j++;
    }
    return wr_charset_finish(b, &out);
}

bool wr_charset_has(const wr_charset *set, uint32_t cp) {
    size_t lo = 0, hi = set->n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (set->at[mid].hi < cp)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < set->n && set->at[lo].lo <= cp;
}

const wr_charset *wr_charset_named(wr_gr_build *b, char name) {
    /* ECMA-262: CharacterClassEscape, WhiteSpace, LineTerminator. */
    static const wr_char_range digit[] = {{'0', '9'}};
    static const wr_char_range word[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    static const wr_char_range space[] = {{9, 13},          {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680},
                                          {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                                          {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
    static const wr_char_range line_end[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
    wr_charset set = {0};
    const wr_char_range *at = name == 'd' ? digit : name == 'w' ? word : name == 's' ? space : line_end;
    size_t n = name == 'd' ? 1 : name == 'w' ? 4 : name == 's' ? 10 : 3;
    for (size_t i = 0; i < n; i++)
        if (!wr_charset_add(b, &set, at[i].lo, at[i].hi)) return NULL;
    const wr_charset *done = wr_charset_finish(b, &set);
    return name == '.' ? wr_charset_not(b, done) : done;
}

/* In utf8proc's order of categories, from UTF8PROC_CATEGORY_CN = 0. */
static const char *const category_names[][2] = {
    {"Cn", "Unassigned"},
    {"Lu", "Uppercase_Letter"},
    {"Ll", "Lowercase_Letter"},
    {"Lt", "Titlecase_Letter"},
    {"Lm", "Modifier_Letter"},
    {"Lo", "Other_Letter"},
    {"Mn", "Nonspacing_Mark"},
    {"Mc", "Spacing_Mark"},
    {"Me", "Enclosing_Mark"},
    {"Nd", "Decimal_Number"},
    {"Nl", "Letter_Number"},
    {"No", "Other_Number"},
    {"Pc", "Connector_Punctuation"},
    {"Pd", "Dash_Punctuation"},
    {"Ps", "Open_Punctuation"},
    {"Pe", "Close_Punctuation"},
    {"Pi", "Initial_Punctuation"},
    {"Pf", "Final_Punctuation"},
    {"Po", "Other_Punctuation"},
    {"Sm", "Math_Symbol"},
    {"Sc", "Currency_Symbol"},
    {"Sk", "Modifier_Symbol"},
    {"So", "Other_Symbol"},
    {"Zs", "Space_Separator"},
    {"Zl", "Line_Separator"},
    {"Zp", "Paragraph_Separator"},
    {"Cc", "Control"},
    {"Cf", "Format"},
    {"Cs", "Surrogate"},
    {"Co", "Private_Use"},
};
static const char *const group_names[][2] = {{"L", "Letter"}, {"M", "Mark"},      {"N", "Number"}, {"P", "Punctuation"},
                                             {"S", "Symbol"}, {"Z", "Separator"}, {"C", "Other"}};

static bool is_name(const char *const names[2], const char *name, size_t bytes) {
    for (int i = 0; i < 2; i++)
        if (strlen(names[i]) == bytes && memcmp(names[i], name, bytes) == 0) return true;
    return false;
}

const wr_charset *wr_charset_category(wr_gr_build *b, const char *name, size_t bytes) {
    enum { N_CATEGORIES = sizeof category_names / sizeof *category_names };
    uint32_t wanted = 0; /* bit by category */
    for (size_t i = 0; i < N_CATEGORIES; i++)
        if (is_name(category_names[i], name, bytes)) wanted |= 1u << i;
    for (size_t g = 0; g < sizeof group_names / sizeof *group_names; g++) {
        if (!is_name(group_names[g], name, bytes)) continue;
        for (size_t i = 0; i < N_CATEGORIES; i++)
            if (category_names[i][0][0] == group_names[g][0][0]) wanted |= 1u << i;
    }
    if (!wanted) return NULL;
    wr_charset set = {0};
    for (uint32_t cp = 0, from = 0; cp <= WR_CHAR_MAX + 1u; cp++) {
        bool in = cp <= WR_CHAR_MAX && wanted >> utf8proc_category((utf8proc_int32_t)cp) & 1;
        if (in) continue;
        if (cp > from && !wr_charset_add(b, &set, from, cp - 1)) return NULL;
        from = cp + 1;
    }
    return wr_charset_finish(b, &set);
}
