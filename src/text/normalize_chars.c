/* Steps that look at one character at a time. */
#include <string.h>

#include <utf8proc.h>

#include "text/normalize.h"
#include "text/unicode.h"

/* What becomes of a character: KEEP, or so many bytes in out (0: it goes). */
enum { KEEP = -1, OUT_MAX = 16 };

static int lowercase(uint32_t cp, uint8_t out[OUT_MAX]) {
    if (cp == 0x130) { /* the one character whose full lower case has two */
        memcpy(out, "i\xCC\x87", 3);
        return 3;
    }
    uint32_t lower = (uint32_t)utf8proc_tolower((utf8proc_int32_t)cp);
    return lower == cp ? KEEP : wr_utf8_put(lower, out);
}

static int space(uint8_t out[OUT_MAX]) {
    out[0] = ' ';
    return 1;
}

/* The rule set "nmt" of SentencePiece. */
static int nmt(uint32_t cp, uint8_t out[OUT_MAX]) {
    if ((cp >= 1 && cp <= 8) || cp == 0x0B || (cp >= 0x0E && cp <= 0x1F) || cp == 0x7F || cp == 0x8F || cp == 0x9F) {
        return 0;
    }
    if (cp == 0x09 || cp == 0x0A || cp == 0x0C || cp == 0x0D || cp == 0x1680 || (cp >= 0x200B && cp <= 0x200F) ||
        cp == 0x2028 || cp == 0x2029 || cp == 0x2581 || cp == 0xFEFF || cp == 0xFFFD) {
        return space(out);
    }
    return KEEP;
}

static int clean(uint32_t cp, uint8_t out[OUT_MAX]) {
    if (cp >= 0x20 && cp < 0x7F) return KEEP;
    if (cp == '\t' || cp == '\n' || cp == '\r') return space(out);
    if (cp == 0xFFFD || wr_char_is_control(cp)) return 0;
    return wr_char_is_space(cp) ? space(out) : KEEP;
}

/* The blocks of Chinese characters that BERT's own code lists. */
static bool is_cjk(uint32_t cp) {
    return (cp >= 0x3400 && cp <= 0x4DBF) || (cp >= 0x4E00 && cp <= 0x9FFF) || (cp >= 0xF900 && cp <= 0xFAFF) ||
           (cp >= 0x20000 && cp <= 0x2A6DF) || (cp >= 0x2A700 && cp <= 0x2B81F) || (cp >= 0x2B920 && cp <= 0x2CEAF) ||
           (cp >= 0x2F800 && cp <= 0x2FA1F);
}

static int space_cjk(uint32_t cp, uint8_t out[OUT_MAX]) {
    if (cp < 0x3400 || !is_cjk(cp)) return KEEP;
    int n = wr_utf8_put(cp, out + 1);
    out[0] = out[n + 1] = ' ';
    return n + 2;
}

static int byte_level(uint32_t cp, uint8_t out[OUT_MAX]) {
    uint8_t utf8[4];
    if (cp > ' ' && cp < 0x7F) return KEEP;
    return (int)wr_bytes_spell(utf8, (size_t)wr_utf8_put(cp, utf8), out);
}

static int look(wr_norm_kind kind, uint32_t cp, uint8_t out[OUT_MAX]) {
    switch (kind) {
    case WR_NORM_LOWERCASE: return lowercase(cp, out);
    case WR_NORM_NMT: return nmt(cp, out);
    case WR_NORM_CLEAN: return clean(cp, out);
    case WR_NORM_SPACE_CJK: return space_cjk(cp, out);
    case WR_NORM_DROP_MARKS: return cp >= 0x80 && wr_char_is_mark(cp, false) ? 0 : KEEP;
    case WR_NORM_DROP_ACCENTS: return cp >= 0x80 && wr_char_is_mark(cp, true) ? 0 : KEEP;
    default: return byte_level(cp, out);
    }
}

bool wr_norm_chars(const wr_norm_step *step, const wr_view *v, wr_text *out, bool *changed) {
    size_t kept = 0; /* [kept, i) is unchanged and not written yet */
    for (size_t i = 0; i < v->n;) {
        uint32_t cp;
        uint8_t bytes[OUT_MAX];
        size_t k = (size_t)wr_utf8_get(v->data + i, &cp);
        int n = look(step->kind, cp, bytes);
        if (n != KEEP) {
            *changed = true;
            if (!wr_text_add_part(out, v, kept, i) || !wr_text_add(out, bytes, (size_t)n, wr_view_range(v, i, i + k))) {
                return false;
            }
            kept = i + k;
        }
        i += k;
    }
    return !*changed || wr_text_add_part(out, v, kept, v->n);
}
