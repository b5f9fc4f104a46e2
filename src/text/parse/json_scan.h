/* One JSON value, byte by byte: where it ends, and whether it is valid (RFC 8259). After a mistake the scan goes on by
 * brackets and quotes alone, so that the end of broken JSON is still found where a reader would see it. */
#ifndef WR_TEXT_PARSE_JSON_SCAN_H
#define WR_TEXT_PARSE_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* White space as JSON has it; formats have no other. */
static inline bool wr_json_space(uint8_t c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

enum { WR_JSON_SCAN_DEPTH = 512 }; /* deeper is not valid */

typedef struct wr_json_scan {
    uint8_t state, literal, literal_at, digits;
    bool invalid, object; /* object: the value is one */
    uint32_t depth;
    uint8_t arrays[WR_JSON_SCAN_DEPTH / 8]; /* one bit a level: it is an array */
} wr_json_scan;

typedef enum wr_json_scan_end {
    WR_JSON_MORE, /* the value goes on */
    WR_JSON_LAST, /* this byte was its last one */
    WR_JSON_PAST, /* it ended before this byte (numbers) */
} wr_json_scan_end;

void wr_json_scan_init(wr_json_scan *s);
/* White space before the value is skipped. Not to be called after the end. */
wr_json_scan_end wr_json_scan_step(wr_json_scan *s, uint8_t c);
bool wr_json_scan_in_string(const wr_json_scan *s);

/* The whole text is one valid value, perhaps between white space. *first, if not NULL: its first byte. */
bool wr_json_is_valid(const char *text, size_t n, char *first);

#endif
