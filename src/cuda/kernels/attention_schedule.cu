/* The schedule of paged attention: runs of rows, their tiles, the list of items, once a step. Lengths are data, so that
 * grids cannot depend on them; the decode and prefill kernels read what there is to do.
 *
 * Contract: attention.h says what is written; the bits of results do not depend on any choice made here. One block.
 * Bytes: 16 a row, 128 an item. Operations: none of floats; the time is latency, once a step. */
#include "cuda/kernels/attention.cuh"

enum { N_CLASSES = 128, ALL_ROWS = WR_ATTN_SCHEDULE_THREADS };

/* Prefill items in classes by their work in blocks, so that those of more work come first. */
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

/* A place in the list of all decode work, which goes tile by tile, head by head, span by span. unit: tile * kv_heads +
 * head; span: absolute, 0 when the unit begins there (it may not be its first span otherwise). */
typedef struct work_place {
    int unit, span;
} work_place;

/* What the items of a cut unit have in common; kept with the chunk in which the unit begins. */
typedef struct unit_cut {
    int n_items, n_parts, part_span;
    u32 partial;
} unit_cut;

enum { COST_BITS = 40 };

typedef struct schedule_state {
    int prefill_counts[N_CLASSES]; /* first how many, then the place of the next */
    int n_cuts, n_extra, carry, longest, whole;
    u64 n_partial;
    u64 tiles;                                 /* how many << COST_BITS | their work for one head, in blocks */
    work_place begins[WR_ATTN_MAX_CHUNKS + 1]; /* of chunks */
    unit_cut cuts[WR_ATTN_MAX_CHUNKS];
    int warp_last[ALL_ROWS / 32];
} schedule_state;

WR_DEVICE int count_tiles(const schedule_state *s) { return (int)(s->tiles >> COST_BITS); }
WR_DEVICE i64 work_of(const wr_attn_schedule_params *p, const schedule_state *s) {
    return (i64)(s->tiles & (((u64)1 << COST_BITS) - 1)) * p->kv_heads;
}
/* Of a tile for one head, in blocks. Rows that see nothing have to be written too. */
WR_DEVICE i64 cost_of(const tile_range *r) { return r->block_end > r->block ? r->block_end - r->block : 1; }

/* Lists decode tiles, in any order, each with the work before it; counts prefill items by class. */
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
            const tile_range r = tile_at(p, t, first);
            const u64 before = atomicAdd(&s->tiles, ((u64)1 << COST_BITS) | (u64)cost_of(&r));
            const wr_attn_tile tile = {t, first, (i64)(before & (((u64)1 << COST_BITS) - 1))};
            p->tiles[before >> COST_BITS] = tile;
            atomicMax(&s->longest, (int)cost_of(&r));
        }
    }
}

/* Whether chunks of whole units keep all blocks of the decode kernel about as busy as cut ones would: parts cost their
 * way through memory and a merge, the time of two blocks. */
WR_DEVICE bool whole_is_fair(const wr_attn_schedule_params *p, const schedule_state *s) {
    const i64 n = p->n_blocks, rounds = ((i64)count_tiles(s) * p->kv_heads + n - 1) / n;
    return rounds * s->longest * n * 8 <= work_of(p, s) * 9 + 2 * n * 8;
}

/* The end of a chunk that is to end after x blocks of the list: the next place around x where the list may be cut. */
WR_DEVICE work_place place_at(const wr_attn_schedule_params *p, const schedule_state *s, i64 x) {
    int low = 0, high = count_tiles(s);
    if (x >= work_of(p, s)) {
        const work_place end = {high * p->kv_heads, 0};
        return end;
    }
    while (high - low > 1) { /* the tile: low */
        const int middle = low + (high - low) / 2;
        if (p->tiles[middle].before * p->kv_heads <= x)
            low = middle;
        else
            high = middle;
    }
    const wr_attn_tile tile = p->tiles[low];
    const tile_range r = tile_at(p, tile.row, tile.first);
    const i64 cost = cost_of(&r), inside = x - tile.before * p->kv_heads, y = inside % cost;
    const int unit = low * p->kv_heads + (int)(inside / cost);
    const work_place here = {unit, 0}, next = {unit + 1, 0};
    if (y == 0) return here;
    if (s->whole || r.n_spans <= 1) return 2 * y < cost ? here : next;
    const i64 block = r.block + y;
    const int span = wr_attn_span_of(block);
    const i64 begin = wr_attn_span_begin(span), end = wr_attn_span_begin(span + 1);
    const work_place span_begin = {unit, span}, span_end = {unit, span + 1};
    if (block - (begin < r.block ? r.block : begin) < (end > r.block_end ? r.block_end : end) - block)
        return begin <= r.block ? here : span_begin;
    return end >= r.block_end ? next : span_end;
}

WR_DEVICE tile_range range_of(const wr_attn_schedule_params *p, int unit) {
    const wr_attn_tile tile = p->tiles[unit / p->kv_heads];
    return tile_at(p, tile.row, tile.first);
}
WR_DEVICE bool is_same(work_place a, work_place b) { return a.unit == b.unit && a.span == b.span; }

