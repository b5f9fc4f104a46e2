/* Reporting of failures. The origin writes the message once with WR_FAIL;
 * frames above forward the status with WR_TRY and may add context. */
#ifndef WR_BASE_STATUS_H
#define WR_BASE_STATUS_H

#include <stdio.h>
#include <stdlib.h>

#include "weir/status.h"

/* Write code, message and place into err (may be NULL); returns code. */
weir_status wr_fail_at(weir_error *err, weir_status code, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* Append "; context" to the message already there. Does nothing on NULL. */
void wr_err_context(weir_error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define WR_FAIL(err, code, ...) wr_fail_at((err), (code), __FILE__, __LINE__, __VA_ARGS__)

#define WR_TRY(call)                                                                                                   \
    do {                                                                                                               \
        weir_status wr_try_status_ = (call);                                                                           \
        if (wr_try_status_ != WEIR_OK) return wr_try_status_;                                                          \
    } while (0)

#define WR_TRY_GOTO(status, call, label)                                                                               \
    do {                                                                                                               \
        (status) = (call);                                                                                             \
        if ((status) != WEIR_OK) goto label;                                                                           \
    } while (0)

/* A fault of ours, not of the world: prints state and aborts. On in release. */
void wr_assert_failed(const char *condition, const char *file, int line) __attribute__((noreturn));
#define wr_assert(condition) ((condition) ? (void)0 : wr_assert_failed(#condition, __FILE__, __LINE__))

#endif
