/* weir tokenize: ids, spans and pieces of a text. Needs no weights, and no model where the
 * path names a tokenizer's file or a folder that holds one. */
#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "engine/vocab.h"

/* A piece on one line: control characters as escapes. */
static void print_piece(const char *piece, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)piece[i];
        if (c == '\n') {
            fputs("\\n", stdout);
        } else if (c < 0x20 || c == 0x7F) {
            printf("\\x%02X", c);
        } else {
            putchar(c);
        }
    }
}

static weir_status show(const wr_cli *cli, const weir_tokenizer *tok, const weir_encoding *e, weir_error *err) {
    for (size_t i = 0; i < e->n; i++) {
        size_t bytes = 0;
        const char *piece = weir_tokenizer_piece(tok, e->ids[i], &bytes);
        if (!cli->json) {
            printf("%d\t%zu\t%zu\t", e->ids[i], e->spans[i].begin, e->spans[i].end);
            print_piece(piece, piece ? bytes : 0);
            putchar('\n');
            continue;
        }
        WR_TRY(
            wr_cli_json(json_pack("{s:i,s:I,s:I,s:o}", "id", e->ids[i], "begin", (json_int_t)e->spans[i].begin, "end",
                                  (json_int_t)e->spans[i].end, "piece", wr_cli_json_text(piece ? piece : "", bytes)),
                        err));
    }
    if (cli->json)
        WR_TRY(wr_cli_json(json_pack("{s:I}", "count", (json_int_t)e->n), err));
    else
        printf("%zu tokens\n", e->n);
    return wr_cli_flush(err);
}

/* A tokenizer by itself: a file that is no GGUF, or a folder without a model's config. */
static bool is_tokenizer_alone(const char *path) {
    size_t n = strlen(path);
    if (wr_path_is_file(path)) return n < 5 || strcmp(path + n - 5, ".gguf") != 0;
    if (!wr_path_is_folder(path)) return false;
    char *config = wr_path_join(path, "config.json");
    bool alone = config && !wr_path_is_file(config) && wr_tokenizer_in_folder(path);
    wr_free(config);
    return alone;
}

static weir_status open_tokenizer(const char *model, wr_checkpoint **checkpoint, weir_tokenizer **tok,
                                  weir_error *err) {
    if (is_tokenizer_alone(model)) return weir_tokenizer_open(model, tok, err);
    WR_TRY(wr_checkpoint_open(model, checkpoint, err));
    return wr_vocab_open(*checkpoint, tok, err);
}

weir_status wr_cmd_tokenize(const wr_cli *cli, weir_error *err) {
    wr_checkpoint *checkpoint = NULL;
    weir_tokenizer *tok = NULL;
    weir_encoding encoding = {0};
    char *text = NULL;
    size_t bytes;
    wr_cli source = *cli;
    if (!cli->prompt && !cli->file) source.file = "-";
    weir_status st;
    WR_TRY_GOTO(st, wr_cli_text(&source, &text, &bytes, err), done);
    WR_TRY_GOTO(st, open_tokenizer(cli->model, &checkpoint, &tok, err), done);
    WR_TRY_GOTO(st, wr_cli_need_tokenizer(cli, tok, err), done);
    unsigned flags = WEIR_ENCODE_ADD_SPECIAL | (cli->special ? WEIR_ENCODE_PARSE_SPECIAL : 0);
    WR_TRY_GOTO(st, weir_tokenizer_encode_new(tok, text, bytes, flags, true, &encoding, err), done);
    st = show(cli, tok, &encoding, err);
done:
    weir_encoding_deinit(&encoding);
    weir_tokenizer_close(tok);
    wr_checkpoint_close(checkpoint);
    wr_free(text);
    return st;
}
