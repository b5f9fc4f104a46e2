/* libcuda_emulated.so: the functions of the NVIDIA driver that weir's runtime calls, over host memory and the emulation
 * of kernels. Here: errors, devices, contexts, modules, memory. driver_run.cpp: streams, events, launches, graphs.
 *
 * Built from src/cuda/kernels/<all>.cu with -x c++ -DWR_EMULATE and the .cpp files of this folder
 * (cmake/emulate.cmake), used by WEIR_CUDA_DRIVER=<path>/libcuda_emulated.so. Modules are not read: a function is found
 * by its name among the kernels that are linked in.
 *
 * Device memory is host memory. A fresh allocation holds 0xFF in every byte (NaN). It ends, rounded up to 256 bytes, at
 * a page that may not be touched, and after it is freed none of it may; the bytes before it and up to the page are
 * checked when it is freed. Copies must lie inside one allocation. One card (WR_EMULATE_DEVICES: up to 8) with 4
 * multiprocessors of sm_90 (WR_EMULATE_ARCH=80 and the like: another kind), 4 GiB (WR_EMULATE_MEMORY_MIB), a driver for
 * CUDA 13.0 (WR_EMULATE_VERSION=12040 and the like: another). WR_EMULATE_IMAGES=1: an image of nvcc's that holds no
 * code for the card is refused; without, the emulated kernels serve every kind. */
#include "driver_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "emulate.h"

