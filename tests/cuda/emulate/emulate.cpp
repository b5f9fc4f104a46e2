/* The scheduler: clusters of a launch (blocks, without clusters) one after another on the calling OS thread, the
 * threads of a block as fibers. A fiber runs until it must wait; whoever completes what it waits for makes it ready.
 * When nothing is ready, one bulk copy lands; when there is none either, the next block of the cluster runs; when none
 * of them can, they are over or stuck, and then the report says who waits for what.
 *
 * All state hangs on engines of the OS thread, one for each block of a cluster, so several OS threads may launch at
 * once. */
#include "engine.h"

#include <map>
#include <mutex>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

__thread wr_emu_index wr_emu_at;

namespace emu {

__thread engine *here;

namespace {

constexpr size_t STACK_BYTES = 128 << 10, GUARD_BYTES = 4096, SHARED_MAP = 512 << 10;
wr_emu_kernel *kernels;
int default_order = -1;

/* Engines that this OS thread does not use at the moment. A kernel under another one (see before) takes a second. */
struct engine_holder {
    std::vector<engine *> idle;
    ~engine_holder() {
        for (engine *e : idle) delete e;
    }
};
thread_local engine_holder holder;

} // namespace

/* Saves the registers that a call keeps, changes stacks, and returns on the other one. */
extern "C" void wr_emu_switch(void **save_sp, void *load_sp);
__asm__(".text\n"
        ".p2align 4\n"
        ".hidden wr_emu_switch\n"
        ".globl wr_emu_switch\n"
        ".type wr_emu_switch,@function\n"
        "wr_emu_switch:\n"
        "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
        "    movq %rsp,(%rdi)\n"
        "    movq %rsi,%rsp\n"
        "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n"
        "    ret\n"
        ".size wr_emu_switch,.-wr_emu_switch\n");

const char *op_name(int op) {
    static const char *const names[] = {
        "__shfl_sync",       "__shfl_xor_sync",  "__shfl_up_sync",    "__shfl_down_sync",   "__ballot_sync",
        "__any_sync",        "__all_sync",       "__syncwarp",        "__reduce_add_sync",  "__reduce_min_sync",
        "__reduce_max_sync", "__match_any_sync", "wr_ldmatrix4",      "wr_ldmatrix4_trans", "wr_stmatrix4_trans",
        "wr_mma_bf16",       "wr_mma_f16",       "wr_wgmma",          "wr_wgmma_fence",     "wr_wgmma_commit",
        "wr_wgmma_wait",     "setmaxnreg",       "wr_cluster_arrive", "wr_cluster_wait"};
    return names[op];
}

/* ---- reports ---- */

namespace {

std::string waits_for(engine *e, const thread &t) {
    char text[200];
    switch (t.waits) {
    case WAIT_WARP:
        snprintf(text, sizeof(text), "%s (mask %#x) at line %d", op_name(t.op), t.argument, t.line);
        return text;
    case WAIT_BLOCK: snprintf(text, sizeof(text), "__syncthreads at line %d", t.line); return text;
    case WAIT_CLUSTER:
        snprintf(text, sizeof(text), "wr_cluster_wait, where %u threads are, at line %d", e->of->n_arrived, t.line);
        return text;
    case WAIT_NAMED:
        snprintf(text, sizeof(text), "wr_barrier %d, where %zu of %d are, at line %d", t.op,
                 e->named[t.op].arrived.size(), e->named[t.op].threads, t.line);
        return text;
    case WAIT_MBARRIER:
        snprintf(text, sizeof(text), "wr_bar_wait for parity %d at line %d: ", t.op, t.line);
        return text + mbarrier_state(e, t.argument);
    case WAIT_GRID: snprintf(text, sizeof(text), "wr_grid_wait at line %d", t.line); return text;
    default: return "";
    }
}

/* Threads in runs: "0-31,40". */
std::string ranges(const std::vector<u32> &ids) {
    std::string out;
    for (size_t i = 0; i < ids.size();) {
        size_t j = i;
        while (j + 1 < ids.size() && ids[j + 1] == ids[j] + 1) j++;
        out += (out.empty() ? "" : ",") + std::to_string(ids[i]);
        if (j > i) out += "-" + std::to_string(ids[j]);
        i = j + 1;
    }
    return out;
}

void report_block(engine *e) {
    std::map<std::string, std::vector<u32>> groups;
    u32 exited = e->n_threads - e->n_alive;
    for (u32 i = 0; i < e->n_threads; i++)
        if (e->threads[i].waits != WAIT_NONE) groups[waits_for(e, e->threads[i])].push_back(i);
    fprintf(stderr, "emulate: kernel %s, block %u: no thread can go on; %u of %u have ended\n", e->kernel->name,
            e->block, exited, e->n_threads);
    for (const auto &group : groups)
        fprintf(stderr, "emulate:   threads %s wait in %s\n", ranges(group.second).c_str(), group.first.c_str());
}

[[noreturn]] void report_deadlock(cluster *c) {
    for (engine *e : c->blocks)
        if (e->n_alive) report_block(e);
    abort();
}

struct sigaction handlers_before[2];

/* A fault of a kernel's own loads and stores: says whose it was, then lets it happen. */
void on_fault(int number, siginfo_t *info, void *) {
    char text[240];
    engine *e = here;
    if (e && e->now) {
        const int n = snprintf(text, sizeof(text), "emulate: kernel %s, block %u, thread %u: memory fault at %p\n",
                               e->kernel->name, wr_emu_at.block.x, e->now->id, info->si_addr);
        if (write(STDERR_FILENO, text, (size_t)n) < 0) _exit(1);
    }
    sigaction(number, &handlers_before[number == SIGBUS], nullptr);
}

/* At every launch, since test frameworks and sanitizers set their own, which run after ours. */
void catch_faults(void) {
    static std::mutex lock;
    const std::lock_guard<std::mutex> locked(lock);
    for (int number : {SIGSEGV, SIGBUS}) {
        struct sigaction old, action = {};
        sigaction(number, nullptr, &old);
        if (old.sa_sigaction == on_fault) continue;
        handlers_before[number == SIGBUS] = old;
        action.sa_sigaction = on_fault;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigaction(number, &action, nullptr);
    }
}

void *map(size_t bytes) {
    void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        fprintf(stderr, "emulate: no memory for %zu bytes of stacks\n", bytes);
        abort();
    }
    return p;
}

} // namespace

