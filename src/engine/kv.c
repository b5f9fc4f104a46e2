/* Owns the KV memory: one block for all layers, page free lists, block tables. */
#include "engine/kv.h"

#include <string.h>

static int64_t pages_for(int64_t tokens) { return (tokens + WR_PAGE_TOKENS - 1) / WR_PAGE_TOKENS; }

/* A windowed sequence holds the window, the chunk being written, and a page cut at either end. */
static int64_t windowed_pages(int64_t window, int64_t chunk, int64_t max_pages) {
    int64_t need = pages_for(window) + pages_for(chunk) + 2;
    return need < max_pages ? need : max_pages;
}

weir_status wr_kv_plan_make(const wr_model *m, int64_t max_context, int64_t max_batch, int64_t max_step_tokens,
                            size_t kv_bytes, weir_dtype dtype, wr_kv_plan *plan, weir_error *err) {
    *plan = (wr_kv_plan){.max_pages = pages_for(max_context)};
    size_t page_bytes[WR_MAX_KV_GROUPS], fixed = 0;
    int full = -1;
    for (int g = 0; g < m->hyper.n_kv_groups; g++) {
        int64_t window = m->hyper.window[g];
        page_bytes[g] = wr_model_kv_bytes_per_token(m, g, dtype) * WR_PAGE_TOKENS;
        if (window)
            plan->n_pages[g] = max_batch * windowed_pages(window, max_step_tokens, plan->max_pages);
        else
            plan->n_pages[g] = plan->max_pages + (max_batch - 1) * ((plan->max_pages + 3) / 4), full = g;
        if (window) fixed += (size_t)plan->n_pages[g] * page_bytes[g];
    }
    size_t smallest = fixed + (full >= 0 ? page_bytes[full] : 0);
    if (kv_bytes && kv_bytes < smallest)
        return WR_FAIL(err, WEIR_E_LIMIT, "kv_bytes %zu is less than the smallest possible, %zu%s", kv_bytes, smallest,
                       fixed ? "; a smaller max_batch or max_step_tokens needs less" : "");
    if (kv_bytes && full >= 0) {
        int64_t n = (int64_t)((kv_bytes - fixed) / page_bytes[full]);
        if (n > max_batch * plan->max_pages) n = max_batch * plan->max_pages;
        plan->n_pages[full] = n;
    }
    for (int g = 0; g < m->hyper.n_kv_groups; g++) {
        size_t bytes;
        if (!wr_mul_size((size_t)plan->n_pages[g], page_bytes[g], &bytes) ||
            !wr_add_size(plan->bytes, bytes, &plan->bytes))
            return WR_FAIL(err, WEIR_E_LIMIT,
                           "keys and values for %lld sequences of %lld tokens exceed the address space",
                           (long long)max_batch, (long long)max_context);
    }
    return WEIR_OK;
}

static weir_status init_group(wr_kv_group *g, int64_t n_pages, int64_t window, weir_error *err) {
    g->window = window;
    g->n_pages = g->n_free = n_pages;
    g->free = wr_malloc((size_t)n_pages * sizeof *g->free);
    if (!g->free) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for a list of %lld pages", (long long)n_pages);
    for (int64_t i = 0; i < n_pages; i++) g->free[i] = (int32_t)(n_pages - 1 - i); /* low numbers first */
    return WEIR_OK;
}

static weir_status init_tables(wr_kv *kv, weir_error *err) {
    size_t bytes = wr_kv_tables_bytes(kv);
    kv->tables = wr_malloc(bytes);
    if (!kv->tables) return WR_FAIL(err, WEIR_E_MEMORY, "no memory for block tables of %zu bytes", bytes);
    memset(kv->tables, 0xff, bytes);
    kv->changed_end = (int64_t)(bytes / sizeof *kv->tables);
    return WEIR_OK;
}

static weir_status init_layers(wr_kv *kv, const wr_model *m, weir_dtype dtype, weir_error *err) {
    kv->keys = wr_calloc((size_t)kv->n_layers, sizeof *kv->keys);
    kv->values = wr_calloc((size_t)kv->n_layers, sizeof *kv->values);
    if (!kv->keys || !kv->values)
        return WR_FAIL(err, WEIR_E_MEMORY, "no memory for the list of %lld layers", (long long)kv->n_layers);
    weir_status st = wr_device_reserve(kv->device, kv->bytes, &kv->memory, err);
    if (st != WEIR_OK) {
        wr_err_context(err, "%zu bytes of keys and values; lower the context or the batch", kv->bytes);
        return st;
    }
    if (wr_device_is_host(kv->device)) wr_pages_sparse(kv->memory, kv->bytes);
    uint8_t *at = kv->memory;
    for (int64_t i = 0; i < kv->n_layers; i++) {
        size_t token = (size_t)(m->hyper.n_kv_heads * wr_model_kv_columns(m)) * weir_dtype_bytes(dtype);
        size_t bytes = (size_t)kv->group[m->hyper.layer_kv_group[i]].n_pages * WR_PAGE_TOKENS * token;
        WR_TRY(wr_buffer_view(at, bytes, &kv->keys[i], err));
        WR_TRY(wr_buffer_view(at + bytes, bytes, &kv->values[i], err));
        at += 2 * bytes;
    }
    return WEIR_OK;
}