namespace driver {

counters count;

namespace {

constexpr size_t GUARD = 256, PAGE = 4096;
constexpr u8 GUARD_BYTE = 0xA5, FRESH_BYTE = 0xFF;
constexpr int MAX_DEVICES = 8;

struct allocation {
    size_t bytes;
    memory_kind kind;
    CUmemoryPool pool;
    CUcontext context;
};

long setting(const char *name, long otherwise) {
    const char *text = getenv(name);
    return text && *text ? atol(text) : otherwise;
}

/* Never destroyed: threads may call while the process ends. */
struct globals {
    std::mutex lock;
    std::map<const u8 *, allocation> memory;
    std::mutex fail_lock;
    long calls = 0, fail_at = -1; /* -1: not yet asked of the environment */
    const char *failed = nullptr;
    std::map<const char *, long> seen; /* calls of each function: a name is one __func__ */
    CUctx_st contexts[MAX_DEVICES];
    globals() {
        for (int i = 0; i < MAX_DEVICES; i++) {
            contexts[i].device = i;
            contexts[i].total = (size_t)setting("WR_EMULATE_MEMORY_MIB", 4096) << 20;
        }
    }
};
globals &all(void) {
    static globals *g = new globals;
    return *g;
}

thread_local std::vector<CUcontext> current;

bool is_device(CUdevice device) { return device >= 0 && device < n_devices(); }

int shared_optin(void) {
    return architecture() == 80 ? 163 << 10 : architecture() >= 90 && architecture() < 120 ? 227 << 10 : 99 << 10;
}

} // namespace

int architecture(void) {
    static const int arch = (int)setting("WR_EMULATE_ARCH", 90);
    return arch;
}

int n_devices(void) {
    static const long n = setting("WR_EMULATE_DEVICES", 1);
    return n < 0 ? 0 : n > MAX_DEVICES ? MAX_DEVICES : (int)n;
}

CUcontext current_context(void) { return current.empty() ? nullptr : current.back(); }
static std::atomic<CUresult> the_fault{CUDA_SUCCESS};
CUresult standing(void) { return the_fault; }
void lose_all(CUresult fault) { the_fault = fault; }

bool is_foreign(CUcontext made_in, const char *name, const char *what) {
    if (!made_in || made_in == current_context()) return false;
    refuse(CUDA_ERROR_INVALID_HANDLE, name, "%s of cuda:%d, while cuda:%d is current", what, made_in->device,
           current_context()->device);
    return true;
}

CUresult enter(const char *name, kind k) {
    globals &g = all();
    const std::lock_guard<std::mutex> locked(g.fail_lock);
    g.seen[name]++;
    if (g.fail_at < 0) g.fail_at = getenv("WR_EMULATE_FAIL_NTH") ? atol(getenv("WR_EMULATE_FAIL_NTH")) : 0;
    if (++g.calls != g.fail_at) return CUDA_SUCCESS;
    g.failed = name;
    return k == OTHER ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_LAUNCH_FAILED;
}

CUresult enter_context(const char *name, kind k) {
    if (!current_context()) return refuse(CUDA_ERROR_INVALID_CONTEXT, name, "no context is current");
    const CUresult injected = enter(name, k);
    return injected != CUDA_SUCCESS ? injected : standing();
}

CUresult refuse(CUresult result, const char *name, const char *format, ...) {
    char text[300];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(stderr, "emulate: %s: %s\n", name, text);
    return result;
}

/* ---- memory ---- */

namespace {

size_t up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }
/* All that is mapped for an allocation, and where the allocation begins in it. */
size_t mapped_bytes(size_t bytes) { return up(GUARD + up(bytes, GUARD), PAGE) + PAGE; }
size_t offset_in_map(size_t bytes) { return mapped_bytes(bytes) - PAGE - up(bytes, GUARD); }

u8 *map_memory(size_t bytes) {
    const size_t all_bytes = mapped_bytes(bytes);
    u8 *base = (u8 *)mmap(nullptr, all_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) return nullptr;
    u8 *p = base + offset_in_map(bytes);
    memset(p - GUARD, GUARD_BYTE, GUARD);
    memset(p, FRESH_BYTE, bytes);
    memset(p + bytes, GUARD_BYTE, up(bytes, GUARD) - bytes);
    mprotect(base + all_bytes - PAGE, PAGE, PROT_NONE);
    return p;
}

/* The addresses of the first frees stay closed; there are not enough mappings for all of a long test. */
void unmap_memory(u8 *p, size_t bytes) {
    static int n_closed = 0;
    u8 *base = p - offset_in_map(bytes);
    if (n_closed++ >= 10000 || mmap(base, mapped_bytes(bytes), PROT_NONE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
        munmap(base, mapped_bytes(bytes));
}

void check_guards(const u8 *p, size_t bytes) {
    size_t before = 0, behind = 0;
    for (size_t i = GUARD; i > 0; i--)
        if (p[-(long)i] != GUARD_BYTE) before = i;
    for (size_t i = up(bytes, GUARD) - bytes; i > 0; i--)
        if (p[bytes + i - 1] != GUARD_BYTE) behind = i;
    if (!before && !behind) return;
    fprintf(stderr, "emulate: an allocation of %zu bytes was overrun: byte %zu %s it was written\n", bytes,
            before ? before : behind, before ? "before" : "behind");
    abort();
}

CUresult allocate(const char *name, size_t bytes, memory_kind kind, CUmemoryPool pool, void **out) {
    globals &g = all();
    CUcontext c = current_context();
    if (bytes == 0) return refuse(CUDA_ERROR_INVALID_VALUE, name, "0 bytes");
    if (pool && is_foreign(pool->context, name, "a pool")) return CUDA_ERROR_INVALID_HANDLE;
    const std::lock_guard<std::mutex> locked(g.lock);
    const size_t idle = pool ? pool->reserved - pool->used : 0, fresh = bytes > idle ? bytes - idle : 0;
    if (kind == DEVICE && (bytes > c->total || c->used + c->idle + fresh > c->total)) return CUDA_ERROR_OUT_OF_MEMORY;
    u8 *p = map_memory(bytes);
    if (!p) return CUDA_ERROR_OUT_OF_MEMORY;
    g.memory[p] = {bytes, kind, pool, c};
    if (kind == DEVICE) c->used += bytes;
    if (pool) {
        pool->used += bytes;
        if (pool->used > pool->reserved) pool->reserved = pool->used;
        c->idle -= bytes - fresh;
        if (pool->used > pool->used_high) pool->used_high = pool->used;
        if (pool->reserved > pool->reserved_high) pool->reserved_high = pool->reserved;
    }
    counted([&](wr_emulate_live &l) { l.allocations++, (kind == DEVICE ? l.device_bytes : l.host_bytes) += bytes; });
    *out = p;
    return CUDA_SUCCESS;
}

CUresult give_back(const char *name, void *p, memory_kind kind) {
    globals &g = all();
    const std::lock_guard<std::mutex> locked(g.lock);
    const auto found = g.memory.find((const u8 *)p);
    if (found == g.memory.end() || found->second.kind != kind)
        return refuse(CUDA_ERROR_INVALID_VALUE, name, "%p is not such memory", p);
    const allocation a = found->second;
    check_guards((const u8 *)p, a.bytes);
    g.memory.erase(found);
    if (kind == DEVICE) a.context->used -= a.bytes;
    if (a.pool) a.pool->used -= a.bytes, a.context->idle += a.bytes;
    counted([&](wr_emulate_live &l) { l.allocations--, (kind == DEVICE ? l.device_bytes : l.host_bytes) -= a.bytes; });
    unmap_memory((u8 *)p, a.bytes);
    return CUDA_SUCCESS;
}

} // namespace

static const allocation *find_memory(const void *p, size_t bytes) {
    globals &g = all();
    auto after = g.memory.upper_bound((const u8 *)p);
    if (after == g.memory.begin()) return nullptr;
    --after;
    const size_t offset = (size_t)((const u8 *)p - after->first);
    return offset <= after->second.bytes && bytes <= after->second.bytes - offset ? &after->second : nullptr;
}

bool is_memory(const void *p, size_t bytes) {
    const std::lock_guard<std::mutex> locked(all().lock);
    if (bytes == 0) return true;
    const allocation *a = find_memory(p, bytes);
    return a && (a->kind == PINNED || a->context == current_context());
}

bool is_foreign_memory(const void *p) {
    const std::lock_guard<std::mutex> locked(all().lock);
    const allocation *a = find_memory(p, 1);
    return a && a->kind == DEVICE && a->context != current_context();
}

bool is_pinned(const void *p, size_t bytes) {
    const std::lock_guard<std::mutex> locked(all().lock);
    const allocation *a = find_memory(p, bytes);
    return a && a->kind == PINNED;
}

} // namespace driver

using namespace driver;

/* ---- what tests ask ---- */

extern "C" {

void wr_emulate_fail_nth(long n) {
    globals &g = all();
    const std::lock_guard<std::mutex> locked(g.fail_lock);
    g.calls = 0;
    g.fail_at = n;
    g.failed = nullptr;
}
long wr_emulate_calls(void) {
    const std::lock_guard<std::mutex> locked(all().fail_lock);
    return all().calls;
}
const char *wr_emulate_failed(void) {
    const std::lock_guard<std::mutex> locked(all().fail_lock);
    return all().failed;
}
void wr_emulate_each_call(void (*see)(void *context, const char *name, long n), void *context) {
    const std::lock_guard<std::mutex> locked(all().fail_lock);
    for (const auto &call : all().seen) see(context, call.first, call.second);
}
wr_emulate_live wr_emulate_live_now(void) {
    const std::lock_guard<std::mutex> locked(count.lock);
    return count.live;
}
void wr_emulate_memory(size_t bytes) {
    const std::lock_guard<std::mutex> locked(all().lock);
    for (CUctx_st &c : all().contexts) c.total = bytes;
}
long wr_emulate_launches(void) {
    const std::lock_guard<std::mutex> locked(count.lock);
    return count.launches;
}

/* ---- errors, devices ---- */

static const struct {
    CUresult code;
    const char *name, *text;
} errors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested for launch"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
};

CUresult cuGetErrorName(CUresult error, const char **out) {
    *out = nullptr;
    for (const auto &e : errors)
        if (e.code == error) *out = e.name;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult cuGetErrorString(CUresult error, const char **out) {
    *out = nullptr;
    for (const auto &e : errors)
        if (e.code == error) *out = e.text;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

#define ENTER_ANYWHERE                                                                                                 \
    do {                                                                                                               \
        const CUresult injected_ = enter(__func__, OTHER);                                                             \
        if (injected_ != CUDA_SUCCESS) return injected_;                                                               \
    } while (0)

CUresult cuInit(unsigned flags) {
    ENTER_ANYWHERE;
    return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
CUresult cuDriverGetVersion(int *version) {
    ENTER_ANYWHERE;
    *version = (int)setting("WR_EMULATE_VERSION", 13000);
    return CUDA_SUCCESS;
}
CUresult cuDeviceGetCount(int *n) {
    ENTER_ANYWHERE;
    *n = n_devices();
    return CUDA_SUCCESS;
}
CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    ENTER_ANYWHERE;
    *device = ordinal;
    return is_device(ordinal) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDeviceGetName(char *name, int size, CUdevice device) {
    ENTER_ANYWHERE;
    snprintf(name, (size_t)size, "emulated");
    return is_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
    ENTER_ANYWHERE;
    memcpy(uuid->bytes, "weir emulated 00", 16);
    uuid->bytes[15] = (char)('0' + device);
    return is_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device) {
    ENTER_ANYWHERE;
    const std::lock_guard<std::mutex> locked(all().lock);
    if (is_device(device)) *bytes = all().contexts[device].total;
    return is_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetAttribute(int *out, CUdevice_attribute what, CUdevice device) {
    ENTER_ANYWHERE;
    if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    switch (what) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *out = architecture() / 10; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *out = architecture() % 10; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *out = 4; break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE: *out = 32; break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y: *out = 1024; break;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z: *out = 64; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: *out = 0x7FFFFFFF; break;
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z: *out = 65535; break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR: *out = 2048; break;
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR: *out = 65536; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK: *out = 48 << 10; break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: *out = shared_optin(); break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR: *out = shared_optin() + 1024; break;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK: *out = 1024; break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE: *out = 50 << 20; break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE: *out = 1980000; break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE: *out = 3201000; break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH: *out = 6144; break;
    case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT: *out = 2; break;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM: *out = 1; break;
    default: *out = 0; break;
    }
    return CUDA_SUCCESS;
}

/* ---- contexts ---- */

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
    ENTER_ANYWHERE;
    if (!is_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    const std::lock_guard<std::mutex> locked(all().lock);
    if (standing() != CUDA_SUCCESS) return standing();
    *context = &all().contexts[device];
    (*context)->retained++;
    counted([](wr_emulate_live &l) { l.contexts++; });
    return CUDA_SUCCESS;
}
CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
    const CUresult injected = enter(__func__, GIVES_BACK);
    const std::lock_guard<std::mutex> locked(all().lock);
    if (!is_device(device) || all().contexts[device].retained == 0)
        return refuse(CUDA_ERROR_INVALID_CONTEXT, __func__, "released more often than retained");
    all().contexts[device].retained--;
    counted([](wr_emulate_live &l) { l.contexts--; });
    return injected;
}
CUresult cuDevicePrimaryCtxReset(CUdevice device) {
    ENTER_ANYWHERE;
    return is_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuCtxSetCurrent(CUcontext context) {
    ENTER_ANYWHERE;
    if (!current.empty()) current.pop_back();
    if (context) current.push_back(context);
    return CUDA_SUCCESS;
}
CUresult cuCtxGetCurrent(CUcontext *context) {
    ENTER_ANYWHERE;
    *context = current_context();
    return CUDA_SUCCESS;
}
CUresult cuCtxPushCurrent(CUcontext context) {
    ENTER_ANYWHERE;
    if (!context || context->retained == 0)
        return refuse(CUDA_ERROR_INVALID_CONTEXT, __func__, "the context is not open");
    current.push_back(context);
    return CUDA_SUCCESS;
}
CUresult cuCtxPopCurrent(CUcontext *context) {
    const CUresult injected = enter(__func__, GIVES_BACK);
    if (current.empty()) return refuse(CUDA_ERROR_INVALID_CONTEXT, __func__, "no context is current");
    if (context) *context = current.back();
    current.pop_back();
    return injected;
}

/* ---- modules ---- */

/* nvcc's images are containers of code, each for one kind of card; what others make is taken as it is. */
static bool has_code(const void *image) {
    struct {
        u32 magic;
        u16 version, head_bytes;
        u64 bytes;
    } outer;
    struct {
        u16 kind, version;
        u32 head_bytes;
        u64 bytes;
        u32 more[3], architecture;
    } code;
    const u8 *p = (const u8 *)image;
    memcpy(&outer, p, sizeof(outer));
    if (outer.magic != 0xBA55ED50u) return true;
    const u8 *end = p + outer.head_bytes + outer.bytes;
    for (p += outer.head_bytes; p < end; p += code.head_bytes + code.bytes) {
        memcpy(&code, p, sizeof(code));
        const int built = (int)code.architecture;
        if (built / 10 == architecture() / 10 && built <= architecture()) return true;
    }
    return false;
}

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
    ENTER(OTHER);
    if (!image) return CUDA_ERROR_INVALID_VALUE;
    if (setting("WR_EMULATE_IMAGES", 0) && !has_code(image)) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    *module = new CUmod_st;
    (*module)->context = current_context();
    counted([](wr_emulate_live &l) { l.modules++; });
    return CUDA_SUCCESS;
}
CUresult cuModuleUnload(CUmodule module) {
    const CUresult injected = enter_context(__func__, GIVES_BACK);
    if (!module) return CUDA_ERROR_INVALID_HANDLE;
    delete module;
    counted([](wr_emulate_live &l) { l.modules--; });
    return injected;
}
CUresult cuModuleGetFunction(CUfunction *out, CUmodule module, const char *name) {
    ENTER(OTHER);
    const wr_emu_kernel *kernel = wr_emulate_find(name);
    if (!kernel) return CUDA_ERROR_NOT_FOUND;
    const std::lock_guard<std::mutex> locked(all().lock);
    std::unique_ptr<CUfunc_st> &f = module->functions[name];
    if (!f) f.reset(new CUfunc_st{module->context, kernel, 48 << 10});
    *out = f.get();
    return CUDA_SUCCESS;
}
CUresult cuFuncLoad(CUfunction f) {
    ENTER(OTHER);
    return f ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
CUresult cuFuncGetParamInfo(CUfunction f, size_t i, size_t *offset, size_t *bytes) {
    ENTER(OTHER);
    const size_t one = takes_words(f) ? 8 : f->kernel->params_bytes;
    if (i >= f->kernel->params_bytes / one) return CUDA_ERROR_INVALID_VALUE;
    *offset = i * one;
    *bytes = one;
    return CUDA_SUCCESS;
}
CUresult cuFuncGetAttribute(int *out, CUfunction_attribute what, CUfunction f) {
    ENTER(OTHER);
    switch (what) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: *out = f->kernel->max_threads; break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: *out = 32; break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION: *out = architecture(); break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: *out = f->max_dynamic; break;
    default: *out = 0; break; /* static shared memory is known only when the kernel runs; the engine checks the sum */
    }
    return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute what, int value) {
    ENTER(OTHER);
    if (what == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
        if (value < 0 || value > shared_optin()) return refuse(CUDA_ERROR_INVALID_VALUE, __func__, "%d bytes", value);
        f->max_dynamic = value;
    }
    return CUDA_SUCCESS;
}

/* ---- memory ---- */

CUresult cuMemGetInfo(size_t *free_bytes, size_t *total) {
    ENTER(OTHER);
    const std::lock_guard<std::mutex> locked(all().lock);
    const CUcontext c = current_context();
    const size_t used = c->used + c->idle;
    *total = c->total;
    *free_bytes = used < c->total ? c->total - used : 0;
    return CUDA_SUCCESS;
}
CUresult cuMemAlloc(CUdeviceptr *out, size_t bytes) {
    ENTER(OTHER);
    return allocate(__func__, bytes, DEVICE, nullptr, (void **)out);
}
CUresult cuMemFree(CUdeviceptr p) {
    const CUresult injected = enter_context(__func__, GIVES_BACK);
    if (injected == CUDA_ERROR_INVALID_CONTEXT) return injected;
    if (!p) return injected;
    drain_all();
    const CUresult result = give_back(__func__, (void *)p, DEVICE);
    return result != CUDA_SUCCESS ? result : injected;
}
CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned) {
    ENTER(OTHER);
    return allocate(__func__, bytes, PINNED, nullptr, out);
}
CUresult cuMemFreeHost(void *p) {
    const CUresult injected = enter_context(__func__, GIVES_BACK);
    if (injected == CUDA_ERROR_INVALID_CONTEXT) return injected;
    drain_all();
    const CUresult result = give_back(__func__, p, PINNED);
    return result != CUDA_SUCCESS ? result : injected;
}

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props) {
    ENTER(OTHER);
    if (props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED || props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return refuse(CUDA_ERROR_INVALID_VALUE, __func__, "only pinned memory of the device");
    if (!is_device(props->location.id)) return CUDA_ERROR_INVALID_DEVICE;
    *pool = new CUmemPoolHandle_st();
    (*pool)->context = &all().contexts[props->location.id];
    counted([](wr_emulate_live &l) { l.pools++; });
    return CUDA_SUCCESS;
}
CUresult cuMemPoolDestroy(CUmemoryPool pool) {
    const CUresult injected = enter_context(__func__, GIVES_BACK);
    if (!pool) return CUDA_ERROR_INVALID_HANDLE;
    drain_all();
    {
        const std::lock_guard<std::mutex> locked(all().lock);
        if (pool->used) refuse(CUDA_SUCCESS, __func__, "%zu bytes are still in use", pool->used);
        pool->context->idle -= pool->reserved - pool->used;
        for (auto &m : all().memory)
            if (m.second.pool == pool) m.second.pool = nullptr;
    }
    delete pool;
    counted([](wr_emulate_live &l) { l.pools--; });
    return injected;
}
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device) {
    ENTER_ANYWHERE;
    static CUmemPoolHandle_st fallback[MAX_DEVICES];
    if (is_device(device)) {
        *pool = &fallback[device];
        (*pool)->context = &all().contexts[device];
    }
    return is_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t least) {
    ENTER(OTHER);
    const std::lock_guard<std::mutex> locked(all().lock);
    const size_t keep = pool->used > least ? pool->used : least;
    if (pool->reserved > keep) {
        pool->context->idle -= pool->reserved - keep;
        pool->reserved = keep;
    }
    return CUDA_SUCCESS;
}
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute what, void *out) {
    ENTER(OTHER);
    const std::lock_guard<std::mutex> locked(all().lock);
    switch (what) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: *(cuuint64_t *)out = pool->threshold; break;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT: *(cuuint64_t *)out = pool->used; break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: *(cuuint64_t *)out = pool->used_high; break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT: *(cuuint64_t *)out = pool->reserved; break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: *(cuuint64_t *)out = pool->reserved_high; break;
    default: return refuse(CUDA_ERROR_NOT_SUPPORTED, __func__, "attribute %d", (int)what);
    }
    return CUDA_SUCCESS;
}
CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute what, void *value) {
    ENTER(OTHER);
    const std::lock_guard<std::mutex> locked(all().lock);
    switch (what) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD: pool->threshold = *(cuuint64_t *)value; break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH: pool->used_high = pool->used; break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: pool->reserved_high = pool->reserved; break;
    default: break; /* reuse policies */
    }
    return CUDA_SUCCESS;
}
/* Frees given to the stream before count as done. */
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t bytes, CUmemoryPool pool, CUstream stream) {
    ENTER_STREAM(OTHER, stream);
    if (!pool) return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = allocate(__func__, bytes, DEVICE, pool, (void **)out);
    if (result != CUDA_ERROR_OUT_OF_MEMORY) return result;
    drain(stream_of(stream));
    return allocate(__func__, bytes, DEVICE, pool, (void **)out);
}
CUresult cuMemAllocAsync(CUdeviceptr *out, size_t bytes, CUstream stream) {
    ENTER_STREAM(OTHER, stream);
    CUresult result = allocate(__func__, bytes, DEVICE, nullptr, (void **)out);
    if (result != CUDA_ERROR_OUT_OF_MEMORY) return result;
    drain(stream_of(stream));
    return allocate(__func__, bytes, DEVICE, nullptr, (void **)out);
}
CUresult cuMemFreeAsync(CUdeviceptr p, CUstream stream) {
    const CUresult injected = enter_context(__func__, GIVES_BACK);
    if (injected == CUDA_ERROR_INVALID_CONTEXT) return injected;
    if (!is_memory((void *)p, 1)) return refuse(CUDA_ERROR_INVALID_VALUE, __func__, "%p is not memory", (void *)p);
    submit(stream_of(stream), [p] { give_back("cuMemFreeAsync", (void *)p, DEVICE); });
    return injected;
}

