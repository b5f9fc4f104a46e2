/* Where checkpoints keep their chat templates and special tokens. */
#ifndef WR_TEXT_CHAT_SOURCE_H
#define WR_TEXT_CHAT_SOURCE_H

#include <jansson.h>

#include "base/status.h"
#include "file/checkpoint.h"

/* Called for each template; what it returns ends the walk unless it is OK. */
typedef weir_status (*wr_chat_source_callback)(void *context, const char *name, const char *text, size_t bytes,
                                               weir_error *err);
/* The more binding place first: of two templates of a name the first counts. */
weir_status wr_chat_source_templates(const wr_checkpoint *checkpoint, wr_chat_source_callback callback, void *context,
                                     weir_error *err);

/* A new object: bos_token, eos_token, unk_token, sep_token, pad_token, cls_token, mask_token and further ones that the
 * configuration names (image_token, ...), as texts. */
weir_status wr_chat_source_tokens(const wr_checkpoint *checkpoint, json_t **out, weir_error *err);

#endif
