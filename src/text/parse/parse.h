/* Inside of the output parser. One core (core.c) finds markers in text and gives events; a syntax reads the inside of a
 * call, a byte at a time; a format is a row of a table (formats.c) that says which markers and which syntax.
 *
 * Everything goes byte by byte through wr_output_byte, so the result cannot depend on how the text was cut. Bytes of
 * what may become a call are held; they are dropped when it is one, and come out as text when it is none. */
#ifndef WR_TEXT_PARSE_PARSE_H
#define WR_TEXT_PARSE_PARSE_H

#include <jansson.h>

#include "base/status.h"
#include "text/parse/bytes.h"
#include "text/parse/json_scan.h"
#include "weir/output.h"

typedef weir_output_parser wr_parser;

enum {
    WR_MARKER_BYTES = 64, /* a marker is shorter */
    WR_NAME_BYTES = 256,  /* longest name of a tool */
    WR_MARKERS = 20,      /* most markers that are looked for at once */
    WR_OPENERS = 5,       /* of a format */
    WR_CLOSERS = 3,
    WR_ENDS = WR_CLOSERS + WR_OPENERS,
};

/* ---- Formats ------------------------------------------------------------- */

/* What a step did with its byte. */
typedef enum wr_output_step {
    WR_HELD,  /* taken; it is text if this turns out to be no call */
    WR_GONE,  /* taken for good */
    WR_AGAIN, /* not taken: give it again, the state has changed */
} wr_output_step;

typedef struct wr_syntax {
    wr_output_step (*step)(wr_parser *p, uint8_t c);
    /* The output ends here. A begun call gets what was kept back of its arguments; one that is not begun stays held, or
     * is begun if enough of it is known. */
    void (*finish)(wr_parser *p);
    /* c begins a further call between calls without any marker. May be NULL. */
    bool (*begins)(const wr_parser *p, uint8_t c);
} wr_syntax;

/* The markers of a call. Each syntax reads some of them; NULL where there is none. */
typedef struct wr_call_markers {
    const char *open;        /* begins a call */
    const char *name_end[3]; /* each ends the name */
    const char *id_end;      /* named: between name and this stands an id */
    const char *key_open, *key_end, *tag_end, *value_open;
    /* Each ends a value: the first of a list whole, the others up to their last tag, which is read again. line_end: for
     * values that begin with a line break (which is not part of them). */
    const char *value_end[3], *line_end[5];
    const char *close; /* ends a call */
    const char *quote; /* held: around strings */
    unsigned flags;
} wr_call_markers;

enum {
    WR_CALL_TYPE_FIRST = 1,  /* named: the name may be preceded by a type, and follow behind name_end */
    WR_CALL_NAME_IN_ID = 2,  /* named: what stands for the name is an id, functions.NAME:NUMBER */
    WR_CALL_FENCED = 4,      /* named: the arguments may stand in a Markdown fence */
    WR_CALL_ENTITIES = 8,    /* tagged: &quot; and the like in names and keys */
    WR_CALL_PYTHON = 16,     /* held: Python, else Gemma's notation */
    WR_CALL_OR_WRAPPED = 32, /* named, tagged: JSON in the place of the call is read by the next opener */
};

typedef struct wr_opener {
    const char *marker;
    const wr_syntax *syntax;
    const wr_call_markers *call;
    bool section; /* calls follow, each behind call->open if that is not NULL */
    bool known;   /* the marker is ordinary text: only calls of the request's own tools are calls */
    bool bare;    /* it is a single byte of the call itself, and only read at the very start */
} wr_opener;

typedef struct wr_pair {
    const char *open, *close;
    bool anywhere; /* open is a control token: not only at the start */
    bool exact;    /* no line breaks stand around the markers that are not the text's own */
} wr_pair;

typedef struct wr_output_format {
    const char *name, *about;
    const char *detect[3]; /* all must be in the template */
    wr_opener openers[WR_OPENERS];
    const char *closers[WR_CLOSERS]; /* end a section; taken only behind a call */
    const char *separators;          /* bytes that may stand between calls; NULL = white space only */
    const char *noise[6];            /* markers that only structure */
    const wr_pair *reasoning;        /* its own reasoning markers, beside <think> */
    bool trim;                       /* line breaks around calls belong to the format */
    bool ends_reasoning;             /* a call may come before the reasoning was closed, and ends it */
    const wr_syntax *whole;          /* reads everything, not only calls (harmony) */
} wr_output_format;

extern const wr_output_format wr_output_formats[];
extern const wr_pair wr_pairs[]; /* up to open = NULL; the first is <think> */

const wr_output_format *wr_output_format_find(const char *name);            /* NULL if there is none */
const wr_output_format *wr_output_format_detect(const char *template_text); /* the last, "plain", if there is none */

extern const wr_syntax wr_syntax_wrapped, wr_syntax_named, wr_syntax_tagged, wr_syntax_held, wr_syntax_harmony;

/* ---- Markers -------------------------------------------------------------- */

typedef struct wr_finder {
    char window[WR_MARKER_BYTES]; /* the longest end of the text that begins a marker */
    size_t n;
    char spill[WR_MARKER_BYTES]; /* what the last byte proved to be no marker */
    size_t n_spill;
} wr_finder;

/* Take c. The index of the marker that is complete now (the window is empty then), else -1; no marker may begin
 * another. NULLs in the list are skipped. */
int wr_marker_find(wr_finder *f, const char *const *markers, size_t n, uint8_t c);

/* What ends any call of the format from outside: its closers, then its openers. ends: [WR_ENDS], with NULLs. */
void wr_output_format_ends(const wr_output_format *f, const char **ends);

