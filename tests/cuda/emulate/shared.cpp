/* Shared memory of a block and what moves data into it: static arrays, barriers, cp.async, mbarriers, bulk copies. */
#include "engine.h"

#include <stdio.h>

namespace emu {

namespace {

constexpr size_t GAP = 1024; /* canaries after dynamic shared memory and after each static array */

size_t up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

void check_canary(engine *e, size_t begin, size_t end, const char *what) {
    for (size_t i = begin; i < end; i++)
        if (e->shared[i] != CANARY)
            wr_emu_fail(0, "bytes behind %s were written, %zu past its end", what, i - begin + 1);
}

} // namespace

/* ---- layout ---- */

void shared_begin_launch(engine *e, size_t dynamic_bytes) {
    e->dynamic_bytes = dynamic_bytes;
    e->static_end = up(dynamic_bytes, 1024) + GAP;
    e->static_bytes = 0;
    e->statics.clear();
}

void shared_begin_block(engine *e) {
    memset(e->shared, POISON, e->dynamic_bytes);
    memset(e->shared + e->dynamic_bytes, CANARY, e->static_end - e->dynamic_bytes);
    for (const static_array &a : e->statics) memset(e->shared + a.offset, POISON, a.bytes);
    for (named_barrier &b : e->named) b.threads = 0, b.arrived.clear();
    e->mbarriers.clear();
    e->bulk.clear();
}

void shared_end_block(engine *e) {
    check_canary(e, e->dynamic_bytes, up(e->dynamic_bytes, 1024) + GAP, "dynamic shared memory");
    for (const static_array &a : e->statics)
        check_canary(e, a.offset + a.bytes, up(a.offset + a.bytes, 16) + GAP, "a static shared array");
    if (!e->bulk.empty()) wr_emu_fail(e->bulk[0].line, "the block ended with a bulk copy on its way");
}

namespace {

u8 *shared_of(engine *e, u32 address, u32 bytes, u32 alignment, const char *what, int line) {
    const size_t at = (size_t)address - SHARED_ORIGIN;
    bool inside = address >= SHARED_ORIGIN && at + bytes <= e->dynamic_bytes;
    for (const static_array &a : e->statics)
        inside |= address >= SHARED_ORIGIN && at >= a.offset && at + bytes <= a.offset + a.bytes;
    if (!inside)
        wr_emu_fail(line, "%s: %u bytes at shared address %u; dynamic shared memory is %u to %zu", what, bytes, address,
                    SHARED_ORIGIN, SHARED_ORIGIN + e->dynamic_bytes);
    if (address % alignment)
        wr_emu_fail(line, "%s: shared address %u is not %u-byte aligned", what, address, alignment);
    return e->shared + at;
}

} // namespace

u8 *shared_at(u32 address, u32 bytes, u32 alignment, const char *what, int line) {
    return shared_of(here, address, bytes, alignment, what, line);
}

/* ---- the block's barrier ---- */

void block_barrier_check(engine *e) {
    if (e->n_at_block_barrier == 0 || e->n_at_block_barrier < e->n_alive) return;
    e->n_at_block_barrier = 0;
    for (u32 i = 0; i < e->n_threads; i++)
        if (e->threads[i].waits == WAIT_BLOCK) wake(e, i);
}

/* ---- mbarriers ---- */

namespace {

/* What lies in the memory of a live mbarrier, so that overwriting it shows. */
u64 mark(u32 address) { return 0x6D62617272696572ull ^ (u64)address << 20; }

mbarrier *find(engine *e, u32 address, const char *what, int line) {
    const u8 *p = shared_of(e, address, 8, 8, what, line);
    for (mbarrier &b : e->mbarriers)
        if (b.address == address) {
            const u64 expected = mark(address);
            if (memcmp(p, &expected, 8) != 0)
                wr_emu_fail(line, "%s: the mbarrier at %u was overwritten", what, address);
            return &b;
        }
    wr_emu_fail(line, "%s: there is no mbarrier at shared address %u (wr_bar_init first)", what, address);
}

void check_phase(engine *e, mbarrier *b) {
    if (b->pending != 0 || b->bytes != 0) return;
    b->phase++;
    b->pending = b->count;
    for (u32 i = 0; i < e->n_threads; i++)
        if (e->threads[i].waits == WAIT_MBARRIER && e->threads[i].argument == b->address) wake(e, i);
}

} // namespace

std::string mbarrier_state(engine *e, u32 address) {
    char text[200];
    for (const mbarrier &b : e->mbarriers)
        if (b.address == address) {
            snprintf(text, sizeof(text), "mbarrier %u in phase %u, %d of %d arrivals and %lld bytes missing", address,
                     b.phase, b.pending, b.count, b.bytes);
            return text;
        }
    return "no mbarrier";
}

bool bulk_deliver(engine *e) {
    if (e->bulk.empty()) return false;
    const bulk_copy copy = std::move(e->bulk[0]);
    e->bulk.erase(e->bulk.begin());
    memcpy(e->shared + (copy.to - SHARED_ORIGIN), copy.data.data(), copy.data.size());
    mbarrier *b = find(e, copy.bar, "wr_bulk_copy", copy.line);
    b->bytes -= (i64)copy.data.size();
    check_phase(e, b);
    return true;
}

} // namespace emu

