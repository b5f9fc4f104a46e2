/* Growable bytes, and the escapes of the JSON that calls are rewritten to. */
#include "text/parse/bytes.h"

#include <string.h>

#include "base/mem.h"
#include "text/work.h"

void wr_bytes_deinit(wr_bytes *b) {
    wr_free(b->data);
    *b = (wr_bytes){0};
}

void wr_bytes_add(wr_bytes *b, const void *data, size_t n) {
    if (n == 0 || b->failed) return;
    if (!wr_grow(&b->data, &b->cap, b->n + n, 1)) {
        b->failed = true;
        return;
    }
    memcpy(b->data + b->n, data, n);
    b->n += n;
}

void wr_bytes_put(wr_bytes *b, const char *text) { wr_bytes_add(b, text, strlen(text)); }

void wr_bytes_escaped(wr_bytes *b, const char *text, size_t n) {
    static const char hex[] = "0123456789abcdef";
    size_t plain = 0;   /* text[plain, i) is to be copied */
    if (n == 0) return; /* text may be NULL */
    for (size_t i = 0; i < n; i++) {
        uint8_t c = (uint8_t)text[i];
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        wr_bytes_add(b, text + plain, i - plain);
        plain = i + 1;
        const char *at = c ? strchr("\"\"\\\\\nn\tt\rr\bb\ff", c) : NULL;
        char out[6] = {'\\', at ? at[1] : 'u', '0', '0', hex[c >> 4], hex[c & 15]};
        wr_bytes_add(b, out, at ? 2 : 6);
    }
    wr_bytes_add(b, text + plain, n - plain);
}
