/* The output parser on text that no model should write: nothing is lost, nothing depends on the cuts, the time is
 * linear, and every failed allocation is a status. */
#include "output_test.h"

#include "base/fault.h"
#include "text/parse/parse.h"

#define TOOLS                                                                                                          \
    "[{\"name\":\"f\",\"parameters\":{\"properties\":{\"s\":{\"type\":\"string\"},\"a\":{\"type\":\"integer\"}}}}]"

/* What broken output is made of, beside the family's own markers. */
static const char *const scraps[] = {"{",
                                     "}",
                                     "[",
                                     "]",
                                     "(",
                                     ")",
                                     "\"",
                                     "'",
                                     ",",
                                     ":",
                                     ";",
                                     "=",
                                     "<",
                                     ">",
                                     "|",
                                     "\n",
                                     "\n\n",
                                     " ",
                                     "\\",
                                     "\\\"",
                                     "```",
                                     "```json",
                                     "{\"name\": \"f\", \"arguments\": ",
                                     "\"name\": \"",
                                     "\"arguments\": {",
                                     "\"f\"",
                                     "f",
                                     "f(",
                                     "s=",
                                     "s=\"",
                                     "a=1",
                                     "call:f{",
                                     "s:",
                                     "functions.f:0",
                                     "to=functions.f ",
                                     "assistant",
                                     "json",
                                     "<think>",
                                     "</think>",
                                     "<parameter=s>",
                                     "<parameter=a>\n",
                                     "null",
                                     "12",
                                     "string=\"true\">",
                                     "\">",
                                     "\">\n",
                                     "/>",
                                     "\xC3\xA9",
                                     "\xF0\x9F\x98\x80",
                                     "\xEF\xBD",
                                     "\xFF",
                                     "{\"s\": \"",
                                     "\"}",
                                     "}}",
                                     "<"};

/* A marker of the family by number; NULL behind the last. */
static const char *marker_of(const wr_output_format *f, size_t i) {
    const char *all[200];
    size_t n = 0;
    static const char *const harmony[] = {"<|start|>",     "<|channel|>", "<|message|>", "<|end|>",   "<|call|>",
                                          "<|constrain|>", "analysis",    "final",       "commentary"};
    for (size_t k = 0; f->whole && k < sizeof harmony / sizeof *harmony; k++) all[n++] = harmony[k];
    for (int k = 0; k < WR_CLOSERS; k++) all[n++] = f->closers[k];
    for (int k = 0; k < 6; k++) all[n++] = f->noise[k];
    if (f->reasoning) {
        all[n++] = f->reasoning->open;
        all[n++] = f->reasoning->close;
    }
    for (int k = 0; k < WR_OPENERS; k++) {
        const wr_call_markers *m = f->openers[k].call;
        all[n++] = f->openers[k].marker;
        if (!m) continue;
        const char *const its[] = {m->open,        m->name_end[0],  m->name_end[1],  m->name_end[2],
                                   m->id_end,      m->key_open,     m->key_end,      m->tag_end,
                                   m->value_open,  m->value_end[0], m->value_end[1], m->line_end[0],
                                   m->line_end[1], m->line_end[2],  m->close,        m->quote};
        for (size_t j = 0; j < sizeof its / sizeof *its; j++) all[n++] = its[j];
    }
    for (size_t k = 0, at = 0; k < n; k++) {
        if (all[k] && at++ == i) return all[k];
    }
    return NULL;
}

/* Random text; with_words: words that occur once each, "0w17", stand in it. Their number. */
static size_t make_text(const wr_output_format *f, uint32_t *random, wr_bytes *text, bool with_words) {
    size_t n_markers = 0, n_words = 0, parts = next_random(random) % 30 + 1;
    while (marker_of(f, n_markers)) n_markers++;
    text->n = 0;
    for (size_t i = 0; i < parts; i++) {
        uint32_t kind = next_random(random) % 10;
        if (kind < 4 && n_markers) {
            const char *marker = marker_of(f, next_random(random) % n_markers);
            size_t n = strlen(marker);
            /* Sometimes only a part of it. */
            wr_bytes_add(text, marker, next_random(random) % 12 ? n : next_random(random) % (n + 1));
        } else if (kind < 8 || !with_words) {
            wr_bytes_put(text, scraps[next_random(random) % (sizeof scraps / sizeof *scraps)]);
        } else {
            char word[32];
            snprintf(word, sizeof word, "0w%zuw", n_words++);
            wr_bytes_put(text, word);
        }
    }
    wr_bytes_byte(text, 0);
    text->n--;
    return n_words;
}