/* ---- copies. Pageable memory of the host is read, or written, before the call returns, as a card does ---- */

static CUresult check_range(const char *name, CUdeviceptr p, size_t bytes) {
    return is_memory((void *)p, bytes) ? CUDA_SUCCESS
                                       : refuse(CUDA_ERROR_INVALID_VALUE, name,
                                                "%zu bytes at %p are not inside an allocation", bytes, (void *)p);
}
#define CHECK(p, bytes)                                                                                                \
    do {                                                                                                               \
        const CUresult range_ = check_range(__func__, p, bytes);                                                       \
        if (range_ != CUDA_SUCCESS) return range_;                                                                     \
    } while (0)

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    ENTER_STREAM(OTHER, stream);
    CHECK(to, bytes);
    if (is_pinned(from, bytes)) {
        submit(stream_of(stream), [=] { memcpy((void *)to, from, bytes); });
    } else {
        auto staged = std::make_shared<std::vector<u8>>((const u8 *)from, (const u8 *)from + bytes);
        submit(stream_of(stream), [=] { memcpy((void *)to, staged->data(), bytes); });
    }
    return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    ENTER_STREAM(OTHER, stream);
    CHECK(from, bytes);
    submit(stream_of(stream), [=] { memcpy(to, (void *)from, bytes); });
    if (is_pinned(to, bytes)) return CUDA_SUCCESS;
    drain(stream_of(stream));
    return standing();
}
CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    ENTER_STREAM(OTHER, stream);
    CHECK(to, bytes);
    CHECK(from, bytes);
    submit(stream_of(stream), [=] { memmove((void *)to, (void *)from, bytes); });
    return CUDA_SUCCESS;
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
    ENTER_STREAM(OTHER, stream);
    CHECK(to, bytes);
    submit(stream_of(stream), [=] { memset((void *)to, value, bytes); });
    return CUDA_SUCCESS;
}
CUresult cuMemcpyHtoD(CUdeviceptr to, const void *from, size_t bytes) {
    ENTER(OTHER);
    CHECK(to, bytes);
    memcpy((void *)to, from, bytes);
    return CUDA_SUCCESS;
}
CUresult cuMemcpyDtoH(void *to, CUdeviceptr from, size_t bytes) {
    ENTER(OTHER);
    CHECK(from, bytes);
    memcpy(to, (void *)from, bytes);
    return CUDA_SUCCESS;
}
CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, size_t bytes) {
    ENTER(OTHER);
    CHECK(to, bytes);
    memset((void *)to, value, bytes);
    return CUDA_SUCCESS;
}

} // extern "C"
