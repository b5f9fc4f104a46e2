/* weir: notices. What is worth knowing and is no error: that a kernel had to be compiled and how long it took, what the
 * compiler warned of. Without a function set they are dropped, or go to standard error when WEIR_TRACE is set; but for
 * one, which is all that the library prints of its own accord: that a kernel was compiled, seconds for which somebody
 * waited, is a line on standard error as long as weir_set_log was never called. */
#ifndef WEIR_LOG_H
#define WEIR_LOG_H

#ifdef __cplusplus
extern "C" {
#endif

/* text: one notice, usually one line, without a line end; valid during the call only. */
typedef void (*weir_log_function)(void *context, const char *text);

/* For the whole process; NULL: none, and then nothing is printed without WEIR_TRACE. Any thread; the function is called
 * by the thread that has something to say, by one at a time, and must not call weir_set_log. Once this returns, the
 * function set before is not called any more. */
void weir_set_log(weir_log_function function, void *context);

#ifdef __cplusplus
}
#endif
#endif
