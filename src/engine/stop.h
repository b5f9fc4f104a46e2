/* The gate between decoded text and the client: holds back what may become a
 * stop string, and lets go of it when it does not. */
#ifndef WR_ENGINE_STOP_H
#define WR_ENGINE_STOP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "weir/engine.h"

typedef struct wr_stop_gate {
    char *strings[WEIR_MAX_STOP_STRINGS];
    size_t lengths[WEIR_MAX_STOP_STRINGS];
    size_t n;
    char *held;  /* [capacity] text not yet given out */
    char *given; /* [2 * capacity] text given out since wr_stop_gate_begin */
    size_t n_held, n_given, capacity;
} wr_stop_gate;

/* push_bytes_max: the longest text one push may bring. Errors: ARGUMENT (too many, empty or too long strings), MEMORY.
 */
weir_status wr_stop_gate_init(wr_stop_gate *g, const char *const *strings, size_t n, size_t push_bytes_max,
                              weir_error *err);
void wr_stop_gate_deinit(wr_stop_gate *g);

/* A new step: what was given out before is no longer needed. Between two calls there may be one push and one flush. */
void wr_stop_gate_begin(wr_stop_gate *g);
/* Room for new text: append at most *bytes to the returned place, then call wr_stop_gate_push with the count. */
char *wr_stop_gate_space(wr_stop_gate *g, size_t *bytes);
/* Returns true when a stop string is complete: what stands before it is the last text. out (view, valid until the next
 * begin) and out_bytes: text that is free to go. */
bool wr_stop_gate_push(wr_stop_gate *g, size_t added, const char **out, size_t *out_bytes);
/* The end: everything that was held. */
void wr_stop_gate_flush(wr_stop_gate *g, const char **out, size_t *out_bytes);

#endif
