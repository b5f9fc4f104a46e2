/* Inside the emulated driver: the objects behind its handles. */
#ifndef WR_TESTS_CUDA_EMULATE_DRIVER_STATE_H
#define WR_TESTS_CUDA_EMULATE_DRIVER_STATE_H

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <cuda.h>

#include "emulated.h"

struct wr_emu_kernel;

/* The handle types of cuda.h are pointers to these. A context stands for its card too: it is the primary one. What is
 * made in it is used in it only. */
struct CUctx_st {
    int device = 0, retained = 0;
    size_t total = 0, used = 0, idle = 0; /* bytes: of the card, allocated, lying free in pools */
};
struct CUmod_st {
    CUcontext context;
    std::map<std::string, std::unique_ptr<CUfunc_st>> functions;
};
struct CUfunc_st {
    CUcontext context;
    const wr_emu_kernel *kernel;
    int max_dynamic;
};
struct CUmemPoolHandle_st {
    CUcontext context;
    size_t used, reserved, used_high, reserved_high;
    cuuint64_t threshold;
};

/* A stream is a queue. By default its work is done within the call that gives it; with WR_EMULATE_ASYNC=1 a thread of
 * the stream does it later, so that a missing wait shows. */
struct CUstream_st {
    CUcontext context = nullptr; /* none: the default one */
    std::mutex lock;
    std::condition_variable changed;
    std::deque<std::function<void()>> queue;
    bool busy = false, closing = false;
    std::thread worker;
};
/* Who waits for an event waits for its latest record at that time, in whichever stream that is. */
struct CUevent_st {
    CUcontext context = nullptr;
    struct record {
        std::mutex lock;
        std::condition_variable changed;
        bool reached = false;
        void wait() {
            std::unique_lock<std::mutex> locked(lock);
            changed.wait(locked, [&] { return reached; });
        }
    };
    std::mutex lock;
    std::shared_ptr<record> latest; /* none: the event counts as reached */
    double ms = 0;
};

namespace driver {

/* A launch of the one struct of parameters that a kernel has. */
struct launch {
    CUfunction f;
    unsigned blocks, cluster, threads, shared_bytes; /* cluster: blocks of one */
    std::vector<unsigned char> params;
    void run(void (*before)(void *) = nullptr, void *before_argument = nullptr) const;
};
/* Kernels selftest_custom_* stand for the user's: each word of their struct is a parameter of its own. With
 * selftest_custom_wild all cards are lost, as by a write to an address that is nobody's. */
bool takes_words(CUfunction f);
CUresult make_launch(launch *out, CUfunction f, const unsigned grid[3], const unsigned block[3], unsigned shared_bytes,
                     void **params, void **extra);

struct node {
    CUgraphNodeType type;
    CUgraphNode self; /* also in copies */
    std::vector<CUgraphNode> after;
    bool programmatic; /* the edge from after[0] lets this kernel begin early */
    launch kernel;
    std::function<void()> work; /* of other types */
};

/* ---- every call begins with one of these ---- */

enum kind { GIVES_BACK, WAITS, OTHER };
/* The failure that was asked for, or CUDA_SUCCESS. */
CUresult enter(const char *name, kind k);
/* The same, and a context must be current; after a kernel's fault that. */
CUresult enter_context(const char *name, kind k);
#define ENTER(k)                                                                                                       \
    do {                                                                                                               \
        const CUresult injected_ = driver::enter_context(__func__, driver::k);                                         \
        if (injected_ != CUDA_SUCCESS) return injected_;                                                               \
    } while (0)

CUcontext current_context(void);
/* A kernel's fault, for good and on all cards, as the real driver has it: who waited may have waited for that. */
CUresult standing(void);
void lose_all(CUresult fault);
/* Was that made in another context than the current one? Then it is refused. */
bool is_foreign(CUcontext made_in, const char *name, const char *what);
int n_devices(void);
int architecture(void);

/* The same for a call with a stream. */
#define ENTER_STREAM(k, s)                                                                                             \
    do {                                                                                                               \
        ENTER(k);                                                                                                      \
        if ((s) && driver::is_foreign((s)->context, __func__, "a stream")) return CUDA_ERROR_INVALID_HANDLE;           \
    } while (0)

/* Says on stderr what was wrong, since the runtime sees only a number. */
CUresult refuse(CUresult result, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* ---- memory ---- */

enum memory_kind { DEVICE, PINNED };
/* Is [p, p + bytes) inside one live allocation, for is_memory of the current context? */
bool is_memory(const void *p, size_t bytes);
bool is_pinned(const void *p, size_t bytes);
/* Is there device memory of another context? */
bool is_foreign_memory(const void *p);

/* ---- streams ---- */

CUstream stream_of(CUstream given); /* the default one for NULL */
void submit(CUstream stream, std::function<void()> work);
void drain(CUstream stream); /* until all its work is done */
void drain_all(void);

struct counters {
    std::mutex lock;
    wr_emulate_live live;
    long launches;
};
extern counters count;
template <typename F> void counted(F f) {
    const std::lock_guard<std::mutex> locked(count.lock);
    f(count.live);
}

} // namespace driver

struct CUgraphNode_st : driver::node {};
struct CUgraph_st {
    std::vector<std::unique_ptr<CUgraphNode_st>> nodes;
};
struct CUgraphExec_st {
    CUcontext context = nullptr;
    std::vector<driver::node> nodes; /* in an order that the edges allow */
    long launches = 0;
};

#endif
