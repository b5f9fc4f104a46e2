/* The tokenizer of a checkpoint: from its tokenizer.json, or from GGUF metadata. */
#ifndef WR_ENGINE_VOCAB_H
#define WR_ENGINE_VOCAB_H

#include "file/checkpoint.h"
#include "text/tokenizer.h"

/* With every end id that the checkpoint names anywhere, and its chat template. *out is NULL, and that is no error, when
 * the checkpoint has no tokenizer: ids in, ids out. */
weir_status wr_vocab_open(const wr_checkpoint *checkpoint, weir_tokenizer **out, weir_error *err);

#endif
