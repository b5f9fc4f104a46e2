/* weir inspect: what a checkpoint is, and the memory it would take. Reads headers only. */
#include <string.h>

#include "cli/cli.h"
#include "engine/plan.h"

static json_t *shape_list(const wr_tensor_info *t) {
    json_t *list = json_array();
    for (int i = 0; i < t->n_dims; i++) json_array_append_new(list, json_integer(t->shape[i]));
    return list;
}

static weir_status show_json(const wr_plan *p, const wr_memory *m, weir_error *err) {
    const wr_hyper *h = &p->model->hyper;
    const char *path = wr_checkpoint_path(p->checkpoint);
    json_t *tensors = json_array();
    for (int64_t i = 0; i < wr_checkpoint_n_tensors(p->checkpoint); i++) {
        wr_tensor_info t;
        wr_checkpoint_tensor(p->checkpoint, i, &t);
        json_array_append_new(tensors, json_pack("{s:s,s:s,s:o,s:I}", "name", t.name, "format", t.format, "shape",
                                                 shape_list(&t), "bytes", (json_int_t)t.bytes));
    }
    json_t *plan =
        json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I}", "weights", (json_int_t)m->weights, "mapped",
                  (json_int_t)m->mapped, "kv", (json_int_t)m->kv, "kv_per_token", (json_int_t)p->kv_bytes_per_token,
                  "activations", (json_int_t)(m->arena + m->hidden), "inputs", (json_int_t)m->inputs, "sampler",
                  (json_int_t)(m->sampled + m->counts), "free", (json_int_t)m->free, "total", (json_int_t)m->total);
    return wr_cli_json(json_pack("{s:o,s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:b,s:s,s:o,s:o}", "path",
                                 wr_cli_json_text(path, strlen(path)), "family", p->model->family->name, "layers",
                                 (json_int_t)h->n_layers, "hidden_size", (json_int_t)h->hidden, "heads",
                                 (json_int_t)h->n_heads, "kv_heads", (json_int_t)h->n_kv_heads, "head_dim",
                                 (json_int_t)h->head_dim, "vocab_size", (json_int_t)h->vocab, "max_context",
                                 (json_int_t)p->options.max_context, "tied", h->tied, "device", p->device, "plan", plan,
                                 "tensors", tensors),
                       err);
}

/* How many tensors of each format, and their bytes. */
static void show_formats(const wr_checkpoint *c) {
    enum { MAX_FORMATS = 32 };
    struct {
        const char *name;
        int64_t n;
        size_t bytes;
    } formats[MAX_FORMATS];
    int n_formats = 0;
    for (int64_t i = 0; i < wr_checkpoint_n_tensors(c); i++) {
        wr_tensor_info t;
        wr_checkpoint_tensor(c, i, &t);
        int f = 0;
        while (f < n_formats && strcmp(formats[f].name, t.format)) f++;
        if (f == n_formats) {
            if (n_formats == MAX_FORMATS) continue;
            formats[n_formats].name = t.format;
            formats[n_formats].n = 0;
            formats[n_formats++].bytes = 0;
        }
        formats[f].n++;
        formats[f].bytes += t.bytes;
    }
    for (int f = 0; f < n_formats; f++)
        printf("  %-6s %6lld tensors  %14zu bytes\n", formats[f].name, (long long)formats[f].n, formats[f].bytes);
}

static void show_memory(const wr_plan *p, const wr_memory *m) {
    printf("memory plan on %s for %lld sequences, context %lld:\n", p->device, (long long)p->options.max_batch,
           (long long)p->options.max_context);
    printf("  weights          %14zu bytes\n", m->weights);
    if (m->mapped) printf("  weights, mapped  %14zu bytes\n", m->mapped);
    printf("  keys and values  %14zu bytes (%s, %zu a token)\n", m->kv, weir_dtype_name(p->options.kv_dtype),
           p->kv_bytes_per_token);
    printf("  activations      %14zu bytes (steps of up to %lld rows)\n", m->arena + m->hidden,
           (long long)p->options.max_step_tokens);
    printf("  step inputs      %14zu bytes\n", m->inputs);
    if (!m->total) return;
    printf("  sampler          %14zu bytes\n", m->sampled + m->counts);
    printf("  in all           %14zu bytes, of %zu that are free and %zu there are\n", wr_memory_needed(m), m->free,
           m->total);
    weir_error err;
    if (wr_memory_check(m, p->device, &err) != WEIR_OK) printf("  %s\n", err.message);
}

static void show_text(const wr_cli *cli, const wr_plan *p, const wr_memory *m) {
    const wr_hyper *h = &p->model->hyper;
    printf("%s\n", wr_checkpoint_path(p->checkpoint));
    printf("family %s: %lld layers, hidden %lld, %lld heads (%lld KV) of %lld, feed-forward %lld, vocabulary %lld%s\n",
           p->model->family->name, (long long)h->n_layers, (long long)h->hidden, (long long)h->n_heads,
           (long long)h->n_kv_heads, (long long)h->head_dim, (long long)h->ffn, (long long)h->vocab,
           h->tied ? ", tied head" : "");
    for (int g = 0; g < h->n_kv_groups; g++) {
        int64_t n = 0;
        for (int64_t i = 0; i < h->n_layers; i++) n += h->layer_kv_group[i] == g;
        if (h->window[g])
            printf("%lld layers see the last %lld tokens\n", (long long)n, (long long)h->window[g]);
        else if (h->n_kv_groups > 1)
            printf("%lld layers see everything\n", (long long)n);
    }
    printf("stored:\n");
    show_formats(p->checkpoint);
    show_memory(p, m);
    if (!cli->verbose) return;
    for (int64_t i = 0; i < wr_checkpoint_n_tensors(p->checkpoint); i++) {
        wr_tensor_info t;
        wr_checkpoint_tensor(p->checkpoint, i, &t);
        printf("%-64s %-6s [", t.name, t.format);
        for (int d = 0; d < t.n_dims; d++) printf("%s%lld", d ? ", " : "", (long long)t.shape[d]);
        printf("] %zu\n", t.bytes);
    }
}

weir_status wr_cmd_inspect(const wr_cli *cli, weir_error *err) {
    weir_engine_options options;
    wr_plan plan;
    WR_TRY(wr_cli_engine_options(cli, &options, err));
    WR_TRY(wr_plan_init(&plan, cli->model, &options, err));
    wr_memory memory;
    weir_status st = wr_plan_measure(&plan, &memory, err);
    if (st == WEIR_OK && cli->json)
        st = show_json(&plan, &memory, err);
    else if (st == WEIR_OK)
        show_text(cli, &plan, &memory);
    wr_plan_deinit(&plan);
    return st == WEIR_OK ? wr_cli_flush(err) : st;
}
