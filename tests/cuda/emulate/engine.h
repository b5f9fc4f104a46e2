/* Inside the emulation: the state of the block that an OS thread runs, and the ways to wait. */
#ifndef WR_TESTS_CUDA_EMULATE_ENGINE_H
#define WR_TESTS_CUDA_EMULATE_ENGINE_H

#include <string>
#include <vector>

#include "emulate.h"

namespace emu {

constexpr u32 SHARED_ORIGIN = 1024;       /* the address of the first byte of dynamic shared memory */
constexpr size_t SHARED_MOST = 227 << 10; /* dynamic and static together, on sm_90 */
constexpr size_t STATIC_MOST = 48 << 10;  /* static alone */
constexpr u32 MAX_THREADS = 1024;
constexpr u32 MAX_CLUSTER = 8; /* what every card with clusters has */
constexpr u32 ALL_LANES = 0xFFFFFFFFu;
constexpr u8 POISON = 0xFF, CANARY = 0xA5;

/* What a thread waits for. */
enum wait_kind { WAIT_NONE, WAIT_WARP, WAIT_BLOCK, WAIT_CLUSTER, WAIT_NAMED, WAIT_MBARRIER, WAIT_GRID };

struct async_copy { /* cp.async */
    u32 to;
    u64 data[2]; /* read when it was issued */
    u32 group;
};

struct thread {
    void *sp;  /* where its registers lie while it does not run */
    u8 *stack; /* the end of its stack */
    u32 id;
    wait_kind waits;
    int op;       /* WAIT_WARP: wr_emu_op; WAIT_NAMED: id; WAIT_MBARRIER: parity */
    u32 argument; /* WAIT_WARP: mask; WAIT_MBARRIER: address */
    int line;
    bool arrived; /* at the cluster's barrier, in this phase of it, and has not waited yet */
    u32 cluster_phase;
    u32 copy_group; /* the number that the next commit gives */
    std::vector<async_copy> copies;
};

/* A wgmma accumulator in flight in one warp: its 16 rows, away from the registers, which hold NaN meanwhile. */
struct accumulator {
    float *d[32];
    int n, n_pending;
    std::vector<float> c; /* [16, n] */
};
struct wgmma_pending {
    accumulator *acc;
    u64 a_desc, b_desc, operands; /* a hash of what was read */
    bool a_shared, b_transposed;
    int n;
    u32 group, line;
};

struct engine;
/* The lanes of a warp operation have met: does it, with the lanes and everybody's arguments. */
typedef void (*meeting)(engine *e, u32 warp_index, u32 lanes, int op, void **arguments);

/* A warp operation that lanes have arrived at. */
struct rendezvous {
    int op, line;
    u32 mask, arrived;
    meeting meet;
};
struct warp {
    u32 alive, ready;
    std::vector<rendezvous> open;
    void *arguments[32];
    u32 wgmma_group;
    bool fenced;
    u64 wgmma_count, wgmma_hash; /* what the four warps of a warpgroup must have in common */
    std::vector<wgmma_pending> pending;
    std::vector<accumulator *> accumulators;
};

struct named_barrier {
    int threads; /* 0: nobody is there */
    std::vector<u32> arrived;
};
struct mbarrier {
    u32 address;
    int count, pending;
    i64 bytes;
    u32 phase;
};
struct bulk_copy {
    u32 to, bar;
    int line;
    std::vector<u8> data; /* read when it was issued */
};
struct static_array {
    const void *key;
    size_t offset, bytes;
};

/* Blocks that run at once, and what they share; without clusters one block. */
struct cluster {
    std::vector<engine *> blocks;
    u32 phase, n_arrived;   /* of its barrier */
    void (*before)(void *); /* what wr_grid_wait waits for, while it is not done */
    void *before_argument;
    bool grid_waited; /* a thread of the launch has called it */
};

struct engine {
    const wr_emu_kernel *kernel;
    const void *params;
    cluster *of;
    u32 block; /* of the grid */
    u32 n_threads, n_warps, n_alive, n_at_block_barrier;
    u64 random; /* of the order of threads */
    int order;
    thread *now;
    void *main_sp;
    std::vector<thread> threads; /* MAX_THREADS, made once */
    warp warps[MAX_THREADS / 32];
    named_barrier named[16];
    std::vector<mbarrier> mbarriers;
    std::vector<bulk_copy> bulk;
    u8 *stacks;
    void *signal_stack = nullptr; /* for reports of faults, when the OS thread had none */
    u8 *shared;                   /* dynamic, then static arrays, each followed by canaries */
    size_t dynamic_bytes, static_end, static_bytes;
    std::vector<static_array> statics;
    engine();
    ~engine();
};
extern __thread engine *here;

void wait_here(engine *e); /* the running thread has set waits, op, argument and line */
void wake(engine *e, u32 id);
/* The lanes of op's mask meet; the last to come runs `meet`. */
void warp_meet(int op, u32 mask, void *arguments, int line, meeting meet);
/* The same for an .aligned instruction: all 32 lanes. */
void warp_meet_aligned(int op, void *arguments, int line, meeting meet);
const char *op_name(int op);

/* shared.cpp */
u8 *shared_at(u32 address, u32 bytes, u32 alignment, const char *what, int line);
void cluster_barrier_check(cluster *c);
void shared_begin_launch(engine *e, size_t dynamic_bytes);
void shared_begin_block(engine *e);
void shared_end_block(engine *e);
bool bulk_deliver(engine *e); /* the oldest copy lands; false: there was none */
std::string mbarrier_state(engine *e, u32 address);
void block_barrier_check(engine *e);
/* Stops the program on a card (WR_EMULATE_ARCH) without what stands inside WR_HAS_WGMMA. Not for bulk copies: in their
 * place the kernels for older cards have others, inside the same function, which the emulation does not have. */
void need_sm_90(const char *what, int line);

/* tensor.cpp */
void tensor_begin_block(engine *e);
void tensor_end_thread(engine *e, thread *t);
void tensor_end_block(engine *e);

} // namespace emu

#endif
