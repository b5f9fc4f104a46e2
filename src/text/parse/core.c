/* Text between calls: markers are found, reasoning is told from content, white space that belongs to markers is taken
 * away. And what the syntaxes share: to begin, end and give up a call. */
#include <string.h>

#include "text/parse/parse.h"
#include "text/parse/schema.h"

/* ---- Markers -------------------------------------------------------------- */

/* The window begins a marker: its index if it is whole, -1 if it is a part, -2 if it begins none. */
static int match(const wr_finder *f, const char *const *markers, size_t n) {
    int part = -2;
    for (size_t i = 0; i < n; i++) {
        if (!markers[i] || markers[i][0] != f->window[0] || strncmp(markers[i], f->window, f->n) != 0) continue;
        if (markers[i][f->n] == 0) return (int)i;
        part = -1;
    }
    return part;
}

int wr_marker_find(wr_finder *f, const char *const *markers, size_t n, uint8_t c) {
    f->n_spill = 0;
    f->window[f->n++] = (char)c;
    while (f->n) {
        int found = c ? match(f, markers, n) : -2; /* no marker has a 0 byte */
        if (found >= 0) f->n = 0;
        if (found >= -1) return found;
        f->spill[f->n_spill++] = f->window[0];
        memmove(f->window, f->window + 1, --f->n);
    }
    return -1;
}

void wr_output_format_ends(const wr_output_format *f, const char **ends) {
    for (int i = 0; i < WR_CLOSERS; i++) ends[i] = f->closers[i];
    for (int i = 0; i < WR_OPENERS; i++) ends[WR_CLOSERS + i] = f->openers[i].bare ? NULL : f->openers[i].marker;
}

/* ---- Text ----------------------------------------------------------------- */

void wr_reasoning_begin(wr_parser *p, const wr_pair *pair) {
    p->reasoning = pair;
    p->newlines = 0;
    p->fresh = !pair->exact;
}

void wr_reasoning_end(wr_parser *p) {
    p->fresh = !p->reasoning || !p->reasoning->exact;
    p->reasoning = NULL;
    p->newlines = 0;
    p->may_think = true;
}

static weir_output_kind text_kind(const wr_parser *p) {
    return p->reasoning ? WEIR_OUTPUT_REASONING : WEIR_OUTPUT_CONTENT;
}

static void flush_newlines(wr_parser *p) {
    for (; p->newlines; p->newlines--) wr_output_delta(p, text_kind(p), "\n", 1);
}

void wr_output_text(wr_parser *p, const char *text, size_t n) {
    for (size_t i = 0; i < n;) {
        bool holds = p->reasoning ? !p->reasoning->exact : p->format->trim || p->blank;
        if (text[i] == '\n' && (p->fresh || holds)) {
            if (!p->fresh) p->newlines++;
            i++;
            continue;
        }
        const char *stop = holds ? memchr(text + i, '\n', n - i) : NULL;
        size_t run = (stop ? (size_t)(stop - text) : n) - i;
        flush_newlines(p);
        wr_output_delta(p, text_kind(p), text + i, run);
        p->fresh = false;
        if (!p->reasoning) {
            for (size_t k = i; k < i + run && p->may_think; k++) p->may_think = wr_json_space((uint8_t)text[k]);
            if (!p->may_think) p->blank = false;
        }
        i += run;
    }
}

void wr_output_set_markers(wr_parser *p, const wr_pair *const *pairs, size_t n_pairs) {
    size_t n = 0;
    for (size_t i = 0; p->calls_on && i < WR_OPENERS; i++) {
        const wr_opener *opener = &p->format->openers[i];
        if (!opener->marker) continue;
        p->markers[n] = opener->marker;
        p->marker_opener[n++] = opener;
    }
    for (size_t i = 0; p->reasoning_on && i < n_pairs; i++) {
        for (int k = 0; k < 2; k++) {
            p->markers[n] = k ? pairs[i]->close : pairs[i]->open;
            p->marker_closes[n] = k;
            p->marker_pair[n++] = pairs[i];
        }
    }
    for (size_t i = 0; i < sizeof p->format->noise / sizeof *p->format->noise; i++) {
        if (p->format->noise[i]) p->markers[n++] = p->format->noise[i];
    }
    wr_assert(n <= WR_MARKERS);
    p->n_markers = n;
}

/* Try a call. marker: what announced it, already read; NULL when its first byte comes next. */
static void try_call(wr_parser *p, const wr_opener *opener, const char *marker) {
    p->call = (wr_call){0};
    p->name.n = p->id.n = p->value.n = 0;
    p->finder.n = 0;
    p->opener = opener;
    p->where = WR_IN_CALL;
    if (marker) {
        p->held.n = 0;
        wr_bytes_put(&p->held, marker);
        p->list = opener->section;
    }
}

