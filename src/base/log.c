/* The process's one function for notices. */
#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static weir_log_function user_function;
static void *user_context;
static bool was_set; /* the user has said what he wants, were it nothing */

void weir_set_log(weir_log_function function, void *context) {
    pthread_mutex_lock(&lock);
    user_function = function;
    user_context = context;
    was_set = true;
    pthread_mutex_unlock(&lock);
}

static bool traced(void) {
    const char *text = getenv("WEIR_TRACE");
    return text && *text && strcmp(text, "0") != 0;
}

static void tell(const char *text, bool unasked) {
    pthread_mutex_lock(&lock);
    if (user_function)
        user_function(user_context, text);
    else if (traced() || (unasked && !was_set))
        fprintf(stderr, "weir: %s\n", text);
    pthread_mutex_unlock(&lock);
}

void wr_log_text(const char *text) { tell(text, false); }
void wr_announce(const char *text) { tell(text, true); }

void wr_log(const char *format, ...) {
    char text[4096];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    wr_log_text(text);
}
