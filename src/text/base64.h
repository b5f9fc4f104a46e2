/* Base64 (RFC 4648, the standard alphabet), as tokenizer files carry bytes. */
#ifndef WR_TEXT_BASE64_H
#define WR_TEXT_BASE64_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Read text [n] into out, which has room for n / 4 * 3 + 3 bytes. False when it is
 * malformed: another character, a wrong length, padding that is not at the end. */
bool wr_base64_read(const char *text, size_t n, uint8_t *out, size_t *out_bytes);

#endif
