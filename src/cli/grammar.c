/* weir grammar: does a grammar compile, which texts fit it, and which tokens may come next. */
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "engine/vocab.h"
#include "file/json.h"
#include "weir/grammar.h"

enum { GRAMMAR_BYTES_MAX = 64 << 20, SHOWN_TOKENS = 40 };

static bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* One choice a line. */
static weir_status open_choices(char *text, weir_grammar **out, weir_error *err) {
    size_t n = 0, cap = 1;
    for (const char *p = text; *p; p++) cap += *p == '\n';
    const char **line = wr_malloc(cap * sizeof *line);
    if (!line) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the choices");
    for (char *rest = text, *part; (part = strsep(&rest, "\n"));)
        if (*part) line[n++] = part;
    weir_status st = weir_grammar_from_choices(line, NULL, n, out, err);
    wr_free(line);
    return st;
}

static weir_status open_grammar(const wr_cli *cli, weir_grammar **out, weir_error *err) {
    const char *name = cli->words[0], *kind = cli->kind;
    char *text;
    size_t n;
    *out = NULL;
    if (!cli->n_words) return WR_FAIL(err, WEIR_E_ARGUMENT, "no grammar named; give a file (weir grammar --help)");
    if (strcmp(kind, "auto") == 0)
        kind = ends_with(name, ".json") ? "schema" : ends_with(name, ".gbnf") ? "gbnf" : "regex";
    WR_TRY(wr_file_read(name, GRAMMAR_BYTES_MAX, &text, &n, err));
    weir_schema_options options = {.max_whitespace = (int32_t)cli->max_whitespace,
                                   .plain_strings = cli->plain_strings,
                                   .plain_numbers = cli->plain_numbers,
                                   .one_of_as_any_of = cli->one_of_as_any_of};
    weir_status st;
    if (strcmp(kind, "schema") == 0)
        st = weir_grammar_from_schema(text, n, &options, out, err);
    else if (strcmp(kind, "gbnf") == 0)
        st = weir_grammar_from_gbnf(text, n, out, err);
    else if (strcmp(kind, "regex") == 0)
        st = weir_grammar_from_regex(text, n && text[n - 1] == '\n' ? n - 1 : n, out, err);
    else if (strcmp(kind, "choices") == 0)
        st = open_choices(text, out, err);
    else
        st = WR_FAIL(err, WEIR_E_ARGUMENT, "--kind is \"%s\"; it must be auto, schema, gbnf, regex or choices", kind);
    wr_free(text);
    if (st != WEIR_OK) wr_err_context(err, "in %s", name);
    return st;
}

/* ---- Texts -------------------------------------------------------------------- */

static weir_status check_text(const wr_cli *cli, weir_constraint *k, const char *text, size_t bytes, weir_error *err) {
    weir_constraint_state *state;
    size_t taken;
    char forced[256];
    size_t n_forced = 0;
    WR_TRY(weir_constraint_state_new(k, 0, &state, err));
    weir_status st = weir_constraint_state_accept_bytes(state, text, bytes, &taken, err);
    bool fits = st == WEIR_OK, whole = fits && weir_constraint_state_can_end(state);
    if (st == WEIR_E_ARGUMENT) st = WEIR_OK;
    if (st == WEIR_OK && fits) st = weir_constraint_state_forced(state, forced, sizeof forced, &n_forced, err);
    weir_constraint_state_free(state);
    if (st != WEIR_OK) return st;
    if (cli->json)
        return wr_cli_json(json_pack("{s:b,s:b,s:I,s:o}", "accepted", whole, "beginning", fits, "fits",
                                     (json_int_t)taken, "forced", wr_cli_json_text(forced, n_forced)),
                           err);
    if (whole)
        printf("accepted\n");
    else if (!fits)
        printf("rejected: byte %zu of %zu does not fit\n", taken, bytes);
    else if (n_forced)
        printf("incomplete: must go on with \"%.*s\"\n", (int)n_forced, forced);
    else
        printf("incomplete: it fits so far, but may not end here\n");
    return WEIR_OK;
}

/* A JSON list of texts. */
static weir_status check_list(const wr_cli *cli, weir_constraint *k, weir_error *err) {
    json_t *list, *item;
    size_t i;
    WR_TRY(wr_json_read(cli->texts, GRAMMAR_BYTES_MAX, &list, err));
    weir_status st = WEIR_OK;
    if (!json_is_array(list)) st = WR_FAIL(err, WEIR_E_FORMAT, "%s is not a JSON list of strings", cli->texts);
    json_array_foreach(list, i, item) {
        if (st != WEIR_OK) break;
        if (json_is_string(item))
            st = check_text(cli, k, json_string_value(item), json_string_length(item), err);
        else
            st = WR_FAIL(err, WEIR_E_FORMAT, "%s: item %zu is no string", cli->texts, i);
    }
    json_decref(list);
    return st;
}