engine::engine() : kernel(nullptr), now(nullptr), threads(MAX_THREADS) {
    stacks = (u8 *)map(MAX_THREADS * (STACK_BYTES + GUARD_BYTES));
    for (u32 i = 0; i < MAX_THREADS; i++) {
        u8 *low = stacks + i * (STACK_BYTES + GUARD_BYTES);
        mprotect(low, GUARD_BYTES, PROT_NONE);
        threads[i].stack = low + GUARD_BYTES + STACK_BYTES;
        threads[i].id = i;
    }
    shared = (u8 *)map(SHARED_MAP) + GUARD_BYTES;
    mprotect(shared - GUARD_BYTES, GUARD_BYTES, PROT_NONE);
    stack_t own = {};
    if (sigaltstack(nullptr, &own) == 0 && (own.ss_flags & SS_DISABLE)) {
        signal_stack = malloc(64 << 10);
        own = {};
        own.ss_sp = signal_stack;
        own.ss_size = 64 << 10;
        sigaltstack(&own, nullptr);
    }
}

engine::~engine() {
    munmap(stacks, MAX_THREADS * (STACK_BYTES + GUARD_BYTES));
    munmap(shared - GUARD_BYTES, SHARED_MAP);
    if (signal_stack) {
        stack_t off = {};
        off.ss_flags = SS_DISABLE;
        sigaltstack(&off, nullptr);
        free(signal_stack);
    }
}

/* ---- who runs ---- */

