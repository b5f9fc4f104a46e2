/* The schedule of paged attention: runs of rows, their tiles, the list of items, once a step. Lengths are data, so that
 * grids cannot depend on them; the decode and prefill kernels read what there is to do.
 *
 * Contract: attention.h says what is written; the bits of results do not depend on any choice made here. One block.
 * Bytes: some tens a row and item. */
#include "cuda/kernels/attention.cuh"

enum { N_CLASSES = 128, ALL_ROWS = WR_ATTN_SCHEDULE_THREADS };

/* Items in classes by their work in blocks, so that those of more work come first. */
WR_DEVICE int class_of(i64 blocks) {
    if (blocks < 16) return (int)blocks;
    int log2 = 31 - __clz((int)blocks), fine = (int)(blocks >> (log2 - 2)) & 3, at = 16 + (log2 - 4) * 4 + fine;
    return at < N_CLASSES ? at : N_CLASSES - 1;
}

WR_DEVICE bool seen_by_any(const wr_attn_schedule_params *p, int t) {
    return p->row_seq[t] >= 0 && p->row_seq[t] < p->n_seqs;
}

/* Whether row t begins a run: rows of one sequence at consecutive positions, or rows of no sequence. */
WR_DEVICE bool begins_run(const wr_attn_schedule_params *p, int t) {
    if (t == 0) return true;
    bool valid = seen_by_any(p, t), before = seen_by_any(p, t - 1);
    if (!valid || !before) return valid != before;
    return p->row_seq[t] != p->row_seq[t - 1] || (i64)p->row_pos[t] != (i64)p->row_pos[t - 1] + 1;
}

/* run_start of every row, run_end of every row that begins a run. */
WR_DEVICE void find_runs(const wr_attn_schedule_params *p, int *warp_last, int *carry) {
    int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    if (threadIdx.x == 0) *carry = 0;
    for (int base = 0; base < p->n_rows; base += ALL_ROWS) {
        int t = base + (int)threadIdx.x, last = t < p->n_rows && begins_run(p, t) ? t : -1;
        for (int step = 1; step < 32; step *= 2) {
            int left = __shfl_up_sync(0xFFFFFFFFu, last, (u32)step);
            if (lane >= step && left > last) last = left;
        }
        if (lane == 31) warp_last[warp] = last;
        __syncthreads();
        int before = *carry;
        for (int w = 0; w < warp; w++) before = warp_last[w] > before ? warp_last[w] : before;
        if (before > last) last = before;
        if (t < p->n_rows) p->run_start[t] = last;
        __syncthreads();
        if ((int)threadIdx.x == ALL_ROWS - 1) *carry = last;
        __syncthreads();
    }
    for (int t = (int)threadIdx.x; t < p->n_rows; t += ALL_ROWS) {
        if (t > 0 && p->run_start[t] == t) p->run_end[p->run_start[t - 1]] = t;
        if (t == p->n_rows - 1) p->run_end[p->run_start[t]] = p->n_rows;
    }
    __syncthreads();
}

WR_DEVICE bool is_prefill(const wr_attn_schedule_params *p, int start) {
    return p->prefill_tile > 0 && seen_by_any(p, start) && p->run_end[start] - start >= WR_ATTN_PREFILL_MIN_ROWS;
}

/* A decode tile and what it sees. */
typedef struct tile_range {
    int row, first, n_rows, span, n_spans;
    i64 block, block_end; /* [block, block_end): blocks with a key that some row sees */
    int from, to, all_from, all_to;
} tile_range;

WR_DEVICE tile_range tile_at(const wr_attn_schedule_params *p, int row, int first) {
    int start = p->run_start[row], left = (p->run_end[start] - row) * p->group - first;
    tile_range r = {row, first, left < p->tile_rows ? left : p->tile_rows, 0, 0, 0, 0, 0, -1, 0, -1};
    if (!seen_by_any(p, row)) return r;
    i64 pos = p->row_pos[row], last_pos = pos + (first + r.n_rows - 1) / p->group;
    i64 from = wr_attn_first_key(pos, p->window), to = wr_attn_last_key(last_pos, p->n_keys);
    if (to < from) return r;
    r.from = (int)from;
    r.to = (int)to;
    r.all_from = (int)wr_attn_first_key(last_pos, p->window);
    r.all_to = (int)wr_attn_last_key(pos, p->n_keys);
    r.block = from / p->block;
    r.block_end = to / p->block + 1;
    r.span = wr_attn_span_of(r.block);
    r.n_spans = wr_attn_span_of(r.block_end - 1) - r.span + 1;
    return r;
}

