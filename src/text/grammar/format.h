/* The formats of strings that are enforced. */
#ifndef WR_TEXT_GRAMMAR_FORMAT_H
#define WR_TEXT_GRAMMAR_FORMAT_H

/* An expression for the whole string; "" for a format that says nothing about the text; NULL for an unknown one. */
const char *wr_format_pattern(const char *name);

#endif
