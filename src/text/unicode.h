/* UTF-8 and the few character classes that tokenizers name. */
#ifndef WR_TEXT_UNICODE_H
#define WR_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Read one character of p[0..n), n >= 1. Returns its length (1-4) and sets *cp;
 * or -k when the first k bytes are a maximal invalid part (Unicode 15, 3.9, table
 * 3-8: what one U+FFFD replaces); or 0 when all n bytes are the valid beginning
 * of a longer character. */
int wr_utf8_step(const uint8_t *p, size_t n, uint32_t *cp);
/* Write cp (a valid scalar value) to out; returns its length. */
int wr_utf8_put(uint32_t cp, uint8_t out[4]);
/* Length of the valid beginning of p[0..n); n when all is valid. */
size_t wr_utf8_valid(const uint8_t *p, size_t n);
/* Characters of text that is known to be valid: read at p, and the start of the
 * character that ends before p[at]. */
int wr_utf8_get(const uint8_t *p, uint32_t *cp);
size_t wr_utf8_back(const uint8_t *p, size_t at);

/* Characters of p[0..n), which is valid. */
size_t wr_utf8_count(const uint8_t *p, size_t n);

/* The value of a hexadecimal digit, -1 for any other byte; and the character of two surrogates. */
static inline int wr_hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    char low = (char)(c | 0x20);
    return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}
static inline uint32_t wr_surrogates_join(uint32_t high, uint32_t low) {
    return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
}

/* White_Space; general category N*; ASCII punctuation or category P*; word
 * characters (Alphabetic, marks, decimal digits, connectors). Punctuation, controls and
 * marks as Hugging Face's library sees them (unicode_reference.h). */
bool wr_char_is_space(uint32_t cp);
bool wr_char_is_number(uint32_t cp);
bool wr_char_is_punctuation(uint32_t cp);
bool wr_char_is_word(uint32_t cp);
/* Category Cc, Cf or Co; category M, or Mn alone. */
bool wr_char_is_control(uint32_t cp);
bool wr_char_is_mark(uint32_t cp, bool nonspacing_only);

/* U+2581, which stands for the space in SentencePiece's vocabularies. */
#define WR_METASPACE "\xE2\x96\x81"
enum { WR_METASPACE_BYTES = sizeof WR_METASPACE - 1 };

/* The byte-level alphabet: every byte as a printable character of at most two
 * UTF-8 bytes (GPT-2's table: printable Latin-1 as itself, the other 68 bytes in
 * order from U+0100). */
uint32_t wr_byte_to_char(uint8_t byte);
/* p[0..n) in that alphabet; returns the bytes written, at most 2 * n. */
size_t wr_bytes_spell(const uint8_t *p, size_t n, uint8_t *out);
/* -1 when cp is not in the alphabet. */
int wr_char_to_byte(uint32_t cp);

#endif
