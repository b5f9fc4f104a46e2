/* Owns the compiled templates, and prepares what they are given. */
#include "text/chat.h"

#include <string.h>

#include "base/mem.h"
#include "file/json.h"
#include "text/chat_source.h"
#include "text/unicode.h"
#include "text/work.h"

typedef struct named_template {
    char *name;
    wr_jinja *jinja; /* NULL: why not stands in err */
    weir_error err;
} named_template;

struct wr_chat {
    named_template *templates;
    size_t n, cap;
    json_t *special_tokens; /* an object */
};

#define NO_MEMORY WR_FAIL(err, WEIR_E_MEMORY, "no memory for a chat")

static named_template *find(const wr_chat *chat, const char *name) {
    for (size_t i = 0; i < chat->n; i++)
        if (strcmp(chat->templates[i].name, name) == 0) return &chat->templates[i];
    return NULL;
}

/* ---- opening ---- */

static weir_status new_chat(const json_t *special_tokens, wr_chat **out, weir_error *err) {
    wr_json_setup();
    wr_chat *chat = wr_calloc(1, sizeof *chat);
    if (!chat) return NO_MEMORY;
    chat->special_tokens = special_tokens ? json_copy((json_t *)special_tokens) : json_object();
    if (!chat->special_tokens) {
        wr_free(chat);
        return NO_MEMORY;
    }
    *out = chat;
    return WEIR_OK;
}

/* Memory that runs out is an error at once; a bad template only when it is asked for. */
static weir_status add_template(void *context, const char *name, const char *text, size_t bytes, weir_error *err) {
    wr_chat *chat = context;
    if (find(chat, name)) return WEIR_OK; /* the first of a name is the one its writer means */
    if (!wr_grow(&chat->templates, &chat->cap, chat->n + 1, sizeof *chat->templates)) return NO_MEMORY;
    named_template *t = &chat->templates[chat->n];
    *t = (named_template){.name = wr_strdup(name)};
    if (!t->name) return NO_MEMORY;
    chat->n++;
    if (wr_jinja_new(text, bytes, &t->jinja, &t->err) != WEIR_E_MEMORY) return WEIR_OK;
    return NO_MEMORY;
}

weir_status wr_chat_open(const wr_checkpoint *checkpoint, wr_chat **out, weir_error *err) {
    json_t *special = NULL;
    wr_chat *chat = NULL;
    weir_status st;
    *out = NULL;
    WR_TRY(wr_chat_source_tokens(checkpoint, &special, err));
    WR_TRY_GOTO(st, new_chat(special, &chat, err), done);
    WR_TRY_GOTO(st, wr_chat_source_templates(checkpoint, add_template, chat, err), done);
    if (!chat->n)
        st = WR_FAIL(err, WEIR_E_UNSUPPORTED, "the model has no chat template; use --raw to give it plain text");
done:
    json_decref(special);
    if (st != WEIR_OK) {
        wr_chat_free(chat);
        return st;
    }
    *out = chat;
    return WEIR_OK;
}

weir_status wr_chat_new(const char *template_text, size_t bytes, const json_t *special_tokens, wr_chat **out,
                        weir_error *err) {
    wr_chat *chat = NULL;
    *out = NULL;
    WR_TRY(new_chat(special_tokens, &chat, err));
    weir_status st = add_template(chat, "default", template_text, bytes, err);
    if (st == WEIR_OK && !chat->templates[0].jinja) {
        if (err) *err = chat->templates[0].err;
        st = chat->templates[0].err.status;
    }
    if (st != WEIR_OK) {
        wr_chat_free(chat);
        return st;
    }
    *out = chat;
    return WEIR_OK;
}

void wr_chat_free(wr_chat *chat) {
    if (!chat) return;
    for (size_t i = 0; i < chat->n; i++) {
        wr_jinja_free(chat->templates[i].jinja);
        wr_free(chat->templates[i].name);
    }
    wr_free(chat->templates);
    json_decref(chat->special_tokens);
    wr_free(chat);
}

const char *wr_chat_name(const wr_chat *chat, size_t index) {
    return index < chat->n ? chat->templates[index].name : NULL;
}

/* ---- what a template is given ---- */

/* A message without its null keys, and with its reasoning under both names. */
static json_t *prepare_message(const json_t *message) {
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    json_t *copy = json_object(), *reasoning = NULL;
    bool done = copy != NULL;
    for (int i = 2; i >= 0; i--) {
        json_t *value = json_object_get(message, names[i]);
        if (value && !json_is_null(value)) reasoning = value;
    }
    /* In front, as transformers puts it; a template that prints the message shows the order. */
    if (done && reasoning) done = json_object_set(copy, "thinking", reasoning) == 0;
    for (void *it = json_object_iter((json_t *)message); done && it;
         it = json_object_iter_next((json_t *)message, it)) {
        json_t *value = json_object_iter_value(it);
        if (!json_is_null(value))
            done = json_object_setn(copy, json_object_iter_key(it), json_object_iter_key_len(it), value) == 0;
    }
    if (done && reasoning) done = json_object_set(copy, "reasoning_content", reasoning) == 0;
    if (done) return copy;
    json_decref(copy);
    return NULL;
}

