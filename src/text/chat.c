/* Three families of turn formats, written out by hand. Each is proved in the tests
 * against jinja2 running the published template. A template that does more than its
 * family's format (dates, tools) is only followed for plain messages. */
#include "text/chat.h"

#include <string.h>

#include "base/mem.h"
#include "text/unicode.h"
#include "text/work.h"

typedef struct writer {
    char *text;
    size_t n, cap;
    bool failed;
} writer;

static void add(writer *w, const char *text, size_t n) {
    if (w->failed || !wr_grow(&w->text, &w->cap, w->n + n + 1, 1)) {
        w->failed = true;
        return;
    }
    memcpy(w->text + w->n, text, n);
    w->n += n;
}
static void put(writer *w, const char *text) { add(w, text, strlen(text)); }

/* What Python's str.strip takes away: White_Space and four separators. */
static bool is_stripped(uint32_t cp) { return wr_char_is_space(cp) || (cp >= 0x1C && cp <= 0x1F); }

static void put_trimmed(writer *w, const char *text) {
    const uint8_t *p = (const uint8_t *)text;
    size_t begin = 0, end = strlen(text);
    uint32_t cp;
    while (begin < end) {
        int k = wr_utf8_step(p + begin, end - begin, &cp);
        if (k <= 0 || !is_stripped(cp)) break;
        begin += (size_t)k;
    }
    while (end > begin) {
        size_t back = wr_utf8_back(p, end);
        if (back < begin || wr_utf8_step(p + back, end - back, &cp) <= 0 || !is_stripped(cp)) break;
        end = back;
    }
    add(w, text + begin, end - begin);
}

static bool role_is(const wr_chat_message *m, const char *role) { return strcmp(m->role, role) == 0; }

static bool known_role(const wr_chat_message *m) {
    return role_is(m, "system") || role_is(m, "user") || role_is(m, "assistant");
}

/* ---- ChatML --------------------------------------------------------------- */

/* The system turn that the template writes when the messages have none: a literal
 * "<|im_start|>system\n...<|im_end|>" within one string or outside of code. Writes
 * its text; nothing if there is none. */
static void put_default_system(writer *w, const char *template_text) {
    static const char head[] = "<|im_start|>system", tail[] = "<|im_end|>";
    for (const char *p = template_text; (p = strstr(p, head)); p++) {
        char quote = p > template_text && (p[-1] == '\'' || p[-1] == '"') ? p[-1] : 0;
        const char *q = p + sizeof head - 1;
        writer found = {0};
        bool whole = false;
        if (*q == '\n') {
            q++;
        } else if (q[0] == '\\' && q[1] == 'n' && quote) {
            q += 2;
        } else {
            continue;
        }
        while (*q) {
            if (strncmp(q, tail, sizeof tail - 1) == 0) {
                whole = true;
                break;
            }
            if (quote ? *q == quote : *q == '{') break;
            if (quote && *q == '\\' && q[1]) {
                char c = q[1] == 'n' ? '\n' : q[1] == 't' ? '\t' : q[1] == 'r' ? '\r' : q[1];
                add(&found, &c, 1);
                q += 2;
            } else {
                add(&found, q++, 1);
            }
        }
        if (whole) {
            put(w, head);
            put(w, "\n");
            add(w, found.n ? found.text : "", found.n);
            put(w, tail);
            put(w, "\n");
        }
        if (found.failed) w->failed = true;
        wr_free(found.text);
        if (whole) return;
    }
}

/* Templates of thinking models leave earlier thoughts out of the history. */
static const char *without_thoughts(const char *content) {
    const char *p, *rest = content;
    for (p = content; (p = strstr(p, "</think>")); rest = p += strlen("</think>")) {}
    while (rest != content && *rest == '\n') rest++;
    return rest;
}

static weir_status format_chatml(writer *w, const char *template_text, const wr_chat_message *m, size_t n,
                                 bool generate, weir_error *err) {
    bool thinks = strstr(template_text, "</think>") != NULL;
    if (thinks && role_is(&m[n - 1], "assistant")) {
        return WR_FAIL(err, WEIR_E_UNSUPPORTED,
                       "a chat that ends with the assistant's turn is not supported for the "
                       "template of a thinking model; use --raw");
    }
    if (!role_is(&m[0], "system")) put_default_system(w, template_text);
    for (size_t i = 0; i < n; i++) {
        put(w, "<|im_start|>");
        put(w, m[i].role);
        put(w, "\n");
        put(w, thinks && role_is(&m[i], "assistant") ? without_thoughts(m[i].content) : m[i].content);
        put(w, "<|im_end|>\n");
    }
    if (generate) put(w, "<|im_start|>assistant\n");
    return WEIR_OK;
}

