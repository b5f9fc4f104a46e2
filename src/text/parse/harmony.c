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

static const wr_pair analysis = {"<|channel|>analysis", "<|end|>", .anywhere = true, .exact = true};

enum { HEAD_BYTES = 1024 };

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
    wr_output_text(p, p->held.data, p->held.n);
    p->held.n = 0;
}

/* Before the first marker of a head there may be a role and a recipient, nothing else. */
static bool head_may_begin(const wr_parser *p) {
    static const char role[] = "assistant", to[] = "to=";
    const char *text = p->held.data;
    size_t n = p->held.n - (p->finder.n < p->held.n ? p->finder.n : p->held.n), i = 0;
    if (p->call.key || n == 0) return true;
    while (i < n && wr_json_space((uint8_t)text[i])) i++;
    size_t left = n - i, compared = left < sizeof role - 1 ? left : sizeof role - 1;
    if (memcmp(text + i, role, compared) == 0) {
        i += compared;
        while (i < n && wr_json_space((uint8_t)text[i])) i++;
        left = n - i;
    }
    compared = left < sizeof to - 1 ? left : sizeof to - 1;
    return memcmp(text + i, to, compared) == 0 && !memchr(text + i, '\n', left);
}

static bool is_word(const char *text, size_t n, const char *word) {
    return text && strlen(word) == n && memcmp(text, word, n) == 0;
}

static bool is_one_of(const char *text, size_t n, const char *const *words) {
    while (*words && !is_word(text, n, *words)) words++;
    return *words;
}

static bool begins_with(const char *text, size_t n, const char *what) {
    return n >= strlen(what) && memcmp(text, what, strlen(what)) == 0;
}

/* What a head says. Views; NULL where it does not. */
typedef struct head {
    const char *to, *channel;
    size_t to_bytes, channel_bytes;
} head;

/* False when a word stands in it that no head has: it would be lost. */
static bool read_head(const char *text, size_t n, head *h) {
    static const char *const roles[] = {"assistant", "user", "system", "developer", "tool", NULL};
    static const char *const channels[] = {"analysis", "commentary", "final", NULL};
    static const char *const types[] = {"json", "code", "text", NULL};
    const char *const *may_come = roles;
    *h = (head){0};
    for (size_t i = 0, end; i < n; i = end) {
        end = i + 1;
        if (wr_json_space((uint8_t)text[i])) continue;
        int k = 0;
        while (k < N_MARKERS && !begins_with(text + i, n - i, markers[k])) k++;
        if (k < N_MARKERS) {
            end = i + strlen(markers[k]);
            may_come = k == START ? roles : k == CHANNEL ? channels : types;
            continue;
        }
        while (end < n && !wr_json_space((uint8_t)text[end]) && text[end] != '<') end++;
        if (end - i >= 3 && memcmp(text + i, "to=", 3) == 0 && !h->to) {
            h->to = text + i + 3;
            h->to_bytes = end - i - 3;
        } else if (may_come && is_one_of(text + i, end - i, may_come)) {
            if (may_come == channels) {
                h->channel = text + i;
                h->channel_bytes = end - i;
            }
            may_come = may_come == channels ? types : NULL;
        } else {
            return false;
        }
    }
    return true;
}

/* The head is held, without the <|message|> that ended it. */
static void message_begins(wr_parser *p) {
    static const char prefix[] = "functions.";
    const size_t skip = sizeof prefix - 1;
    head h;
    if (!read_head(p->held.data, p->held.n, &h) || (h.to_bytes && !p->calls_on)) {
        wr_bytes_put(&p->held, markers[MESSAGE]);
        head_fails(p);
        return;
    }
    if (p->reasoning) wr_reasoning_end(p);
    p->fresh = false;
    p->call.state = TEXT;
    p->finder.n = 0;
    static const char *const nobody[] = {"assistant", "user", "all", NULL};
    if (h.to_bytes && !is_one_of(h.to, h.to_bytes, nobody)) {
        bool function = h.to_bytes > skip && memcmp(h.to, prefix, skip) == 0;
        p->name.n = p->id.n = 0;
        wr_bytes_add(&p->name, h.to + (function ? skip : 0), h.to_bytes - (function ? skip : 0));
        p->call = (wr_call){.state = CALL};
        if (wr_call_begin(p)) return;
        wr_bytes_put(&p->held, markers[MESSAGE]); /* a name of too many bytes */
        head_fails(p);
    } else if (is_word(h.channel, h.channel_bytes, "analysis") && p->reasoning_on) {
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

static wr_output_step step_head(wr_parser *p, uint8_t c) {
    int k = wr_marker_find(&p->finder, markers, N_MARKERS, c);
    wr_bytes_byte(&p->held, c);
    if (k < 0) {
        if (p->held.n > HEAD_BYTES || !head_may_begin(p)) {
            size_t n = p->finder.n < p->held.n ? p->finder.n : p->held.n;
            char window[WR_MARKER_BYTES];
            memcpy(window, p->finder.window, n);
            p->held.n -= n;
            head_fails(p);
            wr_output_again(p, window, n);
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

static wr_output_step step_text(wr_parser *p, uint8_t c) {
    int k = wr_marker_find(&p->finder, ends, N_ENDS, c);
    if (p->finder.n_spill) wr_output_text(p, p->finder.spill, p->finder.n_spill);
    if (k >= 0) message_ends(p, k);
    return WR_GONE;
}

static wr_output_step step_call(wr_parser *p, uint8_t c) {
    int k = 0;
    wr_arguments_end end = wr_arguments_step(p, c, ends, N_ENDS, &k);
    if (end == WR_ARGUMENTS_MORE) return WR_GONE;
    wr_call_end(p, true, wr_arguments_close(p));
    message_ends(p, end == WR_ARGUMENTS_MARKER ? k : 0);
    if (p->call.state == AFTER) p->held.n = 0; /* a call has ended for certain */
    return WR_GONE;
}

static wr_output_step step_after(wr_parser *p, uint8_t c) {
    int k = wr_marker_find(&p->finder, ends, N_ENDS, c);
    for (size_t i = 0; i < p->finder.n_spill; i++) {
        wr_bytes_byte(&p->held, (uint8_t)p->finder.spill[i]);
        if (wr_json_space((uint8_t)p->finder.spill[i]) && p->call.state == AFTER) continue;
        p->call.state = TEXT;
    }
    if (p->call.state == TEXT) {
        wr_output_text(p, p->held.data, p->held.n);
        p->held.n = 0;
    }
    if (k >= 0) message_ends(p, k);
    return WR_GONE;
}

static wr_output_step step(wr_parser *p, uint8_t c) {
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