static void random_text_gives_the_same_however_it_is_cut(void **state) {
    (void)state;
    uint32_t random = 12345;
    wr_bytes text = {0};
    for (const wr_output_format *f = wr_output_formats; f->name; f++) {
        for (int round = 0; round < 40; round++) {
            make_text(f, &random, &text, false);
            const weir_output_options options = {
                .format = f->name, .tools_json = round % 3 ? TOOLS : NULL, .reasoning = (weir_reasoning)(round % 4)};
            bool truncated = round & 1;
            collected c;
            assert_true(collect(&options, text.data, text.n, NULL, 0, truncated, &c));
            check_all_cuts(&options, text.data, text.n, truncated, c.text.data, random);
            collected_free(&c);
        }
    }
    wr_bytes_deinit(&text);
}

/* Every word of the model comes out, in its order; what is taken away are markers. */
static void no_word_is_lost(void **state) {
    (void)state;
    uint32_t random = 777;
    wr_bytes text = {0};
    for (const wr_output_format *f = wr_output_formats; f->name; f++) {
        for (int round = 0; round < 1500; round++) {
            size_t n_words = make_text(f, &random, &text, true);
            const weir_output_options options = {
                .format = f->name, .tools_json = TOOLS, .reasoning = (weir_reasoning)(round % 4)};
            collected c;
            assert_true(collect(&options, text.data, text.n, NULL, 0, false, &c));
            const char *at = c.order.data;
            for (size_t i = 0; i < n_words; i++) {
                char word[32];
                snprintf(word, sizeof word, "0w%zuw", i);
                at = strstr(at, word);
                if (!at)
                    fail_msg("%s: %s is lost or out of order\ntext %s\n got %s", f->name, word, text.data, c.text.data);
            }
            collected_free(&c);
        }
    }
    wr_bytes_deinit(&text);
}

/* Text without a single marker comes out as it is. */
static void plain_text_is_content_byte_for_byte(void **state) {
    (void)state;
    static const char text[] =
        "Zeile 1\n\n  a < b && c > d; f(x)[0] {not: json} \"q\" 'q' `t` \xC3\xA9\xF0\x9F\x98\x80 \xFF 100%\n\n";
    for (const wr_output_format *f = wr_output_formats; f->name; f++) {
        const weir_output_options options = {.format = f->name};
        collected c;
        assert_true(collect(&options, text, sizeof text - 1, NULL, 0, false, &c));
        assert_int_equal(strncmp(c.text.data, "C{", 2), 0);
        assert_int_equal(strlen(c.text.data), sizeof text - 1 + 3);
        assert_memory_equal(c.text.data + 2, text, sizeof text - 1);
        collected_free(&c);
    }
}

static double seconds_for(const wr_output_format *f, const char *unit, size_t bytes) {
    const weir_output_options options = {.format = f->name};
    size_t n = strlen(unit), at = 0;
    weir_output_parser *parser;
    const weir_output_event *events;
    size_t n_events;
    char part[4096];
    size_t part_bytes = 0;
    while (part_bytes + n <= sizeof part) {
        memcpy(part + part_bytes, unit, n);
        part_bytes += n;
    }
    assert_int_equal(weir_output_parser_new(&options, &parser, NULL), WEIR_OK);
    double start = now_s();
    for (; at < bytes; at += part_bytes) {
        assert_int_equal(weir_output_parser_feed(parser, part, part_bytes, &events, &n_events, NULL), WEIR_OK);
    }
    assert_int_equal(weir_output_parser_finish(parser, false, &events, &n_events, NULL), WEIR_OK);
    double seconds = now_s() - start;
    weir_output_parser_free(parser);
    return seconds;
}

