/* SentencePiece's tokenizer.model: a protocol buffer (sentencepiece_model.proto). Only
 * the fields that change a result are read. */
#include <string.h>

#include "base/mem.h"
#include "text/formats.h"
#include "text/sentencepiece.h"
#include "text/unicode.h"

/* Fields of the messages, by number. */
enum { MODEL_PIECE = 1, MODEL_TRAINER = 2, MODEL_NORMALIZER = 3, MODEL_DENORMALIZER = 5 };
enum { PIECE_TEXT = 1, PIECE_SCORE = 2, PIECE_KIND = 3 };
enum {
    TRAINER_TYPE = 3,
    TRAINER_SUFFIX = 24,
    TRAINER_BYTES = 35,
    TRAINER_UNK = 40,
    TRAINER_BOS = 41,
    TRAINER_EOS = 42,
    TRAINER_PAD = 43
};
enum { NORMALIZER_RULES = 2, NORMALIZER_PREFIX = 3, NORMALIZER_SQUEEZE = 4, NORMALIZER_ESCAPE = 5 };
enum { TYPE_UNIGRAM = 1, TYPE_BPE = 2 };

/* One field of a message. */
typedef struct field {
    uint32_t number;
    uint64_t value;    /* of a number; of the bits of a float */
    const char *bytes; /* of a text or a message; else NULL */
    size_t n;
} field;

typedef struct message {
    const char *at, *end;
} message;

static bool varint(message *m, uint64_t *value) {
    *value = 0;
    for (int shift = 0; shift < 64 && m->at < m->end; shift += 7) {
        uint8_t byte = (uint8_t)*m->at++;
        *value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) return true;
    }
    return false;
}

/* 1: a field; 0: the end; -1: malformed. */
static int next_field(message *m, field *f) {
    uint64_t key, n;
    *f = (field){0};
    if (m->at == m->end) return 0;
    if (!varint(m, &key) || key >> 3 == 0 || key >> 32) return -1;
    f->number = (uint32_t)(key >> 3);
    size_t left, fixed;
    switch (key & 7) {
    case 0: return varint(m, &f->value) ? 1 : -1;
    case 2:
        if (!varint(m, &n) || n > (size_t)(m->end - m->at)) return -1;
        f->bytes = m->at;
        f->n = (size_t)n;
        m->at += n;
        return 1;
    case 1:
    case 5:
        fixed = (key & 7) == 1 ? 8 : 4;
        left = (size_t)(m->end - m->at);
        if (left < fixed) return -1;
        for (size_t i = 0; i < fixed; i++) f->value |= (uint64_t)(uint8_t)m->at[i] << (8 * i);
        m->at += fixed;
        return 1;
    default: return -1;
    }
}

static weir_status malformed(const char *what, weir_error *err) {
    return WR_FAIL(err, WEIR_E_FORMAT, "tokenizer.model: %s is malformed; download the file again", what);
}

/* What the file says. */
typedef struct contents {
    wr_piece_model model;
    float *scores;
    int32_t *kinds;
    size_t n, scores_cap, kinds_cap;
    int64_t type, unk, bos, eos, pad;
} contents;

static weir_status read_piece(weir_tokenizer *tok, contents *c, message m, weir_error *err) {
    field f;
    const char *text = "";
    size_t bytes = 0;
    int64_t kind = WR_PIECE_NORMAL;
    unsigned flags;
    int got;
    float score = 0;
    while ((got = next_field(&m, &f)) > 0) {
        uint32_t bits = (uint32_t)f.value;
        if (f.number == PIECE_TEXT && f.bytes) text = f.bytes, bytes = f.n;
        if (f.number == PIECE_SCORE && !f.bytes) memcpy(&score, &bits, sizeof score);
        if (f.number == PIECE_KIND && !f.bytes) kind = (int64_t)f.value;
    }
    if (got < 0) return malformed("a piece", err);
    if (kind < 0 || kind >= WR_PIECE_KINDS) kind = WR_PIECE_KINDS;
    if (wr_utf8_valid((const uint8_t *)text, bytes) != bytes) return malformed("the text of a piece", err);
    WR_TRY(wr_piece_flags((int32_t)kind, text, bytes, c->n, &flags, err));
    WR_TRY(wr_vocab_append(&tok->vocab, (int64_t)c->n, text, bytes, flags, err));
    if (!wr_grow(&c->scores, &c->scores_cap, c->n + 1, sizeof *c->scores) ||
        !wr_grow(&c->kinds, &c->kinds_cap, c->n + 1, sizeof *c->kinds)) {
        return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the pieces of tokenizer.model");
    }
    c->scores[c->n] = score;
    c->kinds[c->n++] = (int32_t)kind;
    return WEIR_OK;
}

