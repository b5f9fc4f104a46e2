/* Jinja templates as chat templates are written: compiled once, rendered many times.
 *
 * The language is that of Python's jinja2 3.1 with the settings that `transformers`
 * uses: an immutable sandbox, trim_blocks and lstrip_blocks, break and continue, the
 * {% generation %} tag, `tojson` without HTML escapes, `strftime_now`, and
 * `raise_exception`. Text is UTF-8. What needs a loader, Python's object model or
 * randomness (include, import, extends, the filter `random`, bytes) is refused by name.
 *
 * A template is hostile until shown otherwise: every rendering has limits on work,
 * depth, memory and output, and passing one is the status LIMIT naming it. */
#ifndef WR_TEXT_JINJA_JINJA_H
#define WR_TEXT_JINJA_JINJA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/status.h"

enum { WR_JINJA_SOURCE_BYTES_MAX = 4 << 20 };

typedef struct wr_jinja wr_jinja;

/* Compile `bytes` bytes of template text; the text need not live on. Errors: FORMAT
 * (a syntax error, with its line), UNSUPPORTED (valid Jinja that is refused), LIMIT
 * (size, nesting), MEMORY. */
weir_status wr_jinja_new(const char *source, size_t bytes, wr_jinja **out, weir_error *err);
void wr_jinja_free(wr_jinja *jinja);

/* Does the template read a variable of this name that it does not set first ("tools")? */
bool wr_jinja_reads(const wr_jinja *jinja, const char *name);

typedef struct wr_jinja_limits {
    uint64_t steps;      /* units of work: a node visited, or 64 bytes of text touched */
    size_t memory_bytes; /* of all values of one rendering, garbage included */
    size_t output_bytes; /* of the rendered text, and of any text built on the way */
    int64_t now_s;       /* seconds since 1970 that strftime_now takes as now; 0: the clock */
} wr_jinja_limits;

/* Zero fields of limits (or NULL) stand for these. 50 million steps take about a second
 * (measured: 0.4 to 0.9 s on one core of an EPYC). */
enum {
    WR_JINJA_STEPS = 50000000,
    WR_JINJA_MEMORY_BYTES = 512 << 20,
    WR_JINJA_OUTPUT_BYTES = 128 << 20,
};

/* Render with variables (a JSON object; borrowed, unchanged). *text is terminated,
 * *bytes long (it may hold 0 bytes); free with wr_free. Errors: ARGUMENT when the
 * template raises ("the chat template says: " and its own words) or fails on these
 * variables (with line), UNSUPPORTED, LIMIT, MEMORY. Any thread; one template may be
 * rendered by several at once. */
weir_status wr_jinja_render(const wr_jinja *jinja, const json_t *variables, const wr_jinja_limits *limits, char **text,
                            size_t *bytes, weir_error *err);

#endif
