/* Chat templates, first cut: the turn formats of the ChatML, Gemma and Llama 3
 * families are recognised by their markers and written out directly; templates
 * of other families are refused, never guessed. */
#ifndef WR_TEXT_CHAT_H
#define WR_TEXT_CHAT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct wr_chat_message {
    const char *role;    /* "system", "user" or "assistant" */
    const char *content; /* UTF-8 */
} wr_chat_message;

/* Format n messages by the model's template. The result is terminated text for
 * WEIR_ENCODE_PARSE_SPECIAL; free with wr_free. It carries BOS where the template
 * writes it (bos_piece, "" or NULL if there is none); encoding it with
 * WEIR_ENCODE_ADD_SPECIAL still gives exactly one. add_generation_prompt opens
 * the assistant's turn. Errors: UNSUPPORTED (template NULL or of another
 * family, or a role it has no turn for), ARGUMENT (no message; order that the
 * template forbids), MEMORY. */
weir_status wr_chat_format(const char *template_text, const char *bos_piece, const wr_chat_message *messages, size_t n,
                           bool add_generation_prompt, char **out, weir_error *err);

#endif