static weir_status read_trainer(contents *c, message m, weir_error *err) {
    field f;
    int got;
    while ((got = next_field(&m, &f)) > 0) {
        if (f.bytes) continue;
        int64_t value = (int32_t)f.value; /* -1 comes as ten bytes */
        switch (f.number) {
        case TRAINER_TYPE: c->type = value; break;
        case TRAINER_SUFFIX: c->model.suffix = value != 0; break;
        case TRAINER_BYTES: c->model.byte_fallback = value != 0; break;
        case TRAINER_UNK: c->unk = value; break;
        case TRAINER_BOS: c->bos = value; break;
        case TRAINER_EOS: c->eos = value; break;
        case TRAINER_PAD: c->pad = value; break;
        default: break;
        }
    }
    return got < 0 ? malformed("trainer_spec", err) : WEIR_OK;
}

static weir_status read_normalizer(contents *c, message m, weir_error *err) {
    field f;
    int got;
    while ((got = next_field(&m, &f)) > 0) {
        if (f.number == NORMALIZER_RULES && f.bytes) {
            c->model.rules = (const uint8_t *)f.bytes;
            c->model.rules_bytes = f.n;
        }
        if (f.bytes) continue;
        if (f.number == NORMALIZER_PREFIX) c->model.dummy_prefix = f.value != 0;
        if (f.number == NORMALIZER_SQUEEZE) c->model.squeeze = f.value != 0;
        if (f.number == NORMALIZER_ESCAPE) c->model.escape = f.value != 0;
    }
    return got < 0 ? malformed("normalizer_spec", err) : WEIR_OK;
}

/* Rules for answers would have to see the whole text; no published model has any. */
static weir_status check_denormalizer(message m, weir_error *err) {
    field f;
    int got;
    while ((got = next_field(&m, &f)) > 0) {
        if (f.number == NORMALIZER_RULES && f.n) {
            return WR_FAIL(err, WEIR_E_UNSUPPORTED, "tokenizer.model: a denormalizer is not supported");
        }
    }
    return got < 0 ? malformed("denormalizer_spec", err) : WEIR_OK;
}

static weir_status read_model(weir_tokenizer *tok, contents *c, message m, weir_error *err) {
    field f;
    int got;
    while ((got = next_field(&m, &f)) > 0) {
        if (!f.bytes) continue;
        message part = {f.bytes, f.bytes + f.n};
        switch (f.number) {
        case MODEL_PIECE: WR_TRY(read_piece(tok, c, part, err)); break;
        case MODEL_TRAINER: WR_TRY(read_trainer(c, part, err)); break;
        case MODEL_NORMALIZER: WR_TRY(read_normalizer(c, part, err)); break;
        case MODEL_DENORMALIZER: WR_TRY(check_denormalizer(part, err)); break;
        default: break;
        }
    }
    if (got < 0 || c->n == 0) return malformed("the file", err);
    if (c->type != TYPE_UNIGRAM && c->type != TYPE_BPE) {
        return WR_FAIL(err, WEIR_E_UNSUPPORTED,
                       "tokenizer.model: model type %lld; supported are 1 (Unigram) and 2 (BPE)", (long long)c->type);
    }
    return wr_vocab_link_all(&tok->vocab, err);
}

/* A special id, -1 when the vocabulary has none there. */
static int32_t special_id(const contents *c, int64_t id, int32_t kind) {
    return id >= 0 && (uint64_t)id < c->n && c->kinds[id] == kind ? (int32_t)id : -1;
}

static weir_status set_ids(weir_tokenizer *tok, const contents *c, weir_error *err) {
    tok->bos = special_id(c, c->bos, WR_PIECE_CONTROL);
    tok->pad = special_id(c, c->pad, WR_PIECE_CONTROL);
    int32_t eos = special_id(c, c->eos, WR_PIECE_CONTROL);
    if (tok->bos >= 0) tok->prefix[tok->n_prefix++] = tok->bos;
    return eos >= 0 ? wr_tokenizer_add_eos(tok, eos, err) : WEIR_OK;
}

weir_status wr_tok_build_sentencepiece(weir_tokenizer *tok, const char *text, size_t bytes, const json_t *config,
                                       weir_error *err) {
    (void)config;
    /* What a file that leaves a field out means. */
    contents c = {.model = {.dummy_prefix = true, .squeeze = true, .escape = true},
                  .type = TYPE_UNIGRAM,
                  .unk = 0,
                  .bos = 1,
                  .eos = 2,
                  .pad = -1};
    /* Published files have about 16 bytes a piece. */
    weir_status st = wr_vocab_init(&tok->vocab, bytes / 16 < WR_VOCAB_MAX ? bytes / 16 : WR_VOCAB_MAX, 0, err);
    if (st == WEIR_OK) st = read_model(tok, &c, (message){text, text + bytes}, err);
    if (st == WEIR_OK) {
        c.model.unigram = c.type == TYPE_UNIGRAM;
        c.model.scores = c.scores;
        c.model.kinds = c.kinds;
        c.model.unk = tok->unk = special_id(&c, c.unk, WR_PIECE_UNKNOWN);
        st = wr_tok_set_pieces(tok, &c.model, err);
    }
    if (st == WEIR_OK) st = set_ids(tok, &c, err);
    wr_free(c.scores);
    wr_free(c.kinds);
    return st;
}
