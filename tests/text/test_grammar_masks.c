/* Masks: equal to what is found token by token, byte by byte, on a small vocabulary made to be awkward and on a real
 * one; the walks over them end in texts of the grammar; with little cache, from many threads, and when memory fails. */
#include "text_test.h"

#include <pthread.h>

#include "base/fault.h"
#include "text/unicode.h"
#include "weir/grammar.h"

/* ---- A vocabulary ---------------------------------------------------------------- */

/* Pieces that end within characters, escapes and numbers, or reach over the ends of strings, lists and objects. */
static const char *const pieces[] = {
    "\xc3",     "\xa9\"",    "\xf0\x9f", "\x98\x80",
    "\xe2\x82", "\xac,\"",   "\\u",      "\\u00",
    "d83d",     "\\ude00\"", "\\",       "\\\"",
    "\"",       "\",",       "\", \"",   "\":",
    "\": ",     "\": \"",    "{\"",      "{}",
    "[]",       "[[",        "]]",       "}]",
    "},",       "\"}",       "\"]",      "\"],",
    "[\"",      "[{\"",      "}}",       ",\n  \"",
    "\n",       "  ",        " ",        "        ",
    "true",     "tru",       "false,",   "null",
    "nul",      "-",         "-1",       "12",
    "1.",       "0.5",       "e+",       "00",
    "name",     "nam",       "name\":",  "\"name\"",
    "a",        "ab",        "abc",      "abc\"",
    "x\",\"y",  "zz",        "0a",       "1}",
    "1,",       "1, ",       "2]",       "}",
    "{",        "[",         "]",        ",",
    ":",        "the",       " the",     "e",
    "id",       "\"id\":1",  "type",     "\"type\": \"",
    "yes",      "no",        "\xff",     "\x80",
    "aaaaaaaa", "\"\"",      "\"\",",    "[1,2",
};

typedef struct vocabulary {
    char text[400][40];
    const char *piece[400];
    int32_t type[400];
    size_t n;
} vocabulary;

static bool get_piece(void *context, size_t i, const char **text, size_t *bytes) {
    *text = ((vocabulary *)context)->piece[i];
    *bytes = strlen(*text);
    return true;
}
static bool get_merge(void *context, size_t i, const char **text, size_t *bytes) {
    (void)context;
    (void)i;
    *text = "a b";
    *bytes = 3;
    return true;
}

static void add_piece(vocabulary *v, const char *bytes, size_t n) {
    size_t at = 0;
    for (size_t i = 0; i < n; i++)
        at += (size_t)wr_utf8_put(wr_byte_to_char((uint8_t)bytes[i]), (uint8_t *)v->text[v->n] + at);
    for (size_t i = 0; i < v->n; i++)
        if (strcmp(v->text[i], v->text[v->n]) == 0) {
            memset(v->text[v->n], 0, sizeof v->text[v->n]);
            return;
        }
    v->piece[v->n] = v->text[v->n];
    v->type[v->n++] = 1;
}

static weir_tokenizer *small_tokenizer(void) {
    static vocabulary v;
    memset(&v, 0, sizeof v);
    for (int c = 0; c < 256; c++) add_piece(&v, (char[]){(char)c}, 1);
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) add_piece(&v, pieces[i], strlen(pieces[i]));
    static const char *const control[] = {"<s>", "</s>", "{\"a\":"};
    for (size_t i = 0; i < 3; i++) {
        v.piece[v.n] = control[i];
        v.type[v.n++] = 3;
    }
    wr_vocab_source src;
    wr_vocab_source_init(&src);
    src.model = "gpt2";
    src.tokens = (wr_string_list){v.n, get_piece, &v};
    src.merges = (wr_string_list){1, get_merge, NULL};
    src.token_type = v.type;
    src.bos_id = (int32_t)v.n - 3;
    src.eos_id = (int32_t)v.n - 2;
    weir_tokenizer *tok;
    weir_error err = {0};
    if (wr_tokenizer_open_vocab(&src, &tok, &err) != WEIR_OK) fail_msg("%s", err.message);
    return tok;
}

/* ---- Grammars ---------------------------------------------------------------------- */