using namespace emu;

u8 *wr_emu_dynamic(void) { return here->shared; }

void *wr_emu_static(const void *key, size_t bytes) {
    engine *e = here;
    for (const static_array &a : e->statics)
        if (a.key == key) return e->shared + a.offset;
    const size_t offset = up(e->static_end, 16);
    e->static_bytes += bytes;
    if (e->static_bytes > STATIC_MOST) wr_emu_fail(0, "more than 48 KiB of static shared arrays");
    if (e->static_bytes + e->dynamic_bytes > SHARED_MOST) wr_emu_fail(0, "more than 227 KiB of shared memory");
    e->static_end = up(offset + bytes, 16) + GAP;
    e->statics.push_back({key, offset, bytes});
    memset(e->shared + offset, POISON, bytes);
    memset(e->shared + offset + bytes, CANARY, e->static_end - offset - bytes);
    return e->shared + offset;
}

u32 wr_emu_smem(const void *p, int line) {
    engine *e = here;
    const u8 *at = (const u8 *)p;
    bool inside = at >= e->shared && at <= e->shared + e->dynamic_bytes;
    for (const static_array &a : e->statics)
        inside |= at >= e->shared + a.offset && at <= e->shared + a.offset + a.bytes;
    if (!inside) wr_emu_fail(line, "wr_smem of %p, which is not in shared memory", p);
    return SHARED_ORIGIN + (u32)(at - e->shared);
}

void wr_emu_syncthreads(int line) {
    engine *e = here;
    e->n_at_block_barrier++;
    if (e->n_at_block_barrier == e->n_alive) {
        block_barrier_check(e);
        return;
    }
    thread *t = e->now;
    t->waits = WAIT_BLOCK;
    t->line = line;
    wait_here(e);
}

void wr_emu_barrier(int id, int threads, int line) {
    engine *e = here;
    if (id < 1 || id > 15) wr_emu_fail(line, "wr_barrier %d; a name is 1 to 15 (0 is __syncthreads)", id);
    if (threads <= 0 || threads % 32) wr_emu_fail(line, "wr_barrier %d of %d threads, no whole warps", id, threads);
    named_barrier &b = e->named[id];
    if (b.threads == 0) b.threads = threads;
    if (b.threads != threads)
        wr_emu_fail(line, "wr_barrier %d of %d threads, where others wait for %d", id, threads, b.threads);
    thread *t = e->now;
    b.arrived.push_back(t->id);
    if ((int)b.arrived.size() == threads) {
        for (u32 other : b.arrived)
            if (other != t->id) wake(e, other);
        b.threads = 0;
        b.arrived.clear();
        return;
    }
    t->waits = WAIT_NAMED;
    t->op = id;
    t->line = line;
    wait_here(e);
}

