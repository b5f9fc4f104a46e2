/* weir run: answer one prompt, or chat at the terminal. */
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/chat.h"
#include "text/chat.h"

/* Ctrl-C ends the answer, not the program. */
static volatile sig_atomic_t interrupted;
static void on_interrupt(int signal_number) {
    (void)signal_number;
    interrupted = 1;
}

static const char *finish_name(weir_finish finish) {
    static const char *const names[] = {"none", "stop", "length", "cancelled", "error"};
    return names[finish];
}

json_t *wr_cli_json_top(const weir_event *event) {
    json_t *list = json_array();
    for (int i = 0; i < event->n_top; i++)
        json_array_append_new(list, json_pack("[i,f]", event->top[i].token, (double)event->top[i].logprob));
    return list;
}

/* Where the whole answer is gathered. */
typedef struct answer {
    char *text;
    size_t bytes, capacity;
} answer;

static weir_status append(answer *a, const char *text, size_t bytes, weir_error *err) {
    if (a->bytes + bytes + 1 > a->capacity) {
        size_t capacity = (a->bytes + bytes + 1) * 2;
        char *larger = wr_realloc(a->text, capacity);
        if (!larger) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for an answer of %zu bytes", capacity);
        a->text = larger, a->capacity = capacity;
    }
    memcpy(a->text + a->bytes, text, bytes);
    a->bytes += bytes;
    a->text[a->bytes] = 0;
    return WEIR_OK;
}

static weir_status show_event(const wr_cli *cli, const weir_event *event, weir_error *err) {
    if (!cli->json) {
        fwrite(event->text, 1, event->text_bytes, stdout);
        return wr_cli_flush(err);
    }
    if (event->kind != WEIR_EVENT_TOKEN) return WEIR_OK;
    json_t *line =
        json_pack("{s:i,s:o}", "token", event->token, "text", wr_cli_json_text(event->text, event->text_bytes));
    if (event->has_logprob) json_object_set_new(line, "logprob", json_real((double)event->logprob));
    if (event->n_top) json_object_set_new(line, "top", wr_cli_json_top(event));
    return wr_cli_json(line, err);
}

/* Step until the sequence is finished, showing what comes. */
static weir_status drive(const wr_cli *cli, weir_engine *engine, weir_seq *seq, wr_answer_stats *stats, answer *a,
                         weir_error *err) {
    double start = wr_cli_now_s();
    for (;;) {
        const weir_event *events;
        size_t n;
        if (interrupted) weir_seq_cancel(seq);
        WR_TRY(weir_engine_step(engine, &events, &n, err));
        for (size_t i = 0; i < n; i++) {
            if (events[i].kind == WEIR_EVENT_TOKEN && !stats->n_generated++) stats->prefill_s = wr_cli_now_s() - start;
            WR_TRY(append(a, events[i].text, events[i].text_bytes, err));
            WR_TRY(show_event(cli, &events[i], err));
            if (events[i].kind != WEIR_EVENT_FINISH) continue;
            stats->decode_s = wr_cli_now_s() - start - stats->prefill_s;
            stats->finish = finish_name(events[i].finish);
            if (events[i].finish == WEIR_FINISH_ERROR)
                return WR_FAIL(err, WEIR_E_FORMAT, "the model gave no finite logit; its weights may be damaged");
            return WEIR_OK;
        }
    }
}

weir_status wr_cli_answer(const wr_cli *cli, weir_engine *engine, const char *text, size_t bytes, bool from_template,
                          char **out, wr_answer_stats *stats, weir_error *err) {
    weir_encoding prompt = {0};
    weir_logit_bias bias[WR_MAX_TEXTS];
    weir_seq *seq = NULL;
    answer a = {0};
    *stats = (wr_answer_stats){.finish = "none"};
    weir_seq_options options = {.max_tokens = cli->max_tokens,
                                .stop = cli->stop.at,
                                .n_stop = cli->stop.n,
                                .ignore_eos = cli->ignore_eos,
                                .logprobs = cli->logprobs,
                                .top_logprobs = cli->logprobs ? (int)cli->top : 0,
                                .keep_special = cli->special};
    weir_status st;
    unsigned flags = WEIR_ENCODE_ADD_SPECIAL | (from_template || cli->special ? WEIR_ENCODE_PARSE_SPECIAL : 0);
    WR_TRY_GOTO(st, weir_tokenizer_encode_new(weir_engine_tokenizer(engine), text, bytes, flags, false, &prompt, err),
                done);
    options.tokens = prompt.ids, options.n_tokens = prompt.n;
    stats->n_prompt = prompt.n;
    WR_TRY_GOTO(st, wr_cli_sampling(cli, &options.sampling, bias, WR_MAX_TEXTS, err), done);
    WR_TRY_GOTO(st, weir_seq_open(engine, &options, &seq, err), done);
    WR_TRY_GOTO(st, append(&a, "", 0, err), done);
    interrupted = 0;
    struct sigaction act = {.sa_handler = on_interrupt}, before;
    sigaction(SIGINT, &act, &before);
    st = drive(cli, engine, seq, stats, &a, err);
    sigaction(SIGINT, &before, NULL);
done:
    weir_seq_close(seq);
    weir_encoding_deinit(&prompt);
    stats->text_bytes = a.bytes;
    stats->full = st == WEIR_OK && !strcmp(stats->finish, "length") &&
                  (!cli->max_tokens || stats->n_generated < (size_t)cli->max_tokens);
    if (st == WEIR_OK)
        *out = a.text;
    else
        wr_free(a.text);
    return st;
}

