/* Arguments that are passed on byte for byte: a JSON object up to its last brace, anything else up to a marker. */
#include <string.h>

#include "text/parse/parse.h"

static bool is_space(uint8_t c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

/* A byte that is part of no marker. */
static wr_args_end take(wr_parser *p, uint8_t c) {
    wr_args *a = &p->call.args;
    if (!a->begun) {
        if (is_space(c)) return WR_ARGS_MORE;
        a->begun = true;
        a->raw = c != '{';
        wr_json_scan_init(&a->scan);
    }
    wr_call_arguments(p, (const char *)&c, 1);
    if (a->raw || wr_json_scan_step(&a->scan, c) == WR_JSON_MORE) return WR_ARGS_MORE;
    return WR_ARGS_DONE;
}

wr_args_end wr_args_step(wr_parser *p, uint8_t c, const char *const *markers, size_t n, int *marker) {
    wr_args *a = &p->call.args;
    if (a->begun && !a->raw && wr_json_scan_in_string(&a->scan)) return take(p, c);
    *marker = wr_find(&p->finder, markers, n, c);
    /* Only the last byte of the spill can be a bracket that ends the value: no marker contains one. */
    wr_args_end end = WR_ARGS_MORE;
    for (size_t i = 0; i < p->finder.n_spill; i++) end = take(p, (uint8_t)p->finder.spill[i]);
    return *marker >= 0 ? WR_ARGS_MARKER : end;
}

bool wr_args_close(wr_parser *p) {
    wr_args *a = &p->call.args;
    if (!a->begun) {
        wr_call_arguments(p, "{}", 2);
        return true;
    }
    return !a->raw && !a->scan.invalid && a->scan.depth == 0;
}
