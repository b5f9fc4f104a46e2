/* The events of one call of feed or finish: neighbouring deltas of a kind are one, and end between two characters. */
#include <string.h>

#include "base/mem.h"
#include "text/parse/parse.h"
#include "text/unicode.h"
#include "text/work.h"

static weir_output_event *add_event(wr_parser *p, weir_output_event event, size_t text_at) {
    if (p->failed != WEIR_OK) return NULL;
    if (!wr_grow(&p->events, &p->cap_events, p->n_events + 1, sizeof *p->events) ||
        !wr_grow(&p->at, &p->cap_at, p->n_events + 1, sizeof *p->at)) {
        p->failed = WEIR_E_MEMORY;
        return NULL;
    }
    p->at[p->n_events] = (struct wr_output_event_at){.text = text_at};
    p->events[p->n_events] = event;
    return &p->events[p->n_events++];
}

static bool is_delta(weir_output_kind kind) {
    return kind == WEIR_OUTPUT_CONTENT || kind == WEIR_OUTPUT_REASONING || kind == WEIR_OUTPUT_ARGUMENTS;
}

static void begin_delta(wr_parser *p, weir_output_kind kind) {
    size_t call = kind == WEIR_OUTPUT_ARGUMENTS ? p->n_calls : 0;
    add_event(p, (weir_output_event){.kind = kind, .call = call}, p->out.n);
}

/* The bytes at the end of the last event belong to it, because each event's text is written when it is made. */
static void add_text(wr_parser *p, const char *text, size_t n) {
    if (p->failed != WEIR_OK) return;
    wr_bytes_add(&p->out, text, n);
    p->events[p->n_events - 1].text_bytes += n;
}

static void flush_tail(wr_parser *p) {
    if (p->n_tail == 0) return;
    begin_delta(p, p->tail_kind);
    add_text(p, p->tail, p->n_tail);
    p->n_tail = 0;
}

void wr_output_delta(wr_parser *p, weir_output_kind kind, const char *text, size_t n) {
    if (n == 0) return;
    if (p->n_tail) flush_tail(p);
    if (p->n_events == 0 || p->events[p->n_events - 1].kind != kind) begin_delta(p, kind);
    add_text(p, text, n);
}

void wr_output_emit(wr_parser *p, weir_output_event event) {
    flush_tail(p);
    weir_output_event *e = add_event(p, event, 0);
    if (!e) return;
    struct wr_output_event_at *at = &p->at[p->n_events - 1];
    at->name = p->out.n;
    if (e->name_bytes) wr_bytes_add(&p->out, e->name, e->name_bytes);
    at->id = p->out.n;
    if (e->id_bytes) wr_bytes_add(&p->out, e->id, e->id_bytes);
}

/* How many bytes at the end of text are the beginning of a longer character. */
static size_t incomplete_bytes(const char *text, size_t n) {
    for (size_t k = 1; k <= 3 && k <= n; k++) {
        uint8_t c = (uint8_t)text[n - k];
        uint32_t cp;
        if ((c & 0xC0) == 0x80) continue;
        return c >= 0xC0 && wr_utf8_step((const uint8_t *)text + n - k, k, &cp) == 0 ? k : 0;
    }
    return 0;
}

weir_status wr_output_events_close(wr_parser *p, bool last, const weir_output_event **events, size_t *n,
                                   weir_error *err) {
    *events = NULL;
    *n = 0;
    if (p->out.failed || p->held.failed || p->name.failed || p->id.failed || p->key.failed || p->value.failed)
        p->failed = WEIR_E_MEMORY;
    if (p->failed != WEIR_OK) return WR_FAIL(err, p->failed, "no memory to parse the model's output");
    if (!last && p->n_events && is_delta(p->events[p->n_events - 1].kind)) {
        weir_output_event *e = &p->events[p->n_events - 1];
        size_t k = incomplete_bytes(p->out.data + p->out.n - e->text_bytes, e->text_bytes);
        if (k) {
            p->n_tail = k;
            p->tail_kind = e->kind;
            memcpy(p->tail, p->out.data + p->out.n - k, k);
            e->text_bytes -= k;
            if (e->text_bytes == 0) p->n_events--;
        }
    }
    for (size_t i = 0; i < p->n_events; i++) {
        weir_output_event *e = &p->events[i];
        e->text = is_delta(e->kind) ? p->out.data + p->at[i].text : NULL;
        e->name = e->name_bytes ? p->out.data + p->at[i].name : NULL;
        e->id = e->id_bytes ? p->out.data + p->at[i].id : NULL;
    }
    *events = p->events;
    *n = p->n_events;
    return WEIR_OK;
}

void wr_output_events_clear(wr_parser *p) {
    p->n_events = 0;
    p->out.n = 0;
}
