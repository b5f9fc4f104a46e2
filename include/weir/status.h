/* weir: status codes and error text.
 *
 * Every function that can fail returns a weir_status and, where it takes a
 * `weir_error *`, writes the message there once, at the place where the fault
 * was found, with values. The caller owns the weir_error; NULL is allowed and
 * means "status only". Reporting never allocates. */
#ifndef WEIR_STATUS_H
#define WEIR_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/* One list gives code and sentence. */
#define WEIR_STATUS_LIST(X)                                                                                            \
    X(WEIR_OK, "ok")                                                                                                   \
    X(WEIR_E_ARGUMENT, "an argument is wrong")                                                                         \
    X(WEIR_E_NOT_FOUND, "not found")                                                                                   \
    X(WEIR_E_IO, "reading or writing failed")                                                                          \
    X(WEIR_E_FORMAT, "the file is malformed")                                                                          \
    X(WEIR_E_UNSUPPORTED, "valid, but not supported")                                                                  \
    X(WEIR_E_MEMORY, "out of memory")                                                                                  \
    X(WEIR_E_LIMIT, "a stated limit is exceeded")                                                                      \
    X(WEIR_E_STATE, "called in the wrong state")                                                                       \
    X(WEIR_E_CANCELLED, "cancelled")                                                                                   \
    X(WEIR_E_DEVICE, "the device failed")

typedef enum weir_status {
#define WEIR_STATUS_ENUM(code, text) code,
    WEIR_STATUS_LIST(WEIR_STATUS_ENUM)
#undef WEIR_STATUS_ENUM
        WEIR_STATUS_COUNT
} weir_status;

enum { WEIR_ERROR_BYTES = 1024 };

/* The first error of an operation: what, where, and what to do. */
typedef struct weir_error {
    weir_status status;
    char message[WEIR_ERROR_BYTES]; /* UTF-8, always terminated; cut if too long */
} weir_error;

/* The sentence that belongs to a code; never NULL. Any thread. */
const char *weir_status_text(weir_status status);

#ifdef __cplusplus
}
#endif
#endif