/* Blocks of spans from .. until - 1 that the tile visits. */
WR_DEVICE i64 blocks_between(const tile_range *r, int from, int until) {
    i64 begin = wr_attn_span_begin(from), end = wr_attn_span_begin(until);
    if (begin < r->block) begin = r->block;
    if (end > r->block_end) end = r->block_end;
    return end - begin;
}

/* The end of the item that begins at span `from`: as many spans as stay within the target, at least one. */
WR_DEVICE int item_end(const tile_range *r, int from, i64 target) {
    int end = r->span + r->n_spans, until = from + 1;
    while (until < end && blocks_between(r, from, until + 1) <= target) until++;
    return until;
}

typedef struct schedule_state {
    int counts[N_CLASSES], prefill_counts[N_CLASSES]; /* first how many, then the place of the next */
    int n_tiles, n_cuts, n_counters, carry;
    u64 n_partial, n_blocks;
    int warp_last[ALL_ROWS / 32];
} schedule_state;

/* Lists decode tiles; counts blocks, and prefill items by class. */
WR_DEVICE void list_tiles(const wr_attn_schedule_params *p, schedule_state *s) {
    for (int t = (int)threadIdx.x; t < p->n_rows; t += ALL_ROWS) {
        int start = p->run_start[t], at = (t - start) % p->tile_rows;
        if (is_prefill(p, start)) {
            if ((t - start) % p->prefill_tile != 0) continue;
            int end = p->run_end[start] < t + p->prefill_tile ? p->run_end[start] : t + p->prefill_tile;
            atomicAdd(&s->prefill_counts[class_of(tile_at(p, end - 1, 0).block_end)], 1);
            continue;
        }
        /* Tiles begin at multiples of tile_rows of the run's query rows; at: the same as (t - start), modulo tiles. */
        int first = at * p->group % p->tile_rows;
        for (first = first ? p->tile_rows - first : 0; first < p->group; first += p->tile_rows) {
            tile_range r = tile_at(p, t, first);
            int *tile = p->tiles + (i64)atomicAdd(&s->n_tiles, 1) * 4;
            tile[0] = t;
            tile[1] = first;
            atomicAdd(&s->n_blocks, (u64)(r.block_end - r.block));
        }
    }
}

/* Whether the tile is cut, and where its parts go; counts its items. */
WR_DEVICE void plan_tile(const wr_attn_schedule_params *p, schedule_state *s, int *tile, i64 target) {
    tile_range r = tile_at(p, tile[0], tile[1]);
    tile[2] = 0;
    tile[3] = false;
    if (r.n_spans > 1 && r.block_end - r.block > target) {
        u64 need = (u64)r.n_spans * r.n_rows * p->kv_heads, at = atomicAdd(&s->n_partial, need);
        if (at + need <= p->max_partial_rows) {
            tile[2] = (int)at;
            tile[3] = true;
        }
    }
    if (!tile[3]) {
        atomicAdd(&s->counts[class_of(r.block_end - r.block)], 1);
        return;
    }
    for (int from = r.span, until; from < r.span + r.n_spans; from = until) {
        until = item_end(&r, from, target);
        atomicAdd(&s->counts[class_of(blocks_between(&r, from, until))], 1);
    }
}

