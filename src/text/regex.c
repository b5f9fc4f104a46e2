/* PCRE2 with its JIT where the machine has one. Limits: 50 million match steps per
 * call (a second or so; published expressions need about one step a character) and
 * 256 MiB of backtracking memory. */
#include "text/regex.h"

#include <stdbool.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/mem.h"
#include "text/unicode.h"
#include "text/vocab.h"

enum { PATTERN_MAX = 65536, STEPS_MAX = 50000000, BACKTRACK_KIB = 262144 };

struct wr_regex {
    pcre2_general_context *general;
    pcre2_match_context *match;
    pcre2_code *code;
};

static void *give(size_t bytes, void *unused) {
    (void)unused;
    return wr_malloc(bytes);
}
static void take(void *p, void *unused) {
    (void)unused;
    wr_free(p);
}

/* ---- Translation --------------------------------------------------------- */

/* White_Space, and \w of Oniguruma, as members of a class. PCRE2's own \s also
 * takes U+180E, and its \w leaves marks out. */
#define SPACE_MEMBERS "\\t-\\r\\x{85}\\p{Z}"
#define WORD_MEMBERS  "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}"

typedef struct translation {
    const char *p, *end;
    char *out;
    size_t n, cap;
    const char *what; /* the construct that is not supported */
    bool no_memory;
} translation;

static bool put(translation *t, const char *text, size_t n) {
    if (!wr_grow(&t->out, &t->cap, t->n + n, 1)) {
        t->no_memory = true;
        return false;
    }
    memcpy(t->out + t->n, text, n);
    t->n += n;
    return true;
}
static bool put_text(translation *t, const char *text) { return put(t, text, strlen(text)); }
static bool refuse(translation *t, const char *what) {
    t->what = what;
    return false;
}
static bool at(const translation *t, const char *text) {
    size_t n = strlen(text);
    return (size_t)(t->end - t->p) >= n && memcmp(t->p, text, n) == 0;
}

/* Copy from p through the closing brace. */
static bool put_braced(translation *t, size_t head) {
    const char *close = memchr(t->p + head, '}', (size_t)(t->end - t->p) - head);
    if (!close) return refuse(t, "an open brace");
    bool ok = put(t, t->p, (size_t)(close + 1 - t->p));
    t->p = close + 1;
    return ok;
}

/* t->p is at a backslash. */
static bool put_escape(translation *t, bool in_class) {
    if (t->end - t->p < 2) return refuse(t, "a backslash at the end");
    char c = t->p[1];
    const char *text = NULL;
    switch (c) {
    case 's': text = in_class ? SPACE_MEMBERS : "[" SPACE_MEMBERS "]"; break;
    case 'S':
        if (!in_class) text = "[^" SPACE_MEMBERS "]";
        break;
    case 'w': text = in_class ? WORD_MEMBERS : "[" WORD_MEMBERS "]"; break;
    case 'W':
        if (in_class) return refuse(t, "\\W inside a class");
        text = "[^" WORD_MEMBERS "]";
        break;
    case 'd': text = "\\p{Nd}"; break;
    case 'D': text = "\\P{Nd}"; break;
    case 'h': text = in_class ? "0-9a-fA-F" : "[0-9a-fA-F]"; break;
    case 'v': text = "\\x0b"; break;
    case 'u':
        if (t->end - t->p < 6) return refuse(t, "a short \\u");
        if (!(put_text(t, "\\x{") && put(t, t->p + 2, 4) && put_text(t, "}"))) return false;
        t->p += 6;
        return true;
    case 'p':
    case 'P':
    case 'x':
        if (t->end - t->p > 2 && t->p[2] == '{') return put_braced(t, 3);
        if (c != 'x') return refuse(t, "\\p without braces");
        break;
    case 'b':
    case 'B':
    case 'A':
    case 'z':
    case 'Z':
    case 'G':
        if (in_class && c != 'b') return refuse(t, "an anchor inside a class");
        break;
    case 'n':
    case 'r':
    case 't':
    case 'f':
    case 'a':
    case 'e': break;
    default:
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) {
            return refuse(t, "an escape of this letter or digit");
        }
    }
    bool ok = text ? put_text(t, text) : put(t, t->p, 2);
    t->p += 2;
    return ok;
}