#define CLOSED(properties) "{\"type\":\"object\",\"properties\":{" properties "},\"additionalProperties\":false}"
static const struct {
    char kind; /* s: schema, g: GBNF, r: expression */
    const char *source;
} grammars[] = {
    {'s', "true"},
    {'s', "{\"type\":\"object\"}"},
    {'s', "{\"type\":\"string\"}"},
    {'s', "{\"type\":\"string\",\"minLength\":2,\"maxLength\":6}"},
    {'s', "{\"type\":\"string\",\"pattern\":\"^(ab|\xc3\xa9|\xf0\x9f\x98\x80)+$\"}"},
    {'s', "{\"type\":\"array\",\"items\":{\"type\":\"number\"},\"minItems\":1,\"maxItems\":3}"},
    {'s',
     "{\"type\":\"array\",\"prefixItems\":[{\"const\":\"a\"},{\"type\":\"boolean\"}],\"items\":{\"type\":\"null\"}}"},
    {'s', "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"nam\":{\"type\":\"integer\"}},"
          "\"required\":[\"name\"]}"},
    {'s', CLOSED("\"name\":{\"type\":\"string\",\"maxLength\":3},\"id\":{\"type\":\"integer\"},\"type\":{\"enum\":["
                 "\"yes\",\"no\",\"\xc3\xa9\"]},\"\":{}")},
    {'s', "{\"type\":\"object\",\"maxProperties\":2,\"properties\":{\"a\":{\"const\":1}},\"required\":[\"a\"],"
          "\"additionalProperties\":{\"type\":\"boolean\"}}"},
    {'s', "{\"type\":\"object\",\"patternProperties\":{\"^n\":{\"type\":\"integer\"},\"e$\":{\"minimum\":2}},"
          "\"additionalProperties\":{\"type\":\"null\"}}"},
    {'s', "{\"type\":\"object\",\"propertyNames\":{\"pattern\":\"^[a-n]{1,4}$\"}}"},
    {'s', "{\"anyOf\":[" CLOSED("\"a\":{\"type\":\"string\"}") "," CLOSED(
              "\"a\":{\"type\":\"string\",\"maxLength\":2},\"ab\":{}") ",{\"type\":\"array\"}]}"},
    {'s', "{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"},\"id\":{\"type\":\"integer\",\"minimum\":-3,"
          "\"maximum\":120}},\"additionalProperties\":false}"},
    {'s',
     "{\"type\":\"array\",\"prefixItems\":[{\"multipleOf\":0.75,\"exclusiveMinimum\":-2,\"maximum\":22},{\"enum\":[1,"
     "2.5,-300,\"a\",0]}],\"items\":{\"type\":\"integer\",\"multipleOf\":7,\"minimum\":12}}"},
    {'g', "root ::= (\"[\" (root (\",\" root)*)? \"]\") | [0-9]+ | ws \"a\"\nws ::= [ \\n]*"},
    {'g', "root ::= word (ws word)*\nword ::= [a-z]+ | \"\xc3\xa9\"\nws ::= [ ]+"},
    {'g', "root ::= (\"a\" | \"ab\" | a)* \"x\"\na ::= \"abc\" | \"a\" b\nb ::= \"b\"*"},
    {'r', "[^a]*a[^a]*"},
    {'r', "-?[0-9]{1,3}(\\.[0-9]+)?"},
};
enum { N_GRAMMARS = sizeof grammars / sizeof *grammars };

static weir_grammar *compile(size_t i, weir_error *err) {
    weir_grammar *g = NULL;
    size_t n = strlen(grammars[i].source);
    if (grammars[i].kind == 's') weir_grammar_from_schema(grammars[i].source, n, NULL, &g, err);
    if (grammars[i].kind == 'g') weir_grammar_from_gbnf(grammars[i].source, n, &g, err);
    if (grammars[i].kind == 'r') weir_grammar_from_regex(grammars[i].source, n, &g, err);
    return g;
}

/* ---- Walks ------------------------------------------------------------------------ */

static bool bit(const uint32_t *mask, int32_t id) { return mask[id >> 5] >> (id & 31) & 1; }

static uint32_t next_random(uint32_t *random) {
    *random = *random * 1664525 + 1013904223;
    return *random >> 8;
}

/* The mask must be what the bytes of each token say, one by one. */
static void check_exact(const weir_tokenizer *tok, weir_constraint_state *s, const uint32_t *mask, const char *source) {
    for (int32_t id = 0; id < weir_tokenizer_vocab_size(tok); id++) {
        char bytes[256];
        size_t n = weir_tokenizer_token_bytes(tok, id, bytes, sizeof bytes);
        bool fits = false;
        if (weir_tokenizer_is_eos(tok, id)) {
            fits = weir_constraint_state_can_end(s);
        } else if (!weir_tokenizer_is_special(tok, id) && n) {
            fits = weir_constraint_state_accept_bytes(s, bytes, n, NULL, NULL) == WEIR_OK;
            if (fits) assert_int_equal(weir_constraint_state_rollback(s, 1, NULL), WEIR_OK);
        }
        if (fits != bit(mask, id))
            fail_msg("%s: token %d \"%.*s\" %s", source, id, (int)n, bytes, fits ? "is missing" : "does not fit");
    }
}