namespace {

u32 random_below(engine *e, u32 n) {
    e->random = e->random * 6364136223846793005ull + 1442695040888963407ull;
    return (u32)((e->random >> 33) % n);
}

/* A ready lane of the warp, which is then no longer ready. */
thread *take_lane(engine *e, u32 w) {
    const u32 ready = e->warps[w].ready;
    u32 lane;
    if (e->order == 0) {
        lane = (u32)__builtin_ctz(ready);
    } else if (e->order == 1) {
        lane = 31 - (u32)__builtin_clz(ready);
    } else {
        u32 skip = random_below(e, (u32)__builtin_popcount(ready));
        for (u32 rest = ready;; rest &= rest - 1, skip--)
            if (skip == 0) {
                lane = (u32)__builtin_ctz(rest);
                break;
            }
    }
    e->warps[w].ready &= ~(1u << lane);
    return &e->threads[w * 32 + lane];
}

/* The work that the threads at wr_grid_wait wait for; false: nobody does, or it was done. */
bool grid_deliver(engine *e) {
    bool waiting = false;
    for (u32 i = 0; i < e->n_threads; i++)
        if (e->threads[i].waits == WAIT_GRID) wake(e, i), waiting = true;
    if (!waiting) return false;
    void (*before)(void *) = e->of->before;
    e->of->before = nullptr;
    if (before) before(e->of->before_argument);
    return true;
}

/* The same warp as long as it can run, then the next. With a seed: any warp. */
thread *take_ready(engine *e) {
    if (e->now && e->order <= 1 && e->warps[e->now->id / 32].ready) return take_lane(e, e->now->id / 32);
    for (;;) {
        u32 w = e->order > 1 ? random_below(e, e->n_warps) : e->now ? e->now->id / 32 : 0;
        for (u32 i = 0; i < e->n_warps; i++) {
            if (e->warps[w].ready) return take_lane(e, w);
            if (e->order == 1)
                w = w ? w - 1 : e->n_warps - 1;
            else
                w = w + 1 < e->n_warps ? w + 1 : 0;
        }
        if (e->n_alive == 0) return nullptr;
        if (!bulk_deliver(e) && !grid_deliver(e)) return nullptr;
    }
}

void become(engine *e, thread *t) {
    e->now = t;
    wr_emu_at.thread.x = t->id;
}

void warp_check(engine *e, u32 w);

/* Where a fiber begins and ends. */
void fiber(void) {
    engine *e = here;
    e->kernel->run(e->params);
    thread *t = e->now;
    warp &own = e->warps[t->id / 32];
    tensor_end_thread(e, t);
    own.alive &= ~(1u << t->id % 32);
    e->n_alive--;
    if (t->arrived && t->cluster_phase == e->of->phase) e->of->n_arrived--; /* who has ended does not count */
    warp_check(e, t->id / 32);
    block_barrier_check(e);
    cluster_barrier_check(e->of);
    thread *next = take_ready(e);
    void *nowhere;
    if (!next) {
        e->now = nullptr;
        wr_emu_switch(&nowhere, e->main_sp);
    }
    become(e, next);
    wr_emu_switch(&nowhere, next->sp);
    __builtin_unreachable();
}

void prepare(thread *t) {
    void **top = (void **)t->stack - 2; /* fiber() finds the stack as after a call */
    top[0] = (void *)fiber;
    top[1] = nullptr;
    t->sp = top - 6;
    t->waits = WAIT_NONE;
    t->arrived = false;
    t->copy_group = 0;
    t->copies.clear();
}

} // namespace

void wait_here(engine *e) {
    thread *self = e->now, *next = take_ready(e);
    if (!next) {
        wr_emu_switch(&self->sp, e->main_sp);
    } else if (next != self) {
        become(e, next);
        wr_emu_switch(&self->sp, next->sp);
    }
    self->waits = WAIT_NONE;
}

void wake(engine *e, u32 id) { e->warps[id / 32].ready |= 1u << id % 32; }

/* ---- warp operations ---- */

namespace {

void finish(engine *e, u32 w, size_t slot, u32 self) {
    warp &own = e->warps[w];
    const rendezvous r = own.open[slot];
    own.open.erase(own.open.begin() + (long)slot);
    if (r.op >= WR_EMU_LDMATRIX && r.arrived != ALL_LANES)
        wr_emu_fail(r.line, "%s by lanes %#x only: the others of the warp have ended", op_name(r.op), r.arrived);
    r.meet(e, w, r.arrived, r.op, own.arguments);
    own.ready |= r.arrived & ~self;
}

/* After a lane ended: perhaps it was the one that others waited for. */
void warp_check(engine *e, u32 w) {
    warp &own = e->warps[w];
    for (size_t i = 0; i < own.open.size();)
        if ((own.open[i].mask & own.alive & ~own.open[i].arrived) == 0)
            finish(e, w, i, 0), i = 0;
        else
            i++;
}

} // namespace

