/* weir: what a model wrote, taken apart: content, reasoning and tool calls.
 *
 * Each family of models writes its tool calls and its reasoning in a format of its own, which its chat template names.
 * A parser takes the text of one assistant turn as it is generated, in pieces of any size, and gives events. What comes
 * out does not depend on where the pieces were cut: the deltas of a kind, joined, are always the same.
 *
 * No text is lost. What looks like a call and is none comes out as content, whole and in order; only the markers of the
 * format, and white space that belongs to them, are taken away. A call that was begun always ends: with complete false
 * when the output stopped inside of it, with valid false when its arguments are no JSON object. Nothing that a model
 * writes is an error.
 *
 * The time is linear in the text, the memory too. A parser is used by one thread at a time. */
#ifndef WEIR_OUTPUT_H
#define WEIR_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "weir/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Formats ------------------------------------------------------------ */

/* The formats by number, from 0; NULL behind the last one. The name is what weir_output_options.format takes, the
 * sentence says who writes it. Never freed. Any thread. */
const char *weir_output_format_name(size_t index);
const char *weir_output_format_about(size_t index);

/* The format of a chat template (its source text), by the markers in it; "plain" when it has none of a known format (or
 * is NULL): reasoning in <think> tags, no calls. Never NULL. Any thread. */
const char *weir_output_format_detect(const char *chat_template);

/* ---- Events ------------------------------------------------------------- */

/* Calls come one after the other, never nested: CALL, any number of ARGUMENTS, CALL_END. CONTENT may come in between
 * when the model writes text within a call where none belongs. */

typedef enum weir_output_kind {
    WEIR_OUTPUT_CONTENT,   /* text: more of the answer */
    WEIR_OUTPUT_REASONING, /* text: more of the reasoning */
    WEIR_OUTPUT_CALL,      /* call, name, id: a tool call begins */
    WEIR_OUTPUT_ARGUMENTS, /* call, text: more of its arguments, as JSON text */
    WEIR_OUTPUT_CALL_END,  /* call, id, complete, valid: no more of it comes */
    WEIR_OUTPUT_FINISH,    /* call (their number), complete: always the last */
} weir_output_kind;

/* Views into the parser, until its next call. Not terminated; NULL and 0 where the kind has none. */
typedef struct weir_output_event {
    weir_output_kind kind;
    const char *text; /* whole UTF-8 characters, if the output as a whole is UTF-8 */
    size_t text_bytes;
    size_t call; /* which call, from 0 */
    const char *name;
    size_t name_bytes;
    const char *id; /* if the model gave one, with the event by which it was known */
    size_t id_bytes;
    /* CALL_END: the call was written to its end. FINISH: so was everything: false when the output stopped inside of a
     * call or of the reasoning. */
    bool complete;
    bool valid; /* CALL_END: the arguments are a JSON object */
} weir_output_event;

/* ---- Parsing ------------------------------------------------------------ */

typedef enum weir_reasoning {
    WEIR_REASONING_AUTO,   /* by the prompt, else by the template */
    WEIR_REASONING_INSIDE, /* the output begins inside of the reasoning: the prompt opened it */
    WEIR_REASONING_BEFORE, /* the output begins outside and may open it */
    WEIR_REASONING_OFF,    /* its markers are ordinary text */
} weir_reasoning;

/* Zero is the default of every field. Nothing is kept of it after the call. */
typedef struct weir_output_options {
    const char *format;        /* name of a format; NULL or "auto": found by chat_template */
    const char *chat_template; /* the model's, or NULL */
    const char *prompt;        /* the rendered prompt or its end, or NULL: shows whether the reasoning is open */
    /* The tools of the request: a JSON array as in the OpenAI API. Their parameters' schemas decide what is a string
     * and what a number where the format does not. An empty array: no calls, their markers are text. NULL: not known,
     * every name is taken for a tool. */
    const char *tools_json;
    weir_reasoning reasoning;
} weir_output_options;

typedef struct weir_output_parser weir_output_parser;

/* Errors: NOT_FOUND (no such format; the message names them), FORMAT (tools_json is no list of tools), MEMORY. */
weir_status weir_output_parser_new(const weir_output_options *options, weir_output_parser **out, weir_error *err);
void weir_output_parser_free(weir_output_parser *parser); /* accepts NULL */

/* The name of the parser's format. */
const char *weir_output_parser_format(const weir_output_parser *parser);

/* The next bytes of the output (any number, cut anywhere). *events are *n events. Text that may yet turn out to be a
 * marker, a line break that may belong to one, and an incomplete character are held back. Errors: STATE after finish,
 * MEMORY; after an error only free is allowed. */
weir_status weir_output_parser_feed(weir_output_parser *parser, const char *text, size_t bytes,
                                    const weir_output_event **events, size_t *n, weir_error *err);

/* The end of the output; gives what was held back, the end of an open call, and FINISH. truncated: the output was cut
 * off (by a token limit), so a marker at the very end is no text of the model. Errors as above. */
weir_status weir_output_parser_finish(weir_output_parser *parser, bool truncated, const weir_output_event **events,
                                      size_t *n, weir_error *err);

#ifdef __cplusplus
}
#endif
#endif