/* t->p is at an opening bracket. */
static bool put_class(translation *t) {
    size_t head = at(t, "[^") ? 2 : 1;
    if (!put(t, t->p, head)) return false;
    t->p += head;
    for (bool first = true;; first = false) {
        if (t->p >= t->end) return refuse(t, "an open class");
        if (*t->p == ']' && !first) break;
        if (at(t, "&&")) return refuse(t, "&& inside a class");
        if (at(t, "[:")) {
            const char *close = memchr(t->p, ']', (size_t)(t->end - t->p));
            if (!close || close[-1] != ':') return refuse(t, "a class inside a class");
            if (!put(t, t->p, (size_t)(close + 1 - t->p))) return false;
            t->p = close + 1;
        } else if (*t->p == '[') {
            return refuse(t, "a class inside a class");
        } else if (*t->p == '\\') {
            if (!put_escape(t, true)) return false;
        } else if (!put(t, t->p++, 1)) {
            return false;
        }
    }
    return put(t, t->p++, 1);
}

static bool put_group(translation *t) {
    static const char *const known[] = {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?i:", "(?i)", "(?-i:", "(?-i)"};
    if (at(t, "(*")) return refuse(t, "(*");
    if (at(t, "(?")) {
        for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
            if (!at(t, known[i])) continue;
            t->p += strlen(known[i]);
            return put_text(t, known[i]);
        }
        return refuse(t, "this kind of group");
    }
    return put(t, t->p++, 1);
}

/* t->p is at a brace: {n}, {n,}, {n,m} and {,m} repeat; anything else is text. */
static bool put_repeat(translation *t) {
    const char *q = t->p + 1, *comma = NULL;
    while (q < t->end && ((*q >= '0' && *q <= '9') || (*q == ',' && !comma))) {
        if (*q == ',') comma = q;
        q++;
    }
    if (q >= t->end || *q != '}' || q == t->p + 1 || (comma && q == t->p + 2)) return put_text(t, "\\{") && (t->p++, 1);
    if (q + 1 < t->end && q[1] == '+') return refuse(t, "a + behind a counted repeat");
    bool ok = put_text(t, comma == t->p + 1 ? "{0" : "{") && put(t, t->p + 1, (size_t)(q - t->p));
    t->p = q + 1;
    return ok;
}

static bool translate(translation *t) {
    while (t->p < t->end) {
        bool ok;
        switch (*t->p) {
        case '\\': ok = put_escape(t, false); break;
        case '[': ok = put_class(t); break;
        case '(': ok = put_group(t); break;
        case '{': ok = put_repeat(t); break;
        default: ok = put(t, t->p++, 1);
        }
        if (!ok) return false;
    }
    return true;
}

/* ---- Opening and matching ------------------------------------------------ */

void wr_regex_close(wr_regex *regex) {
    if (!regex) return;
    pcre2_code_free(regex->code);
    pcre2_match_context_free(regex->match);
    pcre2_general_context_free(regex->general);
    wr_free(regex);
}

static weir_status compile(wr_regex *regex, const translation *t, const char *shown, weir_error *err) {
    pcre2_compile_context *context = pcre2_compile_context_create(regex->general);
    if (!context) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the split expression \"%s\"", shown);
    /* Ruby's anchors are those of lines, and its lines end with LF only. */
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_set_parens_nest_limit(context, 64);
    int code = 0;
    size_t offset = 0;
    regex->code =
        pcre2_compile((PCRE2_SPTR)t->out, t->n, PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                      &code, &offset, context);
    pcre2_compile_context_free(context);
    if (!regex->code) {
        if (code == PCRE2_ERROR_NOMEMORY || code == 121 /* heap failed while compiling */) {
            return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the split expression \"%s\"", shown);
        }
        PCRE2_UCHAR text[160];
        if (pcre2_get_error_message(code, text, sizeof text) < 0) text[0] = 0;
        return WR_FAIL(err, WEIR_E_FORMAT, "split expression \"%s\": %s", shown, (char *)text);
    }
    /* Without a JIT the interpreter gives the same matches. */
    (void)pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE);
    return WEIR_OK;
}

