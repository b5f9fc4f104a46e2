/* Characters that Hugging Face's library does not class as Unicode does: its tables are
 * older, and models were trained with what they gave. */
#ifndef WR_TEXT_UNICODE_REFERENCE_H
#define WR_TEXT_UNICODE_REFERENCE_H

#include <stddef.h>
#include <stdint.h>

enum {
    WR_REFERENCE_PUNCTUATION = 1,
    WR_REFERENCE_MARK = 2,       /* category M */
    WR_REFERENCE_NONSPACING = 4, /* category Mn */
    WR_REFERENCE_CONTROL = 8,
    WR_REFERENCE_FORM = 16, /* decomposition or combining class */
};

/* The classes (WR_REFERENCE_*) that the character has and the library does not see. */
unsigned wr_reference_unknown(uint32_t cp);

#endif
