/* Owns the way from a checkpoint to its tokenizer. */
#include "engine/vocab.h"

#include <string.h>

#include "base/io.h"
#include "base/mem.h"
#include "file/gguf.h"

/* No tokenizer at all; a tokenizer in a form that is not supported is another matter. */
static bool has_none(const wr_checkpoint *c) {
    const wr_gguf *gguf = wr_checkpoint_gguf(c);
    if (gguf) return !wr_gguf_has(gguf, "tokenizer.ggml.model") && !wr_gguf_has(gguf, "tokenizer.ggml.tokens");
    return !wr_tokenizer_in_folder(wr_checkpoint_path(c));
}

weir_status wr_vocab_open(const wr_checkpoint *c, weir_tokenizer **out, weir_error *err) {
    enum { EOS_CAP = 64 };
    int32_t eos[EOS_CAP];
    size_t n_eos;
    weir_tokenizer *tok = NULL;
    weir_status st;
    *out = NULL;
    if (has_none(c)) return WEIR_OK;
    const wr_gguf *gguf = wr_checkpoint_gguf(c);
    WR_TRY_GOTO(
        st, gguf ? wr_tokenizer_open_gguf(gguf, &tok, err) : wr_tokenizer_open_folder(wr_checkpoint_path(c), &tok, err),
        fail);
    WR_TRY_GOTO(st, wr_checkpoint_eos(c, eos, EOS_CAP, &n_eos, err), fail);
    for (size_t i = 0; i < n_eos && i < EOS_CAP; i++) WR_TRY_GOTO(st, wr_tokenizer_add_eos(tok, eos[i], err), fail);
    const char *chat = wr_checkpoint_chat_template(c);
    if (chat && !weir_tokenizer_chat_template(tok))
        WR_TRY_GOTO(st, wr_tokenizer_set_chat_template(tok, chat, err), fail);
    *out = tok;
    return WEIR_OK;
fail:
    wr_err_context(err, "tokenizer of %s", wr_checkpoint_path(c));
    weir_tokenizer_close(tok);
    return st;
}