/* ---- Gemma ---------------------------------------------------------------- */

static weir_status format_gemma(writer *w, const char *template_text, const char *bos, const wr_chat_message *m,
                                size_t n, bool generate, weir_error *err) {
    const char *system = NULL;
    size_t first = 0;
    if (role_is(&m[0], "system")) {
        if (strstr(template_text, "System role not supported")) {
            return WR_FAIL(err, WEIR_E_ARGUMENT, "the chat template says: System role not supported");
        }
        system = m[0].content;
        first = 1;
    }
    put(w, bos);
    for (size_t i = first; i < n; i++) {
        bool user = role_is(&m[i], "user");
        if (user != ((i - first) % 2 == 0)) {
            return WR_FAIL(err, WEIR_E_ARGUMENT,
                           "the chat template wants user and assistant in turn, message %zu is "
                           "of %s",
                           i, m[i].role);
        }
        put(w, "<start_of_turn>");
        put(w, user ? "user" : "model");
        put(w, "\n");
        if (i == first && system) {
            put(w, system);
            put(w, "\n\n");
        }
        put_trimmed(w, m[i].content);
        put(w, "<end_of_turn>\n");
    }
    if (generate) put(w, "<start_of_turn>model\n");
    return WEIR_OK;
}

/* ---- Llama 3 -------------------------------------------------------------- */

static void format_llama3(writer *w, const char *bos, const wr_chat_message *m, size_t n, bool generate) {
    put(w, bos);
    for (size_t i = 0; i < n; i++) {
        put(w, "<|start_header_id|>");
        put(w, m[i].role);
        put(w, "<|end_header_id|>\n\n");
        put_trimmed(w, m[i].content);
        put(w, "<|eot_id|>");
    }
    if (generate) put(w, "<|start_header_id|>assistant<|end_header_id|>\n\n");
}

weir_status wr_chat_format(const char *template_text, const char *bos_piece, const wr_chat_message *messages, size_t n,
                           bool add_generation_prompt, char **out, weir_error *err) {
    writer w = {0};
    weir_status st = WEIR_OK;
    *out = NULL;
    if (!bos_piece) bos_piece = "";
    if (!template_text) {
        return WR_FAIL(err, WEIR_E_UNSUPPORTED, "the model has no chat template; use --raw to give it plain text");
    }
    if (n == 0) return WR_FAIL(err, WEIR_E_ARGUMENT, "a chat needs at least one message");
    for (size_t i = 0; i < n; i++) {
        if (!known_role(&messages[i])) {
            return WR_FAIL(err, WEIR_E_UNSUPPORTED,
                           "message %zu has the role \"%.40s\"; supported are system, user and assistant", i,
                           messages[i].role);
        }
    }
    if (strstr(template_text, "<|im_start|>") && strstr(template_text, "<|im_end|>")) {
        st = format_chatml(&w, template_text, messages, n, add_generation_prompt, err);
    } else if (strstr(template_text, "<start_of_turn>")) {
        st = format_gemma(&w, template_text, bos_piece, messages, n, add_generation_prompt, err);
    } else if (strstr(template_text, "<|start_header_id|>") && !strstr(template_text, "date_string")) {
        format_llama3(&w, bos_piece, messages, n, add_generation_prompt);
    } else {
        st = WR_FAIL(err, WEIR_E_UNSUPPORTED,
                     "the model's chat template is of a family that is not supported yet "
                     "(supported: ChatML, Gemma, Llama 3.0); use --raw to give plain text");
    }
    add(&w, "", 0);
    if (st == WEIR_OK && w.failed) st = WR_FAIL(err, WEIR_E_MEMORY, "no memory to format a chat of %zu messages", n);
    if (st != WEIR_OK) {
        wr_free(w.text);
        return st;
    }
    w.text[w.n] = 0;
    *out = w.text;
    return WEIR_OK;
}
