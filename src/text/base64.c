/* Owns the alphabet. */
#include "text/base64.h"

static int digit(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool wr_base64_read(const char *text, size_t n, uint8_t *out, size_t *out_bytes) {
    uint32_t bits = 0;
    size_t m = 0, digits = n;
    if (n % 4) return false;
    while (digits && n - digits < 2 && text[digits - 1] == '=') digits--;
    for (size_t i = 0; i < digits; i++) {
        int d = digit(text[i]);
        if (d < 0) return false;
        bits = bits << 6 | (uint32_t)d;
        if (i % 4 == 3) {
            out[m++] = (uint8_t)(bits >> 16);
            out[m++] = (uint8_t)(bits >> 8);
            out[m++] = (uint8_t)bits;
        }
    }
    switch (digits % 4) {
    case 2: out[m++] = (uint8_t)(bits >> 4); break;
    case 3:
        out[m++] = (uint8_t)(bits >> 10);
        out[m++] = (uint8_t)(bits >> 2);
        break;
    default: break;
    }
    *out_bytes = m;
    return true;
}