static weir_status prepare_messages(const json_t *messages, json_t **out, weir_error *err) {
    if (!json_is_array(messages)) return WR_FAIL(err, WEIR_E_ARGUMENT, "messages must be a list");
    json_t *list = json_array();
    for (size_t i = 0; list && i < json_array_size(messages); i++) {
        const json_t *message = json_array_get(messages, i);
        if (!json_is_object(message)) {
            json_decref(list);
            return WR_FAIL(err, WEIR_E_ARGUMENT, "message %zu is no object", i);
        }
        json_t *prepared = prepare_message(message);
        if (!prepared || json_array_append_new(list, prepared) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    if (!list) return NO_MEMORY;
    *out = list;
    return WEIR_OK;
}

static weir_status check_list(const json_t *value, const char *what, weir_error *err) {
    if (!value || json_is_null(value)) return WEIR_OK;
    if (!json_is_array(value)) return WR_FAIL(err, WEIR_E_ARGUMENT, "%s must be a list", what);
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!json_is_object(json_array_get(value, i)))
            return WR_FAIL(err, WEIR_E_ARGUMENT, "%s: entry %zu is no object", what, i);
    return WEIR_OK;
}

static weir_status variables_of(const wr_chat *chat, const wr_chat_request *r, json_t **out, weir_error *err) {
    json_t *messages = NULL, *variables = NULL;
    WR_TRY(check_list(r->tools, "tools", err));
    WR_TRY(check_list(r->documents, "documents", err));
    if (r->extra && !json_is_object(r->extra))
        return WR_FAIL(err, WEIR_E_ARGUMENT, "the template's arguments must be an object");
    WR_TRY(prepare_messages(r->messages, &messages, err));
    variables = json_copy(chat->special_tokens);
    bool done = variables && json_object_set_new(variables, "messages", messages) == 0;
    if (!variables) json_decref(messages);
    done = done &&
           json_object_set_new(variables, "tools", r->tools ? json_incref((json_t *)r->tools) : json_null()) == 0 &&
           json_object_set_new(variables, "documents",
                               r->documents ? json_incref((json_t *)r->documents) : json_null()) == 0 &&
           json_object_set_new(variables, "add_generation_prompt", json_boolean(r->add_generation_prompt)) == 0 &&
           (!r->extra || json_object_update(variables, (json_t *)r->extra) == 0);
    if (!done) {
        json_decref(variables);
        return NO_MEMORY;
    }
    *out = variables;
    return WEIR_OK;
}

static weir_status choose(const wr_chat *chat, const wr_chat_request *r, const named_template **out, weir_error *err) {
    const char *name = r->name;
    char names[256] = "";
    size_t at = 0;
    if (!name) name = json_array_size(r->tools) && find(chat, "tool_use") ? "tool_use" : "default";
    *out = find(chat, name);
    if (!*out && !r->name && chat->n == 1) *out = &chat->templates[0];
    if (!*out) {
        for (size_t i = 0; i < chat->n && at < sizeof names - 1; i++) {
            int n = snprintf(names + at, sizeof names - at, "%s%s", i ? ", " : "", chat->templates[i].name);
            at += n > 0 ? (size_t)n : 0;
        }
        return WR_FAIL(err, WEIR_E_NOT_FOUND, "there is no chat template named \"%.80s\"; the model has: %s", name,
                       names);
    }
    if ((*out)->jinja) return WEIR_OK;
    if (err) *err = (*out)->err;
    return (*out)->err.status;
}

weir_status wr_chat_render(const wr_chat *chat, const wr_chat_request *request, const wr_jinja_limits *limits,
                           char **text, size_t *bytes, weir_error *err) {
    const named_template *t;
    json_t *variables = NULL;
    *text = NULL;
    *bytes = 0;
    WR_TRY(choose(chat, request, &t, err));
    WR_TRY(variables_of(chat, request, &variables, err));
    weir_status st = wr_jinja_render(t->jinja, variables, limits, text, bytes, err);
    json_decref(variables);
    return st;
}

json_t *wr_chat_text(const char *text, size_t bytes) {
    json_t *string = json_stringn(text, bytes);
    if (string) return string;
    uint8_t *clean = wr_malloc(bytes * 3 + 1);
    size_t n = 0;
    uint32_t cp;
    if (!clean) return NULL;
    for (size_t at = 0; at < bytes;) {
        int k = wr_utf8_step((const uint8_t *)text + at, bytes - at, &cp);
        if (k > 0) {
            memcpy(clean + n, text + at, (size_t)k);
            n += (size_t)k;
            at += (size_t)k;
        } else {
            n += (size_t)wr_utf8_put(0xFFFD, clean + n);
            at += k < 0 ? (size_t)-k : bytes - at;
        }
    }
    string = json_stringn((const char *)clean, n);
    wr_free(clean);
    return string;
}
