/* Owns the one-time setup of jansson. */
#include "file/json.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/io.h"
#include "base/mem.h"

/* jansson 2.14 does not look whether its token buffer could grow: it loses a byte of the token and goes on, to a wrong
 * value or an assertion. So when memory runs out, requests of the buffer's sizes (16 * 2^k) are served from a reserve
 * taken before parsing; all others fail, which jansson checks, and the parse ends as out of memory. */
static _Thread_local struct {
    bool failed;
    char *memory; /* NULL outside wr_json_parse */
    size_t bytes, used;
} reserve;

static void *allocate(size_t bytes) {
    void *p = wr_malloc(bytes);
    if (p) return p;
    reserve.failed = true;
    bool buffer_size = bytes >= 16 && (bytes & (bytes - 1)) == 0;
    if (!buffer_size || !reserve.memory || bytes > reserve.bytes - reserve.used) return NULL;
    p = reserve.memory + reserve.used;
    reserve.used += bytes;
    return p;
}

static void release(void *p) {
    bool reserved = reserve.memory && (char *)p >= reserve.memory && (char *)p < reserve.memory + reserve.bytes;
    if (!reserved) wr_free(p);
}

static void set_allocators(void) { json_set_alloc_funcs(allocate, release); }

void wr_json_setup(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_allocators);
}

/* Control characters would let a file write to the reader's terminal. */
static void make_printable(char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || (unsigned char)*text > 0x7e) *text = '?';
}

/* jansson parses by recursion, so depth is counted before; *longest: an upper bound of its longest token. */
static weir_status scan(const char *text, size_t bytes, const char *name, size_t *longest, weir_error *err) {
    int depth = 0;
    bool quoted = false;
    size_t start = 0;
    *longest = 0;
    for (size_t i = 0; i < bytes; i++) {
        char c = text[i];
        if (quoted) {
            if (c == '\\')
                i++;
            else if (c == '"')
                quoted = false;
            continue;
        }
        if (c == '"') {
            quoted = true;
        } else if (c == '[' || c == '{') {
            if (++depth > WR_JSON_DEPTH)
                return WR_FAIL(err, WEIR_E_FORMAT, "%s: JSON nested deeper than %d at byte %zu", name, WR_JSON_DEPTH,
                               i);
        } else if (c == ']' || c == '}') {
            depth--;
        } else if (c != ',' && c != ':') {
            continue;
        }
        if (i - start > *longest) *longest = i - start;
        start = i;
    }
    if (bytes - start > *longest) *longest = bytes - start;
    return WEIR_OK;
}

weir_status wr_json_parse(const char *text, size_t bytes, const char *name, json_t **out, weir_error *err) {
    enum { RESERVE_MIN_BYTES = 4096 };
    wr_json_setup();
    *out = NULL;
    size_t longest;
    WR_TRY(scan(text, bytes, name, &longest, err));
    reserve.failed = false;
    reserve.used = 0;
    reserve.bytes = 8 * longest + RESERVE_MIN_BYTES; /* a buffer that doubles takes under 4 times the token in all */
    reserve.memory = wr_malloc(reserve.bytes);
    if (!reserve.memory) return WR_FAIL(err, WEIR_E_MEMORY, "%s: out of memory for its JSON", name);
    json_error_t error = {0};
    json_t *value = json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    bool failed = reserve.failed;
    if (failed) json_decref(value), value = NULL; /* while what lies in the reserve is still known */
    wr_free(reserve.memory);
    reserve.memory = NULL;
    if (failed) return WR_FAIL(err, WEIR_E_MEMORY, "%s: out of memory for its JSON", name);
    if (value) {
        *out = value;
        return WEIR_OK;
    }
    make_printable(error.text);
    return WR_FAIL(err, WEIR_E_FORMAT, "%s: line %d, column %d: %s", name, error.line, error.column, error.text);
}

/* Python's json module writes Infinity; some published configurations have it. */
static void replace_infinity(char *text, size_t bytes) {
    bool quoted = false;
    for (size_t i = 0; i < bytes; i++) {
        if (quoted) {
            if (text[i] == '\\')
                i++;
            else if (text[i] == '"')
                quoted = false;
        } else if (text[i] == '"') {
            quoted = true;
        } else if (text[i] == 'I' && bytes - i >= 8 && memcmp(text + i, "Infinity", 8) == 0) {
            memcpy(text + i, "1e308   ", 8);
        }
    }
}

weir_status wr_json_read(const char *path, size_t max_bytes, json_t **out, weir_error *err) {
    char *text;
    size_t bytes;
    *out = NULL;
    WR_TRY(wr_file_read(path, max_bytes, &text, &bytes, err));
    weir_status status;
    if (bytes == 0) {
        status = WR_FAIL(err, WEIR_E_FORMAT, "%s is empty; download it again", path);
    } else {
        replace_infinity(text, bytes);
        status = wr_json_parse(text, bytes, path, out, err);
    }
    wr_free(text);
    return status;
}

weir_status wr_json_text(const json_t *value, size_t flags, char **text, weir_error *err) {
    /* jansson 2.14 forgets some failures while it writes the keys of objects, and gives malformed text. */
    reserve.failed = false;
    *text = value ? json_dumps(value, flags) : NULL;
    if (*text && !reserve.failed) return WEIR_OK;
    wr_free(*text);
    *text = NULL;
    return WR_FAIL(err, WEIR_E_MEMORY, "out of memory for JSON text");
}

void wr_json_show(const json_t *value, char *out, size_t cap) {
    switch (value ? json_typeof(value) : JSON_NULL) {
    case JSON_OBJECT: snprintf(out, cap, "an object"); break;
    case JSON_ARRAY: snprintf(out, cap, "a list of %zu", json_array_size(value)); break;
    case JSON_STRING: snprintf(out, cap, "\"%.40s\"", json_string_value(value)); break;
    case JSON_INTEGER: snprintf(out, cap, "%lld", (long long)json_integer_value(value)); break;
    case JSON_REAL: snprintf(out, cap, "%g", json_real_value(value)); break;
    case JSON_TRUE: snprintf(out, cap, "true"); break;
    case JSON_FALSE: snprintf(out, cap, "false"); break;
    case JSON_NULL: snprintf(out, cap, "null"); break;
    }
    make_printable(out);
}
