/* WEIR_TRACE. Set to anything, each compiled program prints its steps; set to "time", each program prints where its
 * time went when it is freed: by op, variant and weight shape, most expensive first. */
#include <stdlib.h>
#include <string.h>

#include "array/compile.h"
#include "array/custom.h"

static const char *setting(void) {
    const char *text = getenv("WEIR_TRACE");
    return text && *text && strcmp(text, "0") != 0 ? text : NULL;
}

bool wr_trace_times(void) {
    const char *text = setting();
    return text && !strcmp(text, "time");
}

bool wr_trace_enabled(void) { return setting() && !wr_trace_times(); }

static bool is_prepare(const wr_step *step, const wr_step *next) {
    /* A prepare step is the only one that lends its inputs to a later step. */
    return next && step->in == next->in && step->n_in > 0;
}

static void describe_tensor(const wr_tensor *t, char *text, size_t size) {
    bool plain = wr_is_contiguous(t->n_dims, t->shape, t->strides);
    snprintf(text, size, "%s %.150s%s", weir_dtype_name(t->dtype), wr_shape_text(t->n_dims, t->shape).s,
             plain ? "" : " strided");
}

static int describe_fused(const wr_step *step, char *text, size_t size) {
    const wr_fused_args *args = step->args;
    int n = 0;
    for (int i = 0; i < args->n && (size_t)n + 24 < size; i++)
        n += snprintf(text + n, size - (size_t)n, "%s%s", i ? "+" : "", wr_ops[args->code[i].op].name);
    return n;
}

static bool step_is_prepare(const wr_program *program, int i) {
    for (int k = i + 1; k < program->n_steps; k++)
        if (is_prepare(&program->steps[i], &program->steps[k])) return true;
    return false;
}

void wr_trace_program(const wr_program *program) {
    int barriers = 0;
    for (int i = 0; i < program->n_steps; i++) barriers += program->steps[i].sync;
    fprintf(stderr, "weir: program %p: %d steps, %d barriers, %zu bytes of activations, %zu of its own%s\n",
            (const void *)program, program->n_steps, barriers, program->arena_bytes, program->own_bytes,
            program->serial ? ", one thread" : "");
    for (int i = 0; i < program->n_steps; i++) {
        const wr_step *step = &program->steps[i];
        char out[192], name[320];
        int n = snprintf(name, sizeof name, "%s ", wr_ops[step->op].name);
        if (step->op == WR_OP_FUSED) describe_fused(step, name + n, sizeof name - (size_t)n);
        if (step->op == WR_OP_CUSTOM) snprintf(name + n, sizeof name - (size_t)n, "%s", wr_step_kernel(step)->name);
        describe_tensor(&step->out, out, sizeof out);
        fprintf(stderr, "weir: %5d %c %s%s [%s] -> %s", i,
                step->sync      ? '|'
                : step->barrier ? ':'
                                : ' ',
                name, step_is_prepare(program, i) ? " (prepare)" : "", step->variant, out);
        for (int k = 0; k < step->n_in; k++) {
            describe_tensor(&step->in[k], out, sizeof out);
            fprintf(stderr, "%s %s", k ? "," : " from", out);
        }
        fprintf(stderr, "\n");
    }
}

/* ---- times ---- */

enum { MAX_LINES = 256 };
typedef struct line {
    char label[WR_TRACE_LABEL];
    uint64_t ns;
    int64_t steps, bytes; /* bytes of a run: inputs and output as they are */
} line;

static int64_t tensor_bytes(const wr_tensor *t) {
    int64_t n = (int64_t)weir_dtype_bytes(t->dtype);
    for (int i = 0; i < t->n_dims; i++)
        if (t->strides[i] != 0) n *= t->shape[i];
    return n;
}

void wr_trace_label(const wr_program *program, int i, char *text) {
    const wr_step *step = &program->steps[i];
    int n = snprintf(text, WR_TRACE_LABEL, "%s", wr_ops[step->op].name);
    if (step->op == WR_OP_LINEAR || step->op == WR_OP_LINEAR_ADD || step->op == WR_OP_LINEAR_GATED ||
        step->op == WR_OP_NORM_LINEAR || step->op == WR_OP_GATHER_LINEAR || step->op == WR_OP_EMBEDDING) {
        const wr_linear_args *args = step->args;
        n += snprintf(text + n, (size_t)(WR_TRACE_LABEL - n), " %s %lldx%lld", weir_quant_name(args->quant.mode),
                      (long long)args->rows, (long long)args->cols);
    } else if (step->op == WR_OP_FUSED) {
        text[n++] = ' ';
        n += describe_fused(step, text + n, (size_t)(WR_TRACE_LABEL - 40 - n));
    } else if (step->op == WR_OP_CUSTOM) {
        n += snprintf(text + n, (size_t)(WR_TRACE_LABEL - n), " %.100s", wr_step_kernel(step)->name);
    }
    snprintf(text + n, (size_t)(WR_TRACE_LABEL - n), "%s [%s]", step_is_prepare(program, i) ? " prepare" : "",
             step->variant);
}

void wr_trace_report(const wr_program *program) {
    static const char others[] = "(others)";
    if (!program->step_ns || program->n_runs == 0) return;
    line *lines = wr_calloc(MAX_LINES, sizeof *lines);
    if (!lines) return;
    int n = 0;
    uint64_t total = 0;
    for (int i = 0; i < program->n_steps; i++) {
        char label[WR_TRACE_LABEL];
        int k = 0;
        wr_trace_label(program, i, label);
        while (k < n && strcmp(lines[k].label, label) != 0) k++;
        if (k == n && n == MAX_LINES) k = MAX_LINES - 1;
        if (k == n) n++;
        snprintf(lines[k].label, WR_TRACE_LABEL, "%s", k == MAX_LINES - 1 ? others : label);
        lines[k].ns += program->step_ns[i];
        lines[k].steps++;
        lines[k].bytes += tensor_bytes(&program->steps[i].out);
        for (int t = 0; t < program->steps[i].n_in; t++) lines[k].bytes += tensor_bytes(&program->steps[i].in[t]);
        total += program->step_ns[i];
    }
    int barriers = 0;
    for (int i = 0; i < program->n_steps; i++) barriers += program->steps[i].sync;
    const wr_tensor *out = &program->outputs[0];
    fprintf(stderr, "weir: times of program %p (-> %s %s): %llu runs of %d steps, %d barriers, %.1f us a run\n",
            (const void *)program, weir_dtype_name(out->dtype), wr_shape_text(out->n_dims, out->shape).s,
            (unsigned long long)program->n_runs, program->n_steps, barriers,
            (double)total / (double)program->n_runs / 1e3);
    fprintf(stderr, "weir:   share      us/run   steps   us/step     GB/s  step\n");
    for (int shown = 0; shown < n; shown++) {
        int most = shown;
        for (int k = shown + 1; k < n; k++)
            if (lines[k].ns > lines[most].ns) most = k;
        line t = lines[most];
        lines[most] = lines[shown];
        lines[shown] = t;
        double ns = (double)t.ns / (double)program->n_runs;
        fprintf(stderr, "weir:  %5.1f %% %10.1f %7lld %9.2f %8.2f  %s\n",
                total ? 100.0 * (double)t.ns / (double)total : 0.0, ns / 1e3, (long long)t.steps,
                ns / 1e3 / (double)t.steps, ns > 0 ? (double)t.bytes / ns : 0.0, t.label);
    }
    wr_free(lines);
}