/* One walk of at most `steps` tokens, every mask checked; *ended: it came to an end by itself. */
static void walk(const weir_tokenizer *tok, weir_constraint *k, const char *source, uint32_t seed, int steps,
                 bool *ended) {
    weir_constraint_state *s;
    weir_error err = {0};
    size_t n_words = weir_constraint_mask_words(k);
    uint32_t *mask = malloc(n_words * sizeof *mask), random = seed;
    assert_int_equal(weir_constraint_state_new(k, 2, &s, &err), WEIR_OK);
    for (int step = 0; step < steps && !weir_constraint_state_ended(s); step++) {
        if (weir_constraint_state_mask(s, mask, n_words, &err) != WEIR_OK) fail_msg("%s: %s", source, err.message);
        check_exact(tok, s, mask, source);
        int32_t chosen = -1, n = 0;
        for (int32_t id = 0; id < weir_tokenizer_vocab_size(tok); id++) {
            char first = 0;
            if (!bit(mask, id)) continue;
            weir_tokenizer_token_bytes(tok, id, &first, 1);
            /* What closes is worth more, so that texts end. */
            bool closes = weir_tokenizer_is_eos(tok, id) || first == '"' || first == ']' || first == '}';
            n += closes ? 20 : 1;
            if (next_random(&random) % (uint32_t)n < (closes ? 20u : 1u)) chosen = id;
        }
        if (chosen < 0) fail_msg("%s: nothing is allowed", source);
        assert_int_equal(weir_constraint_state_accept(s, chosen, &err), WEIR_OK);
    }
    *ended = weir_constraint_state_ended(s);
    if (*ended) {
        assert_int_equal(weir_constraint_state_mask(s, mask, n_words, &err), WEIR_OK);
        for (size_t i = 0; i < n_words; i++) assert_int_equal(mask[i], 0);
        assert_int_equal(weir_constraint_state_accept(s, 0, &err), WEIR_E_ARGUMENT);
    }
    weir_constraint_state_free(s);
    free(mask);
}

static void check_vocabulary(weir_tokenizer *tok, size_t cache_bytes, int n_walks, int steps, int min_ended) {
    weir_token_index *index;
    weir_error err = {0};
    if (weir_token_index_new(tok, &index, &err) != WEIR_OK) fail_msg("%s", err.message);
    int n_ended = 0;
    for (size_t i = 0; i < N_GRAMMARS; i++) {
        weir_grammar *g = compile(i, &err);
        weir_constraint *k;
        if (!g) fail_msg("%s: %s", grammars[i].source, err.message);
        assert_int_equal(weir_constraint_new(g, index, cache_bytes, &k, &err), WEIR_OK);
        for (int w = 0; w < n_walks; w++) {
            bool ended;
            walk(tok, k, grammars[i].source, (uint32_t)(w * 977 + 1), steps, &ended);
            n_ended += ended;
        }
        if (cache_bytes) assert_true(weir_constraint_cache_bytes(k) <= cache_bytes);
        weir_constraint_free(k);
        weir_grammar_release(g);
    }
    assert_true(n_ended >= min_ended);
    weir_token_index_release(index);
}

static void masks_are_exact_on_an_awkward_vocabulary(void **state) {
    (void)state;
    weir_tokenizer *tok = small_tokenizer();
    check_vocabulary(tok, 0, 12, 60, 100);
    weir_tokenizer_close(tok);
}

/* No room for masks to be kept: every one is found anew. */
static void masks_are_exact_without_cache(void **state) {
    (void)state;
    weir_tokenizer *tok = small_tokenizer();
    check_vocabulary(tok, 700000, 3, 40, 10);
    weir_tokenizer_close(tok);
}

static void masks_are_exact_on_a_real_vocabulary(void **state) {
    (void)state;
    weir_tokenizer *tok = open_model(SMOLLM2);
    check_vocabulary(tok, 0, 1, 6, 0);
    weir_tokenizer_close(tok);
}

/* ---- Threads and failures ----------------------------------------------------------- */

typedef struct job {
    const weir_tokenizer *tok;
    weir_constraint *k;
    size_t grammar;
    uint32_t seed;
    uint64_t sum;
} job;

