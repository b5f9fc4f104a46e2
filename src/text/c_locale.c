/* Owns the one locale object. */
#include "text/c_locale.h"

#include <pthread.h>

static locale_t c_locale;
static void make(void) { c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

locale_t wr_c_locale(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make);
    return c_locale;
}

locale_t wr_c_locale_enter(void) { return wr_c_locale() ? uselocale(c_locale) : (locale_t)0; }

void wr_c_locale_leave(locale_t before) {
    if (before) uselocale(before);
}
