/* The tests of `is`. */
#include "text/jinja/builtin.h"
#include "text/jinja/case.h"
#include "text/jinja/iter.h"
#include "text/jinja/ops.h"
#include "text/jinja/show.h"

#define TEST(name, condition)                                                                                          \
    static bool name(wr_jrun *run, const wr_jcall *c, wr_jval *out) {                                                  \
        wr_jval v = c->self;                                                                                           \
        (void)run, (void)v;                                                                                            \
        *out = wr_jbool(condition);                                                                                    \
        return true;                                                                                                   \
    }
TEST(is_defined, v.type != WR_J_UNDEFINED)
TEST(is_undefined, v.type == WR_J_UNDEFINED)
TEST(is_none, v.type == WR_J_NONE)
TEST(is_boolean, v.type == WR_J_BOOL)
TEST(is_false, v.type == WR_J_BOOL && !v.b)
TEST(is_true, v.type == WR_J_BOOL && v.b)
TEST(is_integer, v.type == WR_J_INT)
TEST(is_float, v.type == WR_J_FLOAT)
TEST(is_string, v.type == WR_J_STR)
TEST(is_mapping, v.type == WR_J_DICT)
TEST(is_number, wr_jis_number(v))
TEST(is_iterable, wr_jiterable(v))
TEST(is_sequence,
     v.type == WR_J_STR || wr_jis_seq(v) || v.type == WR_J_DICT || v.type == WR_J_RANGE || v.type == WR_J_UNDEFINED)
TEST(is_escaped, v.type == WR_J_STR && v.s->markup)
TEST(is_callable, v.type == WR_J_MACRO || v.type == WR_J_FUNCTION || v.type == WR_J_METHOD || v.type == WR_J_LOOP ||
                      v.type == WR_J_JOINER || v.type == WR_J_UNDEFINED)
TEST(is_sameas, wr_jsame(v, c->args[0]))
TEST(is_filter, v.type == WR_J_STR && wr_jfilter_find(v.s))
TEST(is_test, v.type == WR_J_STR && wr_jtest_find(v.s))

static bool remainder_is(wr_jrun *run, wr_jval v, wr_jval by, int64_t wanted, wr_jval *out) {
    wr_jval rest;
    bool is;
    if (!wr_jbinary(run, WR_J_MOD, v, by, &rest) || !wr_jequal(run, rest, wr_jint(wanted), &is)) return false;
    *out = wr_jbool(is);
    return true;
}
static bool is_odd(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    return remainder_is(run, c->self, wr_jint(2), 1, out);
}
static bool is_even(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    return remainder_is(run, c->self, wr_jint(2), 0, out);
}
static bool is_divisible(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    return remainder_is(run, c->self, c->args[0], 0, out);
}

static bool cased(wr_jrun *run, const wr_jcall *c, char which, wr_jval *out) {
    wr_jval text;
    if (!wr_jsoft_str(run, c->self, &text)) return false;
    *out = wr_jbool(wr_jstr_cased(text.s, which));
    return true;
}
static bool is_lower(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return cased(run, c, 'l', out); }
static bool is_upper(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return cased(run, c, 'u', out); }

#define RELATION(name, op)                                                                                             \
    static bool name(wr_jrun *run, const wr_jcall *c, wr_jval *out) {                                                  \
        bool is;                                                                                                       \
        if (!wr_jrelation(run, op, c->self, c->args[0], &is)) return false;                                            \
        *out = wr_jbool(is);                                                                                           \
        return true;                                                                                                   \
    }
RELATION(is_eq, WR_J_EQ)
RELATION(is_ne, WR_J_NE)
RELATION(is_lt, WR_J_LT)
RELATION(is_le, WR_J_LE)
RELATION(is_gt, WR_J_GT)
RELATION(is_ge, WR_J_GE)
RELATION(is_in, WR_J_IN)

static const wr_jbuiltin tests[] = {
    {"defined", "", 0, is_defined},
    {"undefined", "", 0, is_undefined},
    {"none", "", 0, is_none},
    {"string", "", 0, is_string},
    {"mapping", "", 0, is_mapping},
    {"iterable", "", 0, is_iterable},
    {"sequence", "", 0, is_sequence},
    {"boolean", "", 0, is_boolean},
    {"true", "", 0, is_true},
    {"false", "", 0, is_false},
    {"integer", "", 0, is_integer},
    {"float", "", 0, is_float},
    {"number", "", 0, is_number},
    {"callable", "", 0, is_callable},
    {"sameas", "other", 1, is_sameas},
    {"escaped", "", 0, is_escaped},
    {"odd", "", 0, is_odd},
    {"even", "", 0, is_even},
    {"divisibleby", "num", 1, is_divisible},
    {"lower", "", 0, is_lower},
    {"upper", "", 0, is_upper},
    {"filter", "", 0, is_filter},
    {"test", "", 0, is_test},
    {"in", "seq", 1, is_in},
    {"==", "other", 1, is_eq},
    {"eq", "other", 1, is_eq},
    {"equalto", "other", 1, is_eq},
    {"!=", "other", 1, is_ne},
    {"ne", "other", 1, is_ne},
    {">", "other", 1, is_gt},
    {"gt", "other", 1, is_gt},
    {"greaterthan", "other", 1, is_gt},
    {">=", "other", 1, is_ge},
    {"ge", "other", 1, is_ge},
    {"<", "other", 1, is_lt},
    {"lt", "other", 1, is_lt},
    {"lessthan", "other", 1, is_lt},
    {"<=", "other", 1, is_le},
    {"le", "other", 1, is_le},
};
const wr_jtable wr_jtests = {tests, sizeof tests / sizeof *tests};