/* ---- cp.async: the target is poison until the wait ---- */

void wr_emu_cp16(u32 to, const void *from, bool valid, int line) {
    u8 *target = shared_at(to, 16, 16, "wr_cp16", line);
    if ((uintptr_t)from % 16) wr_emu_fail(line, "wr_cp16 from %p, which is not 16-byte aligned", from);
    thread *t = here->now;
    t->copies.push_back({to, {0, 0}, t->copy_group});
    if (valid) memcpy(t->copies.back().data, from, 16);
    memset(target, POISON, 16);
}

void wr_emu_cp_commit(void) { here->now->copy_group++; }

void wr_emu_cp_wait(int pending) {
    thread *t = here->now;
    size_t n = 0;
    for (; n < t->copies.size() && t->copies[n].group + (u32)pending < t->copy_group; n++)
        memcpy(here->shared + (t->copies[n].to - SHARED_ORIGIN), t->copies[n].data, 16);
    t->copies.erase(t->copies.begin(), t->copies.begin() + (long)n);
}

/* ---- mbarriers ---- */

void wr_emu_bar_init(u32 bar, int count, int line) {
    engine *e = here;
    u8 *p = shared_at(bar, 8, 8, "wr_bar_init", line);
    if (count < 1 || count >= 1 << 20) wr_emu_fail(line, "wr_bar_init for %d arrivals", count);
    for (u32 i = 0; i < e->n_threads; i++)
        if (e->threads[i].waits == WAIT_MBARRIER && e->threads[i].argument == bar)
            wr_emu_fail(line, "wr_bar_init of a barrier that thread %u waits for", i);
    const u64 m = mark(bar);
    memcpy(p, &m, 8);
    for (mbarrier &b : e->mbarriers)
        if (b.address == bar) {
            b = {bar, count, count, 0, 0};
            return;
        }
    e->mbarriers.push_back({bar, count, count, 0, 0});
}

namespace {

void arrive(engine *e, u32 bar, u32 expected_bytes, int line) {
    mbarrier *b = find(e, bar, "arrival", line);
    if (b->pending == 0) wr_emu_fail(line, "one arrival too many at mbarrier %u, whose phase lacks only bytes", bar);
    b->bytes += expected_bytes;
    if (b->bytes >= 1 << 20) wr_emu_fail(line, "mbarrier %u expects %lld bytes, the most is 1,048,575", bar, b->bytes);
    b->pending--;
    check_phase(e, b);
}

} // namespace

void wr_emu_bar_arrive(u32 bar, u32 expected_bytes, int line) { arrive(here, bar, expected_bytes, line); }

void wr_emu_bar_wait(u32 bar, int parity, int line) {
    engine *e = here;
    thread *t = e->now;
    if (parity != 0 && parity != 1) wr_emu_fail(line, "wr_bar_wait for parity %d", parity);
    /* Asked again after waking: by then a barrier may be a phase further, and then a card waits too. */
    while ((int)(find(e, bar, "wr_bar_wait", line)->phase & 1) == parity) {
        t->waits = WAIT_MBARRIER;
        t->op = parity;
        t->argument = bar;
        t->line = line;
        wait_here(e);
    }
}

void wr_emu_bulk_copy(u32 to, const void *from, u32 bytes, u32 bar, int line) {
    find(here, bar, "wr_bulk_copy", line);
    if (bytes == 0 || bytes % 16) wr_emu_fail(line, "wr_bulk_copy of %u bytes, no multiple of 16", bytes);
    if ((uintptr_t)from % 16) wr_emu_fail(line, "wr_bulk_copy from %p, which is not 16-byte aligned", from);
    memset(shared_at(to, bytes, 16, "wr_bulk_copy", line), POISON, bytes);
    here->bulk.push_back({to, bar, line, {(const u8 *)from, (const u8 *)from + bytes}});
}

