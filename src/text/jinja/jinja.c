/* Compiling and rendering, from outside. */
#include "text/jinja/jinja.h"

#include <string.h>

#include "text/c_locale.h"
#include "text/jinja/ast.h"
#include "text/jinja/from_json.h"
#include "text/unicode.h"

enum {
    COMPILE_STEPS = 100000000,
    COMPILE_BYTES = 192 << 20,
};

weir_status wr_jinja_new(const char *source, size_t bytes, wr_jinja **out, weir_error *err) {
    *out = NULL;
    if (bytes > WR_JINJA_SOURCE_BYTES_MAX)
        return WR_FAIL(err, WEIR_E_LIMIT, "chat template: %zu bytes; at most %d are allowed", bytes,
                       WR_JINJA_SOURCE_BYTES_MAX);
    size_t valid = wr_utf8_valid((const uint8_t *)source, bytes);
    if (valid != bytes) return WR_FAIL(err, WEIR_E_FORMAT, "chat template: byte %zu is no UTF-8", valid);
    wr_jinja *jinja = wr_calloc(1, sizeof *jinja);
    if (!jinja) return WR_FAIL(err, WEIR_E_MEMORY, "chat template: out of memory");
    wr_jrun *run = &jinja->memory;
    *run = (wr_jrun){.jinja = jinja,
                     .steps = COMPILE_STEPS,
                     .memory_bytes = COMPILE_BYTES,
                     .output_bytes = COMPILE_BYTES,
                     .shared = true,
                     .err = err};
    wr_arena_init(&run->values, SIZE_MAX);
    locale_t before = wr_c_locale_enter();
    bool done = wr_jparse(run, source, bytes, jinja) && wr_jresolve(run, jinja);
    wr_c_locale_leave(before);
    run->err = NULL;
    if (!done) {
        weir_status status = run->status;
        wr_jinja_free(jinja);
        return status;
    }
    *out = jinja;
    return WEIR_OK;
}

void wr_jinja_free(wr_jinja *jinja) {
    if (!jinja) return;
    wr_jrun_deinit(&jinja->memory);
    wr_free(jinja);
}

bool wr_jinja_reads(const wr_jinja *jinja, const char *name) {
    return wr_jdict_get(jinja->undeclared.dict, name, strlen(name)) != NULL;
}

static bool render(wr_jrun *run, const wr_jinja *jinja, const json_t *variables, wr_jbuf *out) {
    wr_jframe frame = {0};
    wr_jval context, exported;
    if (variables && !json_is_object(variables)) return WR_JERROR(run, "the variables are no object");
    if (!(variables ? wr_jfrom_json(run, variables, &context) : wr_jdict_new(run, &context))) return false;
    run->context = context.dict;
    if (jinja->has_blocks) {
        if (!wr_jdict_new(run, &exported)) return false;
        run->exported = exported.dict;
    }
    if (!(frame.slots = wr_jalloc_n(run, jinja->n_slots, sizeof *frame.slots))) return false;
    run->out = out;
    wr_jscope_enter(run, jinja->scope, &frame);
    return wr_jexec(run, &jinja->body, &frame) == WR_J_NEXT;
}

weir_status wr_jinja_render(const wr_jinja *jinja, const json_t *variables, const wr_jinja_limits *limits, char **text,
                            size_t *bytes, weir_error *err) {
    static const wr_jinja_limits none;
    if (!limits) limits = &none;
    wr_jrun run = {.jinja = jinja,
                   .steps = limits->steps ? limits->steps : WR_JINJA_STEPS,
                   .memory_bytes = limits->memory_bytes ? limits->memory_bytes : WR_JINJA_MEMORY_BYTES,
                   .output_bytes = limits->output_bytes ? limits->output_bytes : WR_JINJA_OUTPUT_BYTES,
                   .now_s = limits->now_s,
                   .err = err};
    wr_jbuf out = {0};
    *text = NULL;
    *bytes = 0;
    wr_arena_init(&run.values, SIZE_MAX);
    locale_t before = wr_c_locale_enter();
    bool done = render(&run, jinja, variables, &out);
    wr_c_locale_leave(before);
    if (done) {
        *text = wr_malloc(out.n + 1);
        if (*text) {
            if (out.n) memcpy(*text, out.data, out.n);
            (*text)[out.n] = 0;
            *bytes = out.n;
        } else {
            wr_jfail(&run, WEIR_E_MEMORY, "out of memory");
        }
    }
    weir_status status = run.status;
    wr_jrun_deinit(&run);
    return status;
}