void warp_meet(int op, u32 mask, void *arguments, int line, meeting meet) {
    engine *e = here;
    thread *t = e->now;
    const u32 w = t->id / 32, bit = 1u << t->id % 32;
    warp &own = e->warps[w];
    if (!(mask & bit)) wr_emu_fail(line, "%s with mask %#x, in which the calling lane is not", op_name(op), mask);
    own.arguments[t->id % 32] = arguments;
    const int key = op == WR_EMU_SYNCWARP ? 0 : line; /* __syncwarp may pair with another one */
    size_t slot = 0;
    while (slot < own.open.size() &&
           !(own.open[slot].op == op && own.open[slot].mask == mask && own.open[slot].line == key))
        slot++;
    if (slot == own.open.size()) own.open.push_back({op, key, mask, 0, meet});
    rendezvous &r = own.open[slot];
    r.arrived |= bit;
    if ((mask & own.alive & ~r.arrived) == 0) {
        finish(e, w, slot, bit);
        return;
    }
    t->waits = WAIT_WARP;
    t->op = op;
    t->argument = mask;
    t->line = line;
    wait_here(e);
}

void warp_meet_aligned(int op, void *arguments, int line, meeting meet) {
    const u32 alive = here->warps[here->now->id / 32].alive;
    if (alive != ALL_LANES) wr_emu_fail(line, "%s needs all 32 threads of the warp; alive are %#x", op_name(op), alive);
    warp_meet(op, ALL_LANES, arguments, line, meet);
}

namespace {

struct shuffle {
    u64 in, out;
    int argument, width;
};

void meet_shuffle(engine *, u32, u32 lanes, int op, void **arguments) {
    for (int lane = 0; lane < 32; lane++) {
        if (!(lanes >> lane & 1)) continue;
        shuffle *s = (shuffle *)arguments[lane];
        const int base = lane & ~(s->width - 1), end = base + s->width;
        int from = lane;
        if (op == WR_EMU_SHFL) from = base + (s->argument & (s->width - 1));
        if (op == WR_EMU_SHFL_XOR) from = (lane ^ s->argument) < end ? lane ^ s->argument : lane;
        if (op == WR_EMU_SHFL_UP) from = lane - s->argument >= base ? lane - s->argument : lane;
        if (op == WR_EMU_SHFL_DOWN) from = lane + s->argument < end ? lane + s->argument : lane;
        /* The value of a lane that is not there is undefined: all ones, a NaN. */
        s->out = lanes >> from & 1 ? ((shuffle *)arguments[from])->in : ~0ull;
    }
}

struct vote {
    u32 in, out;
};

void meet_vote(engine *, u32, u32 lanes, int op, void **arguments) {
    u32 ballot = 0, sum = 0, least = ~0u, most = 0;
    for (int lane = 0; lane < 32; lane++) {
        if (!(lanes >> lane & 1)) continue;
        const u32 v = ((vote *)arguments[lane])->in;
        ballot |= (u32)(v != 0) << lane;
        sum += v;
        least = v < least ? v : least;
        most = v > most ? v : most;
    }
    for (int lane = 0; lane < 32; lane++) {
        if (!(lanes >> lane & 1)) continue;
        vote *own = (vote *)arguments[lane];
        switch (op) {
        case WR_EMU_BALLOT: own->out = ballot; break;
        case WR_EMU_ANY: own->out = ballot != 0; break;
        case WR_EMU_ALL: own->out = ballot == lanes; break;
        case WR_EMU_ADD: own->out = sum; break;
        case WR_EMU_MIN: own->out = least; break;
        case WR_EMU_MAX: own->out = most; break;
        case WR_EMU_MATCH:
            own->out = 0;
            for (int other = 0; other < 32; other++)
                if (lanes >> other & 1) own->out |= (u32)(((vote *)arguments[other])->in == own->in) << other;
            break;
        default: own->out = 0; break;
        }
    }
}

} // namespace

/* ---- a launch ---- */