void wr_emu_bulk_store(void *to, u32 from, u32 bytes, int line) {
    need_sm_90("wr_bulk_store", line);
    if (bytes == 0 || bytes % 16) wr_emu_fail(line, "wr_bulk_store of %u bytes, no multiple of 16", bytes);
    if ((uintptr_t)to % 16) wr_emu_fail(line, "wr_bulk_store to %p, which is not 16-byte aligned", to);
    memcpy(to, shared_at(from, bytes, 16, "wr_bulk_store", line), bytes);
}

/* ---- the cluster's shared memory: the block's number in it lies above the address ---- */

enum { CLUSTER_SHIFT = 24 };

u32 wr_emu_cluster_smem(u32 address, u32 rank, int line) {
    need_sm_90("wr_cluster_smem", line);
    shared_at(address, 1, 1, "wr_cluster_smem", line);
    if (rank >= here->of->blocks.size()) wr_emu_fail(line, "wr_cluster_smem of block %u of the cluster", rank);
    return address | (rank + 1) << CLUSTER_SHIFT;
}

namespace {

/* The block that a cluster's address is in, and the address there. */
engine *block_of(u32 *address, const char *what, int line) {
    const u32 rank = (*address >> CLUSTER_SHIFT) - 1;
    if (rank >= here->of->blocks.size())
        wr_emu_fail(line, "%s: %u is no address that wr_cluster_smem gave", what, *address);
    engine *e = here->of->blocks[rank];
    if (e->n_alive == 0) wr_emu_fail(line, "%s to block %u, which has ended", what, e->block);
    *address &= (1u << CLUSTER_SHIFT) - 1;
    return e;
}

} // namespace

/* Lands as bulk copies do. */
void wr_emu_cluster_store16(u32 to, float4 v, u32 bar, int line) {
    engine *e = block_of(&to, "wr_cluster_store16", line);
    if (block_of(&bar, "wr_cluster_store16", line) != e)
        wr_emu_fail(line, "wr_cluster_store16 completes on a barrier of another block");
    find(e, bar, "wr_cluster_store16", line);
    memset(shared_of(e, to, 16, 16, "wr_cluster_store16", line), POISON, 16);
    e->bulk.push_back({to, bar, line, {(const u8 *)&v, (const u8 *)(&v + 1)}});
}

void wr_emu_cluster_store4(u32 to, float v, int line) {
    engine *e = block_of(&to, "wr_cluster_store4", line);
    memcpy(shared_of(e, to, 4, 4, "wr_cluster_store4", line), &v, 4);
}

void wr_emu_bulk_copy_to_all(u32 to, const void *from, u32 bytes, u32 bar, u32 blocks, int line) {
    if (bytes == 0 || bytes % 16) wr_emu_fail(line, "wr_bulk_copy_to_all of %u bytes, no multiple of 16", bytes);
    if ((uintptr_t)from % 16) wr_emu_fail(line, "wr_bulk_copy_to_all from %p, not 16-byte aligned", from);
    if (blocks == 0 || blocks >> here->of->blocks.size())
        wr_emu_fail(line, "wr_bulk_copy_to_all to blocks %x of a cluster of %zu", blocks, here->of->blocks.size());
    for (u32 i = 0; i < here->of->blocks.size(); i++) {
        if (!(blocks >> i & 1)) continue;
        engine *e = here->of->blocks[i];
        if (e->n_alive == 0) wr_emu_fail(line, "wr_bulk_copy_to_all to block %u, which has ended", e->block);
        find(e, bar, "wr_bulk_copy_to_all", line);
        memset(shared_of(e, to, bytes, 16, "wr_bulk_copy_to_all", line), POISON, bytes);
        e->bulk.push_back({to, bar, line, {(const u8 *)from, (const u8 *)from + bytes}});
    }
}

void wr_emu_cluster_bar_arrive(u32 bar, int line) {
    engine *e = block_of(&bar, "wr_cluster_bar_arrive", line);
    arrive(e, bar, 0, line);
}
