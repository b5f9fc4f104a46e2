/* Ids to text. One path for both ways: the whole decode pushes every id through
 * the streaming decoder, so they cannot differ. */
#include <string.h>

#include "base/mem.h"
#include "text/tok.h"
#include "text/unicode.h"

/* Receives the bytes of a token in parts. */
typedef struct sink {
    void (*put)(struct sink *sink, const uint8_t *bytes, size_t n);
} sink;

static void put_byte_level(const uint8_t *piece, size_t n, sink *to) {
    uint8_t part[64];
    size_t m = 0;
    uint32_t cp;
    for (size_t i = 0; i < n;) {
        int k = wr_utf8_step(piece + i, n - i, &cp);
        if (k <= 0 || wr_char_to_byte(cp) < 0) { /* not spelled in the alphabet: text */
            to->put(to, piece, n);
            return;
        }
        i += (size_t)k;
    }
    for (size_t i = 0; i < n;) {
        i += (size_t)wr_utf8_get(piece + i, &cp);
        part[m++] = (uint8_t)wr_char_to_byte(cp);
        if (m == sizeof part) {
            to->put(to, part, m);
            m = 0;
        }
    }
    to->put(to, part, m);
}

/* The bytes of a used token. first: it is the first of its text. */
static void put_token(const weir_tokenizer *tok, int32_t id, bool first, sink *to) {
    const wr_decode_rules *rules = &tok->decode;
    size_t n;
    const uint8_t *text = wr_decode_text(rules, &tok->vocab, id, first, &n);
    unsigned flags = tok->vocab.flags[id];
    if (rules->byte_level && !(flags & WR_TOKEN_ADDED)) {
        put_byte_level(text, n, to);
    } else if (rules->byte_fallback && (flags & WR_TOKEN_BYTE)) {
        uint8_t byte = (uint8_t)wr_vocab_byte_value(wr_vocab_piece(&tok->vocab, id), wr_vocab_length(&tok->vocab, id));
        to->put(to, &byte, 1);
    } else {
        to->put(to, text, n);
    }
}

typedef struct copy_sink {
    sink base;
    char *out;
    size_t cap, n;
} copy_sink;

static void copy_put(sink *base, const uint8_t *bytes, size_t n) {
    copy_sink *s = (copy_sink *)base;
    if (s->n < s->cap && n) memcpy(s->out + s->n, bytes, n < s->cap - s->n ? n : s->cap - s->n);
    s->n += n;
}

size_t weir_tokenizer_token_bytes(const weir_tokenizer *tok, int32_t id, char *out, size_t cap) {
    if (!wr_vocab_has(&tok->vocab, id)) return 0;
    copy_sink s = {.base = {copy_put}, .out = out, .cap = out ? cap : 0};
    put_token(tok, id, false, &s.base);
    return s.n;
}

/* ---- Streaming ----------------------------------------------------------- */

typedef struct stream_sink {
    sink base;
    weir_token_decoder dec; /* a copy, written back when everything fitted */
    char *out;
    size_t cap, n;
} stream_sink;

static void write_out(stream_sink *s, const uint8_t *utf8, size_t k) {
    if (s->n + k <= s->cap) memcpy(s->out + s->n, utf8, k);
    s->n += k;
}

static void write_char(stream_sink *s, uint32_t cp, const uint8_t *utf8, size_t k) {
    const wr_decode_rules *rules = &s->dec.tok->decode;
    if (s->dec.n_strip) {
        if (cp == rules->strip_char) {
            s->dec.n_strip--;
            return;
        }
        s->dec.n_strip = 0;
    }
    if (rules->n_strip_end) { /* the last ones may have to go: hold so many back */
        if (cp == rules->strip_char && s->dec.n_held < rules->n_strip_end) {
            s->dec.n_held++;
            return;
        }
        uint8_t held[4];
        size_t m = (size_t)wr_utf8_put(rules->strip_char, held);
        for (; cp != rules->strip_char && s->dec.n_held; s->dec.n_held--) write_out(s, held, m);
    }
    write_out(s, utf8, k);
}

static void write_replacement(stream_sink *s) { write_char(s, 0xFFFD, (const uint8_t *)"\xEF\xBF\xBD", 3); }

static void stream_put(sink *base, const uint8_t *bytes, size_t n) {
    stream_sink *s = (stream_sink *)base;
    weir_token_decoder *d = &s->dec;
    size_t i = 0;
    while (i < n || d->n_pending) {
        uint8_t window[4];
        uint32_t cp;
        if (!d->n_pending) { /* read in place */
            int k = wr_utf8_step(bytes + i, n - i, &cp);
            if (k > 0) {
                write_char(s, cp, bytes + i, (size_t)k);
                i += (size_t)k;
            } else if (k < 0) {
                write_replacement(s);
                i += (size_t)-k;
            } else { /* at most 3 bytes are left */
                d->n_pending = (uint8_t)(n - i);
                memcpy(d->pending, bytes + i, n - i);
                return;
            }
            continue;
        }
        if (i >= n) return;
        /* The pending bytes and one more. They are a valid beginning, so the next
         * byte completes or continues it, or it is not part of it. */
        memcpy(window, d->pending, d->n_pending);
        window[d->n_pending] = bytes[i];
        int k = wr_utf8_step(window, d->n_pending + 1u, &cp);
        if (k < 0) {
            write_replacement(s);
            d->n_pending = 0;
        } else {
            i++;
            if (k > 0) {
                write_char(s, cp, window, (size_t)k);
                d->n_pending = 0;
            } else {
                d->pending[d->n_pending] = window[d->n_pending];
                d->n_pending++;
            }
        }
    }
}

