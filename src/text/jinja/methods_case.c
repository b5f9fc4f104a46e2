/* The methods of texts about case and kinds of characters. */
#include "text/jinja/case.h"
#include "text/jinja/text.h"
#include "text/unicode.h"

#define CASING(name, casing)                                                                                           \
    static bool name(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return wr_jcase(run, c->self.s, casing, out); }
CASING(str_upper, WR_J_UPPER)
CASING(str_lower, WR_J_LOWER)
CASING(str_title, WR_J_TITLE)
CASING(str_capitalize, WR_J_CAPITALIZE)
CASING(str_swapcase, WR_J_SWAPCASE)
CASING(str_casefold, WR_J_CASEFOLD)

/* All characters are of this class; of an empty text: empty. */
static bool all(wr_jrun *run, const wr_jstr *s, wr_jclass class, bool empty, wr_jval *out) {
    bool is = s->bytes || empty;
    uint32_t cp;
    for (size_t at = 0; is && at < s->bytes;) {
        at += (size_t)wr_utf8_get((const uint8_t *)s->data + at, &cp);
        is = wr_jchar_is(cp, class);
    }
    *out = wr_jbool(is);
    return wr_jcharge(run, s->bytes);
}

#define IS(name, class, empty)                                                                                         \
    static bool name(wr_jrun *run, const wr_jcall *c, wr_jval *out) { return all(run, c->self.s, class, empty, out); }
IS(str_isalpha, WR_J_ALPHA, false)
IS(str_isalnum, WR_J_ALNUM, false)
IS(str_isdecimal, WR_J_DECIMAL, false)
IS(str_isdigit, WR_J_DIGIT, false)
IS(str_isnumeric, WR_J_NUMERIC, false)
IS(str_isprintable, WR_J_PRINTABLE, true)
IS(str_isspace, WR_J_SPACE, false)

#define CASED(name, which)                                                                                             \
    static bool name(wr_jrun *run, const wr_jcall *c, wr_jval *out) {                                                  \
        *out = wr_jbool(wr_jstr_cased(c->self.s, which));                                                              \
        return wr_jcharge(run, c->self.s->bytes);                                                                      \
    }
CASED(str_islower, 'l')
CASED(str_isupper, 'u')
CASED(str_istitle, 't')

static bool str_isascii(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    *out = wr_jbool(wr_jstr_ascii(c->self.s));
    return wr_jcharge(run, c->self.s->bytes);
}

static bool str_isidentifier(wr_jrun *run, const wr_jcall *c, wr_jval *out) {
    const wr_jstr *s = c->self.s;
    bool is = s->bytes > 0;
    uint32_t cp;
    for (size_t at = 0; is && at < s->bytes;) {
        bool first = at == 0;
        at += (size_t)wr_utf8_get((const uint8_t *)s->data + at, &cp);
        bool letter = wr_jchar_is(cp, WR_J_ALPHA) || cp == '_';
        is = letter || (!first && wr_char_is_word(cp));
    }
    *out = wr_jbool(is);
    return wr_jcharge(run, s->bytes);
}

static const wr_jbuiltin methods[] = {
    {"upper", "", -1, str_upper},         {"lower", "", -1, str_lower},
    {"title", "", -1, str_title},         {"capitalize", "", -1, str_capitalize},
    {"swapcase", "", -1, str_swapcase},   {"casefold", "", -1, str_casefold},
    {"isalpha", "", -1, str_isalpha},     {"isalnum", "", -1, str_isalnum},
    {"isdecimal", "", -1, str_isdecimal}, {"isdigit", "", -1, str_isdigit},
    {"isnumeric", "", -1, str_isnumeric}, {"isprintable", "", -1, str_isprintable},
    {"isspace", "", -1, str_isspace},     {"islower", "", -1, str_islower},
    {"isupper", "", -1, str_isupper},     {"istitle", "", -1, str_istitle},
    {"isascii", "", -1, str_isascii},     {"isidentifier", "", -1, str_isidentifier},
};
const wr_jtable wr_jtext_case_methods = {methods, sizeof methods / sizeof *methods};
