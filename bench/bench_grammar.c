/* Masks on a real vocabulary: random walks, their times, and what they are checked and compared with.
 *
 * bench_grammar vocab MODEL: the tokens as JSON, {"tokens": [hex], "special": [ids], "eos": [ids]}.
 *
 * bench_grammar walk MODEL SCHEMAS N SEED [exact]: N random walks over each schema, a JSON line each; "exact": every
 * mask is also found token by token, byte by byte, and must be equal.
 *
 * bench_grammar time MODEL CASES: times of masks along given walks.
 *
 * SCHEMAS is a JSON list of schemas; CASES one of {"schema": ..., "walks": [[ids]]}. tools/compare_grammar.py uses all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jansson.h>

#include "base/mem.h"
#include "engine/vocab.h"
#include "file/json.h"
#include "weir/grammar.h"

static weir_error err;

static void check(weir_status st) {
    if (st == WEIR_OK) return;
    fprintf(stderr, "bench_grammar: %s\n", err.message);
    exit(1);
}

/* Processor time: hosts are shared, and a mask takes less than a turn of their schedulers. */
static double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static uint64_t random_state;
static uint32_t random_below(uint32_t n) { /* xorshift64* */
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (uint32_t)((random_state * 2685821657736338717u >> 32) * n >> 32);
}

typedef struct vocab {
    weir_tokenizer *tok;
    weir_token_index *index;
    int32_t size;
    char **text;
    size_t *bytes;
} vocab;

static void open_vocab(vocab *v, const char *model) {
    wr_checkpoint *checkpoint;
    check(wr_checkpoint_open(model, &checkpoint, &err));
    check(wr_vocab_open(checkpoint, &v->tok, &err));
    wr_checkpoint_close(checkpoint);
    double start = now_us();
    check(weir_token_index_new(v->tok, &v->index, &err));
    fprintf(stderr, "index of %d tokens: %.1f ms\n", weir_tokenizer_vocab_size(v->tok), (now_us() - start) / 1e3);
    v->size = weir_tokenizer_vocab_size(v->tok);
    v->text = calloc((size_t)v->size, sizeof *v->text);
    v->bytes = calloc((size_t)v->size, sizeof *v->bytes);
    for (int32_t i = 0; i < v->size; i++) {
        v->bytes[i] = weir_tokenizer_token_bytes(v->tok, i, NULL, 0);
        v->text[i] = malloc(v->bytes[i] + 1);
        weir_tokenizer_token_bytes(v->tok, i, v->text[i], v->bytes[i]);
    }
}

static void print_vocab(const vocab *v) {
    printf("{\"tokens\": [");
    for (int32_t i = 0; i < v->size; i++) {
        printf("%s\"", i ? "," : "");
        for (size_t b = 0; b < v->bytes[i]; b++) printf("%02x", (unsigned char)v->text[i][b]);
        printf("\"");
    }
    printf("], \"special\": [");
    for (int32_t i = 0, n = 0; i < v->size; i++)
        if (weir_tokenizer_is_special(v->tok, i) || weir_tokenizer_is_eos(v->tok, i)) printf("%s%d", n++ ? "," : "", i);
    const int32_t *eos;
    size_t n_eos = weir_tokenizer_eos(v->tok, &eos);
    printf("], \"eos\": [");
    for (size_t i = 0; i < n_eos; i++) printf("%s%d", i ? "," : "", eos[i]);
    printf("]}\n");
}

static weir_grammar *compile(const json_t *schema, double *ms) {
    weir_grammar *g;
    weir_schema_options options = {.one_of_as_any_of = true};
    char *text = json_dumps(schema, JSON_ENCODE_ANY);
    double start = now_us();
    weir_status st = weir_grammar_from_schema(text, strlen(text), &options, &g, &err);
    *ms = (now_us() - start) / 1e3;
    wr_free(text);
    return st == WEIR_OK ? g : NULL;
}

static bool bit(const uint32_t *mask, int32_t id) { return mask[id >> 5] >> (id & 31) & 1; }

/* A token of the mask: an end where there is one every second time, something that closes or separates half of the time
 * so that texts do end, else any. */
static int32_t choose(const vocab *v, const uint32_t *mask, size_t step) {
    const int32_t *eos;
    size_t n_eos = weir_tokenizer_eos(v->tok, &eos);
    if (n_eos && bit(mask, eos[0]) && random_below(2)) return eos[0];
    int32_t any = -1, closing = -1;
    uint32_t n_any = 0, n_closing = 0;
    for (int32_t i = 0; i < v->size; i++) {
        if (!bit(mask, i)) continue;
        if (!random_below(++n_any)) any = i;
        bool closes = v->bytes[i] && strchr(step > 100 ? "\"}]" : "\"}],:", v->text[i][v->bytes[i] - 1]);
        if (closes && v->bytes[i] <= 3 && !random_below(++n_closing)) closing = i;
    }
    if (closing >= 0 && random_below(step > 60 ? 8 : 3)) return closing;
    return any;
}

static void check_exact(const vocab *v, weir_constraint_state *state, const uint32_t *mask) {
    for (int32_t i = 0; i < v->size; i++) {
        bool special = weir_tokenizer_is_special(v->tok, i) || weir_tokenizer_is_eos(v->tok, i), allowed = false;
        if (weir_tokenizer_is_eos(v->tok, i)) {
            allowed = weir_constraint_state_can_end(state);
        } else if (!special && v->bytes[i]) {
            allowed = weir_constraint_state_accept_bytes(state, v->text[i], v->bytes[i], NULL, NULL) == WEIR_OK;
            if (allowed) check(weir_constraint_state_rollback(state, 1, &err));
        }
        if (allowed == bit(mask, i)) continue;
        fprintf(stderr, "token %d (\"%.*s\") is %s the mask, and %s byte by byte\n", i, (int)v->bytes[i], v->text[i],
                allowed ? "not in" : "in", allowed ? "fits" : "does not fit");
        exit(1);
    }
}

