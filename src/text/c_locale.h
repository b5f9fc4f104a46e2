/* The C locale, in which numbers and dates of files, schemas and templates are written, whatever the program's is. */
#ifndef WR_TEXT_C_LOCALE_H
#define WR_TEXT_C_LOCALE_H

#include <locale.h>

/* Lives as long as the process; 0 when the system could not make it. */
locale_t wr_c_locale(void);
/* Make it the calling thread's; what this returns is given to leave, by the same thread. */
locale_t wr_c_locale_enter(void);
void wr_c_locale_leave(locale_t before);

#endif