void weir_token_decoder_init(weir_token_decoder *dec, const weir_tokenizer *tok, unsigned flags) {
    bool continues = flags & WEIR_DECODE_CONTINUE;
    *dec = (weir_token_decoder){.tok = tok,
                                .flags = flags,
                                .n_pushed = continues,
                                .n_strip = continues ? 0 : tok->decode.n_strip,
                                .previous = -1};
}

size_t weir_tokenizer_push_bytes_max(const weir_tokenizer *tok) {
    const wr_decode_rules *rules = &tok->decode;
    /* The worst: every byte is invalid by itself, and everything held comes at once. */
    return 3 * (rules->max_bytes + 4) + 4 * (size_t)rules->n_strip_end;
}

weir_status weir_token_decoder_push(weir_token_decoder *dec, int32_t id, char *out, size_t cap, size_t *n,
                                    weir_error *err) {
    *n = 0;
    if (id < 0) return WR_FAIL(err, WEIR_E_ARGUMENT, "token id %d is negative", id);
    const weir_tokenizer *tok = dec->tok;
    if (!wr_vocab_has(&tok->vocab, id)) return WEIR_OK;
    if ((dec->flags & WEIR_DECODE_SKIP_SPECIAL) && (tok->vocab.flags[id] & WR_TOKEN_SPECIAL)) return WEIR_OK;
    stream_sink s = {.base = {stream_put}, .dec = *dec, .out = out, .cap = cap};
    const wr_decode_rules *rules = &tok->decode;
    s.dec.previous = id;
    if (!(rules->repeats_count_once && dec->previous == id)) {
        if ((rules->join_with_space && s.dec.n_pushed) || s.dec.owes) stream_put(&s.base, (const uint8_t *)" ", 1);
        s.dec.owes = rules->owes && rules->owes[id];
        put_token(tok, id, s.dec.n_pushed == 0, &s.base);
    }
    if (s.n > cap) return WR_FAIL(err, WEIR_E_LIMIT, "token %d gives %zu bytes, there is room for %zu", id, s.n, cap);
    if (s.dec.n_pushed < UINT32_MAX) s.dec.n_pushed++;
    *dec = s.dec;
    *n = s.n;
    return WEIR_OK;
}

size_t weir_token_decoder_finish(weir_token_decoder *dec, char *out, size_t cap) {
    stream_sink s = {.base = {stream_put}, .dec = *dec, .out = out, .cap = cap};
    if (dec->n_pending) write_replacement(&s);
    weir_token_decoder_init(dec, dec->tok, dec->flags);
    return s.n <= cap ? s.n : 0;
}

weir_status weir_tokenizer_decode(const weir_tokenizer *tok, const int32_t *ids, size_t n, unsigned flags, char **text,
                                  size_t *bytes, weir_error *err) {
    weir_token_decoder dec;
    size_t at = 0, cap = 0, k;
    char *out = NULL;
    weir_status st = WEIR_OK;
    *text = NULL;
    *bytes = 0;
    weir_token_decoder_init(&dec, tok, flags);
    for (size_t i = 0; i < n && st == WEIR_OK; i++) {
        /* Most tokens are short: the room for the worst one is asked for only when
         * it is needed, so a hostile piece does not cost its length n times. */
        if (!wr_grow(&out, &cap, at + 64, 1)) goto memory;
        st = weir_token_decoder_push(&dec, ids[i], out + at, cap - at, &k, NULL);
        if (st == WEIR_E_LIMIT) {
            if (!wr_grow(&out, &cap, at + weir_tokenizer_push_bytes_max(tok), 1)) goto memory;
            WR_TRY_GOTO(st, weir_token_decoder_push(&dec, ids[i], out + at, cap - at, &k, err), done);
        } else if (st != WEIR_OK) {
            st = WR_FAIL(err, st, "token %zu of %zu has id %d", i, n, ids[i]);
        }
        at += k;
    }
done:
    if (st != WEIR_OK) {
        wr_free(out);
        return st;
    }
    if (!wr_grow(&out, &cap, at + 4, 1)) goto memory;
    at += weir_token_decoder_finish(&dec, out + at, 3);
    out[at] = 0;
    *text = out;
    *bytes = at;
    return WEIR_OK;
memory:
    wr_free(out);
    return WR_FAIL(err, WEIR_E_MEMORY, "no memory to decode %zu tokens", n);
}

void weir_text_free(char *text) { wr_free(text); }