/* Where chunks begin, and what is cut there. */
WR_DEVICE void cut_work(const wr_attn_schedule_params *p, schedule_state *s) {
    const i64 work = work_of(p, s);
    for (int c = (int)threadIdx.x; c <= p->n_blocks; c += ALL_ROWS)
        s->begins[c] = place_at(p, s, c * work / p->n_blocks);
    __syncthreads();
    for (int c = (int)threadIdx.x; c < p->n_blocks; c += ALL_ROWS) {
        const work_place cut = s->begins[c + 1];
        if (cut.span == 0 || (s->begins[c].unit == cut.unit && s->begins[c].span > 0)) continue;
        /* The unit that is cut there begins in this chunk. */
        const tile_range r = range_of(p, cut.unit);
        unit_cut u = {2, 1 + r.span + r.n_spans - cut.span, cut.span - 1, 0};
        for (int i = c + 2; i < p->n_blocks && s->begins[i].unit == cut.unit; i++)
            if (!is_same(s->begins[i], s->begins[i - 1])) u.n_items++;
        u.partial = (u32)atomicAdd(&s->n_partial, (u64)u.n_parts * r.n_rows);
        s->cuts[c] = u;
    }
    __syncthreads();
}

/* The pages of the item's keys, as many as it has room for. */
WR_DEVICE void name_pages(const wr_attn_schedule_params *p, wr_attn_item *item) {
    const int each = p->block / WR_KV_TILE; /* pages of a block */
    const i64 first = (i64)item->block * each, end = ((i64)item->last + 1) * each;
    for (int i = 0; i < WR_ATTN_ITEM_PAGES; i++) {
        const i64 at = first + i;
        const bool there = item->seq >= 0 && at < end && at < p->max_pages;
        const i32 page = there ? p->table[item->seq * p->max_pages + at] : -1;
        item->page[i] = page < p->n_pages ? page : -1;
    }
}

/* Writes the items of chunk c. */
WR_DEVICE void emit_chunk(const wr_attn_schedule_params *p, schedule_state *s, int c) {
    work_place at = s->begins[c];
    const work_place end = s->begins[c + 1];
    wr_attn_item *to = p->items + c;
    if (is_same(at, end)) {
        to->n_rows = 0;
        return;
    }
    for (;;) {
        const tile_range r = range_of(p, at.unit);
        const bool ends_inside = end.unit == at.unit, begins_inside = at.span > 0;
        const int span = begins_inside ? at.span : r.span, span_end = ends_inside ? end.span : r.span + r.n_spans;
        const i64 begin = wr_attn_span_begin(span), blocks_end = wr_attn_span_begin(span_end);
        wr_attn_item item = {0};
        item.row = r.row;
        item.pos = p->row_pos[r.row];
        item.seq = seen_by_any(p, r.row) ? p->row_seq[r.row] : -1;
        item.first = r.first;
        item.head = at.unit % p->kv_heads;
        item.n_rows = r.n_rows;
        item.span = span;
        item.n_spans = r.n_spans > 0 ? span_end - span : 0;
        item.block = (int)(begin < r.block ? r.block : begin);
        item.last = (int)(blocks_end > r.block_end ? r.block_end : blocks_end) - 1;
        item.from = r.from;
        item.to = r.to;
        item.all_from = r.all_from;
        item.all_to = r.all_to;
        item.counter = -1;
        if (ends_inside || begins_inside) {
            int owner = c;
            while (begins_inside && s->begins[owner].unit == at.unit && s->begins[owner].span > 0) owner--;
            const unit_cut *u = &s->cuts[owner];
            item.n_items = u->n_items;
            item.n_parts = u->n_parts;
            item.partial = u->partial;
            item.part_span = begins_inside ? u->part_span : span;
            const int fours = r.n_rows * p->value_dim / 4;
            if (fours <= WR_ATTN_SMALL_UNITS && u->n_parts * fours <= WR_ATTN_SMALL_MERGE)
                item.counter = owner;
            else if (!begins_inside)
                p->cuts[atomicAdd(&s->n_cuts, 1)] = item;
        }
        name_pages(p, &item);
        const work_place next = {at.unit + 1, 0};
        at = ends_inside ? end : next;
        item.next = is_same(at, end) ? -1 : p->n_blocks + atomicAdd(&s->n_extra, 1);
        *to = item;
        if (item.next < 0) return;
        to = p->items + item.next;
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
    for (int i = (int)threadIdx.x; i < N_CLASSES; i += ALL_ROWS) s->prefill_counts[i] = 0;
    for (int i = (int)threadIdx.x; i < p.n_blocks; i += ALL_ROWS) p.arrived[i] = 0;
    if (threadIdx.x == 0) {
        s->n_cuts = s->n_extra = s->longest = 0;
        s->n_partial = s->tiles = 0;
    }
    __syncthreads();
    find_runs(&p, s->warp_last, &s->carry);
    list_tiles(&p, s);
    __syncthreads();
    if (threadIdx.x == 0) s->whole = whole_is_fair(&p, s);
    __syncthreads();
    cut_work(&p, s);
    if (s->n_partial > p.max_partial_rows) { /* no room for so many parts */
        __syncthreads();
        if (threadIdx.x == 0) s->whole = true, s->n_partial = 0;
        __syncthreads();
        cut_work(&p, s);
    }
    for (int c = (int)threadIdx.x; c < p.n_blocks; c += ALL_ROWS) emit_chunk(&p, s, c);
    if (threadIdx.x == 32) {
        p.schedule->n_prefill = (u32)begin_classes(s->prefill_counts);
        p.schedule->prefill_next = p.schedule->prefill_done = 0;
        p.schedule->n_partial_rows = (u32)s->n_partial;
        p.schedule->n_chunks = (u32)p.n_blocks;
    }
    __syncthreads();
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
