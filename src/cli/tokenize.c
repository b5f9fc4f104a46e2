/* weir tokenize: ids, spans and pieces of a text. Needs no weights. */
#include "base/mem.h"
#include "cli/cli.h"
#include "engine/vocab.h"

static weir_status show(const wr_cli *cli, const weir_tokenizer *tok, const weir_encoding *e, weir_error *err) {
    for (size_t i = 0; i < e->n; i++) {
        size_t bytes = 0;
        const char *piece = weir_tokenizer_piece(tok, e->ids[i], &bytes);
        if (!cli->json) {
            printf("%d\t%zu\t%zu\t%.*s\n", e->ids[i], e->spans[i].begin, e->spans[i].end, (int)bytes,
                   piece ? piece : "");
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
    WR_TRY_GOTO(st, wr_checkpoint_open(cli->model, &checkpoint, err), done);
    WR_TRY_GOTO(st, wr_vocab_open(checkpoint, &tok, err), done);
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
