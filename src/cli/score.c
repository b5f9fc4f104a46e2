/* weir score: the log-probability of each token of a text or of lists of ids. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "cli/chat.h"
#include "file/json.h"

/* One list of ids to score. */
typedef struct id_list {
    int32_t *ids;
    size_t n;
} id_list;

typedef struct totals {
    double sum;
    int64_t n;
} totals;

static weir_status parse_line(const char *line, size_t bytes, id_list *out, weir_error *err) {
    json_t *list = NULL;
    weir_status st = WEIR_OK;
    WR_TRY(wr_json_parse(line, bytes, "token ids", &list, err));
    if (!json_is_array(list) || !json_array_size(list)) {
        st = WR_FAIL(err, WEIR_E_FORMAT, "not a JSON list of token ids");
        goto done;
    }
    out->n = json_array_size(list);
    out->ids = wr_malloc(out->n * sizeof *out->ids);
    if (!out->ids) {
        st = WR_FAIL(err, WEIR_E_MEMORY, "no memory for %zu ids", out->n);
        goto done;
    }
    for (size_t i = 0; i < out->n; i++) {
        const json_t *id = json_array_get(list, i);
        json_int_t value = json_integer_value(id);
        if (!json_is_integer(id) || value < 0 || value > INT32_MAX) {
            st = WR_FAIL(err, WEIR_E_FORMAT, "entry %zu is no token id", i);
            goto done;
        }
        out->ids[i] = (int32_t)value;
    }
done:
    json_decref(list);
    return st;
}

/* Score one list; rows are printed as they come. */
static weir_status score_list(const wr_cli *cli, weir_engine *engine, int64_t index, const id_list *list, totals *sum,
                              weir_error *err) {
    weir_seq *seq;
    weir_seq_options options = {.tokens = list->ids,
                                .n_tokens = list->n,
                                .max_tokens = -1,
                                .score_prompt = true,
                                .top_logprobs = (int)cli->top};
    WR_TRY(weir_seq_open(engine, &options, &seq, err));
    weir_status st = WEIR_OK;
    for (bool done = false; !done && st == WEIR_OK;) {
        const weir_event *events;
        size_t n;
        WR_TRY_GOTO(st, weir_engine_step(engine, &events, &n, err), out);
        for (size_t i = 0; i < n && st == WEIR_OK; i++) {
            const weir_event *event = &events[i];
            done |= event->kind == WEIR_EVENT_FINISH;
            if (event->kind != WEIR_EVENT_SCORE) continue;
            sum->sum += (double)event->logprob;
            sum->n++;
            if (cli->json) {
                json_t *line =
                    json_pack("{s:I,s:I,s:i,s:f}", "seq", (json_int_t)index, "pos", (json_int_t)event->position,
                              "token", event->token, "logprob", (double)event->logprob);
                if (event->n_top) json_object_set_new(line, "top", wr_cli_json_top(event));
                st = wr_cli_json(line, err);
                continue;
            }
            size_t bytes = 0;
            const weir_tokenizer *tok = weir_engine_tokenizer(engine);
            const char *piece = tok ? weir_tokenizer_piece(tok, event->token, &bytes) : NULL;
            printf("%lld\t%lld\t%d\t%.6f\t%.*s\n", (long long)index, (long long)event->position, event->token,
                   (double)event->logprob, piece ? (int)bytes : 0, piece ? piece : "");
        }
    }
out:
    weir_seq_close(seq);
    return st;
}

static weir_status score_file(const wr_cli *cli, weir_engine *engine, totals *sum, weir_error *err) {
    char *text;
    size_t bytes, number = 1;
    WR_TRY(wr_file_read(cli->ids, 1 << 30, &text, &bytes, err));
    weir_status st = WEIR_OK;
    int64_t index = 0;
    for (const char *line = text; line < text + bytes && st == WEIR_OK; number++) {
        const char *end = memchr(line, '\n', (size_t)(text + bytes - line));
        size_t length = end ? (size_t)(end - line) : (size_t)(text + bytes - line);
        if (strspn(line, " \t\r") < length) {
            id_list list = {0};
            st = parse_line(line, length, &list, err);
            if (st == WEIR_OK) st = score_list(cli, engine, index++, &list, sum, err);
            if (st != WEIR_OK) wr_err_context(err, "%s line %zu", cli->ids, number);
            wr_free(list.ids);
        }
        line += length + 1;
    }
    if (st == WEIR_OK && !index) st = WR_FAIL(err, WEIR_E_FORMAT, "%s has no list of token ids", cli->ids);
    wr_free(text);
    return st;
}

static weir_status score_text(const wr_cli *cli, weir_engine *engine, totals *sum, weir_error *err) {
    wr_cli source = *cli;
    if (!cli->prompt && !cli->file) source.file = "-";
    char *text;
    size_t bytes;
    weir_encoding encoding = {0};
    WR_TRY(wr_cli_text(&source, &text, &bytes, err));
    unsigned flags = WEIR_ENCODE_ADD_SPECIAL | (cli->special ? WEIR_ENCODE_PARSE_SPECIAL : 0);
    weir_status st =
        weir_tokenizer_encode_new(weir_engine_tokenizer(engine), text, bytes, flags, false, &encoding, err);
    if (st == WEIR_OK && encoding.n == 0) st = WR_FAIL(err, WEIR_E_ARGUMENT, "the text is empty");
    if (st == WEIR_OK) st = score_list(cli, engine, 0, &(id_list){encoding.ids, encoding.n}, sum, err);
    weir_encoding_deinit(&encoding);
    wr_free(text);
    return st;
}

weir_status wr_cmd_score(const wr_cli *cli, weir_error *err) {
    weir_engine *engine;
    totals sum = {0};
    if (cli->ids && (cli->prompt || cli->file))
        return WR_FAIL(err, WEIR_E_ARGUMENT, "--ids and a text are both given; score one of them");
    WR_TRY(wr_cli_open(cli, &engine, err));
    weir_status st = WEIR_OK;
    if (!cli->ids) st = wr_cli_need_tokenizer(cli, weir_engine_tokenizer(engine), err);
    if (st == WEIR_OK) st = cli->ids ? score_file(cli, engine, &sum, err) : score_text(cli, engine, &sum, err);
    weir_engine_close(engine);
    WR_TRY(st);
    double mean = sum.n ? sum.sum / (double)sum.n : 0, perplexity = exp(-mean);
    if (perplexity > DBL_MAX) perplexity = DBL_MAX; /* JSON has no infinity */
    if (cli->json)
        WR_TRY(wr_cli_json(
            json_pack("{s:I,s:f,s:f}", "tokens", (json_int_t)sum.n, "mean_logprob", mean, "perplexity", perplexity),
            err));
    else
        printf("%lld tokens, mean log-probability %.6f, perplexity %.4f\n", (long long)sum.n, mean, perplexity);
    return wr_cli_flush(err);
}
