/* Arguments that are passed on byte for byte: JSON up to its last bracket or quote, anything else up to a
 * marker. */
#include <string.h>

#include "text/parse/parse.h"

/* A byte that is part of no marker. */
static wr_arguments_end take(wr_parser *p, uint8_t c) {
    wr_arguments *a = &p->call.args;
    if (!a->begun) {
        if (wr_json_space(c)) return WR_ARGUMENTS_MORE;
        a->begun = true;
        a->raw = c != '{' && c != '[' && c != '"';
        wr_json_scan_init(&a->scan);
    }
    wr_call_arguments(p, (const char *)&c, 1);
    if (a->raw || wr_json_scan_step(&a->scan, c) == WR_JSON_MORE) return WR_ARGUMENTS_MORE;
    return WR_ARGUMENTS_DONE;
}

wr_arguments_end wr_arguments_step(wr_parser *p, uint8_t c, const char *const *markers, size_t n, int *marker) {
    wr_arguments *a = &p->call.args;
    if (a->begun && !a->raw && wr_json_scan_in_string(&a->scan)) return take(p, c);
    *marker = wr_marker_find(&p->finder, markers, n, c);
    /* Only the last byte of the spill can be a bracket that ends the value: no marker contains one. */
    wr_arguments_end end = WR_ARGUMENTS_MORE;
    for (size_t i = 0; i < p->finder.n_spill; i++) end = take(p, (uint8_t)p->finder.spill[i]);
    return *marker >= 0 ? WR_ARGUMENTS_MARKER : end;
}

bool wr_arguments_close(wr_parser *p) {
    wr_arguments *a = &p->call.args;
    if (!a->begun) {
        wr_call_arguments(p, "{}", 2);
        return true;
    }
    return a->scan.object && !a->scan.invalid && a->scan.depth == 0;
}
