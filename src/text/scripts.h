/* Cutting where the script of writing changes. */
#ifndef WR_TEXT_SCRIPTS_H
#define WR_TEXT_SCRIPTS_H

#include "base/status.h"
#include "text/regex.h"

/* An expression whose matches are the stretches of one script. Spaces and characters
 * without a script belong to what is before them; those at the start belong to nothing.
 * Hiragana and Katakana count as Han. Error: MEMORY. */
weir_status wr_scripts_open(wr_regex **out, weir_error *err);

#endif
