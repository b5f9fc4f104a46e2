/* Chat templates. The input is cut at its first 0 byte: a template, and the JSON of its variables (fixed ones when
 * there is none). What compiles is rendered under tight limits; its text must be UTF-8, and its failure a message. */
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "file/json.h"
#include "text/jinja/jinja.h"
#include "text/unicode.h"

static const char fixed[] = "{\"messages\":[{\"role\":\"system\",\"content\":\"S\\u00e9 "
                            "\\ud83d\\ude00\"},{\"role\":\"user\",\"content\":\"Hi <b> there\\n  "
                            "you\"},{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"function\":{\"name\":"
                            "\"f\",\"arguments\":{\"a\":[1,2.5,true,"
                            "null]}}}]}],\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],\"n\":3,"
                            "\"x\":2.5,\"s\":\"a,b ,\\u00dfc\",\"l\":[3,1,2"
                            "],\"d\":{\"k\":1,\"items\":[]},\"add_generation_prompt\":true,\"bos_token\":\"<s>\"}";

static void check_message(const weir_error *err) {
    if (!memchr(err->message, 0, sizeof err->message) || !err->message[0]) __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static json_t *variables;
    const wr_jinja_limits limits = {
        .steps = 200000, .memory_bytes = 8 << 20, .output_bytes = 1 << 20, .now_s = 1700000000};
    wr_jinja *jinja;
    weir_error err = {0};
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    size_t source_bytes = zero ? (size_t)(zero - data) : size;
    json_t *own = NULL;
    if (!variables && wr_json_parse(fixed, sizeof fixed - 1, "fixed", &variables, NULL) != WEIR_OK) __builtin_trap();
    if (wr_jinja_new((const char *)data, source_bytes, &jinja, &err) != WEIR_OK) {
        check_message(&err);
        return 0;
    }
    if (zero && wr_json_parse((const char *)zero + 1, size - source_bytes - 1, "own", &own, NULL) == WEIR_OK &&
        !json_is_object(own)) {
        json_decref(own);
        own = NULL;
    }
    char *text;
    size_t bytes;
    if (wr_jinja_render(jinja, own ? own : variables, &limits, &text, &bytes, &err) == WEIR_OK) {
        if (wr_utf8_valid((const uint8_t *)text, bytes) != bytes || text[bytes] || bytes > limits.output_bytes)
            __builtin_trap();
        wr_free(text);
    } else {
        check_message(&err);
    }
    json_decref(own);
    wr_jinja_free(jinja);
    return 0;
}