weir_status wr_regex_open(const char *pattern, size_t bytes, wr_regex **out, weir_error *err) {
    *out = NULL;
    char shown[72];
    wr_vocab_show(pattern, bytes, shown);
    if (bytes > PATTERN_MAX) {
        return WR_FAIL(err, WEIR_E_LIMIT, "split expression \"%s\" has %zu bytes, at most %d are allowed", shown, bytes,
                       PATTERN_MAX);
    }
    translation t = {.p = pattern, .end = pattern + bytes};
    weir_status st = WEIR_OK;
    wr_regex *regex = NULL;
    if (!translate(&t)) {
        st = t.no_memory
                 ? WR_FAIL(err, WEIR_E_MEMORY, "no memory for the split expression \"%s\"", shown)
                 : WR_FAIL(err, WEIR_E_UNSUPPORTED, "split expression \"%s\": %s is not supported", shown, t.what);
        goto done;
    }
    regex = wr_calloc(1, sizeof *regex);
    if (regex) regex->general = pcre2_general_context_create(give, take, NULL);
    if (regex && regex->general) regex->match = pcre2_match_context_create(regex->general);
    if (!regex || !regex->match) {
        st = WR_FAIL(err, WEIR_E_MEMORY, "no memory for the split expression \"%s\"", shown);
        goto done;
    }
    pcre2_set_match_limit(regex->match, STEPS_MAX);
    pcre2_set_heap_limit(regex->match, BACKTRACK_KIB);
    st = compile(regex, &t, shown, err);
done:
    wr_free(t.out);
    if (st != WEIR_OK) {
        wr_regex_close(regex);
        return st;
    }
    *out = regex;
    return WEIR_OK;
}

void wr_regex_scratch_deinit(wr_regex_scratch *scratch) {
    pcre2_match_data_free(scratch->match_data);
    scratch->match_data = NULL;
}

weir_status wr_regex_find_all(const wr_regex *regex, wr_regex_scratch *scratch, const uint8_t *text, size_t n,
                              wr_pieces *matches, weir_error *err) {
    if (!scratch->match_data) scratch->match_data = pcre2_match_data_create(1, regex->general);
    pcre2_match_data *data = scratch->match_data;
    if (!data) return WR_FAIL(err, WEIR_E_MEMORY, "no memory to split a text of %zu bytes", n);
    weir_status st = WEIR_OK;
    size_t from = 0, last_end = SIZE_MAX;
    static const uint8_t nothing[1];
    if (!text) text = nothing;
    while (from <= n) {
        int rc = pcre2_match(regex->code, text, n, from, PCRE2_NO_UTF_CHECK, data, regex->match);
        if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {
            /* The JIT's stack is 32 KiB; the interpreter may use BACKTRACK_KIB. */
            rc = pcre2_match(regex->code, text, n, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data, regex->match);
        }
        if (rc == PCRE2_ERROR_NOMATCH) break;
        if (rc == PCRE2_ERROR_NOMEMORY) {
            st = WR_FAIL(err, WEIR_E_MEMORY, "no memory to split a text of %zu bytes", n);
            break;
        }
        if (rc < 0) {
            st = WR_FAIL(err, WEIR_E_LIMIT,
                         "the split expression of the tokenizer needs too many steps at byte %zu of a text of %zu "
                         "bytes (PCRE2 code %d)",
                         from, n, rc);
            break;
        }
        const size_t *found = pcre2_get_ovector_pointer(data);
        size_t begin = found[0], end = found[1];
        if (begin == end && end == last_end) {
            uint32_t cp;
            if (from >= n) break;
            from += (size_t)wr_utf8_get(text + from, &cp);
            continue;
        }
        /* \K is refused, so a match never starts before the search did. */
        wr_assert(begin >= from && end >= begin && end <= n);
        if (!wr_pieces_add(matches, begin, end)) {
            st = WR_FAIL(err, WEIR_E_MEMORY, "no memory to split a text of %zu bytes", n);
            break;
        }
        from = last_end = end;
    }
    return st;
}
