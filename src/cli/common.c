/* What several commands do alike: engine options, sampling options, texts, JSON lines. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "array/graph.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/mem.h"
#include "cli/cli.h"

static const char *chosen_device(const char *name) {
    static char chosen[16];
    weir_error why;
    if (strcmp(name, "auto") != 0) return name;
    wr_device_choose(chosen, &why);
    if (why.status != WEIR_OK) fprintf(stderr, "weir: %s; using the CPU\n", why.message);
    return chosen;
}

weir_status wr_cli_engine_options(const wr_cli *cli, weir_engine_options *o, weir_error *err) {
    *o = (weir_engine_options){.device = chosen_device(cli->device),
                               .n_threads = (int)cli->threads,
                               .max_context = cli->context,
                               .max_batch = cli->batch,
                               .max_step_tokens = cli->step_tokens,
                               .kv_bytes = (size_t)cli->kv_bytes,
                               .reference = cli->reference};
    static const weir_dtype dtypes[] = {WEIR_DTYPE_F16, WEIR_DTYPE_BF16, WEIR_DTYPE_F32};
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (!strcmp(cli->kv_dtype, weir_dtype_name(dtypes[i]))) {
            o->kv_dtype = dtypes[i];
            return WEIR_OK;
        }
    if (!strcmp(cli->kv_dtype, "auto")) return WEIR_OK;
    return WR_FAIL(err, WEIR_E_ARGUMENT, "--kv-dtype is \"%s\"; it must be auto, f16, bf16 or f32", cli->kv_dtype);
}

static void show_progress(void *context, double done) {
    (void)context;
    fprintf(stderr, "\rloading %3d %%%s", (int)(done * 100), done >= 1 ? "\r\033[K" : "");
    fflush(stderr);
}

weir_status wr_cli_open(const wr_cli *cli, weir_engine **engine, weir_error *err) {
    weir_engine_options options;
    WR_TRY(wr_cli_engine_options(cli, &options, err));
    if (!options.max_batch) options.max_batch = 1; /* one sequence at a time: no memory for others */
    if (isatty(STDERR_FILENO) && !cli->json) options.progress = show_progress;
    return weir_engine_open(cli->model, &options, engine, err);
}

/* "ID=X" */
static weir_status parse_bias(const char *text, weir_logit_bias *out, weir_error *err) {
    char *end;
    errno = 0;
    long token = strtol(text, &end, 10);
    if (end != text && *end == '=' && !errno && token >= 0 && token <= INT32_MAX) {
        const char *value = end + 1;
        float bias = strtof(value, &end);
        if (end != value && !*end) {
            *out = (weir_logit_bias){(int32_t)token, bias};
            return WEIR_OK;
        }
    }
    return WR_FAIL(err, WEIR_E_ARGUMENT, "--logit-bias is \"%s\"; it must be ID=X, as 11=-5", text);
}

weir_status wr_cli_sampling(const wr_cli *cli, weir_sampling *s, weir_logit_bias *bias, size_t cap, weir_error *err) {
    *s = (weir_sampling){.temperature = (float)cli->temperature,
                         .top_k = cli->top_k > INT32_MAX ? INT32_MAX : (int32_t)cli->top_k,
                         .top_p = (float)cli->top_p,
                         .min_p = (float)cli->min_p,
                         .repetition_penalty = (float)cli->repetition_penalty,
                         .presence_penalty = (float)cli->presence_penalty,
                         .frequency_penalty = (float)cli->frequency_penalty,
                         .logit_bias = bias,
                         .seed = (uint64_t)cli->seed};
    for (size_t i = 0; i < cli->logit_bias.n && i < cap; i++)
        WR_TRY(parse_bias(cli->logit_bias.at[i], &bias[s->n_logit_bias++], err));
    return WEIR_OK;
}

enum { MAX_TEXT_BYTES = 1 << 30 };