/* A fixed walk; its masks in one number. */
static void *run_job(void *context) {
    job *j = context;
    size_t n_words = weir_constraint_mask_words(j->k);
    uint32_t *mask = malloc(n_words * sizeof *mask);
    for (uint32_t w = 0; w < 10; w++) {
        weir_constraint_state *s;
        uint32_t random = j->seed + w;
        if (weir_constraint_state_new(j->k, 0, &s, NULL) != WEIR_OK) abort();
        for (int step = 0; step < 40 && !weir_constraint_state_ended(s); step++) {
            int32_t chosen = -1;
            if (weir_constraint_state_mask(s, mask, n_words, NULL) != WEIR_OK) abort();
            for (uint32_t id = 0, n = 0; id < n_words * 32; id++)
                if (bit(mask, (int32_t)id) && next_random(&random) % ++n == 0) chosen = (int32_t)id;
            for (size_t i = 0; i < n_words; i++) j->sum = (j->sum ^ mask[i]) * 0xD6E8FEB86659FD93u;
            if (chosen < 0 || weir_constraint_state_accept(s, chosen, NULL) != WEIR_OK) abort();
        }
        weir_constraint_state_free(s);
    }
    free(mask);
    return NULL;
}

static void threads_share_a_constraint(void **state) {
    (void)state;
    enum { THREADS = 4 };
    weir_tokenizer *tok = small_tokenizer();
    weir_token_index *index;
    assert_int_equal(weir_token_index_new(tok, &index, NULL), WEIR_OK);
    for (size_t i = 0; i < N_GRAMMARS; i++) {
        weir_grammar *g = compile(i, NULL);
        weir_constraint *shared, *own;
        job jobs[THREADS];
        pthread_t thread[THREADS];
        assert_int_equal(weir_constraint_new(g, index, 0, &shared, NULL), WEIR_OK);
        for (size_t t = 0; t < THREADS; t++) {
            jobs[t] = (job){tok, shared, i, (uint32_t)(t / 2 * 100), 0};
            assert_int_equal(pthread_create(&thread[t], NULL, run_job, &jobs[t]), 0);
        }
        for (size_t t = 0; t < THREADS; t++) pthread_join(thread[t], NULL);
        for (size_t t = 0; t < THREADS; t += 2) {
            job alone = {tok, NULL, i, (uint32_t)(t / 2 * 100), 0};
            assert_int_equal(weir_constraint_new(g, index, 0, &own, NULL), WEIR_OK);
            alone.k = own;
            run_job(&alone);
            assert_true(jobs[t].sum == alone.sum && jobs[t + 1].sum == alone.sum);
            weir_constraint_free(own);
        }
        weir_constraint_free(shared);
        weir_grammar_release(g);
    }
    weir_token_index_release(index);
    weir_tokenizer_close(tok);
}

static void every_allocation_of_a_mask_may_fail(void **state) {
    (void)state;
    weir_tokenizer *tok = small_tokenizer();
    weir_error err = {0};
    weir_grammar *g = compile(8, &err);
    bool done = false;
    for (uint64_t nth = 1; !done; nth++) {
        weir_token_index *index = NULL;
        weir_constraint *k = NULL;
        weir_constraint_state *s = NULL;
        wr_fault_arm(WR_FAULT_MEMORY, nth);
        weir_status st = weir_token_index_new(tok, &index, &err);
        if (st == WEIR_OK) st = weir_constraint_new(g, index, 0, &k, &err);
        if (st == WEIR_OK) st = weir_constraint_state_new(k, 4, &s, &err);
        uint32_t mask[32];
        static const char *const parts[] = {"{", "\"", "nam", "e\":", "\"a", "\"", ","};
        for (size_t i = 0; st == WEIR_OK && i < 7; i++) {
            st = weir_constraint_state_mask(s, mask, weir_constraint_mask_words(k), &err);
            if (st == WEIR_OK) st = weir_constraint_state_accept_bytes(s, parts[i], strlen(parts[i]), NULL, &err);
        }
        done = wr_fault_calls(WR_FAULT_MEMORY) < nth;
        wr_fault_arm(WR_FAULT_MEMORY, 0);
        if (done)
            assert_int_equal(st, WEIR_OK);
        else if (st != WEIR_E_MEMORY)
            fail_msg("call %d: status %d, \"%s\"", (int)nth, st, err.message);
        weir_constraint_state_free(s);
        weir_constraint_free(k);
        weir_token_index_release(index);
    }
    weir_grammar_release(g);
    weir_tokenizer_close(tok);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_are_exact_on_an_awkward_vocabulary), cmocka_unit_test(masks_are_exact_without_cache),
        cmocka_unit_test(masks_are_exact_on_a_real_vocabulary),     cmocka_unit_test(threads_share_a_constraint),
        cmocka_unit_test(every_allocation_of_a_mask_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