/* ---- Masks -------------------------------------------------------------------- */

static weir_status show_tokens(const wr_cli *cli, const weir_tokenizer *tok, const uint32_t *mask, weir_error *err) {
    int32_t n = 0, size = weir_tokenizer_vocab_size(tok);
    json_t *ids = cli->json ? json_array() : NULL;
    for (int32_t id = 0; id < size; id++) {
        char bytes[64];
        if (!(mask[id >> 5] >> (id & 31) & 1)) continue;
        n++;
        if (ids) {
            json_array_append_new(ids, json_integer(id));
        } else if (n <= SHOWN_TOKENS) {
            size_t length = weir_tokenizer_token_bytes(tok, id, bytes, sizeof bytes);
            printf("%d\t%.*s\n", id, (int)(length < sizeof bytes ? length : sizeof bytes), bytes);
        }
    }
    if (ids) return wr_cli_json(json_pack("{s:i,s:o}", "count", n, "tokens", ids), err);
    if (n > SHOWN_TOKENS) printf("... %d more\n", n - SHOWN_TOKENS);
    printf("%d tokens of %d may come next\n", n, size);
    return WEIR_OK;
}

static weir_status show_mask(const wr_cli *cli, weir_grammar *grammar, const char *text, size_t bytes,
                             weir_error *err) {
    wr_checkpoint *checkpoint = NULL;
    weir_tokenizer *tok = NULL;
    weir_token_index *index = NULL;
    weir_constraint *k = NULL;
    weir_constraint_state *state = NULL;
    uint32_t *mask = NULL;
    weir_status st;
    WR_TRY_GOTO(st, wr_checkpoint_open(cli->mask_model, &checkpoint, err), done);
    WR_TRY_GOTO(st, wr_vocab_open(checkpoint, &tok, err), done);
    if (!tok) {
        st = WR_FAIL(err, WEIR_E_NOT_FOUND, "%s has no tokenizer", cli->mask_model);
        goto done;
    }
    WR_TRY_GOTO(st, weir_token_index_new(tok, &index, err), done);
    WR_TRY_GOTO(st, weir_constraint_new(grammar, index, 0, &k, err), done);
    WR_TRY_GOTO(st, weir_constraint_state_new(k, 0, &state, err), done);
    WR_TRY_GOTO(st, weir_constraint_state_accept_bytes(state, text, bytes, NULL, err), done);
    size_t n_words = weir_constraint_mask_words(k);
    mask = wr_malloc((n_words + 1) * sizeof *mask);
    st = mask ? weir_constraint_state_mask(state, mask, n_words, err)
              : WR_FAIL(err, WEIR_E_MEMORY, "no memory for a mask of %zu words", n_words);
    if (st == WEIR_OK) st = show_tokens(cli, tok, mask, err);
done:
    wr_free(mask);
    weir_constraint_state_free(state);
    weir_constraint_free(k);
    weir_token_index_release(index);
    weir_tokenizer_close(tok);
    wr_checkpoint_close(checkpoint);
    return st;
}

weir_status wr_cmd_grammar(const wr_cli *cli, weir_error *err) {
    weir_grammar *grammar = NULL;
    weir_constraint *k = NULL;
    char *text = NULL;
    size_t bytes = 0;
    weir_status st;
    double start = wr_cli_now_s();
    WR_TRY_GOTO(st, open_grammar(cli, &grammar, err), done);
    double compile_ms = (wr_cli_now_s() - start) * 1e3;
    WR_TRY_GOTO(st, weir_constraint_new(grammar, NULL, 0, &k, err), done);
    WR_TRY_GOTO(st, wr_cli_text(cli, &text, &bytes, err), done);
    if (cli->mask_model)
        st = show_mask(cli, grammar, text ? text : "", bytes, err);
    else if (cli->texts)
        st = check_list(cli, k, err);
    else if (text)
        st = check_text(cli, k, text, bytes, err);
    else if (cli->json)
        st = wr_cli_json(json_pack("{s:f}", "compile_ms", compile_ms), err);
    else
        printf("compiled in %.2f ms\n", compile_ms);
    if (st == WEIR_OK) st = wr_cli_flush(err);
done:
    wr_free(text);
    weir_constraint_free(k);
    weir_grammar_release(grammar);
    return st;
}
