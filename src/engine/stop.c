/* Owns the held-back text and, until the next step, the text that was given out. */
#include "engine/stop.h"

#include <string.h>

#include "base/mem.h"

weir_status wr_stop_gate_init(wr_stop_gate *g, const char *const *strings, size_t n, size_t push_bytes_max,
                              weir_error *err) {
    *g = (wr_stop_gate){0};
    if (n > WEIR_MAX_STOP_STRINGS)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "%zu stop strings; at most %d are possible", n, WEIR_MAX_STOP_STRINGS);
    for (size_t i = 0; i < n; i++) {
        size_t bytes = strings[i] ? strlen(strings[i]) : 0;
        if (!bytes || bytes > WEIR_MAX_STOP_BYTES) {
            wr_stop_gate_deinit(g);
            return WR_FAIL(err, WEIR_E_ARGUMENT, "stop string %zu has %zu bytes; it must have 1 to %d", i, bytes,
                           WEIR_MAX_STOP_BYTES);
        }
        g->strings[g->n] = wr_strdup(strings[i]);
        g->lengths[g->n] = bytes;
        if (!g->strings[g->n++]) {
            wr_stop_gate_deinit(g);
            return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a stop string");
        }
    }
    g->capacity = WEIR_MAX_STOP_BYTES + push_bytes_max + 8;
    g->held = wr_malloc(g->capacity * 3);
    g->given = g->held + g->capacity;
    if (g->held) return WEIR_OK;
    wr_stop_gate_deinit(g);
    return WR_FAIL(err, WEIR_E_MEMORY, "no memory for held-back text");
}

void wr_stop_gate_deinit(wr_stop_gate *g) {
    for (size_t i = 0; i < g->n; i++) wr_free(g->strings[i]);
    wr_free(g->held);
    *g = (wr_stop_gate){0};
}

void wr_stop_gate_begin(wr_stop_gate *g) { g->n_given = 0; }

char *wr_stop_gate_space(wr_stop_gate *g, size_t *bytes) {
    *bytes = g->capacity - g->n_held;
    return g->held + g->n_held;
}

/* First place of a complete stop string, or n_held. */
static size_t find_stop(const wr_stop_gate *g) {
    for (size_t at = 0; at < g->n_held; at++)
        for (size_t i = 0; i < g->n; i++)
            if (g->lengths[i] <= g->n_held - at && !memcmp(g->held + at, g->strings[i], g->lengths[i])) return at;
    return g->n_held;
}

/* First place from which the rest is a proper prefix of some stop string, or n_held. */
static size_t find_prefix(const wr_stop_gate *g) {
    size_t at = g->n_held > WEIR_MAX_STOP_BYTES ? g->n_held - WEIR_MAX_STOP_BYTES : 0;
    for (; at < g->n_held; at++)
        for (size_t i = 0; i < g->n; i++)
            if (g->lengths[i] > g->n_held - at && !memcmp(g->held + at, g->strings[i], g->n_held - at)) return at;
    return g->n_held;
}

/* Give out the first `bytes` held bytes and keep `kept` after them. */
static void give(wr_stop_gate *g, size_t bytes, size_t kept, const char **out, size_t *out_bytes) {
    wr_assert(g->n_given + bytes <= 2 * g->capacity);
    char *given = g->given + g->n_given;
    memcpy(given, g->held, bytes);
    g->n_given += bytes;
    memmove(g->held, g->held + bytes, kept);
    g->n_held = kept;
    *out = given;
    *out_bytes = bytes;
}

bool wr_stop_gate_push(wr_stop_gate *g, size_t added, const char **out, size_t *out_bytes) {
    g->n_held += added;
    size_t stop = find_stop(g);
    if (stop < g->n_held) {
        give(g, stop, 0, out, out_bytes);
        return true;
    }
    size_t safe = find_prefix(g);
    give(g, safe, g->n_held - safe, out, out_bytes);
    return false;
}

void wr_stop_gate_flush(wr_stop_gate *g, const char **out, size_t *out_bytes) { give(g, g->n_held, 0, out, out_bytes); }
