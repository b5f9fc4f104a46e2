/* Grammars without rules: one expression, or a list of texts. */
#include "text/grammar/automaton.h"
#include "text/grammar/pattern.h"
#include "text/grammar/program.h"

#include <string.h>

#include "text/unicode.h"

/* One rule that is this expression; NULL when the build has failed. */
static wr_gr_program *program_of(wr_gr_build *b, const wr_expr *x) {
    wr_gr_emit e = {.b = b, .p = x ? wr_gr_program_new(b) : NULL};
    if (!e.p) return NULL;
    if (wr_gr_plain_rule(&e, x, &e.p->root) && wr_gr_finish(&e)) return e.p;
    weir_grammar_release(e.p);
    return NULL;
}

weir_status weir_grammar_from_regex(const char *text, size_t bytes, weir_grammar **out, weir_error *err) {
    wr_gr_build b;
    wr_gr_build_init(&b, err);
    wr_expr *x = wr_pattern_parse(&b, text, bytes);
    *out = x ? program_of(&b, wr_expr_automaton(&b, wr_auto_of(&b, x))) : NULL;
    wr_gr_build_deinit(&b);
    return b.status;
}

weir_status weir_grammar_from_choices(const char *const *texts, const size_t *bytes, size_t n, weir_grammar **out,
                                      weir_error *err) {
    wr_gr_build b;
    *out = NULL;
    wr_gr_build_init(&b, err);
    wr_expr *any = wr_expr_new(&b, WR_EXPR_TEXTS);
    if (!n) WR_GR_FAIL(&b, WEIR_E_ARGUMENT, "there are no choices");
    size_t total = 0;
    for (size_t i = 0; i < n && b.status == WEIR_OK; i++) {
        size_t length = bytes ? bytes[i] : strlen(texts[i]);
        total = total + length < total ? SIZE_MAX : total + length;
        if (!length)
            WR_GR_FAIL(&b, WEIR_E_ARGUMENT, "choice %zu is empty", i);
        else if (total > WR_GR_SOURCE_MAX)
            WR_GR_FAIL(&b, WEIR_E_LIMIT, "the choices have more than %d bytes", WR_GR_SOURCE_MAX);
        else if (wr_utf8_valid((const uint8_t *)texts[i], length) != length)
            WR_GR_FAIL(&b, WEIR_E_FORMAT, "choice %zu is not UTF-8", i);
        else
            wr_expr_text_add(&b, any, texts[i], length);
    }
    if (b.status == WEIR_OK) *out = program_of(&b, any);
    wr_gr_build_deinit(&b);
    return b.status;
}