WR_DEVICE void emit_tile(const wr_attn_schedule_params *p, schedule_state *s, const int *tile, i64 target) {
    tile_range r = tile_at(p, tile[0], tile[1]);
    bool valid = seen_by_any(p, r.row);
    wr_attn_item item = {0};
    item.counter = -1;
    item.row = r.row;
    item.pos = p->row_pos[r.row];
    item.seq = valid ? p->row_seq[r.row] : -1;
    item.first = r.first;
    item.n_rows = r.n_rows;
    item.span = r.span;
    item.n_spans = r.n_spans;
    item.block = (int)r.block;
    item.last = (int)r.block_end - 1;
    item.from = r.from;
    item.to = r.to;
    item.all_from = r.all_from;
    item.all_to = r.all_to;
    if (!tile[3]) {
        p->items[atomicAdd(&s->counts[class_of(r.block_end - r.block)], 1)] = item;
        return;
    }
    item.tile_span = r.span;
    item.tile_spans = r.n_spans;
    item.partial = (u32)tile[2];
    for (int from = r.span, until; from < r.span + r.n_spans; from = until, item.tile_items++)
        until = item_end(&r, from, target);
    const int units = r.n_rows * p->value_dim / 4;
    if (units <= WR_ATTN_SMALL_UNITS && r.n_spans * units <= WR_ATTN_SMALL_MERGE)
        item.counter = atomicAdd(&s->n_counters, 1);
    else
        p->cuts[atomicAdd(&s->n_cuts, 1)] = item;
    for (int from = r.span, until; from < r.span + r.n_spans; from = until) {
        until = item_end(&r, from, target);
        item.span = from;
        item.n_spans = until - from;
        i64 begin = wr_attn_span_begin(from), end = wr_attn_span_begin(until);
        item.block = (int)(begin < r.block ? r.block : begin);
        item.last = (int)(end > r.block_end ? r.block_end : end) - 1;
        p->items[atomicAdd(&s->counts[class_of(blocks_between(&r, from, until))], 1)] = item;
    }
}

/* From how many of each class to where each class begins, the greatest first; returns how many in all. */
WR_DEVICE int begin_classes(int *counts) {
    int at = 0;
    for (int c = N_CLASSES - 1; c >= 0; c--) {
        int n = counts[c];
        counts[c] = at;
        at += n;
    }
    return at;
}

WR_KERNEL(wr_attn_schedule_kernel, wr_attn_schedule_params, WR_ATTN_SCHEDULE_THREADS, 1) {
    WR_SHARED_ARRAY(schedule_state, shared, 1);
    schedule_state *s = shared;
    wr_grid_launch();
    wr_grid_wait();
    for (int i = (int)threadIdx.x; i < N_CLASSES; i += ALL_ROWS) s->counts[i] = s->prefill_counts[i] = 0;
    if (threadIdx.x == 0) {
        s->n_tiles = s->n_cuts = s->n_counters = 0;
        s->n_partial = s->n_blocks = 0;
    }
    __syncthreads();
    find_runs(&p, s->warp_last, &s->carry);
    list_tiles(&p, s);
    __syncthreads();
    /* A quarter of a decode block's fair share: four items a block balance well enough. */
    i64 target = (i64)s->n_blocks * p.kv_heads / ((i64)p.n_blocks * 4);
    for (int i = (int)threadIdx.x; i < s->n_tiles * p.kv_heads; i += ALL_ROWS) p.arrived[i] = 0;
    for (int i = (int)threadIdx.x; i < s->n_tiles; i += ALL_ROWS) plan_tile(&p, s, p.tiles + (i64)i * 4, target);
    __syncthreads();
    if (threadIdx.x == 0) {
        p.schedule->n_items = (u32)begin_classes(s->counts);
        p.schedule->next = p.schedule->done = 0;
        p.schedule->n_partial_rows = (u32)(s->n_partial < p.max_partial_rows ? s->n_partial : p.max_partial_rows);
    }
    if (threadIdx.x == 32) {
        p.schedule->n_prefill = (u32)begin_classes(s->prefill_counts);
        p.schedule->prefill_next = p.schedule->prefill_done = 0;
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < s->n_tiles; i += ALL_ROWS) emit_tile(&p, s, p.tiles + (i64)i * 4, target);
    for (int t = (int)threadIdx.x; t < p.n_rows && p.prefill_tile > 0; t += ALL_ROWS) {
        int start = p.run_start[t];
        if ((t - start) % p.prefill_tile != 0 || !is_prefill(&p, start)) continue;
        int end = p.run_end[start] < t + p.prefill_tile ? p.run_end[start] : t + p.prefill_tile;
        wr_attn_prefill_item item = {t, end - t, p.row_pos[t], p.row_seq[t]};
        p.prefill[atomicAdd(&s->prefill_counts[class_of(tile_at(&p, end - 1, 0).block_end)], 1)] = item;
    }
    __syncthreads();
    if (threadIdx.x == 0) p.schedule->n_cuts = (u32)s->n_cuts;
}
