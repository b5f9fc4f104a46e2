/* Notices to the user's function (weir/log.h). */
#ifndef WR_BASE_LOG_H
#define WR_BASE_LOG_H

#include "weir/log.h"

/* As printf; cut after some kilobytes. */
void wr_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The text whole. */
void wr_log_text(const char *text);
/* What somebody waits for, one line: it goes to standard error where weir_set_log was never called. */
void wr_announce(const char *text);

#endif