weir_status wr_kv_init(wr_kv *kv, const wr_model *m, const wr_kv_plan *plan, weir_device *device, int64_t max_batch,
                       weir_dtype dtype, weir_error *err) {
    *kv = (wr_kv){.n_groups = m->hyper.n_kv_groups,
                  .max_batch = max_batch,
                  .max_pages = plan->max_pages,
                  .n_layers = m->hyper.n_layers,
                  .device = device,
                  .bytes = plan->bytes};
    weir_status st = WEIR_OK;
    for (int g = 0; g < kv->n_groups; g++)
        WR_TRY_GOTO(st, init_group(&kv->group[g], plan->n_pages[g], m->hyper.window[g], err), fail);
    WR_TRY_GOTO(st, init_tables(kv, err), fail);
    WR_TRY_GOTO(st, init_layers(kv, m, dtype, err), fail);
    return WEIR_OK;
fail:
    wr_kv_deinit(kv);
    return st;
}

void wr_kv_deinit(wr_kv *kv) {
    for (int g = 0; g < kv->n_groups; g++) wr_free(kv->group[g].free);
    wr_free(kv->tables);
    for (int64_t i = 0; i < kv->n_layers; i++) {
        if (kv->keys) wr_buffer_release(kv->keys[i]);
        if (kv->values) wr_buffer_release(kv->values[i]);
    }
    wr_free(kv->keys);
    wr_free(kv->values);
    wr_device_release(kv->device, kv->memory, kv->bytes);
    *kv = (wr_kv){0};
}

static int32_t *table_row(const wr_kv *kv, int g, int64_t slot) {
    return kv->tables + (g * kv->max_batch + slot) * kv->max_pages;
}

static void set_cell(wr_kv *kv, int32_t *cell, int32_t page) {
    int64_t i = cell - kv->tables;
    if (i < kv->changed_first) kv->changed_first = i;
    if (i >= kv->changed_end) kv->changed_end = i + 1;
    *cell = page;
}

static void give_back(wr_kv *kv, wr_kv_group *g, int32_t *cell) {
    if (*cell < 0) return;
    g->free[g->n_free++] = *cell;
    set_cell(kv, cell, -1);
}

bool wr_kv_reserve(wr_kv *kv, int64_t slot, int64_t first, int64_t end) {
    int64_t first_page = first / WR_PAGE_TOKENS, end_page = pages_for(end);
    for (int i = 0; i < kv->n_groups; i++) { /* pages wholly behind the window of the first new query */
        wr_kv_group *g = &kv->group[i];
        int32_t *row = table_row(kv, i, slot);
        int64_t seen = g->window ? first - g->window + 1 : 0;
        for (int64_t p = (seen > 0 ? seen : 0) / WR_PAGE_TOKENS - 1; p >= 0 && row[p] >= 0; p--)
            give_back(kv, g, &row[p]);
    }
    for (int i = 0; i < kv->n_groups; i++) {
        int64_t need = 0;
        const int32_t *row = table_row(kv, i, slot);
        for (int64_t p = first_page; p < end_page; p++) need += row[p] < 0;
        if (need > kv->group[i].n_free) return false;
    }
    for (int i = 0; i < kv->n_groups; i++) {
        wr_kv_group *g = &kv->group[i];
        int32_t *row = table_row(kv, i, slot);
        for (int64_t p = first_page; p < end_page; p++)
            if (row[p] < 0) set_cell(kv, &row[p], g->free[--g->n_free]);
    }
    return true;
}

void wr_kv_release(wr_kv *kv, int64_t slot) {
    for (int i = 0; i < kv->n_groups; i++) {
        int32_t *row = table_row(kv, i, slot);
        for (int64_t p = 0; p < kv->max_pages; p++) give_back(kv, &kv->group[i], &row[p]);
    }
}

bool wr_kv_has_room(const wr_kv *kv, int64_t n_tokens, int64_t max_step_tokens) {
    for (int i = 0; i < kv->n_groups; i++) {
        const wr_kv_group *g = &kv->group[i];
        int64_t need = pages_for(n_tokens);
        if (g->window) need = windowed_pages(g->window, max_step_tokens, need);
        if (need > g->n_free) return false;
    }
    return true;
}

int64_t wr_kv_capacity(const wr_kv *kv, int64_t max_step_tokens) {
    int64_t tokens = kv->max_pages * WR_PAGE_TOKENS;
    for (int i = 0; i < kv->n_groups; i++) {
        const wr_kv_group *g = &kv->group[i];
        bool endless = g->window && g->n_pages >= windowed_pages(g->window, max_step_tokens, kv->max_pages);
        if (!endless && g->n_pages * WR_PAGE_TOKENS < tokens) tokens = g->n_pages * WR_PAGE_TOKENS;
    }
    return tokens;
}
