/* Template text as tokens, with jinja2's rules for whitespace around tags. */
#ifndef WR_TEXT_JINJA_LEXER_H
#define WR_TEXT_JINJA_LEXER_H

#include "text/jinja/value.h"

typedef enum wr_jtok {
    WR_J_T_EOF,
    WR_J_T_DATA,
    WR_J_T_VARIABLE_BEGIN,
    WR_J_T_VARIABLE_END,
    WR_J_T_BLOCK_BEGIN,
    WR_J_T_BLOCK_END,
    WR_J_T_NAME,
    WR_J_T_STRING,
    WR_J_T_INTEGER,
    WR_J_T_FLOAT,
    /* operators */
    WR_J_T_ADD,
    WR_J_T_SUB,
    WR_J_T_MUL,
    WR_J_T_DIV,
    WR_J_T_FLOORDIV,
    WR_J_T_MOD,
    WR_J_T_POW,
    WR_J_T_TILDE,
    WR_J_T_LBRACKET,
    WR_J_T_RBRACKET,
    WR_J_T_LPAREN,
    WR_J_T_RPAREN,
    WR_J_T_LBRACE,
    WR_J_T_RBRACE,
    WR_J_T_EQ,
    WR_J_T_NE,
    WR_J_T_GT,
    WR_J_T_GTEQ,
    WR_J_T_LT,
    WR_J_T_LTEQ,
    WR_J_T_ASSIGN,
    WR_J_T_DOT,
    WR_J_T_COLON,
    WR_J_T_PIPE,
    WR_J_T_COMMA,
    WR_J_T_SEMICOLON,
} wr_jtok;

typedef struct wr_jtoken {
    wr_jtok type;
    int line;
    const char *text; /* NAME: in the source */
    size_t bytes;
    wr_jval value; /* DATA, STRING, INTEGER, FLOAT */
} wr_jtoken;

typedef struct wr_jlexer {
    wr_jrun *run;
    const char *source; /* newlines are \n */
    size_t bytes, at;
    int line;
    enum { WR_J_IN_DATA, WR_J_IN_VARIABLE, WR_J_IN_BLOCK } state;
    wr_jtok pending; /* the tag that data was found before; EOF: none */
    size_t pending_end;
    wr_jbuf open; /* brackets that are open */
    bool line_starting;
} wr_jlexer;

/* The source must live as long as the tokens; a copy with plain newlines is made. */
bool wr_jlexer_init(wr_jrun *run, const char *source, size_t bytes, wr_jlexer *lexer);
bool wr_jlexer_next(wr_jlexer *lexer, wr_jtoken *out);
/* A token in words, for messages. */
const char *wr_jtok_name(wr_jtok type);

/* A syntax error at a line. */
#define WR_JSYNTAX(run, at_line, ...) ((run)->line = (at_line), wr_jfail((run), WEIR_E_FORMAT, __VA_ARGS__))

#endif