/* ---- Parser --------------------------------------------------------------- */

enum wr_where { WR_IN_TEXT, WR_IN_CALL, WR_BETWEEN };

/* The arguments of a call that are passed on as they are (args.c). */
typedef struct wr_arguments {
    wr_json_scan scan;
    bool begun, raw; /* raw: no JSON, up to a marker */
} wr_arguments;

/* State of a syntax; zeroed when a call is tried. */
typedef struct wr_call {
    int state;
    bool begun;                   /* wr_call_begin was done */
    bool has_name, valid;         /* valid: the arguments so far are */
    bool fence_done;              /* named: the arguments' fence was looked for */
    bool in_section;              /* its section is open already */
    bool string;                  /* tagged: the value is passed on as a string while it comes */
    bool lines;                   /* tagged: it began with a line break */
    size_t n_values;              /* tagged */
    size_t at, args_at, args_end; /* in p->held */
    unsigned types;
    int key, depth, quote, quotes;
    wr_arguments args;
    wr_json_scan scan;
} wr_call;

struct weir_output_parser {
    const wr_output_format *format;
    json_t *tools; /* or NULL */
    bool calls_on, reasoning_on;

    enum wr_where where;
    const wr_pair *reasoning; /* inside of these markers, or NULL */
    bool blank;               /* no content so far but white space */
    bool may_think;           /* reasoning may open here: nothing was written since the start or the last call */
    bool fresh;               /* line breaks are dropped: nothing was written since a reasoning marker */
    size_t newlines;          /* held back: dropped when a marker follows */
    wr_finder finder;
    wr_bytes held;           /* text that is not accounted for yet */
    const wr_opener *opener; /* of the call, or of the last one */
    bool list;               /* a bracket or section of calls is open */
    wr_call call;
    wr_bytes name, id, key, value; /* of the call */
    const json_t *tool;            /* of the call, or NULL */
    size_t n_calls;
    bool call_open, incomplete, finished;

    /* What wr_in_text looks for. */
    const char *markers[WR_MARKERS];
    const wr_pair *marker_pair[WR_MARKERS];
    const wr_opener *marker_opener[WR_MARKERS]; /* neither: noise */
    bool marker_closes[WR_MARKERS];
    size_t n_markers;

    /* What one call of feed gives: text is offsets into out until its end. */
    wr_bytes out;
    weir_output_event *events;
    struct wr_output_event_at {
        size_t text, name, id;
    } * at;
    size_t n_events, cap_events, cap_at;
    char tail[4]; /* the beginning of a character, of kind tail_kind */
    size_t n_tail;
    weir_output_kind tail_kind;
    weir_status failed;
};

/* events.c: what comes out. */

void wr_output_delta(wr_parser *p, weir_output_kind kind, const char *text, size_t n);
/* An event without text; name and id (may be NULL) are copied. */
void wr_output_emit(wr_parser *p, weir_output_event event);
/* Make the events of this call readable. Not the last: the beginning of a character stays for the next call. */
weir_status wr_output_events_close(wr_parser *p, bool last, const weir_output_event **events, size_t *n,
                                   weir_error *err);
void wr_output_events_clear(wr_parser *p);

/* core.c: for the syntaxes. */

void wr_output_byte(wr_parser *p, uint8_t c);
/* Fill in what text is looked through for. */
void wr_output_set_markers(wr_parser *p, const wr_pair *const *pairs, size_t n_pairs);
/* The output is over. */
void wr_output_end(wr_parser *p, bool truncated);
/* Text of the model, content or reasoning as it stands. */
void wr_output_text(wr_parser *p, const char *text, size_t n);
/* Start or stop reasoning. */
void wr_reasoning_begin(wr_parser *p, const wr_pair *pair);
void wr_reasoning_end(wr_parser *p);

/* This is no call: what is held becomes text, the last n bytes of it after they were looked at once more. The call, if
 * begun, ends. Then c again. */
wr_output_step wr_call_fail(wr_parser *p, size_t n);
/* White space or one of the markers must come (before the call has begun), else it fails. *k: the marker that is
 * complete, or -1. */
wr_output_step wr_call_expect(wr_parser *p, const char *const *markers, size_t n, uint8_t c, int *k);
/* The first call of a section must come, behind its open marker: its state is `name` then. A closer instead: there was
 * no call in the section. */
wr_output_step wr_call_section(wr_parser *p, uint8_t c, int name);
/* This is a call, by p->name and p->id: what is held is dropped. False when the name is none (empty, or a bare call of
 * an unknown tool); nothing has happened then. */
bool wr_call_begin(wr_parser *p);
void wr_call_arguments(wr_parser *p, const char *text, size_t n);
void wr_call_end(wr_parser *p, bool complete, bool valid);
/* Behind a call, waiting for more. */
void wr_call_between(wr_parser *p);
/* Give up to 2 * WR_MARKER_BYTES bytes again: for text that two states must see. */
void wr_output_again(wr_parser *p, const char *text, size_t n);

/* args.c: arguments that are JSON, up to the end of the value or a marker outside of its strings. */

typedef enum wr_arguments_end { WR_ARGUMENTS_MORE, WR_ARGUMENTS_DONE, WR_ARGUMENTS_MARKER } wr_arguments_end;

/* Takes c always. DONE: the value ended with it. MARKER: *marker is the one that ended it. */
wr_arguments_end wr_arguments_step(wr_parser *p, uint8_t c, const char *const *markers, size_t n, int *marker);
/* After the end: gives {} for nothing; the validity. */
bool wr_arguments_close(wr_parser *p);

#endif
