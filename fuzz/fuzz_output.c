/* What a model wrote. The first byte chooses the format, the second options, the third how the rest is cut; that is
 * parsed whole, in those pieces and byte by byte. The results must be the same, calls must begin and end in turn,
 * arguments that are called valid must be, and text in which no format has a marker must come out as it went in. */
#include <stdint.h>
#include <string.h>

#include <jansson.h>

#include "base/mem.h"
#include "text/parse/bytes.h"
#include "text/unicode.h"
#include "weir/output.h"

#define TOOLS                                                                                                          \
    "[{\"name\":\"f\",\"parameters\":{\"properties\":{\"s\":{\"type\":\"string\"},\"a\":{\"type\":\"integer\"},"       \
    "\"o\":{\"type\":\"object\"}}}}]"

typedef struct result {
    wr_bytes text, arguments; /* every kind after its letter; arguments of the call that is open */
    int kind;
    size_t n_calls;
    bool in_call, finished;
} result;

static void check(bool fine) {
    if (!fine) __builtin_trap();
}

static void take(result *r, const weir_output_event *e, bool valid_utf8) {
    bool delta = e->kind <= WEIR_OUTPUT_REASONING || e->kind == WEIR_OUTPUT_ARGUMENTS;
    check(!r->finished && delta == (e->text_bytes > 0));
    if (delta && valid_utf8) check(wr_utf8_valid((const uint8_t *)e->text, e->text_bytes) == e->text_bytes);
    if (!delta || r->kind != (int)e->kind) wr_bytes_byte(&r->text, (uint8_t)('a' + e->kind));
    r->kind = (int)e->kind;
    wr_bytes_add(&r->text, e->text, e->text_bytes);
    wr_bytes_add(&r->text, e->name, e->name_bytes);
    wr_bytes_add(&r->text, e->id, e->id_bytes);
    wr_bytes_byte(&r->text, (uint8_t)(e->complete * 2 + e->valid));
    if (delta) r->text.n--; /* the flags belong to no delta */
    if (e->kind == WEIR_OUTPUT_CALL) {
        check(!r->in_call && e->call == r->n_calls && e->name_bytes);
        r->in_call = true;
        r->arguments.n = 0;
    } else if (e->kind == WEIR_OUTPUT_ARGUMENTS) {
        check(r->in_call && e->call == r->n_calls);
        wr_bytes_add(&r->arguments, e->text, e->text_bytes);
    } else if (e->kind == WEIR_OUTPUT_CALL_END) {
        check(r->in_call && e->call == r->n_calls);
        r->in_call = false;
        r->n_calls++;
        /* What jansson refuses of valid JSON is passed over. */
        json_error_t fault;
        json_t *json = json_loadb(r->arguments.data, r->arguments.n, JSON_ALLOW_NUL, &fault);
        enum json_error_code code = json ? json_error_unknown : json_error_code(&fault);
        bool refused = code == json_error_numeric_overflow || code == json_error_invalid_utf8 ||
                       code == json_error_null_byte_in_key;
        if (e->valid) check(json_is_object(json) || refused);
        json_decref(json);
    } else if (e->kind == WEIR_OUTPUT_FINISH) {
        check(!r->in_call && e->call == r->n_calls);
        r->finished = true;
    }
}

/* step 0: in one piece; else in pieces of 1 to step bytes. */
static result parse(const weir_output_options *options, const char *text, size_t n, unsigned step, bool truncated) {
    result r = {.kind = -1};
    weir_output_parser *parser;
    const weir_output_event *events;
    size_t n_events, at = 0;
    bool valid_utf8 = wr_utf8_valid((const uint8_t *)text, n) == n;
    check(weir_output_parser_new(options, &parser, NULL) == WEIR_OK);
    for (unsigned round = 0; at < n; round++) {
        size_t piece = step ? round * 7 % step + 1 : n;
        if (piece > n - at) piece = n - at;
        check(weir_output_parser_feed(parser, text + at, piece, &events, &n_events, NULL) == WEIR_OK);
        for (size_t i = 0; i < n_events; i++) take(&r, &events[i], valid_utf8);
        at += piece;
    }
    check(weir_output_parser_finish(parser, truncated, &events, &n_events, NULL) == WEIR_OK);
    for (size_t i = 0; i < n_events; i++) take(&r, &events[i], valid_utf8);
    check(r.finished);
    weir_output_parser_free(parser);
    return r;
}

static void release(result *r) {
    wr_bytes_deinit(&r->text);
    wr_bytes_deinit(&r->arguments);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 3) return 0;
    size_t n_formats = 0, n = size - 3;
    while (weir_output_format_name(n_formats)) n_formats++;
    const char *text = (const char *)data + 3;
    bool truncated = data[1] & 4;
    const weir_output_options options = {.format = weir_output_format_name(data[0] % n_formats),
                                         .reasoning = (weir_reasoning)(data[1] & 3),
                                         .tools_json = data[1] & 8 ? NULL : TOOLS};
    result whole = parse(&options, text, n, 0, truncated);
    const unsigned steps[] = {1, data[2] + 1u};
    for (int i = 0; i < 2; i++) {
        result cut = parse(&options, text, n, steps[i], truncated);
        check(cut.text.n == whole.text.n && memcmp(cut.text.data, whole.text.data, cut.text.n) == 0);
        release(&cut);
    }
    bool markers = options.reasoning == WEIR_REASONING_INSIDE || (n && text[0] == '\n');
    for (size_t i = 0; i < n && !markers; i++) markers = memchr("<[{`\xE2", text[i], 5) != NULL;
    if (!markers && n) {
        check(whole.n_calls == 0 && whole.text.n == n + 3); /* its letter, and FINISH with its flags */
        check(memcmp(whole.text.data + 1, text, n) == 0);
    }
    release(&whole);
    return 0;
}
