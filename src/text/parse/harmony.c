/* gpt-oss: a turn is a row of messages, each with a head that names its channel and perhaps a recipient:
 * <|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{...}<|call|>. The first head's
 * beginning stands in the prompt. */
#include <string.h>

#include "text/parse/parse.h"

enum { HEAD, TEXT, CALL, AFTER };

enum { START, CHANNEL, MESSAGE, CONSTRAIN, END, CALLED, RETURNED, N_MARKERS };

static const char *const markers[N_MARKERS] = {"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>",
                                               "<|end|>",   "<|call|>",    "<|return|>"};
/* What may end a message: its own end, or the next one's head. */
static const char *const ends[] = {"<|end|>", "<|call|>", "<|return|>", "<|start|>", "<|channel|>"};
enum { N_ENDS = 5, FIRST_HEAD_END = 3 };

static const wr_pair analysis = {"<|channel|>analysis", "<|end|>", true};

enum { HEAD_BYTES = 1024 };

static bool is_space(uint8_t c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

static void head_begins(wr_parser *p, const char *marker) {
    p->held.n = 0;
    wr_bytes_put(&p->held, marker);
    p->call.state = HEAD;
    p->call.key = 1; /* a marker was seen */
    p->finder.n = 0;
}

/* What is held is no head: text, of the message before it. */
static void head_fails(wr_parser *p) {
    p->call.state = TEXT;
    p->finder.n = 0;
    wr_put_text(p, p->held.data, p->held.n);
    p->held.n = 0;
}

/* Before the first marker of a head there may be a role and a recipient, nothing else. */
static bool head_may_begin(const wr_parser *p) {
    static const char role[] = "assistant", to[] = "to=";
    const char *text = p->held.data;
    size_t n = p->held.n - (p->finder.n < p->held.n ? p->finder.n : p->held.n), i = 0;
    if (p->call.key || n == 0) return true;
    while (i < n && is_space((uint8_t)text[i])) i++;
    size_t left = n - i, compared = left < sizeof role - 1 ? left : sizeof role - 1;
    if (memcmp(text + i, role, compared) == 0) {
        i += compared;
        while (i < n && is_space((uint8_t)text[i])) i++;
        left = n - i;
    }
    compared = left < sizeof to - 1 ? left : sizeof to - 1;
    return memcmp(text + i, to, compared) == 0 && !memchr(text + i, '\n', left);
}

/* The value behind the last `what` in the head; NULL if there is none. */
static const char *find_last(const char *head, size_t n, const char *what, size_t *bytes) {
    size_t skip = strlen(what), end;
    for (size_t i = n >= skip ? n - skip + 1 : 0; i-- > 0;) {
        if (memcmp(head + i, what, skip) != 0) continue;
        i += skip;
        for (end = i; end < n && !is_space((uint8_t)head[end]) && head[end] != '<'; end++) continue;
        *bytes = end - i;
        return head + i;
    }
    return NULL;
}

static bool is_word(const char *text, size_t n, const char *word) {
    return text && strlen(word) == n && memcmp(text, word, n) == 0;
}

/* The head is held, without the <|message|> that ended it. */
static void message_begins(wr_parser *p) {
    static const char prefix[] = "functions.";
    const char *head = p->held.data;
    size_t n_to = 0, n_channel = 0, skip = sizeof prefix - 1;
    const char *to = find_last(head, p->held.n, "to=", &n_to);
    const char *channel = find_last(head, p->held.n, "<|channel|>", &n_channel);
    if (is_word(to, n_to, "assistant") || is_word(to, n_to, "user") || is_word(to, n_to, "all")) to = NULL;
    if (p->reasoning) wr_reasoning_end(p);
    p->fresh = false;
    p->call.state = TEXT;
    p->finder.n = 0;
    if (to && n_to && p->calls_on) {
        if (n_to > skip && memcmp(to, prefix, skip) == 0) {
            to += skip;
            n_to -= skip;
        }
        p->call = (wr_call){.state = CALL};
        p->name.n = p->id.n = 0;
        wr_bytes_add(&p->name, to, n_to);
        if (wr_call_begin(p)) return;
        p->call.state = TEXT;
    }
    if (to && n_to) {
        wr_bytes_put(&p->held, markers[MESSAGE]);
        head_fails(p);
    } else if (is_word(channel, n_channel, "analysis") && p->reasoning_on) {
        wr_reasoning_begin(p, &analysis);
        p->fresh = false;
    }
    p->held.n = 0;
}

/* The marker ends[k] ends a message. It is held: only if no head follows was it text. */
static void message_ends(wr_parser *p, int k) {
    p->finder.n = p->held.n = 0;
    p->call = (wr_call){.state = AFTER};
    if (k >= FIRST_HEAD_END) {
        head_begins(p, ends[k]);
    } else {
        wr_bytes_put(&p->held, ends[k]);
    }
}

static wr_step step_head(wr_parser *p, uint8_t c) {
    int k = wr_find(&p->finder, markers, N_MARKERS, c);
    wr_bytes_byte(&p->held, c);
    if (k < 0) {
        if (p->held.n > HEAD_BYTES || !head_may_begin(p)) {
            size_t n = p->finder.n < p->held.n ? p->finder.n : p->held.n;
            char window[WR_MARKER_BYTES];
            memcpy(window, p->finder.window, n);
            p->held.n -= n;
            head_fails(p);
            wr_again(p, window, n);
        }
        return WR_GONE;
    }
    size_t marker_bytes = strlen(markers[k]);
    switch (k) {
    case CHANNEL:
    case CONSTRAIN: p->call.key = 1; break;
    case MESSAGE:
        p->held.n -= marker_bytes < p->held.n ? marker_bytes : p->held.n;
        message_begins(p);
        break;
    case START:
        p->held.n -= marker_bytes < p->held.n ? marker_bytes : p->held.n;
        if (p->held.n) head_fails(p);
        head_begins(p, markers[START]);
        break;
    default: /* an end without a message */
        p->held.n -= marker_bytes < p->held.n ? marker_bytes : p->held.n;
        head_fails(p);
        message_ends(p, k - END);
        break;
    }
    return WR_GONE;
}

static wr_step step_text(wr_parser *p, uint8_t c) {
    int k = wr_find(&p->finder, ends, N_ENDS, c);
    if (p->finder.n_spill) wr_put_text(p, p->finder.spill, p->finder.n_spill);
    if (k >= 0) message_ends(p, k);
    return WR_GONE;
}

static wr_step step_call(wr_parser *p, uint8_t c) {
    int k = 0;
    wr_args_end end = wr_args_step(p, c, ends, N_ENDS, &k);
    if (end == WR_ARGS_MORE) return WR_GONE;
    wr_call_end(p, true, wr_args_close(p));
    message_ends(p, end == WR_ARGS_MARKER ? k : 0);
    if (p->call.state == AFTER) p->held.n = 0; /* a call has ended for certain */
    return WR_GONE;
}

static wr_step step_after(wr_parser *p, uint8_t c) {
    int k = wr_find(&p->finder, ends, N_ENDS, c);
    for (size_t i = 0; i < p->finder.n_spill; i++) {
        wr_bytes_byte(&p->held, (uint8_t)p->finder.spill[i]);
        if (is_space((uint8_t)p->finder.spill[i]) && p->call.state == AFTER) continue;
        p->call.state = TEXT;
    }
    if (p->call.state == TEXT) {
        wr_put_text(p, p->held.data, p->held.n);
        p->held.n = 0;
    }
    if (k >= 0) message_ends(p, k);
    return WR_GONE;
}

static wr_step step(wr_parser *p, uint8_t c) {
    switch (p->call.state) {
    case HEAD: return step_head(p, c);
    case TEXT: return step_text(p, c);
    case CALL: return step_call(p, c);
    default: return step_after(p, c);
    }
}

static void finish(wr_parser *p) {
    switch (p->call.state) {
    case HEAD: p->finder.n = 0; break; /* its window is held */
    case TEXT: break;
    case CALL:
        p->call.valid = false;
        wr_call_arguments(p, p->finder.window, p->finder.n);
        p->finder.n = 0;
        break;
    default: p->held.n = 0; break;
    }
}

const wr_syntax wr_syntax_harmony = {.step = step, .finish = finish};
