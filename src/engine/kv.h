/* Pages of keys and values. A KV group is a set of layers with the same reach
 * (everything, or a window); each group has its own pool of pages and a block
 * table row for each running sequence. One page number serves all layers of its
 * group. */
#ifndef WR_ENGINE_KV_H
#define WR_ENGINE_KV_H

#include "array/kv.h"
#include "models/model.h"

enum { WR_PAGE_TOKENS = WR_KV_TILE };

typedef struct wr_kv_group {
    int64_t window; /* 0: all keys */
    int64_t n_pages, n_free;
    int32_t *free; /* [n_pages], a stack */
} wr_kv_group;

typedef struct wr_kv {
    int n_groups;
    int64_t max_batch, max_pages; /* pages a sequence can have at the largest context */
    wr_kv_group group[WR_MAX_KV_GROUPS];
    int32_t *tables; /* [n_groups, max_batch, max_pages]; -1: no page */
    /* Cells of the tables from the first to behind the last that changed since someone set these to INT64_MAX and 0. */
    int64_t changed_first, changed_end;
    int64_t n_layers;
    weir_device *device;
    wr_buffer **keys, **values; /* [n_layers], views into memory */
    void *memory;
    size_t bytes;
} wr_kv;

/* Of one group's block table, and of all. */
static inline size_t wr_kv_table_bytes(const wr_kv *kv) {
    return (size_t)(kv->max_batch * kv->max_pages) * sizeof *kv->tables;
}
static inline size_t wr_kv_tables_bytes(const wr_kv *kv) { return (size_t)kv->n_groups * wr_kv_table_bytes(kv); }

/* How many pages each group gets, and the bytes of it all. kv_bytes 0: the default of weir/engine.h.
 * Errors: LIMIT when kv_bytes does not hold one page a group. */
typedef struct wr_kv_plan {
    int64_t n_pages[WR_MAX_KV_GROUPS], max_pages;
    size_t bytes;
} wr_kv_plan;
weir_status wr_kv_plan_make(const wr_model *model, int64_t max_context, int64_t max_batch, int64_t max_step_tokens,
                            size_t kv_bytes, weir_dtype dtype, wr_kv_plan *plan, weir_error *err);

weir_status wr_kv_init(wr_kv *kv, const wr_model *model, const wr_kv_plan *plan, weir_device *device, int64_t max_batch,
                       weir_dtype dtype, weir_error *err);
void wr_kv_deinit(wr_kv *kv);

/* Make positions [first, end) of the sequence in slot writable, and drop pages that no later query sees. All or
 * nothing: false when pages are short. */
bool wr_kv_reserve(wr_kv *kv, int64_t slot, int64_t first, int64_t end);
void wr_kv_release(wr_kv *kv, int64_t slot);
/* Are there free pages to prefill n_tokens in chunks of max_step_tokens? */
bool wr_kv_has_room(const wr_kv *kv, int64_t n_tokens, int64_t max_step_tokens);
/* The most tokens that one sequence alone could hold, prefilled in chunks of max_step_tokens. */
int64_t wr_kv_capacity(const wr_kv *kv, int64_t max_step_tokens);

#endif
