/* Owns the heap of a rendering and its limits. */
#include "text/jinja/run.h"

#include <stdarg.h>
#include <string.h>

#include "text/unicode.h"

typedef struct wr_jchunk {
    struct wr_jchunk *next;
    size_t used, size;
    char data[];
} wr_jchunk;

enum { CHUNK_BYTES = 32 << 10 };

bool wr_jfail(wr_jrun *run, weir_status status, const char *format, ...) {
    char text[WEIR_ERROR_BYTES];
    va_list args;
    if (run->status != WEIR_OK) return false;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    run->status = run->line ? WR_FAIL(run->err, status, "chat template, line %d: %s", run->line, text)
                            : WR_FAIL(run->err, status, "chat template: %s", text);
    return false;
}

/* The words are the template's, so no place in our source stands behind them. */
bool wr_jraise(wr_jrun *run, const char *text, size_t bytes) {
    static const char head[] = "the chat template says: ";
    if (run->status != WEIR_OK) return false;
    run->status = WEIR_E_ARGUMENT;
    if (!run->err) return false;
    size_t room = sizeof run->err->message - sizeof head, n = bytes < room ? bytes : room;
    while (n < bytes && n > 0 && ((uint8_t)text[n] & 0xC0) == 0x80) n--; /* whole characters */
    run->err->status = WEIR_E_ARGUMENT;
    memcpy(run->err->message, head, sizeof head - 1);
    memcpy(run->err->message + sizeof head - 1, text, n);
    run->err->message[sizeof head - 1 + n] = 0;
    return false;
}

bool wr_jcharge(wr_jrun *run, size_t bytes) {
    uint64_t cost = 1 + bytes / 64;
    if (run->steps >= cost) {
        run->steps -= cost;
        return true;
    }
    run->steps = 0;
    return wr_jfail(run, WEIR_E_LIMIT, "the time limit is reached: the template does too much work");
}

bool wr_jenter(wr_jrun *run) {
    if (run->depth >= WR_JINJA_DEPTH)
        return wr_jfail(run, WEIR_E_LIMIT, "the depth limit is reached: nested too deeply");
    run->depth++;
    return true;
}

static bool fits(wr_jrun *run, size_t bytes) {
    size_t used = run->text_bytes + run->values.used_bytes;
    if (bytes <= run->memory_bytes && used <= run->memory_bytes - bytes) return true;
    return wr_jfail(run, WEIR_E_LIMIT, "the memory limit of %zu bytes is reached", run->memory_bytes);
}

void *wr_jalloc(wr_jrun *run, size_t bytes) {
    if (!fits(run, bytes) || !wr_jcharge(run, bytes)) return NULL;
    void *p = wr_arena_alloc(&run->values, bytes);
    if (!p) wr_jfail(run, WEIR_E_MEMORY, "out of memory");
    return p;
}

void *wr_jalloc_n(wr_jrun *run, size_t n, size_t bytes) {
    size_t all;
    if (wr_mul_size(n, bytes, &all)) return wr_jalloc(run, all);
    wr_jfail(run, WEIR_E_LIMIT, "the memory limit of %zu bytes is reached", run->memory_bytes);
    return NULL;
}

bool wr_jgrow(wr_jrun *run, void *array, size_t *cap, size_t n, size_t first, size_t bytes) {
    if (n < *cap) return true;
    size_t want = *cap ? 2 * *cap : first;
    void *old, *larger = wr_jalloc_n(run, want, bytes);
    if (!larger) return false;
    memcpy(&old, array, sizeof old); /* array is a pointer to some object pointer */
    if (n) memcpy(larger, old, n * bytes);
    memcpy(array, &larger, sizeof larger);
    *cap = want;
    return true;
}

char *wr_jtext(wr_jrun *run, size_t bytes) {
    wr_jchunk *chunk = run->chunks;
    if (!wr_jcharge(run, bytes)) return NULL;
    if (!chunk || chunk->size - chunk->used < bytes) {
        if (!fits(run, bytes)) return NULL;
        /* Room for as much again, within the limit: the next text may be this one, longer. */
        size_t left = run->memory_bytes - run->text_bytes - run->values.used_bytes;
        size_t size = bytes < CHUNK_BYTES ? CHUNK_BYTES : bytes <= left / 2 ? 2 * bytes : bytes;
        chunk = wr_malloc(sizeof *chunk + size);
        if (!chunk) {
            wr_jfail(run, WEIR_E_MEMORY, "out of memory");
            return NULL;
        }
        *chunk = (wr_jchunk){.next = run->chunks, .used = 0, .size = size};
        run->chunks = chunk;
        run->text_bytes += size;
    }
    char *p = chunk->data + chunk->used;
    chunk->used += bytes;
    return p;
}

bool wr_jtext_extend(wr_jrun *run, const char *p, size_t n, size_t more) {
    wr_jchunk *chunk = run->chunks;
    if (!chunk || p < chunk->data || p + n != chunk->data + chunk->used || chunk->size - chunk->used < more)
        return false;
    chunk->used += more;
    return true;
}

void wr_jtext_cut(wr_jrun *run, const char *p, size_t cap, size_t n) {
    wr_jchunk *chunk = run->chunks;
    if (chunk && p >= chunk->data && p + cap == chunk->data + chunk->used) chunk->used -= cap - n;
}

void wr_jrun_deinit(wr_jrun *run) {
    for (wr_jchunk *chunk = run->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        wr_free(chunk);
    }
    run->chunks = NULL;
    wr_arena_deinit(&run->values);
}

/* ---- texts under construction ---- */

static bool reserve(wr_jrun *run, wr_jbuf *buf, size_t more) {
    size_t need;
    if (!wr_add_size(buf->n, more, &need) || need > run->output_bytes)
        return wr_jfail(run, WEIR_E_LIMIT, "the output limit of %zu bytes is reached", run->output_bytes);
    if (need <= buf->cap) return true;
    size_t cap = buf->cap < 64 ? 128 : 2 * buf->cap;
    if (cap < need) cap = need;
    if (buf->cap && wr_jtext_extend(run, buf->data, buf->cap, cap - buf->cap)) {
        buf->cap = cap;
        return true;
    }
    char *data = wr_jtext(run, cap);
    if (!data) return false;
    if (buf->n) memcpy(data, buf->data, buf->n);
    buf->data = data;
    buf->cap = cap;
    return true;
}

bool wr_jbuf_add(wr_jrun *run, wr_jbuf *buf, const char *text, size_t n) {
    if (!wr_jcharge(run, n) || !reserve(run, buf, n)) return false;
    if (n) memcpy(buf->data + buf->n, text, n);
    buf->n += n;
    return true;
}

bool wr_jbuf_char(wr_jrun *run, wr_jbuf *buf, uint32_t cp) {
    uint8_t bytes[4];
    int n = wr_utf8_put(cp, bytes);
    return wr_jbuf_add(run, buf, (const char *)bytes, (size_t)n);
}

bool wr_jbuf_fill(wr_jrun *run, wr_jbuf *buf, const char *text, size_t n, size_t times) {
    size_t all;
    if (n == 0 || times == 0) return true;
    if (!wr_mul_size(n, times, &all)) all = SIZE_MAX;
    if (!reserve(run, buf, all) || !wr_jcharge(run, all)) return false;
    for (size_t i = 0; i < times; i++, buf->n += n) memcpy(buf->data + buf->n, text, n);
    return true;
}
