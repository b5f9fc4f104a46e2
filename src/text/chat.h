/* Chats: a checkpoint's templates, and conversations rendered by them.
 *
 * What reaches a template is what `transformers` gives it: messages, tools, documents,
 * add_generation_prompt, the special tokens by name (bos_token, eos_token, ...), and any
 * further arguments. Keys of messages that are null are left out, and reasoning is found
 * under the names that templates know (reasoning_content, thinking). */
#ifndef WR_TEXT_CHAT_H
#define WR_TEXT_CHAT_H

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "base/status.h"
#include "file/checkpoint.h"
#include "text/jinja/jinja.h"

typedef struct wr_chat wr_chat;

/* The templates of a checkpoint: chat_template.jinja and additional_chat_templates/NAME.jinja, or else chat_template of
 * tokenizer_config.json or chat_template.json (a text, or a list of {name, template}); or GGUF metadata
 * (tokenizer.chat_template, tokenizer.chat_template.NAME). A template that cannot be used is reported when it is asked
 * for. Errors: UNSUPPORTED (there is none), FORMAT, LIMIT, IO, MEMORY. */
weir_status wr_chat_open(const wr_checkpoint *checkpoint, wr_chat **out, weir_error *err);
/* One template, named "default". special_tokens: an object of texts, or NULL; copied. */
weir_status wr_chat_new(const char *template_text, size_t bytes, const json_t *special_tokens, wr_chat **out,
                        weir_error *err);
void wr_chat_free(wr_chat *chat);

/* The names of the templates; NULL at index >= their number. View. */
const char *wr_chat_name(const wr_chat *chat, size_t index);

/* What to render; all borrowed. */
typedef struct wr_chat_request {
    const json_t *messages;  /* a list of objects */
    const json_t *tools;     /* a list, or NULL */
    const json_t *documents; /* a list, or NULL */
    const json_t *extra;     /* an object of further variables, which win over special tokens; or NULL */
    const char *name; /* of the template; NULL: "tool_use" when there are tools and there is one, else "default" */
    bool add_generation_prompt;
} wr_chat_request;

/* *text is terminated, *bytes long, and freed with wr_free. It carries BOS where the template writes it: encoding it
 * with WEIR_ENCODE_ADD_SPECIAL and WEIR_ENCODE_PARSE_SPECIAL gives exactly one. limits may be NULL. Errors: those of
 * wr_jinja_render; NOT_FOUND (no template of this name); ARGUMENT (messages, tools or documents of another shape).
 * Any thread; one chat may be rendered by several at once. */
weir_status wr_chat_render(const wr_chat *chat, const wr_chat_request *request, const wr_jinja_limits *limits,
                           char **text, size_t *bytes, weir_error *err);

/* A text of any bytes as a JSON text: each part that is no UTF-8 becomes U+FFFD. NULL: out of memory. */
json_t *wr_chat_text(const char *text, size_t bytes);

#endif