namespace {

void begin_block(engine *e, u32 block) {
    e->block = block;
    e->now = nullptr;
    e->n_alive = e->n_threads;
    e->n_at_block_barrier = 0;
    for (u32 w = 0; w < e->n_warps; w++) {
        const u32 left = e->n_threads - w * 32;
        e->warps[w].alive = e->warps[w].ready = left >= 32 ? ALL_LANES : (1u << left) - 1;
        e->warps[w].open.clear();
    }
    for (u32 i = 0; i < e->n_threads; i++) prepare(&e->threads[i]);
    shared_begin_block(e);
    tensor_begin_block(e);
}

/* Until all threads have ended or wait; false: none could run. */
bool run_block(engine *e, bool first) {
    here = e;
    wr_emu_at.block = {e->block, 0, 0};
    /* In reverse from the last thread on. */
    thread *next = first && e->order == 1 ? take_lane(e, e->n_warps - 1) : take_ready(e);
    if (!next) return false;
    become(e, next);
    wr_emu_switch(&e->main_sp, next->sp);
    if (e->n_alive) return true;
    shared_end_block(e);
    tensor_end_block(e);
    return true;
}

void run_cluster(cluster *c, u32 first_block) {
    const u32 n = (u32)c->blocks.size();
    c->phase = c->n_arrived = 0;
    for (u32 i = 0; i < n; i++) {
        here = c->blocks[i];
        begin_block(here, first_block + i);
    }
    for (bool first = true, alive = true; alive; first = false) {
        bool some = alive = false;
        for (u32 i = 0; i < n; i++) {
            engine *e = c->blocks[c->blocks[0]->order == 1 ? n - 1 - i : i];
            if (e->n_alive && run_block(e, first)) some = true;
            alive |= e->n_alive > 0;
        }
        if (alive && !some) report_deadlock(c);
    }
}

int order_now(void) {
    if (default_order < 0) {
        const char *text = getenv("WR_EMULATE_ORDER");
        default_order = !text ? 0 : strcmp(text, "reverse") == 0 ? 1 : atoi(text) < 0 ? 0 : atoi(text);
    }
    return default_order;
}

[[noreturn]] void refuse(const char *kernel, const char *why) {
    fprintf(stderr, "emulate: kernel %s cannot be launched: %s\n", kernel, why);
    abort();
}

} // namespace

} // namespace emu

using namespace emu;

void wr_emu_fail(int line, const char *format, ...) {
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    const engine *e = here;
    fprintf(stderr, "emulate: kernel %s, block %u, thread %d: %s (line %d)\n", e && e->kernel ? e->kernel->name : "?",
            wr_emu_at.block.x, e && e->now ? (int)e->now->id : -1, text, line);
    abort();
}

u64 wr_emu_shuffle(wr_emu_op op, u32 mask, u64 value, int argument, int width, int line) {
    if (width < 1 || width > 32 || (width & (width - 1))) wr_emu_fail(line, "a shuffle of width %d", width);
    shuffle s = {value, 0, argument, width};
    warp_meet(op, mask, &s, line, meet_shuffle);
    return s.out;
}

u32 wr_emu_vote(wr_emu_op op, u32 mask, u32 value, int line) {
    vote v = {value, 0};
    warp_meet(op, mask, &v, line, meet_vote);
    return v.out;
}

extern "C" void wr_emu_register(wr_emu_kernel *kernel) {
    kernel->next = kernels;
    kernels = kernel;
}

extern "C" const wr_emu_kernel *wr_emulate_find(const char *name) {
    for (const wr_emu_kernel *k = kernels; k; k = k->next)
        if (strcmp(k->name, name) == 0) return k;
    return nullptr;
}

extern "C" void wr_emulate_order(int order) { default_order = order; }

extern "C" int wr_emulate_order_now(void) { return order_now(); }

void wr_emu_grid_wait(int line) {
    engine *e = here;
    e->of->grid_waited = true;
    if (!e->of->before) return;
    e->now->waits = WAIT_GRID;
    e->now->line = line;
    wait_here(e);
}

/* ---- the cluster's barrier ---- */

namespace emu {

void cluster_barrier_check(cluster *c) {
    u32 alive = 0;
    for (const engine *e : c->blocks) alive += e->n_alive;
    if (c->n_arrived == 0 || c->n_arrived < alive) return;
    c->n_arrived = 0;
    c->phase++;
    for (engine *e : c->blocks)
        for (u32 i = 0; i < e->n_threads; i++)
            if (e->threads[i].waits == WAIT_CLUSTER) wake(e, i);
}

namespace {

void meet_nothing(engine *, u32, u32, int, void **) {}

} // namespace

void need_sm_90(const char *what, int line) {
    static const char *const text = getenv("WR_EMULATE_ARCH");
    static const bool has = !text || !*text || atoi(text) == 90;
    if (!has) wr_emu_fail(line, "%s on an sm_%s card, which has no such instruction", what, text);
}

} // namespace emu