/* Standard input to its end. */
static weir_status read_stdin(char **text, size_t *bytes, weir_error *err) {
    size_t capacity = 1 << 16, n = 0;
    char *buffer = wr_malloc(capacity);
    while (buffer) {
        size_t got = fread(buffer + n, 1, capacity - n - 1, stdin);
        n += got;
        if (!got) break;
        if (capacity - n > 1) continue;
        if (capacity >= MAX_TEXT_BYTES) {
            wr_free(buffer);
            return WR_FAIL(err, WEIR_E_LIMIT, "standard input has more than %d bytes", MAX_TEXT_BYTES);
        }
        char *larger = wr_realloc(buffer, capacity *= 2);
        if (!larger) wr_free(buffer);
        buffer = larger;
    }
    if (!buffer) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for standard input");
    if (ferror(stdin)) {
        wr_free(buffer);
        return WR_FAIL(err, WEIR_E_IO, "reading standard input: %s", strerror(errno));
    }
    buffer[n] = 0;
    *text = buffer;
    *bytes = n;
    return WEIR_OK;
}

weir_status wr_cli_text(const wr_cli *cli, char **text, size_t *bytes, weir_error *err) {
    *text = NULL;
    *bytes = 0;
    if (cli->prompt && cli->file)
        return WR_FAIL(err, WEIR_E_ARGUMENT, "-p and -f are both given; the text can come from one of them");
    if (cli->prompt) {
        *bytes = strlen(cli->prompt);
        *text = wr_strdup(cli->prompt);
        return *text ? WEIR_OK : WR_FAIL(err, WEIR_E_MEMORY, "no memory for the prompt");
    }
    if (!cli->file) return WEIR_OK;
    if (!strcmp(cli->file, "-")) return read_stdin(text, bytes, err);
    return wr_file_read(cli->file, MAX_TEXT_BYTES, text, bytes, err);
}

weir_status wr_cli_json(json_t *object, weir_error *err) {
    if (!object) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a line of output");
    int failed = json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(object);
    if (failed || putchar('\n') == EOF) return WR_FAIL(err, WEIR_E_IO, "writing standard output: %s", strerror(errno));
    return wr_cli_flush(err); /* a reader gets each line when it is there */
}

json_t *wr_cli_json_text(const char *text, size_t bytes) {
    json_t *string = json_stringn(text, bytes);
    if (string) return string;
    /* Not UTF-8 (a piece of a character): each byte that is not ASCII becomes U+FFFD. */
    char *clean = wr_malloc(bytes * 3 + 1);
    if (!clean) return NULL;
    size_t n = 0;
    for (size_t i = 0; i < bytes; i++) {
        if ((unsigned char)text[i] < 0x80)
            clean[n++] = text[i];
        else
            memcpy(clean + n, "\xEF\xBF\xBD", 3), n += 3;
    }
    string = json_stringn(clean, n);
    wr_free(clean);
    return string;
}

weir_status wr_cli_flush(weir_error *err) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return WEIR_OK;
    return WR_FAIL(err, WEIR_E_IO, "writing standard output: %s", strerror(errno));
}

weir_status wr_cli_numbers(const char *option, const char *text, int64_t *out, size_t cap, size_t *n, weir_error *err) {
    *n = 0;
    for (const char *at = text; *at;) {
        char *end;
        errno = 0;
        long long value = strtoll(at, &end, 10);
        if (end == at || errno || value < 0 || *n == cap || (*end && *end != ','))
            return WR_FAIL(err, WEIR_E_ARGUMENT, "%s is \"%s\"; it must be at most %zu numbers with commas between",
                           option, text, cap);
        out[(*n)++] = value;
        at = *end ? end + 1 : end;
    }
    return WEIR_OK;
}

weir_status wr_cli_need_tokenizer(const wr_cli *cli, const weir_tokenizer *tok, weir_error *err) {
    if (tok) return WEIR_OK;
    return WR_FAIL(err, WEIR_E_NOT_FOUND,
                   "%s has no tokenizer (tokenizer.json); only `weir score --ids` and `weir bench` can use it",
                   cli->model);
}

double wr_cli_now_s(void) { return (double)wr_now_ns() * 1e-9; }
