/* Regular expressions as ECMA-262 (and so JSON Schema) writes them, with the u flag's characters. What has no
 * automaton, or would need one of unbounded size (back references, look-around, word boundaries), is UNSUPPORTED, by
 * name. */
#ifndef WR_TEXT_GRAMMAR_PATTERN_H
#define WR_TEXT_GRAMMAR_PATTERN_H

#include "text/grammar/expr.h"

wr_expr *wr_pattern_parse(wr_gr_build *b, const char *text, size_t bytes);

/* One character of escapes that expressions and grammars share: at *p, behind the backslash, hex digits of \xHH, \uHHHH
 * and the like. False when they are not there. */
bool wr_pattern_hex(const char **p, const char *end, int digits, uint32_t *cp);

#endif