static void walk(const vocab *v, const json_t *schemas, int n, bool exact) {
    enum { STEPS_MAX = 400 };
    size_t i;
    json_t *schema;
    json_array_foreach(schemas, i, schema) {
        double ms;
        weir_grammar *g = compile(schema, &ms);
        if (!g) {
            json_t *line = json_pack("{s:I,s:s}", "schema", (json_int_t)i, "error", err.message);
            char *text = json_dumps(line, JSON_COMPACT);
            puts(text);
            wr_free(text);
            json_decref(line);
            continue;
        }
        weir_constraint *k;
        check(weir_constraint_new(g, v->index, 0, &k, &err));
        size_t n_words = weir_constraint_mask_words(k);
        uint32_t *mask = malloc(n_words * sizeof *mask);
        for (int w = 0; w < n; w++) {
            weir_constraint_state *s;
            check(weir_constraint_state_new(k, 2, &s, &err));
            printf("{\"schema\":%zu,\"ids\":[", i);
            char *text = NULL;
            size_t bytes = 0;
            for (size_t step = 0; step < STEPS_MAX && !weir_constraint_state_ended(s); step++) {
                check(weir_constraint_state_mask(s, mask, n_words, &err));
                if (exact) check_exact(v, s, mask);
                int32_t id = choose(v, mask, step);
                if (id < 0) {
                    fprintf(stderr, "schema %zu: no token is allowed after \"%.*s\"\n", i, (int)bytes, text);
                    exit(1);
                }
                check(weir_constraint_state_accept(s, id, &err));
                printf("%s%d", step ? "," : "", id);
                if (weir_constraint_state_ended(s)) break;
                text = realloc(text, bytes + v->bytes[id]);
                memcpy(text + bytes, v->text[id], v->bytes[id]);
                bytes += v->bytes[id];
            }
            printf("],\"ended\":%s,\"text\":\"", weir_constraint_state_ended(s) ? "true" : "false");
            for (size_t b = 0; b < bytes; b++) printf("%02x", (unsigned char)text[b]);
            printf("\"}\n");
            free(text);
            weir_constraint_state_free(s);
        }
        free(mask);
        weir_constraint_free(k);
        weir_grammar_release(g);
    }
}

static void time_cases(const vocab *v, const json_t *cases) {
    size_t i, w, t;
    json_t *c, *ids, *id;
    json_array_foreach(cases, i, c) {
        double ms;
        weir_grammar *g = compile(json_object_get(c, "schema"), &ms);
        if (!g) {
            printf("{\"case\":%zu,\"error\":true}\n", i);
            continue;
        }
        weir_constraint *k;
        double start = now_us();
        check(weir_constraint_new(g, v->index, 0, &k, &err));
        ms += (now_us() - start) / 1e3;
        size_t n_words = weir_constraint_mask_words(k);
        uint32_t *mask = malloc(n_words * sizeof *mask);
        printf("{\"case\":%zu,\"compile_ms\":%.4f,\"mask_us\":[", i, ms);
        double accept_us = 0;
        bool first = true;
        json_array_foreach(json_object_get(c, "walks"), w, ids) {
            weir_constraint_state *s;
            check(weir_constraint_state_new(k, 0, &s, &err));
            json_array_foreach(ids, t, id) {
                start = now_us();
                check(weir_constraint_state_mask(s, mask, n_words, &err));
                double end = now_us();
                printf("%s%.2f", first ? "" : ",", end - start);
                first = false;
                bool taken = weir_constraint_state_accept(s, (int32_t)json_integer_value(id), &err) == WEIR_OK;
                accept_us += now_us() - end;
                if (!taken) {
                    fprintf(stderr, "case %zu, walk %zu, step %zu: %s\n", i, w, t, err.message);
                    break;
                }
            }
            weir_constraint_state_free(s);
        }
        printf("],\"accept_us\":%.2f,\"cache_bytes\":%zu}\n", accept_us, weir_constraint_cache_bytes(k));
        free(mask);
        weir_constraint_free(k);
        weir_grammar_release(g);
    }
}

int main(int argc, char **argv) {
    vocab v;
    json_t *input = NULL;
    if (argc < 3 || (strcmp(argv[1], "vocab") != 0 && argc < 4)) {
        fprintf(stderr, "usage: bench_grammar vocab MODEL | walk MODEL SCHEMAS N SEED [exact] | time MODEL CASES\n");
        return 2;
    }
    open_vocab(&v, argv[2]);
    if (argc > 3) check(wr_json_read(argv[3], (size_t)1 << 30, &input, &err));
    random_state = 0x9E3779B97F4A7C15u * (uint64_t)(argc > 5 ? atoi(argv[5]) + 1 : 1);
    if (strcmp(argv[1], "vocab") == 0)
        print_vocab(&v);
    else if (strcmp(argv[1], "walk") == 0)
        walk(&v, input, argc > 4 ? atoi(argv[4]) : 10, argc > 6);
    else
        time_cases(&v, input);
    json_decref(input);
    weir_token_index_release(v.index);
    weir_tokenizer_close(v.tok);
    return 0;
}
