/* The public side: which format, whether the output begins inside of the reasoning, feeding. */
#include <string.h>

#include "base/mem.h"
#include "text/parse/parse.h"
#include "text/parse/schema.h"

const char *weir_output_format_name(size_t index) {
    for (size_t i = 0; wr_output_formats[i].name; i++) {
        if (i == index) return wr_output_formats[i].name;
    }
    return NULL;
}

const char *weir_output_format_about(size_t index) {
    return weir_output_format_name(index) ? wr_output_formats[index].about : NULL;
}

const char *weir_output_format_detect(const char *chat_template) {
    return wr_output_format_detect(chat_template)->name;
}

/* ---- Reasoning ------------------------------------------------------------ */

static bool ends_with(const char *text, size_t n, const char *end) {
    size_t m = strlen(end);
    return n >= m && memcmp(text + n - m, end, m) == 0;
}

/* The markers that the prompt ends with; NULL if it ends otherwise. */
static const wr_pair *opened_by_prompt(const char *prompt) {
    size_t n = strlen(prompt);
    while (n && strchr(" \n\t\r", prompt[n - 1])) n--;
    for (const wr_pair *pair = wr_pairs; pair->open; pair++) {
        if (ends_with(prompt, n, pair->open)) return pair;
    }
    return NULL;
}

/* The same by the template alone: what it writes for the generation prompt opens reasoning and never closes it. Only a
 * guess; with a switch for thinking the rendered prompt is needed. */
static const wr_pair *opened_by_template(const char *template_text) {
    static const char condition[] = "add_generation_prompt";
    const char *last = NULL;
    for (const char *at = template_text; (at = strstr(at, condition)); at++) last = at;
    for (const wr_pair *pair = wr_pairs; last && pair->open; pair++) {
        if (strstr(last, pair->open) && !strstr(last, pair->close)) return pair;
    }
    return NULL;
}

static void set_reasoning(wr_parser *p, const weir_output_options *options) {
    const wr_pair *pairs[3] = {p->format->reasoning ? p->format->reasoning : &wr_pairs[0], &wr_pairs[0]};
    size_t n = p->format->reasoning ? 2 : 1;
    const wr_pair *opened = options->prompt          ? opened_by_prompt(options->prompt)
                            : options->chat_template ? opened_by_template(options->chat_template)
                                                     : NULL;
    const wr_pair *own = opened; /* markers that only the template shows to be the model's */
    for (const wr_pair *pair = wr_pairs; !own && options->chat_template && pair->open; pair++) {
        if (strstr(options->chat_template, pair->open)) own = pair;
    }
    if (own && own != pairs[0] && own != pairs[1]) pairs[n++] = own;
    p->reasoning_on = options->reasoning != WEIR_REASONING_OFF;
    wr_output_set_markers(p, pairs, p->format->whole ? 0 : n);
    if (p->format->whole || !p->reasoning_on || options->reasoning == WEIR_REASONING_BEFORE) return;
    if (options->reasoning == WEIR_REASONING_INSIDE && !opened) opened = own ? own : pairs[0];
    if (opened) wr_reasoning_begin(p, opened);
}

/* ---- Parser --------------------------------------------------------------- */

static weir_status unknown_format(const char *name, weir_error *err) {
    char names[512] = "";
    for (const wr_output_format *f = wr_output_formats; f->name; f++) {
        size_t n = strlen(names);
        snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "", f->name);
    }
    return WR_FAIL(err, WEIR_E_NOT_FOUND, "there is no output format \"%.40s\"; there are auto, %s", name, names);
}

weir_status weir_output_parser_new(const weir_output_options *options, weir_output_parser **out, weir_error *err) {
    static const weir_output_options none;
    weir_status st = WEIR_OK;
    *out = NULL;
    if (!options) options = &none;
    const wr_output_format *format = options->format && strcmp(options->format, "auto") != 0
                                         ? wr_output_format_find(options->format)
                                         : wr_output_format_detect(options->chat_template);
    if (!format) return unknown_format(options->format, err);
    wr_parser *p = wr_calloc(1, sizeof *p);
    if (!p) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a parser of the model's output");
    p->format = format;
    p->calls_on = p->blank = p->may_think = true;
    p->fresh = format->trim;
    p->where = format->whole ? WR_IN_CALL : WR_IN_TEXT;
    if (options->tools_json) {
        WR_TRY_GOTO(st, wr_tools_new(options->tools_json, &p->tools, err), fail);
        p->calls_on = json_array_size(p->tools) > 0;
    }
    set_reasoning(p, options);
    *out = p;
    return WEIR_OK;
fail:
    weir_output_parser_free(p);
    return st;
}

void weir_output_parser_free(weir_output_parser *p) {
    if (!p) return;
    json_decref(p->tools);
    wr_bytes *const texts[] = {&p->held, &p->name, &p->id, &p->key, &p->value, &p->out};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) wr_bytes_deinit(texts[i]);
    wr_free(p->events);
    wr_free(p->at);
    wr_free(p);
}

const char *weir_output_parser_format(const weir_output_parser *p) { return p->format->name; }

weir_status weir_output_parser_feed(weir_output_parser *p, const char *text, size_t bytes,
                                    const weir_output_event **events, size_t *n, weir_error *err) {
    *events = NULL;
    *n = 0;
    if (p->finished) return WR_FAIL(err, WEIR_E_STATE, "the parser has finished; it takes no more text");
    wr_output_events_clear(p);
    for (size_t i = 0; i < bytes && p->failed == WEIR_OK; i++) wr_output_byte(p, (uint8_t)text[i]);
    return wr_output_events_close(p, false, events, n, err);
}

weir_status weir_output_parser_finish(weir_output_parser *p, bool truncated, const weir_output_event **events,
                                      size_t *n, weir_error *err) {
    *events = NULL;
    *n = 0;
    if (p->finished) return WR_FAIL(err, WEIR_E_STATE, "the parser has finished already");
    p->finished = true;
    wr_output_events_clear(p);
    wr_output_end(p, truncated);
    return wr_output_events_close(p, true, events, n, err);
}