static void time_is_linear_in_hostile_text(void **state) {
    (void)state;
    for (const wr_output_format *f = wr_output_formats; f->name; f++) {
        for (size_t i = 0; i < 60; i++) {
            /* The marker over and over, alone and with what keeps a call alive. */
            char unit[256];
            const char *marker = marker_of(f, i / 2);
            if (!marker) break;
            snprintf(unit, sizeof unit, "%s%s", marker, i % 2 ? "{\"arguments\":[\"f(s=<\n" : "");
            double once = seconds_for(f, unit, 1 << 13), more = seconds_for(f, unit, 1 << 16);
            /* Eight times the text; 64 times the time would be quadratic. */
            if (more > 0.05 && more > 24 * once) fail_msg("%s, \"%s\": %.3f s and %.3f s", f->name, unit, once, more);
        }
    }
}

static void every_failed_allocation_is_a_status(void **state) {
    (void)state;
    uint32_t random = 99;
    wr_bytes text = {0};
    for (const wr_output_format *f = wr_output_formats; f->name; f++) {
        for (int round = 0; round < 6; round++) {
            make_text(f, &random, &text, false);
            const weir_output_options options = {.format = f->name, .tools_json = TOOLS};
            size_t half = text.n / 2;
            collected want, got;
            assert_true(collect(&options, text.data, text.n, &half, 1, false, &want));
            for (uint64_t nth = 1;; nth++) {
                wr_fault_arm(WR_FAULT_MEMORY, nth);
                weir_output_parser *parser;
                const weir_output_event *events;
                size_t n;
                weir_error err = {0};
                weir_status st = weir_output_parser_new(&options, &parser, &err);
                if (st == WEIR_OK) st = weir_output_parser_feed(parser, text.data, half, &events, &n, &err);
                if (st == WEIR_OK)
                    st = weir_output_parser_feed(parser, text.data + half, text.n - half, &events, &n, &err);
                if (st == WEIR_OK) st = weir_output_parser_finish(parser, round & 1, &events, &n, &err);
                weir_output_parser_free(parser);
                bool failed = wr_fault_calls(WR_FAULT_MEMORY) >= nth;
                wr_fault_arm(WR_FAULT_MEMORY, 0);
                if (!failed) {
                    assert_int_equal(st, WEIR_OK);
                    break;
                }
                assert_int_equal(st, WEIR_E_MEMORY);
                assert_true(strlen(err.message) > 0);
            }
            assert_true(collect(&options, text.data, text.n, &half, 1, false, &got));
            assert_string_equal(got.text.data, want.text.data);
            collected_free(&want);
            collected_free(&got);
        }
    }
    wr_bytes_deinit(&text);
}

/* wr_json_scan against jansson, on texts near to JSON. */
static void json_is_judged_as_jansson_judges_it(void **state) {
    (void)state;
    static const char *const parts[] = {
        "{",  "}",     "[",          "]",    ",",   ":", "\"a\"", "\"\\u00e9\\n\"", "\"\\x\"", "1",  "-0.5e-3",
        "01", "1.",    "true",       "null", "nul", " ", "\n",    "\"\n\"",         "\"k\":",  "{}", "[]",
        "-",  "1E-05", "\"\\u12g4\""};
    uint32_t random = 4242;
    size_t valid = 0;
    wr_bytes text = {0};
    for (int round = 0; round < 60000; round++) {
        text.n = 0;
        for (size_t i = next_random(&random) % 8 + 1; i > 0; i--) {
            wr_bytes_put(&text, parts[next_random(&random) % (sizeof parts / sizeof *parts)]);
        }
        json_t *json = json_loadb(text.data, text.n, JSON_DECODE_ANY, NULL);
        if (wr_json_is_valid(text.data, text.n, NULL) != (json != NULL)) {
            fail_msg("%.*s: jansson says %s", (int)text.n, text.data, json ? "valid" : "not valid");
        }
        valid += json != NULL;
        json_decref(json);
    }
    assert_true(valid > 1000);
    wr_bytes_deinit(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_text_gives_the_same_however_it_is_cut),
        cmocka_unit_test(no_word_is_lost),
        cmocka_unit_test(plain_text_is_content_byte_for_byte),
        cmocka_unit_test(time_is_linear_in_hostile_text),
        cmocka_unit_test(every_failed_allocation_is_a_status),
        cmocka_unit_test(json_is_judged_as_jansson_judges_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