static wr_output_step step_text(wr_parser *p, uint8_t c) {
    int k = wr_marker_find(&p->finder, p->markers, p->n_markers, c);
    if (p->finder.n_spill) wr_output_text(p, p->finder.spill, p->finder.n_spill);
    if (k < 0) return WR_GONE;
    const wr_opener *opener = p->marker_opener[k];
    const wr_pair *pair = p->marker_pair[k];
    if (opener && opener->bare && !p->reasoning && p->blank) {
        p->held.n = 0;
        p->list = false;
        try_call(p, opener, NULL);
        return WR_AGAIN;
    }
    if (opener && !opener->bare && (!p->reasoning || p->format->ends_reasoning)) {
        try_call(p, opener, opener->marker);
    } else if (pair && p->marker_closes[k] && (p->reasoning == pair || (!p->reasoning && p->blank))) {
        wr_reasoning_end(p); /* of what was never opened, when nothing stands before it */
    } else if (pair && !p->marker_closes[k] && !p->reasoning && (p->may_think || pair->anywhere)) {
        wr_reasoning_begin(p, pair);
    } else if (opener || (pair && !(p->reasoning == pair && p->fresh))) {
        wr_output_text(p, p->markers[k], strlen(p->markers[k]));
    } else if (!pair && p->reasoning) { /* the answer is announced */
        wr_reasoning_end(p);
    } /* else it only structures, or opens again what the prompt has opened */
    return WR_GONE;
}

/* ---- Calls ---------------------------------------------------------------- */

void wr_output_again(wr_parser *p, const char *text, size_t n) {
    char copy[2 * WR_MARKER_BYTES]; /* text may lie in what the steps change */
    wr_assert(n <= sizeof copy);
    memcpy(copy, text, n);
    for (size_t i = 0; i < n; i++) wr_output_byte(p, (uint8_t)copy[i]);
}

wr_output_step wr_call_fail(wr_parser *p, size_t n) {
    char last[2 * WR_MARKER_BYTES];
    wr_assert(n <= sizeof last);
    if (n > p->held.n) n = p->held.n; /* out of memory */
    if (n) memcpy(last, p->held.data + p->held.n - n, n);
    wr_output_text(p, p->held.data, p->held.n - n);
    p->held.n = 0;
    p->finder.n = 0;
    p->where = WR_IN_TEXT;
    wr_output_again(p, last, n);
    return WR_AGAIN;
}

wr_output_step wr_call_expect(wr_parser *p, const char *const *markers, size_t n, uint8_t c, int *k) {
    *k = wr_marker_find(&p->finder, markers, n, c);
    for (size_t i = 0; i < p->finder.n_spill; i++) {
        if (wr_json_space((uint8_t)p->finder.spill[i])) continue;
        /* All but c is held already. */
        size_t read_again = p->finder.n_spill - i + (*k >= 0 ? strlen(markers[*k]) : p->finder.n) - 1;
        *k = -1;
        return wr_call_fail(p, read_again);
    }
    return WR_HELD;
}

wr_output_step wr_call_section(wr_parser *p, uint8_t c, int name) {
    const char *markers[1 + WR_CLOSERS] = {p->opener->call->open};
    int k;
    for (int i = 0; i < WR_CLOSERS; i++) markers[1 + i] = p->format->closers[i];
    wr_output_step done = wr_call_expect(p, markers, 1 + WR_CLOSERS, c, &k);
    if (k == 0) p->call.state = name;
    if (k < 1) return done;
    p->held.n = 0;
    p->where = WR_IN_TEXT;
    return WR_GONE;
}

bool wr_call_begin(wr_parser *p) {
    if (p->name.n == 0 || p->name.n > WR_NAME_BYTES) return false;
    p->tool = wr_tools_find(p->tools, p->name.data, p->name.n);
    if (!p->tool && p->tools && p->opener && p->opener->known) return false;
    if (p->reasoning) wr_reasoning_end(p);
    p->fresh = false;
    p->newlines = 0;
    p->held.n = 0;
    p->call.begun = p->call_open = true;
    wr_output_emit(p, (weir_output_event){.kind = WEIR_OUTPUT_CALL,
                                          .call = p->n_calls,
                                          .name = p->name.data,
                                          .name_bytes = p->name.n,
                                          .id = p->id.data,
                                          .id_bytes = p->id.n});
    p->id.n = 0;
    return true;
}

void wr_call_arguments(wr_parser *p, const char *text, size_t n) { wr_output_delta(p, WEIR_OUTPUT_ARGUMENTS, text, n); }

void wr_call_end(wr_parser *p, bool complete, bool valid) {
    wr_output_emit(p, (weir_output_event){.kind = WEIR_OUTPUT_CALL_END,
                                          .call = p->n_calls,
                                          .complete = complete,
                                          .valid = valid,
                                          .id = p->id.data,
                                          .id_bytes = p->id.n});
    p->n_calls++;
    p->call_open = false;
}

void wr_call_between(wr_parser *p) {
    p->where = WR_BETWEEN;
    p->may_think = true;
    p->held.n = 0;
    p->finder.n = 0;
}

/* ---- Between calls -------------------------------------------------------- */