static weir_status show_end(const wr_cli *cli, const char *text, const wr_answer_stats *s, weir_error *err) {
    if (cli->json)
        return wr_cli_json(json_pack("{s:s,s:o,s:I,s:I,s:f,s:f}", "finish", s->finish, "text",
                                     wr_cli_json_text(text, s->text_bytes), "prompt_tokens", (json_int_t)s->n_prompt,
                                     "generated_tokens", (json_int_t)s->n_generated, "prefill_s", s->prefill_s,
                                     "decode_s", s->decode_s),
                           err);
    putchar('\n');
    WR_TRY(wr_cli_flush(err)); /* before what goes to standard error */
    if (s->full) fprintf(stderr, "weir run: the context is full, the answer was cut; --context gives more\n");
    if (cli->verbose)
        fprintf(stderr, "%zu prompt tokens in %.3f s (%.1f/s), %zu tokens in %.3f s (%.1f/s), %s\n", s->n_prompt,
                s->prefill_s, s->n_generated ? (double)s->n_prompt / s->prefill_s : 0, s->n_generated, s->decode_s,
                s->n_generated > 1 ? (double)(s->n_generated - 1) / s->decode_s : 0, s->finish);
    return WEIR_OK;
}

weir_status wr_cli_add_message(json_t *messages, const char *role, const char *text, size_t bytes, weir_error *err) {
    json_t *message = json_pack("{s:s,s:o}", "role", role, "content", wr_chat_text(text, bytes));
    if (message && json_array_append_new(messages, message) == 0) return WEIR_OK;
    return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a message");
}

weir_status wr_cli_format_chat(const wr_cli *cli, const wr_chat *templates, const json_t *messages, char **out,
                               size_t *bytes, weir_error *err) {
    json_t *extra;
    WR_TRY(wr_cli_template_args(cli, &extra, err));
    wr_chat_request request = {.messages = messages, .extra = extra, .name = cli->name, .add_generation_prompt = true};
    weir_status st = wr_chat_render(templates, &request, NULL, out, bytes, err);
    json_decref(extra);
    return st;
}

/* One prompt, one answer. */
static weir_status run_once(const wr_cli *cli, weir_engine *engine, const wr_chat *templates, const char *text,
                            size_t bytes, weir_error *err) {
    char *formatted = NULL, *out = NULL;
    wr_answer_stats stats;
    json_t *messages = json_array();
    weir_status st = WEIR_OK;
    if (templates) {
        if (cli->system)
            WR_TRY_GOTO(st, wr_cli_add_message(messages, "system", cli->system, strlen(cli->system), err), done);
        WR_TRY_GOTO(st, wr_cli_add_message(messages, "user", text, bytes, err), done);
        WR_TRY_GOTO(st, wr_cli_format_chat(cli, templates, messages, &formatted, &bytes, err), done);
        text = formatted;
    }
    WR_TRY_GOTO(st, wr_cli_answer(cli, engine, text, bytes, templates != NULL, &out, &stats, err), done);
    st = show_end(cli, out, &stats, err);
done:
    json_decref(messages);
    wr_free(out);
    wr_free(formatted);
    return st;
}

/* The templates of the model, unless --raw. */
static weir_status open_templates(const wr_cli *cli, wr_chat **out, weir_error *err) {
    wr_checkpoint *checkpoint;
    *out = NULL;
    if (cli->raw) return WEIR_OK;
    WR_TRY(wr_checkpoint_open(cli->model, &checkpoint, err));
    weir_status st = wr_chat_open(checkpoint, out, err);
    wr_checkpoint_close(checkpoint);
    return st;
}

weir_status wr_cmd_run(const wr_cli *cli, weir_error *err) {
    char *text;
    size_t bytes;
    WR_TRY(wr_cli_text(cli, &text, &bytes, err));
    bool chat = !text && isatty(STDIN_FILENO) && !cli->json;
    if (!text && !chat) {
        wr_cli from_stdin = *cli; /* a pipe: its text is the prompt */
        from_stdin.file = "-";
        WR_TRY(wr_cli_text(&from_stdin, &text, &bytes, err));
    }
    weir_engine *engine = NULL;
    wr_chat *templates = NULL;
    weir_status st = wr_cli_open(cli, &engine, err);
    if (st == WEIR_OK) st = wr_cli_need_tokenizer(cli, weir_engine_tokenizer(engine), err);
    if (st == WEIR_OK) st = open_templates(cli, &templates, err);
    if (st == WEIR_OK)
        st = chat ? wr_cli_chat(cli, engine, templates, err) : run_once(cli, engine, templates, text, bytes, err);
    wr_chat_free(templates);
    weir_engine_close(engine);
    wr_free(text);
    return st;
}
