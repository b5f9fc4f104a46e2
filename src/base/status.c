/* Status text and error messages. A message is built in a local buffer first,
 * so that its arguments may point into the error it replaces, and it is made
 * valid UTF-8 here once, because it may carry bytes of a broken file. */
#include "base/status.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

const char *weir_status_text(weir_status status) {
    switch (status) {
#define STATUS_CASE(code, text)                                                                                        \
    case code: return text;
        WEIR_STATUS_LIST(STATUS_CASE)
#undef STATUS_CASE
    case WEIR_STATUS_COUNT: break;
    }
    return "unknown status";
}

/* Length of the well-formed UTF-8 sequence at s (RFC 3629), 0 when malformed. */
static size_t sequence_bytes(const unsigned char *s) {
    if (s[0] < 0x80) return 1;
    size_t n;
    unsigned char low = 0x80, high = 0xBF;
    if (s[0] >= 0xC2 && s[0] <= 0xDF) {
        n = 2;
    } else if (s[0] >= 0xE0 && s[0] <= 0xEF) {
        n = 3;
        if (s[0] == 0xE0) low = 0xA0;
        if (s[0] == 0xED) high = 0x9F;
    } else if (s[0] >= 0xF0 && s[0] <= 0xF4) {
        n = 4;
        if (s[0] == 0xF0) low = 0x90;
        if (s[0] == 0xF4) high = 0x8F;
    } else {
        return 0;
    }
    if (s[1] < low || s[1] > high) return 0;
    for (size_t i = 2; i < n; i++) {
        if (s[i] < 0x80 || s[i] > 0xBF) return 0;
    }
    return n;
}

/* Put '?' in place of every byte that is not part of well-formed UTF-8. */
static void repair_utf8(char *text) {
    unsigned char *s = (unsigned char *)text;
    while (*s) {
        size_t n = sequence_bytes(s);
        if (n == 0) {
            *s = '?';
            n = 1;
        }
        s += n;
    }
}

/* Cut text to at most max bytes, at a character boundary. */
static void cut_utf8(char *text, size_t max) {
    if (strlen(text) <= max) return;
    size_t end = max;
    while (end > 0 && ((unsigned char)text[end] & 0xC0) == 0x80) end--;
    text[end] = 0;
}

/* Message = body + place, with the body cut so that the place always fits. */
static void set_message(weir_error *err, char *body, const char *place) {
    size_t place_bytes = strlen(place);
    repair_utf8(body);
    cut_utf8(body, WEIR_ERROR_BYTES - 1 - place_bytes);
    size_t body_bytes = strlen(body);
    memcpy(err->message, body, body_bytes);
    memcpy(err->message + body_bytes, place, place_bytes + 1);
}

weir_status wr_fail_at(weir_error *err, weir_status code, const char *file, int line, const char *format, ...) {
    if (!err) return code;
    char body[WEIR_ERROR_BYTES], place[96];
    va_list args;
    va_start(args, format);
    if (vsnprintf(body, sizeof body, format, args) < 0) snprintf(body, sizeof body, "%s", weir_status_text(code));
    va_end(args);
    const char *slash = strrchr(file, '/');
    snprintf(place, sizeof place, " (%.72s:%d)", slash ? slash + 1 : file, line);
    err->status = code;
    set_message(err, body, place);
    return code;
}

/* Start of the " (name.c:12)" at the end of a message, NULL when there is none. */
static char *find_place(char *message) {
    size_t n = strlen(message);
    if (n == 0 || message[n - 1] != ')') return NULL;
    size_t i = n - 1, digits = 0;
    while (i > 0 && message[i - 1] >= '0' && message[i - 1] <= '9') {
        i--;
        digits++;
    }
    if (digits == 0 || i == 0 || message[i - 1] != ':') return NULL;
    while (i > 1 && message[i] != '(') {
        if (message[i] == ' ') return NULL;
        i--;
    }
    return i > 0 && message[i] == '(' && message[i - 1] == ' ' ? message + i - 1 : NULL;
}

void wr_err_context(weir_error *err, const char *format, ...) {
    if (!err) return;
    char body[2 * WEIR_ERROR_BYTES], place[WEIR_ERROR_BYTES] = "", context[WEIR_ERROR_BYTES];
    va_list args;
    va_start(args, format);
    int written = vsnprintf(context, sizeof context, format, args);
    va_end(args);
    if (written < 0) return;
    char *at = find_place(err->message);
    if (at) {
        memcpy(place, at, strlen(at) + 1);
        *at = 0;
    }
    snprintf(body, sizeof body, "%s%s%s", err->message, err->message[0] ? "; " : "", context);
    set_message(err, body, place);
}

void wr_assert_failed(const char *condition, const char *file, int line) {
    fprintf(stderr, "weir: internal error: %s does not hold (%s:%d); please report this\n", condition, file, line);
    abort();
}
