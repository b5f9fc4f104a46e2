/* Expressions after RFC 3339 (dates and times; no leap seconds, years from 1), RFC 4122, RFC 5321 (addresses without
 * quoted parts), RFC 1123, RFC 4291, RFC 3986, ISO 8601 (durations). */
#include "text/grammar/format.h"

#include <string.h>

#define YEAR_NOT_0 "(?:[1-9][0-9]{3}|0[1-9][0-9]{2}|00[1-9][0-9]|000[1-9])"
#define LEAP       "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
#define DATE                                                                                                           \
    "(?:" YEAR_NOT_0 "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"        \
    "02-(?:0[1-9]|1[0-9]|2[0-8]))|" LEAP "-02-29)"
#define TIME  "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?"
#define ZONE  "(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define BYTE  "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4  BYTE "(?:\\." BYTE "){3}"
#define H16   "[0-9A-Fa-f]{1,4}"
#define LAST  "(?:" H16 ":" H16 "|" IPV4 ")"
#define LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define HOST  LABEL "(?:\\." LABEL ")*"
#define ATOM  "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define PCT   "%[0-9A-Fa-f]{2}"
#define PCHAR "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|" PCT ")"
#define TAIL  "(?:\\?(?:" PCHAR "|[/?])*)?(?:#(?:" PCHAR "|[/?])*)?"

static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date-time", DATE "[Tt]" TIME ZONE},
    {"date", DATE},
    {"time", TIME ZONE},
    {"duration", "P(?:[0-9]+W|(?:[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?|[0-9]+M(?:[0-9]+D)?|[0-9]+D)(?:T(?:[0-9]+H(?:[0-9]+M(?"
                 ":[0-9]+S)?)?|"
                 "[0-9]+M(?:[0-9]+S)?|[0-9]+S))?|T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S))"},
    {"uuid", "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"},
    {"email", ATOM "(?:\\." ATOM ")*@" HOST},
    {"hostname", HOST},
    {"ipv4", IPV4},
    {"ipv6", "(?:(?:" H16 ":){6}" LAST "|::(?:" H16 ":){5}" LAST "|(?:" H16 ")?::(?:" H16 ":){4}" LAST "|(?:(?:" H16
             ":)?" H16 ")?::(?:" H16 ":){3}" LAST "|(?:(?:" H16 ":){0,2}" H16 ")?::(?:" H16 ":){2}" LAST "|(?:(?:" H16
             ":){0,3}" H16 ")?::" H16 ":" LAST "|(?:(?:" H16 ":){0,4}" H16 ")?::" LAST "|(?:(?:" H16 ":){0,5}" H16
             ")?::" H16 "|(?:(?:" H16 ":){0,6}" H16 ")?::)"},
    {"uri", "[A-Za-z][A-Za-z0-9+.-]*:(?://(?:(?:[A-Za-z0-9._~!$&'()*+,;=:-]|" PCT
            ")*@)?(?:\\[[0-9A-Fa-f:.]+\\]|(?:[A-Za-z0-9._"
            "~!$&'()*+,;=-]|" PCT ")*)(?::[0-9]*)?(?:/" PCHAR "*)*|/(?:" PCHAR "+(?:/" PCHAR "*)*)?|(?:" PCHAR
            "+(?:/" PCHAR "*)*)?)" TAIL},
    /* Words of generators that only describe the value. */
    {"binary", ""},
    {"byte", ""},
    {"password", ""},
    {"int32", ""},
    {"int64", ""},
    {"float", ""},
    {"double", ""},
    {"multi-line", ""},
};

const char *wr_format_pattern(const char *name) {
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i].name, name) == 0) return formats[i].pattern;
    return NULL;
}