void wr_emu_cluster_arrive(int line) {
    need_sm_90("wr_cluster_arrive", line);
    engine *e = here;
    thread *t = e->now;
    warp_meet_aligned(WR_EMU_CLUSTER_ARRIVE, nullptr, line, meet_nothing);
    if (t->arrived) wr_emu_fail(line, "wr_cluster_arrive again, without wr_cluster_wait");
    t->arrived = true;
    t->cluster_phase = e->of->phase;
    e->of->n_arrived++;
    cluster_barrier_check(e->of);
}

void wr_emu_cluster_wait(int line) {
    engine *e = here;
    thread *t = e->now;
    warp_meet_aligned(WR_EMU_CLUSTER_WAIT, nullptr, line, meet_nothing);
    if (!t->arrived) wr_emu_fail(line, "wr_cluster_wait without wr_cluster_arrive");
    while (e->of->phase == t->cluster_phase) {
        t->waits = WAIT_CLUSTER;
        t->line = line;
        wait_here(e);
    }
    t->arrived = false;
}

/* ---- launches ---- */

extern "C" void wr_emulate_launch(const char *kernel, uint32_t blocks, uint32_t threads, size_t shared_bytes,
                                  const void *params) {
    wr_emulate_launch_cluster(kernel, blocks, 1, threads, shared_bytes, params);
}

extern "C" void wr_emulate_launch_cluster(const char *kernel, uint32_t blocks, uint32_t cluster_blocks,
                                          uint32_t threads, size_t shared_bytes, const void *params) {
    const wr_emu_kernel *found = wr_emulate_find(kernel);
    if (!found) refuse(kernel, "there is none of this name");
    wr_emulate_launch_over(found, blocks, cluster_blocks, threads, shared_bytes, params, nullptr, nullptr);
}

extern "C" void wr_emulate_launch_over(const wr_emu_kernel *found, uint32_t blocks, uint32_t cluster_blocks,
                                       uint32_t threads, size_t shared_bytes, const void *params,
                                       void (*before)(void *), void *before_argument) {
    const char *kernel = found->name;
    if (threads == 0 || threads > MAX_THREADS) refuse(kernel, "a block has 1 to 1,024 threads");
    if ((int)threads > found->max_threads) refuse(kernel, "more threads than its launch bounds say");
    if (shared_bytes > SHARED_MOST) refuse(kernel, "more than 227 KiB of shared memory");
    if (blocks == 0 || blocks > 0x7FFFFFFFu) refuse(kernel, "a grid has 1 to 2^31 - 1 blocks");
    if (cluster_blocks == 0 || cluster_blocks > MAX_CLUSTER) refuse(kernel, "a cluster has 1 to 8 blocks");
    if (blocks % cluster_blocks) refuse(kernel, "its blocks are no whole clusters");
    engine *const outer = here;
    const wr_emu_index outer_at = wr_emu_at;
    catch_faults();
    std::vector<u64> copy((found->params_bytes + 7) / 8 + 2);
    u8 *aligned = (u8 *)(((uintptr_t)copy.data() + 15) & ~(uintptr_t)15);
    memcpy(aligned, params, found->params_bytes);
    cluster c = {{}, 0, 0, before, before_argument, false};
    for (u32 i = 0; i < cluster_blocks; i++) {
        if (holder.idle.empty()) holder.idle.push_back(new engine);
        engine *e = holder.idle.back();
        holder.idle.pop_back();
        c.blocks.push_back(e);
        e->kernel = found;
        e->params = aligned;
        e->of = &c;
        e->n_threads = threads;
        e->n_warps = (threads + 31) / 32;
        e->order = order_now();
        e->random = (u64)e->order + i;
        shared_begin_launch(e, shared_bytes);
    }
    wr_emu_at.block_size = {threads, 1, 1};
    wr_emu_at.grid_size = {blocks, 1, 1};
    const u32 clusters = blocks / cluster_blocks;
    for (u32 i = 0; i < clusters; i++)
        run_cluster(&c, (c.blocks[0]->order == 1 ? clusters - 1 - i : i) * cluster_blocks);
    if (!c.grid_waited)
        refuse(kernel, "no thread of it called wr_grid_wait, so later kernels may overtake earlier ones");
    for (engine *e : c.blocks) {
        e->kernel = nullptr;
        holder.idle.push_back(e);
    }
    here = outer;
    wr_emu_at = outer_at;
}