static bool separates(const wr_parser *p, uint8_t c) {
    if (c == ']' && !p->list) return false;
    return wr_json_space(c) || (c && p->format->separators && strchr(p->format->separators, c));
}

static wr_output_step step_between(wr_parser *p, uint8_t c) {
    enum { CLOSE = WR_ENDS, NEXT, ALL };
    const wr_output_format *f = p->format;
    const wr_syntax *syntax = p->opener->syntax;
    const char *markers[ALL];
    wr_output_format_ends(f, markers);
    markers[CLOSE] = p->opener->call ? p->opener->call->close : NULL;
    markers[NEXT] = p->opener->call && p->opener->section ? p->opener->call->open : NULL;
    int k = wr_marker_find(&p->finder, markers, ALL, c);
    for (size_t i = 0; i < p->finder.n_spill; i++) {
        uint8_t next = (uint8_t)p->finder.spill[i];
        if (separates(p, next)) {
            wr_bytes_byte(&p->held, next);
            if (next == ']') { /* it closes what was opened */
                p->list = false;
                p->held.n = 0;
            }
            continue;
        }
        /* No longer between calls: what was read ahead is read again by the call that begins here, or as text. */
        char rest[2 * WR_MARKER_BYTES];
        const char *more = k >= 0 ? markers[k] : p->finder.window;
        size_t n = p->finder.n_spill - i, n_more = k >= 0 ? strlen(more) : p->finder.n;
        memcpy(rest, p->finder.spill + i, n);
        memcpy(rest + n, more, n_more);
        p->finder.n = 0;
        if (syntax->begins && syntax->begins(p, next)) {
            try_call(p, p->opener, NULL);
        } else {
            wr_output_text(p, p->held.data, p->held.n);
            p->held.n = 0;
            p->where = WR_IN_TEXT;
        }
        wr_output_again(p, rest, n + n_more);
        return WR_GONE;
    }
    if (k < 0) return WR_GONE;
    p->held.n = 0;
    if (k < WR_CLOSERS) {
        p->list = false;
        p->where = WR_IN_TEXT;
    } else if (k < CLOSE) {
        try_call(p, &f->openers[k - WR_CLOSERS], markers[k]);
    } else if (k == NEXT) {
        wr_bytes_put(&p->held, markers[k]);
        try_call(p, p->opener, NULL);
        p->call.in_section = true;
    }
    return WR_GONE;
}

void wr_output_byte(wr_parser *p, uint8_t c) {
    for (;;) {
        /* What lacks a part of its text must not be looked at. */
        if (p->held.failed || p->name.failed || p->value.failed) p->failed = WEIR_E_MEMORY;
        if (p->failed != WEIR_OK) return;
        wr_output_step done = WR_GONE;
        switch (p->where) {
        case WR_IN_TEXT: done = step_text(p, c); break;
        case WR_BETWEEN: done = step_between(p, c); break;
        case WR_IN_CALL: done = (p->format->whole ? p->format->whole : p->opener->syntax)->step(p, c); break;
        }
        if (done == WR_HELD) wr_bytes_byte(&p->held, c);
        if (done != WR_AGAIN) return;
    }
}

/* ---- The end -------------------------------------------------------------- */

/* What is held only announces: a marker and nothing behind it, or a message's head or end. */
static bool only_structure(const wr_parser *p) {
    if (p->format->whole) return true;
    if (!p->opener->marker || p->opener->bare) return false;
    size_t n = strlen(p->opener->marker);
    while (n < p->held.n && wr_json_space((uint8_t)p->held.data[n])) n++;
    return n == p->held.n;
}

void wr_output_end(wr_parser *p, bool truncated) {
    if (p->held.failed || p->name.failed || p->value.failed) return;
    bool drop = false; /* what is held and in the finder's window only structures */
    if (p->where == WR_IN_CALL) {
        (p->format->whole ? p->format->whole : p->opener->syntax)->finish(p);
        if (p->call_open) {
            wr_call_end(p, false, p->call.valid);
            p->incomplete = true;
            p->where = WR_BETWEEN;
        } else if (p->held.n) {
            if (truncated) p->incomplete = true;
            drop = truncated && only_structure(p);
            p->finder.n = 0; /* what is in its window is held as well */
        }
    }
    if (p->where == WR_BETWEEN) {
        drop = truncated || p->finder.n == 0;
        for (size_t i = 0; i < p->held.n && drop && !truncated; i++) drop = wr_json_space((uint8_t)p->held.data[i]);
    }
    if (!drop) {
        wr_output_text(p, p->held.data, p->held.n);
        wr_output_text(p, p->finder.window, p->finder.n);
    }
    /* Behind the last call they belong to it. */
    if (p->format->trim && p->n_calls && p->may_think && !p->reasoning) p->newlines = 0;
    flush_newlines(p);
    wr_output_emit(p, (weir_output_event){
                          .kind = WEIR_OUTPUT_FINISH, .call = p->n_calls, .complete = !p->incomplete && !p->reasoning});
}
