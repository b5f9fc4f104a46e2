/* Helpers of the output parser's tests: what a client would have collected, as one line of text. */
#ifndef OUTPUT_TEST_H
#define OUTPUT_TEST_H

#include "text_test.h"

#include "text/parse/bytes.h"
#include "text/parse/json_scan.h"
#include "weir/output.h"

/* Deltas of a kind joined: C{content}R{reasoning}name#id{arguments}; behind a call "!" if it is not complete, "?" if
 * its arguments are not valid; "..." at the end if the output was not complete. */
typedef struct collected {
    wr_bytes text;
    int open; /* kind of the last delta, or -1 */
    bool in_call, finished;
    size_t n_calls;
    wr_bytes arguments; /* of the call that is open */
    wr_bytes order;     /* all text, names and ids as they came */
} collected;

static inline void collected_free(collected *c) {
    wr_bytes_deinit(&c->text);
    wr_bytes_deinit(&c->arguments);
    wr_bytes_deinit(&c->order);
}

static inline void close_delta(collected *c) {
    if (c->open == WEIR_OUTPUT_CONTENT || c->open == WEIR_OUTPUT_REASONING) wr_bytes_put(&c->text, "}");
    c->open = -1;
}

static inline void collect_event(collected *c, const weir_output_event *e) {
    assert_false(c->finished);
    wr_bytes_add(&c->order, e->text, e->text_bytes);
    wr_bytes_add(&c->order, e->name, e->name_bytes);
    wr_bytes_add(&c->order, e->id, e->id_bytes);
    switch (e->kind) {
    case WEIR_OUTPUT_CONTENT:
    case WEIR_OUTPUT_REASONING:
        assert_true(e->text_bytes > 0);
        if (c->open != (int)e->kind) {
            close_delta(c);
            wr_bytes_put(&c->text, e->kind == WEIR_OUTPUT_CONTENT ? "C{" : "R{");
            c->open = e->kind;
        }
        wr_bytes_add(&c->text, e->text, e->text_bytes);
        break;
    case WEIR_OUTPUT_CALL:
        assert_false(c->in_call);
        assert_int_equal(e->call, c->n_calls);
        assert_true(e->name_bytes > 0);
        close_delta(c);
        wr_bytes_add(&c->text, e->name, e->name_bytes);
        if (e->id_bytes) wr_bytes_put(&c->text, "#");
        wr_bytes_add(&c->text, e->id, e->id_bytes);
        c->in_call = true;
        c->arguments.n = 0;
        break;
    case WEIR_OUTPUT_ARGUMENTS:
        assert_true(c->in_call && e->call == c->n_calls && e->text_bytes > 0);
        wr_bytes_add(&c->arguments, e->text, e->text_bytes);
        break;
    case WEIR_OUTPUT_CALL_END:
        assert_true(c->in_call && e->call == c->n_calls);
        close_delta(c);
        if (e->id_bytes) wr_bytes_put(&c->text, "#");
        wr_bytes_add(&c->text, e->id, e->id_bytes);
        wr_bytes_put(&c->text, "{");
        wr_bytes_add(&c->text, c->arguments.data, c->arguments.n);
        wr_bytes_put(&c->text, "}");
        if (!e->complete) wr_bytes_put(&c->text, "!");
        if (!e->valid) wr_bytes_put(&c->text, "?");
        if (e->valid) {
            char first = 0;
            assert_true(wr_json_is_valid(c->arguments.data, c->arguments.n, &first) && first == '{');
        }
        c->in_call = false;
        c->n_calls++;
        break;
    case WEIR_OUTPUT_FINISH:
        assert_false(c->in_call);
        assert_int_equal(e->call, c->n_calls);
        close_delta(c);
        if (!e->complete) wr_bytes_put(&c->text, "...");
        c->finished = true;
        break;
    }
}

/* Parse text cut at cuts[0..n_cuts), ascending. False when out of memory. */
static inline bool collect(const weir_output_options *options, const char *text, size_t n, const size_t *cuts,
                           size_t n_cuts, bool truncated, collected *c) {
    weir_output_parser *parser;
    const weir_output_event *events;
    size_t n_events, at = 0;
    weir_error err = {0};
    *c = (collected){.open = -1};
    weir_status st = weir_output_parser_new(options, &parser, &err);
    if (st == WEIR_E_MEMORY) return false;
    if (st != WEIR_OK) fail_msg("%s", err.message);
    for (size_t i = 0; i <= n_cuts && st == WEIR_OK; i++) {
        size_t end = i < n_cuts ? cuts[i] : n;
        st = weir_output_parser_feed(parser, text + at, end - at, &events, &n_events, &err);
        at = end;
        for (size_t k = 0; k < n_events; k++) collect_event(c, &events[k]);
    }
    if (st == WEIR_OK) {
        st = weir_output_parser_finish(parser, truncated, &events, &n_events, &err);
        for (size_t k = 0; k < n_events; k++) collect_event(c, &events[k]);
    }
    weir_output_parser_free(parser);
    if (st != WEIR_OK) {
        assert_int_equal(st, WEIR_E_MEMORY);
        return false;
    }
    assert_true(c->finished);
    wr_bytes_byte(&c->text, 0);
    wr_bytes_byte(&c->order, 0);
    return true;
}

static inline uint32_t next_random(uint32_t *state) { /* xorshift32 */
    *state ^= *state << 13;
    *state ^= *state >> 17;
    return *state ^= *state << 5;
}

/* The result must be the same however the text is cut: at every single place, at all of them, at random ones. */
static inline void check_all_cuts(const weir_output_options *options, const char *text, size_t n, bool truncated,
                                  const char *want, uint32_t seed) {
    size_t *cuts = calloc(n + 1, sizeof *cuts);
    for (size_t round = 0; round < (n < 400 ? n : 0) + 20; round++) {
        size_t n_cuts = 0;
        if (round == 0) {
            for (size_t i = 1; i < n; i++) cuts[n_cuts++] = i;
        } else if (n < 400 && round < n) {
            cuts[n_cuts++] = round;
        } else {
            uint32_t rare = next_random(&seed) % 40 + 1;
            for (size_t i = 0; i <= n; i++) {
                if (next_random(&seed) % rare == 0) cuts[n_cuts++] = i;
            }
        }
        collected c;
        assert_true(collect(options, text, n, cuts, n_cuts, truncated, &c));
        if (strcmp(c.text.data, want) != 0) {
            fail_msg("%s, cut %zu times (first at %zu):\ntext %.*s\n got %s\nwant %s", options->format, n_cuts,
                     n_cuts ? cuts[0] : 0, (int)n, text, c.text.data, want);
        }
        collected_free(&c);
    }
    free(cuts);
}

#endif
